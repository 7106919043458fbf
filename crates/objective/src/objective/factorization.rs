//! Matrix factorization: a few entries of a matrix as products of two short vectors.

use super::{Gradient, Objective, Point};
use std::convert::Infallible;

/// One entry of a matrix: a rating of a film by a person.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Index of the row.
    pub row: u32,
    /// Index of the column.
    pub column: u32,
    /// Value of the entry.
    pub value: f32,
}

/// φ_i(x) = ½(⟨u_row, v_column⟩ − value)². x is all u, then all v, each of `rank` numbers. An entry outside the matrix contributes nothing.
///
/// **A record is an entry.** Whoever has several entries is protected for one of them only.
///
/// ```
/// use dpopt_objective::objective::{Entry, Factorization, Objective};
/// let ratings = vec![Entry { row: 1, column: 0, value: 3.0 }];
/// let factors = Factorization::new(2, 1, 1);
/// let mut sum = [0.0; 3];
/// factors.gradient(&mut &[9.0, 2.0, 1.0][..], &ratings, 0, &mut Default::default())?.add_to(&mut sum);
/// assert_eq!(sum, [0.0, -1.0, -2.0]); // r = 2·1 − 3
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factorization {
    rows: usize,
    columns: usize,
    rank: usize,
}

impl Factorization {
    /// The objective of a matrix of `rows` × `columns`.
    pub fn new(rows: usize, columns: usize, rank: usize) -> Self {
        Self { rows, columns, rank }
    }

    /// Where u and v of an entry begin; `None` outside the matrix.
    fn places(&self, entry: &Entry) -> Option<[usize; 2]> {
        let (row, column) = (entry.row as usize, entry.column as usize);
        let inside = row < self.rows && column < self.columns && entry.value.is_finite();
        inside.then(|| [row * self.rank, (self.rows + column) * self.rank])
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct FactorizationScratch {
    places: Vec<usize>,
    values: Vec<f64>,
}

impl Objective<Vec<Entry>> for Factorization {
    type Scratch = FactorizationScratch;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        (self.rows + self.columns) * self.rank
    }

    fn value(
        &self,
        x: &[f64],
        records: &Vec<Entry>,
        i: usize,
        _: &mut FactorizationScratch,
    ) -> Result<f64, Infallible> {
        Ok(self.places(&records[i]).map_or(0.0, |[u, v]| {
            let product: f64 = (0..self.rank).map(|k| x[u + k] * x[v + k]).sum();
            0.5 * (product - f64::from(records[i].value)).powi(2)
        }))
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a Vec<Entry>,
        i: usize,
        scratch: &'a mut FactorizationScratch,
    ) -> Result<Gradient<'a>, Infallible> {
        let Some([u, v]) = self.places(&records[i]) else { return Ok(Gradient::Zero) };
        let FactorizationScratch { places, values } = scratch;
        places.clear();
        places.extend((u..u + self.rank).chain(v..v + self.rank));
        values.clear();
        values.extend(places.iter().map(|&at| x.read(at)));
        let (own, other) = values.split_at_mut(self.rank);
        let product: f64 = own.iter().zip(&*other).map(|(u, v)| u * v).sum();
        let r = product - f64::from(records[i].value);
        for (u, v) in own.iter_mut().zip(other) {
            (*u, *v) = (r * *v, r * *u);
        }
        Ok(Gradient::Entries { places, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_those_of_the_values() {
        let factors = Factorization::new(3, 2, 2);
        let records = vec![Entry { row: 2, column: 1, value: 0.5 }, Entry { row: 3, column: 0, value: 1.0 }];
        let x: Vec<f64> = (0..10).map(|k| f64::from(k).sin()).collect();
        let mut gradient = [0.0; 10];
        let mut scratch = FactorizationScratch::default();
        let Ok(g) = factors.gradient(&mut &x[..], &records, 0, &mut scratch);
        g.add_to(&mut gradient);
        for j in 0..10 {
            let at = |h: f64| {
                let mut moved = x.clone();
                moved[j] += h;
                let Ok(value) = factors.value(&moved, &records, 0, &mut FactorizationScratch::default());
                value
            };
            assert!((gradient[j] - (at(1e-5) - at(-1e-5)) / 2e-5).abs() < 1e-8);
        }
        let Ok(outside) = factors.gradient(&mut &x[..], &records, 1, &mut scratch);
        assert!(matches!(outside, Gradient::Zero));
    }
}
