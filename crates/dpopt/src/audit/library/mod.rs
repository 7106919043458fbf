//! Audits of this library's own mechanisms and algorithms against what their events claim (spec 20 §1.4).
//!
//! Each row runs the real code end to end on a worst-case pair: clip, grid sum, curator, noise. A proved lower bound
//! above the claim is a violation. Where the event is tight against the attack, the bound must also come *close*: an
//! audit that proves little says little.

mod methods;
pub(crate) mod releases;

use super::attack::{CHUNK, Options, Pair, Report, Verdict, audit};
use super::draws::Draws;
use super::statistics::Claim;
use super::statistics::one_run::Guesses;
use crate::progress::{Progress, Silent};
use dpopt_privacy::{Event, Relation, accountant};
use serde::Serialize;

pub use super::catalogue::Tier;

/// How close to the claim the bound must come in the long tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standard {
    /// The trade-off curve is exactly Gaussian: the bound through it must reach this share of ε.
    GaussianShare(f64),
    /// The bound by counting must reach this share of ε.
    Share(f64),
    /// It must not exceed ε; how close it can come is not known or needs too many runs.
    Sound,
}

/// One row: a mechanism of the library with its worst-case pair.
pub struct LibraryAudit {
    /// Which code.
    pub name: &'static str,
    /// On which neighbours, with which statistic.
    pub pair: &'static str,
    event: Result<Event, String>,
    relation: Relation,
    delta: f64,
    standard: Standard,
    /// Runs per world in the long tier.
    runs: u64,
    attack: Attack,
}

/// One run on D (`true`) or D′ (`false`), or one run with all canaries in it.
enum Attack {
    TwoWorlds(Box<dyn Fn(bool, &mut Draws) -> f64 + Send + Sync>),
    OneRun(Box<dyn Fn(&mut Draws) -> Guesses + Send + Sync>),
}

/// The result of one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LibraryOutcome {
    /// Which code.
    pub name: &'static str,
    /// Pair and statistic.
    pub pair: &'static str,
    /// δ.
    pub delta: f64,
    /// Certified ε at δ.
    pub claimed: f64,
    /// Proved by counting, no model.
    pub lower_bound: f64,
    /// Through the Gaussian curve; a bound where that curve is exact.
    pub gaussian_model: Option<f64>,
    /// Runs per world.
    pub runs: u64,
    /// What the row must reach.
    pub standard: Standard,
    /// The claim was refuted.
    pub violation: bool,
    /// The bound is below the required share (long tier only).
    pub falls_short: bool,
    /// Why the row could not run, if so.
    pub failure: Option<String>,
}

impl LibraryOutcome {
    /// The bound that is compared with the standard, over the claim.
    pub fn share(&self) -> f64 {
        let bound = match self.standard {
            Standard::GaussianShare(_) => self.gaussian_model.unwrap_or(self.lower_bound),
            _ => self.lower_bound,
        };
        if self.claimed > 0.0 { bound / self.claimed } else { 0.0 }
    }
}

/// All rows.
pub fn all() -> Vec<LibraryAudit> {
    let mut rows = releases::audits();
    rows.extend(methods::audits());
    rows
}

/// Runs all rows; one tick of progress each.
pub fn run(tier: Tier, seed: u64, progress: &dyn Progress) -> Vec<LibraryOutcome> {
    let rows = all();
    progress.start("the library's own mechanisms", rows.len() as u64);
    let outcomes = rows
        .iter()
        .enumerate()
        .map(|(i, row)| {
            let outcome = run_one(row, tier, seed.wrapping_mul(7919).wrapping_add(i as u64));
            progress.tick();
            outcome
        })
        .collect();
    progress.finish();
    outcomes
}

/// Runs one row.
pub fn run_one(row: &LibraryAudit, tier: Tier, seed: u64) -> LibraryOutcome {
    let mut outcome = LibraryOutcome {
        name: row.name,
        pair: row.pair,
        delta: row.delta,
        claimed: 0.0,
        lower_bound: 0.0,
        gaussian_model: None,
        runs: 0,
        standard: row.standard,
        violation: false,
        falls_short: false,
        failure: None,
    };
    if let Err(reason) = measure(row, tier, seed, &mut outcome) {
        outcome.failure = Some(reason);
        return outcome;
    }
    outcome.falls_short = tier == Tier::Long
        && match row.standard {
            Standard::Sound => false,
            Standard::Share(share) | Standard::GaussianShare(share) => outcome.share() < share,
        };
    outcome
}

/// 1 − confidence of every row.
const ALPHA: f64 = 1e-6;

fn measure(row: &LibraryAudit, tier: Tier, seed: u64, outcome: &mut LibraryOutcome) -> Result<(), String> {
    let event = row.event.as_ref().map_err(Clone::clone)?;
    let claimed = |delta| accountant::epsilon(event, row.relation, delta).map(|b| b.upper).map_err(|e| e.to_string());
    outcome.claimed = claimed(row.delta)?;
    match &row.attack {
        Attack::TwoWorlds(run) => {
            // the curve, with the reported point on it
            let mut points = match Claim::of_event(event, row.relation, 40, 1e-7).map_err(|e| e.to_string())? {
                Claim::Profile { points } => points,
                _ => Vec::new(),
            };
            points.push((outcome.claimed, row.delta));
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let claim = Claim::Profile { points };
            let runs = match tier {
                Tier::Long => row.runs,
                Tier::Short => row.runs / 20,
            };
            let options = Options { runs, alpha: ALPHA, delta: row.delta, seed, ..Options::default() };
            let pair = Pair { with: true, without: false };
            let report: Report = audit(&claim, |world, draws| run(*world, draws), &pair, &options, &Silent)
                .map_err(|e| e.to_string())?;
            outcome.runs = runs;
            outcome.lower_bound = report.lower_bound;
            outcome.gaussian_model = matches!(row.standard, Standard::GaussianShare(_)).then_some(report.lower_bound_gaussian_model);
            outcome.violation = report.verdict == Verdict::Violated
                || report.lower_bound > outcome.claimed
                || outcome.gaussian_model.is_some_and(|g| g > outcome.claimed);
            if report.roc.is_empty() {
                return Err("the runs gave no numbers: the mechanism refused".into());
            }
        }
        Attack::OneRun(run) => {
            let guesses = run(&mut Draws::new(seed, CHUNK));
            outcome.runs = 1;
            outcome.lower_bound = guesses.epsilon_lower(row.delta, ALPHA);
            outcome.violation = outcome.lower_bound > outcome.claimed;
        }
    }
    Ok(())
}
