//! User-defined methods: a method outside of this crate decides where to ask next, and sees released values only.

use super::problem::MinimizeProblem;
use super::schedule::MinimizeSchedule;
use super::source::Source;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Gaussian};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::RunError;
use dpopt_optimize::choices::Domain;
use std::collections::BTreeMap;
use std::fmt;

/// What moves x in a user-defined method. It sees noisy mean gradients and nothing else, so all that it does is post-processing.
pub trait Walk: fmt::Debug + Send + Sync {
    /// The way from the start to the answer: d numbers. What lies outside of the domain is brought back to it. It is taken once along made-up gradients while
    /// it is planned ([`MinimizePlan::along`](crate::MinimizePlan::along)), and must not remember that.
    ///
    /// # Errors
    /// Those of the oracle, or what makes a walk end early: an error is seen by everybody, so it must follow from what was released.
    fn walk(&self, oracle: &mut Oracle<'_>) -> Result<Vec<f64>, RunError>;

    /// Public numbers of its own, for reports.
    fn numbers(&self) -> BTreeMap<&'static str, f64> {
        BTreeMap::new()
    }
}

/// Noisy mean gradients for a [`Walk`]: at most as many as the plan has steps.
pub struct Oracle<'a> {
    schedule: &'a MinimizeSchedule,
    problem: &'a MinimizeProblem,
    of: Gradients<'a>,
    asked: u64,
}

/// Where the gradients come from: records, or made-up values.
enum Gradients<'a> {
    Records {
        start: &'a [f64],
        source: &'a mut dyn Source,
        curator: &'a mut Curator,
        progress: &'a dyn Progress,
    },
    /// Made-up gradients: noise and nothing else.
    MadeUp(Lcg),
}

/// What a method along gradients of records needs.
pub(super) struct Along<'a> {
    pub(super) start: &'a [f64],
    pub(super) source: &'a mut dyn Source,
    pub(super) curator: &'a mut Curator,
    pub(super) progress: &'a dyn Progress,
}

/// Runs `walk` inside of the domain and returns the point where it ends.
///
/// # Errors
/// Errors of the method; or it asks too often, or ends at something else than d finite numbers.
pub(super) fn way(
    walk: &dyn Walk,
    schedule: &MinimizeSchedule,
    problem: &MinimizeProblem,
    Along { start, source, curator, progress }: Along<'_>,
) -> Result<Vec<f64>, RunError> {
    taken(walk, Oracle { schedule, problem, of: Gradients::Records { start, source, curator, progress }, asked: 0 })
}

/// Takes the way along made-up gradients, before anything is charged: what a walk does wrong whatever it sees is known then.
///
/// # Errors
/// As [`way`].
pub(super) fn rehearse(
    walk: &dyn Walk,
    schedule: &MinimizeSchedule,
    problem: &MinimizeProblem,
) -> Result<(), RunError> {
    let oracle = Oracle { schedule, problem, of: Gradients::MadeUp(Lcg::new(1)), asked: 0 };
    taken(walk, oracle).map(drop)
}

fn taken(walk: &dyn Walk, mut oracle: Oracle<'_>) -> Result<Vec<f64>, RunError> {
    let mut way = walk.walk(&mut oracle)?;
    if way.len() != oracle.dimension() || way.iter().any(|w| !w.is_finite()) {
        return Err(RunError::Numerical(
            "the optimizer returned a point that does not have as many finite numbers as \
                                        x",
        ));
    }
    oracle.domain().keep(&mut way);
    Ok(way)
}

impl Oracle<'_> {
    /// How many numbers x has.
    pub fn dimension(&self) -> usize {
        self.problem.dimension
    }

    /// How many gradients may be asked for.
    pub fn steps(&self) -> u64 {
        self.schedule.steps
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.schedule.steps - self.asked
    }

    /// Where the way from the start may lie.
    pub fn domain(&self) -> Domain {
        self.schedule.domain
    }

    /// Standard deviation of the noise of a mean gradient, per coordinate.
    pub fn noise_std(&self) -> f64 {
        self.schedule.noise_std * self.schedule.per_record(self.problem.records)
    }

    /// The mean of the records' clipped gradients at the start and `way`, with noise: over all records, or over a fresh batch of them, divided by the public
    /// size that is expected.
    ///
    /// # Errors
    /// If none is left, `way` has not d finite numbers, or records can't be read.
    pub fn mean_gradient(&mut self, way: &[f64]) -> Result<Vec<f64>, RunError> {
        if self.left() == 0 {
            return Err(RunError::Numerical("the optimizer used up the gradients of its plan; plan more steps"));
        }
        if way.len() != self.dimension() || way.iter().any(|w| !w.is_finite()) {
            return Err(RunError::Numerical(
                "the optimizer asked for a gradient at a point that does not have as many \
                                            finite numbers as x",
            ));
        }
        self.asked += 1;
        let (d, noise_std) = (self.dimension(), self.noise_std());
        let (start, source, curator, progress) = match &mut self.of {
            Gradients::Records { start, source, curator, progress } => (*start, source, curator, *progress),
            Gradients::MadeUp(random) => return Ok((0..d).map(|_| noise_std * random.normal()).collect()),
        };
        let x: Vec<f64> = start.iter().zip(way).map(|(x, w)| x + w).collect();
        let how = self.schedule.summing();
        let noise = Gaussian::new(self.schedule.noise_multiplier, how.clip_norm, how.grid, d, "gradient");
        let sum = source.gradients(curator, how, &x)?;
        let mut mean = curator.release(&noise, &sum)?.into_inner();
        let per_record = self.schedule.per_record(self.problem.records);
        mean.iter_mut().for_each(|g| *g *= per_record);
        progress.tick();
        Ok(mean)
    }
}
