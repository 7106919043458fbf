//! Attacks: from a mechanism and a pair of neighbours to a lower bound on its ε.
//!
//! [`audit`] takes anything that can be run: a function from (data, randomness) to one number. Part of the runs choose
//! the event, the rest are counted; the report holds a bound that is wrong with probability at most 1 − confidence.
//! [`audit_until`] and [`Sequential`] bet pair by pair instead and stop when the claim has fallen.

pub mod likelihood;
mod picture;
mod sequential;
mod worlds;

pub use picture::roc_svg;
pub use sequential::{Sequential, Stopping, audit_until};
pub use worlds::{CHUNK, sample};

use super::draws::Draws;
use super::statistics::threshold::{Choice, Event, choose, sort};
use super::statistics::{Claim, Counts};
use dpopt_mechanism::progress::Progress;
use serde::Serialize;
use thiserror::Error;

/// Two neighbouring data sets. Which of them holds the record does not matter: both orders are tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair<D> {
    /// The data set D.
    pub with: D,
    /// The neighbouring data set D′.
    pub without: D,
}

/// How much to run and how sure to be.
///
/// | field | default | range |
/// |---|---|---|
/// | `runs` | 20 000 | ≥ 8 per world |
/// | `pilot_share` | 1/4 | (0, 1) |
/// | `alpha` | 1e-6 | (0, 1) |
/// | `delta` | 1e-5 | [0, 1) |
/// | `seed` | 0 | any |
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Options {
    /// Runs per world, the pilot included.
    pub runs: u64,
    /// Share of the runs that choose the event and are not counted.
    pub pilot_share: f64,
    /// Probability that the report is wrong about a correct mechanism.
    pub alpha: f64,
    /// The δ at which the lower bound on ε is reported.
    pub delta: f64,
    /// Seed of the audit's own randomness: the same seed gives the same report on any number of threads.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        // a quarter of the runs for the pilot, and a false alarm of 1e-6
        Self { runs: 20_000, pilot_share: 0.25, alpha: 1e-6, delta: 1e-5, seed: 0 }
    }
}

/// What an audit concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim is impossible at the stated confidence.
    Violated,
    /// The attack did not refute the claim.
    NotRefuted,
}

/// One empirical point of the trade-off curve (not a bound).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RocPoint {
    /// Threshold on the statistic.
    pub threshold: f64,
    /// Share of the runs on D′ above it.
    pub fpr: f64,
    /// Share of the runs on D above it.
    pub tpr: f64,
}

/// The result of an audit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// ε is at least this at `delta`, with probability `confidence`. Clopper–Pearson; needs no model.
    pub lower_bound: f64,
    /// Lower bound on ε at `delta` by the Gaussian curve through the two rates: valid only **under the Gaussian model**.
    pub lower_bound_gaussian_model: f64,
    /// μ-GDP is refuted for every μ below this (any mechanism).
    pub mu_lower: f64,
    /// ε claimed at `delta`.
    pub claimed: f64,
    /// δ of the two ε.
    pub delta: f64,
    /// The probability 1 − α with which the report is right about a correct mechanism.
    pub confidence: f64,
    /// Runs per world, pilot included.
    pub runs: u64,
    /// The event that was frozen after the pilot.
    pub event: Event,
    /// What was counted on the fresh runs.
    pub counts: Counts,
    /// Empirical curve over the fresh runs.
    pub roc: Vec<RocPoint>,
    /// Whether the claim survived.
    pub verdict: Verdict,
    /// How a sequential audit ended; its `counts` are then all runs so far and bound nothing by themselves. None for an audit
    /// of fixed size.
    pub stopping: Option<Stopping>,
}

/// Why an audit could not be made.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AuditError {
    /// An option is outside its range.
    #[error("{0}")]
    Option(String),
}

impl Options {
    /// Checks all ranges.
    ///
    /// # Errors
    /// Names the option and its range.
    pub fn check(&self) -> Result<(), AuditError> {
        let error = |text: String| Err(AuditError::Option(text));
        if self.runs < 8 {
            return error(format!("runs is {}; give at least 8 per world, usually 1000 or more", self.runs));
        }
        if !(self.pilot_share > 0.0 && self.pilot_share < 1.0) {
            return error(format!("pilot_share is {}; give a share in (0, 1), for example 0.25", self.pilot_share));
        }
        if !(self.alpha > 0.0 && self.alpha < 1.0) {
            return error(format!("alpha is {}; give a probability in (0, 1), for example 1e-6", self.alpha));
        }
        if !(0.0..1.0).contains(&self.delta) {
            return error(format!("delta is {}; give a number in [0, 1)", self.delta));
        }
        Ok(())
    }

    /// Runs of the pilot, at least 4 and at most all but 4.
    pub fn pilot_runs(&self) -> u64 {
        ((self.runs as f64 * self.pilot_share) as u64).clamp(4, self.runs - 4)
    }
}

/// Audits `mechanism` on `pair` against `claim`.
///
/// `mechanism` maps a data set and fresh randomness to one statistic of its output; larger or smaller, both sides of
/// every threshold and both orders of the worlds are considered on the pilot. NaN counts as "not above".
///
/// ```
/// use dpopt_audit::attack::{Options, Pair, Verdict, audit};
/// use dpopt_audit::statistics::Claim;
/// use dpopt_mechanism::progress::Silent;
///
/// // a count released with noise of standard deviation 1, claimed to have 2
/// let release = |count: &f64, draws: &mut dpopt_audit::draws::Draws| count + draws.gaussian();
/// let pair = Pair { with: 1.0, without: 0.0 };
/// let report = audit(&Claim::gaussian(0.5), release, &pair, &Options::default(), &Silent)?;
/// assert_eq!(report.verdict, Verdict::Violated);
/// let report = audit(&Claim::gaussian(1.0), release, &pair, &Options::default(), &Silent)?;
/// assert_eq!(report.verdict, Verdict::NotRefuted);
/// assert!(report.lower_bound > 1.0 && report.lower_bound < report.claimed);
/// # Ok::<(), dpopt_audit::attack::AuditError>(())
/// ```
///
/// # Errors
/// An option or the claim is out of range.
pub fn audit<D: Sync>(
    claim: &Claim,
    mechanism: impl Fn(&D, &mut Draws) -> f64 + Sync,
    pair: &Pair<D>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, AuditError> {
    options.check()?;
    claim.check().map_err(AuditError::Option)?;
    let chunks = options.runs.div_ceil(CHUNK);
    progress.start("auditing", 2 * chunks);
    // streams 0.. for D, 2^32.. for D′: never shared
    let with = sample(options.runs, options.seed, 0, progress, |draws| mechanism(&pair.with, draws));
    let without = sample(options.runs, options.seed, 1 << 32, progress, |draws| mechanism(&pair.without, draws));
    progress.finish();
    Ok(conclude(claim, &with, &without, options))
}

/// Concludes from samples that were drawn elsewhere: independent runs on each world, in any order but unselected.
///
/// # Errors
/// A sample is shorter than 8, or an option or the claim is out of range.
pub fn audit_samples(claim: &Claim, with: &[f64], without: &[f64], options: &Options) -> Result<Report, AuditError> {
    let runs = with.len().min(without.len()) as u64;
    let options = Options { runs, ..*options };
    options.check()?;
    claim.check().map_err(AuditError::Option)?;
    Ok(conclude(claim, &with[..runs as usize], &without[..runs as usize], &options))
}

fn conclude(claim: &Claim, with: &[f64], without: &[f64], options: &Options) -> Report {
    let pilot = options.pilot_runs() as usize;
    let fresh = options.runs - pilot as u64;
    let Choice { event, bound, model, .. } =
        choose(&with[..pilot], &without[..pilot], claim, options.delta, fresh, options.alpha);
    let counts = event.count(&with[pilot..], &without[pilot..]);
    // three events, a third of α each
    let share = options.alpha / 3.0;
    let rates = counts.rates(share);
    let fresh_rates = |event: Event| event.count(&with[pilot..], &without[pilot..]).rates(share);
    let (best, model) = (fresh_rates(bound), fresh_rates(model));
    Report {
        lower_bound: best.epsilon_lower(options.delta),
        lower_bound_gaussian_model: model.gaussian_epsilon_lower(options.delta),
        mu_lower: model.mu_lower(),
        claimed: claim.epsilon(options.delta),
        delta: options.delta,
        confidence: 1.0 - options.alpha,
        runs: options.runs,
        event,
        counts,
        roc: roc(&with[pilot..], &without[pilot..]),
        verdict: if [rates, best, model].iter().any(|r| r.rejects(claim)) {
            Verdict::Violated
        } else {
            Verdict::NotRefuted
        },
        stopping: None,
    }
}

/// Number of points of the empirical trade-off curve.
const ROC_POINTS: usize = 200;

fn roc(with: &[f64], without: &[f64]) -> Vec<RocPoint> {
    let sorted = |s: &[f64]| {
        let mut v: Vec<f64> = s.iter().copied().filter(|x| !x.is_nan()).collect();
        sort(&mut v);
        v
    };
    let (a, b) = (sorted(with), sorted(without));
    let mut pooled: Vec<f64> = a.iter().chain(&b).copied().collect();
    sort(&mut pooled);
    let n = pooled.len();
    let above = |s: &[f64], all: usize, t: f64| (s.len() - s.partition_point(|&x| x <= t)) as f64 / all.max(1) as f64;
    let edge = (n as f64).max(2.0).ln();
    let mut points: Vec<RocPoint> = (0..=ROC_POINTS)
        .filter(|_| n > 0)
        .map(|i| {
            let z = -edge + 2.0 * edge * i as f64 / ROC_POINTS as f64;
            let threshold = pooled[((n as f64 / (1.0 + (-z).exp())) as usize).min(n - 1)];
            RocPoint { threshold, fpr: above(&b, without.len(), threshold), tpr: above(&a, with.len(), threshold) }
        })
        .collect();
    points.dedup_by(|x, y| x.threshold == y.threshold);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::progress::Silent;

    fn gaussian(shift: &f64, draws: &mut Draws) -> f64 {
        shift + draws.gaussian()
    }

    #[test]
    fn same_report_on_any_number_of_threads() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| {
                let pair = Pair { with: 1.0, without: 0.0 };
                audit(&Claim::gaussian(1.0), gaussian, &pair, &Options::default(), &Silent).expect("valid options")
            })
        };
        let one = run(1);
        assert_eq!(one, run(3));
        assert_eq!(one.verdict, Verdict::NotRefuted);
        assert!(one.roc.len() > 50 && one.roc.iter().all(|p| p.tpr >= p.fpr - 0.02));
    }

    #[test]
    fn samples_from_others() {
        let mut draws = Draws::new(8, 8);
        let with: Vec<f64> = (0..3000).map(|_| 2.0 + draws.gaussian()).collect();
        let without: Vec<f64> = (0..2500).map(|_| draws.gaussian()).collect();
        let report = audit_samples(&Claim::gaussian(1.0), &with, &without, &Options::default()).expect("enough runs");
        assert_eq!((report.verdict, report.runs), (Verdict::Violated, 2500));
        assert!(audit_samples(&Claim::gaussian(1.0), &with[..3], &without, &Options::default()).is_err());
    }

    #[test]
    fn bad_options_say_what_to_do() {
        let pair = Pair { with: 1.0, without: 0.0 };
        for options in [
            Options { runs: 1, ..Options::default() },
            Options { alpha: 0.0, ..Options::default() },
            Options { delta: f64::NAN, ..Options::default() },
            Options { pilot_share: 1.0, ..Options::default() },
        ] {
            assert!(audit(&Claim::gaussian(1.0), gaussian, &pair, &options, &Silent).is_err());
        }
    }
}
