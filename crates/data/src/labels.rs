//! How often each label occurs, for a target whose classes nobody declared. The counts stay sensitive: a label that
//! occurs once names a record, so which labels may leave is decided by a mechanism (noise and threshold), not here.

use dpopt_process::stop;
use std::collections::BTreeMap;

use super::cell::{bad_row, field_text, is_missing_text};
use super::encode::position;
use super::error::DataError;
use super::table::TableReader;
use dpopt_mechanism::Sensitive;

/// Counts of the distinct labels of `column`; missing ones and rows that can't be read are left out. Adding or removing one record changes one count
/// by 1; replacing one changes two.
pub fn label_counts(table: &dyn TableReader, column: &str) -> Result<Sensitive<BTreeMap<String, u64>>, DataError> {
    let at = position(table.columns(), column, "the target")?;
    let width = table.columns().len();
    let mut counts = BTreeMap::new();
    let mut scratch = Vec::new();
    table.for_each_block(&mut |block| {
        stop::point();
        for row in 0..block.len() {
            if bad_row(&*block, row, width).is_none()
                && let Some(text) = field_text(block.field(row, at), &mut scratch)
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
    Ok(Sensitive::new(counts))
}
