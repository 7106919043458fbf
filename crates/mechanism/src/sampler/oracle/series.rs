//! Restricted Gaussian oracle A: a randomly truncated power series of the density ratio, O(1) terms of the data per
//! proposal (spec 03 §5.2; thesis Algorithm 14). Optimal in the number of queries, impractical in its constants: the step
//! must satisfy 1/(ηg_0²) ≈ 300 to 800. Kept for fidelity and for tests.
//!
//! x, z independent from 𝒢 as in [`super::ratio`]; ρ = 1 + Σ_α Π_{i≤α}(f_{j_i}(z) − f_{j_i}(x)), α terms with fresh uniform
//! indices, stopping after α with probability α/(1 + α), so that α is reached with probability 1/α!; x is accepted if
//! u ≤ ρ/2. E ρ is the exact ratio, and the error is what the cut of ρ to [0, 2] loses.
//!
//! Covers: thesis algorithm 14, theorem 3.2.3, theorem 3.5.6 (part: with a bound on its distance, for tests; methods take an exact oracle)

use super::{Exhausted, Proximal, Tally};
use crate::sampler::domain::rounded;
use crate::sampler::potential::Potential;
use crate::sampler::wide::Wide;
use dpopt_noise::Stream;
use dpopt_privacy::special::ln_gamma;

/// Bound on the total-variation error of one draw at v = η·g_0² with series cut after `longest` terms; 1 or more where
/// nothing is proved. Minimised over the power p of Markov's inequality.
pub fn total_variation(v: f64, longest: u32) -> f64 {
    // E of the absolute value of a product of m differences: m(4v)^(m/2)Γ(m/2)
    let ln_moment = |m: f64| m.ln() + 0.5 * m * (4.0 * v).ln() + ln_gamma(0.5 * m);
    let beyond: f64 =
        (longest + 1..longest + 60).map(|a| (ln_moment(f64::from(a)) - ln_gamma(f64::from(a) + 1.0)).exp()).sum();
    let within = |p: f64| -> f64 {
        let sum: f64 =
            (1..=longest).map(|a| ((ln_moment(p * f64::from(a)) - ln_gamma(f64::from(a) + 1.0)) / p).exp()).sum();
        if sum < 1.0 { sum.powf(p) } else { f64::INFINITY }
    };
    let best = (0..400).map(|i| within(2.0 * 1.02f64.powi(i))).fold(f64::INFINITY, f64::min);
    beyond + best
}

/// The longest series for an error of `delta`.
pub fn longest_series(delta: f64) -> u32 {
    (-delta.log10() / 2.0).ceil() as u32 + 2
}

/// The largest v = η·g_0² (to one part in a thousand) whose error is at most `delta`, by the formula, not by a rule of thumb.
///
/// ```
/// use dpopt_mechanism::sampler::series;
/// // 1/v ≈ 304 for 1e-6, 806 for 1e-16
/// let v = series::largest_step(1e-6);
/// assert!(1.0 / v > 290.0 && 1.0 / v < 310.0);
/// assert!(series::total_variation(v, series::longest_series(1e-6)) <= 1e-6);
/// ```
pub fn largest_step(delta: f64) -> f64 {
    let longest = longest_series(delta);
    let fits = |v: f64| total_variation(v, longest) <= delta;
    let (mut low, mut high) = (1e-6, 0.1);
    if !fits(low) {
        return 0.0;
    }
    while high > 1.001 * low {
        let middle = (low * high).sqrt();
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

pub(super) fn draw<P: Potential>(
    longest: u32,
    prox: &Proximal<'_, P>,
    y: &[Wide],
    x: &mut [Wide],
    stream: &mut Stream,
    tally: &mut Tally,
) -> Result<(), Exhausted> {
    let (centre, std) = prox.free_gaussian(y);
    let n = prox.potential.terms() as u64;
    // F is the mean of n·β·φ_j over a uniform j
    let scale = prox.potential.scale() * n as f64;
    let mut other = x.to_vec();
    loop {
        prox.domain.gaussian(&centre, std, x, stream);
        prox.domain.gaussian(&centre, std, &mut other, stream);
        let (a, b) = (rounded(x), rounded(&other));
        let mut ratio = 1.0;
        for alpha in 1..=longest {
            let mut product = 1.0;
            for _ in 0..alpha {
                let j = stream.below(n) as usize;
                product *= scale * (prox.potential.term(j, &b) - prox.potential.term(j, &a));
                tally.terms += 2;
            }
            ratio += product;
            // stop with probability α/(1 + α)
            if stream.below(u64::from(alpha) + 1) != 0 {
                break;
            }
        }
        tally.values += 1;
        if prox.domain.admits(x) && stream.uniform() <= 0.5 * ratio {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_steps() {
        // spec 03 §5.2 with the factor 1 that its review proves
        for (delta, inverse, longest) in
            [(1e-8, 404.0, 6), (1e-10, 504.0, 7), (1e-12, 604.0, 8), (1e-14, 704.0, 9), (1e-16, 806.0, 10)]
        {
            assert_eq!(longest_series(delta), longest);
            let v = largest_step(delta);
            assert!(total_variation(v, longest) <= delta);
            assert!(1.0 / v <= inverse + 1.0 && 1.0 / v > 0.9 * inverse, "{delta}: {}", 1.0 / v);
        }
        // the rule v = 0.0454/ln(1/δ) holds with this bound, the formula decides
        for k in 3..=30 {
            let delta = 10f64.powi(-k);
            assert!(total_variation(0.0454 / -delta.ln(), longest_series(delta)) <= delta, "{delta}");
        }
        assert!(total_variation(50.0 * largest_step(1e-6), 5) > 1e-3);
    }
}
