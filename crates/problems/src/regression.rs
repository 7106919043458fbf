//! Linear models with a known truth: decaying features, sparse regression, absolute regression (Asi, Duchi, Fallah, Javidbakht, Talwar 2021, equation 9).

use dpopt_noise::{NoiseSource, Purpose, Stream};
use dpopt_objective::records::{Examples, Rows};

/// Examples of a linear model with the weights that made them.
#[derive(Clone, Debug)]
pub struct LinearModel {
    /// Rows of norm at most `examples.rows.norm_bound()`, and targets.
    pub examples: Examples,
    /// The true weights: d.
    pub weights: Vec<f64>,
}

/// Labels from a logistic model whose features decay: x ~ N(0, diag(j^{−2p})) divided by its expected length and clipped to
/// norm 1, P(y = 1) = σ(⟨w, x⟩) with w_1 = `signal` and the others 0, so that the truth is the same for every dimension.
pub fn decaying_logistic(records: usize, dimension: usize, decay: f64, signal: f64, seed: u64) -> LinearModel {
    let mut stream = source(seed);
    let scales: Vec<f64> = (1..=dimension).map(|j| (j as f64).powf(-decay)).collect();
    let length = dpopt_objective::geometry::norm(&scales);
    let mut weights = vec![0.0; dimension];
    if let Some(first) = weights.first_mut() {
        *first = signal;
    }
    build(
        records,
        dimension,
        1.0,
        &weights,
        &mut stream,
        |stream, row| {
            row.iter_mut().zip(&scales).for_each(|(x, s)| *x = s / length * stream.standard_normal());
            dpopt_objective::geometry::project_l2_ball(row, 1.0);
        },
        |stream, score| if stream.uniform() < dpopt_objective::loss::sigmoid(score) { 1.0 } else { -1.0 },
    )
}

/// y = ⟨w, z⟩ + `noise`·N(0, 1) with `support` non-zero weights ±1 among the first coordinates and Gaussian rows of unit
/// variance, whose covariance has condition number `condition`: z_j is multiplied by κ^{(j/(d−1) − 1)/2}. Rows are not clipped.
pub fn sparse_regression(
    records: usize,
    dimension: usize,
    support: usize,
    noise: f64,
    condition: f64,
    seed: u64,
) -> LinearModel {
    let mut stream = source(seed);
    let last = dimension.saturating_sub(1).max(1) as f64;
    let scales: Vec<f64> = (0..dimension).map(|j| condition.max(1.0).powf((j as f64 / last - 1.0) / 2.0)).collect();
    let mut weights = vec![0.0; dimension];
    weights.iter_mut().take(support).for_each(|w| *w = if stream.coin() { 1.0 } else { -1.0 });
    build(
        records,
        dimension,
        f64::INFINITY,
        &weights,
        &mut stream,
        |stream, row| {
            row.iter_mut().zip(&scales).for_each(|(x, s)| *x = s * stream.standard_normal());
        },
        |stream, score| score + noise * stream.standard_normal(),
    )
}

/// b = ⟨a, w⟩ + Laplace(`noise`) with a ~ N(0, diag(σ)²) and w uniform on {±1}^d, for the loss |⟨a, x⟩ − b| (Asi et al. 2021, Figure 1:
/// σ_j = j^{−3/2}, noise 0.01). Rows are not clipped.
pub fn absolute_regression(records: usize, scales: &[f64], noise: f64, seed: u64) -> LinearModel {
    let mut stream = source(seed);
    let weights: Vec<f64> = scales.iter().map(|_| if stream.coin() { 1.0 } else { -1.0 }).collect();
    build(
        records,
        scales.len(),
        f64::INFINITY,
        &weights,
        &mut stream,
        |stream, row| {
            row.iter_mut().zip(scales).for_each(|(x, s)| *x = s * stream.standard_normal());
        },
        |stream, score| {
            let size = noise * stream.standard_exponential();
            score + if stream.coin() { size } else { -size }
        },
    )
}

fn build(
    records: usize,
    dimension: usize,
    max_norm: f64,
    weights: &[f64],
    stream: &mut Stream,
    mut fill: impl FnMut(&mut Stream, &mut [f64]),
    mut target: impl FnMut(&mut Stream, f64) -> f64,
) -> LinearModel {
    let mut examples = Examples { rows: Rows::new(dimension), targets: Vec::with_capacity(records) };
    let mut row = vec![0.0; dimension];
    for _ in 0..records {
        fill(stream, &mut row);
        let score: f64 = row.iter().zip(weights).map(|(x, w)| x * w).sum();
        let mut entries: Vec<(u32, f32)> = row.iter().enumerate().map(|(j, x)| (j as u32, *x as f32)).collect();
        let length =
            if max_norm.is_finite() { max_norm } else { 2.0 * dpopt_objective::geometry::norm(&row).max(1e-30) };
        examples.rows.push_clipped(&mut entries, length);
        examples.targets.push(target(stream, score) as f32);
    }
    LinearModel { examples, weights: weights.to_vec() }
}

fn source(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Other(13), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(m: &LinearModel) -> Vec<f64> {
        (0..m.examples.rows.len())
            .map(|i| {
                let (columns, values) = m.examples.rows.row(i);
                columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * m.weights[j as usize]).sum()
            })
            .collect()
    }

    #[test]
    fn the_truth_explains_the_targets() {
        let m = sparse_regression(400, 30, 3, 0.1, 1.0, 2);
        let residual: f64 = scores(&m).iter().zip(&m.examples.targets).map(|(s, y)| (f64::from(*y) - s).powi(2)).sum();
        // 400·0.01, relative standard deviation √(2/400), six of them
        assert!((residual / 4.0 - 1.0).abs() < 0.43);
        assert_eq!(m.weights.iter().filter(|w| **w != 0.0).count(), 3);
        let m = absolute_regression(400, &[1.0, 0.3], 0.01, 2);
        let error: f64 = scores(&m).iter().zip(&m.examples.targets).map(|(s, y)| (f64::from(*y) - s).abs()).sum();
        assert!((error / 4.0 - 1.0).abs() < 0.31);
    }

    #[test]
    fn decaying_rows_are_short_and_their_truth_is_in_the_first_coordinate() {
        let m = decaying_logistic(2000, 50, 1.0, 4.0, 3);
        assert!(m.examples.rows.norm_bound() <= 1.0 + 1e-6);
        let right = scores(&m).iter().zip(&m.examples.targets).filter(|(s, y)| **s * f64::from(**y) > 0.0).count();
        assert!(right > 1300, "{right} of 2000");
    }
}
