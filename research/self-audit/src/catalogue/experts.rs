//! Faults of learning while it happens, injected around the shipped choice among experts (docs/proofs/online-experts.md).
//!
//! Covers: thesis algorithm 44, theorem 13.3.2 (13.single-pair, 13.no-fake-switch, 13.gate-as-sample)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::experts::{
    against_one, against_one_first, drawn, one_draw, one_round, played, rounds_as_blocks, small_game,
};
use crate::worst_cases::indicator;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{ExpertPlays, Interactive, LazyExperts, RoundLosses, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::accountant;
use dpopt_privacy::{Event, Relation};

/// Restarts of the game in `13.second-draw`.
const RESTARTS: usize = 12;

fn single_pair() -> InjectedFault {
    // a range of w = 2·rate is w-DP; the pair of two experts whose losses move against each other shows w/2 only
    let mechanisms = one_draw(60, 1, 0.5).ok().zip(one_draw(60, 1, 1.0).ok());
    InjectedFault::counting(
        (
            "13.single-pair",
            Shipped,
            "a fresh draw (p = 1) accounted by the one pair of two experts whose losses move against each other",
            "one of 60 experts loses alone or is the only one that does not; 1{it plays}",
        ),
        Claim::pure(1.0),
        (12_000, 4_000),
        move |code, with, draws| {
            let Some((right, wrong)) = &mechanisms else { return f64::NAN };
            let plays = drawn(code.pick(right, wrong), &against_one(60, with), draws);
            plays.map_or(f64::NAN, |expert| indicator(expert == 0))
        },
    )
}

fn second_draw() -> InjectedFault {
    let mechanism = one_draw(60, 1, 0.5).ok();
    InjectedFault::counting(
        (
            "13.second-draw",
            Shipped,
            "a killed game goes on from an older state and draws again from losses that were drawn from before (11 restarts)",
            "one of 60 experts loses alone or is the only one that does not; how often it plays",
        ),
        Claim::pure(1.0),
        (14_000, 40_000),
        move |code, with, draws| {
            let Some(mechanism) = &mechanism else { return f64::NAN };
            let losses = against_one(60, with);
            // who goes on where it was shows the same play again
            let mut first = None;
            let plays = (0..RESTARTS).map(|_| {
                let draw = match (code, first) {
                    (Code::Correct, Some(known)) => Some(known),
                    _ => drawn(mechanism, &losses, draws),
                };
                first = draw;
                draw
            });
            plays.map(|play| play.map_or(f64::NAN, |expert| indicator(expert == 0))).sum()
        },
    )
}

fn adapted_rate() -> InjectedFault {
    let mechanisms = one_draw(2, 9, 0.25).ok().zip(one_draw(2, 9, 1.0).ok());
    InjectedFault::counting(
        (
            "13.adapted-rate",
            Shipped,
            "the learning rate is raised when a round's losses differ by 1, as adaptive rates are, and accounted as the smaller one",
            "nine rounds, eight of them (0, 1/2), the last (1, 0) or (0, 1/2); 1{the second expert plays}",
        ),
        Claim::pure(0.5),
        (900, 4_000),
        move |code, with, draws| {
            let Some((planned, raised)) = &mechanisms else { return f64::NAN };
            let mut losses: Vec<Vec<f64>> = vec![vec![0.0, 0.5]; 9];
            if with {
                losses[8] = vec![1.0, 0.0];
            }
            let wide = losses.iter().any(|round| (round[0] - round[1]).abs() > 0.75);
            let mechanism = if code == Code::Injected && wide { raised } else { planned };
            drawn(mechanism, &losses, draws).map_or(f64::NAN, |expert| indicator(expert == 1))
        },
    )
}

fn no_fake_switches() -> InjectedFault {
    let mechanism = small_game().ok();
    let claim = match &mechanism {
        Some(mechanism) => Claim::reported(&mechanism.event(), Relation::ReplaceOne, 1e-3).map_err(|e| e.to_string()),
        None => Err("no game".into()),
    };
    InjectedFault::counting(
        (
            "13.no-fake-switch",
            Altered,
            "an expert is left only when it lost: without fresh draws that no loss asks for, leaving tells that it did",
            "first of 6 rounds against one expert or the other; 1{the first expert plays first and is left at once}",
        ),
        claim,
        (4_000, 4_000),
        move |code, with, draws| {
            let Some(mechanism) = &mechanism else { return f64::NAN };
            let losses = one_round(with);
            match code {
                Code::Correct => {
                    let plays = played(mechanism, &losses, draws);
                    if plays.is_empty() { f64::NAN } else { indicator(plays[0] == 0 && plays[1] == 1) }
                }
                Code::Injected => {
                    let first = draws.below(2);
                    let left = !draws.coin((-0.3 * losses[0][first]).exp());
                    let lost = (-0.3 * (losses[0][1] - losses[0][0])).exp();
                    let second = if left { usize::from(draws.coin(lost / (1.0 + lost))) } else { first };
                    indicator(first == 0 && second == 1)
                }
            }
        },
    )
}

/// A gate's coin is public: with its law known to be the same, δ is mixed. A secret coin would be amplification by sampling, which
/// holds for what a record is in, not for what is done.
fn gates_are_no_samples() -> InjectedFault {
    InjectedFault::looking(
        (
            "13.gate-as-sample",
            Shipped,
            "a draw that a shown coin decides on, accounted as if the coin were secret (q = .1, range 1)",
            "exact delta at epsilon .5: q·delta of the draw",
        ),
        |code| {
            let draw = Event::ExponentialMechanism { epsilon: 1.0 };
            let event = match code {
                Code::Correct => draw.gated(0.1),
                Code::Injected => draw.poisson_sampled(0.1),
            };
            // (e^(w/2) − e^(ε/2))²/(e^w − 1) of the draw
            let exact = 0.1 * (0.5f64.exp() - 0.25f64.exp()).powi(2) / 1f64.exp_m1();
            let claimed = accountant::delta(&event, Relation::ZeroOut, 0.5).map_err(|e| e.to_string())?.upper;
            match claimed >= exact * (1.0 - 1e-9) {
                true => Ok(()),
                false => Err(format!("claimed {claimed:.3e}, exact {exact:.3e}")),
            }
        },
    )
}

/// Pairs of games on the same losses in `13.same-coins`.
const PAIRS: u64 = 200;

fn same_coins() -> InjectedFault {
    InjectedFault::looking(
        (
            "13.same-coins",
            Shipped,
            "a game that goes on derives its coins from the seed that it began with: what then differs between two games is the losses alone",
            "200 games and 200 that go on with the same seed, on the same losses; the library must refuse them, or they must not all play alike",
        ),
        |code| {
            let mechanism = small_game()?;
            let losses = one_round(true);
            let mut alike = 0;
            for seed in 0..PAIRS {
                let open = |mechanism: &LazyExperts| {
                    past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(seed)).open(mechanism)
                };
                let first = open(&mechanism).map_err(|e| e.to_string())?;
                let again = match code {
                    Code::Correct => {
                        let saved = past_the_curator::saved(&first).ok_or("the game can't be saved")?;
                        open(&mechanism.clone().resumed(saved).map_err(|e| e.to_string())?)
                    }
                    Code::Injected => open(&mechanism),
                };
                // refused
                let Ok(again) = again else { continue };
                alike += u64::from(to_the_end(first, &losses) == to_the_end(again, &losses));
            }
            if alike < PAIRS { Ok(()) } else { Err(format!("all {alike} pairs of games play alike")) }
        },
    )
}

/// Choices after the round that differs in `13.block-used-again`.
const CHOICES: u64 = 12;

fn block_used_again() -> InjectedFault {
    // the shipped choice that keeps all losses, from which it draws after every round
    let mechanisms = rounds_as_blocks(60, CHOICES, 0.5)
        .ok()
        .zip(LazyExperts::new(60, CHOICES + 1, 1, 0.5, 1.0, 1, Relation::ReplaceOne).ok());
    InjectedFault::counting(
        (
            "13.block-used-again",
            Shipped,
            "a block's losses stay in the sums that the next choices are made from, and 12 choices are accounted as one",
            "first of 13 rounds against one of 60 experts or all others, the rest tell nothing; how often that one plays",
        ),
        Claim::pure(1.0),
        (14_000, 40_000),
        move |code, with, draws| {
            let Some((blocks, kept)) = &mechanisms else { return f64::NAN };
            let losses = against_one_first(60, CHOICES as usize + 1, with);
            let plays = match code {
                Code::Correct => played(blocks, &losses, draws),
                Code::Injected => played(kept, &losses, draws),
            };
            if plays.is_empty() { f64::NAN } else { plays[1..].iter().map(|expert| indicator(*expert == 0)).sum() }
        },
    )
}

fn block_drawn_again() -> InjectedFault {
    let mechanism = rounds_as_blocks(60, 1, 0.5).ok();
    InjectedFault::counting(
        (
            "13.block-drawn-again",
            Shipped,
            "a game by blocks is killed at the end of one, after its choice was shown, and goes on from before it: 11 choices more from that block",
            "a block of one round against one of 60 experts or all others; how often that one plays",
        ),
        Claim::pure(1.0),
        (14_000, 40_000),
        move |code, with, draws| {
            let Some(mechanism) = &mechanism else { return f64::NAN };
            let losses = against_one_first(60, 2, with);
            let mut first = None;
            let plays = (0..RESTARTS).map(|_| {
                let draw = match (code, first) {
                    // who goes on where it was shows the same play again
                    (Code::Correct, Some(known)) => Some(known),
                    _ => played(mechanism, &losses, draws).last().copied(),
                };
                first = draw;
                draw.map_or(f64::NAN, |expert| indicator(expert == 0))
            });
            plays.sum()
        },
    )
}

/// Who plays until the end.
fn to_the_end(mut plays: ExpertPlays, losses: &[[f64; 2]]) -> Vec<usize> {
    let round = |losses: &[f64; 2]| {
        let expert = plays.play().ok().map(|expert| *expert.get());
        RoundLosses::of(losses).and_then(|losses| plays.observe(&losses)).ok().and(expert)
    };
    losses.iter().map_while(round).collect()
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![single_pair(), second_draw(), adapted_rate(), no_fake_switches(), gates_are_no_samples(), same_coins()]
}

pub(super) fn of_blocks() -> Vec<InjectedFault> {
    vec![block_used_again(), block_drawn_again()]
}
