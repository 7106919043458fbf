//! A method of one's own: Nesterov's accelerated gradient descent along noisy gradients, first over Poisson batches, then over all records.

use dpopt::optimize::prelude::*;
use serde::Serialize;

const BETA: f64 = 0.9;

static BATCH_SHARE: Setting<f64> =
    Setting::real("batch_share", Range::PROBABILITY, "share of the rows in a batch of the first half [default: 0.2]");

/// Options of the method: what a user may set.
#[derive(Clone)]
pub struct TwoPhases {
    batch_share: f64,
    steps: u64,
}

/// What a plan fixes: the oracles of both halves, and the step size.
#[derive(Clone, Serialize)]
pub struct Phases {
    first: Oracle,
    last: Oracle,
    rate: f64,
}

/// v ← βv + g, θ ← θ − η(g + βv).
struct Nesterov {
    rate: f64,
    velocity: Vec<f64>,
}

impl Driver for Nesterov {
    fn step(&mut self, _: u64, weights: &mut [f64], gradient: &[f64]) {
        for ((w, v), g) in weights.iter_mut().zip(&mut self.velocity).zip(gradient) {
            *v = BETA * *v + g;
            *w -= self.rate * (g + BETA * *v);
        }
    }
}

impl Algorithm for TwoPhases {
    type Schedule = Phases;
    const NAME: &'static str = "two-phases";
    const ABOUT: &'static str = "accelerated descent over Poisson batches, then over all records";
    const CAPABILITIES: Capabilities = Capabilities { rows: RowAccess::Passes, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self { batch_share: options.get(&BATCH_SHARE).unwrap_or(0.2), steps: options.get(&STEPS).unwrap_or(100) }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<Phases>, NotApplicable> {
        check_problem(problem)?;
        let full = GradientSums::of(problem, 0.5 * problem.lipschitz().unwrap_or(1.0)).steps(self.steps.div_ceil(2));
        let batches = full.sampled(self.batch_share);
        let event = |z: f64| Event::composed(vec![batches.event(z), full.event(z)]);
        let (z, certificate) = noise(problem, budget, event)?;
        let (first, last) = (batches.with_noise(z)?, full.with_noise(z)?);
        let rate = 0.1 * asked_or_stable_rate(None, problem)?;
        let time = rate * last.steps() as f64 / (1.0 - BETA);
        let weight_noise = time * last.noise_std() * last.per_record() / (last.steps() as f64).sqrt();
        let risk = RiskModel::of(problem).clipped(last.clip_norm(), problem.lipschitz());
        let summary = Summary {
            steps: first.steps() + last.steps(),
            gradients: first.gradients() + last.gradients(),
            predicted_excess_risk: risk.learning_time(time, weight_noise),
            assumptions: first.assumptions(),
            ..last.summary(Self::NAME, problem, certificate)
        };
        Ok(Plan { summary, schedule: Phases { first, last, rate } })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<Phases>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run;
        let mut weights = vec![0.0; problem.weights()];
        let mut driver = Nesterov { rate: plan.schedule.rate, velocity: weights.clone() };
        progress.start(Self::NAME, plan.summary.steps);
        for oracle in [&plan.schedule.first, &plan.schedule.last] {
            let gradients = oracle.of(R::over(problem.objective()))?;
            let course =
                Course { steps: oracle.steps(), first_averaged: oracle.steps() / 2, per_record: oracle.per_record() };
            weights = drive(&mut driver, course, weights, progress, |at| gradients.release(examples, curator, at))?;
        }
        progress.finish();
        Ok(curator.postprocess(weights.into()))
    }
}
