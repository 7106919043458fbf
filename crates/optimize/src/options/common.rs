//! Options that methods of several families have.

use super::{Choice, Range, Setting};
use dpopt_mechanism::Correlation;

/// T: number of noisy steps.
pub static STEPS: Setting<u64> = Setting::whole("steps", "number of noisy steps");
/// η: learning rate on the mean loss.
pub static LEARNING_RATE: Setting<f64> =
    Setting::real("learning_rate", Range::POSITIVE, "step size on the mean loss, the largest of all steps");
/// C: l2 clip norm of a record's gradient.
pub static CLIP_NORM: Setting<f64> = Setting::real(
    "clip_norm",
    Range::POSITIVE,
    "bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss)",
);
/// G: root of a moment of the gradients' norms.
pub static GRADIENT_MOMENT: Setting<f64> = Setting::real(
    "gradient_moment",
    Range::POSITIVE,
    "G, a public bound on the k-th moment of gradient norms, (E‖gradient‖^k)^(1/k) ≤ G, for heavy tails; the clip \
     norm then balances clipping bias against noise",
);
/// k: order of the moment whose root is G.
pub static MOMENT_ORDER: Setting<f64> = Setting::real(
    "moment_order",
    Range::POSITIVE,
    "order k of gradient_moment, above 1; larger for lighter tails [default: 2]",
);
/// q: probability of a record to be in a batch.
pub static SAMPLING_PROBABILITY: Setting<f64> =
    Setting::real("sampling_probability", Range::PROBABILITY, "probability that a record enters a batch");
/// λ: regularisation of the sum objective.
pub static REGULARIZATION: Setting<f64> =
    Setting::real("regularization", Range::NOT_NEGATIVE, "λ of the squared norm, in units of the sum of losses")
        .called("LAMBDA");
/// m0: shift of the logistic loss.
pub static SHIFT: Setting<f64> = Setting::real(
    "shift",
    Range::closed(0.0, 20.0, "a number from 0 to 20"),
    "shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without \
     calibration use 0 for plain log-odds",
);
/// Share of μ² for the sums after the method.
pub static CALIBRATION: Setting<f64> = Setting::real(
    "calibration",
    Range::closed(0.0, 0.5, "a share of the budget from 0 (none) to 0.5, by default 0.05"),
    "share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted \
     probabilities match frequencies and predicted means match means",
)
.called("SHARE")
.of_the_answer();
/// Share of rows whose target a prediction's interval is to hold.
pub static INTERVALS: Setting<f64> = Setting::real(
    "intervals",
    Range::closed(0.5, 0.99, "a level from 0.5 to 0.99"),
    "level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, \
     for 2 to 20 % of the budget, so that intervals hold at least this share of targets",
)
.called("LEVEL")
.of_the_answer();
/// D: distance from the start to the answer.
pub static DISTANCE: Setting<f64> = Setting::real(
    "distance",
    Range::POSITIVE,
    "public guess of the norm of the best weights; some methods constrain the weights to this ball",
);
/// β: momentum of the heavy ball.
pub static MOMENTUM: Setting<f64> = Setting::real(
    "momentum",
    Range::SHARE,
    "heavy-ball momentum; for adaptive steps the decay of the mean of gradients",
);
/// k: features that an answer may have.
pub static MAX_FEATURES: Setting<u64> = Setting::whole(
    "max_features",
    "largest number of features with a weight that is not zero, a public choice; the intercept is not counted",
)
.called("K")
.of_the_answer();
/// Half a side of the box.
pub static BOX_RADIUS: Setting<f64> =
    Setting::real("box_radius", Range::POSITIVE, "every weight is constrained to [-R, R]").called("R").of_the_answer();
/// Radius of the ball.
pub static BALL_RADIUS: Setting<f64> =
    Setting::real("ball_radius", Range::POSITIVE, "the norm of the weights is constrained to at most R")
        .called("R")
        .of_the_answer();
/// β₂ of Adam.
pub static SECOND_MOMENTUM: Setting<f64> =
    Setting::real("second_momentum", Range::SHARE, "decay of the mean of squared gradients [default: 0.999]");
/// How the noise of steps depends on that of others.
pub static CORRELATION: Setting<Correlation> = Setting::choice(
    "correlation",
    &[
        Choice {
            word: "blt",
            meaning: "buffered linear Toeplitz matrix with four buffers (the memory of four models): near the \
                      optimum for one epoch",
            value: Correlation::Blt,
        },
        Choice {
            word: "banded",
            meaning: "banded square-root factorization, one band per step of an epoch: best for several epochs",
            value: Correlation::Banded,
        },
        Choice { word: "tree", meaning: "binary tree aggregation, a new tree per epoch", value: Correlation::Tree },
        Choice {
            word: "independent",
            meaning: "independent noise in each step, for comparison",
            value: Correlation::Independent,
        },
    ],
    "correlation of the noise between steps [default: the better of blt and banded]",
);
