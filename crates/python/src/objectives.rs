//! Objectives that the library evaluates itself: their parameters as JSON, their records as arrays.

use crate::errors::invalid;
use crate::seeds::noise;
use crate::stop::interruptible;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::objective::{Entry, Factorization, Layer, Network, NetworkLoss, Objective, ScoreLoss, Scored};
use dpopt::records::{Examples, Rows};
use dpopt_process::stop::{Pace, paced};
use numpy::ndarray::{Array2, ArrayView1, ArrayView2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde::Deserialize;

/// The specification of an objective.
#[derive(Clone, Deserialize)]
#[serde(tag = "objective", rename_all = "kebab-case")]
enum Specification {
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
    /// Reads an objective from JSON.
    #[new]
    fn new(spec: &str) -> PyResult<Self> {
        let kind = match serde_json::from_str(spec).map_err(invalid)? {
            Specification::Scored { loss, features } => {
                loss.check().map_err(invalid)?;
                Kind::Scored(Scored::new(loss, features))
            }
            Specification::Factorization { rows, columns, rank } => {
                let numbers = rows.checked_add(columns).and_then(|all| all.checked_mul(rank));
                if rows == 0 || columns == 0 || rank == 0 || numbers.is_none_or(|n| n > 1 << 28) {
                    return Err(invalid(
                        "rows, columns and rank must be at least 1, with at most 2^28 parameters in all",
                    ));
                }
                Kind::Factorization(Factorization::new(rows, columns, rank))
            }
            Specification::Network { input, layers, loss } => {
                Kind::Network(Network::new(input, &layers, loss).map_err(invalid)?)
            }
        };
        Ok(Self { kind })
    }

    /// d: number of coordinates.
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
        let start = interruptible(py, || {
            let (dimension, mut pace) = (self.dimension(), Pace::default());
            let mut normal = || {
                pace.step();
                coins.standard_normal()
            };
            match &self.kind {
                Kind::Scored(_) => vec![0.0; dimension],
                Kind::Factorization(_) => (0..dimension).map(|_| 0.1 * normal()).collect(),
                Kind::Network(network) => network.start(normal),
            }
        })?;
        Ok(start.into_pyarray(py))
    }

    /// A network's outputs for each row.
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray1<'py, f64>,
        rows: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (x, Kind::Network(network)) = (x.as_array().to_vec(), &self.kind) else {
            return Err(invalid("only networks have outputs"));
        };
        if x.len() != network.parameters() {
            return Err(invalid("these are not the parameters of this network"));
        }
        let rows = rows.as_array();
        let outputs = interruptible(py, || {
            let each: Vec<Vec<f64>> = paced(rows.outer_iter()).map(|row| network.outputs(&x, &row.to_vec())).collect();
            let width = each.first().map_or(0, Vec::len);
            Array2::from_shape_vec((each.len(), width), each.into_iter().flatten().collect()).map_err(invalid)
        })??;
        Ok(outputs.into_pyarray(py))
    }
}

/// Rows with their targets.
pub(crate) fn examples(x: ArrayView2<'_, f32>, y: ArrayView1<'_, f32>) -> PyResult<Examples> {
    if x.nrows() != y.len() {
        return Err(invalid("rows and targets differ in number; give one target for each row"));
    }
    let (mut rows, mut entries) = (Rows::new(x.ncols()), Vec::with_capacity(x.ncols()));
    for row in paced(x.outer_iter()) {
        entries.clear();
        entries.extend((0..).zip(row.iter().copied()));
        rows.push_clipped(&mut entries, ROW_NORM);
    }
    Ok(Examples { rows, targets: y.to_vec() })
}

/// Entries of a matrix: row, column and value in each row of an array. What is no index lies outside of every matrix.
pub(crate) fn entries(cells: ArrayView2<'_, f64>) -> PyResult<Vec<Entry>> {
    if cells.ncols() != 3 {
        return Err(invalid("give an array with row, column and value of an entry in each of its rows"));
    }
    let index = |v: f64| if v >= 0.0 && v < f64::from(u32::MAX) && v.fract() == 0.0 { v as u32 } else { u32::MAX };
    let entry =
        |cell: ArrayView1<'_, f64>| Entry { row: index(cell[0]), column: index(cell[1]), value: cell[2] as f32 };
    Ok(paced(cells.outer_iter()).map(entry).collect())
}
