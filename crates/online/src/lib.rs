//! Players of a game of many rounds, planned before the first with their proved bounds (docs/proofs/online-experts.md, online-convex.md,
//! online-bandit.md), and models that learn while their records come (docs/proofs/partial-fit.md).

mod bandit;
mod blocks;
mod convex;
mod experts;
mod linear;

pub use bandit::{
    ArmPlan, ArmPlayer, ArmWeights, BanditPlan, BanditPlays, BanditProblem, BanditStanding, KeptBandit, Rewards,
    bandit_candidates, plan_bandit,
};
pub use convex::{ConvexPlan, ConvexPlays, ConvexProblem, Losses, PlayRegion, plan_convex};
pub use experts::{
    ExpertLosses, ExpertsMechanism, ExpertsPlan, ExpertsProblem, PLAYERS, Player, experts_candidates, least_of,
    plan_experts,
};
pub use linear::{LinearLearner, LinearStreamPlan, plan_linear_stream};
