//! `dpopt fit` and `dpopt explain`: the same flags, with and without reading records.

use crate::flags::{SchemaFlags, TableFlags};
use crate::output::{Failure, note, print, print_json, table};
use crate::progress::Bar;
use crate::relation::RelationFlag;
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::mechanism::{Correlation, PeelingLaw};
use dpopt::loss::embedding::Embedding;
use dpopt::model::{EmbeddingRequest, Fit, FitError, FitOptions, LedgerFile, StageShares};
use dpopt::optimize::{AdaptiveOptions, AdaptiveRule, Domain, EmbeddingOptions, InnerSteps, MethodOptions, Moments, RateSchedule, Regime, Regimes, Selection, Subspace, candidates};
use dpopt::output::write_all_atomically;
use dpopt::plan::Problem;
use dpopt::report::{CandidateRow, Outcome, number, probability};
use dpopt_privacy::{Budget, Relation};
use std::path::{Path, PathBuf};

#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Column to learn (LIBSVM: the label, no need to name it)
    #[arg(long)]
    target: Option<String>,
    /// ε of everything that is released
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of everything that is released; by default 1/rows^1.1
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// By default: regression if the target has a declared range, else classification
    #[arg(long, value_enum)]
    task: Option<Task>,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t)]
    relation: RelationFlag,
    /// Number of rows, if it is public otherwise or (add-or-remove) a public guess; by default rows are counted
    #[arg(long)]
    rows: Option<u64>,
    /// Most memory for encoded rows, e.g. 512M or 2G: further rows go to an unnamed temporary file, and noisy-sgd reads them in
    /// batches
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// Method; auto takes the best prediction
    #[arg(long, default_value = "auto")]
    method: String,
    #[command(flatten)]
    form: ModelFlags,
    #[command(flatten)]
    schema: SchemaFlags,
    #[command(flatten)]
    reading: TableFlags,
    #[command(flatten)]
    tuning: Tuning,
}

/// Linear, or vectors per feature.
#[derive(Args, Clone)]
#[command(next_help_heading = "Embedding models")]
struct ModelFlags {
    /// What is fitted
    #[arg(long, value_enum, default_value_t)]
    model: ModelFlag,
    /// Numbers per feature of an embedding model
    #[arg(long, value_name = "K", default_value_t = 16)]
    embedding_dim: usize,
    /// two-tower: columns that say who (LIBSVM: a range of feature numbers, 1-1000)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    user_columns: Vec<String>,
    /// two-tower: columns that say what
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    item_columns: Vec<String>,
    /// Public seed of the values that embeddings start at
    #[arg(long, value_name = "N", default_value_t = 0)]
    embedding_seed: u64,
    /// Adaptive steps instead of momentum; --moments, --public-moments and the domain flags apply then
    #[arg(long, value_enum)]
    embedding_update: Option<UpdateFlag>,
    /// Train only the embeddings of features that a noisy count of each batch chooses: the model stays sparse
    #[arg(long)]
    select_rows: bool,
    /// --select-rows: noise of the counts over noise of the gradients
    #[arg(long, value_name = "RATIO", requires = "select_rows", allow_negative_numbers = true)]
    count_noise: Option<f64>,
    /// --select-rows: level of the noisy counts, in standard deviations of their noise
    #[arg(long, value_name = "LEVEL", requires = "select_rows", allow_negative_numbers = true)]
    count_level: Option<f64>,
}

/// `--model`.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
enum ModelFlag {
    /// A weight per feature (and class)
    #[default]
    Linear,
    /// Scores are linear in the sum of the features' vectors
    Embedding,
    /// The score is the product of a user's and an item's vector, plus a weight per feature
    TwoTower,
}

/// `--embedding-update`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UpdateFlag {
    /// One adaptive rate, as pasan
    Scalar,
    /// A rate per weight, as pagan
    Diagonal,
    /// As dp-adam
    Adam,
}

impl ModelFlags {
    fn request(&self) -> Result<Option<EmbeddingRequest>, Failure> {
        let towers = !(self.user_columns.is_empty() && self.item_columns.is_empty());
        let towers = match self.model {
            ModelFlag::TwoTower if self.user_columns.is_empty() || self.item_columns.is_empty() => {
                return Err(usage("--model two-tower needs --user-columns and --item-columns"));
            }
            ModelFlag::TwoTower => Some((self.user_columns.clone(), self.item_columns.clone())),
            _ if towers => return Err(usage("--user-columns and --item-columns are for --model two-tower")),
            ModelFlag::Linear if self.select_rows => {
                return Err(usage("--select-rows is for embedding models; add --model embedding or --model two-tower"));
            }
            ModelFlag::Linear if self.embedding_update.is_some() => {
                return Err(usage("--embedding-update is for embedding models; for linear ones choose --method pagan, pasan or dp-adam"));
            }
            ModelFlag::Linear => return Ok(None),
            ModelFlag::Embedding => None,
        };
        let selection = Selection { noise_ratio: self.count_noise, level: self.count_level, ..Selection::default() };
        Ok(Some(EmbeddingRequest {
            dimension: self.embedding_dim,
            towers,
            seed: self.embedding_seed,
            selection: self.select_rows.then_some(selection),
            update: self.embedding_update.map(|flag| match flag {
                UpdateFlag::Scalar => AdaptiveRule::Scalar,
                UpdateFlag::Diagonal => AdaptiveRule::Diagonal,
                UpdateFlag::Adam => AdaptiveRule::Adam,
            }),
        }))
    }
}

/// Hyper-parameters; all of them are chosen from public facts.
#[derive(Args, Clone)]
#[command(next_help_heading = "Hyper-parameters (chosen from public facts; no need to set any)")]
struct Tuning {
    /// Number of noisy steps
    #[arg(long)]
    steps: Option<u64>,
    /// Step size on the mean loss
    #[arg(long, allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// How the step size falls during the run (descent methods)
    #[arg(long, value_enum)]
    rate_schedule: Option<RateFlag>,
    /// Norm bound on one record's gradient
    #[arg(long, allow_negative_numbers = true)]
    clip_norm: Option<f64>,
    /// Probability of a record to enter a batch
    #[arg(long, allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// λ of the sum of losses
    #[arg(long, allow_negative_numbers = true)]
    regularization: Option<f64>,
    /// Heavy-ball momentum
    #[arg(long, allow_negative_numbers = true)]
    momentum: Option<f64>,
    /// dp-ftrl: how the noises of the steps are correlated
    #[arg(long, value_enum)]
    correlation: Option<CorrelationFlag>,
    /// regularized-descent: features are publicly known to decay like k^-C over their directions
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    gradient_decay: Option<f64>,
    /// regularized-descent: features are publicly known to lie in R directions
    #[arg(long, value_name = "R", conflicts_with = "gradient_decay")]
    gradient_rank: Option<u64>,
    /// Public guess of the norm of the best weights (regularized-descent, sparse-output-perturbation)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    distance: Option<f64>,
    /// At most this many features with a weight that is not zero (the intercept not counted)
    #[arg(long, value_name = "K")]
    max_features: Option<u64>,
    /// With --max-features: features kept after the first step
    #[arg(long, value_name = "K", requires = "max_features")]
    initial_features: Option<u64>,
    /// With --max-features: share of the budget for fitting the chosen features again; 0 for none
    #[arg(long, value_name = "SHARE", requires = "max_features", allow_negative_numbers = true)]
    refit_share: Option<f64>,
    /// peeling: how a feature is picked [default: the better prediction]
    #[arg(long, value_enum, requires = "max_features")]
    peeling: Option<PeelingFlag>,
    /// dp-svrg-ht, dp-scsg-ht: norm bound on the change of a record's gradient since the snapshot
    #[arg(long, requires = "max_features", allow_negative_numbers = true)]
    difference_clip: Option<f64>,
    /// dp-scsg-ht: probability of a record to enter a snapshot
    #[arg(long, requires = "max_features", allow_negative_numbers = true)]
    snapshot_probability: Option<f64>,
    /// dp-scsg-ht: how many inner steps an epoch has
    #[arg(long, value_enum, requires = "max_features")]
    inner_steps: Option<InnerStepsFlag>,
    /// frank-wolfe: largest l1 norm of the weights
    #[arg(long, value_name = "LAMBDA", allow_negative_numbers = true)]
    l1_norm: Option<f64>,
    /// frank-wolfe: all slopes are computed anew every N steps; 1 for exact gradients
    #[arg(long, value_name = "N")]
    refresh_every: Option<u64>,
    /// Shift of the logistic loss: 2 for accuracy, 0 for calibrated probabilities
    #[arg(long, allow_negative_numbers = true)]
    shift: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: where the shape of clip and noise comes from [default: private for pasan and pagan, else none]
    #[arg(long, value_enum)]
    moments: Option<MomentsFlag>,
    /// Public root mean squares of the encoded features, one number per line in the order of the weights: the shape of clip and noise
    #[arg(long, value_name = "FILE", conflicts_with = "moments")]
    public_moments: Option<PathBuf>,
    /// pdp-sgd: project on the K leading directions of the features, released for a share of the budget
    #[arg(long, value_name = "K", conflicts_with = "subspace_first")]
    subspace_rank: Option<usize>,
    /// pdp-sgd: project on the first K encoded features, publicly known to matter most
    #[arg(long, value_name = "K")]
    subspace_first: Option<usize>,
    /// --moments private, --subspace-rank: share of the budget for moments or directions
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    moment_share: Option<f64>,
    /// --moments private-halving: public bound r on the features' moment ratio, 1 for bounded or Gaussian ones
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    moment_ratio: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: every weight stays within ±R
    #[arg(long, value_name = "R", conflicts_with = "ball_radius", allow_negative_numbers = true)]
    box_radius: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: the weights' norm stays within R
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    ball_radius: Option<f64>,
    /// dp-adam: decay of the mean of squared gradients
    #[arg(long, allow_negative_numbers = true)]
    second_momentum: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: clip to the nearest point of the ellipsoid instead of radially (slow)
    #[arg(long)]
    euclidean_clip: bool,
    /// exponential-mechanism: draws that share the budget; the answer is their mean
    #[arg(long)]
    draws: Option<u64>,
    /// exponential-mechanism: as many evaluations whatever the data, at many times the cost
    #[arg(long)]
    constant_time: bool,
}

/// `--moments`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MomentsFlag {
    /// A release of the features' mean squares before the first step
    Private,
    /// Round by round from the largest down: for features with light tails
    PrivateHalving,
    /// From the gradients released so far
    Running,
    /// None: the same noise for every weight
    None,
}

impl Tuning {
    fn adaptive(&self) -> Result<AdaptiveOptions, Failure> {
        let chosen = self.moments.map(|flag| match flag {
            MomentsFlag::Private => Moments::Private,
            MomentsFlag::PrivateHalving => Moments::PrivateHalving,
            MomentsFlag::Running => Moments::Running,
            MomentsFlag::None => Moments::None,
        });
        let moments = match &self.public_moments {
            Some(path) => Some(Moments::Public { spreads: numbers(path)? }),
            None => chosen,
        };
        let domain = match (self.box_radius, self.ball_radius) {
            (Some(radius), _) => Some(Domain::Box { radius }),
            (None, Some(radius)) => Some(Domain::Ball { radius }),
            (None, None) => None,
        };
        Ok(AdaptiveOptions {
            moments,
            subspace: match (self.subspace_rank, self.subspace_first) {
                (Some(rank), _) => Some(Subspace::Private { rank }),
                (None, Some(rank)) => Some(Subspace::Coordinates { rank }),
                (None, None) => None,
            },
            moment_share: self.moment_share,
            moment_ratio: self.moment_ratio,
            domain,
            euclidean_clip: self.euclidean_clip,
            second_momentum: self.second_momentum,
            lazy: None,
        })
    }
}

/// A public file with one number per line.
fn numbers(path: &Path) -> Result<Vec<f64>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    text.lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| line.parse().map_err(|_| usage(format!("{}: line {} is not a number", path.display(), i + 1))))
        .collect()
}

/// `--peeling`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PeelingFlag {
    /// Exponential mechanism: the largest scores with one Gumbel noise each
    Gumbel,
    /// Report-noisy-max with fresh Laplace noise for every pick
    Laplace,
    /// The better prediction
    Auto,
}

/// `--inner-steps`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum InnerStepsFlag {
    /// Snapshot batch over inner batch
    Fixed,
    /// Geometric with that mean
    Geometric,
}

/// `--rate-schedule`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RateFlag {
    /// One step size
    Constant,
    /// In equal steps down to an eighth
    Linear,
    /// Along half a cosine, down to a hundredth
    Cosine,
    /// As 1/√(1 + stage), eight stages
    InverseSqrt,
}

impl From<RateFlag> for RateSchedule {
    fn from(flag: RateFlag) -> Self {
        match flag {
            RateFlag::Constant => Self::Constant,
            RateFlag::Linear => Self::Linear,
            RateFlag::Cosine => Self::Cosine,
            RateFlag::InverseSqrt => Self::InverseSqrt,
        }
    }
}

/// `--correlation`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CorrelationFlag {
    /// Four buffers: near the best for one epoch, memory of four models
    Blt,
    /// Square root, as many bands as an epoch has steps: best for several epochs
    Banded,
    /// Binary tree, a fresh one per epoch
    Tree,
    /// None, for comparison
    Independent,
}

impl From<CorrelationFlag> for Correlation {
    fn from(flag: CorrelationFlag) -> Self {
        match flag {
            CorrelationFlag::Blt => Self::Blt,
            CorrelationFlag::Banded => Self::Banded,
            CorrelationFlag::Tree => Self::Tree,
            CorrelationFlag::Independent => Self::Independent,
        }
    }
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
    let size = number.parse::<u64>().ok().filter(|n| *n > 0).and_then(|n| n.checked_shl(shift).filter(|s| s >> shift == n));
    size.ok_or_else(|| "write a size like 512M or 2G".into())
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Task {
    Classification,
    Regression,
}

impl Common {
    fn method(&self) -> Result<MethodOptions, Failure> {
        let t = &self.tuning;
        Ok(MethodOptions {
            method: (self.method != "auto").then(|| self.method.clone()),
            steps: t.steps,
            learning_rate: t.learning_rate,
            rate_schedule: t.rate_schedule.map(RateSchedule::from),
            clip_norm: t.clip_norm,
            sampling_probability: t.sampling_probability,
            regularization: t.regularization,
            momentum: t.momentum,
            shift: t.shift,
            max_features: t.max_features,
            initial_features: t.initial_features,
            refit_share: t.refit_share,
            l1_norm: t.l1_norm,
            refresh_every: t.refresh_every,
            difference_clip: t.difference_clip,
            snapshot_probability: t.snapshot_probability,
            peeling: t.peeling.and_then(|flag| match flag {
                PeelingFlag::Gumbel => Some(PeelingLaw::Gumbel),
                PeelingFlag::Laplace => Some(PeelingLaw::Laplace),
                PeelingFlag::Auto => None,
            }),
            inner_steps: t.inner_steps.map(|flag| match flag {
                InnerStepsFlag::Fixed => InnerSteps::Fixed,
                InnerStepsFlag::Geometric => InnerSteps::Geometric,
            }),
            // known once the columns are
            intercept: None,
            correlation: t.correlation.map(Correlation::from),
            embedding: None,
            gradient_decay: t.gradient_decay,
            gradient_rank: t.gradient_rank,
            distance: t.distance,
            draws: t.draws,
            constant_time: t.constant_time.then_some(true),
            adaptive: t.adaptive()?,
        })
    }

    fn fit(&self, data: &[PathBuf], ledger: Option<LedgerFile>, insecure_seed: Option<u64>) -> Result<Fit, Failure> {
        Budget::new(self.epsilon, self.delta.unwrap_or(0.0)).map_err(usage)?;
        let target = match (&self.target, self.reading.features()) {
            (Some(target), _) => target.clone(),
            (None, Some(_)) => "label".to_string(),
            (None, None) => return Err(usage("name the column to learn: --target COLUMN")),
        };
        let (schema, schema_source) = self.schema.schema(&target, &self.reading)?;
        let table = self.reading.open(data)?;
        if self.task == Some(Task::Regression) && !self.schema.classes.is_empty() {
            return Err(usage("--classes is for classification; leave it out or use --task classification"));
        }
        let options = FitOptions {
            delta: self.delta,
            relation: self.relation.into(),
            schema,
            shares: StageShares { bounds: self.schema.bounds_budget, ..StageShares::default() },
            method: self.method()?,
            embedding: self.form.request()?,
            regression: self.task == Some(Task::Regression),
            rows: self.rows,
            ledger,
            bad_cells: self.reading.bad_cells(),
            memory: self.memory,
            insecure_seed,
            command: Some(command_line()),
            schema_source,
        };
        Fit::new(table, &target, self.epsilon, options).map_err(failed)
    }
}

#[derive(Args)]
pub(crate) struct FitArguments {
    /// CSV, TSV, Parquet or LIBSVM file, also gzipped; several files, or directories of files, with the same columns are one
    /// table
    #[arg(required = true)]
    data: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Where the model goes
    #[arg(short, long, value_name = "FILE", default_value = "model.json")]
    output: PathBuf,
    /// Also write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible noise for tests: NO privacy
    #[arg(long, value_name = "N")]
    insecure_seed: Option<u64>,
    /// Print nothing but warnings and errors
    #[arg(short, long)]
    quiet: bool,
}

/// A budget kept in a file across runs.
#[derive(Args, Clone)]
pub(crate) struct BudgetFile {
    /// Budget file of this data set, kept across runs; charged before any record is read
    #[arg(long, value_name = "FILE", requires = "total_epsilon")]
    ledger: Option<PathBuf>,
    /// ε that all runs on this data set may spend together
    #[arg(long, requires = "ledger", allow_negative_numbers = true)]
    total_epsilon: Option<f64>,
    /// δ that all runs on this data set may spend together; by default that of this run
    #[arg(long, requires = "ledger", allow_negative_numbers = true)]
    total_delta: Option<f64>,
}

impl BudgetFile {
    /// The file, if one was given; refuses what it has no room for, before the table is opened.
    pub(crate) fn open(&self, epsilon: f64, delta: Option<f64>, relation: Relation) -> Result<Option<LedgerFile>, Failure> {
        let (Some(path), Some(total)) = (&self.ledger, self.total_epsilon) else { return Ok(None) };
        let total_delta = self.total_delta.or(delta).ok_or_else(|| {
            usage("a ledger needs a fixed delta: give --total-delta (or --delta) besides --total-epsilon")
        })?;
        let file = LedgerFile { path: path.clone(), total: Budget::new(total, total_delta).map_err(usage)? };
        let budget = Budget::new(epsilon, delta.unwrap_or(file.total.delta())).map_err(usage)?;
        file.refuse_hopeless(relation, budget).map_err(failed)?;
        Ok(Some(file))
    }
}

/// The files of a run.
pub(crate) struct Outputs<'a> {
    /// Model or mean.
    pub(crate) answer: &'a Path,
    /// HTML.
    pub(crate) report: Option<&'a Path>,
}

impl Outputs<'_> {
    /// Fails early, before a budget is spent on an answer that could not be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        writable(self.answer)?;
        self.report.map_or(Ok(()), writable)
    }
}

/// Both files or none.
pub(crate) fn write_outputs(outputs: &Outputs<'_>, answer: &str, html: Option<&str>) -> Result<(), Failure> {
    let mut files = vec![(outputs.answer, answer.as_bytes())];
    if let (Some(path), Some(html)) = (outputs.report, html) {
        files.push((path, html.as_bytes()));
    }
    write_all_atomically(&files).map_err(|e| {
        let paths: Vec<String> = files.iter().map(|f| f.0.display().to_string()).collect();
        Failure::machine(format!(
            "cannot write {}: {}; nothing was left there, and the budget of this run is spent",
            paths.join(" and "),
            e.kind()
        ))
    })
}

pub(crate) fn fit(arguments: &FitArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let ledger = arguments.budget_file.open(common.epsilon, common.delta, common.relation.into())?;
    let outputs = Outputs { answer: &arguments.output, report: arguments.report.as_deref() };
    outputs.check()?;
    let fit = common.fit(&arguments.data, ledger, arguments.insecure_seed)?;
    for warning in fit.warnings() {
        note(format!("warning: {warning}"));
    }
    let fitted = fit.run_with(&Bar::new()).map_err(failed)?;
    let json = fitted.model.to_json().map_err(Failure::machine)?;
    let html = arguments.report.as_ref().map(|_| fitted.report.html());
    write_outputs(&outputs, &json, html.as_deref())?;
    if arguments.quiet { Ok(()) } else { print(&summary(arguments, &fitted)) }
}

/// A few lines about a run.
fn summary(arguments: &FitArguments, fitted: &dpopt::model::Fitted) -> String {
    let report = &fitted.report;
    let g = &report.guarantee;
    let mut out = format!(
        "{}: {}, {} rows, {} features\n",
        report.facts.target, report.facts.task, report.facts.rows, report.facts.features
    );
    if let Some(CandidateRow { method, outcome: Outcome::Planned(p) }) = report.candidates.get(report.chosen) {
        out.push_str(&format!(
            "method      {method}: noise multiplier {}, {} {}, predicted excess risk {}\n",
            number(p.noise_multiplier),
            p.steps,
            if p.steps == 1 { "step" } else { "steps" },
            number(p.predicted_excess_risk)
        ));
        out.push_str(&format!("            because {}\n", report.why_chosen()));
    }
    out.push_str(&format!(
        "guarantee   epsilon {} (certified {:.6}), delta {}, per row, {}\n",
        g.epsilon,
        g.certified_epsilon,
        probability(g.delta),
        g.relation
    ));
    if g.insecure_seed {
        out.push_str("            NO privacy: the noise comes from a fixed seed\n");
    }
    out.push_str(&format!("model       {}\n", arguments.output.display()));
    if let Some(path) = &arguments.report {
        out.push_str(&format!("report      {}\n", path.display()));
    }
    if let Some(path) = &arguments.budget_file.ledger {
        out.push_str(&format!("ledger      {}\n", path.display()));
    }
    out
}

#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// The table; only its header is read, and its rows are counted unless --rows is given
    #[arg(required_unless_present = "features")]
    data: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    /// Without a table: number of classes, or 0 for regression
    #[arg(long, value_name = "K", default_value_t = 2)]
    class_count: u32,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Explained {
    epsilon: f64,
    delta: f64,
    model_epsilon: f64,
    model_delta: f64,
    problem: Problem,
    weights: usize,
    candidates: Vec<CandidateRow>,
    warnings: Vec<String>,
}

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let (explained, read) = match arguments.data.as_slice() {
        data @ [_, ..] => {
            let e = common.fit(data, None, None)?.explain(arguments.class_count as usize).map_err(failed)?;
            let read = if common.rows.is_some() {
                "only the header was read"
            } else {
                "only the header was read, and rows were counted without looking at their values"
            };
            let explained = Explained {
                epsilon: e.budget.epsilon(),
                delta: e.budget.delta(),
                model_epsilon: e.division.model.epsilon(),
                model_delta: e.division.model.delta(),
                problem: e.problem,
                weights: e.weights,
                candidates: e.candidates.iter().map(CandidateRow::from).collect(),
                warnings: e.warnings,
            };
            (explained, read)
        }
        [] => (from_numbers(arguments)?, "no table was opened"),
    };
    if arguments.json {
        return print_json(&explained);
    }
    for warning in &explained.warnings {
        note(format!("warning: {warning}"));
    }
    print(&shown(&explained, read))
}

/// `dpopt explain --rows N --features D`.
fn from_numbers(arguments: &ExplainArguments) -> Result<Explained, Failure> {
    let common = &arguments.common;
    let Some(rows) = common.rows.filter(|n| *n >= 2) else {
        return Err(usage("give --rows N (at least 2), or a table to count"));
    };
    let features = common.reading.features().and_then(|d| usize::try_from(d).ok()).filter(|d| *d >= 1);
    let Some(features) = features else {
        return Err(usage("give --features D (at least 1), or a table"));
    };
    let delta = common.delta.unwrap_or_else(|| (rows as f64).powf(-1.1));
    let budget = Budget::new(common.epsilon, delta).map_err(usage)?;
    let classes = match common.schema.classes.len() {
        0 => arguments.class_count,
        1 => common.schema.classes[0].parse().unwrap_or(1),
        k => u32::try_from(k).unwrap_or(u32::MAX),
    };
    let regression = common.task == Some(Task::Regression) || classes == 0;
    let loss = match classes {
        _ if regression => dpopt::loss::Loss::Squared,
        1 => return Err(usage("one class leaves nothing to tell apart; give at least two")),
        2 => dpopt::loss::Loss::Logistic { shift: 0.0 },
        classes => dpopt::loss::Loss::Softmax { classes },
    };
    let relation = Relation::from(common.relation);
    let nonzeros = common.schema.max_nonzeros.map_or(features, |s| features.min(s as usize));
    let problem = Problem { rows, features, nonzeros, row_norm: 1.0, loss, relation };
    let mut method = common.method()?;
    method.embedding = match common.form.request()? {
        Some(asked) if asked.towers.is_some() => {
            return Err(usage("a two-tower model needs a table that says which features are whose"));
        }
        Some(asked) => Some(EmbeddingOptions {
            model: Embedding { dimension: asked.dimension, towers: None, seed: asked.seed },
            selection: asked.selection,
            update: asked.update,
        }),
        None => None,
    };
    Ok(Explained {
        epsilon: budget.epsilon(),
        delta: budget.delta(),
        model_epsilon: budget.epsilon(),
        model_delta: budget.delta(),
        candidates: candidates(&problem, budget, &method).iter().map(CandidateRow::from).collect(),
        weights: method.embedding.as_ref().map_or(problem.weights(), |e| e.model.weights(features, loss.outputs())),
        problem,
        warnings: Vec::new(),
    })
}

fn shown(e: &Explained, read: &str) -> String {
    let p = &e.problem;
    let mut out = format!(
        "{} rows, {} features, {} weights, {}; epsilon {}, delta {}\n",
        p.rows,
        p.features,
        e.weights,
        p.relation,
        e.epsilon,
        probability(e.delta)
    );
    if e.model_epsilon < e.epsilon {
        out.push_str(&format!(
            "of which the model gets epsilon {}, delta {}; the rest pays for private labels or bounds\n",
            number(e.model_epsilon),
            probability(e.model_delta)
        ));
    }
    out.push_str(&format!("{read}\n\n"));
    let rows: Vec<Vec<String>> = e
        .candidates
        .iter()
        .map(|c| match &c.outcome {
            Outcome::Planned(row) => vec![
                c.method.clone(),
                number(row.noise_multiplier),
                row.steps.to_string(),
                number(row.gradients),
                number(row.predicted_excess_risk),
                format!("{:.6}", (row.epsilon * 1e6).ceil() / 1e6),
                probability(row.delta),
                row.accountant.clone(),
            ],
            Outcome::Refused { not_applicable } => vec![c.method.clone(), format!("not applicable: {not_applicable}")],
        })
        .collect();
    let headings = ["method", "#noise", "#steps", "#gradients", "#excess risk", "#epsilon", "#delta", "accountant"];
    out.push_str(&table(&headings, &rows));
    for candidate in &e.candidates {
        if let Outcome::Planned(row) = &candidate.outcome {
            row.notes.iter().for_each(|note| out.push_str(&format!("\n{}: {note}\n", candidate.method)));
        }
    }
    if let Some(regime) = regime(e) {
        out.push_str(&format!("\n{regime}\n"));
    }
    out
}

/// Where sparse rows put a problem, if a row has fewer entries than there are features (spec 15 §10).
fn regime(e: &Explained) -> Option<String> {
    let p = &e.problem;
    let budget = Budget::new(e.model_epsilon, e.model_delta).ok().filter(|_| p.nonzeros < p.features)?;
    let borders = Regimes::of(p, budget);
    let (enough, dense) = (number(borders.enough), number(borders.dense));
    Some(match borders.at(p.rows as f64) {
        Regime::TooFew => format!("regime: too few rows; nothing is proved to beat the answer 0 below {enough}"),
        Regime::Sparse => format!(
            "regime: sparse; from {enough} to {dense} rows the worst-case error of sparse methods grows with ln d, that of others with √d: \
             without --method one of the former is taken"
        ),
        Regime::Dense => format!("regime: dense; from {dense} rows on noise in every weight costs less than a sparse answer"),
    })
}

/// Exit code 1 for the machine's failures, 2 for everything the user can mend.
pub(crate) fn failed(error: FitError) -> Failure {
    match error {
        FitError::Entropy(e) => Failure::machine(e),
        FitError::Spent(inner) if matches!(*inner, FitError::Entropy(_)) => Failure::machine(FitError::Spent(inner)),
        other => usage(other),
    }
}

/// Fails early, before a budget is spent on an answer that could not be written.
fn writable(path: &std::path::Path) -> Result<(), Failure> {
    let directory = match path.parent() {
        Some(d) if !d.as_os_str().is_empty() => d,
        _ => std::path::Path::new("."),
    };
    if path.is_dir() {
        return Err(usage(format!("{} is a directory; give a file name", path.display())));
    }
    if !directory.is_dir() {
        return Err(usage(format!("{} does not exist; create it first", directory.display())));
    }
    Ok(())
}

/// The command as it can be typed again.
pub(crate) fn command_line() -> String {
    let mut words = vec!["dpopt".to_string()];
    for argument in std::env::args_os().skip(1) {
        let word = argument.to_string_lossy().into_owned();
        let plain = !word.is_empty()
            && word.chars().all(|c| c.is_alphanumeric() || "-_./=,:+@%".contains(c));
        words.push(if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) });
    }
    words.join(" ")
}
