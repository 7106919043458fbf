//! What one record adds to a step: slope, curvature and squared slope of its loss, as one vector of one norm.

use dpopt_mechanism::SecondMoment;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Gradient, Objective, Point};
use dpopt_objective::records::{RecordBuffer, Records, Row};
use dpopt_optimize::planning::TARGET_BOUND;

/// Weights of the parts of a record's vector; a part of weight 0 is left out of it. With φ' and φ'' the loss's derivatives at the score θ·x, x = R·u:
///
/// (g·φ'·x, h·R·φ''·vec(uuᵀ), m·R·min(|φ'|, B)²·vec(uuᵀ), v·R·y²),
///
/// vec(M) being (M_jj, √2·M_jk for j > k), of norm ‖M‖_F. Its norm is at most R·√(g²φ'² + h²φ''² + m²φ'⁴ + v²y⁴): every part counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// g: of the slope.
    pub(super) slope: f64,
    /// h: of the curvature.
    pub(super) curvature: f64,
    /// m: of the squared slope.
    pub(super) square: f64,
    /// v: of the squared target.
    pub(super) target: f64,
}

/// Sums over the records of such vectors at θ: coordinates 0..d of the point, which has as many as a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSums {
    pub(super) loss: Loss,
    pub(super) features: usize,
    /// R: bound on the l2 norm of a row.
    pub(super) row_norm: f64,
    pub(super) parts: Parts,
    /// B: slopes count up to it in their square.
    pub(super) slope_bound: f64,
}

/// A sum, cut into what it is a sum of, on the scale of the records.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// Σφ'·x, d numbers; empty where it was left out.
    pub(super) slope: Vec<f64>,
    /// Σφ''·xxᵀ, d × d; empty where it was left out.
    pub(super) curvature: Vec<f64>,
    /// Σφ'²·xxᵀ, d × d; empty where it was left out.
    pub(super) square: Vec<f64>,
    /// Σy².
    pub(super) target: f64,
}

impl StepSums {
    fn widths(&self) -> [usize; 4] {
        let (d, pairs) = (self.features, SecondMoment::coordinates(self.features));
        let Parts { slope, curvature, square, target } = self.parts;
        let of = |weight: f64, width: usize| if weight > 0.0 { width } else { 0 };
        [of(slope, d), of(curvature, pairs), of(square, pairs), of(target, 1)]
    }

    /// Coordinates of a vector.
    pub(super) fn width(&self) -> usize {
        self.widths().iter().sum()
    }

    /// The parts of a released sum.
    pub(super) fn cut(&self, sum: &[f64]) -> Cut {
        let [slope, curvature, square, _] = self.widths();
        let r = self.row_norm;
        let matrix = |coordinates: &[f64], weight: f64| -> Vec<f64> {
            if coordinates.is_empty() { Vec::new() } else { matrix_of(self.features, coordinates, r / weight) }
        };
        let (first, rest) = sum.split_at(slope);
        let (second, rest) = rest.split_at(curvature);
        let (third, last) = rest.split_at(square);
        Cut {
            slope: first.iter().map(|g| g / self.parts.slope).collect(),
            curvature: matrix(second, self.parts.curvature),
            square: matrix(third, self.parts.square),
            target: last.first().map_or(0.0, |v| v / (self.parts.target * r)),
        }
    }
}

/// The symmetric matrix (row-major d × d) of coordinates (M_jj, √2·M_jk), `scale` times.
fn matrix_of(d: usize, coordinates: &[f64], scale: f64) -> Vec<f64> {
    let mut matrix = vec![0.0; d * d];
    let mut next = coordinates.iter();
    for j in 0..d {
        for (k, c) in (0..=j).zip(next.by_ref().take(j + 1)) {
            let entry = scale * if j == k { *c } else { c * std::f64::consts::FRAC_1_SQRT_2 };
            matrix[j * d + k] = entry;
            matrix[k * d + j] = entry;
        }
    }
    matrix
}

/// Buffers of one record.
#[derive(Default)]
pub(super) struct StepScratch {
    buffer: RecordBuffer,
    row: Vec<f64>,
    vector: Vec<f64>,
}

impl<R: Records> Objective<R> for StepSums {
    type Scratch = StepScratch;

    fn dimension(&self) -> usize {
        self.width()
    }

    fn describes(&self, records: &R) -> bool {
        records.columns() == self.features && records.norm_bound() <= self.row_norm
    }

    /// Always 0: sums of gradients are all that is asked for.
    fn value(&self, _: &[f64], _: &R, _: usize, _: &mut StepScratch) -> Result<f64, R::Error> {
        Ok(0.0)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut StepScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let StepScratch { buffer, row: dense, vector } = scratch;
        let (columns, entries, target) = records.record(i, buffer)?;
        let row = Row::new(columns, entries).filter(|row| row.fits(self.features) && !entries.is_empty());
        let (Some(row), Some(y)) = (row, self.loss.usable_target(f64::from(target), TARGET_BOUND)) else {
            return Ok(Gradient::Zero);
        };
        let score = x.score(0, self.features, row);
        let (slope, curvature) = (self.loss.scalar_slope(score, y), self.loss.scalar_curvature(score, y));
        dense.clear();
        dense.resize(self.features, 0.0);
        columns.iter().zip(entries).for_each(|(&j, &v)| dense[j as usize] = f64::from(v));
        vector.clear();
        let Parts { slope: g, curvature: h, square: m, target: v } = self.parts;
        if g > 0.0 {
            vector.extend(dense.iter().map(|e| g * slope * e));
        }
        for (weight, times) in [(h, curvature), (m, slope.abs().min(self.slope_bound).powi(2))] {
            if weight > 0.0 {
                push_square(dense, weight * times / self.row_norm, vector);
            }
        }
        if v > 0.0 {
            vector.push(v * y * y * self.row_norm);
        }
        Ok(Gradient::Dense(vector))
    }
}

/// Appends the coordinates of `scale`·xxᵀ.
fn push_square(x: &[f64], scale: f64, to: &mut Vec<f64>) {
    for (j, &a) in x.iter().enumerate() {
        let beside = scale * a * std::f64::consts::SQRT_2;
        to.extend(x[..j].iter().map(|b| beside * b));
        to.push(scale * a * a);
    }
}
