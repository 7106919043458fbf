//! A monotone map of a column's range to [0, 1] under which its values lie evenly, from released counts (docs/decisions/0013).
//!
//! Cells of the range are fine at both of its ends, where values of a wide range crowd: their width grows with the distance from
//! the nearer end. Counts come on several scales, each cell divided into [`BRANCHING`] of the next; a cell is divided as the counts
//! say where they tell more than their noise, and as the plain scale does elsewhere.

use dpopt_mechanism::HistogramShape;

const BRANCHING: usize = 8;
const SCALES: u32 = 3;
/// Distance from an end, as a share of the range, within which cells are equally wide.
const FINEST: f64 = 1.0 / 4096.0;
/// Share of the plain scale: the map is never flat, and new values of empty cells are told apart.
const PLAIN: f64 = 0.05;
/// A cell of fewer records than so many standard deviations of a count's noise is not divided by its counts.
const LEAST: f64 = 3.0;

/// How many counts of how many columns.
pub(crate) fn shape(columns: usize) -> HistogramShape {
    HistogramShape { columns, branching: BRANCHING, scales: SCALES }
}

/// Position of the finest cells' scale at a position of the range.
fn warped(unit: f64) -> f64 {
    // libm, so that every machine counts a record in the same cell
    let side = |distance: f64| libm::log1p(distance / FINEST) / (2.0 * libm::log1p(0.5 / FINEST));
    if unit <= 0.5 { side(unit) } else { 1.0 - side(1.0 - unit) }
}

/// The inverse of [`warped`]: position of the range at a position of the scale.
fn unwarped(position: f64) -> f64 {
    let side = |position: f64| FINEST * libm::expm1(position * 2.0 * libm::log1p(0.5 / FINEST));
    if position <= 0.5 { side(position) } else { 1.0 - side(1.0 - position) }
}

/// The finest cell of a position in [0, 1].
pub(super) fn cell(unit: f64) -> usize {
    let cells = shape(1).cells();
    ((warped(unit) * cells as f64) as usize).min(cells - 1)
}

/// A piecewise linear increasing map of [0, 1] onto itself: the points between which it is linear, (0, 0) and (1, 1) among them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub struct Spread {
    points: Vec<(f64, f64)>,
}

impl TryFrom<Vec<(f64, f64)>> for Spread {
    type Error = &'static str;

    fn try_from(points: Vec<(f64, f64)>) -> Result<Self, Self::Error> {
        let increasing = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        if increasing && points.len() >= 2 && points[0] == (0.0, 0.0) && points[points.len() - 1] == (1.0, 1.0) {
            Ok(Self { points })
        } else {
            Err("a spread does not increase from (0, 0) to (1, 1)")
        }
    }
}

impl From<Spread> for Vec<(f64, f64)> {
    fn from(spread: Spread) -> Self {
        spread.points
    }
}

/// So many numbers of one declared range, at least half of all, may be parts of one thing, as the points of a picture are: what they say then depends on their
/// common scale, and none is spread on its own.
const ALIKE: usize = 16;
/// Such numbers use their range: at least half of those that vary at all take this much of it with the middle of their values.
const USED: f64 = 0.75;
/// What varies.
const VARIES: f64 = 0.05;

/// Whether numbers of these ranges and released maps are parts of one thing, each: decided from what was declared and released.
pub(super) fn parts_of_one_thing<R: Copy + Ord>(numbers: &[(R, Spread)]) -> Vec<bool> {
    let mut ranges: Vec<R> = numbers.iter().map(|number| number.0).collect();
    ranges.sort_unstable();
    let most = ranges.chunk_by(|a, b| a == b).max_by_key(|alike| alike.len());
    let Some((range, alike)) = most.map(|alike| (alike[0], alike.len())) else { return Vec::new() };
    let of_it = |number: &&(R, Spread)| number.0 == range;
    let vary: Vec<f64> = numbers.iter().filter(of_it).map(|n| n.1.middle()).filter(|width| *width > VARIES).collect();
    let use_it = vary.iter().filter(|width| **width >= USED).count();
    let parts = alike >= ALIKE && 2 * alike >= numbers.len() && 2 * use_it >= vary.len() && use_it > 0;
    numbers.iter().map(|number| parts && number.0 == range).collect()
}

/// The nearest of the vectors with no entry below 0 and this sum.
fn onto_simplex(values: &mut [f64], sum: f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut before, mut level) = (0.0, 0.0);
    for (k, value) in sorted.iter().enumerate() {
        before += value;
        let one = (before - sum) / (k + 1) as f64;
        if *value > one {
            level = one;
        }
    }
    values.iter_mut().for_each(|value| *value = (*value - level).max(0.0));
}

impl Spread {
    /// From one column's released counts, the coarsest scale first, each with noise of this standard deviation.
    pub(super) fn of(counts: &[f64], noise: f64) -> Self {
        let cells = shape(1).cells();
        let edges: Vec<f64> = (0..=cells).map(|k| unwarped(k as f64 / cells as f64)).collect();
        let mut rest = counts;
        let mut masses = vec![counts[..BRANCHING].iter().sum::<f64>().max(1.0)];
        for scale in 1..=SCALES {
            let within = BRANCHING.pow(SCALES - scale);
            let (own, finer) = rest.split_at(BRANCHING.pow(scale));
            rest = finer;
            let mut divided = own.to_vec();
            for (k, (mass, parts)) in masses.iter().zip(divided.chunks_exact_mut(BRANCHING)).enumerate() {
                if *mass > LEAST * noise {
                    onto_simplex(parts, *mass);
                } else {
                    let edge = |part: usize| edges[(k * BRANCHING + part) * within];
                    let width = edge(BRANCHING) - edge(0);
                    let plain = |part: usize| mass * (edge(part + 1) - edge(part)) / width;
                    parts.iter_mut().enumerate().for_each(|(part, value)| *value = plain(part));
                }
            }
            masses = divided;
        }
        let whole: f64 = masses.iter().sum();
        let mut points = vec![(0.0, 0.0)];
        let (mut rank, mut slope) = (0.0, f64::NAN);
        for (mass, edge) in masses.iter().zip(edges.windows(2)) {
            let width = edge[1] - edge[0];
            let part = if whole > 0.0 { (1.0 - PLAIN) * mass / whole } else { (1.0 - PLAIN) * width } + PLAIN * width;
            rank += part;
            let (before, now) = (slope, part / width);
            slope = now;
            // points on a line need not be told
            if (now - before).abs() <= 1e-9 * now && points.len() > 1 {
                points.pop();
            }
            points.push((edge[1], rank));
        }
        let last = points.len() - 1;
        points.iter_mut().for_each(|point| point.1 /= rank);
        points[last] = (1.0, 1.0);
        // sums of parts below the last digit
        points.dedup_by(|next, before| next.0 <= before.0 || next.1 <= before.1);
        Self::try_from(points).unwrap_or_else(|_| Self { points: vec![(0.0, 0.0), (1.0, 1.0)] })
    }

    /// Width of the part of the range that the middle nine tenths of the values take, in parts of the range: of the values that were counted, without the
    /// part of the plain scale.
    fn middle(&self) -> f64 {
        let counted = |point: &(f64, f64)| (point.1 - PLAIN * point.0) / (1.0 - PLAIN);
        let at = |share: f64| {
            let next = self.points.partition_point(|point| counted(point) < share).clamp(1, self.points.len() - 1);
            let (low, high) = (&self.points[next - 1], &self.points[next]);
            let (below, within) = (counted(low), counted(high) - counted(low));
            if within > 0.0 { low.0 + (share - below) / within * (high.0 - low.0) } else { low.0 }
        };
        at(0.95) - at(0.05)
    }

    /// The share of values below a position of the range.
    pub(super) fn rank(&self, unit: f64) -> f64 {
        Self::along(unit, &self.points, |point| *point)
    }

    /// The position of the range below which this share of values is.
    pub(super) fn unit(&self, rank: f64) -> f64 {
        Self::along(rank, &self.points, |point| (point.1, point.0))
    }

    #[inline]
    fn along(at: f64, points: &[(f64, f64)], axes: impl Fn(&(f64, f64)) -> (f64, f64)) -> f64 {
        let next = points.partition_point(|point| axes(point).0 <= at).clamp(1, points.len() - 1);
        let ((a, low), (b, high)) = (axes(&points[next - 1]), axes(&points[next]));
        (low + (at - a) / (b - a) * (high - low)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The counts of positions, on all scales.
    fn counts(units: &[f64]) -> Vec<f64> {
        (1..=SCALES)
            .flat_map(|scale| {
                let mut of_scale = vec![0.0; BRANCHING.pow(scale)];
                units.iter().for_each(|u| of_scale[cell(*u) / BRANCHING.pow(SCALES - scale)] += 1.0);
                of_scale
            })
            .collect()
    }

    #[test]
    fn values_that_crowd_at_an_end_lie_evenly() {
        // half of the values in the lowest hundredth of the range, as evenly as the other half in the rest
        let units: Vec<f64> =
            (0..2000).map(|i| f64::from(i) / 2000.0 * 0.01).chain((0..2000).map(|i| f64::from(i) / 2000.0)).collect();
        let spread = Spread::of(&counts(&units), 0.0);
        for (unit, share) in [(0.0, 0.0), (0.005, 0.2525), (0.01, 0.505), (0.5, 0.75), (1.0, 1.0)] {
            let expected = (1.0 - PLAIN) * share + PLAIN * unit;
            // the cell of a hundredth is 3 % of that wide and would hold .015 of the values: a bend within it costs at most a quarter
            assert!((spread.rank(unit) - expected).abs() < 0.004, "{unit}: {} {expected}", spread.rank(unit));
        }
    }

    #[test]
    fn counts_that_tell_nothing_leave_the_plain_scale() {
        let units: Vec<f64> = (0..100).map(|i| f64::from(i) * 1e-4).collect();
        let spread = Spread::of(&counts(&units), 50.0);
        for unit in [0.1, 0.3, 0.9] {
            assert!((spread.rank(unit) - unit).abs() < 1e-9, "{unit}: {}", spread.rank(unit));
        }
        // and so does noise alone
        let spread = Spread::of(&vec![-3.0; shape(1).dimension()], 1.0);
        assert!((spread.rank(0.25) - 0.25).abs() < 1e-9);
    }

    /// A map of values that lie evenly between two positions.
    fn between(low: f64, high: f64) -> Spread {
        let units: Vec<f64> = (0..4000).map(|i| low + (high - low) * (f64::from(i) + 0.5) / 4000.0).collect();
        Spread::of(&counts(&units), 1.0)
    }

    #[test]
    fn the_middle_of_the_values_is_found() {
        for (low, high) in [(0.0, 1.0), (0.0, 0.1), (0.3, 0.7), (0.45, 0.55)] {
            let (middle, expected) = (between(low, high).middle(), 0.9 * (high - low));
            // cells of the middle of the range are 3 % of it wide
            assert!((middle - expected).abs() < 0.03, "{low} {high}: {middle} {expected}");
        }
        // all values at one end, and no values at all
        assert!(Spread::of(&counts(&[0.0; 4000]), 1.0).middle() < 0.01);
        assert!((Spread::of(&vec![0.0; shape(1).dimension()], 1.0).middle() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn points_of_a_picture_are_parts_of_one_thing_and_percentages_are_not() {
        let wide = || between(0.0, 0.95);
        let narrow = |k: usize| between(0.01 * k as f64, 0.01 * k as f64 + 0.2);
        let picture = |k: usize| if k.is_multiple_of(3) { between(0.0, 1e-3) } else { wide() };
        let percent = |k: usize| if k.is_multiple_of(3) { wide() } else { narrow(k) };
        let of = |count: usize, map: &dyn Fn(usize) -> Spread| -> Vec<(u64, Spread)> {
            (0..count).map(|k| (16, map(k))).collect()
        };
        let all = |numbers: &[(u64, Spread)]| parts_of_one_thing(numbers).into_iter().filter(|part| *part).count();
        assert_eq!(all(&of(16, &picture)), 16);
        assert_eq!(all(&of(15, &picture)), 0, "too few");
        assert_eq!(all(&of(16, &percent)), 0, "their range is not used");
        // others beside them are spread on their own
        let others = |count: u64| (0..count).map(|k| (100 + k, wide()));
        let beside: Vec<_> = others(10).chain(of(16, &picture)).collect();
        assert_eq!((all(&beside), parts_of_one_thing(&beside)[0]), (16, false));
        assert_eq!(all(&others(17).chain(of(16, &picture)).collect::<Vec<_>>()), 0, "less than half of all");
        assert!(parts_of_one_thing::<u64>(&[]).is_empty());
    }

    #[test]
    fn a_map_that_does_not_increase_is_refused() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(0.0, 0.0), (0.5, 0.5), (0.4, 0.6), (1.0, 1.0)]] {
            assert!(Spread::try_from(points).is_err());
        }
        let flat = vec![(0.0, 0.0), (0.5, 0.7), (0.6, 0.7), (1.0, 1.0)];
        assert!(Spread::try_from(flat).is_err());
        assert!(Spread::try_from(vec![(0.0, 0.0), (0.5, f64::NAN), (1.0, 1.0)]).is_err());
    }

    proptest! {
        #[test]
        fn every_release_gives_an_increasing_map_and_its_inverse(
            counts in prop::collection::vec(-50.0f64..500.0, shape(1).dimension()), noise in 0.0f64..100.0, unit in 0.0f64..1.0,
        ) {
            let spread = Spread::of(&counts, noise);
            prop_assert!(Spread::try_from(spread.points.clone()).is_ok());
            prop_assert!((spread.unit(spread.rank(unit)) - unit).abs() < 1e-9);
            prop_assert!(spread.rank(0.0) == 0.0 && spread.rank(1.0) == 1.0);
            prop_assert!(cell(unit) < shape(1).cells());
            let (low, high) = (cell(unit) as f64 / 512.0, (cell(unit) + 1) as f64 / 512.0);
            prop_assert!(unwarped(low) <= unit + 1e-12 && unit <= unwarped(high) + 1e-12);
        }
    }
}
