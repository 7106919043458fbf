//! Connect-the-dots: a pair rounded to atoms on a lattice of losses whose profile is never below the pair's
//! (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022).

#[cfg(test)]
use super::injected::{Bug, is as injected};
use super::pair::{Pair, U};

/// P-masses at the losses `index[i]`·`step` and at +∞.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    pub step: f64,
    /// Lattice points that carry mass: strictly increasing.
    pub index: Vec<i64>,
    pub mass: Vec<f64>,
    pub infinite: f64,
    /// Rounding of the cell borders: the losses may be larger than said by this much.
    pub loss_error: f64,
}

/// Chord interpolation of the profile at the lattice points `index` (strictly increasing, at least one).
/// Masses are moved up by their error bounds, so that the result dominates the exact one. `None` where they are
/// not a probability law: then nothing is certified.
pub(crate) fn connect_the_dots(pair: &dyn Pair, step: f64, index: Vec<i64>) -> Option<Lattice> {
    let borders: Vec<f64> = index.iter().map(|&k| k as f64 * step).collect();
    let m = pair.masses(&borders);
    #[cfg(test)]
    let m = if injected(Bug::IgnoredErrors) {
        super::pair::Masses { p_error: vec![0.0; m.p.len()], q_error: vec![0.0; m.p.len()], ..m }
    } else {
        m
    };
    let n = borders.len();
    let mut mass = vec![0.0; n];
    let relative = |loss: f64| 8.0 * U * (1.0 + loss.abs());
    mass[0] += m.p[0] + m.p_error[0];
    // most cells are as wide as the one before
    let (mut width, mut growth) = (0, 0.0);
    for i in 0..n - 1 {
        let hi = borders[i + 1];
        let p = (m.p[i + 1] + m.p_error[i + 1]) * (1.0 + 4.0 * U);
        // no mass, or none that is known
        if !(p >= 0.0) {
            return None;
        }
        let e = hi.exp();
        let q_top = m.q[i + 1] * e;
        let slack = m.q_error[i + 1] * e + relative(hi) * q_top + 4.0 * U * p;
        if index[i + 1] - index[i] != width {
            width = index[i + 1] - index[i];
            growth = (step * width as f64).exp_m1();
        }
        // a: the part of the cell's mass at its lower end; rounded down
        let lower = ((q_top - slack - p) / growth).clamp(0.0, p);
        #[cfg(test)]
        let lower = if injected(Bug::RoundedDown) { p } else { lower };
        mass[i] += lower;
        mass[i + 1] += p - lower;
    }
    let top = borders[n - 1];
    let p = (m.p[n] + m.p_error[n]) * (1.0 + 4.0 * U);
    if !(p >= 0.0) {
        return None;
    }
    let finite = ((m.q[n] - m.q_error[n]) * top.exp() * (1.0 - relative(top))).clamp(0.0, p);
    mass[n - 1] += finite;
    let largest = borders[0].abs().max(top.abs());
    let infinite = p - finite;
    #[cfg(test)]
    let infinite = if injected(Bug::DroppedInfinity) { 0.0 } else { infinite };
    Lattice { step, index, mass, infinite, loss_error: 4.0 * U * (1.0 + largest) }.complete()
}

/// What rounding may take from the total mass: n cells, each to a few u, and what their sum loses.
const LOST: f64 = 1e-9;

impl Lattice {
    /// `self` if its masses are finite, not negative and together at least one: all of P is there.
    fn complete(self) -> Option<Self> {
        let sound = |m: &f64| *m >= 0.0 && m.is_finite();
        let total = self.mass.iter().sum::<f64>() + self.infinite;
        let sound = self.mass.iter().all(sound) && sound(&self.infinite) && total >= 1.0 - LOST;
        #[cfg(test)]
        let sound = sound || injected(Bug::IgnoredErrors) || injected(Bug::DroppedInfinity);
        sound.then_some(self)
    }

    /// The privacy profile δ(ε) of the lattice's atoms at `epsilon`.
    #[cfg(test)]
    pub fn profile(&self, epsilon: f64) -> f64 {
        let mut sum = self.infinite;
        for (k, m) in self.index.iter().zip(&self.mass) {
            let loss = *k as f64 * self.step;
            if loss > epsilon {
                sum -= m * (epsilon - loss).exp_m1();
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::GaussianPair;
    use super::*;

    #[test]
    fn exact_on_the_grid_and_above_between() {
        let pair = GaussianPair { mu: 1.0 };
        let lattice = connect_the_dots(&pair, 0.1, (-80..=120).collect()).unwrap();
        for (epsilon, value) in [(0.0, 0.382924922548), (1.0, 0.1269367375066)] {
            let got = lattice.profile(epsilon);
            assert!(got >= value - 1e-12 && got < value * (1.0 + 1e-10) + 1e-12, "{got} {value}");
        }
        let m = pair.masses(&[0.55]);
        assert!(lattice.profile(0.55) > m.p[1] - 0.55f64.exp() * m.q[1]);
        assert!((lattice.mass.iter().sum::<f64>() + lattice.infinite - 1.0).abs() < 1e-10);
    }

    /// A point so high that e^loss overflows gives no masses; nothing is certified then.
    #[test]
    fn masses_that_are_no_law_are_refused() {
        assert!(connect_the_dots(&GaussianPair { mu: 1.0 }, 400.0, vec![-1, 0, 1, 2]).is_none());
        let short = Lattice { step: 1.0, index: vec![0], mass: vec![0.5], infinite: 0.4, loss_error: 0.0 };
        assert!(short.clone().complete().is_none());
        assert!(Lattice { infinite: 0.5, ..short.clone() }.complete().is_some());
        assert!(Lattice { infinite: f64::NAN, ..short }.complete().is_none());
    }
}
