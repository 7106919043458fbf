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

    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        self.mantissa == 0
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

/// A catch-up of a state of one number that only adds: x + 2^k·g + c·ξ, as most are without decay. The same bits as
/// from the coefficients one by one, on a shorter way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Additive {
    /// Mantissa of c; 0 if the catch-up is not of this kind.
    mantissa: u128,
    /// Binary places of c beyond 128.
    shift: u32,
    /// The power k of two that scales the gradient.
    left: u32,
}

impl Additive {
    /// `None` unless the coefficients of state, gradient and noise allow it.
    pub(super) fn of(state: &Coefficient, gradient: &Coefficient, noise: &Coefficient) -> Option<Self> {
        let one = *state == Coefficient { mantissa: POWER_OF_TWO, shift: 127, negative: false };
        let power = gradient.mantissa == POWER_OF_TWO && gradient.shift < 128 && !gradient.negative;
        let small = noise.shift >= 128 && noise.mantissa != 0 && !noise.negative;
        (one && power && small).then(|| Self {
            mantissa: noise.mantissa,
            shift: noise.shift - 128,
            left: 127 - gradient.shift,
        })
    }

    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.mantissa != 0
    }

    /// The state after the catch-up; ξ by its sign and size.
    #[inline]
    pub(super) fn apply(&self, state: i128, gradient: i64, (negative, size): (bool, u128)) -> i128 {
        let noise = (wide(size, self.mantissa).0 >> self.shift) as i128;
        let sign = -i128::from(negative);
        state.wrapping_add(i128::from(gradient) << self.left).wrapping_add((noise ^ sign).wrapping_sub(sign))
    }
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
        fn additive_catch_ups_are_what_their_coefficients_do(
            state: i64, gradient: i32, xi in -(1i128 << 116)..1i128 << 116, limbs in prop::array::uniform2(any::<u64>()), left in 0i32..60
        ) {
            let one = Coefficient::new(&Fixed::<4>::integer(1), 1, 0).unwrap();
            let by = Coefficient::new(&Fixed::<4>::integer(1), 1, left).unwrap();
            let noise = Coefficient::new(&Fixed::<4>([0, limbs[0], limbs[1] | 1, 1]), 1, -9).unwrap();
            let state = i128::from(state) << 40;
            let expected = one.times(state) + by.times(i128::from(gradient)) + noise.times(xi);
            let additive = Additive::of(&one, &by, &noise).unwrap();
            prop_assert!(additive.is_some());
            prop_assert_eq!(additive.apply(state, i64::from(gradient), (xi < 0, xi.unsigned_abs())), expected);
            // with decay, scheduled rates or noise coefficients of other forms there is no short way
            prop_assert!(Additive::of(&noise, &by, &noise).is_none());
            prop_assert!(Additive::of(&one, &noise, &noise).is_none());
            prop_assert!(Additive::of(&one, &by, &one).is_none());
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
