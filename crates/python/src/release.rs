//! Single releases for `dpopt.mechanisms` and for estimators that need one.
//!
//! Each goes through the curator of a [`Session`], which was charged for it.

use crate::accounting::{of_records, relation};
use crate::errors::{invalid, refused};
use crate::owners::UnitRows;
use crate::partitions::RemoteNumbers;
use crate::seeds::noise;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::Sensitive;
use dpopt::mechanism::{
    Choice, ChoiceLaw, ClippedVectors, Counts, DiscreteGaussianNoise, DiscreteLaplaceNoise, Gaussian, L1Sum,
    LabelSelection, Laplace, Level, Mechanism, PrivateBounds, Quantiles, SecondMoment, below_counts, symmetric_matrix,
};
use dpopt::noise::{Grid, Purpose};
use dpopt::privacy::Budget;
use dpopt::records::{BelowCounts, Examples, Rows};
use dpopt_process::stop::paced;
use numpy::ndarray::{Array2, ArrayView2, ArrayViewMut1};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// One release through a session's curator.
fn release<M: Mechanism>(session: &Session, mechanism: &M, input: &Sensitive<M::Input>) -> PyResult<M::Output> {
    session.stage(&session.certificate, |curator| Ok(curator.release(mechanism, input).map_err(refused)?.into_inner()))
}

/// Rows of numbers, local or in remote partitions.
#[derive(FromPyObject)]
pub(crate) enum Numbers<'py> {
    Here(PyReadonlyArray2<'py, f64>),
    Remote(Bound<'py, RemoteNumbers>),
}

fn row<'a>(x: &'a ArrayView2<'_, f64>) -> impl Fn(usize, &mut Vec<f64>) + Sync + 'a {
    |i, out| out.extend(x.row(i).iter().copied())
}

/// A sum with noise, made before it is paid for: refused where the noise cannot be drawn.
#[pyclass(frozen)]
pub(crate) struct NoisySum {
    clip_norm: f64,
    grid: Grid,
    width: usize,
    noise: SumNoise,
}

enum SumNoise {
    Gaussian(Gaussian),
    Laplace(Laplace),
}

#[pymethods]
impl NoisySum {
    /// `law` is gaussian, second moment (Gaussian, too) or laplace; `records` a public guess of the number of rows (for the grid only).
    #[new]
    fn new(law: &str, noise_multiplier: f64, clip_norm: f64, records: u64, width: usize) -> PyResult<Self> {
        let noise_std = noise_multiplier * clip_norm;
        let grid = if law == "second moment" {
            Grid::for_products(clip_norm, noise_std, records)
        } else {
            Grid::for_sum(clip_norm, noise_std, records, width)
        };
        let gaussian = |label| Gaussian::new(noise_multiplier, clip_norm, grid, width, label);
        let noise = match law {
            "gaussian" => SumNoise::Gaussian(gaussian("clipped sum")),
            "second moment" => SumNoise::Gaussian(gaussian("second moment")),
            "laplace" => SumNoise::Laplace(Laplace::new(noise_multiplier, clip_norm, grid, width)),
            other => return Err(invalid(format!("there is no noise `{other}`; choose gaussian or laplace"))),
        };
        match &noise {
            SumNoise::Gaussian(noise) => noise.can_draw(),
            SumNoise::Laplace(noise) => noise.can_draw(),
        }
        .map_err(refused)?;
        Ok(Self { clip_norm, grid, width, noise })
    }
}

impl NoisySum {
    fn gaussian(&self) -> PyResult<(ClippedVectors, &Gaussian)> {
        let SumNoise::Gaussian(noise) = &self.noise else { return Err(invalid("this sum has Laplace noise")) };
        Ok((ClippedVectors::new(self.clip_norm, self.grid).map_err(refused)?, noise))
    }

    fn laplace(&self) -> PyResult<&Laplace> {
        let SumNoise::Laplace(noise) = &self.noise else { return Err(invalid("this sum has Gaussian noise")) };
        Ok(noise)
    }
}

/// Σ over rows, each clipped to l2 norm `clip_norm`, plus N(0, (noise_multiplier·clip_norm)²) per coordinate, rounded to a
/// public grid.
#[pyfunction]
pub(crate) fn gaussian_sum<'py>(
    py: Python<'py>,
    x: Numbers<'py>,
    noise: &NoisySum,
    session: &Session,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (clipped, mechanism) = noise.gaussian()?;
    let values = match &x {
        Numbers::Here(x) => {
            let x = x.as_array();
            let (n, d) = (x.nrows(), x.ncols());
            interruptible(py, || match x.as_slice() {
                Some(all) => release(session, mechanism, &clipped.sum_slices(n, d, |i| &all[i * d..(i + 1) * d])),
                None => release(session, mechanism, &clipped.sum(n, d, row(&x))),
            })?
        }
        Numbers::Remote(x) => {
            let x = x.get();
            x.told(py, |numbers| {
                let sum = clipped.remote_sum(numbers, &vec![0.0; x.width()]).map_err(refused)?;
                release(session, mechanism, &sum)
            })
        }
    };
    Ok(values?.into_pyarray(py))
}

/// Σ over rows, each clipped to l1 norm `clip_norm`, plus Laplace noise of scale noise_multiplier·clip_norm per coordinate.
#[pyfunction]
pub(crate) fn laplace_sum<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    noise: &NoisySum,
    session: &Session,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (x, mechanism) = (x.as_array(), noise.laplace()?);
    let values = interruptible(py, || {
        let sum = L1Sum::of(x.nrows(), x.ncols(), noise.clip_norm, noise.grid, row(&x)).map_err(refused)?;
        release(session, mechanism, &sum)
    })??;
    Ok(values.into_pyarray(py))
}

/// Σ x xᵀ over rows clipped to l2 norm `row_norm`, or Σ over units of the mean of that over a unit's rows, plus symmetric Gaussian noise of standard deviation
/// noise_multiplier·row_norm² on the diagonal and 29/41 of that off it.
#[pyfunction]
pub(crate) fn second_moment<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    row_norm: f64,
    noise: &NoisySum,
    session: &Session,
    units: Option<&UnitRows>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let x = x.as_array();
    let (d, (clipped, mechanism)) = (x.ncols(), noise.gaussian()?);
    units.map_or(Ok(()), |units| units.same_rows(x.nrows()))?;
    let values = interruptible(py, || {
        let mut rows = Rows::new(d);
        for line in paced(x.outer_iter()) {
            let mut entries: Vec<(u32, f32)> = (0..).zip(line.iter().map(|v| *v as f32)).collect();
            rows.push_clipped(&mut entries, row_norm);
        }
        let sum = match units {
            None => {
                let targets = vec![0.0; rows.len()];
                let moment = SecondMoment::new(1.0, row_norm, noise.grid).map_err(refused)?;
                let Ok(sum) = moment.sum(&Sensitive::new(Examples { rows, targets }));
                sum
            }
            Some(units) => {
                // what the rows of each unit come to; clipped again as one, in exact integers
                let mut means = Array2::zeros((units.count(), noise.width));
                let mut lines = means.rows_mut().into_iter();
                units.look(0..units.count(), |own| {
                    let Some(mut line) = lines.next() else { return };
                    own.iter().for_each(|&row| add_moment(rows.row(row as usize), own.len() as f64, &mut line));
                });
                clipped.sum(units.count(), noise.width, row(&means.view()))
            }
        };
        let values = release(session, mechanism, &sum)?;
        Array2::from_shape_vec((d, d), symmetric_matrix(d, &values)).map_err(invalid)
    })??;
    Ok(values.into_pyarray(py))
}

/// Adds x xᵀ/`count` in the coordinates of [`SecondMoment`].
fn add_moment((indices, entries): (&[u32], &[f32]), count: f64, line: &mut ArrayViewMut1<'_, f64>) {
    for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
        let (x, start) = (f64::from(x), j as usize * (j as usize + 1) / 2);
        for (&k, &y) in indices[..a].iter().zip(&entries[..a]) {
            line[start + k as usize] += SecondMoment::BESIDE * x * f64::from(y) / count;
        }
        line[start + j as usize] += x * x / count;
    }
}

/// Noise of integer counts, made before it is paid for: refused where it cannot be drawn.
#[pyclass(frozen)]
pub(crate) struct NoisyCounts(CountsNoise);

enum CountsNoise {
    Laplace(DiscreteLaplaceNoise, u64),
    Gaussian(DiscreteGaussianNoise, f64),
}

#[pymethods]
impl NoisyCounts {
    /// P(x) ∝ exp(−|x|/scale), for counts that a record moves by `sensitivity` in all.
    #[staticmethod]
    fn laplace(scale: f64, sensitivity: u64) -> PyResult<Self> {
        let noise = DiscreteLaplaceNoise::new(scale, sensitivity);
        noise.can_draw().map_err(refused)?;
        Ok(Self(CountsNoise::Laplace(noise, sensitivity)))
    }

    /// P(x) ∝ exp(−x²/(2σ²)), for counts that a record moves by `sensitivity` in l2 norm.
    #[staticmethod]
    fn gaussian(sigma: f64, sensitivity: f64) -> PyResult<Self> {
        let noise = DiscreteGaussianNoise::new(sigma, sensitivity);
        noise.can_draw().map_err(refused)?;
        Ok(Self(CountsNoise::Gaussian(noise, sensitivity)))
    }
}

impl NoisyCounts {
    fn laplace_noise(&self) -> PyResult<&DiscreteLaplaceNoise> {
        let CountsNoise::Laplace(noise, _) = &self.0 else { return Err(invalid("a histogram has Laplace noise")) };
        Ok(noise)
    }
}

/// Integer counts of a declared sensitivity with that noise.
#[pyfunction]
pub(crate) fn noisy_counts(
    py: Python<'_>,
    counts: Vec<i64>,
    noise: &NoisyCounts,
    session: &Session,
) -> PyResult<Vec<i64>> {
    interruptible(py, || match &noise.0 {
        CountsNoise::Laplace(noise, sensitivity) => {
            release(session, noise, &Counts::declared(counts, *sensitivity as f64))
        }
        CountsNoise::Gaussian(noise, sensitivity) => release(session, noise, &Counts::declared(counts, *sensitivity)),
    })?
}

/// How many records are in each of `cells` cells, with Laplace noise for one record. A record counts in the cell it names; one that
/// names none of them (−1, say) counts nowhere.
#[pyfunction]
pub(crate) fn histogram(
    py: Python<'_>,
    records: PyReadonlyArray1<'_, i64>,
    cells: usize,
    noise: &NoisyCounts,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let (records, noise) = (records.as_array(), noise.laplace_noise()?);
    interruptible(py, || {
        let counts = Counts::histogram(records.iter().map(|c| usize::try_from(*c).ok()), cells);
        release(session, noise, &counts)
    })?
}

/// How many rows are in each of `cells` cells, with Laplace noise for one unit, which may have several rows; `records` names the cell of each row. Of a unit at
/// most as many rows count as `units` shows.
#[pyfunction]
pub(crate) fn histogram_of_units(
    py: Python<'_>,
    records: PyReadonlyArray1<'_, i64>,
    cells: usize,
    noise: &NoisyCounts,
    units: &UnitRows,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let (records, mut counts) = (records.as_array(), vec![0i64; cells]);
    units.same_rows(records.len())?;
    let most = units
        .most()
        .ok_or_else(|| {
            invalid(
                "the number of rows of a unit is unbounded; give \
                                                   unit=dpopt.Unit(max_rows=...)",
            )
        })?
        .get();
    let noise = noise.laplace_noise()?;
    interruptible(py, || {
        units.look(0..units.count(), |own| {
            for cell in own.iter().filter_map(|&row| usize::try_from(records[row as usize]).ok()) {
                if let Some(count) = counts.get_mut(cell) {
                    *count = count.saturating_add(1);
                }
            }
        });
        release(session, noise, &Counts::declared(counts, most as f64))
    })?
}

/// A choice by noisy scores, made before it is paid for: refused where it cannot be drawn.
#[pyclass(frozen)]
pub(crate) struct NoisyChoice {
    choice: Choice,
    sensitivity: u64,
}

#[pymethods]
impl NoisyChoice {
    /// By integer scores that a record moves by `sensitivity`; `law` is permute-and-flip or exponential.
    #[new]
    fn new(law: &str, epsilon: f64, sensitivity: u64, monotone: bool, under: &str) -> PyResult<Self> {
        let law = match law {
            "permute-and-flip" => ChoiceLaw::PermuteAndFlip,
            "exponential" => ChoiceLaw::Exponential,
            other => return Err(invalid(format!("mechanism is `{other}`; choose permute-and-flip or exponential"))),
        };
        let choice = Choice::new(law, epsilon, sensitivity, monotone, relation(under)?).map_err(refused)?;
        choice.can_draw().map_err(refused)?;
        Ok(Self { choice, sensitivity })
    }
}

/// Index of the score that is chosen.
#[pyfunction]
pub(crate) fn choose(py: Python<'_>, scores: Vec<i64>, by: &NoisyChoice, session: &Session) -> PyResult<usize> {
    interruptible(py, || release(session, &by.choice, &Counts::declared(scores, by.sensitivity as f64)))?
}

/// Bound on how far the samplers of `levels` quantiles are from their laws, in total variation.
#[pyfunction]
pub(crate) fn quantiles_sampler_error(levels: usize) -> f64 {
    Quantiles::sampler_error_of(levels)
}

/// Number of ε-choices that `levels` quantiles of one column cost.
#[pyfunction]
pub(crate) fn quantile_choices(levels: usize, under: &str) -> PyResult<u64> {
    Ok(Quantiles::choices(levels, relation(under)?))
}

impl Numbers<'_> {
    fn columns(&self) -> usize {
        match self {
            Self::Here(x) => x.as_array().ncols(),
            Self::Remote(x) => x.get().width(),
        }
    }

    /// What `release` makes of the counts below each point of the public grid.
    fn below<T: Send>(
        &self,
        py: Python<'_>,
        release: impl FnOnce(&Sensitive<BelowCounts>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        match self {
            Self::Here(x) => {
                let x = x.as_array();
                interruptible(py, || {
                    let columns = x.columns().into_iter().map(|column| column.to_vec());
                    release(&Sensitive::new(BelowCounts::of_columns(columns)))
                })?
            }
            Self::Remote(x) => {
                let x = x.get();
                x.told(py, |numbers| release(&below_counts(numbers, x.width()).map_err(refused)?))
            }
        }
    }
}

/// Choices of quantiles of one column, made before they are paid for: refused where they cannot be drawn.
#[pyclass(frozen)]
pub(crate) struct NoisyQuantiles(Quantiles);

#[pymethods]
impl NoisyQuantiles {
    /// `levels` in thousandths, each choice with `epsilon`.
    #[new]
    fn new(levels: Vec<u64>, epsilon: f64, under: &str) -> PyResult<Self> {
        let levels = levels.into_iter().map(Level::thousandths).collect();
        let choices = Quantiles::new(0, levels, epsilon, relation(under)?);
        choices.can_draw().map_err(refused)?;
        Ok(Self(choices))
    }
}

/// Quantiles of one column on the public grid.
#[pyfunction]
pub(crate) fn quantiles(py: Python<'_>, x: Numbers<'_>, by: &NoisyQuantiles, session: &Session) -> PyResult<Vec<f64>> {
    x.below(py, |counts| release(session, &by.0, counts))
}

/// What finding labels within (ε, δ) releases, as JSON; refused where nothing could be found.
#[pyfunction]
pub(crate) fn label_event(py: Python<'_>, epsilon: f64, delta: f64, under: &str) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    let plan = interruptible(py, || LabelSelection::plan(terms))?.map_err(refused)?;
    plan.certificate().event().to_json().map_err(invalid)
}

/// What finding the ranges of `columns` columns of `records` records within (ε, δ) releases, as JSON; refused where nothing could
/// be found.
#[pyfunction]
pub(crate) fn bounds_event(
    py: Python<'_>,
    columns: usize,
    records: u64,
    epsilon: f64,
    delta: f64,
    under: &str,
) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    let plan = interruptible(py, || PrivateBounds::plan(columns, records, terms))?.map_err(refused)?;
    plan.certificate().event().to_json().map_err(invalid)
}

/// Ranges found privately within the session's price: (low, high) of each column or `None`.
#[pyfunction]
pub(crate) fn private_bounds(
    py: Python<'_>,
    x: Numbers<'_>,
    records: u64,
    session: &Session,
) -> PyResult<Vec<Option<(f64, f64)>>> {
    let (columns, terms) = (x.columns(), session.certificate.terms());
    let plan = interruptible(py, || PrivateBounds::plan(columns, records, terms))?.map_err(refused)?;
    x.below(py, |counts| {
        session.stage(plan.certificate(), |curator| Ok(plan.run(counts, curator).map_err(refused)?.into_inner()))
    })
}

/// Which labels are frequent enough to be published, within the session's price.
#[pyfunction]
pub(crate) fn select_labels(py: Python<'_>, counts: BTreeMap<String, u64>, session: &Session) -> PyResult<Vec<String>> {
    interruptible(py, || {
        let plan = LabelSelection::plan(session.certificate.terms()).map_err(refused)?;
        session.stage(plan.certificate(), |curator| {
            Ok(curator.release(&plan, &Sensitive::new(counts)).map_err(refused)?.into_inner())
        })
    })?
}

/// Uniform integers below `bound` from the generator of releases.
#[pyfunction]
pub(crate) fn random_below<'py>(
    py: Python<'py>,
    bound: u64,
    count: usize,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    if bound == 0 {
        return Err(invalid("bound is 0; give at least 1"));
    }
    let mut source = noise(seed)?;
    let mut stream = source.stream(Purpose::Other(1), 0);
    let drawn: Vec<u64> = interruptible(py, || paced(0..count).map(|_| stream.below(bound)).collect())?;
    Ok(drawn.into_pyarray(py))
}
