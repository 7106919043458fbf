//! ψ, its derivatives and its draws against closed forms and grids.

use super::coordinate::Coordinate;
use super::*;
use crate::sampler::domain::ln_lower_gamma;
use crate::sampler::laws::{Tabulated, kolmogorov, kolmogorov_distance, kolmogorov_limit};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::synthetic::Lcg;

fn stream(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Audit, 0)
}

/// The dual norm is l_4.
fn quartic(dimension: usize) -> LogLaplace {
    LogLaplace::new(dimension, 4.0 / 3.0, 1.0).unwrap()
}

/// λ from μ alone, as Liu 2024 has it: (A(U)/E)^((1−c)/c).
fn stable_draw(c: f64, stream: &mut Stream) -> f64 {
    let (u, e) = (PI * stream.uniform(), -stream.uniform().ln());
    let rest = 1.0 - c;
    let a = (rest * u).sin() * (c * u).sin().powf(c / rest) / u.sin().powf(1.0 / rest);
    (a / e).powf(rest / c)
}

/// Draws whose λ ignores x and d: not π_x.
fn untilted_draw(x: &[f64], q: f64, stream: &mut Stream) -> Vec<f64> {
    let s = stable_draw(2.0 / q, stream).powf(-1.0 / q);
    let coordinate = Coordinate::new(q);
    x.iter().map(|x| s * coordinate.draw(x * s, stream)).collect()
}

fn square_norm(y: &[f64], q: f64) -> f64 {
    y.iter().map(|y| y.abs().powf(q)).sum::<f64>().powf(2.0 / q)
}

/// Mean and standard error of `of`.
fn moment(sample: &[Vec<f64>], of: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().map(|y| of(y)).sum::<f64>() / n;
    let variance = sample.iter().map(|y| (of(y) - mean).powi(2)).sum::<f64>() / n;
    (mean, (variance / n).sqrt())
}

#[test]
fn one_dimension_is_gaussian_for_every_p() {
    for p in [1.05, 1.1, 1.5, 1.95, 2.0] {
        for a in [1e-4, 3.0] {
            let psi = LogLaplace::new(1, p, a).unwrap();
            for x in [0.0, -0.4, 3.0] {
                let exact = x * x / (4.0 * a) + 0.5 * (PI / a).ln();
                let got = psi.value(&[x]);
                assert!((got - exact).abs() < 1e-9 * exact.abs().max(1.0), "{p} {a} {x}: {got} {exact}");
                let d = psi.derivatives(&[x]);
                assert!((d.gradient[0] - 0.5 * x / a).abs() < 1e-7 * (0.5 * x.abs() / a).max(1.0), "{p} {a} {x}");
                assert!((d.curvature(&[1.0]) * 2.0 * a - 1.0).abs() < 1e-5, "{p} {a} {x}: {}", d.curvature(&[1.0]));
            }
        }
    }
}

#[test]
fn values_in_two_dimensions() {
    let psi = quartic(2);
    // sums over a grid of 4801² points
    for (x, value) in [([0.0, 0.0], 1.310_532_925_9), ([1.0, 0.5], 1.687_569_8), ([2.0, -1.0], 2.844_946_3)] {
        assert!((psi.value(&x) - value).abs() < 1e-7, "{x:?}: {}", psi.value(&x));
    }
    assert!((psi.at_zero() - 1.310_532_925_9).abs() < 1e-9);
    for (d, p, a) in [(3, 1.2, 0.1), (10, 1.5, 0.01), (100, 1.5, 1e-4), (7, 1.9, 2.0), (5, 2.0, 1.0)] {
        let psi = LogLaplace::new(d, p, a).unwrap();
        let (by_rule, closed) = (psi.value(&vec![0.0; d]), psi.at_zero());
        assert!((by_rule - closed).abs() < 1e-8 * closed.abs().max(1.0), "{d} {p} {a}: {by_rule} {closed}");
    }
    for (p, a) in [(1.0, 1.0), (2.5, 1.0), (f64::NAN, 1.0), (1.5, 0.0), (1.5, f64::INFINITY)] {
        assert!(LogLaplace::new(2, p, a).is_err());
    }
    assert_eq!(LogLaplace::new(0, 1.5, 1.0).err(), Some(NoTransform::Dimension));
}

/// Gradient by differences; a·Var(y_1) at 0; 1-strong convexity of ηψ in l_p; |third derivative| ≤ 2·(second)^(3/2).
#[test]
fn derivatives_strong_convexity_and_self_concordance() {
    for (d, variance) in [(1, 0.5), (2, 0.566_047), (10, 0.864_198), (100, 1.808_006)] {
        let psi = LogLaplace::new(d, 1.5, 0.7).unwrap();
        let at_zero = psi.derivatives(&vec![0.0; d]);
        assert!((0.7 * at_zero.diagonal[0] - variance).abs() < 1e-6, "{d}: {}", 0.7 * at_zero.diagonal[0]);
    }
    let mut random = Lcg::new(4);
    for p in [1.2, 1.5, 1.8] {
        for a in [0.02, 1.0] {
            let psi = LogLaplace::new(3, p, a).unwrap();
            for trial in 0..4 {
                let x: Vec<f64> = (0..3).map(|_| random.normal()).collect();
                let mut h: Vec<f64> = (0..3).map(|_| random.normal()).collect();
                if trial == 0 {
                    h.fill(1.0); // equal entries are the tight ones
                }
                let at = psi.derivatives(&x);
                let e = 1e-4;
                let moved = |e: f64| -> Vec<f64> { x.iter().zip(&h).map(|(x, h)| x + e * h).collect() };
                let slope = (psi.value(&moved(e)) - psi.value(&moved(-e))) / (2.0 * e);
                let along: f64 = at.gradient.iter().zip(&h).map(|(g, h)| g * h).sum();
                assert!((slope - along).abs() < 1e-5 * (1.0 / a + along.abs()), "{p} {a}: {slope} {along}");
                let norm = h.iter().map(|h| h.abs().powf(p)).sum::<f64>().powf(2.0 / p);
                let curvature = at.curvature(&h);
                assert!(curvature >= (p - 1.0) / (2.0 * a) * norm, "{p} {a}: {curvature} {norm}");
                let third =
                    (psi.derivatives(&moved(e)).curvature(&h) - psi.derivatives(&moved(-e)).curvature(&h)) / (2.0 * e);
                assert!(third.abs() <= 2.0 * curvature.powf(1.5), "{p} {a}: {third} {curvature}");
            }
        }
    }
}

/// KL(π_x‖π_x') = ψ(x') − ψ(x) − ⟨x' − x, ∇ψ(x)⟩, the left side on a grid.
#[test]
fn divergences_are_bregman() {
    let psi = quartic(2);
    let mut random = Lcg::new(5);
    for _ in 0..3 {
        let [x, other] = [0; 2].map(|_| [random.normal(), random.normal()]);
        let at = psi.derivatives(&x);
        let move_along: f64 = at.gradient.iter().zip(other.iter().zip(&x)).map(|(g, (o, x))| g * (o - x)).sum();
        let bregman = psi.value(&other) - at.value - move_along;
        let ln = |y: [f64; 2], x: [f64; 2], value: f64| {
            x[0] * y[0] + x[1] * y[1] - (y[0].powi(4) + y[1].powi(4)).sqrt() - value
        };
        let (cells, end) = (1200, 9.0);
        let step = 2.0 * end / f64::from(cells);
        let at_cell = |i: i32| -end + step * (f64::from(i) + 0.5);
        let other_value = psi.value(&other);
        let mut divergence = 0.0;
        for i in 0..cells {
            for j in 0..cells {
                let y = [at_cell(i), at_cell(j)];
                let here = ln(y, x, at.value);
                divergence += here.exp() * (here - ln(y, other, other_value)) * step * step;
            }
        }
        assert!((divergence - bregman).abs() < 1e-5, "{divergence} {bregman}");
    }
}

/// Moments on a grid: 1.19580, −.73799, variance .53244. The source's λ gives about (.61, −.36) and .375.
#[test]
fn draws_have_the_moments_of_the_family_and_untilted_ones_do_not() {
    let psi = quartic(2);
    let x = [2.0, -1.0];
    let at = psi.derivatives(&x);
    assert!((at.gradient[0] - 1.195_80).abs() < 1e-5 && (at.gradient[1] + 0.737_99).abs() < 1e-5);
    assert!((at.curvature(&[1.0, 0.0]) - 0.532_44).abs() < 1e-5);
    let mut stream = stream(1);
    let n = 40_000;
    let family = psi.family(&x);
    let tilted: Vec<Vec<f64>> = (0..n).map(|_| family.draw(&mut stream)).collect();
    let untilted: Vec<Vec<f64>> = (0..n).map(|_| untilted_draw(&x, 4.0, &mut stream)).collect();
    let statistics: [(&dyn Fn(&[f64]) -> f64, f64); 3] =
        [(&|y| y[0], 1.195_80), (&|y| y[1], -0.737_99), (&|y| (y[0] - 1.195_80).powi(2), 0.532_44)];
    // 5.5 standard errors: a true law fails with probability 4e-8
    for (of, exact) in statistics {
        let (mean, error) = moment(&tilted, of);
        assert!((mean - exact).abs() < 5.5 * error, "{mean} {exact} {error}");
        let (mean, error) = moment(&untilted, of);
        assert!((mean - exact).abs() > 5.5 * error, "untilted: {mean} {exact}");
    }
    assert!((moment(&untilted, |y| y[0]).0 - 0.61).abs() < 0.03);
    // and the whole marginal, from a grid
    let marginal = Tabulated::new(
        |y| {
            let inner = (-900..900).map(|i| {
                let z = 0.01 * f64::from(i);
                2.0 * y - z - (y.powi(4) + z.powi(4)).sqrt()
            });
            dpopt_privacy::special::log_sum_exp(inner)
        },
        -7.0,
        9.0,
        1600,
    );
    let mut first: Vec<f64> = tilted.iter().map(|y| y[0]).collect();
    kolmogorov(&mut first, |y| marginal.cdf(y));
    let mut first: Vec<f64> = untilted.iter().map(|y| y[0]).collect();
    assert!(kolmogorov_distance(&mut first, |y| marginal.cdf(y)) > 2.0 * kolmogorov_limit(n));
}

/// At x = 0 the square norm a‖y‖_q² is Gamma(d/2) for every q. Without the tilt its mean at d = 10, q = 4 is 1.70 in place of 5.
#[test]
fn radii_at_zero_are_gamma() {
    let mut stream = stream(2);
    let n = 4_000;
    for (d, p, a) in [(10, 4.0 / 3.0, 1.0), (3, 1.5, 0.01), (2, 1.1, 1.0), (4, 1.9, 5.0), (5, 2.0, 0.3)] {
        let psi = LogLaplace::new(d, p, a).unwrap();
        let zero = vec![0.0; d];
        let family = psi.family(&zero);
        let cdf = |r: f64| ln_lower_gamma(0.5 * d as f64, r).exp();
        let q = p / (p - 1.0);
        let mut by_mixture: Vec<f64> = (0..n).map(|_| a * square_norm(&family.draw(&mut stream), q)).collect();
        kolmogorov(&mut by_mixture, cdf);
        let mut direct: Vec<f64> = (0..n).map(|_| a * square_norm(&psi.draw_at_zero(&mut stream), q)).collect();
        kolmogorov(&mut direct, cdf);
    }
    let untilted: Vec<Vec<f64>> = (0..n).map(|_| untilted_draw(&[0.0; 10], 4.0, &mut stream)).collect();
    let mut radii: Vec<f64> = untilted.iter().map(|y| square_norm(y, 4.0)).collect();
    let distance = kolmogorov_distance(&mut radii, |r| ln_lower_gamma(5.0, r).exp());
    assert!(distance > 2.0 * kolmogorov_limit(n), "{distance}");
    let (mean, error) = moment(&untilted, |y| square_norm(y, 4.0));
    assert!((mean - 1.6977).abs() < 5.5 * error, "{mean} {error}");
}

#[test]
fn ranges() {
    // p = 1.5, radius 1
    for (d, a, least, printed) in [
        (10, 0.01, 38.204, 1043.1),
        (100, 1e-4, 2744.94, 90521.0),
        (100, 1.0, 7.1796, f64::NAN),
        (2, 1.0, 1.0044, f64::NAN),
    ] {
        assert!((range(d, a) / least - 1.0).abs() < 2e-5, "{d} {a}: {}", range(d, a));
        assert!(printed.is_nan() || (printed_range(d, a) / printed - 1.0).abs() < 1e-4);
        assert!(printed_range(d, a) > range(d, a));
    }
    let theta = |d, a| 2.0 * a / 0.5 * range(d, a);
    assert!((theta(10, 0.01) - 1.5282).abs() < 1e-4 && (theta(100, 1e-4) - 1.0980).abs() < 1e-4);
    assert!((theta(100, 1.0) - 28.72).abs() < 0.005);
    // not homogeneous: the range falls to 1/(2(p − 1)) = 1 with a
    let falling: Vec<f64> = (0..8).map(|k| theta(10, 0.1f64.powi(k))).collect();
    assert!(falling.windows(2).all(|w| w[1] < w[0]) && (falling[7] - 1.0).abs() < 1e-2, "{falling:?}");
    // it is a bound: at e_1 and at equal entries of norm 1
    for (d, p, a) in [(2, 1.5, 1.0), (10, 1.5, 0.01), (10, 1.2, 1.0)] {
        let psi = LogLaplace::new(d, p, a).unwrap();
        let mut corner = vec![0.0; d];
        corner[0] = 1.0;
        for x in [corner, vec![(d as f64).powf(-1.0 / p); d]] {
            let rise = psi.value(&x) - psi.at_zero();
            assert!(rise > 0.0 && rise <= range(d, a), "{d} {p} {a}: {rise}");
        }
    }
    for (d, rise) in [(2, 0.328_184), (10, 0.886_167), (100, 4.563_266), (1000, 18.691_004), (10_000, 65.885_822)] {
        assert!((max_norm_rise(d) - rise).abs() < 2e-6, "{d}: {}", max_norm_rise(d));
    }
}
