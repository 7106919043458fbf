//! Phased SGD: one step per record, and the mean of each phase's iterates with noise (Feldman, Koren, Talwar 2020; Liu 2024,
//! Algorithms 8 and 43; docs/proofs/phased-sgd.md).
//!
//! Phase i has half as many records as the one before and steps a quarter as long, starts where that one was released, and hides one
//! record's step, which contractions never make longer. A record is in one phase, so all phases together cost what one of them
//! does. Linear time, one release per phase. Where a moment of gradients is given, clip norms grow from phase to phase.

mod growing_clips;

use dpopt_linear::smooth_loss;
use dpopt_mechanism::{Mechanism, Phase, PhasedPass};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::algorithm::Capabilities;
use dpopt_optimize::options::common::{CLIP_NORM, DISTANCE, GRADIENT_MOMENT, LEARNING_RATE, MOMENT_ORDER};
use dpopt_optimize::options::{OptionReader, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{
    SamplerError, TARGET_BOUND, asked_moment, check_problem, noise, positive, require_delta,
};
use dpopt_optimize::risk::{PhaseRisk, RiskModel};
use dpopt_optimize::{Algorithm, Run, RunResult, Solution};
use dpopt_privacy::{Budget, Event, Relation};
use dpopt_refusal::{Text, option, text};
use growing_clips::Tails;
use serde::Serialize;

pub(crate) static PHASES: Setting<u64> =
    Setting::whole("phases", "number of phases, each of half the records of the one before and with shorter steps");

/// Options of phased SGD. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct PhasedSgd {
    /// k: releases, each of the mean of a phase's iterates. Default: the best predicted.
    pub phases: Option<u64>,
    /// η₁ of the first phase's steps, at most 2/(βR²), beyond which steps do not contract. Default: the best predicted.
    pub learning_rate: Option<f64>,
    /// C: bound on a record's gradient; of squared loss the slope bound of Huber's, 0.5 by default. Default: the loss's own, R·sup|φ'|.
    pub clip_norm: Option<f64>,
    /// D: what a phase releases is brought into the ball of this radius. Default: the norm that the risk model expects.
    pub radius: Option<f64>,
    /// G with (E‖gradient‖^k)^(1/k) ≤ G, a public guess: steps a sixteenth as long and clip norms twice as large from phase to phase, step and
    /// clip of the first by formulas. Says what is good, not what is private.
    pub moment: Option<f64>,
    /// The order k of the moment. Default: 2.
    pub moment_order: Option<f64>,
}

/// The schedule of phased SGD.
#[derive(Clone, Debug, Serialize)]
pub struct PhasedSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// Records, steps and clip norms, in order.
    pub phases: Vec<Phase>,
    /// Standard deviation of the noise in each weight, of every phase.
    pub noise_stds: Vec<f64>,
    /// The l2 radius D of the ball of what a phase releases.
    pub radius: f64,
    /// z: noise over what one record's presence moves.
    pub noise_multiplier: f64,
}

impl PhasedSchedule {
    /// The release: sensitivities and noise are its own.
    pub fn mechanism(&self, problem: &Problem) -> PhasedPass {
        PhasedPass {
            objective: problem.objective().with_loss(self.loss),
            phases: self.phases.clone(),
            radius: self.radius,
            noise_multiplier: self.noise_multiplier,
            relation: problem.relation(),
            target_bound: TARGET_BOUND,
        }
    }

    /// What the risk model needs to know of the phases.
    fn risks(&self) -> Vec<PhaseRisk> {
        let of = |phase: &Phase| PhaseRisk {
            rate: phase.learning_rate,
            records: phase.records as f64,
            noise_std: self.noise_multiplier * phase.learning_rate * phase.clip_norm,
        };
        self.phases.iter().map(of).collect()
    }
}

/// No table has records for more phases, and later ones change nothing.
pub(crate) const MAX_PHASES: u64 = 20;

/// How phases follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    /// The step size η₁ of the first phase.
    pub(crate) learning_rate: f64,
    /// The l2 clip norm C₁ of the first phase.
    pub(crate) clip_norm: f64,
    /// No gradient is longer.
    pub(crate) largest: f64,
    /// Steps and clip norms of a phase over those of the one before.
    pub(crate) ratios: (f64, f64),
}

impl Sequence {
    /// n/2, n/4, …, and what is left in the last.
    pub(crate) fn phases(&self, records: u64, count: u64) -> Vec<Phase> {
        let mut left = records;
        (1..=count)
            .map(|i| {
                let own = if i == count { left } else { records >> i };
                left -= own;
                let later = i as i32 - 1;
                Phase {
                    records: own,
                    learning_rate: self.learning_rate * self.ratios.0.powi(later),
                    clip_norm: (self.clip_norm * self.ratios.1.powi(later)).min(self.largest),
                }
            })
            .collect()
    }
}

/// Steps and clip norms of the phases for tails that are not heavy.
pub(crate) const PLAIN: (f64, f64) = (0.25, 1.0);

/// How many of so many phases the proof covers, the first ones.
fn covered(schedule: &PhasedSchedule, problem: &Problem) -> u64 {
    let mechanism = schedule.mechanism(problem);
    mechanism.phases.iter().take_while(|phase| phase.records > 0 && mechanism.covers(phase)).count() as u64
}

/// The loss itself where it is convex, smooth and of bounded slope; Huber's for squared error.
fn loss_of(problem: &Problem, clip_norm: Option<f64>) -> Result<Loss, NotApplicable> {
    match problem.loss {
        loss @ Loss::Logistic { .. } => Ok(loss),
        Loss::Squared => smooth_loss(Loss::Squared, None, clip_norm),
        other => smooth_loss(other, None, None),
    }
}

impl PhasedSgd {
    /// C, refused where a clip would not keep steps contracting.
    fn clip_norm(&self, problem: &Problem, loss: Loss) -> Result<f64, NotApplicable> {
        let own = problem.row_norm * loss.facts().lipschitz.unwrap_or(1.0);
        match self.clip_norm {
            Some(clip_norm) if problem.loss != Loss::Squared => {
                let clip_norm = positive("the clip norm", clip_norm)?;
                if loss.outputs() > 1 && clip_norm < own {
                    return Err(NotApplicable::Option(format!(
                        "clip norm {clip_norm} cuts gradients of several scores, and steps along cut ones need not contract; give at least \
                         {own}, or leave it out"
                    ).into()));
                }
                Ok(clip_norm)
            }
            _ => Ok(own),
        }
    }
}

impl Algorithm for PhasedSgd {
    type Schedule = PhasedSchedule;
    const NAME: &'static str = "phased-sgd";
    const ABOUT: &'static str = "releases the noisy mean of each of a few phases' iterates, every record read once; a reference, in linear time";
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

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<PhasedSchedule>, NotApplicable> {
        check_problem(problem)?;
        require_delta(budget)?;
        if problem.relation() == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "each record has a phase by its place, and who comes or goes would move the others; use zero-out or replace-one".into(),
            ));
        }
        let loss = loss_of(problem, self.clip_norm)?;
        let own = self.clip_norm(problem, loss)?;
        let moment = asked_moment(self.moment, self.moment_order)?;
        if moment.is_some() && loss.outputs() > 1 {
            return Err(NotApplicable::Option(
                text![
                    option("gradient_moment"),
                    " makes clip norms of its own, and steps along gradients of several scores that are cut need not contract; leave it out"
                ]
                .into(),
            ));
        }
        let model = RiskModel::of(problem);
        let radius = positive("the distance", self.radius.unwrap_or_else(|| model.squared_norm().sqrt()))?;
        let curvature = loss.facts().smoothness.unwrap_or(f64::INFINITY);
        let largest = 2.0 * (1.0 - 1e-6) / (curvature * problem.row_norm * problem.row_norm);
        if let Some(rate) = self.learning_rate
            && positive("the learning rate", rate)? > largest
        {
            return Err(NotApplicable::Option(format!(
                "learning rate {rate} is above {largest:.4}, where steps need not contract and one record may move all later ones apart; give \
                 at most that"
            ).into()));
        }
        let draws = problem.weights() as f64 * self.phases.unwrap_or(MAX_PHASES) as f64;
        let event = |count: u64, z: f64| {
            SamplerError::rounded(draws).on(Event::Parallel { blocks: vec![Event::gaussian(z); count as usize] })
        };
        // the phases cost what one of them does, however many there are
        let (noise_multiplier, _) = noise(problem, budget, |z| event(1, z))?;
        let largest_gradient = problem.row_norm * loss.facts().lipschitz.unwrap_or(f64::INFINITY);
        // the formulas are for noise ηC√(2/ρ), and for all phases' steps and clips before the first one's
        let tails = moment.map(|(root, order)| Tails {
            records: problem.rows as f64,
            weights: problem.weights() as f64,
            rho: 2.0 / (noise_multiplier * noise_multiplier),
            distance: radius,
            second: root,
            root,
            order,
        });
        let sequence = |learning_rate: f64| match tails {
            None => Sequence { learning_rate, clip_norm: own, largest: own, ratios: PLAIN },
            Some(tails) => {
                let formula = growing_clips::CLIP_GROWTH * tails.clip_norm(learning_rate / growing_clips::STEP_RATIO);
                // of squared loss the clip norm is Huber's slope bound
                let asked = self.clip_norm.filter(|_| problem.loss != Loss::Squared);
                let clip_norm = asked.unwrap_or(formula).min(largest_gradient);
                let ratios = (growing_clips::STEP_RATIO, growing_clips::CLIP_GROWTH);
                Sequence { learning_rate, clip_norm, largest: largest_gradient, ratios }
            }
        };
        let schedule = |count: u64, rate: f64| PhasedSchedule {
            loss,
            phases: sequence(rate).phases(problem.rows, count),
            noise_stds: Vec::new(),
            radius,
            noise_multiplier,
        };
        let rates: Vec<f64> = match (self.learning_rate, tails) {
            (Some(rate), _) => vec![rate],
            (None, Some(tails)) => vec![(tails.learning_rate() * growing_clips::STEP_RATIO).min(largest)],
            (None, None) => (0..=40).map(|j| largest * 2f64.powf(-0.5 * f64::from(j))).collect(),
        };
        let counts = match self.phases {
            Some(count) => count.min(u64::from(u32::MAX))..=count.min(u64::from(u32::MAX)),
            None => 1..=MAX_PHASES,
        };
        let mut best: Option<(f64, PhasedSchedule)> = None;
        let mut most = 0;
        for rate in rates {
            let possible = covered(&schedule(MAX_PHASES, rate), problem);
            most = most.max(possible);
            // one more than a longer schedule has records for: the last phase takes all that are left
            for count in counts.clone().take_while(|count| *count <= possible + 1) {
                let tried = schedule(count, rate);
                // the last phase has more records than the one of its place in a longer schedule
                if covered(&tried, problem) < count {
                    continue;
                }
                let risk = model.clone().clipped(tried.phases[0].clip_norm, problem.lipschitz()).phased(&tried.risks());
                if best.as_ref().is_none_or(|(least, _)| risk < *least) {
                    best = Some((risk, tried));
                }
            }
        }
        let Some((risk, mut schedule)) = best else {
            return Err(NotApplicable::Option(match self.phases {
                Some(count) if most > 0 => text![
                    option("phases"),
                    format!(
                        " is {count}; of so many the last would have no records, or noise near the spacing of numbers as large as the weights \
                         may be (distance {radius}), where rounding would replace it: give at most {most}"
                    )
                ],
                _ => Text::from(format!(
                    "with learning rate {} and distance {radius} the noise of the first phase would be near the spacing of numbers as large \
                     as the weights may be, or rounding above a thousandth of what a record moves; raise the learning rate, or lower \
                     the distance",
                    self.learning_rate.unwrap_or(largest)
                )),
            }.into()));
        };
        let count = schedule.phases.len() as u64;
        let (noise_multiplier, certificate) = noise(problem, budget, |z| event(count, z))?;
        schedule.noise_multiplier = noise_multiplier;
        let mechanism = schedule.mechanism(problem);
        mechanism.can_draw()?;
        schedule.noise_stds = schedule.phases.iter().map(|phase| mechanism.noise_std(phase)).collect();
        // in a direction without curvature: all noise stays, and so does what the order of the records does to each mean
        let order = |phase: &Phase| phase.records as f64 * (phase.learning_rate * phase.clip_norm).powi(2);
        let squares = schedule.noise_stds.iter().map(|std| std * std).chain(schedule.phases.iter().map(order));
        let weight_noise = squares.sum::<f64>().sqrt();
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
                    Assumption::enforced(
                        "slopes are cut at the clip norm over the row's own norm, which keeps them monotone",
                    ),
                    Assumption::proved(
                        "each record makes one step, in one phase, and later steps never make longer what it moved: the loss is convex and \
                         the step at most 2 over its curvature",
                    ),
                ],
                warnings: Vec::new(),
            },
            schedule,
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<PhasedSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        progress.start(Self::NAME, 1);
        let released = curator.release(&plan.schedule.mechanism(problem), examples)?;
        progress.tick();
        progress.finish();
        let before = problem.weights() * (plan.schedule.phases.len() - 1);
        Ok(released.map(|points| Solution::from(points[before..].to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{LOGISTIC, budget, problem};
    use dpopt_privacy::{Neighbours, accountant, special};

    fn planned(options: PhasedSgd, problem: &Problem) -> Result<Plan<PhasedSchedule>, String> {
        options.plan(problem, budget(1.0)).map_err(|e| e.to_string())
    }

    #[test]
    fn phases_halve_and_have_all_records_between_them() {
        // T = 16, η₁ = 1/16, then quarters; here the last phase also has the one record that is left
        let sequence = |learning_rate| Sequence { learning_rate, clip_norm: 1.0, largest: 1.0, ratios: PLAIN };
        let all = sequence(1.0 / 16.0).phases(16, 4);
        let shape: Vec<(u64, f64)> = all.iter().map(|p| (p.records, p.learning_rate)).collect();
        assert_eq!(shape, [(8, 1.0 / 16.0), (4, 1.0 / 64.0), (2, 1.0 / 256.0), (2, 1.0 / 1024.0)]);
        for (records, count) in [(1000, 1), (1000, 7), (4097, 12)] {
            assert_eq!(sequence(1.0).phases(records, count).iter().map(|p| p.records).sum::<u64>(), records);
        }
    }

    #[test]
    fn clip_norms_grow_where_a_moment_is_given() {
        let wide = Problem { row_norm: 1000.0, rows: 16_384, ..problem(LOGISTIC, Relation::ZeroOut) };
        let options = |options: PhasedSgd| planned(PhasedSgd { radius: Some(1e-3), ..options }, &wide);
        let heavy = PhasedSgd { moment: Some(1.0), phases: Some(4), ..PhasedSgd::default() };
        let schedule = options(heavy.clone()).unwrap().schedule;
        for (before, after) in schedule.phases.iter().zip(&schedule.phases[1..]) {
            assert_eq!(after.learning_rate, before.learning_rate / 16.0);
            assert_eq!(after.clip_norm, (2.0 * before.clip_norm).min(1000.0));
        }
        // the first two by the formulas, whose own first phase is the one before
        let z = schedule.noise_multiplier;
        let tails = Tails {
            records: 16_384.0,
            weights: wide.weights() as f64,
            rho: 2.0 / (z * z),
            distance: 1e-3,
            second: 1.0,
            root: 1.0,
            order: 2.0,
        };
        let rate = tails.learning_rate();
        assert!((schedule.phases[0].learning_rate * 16.0 / rate - 1.0).abs() < 1e-3, "{schedule:?}");
        assert!((schedule.phases[0].clip_norm / (2.0 * tails.clip_norm(rate)) - 1.0).abs() < 1e-3, "{schedule:?}");
        // the guard: ηβR² of the first step is at most 2, whatever the formula says
        let guarded = planned(PhasedSgd { radius: Some(1.0), ..heavy.clone() }, &wide).unwrap().schedule;
        let first = guarded.phases[0].learning_rate * 0.25 * 1e6;
        assert!(first <= 2.0 && first > 1.99, "{first}");
        let beyond = PhasedSgd { learning_rate: Some(1.01 * 8e-6), ..heavy.clone() };
        assert!(options(beyond).unwrap_err().contains("contract"));
        // no more phases than the rounding leaves noise to
        let error = options(PhasedSgd { phases: Some(13), ..heavy.clone() }).unwrap_err();
        assert!(error.contains("give at most"), "{error}");
        let softmax = Problem { loss: Loss::Softmax { classes: 3 }, ..wide.clone() };
        assert!(planned(heavy.clone(), &softmax).unwrap_err().contains("gradient_moment"));
        let order = PhasedSgd { moment: None, moment_order: Some(3.0), ..heavy };
        assert!(options(order).unwrap_err().contains("without `gradient_moment`"));
    }

    #[test]
    fn all_phases_cost_what_one_gaussian_release_does() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            let problem = problem(LOGISTIC, relation);
            let plan = planned(PhasedSgd { phases: Some(6), ..PhasedSgd::default() }, &problem).unwrap();
            let mu = special::gaussian_mu(1.0, budget(1.0).delta());
            let factor = relation.sum_sensitivity();
            assert!((plan.schedule.noise_multiplier * mu / factor - 1.0).abs() < 1e-3, "{:?}", plan.schedule);
            assert_eq!(plan.schedule.phases.len(), 6);
            for (phase, std) in plan.schedule.phases.iter().zip(&plan.schedule.noise_stds) {
                let bare = plan.schedule.noise_multiplier * phase.learning_rate * phase.clip_norm;
                assert!(*std >= bare && *std < 1.01 * bare, "{std} {bare}");
            }
        }
    }

    #[test]
    fn what_is_not_proved_is_refused_with_a_reason() {
        let zero_out = problem(LOGISTIC, Relation::ZeroOut);
        let none = PhasedSgd::default;
        let added = Problem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..zero_out.clone() };
        assert!(planned(none(), &added).unwrap_err().contains("replace-one"));
        let too_long = PhasedSgd { learning_rate: Some(9.0), ..none() };
        assert!(planned(too_long, &zero_out).unwrap_err().contains("contract"));
        let late = planned(PhasedSgd { phases: Some(19), ..none() }, &zero_out).unwrap_err();
        assert!(late.contains("give at most"), "{late}");
        let short = PhasedSgd { learning_rate: Some(1e-12), ..none() };
        assert!(planned(short, &zero_out).unwrap_err().contains("raise the learning rate"));
        let hinge = Problem { loss: Loss::Hinge, ..zero_out.clone() };
        assert!(planned(none(), &hinge).unwrap_err().contains("smoothed-hinge"));
        let softmax = Problem { loss: Loss::Softmax { classes: 3 }, ..zero_out };
        assert!(planned(PhasedSgd { clip_norm: Some(0.5), ..none() }, &softmax).unwrap_err().contains("clip norm"));
        assert!(planned(none(), &softmax).is_ok());
    }

    /// Why records are read once and not drawn with replacement (docs/decisions/0019): the same noise, one pass's worth of gradients.
    #[test]
    fn disjoint_phases_cost_less_than_phases_of_draws_with_replacement() {
        let (n, z) = (10_000u64, 5.0);
        let draws = |m: u64| Event::SampledWithReplacement {
            source_dataset_size: n,
            sample_size: m,
            event: Box::new(Event::gaussian(z)),
        };
        // every phase halves, as here; T = n gradients in all
        let with_replacement = Event::composed((1..=10).map(|i| draws(n >> i)).collect());
        let disjoint = Event::Parallel { blocks: vec![Event::gaussian(z); 10] };
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            let epsilon = |event: &Event| accountant::epsilon(event, relation, 1e-6).unwrap().upper;
            let (drawn, once) = (epsilon(&with_replacement), epsilon(&disjoint));
            println!("{relation:?}: {drawn} with replacement, {once} disjoint");
            assert!(once < drawn);
        }
        // ten phases of at most 512 draws, z = 2: ε = .935775, on a grid that rounds up
        let (m, z) = (1024u64, 2.0);
        let ten = (1..=10).map(|i| Event::SampledWithReplacement {
            source_dataset_size: n,
            sample_size: m >> i,
            event: Box::new(Event::gaussian(2.0 * z)),
        });
        let epsilon = accountant::epsilon(&Event::composed(ten.collect()), Relation::ReplaceOne, 1e-6).unwrap().upper;
        assert!((epsilon / 0.935775 - 1.0).abs() < 0.02, "{epsilon}");
    }
}
