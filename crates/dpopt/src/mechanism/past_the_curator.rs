//! What audits need and nobody else may have: a look at worlds that they made up themselves, and releases past the curator, which
//! planted bugs let out. `cargo test -p dpopt --test floors` holds that only `audit` names this module.

use super::door::Mechanism;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_noise::NoiseSource;

/// Records of a world that an audit made up.
pub(crate) fn made_up<T>(world: &Sensitive<T>) -> &T {
    world.expose()
}

/// What a mechanism lets out if nobody checks and nobody charges.
pub(crate) fn unchecked<M: Mechanism>(
    mechanism: &M,
    input: &Sensitive<M::Input>,
    noise: &mut NoiseSource,
) -> Result<M::Output, CuratorError> {
    mechanism.apply(input.expose(), noise)
}
