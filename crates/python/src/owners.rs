//! Whose rows a table's are, by one id for each row.

use crate::accounting::relation;
use crate::cells::Given;
use crate::errors::invalid;
use crate::seeds::noise;
use crate::stop::interruptible;
use crate::table::Table;
use dpopt::data::RowOwners;
use dpopt::model::{KeptCounts, UnitClipping, UnitFacts, UnitOptions};
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::privacy::Relation;
use dpopt::records::{RecordSet, Units, UnitsError};
use dpopt_process::stop::paced;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde::Deserialize;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};

/// Which unit has which row. It cannot be read from Python, but for how many units there are.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Owners {
    pub(crate) inner: RowOwners,
}

impl Owners {
    /// These owners among `units` units, of which some may be without a row, where the number of units is public.
    pub(crate) fn among(&self, units: u64, relation: Relation) -> RowOwners {
        match relation {
            Relation::AddOrRemove => self.inner.clone(),
            Relation::ZeroOut | Relation::ReplaceOne => self.inner.clone().among(units),
        }
    }
}

#[pymethods]
impl Owners {
    /// From one id for each row; `name` is how a unit is called. Ids are compared as the command line compares the values of its `--unit`.
    #[new]
    fn new(py: Python<'_>, name: &str, ids: Given<'_>) -> PyResult<Self> {
        let table = Table::build(py, "ids", vec![(name.into(), ids)], None)?;
        let name = name.trim();
        Ok(Self { inner: interruptible(py, || RowOwners::read(&table.inner, name))?.map_err(invalid)? })
    }

    /// From columns of ids, each of which has one for each row: a row belongs to all whom they name. Who owns which rows is taken as known.
    #[staticmethod]
    fn several(py: Python<'_>, columns: Vec<(String, Given<'_>)>) -> PyResult<Self> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.trim().to_string()).collect();
        let table = Table::build(py, "ids", columns, None)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(Self { inner: interruptible(py, || RowOwners::read_all(&table.inner, &names))?.map_err(invalid)? })
    }

    /// How many rows are kept so that no unit owns more than `most` of them, and how many so that no unit owns two; None where a row has one owner.
    fn kept(&self, py: Python<'_>, most: NonZeroU64) -> PyResult<Option<(usize, usize)>> {
        let count = |most| Some(self.inner.kept(most)?.positions().len());
        interruptible(py, || Some((count(most)?, count(NonZeroU64::MIN)?)))
    }

    /// Number of units that have a row.
    #[getter]
    fn units(&self) -> u64 {
        self.inner.units()
    }
}

/// What is public of units, as the Python side writes it.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnitsAsked {
    count: u64,
    most_rows: Option<NonZeroU64>,
    clipping: UnitClipping,
    /// Rows that are kept, where a row may have several owners.
    #[serde(default)]
    kept: Option<KeptCounts>,
}

impl UnitsAsked {
    /// Facts about units of the rows of a matrix.
    pub(crate) fn facts(self) -> UnitFacts {
        let Self { count, most_rows, clipping, kept } = self;
        UnitFacts { count, most_rows, clipping, kept }
    }

    /// Options of units for a table with columns of ids.
    pub(crate) fn of_columns(self, columns: Vec<String>) -> UnitOptions {
        let Self { count, most_rows, clipping, .. } = self;
        let mut unit = UnitOptions::of_all(columns).clipping(clipping).units(count);
        unit.most_rows = most_rows;
        unit
    }
}

/// A view of rows by unit: which of them take part in what is released, by secret coins and by nothing that another unit has. What makes one record of
/// a unit looks at rows through it.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct UnitRows {
    units: Units<Vec<()>>,
    /// A unit with more rows is seen by a uniform choice of so many, made anew for each look.
    most: Option<NonZeroU64>,
    coins: Mutex<Coins>,
}

/// Every look at units has a stream of its own.
struct Coins {
    source: NoiseSource,
    looks: u64,
}

impl UnitRows {
    /// The coins of a new look.
    fn tossed(&self) -> Stream {
        let mut coins = self.coins.lock().unwrap_or_else(PoisonError::into_inner);
        coins.looks += 1;
        let look = coins.looks;
        coins.source.stream(Purpose::Split, look)
    }

    /// No unit is seen by more rows.
    pub(crate) fn most(&self) -> Option<NonZeroU64> {
        self.most
    }

    /// How many units there are.
    pub(crate) fn count(&self) -> usize {
        self.units.len()
    }

    /// Refuses a table of another number of rows.
    pub(crate) fn same_rows(&self, rows: usize) -> PyResult<()> {
        match rows == self.units.rows().len() {
            true => Ok(()),
            false => Err(invalid("the number of ids differs from the number of rows; give one id for each row")),
        }
    }

    /// `rows` by unit, as one look shows them.
    pub(crate) fn of<R: RecordSet>(&self, rows: R) -> Result<Units<R>, UnitsError> {
        let units = self.units.of_rows(rows)?;
        let Some(most) = self.most else { return Ok(units) };
        let mut stream = self.tossed();
        Ok(units.capped(most, |bound| stream.below(bound)))
    }

    /// Hands the chosen rows of each of `units` to `take`, unit by unit.
    pub(crate) fn look(&self, units: impl Iterator<Item = usize>, mut take: impl FnMut(&[u64])) {
        let (mut stream, mut chosen) = (self.tossed(), Vec::new());
        for unit in paced(units) {
            match self.most {
                _ if unit >= self.units.len() => take(&[]),
                None => take(self.units.of(unit)),
                Some(most) => {
                    chosen.clear();
                    self.units.choose(unit, most, |bound| stream.below(bound), &mut chosen);
                    take(&chosen);
                }
            }
        }
    }
}

#[pymethods]
impl UnitRows {
    /// Owners among `units` units, of which some may be without a row; under add-or-remove of those that have one.
    #[new]
    fn new(
        py: Python<'_>,
        owners: &Owners,
        units: u64,
        under: &str,
        most: Option<NonZeroU64>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let relation = relation(under)?;
        let units = interruptible(py, || owners.among(units, relation).positions())?.map_err(invalid)?;
        // not the coins of the noise
        let source = noise(seed.map(|seed| !seed))?;
        Ok(Self { units, most, coins: Mutex::new(Coins { source, looks: 0 }) })
    }

    /// How many units there are, with those that have no row.
    fn __len__(&self) -> usize {
        self.count()
    }

    /// Positions of the rows of each of `units`, unit by unit, and how many each has: a choice of at most so many as the view shows.
    fn draw<'py>(
        &self,
        py: Python<'py>,
        units: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>)> {
        let units = units.as_array();
        let (mut rows, mut counts) = (Vec::new(), Vec::with_capacity(units.len()));
        interruptible(py, || {
            self.look(units.iter().map(|&unit| usize::try_from(unit).unwrap_or(usize::MAX)), |own| {
                rows.extend(own.iter().map(|&row| row as i64));
                counts.push(own.len() as i64);
            });
        })?;
        Ok((rows.into_pyarray(py), counts.into_pyarray(py)))
    }

    /// The position of one row of each unit, any of those that it has as likely as any other; -1 for a unit without rows.
    fn one_each<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let mut rows = Vec::with_capacity(self.units.len());
        interruptible(py, || {
            let mut stream = self.tossed();
            for unit in paced(0..self.count()) {
                let own = self.units.of(unit);
                let one = if own.is_empty() { None } else { own.get(stream.below(own.len() as u64) as usize) };
                rows.push(one.map_or(-1, |&row| row as i64));
            }
        })?;
        Ok(rows.into_pyarray(py))
    }

    /// One vector per unit: the sum of its rows, or their mean. Entries that are not finite count as 0, and every entry of a unit without rows is `nothing`.
    #[pyo3(signature = (x, mean, nothing=0.0))]
    fn combined<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'py, f64>,
        mean: bool,
        nothing: f64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let x = x.as_array();
        self.same_rows(x.nrows())?;
        let mut out = Array2::zeros((self.count(), x.ncols()));
        interruptible(py, || {
            let (mut lines, mut own_shares) = (out.rows_mut().into_iter(), Vec::new());
            self.look(0..self.count(), |own| {
                let Some(mut line) = lines.next() else { return };
                if own.is_empty() {
                    line.fill(nothing);
                    return;
                }
                // divided before they are added up: a sum of large values would not be finite
                let count = if mean { own.len() as f64 } else { 1.0 };
                let shares = |j: usize| {
                    own.iter()
                        .map(move |&row| x[(row as usize, j)])
                        .filter(|value| value.is_finite())
                        .map(move |value| value / count)
                };
                for (j, entry) in line.iter_mut().enumerate() {
                    if own.len() > 2 {
                        // in which order a unit has its rows changes nothing, not the last digit either
                        own_shares.clear();
                        own_shares.extend(shares(j));
                        own_shares.sort_unstable_by(f64::total_cmp);
                        *entry += own_shares.iter().sum::<f64>();
                    } else {
                        shares(j).for_each(|share| *entry += share);
                    }
                }
            });
        })?;
        Ok(out.into_pyarray(py))
    }
}
