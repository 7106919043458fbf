//! Answers to the questions of a driver, by the loops that one process uses.

use super::clipped::Clipped;
use super::contributions::add_up;
use super::majorant::Majorant;
use super::matrix::SecondMoment;
use super::moments::TargetMoment;
use super::question::{Question, Sample};
use crate::refused::CuratorError;
use dpopt_noise::Grid;
use dpopt_objective::objective::{Calibration, Cells, GradientSizes, InWords, Linear, Objective, OfRows};
use dpopt_objective::records::{Examples, PartialSum, RecordSet, fingerprint};
use dpopt_objective::solver::Split;
use std::convert::Infallible;

/// What a part is known by, or a piece of one that answers for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFacts {
    /// Its number.
    pub part: u32,
    /// What its records hold, whatever their order.
    pub digest: u64,
    /// What they hold in their order.
    pub order: u64,
    /// How many records of the part come before those of the piece.
    pub before: u64,
}

impl PartFacts {
    /// What tells the order of the records of all parts from others, as the sum of these.
    fn in_order(self) -> i64 {
        let words = [u64::from(self.part), self.before, self.order];
        fingerprint(words.map(u64::to_le_bytes).as_flattened()) as i64
    }
}

/// What a question asks of these records: rows, or units with all of their rows.
fn sum<R>(asked: &Question, records: &R, point: &[f64], facts: PartFacts) -> Result<Vec<i64>, CuratorError>
where
    R: OfRows<Rows = Examples> + RecordSet<Error = Infallible>,
{
    match *asked {
        // a unit's rows one by one would each be clipped, and so would not the unit
        Question::Gradients { ref of, .. } if of.of_units != R::POOLED => Err(CuratorError::Shape),
        Question::Gradients {
            of: InWords { loss, features, row_norm, sizes, ref scores, .. },
            clip_norm,
            grid,
            ref sample,
        } => {
            let (of, grid) = (Linear::new(loss, features, row_norm), Grid::new(grid));
            let asked = Asked { point, sample: sample.as_ref(), facts };
            match (sizes, scores) {
                (None, None) => asked.of(Clipped::new(R::over(of), clip_norm, grid)?, records),
                (Some(_), Some(_)) => Err(CuratorError::Shape),
                (None, Some(scores)) => {
                    let of = Calibration::new(of, scores.clone()).ok_or(CuratorError::Shape)?;
                    asked.of(Clipped::new(R::over(of), clip_norm, grid)?, records)
                }
                (Some(Cells { smallest, ratio, cells }), None) => {
                    let sizes = GradientSizes::new(R::over(of), smallest, ratio, cells);
                    asked.of(Clipped::new(sizes, clip_norm, grid)?, records)
                }
            }
        }
        Question::SecondMoment { .. }
        | Question::TargetMoment { .. }
        | Question::Curved(_)
        | Question::Majorant { .. }
            if R::POOLED =>
        {
            Err(CuratorError::Shape)
        }
        // of numbers, and not of rows
        Question::Vectors { .. } | Question::Cells { .. } => Err(CuratorError::Shape),
        Question::SecondMoment { weight, row_norm, grid } => {
            let Ok(units) = SecondMoment::new(weight, row_norm, Grid::new(grid))?.add_up(records.rows());
            Ok(units)
        }
        Question::TargetMoment { target_bound, row_norm, grid } => {
            let Ok(units) = TargetMoment::new(target_bound, row_norm, Grid::new(grid))?.add_up(records.rows());
            Ok(units)
        }
        Question::Curved(sums) => {
            let records = records.rows();
            let theta = Split::from_numbers(point).filter(|theta| theta.len() == sums.weights());
            let theta = theta.filter(|_| sums.describes(records)).ok_or(CuratorError::Shape)?;
            let Ok(units) = add_up(records.rows.len(), sums.width(), GRAIN, |range| {
                Ok::<_, Infallible>(sums.over(records, range, &theta))
            });
            Ok(units)
        }
        Question::Majorant { shift, row_norm, grid } => {
            let records = records.rows();
            if point.len() != records.rows.columns() || records.rows.norm_bound() > row_norm {
                return Err(CuratorError::Shape);
            }
            let Ok(units) = Majorant::new(shift, row_norm, Grid::new(grid))?.add_up(records, point);
            Ok(units)
        }
    }
}

/// Records that a thread takes at least.
const GRAIN: usize = 64;

/// Where gradients are asked for, and of whom.
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
            let Ok(units) = clipped.add_up(records, self.point, records.len(), |i| i);
            return Ok(units);
        };
        let PartFacts { part, before, .. } = self.facts;
        let chosen = sample.of_part(part, before, records.len() as u64).ok_or(CuratorError::Shape)?;
        let Ok(mut units) = clipped.add_up(records, self.point, chosen.len(), |i| chosen[i] as usize);
        units.push(self.facts.in_order());
        Ok(units)
    }
}

/// What the records of part `part` answer to a question of the driver, of whose message the first `context` bytes are the caller's own:
/// bytes of a [`PartialSum`]. **They are as sensitive as the records**: they go to the driver, encrypted on the way, and nowhere else,
/// into no log.
///
/// # Errors
/// [`CuratorError::Shape`] if it is no question of this version, or one about records of another shape.
pub fn answer<R>(records: &R, message: &[u8], context: usize, facts: PartFacts) -> Result<Vec<u8>, CuratorError>
where
    R: OfRows<Rows = Examples> + RecordSet<Error = Infallible>,
{
    let (asked, point) = message.get(context..).and_then(Question::parse).ok_or(CuratorError::Shape)?;
    let units = sum(&asked, records, &point, facts)?;
    let known = (records.len() as u64, facts.digest);
    Ok(PartialSum::new(fingerprint(message), facts.part, known, units).to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gaussian, Sensitive};
    use dpopt_noise::SubsetKey;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::objective::OfUnits;
    use dpopt_objective::records::{Elsewhere, Owners, Parts, PartsError, PartsFailed, ReadError, Rows, Units};
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

    impl Parts for Here {
        fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
            let of = |part: usize| answer(&self.0[part], question, 0, of_part(part)).map_err(|_| PartsFailed);
            (0..self.0.len()).rev().chain([0]).map(of).collect()
        }
    }

    /// Records 0..100 in parts that end at `ends`.
    fn elsewhere(ends: &[u32]) -> Elsewhere {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let parts: Vec<Examples> = starts.zip(ends).map(|(a, &b)| records(a..b)).collect();
        let sizes = parts.iter().map(|part| (part.rows.len() as u64, 0)).collect();
        Elsewhere::new(Arc::new(Here(parts)), sizes, 4, 1.0)
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
        assert!(expected.iter().all(|sum| sum.expose().units.iter().any(|&unit| unit != 0)));
        for ends in [vec![100], vec![37, 100], vec![0, 1, 50, 50, 99, 100]] {
            let there = Sensitive::new(elsewhere(&ends));
            let sums = [
                of_gradients.sum_of(&there, None, &x).unwrap(),
                of_sizes.sum_of(&there, None, &far).unwrap(),
                moment.sum(&there).unwrap(),
                target.sum(&there).unwrap(),
            ];
            for (sum, expected) in sums.iter().zip(&expected) {
                assert_eq!(sum.expose().units, expected.expose().units);
                assert_eq!(
                    (sum.expose().grid, sum.expose().clip_norm),
                    (expected.expose().grid, expected.expose().clip_norm)
                );
            }
        }
        assert_eq!(elsewhere(&[37, 100]).len(), 100);
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
                    let Ok(units) = majorant.add_up(&one, &theta);
                    let size = units.iter().map(|&u| majorant.grid().to_f64(u).powi(2)).sum::<f64>().sqrt();
                    let bound = 0.25 * row_norm * row_norm;
                    assert!(size <= bound * (1.0 + 1e-14), "{size} {bound}");
                    largest = largest.max(size / bound);
                    if theta == [0.0; 4] && shift == 0.0 {
                        // at u = 0 it is the row's product with itself, a quarter of it
                        let length: f64 = one.rows.row(0).1.iter().map(|x| f64::from(*x).powi(2)).sum();
                        assert!((size - majorising_curvature(0.0) * length).abs() <= 1e-6 * bound);
                    }
                }
            }
        }
        assert!(largest > 0.999, "{largest}");
    }

    /// A sample is of the same records wherever they lie, in one part or many, here or elsewhere, and whoever is asked twice.
    #[test]
    fn sums_over_a_sample_are_the_same_bits_whatever_the_parts_are() {
        let (grid, x) = (Grid::new(-30), [0.3, -0.1, 0.7, 1e-3]);
        let rows = Clipped::new(Linear::new(LOGISTIC, 4, 1.0), 0.2, grid).unwrap();
        let of_units = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), 0.02, grid).unwrap();
        let curator = || {
            let event = dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.3).self_composed(3);
            crate::Curator::for_event(&event, dpopt_noise::NoiseSource::insecure(8))
        };
        let (here, units_here) = (Sensitive::new(records(0..100)), Sensitive::new(units(0..10)));
        let mut drawn = curator();
        let steps = [(); 3].map(|()| drawn.poisson_sample_for_sum(&here, 0.3).unwrap());
        let expected = steps.map(|batch| rows.sum_of(&here, Some(batch), &x).unwrap().expose().units.clone());
        assert!(expected[0] != expected[1] && expected[1] != expected[2] && expected[0].iter().any(|&unit| unit != 0));
        let mut drawn = curator();
        let batch = drawn.poisson_sample_for_sum(&units_here, 0.3).unwrap();
        let expected_of_units = of_units.sum_of(&units_here, Some(batch), &x).unwrap().expose().units.clone();
        assert!(expected_of_units.iter().any(|&unit| unit != 0));
        // `Here` answers twice for its first part
        for ends in [vec![100], vec![37, 100], vec![0, 1, 50, 50, 99, 100]] {
            let (there, mut drawn) = (Sensitive::new(elsewhere(&ends)), curator());
            for expected in &expected {
                let batch = drawn.poisson_sample_for_sum(&there, 0.3).unwrap();
                assert!(batch.records().is_empty());
                let sum = rows.sum_of(&there, Some(batch), &x).unwrap();
                assert_eq!(&sum.expose().units, expected);
            }
        }
        for ends in [vec![10], vec![3, 10], vec![0, 1, 9, 10]] {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let there = by_unit(starts.zip(&ends).map(|(a, &b)| units(a..b)).collect());
            let batch = curator().poisson_sample_for_sum(&there, 0.3).unwrap();
            let sum = of_units.sum_of(&there, Some(batch), &x).unwrap();
            assert_eq!(sum.expose().units, expected_of_units);
        }
        // a batch of all or of nobody is one too
        let mut curator =
            crate::Curator::for_event(&dpopt_privacy::Event::gaussian(1.0), dpopt_noise::NoiseSource::insecure(8));
        for (q, expected) in [(0.0, vec![0; 4]), (1.0, rows.sum(&here, &x).expose().units.clone())] {
            let there = Sensitive::new(elsewhere(&[37, 100]));
            let batch = curator.poisson_sample_for_sum(&there, q).unwrap();
            assert_eq!(rows.sum_of(&there, Some(batch), &x).unwrap().expose().units, expected);
        }
        // of others, or of records that are here, it is no sample
        for of in [elsewhere(&[37, 99]), elsewhere(&[100])] {
            let batch = curator.poisson_sample_for_sum(&Sensitive::new(elsewhere(&[37, 100])), 0.0).unwrap();
            let same = of.len() == 100;
            assert_eq!(rows.sum_of(&Sensitive::new(of), Some(batch), &x).is_ok(), same);
        }
        let batch = curator.poisson_sample_for_sum(&Sensitive::new(elsewhere(&[100])), 1.0).unwrap();
        assert!(rows.sum_of(&here, Some(batch), &x).is_err());
    }

    #[test]
    fn a_part_that_begins_or_ends_elsewhere_than_the_sample_says_gives_no_answer() {
        let (part, key) = (records(0..10), SubsetKey::from_bytes([7; 32]));
        let asked = |of: u64, firsts: &[u64]| {
            let of_rows =
                InWords { loss: LOGISTIC, features: 4, row_norm: 1.0, sizes: None, scores: None, of_units: false };
            let sample = Some(Sample::new((&key, 0.5, of), firsts));
            Question::Gradients { of: of_rows, clip_norm: 1.0, grid: -30, sample }.at(&[0.0; 4])
        };
        let width = |question: Vec<u8>, facts| {
            answer(&part, &question, 0, facts).map(|bytes| PartialSum::from_bytes(&bytes).unwrap().width())
        };
        let piece = |before| PartFacts { before, ..of_part(1) };
        assert_eq!(width(asked(20, &[0, 10]), piece(0)), Ok(5));
        assert_eq!(width(asked(30, &[0, 10]), piece(10)), Ok(5));
        for (question, facts) in [
            (asked(20, &[0]), piece(0)),
            (asked(19, &[0, 10]), piece(0)),
            (asked(20, &[0, 10]), piece(1)),
            (asked(20, &[0, u64::MAX]), piece(0)),
            (asked(20, &[0, 10]), piece(u64::MAX)),
        ] {
            assert_eq!(width(question, facts), Err(CuratorError::Shape));
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
        let there = release(clipped.sum_of(&Sensitive::new(elsewhere(&[20, 100])), None, &[0.0; 4]).unwrap());
        assert!(here == there && here.iter().any(|x| *x != 0.0));
    }

    /// Parts of units, each with all rows of its own; or not.
    struct ByUnit(Vec<Units<Examples>>);

    impl Parts for ByUnit {
        fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
            let of = |(part, units)| answer(units, question, 0, of_part(part)).map_err(|_| PartsFailed);
            self.0.iter().enumerate().map(of).collect()
        }
    }

    /// The rows of these units, unit u having rows 10u to 10u + 9.
    fn units(which: std::ops::Range<u32>) -> Units<Examples> {
        let owners = Owners { of_row: which.clone().flat_map(|u| [u - which.start; 10]).collect(), units: which.len() };
        Units::new(records(which.start * 10..which.end * 10), &owners).unwrap()
    }

    fn by_unit(parts: Vec<Units<Examples>>) -> Sensitive<Units<Elsewhere>> {
        let known: Vec<(u64, u64)> = parts.iter().map(|part| (part.len() as u64, 0)).collect();
        let count = known.iter().map(|part| part.0).sum::<u64>() as usize;
        Sensitive::new(Units::elsewhere(Elsewhere::new(Arc::new(ByUnit(parts)), known, 4, 1.0), count))
    }

    #[test]
    fn sums_over_units_are_the_same_bits_whatever_the_parts_are() {
        let grid = Grid::new(-30);
        let of_units = OfUnits::new(Linear::new(LOGISTIC, 4, 1.0));
        let (x, far) = ([0.3, -0.1, 0.7, 1e-3], [0.1; 9]);
        let of_gradients = Clipped::new(of_units.clone(), 0.02, grid).unwrap();
        let of_sizes = Clipped::new(GradientSizes::new(of_units, 0.01, 1.5, 9), 1.0, grid).unwrap();
        let here = Sensitive::new(units(0..10));
        let expected = [of_gradients.sum(&here, &x), of_sizes.sum(&here, &far)];
        for ends in [vec![10], vec![3, 10], vec![0, 1, 9, 10]] {
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let there = by_unit(starts.zip(&ends).map(|(a, &b)| units(a..b)).collect());
            let sums = [of_gradients.sum_of(&there, None, &x).unwrap(), of_sizes.sum_of(&there, None, &far).unwrap()];
            for (sum, expected) in sums.iter().zip(&expected) {
                assert!(sum.expose().units.iter().any(|&unit| unit != 0));
                assert_eq!(sum.expose().units, expected.expose().units);
            }
        }
    }

    /// Rows and units answer to questions about themselves only: a unit whose rows were clipped one by one would count as often as it has rows.
    #[test]
    fn a_question_about_rows_has_no_answer_from_units_and_the_other_way_round() {
        let about = |of_units: bool| Question::Gradients {
            of: InWords { loss: LOGISTIC, features: 4, row_norm: 1.0, sizes: None, scores: None, of_units },
            clip_norm: 1.0,
            grid: -30,
            sample: None,
        };
        let ask = |of_units: bool| about(of_units).at(&[0.0; 4]);
        assert!(answer(&units(0..2), &ask(true), 0, PartFacts::default()).is_ok());
        assert!(answer(&units(0..2), &ask(false), 0, PartFacts::default()).is_err());
        assert!(answer(&records(0..20), &ask(true), 0, PartFacts::default()).is_err());
        let moment = Question::SecondMoment { weight: 1.0, row_norm: 1.0, grid: -30 };
        assert!(answer(&units(0..2), &moment.at(&[]), 0, PartFacts::default()).is_err());
        assert!(answer(&records(0..20), &moment.at(&[]), 0, PartFacts::default()).is_ok());
        // and no single unit can be looked into
        let there = by_unit(vec![units(0..10)]);
        let mut curator = crate::Curator::for_event(
            &dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.5),
            dpopt_noise::NoiseSource::insecure(1),
        );
        let batch = curator.poisson_sample(10, 0.5).unwrap();
        assert!(!batch.records().is_empty());
        let clipped = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), 1.0, Grid::new(-30)).unwrap();
        let looked = clipped.sum_of(&there, Some(batch), &[0.0; 4]);
        assert_eq!(looked.err(), Some(ReadError::Parts(PartsError::Single)));
    }

    /// The planted bug that makes the check of whoever divides the rows necessary: a unit in two parts is clipped twice.
    #[test]
    fn a_unit_that_lies_in_two_parts_counts_twice() {
        let (grid, clip_norm) = (Grid::new(-30), 0.01);
        let clipped = Clipped::new(OfUnits::new(Linear::new(LOGISTIC, 4, 1.0)), clip_norm, grid).unwrap();
        let of = |parts| clipped.sum_of(&by_unit(parts), None, &[0.0; 4]).unwrap().expose().units.clone();
        let size = |units: Vec<i64>| units.iter().map(|&u| grid.to_f64(u).powi(2)).sum::<f64>().sqrt();
        let half = |rows: std::ops::Range<u32>| {
            let owners = Owners { of_row: vec![0; rows.len()], units: 1 };
            Units::new(records(rows), &owners).unwrap()
        };
        let (together, apart) = (size(of(vec![units(0..1)])), size(of(vec![half(0..5), half(5..10)])));
        assert!(together <= clip_norm && together > 0.99 * clip_norm, "{together}");
        assert!(apart > 1.5 * clip_norm, "{apart}");
    }

    /// Batches, and what no part could be told of, are sums of single records.
    #[test]
    fn single_records_are_not_to_be_had() {
        let there = Sensitive::new(elsewhere(&[50, 100]));
        let mut curator = crate::Curator::for_event(
            &dpopt_privacy::Event::gaussian(1.0).poisson_sampled(0.5),
            dpopt_noise::NoiseSource::insecure(1),
        );
        let batch = curator.poisson_sample(100, 0.5).unwrap();
        let clipped = Clipped::new(Linear::new(LOGISTIC, 4, 1.0), 1.0, Grid::new(-30)).unwrap();
        let refused = clipped.sum_of(&there, Some(batch), &[0.0; 4]).err();
        assert_eq!(refused, Some(ReadError::Parts(PartsError::Single)));
    }

    #[test]
    fn questions_of_another_version_or_shape_are_refused() {
        let part = records(0..10);
        let linear = |features: usize| Question::Gradients {
            of: InWords { loss: LOGISTIC, features, row_norm: 1.0, sizes: None, scores: None, of_units: false },
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
                .is_ok_and(|answer| PartialSum::from_bytes(&answer).unwrap().question() == fingerprint(&framed))
        );
        assert!(answer(&part, &framed, 0, of_part(3)).is_err() && answer(&part, &framed, 1 << 20, of_part(3)).is_err());
        assert_eq!(Question::parse(&good), Some((linear(4), vec![0.0; 4])));
        let newer = [b"dpopt question 5\n", &good["dpopt question 4\n".len()..]].concat();
        for bad in
            [linear(4).at(&[0.0; 3]), linear(5).at(&[0.0; 5]), newer, good[..good.len() - 1].to_vec(), Vec::new()]
        {
            assert!(answer(&part, &bad, 0, PartFacts::default()).is_err());
        }
        for asked in [
            Question::Curved(dpopt_objective::solver::IntegerSums::new(&Linear::new(LOGISTIC, 4, 1.0), 10, 1.0)),
            Question::Majorant { shift: 0.0, row_norm: 1.0, grid: -40 },
        ] {
            let entries = if matches!(asked, Question::Curved(_)) { 8 } else { 4 };
            let told = Question::parse(&asked.at(&vec![0.5; entries]));
            assert_eq!(told, Some((asked.clone(), vec![0.5; entries])));
            assert!(answer(&part, &asked.at(&vec![0.5; entries]), 0, PartFacts::default()).is_ok());
            for wrong in [entries - 1, entries + 1, 0] {
                assert!(answer(&part, &asked.at(&vec![0.5; wrong]), 0, PartFacts::default()).is_err());
            }
        }
        let longer = Question::Majorant { shift: 0.0, row_norm: 0.5, grid: -40 };
        assert!(
            answer(&part, &longer.at(&[0.0; 4]), 0, PartFacts::default()).is_err(),
            "rows are longer than was told"
        );
        let tight = Question::Gradients {
            of: InWords { loss: LOGISTIC, features: 4, row_norm: 0.5, sizes: None, scores: None, of_units: false },
            clip_norm: 1.0,
            grid: -30,
            sample: None,
        };
        assert!(answer(&part, &tight.at(&[0.0; 4]), 0, PartFacts::default()).is_err(), "rows are longer than was told");
    }
}
