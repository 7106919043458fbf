//! Online-to-nonconvex conversion: clipped online descent chooses steps, gradients are asked for at a random point of each, and blocks of these points are averaged
//! (Liu 2024, Algorithm 23). Along released estimates all of it is post-processing: coins and the drawn block depend on no record.
//!
//! Covers: thesis algorithm 23 (certified: along released estimates only)

use super::around::Fresh;
use super::o2nc_schedule::{ConversionSchedule, KeptBlock};
use super::one_pass_schedule::OnePassSchedule;
use super::problem::MinimizeProblem;
use super::schedule::MinimizeSchedule;
use super::source::Source;
use super::spider_walk::{GREW, Oracles, add, distance, norm};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, Leaf, RestartedPlan};
use dpopt_noise::{Grid, Stream};
use dpopt_optimize::RunError;
use dpopt_optimize::choices::Domain;

/// x, and the step that it takes next.
pub(super) struct Conversion {
    reach: f64,
    learning_rate: f64,
    domain: Domain,
    step: Vec<f64>,
    x: Vec<f64>,
}

impl Conversion {
    /// The descent at 0, with a step of 0.
    pub(super) fn new(dimension: usize, reach: f64, learning_rate: f64, domain: Domain) -> Self {
        Self { reach, learning_rate, domain, step: vec![0.0; dimension], x: vec![0.0; dimension] }
    }

    /// Takes the step, and says where a share `s` of it leads.
    pub(super) fn advance(&mut self, s: f64) -> Vec<f64> {
        let mut z: Vec<f64> = self.x.iter().zip(&self.step).map(|(x, step)| x + s * step).collect();
        self.domain.keep(&mut z);
        self.x.iter_mut().zip(&self.step).for_each(|(x, step)| *x += step);
        self.domain.keep(&mut self.x);
        z
    }

    /// The next step, after the estimate `g`.
    pub(super) fn learn(&mut self, g: &[f64]) {
        self.step.iter_mut().zip(g).for_each(|(step, g)| *step -= self.learning_rate * g);
        let length = norm(&self.step);
        if length > self.reach {
            self.step.iter_mut().for_each(|step| *step *= self.reach / length);
        }
    }
}

/// Means of M points and estimates after the other; what is kept is one point.
pub(super) struct Averages {
    length: u64,
    /// The block that was drawn; `None`: the one of the smallest mean estimate.
    drawn: Option<u64>,
    taken: u64,
    points: Vec<f64>,
    estimates: Vec<f64>,
    kept: Option<(f64, Vec<f64>)>,
    /// The last one that is full.
    last: Option<Vec<f64>>,
}

impl Averages {
    /// Means of blocks of `length` points.
    pub(super) fn new(dimension: usize, length: u64, drawn: Option<u64>) -> Self {
        Self {
            length,
            drawn,
            taken: 0,
            points: vec![0.0; dimension],
            estimates: vec![0.0; dimension],
            kept: None,
            last: None,
        }
    }

    /// The mean point of a block that is full now.
    pub(super) fn push(&mut self, point: &[f64], estimate: &[f64]) -> Option<Vec<f64>> {
        add(&mut self.points, point);
        add(&mut self.estimates, estimate);
        self.taken += 1;
        if !self.taken.is_multiple_of(self.length) {
            return None;
        }
        let mean: Vec<f64> = self.points.iter().map(|p| p / self.length as f64).collect();
        let size = norm(&self.estimates);
        let block = self.taken / self.length - 1;
        let better = match self.drawn {
            Some(drawn) => drawn == block,
            None => self.kept.as_ref().is_none_or(|(least, _)| size < *least),
        };
        if better {
            self.kept = Some((size, mean.clone()));
        }
        self.points.fill(0.0);
        self.estimates.fill(0.0);
        self.last = Some(mean.clone());
        Some(mean)
    }

    /// The block's mean; of a run that ended before it, the last block's, or of what there is of the first.
    pub(super) fn answer(self) -> Vec<f64> {
        let begun = (self.taken % self.length).max(1) as f64;
        let kept = self.kept.map(|(_, point)| point).or(self.last);
        kept.unwrap_or_else(|| self.points.iter().map(|p| p / begun).collect())
    }
}

/// The way to the mean of a block along what `estimate` says of a step, of where it asks and of where the step before asked; none: the end.
fn follow(
    (conversion, s): (&ConversionSchedule, &MinimizeSchedule),
    start: &[f64],
    mut coins: Stream,
    progress: &dyn Progress,
    mut estimate: impl FnMut(u64, &[f64], &[f64]) -> Result<Option<Vec<f64>>, RunError>,
) -> Result<Vec<f64>, RunError> {
    let c = conversion;
    let (d, length) = (start.len(), c.block_steps.max(1));
    let drawn = (c.block == KeptBlock::Uniform).then(|| coins.below((s.steps / length).max(1)));
    let mut online = Conversion::new(d, c.reach, c.learning_rate, s.domain);
    let mut averages = Averages::new(d, length, drawn);
    let mut before = start.to_vec();
    for step in 0..s.steps {
        let way = online.advance(coins.uniform());
        let z: Vec<f64> = start.iter().zip(&way).map(|(x, w)| x + w).collect();
        if z.iter().any(|z| !z.is_finite()) {
            return Err(GREW);
        }
        let Some(found) = estimate(step, &z, &before)? else { break };
        online.learn(&found);
        averages.push(&way, &found);
        before = z;
        progress.tick();
    }
    Ok(averages.answer())
}

/// Along all records, in periods of one gradient and its changes.
pub(super) fn walk(
    (conversion, s): (&ConversionSchedule, &MinimizeSchedule),
    problem: &MinimizeProblem,
    start: &[f64],
    (source, curator): (&mut dyn Source, &mut Curator),
    progress: &dyn Progress,
) -> Result<Vec<f64>, RunError> {
    let coins = curator.public_coins();
    let fresh = Fresh::new(conversion.around, curator.public_coins());
    let mut oracles = Oracles {
        source,
        curator,
        clip_norm: s.clip_norm,
        difference_clip: conversion.change_clip,
        most_change: 2.0 * s.clip_norm,
        around: Some(fresh),
        grid: Grid::new(s.grid_exponent),
        records: problem.records,
    };
    let mut estimate = vec![0.0; start.len()];
    follow((conversion, s), start, coins, progress, |step, z, before| {
        if step % conversion.period == 0 {
            estimate = oracles.fresh(z, conversion.fresh_multiplier)?;
        } else {
            add(&mut estimate, &oracles.change(z, before, conversion.change_multiplier)?);
        }
        Ok(Some(estimate.clone()))
    })
}

/// Along records that are read once. It ends when the next batch would be larger than what is unread: sizes follow from released points, so that this is public.
pub(super) fn walk_once(
    (conversion, once, s): (&ConversionSchedule, &OnePassSchedule, &MinimizeSchedule),
    problem: &MinimizeProblem,
    start: &[f64],
    (source, curator): (&mut dyn Source, &mut Curator),
    progress: &dyn Progress,
) -> Result<Vec<f64>, RunError> {
    let coins = curator.public_coins();
    let mut fresh = Fresh::new(conversion.around, curator.public_coins());
    let mut sums = curator.open(&RestartedPlan {
        records: problem.records,
        dimension: problem.dimension,
        leaves: once.leaves,
        steps: s.steps,
        clip_norm: once.leaf_clip,
        grid: Grid::new(s.grid_exponent),
        noise_multiplier: s.noise_multiplier,
        relation: problem.neighbours.relation,
    })?;
    follow((conversion, s), start, coins, progress, |_, z, before| {
        let way = distance(z, before);
        let (leaf, size, of_vector) = match sums.leaves_left() {
            0 => (Leaf::First, once.first_batch, s.clip_norm),
            _ => (Leaf::Next, once.batch_after(way), conversion.clip_of_change(s.clip_norm, way)),
        };
        if size > sums.unused() || sums.steps_left() == 0 {
            return Ok(None);
        }
        let how = (size, once.clip_of(of_vector, size));
        Ok(Some(source.leaf_around(&mut sums, leaf, how, fresh.next(), z, before)?.into_inner()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Liu 2024, Algorithm 23, by hand: |x| with exact signs from 1, D = .1, M = 5, G₁ = 1, η = D/(G₁√M), every share ½.
    #[test]
    fn the_way_and_its_means_are_the_published_ones() {
        let rate = 0.1 / 5f64.sqrt();
        assert!((rate - 0.044_721_359_5).abs() < 1e-10);
        let mut online = Conversion::new(1, 0.1, rate, Domain::Unconstrained);
        let mut averages = Averages::new(1, 5, None);
        let (mut way, mut means) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let z = online.advance(0.5)[0] + 1.0;
            online.learn(&[z.signum()]);
            means.extend(averages.push(&[z], &[z.signum()]));
            way.push(z);
        }
        let expected =
            [1.0, 0.977_639, 0.910_557, 0.815_836, 0.715_836, 0.615_836, 0.515_836, 0.415_836, 0.315_836, 0.215_836];
        way.iter().zip(expected).for_each(|(z, e)| assert!((z - e).abs() < 6e-7, "{z} {e}"));
        let expected = [0.883_974, 0.415_836, -0.061_803, -0.028_505];
        assert_eq!(means.len(), 4);
        means.iter().zip(expected).for_each(|(m, e)| assert!((m[0] - e).abs() < 6e-7, "{m:?} {e}"));
        // signs of the third block come to 1, of the fourth to less than the others' five
        let kept = averages.answer()[0];
        assert!((kept - expected[2]).abs() < 6e-7 || (kept - expected[3]).abs() < 6e-7, "{kept}");
    }

    #[test]
    fn a_drawn_block_is_the_answer_whatever_was_released() {
        // of a run that ends before the block that was drawn, the last one
        for (drawn, expected) in [(Some(0), 1.5), (Some(2), 5.5), (None, 3.5), (Some(9), 5.5)] {
            let mut averages = Averages::new(1, 2, drawn);
            for (i, estimate) in [4.0, 4.0, 1.0, -1.0, 3.0, 3.0, 0.0].into_iter().enumerate() {
                averages.push(&[i as f64 + 1.0], &[estimate]);
            }
            assert_eq!(averages.answer(), vec![expected]);
        }
        let mut begun = Averages::new(1, 5, Some(0));
        begun.push(&[1.0], &[1.0]);
        begun.push(&[2.0], &[1.0]);
        assert_eq!((begun.answer(), Averages::new(1, 5, None).answer()), (vec![1.5], vec![0.0]));
    }

    #[test]
    fn steps_are_never_longer_than_the_reach_and_stay_in_the_domain() {
        let mut online = Conversion::new(2, 0.1, 1.0, Domain::Ball { radius: 0.35 });
        let mut before = vec![0.0; 2];
        for i in 0..20 {
            let z = online.advance(f64::from(i % 3) / 2.0);
            let way: f64 = z.iter().zip(&before).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
            assert!(way <= 0.2 + 1e-12 && norm(&z) <= 0.35 + 1e-12);
            online.learn(&[-3.0, 4.0]);
            assert!(norm(&online.step) <= 0.1 + 1e-12);
            before = z;
        }
        assert!(norm(&before) > 0.34);
        // a step of 0 stays one
        let mut resting = Conversion::new(2, 0.1, 1.0, Domain::Unconstrained);
        resting.learn(&[0.0, 0.0]);
        assert_eq!(resting.advance(0.7), vec![0.0, 0.0]);
    }
}
