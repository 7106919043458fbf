//! Products of two columns: what their values do together and not each alone.
//!
//! A number is two hats of a coarse grid, a category its level; a product has one feature for each pair of them, at most four of
//! which are not zero. A record of which one of both is missing has none.

use super::numeric::hats;

/// Where a column's value lies, for products with other columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Factor {
    /// Missing, or of a column that takes no part in products.
    Absent,
    /// The slot of a level.
    Level(u32),
    /// The first of two neighbouring hats and the values of both: of norm 1.
    Number(u32, [f64; 2]),
}

impl Factor {
    /// The two hats of a position in [0, 1].
    pub(super) fn number(unit: f64, knots: u32) -> Self {
        let (i, left, right) = hats(unit, knots);
        let norm = left.hypot(right);
        Self::Number(i, [left / norm, right / norm])
    }

    fn parts(&self) -> ([(u32, f64); 2], usize) {
        match *self {
            Self::Absent => ([(0, 0.0); 2], 0),
            Self::Level(slot) => ([(slot, 1.0), (0, 0.0)], 1),
            Self::Number(first, [left, right]) => ([(first, left), (first + 1, right)], 2),
        }
    }
}

/// The features of two columns' product, `first` and `second` among the encoder's columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairBlock {
    pub(super) offset: u32,
    pub(super) first: usize,
    pub(super) second: usize,
    /// Features of either column in the product.
    pub(super) widths: (u32, u32),
}

impl PairBlock {
    /// Number of features.
    pub(super) fn width(&self) -> u64 {
        u64::from(self.widths.0) * u64::from(self.widths.1)
    }

    /// Appends the products, of norm `each` if both values are there.
    #[inline]
    pub(super) fn push(&self, factors: &[Factor], each: f64, entries: &mut Vec<(u32, f32)>) {
        let (left, lefts) = factors[self.first].parts();
        let (right, rights) = factors[self.second].parts();
        for &(i, a) in &left[..lefts] {
            for &(j, b) in &right[..rights] {
                let weight = a * b;
                if weight != 0.0 {
                    entries.push((self.offset + i * self.widths.1 + j, (weight * each) as f32));
                }
            }
        }
    }
}
