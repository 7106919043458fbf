//! Tables of one-hot rows with a known truth: as many features as you like, few in a row.

use dpopt_objective::loss::sigmoid;
use dpopt_objective::records::{Examples, Rows};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Uniform in [0, 1).
fn uniform(rng: &mut ChaCha20Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

/// `records` rows of `sparsity` one-hot groups over `dimension` features, each entry 1/√s so that rows have norm 1. Level l of
/// a group has frequency about 1/l. Labels ±1 from a logistic model whose weights have norm `radius` and live on the
/// `informative` most frequent levels of each group; they are the same for every dimension.
///
/// # Panics
/// If the groups have fewer levels than `informative` (a bug of the caller).
pub fn one_hot(
    records: usize,
    dimension: usize,
    sparsity: usize,
    radius: f64,
    informative: usize,
    seed: u64,
) -> Examples {
    let levels = dimension / sparsity;
    assert!(levels >= informative, "fewer levels than informative ones");
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let size = radius / ((sparsity * informative) as f64).sqrt();
    let truth: Vec<f64> =
        (0..sparsity * informative).map(|_| if rng.next_u64() & 1 == 0 { size } else { -size }).collect();
    let entry = 1.0 / (sparsity as f64).sqrt();
    let mut examples = Examples { rows: Rows::new(dimension), targets: Vec::with_capacity(records) };
    for _ in 0..records {
        let mut score = 0.0;
        let mut row: Vec<(u32, f32)> = (0..sparsity)
            .map(|group| {
                let level = (((levels as f64).powf(uniform(&mut rng))) as usize).clamp(1, levels) - 1;
                if level < informative {
                    score += entry * truth[group * informative + level];
                }
                ((group * levels + level) as u32, entry as f32)
            })
            .collect();
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(if uniform(&mut rng) < sigmoid(score) { 1.0 } else { -1.0 });
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_one_hot_of_norm_one_and_labels_follow_the_scores() {
        let examples = one_hot(4000, 1000, 5, 8.0, 4, 1);
        assert_eq!((examples.rows.len(), examples.rows.columns()), (4000, 1000));
        let positive = examples.targets.iter().filter(|t| **t > 0.0).count();
        assert!((1200..2800).contains(&positive));
        for i in 0..4000 {
            let (columns, values) = examples.rows.row(i);
            assert_eq!(columns.len(), 5);
            assert!(columns.iter().enumerate().all(|(g, j)| *j as usize / 200 == g));
            assert!((values.iter().map(|v| f64::from(v * v)).sum::<f64>() - 1.0).abs() < 1e-5);
        }
    }
}
