//! Private steps of a training loop that lives in Python: one curator for all planned steps.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::session::Session;
use dpopt::mechanism::{ClippedVectors, Gaussian, PoissonBatch};
use dpopt::noise::Grid;
use dpopt::objective::Warrant;
use dpopt::session::Entered;
use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Per-sample gradients of some parameters: batch × entries.
#[derive(FromPyObject)]
pub(crate) enum Block<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

enum View<'a> {
    Single(ArrayView2<'a, f32>),
    Double(ArrayView2<'a, f64>),
}

impl View<'_> {
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Single(x) => x.dim(),
            Self::Double(x) => x.dim(),
        }
    }

    fn push(&self, row: usize, out: &mut Vec<f64>) {
        match self {
            Self::Single(x) => out.extend(x.row(row).iter().map(|v| f64::from(*v))),
            Self::Double(x) => out.extend(x.row(row).iter().copied()),
        }
    }
}

/// The open stage of a training run, and the batch that was drawn last.
struct OpenRun {
    stage: Entered,
    batch: Option<PoissonBatch>,
}

/// Noisy sums of clipped gradients over Poisson batches; at most as many as the certified event foresees.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Training {
    run: Mutex<OpenRun>,
    records: usize,
    sampling_probability: f64,
    dimension: usize,
    clipping: ClippedVectors,
    mechanism: Gaussian,
    session: Py<Session>,
}

impl Training {
    fn locked(&self) -> MutexGuard<'_, OpenRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Training {
    /// The session must have been charged for all steps: Gaussian noise on Poisson samples.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn new(
        records: usize,
        sampling_probability: f64,
        dimension: usize,
        clip_norm: f64,
        noise_multiplier: f64,
        session: Py<Session>,
    ) -> PyResult<Self> {
        let stage = session.get().enter(&session.get().certificate)?;
        let grid = Grid::for_sum(clip_norm, noise_multiplier * clip_norm, records as u64, dimension);
        Ok(Self {
            run: Mutex::new(OpenRun { stage, batch: None }),
            records,
            sampling_probability,
            dimension,
            clipping: ClippedVectors::new(clip_norm, grid).map_err(refused)?,
            mechanism: Gaussian::new(noise_multiplier, clip_norm, grid, dimension, "batch gradient"),
            session,
        })
    }

    /// What has been released so far, as JSON.
    fn records(&self) -> PyResult<String> {
        json(&self.locked().stage.curator.records())
    }

    /// Draws the batch of the next step; its indices, increasing.
    fn sample<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let mut run = self.locked();
        let (batch, indices) =
            run.stage.curator.sample_for_loader(self.records, self.sampling_probability).map_err(refused)?;
        run.batch = Some(batch);
        Ok(indices.to_pyarray(py))
    }

    /// Σ clip(gradient) + noise over the batch drawn last, or over one that was drawn elsewhere. The blocks lie side by
    /// side: a record's gradient is its row of all of them.
    fn step<'py>(&self, py: Python<'py>, blocks: Vec<Block<'py>>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let views: Vec<View<'_>> = blocks
            .iter()
            .map(|b| match b {
                Block::Single(x) => View::Single(x.as_array()),
                Block::Double(x) => View::Double(x.as_array()),
            })
            .collect();
        let rows = views.first().map_or(0, |v| v.shape().0);
        if views.iter().any(|v| v.shape().0 != rows) {
            return Err(invalid("the parameters' per-sample gradients have different batch sizes"));
        }
        if rows > 0 && views.iter().map(|v| v.shape().1).sum::<usize>() != self.dimension {
            return Err(invalid("the per-sample gradients do not have as many entries as the parameters"));
        }
        let values = py.detach(|| {
            let mut run = self.locked();
            let batch = match run.batch.take() {
                Some(batch) => batch,
                None => {
                    self.session.get().rest_on(Warrant::Vouched);
                    run.stage.curator.sampled_elsewhere(self.sampling_probability)
                }
            };
            let sum = self
                .clipping
                .sum_batch(batch, rows, self.dimension, |i, out| views.iter().for_each(|v| v.push(i, out)));
            let sum = sum
                .map_err(|_| invalid("there are more per-sample gradients than records in the batch that was drawn"))?;
            let released = run.stage.curator.release(&self.mechanism, &sum).map_err(refused);
            self.session.get().note(&run.stage);
            released
        })?;
        Ok(values.into_inner().to_pyarray(py))
    }
}
