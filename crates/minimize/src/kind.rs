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
    Conversion,
    ConversionOnce,
}

/// In the standing order: the first one asks nothing of a loss's scale, and is taken where nobody names one.
pub(super) const ALL: [Method; 12] = [
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
    Method::Conversion,
    Method::ConversionOnce,
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
    "o2nc",
    "one-pass-o2nc",
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
            Self::Conversion => METHODS[10],
            Self::ConversionOnce => METHODS[11],
        }
    }

    /// Whether it is never taken unless it is named: nothing was found on which it is ahead.
    pub(super) fn by_name_only(self) -> bool {
        matches!(self, Self::Conversion | Self::ConversionOnce)
    }

    /// Whether it is made for gradients.
    pub(super) fn takes(self, answers: Answers) -> bool {
        match self {
            // of records that are here every objective says values too
            Self::Net | Self::Conversion | Self::ConversionOnce => answers != Answers::Derivatives,
            _ => (self == Self::ZerothOrder) == (answers != Answers::Gradients),
        }
    }
}
