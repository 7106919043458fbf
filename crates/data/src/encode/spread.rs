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
