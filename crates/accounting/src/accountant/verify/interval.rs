//! Intervals of f64 with outward rounding, and enclosures of exp, ln and normal tails that rest on nothing but them.
//!
//! Assumed: +, −, ×, ÷ of f64 are correctly rounded (IEEE 754, which Rust promises). No function of the platform's libm is trusted.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// All numbers from `lo` to `hi`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub lo: f64,
    pub hi: f64,
}

/// The number that a decimal of 17 digits stands for lies within one unit of the f64 next to it.
fn around(nearest: f64) -> Interval {
    Interval { lo: nearest.next_down(), hi: nearest.next_up() }
}

pub(super) fn exactly(x: f64) -> Interval {
    Interval { lo: x, hi: x }
}

fn outward(lo: f64, hi: f64) -> Interval {
    // a NaN anywhere must not pass for knowledge
    if lo.is_nan() || hi.is_nan() {
        return Interval { lo: f64::NEG_INFINITY, hi: f64::INFINITY };
    }
    Interval { lo: lo.next_down(), hi: hi.next_up() }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        outward(self.lo + o.lo, self.hi + o.hi)
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        outward(self.lo - o.hi, self.hi - o.lo)
    }
}

impl Neg for Interval {
    type Output = Self;
    fn neg(self) -> Self {
        Self { lo: -self.hi, hi: -self.lo }
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        let all = [self.lo * o.lo, self.lo * o.hi, self.hi * o.lo, self.hi * o.hi];
        if all.iter().any(|x| x.is_nan()) {
            return outward(f64::NAN, 0.0);
        }
        outward(
            all.iter().copied().fold(f64::INFINITY, f64::min),
            all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

impl Div for Interval {
    type Output = Self;
    fn div(self, o: Self) -> Self {
        if !(o.lo > 0.0 || o.hi < 0.0) {
            return outward(f64::NAN, 0.0);
        }
        let all = [self.lo / o.lo, self.lo / o.hi, self.hi / o.lo, self.hi / o.hi];
        if all.iter().any(|x| x.is_nan()) {
            return outward(f64::NAN, 0.0);
        }
        outward(
            all.iter().copied().fold(f64::INFINITY, f64::min),
            all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

impl Interval {
    /// What is known to be a probability or a mass.
    pub fn not_negative(self) -> Self {
        Self { lo: self.lo.max(0.0), hi: self.hi.max(0.0) }
    }

    /// The interval of e^x, with both ends rounded outward.
    pub fn exp(self) -> Self {
        Self { lo: exp(self.lo).lo, hi: exp(self.hi).hi }
    }

    /// ln x for x > 0, increasing.
    pub fn ln(self) -> Self {
        Self { lo: ln(self.lo).lo, hi: ln(self.hi).hi }
    }
}

/// ln 2 = HIGH + LOW, HIGH having 21 zero bits at its end.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

fn exp(x: f64) -> Interval {
    if !(x < 709.0) {
        return Interval { lo: if x.is_nan() { 0.0 } else { 8e307 }, hi: f64::INFINITY };
    }
    if x < -740.0 {
        // e^−740 < 1e-321
        return Interval { lo: 0.0, hi: 1e-321 };
    }
    let k = (x / std::f64::consts::LN_2).round();
    // |r| ≤ .3466 + rounding
    let r = exactly(x) - exactly(k) * exactly(LN2_HIGH) - exactly(k) * around(LN2_LOW);
    const TERMS: u32 = 18;
    let mut sum = exactly(1.0);
    for i in (1..TERMS).rev() {
        sum = exactly(1.0) + r * sum / exactly(f64::from(i));
    }
    // remainder: .35^18/18!·e^.35 < 2e-24
    sum = sum + Interval { lo: -2e-24, hi: 2e-24 };
    // 2^k in two factors, both normal numbers
    let half = (k / 2.0).trunc();
    let power = |k: f64| exactly(f64::from_bits(((1023 + k as i64) as u64) << 52));
    (sum * power(half) * power(k - half)).not_negative()
}

fn ln(x: f64) -> Interval {
    if !(x > f64::MIN_POSITIVE && x < f64::MAX) {
        let hi = if x <= f64::MIN_POSITIVE { -708.0 } else { f64::INFINITY };
        return Interval { lo: f64::NEG_INFINITY, hi };
    }
    let bits = x.to_bits();
    let (mut exponent, mut m) =
        (((bits >> 52) as i64 - 1023) as f64, f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52)));
    if m > std::f64::consts::SQRT_2 {
        (exponent, m) = (exponent + 1.0, 0.5 * m);
    }
    // ln m = 2·artanh(s), |s| < .1716
    let s = (exactly(m) - exactly(1.0)) / (exactly(m) + exactly(1.0));
    let sum = artanh_over((s * s).not_negative(), 14);
    exactly(exponent) * exactly(LN2_HIGH) + exactly(exponent) * around(LN2_LOW) + exactly(2.0) * s * sum
}

/// artanh(s)/s = Σ t^i/(2i + 1) for t = s² ≤ .03, by `terms` terms and an enclosure of all others.
fn artanh_over(t: Interval, terms: u32) -> Interval {
    // what follows the last term is t^terms·Σ t^i/(2·terms + 2i + 1), between 0 and t^terms/(2·terms + 1)/(1 − .03)
    let mut sum = Interval { lo: 0.0, hi: 1.04 / f64::from(2 * terms + 1) };
    for i in (0..terms).rev() {
        sum = exactly(1.0) / exactly(f64::from(2 * i + 1)) + t * sum;
    }
    sum
}

/// Beyond, series give way to the continued fraction.
const SERIES: f64 = 2.5;
/// 1/√(2π).
const INVERSE_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// Φ̄(z) = P(Z > z) of a standard normal.
pub(super) fn normal_tail(z: f64) -> Interval {
    if z == f64::INFINITY {
        return exactly(0.0);
    }
    if z == f64::NEG_INFINITY {
        return exactly(1.0);
    }
    if z < 0.0 {
        return exactly(1.0) - normal_tail(-z);
    }
    let x = exactly(z);
    let density = (exactly(-0.5) * x * x).exp() * around(INVERSE_SQRT_2PI);
    if z <= SERIES {
        // Φ − ½ = φ(z)·Σ z^(2k+1)/(2k+1)!!
        let square = x * x;
        let (mut term, mut sum, mut k) = (x, x, 1.0);
        while term.hi > 1e-20 {
            k += 2.0;
            term = term * square / exactly(k);
            sum = sum + term;
        }
        // later ratios are below z²/(k + 2) < ½ here: what is left is below the last term
        sum = sum + Interval { lo: 0.0, hi: term.hi };
        return (exactly(0.5) - density * sum).not_negative();
    }
    // Mills' ratio 1/(z + 1/(z + 2/(z + …))): all elements are positive, so convergents enclose it from both sides
    const DEPTH: u32 = 90;
    let convergent = |depth: u32| {
        let mut tail = x;
        for k in (1..=depth).rev() {
            tail = x + exactly(f64::from(k)) / tail;
        }
        exactly(1.0) / tail
    };
    let (a, b) = (convergent(DEPTH), convergent(DEPTH + 1));
    let ratio = Interval { lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) };
    (density * ratio).not_negative()
}

/// P(low < Z ≤ high) of a standard normal, from the smaller tails.
pub(super) fn normal_mass(low: f64, high: f64) -> Interval {
    let mass = if low >= 0.0 {
        normal_tail(low) - normal_tail(high)
    } else if high <= 0.0 {
        normal_tail(-high) - normal_tail(-low)
    } else {
        exactly(1.0) - normal_tail(high) - normal_tail(-low)
    };
    mass.not_negative()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (x, value to 20 digits): the enclosure holds the value and is narrow. A decimal is known to half a unit of its f64.
    #[test]
    #[allow(clippy::approx_constant, reason = "reference values, written out")]
    fn enclosures_hold_known_values() {
        let holds = |e: Interval, value: f64| {
            assert!(e.lo <= value.next_up() && value.next_down() <= e.hi, "{e:?} {value}");
            assert!(e.hi - e.lo <= 1e-12 * value.abs().max(1e-300), "{e:?} is wide");
        };
        for (x, value) in [
            (1.0, 2.718281828459045235360),
            (-1.0, 0.36787944117144232160),
            (10.0, 22026.465794806716517),
            (-300.0, 5.1482002224120137e-131),
            (700.0, 1.0142320547350045095e304),
            (1e-9, 1.0000000010000000005),
        ] {
            holds(exp(x), value);
        }
        for (x, value) in [
            (2.0, 0.69314718055994530942),
            (10.0, 2.3025850929940456840),
            (1e-6, -13.815510557964274104),
            (1e300, 690.77552789821370521),
            (0.7, -0.35667494393873237891),
        ] {
            holds(ln(x), value);
        }
        for (z, value) in [
            (0.5, 0.30853753872598689637),
            (1.0, 0.15865525393145705142),
            (2.0, 0.022750131948179207200),
            (3.0, 0.0013498980316300945267),
            (5.0, 2.8665157187919391167e-7),
            (10.0, 7.6198530241605260660e-24),
            (-1.0, 0.84134474606854294859),
        ] {
            holds(normal_tail(z), value);
        }
    }

    /// Against the functions of libm, which are good to a few units, at many points.
    #[test]
    fn enclosures_agree_with_libm_everywhere() {
        let near = |e: Interval, value: f64| {
            let room = 1e-14 * value.abs() + 1e-307;
            assert!(
                e.lo <= value + room && value - room <= e.hi && e.hi - e.lo <= 1e-11 * value.abs() + 1e-300,
                "{e:?} {value}"
            );
        };
        for i in -7000..7000 {
            let x = f64::from(i) * 0.1 + 0.0123;
            near(exp(x), x.exp());
            near(ln(x.abs()), x.abs().ln());
        }
        for i in -800..3700 {
            let z = f64::from(i) * 0.01 + 0.00123;
            near(normal_tail(z), 0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2));
        }
    }

    /// With few terms what is left out is far above rounding.
    #[test]
    fn the_rest_of_the_series_is_enclosed() {
        // artanh(.17)/.17
        let value = 1.009_803_902_944_582_9;
        for terms in 1..20 {
            let e = artanh_over(exactly(0.17) * exactly(0.17), terms);
            assert!(e.lo <= value && value <= e.hi, "{terms}: {e:?}");
            assert!(e.hi - e.lo <= 0.03f64.powi(terms as i32) + 1e-14, "{terms}: {e:?}");
        }
    }

    #[test]
    fn nonsense_knows_nothing() {
        let everything = exactly(0.0) * exactly(f64::INFINITY);
        assert!(everything.lo == f64::NEG_INFINITY && everything.hi == f64::INFINITY);
        assert!((exactly(1.0) / Interval { lo: -1.0, hi: 1.0 }).hi == f64::INFINITY);
    }
}
