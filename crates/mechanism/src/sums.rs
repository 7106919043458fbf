//! Sums that single methods are made of, and the noise that is added to them.

pub(crate) mod columns;
pub(crate) mod embedding;
pub(crate) mod histograms;
pub(crate) mod l1_recovery;
pub(crate) mod laplace;
pub(crate) mod local_updates;
pub(crate) mod restarted;
pub(crate) mod sketched_sum;
pub(crate) mod sparse_descent;
pub(crate) mod sparse_sum;
pub(crate) mod telescope;
pub(crate) mod thresholded;
