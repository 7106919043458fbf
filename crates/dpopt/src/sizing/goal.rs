//! What a fit is to reach, and what that allows privacy to cost.

use super::scale::{Estimate, Scale};
use dpopt_privacy::Shown;
use dpopt_refusal::{Refusal, Remedy, Text, option, text};
use serde::Serialize;

/// What a fit is to reach. A number that depends on the data is said beside what a model without privacy reaches: no public fact tells that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Goal {
    /// A share of right answers.
    Accuracy {
        /// The share, between 0 and 1.
        accuracy: f64,
        /// The share that a model without privacy reaches.
        best: f64,
    },
    /// At most so many points of accuracy less than without privacy.
    LossPoints {
        /// Points: hundredths.
        loss_points: f64,
    },
    /// A root-mean-square error, in the unit of the target.
    Error {
        /// The error.
        error: f64,
        /// The error of a model without privacy.
        best: f64,
    },
    /// At most so large an error that privacy adds: the root of the mean square by which predictions get worse, in the unit of the target.
    AddedError {
        /// The error.
        added_error: f64,
    },
}

impl Goal {
    /// The one goal among what was said, if anything was.
    ///
    /// # Errors
    /// If several goals were said, or one without what it needs.
    pub fn of(
        accuracy: Option<f64>,
        loss_points: Option<f64>,
        error: Option<f64>,
        added_error: Option<f64>,
        best: Option<f64>,
    ) -> Result<Option<Self>, Refusal> {
        let said: Vec<&'static str> = [
            ("accuracy", accuracy.is_some()),
            ("loss_points", loss_points.is_some()),
            ("error", error.is_some()),
            ("added_error", added_error.is_some()),
        ]
        .into_iter()
        .filter_map(|(id, said)| said.then_some(id))
        .collect();
        if let [first, second, ..] = said[..] {
            let both = text![option(first), " and ", option(second), " are two goals"];
            return Err(Refusal::of(both).or(Remedy::LeaveOut(second)));
        }
        let Some(best) = best else {
            let needs_best = |id, what: &'static str, instead| {
                let subject = text![option(id), format!(" depends on the records, which no plan reads: {what}")];
                Err(Refusal::of(subject).or(Remedy::Set("best", "B".into())).or(Remedy::Set(instead, "P".into())))
            };
            return match (accuracy, error, loss_points, added_error) {
                (Some(_), ..) => needs_best(
                    "accuracy",
                    "say what a model without privacy reaches (a public table, literature), or how many points privacy may cost",
                    "loss_points",
                ),
                (_, Some(_), ..) => needs_best(
                    "error",
                    "say the error of a model without privacy (a public table, literature), or how large an error privacy may add",
                    "added_error",
                ),
                (.., Some(loss_points), _) => Ok(Some(Self::LossPoints { loss_points })),
                (.., Some(added_error)) => Ok(Some(Self::AddedError { added_error })),
                _ => Ok(None),
            };
        };
        match (accuracy, error) {
            (Some(accuracy), _) => Ok(Some(Self::Accuracy { accuracy, best })),
            (_, Some(error)) => Ok(Some(Self::Error { error, best })),
            _ => Err(Refusal::of(text![option("best"), " belongs to a goal that depends on the records"])
                .or(Remedy::Set("accuracy", "A".into()))
                .or(Remedy::Set("error", "X".into()))
                .or(Remedy::LeaveOut("best"))),
        }
    }

    /// What privacy may cost, in the unit of the scale.
    ///
    /// # Errors
    /// If the goal is not of this scale, not a number within its range, above what a model without privacy reaches, or reached by a guess.
    pub fn allowed(&self, scale: &Scale) -> Result<f64, Refusal> {
        match (*self, *scale) {
            (Self::Accuracy { .. } | Self::LossPoints { .. }, Scale::Error { .. }) => {
                Err(Refusal::of(text![option(self.id()), " is for classes, and the target is a number"])
                    .or(Remedy::Set("error", "X".into()))
                    .or(Remedy::Set("added_error", "X".into())))
            }
            (Self::Error { .. } | Self::AddedError { .. }, Scale::Points { .. }) => {
                Err(Refusal::of(text![option(self.id()), " is for numbers, and the target has classes"])
                    .or(Remedy::Set("accuracy", "A".into()))
                    .or(Remedy::Set("loss_points", "P".into())))
            }
            (Self::Accuracy { accuracy, best }, Scale::Points { classes }) => {
                let guess = 1.0 / f64::from(classes);
                let above = format!("a share above {} (a guess among {classes} classes)", Shown(rounded(guess)));
                within("best", best, guess, 1.0, text![above.clone(), " and at most 1, such as 0.86 for 86 %"])?;
                within(
                    "accuracy",
                    accuracy,
                    guess,
                    1.0,
                    text![above, " and below ", option("best"), ", such as 0.8 for 80 %"],
                )?;
                if accuracy >= best {
                    return Err(above_best("accuracy", accuracy, "above", best).or(Remedy::Lower("accuracy")));
                }
                Ok(100.0 * (best - accuracy))
            }
            (Self::LossPoints { loss_points }, Scale::Points { classes }) => {
                let most = 100.0 * (1.0 - 1.0 / f64::from(classes));
                let allowed = format!(
                    "points of accuracy between 0 and {}, such as 2; a guess among {classes} classes loses no more than {}",
                    Shown(rounded(most)),
                    Shown(rounded(most))
                );
                within("loss_points", loss_points, 0.0, most.next_down(), allowed.into())?;
                Ok(loss_points)
            }
            (Self::Error { error, best }, Scale::Error { half_range, .. }) => {
                let half = Shown(rounded(half_range));
                let below = format!(
                    "a root-mean-square error above 0 and below {half}, which always predicting the middle of the target's range does not exceed"
                );
                if best != 0.0 {
                    within("best", best, 0.0, half_range.next_down(), below.clone().into())?;
                }
                within("error", error, 0.0, half_range.next_down(), below.into())?;
                if error <= best {
                    return Err(above_best("error", error, "not above", best).or(Remedy::Raise("error")));
                }
                Ok((error * error - best * best).sqrt())
            }
            (Self::AddedError { added_error }, Scale::Error { half_range, .. }) => {
                let half = Shown(rounded(half_range));
                let below = format!(
                    "a root-mean-square error above 0 and below {half}, which always predicting the middle of the target's range does not exceed"
                );
                within("added_error", added_error, 0.0, half_range.next_down(), below.into())?;
                Ok(added_error)
            }
        }
    }

    /// The most that privacy can cost: then an answer is a guess.
    pub(super) fn most_lost(&self, scale: &Scale) -> f64 {
        match (*self, *scale) {
            (Self::Accuracy { best, .. }, Scale::Points { classes }) => 100.0 * (best - 1.0 / f64::from(classes)),
            (_, Scale::Points { classes }) => 100.0 * (1.0 - 1.0 / f64::from(classes)),
            (_, Scale::Error { half_range, .. }) => half_range,
        }
    }

    /// What is lost to privacy where so large an excess risk is predicted: it grows with the excess, up to what makes an answer a guess.
    pub fn lost(&self, scale: &Scale, excess: f64) -> Estimate {
        scale.lost(excess, self.most_lost(scale), matches!(self, Self::Accuracy { .. }))
    }

    /// The option that says it.
    pub(super) fn id(&self) -> &'static str {
        match self {
            Self::Accuracy { .. } => "accuracy",
            Self::LossPoints { .. } => "loss_points",
            Self::Error { .. } => "error",
            Self::AddedError { .. } => "added_error",
        }
    }

    /// What is reached where so much is lost: accuracy or error; none where only what is lost was asked for.
    pub fn reached(&self, lost: f64) -> Option<f64> {
        match self {
            Self::Accuracy { best, .. } => Some(best - lost / 100.0),
            Self::Error { best, .. } => Some(best.hypot(lost)),
            Self::LossPoints { .. } | Self::AddedError { .. } => None,
        }
    }
}

fn above_best(id: &'static str, given: f64, relation: &str, best: f64) -> Refusal {
    let beside = format!(", {relation} {}, what a model without privacy reaches", Shown(best));
    let beside =
        if given == best { format!(", all of {}, and privacy always costs something", Shown(best)) } else { beside };
    Refusal::of(text![
        option(id),
        format!(" is {}{beside} (", Shown(given)),
        option("best"),
        "): no epsilon reaches it"
    ])
}

/// Refuses a number that is not above `least` and at most `most`.
fn within(id: &'static str, given: f64, least: f64, most: f64, allowed: Text) -> Result<(), Refusal> {
    match given > least && given <= most {
        true => Ok(()),
        false => Err(Refusal::of(option(id)).given(Shown(given).to_string()).allowed(allowed)),
    }
}

/// A number that is shown as a bound, to three digits after the point.
fn rounded(x: f64) -> f64 {
    if x.abs() < 1e6 && x.abs() > 0.1 { (x * 1e3).round() / 1e3 } else { x }
}
