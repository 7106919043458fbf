//! Faults of Spider (Liu 2024, Algorithm 17 and Theorem 6.3.9; docs/proofs/spider.md).
//!
//! Covers: thesis algorithm 17 (06.unit-noise, 06.no-difference-clip, 06.restarts)
//! Covers: thesis theorem 6.3.9 (06.unit-noise, 06.one-sided)

use super::Source::Shipped;
use super::{Code, InjectedFault};
use crate::worst_cases::spider::{evidence, far_plan, numbers, plan};
use dpopt_audit::statistics::Claim;
use dpopt_minimize::MinimizePlan;
use dpopt_privacy::{Event, Relation};

/// (ε, δ) of the plans: μ = 1.
const BUDGET: (f64, f64) = (4.377, 1e-5);

fn claim_of(plan: &Result<MinimizePlan, String>, relation: Relation) -> Result<Claim, String> {
    let event = plan.as_ref().map_err(Clone::clone)?.certificate.event();
    Claim::reported(event, relation, super::DELTA).map_err(|e| e.to_string())
}

/// What the mechanisms of a schedule say of themselves: at most so many gradients and changes.
fn says(plan: &MinimizePlan, fresh: u64) -> Option<Event> {
    let spider = plan.schedule.spider?;
    Some(Event::composed(vec![
        Event::gaussian(spider.fresh_multiplier).self_composed(fresh),
        Event::gaussian(spider.change_multiplier).self_composed(plan.schedule.steps),
    ]))
}

/// A walk to the end of an interval, four away, and one change of gradients on that way; with noise for it, or for a way of one, as the source prints it.
fn unit_noise() -> InjectedFault {
    const WAY: f64 = 4.0;
    let plan = far_plan(BUDGET, WAY);
    let claim = claim_of(&plan, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "06.unit-noise",
            Shipped,
            "noise of a change of gradients that is not in proportion to the way, as equation 6.2 prints it",
            "record beyond every clip, or none; a gradient and a change on a way of four, each over its variance",
        ),
        claim,
        (150, 12_000),
        move |code, with, draws| {
            let Ok(mut plan) = plan.clone() else { return f64::NAN };
            if code == Code::Injected
                && let Some(spider) = numbers(&mut plan)
            {
                spider.change_multiplier /= WAY;
            }
            says(&plan, 1)
                .and_then(|event| evidence(&plan, Relation::ZeroOut, &event, f64::from(u8::from(with)), draws))
                .unwrap_or(f64::NAN)
        },
    )
}

/// Changes as large as they come, or up to eight times what noise is made for.
fn no_difference_clip() -> InjectedFault {
    const WIDER: f64 = 8.0;
    let plan = plan(Relation::ZeroOut, BUDGET, (1, 1), (1.0, 0.0));
    let claim = claim_of(&plan, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "06.no-difference-clip",
            Shipped,
            "a record's change of gradient may be eight times as large as what noise is made for: the loss is taken to be as smooth as was told",
            "record beyond every clip, or none; both releases of a walk, each over its variance",
        ),
        claim,
        (150, 12_000),
        move |code, with, draws| {
            let Ok(mut plan) = plan.clone() else { return f64::NAN };
            if code == Code::Injected
                && let Some(spider) = numbers(&mut plan)
            {
                spider.difference_clip *= WIDER;
                spider.change_multiplier /= WIDER;
            }
            let event = says(&plan, 1);
            event
                .and_then(|event| evidence(&plan, Relation::ZeroOut, &event, f64::from(u8::from(with)), draws))
                .unwrap_or(f64::NAN)
        },
    )
}

/// As many gradients as the drift asks for, or the one that is certified.
fn restarts() -> InjectedFault {
    const ASKED: u64 = 16;
    let plan = plan(Relation::ZeroOut, BUDGET, (1, 1), (1.0, 0.0));
    let claim = claim_of(&plan, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "06.restarts",
            Shipped,
            "the gradient is asked for afresh whenever x has drifted: 16 times, where the bound on the loss that was told says once",
            "record beyond every clip, or none; all releases, each over its variance",
        ),
        claim,
        (150, 60_000),
        move |code, with, draws| {
            let Ok(mut plan) = plan.clone() else { return f64::NAN };
            let fresh = code.pick(1, ASKED);
            if code == Code::Injected
                && let Some(spider) = numbers(&mut plan)
            {
                (spider.fresh_gradients, spider.drift) = (ASKED, f64::MIN_POSITIVE);
            }
            let event = says(&plan, fresh);
            event
                .and_then(|event| evidence(&plan, Relation::ZeroOut, &event, f64::from(u8::from(with)), draws))
                .unwrap_or(f64::NAN)
        },
    )
}

/// Under replace-one a record goes from one end of the clip to the other.
fn one_sided() -> InjectedFault {
    let replaced = plan(Relation::ReplaceOne, BUDGET, (1, 1), (1.0, 0.0));
    let zeroed = plan(Relation::ZeroOut, BUDGET, (1, 1), (1.0, 0.0));
    let claim = claim_of(&replaced, Relation::ReplaceOne);
    InjectedFault::counting(
        (
            "06.one-sided",
            Shipped,
            "sensitivities G/n and M‖x - y‖/n under replace-one, as the source has them, in the place of twice that",
            "record beyond every clip one way or the other; both releases of a walk, each over its variance",
        ),
        claim,
        (700, 12_000),
        move |code, with, draws| {
            let (Ok(replaced), Ok(zeroed)) = (&replaced, &zeroed) else { return f64::NAN };
            let plan = code.pick(replaced, zeroed);
            let slope = if with { 1.0 } else { -1.0 };
            says(plan, 1)
                .and_then(|event| evidence(plan, Relation::ReplaceOne, &event, slope, draws))
                .unwrap_or(f64::NAN)
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![unit_noise(), no_difference_clip(), restarts(), one_sided()]
}
