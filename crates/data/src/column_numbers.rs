//! The numbers of some columns as they are, from a table.

use super::cell::{BadCells, bad_row, field_number, is_missing_marker};
use super::encode::position;
use super::error::DataError;
use super::table::{Stored, TableReader};
use dpopt_mechanism::Sensitive;
use dpopt_objective::records::Columns;
use dpopt_process::stop;

/// Where `columns` stand, from names and stored types only.
///
/// # Errors
/// If there is no such column, or it holds something else than numbers.
pub fn number_columns(table: &dyn TableReader, columns: &[String]) -> Result<Vec<usize>, DataError> {
    let place = |name: &String| {
        let at = position(table.columns(), name, "the column of numbers")?;
        match table.columns()[at].stored {
            Stored::Text | Stored::Sparse(_) | Stored::Unsupported(_) => {
                Err(DataError::NotNumbers { column: name.clone() })
            }
            _ => Ok(at),
        }
    };
    columns.iter().map(place).collect()
}

/// One pass over the table: a row of numbers for each of its rows, missing where a cell is missing or can't be read; `added` is called after each.
pub fn column_numbers(
    table: &dyn TableReader,
    columns: &[String],
    bad_cells: BadCells,
    added: impl FnMut(),
) -> Result<Sensitive<Columns>, DataError> {
    plain_column_numbers(table, columns, bad_cells, added).map(Sensitive::new)
}

/// The numbers before they are marked as sensitive.
fn plain_column_numbers(
    table: &dyn TableReader,
    columns: &[String],
    bad_cells: BadCells,
    mut added: impl FnMut(),
) -> Result<Columns, DataError> {
    let at = number_columns(table, columns)?;
    let mut numbers = Columns::new(columns.len());
    let mut row = vec![f64::NAN; columns.len()];
    table.for_each_block(&mut |block| {
        stop::point();
        for r in 0..block.len() {
            row.fill(f64::NAN);
            if let Some(error) = bad_row(&*block, r, table.columns().len()) {
                bad_cells.check(error)?;
            } else {
                for ((to, &at), column) in row.iter_mut().zip(&at).zip(columns) {
                    let field = block.field(r, at);
                    match field_number(field) {
                        Some(value) => *to = value,
                        None if is_missing_marker(field) => {}
                        None => bad_cells.check(DataError::NotANumber {
                            column: column.clone(),
                            row: block.first_row() + r as u64 + 1,
                        })?,
                    }
                }
            }
            numbers.push(&row);
            added();
        }
        Ok(())
    })?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, open_bytes};
    use dpopt_objective::records::{ColumnValues, RecordSet};

    #[test]
    fn every_row_has_a_place_and_what_cannot_be_read_is_missing() {
        let text = b"v,w,x\n1,a,5\n-5,,\n,b,1e3\nx,c,2\n7,d\n";
        let table = open_bytes(text.to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let columns = ["x", "v"].map(String::from);
        let error = plain_column_numbers(&*table, &columns, BadCells::Error, || ()).err().unwrap();
        assert!(matches!(error, DataError::NotANumber { row: 4, .. }), "{error}");
        let mut rows = 0;
        let numbers = plain_column_numbers(&*table, &columns, BadCells::Missing, || rows += 1).unwrap();
        assert_eq!((numbers.len(), rows), (5, 5));
        let nan = f64::NAN;
        for (i, expected) in [[5.0, 1.0], [nan, -5.0], [1e3, nan], [2.0, nan], [nan, nan]].into_iter().enumerate() {
            let mut out = [0.0; 2];
            numbers.values(i, &mut out);
            assert!(out.iter().zip(expected).all(|(a, b)| *a == b || (a.is_nan() && b.is_nan())), "{i}: {out:?}");
        }
        assert!(number_columns(&*table, &["z".into()]).is_err());
    }
}
