//! The mean of vectors in rounds, each clipped around what the round before released (docs/proofs/centred-mean.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::past_the_curator;
use dpopt_noise::NoiseSource;
use dpopt_optimize::centred_mean::{CentredPlan, CentredProblem};
use dpopt_privacy::{Budget, Neighbours, Relation};

/// Units, the canary among them; the others are at 0.
const UNITS: usize = 60;
const DELTA: f64 = 1e-5;

fn problem() -> CentredProblem {
    let neighbours = Neighbours::of_users(Relation::ZeroOut);
    CentredProblem { records: UNITS as u64, dimension: 1, spread: 0.01, neighbours }
}

fn plan() -> Result<CentredPlan, String> {
    let budget = Budget::new(4.0, DELTA).map_err(|e| e.to_string())?;
    CentredPlan::new(&problem(), budget).map_err(|e| e.to_string())
}

/// ln of the densities' ratio of what all rounds released, with the canary at 1 over without it: given the rounds before, a round's sum is normal
/// around what the others come to, plus the canary's clipped way from the centre.
fn ratio(plan: &CentredPlan, seen: &[Vec<f64>]) -> f64 {
    let mut centre = 0.0;
    let all = plan.rounds.iter().zip(seen).map(|(round, sum)| {
        let clip = |x: f64| x.clamp(-round.clip_norm, round.clip_norm);
        let (others, std) = ((UNITS - 1) as f64 * clip(-centre), round.noise_multiplier * round.clip_norm);
        let (own, noise) = (clip(1.0 - centre) / std, (sum[0] - others) / std);
        centre += sum[0] / UNITS as f64;
        own * noise - 0.5 * own * own
    });
    all.sum()
}

pub(super) fn audit() -> LibraryAudit {
    let plan = plan();
    let event = plan.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    let opened = event.clone();
    LibraryAudit::new(
        "mean around released centres",
        "unit at 1 or without rows beside 59 at 0, the sums of all rounds seen; exact log-likelihood ratio",
        event,
        (DELTA, TIGHT_RUNS),
        move |with, draws: &mut Draws| {
            let (Ok(plan), Ok(opened)) = (&plan, &opened) else { return f64::NAN };
            let mut curator = past_the_curator::watched(opened, NoiseSource::insecure(draws.word()));
            let vector = |i: usize, out: &mut Vec<f64>| match i {
                0 if with => out.push(1.0),
                0 => {}
                _ => out.push(0.0),
            };
            match plan.run(&problem(), UNITS, vector, &mut curator) {
                Ok(_) => ratio(plan, &past_the_curator::seen(&curator)),
                Err(_) => f64::NAN,
            }
        },
    )
    .gaussian()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_rounds_and_the_ratio_of_what_is_expected_is_half_of_all_shares() {
        let plan = plan().unwrap();
        assert!(plan.rounds.len() > 1, "{:?}", plan.rounds);
        // without noise the first round says 1, so that the centre is 1/60
        let (mut centre, mut seen, mut expected) = (0.0f64, Vec::new(), 0.0);
        for round in &plan.rounds {
            let clip = |x: f64| x.clamp(-round.clip_norm, round.clip_norm);
            let sum = clip(1.0 - centre) + 59.0 * clip(-centre);
            seen.push(vec![sum]);
            centre += sum / 60.0;
            expected += 0.5 / round.noise_multiplier.powi(2);
        }
        assert!((ratio(&plan, &seen) - expected).abs() < 1e-9, "{} {expected}", ratio(&plan, &seen));
    }
}
