//! Counts below each point of a public grid: what a private quantile looks at (spec 17 §1.2). The choice itself is a
//! mechanism's; here nothing leaves.

use super::cell::{BadCells, bad_row, field_number, is_missing_marker};
use super::encode::position;
use super::error::DataError;
use super::reader::TableReader;
use crate::sensitive::Sensitive;

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

/// One pass over the table for all `columns` on [`quantile_grid`].
pub fn quantile_counts(
    table: &dyn TableReader,
    columns: &[String],
    bad_cells: BadCells,
) -> Result<Sensitive<BelowCounts>, DataError> {
    let grid = quantile_grid();
    let at =
        columns.iter().map(|c| position(table.columns(), c, "the numeric column")).collect::<Result<Vec<_>, _>>()?;
    // cells[c][k]: values v with exactly k grid points at or below v, so that v < grid[j] for all j >= k
    let mut cells = vec![vec![0u64; grid.len() + 1]; columns.len()];
    table.for_each_block(&mut |block| {
        for r in 0..block.len() {
            if let Some(error) = bad_row(&*block, r, table.columns().len()) {
                bad_cells.check(error)?;
                continue;
            }
            for ((cell, &at), column) in cells.iter_mut().zip(&at).zip(columns) {
                let field = block.field(r, at);
                match field_number(field) {
                    Some(value) => cell[grid.partition_point(|g| *g <= value)] += 1,
                    None if is_missing_marker(field) => {}
                    None => bad_cells.check(DataError::NotANumber {
                        column: column.clone(),
                        row: block.first_row() + r as u64 + 1,
                    })?,
                }
            }
        }
        Ok(())
    })?;
    let below = cells
        .iter()
        .map(|cell| {
            cell[..grid.len()]
                .iter()
                .scan(0u64, |sum, c| {
                    *sum += c;
                    Some(*sum)
                })
                .collect()
        })
        .collect();
    let values = cells.iter().map(|cell| cell.iter().sum()).collect();
    Ok(Sensitive::new(BelowCounts { columns: columns.to_vec(), below, values }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Format, ReadOptions, open_bytes};

    #[test]
    fn the_grid_is_the_one_of_the_specification() {
        let grid = quantile_grid();
        assert_eq!(grid.len(), 2 * (12 * 64 + 1) + 1);
        assert!(grid.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(grid[769], 0.0);
        assert!((grid[0] + 1e9).abs() < 1e-6 && (grid[770] - 1e-3).abs() < 1e-18 && grid[1538] == 1e9);
        assert_eq!(grid[770 + 192], 1.0);
    }

    #[test]
    fn counts_are_of_values_strictly_below() {
        let text = b"v,w\n1,a\n-5,\n,\n0,\n1e12,\nx,\n7\n";
        let table = open_bytes(text.to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let columns = vec!["v".to_string()];
        let error = quantile_counts(&*table, &columns, BadCells::Error).err().unwrap();
        assert!(matches!(error, DataError::NotANumber { row: 6, .. }));
        let counts = quantile_counts(&*table, &columns, BadCells::Missing).unwrap();
        let counts = counts.expose();
        let grid = quantile_grid();
        for (k, g) in grid.iter().enumerate() {
            let expected = [1.0, -5.0, 0.0, 1e12].iter().filter(|v| *v < g).count() as u64;
            assert_eq!(counts.below[0][k], expected, "below {g}");
        }
        assert_eq!(counts.values, [4]);
    }

    #[test]
    fn one_record_moves_each_count_by_at_most_one() {
        let count = |text: &str| {
            let table = open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
            quantile_counts(&*table, &["v".to_string()], BadCells::Missing).unwrap().expose().below[0].clone()
        };
        let without = count("v\n3\n7\n");
        for extra in ["-1e300", "0.5", "7", "1e300", ""] {
            let with = count(&format!("v\n3\n7\n{extra}\n"));
            assert!(without.iter().zip(&with).all(|(a, b)| *b == *a || *b == a + 1));
        }
    }
}
