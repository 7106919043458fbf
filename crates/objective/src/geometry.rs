//! Norms and projections: dense vectors, exact up to rounding, no randomness.
//!
//! Projecting what was released is post-processing, so none of this needs to be trusted for privacy; projecting a record's
//! contribution before it is summed is part of the sensitivity, which the mechanisms enforce by their own clip.

mod balls;
mod chebyshev;
mod diagonal;
mod threshold;
mod two_balls;

pub use balls::{project_box, project_l1_ball, project_l1_l2_balls, project_l2_ball};
pub use chebyshev::{nearest_in_box, nearest_in_l1_ball, nearest_in_l2_ball};
pub use diagonal::{clip_to_ellipsoid, project_ellipsoid, project_l2_ball_in_norm};
pub use threshold::{hard_threshold, soft_threshold};
pub use two_balls::project_two_balls;

/// The l2 norm ‖x‖₂.
pub fn norm(x: &[f64]) -> f64 {
    x.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// The l1 norm ‖x‖₁.
pub fn l1_norm(x: &[f64]) -> f64 {
    x.iter().map(|v| v.abs()).sum()
}
