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

/// Why a session file is refused beside a seed.
fn seeded_session() -> OnlineError {
    OnlineError::Option(
        "a session file and an insecure seed do not go together: the same coins would come again after a restart"
            .into(),
    )
}
