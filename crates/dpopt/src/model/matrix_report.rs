//! The report of linear models that were fitted to a matrix, in one go or batch by batch.

use super::error::FitError;
use super::fit::Fit;
use super::matrix::{BoundedMatrix, MatrixFacts};
use super::stage_plan::{Planned, Target};
use super::stream::MatrixStreamPlan;
use super::units::UnitFacts;
use crate::guarantee::Guarantee;
use crate::provenance::Provenance;
use crate::report::{Answer, Baseline, CandidateRow, Coefficient, DataFacts, Report, Score};
use dpopt_mechanism::ReleaseRecord;
use dpopt_optimize::plan::Assumption;

/// What a report says of a fit of a matrix besides what was planned: how things are called, and what was released.
pub struct MatrixAnswer {
    /// The command or call that was run.
    pub command: String,
    /// How the records are called.
    pub source: String,
    /// How the target is called.
    pub target: String,
    /// What was done with the records before the model, sentence by sentence.
    pub preparation: Vec<String>,
    /// What was promised; of a search, what all of it promises.
    pub guarantee: Guarantee,
    /// What each stage released, in order.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// Coefficients in the units of the columns.
    pub coefficients: Vec<Coefficient>,
    /// Range of the target, if it is a number.
    pub range: Option<(f64, f64)>,
    /// Score of the winner of a search.
    pub score: Option<Score>,
    /// What the reader should know besides.
    pub warnings: Vec<String>,
    /// Seconds that planning took.
    pub planning_seconds: f64,
    /// Where the run was charged.
    pub ledger: Option<String>,
}

impl Fit<BoundedMatrix> {
    /// The report of a run with `classes` classes that released `answer`. All methods are compared for it; reads no record.
    ///
    /// # Errors
    /// If nothing can be planned.
    pub fn report(&self, classes: usize, answer: MatrixAnswer) -> Result<Report, FitError> {
        let BoundedMatrix { facts, target, .. } = &self.source;
        report(&*self.compared(classes)?, *facts, task(*target, classes), answer)
    }
}

impl MatrixStreamPlan {
    /// The report of the models of a stream so far, of `facts.rows` records at most.
    ///
    /// # Errors
    /// If nothing was planned.
    pub fn report(&self, answer: MatrixAnswer) -> Result<Report, FitError> {
        report(self.planned(), self.facts, task(self.target, self.classes), answer)
    }
}

fn task(target: Target, classes: usize) -> String {
    match target {
        Target::Number(_) => "regression".into(),
        Target::Classes { known, .. } => format!("classification into {} classes", known.unwrap_or(classes)),
    }
}

/// What every fit of a matrix rests on.
fn assumptions(units: Option<UnitFacts>) -> [Assumption; 3] {
    [
        match units {
            None => Assumption::public("Each person has one row."),
            Some(_) => {
                Assumption::public("A person has one id, and nobody else has it; rows without an id count nowhere.")
            }
        },
        Assumption::public("Declared bounds, classes and row norms do not come from the records."),
        Assumption::enforced(
            "A missing number counts as the middle of its bounds, an infinite one as its bound (both as 0 without bounds), a record without target or \
             with an undeclared class as nothing; no error and no message depends on them.",
        ),
    ]
}

fn report(planned: &Planned, facts: MatrixFacts, task: String, answer: MatrixAnswer) -> Result<Report, FitError> {
    let plan = planned.plan()?;
    let summary = plan.summary();
    let general = assumptions(facts.units);
    Ok(Report {
        answer: Answer::LinearModel,
        software: env!("CARGO_PKG_VERSION").into(),
        provenance: Provenance::of_this_build(),
        command: answer.command,
        facts: DataFacts {
            source: answer.source,
            rows: Some(facts.rows),
            units: facts.units.map(|units| units.count),
            // what is kept is among the preparation
            ownership: None,
            features: facts.features,
            target: answer.target,
            task,
            target_clip: None,
            preparation: answer.preparation,
        },
        guarantee: answer.guarantee,
        releases: answer.releases,
        candidates: planned.candidates.iter().map(CandidateRow::from).collect(),
        selection: planned.selection.clone()?,
        schedule: plan.schedule(),
        coefficients: answer.coefficients,
        intervals: None,
        effects: None,
        baseline: Some(Baseline::new(&summary.loss, answer.range)),
        score: answer.score,
        assumptions: summary.assumptions.iter().chain(&general).map(Assumption::to_string).collect(),
        warnings: summary.warnings.iter().cloned().chain(answer.warnings).map(Into::into).collect(),
        planning_seconds: answer.planning_seconds,
        ledger: answer.ledger,
        receipt: None,
    })
}
