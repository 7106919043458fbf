//! Sets on which a target lives, and exact draws from an isotropic Gaussian restricted to them.
//!
//! On a box the coordinates are independent truncated normals. On a ball around 0 of radius ρ, N(c, σ²I) has a coordinate t
//! along c with density ∝ φ((t − ‖c‖)/σ)·P(χ²_{d−1} ≤ (ρ² − t²)/σ²), which is log-concave as a marginal of a log-concave
//! density; given t, the rest has a uniform direction and a truncated χ_{d−1} length.

use super::log_concave::{LogConcave, truncated_normal};
use super::wide::Wide;
use dpopt_noise::Stream;
use dpopt_objective::solver::norm;
use dpopt_privacy::special::ln_gamma;

/// A convex set of points, by public numbers only.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// All of R^d. Proposals farther from 0 than the radius are refused, which the certificate accounts for.
    Whole {
        /// The radius V beyond which proposals are refused.
        radius: f64,
    },
    /// low ≤ x ≤ high in each coordinate.
    Box {
        /// Lower end of each coordinate.
        low: Vec<f64>,
        /// Upper end of each coordinate.
        high: Vec<f64>,
    },
    /// The ball ‖x‖₂ ≤ radius around 0.
    Ball {
        /// The radius ρ of the ball.
        radius: f64,
    },
}

impl Domain {
    /// Whether a proposal may be accepted at all.
    pub(super) fn admits(&self, x: &[Wide]) -> bool {
        match self {
            Self::Whole { radius } => norm(&rounded(x)) <= *radius,
            Self::Box { .. } | Self::Ball { .. } => true,
        }
    }

    /// The point of the domain (for all of R^d: of the ball) next to `x`.
    pub(crate) fn project(&self, x: &mut [f64]) {
        match self {
            Self::Box { low, high } => {
                x.iter_mut().zip(low).zip(high).for_each(|((x, l), h)| *x = x.clamp(*l, *h));
            }
            Self::Ball { radius } | Self::Whole { radius } => shrink(x, *radius),
        }
    }

    /// Fills `x` with a draw from N(centre, std²·I) restricted to the domain.
    pub(super) fn gaussian(&self, centre: &[Wide], std: Wide, x: &mut [Wide], stream: &mut Stream) {
        match self {
            Self::Whole { .. } => {
                for (x, c) in x.iter_mut().zip(centre) {
                    *x = c.plus(std.times(Wide::from(stream.wide_standard_normal())));
                }
            }
            Self::Box { low, high } => {
                for (j, x) in x.iter_mut().enumerate() {
                    *x = truncated_normal(centre[j].rounded(), std.rounded(), low[j], high[j], stream).into();
                }
            }
            Self::Ball { radius } => {
                let drawn = gaussian_in_ball(&rounded(centre), std.rounded(), *radius, stream);
                x.iter_mut().zip(drawn).for_each(|(x, v)| *x = v.into());
            }
        }
    }
}

pub(super) fn rounded(x: &[Wide]) -> Vec<f64> {
    x.iter().map(|x| x.rounded()).collect()
}

fn shrink(x: &mut [f64], radius: f64) {
    let size = norm(x);
    if size > radius {
        x.iter_mut().for_each(|x| *x *= radius / size * (1.0 - 4.0 * f64::EPSILON));
    }
}

/// N(centre, std²·I) restricted to the ball of `radius` around 0.
pub(crate) fn gaussian_in_ball(centre: &[f64], std: f64, radius: f64, stream: &mut Stream) -> Vec<f64> {
    let offset = norm(centre);
    // rejection from the whole Gaussian while there is hope: what follows has the same law, so a limit changes nothing
    if offset < radius {
        for _ in 0..8 {
            let x: Vec<f64> = centre.iter().map(|c| c + std * stream.standard_normal()).collect();
            if norm(&x) <= radius {
                return x;
            }
        }
    }
    gaussian_in_ball_by_parts(centre, std, radius, stream)
}

/// N(centre, std²·I) restricted to the ball of `radius` around 0, drawn as the coordinate along the centre and the rest.
fn gaussian_in_ball_by_parts(centre: &[f64], std: f64, radius: f64, stream: &mut Stream) -> Vec<f64> {
    let d = centre.len();
    let offset = norm(centre);
    // in units of std, along the centre
    let (mu, rho) = (offset / std, radius / std);
    let rest = d - 1;
    let t = if rest == 0 {
        truncated_normal(mu, 1.0, -rho, rho, stream)
    } else {
        let a = 0.5 * rest as f64;
        let ln_density = |t: f64| -0.5 * (t - mu) * (t - mu) + ln_lower_gamma(a, 0.5 * (rho * rho - t * t).max(0.0));
        let mode = maximum(&ln_density, -rho, rho);
        LogConcave::new(ln_density, (-rho, rho), mode, 1.0f64.min(0.25 * rho)).sample(stream)
    };
    let length = if rest == 0 { 0.0 } else { truncated_chi(rest, (rho * rho - t * t).max(0.0).sqrt(), stream) };
    // a uniform direction orthogonal to the centre
    let along: Vec<f64> = if offset > 0.0 {
        centre.iter().map(|c| c / offset).collect()
    } else {
        (0..d).map(|j| f64::from(u8::from(j == 0))).collect()
    };
    let mut direction = vec![0.0; d];
    stream.fill_standard_normal(&mut direction);
    let share: f64 = direction.iter().zip(&along).map(|(a, b)| a * b).sum();
    direction.iter_mut().zip(&along).for_each(|(a, b)| *a -= share * b);
    let size = norm(&direction).max(f64::MIN_POSITIVE);
    let mut x: Vec<f64> = direction.iter().zip(&along).map(|(a, b)| std * (t * b + length * a / size)).collect();
    shrink(&mut x, radius);
    x
}

/// χ with `degrees` ≥ 1 degrees of freedom, at most `end`.
fn truncated_chi(degrees: usize, end: f64, stream: &mut Stream) -> f64 {
    let power = degrees as f64 - 1.0;
    let ln_density = move |r: f64| if power == 0.0 { -0.5 * r * r } else { power * r.ln() - 0.5 * r * r };
    LogConcave::new(ln_density, (0.0, end), power.sqrt(), 0.7f64.min(0.5 * end)).sample(stream)
}

/// The point at which a concave function is largest, to about 1e-9 of the interval (golden section).
fn maximum(f: &impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let ratio = 0.5 * (5f64.sqrt() - 1.0);
    let (mut a, mut b) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut fa, mut fb) = (f(a), f(b));
    for _ in 0..45 {
        if fa < fb {
            low = a;
            (a, fa) = (b, fb);
            b = low + ratio * (high - low);
            fb = f(b);
        } else {
            high = b;
            (b, fb) = (a, fa);
            a = high - ratio * (high - low);
            fa = f(a);
        }
    }
    if fa < fb { b } else { a }
}

/// ln P(Gamma(a) ≤ x): series below the mean, Lentz's continued fraction of the upper tail above.
pub(crate) fn ln_lower_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let front = a * x.ln() - x - ln_gamma(a);
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > 1e-17 * sum {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front + sum.ln();
    }
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut h = d;
    for i in 1..500 {
        let an = -f64::from(i) * (f64::from(i) - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let change = d * c;
        h *= change;
        if (change - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (-(front.exp() * h).min(1.0)).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::laws::kolmogorov;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn lower_gamma_values() {
        // exact for a = 1: 1 − e^(−x); a = 1/2: erf(√x); and a = 5 by the finite sum
        for x in [0.01f64, 0.5, 1.0, 3.0, 30.0] {
            assert!((ln_lower_gamma(1.0, x) - (-(-x).exp()).ln_1p()).abs() < 1e-13, "{x}");
            let sum: f64 = (0..5).map(|k| x.powi(k) / (1..=k).product::<i32>() as f64).sum();
            let five = 1.0 - (-x).exp() * sum;
            // the finite sum cancels: it is good to a few roundings of 1
            assert!((ln_lower_gamma(5.0, x).exp() - five).abs() < 1e-15 + 1e-13 * five, "{x}");
        }
        assert!((ln_lower_gamma(0.5, 1.0).exp() - 0.842_700_792_949_714_9).abs() < 1e-14);
    }

    /// Rejection from the whole Gaussian is the referee wherever it accepts often enough.
    #[test]
    fn gaussians_in_a_ball_agree_with_rejection() {
        let mut stream = NoiseSource::insecure(9).stream(Purpose::Audit, 0);
        for (d, offset, std, radius) in
            [(1usize, 0.8, 0.5, 1.0), (2, 0.9, 0.6, 1.0), (3, 1.5, 0.6, 1.0), (8, 0.2, 0.4, 1.0), (8, 0.0, 0.5, 1.2)]
        {
            let centre: Vec<f64> = (0..d)
                .map(|j| {
                    if j == 0 {
                        0.6 * offset
                    } else if j == 1 {
                        0.8 * offset
                    } else {
                        0.0
                    }
                })
                .collect();
            let n = 4_000;
            let plain: Vec<Vec<f64>> = std::iter::repeat_with(|| {
                centre.iter().map(|c| c + std * stream.standard_normal()).collect::<Vec<f64>>()
            })
            .filter(|x| norm(x) <= radius)
            .take(n)
            .collect();
            let exact: Vec<Vec<f64>> =
                (0..n).map(|_| gaussian_in_ball_by_parts(&centre, std, radius, &mut stream)).collect();
            assert!(exact.iter().all(|x| norm(x) <= radius));
            for statistic in [
                |x: &[f64], _: &[f64]| norm(x),
                |x: &[f64], _: &[f64]| x[0],
                |x: &[f64], c: &[f64]| x.iter().zip(c).map(|(a, b)| a * b).sum::<f64>() + 1e-9 * x[x.len() - 1],
                |x: &[f64], _: &[f64]| x[x.len() - 1],
            ] {
                let mut a: Vec<f64> = plain.iter().map(|x| statistic(x, &centre)).collect();
                let mut b: Vec<f64> = exact.iter().map(|x| statistic(x, &centre)).collect();
                a.sort_by(f64::total_cmp);
                b.sort_by(f64::total_cmp);
                // two samples: each within its own limit of the common law
                let distance = a
                    .iter()
                    .enumerate()
                    .map(|(i, x)| (i as f64 - b.partition_point(|y| y <= x) as f64).abs() / n as f64)
                    .fold(0.0, f64::max);
                assert!(distance < 2.0 * crate::sampler::laws::kolmogorov_limit(n), "{d} {offset}: {distance}");
            }
        }
    }

    /// Far outside the ball rejection never accepts, but the law along the centre is nearly exponential.
    #[test]
    fn a_centre_far_outside() {
        let mut stream = NoiseSource::insecure(10).stream(Purpose::Audit, 0);
        let (std, radius) = (0.1, 1.0);
        for (centre, d) in [(30.0, 2usize), (5.0, 5)] {
            let mut c = vec![0.0; d];
            c[0] = centre;
            let mut sample: Vec<f64> = (0..10_000).map(|_| gaussian_in_ball(&c, std, radius, &mut stream)[0]).collect();
            // density of the first coordinate ∝ e^(t·c/σ²)·e^(−t²/2σ²)·P(χ²_{d−1} ≤ (1 − t²)/σ²)
            let table = crate::sampler::laws::Tabulated::new(
                |t| {
                    let s2 = std * std;
                    t * centre / s2 - t * t / (2.0 * s2)
                        + ln_lower_gamma(0.5 * (d as f64 - 1.0), (1.0 - t * t) / (2.0 * s2))
                },
                0.0,
                1.0,
                400_000,
            );
            kolmogorov(&mut sample, |t| table.cdf(t));
        }
    }

    #[test]
    fn a_box_and_the_whole_space() {
        let mut stream = NoiseSource::insecure(11).stream(Purpose::Audit, 0);
        let domain = Domain::Box { low: vec![-1.0, 0.5], high: vec![0.0, 0.75] };
        let centre = [Wide::from(3.0), Wide::from(0.0)];
        let mut x = [Wide::default(); 2];
        for _ in 0..1000 {
            domain.gaussian(&centre, Wide::from(0.3), &mut x, &mut stream);
            let v = rounded(&x);
            assert!(v[0] >= -1.0 && v[0] <= 0.0 && v[1] >= 0.5 && v[1] <= 0.75);
        }
        let whole = Domain::Whole { radius: 2.0 };
        assert!(
            whole.admits(&[Wide::from(1.0), Wide::from(-1.0)]) && !whole.admits(&[Wide::from(2.0), Wide::from(1.0)])
        );
        let mut far = [30.0, 40.0];
        whole.project(&mut far);
        assert!((norm(&far) - 2.0).abs() < 1e-12);
    }
}
