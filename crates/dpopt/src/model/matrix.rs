//! Linear models of rows that are numbers in memory already: public facts → plan → charge → labels, range → models → guarantee. The road
//! of every estimator of the Python package.

use super::division::{Division, StageShares};
use super::error::FitError;
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
use dpopt_optimize::{MethodOptions, Run, RunError, Solution, check_values};
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
        options: MethodOptions,
    ) -> Result<Self, FitError> {
        let budget = Budget::new(epsilon, delta.unwrap_or_else(|| default_delta(facts.protected())))?;
        check_values(&options)?;
        facts.units.map_or(Ok(()), |units| units.check("units", relation))?;
        if options.elsewhere {
            may_be_elsewhere(&facts, target)?;
        }
        let division = Division::new(budget, StageShares::default(), target.finds_labels(), false)?;
        let neighbours = facts.neighbours(relation);
        Ok(Self { facts, target, neighbours, budget, division, options, range: None, plans: Mutex::default() })
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
        let planned = Arc::new(Planned::new(problem, models, &self.division, &self.options, compare)?);
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
mod tests {
    use super::super::scheme::ClassLoss;
    use super::super::units::UnitClipping;
    use super::*;
    use crate::session::SessionError;
    use dpopt_data::{Format, ReadOptions, open_bytes};
    use dpopt_objective::records::Bounding;
    use dpopt_privacy::Unit;
    use dpopt_privacy::ledger::{Quote, Receipt};
    use std::num::NonZeroU64;

    const ROWS: usize = 3000;
    const HINGE: ClassLoss = ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 });

    /// Three classes that a line tells apart, every hundredth record without a class.
    fn records() -> Bounded {
        let bounding = Bounding::in_box(vec![-1.0; 2], vec![1.0; 2], 1.0, 0.5, false).unwrap();
        let place = |i: usize| (i % 3) as f64;
        let row = |i: usize| [place(i) - 1.0, if i.is_multiple_of(2) { 0.3 } else { -0.3 }];
        let targets: Vec<f64> = (0..ROWS).map(|i| if i % 100 == 0 { f64::NAN } else { place(i) }).collect();
        bounding.dense((ROWS, 2), row, &targets).unwrap()
    }

    fn fit(target: Target, epsilon: f64) -> Arc<MatrixFit> {
        let facts = MatrixFacts {
            rows: ROWS as u64,
            features: 3,
            nonzeros: 3,
            row_norm: records().rows.norm_bound(),
            units: None,
        };
        let made = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, Some(1e-6)), MethodOptions::default());
        Arc::new(made.unwrap())
    }

    #[test]
    fn classes_are_fitted_one_against_the_rest_within_one_budget() {
        let target = Target::Classes { loss: HINGE, known: Some(3) };
        let run = fit(target, 4.0).open("run", None, Some(1), None).unwrap();
        let fitted = run.fit(records(), 3, None).unwrap();
        assert_eq!((fitted.planned.models, fitted.solutions.len(), fitted.releases.len()), (3, 3, 3));
        let names: Vec<&str> = fitted.guarantee.stages.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["model 1 of 3", "model 2 of 3", "model 3 of 3"]);
        assert!(fitted.guarantee.certified_epsilon <= 4.0 && fitted.guarantee.recompute().faults.is_empty());
        // the middle class is no half space; the outer ones lie on their sides of it
        assert!(fitted.solutions[0].weights[0] < 0.0 && fitted.solutions[2].weights[0] > 0.0);
        // two classes are one model
        let two = fit(Target::Classes { loss: HINGE, known: Some(2) }, 4.0);
        assert_eq!(two.planned(2).unwrap().models, 1);
    }

    #[test]
    fn the_range_of_a_target_is_found_within_its_share_and_the_model_within_the_rest() {
        let fit = Arc::into_inner(fit(Target::Number(Loss::Squared), 4.0)).unwrap().finding_range().unwrap();
        assert!(fit.finds_range() && fit.division.bounds.unwrap().epsilon() == 4.0 * 0.05);
        let mut run = Arc::new(fit).open("run", None, Some(1), None).unwrap();
        let targets: Vec<f64> =
            (0..ROWS).map(|i| if i % 100 == 0 { f64::NAN } else { 500.0 + (i % 50) as f64 }).collect();
        let (lower, upper) = run.find_range(&targets, None).unwrap();
        assert!((400.0..500.0).contains(&lower) && (545.0..650.0).contains(&upper), "{lower} {upper}");
        assert!(run.find_range(&targets, None).is_err(), "found twice");
        let fitted = run.fit(records(), 0, None).unwrap();
        assert_eq!(fitted.guarantee.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["bounds", "model"]);
        assert!(fitted.guarantee.certified_epsilon <= 4.0 && fitted.guarantee.recompute().faults.is_empty());
    }

    #[test]
    fn ranges_of_classes_and_of_few_rows_are_not_looked_for() {
        let classes = Arc::into_inner(fit(Target::Classes { loss: HINGE, known: Some(3) }, 4.0)).unwrap();
        assert!(classes.finding_range().is_err());
        // 30 % of this would need more rows
        let few = Arc::into_inner(fit(Target::Number(Loss::Squared), 0.05)).unwrap().finding_range().unwrap();
        assert!(!few.finds_range() && few.division.bounds.is_none());
        assert!(Arc::new(few).open("run", None, Some(1), None).unwrap().find_range(&[0.0; ROWS], None).is_err());
    }

    #[test]
    fn labels_are_found_within_their_share_and_models_within_the_rest() {
        let target = Target::Classes { loss: HINGE, known: None };
        let mut run = fit(target, 4.0).open("run", None, Some(1), None).unwrap();
        assert_eq!(run.frequent_labels(vec![990, 2, 990, 990]).unwrap(), [0, 2, 3]);
        assert!(run.frequent_labels(vec![990, 990]).is_err(), "found twice");
        let fitted = run.fit(records(), 3, None).unwrap();
        assert_eq!(fitted.guarantee.stages.len(), 4);
        assert!(fitted.guarantee.stages[0].epsilon == 4.0 * 0.05 && fitted.guarantee.certified_epsilon <= 4.0);
        assert!(fitted.guarantee.recompute().faults.is_empty());
        // declared classes are not looked for
        let mut run =
            fit(Target::Classes { loss: HINGE, known: Some(3) }, 4.0).open("run", None, Some(1), None).unwrap();
        assert!(run.frequent_labels(vec![990, 990]).is_err());
    }

    /// Whose the rows are: `persons` in turn, but the first row of ten nobody's.
    fn owners(persons: usize) -> RowOwners {
        let name = |i: usize| if i.is_multiple_of(10) { String::new() } else { format!("p{}", i % persons) };
        let rows: String = (0..ROWS).map(|i| name(i) + ",0\n").collect();
        let table = open_bytes(format!("person,y\n{rows}").into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        RowOwners::read(&*table, "person").unwrap()
    }

    fn fit_by_unit(target: Target, units: UnitFacts, epsilon: f64) -> Result<Arc<MatrixFit>, FitError> {
        let row_norm = records().rows.norm_bound();
        let facts = MatrixFacts { rows: ROWS as u64, features: 3, nonzeros: 3, row_norm, units: Some(units) };
        let made = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, None), MethodOptions::default());
        made.map(Arc::new)
    }

    #[test]
    fn units_are_planned_for_and_run_on() {
        let target = Target::Classes { loss: HINGE, known: Some(3) };
        let owners = owners(301);
        for most_rows in [None, NonZeroU64::new(4)] {
            let units = UnitFacts { count: owners.units(), most_rows, clipping: UnitClipping::Auto, kept: None };
            let fit = fit_by_unit(target, units, 4.0).unwrap();
            assert_eq!(fit.budget().delta(), default_delta(owners.units()));
            let fitted =
                fit.clone().open("run", None, Some(1), None).unwrap().fit(records(), 3, Some(&owners)).unwrap();
            assert_eq!((fitted.guarantee.unit, fitted.guarantee.protected()), (Unit::User, "person"));
            assert!(fitted.guarantee.recompute().faults.is_empty() && fitted.guarantee.certified_epsilon <= 4.0);
            assert!(fitted.solutions[0].weights[0] < 0.0 && fitted.solutions[2].weights[0] > 0.0);
            // without the owners a row would be taken for a unit
            let run = || fit.clone().open("run", None, Some(1), None).unwrap();
            assert!(run().fit(records(), 3, None).is_err());
            assert!(run().find_labels(&vec![0; ROWS], 1, None).is_err());
        }
        let rows = self::fit(target, 4.0).open("run", None, Some(1), None).unwrap();
        assert!(rows.fit(records(), 3, Some(&owners)).is_err(), "planned for rows");
        let few = UnitFacts { count: 1, most_rows: None, clipping: UnitClipping::Auto, kept: None };
        assert!(matches!(fit_by_unit(target, few, 4.0), Err(FitError::Option(why)) if why.starts_with("1 units")));
        // a public number of units is one of places; fewer than have rows are a bug of the caller, who counted them
        let places = UnitFacts { count: 450, most_rows: None, clipping: UnitClipping::Auto, kept: None };
        let run = fit_by_unit(target, places, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
        assert!(run.fit(records(), 3, Some(&owners)).is_ok());
        let other = UnitFacts { count: 7, most_rows: None, clipping: UnitClipping::Auto, kept: None };
        let run = fit_by_unit(target, other, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
        assert!(run.fit(records(), 3, Some(&owners)).is_err());
    }

    /// Parts that are not to be asked.
    struct Unasked;

    impl Parts for Unasked {
        fn ask(&self, _: &[u8]) -> Result<Vec<Vec<u8>>, dpopt_objective::records::PartsFailed> {
            panic!("asked")
        }
    }

    #[test]
    fn a_range_of_units_is_not_found_in_parts_of_rows() {
        let units = UnitFacts { count: ROWS as u64, most_rows: None, clipping: UnitClipping::Auto, kept: None };
        let fit = Arc::into_inner(fit_by_unit(Target::Number(Loss::Squared), units, 4.0).unwrap()).unwrap();
        let mut run = Arc::new(fit.finding_range().unwrap()).open("run", None, Some(1), None).unwrap();
        assert!(run.finds_range());
        let parts: Arc<dyn Parts> = Arc::new(Unasked);
        assert!(matches!(run.find_range_elsewhere(&parts, &[(2000, 0)]), Err(FitError::Option(_))));
        // refused like that, it is still to be found
        assert!(run.finds_range());
    }

    #[test]
    fn a_unit_says_one_label_however_many_rows_it_has() {
        let target = Target::Classes { loss: HINGE, known: None };
        let owners = owners(301);
        let units = UnitFacts { count: owners.units(), most_rows: None, clipping: UnitClipping::Auto, kept: None };
        let found = |place: &dyn Fn(usize) -> i64, owners: &RowOwners, units| {
            let mut run = fit_by_unit(target, units, 4.0).unwrap().open("run", None, Some(1), None).unwrap();
            let places: Vec<i64> = (0..ROWS).map(place).collect();
            run.find_labels(&places, 3, Some(owners))
        };
        // all rows of each person have one label; every third person's is none of the three
        let label = |i: usize| [0, 2, -1][i % 301 % 3];
        assert_eq!(found(&label, &owners, units).unwrap(), [0, 2]);
        // two persons with half of the rows each: as rows, both labels are frequent
        let two = self::owners(2);
        let facts = UnitFacts { count: two.units(), most_rows: None, clipping: UnitClipping::Auto, kept: None };
        assert!(found(&|i| (i % 2) as i64, &two, facts).is_err());
        let mut rows = self::fit(target, 4.0).open("run", None, Some(1), None).unwrap();
        let places: Vec<i64> = (0..ROWS as i64).map(|i| i % 2).collect();
        assert_eq!(rows.find_labels(&places, 2, None).unwrap(), [0, 1]);
    }

    /// What each charge was for.
    struct Book(Arc<Mutex<Vec<(f64, f64)>>>);

    impl Account for Book {
        fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
            Ok(None)
        }

        fn charge(&self, _: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
            self.0.lock().unwrap().push((whole.budget().epsilon(), whole.budget().delta()));
            Ok(None)
        }
    }

    #[test]
    fn the_whole_budget_is_charged_once_and_a_later_error_says_so() {
        let charges = Arc::new(Mutex::new(Vec::new()));
        for known in [Some(3), None] {
            let target = Target::Classes { loss: ClassLoss::Logistic, known };
            let book = Box::new(Book(charges.clone()));
            let run = fit(target, 2.0).open("run", Some(book), None, None).unwrap();
            // rows of another shape than was planned for
            let narrow = Bounding::in_ball(1, 1.0, 0.0).unwrap();
            let narrow = narrow.dense((ROWS, 1), |_| [0.5], &vec![1.0; ROWS]).unwrap();
            assert!(matches!(run.fit(narrow, 3, None), Err(FitError::Spent(_))));
        }
        assert_eq!(*charges.lock().unwrap(), [(2.0, 1e-6), (2.0, 1e-6)]);
    }

    #[test]
    fn what_cannot_run_is_refused_before_the_charge() {
        let charges = Arc::new(Mutex::new(Vec::new()));
        let open = |options: MethodOptions, accountant: Option<&'static dyn Accountant>| {
            let facts = MatrixFacts { rows: 3000, features: 3, nonzeros: 3, row_norm: 1.2, units: None };
            let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
            let fit = MatrixFit::new(facts, target, Relation::ZeroOut, (1.0, None), options)?;
            assert_eq!(fit.budget().delta(), default_delta(3000));
            Arc::new(fit).open("run", Some(Box::new(Book(charges.clone()))), None, accountant).map(drop)
        };
        assert!(matches!(open(MethodOptions::default().by("no-such"), None), Err(FitError::NotApplicable(_))));
        // squared loss only
        let other = MethodOptions::default().by("sufficient-statistics");
        assert!(matches!(open(other, None), Err(FitError::NotApplicable(_))));
        // an accountant without a bound for how labels are found
        let gdp = dpopt_privacy::accountant::all().iter().copied().find(|a| a.name() == "gdp");
        assert!(matches!(open(MethodOptions::default(), gdp), Err(FitError::Option(_))));
        assert!(charges.lock().unwrap().is_empty());
        assert!(open(MethodOptions::default(), None).is_ok());
        assert_eq!(charges.lock().unwrap().len(), 1);
    }

    /// Large ε: the composition of stages leaves no room for the error of finding labels, and the stated budgets add up exactly.
    #[test]
    fn labels_are_found_at_any_epsilon() {
        for (epsilon, delta) in [(30.0, 1e-7), (50.0, 1e-6), (50.0, 1e-9), (300.0, 1e-6)] {
            let facts = MatrixFacts { rows: 3000, features: 3, nonzeros: 3, row_norm: 1.2, units: None };
            let target = Target::Classes { loss: ClassLoss::Logistic, known: None };
            let options = MethodOptions::default();
            let fit = MatrixFit::new(facts, target, Relation::ZeroOut, (epsilon, Some(delta)), options).unwrap();
            assert!(Arc::new(fit).open("run", None, Some(1), None).is_ok(), "{epsilon} {delta}");
        }
    }

    #[test]
    fn targets_are_read_as_the_loss_wants_them() {
        let logistic = Loss::Logistic { shift: 0.0 };
        for (loss, against, given, read) in [
            (logistic, None, 0.0, -1.0),
            (logistic, None, 1.0, 1.0),
            (Loss::Hinge, Some(2), 2.0, 1.0),
            (Loss::Hinge, Some(2), 1.0, -1.0),
            (Loss::Softmax { classes: 4 }, None, 3.0, 3.0),
            (Loss::Squared, None, -0.25, -0.25),
        ] {
            let view = View { loss, against, range: None };
            assert_eq!(view.target(given), read);
            assert_eq!(view.target(f64::NAN), 0.0);
        }
    }
}
