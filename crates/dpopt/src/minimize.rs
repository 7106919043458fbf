//! Minimizes the mean of user-defined losses: plan → certify → run → report for an [`Objective`] of any kind.
//!
//! Gradients are clipped, so the guarantee holds whatever the objective is. That what is said of a record depends on that record only is a promise of whoever
//! writes the objective ([`Objective`], [`PerRecord`]).

pub use dpopt_minimize::{
    Answers, Around, Averaged, Batches, Candidate, ConversionSchedule, DirectionSchedule, Directions, Escape,
    Estimator, Goal, InMemory, KeptBlock, MinimizePlan, MinimizeProblem, MinimizeRegistry, MinimizeSchedule, Minimizer,
    NetSchedule, OnePassSchedule, Oracle, PerRecord, Phase, ReadByObjective, Rule, SecondStage, Source, SpiderSchedule,
    Sums, TreeSchedule, Walk, block_sizes, candidates, registry, usual_distance,
};

use crate::guarantee::Guarantee;
use crate::model::FitError;
use crate::provenance::Provenance;
use crate::report::{Answer, CandidateRow, Coefficient, DataFacts, Outcome, Report};
use crate::run::RunOptions;
use crate::session::{Closed, Session, StageFacts};
use dpopt_mechanism::Sensitive;
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_minimize as task;
use dpopt_objective::objective::Objective;
use dpopt_objective::records::RecordSet;
use dpopt_optimize::plan::Assumption;
use dpopt_optimize::{MethodOptions, Reason, Selection};
use dpopt_privacy::{Budget, Relation, Unit};
use dpopt_refusal::Text;
use std::time::Instant;

/// Options of a minimization besides the objective, the records and the [options of every run](crate::RunOptions). Where a record is all the rows of a unit
/// ([`Units`](dpopt_objective::records::Units), with the objective [of units](dpopt_objective::objective::OfUnits)), the run says what a unit is called.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `records` | counted | public number of records; required under add-or-remove, a guess there |
/// | `distance` | 2·d^(1/4) | public guess of the l2 distance from the start to the answer: sets step sizes |
/// | `smoothness`, `strong_convexity` | what the objective knows; 0 | bounds on the curvature of the mean loss: steer steps, never privacy |
/// | `method` | the first that applies | a name that the registry knows, with its options |
/// | `registry` | the [methods that ship](registry) | which methods are compared; [`MinimizeRegistry::with`] adds a user's own |
#[derive(Default)]
#[non_exhaustive]
pub struct MinimizeOptions {
    /// Public number of records.
    pub records: Option<u64>,
    /// D: public guess of the l2 distance from the start to the answer.
    pub distance: Option<f64>,
    /// L: upper bound on the curvature of the mean loss.
    pub smoothness: Option<f64>,
    /// μ: lower bound on the curvature of the mean loss.
    pub strong_convexity: f64,
    /// Name of the method, and its options.
    pub method: MethodOptions,
    /// The methods that are known. `None`: those that ship.
    pub registry: Option<MinimizeRegistry>,
}

impl MinimizeOptions {
    /// These options with [`records`](#structfield.records) set.
    #[must_use]
    pub fn records(mut self, records: impl Into<Option<u64>>) -> Self {
        self.records = records.into();
        self
    }

    /// These options with [`distance`](#structfield.distance) set.
    #[must_use]
    pub fn distance(mut self, distance: impl Into<Option<f64>>) -> Self {
        self.distance = distance.into();
        self
    }

    /// These options with [`smoothness`](#structfield.smoothness) set.
    #[must_use]
    pub fn smoothness(mut self, smoothness: impl Into<Option<f64>>) -> Self {
        self.smoothness = smoothness.into();
        self
    }

    /// These options with [`strong_convexity`](#structfield.strong_convexity) set.
    #[must_use]
    pub fn strong_convexity(mut self, strong_convexity: f64) -> Self {
        self.strong_convexity = strong_convexity;
        self
    }

    /// These options with [`method`](#structfield.method) set.
    #[must_use]
    pub fn method(mut self, method: MethodOptions) -> Self {
        self.method = method;
        self
    }

    /// These options with [`registry`](#structfield.registry) set.
    #[must_use]
    pub fn registry(mut self, registry: impl Into<Option<MinimizeRegistry>>) -> Self {
        self.registry = registry.into();
        self
    }
}

/// A plan for a problem and a budget, and what was compared for it.
#[derive(Clone, Debug)]
pub struct Minimization {
    problem: MinimizeProblem,
    budget: Budget,
    candidates: Vec<Candidate>,
    plan: MinimizePlan,
    selection: Selection,
    planning_seconds: f64,
}

/// What a minimization releases.
#[derive(Clone, Debug)]
pub struct Minimum {
    /// The released point, d numbers.
    pub x: Vec<f64>,
    /// The privacy guarantee of the run.
    pub guarantee: Guarantee,
    /// The plan that was run.
    pub plan: MinimizePlan,
    /// The report of the run.
    pub report: Report,
}

/// Where the mean of φ_i over `records` is small, from `start`.
///
/// ```
/// use dpopt::minimize::{MinimizeOptions, minimize};
/// use dpopt::objective::Closures;
///
/// // Geman and McClure's robust regression through the origin, which is not convex: a tenth of the records is far off
/// let loss = Closures::new(
///     1,
///     |x: &[f64], &(t, y): &(f64, f64)| { let r = y - x[0] * t; r * r / (1.0 + r * r) },
///     |x: &[f64], &(t, y): &(f64, f64), g: &mut [f64]| { let r = y - x[0] * t; g[0] = -2.0 * r * t / (1.0 + r * r).powi(2) },
/// );
/// let record = |i: u32| { let t = f64::from(i % 200) / 200.0; (t, if i % 10 == 0 { -50.0 } else { 3.0 * t }) };
/// let records: Vec<(f64, f64)> = (0..20_000).map(record).collect();
/// let found = minimize(loss, records, &[0.0], 1.0, MinimizeOptions::default())?;
/// assert!((found.x[0] - 3.0).abs() < 0.2, "{}", found.x[0]);
/// assert!(found.guarantee.certified_epsilon <= 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If no method applies, the account refuses, or the records are not as many as was said.
pub fn minimize<O, R>(
    objective: O,
    records: R,
    start: &[f64],
    run: impl Into<RunOptions>,
    options: MinimizeOptions,
) -> Result<Minimum, FitError>
where
    O: Objective<R> + Clone,
    R: RecordSet,
{
    let run = run.into();
    let neighbours = run.neighbours();
    if run.unit.is_none() && !records.keeps_places() {
        return Err(FitError::Option("the records are rows of units, and the unit has no name; name the unit".into()));
    }
    let guess = options.records;
    if run.relation == Relation::AddOrRemove && guess.is_none() {
        return Err(FitError::Option(
            "add-or-remove protects the number of records; give a public guess as records".into(),
        ));
    }
    // public under the relations that are left, and then no guess: a wrong one is told before the charge
    if run.relation != Relation::AddOrRemove && guess.is_some_and(|guess| guess != records.len() as u64) {
        return Err(FitError::Option(
            "the given number of records is not the actual one, which is public under this relation; leave it out"
                .into(),
        ));
    }
    let counted = guess.unwrap_or(records.len() as u64);
    let in_parts = records.is_remote();
    let records = Sensitive::new(records);
    let mut problem = MinimizeProblem::of(&objective, counted, neighbours);
    problem.distance = options.distance.unwrap_or(problem.distance);
    problem.smoothness = options.smoothness.or(problem.smoothness);
    problem.strong_convexity = options.strong_convexity;
    let budget = run.budget(counted)?;
    let known = options.registry.as_ref().unwrap_or_else(|| registry());
    let planned = Minimization::plan_with(known, problem, budget, &options.method)?;
    // what parts can't be asked for would fail with the first question, when it is paid for
    if in_parts && !(planned.chosen().schedule.asks_for_whole_sums() && objective.spec().is_some()) {
        return Err(FitError::Option(
            format!(
                "remote records answer with sums of gradients of linear models only, and {} needs more; choose \
             noisy-gradient-descent",
                planned.chosen().method
            )
            .into(),
        ));
    }
    let opening = run.opening(neighbours, budget)?;
    let mut session = opening.charge("minimize", &[planned.certificate()])?;
    let charged = session.is_charged();
    let result = planned.run(start, InMemory::new(objective, &records), &mut session, &Silent);
    let spent = |error: FitError| if charged { FitError::Spent(Box::new(error)) } else { error };
    let x = result.map_err(spent)?;
    let mut closed = session.close();
    closed.guarantee.unit_column = run.unit.map(|unit| unit.name());
    Ok(planned.minimum(x, closed, "called as a library", "records in memory", "the mean loss"))
}

impl Minimization {
    /// Plans every method that ships and takes one; touches no record.
    ///
    /// # Errors
    /// Why no method applies, or the one that is asked for does not.
    pub fn plan(problem: MinimizeProblem, budget: Budget, method: &MethodOptions) -> Result<Self, FitError> {
        Self::plan_with(registry(), problem, budget, method)
    }

    /// As [`plan`](Self::plan), among the methods that `known` has.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_with(
        known: &MinimizeRegistry,
        problem: MinimizeProblem,
        budget: Budget,
        method: &MethodOptions,
    ) -> Result<Self, FitError> {
        let started = Instant::now();
        let candidates = known.candidates(&problem, budget, method);
        known.check(&problem, method)?;
        let plan = match candidates.first().map(|c| c.plan.clone()) {
            Some(plan) => plan?,
            None => return Err(FitError::Option("no method".into())),
        };
        let planning_seconds = started.elapsed().as_secs_f64();
        let reason = match method.method {
            Some(_) => Reason::ByName,
            None => Reason::Rule(
                "it comes first in the fixed order of methods: simple ones first, unless another was measured to be \
                 better (docs/methods/minimize.md)"
                    .into(),
            ),
        };
        let selection = Selection { place: 0, reason };
        Ok(Self { problem, budget, candidates, plan, selection, planning_seconds })
    }

    /// The public facts that are planned for.
    pub fn problem(&self) -> &MinimizeProblem {
        &self.problem
    }

    /// What may be spent.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// All methods, the chosen one first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The plan to run.
    pub fn chosen(&self) -> &MinimizePlan {
        &self.plan
    }

    /// What is charged for.
    pub fn certificate(&self) -> &dpopt_privacy::Certificate {
        &self.plan.certificate
    }

    /// Why the guarantee may be believed.
    pub fn rests_on(&self) -> dpopt_objective::objective::Evidence {
        Assumption::weakest(&self.plan.assumptions)
    }

    /// Runs the plan in a session that was charged for it.
    ///
    /// # Errors
    /// As [`task::run`].
    pub fn run<S: Source>(
        &self,
        start: &[f64],
        source: S,
        session: &mut Session,
        progress: &dyn Progress,
    ) -> Result<Vec<f64>, FitError> {
        let stage = StageFacts { name: "minimize", rests_on: self.rests_on(), stream: 0 };
        session.stage(stage, self.certificate(), |curator| -> Result<Vec<f64>, FitError> {
            Ok(task::run(&self.problem, &self.plan, start, source, curator, progress)?.into_inner())
        })
    }

    /// What was found, with its report. `source` names the records, `objective` what was minimized.
    pub fn minimum(&self, x: Vec<f64>, closed: Closed, command: &str, source: &str, objective: &str) -> Minimum {
        let Closed { guarantee, releases, receipt } = closed;
        let by_unit = self.problem.neighbours.unit == Unit::User;
        let coefficients = x.iter().enumerate().map(|(j, &value)| Coefficient {
            name: format!("x{j}"),
            value,
            noise: None,
            std_error: None,
            slot: false,
        });
        let mut warnings: Vec<Text> = self.plan.warnings.iter().cloned().map(Text::from).collect();
        if guarantee.insecure_seed {
            warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
        }
        let rows = self
            .candidates
            .iter()
            .map(|c| CandidateRow { method: c.method.into(), outcome: Outcome::of_minimizing(c) });
        let report = Report {
            answer: Answer::Minimum,
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Provenance::of_this_build(),
            command: command.into(),
            facts: DataFacts {
                source: source.into(),
                rows: (!by_unit).then_some(self.problem.records),
                units: by_unit.then_some(self.problem.records),
                ownership: None,
                features: self.problem.dimension,
                target: objective.into(),
                task: "Minimization of a sum of losses".into(),
                target_clip: None,
                preparation: Vec::new(),
            },
            guarantee: guarantee.clone(),
            releases,
            candidates: rows.collect(),
            selection: self.selection.clone(),
            schedule: serde_json::to_value(&self.plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: coefficients.collect(),
            intervals: None,
            effects: None,
            baseline: None,
            score: None,
            assumptions: self.plan.assumptions.iter().map(Assumption::to_string).collect(),
            warnings,
            planning_seconds: self.planning_seconds,
            ledger: None,
            receipt,
        };
        Minimum { x, guarantee, plan: self.plan.clone(), report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::UnitOptions;
    use crate::session::{Account, SessionError};
    use dpopt_objective::loss::Loss;
    use dpopt_objective::objective::{Closures, Linear, OfUnits};
    use dpopt_objective::records::{Owners, Partitions, PartitionsFailed, RemoteRecords, Units};
    use dpopt_privacy::Certificate;
    use dpopt_privacy::ledger::{Quote, Receipt};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn rows_of_units_are_promised_to_units_or_not_at_all() {
        let loss = Closures::new(
            1,
            |x: &[f64], a: &f64| 0.5 * (x[0] - a).powi(2),
            |x: &[f64], a: &f64, g: &mut [f64]| g[0] = x[0] - a,
        );
        let found = |unit: Option<&str>| {
            let owners = Owners { of_row: (0..6000).map(|row| row / 3).collect(), units: 2000 };
            let rows: Vec<f64> = (0..6000).map(|row| 2.0 + f64::from(row % 3)).collect();
            let persons = Units::new(rows, &owners).expect("an owner for each row");
            let run = RunOptions { unit: unit.map(UnitOptions::of), ..RunOptions::within(1.0).insecure_seed(1) };
            minimize(OfUnits::new(loss), persons, &[0.0], run, MinimizeOptions::default())
        };
        assert!(found(None).unwrap_err().to_string().contains("name the unit"));
        let minimum = found(Some("person")).unwrap();
        assert!((minimum.x[0] - 3.0).abs() < 0.3, "{:?}", minimum.x);
        assert_eq!(minimum.guarantee.unit_column.as_deref(), Some("person"));
        assert_eq!((minimum.report.facts.rows, minimum.report.facts.units), (None, Some(2000)));
    }

    /// Parts that count how often they are asked, and an account that counts charges.
    #[derive(Default)]
    struct Counted(AtomicU64);

    impl Counted {
        fn add(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn so_far(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Partitions for Counted {
        fn ask(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            self.add();
            Err(PartitionsFailed)
        }
    }

    struct Book(Arc<Counted>);

    impl Account for Book {
        fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
            Ok(None)
        }

        fn charge(&self, _: &str, _: &Certificate) -> Result<Option<Receipt>, SessionError> {
            self.0.add();
            Ok(None)
        }
    }

    #[test]
    fn what_parts_elsewhere_cannot_be_asked_for_is_refused_before_the_charge() {
        let tried = |method: MethodOptions| {
            let (asked, charged) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
            let records = RemoteRecords::new(asked.clone(), vec![(1000, 7)], 2, 1.0);
            let options = MinimizeOptions::default().smoothness(1.0).method(method);
            let run = RunOptions::within(1.0).account(Arc::new(Book(charged.clone())));
            let loss = Linear::new(Loss::Squared, 2, 1.0);
            let error = minimize(loss, records, &vec![0.0; loss.weights()], run, options).unwrap_err();
            (error.to_string(), charged.so_far(), asked.so_far())
        };
        let spider = MethodOptions::of("spider").with("initial_gap", 0.1);
        for method in [spider, MethodOptions::of("noisy-sgd"), MethodOptions::default(), MethodOptions::of("net")] {
            let (error, charged, asked) = tried(method);
            assert!(error.contains("choose noisy-gradient-descent"), "{error}");
            assert_eq!((charged, asked), (0, 0));
        }
        let (error, charged, asked) = tried(MethodOptions::of("noisy-gradient-descent"));
        assert!(!error.contains("choose noisy-gradient-descent"), "{error}");
        assert_eq!((charged, asked), (1, 1), "of these it is paid for, and fails where parts do");
    }
}
