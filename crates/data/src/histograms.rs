//! How often the numbers of a table lie in each cell of their columns' ranges: sensitive still.

use super::cell::{BadCells, bad_row, is_missing_marker};
use super::encode::{Encoder, position};
use super::error::DataError;
use super::table::TableReader;
use dpopt_mechanism::{GridSum, Histograms, Sensitive};
use dpopt_process::stop;

/// One pass over the table for all numeric columns of `encoder`, in its order. A record without a number in a column, or that cannot be
/// read, is in no cell of it.
pub fn column_histograms(
    encoder: &Encoder,
    table: &dyn TableReader,
    bad_cells: BadCells,
) -> Result<Sensitive<GridSum>, DataError> {
    let mut columns = Vec::new();
    for (name, read, cell) in encoder.numeric() {
        columns.push((position(table.columns(), name, "the numeric column")?, name, read, cell));
    }
    let mut histograms = Histograms::new(encoder.histograms());
    let mut cells = Vec::with_capacity(columns.len());
    table.for_each_block(&mut |block| {
        stop::point();
        for r in 0..block.len() {
            if let Some(error) = bad_row(&*block, r, table.columns().len()) {
                bad_cells.check(error)?;
                continue;
            }
            cells.clear();
            for (at, name, read, cell) in &columns {
                let field = block.field(r, *at);
                let value = read(field);
                if value.is_none() && !is_missing_marker(field) {
                    let row = block.first_row() + r as u64 + 1;
                    bad_cells.check(DataError::NotANumber { column: (*name).to_string(), row })?;
                }
                cells.push(value.map(cell));
            }
            histograms.count(cells.iter().copied());
        }
        Ok(())
    })?;
    Ok(histograms.finish())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Format, ReadOptions, Schema, open_bytes};
    use dpopt_mechanism::{Curator, Gaussian, SamplerError};
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};

    /// How often the rows of a table are counted where its counts are released: so often that the noise is far below one row.
    const TIMES: usize = 100;

    /// The counts of a table, as a release of many copies of its rows says them.
    pub(crate) fn released_counts(encoder: &Encoder, text: &str, bad_cells: BadCells) -> Result<Vec<i64>, DataError> {
        let (header, rows) = text.split_once('\n').unwrap();
        let copies = format!("{header}\n{}", rows.repeat(TIMES)).into_bytes();
        let table = open_bytes(copies, Format::Csv, &ReadOptions::default())?;
        let sum = column_histograms(encoder, &*table, bad_cells)?;
        let (z, shape) = (0.5, encoder.histograms());
        let event = SamplerError::rounded(shape.dimension() as f64).on(Event::gaussian(z));
        let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(20.0, 1e-6).unwrap());
        let mut curator = Curator::new(&certify(&event, terms).unwrap(), NoiseSource::insecure(1));
        let noisy = Gaussian::new(z, shape.clip_norm(), shape.grid(), shape.dimension(), "histograms");
        let counts = curator.release(&noisy, &sum).unwrap().into_inner();
        Ok(counts.into_iter().map(|count| (count / TIMES as f64).round() as i64).collect())
    }

    fn counts(text: &str, bad_cells: BadCells) -> Result<Vec<i64>, DataError> {
        let bounds = "[a]\nlower = 0\nupper = 1\n[b]\nlower = 0\nupper = 5000\n[c]\nlevels = ['x']\n";
        let table = open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default())?;
        let encoder = Encoder::new(&Schema::from_toml(bounds)?.resolve(table.columns(), None)?)?;
        released_counts(&encoder, text, bad_cells)
    }

    #[test]
    fn each_number_is_in_one_cell_of_each_scale_and_what_is_none_in_no_cell() {
        let text = "c,a,b\nx,0,0\nx,1,9e9\nx,,5000\nx,0.5,oops\n";
        assert!(matches!(counts(text, BadCells::Error), Err(DataError::NotANumber { row: 4, .. })));
        let counts = counts(text, BadCells::Missing).unwrap();
        assert_eq!(counts.len(), 2 * (8 + 64 + 512));
        let (a, b) = counts.split_at(8 + 64 + 512);
        // 0.5 is the end of the lower half, to the rounding of a logarithm
        assert_eq!((a[0], a[3] + a[4], a[7], a[..8].iter().sum::<i64>()), (1, 1, 1, 3));
        assert_eq!((b[0], b[7], b[8..72].iter().sum::<i64>(), b[72..].iter().sum::<i64>()), (1, 2, 3, 3));
    }
}
