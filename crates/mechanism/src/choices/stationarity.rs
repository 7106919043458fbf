//! How far a public point is from stationary for sensitive records, as a score of proved sensitivity (Liu 2024, Algorithm 18; docs/proofs/stationary-selection.md).
//!
//! The first part is the norm of the sum of clipped gradients, the second how curved downwards the sum is along public directions; the score is the larger of the
//! two, so that one number is compared and nothing says which part decided. Both parts are always computed. Sums are of integers, the norm is the exact integer
//! root of an exact sum of squares: no rounding is left that a record could move.

use super::counts::Counts;
use dpopt_kernel::beside::{Expose, Units};
use dpopt_kernel::{Batch, BatchSum, CuratorError, GridSum, Sensitive};
use dpopt_noise::{Grid, Norm, Quantizer};

/// Grid steps of a clip norm, as a power of two: at least 2^20, at most 2^21.
const FINE: i32 = 20;

/// Grid steps in a unit of a score, as a power of two: gradients need a fine grid, and the noise of a stream's comparisons has a coarsest one.
const COARSE: u32 = 10;

/// Records whose sums and their squares fit.
pub const MAX_SUMMED: u64 = 1 << 38;

/// The grid of vectors that are clipped to `bound`.
fn grid_of(bound: f64) -> Grid {
    Grid::new(bound.log2().floor() as i32 - FINE)
}

/// `bound` in steps of `grid`, rounded up: a norm may lie between two integers. The product with a power of two is exact.
fn steps(bound: f64, grid: Grid) -> u64 {
    (bound / grid.step()).ceil() as u64
}

/// What is wanted of a point, for scores that are compared with 0 or that have two parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// α: a mean gradient of at most this norm.
    pub gradient: f64,
    /// √(ρα): curvatures of the mean along every direction of at least minus this.
    pub curvature: f64,
    /// Public number n of records.
    pub records: u64,
}

/// The public numbers of a score.
#[derive(Clone, Debug)]
pub struct Stationarity {
    clip_norm: f64,
    /// M, where the curvature counts.
    bound: Option<f64>,
    wanted: Option<Wanted>,
}

/// Sums of the records' curvatures along public directions, each cut to ±M.
pub struct CurvatureSum {
    sum: BatchSum,
    quantizer: Quantizer,
}

impl CurvatureSum {
    /// How many directions there are.
    pub fn directions(&self) -> usize {
        self.sum.dimension()
    }

    /// Adds `vectors` more; `vector(i, out)` appends one curvature for each direction to the empty `out`. What is no number counts as 0.
    ///
    /// # Errors
    /// If there are more than records in the batch; then nothing is added.
    pub fn add(&mut self, vectors: usize, vector: impl Fn(usize, &mut Vec<f64>) + Sync) -> Result<(), CuratorError> {
        let bound = self.quantizer.clip_norm();
        self.sum.add(vectors, |i, out| {
            vector(i, out);
            // each by itself: a clip of the vector would shrink all of them
            out.iter_mut().for_each(|x| *x = x.clamp(-bound, bound));
        })
    }
}

impl Stationarity {
    /// A score of gradients that are clipped to l2 norm `clip_norm`.
    ///
    /// # Errors
    /// If it is not positive and finite, or too large or small for a grid.
    pub fn of_gradients(clip_norm: f64) -> Result<Self, CuratorError> {
        usable(clip_norm, Norm::L2)?;
        Ok(Self { clip_norm, bound: None, wanted: None })
    }

    /// Less what is wanted: points that have it score 0 or more.
    ///
    /// # Errors
    /// If a number is below 0 or above its bound, beyond which every point would do, or there are more than 2^38 records.
    pub fn wanting(self, wanted: Wanted) -> Result<Self, CuratorError> {
        let most = self.bound.unwrap_or(f64::MAX);
        let fits = (0.0..=self.clip_norm).contains(&wanted.gradient) && (0.0..=most).contains(&wanted.curvature);
        if wanted.records > MAX_SUMMED || !fits {
            return Err(CuratorError::Shape);
        }
        Ok(Self { wanted: Some(wanted), ..self })
    }

    /// Adds curvatures to the score, cut to ±`bound`, of at least one direction; `wanted` gives the two parts a common scale.
    ///
    /// # Errors
    /// As [`of_gradients`](Self::of_gradients) and [`wanting`](Self::wanting).
    pub fn with_curvature(self, bound: f64, wanted: Wanted) -> Result<Self, CuratorError> {
        usable(bound, Norm::LInfinity)?;
        Self { bound: Some(bound), ..self }.wanting(wanted)
    }

    /// The grid that gradients are summed on.
    pub fn grid(&self) -> Grid {
        grid_of(self.clip_norm)
    }

    /// The l2 clip norm C of gradients.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Whether the score includes the curvature.
    pub fn has_curvature(&self) -> bool {
        self.bound.is_some()
    }

    /// The clip norm C in grid steps.
    fn bound(&self) -> u64 {
        steps(self.clip_norm, self.grid())
    }

    /// What the presence of one record moves a score by at most: C in units of 2^10 grid steps, rounded up.
    pub fn sensitivity(&self) -> u64 {
        self.bound().div_ceil(1 << COARSE)
    }

    /// One unit of a score, in units of gradients.
    pub fn unit(&self) -> f64 {
        self.grid().step() * f64::from(1u32 << COARSE)
    }

    /// An empty sum of curvatures over `batch`, along so many directions; `None` where they do not count.
    pub fn curvatures(&self, batch: Batch, directions: usize) -> Option<CurvatureSum> {
        let quantizer = usable(self.bound?, Norm::LInfinity).ok()?;
        Some(CurvatureSum { sum: BatchSum::over(&quantizer, batch, directions), quantizer })
    }

    /// The score of a point, by the sums of all records' parts there: one count, the larger the more stationary.
    ///
    /// # Errors
    /// If the sums are not those that the score was made for.
    pub fn score(
        &self,
        gradients: &Sensitive<GridSum>,
        curvatures: Option<CurvatureSum>,
    ) -> Result<Sensitive<Counts>, CuratorError> {
        let sum = gradients.expose();
        if sum.clip_norm() > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: sum.clip_norm(), mechanism: self.clip_norm });
        }
        if sum.grid() != self.grid() {
            return Err(CuratorError::Shape);
        }
        let unit = self.bound();
        let length = norm(sum.quanta());
        let slope = length - self.wanted.map_or(0, |w| rounded(w.records as f64 * w.gradient / self.grid().step()));
        let bend = match (self.bound, curvatures) {
            (None, None) => None,
            (Some(bound), Some(curvatures))
                if curvatures.quantizer.clip_norm() <= bound && curvatures.directions() > 0 =>
            {
                let grid = curvatures.quantizer.grid();
                let least = curvatures.sum.sums().iter().copied().min().unwrap_or(0);
                // M is as much as C: one record moves the quotient by at most `unit`, and so its floor, as that is an integer
                let scaled = (-i128::from(least) * i128::from(unit)).div_euclid(i128::from(steps(bound, grid)));
                let wanted = self.wanted.map_or(0.0, |w| w.records as f64 * w.curvature / bound * unit as f64);
                Some(scaled - rounded(wanted))
            }
            _ => return Err(CuratorError::Shape),
        };
        let away = bend.map_or(slope, |bend| slope.max(bend));
        // integers that are at most `unit` apart have floors at most `sensitivity` apart
        let score = i64::try_from(-(away >> COARSE)).map_err(|_| CuratorError::Shape)?;
        Ok(Counts::declared(vec![score], self.sensitivity() as f64))
    }

    /// The scores of several points, for one choice among them.
    ///
    /// # Errors
    /// If one is not a single score of this kind.
    pub fn together(&self, scores: &[Sensitive<Counts>]) -> Result<Sensitive<Counts>, CuratorError> {
        let unit = self.sensitivity() as f64;
        let all = scores.iter().map(|score| score.expose().single(unit)).collect::<Result<Vec<i64>, _>>()?;
        Ok(Counts::declared(all, unit))
    }
}

fn usable(bound: f64, norm: Norm) -> Result<Quantizer, CuratorError> {
    let refuse =
        || CuratorError::Noise("the bound on the contribution of a record is out of range; rescale the loss".into());
    if !(1e-100..1e100).contains(&bound) {
        return Err(refuse());
    }
    Quantizer::new(norm, bound, grid_of(bound)).map_err(|_| refuse())
}

fn rounded(x: f64) -> i128 {
    x.round() as i128
}

/// ⌊√Σs²⌋. Sums of at most 2^38 vectors have a norm below 2^60, whatever their dimension.
fn norm(sums: &[i64]) -> i128 {
    let squares = sums.iter().fold(0u128, |all, s| all.saturating_add(u128::from(s.unsigned_abs()).pow(2)));
    // below 2^64
    squares.isqrt() as i128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AboveThreshold, Choice, ChoiceLaw};
    use dpopt_kernel::ClippedVectors;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::{Event, Relation};
    use proptest::prelude::*;

    const WANTED: Wanted = Wanted { gradient: 0.25, curvature: 0.5, records: 4 };

    fn score_of(score: &Stationarity, gradients: &[Vec<f64>], curvatures: Option<&[Vec<f64>]>) -> i64 {
        let clipped = ClippedVectors::new(score.clip_norm(), score.grid()).unwrap();
        let width = gradients.first().map_or(2, Vec::len);
        let sum = clipped.sum(gradients.len(), width, |i, out| out.extend(&gradients[i]));
        let mut curator = uncharged(&Event::NoOp, NoiseSource::insecure(1));
        let bent = curvatures.map(|rows| {
            let (batch, _) = curator.all_for_loader(rows.len()).unwrap();
            let mut sum = score.curvatures(batch, rows.first().map_or(1, Vec::len)).unwrap();
            sum.add(rows.len(), |i, out| out.extend(&rows[i])).unwrap();
            sum
        });
        score.score(&sum, bent).unwrap().expose().values[0]
    }

    #[test]
    fn the_score_is_the_norm_of_the_sum_and_what_is_wanted_is_taken_off() {
        let plain = Stationarity::of_gradients(2.0).unwrap();
        let unit = plain.unit();
        // (3, 4) is clipped to norm 2, then opposed by half of it
        let gradients = vec![vec![3.0, 4.0], vec![-0.6, -0.8]];
        let found = score_of(&plain, &gradients, None) as f64 * unit;
        // to a unit, 2^-10 of C
        assert!((found + 1.0).abs() < 2e-3, "{found}");
        let wanting = plain.clone().wanting(WANTED).unwrap();
        assert!((score_of(&wanting, &gradients, None) as f64 * unit).abs() < 2e-3);
        assert_eq!(score_of(&plain, &[vec![f64::NAN, f64::INFINITY]], None), 0);
    }

    #[test]
    fn the_larger_of_the_two_parts_counts_each_in_units_of_its_bound() {
        let both = Stationarity::of_gradients(2.0).unwrap().with_curvature(10.0, WANTED).unwrap();
        let per_bound = both.sensitivity() as f64;
        let flat = vec![vec![0.0, 0.0]; 4];
        // λ = −8 and cut to −10 along one direction: ((8 + 10) − 4·.5)/10
        let bent = vec![vec![1.0, -8.0], vec![0.0, -1e9], vec![1e9, 0.0], vec![0.0, 0.0]];
        let found = score_of(&both, &flat, Some(&bent)) as f64 / per_bound;
        assert!((found + 1.6).abs() < 2e-3, "{found}");
        // of one record each curvature is cut by itself
        let lone = vec![vec![-5.0, -1e9], vec![0.0, 0.0], vec![0.0, 0.0], vec![0.0, 0.0]];
        let first_alone = lone.iter().map(|row| vec![row[0]]).collect::<Vec<_>>();
        let both_ways = score_of(&both, &flat, Some(&lone)) as f64 / per_bound;
        let one_way = score_of(&both, &flat, Some(&first_alone)) as f64 / per_bound;
        assert!((both_ways + 0.8).abs() < 2e-3 && (one_way + 0.3).abs() < 2e-3, "{both_ways} {one_way}");
        let opposed = vec![vec![-5.0, 1e9], vec![0.0, 0.0], vec![0.0, 0.0], vec![0.0, 0.0]];
        assert_eq!(score_of(&both, &flat, Some(&opposed)) as f64 / per_bound, one_way);
        // the gradient: (2 + 2 − 4·.25)/2, where the curvature gives less
        let steep = vec![vec![9.0, 0.0], vec![9.0, 0.0], vec![0.0, 0.0], vec![0.0, 0.0]];
        let found = score_of(&both, &steep, Some(&vec![vec![5.0]; 4])) as f64 / per_bound;
        assert!((found + 1.5).abs() < 2e-3, "{found}");
    }

    #[test]
    fn parts_that_are_missing_or_of_other_bounds_are_refused() {
        let plain = Stationarity::of_gradients(2.0).unwrap();
        let both = plain.clone().with_curvature(10.0, WANTED).unwrap();
        let clipped = ClippedVectors::new(2.0, plain.grid()).unwrap();
        let sum = clipped.sum(1, 1, |_, out| out.push(1.0));
        assert!(both.score(&sum, None).is_err());
        let longer = ClippedVectors::new(3.0, plain.grid()).unwrap().sum(1, 1, |_, out| out.push(1.0));
        assert!(matches!(plain.score(&longer, None), Err(CuratorError::Sensitivity { .. })));
        let finer = ClippedVectors::new(2.0, Grid::new(-30)).unwrap().sum(1, 1, |_, out| out.push(1.0));
        assert!(matches!(plain.score(&finer, None), Err(CuratorError::Shape)));
        for bound in [0.0, f64::NAN, f64::INFINITY, 1e200] {
            assert!(Stationarity::of_gradients(bound).is_err());
        }
        let counts = plain.together(&[plain.score(&sum, None).unwrap()]).unwrap();
        let choice =
            Choice::new(ChoiceLaw::Exponential, 1.0, plain.sensitivity(), false, Relation::ReplaceOne).unwrap();
        let mut curator = uncharged(&Event::ExponentialMechanism { epsilon: 1.0 }, NoiseSource::insecure(1));
        assert_eq!(*curator.release(&choice, &counts).unwrap().get(), 0);
        // the noise of a stream is on a finer grid, which has an end
        let stream = |epsilon| AboveThreshold::new(epsilon, plain.sensitivity(), 1, false, Relation::ReplaceOne);
        assert!(stream(1e-4).is_ok() && stream(1e-6).is_err());
    }

    /// (1, 1) has norm √2, more than the integer below it: two of them in a row move the root by 2 at some point.
    #[test]
    fn a_norm_between_two_integers_moves_a_score_by_the_one_above() {
        let mut moved = 0;
        for k in 0..10i64 {
            moved = moved.max(norm(&[k + 1, k + 1]) - norm(&[k, k]));
        }
        assert_eq!(moved, 2);
        assert_eq!(steps(2f64.sqrt(), Grid::new(0)), 2);
    }

    fn numbers() -> impl Strategy<Value = f64> {
        prop_oneof![-3.0..3.0f64, any::<f64>(), Just(f64::NAN), Just(1e300)]
    }

    proptest! {
        #[test]
        fn one_record_moves_a_score_by_at_most_its_sensitivity(
            others in prop::collection::vec(prop::collection::vec(numbers(), 4), 0..5),
            record in prop::collection::vec(numbers(), 4),
            exponents in (-20i32..20, -20i32..20),
            factors in (prop_oneof![Just(1.0f64), Just(1.0f64.next_up()), 1.0..2.0f64], 1.0..2.0f64),
        ) {
            let part = |rows: &[Vec<f64>], range: std::ops::Range<usize>| -> Vec<Vec<f64>> {
                rows.iter().map(|row| row[range.clone()].to_vec()).collect()
            };
            let mut with = others.clone();
            with.push(record);
            let clip = f64::from(exponents.0).exp2() * factors.0;
            let bound = f64::from(exponents.1).exp2() * factors.1;
            let wanted = Wanted { gradient: 0.25 * clip, curvature: 0.5 * bound, records: 4 };
            let score = Stationarity::of_gradients(clip).unwrap();
            let both = score.clone().with_curvature(bound, wanted).unwrap();
            for (score, curved) in [(&score, false), (&both, true)] {
                let at = |rows: &[Vec<f64>]| {
                    let bent = part(rows, 2..4);
                    score_of(score, &part(rows, 0..2), curved.then_some(&bent[..]))
                };
                prop_assert!(at(&with).abs_diff(at(&others)) <= score.sensitivity());
            }
        }
    }
}
