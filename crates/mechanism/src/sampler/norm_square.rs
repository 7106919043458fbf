//! The public part of Gibbs measures in general norms: r(v) = (c/2)‖v‖_q², 1-strongly convex in the l_p norm, 1 ≤ p ≤ 2
//! (Liu 2024, Proposition 4.4.7; docs/proofs/gibbs-gdp.md, docs/proofs/proximal-sampler.md).
//!
//! ‖v‖_p ≤ κ‖v‖_q with κ = d^(1/p − 1/q), q from p to 2, and ‖·‖_q²/2 is (q − 1)-strongly convex in l_q, so c = κ²/(q − 1) does it.
//! The q with the smallest c is max(p, l − √(l² − 2l)) with l = ln d, and 2 where l ≤ 2. As ‖v‖_q ≥ ‖v‖₂, r is also
//! c(q − 1)-strongly convex in l_2: that part is the chain's explicit quadratic, and what is left of r is a convex term of the potential.
//!
//! Covers: thesis proposition 4.4.7 (part: l_p here, matrices in `research` without a certificate)

use super::potential::Potential;

/// Unit roundoff.
const U: f64 = f64::EPSILON / 2.0;

/// The regulariser r(v) = (c/2)‖v‖_q².
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSquare {
    /// q, above 1, at most 2.
    pub exponent: f64,
    /// The factor c.
    pub coefficient: f64,
    /// Modulus c(q − 1) of strong convexity in l_2.
    pub convexity: f64,
    /// Dimension d of the space.
    pub dimension: f64,
}

/// The q from `p` to 2 that makes c smallest in `dimension` dimensions.
///
/// ```
/// use dpopt_mechanism::sampler::best_exponent;
/// assert!((best_exponent(1.0, 100) - 1.14147).abs() < 1e-5);
/// assert_eq!((best_exponent(1.0, 7), best_exponent(1.5, 100)), (2.0, 1.5));
/// ```
pub fn best_exponent(p: f64, dimension: usize) -> f64 {
    let l = (dimension as f64).ln();
    let flat = if l > 2.0 { 2.0 * l / (l + (l * (l - 2.0)).sqrt()) } else { 2.0 };
    flat.clamp(p, 2.0)
}

impl NormSquare {
    /// 1-strongly convex in l_p; `None` unless 1 ≤ p ≤ q ≤ 2 and q > 1.
    pub fn new(p: f64, q: f64, dimension: usize) -> Option<Self> {
        if !(p >= 1.0 && q >= p && q > 1.0 && q <= 2.0 && dimension > 0) {
            return None;
        }
        let d = dimension as f64;
        // rounded up: a larger c is as good for privacy
        let coefficient = d.powf(2.0 * (1.0 / p - 1.0 / q)) / (q - 1.0) * (1.0 + 1e-12);
        let convexity = if q == 2.0 { coefficient } else { coefficient * (q - 1.0) * (1.0 - 4.0 * f64::EPSILON) };
        Some(Self { exponent: q, coefficient, convexity, dimension: d })
    }

    /// r is its own quadratic part.
    pub(crate) fn is_euclidean(&self) -> bool {
        self.exponent == 2.0
    }

    /// σ with ‖∇(‖v‖_q²/2)‖₂ ≤ σ‖v‖₂ and ‖v‖_q² ≤ σ‖v‖₂²: d^(2/q − 1).
    fn stretch(&self) -> f64 {
        self.dimension.powf(2.0 / self.exponent - 1.0) * (1.0 + 1e-12)
    }

    /// Largest |v_i| and Σ(|v_i|/largest)^q; `None` at 0.
    fn scaled(&self, v: &[f64]) -> Option<(f64, f64)> {
        let largest = v.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let sum = || v.iter().map(|x| (x.abs() / largest).powf(self.exponent)).sum();
        (largest > 0.0).then(|| (largest, sum()))
    }

    /// The value r(v).
    pub fn value(&self, v: &[f64]) -> f64 {
        self.scaled(v)
            .map_or(0.0, |(largest, sum)| 0.5 * self.coefficient * largest * largest * sum.powf(2.0 / self.exponent))
    }

    /// r(v) − (m/2)‖v‖₂², m the modulus in l_2: convex.
    pub fn beyond_quadratic(&self, v: &[f64]) -> f64 {
        if self.is_euclidean() {
            return 0.0;
        }
        self.value(v) - 0.5 * self.convexity * v.iter().map(|x| x * x).sum::<f64>()
    }

    /// Adds `weight` times the gradient of [`beyond_quadratic`](Self::beyond_quadratic).
    pub fn add_slope(&self, v: &[f64], weight: f64, gradient: &mut [f64]) {
        if self.is_euclidean() {
            return;
        }
        let Some((largest, sum)) = self.scaled(v) else { return };
        let q = self.exponent;
        let common = self.coefficient * largest * sum.powf((2.0 - q) / q);
        for (g, x) in gradient.iter_mut().zip(v) {
            let slope = common * (x.abs() / largest).powf(q - 1.0) * x.signum();
            *g += weight * (slope - self.convexity * x);
        }
    }
}

/// Σφ_i + λ·(r − its quadratic part): the potential of a chain whose explicit quadratic is the other part of λr.
pub(crate) struct WithNorm<P> {
    pub(crate) losses: P,
    pub(crate) norm: NormSquare,
    /// λ: weight of r.
    pub(crate) weight: f64,
}

impl<P: Potential> Potential for WithNorm<P> {
    fn dimension(&self) -> usize {
        self.losses.dimension()
    }

    fn scale(&self) -> f64 {
        self.losses.scale()
    }

    fn terms(&self) -> usize {
        self.losses.terms() + 1
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.losses.value(point) + self.weight * self.norm.beyond_quadratic(point)
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        let losses = self.losses.value_and_subgradient(point, subgradient);
        self.norm.add_slope(point, self.weight, subgradient);
        losses + self.weight * self.norm.beyond_quadratic(point)
    }

    fn term(&self, index: usize, point: &[f64]) -> f64 {
        if index < self.losses.terms() {
            self.losses.term(index, point)
        } else {
            self.weight * self.norm.beyond_quadratic(point)
        }
    }
}

/// What the public term of a potential adds to slopes, roundings and steps, as bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublicTerm {
    pub(crate) norm: NormSquare,
    /// λ: weight of r.
    pub(crate) weight: f64,
    /// The inverse temperature β.
    pub(crate) scale: f64,
}

impl PublicTerm {
    /// A Lipschitz constant in l_2 of β times the term, on ‖v‖₂ ≤ `reach`: ‖∇r‖² is at least that of the term's slope and that of the
    /// quadratic's together.
    pub(crate) fn lipschitz(&self, reach: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return 0.0;
        }
        let steepest = norm.coefficient * norm.stretch();
        let left = (steepest * steepest - norm.convexity * norm.convexity).max(0.0).sqrt();
        scale * weight * left * (1.0 + 1e-9) * reach
    }

    /// How far the gradients of β times the term at two points of ‖v‖₂ ≤ `reach` can be from each other that are `apart`, in l_2.
    pub(crate) fn slope_change(&self, reach: f64, apart: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return 0.0;
        }
        let (q, ratio) = (norm.exponent, norm.stretch().sqrt());
        let (far, apart) = (2.0 * ratio * reach, ratio * apart);
        scale * weight * norm.coefficient * ratio * (far.powf(2.0 - q) * apart.powf(q - 1.0) + apart) * (1.0 + 1e-9)
    }

    /// E of how far β times the term at x is above its tangent at w, at most: both within ‖v‖₂ ≤ `reach`, E‖x − w‖₂² at most `apart`².
    pub(crate) fn mean_gap(&self, reach: f64, apart: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return 0.0;
        }
        let (q, ratio) = (norm.exponent, norm.stretch().sqrt());
        let (far, apart) = (2.0 * ratio * reach, ratio * apart);
        let gap = far.powf(2.0 - q) * apart.powf(q) / q + 0.5 * (2.0 - q) * apart * apart;
        scale * weight * norm.coefficient * gap * (1.0 + 1e-9)
    }

    /// How far the computed potential, with the term added to computed losses of at most `losses` in all, can be from its exact value
    /// because of the term, at points of norm at most `reach` that move to the grid.
    pub(crate) fn oscillation(&self, grid: f64, reach: f64, losses: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return 0.0;
        }
        let d = norm.dimension;
        let moved = 0.5 * grid * (1.0 + 1e-12) * d.sqrt();
        let reach = reach + moved;
        let term = weight * 0.5 * norm.coefficient * norm.stretch() * reach * reach;
        // Σ(|v|/t)^q is off by d + 6 roundings, its power by twice as many and 4, the products by 6; the quadratic by d + 4
        let rounding = U * ((3.0 * d + 60.0) * term + 1.01 * (losses + term));
        self.lipschitz(reach) * moved + scale * rounding
    }

    /// How far the computed tangent at ‖w‖ ≤ 2V can lie above the computed potential because of the term: `slope` bounds the gradient
    /// of the losses, `losses` their values at 2V.
    pub(crate) fn slack(&self, grid: f64, radius: f64, losses: f64, slope: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return 0.0;
        }
        let steep = 2.0 * weight * norm.coefficient * norm.stretch() * 2.0 * radius;
        let off = U * ((norm.dimension + 60.0) * steep + 2.0 * slope);
        4.0 * self.oscillation(grid, 2.0 * radius, losses) + scale * 4.0 * radius * off
    }

    /// The largest power of two below which moving to the grid changes the term by less than `share`.
    pub(crate) fn grid(&self, share: f64, radius: f64) -> f64 {
        let steep = self.lipschitz(2.0 * radius) * self.norm.dimension.sqrt();
        if steep > 0.0 { 2f64.powi((share / steep).log2().floor() as i32) } else { f64::INFINITY }
    }

    /// η at which the term's share of E b is about 4 when ‖v‖_q is at most `size`: a coordinate near 0 adds Kη^(q/2),
    /// K = βλc‖v‖_q^(2−q), and the others less. It decides about time only.
    pub(crate) fn step(&self, size: f64) -> f64 {
        let Self { norm, weight, scale } = self;
        if norm.is_euclidean() {
            return f64::INFINITY;
        }
        let k = scale * weight * norm.coefficient * size.powf(2.0 - norm.exponent);
        (4.0 / (norm.dimension * k)).powf(2.0 / norm.exponent)
    }
}

#[cfg(test)]
#[path = "norm_square_tests.rs"]
mod tests;
