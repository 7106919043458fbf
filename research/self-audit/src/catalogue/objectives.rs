//! Bugs of the minimization of somebody's own objective (docs/proofs/minimize.md).
//!
//! Covers: thesis algorithm 2, theorem 1.3.1, theorem 1.6.3 (01.one-sided, 23.without-replacement)
//! Covers: thesis algorithm 5, algorithm 37 (23.block-overlap)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::methods::{self, Subject, alone, gradient};
use crate::worst_cases::streams::Filter;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, Batching, Correlation, Sensitive, StreamShape, past_the_curator};
use dpopt_methods::LastIterateDescent;
use dpopt_minimize::{
    Answers, Batches, Directions, Goal, InMemory, MinimizePlan, MinimizeProblem, PerRecord, ReadByObjective, choose,
    run,
};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Closures;
use dpopt_optimize::{MethodOptions, RunError};
use dpopt_privacy::accountant::epsilon as certified_epsilon;
use dpopt_privacy::special::normal_cdf;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

const RECORDS: u64 = 4;
/// The number K of directions.
const DIRECTIONS: usize = 16;
/// (ε, δ) of the plan: μ = 1.
const BUDGET: (f64, f64) = (4.377, 1e-5);

fn problem() -> MinimizeProblem {
    let neighbours = Neighbours::of_records(Relation::ZeroOut);
    MinimizeProblem { answers: Answers::Values, ..MinimizeProblem::new(RECORDS, 1, neighbours) }
}

/// A linear loss for each of `records` records of gradients.
fn slopes(records: u64) -> MinimizeProblem {
    MinimizeProblem {
        smoothness: Some(1.0),
        strong_convexity: 1.0,
        ..MinimizeProblem::new(records, 1, Neighbours::of_records(Relation::ZeroOut))
    }
}

fn plan_of(records: u64, epsilon: f64, options: &MethodOptions) -> Result<MinimizePlan, String> {
    let budget = Budget::new(epsilon, BUDGET.1).map_err(|e| e.to_string())?;
    choose(&slopes(records), budget, options).map_err(|e| e.to_string())
}

fn claim_of(plan: &Result<MinimizePlan, String>) -> Result<Claim, String> {
    let event = plan.as_ref().map_err(Clone::clone)?.certificate.event();
    Claim::reported(event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// The noisy sums that a run of `plan` lets out, each divided by its own noise; the first record's slope is 1 or 0, those of the others are `others`.
fn sums(
    plan: &MinimizePlan,
    records: u64,
    event: &Event,
    (with, others): (bool, f64),
    draws: &mut Draws,
) -> Option<Vec<f64>> {
    let mut slopes_of_records = vec![others; records as usize];
    *slopes_of_records.first_mut()? = f64::from(u8::from(with));
    let records_of_run = Sensitive::new(slopes_of_records);
    let objective =
        Closures::new(1, |x: &[f64], slope: &f64| slope * x[0], |_: &[f64], slope: &f64, g: &mut [f64]| g[0] = *slope);
    let mut curator = past_the_curator::watched(event, NoiseSource::insecure(draws.word()));
    let source = InMemory::new(objective, &records_of_run);
    run(&slopes(records), plan, &[0.0], source, &mut curator, &Silent).ok()?;
    Some(past_the_curator::seen(&curator).into_iter().flatten().collect())
}

/// Phases that all read everybody's records, with the noise of phases on blocks of their own.
fn overlapping_blocks() -> InjectedFault {
    const ALL: u64 = 256;
    let options =
        MethodOptions::of("noisy-sgd").with("goal", "population").with("steps", 1).with("sampling_probability", 1.0);
    let plan = plan_of(ALL, BUDGET.0, &options);
    let claim = claim_of(&plan);
    InjectedFault::counting(
        (
            "23.block-overlap",
            Shipped,
            "of two phases for the population both read all records, with the noise of phases that read a block each",
            "record or none, sum of all that is released",
        ),
        claim,
        (1_050, 60_000),
        move |code, with, draws| {
            let released = plan.as_ref().ok().and_then(|plan| {
                let mut plan = plan.clone();
                let step = Event::gaussian(plan.schedule.noise_multiplier);
                let phases = plan.schedule.phases.len() as u64;
                let event = code.pick(plan.certificate.event().clone(), step.self_composed(phases));
                if code == Code::Injected {
                    plan.schedule.goal = Goal::Empirical;
                    plan.schedule.phases.iter_mut().for_each(|phase| phase.records = ALL);
                }
                sums(&plan, ALL, &event, (with, 0.0), draws)
            });
            released.map_or(f64::NAN, |sums| sums.iter().sum())
        },
    )
}

/// Two rounds on the same records, each with the noise of a round that is alone.
fn budget_twice() -> InjectedFault {
    let options = MethodOptions::of("accelerated").with("steps", 1).with("sampling_probability", 1.0);
    let once = plan_of(RECORDS, BUDGET.0, &options);
    let twice = plan_of(RECORDS, BUDGET.0, &options.with("restarts", 2));
    let claim = claim_of(&twice);
    InjectedFault::counting(
        (
            "23.restarts",
            Shipped,
            "two rounds on the same records, each with the noise of a run of one round",
            "record or none, sum of all that is released, each over its variance",
        ),
        claim,
        (1_050, 20_000),
        move |code, with, draws| {
            let (Ok(once), Ok(twice)) = (&once, &twice) else { return f64::NAN };
            let mut plan = twice.clone();
            if code == Code::Injected {
                plan.schedule.phases.iter_mut().for_each(|phase| {
                    phase.noise_multiplier = once.schedule.noise_multiplier;
                });
            }
            let noises: Vec<f64> = plan.schedule.phases.iter().map(|phase| phase.noise_multiplier).collect();
            let event = Event::composed(noises.iter().map(|&z| Event::gaussian(z)).collect());
            let released = sums(&plan, RECORDS, &event, (with, 0.0), draws);
            released.map_or(f64::NAN, |sums| sums.iter().zip(&noises).map(|(sum, z)| sum / (z * z)).sum())
        },
    )
}

/// Batches of one of ten records with the noise of Poisson batches: another record, at the other end, takes the slot of a zeroed one.
fn without_replacement() -> InjectedFault {
    const ALL: u64 = 10;
    let options = MethodOptions::of("noisy-sgd").with("steps", 1).with("sampling_probability", 0.1);
    // noise of about C
    let poisson = plan_of(ALL, 1.8, &options);
    let fixed = plan_of(ALL, 1.8, &options.with("batches", "fixed"));
    let claim = claim_of(&fixed);
    InjectedFault::counting(
        (
            "23.without-replacement",
            Shipped,
            "batches of fixed size with the noise of Poisson batches (q = .1)",
            "record at C or zeroed, all others at -C; noisy sum",
        ),
        claim,
        (10_000, 40_000),
        move |code, with, draws| {
            let (Ok(poisson), Ok(fixed)) = (&poisson, &fixed) else { return f64::NAN };
            let mut plan = fixed.clone();
            let z = code.pick(fixed, poisson).schedule.noise_multiplier;
            plan.schedule.noise_multiplier = z;
            let event = Event::gaussian(z).sampled_without_replacement(ALL, 1);
            let released = sums(&plan, ALL, &event, (with, -1.0), draws);
            released.and_then(|sums| sums.first().copied()).unwrap_or(f64::NAN)
        },
    )
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

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![each_derivative(), without_replacement(), overlapping_blocks(), budget_twice(), averaged_iterates()]
}

/// Clip norms that the two gradients of a difference are cut to by themselves, or none.
struct TwoPoints {
    slopes: [f64; 2],
    by_itself: Option<f64>,
}

impl TwoPoints {
    /// One way at 0, where a run starts, and the other way everywhere else: as a record near a kink does.
    fn slope(&self, record: u64, x: f64) -> f64 {
        let slope = if x == 0.0 { -self.slopes[record as usize] } else { self.slopes[record as usize] };
        self.by_itself.map_or(slope, |c| slope.clamp(-c, c))
    }
}

impl PerRecord for TwoPoints {
    fn gradients(&mut self, records: &[u64], x: &[f64], sum: &mut BatchSum) -> Result<(), RunError> {
        Ok(sum.add(records.len(), |k, out| out.push(self.slope(records[k], x[0])))?)
    }

    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError> {
        let difference = |i: u64| terms.iter().map(|(w, x)| w * self.slope(i, x[0])).sum();
        Ok(sum.add(records.len(), |k, out| out.push(difference(records[k])))?)
    }

    fn derivatives(&mut self, _: &[u64], _: &[f64], _: &Directions, _: &mut BatchSum) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }

    fn values(&mut self, _: &[u64], _: &[f64], _: &mut Vec<f64>) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }
}

/// Of a recursive gradient's two parts each is clipped by itself: 2·C − (−C) is three times what noise is made for.
pub(super) fn separate_clips() -> InjectedFault {
    const STEPS: u64 = 2;
    let options = MethodOptions::of("accelerated-srgd").with("steps", STEPS);
    let problem = MinimizeProblem { remote: true, ..slopes(STEPS) };
    let budget = Budget::new(BUDGET.0, BUDGET.1).map_err(|e| e.to_string());
    let plan = budget.and_then(|budget| choose(&problem, budget, &options).map_err(|e| e.to_string()));
    let claim = claim_of(&plan);
    let filter = Filter::new(StreamShape { batches: 2, steps: 2, correlation: Correlation::Blt }, &[1]);
    InjectedFault::counting(
        (
            "23.separate-clips",
            Shipped,
            "of the weighted difference of a record's two gradients each is clipped by itself, and noise is made for one vector of that norm",
            "record in the second of two batches whose slope turns, or none; both sums, matched filter",
        ),
        claim,
        (150, 40_000),
        move |code, with, draws| {
            let (Ok(plan), Ok(filter)) = (&plan, &filter) else { return f64::NAN };
            let mut plan = plan.clone();
            let clip = plan.schedule.clip_norm;
            // the second batch is the second record's
            if let Batches::Stream { batching, .. } = &mut plan.schedule.batches {
                *batching = Batching::Position;
            }
            let slope = if with { 1e3 } else { 0.0 };
            let mut objective = TwoPoints { slopes: [0.0, slope], by_itself: None };
            if code == Code::Injected {
                objective.by_itself = Some(clip);
                // 2C + C is a vector of norm 3C; the noise stays
                plan.schedule.clip_norm *= 3.0;
                plan.schedule.noise_multiplier /= 3.0;
            }
            let event = Event::gaussian(plan.schedule.noise_multiplier);
            let mut curator = past_the_curator::watched(&event, NoiseSource::insecure(draws.word()));
            let source = ReadByObjective::new(objective, STEPS as usize);
            if run(&problem, &plan, &[0.0], source, &mut curator, &Silent).is_err() {
                return f64::NAN;
            }
            let sums: Vec<f64> = past_the_curator::seen(&curator).into_iter().flatten().collect();
            filter.apply(&sums)
        },
    )
}

/// Φ(−z): chance that a standard normal is above z.
fn above(z: f64) -> f64 {
    normal_cdf(-z)
}

/// q·N(s) + (1 − q)·N(0) against N(0), noise 1: P{mixture > z}, P{N(0) > z}, and the densities of both over that of N(0).
struct Mixture {
    q: f64,
    shift: f64,
}

impl Mixture {
    fn over(&self, z: f64) -> f64 {
        1.0 - self.q + self.q * (self.shift * z - 0.5 * self.shift * self.shift).exp()
    }

    /// Where the mixture's density is γ times the other.
    fn border(&self, gamma: f64) -> f64 {
        match (gamma - (1.0 - self.q)) / self.q {
            ratio if ratio > 0.0 => ratio.ln() / self.shift + 0.5 * self.shift,
            _ => f64::NEG_INFINITY,
        }
    }

    fn beyond(&self, z: f64) -> f64 {
        (1.0 - self.q) * above(z) + self.q * above(z - self.shift)
    }

    /// The larger hockey-stick divergence of the two orders at γ.
    fn divergence(&self, gamma: f64) -> f64 {
        let (up, down) = (self.border(gamma), self.border(1.0 / gamma));
        let first = self.beyond(up) - gamma * above(up);
        let second = (1.0 - above(down)) - gamma * (1.0 - self.beyond(down));
        first.max(second)
    }
}

/// δ at ε of two batches without replacement under replace-one, by an adversary who chooses, before each, whether the other records look like the one record or like the
/// other: the second time by what the first answered.
fn two_batches(q: f64, shift: f64, epsilon: f64) -> f64 {
    let mixture = Mixture { q, shift };
    let width = 1e-3;
    let integral = |first: &dyn Fn(f64) -> (f64, f64)| {
        let each = (-9_000..11_000).map(|i| {
            let z = width * (f64::from(i) + 0.5);
            let normal = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
            let (p, q) = first(z);
            normal * p * mixture.divergence(epsilon.exp() * q / p)
        });
        width * each.sum::<f64>()
    };
    integral(&|z| (mixture.over(z), 1.0)).max(integral(&|z| (1.0, mixture.over(z))))
}

/// Batches of fixed size under replace-one with the curve of one order of the neighbours.
fn one_sided(code: Code) -> Result<(), String> {
    const DELTA: f64 = 0.01;
    let (q, shift) = (0.1, 1.0);
    // 2C over the noise is the shift
    let fixed = Event::gaussian(2.0 / shift).sampled_without_replacement(10, 1).self_composed(2);
    let one_order = Event::gaussian(1.0 / shift).poisson_sampled(q).self_composed(2);
    let claim = |event: &Event, relation| {
        certified_epsilon(event, relation, DELTA).map(|bound| bound.upper).map_err(|e| e.to_string())
    };
    let epsilon = match code {
        Code::Correct => claim(&fixed, Relation::ReplaceOne)?,
        Code::Injected => claim(&one_order, Relation::ZeroOut)?,
    };
    let attained = two_batches(q, shift, epsilon);
    match attained <= DELTA {
        true => Ok(()),
        false => Err(format!("delta {attained:.5} is attained at epsilon {epsilon:.4}, which is claimed for {DELTA}")),
    }
}

pub(super) fn one_sided_curve() -> InjectedFault {
    InjectedFault::looking(
        (
            "01.one-sided",
            Shipped,
            "batches of fixed size accounted with the curve of one order of the neighbours (q = .1, 2C/sigma = 1, T = 2)",
            "exact delta of an adversary who chooses what the other records look like, the second time by what the first told",
        ),
        one_sided,
    )
}

fn each_derivative() -> InjectedFault {
    let plan = planned();
    let claim = claim_of(&plan);
    InjectedFault::counting(
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
            if code == Code::Injected {
                // sixteen numbers of norm C are a vector of norm 4C; the noise stays
                let wider = (DIRECTIONS as f64).sqrt();
                plan.schedule.clip_norm *= wider;
                plan.schedule.noise_multiplier /= wider;
            }
            answer(&plan, with, draws).unwrap_or(f64::NAN)
        },
    )
}

/// A step keeps half of the way, so that 100 of them cost what 3 do where only the last iterate is seen. Their mean knows all.
fn averaged_iterates() -> InjectedFault {
    let loss = Loss::Logistic { shift: 0.0 };
    let descent = LastIterateDescent {
        steps: Some(100),
        regularization: Some(0.25),
        shift: Some(0.0),
        ..LastIterateDescent::default()
    };
    let subject = Subject::new(descent, methods::problem(1, 1, loss), BUDGET, alone(1));
    let claim = subject
        .event()
        .and_then(|event| Claim::reported(&event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string()));
    InjectedFault::counting(
        (
            "23.averaged-iterates",
            Altered,
            "what is released is the mean of all iterates, with the noise that hides the last one",
            "record alone, 100 steps; the answer",
        ),
        claim,
        (700, 30_000),
        move |code, with, draws| match (code, subject.schedule()) {
            (Code::Correct, _) => subject.run(with, draws, |_, _, view| view.weights[0]),
            (Code::Injected, None) => f64::NAN,
            (Code::Injected, Some(s)) => {
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
