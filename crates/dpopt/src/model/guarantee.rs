//! What a fitted model promises, stage by stage, in a form that can be recomputed.

use crate::plan::Grade;
use dpopt_privacy::{Bound, Certificate, Event, Relation, Unit};
use serde::{Deserialize, Serialize};

/// The (ε, δ) guarantee of everything a run released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// Who is protected.
    pub unit: Unit,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// ε that the user allowed.
    pub epsilon: f64,
    /// δ that the user allowed.
    pub delta: f64,
    /// Certified ε of the whole run: the sum over stages (basic composition), rounded up.
    pub certified_epsilon: f64,
    /// How far the claim can be trusted: the weakest of its parts.
    pub grade: Grade,
    /// A fixed seed makes noise predictable: no guarantee against who knows it.
    pub insecure_seed: bool,
    /// The parts, in order. Later stages were planned after earlier ones' outputs.
    pub stages: Vec<Stage>,
}

/// One stage of a run with its share of the budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// `labels`, `bounds` or `model`.
    pub name: String,
    /// ε of its share.
    pub epsilon: f64,
    /// δ of its share.
    pub delta: f64,
    /// What it released.
    pub event: Event,
    /// Certified ε of the event at the stage's δ, by which accountant, with what slack.
    pub bound: Bound,
}

impl Stage {
    /// Describes a certified stage.
    pub fn new(name: &str, certificate: &Certificate) -> Self {
        Self {
            name: name.into(),
            epsilon: certificate.budget().epsilon(),
            delta: certificate.budget().delta(),
            event: certificate.event().clone(),
            bound: certificate.bound().clone(),
        }
    }
}

impl Guarantee {
    /// Certified ε of the first `count` stages, added up and rounded up.
    pub fn epsilon_of_first(&self, count: usize) -> f64 {
        self.stages.iter().take(count).map(|s| s.bound.upper).fold(0.0, |sum, e| if sum == 0.0 { e } else { (sum + e).next_up() })
    }

    /// δ at ε for the whole run: δ of the model stage at what the other stages leave, plus their δ. `None` if no
    /// accountant has a number.
    pub fn delta_at(&self, epsilon: f64) -> Option<f64> {
        let (last, earlier) = self.stages.split_last()?;
        let spent: f64 = self.epsilon_of_first(earlier.len());
        let delta_spent: f64 = earlier.iter().map(|s| s.delta).sum();
        let left = epsilon - spent;
        if left < 0.0 {
            return None;
        }
        let bound = dpopt_privacy::accountant::delta(&last.event, self.relation, left).ok()?;
        Some((bound.upper + delta_spent).min(1.0))
    }
}
