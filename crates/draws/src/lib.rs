//! Draws that few mechanisms need, on the streams and exact numbers of `dpopt-noise`.
//!
//! | what | where it is used |
//! |---|---|
//! | [`NoisyMax`], [`ExponentialChoice`], [`LeveledChoice`], [`WeightedChoice`], [`LaplaceMaximum`] | choices among candidates with integer scores |
//! | [`DiscreteGaussian`] | counts |
//! | [`Descending`], [`Exceedances`], [`hard_threshold`], [`project_l1`], [`project_l1_l2`] | the largest of many noisy coordinates, without drawing all of them |
//! | [`LazyIterate`] | descent with sparse gradients: the noise of the missed steps at once |
//! | [`Sketch`] | sums of sparse vectors |
//! | [`EllipsoidQuantizer`] | records clipped in an ellipsoid |
//! | [`Repetitions`] | how many runs a private search makes |
//!
//! A mechanism that draws from here stands beside the trusted core (docs/architecture.md): it has to be trusted for its own releases.

mod discrete_gaussian;
mod ellipsoid;
mod exceedances;
mod intersection;
mod laplace_maximum;
mod lazy;
mod leveled_choice;
mod order_statistics;
mod repetitions;
mod selection;
mod sketch;
#[cfg(test)]
#[path = "../../noise/src/tests.rs"]
mod tests;
mod weighted_choice;

pub use discrete_gaussian::DiscreteGaussian;
pub use ellipsoid::EllipsoidQuantizer;
pub use exceedances::Exceedances;
pub use intersection::{project_l1_l2, project_l1_l2_dense};
pub use laplace_maximum::LaplaceMaximum;
pub use lazy::{LazyIterate, LazyNoiseError, LazyOptions, Phase, RowSeats, StepRule, Work};
pub use leveled_choice::{Chosen, LeveledChoice, unnamed_index};
pub use order_statistics::{Descending, hard_threshold, project_l1};
pub use repetitions::{Repetitions, RepetitionsError};
pub use selection::{ExponentialChoice, NoisyMax};
pub use sketch::{SKETCH_EXPONENT, Sketch};
pub use weighted_choice::{MAX_DOUBLINGS, WeightedChoice};
