//! Where most numbers of several columns lie, in one release: two cells of the public grid for each (docs/proofs/private-ranges.md).
//!
//! The choices are those of [`RangeEnd`]; here they are made of the records of a block, all of them at once.

use super::quantiles::Level;
use super::ranges::RangeEnd;
use dpopt_draws::ExponentialChoice;
use dpopt_kernel::beside::{Expose, Members, Sealed};
use dpopt_kernel::{Batch, BatchId, CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::{ColumnValues, quantile_grid};
use dpopt_privacy::Event;

/// Counts below each point of [`quantile_grid`], of some columns of the records of a block.
pub struct ColumnCounts {
    /// Numbers below each grid point, by column and grid point.
    below: Vec<Vec<u64>>,
    /// How many numbers each column has.
    values: Vec<u64>,
    batch: Option<BatchId>,
}

impl ColumnCounts {
    /// The counts of the columns numbered `columns`, of the records of `batch` or of all.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn of<R: ColumnValues>(
        records: &Sensitive<R>,
        columns: &[usize],
        batch: Option<Batch>,
    ) -> Result<Sensitive<Self>, CuratorError> {
        let records = records.expose();
        if columns.iter().any(|&column| column >= records.width()) {
            return Err(CuratorError::Shape);
        }
        let grid = quantile_grid();
        let mut cells = vec![vec![0u64; grid.len() + 1]; columns.len()];
        let mut values = vec![f64::NAN; records.width()];
        let mut count = |record: usize| {
            records.values(record, &mut values);
            for (cell, &column) in cells.iter_mut().zip(columns) {
                let value = values[column];
                if !value.is_nan() {
                    cell[grid.partition_point(|g| *g <= value)] += 1;
                }
            }
        };
        match &batch {
            Some(batch) => {
                batch.records().iter().filter(|&&i| i < records.len() as u64).for_each(|&i| count(i as usize));
            }
            None => (0..records.len()).for_each(count),
        }
        let cumulative = |cell: &Vec<u64>| {
            let sums = cell[..grid.len()].iter().scan(0u64, |sum, c| {
                *sum += c;
                Some(*sum)
            });
            sums.collect()
        };
        let below = cells.iter().map(cumulative).collect();
        let values = cells.iter().map(|cell| cell.iter().sum()).collect();
        Ok(Sensitive::new(Self { below, values, batch: batch.map(|b| b.id()) }))
    }
}

/// Chooses for each column the grid cells in which the share of smaller numbers crosses a level and one minus that level. Event:
/// `ExponentialMechanism(ε)` twice for each column, under every relation.
#[derive(Clone, Debug)]
pub struct ColumnRanges {
    columns: usize,
    thousandths: u64,
    epsilon: f64,
}

impl ColumnRanges {
    /// The cells of `thousandths`/1000 and of the rest to 1, each choice for `epsilon`.
    pub fn new(columns: usize, thousandths: u64, epsilon: f64) -> Self {
        Self { columns, thousandths: thousandths.min(Level::OF / 2), epsilon }
    }

    /// What all choices cost.
    pub fn event_of(columns: usize, epsilon: f64) -> Event {
        Event::ExponentialMechanism { epsilon }.self_composed(2 * columns as u64)
    }

    /// How far the samplers of all choices are from their laws.
    pub fn sampler_error_of(columns: usize) -> SamplerError {
        SamplerError::fine((2 * columns * (quantile_grid().len() + 1)) as f64)
    }

    /// How far the rank of an end may be from the one that was meant, but for a probability of `miss` over all choices: of the G+1 cells one scores 0.
    pub fn rank_error(columns: usize, epsilon: f64, miss: f64) -> f64 {
        2.0 / epsilon * (2.0 * columns as f64 * (quantile_grid().len() + 1) as f64 / miss).ln()
    }
}

impl Sealed for ColumnRanges {}

impl Mechanism for ColumnRanges {
    type Input = ColumnCounts;
    /// From the low end of the low cell to the high end of the high one; `None` where either has no end.
    type Output = Vec<Option<(f64, f64)>>;

    fn event(&self) -> Event {
        Self::event_of(self.columns, self.epsilon)
    }

    fn sampler_error(&self, _input: &ColumnCounts) -> f64 {
        Self::sampler_error_of(self.columns).total_variation()
    }

    fn label(&self) -> &'static str {
        "ranges of columns"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        ExponentialChoice::new(self.epsilon, Level::OF, false).map(drop).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn check(&self, input: &ColumnCounts) -> Result<(), CuratorError> {
        if input.below.len() == self.columns { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn batch(&self, input: &ColumnCounts) -> Option<BatchId> {
        input.batch
    }

    fn apply(&self, input: &ColumnCounts, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        let grid = quantile_grid();
        let choice =
            ExponentialChoice::new(self.epsilon, Level::OF, false).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut stream = noise.stream(Purpose::Selection, 0);
        let mut cell = |column: usize, thousandths: u64| {
            let end = RangeEnd::new(column, thousandths, self.epsilon);
            let scores = end.scores(&input.below[column], input.values[column]);
            choice.choose(&scores, &mut stream).unwrap_or(0)
        };
        let ranges = (0..self.columns).map(|column| {
            let (one, other) = (cell(column, self.thousandths), cell(column, Level::OF - self.thousandths));
            let (low, high) = (one.min(other), one.max(other));
            // cell j holds the numbers from g_{j−1} on and below g_j
            (low > 0 && high < grid.len()).then(|| (grid[low - 1], grid[high]))
        });
        Ok(ranges.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_objective::records::Columns;

    fn data(rows: usize) -> Sensitive<Columns> {
        let mut all = Columns::new(3);
        (0..rows).for_each(|i| all.push(&[i as f64, f64::NAN, 1e12]));
        Sensitive::new(all)
    }

    #[test]
    fn ends_are_about_where_the_levels_are_and_what_lies_beyond_the_grid_has_none() {
        let records = data(10_000);
        for seed in 0..20 {
            let mechanism = ColumnRanges::new(2, 100, 1.0);
            let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(seed));
            let counts = ColumnCounts::of(&records, &[2, 0], None).unwrap();
            let found = curator.release(&mechanism, &counts).unwrap().into_inner();
            assert_eq!(found[0], None);
            let (low, high) = found[1].unwrap();
            // ranks within 45 of 1000 and 9000 but for a probability of 1e-6, and a cell of 3.7 %
            assert!((900.0..1050.0).contains(&low) && (8950.0..9400.0).contains(&high), "{low} {high}");
            assert!(curator.is_spent());
        }
        assert!((ColumnRanges::rank_error(2, 1.0, 1e-6) - 2.0 * (4.0 * 1540.0 / 1e-6f64).ln()).abs() < 1e-9);
        assert!(ColumnCounts::of(&records, &[3], None).is_err());
        let counts = ColumnCounts::of(&records, &[0], None).unwrap();
        assert!(ColumnRanges::new(2, 100, 1.0).check(counts.expose()).is_err());
    }

    #[test]
    fn a_column_without_numbers_has_a_range_of_no_meaning_and_no_error() {
        let mechanism = ColumnRanges::new(1, 100, 1.0);
        let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(1));
        let counts = ColumnCounts::of(&data(50), &[1], None).unwrap();
        assert!(curator.release(&mechanism, &counts).is_ok());
    }
}
