//! Sparse gradients: one record of several entries, a batch with its halves, a sketch seen before the next query
//! (Ghazi et al. 2024, Algorithms 2, 3 and 6).

use dpopt_audit::draws::Draws;
use dpopt_draws::{SKETCH_EXPONENT, Sketch};
use dpopt_mechanism::{
    BatchGradients, Clipped, Mechanism, ProjectedGradients, Projection, ScaledPoint, SketchedGaussian, SparseClip,
    SparseSum, SparseSummer,
};
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Event;

/// Without and with a record (1/2, 1/2, 1/2, 1/2) of label 1 among `rows` that contribute nothing.
pub(crate) fn four_entries(rows: usize) -> [Sensitive<Examples>; 2] {
    [false, true].map(|with| {
        let mut table = Rows::new(4);
        let mut targets = vec![0.0f32; rows];
        for (i, target) in targets.iter_mut().enumerate() {
            if i == 0 && with {
                table.push_clipped(&mut [(0, 0.5), (1, 0.5), (2, 0.5), (3, 0.5)], 1.0);
                *target = 1.0;
            } else {
                table.push_zero();
            }
        }
        Sensitive::new(Examples { rows: table, targets })
    })
}

/// One batch of all of 128 records with its halves, seen in the canary's coordinate: sums in units of C.
pub(crate) struct Halves {
    worlds: [Sensitive<Examples>; 2],
    gradient: Option<Clipped<Linear>>,
    grid: Grid,
}

/// So many records that the projection of their mean, on a ball of radius C, does not touch the noise.
const RECORDS: usize = 128;

impl Halves {
    pub(crate) fn new(noise_multiplier: f64) -> Self {
        let grid = Grid::for_sum(1.0, noise_multiplier, RECORDS as u64, 1);
        let worlds = [0.0, 1.0].map(|t| super::sums::canaries(RECORDS, 1, &[t]));
        Self { worlds, gradient: Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), 1.0, grid).ok(), grid }
    }

    /// The mechanism with noise multiplier `z`.
    pub(crate) fn mechanism(&self, z: f64) -> ProjectedGradients {
        ProjectedGradients {
            noise_multiplier: z,
            clip_norm: 1.0,
            grid: self.grid,
            dimension: 1,
            sparsity: 1.0,
            telescoped: true,
        }
    }

    /// Noisy sums of the batch and of its halves, larger with the canary; NaN if they are refused.
    pub(crate) fn sums(&self, with: bool, z: f64, draws: &mut Draws) -> [f64; 3] {
        let mechanism = self.mechanism(z);
        let event = mechanism.event().sampled_without_replacement(RECORDS as u64, RECORDS as u64);
        let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
        let released = self.gradient.as_ref().and_then(|gradient| {
            let batch = curator.fixed_sample(RECORDS, RECORDS).ok()?;
            let sums = BatchGradients::of(
                gradient,
                &self.worlds[usize::from(with)],
                batch,
                true,
                ScaledPoint { scale: 0.0, direction: &[] },
            );
            curator.release(&mechanism, &sums).ok()
        });
        let size = RECORDS as f64;
        let value = |part: usize, size: f64| {
            released.as_ref().map_or(f64::NAN, |r| -r.get()[part].first().map_or(0.0, |entry| entry.1) * size)
        };
        [value(0, size), value(1, 0.5 * size), value(2, 0.5 * size)]
    }
}

/// Log-likelihood ratio of the canary in the batch and in an unknown half, by noises of the sum and of the halves.
pub(crate) fn halves_log_ratio([whole, first, second]: [f64; 3], z: f64, half_z: f64) -> f64 {
    let (a, b) = (first / (half_z * half_z), second / (half_z * half_z));
    let larger = a.max(b);
    whole / (z * z) + larger + ((a - larger).exp() + (b - larger).exp()).ln()
}

/// A sum of at most one unit vector behind a random matrix: what is public, and the likelihood of the vector in it.
pub(crate) struct Sketches {
    mechanism: SketchedGaussian,
    dimension: u64,
}

impl Sketches {
    pub(crate) fn new(rows: u64, dimension: u64, noise_multiplier: f64) -> Self {
        let mechanism = SketchedGaussian {
            noise_multiplier,
            rows,
            clip_norm: 1.0,
            l1_norm: 1.0,
            grid: Grid::new(-20),
            dimension,
            projection: Projection { radius: 1.0, sparsity: 1.0 },
        };
        Self { mechanism, dimension }
    }

    pub(crate) fn event(&self) -> Event {
        self.mechanism.event()
    }

    fn sum(&self, with: bool, coordinate: u32) -> Option<Sensitive<SparseSum>> {
        let clip = SparseClip {
            dimension: self.dimension,
            norm: 1.0,
            l1_norm: 1.0,
            calibrated: Norm::L2,
            grid: self.mechanism.grid,
            dense: false,
        };
        let mut summer = SparseSummer::new(clip).ok()?;
        summer.add(&mut if with { vec![(coordinate, 1.0)] } else { Vec::new() });
        Some(summer.finish())
    }

    /// Σ g² of column j.
    fn length(&self, sketch: &Sketch, j: u64, column: &mut [i32]) -> f64 {
        sketch.column(j, column);
        column.iter().map(|&g| f64::from(g) * f64::from(g)).sum()
    }

    /// Log-likelihood ratio of e_0 in one release, its matrix seen.
    pub(crate) fn one(&self, with: bool, draws: &mut Draws) -> f64 {
        let mut source = NoiseSource::insecure(draws.word());
        let released = self
            .sum(with, 0)
            .and_then(|sum| self.mechanism.sketch(past_the_curator::read_for_tests(&sum), &mut source).ok());
        released.map_or(f64::NAN, |(sketch, noisy)| self.log_ratio(&sketch, &noisy, 0))
    }

    /// Log-likelihood ratio of a record in the second of two releases. The record is chosen with the first one's matrix in
    /// view: the unit vector that it lengthens most. `fresh`: the second release has a matrix of its own.
    pub(crate) fn second(&self, fresh: bool, with: bool, draws: &mut Draws) -> f64 {
        let mut source = NoiseSource::insecure(draws.word());
        let mut column = vec![0i32; self.mechanism.rows as usize];
        let mut run = || {
            let first = self.mechanism.matrix(&mut source.stream(Purpose::Sampling, 0)).ok()?;
            let longest = (0..self.dimension)
                .map(|j| (j, self.length(&first, j, &mut column)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map_or(0, |found| found.0);
            let second =
                if fresh { self.mechanism.matrix(&mut source.stream(Purpose::Sampling, 0)).ok()? } else { first };
            let sum = self.sum(with, longest as u32)?;
            let noisy = self
                .mechanism
                .through(&second, past_the_curator::read_for_tests(&sum), &mut source.stream(Purpose::Noise, 0))
                .ok()?;
            Some(self.log_ratio(&second, &noisy, longest))
        };
        run().unwrap_or(f64::NAN)
    }

    fn log_ratio(&self, sketch: &Sketch, noisy: &[i64], j: u64) -> f64 {
        let mut column = vec![0i32; noisy.len()];
        sketch.column(j, &mut column);
        let unit = 2f64.powi(SKETCH_EXPONENT);
        let fine = self.mechanism.grid.step() * unit;
        let variance = self.mechanism.rows as f64 * self.mechanism.noise_multiplier.powi(2);
        column
            .iter()
            .zip(noisy)
            .map(|(&g, &y)| {
                let (g, y) = (f64::from(g) * unit, y as f64 * fine);
                (g * y - 0.5 * g * g) / variance
            })
            .sum()
    }
}
