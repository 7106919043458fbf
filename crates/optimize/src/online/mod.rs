//! Players of a game of many rounds, chosen before the first by their proved bounds (docs/proofs/online-experts.md).

mod experts;

pub use experts::{ExpertsDoor, ExpertsPlan, ExpertsProblem, PLAYERS, Player, experts_candidates, plan_experts};
