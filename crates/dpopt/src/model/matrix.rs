//! Linear models of rows that are numbers in memory already: public facts → plan → charge → labels → models → guarantee. The road
//! of every estimator of the Python package.

use super::division::{Division, StageShares};
use super::error::FitError;
use super::scheme::{Planned, Scheme, Target};
use crate::guarantee::Guarantee;
use crate::loss::Loss;
use crate::mechanism::{LabelSelection, ReleaseRecord};
use crate::optimize::{MethodOptions, Run, RunError, Solution, check_values};
use crate::plan::{Grade, Problem};
use crate::progress::Silent;
use crate::records::{Bounded, Examples};
use crate::session::{Account, Closed, Opening, Session, StageFacts, default_delta};
use crate::{Sensitive, records::Rows};
use dpopt_privacy::{Budget, Neighbours, Relation, accountant::Accountant};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stream of the noise that labels are found with; the models have those from 0 on.
const LABELS: u64 = 1 << 20;

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
}

/// A fit of linear models to bounded rows, to be explained or run, any number of times.
pub struct MatrixFit {
    facts: MatrixFacts,
    target: Target,
    neighbours: Neighbours,
    budget: Budget,
    division: Division,
    options: MethodOptions,
    /// By number of classes: plans depend on public facts only.
    plans: Mutex<BTreeMap<usize, Arc<Planned>>>,
}

/// A fit whose charge is written down.
pub struct MatrixRun {
    fit: Arc<MatrixFit>,
    labels: Option<LabelSelection>,
    session: Session,
    accountant: Option<&'static dyn Accountant>,
    planning: Duration,
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
    /// Checks values of options, and the budget; δ is 1/n^1.1, at most 0.01, unless it is given. What an option means for a method
    /// the plan says.
    ///
    /// # Errors
    /// If ε, δ or an option is out of range, or no method has the name.
    pub fn new(
        facts: MatrixFacts,
        target: Target,
        relation: Relation,
        (epsilon, delta): (f64, Option<f64>),
        options: MethodOptions,
    ) -> Result<Self, FitError> {
        let budget = Budget::new(epsilon, delta.unwrap_or_else(|| default_delta(facts.rows)))?;
        check_values(&options)?;
        let division = Division::new(budget, StageShares::default(), target.finds_labels(), false)?;
        let neighbours = Neighbours::of_records(relation);
        Ok(Self { facts, target, neighbours, budget, division, options, plans: Mutex::default() })
    }

    /// What the whole run may spend.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Plans the models of `classes` classes (any number where a number is predicted). Reads no record.
    ///
    /// # Errors
    /// If the budget cannot be shared among so many.
    pub fn explain(&self, classes: usize) -> Result<Planned, FitError> {
        self.plan(classes, true)
    }

    fn plan(&self, classes: usize, compare: bool) -> Result<Planned, FitError> {
        let MatrixFacts { rows, features, nonzeros, row_norm } = self.facts;
        let (loss, models) = self.target.models(classes);
        let problem = Problem { rows, features, nonzeros, row_norm, loss, neighbours: self.neighbours };
        Planned::new(problem, models, &self.division, &self.options, compare)
    }

    /// The plan that a run with `classes` classes follows.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn planned(&self, classes: usize) -> Result<Arc<Planned>, FitError> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = plans.get(&classes) {
            return Ok(planned.clone());
        }
        let planned = Arc::new(self.plan(classes, false)?);
        plans.insert(classes, planned.clone());
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
        let scheme = Scheme::new(self.target, &self.division, self.neighbours, None, |k| self.planned(k))?;
        if let (Some(accountant), Some(planned)) = (accountant, &scheme.early) {
            let certificate = &planned.plan()?.summary().certificate;
            let bound = accountant.epsilon(certificate.event(), certificate.relation(), certificate.budget().delta());
            bound.map_err(|why| FitError::Option(why.to_string()))?;
        }
        let planning = started.elapsed();
        let opening = Opening::new(self.neighbours.within(self.budget), account, insecure_seed)?;
        let session = opening.charge(run, &scheme.parts())?;
        Ok(MatrixRun { labels: scheme.labels, session, accountant, planning, fit: self })
    }
}

impl MatrixRun {
    fn spent(charged: bool, error: FitError) -> FitError {
        if charged { FitError::Spent(Box::new(error)) } else { error }
    }

    /// Which of the labels that occur, each so many times, are frequent enough to be known: their places.
    ///
    /// # Errors
    /// If the labels were declared, or too few are frequent enough.
    pub fn find_labels(&mut self, counts: Vec<u64>) -> Result<Vec<usize>, FitError> {
        let charged = self.session.is_charged();
        let plan = self.labels.take().ok_or_else(|| FitError::Option("the classes are known already".into()))?;
        // sorted by name is by place
        let named = |(place, count): (usize, u64)| (format!("{place:020}"), count);
        let counts = Sensitive::new(counts.into_iter().enumerate().map(named).collect::<BTreeMap<String, u64>>());
        let stage = StageFacts { name: "labels", grade: Grade::Certified, stream: LABELS };
        let found = self
            .session
            .stage::<_, FitError>(stage, plan.certificate(), |curator| {
                Ok(curator.release(&plan, &counts).map_err(RunError::from)?.into_inner())
            })
            .map_err(|error| Self::spent(charged, error))?;
        Ok(found.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Fits the models. Targets of classes are their places from 0 to below `classes`; a record of another class, or without a
    /// target, is an empty row with a target that is not a number.
    ///
    /// # Errors
    /// If no method applies to so many classes, or a run fails. What was charged stays charged.
    pub fn fit(self, records: Bounded, classes: usize) -> Result<MatrixFitted, FitError> {
        let charged = self.session.is_charged();
        self.models(records, classes).map_err(|error| Self::spent(charged, error))
    }

    fn models(mut self, records: Bounded, classes: usize) -> Result<MatrixFitted, FitError> {
        let started = Instant::now();
        let planned = self.fit.planned(classes)?;
        let plan = planned.plan()?;
        let summary = plan.summary();
        let planning = self.planning + started.elapsed();
        let Bounded { mut rows, targets } = records;
        let mut solutions = Vec::with_capacity(planned.models);
        for k in 0..planned.models {
            let name = match planned.models {
                1 => "model".to_string(),
                all => format!("model {} of {all}", k + 1),
            };
            let last = k + 1 == planned.models;
            let rows = if last { std::mem::replace(&mut rows, Rows::new(0)) } else { rows.clone() };
            let against = (planned.models > 1).then_some(k);
            let targets = targets.iter().map(|&t| target(planned.problem.loss, against, t)).collect();
            let examples = Sensitive::new(Examples { rows, targets });
            let stage = StageFacts { name: &name, grade: summary.grade, stream: k as u64 };
            solutions.push(self.session.stage::<_, FitError>(stage, &summary.certificate, |curator| {
                let run = Run::new(&planned.problem, &examples, curator, &Silent)?;
                Ok(plan.run(run)?.into_inner())
            })?);
        }
        let Closed { guarantee, releases, .. } = self.session.close();
        let guarantee = match self.accountant {
            None => guarantee,
            Some(accountant) => guarantee.accounted_by(accountant).map_err(|why| FitError::Option(why.to_string()))?,
        };
        Ok(MatrixFitted { planned, solutions, guarantee, releases, planning })
    }
}

/// A target as `loss` reads it; what is not a number is one of no record. `against`: the class that the others are held against.
fn target(loss: Loss, against: Option<usize>, given: f64) -> f32 {
    let sign = |second: bool| if second { 1.0 } else { -1.0 };
    match (against, loss) {
        _ if given.is_nan() => 0.0,
        (Some(class), _) => sign(given == class as f64),
        (None, Loss::Logistic { .. } | Loss::Hinge | Loss::SmoothedHinge { .. } | Loss::Sigmoid) => sign(given == 1.0),
        (None, Loss::Softmax { .. } | Loss::Squared | Loss::Absolute | Loss::Huber { .. }) => given as f32,
    }
}
