//! Any program's answer made private, from a table to a report: rows are split into groups, a command answers for each, and what most agree on is released
//! (docs/aggregate.md, docs/proofs/agreed-mean.md).

use super::agreed::{Agreed, AgreedPlan, AgreedProblem};
use super::group_command::GroupCommand;
use super::protected::{public_rows, public_units};
use crate::model::{FitError, Guarantee, UnitOptions, Units, coins, large_delta, whose_rows};
use crate::provenance::Provenance;
use crate::report::{Answer, CandidateRow, Coefficient, DataFacts, Outcome, PlannedRow, Report, number};
use crate::run::RunOptions;
use crate::session::{Closed, Session, StageFacts};
use dpopt_data::{BadCells, RowGroups, Stored, TableReader};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_mechanism::{Answers, Sensitive};
use dpopt_noise::Purpose;
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable};
use dpopt_optimize::{Reason, RunError, Selection};
use dpopt_privacy::Budget;
use dpopt_refusal::{Text, setting, text};
use std::time::Instant;

/// Name of the method, in reports.
const METHOD: &str = "agreed-mean";

/// Options of such an answer besides command, groups, ranges and the [options of every run](crate::RunOptions).
///
/// | field | default | meaning |
/// |---|---|---|
/// | `radius` | found privately | how far apart answers that agree may be, in l2 norm, in units of half the ranges |
/// | `outliers` | 0.05 | share of answers that may be far from the others |
/// | `rows` | counted | public number of rows, without a `unit`; required under add-or-remove, a guess there |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AggregateOptions {
    /// ρ. `None`: found privately.
    pub radius: Option<f64>,
    /// Share of answers that may be far from the others.
    pub outliers: f64,
    /// Public number of rows, where a row is the unit.
    pub rows: Option<u64>,
    /// What to do with rows that cannot be read.
    pub bad_cells: BadCells,
}

impl AggregateOptions {
    /// These options with [`radius`](#structfield.radius) set.
    #[must_use]
    pub fn radius(mut self, radius: impl Into<Option<f64>>) -> Self {
        self.radius = radius.into();
        self
    }

    /// These options with [`outliers`](#structfield.outliers) set.
    #[must_use]
    pub fn outliers(mut self, outliers: f64) -> Self {
        self.outliers = outliers;
        self
    }

    /// These options with [`rows`](#structfield.rows) set.
    #[must_use]
    pub fn rows(mut self, rows: impl Into<Option<u64>>) -> Self {
        self.rows = rows.into();
        self
    }

    /// These options with [`bad_cells`](#structfield.bad_cells) set.
    #[must_use]
    pub fn bad_cells(mut self, bad_cells: BadCells) -> Self {
        self.bad_cells = bad_cells;
        self
    }
}

impl Default for AggregateOptions {
    fn default() -> Self {
        Self { radius: None, outliers: 0.05, rows: None, bad_cells: BadCells::default() }
    }
}

/// A command's answer for a table, to be explained or released.
///
/// ```no_run
/// use dpopt::data::{ReadOptions, open};
/// use dpopt::estimate::{Aggregate, AggregateOptions, GroupCommand};
/// use std::time::Duration;
///
/// let table = open("visits.csv", &ReadOptions::default())?;
/// let command = GroupCommand::new("python3 slope.py {group}", Duration::from_secs(60))?;
/// let aggregate = Aggregate::new(table, command, 600, vec![(-2.0, 2.0)], 2.0, AggregateOptions::default())?;
/// match aggregate.run()?.value {
///     Some(value) => println!("{}", value[0]),
///     None => println!("too few groups agree"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Aggregate {
    table: Box<dyn TableReader>,
    command: GroupCommand,
    /// Public range of each number.
    ranges: Vec<(f64, f64)>,
    units: Option<Units>,
    /// Rows or units, or a guess.
    records: u64,
    problem: AgreedProblem,
    budget: Budget,
    run: RunOptions,
    options: AggregateOptions,
}

/// What a run releases.
#[derive(Clone, Debug)]
pub struct Aggregated {
    /// The mean of the answers that agree. `None`: too few do.
    pub value: Option<Vec<f64>>,
    /// Standard deviation of the noise in each number; NaN where there is none.
    pub noise_std: Vec<f64>,
    /// ρ, told or found. `None`: none was found.
    pub radius: Option<f64>,
    /// How many groups there were.
    pub groups: u64,
    /// The privacy guarantee of the run.
    pub guarantee: Guarantee,
    /// The report of the run.
    pub report: Report,
}

impl Aggregate {
    /// The answer of `command` for `table`, one number in each of the public `ranges`, from so many `groups`. Looks at names, types and the number of rows
    /// only; if there is a column of units, at that instead of the number.
    ///
    /// # Errors
    /// If a range or an option is out of range, or the table holds what a file of text could not.
    pub fn new(
        table: Box<dyn TableReader>,
        command: GroupCommand,
        groups: u64,
        ranges: Vec<(f64, f64)>,
        run: impl Into<RunOptions>,
        options: AggregateOptions,
    ) -> Result<Self, FitError> {
        let run = run.into();
        let refuse = |what: String| Err(FitError::Option(what.into()));
        run.opening(run.neighbours(), run.least()?)?;
        command.check()?;
        let usable = |(low, high): &(f64, f64)| {
            low.is_finite() && high.is_finite() && low < high && (high - low).is_finite() && (high - low) / 2.0 > 0.0
        };
        if let Some(at) = ranges.iter().position(|range| !usable(range)) {
            return refuse(format!(
                "range {} is not valid; give two finite numbers, the lower one first, for example -2:2",
                at + 1
            ));
        }
        if ranges.is_empty() || groups == 0 {
            return refuse(
                "there is no range or no group; give at least one number with its range, and at least one \
                           group"
                    .into(),
            );
        }
        let in_text = |stored: &Stored| !matches!(stored, Stored::Sparse(_) | Stored::Unsupported(_));
        if let Some(column) = table.columns().iter().find(|column| !in_text(&column.stored)) {
            return refuse(format!(
                "column `{}` holds lists or other nested values, and groups are written as CSV; leave the column out \
                 of the file",
                column.name
            ));
        }
        if run.unit.as_ref().is_some_and(UnitOptions::shares_rows) {
            return refuse("a row with several owners would be in several groups; name one column of units".into());
        }
        let of = |asked| public_units(&*table, (|_: &str| false, ""), asked, options.rows, run.relation);
        let units = run.unit.as_ref().map(of).transpose()?;
        let records = match &units {
            None => public_rows(&*table, options.rows, run.relation)?,
            Some(units) => units.count(),
        };
        let budget = run.budget(records)?;
        let problem = AgreedProblem {
            groups,
            dimension: ranges.len(),
            outliers: options.outliers,
            radius: options.radius,
            neighbours: run.neighbours(),
        };
        Ok(Self { table, command, ranges, units, records, problem, budget, run, options })
    }

    /// The public facts that are planned for.
    pub fn problem(&self) -> &AgreedProblem {
        &self.problem
    }

    /// Rows or units, or a public guess of them.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The budget, the default δ filled in.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The command that answers for each group.
    pub fn command(&self) -> &GroupCommand {
        &self.command
    }

    /// Plans. Reads no record.
    ///
    /// # Errors
    /// As [`AgreedPlan::new`].
    pub fn explain(&self) -> Result<AgreedPlan, NotApplicable> {
        AgreedPlan::new(&self.problem, self.budget)
    }

    /// Runs without showing progress.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with).
    pub fn run(self) -> Result<Aggregated, FitError> {
        self.run_with(&Silent)
    }

    /// Plans, charges the ledger, reads the records once, runs the command for each group, releases. Before the charge no record is read.
    ///
    /// # Errors
    /// If no plan fits, the ledger refuses, or the table can't be read. What goes wrong with the command does so in a group, and is no answer.
    pub fn run_with(self, progress: &dyn Progress) -> Result<Aggregated, FitError> {
        let started = Instant::now();
        let plan = self.explain()?;
        let planning = started.elapsed().as_secs_f64();
        let opening = self.run.opening(self.problem.neighbours, self.budget)?;
        let name = format!("aggregate of {} groups of {}", self.problem.groups, self.table.name());
        let session = opening.charge(&name, &[&plan.certificate])?;
        let charged = session.is_charged();
        let outcome = self.release(&plan, session, progress, planning);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// Releases the answer; from here on records are read.
    fn release(
        &self,
        plan: &AgreedPlan,
        mut session: Session,
        progress: &dyn Progress,
        planning_seconds: f64,
    ) -> Result<Aggregated, FitError> {
        let assumptions = self.assumptions();
        let stage = StageFacts { name: "mean", rests_on: Assumption::weakest(&assumptions), stream: 0 };
        // a bar that follows the groups would show how long each takes
        progress.start("groups", if self.command.fixed_time { self.problem.groups } else { 1 });
        let released = session.stage(stage, &plan.certificate, |curator| -> Result<_, FitError> {
            let groups = self.split()?;
            let answers = self.command.answers(&groups, self.ranges.len(), progress);
            drop(groups);
            let scaled: Vec<Option<Vec<f64>>> = answers.into_iter().map(|answer| Some(self.scaled(&answer?))).collect();
            let answers =
                Answers::new(self.ranges.len(), scaled.iter().map(Option::as_deref)).map_err(RunError::from)?;
            Ok(plan.run(&self.problem, &Sensitive::new(answers), curator).map_err(RunError::from)?)
        })?;
        progress.finish();
        let Agreed { mean, radius, noise_std } = released.into_inner();
        let value: Option<Vec<f64>> = mean.map(|mean| self.unscaled(&mean));
        let noise_std: Vec<f64> = self.ranges.iter().map(|(low, high)| (high - low) / 2.0 * noise_std).collect();
        let Closed { mut guarantee, releases, receipt } = session.close();
        guarantee.of_units(self.run.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let coefficients = value.iter().flatten().zip(&noise_std).enumerate();
        let report = Report {
            answer: Answer::Agreed { found: value.is_some() },
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Provenance::of_this_build(),
            command: self.run.shown_command(),
            facts: DataFacts {
                source: self.table.name(),
                rows: self.units.is_none().then_some(self.records),
                units: self.units.as_ref().map(Units::count),
                ownership: None,
                features: self.ranges.len(),
                target: self.command.words().join(" "),
                task: format!("Answers of {} groups of records", self.problem.groups),
                target_clip: None,
                preparation: self.preparation(plan),
            },
            guarantee: guarantee.clone(),
            releases,
            candidates: vec![CandidateRow { method: METHOD.into(), outcome: self.planned(plan, &assumptions) }],
            selection: Selection {
                place: 0,
                reason: Reason::Rule("it is the only method for a program of the user".into()),
            },
            schedule: serde_json::to_value(&plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: coefficients
                .map(|(i, (&value, &noise))| Coefficient {
                    name: format!("number {}", i + 1),
                    value,
                    noise: Some(noise),
                    std_error: None,
                    slot: false,
                })
                .collect(),
            intervals: None,
            effects: None,
            baseline: None,
            score: None,
            assumptions: assumptions.iter().map(Assumption::to_string).collect(),
            warnings: self.warnings(),
            planning_seconds,
            ledger: self.run.shown_ledger(),
            receipt,
        };
        Ok(Aggregated { value, noise_std, radius, groups: self.problem.groups, guarantee, report })
    }

    /// Each row, or each unit with its rows, to a group by a secret coin.
    fn split(&self) -> Result<RowGroups, FitError> {
        let groups = self.problem.groups;
        let mut coins = coins(self.run.insecure_seed)?;
        let bad_cells = self.options.bad_cells;
        Ok(match &self.units {
            None => {
                let mut coin = coins.stream(Purpose::Split, 0);
                RowGroups::split(&*self.table, groups as usize, |_| Some(coin.below(groups) as usize), bad_cells)?
            }
            Some(units) => {
                let of_row =
                    units.in_groups(groups, &mut coins).map_err(|why| FitError::Option(why.to_string().into()))?;
                let group_of = |row: usize| of_row.get(row).copied().flatten().map(|group| group as usize);
                RowGroups::split(&*self.table, groups as usize, group_of, bad_cells)?
            }
        })
    }

    /// Maps the numbers of an answer from their ranges to [-1, 1].
    fn scaled(&self, answer: &[f64]) -> Vec<f64> {
        answer
            .iter()
            .zip(&self.ranges)
            .map(|(v, (low, high))| (v - (low / 2.0 + high / 2.0)) / ((high - low) / 2.0))
            .collect()
    }

    fn unscaled(&self, mean: &[f64]) -> Vec<f64> {
        mean.iter()
            .zip(&self.ranges)
            .map(|(v, (low, high))| (low / 2.0 + high / 2.0) + v * ((high - low) / 2.0))
            .collect()
    }

    fn planned(&self, plan: &AgreedPlan, assumptions: &[Assumption]) -> Outcome {
        Outcome::Planned(PlannedRow {
            grade: Grade::resting_on(Assumption::weakest(assumptions)),
            noise_multiplier: plan.noise_multiplier,
            steps: 1 + u64::from(plan.schedule.search.is_some()),
            gradients: self.problem.groups as f64,
            predicted_excess_risk: plan.schedule.noise_over_radius,
            epsilon: plan.certificate.bound().upper,
            delta: plan.certificate.budget().delta(),
            accountant: plan.certificate.bound().accountant.clone(),
            clips: None,
            notes: Vec::new(),
        })
    }

    fn one(&self) -> &'static str {
        if self.units.is_some() { "unit" } else { "row" }
    }

    /// What was done to the records.
    fn preparation(&self, plan: &AgreedPlan) -> Vec<String> {
        let most = self.run.unit.as_ref().and_then(|unit| unit.most_rows);
        let mut notes = vec![
            format!(
                "Each {}{} was assigned to one of {} groups at random and in secret{}.",
                self.one(),
                if self.units.is_some() { " with its rows" } else { "" },
                self.problem.groups,
                most.map_or(String::new(), |most| format!(
                    "; of a unit with more rows than {most}, {most} were chosen at random"
                ))
            ),
            format!(
                "The command ran once for each group, on a file with the rows of the group only, for at most {} \
                 seconds. A run that took longer, failed, or printed anything but {} finite numbers gave no answer; \
                 the number of such runs is not reported anywhere.",
                number(self.command.time_limit().as_secs_f64()),
                self.ranges.len()
            ),
            format!(
                "Numbers are clipped to their public ranges, {}.",
                self.ranges
                    .iter()
                    .map(|(low, high)| format!("{} to {}", number(*low), number(*high)))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            format!(
                "Numbers are released only if about {} or more answers lie within the radius of one of them. Answers \
                 far from most others have no weight.",
                plan.schedule.core
            ),
        ];
        if plan.schedule.search.is_some() {
            notes.push("The radius was found privately and is part of the release.".into());
        }
        notes
    }

    /// What the guarantee rests on, and why each item may be believed.
    fn assumptions(&self) -> Vec<Assumption> {
        let alone = match self.command.jobs {
            1 => Assumption::enforced(
                "One run is active at a time. Before the next one starts, it is killed together with its process \
                 group and, on Linux, with every process that carries its mark in the environment.",
            ),
            jobs => Assumption::public(format!(
                "{jobs} runs are active at a time, and the time limit is so large that no run is stopped because \
                 another one slows it down: assumed, not checked."
            )),
        };
        vec![
            alone,
            whose_rows(self.run.unit.as_ref()),
            Assumption::enforced(format!(
                "Each {} is in one group, chosen at random and never by its contents; the number of groups is \
                 public.",
                self.one()
            )),
            Assumption::enforced(
                "Each run of the command is a process of its own. It gets the rows of one group and a directory that \
                 is removed afterwards.",
            ),
            Assumption::public(
                "The command depends on no record outside its group, neither directly (the table, a server, a file \
                 of an earlier run) nor indirectly (the clock, process numbers, seeds made of them): assumed, not \
                 checked. Its text is public.",
            ),
            Assumption::enforced(
                "Answers are clipped to their ranges, compared and averaged in exact integers; noise comes from a cryptographic generator seeded by the operating system.",
            ),
            Assumption::public("The ranges, and a radius that is given, do not come from the records."),
        ]
    }

    fn warnings(&self) -> Vec<Text> {
        let mut warnings = Vec::new();
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::error_warning());
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::of_quoted_newlines());
        }
        if !self.command.fixed_time {
            warnings.push(text![
                "the run time depends on the records and may reveal something about them; ",
                setting("fixed_time", "true"),
                " makes it independent of them"
            ]);
        }
        warnings.extend(large_delta(self.budget, self.records, self.run.unit.as_ref()));
        if self.run.insecure_seed.is_some() {
            warnings.push("a fixed seed makes noise and groups predictable: no privacy, for tests only".into());
        }
        warnings
    }
}
