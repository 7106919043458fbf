//! Choices from data: exponential mechanism, noisy maximum, quantiles, ranges, labels, randomized response.

use super::{LibraryAudit, Reach};
use crate::audit::worst_cases::choices::{
    LowEnd, Quartiles, RareLabel, largest_loss, low_quantile, quantile_choice, quantile_loss, saturating,
};
use crate::audit::worst_cases::indicator;
use crate::mechanism::LabelSelection;
use dpopt_noise::{ExponentialChoice, NoisyMax};
use dpopt_privacy::{Budget, Event, Relation};

fn exponential(epsilon: f64) -> Result<Event, String> {
    Ok(Event::ExponentialMechanism { epsilon })
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let mut rows = Vec::new();

    let choice = ExponentialChoice::new(3.0, 1, false).ok();
    let scores = [false, true].map(saturating);
    let reach = largest_loss(1.5, [&scores[0], &scores[1]]);
    rows.push(
        LibraryAudit::new(
            "exponential mechanism, saturating pair",
            "60 candidates, one against all others; 1{the one}",
            exponential(3.0),
            (0.0, 1_000_000),
            move |with, draws| {
                let chosen = choice.as_ref().and_then(|c| c.choose(&scores[usize::from(with)], draws.noise()));
                chosen.map_or(f64::NAN, |i| indicator(i == 0))
            },
        )
        // 0.91 of the claim: this pair reaches 0.976 of it
        .counting(0.93)
        .reaching(Reach::Epsilon(reach)),
    );

    // scores 0 and 1 for two answers and ε = 2: each answer is true with probability e/(1 + e), which is 1-DP
    let choice = ExponentialChoice::new(2.0, 1, false).ok();
    rows.push(
        LibraryAudit::new(
            "randomized response (two answers)",
            "one bit, 1 or 0; the answer",
            Ok(Event::RandomizedResponse { noise_parameter: 2.0 / (1.0 + 1f64.exp()), num_buckets: 2 }),
            (0.0, 200_000),
            move |with, draws| {
                let scores = if with { [0, 1] } else { [1, 0] };
                choice.as_ref().and_then(|c| c.choose(&scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
            },
        )
        // one bit against the other; against nothing (zero-out) the same answers lose less
        .under(Relation::ReplaceOne)
        .counting(0.9),
    );

    let choice = NoisyMax::new(1.0, 1, false).ok();
    rows.push(
        LibraryAudit::new(
            "permute-and-flip",
            "2 candidates, gap 2 against 0; which one",
            Ok(Event::ApproxDp { epsilon: 1.0, delta: 0.0 }),
            (0.0, 200_000),
            move |with, draws| {
                let scores = if with { [0, 2] } else { [1, 1] };
                choice.as_ref().and_then(|c| c.choose(scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
            },
        )
        .counting(0.8),
    );

    let quantile = low_quantile(1.0);
    rows.push(
        LibraryAudit::new(
            "private quantile",
            "a record below two grid points around the 1% rank; which point",
            exponential(1.0),
            (0.0, 120_000),
            move |with, draws| quantile_choice(&quantile, with, draws),
        )
        .reaching(Reach::Epsilon(quantile_loss(1.0)))
        .costly(),
    );

    let quartiles = Quartiles::new(1.0);
    rows.push(LibraryAudit::new(
        "three quartiles by recursion",
        "3 values low, 2 in the middle, 3 high, a fourth low one or not; how many of the answers are low",
        Ok(quartiles.event()),
        (0.0, 40_000),
        move |with, draws| quartiles.run(with, draws),
    )
    .costly());

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
        .and_then(|b| LabelSelection::plan(Relation::ZeroOut, b).map_err(|e| e.to_string()))
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
