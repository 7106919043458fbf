//! Half widths of confidence intervals for a mean of clipped numbers: noise, sampling and clip bias, each with a proof (docs/proofs/heavy-tailed-mean.md).

use crate::moment::Moment;
use dpopt_privacy::special;
use serde::Serialize;

/// Which noise a clipped sum gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Law {
    Gaussian,
    Laplace,
}

impl Law {
    /// The least q with P(|noise| > q) ≤ `failure`, for noise of scale 1 (standard deviation, or scale), rounded up.
    pub(super) fn quantile(self, failure: f64) -> f64 {
        match self {
            Self::Laplace => -failure.ln() * (1.0 + 1e-12),
            Self::Gaussian => {
                let (mut low, mut high) = (0.0, 40.0);
                for _ in 0..80 {
                    let middle = 0.5 * (low + high);
                    if 2.0 * special::normal_cdf(-middle) > failure { low = middle } else { high = middle }
                }
                high * (1.0 + 1e-12)
            }
        }
    }

    /// Standard deviation of noise of scale 1.
    pub(super) fn standard_deviation(self) -> f64 {
        match self {
            Self::Gaussian => 1.0,
            Self::Laplace => std::f64::consts::SQRT_2,
        }
    }
}

/// The least t that Bennett's inequality gives: with probability 1 − `failure` the mean of `n` independent numbers, whose variances are at most `variance` and
/// whose distances from their means are at most `reach`, is within t of its expectation.
pub(super) fn bennett(n: f64, variance: f64, reach: f64, failure: f64) -> f64 {
    let needed = (2.0 / failure).ln();
    let exponent = |t: f64| {
        let u = reach * t / variance;
        // (1 + u)ln(1 + u) − u loses all digits for a small u; u²/2 − u³/6 is below it
        let h = if u < 1e-4 { u * u * (0.5 - u / 6.0) } else { (1.0 + u) * u.ln_1p() - u };
        n * variance / (reach * reach) * h
    };
    // Bernstein's is larger
    let linear = reach * needed / (3.0 * n);
    let (mut low, mut high) = (0.0, 2.0 * (linear + (linear * linear + 2.0 * variance * needed / n).sqrt()));
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if exponent(middle) < needed { low = middle } else { high = middle }
    }
    high * (1.0 + 1e-12)
}

/// What a half width is made of: the three add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Noise for privacy, by its exact quantile.
    pub noise: f64,
    /// That records are a sample, by Bennett's inequality with the variance that the moment allows.
    pub sampling: f64,
    /// What the clip may move the expectation, and what the grid takes: certain.
    pub bias: f64,
}

impl Parts {
    /// Half the width of the interval.
    pub fn half_width(&self) -> f64 {
        self.noise + self.sampling + self.bias
    }
}

/// Where a column is clipped, and what its interval is made of, in units of the moment's root: m = 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Width {
    /// C/m: the clip in units of the moment's root.
    pub(super) threshold: f64,
    /// What may go wrong with the noise, and what with sampling: together the column's share of 1 − confidence.
    pub(super) failures: (f64, f64),
    pub(super) parts: Parts,
}

/// What a column's width is made from: public numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) moment: Moment,
    /// How many records are averaged.
    pub(super) records: f64,
    pub(super) law: Law,
    /// Scale of the noise of the mean, in units of C.
    pub(super) noise: f64,
    /// Grid step of the mean, in units of C.
    pub(super) step: f64,
    /// Whether the number of records is released with noise, too.
    pub(super) counted: bool,
    /// 1 − confidence, this column's share.
    pub(super) failure: f64,
}

/// Variances below this one are taken for it: none is 0.
const LEAST_VARIANCE: f64 = 1e-12;
/// Rounds of narrowing; each is a valid bound.
const ROUNDS: usize = 8;
/// Shares of the failure probability that noise may have.
const SHARES: [f64; 11] = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98];
/// C/m from e^-1 to e^40.
const LOG_THRESHOLDS: (f64, f64) = (-1.0, 40.0);

impl Facts {
    /// A bound on |mean of the clipped − its expectation|, in units of m as all here, where the expectation is at least `distance` from 0.
    fn sampling(&self, records: f64, threshold: f64, failure: f64, distance: f64) -> f64 {
        let k = self.moment.order;
        // E clip(Y)² ≤ E Y² ≤ m² by Lyapunov for k ≥ 2; for k < 2, Y² ≤ C^(2−k)·|Y|^k where |Y| ≤ C
        let second = if k >= 2.0 { 1.0 } else { threshold.powf(2.0 - k) };
        let variance = second.min(threshold * threshold) - distance * distance;
        bennett(records, variance.max(LEAST_VARIANCE), threshold + threshold.min(1.0), failure)
    }

    /// A bound on |mean of the clipped − its expectation| where that mean is between `ends`: an expectation far from 0 leaves less of the second moment
    /// to the variance.
    ///
    /// The set of all e that are within noise and [`sampling`](Self::sampling) of what was released, with the variance that *e* allows, holds the expectation as
    /// often as it should. Each round keeps a superset of it, and so a bound on its distance from 0.
    pub(super) fn sampling_between(&self, records: f64, threshold: f64, failure: f64, ends: (f64, f64)) -> f64 {
        let mut sampling = self.sampling(records, threshold, failure, 0.0);
        for _ in 0..ROUNDS {
            let distance = (ends.0 - sampling).max(-(ends.1 + sampling)).max(0.0);
            sampling = self.sampling(records, threshold, failure, distance);
        }
        sampling
    }

    /// What noise may move the mean, in units of C; of the sum, or of the count.
    pub(super) fn noise_bound(&self, failure: f64) -> f64 {
        let each = if self.counted { 0.5 * failure } else { failure };
        // half a step for the rounding of the noise
        self.noise * self.law.quantile(each) + 0.5 * self.step / self.records
    }

    fn parts(&self, threshold: f64, failures: (f64, f64)) -> Parts {
        // of a count, the noise moves the mean, which is at most 1, as much as itself
        let moved = if self.counted { threshold + 1.0 } else { threshold };
        Parts {
            noise: self.noise_bound(failures.0) * moved,
            sampling: self.sampling(self.records, threshold, failures.1, 0.0),
            // truncation takes less than a step from a record, and as much from its count
            bias: self.moment.clip_bias(threshold, 1.0) + threshold * self.step * if self.counted { 2.0 } else { 1.0 },
        }
    }

    /// The threshold and the shares of the failure probability with the least half width.
    pub(super) fn narrowest(&self) -> Width {
        let at = |log: f64, share: f64| {
            let (threshold, failures) = (log.exp(), (share * self.failure, (1.0 - share) * self.failure));
            Width { threshold, failures, parts: self.parts(threshold, failures) }
        };
        let width = |w: &Width| w.parts.half_width();
        let coarse = SHARES.iter().flat_map(|&share| {
            (0..=82)
                .map(move |i| (LOG_THRESHOLDS.0 + (LOG_THRESHOLDS.1 - LOG_THRESHOLDS.0) * f64::from(i) / 82.0, share))
        });
        let best = coarse.min_by(|a, b| width(&at(a.0, a.1)).total_cmp(&width(&at(b.0, b.1))));
        let (log, share) = best.unwrap_or((0.0, 0.5));
        // golden section around it
        let ratio = 0.618_033_988_749_895;
        let (mut low, mut high) = (log - 0.5, log + 0.5);
        for _ in 0..40 {
            let (one, other) = (high - ratio * (high - low), low + ratio * (high - low));
            if width(&at(one, share)) < width(&at(other, share)) { high = other } else { low = one }
        }
        at(0.5 * (low + high), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_tables() {
        assert!((Law::Gaussian.quantile(0.05) - 1.959_963_984_5).abs() < 1e-9);
        assert!((Law::Laplace.quantile(0.05) - 20f64.ln()).abs() < 1e-9);
        for law in [Law::Gaussian, Law::Laplace] {
            assert!(law.quantile(1e-12) > law.quantile(1e-6) && law.quantile(1e-12) < 40.0);
        }
    }

    #[test]
    fn bennett_is_between_the_normal_and_bernsteins() {
        for (n, v, b, beta) in
            [(1e3, 1.0, 2.0, 0.05), (1e6, 1.0, 30.0, 1e-4), (50.0, 0.1, 5.0, 0.01), (1e12, 1.0, 1.0, 0.05)]
        {
            let t = bennett(n, v, b, beta);
            let l = f64::ln(2.0 / beta);
            let linear = b * l / (3.0 * n);
            let bernstein = linear + (linear * linear + 2.0 * v * l / n).sqrt();
            assert!(t <= bernstein * (1.0 + 1e-9) && t >= (2.0 * v * l / n).sqrt() * (1.0 - 1e-9), "{t} {bernstein}");
        }
    }

    fn facts(records: f64, epsilon: f64, order: f64) -> Facts {
        let moment = Moment { order, root: Some(1.0), about: 0.0 };
        let noise = 1.0 / (epsilon * records);
        Facts { moment, records, law: Law::Laplace, noise, step: 0.0, counted: false, failure: 0.05 }
    }

    #[test]
    fn the_threshold_is_the_best_of_all_and_grows_as_the_theory_says() {
        for order in [1.5, 2.0, 3.0, 4.0] {
            let facts = facts(1e4, 0.1, order);
            let best = facts.narrowest();
            for i in 0..400 {
                let log = -1.0 + 0.05 * f64::from(i);
                for share in SHARES {
                    let failures = (share * 0.05, (1.0 - share) * 0.05);
                    assert!(facts.parts(log.exp(), failures).half_width() > best.parts.half_width() * (1.0 - 1e-3));
                }
            }
        }
        // where noise decides, C grows like (nε)^(1/k)
        let threshold = |records: f64| facts(records, 1e-3, 2.0).narrowest().threshold;
        let slope = (threshold(1e8) / threshold(1e6)).ln() / 100f64.ln();
        assert!((slope - 0.5).abs() < 0.05, "{slope}");
    }
}
