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
        let mut orders: Vec<(f64, f64)> =
            [1.05, 1.1, 1.2, 1.35, 1.7, 2.2, 3.0, 5.0].iter().map(|factor| (factor * tilt, 0.0)).collect();
        for (lattice, count) in parts {
            let ln_mass: Vec<f64> = lattice.mass.iter().map(|mass| mass.ln()).collect();
            orders.iter_mut().for_each(|(theta, k)| *k += *count as f64 * ln_moment(lattice, &ln_mass, *theta));
        }
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

/// ln Σ p e^(θ loss) of the masses p with these logarithms, rounded up.
fn ln_moment(lattice: &Lattice, ln_mass: &[f64], theta: f64) -> f64 {
    // what is below e^-45 of the largest term is counted as so much
    const LEAST: f64 = -45.0;
    let exponents = || lattice.index.iter().zip(ln_mass).map(|(k, ln)| theta * *k as f64 * lattice.step + ln);
    let top = exponents().fold(f64::NEG_INFINITY, f64::max);
    let least = LEAST.exp();
    let sum: f64 = exponents().map(|e| if e - top < LEAST { least } else { (e - top).exp() }).sum();
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
