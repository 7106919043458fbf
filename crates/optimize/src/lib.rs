//! What methods are made of: options, plans from public facts, oracles, drivers, and the registry that compares methods.
//!
//! A method is a type that implements [`Algorithm`], in four steps: options → plan → (certified) → run. Methods for linear models that ship are in
//! `dpopt-linear`.

pub mod algorithm;
pub mod calibration;
pub mod centred_mean;
pub mod choices;
pub mod clip_bias;
pub mod driver;
pub mod options;
pub mod oracle;
pub mod plan;
pub mod planning;
pub mod power_law;
pub mod prepared;
pub mod regime;
pub mod registry;
pub mod risk;

pub use algorithm::{Algorithm, RowAccess, Run, RunError, RunResult, Solution, Traits};
pub use choices::{AdaptiveRule, Domain};
pub use options::MethodOptions;
pub use planning::Solver;
pub use prepared::{Choose, Prepared, prepare};
pub use regime::{Regime, Regimes};
pub use registry::{Candidate, Described, Registry, first_applicable, octave};
