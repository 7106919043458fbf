//! Faults of adaptive clipping and private moments (Asi et al. 2021, Algorithms 2 and 3). Skipped empty batches, batches of fixed size and
//! division by the realised batch size are 20.12, 20.26 and 20.29.
//!
//! Covers: adaptive-gradients algorithm 1, algorithm 2 (14.relation, 14.isotropic-noise, 14.newton)
//! Covers: adaptive-gradients algorithm 3 (14.moments)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::sums::{GradientSums, SumMechanism, canaries};
use dpopt_audit::statistics::Claim;
use dpopt_objective::geometry::project_ellipsoid;
use dpopt_privacy::{Event, Relation, accountant, special};

/// Length of a projected record in the ellipsoid's norm; the injected one stops Newton's method after six steps from outside.
fn newton(code: Code) -> Result<(), String> {
    let (a, mut x) = ([4.0, 1.0, 0.25], [1.0, 2.0, 4.0]);
    match code {
        Code::Correct => project_ellipsoid(&mut x, &a),
        Code::Injected => {
            let mut nu = 0.0;
            for _ in 0..6 {
                let (value, slope) = a.iter().zip(&x).fold((-1.0, 0.0), |(value, slope), (w, v): (&f64, &f64)| {
                    let part = w * (v / (1.0 + nu * w)).powi(2);
                    (value + part, slope - 2.0 * part * w / (1.0 + nu * w))
                });
                nu -= value / slope;
            }
            x.iter_mut().zip(&a).for_each(|(v, w)| *v /= 1.0 + nu * w);
        }
    }
    let length = a.iter().zip(&x).map(|(w, v)| w * v * v).sum::<f64>().sqrt();
    if length <= 1.0 + 1e-15 {
        Ok(())
    } else {
        Err(format!("the record is {:.1e} too long for its noise", length - 1.0))
    }
}

/// δ of one round of private moments at ε = 1 where 10⁻⁶ is claimed; the injected noise is the source's √ln(1/δ)/ε.
fn one_round(code: Code) -> Result<(), String> {
    let (epsilon, delta) = (1.0, 1e-6f64);
    let z = code.pick(1.0 / special::gaussian_mu(epsilon, delta), (1.0 / delta).ln().sqrt() / epsilon);
    let true_delta =
        accountant::delta(&Event::gaussian(z), Relation::ZeroOut, epsilon).map_err(|e| e.to_string())?.upper;
    if true_delta <= delta * (1.0 + 1e-9) { Ok(()) } else { Err(format!("delta is {true_delta:.2e}, not {delta:.0e}")) }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let (right, wrong) =
        (GradientSums::new(Event::gaussian(2.0), 3, 2.0), GradientSums::new(Event::gaussian(1.0), 3, 1.0));
    let worlds = [-1.0, 1.0].map(|t| canaries(3, 1, &[t]));
    let mechanism = SumMechanism::new(1.0, 2);
    vec![
        InjectedFault::counting(
            (
                "14.relation",
                Shipped,
                "noise for replaced records taken from the table for added ones",
                "record +C or -C; coordinate",
            ),
            Claim::gaussian(1.0),
            (300, 3_000),
            move |code, with, draws| {
                let sums = code.pick(&right, &wrong);
                sums.release(&worlds[usize::from(with)], None, 1, draws).map_or(f64::NAN, |g| g[0])
            },
        ),
        InjectedFault::counting(
            (
                "14.isotropic-noise",
                Altered,
                "clip to an ellipsoid with axes 2 and 1/2, the same noise on both: that of the ball of the same volume",
                "canary clipped to the long axis; its entry",
            ),
            Claim::gaussian(1.0),
            (300, 3_000),
            move |code, with, draws| {
                // in units of the noise: the end of an axis, or an axis of length 2 in noise of size 1
                let record = [indicator(with) * code.pick(1.0, 2.0), 0.0];
                let units = match code {
                    Code::Correct => mechanism.clipped(&record),
                    Code::Injected => mechanism.unclipped(&record),
                };
                mechanism.release(&units, draws).first().map_or(f64::NAN, |y| *y)
            },
        ),
        InjectedFault::looking(
            (
                "14.newton",
                Altered,
                "projection on an ellipsoid by Newton's method from outside, no clip at the end",
                "length of a projected record in the ellipsoid's norm",
            ),
            newton,
        ),
        InjectedFault::looking(
            (
                "14.moments",
                Shipped,
                "one round of private moments with the noise sqrt(ln(1/delta))/epsilon (epsilon = 1, delta = 1e-6)",
                "exact delta against the claim",
            ),
            one_round,
        ),
    ]
}
