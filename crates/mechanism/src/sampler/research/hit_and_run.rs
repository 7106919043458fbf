//! Hit-and-run (Smith 1984; Lovász, Vempala 2006): along a uniform line through the point, the law that the target has there.

use crate::sampler::log_concave::LogConcave;
use crate::sampler::potential::Potential;
use dpopt_noise::Stream;

/// Cuts by a third of the interval in which the mode of a line is sought.
const CUTS: u32 = 30;
/// Doublings of a step until the potential has risen by 1.
const DOUBLINGS: u32 = 60;

/// `point` after so many rounds for e^(−F), F = scale·value convex, infinite outside of the target's set; `width` is about how far F takes to
/// rise by 1. `point` must have a finite F; where F does not rise by 1 on both sides of a line, so that no law is seen on it, the point stays.
///
/// Each slice is drawn by exact rejection, up to the rounding of F. How far the last point is from the target is not known.
pub fn hit_and_run<P: Potential>(potential: &P, point: &mut [f64], width: f64, rounds: u64, stream: &mut Stream) {
    let beta = potential.scale();
    let mut direction = vec![0.0; point.len()];
    for _ in 0..rounds {
        direction.iter_mut().for_each(|u| *u = stream.standard_normal());
        let length = direction.iter().map(|u| u * u).sum::<f64>().sqrt();
        direction.iter_mut().for_each(|u| *u /= length);
        let at = |t: f64| -> f64 {
            let moved: Vec<f64> = point.iter().zip(&direction).map(|(x, u)| x + t * u).collect();
            beta * potential.value(&moved)
        };
        let Some(mode) = least(&at, width) else { continue };
        let slice = LogConcave::new(|t| -at(t), (f64::NEG_INFINITY, f64::INFINITY), mode, width);
        let t = slice.sample(stream);
        point.iter_mut().zip(&direction).for_each(|(x, u)| *x += t * u);
    }
}

/// About where a convex function of the line is least; `None` if it does not rise by 1 on both sides, or is no number at 0.
fn least(at: &impl Fn(f64) -> f64, width: f64) -> Option<f64> {
    let here = at(0.0);
    if !here.is_finite() {
        return None;
    }
    let end = |sign: f64| {
        let mut step = width;
        for _ in 0..DOUBLINGS {
            // no number counts as outside
            if !(at(sign * step) < here + 1.0) {
                return Some(sign * step);
            }
            step *= 2.0;
        }
        None
    };
    let (mut low, mut high) = (end(-1.0)?, end(1.0)?);
    for _ in 0..CUTS {
        let third = (high - low) / 3.0;
        let (a, b) = (low + third, high - third);
        if at(a) <= at(b) { high = b } else { low = a }
    }
    // where the set ends between the two, the point itself is inside
    let middle = 0.5 * (low + high);
    Some(if at(middle) <= here { middle } else { 0.0 })
}
