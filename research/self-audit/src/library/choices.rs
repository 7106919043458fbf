//! Choices from data: exponential mechanism, noisy maximum, quantiles, ranges, labels, randomized response.
//!
//! Covers: thesis algorithm 27, algorithm 34

use super::{LibraryAudit, Reach};
use crate::worst_cases::choices::{
    LOW_QUANTILE, LowEnd, Quartiles, RareLabel, largest_loss, low_quantile, quantile_choice, quantile_loss, saturating,
};
use crate::worst_cases::comparisons::{self, answers, only_the_last, then_one_above, then_one_above_loss};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_draws::ExponentialChoice;
use dpopt_mechanism::{Choice, ChoiceLaw, Counts, Interactive, LabelSelection, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

fn exponential(epsilon: f64) -> Result<Event, String> {
    Ok(Event::ExponentialMechanism { epsilon })
}

/// A choice through the curator: the index, NaN if it is refused.
fn choice(law: ChoiceLaw, epsilon: f64, scores: [Vec<i64>; 2], relation: Relation) -> impl Fn(bool, &mut Draws) -> f64 {
    let worlds = scores.map(|s| Counts::declared(s, 1.0));
    let choice = Choice::new(law, epsilon, 1, false, relation);
    move |with, draws| {
        let run = |choice: &Choice, counts: &Sensitive<Counts>, seed| {
            past_the_curator::uncharged(&choice.event(), NoiseSource::insecure(seed)).release(choice, counts).ok()
        };
        let chosen = choice.as_ref().ok().and_then(|c| run(c, &worlds[usize::from(with)], draws.word()));
        chosen.map_or(f64::NAN, |index| *index.get() as f64)
    }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let mut rows = Vec::new();

    let scores = [false, true].map(saturating);
    let reach = largest_loss(1.5, [&scores[0], &scores[1]]);
    let saturated = choice(ChoiceLaw::Exponential, 3.0, scores, Relation::ZeroOut);
    rows.push(
        LibraryAudit::new(
            "exponential mechanism, saturating pair",
            "60 candidates, one against all others; 1{the one}",
            exponential(3.0),
            (0.0, 1_000_000),
            move |with, draws| {
                let index = saturated(with, draws);
                if index.is_nan() { index } else { indicator(index == 0.0) }
            },
        )
        // 0.91 of the claim: this pair reaches 0.976 of it
        .counting(0.93)
        .reaching(Reach::Epsilon(reach))
        .costly(),
    );

    // scores 0 and 1 for two answers and ε = 2: each answer is true with probability e/(1 + e), which is 1-DP
    let answer = ExponentialChoice::new(2.0, 1, false).ok();
    rows.push(
        LibraryAudit::new(
            "randomized response (two answers)",
            "one bit, 1 or 0; the answer",
            Ok(Event::RandomizedResponse { noise_parameter: 2.0 / (1.0 + 1f64.exp()), num_buckets: 2 }),
            (0.0, 200_000),
            move |with, draws| {
                let scores = if with { [0, 1] } else { [1, 0] };
                answer.as_ref().and_then(|c| c.choose(&scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
            },
        )
        // one bit against the other; against nothing (zero-out) the same answers lose less
        .under(Relation::ReplaceOne)
        .counting(0.9),
    );

    rows.push(
        LibraryAudit::new(
            "permute-and-flip",
            "2 candidates, gap 2 against 0; which one",
            Ok(Event::ApproxDp { epsilon: 1.0, delta: 0.0 }),
            (0.0, 200_000),
            choice(ChoiceLaw::PermuteAndFlip, 1.0, [vec![1, 1], vec![0, 2]], Relation::ZeroOut),
        )
        .counting(0.8),
    );

    // a replaced record moves each score by 2 where its presence moves it by 1
    rows.push(
        LibraryAudit::new(
            "permute-and-flip, replaced record",
            "2 candidates, gap 4 against 0; which one",
            Ok(Event::ApproxDp { epsilon: 1.0, delta: 0.0 }),
            (0.0, 200_000),
            choice(ChoiceLaw::PermuteAndFlip, 1.0, [vec![2, 2], vec![0, 4]], Relation::ReplaceOne),
        )
        .under(Relation::ReplaceOne)
        .counting(0.8),
    );

    let plan = comparisons::plan(false);
    let event = plan.as_ref().map(|p| p.event()).map_err(ToString::to_string);
    let reach = plan.as_ref().map_or(Reach::Unknown, |p| Reach::Epsilon(then_one_above_loss(p, 10, 3)));
    rows.push(
        LibraryAudit::new(
            "above-threshold, one count over",
            "10 counts go from 0 to -1, the last from 2 to 3; 1{only the last is above}",
            event,
            (0.0, 1_000_000),
            move |with, draws| {
                let Ok(plan) = &plan else { return f64::NAN };
                indicator(only_the_last(&answers(plan, &then_one_above(with, 10, 3), draws), 11))
            },
        )
        .counting(0.85)
        .reaching(reach)
        .costly(),
    );

    let quantile = low_quantile(1.0);
    rows.push(
        LibraryAudit::new("private quantile", LOW_QUANTILE, exponential(1.0), (0.0, 120_000), move |with, draws| {
            quantile_choice(&quantile, with, draws)
        })
        .reaching(Reach::Epsilon(quantile_loss(1.0)))
        .costly(),
    );

    let quartiles = Quartiles::new(1.0);
    rows.push(
        LibraryAudit::new(
            "three quartiles by recursion",
            "3 values low, 2 in the middle, 3 high, a fourth low one or not; how many of the answers are low",
            Ok(quartiles.event()),
            (0.0, 40_000),
            move |with, draws| quartiles.run(with, draws),
        )
        .costly(),
    );

    let end = LowEnd::new(4.0);
    let reach = end.loss();
    rows.push(
        LibraryAudit::new(
            "end of a private range",
            "101 tied values, two in the low heap, or 100 and one; 1{its cell}",
            exponential(4.0),
            (0.0, 40_000),
            move |with, draws| end.run(with, draws),
        )
        .reaching(Reach::Epsilon(reach))
        .costly(),
    );

    let label = Budget::new(1.0, 1e-8)
        .map_err(|e| e.to_string())
        .and_then(|b| {
            LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(b)).map_err(|e| e.to_string())
        })
        .map(RareLabel::new);
    let event = label.as_ref().map(RareLabel::event).map_err(Clone::clone);
    rows.push(
        LibraryAudit::new(
            "label selection",
            "a label one or two below the threshold; 1{it is shown}",
            event,
            (1e-6, 100_000),
            move |with, draws| label.as_ref().map_or(f64::NAN, |l| l.run(with, draws)),
        )
        .counting(0.9),
    );
    rows
}
