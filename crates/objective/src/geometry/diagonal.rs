//! Norms ‖x‖_H = √Σ h_j x_j² with a diagonal H: ellipsoids and projections in such a norm.
//!
//! On a box the projection in every diagonal norm is the coordinate-wise clip, [`project_box`](super::project_box).

use super::norm;

/// ‖x‖_H for the diagonal `h`.
fn norm_in(x: &[f64], h: &[f64]) -> f64 {
    x.iter().zip(h).map(|(v, w)| w * v * v).sum::<f64>().sqrt()
}

/// Radial clip: x·min(1, 1/‖x‖_A), in place. The bias lemma of adaptive clipping holds for this one, and not for the
/// Euclidean projection. The result has ‖x‖_A ≤ 1 up to rounding.
pub fn clip_to_ellipsoid(x: &mut [f64], a: &[f64]) {
    let length = norm_in(x, a);
    if length > 1.0 {
        x.iter_mut().for_each(|v| *v /= length);
    }
}

/// Euclidean projection on {‖x‖_A ≤ 1}, in place: x_j/(1 + ν·a_j), ν by Newton's method on a convex decreasing function.
/// Newton approaches from outside, so a radial clip ends it.
pub fn project_ellipsoid(x: &mut [f64], a: &[f64]) {
    let squared = |nu: f64| -> (f64, f64) {
        x.iter().zip(a).fold((0.0, 0.0), |(value, slope), (v, w)| {
            let shrink = 1.0 + nu * w;
            let part = w * (v / shrink).powi(2);
            (value + part, slope - 2.0 * part * w / shrink)
        })
    };
    if squared(0.0).0 <= 1.0 {
        return;
    }
    let nu = root_from_the_left(|nu| {
        let (value, slope) = squared(nu);
        (value - 1.0, slope)
    });
    x.iter_mut().zip(a).for_each(|(v, w)| *v /= 1.0 + nu * w);
    clip_to_ellipsoid(x, a);
}

/// Projection on the l2 ball of `radius` in the norm ‖·‖_H, in place: h_j x_j/(h_j + ν) with ν ≥ 0 so that the length fits.
pub fn project_l2_ball_in_norm(x: &mut [f64], h: &[f64], radius: f64) {
    if norm(x) <= radius {
        return;
    }
    if radius <= 0.0 {
        return x.fill(0.0);
    }
    let nu = root_from_the_left(|nu| {
        x.iter().zip(h).fold((-radius * radius, 0.0), |(value, slope), (v, w)| {
            let part = (w * v / (w + nu)).powi(2);
            (value + part, slope - 2.0 * part / (w + nu))
        })
    });
    x.iter_mut().zip(h).for_each(|(v, w)| *v *= w / (w + nu));
    super::project_l2_ball(x, radius);
}

/// Root of a convex decreasing function that is positive at 0; `f` gives value and slope. Newton never passes the root.
fn root_from_the_left(f: impl Fn(f64) -> (f64, f64)) -> f64 {
    let mut nu = 0.0;
    for _ in 0..200 {
        let (value, slope) = f(nu);
        let next = nu - value / slope;
        // a slope of 0 or the last bit: nothing is left to gain
        if !next.is_finite() || next <= nu {
            break;
        }
        nu = next;
    }
    nu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Lcg;

    #[test]
    fn known_ellipsoid() {
        let (a, x) = ([4.0, 1.0, 0.25], [1.0, 2.0, 4.0]);
        assert!((norm_in(&x, &a) - 3.464102).abs() < 1e-6);
        let mut euclid = x;
        project_ellipsoid(&mut euclid, &a);
        let mut radial = x;
        clip_to_ellipsoid(&mut radial, &a);
        for (got, wanted) in [(euclid, [0.0513978, 0.3562510, 1.8574372]), (radial, [0.2886751, 0.5773503, 1.1547005])]
        {
            assert!(got.iter().zip(wanted).all(|(g, w)| (g - w).abs() < 1e-7), "{got:?}");
            assert!(norm_in(&got, &a) <= 1.0 + 1e-15);
        }
    }

    /// ⟨H(y − p), q − p⟩ ≤ 0 for every q in the ball.
    #[test]
    fn projection_in_a_norm_satisfies_the_variational_inequality() {
        let mut random = Lcg::new(8);
        for case in 0..200 {
            let d = 1 + case % 9;
            let h: Vec<f64> = (0..d).map(|_| 10f64.powf(4.0 * random.uniform() - 2.0)).collect();
            let y: Vec<f64> = (0..d).map(|_| 3.0 * random.normal()).collect();
            let mut p = y.clone();
            project_l2_ball_in_norm(&mut p, &h, 1.3);
            assert!(norm(&p) <= 1.3 * (1.0 + 1e-12));
            for _ in 0..10 {
                let mut q: Vec<f64> = (0..d).map(|_| random.normal()).collect();
                super::super::project_l2_ball(&mut q, 1.3);
                let inner: f64 = (0..d).map(|j| h[j] * (y[j] - p[j]) * (q[j] - p[j])).sum();
                assert!(inner <= 1e-7 * (1.0 + norm_in(&y, &h)), "case {case}: {inner}");
            }
        }
        let mut zero = [1.0, -2.0];
        project_l2_ball_in_norm(&mut zero, &[1.0, 5.0], 0.0);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
