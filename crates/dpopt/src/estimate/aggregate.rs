//! Any program's answer made private, from a table to a report: rows are split into groups, a command answers for each, and what most agree on is released
//! (docs/aggregate.md, docs/proofs/agreed-mean.md).

use super::agreed::{Agreed, AgreedPlan, AgreedProblem};
use super::group_command::GroupCommand;
use super::protected::{public_rows, public_units};
use crate::model::{FitError, Guarantee, UnitOptions, Units, coins, large_delta, whose_rows};
use crate::report::{Answer, CandidateRow, Coefficient, DataFacts, Outcome, PlannedRow, Report, number};
use crate::session::{Closed, LedgerFile, Opening, Session, StageFacts, default_delta};
use dpopt_data::{BadCells, RowGroups, Stored, TableReader};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_mechanism::{Answers, Sensitive};
use dpopt_noise::Purpose;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable};
use dpopt_privacy::{Budget, Neighbours, Relation};
use std::time::Instant;

/// Name of the method, in reports.
const METHOD: &str = "agreed-mean";

/// Everything such an answer can be told besides command, groups, ranges and ε.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 1/n^1.1, at most 0.01 | δ |
/// | `radius` | found privately | how far apart answers that agree may be, in l2 norm, in units of half the ranges |
/// | `outliers` | 0.05 | share of answers that may be far from the others |
/// | `relation` | zero-out | which tables are neighbours |
/// | `unit` | a row | what is protected as a whole, and is in one group with all its rows |
/// | `rows` | counted | public number of rows, without a `unit`; required under add-or-remove, a guess there |
#[derive(Clone, Debug)]
pub struct AggregateOptions {
    /// δ. `None`: 1/n^1.1, at most 0.01.
    pub delta: Option<f64>,
    /// ρ. `None`: found privately.
    pub radius: Option<f64>,
    /// Share of answers that may be far from the others.
    pub outliers: f64,
    /// Which data sets are neighbours.
    pub relation: Relation,
    /// Who is protected, where it is not a row; each has one owner.
    pub unit: Option<UnitOptions>,
    /// Public number of rows, where a row is the unit.
    pub rows: Option<u64>,
    /// What to do with rows that cannot be read.
    pub bad_cells: BadCells,
    /// A budget kept in a file.
    pub ledger: Option<LedgerFile>,
    /// Reproducible noise and groups for tests: no privacy against who knows the seed, and no charge to a ledger.
    pub insecure_seed: Option<u64>,
    /// For the report: how the run was started.
    pub command: Option<String>,
}

impl Default for AggregateOptions {
    fn default() -> Self {
        Self {
            delta: None,
            radius: None,
            outliers: 0.05,
            relation: Relation::default(),
            unit: None,
            rows: None,
            bad_cells: BadCells::default(),
            ledger: None,
            insecure_seed: None,
            command: None,
        }
    }
}

impl AggregateOptions {
    fn neighbours(&self) -> Neighbours {
        match self.unit {
            None => Neighbours::of_records(self.relation),
            Some(_) => Neighbours::of_users(self.relation),
        }
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
    /// What is promised.
    pub guarantee: Guarantee,
    /// The report.
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
        epsilon: f64,
        options: AggregateOptions,
    ) -> Result<Self, FitError> {
        let refuse = |what: String| Err(FitError::Option(what));
        let least = Budget::new(epsilon, options.delta.unwrap_or(0.0))?;
        let account = LedgerFile::account(options.ledger.as_ref());
        Opening::new(options.neighbours().within(least), account, options.insecure_seed)?;
        command.check()?;
        let usable = |(low, high): &(f64, f64)| {
            low.is_finite() && high.is_finite() && low < high && (high - low).is_finite() && (high - low) / 2.0 > 0.0
        };
        if let Some(at) = ranges.iter().position(|range| !usable(range)) {
            return refuse(format!("range {} is none; give two finite numbers, the lower one first, as -2:2", at + 1));
        }
        if ranges.is_empty() || groups == 0 {
            return refuse("an answer needs at least one number with its range, and one group".into());
        }
        let in_text = |stored: &Stored| !matches!(stored, Stored::Sparse(_) | Stored::Unsupported(_));
        if let Some(column) = table.columns().iter().find(|column| !in_text(&column.stored)) {
            return refuse(format!(
                "column `{}` holds no single numbers or texts, and groups are written as tables of text; leave it out of the file",
                column.name
            ));
        }
        if options.unit.as_ref().is_some_and(UnitOptions::shares_rows) {
            return refuse(
                "a row with several owners would be in the groups of all of them; name one column of units".into(),
            );
        }
        let of = |asked| public_units(&*table, (|_: &str| false, ""), asked, options.rows, options.relation);
        let units = options.unit.as_ref().map(of).transpose()?;
        let records = match &units {
            None => public_rows(&*table, options.rows, options.relation)?,
            Some(units) => units.count(),
        };
        let budget = Budget::new(epsilon, options.delta.unwrap_or_else(|| default_delta(records)))?;
        let problem = AgreedProblem {
            groups,
            dimension: ranges.len(),
            outliers: options.outliers,
            radius: options.radius,
            neighbours: options.neighbours(),
        };
        Ok(Self { table, command, ranges, units, records, problem, budget, options })
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

    /// The command.
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
        let terms = self.problem.neighbours.within(self.budget);
        let account = LedgerFile::account(self.options.ledger.as_ref());
        let opening = Opening::new(terms, account, self.options.insecure_seed)?;
        let name = format!("aggregate of {} groups of {}", self.problem.groups, self.table.name());
        let session = opening.charge(&name, &[&plan.certificate])?;
        let charged = session.is_charged();
        let outcome = self.release(&plan, session, progress, planning);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// From here on records are read.
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
        guarantee.of_units(self.options.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let coefficients = value.iter().flatten().zip(&noise_std).enumerate();
        let report = Report {
            answer: Answer::Agreed { found: value.is_some() },
            software: env!("CARGO_PKG_VERSION").into(),
            command: self.options.command.clone().unwrap_or_else(|| "called as a library".into()),
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
            chosen: 0,
            by_name: false,
            schedule: serde_json::to_value(&plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: coefficients
                .map(|(i, (&value, &noise))| Coefficient {
                    name: format!("number {}", i + 1),
                    value,
                    noise: Some(noise),
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
            ledger: self.options.ledger.as_ref().map(|l| l.path.display().to_string()),
            receipt,
        };
        Ok(Aggregated { value, noise_std, radius, groups: self.problem.groups, guarantee, report })
    }

    /// Each row, or each unit with its rows, to a group by a secret coin.
    fn split(&self) -> Result<RowGroups, FitError> {
        let groups = self.problem.groups;
        let mut coins = coins(self.options.insecure_seed)?;
        let bad_cells = self.options.bad_cells;
        Ok(match &self.units {
            None => {
                let mut coin = coins.stream(Purpose::Split, 0);
                RowGroups::split(&*self.table, groups as usize, |_| Some(coin.below(groups) as usize), bad_cells)?
            }
            Some(units) => {
                let of_row = units.in_groups(groups, &mut coins).map_err(|why| FitError::Option(why.to_string()))?;
                let group_of = |row: usize| of_row.get(row).copied().flatten().map(|group| group as usize);
                RowGroups::split(&*self.table, groups as usize, group_of, bad_cells)?
            }
        })
    }

    /// From the ranges to [-1, 1].
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
        let most = self.options.unit.as_ref().and_then(|unit| unit.most_rows);
        let mut notes = vec![
            format!(
                "Each {}{} was put in one of {} groups by a secret coin{}.",
                self.one(),
                if self.units.is_some() { " with its rows" } else { "" },
                self.problem.groups,
                most.map_or(String::new(), |most| format!(
                    "; of a unit with more than {most} rows, so many were chosen at random"
                ))
            ),
            format!(
                "The command ran once for each group, on a file with its rows alone, for at most {} seconds. A run that took longer, failed, or printed anything but {} finite \
                 numbers is no answer; how many there were is in no file and in no message.",
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
                "At least about {} of the answers have to lie within the radius of one of them, or nothing is released; those far from most weigh nothing.",
                plan.schedule.core
            ),
        ];
        if plan.schedule.search.is_some() {
            notes.push("The radius was found privately, and is part of what was released.".into());
        }
        notes
    }

    /// What the guarantee rests on, and why each item may be believed.
    fn assumptions(&self) -> Vec<Assumption> {
        let alone = match self.command.jobs {
            1 => Assumption::enforced(
                "One run is at work at a time; before the next one begins it is killed with its process group and, on Linux, with whatever carries its mark in the environment.",
            ),
            jobs => Assumption::public(format!(
                "{jobs} runs are at work at a time, and the time limit is so far above what a run takes that none is stopped because another one is greedy: it is told by --jobs, and not checked."
            )),
        };
        vec![
            alone,
            whose_rows(self.options.unit.as_ref()),
            Assumption::enforced(format!(
                "Each {} is in one group, chosen by a coin and not by what is in it; the number of groups is public.",
                self.one()
            )),
            Assumption::enforced(
                "Each run of the command is a process of its own, which is given the rows of one group and a directory that is removed after it.",
            ),
            Assumption::public(
                "The command looks at no other record, by whatever road (the table itself, a server, a file that an earlier run left, the clock or process numbers and seeds made of them): its text is public, and is not checked.",
            ),
            Assumption::enforced(
                "Answers are clipped to their ranges, compared and averaged in exact integers; noise comes from a cryptographic generator seeded by the operating system.",
            ),
            Assumption::public("The ranges and a radius that is told do not come from the records."),
        ]
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::ERROR_WARNING.to_string() + BadCells::PROMISE);
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::QUOTED_NEWLINES.into());
        }
        if !self.command.fixed_time {
            warnings.push("how long the run takes depends on the records, and can tell whoever watches it something of them; --fixed-time makes it public".into());
        }
        warnings.extend(large_delta(self.budget, self.records, self.options.unit.as_ref()));
        if self.options.insecure_seed.is_some() {
            warnings.push("a fixed seed makes noise and groups predictable: no privacy, for tests only".into());
        }
        warnings
    }
}
