//! A fitted model, linear or of embeddings: encoder, released weights, guarantee; one versioned JSON file.

use super::interval::PredictionInterval;
use super::metrics::{self, ClassScores, ClassificationMetrics, Held, LeftOut, RegressionMetrics};
use super::reading::Reading;
use super::{Guarantee, probability};
use crate::provenance::Provenance;
use crate::recall::Facts;
use crate::report::{Effects, Scale};
use dpopt_data::output::write_atomically;
use dpopt_data::{
    BadCells, Block, DataError, Encoder, Shape, TableReader, TargetSpec, Term, Truth, Unit, WordVectors, failure,
};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::records::Rows;
use dpopt_privacy::ledger::Receipt;
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// First field of a model file.
const FORMAT: &str = "dpopt-model";
/// Raised when a field changes its meaning.
const VERSION: u32 = 1;
/// Most bytes of a model file: the largest model that is fitted takes less than 2 GiB.
const LARGEST: u64 = 1 << 32;

/// A model that may be published: everything in it was released under its [`Guarantee`] or is public.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "Stored")]
pub struct Model {
    software: String,
    provenance: Option<Provenance>,
    target: String,
    encoder: Encoder,
    loss: Loss,
    embedding: Option<Embedding>,
    weights: Vec<f64>,
    guarantee: Guarantee,
    receipt: Option<Receipt>,
    reading: Reading,
    interval: Option<PredictionInterval>,
}

/// The file's fields in order.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<E = Encoder> {
    format: String,
    version: u32,
    software: String,
    /// Files of early versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provenance: Option<Provenance>,
    guarantee: Guarantee,
    /// Files of runs without a ledger, and of early versions, have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receipt: Option<Receipt>,
    #[serde(default, skip_serializing_if = "Reading::is_usual")]
    reading: Reading,
    loss: Loss,
    encoder: E,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedding: Option<Embedding>,
    weights: Vec<f64>,
    /// Files of fits without prediction intervals have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interval: Option<PredictionInterval>,
}

/// What is looked at first.
#[derive(Deserialize)]
struct Mark {
    format: String,
    version: u32,
}

/// Why a file is not a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file can't be read.
    #[error("cannot read {path}: {reason}; check the path and its permissions")]
    Unreadable {
        /// The path as it was given.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// Another file, such as a table.
    #[error("{path} is not a model: it does not begin as a JSON object; give the file that a fit wrote")]
    NotAModel {
        /// The path as it was given.
        path: String,
    },
    /// JSON, but not our fields.
    #[error(
        "{path} is not a model of this version of dpopt: {reason}; fit the model again, or use the version that wrote it"
    )]
    Format {
        /// The path as it was given.
        path: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// The file can't be written.
    #[error("cannot write {path}: {reason}; nothing was left there")]
    Unwritable {
        /// The path as it was given.
        path: String,
        /// What the operating system says.
        reason: String,
    },
}

/// What a model says about some rows, in the table's order.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// Predictions of a classifier.
    Classes {
        /// Labels of the K classes.
        labels: Vec<String>,
        /// Per row K probabilities.
        probabilities: Vec<Vec<f64>>,
    },
    /// Regression: values in the target's unit, within its declared range.
    Values(Vec<f64>),
}

impl Predictions {
    /// Appends those of the next rows, by the same model.
    fn append(&mut self, more: Self) {
        match (self, more) {
            (Self::Classes { probabilities, .. }, Self::Classes { probabilities: more, .. }) => {
                probabilities.extend(more)
            }
            (Self::Values(values), Self::Values(more)) => values.extend(more),
            _ => {}
        }
    }
}

/// Exact statistics of a holdout table. **Not private.**
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Evaluation {
    /// Statistics of a classifier.
    Classification(ClassificationMetrics),
    /// Statistics of a regression.
    Regression(RegressionMetrics),
}

impl Model {
    /// From released weights: outputs × features, row-major, or those of an embedding model.
    pub(super) fn new(
        encoder: Encoder,
        loss: Loss,
        embedding: Option<Embedding>,
        weights: Vec<f64>,
        guarantee: Guarantee,
        receipt: Option<Receipt>,
    ) -> Result<Self, String> {
        let Some((target, spec)) = encoder.target() else {
            return Err("its encoder has no target".into());
        };
        let target = target.to_string();
        let outputs = match spec.classes() {
            0 | 2 => 1,
            k => k,
        };
        let expected = match &embedding {
            Some(embedding) => {
                embedding.check(encoder.dimension(), &loss)?;
                embedding.weights(encoder.dimension(), outputs)
            }
            None => outputs * encoder.dimension(),
        };
        if loss.outputs() != outputs || weights.len() != expected {
            return Err("its weights do not fit its encoder and target".into());
        }
        if let Loss::Poisson { top } = loss
            && !(top > 0.0 && top.is_finite())
        {
            return Err("the largest count of its loss is not a number above 0".into());
        }
        if let Loss::Quantile { level, width } = loss
            && !(level > 0.0 && level < 1.0 && width > 0.0 && width.is_finite())
        {
            return Err("the level of its quantile is not between 0 and 1, or its width not above 0".into());
        }
        if weights.iter().any(|w| !w.is_finite()) {
            return Err("a weight is not a finite number".into());
        }
        Ok(Self {
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Some(Provenance::of_this_build()),
            target,
            encoder,
            loss,
            embedding,
            weights,
            guarantee,
            receipt,
            reading: Reading::default(),
            interval: None,
        })
    }

    /// What the model promises about the records it was fitted on.
    pub fn guarantee(&self) -> &Guarantee {
        &self.guarantee
    }

    /// This model with the guarantee and the receipt of the larger run that it was a part of.
    pub fn promising(&self, guarantee: Guarantee, receipt: Option<Receipt>) -> Self {
        Self { guarantee, receipt, ..self.clone() }
    }

    /// The build that fitted it; files of early versions do not say.
    pub fn provenance(&self) -> Option<&Provenance> {
        self.provenance.as_ref()
    }

    /// Which charge of which ledger paid for it, if one did.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// What its file says that a recall is held against.
    pub fn recall_facts(&self) -> Option<Facts> {
        let without_weights = Stored::from(Self { weights: Vec::new(), ..self.clone() });
        Facts::of_release(&serde_json::to_vec(&without_weights).ok()?)
    }

    /// How the table it was fitted on was read.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// With how its table was read, which it remembers.
    pub(super) fn read_as(self, reading: Reading) -> Self {
        Self { reading, ..self }
    }

    /// With prediction intervals, if they were found.
    pub(super) fn with_interval(self, interval: Option<PredictionInterval>) -> Self {
        Self { interval, ..self }
    }

    /// How far around a prediction the target lies, if the fit was asked for that.
    pub fn interval(&self) -> Option<&PredictionInterval> {
        self.interval.as_ref()
    }

    /// Lower and upper end of the prediction interval around a predicted number; `None` if the model has none.
    pub fn interval_around(&self, prediction: f64) -> Option<(f64, f64)> {
        Some(self.interval?.around(prediction, self.range()?))
    }

    /// Name of the target column.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// How rows are encoded.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// This model with the public vectors that its texts need, able to predict.
    ///
    /// # Errors
    /// If it was fitted with others, or with none.
    pub fn with_vectors(self, vectors: Arc<WordVectors>) -> Result<Self, DataError> {
        Ok(Self { encoder: self.encoder.with_vectors(vectors)?, ..self })
    }

    /// Form of an embedding model; `None` for a linear one.
    pub fn embedding(&self) -> Option<&Embedding> {
        self.embedding.as_ref()
    }

    /// Released weights: outputs × features, row-major; for an embedding model as [`Embedding::weights`] counts them.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The loss that was minimised.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    fn target_spec(&self) -> TargetSpec {
        // checked on construction
        self.encoder
            .target()
            .map_or(TargetSpec::Number { lower: -1.0, upper: 1.0, unit: Unit::Number }, |(_, spec)| spec.clone())
    }

    /// Labels in order; empty for regression.
    pub fn labels(&self) -> Vec<String> {
        match self.target_spec() {
            TargetSpec::Classes { levels } => levels,
            TargetSpec::Number { .. } => Vec::new(),
        }
    }

    /// Predictions for a table's rows; the target column may be absent.
    pub fn predict(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Predictions, DataError> {
        let mut all = self.predictions(0, |_| Vec::new());
        self.predict_in_blocks(
            table,
            bad_cells,
            |_, part| part,
            |part| {
                all.append(part);
                Ok::<(), DataError>(())
            },
        )?;
        Ok(all)
    }

    /// Predictions for a table's rows, a block at a time: `work` sees each block with what is predicted for its rows, in threads of this process, and what it makes
    /// of them comes to `take` in the table's order. Neither the table nor its rows are held in memory.
    ///
    /// # Errors
    /// If the table can't be read or has other columns, or `take` stops.
    pub fn predict_in_blocks<R: Send, E: From<DataError>>(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        work: impl Fn(&dyn Block, Predictions) -> R + Sync,
        take: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        let work =
            |block: &dyn Block, rows: Rows| Ok(work(block, self.predictions(rows.len(), |i| self.scores_of(&rows, i))));
        self.encoder.encode_features_in_blocks(table, bad_cells, work, take)
    }

    /// The score of each output for an encoded row: what the loss reads.
    fn scores_of(&self, rows: &Rows, i: usize) -> Vec<f64> {
        let features = self.encoder.dimension();
        let (columns, values) = rows.row(i);
        if let Some(embedding) = &self.embedding {
            return embedding.scores(&self.weights, features, self.loss.outputs(), columns, values);
        }
        self.weights
            .chunks_exact(features)
            .map(|w| columns.iter().zip(values).map(|(&c, &v)| w[c as usize] * f64::from(v)).sum())
            .collect()
    }

    /// Scores of a table's rows, one per output: of two classes the second's; the target column may be absent.
    pub fn scores(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Vec<Vec<f64>>, DataError> {
        let mut all = Vec::new();
        let work =
            |_: &dyn Block, rows: Rows| Ok((0..rows.len()).map(|i| self.scores_of(&rows, i)).collect::<Vec<_>>());
        self.encoder.encode_features_in_blocks(table, bad_cells, work, |part| {
            all.extend(part);
            Ok::<(), DataError>(())
        })?;
        Ok(all)
    }

    /// Predictions for encoded rows.
    pub fn predict_rows(&self, rows: &Rows) -> Predictions {
        let stop = Stop::here();
        let scores = |i: usize| {
            stop.point();
            self.scores_of(rows, i)
        };
        let mut scores: Vec<Vec<f64>> = in_threads(|| (0..rows.len()).into_par_iter().map(scores).collect());
        self.predictions(rows.len(), |i| std::mem::take(&mut scores[i]))
    }

    /// Predictions for `count` rows with these scores.
    fn predictions(&self, count: usize, mut scores: impl FnMut(usize) -> Vec<f64>) -> Predictions {
        match self.target_spec() {
            TargetSpec::Classes { levels } => {
                let of = |i| {
                    let mut scores = scores(i);
                    if let [margin] = scores[..] {
                        let p = probability::of_margin(&self.loss, margin);
                        vec![1.0 - p, p]
                    } else {
                        probability::softmax(&mut scores);
                        scores
                    }
                };
                Predictions::Classes { labels: levels, probabilities: (0..count).map(of).collect() }
            }
            // outside the declared range no target can be
            spec @ TargetSpec::Number { .. } => {
                Predictions::Values((0..count).map(|i| spec.unscale(self.loss.prediction(scores(i)[0]))).collect())
            }
        }
    }

    /// Exact, *not private* statistics on a table with known targets, which are scored as they stand: also beyond the range of the
    /// model's answers. Rows whose target is missing, unreadable or not one of the labels are left out and counted; `None` if that leaves
    /// none. What is held of a row is its probability of each class (of two, of the second), or its two numbers.
    pub fn evaluate(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Option<Evaluation>, DataError> {
        let truths = self.encoder.truth_reader(table, bad_cells)?;
        let work = |block: &dyn Block, rows: Rows| {
            Ok((self.predictions(rows.len(), |i| self.scores_of(&rows, i)), truths(block)?))
        };
        let mut left_out = LeftOut::default();
        let mut classes = ClassScores::new(&self.labels());
        let (mut chosen, mut known) = (Vec::new(), Vec::new());
        self.encoder.encode_features_in_blocks(table, bad_cells, work, |(predictions, truths)| {
            for (i, truth) in truths.into_iter().enumerate() {
                match (truth, &predictions) {
                    (Truth::Class(k), Predictions::Classes { probabilities, .. }) => classes.add(&probabilities[i], k),
                    (Truth::Number(y), Predictions::Values(values)) => {
                        chosen.push(values[i]);
                        known.push(y);
                    }
                    (Truth::Class(_) | Truth::Number(_), _) => {}
                    (Truth::Missing, _) => left_out.missing += 1,
                    (Truth::Undeclared, _) => left_out.undeclared += 1,
                    (Truth::Unreadable, _) => left_out.unreadable += 1,
                }
            }
            Ok::<(), DataError>(())
        })?;
        Ok(match self.target_spec() {
            TargetSpec::Classes { .. } => classes.finish(left_out).map(Evaluation::Classification),
            TargetSpec::Number { .. } => {
                let range = self.range().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                let scored = metrics::regression(&chosen, &known, range, left_out);
                let counts = matches!(self.loss, Loss::Poisson { .. });
                let deviance = || metrics::Deviance::new(&chosen, &known).filter(|_| counts);
                let intervals = || {
                    let ends: Option<Vec<(f64, f64)>> = chosen.iter().map(|y| self.interval_around(*y)).collect();
                    Some(Held::of(self.interval?.level, &ends?, &known))
                };
                let pinball = || match self.loss {
                    Loss::Quantile { level, .. } => metrics::Pinball::new(level, &chosen, &known),
                    _ => None,
                };
                scored.map(|scored| {
                    let own = RegressionMetrics {
                        deviance: deviance(),
                        pinball: pinball(),
                        intervals: intervals(),
                        ..scored
                    };
                    Evaluation::Regression(own)
                })
            }
        })
    }

    /// What the weights of each output say of each column and pair of columns, for drawings; of two classes those of the second. Nothing of an embedding
    /// model.
    pub fn shapes_of_outputs(&self) -> Vec<Vec<Shape>> {
        match self.embedding {
            Some(_) => Vec::new(),
            None => self.weights.chunks_exact(self.encoder.dimension()).map(|one| self.encoder.shapes(one)).collect(),
        }
    }

    /// The columns and pairs of columns of each output's sum, and the mean of what each adds, on the scale of scores. Nothing of an embedding model.
    pub fn terms_of_outputs(&self) -> Vec<Vec<Term>> {
        match self.embedding {
            Some(_) => Vec::new(),
            None => self.weights.chunks_exact(self.encoder.dimension()).map(|one| self.encoder.terms(one)).collect(),
        }
    }

    /// What the weights say of each column, on the scale of the answer. Nothing of an embedding model, or where no column has a range or levels.
    pub(super) fn effects(&self) -> Option<Effects> {
        let shapes = self.shapes_of_outputs();
        let hashed: Vec<String> = self.encoder.columns_of_slots().into_iter().map(str::to_string).collect();
        if self.embedding.is_some() || (hashed.is_empty() && shapes.iter().all(Vec::is_empty)) {
            return None;
        }
        let labels = self.labels();
        let (scale, factor) = match (self.range(), &labels[..], self.loss) {
            (Some(_), _, Loss::Poisson { .. }) => (Scale::LogMean { target: self.target.clone() }, 1.0),
            (Some((lower, upper)), ..) => (Scale::Number { target: self.target.clone() }, 0.5 * (upper - lower)),
            (None, [_, class], Loss::Logistic { shift: 0.0 }) => (Scale::LogOdds { class: class.clone() }, 1.0),
            (None, [_, class], _) => (Scale::Score { class: class.clone() }, 1.0),
            _ => (Scale::Scores { classes: labels }, 1.0),
        };
        Some(Effects::new(scale, shapes, factor, hashed))
    }

    /// The range of the target, if it is a number.
    pub fn range(&self) -> Option<(f64, f64)> {
        match self.target_spec() {
            TargetSpec::Number { lower, upper, .. } => Some((lower, upper)),
            TargetSpec::Classes { .. } => None,
        }
    }

    /// Whether weight `index` is that of a slot of a hash.
    pub(super) fn is_slot(&self, index: usize) -> bool {
        match &self.embedding {
            None => self.encoder.is_slot(index % self.encoder.dimension()),
            Some(embedding) => self.encoder.is_slot(index / embedding.width()),
        }
    }

    /// The weights that say something one by one, with their places: all of a linear model, those of single features (b_j) of
    /// two towers, none of a sum of embeddings.
    pub fn coefficients(&self) -> impl Iterator<Item = (usize, f64)> {
        let (first, step) = match &self.embedding {
            None => (0, 1),
            Some(e) if e.towers.is_some() => (e.dimension, e.width()),
            Some(_) => (self.weights.len(), 1),
        };
        self.weights.iter().copied().enumerate().skip(first).step_by(step)
    }

    /// Name of weight `index`: the feature, and the class where there are several outputs; for embeddings `feature[3]`, `feature`
    /// alone for b_j, `(output)[3]` for V.
    pub fn weight_name(&self, index: usize) -> String {
        let features = self.encoder.dimension();
        let named = |at: usize| self.encoder.feature_name(at).unwrap_or_else(|| format!("feature {at}"));
        let Some(embedding) = &self.embedding else {
            return self.of_class(named(index % features), index / features);
        };
        let (k, w) = (embedding.dimension, embedding.width());
        match index.checked_sub(features * w) {
            Some(at) => self.of_class(format!("(output)[{}]", at % k), at / k),
            None if index % w == k => named(index / w),
            None => format!("{}[{}]", named(index / w), index % w),
        }
    }

    fn of_class(&self, name: String, output: usize) -> String {
        match self.labels().get(output) {
            Some(label) if self.loss.outputs() > 1 => format!("{name} → {label}"),
            _ => name,
        }
    }

    /// The model as JSON text.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// Writes the model file: all of it or nothing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ModelError> {
        let path = path.as_ref();
        let unwritable = |reason: String| ModelError::Unwritable { path: path.display().to_string(), reason };
        let text = self.to_json().map_err(|e| unwritable(e.to_string()))?;
        write_atomically(path, text.as_bytes()).map_err(|e| unwritable(e.to_string()))
    }

    /// Reads a model file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let name = || path.display().to_string();
        let unreadable = |e: std::io::Error| ModelError::Unreadable { path: name(), reason: failure(&e) };
        let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
        // a table given by mistake may be large, and a device may have no end
        if !file.fill_buf().map_err(unreadable)?.trim_ascii_start().starts_with(b"{") {
            return Err(ModelError::NotAModel { path: name() });
        }
        let mut text = String::new();
        file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > LARGEST {
            return Err(unreadable(std::io::ErrorKind::FileTooLarge.into()));
        }
        Self::from_json(&text).map_err(|reason| ModelError::Format { path: name(), reason })
    }

    /// Reads the text of a model file. Errors tell kinds and places, never what stands there: it may be a table.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let mark: Mark =
            serde_json::from_str(text).map_err(|e| format!("format and version are not at its top ({})", place(&e)))?;
        if mark.format != FORMAT {
            return Err(format!("its format is not {FORMAT}"));
        }
        if mark.version != VERSION {
            return Err(format!("it has version {}, this is {VERSION}", mark.version));
        }
        let stored: Stored<serde_json::Value> = serde_json::from_str(text)
            .map_err(|e| format!("a field is missing, unknown or of another type ({})", place(&e)))?;
        let encoder = Encoder::from_json(stored.encoder).map_err(|e| e.to_string())?;
        let Stored { loss, embedding, weights, guarantee, receipt, reading, provenance, interval, .. } = stored;
        if let Some(interval) = &interval {
            interval.check()?;
        }
        let mut model = Self::new(encoder, loss, embedding, weights, guarantee, receipt)?;
        (model.software, model.provenance, model.reading) = (stored.software, provenance, reading);
        if interval.is_some() && model.range().is_none() {
            return Err("it has prediction intervals, and predicts no number".into());
        }
        model.interval = interval;
        Ok(model)
    }
}

/// Where a parser stopped, without its words: they may quote the file.
fn place(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

impl From<Model> for Stored {
    fn from(model: Model) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            software: model.software,
            provenance: model.provenance,
            guarantee: model.guarantee,
            receipt: model.receipt,
            reading: model.reading,
            loss: model.loss,
            encoder: model.encoder,
            embedding: model.embedding,
            weights: model.weights,
            interval: model.interval,
        }
    }
}
