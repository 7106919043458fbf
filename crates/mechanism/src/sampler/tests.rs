//! Whole chains with certified T against grid integration in one dimension and against exact Gaussians in up to 100.

use super::series::Products;
use super::*;
use crate::sampler::laws::{Tabulated, Terms, kolmogorov};
use dpopt_noise::{NoiseSource, Purpose, Stream};
use dpopt_objective::loss::{sigmoid, softplus};

fn stream(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Sampling, 0)
}

fn certified_steps(step_std: f64, strong_convexity: f64, start_distance: f64, dimension: usize) -> u64 {
    Contraction { step_std, strong_convexity, start_distance, dimension, oscillation: 1e-9 }.steps(1e-6).unwrap()
}

/// A chain against the tabulated law for n = 20, k = 50, μ = .5 on [−6, 6], 13 records + and 7 −.
#[test]
fn a_chain_from_the_minimiser_reaches_the_logistic_target() {
    let sign = |i: usize| if i < 13 { 1.0 } else { -1.0 };
    let potential = Terms {
        dimension: 1,
        count: 20,
        scale: 50.0 / 20.0,
        value: move |i: usize, x: &[f64]| softplus(-sign(i) * x[0]),
        add_subgradient: move |i: usize, x: &[f64], g: &mut [f64]| g[0] -= sign(i) * sigmoid(-sign(i) * x[0]),
    };
    let m = 25.0;
    let law = Tabulated::new(|x| -2.5 * potential.value(&[x]) - 0.5 * m * x * x, -6.0, 6.0, 240_000);
    assert!((law.mean(|x| x) - 0.2007).abs() < 1e-4);
    let deviation = (law.mean(|x| x * x) - law.mean(|x| x).powi(2)).sqrt();
    assert!((deviation - 0.16375).abs() < 1e-5);
    let step_std = (4.0f64 / 12.5).sqrt();
    let steps = certified_steps(step_std, m, 0.01, 1);
    assert!(steps <= 16, "{steps}");
    let chain = Chain {
        steps,
        step_std,
        convexity: m,
        centre: vec![0.0],
        domain: Domain::Box { low: vec![-6.0], high: vec![6.0] },
        // w = y alone would need e^(b) proposals after a long forward step: w is improved
        oracle: Oracle::Convexity(Convexity { slack: 1e-12, reference_distance: 0.05, ..Convexity::default() }),
        grid: 2f64.powi(-40),
    };
    let mut stream = stream(1);
    let mut sample: Vec<f64> =
        (0..8_000).map(|_| chain.run(&potential, &[0.2007], &mut stream).0.unwrap()[0]).collect();
    let mean = sample.iter().sum::<f64>() / 8_000.0;
    assert!((mean - 0.2007).abs() < 5.5 * 0.16375 / 8_000f64.sqrt(), "{mean}");
    kolmogorov(&mut sample, |x| law.cdf(x));
    // E[F + (μ/2)x²] − min ≤ d/k: about half of it here
    let objective = |x: f64| potential.value(&[x]) / 20.0 + 0.25 * x * x;
    let least = (0..4000).map(|i| objective(f64::from(i) * 1e-4)).fold(f64::INFINITY, f64::min);
    let gap = 50.0 * (law.mean(objective) - least);
    assert!((gap - 0.5005).abs() < 1e-3, "{gap}");
}

/// The laws of neighbours (one + becomes −) are at Wasserstein distance at most G_Δ/(nμ): in one dimension by quantiles.
#[test]
fn laws_of_neighbours_are_close() {
    let law = |plus: f64| {
        Tabulated::new(|x| -2.5 * (plus * softplus(-x) + (20.0 - plus) * softplus(x)) - 12.5 * x * x, -6.0, 6.0, 60_000)
    };
    let (a, b) = (law(13.0), law(12.0));
    let quantile = |t: &Tabulated, q: f64| {
        let (mut low, mut high) = (-6.0, 6.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if t.cdf(middle) < q { low = middle } else { high = middle }
        }
        low
    };
    let square: f64 =
        (0..2000).map(|i| (f64::from(i) + 0.5) / 2000.0).map(|q| (quantile(&a, q) - quantile(&b, q)).powi(2)).sum();
    let distance = (square / 2000.0).sqrt();
    assert!(distance <= 1.0 / (20.0 * 0.5) && distance > 0.03, "{distance}");
}

/// Linear losses ⟨s_i, x⟩ plus a quadratic on R^d: N(x_c − mean(s)/μ, I/(kμ)) exactly, the hard instance of the lower bound.
#[test]
fn linear_losses_give_exact_gaussians_up_to_dimension_100() {
    for (dimension, count, chains) in [(1usize, 3usize, 20_000usize), (10, 8, 6_000), (100, 20, 1_000)] {
        let s = move |i: usize, j: usize| ((7 * i + 3 * j + 1) as f64).sin();
        let potential = Terms {
            dimension,
            count,
            scale: 2.0,
            value: move |i: usize, x: &[f64]| x.iter().enumerate().map(|(j, x)| s(i, j) * x).sum(),
            add_subgradient: move |i: usize, _: &[f64], g: &mut [f64]| {
                g.iter_mut().enumerate().for_each(|(j, g)| *g += s(i, j))
            },
        };
        let m = 3.0;
        let mean: Vec<f64> =
            (0..dimension).map(|j| 0.25 - 2.0 * (0..count).map(|i| s(i, j)).sum::<f64>() / m).collect();
        let start = vec![0.0; dimension];
        let distance = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
        let step_std = (1.0f64 / m).sqrt();
        let chain = Chain {
            steps: certified_steps(step_std, m, distance, dimension),
            step_std,
            convexity: m,
            centre: vec![0.25; dimension],
            domain: Domain::Whole { radius: 200.0 },
            oracle: Oracle::Convexity(Convexity { slack: 1e-9, ..Convexity::default() }),
            grid: 2f64.powi(-40),
        };
        check_gaussian(&chain, &potential, &start, &mean, 1.0 / m, chains, dimension as u64);
    }
}

/// Losses ½‖x − s_i‖², without a regulariser and with the parabola of the losses in the oracle: N(mean(s), I/k), which is
/// the Gaussian mechanism for the mean.
#[test]
fn squared_distances_give_exact_gaussians_up_to_dimension_100() {
    for (dimension, count, chains, kept) in
        [(2usize, 4usize, 10_000usize, true), (20, 6, 800, false), (100, 10, 1_000, true)]
    {
        let s = move |i: usize, j: usize| ((5 * i + 2 * j) as f64).cos();
        let potential = Terms {
            dimension,
            count,
            scale: 1.5,
            value: move |i: usize, x: &[f64]| {
                0.5 * x.iter().enumerate().map(|(j, x)| (x - s(i, j)).powi(2)).sum::<f64>()
            },
            add_subgradient: move |i: usize, x: &[f64], g: &mut [f64]| {
                g.iter_mut().zip(x).enumerate().for_each(|(j, (g, x))| *g += x - s(i, j));
            },
        };
        let m = 1.5 * count as f64;
        let mean: Vec<f64> = (0..dimension).map(|j| (0..count).map(|i| s(i, j)).sum::<f64>() / count as f64).collect();
        // without the parabola the oracle accepts e^(−ηm·d/2) of its proposals: a shorter step
        let step_std = if kept { (1.0 / m).sqrt() } else { (1.0 / (m * dimension as f64)).sqrt() };
        let chain = Chain {
            steps: certified_steps(step_std, m, 2.0 * (dimension as f64).sqrt(), dimension),
            step_std,
            convexity: 0.0,
            centre: vec![0.0; dimension],
            domain: Domain::Whole { radius: 200.0 },
            oracle: Oracle::Convexity(Convexity {
                slack: 1e-9,
                loss_convexity: if kept { m } else { 0.0 },
                ..Convexity::default()
            }),
            grid: 2f64.powi(-40),
        };
        check_gaussian(&chain, &potential, &vec![0.5; dimension], &mean, 1.0 / m, chains, 50 + dimension as u64);
    }
}

/// χ² of the distance from the mean, and two linear statistics.
fn check_gaussian(
    chain: &Chain,
    potential: &impl Potential,
    start: &[f64],
    mean: &[f64],
    variance: f64,
    chains: usize,
    seed: u64,
) {
    let mut stream = stream(seed);
    let d = mean.len();
    let sample: Vec<Vec<f64>> = (0..chains).map(|_| chain.run(potential, start, &mut stream).0.unwrap()).collect();
    let scaled = |x: &[f64]| -> Vec<f64> { x.iter().zip(mean).map(|(x, m)| (x - m) / variance.sqrt()).collect() };
    let mut square: Vec<f64> = sample.iter().map(|x| scaled(x).iter().map(|z| z * z).sum()).collect();
    kolmogorov(&mut square, |q| domain::ln_lower_gamma(0.5 * d as f64, 0.5 * q).exp());
    let normal = dpopt_privacy::special::normal_cdf;
    let mut first: Vec<f64> = sample.iter().map(|x| scaled(x)[0]).collect();
    kolmogorov(&mut first, normal);
    let mut all: Vec<f64> = sample.iter().map(|x| scaled(x).iter().sum::<f64>() / (d as f64).sqrt()).collect();
    kolmogorov(&mut all, normal);
}

/// The three oracles in one chain: same target, certified T, total-variation error T·δ_in below what Kolmogorov sees.
#[test]
fn chains_of_all_oracles_agree_with_grid_integration() {
    const A: [f64; 3] = [-0.5, 0.1, 0.9];
    let potential = Terms {
        dimension: 1,
        count: 3,
        scale: 0.5,
        value: |i: usize, x: &[f64]| (x[0] - A[i]).abs(),
        add_subgradient: |i: usize, x: &[f64], g: &mut [f64]| g[0] += if x[0] > A[i] { 1.0 } else { -1.0 },
    };
    let law = Tabulated::new(|x| -0.5 * potential.value(&[x]) - x * x, -6.0, 6.0, 240_000);
    // each n·β·φ_j has slope 1.5
    let series_step = (series::largest_step(1e-7, Products::Prefix) / 2.25).sqrt();
    let ratio_step = (ratio::largest_step(1e-7) / 2.25).sqrt();
    for (seed, (oracle, step_std, chains)) in [
        (Oracle::Convexity(Convexity { slack: 1e-9, ..Convexity::default() }), 0.7, 20_000),
        (Oracle::Ratio, ratio_step, 3_000),
        (Oracle::Series(Products::Prefix), series_step, 400),
    ]
    .into_iter()
    .enumerate()
    {
        let chain = Chain {
            steps: Contraction {
                step_std,
                strong_convexity: 2.0,
                start_distance: 0.5,
                dimension: 1,
                oscillation: 1e-9,
            }
            .steps(1e-3)
            .unwrap(),
            step_std,
            convexity: 2.0,
            centre: vec![0.0],
            domain: Domain::Whole { radius: 100.0 },
            oracle,
            grid: 2f64.powi(-40),
        };
        let mut stream = stream(70 + seed as u64);
        let mut sample: Vec<f64> =
            (0..chains).map(|_| chain.run(&potential, &[0.0], &mut stream).0.unwrap()[0]).collect();
        kolmogorov(&mut sample, |x| law.cdf(x));
    }
}

/// A certificate that takes the utility radius R for the distance to the minimiser is void where the data lie ten R away.
#[test]
fn the_start_distance_is_never_a_hope() {
    let radius = 1.0;
    let honest = Contraction {
        step_std: 0.3,
        strong_convexity: 4.0,
        start_distance: 10.0 * radius,
        dimension: 1,
        oscillation: 0.0,
    };
    let hoping = Contraction { start_distance: radius, ..honest };
    let steps = hoping.steps(1e-2).unwrap();
    assert!(honest.total_variation(steps) > 1e-2);
    // the exact Gaussian chain: target N(10, 1/4) from 0
    let (eta, m) = (0.09f64, 4.0);
    let (mut mean, mut variance) = (0.0, 0.0);
    for _ in 0..steps {
        let shrink = 1.0 / (1.0 + eta * m);
        mean = 10.0 + (mean - 10.0) * shrink;
        variance = (variance + eta) * shrink * shrink + eta * shrink;
    }
    let cdf = |x: f64, mu: f64, v: f64| dpopt_privacy::special::normal_cdf((x - mu) / v.sqrt());
    let apart = (0..4000)
        .map(|i| 8.0 + f64::from(i) * 1e-3)
        .map(|x| (cdf(x, mean, variance) - cdf(x, 10.0, 1.0 / m)).abs())
        .fold(0.0, f64::max);
    assert!(apart > 1e-2, "{apart}");
}

/// The chain of Liu 2024, Algorithm 15: losses |x − c_j|, start N(0, 1), a certified T for 1e-3: mean .1267621 and variance .6168516 of the target by
/// grid, within 5.5 standard errors of a thousand chains.
#[test]
fn a_value_chain_from_a_random_start_has_the_moments_of_its_target() {
    const C: [f64; 4] = [-1.0, 0.2, 0.5, 1.5];
    let potential = Terms {
        dimension: 1,
        count: 4,
        scale: 0.25,
        value: |i: usize, x: &[f64]| (x[0] - C[i]).abs(),
        add_subgradient: |i: usize, x: &[f64], g: &mut [f64]| g[0] += if x[0] > C[i] { 1.0 } else { -1.0 },
    };
    let law = Tabulated::new(|x| -0.25 * potential.value(&[x]) - 0.5 * x * x, -9.0, 9.0, 240_000);
    let (mean, second) = (law.mean(|x| x), law.mean(|x| x * x));
    assert!((mean - 0.126_762_1).abs() < 1e-6 && (second - mean * mean - 0.616_851_6).abs() < 1e-6);
    let facts = ValueFacts {
        lipschitz: 1.0,
        strong_convexity: 1.0,
        total_variation: 1e-3,
        error_per_round: 1e-12,
        products: Products::Prefix,
    };
    let planned = certified_value_chain(&facts).unwrap();
    let chain = Chain {
        steps: planned.steps,
        step_std: planned.step_std,
        convexity: 1.0,
        centre: vec![0.0],
        domain: Domain::Whole { radius: 100.0 },
        oracle: Oracle::Series(Products::Prefix),
        grid: 2f64.powi(-40),
    };
    let mut stream = stream(80);
    let chains = 1000;
    let (mut tally, mut sample) = (Tally::default(), Vec::new());
    for _ in 0..chains {
        let start = stream.standard_normal();
        let (end, cost) = chain.run(&potential, &[start], &mut stream);
        sample.push(end.unwrap()[0]);
        tally.terms += cost.terms;
        tally.values += cost.values;
    }
    let n = f64::from(chains);
    let average = sample.iter().sum::<f64>() / n;
    let spread = sample.iter().map(|x| (x - average).powi(2)).sum::<f64>() / n;
    let fourth = sample.iter().map(|x| (x - average).powi(4)).sum::<f64>() / n;
    assert!((average - mean).abs() < 5.5 * (spread / n).sqrt(), "{average} {mean}");
    assert!((spread - 0.616_851_6).abs() < 5.5 * ((fourth - spread * spread) / n).sqrt() + 1e-3, "{spread}");
    // about two proposals a round, 2(e − 1) values each
    let rounds = n * planned.steps as f64;
    assert!((tally.values as f64 / rounds - 2.0).abs() < 0.02);
    assert!((tally.terms as f64 / rounds / 6.873 - 1.0).abs() < 0.01);
    kolmogorov(&mut sample, |x| law.cdf(x));
}
