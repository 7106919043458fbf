//! Several releases on *one* sample: the pair of their composition as a list of losses, by direct convolution.
//!
//! Every term is positive, so rounding is relative; masses are moved up by more than it. The list dominates the
//! composition at every γ > 0, as sampling it afterwards needs.

use super::atoms::{Atoms, Rest};
use super::grid::{PER_DECADE, aligned_step, coarse_borders};
use super::lattice::{Lattice, connect_the_dots};
use super::pair::{Pair, U};
use super::tilt::View;
use std::sync::Arc;

/// Mass of the tails that is moved to +∞ or to the lowest loss kept.
const TAIL: f64 = 1e-32;
/// Lattice points per standard deviation of the composed loss.
const PER_DEVIATION: f64 = 400.0;
/// Most lattice points of a composition.
const MAX_POINTS: f64 = 16_384.0;
/// More points than this are given up: four times what a sum without a heavy tail needs.
const TOO_MANY: f64 = 4.0 * MAX_POINTS;
/// From so many draws on a sum is near a Gaussian …
const MANY: u64 = 1 << 16;
/// … of which [`TAIL`] leaves 24 deviations; no fewer than this are kept, however it is skewed.
const SURELY: f64 = 12.0;
/// Relative rounding of one convolution, generously: 2^14 additions.
const ROUNDING: f64 = 1e-11;

/// P-masses at consecutive lattice points; the Q-mass of loss l is e^(−l) times the P-mass.
#[derive(Clone)]
struct Dense {
    step: f64,
    first: i64,
    mass: Vec<f64>,
    infinite: f64,
    /// Upper bound on the mass of Q that has no mass of P: loss −∞. It is worked out, not taken for what the masses leave: those are moved up, and
    /// what they are too large would be missing here.
    gone: f64,
}

impl Dense {
    fn convolved(&self, other: &Self) -> Self {
        let mut mass = vec![0.0; self.mass.len() + other.mass.len() - 1];
        for (i, x) in self.mass.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            for (sum, y) in mass[i..].iter_mut().zip(&other.mass) {
                *sum += x * y;
            }
        }
        mass.iter_mut().for_each(|x| *x *= 1.0 + ROUNDING);
        let infinite = (self.infinite + other.infinite) * (1.0 + ROUNDING);
        let gone = (self.gone + other.gone).min(1.0) * (1.0 + ROUNDING);
        Self { step: self.step, first: self.first + other.first, mass, infinite, gone }.trimmed()
    }

    /// Q-mass that goes with a P-mass at lattice point `i`.
    fn q(&self, i: usize, p: f64) -> f64 {
        if p == 0.0 { 0.0 } else { p * (-(self.first + i as i64) as f64 * self.step).exp() }
    }

    /// Tails of at most [`TAIL`] are moved to higher losses, where less of Q goes with them.
    fn trimmed(mut self) -> Self {
        let (mut above, mut gone) = (0.0, 0.0);
        while self.mass.len() > 1 && above + self.mass[self.mass.len() - 1] <= TAIL {
            let last = self.mass.pop().unwrap_or(0.0);
            gone += self.q(self.mass.len(), last);
            above += last;
        }
        self.infinite += above;
        let (mut below, mut cut) = (0.0, 0);
        while cut + 1 < self.mass.len() && below + self.mass[cut] <= TAIL {
            gone += self.q(cut, self.mass[cut]);
            below += self.mass[cut];
            cut += 1;
        }
        self.mass.drain(..cut);
        self.first += cut as i64;
        self.mass[0] += below;
        self.gone = (self.gone + gone * (1.0 + ROUNDING)).min(1.0);
        self
    }

    /// The masses of one draw, from its lattice. `gone` is what Q has beyond the Q-masses of the lattice, which are at most its own in every cell but the
    /// first, whose P-mass was moved up by its error.
    fn of(lattice: Lattice, first: i64) -> Self {
        let mut dense = Self { step: lattice.step, first, mass: lattice.mass, infinite: lattice.infinite, gone: 0.0 };
        let (mut sum, mut lost, mut error) = (0.0f64, 0.0, 0.0);
        for (i, p) in dense.mass.iter().enumerate() {
            let q = dense.q(i, *p);
            // Neumaier's sum
            let next = sum + q;
            lost += if sum.abs() >= q.abs() { (sum - next) + q } else { (q - next) + sum };
            sum = next;
            let loss = (first + i as i64) as f64 * dense.step;
            error += (8.0 + 4.0 * loss.abs()) * U * q;
        }
        let lowest = dense.q(0, dense.mass[0]);
        dense.gone = ((1.0 - sum) - lost).max(0.0) + error + ROUNDING * lowest + 4.0 * U;
        dense
    }

    /// Variance of the finite part, in lattice points.
    fn variance(&self) -> f64 {
        let moment =
            |f: &dyn Fn(f64) -> f64| -> f64 { self.mass.iter().enumerate().map(|(i, m)| m * f(i as f64)).sum() };
        let mean = moment(&|i| i);
        moment(&|i| (i - mean) * (i - mean))
    }

    /// `times` draws; `None` if that spreads over too many points.
    fn power(&self, mut times: u64) -> Option<Self> {
        // a sum that long is not worked out to be thrown away: its tails reach further than SURELY deviations
        if times > MANY && SURELY * (times as f64 * self.variance()).sqrt() > TOO_MANY {
            return None;
        }
        let short = |dense: Self| (dense.mass.len() as f64 <= TOO_MANY).then_some(dense);
        let (mut base, mut out) = (self.clone(), None::<Self>);
        loop {
            if times & 1 == 1 {
                out = Some(match out {
                    None => base.clone(),
                    Some(out) => short(out.convolved(&base))?,
                });
            }
            times >>= 1;
            if times == 0 {
                return out;
            }
            base = short(base.convolved(&base))?;
        }
    }
}

/// The composition of `parts`, or `None` if its losses spread over too many lattice points.
pub(crate) fn product(parts: &[(Arc<dyn Pair>, u64)]) -> Option<Atoms> {
    let views: Vec<(View, u64)> =
        parts.iter().map(|(pair, t)| (View::new(pair, &coarse_borders(pair, TAIL, 1.0, PER_DECADE)), *t)).collect();
    // a loss beyond every border
    if views.iter().any(|(view, _)| view.loss.is_empty()) {
        return None;
    }
    let (mut variance, mut widest) = (0.0, 0.0f64);
    for (view, t) in &views {
        variance += *t as f64 * view.cumulants(0.0).variance;
        widest = widest.max(view.high[view.high.len() - 1] - view.low[0]);
    }
    let wanted = variance.sqrt() / PER_DEVIATION;
    // a heavy tail wants more room than its deviation says
    let least = (widest / MAX_POINTS).max(20.0 * variance.sqrt() / MAX_POINTS);
    let atoms: Vec<_> = parts.iter().map(|(pair, t)| (pair.atoms(), *t)).collect();
    let step = aligned_step(wanted, least, &atoms);
    let mut total: Option<Dense> = None;
    for ((pair, t), (view, _)) in parts.iter().zip(&views) {
        let (low, high) = (view.low[0], view.high[view.high.len() - 1]);
        let (first, last) = ((low / step).floor() as i64, ((high / step).ceil() as i64) + 1);
        let index: Vec<i64> = (first..=last).collect();
        let lattice = connect_the_dots(pair, step, index)?;
        // losses may be larger than said by `loss_error`: one lattice point at most 2^40 times that
        let dense = Dense::of(lattice, first).trimmed().power(*t)?;
        let next = total.map_or(dense.clone(), |sum| sum.convolved(&dense));
        if next.mass.len() as f64 > TOO_MANY {
            return None;
        }
        total = Some(next);
    }
    let total = total?;
    let losses: f64 = parts.iter().map(|(_, t)| *t as f64).sum();
    // rounding of the losses of single draws, added once
    let error = losses * 8.0 * U * (1.0 + widest);
    let q: f64 = total.mass.iter().enumerate().map(|(i, p)| total.q(i, *p)).sum();
    let gone = (total.gone + error * q) * (1.0 + ROUNDING);
    let mut out = Atoms { infinite: total.infinite, rest: Rest::Rounded(gone.min(1.0)), ..Atoms::default() };
    for (i, p) in total.mass.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        out.loss.push((total.first + i as i64) as f64 * step + error);
        out.p.push(*p);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::closed::LaplacePair;
    use super::super::pair::GaussianPair;
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    #[test]
    fn gaussians_are_a_gaussian() {
        let parts: Vec<(Arc<dyn Pair>, u64)> =
            vec![(Arc::new(GaussianPair { mu: 0.3 }), 9), (Arc::new(GaussianPair { mu: 0.4 }), 4)];
        let exact = GaussianPair { mu: (0.81f64 + 0.64).sqrt() };
        let got = product(&parts).unwrap();
        for e in [-2.0, -0.3, 0.0, 0.5, 2.0, 6.0] {
            let (a, b) = (profile(&got, e), profile(&exact, e));
            assert!(a >= b && a < b * (1.0 + 1e-3), "{e}: {a} {b}");
        }
    }

    /// Three thousand million draws of one sample: the sum would spread over ten times the points there are, and working it out
    /// to see that takes minutes.
    #[test]
    fn a_sum_that_spreads_too_far_is_given_up_at_once() {
        let integers = super::super::closed::discrete_laplace(0.623077, 1).unwrap();
        let one: Arc<dyn Pair> = Arc::new(integers);
        let started = std::time::Instant::now();
        assert!(product(&[(one.clone(), 3_000_000_000)]).is_none());
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
        // so many that just fit are added up
        assert!(product(&[(one, 1000)]).is_some());
    }

    /// Randomized response and T releases that fail with probability δ₀, on one Poisson sample: few outcomes, so the reverse order is
    /// known. What Q has alone, 1 − (1 − δ₀)^T, is all there is above the losses of the response.
    #[test]
    fn what_q_has_alone_is_not_lost_in_the_rounding_of_what_it_shares() {
        let response = super::super::closed::randomized_response(0.5, 2, dpopt_event::Relation::ZeroOut).0;
        let fails = |delta: f64| -> Arc<dyn Pair> { Arc::new(Atoms::symmetric(&[0.0], &[delta])) };
        for (delta, times) in [(1e-11, 30_000u64), (8e-12, 1), (1e-11, 1_000_000_000), (1e-6, 500)] {
            let parts: Vec<(Arc<dyn Pair>, u64)> = vec![(Arc::new(response.clone()), 1), (fails(delta), times)];
            let got = product(&parts).unwrap();
            // (Q, P) below every finite loss of P: −∞ only
            let alone = got.masses(&[-5.0]);
            let truth = -(times as f64 * (-delta).ln_1p()).exp_m1();
            let (least, most) = (alone.q[0] - alone.q_error[0], alone.q[0] + alone.q_error[0]);
            assert!(
                most >= truth && least <= truth * 1.02 + times as f64 * 3e-11,
                "{delta} {times}: {least} {most} {truth}"
            );
            assert!(alone.q[0] >= truth, "{delta} {times}: {} {truth}", alone.q[0]);
        }
    }

    /// Two Laplace releases on one sample are no worse at a tiny δ than their losses add up to.
    #[test]
    fn rounding_does_not_make_a_failure_that_is_none() {
        use crate::accountant::{Accountant, pld::Pld};
        let event = dpopt_event::Event::composed(vec![
            dpopt_event::Event::Laplace { noise_multiplier: 200.0 },
            dpopt_event::Event::Laplace { noise_multiplier: 300.0 },
        ]);
        for (q, most) in [(0.5, 0.00421), (0.9, 0.00752)] {
            let sampled = event.clone().poisson_sampled(q);
            let bound = Pld::default().epsilon(&sampled, dpopt_event::Relation::ZeroOut, 1e-13).unwrap();
            assert!(bound.upper <= most, "{q}: {}", bound.upper);
        }
    }

    /// Losses so large that no border is below them: nothing is left to multiply.
    #[test]
    fn losses_beyond_every_border_are_refused() {
        let sure: Arc<dyn Pair> = Arc::new(Atoms { infinite: 1.0, ..Atoms::default() });
        assert!(product(&[(sure, 1), (Arc::new(LaplacePair { shift: 0.2 }), 2)]).is_none());
    }

    /// Two Laplace releases: both at +s with probability 1/4.
    #[test]
    fn point_losses_stay_exact() {
        let parts: Vec<(Arc<dyn Pair>, u64)> = vec![(Arc::new(LaplacePair { shift: 0.2 }), 2)];
        let got = product(&parts).unwrap();
        let top = profile(&got, 0.3999);
        assert!(top >= 0.25 * -(-0.0001f64).exp_m1() && top < 0.25 * 0.0001 * 1.01, "{top}");
    }
}
