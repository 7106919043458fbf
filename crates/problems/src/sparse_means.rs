//! Hard instances for means of sparse vectors, and so for optimization with sparse gradients (Ghazi et al. 2024, section 4): packing,
//! block-diagonal bootstrapping, fingerprinting, padding; with the lower bounds that they prove.
//!
//! Rows are s-sparse with entries ±1/√s or 0, of l2 norm 1 (or 0). Error means ‖estimate − mean‖₂. Linear losses −⟨x, row⟩
//! on the unit ball turn each into a problem of risk minimisation whose gradients are the rows.
//!
//! Covers: sparse-v1 theorem 4.1, theorem 4.4, theorem 4.5 (part: the hard instance, for tests)
//! Covers: sparse-v2 theorem 4.1, theorem 4.4, theorem 4.5 (part: the hard instance, for tests)

use super::sparse_packing;
use dpopt_objective::records::Rows;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Rows with their exact mean.
#[derive(Clone, Debug)]
pub struct SparseMean {
    /// n × d, every row s-sparse.
    pub rows: Rows,
    /// Mean of the rows: d entries.
    pub mean: Vec<f64>,
}

impl SparseMean {
    fn of(rows: Rows) -> Self {
        let mut mean = vec![0.0; rows.columns()];
        for i in 0..rows.len() {
            let (columns, values) = rows.row(i);
            columns.iter().zip(values).for_each(|(&j, &v)| mean[j as usize] += f64::from(v));
        }
        let n = rows.len().max(1) as f64;
        mean.iter_mut().for_each(|m| *m /= n);
        Self { rows, mean }
    }

    /// Number of rows.
    pub fn records(&self) -> usize {
        self.rows.len()
    }

    /// Number of coordinates.
    pub fn dimension(&self) -> usize {
        self.rows.columns()
    }

    /// The l2 error ‖estimate − mean‖₂.
    pub fn error(&self, estimate: &[f64]) -> f64 {
        estimate.iter().zip(&self.mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// n rows of this instance and `more` rows of zeros: errors shrink by n/(n + more), privacy does not (padding).
    pub fn padded(&self, more: usize) -> Self {
        let mut rows = self.rows.clone();
        (0..more).for_each(|_| rows.push_zero());
        Self::of(rows)
    }

    /// `copies` of independent instances on the diagonal of one matrix, zeros elsewhere, in `dimension` ≥ Σ d columns: each
    /// must be answered, with all of ε, from its own rows alone (block-diagonal bootstrapping).
    ///
    /// # Panics
    /// If the blocks have more columns than `dimension` (a bug of the caller).
    pub fn block_diagonal(blocks: &[SparseMean], dimension: usize) -> Self {
        let mut rows = Rows::new(dimension);
        let mut offset = 0u32;
        for block in blocks {
            for i in 0..block.records() {
                let (columns, values) = block.rows.row(i);
                let mut entries: Vec<(u32, f32)> = columns.iter().zip(values).map(|(&j, &v)| (offset + j, v)).collect();
                rows.push_clipped(&mut entries, 1.0);
            }
            offset += block.dimension() as u32;
        }
        Self::of(rows)
    }
}

fn random(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Uniform in 0..bound: the bias of 2^-64·bound does not matter here.
fn below(rng: &mut ChaCha20Rng, bound: usize) -> usize {
    ((u128::from(rng.next_u64()) * bound as u128) >> 64) as usize
}

/// Uniform in [0, 1).
fn uniform(rng: &mut ChaCha20Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

fn entry(sparsity: usize) -> f32 {
    (1.0 / (sparsity as f64).sqrt()) as f32
}

/// n copies of one random point of a packing of `points` points: no ε-DP estimate is within ½·min{1, ln(p/2)/(εn)}/√2 of the
/// mean with probability above ½ (see [`pure_base_bound`]).
pub fn packed_copies(records: usize, dimension: usize, sparsity: usize, points: usize, seed: u64) -> SparseMean {
    let supports = sparse_packing(points, dimension, sparsity, seed);
    let chosen = &supports[below(&mut random(seed.wrapping_add(1)), supports.len().max(1))];
    let mut rows = Rows::new(dimension);
    for _ in 0..records {
        rows.push_clipped(&mut chosen.iter().map(|&j| (j, entry(sparsity))).collect::<Vec<_>>(), 1.0);
    }
    SparseMean::of(rows)
}

/// Lower bound on the error of ε-DP estimates on [`packed_copies`] with `points` points, with probability ½.
pub fn pure_base_bound(records: usize, points: usize, epsilon: f64) -> f64 {
    let enough = (0.5 * points as f64).ln().max(0.0) / epsilon;
    0.5 * 0.5f64.sqrt() * (enough / records as f64).min(1.0)
}

/// Fingerprinting in `sparsity` dense coordinates: p uniform in [−1, 1]^s, rows ±1/√s with mean p/√s.
pub fn fingerprints(records: usize, sparsity: usize, seed: u64) -> SparseMean {
    let mut rng = random(seed);
    let bias: Vec<f64> = (0..sparsity).map(|_| 2.0 * uniform(&mut rng) - 1.0).collect();
    let mut rows = Rows::new(sparsity);
    for _ in 0..records {
        let mut signs: Vec<(u32, f32)> = bias
            .iter()
            .enumerate()
            .map(|(j, p)| {
                (j as u32, if uniform(&mut rng) < 0.5 * (1.0 + p) { entry(sparsity) } else { -entry(sparsity) })
            })
            .collect();
        rows.push_clipped(&mut signs, 1.0);
    }
    SparseMean::of(rows)
}

/// A block of one repeated random sign vector: the variant of [`fingerprints`] with the largest mean.
pub fn repeated_signs(records: usize, sparsity: usize, seed: u64) -> SparseMean {
    let mut rng = random(seed);
    let signs: Vec<(u32, f32)> = (0..sparsity as u32)
        .map(|j| (j, if rng.next_u64() & 1 == 0 { entry(sparsity) } else { -entry(sparsity) }))
        .collect();
    let mut rows = Rows::new(sparsity);
    (0..records).for_each(|_| rows.push_clipped(&mut signs.clone(), 1.0));
    SparseMean::of(rows)
}

/// Which rows a block of the hard instance for (ε, δ) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// [`fingerprints`]: the instance of the proof.
    Fingerprints,
    /// [`repeated_signs`]: a larger mean, for benchmarks of error.
    RepeatedSigns,
}

/// The hard instance for (ε, δ): blocks of n₀ = √(s·ln(1/δ))/ε rows in s coordinates of their own, as many as there are rows
/// and coordinates for; rows left over are zero.
pub fn hard_mean(
    records: usize,
    dimension: usize,
    sparsity: usize,
    (epsilon, delta): (f64, f64),
    block: Block,
    seed: u64,
) -> SparseMean {
    let size = ((sparsity as f64 * (1.0 / delta).ln()).sqrt() / epsilon).round().clamp(1.0, records as f64) as usize;
    let blocks: Vec<SparseMean> = (0..(records / size).min(dimension / sparsity))
        .map(|k| {
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k as u64);
            match block {
                Block::Fingerprints => fingerprints(size, sparsity, seed),
                Block::RepeatedSigns => repeated_signs(size, sparsity, seed),
            }
        })
        .collect();
    SparseMean::block_diagonal(&blocks, dimension).padded(records - blocks.len() * size)
}

/// Rates of the lower bound on the error of any private estimate of an s-sparse mean in the unit ball, without constants: pure
/// for δ = 0, else approximate.
pub fn lower_rate(records: f64, dimension: f64, sparsity: f64, epsilon: f64, delta: f64) -> f64 {
    let en = epsilon * records;
    if delta == 0.0 {
        let sparse = (sparsity * (dimension / en).ln().max(0.0) / en).sqrt();
        let dense = (sparsity * dimension).sqrt() / en;
        // beyond n = d/ε only the dense branch is left
        return if en < dimension { sparse.min(dense).min(1.0) } else { dense.min(1.0) };
    }
    let ln = (1.0 / delta).ln();
    ((sparsity * ln).powf(0.25) / en.sqrt()).min((dimension * ln).sqrt() / en).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_packing_point_and_their_bound() {
        let (d, s) = (60, 4);
        let copies = packed_copies(7, d, s, 50, 3);
        assert!((copies.mean.iter().map(|m| m * m).sum::<f64>() - 1.0).abs() < 1e-6);
        assert!((pure_base_bound(10, 2000, 1.0) - 0.5 * 0.5f64.sqrt() * 1000f64.ln() / 10.0).abs() < 1e-12);
        assert!((pure_base_bound(1, 2000, 1.0) - 0.5 * 0.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn blocks_lie_on_the_diagonal_and_padding_shrinks_the_mean() {
        let instance = hard_mean(1000, 500, 10, (1.0, 1e-6), Block::RepeatedSigns, 1);
        // n0 = √(10·13.8) = 12: 50 blocks fill 600 rows and all coordinates, 400 rows are zero
        assert_eq!((instance.records(), instance.dimension()), (1000, 500));
        for i in 0..1000 {
            let columns = instance.rows.row(i).0;
            assert_eq!(columns.len(), if i < 600 { 10 } else { 0 });
            assert!(columns.iter().all(|&j| j as usize / 10 == i / 12));
        }
        let norm = |m: &SparseMean| m.mean.iter().map(|v| v * v).sum::<f64>().sqrt();
        // K blocks of n0 equal unit rows: √K·n0/n
        assert!((norm(&instance) - 50f64.sqrt() * 12.0 / 1000.0).abs() < 1e-6);
        assert!((norm(&instance.padded(1000)) - 0.5 * norm(&instance)).abs() < 1e-12);
        assert!((instance.error(&vec![0.0; 500]) - norm(&instance)).abs() < 1e-12);
        let law = fingerprints(20_000, 4, 2);
        // a mean of p/√s with p uniform: each |coordinate| at most 1/√s, not all the same
        assert!(law.mean.iter().all(|m| m.abs() <= 0.5) && law.mean.iter().any(|m| m.abs() > 0.01));
    }

    #[test]
    fn rates_have_three_regimes() {
        let rate = |n: f64| lower_rate(n, 1e6, 10.0, 1.0, 1e-6);
        assert_eq!(rate(2.0), 1.0);
        assert!(((rate(1e4) / rate(1e2)).log10() / 2.0 + 0.5).abs() < 1e-9);
        assert!(((rate(1e12) / rate(1e10)).log10() / 2.0 + 1.0).abs() < 1e-9);
        let pure = |n: f64| lower_rate(n, 1e6, 10.0, 1.0, 0.0);
        assert!(pure(1e5) < pure(1e3) && pure(1e8) < pure(1e5) && pure(2.0) == 1.0);
    }
}
