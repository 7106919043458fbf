//! A canary in running sums that begin anew, all of them seen (Liu 2024, Algorithm 21; docs/proofs/restarted-sums.md).

use crate::worst_cases::methods::coordinate;
use crate::worst_cases::sums::CLIP;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, Interactive, Leaf, RestartedPlan, Sensitive, past_the_curator};
use dpopt_minimize::{
    Batches, Directions, MinimizePlan, MinimizeProblem, PerRecord, ReadByObjective, Rule, choose, run as minimize,
};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::objective::Closures;
use dpopt_optimize::{MethodOptions, RunError};
use dpopt_privacy::{Budget, Neighbours, Relation};
use std::sync::{Arc, Mutex};

/// One record, trees of `leaves` leaves, and noise `noise_multiplier` times the clip norm times the root of their depth.
pub(crate) fn plan(leaves: u64, steps: u64, noise_multiplier: f64, relation: Relation) -> RestartedPlan {
    RestartedPlan {
        records: 1,
        dimension: 1,
        leaves,
        steps,
        clip_norm: CLIP,
        grid: Grid::new(-20),
        noise_multiplier,
        relation,
    }
}

type Slopes = Closures<fn(&[f64], &f64) -> f64, fn(&[f64], &f64, &mut [f64])>;

/// All sums of `steps` leaves with a restart after every `leaves` of them, in units of C; the record is `record` times C and comes in leaf `place`, from 0. Empty if
/// anything was refused.
pub(crate) fn run(plan: &RestartedPlan, place: u64, record: f64, draws: &mut Draws) -> Vec<f64> {
    let value: fn(&[f64], &f64) -> f64 = |x, a| a * x[0];
    let slope: fn(&[f64], &f64, &mut [f64]) = |_, a, g| g[0] = *a;
    let records = Sensitive::new(vec![record * CLIP]);
    let outputs = |draws: &mut Draws| {
        let mut curator = past_the_curator::watched(&plan.event(), NoiseSource::insecure(draws.word()));
        let mut sums = curator.open(plan).ok()?;
        for step in 0..plan.steps {
            let leaf = if step % plan.leaves == 0 { Leaf::First } else { Leaf::Next };
            sums.add(leaf, &records, &Slopes::new(1, value, slope), (u64::from(step == place), CLIP), &[0.0]).ok()?;
        }
        Some(coordinate(&past_the_curator::seen(&curator), 0, CLIP))
    };
    outputs(draws).unwrap_or_default()
}

/// Σ over nodes of what the exact prefixes say of the node times what the noisy ones do: sufficient where prefixes have the noise of one tree.
pub(crate) fn matched(noisy: &[f64], exact: impl Fn(usize) -> f64) -> f64 {
    let prefix = |t: usize| if t == 0 { 0.0 } else { noisy.get(t - 1).copied().unwrap_or(f64::NAN) };
    (1..=noisy.len())
        .map(|t| {
            let start = t - (1 << t.trailing_zeros());
            let of_start = if start == 0 { 0.0 } else { exact(start) };
            (exact(t) - of_start) * (prefix(t) - prefix(start))
        })
        .sum()
}

/// Records of a run of the method; all but one say 0.
const RECORDS: usize = 60;
/// Whose place in the order is as random as anybody's.
const CANARY: u64 = 17;

/// A leaf that was asked for: whether it began a sum, how many records it read, how far x had gone, whether the canary was among them.
struct Asked {
    first: bool,
    size: u64,
    way: f64,
    canary: bool,
}

/// Records that say 0, but for one that says more than any clip.
struct Steep {
    says: f64,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl PerRecord for Steep {
    fn gradients(&mut self, _: &[u64], _: &[f64], _: &mut BatchSum) -> Result<(), RunError> {
        Err(RunError::Numerical("leaves ask for weighted vectors"))
    }

    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError> {
        let before = terms.iter().find(|(weight, _)| *weight < 0.0);
        if let Ok(mut all) = self.asked.lock() {
            all.push(Asked {
                first: before.is_none(),
                size: records.len() as u64,
                way: before.map_or(0.0, |(_, before)| (terms[0].1[0] - before[0]).abs()),
                canary: records.contains(&CANARY),
            });
        }
        Ok(sum.add(records.len(), |k, out| out.push(if records[k] == CANARY { self.says } else { 0.0 }))?)
    }

    fn derivatives(&mut self, _: &[u64], _: &[f64], _: &Directions, _: &mut BatchSum) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }

    fn values(&mut self, _: &[u64], _: &[f64], _: &mut Vec<f64>) -> Result<(), RunError> {
        Err(RunError::Numerical("this objective says gradients"))
    }
}

fn public() -> MinimizeProblem {
    MinimizeProblem {
        smoothness: Some(1.0),
        remote: true,
        ..MinimizeProblem::new(RECORDS as u64, 1, Neighbours::of_records(Relation::ReplaceOne))
    }
}

/// A certified plan of one pass by `method` under replace-one.
pub(crate) fn one_pass(method: &str, (epsilon, delta): (f64, f64)) -> Result<MinimizePlan, String> {
    let budget = Budget::new(epsilon, delta).map_err(|e| e.to_string())?;
    let options = MethodOptions::of(method).with("initial_gap", 0.05);
    choose(&public(), budget, &options).map_err(|e| e.to_string())
}

/// What all sums of a pass say of the canary: of the nodes that it is in, Σ release·shift/σ², half of the log-likelihood ratio of its two signs. None if the pass was refused.
pub(crate) fn evidence(plan: &MinimizePlan, sign: f64, draws: &mut Draws) -> Option<f64> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let source = ReadByObjective::new(Steep { says: sign * 1e12, asked: Arc::clone(&asked) }, RECORDS);
    let mut curator = past_the_curator::watched(plan.certificate.event(), NoiseSource::insecure(draws.word()));
    minimize(&public(), plan, &[0.0], source, &mut curator, &Silent).ok()?;
    let (s, Batches::Once(sums)) = (&plan.schedule, plan.schedule.batches) else { return None };
    let (asked, seen) = (asked.lock().ok()?, past_the_curator::seen(&curator));
    if asked.len() != seen.len() {
        return None;
    }
    // a canary that no leaf read says nothing
    let Some(place) = asked.iter().position(|leaf| leaf.canary) else { return Some(0.0) };
    let begin = (0..=place).rev().find(|&i| asked[i].first)?;
    let end = (place + 1..asked.len()).find(|&i| asked[i].first).unwrap_or(asked.len());
    let tree: Vec<f64> = seen[begin..end].iter().map(|release| release[0]).collect();
    let Asked { first, size, way, .. } = asked[place];
    let most = if matches!(s.rule, Rule::Conversion(_)) { 2.0 * s.clip_norm } else { f64::INFINITY };
    let vector = if first { s.clip_norm } else { (sums.difference_clip * way).min(most) };
    let shift = sums.leaf_clip.min(vector / size.max(1) as f64);
    let inside = place - begin + 1;
    Some(shift / s.noise_std.powi(2) * matched(&tree, |t| f64::from(u8::from(t >= inside))))
}
