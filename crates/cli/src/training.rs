//! The flags that `dpopt fit` and `dpopt explain` share: what is learnt, from which table, by which method, at which budget.

mod form;
mod hyperparameters;

use crate::flags::{GUARANTEE, SchemaFlags, TableFlags};
use crate::output::Failure;
use crate::relation::RelationFlag;
use crate::spending::failed;
use crate::typed::{command_line, typed};
use crate::unit::UnitFlags;
use crate::usage;
use crate::workers::Shared;
use clap::{Args, ValueEnum};
use dpopt::RunOptions;
use dpopt::data::{BadCells, DataError, Schema, files_of, same_table};
use dpopt::loss::Loss;
use dpopt::model::{EmbeddingRequest, Fit, FitError, FitOptions, StageShares};
use dpopt::optimize::MethodOptions;
use dpopt::session::LedgerFile;
use dpopt_privacy::{Budget, Neighbours};
use form::ModelFlags;
use hyperparameters::Tuning;
pub(crate) use hyperparameters::argument;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Column to predict (LIBSVM: the label, no need to name it)
    #[arg(long)]
    target: Option<String>,
    /// Privacy budget ε of this run: smaller is more private, 1 is usual
    #[arg(long, allow_negative_numbers = true, required = true)]
    pub(crate) epsilon: Option<f64>,
    /// Privacy budget δ of this run; by default 1/rows^1.1, at most 0.01
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) delta: Option<f64>,
    /// By default regression if the target has a declared range, else classification. A regression without a declared
    /// range finds it privately, for 5 to 30 % of epsilon
    #[arg(long, value_enum)]
    pub(crate) task: Option<Task>,
    /// Loss of a regression. Squared error tells means; poisson tells mean counts, from 0 on: predictions are positive,
    /// and a column multiplies them; quantile tells what a share of the targets stays below, which --quantile sets
    #[arg(long, value_enum, value_name = "LOSS")]
    loss: Option<LossFlag>,
    /// With --loss quantile: the share of targets below the predictions, between 0 and 1. Default 0.5, the median
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    quantile: Option<f64>,
    /// Public bound on a moment of the target, in place of a range: K:M means (E|Y|^K)^(1/K) ≤ M, K:M@A the same of Y
    /// − A. The target is clipped where the clipping bias is about as large as the effect of the noise on predictions
    #[arg(long, value_name = "K:M[@A]", allow_negative_numbers = true)]
    pub(crate) target_moment: Option<String>,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t, help_heading = GUARANTEE)]
    pub(crate) relation: RelationFlag,
    /// Number of rows, if known publicly; under add-or-remove a public guess. By default rows are counted
    #[arg(long, value_name = "ROWS", value_parser = Rows::read, help_heading = GUARANTEE)]
    pub(crate) rows: Option<Rows>,
    /// Whether ε and numbers of rows are tried out, and need not be those of the table
    #[arg(skip)]
    pub(crate) supposed: bool,
    #[command(flatten)]
    pub(crate) unit: UnitFlags,
    /// Method; auto chooses the one with the smallest predicted error. `dpopt help methods` lists them, `dpopt help
    /// METHOD` shows the options of one
    #[arg(long, default_value = "auto")]
    method: String,
    #[command(flatten)]
    form: ModelFlags,
    #[command(flatten)]
    pub(crate) schema: SchemaFlags,
    #[command(flatten)]
    pub(crate) reading: TableFlags,
    /// Number of worker processes on this machine. Each holds the rows of its own files, or blocks of a file, and
    /// reads them before the budget is charged. Only for methods that need nothing but sums over rows. The model is
    /// the same for any number of workers, unless the method samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Reading the table")]
    pub(crate) workers: Option<u32>,
    #[command(flatten)]
    tuning: Tuning,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Task {
    Classification,
    Regression,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum LossFlag {
    Squared,
    Poisson,
    Quantile,
}

/// The value of `--rows`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rows {
    /// So many.
    Known(u64),
    /// They are to be found.
    Sought,
}

impl Rows {
    fn read(given: &str) -> Result<Self, ParseIntError> {
        if given == "?" { Ok(Self::Sought) } else { given.parse().map(Self::Known) }
    }
}

impl Common {
    /// ε of the run.
    pub(crate) fn epsilon(&self) -> Result<f64, Failure> {
        self.epsilon.ok_or_else(|| usage("--epsilon is missing; for example --epsilon 1"))
    }

    /// The public number of rows, if it is given.
    pub(crate) fn rows(&self) -> Result<Option<u64>, Failure> {
        match self.rows {
            None => Ok(None),
            Some(Rows::Known(rows)) => Ok(Some(rows)),
            Some(Rows::Sought) => Err(usage(
                "--rows ? asks how many rows a goal needs; give the goal to dpopt explain, for example --loss-points 2, or \
                 give the number of rows",
            )),
        }
    }

    /// Which tables are neighbours.
    pub(crate) fn neighbours(&self) -> Neighbours {
        self.unit.neighbours(self.relation)
    }

    /// The loss of a number, if one was asked for.
    pub(crate) fn loss(&self) -> Result<Option<Loss>, Failure> {
        if self.loss.is_some() && self.task == Some(Task::Classification) {
            return Err(usage("--loss is for regression; leave it out or use --task regression"));
        }
        let level = match (self.loss, self.quantile) {
            (Some(LossFlag::Quantile), given) => given.unwrap_or(0.5),
            (_, None) => 0.5,
            (_, Some(_)) => {
                return Err(usage("--quantile is the level of --loss quantile; add that loss, or leave it out"));
            }
        };
        if !(level > 0.0 && level < 1.0) {
            return Err(usage(format!("--quantile is {level}; give a number between 0 and 1, such as 0.9")));
        }
        Ok(self.loss.map(|loss| match loss {
            LossFlag::Squared => Loss::Squared,
            LossFlag::Poisson => Loss::Poisson { top: Loss::USUAL_TOP },
            LossFlag::Quantile => Loss::Quantile { level, width: Loss::USUAL_WIDTH },
        }))
    }

    /// The embedding model that was asked for, if one was.
    pub(crate) fn embedding(&self) -> Result<Option<EmbeddingRequest>, Failure> {
        self.form.request()
    }

    pub(crate) fn method(&self) -> Result<MethodOptions, Failure> {
        let mut options = self.tuning.options()?;
        options.method = (self.method != "auto").then(|| self.method.clone());
        options.remote = self.workers.is_some();
        Ok(options)
    }

    /// Public files that are read, by what they are for.
    pub(crate) fn files(&self) -> Vec<(String, Option<&Path>)> {
        let declared = self.schema.files().map(|(role, path)| (role.to_string(), path));
        declared.into_iter().chain(self.tuning.files().map(|(role, path)| (role, Some(path)))).collect()
    }

    /// The column to learn.
    pub(crate) fn target(&self) -> Result<String, Failure> {
        match (&self.target, self.reading.features()) {
            (Some(target), _) => Ok(target.clone()),
            (None, Some(_)) => Ok("label".to_string()),
            (None, None) => Err(usage("no target is given; give --target COLUMN")),
        }
    }

    /// Refuses public data that are the private table under whatever name: the same file, or the same bytes.
    pub(crate) fn not_public(&self, data: &[PathBuf]) -> Result<(), Failure> {
        let Some(public) = &self.schema.files()[1].1 else { return Ok(()) };
        for public in files_of(&[public]).map_err(usage)? {
            for file in files_of(data).map_err(usage)? {
                if same_table(&public, &file).map_err(usage)? {
                    return Err(usage(format!(
                        "--public-data {} is the same table as {}, whose values would be published; give a public \
                         table, or --bounds",
                        public.display(),
                        file.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Everything that is declared about the columns, and where it comes from.
    pub(crate) fn declarations(&self, target: &str) -> Result<(Schema, Option<String>), Failure> {
        self.schema.schema(target, &self.reading)
    }

    pub(crate) fn fit(
        &self,
        data: &[PathBuf],
        ledger: Option<LedgerFile>,
        insecure_seed: Option<u64>,
    ) -> Result<Fit, Failure> {
        let (epsilon, rows) = (self.epsilon()?, self.rows()?);
        Budget::new(epsilon, self.delta.unwrap_or(0.0)).map_err(usage)?;
        let target = self.target()?;
        self.not_public(data)?;
        self.schema.refuse_unfilled()?;
        let (schema, schema_source) = self.declarations(&target)?;
        let table = self.reading.open_declared(data, &schema, &target)?;
        if self.task == Some(Task::Regression) && !self.schema.classes().is_empty() {
            return Err(usage("--classes is for classification; leave it out or use --task classification"));
        }
        if self.task == Some(Task::Classification) && self.target_moment.is_some() {
            return Err(usage("--target-moment needs a numeric target; leave it out, or use --task regression"));
        }
        let rows = match (self.workers.filter(|_| !self.supposed), rows) {
            (Some(_), _) if self.reading.bad_cells() == BadCells::Error => {
                return Err(usage(
                    "--bad-cells error does not work with --workers, which read all rows before the budget is \
                     charged; leave out one of the two",
                ));
            }
            (Some(_), _) if self.reading.quotes_newlines() => {
                return Err(usage(
                    "--quoted-newlines does not work with --workers, which read all rows before the budget is \
                     charged: a quote that is never closed would stop them; leave out one of the two",
                ));
            }
            (Some(_), given) if self.relation != RelationFlag::AddOrRemove => {
                let counted = table.count_rows().map_err(usage)?;
                if given.is_some_and(|given| given != counted) {
                    return Err(usage(format!(
                        "--rows is {}, but the table has {counted} rows; leave it out",
                        given.unwrap_or(0)
                    )));
                }
                Some(counted)
            }
            (_, rows) => rows,
        };
        let mut reading = self.reading.as_said();
        reading.columns = self.reading.declared_options(&schema, &target)?.columns;
        let target_moment = self.target_moment.as_deref().map(str::parse).transpose().map_err(usage)?;
        let options = FitOptions::default()
            .target_moment(target_moment)
            .schema(schema)
            .schema_source(schema_source)
            .shares(StageShares { bounds: self.schema.bounds_budget, ..StageShares::default() })
            .method(self.method()?)
            .registry(crate::methods::registry().clone())
            .embedding(self.embedding()?)
            .loss(self.loss()?)
            .regression(self.task == Some(Task::Regression))
            .classification(self.task == Some(Task::Classification))
            .rows(rows)
            .bad_cells(self.reading.bad_cells())
            .reading(reading)
            // workers keep to it themselves
            .memory(self.reading.memory().filter(|_| self.workers.is_none()));
        let run = RunOptions::within(epsilon)
            .delta(self.delta)
            .relation(self.relation.into())
            .unit(self.unit.options())
            .ledger(ledger)
            .insecure_seed(insecure_seed)
            .command(command_line());
        Fit::new(table, &target, run, options).map_err(|why| match why {
            FitError::Data(DataError::NothingDeclared) => usage(format!("{why}; to start: {}", self.init(data))),
            why => failed(why),
        })
    }

    /// The command that writes a bounds file for the table.
    pub(crate) fn init(&self, data: &[PathBuf]) -> String {
        let data = data.iter().map(|path| path.display().to_string());
        let target = self.target().ok().into_iter().flat_map(|target| ["--target".to_string(), target]);
        typed(std::iter::once("init".to_string()).chain(data).chain(target).chain(self.reading.words()).collect())
    }

    /// What all workers need to encode `data` for `fit`.
    pub(crate) fn shared(&self, fit: &Fit, data: &[PathBuf]) -> Result<Shared, Failure> {
        let target = self.target()?;
        let (schema, _) = self.declarations(&target)?;
        Ok(Shared {
            files: data.to_vec(),
            reading: self.reading.declared_options(&schema, &target)?,
            encoder: fit.encoder_of_partitions().map_err(failed)?,
            vectors: schema.vectors.as_ref().map(|vectors| vectors.path().to_path_buf()),
            most_bytes: self.reading.memory(),
        })
    }
}
