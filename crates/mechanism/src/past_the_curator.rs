//! What only the self-audit may use: a look at worlds that it made up itself, curators without a
//! certificate, and releases past the curator, as injected faults make them. It is compiled with the feature of its name only, and
//! `cargo test -p dpopt --test sources` holds that only the self-audit names it or switches it on.

use crate::choices::above_threshold::AboveThreshold;
use crate::choices::experts::ExpertPlays;
use crate::choices::experts_file::SavedExperts;
use crate::choices::search::Searching;
use crate::draws::gibbs::GibbsDraw;
use crate::draws::gibbs_chain::GibbsChain;
use dpopt_kernel::beside::{self, Expose, Members};
use dpopt_kernel::{Batch, Curator, CuratorError, Mechanism, Released, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;

/// Records of a world that an audit made up.
pub fn read_for_tests<T>(world: &Sensitive<T>) -> &T {
    world.expose()
}

/// What a mechanism releases without a check and without a charge.
pub fn unchecked<M: Mechanism>(
    mechanism: &M,
    input: &Sensitive<M::Input>,
    noise: &mut NoiseSource,
) -> Result<M::Output, CuratorError> {
    mechanism.apply(input.expose(), noise)
}

/// A curator for an event without a certificate, whose samplers are taken as exact.
pub fn uncharged(event: &Event, noise: NoiseSource) -> Curator {
    beside::uncharged(event, noise)
}

/// An [uncharged](uncharged) curator that also keeps what it releases: the view of the strongest adversary that the event allows.
pub fn watched(event: &Event, noise: NoiseSource) -> Curator {
    beside::watched(event, noise)
}

/// The releases of a [watched](watched) run, in order.
pub fn seen(curator: &Curator) -> Vec<Vec<f64>> {
    beside::seen(curator)
}

/// Indices of the records in a secret sample, increasing.
pub fn sampled(batch: &Batch) -> &[u64] {
    batch.records()
}

/// A value that no mechanism released.
pub fn released<T>(value: T) -> Released<T> {
    beside::released(value)
}

/// What a session file would hold of a game; `None` of a leader's.
pub fn saved(plays: &ExpertPlays) -> Option<SavedExperts> {
    plays.saved()
}

/// A stream of comparisons with another end than its noise was made for.
pub fn ending_after(mut plan: AboveThreshold, cutoff: u64) -> AboveThreshold {
    plan.cutoff = cutoff;
    plan
}

/// A draw by another chain than was proved for it.
pub fn altered_draw(mut draw: GibbsDraw, change: impl FnOnce(&mut GibbsChain)) -> GibbsDraw {
    change(&mut draw.chain);
    draw
}

/// The secret number of runs of a search.
pub fn runs(search: &Searching) -> u64 {
    search.runs
}

/// A search that makes so many runs.
pub fn search_of(runs: u64) -> Searching {
    Searching { runs, process: dpopt_process::Process::here() }
}
