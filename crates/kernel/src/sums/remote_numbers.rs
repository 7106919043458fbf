//! Numbers of remote records, as they were given: sums of clipped vectors around a centre, and how many numbers are in each cell of the public grid.

use super::aggregate_query::AggregateQuery;
use super::grid_sum::GridSum;
use super::vectors::ClippedVectors;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_noise::Grid;
use dpopt_objective::records::{
    BelowCounts, PartialSum, PartitionsError, ReadError, RecordSet, RemoteRecords, fingerprint, quantile_grid,
};

/// The sum of all partitions' answers.
fn told(
    records: &Sensitive<RemoteRecords>,
    query: &AggregateQuery,
    point: &[f64],
    width: usize,
) -> Result<Vec<i64>, ReadError> {
    let told = records.expose().ask(&mut || query.at(point), width);
    told.unwrap_or(Err(ReadError::Partitions(PartitionsError::Single)))
}

impl ClippedVectors {
    /// Σ clip(v_i − centre) over the numbers of remote records, as many in each as the centre has. A number that is not finite counts as the centre's.
    ///
    /// # Errors
    /// If a part can't be asked.
    pub fn remote_sum(
        &self,
        records: &Sensitive<RemoteRecords>,
        centre: &[f64],
    ) -> Result<Sensitive<GridSum>, ReadError> {
        let (grid, clip_norm) = (self.grid(), self.clip_norm());
        let query = AggregateQuery::Vectors { width: centre.len(), clip_norm, grid: grid.exponent() };
        let quanta = told(records, &query, centre, centre.len())?;
        Ok(Sensitive::new(GridSum { quanta, grid, clip_norm, batch: None }))
    }
}

/// For each of `columns` numbers of remote records, how many are below each point of the public grid.
///
/// # Errors
/// If a part can't be asked.
pub fn below_counts(records: &Sensitive<RemoteRecords>, columns: usize) -> Result<Sensitive<BelowCounts>, ReadError> {
    let cells = quantile_grid().len() + 1;
    let counted = told(records, &AggregateQuery::Cells { width: columns }, &[], columns * cells)?;
    let mut counts = BelowCounts::of_columns(std::iter::empty::<[f64; 0]>());
    for (c, cells) in counted.chunks_exact(cells).enumerate() {
        // a part that counts below 0 counts nothing
        let cells: Vec<u64> = cells.iter().map(|&count| u64::try_from(count).unwrap_or(0)).collect();
        counts.push(format!("column {c}"), &cells);
    }
    Ok(Sensitive::new(counts))
}

/// What partition `part` answers to a query about its numbers, `width` in each record: as [`answer`](super::answers::answer) does for rows, and as sensitive.
///
/// # Errors
/// [`CuratorError::Shape`] if it is no query of this version, or not about so many numbers.
pub fn answer_numbers(
    (width, numbers): (usize, &[f64]),
    message: &[u8],
    context: usize,
    (part, digest): (u32, u64),
) -> Result<Vec<u8>, CuratorError> {
    let (asked, point) = message.get(context..).and_then(AggregateQuery::parse).ok_or(CuratorError::Shape)?;
    let records = numbers.len() / width.max(1);
    let row = |i: usize| &numbers[i * width..(i + 1) * width];
    let quanta = match asked {
        AggregateQuery::Vectors { width: asked, clip_norm, grid } if asked == width && point.len() == width => {
            let deviation = |i: usize, out: &mut Vec<f64>| out.extend(row(i).iter().zip(&point).map(|(v, c)| v - c));
            ClippedVectors::new(clip_norm, Grid::new(grid))?.add_up(records, width, deviation)
        }
        AggregateQuery::Cells { width: asked } if asked == width && point.is_empty() => {
            let grid = quantile_grid();
            let column = |j: usize| (0..records).map(move |i| row(i)[j]);
            let cells = (0..width).flat_map(|j| BelowCounts::cells(&grid, column(j)));
            cells.map(|count| count as i64).collect()
        }
        _ => return Err(CuratorError::Shape),
    };
    Ok(PartialSum::new(fingerprint(message), part, (records as u64, digest), quanta).to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::{Partitions, PartitionsFailed};
    use std::sync::Arc;

    const WIDTH: usize = 3;

    fn numbers(which: std::ops::Range<usize>) -> Vec<f64> {
        let odd = |at: usize| match at % 41 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            _ => ((at * 7919) % 2003) as f64 / 100.0 - 10.0,
        };
        (which.start * WIDTH..which.end * WIDTH).map(odd).collect()
    }

    struct Here(Vec<Vec<f64>>);

    impl Partitions for Here {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            let of = |(part, held): (usize, &Vec<f64>)| answer_numbers((WIDTH, held), query, 0, (part as u32, 0));
            self.0.iter().enumerate().map(|part| of(part).map_err(|_| PartitionsFailed)).collect()
        }
    }

    fn remote(ends: &[usize]) -> Sensitive<RemoteRecords> {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let parts: Vec<Vec<f64>> = starts.zip(ends).map(|(a, &b)| numbers(a..b)).collect();
        let known = parts.iter().map(|part| ((part.len() / WIDTH) as u64, 0)).collect();
        Sensitive::new(RemoteRecords::new(Arc::new(Here(parts)), known, WIDTH, f64::INFINITY))
    }

    #[test]
    fn sums_around_a_centre_and_counts_are_those_of_all_numbers() {
        let all = numbers(0..500);
        let row = |i: usize, out: &mut Vec<f64>| out.extend_from_slice(&all[i * WIDTH..(i + 1) * WIDTH]);
        let clipped = ClippedVectors::new(2.0, Grid::new(-30)).unwrap();
        let centre = [0.5, -1.0, 3.0];
        let deviation = |i: usize, out: &mut Vec<f64>| {
            row(i, out);
            out.iter_mut().zip(&centre).for_each(|(v, c)| *v -= c);
        };
        let column = |j: usize| (0..500).map(|i| all[i * WIDTH + j]).collect::<Vec<_>>();
        let counted = BelowCounts::of_columns((0..WIDTH).map(column));
        for ends in [vec![500], vec![0, 1, 260, 260, 499, 500]] {
            let there = remote(&ends);
            let sums = [
                (clipped.sum(500, WIDTH, row), clipped.remote_sum(&there, &[0.0; WIDTH])),
                (clipped.sum(500, WIDTH, deviation), clipped.remote_sum(&there, &centre)),
            ];
            for (here, there) in sums {
                assert!(here.expose().quanta.iter().all(|&unit| unit != 0));
                assert_eq!(here.expose().quanta, there.unwrap().expose().quanta);
            }
            assert_eq!(below_counts(&there, WIDTH).unwrap().expose(), &counted);
        }
    }

    #[test]
    fn questions_of_another_shape_are_refused() {
        let held = numbers(0..10);
        let ask = |query: AggregateQuery, point: &[f64]| answer_numbers((WIDTH, &held), &query.at(point), 0, (0, 0));
        let vectors = |width| AggregateQuery::Vectors { width, clip_norm: 1.0, grid: -30 };
        assert!(ask(vectors(WIDTH), &[0.0; WIDTH]).is_ok() && ask(AggregateQuery::Cells { width: WIDTH }, &[]).is_ok());
        assert!(ask(vectors(WIDTH), &[0.0; 2]).is_err() && ask(vectors(2), &[0.0; 2]).is_err());
        assert!(ask(AggregateQuery::Cells { width: 2 }, &[]).is_err());
        assert!(ask(AggregateQuery::SecondMoment { weight: 1.0, row_norm: 1.0, grid: -30 }, &[]).is_err());
    }
}
