//! Linear models of rows that are numbers in memory already: public facts → plan → charge → labels, range → models → guarantee. The road
//! of every estimator of the Python package.

use super::division::{Division, StageShares};
use super::error::FitError;
use super::options::MethodRequest;
use super::parts::{Asked, View, numbers_elsewhere};
use super::prepare::no_range;
use super::scheme::{Planned, Scheme, Target};
use super::target_range;
use super::units::{self, Owned, UnitClipping, UnitFacts};
use crate::guarantee::Guarantee;
use crate::moment::{Moment, TargetClip};
use crate::session::{Account, Closed, Opening, Session, StageFacts, default_delta};
use dpopt_data::RowOwners;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, CuratorError, LabelSelection, PrivateBounds, ReleaseRecord, Sensitive, below_counts};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Warrant;
use dpopt_objective::records::{BelowCounts, Bounded, Elsewhere, Encoded, Examples, Parts, Rows, Units};
use dpopt_optimize::plan::Problem;
use dpopt_optimize::{MethodOptions, Registry, Run, RunError, Solution};
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, accountant::Accountant};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stream of the noise that labels are found with; the models have those from 0 on.
const LABELS: u64 = 1 << 20;
/// And of that a target's range is found with.
const RANGE: u64 = LABELS + 1;

/// What every stage rests on besides its plan: bounds, classes and row norms are told, and do not come from the records.
pub(super) const DECLARED: Warrant = Warrant::Public;

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
            before: None,
            calibrated: None,
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

/// A fit of linear models to bounded rows, to be explained or run, any number of times.
pub struct MatrixFit {
    facts: MatrixFacts,
    target: Target,
    neighbours: Neighbours,
    budget: Budget,
    division: Division,
    registry: Registry,
    options: MethodOptions,
    /// The target's range is found before the model.
    range: Option<PrivateBounds>,
    /// By number of classes, and whether all methods are compared: plans depend on public facts only.
    plans: Mutex<BTreeMap<(usize, bool), Arc<Planned>>>,
}

/// A fit whose charge is written down.
pub struct MatrixRun {
    fit: Arc<MatrixFit>,
    labels: Option<LabelSelection>,
    range: Option<PrivateBounds>,
    /// What runs, if it does not wait for labels.
    early: Option<Arc<Planned>>,
    session: Session,
    accountant: Option<&'static dyn Accountant>,
    planning: Duration,
    insecure_seed: Option<u64>,
}

/// What a fit releases.
pub struct MatrixFitted {
    /// What was planned.
    pub planned: Arc<Planned>,
    /// One per model.
    pub solutions: Vec<Solution>,
    /// Of all stages.
    pub guarantee: Guarantee,
    /// What each stage released, in order.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// Time that planning took.
    pub planning: Duration,
}

impl MatrixFit {
    /// Checks values of options, and the budget; δ is 1/n^1.1 for n units of privacy, at most 0.01, unless it is given. What an option
    /// means for a method the plan says.
    ///
    /// # Errors
    /// If ε, δ or an option is out of range, no method has the name, or there are fewer than two units.
    pub fn new(
        facts: MatrixFacts,
        target: Target,
        relation: Relation,
        (epsilon, delta): (f64, Option<f64>),
        methods: impl Into<MethodRequest>,
    ) -> Result<Self, FitError> {
        let MethodRequest { registry, options } = methods.into();
        let budget = Budget::new(epsilon, delta.unwrap_or_else(|| default_delta(facts.protected())))?;
        registry.check_values(&options)?;
        facts.units.map_or(Ok(()), |units| units.check("units", relation))?;
        if options.elsewhere {
            may_be_elsewhere(&facts, target)?;
        }
        let division = Division::new(budget, StageShares::default(), target.finds_labels(), false)?;
        let neighbours = facts.neighbours(relation);
        Ok(Self {
            facts,
            target,
            neighbours,
            budget,
            division,
            registry,
            options,
            range: None,
            plans: Mutex::default(),
        })
    }

    /// The same, and before the model the range of a number that is predicted is found privately, for the first of 5, 10, 20 and 30 % of ε that is enough for
    /// so many units; unchanged where none is, which is decided by public numbers.
    ///
    /// # Errors
    /// If classes are predicted.
    pub fn finding_range(self) -> Result<Self, FitError> {
        if matches!(self.target, Target::Classes { .. }) {
            return Err(FitError::Option("classes have no range; it is that of a number".into()));
        }
        // of a unit with several rows one is counted
        let counted = self.facts.protected();
        let Some(share) = target_range::enough(self.budget, self.neighbours, counted) else { return Ok(self) };
        let shares = StageShares { bounds: Some(share), ..StageShares::default() };
        let division = Division::new(self.budget, shares, false, true)?;
        let terms = division.bounds.map(|part| self.neighbours.within(part));
        let range = terms.map(|terms| PrivateBounds::plan(1, counted, terms)).transpose()?;
        Ok(Self { division, range, ..self })
    }

    /// Whether the target's range is found before the model.
    pub fn finds_range(&self) -> bool {
        self.range.is_some()
    }

    /// Refuses rows whose owners are not what was planned for.
    fn owned(&self, owners: Option<&RowOwners>, rows: u64) -> Result<(), FitError> {
        match (self.facts.units, owners) {
            (None, None) => Ok(()),
            (Some(units), Some(owners)) if owners.are_shared() != units.kept.is_some() => {
                Err(FitError::Option("whether a row may have several owners is not what was planned for".into()))
            }
            (Some(_), Some(owners)) if owners.rows() == rows => Ok(()),
            (Some(_), Some(_)) => Err(FitError::Option("the owners are those of other rows; give one for each".into())),
            (Some(_), None) => Err(FitError::Option("this fit protects units; say whose each row is".into())),
            (None, Some(_)) => Err(FitError::Option("this fit protects rows; plan it for units that own them".into())),
        }
    }

    /// What the whole run may spend.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Plans the models of `classes` classes (any number where a number is predicted), beside a method that is asked for by name
    /// all others. Reads no record.
    ///
    /// # Errors
    /// If the budget cannot be shared among so many.
    pub fn explain(&self, classes: usize) -> Result<Arc<Planned>, FitError> {
        self.plan(classes, true)
    }

    /// The plan that a run with `classes` classes follows.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn planned(&self, classes: usize) -> Result<Arc<Planned>, FitError> {
        self.plan(classes, false)
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
        // not under the lock: planning runs in parallel
        let planned =
            Arc::new(Planned::new(problem, models, &self.division, (&self.registry, &self.options), compare)?);
        plans().insert((classes, compare), planned.clone());
        Ok(planned)
    }

    /// Plans, then charges the account: the last that happens before a record counts. The guarantee is accounted by `accountant`
    /// if one is given, by the tightest otherwise.
    ///
    /// # Errors
    /// If no method applies, the accountant has no bound for what is planned, a seed comes with an account, there is no
    /// randomness, or the account refuses.
    pub fn open(
        self: Arc<Self>,
        run: &str,
        account: Option<Box<dyn Account>>,
        insecure_seed: Option<u64>,
        accountant: Option<&'static dyn Accountant>,
    ) -> Result<MatrixRun, FitError> {
        let started = Instant::now();
        let scheme =
            Scheme::new(self.target, &self.division, self.neighbours, self.range.clone(), |k| self.planned(k))?;
        if let Some(accountant) = accountant {
            // models of classes that are to be found are like those of two
            let model = &scheme.planned.plan()?.summary().certificate;
            let found = scheme.labels.iter().map(LabelSelection::certificate);
            let found = found.chain(scheme.bounds.iter().map(PrivateBounds::certificate));
            for certificate in found.chain([model]) {
                accounted(accountant, certificate)?;
            }
        }
        let planning = started.elapsed();
        let opening = Opening::new(self.neighbours.within(self.budget), account, insecure_seed)?;
        let session = opening.charge(run, &scheme.parts())?;
        let (early, labels, range) = (scheme.early(), scheme.labels, scheme.bounds);
        Ok(MatrixRun { early, labels, range, session, accountant, planning, insecure_seed, fit: self })
    }
}

impl MatrixRun {
    fn spent(charged: bool, error: FitError) -> FitError {
        if charged { FitError::Spent(Box::new(error)) } else { error }
    }

    /// Which of the labels that occur are frequent enough to be known: their places. `places` has that of each row's label below
    /// `occurring`, and any other number where a row has none; of a unit with several rows one is counted, any of them as likely as
    /// any other.
    ///
    /// # Errors
    /// If the labels were declared, too few are frequent enough, or there are units and nobody says whose the rows are.
    pub fn find_labels(
        &mut self,
        places: &[i64],
        occurring: usize,
        owners: Option<&RowOwners>,
    ) -> Result<Vec<usize>, FitError> {
        let counted = self.counted(places.len(), owners)?;
        let mut counts = vec![0; occurring];
        for (place, _) in places.iter().zip(counted).filter(|(_, counted)| *counted) {
            if let Some(count) = usize::try_from(*place).ok().and_then(|place| counts.get_mut(place)) {
                *count += 1;
            }
        }
        self.frequent_labels(counts)
    }

    /// Which rows what is counted before the model sees: all, or one of each unit, any of them as likely as any other.
    fn counted(&self, rows: usize, owners: Option<&RowOwners>) -> Result<Vec<bool>, FitError> {
        self.fit.owned(owners, rows as u64)?;
        match owners {
            Some(owners) => Ok(owners.one_row_of_each(&mut units::coins(self.insecure_seed)?)),
            None => Ok(vec![true; rows]),
        }
    }

    /// A range that holds nearly all targets; what is not a number counts nowhere.
    ///
    /// # Errors
    /// If it was not planned for, no range could be found, or there are units and nobody says whose the rows are.
    pub fn find_range(&mut self, targets: &[f64], owners: Option<&RowOwners>) -> Result<(f64, f64), FitError> {
        let counted = self.counted(targets.len(), owners)?;
        self.range_of(|| {
            let values = targets.iter().zip(counted).filter(|(_, counted)| *counted).map(|(value, _)| *value);
            Ok(Sensitive::new(BelowCounts::of_columns([values])))
        })
    }

    /// The range that `counts` show.
    fn range_of(
        &mut self,
        counts: impl FnOnce() -> Result<Sensitive<BelowCounts>, FitError>,
    ) -> Result<(f64, f64), FitError> {
        let plan = self.range.take().ok_or_else(|| FitError::Option("the target's range is known already".into()))?;
        let counts = counts().map_err(|error| Self::spent(self.session.is_charged(), error))?;
        let charged = self.session.is_charged();
        let stage = StageFacts { name: "bounds", rests_on: DECLARED, stream: RANGE };
        let found = self
            .session
            .stage::<_, FitError>(stage, plan.certificate(), |curator| {
                Ok(plan.run(&counts, curator).map_err(RunError::from)?.into_inner())
            })
            .map_err(|error| Self::spent(charged, error))?;
        let range = found.first().copied().flatten();
        // that there is none is itself a released outcome, so it may be told
        range.ok_or_else(|| Self::spent(charged, no_range("the target", "tell its range, or a moment of it")))
    }

    /// The same of targets that are elsewhere, in parts as [`fit_elsewhere`](Self::fit_elsewhere) takes them, each row a unit of its own.
    ///
    /// # Errors
    /// As there, if units were planned for, or a part can't be asked.
    pub fn find_range_elsewhere(
        &mut self,
        parts: &Arc<dyn Parts>,
        known: &[(u64, u64)],
    ) -> Result<(f64, f64), FitError> {
        self.fit.owned(None, 0)?;
        self.range_of(|| {
            let targets = Sensitive::new(numbers_elsewhere(parts.clone(), known.to_vec(), 1));
            Ok(below_counts(&targets, 1).map_err(CuratorError::from).map_err(RunError::from)?)
        })
    }

    /// Whether the target's range is to be found.
    pub fn finds_range(&self) -> bool {
        self.range.is_some()
    }

    /// Where a target of this moment is clipped: what that takes from its mean balances with what noise is planned to move predictions by. `None` where the
    /// moment says nothing of a scale.
    pub fn target_clip(&self, moment: Moment) -> Option<TargetClip> {
        let planned =
            self.early.as_ref().and_then(|planned| Some(planned.plan().ok()?.summary().predicted_excess_risk));
        TargetClip::balanced(moment, planned.unwrap_or(f64::NAN))
    }

    /// The same of labels that occur so many times each.
    fn frequent_labels(&mut self, counts: Vec<u64>) -> Result<Vec<usize>, FitError> {
        let charged = self.session.is_charged();
        let plan = self.labels.take().ok_or_else(|| FitError::Option("the classes are known already".into()))?;
        // sorted by name is by place; a label that only rows have which do not count is not there
        let named = |(place, count): (usize, u64)| (count > 0).then(|| (format!("{place:020}"), count));
        let counts = Sensitive::new(counts.into_iter().enumerate().filter_map(named).collect::<BTreeMap<_, u64>>());
        let stage = StageFacts { name: "labels", rests_on: DECLARED, stream: LABELS };
        let found = self
            .session
            .stage::<_, FitError>(stage, plan.certificate(), |curator| {
                Ok(curator.release(&plan, &counts).map_err(RunError::from)?.into_inner())
            })
            .map_err(|error| Self::spent(charged, error))?;
        Ok(found.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Fits the models. Targets of classes are their places from 0 to below `classes`; a record of another class, or without a
    /// target, is an empty row with a target that is not a number. `owners` say whose the rows are, where units were planned for.
    ///
    /// # Errors
    /// If no method applies to so many classes, a run fails, or owners were planned for and are not given, or the other way round.
    /// What was charged stays charged.
    pub fn fit(self, records: Bounded, classes: usize, owners: Option<&RowOwners>) -> Result<MatrixFitted, FitError> {
        let charged = self.session.is_charged();
        let fit = self.fit.clone();
        let fitted = || {
            fit.owned(owners, records.targets.len() as u64)?;
            let positions = owners.filter(|owners| !owners.are_shared()).map(RowOwners::positions).transpose();
            let records = match positions.map_err(|why| FitError::Option(why.to_string()))? {
                Some(units) => records.by_content(&units),
                None => records,
            };
            let Bounded { mut rows, targets } = records;
            let named = owners.map(|owners| (owners.column(), owners.are_shared()));
            let relation = fit.neighbours.relation;
            let owned = owners.zip(fit.facts.units).map(|(owners, units)| {
                let most = units.kept.map(|kept| kept.most).or(units.most_rows);
                Owned::of(&units::placed(owners.clone(), units.count, relation), most)
            });
            self.models(classes, named, |planned, k, curator| {
                let last = k + 1 == planned.models;
                let rows = if last { std::mem::replace(&mut rows, Rows::new(0)) } else { rows.clone() };
                let read = View::of(planned, k);
                let targets = targets.iter().map(|&given| read.target(given)).collect();
                let examples = Encoded::Memory(Examples { rows, targets });
                Ok(units::run(planned.plan()?, examples, owned.as_ref(), curator, &Silent)?)
            })
        };
        fitted().map_err(|error| Self::spent(charged, error))
    }

    /// The same of rows that are elsewhere, in parts of which is `known` how many records each has, and their digest: [`Shard`](super::Shard)s of the rows and targets that this was planned for, each asked by
    /// its number for sums. Where units were planned for, `owner` is how one is called, and each has all of its rows in one part. Targets are numbers within `range`, if
    /// that was found after the parts were made.
    ///
    /// # Errors
    /// If the fit was not planned for such rows, no method applies, or a part is lost or changes. What was charged stays charged.
    pub fn fit_elsewhere(
        self,
        parts: &Arc<dyn Parts>,
        known: &[(u64, u64)],
        classes: usize,
        owner: Option<&str>,
        range: Option<(f64, f64)>,
    ) -> Result<MatrixFitted, FitError> {
        let charged = self.session.is_charged();
        let (facts, told) = (self.fit.facts, self.fit.options.elsewhere);
        let counted = known.iter().map(|part| part.0).sum::<u64>();
        // units without rows have a place all the same, where their number is public
        let placed = facts.units.map(|units| match self.fit.neighbours.relation {
            Relation::AddOrRemove => counted as usize,
            Relation::ZeroOut | Relation::ReplaceOne => units.count.max(counted) as usize,
        });
        let fitted = || {
            if !told {
                return Err(FitError::Option("this fit was planned for rows that are here".into()));
            }
            if owner.is_some() != facts.units.is_some() {
                return Err(FitError::Option("whether the parts hold units is not what was planned for".into()));
            }
            let named = owner.map(|owner| (owner.to_string(), false));
            self.models(classes, named, |planned, k, curator| {
                let rows = Elsewhere::new(parts.clone(), known.to_vec(), facts.features, facts.row_norm);
                let rows = rows.read_as(Asked::Model(View::of(planned, k).within(range)).to_bytes());
                let plan = planned.plan()?;
                let released = match placed {
                    None => plan.run_elsewhere(Run::new(plan.problem(), &Sensitive::new(rows), curator, &Silent)?)?,
                    Some(count) => {
                        let units = Sensitive::new(Units::elsewhere(rows, count));
                        plan.run_units_elsewhere(Run::new(plan.problem(), &units, curator, &Silent)?)?
                    }
                };
                Ok(released.into_inner())
            })
        };
        fitted().map_err(|error| Self::spent(charged, error))
    }

    /// All models, each by `run`.
    fn models(
        mut self,
        classes: usize,
        named: Option<(String, bool)>,
        mut run: impl FnMut(&Planned, usize, &mut Curator) -> Result<Solution, FitError>,
    ) -> Result<MatrixFitted, FitError> {
        let started = Instant::now();
        let planned = match &self.early {
            Some(planned) => planned.clone(),
            None => self.fit.planned(classes)?,
        };
        let summary = planned.plan()?.summary();
        let planning = self.planning + started.elapsed();
        let mut solutions = Vec::with_capacity(planned.models);
        for k in 0..planned.models {
            let name = match planned.models {
                1 => "model".to_string(),
                all => format!("model {} of {all}", k + 1),
            };
            let stage = StageFacts { name: &name, rests_on: summary.rests_on().and(DECLARED), stream: k as u64 };
            solutions.push(self.session.stage(stage, &summary.certificate, |curator| run(&planned, k, curator))?);
        }
        let Closed { mut guarantee, releases, .. } = self.session.close();
        guarantee.of_units(named);
        let guarantee = match self.accountant {
            None => guarantee,
            Some(accountant) => guarantee.accounted_by(accountant).map_err(|why| FitError::Option(why.to_string()))?,
        };
        Ok(MatrixFitted { planned, solutions, guarantee, releases, planning })
    }
}

/// Refuses what is not done with parts.
fn may_be_elsewhere(facts: &MatrixFacts, target: Target) -> Result<(), FitError> {
    let refuse = |why: &str| Err(FitError::Option(why.into()));
    match facts.units {
        _ if target.finds_labels() => refuse(
            "which labels occur is not known beforehand, and what a part answers has a public shape; declare the classes",
        ),
        Some(units) if units.kept.is_some() => refuse(
            "a row with several owners is in no unit's mean, and which rows are kept follows from all of them at once; fit the table in one place",
        ),
        Some(units) if units.most_rows.is_some() || units.clipping == UnitClipping::Row => refuse(
            "which rows of a unit are kept is chosen by secret coins, which parts do not have: leave out the bound on its rows; a unit is clipped as one however many it has",
        ),
        _ => Ok(()),
    }
}

/// Refuses a certificate that an accountant has no bound for.
pub(super) fn accounted(accountant: &dyn Accountant, certificate: &Certificate) -> Result<(), FitError> {
    let bound = accountant.epsilon(certificate.event(), certificate.relation(), certificate.budget().delta());
    bound.map(drop).map_err(|why| FitError::Option(why.to_string()))
}

#[cfg(test)]
mod tests;
