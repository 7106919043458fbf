//! Gradient descent that keeps its iterates to itself: the last one costs as much as one Gaussian, however many steps there were
//! (Bok, Su, Altschuler 2024; docs/proofs/last-iterate.md).

use dpopt_linear::smooth_loss;
use dpopt_mechanism::{LastIterate, Mechanism};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, REGULARIZATION, SHIFT, STEPS};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{SamplerError, asked_steps, check_problem, in_range, noise, positive};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult, Solution};
use dpopt_privacy::{Budget, Event, Relation};
use dpopt_refusal::{Refusal, Remedy};
use serde::Serialize;

/// Scores at the border of the ball in which gradients are taken: far more than a model needs.
const LARGEST_SCORE: f64 = 100.0;
/// Steps that are tried: 2^k.
const STEPS_TRIED: std::ops::RangeInclusive<u32> = 2..=11;

/// Options of last-iterate descent. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct LastIterateDescent {
    /// T ≥ 1. Default: the best predicted excess risk.
    pub steps: Option<u64>,
    /// λ > 0 of the sum objective. Default: the best predicted excess risk.
    pub regularization: Option<f64>,
    /// Shift of a logistic loss, ≥ 0. Default 2.
    pub shift: Option<f64>,
    /// Slope bound of Huber's loss when the problem's loss is squared. Default 0.5.
    pub clip_norm: Option<f64>,
}

/// The schedule of last-iterate descent.
#[derive(Clone, Debug, Serialize)]
pub struct LastIterateSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// λ of the sum objective.
    pub regularization: f64,
    /// The number of steps T.
    pub steps: u64,
    /// h, on the gradient of the sum.
    pub step_size: f64,
    /// Of the ball in which gradients are taken.
    pub radius: f64,
    /// Of one step of the exact map.
    pub contraction: f64,
    /// What the answer is sensitive to, over what one record moves in one step: √T where nothing contracts.
    pub amplification: f64,
    /// z: noise of a step over the sensitivity of the answer.
    pub noise_multiplier: f64,
    /// Noise standard deviation of a step, per weight.
    pub noise_std: f64,
}

impl LastIterateSchedule {
    /// The release: sensitivity and noise are its own.
    pub fn mechanism(&self, problem: &Problem) -> LastIterate {
        LastIterate {
            objective: problem.objective().with_loss(self.loss),
            most_rows: problem.rows,
            relation: problem.relation(),
            regularization: self.regularization,
            steps: self.steps,
            step_size: self.step_size,
            radius: self.radius,
            noise_multiplier: self.noise_multiplier,
        }
    }
}

impl LastIterateDescent {
    /// A schedule without its noise.
    fn bare(problem: &Problem, loss: Loss, regularization: f64, steps: u64) -> LastIterateSchedule {
        let facts = problem.objective().with_loss(loss).known();
        let smoothness = facts.smoothness().map_or(f64::INFINITY, |b| b.value());
        let mut schedule = LastIterateSchedule {
            loss,
            regularization,
            steps,
            step_size: 1.0 / (regularization + problem.rows as f64 * smoothness),
            radius: LARGEST_SCORE / problem.row_norm,
            contraction: 1.0,
            amplification: 1.0,
            noise_multiplier: 1.0,
            noise_std: 0.0,
        };
        let mechanism = schedule.mechanism(problem);
        (schedule.contraction, schedule.amplification) = (mechanism.contraction(), mechanism.amplification());
        schedule
    }
}

impl Algorithm for LastIterateDescent {
    type Schedule = LastIterateSchedule;
    const NAME: &'static str = "last-iterate";
    const ABOUT: &'static str = "descent whose steps stay secret: any number of them at the price of one; by name";
    const CAPABILITIES: Capabilities = Capabilities { reference: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            steps: options.get(&STEPS),
            regularization: options.get(&REGULARIZATION),
            shift: options.get(&SHIFT),
            clip_norm: options.get(&CLIP_NORM),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<LastIterateSchedule>, NotApplicable> {
        check_problem(problem)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "how much a step contracts follows from the number of records, which add-or-remove protects; use zero-out or replace-one".into(),
            ));
        }
        if problem.loss.outputs() > 1 {
            return Err(NotApplicable::Problem(
                "the proof is for losses of one score: two classes, or a number; use output-perturbation or descent"
                    .into(),
            ));
        }
        let loss = smooth_loss(problem.loss, self.shift, self.clip_norm)?;
        let facts = problem.objective().with_loss(loss).known();
        let lipschitz = facts.lipschitz().map_or(f64::INFINITY, |l| l.value());
        let dimension = problem.weights() as f64;
        let most_steps = self.steps.unwrap_or(2u64.pow(*STEPS_TRIED.end()));
        let event = |z: f64| SamplerError::rounded(most_steps as f64 * dimension).on(Event::gaussian(z));
        let (noise_multiplier, certificate) = noise(problem, budget, event)?;
        let risk = RiskModel::of(problem);
        let steps: Vec<u64> = match asked_steps(self.steps)? {
            Some(steps) => vec![steps],
            None => STEPS_TRIED.map(|k| 2u64.pow(k)).collect(),
        };
        let curvature = problem.rows as f64 * facts.smoothness().map_or(f64::INFINITY, |b| b.value());
        let regularizations: Vec<f64> = match self.regularization {
            Some(lambda) => vec![positive("the regularization", lambda)?],
            // condition numbers from 2 to 2^14
            None => (1..=28).map(|k| curvature * 2f64.powf(-0.5 * f64::from(k))).collect(),
        };
        let predicted = |s: &LastIterateSchedule| {
            let noise = s.amplification * s.step_size * lipschitz * noise_multiplier / RiskModel::pull(loss);
            risk.last_iterate(s.regularization, s.step_size, s.steps as f64, noise)
        };
        let mut schedule = regularizations
            .iter()
            .flat_map(|&lambda| steps.iter().map(move |&steps| (lambda, steps)))
            .map(|(lambda, steps)| Self::bare(problem, loss, lambda, steps))
            .min_by(|a, b| predicted(a).total_cmp(&predicted(b)))
            .ok_or_else(|| NotApplicable::Problem("no schedule".into()))?;
        in_range("the number of steps", schedule.steps as f64, 1.0, 1e6)?;
        schedule.noise_multiplier = noise_multiplier;
        let mechanism = schedule.mechanism(problem);
        if !mechanism.is_proved() {
            return Err(NotApplicable::Option(
                Refusal::of(
                    "with this regularization a step contracts too little, or weights are too large for the grid",
                )
                .or(Remedy::Raise("regularization")),
            ));
        }
        mechanism.can_draw()?;
        schedule.noise_std = mechanism.noise_std();
        let keep = 1.0 - schedule.step_size * schedule.regularization;
        // of a direction without curvature of its own
        let weight_noise = schedule.noise_std
            * ((1.0 - keep.powf(2.0 * schedule.steps as f64)) / (1.0 - keep * keep).max(f64::MIN_POSITIVE)).sqrt();
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier,
                steps: schedule.steps,
                gradients: problem.rows as f64 * schedule.steps as f64,
                weight_noise: Some(weight_noise),
                predicted_excess_risk: predicted(&schedule),
                certificate,
                assumptions: vec![
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::proved(
                        "a step contracts: the loss is convex and smooth, the regularization is positive, and the number of records is public",
                    ),
                    Assumption::enforced("no iterate but the last leaves the kernel"),
                ],
                warnings: Vec::new(),
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<LastIterateSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        progress.start(Self::NAME, 1);
        let released = curator.release(&plan.schedule.mechanism(problem), examples)?;
        progress.tick();
        progress.finish();
        Ok(released.map(Solution::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{LOGISTIC, budget, problem};

    #[test]
    fn steps_are_free_once_a_step_contracts_enough() {
        let p = problem(LOGISTIC, Relation::ZeroOut);
        let of = |steps: u64| {
            let lambda = 0.25 * p.rows as f64 / 49.0;
            let options = LastIterateDescent { steps: Some(steps), regularization: Some(lambda), ..Default::default() };
            options.plan(&p, budget(1.0)).unwrap().schedule
        };
        let (few, many, more) = (of(200), of(2_000), of(200_000));
        assert!((few.contraction - 49.0 / 50.0).abs() < 1e-9);
        // √(1 + c)/(1 − c): composition of 200,000 steps would be 447
        assert!((many.amplification - 99f64.sqrt()).abs() < 1e-3 && (more.amplification - 99f64.sqrt()).abs() < 1e-6);
        assert!(few.amplification < many.amplification && few.amplification > 0.98 * many.amplification);
        // more draws, so a little more noise for their distance from the exact law; nothing else
        assert!(more.noise_multiplier < 1.001 * few.noise_multiplier);
    }

    #[test]
    fn what_no_proof_covers_is_refused_with_its_reason() {
        let refused =
            |p: &Problem, options: LastIterateDescent| options.plan(p, budget(1.0)).map(drop).unwrap_err().to_string();
        let plain = LastIterateDescent::default;
        assert!(refused(&problem(LOGISTIC, Relation::AddOrRemove), plain()).contains("add-or-remove protects"));
        assert!(refused(&problem(Loss::Softmax { classes: 3 }, Relation::ZeroOut), plain()).contains("one score"));
        assert!(refused(&problem(Loss::Hinge, Relation::ZeroOut), plain()).contains("smoothed-hinge"));
        let p = problem(LOGISTIC, Relation::ReplaceOne);
        let none = LastIterateDescent { steps: Some(0), ..plain() };
        assert!(refused(&p, none).contains("step"));
        let flat = LastIterateDescent { regularization: Some(1e-300), ..plain() };
        assert!(refused(&p, flat).contains("raise `regularization`"));
    }
}
