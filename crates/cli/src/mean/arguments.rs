//! The flags of `dpopt mean`, and what every answer's summary ends with.

use crate::flags::TableFlags;
use crate::output::Failure;
use crate::paths::is_standard_output;
use crate::relation::RelationFlag;
use crate::spending::BudgetFile;
use crate::typed::command_line;
use crate::unit::OwnerFlags;
use crate::usage;
use clap::Args;
use dpopt::RunOptions;
use dpopt::data::TableReader;
use dpopt::estimate::Moment;
use dpopt::model::Guarantee;
use dpopt::session::LedgerFile;
use dpopt_privacy::ledger::Receipt;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Parquet with the list columns `indices` and `values`, LIBSVM (labels are not used), or a table of numbers; several
    /// files are one table
    #[arg(required = true)]
    pub(super) data: Vec<PathBuf>,
    /// Public guess of the number of nonzero entries of a vector (with --unit, of the mean of a unit's vectors). A
    /// wrong guess costs accuracy, never privacy
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
    /// l2 norm that vectors (with --unit, means of a unit's vectors) are clipped to
    #[arg(long, value_name = "L", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(super) norm: f64,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t)]
    pub(super) relation: RelationFlag,
    /// Number of rows, if known publicly; under add-or-remove a public guess. By default rows are counted
    #[arg(long, conflicts_with = "unit")]
    pub(super) rows: Option<u64>,
    #[command(flatten)]
    pub(super) unit: OwnerFlags,
    /// projected-gaussian, projected-laplace or l1-recovery; by default the one with the smallest proved error. With
    /// --of: clipped-laplace or clipped-gaussian; by default the one with the narrowest intervals
    #[arg(long)]
    pub(super) method: Option<String>,
    /// Output: index,value lines (.csv) or one object (.json), `-` for standard output; absent entries are 0. With
    /// --of one line per column
    #[arg(short, long, value_name = "FILE", default_value = "mean.csv")]
    pub(super) output: PathBuf,
    /// Also write a report: one HTML page, or JSON if the name ends in .json
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Show every method with its noise and proved error, and stop: no record is read, nothing is written
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
    /// Options of the run, paid from `ledger`.
    pub(super) fn run(&self, ledger: Option<LedgerFile>) -> RunOptions {
        RunOptions::within(self.epsilon)
            .delta(self.delta)
            .relation(self.relation.into())
            .unit(self.unit.options())
            .ledger(ledger)
            .insecure_seed(self.insecure_seed)
            .command(command_line())
    }

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
    /// Estimate the means of these columns, each with a confidence interval, instead of a mean of vectors:
    /// income,claims
    #[arg(long, value_name = "COLUMNS", requires = "moment", conflicts_with_all = ["sparsity", "norm"])]
    of: Vec<String>,
    /// Public bound on a moment of each column: K:M means (E|X|^K)^(1/K) ≤ M; K:M@A the same of X − A. With K alone M
    /// is unknown: centre and scale are released first, and the interval depends on --spread-factor. income=4:60000
    /// sets it for one column; without a name it is for all others
    #[arg(long, value_name = "[COLUMN=]K[:M[@A]]", requires = "of", allow_hyphen_values = true)]
    moment: Vec<String>,
    /// Probability with which all intervals hold at once, at least; 0.95 by default
    #[arg(long, value_name = "P", requires = "of", allow_negative_numbers = true)]
    pub(super) confidence: Option<f64>,
    /// For moments given by K alone: the moment about the released centre is assumed to be bounded by M = F times the
    /// released range (from about the 10 % to about the 90 % quantile); 2 by default. Privacy does not depend on it
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
                            "--moment names `{name}`, which is not among the columns of --of; add it to --of, or \
                             leave the moment out"
                        )));
                    }
                    if own.iter().any(|(column, _)| *column == name) {
                        return Err(usage(format!("`{name}` has two moments; give only one")));
                    }
                    own.push((name, moment.parse::<Moment>().map_err(usage)?));
                }
            }
        }
        let with_moment = |name: String| {
            let moment = own.iter().find(|(column, _)| *column == name).map(|(_, moment)| *moment).or(all);
            match moment {
                Some(moment) => Ok((name, moment)),
                None => Err(usage(format!(
                    "no moment is given for `{name}`; give --moment {name}=K:M, or --moment K:M \
                                       for all"
                ))),
            }
        };
        names.into_iter().map(with_moment).collect()
    }
}
