//! Faults of choices: exponential mechanism, noisy maximum, top-k, Frank–Wolfe, quantiles
//! (Dong, Durfee, Rogers 2020; docs/proofs/frank-wolfe.md, docs/proofs/quantiles.md). Sensitivities and score shifts in units of Δ = 1.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::choices::{LOW_QUANTILE, low_quantile, quantile_choice};
use crate::worst_cases::indicator;
use dpopt_audit::attack::likelihood;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_draws::{ExponentialChoice, NoisyMax};
use dpopt_mechanism::{Choice, ChoiceLaw, Counts, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, RoundedLaplace};
use dpopt_privacy::{Event, Relation};

/// Which of the integer scores the exponential mechanism chooses; NaN if the parameters are out of range.
fn chosen(choice: &Option<ExponentialChoice>, scores: &[i64], draws: &mut Draws) -> f64 {
    choice.as_ref().and_then(|c| c.choose(scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
}

/// Ten of twenty candidates, each chosen by the shipped exponential mechanism among those left; how many of them are of the
/// ten that the record raises.
fn best_ten(choice: &Choice, with: bool, draws: &mut Draws) -> f64 {
    let event = Event::composed(vec![choice.event(); 10]);
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
    let mut left: Vec<usize> = (0..20).collect();
    let mut raised = 0.0;
    for _ in 0..10 {
        let scores = left.iter().map(|&i| i64::from((i < 10) == with)).collect();
        let Ok(chosen) = curator.release(choice, &Counts::declared(scores, 1.0)) else { return f64::NAN };
        raised += indicator(left.swap_remove(*chosen.get()) < 10);
    }
    raised
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();

    // l1 norm 2, l2 norm 1, ε = 1
    let grid = Grid::new(-20);
    let (right, wrong) = (RoundedLaplace::new(2.0, grid).ok(), RoundedLaplace::new(1.0, grid).ok());
    bugs.push(InjectedFault::counting(
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
    bugs.push(InjectedFault::counting(
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

    // one record's presence moves scores by 1; replaced by another, by 2: the same pair
    let choice = |relation| Choice::new(ChoiceLaw::Exponential, 1.0, 1, false, relation).ok();
    let (right, wrong) = (choice(Relation::ReplaceOne), choice(Relation::ZeroOut));
    bugs.push(InjectedFault::counting(
        (
            "19.replaced",
            Shipped,
            "a choice under replace-one with the noise for one record's presence",
            "2 candidates, gap 2.5, a replaced record; which one",
        ),
        Claim::pure(1.0),
        (1_400, 300),
        move |code, with, draws| {
            let Some(choice) = code.pick(&right, &wrong) else { return f64::NAN };
            let mut curator = past_the_curator::uncharged(&choice.event(), NoiseSource::insecure(draws.word()));
            let counts = Counts::declared(scores(with).to_vec(), 1.0);
            curator.release(choice, &counts).map_or(f64::NAN, |index| *index.get() as f64)
        },
    ));

    let (right, wrong) = (NoisyMax::new(1.0, 2, false).ok(), NoisyMax::new(1.0, 2, true).ok());
    bugs.push(InjectedFault::counting(
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

    // ε0 = .1, scores in units of C: their range is the radius 10
    let (right, wrong) = (ExponentialChoice::new(0.1, 10, true).ok(), ExponentialChoice::new(0.1, 1, true).ok());
    bugs.push(InjectedFault::counting(
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
    bugs.push(InjectedFault::counting(
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
                Code::Injected => indicator(gradient < 0),
            }
        },
    ));

    // ten choices without replacement: ε = 1 in all, or ε = 1 each; scores not monotone, as ten rise and ten fall
    let choice = |epsilon: f64| Choice::new(ChoiceLaw::Exponential, epsilon, 1, false, Relation::ZeroOut).ok();
    let (right, wrong) = (choice(0.1), choice(1.0));
    bugs.push(InjectedFault::counting(
        (
            "20.40",
            Shipped,
            "the 10 best by 10 choices, each with the noise of a single one",
            "10 candidates raised, 10 lowered; raised ones selected",
        ),
        Claim::pure(1.0),
        (421, 4_000),
        move |code, with, draws| code.pick(&right, &wrong).as_ref().map_or(f64::NAN, |c| best_ten(c, with, draws)),
    ));

    let (right, wrong) = (low_quantile(1.0), low_quantile(2.0));
    bugs.push(InjectedFault::counting(
        ("17.quantile", Shipped, "private quantile by exp(epsilon u) instead of exp(epsilon u / 2)", LOW_QUANTILE),
        Claim::pure(1.0),
        (1_800, 25_000),
        move |code, with, draws| quantile_choice(code.pick(&right, &wrong), with, draws),
    ));
    bugs
}
