//! Generalised geometric median with a dial from hard to dimension-free (Liu 2024, section 11.4.1).
//!
//! F(x) = (1/n) Σ_i ‖A^{1/2}(x − x_i)‖ with A^{1/2} = g₀·diag(j^{−p}), j = 1..d. The points differ in their first coordinate
//! only, so the minimiser, the minimum and its distance from 0 are the same for every d; what d changes is how much noise
//! is felt: the restricted-Lipschitz coefficients of F are G_k = g₀·(k+1)^{−p}.

use dpopt_noise::{NoiseSource, Purpose};

/// Points on a line in R^d with a weighted Euclidean distance.
#[derive(Clone, Debug, PartialEq)]
pub struct GeometricMedian {
    /// The diagonal of A^{1/2}.
    weights: Vec<f64>,
    /// First coordinates of the points; their others are 0.
    points: Vec<f64>,
}

/// Residuals shorter than this have the subgradient 0.
const COINCIDENT: f64 = 1e-12;

impl GeometricMedian {
    /// `records` points with first coordinate from N(1, 1), A^{1/2} = `scale`·diag(j^{−`exponent`}) in `dimension` coordinates.
    /// One seed gives the same points for every dimension and exponent.
    pub fn generate(records: usize, dimension: usize, scale: f64, exponent: f64, seed: u64) -> Self {
        let mut stream = NoiseSource::insecure(seed).stream(Purpose::Other(11), 0);
        let points = (0..records).map(|_| 1.0 + stream.standard_normal()).collect();
        Self { weights: (1..=dimension).map(|j| scale * (j as f64).powf(-exponent)).collect(), points }
    }

    /// d: number of coordinates.
    pub fn dimension(&self) -> usize {
        self.weights.len()
    }

    /// n: number of points.
    pub fn records(&self) -> usize {
        self.points.len()
    }

    /// G: bound on the norm of every record's gradient, the largest entry of A^{1/2}.
    pub fn lipschitz(&self) -> f64 {
        self.weights.iter().copied().fold(0.0, f64::max)
    }

    /// G_k for k = 0..=d: the sorted entries of A^{1/2}, and G_d = 0.
    pub fn profile(&self) -> Vec<f64> {
        let mut profile = self.weights.clone();
        profile.sort_by(|a, b| b.total_cmp(a));
        profile.push(0.0);
        profile
    }

    /// A minimiser: the median of the first coordinates, and zeros.
    pub fn minimiser(&self) -> Vec<f64> {
        let mut sorted = self.points.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[middle],
            _ => 0.5 * (sorted[middle - 1] + sorted[middle]),
        };
        let mut x = vec![0.0; self.dimension()];
        if let Some(first) = x.first_mut() {
            *first = median;
        }
        x
    }

    /// Squared length of A^{1/2}x without its first coordinate.
    fn rest(&self, x: &[f64]) -> f64 {
        self.weights.iter().zip(x).skip(1).map(|(a, v)| (a * v).powi(2)).sum()
    }

    /// Value F(x) at `x` of length d.
    pub fn value(&self, x: &[f64]) -> f64 {
        let (Some(&a), Some(&x1)) = (self.weights.first(), x.first()) else { return 0.0 };
        let rest = self.rest(x);
        self.points.iter().map(|p| (a * a * (x1 - p) * (x1 - p) + rest).sqrt()).sum::<f64>() / self.points.len() as f64
    }

    /// ∇F(x) into `gradient`, in O(n + d): all points share the coordinates after the first. `x`, `gradient`: d.
    pub fn gradient(&self, x: &[f64], gradient: &mut [f64]) {
        let (Some(&a), Some(&x1)) = (self.weights.first(), x.first()) else { return };
        let (rest, a2) = (self.rest(x), a * a);
        let least = (COINCIDENT * a).powi(2);
        // eight sums side by side: without an order between them the compiler uses vector instructions
        const LANES: usize = 8;
        let (mut total, mut pull) = ([0.0f64; LANES], [0.0f64; LANES]);
        let mut add = |lane: usize, p: f64| {
            let across = x1 - p;
            let squared = a2 * across * across + rest;
            let weight = if squared > least { 1.0 / squared.sqrt() } else { 0.0 };
            total[lane] += weight;
            pull[lane] += weight * across;
        };
        let mut chunks = self.points.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, p) in chunk.iter().enumerate() {
                add(lane, *p);
            }
        }
        for (lane, p) in chunks.remainder().iter().enumerate() {
            add(lane, *p);
        }
        let n = self.points.len() as f64;
        let (total, pull) = (total.iter().sum::<f64>() / n, pull.iter().sum::<f64>() / n);
        for ((g, v), w) in gradient.iter_mut().zip(x).zip(&self.weights) {
            *g = w * w * v * total;
        }
        if let Some(first) = gradient.first_mut() {
            *first = a2 * pull;
        }
    }

    /// The gradient of record `i` alone. `x`, `gradient`: d.
    pub fn record_gradient(&self, i: usize, x: &[f64], gradient: &mut [f64]) {
        let one = Self { weights: self.weights.clone(), points: vec![self.points[i]] };
        one.gradient(x, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_is_the_derivative_and_the_mean_of_the_records() {
        let f = GeometricMedian::generate(37, 6, 3.0, 0.5, 4);
        let x = [0.4, -0.3, 0.2, 0.7, -1.0, 0.05];
        let mut g = [0.0; 6];
        f.gradient(&x, &mut g);
        for j in 0..6 {
            let moved = |h: f64| {
                let mut y = x;
                y[j] += h;
                f.value(&y)
            };
            assert!(((moved(1e-6) - moved(-1e-6)) / 2e-6 - g[j]).abs() < 1e-8);
        }
        let mut mean = [0.0; 6];
        for i in 0..37 {
            let mut one = [0.0; 6];
            f.record_gradient(i, &x, &mut one);
            assert!(one.iter().map(|v| v * v).sum::<f64>().sqrt() <= f.lipschitz() * (1.0 + 1e-12));
            mean.iter_mut().zip(one).for_each(|(m, v)| *m += v / 37.0);
        }
        assert!(mean.iter().zip(g).all(|(m, v)| (m - v).abs() < 1e-12));
    }

    #[test]
    fn optimum_and_profile_do_not_depend_on_dimension() {
        let small = GeometricMedian::generate(2001, 2, 3.0, 1.0, 9);
        let large = GeometricMedian::generate(2001, 300, 3.0, 1.0, 9);
        let minimum = small.value(&small.minimiser());
        assert_eq!(minimum, large.value(&large.minimiser()));
        // 3·E|N(0, 1)| and 3·E|N(1, 1)|, six standard errors
        assert!((minimum - 2.3937).abs() < 0.25 && (large.value(&vec![0.0; 300]) - 3.4999).abs() < 0.4);
        assert_eq!(large.profile()[..4], [3.0, 1.5, 1.0, 0.75]);
        assert_eq!(large.profile()[300], 0.0);
        for step in [-0.1, 0.1] {
            let mut x = small.minimiser();
            x[0] += step;
            assert!(small.value(&x) > minimum);
        }
    }

    #[test]
    fn no_number_breaks_the_gradient() {
        let f = GeometricMedian::generate(3, 2, 3.0, 0.0, 1);
        let mut g = [0.0; 2];
        f.gradient(&[f.points[0], 0.0], &mut g);
        assert!(g.iter().all(|v| v.is_finite()));
    }
}
