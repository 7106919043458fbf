//! Exponential weights over noisy sums (Auer, Cesa-Bianchi, Freund and Schapire 2002, in batches as Asi, Raman and Talwar 2025 do): for
//! rewards of any kind, and for best arms that change.

use super::BanditProblem;
use serde::{Deserialize, Serialize};

/// How arms are weighed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmWeights {
    /// B: rounds that an arm is played in a row, whose rewards are in one noisy sum.
    pub batch: u64,
    /// η: what a mean of a batch moves logarithms of weights by.
    pub rate: f64,
    /// γ: probability that the arm of a batch is drawn evenly and not by weight.
    pub exploration: f64,
    /// α: of the weights so much is spread evenly after every batch; 0 where one arm is the best all along.
    pub share: f64,
}

/// Losses are held against this: those above raise a weight and those below lower it. Between 0 and ½ the least bounds.
const CENTRE: f64 = 0.3;
/// Parts of \[0, 1\] in each of which the second moment is bounded by its ends.
const CELLS: usize = 200;

/// At most E(c + Z)²·e^(a·max(−c − Z, 0)) for any centred loss c and discrete Laplace noise Z of a scale up to s; ∞ unless a·s < 1.
fn second_moment(a: f64, s: f64) -> f64 {
    if a * s >= 1.0 || a > 100.0 {
        return f64::INFINITY;
    }
    // the noise is below ⌈an exponential variable⌉ on its grid
    let (b, left) = (CENTRE + 2f64.powi(-24), 1.0 - a * s);
    let tilted = b * b / left + 2.0 * b * s / (left * left) + 2.0 * s * s / left.powi(3);
    let plain = b * b + 2.0 * b * s + 2.0 * s * s;
    let largest = (1.0 - CENTRE) * (1.0 - CENTRE);
    largest + 2.0 * s * s + 0.5 * ((a * b).exp() * tilted - plain) + CENTRE * CENTRE * (CENTRE * a).exp_m1()
}

/// At most (1 − z)·`second_moment`(a·z, s) for any z in \[0, 1\]: it grows with z.
fn weighed_moment(a: f64, s: f64) -> f64 {
    let ends = |i: usize| (i as f64 / CELLS as f64, (i + 1) as f64 / CELLS as f64);
    (0..CELLS).map(ends).map(|(from, to)| (1.0 - from) * second_moment(a * to, s)).fold(0.0, f64::max)
}

impl BanditProblem {
    /// The player of the least bound, and that bound, where a sum of rewards has noise of this scale.
    pub(super) fn weights(&self, scale: f64) -> (ArmWeights, f64) {
        let whole = ArmWeights { batch: 1, rate: 0.0, exploration: 0.5, share: 0.0 };
        let mut best = (whole, self.rounds as f64);
        let mut batch = 1;
        while batch <= self.rounds {
            let s = scale / batch as f64;
            // η·K/γ: small where noise is loud, of the size of 1 where it is quiet
            for a in (0..60).map(|i| 0.02 * 400f64.powf(f64::from(i) / 59.0)).filter(|a| a * s < 0.96) {
                let candidate = self.weights_of(batch, s, a);
                if candidate.1 < best.1 {
                    best = candidate;
                }
            }
            batch = (batch + 1).max((batch as f64 * 1.15) as u64);
        }
        best
    }

    /// That of batches of this size, whose means have noise of scale `s`, for η·K/γ = `a`.
    fn weights_of(&self, batch: u64, s: f64, a: f64) -> (ArmWeights, f64) {
        let (k, switches) = (self.arms as f64, self.switches as f64);
        let batches = self.rounds.div_ceil(batch) as f64;
        let share = (switches / batches).min(0.5);
        let staying = (batches - 1.0 - switches).max(0.0) * -(-share).ln_1p();
        let switching = if self.switches == 0 { 0.0 } else { switches * (k / share).ln() };
        let logarithm = k.ln() + switching + staying;
        let moment = weighed_moment(a, s);
        let wanted = (logarithm / (batches * k * (0.5 * moment + 1.0 / a))).sqrt();
        let rate = wanted.min(0.5 * a / k);
        let exploration = rate * k / a;
        let of_batches =
            (1.0 - exploration) * logarithm / rate + 0.5 * rate * batches * k * moment + exploration * batches;
        let bound = batch as f64 * (of_batches + switches) + self.rounding();
        // what is no number is not better than what is known
        let bound = if bound.is_finite() { bound } else { f64::INFINITY };
        (ArmWeights { batch, rate, exploration, share }, bound)
    }
}

impl ArmWeights {
    /// Whether a game can be played by it.
    pub(super) fn is_sound(&self) -> bool {
        let share = |x: f64| (0.0..=1.0).contains(&x);
        self.batch > 0 && self.rate >= 0.0 && self.rate.is_finite() && share(self.exploration) && share(self.share)
    }
}

/// Where the weights stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Weighed {
    /// Logarithms of weights that add up to 1.
    logarithms: Vec<f64>,
    /// That is being played.
    pub(super) arm: usize,
}

impl Weighed {
    /// All arms alike; `coin` is uniform in \[0, 1).
    pub(super) fn all(arms: usize, coin: f64) -> Self {
        let arm = ((coin * arms as f64) as usize).min(arms - 1);
        Self { logarithms: vec![-(arms as f64).ln(); arms], arm }
    }

    /// Whether it can be one of a game with so many arms.
    pub(super) fn is_sound(&self, arms: usize) -> bool {
        self.logarithms.len() == arms && self.arm < arms && self.logarithms.iter().all(|weight| weight.is_finite())
    }

    /// Weights, which add up to 1.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.logarithms.iter().map(|weight| weight.exp()).collect()
    }

    /// Probability that an arm is drawn.
    fn drawn(&self, arm: usize, exploration: f64) -> f64 {
        (1.0 - exploration) * self.logarithms[arm].exp() + exploration / self.logarithms.len() as f64
    }

    /// Takes the noisy mean reward of the arm that was played, and draws the next by `coin`, uniform in \[0, 1).
    pub(super) fn learn(&mut self, plan: &ArmWeights, mean: f64, coin: f64) {
        let centred_loss = 1.0 - mean - CENTRE;
        self.logarithms[self.arm] -= plan.rate * centred_loss / self.drawn(self.arm, plan.exploration);
        let largest = self.logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = self.logarithms.iter().map(|weight| (weight - largest).exp()).sum();
        let (level, even) = (largest + total.ln(), plan.share / self.logarithms.len() as f64);
        for weight in &mut self.logarithms {
            *weight -= level;
            if plan.share > 0.0 {
                *weight = ((1.0 - plan.share) * weight.exp() + even).ln();
            }
        }
        let mut below = 0.0;
        let next = (0..self.logarithms.len()).find(|&arm| {
            below += self.drawn(arm, plan.exploration);
            coin < below
        });
        self.arm = next.unwrap_or(self.logarithms.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::problem;
    use super::*;

    /// The bound on the second moment holds for the very law of the noise, wherever the centred loss lies; and is not far above.
    #[test]
    fn second_moments_are_bounded_and_not_far_off() {
        for (s, of_scale) in [(0.3, 0.5), (0.5, 0.9), (1.0, 0.2), (2.0, 0.7)] {
            let (a, step) = (of_scale / s, 1.0 / 512.0);
            let decay = f64::exp(-step / s);
            let at = |c: f64| {
                (-200_000i32..=200_000)
                    .map(|k| {
                        let u = c + f64::from(k) * step;
                        let mass = (1.0 - decay) / (1.0 + decay) * (-f64::from(k.abs()) * step / s).exp();
                        mass * u * u * (a * (-u).max(0.0)).exp()
                    })
                    .sum::<f64>()
            };
            let worst = [-0.3, -0.1, 0.1, 0.3, 0.5, 0.7].map(at).into_iter().fold(0.0, f64::max);
            // the noise of the test has a coarser grid than that of games
            let bound = second_moment(a, s);
            assert!(worst <= bound * 1.02 && worst > 0.6 * bound, "{s} {of_scale}: {worst} {bound}");
        }
        assert_eq!(second_moment(1.0, 1.0), f64::INFINITY);
        assert!(weighed_moment(0.9, 1.0) < 0.7 * second_moment(0.9, 1.0));
    }

    /// Without noise and for long games the bound is at most 2.1 times √(T·K·ln K/2), half of what exponential weights are proved to lose at most.
    #[test]
    fn bounds_come_near_those_without_privacy() {
        let problem = problem(10, 1 << 36);
        let without = (0.5 * (problem.rounds * 10) as f64 * 10f64.ln()).sqrt();
        let (quiet, loud) = (problem.weights(1e-3).1, problem.weights(1.0).1);
        assert!(quiet > without && quiet < 2.1 * without, "{quiet} {without}");
        assert!(loud > 2.0 * quiet && loud < 8.0 * quiet, "{loud} {quiet}");
    }

    /// What is learnt of one arm moves its weight by what it should, and shares keep the others from vanishing.
    #[test]
    fn weights_move_as_planned() {
        let plan = ArmWeights { batch: 1, rate: 0.1, exploration: 0.2, share: 0.0 };
        let mut weighed = Weighed::all(4, 0.3);
        assert_eq!(weighed.arm, 1);
        // centred loss −1 at probability ¼: e^(.1·4)
        weighed.learn(&plan, 1.7, 0.999_999);
        let up = 0.4f64.exp();
        let expected = [1.0, up, 1.0, 1.0].map(|w| w / (3.0 + up));
        assert!(weighed.weights().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", weighed.weights());
        assert_eq!(weighed.arm, 3);
        let mut sharing = Weighed::all(2, 0.0);
        let plan = ArmWeights { share: 0.01, ..plan };
        (0..2000).for_each(|_| sharing.learn(&plan, 0.0, 0.0));
        assert!(sharing.is_sound(2) && sharing.weights().iter().all(|w| *w > 0.004), "{:?}", sharing.weights());
    }
}
