//! Single releases for `dpopt.mechanisms` and for estimators that need one.
//!
//! Each goes through the curator of a [`Session`], which was charged for it.

use crate::accounting::{of_records, relation};
use crate::errors::{invalid, refused};
use crate::fit::noise;
use crate::owners::UnitRows;
use crate::parts::NumbersElsewhere;
use crate::session::Session;
use dpopt::Sensitive;
use dpopt::mechanism::{
    Choice, ChoiceLaw, ClippedVectors, Counts, DiscreteGaussianNoise, DiscreteLaplaceNoise, Gaussian, L1Sum,
    LabelSelection, Laplace, Level, Mechanism, PrivateBounds, Quantiles, SecondMoment, below_counts, symmetric_matrix,
};
use dpopt::noise::{Grid, Purpose};
use dpopt::privacy::Budget;
use dpopt::records::{BelowCounts, Examples, Rows};
use numpy::ndarray::{Array2, ArrayView2, ArrayViewMut1};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;

/// One release through a session's curator.
fn release<M: Mechanism>(session: &Session, mechanism: &M, input: &Sensitive<M::Input>) -> PyResult<M::Output> {
    session.stage(&session.certificate, |curator| Ok(curator.release(mechanism, input).map_err(refused)?.into_inner()))
}

/// Rows of numbers, here or elsewhere in parts.
#[derive(FromPyObject)]
pub(crate) enum Numbers<'py> {
    Here(PyReadonlyArray2<'py, f64>),
    Elsewhere(Bound<'py, NumbersElsewhere>),
}

fn row<'a>(x: &'a ArrayView2<'_, f64>) -> impl Fn(usize, &mut Vec<f64>) + Sync + 'a {
    |i, out| out.extend(x.row(i).iter().copied())
}

/// Σ over rows, each clipped to l2 norm `clip_norm`, plus N(0, (noise_multiplier·clip_norm)²) per coordinate, rounded to a
/// public grid. `records` is a public guess of the number of rows (for the grid only).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn gaussian_sum<'py>(
    py: Python<'py>,
    x: Numbers<'py>,
    clip_norm: f64,
    noise_multiplier: f64,
    records: u64,
    session: &Session,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let made = |width: usize| {
        let grid = Grid::for_sum(clip_norm, noise_multiplier * clip_norm, records, width);
        let mechanism = Gaussian::new(noise_multiplier, clip_norm, grid, width, "clipped sum");
        Ok::<_, PyErr>((ClippedVectors::new(clip_norm, grid).map_err(refused)?, mechanism))
    };
    let values = match &x {
        Numbers::Here(x) => {
            let x = x.as_array();
            let (clipped, mechanism) = made(x.ncols())?;
            py.detach(|| release(session, &mechanism, &clipped.sum(x.nrows(), x.ncols(), row(&x))))
        }
        Numbers::Elsewhere(x) => {
            let x = x.get();
            let (clipped, mechanism) = made(x.width())?;
            x.told(py, |numbers| {
                let sum = clipped.sum_elsewhere(numbers, &vec![0.0; x.width()]).map_err(refused)?;
                release(session, &mechanism, &sum)
            })
        }
    };
    Ok(values?.to_pyarray(py))
}

/// Σ over rows, each clipped to l1 norm `clip_norm`, plus Laplace noise of scale noise_multiplier·clip_norm per coordinate.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn laplace_sum<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    clip_norm: f64,
    noise_multiplier: f64,
    records: u64,
    session: &Session,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let x = x.as_array();
    let grid = Grid::for_sum(clip_norm, noise_multiplier * clip_norm, records, x.ncols());
    let values = py.detach(|| {
        let mechanism = Laplace::new(noise_multiplier, clip_norm, grid, x.ncols());
        let sum = L1Sum::of(x.nrows(), x.ncols(), clip_norm, grid, row(&x)).map_err(refused)?;
        release(session, &mechanism, &sum)
    })?;
    Ok(values.to_pyarray(py))
}

/// Σ x xᵀ over rows clipped to l2 norm `row_norm`, or Σ over units of the mean of that over a unit's rows, plus symmetric Gaussian noise of standard deviation
/// noise_multiplier·row_norm² on the diagonal and 1/√2 of that off it.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn second_moment<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    row_norm: f64,
    noise_multiplier: f64,
    records: u64,
    session: &Session,
    units: Option<&UnitRows>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let x = x.as_array();
    let d = x.ncols();
    let (coordinates, sensitivity) = (SecondMoment::coordinates(d), row_norm * row_norm);
    let grid = Grid::for_sum(sensitivity, noise_multiplier * sensitivity, records, coordinates);
    units.map_or(Ok(()), |units| units.same_rows(x.nrows()))?;
    let values = py.detach(|| {
        let mut rows = Rows::new(d);
        for line in x.outer_iter() {
            let mut entries: Vec<(u32, f32)> = (0..).zip(line.iter().map(|v| *v as f32)).collect();
            rows.push_clipped(&mut entries, row_norm);
        }
        let sum = match units {
            None => {
                let targets = vec![0.0; rows.len()];
                let moment = SecondMoment::new(1.0, row_norm, grid).map_err(refused)?;
                let Ok(sum) = moment.sum(&Sensitive::new(Examples { rows, targets }));
                sum
            }
            Some(units) => {
                // what the rows of each unit come to; clipped again as one, in exact integers
                let mut means = Array2::zeros((units.count(), coordinates));
                let mut lines = means.rows_mut().into_iter();
                units.look(0..units.count(), |own| {
                    let Some(mut line) = lines.next() else { return };
                    own.iter().for_each(|&row| add_moment(rows.row(row as usize), own.len() as f64, &mut line));
                });
                let clipped = ClippedVectors::new(sensitivity, grid).map_err(refused)?;
                clipped.sum(units.count(), coordinates, row(&means.view()))
            }
        };
        let mechanism = Gaussian::new(noise_multiplier, sensitivity, grid, coordinates, "second moment");
        release(session, &mechanism, &sum)
    })?;
    let matrix = Array2::from_shape_vec((d, d), symmetric_matrix(d, &values)).map_err(invalid)?;
    Ok(matrix.into_pyarray(py))
}

/// Adds x xᵀ/`count` in the coordinates of [`SecondMoment`].
fn add_moment((indices, entries): (&[u32], &[f32]), count: f64, line: &mut ArrayViewMut1<'_, f64>) {
    for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
        let (x, start) = (f64::from(x), j as usize * (j as usize + 1) / 2);
        for (&k, &y) in indices[..a].iter().zip(&entries[..a]) {
            line[start + k as usize] += SQRT_2 * x * f64::from(y) / count;
        }
        line[start + j as usize] += x * x / count;
    }
}

/// Integer counts of a declared sensitivity plus noise P(x) ∝ exp(−|x|/scale).
#[pyfunction]
pub(crate) fn discrete_laplace(
    counts: Vec<i64>,
    scale: f64,
    sensitivity: u64,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let mechanism = DiscreteLaplaceNoise::new(scale, sensitivity);
    release(session, &mechanism, &Counts::declared(counts, sensitivity as f64))
}

/// How many records are in each of `cells` cells, plus noise P(x) ∝ exp(−|x|/scale). A record counts in the cell it
/// names; one that names none of them (−1, say) counts nowhere.
#[pyfunction]
pub(crate) fn histogram(
    records: PyReadonlyArray1<'_, i64>,
    cells: usize,
    scale: f64,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let counts = Counts::histogram(records.as_array().iter().map(|c| usize::try_from(*c).ok()), cells);
    release(session, &DiscreteLaplaceNoise::new(scale, 1), &counts)
}

/// The same, where a unit may have several rows, `records` naming the cell of each: at most as many of a unit's count as `units` shows.
#[pyfunction]
pub(crate) fn histogram_of_units(
    records: PyReadonlyArray1<'_, i64>,
    cells: usize,
    scale: f64,
    units: &UnitRows,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let (records, mut counts) = (records.as_array(), vec![0i64; cells]);
    units.same_rows(records.len())?;
    let most = units.most().ok_or_else(|| invalid("how many rows of a unit count must be said"))?.get();
    units.look(0..units.count(), |own| {
        for cell in own.iter().filter_map(|&row| usize::try_from(records[row as usize]).ok()) {
            if let Some(count) = counts.get_mut(cell) {
                *count = count.saturating_add(1);
            }
        }
    });
    release(session, &DiscreteLaplaceNoise::new(scale, most), &Counts::declared(counts, most as f64))
}

/// Integer counts of a declared l2 sensitivity plus noise P(x) ∝ exp(−x²/(2σ²)).
#[pyfunction]
pub(crate) fn discrete_gaussian(
    counts: Vec<i64>,
    sigma: f64,
    sensitivity: f64,
    session: &Session,
) -> PyResult<Vec<i64>> {
    let mechanism = DiscreteGaussianNoise::new(sigma, sensitivity);
    release(session, &mechanism, &Counts::declared(counts, sensitivity))
}

/// Index chosen by integer scores of a declared sensitivity; `law` is permute-and-flip or exponential.
#[pyfunction]
pub(crate) fn choose(
    scores: Vec<i64>,
    law: &str,
    epsilon: f64,
    sensitivity: u64,
    monotone: bool,
    session: &Session,
) -> PyResult<usize> {
    let law = match law {
        "permute-and-flip" => ChoiceLaw::PermuteAndFlip,
        "exponential" => ChoiceLaw::Exponential,
        other => return Err(invalid(format!("mechanism is `{other}`; choose permute-and-flip or exponential"))),
    };
    let choice = Choice::new(law, epsilon, sensitivity, monotone, session.relation()?).map_err(refused)?;
    release(session, &choice, &Counts::declared(scores, sensitivity as f64))
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
            Self::Elsewhere(x) => x.get().width(),
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
                py.detach(|| {
                    let columns = x.columns().into_iter().map(|column| column.to_vec());
                    release(&Sensitive::new(BelowCounts::of_columns(columns)))
                })
            }
            Self::Elsewhere(x) => {
                let x = x.get();
                x.told(py, |numbers| release(&below_counts(numbers, x.width()).map_err(refused)?))
            }
        }
    }
}

/// Quantiles of one column (levels in thousandths) on the public grid, each choice with `epsilon`.
#[pyfunction]
pub(crate) fn quantiles(
    py: Python<'_>,
    x: Numbers<'_>,
    levels: Vec<u64>,
    epsilon: f64,
    session: &Session,
) -> PyResult<Vec<f64>> {
    let levels = levels.into_iter().map(Level::thousandths).collect();
    let mechanism = Quantiles::new(0, levels, epsilon, session.relation()?);
    x.below(py, |counts| release(session, &mechanism, counts))
}

/// What finding labels within (ε, δ) releases, as JSON; refused where nothing could be found.
#[pyfunction]
pub(crate) fn label_event(epsilon: f64, delta: f64, under: &str) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    LabelSelection::plan(terms).map_err(refused)?.certificate().event().to_json().map_err(invalid)
}

/// What finding the ranges of `columns` columns of `records` records within (ε, δ) releases, as JSON; refused where nothing could
/// be found.
#[pyfunction]
pub(crate) fn bounds_event(columns: usize, records: u64, epsilon: f64, delta: f64, under: &str) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    PrivateBounds::plan(columns, records, terms).map_err(refused)?.certificate().event().to_json().map_err(invalid)
}

/// Ranges found privately within the session's price: (low, high) of each column or `None`.
#[pyfunction]
pub(crate) fn private_bounds(
    py: Python<'_>,
    x: Numbers<'_>,
    records: u64,
    session: &Session,
) -> PyResult<Vec<Option<(f64, f64)>>> {
    let plan = PrivateBounds::plan(x.columns(), records, session.certificate.terms()).map_err(refused)?;
    x.below(py, |counts| {
        session.stage(plan.certificate(), |curator| Ok(plan.run(counts, curator).map_err(refused)?.into_inner()))
    })
}

/// Which labels are frequent enough to be published, within the session's price.
#[pyfunction]
pub(crate) fn select_labels(py: Python<'_>, counts: BTreeMap<String, u64>, session: &Session) -> PyResult<Vec<String>> {
    py.detach(|| {
        let plan = LabelSelection::plan(session.certificate.terms()).map_err(refused)?;
        session.stage(plan.certificate(), |curator| {
            Ok(curator.release(&plan, &Sensitive::new(counts)).map_err(refused)?.into_inner())
        })
    })
}

/// Uniform integers below `bound` from the generator of releases.
#[pyfunction]
pub(crate) fn random_below(bound: u64, count: usize, seed: Option<u64>) -> PyResult<Vec<u64>> {
    if bound == 0 {
        return Err(invalid("bound is 0; give at least 1"));
    }
    let mut source = noise(seed)?;
    let mut stream = source.stream(Purpose::Other(1), 0);
    Ok((0..count).map(|_| stream.below(bound)).collect())
}
