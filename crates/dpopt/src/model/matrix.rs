//! A matrix of bounded rows: what is public of it, how labels and a range are found in it, and its linear models. What every estimator of the Python package
//! learns from, where columns are not declared by name.

use super::budget_split::{BudgetSplit, StageShares};
use super::error::FitError;
use super::options::MethodRequest;
use super::partitions::{QueryTarget, View, remote_numbers};
use super::prepare::no_range;
use super::source::{Source, StageKind, Taken};
use super::stage_plan::{Planned, Target};
use super::target_range;
use super::units::{self, Owned, UnitFacts};
use crate::guarantee::Guarantee;
use crate::moment::{Moment, TargetClip};
use crate::run::{Payer, RunOptions, UnitClipping};
use crate::session::Closed;
use dpopt_data::RowOwners;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, CuratorError, LabelSelection, PrivateBounds, ReleaseRecord, Sensitive, below_counts};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Evidence;
use dpopt_objective::records::{BelowCounts, Bounded, Encoded, Examples, Partitions, RemoteRecords, Rows, Units};
use dpopt_optimize::plan::Problem;
use dpopt_optimize::{MethodOptions, Registry, Run, RunError, Solution};
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, Shown, accountant::Accountant};
use dpopt_refusal::Step;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Stream of the noise that labels are found with; the models have those from 0 on.
const LABELS: u64 = 1 << 20;
/// And of that a target's range is found with.
const RANGE: u64 = LABELS + 1;

/// What every stage rests on besides its plan: bounds, classes and row norms are declared, and do not come from the records.
pub(super) const DECLARED: Evidence = Evidence::Public;

/// Public facts of bounded rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixFacts {
    /// Number of rows; a public guess under add-or-remove.
    pub rows: u64,
    /// Entries of a bounded row, the intercept included.
    pub features: usize,
    /// Most entries of a row that are not 0.
    pub nonzeros: usize,
    /// l2 norm that no row exceeds.
    pub row_norm: f64,
    /// What is public of whose rows they are, where a unit may have several. `None`: each row is a unit of its own.
    pub units: Option<UnitFacts>,
}

impl MatrixFacts {
    /// The problem of one model, rows being units of their own.
    pub(super) fn problem(&self, loss: Loss, neighbours: Neighbours) -> Problem {
        Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows: self.rows,
            features: self.features,
            nonzeros: self.nonzeros,
            row_norm: self.row_norm,
            loss,
            neighbours,
        }
    }

    /// Number of units of privacy, or a public guess of it.
    fn protected(&self) -> u64 {
        self.units.map_or(self.rows, |units| units.count)
    }

    fn neighbours(&self, relation: Relation) -> Neighbours {
        match self.units {
            None => Neighbours::of_records(relation),
            Some(_) => Neighbours::of_users(relation),
        }
    }
}

/// How the range of a number that is predicted is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TargetRange {
    /// Targets are in [-1, 1] as they are; beyond it nothing is promised of the fit's use, only of its privacy.
    #[default]
    Scaled,
    /// Public: lower and upper.
    Known(f64, f64),
    /// It is found privately before the model, where so many records are enough for that; where not, targets are clipped to [-1, 1].
    Found,
    /// A public moment says where to clip.
    Moment(Moment),
}

/// Options of a fit of a matrix beside the [options of every run](RunOptions).
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct MatrixOptions {
    /// Which methods there are, and what is said of them. `None`: those that ship.
    pub methods: Option<MethodRequest>,
    /// How the range of a number that is predicted is known.
    pub range: TargetRange,
    /// Accounts the guarantee. `None`: whichever is the tightest.
    pub accountant: Option<&'static dyn Accountant>,
}

impl MatrixOptions {
    /// These options with [`methods`](#structfield.methods) set.
    #[must_use]
    pub fn methods(mut self, methods: impl Into<MethodRequest>) -> Self {
        self.methods = Some(methods.into());
        self
    }

    /// These options with [`range`](#structfield.range) set.
    #[must_use]
    pub fn range(mut self, range: TargetRange) -> Self {
        self.range = range;
        self
    }

    /// These options with [`accountant`](#structfield.accountant) set.
    #[must_use]
    pub fn accountant(mut self, accountant: impl Into<Option<&'static dyn Accountant>>) -> Self {
        self.accountant = accountant.into();
        self
    }
}

/// A matrix of bounded rows as a fit learns from it: settled by public facts. Its rows are here, or in remote partitions; it may be run any number of times.
#[derive(Clone)]
pub struct BoundedMatrix {
    pub(super) facts: MatrixFacts,
    pub(super) target: Target,
    /// Range of a number that is predicted; the default where it is to be found.
    known: TargetRange,
    run: RunOptions,
    neighbours: Neighbours,
    budget: Budget,
    budget_split: BudgetSplit,
    registry: Registry,
    options: MethodOptions,
    accountant: Option<&'static dyn Accountant>,
    /// The target's range is found before the model.
    range: Option<PrivateBounds>,
    /// By number of classes, and whether all methods are compared: plans depend on public facts only.
    plans: Arc<Mutex<BTreeMap<(usize, bool), Arc<Planned>>>>,
}

/// The records of a matrix.
pub enum MatrixRecords {
    /// Rows that are here. Targets are numbers, or places of classes; one that is not a number is that of no record, and its row is empty.
    Here {
        /// The rows and their targets.
        records: Bounded,
        /// Where labels are to be found: the targets are places among those that occur.
        labels: Option<Labels>,
        /// The owners of the rows, where units were planned for.
        owners: Option<RowOwners>,
    },
    /// Rows in partitions: [`Shard`](super::Shard)s of them, each asked by its number for sums. Where units were planned for, each has all of its rows in one.
    Partitions {
        /// What sends aggregate queries to the partitions.
        parts: Arc<dyn Partitions>,
        /// How many records each has, and their digest.
        known: Vec<(u64, u64)>,
        /// How a unit is called, if units were planned for.
        owner: Option<String>,
    },
}

/// Labels that are to be found.
#[derive(Clone, Debug)]
pub struct Labels {
    /// For each that occurs where it stands in the order of classes, which may depend on what the labels are and on nothing else.
    pub rank: Vec<usize>,
}

/// What a run of a matrix keeps between its stages.
pub struct MatrixState {
    records: MatrixRecords,
    /// Which rows count before the model: one of each unit.
    counted: Vec<bool>,
    /// Rows and targets as the models read them, once they are settled.
    settled: Option<Bounded>,
    owned: Option<Owned>,
    named: Option<(String, bool)>,
    found: Found,
}

/// What was settled of the target.
#[derive(Clone, Debug, Default)]
struct Found {
    labels: Option<Vec<usize>>,
    range: Option<(f64, f64)>,
    clip: Option<TargetClip>,
    /// What was done with the target, as text.
    note: Option<String>,
}

impl Found {
    /// The target is clipped to `range`, of which `how` says where it comes from.
    fn clipped(&mut self, range: Option<(f64, f64)>, how: &str) {
        self.range = range;
        self.note =
            range.map(|(lower, upper)| format!("The target is clipped to [{}, {}]{how}.", Shown(lower), Shown(upper)));
    }
}

/// What a fit of a matrix releases.
pub struct MatrixFitted {
    /// The plan of the fit, with all methods that were compared.
    pub planned: Arc<Planned>,
    /// Released weights, one solution per model.
    pub solutions: Vec<Solution>,
    /// The privacy guarantee of all stages together.
    pub guarantee: Guarantee,
    /// What each stage released, in order.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// Time that planning took.
    pub planning: Duration,
    /// The places of labels that were found, in the order of classes.
    pub labels: Option<Vec<usize>>,
    /// The range that targets were clipped to, where it was not their own.
    pub range: Option<(f64, f64)>,
    /// Where the target was clipped, if a moment of it said so.
    pub clip: Option<TargetClip>,
    /// What was done with the target before the model, as text.
    pub note: Option<String>,
}

impl BoundedMatrix {
    /// Checks values of options, and the budget. What an option means for a method the plan says.
    pub(super) fn new(
        facts: MatrixFacts,
        target: Target,
        run: RunOptions,
        asked: MatrixOptions,
    ) -> Result<Self, FitError> {
        let MethodRequest { registry, options } = asked.methods.unwrap_or_else(|| MethodOptions::default().into());
        let budget = run.budget(facts.protected())?;
        registry.check_values(&options)?;
        facts.units.map_or(Ok(()), |units| units.check("units", run.relation))?;
        if options.remote {
            may_be_remote(&facts, target, asked.range)?;
        }
        let neighbours = facts.neighbours(run.relation);
        // of a unit with several rows one is counted
        let counted = facts.protected();
        if let Target::Number(loss) = target {
            match asked.range {
                TargetRange::Known(lower, _) => target_range::check(loss, lower)?,
                TargetRange::Moment(_) => target_range::without_moment(loss)?,
                TargetRange::Found | TargetRange::Scaled => {}
            }
        }
        let share = match (asked.range, target) {
            (TargetRange::Found, Target::Classes { .. }) => {
                return Err(FitError::Option("classes have no range; it is that of a number".into()));
            }
            // clipped to [-1, 1] counts are nothing: the least share is refused with the number of rows that would do
            (TargetRange::Found, Target::Number(Loss::Poisson { .. })) => {
                Some(target_range::share(budget, neighbours, counted))
            }
            (TargetRange::Found, _) => target_range::enough(budget, neighbours, counted),
            _ => None,
        };
        let shares = StageShares { bounds: share, ..StageShares::default() };
        let budget_split = BudgetSplit::new(budget, shares, target.finds_labels(), share.is_some())?;
        let terms = budget_split.bounds.map(|part| neighbours.within(part));
        let range = terms.map(|terms| PrivateBounds::plan(1, counted, terms)).transpose()?;
        Ok(Self {
            facts,
            target,
            known: asked.range,
            run,
            neighbours,
            budget,
            budget_split,
            registry,
            options,
            accountant: asked.accountant,
            range,
            plans: Arc::default(),
        })
    }

    /// This fit with all that was planned, charged to `payer` and with noise of its own.
    pub(super) fn paid_by(&self, payer: Payer, insecure_seed: Option<u64>) -> Self {
        let run = RunOptions { payer, insecure_seed, ..self.run.clone() };
        Self { run, ..self.clone() }
    }

    /// Whether the target's range is found before the model.
    pub fn finds_range(&self) -> bool {
        self.range.is_some()
    }

    /// Refuses rows whose owners are not what was planned for.
    fn owned(&self, owners: Option<&RowOwners>, rows: u64) -> Result<(), FitError> {
        match (self.facts.units, owners) {
            (None, None) => Ok(()),
            (Some(units), Some(owners)) if owners.are_shared() != units.kept.is_some() => Err(FitError::Option(
                "the plan and the data differ in whether a row may have several owners; plan \
                                      again for these data"
                    .into(),
            )),
            (Some(_), Some(owners)) if owners.rows() == rows => Ok(()),
            (Some(_), Some(_)) => Err(FitError::Option(
                "the number of owners differs from the number of rows; give \
                                                        one owner for each row"
                    .into(),
            )),
            (Some(_), None) => Err(FitError::Option("this fit protects units; give the unit of each row".into())),
            (None, Some(_)) => {
                Err(FitError::Option("this fit protects rows, and units were given; plan it for units".into()))
            }
        }
    }

    /// The range that targets are clipped to, where public facts and the plan say it, and where a moment does.
    fn public_range(&self, planned: &Planned) -> Result<(Option<(f64, f64)>, Option<TargetClip>), FitError> {
        match self.known {
            _ if matches!(self.target, Target::Classes { .. }) => Ok((None, None)),
            TargetRange::Scaled => Ok((None, None)),
            TargetRange::Known(lower, upper) => Ok((Some((lower, upper)), None)),
            // so few that nothing is found
            TargetRange::Found => Ok((Some((-1.0, 1.0)), None)),
            TargetRange::Moment(moment) => {
                // what clipping takes from the mean balances with what noise is planned to move predictions by
                let risk = planned.plan().map_or(f64::NAN, |plan| plan.summary().predicted_excess_risk);
                let clip = TargetClip::balanced(moment, risk);
                Ok((Some(clip.map_or((-1.0, 1.0), |clip| clip.range())), clip))
            }
        }
    }

    /// Which of the labels that occur, `counts` times each, are frequent enough.
    fn frequent(counts: Vec<u64>, plan: &LabelSelection, curator: &mut Curator) -> Result<Vec<usize>, FitError> {
        // sorted by name is by place; a label that only rows have which do not count is not there
        let named = |(place, count): (usize, u64)| (count > 0).then(|| (format!("{place:020}"), count));
        let counts = Sensitive::new(counts.into_iter().enumerate().filter_map(named).collect::<BTreeMap<_, u64>>());
        let found = curator.release(plan, &counts).map_err(RunError::from)?.into_inner();
        Ok(found.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Units without rows have a place all the same, where their number is public.
    fn places(&self, known: &[(u64, u64)]) -> Option<usize> {
        let counted = known.iter().map(|part| part.0).sum::<u64>();
        self.facts.units.map(|units| match self.neighbours.relation {
            Relation::AddOrRemove => counted as usize,
            Relation::ZeroOut | Relation::ReplaceOne => units.count.max(counted) as usize,
        })
    }
}

impl Source for BoundedMatrix {
    type Records = MatrixRecords;
    type State<'a> = MatrixState;
    type Answer = MatrixFitted;

    fn run_options(&self) -> &RunOptions {
        &self.run
    }

    fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    fn budget(&self) -> Budget {
        self.budget
    }

    fn budget_split(&self) -> &BudgetSplit {
        &self.budget_split
    }

    fn target(&self) -> Target {
        self.target
    }

    fn ranges(&self) -> Result<Option<PrivateBounds>, FitError> {
        Ok(self.range.clone())
    }

    fn plan(&self, classes: usize, compare: bool) -> Result<Arc<Planned>, FitError> {
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = plans().get(&(classes, compare)) {
            return Ok(planned.clone());
        }
        let (loss, models) = self.target.models(classes);
        let problem = self.facts.problem(loss, self.neighbours);
        let problem = match self.facts.units {
            Some(units) => units.pooled(problem),
            None => problem,
        };
        let declared_range = matches!(self.known, TargetRange::Known(..) | TargetRange::Scaled);
        let mut options = self.options.clone();
        options.declared_range = declared_range;
        // not under the lock: planning runs in parallel
        let planned = Arc::new(Planned::new(problem, models, &self.budget_split, (&self.registry, &options), compare)?);
        plans().insert((classes, compare), planned.clone());
        Ok(planned)
    }

    /// A report that wants the others plans them.
    fn compares(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        self.run.command.clone().unwrap_or_else(|| "fit".into())
    }

    fn check(&self, certificates: &[&Certificate], records: &MatrixRecords) -> Result<(), FitError> {
        if let Some(accountant) = self.accountant {
            certificates.iter().try_for_each(|certificate| accounted(accountant, certificate))?;
        }
        match records {
            MatrixRecords::Here { .. } if self.options.remote => Err(FitError::Option(
                "this fit was planned for remote records, and got rows in memory; plan it for \
                                      these"
                    .into(),
            )),
            MatrixRecords::Here { records, labels, owners } => {
                if labels.is_some() != self.target.finds_labels() {
                    return Err(FitError::Option(
                        "the plan and the data differ in whether classes are declared; plan \
                                                 again for these data"
                            .into(),
                    ));
                }
                self.owned(owners.as_ref(), records.targets.len() as u64)
            }
            MatrixRecords::Partitions { .. } if !self.options.remote => Err(FitError::Option(
                "this fit was planned for rows in memory, and got remote records; plan it for \
                                      these"
                    .into(),
            )),
            MatrixRecords::Partitions { owner, .. } if owner.is_some() != self.facts.units.is_some() => {
                Err(FitError::Option(
                    "the plan and the partitions differ in whether units are given; plan again for \
                                      these data"
                        .into(),
                ))
            }
            MatrixRecords::Partitions { .. } => Ok(()),
        }
    }

    fn rests_on(&self) -> Evidence {
        DECLARED
    }

    fn stream(&self, stage: StageKind, _: u64) -> u64 {
        match stage {
            StageKind::Labels => LABELS,
            StageKind::Ranges => RANGE,
            StageKind::Model(k) => k as u64,
        }
    }

    fn begin(&self, records: MatrixRecords) -> Result<MatrixState, FitError> {
        let finds = self.range.is_some() || self.target.finds_labels();
        let counted = match &records {
            MatrixRecords::Here { owners: Some(owners), .. } if finds => {
                owners.one_row_of_each(&mut units::coins(self.run.insecure_seed)?)
            }
            _ => Vec::new(),
        };
        Ok(MatrixState { records, counted, settled: None, owned: None, named: None, found: Found::default() })
    }

    fn find_labels(
        &self,
        state: &mut MatrixState,
        plan: &LabelSelection,
        curator: &mut Curator,
    ) -> Result<usize, FitError> {
        // checked before
        let MatrixRecords::Here { records, labels: Some(labels), .. } = &state.records else {
            return Err(FitError::Option("the classes are declared already".into()));
        };
        let mut counts = vec![0; labels.rank.len()];
        for (place, _) in counting(&records.targets, &state.counted) {
            // of a target that is not a number there is none
            if place >= 0.0
                && let Some(count) = counts.get_mut(place as usize)
            {
                *count += 1;
            }
        }
        let mut found = Self::frequent(counts, plan, curator)?;
        found.sort_by_key(|&place| labels.rank[place]);
        let count = found.len();
        state.found.labels = Some(found);
        Ok(count)
    }

    fn find_ranges(
        &self,
        state: &mut MatrixState,
        plan: &PrivateBounds,
        curator: &mut Curator,
    ) -> Result<(), FitError> {
        let counts = match &state.records {
            MatrixRecords::Here { records, .. } => {
                let values = counting(&records.targets, &state.counted).map(|(value, _)| value);
                Sensitive::new(BelowCounts::of_columns([values]))
            }
            MatrixRecords::Partitions { parts, known, .. } => {
                let targets = Sensitive::new(remote_numbers(parts.clone(), known.clone(), 1));
                below_counts(&targets, 1).map_err(CuratorError::from).map_err(RunError::from)?
            }
        };
        let found = plan.run(&counts, curator).map_err(RunError::from)?.into_inner();
        // that there is none is itself a released outcome, so it may be told
        let range = found.first().copied().flatten();
        let range = range.ok_or_else(|| no_range("the target", Step::DeclareTargetRange))?;
        let range = match self.target {
            Target::Number(loss) => target_range::of_found(loss, range),
            Target::Classes { .. } => range,
        };
        state.found.clipped(Some(range), ", found privately");
        Ok(())
    }

    fn settle(&self, state: &mut MatrixState, planned: &Planned) -> Result<Evidence, FitError> {
        if state.found.range.is_none() {
            let (range, clip) = self.public_range(planned)?;
            state.found.clipped(range, "");
            if let Some(clip) = clip {
                state.found.note = Some(clip.in_words());
                state.found.clip = Some(clip);
            }
        }
        let placeholder = MatrixRecords::Here {
            records: Bounded { rows: Rows::new(0), targets: Vec::new() },
            labels: None,
            owners: None,
        };
        match std::mem::replace(&mut state.records, placeholder) {
            MatrixRecords::Here { mut records, owners, .. } => {
                if let Some(found) = &state.found.labels {
                    let class = |place: f64| found.iter().position(|found| *found as f64 == place);
                    let class = |place: f64| class(place).map_or(f64::NAN, |class| class as f64);
                    records = records.read_as(class);
                } else if let Some(range) = state.found.range {
                    let view = View { loss: Loss::Squared, against: None, range: None };
                    records = records.read_as(|given| view.within(Some(range)).scaled(given));
                }
                let positions = owners.as_ref().filter(|owners| !owners.are_shared()).map(RowOwners::positions);
                if let Some(units) = positions.transpose().map_err(|why| FitError::Option(why.to_string().into()))? {
                    records = records.by_content(&units);
                }
                state.named = owners.as_ref().map(|owners| (owners.column(), owners.are_shared()));
                let relation = self.neighbours.relation;
                state.owned = owners.zip(self.facts.units).map(|(owners, units)| {
                    let most = units.kept.map(|kept| kept.most).or(units.most_rows);
                    Owned::of(&units::placed(owners, units.count, relation), most)
                });
                state.settled = Some(records);
            }
            partitions @ MatrixRecords::Partitions { .. } => {
                if let MatrixRecords::Partitions { owner, .. } = &partitions {
                    state.named = owner.as_ref().map(|owner| (owner.clone(), false));
                }
                state.records = partitions;
            }
        }
        Ok(Evidence::Enforced)
    }

    fn fit(
        &self,
        state: &mut MatrixState,
        planned: &Planned,
        k: usize,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Solution, FitError> {
        let (plan, read) = (planned.plan()?, View::of(planned, k));
        if let MatrixRecords::Partitions { parts, known, .. } = &state.records {
            let rows = RemoteRecords::new(parts.clone(), known.clone(), self.facts.features, self.facts.row_norm);
            let rows = rows.read_as(QueryTarget::Model(read.within(state.found.range)).to_bytes());
            let released = match self.places(known) {
                None => plan.run_remote(Run::new(plan.problem(), &Sensitive::new(rows), curator, progress)?)?,
                Some(count) => {
                    let units = Sensitive::new(Units::remote(rows, count));
                    plan.run_remote_units(Run::new(plan.problem(), &units, curator, progress)?)?
                }
            };
            return Ok(released.into_inner());
        }
        // settled before
        let Some(records) = &mut state.settled else { return Err(FitError::Option("nothing is settled".into())) };
        let last = k + 1 == planned.models;
        let rows = if last { std::mem::replace(&mut records.rows, Rows::new(0)) } else { records.rows.clone() };
        let targets = records.targets.iter().map(|&given| read.target(given)).collect();
        let examples = Encoded::Memory(Examples { rows, targets });
        Ok(units::run(plan, examples, state.owned.as_ref(), curator, progress)?)
    }

    fn units(&self, state: &MatrixState) -> Option<(String, bool)> {
        state.named.clone()
    }

    fn answer(&self, state: MatrixState, taken: Taken) -> Result<MatrixFitted, FitError> {
        let Taken { planned, solutions, closed: Closed { guarantee, releases, .. }, planning } = taken;
        let Found { labels, range, clip, note } = state.found;
        let guarantee = match self.accountant {
            None => guarantee,
            Some(by) => guarantee.accounted_by(by).map_err(|why| FitError::Option(why.to_string().into()))?,
        };
        Ok(MatrixFitted { planned, solutions, guarantee, releases, planning, labels, range, clip, note })
    }
}

/// Targets of the records that count: all, or those that `counted` marks.
fn counting<'a>(targets: &'a [f64], counted: &'a [bool]) -> impl Iterator<Item = (f64, usize)> + 'a {
    let all = targets.iter().copied().zip(0..);
    all.filter(|(_, i)| counted.is_empty() || counted[*i])
}

/// Refuses what is not done with parts.
fn may_be_remote(facts: &MatrixFacts, target: Target, range: TargetRange) -> Result<(), FitError> {
    let refuse = |why: &'static str| Err(FitError::Option(why.into()));
    match facts.units {
        _ if target.finds_labels() => refuse(
            "the classes are not declared, and remote records need them before the first pass; declare the classes",
        ),
        Some(_) if range == TargetRange::Found => refuse(
            "the target has no declared range, and finding one takes a secret choice of one row per unit, which \
             remote records cannot make; declare the range",
        ),
        Some(units) if units.kept.is_some() => refuse(
            "rows have several owners here, and which of them are kept depends on all partitions; fit the table in \
             one place",
        ),
        Some(units) if units.most_rows.is_some() || units.clipping == UnitClipping::Row => refuse(
            "a bound on the rows of a unit takes a secret choice of rows, which remote records cannot make; leave \
             the bound out: a unit is clipped as a whole, whatever its number of rows",
        ),
        _ => Ok(()),
    }
}

/// Refuses a certificate that an accountant has no bound for.
pub(super) fn accounted(accountant: &dyn Accountant, certificate: &Certificate) -> Result<(), FitError> {
    let bound = accountant.epsilon(certificate.event(), certificate.relation(), certificate.budget().delta());
    bound.map(drop).map_err(|why| FitError::Option(why.to_string().into()))
}

#[cfg(test)]
mod tests;
