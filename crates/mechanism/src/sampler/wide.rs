//! Numbers of twice working precision (head + tail): the state of a chain, whose own arithmetic must not show in its law.
//!
//! Sums and products err by less than 2^-101 relative to the larger operand (Dekker 1971, Knuth; the usual double-double
//! algorithms with error-free transformations).

/// head + tail with |tail| ≤ half a unit in the last place of head.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wide {
    head: f64,
    tail: f64,
}

/// a + b exactly, as rounded sum and error.
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// a·b exactly, as rounded product and error.
#[inline(always)]
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

impl From<f64> for Wide {
    fn from(head: f64) -> Self {
        Self { head, tail: 0.0 }
    }
}

impl From<(f64, f64)> for Wide {
    /// The sum of two numbers of which the second is smaller.
    fn from((a, b): (f64, f64)) -> Self {
        let (head, tail) = two_sum(a, b);
        Self { head, tail }
    }
}

impl Wide {
    /// The exact difference of two numbers.
    pub(crate) fn difference(a: f64, b: f64) -> Self {
        two_sum(a, -b).into()
    }

    pub(crate) fn plus(self, other: impl Into<Wide>) -> Self {
        let other = other.into();
        let (s, e) = two_sum(self.head, other.head);
        let (t, f) = two_sum(self.tail, other.tail);
        let (s, e) = two_sum(s, e + t);
        (s, e + f).into()
    }

    pub(crate) fn minus(self, other: impl Into<Wide>) -> Self {
        let other = other.into();
        self.plus(Wide { head: -other.head, tail: -other.tail })
    }

    pub(crate) fn times(self, other: impl Into<Wide>) -> Self {
        let other = other.into();
        let (p, e) = two_product(self.head, other.head);
        (p, e + (self.head * other.tail + self.tail * other.head)).into()
    }

    /// 1/self, for a positive number.
    pub(crate) fn inverse(self) -> Self {
        let guess = 1.0 / self.head;
        // one Newton step doubles the digits
        let rest = Wide::from(1.0).minus(self.times(guess));
        Wide::from(guess).plus(rest.times(guess))
    }

    /// √self, for a positive number.
    pub(crate) fn root(self) -> Self {
        let guess = self.head.sqrt();
        let rest = self.minus(Wide::from(guess).times(guess));
        Wide::from(guess).plus(0.5 * rest.rounded() / guess)
    }

    /// The nearest f64.
    pub(crate) fn rounded(self) -> f64 {
        self.head + self.tail
    }

    /// The nearest multiple of the power of two `step`, for |self| < 2^51·step: the borders of its cells are those of the
    /// exact number to 2^-53 of a cell. Rounding head + tail to an f64 first would move them by up to an eighth.
    pub(crate) fn on_grid(self, step: f64) -> f64 {
        let scaled = self.head / step;
        let near = scaled.round();
        let rest = (scaled - near) + self.tail / step;
        (near + rest.round()) * step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Against exact integers: dyadic numbers below 2^40 with 40 fraction bits.
    fn wide(quanta: i128) -> Wide {
        let head = quanta as f64;
        Wide::from((head * 2f64.powi(-40), (quanta - head as i128) as f64 * 2f64.powi(-40)))
    }

    fn quanta(w: Wide, scale: i32) -> i128 {
        let part = |x: f64| {
            let scaled = x * 2f64.powi(scale);
            assert!(scaled.fract() == 0.0, "finer than the test's unit");
            scaled as i128
        };
        part(w.head) + part(w.tail)
    }

    proptest! {
        #[test]
        fn sums_and_products_of_short_numbers_are_exact(a in -(1i128 << 60)..1i128 << 60, b in -(1i128 << 30)..1i128 << 30) {
            prop_assert_eq!(quanta(wide(a).plus(wide(b)), 40), a + b);
            prop_assert_eq!(quanta(wide(a).minus(wide(b)), 40), a - b);
            prop_assert_eq!(quanta(wide(a).times(wide(b)), 80), a * b);
        }

        #[test]
        fn inverses_and_roots_have_a_hundred_bits(x in 1e-6f64..1e6, low in -1.0f64..1.0) {
            let x = Wide::from((x, low * x * 2f64.powi(-54)));
            let one = x.times(x.inverse()).minus(1.0);
            prop_assert!(one.rounded().abs() < 2f64.powi(-98), "{:?}", one);
            let root = x.root();
            let rest = root.times(root).minus(x).rounded() / x.rounded();
            prop_assert!(rest.abs() < 2f64.powi(-98), "{}", rest);
        }
    }

    #[test]
    fn grid_points() {
        assert_eq!(Wide::from((0.3, 1e-20)).on_grid(0.25), 0.25);
        // half a cell and a little more or less, far below the last bit of the head
        let half = 3.0 + 2f64.powi(-41);
        assert_eq!(Wide::from((half, 2f64.powi(-90))).on_grid(2f64.powi(-40)), 3.0 + 2f64.powi(-40));
        assert_eq!(Wide::from((half, -2f64.powi(-90))).on_grid(2f64.powi(-40)), 3.0);
        assert_eq!(Wide::from((-half, 2f64.powi(-90))).on_grid(2f64.powi(-40)), -3.0);
        assert_eq!(Wide::difference(1.0, 2f64.powi(-70)).minus(1.0).rounded(), -2f64.powi(-70));
    }
}
