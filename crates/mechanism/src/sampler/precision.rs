//! What floating point does to a sampled law, as a bound (docs/proofs/proximal-sampler.md).
//!
//! The code's chain is an *exact* proximal sampler for a slightly different target: its potential is the computed value at
//! the grid point nearest to x, infinite outside a ball that holds all but p of the mass. That costs ω once, not once per
//! round, because the certificate of [`super::certificate`] holds for potentials near a convex one. What is left per round
//! are the roundings of states kept to 2^-100 and of one probability.

use dpopt_objective::loss::Loss;

/// Unit roundoff.
const U: f64 = f64::EPSILON / 2.0;

/// Public facts that bound the rounding errors of a potential β·Σφ(⟨a_i, x̂ + v⟩).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arithmetic {
    /// The per-record loss.
    pub loss: Loss,
    /// Number n of rows.
    pub rows: f64,
    /// Largest number of non-zeros in a row.
    pub nonzeros: f64,
    /// R: bound on the l2 norm of a row.
    pub row_norm: f64,
    /// The inverse temperature β.
    pub scale: f64,
    /// L: bound on the slope.
    pub slope: f64,
    /// Bound on φ at score 0.
    pub value_at_zero: f64,
    /// Bound on ‖x̂‖.
    pub origin_norm: f64,
    /// V: all points at which the potential matters satisfy ‖v‖ ≤ V.
    pub radius: f64,
    /// Number d of weights.
    pub dimension: f64,
}

impl Arithmetic {
    /// Mean of φ over the records, at most: Σφ(x̂) ≤ Σφ(0), as x̂ minimises Σφ plus a quadratic around 0 or is 0 itself.
    fn mean_value(&self) -> f64 {
        1.01 * self.value_at_zero + self.slope * self.row_norm * self.radius
    }

    /// Σφ, at most, within the radius.
    pub(crate) fn sum_of_values(&self) -> f64 {
        self.rows * self.mean_value()
    }

    /// Mean of |φ'(s)·s| over the records, at most. Where φ pulls towards 0 it is below φ(0), by convexity; where it pulls
    /// away it is below φ + φ(0) + 2 for losses that grow like |s|.
    fn mean_pull(&self) -> f64 {
        let any = self.slope * self.row_norm * (self.origin_norm + self.radius);
        match self.loss {
            Loss::Logistic { .. } | Loss::Hinge | Loss::Absolute => {
                any.min(self.mean_value() + self.value_at_zero + 2.0)
            }
            _ => any,
        }
    }

    /// Mean over the records of slope times error of a score: the origin's score and the sum are rounded once each, the dot
    /// product runs in four lanes.
    fn score_error(&self) -> f64 {
        let dot = (0.25 * self.nonzeros + 10.0) * self.slope * self.row_norm * self.radius;
        U * (self.loss.outputs() as f64).sqrt() * (3.0 * self.mean_pull() + dot)
    }

    /// ω: the computed potential at the rounded point is within ±ω of the exact one at the point. Elementary functions
    /// within 2 units in the last place, a compensated sum.
    pub fn oscillation(&self, grid: f64) -> f64 {
        // nearest multiple of h per coordinate
        let moved = 0.5 * grid * (1.0 + 1e-12) * self.dimension.sqrt();
        let value = (8.0 + 4.0 * self.loss.outputs() as f64) * U * self.mean_value();
        let sum = (4.0 + self.rows * self.rows * U) * U * self.mean_value();
        self.scale * self.rows * (self.slope * self.row_norm * moved + self.score_error() + value + sum)
    }

    /// How far the computed tangent at a reference ‖w‖ ≤ 2V can lie above the computed potential: a computed slope is an
    /// exact one at a score that is off by its error, and plain sums of a chunk and of chunks carry their roundings.
    pub fn slack(&self, grid: f64) -> f64 {
        let wide = Self { radius: 2.0 * self.radius, ..*self };
        let additions = super::potential::CHUNK as f64 + self.rows / super::potential::CHUNK as f64 + 64.0;
        let pull = wide.slope * wide.row_norm * (4.0 * wide.radius + self.origin_norm) * additions * U;
        4.0 * wide.oscillation(grid) + self.scale * self.rows * (pull + 2.0 * wide.score_error())
    }

    /// The largest power of two below which the rounding to it adds less than `share` to ω, but not finer than 2^-50·V.
    pub fn grid(&self, share: f64) -> f64 {
        let wanted = share / (self.scale * self.rows * self.slope * self.row_norm * self.dimension.sqrt());
        let finest = self.radius.log2().ceil() as i32 - 50;
        2f64.powi((wanted.log2().floor() as i32).max(finest))
    }
}

/// Total-variation error of one round of arithmetic: states rounded to 2^-98 of the largest intermediate number `reach`
/// (a forward step of standard deviation `step_std`, cells of size `grid` whose crossing changes the potential by 4ω, a
/// potential of slope at most `lipschitz`), and acceptance probabilities e^(−b) rounded to b·2^-52 with E b ≤ `mean_gap`.
pub fn error_per_step(
    reach: f64,
    step_std: f64,
    grid: f64,
    dimension: f64,
    oscillation: f64,
    lipschitz: f64,
    mean_gap: f64,
) -> f64 {
    let moved = 2f64.powi(-98) * reach;
    let crossing = dimension * 4.0 * moved * (1.0 / grid + 1.0 / step_std) * 4.0 * oscillation;
    let root = dimension.sqrt();
    crossing + moved * root / step_std + 4.0 * lipschitz * moved * root + 2f64.powi(-51) * (mean_gap + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::potential::{GlmPotential, Potential};
    use crate::sampler::wide::Wide;
    use dpopt_objective::records::Rows;
    use dpopt_objective::synthetic::Lcg;

    /// Σ|s − y| exactly, up to twice the digits: the only loss whose value is free of elementary functions.
    #[test]
    fn the_computed_potential_stays_within_its_bound() {
        let (n, d) = (300, 6);
        let mut random = Lcg::new(8);
        let mut rows = Rows::new(d);
        let mut targets = Vec::new();
        for _ in 0..n {
            let mut row: Vec<(u32, f32)> = (0..d as u32).map(|j| (j, random.normal() as f32)).collect();
            rows.push_clipped(&mut row, 1.0);
            targets.push(random.uniform() as f32);
        }
        let origin: Vec<f64> = (0..d).map(|_| 3.0 * random.normal()).collect();
        let facts = Arithmetic {
            loss: Loss::Absolute,
            rows: n as f64,
            nonzeros: d as f64,
            row_norm: 1.0,
            scale: 0.7,
            slope: 1.0,
            value_at_zero: 1.0 + origin.iter().map(|x| x * x).sum::<f64>().sqrt(),
            origin_norm: origin.iter().map(|x| x * x).sum::<f64>().sqrt(),
            radius: 4.0,
            dimension: d as f64,
        };
        let potential = GlmPotential::new(&rows, &targets, Loss::Absolute, 1.0, 0.7, &origin);
        let grid = facts.grid(1e-12);
        let bound = facts.oscillation(grid);
        assert!(bound < 1e-9, "{bound}");
        let mut worst = 0.0f64;
        for _ in 0..200 {
            let v: Vec<Wide> = (0..d).map(|_| Wide::from((random.normal(), 1e-18 * random.normal()))).collect();
            let exact = (0..n).fold(Wide::default(), |sum, i| {
                let (indices, values) = rows.row(i);
                let score = indices.iter().zip(values).fold(Wide::default(), |s, (&j, &x)| {
                    s.plus(v[j as usize].plus(origin[j as usize]).times(f64::from(x)))
                });
                let residual = score.minus(f64::from(targets[i]));
                sum.plus(if residual.rounded() < 0.0 { residual.times(-1.0) } else { residual })
            });
            let cell: Vec<f64> = v.iter().map(|x| x.on_grid(grid)).collect();
            let error = exact.times(0.7).minus(Wide::from(potential.value(&cell)).times(0.7)).rounded();
            worst = worst.max(error.abs());
        }
        assert!(worst <= bound && worst > 1e-4 * bound, "{worst} {bound}");
    }

    #[test]
    fn errors_per_step_are_far_below_any_budget() {
        let e = error_per_step(100.0, 0.01, 2f64.powi(-44), 20.0, 1e-9, 7447.0, 4.0);
        assert!(e < 3e-15 && e > 1e-15, "{e}");
    }
}
