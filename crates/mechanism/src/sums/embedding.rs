//! Private selection of the rows of an embedding model that move (Ghazi et al. 2023; docs/proofs/embeddings.md).
//!
//! A record's whole gradient, over its embeddings and the dense part together, is clipped to C and truncated to a public
//! grid. Which rows it touches is as secret as the record: either the noise of all rows is drawn (lazily, or at each step), or
//! each step first releases noisy counts of touched features, and only features whose noisy count passes a level get gradient
//! and noise.

use dpopt_draws::Exceedances;
use dpopt_kernel::beside::{Expose, Members, Scratch, Sealed, Touched};
use dpopt_kernel::{Batch, BatchId, Clipped, CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedGaussian};
use dpopt_objective::objective::{Embedded, Objective};
use dpopt_objective::records::{RecordBuffer, Records};
use dpopt_privacy::Event;
use std::collections::BTreeMap;

impl TouchedRows {
    /// Counts of touched features and gradient sums of a Poisson batch, which is used up. A record's counts are one for each
    /// of its features, scaled down together to l2 norm `count_clip_norm` on `count_grid`.
    pub fn of<R: Records>(
        gradient: &Clipped<Embedded>,
        examples: &Sensitive<R>,
        batch: Batch,
        moved: &[f64],
        (count_clip_norm, count_grid): (f64, Grid),
    ) -> Result<Sensitive<TouchedRows>, CuratorError> {
        let examples = examples.expose();
        if !gradient.objective().describes(examples) {
            return Err(CuratorError::Shape);
        }
        let count_quantizer =
            Quantizer::new(Norm::L2, count_clip_norm, count_grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let [features, w, dense] = gradient.objective().shape();
        let table = features * w;
        let mut rows: BTreeMap<u32, (i64, Vec<i64>)> = BTreeMap::new();
        let mut dense = vec![0i64; dense];
        let (mut buffer, mut ones, mut counts) = (RecordBuffer::default(), Vec::new(), Vec::new());
        let (mut touched, mut scratch) = (Touched::at(moved), Scratch::default());
        for &i in batch.records().iter().filter(|&&i| i < examples.len() as u64) {
            let (columns, ..) = examples.record(i as usize, &mut buffer).map_err(CuratorError::unreadable)?;
            ones.clear();
            ones.resize(columns.len(), 1.0);
            count_quantizer.quantize(&mut ones, &mut counts);
            for (&j, count) in columns.iter().zip(&counts) {
                let row = rows.entry(j).or_insert_with(|| (0, vec![0; w]));
                row.0 = row.0.wrapping_add(*count);
            }
            gradient.add_record(examples, i as usize, &mut touched, &mut scratch).map_err(CuratorError::unreadable)?;
        }
        for (at, z) in touched.entries() {
            let cell = match at.checked_sub(table) {
                Some(place) => dense.get_mut(place),
                None => rows.get_mut(&((at / w) as u32)).and_then(|row| row.1.get_mut(at % w)),
            };
            if let Some(cell) = cell {
                *cell = z;
            }
        }
        Ok(Sensitive::new(TouchedRows {
            rows,
            dense,
            features,
            width: w,
            grids: [count_quantizer.grid(), gradient.grid()],
            clip_norms: [count_quantizer.clip_norm(), gradient.clip_norm()],
            batch: batch.id(),
        }))
    }
}

/// What a batch touches: per feature a count and the gradient of its row, and the gradient of the dense part.
pub struct TouchedRows {
    rows: BTreeMap<u32, (i64, Vec<i64>)>,
    dense: Vec<i64>,
    features: usize,
    width: usize,
    grids: [Grid; 2],
    clip_norms: [f64; 2],
    batch: BatchId,
}

/// One step of training on privately selected rows (Ghazi et al. 2023: DP-AdaFEST).
///
/// V = counts + N(0, σ₁²C₁²) for *all* features; the features with V above a public level are chosen; of their rows, and of
/// the dense part, the gradient sum + N(0, σ₂²C₂²) is released. Given the batch both are adaptive Gaussian releases, so one
/// Gaussian with σ = (σ₁⁻² + σ₂⁻²)^(−1/2) dominates them *jointly*, and sampling amplifies that pair.
pub struct SelectedRows {
    /// Clip norms C₁ of the counts and C₂ of the gradients.
    pub clip_norms: [f64; 2],
    /// σ₁, σ₂: the standard deviations of the noise are σ₁C₁ and σ₂C₂.
    pub multipliers: [f64; 2],
    /// Grids of selection and of gradients.
    pub grids: [Grid; 2],
    /// Level over σ₁C₁, in eighths.
    pub level_eighths: u32,
    /// d, numbers per feature, length of the dense part.
    pub shape: [usize; 3],
}

/// What a step releases.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedUpdate {
    /// The noisy gradient of the dense part; then for each chosen feature its number and the noisy gradient of its row.
    numbers: Vec<f64>,
    dense: usize,
    width: usize,
}

impl SelectedUpdate {
    /// The noisy gradient of the dense part.
    pub fn dense(&self) -> &[f64] {
        &self.numbers[..self.dense]
    }

    /// Chosen features with their noisy gradients.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.numbers[self.dense..].chunks_exact(self.width + 1).map(|row| (row[0] as usize, &row[1..]))
    }
}

impl SelectedRows {
    /// The samplers' error of one step: per feature a count, a gap and a conditional point, per weight a rounded Gaussian.
    pub fn step_error([features, width, dense]: [usize; 3]) -> SamplerError {
        let c = features as f64;
        SamplerError::rounded(c + c * width as f64 + dense as f64) + SamplerError::fine(c)
    }

    fn sampler(&self, which: usize) -> Result<RoundedGaussian, CuratorError> {
        // the product was rounded once
        let std = (self.multipliers[which] * self.clip_norms[which]).next_up();
        RoundedGaussian::new(std, self.grids[which]).map_err(|e| CuratorError::Noise(e.to_string()))
    }
}

impl Sealed for SelectedRows {}

impl Mechanism for SelectedRows {
    type Input = TouchedRows;
    type Output = SelectedUpdate;

    fn event(&self) -> Event {
        Event::gaussian(joint_multiplier(self.multipliers))
    }

    fn sampler_error(&self, _input: &TouchedRows) -> f64 {
        Self::step_error(self.shape).total_variation()
    }

    fn label(&self) -> &'static str {
        "chosen features and the gradient of their rows"
    }

    fn check(&self, input: &TouchedRows) -> Result<(), CuratorError> {
        for (given, planned) in input.clip_norms.into_iter().zip(self.clip_norms) {
            if given > planned {
                return Err(CuratorError::Sensitivity { input: given, mechanism: planned });
            }
        }
        if input.grids != self.grids || [input.features, input.width, input.dense.len()] != self.shape {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &TouchedRows) -> Option<BatchId> {
        Some(input.batch)
    }

    fn numbers(output: &SelectedUpdate) -> Option<&[f64]> {
        Some(&output.numbers)
    }

    fn apply(&self, input: &TouchedRows, noise: &mut NoiseSource) -> Result<SelectedUpdate, CuratorError> {
        let [features, width, _] = self.shape;
        let level = Exceedances::new(self.sampler(0)?, self.level_eighths).ok_or_else(|| {
            CuratorError::Noise("the threshold of counts is out of range; give 1/8 to 9 standard deviations".into())
        })?;
        let counts: Vec<(u64, i64)> = input.rows.iter().map(|(&j, row)| (u64::from(j), row.0)).collect();
        let chosen = level.draw(features as u64, &counts, &mut noise.stream(Purpose::Selection, 0));
        let (sampler, grid) = (self.sampler(1)?, self.grids[1]);
        let mut stream = noise.stream(Purpose::Noise, 0);
        let mut quanta = input.dense.clone();
        for &j in &chosen {
            match input.rows.get(&(j as u32)) {
                Some(row) => quanta.extend_from_slice(&row.1),
                None => quanta.extend(std::iter::repeat_n(0, width)),
            }
        }
        sampler.add_to(&mut quanta, &mut stream);
        let dense = input.dense.len();
        let mut numbers: Vec<f64> = quanta[..dense].iter().map(|&u| grid.to_f64(u)).collect();
        for (&j, row) in chosen.iter().zip(quanta[dense..].chunks_exact(width)) {
            numbers.push(j as f64);
            numbers.extend(row.iter().map(|&u| grid.to_f64(u)));
        }
        Ok(SelectedUpdate { numbers, dense, width })
    }
}

/// σ = (σ₁⁻² + σ₂⁻²)^(−1/2), rounded down.
pub fn joint_multiplier([first, second]: [f64; 2]) -> f64 {
    // four roundings of relative size 2^-53 each
    first * second / first.hypot(second) * (1.0 - 4.0 * f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::approx_constant, reason = "reference values, written out")]
    fn two_releases_are_one_gaussian() {
        for (first, expected) in
            [(1.0, 0.707_106_781), (2.0, 0.894_427_191), (4.0, 0.970_142_500), (10.0, 0.995_037_190)]
        {
            let joint = joint_multiplier([first, 1.0]);
            assert!((joint / expected - 1.0).abs() < 1e-8 && joint < first / (first * first + 1.0f64).sqrt());
        }
    }
}
