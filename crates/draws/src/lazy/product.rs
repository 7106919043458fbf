//! Products of a fixed-point state with public coefficients, to one unit of the state: 128 × 128 bits, rounded toward zero.

use dpopt_noise::parts::Fixed;

/// A public real coefficient ±mantissa·2^-shift. The mantissa has 127 or 128 significant bits and is rounded toward zero, so the
/// relative error is below 2^-126.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Coefficient {
    mantissa: u128,
    /// The shift, at most 255: with a larger one the coefficient is 0 after rounding for every state.
    shift: u32,
    negative: bool,
}

/// Mantissa of 2^(127 − shift).
const POWER_OF_TWO: u128 = 1 << 127;

/// A coefficient so large that a product with the state would leave 128 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TooLarge;

impl Coefficient {
    const ONE: Self = Self { mantissa: POWER_OF_TWO, shift: 127, negative: false };

    /// The least e ≥ −127 with a size below 2^e.
    fn magnitude(&self) -> i32 {
        (128 - self.mantissa.leading_zeros() as i32 - self.shift as i32).max(-127)
    }

    /// Its size at `places` binary places, cut; `None` if that takes more than 128 bits.
    fn at(&self, places: u32) -> Option<u128> {
        match places.checked_sub(self.shift) {
            Some(left) if self.mantissa.leading_zeros() >= left => Some(self.mantissa.checked_shl(left).unwrap_or(0)),
            Some(_) => None,
            None => Some(self.mantissa.checked_shr(self.shift - places).unwrap_or(0)),
        }
    }

    /// The coefficient `value`·`factor`·2^`exponent`.
    pub(super) fn new<const L: usize>(value: &Fixed<L>, factor: u64, exponent: i32) -> Result<Self, TooLarge> {
        let Some((mantissa, value_exponent)) = significand(value) else {
            return Ok(Self::default());
        };
        // 128 + 64 bits, of which the upper 128 stay
        let (high, low) = wide(mantissa, u128::from(factor));
        if high == 0 && low == 0 {
            return Ok(Self::default());
        }
        let zeros = if high == 0 { 128 + low.leading_zeros() } else { high.leading_zeros() };
        let kept = match zeros {
            0 => high,
            1..128 => high << zeros | low >> (128 - zeros),
            _ => low << (zeros - 128),
        };
        // value = kept·2^(128 − zeros + value_exponent + exponent)
        let shift = zeros as i32 - 128 - value_exponent - exponent;
        match shift {
            256.. => Ok(Self::default()),
            0..256 => Ok(Self { mantissa: kept, shift: shift as u32, negative: false }),
            _ => Err(TooLarge),
        }
    }

    pub(super) fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// x times the coefficient, toward zero, modulo 2^128: less than two units off while |product| < 2^126.
    #[inline]
    pub(super) fn times(&self, x: i128) -> i128 {
        let size = x.unsigned_abs();
        let size = match (self.mantissa, self.shift) {
            // the coefficients without decay: 1, and units of the gradient
            (POWER_OF_TWO, shift @ 0..128) => size << (127 - shift),
            (POWER_OF_TWO, shift) => size.checked_shr(shift - 127).unwrap_or(0),
            (mantissa, shift) => {
                let (high, low) = wide(size, mantissa);
                match shift {
                    0 => low,
                    1..128 => high << (128 - shift) | low >> shift,
                    _ => high >> (shift - 128),
                }
            }
        } as i128;
        if (x < 0) != self.negative { size.wrapping_neg() } else { size }
    }
}

/// Binary places of the noise's coefficients in [`upper`]'s factors: what normal variables of less than 117 bits leave free.
const NOISE_PLACES: u32 = 119;
/// Left shift of a normal variable that goes with it.
const NOISE_UP: u32 = 128 - NOISE_PLACES;
/// Momentum is at most its share 1/(1 − β) ≤ 10^4 below what the state has room for, so a shift of so much loses nothing.
const MAX_UP: u32 = 15;

/// Coefficients of a catch-up as integers at fixed binary places, so that a product is the upper half of 256 bits, without a branch or a
/// shift of its own: at most two units and a half off (docs/proofs/lazy-noise.md).
#[derive(Clone, Copy, Debug)]
pub(super) struct Quick<const P: usize> {
    /// By component j of the state: what a unit of it adds to each component, at 127 − up places; 0 for a component that stays as it is.
    map: [[u128; P]; P],
    up: [u32; P],
    stays: [bool; P],
    /// What a unit of the gradient adds to each component, at 64 − `drift_up` places.
    drift: [u128; P],
    drift_up: u32,
    /// By normal variable: what it adds to each component, at [`NOISE_PLACES`].
    noise: [[u128; P]; P],
    /// All ones where that is subtracted.
    flipped: [[u64; P]; P],
    draws: usize,
}

impl<const P: usize> Quick<P> {
    /// `None` if a coefficient does not fit its places, or gradients up to `max_gradient` do not.
    pub(super) fn of(
        map: &[[Coefficient; P]; P],
        drift: &[Coefficient; P],
        noise: &[[Coefficient; P]],
        max_gradient: i64,
    ) -> Option<Self> {
        let mut quick = Self {
            map: [[0; P]; P],
            up: [0; P],
            stays: [false; P],
            drift: [0; P],
            drift_up: 0,
            noise: [[0; P]; P],
            flipped: [[0; P]; P],
            draws: noise.len(),
        };
        if noise.len() > P {
            return None;
        }
        let places = |c: &Coefficient, places: u32| if c.negative { None } else { c.at(places) };
        for j in 0..P {
            quick.stays[j] = map[j][j] == Coefficient::ONE;
            let moved = |i: usize| if i == j && quick.stays[j] { Coefficient::default() } else { map[i][j] };
            quick.up[j] = (0..P).map(|i| moved(i).magnitude()).max().unwrap_or(0).max(0) as u32;
            // a product's range depends on it: the iterate has no bit to spare
            if quick.up[j] > if j == 0 { 0 } else { MAX_UP } {
                return None;
            }
            for i in 0..P {
                quick.map[j][i] = places(&moved(i), 127 - quick.up[j])?;
            }
        }
        let largest = drift.iter().map(Coefficient::magnitude).max().unwrap_or(0);
        quick.drift_up = (largest - 64).max(0) as u32;
        if quick.drift_up > 61 || max_gradient >= 1 << (62 - quick.drift_up) {
            return None;
        }
        for (slot, c) in quick.drift.iter_mut().zip(drift) {
            *slot = places(c, 64 - quick.drift_up)?;
        }
        for (k, column) in noise.iter().enumerate() {
            for (i, c) in column.iter().enumerate() {
                quick.noise[k][i] = c.at(NOISE_PLACES).filter(|c| c >> 127 == 0)?;
                quick.flipped[k][i] = mask(c.negative);
                // columns of a triangular factor have their root first
                if c.negative && i <= k {
                    return None;
                }
            }
        }
        Some(quick)
    }

    /// Brings a state up to date; a normal variable by its sign and size. Component by component from registers: a state that was put together in
    /// memory and copied would be waited for.
    #[allow(clippy::manual_memcpy, reason = "a copy of the whole goes by memory")]
    #[inline(always)]
    pub(super) fn apply(&self, state: &mut [i128; P], gradient: i64, mut normal: impl FnMut() -> (bool, u128)) {
        let sign = mask(gradient < 0);
        let size = gradient.unsigned_abs() << self.drift_up;
        let mut next = self.drift.map(|c| signed(upper_of_short(size, c), sign));
        for j in 0..P {
            if self.stays[j] {
                next[j] = next[j].wrapping_add(state[j]);
            }
            let sign = mask(state[j] < 0);
            let size = state[j].unsigned_abs() << (self.up[j] + 1);
            for i in 0..P {
                // which are 0 is the same for nearly all gaps
                if self.map[j][i] != 0 {
                    next[i] = next[i].wrapping_add(signed(upper(size, self.map[j][i]), sign));
                }
            }
        }
        for k in 0..P {
            if k < self.draws {
                let (negative, size) = normal();
                let (sign, size) = (mask(negative), size << NOISE_UP);
                for i in 0..P {
                    if self.noise[k][i] != 0 {
                        let sign = if i > k { sign ^ self.flipped[k][i] } else { sign };
                        next[i] = next[i].wrapping_add(signed(upper(size, self.noise[k][i]), sign));
                    }
                }
            }
        }
        for i in 0..P {
            state[i] = next[i];
        }
    }
}

/// All ones for what is negative.
#[inline(always)]
fn mask(negative: bool) -> u64 {
    u64::from(negative).wrapping_neg()
}

/// A product with its sign. A negative one is a unit lower, which makes up for half of what its size was rounded down by.
#[inline(always)]
fn signed(size: u128, mask: u64) -> i128 {
    size as i128 ^ i128::from(mask as i64)
}

/// x·c/2^128 for numbers below 2^127, less than two below it: the product of the lower halves is left out, and the rest is rounded down.
#[inline(always)]
fn upper(x: u128, c: u128) -> u128 {
    let digit = |a: u128, b: u128| u128::from(a as u64) * u128::from(b as u64);
    let middle = digit(x >> 64, c).wrapping_add(digit(x, c >> 64));
    digit(x >> 64, c >> 64).wrapping_add(middle >> 64)
}

/// x·c/2^64 for x < 2^63, rounded down.
#[inline(always)]
fn upper_of_short(x: u64, c: u128) -> u128 {
    let digit = |b: u128| u128::from(x) * u128::from(b as u64);
    digit(c >> 64).wrapping_add(digit(c) >> 64)
}

/// The leading 128 bits m of a positive number and e with number ≈ m·2^e; `None` for 0.
fn significand<const L: usize>(value: &Fixed<L>) -> Option<(u128, i32)> {
    let top = value.0.iter().rposition(|&limb| limb != 0)?;
    let limb = |back: usize| if top >= back { value.0[top - back] } else { 0 };
    let zeros = limb(0).leading_zeros();
    let two = u128::from(limb(0)) << 64 | u128::from(limb(1));
    let mantissa = if zeros == 0 { two } else { two << zeros | u128::from(limb(2)) >> (64 - zeros) };
    // the lowest bit of `two` counts 2^(64·(top − 1) − BITS)
    Some((mantissa, 64 * (top as i32 - 1) - Fixed::<L>::BITS as i32 - zeros as i32))
}

/// The 256-bit product, upper and lower half.
#[inline]
fn wide(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let bottom = a0 * b0;
    let middle = a1 * b0 + (bottom >> 64); // no overflow: (2^64 − 1)² + 2^64 − 1 < 2^128
    let cross = a0 * b1 + (middle & LOW);
    (a1 * b1 + (middle >> 64) + (cross >> 64), cross << 64 | bottom & LOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn coefficients_hold_their_value() {
        let third = Fixed::<6>::integer(1).over_integer(3);
        for (value, factor, exponent, x, expected) in [
            (Fixed::<6>::integer(1), 1, 0, 12345i128 << 70, 12345i128 << 70),
            (Fixed::integer(5), 3, -1, 1 << 40, 15 << 39),
            (third, 3, 0, 1 << 100, (1 << 100) - 1),
            (Fixed::integer(1), 1, 100, 1 << 20, 1 << 120),
            (Fixed::negative_power_of_two(300), 1, 0, 1 << 100, 0),
            (Fixed::ZERO, 7, 0, 5, 0),
            (Fixed::integer(1), 1, -40, 5 << 40 | 7, 5),
            (Fixed::integer(1), 1, -127, i128::MAX, 0),
            (Fixed::integer(1), 1, -128, i128::MAX, 0),
        ] {
            let c = Coefficient::new(&value, factor, exponent).unwrap();
            assert_eq!(c.times(x), expected);
            assert_eq!(c.times(-x), -expected);
            assert_eq!(c.negated().times(x), -expected);
        }
        assert_eq!(Coefficient::new(&Fixed::<6>::integer(1), 1, 200), Err(TooLarge));
    }

    proptest! {
        #[test]
        fn upper_halves_are_at_most_one_below_those_rounded_down(x: u128, short: u64, c: u128) {
            for x in [x >> 1, x >> 65, (1 << 127) - 1] {
                for c in [c >> 1, c >> 65, (1 << 127) - 1] {
                    let (down, seen) = (wide(x, c).0, upper(x, c));
                    prop_assert!(down - seen <= 1, "{x} {c}: {down} {seen}");
                }
            }
            prop_assert_eq!(upper_of_short(short >> 1, c), wide(u128::from(short >> 1) << 64, c).0);
            let size = x >> 1;
            prop_assert_eq!((signed(size, mask(false)), signed(size, mask(true))), (size as i128, -(size as i128) - 1));
        }

        #[test]
        fn products_are_exact_to_two_units(x: i64, limbs in prop::array::uniform3(any::<u64>()), up in 0u32..60) {
            // x·2^up times a coefficient in [0, 2) by exact wide arithmetic
            let value = Fixed::<4>([limbs[0], limbs[1], limbs[2], 1]);
            let c = Coefficient::new(&value, 1, 0).unwrap();
            let state = i128::from(x) << up;
            let (high, low) = wide(state.unsigned_abs(), u128::from(limbs[2]) << 64 | u128::from(limbs[1]));
            let exact = state.unsigned_abs() + high + (low >> 127);
            let seen = c.times(state).unsigned_abs();
            prop_assert!(seen.abs_diff(exact) <= 2);
            prop_assert_eq!(c.times(state) < 0, x < 0 && seen > 0);
        }
    }
}
