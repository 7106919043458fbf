//! One of several experts in every round: a lazy choice, a leader behind noise, and choices from blocks of rounds.
//!
//! Covers: thesis algorithm 44

use super::LibraryAudit;
use crate::worst_cases::experts::{
    against_one_first, one_round, played, probability, rounds_as_blocks, small_game, small_leader,
};
use dpopt_mechanism::Interactive;
use dpopt_privacy::Relation;

/// All plays of six rounds are seen.
pub(super) fn audits() -> Vec<LibraryAudit> {
    let (lazy, leader) = (small_game(), small_leader());
    let events = (lazy.as_ref().map(Interactive::event), leader.as_ref().map(Interactive::event));
    let (lazy_event, leader_event) = (events.0.map_err(Clone::clone), events.1.map_err(Clone::clone));
    vec![
        LibraryAudit::new(
            "experts, a lazy choice",
            "first of 6 rounds against one expert or the other, all plays seen; exact log-likelihood ratio",
            lazy_event,
            (1e-2, 100_000),
            move |with, draws| {
                let Ok(mechanism) = &lazy else { return f64::NAN };
                let plays = played(mechanism, &one_round(with), draws);
                if plays.is_empty() {
                    return f64::NAN;
                }
                (probability(&plays, &one_round(true)) / probability(&plays, &one_round(false))).ln()
            },
        )
        .under(Relation::ReplaceOne),
        LibraryAudit::new(
            "experts, a noisy leader",
            "first of 6 rounds against one expert or the other, all plays seen; how often the second plays",
            leader_event,
            (1e-2, 100_000),
            move |with, draws| {
                let Ok(mechanism) = &leader else { return f64::NAN };
                let plays = played(mechanism, &one_round(with), draws);
                // before the first round everybody plays alike
                if plays.is_empty() { f64::NAN } else { plays[1..].iter().sum::<usize>() as f64 }
            },
        )
        .under(Relation::ReplaceOne),
    ]
}

/// A choice after every round, from that round alone.
pub(super) fn of_blocks() -> LibraryAudit {
    let mechanism = rounds_as_blocks(40, 5, 1.0);
    LibraryAudit::new(
        "experts, each loss in one choice",
        "first of 6 rounds against one of 40 experts alone or all others, 5 choices seen; 1{that one plays the second}",
        mechanism.as_ref().map(Interactive::event).map_err(Clone::clone),
        (0.0, 100_000),
        move |with, draws| {
            let Ok(mechanism) = &mechanism else { return f64::NAN };
            let plays = played(mechanism, &against_one_first(40, 6, with), draws);
            if plays.len() == 6 { f64::from(u8::from(plays[1] == 0)) } else { f64::NAN }
        },
    )
    .under(Relation::ReplaceOne)
    .counting(0.75)
}
