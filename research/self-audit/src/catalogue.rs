//! Injected faults: mistakes that the audits must catch.
//!
//! Each entry is a mechanism with one switch: the correct code, or the same code with one classical mistake. The mistakes
//! are made *around* the library's code (a wrong parameter, a wrong event, a wrong use, a step replaced by the audit's own),
//! so there is no switch in it that a build could leave on; [`Source`] says how much of an entry is shipped code. An audit
//! of the stated size must reject the mistake in at least 99 % of the seeds and never reject the correct code. Mistakes
//! that sampling can't see are caught by looking: support membership, exact sensitivities, laws, the curator's refusals.

mod adaptive;
mod agreed;
mod arrivals;
mod calibration;
mod candidates;
mod certified;
mod comparisons;
mod correlated;
mod coverage;
mod descents;
mod embeddings;
mod experts;
mod fixed_size;
mod floating;
mod frank_wolfe;
mod gaussian;
mod general_norms;
mod gibbs;
mod grid_sum;
mod hard_thresholding;
mod heavy_tailed;
mod ledger;
mod linear;
mod moments;
mod o2nc;
mod objectives;
mod owners;
mod partitions;
mod peeling;
mod phased;
mod restarted;
mod run;
mod sampling;
mod selection;
mod sparse;
mod spider;
mod streams;
mod units;

pub use super::tier::Tier;
pub use run::{Outcome, Summary, run, run_one, run_some};

use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use serde::{Deserialize, Serialize};

/// δ of the reported lower bounds.
const DELTA: f64 = 1e-5;

/// Which of the two variants runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The code as it should be.
    Correct,
    /// The code with the injected fault.
    Injected,
}

impl Code {
    /// `correct` or `injected`, whichever runs.
    pub(crate) fn pick<T>(self, correct: T, injected: T) -> T {
        match self {
            Self::Correct => correct,
            Self::Injected => injected,
        }
    }
}

/// How much of an entry is the library's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Both variants run shipped code; the mistake is a wrong parameter, a wrong event or a wrong use of it.
    Shipped,
    /// The correct variant runs shipped code; in the injected one a step of it is replaced.
    Altered,
}

impl Source {
    /// Name of the source in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Altered => "altered",
        }
    }
}

/// One run of a mechanism on D (`true`) or D′ (`false`), reduced to a statistic.
type Run = Box<dyn Fn(Code, bool, &mut Draws) -> f64 + Send + Sync>;

/// Number, source, mistake, statistic.
type Text = (&'static str, Source, &'static str, &'static str);

/// How a bug is caught.
pub(crate) enum Check {
    /// By counting: independent runs on both worlds against a claim.
    Counting {
        /// What the ledger says.
        claim: Result<Claim, String>,
        /// Pairs of runs for which expected counts just reject; an audit makes at most twice as many.
        runs: u64,
        /// Nanoseconds of one run, roughly: the tiers choose the number of seeds by it.
        cost: u64,
        /// The mechanism with its statistic.
        run: Run,
    },
    /// By looking: a deterministic check or a test of the output law. `Err` is the evidence.
    Looking(fn(Code) -> Result<(), String>),
}

/// An entry of the catalogue.
pub struct InjectedFault {
    /// The fault's name, printed and stored: a group and a word or number, such as `16.peeling-laplace`. Groups 01 to 13 are chapters of Liu 2024, 14 Asi et
    /// al. 2021, 15 Ghazi et al. 2024, 16 Liang et al. 2022; the others are this library's own mechanisms.
    pub number: &'static str,
    /// How much of it is shipped code.
    pub source: Source,
    /// The mistake, in words.
    pub bug: &'static str,
    /// What is looked at, and on which pair.
    pub statistic: &'static str,
    pub(crate) check: Check,
}

/// A claim, or why there is none.
trait IntoClaim {
    fn into_claim(self) -> Result<Claim, String>;
}

impl IntoClaim for Claim {
    fn into_claim(self) -> Result<Claim, String> {
        Ok(self)
    }
}

impl IntoClaim for Result<Claim, String> {
    fn into_claim(self) -> Self {
        self
    }
}

impl InjectedFault {
    fn counting(
        (number, source, bug, statistic): Text,
        claim: impl IntoClaim,
        (runs, cost): (u64, u64),
        run: impl Fn(Code, bool, &mut Draws) -> f64 + Send + Sync + 'static,
    ) -> Self {
        let check = Check::Counting { claim: claim.into_claim(), runs, cost, run: Box::new(run) };
        Self { number, source, bug, statistic, check }
    }

    fn looking((number, source, bug, statistic): Text, check: fn(Code) -> Result<(), String>) -> Self {
        Self { number, source, bug, statistic, check: Check::Looking(check) }
    }
}

/// All entries of the catalogue, group by group.
pub fn all() -> Vec<InjectedFault> {
    let mut bugs = grid_sum::bugs();
    bugs.extend(gaussian::bugs());
    bugs.extend(correlated::bugs());
    bugs.extend(streams::bugs());
    bugs.extend(restarted::bugs());
    bugs.extend(sampling::bugs());
    bugs.extend(selection::bugs());
    bugs.extend(comparisons::bugs());
    bugs.extend(linear::bugs());
    bugs.extend(hard_thresholding::bugs());
    bugs.extend(frank_wolfe::bugs());
    bugs.extend(peeling::bugs());
    bugs.extend(adaptive::bugs());
    bugs.extend(gibbs::bugs());
    bugs.extend(sparse::bugs());
    bugs.extend(ledger::bugs());
    bugs.extend(floating::bugs());
    bugs.extend(embeddings::bugs());
    // a row's seed is its place: new ones come last
    bugs.push(grid_sum::histograms());
    bugs.extend(descents::bugs());
    bugs.extend(units::bugs());
    bugs.extend(owners::bugs());
    bugs.extend(objectives::bugs());
    bugs.extend(phased::bugs());
    bugs.push(objectives::separate_clips());
    bugs.push(objectives::one_sided_curve());
    bugs.push(phased::kinks());
    bugs.extend(heavy_tailed::bugs());
    bugs.push(heavy_tailed::stale_threshold());
    bugs.extend(agreed::bugs());
    bugs.extend(certified::bugs());
    bugs.extend(experts::bugs());
    bugs.extend(arrivals::bugs());
    bugs.push(fixed_size::triangle());
    bugs.extend(experts::of_blocks());
    bugs.extend(partitions::bugs());
    bugs.extend(spider::bugs());
    bugs.extend(candidates::bugs());
    bugs.extend(o2nc::bugs());
    bugs.extend(general_norms::bugs());
    bugs.extend(calibration::bugs());
    bugs.push(coverage::bug());
    bugs.extend(moments::bugs());
    bugs.push(linear::curvature_for_free());
    bugs
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
        assert!(bugs.len() >= 70, "{}", bugs.len());
    }
}
