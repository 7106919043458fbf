//! Private steps of a training loop that lives in Python: one curator for all planned steps.

use crate::accounting::json;
use crate::errors::{invalid, refused};
use crate::kept::Kept;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::mechanism::{Batch, BatchSum, ClippedVectors, CuratorError, Gaussian, GridSum};
use dpopt::noise::Grid;
use dpopt::objective::Evidence;
use dpopt::session::ActiveStage;
use dpopt_process::stop::paced;
use numpy::ndarray::ArrayView2;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

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

    /// Entries of f32 that lie side by side, row after row: they are read where they are.
    fn in_place(&self) -> Option<&[f32]> {
        match self {
            Self::Single(x) => x.to_slice(),
            Self::Double(_) => None,
        }
    }
}

/// Records that a thread takes at a time.
const TOGETHER: usize = 8;

/// The open stage of a training run, and the sum over the batch of the next step, as far as its gradients came.
struct OpenRun {
    stage: ActiveStage,
    sum: Option<BatchSum>,
    /// The indices of that batch, and how many vectors were added; `None`: it was drawn elsewhere, or there is none.
    drawn: Option<(Vec<u64>, usize)>,
}

/// Noisy sums of clipped gradients over Poisson batches; at most as many as the certified event foresees.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Training {
    run: Kept<OpenRun>,
    records: usize,
    sampling_probability: f64,
    dimension: usize,
    clipping: ClippedVectors,
    mechanism: Gaussian,
    session: Py<Session>,
}

impl Training {
    /// An empty sum over a batch that was drawn elsewhere.
    fn sum_of_assumed_batch(&self, stage: &mut ActiveStage) -> PyResult<BatchSum> {
        self.session
            .get()
            .rest_on_a_word("that batches are Poisson samples is assumed, not checked: they were drawn elsewhere")?;
        let batch = stage.curator.sampled_remotely(self.sampling_probability);
        Ok(self.clipping.in_parts(batch, self.dimension))
    }
}

/// Whoever may draw until a batch suits chooses who is in it: a batch that was drawn is released before another is drawn.
fn waiting() -> PyErr {
    PyRuntimeError::new_err(
        "a batch waits for its step, and drawing until a batch suits would use records more often than planned; call step for every batch, without gradients if it is empty (noise alone is then released)",
    )
}

/// Adds rows that lie side by side in blocks, one row for each record.
fn add_views(sum: &mut BatchSum, views: &[View<'_>], rows: usize) -> Result<(), CuratorError> {
    let in_place: Option<Vec<&[f32]>> = views.iter().map(View::in_place).collect();
    let Some(blocks) = in_place.filter(|_| sum.fits_f32()) else {
        return sum.add(rows, |i, out| views.iter().for_each(|v| v.push(i, out)));
    };
    // (place of the first entry, entries, all rows)
    let mut blocks: Vec<(usize, usize, &[f32])> =
        blocks.into_iter().zip(views).map(|(values, v)| (0, v.shape().1, values)).collect();
    let mut start = 0;
    for (place, width, _) in &mut blocks {
        (*place, start) = (start, start + *width);
    }
    sum.add_in_chunks(rows, TOGETHER, |range, sum| {
        let mut pieces = Vec::with_capacity(blocks.len());
        for i in range {
            pieces.clear();
            pieces.extend(blocks.iter().map(|&(place, width, all)| (place, &all[i * width..(i + 1) * width])));
            sum.add(&pieces);
        }
    })
}

fn views<'a>(blocks: &'a [Block<'_>]) -> Vec<View<'a>> {
    let view = |block: &'a Block<'_>| match block {
        Block::Single(x) => View::Single(x.as_array()),
        Block::Double(x) => View::Double(x.as_array()),
    };
    blocks.iter().map(view).collect()
}

/// Adds the vectors of `count` records, which are the rows of all blocks side by side; an error if there are others.
pub(crate) fn add_rows(py: Python<'_>, sum: &mut BatchSum, blocks: &[Block<'_>], count: usize) -> Result<(), ()> {
    let views = views(blocks);
    let width: usize = views.iter().map(|v| v.shape().1).sum();
    if views.iter().any(|v| v.shape().0 != count) || width != sum.dimension() {
        return Err(());
    }
    py.detach(|| add_views(sum, &views, count)).map_err(|_| ())
}

/// Adds `weight` times the vectors of records, the rows of all blocks side by side, to a vector for each of them; an error if there are others.
pub(crate) fn add_weighted(py: Python<'_>, rows: &mut [Vec<f64>], weight: f64, blocks: &[Block<'_>]) -> Result<(), ()> {
    let views = views(blocks);
    let width: usize = views.iter().map(|v| v.shape().1).sum();
    if views.iter().any(|v| v.shape().0 != rows.len()) || rows.iter().any(|row| row.len() != width) {
        return Err(());
    }
    py.detach(|| {
        let mut given = Vec::with_capacity(width);
        for (i, row) in paced(rows.iter_mut().enumerate()) {
            given.clear();
            views.iter().for_each(|view| view.push(i, &mut given));
            row.iter_mut().zip(&given).for_each(|(sum, v)| *sum += weight * v);
        }
    });
    Ok(())
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
        // at most 2^24 steps below the clip norm: gradients of f32 have no finer digits, and are added up where they lie
        let grid = Grid::new(grid.exponent().max(clip_norm.log2().ceil() as i32 - 24));
        Ok(Self {
            run: Kept::new("run", OpenRun { stage, sum: None, drawn: None }),
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
        json(&self.run.shown()?.stage.curator.records())
    }

    /// Draws the batch of the next step, of as many records as were planned for or of the given number; its indices, increasing. Refused while
    /// a batch waits for its [step](Self::step).
    #[pyo3(signature = (records=None))]
    fn sample<'py>(&self, py: Python<'py>, records: Option<usize>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let drawn = interruptible(py, || {
            let mut run = self.run.own()?;
            if run.sum.is_some() {
                return Err(waiting());
            }
            let records = records.unwrap_or(self.records);
            let drawn = run.stage.curator.sample_for_loader(records, self.sampling_probability);
            let (batch, indices) = drawn.map_err(refused)?;
            run.sum = Some(self.clipping.in_parts(batch, self.dimension));
            run.drawn = Some((indices.clone(), 0));
            Ok(indices)
        })??;
        Ok(drawn.into_pyarray(py))
    }

    /// The indices of the batch that was drawn and waits for its step, and how many vectors were added to its sum, for a loop that was
    /// interrupted; `None`: there is none.
    fn waiting<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyArray1<u64>>, usize)>> {
        Ok(self.run.own()?.drawn.as_ref().map(|(indices, added)| (indices.to_pyarray(py), *added)))
    }

    /// Clips per-sample gradients and adds them to the sum over the batch drawn last, or over one that was drawn elsewhere. The
    /// blocks lie side by side: a record's gradient is its row of all of them. After an error nothing was added, and the batch waits as before.
    fn add(&self, py: Python<'_>, blocks: Vec<Block<'_>>) -> PyResult<()> {
        let views = views(&blocks);
        let rows = views.first().map_or(0, |v| v.shape().0);
        if views.iter().any(|v| v.shape().0 != rows) {
            return Err(invalid("the parameters' per-sample gradients have different batch sizes"));
        }
        if rows > 0 && views.iter().map(|v| v.shape().1).sum::<usize>() != self.dimension {
            return Err(invalid("the per-sample gradients do not have as many entries as the parameters"));
        }
        interruptible(py, || {
            let mut run = self.run.own()?;
            let OpenRun { stage, sum, drawn } = &mut *run;
            let mut open = match sum.take() {
                Some(open) => open,
                None => self.sum_of_assumed_batch(stage)?,
            };
            let added = add_views(&mut open, &views, rows);
            // the batch stays the one that is waiting, also after an error
            *sum = Some(open);
            added
                .map_err(|_| invalid("there are more per-sample gradients than records in the batch that was drawn"))?;
            if let Some((_, added)) = drawn {
                *added += rows;
            }
            Ok(())
        })?
    }

    /// Σ clip(gradient) + noise over the batch whose gradients were [added](Self::add).
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = interruptible(py, || {
            let mut run = self.run.own()?;
            let OpenRun { stage, sum, drawn } = &mut *run;
            let open = match sum.take() {
                Some(open) => open,
                None => self.sum_of_assumed_batch(stage)?,
            };
            *drawn = None;
            let released = stage.curator.release(&self.mechanism, &open.finish()).map_err(refused);
            self.session.get().note(stage)?;
            released
        })??;
        Ok(values.into_inner().to_pyarray(py))
    }
}

/// Noisy sums over Poisson batches of vectors that another library clipped and added up.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct ClippedOutside {
    run: Kept<(ActiveStage, Option<Batch>)>,
    records: usize,
    sampling_probability: f64,
    dimension: usize,
    clip_norm: f64,
    mechanism: Gaussian,
    session: Py<Session>,
}

#[pymethods]
impl ClippedOutside {
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
        session.get().rest_on(Evidence::Assumed)?;
        let grid = Grid::for_sum(clip_norm, noise_multiplier * clip_norm, records as u64, dimension);
        let sensitivity = GridSum::moved_by(clip_norm, grid, dimension);
        let mechanism = Gaussian::new(noise_multiplier, sensitivity, grid, dimension, "batch gradient");
        let run = Kept::new("run", (stage, None));
        Ok(Self { run, records, sampling_probability, dimension, clip_norm, mechanism, session })
    }

    /// What has been released so far, as JSON.
    fn records(&self) -> PyResult<String> {
        json(&self.run.shown()?.0.curator.records())
    }

    /// Draws the batch of the next step, of as many records as were planned for or of the given number; its indices, increasing. Refused while
    /// a batch waits for its [step](Self::step).
    #[pyo3(signature = (records=None))]
    fn sample<'py>(&self, py: Python<'py>, records: Option<usize>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let drawn = interruptible(py, || {
            let mut run = self.run.own()?;
            if run.1.is_some() {
                return Err(waiting());
            }
            let records = records.unwrap_or(self.records);
            let drawn = run.0.curator.sample_for_loader(records, self.sampling_probability);
            let (batch, indices) = drawn.map_err(refused)?;
            run.1 = Some(batch);
            Ok(indices)
        })??;
        Ok(drawn.into_pyarray(py))
    }

    /// `sum` + noise. It is the sum over the batch drawn last, or over one that was drawn elsewhere, which then has at most `most` records.
    #[pyo3(signature = (sum, most=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        sum: PyReadonlyArray1<'py, f64>,
        most: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let sum = sum.as_array().to_vec();
        if sum.len() != self.dimension {
            return Err(invalid("the sum does not have as many entries as the parameters; give one entry for each"));
        }
        if sum.iter().any(|v| !v.is_finite()) {
            return Err(invalid(
                "the sum holds a number that is not finite, so that it is not a sum of clipped gradients; set \
                 gradients that are not finite to zero where you clip",
            ));
        }
        let values = interruptible(py, || {
            let mut run = self.run.own()?;
            let (stage, drawn) = &mut *run;
            let length = sum.iter().map(|v| v * v).sum::<f64>().sqrt();
            let drawn_here = drawn.is_some();
            let within = drawn_here || most.is_none_or(|most| length <= most as f64 * self.clip_norm * 1.001);
            let batch = drawn.take().unwrap_or_else(|| stage.curator.sampled_remotely(self.sampling_probability));
            let made = within.then(|| {
                let grid = self.mechanism.grid();
                GridSum::clipped_outside(&mut stage.curator, &batch, &sum, self.clip_norm, grid)
            });
            let Some(Ok(sum)) = made else {
                // another sum over it may follow
                *drawn = drawn_here.then_some(batch);
                return Err(invalid(
                    "the sum is longer than the clipped gradients of the batch allow; clip each gradient to the \
                     clip_norm given here, and pass their sum",
                ));
            };
            let released = stage.curator.release(&self.mechanism, &sum).map_err(refused);
            self.session.get().note(stage)?;
            released
        })??;
        Ok(values.into_inner().to_pyarray(py))
    }
}
