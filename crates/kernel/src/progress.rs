//! Progress of long work, in planned steps only: nothing shown depends on records.

/// Receives progress. Steps are counted by the plan, never by the data.
pub trait Progress: Sync {
    /// A phase begins; `steps` is the planned number of ticks.
    fn start(&self, phase: &str, steps: u64);
    /// One planned step is done.
    fn tick(&self);
    /// The phase that was begun ends.
    fn finish(&self);
}

/// Receives progress and shows nothing of it.
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _phase: &str, _steps: u64) {}
    fn tick(&self) {}
    fn finish(&self) {}
}
