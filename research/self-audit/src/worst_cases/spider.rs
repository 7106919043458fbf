//! Spider on two worlds: a record whose gradients and changes are as large as the clips allow, wherever it is asked.

use dpopt_audit::draws::Draws;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, past_the_curator};
use dpopt_minimize::{
    Directions, MinimizePlan, MinimizeProblem, PerRecord, ReadByObjective, SpiderSchedule, choose, run,
};
use dpopt_noise::NoiseSource;
use dpopt_optimize::{MethodOptions, RunError};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};
use std::sync::{Arc, Mutex};

/// Records of a run; all but the first say 0.
pub(super) const RECORDS: usize = 50;
/// A slope beyond every clip norm.
const STEEP: f64 = 1e12;

/// A record that says `says` of itself, and what it was asked: for a gradient (none), or for a change on so long a way.
pub(super) struct Steep {
    says: f64,
    asked: Arc<Mutex<Vec<Option<f64>>>>,
}

impl Steep {
    /// Beyond every clip, `says` times, and what it will have been asked.
    pub(super) fn watched(says: f64) -> (Self, Arc<Mutex<Vec<Option<f64>>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        (Self { says: says * STEEP, asked: Arc::clone(&asked) }, asked)
    }

    fn answer(&self, asked: Option<f64>, records: &[u64], sum: &mut BatchSum) -> Result<(), RunError> {
        if let Ok(mut all) = self.asked.lock() {
            all.push(asked);
        }
        Ok(sum.add(records.len(), |k, out| out.push(if records[k] == 0 { self.says } else { 0.0 }))?)
    }
}

impl PerRecord for Steep {
    fn gradients(&mut self, records: &[u64], _: &[f64], sum: &mut BatchSum) -> Result<(), RunError> {
        self.answer(None, records, sum)
    }

    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError> {
        let before = terms.iter().find(|(weight, _)| *weight < 0.0);
        self.answer(before.map(|(_, before)| (terms[0].1[0] - before[0]).abs()), records, sum)
    }

    fn derivatives(&mut self, _: &[u64], _: &[f64], _: &Directions, _: &mut BatchSum) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }

    fn values(&mut self, _: &[u64], _: &[f64], _: &mut Vec<f64>) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }
}

/// Public facts of a run under `relation`.
pub(crate) fn problem(relation: Relation) -> MinimizeProblem {
    MinimizeProblem {
        smoothness: Some(1.0),
        remote: true,
        ..MinimizeProblem::new(RECORDS as u64, 1, Neighbours::of_records(relation))
    }
}

/// A certified plan of at most so many gradients and changes.
pub(crate) fn plan(
    relation: Relation,
    budget: (f64, f64),
    (fresh, changes): (u64, u64),
    (drift, second_stage): (f64, f64),
) -> Result<MinimizePlan, String> {
    let budget = Budget::new(budget.0, budget.1).map_err(|e| e.to_string())?;
    let options = MethodOptions::of("spider")
        .with("initial_gap", 1.0)
        .with("steps", changes)
        .with("fresh_gradients", fresh)
        .with("drift", drift)
        .with("second_stage", second_stage);
    choose(&problem(relation), budget, &options).map_err(|e| e.to_string())
}

/// One gradient and one change, whose way is `way`: the loss is taken to be so flat that the first step ends where the ball does.
pub(crate) fn far_plan(budget: (f64, f64), way: f64) -> Result<MinimizePlan, String> {
    let budget = Budget::new(budget.0, budget.1).map_err(|e| e.to_string())?;
    let options = MethodOptions::of("spider")
        .with("initial_gap", 1.0)
        .with("steps", 1u64)
        .with("fresh_gradients", 1u64)
        .with("drift", 100.0 * way * way)
        .with("difference_clip", 1.0)
        .with("second_stage", 0.0)
        .with("ball_radius", way);
    let flat = MinimizeProblem { smoothness: Some(1e-6), ..problem(Relation::ZeroOut) };
    choose(&flat, budget, &options).map_err(|e| e.to_string())
}

/// Spider's schedule in a plan.
pub(crate) fn numbers(plan: &mut MinimizePlan) -> Option<&mut SpiderSchedule> {
    plan.schedule.spider.as_mut()
}

/// Σ release/(z²·clip) of all that a run of `plan` lets out, which increases with the likelihood ratio: `says` is what the first record says, in units beyond every clip. None if
/// it is refused.
pub(crate) fn evidence(
    plan: &MinimizePlan,
    relation: Relation,
    event: &Event,
    says: f64,
    draws: &mut Draws,
) -> Option<f64> {
    let (steep, asked) = Steep::watched(says);
    let source = ReadByObjective::new(steep, RECORDS);
    let mut curator = past_the_curator::watched(event, NoiseSource::insecure(draws.word()));
    run(&problem(relation), plan, &[0.0], source, &mut curator, &Silent).ok()?;
    let (s, spider) = (&plan.schedule, plan.schedule.spider?);
    let asked = asked.lock().ok()?;
    let (mut changes, mut last) = (0, spider.second_stage);
    let all = asked.iter().zip(past_the_curator::seen(&curator)).map(|(asked, seen)| {
        let (clip, z) = match asked {
            // the first one after the walk
            None if changes == s.steps && last.is_some() => {
                (s.clip_norm, last.take().map_or(f64::INFINITY, |last| last.fresh_multiplier))
            }
            None => (s.clip_norm, spider.fresh_multiplier),
            Some(way) if changes < s.steps => {
                changes += 1;
                (spider.difference_clip * way, spider.change_multiplier)
            }
            Some(way) => {
                let z = spider.second_stage.map_or(f64::INFINITY, |last| last.change_multiplier);
                (spider.difference_clip * way, z)
            }
        };
        seen[0] / (clip * z * z)
    });
    Some(all.sum())
}
