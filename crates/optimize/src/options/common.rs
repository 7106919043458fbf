//! Options that methods of several families have.

use super::{Range, Setting};

/// T.
pub(crate) static STEPS: Setting<u64> = Setting::whole("steps", "number of noisy steps");
/// η.
pub(crate) static LEARNING_RATE: Setting<f64> =
    Setting::real("learning_rate", Range::POSITIVE, "step size on the mean loss, the largest of all steps");
/// C.
pub(crate) static CLIP_NORM: Setting<f64> = Setting::real(
    "clip_norm",
    Range::POSITIVE,
    "bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss)",
);
/// G.
pub(crate) static GRADIENT_MOMENT: Setting<f64> = Setting::real(
    "gradient_moment",
    Range::POSITIVE,
    "G, a public guess with (E‖gradient‖^k)^(1/k) ≤ G, for heavy tails: the clip norm is then where what it takes and the noise that it needs balance",
);
/// k of G.
pub(crate) static MOMENT_ORDER: Setting<f64> = Setting::real(
    "moment_order",
    Range::POSITIVE,
    "k of gradient_moment, above 1: the larger, the lighter the tails [default: 2]",
);
/// q.
pub(crate) static SAMPLING_PROBABILITY: Setting<f64> =
    Setting::real("sampling_probability", Range::PROBABILITY, "probability of a record to enter a batch");
/// λ.
pub(crate) static REGULARIZATION: Setting<f64> =
    Setting::real("regularization", Range::NOT_NEGATIVE, "λ of the squared norm, in units of the sum of losses")
        .called("LAMBDA");
/// Of the logistic loss.
pub(crate) static SHIFT: Setting<f64> = Setting::real(
    "shift",
    Range::closed(0.0, 20.0, "a number from 0 to 20"),
    "shift of the logistic loss that is minimised: 2 is good for accuracy; a calibration takes it out of the probabilities, and without one 0 gives plain log-odds",
);
/// Share of μ² for the sums after the method.
pub(crate) static CALIBRATION: Setting<f64> = Setting::real(
    "calibration",
    Range::closed(0.0, 0.5, "a share of the budget from 0 (none) to 0.5; 0.05 if it is not said"),
    "share of the budget with which the scale and the intercept of the model are set when it is learnt, so that probabilities agree with shares and predicted means with means",
)
.called("SHARE")
.of_the_answer();
/// D.
pub(crate) static DISTANCE: Setting<f64> = Setting::real(
    "distance",
    Range::POSITIVE,
    "public guess of the norm of the best weights; some methods answer within this ball",
);
/// β.
pub(crate) static MOMENTUM: Setting<f64> = Setting::real(
    "momentum",
    Range::SHARE,
    "heavy-ball momentum; for adaptive steps the decay of the mean of gradients",
);
/// k.
pub(crate) static MAX_FEATURES: Setting<u64> = Setting::whole(
    "max_features",
    "largest number of features with a weight that is not zero, a public choice; the intercept is not counted",
)
.called("K")
.of_the_answer();
