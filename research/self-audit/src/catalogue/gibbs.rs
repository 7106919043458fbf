//! Faults of the exponential mechanism and its sampler (Liu 2024, chapter 3; docs/proofs/gibbs-gdp.md, docs/proofs/proximal-sampler.md).
//!
//! Covers: thesis theorem 3.6.2 (03.difference, 03.free-draws)
//! Covers: thesis theorem 3.6.4 (03.tau)
//! Covers: thesis algorithm 13, theorem 3.5.2 (03.rounds, 03.hope, 03.flat)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::library::gibbs::{ideal, stiff};
use crate::worst_cases::methods::{Subject, alone, problem};
use crate::worst_cases::sums::canaries;
use dpopt_audit::statistics::Claim;
use dpopt_audit::statistics::laws::ks_distance;
use dpopt_linear::{ExponentialMechanism, GibbsSchedule};
use dpopt_mechanism::sampler::{Chain, Contraction, Convexity, Domain, Oracle, Potential};
use dpopt_mechanism::{GibbsChain, Mechanism, past_the_curator};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::loss::Loss;
use dpopt_optimize::Algorithm;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::special::{gaussian_mu, normal_cdf};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};

const BUDGET: (f64, f64) = (4.377, 1e-5);

fn claim(subject: &Subject<ExponentialMechanism>, relation: Relation) -> Result<Claim, String> {
    Claim::reported(&ideal(subject.event()?), relation, super::DELTA).map_err(|e| e.to_string())
}

/// Draws by another chain than was proved.
pub(super) fn inject(schedule: &mut GibbsSchedule, change: impl FnOnce(&mut GibbsChain)) {
    schedule.mechanism = past_the_curator::altered_draw(schedule.mechanism.clone(), change);
}

pub(super) fn hotter(schedule: &mut GibbsSchedule, _: &Problem) {
    inject(schedule, |chain| chain.inverse_temperature *= 4.0);
}

/// What a run with this schedule releases, by its own word.
pub(super) fn says(schedule: &GibbsSchedule, _: &Problem) -> Event {
    schedule.mechanism.event().self_composed(schedule.draws)
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();

    let replaced = || {
        let facts =
            Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem(2, 1, Loss::Absolute) };
        Subject::new(stiff(), facts, BUDGET, [-1.0, 1.0].map(|t| canaries(2, 1, &[t])))
    };
    // G_Δ := G: four times the temperature that 2G allows
    let (right, wrong) = (replaced(), replaced().altered_and_opened(hotter, says));
    bugs.push(InjectedFault::counting(
        (
            "03.difference",
            Shipped,
            "temperature for the Lipschitz constant of one loss where a record is replaced (twice that)",
            "slope +1 against -1 through the exponential mechanism; weight",
        ),
        claim(&right, Relation::ReplaceOne),
        (211, 200_000),
        move |code, with, draws| code.pick(&right, &wrong).run(with, draws, |_, _, view| view.weights[0]),
    ));

    let alone_in = || Subject::new(stiff(), problem(2, 1, Loss::Huber { threshold: 0.5 }), BUDGET, alone(2));
    let (right, wrong) = (
        alone_in(),
        alone_in().altered(|s| {
            inject(s, |chain| {
                chain.rounds = 1;
                chain.step_std *= 0.05;
            });
        }),
    );
    bugs.push(InjectedFault::counting(
        (
            "03.rounds",
            Shipped,
            "the sampler stops after one short round at the minimiser",
            "record alone, smooth loss in its linear part; weight",
        ),
        claim(&right, Relation::ZeroOut),
        (120, 200_000),
        move |code, with, draws| code.pick(&right, &wrong).run(with, draws, |_, _, view| view.weights[0]),
    ));

    let shared = || {
        let algorithm = ExponentialMechanism { draws: Some(4), ..stiff() };
        Subject::new(algorithm, problem(2, 1, Loss::Absolute), BUDGET, alone(2))
    };
    // β is proportional to s²
    let (right, wrong) = (shared(), shared().altered_and_opened(hotter, says));
    bugs.push(InjectedFault::counting(
        (
            "03.free-draws",
            Shipped,
            "four draws, each at the temperature of the whole budget",
            "record alone, all draws seen; their sum",
        ),
        claim(&right, Relation::ZeroOut),
        (211, 800_000),
        move |code, with, draws| {
            code.pick(&right, &wrong).run(with, draws, |_, _, view| view.seen.iter().map(|d| d[0]).sum())
        },
    ));

    bugs.push(InjectedFault::looking(
        (
            "03.tau",
            Shipped,
            "the sampler's error added to delta without the factor 1 + e^epsilon",
            "certification at epsilon = 8",
        ),
        samplers_error,
    ));
    bugs.push(InjectedFault::looking(
        (
            "03.hope",
            Shipped,
            "a certificate that takes the hoped-for distance to the minimiser for the enforced one",
            "chain for a Gaussian a hundred times as far away; Kolmogorov",
        ),
        hoped_distance,
    ));
    bugs.push(InjectedFault::looking(
        ("03.flat", Altered, "a certificate for a density that is not strongly log-concave", "the planner"),
        flat_density,
    ));
    bugs
}

/// (ε, δ) = (8, 1e-6), a tenth of δ for a sampler within τ.
fn samplers_error(code: Code) -> Result<(), String> {
    let (epsilon, delta) = (8.0f64, 1e-6);
    let tau = code.pick(0.1 * delta / (1.0 + epsilon.exp()), 0.1 * delta);
    let event = Event::Gdp { mu: gaussian_mu(epsilon, 0.89 * delta) }.approximate(tau);
    let budget = Budget::new(epsilon, delta).map_err(|e| e.to_string())?;
    certify(&event, Neighbours::of_records(Relation::ZeroOut).within(budget)).map(drop).map_err(|e| e.to_string())
}

/// F(x) = slope·x.
struct Line(f64);

impl Potential for Line {
    fn dimension(&self) -> usize {
        1
    }
    fn scale(&self) -> f64 {
        1.0
    }
    fn terms(&self) -> usize {
        1
    }
    fn value(&self, x: &[f64]) -> f64 {
        self.0 * x[0]
    }
    fn value_and_subgradient(&self, x: &[f64], g: &mut [f64]) -> f64 {
        g[0] = self.0;
        self.value(x)
    }
    fn term(&self, _: usize, x: &[f64]) -> f64 {
        self.value(x)
    }
}

fn sample(chain: &Chain, potential: &Line, start: f64, count: usize) -> Vec<f64> {
    let mut stream = NoiseSource::insecure(31).stream(Purpose::Audit, 0);
    (0..count).filter_map(|_| chain.run(potential, &[start], &mut stream).0.ok()).map(|x| x[0]).collect()
}

/// e^(40x − 2x²): mean 10, variance 1/4; the chain starts at 0 and hopes for 0.1.
fn hoped_distance(code: Code) -> Result<(), String> {
    let contraction = Contraction {
        step_std: 0.3,
        strong_convexity: 4.0,
        start_distance: code.pick(10.0, 0.1),
        dimension: 1,
        oscillation: 0.0,
    };
    let chain = Chain {
        steps: contraction.steps(1e-2).ok_or("no certificate")?,
        step_std: 0.3,
        convexity: 4.0,
        centre: vec![0.0],
        domain: Domain::Whole { radius: 100.0 },
        oracle: Oracle::Convexity(Convexity { slack: 1e-9, ..Convexity::default() }),
        grid: 2f64.powi(-40),
    };
    let mut drawn = sample(&chain, &Line(-40.0), 0.0, 100_000);
    let distance = ks_distance(&mut drawn, |x| normal_cdf((x - 10.0) / 0.5));
    // the certificate allows 1e-2, sampling adds at most 0.0092 with probability 1 − 1e-7
    if distance > 1e-2 + 0.0092 { Err(format!("Kolmogorov distance {distance:.4}")) } else { Ok(()) }
}

/// λ = 0 has no certificate; a planner that would treat it as m = 1e-300 finds none either.
fn flat_density(code: Code) -> Result<(), String> {
    let budget = Budget::new(1.0, 1e-6).map_err(|e| e.to_string())?;
    let options = ExponentialMechanism { regularization: Some(code.pick(1.0, 0.0)), shift: Some(0.0), ..stiff() };
    options.plan(&problem(100, 2, Loss::Logistic { shift: 0.0 }), budget).map(drop).map_err(|e| e.to_string())
}
