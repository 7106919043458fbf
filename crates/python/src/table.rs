//! Tables of Python on the road of the command line: columns → the library's encoder → fit, model file, predictions.

use crate::accounting::{json, relation};
use crate::cells::Given;
use crate::errors::{invalid, refused};
use crate::fit::{described, fit_error, warn_of};
use crate::owners::UnitsAsked;
use crate::parts::Asking;
use crate::session::{Charging, Session};
use crate::stop::interruptible;
use crate::words::{in_python, report_in_python};
use dpopt::data::{
    BadCells, Column, ColumnTable, Encoder, EncoderForm, Kind, Levels, Schema, Stored, TableReader, Unit, VectorsFile,
    WordVectors,
};
use dpopt::loss::Loss;
use dpopt::model::{self, EmbeddingRequest, FitOptions, Model, Predictions, StageShares};
use dpopt::optimize::MethodOptions;
use dpopt::privacy::words::foreign;
use dpopt::records::Parts;
use dpopt::report::{Outcome, Report, Score};
use numpy::ndarray::Array2;
use numpy::{PyArray1, PyArray2, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};

/// Public declarations about columns: a bounds file, and what is said besides as the text of one.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Declarations {
    schema: Schema,
}

#[pymethods]
impl Declarations {
    #[new]
    #[pyo3(signature = (path, text, public_vectors=None))]
    fn new(path: Option<&str>, text: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let mut said = Schema::from_toml(text).map_err(invalid)?;
        said.vectors = public_vectors.map(VectorsFile::new).or(said.vectors);
        let Some(path) = path else { return Ok(Self { schema: said }) };
        let mut schema = Schema::from_toml_file(path).map_err(invalid)?;
        schema.vectors = said.vectors.clone().or(schema.vectors);
        for (name, kind) in said.declared() {
            schema.declare(name, kind.clone()).map_err(invalid)?;
        }
        Ok(Self { schema })
    }

    /// Names of the columns that are declared.
    fn names(&self) -> Vec<String> {
        self.schema.declared().map(|(name, _)| name.to_string()).collect()
    }

    /// What a column is declared to hold, in a word.
    fn kind(&self, column: &str) -> Option<&'static str> {
        self.schema.get(column).map(|kind| match kind {
            Kind::Numeric { .. } => "numeric",
            Kind::Categorical { .. } => "levels",
            Kind::Hashed => "hash",
            Kind::Text => "text",
            Kind::Ignored => "ignore",
        })
    }

    /// The range that is declared for a numeric column, if there is one.
    fn range(&self, column: &str) -> Option<(f64, f64)> {
        match self.schema.get(column) {
            Some(Kind::Numeric { bounds: Some(bounds), .. }) => Some((bounds.lower(), bounds.upper())),
            _ => None,
        }
    }

    /// The levels that are declared for a column, if some are.
    fn levels(&self, column: &str) -> Option<Vec<String>> {
        match self.schema.get(column) {
            Some(Kind::Categorical { levels }) => Some(levels.clone()),
            _ => None,
        }
    }

    /// The declarations without a column.
    fn without(&self, column: &str) -> Self {
        let mut schema = self.schema.clone();
        schema.forget(column);
        Self { schema }
    }
}

/// A table of Python in memory. Its cells cannot be read from Python.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Table {
    pub(crate) inner: ColumnTable,
}

impl Table {
    pub(crate) fn build(name: &str, columns: Vec<(String, Given<'_>)>, declared: Option<&[&str]>) -> PyResult<Self> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.trim().to_string()).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let cells = columns.into_iter().map(|(name, given)| (name, given.cells()));
        let inner = ColumnTable::new(name, cells.collect(), declared.unwrap_or(&all)).map_err(invalid)?;
        Ok(Self { inner })
    }
}

#[pymethods]
impl Table {
    /// Columns for a fit within `declarations`.
    #[new]
    fn new(name: &str, columns: Vec<(String, Given<'_>)>, declarations: &Declarations) -> PyResult<Self> {
        let schema = &declarations.schema;
        let declared: Vec<&str> = schema.declared().map(|(name, _)| name).collect();
        // the ticks of a dtype that rows decide are no unit for bounds: with one other cell they are objects
        for (column, given) in &columns {
            if let (Given::Times(.., false), Some(Kind::Numeric { bounds: Some(bounds), .. })) =
                (given, schema.get(column.trim()))
                && bounds.unit() == Unit::Number
            {
                return Err(invalid(format!(
                    "column `{}` holds dates or spans of time and its bounds are plain numbers; give dates (datetime, Timestamp, \
                     datetime64) or spans (timedelta) as its bounds",
                    foreign(column.trim())
                )));
            }
        }
        Self::build(name, columns, Some(&declared))
    }

    /// Columns that a model or an encoder reads.
    #[staticmethod]
    fn to_read(name: &str, columns: Vec<(String, Given<'_>)>) -> PyResult<Self> {
        Self::build(name, columns, None)
    }

    /// Which of the levels each cell of one column is; -1 where it is none of them.
    #[staticmethod]
    fn codes<'py>(py: Python<'py>, column: Given<'py>, levels: Vec<String>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let table = Self::build("y", vec![("y".into(), column)], None)?;
        if let Some(Column { stored: Stored::Unsupported(kind), .. }) = table.inner.columns().first() {
            return Err(invalid(format!("y has the type {kind}; give one label per row")));
        }
        let (mut codes, levels) = (Vec::new(), Levels::new(&levels));
        let read = table.inner.for_each_block(&mut |block| {
            for row in 0..block.len() {
                codes.push(levels.place(block.field(row, 0)).map_or(-1, i64::from));
            }
            Ok(())
        });
        read.map_err(invalid)?;
        Ok(codes.to_pyarray(py))
    }
}

fn bad_cells(name: &str) -> PyResult<BadCells> {
    match name {
        "error" => Ok(BadCells::Error),
        "missing" => Ok(BadCells::Missing),
        _ => Err(invalid("bad_cells must be \"missing\" or \"error\"")),
    }
}

/// What is fitted, and within what, as the Python side writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    target: String,
    regression: bool,
    relation: String,
    epsilon: f64,
    delta: Option<f64>,
    options: MethodOptions,
    rows: Option<u64>,
    bounds_budget: Option<f64>,
    target_moment: Option<String>,
    bad_cells: String,
    command: String,
    declared_in: Option<String>,
    ledger: Option<String>,
    /// In place of the logistic or the squared one.
    loss: Option<Loss>,
    embedding: Option<EmbeddingAsked>,
    /// Whose rows they are: columns, and what is public of their values.
    unit: Option<(Vec<String>, UnitsAsked)>,
}

/// An embedding model by the names of columns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddingAsked {
    dimension: usize,
    seed: u64,
    towers: Option<(Vec<String>, Vec<String>)>,
}

/// A fit to a table, planned from public facts: to be explained, and run once.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct TableFit {
    inner: Mutex<Option<model::Fit>>,
    ledger: Option<String>,
    /// Where public vectors of words are.
    vectors: Option<String>,
}

fn path_of(file: Option<&VectorsFile>) -> Option<String> {
    file.map(|file| file.path().to_string_lossy().into_owned())
}

/// A file of public vectors, read.
fn vectors_of(py: Python<'_>, path: Option<&str>) -> PyResult<Option<Arc<WordVectors>>> {
    path.map(|path| interruptible(py, || VectorsFile::new(path).vectors())?.map_err(invalid)).transpose()
}

/// A model; its plan and releases as JSON; an upper bound on the standard deviation of the noise in each weight (NaN: none is known);
/// the report.
type Fitted<'py> = (TableModel, (String, u64, usize), String, Bound<'py, PyArray1<f64>>, String);

#[pymethods]
impl TableFit {
    /// Checks everything that is public. `charge` (run, event, ε, δ, relation, unit) is called before a record is read.
    #[new]
    fn new(
        py: Python<'_>,
        table: &Table,
        declarations: &Declarations,
        request: &str,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let r: Request = serde_json::from_str(request).map_err(invalid)?;
        let options = FitOptions {
            target_moment: r.target_moment.as_deref().map(str::parse).transpose().map_err(invalid)?,
            delta: r.delta,
            relation: relation(&r.relation)?,
            unit: r.unit.map(|(columns, units)| units.of_columns(columns)),
            schema: declarations.schema.clone(),
            shares: StageShares { bounds: r.bounds_budget, ..StageShares::default() },
            method: r.options,
            registry: Some(dpopt_methods::registry().clone()),
            embedding: r.embedding.map(|asked| EmbeddingRequest {
                dimension: asked.dimension,
                towers: asked.towers,
                seed: asked.seed,
            }),
            regression: r.regression,
            // an estimator is one or the other
            classification: !r.regression,
            loss: r.loss,
            rows: r.rows,
            bad_cells: bad_cells(&r.bad_cells)?,
            insecure_seed: seed,
            command: Some(r.command),
            schema_source: r.declared_in,
            ..FitOptions::default()
        };
        let vectors = path_of(declarations.schema.vectors.as_ref());
        let table = Box::new(table.inner.clone());
        let fit = interruptible(py, || {
            let fit = model::Fit::new(table, &r.target, r.epsilon, options)?;
            match Charging::account(charge) {
                Some(account) => fit.charging(account),
                None => Ok(fit),
            }
        })?;
        Ok(Self { inner: Mutex::new(Some(fit.map_err(fit_error)?)), ledger: r.ledger, vectors })
    }

    /// Columns that nothing declares and that are taken as categories.
    fn undeclared(&self) -> PyResult<Vec<String>> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(fit.as_ref().ok_or_else(over)?.undeclared().to_vec())
    }

    /// The plan of every method for `classes` classes, if they are not declared: as JSON, with rows and features.
    fn plan(&self, py: Python<'_>, classes: usize) -> PyResult<(String, u64, usize)> {
        interruptible(py, || {
            let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let fit = fit.as_ref().ok_or_else(over)?;
            shown(&fit.planned(classes).map_err(fit_error)?, &fit.forms())
        })?
    }

    /// What every stage of the run is certified for, in order: its event as JSON. Reads no row.
    fn stages(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        interruptible(py, || {
            let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let stages = fit.as_ref().ok_or_else(over)?.stages().map_err(fit_error)?;
            stages.iter().map(|stage| stage.event().to_json().map_err(invalid)).collect()
        })?
    }

    /// Where the target is clipped, if a moment of it says so: as JSON.
    fn target_clip(&self) -> PyResult<Option<String>> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        fit.as_ref().ok_or_else(over)?.target_clip().map(|clip| json(&clip)).transpose()
    }

    /// Whether the labels are to be found privately.
    fn finds_labels(&self) -> PyResult<bool> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(fit.as_ref().ok_or_else(over)?.finds_labels())
    }

    /// How parts of the table are encoded, where they are.
    fn encoder(&self) -> PyResult<ColumnEncoder> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = fit.as_ref().ok_or_else(over)?.encoder_of_parts().map_err(fit_error)?;
        Ok(ColumnEncoder { inner, vectors: self.vectors.clone() })
    }

    /// Charges, prepares, plans, runs.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Fitted<'py>> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(over)?;
        let forms = fit.forms();
        let fitted = interruptible(py, || fit.run())?.map_err(fit_error)?;
        self.released(py, fitted, &forms)
    }

    /// The same of parts of which is `known` how many records each has, and their digest: `ask` hands a question to the [`Shard`](crate::parts::Shard)s and
    /// gives what they answer.
    fn run_elsewhere<'py>(&self, py: Python<'py>, ask: Py<PyAny>, known: Vec<(u64, u64)>) -> PyResult<Fitted<'py>> {
        let fit = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(over)?;
        let forms = fit.forms();
        let asking = Arc::new(Asking::new(ask));
        let parts: Arc<dyn Parts> = asking.clone();
        let fitted = interruptible(py, || fit.run_elsewhere(parts, known))?;
        self.released(py, fitted.map_err(|why| asking.cause(py, fit_error(why)))?, &forms)
    }
}

impl TableFit {
    fn released<'py>(
        &self,
        py: Python<'py>,
        fitted: model::Fitted,
        forms: &[(EncoderForm, String, f64)],
    ) -> PyResult<Fitted<'py>> {
        let model::Fitted { model, report, planned, note } = fitted;
        warn_of(py, note.as_deref())?;
        let noise: Vec<f64> = report.coefficients.iter().map(|c| c.noise.unwrap_or(f64::NAN)).collect();
        let releases = json(&report.releases)?;
        let report = Arc::new(in_words(report, self.ledger.clone()));
        let html = py.detach(|| report_in_python(&report.html()));
        let vectors = self.vectors.clone().filter(|_| model.encoder().needs_vectors());
        Ok((
            TableModel { inner: Arc::new(model), vectors, report: Some(report) },
            shown(&planned, forms)?,
            releases,
            noise.to_pyarray(py),
            html,
        ))
    }
}

fn over() -> PyErr {
    refused("this fit has run; make another")
}

fn shown(planned: &model::Planned, forms: &[(EncoderForm, String, f64)]) -> PyResult<(String, u64, usize)> {
    Ok((described(planned, forms)?, planned.problem.rows, planned.problem.features))
}

/// The report in the words of Python.
fn in_words(mut report: Report, ledger: Option<String>) -> Report {
    report.ledger = ledger;
    report.warnings.iter_mut().chain(&mut report.facts.preparation).for_each(|text| *text = in_python(text));
    for candidate in &mut report.candidates {
        if let Outcome::Refused { not_applicable } = &mut candidate.outcome {
            *not_applicable = in_python(not_applicable);
        }
    }
    report
}

const FOUND_BY_A_SEARCH: &str = "A private search found this model: the guarantee and what was released are those of the search. Candidates, \
    schedule and what is said of the method are those of the run that won, on the rows to train with.";

/// A fitted model with its encoder: what a model file holds.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct TableModel {
    inner: Arc<Model>,
    /// Where the public vectors are that it needs; what a copy reads again.
    vectors: Option<String>,
    /// Of the fit, where it was fitted; a copy has none.
    report: Option<Arc<Report>>,
}

impl TableModel {
    fn with(py: Python<'_>, model: Model, path: Option<&str>) -> PyResult<Self> {
        let model = match vectors_of(py, path)? {
            Some(vectors) => model.with_vectors(vectors).map_err(invalid)?,
            None => model,
        };
        Ok(Self { inner: Arc::new(model), vectors: path.map(str::to_string), report: None })
    }
}

#[pymethods]
impl TableModel {
    #[staticmethod]
    #[pyo3(signature = (text, public_vectors=None))]
    fn from_json(py: Python<'_>, text: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let model = py.detach(|| Model::from_json(text)).map_err(invalid)?;
        Self::with(py, model, public_vectors)
    }

    #[staticmethod]
    #[pyo3(signature = (path, public_vectors=None))]
    fn load(py: Python<'_>, path: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let model = py.detach(|| Model::load(path)).map_err(invalid)?;
        Self::with(py, model, public_vectors)
    }

    /// The model of a run that a private search paid for and its report, with the promise of the search in place of the run's; `score` is the winner's,
    /// as JSON.
    fn found_by(&self, py: Python<'_>, session: &Session, score: &str) -> PyResult<(Self, Option<String>)> {
        let score: Option<Score> = serde_json::from_str(score).map_err(invalid)?;
        let (guarantee, receipt) = session.promised()?;
        let releases = session.released()?;
        let report = self.report.as_deref().map(|run| {
            let mut report =
                Report { guarantee: guarantee.clone(), releases, receipt: receipt.clone(), score, ..run.clone() };
            report.assumptions.push(FOUND_BY_A_SEARCH.into());
            Arc::new(report)
        });
        let html = report.as_ref().map(|report| py.detach(|| report_in_python(&report.html())));
        let inner = Arc::new(self.inner.promising(guarantee, receipt));
        Ok((Self { inner, vectors: self.vectors.clone(), report }, html))
    }

    /// Where the public vectors are that it was fitted or loaded with.
    #[getter]
    fn vectors_path(&self) -> Option<&str> {
        self.vectors.as_deref()
    }

    fn to_json(&self) -> PyResult<String> {
        self.inner.to_json().map_err(invalid)
    }

    fn missing_texts(&self) -> Vec<&'static str> {
        self.inner.encoder().missing_texts().to_vec()
    }

    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| self.inner.save(path)).map_err(invalid)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Copied<'py>> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json()?, slf.get().vectors.clone())))
    }

    /// Name of the target.
    #[getter]
    fn target(&self) -> &str {
        self.inner.target()
    }

    /// Labels in the file's order; of a regression none.
    #[getter]
    fn labels(&self) -> Vec<String> {
        self.inner.labels()
    }

    /// The range of a number that is predicted; that of classes is [-1, 1].
    #[getter]
    fn range(&self) -> (f64, f64) {
        let spec = self.inner.encoder().target().map(|(_, spec)| spec);
        spec.map_or((-1.0, 1.0), |spec| (spec.unscale(-1.0), spec.unscale(1.0)))
    }

    /// Columns of the table that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.encoder().columns().map(str::to_string).collect()
    }

    /// Names of the encoded features.
    fn feature_names(&self) -> Vec<String> {
        feature_names(self.inner.encoder())
    }

    /// Outputs × encoded features; of an embedding model None.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        if self.inner.embedding().is_some() {
            return Ok(None);
        }
        let features = self.inner.encoder().dimension();
        let weights = self.inner.weights().to_vec();
        let matrix = Array2::from_shape_vec((weights.len() / features.max(1), features), weights);
        Ok(Some(matrix.map_err(invalid)?.to_pyarray(py)))
    }

    /// All released weights one after the other, of an embedding model too.
    fn parameters<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.weights().to_pyarray(py)
    }

    /// The form of an embedding model as JSON; of a linear one None.
    fn embedding(&self) -> PyResult<Option<String>> {
        self.inner.embedding().map(json).transpose()
    }

    /// What the weights of each output say of columns and pairs of them, as JSON; nothing of an embedding model.
    fn shapes(&self) -> PyResult<String> {
        json(&self.inner.shapes_of_outputs())
    }

    /// What it promises, as JSON.
    fn guarantee(&self) -> PyResult<String> {
        json(self.inner.guarantee())
    }

    /// The loss that was minimised, as JSON.
    fn loss(&self) -> PyResult<String> {
        json(self.inner.loss())
    }

    /// One score per row and output.
    fn scores<'py>(&self, py: Python<'py>, table: &Table, unreadable: &str) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let unreadable = bad_cells(unreadable)?;
        let scores = interruptible(py, || self.inner.scores(&table.inner, unreadable))?.map_err(invalid)?;
        matrix(py, scores, self.inner.loss().outputs())
    }

    /// Probabilities per row and label in the file's order, or one number per row.
    fn predict<'py>(&self, py: Python<'py>, table: &Table, unreadable: &str) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let unreadable = bad_cells(unreadable)?;
        match interruptible(py, || self.inner.predict(&table.inner, unreadable))?.map_err(invalid)? {
            Predictions::Classes { labels, probabilities } => matrix(py, probabilities, labels.len()),
            Predictions::Values(values) => {
                let rows = values.len();
                Ok(Array2::from_shape_vec((rows, 1), values).map_err(invalid)?.to_pyarray(py))
            }
        }
    }
}

fn matrix(py: Python<'_>, rows: Vec<Vec<f64>>, width: usize) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let shape = (rows.len(), width);
    let flat = rows.into_iter().flatten().collect();
    Ok(Array2::from_shape_vec(shape, flat).map_err(invalid)?.to_pyarray(py))
}

fn feature_names(encoder: &Encoder) -> Vec<String> {
    (0..encoder.dimension()).filter_map(|i| encoder.feature_name(i)).collect()
}

/// The encoder by itself.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct ColumnEncoder {
    pub(crate) inner: Encoder,
    vectors: Option<String>,
}

/// What a copy is made by, and of: JSON, and where public vectors are.
type Copied<'py> = (Bound<'py, PyAny>, (String, Option<String>));

/// Values, columns and offsets of a compressed matrix, and its number of columns.
type Compressed<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, usize);

#[pymethods]
impl ColumnEncoder {
    /// From names and types of the table's columns and what is declared of them; reads no row.
    #[new]
    fn new(py: Python<'_>, table: &Table, declarations: &Declarations) -> PyResult<Self> {
        let schema = &declarations.schema;
        let layout = interruptible(py, || schema.resolve(table.inner.columns(), None))?.map_err(invalid)?;
        let inner = Encoder::new(&layout).map_err(invalid)?;
        let vectors = path_of(schema.vectors.as_ref()).filter(|_| inner.needs_vectors());
        Ok(Self { inner, vectors })
    }

    #[staticmethod]
    #[pyo3(signature = (text, public_vectors=None))]
    fn from_json(py: Python<'_>, text: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let value = serde_json::from_str(text).map_err(|_| invalid("this is not an encoder"))?;
        let encoder = Encoder::from_json(value).map_err(invalid)?;
        let inner = match vectors_of(py, public_vectors)? {
            Some(vectors) => encoder.with_vectors(vectors).map_err(invalid)?,
            None => encoder,
        };
        Ok(Self { inner, vectors: public_vectors.map(str::to_string) })
    }

    fn to_json(&self) -> PyResult<String> {
        json(&self.inner)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Copied<'py>> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json()?, slf.get().vectors.clone())))
    }

    /// Columns of the table that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.columns().map(str::to_string).collect()
    }

    /// Names of the encoded features.
    fn feature_names(&self) -> Vec<String> {
        feature_names(&self.inner)
    }

    /// Encoded rows, for the operator's eyes.
    fn encode<'py>(&self, py: Python<'py>, table: &Table, unreadable: &str) -> PyResult<Compressed<'py>> {
        let unreadable = bad_cells(unreadable)?;
        let rows = interruptible(py, || self.inner.encode_features(&table.inner, unreadable))?.map_err(invalid)?;
        let (mut entries, mut places, mut offsets) = (Vec::new(), Vec::new(), vec![0i64]);
        for i in 0..rows.len() {
            let (columns, values) = rows.row(i);
            entries.extend_from_slice(values);
            places.extend(columns.iter().map(|&column| column as i32));
            offsets.push(entries.len() as i64);
        }
        Ok((entries.to_pyarray(py), places.to_pyarray(py), offsets.to_pyarray(py), self.inner.dimension()))
    }
}
