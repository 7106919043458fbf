//! `--relation` on the command line.

use clap::ValueEnum;
use dpopt_privacy::Relation;

/// Which tables are neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum RelationFlag {
    /// One row contributes or contributes nothing; the number of rows is public
    #[default]
    ZeroOut,
    /// One row is replaced by any other; the number of rows is public
    ReplaceOne,
    /// One row is present or absent; the number of rows is protected
    AddOrRemove,
}

impl From<RelationFlag> for Relation {
    fn from(flag: RelationFlag) -> Self {
        match flag {
            RelationFlag::ZeroOut => Self::ZeroOut,
            RelationFlag::ReplaceOne => Self::ReplaceOne,
            RelationFlag::AddOrRemove => Self::AddOrRemove,
        }
    }
}
