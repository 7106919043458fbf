//! The explicit excess-risk bound of regularised private descent (Liu 2024, equation 11.11), and the parameters that minimise it.
//!
//! For convex losses whose gradients are at most G long, with gradients of the mean loss that have restricted coefficients
//! G_k, for T steps x ← x − η(g + α(x − x⁰) + noise) with ηα ≤ 1/2, E g = ∇F(x), E‖g‖² ≤ G_g² and noise of standard deviation
//! s per coordinate, the mean of the iterates 1..T has
//!
//! E F(x̄) − F(x*) ≤ D²/(2ηT) + 3η(G_g² + k·s²) + αD²/2 + 3Λ(k)²/α + DG/T + η(G_g² + k·s²)/(2T)
//!
//! for every k. The last two terms are ours: the dissertation proves the bound for iterates 0..T−1, its listing averages 1..T.
//! For k = d, Λ = 0 and α = 0 is allowed; then the fourth term is absent.
//!
//! Where the mean loss is also β-smooth, plain descent (k = d, α = 0) with ηβ < 1 has a second bound, without the length of
//! the gradients: with V = d·s² + v², v² the variance of drawing batches,
//!
//! E F(x̄) − F(x*) ≤ (D²/(2ηT) + ηV/(2T) + ηV/2)/(1 − ηβ),
//!
//! because ‖∇F(x)‖² ≤ 2β(F(x) − F(x*)) and a step without noise brings x¹ no farther from x*. The smaller bound is taken.
//!
//! Covers: thesis theorem 11.3.3 (certified: noise by the accountant; the bound with constants)

use super::Profile;
use serde::Serialize;

/// What the bound needs to know about one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GradientNoise {
    /// G: bound on a record's gradient.
    pub lipschitz: f64,
    /// v: standard deviation, in l2 norm, of the mean gradient over a drawn batch; 0 for full batches.
    pub sampling: f64,
    /// β: bound on the curvature of the mean loss, if it has one.
    pub smoothness: Option<f64>,
    /// s: standard deviation per coordinate of the noise on the mean gradient.
    pub std: f64,
}

impl GradientNoise {
    /// G_g² = G² + v² at most: E‖g‖².
    fn gradient_squared(&self) -> f64 {
        self.lipschitz.powi(2) + self.sampling.powi(2)
    }
}

/// Parameters of the descent that a bound is minimised over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// k: directions whose noise the bound pays for.
    pub directions: usize,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// α on the mean loss.
    pub regularization: f64,
}

/// Parameters with the bound they give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The parameters that give the bound.
    pub parameters: Parameters,
    /// E F(x̄) − F(x*) is at most this, if ‖x⁰ − x*‖ ≤ D.
    pub excess_risk: f64,
}

/// The bound for given parameters; infinite where it is not proved (ηα > 1/2, or a tail without regularisation).
pub fn bound(noise: GradientNoise, tail: f64, distance: f64, steps: u64, p: Parameters) -> f64 {
    let (t, eta, alpha, d) = (steps as f64, p.learning_rate, p.regularization, distance);
    if !(eta > 0.0 && alpha >= 0.0 && eta * alpha <= 0.5) || (tail > 0.0 && alpha == 0.0) {
        return f64::INFINITY;
    }
    let second_moment = noise.gradient_squared() + p.directions as f64 * noise.std.powi(2);
    let rest = if tail > 0.0 { 3.0 * tail * tail / alpha } else { 0.0 };
    d * d / (2.0 * eta * t)
        + 3.0 * eta * second_moment
        + 0.5 * alpha * d * d
        + rest
        + d * noise.lipschitz / t
        + eta * second_moment / (2.0 * t)
}

/// The second bound, for plain descent on a β-smooth mean loss; infinite where it is not proved.
pub fn smooth_bound(noise: GradientNoise, dimension: usize, distance: f64, steps: u64, learning_rate: f64) -> f64 {
    let (t, eta) = (steps as f64, learning_rate);
    let Some(kept) = noise.smoothness.map(|beta| 1.0 - eta * beta).filter(|kept| *kept > 0.0 && eta > 0.0) else {
        return f64::INFINITY;
    };
    let variance = dimension as f64 * noise.std.powi(2) + noise.sampling.powi(2);
    (distance.powi(2) / (2.0 * eta * t) + 0.5 * eta * variance * (1.0 + 1.0 / t)) / kept
}

/// The learning rate with the smallest second bound. With A = D²/(2T) and B = V(1 + 1/T)/2 it minimises
/// (A/η + Bη)/(1 − ηβ): the positive root of Bη² + 2Aβη − A = 0.
fn for_smooth(noise: GradientNoise, dimension: usize, distance: f64, steps: u64) -> Option<Bound> {
    let (t, beta) = (steps as f64, noise.smoothness?);
    let a = distance.powi(2) / (2.0 * t);
    let b = 0.5 * (dimension as f64 * noise.std.powi(2) + noise.sampling.powi(2)) * (1.0 + 1.0 / t);
    let learning_rate = a / (a * beta + (a * a * beta * beta + a * b).sqrt());
    let parameters = Parameters { directions: dimension, learning_rate, regularization: 0.0 };
    let excess_risk = smooth_bound(noise, dimension, distance, steps, learning_rate);
    excess_risk.is_finite().then_some(Bound { parameters, excess_risk })
}

/// Largest ηα that is chosen: a hair below the 1/2 of the proof, so that no rounding passes it.
const LARGEST_DECAY: f64 = 0.499;

/// Learning rate and regularisation that minimise the bound for given k and T. Without the constraint ηα ≤ 1/2 they have
/// closed forms; where it binds, α is lowered by golden section, with the best η that is still allowed.
fn for_directions(noise: GradientNoise, tail: f64, distance: f64, steps: u64, directions: usize) -> Bound {
    let t = steps as f64;
    let second_moment = noise.gradient_squared() + directions as f64 * noise.std.powi(2);
    let free_rate = distance / (second_moment * (6.0 * t + 1.0)).sqrt();
    let at = |alpha: f64| {
        let learning_rate = if alpha > 0.0 { free_rate.min(LARGEST_DECAY / alpha) } else { free_rate };
        let parameters = Parameters { directions, learning_rate, regularization: alpha };
        Bound { parameters, excess_risk: bound(noise, tail, distance, steps, parameters) }
    };
    let free_alpha = 6f64.sqrt() * tail / distance;
    if free_rate * free_alpha <= LARGEST_DECAY {
        return at(free_alpha);
    }
    let (mut low, mut high) = ((1e-6 * free_alpha).ln(), free_alpha.ln());
    let ratio = 0.5 * (5f64.sqrt() - 1.0);
    for _ in 0..80 {
        let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
        if at(a.exp()).excess_risk < at(b.exp()).excess_risk { high = b } else { low = a }
    }
    at((0.5 * (low + high)).exp())
}

/// The k, η and α with the smallest of both bounds for T = `steps`: all k up to 256, then a geometric grid, and k = d.
pub fn minimise_bound(profile: &Profile, dimension: usize, noise: GradientNoise, distance: f64, steps: u64) -> Bound {
    let mut best = for_directions(noise, 0.0, distance, steps, dimension.max(1));
    if let Some(smooth) = for_smooth(noise, dimension.max(1), distance, steps)
        && smooth.excess_risk < best.excess_risk
    {
        best = smooth;
    }
    let mut k = 1;
    while k < dimension {
        let tail = profile.tail(k, dimension, noise.lipschitz);
        let candidate = for_directions(noise, tail, distance, steps, k);
        if candidate.excess_risk < best.excess_risk {
            best = candidate;
        }
        k = if k < 256 { k + 1 } else { k + k / 64 };
    }
    // a profile of rank r is exactly optimal at r, which the grid may step over
    if let Profile::Rank { rank } = profile
        && (*rank as usize) < dimension
    {
        let k = *rank as usize;
        let candidate = for_directions(noise, profile.tail(k, dimension, noise.lipschitz), distance, steps, k);
        if candidate.excess_risk < best.excess_risk {
            best = candidate;
        }
    }
    best
}

/// The parameters of Liu 2024, Theorem 11.3.3, with c₁ = c₂ = 1, k from the minimum of its rate: for comparison with the dissertation. Its
/// noise comes from a formula with unknown constants; it is never used for a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormulaParameters {
    /// k: directions whose noise the bound pays for.
    pub directions: usize,
    /// S: number of levels of the profile.
    pub levels: u32,
    /// α: regularisation on the mean loss.
    pub regularization: f64,
    /// T: number of steps.
    pub steps: f64,
    /// σ, the noise multiplier of one-record steps.
    pub noise_multiplier: f64,
    /// η for empirical risk.
    pub learning_rate: f64,
}

/// See [`FormulaParameters`]: `records` n, ε, δ, D and a profile that decays like k^−c (G_k = G_0·k^−c, G_j = 0 for j ≥ d).
pub fn formula_parameters(
    records: u64,
    dimension: usize,
    (epsilon, delta): (f64, f64),
    distance: f64,
    (g, exponent): (f64, f64),
) -> FormulaParameters {
    let (n, log) = (records as f64, (1.0 / delta).ln());
    let coefficient = |k: usize| if k >= dimension { 0.0 } else { g * (k as f64).powf(-exponent) };
    let optimum = (epsilon * n / log.sqrt()).powf(2.0 / (1.0 + 2.0 * exponent)).ceil();
    let directions = (optimum.clamp(1.0, dimension as f64)) as usize;
    let levels = (dimension / directions).ilog2() + 1;
    let tail: f64 = (1..=levels)
        .map(|s| f64::from(s * s) * f64::from(s).exp2() * coefficient(directions << (s - 1)).powi(2))
        .sum::<f64>()
        .sqrt();
    let steps = n * n + dimension as f64 * (dimension as f64).log2().max(1.0).powi(2);
    let noise_multiplier = (steps * log).sqrt() / (n * epsilon);
    FormulaParameters {
        directions,
        levels,
        regularization: tail / distance,
        steps,
        noise_multiplier,
        learning_rate: distance / (g * noise_multiplier * (steps * directions as f64).sqrt()),
    }
}
