//! Restricted Gaussian oracle B: a density ratio on all data, cut at M (docs/proofs/proximal-sampler.md).
//!
//! x, z independent from 𝒢 ∝ e^(−m‖·−x_c‖²/2 − ‖·−y‖²/(2η)) on the domain; x is accepted with probability
//! min(e^(F(z)−F(x)), M)/M. With differences of F between two points Lipschitz of constant g_0, v = η·g_0² ≤ ln M/2 gives
//! a total-variation error of at most M·e^(−(ln M)²/(4v)) per draw. Values only; the dimension does not enter.

use super::{Exhausted, Proximal, Tally};
use crate::sampler::domain::rounded;
use crate::sampler::potential::Potential;
use crate::sampler::wide::Wide;
use dpopt_noise::Stream;

/// ln M: 2 balances the number of proposals against the size of the step.
pub const LN_CUT: f64 = 2.0;

/// Bound on the error of one draw at v = η·g_0²; infinite where nothing is proved.
pub fn total_variation(v: f64) -> f64 {
    if v > 0.0 && v <= 0.5 * LN_CUT { (LN_CUT - LN_CUT * LN_CUT / (4.0 * v)).exp() } else { f64::INFINITY }
}

/// The largest v whose bound is at most `delta`, rounded down.
///
/// ```
/// use dpopt_mechanism::sampler::ratio;
/// // 1/v = 2 − ln δ: 15.8 for 1e-6
/// let v = ratio::largest_step(1e-6);
/// assert!((1.0 / v - 15.8155).abs() < 1e-3 && ratio::total_variation(v) <= 1e-6);
/// ```
pub fn largest_step(delta: f64) -> f64 {
    // ln M − (ln M)²/(4v) = ln δ
    let v = LN_CUT * LN_CUT / (4.0 * (LN_CUT - delta.ln()));
    v.min(0.5 * LN_CUT) * (1.0 - 1e-12)
}

pub(super) fn draw<P: Potential>(
    prox: &Proximal<'_, P>,
    y: &[Wide],
    x: &mut [Wide],
    stream: &mut Stream,
    tally: &mut Tally,
) -> Result<(), Exhausted> {
    let (centre, std) = prox.free_gaussian(y);
    let mut other = x.to_vec();
    loop {
        prox.domain.gaussian(&centre, std, x, stream);
        prox.domain.gaussian(&centre, std, &mut other, stream);
        let (at_x, at_other) = (prox.potential.value(&rounded(x)), prox.potential.value(&rounded(&other)));
        tally.values += 2;
        let ln_ratio = prox.potential.scale() * (at_other - at_x);
        // both: only a pair from one law has the mean ratio that the bound rests on. `max` would turn NaN into 0, which accepts
        let inside = prox.domain.admits(x) && prox.domain.admits(&other);
        if inside && !ln_ratio.is_nan() && stream.bernoulli_exp((LN_CUT - ln_ratio).max(0.0)) {
            return Ok(());
        }
    }
}
