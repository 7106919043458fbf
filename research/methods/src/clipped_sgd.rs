//! Certified clipped SGD: one step per record along its clipped gradient, and the mean of each phase's iterates with noise, if a test with noise says that
//! few enough gradients were clipped (propose, test, release: Dwork, Lei 2009; docs/proofs/certified-clipped-sgd.md).
//!
//! For losses of several scores, whose clipped steps need not contract: [phased SGD](crate::PhasedSgd) clips no gradient of theirs. A phase
//! that fails its test is not released, and none after it: the answer is then where the phases before it led.
//!
//! Covers: thesis algorithm 42, theorem 12.7.6

use super::phased_sgd::{MAX_PHASES, PHASES, PLAIN, Sequence};
use dpopt_linear::smooth_loss;
use dpopt_mechanism::{CertifiedPass, ClipTest, Mechanism, Phase};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::{CLIP_NORM, DISTANCE, GRADIENT_MOMENT, LEARNING_RATE, MOMENT_ORDER};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, TARGET_BOUND, asked_moment, check_problem, noise, positive, require_delta,
};
use dpopt_optimize::risk::{PhaseRisk, RiskModel};
use dpopt_optimize::{Algorithm, Run, RunResult, Solution};
use dpopt_privacy::{Budget, Event, Relation};
use dpopt_refusal::{Text, option, text};
use serde::Serialize;

/// Options of certified clipped SGD. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct ClippedSgd {
    /// k: releases, each of the mean of a phase's iterates. Default: the best predicted.
    pub phases: Option<u64>,
    /// η₁ of the first phase's steps. Default: the best predicted of those with room for the test's levels.
    pub learning_rate: Option<f64>,
    /// C: what a record's gradient is shortened to. Default: by the moment of gradients, or else twice the largest gradient, beyond which no test counts one.
    pub clip_norm: Option<f64>,
    /// D: what a phase releases is brought into the ball of this radius. Default: the norm that the risk model expects.
    pub radius: Option<f64>,
    /// G with (E‖gradient‖^k)^(1/k) ≤ G, a public guess. Says what is good, not what is private.
    pub moment: Option<f64>,
    /// The order k of the moment, k ≥ 2. Default: 2.
    pub moment_order: Option<f64>,
}

/// The schedule of certified clipped SGD.
#[derive(Clone, Debug, Serialize)]
pub struct ClippedSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// Records, steps and clip norms, in order.
    pub phases: Vec<Phase>,
    /// M of each phase: how many gradients may be clipped, before the test's levels are taken off.
    pub allowed_clips: Vec<u64>,
    /// Standard deviation of the noise in each weight, of every phase.
    pub noise_stds: Vec<f64>,
    /// The l2 radius D of the ball of what a phase releases.
    pub radius: f64,
    /// z: noise over what one record's presence moves where the test passes for a reason.
    pub noise_multiplier: f64,
    /// ε₁ of each phase's test.
    pub test_epsilon: f64,
    /// δ₁ of each phase's test.
    pub test_delta: f64,
    /// The number K of levels that the clip test tells apart.
    pub levels: u64,
}

/// κ: what clipped steps may do to the distance of two runs.
const GROWTH: f64 = 1.1;
/// Most that the chance may be that a phase without clips fails its test.
const SPURIOUS: f64 = 1e-3;
/// Share of ε for the test.
const TEST_SHARE: f64 = 0.25;
/// More levels than this are for tests of less than a hundred-thousandth.
const MAX_LEVELS: u64 = 1 << 19;

impl ClippedSchedule {
    /// The release: sensitivities, the test and noise are its own.
    pub fn mechanism(&self, problem: &Problem) -> CertifiedPass {
        CertifiedPass {
            objective: problem.objective().with_loss(self.loss),
            phases: self.phases.clone(),
            radius: self.radius,
            noise_multiplier: self.noise_multiplier,
            test: ClipTest { epsilon: self.test_epsilon, delta: self.test_delta, growth: GROWTH, levels: self.levels },
            relation: problem.relation(),
            target_bound: TARGET_BOUND,
        }
    }
}

/// What is taken to be known of gradients, for plans alone.
#[derive(Clone, Copy, Debug)]
struct Gradients {
    /// No gradient is longer.
    largest: f64,
    /// (G, k) with (E‖gradient‖^k)^(1/k) ≤ G, if a moment is given.
    moment: Option<(f64, f64)>,
}

impl Gradients {
    /// Gradients of so many records that may be longer than `bound`.
    fn longer_than(&self, bound: f64, records: f64) -> f64 {
        if bound >= self.largest {
            return 0.0;
        }
        let Some((root, order)) = self.moment else { return records };
        let mean = records * (root / bound).powf(order);
        (mean + 3.0 * mean.sqrt() + 10.0).min(records)
    }

    /// C and η where `phases` phases have noise `noise`·Cη (Theorem 12.7.6 with the noise of the certificate).
    fn parameters(&self, problem: &Problem, distance: f64, phases: f64, noise: f64) -> Option<(f64, f64)> {
        let (root, k) = self.moment?;
        let (n, d, variance) = (problem.rows as f64, problem.weights() as f64, 16.0 * noise * noise);
        let of_noise = (distance * phases / (root * n)) * (n * n / (d * variance)).powf((k - 1.0) / (2.0 * k));
        let rate = (2.0 * distance / (n.sqrt() * root)).min(of_noise);
        let clip = 2.0 * root * (distance * phases * n / (root * d * rate * variance)).powf(1.0 / (k + 1.0));
        Some((clip, rate))
    }
}

impl ClippedSgd {
    fn loss(&self, problem: &Problem) -> Result<Loss, NotApplicable> {
        match problem.loss {
            loss @ Loss::Logistic { .. } => Ok(loss),
            other => smooth_loss(other, None, None),
        }
    }
}

impl Algorithm for ClippedSgd {
    type Schedule = ClippedSchedule;
    const NAME: &'static str = "clipped-sgd";
    const ABOUT: &'static str = "releases the noisy mean of each phase's iterates along clipped gradients, where a noisy test finds few clips; a reference";
    const CAPABILITIES: Capabilities = Capabilities { reference: true, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        Self {
            phases: options.get(&PHASES),
            learning_rate: options.get(&LEARNING_RATE),
            clip_norm: options.get(&CLIP_NORM),
            radius: options.get(&DISTANCE),
            moment: options.get(&GRADIENT_MOMENT),
            moment_order: options.get(&MOMENT_ORDER),
        }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<ClippedSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "each record has a phase by its place, and who comes or goes would move the others; use zero-out or replace-one".into(),
            ));
        }
        if problem.group() > 1 {
            return Err(NotApplicable::Problem(
                "its test has a proof for one row of a unit; bound the rows of a unit by 1, or take phased-sgd".into(),
            ));
        }
        let loss = self.loss(problem)?;
        let largest = problem.row_norm * loss.facts().lipschitz.unwrap_or(f64::INFINITY);
        let gradients = Gradients { largest, moment: asked_moment(self.moment, self.moment_order)? };
        let model = RiskModel::of(problem);
        let radius = positive("the distance", self.radius.unwrap_or_else(|| model.squared_norm().sqrt()))?;
        if let Some(rate) = self.learning_rate {
            positive("the learning rate", rate)?;
        }
        let test_epsilon = TEST_SHARE * budget.epsilon();
        // alone the larger of both curves counts, but for the samplers' share; beside other releases their sum
        let test_delta = if problem.prior_release.is_none() { 0.999 } else { 0.5 } * budget.delta();
        let levels = ClipTest::levels_for(test_epsilon, test_delta, SPURIOUS);
        if levels > MAX_LEVELS {
            return Err(NotApplicable::Problem(format!(
                "its test has a quarter of epsilon, and with {test_epsilon:e} would tell {levels} levels apart; raise epsilon"
            ).into()));
        }
        let draws = problem.weights() as f64 * self.phases.unwrap_or(MAX_PHASES) as f64;
        let event = |count: u64, noise_multiplier: f64| {
            let one = Event::ProposeTestRelease { epsilon: test_epsilon, delta: test_delta, noise_multiplier };
            (SamplerError::rounded(draws) + SamplerError::fine(count as f64))
                .on(Event::Parallel { blocks: vec![one; count as usize] })
        };
        let most = self.phases.unwrap_or(MAX_PHASES).min(u64::from(u32::MAX));
        // the phases cost what one of them does, however many there are
        let (noise_multiplier, certificate) = noise(problem, budget, |z| event(most.min(64), z))?;
        let z = noise_multiplier;
        let formula = gradients.parameters(problem, radius, most.min(8) as f64, GROWTH * z);
        let clip_norm = match (self.clip_norm, formula) {
            (Some(clip_norm), _) => positive("the clip norm", clip_norm)?,
            (None, Some((clip_norm, _))) => clip_norm.min(2.0 * largest),
            (None, None) => 2.0 * largest,
        };
        let schedule = |count: u64, learning_rate: f64| ClippedSchedule {
            loss,
            phases: Sequence { learning_rate, clip_norm, largest: clip_norm, ratios: PLAIN }
                .phases(problem.rows, count),
            allowed_clips: Vec::new(),
            noise_stds: Vec::new(),
            radius,
            noise_multiplier,
            test_epsilon,
            test_delta,
            levels,
        };
        let expected = |phase: &Phase| gradients.longer_than(0.5 * clip_norm, phase.records as f64);
        let has_room = |mechanism: &CertifiedPass, phase: &Phase| {
            mechanism.allowed(phase) as f64 >= levels as f64 + expected(phase)
        };
        // twice what leaves the levels their room: the first that are tried are refused
        let beta = loss.facts().smoothness.unwrap_or(f64::INFINITY) * problem.row_norm * problem.row_norm;
        let steepest = 1.0 / (levels as f64 * GROWTH * problem.relation().sum_sensitivity() * beta);
        let rates: Vec<f64> = match (self.learning_rate, formula) {
            (Some(rate), _) => vec![rate],
            (None, Some((_, rate))) => (0..=60).map(|j| rate.min(steepest) * 2f64.powf(-0.25 * f64::from(j))).collect(),
            (None, None) => (0..=60).map(|j| steepest * 2f64.powf(-0.5 * f64::from(j))).collect(),
        };
        let counts = match self.phases {
            Some(_) => most..=most,
            None => 1..=most,
        };
        let mut best: Option<(f64, ClippedSchedule)> = None;
        let mut most_covered = 0;
        for rate in rates {
            for count in counts.clone() {
                let tried = schedule(count, rate);
                let mechanism = tried.mechanism(problem);
                let covered = tried.phases.iter().take_while(|p| p.records > 0 && mechanism.covers(p)).count() as u64;
                most_covered = most_covered.max(covered);
                let roomy = self.learning_rate.is_some() || tried.phases.iter().all(|p| has_room(&mechanism, p));
                if covered < count || !roomy {
                    continue;
                }
                let risks: Vec<PhaseRisk> = tried
                    .phases
                    .iter()
                    .map(|p| PhaseRisk {
                        rate: p.learning_rate,
                        records: p.records as f64,
                        noise_std: mechanism.noise_std(p),
                    })
                    .collect();
                let risk = model.clone().clipped(clip_norm, problem.lipschitz()).phased(&risks);
                if best.as_ref().is_none_or(|(least, _)| risk < *least) {
                    best = Some((risk, tried));
                }
            }
        }
        let Some((risk, mut schedule)) = best else {
            return Err(NotApplicable::Option(match (self.learning_rate, self.phases) {
                (Some(rate), _) if most_covered == 0 => Text::from(format!(
                    "learning rate {rate} leaves no room for the {levels} levels of the test, or rounding would replace the noise; give at \
                     most {:.3e}",
                    0.5 * steepest * (1.0 - 1e-6)
                )),
                (_, Some(count)) if most_covered > 0 && most_covered < count => text![
                    option("phases"),
                    format!(
                        " is {count}; of so many the last would have no records, or noise near the spacing of numbers as large as the weights \
                         may be (distance {radius}): give at most {most_covered}"
                    )
                ],
                _ => text![
                    format!(
                        "with clip norm {clip_norm:.4} so many gradients may be longer than half of it that no phase would pass its test; raise \
                         the clip norm (above {:.4} none is), or say a smaller ",
                        2.0 * largest
                    ),
                    option("gradient_moment"),
                    " or a larger ",
                    option("moment_order"),
                    ", if they are true"
                ],
            }.into()));
        };
        let count = schedule.phases.len() as u64;
        let (noise_multiplier, certificate) = if count == most.min(64) {
            (noise_multiplier, certificate)
        } else {
            noise(problem, budget, |z| event(count, z))?
        };
        schedule.noise_multiplier = noise_multiplier;
        let mechanism = schedule.mechanism(problem);
        mechanism.can_draw()?;
        schedule.noise_stds = schedule.phases.iter().map(|phase| mechanism.noise_std(phase)).collect();
        schedule.allowed_clips = schedule.phases.iter().map(|phase| mechanism.allowed(phase)).collect();
        let order = |phase: &Phase| phase.records as f64 * (phase.learning_rate * phase.clip_norm).powi(2);
        let squares = schedule.noise_stds.iter().map(|std| std * std).chain(schedule.phases.iter().map(order));
        let weight_noise = squares.sum::<f64>().sqrt();
        let mut warnings = Vec::new();
        if let Some((i, phase)) = schedule.phases.iter().enumerate().find(|(_, phase)| !has_room(&mechanism, phase)) {
            let room = mechanism.allowed(phase).saturating_sub(levels);
            warnings.push(format!(
                "phase {} is released for sure only if at most {room} of its gradients are longer than half the clip norm, and {:.0} may be; lower \
                 the learning rate, or raise the clip norm",
                i + 1,
                expected(phase)
            ));
        }
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier,
                steps: count,
                gradients: problem.rows as f64,
                weight_noise: Some(weight_noise.min(2.0 * radius)),
                predicted_excess_risk: risk,
                certificate,
                assumptions: vec![
                    Assumption::enforced("every row has norm at most the row norm: enforced when rows are built"),
                    Assumption::enforced("a record's step is along its gradient shortened to the clip norm"),
                    Assumption::proved(
                        "each record makes one step, in one phase; steps that are not clipped bring no two runs further apart, and a phase is \
                         released only if a test with noise says that few are",
                    ),
                ],
                warnings,
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<ClippedSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        progress.start(Self::NAME, 1);
        let shown = curator.release(&plan.schedule.mechanism(problem), examples)?;
        progress.tick();
        progress.finish();
        let phases = plan.schedule.phases.len();
        let before = problem.weights() * (phases - 1);
        Ok(shown.map(|shown| {
            let note = (shown.released < phases as u64).then(|| {
                format!(
                    "Phase {} of {phases} had too many clipped gradients, or its noise said so: it was not released, nor any after it, and the answer \
                     is {}. All phases are paid for; raise clip_norm or lower learning_rate.",
                    shown.released + 1,
                    if shown.released == 0 { "0".to_string() } else { format!("that of phase {}", shown.released) }
                )
            });
            Solution { note, ..Solution::from(shown.points[before..].to_vec()) }
        }))
    }
}

#[cfg(test)]
mod tests;
