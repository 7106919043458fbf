//! Projection on the intersection of two balls.

use super::norm;

/// Nearest point of the ball of radius `r` around `centre` and of the ball of `radius` around 0, which meet, in place.
///
/// ```
/// let mut x = [0.0, 3.0];
/// dpopt_objective::geometry::project_two_balls(&mut x, &[1.0, 0.0], 1.0, 1.0);
/// assert!((x[0] - 0.5).abs() < 1e-12 && (x[1] - 0.75f64.sqrt()).abs() < 1e-12);
/// ```
pub fn project_two_balls(x: &mut [f64], centre: &[f64], r: f64, radius: f64) {
    let from_centre = |x: &[f64]| norm(&x.iter().zip(centre).map(|(x, c)| x - c).collect::<Vec<_>>());
    let (to_zero, to_centre) = (norm(x), from_centre(x));
    if to_zero <= radius && to_centre <= r {
        return;
    }
    let near_centre: Vec<f64> = x.iter().zip(centre).map(|(x, c)| c + (x - c) * (r / to_centre).min(1.0)).collect();
    if norm(&near_centre) <= radius {
        return x.copy_from_slice(&near_centre);
    }
    let near_zero: Vec<f64> = x.iter().map(|v| v * (radius / to_zero).min(1.0)).collect();
    if from_centre(&near_zero) <= r {
        return x.copy_from_slice(&near_zero);
    }
    // on both spheres: t along the centre, h across it
    let length = norm(centre);
    let t = (length * length + radius * radius - r * r) / (2.0 * length);
    let h = (radius * radius - t * t).max(0.0).sqrt();
    let along: f64 = x.iter().zip(centre).map(|(x, c)| x * c / length).sum();
    let mut across: Vec<f64> = x.iter().zip(centre).map(|(x, c)| x - along * c / length).collect();
    if norm(&across) == 0.0 {
        // any direction across: the coordinate in which the centre is shortest
        let least = (0..x.len()).min_by(|&a, &b| centre[a].abs().total_cmp(&centre[b].abs())).unwrap_or(0);
        let share = centre[least] / (length * length);
        across = centre.iter().enumerate().map(|(j, c)| f64::from(u8::from(j == least)) - share * c).collect();
    }
    let size = norm(&across).max(f64::MIN_POSITIVE);
    x.iter_mut().zip(centre).zip(&across).for_each(|((x, c), a)| *x = t * c / length + h * a / size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Lcg;

    #[test]
    fn the_answer_is_in_both_balls_and_no_point_of_both_lies_in_the_direction_of_what_was_projected() {
        let mut random = Lcg::new(9);
        let mut on_both = 0;
        for _ in 0..3000 {
            let d = 2 + (random.uniform() * 4.0) as usize;
            let mut vector = |scale: f64| -> Vec<f64> { (0..d).map(|_| scale * random.normal()).collect() };
            let (centre, given, other) = (vector(0.6), vector(1.5), vector(1.0));
            let (r, radius) = (0.2 + 0.8 * norm(&centre), 0.3 + 0.5 * norm(&centre));
            let inside = |x: &[f64], slack: f64| {
                norm(x) <= radius + slack
                    && norm(&x.iter().zip(&centre).map(|(x, c)| x - c).collect::<Vec<_>>()) <= r + slack
            };
            let (mut x, mut z) = (given.clone(), other);
            project_two_balls(&mut x, &centre, r, radius);
            project_two_balls(&mut z, &centre, r, radius);
            assert!(inside(&x, 1e-12) && inside(&z, 1e-12));
            // ⟨given − x, z − x⟩ ≤ 0 for every z of the set
            let obtuse: f64 = given.iter().zip(&x).zip(&z).map(|((g, x), z)| (g - x) * (z - x)).sum();
            assert!(obtuse <= 1e-12 * (1.0 + norm(&given)), "{obtuse}");
            let edge = |x: &[f64]| (norm(x) - radius).abs() < 1e-9;
            on_both += usize::from(
                edge(&x) && inside(&x, 1e-12) && !inside(&x.iter().map(|v| v * (1.0 + 1e-6)).collect::<Vec<_>>(), 0.0),
            );
        }
        assert!(on_both > 100, "{on_both}");
    }
}
