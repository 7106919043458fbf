//! Samples of fixed size whose records lie at the corners of a triangle (Liu 2024, Algorithm 32; docs/proofs/accounting-pld.md).
//!
//! Covers: thesis algorithm 32 (10.equilateral-triangle)

use super::Source::Shipped;
use super::{Code, InjectedFault};
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{ClippedVectors, CuratorError, Gaussian, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::special::log_add_exp;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, calibrate};

/// A batch is one of so many records.
const RECORDS: usize = 10;
const STEPS: u64 = 40;
/// What both accountants are asked for.
const EPSILON: f64 = 1.0;
const DELTA: f64 = 0.5;

/// Half of the distance between two corners of norm 1.
fn half_side() -> f64 {
    0.75f64.sqrt()
}

/// All others, the record, and what replaces it.
fn corners() -> [[f64; 2]; 3] {
    [[1.0, 0.0], [-0.5, half_side()], [-0.5, -half_side()]]
}

/// Least noise, over half of the distance between records, that is certified: by the curve that is mirrored below γ = 1, or by the larger of both orders of
/// (1 − q)Q + qP and Q, each composed by itself.
fn noise_multiplier(code: Code) -> Result<f64, String> {
    let budget = Budget::new(EPSILON, DELTA).map_err(|e| e.to_string())?;
    let under = |relation| Neighbours::of_records(relation).within(budget);
    let mirrored = |z: f64| Event::gaussian(z).sampled_without_replacement(RECORDS as u64, 1).self_composed(STEPS);
    // the whole distance over the noise is the shift of P
    let one_order = |z: f64| Event::gaussian(0.5 * z).poisson_sampled(1.0 / RECORDS as f64).self_composed(STEPS);
    let found = match code {
        Code::Correct => calibrate::noise(mirrored, under(Relation::ReplaceOne)),
        Code::Injected => calibrate::noise(one_order, under(Relation::ZeroOut)),
    };
    found.map(|(z, _)| z).map_err(|e| e.to_string())
}

/// ln of the densities' ratio of all sums, with the record over with what replaces it.
fn ratio(sums: &[Vec<f64>], noise_std: f64) -> f64 {
    let q = 1.0 / RECORDS as f64;
    let [others, record, replacement] = corners();
    let density = |sum: &[f64], at: [f64; 2]| {
        let side = [at[0] - others[0], at[1] - others[1]];
        let along = |k: usize| (sum[k] - others[k]) * side[k] - 0.5 * side[k] * side[k];
        log_add_exp((-q).ln_1p(), q.ln() + (along(0) + along(1)) / (noise_std * noise_std))
    };
    sums.iter().map(|sum| density(sum, record) - density(sum, replacement)).sum()
}

/// All noisy sums of vectors of norm 1 over batches of one record, through the curator.
fn sums(multiplier: f64, with: bool, draws: &mut Draws) -> Result<Vec<Vec<f64>>, CuratorError> {
    let [others, record, replacement] = corners();
    let z = multiplier * half_side();
    let grid = Grid::for_sum(1.0, z, RECORDS as u64, 2);
    let mechanism = Gaussian::new(z, 1.0, grid, 2, "sum of a batch of one");
    let event = mechanism.event().sampled_without_replacement(RECORDS as u64, 1).self_composed(STEPS);
    let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
    let clipped = ClippedVectors::new(1.0, grid)?;
    let mut all = Vec::with_capacity(STEPS as usize);
    for _ in 0..STEPS {
        let (batch, chosen) = curator.fixed_for_loader(RECORDS, 1)?;
        let sum = clipped.sum_batch(batch, chosen.len(), 2, |i, out| {
            out.extend(match (chosen[i], with) {
                (0, true) => record,
                (0, false) => replacement,
                _ => others,
            });
        })?;
        all.push(curator.release(&mechanism, &sum)?.into_inner());
    }
    Ok(all)
}

pub(super) fn triangle() -> InjectedFault {
    let multipliers = [Code::Correct, Code::Injected].map(noise_multiplier);
    InjectedFault::counting(
        (
            "10.equilateral-triangle",
            Shipped,
            "batches of fixed size under replace-one, with noise for the larger of both orders of one pair, each composed by itself (q = .1, T = 40)",
            "record and replacement as far from each other as from all others; exact log-likelihood ratio of the noisy sums",
        ),
        Claim::ApproxDp { epsilon: EPSILON, delta: DELTA },
        (6_500, 150_000),
        move |code, with, draws| {
            let [correct, injected] = &multipliers;
            let Ok(multiplier) = code.pick(correct, injected) else { return f64::NAN };
            let noise_std = multiplier * half_side();
            sums(*multiplier, with, draws).map_or(f64::NAN, |sums| ratio(&sums, noise_std))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corners_are_as_far_from_each_other_as_noise_is_made_for() {
        let corners = corners();
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            let side = (corners[a][0] - corners[b][0]).hypot(corners[a][1] - corners[b][1]);
            assert!((side - 2.0 * half_side()).abs() < 1e-12, "{side}");
        }
        let [correct, injected] = [Code::Correct, Code::Injected].map(|code| noise_multiplier(code).unwrap());
        // δ(1) = .4944 of one order where the distance is twice the noise, by an independent calculation
        assert!((0.97..1.0).contains(&injected), "{injected}");
        assert!(correct > 1.1 * injected, "{correct}");
    }
}
