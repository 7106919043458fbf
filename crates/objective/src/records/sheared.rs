//! Rows in coordinates of public numbers in which their mean is near 0.

use super::rows::{Examples, Rows};

/// x_j ↦ s·(x_j − t_j·x_o) for the features j other than `origin` o, and x_o ↦ s·a·x_o; then clipped to l2 norm `row_norm`.
///
/// With t_j the mean of x_j over that of x_o rows lie around 0, and the map stays linear where x_o is the same in all rows, or nearly.
#[derive(Clone, Debug, PartialEq)]
pub struct Shear {
    /// o: index of the origin feature.
    pub origin: usize,
    /// t, one for each feature; that of the origin is not looked at.
    pub shifts: Vec<f64>,
    /// a: factor of the origin feature.
    pub origin_scale: f64,
    /// s: factor of all features.
    pub scale: f64,
    /// What rows are clipped to.
    pub row_norm: f64,
}

impl Shear {
    /// The rows in the new coordinates.
    ///
    /// # Panics
    /// If there is not one shift per feature, or no such feature as the origin (bugs of the caller, never of the data).
    pub fn apply(&self, examples: &Examples) -> Examples {
        let d = examples.rows.columns();
        assert!(self.shifts.len() == d && self.origin < d, "one shift per feature, one of which is the origin");
        let mut rows = Rows::new(d);
        let mut entries: Vec<(u32, f32)> = Vec::with_capacity(d);
        let mut dense = vec![0.0; d];
        for i in 0..examples.rows.len() {
            let (columns, values) = examples.rows.row(i);
            let at_origin = columns.binary_search(&(self.origin as u32)).map_or(0.0, |at| f64::from(values[at]));
            dense.iter_mut().zip(&self.shifts).for_each(|(x, t)| *x = -t * at_origin);
            dense[self.origin] = 0.0;
            columns.iter().zip(values).for_each(|(&j, &x)| dense[j as usize] += f64::from(x));
            dense[self.origin] *= self.origin_scale;
            entries.clear();
            entries.extend((0u32..).zip(&dense).map(|(j, x)| (j, (self.scale * x) as f32)));
            rows.push_clipped(&mut entries, self.row_norm);
        }
        Examples { rows, targets: examples.targets.clone() }
    }

    /// Weights of the old coordinates that give every row that is not clipped the score of `weights` in the new ones.
    pub fn back(&self, weights: &[f64]) -> Vec<f64> {
        let shifted: f64 = weights
            .iter()
            .zip(&self.shifts)
            .enumerate()
            .filter(|(j, _)| *j != self.origin)
            .map(|(_, (w, t))| w * t)
            .sum();
        let of =
            |(j, w): (usize, &f64)| self.scale * if j == self.origin { self.origin_scale * w - shifted } else { *w };
        weights.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_tests() -> Examples {
        let mut rows = Rows::new(4);
        for i in 0..20u32 {
            let x = |k: u32| ((i * 7 + k * 5) % 11) as f32 / 11.0 - 0.4;
            rows.push_clipped(&mut [(0, x(0)), (1, 0.3), (2, x(2)), (3, if i % 3 == 0 { 0.0 } else { x(3) })], 1.0);
        }
        rows.push_zero();
        Examples { rows, targets: (0..21).map(|i| (i % 3) as f32).collect() }
    }

    fn score(weights: &[f64], (columns, values): (&[u32], &[f32])) -> f64 {
        columns.iter().zip(values).map(|(&j, &x)| weights[j as usize] * f64::from(x)).sum()
    }

    #[test]
    fn scores_are_the_same_in_both_coordinates() {
        let examples = for_tests();
        let shear =
            Shear { origin: 1, shifts: vec![0.5, 9.0, -2.0, 0.25], origin_scale: 0.7, scale: 3.0, row_norm: 50.0 };
        let sheared = shear.apply(&examples);
        let weights = [0.3, -1.0, 2.0, 0.7];
        let back = shear.back(&weights);
        for i in 0..21 {
            let (new, old) = (score(&weights, sheared.rows.row(i)), score(&back, examples.rows.row(i)));
            assert!((new - old).abs() < 1e-5, "{new} {old}");
        }
        // 3·(x_0 − ½·0.3) and 3·0.7·0.3
        let x = f64::from(examples.rows.row(0).1[0]);
        let (columns, values) = sheared.rows.row(0);
        assert_eq!(columns[..2], [0, 1]);
        assert!((f64::from(values[0]) - 3.0 * (x - 0.15)).abs() < 1e-6 && (f64::from(values[1]) - 0.63).abs() < 1e-6);
        assert_eq!(sheared.targets, examples.targets);
    }

    #[test]
    fn rows_keep_to_the_norm_whatever_the_numbers_are() {
        for (scale, shift) in [(1e6, 0.5), (f64::INFINITY, 0.0), (f64::NAN, 1.0), (1.0, f64::NAN), (1e300, -1e300)] {
            let shear = Shear { origin: 1, shifts: vec![shift; 4], origin_scale: 1.0, scale, row_norm: 0.5 };
            let sheared = shear.apply(&for_tests());
            assert!(sheared.rows.norm_bound() == 0.5 && sheared.rows.len() == 21);
            for i in 0..21 {
                let square: f64 = sheared.rows.row(i).1.iter().map(|v| f64::from(*v).powi(2)).sum();
                assert!(square.sqrt() <= 0.5, "{square}");
            }
        }
    }
}
