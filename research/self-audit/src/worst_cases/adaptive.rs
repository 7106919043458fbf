//! Canaries in ellipsoids: an axis of any length, moments released before the first step (Asi et al. 2021, Algorithms 2 and 3).

use super::methods::{Subject, problem};
use super::sums::canaries;
use dpopt_linear::{Adaptive, AdaptiveKind, AdaptiveOptions, DescentOptions, Moments, Pagan};
use dpopt_mechanism::Sensitive;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Examples, Rows};

/// Records of the small problems; only the first is ever present.
pub(crate) const ROWS: usize = 4;

/// `steps` steps so small that the gradient of the absolute loss never turns.
pub(crate) fn anisotropic(steps: u64) -> DescentOptions {
    DescentOptions { steps: Some(steps), learning_rate: Some(1e-4), clip_norm: Some(1e-3), ..DescentOptions::default() }
}

/// Three features of public spreads 1, .03 and .001; the canary has feature j.
pub(crate) fn axis(j: usize, steps: u64, budget: (f64, f64)) -> Subject<Pagan> {
    let moments = Some(Moments::Public { spreads: vec![1.0, 0.03, 0.001] });
    let pagan = Pagan::new(Some(1.0), AdaptiveOptions { moments, ..AdaptiveOptions::default() }, anisotropic(steps));
    let with = {
        let mut rows = Rows::new(3);
        rows.push_clipped(&mut [(j as u32, 1.0)], 1.0);
        (1..ROWS).for_each(|_| rows.push_zero());
        Sensitive::new(Examples { rows, targets: vec![1.0, 0.0, 0.0, 0.0] })
    };
    Subject::new(pagan, problem(ROWS, 3, Loss::Absolute), budget, [canaries(ROWS, 3, &[0.0]), with])
}

/// Records enough to pay for moments, all but the first of them zeros.
const MANY: usize = 40;

/// A method that releases moments first; the canary has the one feature, in full.
pub(crate) fn moments<K: AdaptiveKind>(method: Adaptive<K>, budget: (f64, f64)) -> Subject<Adaptive<K>> {
    Subject::new(
        method,
        problem(MANY, 1, Loss::Absolute),
        budget,
        [canaries(MANY, 1, &[0.0]), canaries(MANY, 1, &[1.0])],
    )
}
