//! How much of the audits is run.

use serde::{Deserialize, Serialize};

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// A few seeds; for every commit (some minutes of CPU).
    Short,
    /// Up to 100 seeds per injected fault and all runs of every row; `make audit`.
    Long,
}
