//! Faults of above-threshold and of private search (docs/proofs/above-threshold.md, docs/proofs/private-search.md), made around the shipped stream and the shipped
//! choice of the best run.
//!
//! Covers: thesis algorithm 27, algorithm 34 (20.34, 20.redrawn, 20.monotone)
//! Covers: thesis algorithm 41 (20.33, 20.35)
//! Covers: sparse-v2 algorithm 5 (20.36, 20.37)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::comparisons::{answers, only_the_last, plan, redrawn, then_one_above};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_draws::Repetitions;
use dpopt_mechanism::{AboveThreshold, AssumedRun, AssumedSearch, CuratorError, RunScore, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;

fn count(answers: &[bool]) -> f64 {
    answers.iter().map(|&a| indicator(a)).sum()
}

/// A plan for ε = 1 and one answer "above", and the same with a wrong end.
fn ending_after(cutoff: u64) -> Option<[AboveThreshold; 2]> {
    let right = plan(false).ok()?;
    let wrong = past_the_curator::ending_after(right.clone(), cutoff);
    Some([right, wrong])
}

fn streams() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();
    let plans = ending_after(u64::MAX);
    bugs.push(InjectedFault::counting(
        (
            "20.33",
            Shipped,
            "above-threshold never stops (noise for one answer above, 2 x 20 queries)",
            "blocks at (0, 1) against (1, 0): difference of the numbers above",
        ),
        Claim::pure(1.0),
        (724, 6_000),
        move |code, with, draws| {
            let Some(plans) = &plans else { return f64::NAN };
            let (first, second) = if with { (0, 1) } else { (1, 0) };
            let queries: Vec<i64> = (0..40).map(|i| if i < 20 { first } else { second }).collect();
            let answers = answers(&plans[code.pick(0, 1)], &queries, draws);
            let half = answers.len().min(20);
            count(&answers[half..]) - count(&answers[..half])
        },
    ));

    let right = plan(false).ok();
    bugs.push(InjectedFault::counting(
        (
            "20.34",
            Altered,
            "above-threshold without noise on the queries",
            "queries (0, 1) against (1, 0); 1{answers are (below, above)}",
        ),
        Claim::pure(1.0),
        (450, 1_500),
        move |code, with, draws| {
            let Some(plan) = &right else { return f64::NAN };
            let queries = if with { [0, 1] } else { [1, 0] };
            let answers = match code {
                Code::Correct => answers(plan, &queries, draws),
                Code::Injected => {
                    let level = draws.laplace(plan.threshold_scale());
                    let first = queries[0] as f64 >= level;
                    if first { vec![true] } else { vec![false, queries[1] as f64 >= level] }
                }
            };
            indicator(answers == [false, true])
        },
    ));

    let plans = ending_after(5);
    bugs.push(InjectedFault::counting(
        (
            "20.35",
            Shipped,
            "above-threshold stops after 5 answers but has the noise for 1",
            "20 queries at -4 then 5 at +1, against -3 and 0: above in the last 5 minus half those before",
        ),
        Claim::pure(1.0),
        (12_700, 4_000),
        move |code, with, draws| {
            let Some(plans) = &plans else { return f64::NAN };
            let (low, high) = if with { (-4, 1) } else { (-3, 0) };
            let queries: Vec<i64> = (0..25).map(|i| if i < 20 { low } else { high }).collect();
            let answers = answers(&plans[code.pick(0, 1)], &queries, draws);
            let before = answers.len().min(20);
            // an exact tie-break between equal counts, and a weight near the likelihood ratio's
            count(&answers[before..]) - 0.55 * count(&answers[..before])
        },
    ));

    // counts under zero-out: the record moves all of them the same way
    let monotone = plan(true).ok();
    bugs.push(InjectedFault::counting(
        (
            "20.redrawn",
            Shipped,
            "the threshold's noise is drawn again for every query",
            "10 queries at -1 against 0; how many are below before the first is above",
        ),
        Claim::pure(1.0),
        (21_300, 3_000),
        move |code, with, draws| {
            let Some(plan) = &monotone else { return f64::NAN };
            let queries = [-i64::from(with); 10];
            let answers = match code {
                Code::Correct => answers(plan, &queries, draws),
                Code::Injected => redrawn(plan, &queries, draws),
            };
            answers.iter().filter(|&&above| !above).count() as f64
        },
    ));

    let plans = plan(false).ok().zip(plan(true).ok());
    bugs.push(InjectedFault::counting(
        (
            "20.monotone",
            Shipped,
            "above-threshold with the noise of monotone counts for counts that are not",
            "5 queries go down by 1 and the last up by 1; 1{only the last is above}",
        ),
        Claim::pure(1.0),
        (27_000, 2_000),
        move |code, with, draws| {
            let Some((right, wrong)) = &plans else { return f64::NAN };
            let answers = answers(code.pick(right, wrong), &then_one_above(with, 5, 1), draws);
            indicator(only_the_last(&answers, 6))
        },
    ));
    bugs
}

/// Private search among two models: a run finds the worse one with a probability that the record moves.
struct Search {
    event: Event,
    law: Option<Repetitions>,
}

impl Search {
    /// ε₁ = 1 per run and a geometric number of runs: 3 in all.
    fn new(mean: f64) -> Self {
        let run = Box::new(Event::ApproxDp { epsilon: 1.0, delta: 0.0 });
        Self {
            event: Event::RepeatAndSelect { event: run, mean, shape: 1.0 },
            law: Repetitions::negative_binomial(1.0, mean).ok(),
        }
    }

    /// Whether the best run of the shipped search is the worse model, and how many runs there were; with another number of runs
    /// if one is injected. None if the curator refuses.
    fn worse_model_won(&self, injected: Option<u64>, worse: f64, draws: &mut Draws) -> Option<(bool, u64)> {
        let mut curator = past_the_curator::uncharged(&self.event, NoiseSource::insecure(draws.word()));
        let opened = curator.open(&AssumedSearch::new(self.event.clone(), self.law.clone()?)).ok()?;
        let runs = injected.unwrap_or(past_the_curator::runs(&opened));
        let search = past_the_curator::search_of(runs);
        let best = search.best(|_| {
            let run = RunScore { score: if draws.coin(worse) { 0.0 } else { 1.0 }, tie: draws.word() };
            Ok::<_, CuratorError>(AssumedRun { run, output: run.score })
        });
        best.ok().map(|score| (*score.get() == 0.0, runs))
    }
}

fn searches() -> Vec<InjectedFault> {
    // a run finds the worse model with probability e/(1 + e) on D and 1/(1 + e) on D′: both outcomes move by exactly e
    let worse = |with: bool| 1.0 / (1.0 + if with { (-1f64).exp() } else { 1f64.exp() });
    let search = Search::new(5.0);
    let printed = InjectedFault::counting(
        (
            "20.36",
            Altered,
            "the number K of tuning runs is printed (geometric, mean 5, epsilon1 = 1)",
            "K if the worse model won, else 0",
        ),
        Claim::pure(3.0),
        (10_400, 3_000),
        move |code, with, draws| {
            match search.worse_model_won(None, worse(with), draws) {
                None => f64::NAN,
                // the correct code shows the winner only
                Some((lost, runs)) => indicator(lost) * code.pick(1.0, runs as f64),
            }
        },
    );
    let search = Search::new(5.0);
    let fixed = InjectedFault::counting(
        (
            "20.37",
            Shipped,
            "a fixed number K = 5 of tuning runs accounted as a geometric one (epsilon1 = 1)",
            "1{the worse model won}",
        ),
        Claim::pure(3.0),
        (2_840, 3_000),
        move |code, with, draws| {
            // the same mean
            let runs = code.pick(None, Some(5));
            search.worse_model_won(runs, worse(with), draws).map_or(f64::NAN, |(lost, _)| indicator(lost))
        },
    );
    vec![printed, fixed]
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = streams();
    bugs.extend(searches());
    bugs
}
