//! Tables of Python by the steps of the command line: fit, model file, predictions.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::face::pythonic;
use crate::fit::{described, fit_error, warn_of};
use crate::kept::held;
use crate::ledger::known_faults;
use crate::owners::UnitsAsked;
use crate::partitions::Asking;
use crate::session::{Charging, Session};
use crate::stop::interruptible;
use crate::table::{ColumnEncoder, Copied, Declarations, Table, bad_cells, feature_names, path_of, vectors_of};
use dpopt::data::{EncoderForm, TargetRule};
use dpopt::loss::Loss;
use dpopt::model::{self, EmbeddingRequest, FitOptions, Model, Predictions, StageShares};
use dpopt::optimize::MethodOptions;
use dpopt::progress::Silent;
use dpopt::records::Partitions;
use dpopt::report::{Report, Score};
use dpopt_process::stop::paced;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::{Arc, Mutex};

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
    /// The loss, in place of the logistic or the squared one.
    loss: Option<Loss>,
    embedding: Option<EmbeddingAsked>,
    /// Columns that name the units, and what is public of their values.
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
        let embedding = r.embedding.map(|asked| EmbeddingRequest {
            dimension: asked.dimension,
            towers: asked.towers,
            seed: asked.seed,
        });
        let options = FitOptions::default()
            .target_moment(r.target_moment.as_deref().map(str::parse).transpose().map_err(invalid)?)
            .schema(declarations.schema.clone())
            .schema_source(r.declared_in)
            .shares(StageShares { bounds: r.bounds_budget, ..StageShares::default() })
            .method(r.options)
            .registry(dpopt_methods::registry().clone())
            .embedding(embedding)
            .regression(r.regression)
            // an estimator is one or the other
            .classification(!r.regression)
            .loss(r.loss)
            .rows(r.rows)
            .bad_cells(bad_cells(&r.bad_cells)?);
        let run = Charging::run((r.epsilon, r.delta, &r.relation), charge, seed)?;
        let run = run.unit(r.unit.map(|(columns, units)| units.of_columns(columns))).command(r.command);
        let vectors = path_of(declarations.schema.vectors.as_ref());
        let table = Box::new(table.inner.clone());
        let fit = interruptible(py, || model::Fit::new(table, &r.target, run, options))?;
        Ok(Self { inner: Mutex::new(Some(fit.map_err(fit_error)?)), ledger: r.ledger, vectors })
    }

    /// Columns that nothing declares and that are taken as categories.
    fn undeclared(&self) -> PyResult<Vec<String>> {
        let fit = held(&self.inner)?;
        Ok(fit.as_ref().ok_or_else(over)?.undeclared().to_vec())
    }

    /// The plan of every method for `classes` classes, if they are not declared: as JSON, with rows and features.
    fn plan(&self, py: Python<'_>, classes: usize) -> PyResult<(String, u64, usize)> {
        interruptible(py, || {
            let fit = held(&self.inner)?;
            let fit = fit.as_ref().ok_or_else(over)?;
            shown(&*fit.planned(classes).map_err(fit_error)?, &fit.forms())
        })?
    }

    /// What every stage of the run is certified for, in order: its event as JSON. Reads no row.
    fn stages(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        interruptible(py, || {
            let fit = held(&self.inner)?;
            let stages = fit.as_ref().ok_or_else(over)?.stages().map_err(fit_error)?;
            stages.iter().map(|stage| stage.event().to_json().map_err(invalid)).collect()
        })?
    }

    /// Where the target is clipped, if a moment of it says so: as JSON.
    fn target_clip(&self) -> PyResult<Option<String>> {
        let fit = held(&self.inner)?;
        fit.as_ref().ok_or_else(over)?.target_clip().map(|clip| json(&clip)).transpose()
    }

    /// The range of a number that is predicted, if it is known before the run.
    fn target_range(&self) -> PyResult<Option<(f64, f64)>> {
        let fit = held(&self.inner)?;
        Ok(match fit.as_ref().ok_or_else(over)?.layout().target {
            Some((_, TargetRule::Number { lower, upper, .. })) => Some((lower, upper)),
            _ => None,
        })
    }

    /// Whether the labels are to be found privately.
    fn finds_labels(&self) -> PyResult<bool> {
        let fit = held(&self.inner)?;
        Ok(fit.as_ref().ok_or_else(over)?.finds_labels())
    }

    /// How parts of the table are encoded, where they are.
    fn encoder(&self) -> PyResult<ColumnEncoder> {
        let fit = held(&self.inner)?;
        let inner = fit.as_ref().ok_or_else(over)?.encoder_of_partitions().map_err(fit_error)?;
        Ok(ColumnEncoder { inner, vectors: self.vectors.clone() })
    }

    /// Charges, prepares, plans, runs.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Fitted<'py>> {
        let fit = held(&self.inner)?.take().ok_or_else(over)?;
        let forms = fit.forms();
        let fitted = interruptible(py, || fit.run())?.map_err(fit_error)?;
        self.released(py, fitted, &forms)
    }

    /// Charges, prepares, plans and runs on partitions; `known` is the number of records of each and their digest, and `ask` sends an aggregate query to the
    /// [`Shard`](crate::partitions::Shard)s and returns their answers.
    fn run_remote<'py>(&self, py: Python<'py>, ask: Py<PyAny>, known: Vec<(u64, u64)>) -> PyResult<Fitted<'py>> {
        let fit = held(&self.inner)?.take().ok_or_else(over)?;
        let forms = fit.forms();
        let asking = Arc::new(Asking::new(ask));
        let parts: Arc<dyn Partitions> = asking.clone();
        let fitted = interruptible(py, || fit.run_remote(parts, known, &Silent))?;
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
        let report = Arc::new(Report { ledger: self.ledger.clone(), ..report });
        let html = interruptible(py, || pythonic(|| report.html()))?;
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
    refused("this fit has run already; make another")
}

fn shown(planned: &model::Planned, forms: &[(EncoderForm, String, f64)]) -> PyResult<(String, u64, usize)> {
    Ok((described(planned, forms)?, planned.problem.rows, planned.problem.features))
}

const FOUND_BY_A_SEARCH: &str = "A private search chose this model: the guarantee and the releases are those of the \
                                 search. Candidates, schedule and method are those of the winning run, on the \
                                 training rows.";

/// A fitted model with its encoder: what a model file holds.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct TableModel {
    inner: Arc<Model>,
    /// Where the public vectors are that it needs; what a copy reads again.
    vectors: Option<String>,
    /// Report of the fit, where it was fitted; a copy has none.
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
        let model = interruptible(py, || Model::from_json(text))?.map_err(invalid)?;
        Self::with(py, model, public_vectors)
    }

    #[staticmethod]
    #[pyo3(signature = (path, public_vectors=None))]
    fn load(py: Python<'_>, path: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let model = interruptible(py, || Model::load(path))?.map_err(invalid)?;
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
        let html = interruptible(py, || report.as_ref().map(|report| pythonic(|| report.html())))?;
        let inner = Arc::new(self.inner.promising(guarantee, receipt));
        Ok((Self { inner, vectors: self.vectors.clone(), report }, html))
    }

    /// Where the public vectors are that it was fitted or loaded with.
    #[getter]
    fn vectors_path(&self) -> Option<&str> {
        self.vectors.as_deref()
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.inner.to_json()).map_err(invalid)
    }

    /// The recalls that concern the model or may, and for each the sentence to show, as JSON; by the list that ships and the file of a newer one.
    #[pyo3(signature = (newer=None))]
    fn recalls(&self, py: Python<'_>, newer: Option<&str>) -> PyResult<String> {
        py.detach(|| {
            let recalls = known_faults(newer)?;
            let facts = self.inner.recall_facts();
            let notices = facts.iter().flat_map(|facts| recalls.of(facts));
            json(&notices.map(|notice| (notice.document(), notice.to_string())).collect::<Vec<_>>())
        })
    }

    fn missing_texts(&self) -> Vec<&'static str> {
        self.inner.encoder().missing_texts().to_vec()
    }

    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| self.inner.save(path)).map_err(invalid)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Copied<'py>> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(slf.py())?, slf.get().vectors.clone())))
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

    /// Level and half the width of prediction intervals, and whether ends keep to the target's range; None where there are none.
    fn interval(&self) -> Option<(f64, f64, bool)> {
        let interval = self.inner.interval()?;
        Some((interval.level, interval.half_width.unwrap_or(f64::INFINITY), interval.within_range))
    }

    /// Columns of the table that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.encoder().columns().map(str::to_string).collect()
    }

    /// Names of the encoded features.
    fn feature_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        feature_names(py, self.inner.encoder())
    }

    /// Outputs × encoded features; of an embedding model None.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        if self.inner.embedding().is_some() {
            return Ok(None);
        }
        let features = self.inner.encoder().dimension();
        let weights = self.inner.weights().to_vec();
        let matrix = Array2::from_shape_vec((weights.len() / features.max(1), features), weights);
        Ok(Some(matrix.map_err(invalid)?.into_pyarray(py)))
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
    fn shapes(&self, py: Python<'_>) -> PyResult<String> {
        interruptible(py, || json(&self.inner.shapes_of_outputs()))?
    }

    /// The columns and pairs of columns of each output's sum, as JSON; nothing of an embedding model.
    fn terms(&self, py: Python<'_>) -> PyResult<String> {
        interruptible(py, || json(&self.inner.terms_of_outputs()))?
    }

    /// The value of every row's first feature, where rows are not scaled as a whole; 0 where there is no constant.
    fn constant(&self) -> f64 {
        self.inner.encoder().constant().unwrap_or(0.0)
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
        let scores = interruptible(py, || {
            let scores = self.inner.scores(&table.inner, unreadable).map_err(invalid)?;
            matrix(scores, self.inner.loss().outputs())
        })??;
        Ok(scores.into_pyarray(py))
    }

    /// Probabilities per row and label in the file's order, or one number per row.
    fn predict<'py>(&self, py: Python<'py>, table: &Table, unreadable: &str) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let unreadable = bad_cells(unreadable)?;
        let predicted =
            interruptible(py, || match self.inner.predict(&table.inner, unreadable).map_err(invalid)? {
                Predictions::Classes { labels, probabilities } => matrix(probabilities, labels.len()),
                Predictions::Values(values) => Array2::from_shape_vec((values.len(), 1), values).map_err(invalid),
            })??;
        Ok(predicted.into_pyarray(py))
    }
}

fn matrix(rows: Vec<Vec<f64>>, width: usize) -> PyResult<Array2<f64>> {
    let shape = (rows.len(), width);
    let flat = paced(rows).flatten().collect();
    Array2::from_shape_vec(shape, flat).map_err(invalid)
}
