//! The mean of answers that agree (docs/proofs/agreed-mean.md).
//!
//! Covers: thesis algorithm 28, algorithm 31

use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{AgreedMean, Agreement, Answers, CuratorError, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::{Event, Relation};

/// Where both rows report, and what passes by chance.
const DELTA: f64 = 1e-5;
const MISS: f64 = 1e-9;
/// Groups, ε of the test, and the radius in steps.
const GROUPS: u64 = 60;
const TEST: f64 = 4.0;
const RADIUS: u64 = 1 << 40;

fn mechanism(noise_multiplier: f64) -> Result<AgreedMean, CuratorError> {
    let agreement = Agreement::of(GROUPS, TEST, MISS, 0.0).ok_or(CuratorError::Shape)?;
    AgreedMean::new(agreement, TEST, RADIUS, 1, noise_multiplier, Relation::ZeroOut)
}

/// What is released of answers at 0, of others at 1, and of the canary's.
fn released(
    mechanism: &AgreedMean,
    event: &Event,
    apart: usize,
    canary: Option<f64>,
    draws: &mut Draws,
) -> Result<Option<Vec<f64>>, CuratorError> {
    let canary = canary.map(|at| vec![at * RADIUS as f64 * Answers::grid().step()]);
    let rows = (0..GROUPS as usize - 1).map(|i| Some(vec![if i < apart { 1.0 } else { 0.0 }]));
    let rows: Vec<Option<Vec<f64>>> = rows.chain([canary]).collect();
    let answers = Sensitive::new(Answers::new(1, rows.iter().map(Option::as_deref))?);
    let mut curator = past_the_curator::uncharged(event, NoiseSource::insecure(draws.word()));
    Ok(curator.release(mechanism, &answers)?.into_inner())
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let row = |name, pair, z: f64, apart: usize, worlds: [Option<f64>; 2], statistic: fn(Option<Vec<f64>>) -> f64| {
        let made = mechanism(z);
        let agreement = Agreement::of(GROUPS, TEST, MISS, 0.0);
        let planned = agreement.map(|agreement| AgreedMean::planned(&agreement, 1, z, Relation::ZeroOut));
        let event = planned.ok_or_else(|| "too few groups".to_string());
        let opened = made.as_ref().map(Mechanism::event).ok();
        let release = move |with: bool, draws: &mut Draws| -> Result<f64, CuratorError> {
            let (Ok(made), Some(opened)) = (&made, &opened) else { return Err(CuratorError::Shape) };
            released(made, opened, apart, worlds[usize::from(with)], draws).map(statistic)
        };
        LibraryAudit::new(name, pair, event, (DELTA, TIGHT_RUNS), move |with, draws| {
            release(with, draws).unwrap_or(f64::NAN)
        })
        .reaching(Reach::Unknown)
    };
    vec![
        row(
            "mean of answers that agree",
            "59 answers at 0, the last at twice the radius on one side or the other; the mean",
            1.0,
            0,
            [Some(-2.0), Some(2.0)],
            // no mean is beyond all means
            |mean| mean.map_or(1e9, |mean| mean[0]),
        ),
        row(
            "whether answers agree",
            "answers at 0, two far from them, the last with the many or nowhere; 1{there is a mean}",
            1e3,
            2,
            [None, Some(0.0)],
            |mean| indicator(mean.is_some()),
        ),
    ]
}
