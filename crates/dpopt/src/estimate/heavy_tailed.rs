//! Private means of heavy-tailed columns, from a table to a report (spec 12 §0, §1; docs/proofs/heavy-tailed-mean.md).

use super::heavy_tailed_plan::{
    ColumnMean, HEAVY_TAILED_METHODS, HeavyTailedCandidate, HeavyTailedPlan, HeavyTailedProblem, SPREAD_FACTOR,
    heavy_tailed_candidates,
};
use super::protected::{public_rows, public_units};
use crate::model::{FitError, Guarantee, UnitOptions, Units, large_delta, whose_rows};
use crate::moment::Moment;
use crate::report::{
    Answer, CandidateRow, Coefficient, DataFacts, IntervalRow, Intervals, Outcome, PlannedRow, Report, number,
};
use crate::session::{Closed, LedgerFile, Opening, Session, StageFacts, default_delta};
use dpopt_data::{BadCells, TableReader, column_numbers, number_columns};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable};
use dpopt_privacy::{Budget, Neighbours, Relation};
use std::time::Instant;

/// Everything such a mean can be told besides ε and the moments.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 1/n^1.1, at most 0.01 | δ; 0 for a pure guarantee |
/// | `confidence` | 0.95 | probability with which all intervals together hold |
/// | `spread_factor` | 2 | where only the order of the moment is known: its root is at most so many times the released range |
/// | `relation` | zero-out | which tables are neighbours |
/// | `unit` | a row | what is protected as a whole, and has one number in each column: the mean of its rows' |
/// | `rows` | counted | public number of rows, without a `unit`; required under add-or-remove, a guess there |
/// | `method` | the narrowest intervals | a name of [`HEAVY_TAILED_METHODS`] |
#[derive(Clone, Debug, Default)]
pub struct HeavyTailedOptions {
    /// δ. `None`: 1/n^1.1, at most 0.01.
    pub delta: Option<f64>,
    /// Of all intervals together. `None`: 0.95.
    pub confidence: Option<f64>,
    /// F. `None`: 2.
    pub spread_factor: Option<f64>,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// Who is protected, where it is not a row; each has one owner.
    pub unit: Option<UnitOptions>,
    /// Public number of rows, where a row is the unit.
    pub rows: Option<u64>,
    /// A name of [`HEAVY_TAILED_METHODS`].
    pub method: Option<String>,
    /// What to do with cells that cannot be read.
    pub bad_cells: BadCells,
    /// A budget kept in a file.
    pub ledger: Option<LedgerFile>,
    /// Reproducible noise for tests: no privacy against who knows the seed, and no charge to a ledger.
    pub insecure_seed: Option<u64>,
    /// For the report: how the run was started.
    pub command: Option<String>,
}

impl HeavyTailedOptions {
    fn neighbours(&self) -> Neighbours {
        match self.unit {
            None => Neighbours::of_records(self.relation),
            Some(_) => Neighbours::of_users(self.relation),
        }
    }
}

/// Means of columns whose range nobody knows, to be explained or estimated.
///
/// ```
/// use dpopt::data::{Format, ReadOptions, open_bytes};
/// use dpopt::estimate::{HeavyTailedMean, HeavyTailedOptions};
///
/// // 1/u² of an evenly spread u in (0.05, 1]: mean 20, root of the second moment 52
/// let u = |i: u32| 0.05 + 0.95 * (f64::from(i) + 0.5) / 20_000.0;
/// let text: String = (0..20_000).fold("claim\n".into(), |text, i| format!("{text}{}\n", u(i).powi(-2)));
/// let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
/// let claims = vec![("claim".to_string(), "2:52".parse()?)];
/// // the seed is for this page: without one the noise is secret
/// let options = HeavyTailedOptions { insecure_seed: Some(1), ..HeavyTailedOptions::default() };
/// let answer = HeavyTailedMean::new(table, claims, 1.0, options)?.run()?;
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
    options: HeavyTailedOptions,
}

/// What an estimate releases.
#[derive(Clone, Debug)]
pub struct HeavyTailedMeans {
    /// Names of the columns, as they were asked for.
    pub columns: Vec<String>,
    /// One for each.
    pub means: Vec<ColumnMean>,
    /// Of all intervals together.
    pub confidence: f64,
    /// What the intervals rest on, one sentence each; privacy rests on none of it.
    pub rests_on: Vec<String>,
    /// What is promised.
    pub guarantee: Guarantee,
    /// The report.
    pub report: Report,
}

impl HeavyTailedMean {
    /// Means of `columns`, of each of which a moment is known. Looks at names, types and the number of rows only; if there is a column of units, at that
    /// instead of the number.
    pub fn new(
        table: Box<dyn TableReader>,
        columns: Vec<(String, Moment)>,
        epsilon: f64,
        options: HeavyTailedOptions,
    ) -> Result<Self, FitError> {
        let least = Budget::new(epsilon, options.delta.unwrap_or(0.0))?;
        let account = LedgerFile::account(options.ledger.as_ref());
        Opening::new(options.neighbours().within(least), account, options.insecure_seed)?;
        if let Some(name) = &options.method
            && !HEAVY_TAILED_METHODS.contains(&name.as_str())
        {
            return Err(FitError::Option(format!(
                "there is no method `{name}` for means of columns; choose one of {}",
                HEAVY_TAILED_METHODS.join(", ")
            )));
        }
        let (columns, moments): (Vec<String>, Vec<Moment>) = columns.into_iter().unzip();
        if let Some(twice) = (1..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            return Err(FitError::Option(format!("the column `{}` is named twice; once is enough", columns[twice])));
        }
        number_columns(&*table, &columns)?;
        if options.unit.as_ref().is_some_and(UnitOptions::shares_rows) {
            return Err(FitError::Option(
                "rows with several owners are not independent of each other, and no interval is known for their mean; name one column of units".into(),
            ));
        }
        let is_data = |column: &str| columns.iter().any(|own| own == column);
        let of = |asked| {
            public_units(&*table, (is_data, "numbers that are averaged"), asked, options.rows, options.relation)
        };
        let units = options.unit.as_ref().map(of).transpose()?;
        let records = match &units {
            None => public_rows(&*table, options.rows, options.relation)?,
            Some(units) => units.count(),
        };
        let budget = Budget::new(epsilon, options.delta.unwrap_or_else(|| default_delta(records)))?;
        let problem = HeavyTailedProblem {
            records,
            moments,
            spread_factor: options.spread_factor.unwrap_or(SPREAD_FACTOR),
            confidence: options.confidence.unwrap_or(0.95),
            neighbours: options.neighbours(),
        };
        Ok(Self { table, columns, units, problem, budget, options })
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
        let terms = self.problem.neighbours.within(self.budget);
        let account = LedgerFile::account(self.options.ledger.as_ref());
        let opening = Opening::new(terms, account, self.options.insecure_seed)?;
        let name = format!("means of {} columns of {}", self.columns.len(), self.table.name());
        let session = opening.charge(&name, &[&plan.certificate])?;
        let charged = session.is_charged();
        let outcome = self.release(&plan, session, progress, rows, chosen, planning);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// From here on records are read.
    fn release(
        &self,
        plan: &HeavyTailedPlan,
        mut session: Session,
        progress: &dyn Progress,
        candidates: Vec<CandidateRow>,
        chosen: usize,
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
        guarantee.of_units(self.options.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let (confidence, rests_on) = (self.problem.confidence, self.rests_on(plan, &means));
        let report = Report {
            answer: Answer::Means { confidence },
            software: env!("CARGO_PKG_VERSION").into(),
            command: self.options.command.clone().unwrap_or_else(|| "called as a library".into()),
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
            chosen,
            by_name: self.options.method.is_some(),
            schedule: serde_json::to_value(&plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: self.named(&means, |name, mean| Coefficient {
                name,
                value: mean.mean,
                noise: Some(mean.noise_std),
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
            ledger: self.options.ledger.as_ref().map(|l| l.path.display().to_string()),
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
        if let Some(unit) = &self.options.unit {
            let chosen = unit.most_rows.map(|most| format!(", {most} of them chosen at random if it has more"));
            notes.push(format!(
                "Each unit has one number in each column, the mean over its rows that have one{}: how many it has changes nothing of its weight.",
                chosen.unwrap_or_default()
            ));
        }
        notes.push(format!(
            "Every {}'s number was clipped to a distance from a centre, both in the table below. A number that is missing or could not be read counts as the centre.",
            self.one()
        ));
        if let Some(ranges) = &plan.schedule.ranges {
            notes.push(format!(
                "For {} of the columns the centre and the scale are released, too: the middle and the length of a range from about the 10 % to about the 90 % quantile, \
                 of {} {}s that secret coins chose and that are in no mean.",
                ranges.columns.len(),
                ranges.records,
                self.one()
            ));
        }
        if plan.schedule.counted {
            notes.push("The number of records is released with noise, and sums are divided by that.".into());
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
            Err(why) => Outcome::Refused { not_applicable: why.to_string() },
        };
        CandidateRow { method: candidate.method.into(), outcome }
    }

    /// What the guarantee rests on, and why each item may be believed. Moments are not among it.
    fn assumptions(&self, plan: &HeavyTailedPlan) -> Vec<Assumption> {
        let mut assumptions = vec![
            whose_rows(self.options.unit.as_ref()),
            Assumption::enforced(format!(
                "Every {}'s numbers are clipped, and their norm after scaling is at most 1: enforced in exact integers.",
                self.one()
            )),
            Assumption::enforced(
                "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
            ),
            Assumption::public(
                "Moments and the spread factor do not come from the records; wrong ones cost accuracy and the intervals' coverage, never privacy.",
            ),
        ];
        if plan.schedule.ranges.is_some() {
            assumptions.push(Assumption::enforced(
                "The records whose ranges are released and those that are averaged are disjoint blocks, chosen by coins and not by what is in them.",
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
        let mut said = vec![format!("The {one}s are independent draws of one law, whose mean is estimated.")];
        let names = self.columns.iter().zip(&self.problem.moments).zip(means);
        for ((name, moment), mean) in names.take(SAID) {
            let order = number(moment.order);
            let claim = format!(
                "(E|X − c|^{order})^(1/{order}) is at most {} for {name}, c = {}",
                number(mean.root),
                number(mean.centre)
            );
            said.push(match moment.root {
                Some(_) => format!("{claim}: declared."),
                None => format!(
                    "{claim}: ASSUMED, {} times the released range from about the 10 % to the 90 % quantile.",
                    number(self.problem.spread_factor)
                ),
            });
        }
        if self.columns.len() > SAID {
            said.push(format!("The same for the other {} columns.", self.columns.len() - SAID));
        }
        if self.units.is_some() && plan.schedule.columns.iter().any(|c| c.moment.root.is_some()) {
            said.push(
                "X is the mean of a unit's rows. What is declared of single rows holds for it as well, if it holds on average over units (Jensen).".into(),
            );
        }
        said
    }

    fn warnings(&self, plan: &HeavyTailedPlan) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::ERROR_WARNING.to_string() + BadCells::PROMISE);
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::QUOTED_NEWLINES.into());
        }
        // by the plan: a warning tells nothing of the answer
        let empty = plan.schedule.columns.iter().filter(|column| column.predicted().0 >= 1.0).count();
        if empty > 0 {
            warnings.push(format!(
                "in {empty} of {} columns the interval may say no more than the moment does; use more {}s, a larger epsilon or fewer columns",
                self.columns.len(),
                self.one()
            ));
        }
        warnings.extend(large_delta(self.budget, self.problem.records, self.options.unit.as_ref()));
        if self.options.insecure_seed.is_some() {
            warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
        }
        warnings
    }
}

/// Columns whose moments are said one by one.
const SAID: usize = 20;
