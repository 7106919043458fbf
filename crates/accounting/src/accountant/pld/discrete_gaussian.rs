//! Pairs of discrete Gaussian noise under integer shifts: exact for one sum, exact or concentrated for several.
//!
//! One sum: P = N_Z(0, σ²), Q = N_Z(−s, σ²), loss s(s + 2y)/(2σ²) at the integer y. Several sums: the largest profile over all integer shifts
//! of the given length, whose losses lie on one lattice, or what concentrated privacy says where there are too many.

use super::atoms::Atoms;
use super::grid::LARGEST_LOSS;
use super::pair::{Masses, Pair, PointLosses, U, normal_tail};
use std::sync::Arc;

/// Beyond so many deviations e^(−z²/2) underflows.
const FAR: f64 = 38.7;
/// Up to this σ tails are summed term by term, above it by the midpoint rule with its first correction.
const SUMMED: f64 = 4096.0;

/// One sum shifted by the integer `shift` ≥ 1. The same in both orders.
#[derive(Clone, Debug)]
pub(crate) struct DiscreteGaussianPair {
    sigma: f64,
    shift: f64,
    /// P(X ≥ k) for k = 0, 1, …; empty above [`SUMMED`].
    tails: Arc<[f64]>,
}

impl DiscreteGaussianPair {
    pub fn new(sigma: f64, shift: f64) -> Self {
        if sigma > SUMMED {
            return Self { sigma, shift, tails: Arc::new([]) };
        }
        let last = (FAR * sigma).ceil() as usize + 1;
        let mut tails = vec![0.0; last + 2];
        // smallest first, with the part that rounding drops carried along
        let (mut sum, mut carried) = (0.0, 0.0);
        for k in (1..=last).rev() {
            let term = (-0.5 * (k as f64 / sigma).powi(2)).exp() + carried;
            let next = sum + term;
            carried = term - (next - sum);
            sum = next;
            tails[k] = sum;
        }
        let total = 1.0 + 2.0 * sum;
        tails[0] = 1.0 + sum;
        tails.iter_mut().for_each(|t| *t /= total);
        Self { sigma, shift, tails: tails.into() }
    }

    /// P(X ≥ k) for an integer k ≥ 0 with a bound of its error.
    fn tail(&self, k: f64) -> (f64, f64) {
        let z = (k - 0.5) / self.sigma;
        if z > FAR {
            return (0.0, f64::MIN_POSITIVE);
        }
        if !self.tails.is_empty() {
            let tail = self.tails.get(k as usize).copied().unwrap_or(0.0);
            // one exponential errs by (1.5z² + 1)u, the sum and the division by 4u
            return (tail, (12.0 + 2.0 * z * z) * U * tail + f64::MIN_POSITIVE);
        }
        // Σ_{y ≥ k} f(y) = ∫ f + f'(k − ½)/24 + at most 7/5760·|f'''| + …, divided by σ√(2π)
        let correction = z * (-0.5 * z * z).exp() / (24.0 * std::f64::consts::TAU.sqrt() * self.sigma * self.sigma);
        let tail = (normal_tail(z) - correction).max(0.0);
        let rest = 4e-3 * (z.powi(4) + 12.0 * z * z + 30.0) / self.sigma.powi(4);
        (tail, ((12.0 + 2.0 * z * z) * U + rest) * tail + f64::MIN_POSITIVE)
    }

    /// P(low < X ≤ high) for integers or infinities, with a bound of its error.
    fn mass(&self, low: f64, high: f64) -> (f64, f64) {
        let ((a, a_error), (b, b_error), whole) = if low >= 0.0 {
            (self.tail(low + 1.0), self.tail(high + 1.0), 0.0)
        } else if high < 0.0 {
            (self.tail(-high), self.tail(-low), 0.0)
        } else {
            (self.tail(high + 1.0), self.tail(-low), 1.0)
        };
        let mass = if whole > 0.0 { whole - a - b } else { a - b }.max(0.0);
        (mass, a_error + b_error + 2.0 * U * (mass + whole))
    }

    fn loss(&self, y: f64) -> f64 {
        0.5 * (self.shift / self.sigma) * ((self.shift + 2.0 * y) / self.sigma)
    }

    /// The largest integer whose loss is at most `epsilon`; ±∞ beyond what has mass.
    fn cut(&self, epsilon: f64) -> f64 {
        let reach = (FAR + 2.0) * self.sigma + self.shift + 2.0;
        let mut y = (epsilon * self.sigma / self.shift * self.sigma - 0.5 * self.shift).floor();
        if !(y.abs() <= reach) {
            return if epsilon > 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
        }
        // the rounding of the division; beyond 2^52 integers are finer than the tolerance of a border
        for _ in 0..4 {
            if self.loss(y + 1.0) <= epsilon {
                y += 1.0;
            } else if self.loss(y) > epsilon {
                y -= 1.0;
            }
        }
        y
    }
}

impl Pair for DiscreteGaussianPair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let cells = borders.len() + 1;
        let mut m =
            Masses { p: vec![0.0; cells], q: vec![0.0; cells], p_error: vec![0.0; cells], q_error: vec![0.0; cells] };
        let mut low = f64::NEG_INFINITY;
        for i in 0..cells {
            let high = borders.get(i).map_or(f64::INFINITY, |e| self.cut(*e));
            (m.p[i], m.p_error[i]) = self.mass(low, high);
            // y has under Q the mass of y + s under P
            (m.q[i], m.q_error[i]) = self.mass(low + self.shift, high + self.shift);
            low = high;
        }
        m
    }

    fn atoms(&self) -> PointLosses {
        // a long list is a curve in disguise
        const FEW: f64 = 512.0;
        let reach = (FAR * self.sigma).ceil();
        if 2.0 * reach + self.shift > FEW {
            return PointLosses::default();
        }
        let (first, last) = (-(reach + self.shift) as i64, reach as i64);
        PointLosses { losses: (first..=last).map(|y| self.loss(y as f64)).collect(), only: true }
    }
}

/// Any number of sums whose integer shifts have squares that add up to at most `square`. The same in both orders. `None` where only
/// concentrated privacy is known.
pub(crate) fn several(sigma: f64, square: f64) -> Option<Atoms> {
    let missing = missing_from_lines(sigma, square);
    // as good as exact, and quicker
    if missing < 1e-30 {
        return Some(lines(sigma, square, missing));
    }
    every_shift(sigma, square).or_else(|| (missing < 1e-20).then(|| lines(sigma, square, missing)))
}

/// Largest square of a shift whose divisors are tried one by one.
const MAX_DIVIDED: f64 = 1e10;
/// Points at which profiles of lines are read.
const MAX_POINTS: f64 = 8192.0;

/// How much the law of ⟨e, y⟩ can exceed that of one discrete Gaussian variable, summed over the part that is kept, for every
/// primitive e with |e|² ≤ `square`; and what is not kept (docs/proofs/accounting-integers.md, "Large noise").
fn missing_from_lines(sigma: f64, square: f64) -> f64 {
    if square > MAX_DIVIDED {
        return f64::INFINITY;
    }
    let pi2 = std::f64::consts::PI.powi(2);
    let others =
        (1.0726 * square - 2.0 * pi2 * sigma * sigma / square).exp() + 4.0 * square * (-pi2 * sigma * sigma).exp();
    11.0 * others + 2.0 * (-0.5 * KEPT * KEPT).exp()
}

/// The worst of all shifts d = g·e, e primitive, with |d|² = `square`, where ⟨e, y⟩ is as good as one discrete Gaussian variable of
/// deviation σ|e| that is shifted by |d|²/g: there are as many kinds as there are g with g² | `square`.
fn lines(sigma: f64, square: f64, missing: f64) -> Atoms {
    let kinds: Vec<DiscreteGaussianPair> = (1..=square.sqrt() as u64 + 1)
        .map(|g| g as f64)
        .filter(|g| square % (g * g) == 0.0)
        .map(|g| DiscreteGaussianPair::new(sigma * square.sqrt() / g, square / g))
        .collect();
    let far = (KEPT * sigma * square.sqrt()).ceil();
    let stride = (2.0 * far / MAX_POINTS).ceil().max(1.0);
    let points: Vec<(f64, f64)> = (-(far / stride) as i64..=(far / stride) as i64)
        // the losses of the finest kind, of which the others are a part
        .map(|k| 0.5 * (square + 2.0 * stride * k as f64) / sigma / sigma)
        .filter(|loss| loss.abs() <= LARGEST_LOSS)
        .map(|loss| {
            let worst = kinds.iter().map(|kind| super::compose::single_delta(kind, loss)).fold(0.0, f64::max);
            // rounding of σ|e|: z²u of a mass
            (loss, (worst * (1.0 + 1e-11) + missing).min(1.0))
        })
        .collect();
    Atoms::hull(&points)
}

/// Deviations of each sum that are kept; the rest, below 1e-35, counts as +∞.
const KEPT: f64 = 12.5;
/// Multiplications that are worth an exact profile.
const MAX_WORK: u64 = 30_000_000;
/// Largest square of a shift whose shapes are listed.
const MAX_SQUARE: f64 = 36.0;

fn every_shift(sigma: f64, square: f64) -> Option<Atoms> {
    if square > MAX_SQUARE || sigma > SUMMED {
        return None;
    }
    let n = square as usize;
    let mut shapes = vec![];
    squares(n, n, &mut vec![], &mut shapes);
    let one = DiscreteGaussianPair::new(sigma, 1.0);
    let reach = (KEPT * sigma).ceil() as usize + 1;
    let width = 2 * reach + 1;
    let work: u64 = shapes
        .iter()
        .map(|shape| {
            let mut length = 1;
            let mut sum = 0;
            for d in shape {
                length += 2 * reach * d;
                sum += (width * length) as u64;
            }
            sum
        })
        .sum();
    if work > MAX_WORK {
        return None;
    }
    let law: Vec<f64> = (0..width)
        .map(|i| {
            let y = i as f64 - reach as f64;
            let (mass, error) = one.mass(y - 1.0, y);
            mass + error
        })
        .collect();
    let lost = 2.0 * n as f64 * one.tail(reach as f64 + 1.0).0 + f64::MIN_POSITIVE;
    // without a further unit the squares would not add up to n, so all shapes reach as far as n units
    let far = n * reach;
    let ratio = (-(1.0 / sigma / sigma)).exp();
    let fall = -(-(1.0 / sigma / sigma)).exp_m1();
    // δ at the losses (n + 2k)/(2σ²), k from −far to far, for the worst shape
    let mut worst = vec![0.0f64; 2 * far + 1];
    for shape in &shapes {
        let sum = weighted_sum(&law, reach, shape);
        let middle = (sum.len() - 1) / 2;
        // Σ_{j > k} p_j(1 − r^{j−k}) from above: positive terms only
        let (mut above, mut delta) = (0.0, 0.0);
        for k in (0..2 * far + 1).rev() {
            delta = ratio * delta + fall * above;
            worst[k] = worst[k].max(delta);
            above += (k + middle).checked_sub(far).and_then(|at| sum.get(at)).copied().unwrap_or(0.0);
        }
    }
    let points: Vec<(f64, f64)> = (0..=2 * far)
        .map(|k| (0.5 * (n as f64 + 2.0 * (k as f64 - far as f64)) / sigma / sigma, worst[k]))
        .filter(|(loss, _)| loss.abs() <= LARGEST_LOSS)
        // rounding of products and sums of positive terms, and of the losses
        .map(|(loss, delta)| (loss, (delta * (1.0 + 1e-11) + lost).min(1.0)))
        .collect();
    (!points.is_empty()).then(|| Atoms::hull(&points))
}

/// The ways to write `left` as a sum of squares of at most `largest`², largest first.
fn squares(left: usize, largest: usize, chosen: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    if left == 0 {
        found.push(chosen.clone());
        return;
    }
    for d in (1..=largest).rev().filter(|d| d * d <= left) {
        chosen.push(d);
        squares(left - d * d, d, chosen, found);
        chosen.pop();
    }
}

/// The law of Σ d_i·y_i, centred.
fn weighted_sum(law: &[f64], reach: usize, shape: &[usize]) -> Vec<f64> {
    let mut sum = vec![1.0];
    for d in shape {
        let mut next = vec![0.0; sum.len() + 2 * reach * d];
        for (i, p) in law.iter().enumerate() {
            for (out, x) in next[i * d..].iter_mut().zip(&sum) {
                *out += p * x;
            }
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    /// σ, shift, ε, δ(ε) in 50 digits.
    const ONE_SUM: [(f64, f64, f64, f64); 9] = [
        (1.0, 1.0, 0.5, 0.203982813763439),
        (1.0, 1.0, 1.0, 0.1413513394056219),
        (0.5, 1.0, 2.0, 0.1047648441098983),
        (4.0, 3.0, 0.25, 0.2090247096090288),
        (0.2, 1.0, 13.0, 3.726625396312637e-6),
        (10.0, 1.0, 0.3, 4.456475790950953e-5),
        (2.5, 2.0, 6.0, 8.407981273516265e-14),
        (30.0, 4.0, -0.1, 0.1117789803056441),
        (100.0, 7.0, 0.35, 4.45597972616141e-9),
    ];

    #[test]
    fn one_sum_is_exact() {
        for (sigma, shift, epsilon, delta) in ONE_SUM {
            let got = profile(&DiscreteGaussianPair::new(sigma, shift), epsilon);
            assert!((got / delta - 1.0).abs() < 1e-9, "{sigma} {shift} {epsilon}: {got:e} {delta:e}");
        }
    }

    /// Where terms are no longer summed one by one the tails continue.
    #[test]
    fn the_midpoint_rule_continues_the_sums() {
        let summed = DiscreteGaussianPair::new(SUMMED, 7.0);
        let smooth = DiscreteGaussianPair { tails: Arc::new([]), ..summed.clone() };
        for z in [0.0, 0.3, 1.0, 4.0, 11.0, 25.0, 36.0] {
            let k = (z * SUMMED).floor();
            let ((a, e), (b, f)) = (summed.tail(k), smooth.tail(k));
            assert!((a - b).abs() <= e + f, "{z}: {a:e} {b:e}");
            assert!(f < 1e-10 * b, "{z}: {f:e}");
        }
        for e in [-0.004, 0.0, 0.001, 0.004] {
            assert!((profile(&summed, e) / profile(&smooth, e) - 1.0).abs() < 1e-10);
        }
    }

    #[test]
    fn both_orders_are_one() {
        let pair = DiscreteGaussianPair::new(1.3, 2.0);
        // none of them a loss: one on a border may count on either side
        let borders = [-4.1, -1.0, 0.1, 0.7, 2.5];
        let m = pair.masses(&borders);
        let r = super::super::pair::Reversed(pair).masses(&borders);
        for i in 0..m.p.len() {
            assert!((m.p[i] - r.p[i]).abs() < 1e-14 && (m.q[i] - r.q[i]).abs() < 1e-14);
        }
        assert!((m.p.iter().sum::<f64>() - 1.0).abs() < 1e-14);
    }

    #[test]
    fn shapes_are_all_ways_to_add_squares() {
        let mut found = vec![];
        squares(9, 9, &mut vec![], &mut found);
        assert_eq!(found.len(), 4); // 9, 4+4+1, 4+1+1+1+1+1, nine ones
        assert!(found.iter().all(|s| s.iter().map(|d| d * d).sum::<usize>() == 9));
    }

    /// By brute force over all shifts of two sums, and never above what concentrated privacy says.
    #[test]
    fn several_sums_are_bounded_by_their_worst_shift() {
        let (sigma, reach) = (0.9f64, 14i32);
        let pair = several(sigma, 5.0).unwrap();
        let z: f64 = (-60..=60).map(|y| (-0.5 * f64::from(y * y) / sigma / sigma).exp()).sum();
        let law = |y: i32| (-0.5 * f64::from(y * y) / sigma / sigma).exp() / z;
        for epsilon in [-1.0, 0.0, 0.4, 1.7, 4.0] {
            let mut worst = 0.0f64;
            for (a, b) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
                let mut delta = 0.0;
                for x in -reach..=reach {
                    for y in -reach..=reach {
                        delta += (law(x) * law(y) - f64::exp(epsilon) * law(x + a) * law(y + b)).max(0.0);
                    }
                }
                worst = worst.max(delta);
            }
            let got = profile(&pair, epsilon);
            assert!(got >= worst * (1.0 - 1e-9) && got < 1.2 * worst, "{epsilon}: {got} {worst}");
            let loose = profile(&super::super::stated::concentrated(2.5 / sigma / sigma, 0.0), epsilon);
            assert!(got <= loose * (1.0 + 1e-9), "{epsilon}: {got} {loose}");
        }
        // (1, 1): exactly two draws of one unit
        let two = several(2.0, 2.0).unwrap();
        let one: Arc<dyn Pair> = Arc::new(DiscreteGaussianPair::new(2.0, 1.0));
        let product = super::super::product::product(&[(one, 2)]).unwrap();
        for e in [-0.3, 0.0, 0.2, 1.0] {
            assert!((profile(&two, e) / profile(&product, e) - 1.0).abs() < 1e-3);
        }
    }
}
