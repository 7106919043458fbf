//! Answers of a partition to aggregate queries, by the loops that one process uses.

use super::aggregate_query::{AggregateQuery, Sample};
use super::clipped::Clipped;
use super::contributions::add_up;
use super::majorant::Majorant;
use super::matrix::SecondMoment;
use super::moments::TargetMoment;
use crate::refused::CuratorError;
use dpopt_noise::Grid;
use dpopt_objective::objective::{
    Calibration, Cells, Coverage, GradientSizes, Linear, Objective, ObjectiveSpec, OfRows,
};
use dpopt_objective::records::{Examples, PartialSum, RecordSet, fingerprint};
use dpopt_objective::solver::Split;
use std::convert::Infallible;

/// What tells a partition from others, or a piece of one that answers for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFacts {
    /// Number of the partition.
    pub part: u32,
    /// Fingerprint of what its records hold, whatever their order.
    pub digest: u64,
    /// Fingerprint of what its records hold, in their order.
    pub order: u64,
    /// Number of the partition's records that come before those of the piece.
    pub before: u64,
}

impl PartFacts {
    /// A number for this partition and its order: the sum over all partitions tells one order of all records from others.
    fn in_order(self) -> i64 {
        let words = [u64::from(self.part), self.before, self.order];
        fingerprint(words.map(u64::to_le_bytes).as_flattened()) as i64
    }
}

/// The answer of these records to a query: of rows, or of privacy units with all of their rows.
fn sum<R>(asked: &AggregateQuery, records: &R, point: &[f64], facts: PartFacts) -> Result<Vec<i64>, CuratorError>
where
    R: OfRows<Rows = Examples> + RecordSet<Error = Infallible>,
{
    match *asked {
        // a unit's rows one by one would each be clipped, and so would not the unit
        AggregateQuery::Gradients { ref of, .. } if of.of_units != R::POOLED => Err(CuratorError::Shape),
        AggregateQuery::Gradients {
            of: ObjectiveSpec { loss, features, row_norm, sizes, ref scores, interval, .. },
            clip_norm,
            grid,
            ref sample,
        } => {
            let (of, grid) = (Linear::new(loss, features, row_norm), Grid::new(grid));
            let asked = Asked { point, sample: sample.as_ref(), facts };
            match (sizes, scores, interval) {
                (None, None, None) => asked.of(Clipped::new(R::over(of), clip_norm, grid)?, records),
                (None, Some(scores), None) => {
                    let of = Calibration::new(of, scores.clone()).ok_or(CuratorError::Shape)?;
                    asked.of(Clipped::new(R::over(of), clip_norm, grid)?, records)
                }
                (None, None, Some(interval)) => {
                    let of = Coverage::new(of, interval).ok_or(CuratorError::Shape)?;
                    asked.of(Clipped::new(R::over(of), clip_norm, grid)?, records)
                }
                (Some(Cells { smallest, ratio, cells }), None, None) => {
                    let sizes = GradientSizes::new(R::over(of), smallest, ratio, cells);
                    asked.of(Clipped::new(sizes, clip_norm, grid)?, records)
                }
                _ => Err(CuratorError::Shape),
            }
        }
        AggregateQuery::SecondMoment { .. }
        | AggregateQuery::TargetMoment { .. }
        | AggregateQuery::Curved(_)
        | AggregateQuery::Majorant { .. }
            if R::POOLED =>
        {
            Err(CuratorError::Shape)
        }
        // of numbers, and not of rows
        AggregateQuery::Vectors { .. } | AggregateQuery::Cells { .. } => Err(CuratorError::Shape),
        AggregateQuery::SecondMoment { weight, row_norm, grid } => {
            let Ok(quanta) = SecondMoment::new(weight, row_norm, Grid::new(grid))?.add_up(records.rows());
            Ok(quanta)
        }
        AggregateQuery::TargetMoment { target_bound, row_norm, grid } => {
            let Ok(quanta) = TargetMoment::new(target_bound, row_norm, Grid::new(grid))?.add_up(records.rows());
            Ok(quanta)
        }
        AggregateQuery::Curved(sums) => {
            let records = records.rows();
            let theta = Split::from_numbers(point).filter(|theta| theta.len() == sums.weights());
            let theta = theta.filter(|_| sums.describes(records)).ok_or(CuratorError::Shape)?;
            let Ok(quanta) = add_up(records.rows.len(), sums.width(), GRAIN, |range| {
                Ok::<_, Infallible>(sums.over(records, range, &theta))
            });
            Ok(quanta)
        }
        AggregateQuery::Majorant { shift, row_norm, grid } => {
            let records = records.rows();
            if point.len() != records.rows.columns() || records.rows.norm_bound() > row_norm {
                return Err(CuratorError::Shape);
            }
            let Ok(quanta) = Majorant::new(shift, row_norm, Grid::new(grid))?.add_up(records, point);
            Ok(quanta)
        }
    }
}

/// Records that a thread takes at least.
const GRAIN: usize = 64;

/// The point at which gradients are asked for, and the records that are asked.
struct Asked<'a> {
    point: &'a [f64],
    sample: Option<&'a Sample>,
    facts: PartFacts,
}

impl Asked<'_> {
    fn of<R: RecordSet<Error = Infallible>, O: Objective<R>>(
        &self,
        clipped: Clipped<O>,
        records: &R,
    ) -> Result<Vec<i64>, CuratorError> {
        if self.point.len() != clipped.objective().dimension() || !clipped.objective().describes(records) {
            return Err(CuratorError::Shape);
        }
        let Some(sample) = self.sample else {
            let Ok(quanta) = clipped.add_up(records, self.point, records.len(), |i| i);
            return Ok(quanta);
        };
        let PartFacts { part, before, .. } = self.facts;
        let chosen = sample.of_part(part, before, records.len() as u64).ok_or(CuratorError::Shape)?;
        let Ok(mut quanta) = clipped.add_up(records, self.point, chosen.len(), |i| chosen[i] as usize);
        quanta.push(self.facts.in_order());
        Ok(quanta)
    }
}

/// What the records of a partition answer to an aggregate query of the driver, of whose message the first `context` bytes are the caller's own:
/// bytes of a [`PartialSum`]. **They are as sensitive as the records**: they go to the driver, encrypted on the way, and nowhere else,
/// into no log.
///
/// # Errors
/// [`CuratorError::Shape`] if it is no query of this version, or one about records of another shape.
pub fn answer<R>(records: &R, message: &[u8], context: usize, facts: PartFacts) -> Result<Vec<u8>, CuratorError>
where
    R: OfRows<Rows = Examples> + RecordSet<Error = Infallible>,
{
    let (asked, point) = message.get(context..).and_then(AggregateQuery::parse).ok_or(CuratorError::Shape)?;
    let quanta = sum(&asked, records, &point, facts)?;
    let known = (records.len() as u64, facts.digest);
    Ok(PartialSum::new(fingerprint(message), facts.part, known, quanta).to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gaussian, Sensitive, symmetric_matrix};
    use dpopt_noise::SubsetKey;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::objective::OfUnits;
    use dpopt_objective::records::{
        Owners, Partitions, PartitionsError, PartitionsFailed, ReadError, RemoteRecords, Rows, Units,
    };
    use std::sync::Arc;

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

    fn records(which: impl Iterator<Item = u32>) -> Examples {
        let mut rows = Rows::new(4);
        let mut targets = Vec::new();
        for i in which {
            let entries = (0..4).map(|j| (j, ((i * 7 + j * 3) % 11) as f32 / 5.0 - 1.0));
            rows.push_clipped(&mut entries.collect::<Vec<_>>(), 1.0);
            targets.push(if i % 3 == 0 { 1.0 } else { -1.0 });
        }
        Examples { rows, targets }
    }

    fn of_part(part: usize) -> PartFacts {
        PartFacts { part: part as u32, ..PartFacts::default() }
    }

    /// Parts in this process, answering last first, one of them twice.
    struct Here(Vec<Examples>);

    impl Partitions for Here {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            let of = |part: usize| answer(&self.0[part], query, 0, of_part(part)).map_err(|_| PartitionsFailed);
            (0..self.0.len()).rev().chain([0]).map(of).collect()
        }
    }

    /// Records 0..100 in parts that end at `ends`.
    fn remote(ends: &[u32]) -> RemoteRecords {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let parts: Vec<Examples> = starts.zip(ends).map(|(a, &b)| records(a..b)).collect();
        let sizes = parts.iter().map(|part| (part.rows.len() as u64, 0)).collect();
        RemoteRecords::new(Arc::new(Here(parts)), sizes, 4, 1.0)
    }

    #[test]
    fn sums_are_the_same_bits_whatever_the_parts_are() {
        let grid = Grid::new(-30);
        let linear = Linear::new(LOGISTIC, 4, 1.0);
        let (x, here) = ([0.3, -0.1, 0.7, 1e-3], Sensitive::new(records(0..100)));
        let sizes = GradientSizes::new(linear, 0.01, 1.5, 9);
        let of_gradients = Clipped::new(linear, 0.2, grid).unwrap();
        let of_sizes = Clipped::new(sizes, 1.0, grid).unwrap();
        let moment = SecondMoment::new(1.0, 1.0, grid).unwrap();
        let target = TargetMoment::new(1.0, 1.0, grid).unwrap();
        let far = [0.1; 9];
        let expected = [
            of_gradients.sum(&here, &x),
            of_sizes.sum(&here, &far),
            moment.sum(&here).unwrap(),
            target.sum(&here).unwrap(),
        ];
        assert!(expected.iter().all(|sum| sum.expose().quanta.iter().any(|&unit| unit != 0)));
        for ends in [vec![100], vec![37, 100], vec![0, 1, 50, 50, 99, 100]] {
            let there = Sensitive::new(remote(&ends));
            let sums = [
                of_gradients.sum_of(&there, None, &x).unwrap(),
                of_sizes.sum_of(&there, None, &far).unwrap(),
                moment.sum(&there).unwrap(),
                target.sum(&there).unwrap(),
            ];
            for (sum, expected) in sums.iter().zip(&expected) {
                assert_eq!(sum.expose().quanta, expected.expose().quanta);
                assert_eq!(
                    (sum.expose().grid, sum.expose().clip_norm),
                    (expected.expose().grid, expected.expose().clip_norm)
                );
            }
        }
        assert_eq!(remote(&[37, 100]).len(), 100);
    }

    /// A record's share of the matrix of a Newton step, in the coordinates whose l2 norm is that of the matrix, is at most R²/4, whatever the record.
    #[test]
    fn a_record_moves_the_matrix_of_a_newton_step_by_no_more_than_its_bound() {
        use dpopt_objective::solver::majorising_curvature;
        let mut largest = 0.0f64;
        for (row_norm, entries) in [
            (1.0, vec![(0, 0.6f32), (1, -0.8)]),
            (2.0, vec![(0, 1.0), (1, 1.0), (2, -1.0), (3, 1.0)]),
            (0.1, vec![(3, 9.0)]),
            (1.0, vec![(0, f32::MAX), (2, f32::MIN_POSITIVE)]),
            (1.0, Vec::new()),
        ] {
            for (shift, theta) in [(0.0, [0.0; 4]), (2.0, [0.5, -3.0, 1e300, 0.0]), (2.0, [f64::NAN; 4])] {
                for target in [1.0, -1.0, f32::NAN, f32::INFINITY] {
                    let mut rows = Rows::new(4);
                    rows.push_clipped(&mut entries.clone(), row_norm);
                    let one = Examples { rows, targets: vec![target] };
                    let majorant = Majorant::of(&Linear::new(Loss::Logistic { shift }, 4, row_norm), 1000).unwrap();
                    let Ok(quanta) = majorant.add_up(&one, &theta);
                    let size = quanta.iter().map(|&u| majorant.grid().to_f64(u).powi(2)).sum::<f64>().sqrt();
                    let bound = 0.25 * row_norm * row_norm;
                    assert!(size <= bound * (1.0 + 1e-14), "{size} {bound}");
                    largest = largest.max(size / bound);
                    if theta == [0.0; 4] && shift == 0.0 {
                        // at u = 0 it is the row's product with itself, a quarter of it; a row of 2^21 steps loses three of them at most
                        let length: f64 = one.rows.row(0).1.iter().map(|x| f64::from(*x).powi(2)).sum();
                        let coordinates: Vec<f64> = quanta.iter().map(|&u| majorant.grid().to_f64(u)).collect();
                        let size = symmetric_matrix(4, &coordinates).iter().map(|m| m * m).sum::<f64>().sqrt();
                        assert!((size - majorising_curvature(0.0) * length).abs() <= 3e-6 * bound);
                    }
                }
            }
        }
        assert!(largest > 0.999, "{largest}");
    }

    /// A sample has the same records in one partition or many, local or remote, and when a partition is asked twice.
    #[test]
    fn sums_over_a_sample_are_the_same_bits_whatever_the_parts_are() {
        let (grid, x) = (Grid::new(-30), [0.3, -0.1, 0.7, 1e-3]);
        let rows = Clipped::new(Linear::new(LOGISTIC, 4, 1.0), 0.2, grid).unwrap();
        let of_units = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), 0.02, grid).unwrap();
        let curator = || {
            let event = dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.3).self_composed(3);
            crate::Curator::for_event(&event, dpopt_noise::NoiseSource::insecure(8))
        };
        let (here, units_here) = (Sensitive::new(records(0..100)), Sensitive::new(quanta(0..10)));
        let mut drawn = curator();
        let steps = [(); 3].map(|()| drawn.poisson_sample_for_sum(&here, 0.3).unwrap());
        let expected = steps.map(|batch| rows.sum_of(&here, Some(batch), &x).unwrap().expose().quanta.clone());
        assert!(expected[0] != expected[1] && expected[1] != expected[2] && expected[0].iter().any(|&unit| unit != 0));
        let mut drawn = curator();
        let batch = drawn.poisson_sample_for_sum(&units_here, 0.3).unwrap();
        let expected_of_units = of_units.sum_of(&units_here, Some(batch), &x).unwrap().expose().quanta.clone();
        assert!(expected_of_units.iter().any(|&unit| unit != 0));
        // `Here` answers twice for its first part
        for ends in [vec![100], vec![37, 100], vec![0, 1, 50, 50, 99, 100]] {
            let (there, mut drawn) = (Sensitive::new(remote(&ends)), curator());
            for expected in &expected {
                let batch = drawn.poisson_sample_for_sum(&there, 0.3).unwrap();
                assert!(batch.records().is_empty());
                let sum = rows.sum_of(&there, Some(batch), &x).unwrap();
                assert_eq!(&sum.expose().quanta, expected);
            }
        }
        for ends in [vec![10], vec![3, 10], vec![0, 1, 9, 10]] {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let there = by_unit(starts.zip(&ends).map(|(a, &b)| quanta(a..b)).collect());
            let batch = curator().poisson_sample_for_sum(&there, 0.3).unwrap();
            let sum = of_units.sum_of(&there, Some(batch), &x).unwrap();
            assert_eq!(sum.expose().quanta, expected_of_units);
        }
        // a batch of all records or of none is one too
        let mut curator =
            crate::Curator::for_event(&dpopt_privacy::Event::gaussian(1.0), dpopt_noise::NoiseSource::insecure(8));
        for (q, expected) in [(0.0, vec![0; 4]), (1.0, rows.sum(&here, &x).expose().quanta.clone())] {
            let there = Sensitive::new(remote(&[37, 100]));
            let batch = curator.poisson_sample_for_sum(&there, q).unwrap();
            assert_eq!(rows.sum_of(&there, Some(batch), &x).unwrap().expose().quanta, expected);
        }
        // of others, or of records that are here, it is no sample
        for of in [remote(&[37, 99]), remote(&[100])] {
            let batch = curator.poisson_sample_for_sum(&Sensitive::new(remote(&[37, 100])), 0.0).unwrap();
            let same = of.len() == 100;
            assert_eq!(rows.sum_of(&Sensitive::new(of), Some(batch), &x).is_ok(), same);
        }
        let batch = curator.poisson_sample_for_sum(&Sensitive::new(remote(&[100])), 1.0).unwrap();
        assert!(rows.sum_of(&here, Some(batch), &x).is_err());
    }

    #[test]
    fn a_part_that_begins_or_ends_elsewhere_than_the_sample_says_gives_no_answer() {
        let (part, key) = (records(0..10), SubsetKey::from_bytes([7; 32]));
        let asked = |of: u64, firsts: &[u64]| {
            let of_rows = ObjectiveSpec {
                loss: LOGISTIC,
                features: 4,
                row_norm: 1.0,
                sizes: None,
                scores: None,
                interval: None,
                of_units: false,
            };
            let sample = Some(Sample::new((&key, 0.5, of), firsts));
            AggregateQuery::Gradients { of: of_rows, clip_norm: 1.0, grid: -30, sample }.at(&[0.0; 4])
        };
        let width = |query: Vec<u8>, facts| {
            answer(&part, &query, 0, facts).map(|bytes| PartialSum::from_bytes(&bytes).unwrap().width())
        };
        let piece = |before| PartFacts { before, ..of_part(1) };
        assert_eq!(width(asked(20, &[0, 10]), piece(0)), Ok(5));
        assert_eq!(width(asked(30, &[0, 10]), piece(10)), Ok(5));
        for (query, facts) in [
            (asked(20, &[0]), piece(0)),
            (asked(19, &[0, 10]), piece(0)),
            (asked(20, &[0, 10]), piece(1)),
            (asked(20, &[0, u64::MAX]), piece(0)),
            (asked(20, &[0, 10]), piece(u64::MAX)),
        ] {
            assert_eq!(width(query, facts), Err(CuratorError::Shape));
        }
        assert!(!format!("{:?}", Sample::new((&key, 0.5, 1), &[0])).contains('7'));
    }

    #[test]
    fn what_is_released_of_parts_is_what_is_released_of_all_records() {
        use crate::Curator;
        use dpopt_noise::NoiseSource;
        use dpopt_privacy::Event;
        let grid = Grid::new(-30);
        let clipped = Clipped::new(Linear::new(LOGISTIC, 4, 1.0), 1.0, grid).unwrap();
        let release = |sum: Sensitive<super::super::grid_sum::GridSum>| {
            let mut curator = Curator::for_event(&Event::gaussian(2.0), NoiseSource::insecure(5));
            curator.release(&Gaussian::new(2.0, 1.0, grid, 4, "gradient"), &sum).unwrap().into_inner()
        };
        let here = release(clipped.sum(&Sensitive::new(records(0..100)), &[0.0; 4]));
        let there = release(clipped.sum_of(&Sensitive::new(remote(&[20, 100])), None, &[0.0; 4]).unwrap());
        assert!(here == there && here.iter().any(|x| *x != 0.0));
    }

    /// Partitions of privacy units, each with all of its rows, or not.
    struct ByUnit(Vec<Units<Examples>>);

    impl Partitions for ByUnit {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            let of = |(part, quanta)| answer(quanta, query, 0, of_part(part)).map_err(|_| PartitionsFailed);
            self.0.iter().enumerate().map(of).collect()
        }
    }

    /// The rows of these units, unit u having rows 10u to 10u + 9.
    fn quanta(which: std::ops::Range<u32>) -> Units<Examples> {
        let owners = Owners { of_row: which.clone().flat_map(|u| [u - which.start; 10]).collect(), units: which.len() };
        Units::new(records(which.start * 10..which.end * 10), &owners).unwrap()
    }

    fn by_unit(parts: Vec<Units<Examples>>) -> Sensitive<Units<RemoteRecords>> {
        let known: Vec<(u64, u64)> = parts.iter().map(|part| (part.len() as u64, 0)).collect();
        let count = known.iter().map(|part| part.0).sum::<u64>() as usize;
        Sensitive::new(Units::remote(RemoteRecords::new(Arc::new(ByUnit(parts)), known, 4, 1.0), count))
    }

    #[test]
    fn sums_over_units_are_the_same_bits_whatever_the_parts_are() {
        let grid = Grid::new(-30);
        let of_units = OfUnits::new(Linear::new(LOGISTIC, 4, 1.0));
        let (x, far) = ([0.3, -0.1, 0.7, 1e-3], [0.1; 9]);
        let of_gradients = Clipped::new(of_units.clone(), 0.02, grid).unwrap();
        let of_sizes = Clipped::new(GradientSizes::new(of_units, 0.01, 1.5, 9), 1.0, grid).unwrap();
        let here = Sensitive::new(quanta(0..10));
        let expected = [of_gradients.sum(&here, &x), of_sizes.sum(&here, &far)];
        for ends in [vec![10], vec![3, 10], vec![0, 1, 9, 10]] {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let there = by_unit(starts.zip(&ends).map(|(a, &b)| quanta(a..b)).collect());
            let sums = [of_gradients.sum_of(&there, None, &x).unwrap(), of_sizes.sum_of(&there, None, &far).unwrap()];
            for (sum, expected) in sums.iter().zip(&expected) {
                assert!(sum.expose().quanta.iter().any(|&unit| unit != 0));
                assert_eq!(sum.expose().quanta, expected.expose().quanta);
            }
        }
    }

    /// Rows and privacy units answer only the queries that are about them: a unit whose rows were clipped one by one would count as often as it has rows.
    #[test]
    fn a_question_about_rows_has_no_answer_from_units_and_the_other_way_round() {
        let about = |of_units: bool| AggregateQuery::Gradients {
            of: ObjectiveSpec {
                loss: LOGISTIC,
                features: 4,
                row_norm: 1.0,
                sizes: None,
                scores: None,
                interval: None,
                of_units,
            },
            clip_norm: 1.0,
            grid: -30,
            sample: None,
        };
        let ask = |of_units: bool| about(of_units).at(&[0.0; 4]);
        assert!(answer(&quanta(0..2), &ask(true), 0, PartFacts::default()).is_ok());
        assert!(answer(&quanta(0..2), &ask(false), 0, PartFacts::default()).is_err());
        assert!(answer(&records(0..20), &ask(true), 0, PartFacts::default()).is_err());
        let moment = AggregateQuery::SecondMoment { weight: 1.0, row_norm: 1.0, grid: -30 };
        assert!(answer(&quanta(0..2), &moment.at(&[]), 0, PartFacts::default()).is_err());
        assert!(answer(&records(0..20), &moment.at(&[]), 0, PartFacts::default()).is_ok());
        // and no single unit can be looked into
        let there = by_unit(vec![quanta(0..10)]);
        let mut curator = crate::Curator::for_event(
            &dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.5),
            dpopt_noise::NoiseSource::insecure(1),
        );
        let batch = curator.poisson_sample(10, 0.5).unwrap();
        assert!(!batch.records().is_empty());
        let clipped = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), 1.0, Grid::new(-30)).unwrap();
        let looked = clipped.sum_of(&there, Some(batch), &[0.0; 4]);
        assert_eq!(looked.err(), Some(ReadError::Partitions(PartitionsError::Single)));
    }

    /// The injected fault that shows why rows have to be divided by unit: a privacy unit in two partitions is clipped twice.
    #[test]
    fn a_unit_that_lies_in_two_parts_counts_twice() {
        let (grid, clip_norm) = (Grid::new(-30), 0.01);
        let clipped = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), clip_norm, grid).unwrap();
        let of = |parts| clipped.sum_of(&by_unit(parts), None, &[0.0; 4]).unwrap().expose().quanta.clone();
        let size = |quanta: Vec<i64>| quanta.iter().map(|&u| grid.to_f64(u).powi(2)).sum::<f64>().sqrt();
        let half = |rows: std::ops::Range<u32>| {
            let owners = Owners { of_row: vec![0; rows.len()], units: 1 };
            Units::new(records(rows), &owners).unwrap()
        };
        let (together, apart) = (size(of(vec![quanta(0..1)])), size(of(vec![half(0..5), half(5..10)])));
        assert!(together <= clip_norm && together > 0.99 * clip_norm, "{together}");
        assert!(apart > 1.5 * clip_norm, "{apart}");
    }

    /// Batches, and sums that no partition can be asked for, need single records, which remote ones do not give.
    #[test]
    fn single_records_are_not_to_be_had() {
        let there = Sensitive::new(remote(&[50, 100]));
        let mut curator = crate::Curator::for_event(
            &dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.5),
            dpopt_noise::NoiseSource::insecure(1),
        );
        let batch = curator.poisson_sample(100, 0.5).unwrap();
        let clipped = Clipped::new(Linear::new(LOGISTIC, 4, 1.0), 1.0, Grid::new(-30)).unwrap();
        let refused = clipped.sum_of(&there, Some(batch), &[0.0; 4]).err();
        assert_eq!(refused, Some(ReadError::Partitions(PartitionsError::Single)));
    }

    #[test]
    fn questions_of_another_version_or_shape_are_refused() {
        let part = records(0..10);
        let linear = |features: usize| AggregateQuery::Gradients {
            of: ObjectiveSpec {
                loss: LOGISTIC,
                features,
                row_norm: 1.0,
                sizes: None,
                scores: None,
                interval: None,
                of_units: false,
            },
            clip_norm: 1.0,
            grid: -30,
            sample: None,
        };
        let good = linear(4).at(&[0.0; 4]);
        assert!(
            answer(&part, &good, 0, of_part(3))
                .is_ok_and(|answer| PartialSum::from_bytes(&answer).unwrap().part() == 3)
        );
        let framed = [b"whose", &good[..]].concat();
        assert!(
            answer(&part, &framed, 5, of_part(3))
                .is_ok_and(|answer| PartialSum::from_bytes(&answer).unwrap().query() == fingerprint(&framed))
        );
        assert!(answer(&part, &framed, 0, of_part(3)).is_err() && answer(&part, &framed, 1 << 20, of_part(3)).is_err());
        assert_eq!(AggregateQuery::parse(&good), Some((linear(4), vec![0.0; 4])));
        let newer = [b"dpopt question 6\n", &good["dpopt question 5\n".len()..]].concat();
        for bad in
            [linear(4).at(&[0.0; 3]), linear(5).at(&[0.0; 5]), newer, good[..good.len() - 1].to_vec(), Vec::new()]
        {
            assert!(answer(&part, &bad, 0, PartFacts::default()).is_err());
        }
        for asked in [
            AggregateQuery::Curved(dpopt_objective::solver::IntegerSums::new(&Linear::new(LOGISTIC, 4, 1.0), 10, 1.0)),
            AggregateQuery::Majorant { shift: 0.0, row_norm: 1.0, grid: -40 },
        ] {
            let entries = if matches!(asked, AggregateQuery::Curved(_)) { 8 } else { 4 };
            let told = AggregateQuery::parse(&asked.at(&vec![0.5; entries]));
            assert_eq!(told, Some((asked.clone(), vec![0.5; entries])));
            assert!(answer(&part, &asked.at(&vec![0.5; entries]), 0, PartFacts::default()).is_ok());
            for wrong in [entries - 1, entries + 1, 0] {
                assert!(answer(&part, &asked.at(&vec![0.5; wrong]), 0, PartFacts::default()).is_err());
            }
        }
        let longer = AggregateQuery::Majorant { shift: 0.0, row_norm: 0.5, grid: -40 };
        assert!(
            answer(&part, &longer.at(&[0.0; 4]), 0, PartFacts::default()).is_err(),
            "rows are longer than was told"
        );
        let tight = AggregateQuery::Gradients {
            of: ObjectiveSpec {
                loss: LOGISTIC,
                features: 4,
                row_norm: 0.5,
                sizes: None,
                scores: None,
                interval: None,
                of_units: false,
            },
            clip_norm: 1.0,
            grid: -30,
            sample: None,
        };
        assert!(answer(&part, &tight.at(&[0.0; 4]), 0, PartFacts::default()).is_err(), "rows are longer than was told");
    }
}
