//! Records and rewards that come one by one: a canary in known batches of a stream, or in known sums.

use crate::worst_cases::methods::coordinate;
use crate::worst_cases::sums::CLIP;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{
    Batching, Clipped, Correlation, FreshSums, Interactive, RoundLosses, Sensitive, StreamPlan, StreamShape,
    past_the_curator,
};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Relation;

/// Batches of the stream.
pub(crate) const BATCHES: usize = 4;

pub(crate) fn shape() -> StreamShape {
    StreamShape { batches: BATCHES, steps: BATCHES, correlation: Correlation::Blt }
}

/// Noise of one clip norm times the stream's sensitivity.
pub(crate) fn plan() -> Result<StreamPlan, String> {
    Ok(StreamPlan {
        shape: shape(),
        gradient: Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), CLIP, Grid::new(-20)).map_err(|e| e.to_string())?,
        noise_multiplier: 1.0,
        dimension: 1,
        records: BATCHES as u64,
        relation: Relation::ZeroOut,
        batching: Batching::Arrival,
    })
}

/// Records whose slopes are ∓1, or 0.
fn batch(slopes: &[f64]) -> Sensitive<Examples> {
    let mut rows = Rows::new(1);
    for slope in slopes {
        if *slope == 0.0 { rows.push_zero() } else { rows.push_clipped(&mut [(0, 1.0)], 1.0) }
    }
    Sensitive::new(Examples { rows, targets: slopes.iter().map(|slope| *slope as f32).collect() })
}

/// All noisy sums of batches that come with these records, in units of C, by noise from `source`; empty if refused.
pub(crate) fn arrived(batches: &[Vec<f64>], source: NoiseSource) -> Vec<f64> {
    let outputs = || {
        let plan = plan().ok()?;
        let mut curator = past_the_curator::watched(&plan.event(), source);
        let mut stream = curator.open(&plan).ok()?;
        for slopes in batches {
            stream.next_arrived(&batch(slopes), &[0.0]).ok()?;
        }
        Some(coordinate(&past_the_curator::seen(&curator), 0, CLIP))
    };
    outputs().unwrap_or_default()
}

/// One record in the batches `taken`, or nothing anywhere.
pub(crate) fn alone(taken: &[usize], with: bool) -> Vec<Vec<f64>> {
    (0..BATCHES).map(|t| vec![if with && taken.contains(&t) { 1.0 } else { 0.0 }]).collect()
}

/// Sums of rounds of their own, of noise of scale 1.
pub(crate) fn sums() -> Result<FreshSums, String> {
    FreshSums::new(8, 8, 1.0, 1, Relation::ReplaceOne).map_err(|e| e.to_string())
}

/// Noisy sums of these numbers, through the shipped mechanism; empty if it is refused.
pub(crate) fn fresh(mechanism: &FreshSums, sums: &[Vec<f64>], draws: &mut Draws) -> Vec<f64> {
    let outputs = |draws: &mut Draws| {
        let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(draws.word()));
        let mut open = curator.open(mechanism).ok()?;
        let mut all = Vec::with_capacity(sums.len());
        for numbers in sums {
            for number in numbers {
                open.add(&RoundLosses::of(&[*number]).ok()?).ok()?;
            }
            all.push(*open.close().ok()?.get());
        }
        Some(all)
    };
    outputs(draws).unwrap_or_default()
}
