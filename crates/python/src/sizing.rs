//! Which ε, how many rows: a goal instead of a budget. Python makes the plans that the search asks for.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::face::pythonic;
use dpopt::loss::Loss;
use dpopt::sizing::{Goal, Scale, SizingRequest, size};
use dpopt_refusal::Refusal;
use pyo3::prelude::*;

/// A goal as keywords: accuracy, points that may be lost, error, error that may be added, and what is reached without privacy.
type Keywords = (Option<f64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>);

fn goal_of((accuracy, loss_points, error, added_error, best): Keywords) -> PyResult<Option<Goal>> {
    Goal::of(accuracy, loss_points, error, added_error, best).map_err(invalid)
}

/// Why a search stopped.
struct Stopped(PyErr);

impl From<Refusal> for Stopped {
    fn from(why: Refusal) -> Self {
        Self(invalid(why))
    }
}

impl From<PyErr> for Stopped {
    fn from(why: PyErr) -> Self {
        Self(why)
    }
}

/// Whether there is a goal among the keywords.
#[pyfunction]
pub(crate) fn has_goal(keywords: Keywords) -> PyResult<bool> {
    Ok(goal_of(keywords)?.is_some())
}

/// The answer as JSON, as text and as an SVG picture. `loss` is the plan's, as JSON; `excess` gives the excess risk that is predicted at ε on so many
/// rows, None where no method applies.
#[pyfunction]
pub(crate) fn sizing(
    keywords: Keywords,
    loss: &str,
    range: Option<(f64, f64)>,
    epsilon: Option<f64>,
    rows: Option<u64>,
    excess: &Bound<'_, PyAny>,
) -> PyResult<(String, String, String)> {
    let loss: Loss = serde_json::from_str(loss).map_err(invalid)?;
    let Some(goal) = goal_of(keywords)? else { return Err(refused("no goal is given")) };
    let request = SizingRequest { goal, scale: Scale::of(&loss, range).map_err(invalid)?, epsilon, rows };
    let found = size(&request, |epsilon, rows| Ok::<_, Stopped>(excess.call1((epsilon, rows))?.extract()?));
    let found = found.map_err(|Stopped(why)| why)?;
    Ok((json(&found)?, pythonic(|| found.to_string()), found.svg().map_err(refused)?))
}
