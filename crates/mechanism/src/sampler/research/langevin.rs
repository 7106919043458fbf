//! Unadjusted Langevin: steps along the slope, with noise. Its law is near e^(−F) for short steps, and never that.

use crate::sampler::potential::Potential;
use dpopt_noise::Stream;

/// `point` after so many steps x ← x − h∇F(x) + √(2h)·ζ, F = scale·value.
///
/// For F = x²/2 the law of the steps is N(0, 1/(1 − h/2)): the error does not end with more steps.
pub fn unadjusted_langevin<P: Potential>(potential: &P, point: &mut [f64], step: f64, steps: u64, stream: &mut Stream) {
    let beta = potential.scale();
    let mut slope = vec![0.0; point.len()];
    for _ in 0..steps {
        potential.value_and_subgradient(point, &mut slope);
        for (x, g) in point.iter_mut().zip(&slope) {
            *x += (2.0 * step).sqrt() * stream.standard_normal() - step * beta * g;
        }
    }
}
