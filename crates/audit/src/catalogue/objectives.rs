//! Bugs of the minimization of somebody's own objective (docs/proofs/minimize.md).

use super::Source::{Altered, Shipped};
use super::{Code, PlantedBug};
use crate::draws::Draws;
use crate::statistics::Claim;
use crate::worst_cases::methods::{self, Subject, alone, gradient};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Closures;
use dpopt_optimize::{LastIterateDescent, MethodOptions};
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
    let each = PlantedBug::counting(
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
    );
    vec![each, averaged_iterates()]
}

/// A step keeps nine tenths of the way, so that 800 of them cost what 19 do where only the last iterate is seen. Their mean knows all.
fn averaged_iterates() -> PlantedBug {
    let loss = Loss::Logistic { shift: 0.0 };
    let descent = LastIterateDescent {
        steps: Some(800),
        regularization: Some(0.25 / 9.0),
        shift: Some(0.0),
        ..LastIterateDescent::default()
    };
    let subject = Subject::new(descent, methods::problem(1, 1, loss), BUDGET, alone(1));
    let claim = subject.event().and_then(|event| {
        Claim::reported(&event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
    });
    PlantedBug::counting(
        (
            "23.averaged-iterates",
            Altered,
            "what is released is the mean of all iterates, with the noise that hides the last one",
            "record alone, 800 steps; the answer",
        ),
        claim,
        (1_200, 30_000),
        move |code, with, draws| match (code, subject.schedule()) {
            (Code::Correct, _) => subject.run(with, draws, |_, _, view| view.weights[0]),
            (Code::Planted, None) => f64::NAN,
            (Code::Planted, Some(s)) => {
                let (mut x, mut sum) = (0.0f64, 0.0);
                for _ in 0..s.steps {
                    let slope = gradient(subject.world(with), s.loss, x) + s.regularization * x;
                    x = (x - s.step_size * slope + s.noise_std * draws.gaussian()).clamp(-s.radius, s.radius);
                    sum += x;
                }
                sum / s.steps as f64
            }
        },
    )
}
