//! Public facts about a user-defined sum of losses.

use dpopt_objective::objective::{Evidence, Objective};
use dpopt_objective::records::RecordSet;
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::planning::positive;
use dpopt_privacy::{Neighbours, Relation, Unit};
use serde::Serialize;

/// What an objective says of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// The gradient: d numbers.
    #[default]
    Gradients,
    /// Derivatives along directions that it is given.
    Derivatives,
    /// The value alone: derivatives along directions are differences of two of them.
    Values,
}

/// Public facts about min_x (1/n)Σφ_i(x).
///
/// Privacy rests on none of them but the number of records, where that is public: gradients are clipped, whatever they are. The others
/// steer steps and predictions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MinimizeProblem {
    /// n: how many records, or units; under add-or-remove a public guess.
    pub records: u64,
    /// d: number of coordinates.
    pub dimension: usize,
    /// D > 0: how far the answer may be from the start, in l2: a public guess.
    pub distance: f64,
    /// L: bound on the curvature of the mean loss, if one is known.
    pub smoothness: Option<f64>,
    /// μ ≥ 0: the mean loss is at least so curved.
    pub strong_convexity: f64,
    /// The clip norm where none is given.
    pub usual_clip_norm: f64,
    /// What the objective says.
    pub answers: Answers,
    /// Whether what it says of a record is evaluated outside of this library, many records at a time: that it depends on that record only is assumed, not checked.
    pub remote: bool,
    /// Why that may be believed, where it is: a plan is of no better grade.
    pub own_evidence: Evidence,
    /// Between which data sets.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// Default of D: 2·d^(1/4). Networks end further from where they start than models of few parameters do; chosen on a network for digits.
pub fn usual_distance(dimension: usize) -> f64 {
    2.0 * (dimension as f64).sqrt().sqrt()
}

impl MinimizeProblem {
    /// With nothing known: D is the [usual one](usual_distance).
    pub fn new(records: u64, dimension: usize, neighbours: Neighbours) -> Self {
        Self {
            records,
            dimension,
            distance: usual_distance(dimension),
            smoothness: None,
            strong_convexity: 0.0,
            usual_clip_norm: 1.0,
            answers: Answers::Gradients,
            remote: false,
            own_evidence: Evidence::Assumed,
            neighbours,
        }
    }

    /// The problem of an objective, with the facts that the objective states.
    pub fn of<R: RecordSet>(objective: &impl Objective<R>, records: u64, neighbours: Neighbours) -> Self {
        let smoothness = objective.facts().smoothness().map(|l| l.value());
        Self {
            smoothness,
            usual_clip_norm: objective.usual_clip_norm(),
            ..Self::new(records, objective.dimension(), neighbours)
        }
    }

    pub(super) fn relation(&self) -> Relation {
        self.neighbours.relation
    }

    /// Records that a batch may be drawn from: what a plan pays for must not fail by a number that is protected.
    pub(super) fn drawn_from(&self) -> u64 {
        match self.relation() {
            Relation::AddOrRemove => 1 << 40,
            Relation::ZeroOut | Relation::ReplaceOne => self.records,
        }
    }

    /// Whether a record is all that a unit has: which number one has depends on who else is there.
    pub(super) fn by_unit(&self) -> bool {
        self.neighbours.unit == Unit::User
    }

    pub(super) fn check(&self) -> Result<(), NotApplicable> {
        if self.records == 0 || self.dimension == 0 {
            return Err(NotApplicable::Problem(
                "there are no records, or no parameters; give at least one of each".into(),
            ));
        }
        if self.records > 1 << 40 || self.dimension > 1 << 32 {
            return Err(NotApplicable::Problem(
                "there are more than 2^40 records or 2^32 parameters; use fewer".into(),
            ));
        }
        positive("the distance", self.distance)?;
        positive("the usual clip norm", self.usual_clip_norm)?;
        if let Some(smoothness) = self.smoothness {
            positive("the smoothness", smoothness)?;
        }
        if !(self.strong_convexity >= 0.0 && self.strong_convexity.is_finite()) {
            return Err(NotApplicable::Option(
                "the strong convexity is out of range; give a finite number, 0 or more".into(),
            ));
        }
        if self.smoothness.is_some_and(|smoothness| smoothness < self.strong_convexity) {
            return Err(NotApplicable::Option(
                "the strong convexity is above the smoothness, which is impossible; give the smallest curvature of \
                 the mean loss as the former and the largest as the latter"
                    .into(),
            ));
        }
        Ok(())
    }
}
