//! Products of two columns: what their values do together and not each alone.
//!
//! A number is two linear B-splines of a coarse grid, a category its level; a product has one feature for each pair of them, at most four of
//! which are not zero. A record of which one of both is missing has none.

use super::numeric::splines;

/// Strengths of noise alone: the weakest of so many pairs, times this.
const WEAKEST: f64 = 0.15;
const ABOVE_THE_WEAKEST: f64 = 1.5;
/// What a pair gets for nothing, against the mean strength; and the least weight, against the largest, with which a pair is kept.
const FOR_NOTHING: f64 = 0.1;
const LEAST_KEPT: f64 = 0.02;

/// Weights of pairs whose released effects have these variances, 0 for those that are left out; none if all look like noise.
///
/// Weaker pairs say how strong noise is. A little is left to the others too: hard choices lost wherever many pairs matter (docs/decisions/0016).
pub(super) fn weights(strengths: &[f64]) -> Option<Vec<f64>> {
    let mut ordered = strengths.to_vec();
    ordered.sort_by(f64::total_cmp);
    let noise = ABOVE_THE_WEAKEST * ordered.get((WEAKEST * ordered.len() as f64) as usize).copied()?;
    let found: Vec<f64> = strengths.iter().map(|strength| (strength - noise).max(0.0)).collect();
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    if !(mean > 0.0 && mean.is_finite()) {
        return None;
    }
    let weights: Vec<f64> = found.iter().map(|strength| strength / mean + FOR_NOTHING).collect();
    let least = LEAST_KEPT * weights.iter().copied().fold(0.0, f64::max);
    Some(weights.into_iter().map(|weight| if weight > least { weight } else { 0.0 }).collect())
}

/// Where a column's value lies, for products with other columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Factor {
    /// Missing, or of a column that takes no part in products.
    Absent,
    /// The slot of a level.
    Level(u32),
    /// The first of two neighbouring linear B-splines and the values of both: of norm 1.
    Number(u32, [f64; 2]),
}

impl Factor {
    /// The two linear B-splines that are not zero at a position in [0, 1].
    pub(super) fn number(unit: f64, knots: u32) -> Self {
        let (i, left, right) = splines(unit, knots);
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
    /// Norm against that of pairs of equal parts.
    pub(super) factor: f64,
}

impl PairBlock {
    /// Number of features of the product.
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
                    entries.push((self.offset + i * self.widths.1 + j, (weight * each * self.factor) as f32));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_stand_out_get_most_and_the_weakest_none() {
        let mut strengths = vec![1.0; 40];
        strengths[7] = 400.0;
        strengths[9] = 100.0;
        let found = weights(&strengths).unwrap();
        assert!(found[7] > 3.0 * found[9] && found[9] > 0.0, "{found:?}");
        assert!((0..40).filter(|at| ![7, 9].contains(at)).all(|at| found[at] == 0.0), "{found:?}");
        // strengths that go down slowly: nobody is left out
        let slowly: Vec<f64> = (0..40).map(|at| 100.0 - f64::from(at)).collect();
        assert!(weights(&slowly).is_none_or(|all| all.iter().all(|weight| *weight > 0.0)));
        assert_eq!(weights(&[1.0; 40]), None);
        assert_eq!((weights(&[]), weights(&[0.0; 3]), weights(&[1.0, f64::INFINITY])), (None, None, None));
    }
}
