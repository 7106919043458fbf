//! Lazily and densely noised DP-SGD are one mechanism; plans say which way they take and why.

use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Clipped, Curator, CuratorError, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::{Gradient, Linear, Objective, Point};
use dpopt_objective::records::{Examples, Row, Rows};
use dpopt_optimize::{Algorithm, Run};
use dpopt_privacy::{Neighbours, Relation};
use std::convert::Infallible;

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// n rows of three of d features; the first one decides the class.
fn sparse_table(n: usize, d: u32, classes: u32) -> Examples {
    let mut rows = Rows::new(d as usize);
    let mut targets = Vec::new();
    for i in 0..n as u32 {
        let class = i % classes;
        let noise = |k: u32| 4 + (i * 7919 + k * 104_729) % (d - 4);
        rows.push_clipped(&mut [(class, 1.0), (noise(1), 0.5), (noise(2), 0.5)], 1.0);
        targets.push(if classes == 2 { 2.0 * class as f32 - 1.0 } else { class as f32 });
    }
    Examples { rows, targets }
}

fn problem(examples: &Examples, loss: Loss) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: examples.rows.len() as u64,
        features: examples.rows.columns(),
        nonzeros: 3,
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

/// Plans once and runs with each seed.
fn runs(
    sgd: &NoisySgd,
    examples: &Examples,
    loss: Loss,
    budget: Budget,
    seeds: impl Iterator<Item = u64>,
) -> Vec<Vec<f64>> {
    let problem = problem(examples, loss);
    let plan = sgd.plan(&problem, budget).unwrap();
    assert_eq!(plan.schedule.is_lazy(), sgd.lazy.unwrap_or(true), "{}", plan.schedule.noise_drawn);
    let sensitive = Sensitive::new(examples.clone());
    let run = |seed| {
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
        let answer =
            sgd.run(&plan, Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap()).unwrap().into_inner();
        assert!(curator.is_spent());
        assert!(
            sgd.run(&plan, Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap()).is_err(),
            "the budget is spent"
        );
        answer.weights
    };
    seeds.map(run).collect()
}

#[test]
fn lazy_and_dense_runs_have_one_law() {
    let budget = Budget::new(2.0, 1e-5).unwrap();
    for (loss, classes, rate_schedule) in [
        (LOGISTIC, 2, RateSchedule::Constant),
        (Loss::Softmax { classes: 3 }, 3, RateSchedule::Constant),
        (LOGISTIC, 2, RateSchedule::Cosine),
    ] {
        let examples = sparse_table(40, 7, classes);
        let samples = [true, false].map(|lazy| {
            let descent = DescentOptions {
                steps: Some(6),
                learning_rate: Some(2.0),
                rate_schedule,
                momentum: Some(0.5),
                regularization: Some(2.0),
                ..Default::default()
            };
            let sgd = NoisySgd { sampling_probability: Some(0.3), lazy: Some(lazy), in_parts: false, descent };
            runs(&sgd, &examples, loss, budget, (0..1500).map(|seed| 2 * seed + u64::from(lazy)))
        });
        let width = samples[0][0].len();
        let moments = |sample: &[Vec<f64>], f: &dyn Fn(&[f64]) -> f64| {
            let n = sample.len() as f64;
            let mean = sample.iter().map(|x| f(x)).sum::<f64>() / n;
            (mean, sample.iter().map(|x| (f(x) - mean).powi(2)).sum::<f64>() / n / n)
        };
        for i in 0..width {
            for j in i..=width {
                // means, then all second moments: at most 252 statistics a case, 6.2 standard deviations: false alarm 1.5e-7
                let f = |x: &[f64]| if j == width { x[i] } else { x[i] * x[j] };
                let ((a, va), (b, vb)) = (moments(&samples[0], &f), moments(&samples[1], &f));
                assert!((a - b).abs() < 6.2 * (va + vb).sqrt(), "{loss:?} {i} {j}: {a} {b}");
            }
        }
    }
}

#[test]
fn wide_sparse_problems_are_lazy_by_themselves_and_learn() {
    let examples = sparse_table(4000, 200_000, 2);
    let budget = Budget::new(4.0, 1e-6).unwrap();
    let both = runs(&NoisySgd::default(), &examples, LOGISTIC, budget, [1, 1].into_iter());
    let weights = &both[0];
    assert!(weights[1] > weights[0], "{} {}", weights[1], weights[0]);
    // reproducible, and every weight has noise
    assert_eq!(both[0], both[1]);
    assert!(weights.iter().all(|w| *w != 0.0));
}

/// The run as one release says how much noise it draws: less is refused, and so is another event.
#[test]
fn a_lazy_run_with_less_noise_than_its_event_says_is_refused() {
    let examples = sparse_table(400, 20_000, 2);
    let problem = problem(&examples, LOGISTIC);
    let sgd = NoisySgd { lazy: Some(true), ..NoisySgd::default() };
    let plan = sgd.plan(&problem, Budget::new(2.0, 1e-6).unwrap()).unwrap();
    let data = Sensitive::new(examples);
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(1));
    let mechanism = |schedule: &DescentSchedule| {
        let grid = Grid::new(schedule.grid_exponent);
        let gradient = Clipped::new(problem.objective(), schedule.clip_norm, grid).unwrap();
        lazy::mechanism::<Examples, _>(schedule, &problem, gradient, &Silent)
    };
    let planned = &plan.schedule;
    let quiet = DescentSchedule { noise_std: 0.5 * planned.noise_std, ..planned.clone() };
    let refused = curator.release(&mechanism(&quiet), &data).map(drop);
    assert!(matches!(refused, Err(CuratorError::LessNoise { .. })), "{refused:?}");
    // gradients on a finer grid than the noise's would be scaled up against it
    let mut finer = mechanism(planned);
    finer.gradient =
        Clipped::new(problem.objective(), planned.clip_norm, Grid::new(planned.grid_exponent - 4)).unwrap();
    assert_eq!(curator.release(&finer, &data).map(drop), Err(CuratorError::Shape));
    for other in [
        DescentSchedule { noise_multiplier: 0.5 * planned.noise_multiplier, ..quiet },
        DescentSchedule { sampling_probability: 0.2, ..planned.clone() },
        DescentSchedule { steps: planned.steps + 1, ..planned.clone() },
    ] {
        let refused = curator.release(&mechanism(&other), &data).map(drop);
        assert!(matches!(refused, Err(CuratorError::Unforeseen { .. })), "{refused:?}");
    }
    assert!(curator.release(&mechanism(planned), &data).is_ok());
}

#[test]
fn plans_say_when_noise_is_drawn_and_why() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let base = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: 50_000,
        features: 1 << 20,
        nonzeros: 40,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let sgd = |q: f64, lazy, steps| NoisySgd {
        sampling_probability: Some(q),
        lazy,
        in_parts: false,
        descent: DescentOptions { steps: Some(steps), ..Default::default() },
    };
    let plan = |sgd: NoisySgd, problem: &Problem| sgd.plan(problem, budget).unwrap();
    let lazy = plan(sgd(0.01, None, 400), &base);
    assert_eq!(lazy.schedule.noise_drawn, "lazily");
    assert!(lazy.summary.assumptions.iter().any(|a| a.text().contains("128-bit")));
    // the same noise as the dense way, to the share of δ that finite precision takes
    let dense = plan(sgd(0.01, Some(false), 400), &base);
    assert_eq!(dense.schedule.noise_drawn, "at each step: as asked");
    let ratio = lazy.summary.noise_multiplier / dense.summary.noise_multiplier;
    assert!((1.0 - 1e-6..1.001).contains(&ratio), "{ratio}");
    for (wanted, because) in [
        (plan(sgd(0.01, None, 400), &Problem { features: 100, ..base.clone() }), "touch so many"),
        (plan(sgd(0.01, Some(true), (1 << 21) + 1), &base), "2^21 steps"),
    ] {
        assert!(
            !wanted.schedule.is_lazy() && wanted.schedule.noise_drawn.contains(because),
            "{}",
            wanted.schedule.noise_drawn
        );
    }
}

#[test]
fn rates_fall_in_eight_stages() {
    let factors =
        |schedule: RateSchedule, steps: u64| (0..steps).map(|t| schedule.factor(t, steps)).collect::<Vec<_>>();
    assert_eq!(factors(RateSchedule::Linear, 8), [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]);
    assert_eq!(factors(RateSchedule::InverseSqrt, 4), [0, 2, 4, 6].map(|k: i32| 1.0 / f64::from(1 + k).sqrt()));
    assert!(factors(RateSchedule::Constant, 5).iter().all(|f| *f == 1.0));
    let cosine = factors(RateSchedule::Cosine, 16);
    assert!(
        cosine[0] == 1.0 && cosine.is_sorted_by(|a, b| a >= b) && (cosine[15] - 0.009_700_556_535).abs() < 1e-12,
        "{cosine:?}"
    );
    for schedule in [RateSchedule::Constant, RateSchedule::Linear, RateSchedule::Cosine, RateSchedule::InverseSqrt] {
        for steps in [1, 2, 7, 8, 9, 400, 1001] {
            // every change of the factor is the start of a stage, and the moments are those of the list
            let all = factors(schedule, steps);
            let starts = schedule.starts(steps);
            for t in 1..steps {
                assert!(all[t as usize] == all[t as usize - 1] || starts.contains(&t), "{schedule:?} {steps} {t}");
            }
            assert!(starts[0] == 0 && starts.iter().all(|s| *s < steps));
            let mean = all.iter().sum::<f64>() / steps as f64;
            assert!((schedule.mean(steps) - mean).abs() < 1e-12);
        }
    }
}

#[test]
fn a_falling_rate_keeps_the_learning_time_and_the_event() {
    // few rows: the rate is set by the learning time, not by stability
    let base = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: 5000,
        features: 100,
        nonzeros: 40,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let plan = |rate_schedule| {
        let descent = DescentOptions { steps: Some(400), rate_schedule, ..Default::default() };
        NoisyGradientDescent { descent }.plan(&base, budget).unwrap()
    };
    let (constant, linear) = (plan(RateSchedule::Constant), plan(RateSchedule::Linear));
    assert_eq!(constant.summary.noise_multiplier, linear.summary.noise_multiplier);
    // Σ of factors (8 + … + 1)/64 = 9/16
    let ratio = linear.schedule.learning_rate / constant.schedule.learning_rate;
    assert!((ratio - 16.0 / 9.0).abs() < 1e-9, "{ratio}");
}

/// Linear models by another road: coordinates are read one by one, never scored, and the gradient is put as an outer product.
struct ByReads {
    linear: Linear,
    lines: usize,
}

impl Objective<Examples> for ByReads {
    type Scratch = Vec<f64>;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        self.linear.weights()
    }

    fn lines(&self) -> usize {
        self.lines
    }

    fn describes(&self, examples: &Examples) -> bool {
        Objective::describes(&self.linear, examples)
    }

    fn value(&self, _: &[f64], _: &Examples, _: usize, _: &mut Vec<f64>) -> Result<f64, Infallible> {
        Ok(0.0)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        examples: &'a Examples,
        i: usize,
        slope: &'a mut Vec<f64>,
    ) -> Result<Gradient<'a>, Infallible> {
        let (columns, values) = examples.rows.row(i);
        let (loss, width) = (self.linear.loss(), self.linear.features());
        let Some(target) = loss.usable_target(f64::from(examples.targets[i]), 1.0) else { return Ok(Gradient::Zero) };
        let mut score = |line: usize| -> f64 {
            columns.iter().zip(values).map(|(&j, &v)| f64::from(v) * x.read(line * width + j as usize)).sum()
        };
        let scores: Vec<f64> = (0..loss.outputs()).map(&mut score).collect();
        slope.clear();
        slope.resize(scores.len(), 0.0);
        loss.slope(&scores, target, slope);
        Ok(Row::new(columns, values).map_or(Gradient::Zero, |row| Gradient::Outer { slope, width, row }))
    }
}

#[test]
fn deferred_noise_takes_any_local_objective_and_refuses_what_it_is_not_made_for() {
    for loss in [LOGISTIC, Loss::Softmax { classes: 3 }] {
        let examples = sparse_table(400, 2_001, 2);
        let problem = problem(&examples, loss);
        let sgd = NoisySgd { lazy: Some(true), ..NoisySgd::default() };
        let plan = sgd.plan(&problem, Budget::new(4.0, 1e-6).unwrap()).unwrap();
        let (schedule, data) = (&plan.schedule, Sensitive::new(examples));
        let (grid, linear) = (Grid::new(schedule.grid_exponent), problem.objective());
        let curator = || Curator::new(&plan.summary.certificate, NoiseSource::insecure(3));
        let clipped = Clipped::new(linear, schedule.clip_norm, grid).unwrap();
        let fused = curator().release(&lazy::mechanism(schedule, &problem, clipped, &Silent), &data).unwrap();
        let released = |linear: Linear, lines: usize| {
            let clipped = Clipped::new(ByReads { linear, lines }, schedule.clip_norm, grid).unwrap();
            curator().release(&lazy::mechanism(schedule, &problem, clipped, &Silent), &data)
        };
        // the same coordinates are looked at in the same order: the same noise, and scores apart by a rounding. No seats of another
        // row are used, whatever the record before scored
        let read = released(linear, loss.outputs()).unwrap();
        let apart = fused.get().iter().zip(read.get()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let largest = fused.get().iter().fold(0.0f64, |most, w| most.max(w.abs()));
        assert!(apart < 1e-6 * largest && largest > 0.0, "{loss:?}: {apart} of {largest}");
        // lines that do not divide the coordinates would put several in one place; facts of shorter rows
        for lines in [0, 2] {
            assert_eq!(released(linear, lines).map(drop), Err(CuratorError::Shape));
        }
        let shorter = Linear::new(loss, problem.features, 0.5 * problem.row_norm);
        assert_eq!(released(shorter, loss.outputs()).map(drop), Err(CuratorError::Shape));
    }
}

/// A unit's rows are added up coordinate by coordinate where it has many: noise that is drawn lazily has a place for those that were read only.
#[test]
fn lazy_noise_bears_a_unit_with_many_rows() {
    use dpopt_objective::records::{Owners, Units};
    use dpopt_optimize::plan::RecordUnit;
    for empty in [false, true] {
        let mut examples = sparse_table(400, 2_000, 2);
        if empty {
            examples.rows = Rows::new(2_000);
            (0..400).for_each(|_| examples.rows.push_zero());
        }
        let of_row = (0..400).map(|row| if row < 100 { 0 } else { row / 2 }).collect();
        let units = Units::new(examples.clone(), &Owners { of_row, units: 200 }).unwrap();
        let problem = Problem {
            rows: 200,
            record: RecordUnit::Unit { rows: 400, most: None },
            neighbours: Neighbours::of_users(Relation::ZeroOut),
            ..problem(&examples, LOGISTIC)
        };
        let sgd = NoisySgd { sampling_probability: Some(0.5), lazy: Some(true), ..NoisySgd::default() };
        let plan = sgd.plan(&problem, Budget::new(1.0, 1e-5).unwrap()).unwrap();
        assert!(plan.schedule.is_lazy(), "{}", plan.schedule.noise_drawn);
        let (records, mut curator) =
            (Sensitive::new(units), Curator::new(&plan.summary.certificate, NoiseSource::insecure(1)));
        let run = Run::new(&problem, &records, &mut curator, &Silent).unwrap();
        assert!(sgd.run(&plan, run).unwrap().get().weights.iter().all(|w| w.is_finite()));
    }
}

/// A stream of units has a batch for each by a coin, as one of rows has where an added row would move others; how many there are is a guess then.
#[test]
fn a_stream_takes_units_and_a_number_of_records_that_is_a_guess() {
    use crate::DpFtrl;
    use dpopt_mechanism::Batching;
    use dpopt_objective::records::{Owners, Units};
    use dpopt_optimize::plan::RecordUnit;
    let examples = sparse_table(3_000, 20, 2);
    let of_row: Vec<u32> = (0..3_000).map(|row| if row < 300 { 0 } else { row / 3 }).collect();
    let units = Sensitive::new(Units::new(examples.clone(), &Owners { of_row, units: 1_000 }).unwrap());
    let rows = Sensitive::new(examples.clone());
    let budget = Budget::new(4.0, 1e-5).unwrap();
    let ftrl = DpFtrl { batch_share: Some(0.1), ..DpFtrl::default() };
    let by_row = problem(&examples, LOGISTIC);
    let unit = |relation, guess| Problem {
        rows: guess,
        record: RecordUnit::Unit { rows: 3_000, most: None },
        neighbours: Neighbours::of_users(relation),
        ..by_row.clone()
    };
    let value = |weights: &[f64]| {
        let mut scratch = Default::default();
        let objective = by_row.objective();
        let Ok(sum) =
            (0..3_000).try_fold(0.0, |sum, i| objective.value(weights, &examples, i, &mut scratch).map(|v| sum + v));
        sum / 3_000.0
    };
    let zeros = vec![0.0; by_row.weights()];
    for (problem, batching) in [
        (by_row.clone(), Batching::Position),
        (
            Problem { rows: 2_700, neighbours: Neighbours::of_records(Relation::AddOrRemove), ..by_row.clone() },
            Batching::Coin,
        ),
        (unit(Relation::ZeroOut, 1_000), Batching::Coin),
        (unit(Relation::ReplaceOne, 1_000), Batching::Coin),
        (unit(Relation::AddOrRemove, 1_300), Batching::Coin),
    ] {
        let plan = ftrl.plan(&problem, budget).unwrap();
        assert_eq!(plan.schedule.batching, batching);
        let assumed = plan.summary.assumptions.iter().any(|a| a.text().contains("at random and in secret, drawn once"));
        assert_eq!(assumed, batching == Batching::Coin);
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(1));
        let weights = match problem.is_pooled() {
            true => ftrl.run(&plan, Run::new(&problem, &units, &mut curator, &Silent).unwrap()),
            false => ftrl.run(&plan, Run::new(&problem, &rows, &mut curator, &Silent).unwrap()),
        };
        let weights = weights.unwrap().into_inner().weights;
        assert!(curator.is_spent());
        assert!(value(&weights) < value(&zeros) - 0.01, "{problem:?}: {} {}", value(&weights), value(&zeros));
    }
}
