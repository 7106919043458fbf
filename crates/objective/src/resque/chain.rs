//! A hard function for methods of balls, with exact solutions.

use crate::geometry::norm;

/// F(x) = μ ln Σ (e^(z/μ) + e^(−z/μ)) of z₁ = (x₁ − 1/√d)/√2, z_i = (x_i − x_{i−1})/√2: the largest of differences of neighbours, smoothed.
/// Least at x = (1, …, 1)/√d; a short move changes few of its terms.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// d: number of coordinates.
    pub dimension: usize,
    /// μ: width of the smoothing.
    pub smoothing: f64,
}

impl Chain {
    fn differences(&self, x: &[f64]) -> Vec<f64> {
        let mut before = 1.0 / (self.dimension as f64).sqrt();
        x.iter()
            .map(|&x| {
                let z = (x - before) / 2f64.sqrt();
                before = x;
                z
            })
            .collect()
    }

    /// Value F(x) of the function.
    pub fn value(&self, x: &[f64]) -> f64 {
        let z = self.differences(x);
        let top = z.iter().fold(0.0f64, |top, z| top.max(z.abs()));
        let term = |z: &f64| ((z - top) / self.smoothing).exp() + ((-z - top) / self.smoothing).exp();
        top + self.smoothing * z.iter().map(term).sum::<f64>().ln()
    }

    /// Least value F* of the function.
    pub fn least(&self) -> f64 {
        self.smoothing * (2.0 * self.dimension as f64).ln()
    }

    /// Gradient in z, and Σ of both weights of each z.
    fn weights(&self, z: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let top = z.iter().fold(0.0f64, |top, z| top.max(z.abs()));
        let pairs: Vec<(f64, f64)> =
            z.iter().map(|z| (((z - top) / self.smoothing).exp(), ((-z - top) / self.smoothing).exp())).collect();
        let sum: f64 = pairs.iter().map(|(a, b)| a + b).sum();
        (pairs.iter().map(|(a, b)| (a - b) / sum).collect(), pairs.iter().map(|(a, b)| (a + b) / sum).collect())
    }

    /// J^T of a vector over z.
    fn back(&self, w: &[f64]) -> Vec<f64> {
        let next = |i: usize| w.get(i + 1).copied().unwrap_or(0.0);
        (0..w.len()).map(|i| (w[i] - next(i)) / 2f64.sqrt()).collect()
    }

    /// argmin F(z) + (λ/2)‖z − y‖² over R^d: Newton's method, halved until it falls.
    pub fn proximal(&self, y: &[f64], lambda: f64) -> Vec<f64> {
        let d = self.dimension;
        let whole = |x: &[f64]| self.value(x) + 0.5 * lambda * dot_difference(x, y);
        let mut x = y.to_vec();
        for _ in 0..500 {
            let (gradient, sums) = self.weights(&self.differences(&x));
            let mut slope = self.back(&gradient);
            slope.iter_mut().zip(x.iter().zip(y)).for_each(|(s, (x, y))| *s += lambda * (x - y));
            if norm(&slope) <= 1e-10 {
                break;
            }
            // Jᵀ(diag(sums) − g gᵀ)J/μ + λ: tridiagonal less one outer product
            let along = self.back(&gradient);
            let scale = 0.5 / self.smoothing;
            let after = |i: usize| sums.get(i + 1).copied().unwrap_or(0.0);
            let diagonal: Vec<f64> = (0..d).map(|i| lambda + scale * (sums[i] + after(i))).collect();
            let beside: Vec<f64> = (1..d).map(|i| -scale * sums[i]).collect();
            let first = tridiagonal(&diagonal, &beside, &slope);
            let second = tridiagonal(&diagonal, &beside, &along);
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            let share = product(&along, &first) / (self.smoothing - product(&along, &second)).max(1e-300);
            let step: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a + share * b).collect();
            let (here, fall) = (whole(&x), product(&slope, &step));
            let mut t = 1.0;
            let moved = |t: f64| -> Vec<f64> { x.iter().zip(&step).map(|(x, s)| x - t * s).collect() };
            while t > 1e-12 && whole(&moved(t)) > here - 0.25 * t * fall {
                t *= 0.5;
            }
            if t <= 1e-12 {
                break; // as far as numbers go
            }
            x = moved(t);
        }
        x
    }

    /// argmin F(z) + (λ/2)‖z − y‖² over the ball of `radius` around y: if the unconstrained solution is outside, λ grows until it lies on the sphere.
    pub fn proximal_in_ball(&self, y: &[f64], lambda: f64, radius: f64) -> Vec<f64> {
        let moved = |x: &[f64]| dot_difference(x, y).sqrt();
        let free = self.proximal(y, lambda);
        if moved(&free) <= radius {
            return free;
        }
        let (mut low, mut high) = (lambda.ln(), (2.0 / radius).max(2.0 * lambda).ln());
        let mut best = y.to_vec();
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            let x = self.proximal(y, middle.exp());
            if moved(&x) > radius {
                low = middle;
            } else {
                high = middle;
                best = x;
            }
        }
        best
    }
}

/// Symmetric, positive definite: by elimination.
fn tridiagonal(diagonal: &[f64], beside: &[f64], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let (mut pivots, mut x) = (diagonal.to_vec(), right.to_vec());
    for i in 1..n {
        let factor = beside[i - 1] / pivots[i - 1];
        pivots[i] -= factor * beside[i - 1];
        x[i] -= factor * x[i - 1];
    }
    x[n - 1] /= pivots[n - 1];
    for i in (0..n - 1).rev() {
        x[i] = (x[i] - beside[i] * x[i + 1]) / pivots[i];
    }
    x
}

/// Squared distance ‖a − b‖².
fn dot_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}
