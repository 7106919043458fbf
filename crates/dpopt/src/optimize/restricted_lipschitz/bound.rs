//! The explicit excess-risk bound of regularised private descent, eq. (11.11), and the parameters that minimise it.
//!
//! For convex losses whose gradients are at most G long, with gradients of the mean loss that have restricted coefficients
//! G_k, for T steps x ← x − η(g + α(x − x⁰) + noise) with ηα ≤ 1/2, E g = ∇F(x), E‖g‖² ≤ G_g² and noise of standard deviation
//! s per coordinate, the mean of the iterates 1..T has
//!
//! E F(x̄) − F(x*) ≤ D²/(2ηT) + 3η(G_g² + k·s²) + αD²/2 + 3Λ(k)²/α + DG/T + η(G_g² + k·s²)/(2T)
//!
//! for every k. The last two terms are ours: the thesis proves the bound for iterates 0..T−1, its listing averages 1..T.
//! For k = d, Λ = 0 and α = 0 is allowed; then the fourth term is absent.

use super::Profile;
use serde::Serialize;

/// What the bound needs to know about one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// G: bound on a record's gradient.
    pub lipschitz: f64,
    /// √E‖g‖² at most: G for full batches; more where batches are drawn.
    pub gradient: f64,
    /// s: standard deviation per coordinate of the noise on the mean gradient.
    pub std: f64,
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// k.
    pub directions: usize,
    /// η on the mean loss.
    pub learning_rate: f64,
    /// α on the mean loss.
    pub regularization: f64,
}

/// Parameters with the bound they give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// What was chosen.
    pub parameters: Parameters,
    /// E F(x̄) − F(x*) is at most this, if ‖x⁰ − x*‖ ≤ D.
    pub excess_risk: f64,
}

/// The bound for given parameters; infinite where it is not proved (ηα > 1/2, or a tail without regularisation).
pub fn bound(noise: Noise, tail: f64, distance: f64, steps: u64, p: Parameters) -> f64 {
    let (t, eta, alpha, d) = (steps as f64, p.learning_rate, p.regularization, distance);
    if !(eta > 0.0 && alpha >= 0.0 && eta * alpha <= 0.5) || (tail > 0.0 && alpha == 0.0) {
        return f64::INFINITY;
    }
    let second_moment = noise.gradient.powi(2) + p.directions as f64 * noise.std.powi(2);
    let rest = if tail > 0.0 { 3.0 * tail * tail / alpha } else { 0.0 };
    d * d / (2.0 * eta * t) + 3.0 * eta * second_moment + 0.5 * alpha * d * d + rest
        + d * noise.lipschitz / t
        + eta * second_moment / (2.0 * t)
}

/// Largest ηα that is chosen: a hair below the 1/2 of the proof, so that no rounding passes it.
const LARGEST_DECAY: f64 = 0.499;

/// Learning rate and regularisation that minimise the bound for given k and T. Without the constraint ηα ≤ 1/2 they have
/// closed forms; where it binds, α is lowered by golden section, with the best η that is still allowed.
fn for_directions(noise: Noise, tail: f64, distance: f64, steps: u64, directions: usize) -> Bound {
    let t = steps as f64;
    let second_moment = noise.gradient.powi(2) + directions as f64 * noise.std.powi(2);
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

/// The k, η and α with the smallest bound for T = `steps`: all k up to 256, then a geometric grid, and k = d.
pub fn minimise_bound(profile: &Profile, dimension: usize, noise: Noise, distance: f64, steps: u64) -> Bound {
    let mut best = for_directions(noise, 0.0, distance, steps, dimension.max(1));
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

/// The parameters of theorem 11.3.3 with c₁ = c₂ = 1, k from the minimum of its rate: for comparison with the thesis. Its
/// noise comes from a formula with unknown constants; it is never used for a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormulaParameters {
    /// k.
    pub directions: usize,
    /// S.
    pub levels: u32,
    /// α.
    pub regularization: f64,
    /// T.
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
