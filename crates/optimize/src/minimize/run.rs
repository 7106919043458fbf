//! The loop: released sums, and a driver that is post-processing.

use super::accelerated::Accelerated;
use super::directions::Directions;
use super::plan::{Batches, MinimizePlan, MinimizeSchedule, Rule};
use super::problem::MinimizeProblem;
use super::source::{Source, Streaming, Summing};
use crate::RunError;
use crate::choices::{AdaptiveRule, Domain};
use crate::driver::{AdaptiveStep, AdaptiveSteps, Course, Driver, HeavyBall, drive};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Gaussian, Released};
use dpopt_noise::Grid;

/// A driver whose weights stay in a domain around the start.
struct Kept<D> {
    driver: D,
    domain: Domain,
}

impl<D: Driver> Driver for Kept<D> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        self.driver.step(step, weights, gradient);
        self.domain.keep(weights);
    }
}

/// A driver that also follows the gradient of (λ/2)‖w‖², w being the way from the start.
struct Drawn<D> {
    driver: D,
    curvature: f64,
    gradient: Vec<f64>,
}

impl<D: Driver> Driver for Drawn<D> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        self.gradient.clear();
        self.gradient.extend(gradient.iter().zip(&*weights).map(|(g, w)| g + self.curvature * w));
        self.driver.step(step, weights, &self.gradient);
    }
}

/// Runs `plan` from `start`; `curator` must have been opened for its certificate.
///
/// # Errors
/// If the records or the objective are not those that the plan was made for, the objective can't be evaluated, or the curator refuses.
pub fn run<S: Source>(
    problem: &MinimizeProblem,
    plan: &MinimizePlan,
    start: &[f64],
    mut source: S,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Released<Vec<f64>>, RunError> {
    let s = &plan.schedule;
    let counted = source.public_count(curator).is_none_or(|records| records == problem.records);
    let dimension = problem.dimension;
    let fits = counted && start.len() == dimension && source.dimension().is_none_or(|d| d == dimension);
    // a plan that does not say what it rests on may not run elsewhere
    if !fits || (S::ELSEWHERE && !problem.elsewhere) {
        return Err(RunError::Shape {
            planned: format!("{} records, {dimension} dimensions", problem.records),
            given: format!(
                "{}start of {} dimensions, objective of {}",
                source.public_count(curator).map_or(String::new(), |n| format!("{n} records, ")),
                start.len(),
                source.dimension().map_or("unknown".to_string(), |d| d.to_string())
            ),
        });
    }
    if start.iter().any(|x| !x.is_finite()) {
        return Err(RunError::Numerical("the start has an entry that is not finite"));
    }
    let grid = Grid::new(s.grid_exponent);
    let at = |w: &[f64]| -> Vec<f64> { start.iter().zip(w).map(|(x, w)| x + w).collect() };
    let course = Course {
        steps: s.steps,
        first_averaged: s.first_averaged(),
        per_record: 1.0 / (s.share() * problem.records as f64),
    };
    progress.start(plan.method, s.steps);
    let way = if let Batches::Stream { shape, .. } = s.batches {
        let streaming = Streaming {
            shape,
            clip_norm: s.clip_norm,
            grid,
            noise_multiplier: s.noise_multiplier,
            dimension,
            records: problem.records,
            relation: problem.relation(),
        };
        let mut stream = source.open(curator, streaming)?;
        follow(s, problem, course, progress, |w| source.next(&mut stream, &at(w)))?
    } else {
        let sampling = match s.batches {
            Batches::Poisson { sampling_probability } => Some(sampling_probability),
            _ => None,
        };
        let how = Summing { clip_norm: s.clip_norm, grid, sampling };
        match s.along {
            None => {
                let noise = Gaussian::new(s.noise_multiplier, s.clip_norm, grid, dimension, "gradient");
                follow(s, problem, course, progress, |w| {
                    let sum = source.gradients(curator, how, &at(w))?;
                    Ok(curator.release(&noise, &sum)?)
                })?
            }
            Some(along) => {
                let count = along.directions;
                let noise = Gaussian::new(s.noise_multiplier, s.clip_norm, grid, count, "directional derivatives");
                follow(s, problem, course, progress, |w| {
                    let mut coins = curator.public_coins();
                    let directions = Directions::draw(count, dimension, along.difference, &mut coins);
                    let sum = source.derivatives(curator, how, &at(w), &directions)?;
                    Ok(curator.release(&noise, &sum)?.map(|sums| directions.estimate(&sums)))
                })?
            }
        }
    };
    progress.finish();
    Ok(curator.answer(at(&way)))
}

/// The way from the start.
fn follow(
    s: &MinimizeSchedule,
    problem: &MinimizeProblem,
    course: Course,
    progress: &dyn Progress,
    oracle: impl FnMut(&[f64]) -> Result<Released<Vec<f64>>, RunError>,
) -> Result<Vec<f64>, RunError> {
    let d = problem.dimension;
    let start = vec![0.0; d];
    let curvature = s.regularization / problem.records as f64;
    let mut way = match s.rule {
        Rule::HeavyBall { learning_rate, momentum } => {
            let driver = HeavyBall::new(d, momentum, None, |_| (learning_rate, 1.0));
            let drawn = Drawn { driver, curvature, gradient: Vec::new() };
            drive(&mut Kept { driver: drawn, domain: s.domain }, course, start, progress, oracle)?
        }
        Rule::Adam { learning_rate, momentum, second_momentum } => {
            let step = AdaptiveStep {
                rule: AdaptiveRule::Adam,
                momentum,
                second_momentum,
                regularization: curvature,
                domain: s.domain,
            };
            drive(&mut AdaptiveSteps::new(step, d, |_| learning_rate), course, start, progress, oracle)?
        }
        Rule::Accelerated { smoothness, strong_convexity, added_curvature } => {
            let driver = Accelerated::new(&start, smoothness, strong_convexity, s.domain);
            let mut drawn = Drawn { driver, curvature: added_curvature, gradient: Vec::new() };
            drive(&mut drawn, course, start, progress, oracle)?;
            drawn.driver.answer().to_vec()
        }
    };
    // a mean of points of the domain lies in it up to rounding
    s.domain.keep(&mut way);
    Ok(way)
}
