//! Fixed-point numbers with directed rounding, and one function: the logarithm with a proved error.
//!
//! `Fixed<L>` is a non-negative number with one 64-bit limb before and L−1 limbs after the binary point. Operations say
//! which way they round. Everything that a sampler decides off its fast path is decided with these numbers; no decision
//! rests on a floating-point library.
use std::cmp::Ordering;
use std::sync::OnceLock;

/// A number in [0, 2^64) with 64·(L−1) fraction bits; limbs in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed<const L: usize>(pub [u64; L]);

/// Real numbers between `low` and `high`, both included.
#[derive(Clone, Copy, Debug)]
pub struct Interval<const L: usize> {
    /// The smallest number of the interval.
    pub low: Fixed<L>,
    /// The largest number of the interval.
    pub high: Fixed<L>,
}

impl<const L: usize> PartialOrd for Fixed<L> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const L: usize> Ord for Fixed<L> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl<const L: usize> Fixed<L> {
    /// The number 0.
    pub const ZERO: Self = Self([0; L]);
    pub(crate) const MAX: Self = Self([u64::MAX; L]);
    /// Number of fraction bits.
    pub const BITS: usize = 64 * (L - 1);

    /// An integer, exactly.
    pub fn integer(value: u64) -> Self {
        let mut limbs = [0; L];
        limbs[L - 1] = value;
        Self(limbs)
    }

    /// The number `units`·2^-BITS.
    pub(crate) fn ulps(units: u64) -> Self {
        let mut limbs = [0; L];
        limbs[0] = units;
        Self(limbs)
    }

    /// 2^-`exponent`; 0 if that is below the resolution.
    pub fn negative_power_of_two(exponent: usize) -> Self {
        let mut limbs = [0; L];
        if exponent <= Self::BITS {
            let bit = Self::BITS - exponent;
            limbs[bit / 64] = 1 << (bit % 64);
        }
        Self(limbs)
    }

    /// This number with `M` limbs: rounded down where they are fewer, exact where they are more.
    pub(crate) fn resized<const M: usize>(&self) -> Fixed<M> {
        let mut limbs = [0; M];
        let common = L.min(M);
        limbs[M - common..].copy_from_slice(&self.0[L - common..]);
        Fixed(limbs)
    }

    /// Sum, or the largest number if it overflows (an upper bound stays finite; a lower bound never gets near).
    pub fn plus(&self, other: &Self) -> Self {
        let mut out = [0; L];
        let mut carry = false;
        for i in 0..L {
            let (a, c1) = self.0[i].overflowing_add(other.0[i]);
            let (b, c2) = a.overflowing_add(u64::from(carry));
            out[i] = b;
            carry = c1 | c2;
        }
        if carry { Self::MAX } else { Self(out) }
    }

    /// Difference, or 0 if negative.
    pub fn minus(&self, other: &Self) -> Self {
        let mut out = [0; L];
        let mut borrow = false;
        for i in 0..L {
            let (a, b1) = self.0[i].overflowing_sub(other.0[i]);
            let (b, b2) = a.overflowing_sub(u64::from(borrow));
            out[i] = b;
            borrow = b1 | b2;
        }
        if borrow { Self::ZERO } else { Self(out) }
    }

    /// Product rounded down; `MAX` if it overflows.
    pub fn times_down(&self, other: &Self) -> Self {
        // 2L limbs; L ≤ 7
        let mut wide = [0u64; 16];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0u128;
            for (j, &b) in other.0.iter().enumerate() {
                let t = u128::from(a) * u128::from(b) + u128::from(wide[i + j]) + carry;
                wide[i + j] = t as u64;
                carry = t >> 64;
            }
            wide[i + L] = carry as u64;
        }
        if wide[2 * L - 1] != 0 {
            return Self::MAX;
        }
        let mut out = [0; L];
        out.copy_from_slice(&wide[L - 1..2 * L - 1]);
        Self(out)
    }

    /// The product, rounded up.
    pub fn times_up(&self, other: &Self) -> Self {
        self.times_down(other).plus(&Self::ulps(1))
    }

    /// Product with an integer, exactly; `MAX` if it overflows.
    pub fn times_integer(&self, factor: u64) -> Self {
        let mut out = [0; L];
        let mut carry = 0u128;
        for i in 0..L {
            let t = u128::from(self.0[i]) * u128::from(factor) + carry;
            out[i] = t as u64;
            carry = t >> 64;
        }
        if carry != 0 { Self::MAX } else { Self(out) }
    }

    /// Quotient by a positive integer, rounded down.
    pub fn over_integer(&self, divisor: u64) -> Self {
        let mut out = [0; L];
        let mut rest = 0u128;
        for i in (0..L).rev() {
            let t = rest << 64 | u128::from(self.0[i]);
            out[i] = (t / u128::from(divisor)) as u64;
            rest = t % u128::from(divisor);
        }
        Self(out)
    }

    /// Half of the number, rounded down.
    pub fn half(&self) -> Self {
        self.shifted_right(1)
    }

    /// Divided by 2^`bits`, rounded down; `bits` < 64.
    pub(crate) fn shifted_right(&self, bits: u32) -> Self {
        if bits == 0 {
            return *self;
        }
        let mut out = [0; L];
        for i in 0..L {
            let above = if i + 1 < L { self.0[i + 1] } else { 0 };
            out[i] = self.0[i] >> bits | above << (64 - bits);
        }
        Self(out)
    }

    /// Times 2^`bits`, dropping what overflows.
    pub fn shifted_left(&self, bits: usize) -> Self {
        let (limbs, bits) = (bits / 64, bits % 64);
        let mut out = [0; L];
        for i in limbs..L {
            let low = if bits > 0 && i > limbs { self.0[i - limbs - 1] >> (64 - bits) } else { 0 };
            out[i] = self.0[i - limbs] << bits | low;
        }
        Self(out)
    }

    /// Divided by 2^`bits`, rounded down.
    pub fn shifted_right_far(&self, bits: usize) -> Self {
        let limbs = (bits / 64).min(L);
        let mut out = [0; L];
        out[..L - limbs].copy_from_slice(&self.0[limbs..]);
        Self(out).shifted_right((bits % 64) as u32)
    }

    /// Number of zero bits before the first one, the integer limb's included.
    pub fn leading_zeros(&self) -> usize {
        let mut zeros = 0;
        for limb in self.0.iter().rev() {
            zeros += limb.leading_zeros() as usize;
            if *limb != 0 {
                break;
            }
        }
        zeros
    }

    /// Number of zero bits after the binary point before the first one; for a number in (0, 1).
    pub(crate) fn leading_fraction_zeros(&self) -> usize {
        let mut zeros = 0;
        for i in (0..L - 1).rev() {
            zeros += self.0[i].leading_zeros() as usize;
            if self.0[i] != 0 {
                break;
            }
        }
        zeros
    }

    /// floor(self·`mantissa`·2^`exponent` + ½), for results below 2^64 and `exponent` < BITS.
    pub(crate) fn scaled_and_rounded(&self, mantissa: u64, exponent: i32) -> u64 {
        let mut wide = [0u64; 9];
        let mut carry = 0u128;
        for i in 0..L {
            let t = u128::from(self.0[i]) * u128::from(mantissa) + carry;
            wide[i] = t as u64;
            carry = t >> 64;
        }
        wide[L] = carry as u64;
        let shift = (Self::BITS as i32 - exponent) as usize;
        let mut i = (shift - 1) / 64;
        let (sum, mut over) = wide[i].overflowing_add(1 << ((shift - 1) % 64));
        wide[i] = sum;
        while over {
            i += 1;
            (wide[i], over) = wide[i].overflowing_add(1);
        }
        let (limb, bits) = (shift / 64, shift % 64);
        let low = wide[limb] >> bits;
        if bits == 0 { low } else { low | wide[limb + 1] << (64 - bits) }
    }

    /// Nearest-below f64, for display and for first guesses only.
    pub fn to_f64(self) -> f64 {
        self.0.iter().rev().enumerate().map(|(i, &limb)| limb as f64 * 2f64.powi(-64 * i as i32)).sum()
    }
}

impl<const L: usize> Interval<L> {
    /// One number, as an interval.
    pub fn point(value: Fixed<L>) -> Self {
        Self { low: value, high: value }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self { low: self.low.plus(&other.low), high: self.high.plus(&other.high) }
    }

    /// self − other, for a difference known not to be negative.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        Self { low: self.low.minus(&other.high), high: self.high.minus(&other.low) }
    }

    /// An interval that holds the product.
    pub fn times(&self, other: &Self) -> Self {
        Self { low: self.low.times_down(&other.low), high: self.high.times_up(&other.high) }
    }

    /// The distance |self − other|.
    pub fn distance(&self, other: &Self) -> Self {
        let (a, b) = (self.minus(other), other.minus(self));
        Self { low: a.low.max(b.low), high: a.high.max(b.high) }
    }

    /// Half of the interval, rounded outward.
    pub fn half(&self) -> Self {
        Self { low: self.low.half(), high: self.high.half().plus(&Fixed::ulps(1)) }
    }

    /// `Some(self < other)` if all members agree.
    pub fn less_than(&self, other: &Self) -> Option<bool> {
        if self.high < other.low {
            Some(true)
        } else if self.low >= other.high {
            Some(false)
        } else {
            None
        }
    }

    /// floor(x·`mantissa`·2^`exponent` + ½) if it is the same for all members.
    pub(crate) fn rounded(&self, mantissa: u64, exponent: i32) -> Option<u64> {
        let low = self.low.scaled_and_rounded(mantissa, exponent);
        (low == self.high.scaled_and_rounded(mantissa, exponent)).then_some(low)
    }
}

/// Precision of the tables: 384 fraction bits.
const TABLE: usize = 7;

struct LogTables {
    /// ln 2, at most 2^-360 too small.
    ln2: Fixed<TABLE>,
    /// a_j = ceil(2^18/(256+j)) and ln(1024/a_j), at most 2^-360 too small, for j = 0..=255.
    reductions: Vec<(u64, Fixed<TABLE>)>,
    /// 1/k, rounded down; entry 0 is unused.
    reciprocals: Vec<Fixed<TABLE>>,
}

/// Built once, in about a millisecond, from the series ln((k+1)/k) = 2·Σ z^(2i+1)/(2i+1), z = 1/(2k+1).
fn tables() -> &'static LogTables {
    static TABLES: OnceLock<LogTables> = OnceLock::new();
    TABLES.get_or_init(|| {
        // from_1024[k - 512] = ln(1024/k). Each term below is at most 2 units of 2^-384 too small and at most 200 terms
        // (z ≤ 1/1025: 20 bits per term) times 512 steps are added: below 2^18 units in all.
        let mut from_1024 = vec![Fixed::<TABLE>::ZERO; 513];
        for k in (512..1024u64).rev() {
            let odd = 2 * k + 1;
            let mut power = Fixed::<TABLE>::integer(2).over_integer(odd);
            let mut sum = power;
            for i in 1.. {
                power = power.over_integer(odd).over_integer(odd);
                if power == Fixed::ZERO {
                    break;
                }
                sum = sum.plus(&power.over_integer(2 * i + 1));
            }
            from_1024[(k - 512) as usize] = from_1024[(k - 511) as usize].plus(&sum);
        }
        let reductions = (0..256u64)
            .map(|j| {
                let a = (1u64 << 18).div_ceil(256 + j);
                (a, from_1024[(a - 512) as usize])
            })
            .collect();
        let one = Fixed::<TABLE>::integer(1);
        let reciprocals = (0..64).map(|k| one.over_integer(u64::max(k, 1))).collect();
        LogTables { ln2: from_1024[0], reductions, reciprocals }
    })
}

/// −ln u for u in (0, 1), to within 16 units of the last place (L ≤ 6).
///
/// u = m·2^-n with m in [1, 2); m·a/1024 = 1 + t with 0 ≤ t < 0.005; then −ln u = n·ln 2 − ln(1024/a) − ln(1 + t).
/// Units lost: t is cut (1); Horner's rule loses 2 + t·(the rest) < 2.1 per step and only the last step counts, times t;
/// its product is cut (1); the omitted terms are below 0.005^(BITS/7+1) < 2^-BITS (1); the two table values are cut (1
/// each) and the tables themselves err by less than 2^-350. Together less than 16.
pub(crate) fn minus_ln<const L: usize>(u: &Fixed<L>) -> Interval<L> {
    debug_assert!(L <= 6 && u.0[L - 1] == 0 && *u != Fixed::ZERO);
    let tables = tables();
    let n = u.leading_fraction_zeros() + 1;
    let m = u.shifted_left(n);
    let (a, ln_table) = &tables.reductions[(m.0[L - 2] >> 56) as usize];
    let t = m.times_integer(*a).shifted_right(10).minus(&Fixed::integer(1));
    let terms = Fixed::<L>::BITS / 7 + 1;
    let mut series = tables.reciprocals[terms].resized::<L>();
    for k in (1..terms).rev() {
        series = tables.reciprocals[k].resized::<L>().minus(&t.times_down(&series));
    }
    let ln_m = t.times_down(&series).plus(&ln_table.resized());
    let value = tables.ln2.times_integer(n as u64).resized::<L>().minus(&ln_m);
    Interval { low: value.minus(&Fixed::ulps(16)), high: value.plus(&Fixed::ulps(16)) }
}

/// ln x for x in [1, 2^63), as −ln(x·2^-k) subtracted from k·ln 2, to within 20 units of the last place.
pub(crate) fn ln<const L: usize>(x: &Fixed<L>) -> Interval<L> {
    let bits = 64 - x.0[L - 1].leading_zeros();
    // x/2^bits is below 1; the bits that fall out change the logarithm by less than one unit: widen by 4
    let scaled = x.shifted_right(bits);
    let negative = minus_ln(&scaled);
    let ln2 = tables().ln2.times_integer(u64::from(bits)).resized::<L>();
    let value = Interval { low: ln2, high: ln2.plus(&Fixed::ulps(1)) }.minus(&negative);
    // x itself was cut by less than 2^(bits - BITS), relative to x ≥ 2^(bits-1): 2 units
    Interval { low: value.low.minus(&Fixed::ulps(2)), high: value.high.plus(&Fixed::ulps(2)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decimal fraction "0.ddd…" or "1.ddd…" as a fixed-point number, rounded down.
    fn decimal<const L: usize>(text: &str) -> Fixed<L> {
        let (whole, digits) = text.split_once('.').unwrap();
        let mut value = Fixed::<L>::ZERO;
        for digit in digits.bytes().rev() {
            value = value.plus(&Fixed::integer(u64::from(digit - b'0'))).over_integer(10);
        }
        value.plus(&Fixed::integer(whole.parse().unwrap()))
    }

    fn assert_encloses<const L: usize>(interval: Interval<L>, text: &str) {
        // the conversion loses a unit per digit, and the argument 1/1000, cut to a unit, is off by 1000 units relatively
        let value = decimal::<L>(text);
        let slack = Fixed::<L>::ulps(2000);
        assert!(interval.low <= value.plus(&slack) && value <= interval.high.plus(&slack), "{text}: {interval:?}");
        assert!(interval.high.minus(&interval.low) <= Fixed::ulps(48));
    }

    #[test]
    fn logarithms_to_100_digits() {
        // mpmath at 120 digits
        let half = Fixed::<6>::negative_power_of_two(1);
        let ln2 =
            "0.6931471805599453094172321214581765680755001343602552541206800094933936219696947156058633269964186875";
        assert_encloses(minus_ln(&half), ln2);
        assert_encloses(minus_ln(&half.resized::<4>()), ln2);
        let third = Fixed::<6>::integer(1).over_integer(3);
        let ln3 =
            "1.0986122886681096913952452369225257046474905578227494517346943336374942932186089668736157548137320887";
        assert_encloses(minus_ln(&third), ln3);
        assert_encloses(ln(&Fixed::<6>::integer(3)), ln3);
        assert_encloses(ln(&Fixed::<4>::integer(3)), ln3);
        let thousandth = Fixed::<6>::integer(1).over_integer(1000);
        let ln1000 =
            "6.9077552789821370520539743640530926228033044658863189280999837029027178290320574407079916152687948950";
        assert_encloses(minus_ln(&thousandth), ln1000);
        assert_encloses(ln(&Fixed::<6>::integer(1000)), ln1000);
    }

    #[test]
    fn logarithms_agree_with_f64_everywhere() {
        let mut stream = crate::NoiseSource::insecure(1).stream(crate::Purpose::Audit, 0);
        for i in 0..2000u32 {
            let mut u = Fixed::<4>([stream.word(), stream.word(), stream.word() >> (i % 64), 0]);
            if i % 50 == 0 {
                u.0[2] = 0; // very small
            }
            let (short, long) = (minus_ln(&u), minus_ln(&u.resized::<6>()));
            assert!(short.low <= long.high.resized().plus(&Fixed::ulps(1)) && long.low.resized() <= short.high);
            let expected = -(u.to_f64().ln());
            assert!((short.low.to_f64() - expected).abs() <= 1e-15 * expected.max(1.0), "{u:?}");
        }
    }

    #[test]
    fn arithmetic_rounds_as_it_says() {
        let third = Fixed::<4>::integer(1).over_integer(3);
        assert!(third.times_integer(3) < Fixed::integer(1));
        let ninth = third.times_down(&third);
        assert!(ninth.times_integer(9) < Fixed::integer(1) && third.times_up(&third) > ninth);
        assert_eq!(Fixed::<4>::MAX.plus(&Fixed::ulps(1)), Fixed::MAX);
        assert_eq!(Fixed::<4>::ulps(1).minus(&Fixed::ulps(2)), Fixed::ZERO);
        assert_eq!(Fixed::<4>::MAX.times_down(&Fixed::MAX), Fixed::MAX);
        // 2.5·(3·2^-1) + ½ = 4.25
        let x = Fixed::<4>::integer(5).half();
        assert_eq!(x.scaled_and_rounded(3, -1), 4);
        assert_eq!(Fixed::<4>::integer(1).half().scaled_and_rounded(1, 0), 1, "ties go up");
        assert_eq!(Fixed::<4>::integer(3).scaled_and_rounded(1, 57), 3 << 57);
        assert_eq!(Fixed::<4>::integer(7).scaled_and_rounded(1, -3), 1); // 0.875
    }
}
