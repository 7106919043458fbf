//! Counts, and choices among candidates that are public.

pub(crate) mod above_threshold;
pub(crate) mod agreed_mean;
pub(crate) mod column_ranges;
pub(crate) mod counts;
pub(crate) mod experts;
pub(crate) mod experts_blocks;
pub(crate) mod experts_file;
pub(crate) mod fresh_sums;
pub(crate) mod labels;
pub(crate) mod net;
pub(crate) mod peeling;
pub(crate) mod point_scores;
pub(crate) mod quantiles;
pub(crate) mod ranges;
pub(crate) mod search;
pub(crate) mod selection;
pub(crate) mod session_file;
pub(crate) mod stationarity;
pub(crate) mod sums_file;
pub(crate) mod tree;
pub(crate) mod vertex;
