//! Options that methods of several families have.

use super::{Choice, Range, Setting};
use dpopt_mechanism::Correlation;

/// T.
pub static STEPS: Setting<u64> = Setting::whole("steps", "number of noisy steps");
/// η.
pub static LEARNING_RATE: Setting<f64> =
    Setting::real("learning_rate", Range::POSITIVE, "step size on the mean loss, the largest of all steps");
/// C.
pub static CLIP_NORM: Setting<f64> = Setting::real(
    "clip_norm",
    Range::POSITIVE,
    "bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss)",
);
/// G.
pub static GRADIENT_MOMENT: Setting<f64> = Setting::real(
    "gradient_moment",
    Range::POSITIVE,
    "G, a public guess with (E‖gradient‖^k)^(1/k) ≤ G, for heavy tails: the clip norm is then where what it takes and the noise that it needs balance",
);
/// k of G.
pub static MOMENT_ORDER: Setting<f64> = Setting::real(
    "moment_order",
    Range::POSITIVE,
    "k of gradient_moment, above 1: the larger, the lighter the tails [default: 2]",
);
/// q.
pub static SAMPLING_PROBABILITY: Setting<f64> =
    Setting::real("sampling_probability", Range::PROBABILITY, "probability of a record to enter a batch");
/// λ.
pub static REGULARIZATION: Setting<f64> =
    Setting::real("regularization", Range::NOT_NEGATIVE, "λ of the squared norm, in units of the sum of losses")
        .called("LAMBDA");
/// Of the logistic loss.
pub static SHIFT: Setting<f64> = Setting::real(
    "shift",
    Range::closed(0.0, 20.0, "a number from 0 to 20"),
    "shift of the logistic loss that is minimised: 2 is good for accuracy; a calibration takes it out of the probabilities, and without one 0 gives plain log-odds",
);
/// Share of μ² for the sums after the method.
pub static CALIBRATION: Setting<f64> = Setting::real(
    "calibration",
    Range::closed(0.0, 0.5, "a share of the budget from 0 (none) to 0.5; 0.05 if it is not said"),
    "share of the budget with which the scale and the intercept of the model are set when it is learnt, so that probabilities agree with shares and predicted means with means",
)
.called("SHARE")
.of_the_answer();
/// D.
pub static DISTANCE: Setting<f64> = Setting::real(
    "distance",
    Range::POSITIVE,
    "public guess of the norm of the best weights; some methods answer within this ball",
);
/// β.
pub static MOMENTUM: Setting<f64> = Setting::real(
    "momentum",
    Range::SHARE,
    "heavy-ball momentum; for adaptive steps the decay of the mean of gradients",
);
/// k.
pub static MAX_FEATURES: Setting<u64> = Setting::whole(
    "max_features",
    "largest number of features with a weight that is not zero, a public choice; the intercept is not counted",
)
.called("K")
.of_the_answer();
/// Half a side of the box.
pub static BOX_RADIUS: Setting<f64> =
    Setting::real("box_radius", Range::POSITIVE, "every weight stays within plus or minus R")
        .called("R")
        .of_the_answer();
/// Radius of the ball.
pub static BALL_RADIUS: Setting<f64> =
    Setting::real("ball_radius", Range::POSITIVE, "the norm of the weights stays within R").called("R").of_the_answer();
/// β₂.
pub static SECOND_MOMENTUM: Setting<f64> =
    Setting::real("second_momentum", Range::SHARE, "decay of the mean of squared gradients [default: 0.999]");
/// How the noise of steps depends on that of others.
pub static CORRELATION: Setting<Correlation> = Setting::choice(
    "correlation",
    &[
        Choice {
            word: "blt",
            meaning: "four buffers: near the best for one epoch, memory of four models",
            value: Correlation::Blt,
        },
        Choice {
            word: "banded",
            meaning: "square root, as many bands as an epoch has steps: best for several epochs",
            value: Correlation::Banded,
        },
        Choice { word: "tree", meaning: "binary tree, a fresh one per epoch", value: Correlation::Tree },
        Choice { word: "independent", meaning: "none, for comparison", value: Correlation::Independent },
    ],
    "how the noises of the steps are correlated [default: the better of blt and banded]",
);
