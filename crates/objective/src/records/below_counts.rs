//! Counts below each point of a public grid: what a private quantile looks at (spec 17 §1.2). The choice itself is a
//! mechanism's; here nothing leaves.

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

#[cfg(test)]
mod tests {
    use super::*;

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
