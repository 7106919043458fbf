//! Clipped descent for a mean loss and a public quadratic, each step exact in the quadratic (Liu 2024, Algorithm 36).
//!
//! Covers: thesis algorithm 36 (certified)
//! Covers: thesis proposition 12.3.1 (part: privacy; the error bound is a prediction)

use dpopt_optimize::choices::Domain;
use dpopt_optimize::driver::Driver;

/// x ← argmin ⟨g, x⟩ + (λ/2)‖x − c‖² + ‖x − x_t‖²/(2η_t) over the domain, η_t = 4/((λ + μ)(t + 1)), t = 0, 1, …; the answer is the mean of the points that
/// were asked for, the t-th with weight t + 4.
///
/// Over a ball or a box the minimum is the projection of that over all x, since the quadratic has no direction of its own.
pub(super) struct Proximal<'a> {
    added: f64,
    /// λ + μ: curvature of the quadratic and of the loss together.
    all: f64,
    centre: &'a [f64],
    domain: Domain,
    mean: Vec<f64>,
}

/// E‖·‖² of steps, λ of the quadratic, μ of the loss.
pub(super) struct Noisy {
    /// Second moment of the gradients: C² + V.
    pub(super) squared: f64,
    pub(super) added: f64,
    pub(super) own: f64,
}

impl<'a> Proximal<'a> {
    /// For μ ≥ 0 of the loss whose gradients come, and λ > 0 of the quadratic around `centre`.
    pub(super) fn new(own: f64, added: f64, centre: &'a [f64], domain: Domain) -> Self {
        Self { added, all: own + added, centre, domain, mean: vec![0.0; centre.len()] }
    }

    /// The mean so far.
    pub(super) fn answer(&self) -> &[f64] {
        &self.mean
    }

    /// Most of the expected excess of T steps of a loss with curvature μ and its quadratic, from the centre, if the answer u is within `away` of it:
    /// (4(1 + 3H_T/T)/(λ + μ) + 1/λ)·E‖g‖²/(T + 7) + (λ + μ)·away²/(T(T + 7)), H_T = 1 + … + 1/T.
    ///
    /// Step t gives η_t‖g‖²/2 + (1/(2η_t) − μ/2)‖x_t − u‖² − (1/(2η_t) + λ/2)‖x_{t+1} − u‖²; with weights t + 4 the distances telescope, and the quadratic at
    /// x_{t+1} in the place of x_t costs Σ(λ/2)‖x_t − c‖² once, where x_t − c is a convex combination of 0 and −g_s/λ.
    pub(super) fn bound(noisy: &Noisy, steps: u64, away: f64) -> f64 {
        let t = steps as f64;
        let all = noisy.own + noisy.added;
        // H_T ≤ 1 + ln T
        let harmonic = 1.0 + t.ln();
        (4.0 * (1.0 + 3.0 * harmonic / t) / all + 1.0 / noisy.added) * noisy.squared / (t + 7.0)
            + all * away * away / (t * (t + 7.0))
    }
}

impl Driver for Proximal<'_> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        let t = step as f64;
        // t + 4 of (t + 1)(t + 8)/2 so far
        let share = 2.0 * (t + 4.0) / ((t + 1.0) * (t + 8.0));
        self.mean.iter_mut().zip(&*weights).for_each(|(m, w)| *m += share * (w - *m));
        let rate = 4.0 / (self.all * (t + 1.0));
        let pulled = 1.0 / (1.0 + rate * self.added);
        for ((w, g), c) in weights.iter_mut().zip(gradient).zip(self.centre) {
            *w = (*w - rate * (g - self.added * c)) * pulled;
        }
        self.domain.keep(weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points that were asked for, and the answer, for ½(x − s)² clipped at 3 with s = 1, 2, 9.
    fn worked(steps: u64) -> (Vec<f64>, f64) {
        let centre = [0.0];
        let mut driver = Proximal::new(0.0, 1.0, &centre, Domain::Box { radius: 5.0 });
        let mut x = vec![0.0];
        let mut asked = Vec::new();
        for step in 0..steps {
            asked.push(x[0]);
            let mean = [1.0f64, 2.0, 9.0].iter().map(|s| (x[0] - s).clamp(-3.0, 3.0)).sum::<f64>() / 3.0;
            driver.step(step, &mut x, &[mean]);
        }
        (asked, driver.answer()[0])
    }

    #[test]
    fn the_worked_example_comes_out() {
        let (asked, answer) = worked(4);
        let published = [0.0, 1.6, 1.155_555_6, 1.197_883_6];
        assert!(asked.iter().zip(published).all(|(x, p)| (x - p).abs() < 1e-7), "{asked:?}");
        assert!((answer - 1.059_932_7).abs() < 1e-7, "{answer}");
        // weights 4, 5, 6, 7 of 22
        let by_hand: f64 = asked.iter().enumerate().map(|(t, x)| (t as f64 + 4.0) * x / 22.0).sum();
        assert!((answer - by_hand).abs() < 1e-12);
    }

    #[test]
    fn with_no_gradient_the_way_is_a_known_recursion() {
        let centre = [2.0, -1.0];
        let mut driver = Proximal::new(0.5, 1.5, &centre, Domain::Unconstrained);
        let mut x = vec![0.0, 0.0];
        let mut expected = [0.0, 0.0];
        for step in 0..50u64 {
            let rate = 4.0 / (2.0 * (step as f64 + 1.0));
            for (e, c) in expected.iter_mut().zip(centre) {
                *e = (*e + rate * 1.5 * c) / (1.0 + rate * 1.5);
            }
            driver.step(step, &mut x, &[0.0, 0.0]);
            assert!(x.iter().zip(expected).all(|(x, e)| (x - e).abs() < 1e-12));
        }
        assert!((x[0] - 2.0).abs() < 1e-3, "{x:?}");
    }

    #[test]
    fn its_bound_holds_where_the_function_has_a_kink() {
        // |x − 1| + (μ/2)x² + (λ/2)(x − c)², slopes of the first two at most 1 + 2μ on [−2, 2]
        for (own, added, c) in [(0.0, 0.5, 0.0), (0.3, 0.2, -1.0), (0.0, 0.05, 2.0)] {
            let f = |x: f64| (x - 1.0).abs() + 0.5 * own * x * x + 0.5 * added * (x - c) * (x - c);
            let least = (-2000..=2000).map(|i| f(f64::from(i) / 1000.0)).fold(f64::INFINITY, f64::min);
            let minimiser =
                (-2000..=2000).map(|i| f64::from(i) / 1000.0).min_by(|a, b| f(*a).total_cmp(&f(*b))).unwrap();
            let centre = [c];
            let mut driver = Proximal::new(own, added, &centre, Domain::Box { radius: 2.0 });
            let mut x = vec![c];
            let squared = (1.0 + 2.0 * own).powi(2);
            for step in 0..500u64 {
                let slope = [(x[0] - 1.0).signum() + own * x[0]];
                driver.step(step, &mut x, &slope);
                let bound = Proximal::bound(&Noisy { squared, added, own }, step + 1, (minimiser - c).abs());
                let excess = f(driver.answer()[0]) - least;
                assert!(excess <= bound + 1e-6, "{step} {excess} {bound}");
            }
        }
    }
}
