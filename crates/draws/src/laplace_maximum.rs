//! Report-noisy-max with Laplace noise over very many candidates of which few have a score.
//!
//! Every candidate with a score gets a fresh integer noise P(x) ∝ e^(−|x|/t). All others have score 0 and are exchangeable: that one
//! of them wins is one event, whose probability is known in closed form, and then each of them is equally likely. So a draw costs the
//! candidates with a score, however many others there are. Ties go to the larger of independent uniform numbers.
//!
//! Time depends on how many candidates have a score: the claim is about outputs.
use crate::leveled_choice::{Chosen, uniform_below};
use crate::order_statistics::quotient;
use crate::selection::choice_scale;
use dpopt_noise::parts::{Fixed, L, exp_minus};
use dpopt_noise::{DiscreteLaplace, ScaleError, Stream};

/// Tails below e^-250 count as 0: with 2^34 candidates all together below 2^-326.
const REACH: u64 = 250;

/// The candidate with the largest noisy score. Each draw is within 2^-130 of the exact law in total variation.
///
/// ```
/// use dpopt_draws::{Chosen, LaplaceMaximum};
/// use dpopt_noise::{NoiseSource, Purpose};
/// let maximum = LaplaceMaximum::new(1.0, 1)?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
/// // a billion candidates of score 0, and three with a score
/// assert_eq!(maximum.choose([3, 0, 200], 1_000_000_000, &mut stream), Some(Chosen::Plus(2)));
/// # Ok::<(), dpopt_noise::ScaleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LaplaceMaximum {
    noise: DiscreteLaplace,
    scale: u64,
    /// 1 + e^(−1/t), t the scale of the noise.
    one_plus_ratio: Fixed<L>,
}

impl LaplaceMaximum {
    /// A choice that is ε-DP when one record moves each score by at most `sensitivity`, in any direction: t = ⌈2·sensitivity/ε⌉.
    /// It is not of bounded range ε.
    ///
    /// # Errors
    /// If ε is not positive and finite, the sensitivity is 0, or their ratio is out of range.
    pub fn new(epsilon: f64, sensitivity: u64) -> Result<Self, ScaleError> {
        let scale = choice_scale(epsilon, sensitivity, false)?.ceil();
        if scale > 2f64.powi(50) {
            return Err(ScaleError);
        }
        let ratio = exp_minus(&Fixed::integer(1).over_integer(scale as u64));
        let scale = scale as u64;
        Ok(Self { noise: DiscreteLaplace::new(scale)?, scale, one_plus_ratio: Fixed::integer(1).plus(&ratio) })
    }

    /// One draw among candidates 0, 1, … with `scores` and `others` of score 0; `None` without candidates.
    pub fn choose(&self, scores: impl IntoIterator<Item = i64>, others: u64, stream: &mut Stream) -> Option<Chosen> {
        let one = Fixed::integer(1);
        let mut best: Option<(i64, Fixed<L>, u32)> = None;
        for (candidate, score) in scores.into_iter().enumerate() {
            let value = score.saturating_add(self.noise.sample(stream));
            if best.as_ref().is_none_or(|(largest, ..)| value >= *largest) {
                let tie = uniform_below(&one, stream);
                if best.as_ref().is_none_or(|(largest, highest, _)| value > *largest || tie > *highest) {
                    best = Some((value, tie, candidate as u32));
                }
            }
        }
        let Some((value, tie, candidate)) = best else {
            return (others > 0).then(|| Chosen::Other(stream.below(others)));
        };
        // one of the others: its noise is larger, or the same and its number for ties is
        let (above, equal) = (self.tail(value.saturating_add(1)), self.tail(value));
        let beaten = above.plus(&equal.minus(&above).times_down(&one.minus(&tie)));
        let unbeaten = power(one.minus(&beaten), others);
        if uniform_below(&one, stream) < unbeaten {
            Some(Chosen::Plus(candidate))
        } else {
            Some(Chosen::Other(stream.below(others)))
        }
    }

    /// P(noise ≥ x), to within 2^-300: e^(−x/t)/(1 + e^(−1/t)) for x ≥ 0, one less its mirror image below.
    fn tail(&self, x: i64) -> Fixed<L> {
        if x < 0 {
            return Fixed::integer(1).minus(&self.tail(1i64.saturating_sub(x)));
        }
        let (x, scale) = (x.unsigned_abs(), self.scale);
        if x / scale >= REACH {
            return Fixed::ZERO;
        }
        // e^(−y) is tabulated up to 64: a fourth power
        let root = exp_minus(&Fixed::integer(x).over_integer(scale).half().half());
        let square = root.times_down(&root);
        let half = quotient(&square.times_down(&square).half().half(), &self.one_plus_ratio.half());
        half.plus(&half)
    }
}

/// base^exponent for a base in [0, 1]: each squaring doubles the error and adds one of 2^-384, so at 2^34 it stays below 2^-260.
fn power(mut base: Fixed<L>, mut exponent: u64) -> Fixed<L> {
    let mut out = Fixed::integer(1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = out.times_down(&base);
        }
        base = base.times_down(&base);
        exponent >>= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_multinomial;
    use dpopt_noise::{NoiseSource, Purpose};

    /// P(candidate i wins), by summing over its noise; ties by Simpson's rule over its uniform number (error below 1e-6).
    fn law(scores: &[i64], scale: f64) -> Vec<f64> {
        let mass = |x: i64| (0.5 / scale).tanh() * (-(x.abs() as f64) / scale).exp();
        let below = |x: i64| {
            let tail = |x: f64| (-x / scale).exp() / (1.0 + (-1.0 / scale).exp());
            if x > 0 { 1.0 - tail(x as f64) } else { tail(1.0 - x as f64) }
        };
        let wins = |i: usize, value: i64, tie: f64| {
            let others = scores.iter().enumerate().filter(|(j, _)| *j != i);
            others.map(|(_, s)| below(value - s) + mass(value - s) * tie).product::<f64>()
        };
        let reach = (60.0 * scale) as i64;
        (0..scores.len())
            .map(|i| {
                let at = |x: i64| {
                    let simpson: f64 = (0..=20)
                        .map(|n| {
                            let weight = if n == 0 || n == 20 {
                                1.0
                            } else if n % 2 == 1 {
                                4.0
                            } else {
                                2.0
                            };
                            weight * wins(i, scores[i] + x, f64::from(n) / 20.0)
                        })
                        .sum();
                    mass(x) * simpson / 60.0
                };
                (-reach..=reach).map(at).sum()
            })
            .collect()
    }

    #[test]
    fn the_law_is_report_noisy_max_with_and_without_scores() {
        // the same candidates: all with a score, and the zeros as others; coarse noise, so that ties are frequent
        for (seed, (epsilon, scores)) in
            [(1.0, [3i64, 0, 0, -2, 1, 0]), (4.0, [1, 0, 0, 0, 0, 1]), (0.1, [25, 0, -7, 0, 0, 31])]
                .into_iter()
                .enumerate()
        {
            let maximum = LaplaceMaximum::new(epsilon, 1).unwrap();
            let exact = law(&scores, maximum.scale as f64);
            assert!((exact.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{exact:?}");
            let mut stream = NoiseSource::insecure(seed as u64).stream(Purpose::Selection, 0);
            let named: Vec<usize> = (0..6).filter(|&i| scores[i] != 0).collect();
            let zeros: Vec<usize> = (0..6).filter(|&i| scores[i] == 0).collect();
            let mut counts = [[0.0; 6]; 2];
            for _ in 0..60_000 {
                let Some(Chosen::Plus(i)) = maximum.choose(scores, 0, &mut stream) else {
                    panic!("there are no others")
                };
                counts[0][i as usize] += 1.0;
                let chosen = maximum.choose(named.iter().map(|&i| scores[i]), zeros.len() as u64, &mut stream);
                counts[1][match chosen {
                    Some(Chosen::Plus(i)) => named[i as usize],
                    Some(Chosen::Other(rank)) => zeros[rank as usize],
                    other => panic!("{other:?}"),
                }] += 1.0;
            }
            counts.iter().for_each(|c| assert_multinomial(c, |i| exact[i]));
        }
    }

    #[test]
    fn a_billion_others_weigh_what_they_should() {
        // t = 3 (the least whole number above 2), score 69 against n others: P(some other wins) from the exact laws, in f64
        let maximum = LaplaceMaximum::new(1.0, 1).unwrap();
        assert_eq!(maximum.scale, 3);
        let n = 1u64 << 30;
        let tail = |x: i64| {
            let upper = |x: f64| (-x / 3.0).exp() / (1.0 + (-1.0f64 / 3.0).exp());
            if x >= 0 { upper(x as f64) } else { 1.0 - upper(1.0 - x as f64) }
        };
        let wins: f64 = (-150..150i64)
            .map(|x| {
                let mass = tail(x) - tail(x + 1);
                // the tie over ten cells
                let kept: f64 = (0..1000)
                    .map(|u| {
                        let beaten =
                            tail(70 + x) + (tail(69 + x) - tail(70 + x)) * (1.0 - (f64::from(u) + 0.5) / 1000.0);
                        (n as f64 * (-beaten).ln_1p()).exp()
                    })
                    .sum::<f64>()
                    / 1000.0;
                mass * kept
            })
            .sum();
        let mut stream = NoiseSource::insecure(8).stream(Purpose::Selection, 0);
        let hits = (0..20_000).filter(|_| maximum.choose([69], n, &mut stream) == Some(Chosen::Plus(0))).count() as f64;
        // 5.4 standard deviations: false alarm 7e-8
        assert!(
            (hits / 20_000.0 - wins).abs() < 5.4 * (wins * (1.0 - wins) / 20_000.0).sqrt(),
            "{hits} against {wins}"
        );
        assert!(wins > 0.2 && wins < 0.9, "{wins}");
    }

    #[test]
    fn odd_inputs() {
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Selection, 0);
        let maximum = LaplaceMaximum::new(1.0, 1).unwrap();
        assert_eq!(maximum.choose([], 0, &mut stream), None);
        assert_eq!(maximum.choose([], 1, &mut stream), Some(Chosen::Other(0)));
        assert_eq!(maximum.choose([i64::MIN, i64::MAX], 1 << 33, &mut stream), Some(Chosen::Plus(1)));
        assert!(matches!(maximum.choose([i64::MIN], 5, &mut stream), Some(Chosen::Other(_))));
        for (epsilon, sensitivity) in [(0.0, 1), (f64::NAN, 1), (1.0, 0), (1e-300, 1)] {
            assert!(LaplaceMaximum::new(epsilon, sensitivity).is_err());
        }
    }
}
