//! Sums of sparse vectors, and the projection mechanism with Gaussian and with Laplace noise (Ghazi, Guzmán, Kamath, Kumar, Manurangsi
//! 2024, Algorithm 1; docs/proofs/sparse-mean.md).
//!
//! Each record is clipped in l1 and l2; the norm that the noise was calibrated for is bounded exactly, in integers on the
//! grid. The noisy sum is projected on the set in which the sum is known to lie: post-processing, and because only what
//! exceeds a threshold is left of it, Gaussian noise of coordinates that no record touches need not be drawn one by one.
//!
//! Covers: sparse-v1 algorithm 1 (certified)
//! Covers: sparse-v2 algorithm 1 (certified)

use super::laplace::rounded_laplace;
use dpopt_draws::{project_l1_l2, project_l1_l2_dense};
use dpopt_kernel::beside::{Expose, Sealed, merge_equal, rounded_gaussian};
use dpopt_kernel::{CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer};
use dpopt_objective::records::{self, RecordSet, SparseVectors};
use dpopt_privacy::Event;
use dpopt_process::stop::paced;

/// How the integer sum is kept.
enum Units {
    /// An integer for each coordinate.
    Dense(Vec<i64>),
    /// Those that records touch, by increasing index.
    Touched(Vec<(u64, i64)>),
}

/// A sum of integer vectors, each within an l1 or an l2 ball; what [`ProjectedGaussian`] and [`ProjectedLaplace`] read.
pub struct SparseSum {
    quanta: Units,
    dimension: u64,
    norm: Norm,
    clip_norm: f64,
    /// Exact bound on the l1 norm of every record.
    l1_norm: f64,
    grid: Grid,
}

impl SparseSum {
    /// Exact bound on the l1 norm of every record.
    pub(crate) fn l1_norm(&self) -> f64 {
        self.l1_norm
    }

    /// Coordinates that differ from 0, by increasing index.
    pub(crate) fn for_each_nonzero(&self, mut visit: impl FnMut(u64, i64)) {
        match &self.quanta {
            Units::Dense(all) => {
                for (j, &quanta) in all.iter().enumerate().filter(|entry| *entry.1 != 0) {
                    visit(j as u64, quanta);
                }
            }
            Units::Touched(some) => some.iter().filter(|entry| entry.1 != 0).for_each(|&(j, quanta)| visit(j, quanta)),
        }
    }

    /// Whether a mechanism calibrated for records with `norm` at most `clip_norm` may read it.
    pub(crate) fn check(&self, norm: Norm, clip_norm: f64, grid: Grid, dimension: u64) -> Result<(), CuratorError> {
        if self.norm != norm || self.grid != grid || self.dimension != dimension {
            return Err(CuratorError::Shape);
        }
        if self.clip_norm > clip_norm {
            return Err(CuratorError::Sensitivity { input: self.clip_norm, mechanism: clip_norm });
        }
        Ok(())
    }
}

/// The set in which every record lies after its clip, and the grid.
#[derive(Clone, Copy, Debug)]
pub struct SparseClip {
    /// Number d of coordinates.
    pub dimension: u64,
    /// L: bound on the l2 norm.
    pub norm: f64,
    /// L·√s: bound on the l1 norm.
    pub l1_norm: f64,
    /// Which of the two the noise is calibrated for, and so is exact.
    pub calibrated: Norm,
    /// Grid of the sum.
    pub grid: Grid,
    /// Keep a counter for each of the d coordinates (8·d bytes) instead of for the touched ones only. Chosen from public facts.
    pub dense: bool,
}

impl SparseClip {
    /// Whether records can be clipped so.
    ///
    /// # Errors
    /// If the clip norm is not positive and finite, or too large for the grid.
    pub fn can_clip(&self) -> Result<(), CuratorError> {
        self.quantizer().map(drop)
    }

    fn quantizer(&self) -> Result<Quantizer, CuratorError> {
        let bound = if self.calibrated == Norm::L1 { self.l1_norm } else { self.norm };
        Quantizer::new(self.calibrated, bound, self.grid).map_err(|e| CuratorError::Noise(e.to_string()))
    }
}

/// Adds up records one at a time, or one for each unit.
pub struct SparseSummer {
    clip: SparseClip,
    quantizer: Quantizer,
    /// The l1 bound in steps of the grid.
    l1_quanta: u64,
    dense: Vec<i64>,
    /// Sums so far by increasing index, and what came since, if not dense.
    touched: Vec<(u64, i64)>,
    fresh: Vec<(u32, i64)>,
    merged: Vec<u32>,
    quanta: Vec<i64>,
}

/// Fresh entries are merged into the sums when there are more than this and more than half as many as sums: amortised, so
/// that an entry costs O(log).
const FRESH: usize = 1 << 20;

impl SparseSummer {
    /// An empty sum.
    ///
    /// # Errors
    /// If the clip norm is not positive and finite, or too large for the grid.
    pub fn new(clip: SparseClip) -> Result<Self, CuratorError> {
        let quantizer = clip.quantizer()?;
        let cells = if clip.dense { usize::try_from(clip.dimension).map_err(|_| CuratorError::Shape)? } else { 0 };
        Ok(Self {
            clip,
            quantizer,
            // a float beyond 2^64 stays at the largest integer
            l1_quanta: (clip.l1_norm / clip.grid.step()).floor() as u64,
            dense: vec![0; cells],
            touched: Vec::new(),
            fresh: Vec::new(),
            merged: Vec::new(),
            quanta: Vec::new(),
        })
    }

    /// Adds one record, given as (index, value) pairs: indices may repeat (their values add up) and those beyond the
    /// dimension are left out; values that are not finite count as 0. `entries` is used as scratch space.
    pub fn add(&mut self, entries: &mut Vec<(u32, f64)>) {
        let dimension = self.clip.dimension;
        entries.retain(|entry| u64::from(entry.0) < dimension && entry.1.is_finite());
        merge(entries);
        shrink(entries, self.clip.norm, |size| size * size, f64::sqrt);
        shrink(entries, self.clip.l1_norm, |size| size, |sum| sum);
        self.quantizer.quantize_sparse(entries, &mut self.merged, &mut self.quanta);
        within_l1(&mut self.quanta, self.l1_quanta);
        if self.clip.dense {
            for (&index, &quanta) in self.merged.iter().zip(&self.quanta) {
                let cell = &mut self.dense[index as usize];
                *cell = cell.wrapping_add(quanta);
            }
            return;
        }
        let found = self.merged.iter().zip(&self.quanta).filter(|entry| *entry.1 != 0);
        self.fresh.extend(found.map(|(&index, &quanta)| (index, quanta)));
        if self.fresh.len() > FRESH.max(self.touched.len() / 2) {
            self.settle();
        }
    }

    /// Adds one record for each unit, the mean of its vectors: it is clipped as one, however many vectors it is of. `added` is called after each
    /// unit, also one that has nothing.
    pub fn add_units(&mut self, quanta: &Sensitive<records::Units<SparseVectors>>, mut added: impl FnMut()) {
        let quanta = quanta.expose();
        let mut mean = Vec::new();
        for unit in paced(0..quanta.len()) {
            quanta.mean(unit, &mut mean);
            self.add(&mut mean);
            added();
        }
    }

    /// Merges the fresh entries into the sums.
    fn settle(&mut self) {
        self.fresh.sort_unstable_by_key(|entry| entry.0);
        let old = std::mem::take(&mut self.touched);
        let mut out: Vec<(u64, i64)> = Vec::with_capacity(old.len() + self.fresh.len());
        let mut old = old.into_iter().peekable();
        for &(index, quanta) in &self.fresh {
            let index = u64::from(index);
            while let Some(entry) = old.next_if(|entry| entry.0 <= index) {
                out.push(entry);
            }
            match out.last_mut() {
                Some(last) if last.0 == index => last.1 = last.1.wrapping_add(quanta),
                _ => out.push((index, quanta)),
            }
        }
        out.extend(old);
        self.fresh.clear();
        self.touched = out;
    }

    /// The sum of all vectors added so far.
    pub fn finish(mut self) -> Sensitive<SparseSum> {
        let SparseClip { dimension, calibrated: norm, grid, .. } = self.clip;
        let (clip_norm, l1_norm) = (self.quantizer.clip_norm(), self.clip.l1_norm);
        let quanta = if self.clip.dense {
            Units::Dense(self.dense)
        } else {
            self.settle();
            Units::Touched(self.touched)
        };
        Sensitive::new(SparseSum { quanta, dimension, norm, clip_norm, l1_norm, grid })
    }
}

/// Sorts by index and adds up equal indices.
fn merge(entries: &mut Vec<(u32, f64)>) {
    merge_equal(entries, |a, b| a + b);
    for entry in entries {
        if !entry.1.is_finite() {
            entry.1 = 0.0;
        }
    }
}

/// Takes what rounding may have left above the l1 bound from the last entries: every entry shrinks or stays, and so does the l2
/// norm.
fn within_l1(quanta: &mut [i64], bound: u64) {
    let mut left = bound;
    for cell in quanta {
        let kept = cell.unsigned_abs().min(left);
        left -= kept;
        // at most |cell|, so it fits
        *cell = if *cell < 0 { (kept as i64).wrapping_neg() } else { kept as i64 };
    }
}

/// Scales the record so that its norm is about `bound` or less. Only for accuracy: the quantizer is what proves a norm.
fn shrink(entries: &mut [(u32, f64)], bound: f64, term: impl Fn(f64) -> f64, norm_of: impl Fn(f64) -> f64) {
    let largest = entries.iter().fold(0.0, |m: f64, e| m.max(e.1.abs()));
    if largest == 0.0 {
        return;
    }
    // relative to the largest entry nothing overflows
    let norm = norm_of(entries.iter().map(|e| term(e.1.abs() / largest)).sum());
    if norm > bound / largest {
        let factor = bound / norm;
        entries.iter_mut().for_each(|e| e.1 = e.1 / largest * factor);
    }
}

/// The set on which a noisy sum is projected: l2 norm at most `radius`, l1 norm at most `radius`·√`sparsity`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// n·L for a sum of n records.
    pub radius: f64,
    /// s: how many non-zeros of equal size a record may have.
    pub sparsity: f64,
}

/// N(0, (z·L)²), rounded to the grid, on every coordinate of a sum of vectors of l2 norm at most L; then the projection. The
/// answer is sparse: (index, value), increasing. Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub struct ProjectedGaussian {
    /// The noise multiplier z.
    pub noise_multiplier: f64,
    /// L: bound on the l2 norm of a record.
    pub clip_norm: f64,
    /// Grid of the sum and of the noise.
    pub grid: Grid,
    /// Number d of coordinates.
    pub dimension: u64,
    /// The set in which the answer lies.
    pub projection: Projection,
}

impl Sealed for ProjectedGaussian {}

impl Mechanism for ProjectedGaussian {
    type Input = SparseSum;
    type Output = Vec<(u64, f64)>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &SparseSum) -> f64 {
        SamplerError::rounded(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "projected noisy sum of sparse vectors"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_gaussian(self.noise_multiplier * self.clip_norm, self.grid).map(drop)
    }

    fn check(&self, input: &SparseSum) -> Result<(), CuratorError> {
        input.check(Norm::L2, self.clip_norm, self.grid, self.dimension)
    }

    fn apply(&self, input: &SparseSum, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        let Projection { radius, sparsity } = self.projection;
        let sampler = rounded_gaussian(self.noise_multiplier * self.clip_norm, self.grid)?;
        let mut stream = noise.stream(Purpose::Noise, 0);
        Ok(match &input.quanta {
            Units::Dense(sum) => {
                let mut noisy = sum.clone();
                sampler.add_to(&mut noisy, &mut stream);
                project_l1_l2_dense(&noisy, self.grid, radius, sparsity)
            }
            Units::Touched(sum) => project_l1_l2(&sampler, self.dimension, sum, radius, sparsity, &mut stream),
        })
    }
}

/// Laplace noise of scale b·C, rounded to the grid, on every coordinate of a sum of vectors of l1 norm at most C; then the
/// projection. Event: `Laplace(b)`. Draws all d samples.
#[derive(Clone, Debug)]
pub struct ProjectedLaplace {
    /// b: the noise scale over C.
    pub noise_multiplier: f64,
    /// C = L·√s: bound on the l1 norm of a record.
    pub clip_norm: f64,
    /// Grid of the sum and of the noise.
    pub grid: Grid,
    /// Number d of coordinates.
    pub dimension: u64,
    /// The set in which the answer lies.
    pub projection: Projection,
}

impl Sealed for ProjectedLaplace {}

impl Mechanism for ProjectedLaplace {
    type Input = SparseSum;
    type Output = Vec<(u64, f64)>;

    fn event(&self) -> Event {
        Event::Laplace { noise_multiplier: self.noise_multiplier }
    }

    fn sampler_error(&self, _input: &SparseSum) -> f64 {
        SamplerError::fine(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "projected noisy sum of sparse vectors"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid).map(drop)
    }

    fn check(&self, input: &SparseSum) -> Result<(), CuratorError> {
        if matches!(input.quanta, Units::Touched(_)) {
            return Err(CuratorError::Shape);
        }
        input.check(Norm::L1, self.clip_norm, self.grid, self.dimension)
    }

    fn apply(&self, input: &SparseSum, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        let Units::Dense(sum) = &input.quanta else { return Err(CuratorError::Shape) };
        let sampler = rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid)?;
        let mut noisy = sum.clone();
        sampler.add_to(&mut noisy, &mut noise.stream(Purpose::Noise, 0));
        Ok(project_l1_l2_dense(&noisy, self.grid, self.projection.radius, self.projection.sparsity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_objective::records::Owners;
    use proptest::prelude::*;

    const GRID: i32 = -30;

    fn clip(dimension: u64, calibrated: Norm, dense: bool) -> SparseClip {
        SparseClip { dimension, norm: 1.0, l1_norm: 1.5, calibrated, grid: Grid::new(GRID), dense }
    }

    fn summed(clip: SparseClip, records: &[Vec<(u32, f64)>]) -> Vec<(u64, i64)> {
        let mut summer = SparseSummer::new(clip).unwrap();
        records.iter().for_each(|record| summer.add(&mut record.clone()));
        nonzeros(summer)
    }

    fn nonzeros(summer: SparseSummer) -> Vec<(u64, i64)> {
        match &summer.finish().expose().quanta {
            Units::Touched(quanta) => quanta.iter().copied().filter(|e| e.1 != 0).collect(),
            Units::Dense(quanta) => {
                quanta.iter().enumerate().map(|(j, &u)| (j as u64, u)).filter(|e| e.1 != 0).collect()
            }
        }
    }

    /// The integers of the sum of each privacy unit's mean; a unit is its vectors, `most` of which are left.
    fn summed_units(clip: SparseClip, quanta: &[&[Vec<(u32, f64)>]], most: Option<u64>) -> Vec<(u64, i64)> {
        let (mut vectors, mut of_row) = (SparseVectors::default(), Vec::new());
        for (unit, own) in quanta.iter().enumerate() {
            own.iter().for_each(|vector| vectors.push(vector));
            of_row.extend(own.iter().map(|_| unit as u32));
        }
        let owners = Sensitive::new(Owners { of_row, units: quanta.len() });
        let mut all = owners.of(Sensitive::new(vectors)).unwrap();
        if let Some(most) = most {
            let mut curator = uncharged(&Event::NonPrivate, NoiseSource::insecure(3));
            all = curator.capped(all, most.try_into().unwrap());
        }
        let (mut summer, mut added) = (SparseSummer::new(clip).unwrap(), 0);
        summer.add_units(&all, || added += 1);
        assert_eq!(added, quanta.len());
        nonzeros(summer)
    }

    #[test]
    fn a_unit_moves_a_sum_by_one_norm_however_many_rows_it_has() {
        let own = |j: u32| vec![vec![(j, 0.25), (9, -0.5)], vec![(j, 0.75)]];
        let (first, second) = (own(1), own(2));
        // equal rows, rows that agree on nothing, and rows that are no numbers
        let far: Vec<Vec<(u32, f64)>> = (0..300).map(|_| vec![(3, 1e6), (4, -1e6)]).collect();
        let spread: Vec<Vec<(u32, f64)>> = (0..300).map(|i| vec![(i % 10, 1e9 * f64::from(i + 1))]).collect();
        let wild: Vec<Vec<(u32, f64)>> =
            vec![vec![(5, f64::NAN)], vec![(5, f64::MAX), (5, f64::MAX)], vec![(6, -1e-320)]];
        let unit = Grid::new(GRID).step();
        for (calibrated, bound) in [(Norm::L2, 1.0), (Norm::L1, 1.5)] {
            for most in [None, Some(1), Some(8)] {
                for dense in [false, true] {
                    let clip = clip(10, calibrated, dense);
                    // the same choice of the others' rows in both: the unit comes last
                    let without = summed_units(clip, &[&first, &second, &[]], most);
                    for rows in [&far, &spread, &wild] {
                        let with = summed_units(clip, &[&first, &second, rows], most);
                        let at = |sum: &[(u64, i64)], j| sum.iter().find(|e| e.0 == j).map_or(0, |e| e.1);
                        let moved = (0..10).map(|j| (at(&with, j) - at(&without, j)) as f64 * unit);
                        let norm = if calibrated == Norm::L2 {
                            moved.map(|m| m * m).sum::<f64>().sqrt()
                        } else {
                            moved.map(f64::abs).sum()
                        };
                        assert!(norm <= bound, "{calibrated:?} {most:?}: {norm}");
                        assert!(norm > 0.9 * bound || !std::ptr::eq(rows, &far), "nothing was bounded: {norm}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_units_and_of_their_rows_changes_no_step_of_the_grid() {
        let unit = |seed: u32| -> Vec<Vec<(u32, f64)>> {
            (0..7u32)
                .map(|i| (0..3).map(|k| ((seed + i * k) % 6, 0.1 * f64::from(i + k + seed) - 0.3)).collect())
                .collect()
        };
        let (a, b) = (unit(1), unit(2));
        let reversed = |rows: &[Vec<(u32, f64)>]| rows.iter().rev().cloned().collect::<Vec<_>>();
        let before = summed_units(clip(10, Norm::L2, false), &[&a, &b], None);
        let after = summed_units(clip(10, Norm::L2, false), &[&reversed(&b), &reversed(&a)], None);
        assert!(before.len() > 3);
        assert_eq!(before, after);
    }

    fn record() -> impl Strategy<Value = Vec<(u32, f64)>> {
        let value = prop_oneof![
            -2.0..2.0f64,
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::MAX),
            Just(-f64::MAX),
            Just(1e-320),
        ];
        proptest::collection::vec((0u32..12, value), 0..8)
    }

    proptest! {
        #[test]
        fn one_record_stays_within_both_norms_whatever_it_holds(record in record()) {
            let unit = Grid::new(GRID).step();
            for calibrated in [Norm::L1, Norm::L2] {
                let sum = summed(clip(10, calibrated, false), std::slice::from_ref(&record));
                prop_assert!(sum.iter().all(|e| e.0 < 10));
                let l1: f64 = sum.iter().map(|e| e.1 as f64 * unit).map(f64::abs).sum();
                let l2 = sum.iter().map(|e| (e.1 as f64 * unit).powi(2)).sum::<f64>().sqrt();
                // l1 and the calibrated norm exactly, l2 up to the floats of its clip if it is the other one
                prop_assert!(l1 <= 1.5, "{l1}");
                prop_assert!(l2 <= if calibrated == Norm::L2 { 1.0 } else { 1.0 + 1e-12 }, "{l2}");
            }
        }

        #[test]
        fn touched_and_dense_sums_agree(records in proptest::collection::vec(record(), 0..20)) {
            let touched = summed(clip(10, Norm::L2, false), &records);
            prop_assert_eq!(touched, summed(clip(10, Norm::L2, true), &records));
        }
    }

    #[test]
    fn many_records_are_merged_in_runs() {
        let mut summer = SparseSummer::new(clip(1 << 20, Norm::L2, false)).unwrap();
        let mut dense = SparseSummer::new(clip(1 << 20, Norm::L2, true)).unwrap();
        for i in 0..300_000u32 {
            let mut entries: Vec<(u32, f64)> =
                (0..5).map(|k| ((i * 7919 + k * k * 104_729) % (1 << 20), f64::from(k) - 2.0)).collect();
            summer.add(&mut entries.clone());
            dense.add(&mut entries);
        }
        let (a, b) = (summer.finish(), dense.finish());
        let (Units::Touched(a), Units::Dense(b)) = (&a.expose().quanta, &b.expose().quanta) else { panic!("forms") };
        assert!(a.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(a.iter().all(|e| b[e.0 as usize] == e.1));
        assert_eq!(a.iter().filter(|e| e.1 != 0).count(), b.iter().filter(|u| **u != 0).count());
    }

    #[test]
    fn projected_sums_leave_once_and_only_as_planned() {
        let projection = Projection { radius: 4.0, sparsity: 2.25 };
        let sum = |calibrated, dense| {
            let mut summer = SparseSummer::new(clip(1000, calibrated, dense)).unwrap();
            (0..4).for_each(|_| summer.add(&mut vec![(7, 3.0)]));
            summer.finish()
        };
        let gaussian = ProjectedGaussian {
            noise_multiplier: 1e-4,
            clip_norm: 1.0,
            grid: Grid::new(GRID),
            dimension: 1000,
            projection,
        };
        for dense in [false, true] {
            let mut curator = uncharged(&gaussian.event(), NoiseSource::insecure(1));
            let wrong = ProjectedGaussian { clip_norm: 0.5, ..gaussian.clone() };
            assert!(matches!(curator.release(&wrong, &sum(Norm::L2, dense)), Err(CuratorError::Sensitivity { .. })));
            assert!(matches!(curator.release(&gaussian, &sum(Norm::L1, dense)), Err(CuratorError::Shape)));
            let out = curator.release(&gaussian, &sum(Norm::L2, dense)).unwrap().into_inner();
            let at = out.iter().find(|e| e.0 == 7).unwrap().1;
            assert!((at - 4.0).abs() < 0.01, "{out:?}");
            assert!(curator.release(&gaussian, &sum(Norm::L2, dense)).is_err());
        }
        let laplace = ProjectedLaplace {
            noise_multiplier: 1e-4,
            clip_norm: 1.5,
            grid: Grid::new(GRID),
            dimension: 1000,
            projection,
        };
        let mut curator = uncharged(&laplace.event(), NoiseSource::insecure(1));
        assert!(matches!(curator.release(&laplace, &sum(Norm::L1, false)), Err(CuratorError::Shape)));
        let out = curator.release(&laplace, &sum(Norm::L1, true)).unwrap().into_inner();
        assert!((out.iter().find(|e| e.0 == 7).unwrap().1 - 4.0).abs() < 0.02, "{out:?}");
    }
}
