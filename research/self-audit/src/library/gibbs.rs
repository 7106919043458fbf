//! The exponential mechanism from plan to draw: pairs whose laws are Gaussians, where the theorem is an equality.
//!
//! Covers: thesis theorem 3.2.1, theorem 3.6.2, theorem 3.6.4, algorithm 13

use super::LibraryAudit;
use super::methods::BUDGET;
use super::releases::TIGHT_RUNS;
use crate::worst_cases::methods::{Subject, View, alone, crowd, problem};
use crate::worst_cases::sums::canaries;
use dpopt_linear::ExponentialMechanism;
use dpopt_mechanism::{Mechanism, ObjectiveDraw, SamplerError, Sensitive, Tempered, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Closures, Facts};
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Event, Neighbours, Relation};

/// λ at which all weights stay far from the corners of |s − y| and ½(s − y)²: the loss of the record is linear.
pub(crate) const STIFF: f64 = 50.0;

pub(crate) fn stiff() -> ExponentialMechanism {
    ExponentialMechanism { regularization: Some(STIFF), ..ExponentialMechanism::default() }
}

/// The exact law's event: a stricter claim than the certified one, whose curve ends where the sampler's 1e-9 begins.
pub(crate) fn ideal(event: Event) -> Event {
    match event {
        Event::Approximate { event, .. } => *event,
        exact => exact,
    }
}

fn row(
    (name, pair): (&'static str, &'static str),
    subject: Subject<ExponentialMechanism>,
    bound: (f64, u64),
    statistic: impl Fn(View) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    LibraryAudit::new(name, pair, subject.event().map(ideal), bound, move |with, draws| {
        subject.run(with, draws, |_, _, view| statistic(view))
    })
}

/// A closure's draw: the canary's record 100 is far to the right of everything the draw can reach, so its slope is −1 throughout,
/// and β = λ = 1 make the laws Gaussians of variance 1, one apart.
fn of_a_closure() -> LibraryAudit {
    let distance = Closures::new(
        1,
        |x: &[f64], a: &Option<f64>| a.map_or(0.0, |a| (x[0] - a).abs()),
        |x: &[f64], a: &Option<f64>, g: &mut [f64]| g[0] = a.map_or(0.0, |a| (x[0] - a).signum()),
    );
    let distance = distance.with_facts(Facts::assume_convex_and_lipschitz(1.0));
    // numbers up to 256: two roundings
    let tempered =
        Tempered { scale: 1.0, regularization: 1.0, centre: vec![0.0], rounding: 6e-14, total_variation: 1e-9 };
    let draw = ObjectiveDraw::new(distance, 2, Relation::ZeroOut, tempered).map_err(|e| e.to_string());
    let worlds = [None, Some(100.0)].map(|canary| Sensitive::new(vec![Some(-100.0), canary]));
    let event = draw.as_ref().map(Mechanism::event).map_err(Clone::clone);
    LibraryAudit::new(
        "draw from a closure's Gibbs measure",
        "record alone on its side, Gaussian laws 1/lambda apart; point",
        event,
        (BUDGET.1, TIGHT_RUNS),
        move |with, draws| {
            let Ok(draw) = &draw else { return f64::NAN };
            let paid = SamplerError::proved(draw.total_variation()).on(draw.event());
            let mut curator = past_the_curator::uncharged(&paid, NoiseSource::insecure(draws.word()));
            curator.release(draw, &worlds[usize::from(with)]).map_or(f64::NAN, |x| x.get()[0])
        },
    )
    .gaussian()
    .costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let tight = (BUDGET.1, TIGHT_RUNS);
    let alone_in = |loss: Loss| Subject::new(stiff(), problem(2, 1, loss), BUDGET, alone(2));
    let replaced =
        Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem(2, 1, Loss::Absolute) };
    let shared = ExponentialMechanism { draws: Some(2), ..stiff() };
    let logistic = ExponentialMechanism { regularization: Some(1.0), shift: Some(0.0), ..stiff() };
    vec![
        row(
            ("exponential-mechanism, linear loss", "record alone, Gaussian laws 1/lambda apart; weight"),
            alone_in(Loss::Absolute),
            tight,
            |view| view.weights[0],
        )
        .gaussian()
        .costly(),
        row(
            ("exponential-mechanism, from the minimiser", "record alone, smooth loss in its linear part; weight"),
            alone_in(Loss::Huber { threshold: 0.5 }),
            tight,
            |view| view.weights[0],
        )
        .gaussian()
        .costly(),
        row(
            ("exponential-mechanism, replace-one", "slope +1 or -1; weight"),
            Subject::new(stiff(), replaced, BUDGET, [-1.0, 1.0].map(|t| canaries(2, 1, &[t]))),
            tight,
            |view| view.weights[0],
        )
        .under(Relation::ReplaceOne)
        .gaussian()
        .costly(),
        row(
            ("exponential-mechanism, two draws", "record alone, both draws seen; their sum"),
            Subject::new(shared, problem(2, 1, Loss::Absolute), BUDGET, alone(2)),
            tight,
            |view| view.seen.iter().map(|draw| draw[0]).sum(),
        )
        .gaussian()
        .costly(),
        row(
            ("exponential-mechanism, against a crowd", "30 records push the slope to 1; weight"),
            Subject::new(logistic, problem(31, 1, Loss::Logistic { shift: 0.0 }), (1.0, 1e-5), crowd(31, 1.0)),
            (1e-2, 50_000),
            |view| view.weights[0],
        )
        .costly(),
        of_a_closure(),
    ]
}
