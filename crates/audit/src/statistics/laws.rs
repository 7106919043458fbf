//! Is a sampler's law the stated one? Kolmogorov–Smirnov, chi-square and energy distance, with error rates.
//!
//! | test | false alarm at level α | power |
//! |---|---|---|
//! | [`ks_p_value`] | ≤ α for every n and every law (Massart 1990) | [`ks_power`], a guaranteed lower bound |
//! | [`chi_square_p_value`] | α up to the chi-square limit; refuses cells with fewer than 20 expected | grows with n·χ² distance |
//! | [`energy_p_value`] | ≤ α exactly (permutations within batches, combined by Fisher) | any difference of two laws, any dimension |

use super::super::draws::Draws;

/// Smallest expected count of a cell for which the chi-square limit is trusted.
const SMALLEST_CELL: f64 = 20.0;

/// sup |F_n − F| of a sample against an exact distribution function. Sorts the sample.
pub fn ks_distance(sample: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_unstable_by(f64::total_cmp);
    let n = sample.len() as f64;
    let mut distance = 0.0_f64;
    let mut first = 0;
    while first < sample.len() {
        let x = sample[first];
        let end = first + sample[first..].iter().take_while(|&&y| y == x).count();
        // at atoms the law may jump with the sample; compare on both sides of the group
        distance = distance.max((end as f64 / n - cdf(x)).abs());
        if end == first + 1 {
            distance = distance.max((cdf(x) - first as f64 / n).abs());
        }
        first = end;
    }
    distance
}

/// Upper bound 2·exp(−2nD²) on the p-value: valid at every n (Massart), conservative.
pub fn ks_p_value(sample: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let n = sample.len() as f64;
    let d = ks_distance(sample, cdf);
    (2.0 * (-2.0 * n * d * d).exp()).min(1.0)
}

/// A guaranteed lower bound on the probability that [`ks_p_value`] < `alpha` when the true law is `distance` away in sup.
pub fn ks_power(n: u64, distance: f64, alpha: f64) -> f64 {
    let critical = ((2.0 / alpha).ln() / (2.0 * n as f64)).sqrt();
    let margin = distance - critical;
    if margin <= 0.0 { 0.0 } else { (1.0 - 2.0 * (-2.0 * n as f64 * margin * margin).exp()).max(0.0) }
}

/// p-value of observed counts against exact cell probabilities (which add up to 1).
///
/// # Errors
/// If a cell expects fewer than 20 counts: merge cells.
pub fn chi_square_p_value(observed: &[u64], probabilities: &[f64]) -> Result<f64, String> {
    if observed.len() != probabilities.len() || observed.len() < 2 {
        return Err("give one probability per cell, and at least two cells".into());
    }
    let n: u64 = observed.iter().sum();
    let mut statistic = 0.0;
    for (&o, &p) in observed.iter().zip(probabilities) {
        let expected = n as f64 * p;
        if expected < SMALLEST_CELL {
            return Err(format!("a cell expects fewer than {SMALLEST_CELL} counts; merge cells or draw more"));
        }
        statistic += (o as f64 - expected).powi(2) / expected;
    }
    Ok(ln_upper_gamma(0.5 * (observed.len() - 1) as f64, 0.5 * statistic).exp())
}

/// ln Q(a, x), the upper regularised incomplete gamma function.
fn ln_upper_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = a * x.ln() - x - libm::lgamma(a);
    if x < a + 1.0 {
        // the lower function by its series of positive terms
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for k in 1..10_000 {
            term *= x / (a + f64::from(k));
            sum += term;
            if term < 1e-17 * sum {
                break;
            }
        }
        return (-(front + sum.ln()).exp()).ln_1p();
    }
    // Lentz on the continued fraction
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / tiny;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..10_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = 1.0 / if d.abs() < tiny { tiny } else { d };
        c = b + an / c;
        if c.abs() < tiny {
            c = tiny;
        }
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front + h.ln()
}

/// Permutations per batch of the energy test, plus the observed one: p-values are multiples of 1/200.
const PERMUTATIONS: usize = 199;

/// p-value that two samples of vectors have the same law, by the energy distance 2E‖X−Y‖ − E‖X−X′‖ − E‖Y−Y′‖.
///
/// Each of `batches` batches gives an exact permutation p-value; independent super-uniform p-values are combined by
/// Fisher's product, so the false-alarm rate is at most the level at every n. With 8 batches 1e-12 can be reached.
/// Costs O(batches · (n/batches)² · 200).
pub fn energy_p_value(first: &[Vec<f64>], second: &[Vec<f64>], batches: usize, draws: &mut Draws) -> f64 {
    let batches = batches.max(1);
    let mut statistic = 0.0;
    for batch in 0..batches {
        let part = |s: &[Vec<f64>]| -> Vec<Vec<f64>> { s.iter().skip(batch).step_by(batches).cloned().collect() };
        let (x, y) = (part(first), part(second));
        let pooled: Vec<&Vec<f64>> = x.iter().chain(&y).collect();
        let n = pooled.len();
        let mut distances = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..i {
                let square: f64 = pooled[i].iter().zip(pooled[j]).map(|(a, b)| (a - b) * (a - b)).sum();
                distances[i * n + j] = square.sqrt();
                distances[j * n + i] = square.sqrt();
            }
        }
        let mut side: Vec<f64> = (0..n)
            .map(|i| if i < x.len() { 1.0 / x.len().max(1) as f64 } else { -1.0 / y.len().max(1) as f64 })
            .collect();
        // energy distance = −Σ s_i s_j d_ij with s = ±1/size
        let energy = |s: &[f64]| -> f64 {
            -(0..n).map(|i| s[i] * (0..i).map(|j| s[j] * distances[i * n + j]).sum::<f64>()).sum::<f64>()
        };
        let seen = energy(&side);
        let mut as_large = 1;
        for _ in 0..PERMUTATIONS {
            let order = draws.permutation(n);
            side = order.iter().map(|&i| side[i]).collect();
            as_large += usize::from(energy(&side) >= seen - 1e-12 * seen.abs());
        }
        statistic -= 2.0 * (as_large as f64 / (PERMUTATIONS + 1) as f64).ln();
    }
    ln_upper_gamma(batches as f64, 0.5 * statistic).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::special::normal_cdf;

    #[test]
    fn chi_square_tails() {
        // scipy.stats.chi2.sf
        for (k, x, p) in [
            (1.0, 3.841_458_820_694_124, 0.05),
            (10.0, 60.0, 3.624_300_952_061_4e-9),
            (99.0, 99.0, 0.481_096_912_408_263_9),
        ] {
            let got = ln_upper_gamma(0.5 * k, 0.5 * x).exp();
            assert!((got - p).abs() < 1e-9 * p.max(1e-2), "{k} {x}: {got} against {p}");
        }
        assert!(chi_square_p_value(&[1, 2], &[0.5, 0.5]).is_err());
        assert!(chi_square_p_value(&[100, 100, 100], &[0.25, 0.25, 0.5]).expect("enough counts") < 1e-6);
        assert!(chi_square_p_value(&[50, 50, 100], &[0.25, 0.25, 0.5]).expect("enough counts") > 0.99);
    }

    #[test]
    fn ks_sees_a_wrong_scale_and_passes_the_right_one() {
        let mut draws = Draws::new(4, 4);
        let n = 40_000;
        let sample = |scale: f64, draws: &mut Draws| -> Vec<f64> { (0..n).map(|_| scale * draws.gaussian()).collect() };
        assert!(ks_p_value(&mut sample(1.0, &mut draws), normal_cdf) > 1e-6);
        // scale 1.1: sup distance .0231, guaranteed power below 1 at this n only because the bound is loose
        let distance =
            (0..400).map(|i| 0.01 * f64::from(i)).map(|x| normal_cdf(x) - normal_cdf(x / 1.1)).fold(0.0, f64::max);
        assert!((distance - 0.0231).abs() < 1e-3);
        assert!(ks_power(n as u64, distance, 1e-6) > 0.99);
        assert!(ks_p_value(&mut sample(1.1, &mut draws), normal_cdf) < 1e-6);
    }

    #[test]
    fn ks_counts_atoms_once() {
        // the law of a fair coin against itself: no distance from its own atoms
        let mut sample = vec![0.0, 0.0, 1.0, 1.0];
        assert_eq!(
            ks_distance(&mut sample, |x| if x < 0.0 {
                0.0
            } else if x < 1.0 {
                0.5
            } else {
                1.0
            }),
            0.0
        );
    }

    #[test]
    fn energy_sees_a_correlation_that_no_margin_shows() {
        let mut draws = Draws::new(6, 1);
        let mut pairs = |correlation: f64, n: usize| -> Vec<Vec<f64>> {
            (0..n)
                .map(|_| {
                    let (x, y) = (draws.gaussian(), draws.gaussian());
                    vec![x, correlation * x + (1.0 - correlation * correlation).sqrt() * y]
                })
                .collect()
        };
        let (a, b, c) = (pairs(0.0, 2400), pairs(0.0, 2400), pairs(0.9, 2400));
        let mut shuffles = Draws::new(6, 2);
        assert!(energy_p_value(&a, &b, 8, &mut shuffles) > 1e-6);
        assert!(energy_p_value(&a, &c, 8, &mut shuffles) < 1e-6);
    }
}
