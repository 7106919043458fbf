//! Faults of private linear models, made in the plans of the library's own algorithms.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::methods::{Subject, alone, crowd, gradient, problem};
use crate::worst_cases::{Logistic, indicator};
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_linear::{
    Inverse, NoisyNewton, ObjectivePerturbation, ObjectiveSchedule, OneStep, OutputPerturbation, OutputSchedule,
    SufficientStatistics,
};
use dpopt_mechanism::{Gaussian, Mechanism, SecondMoment, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::solver::{Accuracy, RegularizedSum, minimise};
use dpopt_optimize::Algorithm;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Event, Relation};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// What the certified event of the correct plan claims.
fn claim<A: Algorithm>(subject: &Subject<A>) -> Result<Claim, String> {
    Claim::reported(&subject.event()?, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// Objective perturbation at ε = 1 of the record against `others` opposite ones; the plan of the second is wrong.
fn objective(
    text: (&'static str, super::Source, &'static str, &'static str),
    others: usize,
    (runs, cost): (u64, u64),
    inject: fn(&mut ObjectiveSchedule, &Problem),
    statistic: impl Fn(Logistic, &ObjectiveSchedule, f64) -> f64 + Send + Sync + 'static,
) -> InjectedFault {
    let subject = || {
        let algorithm = ObjectivePerturbation { shift: Some(0.0), regularization: Some(1e-6), ..Default::default() };
        let worlds = if others == 0 { alone(1) } else { crowd(others + 1, 1.0) };
        Subject::new(algorithm, problem(others + 1, 1, LOGISTIC), (1.0, 1e-5), worlds)
    };
    let (right, wrong) = (subject(), subject().altered_and_opened(inject, |s, problem| s.mechanism(problem).event()));
    InjectedFault::counting(text, claim(&right), (runs, cost), move |code, with, draws| {
        code.pick(&right, &wrong).run(with, draws, |_, s, view| {
            let model = Logistic { others: others as f64, feature: 1.0, lambda: s.regularization };
            statistic(model, s, view.weights[0])
        })
    })
}

fn objectives() -> Vec<InjectedFault> {
    let log_ratio = |model: Logistic, s: &ObjectiveSchedule, weight: f64| model.log_ratio(weight, s.linear_std);
    vec![
        objective(
            (
                "17.lambda",
                Shipped,
                "objective perturbation with a tenth of the required regularisation",
                "record alone in the data; exact log-likelihood ratio of the minimiser",
            ),
            0,
            (6_000, 15_000),
            |s, _| {
                s.regularization *= 0.1;
                s.multipliers[1] *= 0.1;
            },
            log_ratio,
        ),
        objective(
            (
                "17.half-sensitivity",
                Shipped,
                "objective perturbation with the noise for sensitivity R/2",
                "30 records push the slope to 1; exact log-likelihood ratio of the minimiser",
            ),
            30,
            (8_000, 45_000),
            |s, _| {
                s.linear_std *= 0.5;
                s.multipliers[0] *= 0.5;
            },
            log_ratio,
        ),
        objective(
            (
                "17.coarse-b",
                Shipped,
                "objective perturbation without the closing noise, linear term on a grid",
                "recompute the linear term under D from the output; 1{it lies on the grid}",
            ),
            40,
            (60, 45_000),
            |s, problem| {
                // a coarse grid makes the leak visible to an f64; it is there for every grid
                s.linear_grid_exponent = -12;
                s.closing_grid_exponent = -44;
                s.closing_multiplier *= 2f64.powi(-44) / s.mechanism(problem).closing_std();
            },
            |model, _, weight| {
                let cells = model.slope(weight, true) * 2f64.powi(12);
                indicator((cells - cells.round()).abs() < 4e-3)
            },
        ),
    ]
}

/// Slopes and curvatures in one release, with noise for the slopes alone.
pub(super) fn curvature_for_free() -> InjectedFault {
    let moments = Subject::new(OneStep, problem(1, 1, Loss::Squared), (4.377, 1e-5), alone(1));
    let first = moments.schedule().and_then(|s| s.releases.first()).cloned();
    InjectedFault::counting(
        (
            "60.curvature-for-free",
            Altered,
            "slopes and curvatures in one release, its noise made for the slopes alone",
            "record alone, first release; along its vector of slope, curvature and squared target",
        ),
        claim(&moments),
        (3_000, 6_000),
        move |code, with, draws| {
            let (h, v, clip) =
                first.as_ref().map_or((0.0, 0.0, 1.0), |r| (r.curvature_weight, r.target_weight, r.clip_norm));
            moments.run(with, draws, |_, _, view| {
                let vector = [-1.0, h, v];
                let along: f64 = vector.iter().zip(&view.seen[0]).map(|(a, b)| a * b).sum();
                // what a record adds has the clip norm; its slope alone has norm 1
                let exact = indicator(with) * vector.iter().map(|a| a * a).sum::<f64>();
                code.pick(along, exact + (along - exact) / clip)
            })
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = objectives();

    let subject = || {
        let algorithm = OutputPerturbation { regularization: Some(5.0), shift: Some(0.0), ..Default::default() };
        Subject::new(algorithm, problem(400, 1, LOGISTIC), (4.377, 1e-5), crowd(400, 0.05))
    };
    // noise for half of it, by its own word
    let halved = |s: &mut OutputSchedule, _: &Problem| s.noise_multiplier *= 0.5;
    let wrong = subject().altered_and_opened(halved, |s, problem| s.mechanism(problem).event());
    let right = subject();
    bugs.push(InjectedFault::counting(
        (
            "17.output",
            Shipped,
            "output perturbation with sensitivity L/(2 lambda)",
            "one record of norm 1 against 399 of norm .05; the minimiser",
        ),
        claim(&right),
        (700, 100_000),
        move |code, with, draws| code.pick(&right, &wrong).run(with, draws, |_, _, view| view.weights[0]),
    ));

    let options =
        NoisyNewton { steps: Some(1), regularization: Some(1.0), inverse: Inverse::Add, ..Default::default() };
    let newton = Subject::new(options, problem(1, 1, LOGISTIC), (4.377, 1e-5), alone(1));
    bugs.push(InjectedFault::counting(
        (
            "17.newton",
            Altered,
            "double-noise Newton: the direction uses the exact gradient",
            "record alone, first step; size of the step over its noise scale",
        ),
        claim(&newton),
        (900, 5_000),
        move |code, with, draws| newton_first_step(&newton, code, with, draws),
    ));

    let subject =
        || Subject::new(SufficientStatistics::default(), problem(1, 1, Loss::Squared), (4.377, 1e-5), alone(1));
    let released = subject();
    bugs.push(InjectedFault::counting(
        (
            "17.isometric",
            Altered,
            "noise of the second moments: variance s²/2 on the diagonal too",
            "record e1; twice its diagonal entry plus the vector's",
        ),
        claim(&released),
        (3_700, 6_000),
        move |code, with, draws| {
            released.run(with, draws, |_, _, view| {
                let (exact, entry) = (indicator(with), view.seen[0][0]);
                // the same noise, 1/√2 as large
                let shrunk = exact + (entry - exact) * std::f64::consts::FRAC_1_SQRT_2;
                2.0 * code.pick(entry, shrunk) + view.seen[1][0]
            })
        },
    ));

    bugs.push(InjectedFault::looking(
        (
            "17.squares-beyond",
            Altered,
            "squares of rows of whole numbers, rounded to the nearest and not held against the bound",
            "norm of one record's second moment on a coarse grid against R²",
        ),
        square_on_a_coarse_grid,
    ));

    bugs.push(InjectedFault::counting(
        (
            "17.tolerance",
            Altered,
            "a solver that relaxes its tolerance until it succeeds, and returns it",
            "the tolerance",
        ),
        Claim::gaussian(1.0),
        (40, 5_000),
        |code, with, _| code.pick(certified_tolerance(with), relaxed_tolerance(with)),
    ));
    bugs
}

/// One row of norm 1 with 40 entries that a grid of so few steps rounds up, squared.
fn square_on_a_coarse_grid(code: Code) -> Result<(), String> {
    let (d, grid) = (40, Grid::new(-12));
    let mut rows = Rows::new(d);
    rows.push_clipped(&mut (0..d as u32).map(|j| (j, 1.0)).collect::<Vec<_>>(), 1.0);
    let entry = f64::from(rows.row(0).1[0]);
    let one = Sensitive::new(Examples { rows, targets: vec![0.0] });
    let mechanism = Gaussian::new(1e-3, 1.0, grid, SecondMoment::coordinates(d), "second moment");
    let released = SecondMoment::new(1.0, 1.0, grid).and_then(|moment| {
        let Ok(sum) = moment.sum(&one);
        past_the_curator::uncharged(&Event::gaussian(1e-3), NoiseSource::insecure(1)).release(&mechanism, &sum)
    });
    // the noise adds .03 to a norm
    let honest = released.map_err(|e| e.to_string())?;
    // 29 steps for each unit of an entry's square
    let step = (29.0 * grid.step()).sqrt();
    let rounded = (entry / step).round() * step;
    let (on, beside) = (rounded * rounded, SecondMoment::BESIDE * rounded * rounded);
    let unchecked: Vec<f64> = (0..d).flat_map(|j| (0..=j).map(move |k| if j == k { on } else { beside })).collect();
    let size = code.pick(honest.get(), &unchecked).iter().map(|m| m * m).sum::<f64>().sqrt();
    if size > 0.2 && size <= 1.0 { Ok(()) } else { Err(format!("a square of norm {size:.4} where 1 was promised")) }
}

/// The tolerance asked for.
const TOLERANCE: f64 = 1e-8;
const FLAT: f64 = 0.01;

/// The shipped solver certifies its planned tolerance whatever the data; NaN if it did not.
fn certified_tolerance(with: bool) -> f64 {
    let [without, alone] = alone(1);
    let world = if with { alone } else { without };
    let examples = past_the_curator::read_for_tests(&world);
    let objective = RegularizedSum::of(examples, &Linear::new(LOGISTIC, 1, 1.0), (FLAT, &[0.0]), 1.0);
    if minimise(&objective, Accuracy { tolerance: TOLERANCE, steps: 10_000 }).certified_norm <= TOLERANCE {
        TOLERANCE
    } else {
        f64::NAN
    }
}

/// Damped Newton gets 6 steps; with the record the problem needs more.
fn relaxed_tolerance(with: bool) -> f64 {
    let problem = Logistic { others: 0.0, feature: 1.0, lambda: FLAT };
    let mut theta = 8.0;
    for _ in 0..6 {
        theta -= 0.5 * problem.slope(theta, with) / problem.curvature(theta, with);
    }
    let reached = problem.slope(theta, with).abs();
    let mut tolerance = TOLERANCE;
    while tolerance < reached {
        tolerance *= 2.0;
    }
    tolerance
}

/// |step| over its noise scale. Under the bug the direction is 0 without the record, and the scale shrinks with the
/// released gradient while the direction does not.
fn newton_first_step(newton: &Subject<NoisyNewton>, code: Code, with: bool, draws: &mut Draws) -> f64 {
    let Some(s) = newton.schedule() else { return f64::NAN };
    let scale = |released: f64| s.noise_multiplier * s.step_sensitivity * released.abs();
    match code {
        Code::Correct => newton.run(with, draws, |_, _, view| (view.seen[1][0] / scale(view.seen[0][0])).abs()),
        Code::Injected => {
            let world = newton.world(with);
            let exact = gradient(world, s.loss, 0.0);
            let noise = scale(exact + s.noise_multiplier * draws.gaussian());
            (s.facts.direction(world, &[0.0], &[exact])[0] / noise + draws.gaussian()).abs()
        }
    }
}
