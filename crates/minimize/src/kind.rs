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
    Tree,
    Conversion,
    ConversionOnce,
}

/// In the tie-break order: the first one asks nothing of a loss's scale, and is taken where the user names none.
pub(super) const ALL: [Method; 13] = [
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
    Method::Tree,
    Method::Conversion,
    Method::ConversionOnce,
];

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Adam => "dp-adam",
            Self::Sgd => "noisy-sgd",
            Self::GradientDescent => "noisy-gradient-descent",
            Self::Ftrl => "dp-ftrl",
            Self::Accelerated => "accelerated",
            Self::Recursive => "accelerated-srgd",
            Self::ZerothOrder => "zeroth-order",
            Self::Spider => "spider",
            Self::OnePass => "one-pass-spider",
            Self::Net => "net",
            Self::Tree => "tree",
            Self::Conversion => "o2nc",
            Self::ConversionOnce => "one-pass-o2nc",
        }
    }

    /// Why it is never taken unless it is named.
    pub(super) fn by_name_only(self) -> Option<&'static str> {
        match self {
            Self::Conversion | Self::ConversionOnce => Some(
                "it runs only by name, since it was better than gradient descent on no tested loss \
                 (docs/methods/o2nc.md); give it as method to use it",
            ),
            Self::Tree => Some(
                "it runs only by name, since its time depends on the records and is long where the loss is flat near \
                 its minimum (docs/methods/minimize.md); give it as method to use it",
            ),
            _ => None,
        }
    }

    /// Whether it is made for gradients.
    pub(super) fn takes(self, answers: Answers) -> bool {
        match self {
            // of records that are here every objective says values too
            Self::Net | Self::Tree | Self::Conversion | Self::ConversionOnce => answers != Answers::Derivatives,
            _ => (self == Self::ZerothOrder) == (answers != Answers::Gradients),
        }
    }
}
