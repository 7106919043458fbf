//! Projected noisy mean gradients of a batch and of its two random halves (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024,
//! Algorithm 5 of its first and 3 of its second version; docs/proofs/bias-reduced-sgd.md).
//!
//! The three means have errors whose expectations telescope over the batch sizes 1, 2, 4, … if the mechanism for a batch
//! of 2^k is the same wherever it is used: noise of the *sum* has one standard deviation for every size, and each mean is
//! projected on the same set, {‖g‖₂ ≤ C, ‖g‖₁ ≤ C√s}. Noise of untouched coordinates is drawn from the largest down, so a
//! release costs the touched coordinates and the answer's non-zeros, not d.
//!
//! Covers: sparse-v1 algorithm 5 (certified: halves are drawn at random; projection in place of l1-recovery)
//! Covers: sparse-v2 algorithm 3 (certified: halves are drawn at random; projection in place of l1-recovery)

use dpopt_draws::project_l1_l2;
use dpopt_kernel::beside::{Expose, Members, Sealed};
use dpopt_kernel::{BatchId, Clipped, CuratorError, FixedBatch, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
use dpopt_objective::objective::{Linear, Point};
use dpopt_objective::records::Examples;
use dpopt_privacy::Event;

/// Non-zero coordinates of a vector, increasing.
pub(crate) type Sparse<T> = Vec<(u64, T)>;

/// Sums of clipped gradients over the parts of one batch: all of it, or its two halves.
pub struct BatchGradients {
    parts: Vec<Sparse<i64>>,
    /// Number of records of each part.
    part_size: u64,
    dimension: u64,
    grid: Grid,
    clip_norm: f64,
    batch: BatchId,
}

impl BatchGradients {
    /// Sums over `batch`; `halves`: over the first and the second half of its random order.
    pub fn of(
        gradient: &Clipped<Linear>,
        examples: &Sensitive<Examples>,
        batch: FixedBatch,
        halves: bool,
        point: ScaledPoint<'_>,
    ) -> Sensitive<Self> {
        let examples = examples.expose();
        let records = batch.records();
        let part_size = if halves { records.len() / 2 } else { records.len() };
        let parts = records
            .chunks_exact(part_size)
            .map(|part| {
                let Ok(sum) = gradient.touched(examples, point, part.iter().map(|&i| i as usize));
                sum.into_iter().map(|(at, z)| (at as u64, z)).collect()
            })
            .collect();
        Sensitive::new(Self {
            parts,
            part_size: part_size as u64,
            dimension: gradient.objective().weights() as u64,
            grid: gradient.grid(),
            clip_norm: gradient.clip_norm(),
            batch: batch.id(),
        })
    }
}

/// The point scale·direction, read where records touch it.
#[derive(Clone, Copy, Debug)]
pub struct ScaledPoint<'a> {
    /// The factor by which `direction` is multiplied.
    pub scale: f64,
    /// One number per weight; beyond them it is 0.
    pub direction: &'a [f64],
}

impl Point for ScaledPoint<'_> {
    fn read(&mut self, at: usize) -> f64 {
        self.direction.get(at).map_or(0.0, |v| self.scale * v)
    }
}

/// Noise multiplier of the *one* Gaussian that the sums of a batch and of its halves are together, each with multiplier
/// `z`: a record is in the batch and in one half, so it moves two of the three sums, √2 times as far as one.
pub fn telescoped_multiplier(z: f64) -> f64 {
    (z / 2f64.sqrt()).next_down()
}

/// Adds N(0, (z·C)²) to every sum, divides by the sum's number of records and projects. Event: `Gaussian(z)` for one sum;
/// `Gaussian(z/√2)` for a batch with its halves. Refuses other shapes.
#[derive(Clone, Debug)]
pub struct ProjectedGradients {
    /// The noise multiplier z.
    pub noise_multiplier: f64,
    /// The l2 clip norm C of a record's gradient.
    pub clip_norm: f64,
    /// Grid of the sums.
    pub grid: Grid,
    /// Number of weights.
    pub dimension: u64,
    /// s of the l1 ball; affects accuracy only.
    pub sparsity: f64,
    /// The batch, its first half and its second, in place of the batch alone.
    pub telescoped: bool,
}

impl Sealed for ProjectedGradients {}

impl Mechanism for ProjectedGradients {
    type Input = BatchGradients;
    /// Mean gradients: of the batch, or of the batch and of its halves.
    type Output = Vec<Sparse<f64>>;

    fn event(&self) -> Event {
        let z = self.noise_multiplier;
        Event::gaussian(if self.telescoped { telescoped_multiplier(z) } else { z })
    }

    fn sampler_error(&self, _input: &BatchGradients) -> f64 {
        let sums = if self.telescoped { 3.0 } else { 1.0 };
        SamplerError::rounded(sums * self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        if self.telescoped { "gradients of a batch and its halves" } else { "gradient of one record" }
    }

    fn check(&self, input: &BatchGradients) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        let parts = if self.telescoped { 2 } else { 1 };
        if input.grid != self.grid || input.parts.len() != parts || input.dimension != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &BatchGradients) -> Option<BatchId> {
        Some(input.batch)
    }

    fn apply(&self, input: &BatchGradients, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        // the product z·C was rounded once: next_up makes the noise at least what was accounted
        let std = (self.noise_multiplier * self.clip_norm).next_up();
        let sampler = RoundedGaussian::new(std, self.grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut stream = noise.stream(Purpose::Noise, 0);
        let mut mean = |sum: &Sparse<i64>, size: u64| -> Sparse<f64> {
            let size = size as f64;
            // the projection of sum/m on C is that of the sum on m·C, divided by m
            project_l1_l2(&sampler, self.dimension, sum, self.clip_norm * size, self.sparsity, &mut stream)
                .into_iter()
                .map(|(j, g)| (j, g / size))
                .collect()
        };
        match &input.parts[..] {
            [first, second] if self.telescoped => Ok(vec![
                mean(&added(first, second), 2 * input.part_size),
                mean(first, input.part_size),
                mean(second, input.part_size),
            ]),
            [all] if !self.telescoped => Ok(vec![mean(all, input.part_size)]),
            _ => Err(CuratorError::Shape),
        }
    }
}

/// a + b, modulo 2^64 per coordinate.
fn added(a: &Sparse<i64>, b: &Sparse<i64>) -> Sparse<i64> {
    let mut sum = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (left, right) = (a.get(i), b.get(j));
        match (left, right) {
            (Some(&(x, u)), Some(&(y, v))) if x == y => {
                sum.push((x, u.wrapping_add(v)));
                (i, j) = (i + 1, j + 1);
            }
            (Some(&l), right) if right.is_none_or(|r| l.0 < r.0) => {
                sum.push(l);
                i += 1;
            }
            (_, Some(&r)) => {
                sum.push(r);
                j += 1;
            }
            _ => break,
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::Rows;

    fn examples(n: usize) -> Sensitive<Examples> {
        let mut rows = Rows::new(1000);
        (0..n as u32).for_each(|i| rows.push_clipped(&mut [(i % 10, 0.6), (10 + i % 7, 0.8)], 1.0));
        Sensitive::new(Examples { rows, targets: (0..n).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect() })
    }

    fn mechanism(z: f64, telescoped: bool) -> ProjectedGradients {
        let grid = Grid::new(-40);
        ProjectedGradients { noise_multiplier: z, clip_norm: 1.0, grid, dimension: 1000, sparsity: 2.0, telescoped }
    }

    #[test]
    fn without_noise_the_batch_is_the_mean_of_its_halves_and_all_are_sparse() {
        let data = examples(64);
        let m = mechanism(1e-9, true);
        let event = m.event().sampled_without_replacement(64, 16);
        let mut curator = uncharged(&event, NoiseSource::insecure(1));
        let gradient = Clipped::new(Linear::new(Loss::Logistic { shift: 0.0 }, 1000, 1.0), 1.0, m.grid).unwrap();
        let batch = curator.fixed_sample(64, 16).unwrap();
        let sums = BatchGradients::of(&gradient, &data, batch, true, ScaledPoint { scale: 0.0, direction: &[] });
        let means = curator.release(&m, &sums).unwrap().into_inner();
        assert!(curator.release(&m, &sums).is_err(), "a batch serves one release");
        let dense = |g: &Sparse<f64>| {
            let mut x = vec![0.0; 1000];
            g.iter().for_each(|&(j, v)| x[j as usize] = v);
            x
        };
        let [all, first, second] = [0, 1, 2].map(|i| dense(&means[i]));
        for j in 0..1000 {
            assert!((all[j] - 0.5 * (first[j] + second[j])).abs() < 1e-6, "{j}: {} {} {}", all[j], first[j], second[j]);
        }
        assert!(means.iter().all(|g| g.iter().filter(|e| e.1.abs() > 1e-6).count() <= 17));
    }

    #[test]
    fn events_and_shapes_are_what_is_released() {
        let data = examples(8);
        let gradient =
            Clipped::new(Linear::new(Loss::Logistic { shift: 0.0 }, 1000, 1.0), 1.0, Grid::new(-40)).unwrap();
        let one = mechanism(2.0, false);
        let three = mechanism(2.0, true);
        assert_eq!(one.event(), Event::gaussian(2.0));
        let Event::Gaussian { noise_multiplier } = three.event() else { panic!("not a Gaussian") };
        assert!(noise_multiplier * 2f64.sqrt() <= 2.0 && noise_multiplier > 1.414);
        // a curator that foresees batches of 4 gives nothing for one of 2, nor for the halves' event on one sum
        let event = three.event().sampled_without_replacement(8, 4);
        let mut curator = uncharged(&event, NoiseSource::insecure(1));
        let batch = curator.fixed_sample(8, 2).unwrap();
        let sums = BatchGradients::of(&gradient, &data, batch, true, ScaledPoint { scale: 0.0, direction: &[] });
        assert!(matches!(curator.release(&three, &sums), Err(CuratorError::Unforeseen { .. })));
        let batch = curator.fixed_sample(8, 4).unwrap();
        let sums = BatchGradients::of(&gradient, &data, batch, false, ScaledPoint { scale: 0.0, direction: &[] });
        assert!(matches!(curator.release(&three, &sums), Err(CuratorError::Shape)));
        assert!(curator.fixed_sample(8, 9).is_err() && curator.fixed_sample(8, 0).is_err());
    }

    #[test]
    fn samples_are_uniform_ordered_and_without_repeats() {
        let mut curator = uncharged(&Event::NoOp, NoiseSource::insecure(3));
        let mut first = [0.0; 5];
        let runs = 20_000;
        for _ in 0..runs {
            let batch = curator.fixed_sample(5, 3).unwrap();
            let mut records = batch.records().to_vec();
            first[records[0] as usize] += 1.0;
            records.sort_unstable();
            records.dedup();
            assert_eq!(records.len(), 3);
        }
        // each record is first with probability 1/5: five and a half standard deviations, false alarm 2e-7 in total
        let spread = (0.16 * f64::from(runs)).sqrt();
        assert!(first.iter().all(|c| (c - 0.2 * f64::from(runs)).abs() < 5.5 * spread), "{first:?}");
    }
}
