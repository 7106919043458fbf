//! Records as sparse vectors: a column of sparse vectors, or the numeric columns of a table as their coordinates.

use dpopt_data::{BadCells, DataError, Field, Stored, TableReader, bad_row, field_number, is_missing_marker};
use dpopt_mechanism::Sensitive;
use dpopt_objective::records::SparseVectors;

/// Where a table's vectors are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Vectors {
    /// One column holds sparse vectors.
    Sparse { column: usize, dimension: u64 },
    /// Each of these columns is a coordinate.
    Columns(Vec<usize>),
}

impl Vectors {
    /// From names and stored types only; the columns `units`, if there are any, say whose they are and are none of them.
    pub(crate) fn of(table: &dyn TableReader, units: &[String]) -> Result<Self, DataError> {
        let columns = table.columns();
        let is_unit = |at: &usize| units.contains(&columns[*at].name);
        let sparse = columns.iter().enumerate().find_map(|(at, c)| match c.stored {
            Stored::Sparse(dimension) => Some(Self::Sparse { column: at, dimension: u64::from(dimension) }),
            _ => None,
        });
        if let Some(found) = sparse {
            return Ok(found);
        }
        let coordinates: Vec<usize> = (0..columns.len()).filter(|at| !is_unit(at)).collect();
        for column in coordinates.iter().map(|&at| &columns[at]) {
            if matches!(column.stored, Stored::Text | Stored::Boolean | Stored::Sparse(_) | Stored::Unsupported(_)) {
                return Err(DataError::NotAVector { column: column.name.clone() });
            }
        }
        Ok(Self::Columns(coordinates))
    }

    /// d: number of coordinates.
    pub(crate) fn dimension(&self) -> u64 {
        match self {
            Self::Sparse { dimension, .. } => *dimension,
            Self::Columns(columns) => columns.len() as u64,
        }
    }

    /// Whether they are in the column `name`.
    pub(crate) fn are_in(&self, table: &dyn TableReader, name: &str) -> bool {
        matches!(self, Self::Sparse { column, .. } if table.columns()[*column].name == name)
    }

    /// All of them, one per row of the table; a row that can't be read is a vector without entries.
    pub(crate) fn collected(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
    ) -> Result<Sensitive<SparseVectors>, DataError> {
        let mut all = SparseVectors::default();
        self.for_each(table, bad_cells, |entries| all.push(entries))?;
        Ok(Sensitive::new(all))
    }

    /// Hands each record's non-zero entries to `visit`, in order.
    pub(crate) fn for_each(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        mut visit: impl FnMut(&mut Vec<(u32, f64)>),
    ) -> Result<(), DataError> {
        let mut entries = Vec::new();
        table.for_each_block(&mut |block| {
            for r in 0..block.len() {
                entries.clear();
                let row = block.first_row() + r as u64 + 1;
                if let Some(error) = bad_row(&*block, r, table.columns().len()) {
                    bad_cells.check(error)?;
                    visit(&mut entries);
                    continue;
                }
                match self {
                    Self::Sparse { column, .. } => match block.field(r, *column) {
                        Field::Sparse(pairs) => entries.extend(pairs.iter().map(|&(j, v)| (j, f64::from(v)))),
                        Field::Missing => {}
                        Field::Malformed(reason) => bad_cells.check(DataError::BadSparseRow { row, reason })?,
                        _ => bad_cells.check(DataError::NotANumber { column: position(*column), row })?,
                    },
                    Self::Columns(columns) => {
                        for (j, &column) in columns.iter().enumerate() {
                            let field = block.field(r, column);
                            match field_number(field) {
                                Some(0.0) => {}
                                Some(value) => entries.push((j as u32, value)),
                                None if is_missing_marker(field) => {}
                                None => {
                                    bad_cells.check(DataError::NotANumber { column: position(column), row })?;
                                }
                            }
                        }
                    }
                }
                visit(&mut entries);
            }
            Ok(())
        })
    }
}

/// How messages call a column: nothing that was declared tells whether the first line is a header, so its words are not told.
fn position(column: usize) -> String {
    format!("c{}", column + 1)
}
