//! Objectives that the library evaluates itself: their parameters as JSON, their records as arrays.

use crate::errors::invalid;
use crate::seeds::noise;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::objective::{Entry, Factorization, Layer, Network, NetworkLoss, Objective, ScoreLoss, Scored};
use dpopt::records::{Examples, Rows};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;

/// What an objective is.
#[derive(Clone, Deserialize)]
#[serde(tag = "objective", rename_all = "kebab-case")]
enum Told {
    Scored { loss: ScoreLoss, features: usize },
    Factorization { rows: usize, columns: usize, rank: usize },
    Network { input: [usize; 3], layers: Vec<Layer>, loss: NetworkLoss },
}

/// One of the library's objectives.
#[derive(Clone)]
pub(crate) enum Kind {
    Scored(Scored),
    Factorization(Factorization),
    Network(Network),
}

#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct NativeObjective {
    pub(crate) kind: Kind,
}

/// Wider than any row: gradients are clipped, rows need not be.
const ROW_NORM: f64 = 1e30;

#[pymethods]
impl NativeObjective {
    /// From what is told of it, as JSON.
    #[new]
    fn new(told: &str) -> PyResult<Self> {
        let kind = match serde_json::from_str(told).map_err(invalid)? {
            Told::Scored { loss, features } => {
                loss.check().map_err(invalid)?;
                Kind::Scored(Scored::new(loss, features))
            }
            Told::Factorization { rows, columns, rank } => {
                let numbers = rows.checked_add(columns).and_then(|all| all.checked_mul(rank));
                if rows == 0 || columns == 0 || rank == 0 || numbers.is_none_or(|n| n > 1 << 28) {
                    return Err(invalid(
                        "rows, columns and rank must be at least 1, with at most 2^28 parameters in all",
                    ));
                }
                Kind::Factorization(Factorization::new(rows, columns, rank))
            }
            Told::Network { input, layers, loss } => {
                Kind::Network(Network::new(input, &layers, loss).map_err(invalid)?)
            }
        };
        Ok(Self { kind })
    }

    /// d.
    fn dimension(&self) -> usize {
        match &self.kind {
            Kind::Scored(scored) => Objective::<Examples>::dimension(scored),
            Kind::Factorization(factorization) => factorization.dimension(),
            Kind::Network(network) => network.parameters(),
        }
    }

    /// The clip norm where none is given.
    fn usual_clip_norm(&self) -> f64 {
        match &self.kind {
            Kind::Scored(scored) => Objective::<Examples>::usual_clip_norm(scored),
            Kind::Factorization(factorization) => factorization.usual_clip_norm(),
            Kind::Network(network) => network.usual_clip_norm(),
        }
    }

    /// Where to start: no record has a part in it.
    fn start<'py>(&self, py: Python<'py>, seed: Option<u64>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let mut source: NoiseSource = noise(seed)?;
        let mut coins = source.stream(Purpose::Initialisation, 0);
        let mut normal = || coins.standard_normal();
        let dimension = self.dimension();
        Ok(match &self.kind {
            Kind::Scored(_) => vec![0.0; dimension],
            Kind::Factorization(_) => (0..dimension).map(|_| 0.1 * normal()).collect(),
            Kind::Network(network) => network.start(normal),
        }
        .to_pyarray(py))
    }

    /// A network's outputs for each row.
    fn outputs(&self, x: PyReadonlyArray1<'_, f64>, rows: PyReadonlyArray2<'_, f64>) -> PyResult<Vec<Vec<f64>>> {
        let (x, Kind::Network(network)) = (x.as_array().to_vec(), &self.kind) else {
            return Err(invalid("only networks have outputs"));
        };
        if x.len() != network.parameters() {
            return Err(invalid("these are not the parameters of this network"));
        }
        Ok(rows.as_array().outer_iter().map(|row| network.outputs(&x, &row.to_vec())).collect())
    }
}

/// Rows with their targets.
pub(crate) fn examples(rows: &PyReadonlyArray2<'_, f32>, targets: &PyReadonlyArray1<'_, f32>) -> PyResult<Examples> {
    let (x, y) = (rows.as_array(), targets.as_array());
    if x.nrows() != y.len() {
        return Err(invalid("rows and targets are not as many; give one target for each row"));
    }
    let (mut rows, mut entries) = (Rows::new(x.ncols()), Vec::with_capacity(x.ncols()));
    for row in x.outer_iter() {
        entries.clear();
        entries.extend((0..).zip(row.iter().copied()));
        rows.push_clipped(&mut entries, ROW_NORM);
    }
    Ok(Examples { rows, targets: y.to_vec() })
}

/// Entries of a matrix: row, column and value in each row of an array. What is no index lies outside of every matrix.
pub(crate) fn entries(cells: &PyReadonlyArray2<'_, f64>) -> PyResult<Vec<Entry>> {
    let cells = cells.as_array();
    if cells.ncols() != 3 {
        return Err(invalid("give an array with row, column and value of an entry in each of its rows"));
    }
    let index = |v: f64| if v >= 0.0 && v < f64::from(u32::MAX) && v.fract() == 0.0 { v as u32 } else { u32::MAX };
    let entry = |cell: numpy::ndarray::ArrayView1<'_, f64>| Entry {
        row: index(cell[0]),
        column: index(cell[1]),
        value: cell[2] as f32,
    };
    Ok(cells.outer_iter().map(entry).collect())
}
