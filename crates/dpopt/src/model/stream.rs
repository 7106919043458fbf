//! Linear models that learn while their records come, batch by batch: public facts → plan → charge → a step and a model per batch
//! (docs/proofs/partial-fit.md). The road of `partial_fit` of the Python package.

use super::error::FitError;
use super::matrix::{DECLARED, MatrixFacts, accounted};
use super::partitions::View;
use super::stage_plan::{Planned, Target};
use super::{BudgetSplit, StageShares};
use crate::guarantee::Guarantee;
use crate::session::{Account, ActiveStage, Opening, Session, StageFacts, default_delta};
use dpopt_linear::check_values;
use dpopt_mechanism::{ReleaseRecord, Sensitive};
use dpopt_objective::records::{Bounded, Examples};
use dpopt_online::{LinearLearner, LinearStreamPlan, plan_linear_stream};
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::{Candidate, MethodOptions, Reason, Selection};
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, accountant::Accountant};
use dpopt_refusal::{Refusal, Remedy, Step};

/// Models of a stream, planned from public facts: `facts.rows` records in at most `batches` batches.
pub struct MatrixStreamPlan {
    pub(super) facts: MatrixFacts,
    pub(super) target: Target,
    pub(super) classes: usize,
    plan: LinearStreamPlan,
    planned: Planned,
    budget: Budget,
    neighbours: Neighbours,
}

/// Models that learn from a stream. Neither printable nor cloneable: its noise goes on once.
pub struct MatrixStream {
    plan: MatrixStreamPlan,
    session: Session,
    stages: Vec<(ActiveStage, LinearLearner)>,
    accountant: Option<&'static dyn Accountant>,
}

impl MatrixStreamPlan {
    /// Plans models of `classes` classes (any number where a number is predicted) within (ε, δ) for the whole stream; δ is 1/n^1.1 for n
    /// records, at most 0.01, unless it is given.
    ///
    /// # Errors
    /// If a budget or an option is out of range, units or classes to be found are asked for, or nothing is certified.
    pub fn new(
        facts: MatrixFacts,
        target: Target,
        classes: usize,
        relation: Relation,
        (epsilon, delta): (f64, Option<f64>),
        options: &MethodOptions,
        batches: u64,
    ) -> Result<Self, FitError> {
        if facts.units.is_some() {
            return Err(FitError::Option(
                "a stream protects single records, each of which is read once, and cannot protect units of several \
                 rows; leave the unit out, or fit a table"
                    .into(),
            ));
        }
        if target.finds_labels() {
            return Err(FitError::Option(
                Refusal::of(
                    "the labels are not declared, and a stream cannot look for them first; declare the \
                             labels",
                )
                .or(Step::DeclareLabels),
            ));
        }
        let budget = Budget::new(epsilon, delta.unwrap_or_else(|| default_delta(facts.rows)))?;
        // the plan below refuses methods that do not learn from a stream, whichever registry knows them
        let mut values = options.clone();
        values.method = None;
        check_values(&values)?;
        if options.intervals().is_some() {
            let refusal =
                Refusal::of("a stream reads each record once, and prediction intervals look at all of them again");
            return Err(FitError::Option(refusal.or(Remedy::LeaveOut("intervals"))));
        }
        let budget_split = BudgetSplit::new(budget, StageShares::default(), false, false)?;
        let neighbours = Neighbours::of_records(relation);
        let (loss, models) = target.models(classes);
        let problem = facts.problem(loss, neighbours);
        let of_each = budget_split.of_each_model(models)?;
        let plan = plan_linear_stream(&problem, of_each, options, batches)?;
        let method = plan.summary().method;
        let candidates = vec![Candidate { method, plan: Ok(plan.prepared()) }];
        // no other method learns from a stream
        let selection = Selection { place: 0, reason: Reason::Only };
        let planned =
            Planned { problem, models, budget: of_each, candidates, selection: Ok(selection), in_parts: false };
        Ok(Self { facts, target, classes, plan, planned, budget, neighbours })
    }

    /// The plan, as of every fit.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Records of a batch at most.
    pub fn batch_size(&self) -> u64 {
        self.plan.batch_size()
    }

    /// Charges the account for the whole stream: the last that happens before a record counts.
    ///
    /// # Errors
    /// As [`Fit::run_on`](super::Fit::run_on).
    pub fn open(
        self,
        run: &str,
        account: Option<Box<dyn Account>>,
        insecure_seed: Option<u64>,
        accountant: Option<&'static dyn Accountant>,
    ) -> Result<MatrixStream, FitError> {
        let certificate: Certificate = self.plan.summary().certificate.clone();
        if let Some(accountant) = accountant {
            accounted(accountant, &certificate)?;
        }
        let models = self.planned.models;
        let opening = Opening::new(self.neighbours.within(self.budget), account, insecure_seed)?;
        let mut session = opening.charge(run, &vec![&certificate; models])?;
        let rests_on = self.plan.summary().rests_on().and(DECLARED);
        let mut stages = Vec::with_capacity(models);
        for k in 0..models {
            let name = match models {
                1 => "model".to_string(),
                all => format!("model {} of {all}", k + 1),
            };
            let mut stage = session.enter(StageFacts { name: &name, rests_on, stream: k as u64 }, &certificate)?;
            let learner = self.plan.open(&mut stage.curator)?;
            session.note(&stage);
            stages.push((stage, learner));
        }
        Ok(MatrixStream { plan: self, session, stages, accountant })
    }
}

impl MatrixStream {
    /// One step of all models along the records of a batch, each of which comes in this batch only. Targets as in
    /// [`MatrixRecords::Here`](super::MatrixRecords::Here).
    ///
    /// # Errors
    /// If there are too many records, other features, or no batches are left; in a forked process. Nothing has changed then.
    pub fn learn(&mut self, records: Bounded) -> Result<(), FitError> {
        let (loss, models) = (self.plan.planned.problem.loss, self.stages.len());
        let Bounded { rows, targets } = records;
        let mut batches = Vec::with_capacity(models);
        for k in 0..models {
            let against = (models > 1).then_some(k);
            let targets = targets.iter().map(|&given| View { loss, against, range: None }.target(given)).collect();
            batches.push(Sensitive::new(Examples { rows: rows.clone(), targets }));
        }
        for ((stage, learner), batch) in self.stages.iter().zip(&batches) {
            learner.check(&stage.curator, batch)?;
        }
        for ((stage, learner), batch) in self.stages.iter_mut().zip(&batches) {
            learner.learn(&stage.curator, batch)?;
        }
        Ok(())
    }

    /// The model so far, outputs × features of each; zeros before the first batch.
    pub fn weights(&self) -> Vec<Vec<f64>> {
        self.stages.iter().map(|(_, learner)| learner.weights()).collect()
    }

    /// Number of batches learned from so far.
    pub fn learned(&self) -> u64 {
        self.stages.first().map_or(0, |(_, learner)| learner.learned())
    }

    /// The plan of the stream.
    pub fn plan(&self) -> &MatrixStreamPlan {
        &self.plan
    }

    /// What is promised for the whole stream.
    ///
    /// # Errors
    /// If the accountant that was asked for has no bound.
    pub fn guarantee(&self) -> Result<Guarantee, FitError> {
        let guarantee = self.session.guarantee().clone();
        match self.accountant {
            None => Ok(guarantee),
            Some(by) => guarantee.accounted_by(by).map_err(|why| NotApplicable::Problem(why.to_string().into()).into()),
        }
    }

    /// What each model releases.
    pub fn releases(&self) -> &[Vec<ReleaseRecord>] {
        self.session.releases()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stage_plan::ClassLoss;
    use super::*;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::Bounding;

    const ROWS: usize = 3000;
    const BATCHES: u64 = 30;

    fn bounding() -> Bounding {
        Bounding::in_box(vec![-1.0; 2], vec![1.0; 2], 1.0, 0.5, false).unwrap()
    }

    fn facts() -> MatrixFacts {
        let row_norm = bounding().row_norm();
        MatrixFacts { rows: ROWS as u64, features: 3, nonzeros: 3, row_norm, units: None }
    }

    fn records(from: usize, to: usize) -> Bounded {
        let place = |i: usize| (i % 3) as f64;
        let row = |i: usize| [place(from + i) - 1.0, if i.is_multiple_of(2) { 0.3 } else { -0.3 }];
        let targets: Vec<f64> = (from..to).map(|i| if i % 100 == 0 { f64::NAN } else { place(i) }).collect();
        bounding().dense((to - from, 2), row, &targets).unwrap()
    }

    fn classes(loss: ClassLoss) -> MatrixStreamPlan {
        let target = Target::Classes { loss, known: Some(3) };
        let options = MethodOptions::default();
        MatrixStreamPlan::new(facts(), target, 3, Relation::ReplaceOne, (8.0, Some(1e-6)), &options, BATCHES).unwrap()
    }

    fn hits(weights: &[Vec<f64>]) -> f64 {
        let weights: Vec<&[f64]> = weights.iter().flat_map(|of_one| of_one.chunks(3)).collect();
        let Bounded { rows, targets } = records(0, 300);
        let score = |w: &[f64], i: usize| {
            let (columns, values) = rows.row(i);
            columns.iter().zip(values).map(|(&j, &x)| w[j as usize] * f64::from(x)).sum::<f64>()
        };
        let best = |i: usize| (0..3).max_by(|a, b| score(weights[*a], i).total_cmp(&score(weights[*b], i)));
        let right = (0..300).filter(|i| best(*i).is_some_and(|k| k as f64 == targets[*i])).count();
        right as f64 / 300.0
    }

    #[test]
    fn models_of_all_classes_learn_and_are_promised_once() {
        for (loss, models) in
            [(ClassLoss::Logistic, 1), (ClassLoss::OneAgainstRest(Loss::SmoothedHinge { width: 0.5 }), 3)]
        {
            let mut stream = classes(loss).open("test", None, Some(3), None).unwrap();
            assert_eq!((stream.plan().batch_size(), stream.learned(), stream.weights().len()), (100, 0, models));
            let promised = stream.guarantee().unwrap();
            assert!(promised.certified_epsilon <= 8.0 && promised.certified_epsilon > 7.0);
            assert!(stream.learn(records(0, 101)).is_err(), "too many");
            for t in 0..BATCHES as usize {
                stream.learn(records(100 * t, 100 * (t + 1))).unwrap();
            }
            let after = stream.weights();
            assert!(stream.learn(records(0, 1)).unwrap_err().to_string().contains("all 30 planned batches"));
            assert_eq!(stream.weights(), after);
            // the middle class needs two lines
            assert!(hits(&after) > 0.6, "{}", hits(&after));
            assert_eq!(stream.guarantee().unwrap().certified_epsilon, promised.certified_epsilon);
            assert_eq!(stream.releases().len(), models);
        }
    }

    #[test]
    fn what_a_stream_cannot_have_is_refused() {
        let planned = |target, relation| {
            let options = MethodOptions::default();
            MatrixStreamPlan::new(facts(), target, 2, relation, (1.0, None), &options, 10).err().map(|e| e.to_string())
        };
        let unknown = Target::Classes { loss: ClassLoss::Logistic, known: None };
        assert!(planned(unknown, Relation::ZeroOut).unwrap().contains("declare the labels"));
        let number = Target::Number(Loss::Squared);
        assert!(planned(number, Relation::AddOrRemove).unwrap().contains("moves all later ones"));
        assert!(planned(number, Relation::ZeroOut).is_none());
        let account = planned(number, Relation::ReplaceOne);
        assert!(account.is_none(), "{account:?}");
    }
}
