//! `--recalls`: known faults of earlier versions, from the list that ships and a newer one.

use crate::output::Failure;
use crate::usage;
use clap::Args;
use dpopt::recall::Recalls;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct RecallFlags {
    /// A newer list of known faults than the one that ships (recalls.toml of the repository). Nothing is fetched
    #[arg(long, value_name = "FILE")]
    recalls: Option<PathBuf>,
}

impl RecallFlags {
    /// The file that was given, which nothing may be written over.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.recalls.as_deref()
    }

    /// The list that ships, renewed by the file that was given.
    pub(crate) fn list(&self) -> Result<Recalls, Failure> {
        let Some(path) = &self.recalls else {
            return Ok(Recalls::shipped());
        };
        Recalls::open(path).map_err(|why| usage(format!("--recalls {}: {why}", path.display())))
    }
}
