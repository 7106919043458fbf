//! Euclidean projections on boxes, l2 balls, l1 balls and the intersection of the last two.

use super::threshold::soft_threshold;
use super::{l1_norm, norm};

/// Nearest point with every coordinate in [`low`, `high`], in place.
pub fn project_box(x: &mut [f64], low: f64, high: f64) {
    x.iter_mut().for_each(|v| *v = v.max(low).min(high));
}

/// Nearest point of the l2 ball of `radius` around 0, in place.
pub fn project_l2_ball(x: &mut [f64], radius: f64) {
    let length = norm(x);
    if length > radius {
        x.iter_mut().for_each(|v| *v *= radius / length);
    }
}

/// Nearest point of the l1 ball of `radius` around 0, in place: a soft threshold found by sorting (Duchi et al. 2008).
///
/// ```
/// let mut x = [3.0, 2.0, -0.5];
/// dpopt_objective::geometry::project_l1_ball(&mut x, 3.0);
/// assert_eq!(x, [2.0, 1.0, 0.0]);
/// ```
pub fn project_l1_ball(x: &mut [f64], radius: f64) {
    if radius <= 0.0 {
        x.fill(0.0);
    } else if l1_norm(x) > radius {
        let level = l1_level(x, radius);
        soft_threshold(x, level);
    }
}

/// The λ with ‖soft(x, λ)‖₁ = `radius`, for ‖x‖₁ > `radius`.
fn l1_level(x: &[f64], radius: f64) -> f64 {
    let mut sizes: Vec<f64> = x.iter().map(|v| v.abs()).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut level) = (0.0, 0.0);
    for (i, size) in sizes.iter().enumerate() {
        sum += size;
        let with = (sum - radius) / (i + 1) as f64;
        if *size <= with {
            break;
        }
        level = with;
    }
    level
}

/// Nearest point of {‖x‖₁ ≤ `l1_radius`, ‖x‖₂ ≤ `l2_radius`}, in place: the relaxation K' of sparse vectors.
///
/// A soft threshold, scaled: the l1 projection if it is short enough, the l2 projection if its l1 norm fits, and otherwise
/// the threshold at which the ratio of both norms is `l1_radius`/`l2_radius`, which does not increase with the level.
/// `dpopt_draws::project_l1_l2` does the same on a stream of the largest coordinates.
pub fn project_l1_l2_balls(x: &mut [f64], l1_radius: f64, l2_radius: f64) {
    if l1_radius <= 0.0 || l2_radius <= 0.0 {
        return x.fill(0.0);
    }
    let mut by_l1 = x.to_vec();
    project_l1_ball(&mut by_l1, l1_radius);
    if norm(&by_l1) <= l2_radius {
        return x.copy_from_slice(&by_l1);
    }
    let length = norm(x);
    if l1_norm(x) * (l2_radius / length) <= l1_radius {
        return project_l2_ball(x, l2_radius);
    }
    let wanted = l1_radius / l2_radius;
    let ratio = |level: f64| {
        let (l1, squares) =
            x.iter().map(|v| (v.abs() - level).max(0.0)).fold((0.0, 0.0), |(a, b), v| (a + v, b + v * v));
        if squares > 0.0 { l1 / f64::sqrt(squares) } else { 1.0 }
    };
    let (mut low, mut high) = (0.0, l1_level(x, l1_radius));
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if ratio(middle) > wanted { low = middle } else { high = middle }
    }
    soft_threshold(x, high);
    let length = norm(x);
    x.iter_mut().for_each(|v| *v *= l2_radius / length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Lcg;

    fn close(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-8), "{a:?} is not {b:?}");
    }

    #[test]
    fn known_projections() {
        let projected = |x: [f64; 3], f: &dyn Fn(&mut [f64])| {
            let mut x = x;
            f(&mut x);
            x
        };
        close(&projected([3.0, 1.0, -0.5], &|x| project_l1_ball(x, 2.0)), &[2.0, 0.0, 0.0]);
        let both = projected([3.0, 2.0, -0.5], &|x| project_l1_l2_balls(x, 3.0, 2.0));
        close(&both, &[1.65561007, 1.09365858, -0.25073135]);
        assert!((norm(&both) - 2.0).abs() < 1e-12 && (l1_norm(&both) - 3.0).abs() < 1e-9);
        close(&projected([3.0, 4.0, 0.0], &|x| project_l2_ball(x, 1.0)), &[0.6, 0.8, 0.0]);
        close(&projected([3.0, -4.0, 0.2], &|x| project_box(x, -1.0, 2.0)), &[2.0, -1.0, 0.2]);
    }

    #[test]
    fn points_inside_stay_and_zero_is_safe() {
        for f in [|x: &mut [f64]| project_l1_ball(x, 1.0), |x: &mut [f64]| project_l1_l2_balls(x, 1.0, 0.8)] {
            for inside in [[0.3, -0.2, 0.1], [0.0; 3]] {
                let mut x = inside;
                f(&mut x);
                close(&x, &inside);
            }
        }
        let mut x = [1.0, 1.0];
        project_l1_l2_balls(&mut x, 0.0, 1.0);
        close(&x, &[0.0, 0.0]);
    }

    /// ⟨y − p, q − p⟩ ≤ 0 for every q in the set characterises the projection p of y.
    #[test]
    fn projections_satisfy_the_variational_inequality() {
        let mut random = Lcg::new(5);
        for case in 0..300 {
            let d = 1 + case % 12;
            let mut draw = |scale: f64| (0..d).map(|_| scale * random.normal()).collect::<Vec<f64>>();
            let y = draw(3.0);
            let (r1, r2) = (0.5 + case as f64 % 4.0, 0.4 + case as f64 % 3.0);
            let sets: [&dyn Fn(&mut [f64]); 3] =
                [&|x| project_l1_ball(x, r1), &|x| project_l2_ball(x, r2), &|x| project_l1_l2_balls(x, r1, r2)];
            for project in sets {
                let mut p = y.clone();
                project(&mut p);
                for _ in 0..10 {
                    let mut q = draw(2.0);
                    project(&mut q);
                    let inner: f64 = (0..d).map(|j| (y[j] - p[j]) * (q[j] - p[j])).sum();
                    assert!(inner <= 1e-9 * (1.0 + norm(&y)), "case {case}: {inner}");
                }
            }
        }
    }
}
