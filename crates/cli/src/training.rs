//! The flags that `dpopt fit` and `dpopt explain` share: what is learnt, from which table, by which method, at which budget.

mod form;
mod hyperparameters;

use crate::flags::{GUARANTEE, SchemaFlags, TableFlags};
use crate::output::Failure;
use crate::relation::RelationFlag;
use crate::spending::{command_line, failed};
use crate::unit::UnitFlags;
use crate::usage;
use crate::workers::Shared;
use clap::{Args, ValueEnum};
use dpopt::data::{BadCells, Schema, files_of, same_table};
use dpopt::model::{EmbeddingRequest, Fit, FitOptions, StageShares};
use dpopt::optimize::MethodOptions;
use dpopt::session::LedgerFile;
use dpopt_privacy::{Budget, Neighbours};
use form::ModelFlags;
use hyperparameters::Tuning;
pub(crate) use hyperparameters::argument;
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Column to learn (LIBSVM: the label, no need to name it)
    #[arg(long)]
    target: Option<String>,
    /// ε of everything that is released
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) epsilon: f64,
    /// δ of everything that is released; by default 1/rows^1.1, at most 0.01
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) delta: Option<f64>,
    /// By default: regression if the target has a declared range, else classification. A regression without one finds it privately, for 5 to 30 % of
    /// epsilon
    #[arg(long, value_enum)]
    pub(crate) task: Option<Task>,
    /// A public fact about the target of a regression in place of a range: K:M says that (E|Y|^K)^(1/K) ≤ M, K:M@A that of Y − A. The target is clipped where that
    /// takes from its mean about as much as noise moves predictions
    #[arg(long, value_name = "K:M[@A]", allow_negative_numbers = true)]
    pub(crate) target_moment: Option<String>,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t, help_heading = GUARANTEE)]
    pub(crate) relation: RelationFlag,
    /// Number of rows, if it is public otherwise or (add-or-remove) a public guess; by default rows are counted
    #[arg(long, help_heading = GUARANTEE)]
    pub(crate) rows: Option<u64>,
    #[command(flatten)]
    pub(crate) unit: UnitFlags,
    /// Method; auto takes the best prediction. `dpopt help methods` lists them, `dpopt help METHOD` shows the options of one
    #[arg(long, default_value = "auto")]
    method: String,
    #[command(flatten)]
    form: ModelFlags,
    #[command(flatten)]
    pub(crate) schema: SchemaFlags,
    #[command(flatten)]
    pub(crate) reading: TableFlags,
    /// Processes on this machine that hold the rows, each its own files (or blocks of them, where files are fewer); they read before the budget is charged. The model is the
    /// same for any number of them, but for sampled sums. For methods that need sums of rows only
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

impl Common {
    /// Which tables are neighbours.
    pub(crate) fn neighbours(&self) -> Neighbours {
        self.unit.neighbours(self.relation)
    }

    /// The embedding model that was asked for, if one was.
    pub(crate) fn embedding(&self) -> Result<Option<EmbeddingRequest>, Failure> {
        self.form.request()
    }

    pub(crate) fn method(&self) -> Result<MethodOptions, Failure> {
        let mut options = self.tuning.options()?;
        options.method = (self.method != "auto").then(|| self.method.clone());
        options.elsewhere = self.workers.is_some();
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
            (None, None) => Err(usage("name the column to learn: --target COLUMN")),
        }
    }

    /// Refuses public data that are the private table under whatever name: the same file, or the same bytes.
    pub(crate) fn not_public(&self, data: &[PathBuf]) -> Result<(), Failure> {
        let Some(public) = &self.schema.files()[1].1 else { return Ok(()) };
        for public in files_of(&[public]).map_err(usage)? {
            for file in files_of(data).map_err(usage)? {
                if same_table(&public, &file).map_err(usage)? {
                    return Err(usage(format!(
                        "--public-data {} is the same table as {}: what is found in it would be published; give a table that is not \
                         sensitive, or --bounds",
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
        Budget::new(self.epsilon, self.delta.unwrap_or(0.0)).map_err(usage)?;
        let target = self.target()?;
        self.not_public(data)?;
        let (schema, schema_source) = self.declarations(&target)?;
        let table = self.reading.open_declared(data, &schema, &target)?;
        if self.task == Some(Task::Regression) && !self.schema.classes().is_empty() {
            return Err(usage("--classes is for classification; leave it out or use --task classification"));
        }
        if self.task == Some(Task::Classification) && self.target_moment.is_some() {
            return Err(usage("--target-moment is about a number; leave it out or use --task regression"));
        }
        let rows = match (self.workers, self.rows) {
            (Some(_), _) if self.reading.bad_cells() == BadCells::Error => {
                return Err(usage(
                    "workers read all rows before the budget is charged, so what cannot be read has to count as missing: leave out --bad-cells error",
                ));
            }
            (Some(_), _) if self.reading.quotes_newlines() => {
                return Err(usage(
                    "workers read all rows before the budget is charged, and a quote that nothing closes would end that: leave out --quoted-newlines or --workers",
                ));
            }
            (Some(_), given) if self.relation != RelationFlag::AddOrRemove => {
                let counted = table.count_rows().map_err(usage)?;
                if given.is_some_and(|given| given != counted) {
                    return Err(usage(format!(
                        "--rows says {}, and the table has {counted}; leave it out",
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
        let options = FitOptions {
            target_moment,
            delta: self.delta,
            relation: self.relation.into(),
            unit: self.unit.options(),
            schema,
            shares: StageShares { bounds: self.schema.bounds_budget, ..StageShares::default() },
            method: self.method()?,
            registry: Some(dpopt_methods::registry().clone()),
            embedding: self.embedding()?,
            regression: self.task == Some(Task::Regression),
            classification: self.task == Some(Task::Classification),
            loss: None,
            rows,
            ledger,
            bad_cells: self.reading.bad_cells(),
            reading,
            // workers keep to it themselves
            memory: self.reading.memory().filter(|_| self.workers.is_none()),
            insecure_seed,
            command: Some(command_line()),
            schema_source,
        };
        Fit::new(table, &target, self.epsilon, options).map_err(failed)
    }

    /// What workers are told together, to encode `data` for `fit`.
    pub(crate) fn shared(&self, fit: &Fit, data: &[PathBuf]) -> Result<Shared, Failure> {
        let target = self.target()?;
        let (schema, _) = self.declarations(&target)?;
        Ok(Shared {
            files: data.to_vec(),
            reading: self.reading.declared_options(&schema, &target)?,
            encoder: fit.encoder_of_parts().map_err(failed)?,
            vectors: schema.vectors.as_ref().map(|vectors| vectors.path().to_path_buf()),
            most_bytes: self.reading.memory(),
        })
    }
}
