//! A sum of sparse vectors seen through a fresh random projection, and what can be recovered of it: Gaussian l1-recovery
//! (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024, Algorithm 2; docs/proofs/l1-recovery.md).
//!
//! The sum S is released as G·S plus noise, G with independent normal entries and far fewer rows than columns. For one
//! record v, ‖Gv‖² = ‖v‖²·χ²_m whatever v is, so the privacy of it has an exact law and needs no isometry. G is drawn anew for
//! every release: it becomes public, and data that were chosen with it in view could be long under it.
//!
//! Covers: sparse-v1 algorithm 2 (certified: noise by the exact law of a record's length)
//! Covers: sparse-v2 algorithm 2 (certified: noise by the exact law of a record's length)

use super::l1_recovery::{Measured, recover};
use super::sparse_sum::{Projection, SparseSum};
use dpopt_draws::{SKETCH_EXPONENT, Sketch};
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism, SamplerError};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, RoundedGaussian, Stream};
use dpopt_privacy::Event;

/// How much longer than by the exact normal law a record can be under the rounded matrix, relative to that law's
/// μ·√(X/m) where X ≥ m/100: entries are at most 2^-21 off, so ‖(G' − G)v‖ ≤ √m·2^-21·‖v‖₁, ‖v‖₁ ≤ √s·L.
pub(crate) fn lengthening(l1_over_l2: f64) -> f64 {
    10.0 * 2f64.powi(SKETCH_EXPONENT - 1) * l1_over_l2
}

/// Bound on P(χ²_m < m/100), where [`lengthening`] does not hold: (e^0.99/100)^{m/2}.
pub(crate) fn too_short(rows: u64) -> f64 {
    (0.5 * rows as f64 * (0.99 - 100f64.ln())).exp()
}

/// Adds N(0, m·(z·L)²) to every coordinate of G·S, S a sum of vectors of l2 norm at most L and l1 norm at most `l1_norm`, G an
/// m × d matrix of rounded normal entries drawn for this release; the answer is the least-squares fit in the projection's set.
/// Event: `ChiSquareGaussian(m, (1 + lengthening)/z)`.
#[derive(Clone, Debug)]
pub struct SketchedGaussian {
    /// The noise multiplier z.
    pub noise_multiplier: f64,
    /// Number m of rows of the random matrix.
    pub rows: u64,
    /// L: bound on the l2 norm of a record.
    pub clip_norm: f64,
    /// Bound on the l1 norm of a record.
    pub l1_norm: f64,
    /// Grid of the sum. The sketch is on a grid 2^20 times as fine.
    pub grid: Grid,
    /// Number d of coordinates.
    pub dimension: u64,
    /// The set in which the answer lies.
    pub projection: Projection,
}

impl SketchedGaussian {
    /// Samples of the matrix and of the noise, and matrices so short that the rounding of their entries counts.
    pub fn apart(&self) -> f64 {
        let (m, d) = (self.rows as f64, self.dimension as f64);
        SamplerError::rounded(m * d + m).total_variation() + too_short(self.rows)
    }

    /// The release: the matrix, and G·S plus noise in units of the fine grid.
    pub fn sketch(&self, input: &SparseSum, noise: &mut NoiseSource) -> Result<(Sketch, Vec<i64>), CuratorError> {
        let sketch = self.matrix(&mut noise.stream(Purpose::Sampling, 0))?;
        let noisy = self.through(&sketch, input, &mut noise.stream(Purpose::Noise, 0))?;
        Ok((sketch, noisy))
    }

    /// The public matrix, drawn from a public stream.
    pub fn matrix(&self, stream: &mut Stream) -> Result<Sketch, CuratorError> {
        let rows = usize::try_from(self.rows).map_err(|_| CuratorError::Shape)?;
        Sketch::draw(rows, stream).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn sampler(&self) -> Result<RoundedGaussian, CuratorError> {
        let fine = Grid::new(self.grid.exponent() + SKETCH_EXPONENT);
        // the products were rounded: two steps up make the noise at least what was accounted
        let std = (self.noise_multiplier * self.clip_norm * (self.rows as f64).sqrt()).next_up().next_up();
        RoundedGaussian::new(std, fine).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    /// G·S plus noise, exactly, modulo 2^64 fine units.
    pub fn through(&self, sketch: &Sketch, input: &SparseSum, stream: &mut Stream) -> Result<Vec<i64>, CuratorError> {
        let sampler = self.sampler()?;
        let mut image = vec![0i64; sketch.rows()];
        let mut column = vec![0i32; sketch.rows()];
        input.for_each_nonzero(|index, units| {
            sketch.column(index, &mut column);
            for (cell, &g) in image.iter_mut().zip(&column) {
                *cell = cell.wrapping_add(i64::from(g).wrapping_mul(units));
            }
        });
        sampler.add_to(&mut image, stream);
        Ok(image)
    }
}

impl Sealed for SketchedGaussian {}

impl Mechanism for SketchedGaussian {
    type Input = SparseSum;
    type Output = Vec<(u64, f64)>;

    fn event(&self) -> Event {
        let longer = 1.0 + lengthening(self.l1_norm / self.clip_norm);
        // three roundings
        let mu = longer / self.noise_multiplier * (1.0 + 4.0 * f64::EPSILON);
        Event::ChiSquareGaussian { degrees_of_freedom: self.rows, mu }
    }

    fn sampler_error(&self, _input: &SparseSum) -> f64 {
        self.apart()
    }

    fn label(&self) -> &'static str {
        "sum of sparse vectors behind a random projection"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        self.sampler().map(drop)
    }

    fn check(&self, input: &SparseSum) -> Result<(), CuratorError> {
        if input.l1_norm() > self.l1_norm {
            return Err(CuratorError::Sensitivity { input: input.l1_norm(), mechanism: self.l1_norm });
        }
        input.check(Norm::L2, self.clip_norm, self.grid, self.dimension)
    }

    fn apply(&self, input: &SparseSum, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        let (sketch, noisy) = self.sketch(input, noise)?;
        // from here on only the matrix, the noisy sketch and public numbers are used
        let step = self.grid.step() * 2f64.powi(SKETCH_EXPONENT);
        let image: Vec<f64> = noisy.iter().map(|&u| u as f64 * step).collect();
        let std = self.noise_multiplier * self.clip_norm * (self.rows as f64).sqrt();
        Ok(recover(
            &Measured { sketch: &sketch, image: &image, noise_std: std, dimension: self.dimension },
            self.projection,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SparseClip, SparseSummer};
    use dpopt_kernel::beside::Expose;
    use dpopt_kernel::beside::uncharged;
    use dpopt_kernel::{Released, Sensitive};

    const GRID: i32 = -24;

    fn mechanism(z: f64, rows: u64, dimension: u64, sparsity: f64, records: f64) -> SketchedGaussian {
        SketchedGaussian {
            noise_multiplier: z,
            rows,
            clip_norm: 1.0,
            l1_norm: sparsity.sqrt(),
            grid: Grid::new(GRID),
            dimension,
            projection: Projection { radius: records, sparsity },
        }
    }

    fn sum(dimension: u64, sparsity: f64, records: &[Vec<(u32, f64)>]) -> Sensitive<SparseSum> {
        let clip = SparseClip {
            dimension,
            norm: 1.0,
            l1_norm: sparsity.sqrt(),
            calibrated: Norm::L2,
            grid: Grid::new(GRID),
            dense: false,
        };
        let mut summer = SparseSummer::new(clip).unwrap();
        records.iter().for_each(|r| summer.add(&mut r.clone()));
        summer.finish()
    }

    fn released(m: &SketchedGaussian, sum: &Sensitive<SparseSum>, seed: u64) -> Vec<(u64, f64)> {
        let mut curator = uncharged(&m.event(), NoiseSource::insecure(seed));
        curator.release(m, sum).map(Released::into_inner).unwrap()
    }

    /// s-sparse, on the border of the set, m ≥ 4·s·ln(d/s): nothing but the solver stands between the answer and the truth.
    #[test]
    fn without_noise_a_sparse_sum_comes_back() {
        let (d, s) = (2000u64, 8usize);
        let rows = (4.0 * s as f64 * (d as f64 / s as f64).ln()).ceil() as u64;
        let entry = 1.0 / (s as f64).sqrt();
        let record: Vec<(u32, f64)> =
            (0..s as u32).map(|k| (k * 241 + 3, if k % 3 == 0 { -entry } else { entry })).collect();
        let total = sum(d, s as f64, &vec![record.clone(); 10]);
        let answer = released(&mechanism(1e-6, rows, d, s as f64, 10.0), &total, 1);
        let error: f64 = (0..d)
            .map(|j| {
                let truth = record.iter().find(|e| u64::from(e.0) == j).map_or(0.0, |e| 10.0 * e.1);
                let seen = answer.iter().find(|e| e.0 == j).map_or(0.0, |e| e.1);
                (truth - seen).powi(2)
            })
            .sum();
        assert!(error.sqrt() < 1e-2, "{}", error.sqrt());
    }

    /// χ²_m law of the released length: mean m and variance 2m of ‖Gv‖²/‖v‖², over fresh matrices.
    #[test]
    fn every_release_has_a_matrix_of_its_own() {
        let (m, d) = (20u64, 50u64);
        let mechanism = mechanism(1e-7, m, d, 1.0, 1.0);
        let total = sum(d, 1.0, &[vec![(7, 1.0)]]);
        let step = Grid::new(GRID + SKETCH_EXPONENT).step();
        let mut source = NoiseSource::insecure(5);
        let runs = 4000;
        let lengths: Vec<f64> = (0..runs)
            .map(|_| {
                let (_, noisy) = mechanism.sketch(total.expose(), &mut source).unwrap();
                noisy.iter().map(|&u| (u as f64 * step).powi(2)).sum()
            })
            .collect();
        let mean = lengths.iter().sum::<f64>() / f64::from(runs);
        let variance = lengths.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / f64::from(runs);
        let n = f64::from(runs);
        // five and a half standard errors: sd of the mean √(2m/n); fourth central moment of χ²_m is 12m² + 48m
        assert!((mean - 20.0).abs() < 5.5 * (40.0 / n).sqrt(), "{mean}");
        assert!((variance - 40.0).abs() < 5.5 * ((12.0 * 400.0 + 48.0 * 20.0 - 1600.0) / n).sqrt(), "{variance}");
    }

    #[test]
    fn the_event_counts_the_rounding_of_the_matrix() {
        let m = mechanism(4.0, 64, 1000, 9.0, 10.0);
        let Event::ChiSquareGaussian { degrees_of_freedom, mu } = m.event() else { panic!("another event") };
        assert!(degrees_of_freedom == 64 && mu > 0.25 && mu < 0.25 * (1.0 + 2e-5));
        assert!(too_short(20) < 3e-16 && too_short(44) < 1e-34);
        // χ²_2 < 2/100 has probability 1 − e^{−.01}
        assert!(too_short(2) >= -(-0.01f64).exp_m1());
        let total = sum(1000, 9.0, &[vec![(1, 0.5)]]);
        let mut curator = uncharged(&m.event(), NoiseSource::insecure(1));
        let narrow = SketchedGaussian { l1_norm: 1.0, ..m.clone() };
        assert!(matches!(curator.release(&narrow, &total), Err(CuratorError::Sensitivity { .. })));
        let small = SketchedGaussian { clip_norm: 0.5, ..m.clone() };
        assert!(matches!(curator.release(&small, &total), Err(CuratorError::Sensitivity { .. })));
        let other = SketchedGaussian { dimension: 999, ..m.clone() };
        assert!(matches!(curator.release(&other, &total), Err(CuratorError::Shape)));
        assert!(curator.release(&m, &total).is_ok());
        assert!(curator.release(&m, &total).is_err(), "foreseen once");
    }
}
