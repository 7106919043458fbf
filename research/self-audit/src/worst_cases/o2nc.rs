//! The online-to-nonconvex conversion on two worlds: a record whose estimates and changes are as large as the clips allow, wherever it is asked.

use super::spider::{RECORDS, Steep, problem};
use dpopt_audit::draws::Draws;
use dpopt_mechanism::past_the_curator;
use dpopt_mechanism::progress::Silent;
use dpopt_minimize::{ConversionSchedule, MinimizePlan, ReadByObjective, Rule, choose, run};
use dpopt_noise::NoiseSource;
use dpopt_optimize::MethodOptions;
use dpopt_privacy::{Budget, Event, Relation};

/// A certified plan of so many steps, of which one in `period` asks for a gradient.
pub(crate) fn plan(relation: Relation, budget: (f64, f64), steps: u64, period: u64) -> Result<MinimizePlan, String> {
    let budget = Budget::new(budget.0, budget.1).map_err(|e| e.to_string())?;
    let options = MethodOptions::of("o2nc").with("steps", steps).with("period", period).with("directions", 2u64);
    choose(&problem(relation), budget, &options).map_err(|e| e.to_string())
}

/// One whose changes are small beside its gradients, so that these have most of the budget.
pub(crate) fn smooth_plan(budget: (f64, f64), steps: u64) -> Result<MinimizePlan, String> {
    let budget = Budget::new(budget.0, budget.1).map_err(|e| e.to_string())?;
    let options = MethodOptions::of("o2nc").with("steps", steps).with("period", steps).with("directions", 2u64);
    let options = options.with("difference_clip", 0.1);
    choose(&problem(Relation::ZeroOut), budget, &options).map_err(|e| e.to_string())
}

/// The conversion's schedule in a plan.
pub(crate) fn numbers(plan: &mut MinimizePlan) -> Option<&mut ConversionSchedule> {
    match &mut plan.schedule.rule {
        Rule::Conversion(conversion) => Some(conversion),
        _ => None,
    }
}

/// Σ release/(z²·clip) of all that a run of `plan` lets out, which increases with the likelihood ratio. None if it is refused.
pub(crate) fn evidence(
    plan: &MinimizePlan,
    relation: Relation,
    event: &Event,
    says: f64,
    draws: &mut Draws,
) -> Option<f64> {
    let (steep, asked) = Steep::watched(says);
    let mut curator = past_the_curator::watched(event, NoiseSource::insecure(draws.word()));
    run(&problem(relation), plan, &[0.0], ReadByObjective::new(steep, RECORDS), &mut curator, &Silent).ok()?;
    let (c, clip_norm) = (*numbers(&mut plan.clone())?, plan.schedule.clip_norm);
    let asked = asked.lock().ok()?;
    let all = asked.iter().zip(past_the_curator::seen(&curator)).map(|(asked, seen)| {
        let (clip, z) = match asked {
            None => (clip_norm, c.fresh_multiplier),
            Some(way) => ((c.change_clip * way).min(2.0 * clip_norm), c.change_multiplier),
        };
        seen[0] / (clip * z * z)
    });
    Some(all.sum())
}
