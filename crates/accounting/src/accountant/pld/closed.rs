//! Pairs with closed distribution functions of the loss: Laplace, bounded range, discrete mechanisms
//! (docs/proofs/accounting-pld.md, "Pairs").

use super::atoms::{Atoms, Rest};
use super::pair::{Masses, Pair, PointLosses, U};
use dpopt_event::Relation;

/// Two Laplace laws at distance `shift` (in units of the scale). The same in both orders.
#[derive(Clone, Debug)]
pub(crate) struct LaplacePair {
    pub shift: f64,
}

/// A mechanism of bounded range `epsilon`: all losses of a pair lie in an interval of that length. The supremum
/// of the profiles of {t, t − ε} over t is convex, (1 − √(γ/Γ))²/(1 − 1/Γ) with Γ = e^ε, and the same in both orders:
/// P{L > x} = (1 − e^((x−ε)/2))/(1 − e^−ε), Q{L > x} = (e^(−(x+ε)/2) − e^−ε)/(1 − e^−ε) on [−ε, ε].
#[derive(Clone, Debug)]
pub(crate) struct BoundedRangePair {
    pub epsilon: f64,
}

/// Masses of cells from functions of their ends (clamped to `support`): no differences of distribution functions.
fn cells(borders: &[f64], support: f64, mass: impl Fn(f64, f64) -> (f64, f64)) -> Masses {
    let n = borders.len() + 1;
    let mut m = Masses { p: vec![0.0; n], q: vec![0.0; n], p_error: vec![0.0; n], q_error: vec![0.0; n] };
    let mut low = f64::NEG_INFINITY;
    for i in 0..n {
        let high = if i < borders.len() { borders[i] } else { f64::INFINITY };
        let (p, q) = mass(low, high);
        let error = (16.0 + 4.0 * support) * U;
        (m.p[i], m.q[i], m.p_error[i], m.q_error[i]) = (p, q, error * p, error * q);
        low = high;
    }
    m
}

impl Pair for LaplacePair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let s = self.shift;
        cells(borders, s, |low, high| {
            let (a, b) = (low.clamp(-s, s), high.clamp(-s, s));
            let half = 0.5 * (b - a);
            let (mut p, mut q) =
                // from the upper end, as e^half may overflow
                (-0.5 * (0.5 * (b - s)).exp() * (-half).exp_m1(), -0.5 * (-0.5 * (a + s)).exp() * (-half).exp_m1());
            if low < -s && high >= -s {
                p += 0.5 * (-s).exp();
                q += 0.5;
            }
            if low < s && high >= s {
                p += 0.5;
                q += 0.5 * (-s).exp();
            }
            (p, q)
        })
    }

    fn compares_exactly(&self) -> bool {
        true
    }

    fn atoms(&self) -> PointLosses {
        PointLosses { losses: vec![-self.shift, self.shift], only: false }
    }
}

impl Pair for BoundedRangePair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let e = self.epsilon;
        let total = -(-e).exp_m1();
        cells(borders, e, |low, high| {
            let (a, b) = (low.clamp(-e, e), high.clamp(-e, e));
            let half = 0.5 * (b - a);
            (-(0.5 * (b - e)).exp() * (-half).exp_m1() / total, -(-0.5 * (a + e)).exp() * (-half).exp_m1() / total)
        })
    }

    fn compares_exactly(&self) -> bool {
        true
    }
}

/// Largest number of atoms that are listed one by one.
const MAX_ATOMS: u64 = 100_000;

/// Discrete Laplace noise of decay `a` under an integer shift: losses a(|x| − |x − shift|). `None` if there are too many.
pub(crate) fn discrete_laplace(a: f64, shift: u64) -> Option<Atoms> {
    if shift > MAX_ATOMS {
        return None;
    }
    let s = shift as f64;
    let edge = 1.0 / (1.0 + (-a).exp());
    let unit = (0.5 * a).tanh();
    let mut atoms =
        Atoms { loss: vec![-a * s], p: vec![edge * (-a * s).exp()], infinite: 0.0, rest: Rest::Exactly(0.0) };
    for x in 1..shift {
        atoms.loss.push(a * (2.0 * x as f64 - s));
        atoms.p.push(unit * (-a * (s - x as f64)).exp());
    }
    atoms.loss.push(a * s);
    atoms.p.push(edge);
    Some(atoms)
}

/// Randomized response over `k` buckets with probability `p` of a uniform answer: (with → without, without → with).
pub(crate) fn randomized_response(p: f64, k: u64, relation: Relation) -> (Atoms, Atoms) {
    let k = k as f64;
    let other = p / k;
    let keep = 1.0 - p + other;
    // losses from ratios minus one, which keep their digits where ε is small
    if relation == Relation::ReplaceOne {
        let loss = (k * (1.0 - p) / p).ln_1p();
        let atoms = Atoms {
            loss: vec![-loss, 0.0, loss],
            p: vec![other, (k - 2.0) * other, keep],
            infinite: 0.0,
            rest: Rest::Exactly(0.0),
        };
        return (atoms.clone(), atoms);
    }
    // an absent record answers uniformly
    let (low, high) = (p.ln(), ((k - 1.0) * (1.0 - p)).ln_1p());
    (
        Atoms { loss: vec![low, high], p: vec![(k - 1.0) * other, keep], infinite: 0.0, rest: Rest::Exactly(0.0) },
        Atoms { loss: vec![-high, -low], p: vec![1.0 / k, 1.0 - 1.0 / k], infinite: 0.0, rest: Rest::Exactly(0.0) },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    #[test]
    fn laplace_profile() {
        // 1 − e^((ε − s)/2)
        let pair = LaplacePair { shift: 1.0 };
        assert!((profile(&pair, 0.5) - 0.2211992169286).abs() < 1e-13);
        let m = pair.masses(&[-2.0, -1.0, -0.3, 0.4, 1.0, 2.0]);
        assert!((m.p.iter().sum::<f64>() - 1.0).abs() < 1e-15 && (m.q.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn bounded_range_profile_is_the_supremum_of_two_point_pairs() {
        let e: f64 = 0.8;
        let pair = BoundedRangePair { epsilon: e };
        for at in [-0.7, -0.1, 0.0, 0.3, 0.75] {
            let best = (0..=10_000)
                .map(|i| i as f64 / 10_000.0 * e)
                .map(|t| {
                    let p = -(t - e).exp_m1() / -(-e).exp_m1();
                    let low = t - e;
                    p * (-(at - t).exp_m1()).max(0.0) + (1.0 - p) * (-(at - low).exp_m1()).max(0.0)
                })
                .fold(0.0, f64::max);
            let got = profile(&pair, at);
            assert!(got >= best - 1e-14 && got < best + 1e-7, "{at}: {got} {best}");
        }
    }

    #[test]
    fn discrete_pairs_are_distributions() {
        for atoms in [
            discrete_laplace(0.3, 4).unwrap(),
            discrete_laplace(2.0, 1).unwrap(),
            randomized_response(0.1, 2, Relation::ReplaceOne).0,
            randomized_response(0.3, 7, Relation::ZeroOut).0,
            randomized_response(0.3, 7, Relation::ZeroOut).1,
        ] {
            let m = atoms.masses(&[0.0]);
            assert!((m.p[0] + m.p[1] - 1.0).abs() < 1e-14 && (m.q[0] + m.q[1] - 1.0).abs() < 1e-14, "{atoms:?}");
        }
    }
}
