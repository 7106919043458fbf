//! Faults of moments of classes (docs/proofs/class-moments.md).

use super::Source::Altered;
use super::{Code, InjectedFault};
use crate::library::moments::{moments, sums};

/// The term of a record at the end of its bounds: what it moves the released sums by, the noise being the same.
fn term(code: Code) -> Result<(), String> {
    let plan = moments()?;
    let event = plan.certificate.event();
    let seen = |with: bool| sums(&plan, event, with, 1).map_err(|e| e.to_string());
    let (with, without) = (seen(true)?, seen(false)?);
    let honest: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
    let w = plan.weights;
    let size = code.pick(honest, vec![w.count, w.first, w.second]).iter().map(|v| v * v).sum::<f64>().sqrt();
    // truncated to a grid: a little less than 1
    if size > 0.99 && size <= 1.0 { Ok(()) } else { Err(format!("a record of norm {size:.4} where 1 was promised")) }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![InjectedFault::looking(
        (
            "44.plain-squares",
            Altered,
            "t and t^2 summed with the noise that is made for t and c - t^2",
            "norm of what a record at the end of its bounds adds against 1",
        ),
        term,
    )]
}
