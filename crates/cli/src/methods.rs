//! The methods that this program plans with.

use dpopt::optimize::Registry;
use std::sync::OnceLock;

static METHODS: OnceLock<Registry> = OnceLock::new();

/// Says with which methods this process plans, before anything is planned.
pub(crate) fn plan_with(methods: Registry) {
    let _ = METHODS.set(methods);
}

/// The methods that this process plans with; by default those that ship.
pub(crate) fn registry() -> &'static Registry {
    METHODS.get_or_init(|| dpopt::optimize::registry().clone())
}
