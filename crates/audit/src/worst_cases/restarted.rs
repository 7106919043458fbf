//! A canary in running sums that begin anew, all of them seen (spec 07 §1.5, §2).

use crate::draws::Draws;
use crate::worst_cases::methods::coordinate;
use crate::worst_cases::sums::CLIP;
use dpopt_mechanism::{Interactive, Leaf, RestartedPlan, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::objective::Closures;
use dpopt_privacy::Relation;

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
