//! Files under names that say what they are: a table is written as the readers take it by its name, or refused.

use crate::output::Failure;
use crate::paths::is_standard_output;
use crate::usage;
use dpopt::data::Format;
use dpopt::output::{Packed, gzipped};
use std::path::Path;

/// What this program cannot write: columns of other programs, and archives.
const NOT_WRITTEN: [&str; 26] = [
    "parquet", "pq", "feather", "arrow", "ipc", "orc", "avro", "xlsx", "xls", "xlsm", "ods", "dta", "sav", "sas7bdat",
    "rds", "pkl", "h5", "npy", "npz", "zip", "zst", "bz2", "xz", "lz4", "br", "7z",
];

/// How a text table is written under a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Written {
    /// Format in which the file is read again.
    pub(crate) format: Format,
    gzip: bool,
}

/// The last extension, and the one before a `.gz`.
fn extension(path: &Path) -> (Option<String>, bool) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (name, gzip) = name.strip_suffix(".gz").map_or((&*name, false), |name| (name, true));
    (name.rsplit_once('.').map(|(_, extension)| extension.to_string()), gzip)
}

impl Written {
    /// The format by the file's name; CSV where the name says nothing.
    pub(crate) fn table(role: &str, path: &Path) -> Result<Self, Failure> {
        let (extension, gzip) = extension(path);
        if let Some(extension) = extension.filter(|e| NOT_WRITTEN.contains(&e.as_str()) || e.starts_with("json")) {
            let or = if role == "-o" && extension.starts_with("json") { ", or give --json" } else { "" };
            return Err(usage(format!(
                "{role} {}: a .{extension} file cannot be written; write to .csv or .tsv, also with .gz{or}",
                path.display()
            )));
        }
        Ok(Self { format: Format::of_path(path).unwrap_or(Format::Csv), gzip })
    }

    /// One JSON object per line.
    pub(crate) fn lines(role: &str, path: &Path) -> Result<Self, Failure> {
        let (extension, gzip) = extension(path);
        match extension.as_deref() {
            None | Some("json" | "jsonl" | "ndjson" | "txt") => Ok(Self { format: Format::Csv, gzip }),
            Some(other) => Err(usage(format!(
                "{role} {}: --json writes one JSON object per line, which is not .{other}; write to .jsonl, or leave \
                 out --json",
                path.display()
            ))),
        }
    }

    /// The separator between fields.
    pub(crate) fn separator(self) -> char {
        if self.format == Format::Tsv { '\t' } else { ',' }
    }

    /// The bytes of the file.
    pub(crate) fn bytes(self, text: Vec<u8>) -> Vec<u8> {
        if self.gzip { gzipped(&text) } else { text }
    }

    /// The file as its content comes.
    pub(crate) fn packed<W: std::io::Write>(self, file: W) -> Packed<W> {
        Packed::new(file, self.gzip)
    }

    /// A field; quotes are for CSV alone.
    pub(crate) fn field(self, text: &str) -> Result<String, Failure> {
        match self.format {
            Format::Tsv if text.contains(['\t', '\n', '\r']) => Err(usage(
                "a name or label holds a tab or a line break, which a .tsv file cannot represent; write to .csv",
            )),
            Format::Tsv => Ok(text.into()),
            _ if text.contains([',', '"', '\n', '\r']) => Ok(format!("\"{}\"", text.replace('"', "\"\""))),
            _ => Ok(text.into()),
        }
    }
}

/// Refuses a name that says that something else is in the file than the `text` (JSON, HTML, a picture) which is written.
pub(crate) fn document(role: &str, path: &Path, text: &str, extension_of_text: &str) -> Result<(), Failure> {
    let (extension, gzip) = extension(path);
    let other = match extension.as_deref() {
        _ if gzip => Some("gz"),
        Some(other @ ("csv" | "tsv" | "pdf" | "png" | "jpg" | "docx" | "md" | "onnx" | "safetensors")) => Some(other),
        Some(other) if NOT_WRITTEN.contains(&other) => Some(other),
        _ => None,
    };
    match other.filter(|_| !is_standard_output(path)) {
        Some(other) => Err(usage(format!(
            "{role} {}: the output is {text}, not .{other}; give a name that ends in .{extension_of_text}",
            path.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_written() {
        let of = |name: &str| Written::table("-o", Path::new(name)).map(|w| (w.separator(), w.gzip)).ok();
        assert_eq!(of("a.csv"), Some((',', false)));
        assert_eq!(of("a.CSV.gz"), Some((',', true)));
        assert_eq!(of("a.tsv"), Some(('\t', false)));
        assert_eq!(of("a.tsv.gz"), Some(('\t', true)));
        assert_eq!(of("/dev/stdout"), Some((',', false)));
        for other in ["a.parquet", "a.xlsx", "a.csv.zst", "a.json", "a.parquet.gz"] {
            assert_eq!(of(other), None, "{other}");
        }
        for (name, good) in [("m.json", true), ("m", true), ("-", true), ("m.json.gz", false), ("m.parquet", false)] {
            assert_eq!(document("-o", Path::new(name), "JSON", "json").is_ok(), good, "{name}");
        }
    }

    #[test]
    fn a_field_is_quoted_where_quotes_are_read() {
        let of = |name: &str, text: &str| Written::table("-o", Path::new(name)).unwrap().field(text).ok();
        assert_eq!(of("a.csv", "a,\"b").as_deref(), Some("\"a,\"\"b\""));
        assert_eq!(of("a.tsv", "a,\"b").as_deref(), Some("a,\"b"));
        assert_eq!(of("a.tsv", "a\tb"), None);
    }
}
