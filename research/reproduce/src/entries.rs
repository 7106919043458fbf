//! All figures and tables; one file each.

mod accelerated;
mod adaptive;
mod bias_reduced;
mod census_accuracy;
mod dimension;
mod general_norms;
mod geometric_median;
mod goldstein;
mod gradient_subspace;
mod hard_thresholding;
mod heavy_tailed_sco;
mod heavy_tails;
mod log_laplace;
mod map;
mod net;
mod objectives;
mod one_epoch;
mod online_convex;
mod online_experts;
mod parallel_sco;
mod real_losses;
mod records;
mod sparse_erm;
mod sparse_mean;
mod stationary;
mod user_level;
mod user_panel;
mod yardstick;

use crate::Entry;

/// All entries, in the order of the list.
pub const ALL: &[&Entry] = &[
    &geometric_median::AS_SCRIPTED,
    &geometric_median::EXACT_NOISE,
    &dimension::ENTRY,
    &gradient_subspace::ENTRY,
    &sparse_mean::ENTRY,
    &census_accuracy::ENTRY,
    &hard_thresholding::RATES,
    &hard_thresholding::TABLES,
    &adaptive::SYNTHETIC,
    &adaptive::LOWER_BOUNDS,
    &adaptive::TABLES,
    &adaptive::LANGUAGE_MODEL,
    &adaptive::LANGUAGE_MODEL_CAUSES,
    &sparse_erm::ENTRY,
    &bias_reduced::STEPS_AND_BIAS,
    &bias_reduced::LEARNING,
    &user_panel::ENTRY,
    &user_level::ENTRY,
    &accelerated::ENTRY,
    &parallel_sco::ENTRY,
    &objectives::ENTRY,
    &real_losses::ENTRY,
    &one_epoch::ENTRY,
    &stationary::ENTRY,
    &stationary::ONE_PASS,
    &heavy_tails::ENTRY,
    &heavy_tailed_sco::ENTRY,
    &online_experts::ENTRY,
    &online_convex::ENTRY,
    &net::ENTRY,
    &goldstein::ENTRY,
    &map::ENTRY,
    &log_laplace::ENTRY,
    &general_norms::ENTRY,
];

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name).copied()
}
