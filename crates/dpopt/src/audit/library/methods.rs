//! Whole algorithms, from the plan to the released weights, through the same plan and run that users call.

use super::releases::canaries;
use super::{Attack, LibraryAudit, Standard};
use crate::Sensitive;
use crate::audit::catalogue::Logistic;
use crate::audit::draws::Draws;
use crate::data::{Examples, Rows};
use crate::loss::Loss;
use crate::mechanism::Curator;
use crate::optimize::{
    Algorithm, Average, DescentOptions, NoisyGradientDescent, NoisyNewton, NoisySgd, ObjectivePerturbation, OutputPerturbation,
    ReleasedPreconditioner, SufficientStatistics,
};
use crate::plan::{Plan, Problem};
use crate::progress::Silent;
use dpopt_noise::NoiseSource;
use dpopt_privacy::{Budget, Relation};

/// Records of the small problems; only the first is ever present.
const ROWS: usize = 4;

fn problem(rows: usize, loss: Loss) -> Problem {
    Problem { rows: rows as u64, features: 1, nonzeros: 1, row_norm: 1.0, loss, relation: Relation::ZeroOut }
}

/// ε of all plans here, at δ = 1e-5: μ = 1.
const EPSILON: f64 = 4.377;
const DELTA: f64 = 1e-5;

/// Plans `algorithm`, and audits its released weight on the pair, reduced by `statistic`.
fn method<A: Algorithm>(
    (name, pair): (&'static str, &'static str),
    algorithm: A,
    problem: Problem,
    epsilon: f64,
    data: [Sensitive<Examples>; 2],
    (delta, standard, runs): (f64, Standard, u64),
    statistic: impl Fn(&Plan<A::Schedule>, f64) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    let plan = Budget::new(epsilon, DELTA)
        .map_err(|e| e.to_string())
        .and_then(|budget| algorithm.plan(&problem, budget).map_err(|e| e.to_string()));
    let event = plan.as_ref().map(|p| p.summary.certificate.event().clone()).map_err(Clone::clone);
    let run = move |world: bool, draws: &mut Draws| -> f64 {
        let Ok(plan) = &plan else { return f64::NAN };
        let mut curator = Curator::open(&plan.summary.certificate, NoiseSource::insecure(draws.word()));
        let released = algorithm.run(plan, &problem, &data[usize::from(world)], &mut curator, &Silent);
        released.map_or(f64::NAN, |solution| statistic(plan, solution.get().weights[0]))
    };
    LibraryAudit {
        name,
        pair,
        event,
        relation: Relation::ZeroOut,
        delta,
        standard,
        runs,
        attack: Attack::TwoWorlds(Box::new(run)),
    }
}

/// The released weight itself.
fn weight<S>(_: &Plan<S>, weight: f64) -> f64 {
    weight
}

/// Without and with the canary (row e_0, target 1).
fn alone() -> [Sensitive<Examples>; 2] {
    [canaries(ROWS, 1, &[0.0]), canaries(ROWS, 1, &[1.0])]
}

/// 1000 records of norm .05 with label −1 push the slope of the one with norm 1 to its bound (spec 17 §2).
fn crowd(with: bool) -> Sensitive<Examples> {
    let mut rows = Rows::new(1);
    let mut targets = vec![-1.0f32; 1000];
    for i in 0..1000 {
        match (i, with) {
            (0, true) => {
                rows.push_clipped(&mut [(0, 1.0)], 1.0);
                targets[0] = 1.0;
            }
            (0, false) => {
                rows.push_zero();
                targets[0] = 0.0;
            }
            _ => rows.push_clipped(&mut [(0, 0.05)], 1.0),
        }
    }
    Sensitive::new(Examples { rows, targets })
}

/// Eight plain steps whose last iterate is the answer.
fn eight_steps() -> DescentOptions {
    DescentOptions {
        steps: Some(8),
        learning_rate: Some(1e-3),
        momentum: Some(0.0),
        average: Average::Last,
        ..DescentOptions::default()
    }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let logistic = Loss::Logistic { shift: 0.0 };
    vec![
        method(
            ("noisy-gradient-descent, final weights", "canary clipped in all 8 steps; weight"),
            NoisyGradientDescent { descent: eight_steps() },
            problem(ROWS, Loss::Absolute),
            EPSILON,
            alone(),
            (DELTA, Standard::GaussianShare(0.9), 60_000),
            weight,
        ),
        method(
            ("noisy-sgd, q = 1, final weights", "canary clipped in all 8 steps; weight"),
            NoisySgd { sampling_probability: Some(1.0), lazy: None, descent: eight_steps() },
            problem(ROWS, Loss::Absolute),
            EPSILON,
            alone(),
            (DELTA, Standard::GaussianShare(0.9), 60_000),
            weight,
        ),
        method(
            ("noisy-sgd, q = .25, final weights", "canary clipped when sampled, 8 steps; weight"),
            NoisySgd { sampling_probability: Some(0.25), lazy: None, descent: eight_steps() },
            problem(ROWS, Loss::Absolute),
            EPSILON,
            alone(),
            (1e-2, Standard::Share(0.5), 60_000),
            weight,
        ),
        method(
            ("output-perturbation", "record of norm 1 against 999 of norm .05; weight"),
            OutputPerturbation { regularization: Some(5.0), shift: Some(0.0), ..OutputPerturbation::default() },
            problem(1000, logistic),
            EPSILON,
            [crowd(false), crowd(true)],
            (DELTA, Standard::GaussianShare(0.7), 20_000),
            weight,
        ),
        method(
            ("objective-perturbation", "record alone; exact log-likelihood ratio of the minimiser"),
            ObjectivePerturbation { shift: Some(0.0), ..ObjectivePerturbation::default() },
            problem(ROWS, logistic),
            1.0,
            alone(),
            (1e-2, Standard::Sound, 40_000),
            |plan, w| {
                let schedule = &plan.schedule;
                Logistic { others: 0.0, feature: 1.0, lambda: schedule.regularization }.log_ratio(w, schedule.linear_std)
            },
        ),
        method(
            ("noisy-newton", "record alone; weight"),
            NoisyNewton { steps: Some(2), ..NoisyNewton::default() },
            problem(ROWS, logistic),
            EPSILON,
            alone(),
            (DELTA, Standard::Sound, 40_000),
            weight,
        ),
        method(
            ("released-preconditioner", "record alone; weight"),
            ReleasedPreconditioner { steps: Some(4), ..ReleasedPreconditioner::default() },
            problem(ROWS, logistic),
            EPSILON,
            alone(),
            (DELTA, Standard::Sound, 40_000),
            weight,
        ),
        method(
            ("sufficient-statistics", "record alone; weight"),
            SufficientStatistics::default(),
            problem(ROWS, Loss::Squared),
            EPSILON,
            alone(),
            (DELTA, Standard::Sound, 40_000),
            weight,
        ),
    ]
}
