//! Planted bugs: what the audits would catch (spec 20 §1.5, 17 §8, 19 §1.10 and §6).
//!
//! Each entry is a mechanism with one switch: the correct code, or the same code with one classical mistake. Where the
//! library's doors are reachable (clipping, grid sums, rounded noise, the curator's event) the entry goes through them;
//! otherwise it re-implements the mechanism in a few lines. An audit of the stated size must reject the mistake in at
//! least 99 % of the seeds and never reject the correct code. Mistakes that sampling can't see are caught by looking:
//! support membership, exact sensitivities, laws.

mod correlated;
mod floating;
mod gaussian;
mod grid_sum;
mod ledger;
mod linear;
mod run;
mod sampling;
mod selection;

pub(crate) use linear::Logistic;
pub use run::{Outcome, Summary, Tier, run, run_one};

use super::draws::Draws;
use super::statistics::Claim;

/// Which of the two variants runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// As it should be.
    Correct,
    /// With the planted bug.
    Planted,
}

impl Code {
    /// `correct` or `planted`, whichever runs.
    fn pick<T>(self, correct: T, planted: T) -> T {
        match self {
            Self::Correct => correct,
            Self::Planted => planted,
        }
    }
}

/// One run of a mechanism on D (`true`) or D′ (`false`), reduced to a statistic.
type Run = Box<dyn Fn(Code, bool, &mut Draws) -> f64 + Send + Sync>;

/// How a bug is caught.
pub(crate) enum Check {
    /// By counting: independent runs on both worlds against a claim.
    Counting {
        /// What the ledger says.
        claim: Result<Claim, String>,
        /// Runs per world for which the expected counts just reject; the audit uses twice as many.
        runs: u64,
        /// Random draws per run, for the tiers.
        cost: u64,
        /// The mechanism with its statistic.
        run: Run,
    },
    /// By looking: a deterministic check or a test of the output law. `Err` is the evidence.
    Looking(fn(Code) -> Result<(), String>),
}

/// An entry of the catalogue.
pub struct PlantedBug {
    /// `20.1` is row 1 of spec 20 §1.5; the others name the spec they come from.
    pub number: &'static str,
    /// The mistake.
    pub bug: &'static str,
    /// What is looked at, and on which pair.
    pub statistic: &'static str,
    pub(crate) check: Check,
}

impl PlantedBug {
    fn counting(
        number: &'static str,
        bug: &'static str,
        statistic: &'static str,
        claim: Claim,
        (runs, cost): (u64, u64),
        run: impl Fn(Code, bool, &mut Draws) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self { number, bug, statistic, check: Check::Counting { claim: Ok(claim), runs, cost, run: Box::new(run) } }
    }

    fn counting_event(
        number: &'static str,
        bug: &'static str,
        statistic: &'static str,
        claim: Result<Claim, String>,
        (runs, cost): (u64, u64),
        run: impl Fn(Code, bool, &mut Draws) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self { number, bug, statistic, check: Check::Counting { claim, runs, cost, run: Box::new(run) } }
    }

    fn looking(
        number: &'static str,
        bug: &'static str,
        statistic: &'static str,
        check: fn(Code) -> Result<(), String>,
    ) -> Self {
        Self { number, bug, statistic, check: Check::Looking(check) }
    }
}

/// All entries.
pub fn all() -> Vec<PlantedBug> {
    let mut bugs = grid_sum::bugs();
    bugs.extend(gaussian::bugs());
    bugs.extend(correlated::bugs());
    bugs.extend(sampling::bugs());
    bugs.extend(selection::bugs());
    bugs.extend(linear::bugs());
    bugs.extend(ledger::bugs());
    bugs.extend(floating::bugs());
    bugs
}

/// 1 or 0 as a statistic.
fn indicator(event: bool) -> f64 {
    f64::from(u8::from(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_distinct_and_many() {
        let bugs = all();
        let mut numbers: Vec<&str> = bugs.iter().map(|b| b.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), bugs.len());
        assert!(bugs.len() >= 60, "{}", bugs.len());
    }
}
