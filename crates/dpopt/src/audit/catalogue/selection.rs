//! Bugs of choices: exponential mechanism, noisy maximum, above-threshold, top-k, private tuning, Frank–Wolfe
//! (spec 20 §1.5, §2–§4; spec 17 §8). Sensitivities and score shifts in units of Δ = 1.

use super::{Code, PlantedBug, indicator};
use crate::audit::attack::likelihood;
use crate::audit::draws::Draws;
use crate::audit::library::releases::quantile_choice;
use crate::audit::statistics::Claim;
use crate::mechanism::{Level, QuantileBug, Quantiles};
use dpopt_privacy::Relation;

/// argmax of score + noise.
fn noisy_max(scores: &[f64], mut noise: impl FnMut() -> f64) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (i, s) in scores.iter().enumerate() {
        let noisy = s + noise();
        if noisy > best.1 {
            best = (i, noisy);
        }
    }
    best.0
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

    bugs.push(PlantedBug::counting(
        "20.30",
        "Laplace noise scaled to the l2 instead of the l1 sensitivity (d = 4)",
        "canary (1/2, 1/2, 1/2, 1/2), log-likelihood ratio",
        Claim::pure(1.0),
        (2_500, 4),
        |code, with, draws| {
            // l1 norm 2, l2 norm 1, ε = 1
            let (record, scale) = ([0.5; 4], code.pick(2.0, 1.0));
            let outputs: Vec<f64> = record.iter().map(|r| r * indicator(with) + draws.laplace(scale)).collect();
            likelihood::laplace(&outputs, &record, scale)
        },
    ));

    // D: (0, 2.5), D′: (1, 1.5): both candidates move by Δ, in opposite directions
    let scores = |with: bool| if with { [0.0, 2.5] } else { [1.0, 1.5] };
    bugs.push(PlantedBug::counting(
        "20.31",
        "exponential mechanism with exp(epsilon u / Delta), non-monotone scores",
        "2 candidates, gap 2.5; which one",
        Claim::pure(1.0),
        (1_400, 2),
        move |code, with, draws| {
            let temperature = code.pick(2.0, 1.0);
            noisy_max(&scores(with), || draws.gumbel(temperature)) as f64
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.32",
        "report-noisy-max with Laplace(Delta/epsilon), non-monotone scores",
        "2 candidates, gap 2.5; which one",
        Claim::pure(1.0),
        (2_700, 2),
        move |code, with, draws| {
            let scale = code.pick(2.0, 1.0);
            noisy_max(&scores(with), || draws.laplace(scale)) as f64
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.33",
        "above-threshold never stops (noises 2/epsilon and 4/epsilon, 2 x 20 queries)",
        "blocks at (0, 1) against (1, 0): difference of the numbers above",
        Claim::pure(1.0),
        (1_000, 41),
        |code, with, draws| {
            let (first, second) = if with { (0.0, 1.0) } else { (1.0, 0.0) };
            let queries: Vec<f64> = (0..40).map(|i| if i < 20 { first } else { second }).collect();
            let answers = above_threshold(&queries, 0.5, (2.0, 4.0), code.pick(1, usize::MAX), draws);
            let half = answers.len().min(20);
            count(&answers[half..]) - count(&answers[..half])
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.34",
        "above-threshold without noise on the queries",
        "queries (0, 1) against (1, 0); 1{answers are (below, above)}",
        Claim::pure(1.0),
        (362, 3),
        |code, with, draws| {
            let queries = if with { [0.0, 1.0] } else { [1.0, 0.0] };
            let answers = above_threshold(&queries, 0.0, (2.0, code.pick(4.0, 0.0)), 1, draws);
            indicator(answers == [false, true])
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.35",
        "above-threshold stops after 5 answers but has the noise for 1",
        "20 queries at -4 then 5 at +1, against -3 and 0: above in the last 5 minus half those before",
        Claim::pure(1.0),
        (29_000, 26),
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
        "20.36",
        "the number K of tuning runs is printed (geometric, gamma = .02, epsilon1 = 1)",
        "K if the worse model won, else 0",
        Claim::pure(3.0 * base),
        (45_000, 2),
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
        "20.37",
        "a fixed number K = 20 of tuning runs accounted as a geometric one (epsilon1 = 1)",
        "1{the worse model won}",
        Claim::pure(3.0 * base),
        (8_000, 2),
        move |code, with, draws| {
            let k = match code {
                // the same mean
                Code::Correct => geometric(1.0 / f64::from(steps), draws),
                Code::Planted => f64::from(steps),
            };
            indicator(draws.coin(often(with).powf(k)))
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.38",
        "Frank-Wolfe: the radius 10 is missing in the range of the scores",
        "two vertices with equal scores, one moved; which one",
        Claim::pure(0.1),
        (616, 2),
        |code, with, draws| {
            // range of the scores is 10·C; ε0 = .1
            let range = 10.0;
            let temperature = code.pick(range, 1.0) / 0.1;
            let scores = if with { [range, 0.0] } else { [0.0, 0.0] };
            noisy_max(&scores, || draws.gumbel(temperature)) as f64
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.39",
        "Frank-Wolfe: coordinate by noisy |score|, then the sign of the exact gradient",
        "d = 1, gradient of tiny size; its sign",
        Claim::pure(1.0),
        (40, 2),
        |code, with, draws| {
            let gradient = if with { 1e-9 } else { -1e-9 };
            match code {
                Code::Correct => noisy_max(&[gradient, -gradient], || draws.gumbel(2.0)) as f64,
                Code::Planted => indicator(gradient < 0.0),
            }
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.40",
        "one-shot top-10 with the noise of a single choice",
        "10 candidates raised, 10 lowered; raised ones selected",
        Claim::pure(1.0),
        (421, 20),
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

    let quantile = |planted| {
        let mut one = Quantiles::new(0, vec![Level::thousandths(10)], 1.0, Relation::ZeroOut);
        one.planted_bug = planted;
        one
    };
    let (right, wrong) = (quantile(None), quantile(Some(QuantileBug::FullScore)));
    bugs.push(PlantedBug::counting(
        "17.quantile",
        "private quantile by exp(epsilon u) instead of exp(epsilon u / 2), on the library's own code",
        "a record below two grid points on either side of the 1% rank; which one",
        Claim::pure(1.0),
        (1_800, 20),
        move |code, with, draws| quantile_choice(code.pick(&right, &wrong), with, draws),
    ));
    bugs
}
