//! The closed-form noise of Liang, Tong, Ding, Pan, Bi 2022 (Theorems 4.1 and 5.1), as a checked reference: never used by a plan.
//!
//! Standard deviations are of the noise on the *mean* gradient of a batch, under replace-one (two gradients of norm l differ by 2l),
//! for batches drawn without replacement. Outside the theorems' conditions the formulas can promise far less than the noise
//! keeps, so a call there is refused with the numbers.
//!
//! Covers: hard-thresholding theorem 4.1 (part: a checked reference, refused outside of its conditions; no plan uses it)
//! Covers: hard-thresholding theorem 5.1 (part: a checked reference with the two variances exchanged; no plan uses it)

use crate::choices::InnerSteps;
use dpopt_noise::NoiseSource;
use thiserror::Error;

/// Why a closed form says nothing here.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum OutOfConditions {
    /// First condition: the order α is too large for the sampling rate.
    #[error(
        "the theorem needs alpha <= {largest:.3}, but epsilon and delta give alpha = {alpha:.3}; take smaller batches, or calibrate \
         with the accountant, which has no such condition"
    )]
    Order {
        /// α = 1 + 2 ln(1/δ)/ε.
        alpha: f64,
        /// Right side of the condition.
        largest: f64,
    },
    /// Second condition: σ²/Δ² is too small for the lemma on sampling.
    #[error(
        "the theorem needs sigma^2/sensitivity^2 >= 1.5, but its own formula gives {ratio:.3}; take more steps or larger batches, or \
         calibrate with the accountant, which has no such condition"
    )]
    NoiseTooSmall {
        /// σ²/Δ²: variance of the noise over the squared sensitivity.
        ratio: f64,
    },
    /// A number that no formula takes.
    #[error("{0}")]
    Argument(String),
}

fn positive(name: &str, value: f64) -> Result<(), OutOfConditions> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(OutOfConditions::Argument(format!("{name} is {value}; give a positive, finite number")))
    }
}

fn check(alpha: f64, largest: f64, ratio: f64) -> Result<(), OutOfConditions> {
    // not a number (a negative logarithm's argument) is refused too
    if alpha > largest || largest.is_nan() {
        return Err(OutOfConditions::Order { alpha, largest });
    }
    if ratio < 1.5 {
        return Err(OutOfConditions::NoiseTooSmall { ratio });
    }
    Ok(())
}

/// A problem of Liang et al. 2022: n records, gradients of norm at most l, budget (ε, δ).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceProblem {
    /// n: number of records.
    pub records: f64,
    /// l: l2 clip norm of a record's gradient.
    pub clip_norm: f64,
    /// ε of the budget.
    pub epsilon: f64,
    /// δ of the budget.
    pub delta: f64,
}

impl SourceProblem {
    fn check(&self) -> Result<(), OutOfConditions> {
        positive("the number of records", self.records)?;
        positive("the clip norm", self.clip_norm)?;
        positive("epsilon", self.epsilon)?;
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(OutOfConditions::Argument(format!("delta is {}; give a number between 0 and 1", self.delta)));
        }
        Ok(())
    }

    /// α = 1 + 2 ln(1/δ)/ε.
    pub fn order(&self) -> f64 {
        1.0 + 2.0 * -self.delta.ln() / self.epsilon
    }

    /// σ of DP-SGD-HT without its conditions: what the paper's experiments can have used. **No guarantee.**
    pub fn sgd_ht_unchecked(&self, steps: f64) -> f64 {
        self.clip_norm / self.records * (40.0 * self.order() * steps / self.epsilon).sqrt()
    }

    /// σ of DP-GD-HT through Rényi orders: α = 1 + 2 ln(1/δ)/ε; valid without conditions.
    pub fn gd_ht(&self, steps: f64) -> Result<f64, OutOfConditions> {
        self.check()?;
        positive("the number of steps", steps)?;
        Ok(2.0 * self.clip_norm / self.records * (self.order() * steps / self.epsilon).sqrt())
    }
}

/// σ of DP-SGD-HT (Theorem 4.1, with the clip norm that its listing lost): σ² = 40αl²T/(n²ε), if
/// α ≤ ln(n³ε/(n²bε + 10αTb³)) and 10b²αT/(n²ε) ≥ 1.5.
///
/// ```
/// use dpopt_linear::{OutOfConditions, SourceProblem, sgd_ht_noise};
/// let problem = SourceProblem { records: 1e4, clip_norm: 1.0, epsilon: 10.0, delta: 1e-5 };
/// let refused = sgd_ht_noise(problem, 100.0, 100.0);
/// assert!(matches!(refused, Err(OutOfConditions::NoiseTooSmall { ratio }) if ratio < 0.034));
/// ```
pub fn sgd_ht_noise(problem: SourceProblem, batch: f64, steps: f64) -> Result<f64, OutOfConditions> {
    problem.check()?;
    positive("the batch size", batch)?;
    positive("the number of steps", steps)?;
    let SourceProblem { records: n, epsilon, .. } = problem;
    let alpha = problem.order();
    let largest = (n.powi(3) * epsilon / (n * n * batch * epsilon + 10.0 * alpha * steps * batch.powi(3))).ln();
    check(alpha, largest, 10.0 * batch * batch * alpha * steps / (n * n * epsilon))?;
    Ok(problem.sgd_ht_unchecked(steps))
}

/// σ₁ of the snapshots and σ₂ of the inner steps of DP-SCSG-HT (Theorem 5.1) with J epochs of snapshot batches B and inner batches
/// b: σ² = 2CBl²αJ/(bn²ε), **σ₁² = 40σ², σ₂² = 160σ²**. The paper prints the two factors the other way round, which costs
/// 2.125 times what it claims.
pub fn scsg_ht_noise(
    problem: SourceProblem,
    (snapshot, batch): (f64, f64),
    epochs: f64,
    inner: InnerSteps,
) -> Result<(f64, f64), OutOfConditions> {
    problem.check()?;
    positive("the snapshot's batch size", snapshot)?;
    positive("the batch size", batch)?;
    positive("the number of epochs", epochs)?;
    let SourceProblem { records: n, clip_norm: l, epsilon, delta } = problem;
    let (c, alpha) = match inner {
        InnerSteps::Fixed => (1.0, problem.order()),
        InnerSteps::Geometric => (
            geometric_constant(epochs, delta, snapshot / batch),
            SourceProblem { delta: delta / 2.0, ..problem }.order(),
        ),
    };
    let variance = 2.0 * c * snapshot * l * l * alpha * epochs / (batch * n * n * epsilon);
    let denominator = snapshot * batch * n * n * epsilon + 20.0 * c * snapshot.powi(4) * alpha * epochs;
    let largest = (batch * n.powi(3) * epsilon / denominator).ln();
    check(alpha, largest, 20.0 * alpha * c * snapshot * batch * epochs / (n * n * epsilon))?;
    Ok(((40.0 * variance).sqrt(), (160.0 * variance).sqrt()))
}

/// The smallest C such that none of J geometric numbers of mean m exceeds C·m but with probability δ/2. Exact: the paper's
/// bound e^{−(C−1−ln C)} is below the true tail for m near 1.
pub fn geometric_constant(epochs: f64, delta: f64, mean: f64) -> f64 {
    // P(N > Cm) = γ^(floor(Cm)+1) ≤ 1 − (1 − δ/2)^(1/J), γ = m/(m+1)
    let allowed = -((-delta / 2.0).ln_1p() / epochs).exp_m1();
    let least = (allowed.ln() / -(1.0 / mean).ln_1p()).ceil();
    (least - 1.0).max(0.0) / mean
}

/// C of the paper's inequality 1 − (1 − δ/2)^{1/J} ≥ e^{−(C−1−ln C)}.
pub fn source_geometric_constant(epochs: f64, delta: f64) -> f64 {
    let allowed = -((-delta / 2.0).ln_1p() / epochs).exp_m1();
    let (mut low, mut high) = (1.0f64, 1e6f64);
    while high - low > 1e-12 * high {
        let middle = 0.5 * (low + high);
        if middle - 1.0 - middle.ln() >= -allowed.ln() { high = middle } else { low = middle }
    }
    high
}

/// N^(1), …, N^(J): geometric numbers of mean `mean`, P(N = i) = (1 − γ)γ^i. They look at no data, so they may be published, and a
/// plan composes the realised ones; `seed` makes plans reproducible.
pub(crate) fn geometric_steps(mean: f64, epochs: u64, seed: u64) -> Vec<u64> {
    let mut stream = NoiseSource::insecure(seed).stream(dpopt_noise::Purpose::Other(16), 0);
    let rate = (1.0 / mean).ln_1p(); // −ln γ
    (0..epochs).map(|_| (-(1.0 - stream.uniform()).ln() / rate).floor() as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(records: f64, epsilon: f64) -> SourceProblem {
        SourceProblem { records, clip_norm: 1.0, epsilon, delta: 1e-5 }
    }

    #[test]
    fn gradient_descent_has_the_printed_numbers() {
        // n = 16193, T = 100, ε = 4
        assert!((problem(16193.0, 4.0).gd_ht(100.0).unwrap() - 0.001_605_21).abs() < 5e-9);
        let exact = 2.0 * 10.0 / 16193.0 / dpopt_privacy::special::gaussian_mu(4.0, 1e-5);
        assert!((exact - 0.001_335_34).abs() < 5e-9, "{exact}");
    }

    #[test]
    fn the_known_violation_is_refused_with_its_numbers() {
        let p = problem(1e4, 10.0);
        assert!((p.order() - 3.302_585).abs() < 1e-6);
        assert!((p.sgd_ht_unchecked(100.0) - 0.003_634_6).abs() < 5e-8);
        // α = 3.303 ≤ 4.573 holds, the noise .033 < 1.5 does not
        match sgd_ht_noise(p, 100.0, 100.0) {
            Err(OutOfConditions::NoiseTooSmall { ratio }) => assert!((ratio - 0.033_025_85).abs() < 1e-7),
            other => panic!("{other:?}"),
        }
        assert!(sgd_ht_noise(p, 100.0, 100.0).unwrap_err().to_string().contains("0.033"));
        assert!(matches!(sgd_ht_noise(p, 100.0, 1e9), Err(OutOfConditions::Order { .. })));
        assert!(matches!(sgd_ht_noise(p, f64::NAN, 1.0), Err(OutOfConditions::Argument(_))));
    }

    #[test]
    fn both_conditions_hold_for_tiny_batches_and_many_steps_only() {
        // largest batches of the first condition of Theorem 4.1 (RCV1): b ≤ n·e^{−α}/2.5 as σ²/Δ² → 1.5
        for (epsilon, most) in [(4.0, 7.5), (6.0, 51.0), (8.0, 134.0), (10.0, 238.0)] {
            let p = problem(16193.0, epsilon);
            let bound = p.records * (-p.order()).exp() / 2.5;
            assert!((bound / most - 1.0).abs() < 0.02, "{bound}");
            let batch = 0.9 * bound;
            let steps = (0.15 * p.records.powi(2) * epsilon / (batch * batch * p.order())).ceil();
            assert!(sgd_ht_noise(p, batch, steps).is_ok());
            assert!(sgd_ht_noise(p, 1.1 * bound, steps).is_err());
            // 20 epochs are never enough
            assert!(sgd_ht_noise(p, batch, 20.0 * p.records / batch).is_err());
        }
    }

    #[test]
    fn variance_reduced_noise_has_40_and_160_not_160_and_40() {
        let p = problem(16193.0, 4.0);
        // Theorem 5.1: B = 1600, b = 160, J = 10: not applicable, both numbers in the refusal
        match scsg_ht_noise(p, (1600.0, 160.0), 10.0, InnerSteps::Fixed) {
            Err(OutOfConditions::Order { alpha, largest }) => {
                assert!((alpha - 6.756_46).abs() < 1e-4 && (largest + 1.21).abs() < 0.005, "{alpha} {largest}");
            }
            other => panic!("{other:?}"),
        }
        let variance: f64 = 2.0 * 10.0 * p.order() * 10.0 / (16193f64.powi(2) * 4.0);
        assert!((variance.sqrt() - 0.001_135_06).abs() < 5e-9);
        assert!(((40.0 * variance).sqrt() - 0.007_178_7).abs() < 5e-8);
        // where the conditions hold: Rényi cost of all steps is ε/2 at α for 40/160, 2.125 times that for 160/40
        let p = problem(1e6, 10.0);
        let (snapshot, batch, epochs) = (400.0, 200.0, 3_000_000.0);
        let (s1, s2) = scsg_ht_noise(p, (snapshot, batch), epochs, InnerSteps::Fixed).unwrap();
        let cost = |s1: f64, s2: f64| {
            let inner = epochs * snapshot / batch;
            p.order() / p.records.powi(2) * inner * (20.0 / (s1 * s1) + 80.0 / (s2 * s2))
        };
        assert!((cost(s1, s2) / (p.epsilon / 2.0) - 1.0).abs() < 1e-12);
        assert!((cost(s2, s1) / (p.epsilon / 2.0) - 2.125).abs() < 1e-12);
    }

    #[test]
    fn the_constant_of_option_one() {
        for (epochs, source, exact) in [(10.0, 18.4, 15.2), (50.0, 20.1, 16.9), (100.0, 20.9, 17.6)] {
            assert!((source_geometric_constant(epochs, 1e-5) - source).abs() < 0.06);
            assert!(
                (geometric_constant(epochs, 1e-5, 10.0) - exact).abs() < 0.11,
                "{}",
                geometric_constant(epochs, 1e-5, 10.0)
            );
        }
        // at mean 1 the paper's inequality is wrong: P(N > 18.4) = 2^-19 = 1.9e-6 against 5.0e-7, which needs 20
        assert!(geometric_constant(10.0, 1e-5, 1.0) >= 20.0);
    }

    #[test]
    fn geometric_numbers_have_their_mean_and_zeros() {
        let n = geometric_steps(4.0, 100_000, 1);
        let mean = n.iter().sum::<u64>() as f64 / n.len() as f64;
        let zeros = n.iter().filter(|&&k| k == 0).count() as f64 / n.len() as f64;
        // standard deviations √20/√1e5 and √(.16/1e5); 5.3 of them
        assert!((mean - 4.0).abs() < 0.075 && (zeros - 0.2).abs() < 0.0067, "{mean} {zeros}");
        assert_eq!(geometric_steps(4.0, 10, 2), geometric_steps(4.0, 10, 2));
    }
}
