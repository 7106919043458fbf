//! Faults of oracles for Goldstein points (Liu 2024, Algorithms 24 to 26; docs/proofs/o2nc.md).
//!
//! Covers: thesis algorithm 24, algorithm 26 (08.tree-index-mod, 08.tree-reused)
//! Covers: thesis algorithm 25 (08.no-difference-clip, 08.free-period)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::o2nc::{evidence, numbers, plan as conversion, smooth_plan};
use crate::worst_cases::restarted::{plan, run};
use dpopt_audit::statistics::Claim;
use dpopt_minimize::MinimizePlan;
use dpopt_privacy::{Event, Relation};

/// (ε, δ) of the plans: μ = 1.
const BUDGET: (f64, f64) = (4.377, 1e-5);

fn claim_of(plan: &Result<MinimizePlan, String>) -> Result<Claim, String> {
    let event = plan.as_ref().map_err(Clone::clone)?.certificate.event();
    Claim::reported(event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// Node t mod 4 of a tree is none at t = 4: the last sum of every period is let out as it is.
fn index_modulo() -> InjectedFault {
    let sums = plan(4, 8, 1.0, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "08.tree-index-mod",
            Altered,
            "noise of node t mod 4, as printed: where 4 divides t there is none",
            "canary in the last leaf of a period of 4; 1{the period's last sum is exactly it}",
        ),
        Claim::gaussian(1.0),
        (40, 3_000),
        move |code, with, draws| {
            let record = f64::from(u8::from(with));
            let mut seen = run(&sums, 3, record, draws);
            if seen.len() != 8 {
                return f64::NAN;
            }
            if code == Code::Injected {
                seen[3] = record;
            }
            indicator((seen[3] - 1.0).abs() < 1e-9)
        },
    )
}

/// The second period has the noise of the first.
fn one_tree_reused() -> InjectedFault {
    let sums = plan(4, 8, 1.0, Relation::ZeroOut);
    InjectedFault::counting(
        (
            "08.tree-reused",
            Altered,
            "the tree of a period is used again in the next one: sums at equal places have the same noise",
            "canary in the first leaf of the second of two periods; 1{the first sums of both differ by exactly it}",
        ),
        Claim::gaussian(1.0),
        (40, 3_000),
        move |code, with, draws| {
            let record = f64::from(u8::from(with));
            let mut seen = run(&sums, 4, record, draws);
            if seen.len() != 8 {
                return f64::NAN;
            }
            if code == Code::Injected {
                seen[4] = seen[0] + record;
            }
            indicator((seen[4] - seen[0] - 1.0).abs() < 1e-9)
        },
    )
}

/// Changes as large as they come, or up to eight times what noise is made for.
fn no_difference_clip() -> InjectedFault {
    const WIDER: f64 = 8.0;
    let plan = conversion(Relation::ZeroOut, BUDGET, 2, 2).map(|mut plan| {
        if let Some(c) = numbers(&mut plan) {
            // two gradients are no limit to a change here
            c.change_clip = 1e-3;
        }
        plan
    });
    let claim = claim_of(&plan);
    InjectedFault::counting(
        (
            "08.no-difference-clip",
            Shipped,
            "a record's change of estimate may be eight times as large as noise is made for: the source's bound with high probability in the place of a clip",
            "record beyond every clip, or none; both releases of a walk, each over its variance",
        ),
        claim,
        (150, 12_000),
        move |code, with, draws| {
            let Ok(mut plan) = plan.clone() else { return f64::NAN };
            if code == Code::Injected
                && let Some(c) = numbers(&mut plan)
            {
                c.change_clip *= WIDER;
                c.change_multiplier /= WIDER;
            }
            let Some(c) = numbers(&mut plan) else { return f64::NAN };
            let event =
                Event::composed(vec![Event::gaussian(c.fresh_multiplier), Event::gaussian(c.change_multiplier)]);
            evidence(&plan, Relation::ZeroOut, &event, f64::from(u8::from(with)), draws).unwrap_or(f64::NAN)
        },
    )
}

/// As many gradients as somebody likes, with the noise of one.
fn free_period() -> InjectedFault {
    const STEPS: u64 = 16;
    let plan = smooth_plan(BUDGET, STEPS);
    let claim = claim_of(&plan);
    InjectedFault::counting(
        (
            "08.free-period",
            Shipped,
            "gradients are asked for in each of 16 steps, where what is accounted is one and 15 changes",
            "record beyond every clip, or none; all releases of a walk, each over its variance",
        ),
        claim,
        (150, 60_000),
        move |code, with, draws| {
            let Ok(mut plan) = plan.clone() else { return f64::NAN };
            let period = code.pick(STEPS, 1);
            let Some(c) = numbers(&mut plan) else { return f64::NAN };
            c.period = period;
            let fresh = STEPS.div_ceil(period);
            let gradients = Event::gaussian(c.fresh_multiplier).self_composed(fresh);
            let changes = Event::gaussian(c.change_multiplier);
            let event = match STEPS - fresh {
                0 => gradients,
                count => Event::composed(vec![gradients, changes.self_composed(count)]),
            };
            evidence(&plan, Relation::ZeroOut, &event, f64::from(u8::from(with)), draws).unwrap_or(f64::NAN)
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![index_modulo(), one_tree_reused(), no_difference_clip(), free_period()]
}
