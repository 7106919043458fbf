//! The steps of every fit, whatever the records are: public facts → stage plans → charge → labels, ranges → models → guarantee → answer.
//!
//! A [`Source`] says what is public of the records and how they are read; [`Fit`] plans, charges, and takes the stages in order.

use super::error::FitError;
use super::matrix::{BoundedMatrix, MatrixFacts, MatrixOptions};
use super::options::FitOptions;
use super::source::{Source, StageKind, Taken};
use super::stage_plan::{Planned, StagePlan, Target};
use super::table::{Fitted, NamedTable};
use crate::run::{Payer, RunOptions};
use crate::session::{Opening, Session, StageFacts};
use dpopt_data::{Encoder, TableReader};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_objective::records::Partitions;
use dpopt_privacy::ledger::Quote;
use dpopt_privacy::{Budget, Certificate, Terms};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A fit to be explained or run: of a table with named columns ([`Fit::new`]), or of a matrix of bounded rows ([`Fit::of_matrix`]).
///
/// ```
/// use dpopt::RunOptions;
/// use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
/// use dpopt::model::{Fit, FitOptions};
///
/// let mut text = String::from("age,member\n");
/// for i in 0..2000 {
///     text += &format!("{},{}\n", 18 + i % 60, if i % 60 > 25 { "yes" } else { "no" });
/// }
/// let schema = Schema::from_toml("[age]\nlower = 18\nupper = 80\n[member]\nlevels = ['no', 'yes']\n")?;
/// let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
/// let run = RunOptions::within(1.0).delta(1e-6);
/// let fitted = Fit::new(table, "member", run, FitOptions::default().schema(schema))?.run()?;
/// assert!(fitted.model.guarantee().certified_epsilon <= 1.0);
/// assert!(fitted.report.html().starts_with("<!DOCTYPE html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fit<S: Source = NamedTable> {
    pub(super) source: S,
}

impl<S: Source> Fit<S> {
    /// The budget of the whole run, the default δ filled in.
    pub fn budget(&self) -> Budget {
        self.source.budget()
    }

    /// What is promised, and between which data sets.
    pub fn terms(&self) -> Terms {
        self.source.neighbours().within(self.source.budget())
    }

    /// Whether the labels are to be found privately.
    pub fn finds_labels(&self) -> bool {
        self.source.target().finds_labels()
    }

    /// Plans every method for `classes` classes (any number where the declarations settle it). Reads no record.
    ///
    /// # Errors
    /// If the model would be too large, or the budget cannot be shared.
    pub fn compared(&self, classes: usize) -> Result<Arc<Planned>, FitError> {
        self.source.plan(self.classes(classes), true)
    }

    /// The plan that a run with `classes` classes follows; of a method that is asked for by name alone, unless the run compares it with others.
    ///
    /// # Errors
    /// As [`compared`](Self::compared).
    pub fn planned(&self, classes: usize) -> Result<Arc<Planned>, FitError> {
        self.source.plan(self.classes(classes), self.source.compares())
    }

    fn classes(&self, asked: usize) -> usize {
        let target = self.source.target();
        if target.finds_labels() { asked } else { target.classes() }
    }

    /// What every stage of the run is certified for, in order: what a ledger would be charged. Reads no record.
    ///
    /// # Errors
    /// If nothing can be planned.
    pub fn stages(&self) -> Result<Vec<Certificate>, FitError> {
        // other methods beside a named one are of no interest here
        Ok(self.stage_plan(false)?.parts().into_iter().cloned().collect())
    }

    /// What the ledger would do with this run, if there is a ledger; or why the run cannot be planned, or would be refused. Charges nothing and reads
    /// nothing.
    ///
    /// # Errors
    /// Why it cannot be planned, or would be refused.
    pub fn quote(&self) -> Result<Option<Quote>, FitError> {
        let stage_plan = self.stage_plan(self.source.compares())?;
        Ok(self.opening()?.quote(&stage_plan.parts())?)
    }

    fn opening(&self) -> Result<Opening, FitError> {
        Ok(self.source.run_options().opening(self.source.neighbours(), self.source.budget())?)
    }

    /// All that can be planned before the first record is read; beside a method asked for by name the others only to `compare`.
    fn stage_plan(&self, compare: bool) -> Result<StagePlan, FitError> {
        let source = &self.source;
        let plan = |classes| source.plan(classes, compare);
        StagePlan::new(source.target(), source.budget_split(), source.neighbours(), source.ranges()?, plan)
    }

    /// Plans, charges the payer, reads `records` stage by stage, and releases. Before the charge no record is read, but for whose they are; after a
    /// refusal nothing was read.
    ///
    /// # Errors
    /// Why nothing is planned, charged or released; [`FitError::Spent`] if the charge stays.
    pub fn run_on(&self, records: S::Records, progress: &dyn Progress) -> Result<S::Answer, FitError> {
        let started = Instant::now();
        let stage_plan = self.stage_plan(self.source.compares())?;
        let planning = started.elapsed();
        self.source.check(&stage_plan.parts(), &records)?;
        let session = self.opening()?.charge(&self.source.name(), &stage_plan.parts())?;
        let charged = session.is_charged();
        let outcome = self.released(stage_plan, planning, session, records, progress);
        outcome.map_err(|error| if charged { FitError::Spent(Box::new(error)) } else { error })
    }

    /// Everything that reads records.
    fn released(
        &self,
        stage_plan: StagePlan,
        mut planning: Duration,
        mut session: Session,
        records: S::Records,
        progress: &dyn Progress,
    ) -> Result<S::Answer, FitError> {
        let source = &self.source;
        let every = source.rests_on();
        let (early, mut classes, mut prepared) = (stage_plan.early(), source.target().classes(), 0);
        let StagePlan { labels, bounds, .. } = stage_plan;
        let mut state = source.begin(records)?;
        if let Some(plan) = labels {
            prepared += 1;
            let stream = source.stream(StageKind::Labels, prepared);
            let stage = StageFacts { name: "labels", rests_on: every, stream };
            classes =
                session.stage(stage, plan.certificate(), |curator| source.find_labels(&mut state, &plan, curator))?;
        }
        if let Some(plan) = bounds {
            prepared += 1;
            let stream = source.stream(StageKind::Ranges, prepared);
            let stage = StageFacts { name: "bounds", rests_on: every, stream };
            session.stage(stage, plan.certificate(), |curator| source.find_ranges(&mut state, &plan, curator))?;
        }
        let planned = match early {
            Some(planned) => planned,
            None => {
                let started = Instant::now();
                let planned = source.plan(classes, source.compares())?;
                planning += started.elapsed();
                planned
            }
        };
        let also = source.settle(&mut state, &planned)?;
        let summary = planned.plan()?.summary();
        let rests_on = summary.rests_on().and(also).and(every);
        let mut solutions = Vec::with_capacity(planned.models);
        for k in 0..planned.models {
            let name = match planned.models {
                1 => "model".to_string(),
                all => format!("model {} of {all}", k + 1),
            };
            let stage = StageFacts { name: &name, rests_on, stream: source.stream(StageKind::Model(k), prepared) };
            let fitted = session
                .stage(stage, &summary.certificate, |curator| source.fit(&mut state, &planned, k, curator, progress))?;
            solutions.push(fitted);
        }
        let mut closed = session.close();
        closed.guarantee.of_units(source.units(&state));
        source.answer(state, Taken { planned, solutions, closed, planning })
    }
}

/// What is public of the source.
impl<S: Source> Deref for Fit<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.source
    }
}

impl Fit {
    /// A fit of the column `target` of a table. Checks all options against the table's names and number of rows; reads no value of any row but, where a unit
    /// may have several, whose they are.
    ///
    /// # Errors
    /// What is wrong with an option, a declaration or the table's header.
    pub fn new(
        table: Box<dyn TableReader>,
        target: &str,
        run: impl Into<RunOptions>,
        options: FitOptions,
    ) -> Result<Self, FitError> {
        Ok(Self { source: NamedTable::new(table, target, run, options)? })
    }

    /// Plans a method that is asked for by name alone: the report says nothing of the others, and planning them takes longer than most fits.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { source: self.source.alone() }
    }

    /// Runs without showing progress.
    ///
    /// # Errors
    /// As [`run_on`](Self::run_on).
    pub fn run(&self) -> Result<Fitted, FitError> {
        self.run_with(&Silent)
    }

    /// Runs the fit and shows its `progress`.
    ///
    /// # Errors
    /// As [`run_on`](Self::run_on).
    pub fn run_with(&self, progress: &dyn Progress) -> Result<Fitted, FitError> {
        self.run_on(None, progress)
    }

    /// How partitions of the table are encoded: all of it is public.
    ///
    /// # Errors
    /// If the fit was not planned for partitions.
    pub fn encoder_of_partitions(&self) -> Result<Encoder, FitError> {
        self.source.encoder_of_partitions()
    }

    /// Runs on partitions of which is `known` how many records each has, and their digest: [`Shard::of_table`](super::Shard::of_table)s by
    /// [`encoder_of_partitions`](Self::encoder_of_partitions).
    ///
    /// # Errors
    /// If the fit was not planned for so many rows in partitions, no method applies, or one is lost or changes. What was charged stays charged.
    pub fn run_remote(
        &self,
        parts: Arc<dyn Partitions>,
        known: Vec<(u64, u64)>,
        progress: &dyn Progress,
    ) -> Result<Fitted, FitError> {
        self.run_on(Some((parts, known)), progress)
    }
}

impl Fit<BoundedMatrix> {
    /// A fit of linear models to bounded rows, any number of times. Checks values of options, and the budget; what an option means for a method the plan
    /// says.
    ///
    /// # Errors
    /// If ε, δ or an option is out of range, no method has the name, or there are fewer than two units.
    pub fn of_matrix(
        facts: MatrixFacts,
        target: Target,
        run: impl Into<RunOptions>,
        options: MatrixOptions,
    ) -> Result<Self, FitError> {
        Ok(Self { source: BoundedMatrix::new(facts, target, run.into(), options)? })
    }

    /// This fit with all that was planned, charged to `payer` and with noise of its own.
    #[must_use]
    pub fn paid_by(&self, payer: Payer, insecure_seed: Option<u64>) -> Self {
        Self { source: self.source.paid_by(payer, insecure_seed) }
    }
}
