//! Synthetic tables for tests: correlated sparse rows like one-hot census tables, from a plain linear congruential
//! generator (the data are not secret; nothing here draws noise).

use crate::loss::Loss;
use crate::records::{Examples, Rows};

/// A small deterministic generator for test data.
pub struct Lcg(u64);

impl Lcg {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 * 2f64.powi(-53)
    }

    /// Approximately standard normal: sum of twelve uniforms.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// n rows with an intercept, `groups` one-hot blocks of `levels` levels with Zipf-like frequencies; targets from a random
/// linear score of size about `signal` through the loss's own kind of label.
pub fn table(seed: u64, n: usize, groups: usize, levels: usize, signal: f64, loss: Loss) -> Examples {
    let mut random = Lcg::new(seed);
    let d = 1 + groups * levels;
    let k = loss.outputs();
    let truth: Vec<f64> = (0..d * k).map(|_| signal * random.normal()).collect();
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for _ in 0..n {
        let mut entries = vec![(0u32, 1.0f32)];
        let size = ((groups + 1) as f32).sqrt();
        for g in 0..groups {
            // level l with density falling like 1/l
            let level = (levels as f64).powf(random.uniform()).floor() as usize;
            entries.push(((1 + g * levels + level.min(levels - 1)) as u32, 1.0));
        }
        entries.iter_mut().for_each(|e| e.1 /= size);
        let scores: Vec<f64> =
            (0..k).map(|out| entries.iter().map(|&(j, x)| f64::from(x) * truth[out * d + j as usize]).sum()).collect();
        let target = match loss {
            Loss::Softmax { .. } => {
                let noisy: Vec<f64> = scores.iter().map(|s| s + 0.5 * random.normal()).collect();
                (0..k).max_by(|&a, &b| noisy[a].total_cmp(&noisy[b])).unwrap_or(0) as f64
            }
            Loss::Squared | Loss::Absolute | Loss::Huber { .. } | Loss::Quantile { .. } => {
                (0.3 * scores[0] + 0.1 * random.normal()).clamp(-1.0, 1.0)
            }
            // four counts a usual one: arrivals within a unit of time
            Loss::Poisson { top } => {
                let (mut count, mut left) = (0.0, 4.0 * scores[0].exp());
                while count < 4.0 * top {
                    left += random.uniform().max(f64::MIN_POSITIVE).ln();
                    if left < 0.0 {
                        break;
                    }
                    count += 1.0;
                }
                2.0 * count / (4.0 * top) - 1.0
            }
            _ => {
                if random.uniform() < crate::loss::sigmoid(scores[0]) {
                    1.0
                } else {
                    -1.0
                }
            }
        };
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(target as f32);
    }
    examples
}

/// Mean loss of `weights` (outputs × features).
pub fn mean_loss(examples: &Examples, loss: Loss, weights: &[f64]) -> f64 {
    let (d, k) = (examples.rows.columns(), loss.outputs());
    let mut total = 0.0;
    for i in 0..examples.rows.len() {
        let (indices, values) = examples.rows.row(i);
        let scores: Vec<f64> = (0..k)
            .map(|out| indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[out * d + j as usize]).sum())
            .collect();
        total += loss.value(&scores, f64::from(examples.targets[i]));
    }
    total / examples.rows.len() as f64
}
