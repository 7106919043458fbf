//! What several tests of laws share, here and in `dpopt-draws`.

/// Pearson's test of cell counts against probabilities; cells expected below 10 are pooled. The limit is that of
/// Laurent and Massart (2000): false alarm below e^-15.2 = 2.5e-7 (up to the multinomial's own approximation).
pub(crate) fn assert_multinomial(counts: &[f64], probability: impl Fn(usize) -> f64) {
    let n: f64 = counts.iter().sum();
    let (mut chi2, mut cells, mut pooled, mut pooled_expected) = (0.0, 0.0, 0.0, 0.0);
    let mut cell = |seen: f64, expected: f64| {
        chi2 += (seen - expected) * (seen - expected) / expected;
        cells += 1.0;
    };
    let mut total = 0.0;
    for (k, &seen) in counts.iter().enumerate() {
        let p = probability(k);
        total += p;
        if n * p < 10.0 {
            pooled += seen;
            pooled_expected += n * p;
        } else {
            cell(seen, n * p);
        }
    }
    assert!((total - 1.0).abs() < 1e-4, "the probabilities sum to {total}");
    if pooled_expected > 1.0 {
        cell(pooled, pooled_expected);
    }
    let freedom: f64 = cells - 1.0;
    let limit = freedom + 2.0 * (15.2 * freedom).sqrt() + 30.4;
    assert!(chi2 < limit, "chi-square {chi2} with {freedom} degrees of freedom: {counts:?}");
}
