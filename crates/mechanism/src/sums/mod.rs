//! Sums of what records give, each record clipped, and the noise that is added to them.

pub(crate) mod answers;
pub(crate) mod clipped;
pub(crate) mod columns;
pub(crate) mod contributions;
pub(crate) mod embedding;
pub(crate) mod gaussian;
pub(crate) mod grid_sum;
pub(crate) mod histograms;
pub(crate) mod l1_recovery;
pub(crate) mod local_updates;
pub(crate) mod majorant;
pub(crate) mod matrix;
pub(crate) mod moments;
pub(crate) mod numbers_elsewhere;
pub(crate) mod question;
pub(crate) mod restarted;
pub(crate) mod sketched_sum;
pub(crate) mod sparse_descent;
pub(crate) mod sparse_sum;
pub(crate) mod stream;
pub(crate) mod telescope;
pub(crate) mod thresholded;
pub(crate) mod vectors;
