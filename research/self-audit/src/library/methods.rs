//! Whole algorithms, from the plan to the released weights, through the same plan and run that users call.
//!
//! Black-box rows see the answer; white-box rows see all that the event claims: every release of the run.
//!
//! Covers: thesis algorithm 35

use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::Logistic;
use crate::worst_cases::methods::{
    Subject, View, alone, centred, coordinate, crowd, descent, followed, following, gradient, newton_log_ratio,
    problem, sgd,
};
use crate::worst_cases::sums::canaries;
use dpopt_audit::attack::likelihood;
use dpopt_linear::{
    Inverse, NoisyNewton, ObjectivePerturbation, ObjectiveSchedule, OneStep, OneStepSchedule, OutputPerturbation,
    OutputSchedule, RegularizedDescent, ReleasedPreconditioner, SufficientStatistics,
};
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_methods::LastIterateDescent;
use dpopt_objective::loss::{Loss, sigmoid};
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{Accuracy, RegularizedSum, minimise};
use dpopt_optimize::Algorithm;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

/// Records of the small problems; only the first is ever present.
const ROWS: usize = 4;
/// (ε, δ) of all plans here: μ = 1.
pub(super) const BUDGET: (f64, f64) = (4.377, 1e-5);
const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

pub(super) fn row<A: Algorithm>(
    (name, pair): (&'static str, &'static str),
    subject: Subject<A>,
    (delta, runs): (f64, u64),
    statistic: impl Fn(&Subject<A>, &A::Schedule, View) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    LibraryAudit::new(name, pair, subject.event(), (delta, runs), move |with, draws| {
        subject.run(with, draws, &statistic)
    })
}

/// On `ROWS` records, one of them the canary or nothing, at [`BUDGET`].
fn single<A: Algorithm>(
    text: (&'static str, &'static str),
    algorithm: A,
    loss: Loss,
    bound: (f64, u64),
    statistic: impl Fn(&Subject<A>, &A::Schedule, View) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    row(text, Subject::new(algorithm, problem(ROWS, 1, loss), BUDGET, alone(ROWS)), bound, statistic)
}

/// A row for a method that reads its records from disk.
pub(super) fn on_disk<A: Algorithm>(
    (name, pair): (&'static str, &'static str),
    subject: Subject<A>,
    (delta, runs): (f64, u64),
    statistic: impl Fn(&A::Schedule, View) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    let event = subject.event();
    let worlds = subject.spilled().map_err(|e| format!("the rows can't be written to a temporary file: {}", e.kind()));
    let event = worlds.as_ref().map_err(Clone::clone).and(event.as_ref().map_err(Clone::clone)).cloned();
    LibraryAudit::new(name, pair, event, (delta, runs), move |with, draws| {
        let Ok(worlds) = &worlds else { return f64::NAN };
        subject.run_on(&worlds[usize::from(with)], draws, &statistic).unwrap_or(f64::NAN)
    })
}

/// Distance of the exact minimisers over the sensitivity that the noise is made for, times μ.
fn output_reach(subject: &Subject<OutputPerturbation>) -> Reach {
    let Some(schedule) = subject.schedule() else { return Reach::Unknown };
    let minimiser = |with: bool| exact_minimiser(subject.world(with), schedule);
    let distance = (minimiser(true) - minimiser(false)).abs();
    Reach::Mu(distance / schedule.sensitivity / schedule.noise_multiplier)
}

fn exact_minimiser(examples: &Examples, schedule: &OutputSchedule) -> f64 {
    let sum = (schedule.regularization, &[0.0][..]);
    let objective = RegularizedSum::of(examples, &Linear::new(schedule.loss, 1, 1.0), sum, 1.0);
    minimise(&objective, Accuracy { tolerance: schedule.tolerance, steps: schedule.most_solver_steps }).theta.rounded()
        [0]
}

/// Exact log-likelihood ratio of the minimiser against `others` records of the same row and the opposite label.
fn perturbed_log_ratio(others: f64, schedule: &ObjectiveSchedule, weight: f64) -> f64 {
    Logistic { others, feature: 1.0, lambda: schedule.regularization }.log_ratio(weight, schedule.linear_std)
}

/// First step at weight 0: both releases are Gaussian, and the step's scale is proportional to its shift.
fn newton_reach(subject: &Subject<NoisyNewton>) -> Reach {
    let Some(s) = subject.schedule() else { return Reach::Unknown };
    let change = |f: &dyn Fn(&Examples) -> f64| (f(subject.world(true)) - f(subject.world(false))).abs();
    let slope = change(&|world| gradient(world, s.loss, 0.0));
    let step = change(&|world| s.facts.direction(world, &[0.0], &[1.0])[0]) / s.step_sensitivity;
    Reach::Mu(slope.hypot(step) / s.noise_multiplier)
}

/// `steps` steps with λ0 = 5/2: ten opposite records of curvature 1/4 bring H there, where clipping is most sensitive.
fn newton(
    text: (&'static str, &'static str),
    steps: u64,
    inverse: Inverse,
    worlds: [Sensitive<Examples>; 2],
) -> LibraryAudit {
    let algorithm = NoisyNewton { steps: Some(steps), regularization: Some(2.5), inverse, ..Default::default() };
    let rows = past_the_curator::read_for_tests(&worlds[0]).targets.len();
    let subject = Subject::new(algorithm, problem(rows, 1, LOGISTIC), BUDGET, worlds);
    let reach = if steps == 1 { newton_reach(&subject) } else { Reach::Unknown };
    let audit = row(text, subject, (BUDGET.1, 2 * TIGHT_RUNS), |subject, schedule, view| {
        newton_log_ratio([false, true].map(|w| subject.world(w)), schedule, view.seen)
    });
    // one step from weight 0 is exactly Gaussian
    if reach == Reach::Unknown { audit } else { audit.gaussian().reaching(reach) }.costly()
}

/// Records of a problem in which the sizes of residuals can be distinguished from noise; only the first is ever present.
const MANY: usize = 1000;

fn descents() -> Vec<LibraryAudit> {
    let tight = (BUDGET.1, TIGHT_RUNS);
    let replaced =
        Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem(ROWS, 1, Loss::Absolute) };
    let softmax = Loss::Softmax { classes: 3 };
    vec![
        single(
            ("noisy-gradient-descent, all sums seen", "canary clipped in all 4 steps; sum of its coordinate"),
            descent(4),
            Loss::Absolute,
            tight,
            |_, s, view| coordinate(view.seen, 0, s.clip_norm).iter().sum(),
        )
        .gaussian(),
        single(
            ("noisy-gradient-descent, final weights", "canary clipped in all 4 steps; weight"),
            descent(4),
            Loss::Absolute,
            tight,
            |_, _, view| view.weights[0],
        )
        .gaussian(),
        row(
            ("noisy-gradient-descent, replace-one", "record +C or -C; sum of its coordinate over 4 steps"),
            Subject::new(descent(4), replaced, BUDGET, [-1.0, 1.0].map(|t| canaries(ROWS, 1, &[t]))),
            tight,
            |_, s, view| coordinate(view.seen, 0, s.clip_norm).iter().sum(),
        )
        .under(Relation::ReplaceOne)
        .gaussian(),
        single(
            ("noisy-gradient-descent, three classes", "canary clipped in all 4 steps; along its gradient (1, -2, 1)"),
            descent(4),
            softmax,
            tight,
            |_, _, view| view.seen.iter().map(|g| g[0] - 2.0 * g[1] + g[2]).sum::<f64>(),
        )
        .gaussian(),
        row(
            ("centred-descent", "record alone, sum of rows and 4 gradient sums seen; log-likelihood ratio"),
            Subject::new(centred(4), problem(40, 1, softmax), BUDGET, alone(40)),
            tight,
            |_, s, view| {
                // the record's row and a quarter of its squared norm; its gradient is along (1, −2, 1), against the class
                let rows = (view.seen[0][0] + 0.25 * view.seen[0][1]) / (1.0625 * s.mean_multiplier.powi(2));
                let along: f64 = view.seen[1..].iter().map(|g| g[0] - 2.0 * g[1] + g[2]).sum();
                rows + along / 6f64.sqrt() / s.descent.clip_norm / s.descent.noise_multiplier.powi(2)
            },
        )
        .gaussian(),
        row(
            (
                "adaptive-clip-descent, histograms and sums seen",
                "canary alone, clipped in all 8 steps; its cells and its coordinate",
            ),
            Subject::new(following(8), problem(MANY, 1, Loss::Squared), BUDGET, alone(MANY)),
            tight,
            |_, s, view| followed(s, view.seen),
        )
        .gaussian()
        .costly(),
        single(
            ("regularized-descent, all sums seen", "canary at the bound in all 4 steps; sum of its coordinate"),
            RegularizedDescent { steps: Some(4), learning_rate: Some(1e-3), ..RegularizedDescent::default() },
            Loss::Absolute,
            tight,
            |_, s, view| coordinate(view.seen, 0, s.descent.clip_norm).iter().sum(),
        )
        .gaussian(),
        single(
            ("noisy-sgd, q = 1, all sums seen", "canary clipped in all 4 steps; sum of its coordinate"),
            sgd(4, 1.0, false),
            Loss::Absolute,
            tight,
            |_, s, view| coordinate(view.seen, 0, s.clip_norm).iter().sum(),
        )
        .gaussian(),
        single(
            ("noisy-sgd, q = 1, final weights", "canary clipped in all 4 steps; weight"),
            sgd(4, 1.0, false),
            Loss::Absolute,
            tight,
            |_, _, view| view.weights[0],
        )
        .gaussian(),
        single(
            ("noisy-sgd, q = 1, noise drawn lazily", "canary clipped in all 4 steps; weight"),
            sgd(4, 1.0, true),
            Loss::Absolute,
            tight,
            |_, _, view| view.weights[0],
        )
        .with_runs(2)
        .gaussian(),
        single(
            ("noisy-sgd, q = .25, noise drawn lazily", "canary clipped when sampled, 8 steps; weight"),
            sgd(8, 0.25, true),
            Loss::Absolute,
            (1e-2, 100_000),
            |_, _, view| view.weights[0],
        )
        .counting(0.5)
        .costly(),
        single(
            ("noisy-sgd, q = .25, all sums seen", "canary clipped when sampled, 8 steps; exact log-likelihood ratio"),
            sgd(8, 0.25, false),
            Loss::Absolute,
            (1e-2, 100_000),
            |_, s, view| {
                likelihood::poisson(&coordinate(view.seen, 0, s.clip_norm), s.sampling_probability, s.noise_multiplier)
            },
        )
        .counting(0.5)
        .costly(),
        on_disk(
            ("noisy-sgd, q = 1, rows on disk", "canary clipped in all 4 steps; sum of its coordinate"),
            Subject::new(sgd(4, 1.0, false), problem(ROWS, 1, Loss::Absolute), BUDGET, alone(ROWS)),
            tight,
            |s, view| coordinate(view.seen, 0, s.clip_norm).iter().sum(),
        )
        .gaussian()
        .costly(),
        on_disk(
            ("noisy-sgd, q = .25, rows on disk", "canary clipped when sampled, 8 steps; exact log-likelihood ratio"),
            Subject::new(sgd(8, 0.25, false), problem(ROWS, 1, Loss::Absolute), BUDGET, alone(ROWS)),
            (1e-2, 100_000),
            |s, view| {
                likelihood::poisson(&coordinate(view.seen, 0, s.clip_norm), s.sampling_probability, s.noise_multiplier)
            },
        )
        .counting(0.5)
        .costly(),
        single(
            ("noisy-sgd, q = .25, final weights", "canary clipped when sampled, 8 steps; weight"),
            sgd(8, 0.25, false),
            Loss::Absolute,
            (1e-2, 100_000),
            |_, _, view| view.weights[0],
        )
        .counting(0.5)
        .costly(),
    ]
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let mut rows = descents();
    let tight = (BUDGET.1, TIGHT_RUNS);

    let output = OutputPerturbation { regularization: Some(5.0), shift: Some(0.0), ..OutputPerturbation::default() };
    let subject = Subject::new(output, problem(1000, 1, LOGISTIC), BUDGET, crowd(1000, 0.05));
    let reach = output_reach(&subject);
    rows.push(
        row(
            ("output-perturbation", "record of norm 1 against 999 of norm .05; weight"),
            subject,
            (BUDGET.1, TIGHT_RUNS),
            |_, _, view| view.weights[0],
        )
        .gaussian()
        .reaching(reach)
        .costly(),
    );

    let objective = || ObjectivePerturbation { shift: Some(0.0), ..ObjectivePerturbation::default() };
    rows.push(
        row(
            ("objective-perturbation, record alone", "exact log-likelihood ratio of the minimiser"),
            Subject::new(objective(), problem(ROWS, 1, LOGISTIC), (1.0, 1e-5), alone(ROWS)),
            (1e-2, 100_000),
            |_, s, view| perturbed_log_ratio(0.0, s, view.weights[0]),
        )
        .costly(),
    );
    rows.push(
        row(
            ("objective-perturbation, against a crowd", "30 records push the slope to 1; exact log-likelihood ratio"),
            Subject::new(objective(), problem(31, 1, LOGISTIC), (1.0, 1e-5), crowd(31, 1.0)),
            (1e-2, 100_000),
            |_, s, view| perturbed_log_ratio(30.0, s, view.weights[0]),
        )
        .costly(),
    );

    rows.push(newton(
        ("noisy-newton, one step, added", "record alone, gradient and step seen; exact log-likelihood ratio"),
        1,
        Inverse::Add,
        alone(ROWS),
    ));
    rows.push(newton(
        (
            "noisy-newton, one step, clipped",
            "record on top of 10 opposite ones, gradient and step seen; exact log-likelihood ratio",
        ),
        1,
        Inverse::Clip,
        crowd(11, 1.0),
    ));
    rows.push(newton(
        ("noisy-newton, 4 steps, added", "record alone, all gradients and steps seen; exact log-likelihood ratio"),
        4,
        Inverse::Add,
        alone(ROWS),
    ));

    let secret_steps = LastIterateDescent {
        steps: Some(16),
        regularization: Some(0.25),
        shift: Some(0.0),
        ..LastIterateDescent::default()
    };
    rows.push(
        single(
            ("last-iterate", "record alone, 16 secret steps; weight"),
            secret_steps,
            LOGISTIC,
            (BUDGET.1, TIGHT_RUNS),
            |_, _, view| view.weights[0],
        )
        .costly(),
    );

    let preconditioned =
        ReleasedPreconditioner { steps: Some(4), clip_norm: Some(0.05), ..ReleasedPreconditioner::default() };
    rows.push(
        single(
            ("released-preconditioner", "record alone, matrix and 4 sums seen; log-likelihood ratio"),
            preconditioned,
            LOGISTIC,
            tight,
            |_, s, view| {
                let matrix = view.seen[0][0] / s.smoothness / s.matrix_multiplier.powi(2);
                let sums: f64 = coordinate(&view.seen[1..], 0, s.clip_norm).iter().sum();
                matrix + sums / s.gradient_multiplier.powi(2)
            },
        )
        .gaussian(),
    );
    rows.push(
        single(
            ("sufficient-statistics", "record alone, matrix and vector seen; their sum"),
            SufficientStatistics::default(),
            Loss::Squared,
            tight,
            |_, _, view| view.seen[0][0] + view.seen[1][0],
        )
        .gaussian(),
    );
    rows.push(single(
        ("one-step", "record alone, all sums of slopes and curvatures seen; exact log-likelihood ratio"),
        OneStep,
        LOGISTIC,
        tight,
        |_, s, view| one_step_log_ratio(s, &view),
    ));
    rows
}

/// Of a record with feature 1 and label 1 against none: each release is of a vector that the weight before it says.
fn one_step_log_ratio(s: &OneStepSchedule, view: &View) -> f64 {
    let (mut theta, mut ratio) = (0.0, 0.0);
    for (release, seen) in s.releases.iter().zip(view.seen) {
        let slope = sigmoid(-theta);
        let vector = [-slope, release.curvature_weight * slope * (1.0 - slope), release.square_weight * slope * slope];
        let std = release.noise_multiplier * release.clip_norm;
        ratio += vector.iter().zip(seen).map(|(v, x)| (v * x - 0.5 * v * v) / (std * std)).sum::<f64>();
        let curvature = seen[1] / release.curvature_weight;
        let floor = 8f64.sqrt() * std / release.curvature_weight;
        theta -= seen[0] / curvature.max(floor);
    }
    ratio
}
