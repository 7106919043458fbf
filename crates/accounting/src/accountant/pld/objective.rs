//! Privacy profiles of objective perturbation at the exact minimiser (docs/proofs/objective-perturbation-profile.md).
//!
//! Valid at ε ≥ 0 in both orders; negative losses come from the mirror image and the convex hull (`Atoms::symmetric`).
//! Never a Gaussian in a composition: below R²/λ − m the determinant costs.

use super::atoms::Atoms;
use super::pair::U;
use dpopt_event::Relation;
use dpopt_event::event::GlmLink;
use dpopt_event::special::{gaussian_ln_delta_upper, normal_cdf};

/// Upper bound of δ(ε) for ε ≥ 0, non-increasing, in both orders of the neighbours.
#[derive(Clone, Debug)]
pub(crate) enum ObjectiveProfile {
    /// Slopes in [0, 1] with curvature at most c(1 − c): δ(ε) = E(1 − e^(ε − f(U)))₊.
    Monotone(TheoremA),
    /// `sum` of weights·H(ε − shift; μ), valid from `shift` on.
    Gaussians { shift: f64, sum: Vec<(f64, f64)> },
    /// Slopes and curvature bounded: loss ≤ shift + μ²/2 + |N(0, μ²)|.
    Folded { shift: f64, mu: f64 },
}

/// The loss bound f(U) = max over c in [0, 1] of cU + c²m + ln(1 + c(1−c)ρ), U ~ N(0, 2m): convex with slope at
/// most 1, so chords between knots and slope 1 beyond the last knot bound it from above.
#[derive(Clone, Debug)]
pub(crate) struct TheoremA {
    /// 1/σ = √(2m): the mean shift of the linear term in standard deviations.
    mu: f64,
    /// Cells of U from left to right, on each of which f lies below a line.
    cells: Vec<Cell>,
    /// f(U) ≤ U + m + excess beyond the last cell, where that line is at `last_loss`.
    excess: f64,
    last_loss: f64,
}

/// f ≤ level + slope·U on (left, right); `p` and `q` are P(U > right) and E e^(−bound of f) over U > right.
#[derive(Clone, Debug)]
struct Cell {
    left: f64,
    right: f64,
    slope: f64,
    level: f64,
    p: f64,
    q: f64,
    error: f64,
}

/// Knots of f; the chord error in ε is about (range/knots)²/8 times the curvature (at most about ρ/2).
const KNOTS: usize = 256;
/// Standard deviations of U beyond which only the crude ends are used: Φ̄(38) is below 1e-315.
const FAR: f64 = 38.0;

impl TheoremA {
    fn new(noise_multiplier: f64, regularization: f64) -> Self {
        let mu = (1.0 / noise_multiplier).next_up();
        let (m, rho) = (0.5 * mu * mu, 1.0 / regularization);
        if rho <= m {
            // f = max(0, U + m): a Gaussian at every ε ≥ 0
            return Self { mu, cells: vec![], excess: 0.0, last_loss: 0.0 };
        }
        // f = 0 below −ρ and f = U + m above ρ − 2m
        let low = (-rho).max(-FAR * mu);
        let high = (rho - 2.0 * m).min(FAR * mu).max(low + 1e-3 * mu);
        let u = |i: usize| low + (high - low) * i as f64 / KNOTS as f64;
        let f: Vec<f64> = (0..=KNOTS).map(|i| largest_loss(u(i), m, rho)).collect();
        let excess = (f[KNOTS] - high - m).max(0.0) + 4.0 * U * (high.abs() + m);
        let (mut p, mut q) = (above(high, mu), (-excess).exp() * above(high + mu * mu, mu));
        let mut error = 8.0 * U * (p + q);
        let mut cells = Vec::with_capacity(KNOTS);
        for i in (0..KNOTS).rev() {
            let (left, right) = (u(i), u(i + 1));
            let slope = ((f[i + 1] - f[i]) / (right - left)).clamp(0.0, 1.0);
            // the line of that slope through the higher of the two ends bounds f on the cell
            let level = (f[i] - slope * left).max(f[i + 1] - slope * right);
            let cell = Cell { left, right, slope, level, p, q, error };
            (p, q) = cell.beyond(left, mu);
            error += 16.0 * U * (p + q);
            cells.push(cell);
        }
        cells.reverse();
        Self { mu, cells, excess, last_loss: f[KNOTS].max(high + m + excess) }
    }

    fn delta(&self, epsilon: f64) -> f64 {
        let tail = || gaussian_ln_delta_upper(epsilon - self.excess, self.mu).exp();
        let Some(first) = self.cells.first().filter(|_| epsilon < self.last_loss) else { return tail() };
        // the bounding lines rise from cell to cell up to rounding, so this finds the cell that crosses ε
        let i = self.cells.partition_point(|c| c.level + c.slope * c.right <= epsilon);
        let Some(cell) = self.cells.get(i) else { return tail() };
        let u = if cell.slope > 0.0 { (epsilon - cell.level) / cell.slope } else { cell.left };
        let u = u.clamp(cell.left, cell.right);
        let (mut p, q) = cell.beyond(u, self.mu);
        if i == 0 && u <= first.left {
            // left of the first knot f is below its value there
            p += (1.0 - p) * -(epsilon - first.level - first.slope * first.left).min(0.0).exp_m1();
        }
        (p - epsilon.exp() * q + (cell.error + 16.0 * U * p) * (1.0 + epsilon.exp())).clamp(0.0, 1.0)
    }

    /// Losses at which the profile bends.
    fn losses(&self) -> impl Iterator<Item = f64> + '_ {
        self.cells.iter().map(|c| c.level + c.slope * c.right)
    }
}

/// P(U > x) for U ~ N(0, mu²).
fn above(x: f64, mu: f64) -> f64 {
    normal_cdf(-x / mu)
}

impl Cell {
    /// P(U > u) and E e^(−bound of f) over U > u, for u in the cell.
    fn beyond(&self, u: f64, mu: f64) -> (f64, f64) {
        let shift = self.slope * mu * mu;
        let factor = (0.5 * self.slope * shift - self.level).exp();
        (
            self.p + (above(u, mu) - above(self.right, mu)).max(0.0),
            self.q + factor * (above(u + shift, mu) - above(self.right + shift, mu)).max(0.0),
        )
    }
}

/// max over c in [0, 1] of cU + c²m + ln(1 + c(1−c)ρ): ends and the roots of a cubic.
fn largest_loss(u: f64, m: f64, rho: f64) -> f64 {
    let value = |c: f64| c * u + c * c * m + (c * (1.0 - c) * rho).ln_1p();
    // derivative times 1 + c(1−c)ρ
    let slope = |c: f64| (u + 2.0 * m * c) * (1.0 + rho * c - rho * c * c) + rho * (1.0 - 2.0 * c);
    // its derivative is a quadratic a2 c² + a1 c + a0, which cuts [0, 1] into monotone pieces
    let (a2, a1, a0) = (-6.0 * m * rho, 4.0 * m * rho - 2.0 * u * rho, u * rho + 2.0 * m - 2.0 * rho);
    let mut cuts = vec![0.0];
    let discriminant = a1 * a1 - 4.0 * a2 * a0;
    if discriminant > 0.0 && a2 != 0.0 {
        let half = -0.5 * (a1 + a1.signum() * discriminant.sqrt());
        for root in [half / a2, a0 / half] {
            if root > 0.0 && root < 1.0 {
                cuts.push(root);
            }
        }
        cuts.sort_by(f64::total_cmp);
    }
    cuts.push(1.0);
    let mut best = value(1.0).max(0.0);
    for piece in cuts.windows(2) {
        let (mut left, mut right) = (piece[0], piece[1]);
        // a maximum inside: the derivative changes from + to −
        if slope(left) > 0.0 && slope(right) < 0.0 {
            for _ in 0..60 {
                let middle = 0.5 * (left + right);
                if slope(middle) > 0.0 { left = middle } else { right = middle }
            }
        }
        best = best.max(value(left)).max(value(right));
    }
    // at a maximum the value is flat; rounding of the three terms
    best + 8.0 * U * (u.abs() + m + rho.ln_1p())
}

impl ObjectiveProfile {
    /// The bound for a link and a relation, or why there is none.
    pub fn new(noise_multiplier: f64, regularization: f64, link: GlmLink, relation: Relation) -> Result<Self, String> {
        let mu = (1.0 / noise_multiplier).next_up();
        let rho = (1.0 / regularization).next_up();
        let up = |x: f64| x * (1.0 + 8.0 * U);
        match (link, relation) {
            (GlmLink::Monotone, Relation::ZeroOut | Relation::AddOrRemove) => {
                Ok(Self::Monotone(TheoremA::new(noise_multiplier, regularization)))
            }
            // v = g_a − g_b is affine in the slopes, so the loss is largest at one of three vertices
            (GlmLink::Monotone, Relation::ReplaceOne) => {
                Ok(Self::Gaussians { shift: up((0.25 * rho).ln_1p()), sum: vec![(1.0, 2.0 * mu), (2.0, mu)] })
            }
            (GlmLink::Smooth { smoothness }, Relation::ZeroOut | Relation::AddOrRemove) => {
                Ok(Self::Folded { shift: up((smoothness * rho).ln_1p()), mu })
            }
            (GlmLink::Softmax { classes }, Relation::ZeroOut | Relation::AddOrRemove) => {
                let k = f64::from(classes);
                let mu = up(std::f64::consts::SQRT_2 * mu);
                Ok(Self::Gaussians { shift: up((1.0 - 1.0 / k) * rho), sum: vec![(k - 1.0, mu)] })
            }
            _ => Err("objective perturbation of this loss has a proof for zero-out only".into()),
        }
    }

    /// Upper bound of δ at `epsilon` ≥ 0.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let h = |e: f64, mu: f64| gaussian_ln_delta_upper(e, mu).exp();
        let value = match self {
            Self::Monotone(a) => a.delta(epsilon),
            Self::Gaussians { shift, sum } => {
                if epsilon < *shift {
                    1.0
                } else {
                    sum.iter().map(|(w, mu)| w * h(epsilon - shift, *mu)).sum()
                }
            }
            Self::Folded { shift, mu } => {
                let (e, m) = (epsilon - shift, 0.5 * mu * mu);
                if e >= m {
                    2.0 * h(e, *mu)
                } else {
                    // 1 − e^(e−m)(1 − 2H(m))
                    (1.0 - (e - m).exp() * (1.0 - 2.0 * h(m, *mu)).max(0.0)).max(0.0)
                }
            }
        };
        (value * (1.0 + 8.0 * U)).min(1.0)
    }

    /// The pair for compositions: dense points of the profile up to δ = 1e-60.
    pub fn pair(&self) -> Atoms {
        const POINTS: usize = 1200;
        let mut end = 1e-3;
        while self.delta(end) > 1e-60 && end < super::grid::LARGEST_LOSS {
            end *= 1.3;
        }
        let start = match self {
            Self::Gaussians { shift, .. } => *shift,
            _ => 0.0,
        };
        let end = end.min(super::grid::LARGEST_LOSS).max(start + 1e-3);
        let mut epsilon: Vec<f64> = (0..=POINTS).map(|i| start + (end - start) * i as f64 / POINTS as f64).collect();
        if let Self::Monotone(a) = self {
            epsilon.extend(a.losses().filter(|e| *e > 0.0 && *e < end));
            epsilon.sort_by(f64::total_cmp);
            epsilon.dedup_by(|b, a| *b - *a < 1e-9);
        }
        let delta: Vec<f64> = epsilon.iter().map(|e| self.delta(*e)).collect();
        Atoms::symmetric(&epsilon, &delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_event::special::gaussian_ln_delta;

    fn monotone(sigma: f64, lambda: f64) -> ObjectiveProfile {
        ObjectiveProfile::new(sigma, lambda, GlmLink::Monotone, Relation::ZeroOut).unwrap()
    }

    /// The bound by f of docs/proofs/objective-perturbation-profile.md at ε = 1 and σ = 1/μ(1, 1e-5), for fractions of the threshold λ = 0.965320.
    #[test]
    fn theorem_a_at_fractions_of_the_threshold() {
        let (sigma, threshold) = (3.730631634816, 0.965320);
        for (fraction, value) in [(1.0, 1.0e-5), (0.9, 1.0121e-5), (0.7, 1.3132e-5), (0.5, 3.5387e-5)] {
            let got = monotone(sigma, fraction * threshold).delta(1.0);
            assert!((got / value - 1.0).abs() < 1e-4, "{fraction}: {got}");
        }
    }

    /// Above the threshold the determinant is free, and λ ≥ 2σ² makes it a Gaussian everywhere.
    #[test]
    fn corollary_a1() {
        let h = |e: f64, mu: f64| gaussian_ln_delta(e, mu).exp();
        for (sigma, epsilon) in [(3.730631634816, 1.0), (30.749566, 0.1), (1.081162, 4.0)] {
            let m = 0.5 / (sigma * sigma);
            let got = monotone(sigma, 1.0001 / (epsilon + m)).delta(epsilon);
            assert!((got / h(epsilon, 1.0 / sigma) - 1.0).abs() < 1e-9, "{got}");
            for e in [0.0, 0.01, 0.3] {
                let got = monotone(sigma, 2.0 * sigma * sigma * 1.001).delta(e);
                assert!((got / h(e, 1.0 / sigma) - 1.0).abs() < 1e-9);
            }
        }
    }

    /// Against direct quadrature of E(1 − e^(ε−f(U)))₊ with a dense maximum over c.
    #[test]
    fn theorem_a_by_quadrature() {
        for (sigma, lambda, epsilon) in [(4.0, 0.3f64, 0.2), (2.0, 0.5, 0.7), (3.73, 0.2, 0.05), (1.0, 1.0, 0.5)] {
            let (mu, m, rho) = (1.0 / sigma, 0.5 / (sigma * sigma), 1.0 / lambda);
            let f = |u: f64| {
                (0..=2000)
                    .map(|i| i as f64 / 2000.0)
                    .map(|c| c * u + c * c * m + (c * (1.0 - c) * rho).ln_1p())
                    .fold(0.0, f64::max)
            };
            let n = 4000;
            let (low, high) = (-8.0 * mu, 8.0 * mu);
            let step = (high - low) / n as f64;
            let exact: f64 = (0..n)
                .map(|i| low + (i as f64 + 0.5) * step)
                .map(|u| {
                    let density = (-0.5 * u * u / mu / mu).exp() / (mu * std::f64::consts::TAU.sqrt());
                    density * step * (-(epsilon - f(u)).exp_m1()).max(0.0)
                })
                .sum();
            let got = monotone(sigma, lambda).delta(epsilon);
            assert!(got > exact * (1.0 - 1e-5) && got < exact * (1.0 + 2e-3), "{sigma} {lambda}: {got} {exact}");
        }
    }

    /// Smooth links: (σ, λ, ε) with β = 1/4.
    #[test]
    fn theorem_b() {
        for (sigma, lambda, epsilon, value) in [
            (4.0, 2.0, 0.05, 0.2500116612),
            (4.0, 2.0, 1.0, 4.0224844e-5),
            (4.0, 0.5, 1.0, 1.9428629e-3),
            (1.0, 1.0, 1.0, 0.3433707338),
        ] {
            let profile =
                ObjectiveProfile::new(sigma, lambda, GlmLink::Smooth { smoothness: 0.25 }, Relation::ZeroOut).unwrap();
            assert!((profile.delta(epsilon) / value - 1.0).abs() < 1e-7, "{}", profile.delta(epsilon));
        }
    }

    /// Replace-one with a monotone link, and three classes: σ at δ = 1e-5.
    #[test]
    fn replace_one_and_softmax() {
        for (sigma, epsilon, lambda) in [(7.898747, 1.0, 4.0), (65.21828, 0.1, 40.0), (2.273006, 4.0, 1.0)] {
            let p = ObjectiveProfile::new(sigma, lambda, GlmLink::Monotone, Relation::ReplaceOne).unwrap();
            assert!((p.delta(epsilon) / 1e-5 - 1.0).abs() < 1e-5, "{}", p.delta(epsilon));
        }
        for (sigma, epsilon, lambda) in [(6.493526, 1.0, 4.0), (54.330212, 0.1, 40.0), (1.852573, 4.0, 1.0)] {
            let link = GlmLink::Softmax { classes: 3 };
            let p = ObjectiveProfile::new(sigma, lambda, link, Relation::ZeroOut).unwrap();
            assert!((p.delta(epsilon) / 1e-5 - 1.0).abs() < 1e-5, "{}", p.delta(epsilon));
            assert!(ObjectiveProfile::new(sigma, lambda, link, Relation::ReplaceOne).is_err());
        }
    }
}
