//! What the copies of a finite Fourier window may have added to δ (docs/proofs/accounting-pld.md, "Lower bound").
//!
//! The periodic sum at ε is Σ_i e^(λ′iW)·δ(ε + iW). The copies on the left have δ ≤ 1; those on the right are bounded by
//! Chernoff at orders θ above the folding tilt λ′: δ(x) ≤ e^(K(θ) − θx).

use super::lattice::Lattice;
use super::pair::U;
use super::spectrum::Part;

/// Bounds on all copies for one composition.
#[derive(Debug)]
pub(crate) struct Copies {
    tilt: f64,
    width: f64,
    /// Orders θ of Chernoff bounds with K(θ), the logarithm of the composed moment E e^(θL), rounded up.
    orders: Vec<(f64, f64)>,
}

impl Copies {
    /// `tilt` is λ′, `width` the window's length W in ε.
    pub fn new(parts: &[Part], tilt: f64, width: f64) -> Self {
        let orders = [1.05, 1.1, 1.2, 1.35, 1.7, 2.2, 3.0, 5.0]
            .iter()
            .map(|factor| factor * tilt)
            .map(|theta| (theta, parts.iter().map(|(l, t)| *t as f64 * ln_moment(l, theta)).sum()))
            .collect();
        Self { tilt, width, orders }
    }

    /// Upper bound on what the copies add to δ at `epsilon`.
    pub fn bound(&self, epsilon: f64) -> f64 {
        let left = 1.0 / (self.tilt * self.width).exp_m1();
        let right = self
            .orders
            .iter()
            .map(|(theta, k)| (k - theta * epsilon).exp() / ((theta - self.tilt) * self.width).exp_m1())
            .fold(f64::INFINITY, f64::min);
        (left + right) * (1.0 + 1e-9)
    }
}

/// ln Σ p e^(θ loss), rounded up.
fn ln_moment(lattice: &Lattice, theta: f64) -> f64 {
    let exponent = |i: usize| theta * lattice.index[i] as f64 * lattice.step + lattice.mass[i].ln();
    let top = (0..lattice.mass.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = (0..lattice.mass.len()).map(|i| (exponent(i) - top).exp()).sum();
    top + sum.ln() + 16.0 * U * (1.0 + top.abs()) + lattice.mass.len() as f64 * U
}

#[cfg(test)]
mod tests {
    use super::super::spectrum::{Spectrum, fast_size};
    use super::*;

    #[test]
    fn a_short_window_is_off_by_no_more_than_the_bound() {
        let p = 1.0 / (1.0 + (-0.1f64).exp());
        let coin = Lattice { step: 0.05, index: vec![-2, 2], mass: vec![1.0 - p, p], infinite: 0.0, loss_error: 0.0 };
        let parts = [(coin, 60)];
        let exact = Spectrum::new(&parts, 3.0, 1024);
        for points in [48, 64, 96] {
            let short = Spectrum::new(&parts, 3.0, fast_size(points));
            let copies = Copies::new(&parts, 3.0, fast_size(points) as f64 * 0.05);
            let mut seen = false;
            for j in 0..50 {
                let excess = short.delta(j).0 - exact.delta(j).0;
                assert!(excess <= copies.bound(f64::from(j as i32) * 0.05) + 1e-12, "{points} {j}: {excess}");
                seen |= excess > 1e-9;
            }
            assert!(seen || points > 64);
        }
    }
}
