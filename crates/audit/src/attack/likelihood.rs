//! Optimal statistics: log-likelihood ratios of the worst pairs (Neyman, Pearson 1933).
//!
//! Any statistic gives a valid audit; these give the strongest. Each takes what the event says is released (all noisy
//! sums of a run in the canary's coordinate, in units of the clip norm), not only the final model.

use dpopt_privacy::special::{log_add_exp, log_sum_exp};

/// Full-batch or unsampled releases: the sum is sufficient.
pub fn gaussian(sums: &[f64]) -> f64 {
    sums.iter().sum()
}

/// Poisson batches under zero-out or add-or-remove, all other gradients zero:
/// Σ ln(1 − q + q·exp((2g − 1)/(2σ²))), σ the noise multiplier.
///
/// ```
/// // q = 1 is the plain Gaussian ratio
/// let s = dpopt_audit::attack::likelihood::poisson(&[0.7, -0.2], 1.0, 2.0);
/// assert!((s - (2.0 * (0.7 - 0.2) - 2.0) / 8.0).abs() < 1e-12);
/// ```
pub fn poisson(sums: &[f64], sampling_probability: f64, noise_multiplier: f64) -> f64 {
    let (out, inside) = ((-sampling_probability).ln_1p(), sampling_probability.ln());
    let scale = 1.0 / (2.0 * noise_multiplier * noise_multiplier);
    sums.iter().map(|&g| log_add_exp(out, inside + (2.0 * g - 1.0) * scale)).sum()
}

/// Batches of fixed size without replacement; every other record contributes −1 and the canary +1 (D) or 0 (D′).
/// `sums` are shifted so that a batch without the canary has mean 0: then it has mean 2 on D and 1 on D′ if drawn.
pub fn without_replacement(sums: &[f64], sampling_probability: f64, noise_multiplier: f64) -> f64 {
    let (out, inside) = ((-sampling_probability).ln_1p(), sampling_probability.ln());
    let scale = 1.0 / (2.0 * noise_multiplier * noise_multiplier);
    let ln_mixture = |g: f64, mean: f64| log_add_exp(out, inside + mean * (2.0 * g - mean) * scale);
    sums.iter().map(|&g| ln_mixture(g, 2.0) - ln_mixture(g, 1.0)).sum()
}

/// One epoch of a shuffle: the canary is in exactly one of the batches. ln mean exp(shift·g/σ²).
pub fn shuffle(sums: &[f64], shift: f64, noise_multiplier: f64) -> f64 {
    let scale = shift / (noise_multiplier * noise_multiplier);
    log_sum_exp(sums.iter().map(|g| g * scale)) - (sums.len() as f64).ln()
}

/// Laplace noise of scale b on each coordinate, D at `shift` and D′ at 0.
pub fn laplace(outputs: &[f64], shift: &[f64], b: f64) -> f64 {
    outputs.iter().zip(shift).map(|(y, s)| (y.abs() - (y - s).abs()) / b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_agree_with_densities() {
        let density = |x: f64, mean: f64, s: f64| (-(x - mean) * (x - mean) / (2.0 * s * s)).exp();
        let (q, s) = (0.3, 1.7);
        for g in [-3.0, 0.0, 0.4, 5.0] {
            let direct = ((1.0 - q) + q * density(g, 1.0, s) / density(g, 0.0, s)).ln();
            assert!((poisson(&[g], q, s) - direct).abs() < 1e-12);
            let mix = |m: f64| (1.0 - q) * density(g, 0.0, s) + q * density(g, m, s);
            assert!((without_replacement(&[g], q, s) - (mix(2.0) / mix(1.0)).ln()).abs() < 1e-12);
        }
        assert!((laplace(&[0.2, 5.0], &[1.0, 1.0], 2.0) - ((0.2 - 0.8) + (5.0 - 4.0)) / 2.0).abs() < 1e-12);
        assert!((shuffle(&[1.0, 1.0], 1.0, 1.0) - 1.0).abs() < 1e-12);
    }
}
