//! Bugs of choices: exponential mechanism, noisy maximum, above-threshold, top-k, private tuning, Frank–Wolfe
//! (spec 20 §1.5, §2–§4; spec 17 §8). Sensitivities and score shifts in units of Δ = 1.

use super::Source::{Altered, Shipped, StandIn};
use super::{Code, PlantedBug};
use crate::audit::attack::likelihood;
use crate::audit::draws::Draws;
use crate::audit::statistics::Claim;
use crate::audit::worst_cases::choices::{low_quantile, quantile_choice};
use crate::audit::worst_cases::indicator;
use dpopt_noise::{ExponentialChoice, Grid, NoisyMax, RoundedLaplace};

/// Which of the integer scores the exponential mechanism chooses; NaN if the parameters are out of range.
fn chosen(choice: &Option<ExponentialChoice>, scores: &[i64], draws: &mut Draws) -> f64 {
    choice.as_ref().and_then(|c| c.choose(scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
}

/// Above-threshold at threshold `t`: answers until `stop` of them are above.
fn above_threshold(queries: &[f64], t: f64, noises: (f64, f64), stop: usize, draws: &mut Draws) -> Vec<bool> {
    let level = t + draws.laplace(noises.0);
    let mut answers = Vec::with_capacity(queries.len());
    let mut above = 0;
    for q in queries {
        let noise = if noises.1 > 0.0 { draws.laplace(noises.1) } else { 0.0 };
        answers.push(q + noise >= level);
        above += usize::from(q + noise >= level);
        if above == stop {
            break;
        }
    }
    answers
}

fn count(answers: &[bool]) -> f64 {
    answers.iter().map(|&a| indicator(a)).sum()
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let mut bugs = Vec::new();

    // l1 norm 2, l2 norm 1, ε = 1
    let grid = Grid::new(-20);
    let (right, wrong) = (RoundedLaplace::new(2.0, grid).ok(), RoundedLaplace::new(1.0, grid).ok());
    bugs.push(PlantedBug::counting(
        (
            "20.30",
            Shipped,
            "Laplace noise scaled to the l2 instead of the l1 sensitivity (d = 4)",
            "canary (1/2, 1/2, 1/2, 1/2), log-likelihood ratio",
        ),
        Claim::pure(1.0),
        (2_500, 500),
        move |code, with, draws| {
            let Some(noise) = code.pick(&right, &wrong) else { return f64::NAN };
            let outputs = [0.5; 4].map(|r| r * indicator(with) + grid.to_f64(noise.sample(draws.noise())));
            likelihood::laplace(&outputs, &[0.5; 4], code.pick(2.0, 1.0))
        },
    ));

    // Δ = 2: D (0, 5), D′ (2, 3): both candidates move by Δ, in opposite directions, which a monotone score can't
    let scores = |with: bool| if with { [0, 5] } else { [2, 3] };
    let (right, wrong) = (ExponentialChoice::new(1.0, 2, false).ok(), ExponentialChoice::new(1.0, 2, true).ok());
    bugs.push(PlantedBug::counting(
        (
            "20.31",
            Shipped,
            "exponential mechanism with exp(epsilon u / Delta), non-monotone scores",
            "2 candidates, gap 2.5; which one",
        ),
        Claim::pure(1.0),
        (1_400, 300),
        move |code, with, draws| chosen(code.pick(&right, &wrong), &scores(with), draws),
    ));

    let (right, wrong) = (NoisyMax::new(1.0, 2, false).ok(), NoisyMax::new(1.0, 2, true).ok());
    bugs.push(PlantedBug::counting(
        (
            "20.32",
            Shipped,
            "report-noisy-max with half the noise, non-monotone scores",
            "2 candidates, gap 2.5; which one",
        ),
        Claim::pure(1.0),
        (1_000, 300),
        move |code, with, draws| {
            let choice = code.pick(&right, &wrong).as_ref();
            choice.and_then(|c| c.choose(scores(with), draws.noise())).map_or(f64::NAN, |i| i as f64)
        },
    ));

    bugs.push(PlantedBug::counting(
        (
            "20.33",
            StandIn,
            "above-threshold never stops (noises 2/epsilon and 4/epsilon, 2 x 20 queries)",
            "blocks at (0, 1) against (1, 0): difference of the numbers above",
        ),
        Claim::pure(1.0),
        (1_000, 800),
        |code, with, draws| {
            let (first, second) = if with { (0.0, 1.0) } else { (1.0, 0.0) };
            let queries: Vec<f64> = (0..40).map(|i| if i < 20 { first } else { second }).collect();
            let answers = above_threshold(&queries, 0.5, (2.0, 4.0), code.pick(1, usize::MAX), draws);
            let half = answers.len().min(20);
            count(&answers[half..]) - count(&answers[..half])
        },
    ));

    bugs.push(PlantedBug::counting(
        (
            "20.34",
            StandIn,
            "above-threshold without noise on the queries",
            "queries (0, 1) against (1, 0); 1{answers are (below, above)}",
        ),
        Claim::pure(1.0),
        (362, 80),
        |code, with, draws| {
            let queries = if with { [0.0, 1.0] } else { [1.0, 0.0] };
            let answers = above_threshold(&queries, 0.0, (2.0, code.pick(4.0, 0.0)), 1, draws);
            indicator(answers == [false, true])
        },
    ));

    bugs.push(PlantedBug::counting(
        (
            "20.35",
            StandIn,
            "above-threshold stops after 5 answers but has the noise for 1",
            "20 queries at -4 then 5 at +1, against -3 and 0: above in the last 5 minus half those before",
        ),
        Claim::pure(1.0),
        (29_000, 800),
        |code, with, draws| {
            let (low, high) = if with { (-4.0, 1.0) } else { (-3.0, 0.0) };
            let queries: Vec<f64> = (0..25).map(|i| if i < 20 { low } else { high }).collect();
            let answers = above_threshold(&queries, 0.0, (2.0, 4.0), code.pick(1, 5), draws);
            let before = answers.len().min(20);
            // an exact tie-break between equal counts, and a weight near the likelihood ratio's
            count(&answers[before..]) - 0.55 * count(&answers[..before])
        },
    ));

    // base mechanism: the better model is found with probability .05 against 1 − .95, moved by a factor e^{ε1}, ε1 = 1;
    // both (1−p)/(1−p′) and p/p′ stay within e
    let (base, steps) = (1.0f64, 20);
    let worse = move |with: bool| if with { 0.95 } else { 1.0 - 0.05 * base.exp() };
    let geometric = |gamma: f64, draws: &mut Draws| (draws.uniform().ln() / (-gamma).ln_1p()).floor() + 1.0;
    bugs.push(PlantedBug::counting(
        (
            "20.36",
            StandIn,
            "the number K of tuning runs is printed (geometric, gamma = .02, epsilon1 = 1)",
            "K if the worse model won, else 0",
        ),
        Claim::pure(3.0 * base),
        (45_000, 60),
        move |code, with, draws| {
            let k = geometric(0.02, draws);
            // all K runs gave the worse model
            let lost = draws.coin(worse(with).powf(k));
            // the correct code shows the winner only
            if lost { code.pick(1.0, k) } else { 0.0 }
        },
    ));

    let often = move |with: bool| if with { 0.9 } else { 1.0 - 0.1 * base.exp() };
    bugs.push(PlantedBug::counting(
        (
            "20.37",
            StandIn,
            "a fixed number K = 20 of tuning runs accounted as a geometric one (epsilon1 = 1)",
            "1{the worse model won}",
        ),
        Claim::pure(3.0 * base),
        (8_000, 60),
        move |code, with, draws| {
            let k = match code {
                // the same mean
                Code::Correct => geometric(1.0 / f64::from(steps), draws),
                Code::Planted => f64::from(steps),
            };
            indicator(draws.coin(often(with).powf(k)))
        },
    ));

    // ε0 = .1, scores in units of C: their range is the radius 10
    let (right, wrong) = (ExponentialChoice::new(0.1, 10, true).ok(), ExponentialChoice::new(0.1, 1, true).ok());
    bugs.push(PlantedBug::counting(
        (
            "20.38",
            Shipped,
            "Frank-Wolfe: the radius 10 is missing in the range of the scores",
            "two vertices with equal scores, one moved; which one",
        ),
        Claim::pure(0.1),
        (616, 300),
        move |code, with, draws| chosen(code.pick(&right, &wrong), if with { &[10, 0] } else { &[0, 0] }, draws),
    ));

    // a tiny gradient: 1 of 10^9 units of Δ
    let vertices = ExponentialChoice::new(1.0, 1_000_000_000, false).ok();
    bugs.push(PlantedBug::counting(
        (
            "20.39",
            Altered,
            "Frank-Wolfe: coordinate by noisy |score|, then the sign of the exact gradient",
            "d = 1, gradient of tiny size; its sign",
        ),
        Claim::pure(1.0),
        (40, 300),
        move |code, with, draws| {
            let gradient = if with { 1 } else { -1 };
            match code {
                Code::Correct => chosen(&vertices, &[gradient, -gradient], draws),
                Code::Planted => indicator(gradient < 0),
            }
        },
    ));

    bugs.push(PlantedBug::counting(
        (
            "20.40",
            StandIn,
            "one-shot top-10 with the noise of a single choice",
            "10 candidates raised, 10 lowered; raised ones selected",
        ),
        Claim::pure(1.0),
        (421, 800),
        |code, with, draws| {
            let scale = code.pick(20.0, 2.0);
            let mut noisy: Vec<(f64, bool)> = (0..20)
                .map(|i| {
                    let raised = i < 10;
                    (indicator(raised == with) + draws.gumbel(scale), raised)
                })
                .collect();
            noisy.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            noisy[..10].iter().filter(|(_, raised)| *raised).count() as f64
        },
    ));

    let (right, wrong) = (low_quantile(1.0), low_quantile(2.0));
    bugs.push(PlantedBug::counting(
        (
            "17.quantile",
            Shipped,
            "private quantile by exp(epsilon u) instead of exp(epsilon u / 2)",
            "a record below two grid points on either side of the 1% rank; which one",
        ),
        Claim::pure(1.0),
        (1_800, 25_000),
        move |code, with, draws| quantile_choice(code.pick(&right, &wrong), with, draws),
    ));
    bugs
}
