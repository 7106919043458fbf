//! Each oracle against the law it must have, by grid integration in one and two dimensions.

use super::series::Products;
use super::*;
use crate::sampler::laws::{Tabulated, Terms, kolmogorov, kolmogorov_distance, kolmogorov_limit};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::loss::{sigmoid, softplus};

fn stream(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Sampling, 0)
}

/// `count` draws of one oracle at one y in one dimension, m = 1 around 0 on all of R unless a test sets another.
struct Setting {
    convexity: f64,
    centre: f64,
    eta: f64,
    y: f64,
}

impl Setting {
    fn draws(&self, potential: &impl Potential, oracle: &Oracle, count: usize, seed: u64) -> (Vec<f64>, Tally) {
        let mut stream = stream(seed);
        let mut tally = Tally::default();
        let prox = Proximal {
            potential,
            convexity: self.convexity,
            centre: &[self.centre],
            domain: &Domain::Whole { radius: 1e6 },
            inverse_eta: Wide::from(1.0 / self.eta),
            grid: 2f64.powi(-30),
        };
        let mut x = [Wide::default()];
        let sample = (0..count)
            .map(|_| {
                prox.draw(oracle, &[Wide::from(self.y)], &mut x, &mut stream, &mut tally).unwrap();
                x[0].rounded()
            })
            .collect();
        (sample, tally)
    }

    fn law(&self, potential: &impl Potential, more: impl Fn(f64) -> f64) -> Tabulated {
        let ln = |x: f64| {
            -potential.scale() * potential.value(&[x])
                - 0.5 * self.convexity * (x - self.centre).powi(2)
                - (x - self.y).powi(2) / (2.0 * self.eta)
                + more(x)
        };
        Tabulated::new(ln, -6.0, 6.0, 240_000)
    }
}

fn follows(mut sample: Vec<f64>, law: &Tabulated) {
    kolmogorov(&mut sample, |x| law.cdf(x));
}

/// The potential (1/4)Σ|x − a_i|, which has corners.
fn distances() -> impl Potential {
    const A: [f64; 4] = [-1.0, 0.2, 0.5, 2.0];
    Terms {
        dimension: 1,
        count: 4,
        scale: 0.25,
        value: |i: usize, x: &[f64]| (x[0] - A[i]).abs(),
        add_subgradient: |i: usize, x: &[f64], g: &mut [f64]| g[0] += if x[0] > A[i] { 1.0 } else { -1.0 },
    }
}

fn logistic(scale: f64) -> impl Potential {
    // 13 records +, 7 records −
    let sign = |i: usize| if i < 13 { 1.0 } else { -1.0 };
    Terms {
        dimension: 1,
        count: 20,
        scale,
        value: move |i: usize, x: &[f64]| softplus(-sign(i) * x[0]),
        add_subgradient: move |i: usize, x: &[f64], g: &mut [f64]| g[0] -= sign(i) * sigmoid(-sign(i) * x[0]),
    }
}

#[test]
fn exact_rejection_has_the_law_whatever_the_step() {
    for (seed, eta) in [0.02, 0.5, 3.0].into_iter().enumerate() {
        let setting = Setting { convexity: 1.0, centre: 0.3, eta, y: 1.5 };
        for (k, slack) in [1e-6, 0.5].into_iter().enumerate() {
            let oracle = Oracle::Convexity(Convexity { slack, ..Convexity::default() });
            let (sample, tally) = setting.draws(&distances(), &oracle, 10_000, (10 * seed + k) as u64);
            follows(sample, &setting.law(&distances(), |_| 0.0));
            assert!(!tally.not_convex);
            // references that are improved are as exact; they improve where ηβ_s < 1
            if eta < 0.1 {
                let better = Oracle::Convexity(Convexity { slack, reference_distance: 1e-3, ..Convexity::default() });
                let (sample, _) = setting.draws(&logistic(2.0), &better, 10_000, (10 * seed + k + 5) as u64);
                follows(sample, &setting.law(&logistic(2.0), |_| 0.0));
            }
        }
    }
}

#[test]
fn ratios_and_series_have_their_laws_at_the_steps_their_bounds_allow() {
    // g_0 = 1 for each f_j = n·β·φ_j = |x − a_j|
    let v = ratio::largest_step(1e-6);
    let setting = Setting { convexity: 1.0, centre: 0.0, eta: v, y: 0.3 };
    let (sample, _) = setting.draws(&distances(), &Oracle::Ratio, 40_000, 1);
    follows(sample, &setting.law(&distances(), |_| 0.0));
    // values of single terms per proposal: 2(e − 1) with prefixes, 2e without; about half of the proposals are accepted
    for (seed, products, terms) in
        [(2, Products::Prefix, 2.0 * (1f64.exp() - 1.0)), (4, Products::Fresh, 2.0 * 1f64.exp())]
    {
        let v = series::largest_step(1e-6, products);
        let setting = Setting { convexity: 1.0, centre: 0.0, eta: v, y: 0.3 };
        let (sample, tally) = setting.draws(&distances(), &Oracle::Series(products), 40_000, seed);
        follows(sample, &setting.law(&distances(), |_| 0.0));
        // 5 standard deviations
        let per_proposal = tally.terms as f64 / tally.values as f64;
        assert!((per_proposal - terms).abs() < 0.12, "{per_proposal}");
        let acceptance = 40_000.0 / tally.values as f64;
        assert!((acceptance - 0.5).abs() < 0.02, "{acceptance}");
    }
}

#[test]
fn a_step_fifty_times_too_long_for_the_series_shows_in_its_law() {
    // the bias is silent: nothing but the formula for η stands against it
    let setting =
        Setting { convexity: 1.0, centre: 0.0, eta: 50.0 * series::largest_step(1e-6, Products::Prefix), y: 1.5 };
    let oracle = Oracle::Series(Products::Prefix);
    let (mut sample, _) = setting.draws(&distances(), &oracle, 200_000, 3);
    let law = setting.law(&distances(), |_| 0.0);
    let distance = kolmogorov_distance(&mut sample, |x| law.cdf(x));
    assert!(distance > 1.5 * kolmogorov_limit(200_000), "{distance}");
    assert!(series::total_variation(setting.eta, Products::Prefix) > 0.1);
}

/// f = 6|x − .4| + 2x², whose parabola the lower bound keeps: its centre is w. With x_c in its place b stays non-negative,
/// so no check fires, but the law is another one.
#[test]
fn the_parabola_of_strongly_convex_losses_is_centred_at_the_reference() {
    let corner = Terms {
        dimension: 1,
        count: 1,
        scale: 1.0,
        value: |_: usize, x: &[f64]| 6.0 * (x[0] - 0.4).abs() + 2.0 * x[0] * x[0],
        add_subgradient: |_: usize, x: &[f64], g: &mut [f64]| g[0] += 6.0 * (x[0] - 0.4).signum() + 4.0 * x[0],
    };
    let setting = Setting { convexity: 0.0, centre: 1.0, eta: 0.1, y: 0.2 };
    let law = setting.law(&corner, |_| 0.0);
    let oracle = Oracle::Convexity(Convexity { slack: 1e-6, loss_convexity: 4.0, ..Convexity::default() });
    let (sample, tally) = setting.draws(&corner, &oracle, 40_000, 4);
    follows(sample, &law);
    assert!(!tally.not_convex);
    // the injected fault by hand: c = (4·x_c + y/η − g_w)/Λ at w = −.3
    let (w, g, precision) = (-0.3f64, -6.0 - 1.2, 14.0f64);
    let c = (4.0 + 2.0 - g) / precision;
    let value = |x: f64| 6.0 * (x - 0.4).abs() + 2.0 * x * x;
    let mut random = stream(5);
    let mut wrong: Vec<f64> =
        std::iter::repeat_with(|| c + random.standard_normal() / precision.sqrt()).take(200_000).collect();
    let mut coin = stream(6);
    wrong.retain(|&x| {
        let b = value(x) - value(w) - g * (x - w) - 2.0 * (x - w).powi(2);
        assert!(b >= -1e-12); // 0 up to rounding on w's side of the corner
        coin.bernoulli_exp(b)
    });
    let n = wrong.len();
    assert!(n > 2_000 && kolmogorov_distance(&mut wrong, |x| law.cdf(x)) > 2.0 * kolmogorov_limit(n));
}

#[test]
fn a_loss_that_is_not_convex_trips_the_oracle() {
    let waves = Terms {
        dimension: 1,
        count: 1,
        scale: 20.0,
        value: |_: usize, x: &[f64]| x[0].cos(),
        add_subgradient: |_: usize, x: &[f64], g: &mut [f64]| g[0] -= x[0].sin(),
    };
    let setting = Setting { convexity: 1.0, centre: 0.0, eta: 1.0, y: 0.2 };
    let (_, tally) = setting.draws(&waves, &Oracle::Convexity(Convexity::default()), 10, 7);
    assert!(tally.not_convex);
}

#[test]
fn caps_are_kept_and_constant_time_evaluates_them_all() {
    let setting = Setting { convexity: 1.0, centre: 0.0, eta: 0.5, y: 1.0 };
    let all = Convexity {
        proposals: Some(40),
        constant_time: true,
        references: 3,
        reference_distance: 1.0,
        ..Convexity::default()
    };
    let (sample, tally) = setting.draws(&distances(), &Oracle::Convexity(all), 5_000, 8);
    assert_eq!((tally.values, tally.gradients), (40 * 5_000, 3 * 5_000));
    follows(sample, &setting.law(&distances(), |_| 0.0));
    // a slack of 100 accepts nothing: the oracle says so after its cap
    let never = Convexity { slack: 100.0, proposals: Some(3), ..Convexity::default() };
    let potential = distances();
    let prox = Proximal {
        potential: &potential,
        convexity: 1.0,
        centre: &[0.0],
        domain: &Domain::Whole { radius: 1e6 },
        inverse_eta: Wide::from(2.0),
        grid: 2f64.powi(-30),
    };
    let mut tally = Tally::default();
    let mut x = [Wide::from(7.0)];
    assert_eq!(
        prox.draw(&Oracle::Convexity(never), &[Wide::from(1.0)], &mut x, &mut stream(9), &mut tally),
        Err(Exhausted)
    );
    assert_eq!((tally.values, x[0].rounded()), (3, 7.0));
}

/// L1 losses on a disk in two dimensions: marginals and the angle by integration over a grid.
#[test]
fn exact_rejection_on_a_disk() {
    const A: [[f64; 2]; 3] = [[1.0, 0.3], [-0.4, 0.9], [0.2, -1.0]];
    let potential = Terms {
        dimension: 2,
        count: 3,
        scale: 2.0,
        value: |i: usize, x: &[f64]| (A[i][0] * x[0] + A[i][1] * x[1] - 0.5).abs(),
        add_subgradient: |i: usize, x: &[f64], g: &mut [f64]| {
            let sign = (A[i][0] * x[0] + A[i][1] * x[1] - 0.5).signum();
            g[0] += sign * A[i][0];
            g[1] += sign * A[i][1];
        },
    };
    let (m, eta, y, radius) = (0.7, 0.3, [0.9, 0.4], 1.0);
    let prox = Proximal {
        potential: &potential,
        convexity: m,
        centre: &[0.1, -0.2],
        domain: &Domain::Ball { radius },
        inverse_eta: Wide::from(1.0 / eta),
        grid: 2f64.powi(-30),
    };
    let mut stream = stream(10);
    let mut tally = Tally::default();
    let mut x = [Wide::default(); 2];
    let oracle = Oracle::Convexity(Convexity::default());
    let sample: Vec<[f64; 2]> = (0..30_000)
        .map(|_| {
            prox.draw(&oracle, &y.map(Wide::from), &mut x, &mut stream, &mut tally).unwrap();
            [x[0].rounded(), x[1].rounded()]
        })
        .collect();
    let ln = |a: f64, b: f64| {
        if a * a + b * b > radius * radius {
            return f64::NEG_INFINITY;
        }
        -2.0 * potential.value(&[a, b])
            - 0.5 * m * ((a - 0.1).powi(2) + (b + 0.2).powi(2))
            - ((a - y[0]).powi(2) + (b - y[1]).powi(2)) / (2.0 * eta)
    };
    // weights of the cells of a 1200 × 1200 grid, as a weighted sample for any statistic
    let cells = 1200;
    let at = |i: usize| -radius + 2.0 * radius * (i as f64 + 0.5) / cells as f64;
    for statistic in
        [|p: [f64; 2]| p[0], |p: [f64; 2]| p[1], |p: [f64; 2]| p[0].hypot(p[1]), |p: [f64; 2]| p[1].atan2(p[0] + 0.9)]
    {
        let mut table: Vec<(f64, f64)> = (0..cells * cells)
            .map(|i| {
                let p = [at(i / cells), at(i % cells)];
                (statistic(p), ln(p[0], p[1]).exp())
            })
            .filter(|c| c.1 > 0.0)
            .collect();
        table.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = table.iter().map(|c| c.1).sum();
        let mut sum = 0.0;
        let steps: Vec<(f64, f64)> = table
            .iter()
            .map(|c| {
                sum += c.1 / total;
                (c.0, sum)
            })
            .collect();
        let mut values: Vec<f64> = sample.iter().map(|&p| statistic(p)).collect();
        let distance = kolmogorov_distance(&mut values, |v| match steps.partition_point(|s| s.0 < v) {
            0 => 0.0,
            i => steps[i - 1].1,
        });
        // the grid itself is good to about one of its 1200 columns
        assert!(distance < kolmogorov_limit(30_000) + 2e-3, "{distance}");
    }
}
