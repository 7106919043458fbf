//! Gradient sums of a stream of batches with noise that cancels over time: all steps are *one* Gaussian release (spec 19 §5,
//! spec 07 §1, docs/proofs/correlated.md).
//!
//! Each record is in one batch of every epoch, by its position, which is public: epochs are passes over the same batches in
//! the same order, so two participations of a record are exactly one epoch apart. There is no amplification by sampling.

use super::clipped::Clipped;
use super::vectors::BatchSum;
use crate::curator::door::{Interactive, Opening, sealed};
use crate::curator::seen::Seen;
use crate::refused::CuratorError;
use crate::{Released, Sensitive};
use dpopt_noise::correlated::{CorrelatedNoise, Factor, Participation, TreeNoise, tree_depth};
use dpopt_noise::{Grid, Purpose, RoundedGaussian, Stream};
use dpopt_objective::objective::{Linear, Objective};
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Event, Relation};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How the noises of the steps are correlated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// Buffered linear Toeplitz with four buffers: near the best for one epoch, memory 4·d.
    #[default]
    Blt,
    /// Square root of the prefix-sum matrix, as many bands as an epoch has steps: best for several epochs, memory d per band.
    Banded,
    /// Binary tree, a fresh one for every epoch: the classic, memory d·log2(steps).
    Tree,
    /// Independent noise, for comparison.
    Independent,
}

/// Public numbers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StreamShape {
    /// Batches of an epoch.
    pub batches: usize,
    /// T, over all epochs.
    pub steps: usize,
    /// How noises are correlated.
    pub correlation: Correlation,
}

impl StreamShape {
    /// Passes over the data, the last one possibly cut short.
    pub fn epochs(&self) -> usize {
        self.steps.div_ceil(self.batches)
    }

    /// The factor that correlates the noise of steps; `None` for a tree, which has its own.
    pub fn factor(&self) -> Result<Option<Factor>, CuratorError> {
        let factor = match self.correlation {
            Correlation::Blt => Factor::blt_default(4),
            Correlation::Banded => Factor::square_root(self.batches.min(self.steps)),
            Correlation::Independent => Ok(Factor::identity()),
            Correlation::Tree => return Ok(None),
        };
        factor.map(Some).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    /// l2 sensitivity of the whole stream per unit of the clip norm (zero-out; the accountant doubles it for replace-one).
    pub fn sensitivity(&self) -> Result<f64, CuratorError> {
        let participation = Participation::Separated { separation: self.batches, count: self.epochs() };
        Ok(match self.factor()? {
            Some(factor) => factor.sensitivity(self.steps, participation),
            None => (self.epochs() as f64 * f64::from(tree_depth(self.batches as u64))).sqrt() * (1.0 + 1e-12),
        })
    }

    /// Standard deviation of the noise of the sum of all steps, per unit of that of one normal variable.
    pub fn final_error(&self) -> Result<f64, CuratorError> {
        Ok(match self.factor()? {
            Some(factor) => factor.prefix_errors(self.steps).last().copied().unwrap_or(0.0),
            None => {
                let (whole, rest) = (self.steps / self.batches, self.steps % self.batches);
                ((whole as u32 * self.batches.count_ones() + rest.count_ones()) as f64).sqrt()
            }
        })
    }

    /// Bound on the total-variation distance of all noises of `dimension` coordinates from the exact law.
    pub fn total_variation(&self, noise_std: f64, grid: Grid, dimension: usize) -> Result<f64, CuratorError> {
        let samples = self.steps as f64 * dimension as f64;
        Ok(match self.factor()? {
            Some(factor) => {
                let one = CorrelatedNoise::new(factor, noise_std, grid, 1, self.steps)
                    .map_err(|e| CuratorError::Noise(e.to_string()))?;
                one.total_variation() * dimension as f64
            }
            None => samples * 2f64.powi(-110),
        })
    }
}

const LABEL: &str = "gradients of a stream";

enum StreamNoise {
    Factor(CorrelatedNoise),
    Tree {
        node: RoundedGaussian,
        tree: TreeNoise,
        /// Sum of the exact gradient sums of this epoch.
        exact: Vec<i64>,
        /// What was released of it last.
        released: Vec<i64>,
    },
}

/// The noisy gradient sums of a stream, one call per step. Made by [`Curator::open`](crate::Curator::open), which
/// charges all steps at once. Neither printable nor cloneable: it holds noise that later steps take back.
pub struct GradientStream<O = Linear> {
    shape: StreamShape,
    gradient: Clipped<O>,
    dimension: usize,
    records: u64,
    step: usize,
    noise: StreamNoise,
    randomness: Stream,
    /// Of a watched curator.
    seen: Option<Seen>,
}

/// What a stream is calibrated for.
pub struct StreamPlan<O = Linear> {
    /// Steps, batches and correlation.
    pub shape: StreamShape,
    /// Clips and adds up the objective's gradients.
    pub gradient: Clipped<O>,
    /// z: noise of a normal variable over clip norm times sensitivity.
    pub noise_multiplier: f64,
    /// Number of weights.
    pub dimension: usize,
    /// Public number of records.
    pub records: u64,
    /// Which data sets are neighbours: not add-or-remove, which would move all other records to other batches.
    pub relation: Relation,
}

impl<O> StreamPlan<O> {
    /// Standard deviation of a normal variable of the noise.
    fn noise_std(&self) -> Result<f64, CuratorError> {
        // each product is rounded once: next_up makes the noise at least what was accounted
        let scale = (self.gradient.clip_norm() * self.shape.sensitivity()?).next_up();
        Ok((self.noise_multiplier * scale).next_up())
    }
}

impl<O> sealed::Sealed for StreamPlan<O> {}

impl<O: Clone> Interactive for StreamPlan<O> {
    type Opened = GradientStream<O>;

    /// All steps together.
    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        if self.shape.batches == 0 || self.shape.steps == 0 || self.relation == Relation::AddOrRemove {
            return Err(CuratorError::Shape);
        }
        self.shape.total_variation(self.noise_std()?, self.gradient.grid(), self.dimension)
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: Opening<'_>) -> Result<GradientStream<O>, CuratorError> {
        let noise = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let (shape, d) = (self.shape, self.dimension);
        if shape.batches == 0 || shape.steps == 0 {
            return Err(CuratorError::Shape);
        }
        let grid = self.gradient.grid();
        let std = self.noise_std()?;
        let source = match shape.factor()? {
            Some(factor) => {
                StreamNoise::Factor(CorrelatedNoise::new(factor, std, grid, d, shape.steps).map_err(|e| noise(&e))?)
            }
            None => {
                let node = RoundedGaussian::new(std, grid).map_err(|e| noise(&e))?;
                let tree = TreeNoise::new(node.clone(), d, shape.batches as u64);
                StreamNoise::Tree { node, tree, exact: vec![0; d], released: vec![0; d] }
            }
        };
        Ok(GradientStream {
            shape,
            gradient: self.gradient.clone(),
            dimension: d,
            records: self.records,
            step: 0,
            noise: source,
            randomness: opening.noise.stream(Purpose::Correlated, 0),
            seen: opening.seen,
        })
    }
}

impl<O> GradientStream<O> {
    /// The noisy sum of clipped gradients of the next batch at `weights`.
    ///
    /// # Errors
    /// If all planned steps are used up, the data have another shape, or records can't be read back from disk.
    pub fn next<R: RecordSet>(
        &mut self,
        examples: &Sensitive<R>,
        weights: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError>
    where
        O: Objective<R>,
    {
        if weights.len() != self.dimension || examples.expose().len() as u64 != self.records {
            return Err(CuratorError::Shape);
        }
        let range = self.positions()?;
        let sum = self.gradient.sum_range(examples, range, weights).map_err(CuratorError::unreadable)?;
        self.noisy(sum)
    }

    /// The same where the records' gradients are made elsewhere: `add` is given the positions of the next batch, and adds one vector for each of its records, in any
    /// number of parts.
    ///
    /// # Errors
    /// If all planned steps are used up; as `add`, and then the step is not: it can be tried again.
    pub fn next_in_parts<E: From<CuratorError>>(
        &mut self,
        add: impl FnOnce(Range<usize>, &mut BatchSum) -> Result<(), E>,
    ) -> Result<Released<Vec<f64>>, E> {
        let range = self.positions()?;
        let mut sum = BatchSum::of_positions(self.gradient.quantizer(), range.clone(), self.dimension);
        add(range, &mut sum)?;
        // it was out of these hands: another sum in its place has another clip, or another batch
        let units = sum.into_units_of(self.gradient.quantizer(), self.dimension).ok_or(CuratorError::Shape)?;
        Ok(self.noisy(units)?)
    }

    /// Of the next batch.
    fn positions(&self) -> Result<Range<usize>, CuratorError> {
        if self.step == self.shape.steps {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        let batch = (self.step % self.shape.batches) as u128;
        let (n, m) = (u128::from(self.records), self.shape.batches as u128);
        // whole and disjoint for every n and m
        Ok((n * batch / m) as usize..(n * (batch + 1) / m) as usize)
    }

    /// The next step's noise on the sum over its batch.
    fn noisy(&mut self, mut sum: Vec<i64>) -> Result<Released<Vec<f64>>, CuratorError> {
        let label = LABEL;
        let batch = self.step % self.shape.batches;
        match &mut self.noise {
            StreamNoise::Factor(noise) => {
                if !noise.add_next(&mut sum, &mut self.randomness) {
                    return Err(CuratorError::Unforeseen { label });
                }
            }
            StreamNoise::Tree { node, tree, exact, released } => {
                if batch == 0 && self.step > 0 {
                    // a fresh tree per epoch: one tree over a restarted sum costs more than its depth (spec 07 §1.5)
                    *tree = TreeNoise::new(node.clone(), self.dimension, self.shape.batches as u64);
                    exact.fill(0);
                    released.fill(0);
                }
                for (total, z) in exact.iter_mut().zip(&sum) {
                    *total = total.wrapping_add(*z);
                }
                sum.copy_from_slice(exact);
                tree.add_next(&mut sum, &mut self.randomness).map_err(|_| CuratorError::Unforeseen { label })?;
                // the increment of the noisy prefix sums: post-processing
                for (cell, before) in sum.iter_mut().zip(released.iter_mut()) {
                    let now = *cell;
                    *cell = now.wrapping_sub(*before);
                    *before = now;
                }
            }
        }
        self.step += 1;
        let grid = self.gradient.grid();
        let out: Vec<f64> = sum.into_iter().map(|u| grid.to_f64(u)).collect();
        if let Some(seen) = &self.seen {
            seen.push(&out);
        }
        Ok(Released::new(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClippedVectors, Curator};
    use dpopt_noise::NoiseSource;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::{Examples, Rows};

    const ALL: [Correlation; 4] = [Correlation::Blt, Correlation::Banded, Correlation::Tree, Correlation::Independent];

    fn plan(correlation: Correlation, batches: usize, steps: usize, d: usize, n: u64) -> StreamPlan {
        let grid = Grid::new(-12);
        StreamPlan {
            relation: Relation::ZeroOut,
            shape: StreamShape { batches, steps, correlation },
            gradient: Clipped::new(Linear::new(Loss::Absolute, d, 1.0), 1.0, grid).unwrap(),
            noise_multiplier: 1.0,
            dimension: d,
            records: n,
        }
    }

    /// n rows, row i with 1 at column i mod d and a target so low that every slope is 1.
    fn examples(n: usize, d: usize) -> Sensitive<Examples> {
        let mut rows = Rows::new(d);
        (0..n).for_each(|i| rows.push_clipped(&mut [((i % d) as u32, 1.0)], 1.0));
        Sensitive::new(Examples { rows, targets: vec![-1e6; n] })
    }

    #[test]
    fn sensitivities() {
        let sensitivity =
            |correlation, batches, steps| StreamShape { batches, steps, correlation }.sensitivity().unwrap();
        // spec 19 §5.5 and spec 07 §1.4
        assert!((sensitivity(Correlation::Banded, 512, 512) - 1.7470).abs() < 1e-4);
        assert!((sensitivity(Correlation::Banded, 128, 512) - 3.2312).abs() < 1e-4);
        assert!((sensitivity(Correlation::Independent, 64, 512) - 8f64.sqrt()).abs() < 1e-8);
        assert!((sensitivity(Correlation::Tree, 8, 8) - 2.0).abs() < 1e-9);
        assert!((sensitivity(Correlation::Tree, 1024, 2048) - 22f64.sqrt()).abs() < 1e-9);
        // a cut last epoch counts as a whole one
        assert!(sensitivity(Correlation::Tree, 8, 9) > sensitivity(Correlation::Tree, 8, 8));
    }

    #[test]
    fn every_record_is_in_one_batch_of_an_epoch_and_steps_are_counted() {
        // batches of 7 of 3 coordinates; the noise is known from a second stream on data without gradients
        for correlation in ALL {
            let run = |data: &Sensitive<Examples>| -> Vec<Vec<f64>> {
                let plan = plan(correlation, 3, 7, 3, 23);
                let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(5));
                let mut stream = curator.open(&plan).unwrap();
                assert!(curator.is_spent());
                let steps = (0..7).map(|_| stream.next(data, &[0.0; 3]).unwrap().into_inner()).collect();
                assert!(stream.next(data, &[0.0; 3]).is_err(), "the plan is used up");
                steps
            };
            let mut rows = Rows::new(3);
            (0..23).for_each(|_| rows.push_zero());
            let noise = run(&Sensitive::new(Examples { rows, targets: vec![0.0; 23] }));
            let noisy = run(&examples(23, 3));
            for (t, (a, b)) in noisy.iter().zip(&noise).enumerate() {
                let batch = t % 3;
                let range = 23 * batch / 3..23 * (batch + 1) / 3;
                for j in 0..3 {
                    let expected = range.clone().filter(|i| i % 3 == j).count() as f64;
                    assert!((a[j] - b[j] - expected).abs() < 0.01, "{correlation:?} step {t}");
                }
            }
        }
    }

    #[test]
    fn vectors_made_elsewhere_are_the_gradients_of_the_batch() {
        let (batches, steps, d, n) = (3, 7, 3, 23);
        for correlation in ALL {
            let plan = plan(correlation, batches, steps, d, n);
            let open = || {
                let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(8));
                curator.open(&plan).unwrap()
            };
            let (mut here, mut elsewhere) = (open(), open());
            let data = examples(n as usize, d);
            for _ in 0..steps {
                let expected = here.next(&data, &[0.0; 3]).unwrap();
                // slopes of −1 times the rows, in two parts
                let released = elsewhere.next_in_parts(|positions, sum| {
                    let (first, rest) = (positions.start, positions.len() / 2);
                    let unit = |i: usize, out: &mut Vec<f64>| out.extend((0..d).map(|j| f64::from(i % d == j)));
                    sum.add(rest, |k, out| unit(first + k, out))?;
                    sum.add(positions.len() - rest, |k, out| unit(first + rest + k, out))?;
                    assert!(sum.add(1, |_, out| out.resize(d, 1.0)).is_err(), "one vector for each record");
                    Ok::<_, CuratorError>(())
                });
                // gradients of exactly the clip norm: each may lose a step of the grid, one way or the other
                let room = n as f64 * Grid::new(-12).step();
                for (a, b) in released.unwrap().get().iter().zip(expected.get()) {
                    assert!((a - b).abs() <= room, "{correlation:?}: {a} {b}");
                }
            }
            assert!(elsewhere.next_in_parts(|_, _| Ok::<_, CuratorError>(())).is_err(), "the plan is used up");
        }
    }

    #[test]
    fn a_sum_with_another_clip_is_not_released() {
        let plan = plan(Correlation::Blt, 2, 2, 1, 4);
        let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(9));
        let mut stream = curator.open(&plan).unwrap();
        let wide = ClippedVectors::new(1e6, Grid::new(-12)).unwrap();
        let batch = curator.all_of(4).unwrap();
        let mut other = wide.in_parts(batch, 1);
        let swapped = stream.next_in_parts(|_, sum| {
            std::mem::swap(sum, &mut other);
            Ok::<_, CuratorError>(())
        });
        assert!(matches!(swapped, Err(CuratorError::Shape)));
    }

    #[test]
    fn the_noise_of_the_whole_sum_is_what_is_predicted() {
        let (d, steps, batches) = (20_000, 12, 8);
        let data = {
            let mut rows = Rows::new(d);
            (0..16).for_each(|_| rows.push_zero());
            Sensitive::new(Examples { rows, targets: vec![0.0; 16] })
        };
        for correlation in ALL {
            let plan = plan(correlation, batches, steps, d, 16);
            let shape = plan.shape;
            let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(6));
            let mut stream = curator.open(&plan).unwrap();
            let mut total = vec![0.0; d];
            let weights = vec![0.0; d];
            for _ in 0..steps {
                let step = stream.next(&data, &weights).unwrap();
                total.iter_mut().zip(step.get()).for_each(|(t, x)| *t += x);
            }
            let seen = total.iter().map(|x| x * x).sum::<f64>() / d as f64;
            let expected = (shape.sensitivity().unwrap() * shape.final_error().unwrap()).powi(2);
            // 5.2 standard deviations: false alarm 2e-7 each
            assert!(
                (seen / expected - 1.0).abs() < 5.2 * (2.0 / d as f64).sqrt(),
                "{correlation:?}: {seen} {expected}"
            );
        }
    }
}
