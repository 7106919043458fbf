//! What moves the weights along gradients that have been released, and which of them are the answer: post-processing,
//! whatever it is.

use crate::RunError;
use crate::choices::{AdaptiveRule, Domain};
use dpopt_mechanism::Released;
use dpopt_mechanism::progress::Progress;
use dpopt_objective::geometry::{norm, project_box, project_l2_ball, project_l2_ball_in_norm};

/// One step of the weights along a gradient that has been released.
pub trait Driver {
    /// Moves `weights`; `step` counts from 0.
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]);
}

/// How long a run is, and what of it is the answer.
#[derive(Clone, Copy)]
pub struct Course {
    /// T: number of noisy steps.
    pub steps: u64,
    /// The first step whose iterate is in the mean that is the answer.
    pub first_averaged: u64,
    /// Makes gradients of released sums: by public numbers, never by how many records were drawn.
    pub per_record: f64,
}

/// T steps of `driver` from `start` along what `oracle` releases; the mean of the last iterates.
pub fn drive(
    driver: &mut dyn Driver,
    course: Course,
    start: Vec<f64>,
    progress: &dyn Progress,
    mut oracle: impl FnMut(&[f64]) -> Result<Released<Vec<f64>>, RunError>,
) -> Result<Vec<f64>, RunError> {
    let (mut weights, mut mean) = (start, Vec::new());
    mean.resize(weights.len(), 0.0);
    let share = 1.0 / (course.steps - course.first_averaged) as f64;
    for step in 0..course.steps {
        let mut gradient = oracle(&weights)?.into_inner();
        gradient.iter_mut().for_each(|g| *g *= course.per_record);
        driver.step(step, &mut weights, &gradient);
        if step >= course.first_averaged {
            mean.iter_mut().zip(&weights).for_each(|(m, w)| *m += share * w);
        }
        progress.tick();
    }
    Ok(mean)
}

/// v ← βv + g, θ ← a_tθ − η_tv: what a descent without other wishes does.
pub struct HeavyBall<F> {
    momentum: f64,
    rule: F,
    /// The weight that is not decayed.
    exempt: Option<usize>,
    velocity: Vec<f64>,
}

impl<F: Fn(u64) -> (f64, f64)> HeavyBall<F> {
    /// `rule` gives η_t and a_t.
    pub fn new(weights: usize, momentum: f64, exempt: Option<usize>, rule: F) -> Self {
        Self { momentum, rule, exempt, velocity: vec![0.0; weights] }
    }
}

impl<F: Fn(u64) -> (f64, f64)> Driver for HeavyBall<F> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        let (rate, decay) = (self.rule)(step);
        let kept = self.exempt.map(|j| (j, weights[j]));
        for ((w, v), g) in weights.iter_mut().zip(&mut self.velocity).zip(gradient) {
            *v = self.momentum * *v + g;
            *w = decay * *w - rate * *v;
        }
        if let Some((j, w)) = kept {
            weights[j] = w - rate * self.velocity[j];
        }
    }
}

impl Domain {
    /// Nearest point in l2, in place.
    pub fn keep(self, x: &mut [f64]) {
        let same = vec![1.0; x.len()];
        self.project(x, || same);
    }

    /// Nearest point in the norm ‖x‖_H = √Σ h_j·x_j², in place.
    fn project(self, x: &mut [f64], h: impl FnOnce() -> Vec<f64>) {
        match self {
            Self::Unconstrained => {}
            // coordinates do not interact, so the norm does not matter
            Self::Box { radius } => project_box(x, -radius, radius),
            Self::Ball { radius } if norm(x) > radius => project_l2_ball_in_norm(x, &h(), radius),
            Self::Ball { .. } => {}
        }
    }
}

/// Public numbers of an adaptive update.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveStep {
    /// Which second moment scales the steps.
    pub rule: AdaptiveRule,
    /// β in [0, 1): the step follows the fading mean of ĝ.
    pub momentum: f64,
    /// β₂: decay of the second moments of Adam.
    pub second_momentum: f64,
    /// λ/n: adds to the gradient.
    pub regularization: f64,
    /// Where the weights stay.
    pub domain: Domain,
}

/// Adam's ε: 1e-8 as published.
const ADAM_FLOOR: f64 = 1e-8;

/// The state of an adaptive update: sums of squares and fading means of what was released.
pub struct AdaptiveSteps<F> {
    step: AdaptiveStep,
    /// α_t: learning rate of step t.
    rate: F,
    first: Vec<f64>,
    /// S_j or v_j; for [`AdaptiveRule::Scalar`] one number.
    second: Vec<f64>,
    direction: Vec<f64>,
    /// Σ of the squared factors by which noise in a gradient entered the weight.
    reach: Vec<f64>,
}

impl<F: Fn(u64) -> f64> AdaptiveSteps<F> {
    /// The update at rest, with the rate of each step.
    pub fn new(step: AdaptiveStep, weights: usize, rate: F) -> Self {
        let squares = if step.rule == AdaptiveRule::Scalar { 1 } else { weights };
        Self {
            step,
            rate,
            first: vec![0.0; weights],
            second: vec![0.0; squares],
            direction: vec![0.0; weights],
            reach: vec![0.0; weights],
        }
    }

    /// Standard deviation that noise of standard deviation 1 in each gradient leaves in the weights, to first order, in
    /// directions where the data pull nothing back and without an average over iterates: an upper bound otherwise.
    pub fn reach(&self) -> impl Iterator<Item = f64> {
        self.reach.iter().map(|r| r.sqrt())
    }

    /// m ← βm + (1 − β)g.
    fn follow(&mut self) {
        let beta = self.step.momentum;
        if beta > 0.0 {
            for (m, g) in self.first.iter_mut().zip(&mut self.direction) {
                *m = beta * *m + (1.0 - beta) * *g;
                *g = *m;
            }
        }
    }
}

impl<F: Fn(u64) -> f64> Driver for AdaptiveSteps<F> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        let AdaptiveStep { rule, momentum, second_momentum, regularization, domain } = self.step;
        let rate = (self.rate)(step);
        self.direction.clear();
        self.direction.extend(gradient.iter().zip(&*weights).map(|(g, w)| g + regularization * w));
        match rule {
            AdaptiveRule::Scalar => {
                self.second[0] += self.direction.iter().map(|g| g * g).sum::<f64>();
                self.follow();
                let root = self.second[0].sqrt();
                if root > 0.0 {
                    weights.iter_mut().zip(&self.direction).for_each(|(w, g)| *w -= rate / root * g);
                    self.reach.iter_mut().for_each(|r| *r += (rate / root).powi(2));
                }
                if let Domain::Ball { radius } = domain {
                    project_l2_ball(weights, radius);
                } else {
                    domain.project(weights, Vec::new);
                }
            }
            AdaptiveRule::Diagonal => {
                self.second.iter_mut().zip(&self.direction).for_each(|(s, g)| *s += g * g);
                self.follow();
                for (((w, g), s), r) in weights.iter_mut().zip(&self.direction).zip(&self.second).zip(&mut self.reach) {
                    // a coordinate that never had a gradient has no step length, and needs none
                    if *s > 0.0 {
                        *w -= rate * g / s.sqrt();
                        *r += rate * rate / s;
                    }
                }
                // a weight that was never moved is 0: any positive h leaves it there
                domain.project(weights, || self.second.iter().map(|s| s.sqrt().max(f64::MIN_POSITIVE)).collect());
            }
            AdaptiveRule::Adam => {
                let t = (step + 1) as f64;
                // 1 − β^t without cancellation
                let unbias = |beta: f64| if beta > 0.0 { -(t * beta.ln()).exp_m1() } else { 1.0 };
                let (c1, c2) = (unbias(momentum), unbias(second_momentum));
                for (v, g) in self.second.iter_mut().zip(&self.direction) {
                    *v = second_momentum * *v + (1.0 - second_momentum) * g * g;
                }
                self.follow();
                let size = |v: f64| (v / c2).sqrt() + ADAM_FLOOR;
                for (((w, m), v), r) in weights.iter_mut().zip(&self.direction).zip(&self.second).zip(&mut self.reach) {
                    *w -= rate * (m / c1) / size(*v);
                    *r += (rate / c1 / size(*v)).powi(2);
                }
                domain.project(weights, || self.second.iter().map(|v| size(*v)).collect());
            }
        }
    }
}

/// A driver whose weights are read after each step: they are released, so reading them costs nothing.
pub struct Watched<'a, D> {
    /// What moves the weights.
    pub driver: D,
    /// Sees each step's number and the weights after it.
    pub look: &'a mut dyn FnMut(u64, &[f64]),
}

impl<D: Driver> Driver for Watched<'_, D> {
    fn step(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        self.driver.step(step, weights, gradient);
        (self.look)(step, weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::synthetic::Lcg;

    fn plain(rule: AdaptiveRule, domain: Domain) -> AdaptiveStep {
        AdaptiveStep { rule, momentum: 0.0, second_momentum: 0.999, regularization: 0.0, domain }
    }

    /// A gradient path that depends on the weights: any difference between two runs grows.
    fn gradient(w: &[f64], random: &mut Lcg) -> Vec<f64> {
        w.iter().enumerate().map(|(j, w)| (w - 1.0) * (1.0 + j as f64) + 0.3 * random.normal()).collect()
    }

    #[test]
    fn without_noise_and_clip_the_rules_are_adagrad_and_adagrad_norm_bit_for_bit() {
        for rule in [AdaptiveRule::Scalar, AdaptiveRule::Diagonal] {
            let (mut ours, mut theirs) = (vec![0.0; 5], vec![0.0; 5]);
            let (mut squares, mut total) = (vec![0.0; 5], 0.0f64);
            let mut update = AdaptiveSteps::new(plain(rule, Domain::Unconstrained), 5, |_| 0.3);
            let mut random = [Lcg::new(3), Lcg::new(3)];
            for t in 0..200 {
                let g = gradient(&ours, &mut random[0]);
                update.step(t, &mut ours, &g);
                let g = gradient(&theirs, &mut random[1]);
                total += g.iter().map(|g| g * g).sum::<f64>();
                for j in 0..5 {
                    squares[j] += g[j] * g[j];
                    theirs[j] -= match rule {
                        AdaptiveRule::Scalar => 0.3 / total.sqrt() * g[j],
                        _ => 0.3 * g[j] / squares[j].sqrt(),
                    };
                }
                assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn adam_takes_its_published_first_steps() {
        // Kingma and Ba 2015: the first step has size α whatever the gradient is, and so has the second under the same gradient
        let step = AdaptiveStep { momentum: 0.9, ..plain(AdaptiveRule::Adam, Domain::Unconstrained) };
        let mut update = AdaptiveSteps::new(step, 2, |_| 0.1);
        let mut w = [0.0, 0.0];
        update.step(0, &mut w, &[1e-3, -50.0]);
        assert!((w[0] + 0.1).abs() < 1e-5 && (w[1] - 0.1).abs() < 1e-9, "{w:?}");
        update.step(1, &mut w, &[1e-3, -50.0]);
        assert!((w[0] + 0.2).abs() < 1e-5 && (w[1] - 0.2).abs() < 1e-9, "{w:?}");
    }

    #[test]
    fn weights_stay_in_their_domain_and_nothing_moves_without_a_gradient() {
        let mut random = Lcg::new(5);
        for rule in [AdaptiveRule::Scalar, AdaptiveRule::Diagonal, AdaptiveRule::Adam] {
            for (domain, size) in [
                (
                    Domain::Box { radius: 0.5 },
                    (|w: &[f64]| w.iter().fold(0.0, |m: f64, w| m.max(w.abs()))) as fn(&[f64]) -> f64,
                ),
                (Domain::Ball { radius: 0.5 }, norm as fn(&[f64]) -> f64),
            ] {
                let mut update = AdaptiveSteps::new(plain(rule, domain), 6, |_| 1.0);
                let mut w = vec![0.0; 6];
                update.step(0, &mut w, &[0.0; 6]);
                assert_eq!(w, [0.0; 6], "{rule:?}");
                for t in 1..50 {
                    let mut g = gradient(&w, &mut random);
                    g[5] = 0.0;
                    update.step(t, &mut w, &g);
                    assert!(size(&w) <= 0.5 * (1.0 + 1e-12), "{rule:?} {domain:?} {w:?}");
                    assert_eq!(w[5], 0.0);
                }
                assert!(size(&w) > 0.499, "{rule:?} {domain:?}: the optimum is outside");
            }
        }
    }
}
