//! One of several answers that most of them are near to (Liu 2024, Lemma 2.4.17).
//!
//! Covers: thesis algorithm 12

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

/// ⌈.51k⌉: two majorities of that size meet.
fn majority(points: usize) -> usize {
    (0.51 * points as f64).ceil() as usize
}

/// The first point that ⌈.51k⌉ of the points, itself among them, are within 2Δ/3 of. Where as many are within Δ/3 of some z, the answer
/// is within Δ of z. `None` if there is no such point.
pub fn aggregate_within(points: &[Vec<f64>], delta: f64) -> Option<usize> {
    let near = |x: &Vec<f64>| points.iter().filter(|y| distance(x, y) <= 2.0 * delta / 3.0).count();
    points.iter().position(|x| near(x) >= majority(points.len()))
}

/// The point whose ⌈.51k⌉-th nearest point (itself counted first) is nearest: an aggregate that needs no Δ. `None` if there are no points.
///
/// ```
/// let points: Vec<Vec<f64>> = [0.0, 0.1, 0.2, 10.0, -7.0].map(|x| vec![x]).to_vec();
/// assert_eq!(dpopt_objective::resque::aggregate(&points), Some(1));
/// ```
pub fn aggregate(points: &[Vec<f64>]) -> Option<usize> {
    let reach = |x: &Vec<f64>| {
        let mut all: Vec<f64> = points.iter().map(|y| distance(x, y)).collect();
        all.sort_by(f64::total_cmp);
        all[majority(points.len()) - 1]
    };
    (0..points.len()).min_by(|&a, &b| reach(&points[a]).total_cmp(&reach(&points[b])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_most_are_near_to_is_found_with_and_without_its_radius() {
        let points: Vec<Vec<f64>> = [0.0, 0.1, 0.2, 10.0, -7.0].map(|x| vec![x]).to_vec();
        assert_eq!(majority(5), 3);
        assert_eq!(aggregate(&points), Some(1));
        assert_eq!(aggregate_within(&points, 0.16), Some(1)); // within .107
        assert_eq!(aggregate_within(&points, 0.31), Some(0)); // within .207: the first that qualifies
        assert_eq!(aggregate_within(&points, 0.1), None);
        assert_eq!((aggregate(&[]), aggregate_within(&[], 1.0)), (None, None));
    }
}
