//! AC-SA: accelerated stochastic approximation of a strongly convex function (Ghadimi and Lan 2012; Liu 2024, Algorithm 3).
//!
//! Covers: thesis algorithm 3 (certified: it sees released sums only)
//! Covers: thesis theorem 1.4.1 (part: the bound, with constants, steers the plan)
//! Covers: thesis theorem 1.1.1, theorem 1.4.11 (part: the method is certified; the rate is measured, not claimed)
//! Covers: thesis theorem 1.4.9 (part: the method is certified; the rate is not claimed)

use dpopt_optimize::choices::Domain;
use dpopt_optimize::driver::Driver;

/// Three sequences: where gradients are asked for (the weights that the driver moves), the prox centre, and the aggregate, which is the answer. With
/// E‖noise‖² ≤ V its excess is at most 2L‖x₀ − x*‖²/(T(T+1)) + 8V/(μ(T+1)).
pub(super) struct Accelerated {
    smoothness: f64,
    strong_convexity: f64,
    domain: Domain,
    centre: Vec<f64>,
    aggregate: Vec<f64>,
}

/// α and γ of a step t ≥ 1.
fn weights_of(step: u64, smoothness: f64) -> (f64, f64) {
    let t = step as f64;
    (2.0 / (t + 1.0), 4.0 * smoothness / (t * (t + 1.0)))
}

impl Accelerated {
    /// From `start`, for L and μ of the function whose gradients come; μ = 0 is Nesterov's method.
    pub(super) fn new(start: &[f64], smoothness: f64, strong_convexity: f64, domain: Domain) -> Self {
        Self { smoothness, strong_convexity, domain, centre: start.to_vec(), aggregate: start.to_vec() }
    }

    /// The aggregate of all steps so far.
    pub(super) fn answer(&self) -> &[f64] {
        &self.aggregate
    }

    /// Where step t asks: a mean of aggregate and centre.
    fn ask(&self, step: u64, at: &mut [f64]) {
        let (alpha, gamma) = weights_of(step, self.smoothness);
        let mu = self.strong_convexity;
        let all = gamma + (1.0 - alpha * alpha) * mu;
        let of_aggregate = (1.0 - alpha) * (mu + gamma) / all;
        let of_centre = alpha * ((1.0 - alpha) * mu + gamma) / all;
        for ((x, a), c) in at.iter_mut().zip(&self.aggregate).zip(&self.centre) {
            *x = of_aggregate * a + of_centre * c;
        }
    }
}

impl Driver for Accelerated {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        let (alpha, gamma) = weights_of(step + 1, self.smoothness);
        let mu = self.strong_convexity;
        let kept = (1.0 - alpha) * mu + gamma;
        for ((c, x), g) in self.centre.iter_mut().zip(&*weights).zip(gradient) {
            *c = (alpha * mu * x + kept * *c - alpha * g) / (mu + gamma);
        }
        self.domain.keep(&mut self.centre);
        for (a, c) in self.aggregate.iter_mut().zip(&self.centre) {
            *a = alpha * c + (1.0 - alpha) * *a;
        }
        self.ask(step + 2, weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (where it asked, prox centre, aggregate) of each step.
    fn path(gradient: impl Fn(f64) -> f64, smoothness: f64, mu: f64, steps: u64) -> Vec<[f64; 3]> {
        let mut driver = Accelerated::new(&[1.0], smoothness, mu, Domain::Unconstrained);
        let mut weights = vec![1.0];
        (0..steps)
            .map(|step| {
                let asked = weights[0];
                let slope = [gradient(asked)];
                driver.step(step, &mut weights, &slope);
                [asked, driver.centre[0], driver.answer()[0]]
            })
            .collect()
    }

    #[test]
    fn the_published_steps_to_the_digit() {
        // Liu 2024, Algorithm 3 with α = 2/(t + 1): f(x) = 2x², μ = 1, L = 4
        let expected =
            [[1.0, 0.555_556, 0.555_556], [0.555_556, 0.151_515, 0.286_195], [0.226_936, -0.026_840, 0.129_678]];
        for (step, expected) in path(|x| 4.0 * x, 4.0, 1.0, 3).iter().zip(&expected) {
            step.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 5.1e-7, "{step:?} {expected:?}"));
        }
        // f(x) = x², μ = L = 2
        let expected = [[1.0, 0.666_667, 0.666_667], [0.666_667, 0.4, 0.488_889]];
        for (step, expected) in path(|x| 2.0 * x, 2.0, 2.0, 2).iter().zip(&expected) {
            step.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 5.1e-7, "{step:?} {expected:?}"));
        }
    }

    #[test]
    fn its_bound_holds_on_quadratics_without_noise() {
        for (mu, smoothness) in [(0.1, 10.0), (0.01, 100.0), (1.0, 1.0)] {
            let curvatures: Vec<f64> = (0..20).map(|j| mu * f64::powf(smoothness / mu, f64::from(j) / 19.0)).collect();
            let start = vec![1.0; 20];
            let mut driver = Accelerated::new(&start, smoothness, mu, Domain::Unconstrained);
            let mut weights = start.clone();
            for step in 0..200u64 {
                let gradient: Vec<f64> = curvatures.iter().zip(&weights).map(|(c, w)| c * w).collect();
                driver.step(step, &mut weights, &gradient);
                let excess: f64 = curvatures.iter().zip(driver.answer()).map(|(c, a)| 0.5 * c * a * a).sum();
                let t = (step + 1) as f64;
                assert!(excess <= 2.0 * smoothness * 20.0 / (t * (t + 1.0)), "{step} {excess}");
            }
        }
    }

    #[test]
    fn the_answer_stays_in_the_domain() {
        let mut driver = Accelerated::new(&[0.0, 0.0], 1.0, 0.5, Domain::Ball { radius: 0.3 });
        let mut weights = vec![0.0; 2];
        for step in 0..50 {
            driver.step(step, &mut weights, &[-1.0, 2.0]);
            let norm = driver.answer().iter().map(|a| a * a).sum::<f64>().sqrt();
            assert!(norm <= 0.3 * (1.0 + 1e-12), "{norm}");
        }
        assert!(driver.answer()[1] < -0.2);
    }
}
