//! Restricted Gaussian oracle A: a randomly truncated power series of the density ratio, a few terms of the data per
//! proposal (Liu 2024, Algorithms 14 and 16). Optimal in the number of queries; the step is short,
//! 1/(ηg_0²) = 162 at a distance of 1e-6.
//!
//! x, z independent from 𝒢 as in [`super::ratio`]; ρ = 1 + Σ_(b ≤ a) Π_(i ≤ b) (f_(j_i)(z) − f_(j_i)(x)) with P(a ≥ b) = 1/b!;
//! x is accepted if u ≤ ρ/2. E ρ is the exact ratio, and the error is what the cut of ρ to [0, 2] loses, and the cut of a.
//! Thesis Algorithm 16 prints P(a ≥ b) = 1/b: the mean of a is then infinite and that of ρ another one.
//!
//! Covers: thesis algorithm 14, algorithm 16, theorem 3.2.3, theorem 3.5.6, proposition 5.4.7 (part: with a bound on its distance, for tests; methods take an exact oracle)

use super::{Exhausted, Proximal, Tally};
use crate::sampler::domain::rounded;
use crate::sampler::potential::Potential;
use crate::sampler::wide::Wide;
use dpopt_noise::Stream;
use dpopt_privacy::special::erfcx;
use std::f64::consts::PI;

/// Which indices the products of one series have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// The first b of the same a indices. Products of one series then depend on each other, which no mean notices.
    Prefix,
    /// Fresh indices for each product, as Liu 2024, Algorithm 16 prints it.
    Fresh,
}

/// a is at most this: P(a > 25) = 2.5e-27, and what that changes is part of the bound.
pub const LONGEST: u32 = 25;

/// Bound on the total-variation error of one draw at v = η·g_0², rounded up.
///
/// For a fixed j the difference of f_j between x and z is sub-Gaussian with variance 2v, so that P(|Δ| > t) ≤ 2e^(−t²/(4v)). With
/// N differences of a series of length m, M the largest, ρ is cut by at most (M + … + M^m − 1)₊, and the mean of that over
/// P(M > t) ≤ min(1, 2N·e^(−t²/(4v))) has a closed form by Γ(b/2, ·).
pub fn total_variation(v: f64, products: Products) -> f64 {
    if !(v > 0.0) {
        return f64::INFINITY;
    }
    // grows with v, and what follows would underflow far below
    let v = v.max(1e-20);
    let mut bound = 0.0;
    for m in 1..=LONGEST {
        // P(a = m) = m/(m + 1)!; all that is longer counts as the longest
        let probability = if m < LONGEST { f64::from(m) / factorial(m + 1) } else { 1.0 / factorial(m) };
        bound += probability * lost(v, m, products);
    }
    // products beyond the longest: E|Δ|^b ≤ b(4v)^(b/2)Γ(b/2). Their quotients fall, so the sum is geometric at most
    let beyond = |b: u32| f64::from(b) * (4.0 * v).powf(0.5 * f64::from(b)) * half_gamma(b) / factorial(b);
    let (first, second) = (beyond(LONGEST + 1), beyond(LONGEST + 2));
    bound += if second < first { first / (1.0 - second / first) } else { f64::INFINITY };
    // fewer than a thousand operations and erfcx, each within a few units in the last place
    bound * (1.0 + 1e-12) + f64::MIN_POSITIVE
}

/// E(M + … + M^m − 1)₊ for a series of length m.
fn lost(v: f64, m: u32, products: Products) -> f64 {
    let differences = f64::from(match products {
        Products::Prefix => m,
        Products::Fresh => m * (m + 1) / 2,
    });
    let from = crossing(m);
    let sure = from.max((4.0 * v * (2.0 * differences).ln()).sqrt());
    let x = sure * sure / (4.0 * v);
    let decay = (-x * (1.0 - 1e-15)).exp();
    let mut sum = 0.0;
    for b in 1..=m {
        let power = f64::from(b);
        let certain = sure.powf(power) - from.powf(power) + 8.0 * f64::EPSILON * power * sure.powf(power);
        let tail = differences * power * (4.0 * v).powf(0.5 * power) * scaled_upper_gamma(b, x) * decay;
        sum += if sure > from { certain.max(0.0) } else { 0.0 } + tail;
    }
    sum
}

/// t with t + … + t^m = 1, rounded down: the cut begins there.
fn crossing(m: u32) -> f64 {
    let sum = |t: f64| (0..m).fold(0.0, |sum, _| t * (1.0 + sum));
    let (mut low, mut high) = (0.5, 1.0 + f64::EPSILON);
    while high - low > f64::EPSILON {
        let middle = 0.5 * (low + high);
        if sum(middle) < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * (1.0 - 1e-14)).max(0.5)
}

/// e^x·Γ(b/2, x), from Γ(1/2, x) = √π·erfc(√x), Γ(1, x) = e^(−x) and Γ(a + 1, x) = aΓ(a, x) + x^a·e^(−x): no term is negative.
fn scaled_upper_gamma(b: u32, x: f64) -> f64 {
    let (mut a, mut value) = if b.is_multiple_of(2) { (1.0, 1.0) } else { (0.5, PI.sqrt() * erfcx(x.sqrt())) };
    while 2.0 * a < f64::from(b) {
        value = a * value + x.powf(a);
        a += 1.0;
    }
    value
}

/// The gamma function at b/2.
fn half_gamma(b: u32) -> f64 {
    scaled_upper_gamma(b, 0.0)
}

fn factorial(k: u32) -> f64 {
    (1..=k).map(f64::from).product()
}

/// The largest v = η·g_0² (to one part in 10⁹) whose error is at most `delta`, for a distance in (0, 1/2).
///
/// ```
/// use dpopt_mechanism::sampler::series::{Products, largest_step, total_variation};
/// // 1/v = 161.6 for 1e-6, 454.6 for 1e-15
/// let v = largest_step(1e-6, Products::Prefix);
/// assert!((1.0 / v - 161.596).abs() < 1e-3);
/// assert!(total_variation(v, Products::Prefix) <= 1e-6);
/// ```
pub fn largest_step(delta: f64, products: Products) -> f64 {
    let fits = |v: f64| total_variation(v, products) <= delta;
    let (mut low, mut high) = (1e-5, 1.0);
    if !fits(low) {
        return 0.0;
    }
    while high > (1.0 + 1e-9) * low {
        let middle = (low * high).sqrt();
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// a: at least b with probability 1/b!.
fn length(stream: &mut Stream) -> u32 {
    let mut a = 1;
    while a < LONGEST && stream.below(u64::from(a) + 1) == 0 {
        a += 1;
    }
    a
}

/// ρ of a series of length `longest`; `factor` gives f_j(z) − f_j(x) with a fresh j.
fn ratio(longest: u32, products: Products, mut factor: impl FnMut() -> f64) -> f64 {
    let (mut ratio, mut product) = (1.0, 1.0);
    for b in 1..=longest {
        product = match products {
            Products::Prefix => product * factor(),
            Products::Fresh => (0..b).fold(1.0, |product, _| product * factor()),
        };
        ratio += product;
    }
    ratio
}

pub(super) fn draw<P: Potential>(
    products: Products,
    prox: &Proximal<'_, P>,
    y: &[Wide],
    x: &mut [Wide],
    stream: &mut Stream,
    tally: &mut Tally,
) -> Result<(), Exhausted> {
    let (centre, std) = prox.free_gaussian(y);
    let n = prox.potential.terms() as u64;
    // F is the mean of n·β·φ_j over a uniform j
    let scale = prox.potential.scale() * n as f64;
    let mut other = x.to_vec();
    loop {
        prox.domain.gaussian(&centre, std, x, stream);
        prox.domain.gaussian(&centre, std, &mut other, stream);
        let (at_x, at_other) = (rounded(x), rounded(&other));
        let longest = length(stream);
        let ratio = ratio(longest, products, || {
            let j = stream.below(n) as usize;
            tally.terms += 2;
            scale * (prox.potential.term(j, &at_other) - prox.potential.term(j, &at_x))
        });
        tally.values += 1;
        // both: only a pair from one law has a mean ratio of at least 1, which the bound rests on
        if prox.domain.admits(x) && prox.domain.admits(&other) {
            // no proposal is ever accepted against what is no number
            if !ratio.is_finite() {
                return Err(Exhausted);
            }
            if stream.uniform() <= 0.5 * ratio {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    /// The error of a step, and 1/v with shared and with fresh indices; the last digits are rounded up in places.
    const TABLE: [(f64, f64, f64); 7] = [
        (1e-2, 49.238, 57.742),
        (1e-4, 102.369, 113.176),
        (1e-6, 161.596, 173.820),
        (1e-8, 223.991, 237.230),
        (1e-10, 288.350, 302.398),
        (1e-12, 354.092, 368.806),
        (1e-15, 454.557, 470.067),
    ];

    #[test]
    fn table_of_steps() {
        for (delta, prefix, fresh) in TABLE {
            for (products, inverse) in [(Products::Prefix, prefix), (Products::Fresh, fresh)] {
                let v = largest_step(delta, products);
                assert!((1.0 / v - inverse).abs() < 1e-3, "{delta} {products:?}: {}", 1.0 / v);
                assert!(total_variation(v, products) <= delta && total_variation(1.001 * v, products) > delta);
            }
        }
        // 10⁴·ln(1/δ), as Liu 2024 has it, is 760 to 940 times what is needed
        for (delta, prefix, _) in TABLE {
            let larger = 1e4 * -delta.ln() / prefix;
            assert!((755.0..945.0).contains(&larger), "{larger}");
        }
    }

    #[test]
    fn the_bound_grows_with_the_step_and_with_fresh_products() {
        let mut before = [0.0; 2];
        for i in 0..400 {
            let v = 1e-3 * 1.015f64.powi(i);
            let now = [Products::Prefix, Products::Fresh].map(|p| total_variation(v, p));
            assert!(now[0] > before[0] && now[1] > before[1], "{v}");
            assert!(now[1] >= now[0], "{v}");
            before = now;
        }
        // far below all that is planned the bound is the least number, and not infinite
        for v in [1e-6, 1e-24, 5e-25, 1e-100] {
            assert!(total_variation(v, Products::Fresh) < 1e-9, "{v}");
        }
        assert_eq!(total_variation(0.0, Products::Prefix), f64::INFINITY);
        assert_eq!(total_variation(f64::NAN, Products::Prefix), f64::INFINITY);
        assert_eq!(largest_step(0.0, Products::Prefix), 0.0);
        // what the cut of a adds is nothing that a distance notices
        let beyond = |b: i32| {
            f64::from(b) * (4.0f64 / 49.0).powf(0.5 * f64::from(b)) * half_gamma(b as u32) / factorial(b as u32)
        };
        assert!(beyond(26) < 1e-30);
    }

    /// The closed form against its integral, by the trapezoidal rule.
    #[test]
    fn the_closed_form_is_the_integral() {
        for v in [1.0 / 49.238, 1.0 / 161.596, 0.1] {
            for (m, products, n) in [(1, Products::Prefix, 1.0), (3, Products::Fresh, 6.0), (6, Products::Prefix, 6.0)]
            {
                let (from, cells) = (crossing(m), 400_000);
                let step = 6.0 / cells as f64;
                let integrand = |t: f64| {
                    let slope: f64 = (1..=m).map(|b| f64::from(b) * t.powi(b as i32 - 1)).sum();
                    slope * (2.0 * n * (-t * t / (4.0 * v)).exp()).min(1.0)
                };
                let inner: f64 = (1..cells).map(|i| integrand(from + step * f64::from(i))).sum();
                let integral = step * (inner + 0.5 * integrand(from));
                let closed = lost(v, m, products);
                assert!((closed / integral - 1.0).abs() < 1e-5, "{v} {m}: {closed} {integral}");
            }
        }
    }

    #[test]
    fn crossings_and_gammas() {
        assert!((crossing(1) - 1.0).abs() < 1e-13 && crossing(1) < 1.0);
        assert!((crossing(2) - 0.5 * (5f64.sqrt() - 1.0)).abs() < 1e-13);
        assert!((crossing(25) - 0.5).abs() < 1e-7);
        // Γ(1/2, 1) = √π·erfc(1), Γ(5/2) = 3√π/4, Γ(3, 2) = 10e^(−2)
        assert!((scaled_upper_gamma(1, 1.0) * (-1f64).exp() - 0.278_805_585_280_662).abs() < 1e-14);
        assert!((half_gamma(5) - 0.75 * PI.sqrt()).abs() < 1e-14);
        assert!((scaled_upper_gamma(6, 2.0) - 10.0).abs() < 1e-13);
    }

    /// P(a = m) = m/(m + 1)!, E a = e − 1, E a² = e + 1. The printed 1/b would give P(a = 1) = 1/2 too, but P(a = 2) = 1/6.
    #[test]
    fn lengths_have_their_law() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let n = 1_000_000;
        let (mut counts, mut sum, mut squares) = ([0u32; LONGEST as usize + 1], 0.0, 0.0);
        for _ in 0..n {
            let a = length(&mut stream);
            counts[a as usize] += 1;
            sum += f64::from(a);
            squares += f64::from(a * a);
        }
        // within 5.5 standard deviations: a true law fails with probability 4e-8 each
        let size = f64::from(n);
        for (m, p) in [(1, 0.5), (2, 1.0 / 3.0), (3, 0.125), (4, 1.0 / 30.0)] {
            let off = f64::from(counts[m]) - p * size;
            assert!(off.abs() < 5.5 * (size * p * (1.0 - p)).sqrt(), "{m}: {off}");
        }
        let e = 1f64.exp();
        let variance = e + 1.0 - (e - 1.0) * (e - 1.0);
        assert!((sum / size - 1.718_282).abs() < 5.5 * (variance / size).sqrt());
        // E a⁴ = Σ(b⁴ − (b − 1)⁴)/b! < 40
        assert!((squares / size - 3.718_282).abs() < 5.5 * (40.0 / size).sqrt());
    }
    /// At the step for 1e-2, x and z from N(0, η) and losses |x − c_j|: what the cut takes is below the bound, and ρ has the mean
    /// that makes the draw exact (the reason for 1/b!).
    #[test]
    fn the_cut_takes_less_than_the_bound() {
        const C: [f64; 4] = [-1.0, 0.2, 0.5, 1.5];
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        for products in [Products::Prefix, Products::Fresh] {
            let std = largest_step(1e-2, products).sqrt();
            let n = 400_000;
            let (mut cut, mut off, mut square) = (0.0, 0.0, 0.0);
            for _ in 0..n {
                let (x, z) = (std * stream.standard_normal(), std * stream.standard_normal());
                let mean = C.iter().map(|c| (z - c).abs() - (x - c).abs()).sum::<f64>() / 4.0;
                let a = length(&mut stream);
                let rho = ratio(a, products, || {
                    let c = C[stream.below(4) as usize];
                    (z - c).abs() - (x - c).abs()
                });
                cut += (rho - rho.clamp(0.0, 2.0)).abs();
                off += rho - mean.exp();
                square += (rho - mean.exp()).powi(2);
            }
            let n = f64::from(n);
            assert!(cut / n < 1e-2, "{products:?}: {}", cut / n);
            assert!(off.abs() < 5.5 * square.sqrt(), "{products:?}: {off} {square}");
        }
    }
}
