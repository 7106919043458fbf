//! Which methods there are, and for which objectives.

use super::problem::Answers;

/// A method of this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    GradientDescent,
    Sgd,
    Adam,
    Ftrl,
    Accelerated,
    Recursive,
    ZerothOrder,
    Spider,
    OnePass,
    Net,
}

/// In the standing order: the first one asks nothing of a loss's scale, and is taken where nobody names one.
pub(super) const ALL: [Method; 10] = [
    Method::Adam,
    Method::Sgd,
    Method::GradientDescent,
    Method::Ftrl,
    Method::Accelerated,
    Method::Recursive,
    Method::ZerothOrder,
    Method::Spider,
    Method::OnePass,
    Method::Net,
];

/// Names of the methods.
pub const METHODS: [&str; ALL.len()] = [
    "dp-adam",
    "noisy-sgd",
    "noisy-gradient-descent",
    "dp-ftrl",
    "accelerated",
    "accelerated-srgd",
    "zeroth-order",
    "spider",
    "one-pass-spider",
    "net",
];

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Adam => METHODS[0],
            Self::Sgd => METHODS[1],
            Self::GradientDescent => METHODS[2],
            Self::Ftrl => METHODS[3],
            Self::Accelerated => METHODS[4],
            Self::Recursive => METHODS[5],
            Self::ZerothOrder => METHODS[6],
            Self::Spider => METHODS[7],
            Self::OnePass => METHODS[8],
            Self::Net => METHODS[9],
        }
    }

    /// Whether it is made for gradients.
    pub(super) fn takes(self, answers: Answers) -> bool {
        match self {
            // of records that are here every objective says values too
            Self::Net => answers != Answers::Derivatives,
            _ => (self == Self::ZerothOrder) == (answers != Answers::Gradients),
        }
    }
}
