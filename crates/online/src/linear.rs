//! A linear model of a stream whose records come batch by batch: DP-FTRL in one pass, readable after every batch (Kairouz et al. 2021;
//! docs/proofs/partial-fit.md).
//!
//! All batches together are one Gaussian release with noise that cancels over time. How many there are at most, and of how many records,
//! is public and fixed before the first.

use dpopt_linear::{DpFtrl, StreamSchedule, check_options};
use dpopt_mechanism::{Clipped, Curator, GradientStream, PublicShape, Sensitive, StreamPlan};
use dpopt_noise::Grid;
use dpopt_objective::records::Examples;
use dpopt_optimize::driver::{Driver, HeavyBall};
use dpopt_optimize::options::MethodOptions;
use dpopt_optimize::plan::{NotApplicable, Plan, Problem, RecordUnit, Summary};
use dpopt_optimize::prepared::erased;
use dpopt_optimize::registry::asked;
use dpopt_optimize::{Algorithm, Prepared, RunError};
use dpopt_privacy::{Budget, Relation};
use dpopt_refusal::{option, text};

/// A certified plan of a model that learns from at most so many batches.
#[derive(Clone)]
pub struct LinearStreamPlan {
    algorithm: DpFtrl,
    problem: Problem,
    plan: Plan<StreamSchedule>,
    batches: u64,
}

/// Plans a stream of at most `batches` batches of `problem.rows` records in all: each has at most ⌈rows/batches⌉. `options` are those of
/// dp-ftrl but for the number of steps and the share of a batch, which are these numbers.
///
/// # Errors
/// If records may be added or removed (one more would move all later ones to other batches), records are not rows, an option is not one
/// of dp-ftrl, or nothing is certified.
pub fn plan_linear_stream(
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
    batches: u64,
) -> Result<LinearStreamPlan, NotApplicable> {
    if let Some(name) = options.method.as_deref().filter(|name| *name != DpFtrl::NAME) {
        return Err(NotApplicable::Option(
            format!("{name} cannot learn from a stream; leave the method out, or choose {}", DpFtrl::NAME).into(),
        ));
    }
    let options = options.clone().by(DpFtrl::NAME);
    check_options(&options)?;
    if let Some(name) = options.names().find(|name| matches!(*name, "steps" | "sampling_probability")) {
        return Err(NotApplicable::Option(
            text![
                option(name.to_string()),
                " follows from the number of batches and records of the stream; leave it \
                                             out"
            ]
            .into(),
        ));
    }
    if problem.relation() == Relation::AddOrRemove {
        return Err(NotApplicable::Problem(
            "adding or removing a record moves all later ones to other batches; use zero-out or replace-one, \
             where the number of records is public"
                .into(),
        ));
    }
    if problem.record != RecordUnit::Row {
        return Err(NotApplicable::Problem(
            "a stream protects single records, each of which is read once, and cannot protect units of several rows; \
             leave the unit out, or fit a table"
                .into(),
        ));
    }
    if batches == 0 || batches > problem.rows {
        return Err(NotApplicable::Problem(
            format!("the stream has {} records in {batches} batches; give 1 to {} batches", problem.rows, problem.rows)
                .into(),
        ));
    }
    let mut algorithm: DpFtrl = asked(&options)?;
    algorithm.batch_share = Some(1.0 / batches as f64);
    algorithm.descent.steps = Some(batches);
    algorithm.arrives = true;
    let plan = algorithm.plan(problem, budget)?;
    Ok(LinearStreamPlan { algorithm, problem: problem.clone(), plan, batches })
}

impl LinearStreamPlan {
    /// The row of `explain`.
    pub fn summary(&self) -> &Summary {
        &self.plan.summary
    }

    /// As every method's; its `run` refuses, because a table does not come batch by batch.
    pub fn prepared(&self) -> Box<dyn Prepared> {
        erased(self.algorithm.clone(), self.problem.clone(), self.plan.clone())
    }

    /// Records of a batch at most.
    pub fn batch_size(&self) -> u64 {
        self.problem.rows.div_ceil(self.batches)
    }

    /// T: batches at most.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Charges `curator` with the whole stream.
    ///
    /// # Errors
    /// If its certificate is of another plan.
    pub fn open(&self, curator: &mut Curator) -> Result<LinearLearner, RunError> {
        let (schedule, problem) = (self.plan.schedule.descent.clone(), self.problem.clone());
        let stream = curator.open(&StreamPlan {
            shape: self.plan.schedule.shape,
            batching: self.plan.schedule.batching,
            gradient: Clipped::new(
                problem.objective().with_loss(schedule.loss),
                schedule.clip_norm,
                Grid::new(schedule.grid_exponent),
            )?,
            noise_multiplier: schedule.noise_multiplier,
            dimension: problem.weights(),
            records: problem.rows,
            relation: problem.relation(),
        })?;
        let per_record = schedule.per_record(&problem);
        let (weights, momentum) = (problem.weights(), schedule.momentum);
        let rule = move |step| (schedule.rate(step), schedule.decay(&problem, step));
        Ok(LinearLearner {
            plan: self.clone(),
            stream,
            driver: Box::new(HeavyBall::new(weights, momentum, None, rule)),
            per_record,
            weights: vec![0.0; weights],
            mean: LaterHalf::new(self.batches, weights),
        })
    }
}

/// A model that is learning. Neither printable nor cloneable: its noise goes on once.
pub struct LinearLearner {
    plan: LinearStreamPlan,
    stream: GradientStream,
    driver: Box<dyn Driver + Send>,
    /// Makes gradients of released sums: by the planned size of a batch, never by how many records came.
    per_record: f64,
    weights: Vec<f64>,
    mean: LaterHalf,
}

impl LinearLearner {
    /// The plan of the stream.
    pub fn plan(&self) -> &LinearStreamPlan {
        &self.plan
    }

    /// Refuses a batch whose public shape is not a planned one: too many records, other features, or one batch too many.
    ///
    /// # Errors
    /// What is wrong; nothing has changed then.
    pub fn check(&self, curator: &Curator, batch: &Sensitive<Examples>) -> Result<(), NotApplicable> {
        let PublicShape { records, features, row_norm, .. } = curator.public_shape(batch);
        let LinearStreamPlan { problem, batches, .. } = &self.plan;
        if self.learned() == *batches {
            return Err(NotApplicable::Problem(
                format!(
                    "all {batches} planned batches are used, and the model no longer changes; start another stream, \
                 charged anew, for more records"
                )
                .into(),
            ));
        }
        let most = self.plan.batch_size();
        if let Some(records) = records.filter(|records| *records > most) {
            return Err(NotApplicable::Problem(
                format!("the batch has {records} records, and at most {most} were planned; pass it in several batches")
                    .into(),
            ));
        }
        if features != problem.features || row_norm > problem.row_norm {
            return Err(NotApplicable::Problem(
                "the batch does not have the planned features or row norm; give batches \
                                               with the same columns and bounds"
                    .into(),
            ));
        }
        Ok(())
    }

    /// One step along the gradients of the records that came, each in this batch only.
    ///
    /// # Errors
    /// As [`check`](Self::check); nothing has changed then. In a forked process, too.
    pub fn learn(&mut self, curator: &Curator, batch: &Sensitive<Examples>) -> Result<(), RunError> {
        self.check(curator, batch).map_err(|_| dpopt_mechanism::CuratorError::Shape)?;
        let mut gradient = self.stream.next_arrived(batch, &self.weights)?.into_inner();
        gradient.iter_mut().for_each(|g| *g *= self.per_record);
        self.driver.step(self.learned(), &mut self.weights, &gradient);
        self.mean.add(&self.weights);
        Ok(())
    }

    /// Number of batches learned from so far.
    pub fn learned(&self) -> u64 {
        self.mean.count
    }

    /// outputs × features: the mean of about the later half of the iterates, exactly the last ⌈T/2⌉ after all T. Made of released values
    /// alone. Zeros before the first batch.
    pub fn weights(&self) -> Vec<f64> {
        self.mean.value()
    }
}

/// The mean of the later half of a sequence of vectors, about, after each of them: blocks end at T, T/2, T/4, …, and what is taken of
/// the block before the one that is under way becomes less as that fills. Two vectors of memory.
struct LaterHalf {
    /// Where blocks end, decreasing: the last is the one that is under way.
    ends: Vec<u64>,
    count: u64,
    /// Sums over the block before, and over the one under way, with their lengths.
    before: (Vec<f64>, u64),
    block: (Vec<f64>, u64),
}

impl LaterHalf {
    fn new(all: u64, entries: usize) -> Self {
        let mut ends = vec![all];
        while let Some(half) = ends.last().map(|end| end / 2).filter(|half| *half > 0) {
            ends.push(half);
        }
        let empty = || (vec![0.0; entries], 0);
        Self { ends, count: 0, before: empty(), block: empty() }
    }

    fn add(&mut self, values: &[f64]) {
        if self.ends.last() == Some(&self.count) && self.ends.len() > 1 {
            self.ends.pop();
            std::mem::swap(&mut self.before, &mut self.block);
            self.block.0.fill(0.0);
            self.block.1 = 0;
        }
        self.block.0.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        self.block.1 += 1;
        self.count += 1;
    }

    fn value(&self) -> Vec<f64> {
        let end = self.ends.last().copied().unwrap_or(self.count);
        let start = self.count - self.block.1;
        // of the block before: all of it at the beginning of this one, nothing at its end
        let share = (end - self.count) as f64 / (end - start).max(1) as f64;
        let total = (self.block.1 as f64 + share * self.before.1 as f64).max(1.0);
        self.block.0.iter().zip(&self.before.0).map(|(now, then)| (now + share * then) / total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::progress::Silent;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::synthetic::{mean_loss, table};
    use dpopt_optimize::Run;
    use dpopt_optimize::plan::Grade;
    use dpopt_privacy::{Neighbours, Relation};

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

    fn facts(examples: &Examples, loss: Loss) -> Problem {
        let (rows, features) = (examples.rows.len() as u64, examples.rows.columns());
        Problem { nonzeros: 20, ..Problem::new(rows, features, loss, Neighbours::of_records(Relation::ZeroOut)) }
    }

    /// The weights of a run over the whole table.
    fn fit(algorithm: &DpFtrl, examples: &Examples, problem: &Problem, budget: Budget, seed: u64) -> Vec<f64> {
        let plan = algorithm.plan(problem, budget).unwrap();
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
        let examples = Sensitive::new(examples.clone());
        algorithm.run(&plan, Run::new(problem, &examples, &mut curator, &Silent).unwrap()).unwrap().into_inner().weights
    }

    fn part(examples: &Examples, from: usize, to: usize) -> Sensitive<Examples> {
        Sensitive::new(examples.select(&(from..to).collect::<Vec<_>>()))
    }

    fn budget() -> Budget {
        Budget::new(2.0, 1e-6).unwrap()
    }

    /// The last batch is smaller. At the end it is, to the bit, what a run over the table in the same batches is; and it is of use before.
    #[test]
    fn a_stream_ends_where_a_run_over_the_table_does() {
        let examples = table(3, 6_000, 4, 3, 1.0, LOGISTIC);
        let problem = facts(&examples, LOGISTIC);
        for (batches, options) in [
            (50, MethodOptions::default()),
            (24, MethodOptions::default().with("momentum", 0.5).with("regularization", 1.0)),
        ] {
            let plan = plan_linear_stream(&problem, budget(), &options, batches).unwrap();
            assert_eq!(plan.summary().grade(), Grade::Certified);
            let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(5));
            let mut learner = plan.open(&mut curator).unwrap();
            assert!(curator.is_spent() && learner.weights().iter().all(|w| *w == 0.0));
            let size = plan.batch_size() as usize;
            let mut losses = Vec::new();
            for t in 0..batches as usize {
                let batch = part(&examples, t * size, ((t + 1) * size).min(6_000));
                learner.learn(&curator, &batch).unwrap();
                losses.push(mean_loss(&examples, LOGISTIC, &learner.weights()));
            }
            let nothing = mean_loss(&examples, LOGISTIC, &vec![0.0; problem.weights()]);
            let (half, end) = (losses[batches as usize / 2], losses[batches as usize - 1]);
            assert!(half < nothing - 0.01 && end < nothing - 0.02, "{nothing} {half} {end}");
            let refused = learner.check(&curator, &part(&examples, 0, 1)).unwrap_err().to_string();
            assert!(refused.contains("all") && learner.learn(&curator, &part(&examples, 0, 1)).is_err(), "{refused}");
            let whole = DpFtrl {
                batch_share: Some(1.0 / batches as f64),
                descent: dpopt_linear::DescentOptions { steps: Some(batches), ..plan.algorithm.descent.clone() },
                ..DpFtrl::default()
            };
            let fitted = fit(&whole, &examples, &problem, budget(), 5);
            let ended = learner.weights();
            assert!(fitted.iter().zip(&ended).all(|(a, b)| (a - b).abs() < 1e-9), "{fitted:?} {ended:?}");
        }
    }

    #[test]
    fn batches_that_were_not_planned_change_nothing() {
        let examples = table(3, 100, 2, 3, 1.0, LOGISTIC);
        let problem = facts(&examples, LOGISTIC);
        let plan = plan_linear_stream(&problem, budget(), &MethodOptions::default(), 10).unwrap();
        let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(5));
        let mut learner = plan.open(&mut curator).unwrap();
        let wider = table(3, 5, 3, 3, 1.0, LOGISTIC);
        for bad in [part(&examples, 0, 11), Sensitive::new(wider)] {
            assert!(learner.check(&curator, &bad).is_err() && learner.learn(&curator, &bad).is_err());
        }
        assert_eq!(learner.learned(), 0);
        // none came: a step of noise
        learner.learn(&curator, &part(&examples, 0, 0)).unwrap();
        assert_eq!(learner.learned(), 1);
    }

    #[test]
    fn what_no_stream_has_is_refused() {
        let examples = table(3, 100, 2, 3, 1.0, LOGISTIC);
        let problem = facts(&examples, LOGISTIC);
        let refused = |problem: &Problem, options: MethodOptions, batches| {
            plan_linear_stream(problem, budget(), &options, batches)
                .err()
                .map(|why| why.to_string())
                .unwrap_or_default()
        };
        let none = MethodOptions::default;
        assert!(refused(&problem, MethodOptions::of("noisy-sgd"), 10).contains("cannot learn from a stream"));
        assert!(refused(&problem, none().with("steps", 5), 10).contains("`steps` follows"));
        assert!(refused(&problem, none().with("max_features", 5), 10).contains("max_features"));
        let added = dpopt_privacy::Neighbours::of_records(Relation::AddOrRemove);
        assert!(
            refused(&Problem { neighbours: added, ..problem.clone() }, none(), 10).contains("moves all later ones")
        );
        let unit = Problem { record: RecordUnit::Unit { rows: 200, most: None }, ..problem.clone() };
        assert!(refused(&unit, none(), 10).contains("single records"));
        assert!(
            refused(&problem, none(), 101).contains("1 to 100") && refused(&problem, none(), 0).contains("1 to 100")
        );
        let pure = Budget::new(1.0, 0.0).unwrap();
        assert!(plan_linear_stream(&problem, pure, &none(), 10).is_err());
    }

    #[test]
    fn the_later_half_is_averaged() {
        for all in [1, 2, 3, 7, 8, 100, 255] {
            let mut mean = LaterHalf::new(all, 1);
            assert_eq!(mean.value(), [0.0]);
            for i in 0..all {
                mean.add(&[i as f64]);
                // a constant has its own mean, and the mean of 0, 1, …, i over the later part lies in it
                let value = mean.value()[0];
                assert!(value <= i as f64 && value >= 0.4 * i as f64, "{value} of {i}");
            }
            let last: Vec<f64> = (all / 2..all).map(|i| i as f64).collect();
            let exact = last.iter().sum::<f64>() / last.len() as f64;
            assert!((mean.value()[0] - exact).abs() < 1e-9 * exact.max(1.0), "{all}: {} {exact}", mean.value()[0]);
        }
    }
}
