//! Private means of heavy-tailed columns, from a table to a report (docs/proofs/heavy-tailed-mean.md).

use super::heavy_tailed_plan::{
    ColumnMean, HEAVY_TAILED_METHODS, HeavyTailedCandidate, HeavyTailedPlan, HeavyTailedProblem, SPREAD_FACTOR,
    heavy_tailed_candidates,
};
use super::protected::{public_rows, public_units};
use crate::model::{FitError, Guarantee, UnitOptions, Units, large_delta, whose_rows};
use crate::moment::Moment;
use crate::provenance::Provenance;
use crate::report::{
    Answer, CandidateRow, Coefficient, DataFacts, IntervalRow, Intervals, Outcome, PlannedRow, Report, number,
};
use crate::run::RunOptions;
use crate::session::{Closed, Session, StageFacts};
use dpopt_data::{BadCells, TableReader, column_numbers, number_columns};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable};
use dpopt_optimize::{Reason, RunError, Selection};
use dpopt_privacy::{Budget, Relation};
use dpopt_refusal::Text;
use std::time::Instant;

/// Options of such a mean besides the moments and the [options of every run](crate::RunOptions).
///
/// | field | default | meaning |
/// |---|---|---|
/// | `confidence` | 0.95 | probability with which all intervals together hold |
/// | `spread_factor` | 2 | where only the order of the moment is known: its root is at most so many times the released range |
/// | `rows` | counted | public number of rows, without a `unit`; required under add-or-remove, a guess there |
/// | `method` | the narrowest intervals | a name of [`HEAVY_TAILED_METHODS`] |
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HeavyTailedOptions {
    /// Confidence of all intervals together; `None` means 0.95.
    pub confidence: Option<f64>,
    /// F: bound on the root of a moment over the released range, where only its order is known; `None` means 2.
    pub spread_factor: Option<f64>,
    /// Public number of rows, where a row is the unit.
    pub rows: Option<u64>,
    /// A name of [`HEAVY_TAILED_METHODS`].
    pub method: Option<String>,
    /// What to do with cells that cannot be read.
    pub bad_cells: BadCells,
}

impl HeavyTailedOptions {
    /// These options with [`confidence`](#structfield.confidence) set.
    #[must_use]
    pub fn confidence(mut self, confidence: impl Into<Option<f64>>) -> Self {
        self.confidence = confidence.into();
        self
    }

    /// These options with [`spread_factor`](#structfield.spread_factor) set.
    #[must_use]
    pub fn spread_factor(mut self, spread_factor: impl Into<Option<f64>>) -> Self {
        self.spread_factor = spread_factor.into();
        self
    }

    /// These options with [`rows`](#structfield.rows) set.
    #[must_use]
    pub fn rows(mut self, rows: impl Into<Option<u64>>) -> Self {
        self.rows = rows.into();
        self
    }

    /// These options with [`method`](#structfield.method) set.
    #[must_use]
    pub fn method(mut self, method: impl Into<Option<String>>) -> Self {
        self.method = method.into();
        self
    }

    /// These options with [`bad_cells`](#structfield.bad_cells) set.
    #[must_use]
    pub fn bad_cells(mut self, bad_cells: BadCells) -> Self {
        self.bad_cells = bad_cells;
        self
    }
}

/// Means of columns of unknown range, to be explained or estimated.
///
/// ```
/// use dpopt::RunOptions;
/// use dpopt::data::{Format, ReadOptions, open_bytes};
/// use dpopt::estimate::{HeavyTailedMean, HeavyTailedOptions};
///
/// // 1/u² of an evenly spread u in (0.05, 1]: mean 20, root of the second moment 52
/// let u = |i: u32| 0.05 + 0.95 * (f64::from(i) + 0.5) / 20_000.0;
/// let text: String = (0..20_000).fold("claim\n".into(), |text, i| format!("{text}{}\n", u(i).powi(-2)));
/// let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
/// let claims = vec![("claim".to_string(), "2:52".parse()?)];
/// // the seed is for this page: without one the noise is secret
/// let run = RunOptions::within(1.0).insecure_seed(1);
/// let answer = HeavyTailedMean::new(table, claims, run, HeavyTailedOptions::default())?.run()?;
/// let (low, high) = answer.means[0].interval;
/// assert!(low < 20.0 && 20.0 < high && high - low < 6.0, "{low} {high}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HeavyTailedMean {
    table: Box<dyn TableReader>,
    columns: Vec<String>,
    units: Option<Units>,
    problem: HeavyTailedProblem,
    budget: Budget,
    run: RunOptions,
    options: HeavyTailedOptions,
}

/// What an estimate releases.
#[derive(Clone, Debug)]
pub struct HeavyTailedMeans {
    /// Names of the columns, as they were asked for.
    pub columns: Vec<String>,
    /// One mean for each column.
    pub means: Vec<ColumnMean>,
    /// Confidence of all intervals together.
    pub confidence: f64,
    /// What the intervals rest on, one sentence each; privacy rests on none of it.
    pub rests_on: Vec<String>,
    /// The privacy guarantee of the run.
    pub guarantee: Guarantee,
    /// The report of the run.
    pub report: Report,
}

impl HeavyTailedMean {
    /// Means of `columns`, of each of which a moment is known. Looks at names, types and the number of rows only; if there is a column of units, at that
    /// instead of the number.
    pub fn new(
        table: Box<dyn TableReader>,
        columns: Vec<(String, Moment)>,
        run: impl Into<RunOptions>,
        options: HeavyTailedOptions,
    ) -> Result<Self, FitError> {
        let run = run.into();
        run.opening(run.neighbours(), run.least()?)?;
        if let Some(name) = &options.method
            && !HEAVY_TAILED_METHODS.contains(&name.as_str())
        {
            return Err(FitError::Option(
                format!(
                    "there is no method `{name}` for means of columns; choose one of {}",
                    HEAVY_TAILED_METHODS.join(", ")
                )
                .into(),
            ));
        }
        let (columns, moments): (Vec<String>, Vec<Moment>) = columns.into_iter().unzip();
        if let Some(twice) = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            return Err(FitError::Option(
                format!("the column `{}` is named twice; name it once", columns[twice]).into(),
            ));
        }
        number_columns(&*table, &columns)?;
        if run.unit.as_ref().is_some_and(UnitOptions::shares_rows) {
            return Err(FitError::Option(
                "rows with several owners are not independent, and no interval is known for their mean; name one \
                 column of units"
                    .into(),
            ));
        }
        let is_data = |column: &str| columns.iter().any(|own| own == column);
        let of =
            |asked| public_units(&*table, (is_data, "numbers that are averaged"), asked, options.rows, run.relation);
        let units = run.unit.as_ref().map(of).transpose()?;
        let records = match &units {
            None => public_rows(&*table, options.rows, run.relation)?,
            Some(units) => units.count(),
        };
        let budget = run.budget(records)?;
        let problem = HeavyTailedProblem {
            records,
            moments,
            spread_factor: options.spread_factor.unwrap_or(SPREAD_FACTOR),
            confidence: options.confidence.unwrap_or(0.95),
            neighbours: run.neighbours(),
        };
        Ok(Self { table, columns, units, problem, budget, run, options })
    }

    /// The public facts that are planned for.
    pub fn problem(&self) -> &HeavyTailedProblem {
        &self.problem
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The budget, the default δ filled in.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Plans every method, the narrowest intervals first. Reads no record.
    pub fn explain(&self) -> Vec<HeavyTailedCandidate> {
        heavy_tailed_candidates(&self.problem, self.budget)
    }

    /// Estimates without showing progress.
    pub fn run(self) -> Result<HeavyTailedMeans, FitError> {
        self.run_with(&Silent)
    }

    /// Plans, charges the ledger, reads the records once, releases. Before the charge no record is read.
    pub fn run_with(self, progress: &dyn Progress) -> Result<HeavyTailedMeans, FitError> {
        let started = Instant::now();
        let candidates = self.explain();
        let rows: Vec<CandidateRow> = candidates.iter().map(|c| self.row(c)).collect();
        let wanted = self.options.method.as_deref();
        let by_itself = |c: &HeavyTailedCandidate| wanted.map_or(c.plan.is_ok(), |name| name == c.method);
        // where none applies, the first says why
        let chosen = candidates.iter().position(by_itself).unwrap_or(0);
        let plan = candidates.into_iter().nth(chosen).map(|c| c.plan);
        let plan = plan.unwrap_or_else(|| Err(NotApplicable::Problem("no method applies".into())))?;
        let planning = started.elapsed().as_secs_f64();
        let opening = self.run.opening(self.problem.neighbours, self.budget)?;
        let name = format!("means of {} columns of {}", self.columns.len(), self.table.name());
        let session = opening.charge(&name, &[&plan.certificate])?;
        let charged = session.is_charged();
        let reason = match wanted {
            Some(_) => Reason::ByName,
            None => Reason::Rule("its predicted intervals are the narrowest".into()),
        };
        let selection = Selection { place: chosen, reason };
        let outcome = self.release(&plan, session, progress, (rows, selection), planning);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// Releases the means; from here on records are read.
    fn release(
        &self,
        plan: &HeavyTailedPlan,
        mut session: Session,
        progress: &dyn Progress,
        (candidates, selection): (Vec<CandidateRow>, Selection),
        planning_seconds: f64,
    ) -> Result<HeavyTailedMeans, FitError> {
        // a bar over rows would tell their number where it is protected, or nobody's business
        let counted = self.problem.neighbours.relation != Relation::AddOrRemove && self.units.is_none();
        progress.start("sum of columns", if counted { self.problem.records } else { 1 });
        let assumptions = self.assumptions(plan);
        let stage = StageFacts { name: "mean", rests_on: Assumption::weakest(&assumptions), stream: 0 };
        let added = || {
            if counted {
                progress.tick();
            }
        };
        let released = session.stage(stage, &plan.certificate, |curator| -> Result<_, FitError> {
            let numbers = column_numbers(&*self.table, &self.columns, self.options.bad_cells, added)?;
            let means = match &self.units {
                None => plan.run(&self.problem, &numbers, curator),
                Some(units) => {
                    let units = units.own(numbers, curator).map_err(RunError::from)?;
                    plan.run(&self.problem, &units, curator)
                }
            };
            Ok(means.map_err(RunError::from)?)
        })?;
        progress.finish();
        let means = released.into_inner();
        let Closed { mut guarantee, releases, receipt } = session.close();
        guarantee.of_units(self.run.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let (confidence, rests_on) = (self.problem.confidence, self.rests_on(plan, &means));
        let report = Report {
            answer: Answer::Means { confidence },
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Provenance::of_this_build(),
            command: self.run.shown_command(),
            facts: DataFacts {
                source: self.table.name(),
                rows: self.units.is_none().then_some(self.problem.records),
                units: self.units.as_ref().map(Units::count),
                ownership: None,
                features: self.columns.len(),
                target: "the columns' means".into(),
                task: "Means of columns without a known range".into(),
                target_clip: None,
                preparation: self.preparation(plan),
            },
            guarantee: guarantee.clone(),
            releases,
            candidates,
            selection,
            schedule: serde_json::to_value(&plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: self.named(&means, |name, mean| Coefficient {
                name,
                value: mean.mean,
                noise: Some(mean.noise_std),
                std_error: None,
                slot: false,
            }),
            intervals: Some(Intervals {
                confidence,
                rows: self.named(&means, |name, mean| IntervalRow {
                    name,
                    value: mean.mean,
                    low: mean.interval.0,
                    high: mean.interval.1,
                    noise: mean.parts.noise,
                    sampling: mean.parts.sampling,
                    bias: mean.parts.bias,
                    threshold: mean.threshold,
                    centre: mean.centre,
                    root: mean.root,
                }),
                rests_on: rests_on.clone(),
            }),
            effects: None,
            baseline: None,
            score: None,
            assumptions: assumptions.iter().map(Assumption::to_string).collect(),
            warnings: self.warnings(plan),
            planning_seconds,
            ledger: self.run.shown_ledger(),
            receipt,
        };
        Ok(HeavyTailedMeans { columns: self.columns.clone(), means, confidence, rests_on, guarantee, report })
    }

    fn named<T>(&self, means: &[ColumnMean], make: impl Fn(String, &ColumnMean) -> T) -> Vec<T> {
        self.columns.iter().zip(means).map(|(name, mean)| make(name.clone(), mean)).collect()
    }

    fn one(&self) -> &'static str {
        if self.units.is_some() { "unit" } else { "row" }
    }

    /// What was done to the columns.
    fn preparation(&self, plan: &HeavyTailedPlan) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(unit) = &self.run.unit {
            let chosen = unit.most_rows.map(|most| format!(", or over {most} of them chosen at random if it has more"));
            notes.push(format!(
                "Each unit has one number in each column, the mean over its rows that have a number{}. All units \
                 have equal weight, whatever their number of rows.",
                chosen.unwrap_or_default()
            ));
        }
        notes.push(format!(
            "The number of every {} was clipped to an interval around a centre; centre and half width are in the \
             table below. A missing or unreadable number counts as the centre.",
            self.one()
        ));
        if let Some(ranges) = &plan.schedule.ranges {
            notes.push(format!(
                "For {} of the columns the centre and the scale are released, too: the middle and the length of the \
                 range from about the 10 % to about the 90 % quantile. It comes from {} {}s chosen at random and in \
                 secret, which no mean uses.",
                ranges.columns.len(),
                ranges.records,
                self.one()
            ));
        }
        if plan.schedule.counted {
            notes.push("The number of records is released with noise; sums are divided by the noisy number.".into());
        }
        notes
    }

    fn row(&self, candidate: &HeavyTailedCandidate) -> CandidateRow {
        let outcome = match &candidate.plan {
            Ok(plan) => Outcome::Planned(PlannedRow {
                grade: Grade::resting_on(Assumption::weakest(&self.assumptions(plan))),
                noise_multiplier: plan.noise_multiplier,
                steps: 1 + u64::from(plan.schedule.ranges.is_some()),
                gradients: self.problem.records as f64,
                predicted_excess_risk: plan.mean_width(),
                epsilon: plan.certificate.bound().upper,
                delta: plan.certificate.budget().delta(),
                accountant: plan.certificate.bound().accountant.clone(),
                clips: None,
                notes: Vec::new(),
            }),
            Err(why) => Outcome::Refused { not_applicable: why.refusal() },
        };
        CandidateRow { method: candidate.method.into(), outcome }
    }

    /// What the guarantee rests on, and why each item may be believed. Moments are not among it.
    fn assumptions(&self, plan: &HeavyTailedPlan) -> Vec<Assumption> {
        let mut assumptions = vec![
            whose_rows(self.run.unit.as_ref()),
            Assumption::enforced(format!(
                "Every {}'s numbers are clipped, and their norm after scaling is at most 1: enforced in exact integers.",
                self.one()
            )),
            Assumption::enforced(
                "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
            ),
            Assumption::public(
                "Moments and the spread factor do not come from the records. Wrong ones cost accuracy and coverage \
                 of the intervals, never privacy.",
            ),
        ];
        if plan.schedule.ranges.is_some() {
            assumptions.push(Assumption::enforced(
                "The records that the ranges come from and those that are averaged are disjoint blocks, chosen at \
                 random and never by their contents.",
            ));
        }
        if self.budget.delta() == 0.0 {
            assumptions.push(Assumption::proved(
                "The noise is within 2^-170 per coordinate, in total variation, of the exact law, which a delta of 0 \
                 leaves out.",
            ));
        }
        assumptions
    }

    /// What the intervals rest on.
    fn rests_on(&self, plan: &HeavyTailedPlan, means: &[ColumnMean]) -> Vec<String> {
        let one = self.one();
        let mut sentences = vec![format!(
            "The {one}s are independent draws from one distribution, whose mean is \
                                     estimated."
        )];
        let names = self.columns.iter().zip(&self.problem.moments).zip(means);
        for ((name, moment), mean) in names.take(LISTED) {
            let order = number(moment.order);
            let claim = format!(
                "(E|X − c|^{order})^(1/{order}) is at most {} for {name}, c = {}",
                number(mean.root),
                number(mean.centre)
            );
            sentences.push(match moment.root {
                Some(_) => format!("{claim}: declared."),
                None => format!(
                    "{claim}: ASSUMED, {} times the released range from about the 10 % to the 90 % quantile.",
                    number(self.problem.spread_factor)
                ),
            });
        }
        if self.columns.len() > LISTED {
            sentences.push(format!("Likewise for the other {} columns.", self.columns.len() - LISTED));
        }
        if self.units.is_some() && plan.schedule.columns.iter().any(|c| c.moment.root.is_some()) {
            sentences.push(
                "X is the mean of a unit's rows. A bound declared for single rows holds for it as well, if it holds \
                 on average over units (Jensen's inequality)."
                    .into(),
            );
        }
        sentences
    }

    fn warnings(&self, plan: &HeavyTailedPlan) -> Vec<Text> {
        let mut warnings = Vec::new();
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::error_warning());
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::of_quoted_newlines());
        }
        // by the plan: a warning tells nothing of the answer
        let empty = plan.schedule.columns.iter().filter(|column| column.predicted().0 >= 1.0).count();
        if empty > 0 {
            warnings.push(format!(
                "in {empty} of {} columns the interval may be no narrower than what the moment already implies; use \
                 more {}s, a larger epsilon or fewer columns",
                self.columns.len(),
                self.one()
            ).into());
        }
        warnings.extend(large_delta(self.budget, self.problem.records, self.run.unit.as_ref()));
        if self.run.insecure_seed.is_some() {
            warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
        }
        warnings
    }
}

/// Columns whose moments are listed one by one.
const LISTED: usize = 20;
