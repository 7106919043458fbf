//! The log-Laplace transform ψ(x) = ln ∫e^(⟨x, y⟩ − a‖y‖_q²) dy of l_p geometry, 1 < p ≤ 2, 1/p + 1/q = 1: its value, its first two
//! derivatives, and draws from its exponential family π_x(y) = e^(⟨x, y⟩ − a‖y‖_q² − ψ(x)) (Liu 2024, section 5.5).
//!
//! **Research grade: numbers, no guarantee of privacy.** No bound on the quadrature's error is proved, and for p < 2 no exact draw
//! from e^(−(1 + ημ)ψ(x) + ⟨x, y⟩) is known that scales with d. So nothing here carries a claim, no method uses it, and
//! Schatten norms are not built (their integral has no known closed form).
//!
//! e^(−a‖y‖_q²) is a mixture of products: with the positive stable law μ of index c = 2/q it is E e^(−λa^(q/2)‖y‖_q^q), so
//! ψ(x) = ln ∫μ(λ)Π_i s·K(x_i·s) dλ with s = λ^(−1/q)a^(−1/2). Given x the density of λ is μ(λ)Π_i s·K(x_i·s): the factors depend on λ,
//! so that λ drawn from μ alone, as the source says, gives another law.
//!
//! With a = η(p − 1)/2 the function ηψ is 1-strongly convex in l_p.
//!
//! Covers: thesis algorithm 15 (research: its forward step; for p < 2 no certified backward step)

mod coordinate;
#[cfg(test)]
mod mixing_tests;
mod peak;
#[cfg(test)]
mod privacy_tests;
mod range;
mod stable;
#[cfg(test)]
mod tests;

pub use range::{max_norm_rise, printed_range, raised_exponent, range};

use coordinate::Coordinate;
use dpopt_noise::Stream;
use dpopt_privacy::special::ln_gamma;
use peak::Peak;
use stable::Stable;
use std::f64::consts::PI;

/// Why there is no transform.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTransform {
    /// The exponent is outside of what is built.
    #[error("p = {0} is not supported; give p in [1.05, 1.95], or 2")]
    Exponent(f64),
    /// a is no positive number.
    #[error("a = {0} must be a positive number")]
    Scale(f64),
    /// There is no space without coordinates.
    #[error("the dimension must be at least 1")]
    Dimension,
}

/// ψ for one p, a and d.
pub struct LogLaplace {
    dimension: usize,
    a: f64,
    q: f64,
    /// None for p = 2, where all is Gaussian.
    parts: Option<(Stable, Coordinate)>,
}

/// Value and derivatives of ψ at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivatives {
    /// The value ψ(x).
    pub value: f64,
    /// ∇ψ(x): mean of y.
    pub gradient: Vec<f64>,
    /// Diagonal part of ∇²ψ(x).
    pub diagonal: Vec<f64>,
    /// Weights w and vectors h of its other part Σ w·hhᵀ.
    pub directions: Vec<(f64, Vec<f64>)>,
}

impl Derivatives {
    /// hᵀ∇²ψ(x)h: variance of ⟨h, y⟩.
    pub fn curvature(&self, h: &[f64]) -> f64 {
        let straight: f64 = self.diagonal.iter().zip(h).map(|(v, h)| v * h * h).sum();
        let along = |direction: &[f64]| direction.iter().zip(h).map(|(g, h)| g * h).sum::<f64>();
        straight + self.directions.iter().map(|(w, direction)| w * along(direction).powi(2)).sum::<f64>()
    }
}

/// Draws from π_x at one x.
pub struct Family<'a> {
    transform: &'a LogLaplace,
    x: Vec<f64>,
    /// Ends of pieces of ln λ, ln density at each, and the share of the mass up to each: the density is exponential in between.
    pieces: Vec<(f64, f64, f64)>,
}

impl LogLaplace {
    /// `p` in [1.05, 1.95] or 2; a > 0.
    pub fn new(dimension: usize, p: f64, a: f64) -> Result<Self, NoTransform> {
        if dimension == 0 {
            return Err(NoTransform::Dimension);
        }
        if !(a > 0.0 && a.is_finite()) {
            return Err(NoTransform::Scale(a));
        }
        if p != 2.0 && !(1.05..=1.95).contains(&p) {
            return Err(NoTransform::Exponent(p));
        }
        let q = p / (p - 1.0);
        let parts = (p != 2.0).then(|| (Stable::new(2.0 / q), Coordinate::new(q)));
        Ok(Self { dimension, a, q, parts })
    }

    /// ψ(0), in closed form.
    pub fn at_zero(&self) -> f64 {
        let (d, q) = (self.dimension as f64, self.q);
        d * (2f64.ln() + ln_gamma(1.0 + 1.0 / q)) + ln_gamma(1.0 + 0.5 * d)
            - ln_gamma(1.0 + d / q)
            - 0.5 * d * self.a.ln()
    }

    /// ψ(x), x: d.
    ///
    /// ```
    /// use dpopt_mechanism::sampler::log_laplace::LogLaplace;
    /// // l_(4/3) in two dimensions: the dual norm is l_4
    /// let psi = LogLaplace::new(2, 4.0 / 3.0, 1.0).unwrap();
    /// assert!((psi.value(&[1.0, 0.5]) - 1.6875698).abs() < 1e-7);
    /// ```
    pub fn value(&self, x: &[f64]) -> f64 {
        assert_eq!(x.len(), self.dimension, "x must have as many entries as there are dimensions");
        match &self.parts {
            None => {
                x.iter().map(|x| x * x).sum::<f64>() / (4.0 * self.a) + 0.5 * self.dimension as f64 * (PI / self.a).ln()
            }
            Some((stable, coordinate)) => self.mixture(stable, coordinate, x, 0.25).ln_integral(),
        }
    }

    /// The rule's nodes in ln λ for ∫μ(λ)Π_i s·K(x_i·s) dλ.
    fn mixture(&self, stable: &Stable, coordinate: &Coordinate, x: &[f64], share: f64) -> Peak {
        let c = 2.0 / self.q;
        let sizes = sizes(x);
        let ln_f = |tau: f64| {
            let ln_s = self.ln_scale(tau);
            let product: f64 =
                sizes.iter().map(|&(size, count)| count * (ln_s + coordinate.cumulants(size * ln_s.exp()).ln_k)).sum();
            tau + stable.ln_density(tau) + product
        };
        Peak::of(ln_f, 0.0, 0.5, share, 0.2 * (1.0 - c) / c)
    }

    /// ln s at λ = e^τ.
    fn ln_scale(&self, tau: f64) -> f64 {
        -tau / self.q - 0.5 * self.a.ln()
    }

    /// ψ(x), ∇ψ(x) and ∇²ψ(x).
    pub fn derivatives(&self, x: &[f64]) -> Derivatives {
        let Some((stable, coordinate)) = &self.parts else {
            let gradient = x.iter().map(|x| x / (2.0 * self.a)).collect();
            let diagonal = vec![0.5 / self.a; self.dimension];
            return Derivatives { value: self.value(x), gradient, diagonal, directions: Vec::new() };
        };
        let peak = self.mixture(stable, coordinate, x, 0.25);
        let (mut gradient, mut diagonal) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let mut directions = Vec::new();
        for (&tau, w) in peak.nodes.iter().zip(peak.weights()) {
            let s = self.ln_scale(tau).exp();
            let mut means = Vec::with_capacity(x.len());
            for (j, x) in x.iter().enumerate() {
                let cumulants = coordinate.cumulants(x.abs() * s);
                let mean = (s * cumulants.mean).copysign(*x);
                gradient[j] += w * mean;
                diagonal[j] += w * s * s * cumulants.variance;
                means.push(mean);
            }
            directions.push((w, means));
        }
        for (_, means) in &mut directions {
            means.iter_mut().zip(&gradient).for_each(|(h, g)| *h -= g);
        }
        Derivatives { value: peak.ln_integral(), gradient, diagonal, directions }
    }

    /// The exponential family at x: λ from its law given x, by inversion of a density that is exponential between nodes, then exact
    /// coordinates.
    pub fn family(&self, x: &[f64]) -> Family<'_> {
        assert_eq!(x.len(), self.dimension, "x must have as many entries as there are dimensions");
        let mut pieces = Vec::new();
        if let Some((stable, coordinate)) = &self.parts {
            let peak = self.mixture(stable, coordinate, x, 0.05);
            let mut mass = 0.0;
            let top = peak.ln_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for (i, (&tau, ln)) in peak.nodes.iter().zip(&peak.ln_weights).enumerate() {
                let ln = ln - top;
                if i > 0 {
                    let (_, before, _) = pieces[i - 1];
                    mass += f64::exp(before) * growth(ln - before);
                }
                pieces.push((tau, ln, mass));
            }
            pieces.iter_mut().for_each(|p| p.2 /= mass);
        }
        Family { transform: self, x: x.to_vec(), pieces }
    }

    /// An exact draw of π_0: a‖y‖_q² is Gamma(d/2), the direction that of independent coordinates ∝ e^(−|g|^q).
    pub fn draw_at_zero(&self, stream: &mut Stream) -> Vec<f64> {
        let half_chi: f64 = (0..self.dimension).map(|_| 0.5 * stream.standard_normal().powi(2)).sum();
        let coordinate = Coordinate::new(self.q);
        let g: Vec<f64> = (0..self.dimension).map(|_| coordinate.draw(0.0, stream)).collect();
        let size = g.iter().map(|g| g.abs().powf(self.q)).sum::<f64>().powf(1.0 / self.q);
        g.iter().map(|g| g / size * (half_chi / self.a).sqrt()).collect()
    }
}

/// Each |x_i| once, with how often it occurs.
fn sizes(x: &[f64]) -> Vec<(f64, f64)> {
    let mut all: Vec<f64> = x.iter().map(|x| x.abs()).collect();
    all.sort_by(f64::total_cmp);
    let mut sizes: Vec<(f64, f64)> = Vec::new();
    for size in all {
        match sizes.last_mut() {
            Some(last) if last.0 == size => last.1 += 1.0,
            _ => sizes.push((size, 1.0)),
        }
    }
    sizes
}

/// The integral ∫_0^1 e^(rt) dt = (e^r − 1)/r.
fn growth(r: f64) -> f64 {
    if r.abs() < 1e-9 { 1.0 + 0.5 * r } else { r.exp_m1() / r }
}

impl Family<'_> {
    /// One draw y from π_x.
    pub fn draw(&self, stream: &mut Stream) -> Vec<f64> {
        let Some((_, coordinate)) = &self.transform.parts else {
            let a = self.transform.a;
            return self.x.iter().map(|x| x / (2.0 * a) + stream.standard_normal() / (2.0 * a).sqrt()).collect();
        };
        let s = self.transform.ln_scale(self.ln_lambda(stream)).exp();
        self.x.iter().map(|x| s * coordinate.draw(x * s, stream)).collect()
    }

    fn ln_lambda(&self, stream: &mut Stream) -> f64 {
        let u = stream.uniform();
        let end = self.pieces.partition_point(|p| p.2 < u).clamp(1, self.pieces.len() - 1);
        let ((from, low, before), (to, high, after)) = (self.pieces[end - 1], self.pieces[end]);
        // the part of the piece, in a density that grows by e^r across it
        let (part, r) = ((u - before) / (after - before), high - low);
        let share = if r.abs() < 1e-9 { part } else { (part * r.exp_m1()).ln_1p() / r };
        from + (to - from) * share
    }
}
