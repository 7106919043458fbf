//! The objective of units: what a person contributes is the mean over their rows.

use super::{Facts, Gradient, Objective, ObjectiveSpec, Point};
use crate::records::{RecordSet, Records, Units};

/// Records that are rows, or made of rows: what is known of a row's loss says what a record contributes.
pub trait OfRows: RecordSet + Sized {
    /// The set of single rows.
    type Rows: Records;
    /// An objective of rows, as one of these records.
    type Over<O: Objective<Self::Rows> + Clone>: Objective<Self> + Clone;
    /// Whether a record may have several rows, or none.
    const POOLED: bool;

    /// The objective of rows, over these records.
    fn over<O: Objective<Self::Rows> + Clone>(objective: O) -> Self::Over<O>;

    /// The rows that the records are made of.
    fn rows(&self) -> &Self::Rows;
}

impl<R: Records> OfRows for R {
    type Rows = R;
    type Over<O: Objective<R> + Clone> = O;
    const POOLED: bool = false;

    fn over<O: Objective<R> + Clone>(objective: O) -> O {
        objective
    }

    fn rows(&self) -> &R {
        self
    }
}

impl<R: Records> OfRows for Units<R> {
    type Rows = R;
    type Over<O: Objective<R> + Clone> = OfUnits<O>;
    const POOLED: bool = true;

    fn over<O: Objective<R> + Clone>(objective: O) -> OfUnits<O> {
        OfUnits::new(objective)
    }

    fn rows(&self) -> &R {
        Units::rows(self)
    }
}

/// φ_u(x) = (1/k)·Σφ_j(x) over the k rows j of unit u: another objective's, with a unit's rows as one record. A clip of its gradients is a clip per
/// unit, however many rows a unit has; a unit without rows contributes nothing.
///
/// A mean of convex functions is convex, one of Lipschitz and smooth functions as Lipschitz and smooth as they are; gradients of linear models are no longer
/// multiples of one row.
///
/// ```
/// use dpopt_objective::loss::Loss;
/// use dpopt_objective::objective::{Linear, Objective, OfUnits};
/// use dpopt_objective::records::{Examples, Owners, Rows, Units};
/// let mut rows = Rows::new(2);
/// for value in [0.5, -0.5, 1.0] {
///     rows.push_clipped(&mut vec![(0, value)], 1.0);
/// }
/// let owners = Owners { of_row: vec![0, 0, 1], units: 2 };
/// let visits = Units::new(Examples { rows, targets: vec![0.0; 3] }, &owners)?;
/// let objective = OfUnits::new(Linear::new(Loss::Squared, 2, 1.0));
/// let mut gradient = [0.0; 2];
/// objective.gradient(&mut &[1.0, 0.0][..], &visits, 0, &mut Default::default())?.add_to(&mut gradient);
/// assert_eq!(gradient, [0.25, 0.0]); // the mean of .5·.5 and −.5·−.5
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OfUnits<O> {
    of_rows: O,
}

impl<O> OfUnits<O> {
    /// The means of `of_rows`.
    pub fn new(of_rows: O) -> Self {
        Self { of_rows }
    }

    /// What each row contributes.
    pub fn of_rows(&self) -> &O {
        &self.of_rows
    }
}

/// Buffers of one unit.
#[derive(Default)]
pub struct UnitScratch<S> {
    of_row: S,
    /// All 0 between units, so that a unit costs no more than its rows.
    sums: Vec<f64>,
    touched: Vec<bool>,
    places: Vec<usize>,
    values: Vec<f64>,
}

impl<S> UnitScratch<S> {
    fn add(&mut self, at: usize, value: f64) {
        if at < self.sums.len() && value.is_finite() {
            if !self.touched[at] {
                self.touched[at] = true;
                self.places.push(at);
            }
            self.sums[at] += value;
        }
    }
}

/// A unit's rows are added up coordinate by coordinate where there are no more coordinates than this for each of them: going through those that no row
/// touches then costs less than keeping account of those that one does.
const DENSE_PER_ROW: usize = 64;

impl<O> OfUnits<O> {
    /// The mean over at least one row, as a vector of all coordinates.
    fn dense<'a, R: RecordSet>(
        &self,
        x: &mut impl Point,
        records: &R,
        rows: &[u64],
        scratch: &'a mut UnitScratch<O::Scratch>,
    ) -> Result<Gradient<'a>, R::Error>
    where
        O: Objective<R>,
    {
        let UnitScratch { of_row, values, .. } = scratch;
        values.clear();
        values.resize(self.of_rows.dimension(), 0.0);
        let share = 1.0 / rows.len() as f64;
        for &row in rows {
            match self.of_rows.gradient(x, records, row as usize, of_row)? {
                Gradient::Zero => {}
                Gradient::Outer { slope, width, row } if row.fits(width) => {
                    for (line, slope) in values.chunks_exact_mut(width.max(1)).zip(slope) {
                        let slope = slope * share;
                        for (&j, &value) in row.columns().iter().zip(row.values()) {
                            line[j as usize] += slope * f64::from(value);
                        }
                    }
                }
                Gradient::Dense(all) => values.iter_mut().zip(all).for_each(|(sum, value)| *sum += share * *value),
                other => other.for_each(|at, value| {
                    if let Some(sum) = values.get_mut(at) {
                        *sum += share * value;
                    }
                }),
            }
        }
        Ok(Gradient::Dense(values))
    }
}

impl<R: RecordSet, O: Objective<R>> Objective<Units<R>> for OfUnits<O> {
    type Scratch = UnitScratch<O::Scratch>;
    const LOCAL: bool = O::LOCAL;

    fn dimension(&self) -> usize {
        self.of_rows.dimension()
    }

    fn lines(&self) -> usize {
        self.of_rows.lines()
    }

    fn facts(&self) -> Facts {
        self.of_rows.facts()
    }

    fn describes(&self, records: &Units<R>) -> bool {
        self.of_rows.describes(records.rows())
    }

    fn spec(&self) -> Option<ObjectiveSpec> {
        let of = self.of_rows.spec().filter(|of| !of.of_units && of.sizes.is_none())?;
        Some(ObjectiveSpec { of_units: true, ..of })
    }

    fn value(&self, x: &[f64], records: &Units<R>, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        let rows = records.of(i);
        let mut sum = 0.0;
        for &row in rows {
            sum += self.of_rows.value(x, records.rows(), row as usize, &mut scratch.of_row)?;
        }
        Ok(sum / rows.len().max(1) as f64)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a Units<R>,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let rows = records.of(i);
        if let [row] = rows {
            return self.of_rows.gradient(x, records.rows(), *row as usize, &mut scratch.of_row);
        }
        let dimension = self.of_rows.dimension();
        records.rows().fetch(rows);
        if dimension <= DENSE_PER_ROW.saturating_mul(rows.len()) {
            return self.dense(x, records.rows(), rows, scratch);
        }
        scratch.sums.resize(dimension, 0.0);
        scratch.touched.resize(dimension, false);
        scratch.places.clear();
        let mut failed = None;
        for &row in rows {
            let mut of_row = std::mem::take(&mut scratch.of_row);
            match self.of_rows.gradient(x, records.rows(), row as usize, &mut of_row) {
                Ok(gradient) => gradient.for_each(|at, value| scratch.add(at, value)),
                Err(unreadable) => failed = Some(unreadable),
            }
            scratch.of_row = of_row;
            if failed.is_some() {
                break;
            }
        }
        let share = 1.0 / rows.len().max(1) as f64;
        let UnitScratch { sums, touched, places, values, .. } = scratch;
        // increasing places are fastest to clip, and the same whatever the order of rows
        places.sort_unstable();
        values.clear();
        for &at in places.iter() {
            values.push(sums[at] * share);
            (sums[at], touched[at]) = (0.0, false);
        }
        match failed {
            Some(unreadable) => Err(unreadable),
            None if places.is_empty() => Ok(Gradient::Zero),
            None => Ok(Gradient::Entries { places, values }),
        }
    }

    fn ahead(
        &self,
        records: &Units<R>,
        i: usize,
        scratch: &mut Self::Scratch,
        places: &mut Vec<usize>,
    ) -> Result<(), R::Error> {
        let each = |&row: &u64| self.of_rows.ahead(records.rows(), row as usize, &mut scratch.of_row, places);
        records.of(i).iter().try_for_each(each)
    }
}
