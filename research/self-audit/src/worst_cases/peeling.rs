//! Peeling where one record tells most: it raises some scores and lowers as many others, all by the bound.

use super::sums::canaries;
use dpopt_mechanism::{
    CuratorError, FeaturePick, FeatureScores, Mechanism, PeelingLaw, Sensitive, SparseVector, VertexFacts,
    past_the_curator,
};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Relation;

/// Bound on the entries of gradients in [`picks`].
pub(crate) const ENTRY: f64 = 0.25;

/// 2k features. Without the canary, the first k have score 2C and the others 3C; with it, 3C and 2C. C = 1/√(2k).
pub(crate) fn swapped(k: u32) -> [Sensitive<Examples>; 2] {
    let entry = 1.0 / f64::from(2 * k).sqrt() as f32;
    [false, true].map(|with| {
        let mut rows = Rows::new(2 * k as usize);
        let all = |sign: f32| (0..2 * k).map(move |j| (j, if j < k { entry } else { sign * entry }));
        match with {
            true => rows.push_clipped(&mut all(-1.0).collect::<Vec<_>>(), 1.0),
            false => rows.push_zero(),
        }
        (0..2).for_each(|_| rows.push_clipped(&mut all(1.0).collect::<Vec<_>>(), 1.0));
        rows.push_clipped(&mut (k..2 * k).map(|j| (j, entry)).collect::<Vec<_>>(), 1.0);
        // the slope of the absolute loss at 0 is −1
        Sensitive::new(Examples { rows, targets: vec![1.0; 4] })
    })
}

/// The canary has feature 0 alone, with an entry of 4C; `copies` of its share are in the data. Four others have feature 1.
pub(crate) fn steep(copies: usize) -> Sensitive<Examples> {
    let mut rows = Rows::new(2);
    (0..4).for_each(|i| if i < copies { rows.push_clipped(&mut [(0, 1.0)], 1.0) } else { rows.push_zero() });
    (0..4).for_each(|_| rows.push_clipped(&mut [(1, 1.0)], 1.0));
    Sensitive::new(Examples { rows, targets: vec![1.0; 8] })
}

/// Without and with the canary in the first of `features`, which no other record has.
pub(crate) fn unseen(features: usize) -> [Sensitive<Examples>; 2] {
    [0.0, 1.0].map(|target| canaries(4, features, &[target]))
}

/// How many of the `picked` features have an index below `below`, with ε₀ for each pick and `entry` as the bound.
pub(crate) fn picks(
    data: &Sensitive<Examples>,
    (law, epsilon, entry): (PeelingLaw, f64, f64),
    (picked, below): (u64, u32),
    seed: u64,
) -> Result<f64, CuratorError> {
    let facts = VertexFacts { loss: Loss::Absolute, clip_norm: entry, epsilon, relation: Relation::ZeroOut };
    let pick = FeaturePick { law, facts, dimension: past_the_curator::read_for_tests(data).rows.columns() as u64 };
    let mut curator = past_the_curator::uncharged(&pick.event().self_composed(picked), NoiseSource::insecure(seed));
    let mut scores = FeatureScores::new(data, facts, &SparseVector::default(), None)?;
    let mut seen = 0.0;
    for _ in 0..picked {
        for (feature, _) in curator.release(&pick, &scores)?.get().iter() {
            FeatureScores::take(&mut scores, feature);
            seen += super::indicator(feature < below);
        }
    }
    Ok(seen)
}
