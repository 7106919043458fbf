//! Spider's iterations: x ← x − (1/M)·v along an estimate v of the gradient that changes of the gradient keep up to date (Liu 2024, Algorithm 17).

use super::around::Fresh;
use super::problem::MinimizeProblem;
use super::schedule::{MinimizeSchedule, sum_grid};
use super::source::{Source, Summing, Whom};
use super::spider_schedule::{Escape, SpiderSchedule};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Gaussian};
use dpopt_noise::{Grid, Stream};
use dpopt_optimize::RunError;

/// Below this clips are as good as 0, and too small for a grid; above the other they are too large for one.
const LEAST_CLIP: f64 = 1e-80;
const MAX_CLIP: f64 = 1e80;

/// Of points that were released: it says nothing that they do not say.
pub(super) const GREW: RunError = RunError::Numerical(
    "the steps grew without bound: smoothness is below the curvature of the loss, or the noise outweighs the \
     records; give a larger smoothness, or use a larger epsilon or more records",
);

/// Both kinds of releases, as means over the records.
pub(super) struct Oracles<'a> {
    pub(super) source: &'a mut dyn Source,
    pub(super) curator: &'a mut Curator,
    pub(super) clip_norm: f64,
    /// A change is clipped to so many times the way, and never to more than `most_change`.
    pub(super) difference_clip: f64,
    pub(super) most_change: f64,
    /// `None`: gradients at the point itself.
    pub(super) around: Option<Fresh>,
    pub(super) grid: Grid,
    pub(super) records: u64,
}

impl Oracles<'_> {
    fn how(&self, clip_norm: f64, grid: Grid) -> Summing {
        Summing { clip_norm, grid, whom: Whom::All, smoothing: 0.0 }
    }

    fn mean(&self, sum: Vec<f64>) -> Vec<f64> {
        let n = self.records as f64;
        sum.into_iter().map(|s| s / n).collect()
    }

    /// The gradient at `x`.
    pub(super) fn fresh(&mut self, x: &[f64], multiplier: f64) -> Result<Vec<f64>, RunError> {
        let how = self.how(self.clip_norm, self.grid);
        let sum = match &mut self.around {
            None => self.source.gradients(self.curator, how, x)?,
            Some(fresh) => self.source.around(self.curator, how, fresh.next(), x, None)?,
        };
        let noise = Gaussian::new(multiplier, self.clip_norm, self.grid, x.len(), "gradient");
        let sum = self.curator.release(&noise, &sum)?.into_inner();
        Ok(self.mean(sum))
    }

    /// By how much it has changed since `before`; where nothing moved nothing is released, since that says nothing of anybody.
    pub(super) fn change(&mut self, x: &[f64], before: &[f64], multiplier: f64) -> Result<Vec<f64>, RunError> {
        let way = distance(x, before);
        if way == 0.0 {
            return Ok(vec![0.0; x.len()]);
        }
        // of released points: public
        let clip = (self.difference_clip * way).min(self.most_change);
        if clip.is_nan() || clip > MAX_CLIP {
            return Err(GREW);
        }
        let clip = clip.max(LEAST_CLIP);
        let grid = sum_grid(clip, multiplier * clip, self.records, x.len());
        let how = self.how(clip, grid);
        let sum = match &mut self.around {
            None => self.source.changes(self.curator, how, x, before)?,
            Some(fresh) => self.source.around(self.curator, how, fresh.next(), x, Some(before))?,
        };
        let noise = Gaussian::new(multiplier, clip, grid, x.len(), "change of the gradient");
        let sum = self.curator.release(&noise, &sum)?.into_inner();
        Ok(self.mean(sum))
    }
}

pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

pub(super) fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

pub(super) fn add(to: &mut [f64], more: &[f64]) {
    to.iter_mut().zip(more).for_each(|(a, b)| *a += b);
}

/// Extra noise of steps along small estimates, from coins that no record has a part in.
pub(super) struct Escapes {
    rule: Option<Escape>,
    coins: Stream,
    /// Norm of the step before.
    norm: f64,
    frozen: u64,
}

impl Escapes {
    /// Before the first step, which has none.
    pub(super) fn new(rule: Option<Escape>, coins: Stream) -> Self {
        Self { rule, coins, norm: f64::INFINITY, frozen: 1 }
    }

    /// What the step goes along.
    pub(super) fn along(&mut self, estimate: &[f64]) -> Vec<f64> {
        let mut along = estimate.to_vec();
        let small = self.rule.filter(|rule| self.norm <= rule.threshold && self.frozen == 0);
        if let Some(rule) = small {
            along.iter_mut().for_each(|v| *v += rule.noise_std * self.coins.standard_normal());
            self.frozen = rule.window;
        } else {
            self.frozen = self.frozen.saturating_sub(1);
        }
        self.norm = norm(estimate);
        along
    }
}

/// The way from `start`.
pub(super) fn walk(
    (spider, s): (&SpiderSchedule, &MinimizeSchedule),
    problem: &MinimizeProblem,
    step_size: f64,
    start: &[f64],
    (source, curator): (&mut dyn Source, &mut Curator),
    progress: &dyn Progress,
) -> Result<Vec<f64>, RunError> {
    let at = |way: &[f64]| -> Vec<f64> { start.iter().zip(way).map(|(x, w)| x + w).collect() };
    let step = |way: &mut [f64], along: &[f64]| {
        way.iter_mut().zip(along).for_each(|(w, v)| *w -= step_size * v);
        s.domain.keep(way);
        progress.tick();
        if way.iter().all(|w| w.is_finite()) { Ok(()) } else { Err(GREW) }
    };
    let mut escapes = Escapes::new(spider.escape, curator.public_coins());
    let mut oracles = Oracles {
        source,
        curator,
        clip_norm: s.clip_norm,
        difference_clip: spider.difference_clip,
        most_change: f64::INFINITY,
        around: None,
        grid: Grid::new(s.grid_exponent),
        records: problem.records,
    };
    let mut way = vec![0.0; start.len()];
    let (mut x, mut before) = (at(&way), at(&way));
    let mut estimate = vec![0.0; start.len()];
    let (mut fresh, mut changes, mut drift) = (spider.fresh_gradients, s.steps, f64::INFINITY);
    while changes > 0 {
        if drift >= spider.drift {
            if fresh == 0 {
                // an estimate that has drifted and cannot be renewed would lead nowhere
                break;
            }
            estimate = oracles.fresh(&x, spider.fresh_multiplier)?;
            (fresh, drift) = (fresh - 1, 0.0);
        } else {
            add(&mut estimate, &oracles.change(&x, &before, spider.change_multiplier)?);
            changes -= 1;
        }
        step(&mut way, &escapes.along(&estimate))?;
        before = std::mem::replace(&mut x, at(&way));
        drift += distance(&x, &before).powi(2);
    }
    let Some(last) = spider.second_stage else { return Ok(way) };
    // all gradients that the walk left, each by its precision
    let precision = |z: f64| 1.0 / (z * z);
    let mut all = precision(last.fresh_multiplier);
    estimate = oracles.fresh(&x, last.fresh_multiplier)?;
    estimate.iter_mut().for_each(|v| *v *= all);
    for _ in 0..fresh {
        let weight = precision(spider.fresh_multiplier);
        let more: Vec<f64> = oracles.fresh(&x, spider.fresh_multiplier)?.iter().map(|v| weight * v).collect();
        add(&mut estimate, &more);
        all += weight;
        progress.tick();
    }
    estimate.iter_mut().for_each(|v| *v /= all);
    drift = 0.0;
    for _ in 0..last.changes {
        step(&mut way, &estimate)?;
        before = std::mem::replace(&mut x, at(&way));
        drift += distance(&x, &before).powi(2);
        if drift >= spider.drift {
            return Ok(way);
        }
        add(&mut estimate, &oracles.change(&x, &before, last.change_multiplier)?);
    }
    step(&mut way, &estimate)?;
    Ok(way)
}
