//! The reweighted estimator of a smoothed function's gradient (Liu 2024, Definition 2.2.2).

/// Subgradients of a convex function at many points at once.
pub trait BatchOracle {
    /// d: number of coordinates.
    fn dimension(&self) -> usize;
    /// One round: a stochastic subgradient at each point, of mean square norm at most L², wherever it lies in R^d.
    fn query(&mut self, points: &[Vec<f64>]) -> Vec<Vec<f64>>;
}

/// An oracle with its rounds and queries counted.
#[derive(Debug)]
pub struct Counted<O> {
    oracle: O,
    /// Number of batches asked so far.
    pub rounds: u64,
    /// Number of points asked so far.
    pub queries: u64,
}

impl<O: BatchOracle> Counted<O> {
    /// An oracle that counts from 0.
    pub fn new(oracle: O) -> Self {
        Self { oracle, rounds: 0, queries: 0 }
    }
}

impl<O: BatchOracle> BatchOracle for Counted<O> {
    fn dimension(&self) -> usize {
        self.oracle.dimension()
    }

    fn query(&mut self, points: &[Vec<f64>]) -> Vec<Vec<f64>> {
        self.rounds += 1;
        self.queries += points.len() as u64;
        self.oracle.query(points)
    }
}

/// ln of the density of N(v, ρ²I) over that of N(0, ρ²I) at ξ: (⟨v, ξ⟩ − ‖v‖²/2)/ρ². The densities themselves are never formed.
///
/// ```
/// let w = dpopt_objective::resque::log_weight(&[0.3, -0.4], &[1.0, 0.5], 2.0).exp();
/// assert!((w - 0.9937694906).abs() < 1e-10);
/// ```
pub fn log_weight(v: &[f64], xi: &[f64], rho: f64) -> f64 {
    let (product, square) = v.iter().zip(xi).fold((0.0, 0.0), |(p, s), (v, x)| (p + v * x, s + v * v));
    (product - 0.5 * square) / (rho * rho)
}

/// E wᵖ = exp((p² − p)s²/2) of the weight at a distance of s·ρ from the centre; p = 2 bounds the mean square of an estimate by L²e^(s²).
/// (The print has 2s² there, with which its own bound of 3L² at s = 1 would be false.)
pub fn weight_moment(p: f64, s: f64) -> f64 {
    (0.5 * (p * p - p) * s * s).exp()
}

/// Queries around one centre, each good for one unbiased estimate of ∇(f * N(0, ρ²I)) at any point.
#[derive(Clone, Debug)]
pub struct Samples {
    centre: Vec<f64>,
    rho: f64,
    offsets: Vec<Vec<f64>>,
    gradients: Vec<Vec<f64>>,
}

impl Samples {
    /// `count` queries at `centre` + N(0, `rho`²I), in one round; `normal` draws standard normals.
    pub fn draw(
        oracle: &mut impl BatchOracle,
        centre: &[f64],
        rho: f64,
        count: usize,
        normal: &mut impl FnMut() -> f64,
    ) -> Self {
        let offsets: Vec<Vec<f64>> = (0..count).map(|_| centre.iter().map(|_| rho * normal()).collect()).collect();
        let points: Vec<Vec<f64>> =
            offsets.iter().map(|o| centre.iter().zip(o).map(|(c, o)| c + o).collect()).collect();
        let gradients = if count > 0 { oracle.query(&points) } else { Vec::new() };
        Self { centre: centre.to_vec(), rho, offsets, gradients }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Adds `scale` times the i-th estimate of the gradient at `x` to `out`. Steps that are to be independent take one each.
    ///
    /// # Panics
    /// If there is no i-th.
    pub fn add(&self, i: usize, x: &[f64], scale: f64, out: &mut [f64]) {
        let v: Vec<f64> = x.iter().zip(&self.centre).map(|(x, c)| x - c).collect();
        let weight = scale * log_weight(&v, &self.offsets[i], self.rho).exp();
        out.iter_mut().zip(&self.gradients[i]).for_each(|(o, g)| *o += weight * g);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::synthetic::Lcg;

    /// Subgradients of a function, exactly.
    pub(in crate::resque) struct Exact<F>(pub(in crate::resque) usize, pub(in crate::resque) F);

    impl<F: Fn(&[f64]) -> Vec<f64>> BatchOracle for Exact<F> {
        fn dimension(&self) -> usize {
            self.0
        }

        fn query(&mut self, points: &[Vec<f64>]) -> Vec<Vec<f64>> {
            points.iter().map(|x| (self.1)(x)).collect()
        }
    }

    /// Box–Muller: the tails matter here, and sums of uniforms have none.
    pub(in crate::resque) fn normals(seed: u64) -> impl FnMut() -> f64 {
        let mut random = Lcg::new(seed);
        move || {
            let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
            radius * (std::f64::consts::TAU * random.uniform()).cos()
        }
    }

    #[test]
    fn moments_of_the_weight_are_as_derived() {
        assert!((weight_moment(2.0, 0.5) - 1.284_025_4).abs() < 1e-7);
        assert!((weight_moment(2.0, 1.0) - std::f64::consts::E).abs() < 1e-12);
        let mut normal = normals(3);
        let (rho, v, draws) = (2.0, [0.6, -0.8], 400_000);
        for p in [1, 2] {
            let w = |normal: &mut dyn FnMut() -> f64| log_weight(&v, &[rho * normal(), rho * normal()], rho).exp();
            let mean = (0..draws).map(|_| w(&mut normal).powi(p)).sum::<f64>() / f64::from(draws);
            let exact = weight_moment(f64::from(p), 0.5);
            // standard deviations .53 and 2.5 per draw: six of them of the mean
            assert!((mean - exact).abs() < [0.006, 0.025][p as usize - 1], "{p}: {mean} {exact}");
        }
    }

    #[test]
    fn estimates_are_unbiased_wherever_the_queries_are_centred() {
        // f = ‖x‖₁: the smoothed gradient is 2Φ(x/ρ) − 1 per coordinate
        let sign = |x: &[f64]| x.iter().map(|v| if *v == 0.0 { 0.0 } else { v.signum() }).collect();
        let mut oracle = Counted::new(Exact(3, sign));
        let (centre, x, rho, count) = ([0.2, -0.1, 0.5], [0.5, -0.3, 0.3], 0.7, 200_000);
        let samples = Samples::draw(&mut oracle, &centre, rho, count, &mut normals(8));
        assert_eq!((oracle.rounds, oracle.queries, samples.len()), (1, count as u64, count));
        let mut mean = [0.0; 3];
        (0..count).for_each(|i| samples.add(i, &x, 1.0 / count as f64, &mut mean));
        for (got, x) in mean.iter().zip(x) {
            let expected = libm::erf(x / rho / 2f64.sqrt());
            // a standard deviation of at most e^(s²/2) = 1.17 per draw: six of the mean are .016
            assert!((got - expected).abs() < 0.016, "{got} {expected}");
        }
    }
}
