//! Known mistakes of accountants, switched on by tests that must then fail (spec 18 §10). Test builds only.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Cells sized by the untilted mass: wide chords inflate the tilted tail.
    UntiltedWidths,
    /// The mixture of shifts as the absent side.
    MixtureOnTheWrongSide,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Whether `bug` is planted on this thread.
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.with(|p| p.get() == Some(bug))
}

/// Runs `body` with `bug` planted.
pub(crate) fn with<T>(bug: Bug, body: impl FnOnce() -> T) -> T {
    PLANTED.with(|p| p.set(Some(bug)));
    let out = body();
    PLANTED.with(|p| p.set(None));
    out
}
