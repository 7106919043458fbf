//! The loop: released sums, and a driver that is post-processing.

use super::accelerated::Accelerated;
use super::aggregate::central;
use super::directions::Directions;
use super::net;
use super::plan::MinimizePlan;
use super::problem::MinimizeProblem;
use super::proximal::Proximal;
use super::recursive::RecursiveEstimate;
use super::schedule::{Batches, DirectionSchedule, Goal, MinimizeSchedule, Phase, Rule};
use super::shrinking::Shrinking;
use super::source::{Source, Streaming, Summing};
use super::tree;
use super::walk::{self, Along};
use super::{o2nc_walk, one_pass_walk, spider_walk};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Batching, Blocks, Curator, CuratorError, Gaussian, Released, StreamShape};
use dpopt_noise::Grid;
use dpopt_optimize::RunError;
use dpopt_optimize::choices::{AdaptiveRule, Domain};
use dpopt_optimize::driver::{AdaptiveStep, AdaptiveSteps, Course, Driver, HeavyBall, drive};
use dpopt_privacy::Event;

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

/// A driver that also follows the gradient of (λ/2)‖w − c‖², w being the way from the start.
struct Drawn<'a, D> {
    driver: D,
    curvature: f64,
    centre: &'a [f64],
    gradient: Vec<f64>,
}

impl<D: Driver> Driver for Drawn<'_, D> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        self.gradient.clear();
        let all = gradient.iter().zip(&*weights).zip(self.centre);
        self.gradient.extend(all.map(|((g, w), c)| g + self.curvature * (w - c)));
        self.driver.step(step, weights, &self.gradient);
    }
}

/// What moves the way, from where, and what public quadratics are drawn around.
struct Leg<'a> {
    rule: Rule,
    course: Course,
    from: &'a [f64],
    centre: &'a [f64],
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
    run_along(problem, plan, start, &mut source, curator, progress)
}

/// One piece of code for the records and objectives of everybody.
fn run_along(
    problem: &MinimizeProblem,
    plan: &MinimizePlan,
    start: &[f64],
    source: &mut dyn Source,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Released<Vec<f64>>, RunError> {
    check(problem, start, source, curator)?;
    let s = &plan.schedule;
    if let Rule::Net(net) = s.rule {
        return net::run(problem, plan, net, start, source, curator, progress);
    }
    if let Rule::Tree(tree) = s.rule {
        return tree::run(problem, plan, tree, start, source, curator, progress);
    }
    let steps = s.spider.map_or(s.steps, |spider| spider.most_steps(s.steps));
    progress.start(plan.method, steps * s.phases.len().max(1) as u64 * s.chunks);
    let origin = vec![0.0; problem.dimension];
    if let Some(own) = &plan.walk {
        let way = walk::way(&**own, s, problem, Along { start, source, curator: &mut *curator, progress })?;
        progress.finish();
        return Ok(curator.postprocess(at(start, &way)));
    }
    let whole = Run { s, problem, start, origin: &origin, source: &mut *source, curator: &mut *curator, progress };
    let way = if let Batches::Stream { shape, batching, .. } = s.batches {
        whole.stream(shape, batching)?
    } else if !s.phases.is_empty() {
        whole.phases(plan.certificate.event())?
    } else if let Rule::Conversion(conversion) = &s.rule {
        let both = (&mut *source, &mut *curator);
        match &s.batches {
            Batches::Once(once) => o2nc_walk::walk_once((conversion, once, s), problem, start, both, progress)?,
            _ => o2nc_walk::walk((conversion, s), problem, start, both, progress)?,
        }
    } else if let (Batches::Once(once), Rule::HeavyBall { learning_rate, .. }) = (&s.batches, s.rule) {
        one_pass_walk::walk((once, s), problem, learning_rate, start, (&mut *source, &mut *curator), progress)?
    } else if let (Some(spider), Rule::HeavyBall { learning_rate, .. }) = (&s.spider, s.rule) {
        spider_walk::walk((spider, s), problem, learning_rate, start, (&mut *source, &mut *curator), progress)?
    } else if let Some(along) = s.along {
        whole.along(along)?
    } else {
        whole.sums()?
    };
    progress.finish();
    Ok(curator.postprocess(at(start, &way)))
}

/// Whether these are the records, the start and the objective that the plan was made for.
fn check(problem: &MinimizeProblem, start: &[f64], source: &dyn Source, curator: &mut Curator) -> Result<(), RunError> {
    let counted = source.public_count(curator).is_none_or(|records| records == problem.records);
    let dimension = problem.dimension;
    let fits = counted && start.len() == dimension && source.dimension().is_none_or(|d| d == dimension);
    // a plan that does not say what it rests on may not run on an outside objective
    if !fits || (source.is_remote() && !problem.remote) {
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
    Ok(())
}

/// The point at the end of a way from the start.
fn at(start: &[f64], way: &[f64]) -> Vec<f64> {
    start.iter().zip(way).map(|(x, w)| x + w).collect()
}

/// A run whose oracle gives a gradient at each step; one kind of oracle serves the whole run.
struct Run<'a> {
    s: &'a MinimizeSchedule,
    problem: &'a MinimizeProblem,
    start: &'a [f64],
    /// A way of no length.
    origin: &'a [f64],
    source: &'a mut dyn Source,
    curator: &'a mut Curator,
    progress: &'a dyn Progress,
}

impl<'a> Run<'a> {
    fn grid(&self) -> Grid {
        Grid::new(self.s.grid_exponent)
    }

    fn course(&self, records: u64) -> Course {
        Course { steps: self.s.steps, first_averaged: self.s.first_averaged(), per_record: self.s.per_record(records) }
    }

    /// The whole way, from the start, with all records.
    fn leg(&self) -> Leg<'a> {
        let course = self.course(self.problem.records);
        Leg { rule: self.s.rule, course, from: self.origin, centre: self.origin }
    }

    fn summing(&self) -> Summing {
        self.s.summing()
    }

    fn noise(&self, multiplier: f64) -> Gaussian {
        Gaussian::new(multiplier, self.s.clip_norm, self.grid(), self.problem.dimension, "gradient")
    }

    /// Batches of a stream, with noise that is correlated over them.
    fn stream(self, shape: StreamShape, batching: Batching) -> Result<Vec<f64>, RunError> {
        let (leg, grid) = (self.leg(), self.grid());
        let Self { s, problem, start, origin, source, curator, progress } = self;
        let streaming = Streaming {
            shape,
            batching,
            clip_norm: s.clip_norm,
            grid,
            noise_multiplier: s.noise_multiplier,
            dimension: problem.dimension,
            records: problem.records,
            relation: problem.relation(),
        };
        source.open(curator, streaming)?;
        if let Rule::Recursive { .. } = s.rule {
            let mut estimate = RecursiveEstimate::new(shape, problem.records, at(start, origin));
            let leg = Leg { course: Course { per_record: 1.0, ..leg.course }, ..leg };
            follow(s, problem, leg, progress, |w| {
                let x = at(start, w);
                let sum = source.next_recursive(estimate.step(), &x, estimate.before())?;
                Ok(sum.map(|sum| estimate.with(sum, x)))
            })
        } else {
            follow(s, problem, leg, progress, |w| source.next(&at(start, w)))
        }
    }

    /// Phases: of blocks, each has a curator that reads no other; of rounds, all have the run's.
    fn phases(self, event: &Event) -> Result<Vec<f64>, RunError> {
        let Self { s, problem, start, origin, .. } = self;
        let sizes = s.blocks(problem.records);
        let mut blocks = match (s.goal, event) {
            (Goal::Population, Event::Parallel { blocks }) => {
                let sizes: Vec<usize> = sizes.iter().map(|&records| records as usize).collect();
                self.curator.open(&Blocks::of_sizes(&sizes, blocks.clone())?.shuffled())?
            }
            // a phase may never read beyond its block
            (Goal::Population, _) => return Err(CuratorError::Shape.into()),
            _ => Vec::new(),
        };
        let mut way = origin.to_vec();
        for (i, phase) in s.phases.iter().enumerate() {
            let &Phase { records, rule, smoothing, noise_multiplier, .. } = phase;
            let centre = if s.goal == Goal::Population { &way[..] } else { origin };
            let (noise, how) = (self.noise(noise_multiplier), Summing { smoothing, ..self.summing() });
            let mut points = Vec::with_capacity(s.chunks as usize);
            for chunk in i * s.chunks as usize..(i + 1) * s.chunks as usize {
                let own = if s.goal == Goal::Population { sizes[chunk] } else { records };
                let leg = Leg { rule, course: self.course(own), from: &way, centre };
                let keeper = blocks.get_mut(chunk).unwrap_or(&mut *self.curator);
                points.push(follow(s, problem, leg, self.progress, |w| {
                    let sum = self.source.gradients(keeper, how, &at(start, w))?;
                    Ok(keeper.release(&noise, &sum)?)
                })?);
            }
            // of points that were released
            way = points.swap_remove(central(&points));
        }
        Ok(way)
    }

    /// Derivatives along random directions.
    fn along(self, along: DirectionSchedule) -> Result<Vec<f64>, RunError> {
        let (leg, how, grid) = (self.leg(), self.summing(), self.grid());
        let Self { s, problem, start, source, curator, progress, .. } = self;
        let count = along.directions;
        let noise = Gaussian::new(s.noise_multiplier, s.clip_norm, grid, count, "directional derivatives");
        follow(s, problem, leg, progress, |w| {
            let mut coins = curator.public_coins();
            let directions = Directions::draw(count, problem.dimension, along.difference, &mut coins);
            let sum = source.derivatives(curator, how, &at(start, w), &directions)?;
            Ok(curator.release(&noise, &sum)?.map(|sums| directions.estimate(&sums)))
        })
    }

    /// Follows noisy sums of gradients.
    fn sums(self) -> Result<Vec<f64>, RunError> {
        let (leg, how, noise) = (self.leg(), self.summing(), self.noise(self.s.noise_multiplier));
        let Self { s, problem, start, source, curator, progress, .. } = self;
        follow(s, problem, leg, progress, |w| {
            let sum = source.gradients(curator, how, &at(start, w))?;
            Ok(curator.release(&noise, &sum)?)
        })
    }
}

/// The way from the start.
fn follow(
    s: &MinimizeSchedule,
    problem: &MinimizeProblem,
    leg: Leg<'_>,
    progress: &dyn Progress,
    oracle: impl FnMut(&[f64]) -> Result<Released<Vec<f64>>, RunError>,
) -> Result<Vec<f64>, RunError> {
    let Leg { rule, course, from, centre } = leg;
    let d = problem.dimension;
    let start = from.to_vec();
    let curvature = s.regularization / problem.records as f64;
    let mut way = match rule {
        Rule::HeavyBall { learning_rate, momentum } => {
            let driver = HeavyBall::new(d, momentum, None, |_| (learning_rate, 1.0));
            let drawn = Drawn { driver, curvature, centre, gradient: Vec::new() };
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
        Rule::Shrinking { strong_convexity, added_curvature } => {
            let driver = Shrinking::new(d, strong_convexity, s.domain);
            let mut drawn = Drawn { driver, curvature: added_curvature, centre, gradient: Vec::new() };
            drive(&mut drawn, course, start, progress, oracle)?;
            drawn.driver.answer().to_vec()
        }
        Rule::Proximal { strong_convexity, added_curvature } => {
            let mut driver = Proximal::new(strong_convexity, added_curvature, centre, s.domain);
            drive(&mut driver, course, start, progress, oracle)?;
            driver.answer().to_vec()
        }
        Rule::Net(_) | Rule::Tree(_) | Rule::Conversion(_) | Rule::Own => {
            return Err(RunError::Numerical("it has a walk of its own"));
        }
        Rule::Recursive { smoothness } => {
            let mut driver = Accelerated::new(&start, smoothness, 0.0, s.domain);
            drive(&mut driver, course, start, progress, oracle)?;
            driver.answer().to_vec()
        }
        Rule::Accelerated { smoothness, strong_convexity, added_curvature } => {
            let driver = Accelerated::new(&start, smoothness, strong_convexity, s.domain);
            let mut drawn = Drawn { driver, curvature: added_curvature, centre, gradient: Vec::new() };
            drive(&mut drawn, course, start, progress, oracle)?;
            drawn.driver.answer().to_vec()
        }
    };
    // a mean of points of the domain lies in it up to rounding
    s.domain.keep(&mut way);
    Ok(way)
}
