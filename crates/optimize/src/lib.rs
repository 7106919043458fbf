//! What methods are made of: options, plans from public facts, oracles, drivers, and the registry that compares methods.
//!
//! A method is a type that implements [`Algorithm`], in four steps: options → plan → (certified) → run. Methods for linear models that ship are in
//! `dpopt-linear`; a user-defined one joins them by [`Registry::with`], and [`prelude`] has what it is written with.

pub mod algorithm;
pub mod calibration;
pub mod centred_mean;
pub mod centred_moment;
pub mod choices;
pub mod class_moments;
pub mod clip_bias;
pub mod driver;
pub mod interval_search;
pub mod intervals;
pub mod options;
pub mod oracle;
pub mod plan;
pub mod planning;
pub mod power_law;
pub mod prelude;
pub mod prepared;
pub mod regime;
pub mod registry;
pub mod risk;
pub mod selection;

pub use algorithm::{Algorithm, Capabilities, RowAccess, Run, RunError, RunResult, Solution};
pub use choices::{AdaptiveRule, Domain};
pub use intervals::Intervals;
pub use options::MethodOptions;
pub use planning::Solver;
pub use prepared::{Candidate, Choose, Prepared, prepare};
pub use regime::{Regime, Regimes};
pub use registry::{Described, Registry};
pub use selection::{Compared, Reason, Selection, factor_of_two_bucket};
