//! Parquet files for tests, written leaf by leaf.

use std::sync::Arc;

use parquet::data_type::DataType;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Some rows of a leaf.
pub trait Leaf {
    fn write(&self, column: &mut SerializedColumnWriter<'_>);
}

struct Levels<T: DataType> {
    values: Vec<T::T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T: DataType> Leaf for Levels<T> {
    fn write(&self, column: &mut SerializedColumnWriter<'_>) {
        let given = |levels| Some(levels).filter(|levels: &&[i16]| !levels.is_empty());
        let (definition, repetition) = (given(&self.definition[..]), given(&self.repetition[..]));
        column.typed::<T>().write_batch(&self.values, definition, repetition).unwrap();
    }
}

/// Rows of a leaf with levels of the caller's own.
pub fn levels<T: DataType>(values: Vec<T::T>, definition: &[i16], repetition: &[i16]) -> Box<dyn Leaf> {
    Box::new(Levels::<T> { values, definition: definition.to_vec(), repetition: repetition.to_vec() })
}

/// Rows of a REQUIRED leaf.
pub fn required<T: DataType>(rows: impl IntoIterator<Item = T::T>) -> Box<dyn Leaf> {
    levels::<T>(rows.into_iter().collect(), &[], &[])
}

/// Rows of an OPTIONAL leaf.
pub fn optional<T: DataType>(rows: impl IntoIterator<Item = Option<T::T>>) -> Box<dyn Leaf> {
    let rows: Vec<Option<T::T>> = rows.into_iter().collect();
    let definition: Vec<i16> = rows.iter().map(|row| i16::from(row.is_some())).collect();
    levels::<T>(rows.into_iter().flatten().collect(), &definition, &[])
}

/// A column as [`lists`] writes it.
pub fn list_of(kind: &str, name: &str) -> String {
    format!("OPTIONAL group {name} (LIST) {{ REPEATED group list {{ OPTIONAL {kind} element; }} }}")
}

/// Rows of a column of [`list_of`].
pub fn lists<T: DataType>(rows: &[Option<Vec<Option<T::T>>>]) -> Box<dyn Leaf> {
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        match row.as_deref() {
            None | Some([]) => {
                definition.push(i16::from(row.is_some()));
                repetition.push(0);
            }
            Some(items) => {
                definition.extend(items.iter().map(|item| 2 + i16::from(item.is_some())));
                repetition.extend((0..items.len()).map(|i| i16::from(i > 0)));
                values.extend(items.iter().flatten().cloned());
            }
        }
    }
    levels::<T>(values, &definition, &repetition)
}

/// A file with these columns, in Parquet's words, and row groups.
pub fn table(columns: &str, how: WriterPropertiesBuilder, groups: &[Vec<Box<dyn Leaf>>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message table {{ {columns} }}")).unwrap());
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(how.build())).unwrap();
    for group in groups {
        let mut rows = file.next_row_group().unwrap();
        let mut leaves = group.iter();
        while let Some(mut column) = rows.next_column().unwrap() {
            leaves.next().unwrap().write(&mut column);
            column.close().unwrap();
        }
        rows.close().unwrap();
    }
    file.close().unwrap();
    bytes
}
