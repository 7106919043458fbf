//! What a method of one's own is written with: `use dpopt::optimize::prelude::*`.

pub use crate::algorithm::{Algorithm, Capabilities, RowAccess, Run, RunError, RunResult, Solution};
pub use crate::driver::{Course, Driver, drive};
pub use crate::options::common::{CLIP_NORM, LEARNING_RATE, MOMENTUM, REGULARIZATION, SAMPLING_PROBABILITY, STEPS};
pub use crate::options::{Choice, OptionReader, Range, Setting};
pub use crate::oracle::{GradientSums, NoisySum, Oracle};
pub use crate::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
pub use crate::planning::{asked_or_stable_rate, check_problem, in_range, noise, positive};
pub use crate::registry::Registry;
pub use crate::risk::RiskModel;
pub use dpopt_objective::objective::OfRows;
pub use dpopt_privacy::{Budget, Event};
