//! The private mean of sparse vectors, from a table to a report (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024, Algorithm 1; docs/proofs/sparse-mean.md).

use super::plan::{MEAN_METHODS, MeanCandidate, mean_candidates};
use super::problem::{MeanPlan, MeanProblem};
use super::protected::{public_rows, public_units};
use super::vectors::Vectors;
use crate::model::{FitError, Guarantee, Units, large_delta, whose_rows};
use crate::provenance::Provenance;
use crate::report::{
    Answer, CandidateRow, Coefficient, DataFacts, Outcome, Ownership, PlannedRow, Report, number, selected,
};
use crate::run::RunOptions;
use crate::session::{Closed, Session, StageFacts};
use dpopt_data::{BadCells, TableReader};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable};
use dpopt_optimize::{RunError, Selection};
use dpopt_privacy::{Budget, Relation, Shown};
use dpopt_refusal::{Refusal, Text, option, text};
use std::time::Instant;

/// Options of a mean of vectors besides s and the [options of every run](crate::RunOptions).
///
/// | field | default | meaning |
/// |---|---|---|
/// | `norm` | 1 | longer vectors are shrunk to this l2 norm |
/// | `rows` | counted | public number of rows, without a `unit`; required under add-or-remove, a guess there |
/// | `method` | the smallest proved error | a name of [`MEAN_METHODS`] |
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MeanOptions {
    /// L: bound on the l2 norm of a record. `None`: 1.
    pub norm: Option<f64>,
    /// Public number of rows, where a row is the unit.
    pub rows: Option<u64>,
    /// A name of [`MEAN_METHODS`].
    pub method: Option<String>,
    /// What to do with cells that cannot be read.
    pub bad_cells: BadCells,
}

impl MeanOptions {
    /// These options with [`norm`](#structfield.norm) set.
    #[must_use]
    pub fn norm(mut self, norm: impl Into<Option<f64>>) -> Self {
        self.norm = norm.into();
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

/// A mean to be explained or estimated.
///
/// ```
/// use dpopt::data::{Format, ReadOptions, open_bytes};
/// use dpopt::estimate::{MeanEstimate, MeanOptions};
///
/// // 5000 vectors of a million coordinates with two entries each
/// let text: String = (0..5000).map(|i| format!("0 1:0.8 {}:0.6\n", 2 + i)).collect();
/// let options = ReadOptions { features: Some(1_000_000), ..Default::default() };
/// let table = open_bytes(text.into_bytes(), Format::Libsvm, &options)?;
/// let mean = MeanEstimate::new(table, 2.0, 1.0, MeanOptions::default())?.run()?;
/// let (index, value) = mean.entries.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
/// assert!(index == 0 && (value - 0.8).abs() < 0.1);
/// assert!(mean.entries.len() < 50_000, "sparse, though noise was added to a million coordinates");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MeanEstimate {
    table: Box<dyn TableReader>,
    vectors: Vectors,
    /// The owners of the rows, where a unit may have several.
    units: Option<Units>,
    problem: MeanProblem,
    budget: Budget,
    run: RunOptions,
    options: MeanOptions,
}

/// Norm bounds whose squares, sums over records and grid steps stay in the range of floating-point numbers.
const NORMS: std::ops::RangeInclusive<f64> = 1e-60..=1e60;
/// More entries than indices has no vector.
const MAX_ENTRIES: f64 = (1u64 << 32) as f64;

/// What an estimate releases.
#[derive(Clone, Debug)]
pub struct Estimated {
    /// d: number of coordinates of the mean.
    pub dimension: u64,
    /// The entries that differ from 0: (index from 0, value), by increasing index.
    pub entries: Vec<(u64, f64)>,
    /// With probability 0.95 the l2 distance from the mean of the clipped records is at most this. The record of a unit is the mean of its rows' vectors,
    /// of those that were taken if their number is bounded.
    pub error_bound: f64,
    /// The privacy guarantee of the run.
    pub guarantee: Guarantee,
    /// The report of the run.
    pub report: Report,
}

impl MeanEstimate {
    /// Mean of vectors of which about `sparsity` entries differ from 0. Looks at names, types and the number of rows only; if there is a column of units,
    /// at that instead of the number.
    pub fn new(
        table: Box<dyn TableReader>,
        sparsity: f64,
        run: impl Into<RunOptions>,
        options: MeanOptions,
    ) -> Result<Self, FitError> {
        let run = run.into();
        run.opening(run.neighbours(), run.least()?)?;
        if let Some(name) = &options.method
            && !MEAN_METHODS.contains(&name.as_str())
        {
            return Err(FitError::Option(
                format!("there is no method `{name}` for means; choose one of {}", MEAN_METHODS.join(", ")).into(),
            ));
        }
        let norm = options.norm.unwrap_or(1.0);
        let out_of_range = |name: &'static str, given: f64, allowed: &'static str| {
            Err(FitError::Option(Refusal::of(option(name)).given(Shown(given).to_string()).allowed(allowed)))
        };
        if !NORMS.contains(&norm) {
            return out_of_range("norm", norm, "a number from 1e-60 to 1e60, in the unit of the vectors");
        }
        if !(1.0..=MAX_ENTRIES).contains(&sparsity) {
            return out_of_range(
                "sparsity",
                sparsity,
                "how many entries of a vector differ from 0, from 1 to 4294967296",
            );
        }
        let unit = run.unit.as_ref();
        let vectors = Vectors::of(&*table, unit.map_or(&[], |unit| &unit.columns))?;
        let is_data = |column: &str| vectors.are_in(&*table, column);
        let of = |asked| public_units(&*table, (is_data, "the vectors"), asked, options.rows, run.relation);
        let units = unit.map(of).transpose()?;
        let protected = match &units {
            None => public_rows(&*table, options.rows, run.relation)?,
            Some(units) => units.count(),
        };
        let budget = run.budget(protected)?;
        let ownership = units.as_ref().and_then(Units::ownership);
        let (records, group) = ownership.map_or((protected, 1), |owned| (owned.kept, owned.bound));
        let (dimension, neighbours) = (vectors.dimension(), run.neighbours());
        let problem = MeanProblem { records, dimension, sparsity, norm, group, neighbours };
        Ok(Self { table, vectors, units, problem, budget, run, options })
    }

    /// The public facts that are planned for.
    pub fn problem(&self) -> &MeanProblem {
        &self.problem
    }

    /// Who owns what, where a row may have several owners: its records are the rows that are kept.
    pub fn ownership(&self) -> Option<Ownership> {
        self.units.as_ref().and_then(Units::ownership)
    }

    /// The budget, the default δ filled in.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Plans every method, the smallest proved error first. Reads no record.
    pub fn explain(&self) -> Vec<MeanCandidate> {
        mean_candidates(&self.problem, self.budget)
    }

    /// Estimates without showing progress.
    pub fn run(self) -> Result<Estimated, FitError> {
        self.run_with(&Silent)
    }

    /// Plans, charges the ledger, reads the records once, releases. Before the charge no record is read.
    pub fn run_with(self, progress: &dyn Progress) -> Result<Estimated, FitError> {
        let started = Instant::now();
        let candidates = self.explain();
        let rows: Vec<CandidateRow> = candidates.iter().map(|c| self.row(c)).collect();
        let wanted = self.options.method.as_deref();
        let chosen =
            candidates.iter().position(|c| wanted.map_or(c.plan.is_ok(), |name| name == c.method)).ok_or_else(
                || NotApplicable::Problem(text!["no method applies; ", option("explain"), " tells why"].into()),
            )?;
        let plan = candidates.into_iter().nth(chosen).map(|c| c.plan);
        let plan = plan.unwrap_or_else(|| Err(NotApplicable::Problem("no method applies".into())))?;
        let planning = started.elapsed().as_secs_f64();
        let opening = self.run.opening(self.problem.neighbours, self.budget)?;
        let session = opening.charge(&format!("mean of {}", self.table.name()), &[&plan.certificate])?;
        let charged = session.is_charged();
        let selection = selected(&rows, chosen, wanted.is_some());
        let outcome = self.release(&plan, session, progress, (rows, selection), planning);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// Releases the mean; from here on records are read.
    fn release(
        &self,
        plan: &MeanPlan,
        mut session: Session,
        progress: &dyn Progress,
        (candidates, selection): (Vec<CandidateRow>, Selection),
        planning_seconds: f64,
    ) -> Result<Estimated, FitError> {
        // under add-or-remove the number of records is protected: a bar that counts them would tell it
        let counted = self.problem.neighbours.relation != Relation::AddOrRemove;
        let shown = self.ownership().map_or(self.problem.records, |owned| owned.rows);
        progress.start("sum of vectors", if counted { shown } else { 1 });
        let assumptions = self.assumptions(plan);
        let stage = StageFacts { name: "mean", rests_on: Assumption::weakest(&assumptions), stream: 0 };
        let added = || {
            if counted {
                progress.tick();
            }
        };
        let (table, bad_cells) = (&*self.table, self.options.bad_cells);
        // where a row may have several owners it is a record of its own, if it is kept
        let kept = self.units.as_ref().and_then(|units| units.kept(table));
        let rows: &dyn TableReader = kept.as_ref().map_or(table, |kept| kept);
        let units = self.units.as_ref().filter(|_| kept.is_none());
        let released = session.stage(stage, &plan.certificate, |curator| match units {
            None => plan.run(&self.problem, curator, |summer| -> Result<(), FitError> {
                self.vectors.for_each(rows, bad_cells, |entries| {
                    summer.add(entries);
                    added();
                })?;
                Ok(())
            }),
            Some(units) => {
                let vectors = self.vectors.collected(table, bad_cells)?;
                let units = units.own(vectors, curator).map_err(RunError::from)?;
                plan.run(&self.problem, curator, |summer| {
                    summer.add_units(&units, added);
                    Ok(())
                })
            }
        })?;
        progress.finish();
        let entries = released.into_inner();
        let Closed { mut guarantee, releases, receipt } = session.close();
        guarantee.of_units(self.run.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let ownership = self.ownership();
        let report = Report {
            answer: Answer::Mean { error_bound: plan.error_bound },
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Provenance::of_this_build(),
            command: self.run.shown_command(),
            facts: DataFacts {
                source: self.table.name(),
                rows: match &ownership {
                    Some(owned) => Some(owned.rows),
                    None => self.units.is_none().then_some(self.problem.records),
                },
                units: self.units.as_ref().map(Units::count),
                ownership,
                features: usize::try_from(self.problem.dimension).unwrap_or(usize::MAX),
                target: "the vectors' mean".into(),
                task: format!("Mean of vectors of about {} entries", number(self.problem.sparsity)),
                target_clip: None,
                preparation: self.preparation(plan),
            },
            guarantee: guarantee.clone(),
            releases,
            candidates,
            selection,
            schedule: serde_json::to_value(&plan.schedule).unwrap_or(serde_json::Value::Null),
            coefficients: self.coefficients(plan, &entries),
            intervals: None,
            effects: None,
            baseline: None,
            score: None,
            assumptions: assumptions.iter().map(Assumption::to_string).collect(),
            warnings: self.warnings(plan),
            planning_seconds,
            ledger: self.run.shown_ledger(),
            receipt,
        };
        Ok(Estimated { dimension: self.problem.dimension, entries, error_bound: plan.error_bound, guarantee, report })
    }

    /// What was done to the vectors.
    fn preparation(&self, plan: &MeanPlan) -> Vec<String> {
        let mut notes = vec![format!("The table has {} columns. This number is public.", self.table.columns().len())];
        if let Some(owned) = self.ownership() {
            notes.push(format!("The mean is over the rows that are kept, each with its own vector: {owned}."));
        } else if let Some(unit) = &self.run.unit {
            let chosen = unit.most_rows.map(|most| format!(", or over {most} of them chosen at random if it has more"));
            notes.push(format!(
                "Each unit has one vector, the mean over its rows{}. All units have equal weight, whatever their \
                 number of rows.",
                chosen.unwrap_or_default()
            ));
        }
        notes.push(format!(
            "Vectors longer than {} in l2 norm, or {} in l1 norm, were clipped to that length; the mean is over the \
             clipped vectors.",
            number(plan.schedule.norm),
            number(plan.schedule.l1_norm)
        ));
        notes
    }

    fn coefficients(&self, plan: &MeanPlan, entries: &[(u64, f64)]) -> Vec<Coefficient> {
        entries
            .iter()
            .map(|&(index, value)| Coefficient {
                // as in the answer: a header may be a record that was taken for one, so its words are not published
                name: index.to_string(),
                value,
                noise: Some(plan.noise_std),
                std_error: None,
                slot: false,
            })
            .collect()
    }

    fn row(&self, candidate: &MeanCandidate) -> CandidateRow {
        let outcome = match &candidate.plan {
            Ok(plan) => Outcome::Planned(PlannedRow {
                grade: Grade::resting_on(Assumption::weakest(&self.assumptions(plan))),
                noise_multiplier: plan.noise_multiplier,
                steps: 1,
                gradients: self.problem.records as f64,
                predicted_excess_risk: plan.error_bound,
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

    /// What the guarantee rests on, and why each item may be believed.
    fn assumptions(&self, plan: &MeanPlan) -> Vec<Assumption> {
        let mut assumptions = vec![
            whose_rows(self.run.unit.as_ref()),
            Assumption::enforced(format!(
                "The norm of every {}vector is at most the bound, {}: enforced in exact integers.",
                if self.units.is_some() && self.ownership().is_none() { "unit's " } else { "" },
                plan.noise_bound()
            )),
            Assumption::enforced(
                "Noise comes from a cryptographic generator seeded by the operating system, on a public grid.",
            ),
            Assumption::public(
                "The sparsity, the norm bound and the dimension do not come from the records; a wrong sparsity costs \
                 accuracy only.",
            ),
        ];
        if let Some(owned) = self.ownership() {
            assumptions.push(Assumption::enforced(format!(
                "No owner has more than {0} of the rows that are kept; they are chosen by ownership, never by their \
                 contents. The guarantee of one row is extended to a group of {0}.",
                owned.bound
            )));
        }
        if self.budget.delta() == 0.0 {
            assumptions.push(Assumption::proved(
                "The noise is within 2^-170 per coordinate, in total variation, of the exact law, which a delta of 0 \
                 leaves out.",
            ));
        }
        assumptions
    }

    fn warnings(&self, plan: &MeanPlan) -> Vec<Text> {
        let mut warnings = Vec::new();
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::error_warning());
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::of_quoted_newlines());
        }
        if plan.error_bound >= self.problem.norm {
            warnings.push(format!(
                "the error bound {} is not below the norm bound {}: the answer 0 may be as good; use more {}, a larger epsilon or \
                 a smaller sparsity",
                number(plan.error_bound),
                number(self.problem.norm),
                if self.units.is_some() && self.ownership().is_none() { "units" } else { "records" }
            ).into());
        }
        let protected = self.units.as_ref().map_or(self.problem.records, Units::count);
        warnings.extend(large_delta(self.budget, protected, self.run.unit.as_ref()));
        if self.run.insecure_seed.is_some() {
            warnings.push("a fixed seed makes the noise predictable: no privacy, for tests only".into());
        }
        warnings
    }
}
