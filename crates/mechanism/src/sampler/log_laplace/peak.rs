//! ∫e^(ln f) of a function with one peak, by the trapezoidal rule: for smooth f its error falls exponentially with the step.

/// Nodes of the rule, a step apart, and ln(f·step) at each.
pub(super) struct Peak {
    pub(super) nodes: Vec<f64>,
    pub(super) ln_weights: Vec<f64>,
}

/// Nodes are kept until f has fallen by e^45.
const FALL: f64 = 45.0;

impl Peak {
    /// `start` is a guess of the mode and `scale` of the width. The step is `share` of the way to where f has fallen by e^(1/2),
    /// and at most `longest`.
    pub(super) fn of(ln_f: impl Fn(f64) -> f64, start: f64, scale: f64, share: f64, longest: f64) -> Self {
        let (mode, top) = climb(&ln_f, start, scale);
        let fallen = |sign: f64| {
            let mut reach = scale;
            while top - ln_f(mode + sign * reach) < 0.5 {
                reach *= 2.0;
            }
            while top - ln_f(mode + sign * reach) > 1.0 {
                reach *= 0.7;
            }
            reach
        };
        let step = (share * fallen(-1.0).min(fallen(1.0))).min(longest);
        let mut left = Vec::new();
        let mut right = vec![(mode, top)];
        for (side, sign) in [(&mut left, -1.0), (&mut right, 1.0)] {
            for k in 1.. {
                let at = mode + sign * step * f64::from(k);
                let ln = ln_f(at);
                side.push((at, ln));
                if !(ln > top - FALL) {
                    break;
                }
            }
        }
        let all = left.into_iter().rev().chain(right);
        let (nodes, ln_weights) = all.map(|(at, ln)| (at, ln + step.ln())).unzip();
        Self { nodes, ln_weights }
    }

    pub(super) fn ln_integral(&self) -> f64 {
        dpopt_privacy::special::log_sum_exp(self.ln_weights.iter().copied())
    }

    /// The rule's weights, of sum 1.
    pub(super) fn weights(&self) -> Vec<f64> {
        let total = self.ln_integral();
        self.ln_weights.iter().map(|ln| (ln - total).exp()).collect()
    }
}

/// A point near the mode, uphill from `at` by steps that double and halve.
fn climb(ln_f: &impl Fn(f64) -> f64, mut at: f64, scale: f64) -> (f64, f64) {
    let mut value = ln_f(at);
    let mut step = scale;
    while step.abs() > 1e-3 * scale {
        let mut moved = false;
        for next in [at + step, at - step] {
            let there = ln_f(next);
            if there > value {
                step = 2.0 * (next - at);
                (at, value, moved) = (next, there, true);
                break;
            }
        }
        if !moved {
            step *= 0.3;
        }
    }
    (at, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_of_a_gaussian_and_a_gamma_density() {
        let gauss = Peak::of(|x: f64| -0.5 * (x - 70.0).powi(2), 0.0, 1.0, 0.25, f64::INFINITY);
        assert!((gauss.ln_integral() - 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-13);
        // Γ(3) = ∫e^(3t − e^t) dt
        let gamma = Peak::of(|t: f64| 3.0 * t - t.exp(), 0.0, 1.0, 0.25, 0.25);
        assert!((gamma.ln_integral() - 2f64.ln()).abs() < 1e-13);
        assert!((gamma.weights().iter().sum::<f64>() - 1.0).abs() < 1e-13);
    }
}
