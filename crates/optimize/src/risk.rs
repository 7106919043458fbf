//! Predicted excess training risk from public facts only: what `explain` ranks methods by.
//!
//! Model: the mean loss is quadratic around its minimiser θ*. Rows of norm R have a second moment of trace R², whose
//! spectrum falls like 1/j over p = min(d, 512) directions, as it does for one-hot, B-spline and word features; the curvature
//! in direction j is a_j = φ''·R²/(j·H_p), H_p the harmonic number, and θ* has the same share in every direction,
//! ‖θ*_j‖² = s₀²/R², so that scores have their usual size s₀. Each method's error then splits per direction into bias
//! (regularisation or early stopping) and noise, both in closed form:
//!
//! excess = ½ Σ_j a_j·(bias_j² + noise variance_j).
//!
//! Clipping gradients below the loss's own bound L silences the records beyond it, and with them a share of the
//! curvature: a_j is multiplied by min(1, C/L). The numbers are a guess of the order of magnitude and serve to *rank*;
//! they claim nothing about privacy.

use crate::plan::Problem;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Directions;

/// Of the variance of useful scores, what is within reach of a linear model of encoded columns; and where the loss has the scale of a
/// declared range, which is wider than most targets vary: a standard deviation of .26 of half of the range.
const SCORE_SHARE: f64 = 0.75;
const SCORE_SHARE_IN_A_RANGE: f64 = 0.27;

/// What directions tell is of columns that are independent. Where they are not, this share of the variance of scores lies along directions with
/// second moments so many times smaller.
const WEAK_SHARE: f64 = 0.1;
const WEAKER: f64 = 30.0;

/// Directions beyond this one carry no curvature worth counting.
const MAX_DIRECTIONS: usize = 512;

/// The quadratic model of a learning problem.
#[derive(Clone, Debug)]
pub struct RiskModel {
    /// n: number of rows.
    pub rows: f64,
    /// All weights, for the norm of noise vectors.
    pub weights: f64,
    /// R²/(j·H_p): spectrum of the mean of x xᵀ, the same for each output; or what the encoder says of its rows.
    moments: Vec<f64>,
    /// How many directions have each moment, and the squared distance of the minimiser from 0 along each.
    counts: Vec<f64>,
    signals: Vec<f64>,
    /// The smallest of the usual moments.
    smallest: f64,
    /// Excess that no weights avoid, for this curvature.
    missed: f64,
    /// Outputs, each with directions of its own: there may be 300,000.
    outputs: usize,
    /// Share of the variance of useful scores that encoded columns reach.
    score_share: f64,
    /// Typical curvature φ'' of the loss.
    pub curvature: f64,
    /// Squared distance of the minimiser from 0, per direction.
    pub signal: f64,
}

/// A phase of SGD: step on one record's loss, records, noise in each weight of what is released.
pub struct PhaseRisk {
    /// η: learning rate on one record's loss.
    pub rate: f64,
    /// Steps, one for each record.
    pub records: f64,
    /// Standard deviation of the noise of the phase's answer, per coordinate.
    pub noise_std: f64,
}

impl RiskModel {
    /// The model from the public facts of a problem of scores.
    pub fn of(problem: &Problem) -> Self {
        let usual = Self::usual(problem);
        match &problem.directions {
            Some(directions) => usual.along(directions),
            None => usual,
        }
    }

    /// The model from public facts without the directions that the encoder gives: for answers of few features, about which the directions of functions of
    /// columns say nothing.
    pub fn usual(problem: &Problem) -> Self {
        let p = problem.features.clamp(1, MAX_DIRECTIONS);
        let harmonic: f64 = (1..=p).map(|j| 1.0 / j as f64).sum();
        // typical curvature of the loss, and size of a useful score
        let (curvature, score) = match problem.loss {
            Loss::Logistic { .. } => (0.15, 2.0),
            Loss::Softmax { classes } => (0.5 / f64::from(classes.max(2)), 2.0),
            Loss::Squared | Loss::Huber { .. } | Loss::Absolute => (1.0, 0.5),
            // the density of residuals at the level
            Loss::Quantile { .. } => (1.0, 0.5),
            // of means about the usual count, which vary by half of it
            Loss::Poisson { .. } => (1.0, 0.6),
            Loss::Hinge => (0.5, 1.0),
            // about the curvature of the logistic loss where scores are useful, scaled to a slope of 1/4
            Loss::Sigmoid => (0.05, 2.0),
            Loss::SmoothedHinge { width } => (0.5f64.min(0.25 / width), 1.0),
        };
        let score_share = match problem.loss {
            Loss::Squared | Loss::Huber { .. } | Loss::Absolute | Loss::Quantile { .. } => SCORE_SHARE_IN_A_RANGE,
            _ => SCORE_SHARE,
        };
        let r2 = problem.row_norm * problem.row_norm;
        let signal = score * score / r2;
        let moments: Vec<f64> = (1..=p).map(|j| r2 / (j as f64 * harmonic)).collect();
        Self {
            rows: problem.rows.max(1) as f64,
            weights: problem.weights() as f64,
            counts: vec![1.0; moments.len()],
            signals: vec![signal; moments.len()],
            smallest: moments.last().copied().unwrap_or(0.0),
            moments,
            missed: 0.0,
            outputs: problem.loss.outputs(),
            score_share,
            curvature,
            signal,
        }
    }

    /// This model where rows are known to lie along `directions`.
    fn along(self, directions: &Directions) -> Self {
        self.in_directions(directions.all.iter().map(|d| (d.count, d.moment, d.share)), directions.missed)
    }

    /// The usual problem with columns that go together: rows of numbers as they are.
    pub fn of_numbers(problem: &Problem) -> Self {
        let usual = Self::usual(problem);
        let moments = usual.moments.clone();
        let share = 1.0 / moments.len() as f64;
        usual.in_directions(moments.into_iter().map(|moment| (1.0, moment, share)), 0.0)
    }

    /// Rows along directions of (count, moment, share of the variance of good scores), where columns go together; and the share that none has.
    fn in_directions(self, directions: impl Iterator<Item = (f64, f64, f64)>, missed: f64) -> Self {
        let all: Vec<(f64, f64, f64)> = directions
            .flat_map(|(count, moment, share)| {
                [(moment, 1.0 - WEAK_SHARE), (moment / WEAKER, WEAK_SHARE)].map(|(m, part)| (count, m, part * share))
            })
            .collect();
        // of norm 1 or R: the variance of good scores is the same
        let variance = self.score_share * self.signal * self.moments.iter().sum::<f64>();
        Self {
            moments: all.iter().map(|d| d.1).collect(),
            counts: all.iter().map(|d| d.0).collect(),
            signals: all.iter().map(|d| variance * d.2 / d.1).collect(),
            missed: 0.5 * self.outputs as f64 * self.curvature * variance * missed,
            ..self
        }
    }

    /// This model where the norm of rows is multiplied by `ratio`: weights for the same scores are larger by 1/`ratio`.
    pub fn shrunk(mut self, ratio: f64) -> Self {
        let square = ratio * ratio;
        self.moments.iter_mut().for_each(|m| *m *= square);
        self.signals.iter_mut().for_each(|s| *s /= square);
        self.smallest *= square;
        self.signal /= square;
        self
    }

    /// The least excess risk of a regularised minimiser with one Gaussian sum of noise `sum_noise`.
    pub fn balanced(&self, sum_noise: f64, row_norm: f64) -> f64 {
        self.regularized(sum_noise * row_norm / self.tolerable_noise(sum_noise, row_norm), sum_noise, 0.0)
    }

    /// The noise in a score, of a row along flat directions, at which bias and noise are best balanced, where one Gaussian sum of the
    /// whole budget has noise `sum_noise`.
    pub fn tolerable_noise(&self, sum_noise: f64, row_norm: f64) -> f64 {
        let noise = |k: i32| 2f64.powf(0.25 * f64::from(k));
        let risk = |k: i32| self.regularized(sum_noise * row_norm / noise(k), sum_noise, 0.0);
        noise((-24..=20).min_by(|a, b| risk(*a).total_cmp(&risk(*b))).unwrap_or(0))
    }

    /// This model with gradients clipped to `clip_norm`, where the loss's own bound is `lipschitz`.
    pub fn clipped(mut self, clip_norm: f64, lipschitz: Option<f64>) -> Self {
        // of K > 1 outputs slopes are near √(1 − 1/K) while scores are small, and not at their bound √2
        let usual = if self.outputs > 1 { (0.5 - 0.5 / self.outputs as f64).sqrt() } else { 1.0 };
        // an unbounded slope (squared loss) is clipped for outliers only
        let share = lipschitz.map_or(1.0, |l| (clip_norm / (usual * l)).min(1.0));
        self.curvature *= share;
        // what no weights say is lost to the same loss
        self.missed *= share;
        self
    }

    /// ½ Σ a·(bias² + variance) with both as functions of the second moment m of a direction and the signal along it.
    fn excess(&self, error: impl Fn(f64, f64) -> f64) -> f64 {
        let along = |((&m, &count), &signal): ((&f64, &f64), &f64)| count * (self.curvature * m * error(m, signal));
        let sum: f64 = self.moments.iter().zip(&self.counts).zip(&self.signals).map(along).sum();
        0.5 * self.outputs as f64 * sum + self.missed
    }

    /// ‖θ*‖²: squared norm of the best weights.
    pub fn squared_norm(&self) -> f64 {
        self.signal * (self.outputs * self.moments.len()) as f64
    }

    /// A loss shifted by m pulls with slope σ(m) instead of ½ at score 0: noise counts 2σ(m) times less against it.
    pub fn pull(loss: Loss) -> f64 {
        match loss {
            Loss::Logistic { shift } => 2.0 * dpopt_objective::loss::sigmoid(shift),
            _ => 1.0,
        }
    }

    /// Smallest second moment of the directions: n times it is the smallest eigenvalue to expect of Σxxᵀ.
    pub fn smallest_moment(&self) -> f64 {
        self.smallest
    }

    /// Σφ + (λ/2)‖θ‖² + b·θ with b of standard deviation σ, and noise σ_out on the minimiser.
    pub fn regularized(&self, lambda: f64, linear_noise: f64, output_noise: f64) -> f64 {
        self.excess(|m, signal| {
            let total = self.rows * self.curvature * m + lambda;
            signal * (lambda / total).powi(2) + (linear_noise / total).powi(2) + output_noise * output_noise
        })
    }

    /// What to multiply the answer of [`regularized`](Self::regularized) with so that the excess is least, at most 1; and that excess.
    pub fn scaled_regularized(&self, lambda: f64, linear_noise: f64, output_noise: f64) -> (f64, f64) {
        self.least_scaled(|scale| {
            self.excess(|m, signal| {
                let total = self.rows * self.curvature * m + lambda;
                let bias = 1.0 - scale * (1.0 - lambda / total);
                signal * bias * bias + scale * scale * ((linear_noise / total).powi(2) + output_noise * output_noise)
            })
        })
    }

    /// The last iterate of `steps` steps of size h from 0 on Σφ + (λ/2)‖θ‖², each with noise of this standard deviation.
    pub fn last_iterate(&self, lambda: f64, step_size: f64, steps: f64, noise: f64) -> f64 {
        self.excess(|m, signal| {
            let total = self.rows * self.curvature * m + lambda;
            let rate = (step_size * total).clamp(1e-12, 1.0);
            let bias = lambda / total + (1.0 - rate).powf(steps);
            signal * bias * bias + noise * noise * fading_sum(rate, steps)
        })
    }

    /// A draw from e^(−β(Σφ + (λ/2)‖θ‖²)): bias of the minimiser, variance 1/(β(na + λ)).
    pub fn gibbs(&self, lambda: f64, inverse_temperature: f64) -> f64 {
        self.excess(|m, signal| {
            let total = self.rows * self.curvature * m + lambda;
            signal * (lambda / total).powi(2) + 1.0 / (inverse_temperature * total)
        })
    }

    /// Gradient descent for learning time s = ηT/(1−β) on the mean loss; `flat_noise` is the standard deviation that the
    /// noise of all steps leaves in a direction without curvature.
    pub fn learning_time(&self, time: f64, flat_noise: f64) -> f64 {
        self.excess(|m, signal| {
            let (bias, variance) = self.learnt(m, time, flat_noise);
            signal * bias + variance
        })
    }

    /// Phases of SGD, one step per record, each from the noisy mean of the iterates of the one before. A mean over T steps of size η has
    /// come (1 − e^(−aηT))/(aηT) of its way short, and has the noise of its own records: at most that of the minimiser over them.
    pub fn phased(&self, phases: &[PhaseRisk]) -> f64 {
        self.excess(|m, signal| {
            phases.iter().fold(signal, |error, phase| {
                let pull = self.curvature * m;
                let done = pull * phase.rate * phase.records;
                let left = if done > 0.0 { -(-done).exp_m1() / done } else { 1.0 };
                // slopes of about the curvature's size, squared
                let drift = (phase.rate * phase.rate * phase.records * pull / 3.0).min(1.0 / (pull * phase.records));
                error * left * left + drift + phase.noise_std * phase.noise_std
            })
        })
    }

    /// Share of the squared signal that is not learnt yet along a direction of second moment m, and variance of the noise there.
    fn learnt(&self, m: f64, time: f64, flat_noise: f64) -> (f64, f64) {
        let done = (self.curvature * m * time).max(f64::MIN_POSITIVE);
        let damped = -(-2.0 * done).exp_m1() / (2.0 * done);
        // the mean of the last half of the iterates has had three quarters of the time, and where the iterate
        // fluctuates (done > 1) it averages done/2 independent values
        ((-1.5 * done).exp(), flat_noise * flat_noise * damped / (0.5 * done).max(1.0))
    }

    /// What to multiply the answer of [`learning_time`](Self::learning_time) with so that the excess is least, at most 1; and that excess.
    pub fn scaled_learning_time(&self, time: f64, flat_noise: f64) -> (f64, f64) {
        // along each direction c·(1 − bias) of the signal and c² of the noise
        self.least_scaled(|scale| {
            self.excess(|m, signal| {
                let (bias, variance) = self.learnt(m, time, flat_noise);
                signal * (1.0 - scale * (1.0 - bias.sqrt())).powi(2) + scale * scale * variance
            })
        })
    }

    /// Where in 0 to 1 a parabola is least, and how much it is there.
    fn least_scaled(&self, at: impl Fn(f64) -> f64) -> (f64, f64) {
        let (none, half, whole) = (at(0.0), at(0.5), at(1.0));
        let curvature = 2.0 * (none - 2.0 * half + whole);
        let scale =
            if curvature > 0.0 { ((3.0 * none - 4.0 * half + whole) / (2.0 * curvature)).clamp(0.0, 1.0) } else { 1.0 };
        (scale, at(scale))
    }

    /// T steps θ ← θ − (gradient + λθ + noise)/(n·bound·m + λ + damping), then the mean of the last half.
    pub fn preconditioned(&self, steps: f64, bound: f64, lambda: f64, damping: f64, noise: f64) -> f64 {
        self.excess(|m, signal| {
            let step = 1.0 / (self.rows * bound * m + lambda + damping);
            let total = self.rows * self.curvature * m + lambda;
            let rate = (step * total).clamp(1e-12, 1.0);
            let bias = lambda / total + (1.0 - rate).powf(0.75 * steps);
            let variance = (step * noise).powi(2) * fading_sum(rate, steps);
            let averaging = ((2.0 - rate) / (rate * 0.5 * steps)).clamp(1.0 / steps, 1.0);
            signal * bias * bias + variance * averaging
        })
    }

    /// Weight of a feature whose entry is R/√m that gives its rows half a score of useful size: a row has several features.
    pub fn useful_weight(&self, nonzeros: f64) -> f64 {
        0.5 * (self.signal * nonzeros).sqrt()
    }

    /// Frank–Wolfe within ‖w‖₁ ≤ λ in T steps, on rows of m entries. It finds at most T directions, those whose slope at 0 is
    /// `visible`; a choice gives its feature a weight of 2λ/(T+1), and features are chosen again until that is useful. (The curvature
    /// bound 2Γ/(T+2), Γ ∝ λ², says far more for large λ than is seen, and would choose balls too small to hold any answer.)
    ///
    /// This is what radius and steps are chosen by: it leaves out what every choice of them has in common.
    pub fn frank_wolfe_unfound(&self, radius: f64, steps: f64, visible: f64, nonzeros: f64) -> f64 {
        let (found, one) = (self.found(steps, visible), self.one_step(radius, steps, nonzeros));
        let value: f64 = self.moments.iter().take(found).map(|m| self.worth(*m)).sum();
        let reached = if one < 1.0 { (one * steps / (found as f64).max(1.0)).min(1.0) } else { one.min(2.0) };
        self.moments.iter().map(|m| self.worth(*m)).sum::<f64>() - (2.0 * reached - reached * reached) * value
    }

    /// Frank–Wolfe's excess risk. Of the directions that it finds, choices no longer see a slope below `visible`: an error of
    /// that over the curvature. Until a feature is chosen again its weight shrinks by 2/(T+1) per step, on average by half of 2·found/T;
    /// and weights are multiples of a step, as far off as a uniform number.
    pub fn frank_wolfe(&self, radius: f64, steps: f64, visible: f64, nonzeros: f64) -> f64 {
        let (found, one) = (self.found(steps, visible), self.one_step(radius, steps, nonzeros));
        let coarse = (found as f64 / steps).powi(2) + one * one / 12.0;
        let left = |m: f64| (visible / (self.curvature * m * self.signal.sqrt())).powi(2) + coarse;
        let reached = (one * steps / (found as f64).max(1.0)).min(1.0);
        // an error of the size of the weight itself costs about half of what it is worth
        let gained = |m: &f64| self.worth(*m) * (2.0 * reached - reached * reached) / (1.0 + left(*m));
        self.moments.iter().map(|m| self.worth(*m)).sum::<f64>()
            - self.moments.iter().take(found).map(gained).sum::<f64>()
    }

    /// What there is to gain in a direction.
    fn worth(&self, moment: f64) -> f64 {
        0.5 * self.curvature * moment * self.signal
    }

    /// How many directions T choices find: those with a slope of `visible` or more at 0.
    fn found(&self, steps: f64, visible: f64) -> usize {
        let seen = |m: &&f64| self.curvature * **m * self.signal.sqrt() >= visible;
        self.moments.iter().take(steps as usize).take_while(seen).count()
    }

    /// The weight that a choice gives its feature, over a useful one.
    fn one_step(&self, radius: f64, steps: f64, nonzeros: f64) -> f64 {
        2.0 * radius / (steps + 1.0) / self.useful_weight(nonzeros)
    }

    /// What the first `kept` directions are worth together whose slope of the mean loss at 0 is below `visible`: a selection
    /// of features that sees no smaller slope leaves them out.
    pub fn missed(&self, kept: usize, visible: f64) -> f64 {
        let all = self.moments.iter().flat_map(|m| std::iter::repeat_n(m, self.outputs));
        let slopes = all.take(kept).map(|m| self.curvature * m);
        slopes.filter(|a| a * self.signal.sqrt() < visible).map(|a| 0.5 * a * self.signal).sum()
    }

    /// T steps of Newton's method with eigenvalues raised to λ0, from noisy gradients, with noise on each step.
    pub fn newton(&self, lambda: f64, gradient_noise: f64, step_noise: f64, steps: f64) -> f64 {
        self.excess(|m, signal| {
            // the majorising curvature is about 3/2 of the typical one
            let matrix = (1.5 * self.rows * self.curvature * m).max(lambda);
            let rate = (self.rows * self.curvature * m / matrix).clamp(1e-12, 1.0);
            let variance = (gradient_noise / matrix).powi(2) + step_noise * step_noise;
            signal * (1.0 - rate).powf(2.0 * steps) + variance * fading_sum(rate, steps)
        })
    }
}

/// Σ_{t<T} (1 − rate)^{2t}: how often a step's variance is still there at the end.
fn fading_sum(rate: f64, steps: f64) -> f64 {
    let keep = (1.0 - rate).powi(2);
    if keep >= 1.0 - 1e-12 { steps } else { (1.0 - keep.powf(steps)) / (1.0 - keep) }
}
