//! Moments of classes in one release (docs/proofs/class-moments.md), and a covariance in two (docs/proofs/principal-components.md).

use super::LibraryAudit;
use super::releases::TIGHT_RUNS;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{CuratorError, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_optimize::centred_moment::{CovariancePlan, CovarianceProblem};
use dpopt_optimize::class_moments::{MomentsPlan, MomentsProblem};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

const DELTA: f64 = 1e-5;
const NEIGHBOURS: Neighbours = Neighbours::of_records(Relation::ZeroOut);

fn budget() -> Result<Budget, String> {
    Budget::new(4.0, DELTA).map_err(|e| e.to_string())
}

/// Of two classes of records with one number, counted.
pub(crate) fn moments() -> Result<MomentsPlan, String> {
    let problem = MomentsProblem { records: 4, columns: 1, classes: 2, counted: true, neighbours: NEIGHBOURS };
    MomentsPlan::new(&problem, budget()?).map_err(|e| e.to_string())
}

/// The noisy sums of three records and, if there is one, a record of the first class with 1.
pub(crate) fn sums(plan: &MomentsPlan, event: &Event, with: bool, seed: u64) -> Result<Vec<f64>, CuratorError> {
    let mut curator = past_the_curator::watched(event, NoiseSource::insecure(seed));
    let class = |i: usize| if i == 0 { with.then_some(0) } else { Some(1) };
    plan.run(4, class, |i, out| out.push(if i == 0 { 1.0 } else { 0.3 }), &mut curator)?;
    Ok(past_the_curator::seen(&curator).concat())
}

fn of_classes() -> LibraryAudit {
    let plan = moments();
    let event = plan.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    let opened = event.clone();
    LibraryAudit::new(
        "moments of classes",
        "record of the first class at the end of its bounds, or of no class; along what it adds",
        event,
        (DELTA, TIGHT_RUNS),
        move |with, draws: &mut Draws| {
            let (Ok(plan), Ok(opened)) = (&plan, &opened) else { return f64::NAN };
            let w = plan.weights;
            let direction = [w.count, w.first, w.second * (w.centre - 1.0)];
            sums(plan, opened, with, draws.word())
                .map_or(f64::NAN, |seen| seen.iter().zip(direction).map(|(sum, own)| sum * own).sum())
        },
    )
    .gaussian()
}

fn of_rows() -> LibraryAudit {
    let problem = CovarianceProblem { records: 4, columns: 2, neighbours: NEIGHBOURS };
    let plan = budget().and_then(|budget| CovariancePlan::new(&problem, budget).map_err(|e| e.to_string()));
    let event = plan.as_ref().map(|plan| plan.certificate.event().clone()).map_err(Clone::clone);
    let opened = event.clone();
    LibraryAudit::new(
        "mean and covariance",
        "row (1, 0) in or zeroed, sum and second moment seen; log-likelihood ratio",
        event,
        (DELTA, TIGHT_RUNS),
        move |with, draws: &mut Draws| {
            let (Ok(plan), Ok(opened)) = (&plan, &opened) else { return f64::NAN };
            let mut curator = past_the_curator::watched(opened, NoiseSource::insecure(draws.word()));
            let row = |i: usize, out: &mut Vec<f64>| out.extend(if i == 0 && with { [1.0, 0.0] } else { [0.0; 2] });
            match plan.run(4, row, &mut curator) {
                Ok(_) => {
                    let seen = past_the_curator::seen(&curator);
                    seen[0][0] / plan.sum_noise.powi(2) + seen[1][0] / plan.moment_noise.powi(2)
                }
                Err(_) => f64::NAN,
            }
        },
    )
    .gaussian()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    vec![of_classes(), of_rows()]
}
