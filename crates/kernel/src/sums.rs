//! Sums of what records give, each record clipped, and the noise that is added to them.

pub(crate) mod aggregate_query;
pub(crate) mod answers;
pub(crate) mod batch_sum;
pub(crate) mod clip;
pub(crate) mod clipped;
pub(crate) mod contributions;
pub(crate) mod gaussian;
pub(crate) mod grid_sum;
pub(crate) mod majorant;
pub(crate) mod matrix;
pub(crate) mod moments;
pub(crate) mod pieces;
pub(crate) mod remote_numbers;
pub(crate) mod stream;
pub(crate) mod vectors;
