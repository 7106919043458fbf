//! What a descent does with a released mean gradient: post-processing, whatever it is (spec 14 §2–4).

use super::DescentSchedule;
use crate::geometry::{norm, project_box, project_l2_ball, project_l2_ball_in_norm};
use crate::optimize::choices::{AdaptiveRule, Domain};
use crate::plan::Problem;

/// One step of the weights along a mean gradient that has been released.
pub(crate) trait Update {
    /// Moves `weights`; `step` counts from 0.
    fn apply(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]);
}

/// v ← βv + g, θ ← aθ − ηv: what a descent without other wishes does.
pub(crate) struct HeavyBall<'a> {
    schedule: &'a DescentSchedule,
    problem: &'a Problem,
    velocity: Vec<f64>,
}

impl<'a> HeavyBall<'a> {
    pub(crate) fn new(schedule: &'a DescentSchedule, problem: &'a Problem) -> Self {
        Self { schedule, problem, velocity: vec![0.0; problem.weights()] }
    }
}

impl Update for HeavyBall<'_> {
    fn apply(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        let (rate, decay) = (self.schedule.rate(step), self.schedule.decay(self.problem, step));
        for ((w, v), g) in weights.iter_mut().zip(&mut self.velocity).zip(gradient) {
            *v = self.schedule.momentum * *v + g;
            *w = decay * *w - rate * *v;
        }
    }
}

impl Domain {
    /// Nearest point in l2, in place.
    pub(crate) fn keep(self, x: &mut [f64]) {
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
pub(crate) struct AdaptiveStep {
    pub(crate) rule: AdaptiveRule,
    /// β in [0, 1): the step follows the fading mean of ĝ.
    pub(crate) momentum: f64,
    /// β₂ of Adam.
    pub(crate) second_momentum: f64,
    /// λ/n: adds to the gradient.
    pub(crate) regularization: f64,
    pub(crate) domain: Domain,
}

/// Adam's ε: 1e-8 as published.
const ADAM_FLOOR: f64 = 1e-8;

/// The state of an adaptive update: sums of squares and fading means of what was released.
pub(crate) struct AdaptiveUpdate<F> {
    step: AdaptiveStep,
    /// α_t.
    rate: F,
    first: Vec<f64>,
    /// S_j or v_j; for [`AdaptiveRule::Scalar`] one number.
    second: Vec<f64>,
    direction: Vec<f64>,
    /// Σ of the squared factors by which noise in a gradient entered the weight.
    reach: Vec<f64>,
}

impl<F: Fn(u64) -> f64> AdaptiveUpdate<F> {
    pub(crate) fn new(step: AdaptiveStep, weights: usize, rate: F) -> Self {
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
    pub(crate) fn reach(&self) -> impl Iterator<Item = f64> {
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

impl<F: Fn(u64) -> f64> Update for AdaptiveUpdate<F> {
    fn apply(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
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

/// An update whose weights somebody looks at after each step: they are released, so anybody may.
pub(crate) struct Watched<'a, U> {
    pub(crate) update: U,
    pub(crate) look: &'a mut dyn FnMut(u64, &[f64]),
}

impl<U: Update> Update for Watched<'_, U> {
    fn apply(&mut self, step: u64, weights: &mut [f64], gradient: &[f64]) {
        self.update.apply(step, weights, gradient);
        (self.look)(step, weights);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::synthetic::Lcg;

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
            let mut update = AdaptiveUpdate::new(plain(rule, Domain::Unconstrained), 5, |_| 0.3);
            let mut random = [Lcg::new(3), Lcg::new(3)];
            for t in 0..200 {
                let g = gradient(&ours, &mut random[0]);
                update.apply(t, &mut ours, &g);
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
        let mut update = AdaptiveUpdate::new(step, 2, |_| 0.1);
        let mut w = [0.0, 0.0];
        update.apply(0, &mut w, &[1e-3, -50.0]);
        assert!((w[0] + 0.1).abs() < 1e-5 && (w[1] - 0.1).abs() < 1e-9, "{w:?}");
        update.apply(1, &mut w, &[1e-3, -50.0]);
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
                let mut update = AdaptiveUpdate::new(plain(rule, domain), 6, |_| 1.0);
                let mut w = vec![0.0; 6];
                update.apply(0, &mut w, &[0.0; 6]);
                assert_eq!(w, [0.0; 6], "{rule:?}");
                for t in 1..50 {
                    let mut g = gradient(&w, &mut random);
                    g[5] = 0.0;
                    update.apply(t, &mut w, &g);
                    assert!(size(&w) <= 0.5 * (1.0 + 1e-12), "{rule:?} {domain:?} {w:?}");
                    assert_eq!(w[5], 0.0);
                }
                assert!(size(&w) > 0.499, "{rule:?} {domain:?}: the optimum is outside");
            }
        }
    }
}
