//! Objectives as data that can be sent to remote records.

use crate::loss::Loss;
use serde::{Deserialize, Serialize};

/// An objective of rows as data: what whoever holds the rows needs to evaluate it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveSpec {
    /// Loss of a linear model.
    pub loss: Loss,
    /// Columns of a row.
    pub features: usize,
    /// R: bound on the l2 norm of a row.
    pub row_norm: f64,
    /// Not its gradients, but how large they are; see [`GradientSizes`](super::GradientSizes).
    pub sizes: Option<Cells>,
    /// Not its gradients, but how far its scores are from what happened; see [`Calibration`](super::Calibration).
    pub scores: Option<Scores>,
    /// Not its gradients, but which targets an interval holds; see [`Coverage`](super::Coverage).
    pub interval: Option<Interval>,
    /// Whether records are units, each with the mean over its rows; see [`OfUnits`](super::OfUnits).
    pub of_units: bool,
}

/// How scores are looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// The feature that is the same in all rows, or nearly.
    pub intercept: Option<u32>,
    /// The value of that feature.
    pub origin: f64,
    /// A usual score, without the intercept's part.
    pub unit: f64,
    /// Of the intercept's weights, what is not there to take off what usual rows have in common: one for each output, none without an intercept.
    pub own: Vec<f64>,
}

/// Cells of a histogram of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cells {
    /// Where the first one ends.
    pub smallest: f64,
    /// Ratio of the ends of neighbouring cells.
    pub ratio: f64,
    /// How many there are.
    pub cells: usize,
}

/// An interval around predictions, and how often it is to hold the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// t: half of its width, in halves of the target's range.
    pub half_width: f64,
    /// L: the share of rows whose target it is to hold.
    pub level: f64,
    /// Whether a target at an end of the range is one there. Where the range was found, it may be one beyond that was cut, which no finite interval is said to hold.
    pub ends: bool,
}
