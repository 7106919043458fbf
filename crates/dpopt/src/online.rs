//! Private learning while it happens (docs/online.md): one of d experts in every round, a point of a box or a ball, or one of K arms.
//!
//! A game is planned from public facts, charged as a whole before the first round, then a conversation.

mod bandit;
mod convex;
mod error;
mod experts;

pub use bandit::{Bandit, BanditOptions, compare_bandits, explain_bandit};
pub use convex::{Convex, ConvexOptions, explain_convex};
pub use error::OnlineError;
pub use experts::{Experts, ExpertsOptions, explain_experts};

use crate::run::RunOptions;
use dpopt_privacy::Neighbours;

/// Who is protected in a game: rounds.
///
/// # Errors
/// If rows of a unit are asked for.
fn of_rounds(run: &RunOptions) -> Result<Neighbours, OnlineError> {
    match run.unit {
        None => Ok(Neighbours::of_rounds(run.relation)),
        Some(_) => Err(OnlineError::Option(
            "an online game protects rounds, and has no rows of a unit; give the largest number of rounds that one \
             person takes part in"
                .into(),
        )),
    }
}

/// Why a session file is refused beside a seed.
fn seeded_session() -> OnlineError {
    OnlineError::Option(
        "a session file and an insecure seed exclude each other, since the same randomness would be drawn again \
         after a restart; leave one of them out"
            .into(),
    )
}
