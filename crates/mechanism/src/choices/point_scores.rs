//! Scores of public points by what records lose there, for a choice among them (Liu 2024, Theorem 6.4.8;
//! docs/proofs/net.md).
//!
//! A record's loss at a point counts relative to its loss at a public centre and is cut to ±G times the distance between the two, in whole units: the
//! sensitivity is exact and holds whatever the losses are. It is that of the furthest point, which need not be half of the domain's diameter away. Where losses are known
//! to lie between 0 and B, they are cut to that, and count from B/2.

use super::counts::Counts;
use dpopt_kernel::beside::{Expose, Members};
use dpopt_kernel::progress::Progress;
use dpopt_kernel::{Batch, CuratorError, Sensitive};
use dpopt_objective::objective::Objective;
use dpopt_objective::records::RecordSet;
use dpopt_process::stop::Stop;
use dpopt_process::{in_threads, thread_count};
use rayon::prelude::*;

/// What one record moves a score by at most: G times the distance of the furthest point, or B/2.
pub const POINT_QUANTA: u64 = 1 << 24;

/// Largest number of records whose scores fit: each gives at most 2^24 integer steps.
pub const MAX_SCORED: u64 = 1 << 38;

/// Points that a thread takes at a time: a record that was read serves all of them.
const TOGETHER: usize = 64;

/// Progress is told at most so many times, and not after fewer points than `TOGETHER`.
const TICKS: usize = 100;

/// Points between two steps of progress.
fn shown(points: usize) -> usize {
    points.div_ceil(TICKS).max(TOGETHER)
}

/// A public list of points around a public centre.
#[derive(Clone, Debug)]
pub struct ScoredPoints {
    centre: Vec<f64>,
    /// The points, side by side.
    points: Vec<f64>,
    counted: Counted,
    per_unit: f64,
}

/// The loss that a record's loss counts from, and how far it counts.
#[derive(Clone, Debug)]
enum Counted {
    /// From its loss at the centre, at each point by so many integer steps at most.
    ByDistance(Vec<i64>),
    /// From this loss, the middle of the known range.
    Within(f64),
}

impl ScoredPoints {
    /// `points` side by side, each as long as `centre`; a record's loss counts as changing by at most `slope` per unit of distance from it.
    ///
    /// # Errors
    /// If there are no points, one is not finite, all lie at the centre, or the slope is not positive.
    pub fn new(centre: &[f64], points: Vec<f64>, slope: f64) -> Result<Self, CuratorError> {
        let dimension = centre.len();
        let finite = centre.iter().chain(&points).all(|x| x.is_finite());
        if dimension == 0 || points.is_empty() || !points.len().is_multiple_of(dimension) || !finite {
            return Err(CuratorError::Shape);
        }
        let distance = |point: &[f64]| point.iter().zip(centre).map(|(p, c)| (p - c).powi(2)).sum::<f64>().sqrt();
        let distances: Vec<f64> = points.chunks(dimension).map(distance).collect();
        let reach = distances.iter().copied().fold(0.0, f64::max);
        let per_unit = slope * reach / POINT_QUANTA as f64;
        if !(per_unit > 0.0 && per_unit.is_finite()) {
            return Err(CuratorError::Shape);
        }
        // rounded up, so that a loss of that slope is not cut; never beyond what noise is made for
        let limit = |d: &f64| ((d / reach * POINT_QUANTA as f64).ceil() as i64).clamp(0, POINT_QUANTA as i64);
        let limits = distances.iter().map(limit).collect();
        Ok(Self { counted: Counted::ByDistance(limits), centre: centre.to_vec(), points, per_unit })
    }

    /// `points` side by side, each as long as `centre`, for losses between 0 and `bound`: what lies outside of it is cut.
    ///
    /// # Errors
    /// If there are no points, one is not finite, or the bound is not positive.
    pub fn within(centre: &[f64], points: Vec<f64>, bound: f64) -> Result<Self, CuratorError> {
        let fits = !centre.is_empty() && !points.is_empty() && points.len().is_multiple_of(centre.len());
        let per_unit = 0.5 * bound / POINT_QUANTA as f64;
        if !(fits && points.iter().all(|x| x.is_finite()) && per_unit > 0.0 && per_unit.is_finite()) {
            return Err(CuratorError::Shape);
        }
        Ok(Self { counted: Counted::Within(0.5 * bound), centre: centre.to_vec(), points, per_unit })
    }

    /// Number of points.
    pub fn count(&self) -> usize {
        self.points.len() / self.centre.len()
    }

    /// The point of this index.
    pub fn point(&self, index: usize) -> &[f64] {
        let d = self.centre.len();
        &self.points[index * d..(index + 1) * d]
    }

    /// How much lower a record's loss is at a point than the loss that it counts from, in integer steps; 0 where one of the two is no number.
    fn units(&self, point: usize, from: f64, there: f64) -> i64 {
        let limit = match &self.counted {
            Counted::ByDistance(limits) => limits[point],
            Counted::Within(_) => POINT_QUANTA as i64,
        };
        // a cast cuts what is beyond i64, and makes 0 of what is no number
        (((from - there) / self.per_unit).round() as i64).clamp(-limit, limit)
    }

    /// How much better than the centre each point is for all records together.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn scores<R: RecordSet, O: Objective<R>>(
        &self,
        records: &Sensitive<R>,
        objective: &O,
        progress: &dyn Progress,
    ) -> Result<Sensitive<Counts>, R::Error> {
        let records = records.expose();
        let counted_from = match self.counted {
            Counted::Within(middle) => vec![middle; records.len()],
            Counted::ByDistance(_) => {
                let of = |scratch: &mut O::Scratch, i| objective.value(&self.centre, records, i, scratch);
                in_threads(|| {
                    let all = (0..records.len()).into_par_iter().with_min_len(1024);
                    all.map_init(O::Scratch::default, of).collect::<Result<Vec<f64>, R::Error>>()
                })?
            }
        };
        let stop = Stop::here();
        let mut scores = vec![0i64; self.count()];
        let shown = shown(self.count());
        // few points: each thread has its own
        let together = (shown / thread_count()).clamp(1, TOGETHER);
        for (slice, scores) in scores.chunks_mut(shown).enumerate() {
            let add = |scratch: &mut O::Scratch, (part, scores): (usize, &mut [i64])| -> Result<(), R::Error> {
                let first = slice * shown + part * together;
                for (i, &from) in counted_from.iter().enumerate() {
                    stop.point();
                    for (k, score) in scores.iter_mut().enumerate() {
                        let there = objective.value(self.point(first + k), records, i, scratch)?;
                        *score += self.units(first + k, from, there);
                    }
                }
                Ok(())
            };
            in_threads(|| scores.par_chunks_mut(together).enumerate().try_for_each_init(O::Scratch::default, add))?;
            progress.tick();
        }
        Ok(Counts::declared(scores, POINT_QUANTA as f64))
    }

    /// How often [`scores`](Self::scores) tells progress.
    pub fn ticks(points: usize) -> u64 {
        points.div_ceil(shown(points)) as u64
    }

    /// [`scores`](Self::scores) from losses that the caller evaluates: `values(x, out)` appends one number for each record of `batch` to the empty `out`.
    ///
    /// # Errors
    /// If `values` fails, or gives another number of them.
    pub fn remote_scores<E: From<CuratorError>>(
        &self,
        batch: Batch,
        progress: &dyn Progress,
        mut values: impl FnMut(&[f64], &mut Vec<f64>) -> Result<(), E>,
    ) -> Result<Sensitive<Counts>, E> {
        let records = batch.records().len();
        let mut all = |x: &[f64], out: &mut Vec<f64>| -> Result<(), E> {
            out.clear();
            values(x, out)?;
            if out.len() == records { Ok(()) } else { Err(CuratorError::Shape.into()) }
        };
        let (mut counted_from, mut there) = (Vec::new(), Vec::new());
        match self.counted {
            Counted::Within(middle) => counted_from.resize(records, middle),
            Counted::ByDistance(_) => all(&self.centre, &mut counted_from)?,
        }
        let shown = shown(self.count());
        let mut scores = Vec::with_capacity(self.count());
        for point in 0..self.count() {
            all(self.point(point), &mut there)?;
            let each = counted_from.iter().zip(&there).map(|(&from, &v)| self.units(point, from, v));
            scores.push(each.sum::<i64>());
            if (point + 1) % shown == 0 || point + 1 == self.count() {
                progress.tick();
            }
        }
        Ok(Counts::declared(scores, POINT_QUANTA as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_kernel::progress::Silent;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::objective::Closures;
    use dpopt_privacy::Event;
    use proptest::prelude::*;

    fn slopes() -> impl Objective<Vec<f64>> {
        // φ(x) = a·(x₀ + x₁), of any slope
        Closures::new(2, |x: &[f64], a: &f64| a * (x[0] + x[1]) + 7.0, |_: &[f64], _: &f64, _: &mut [f64]| {})
    }

    fn points() -> ScoredPoints {
        ScoredPoints::new(&[1.0, 1.0], vec![1.0, 1.0, 4.0, 5.0, 1.0, 3.5], 1.0).unwrap()
    }

    fn scored(points: &ScoredPoints, records: &[f64]) -> Vec<i64> {
        let Ok(scores) = points.scores(&Sensitive::new(records.to_vec()), &slopes(), &Silent);
        scores.expose().values.clone()
    }

    #[test]
    fn losses_count_from_the_centre_and_are_cut_by_distance() {
        let p = points();
        assert_eq!(p.count(), 3);
        let unit = 5.0 / POINT_QUANTA as f64;
        // slope a/10: −.1·7 at (4, 5), −.1·2.5 at (1, 3.5)
        let expected = [0, (-0.7 / unit).round() as i64, (-0.25 / unit).round() as i64];
        assert_eq!(scored(&p, &[0.1]), expected);
        // beyond G times the distance nothing counts: 5 and 2.5
        assert_eq!(scored(&p, &[-1e6]), [0, POINT_QUANTA as i64, (POINT_QUANTA / 2) as i64]);
        // what is no number counts nothing, as does a loss that is infinite everywhere; one that is infinite at a point counts there
        let wall = |x: &[f64], _: &f64| if x[0] > 2.0 { f64::INFINITY } else { 0.0 };
        let wall = Closures::new(2, wall, |_: &[f64], _: &f64, _: &mut [f64]| {});
        let Ok(scores) = p.scores(&Sensitive::new(vec![0.0]), &wall, &Silent);
        assert_eq!(scores.expose().values, [0, -(POINT_QUANTA as i64), 0]);
        assert_eq!(
            scored(&p, &[f64::NAN, f64::INFINITY, 1e300]),
            [0, -(POINT_QUANTA as i64), -(POINT_QUANTA as i64) / 2]
        );
        assert!(ScoredPoints::new(&[1.0], vec![1.0], 1.0).is_err(), "all at the centre");
        assert!(ScoredPoints::new(&[1.0], vec![f64::NAN], 1.0).is_err());
        assert!(ScoredPoints::new(&[1.0], vec![2.0], 0.0).is_err());
    }

    /// φ = 7 + a·(x₀ + x₁), cut to 0 … 10, counts from 5.
    #[test]
    fn losses_of_a_known_range_are_cut_to_it_and_count_from_its_middle() {
        let p = ScoredPoints::within(&[1.0, 1.0], vec![0.0, 0.0, 1.0, 1.0, 3.0, 3.0], 10.0).unwrap();
        let unit = 5.0 / POINT_QUANTA as f64;
        let of = |losses: [f64; 3]| losses.map(|loss| ((5.0 - loss) / unit).round() as i64);
        assert_eq!(scored(&p, &[0.1]), of([7.0, 7.2, 7.6]));
        assert_eq!(scored(&p, &[1e9]), of([7.0, 10.0, 10.0]));
        assert_eq!(scored(&p, &[-1e9, 0.1]), [0, 1, 2].map(|i| of([7.0, 0.0, 0.0])[i] + of([7.0, 7.2, 7.6])[i]));
        assert_eq!(scored(&p, &[f64::NAN]), [0; 3]);
        assert!(ScoredPoints::within(&[1.0], vec![1.0], 0.0).is_err());
        assert!(ScoredPoints::within(&[1.0], vec![f64::NAN], 1.0).is_err());
        assert!(ScoredPoints::within(&[1.0, 1.0], vec![1.0], 1.0).is_err());
    }

    #[test]
    fn elsewhere_the_scores_are_the_same_and_there_is_one_number_for_each_record() {
        let ranged = ScoredPoints::within(&[1.0, 1.0], vec![1.0, 1.0, 4.0, 5.0], 9.0).unwrap();
        for p in [points(), ranged] {
            same_remotely(&p);
        }
    }

    fn same_remotely(p: &ScoredPoints) {
        let records = vec![0.3, -2.0, 0.01];
        let mut curator = uncharged(&Event::NoOp, NoiseSource::insecure(1));
        let (batch, chosen) = curator.all_for_loader(3).unwrap();
        let found = p.remote_scores(batch, &Silent, |x, out| {
            out.extend(chosen.iter().map(|&i| records[i as usize] * (x[0] + x[1]) + 7.0));
            Ok::<_, CuratorError>(())
        });
        assert_eq!(found.unwrap().expose().values, scored(p, &records));
        for given in [2, 4] {
            let (batch, _) = curator.all_for_loader(3).unwrap();
            let wrong = p.remote_scores(batch, &Silent, |_, out| {
                out.resize(given, 0.0);
                Ok::<_, CuratorError>(())
            });
            assert!(matches!(wrong, Err(CuratorError::Shape)));
        }
    }

    proptest! {
        #[test]
        fn one_record_moves_no_score_by_more_than_the_units(
            others in prop::collection::vec(any::<f64>(), 0..6),
            record in any::<f64>(),
            flat in prop::collection::vec(-1e3f64..1e3, 2..40),
            slope in 1e-6f64..1e6,
        ) {
            let flat = flat[..flat.len() / 2 * 2].to_vec();
            prop_assume!(flat.iter().any(|x| *x != 0.0));
            let mut with = others.clone();
            with.push(record);
            for p in [ScoredPoints::new(&[0.0, 0.0], flat.clone(), slope), ScoredPoints::within(&[0.0, 0.0], flat, slope)] {
                let p = p.unwrap();
                for (a, b) in scored(&p, &with).iter().zip(scored(&p, &others)) {
                    prop_assert!(a.abs_diff(b) <= POINT_QUANTA);
                }
            }
        }
    }
}
