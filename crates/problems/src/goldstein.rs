//! How far a point is from being a Goldstein point: the least norm in the hull of gradients near by. It looks at all records: for tests and figures.

use crate::draws::Draws;

/// Steps of the search for the point of least norm: each halves what is left, or nearly, and twenty are usual.
const MAX_STEPS: usize = 20_000;

/// The point of least norm in the hull of `points`, and how much ‖·‖² may be above the least one. `points`: at least one, of one length.
///
/// Frank and Wolfe's method with away steps: a vertex against which the point is worst goes in, or one that holds it up goes out. The gap ‖p‖² − min⟨p, v⟩ is proved,
/// so that the norm is an upper bound whatever the number of steps.
///
/// # Panics
/// If there is no point.
pub fn least_norm_point(points: &[Vec<f64>]) -> (Vec<f64>, f64) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let largest = points.iter().map(|v| dot(v, v)).fold(0.0, f64::max);
    let first = (0..points.len()).min_by(|&i, &j| dot(&points[i], &points[i]).total_cmp(&dot(&points[j], &points[j])));
    let first = first.expect("at least one point");
    let mut weights = vec![0.0; points.len()];
    weights[first] = 1.0;
    let mut p = points[first].clone();
    let mut gap = f64::INFINITY;
    for step in 0..MAX_STEPS {
        let along: Vec<f64> = points.iter().map(|v| dot(&p, v)).collect();
        let norm = dot(&p, &p);
        let best = (0..points.len()).fold(0, |best, i| if along[i] < along[best] { i } else { best });
        let inside = (0..points.len()).filter(|&i| weights[i] > 0.0);
        let worst =
            inside.fold(best, |worst, i| if weights[worst] == 0.0 || along[i] > along[worst] { i } else { worst });
        gap = norm - along[best];
        if gap <= 1e-14 * largest {
            break;
        }
        // towards the best vertex, or away from the worst one
        let toward = gap >= along[worst] - norm;
        let (vertex, sign, most) = match toward {
            true => (best, 1.0, 1.0),
            false => (worst, -1.0, weights[worst] / (1.0 - weights[worst])),
        };
        let direction: Vec<f64> = points[vertex].iter().zip(&p).map(|(v, p)| sign * (v - p)).collect();
        let length = dot(&direction, &direction);
        if length == 0.0 {
            break;
        }
        let share = (-dot(&p, &direction) / length).clamp(0.0, most);
        weights.iter_mut().for_each(|w| *w *= 1.0 - sign * share);
        weights[vertex] += sign * share;
        if !toward && share == most {
            weights[vertex] = 0.0;
        }
        match step % 64 {
            // from the weights again, against rounding
            63 => {
                let all: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|w| *w /= all);
                p.fill(0.0);
                for (w, v) in weights.iter().zip(points) {
                    p.iter_mut().zip(v).for_each(|(p, v)| *p += w * v);
                }
            }
            _ => p.iter_mut().zip(&direction).for_each(|(p, d)| *p += share * d),
        }
    }
    (p, gap.max(0.0))
}

/// Upper bound on the least norm in the Goldstein subdifferential: of the hull of `gradient` at `samples` uniform points of the ball around `x`, and at `x`.
pub fn goldstein_norm(
    gradient: impl Fn(&[f64], &mut [f64]),
    (x, radius): (&[f64], f64),
    samples: usize,
    seed: u64,
) -> f64 {
    let (d, mut draws) = (x.len(), Draws::from_seed(seed));
    let mut all = Vec::with_capacity(samples + 1);
    let mut at = x.to_vec();
    for _ in 0..=samples {
        let mut g = vec![0.0; d];
        gradient(&at, &mut g);
        all.push(g);
        let y: Vec<f64> = (0..d).map(|_| draws.normal()).collect();
        let length = y.iter().map(|v| v * v).sum::<f64>().sqrt();
        let r = radius * libm::pow(draws.uniform(), 1.0 / d as f64) / length;
        at = x.iter().zip(&y).map(|(x, y)| x + r * y).collect();
    }
    let (p, _) = least_norm_point(&all);
    p.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norm(p: &[f64]) -> f64 {
        p.iter().map(|v| v * v).sum::<f64>().sqrt()
    }

    #[test]
    fn hulls_whose_nearest_point_is_known() {
        // unit vectors: (1/d, …, 1/d)
        let units: Vec<Vec<f64>> = (0..7).map(|i| (0..7).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        let (p, gap) = least_norm_point(&units);
        assert!(gap < 1e-12 && p.iter().all(|v| (v - 1.0 / 7.0).abs() < 1e-6), "{p:?}");
        // a segment that passes 0 at a distance of 3/√10, and one that ends before
        let (p, _) = least_norm_point(&[vec![3.0, 0.0], vec![0.0, 1.0]]);
        assert!((norm(&p) - 0.9f64.sqrt()).abs() < 1e-7, "{p:?}");
        let (p, _) = least_norm_point(&[vec![1.0, 1.0], vec![2.0, 1.5]]);
        assert_eq!(p, vec![1.0, 1.0]);
        // 0 inside, and on a side
        let (p, _) = least_norm_point(&[vec![1.0, 0.3], vec![-1.0, 0.4], vec![0.2, -2.0]]);
        assert!(norm(&p) < 1e-6, "{p:?}");
        let (p, _) = least_norm_point(&[vec![1.0, 0.0], vec![-3.0, 0.0], vec![0.0, 5.0]]);
        assert!(norm(&p) < 1e-6, "{p:?}");
        assert_eq!(least_norm_point(&[vec![0.5, -0.5]]).0, vec![0.5, -0.5]);
        assert_eq!(least_norm_point(&[vec![0.0], vec![0.0]]).0, vec![0.0]);
    }

    /// Optimality says ⟨p, v⟩ ≥ ‖p‖² for every vertex; the gap bounds by how much it fails.
    #[test]
    fn no_vertex_is_on_the_near_side() {
        let mut draws = Draws::from_seed(3);
        for shift in [0.0, 0.2, 1.0] {
            let points: Vec<Vec<f64>> = (0..160)
                .map(|_| (0..20).map(|j| draws.normal() + if j == 0 { 3.0 * shift } else { 0.0 }).collect())
                .collect();
            let (p, gap) = least_norm_point(&points);
            let square = norm(&p).powi(2);
            for v in &points {
                let along: f64 = p.iter().zip(v).map(|(p, v)| p * v).sum();
                assert!(along >= square - 1e-9 - gap, "{along} {square}");
            }
            assert!(gap < 1e-9, "{shift} {gap}");
        }
    }

    #[test]
    fn a_kink_within_the_radius_makes_a_point_stationary_and_a_slope_does_not() {
        // |x₁| + x₂/10 in five dimensions
        let slope = |x: &[f64], g: &mut [f64]| {
            g.fill(0.0);
            (g[0], g[1]) = (x[0].signum(), 0.1);
        };
        let at = |x: f64| goldstein_norm(slope, (&[x, 0.0, 0.0, 0.0, 0.0], 0.1), 80, 7);
        assert!((at(0.05) - 0.1).abs() < 1e-6, "{}", at(0.05));
        assert!((at(0.2) - 1.01f64.sqrt()).abs() < 1e-9, "{}", at(0.2));
    }
}
