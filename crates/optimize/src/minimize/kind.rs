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
}

/// In the standing order.
pub(super) const ALL: [Method; 7] = [
    Method::Sgd,
    Method::GradientDescent,
    Method::Adam,
    Method::Ftrl,
    Method::Accelerated,
    Method::Recursive,
    Method::ZerothOrder,
];

/// Names of the methods.
pub const METHODS: [&str; ALL.len()] =
    ["noisy-sgd", "noisy-gradient-descent", "dp-adam", "dp-ftrl", "accelerated", "accelerated-srgd", "zeroth-order"];

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sgd => METHODS[0],
            Self::GradientDescent => METHODS[1],
            Self::Adam => METHODS[2],
            Self::Ftrl => METHODS[3],
            Self::Accelerated => METHODS[4],
            Self::Recursive => METHODS[5],
            Self::ZerothOrder => METHODS[6],
        }
    }

    /// Whether it is made for gradients.
    pub(super) fn takes(self, answers: Answers) -> bool {
        (self == Self::ZerothOrder) == (answers != Answers::Gradients)
    }
}
