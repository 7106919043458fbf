//! A method with its certified plan, ready to run: the form that the registry hands out.

use crate::algorithm::{Algorithm, Run, RunResult};
use crate::calibration::{Ended, calibrate, calibrated_loss, can_calibrate};
use crate::interval_search::{can_find_width, find_width};
use crate::intervals::Intervals;
use crate::options::MethodOptions;
use crate::plan::{Calibrated, NotApplicable, Plan, Problem, Summary};
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::{Examples, RemoteRecords, SpilledExamples, Units};
use dpopt_privacy::Budget;

/// An algorithm with its certified plan, ready to run: the erased form the registry hands out.
pub trait Prepared: Send + Sync {
    /// The row of `explain`.
    fn summary(&self) -> &Summary;
    /// The schedule as JSON, for the report.
    fn schedule(&self) -> serde_json::Value;
    /// Runs the plan on the records of `run`.
    fn run(&self, run: Run<'_>) -> RunResult;
    /// Whether the plan can be run with rows on disk.
    fn runs_from_disk(&self) -> bool;
    /// Runs the plan with rows on disk.
    fn run_spilled(&self, run: Run<'_, SpilledExamples>) -> RunResult;
    /// What it was planned for: one of a method's own choice where units have several rows.
    fn problem(&self) -> &Problem;
    /// Runs the plan on units.
    fn run_units(&self, run: Run<'_, Units<Examples>>) -> RunResult;
    /// Runs the plan on units with rows on disk.
    fn run_spilled_units(&self, run: Run<'_, Units<SpilledExamples>>) -> RunResult;
    /// Runs the plan on rows in remote partitions.
    fn run_remote(&self, run: Run<'_, RemoteRecords>) -> RunResult;
    /// Passes over the records that it makes then.
    fn passes(&self) -> u64;

    /// Runs the plan on units whose rows are in remote partitions.
    fn run_remote_units(&self, run: Run<'_, Units<RemoteRecords>>) -> RunResult;
}

struct PreparedAlgorithm<A: Algorithm> {
    algorithm: A,
    problem: Problem,
    plan: Plan<A::Schedule>,
    /// Summary for the weights that are released at last; that of the plan itself is for the weights that are minimised.
    summary: Summary,
}

impl<A: Algorithm> PreparedAlgorithm<A> {
    /// The run, and what comes after it: a calibration and the width of prediction intervals.
    fn calibrated<R: OfRows + 'static>(&self, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let mut solution =
            self.algorithm.run(&self.plan, Run { problem, examples, curator: &mut *curator, progress })?;
        if A::CAPABILITIES.calibrates {
            let Summary { loss, weight_noise, .. } = self.plan.summary;
            let ended = Ended { loss, usual_scale: A::CAPABILITIES.usual_scale, weight_noise };
            solution = calibrate(solution, &ended, Run { problem, examples, curator: &mut *curator, progress })?;
        }
        find_width(solution, Run { problem, examples, curator, progress })
    }
}

impl<A: Algorithm> Prepared for PreparedAlgorithm<A> {
    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn schedule(&self) -> serde_json::Value {
        serde_json::to_value(&self.plan.schedule).unwrap_or(serde_json::Value::Null)
    }

    fn run(&self, run: Run<'_>) -> RunResult {
        self.calibrated(run)
    }

    fn runs_from_disk(&self) -> bool {
        self.algorithm.runs_from_disk(&self.plan)
    }

    fn run_spilled(&self, run: Run<'_, SpilledExamples>) -> RunResult {
        self.calibrated(run)
    }

    fn problem(&self) -> &Problem {
        &self.problem
    }

    fn run_units(&self, run: Run<'_, Units<Examples>>) -> RunResult {
        self.calibrated(run)
    }

    fn run_spilled_units(&self, run: Run<'_, Units<SpilledExamples>>) -> RunResult {
        self.calibrated(run)
    }

    fn run_remote(&self, run: Run<'_, RemoteRecords>) -> RunResult {
        self.calibrated(run)
    }

    fn passes(&self) -> u64 {
        self.algorithm.passes(&self.plan, &self.problem)
            + self.problem.calibrated.as_ref().map_or(0, |_| Calibrated::ROUNDS)
            + self.problem.intervals.map_or(0, |_| Intervals::ROUNDS)
    }

    fn run_remote_units(&self, run: Run<'_, Units<RemoteRecords>>) -> RunResult {
        self.calibrated(run)
    }
}

/// One row of `explain`: a planned and certified method, or why it does not apply.
pub struct Candidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, ready to run, or the reason.
    pub plan: Result<Box<dyn Prepared>, NotApplicable>,
}

/// Takes a method for a problem, a budget and what the user fixed.
pub type Choose = fn(&Problem, Budget, &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable>;

/// Plans `algorithm` for `problem` and erases its type.
pub fn prepare<A: Algorithm>(
    algorithm: A,
    problem: &Problem,
    budget: Budget,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    // of a method without calibration all of the budget is its own, and its weights are the answer
    let calibrated = problem.calibrated.filter(|_| A::CAPABILITIES.calibrates);
    let intervals = problem.intervals.filter(|_| A::CAPABILITIES.intervals);
    let problem = &Problem { calibrated, intervals, ..problem.clone() };
    can_calibrate(problem)?;
    problem.check_intervals()?;
    can_find_width(problem)?;
    let mut plan = algorithm.plan(problem, budget)?;
    plan.summary.assumptions.extend(problem.record.assumption());
    Ok(erased(algorithm, problem.clone(), plan))
}

/// A plan with its type erased.
pub fn erased<A: Algorithm>(algorithm: A, problem: Problem, plan: Plan<A::Schedule>) -> Box<dyn Prepared> {
    let mut summary = plan.summary.clone();
    if let (Some(calibrated), Some(loss)) = (&problem.calibrated, calibrated_loss(problem.loss)) {
        summary.loss = loss;
        summary.gradients += calibrated.gradients(&problem);
    }
    if let Some(intervals) = &problem.intervals {
        summary.gradients += intervals.gradients(problem.rows);
    }
    Box::new(PreparedAlgorithm { algorithm, problem, plan, summary })
}
