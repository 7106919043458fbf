//! How often each label occurs, for a target whose classes are not declared. The counts stay sensitive: a label that
//! occurs once names a record, so which labels may leave is decided by a mechanism (noise and threshold), not here.

use dpopt_process::stop;
use std::collections::BTreeMap;

use super::cell::{Rules, Scratch, bad_row, is_missing_text};
use super::encode::position;
use super::error::DataError;
use super::numerals::truth;
use super::table::{Field, TableReader};
use dpopt_mechanism::Sensitive;

/// Counts of the distinct labels of `column`; missing ones and rows that can't be read are left out. Adding or removing one record changes one count
/// by 1; replacing one changes two.
pub fn label_counts(table: &dyn TableReader, column: &str) -> Result<Sensitive<BTreeMap<String, u64>>, DataError> {
    plain_label_counts(table, column).map(Sensitive::new)
}

/// The counts before they are marked as sensitive.
pub(super) fn plain_label_counts(table: &dyn TableReader, column: &str) -> Result<BTreeMap<String, u64>, DataError> {
    let at = position(table.columns(), column, "the target")?;
    let width = table.columns().len();
    let mut counts = BTreeMap::new();
    let mut scratch = Scratch::default();
    table.for_each_block(&mut |block| {
        stop::point();
        for row in 0..block.len() {
            if bad_row(&*block, row, width).is_none()
                && let Some(text) = label(block.field(row, at), &mut scratch)
                && !is_missing_text(text)
            {
                let text = String::from_utf8_lossy(text);
                match counts.get_mut(&*text) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(text.into_owned(), 1u64)),
                }
            }
        }
        Ok(())
    })?;
    Ok(counts)
}

/// What a label is called: equal numbers in one way, words as they are spelled.
fn label<'a>(field: Field<'a>, scratch: &'a mut Scratch) -> Option<&'a [u8]> {
    match field {
        Field::Text(text) if truth(text).is_some() => Some(text),
        _ => Rules::ByValue.category(field, scratch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ReadOptions, open_bytes};

    #[test]
    fn equal_numbers_are_one_label_and_words_keep_their_spelling() {
        let text = b"y\n1\n1.0\n 1\n0\n01\nTrue\nNaN\nnone\n\n#N/A\n".to_vec();
        let table = open_bytes(text, Format::Csv, &ReadOptions::default()).unwrap();
        let counts = plain_label_counts(&*table, "y").unwrap();
        let counts: Vec<(&str, u64)> = counts.iter().map(|(label, n)| (label.as_str(), *n)).collect();
        assert_eq!(counts, [("0", 1), ("01", 1), ("1", 3), ("True", 1), ("none", 1)]);
    }
}
