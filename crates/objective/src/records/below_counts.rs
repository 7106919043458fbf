//! Counts below each point of a public grid: what a private quantile looks at (docs/proofs/quantiles.md). The choice itself is made by a
//! mechanism; this module releases nothing.

use dpopt_process::stop::paced;

/// Points per factor of ten.
const PER_DECADE: i32 = 64;

/// Smallest and largest magnitude as powers of ten.
const DECADES: (i32, i32) = (-3, 9);

/// The public grid: 0 and ±10^(k/64) for k from -192 to 576, increasing. It depends on no data.
pub fn quantile_grid() -> Vec<f64> {
    let positive: Vec<f64> = (DECADES.0 * PER_DECADE..=DECADES.1 * PER_DECADE)
        .map(|k| libm::exp10(f64::from(k) / f64::from(PER_DECADE)))
        .collect();
    positive.iter().rev().map(|g| -g).chain([0.0]).chain(positive.iter().copied()).collect()
}

/// Per column, for each grid point g, how many records have a value below g. Records without a number in the column
/// count nowhere. Removing or adding one record changes each count by at most 1, all in one direction; replacing one
/// also changes each by at most 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BelowCounts {
    /// Column names as asked for.
    pub columns: Vec<String>,
    /// `below[c][k]`: values of column c below grid point k; non-decreasing in k.
    pub below: Vec<Vec<u64>>,
    /// Number of values per column.
    pub values: Vec<u64>,
}

impl BelowCounts {
    /// Counts of numbers in memory, one list per column, called `column 0` and so on. What is not a number counts nowhere.
    pub fn of_columns<V: IntoIterator<Item = f64>>(columns: impl IntoIterator<Item = V>) -> Self {
        let grid = quantile_grid();
        let mut counts = Self { columns: Vec::new(), below: Vec::new(), values: Vec::new() };
        for (c, column) in columns.into_iter().enumerate() {
            counts.push(format!("column {c}"), &Self::cells(&grid, column));
        }
        counts
    }

    /// How many values have exactly k points of `grid` at or below them, for each k. What is not a number counts nowhere.
    pub fn cells(grid: &[f64], values: impl IntoIterator<Item = f64>) -> Vec<u64> {
        let mut cells = vec![0u64; grid.len() + 1];
        for v in paced(values).filter(|v| !v.is_nan()) {
            cells[grid.partition_point(|g| *g <= v)] += 1;
        }
        cells
    }

    /// One more column, of which `cells[k]` values have exactly k points of the grid at or below them.
    pub fn push(&mut self, name: String, cells: &[u64]) {
        let so_far = cells.iter().scan(0u64, |sum, n| {
            *sum += n;
            Some(*sum)
        });
        let mut below: Vec<u64> = so_far.collect();
        self.values.push(below.pop().unwrap_or(0));
        self.below.push(below);
        self.columns.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_numbers_strictly_below() {
        let counts = BelowCounts::of_columns([vec![1.0, -5.0, f64::NAN, 0.0, 1e12], vec![f64::NEG_INFINITY, 2.0]]);
        for (k, g) in quantile_grid().iter().enumerate() {
            let expected = [1.0, -5.0, 0.0, 1e12].iter().filter(|v| *v < g).count() as u64;
            assert_eq!(counts.below[0][k], expected, "below {g}");
        }
        assert_eq!((counts.values.as_slice(), counts.below[1][0]), ([4, 2].as_slice(), 1));
        assert_eq!(counts.columns, ["column 0", "column 1"]);
    }

    #[test]
    fn the_grid_is_the_one_of_the_specification() {
        let grid = quantile_grid();
        assert_eq!(grid.len(), 2 * (12 * 64 + 1) + 1);
        assert!(grid.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(grid[769], 0.0);
        assert!((grid[0] + 1e9).abs() < 1e-6 && (grid[770] - 1e-3).abs() < 1e-18 && grid[1538] == 1e9);
        assert_eq!(grid[770 + 192], 1.0);
    }
}
