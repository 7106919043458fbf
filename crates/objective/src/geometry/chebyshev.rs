//! Nearest points in the l∞ norm: what output perturbation does to a noisy minimiser (Ghazi et al. 2024, Algorithm 3 of the first version).
//!
//! Among the points of a set that are l∞-nearest to x, these functions return the least one: soft(x, t) with the smallest
//! t ≥ 0 that lies in the set. It is sparse, and takes the noise of untouched coordinates with it, where the Euclidean
//! projection only shrinks them. It looks at x and public numbers alone, so it is post-processing.

/// soft(x, t): every coordinate moved toward 0 by at most t.
fn soft(x: &[f64], t: f64) -> Vec<f64> {
    x.iter().map(|&v| v.signum() * (v.abs() - t).max(0.0)).collect()
}

/// Smallest t ≥ 0 with ‖soft(x, t)‖ ≤ radius. `below` says how far under the smallest of the largest sizes it is, as long as these alone count.
///
/// Sizes are kept as what they are above the smallest of them: sums of what is not negative, where differences of large squares would leave nothing of a small
/// radius.
fn threshold(x: &[f64], radius: f64, norm: impl Fn(&Above) -> f64, below: impl Fn(&Above, f64) -> f64) -> f64 {
    let mut sizes: Vec<f64> = x.iter().map(|v| v.abs()).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut above = Above::default();
    for (k, &size) in sizes.iter().enumerate() {
        above.count += 1.0;
        let next = sizes.get(k + 1).copied().unwrap_or(0.0);
        let lower = above.lowered(size - next);
        // the norm of soft(x, t) does not increase with t: the answer lies between this size and the next
        if norm(&lower) > radius {
            return (size - below(&above, radius)).clamp(next, size);
        }
        above = lower;
    }
    0.0
}

/// The largest sizes so far, as what each is above a level: soft(x, level).
#[derive(Clone, Copy, Default)]
struct Above {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Above {
    /// Above a level that is lower by `way`.
    fn lowered(self, way: f64) -> Self {
        let Self { count, sum, squares } = self;
        Self { count, sum: sum + count * way, squares: squares + way * (2.0 * sum + count * way) }
    }
}

/// The sparsest l∞-nearest point to `x` (length d) of the l2 ball of `radius` around 0.
///
/// ```
/// use dpopt_objective::geometry::nearest_in_l2_ball;
/// // the Euclidean projection would be (0.6, 0.8)
/// assert_eq!(nearest_in_l2_ball(&[3.0, 4.0], 1.0), [0.0, 1.0]);
/// ```
pub fn nearest_in_l2_ball(x: &[f64], radius: f64) -> Vec<f64> {
    // k·u² + 2c₁u + c₂ − R² = 0, the larger root, without cancellation
    let below = |a: &Above, radius: f64| {
        let left = (radius * radius - a.squares).max(0.0);
        if left == 0.0 { 0.0 } else { left / (a.sum + (a.sum * a.sum + a.count * left).sqrt()) }
    };
    soft(x, threshold(x, radius, |a| a.squares.sqrt(), below))
}

/// The sparsest l∞-nearest point to `x` (length d) of the l1 ball of `radius` around 0, which is also the Euclidean projection.
///
/// ```
/// use dpopt_objective::geometry::nearest_in_l1_ball;
/// assert_eq!(nearest_in_l1_ball(&[3.0, 2.0, -0.5], 3.0), [2.0, 1.0, 0.0]);
/// ```
pub fn nearest_in_l1_ball(x: &[f64], radius: f64) -> Vec<f64> {
    soft(x, threshold(x, radius, |a| a.sum, |a, radius| (radius - a.sum).max(0.0) / a.count))
}

/// The l∞-nearest point to `x` of the box `low` ≤ x ≤ `high` (one number per coordinate, low ≤ high): each coordinate clipped.
pub fn nearest_in_box(x: &[f64], low: &[f64], high: &[f64]) -> Vec<f64> {
    x.iter().zip(low.iter().zip(high)).map(|(v, (l, h))| v.max(*l).min(*h)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn l2(x: &[f64]) -> f64 {
        x.iter().map(|v| v * v).sum::<f64>().sqrt()
    }

    fn linf(x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn published_examples() {
        assert_eq!(nearest_in_l2_ball(&[3.0, 4.0], 1.0), [0.0, 1.0]);
        assert_eq!(nearest_in_l1_ball(&[3.0, 1.0, -0.5], 2.0), [2.0, 0.0, 0.0]);
        assert_eq!(nearest_in_box(&[3.0, -4.0], &[0.0, -1.0], &[1.0, 2.0]), [1.0, -1.0]);
        assert_eq!(nearest_in_l2_ball(&[0.3, -0.4], 1.0), [0.3, -0.4]);
        assert_eq!(nearest_in_l2_ball(&[], 1.0), [0.0; 0]);
        assert_eq!(nearest_in_l2_ball(&[3.0, -4.0], 0.0), [0.0, -0.0]);
        assert_eq!(nearest_in_l1_ball(&[3.0, -4.0], 0.0), [0.0, -0.0]);
    }

    /// By differences of sums of squares the first answer would be 2e-12 too long.
    #[test]
    fn sizes_that_are_nearly_equal_lose_no_digits() {
        let near =
            nearest_in_l2_ball(&[4.474257155094206, -4.449956654178272, 4.472606576871365, -4.437871781250496], 0.1);
        assert!((l2(&near) / 0.1 - 1.0).abs() < 1e-13, "{near:?}");
        let x: Vec<f64> = (0..1000).map(|i| 1e6 + f64::from(i % 7) * 1e-6).collect();
        // sizes are stored to 6e-11, which is all that is lost
        assert!((l2(&nearest_in_l2_ball(&x, 1.0)) - 1.0).abs() < 4e-9);
        assert!((nearest_in_l1_ball(&x, 1.0).iter().sum::<f64>() - 1.0).abs() < 1.2e-7);
    }

    proptest! {
        #[test]
        fn nothing_of_the_ball_is_nearer(
            x in prop::collection::vec(-5.0f64..5.0, 1..30),
            other in prop::collection::vec(-1.0f64..1.0, 30),
            radius in 0.1f64..6.0,
        ) {
            let near = nearest_in_l2_ball(&x, radius);
            // a threshold below 5 is rounded by 2^-51: 30 numbers are that far off, of .1 a share of 1.4e-13 at most
            prop_assert!(l2(&near) <= radius * (1.0 + 1e-12));
            let other = &other[..x.len()];
            let inside: Vec<f64> = other.iter().map(|v| v * (radius / l2(other).max(1e-9)).min(1.0)).collect();
            prop_assert!(linf(&x, &near) <= linf(&x, &inside) + 1e-9);
            let near = nearest_in_l1_ball(&x, radius);
            prop_assert!(near.iter().map(|v| v.abs()).sum::<f64>() <= radius * (1.0 + 1e-12));
            let size: f64 = other.iter().map(|v| v.abs()).sum();
            let inside: Vec<f64> = other.iter().map(|v| v * (radius / size.max(1e-9)).min(1.0)).collect();
            prop_assert!(linf(&x, &near) <= linf(&x, &inside) + 1e-9);
        }

        /// ‖x̂ − θ‖∞ ≤ 2‖ξ‖∞ for x̂ the nearest point to θ + ξ, θ in the ball: what the utility proof uses.
        #[test]
        fn the_answer_is_within_twice_the_noise(
            theta in prop::collection::vec(-1.0f64..1.0, 1..30),
            noise in prop::collection::vec(-3.0f64..3.0, 30),
        ) {
            let radius = l2(&theta);
            let noisy: Vec<f64> = theta.iter().zip(&noise).map(|(a, b)| a + b).collect();
            let answer = nearest_in_l2_ball(&noisy, radius);
            // rounding of 1e-15 shows where all noise is below 1e-3, in two coordinates or more: of one it is never near the bound
            prop_assert!(linf(&answer, &theta) <= 2.0 * linf(&noisy, &theta) * (1.0 + 1e-12));
        }
    }
}
