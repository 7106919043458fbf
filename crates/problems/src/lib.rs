//! Problems made from a seed, with a known truth, for demos, benchmarks and tests. Nothing here is sensitive.
//!
//! | problem | what is known | where it is hard |
//! |---|---|---|
//! | [`census`] | the logistic model behind the labels | mixed columns, rare levels |
//! | [`panel`] | the logistic model behind the labels, the correlation within a person | many rows of one person, also unevenly many |
//! | [`messages`] | the logistic model behind the labels | two owners of each row, few of whom have very many |
//! | [`tastes`] | the accuracy of the hidden vectors behind the labels | interactions alone say something: for embedding models |
//! | [`GeometricMedian`] | minimiser, minimum, restricted-Lipschitz coefficients | a dial from √d to dimension-free |
//! | [`LinearLosses`] | minimisers and excess risks on ball and box, drawn and in law | the lower bounds of ERM and SCO |
//! | [`sparse_packing`] | pairwise distances | lower bound of pure DP for sparse means |
//! | [`sparse_means`] | exact means, lower bounds on any private estimate | means of sparse vectors, in three regimes |
//! | [`one_hot`] | the logistic model behind the labels, the same for every d | very many features, few in a row |
//! | [`decaying_logistic`] | true weights, the same for every d | when dimension does not hurt |
//! | [`sparse_regression`] | true weights and support | hard thresholding |
//! | [`ValueQueries`] | excess risk; the Gibbs measure is Gaussian | lower bound for value queries |
//! | [`LpValueQueries`] | excess risk on l_p balls | lower bound for value queries in l_p |
//! | [`Valley`] | value, gradient, curvature, and where noisy descent is held up | a valley that narrows again and again: for Spider |
//! | [`KinkedLoss`] | value, gradient, the truth behind the records; [`goldstein_norm`] certifies an answer | kinks without convexity: robust phase retrieval, capped absolute errors |
//! | [`absolute_regression`] | true weights | adaptive methods on anisotropic data |
//!
//! [`laws`] are what samples are held against.

mod census;
mod draws;
mod geometric_median;
mod goldstein;
mod kinks;
pub mod laws;
mod linear;
mod lp_value_queries;
mod messages;
mod panel;
mod regression;
pub mod sparse_means;
mod sparse_rows;
mod tastes;
mod valley;
mod value_queries;

pub use census::{Census, Term, census};
pub use geometric_median::GeometricMedian;
pub use goldstein::{goldstein_norm, least_norm_point};
pub use kinks::{Kink, KinkedLoss, Seen};
pub use linear::{LinearLosses, bucket, sparse_packing};
pub use lp_value_queries::LpValueQueries;
pub use messages::{Messages, messages};
pub use panel::{Panel, panel, uneven_panel};
pub use regression::{LinearModel, absolute_regression, decaying_logistic, sparse_regression};
pub use sparse_rows::one_hot;
pub use tastes::{Tastes, tastes};
pub use valley::{Floor, Gates, Pull, Valley};
pub use value_queries::ValueQueries;
