//! The flags of `dpopt mean`, and what every answer's summary ends with.

use crate::flags::TableFlags;
use crate::output::Failure;
use crate::paths::is_standard_output;
use crate::relation::RelationFlag;
use crate::spending::BudgetFile;
use crate::unit::OwnerFlags;
use crate::usage;
use clap::Args;
use dpopt::data::TableReader;
use dpopt::estimate::Moment;
use dpopt::model::Guarantee;
use dpopt_privacy::ledger::Receipt;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Parquet with the list columns `indices` and `values`, LIBSVM (labels are not used), or a table of numbers; several
    /// files are one table
    #[arg(required = true)]
    pub(super) data: Vec<PathBuf>,
    /// About how many entries of a vector (with --unit, of the mean of a unit's vectors) differ from 0: a public guess. A wrong one costs accuracy,
    /// never privacy
    #[arg(long, value_name = "S", required_unless_present = "of", allow_negative_numbers = true)]
    pub(super) sparsity: Option<f64>,
    #[command(flatten)]
    pub(super) columns: ColumnFlags,
    /// ε of the answer
    #[arg(long, allow_negative_numbers = true, help_heading = None)]
    pub(super) epsilon: f64,
    /// δ of the answer; by default 1/n^1.1 for n rows or units, at most 0.01; 0 for a pure guarantee
    #[arg(long, allow_negative_numbers = true)]
    pub(super) delta: Option<f64>,
    /// Vectors longer than this (with --unit, means of a unit's vectors) are shrunk to it
    #[arg(long, value_name = "L", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(super) norm: f64,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t)]
    pub(super) relation: RelationFlag,
    /// Number of rows, if it is public otherwise or (add-or-remove) a public guess; by default rows are counted
    #[arg(long, conflicts_with = "unit")]
    pub(super) rows: Option<u64>,
    #[command(flatten)]
    pub(super) unit: OwnerFlags,
    /// projected-gaussian, projected-laplace or l1-recovery, by default the smallest proved error; with --of clipped-laplace or clipped-gaussian, by default
    /// the narrowest intervals
    #[arg(long)]
    pub(super) method: Option<String>,
    /// Where the answer goes: index,value lines (.csv) or one object (.json), `-` for standard output; entries that are not
    /// there are 0. With --of a line for each column
    #[arg(short, long, value_name = "FILE", default_value = "mean.csv")]
    pub(super) output: PathBuf,
    /// Also write a report: one HTML page, or JSON if the name ends in .json
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Show every method with its noise and proved error; no record is read, nothing is written
    #[arg(long, conflicts_with_all = ["report", "ledger"])]
    pub(super) explain: bool,
    /// Machine-readable plan (with --explain)
    #[arg(long, requires = "explain")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) budget_file: BudgetFile,
    /// Reproducible noise for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N")]
    pub(super) insecure_seed: Option<u64>,
    /// Print nothing but warnings and errors
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) reading: TableFlags,
}

impl Arguments {
    /// Whether the answer is one JSON object.
    pub(super) fn writes_json(&self) -> bool {
        self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
    }

    /// What every answer's summary ends with: what is promised, and where things are.
    pub(super) fn summarise_tail(&self, out: &mut String, g: &Guarantee, receipt: Option<&Receipt>) {
        let _ = writeln!(out, "guarantee   {g}");
        if g.insecure_seed {
            out.push_str("            NO privacy: the noise comes from a fixed seed\n");
        }
        if !is_standard_output(&self.output) {
            let _ = writeln!(out, "answer      {}", self.output.display());
        }
        if let Some(path) = self.report.as_ref().filter(|path| !is_standard_output(path)) {
            let _ = writeln!(out, "report      {}", path.display());
        }
        if let (Some(path), Some(receipt)) = (&self.budget_file.ledger, receipt) {
            let _ = writeln!(out, "ledger      {}, charge {}", path.display(), receipt.number);
        }
    }
}

/// Flags of means of columns.
#[derive(Args)]
#[command(next_help_heading = "Means of columns without a known range")]
pub(super) struct ColumnFlags {
    /// Columns whose means are wanted, each with a confidence interval, in place of a mean of vectors: income,claims
    #[arg(long, value_name = "COLUMNS", requires = "moment", conflicts_with_all = ["sparsity", "norm"])]
    of: Vec<String>,
    /// A public fact about each column: K:M says that the K-th absolute moment's root is at most M, (E|X|^K)^(1/K) ≤ M; K:M@A that of X − A is. K alone says that
    /// there is such an M: centre and scale are released first, and the interval rests on --spread-factor. income=4:60000 for one column, without a name for
    /// all others
    #[arg(long, value_name = "[COLUMN=]K[:M[@A]]", requires = "of", allow_hyphen_values = true)]
    moment: Vec<String>,
    /// With at least this probability all intervals hold at once; 0.95 unless said
    #[arg(long, value_name = "P", requires = "of", allow_negative_numbers = true)]
    pub(super) confidence: Option<f64>,
    /// Where only the order K of a moment is known: the root of the moment about the released centre is assumed to be at most F times the released range, from
    /// about the 10 % to about the 90 % quantile; 2 unless said. Privacy does not rest on it
    #[arg(long, value_name = "F", requires = "of", allow_negative_numbers = true)]
    pub(super) spread_factor: Option<f64>,
}

impl ColumnFlags {
    /// Whether means of columns are asked for.
    pub(super) fn are_asked_for(&self) -> bool {
        !self.of.is_empty()
    }

    /// The columns with their moments. A name may have commas in it: what is the name of a column as a whole is not taken apart.
    pub(super) fn columns(&self, table: &dyn TableReader) -> Result<Vec<(String, Moment)>, Failure> {
        let mut names: Vec<String> = Vec::new();
        for said in &self.of {
            if table.columns().iter().any(|column| column.name == *said) {
                names.push(said.clone());
            } else {
                names.extend(said.split(',').map(|name| name.trim().to_string()));
            }
        }
        let (mut all, mut own) = (None, Vec::new());
        for said in &self.moment {
            match said.rsplit_once('=') {
                None if all.is_none() => all = Some(said.parse::<Moment>().map_err(usage)?),
                None => {
                    return Err(usage("two moments have no column; write --moment COLUMN=K:M for all but one of them"));
                }
                Some((name, moment)) => {
                    if !names.iter().any(|column| column == name) {
                        return Err(usage(format!(
                            "--moment is about `{name}`, which is not among the columns of --of"
                        )));
                    }
                    if own.iter().any(|(column, _)| *column == name) {
                        return Err(usage(format!("`{name}` has two moments; give one")));
                    }
                    own.push((name, moment.parse::<Moment>().map_err(usage)?));
                }
            }
        }
        let with_moment = |name: String| {
            let moment = own.iter().find(|(column, _)| *column == name).map(|(_, moment)| *moment).or(all);
            match moment {
                Some(moment) => Ok((name, moment)),
                None => {
                    Err(usage(format!("what is known of `{name}`? Give --moment {name}=K:M, or --moment K:M for all")))
                }
            }
        };
        names.into_iter().map(with_moment).collect()
    }
}
