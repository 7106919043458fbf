//! Flags that several commands share: how to read a table, what is publicly known about its columns.

use crate::output::Failure;
use crate::typed::{arguments, typed};
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::data::{
    BadCells, BoundsReview, Format, Kind, PLACEHOLDER, ReadOptions, Schema, TableReader, Transform, VectorsFile, listed,
};
use dpopt::model::Reading;
use std::path::{Path, PathBuf};

/// Heading of the flags about what is promised, and to whom.
pub(crate) const GUARANTEE: &str = "Guarantee and budget";

/// How to read a table.
#[derive(Args, Clone)]
#[command(next_help_heading = "Reading the table")]
pub(crate) struct TableFlags {
    /// csv, tsv, parquet or libsvm; by default from the file's name
    #[arg(long)]
    format: Option<String>,
    /// The first line is a record, not a header. Columns are called c1, c2, …; give their number with --columns, or
    /// declare all of them
    #[arg(long)]
    no_header: bool,
    /// Number of columns of a table without a header, a public fact
    #[arg(long, value_name = "N", requires = "no_header")]
    columns: Option<u64>,
    /// Quotes in a CSV file are plain text
    #[arg(long)]
    no_quoting: bool,
    /// A line break inside quotes does not end a row. A quote that is never closed then stops the run, and a stray
    /// quote joins rows
    #[arg(long, conflicts_with = "no_quoting")]
    quoted_newlines: bool,
    /// Character between the fields, e.g. ';'; by default a comma (csv) or a tab (tsv)
    #[arg(long, value_name = "CHAR", value_parser = separator)]
    separator: Option<u8>,
    /// LIBSVM, or Parquet with the list columns `indices` and `values`: number of features, a public fact
    #[arg(long, value_name = "D")]
    features: Option<u64>,
    /// LIBSVM: the first feature has index 0
    #[arg(long)]
    zero_based: bool,
    /// How to treat a cell or row that cannot be read, or a row of the wrong width; by default as missing, and for
    /// predictions as at the fit
    #[arg(long, value_enum)]
    bad_cells: Option<BadCellsFlag>,
    /// Memory cap, e.g. 512M or 2G. For fit: encoded rows beyond it go to an unnamed temporary file, for methods that
    /// read rows from disk (by default noisy-sgd; with --workers any method, and the cap is for all workers
    /// together).
    /// Any command: a gzipped Parquet file may not unzip to more (by default 2G)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
}

/// `--separator`: one ASCII character; a tab may be written `\\t`.
pub(crate) fn separator(given: &str) -> Result<u8, String> {
    match given.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("use one ASCII character such as ';' or '\\t', not a quote or a line end".into()),
    }
}

/// The values of `--bad-cells`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum BadCellsFlag {
    /// Treat the cell as missing; a row that cannot be read contributes nothing but is counted. `dpopt check` counts
    /// them
    #[default]
    Missing,
    /// Stop with the column and row, even after the charge. This is not covered by the guarantee: only for people who
    /// may see the table
    Error,
}

/// `--memory`: a whole number of bytes, or of K, M, G.
fn bytes(given: &str) -> Result<u64, String> {
    let digits = given.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, unit) = match digits.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => (&digits[..at], letter.to_ascii_uppercase()),
        _ => (digits, ' '),
    };
    let shift = match unit {
        ' ' => 0,
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return Err("write a size like 512M or 2G".into()),
    };
    let size =
        number.parse::<u64>().ok().filter(|n| *n > 0).and_then(|n| n.checked_shl(shift).filter(|s| s >> shift == n));
    size.ok_or_else(|| "write a size like 512M or 2G".into())
}

impl TableFlags {
    pub(crate) fn bad_cells(&self) -> BadCells {
        match self.bad_cells.unwrap_or_default() {
            BadCellsFlag::Error => BadCells::Error,
            BadCellsFlag::Missing => BadCells::Missing,
        }
    }

    /// What is said of how a table is read, for the model of a fit.
    pub(crate) fn as_said(&self) -> Reading {
        Reading {
            separator: self.separator.map(char::from),
            no_quoting: self.no_quoting,
            quoted_newlines: self.quoted_newlines,
            no_header: self.no_header,
            columns: self.columns,
            features: self.features,
            zero_based: self.zero_based,
            bad_cells_error: self.bad_cells() == BadCells::Error,
        }
    }

    /// These flags, and where they say nothing what was said at the fit of a model; what is about text with commas only where `data` are such.
    pub(crate) fn or_as_fitted(&self, fitted: &Reading, data: &[PathBuf]) -> Self {
        let named = data.first().and_then(|path| Format::of_path(path).ok());
        let commas = self.format.is_none() && named.is_none_or(|format| format == Format::Csv);
        let error = fitted.bad_cells_error.then_some(BadCellsFlag::Error);
        let byte = fitted.separator.and_then(|c| u8::try_from(c).ok());
        Self {
            separator: self.separator.or(byte.filter(|_| commas)),
            no_quoting: self.no_quoting || (commas && fitted.no_quoting && !self.quoted_newlines),
            quoted_newlines: self.quoted_newlines || (commas && fitted.quoted_newlines && !self.no_quoting),
            no_header: self.no_header || (commas && fitted.no_header),
            columns: self.columns.or(fitted.columns.filter(|_| commas)),
            features: self.features.or(fitted.features),
            zero_based: self.zero_based || fitted.zero_based,
            bad_cells: self.bad_cells.or(error),
            ..self.clone()
        }
    }

    /// What is said of how names and rows are told apart, as it can be typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let set = [
            ("--no-header", self.no_header),
            ("--no-quoting", self.no_quoting),
            ("--quoted-newlines", self.quoted_newlines),
            ("--zero-based", self.zero_based),
        ];
        let separator =
            self.separator.map(|byte| if byte == b'\t' { "\\t".to_string() } else { char::from(byte).to_string() });
        let given = [
            ("--format", self.format.clone()),
            ("--columns", self.columns.map(|n| n.to_string())),
            ("--separator", separator),
            ("--features", self.features.map(|n| n.to_string())),
        ];
        let set = set.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_string());
        set.chain(given.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?)))).collect()
    }

    /// Whether names stand in the first line of a text table.
    pub(crate) fn has_header(&self) -> bool {
        !self.no_header
    }

    /// Refuses what is said of cells, where none is read.
    pub(crate) fn refuse_bad_cells(&self) -> Result<(), Failure> {
        match self.bad_cells {
            Some(_) => Err(usage("--bad-cells is about rows, and none is read here; leave it out")),
            None => Ok(()),
        }
    }

    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory
    }

    pub(crate) fn features(&self) -> Option<u64> {
        self.features
    }

    /// Whether a cell may hold line breaks.
    pub(crate) fn quotes_newlines(&self) -> bool {
        self.quoted_newlines
    }

    /// How it is read.
    pub(crate) fn options(&self) -> Result<ReadOptions, Failure> {
        Ok(ReadOptions {
            format: self.format.as_deref().map(str::parse::<Format>).transpose().map_err(usage)?,
            header: !self.no_header,
            quoting: self.no_quoting.then_some(false),
            separator: self.separator,
            columns: self.columns,
            quoted_newlines: self.quoted_newlines,
            memory: self.memory,
            features: self.features,
            zero_based: self.zero_based,
        })
    }

    /// How the table is read; where it has no header and --columns is not given, declarations that name all columns count them.
    pub(crate) fn declared_options(&self, schema: &Schema, target: &str) -> Result<ReadOptions, Failure> {
        let mut options = self.options()?;
        options.columns = options.columns.or_else(|| schema.numbered_columns(Some(target)));
        Ok(options)
    }

    /// Opens the table: reads names, no rows.
    pub(crate) fn open(&self, paths: &[PathBuf]) -> Result<Box<dyn TableReader>, Failure> {
        dpopt::data::open_all(paths, &self.options()?).map_err(usage)
    }

    /// Opens the table by [`declared_options`](Self::declared_options).
    pub(crate) fn open_declared(
        &self,
        paths: &[PathBuf],
        schema: &Schema,
        target: &str,
    ) -> Result<Box<dyn TableReader>, Failure> {
        dpopt::data::open_all(paths, &self.declared_options(schema, target)?).map_err(usage)
    }
}

/// What is publicly known about the columns.
#[derive(Args, Clone)]
#[command(next_help_heading = "Public facts about the columns (never taken from the records)")]
pub(crate) struct SchemaFlags {
    /// Ranges, levels and kinds of columns (TOML)
    #[arg(long, value_name = "FILE", help_heading = None)]
    bounds: Option<PathBuf>,
    /// Public table: ranges and levels are taken from it
    #[arg(long, value_name = "FILE", conflicts_with = "bounds")]
    public_data: Option<PathBuf>,
    /// Share of ε for finding the ranges of numeric columns privately, e.g. 0.1; if only the range of the target is
    /// missing, the share is chosen by default
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) bounds_budget: Option<f64>,
    /// Public word vectors for columns of text, in the formats of word2vec, GloVe and fastText (also gzipped).
    /// Predictions need the same file
    #[arg(long, value_name = "FILE")]
    public_vectors: Option<PathBuf>,
    /// Columns that hold numbers
    #[arg(long, value_name = "COLUMNS", value_parser = Listed::read)]
    numeric: Vec<Listed>,
    /// Columns that hold free text
    #[arg(long, value_name = "COLUMNS", value_parser = Listed::read)]
    text: Vec<Listed>,
    /// Columns of categories without declared levels, which are hashed
    #[arg(long, value_name = "COLUMNS", value_parser = Listed::read)]
    categorical: Vec<Listed>,
    /// Columns that are not used
    #[arg(long, value_name = "COLUMNS", value_parser = Listed::read)]
    ignore: Vec<Listed>,
    /// Labels of the target, separated by commas, one with a comma in quotes as in a CSV file: 'no,"yes, sure"'; with two, the second is the positive
    /// one. Undeclared labels are found privately
    #[arg(long, value_name = "LABELS", value_parser = Listed::read, allow_hyphen_values = true, help_heading = None)]
    classes: Vec<Listed>,
    /// LIBSVM: scale every row to the row norm instead of clipping only longer ones
    #[arg(long)]
    scale_rows: bool,
    /// LIBSVM and Parquet lists: largest number of entries of a row; the largest entries are kept. This public number
    /// is used by methods for sparse rows
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_nonzeros: Option<u32>,
}

/// What is still to be filled in of a bounds file. Its `undecided` sections in the order in which they are told, of so many columns (0: not told).
pub(crate) fn unfilled(review: &BoundsReview, undecided: &[&str], columns: usize) -> Vec<String> {
    let mut parts = Vec::new();
    if !undecided.is_empty() {
        let of = match columns {
            0 => String::new(),
            1 => " of 1 column".into(),
            columns => format!(" of {columns} columns"),
        };
        let names = listed(undecided.iter().map(|name| format!("`{name}`")));
        parts.push(format!("nothing is chosen yet for {}{of} ({names})", undecided.len()));
    }
    if !review.unfilled.is_empty() {
        let keys = review.unfilled.iter().map(|(name, keys)| format!("`{name}` {}", keys.join(" and ")));
        parts.push(format!("\"{PLACEHOLDER}\" still stands in {}", listed(keys)));
    }
    parts
}

/// The check of what these words would fit or explain, as it can be typed: without what a check does not take.
fn check_instead(words: Vec<String>) -> String {
    let mut words = words.into_iter().skip(1);
    let mut check = vec!["check".to_string()];
    while let Some(word) = words.next() {
        match word.as_str() {
            "-q" | "--quiet" | "--all" | "--json" => {}
            "--class-count" => drop(words.next()),
            word if word.starts_with("--class-count=") => {}
            _ => check.push(word),
        }
    }
    typed(check)
}

/// Names or labels that a flag lists.
#[derive(Clone, Debug)]
pub(crate) struct Listed(Vec<String>);

impl Listed {
    fn read(given: &str) -> Result<Self, String> {
        let read = dpopt::data::comma_separated(given).map(Self);
        read.ok_or_else(|| {
            "a quote is not closed; write one with a comma in quotes, 'no,\"yes, sure\"', or `levels` in a bounds file"
                .into()
        })
    }

    fn all(given: &[Self]) -> Vec<String> {
        given.iter().flat_map(|listed| listed.0.iter().cloned()).collect()
    }
}

impl SchemaFlags {
    /// Labels of the target that are declared.
    pub(crate) fn classes(&self) -> Vec<String> {
        Listed::all(&self.classes)
    }

    /// Files that are read, by their flags.
    pub(crate) fn files(&self) -> [(&'static str, Option<&Path>); 3] {
        [
            ("--bounds", self.bounds.as_deref()),
            ("--public-data", self.public_data.as_deref()),
            ("--public-vectors", self.public_vectors.as_deref()),
        ]
    }

    /// Refuses a bounds file in which something is still to be filled in.
    pub(crate) fn refuse_unfilled(&self) -> Result<(), Failure> {
        // what else is wrong with it is told by whoever reads it
        let Some((path, review)) =
            self.bounds.as_deref().and_then(|path| Some((path, BoundsReview::of_file(path).ok()?)))
        else {
            return Ok(());
        };
        let sections = review.columns.len();
        let undecided: Vec<&str> = review.undecided.iter().map(String::as_str).collect();
        match unfilled(&review, &undecided, sections) {
            parts if parts.is_empty() => Ok(()),
            parts => Err(usage(format!(
                "{}: {}; fill it in (dpopt help bounds), then: {}",
                path.display(),
                parts.join(", and "),
                check_instead(arguments())
            ))),
        }
    }

    /// The bounds file.
    pub(crate) fn bounds(&self) -> Option<&Path> {
        self.bounds.as_deref()
    }

    /// All declarations together, and where they come from.
    pub(crate) fn schema(&self, target: &str, table: &TableFlags) -> Result<(Schema, Option<String>), Failure> {
        let (mut schema, mut source) = match &self.bounds {
            Some(path) => (Schema::from_toml_file(path).map_err(usage)?, Some(path.display().to_string())),
            None => (Schema::default(), None),
        };
        let numeric = || Kind::Numeric { bounds: None, transform: Transform::Auto };
        let declared = [
            (&self.numeric, numeric as fn() -> Kind),
            (&self.text, || Kind::Text),
            (&self.categorical, || Kind::Hashed),
            (&self.ignore, || Kind::Ignored),
        ];
        for (names, kind) in declared {
            for name in Listed::all(names) {
                schema.declare(&name, kind()).map_err(usage)?;
            }
        }
        if !self.classes.is_empty() {
            schema.set_levels(target, self.classes()).map_err(usage)?;
        }
        if let Some(path) = &self.public_data {
            let public = table.open(std::slice::from_ref(path))?;
            let known = public.columns().iter().any(|c| c.name == target);
            schema.complete_from_public(&*public, known.then_some(target)).map_err(usage)?;
            source = Some(path.display().to_string());
        }
        if let Some(path) = &self.public_vectors {
            schema.vectors = Some(VectorsFile::new(path));
        }
        schema.options.scale_rows |= self.scale_rows;
        schema.options.max_nonzeros = self.max_nonzeros.or(schema.options.max_nonzeros);
        Ok((schema, source))
    }
}
