//! What a Parquet file's footer says of whether its columns can be read: their codecs, their encryption, where they are. All of it is public, so
//! that a file that can't be read is refused before its budget is spent.

use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;

/// Length of the footer and its mark, at the end of a file.
pub(super) const TAIL: usize = 8;

/// What the last [`TAIL`] bytes say of the footer before them.
pub(super) enum Footer {
    /// A plain footer of so many bytes.
    Plain(usize),
    Encrypted,
    /// The file is no Parquet file.
    None,
}

impl Footer {
    pub(super) fn of(tail: [u8; TAIL]) -> Self {
        let [a, b, c, d, mark @ ..] = tail;
        match &mark {
            b"PAR1" => Self::Plain(u32::from_le_bytes([a, b, c, d]) as usize),
            b"PARE" => Self::Encrypted,
            _ => Self::None,
        }
    }
}

/// Why the columns of a file of `bytes` bytes can't be read, and what to do; `None` if nothing in the footer speaks against it.
pub(super) fn unreadable(metadata: &ParquetMetaData, bytes: u64) -> Option<String> {
    let mut rows = 0i64;
    for group in metadata.row_groups() {
        rows = rows.saturating_add(group.num_rows());
        for column in group.columns() {
            if let Some(codec) = without_codec(column.compression()) {
                return Some(format!(
                    "its columns are compressed with {codec}, which dpopt cannot read; write the file with snappy, gzip, zstd or lz4"
                ));
            }
            if column.file_path().is_some() {
                return Some(
                    "its columns are in other files; write them into one file, or name the files themselves".into(),
                );
            }
            let start = column.dictionary_page_offset().unwrap_or(i64::MAX).min(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let inside = start >= 0 && end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= bytes);
            if !inside {
                return Some("its footer names columns beyond its end; copy or write the file again".into());
            }
        }
    }
    (rows != metadata.file_metadata().num_rows())
        .then(|| "its footer counts its rows in two ways; copy or write the file again".into())
}

/// The name of a codec that this program is built without.
fn without_codec(codec: Compression) -> Option<&'static str> {
    match codec {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::ZSTD(_)
        | Compression::LZ4
        | Compression::LZ4_RAW => None,
        Compression::BROTLI(_) => Some("BROTLI"),
        Compression::LZO => Some("LZO"),
    }
}

/// Whether a plain footer says that a column is encrypted; the reader that this program is built with passes over it. `false` also for a footer
/// that can't be read, which the reader refuses.
pub(super) fn encrypts_columns(footer: &[u8]) -> bool {
    let mut found = false;
    // FileMetaData.row_groups[].columns[]: crypto_metadata or encrypted_column_metadata
    let walked = Thrift(footer).fields(&mut |file, id, kind| match id {
        4 => file.structs(kind, &mut |group| {
            group.fields(&mut |group, id, kind| match id {
                1 => group.structs(kind, &mut |column| {
                    column.fields(&mut |column, id, kind| {
                        found |= matches!(id, 8 | 9);
                        column.skip(kind, NESTED)
                    })
                }),
                _ => group.skip(kind, NESTED),
            })
        }),
        _ => file.skip(kind, NESTED),
    });
    found && walked.is_some()
}

/// How deep what is passed over may be nested; Parquet's footer is five deep.
const NESTED: u8 = 16;

const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Bytes in Thrift's compact protocol.
struct Thrift<'a>(&'a [u8]);

impl Thrift<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Size and kind of a list's elements.
    fn list(&mut self) -> Option<(u64, u8)> {
        let byte = self.byte()?;
        let size = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
        Some((size, byte & 15))
    }

    /// Hands the fields of a struct to `visit`, which reads them: number and kind.
    fn fields(&mut self, visit: &mut dyn FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i64;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Some(());
            }
            id = match byte >> 4 {
                0 => {
                    let zigzag = self.number()?;
                    (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
                }
                step => id.checked_add(i64::from(step))?,
            };
            visit(self, id, byte & 15)?;
        }
    }

    /// Hands the structs of a list to `visit`, which reads them.
    fn structs(&mut self, kind: u8, visit: &mut dyn FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let (size, of) = if kind == LIST { self.list()? } else { return None };
        if size > 0 && of != STRUCT {
            return None;
        }
        (0..size).try_for_each(|_| visit(self))
    }

    /// Passes over a value of a field.
    fn skip(&mut self, kind: u8, nested: u8) -> Option<()> {
        let nested = nested.checked_sub(1)?;
        match kind {
            // a truth value is in its kind
            1 | 2 => Some(()),
            3 => self.pass(1),
            4..=6 => self.number().map(drop),
            7 => self.pass(8),
            8 => self.number().and_then(|length| self.pass(length)),
            LIST | 10 => {
                let (size, of) = self.list()?;
                (0..size).try_for_each(|_| self.element(of, nested))
            }
            11 => {
                let size = self.number()?;
                let kinds = if size > 0 { self.byte()? } else { 0 };
                (0..size).try_for_each(|_| {
                    self.element(kinds >> 4, nested)?;
                    self.element(kinds & 15, nested)
                })
            }
            STRUCT => self.fields(&mut |thrift, _, kind| thrift.skip(kind, nested)),
            13 => self.pass(16),
            _ => None,
        }
    }

    /// Passes over an element of a list or a map, where a truth value has a byte of its own.
    fn element(&mut self, kind: u8, nested: u8) -> Option<()> {
        if matches!(kind, 1 | 2) { self.pass(1) } else { self.skip(kind, nested) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer of one row group with one column, which has the fields `of_column` after its offset.
    fn footer(of_column: &[u8]) -> Vec<u8> {
        // version 1, no schema, 3 rows, one row group: one column (offset 4, …), of 9 bytes, created by "x"
        let before = [0x15, 2, 0x19, 0x0c, 0x16, 6, 0x19, 0x1c, 0x19, 0x1c, 0x26, 8];
        let after = [0, 0x16, 18, 0, 0x28, 1, b'x', 0];
        [&before, of_column, &after].concat()
    }

    #[test]
    fn a_column_is_encrypted_where_its_footer_says_how() {
        // after field 2: the statistics of nobody (field 3 as a struct of a double, a list of truths and a map)
        let passed = [0x1c, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x19, 0x21, 1, 2, 0x1b, 1, 0x85, 1, b'k', 4, 0];
        assert!(!encrypts_columns(&footer(&[])));
        assert!(!encrypts_columns(&footer(&passed)));
        // with the footer's key, and with a key of its own
        assert!(encrypts_columns(&footer(&[&passed[..], &[0x5c, 0x1c, 0, 0]].concat())));
        assert!(encrypts_columns(&footer(&[0x78, 2, 1, 2])));
        let whole = footer(&[0x78, 2, 1, 2]);
        for cut in 0..whole.len() {
            assert!(!encrypts_columns(&whole[..cut]));
        }
        // nested without end
        assert!(!encrypts_columns(&[0x1c; 100_000]));
        assert!(!encrypts_columns(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]));
    }
}
