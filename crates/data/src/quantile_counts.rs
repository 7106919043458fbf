//! Counts below each point of a public grid, from a table.

use super::cell::{BadCells, bad_row, field_number, is_missing_marker};
use super::encode::position;
use super::error::DataError;
use super::table::TableReader;
use dpopt_mechanism::Sensitive;
use dpopt_objective::records::{BelowCounts, quantile_grid};
use dpopt_process::stop;

/// One pass over the table for all `columns` on [`quantile_grid`].
pub fn quantile_counts(
    table: &dyn TableReader,
    columns: &[String],
    bad_cells: BadCells,
) -> Result<Sensitive<BelowCounts>, DataError> {
    plain_quantile_counts(table, columns, bad_cells).map(Sensitive::new)
}

/// The counts before they are marked as sensitive.
pub(super) fn plain_quantile_counts(
    table: &dyn TableReader,
    columns: &[String],
    bad_cells: BadCells,
) -> Result<BelowCounts, DataError> {
    let grid = quantile_grid();
    let at =
        columns.iter().map(|c| position(table.columns(), c, "the numeric column")).collect::<Result<Vec<_>, _>>()?;
    // cells[c][k]: values v with exactly k grid points at or below v, so that v < grid[j] for all j >= k
    let mut cells = vec![vec![0u64; grid.len() + 1]; columns.len()];
    table.for_each_block(&mut |block| {
        stop::point();
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
    let mut counts = BelowCounts { columns: Vec::new(), below: Vec::new(), values: Vec::new() };
    for (name, cells) in columns.iter().zip(&cells) {
        counts.push(name.clone(), cells);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, open_bytes};

    #[test]
    fn counts_are_of_values_strictly_below() {
        let text = b"v,w\n1,a\n-5,\n,\n0,\n1e12,\nx,\n7\n";
        let table = open_bytes(text.to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let columns = vec!["v".to_string()];
        let error = plain_quantile_counts(&*table, &columns, BadCells::Error).err().unwrap();
        assert!(matches!(error, DataError::NotANumber { row: 6, .. }));
        let counts = plain_quantile_counts(&*table, &columns, BadCells::Missing).unwrap();
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
            let mut counts = plain_quantile_counts(&*table, &["v".to_string()], BadCells::Missing).unwrap();
            counts.below.swap_remove(0)
        };
        let without = count("v\n3\n7\n");
        for extra in ["-1e300", "0.5", "7", "1e300", ""] {
            let with = count(&format!("v\n3\n7\n{extra}\n"));
            assert!(without.iter().zip(&with).all(|(a, b)| *b == *a || *b == a + 1));
        }
    }
}
