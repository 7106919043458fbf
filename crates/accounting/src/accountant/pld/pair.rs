//! Pairs of distributions (P, Q) seen through their privacy loss L = ln dP/dQ: exact masses of loss intervals.

use libm::erfc;
use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use dpopt_event::special::UNIT_ROUNDOFF as U;

/// P- and Q-masses of the cells that `borders` cut the loss axis into, with absolute error bounds.
/// `n` borders make `n + 1` cells: below the first, between neighbours, above the last (with L = +∞).
#[derive(Clone, Debug, Default)]
pub(crate) struct Masses {
    pub p: Vec<f64>,
    pub q: Vec<f64>,
    pub p_error: Vec<f64>,
    pub q_error: Vec<f64>,
}

/// One direction of a dominating pair. A border on an atom may put the atom on either side: both ends of a
/// cell belong to it in the connect-the-dots formula.
pub(crate) trait Pair: Debug + Send + Sync {
    /// Masses of the cells between `borders` (non-decreasing, may contain ±∞). The borders used inside may be
    /// off by a relative 4u and an absolute 4u in loss.
    fn masses(&self, borders: &[f64]) -> Masses;

    /// Whether a border is compared with the losses as they are, so that rounding takes none to its other side.
    fn compares_exactly(&self) -> bool {
        false
    }

    /// Losses that carry mass by themselves: the profile has a kink there, which a lattice point keeps.
    fn atoms(&self) -> PointLosses {
        PointLosses::default()
    }
}

/// Losses with a mass of their own, as far as they are few.
#[derive(Clone, Debug, Default)]
pub(crate) struct PointLosses {
    /// The losses that carry mass by themselves, in no particular order.
    pub losses: Vec<f64>,
    /// Whether the loss takes no other finite value.
    pub only: bool,
}

impl PointLosses {
    pub fn map(mut self, f: impl Fn(f64) -> f64) -> Self {
        self.losses.iter_mut().for_each(|l| *l = f(*l));
        self
    }
}

/// N(mu, 1) against N(0, 1): the Gaussian mechanism with sensitivity over noise `mu`.
#[derive(Clone, Debug)]
pub(crate) struct GaussianPair {
    pub mu: f64,
}

impl Pair for GaussianPair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let z = |shift: f64| borders.iter().map(move |e| e / self.mu + shift);
        let (p, p_error) = normal_cells(z(-self.mu / 2.0));
        let (q, q_error) = normal_cells(z(self.mu / 2.0));
        Masses { p, q, p_error, q_error }
    }
}

/// P(Z > z) for a standard normal Z, good to a few ulp where it is not 0.
pub(crate) fn normal_tail(z: f64) -> f64 {
    0.5 * erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// Standard normal masses between `cuts`, with error bounds. Differences are taken of the smaller tails, so
/// that the error is relative to the tail and not to one.
pub(crate) fn normal_cells(cuts: impl ExactSizeIterator<Item = f64>) -> (Vec<f64>, Vec<f64>) {
    let cells = cuts.len() + 1;
    let (mut mass, mut error) = (Vec::with_capacity(cells), Vec::with_capacity(cells));
    let (mut z0, mut tail0, mut error0) = (f64::NEG_INFINITY, 0.0, 0.0);
    for z in cuts.chain(std::iter::once(f64::INFINITY)) {
        let tail = normal_tail(z.abs());
        // erfc: a few ulp; rounding of z moves the tail by a relative z²u
        let tail_error = if tail == 0.0 { f64::MIN_POSITIVE } else { (8.0 + 2.0 * z * z) * U * tail };
        let m = if z <= 0.0 {
            tail - tail0
        } else if z0 >= 0.0 {
            tail0 - tail
        } else {
            1.0 - tail - tail0
        };
        mass.push(m.max(0.0));
        error.push(tail_error + error0 + 2.0 * U * m.abs());
        (z0, tail0, error0) = (z, tail, tail_error);
    }
    (mass, error)
}

/// (Q, P) for a pair (P, Q): the other direction.
#[derive(Clone, Debug)]
pub(crate) struct Reversed<T>(pub T);

impl<T: Pair> Pair for Reversed<T> {
    fn masses(&self, borders: &[f64]) -> Masses {
        let mirrored: Vec<f64> = borders.iter().rev().map(|e| -e).collect();
        let mut m = self.0.masses(&mirrored);
        for v in [&mut m.p, &mut m.q, &mut m.p_error, &mut m.q_error] {
            v.reverse();
        }
        Masses { p: m.q, q: m.p, p_error: m.q_error, q_error: m.p_error }
    }

    fn compares_exactly(&self) -> bool {
        self.0.compares_exactly()
    }

    fn atoms(&self) -> PointLosses {
        self.0.atoms().map(|l| -l)
    }
}

/// The pair of a leaf for each order of the neighbours. A symmetric leaf has the same one twice.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub with_to_without: Arc<dyn Pair>,
    pub without_to_with: Arc<dyn Pair>,
}

impl Sides {
    pub fn directed<T: Pair + Clone + 'static>(pair: T) -> Self {
        Self { with_to_without: Arc::new(pair.clone()), without_to_with: Arc::new(Reversed(pair)) }
    }

    pub fn symmetric<T: Pair + 'static>(pair: T) -> Self {
        let pair: Arc<dyn Pair> = Arc::new(pair);
        Self { with_to_without: pair.clone(), without_to_with: pair }
    }

    pub fn is_symmetric(&self) -> bool {
        Arc::ptr_eq(&self.with_to_without, &self.without_to_with)
    }
}

/// `base` where a shown coin, of the same law on both sides, says so; else nothing: loss 0. Its profile
/// q·δ(ε) + (1 − q)·max(0, 1 − e^ε) grows with q, as max(0, 1 − e^ε) is the least there is.
#[derive(Clone, Debug)]
pub(crate) struct GatedPair<T> {
    pub probability: f64,
    pub base: T,
}

impl<T: Pair> Pair for GatedPair<T> {
    fn masses(&self, borders: &[f64]) -> Masses {
        let q = self.probability;
        let mut m = self.base.masses(borders);
        for (mass, error) in [(&mut m.p, &mut m.p_error), (&mut m.q, &mut m.q_error)] {
            mass.iter_mut().zip(error).for_each(|(mass, error)| {
                *error = q * *error + 4.0 * U * q * *mass;
                *mass *= q;
            });
        }
        let zero = borders.partition_point(|border| *border < 0.0);
        for (mass, error) in [(&mut m.p[zero], &mut m.p_error[zero]), (&mut m.q[zero], &mut m.q_error[zero])] {
            *mass += 1.0 - q;
            *error += 4.0 * U * *mass;
        }
        m
    }

    fn atoms(&self) -> PointLosses {
        let mut atoms = self.base.atoms();
        atoms.losses.push(0.0);
        atoms
    }
}

impl Pair for Box<dyn Pair> {
    fn masses(&self, borders: &[f64]) -> Masses {
        (**self).masses(borders)
    }

    fn compares_exactly(&self) -> bool {
        (**self).compares_exactly()
    }

    fn atoms(&self) -> PointLosses {
        (**self).atoms()
    }
}

impl Pair for std::sync::Arc<dyn Pair> {
    fn masses(&self, borders: &[f64]) -> Masses {
        (**self).masses(borders)
    }

    fn compares_exactly(&self) -> bool {
        (**self).compares_exactly()
    }

    fn atoms(&self) -> PointLosses {
        (**self).atoms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaussian_masses_add_up_and_mirror() {
        let pair = GaussianPair { mu: 1.3 };
        let borders = [-30.0, -3.0, -0.5, 0.0, 0.1, 2.0, 9.0, 40.0];
        let m = pair.masses(&borders);
        assert!((m.p.iter().sum::<f64>() - 1.0).abs() < 1e-14 && (m.q.iter().sum::<f64>() - 1.0).abs() < 1e-14);
        // (P, Q) and (Q, P) have the same law of the loss
        let r = Reversed(pair).masses(&borders);
        for i in 0..m.p.len() {
            assert!((m.p[i] - r.p[i]).abs() <= 1e-13 * m.p[i] + m.p_error[i] + r.p_error[i]);
            // inside a cell the ratio lies between the borders
            if i > 0 && i < borders.len() && m.q[i] > 1e-300 {
                let loss = (m.p[i] / m.q[i]).ln();
                assert!(loss > borders[i - 1] - 1e-9 && loss < borders[i] + 1e-9, "{loss} {i}");
            }
        }
    }
}
