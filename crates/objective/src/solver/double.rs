//! Numbers as unevaluated sums of two f64, about 100 bits: slopes for the certified gradient.
//!
//! Sums and products are those of Dekker and Knuth; e^x is reduced by ln 2 and by 2^9, summed as a Taylor series and
//! squared back. Absolute errors of everything here are below 2^-85 times the larger of 1 and the inputs.

use crate::loss::Loss;

/// hi + lo with |lo| at most half a unit in the last place of hi.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Double {
    pub(super) hi: f64,
    pub(super) lo: f64,
}

/// a + b exactly, as rounded sum and error (Knuth).
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// ln 2 to 107 bits.
const LN_2: Double = Double { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };

impl From<f64> for Double {
    fn from(hi: f64) -> Self {
        Self { hi, lo: 0.0 }
    }
}

impl Double {
    /// The sum of any two numbers.
    #[inline]
    pub(super) fn of(a: f64, b: f64) -> Self {
        let (hi, lo) = two_sum(a, b);
        Self { hi, lo }
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        let (hi, low) = two_sum(self.hi, other.hi);
        let (more, rest) = two_sum(self.lo, other.lo);
        let first = Self::of(hi, low + more);
        Self::of(first.hi, first.lo + rest)
    }

    #[inline]
    fn minus(self, other: Self) -> Self {
        self.plus(other.negative())
    }

    #[inline]
    fn negative(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }

    #[inline]
    fn times(self, other: Self) -> Self {
        let product = self.hi * other.hi;
        let error = self.hi.mul_add(other.hi, -product);
        Self::of(product, error + (self.hi * other.lo + self.lo * other.hi))
    }

    /// Divided by a plain number.
    #[inline]
    fn over(self, divisor: f64) -> Self {
        let first = self.hi / divisor;
        let rest = (-first).mul_add(divisor, self.hi) + self.lo;
        Self::of(first, rest / divisor)
    }

    /// Two steps of long division: each gains 53 bits.
    #[inline]
    fn divided_by(self, divisor: Self) -> Self {
        let first = self.hi / divisor.hi;
        let rest = self.minus(divisor.times(first.into()));
        let second = rest.hi / divisor.hi;
        let rest = rest.minus(divisor.times(second.into()));
        Self::of(first, second).plus((rest.hi / divisor.hi).into())
    }

    /// 2^k times it, exactly; −300 ≤ k ≤ 300.
    fn scaled(self, k: i32) -> Self {
        let factor = 2f64.powi(k);
        Self { hi: self.hi * factor, lo: self.lo * factor }
    }

    /// e^x for x ≤ 1 (larger ones never occur).
    fn exp(self) -> Self {
        if self.hi < -200.0 {
            return self.hi.exp().into(); // below 2^-288
        }
        let k = (self.hi / LN_2.hi).round();
        let reduced = self.minus(LN_2.times(k.into())).scaled(-9);
        // e^r − 1 = r(1 + r/2(1 + r/3(…))): |r| < 2^-10, so the tenth term is below 2^-110
        let mut series = Self::from(1.0);
        for term in (2..=9).rev() {
            series = Self::from(1.0).plus(reduced.over(f64::from(term)).times(series));
        }
        let mut less_one = reduced.times(series);
        for _ in 0..9 {
            // (1 + s)² − 1
            less_one = less_one.scaled(1).plus(less_one.times(less_one));
        }
        less_one.plus(1.0.into()).scaled(k as i32)
    }

    /// The logistic function 1/(1 + e^−x).
    fn sigmoid(self) -> Self {
        let small = if self.hi >= 0.0 { self.negative().exp() } else { self.exp() };
        let whole = small.plus(1.0.into());
        if self.hi >= 0.0 { Self::from(1.0).divided_by(whole) } else { small.divided_by(whole) }
    }

    /// The nearest number between two plain ones.
    fn clamp(self, low: f64, high: f64) -> Self {
        if self.minus(high.into()).hi > 0.0 {
            high.into()
        } else if self.minus(low.into()).hi < 0.0 {
            low.into()
        } else {
            self
        }
    }
}

/// The slope of `loss` in each score, as [`Loss::slope`] but to about 85 bits: off by at most 2^-85 of the slope bound plus the
/// curvature bound times the error of the scores. Losses without a curvature bound have no certified minimiser and are
/// computed in f64.
pub(super) fn slope(loss: Loss, scores: &[Double], target: f64, slope: &mut [Double]) {
    match loss {
        Loss::Softmax { .. } => {
            let top =
                scores.iter().fold(Double::from(f64::NEG_INFINITY), |top, s| if s.hi > top.hi { *s } else { top });
            let mut sum = Double::default();
            for (g, s) in slope.iter_mut().zip(scores) {
                *g = s.minus(top).exp();
                sum = sum.plus(*g);
            }
            slope.iter_mut().for_each(|g| *g = g.divided_by(sum));
            slope[target as usize] = slope[target as usize].minus(1.0.into());
        }
        _ => slope[0] = scalar_slope(loss, scores[0], target),
    }
}

fn scalar_slope(loss: Loss, score: Double, target: f64) -> Double {
    let along = |value: Double| if target > 0.0 { value } else { value.negative() }; // times a label of ±1
    match loss {
        Loss::Logistic { shift } => along(Double::from(shift).minus(along(score)).sigmoid()).negative(),
        Loss::Squared => score.minus(target.into()),
        Loss::Huber { threshold } => score.minus(target.into()).clamp(-threshold, threshold),
        Loss::SmoothedHinge { width } => {
            let gap = Double::from(1.0).minus(along(score));
            along(gap.plus(width.into()).over(2.0 * width).clamp(0.0, 1.0)).negative()
        }
        Loss::Quantile { level, width } => {
            let half = score.minus(target.into()).over(2.0 * width).clamp(-0.5, 0.5);
            half.plus(Double::of(0.5, -level))
        }
        _ => loss.scalar_slope(score.hi, target).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: Double, b: Double) {
        let gap = a.minus(b);
        assert!((gap.hi + gap.lo).abs() <= 2f64.powi(-85), "{a:?} {b:?} {gap:?}");
    }

    #[test]
    fn known_values_to_32_digits() {
        // e^-1 = 0.36787944117144232159552377016146086745, e^-20 = 2.0611536224385578279659403801558209763e-9
        close(Double::from(-1.0).exp(), Double::of(0.367_879_441_171_442_33, -1.242_875_367_278_836_3e-17));
        let twenty = Double::from(-20.0).exp();
        let direct = (0..20).fold(Double::from(1.0), |product, _| product.times(Double::from(-1.0).exp()));
        close(twenty, direct);
        assert!((twenty.hi - 2.061_153_622_438_557_8e-9).abs() < 1e-24);
        close(Double::from(0.0).sigmoid(), 0.5.into());
    }

    proptest! {
        #[test]
        fn exponentials_multiply_and_sigmoids_add_to_one(x in -150.0f64..0.0, y in -40.0f64..0.0, low in -1e-18f64..1e-18) {
            let (x, y) = (Double::of(x, low), Double::from(y));
            close(x.exp().times(y.exp()), x.plus(y).exp());
            close(x.sigmoid().plus(x.negative().sigmoid()), 1.0.into());
            close(x.exp().divided_by(y.exp().plus(1.0.into())).times(y.exp().plus(1.0.into())), x.exp());
        }

        #[test]
        fn slopes_agree_with_the_plain_ones(score in -30.0f64..30.0, width in 0.01f64..2.0, positive in any::<bool>()) {
            let target = if positive { 1.0 } else { -1.0 };
            let losses = [
                Loss::Logistic { shift: width },
                Loss::Huber { threshold: width },
                Loss::SmoothedHinge { width },
                Loss::Quantile { level: 0.5 + 0.2 * width, width },
                Loss::Squared,
            ];
            for loss in losses {
                let fine = scalar_slope(loss, score.into(), target);
                prop_assert!((fine.hi - loss.scalar_slope(score, target)).abs() <= 1e-13 * (1.0 + 1.0 / width), "{loss:?}");
            }
            let scores = [score, -score, width];
            let (mut fine, mut plain) = ([Double::default(); 3], [0.0; 3]);
            slope(Loss::Softmax { classes: 3 }, &scores.map(Double::from), 1.0, &mut fine);
            Loss::Softmax { classes: 3 }.slope(&scores, 1.0, &mut plain);
            prop_assert!(fine.iter().zip(plain).all(|(a, b)| (a.hi - b).abs() <= 1e-13));
        }
    }
}
