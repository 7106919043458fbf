//! Composition by one forward Fourier transform of the tilted masses, with an a-posteriori rounding bound (docs/proofs/accounting-pld.md, "Transform").
//!
//! The periodic sum counts every true term at least once and adds only non-negative copies, so the result is an
//! upper bound for every window length. Rounding is relative to the *tilted* measure: δ = 1e-30 costs nothing extra.

use super::lattice::Lattice;
use super::low_frequencies::{self, Tilted, shift_phase};
use super::pair::U;
use super::parallel;
use dpopt_process::stop::{paced, point};
use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::LocalKey;

/// Frequencies with |F| below e^-60 are replaced by that bound.
const DROPPED: f64 = -60.0;
/// Rounding of one transform output per u·log2 N, in units of the input's l1 norm; measured below 0.4.
const FFT_CONSTANT: f64 = 16.0;
/// Above this many frequencies one inverse transform is cheaper than sums at a few points.
const MANY: usize = 4096;
/// One term of some sums costs about as much as so many point·log₂(point)s of an inverse transform.
const SUMMED: f64 = 128.0;

/// The composed loss at tilt λ, ready to be read at any lattice point.
#[derive(Debug)]
pub(crate) struct Spectrum {
    step: f64,
    points: usize,
    lambda: f64,
    /// K(λ) = Σ T ln Σ p e^(λ loss).
    cumulant: f64,
    reading: Reading,
    /// (1/N)·Σ of error terms, to be multiplied by e^(K − λjΔ).
    error: f64,
    /// ln of the factor that covers rounding of the exponentials.
    ln_inflation: f64,
    /// Probability that some draw has an infinite loss, rounded up.
    pub infinite: f64,
    /// How much larger the composed loss may be than the lattice says: Σ T·(rounding of one loss).
    pub loss_error: f64,
}

#[derive(Debug)]
enum Reading {
    /// (frequency, F·G, weight 1 or 2 for the conjugate).
    Sum(Vec<(u64, Complex<f64>)>),
    /// The value of that sum at every lattice point of the window.
    Table(Vec<f64>),
}

thread_local! {
    static FORWARD: Plans<dyn RealToComplex<f64>> = Plans::default();
    static INVERSE: Plans<dyn ComplexToReal<f64>> = Plans::default();
}

type Plans<T> = RefCell<HashMap<usize, Arc<T>>>;

/// Plans up to this length are kept for the next call; of longer ones the last, as a cache of all would grow without limit.
const KEPT_PLANS: usize = 1 << 18;

/// The plan of a length, always from a fresh planner: a planner that has made others takes them as parts, and then the last
/// bits of an answer would depend on what this thread has answered before.
fn planned<T: ?Sized>(
    plans: &'static LocalKey<Plans<T>>,
    points: usize,
    make: fn(&mut RealFftPlanner<f64>, usize) -> Arc<T>,
) -> Arc<T> {
    let fresh = || make(&mut RealFftPlanner::new(), points);
    plans.with(|kept| {
        let mut kept = kept.borrow_mut();
        if points > KEPT_PLANS {
            kept.retain(|length, _| *length <= KEPT_PLANS || *length == points);
        }
        kept.entry(points).or_insert_with(fresh).clone()
    })
}

/// Smallest even 2^a·3^b·5^c that is at least `n`.
pub(crate) fn fast_size(n: usize) -> usize {
    let n = n.max(16);
    let mut best = n.next_power_of_two();
    for factor in [3, 5, 9, 15, 25, 27, 45, 75, 81, 125] {
        let size = factor * n.div_ceil(factor).next_power_of_two();
        if size.is_multiple_of(2) && size < best {
            best = size;
        }
    }
    best
}

/// One part of the composition: masses on the lattice and how often they are drawn.
pub(crate) type Part = (Lattice, u64);

/// Parts whose spectra are multiplied one after the other; more of them on several cores.
const CHUNK: usize = 256;

/// A frequency that is not negligible: index, ln|F|, ln of the upper bound of |F|, phase.
type Kept = (usize, f64, f64, f64);

/// Spectra of some parts, multiplied.
#[derive(Default)]
struct Product {
    /// Σ T ln(1 + rounding): how far above one |F| can come out.
    ln_growth: f64,
    kept: Vec<Kept>,
}

/// A part under the tilt, with ln Σ p e^(λ loss).
fn tilted(part: &Part, lambda: f64) -> (Tilted<'_>, f64) {
    let (lattice, count) = part;
    let exponent = |i: usize| lambda * (lattice.index[i] as f64 * lattice.step);
    let points = 0..lattice.mass.len();
    let top = points.clone().filter(|&i| lattice.mass[i] != 0.0).map(exponent).fold(f64::NEG_INFINITY, f64::max);
    // beyond the last mass the exponential may overflow; a NaN must stay one
    let weight = |i: usize| if lattice.mass[i] != 0.0 { lattice.mass[i] * (exponent(i) - top).exp() } else { 0.0 };
    let mut weight: Vec<f64> = points.map(weight).collect();
    let sum: f64 = weight.iter().sum();
    weight.iter_mut().for_each(|w| *w /= sum);
    (Tilted { index: &lattice.index, weight, count: *count }, top + sum.ln())
}

/// The transform of one part: values at some frequencies with a bound on their rounding, and the frequency's phase that is known apart.
enum Transform {
    /// All frequencies, by a fast Fourier transform.
    All(Vec<Complex<f64>>, f64),
    /// The first ones, about a centre.
    Few(Vec<(Complex<f64>, f64)>, i64),
}

impl Transform {
    fn all(part: &Tilted, points: usize) -> Self {
        let fft = planned(&FORWARD, points, RealFftPlanner::plan_fft_forward);
        let mut input = fft.make_input_vec();
        let mut output = fft.make_output_vec();
        let modulus = points as i64;
        for (k, w) in part.index.iter().zip(&part.weight) {
            input[k.rem_euclid(modulus) as usize] += w;
        }
        // lengths agree by construction, so the transform cannot fail
        if fft.process(&mut input, &mut output).is_err() {
            output.fill(Complex::new(1.0, 0.0));
        }
        let span = part.index[part.index.len() - 1] - part.index[0];
        let folds = (span as f64 / points as f64).ceil();
        Self::All(output, (FFT_CONSTANT * (points as f64).log2() + folds + 8.0) * U)
    }

    fn frequencies(&self) -> usize {
        match self {
            Self::All(values, _) => values.len(),
            Self::Few(values, _) => values.len(),
        }
    }

    /// Largest rounding of a value.
    fn error(&self) -> f64 {
        match self {
            Self::All(_, error) => *error,
            Self::Few(values, _) => values.last().map_or(0.0, |v| v.1),
        }
    }

    /// F^count at frequency `k`: ln of its size, ln of an upper bound of it, phase; `None` where |F| is below `least` for sure.
    fn power(&self, k: usize, count: u64, points: usize, least: f64) -> Option<(f64, f64, f64)> {
        let (f, error, shift) = match self {
            Self::All(values, error) => (values[k], *error, 0.0),
            Self::Few(values, centre) => (values[k].0, values[k].1, shift_phase(k, *centre, count, points)),
        };
        let t = count as f64;
        let threshold = least - error;
        let square = f.norm_sqr();
        if threshold > 0.0 && square < threshold * threshold {
            return None;
        }
        let size = square.sqrt();
        let upper = (size + error).ln();
        // the second term: rounding of logarithms and phases
        Some((t * size.ln(), t * upper + (16.0 * t + 32.0) * U, t * f.arg() + shift))
    }
}

impl Product {
    /// `few`: the centres of the parts and how many frequencies there are to look at, if not all.
    fn new(parts: &[(&Tilted, i64)], few: Option<usize>, points: usize) -> Self {
        let mut ln_growth = 0.0;
        let mut kept: Vec<Kept> = Vec::new();
        for (number, (part, centre)) in paced(parts.iter().enumerate()) {
            let transform = match few {
                Some(needed) => Transform::Few(low_frequencies::sums(part, *centre, points, needed), *centre),
                None => Transform::all(part, points),
            };
            // weights add up to one within their own rounding
            let rounding = 8.0 * (part.weight.len() + 8) as f64 * U;
            ln_growth += part.count as f64 * (transform.error() + rounding);
            let least = (DROPPED / part.count as f64).exp();
            let power = |k: usize| transform.power(k, part.count, points, least);
            if number == 0 {
                kept.extend((0..transform.frequencies()).filter_map(|k| power(k).map(|(a, b, c)| (k, a, b, c))));
            } else {
                kept.retain_mut(|entry| match power(entry.0) {
                    Some((size, upper, phase)) => {
                        entry.1 += size;
                        entry.2 += upper;
                        entry.3 = (entry.3 + phase).rem_euclid(std::f64::consts::TAU);
                        true
                    }
                    None => false,
                });
            }
            // a NaN stays: it certifies nothing
            kept.retain(|entry| !(entry.2 < DROPPED));
        }
        Self { ln_growth, kept }
    }

    fn times(self, other: Self) -> Self {
        let mut theirs = other.kept.into_iter().peekable();
        let mut kept = self.kept;
        kept.retain_mut(|entry| {
            while theirs.next_if(|t| t.0 < entry.0).is_some() {}
            let Some(t) = theirs.next_if(|t| t.0 == entry.0) else { return false };
            entry.1 += t.1;
            entry.2 += t.2;
            entry.3 = (entry.3 + t.3).rem_euclid(std::f64::consts::TAU);
            !(entry.2 < DROPPED)
        });
        Self { ln_growth: self.ln_growth + other.ln_growth, kept }
    }
}

impl Spectrum {
    /// All lattices must have the same step; `points` even.
    pub fn new(parts: &[Part], lambda: f64, points: usize) -> Self {
        Self::transformed(parts, lambda, points, |laws, centres| low_frequencies::few(laws, centres, points, -DROPPED))
    }

    /// `few` says how many frequencies are enough, if not all.
    fn transformed(
        parts: &[Part],
        lambda: f64,
        points: usize,
        few: impl Fn(&[Tilted], &[i64]) -> Option<usize>,
    ) -> Self {
        let step = parts[0].0.step;
        let (mut cumulant, mut ln_finite, mut loss_error, mut ln_inflation) = (0.0, 0.0f64, 0.0, 0.0);
        let borrowed: Vec<&Part> = parts.iter().collect();
        let tilts = parallel::map(&borrowed, |part| tilted(part, lambda));
        for ((lattice, count), (_, ln_moment)) in parts.iter().zip(&tilts) {
            let t = *count as f64;
            cumulant += t * ln_moment;
            // of the sum over the parts
            ln_inflation += parts.len() as f64 * (t * ln_moment).abs() * U;
            // 1 − Π(1 − m)^T, by logarithms
            ln_finite += t * (-lattice.infinite.min(1.0)).ln_1p() * (1.0 + 8.0 * U);
            loss_error += t * lattice.loss_error;
            // the exponentials' rounding; one sum both normalises and enters K, so its error cancels
            let ends = [lattice.index[0], lattice.index[lattice.index.len() - 1]];
            let largest = ends.iter().map(|k| (lambda * (*k as f64 * step)).abs()).fold(0.0, f64::max);
            ln_inflation += t * (4.0 * largest + 8.0) * U;
        }
        let laws: Vec<Tilted> = tilts.into_iter().map(|(tilted, _)| tilted).collect();
        let centres = parallel::map(&laws, low_frequencies::centre);
        let few = few(&laws, &centres);
        let laws: Vec<_> = laws.iter().zip(centres).collect();
        // chunks of one length whatever the machine, so that sums have the same bits everywhere
        let chunks: Vec<_> = laws.chunks(CHUNK).collect();
        let products = parallel::each(&chunks, |chunk| Product::new(chunk, few, points));
        let Product { ln_growth, kept } = products.into_iter().reduce(Product::times).unwrap_or_default();
        let weight = Weight::new(lambda, step);
        // |G| is largest at frequency 0; the e^-60 bound holds for each of the N frequencies
        let largest = weight.at(0.0).norm();
        let mut error = (DROPPED + ln_growth).exp() * largest * points as f64;
        let mut size_sum = 0.0;
        let mut terms = Vec::with_capacity(kept.len());
        for (k, ln_size, ln_upper, phase) in kept {
            let theta = std::f64::consts::TAU * k as f64 / points as f64;
            let g = weight.at(theta);
            let multiplicity = if k == 0 || 2 * k == points { 1.0 } else { 2.0 };
            let (size, largest) = (ln_size.exp(), g.norm() * multiplicity);
            size_sum += size * largest;
            // upper bound of |F| minus |F|
            error += -(ln_size - ln_upper).exp_m1() * ln_upper.exp() * largest;
            terms.push((k as u64, Complex::from_polar(size, phase) * g * multiplicity));
        }
        let n = terms.len();
        let transform = points as f64 * (points as f64).log2();
        let (reading, summation) = if n <= MANY && n as f64 * SUMMED <= transform {
            (Reading::Sum(terms), n as f64 + 32.0)
        } else {
            (Reading::Table(table(&terms, points)), FFT_CONSTANT * (points as f64).log2() + 32.0)
        };
        error += summation * U * size_sum;
        Self {
            step,
            points,
            lambda,
            cumulant,
            reading,
            error: error / points as f64,
            ln_inflation,
            infinite: -ln_finite.exp_m1() * (1.0 + 4.0 * U * parts.len() as f64),
            loss_error,
        }
    }

    /// ln e^(K − λ(j+1)Δ) rounded up.
    fn ln_scale(&self, j: i64) -> f64 {
        let shift = self.lambda * ((j + 1) as f64 * self.step);
        self.cumulant - shift + self.ln_inflation + (4.0 * self.cumulant.abs() + 4.0 * shift.abs() + 16.0) * U
    }

    /// Upper bound on δ(jΔ) without the mass at +∞, and how much of it is rounding.
    pub fn delta(&self, j: i64) -> (f64, f64) {
        point();
        let value = match &self.reading {
            Reading::Table(table) => table[j.rem_euclid(self.points as i64) as usize],
            Reading::Sum(terms) => {
                let j = j.rem_euclid(self.points as i64) as u64;
                let turn = std::f64::consts::TAU / self.points as f64;
                let sum: f64 = terms
                    .iter()
                    .map(|(k, value)| {
                        let (sin, cos) = (turn * ((j * k) % self.points as u64) as f64).sin_cos();
                        value.re * cos - value.im * sin
                    })
                    .sum();
                sum / self.points as f64
            }
        };
        let scale = self.ln_scale(j).exp();
        // negative only through rounding
        let (above, rounding) = ((value.max(0.0) + self.error) * scale, self.error * scale);
        // far outside the window the scale overflows: nothing is known there
        if above.is_nan() { (f64::INFINITY, f64::INFINITY) } else { (above, rounding) }
    }

    /// Lower bound on the periodic sum at jΔ: the rounding subtracted instead of added. Aliases are still in it.
    pub fn delta_lower(&self, j: i64) -> f64 {
        let (above, rounding) = self.delta(j);
        // the upper value is (sum + error)·e^(inflation): take both off
        let lower = (above - 2.0 * rounding) * (-2.0 * self.ln_inflation - 1e-12).exp();
        if lower.is_finite() { lower } else { f64::NEG_INFINITY }
    }

    /// Rényi (Chernoff) bound of the lattice at the tilt: ε at δ, without the mass at +∞.
    pub fn renyi_epsilon(&self, delta: f64) -> f64 {
        let l = self.lambda;
        // max over u of (1 − e^−u)e^(−λu) = λ^λ/(1+λ)^(1+λ)
        let constant = -l * (1.0 / l).ln_1p() - l.ln_1p();
        let ln = self.cumulant + self.ln_inflation + (8.0 * self.cumulant.abs() + 16.0) * U;
        (ln + constant - delta.ln()) / l * (1.0 + 4.0 * U)
    }

    /// Rényi (Chernoff) bound of the lattice at the tilt: δ at ε, without the mass at +∞.
    pub fn renyi_delta(&self, epsilon: f64) -> f64 {
        let l = self.lambda;
        let constant = -l * (1.0 / l).ln_1p() - l.ln_1p();
        let ln = self.cumulant + self.ln_inflation;
        (ln + constant - l * epsilon + (8.0 * self.cumulant.abs() + 8.0 * (l * epsilon).abs() + 16.0) * U).exp()
    }
}

/// G = Σ_m≥1 (1 − e^(−mΔ)) z^m = z(1 − e^−Δ)/((1−z)(1−ze^−Δ)) at z = e^(a + iθ), with b = a − Δ; without its factor e^a,
/// which underflows at an extreme tilt and is kept in [`Spectrum::ln_scale`].
struct Weight {
    numerator: f64,
    /// (e^c − 1, e^c) for c = a and c = b.
    growths: [(f64, f64); 2],
}

impl Weight {
    fn new(lambda: f64, step: f64) -> Self {
        let growth = |c: f64| (c.exp_m1(), c.exp());
        let growths = [growth(-lambda * step), growth(-(lambda + 1.0) * step)];
        Self { numerator: -(-step).exp_m1(), growths }
    }

    fn at(&self, theta: f64) -> Complex<f64> {
        let half = (0.5 * theta).sin();
        let (sin, cos) = theta.sin_cos();
        // 1 − e^(c+iθ), by a complex expm1
        let one_minus = |(m1, e): (f64, f64)| Complex::new(-(m1 * cos - 2.0 * half * half), -e * sin);
        let [a, b] = self.growths;
        Complex::new(cos, sin) * self.numerator / (one_minus(a) * one_minus(b))
    }
}

/// Inverse transform of F·G over N: the reading at every lattice point.
fn table(terms: &[(u64, Complex<f64>)], points: usize) -> Vec<f64> {
    let inverse = planned(&INVERSE, points, RealFftPlanner::plan_fft_inverse);
    let mut spectrum = inverse.make_input_vec();
    for &(k, value) in terms {
        let k = k as usize;
        // the inverse adds the conjugate itself
        spectrum[k] = if k == 0 || 2 * k == points { Complex::new(value.re, 0.0) } else { value * 0.5 };
    }
    let mut out = inverse.make_output_vec();
    if inverse.process(&mut spectrum, &mut out).is_err() {
        // cannot happen (lengths agree and the end terms are real); infinite readings certify nothing
        out.fill(f64::INFINITY);
    }
    out.iter().map(|x| x / points as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(step: f64, up: i64) -> Lattice {
        let p = 1.0 / (1.0 + (-(up as f64) * step).exp());
        Lattice { step, index: vec![-up, up], mass: vec![1.0 - p, p], infinite: 0.0, loss_error: 0.0 }
    }

    /// Optimal composition of pure mechanisms (Kairouz, Oh, Viswanath 2015).
    #[test]
    fn composed_coins() {
        for (k, e, at, value) in [
            (10, 0.1, 0.5, 0.009929626917389),
            (1000, 0.01, 1.0, 1.083117054514e-4),
            (30, 0.5, 10.0, 0.002196183357715),
        ] {
            let step = e / 20.0;
            // the saddle point, as the accountant chooses it: K'(λ) − ε = 1/λ + 1/(1+λ)
            let (mut low, mut high) = (0.0f64, 1e3);
            for _ in 0..60 {
                let l = 0.5 * (low + high);
                let mean = k as f64 * e * ((l + 0.5) * e).tanh();
                if mean - at > 1.0 / l + 1.0 / (1.0 + l) { high = l } else { low = l }
            }
            let spectrum = Spectrum::new(&[(coin(step, 20), k)], low, fast_size(1 << 16));
            let (got, error) = spectrum.delta((at / step + 0.5) as i64);
            assert!(got >= value * (1.0 - 1e-11) && got < value * (1.0 + 1e-9), "{k}: {got} {value}");
            assert!(error < 1e-9 * value);
        }
    }

    /// Few frequencies and the whole transform say the same, within the rounding that both admit.
    #[test]
    fn few_frequencies_agree_with_all() {
        let law = |width: f64, skew: f64| {
            let index: Vec<i64> = (-400..=1200).collect();
            let size = |k: &i64| (-(*k as f64 / width).powi(2) / 2.0).exp() + skew / (1.0 + (*k as f64 / 80.0).powi(4));
            let raw: Vec<f64> = index.iter().map(size).collect();
            let sum: f64 = raw.iter().sum();
            Lattice { step: 1e-3, index, mass: raw.iter().map(|m| m / sum).collect(), infinite: 0.0, loss_error: 0.0 }
        };
        for (parts, lambda) in [
            (vec![(law(60.0, 0.0), 1500)], 3.0),
            (vec![(law(60.0, 0.01), 40_000)], 0.4),
            (vec![(law(50.0, 0.01), 900), (law(70.0, 0.1), 700)], 2.0),
        ] {
            let points = 1 << 16;
            let few = Spectrum::new(&parts, lambda, points);
            let all = Spectrum::transformed(&parts, lambda, points, |_, _| None);
            assert!(matches!(&few.reading, Reading::Sum(terms) if terms.len() < 300));
            let mut compared = 0;
            for j in (0..points as i64).step_by(997) {
                let ((a, rounding), (b, other)) = (few.delta(j), all.delta(j));
                assert!((a - b).abs() <= rounding + other + 1e-12 * b, "{j}: {a} {b} {rounding} {other}");
                compared += usize::from(rounding < 1e-6 * a);
            }
            assert!(compared > 2, "{compared}");
        }
    }

    /// What is no number anywhere certifies nothing.
    #[test]
    fn a_nan_is_not_lost() {
        for count in [1, 1000, 100_000_000] {
            let mut law = coin(0.05, 2);
            law.mass[1] = f64::NAN;
            let spectrum = Spectrum::new(&[(coin(0.05, 2), 10), (law, count)], 1.0, 1024);
            assert!((0..40).all(|j| !(spectrum.delta(j).0 < 1.0)), "{count}");
        }
    }

    /// A window far too short still gives an upper bound.
    #[test]
    fn aliasing_only_raises_delta() {
        let parts = [(coin(0.05, 2), 30)];
        let exact = Spectrum::new(&parts, 2.0, 1024);
        for points in [16, 32, 48, 64] {
            let short = Spectrum::new(&parts, 2.0, points);
            for j in 0..60 {
                assert!(short.delta(j).0 >= exact.delta(j).0 * (1.0 - 1e-10));
            }
        }
    }

    #[test]
    fn sizes_are_fast_and_even() {
        for n in [1, 17, 1000, 65_537, 100_001] {
            let m = fast_size(n);
            assert!(m >= n && m.is_multiple_of(2) && (m as f64) < 1.3 * n.max(16) as f64, "{n} {m}");
        }
    }

    #[test]
    fn renyi_bound_is_above() {
        let s = Spectrum::new(&[(coin(0.05, 2), 100)], 4.0, 1024);
        for j in [20, 60, 100] {
            assert!(s.renyi_delta(j as f64 * 0.05) >= s.delta(j).0 * (1.0 - 1e-9));
        }
    }
}
