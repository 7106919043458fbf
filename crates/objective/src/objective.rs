//! Objectives: what one record contributes to Σφ_i(x), with what is known of it.
//!
//! An objective says what a record's value and gradient are, and nothing about privacy: its gradients are clipped, truncated and
//! added up by the kernel (`dpopt_mechanism::Clipped`), whatever they are. Linear models, embeddings and user-defined closures are
//! objectives alike; combinators make new ones of them.
//!
//! | objective | φ_i(x) |
//! |---|---|
//! | [`Linear`] | loss of the scores of a row under weights x |
//! | [`Embedded`] | the same for scores that are products of learned vectors |
//! | [`Closures`] | two functions of a point and a record of any type |
//! | [`Scored`] | a loss of a row's score that is clipped, not bounded: robust, count and phase regression |
//! | [`Factorization`] | the error of a product of two short vectors, for an entry of a matrix |
//! | [`Network`] | a small neural network's loss |
//! | [`Scaled`] | another one, in units in which an ellipsoid is a ball |
//! | [`NearestPoint`] | another one, its gradients projected on an ellipsoid |
//! | [`RowAndSquare`] | a linear function: its gradients are the rows, with their squared norms |
//! | [`GradientSizes`] | none: where the norm of another one's gradient lies, as a histogram |
//! | [`Calibration`] | none: how far the scores of a released linear model are from what happened, for its scale and offsets |
//! | [`Coverage`] | none: whether an interval around a released linear model's prediction holds the target, for its width |
//! | [`Admitted`] | another one, but a public function for records whose own bound on their gradient is too large |
//! | [`OfUnits`] | the mean of another one over the rows of a unit |
//! | [`Difference`] | a linear one less its own linearisation elsewhere: ∇φ(x) − ∇φ(anchor) |
//! | [`Recursive`] | any one less its own linearisation at the point before: t·∇φ(x) − (t − 1)·∇φ(before), or ∇φ(x) − ∇φ(before) |

mod admitted;
mod calibration;
mod closures;
mod coverage;
mod difference;
mod embedded;
mod factorization;
mod facts;
mod linear;
mod nearest;
mod network;
mod of_units;
mod point;
mod recursive;
mod row_and_square;
mod scaled;
mod scored;
mod sizes;
mod spec;
#[cfg(test)]
mod tests;

pub use admitted::{Admitted, TooCurved};
pub use calibration::{Calibration, curvature_weight};
pub use closures::Closures;
pub use coverage::Coverage;
pub use difference::Difference;
pub use embedded::Embedded;
pub use factorization::{Entry, Factorization};
pub use facts::{Evidence, Fact, Facts};
pub use linear::Linear;
pub use nearest::NearestPoint;
pub use network::{Layer, Network, NetworkError, NetworkLoss};
pub use of_units::{OfRows, OfUnits};
pub use point::{Gradient, Point};
pub use recursive::Recursive;
pub use row_and_square::RowAndSquare;
pub use scaled::Scaled;
pub use scored::{ScoreLoss, Scored};
pub use sizes::GradientSizes;
pub use spec::{Cells, Interval, ObjectiveSpec, Scores};

use crate::records::RecordSet;

/// A sum Σφ_i(x) over records of a set R, x in R^d.
///
/// **Whoever implements it promises** (nothing can check it, and the guarantee of whatever is released rests on it): `value` and
/// `gradient` depend on the record, the point and public parameters only, never on other records, on earlier calls or on the scratch;
/// they return for every record, since a panic would be an output that is not accounted; `dimension`, `lines`, `facts` and the
/// number and the errors of records are constant and public. Given that, no gradient moves a sum by more than the clip norm,
/// whatever it is. A record without one contributes [`Gradient::Zero`].
///
/// ```
/// use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
/// use std::convert::Infallible;
///
/// /// Σ‖x − a_i‖: the geometric median.
/// struct Median(usize);
///
/// impl Objective<Vec<Vec<f64>>> for Median {
///     type Scratch = Vec<f64>;
///     fn dimension(&self) -> usize { self.0 }
///     fn facts(&self) -> Facts { Facts::assume_convex_and_lipschitz(1.0) }
///     fn value(&self, x: &[f64], a: &Vec<Vec<f64>>, i: usize, _: &mut Vec<f64>) -> Result<f64, Infallible> {
///         Ok(x.iter().zip(&a[i]).map(|(x, a)| (x - a).powi(2)).sum::<f64>().sqrt())
///     }
///     fn gradient<'a>(
///         &self, x: &mut impl Point, a: &'a Vec<Vec<f64>>, i: usize, g: &'a mut Vec<f64>,
///     ) -> Result<Gradient<'a>, Infallible> {
///         g.clear();
///         g.extend(a[i].iter().enumerate().map(|(at, a)| x.read(at) - a));
///         let distance = g.iter().map(|v| v * v).sum::<f64>().sqrt();
///         g.iter_mut().for_each(|v| *v /= distance); // 0/0 counts as 0
///         Ok(Gradient::Dense(g))
///     }
/// }
/// ```
pub trait Objective<R: RecordSet>: Sync {
    /// Buffers of one record, so that the next one allocates none.
    type Scratch: Default;
    /// A record moves only coordinates that its gradient read, and an outer product only lines that it scored: steps need not touch
    /// others, and their noise can wait.
    const LOCAL: bool = false;

    /// d: number of coordinates of x.
    fn dimension(&self) -> usize;

    /// Number of equally long lines that the coordinates are; a row touches the same columns of each.
    fn lines(&self) -> usize {
        1
    }

    /// What holds for every record, and why.
    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    /// The default clip norm: a guess of how long the longer gradients of records are, from public tables. It steers noise, bias and steps; no
    /// guarantee rests on it.
    fn usual_clip_norm(&self) -> f64 {
        1.0
    }

    /// Whether the facts are about records such as these, by what is public of them: the width of rows, the bound on their norms.
    fn describes(&self, _records: &R) -> bool {
        true
    }

    /// The objective as a description that can be sent to remote records; `None` if it has none.
    fn spec(&self) -> Option<ObjectiveSpec> {
        None
    }

    /// Loss φ_i(x) of record i.
    ///
    /// # Errors
    /// If the record can't be read.
    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error>;

    /// ∇φ_i(x), or a subgradient.
    ///
    /// # Errors
    /// If the record can't be read.
    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error>;

    /// Puts coordinates in `places` that [`gradient`](Self::gradient) of record i will read, so that their memory can be asked for.
    /// Changes nothing but speed.
    ///
    /// # Errors
    /// If the record can't be read.
    fn ahead(
        &self,
        _records: &R,
        _i: usize,
        _scratch: &mut Self::Scratch,
        _places: &mut Vec<usize>,
    ) -> Result<(), R::Error> {
        Ok(())
    }
}
