//! Steps 2/(μ(t + 1)) for strongly convex functions with kinks (Lacoste-Julien, Schmidt, Bach 2012).

use dpopt_optimize::choices::Domain;
use dpopt_optimize::driver::Driver;

/// x ← x − 2/(μ(t + 1))·g. The answer is the mean of the points that were asked for, the t-th with weight t: its excess is at most 2M²/(μ(T + 1)) if
/// E‖g‖² ≤ M².
pub(super) struct Shrinking {
    strong_convexity: f64,
    domain: Domain,
    mean: Vec<f64>,
}

impl Shrinking {
    /// For μ > 0 of the function whose gradients come.
    pub(super) fn new(dimension: usize, strong_convexity: f64, domain: Domain) -> Self {
        Self { strong_convexity, domain, mean: vec![0.0; dimension] }
    }

    /// The mean so far.
    pub(super) fn answer(&self) -> &[f64] {
        &self.mean
    }
}

impl Driver for Shrinking {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        // t of T(T + 1)/2, step by step
        let share = 2.0 / (step as f64 + 2.0);
        self.mean.iter_mut().zip(&*weights).for_each(|(m, w)| *m += share * (w - *m));
        let rate = share / self.strong_convexity;
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w -= rate * g);
        self.domain.keep(weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_bound_holds_where_the_function_has_a_kink() {
        // f(x) = |x − 1| + (μ/2)x² on [−2, 2]: least at 1 for μ ≤ 1, slopes at most 1 + 2μ
        let mu = 0.5;
        let f = |x: f64| (x - 1.0).abs() + 0.5 * mu * x * x;
        let mut driver = Shrinking::new(1, mu, Domain::Box { radius: 2.0 });
        let mut x = vec![-2.0];
        let (mut weighted, mut all) = (0.0, 0.0);
        for step in 0..500u64 {
            let t = (step + 1) as f64;
            (weighted, all) = (weighted + t * x[0], all + t);
            let slope = [(x[0] - 1.0).signum() + mu * x[0]];
            driver.step(step, &mut x, &slope);
            assert!((driver.answer()[0] - weighted / all).abs() < 1e-12);
            let excess = f(driver.answer()[0]) - f(1.0);
            assert!(excess <= 2.0 * (1.0 + 2.0 * mu).powi(2) / (mu * (t + 1.0)), "{step} {excess}");
        }
    }
}
