//! Injected faults: known mistakes of accountants, switched on by tests that must then fail. Test builds only.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Cells sized by the untilted mass: wide chords inflate the tilted tail.
    UntiltedWidths,
    /// The mixture of shifts as the absent side.
    MixtureOnTheWrongSide,
    /// δ between lattice points linear in ε instead of e^ε.
    LinearInEpsilon,
    /// The transform of untilted masses.
    NoTilt,
    /// Errors of one-step masses left out.
    IgnoredErrors,
    /// Losses rounded down to the lattice.
    RoundedDown,
    /// The mass at infinite loss left out.
    DroppedInfinity,
    /// The pair of fixed-size sampling composed without its mirror image.
    OneSidedFixedSize,
    /// Half the sensitivity under fixed-size sampling, in both directions.
    HalvedFixedSize,
    /// Replace-one is accounted as zero-out.
    ReplaceIsZeroOut,
    /// τ added to δ without its factor 1 + e^ε.
    FlatTotalVariation,
    /// The first iterate of the total-variation fixed point returned.
    UnverifiedFixedPoint,
}

thread_local! {
    static INJECTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Whether the fault `bug` is switched on in this thread.
pub(crate) fn is(bug: Bug) -> bool {
    INJECTED.with(|p| p.get() == Some(bug))
}

/// Runs `body` with the fault `bug` switched on.
pub(crate) fn with<T>(bug: Bug, body: impl FnOnce() -> T) -> T {
    INJECTED.with(|p| p.set(Some(bug)));
    let out = body();
    INJECTED.with(|p| p.set(None));
    out
}
