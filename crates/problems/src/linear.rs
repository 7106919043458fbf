//! Linear losses f(x; s) = −⟨x, s⟩: the hard instances behind every lower bound for private ERM and SCO, with their
//! exact optima (Liu 2024, Theorem 3.7.1; Asi et al. 2021, Theorems 4 and 5; Ghazi et al. 2024, Theorems 4.1 and 4.5).
//!
//! On the unit l2 ball, and on the box [−1, 1]^d, minimisers, minima and excess risks are known in closed form, for the
//! drawn records and for the law behind them. A record's gradient is −s for every x, so ‖s‖ is its Lipschitz constant.
//!
//! Covers: adaptive-gradients proposition 1, theorem 4, proposition 2, theorem 5 (part: the hard instance, for tests)

use dpopt_noise::{NoiseSource, Purpose, Stream};
use dpopt_objective::records::{Examples, Rows};

/// Records of linear losses and the mean of their law.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearLosses {
    dimension: usize,
    /// The records, row by row.
    rows: Vec<f32>,
    /// Mean of the records.
    mean: Vec<f64>,
    /// E s: the mean of the law.
    law: Vec<f64>,
    /// Bound on ‖s‖₂ that every record keeps.
    lipschitz: f64,
}

impl LinearLosses {
    /// Signs with a common bias: each coordinate of a record is ±1/√d with mean b·v_j/√d, v a random sign vector. With
    /// b ≈ min(1, √d/(εn)) no (ε, δ)-DP method recovers v, and its excess risk on the unit ball is about b.
    pub fn biased_signs(records: usize, dimension: usize, bias: f64, seed: u64) -> Self {
        let mut stream = source(seed);
        let bias = bias.clamp(0.0, 1.0);
        let size = 1.0 / (dimension.max(1) as f64).sqrt();
        let means: Vec<f64> = (0..dimension).map(|_| if stream.coin() { bias } else { -bias }).collect();
        Self::signs(records, &vec![size; dimension], &means, 1.0, &mut stream)
    }

    /// Coordinates ±σ_j with mean q_j·σ_j, q_j uniform on [−1, 1]: the instance of the lower bounds for anisotropic data,
    /// on the box and on the ball (Asi et al. 2021, Propositions 1 and 2).
    pub fn random_signs(records: usize, scales: &[f64], seed: u64) -> Self {
        let mut stream = source(seed);
        let means: Vec<f64> = scales.iter().map(|_| 2.0 * stream.uniform() - 1.0).collect();
        let lipschitz = dpopt_objective::geometry::norm(scales);
        Self::signs(records, scales, &means, lipschitz, &mut stream)
    }

    /// Coordinates ±σ_j with mean ±b_j·σ_j, the sign of the mean drawn: `bias` in [0, 1] makes signs as hard to tell as one likes.
    /// With σ equal on one bucket of coordinates and tiny elsewhere it is one bucket in the proof of Proposition 1 of Asi et al. 2021 ([`bucket`]).
    ///
    /// # Panics
    /// If there is not one bias per scale.
    pub fn signs_with_bias(records: usize, scales: &[f64], bias: &[f64], seed: u64) -> Self {
        assert_eq!(scales.len(), bias.len(), "one bias per coordinate");
        let mut stream = source(seed);
        let means: Vec<f64> = bias.iter().map(|b| b.clamp(0.0, 1.0) * if stream.coin() { 1.0 } else { -1.0 }).collect();
        Self::signs(records, scales, &means, dpopt_objective::geometry::norm(scales), &mut stream)
    }

    /// `core` records of [`random_signs`](Self::random_signs), each `copies` times, padded to `records` by records that
    /// cancel: +σ and −σ in turn (Asi et al. 2021, Lemma D.3). With copies = ⌊ln(1 + ε₀)/ε⌋ an ε-DP method meets an ε₀-DP one's difficulty.
    /// The law is that of the records themselves.
    pub fn padded(records: usize, core: usize, copies: usize, scales: &[f64], seed: u64) -> Self {
        let inner = Self::random_signs(core, scales, seed);
        let mut rows = Vec::with_capacity(records * scales.len());
        for i in 0..records.min(core * copies) {
            rows.extend_from_slice(inner.row(i % core.max(1)));
        }
        for i in records.min(core * copies)..records {
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            rows.extend(scales.iter().map(|s| (sign * s) as f32));
        }
        let mut all = Self::from_rows(scales.len(), rows, inner.lipschitz);
        all.law = all.mean.clone();
        all
    }

    /// N(δ_v·v, σ²I) with σ = G/√(d + d²/(4k)) and δ_v = σ√d/(2√k): `queries` = k values of losses do not find the signs v
    /// (Liu 2024, Theorem 3.7.1). E‖s‖² = G²; records longer than `longest`·G are drawn again, and that bounds their Lipschitz constant.
    pub fn hidden_signs(records: usize, dimension: usize, queries: usize, g: f64, longest: f64, seed: u64) -> Self {
        let mut stream = source(seed);
        let (d, k) = (dimension as f64, queries as f64);
        let sigma = g / (d + d * d / (4.0 * k)).sqrt();
        let shift = sigma * d.sqrt() / (2.0 * k.sqrt());
        let law: Vec<f64> = (0..dimension).map(|_| if stream.coin() { shift } else { -shift }).collect();
        let mut rows = Vec::with_capacity(records * dimension);
        // E‖s‖² = G², so at a bound of at least 2G a draw is accepted with probability 3/4 or more (Markov)
        let bound = longest.max(2.0) * g;
        let mut record = vec![0.0; dimension];
        for _ in 0..records {
            loop {
                stream.fill_standard_normal(&mut record);
                record.iter_mut().zip(&law).for_each(|(z, m)| *z = m + sigma * *z);
                if dpopt_objective::geometry::norm(&record) <= bound {
                    break;
                }
            }
            rows.extend(record.iter().map(|v| *v as f32));
        }
        Self { law, ..Self::from_rows(dimension, rows, bound) }
    }

    /// Sparse records of unit norm that share nothing outside their block: block b holds `block` equal rows with `sparsity`
    /// entries ±1/√s in its own coordinates; rows beyond the last block are 0 (the variant with the largest mean of the block-diagonal
    /// instance of Ghazi et al. 2024, Lemma 4.3). The law is that of the records themselves.
    pub fn block_diagonal(records: usize, dimension: usize, sparsity: usize, block: usize, seed: u64) -> Self {
        let mut stream = source(seed);
        let (sparsity, block) = (sparsity.clamp(1, dimension.max(1)), block.max(1));
        let blocks = (dimension / sparsity).min(records / block);
        let size = (1.0 / (sparsity as f64).sqrt()) as f32;
        let mut rows = vec![0f32; records * dimension];
        for b in 0..blocks {
            let signs: Vec<f32> = (0..sparsity).map(|_| if stream.coin() { size } else { -size }).collect();
            for i in b * block..(b + 1) * block {
                let start = i * dimension + b * sparsity;
                rows[start..start + sparsity].copy_from_slice(&signs);
            }
        }
        let mut all = Self::from_rows(dimension, rows, 1.0);
        all.law = all.mean.clone();
        all
    }

    fn signs(records: usize, scales: &[f64], means: &[f64], lipschitz: f64, stream: &mut Stream) -> Self {
        let mut rows = Vec::with_capacity(records * scales.len());
        for _ in 0..records {
            for (scale, mean) in scales.iter().zip(means) {
                let positive = 2.0 * stream.uniform() - 1.0 < *mean;
                rows.push(if positive { *scale as f32 } else { -(*scale as f32) });
            }
        }
        let law = scales.iter().zip(means).map(|(s, m)| s * m).collect();
        Self { law, ..Self::from_rows(scales.len(), rows, lipschitz) }
    }

    fn from_rows(dimension: usize, rows: Vec<f32>, lipschitz: f64) -> Self {
        let mut mean = vec![0.0; dimension];
        let records = rows.len().checked_div(dimension).unwrap_or(0);
        for row in rows.chunks_exact(dimension.max(1)) {
            mean.iter_mut().zip(row).for_each(|(m, v)| *m += f64::from(*v));
        }
        mean.iter_mut().for_each(|m| *m /= records.max(1) as f64);
        Self { dimension, rows, law: vec![0.0; dimension], mean, lipschitz }
    }

    /// n: number of records.
    pub fn records(&self) -> usize {
        self.rows.len().checked_div(self.dimension).unwrap_or(0)
    }

    /// d: number of coordinates.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Record `i`: d values, whose negative is its gradient everywhere.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.rows[i * self.dimension..(i + 1) * self.dimension]
    }

    /// The records as examples whose gradient under [`Loss::Absolute`](dpopt_objective::loss::Loss::Absolute) is −s at every point of
    /// reach: targets beyond all scores.
    pub fn examples(&self) -> Examples {
        let mut examples = Examples { rows: Rows::new(self.dimension), targets: Vec::with_capacity(self.records()) };
        for i in 0..self.records() {
            let mut entries: Vec<(u32, f32)> = (0u32..).zip(self.row(i)).map(|(j, v)| (j, *v)).collect();
            // f32 entries: a hair more than the bound of the exact ones
            examples.rows.push_clipped(&mut entries, self.lipschitz * (1.0 + 1e-6));
            examples.targets.push(1e30);
        }
        examples
    }

    /// Bound on every record's ‖s‖₂.
    pub fn lipschitz(&self) -> f64 {
        self.lipschitz
    }

    /// Mean of the records: the negative of the empirical gradient.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Mean of the law: the negative of the population gradient.
    pub fn law(&self) -> &[f64] {
        &self.law
    }

    /// Minimiser of the empirical risk on the l2 ball of `radius`; 0 if the mean is.
    pub fn minimiser_on_ball(&self, radius: f64) -> Vec<f64> {
        let length = dpopt_objective::geometry::norm(&self.mean);
        self.mean.iter().map(|m| if length > 0.0 { m * radius / length } else { 0.0 }).collect()
    }

    /// Excess empirical risk of `x` over the best point of the l2 ball of `radius`: r‖s̄‖₂ − ⟨x, s̄⟩.
    pub fn excess_on_ball(&self, x: &[f64], radius: f64) -> f64 {
        radius * dpopt_objective::geometry::norm(&self.mean) - dot(x, &self.mean)
    }

    /// Excess population risk of `x` over the best point of the l2 ball of `radius`.
    pub fn population_excess_on_ball(&self, x: &[f64], radius: f64) -> f64 {
        radius * dpopt_objective::geometry::norm(&self.law) - dot(x, &self.law)
    }

    /// Excess empirical risk of `x` over the best corner of [−1, 1]^d: ‖s̄‖₁ − ⟨x, s̄⟩.
    pub fn excess_on_box(&self, x: &[f64]) -> f64 {
        dpopt_objective::geometry::l1_norm(&self.mean) - dot(x, &self.mean)
    }

    /// Excess population risk of `x` over the best corner of [−1, 1]^d.
    pub fn population_excess_on_box(&self, x: &[f64]) -> f64 {
        dpopt_objective::geometry::l1_norm(&self.law) - dot(x, &self.law)
    }
}

/// Scales of a single bucket: `size` on the first `count` of `dimension` coordinates, `rest` elsewhere (the buckets of Asi et al. 2021, proof of Proposition 1).
pub fn bucket(dimension: usize, count: usize, size: f64, rest: f64) -> Vec<f64> {
    (0..dimension).map(|j| if j < count { size } else { rest }).collect()
}

/// s-sparse points of {0, 1/√s}^d whose pairwise l2 distance is at least 1/√2: the packing of the pure-DP lower bound
/// (Ghazi et al. 2024, Lemma A.1). `count` of them, as sorted coordinate lists, or fewer if `64·count` random draws did not find as many.
pub fn sparse_packing(count: usize, dimension: usize, sparsity: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut stream = source(seed);
    let sparsity = sparsity.min(dimension);
    let mut packing: Vec<Vec<u32>> = Vec::new();
    for _ in 0..64 * count {
        if packing.len() == count || sparsity == 0 {
            break;
        }
        let mut point: Vec<u32> = Vec::with_capacity(sparsity);
        while point.len() < sparsity {
            let j = stream.below(dimension as u64) as u32;
            if !point.contains(&j) {
                point.push(j);
            }
        }
        point.sort_unstable();
        // squared distance = (number of coordinates in one of them only)/s
        let apart = |other: &Vec<u32>| {
            let common = point.iter().filter(|j| other.binary_search(j).is_ok()).count();
            2 * (sparsity - common) * 2 >= sparsity
        };
        if packing.iter().all(apart) {
            packing.push(point);
        }
    }
    packing
}

fn source(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Other(12), 0)
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::geometry::norm;

    fn row_norms(l: &LinearLosses) -> Vec<f64> {
        (0..l.records()).map(|i| norm(&l.row(i).iter().map(|v| f64::from(*v)).collect::<Vec<_>>())).collect()
    }

    #[test]
    fn every_record_keeps_its_lipschitz_constant() {
        let all = [
            LinearLosses::biased_signs(200, 30, 0.3, 1),
            LinearLosses::random_signs(200, &[1.0, 0.5, 0.1], 2),
            LinearLosses::padded(200, 10, 3, &[1.0, 0.5, 0.1], 3),
            LinearLosses::hidden_signs(200, 10, 1000, 1.0, 2.0, 4),
            LinearLosses::block_diagonal(200, 40, 5, 20, 5),
        ];
        for l in &all {
            assert_eq!(l.records(), 200);
            assert!(row_norms(l).iter().all(|n| *n <= l.lipschitz() * (1.0 + 1e-6)));
            let best = l.minimiser_on_ball(2.0);
            assert!(
                l.excess_on_ball(&best, 2.0).abs() < 1e-12 && l.excess_on_ball(&vec![0.0; l.dimension()], 2.0) >= 0.0
            );
            let corner: Vec<f64> = l.mean().iter().map(|m| m.signum()).collect();
            assert!(l.excess_on_box(&corner).abs() < 1e-12);
        }
    }

    #[test]
    fn laws_have_the_stated_means() {
        let l = LinearLosses::biased_signs(40_000, 16, 0.2, 7);
        assert!((norm(l.law()) - 0.2).abs() < 1e-12);
        // each coordinate: standard error 0.25/200, six of them
        assert!(l.mean().iter().zip(l.law()).all(|(m, e)| (m - e).abs() < 6.0 * 0.25 / 200.0));
        // sigma and shift of the worked example d = 10, k = 1000, G = 1
        let h = LinearLosses::hidden_signs(10, 10, 1000, 1.0, 4.0, 1);
        assert!(h.law().iter().all(|m| (m.abs() - 0.0157917).abs() < 1e-6));
    }

    #[test]
    fn a_bucket_holds_all_that_can_be_learned() {
        let scales = bucket(20, 4, 0.5, 1e-6);
        let l = LinearLosses::signs_with_bias(4000, &scales, &[0.3; 20], 3);
        assert!(l.law().iter().zip(&scales).all(|(m, s)| (m.abs() - 0.3 * s).abs() < 1e-12));
        let best: Vec<f64> = l.mean().iter().enumerate().map(|(j, m)| if j < 4 { m.signum() } else { 0.0 }).collect();
        assert!(l.excess_on_box(&best) <= 16.0 * 1e-6);
        // its examples have the gradient −s wherever the weights are
        let examples = l.examples();
        let loss = dpopt_objective::loss::Loss::Absolute;
        for score in [-1e6, 0.0, 1e6] {
            assert_eq!(loss.scalar_slope(score, f64::from(examples.targets[0])), -1.0);
        }
        let (columns, values) = examples.rows.row(7);
        assert_eq!(columns.len(), 20);
        assert!(values.iter().zip(l.row(7)).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()));
    }

    #[test]
    fn padding_cancels() {
        let l = LinearLosses::padded(1000, 10, 3, &[1.0, 0.5], 3);
        let core = LinearLosses::random_signs(10, &[1.0, 0.5], 3);
        for (m, c) in l.mean().iter().zip(core.mean()) {
            assert!((m - c * 30.0 / 1000.0).abs() < 1e-9);
        }
    }

    #[test]
    fn packed_points_are_far_apart() {
        let packing = sparse_packing(200, 100, 6, 9);
        assert_eq!(packing.len(), 200);
        for (i, a) in packing.iter().enumerate() {
            assert_eq!(a.len(), 6);
            for b in &packing[..i] {
                let common = a.iter().filter(|j| b.contains(j)).count();
                assert!(2.0 * (6 - common) as f64 / 6.0 >= 0.5);
            }
        }
        assert!(sparse_packing(100, 2, 2, 1).len() <= 1);
    }
}
