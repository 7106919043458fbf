//! Private choice among candidates with *integer* scores: permute-and-flip and the exponential mechanism, exactly
//! (McKenna, Sheldon 2020; McSherry, Talwar 2007; docs/proofs/counts.md).
//!
//! Scores must be integers whose sensitivity is known exactly, e.g. sums of per-record integers; a score summed in
//! floating point has no proved sensitivity, and rounding it afterwards does not help.
use dpopt_noise::{Geometric, ScaleError, Stream};
use dpopt_process::stop::{Pace, paced};

/// Scale Δ'/ε of a choice, rounded up, with Δ' = 2Δ in general and Δ if all scores move the same way.
pub(crate) fn choice_scale(epsilon: f64, sensitivity: u64, monotone: bool) -> Result<f64, ScaleError> {
    if !(epsilon.is_finite() && epsilon > 0.0) || sensitivity == 0 || sensitivity >= 1 << 50 {
        return Err(ScaleError);
    }
    let change = (if monotone { sensitivity } else { 2 * sensitivity }) as f64;
    Ok((change / epsilon).next_up())
}

/// Noisy maximum with geometric noise and uniformly random ties, which is permute-and-flip (McKenna, Sheldon 2020; Ding
/// et al. 2021): ε-DP, and never worse than the exponential mechanism at the same ε.
#[derive(Clone, Debug)]
pub struct NoisyMax {
    noise: Geometric,
}

impl NoisyMax {
    /// A choice that is `epsilon`-DP when one record moves each integer score by at most `sensitivity`. `monotone`: a
    /// record moves all scores in the same direction (counts under zero-out or add-or-remove), which halves the noise.
    ///
    /// # Errors
    /// If epsilon is not positive and finite, the sensitivity is 0, or their ratio is out of range.
    pub fn new(epsilon: f64, sensitivity: u64, monotone: bool) -> Result<Self, ScaleError> {
        Ok(Self { noise: Geometric::new(choice_scale(epsilon, sensitivity, monotone)?)? })
    }

    /// Index of the noisy maximum; `None` without candidates. The noisy value is not part of the answer (it would be a
    /// further release).
    pub fn choose(&self, scores: impl IntoIterator<Item = i64>, stream: &mut Stream) -> Option<usize> {
        let mut best: Option<(i128, usize)> = None;
        let mut ties = 1;
        for (index, score) in paced(scores.into_iter().enumerate()) {
            let noisy = i128::from(score) + i128::from(self.noise.sample(stream));
            match best {
                Some((value, _)) if noisy < value => {}
                Some((value, _)) if noisy == value => {
                    // each of the `ties` best ones so far is kept with equal probability
                    ties += 1;
                    if stream.below(ties) == 0 {
                        best = Some((value, index));
                    }
                }
                _ => {
                    best = Some((noisy, index));
                    ties = 1;
                }
            }
        }
        best.map(|(_, index)| index)
    }
}

/// The exponential mechanism P(i) ∝ e^(score_i/scale) (McSherry, Talwar 2007), exactly: a uniformly random candidate is
/// kept with probability e^(−(max − score)/scale). Its time depends on the scores (time is outside the claim).
#[derive(Clone, Debug)]
pub struct ExponentialChoice {
    gap: Geometric,
}

impl ExponentialChoice {
    /// A choice that is `epsilon`-DP (and of bounded range ε) when one record moves each integer score by at most
    /// `sensitivity`; `monotone` as in [`NoisyMax::new`].
    ///
    /// # Errors
    /// As [`NoisyMax::new`].
    pub fn new(epsilon: f64, sensitivity: u64, monotone: bool) -> Result<Self, ScaleError> {
        Ok(Self { gap: Geometric::new(choice_scale(epsilon, sensitivity, monotone)?)? })
    }

    /// Heads with probability e^(−behind/scale): how often a draw is kept whose score falls by `behind` while the others stay.
    pub fn keeps(&self, behind: u64, stream: &mut Stream) -> bool {
        // P(Z ≥ behind) = e^(−behind/scale)
        behind == 0 || self.gap.sample_below(behind, stream).is_none()
    }

    /// Index of the chosen candidate; `None` without candidates.
    pub fn choose(&self, scores: &[i64], stream: &mut Stream) -> Option<usize> {
        let max = *scores.iter().max()?;
        let mut pace = Pace::default();
        loop {
            pace.step();
            let index = stream.below(scores.len() as u64) as usize;
            if self.keeps(max.abs_diff(scores[index]), stream) {
                return Some(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn permute_and_flip_probabilities() {
        // scores (2,1,0,0,0), λ = ½: .43541, .21071, .11796 (each of the three)
        let choice = NoisyMax::new(1.0, 1, false).unwrap();
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
        let mut counts = [0.0; 5];
        for _ in 0..200_000 {
            counts[choice.choose([2, 1, 0, 0, 0], &mut stream).unwrap()] += 1.0;
        }
        assert_multinomial(&counts, |i| [0.43541, 0.21071, 0.11796, 0.11796, 0.11796][i]);
    }

    #[test]
    fn exponential_mechanism_probabilities() {
        let choice = ExponentialChoice::new(1.0, 1, false).unwrap();
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Selection, 0);
        let scores = [2i64, 1, 0, 0, -3];
        let mut counts = [0.0; 5];
        for _ in 0..100_000 {
            counts[choice.choose(&scores, &mut stream).unwrap()] += 1.0;
        }
        let total: f64 = scores.iter().map(|&s| (s as f64 / 2.0).exp()).sum();
        assert_multinomial(&counts, |i| (scores[i] as f64 / 2.0).exp() / total);
    }

    #[test]
    fn a_draw_is_kept_as_often_as_its_score_allows() {
        // scale 2·10/1 = 20
        let choice = ExponentialChoice::new(1.0, 10, false).unwrap();
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Selection, 0);
        for behind in [0u64, 1, 7, 40] {
            let kept = (0..200_000).filter(|_| choice.keeps(behind, &mut stream)).count() as f64;
            let p = (-(behind as f64) / 20.0).exp();
            assert_multinomial(&[kept, 200_000.0 - kept], |i| [p, 1.0 - p][i]);
        }
    }

    #[test]
    fn odd_inputs() {
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Selection, 0);
        assert_eq!(NoisyMax::new(1.0, 1, true).unwrap().choose([], &mut stream), None);
        let choice = ExponentialChoice::new(1.0, 1, true).unwrap();
        assert_eq!(choice.choose(&[], &mut stream), None);
        assert_eq!(choice.choose(&[i64::MIN, i64::MAX], &mut stream), Some(1));
        for (epsilon, sensitivity) in [(0.0, 1), (f64::NAN, 1), (1.0, 0), (1e-300, 1), (1.0, u64::MAX)] {
            assert!(NoisyMax::new(epsilon, sensitivity, false).is_err());
        }
    }

    #[test]
    fn the_scale_is_never_too_small() {
        // exact comparison: scale·ε ≥ 2Δ in rationals, through fused multiply-add residuals
        for (epsilon, delta) in [(0.1, 1u64), (0.3, 7), (1.7, 1000)] {
            let scale = choice_scale(epsilon, delta, false).unwrap();
            assert!(scale.mul_add(epsilon, -2.0 * delta as f64) >= 0.0);
        }
    }
}
