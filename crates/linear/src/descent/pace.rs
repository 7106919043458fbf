//! How fast a descent goes whose planned rate is what any rows allow: faster, until released gradients show that these rows do not.
//!
//! A rate is planned before anything is known of the rows, for rows that all lie along one direction; most tables allow several times that. Everything here
//! is made of what was released, so that it costs nothing and no event changes.

/// Of the rate at which heavy-ball momentum is unstable along the steepest direction that was seen: beyond it the rate goes back …
const NEAR: f64 = 0.7;
/// … to this part, and stays there.
const BACK: f64 = 0.5;
/// Standard deviations of noise in a squared change of gradients that are left out of account.
const SURE: f64 = 3.0;
/// Factor by which the rate grows with each step.
const GROWTH: f64 = 1.15;

/// The rate of a step: from `planned` up to `most`, as long as no direction is seen to be too steep.
pub(super) struct Pace {
    momentum: f64,
    planned: f64,
    most: f64,
    rate: f64,
    /// Weights and gradient of the step before.
    before: Option<(Vec<f64>, Vec<f64>)>,
}

impl Pace {
    /// Begins at `planned`, at which momentum is stable whatever the rows are.
    pub(super) fn new(planned: f64, most: f64, momentum: f64) -> Self {
        Self { momentum, planned, most, rate: planned, before: None }
    }

    /// Gradients are others from here on: they cannot be compared with those before.
    pub(super) fn forget(&mut self) {
        self.before = None;
    }

    /// η of the step that goes from `weights` along `gradient`, the mean gradient there with noise of standard deviation `noise` per coordinate. A direction that is
    /// too steep for the last rate makes the weights swing, and more with every step, so that soon gradients change along it and show how steep it is:
    /// 2(1 + β)/λ is the rate at which it begins to.
    pub(super) fn next(&mut self, weights: &[f64], gradient: Vec<f64>, noise: f64) -> f64 {
        let seen = self.before.as_ref().map_or(0.0, |(w, g)| steepness(w, g, weights, &gradient, noise));
        let stable = 2.0 * (1.0 + self.momentum) / seen.max(f64::MIN_POSITIVE);
        if self.rate > NEAR * stable {
            self.most = self.most.min(BACK * stable).max(self.planned);
            self.rate = self.most;
        } else if self.before.is_some() {
            self.rate = (GROWTH * self.rate).min(self.most);
        }
        self.before = Some((weights.to_vec(), gradient));
        self.rate
    }
}

/// ‖Δg‖²/⟨Δg, Δw⟩, from one point to another: of curvatures the mean that leans most to the large ones, in a direction that w has gone. Less what noise adds to the
/// numerator; 0 where nothing but noise is seen.
fn steepness(from: &[f64], slope: &[f64], to: &[f64], then: &[f64], noise: f64) -> f64 {
    let (mut along, mut squared) = (0.0, 0.0);
    for (((a, g), b), h) in from.iter().zip(slope).zip(to).zip(then) {
        along += (h - g) * (b - a);
        squared += (h - g) * (h - g);
    }
    // of each coordinate 2ν², which varies by √8·ν²
    let d = from.len() as f64;
    let seen = squared - noise * noise * (2.0 * d + SURE * (8.0 * d).sqrt());
    if seen > 0.0 && along > 0.0 { seen / along } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::synthetic::Lcg;

    /// Steps along Σλ_j(w_j − 1)²/2 with this noise in each gradient; the weights, and the largest error that any had since the rate grows.
    fn run(lambdas: &[f64], mut pace: Pace, steps: usize, noise: f64) -> (Vec<f64>, f64) {
        let mut random = Lcg::new(1);
        let (mut w, mut v) = (vec![0.0; lambdas.len()], vec![0.0; lambdas.len()]);
        let mut worst = 0.0f64;
        for _ in 0..steps {
            let g: Vec<f64> = lambdas.iter().zip(&w).map(|(l, w)| l * (w - 1.0) + noise * random.normal()).collect();
            let rate = pace.next(&w, g.clone(), noise);
            for j in 0..w.len() {
                v[j] = 0.9 * v[j] + g[j];
                w[j] -= rate * v[j];
                worst = worst.max((w[j] - 1.0).abs());
            }
        }
        (w, worst)
    }

    #[test]
    fn gentle_tables_are_learnt_in_fewer_steps() {
        // no direction is steeper than a tenth of what the planned rate is for; the last is learnt for a time of 60 · 3.42/(1 − .9), which leaves e^−.62 of it
        let lambdas = [0.1, 0.02, 0.005, 0.0003];
        let at_plan = run(&lambdas, Pace::new(3.42, 3.42, 0.9), 60, 0.0).0;
        let (paced, worst) = run(&lambdas, Pace::new(3.42, 8.0 * 3.42, 0.9), 60, 0.0);
        assert!((1.0 - paced[3]) < 0.2 && (1.0 - at_plan[3]) > 0.5, "{paced:?} {at_plan:?}");
        assert!(worst < 2.0, "{worst}");
    }

    /// A steep direction without a gradient of its own is seen only once its noise has grown.
    #[test]
    fn a_steep_direction_that_hides_in_noise_is_found_and_left_alone() {
        for steep in [0.3, 0.5, 1.0] {
            let lambdas = [steep, 0.02, 0.02, 0.02];
            let noise = 1e-4;
            let mut random = Lcg::new(2);
            // the steep weight begins where it belongs
            let mut w = vec![1.0, 0.0, 0.0, 0.0];
            let (mut v, mut pace, mut worst) = (vec![0.0; 4], Pace::new(3.42, 16.0 * 3.42, 0.9), 0.0f64);
            for _ in 0..150 {
                let g: Vec<f64> = (0..4).map(|j| lambdas[j] * (w[j] - 1.0) + noise * random.normal()).collect();
                let rate = pace.next(&w, g.clone(), noise);
                for j in 0..4 {
                    v[j] = 0.9 * v[j] + g[j];
                    w[j] -= rate * v[j];
                }
                worst = worst.max((w[0] - 1.0).abs());
            }
            // nothing of what the others move by, and back in the end
            assert!(worst < 1.0, "{steep}: {worst}");
            assert!((w[0] - 1.0).abs() < 0.05, "{steep}: {w:?}");
            assert!(pace.rate < 3.8 / steep, "{steep}: {}", pace.rate);
        }
    }

    #[test]
    fn it_is_never_slower_than_planned_and_never_faster_than_allowed() {
        // steeper than any rows, and noise alone
        for lambdas in [[50.0, 50.0], [0.0, 0.0]] {
            let mut pace = Pace::new(0.01, 0.05, 0.9);
            let mut random = Lcg::new(3);
            let mut w = vec![0.0; 2];
            for _ in 0..100 {
                let g: Vec<f64> = (0..2).map(|j| lambdas[j] * (w[j] - 1.0) + random.normal()).collect();
                let rate = pace.next(&w, g.clone(), 1.0);
                assert!((0.01..=0.05).contains(&rate), "{rate}");
                (0..2).for_each(|j| w[j] -= rate * g[j]);
            }
        }
    }
}
