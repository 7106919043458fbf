//! Bugs of the minimization of somebody's own objective (docs/proofs/minimize.md).

use super::Source::Shipped;
use super::{Code, PlantedBug};
use crate::draws::Draws;
use crate::statistics::Claim;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use dpopt_optimize::MethodOptions;
use dpopt_optimize::minimize::{Answers, InMemory, MinimizePlan, MinimizeProblem, choose, run};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

const RECORDS: u64 = 4;
/// K.
const DIRECTIONS: usize = 16;
/// (ε, δ) of the plan: μ = 1.
const BUDGET: (f64, f64) = (4.377, 1e-5);

fn problem() -> MinimizeProblem {
    let neighbours = Neighbours::of_records(Relation::ZeroOut);
    MinimizeProblem { answers: Answers::Values, ..MinimizeProblem::new(RECORDS, 1, neighbours) }
}

/// One step of one number: along directions of ±1, all derivatives of a record are as large as its slope.
fn planned() -> Result<MinimizePlan, String> {
    let budget = Budget::new(BUDGET.0, BUDGET.1).map_err(|e| e.to_string())?;
    let options = MethodOptions::of("zeroth-order")
        .with("steps", 1)
        .with("sampling_probability", 1.0)
        .with("directions", DIRECTIONS)
        .with("learning_rate", 1.0)
        .with("momentum", 0.0)
        .with("average", "last");
    choose(&problem(), budget, &options).map_err(|e| e.to_string())
}

/// Where one step leads, with a record of an enormous slope or without: larger with it.
fn answer(plan: &MinimizePlan, with: bool, draws: &mut Draws) -> Option<f64> {
    let slope = if with { -1e3 } else { 0.0 };
    let records = Sensitive::new(vec![slope, 0.0, 0.0, 0.0]);
    let objective =
        Closures::new(1, |x: &[f64], slope: &f64| slope * x[0], |_: &[f64], slope: &f64, g: &mut [f64]| g[0] = *slope);
    let event = Event::gaussian(plan.schedule.noise_multiplier);
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
    let found = run(&problem(), plan, &[0.0], InMemory::new(objective, &records), &mut curator, &Silent).ok()?;
    found.get().first().copied()
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let plan = planned();
    let claim = plan.as_ref().map_err(Clone::clone).and_then(|plan| {
        Claim::reported(plan.certificate.event(), Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
    });
    vec![PlantedBug::counting(
        (
            "23.each-derivative",
            Shipped,
            "of derivatives along 16 directions each is clipped by itself, and noise is made for one vector of that norm",
            "record with an enormous slope; where one step leads",
        ),
        claim,
        (150, 30_000),
        move |code, with, draws| {
            let Ok(plan) = &plan else { return f64::NAN };
            let mut plan = plan.clone();
            if code == Code::Planted {
                // sixteen numbers of norm C are a vector of norm 4C; the noise stays
                let wider = (DIRECTIONS as f64).sqrt();
                plan.schedule.clip_norm *= wider;
                plan.schedule.noise_multiplier /= wider;
            }
            answer(&plan, with, draws).unwrap_or(f64::NAN)
        },
    )]
}
