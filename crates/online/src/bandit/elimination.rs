//! Successive elimination: every arm that is left is played in a row, and leaves when its noisy mean is too low.

use super::BanditProblem;
use serde::{Deserialize, Serialize};

/// 2^-e: after phase e only arms are left whose means are within it of the best.
fn gap(phase: usize) -> f64 {
    0.5f64.powi(phase as i32)
}

impl BanditProblem {
    /// ln(4/β_e), β_e = 1/(T·K·e(e + 1)): each of two ways in which a mean is off has probability β_e/2.
    fn log_term(&self, phase: usize) -> f64 {
        let (e, k, t) = (phase as f64, self.arms as f64, self.rounds as f64);
        (4.0 * t * k * e * (e + 1.0)).ln()
    }

    /// R_e: the least for which √(ln(4/β_e)/(2R)) + scale·ln(4/β_e)/R + 2^-25 ≤ 2^-e/4, rounded up.
    fn batch(&self, phase: usize, scale: f64) -> u64 {
        let (log, wanted) = (self.log_term(phase), gap(phase) / 4.0 - 2f64.powi(-25));
        if wanted <= 0.0 {
            return u64::MAX;
        }
        // of x = 1/√R: scale·log·x² + √(log/2)·x = wanted
        let (a, b) = (scale * log, (log / 2.0).sqrt());
        let x = 2.0 * wanted / (b + (b * b + 4.0 * a * wanted).sqrt());
        let rounds = (1.0 / (x * x)) * (1.0 + 1e-9);
        if rounds < 2f64.powi(60) { rounds.ceil() as u64 + 1 } else { u64::MAX }
    }

    /// The phases that T rounds may reach, of however few arms.
    pub(super) fn phases(&self, scale: f64) -> Vec<u64> {
        let (mut phases, mut used) = (Vec::new(), 0u64);
        for phase in 1..64 {
            let batch = self.batch(phase, scale);
            // two arms are left at least, or nothing is asked
            used = used.saturating_add(batch.saturating_mul(2));
            phases.push(batch);
            if used >= self.rounds {
                break;
            }
        }
        phases
    }

    /// Σ over phases of K·R_e·2^(1−e), cut at T, and 1 for the sums that are farther off than they should be.
    pub(super) fn elimination_bound(&self, phases: &[u64]) -> f64 {
        let (mut left, mut lost) = (self.rounds, 1.0 + self.rounding());
        for (before, batch) in phases.iter().enumerate() {
            let played = batch.saturating_mul(self.arms as u64).min(left);
            // in the first phase any gap is possible; fewer arms are in a later phase at the same round
            lost += played as f64 * gap(before);
            left -= played;
        }
        lost + left as f64 * gap(phases.len())
    }
}

/// The state of the elimination of arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Left {
    /// Arms that may be the best.
    pub(super) arms: Vec<usize>,
    /// Noisy means of the phase that is under way, of the first of these.
    means: Vec<f64>,
    /// Phases that are over.
    phase: usize,
}

impl Left {
    pub(super) fn all(arms: usize) -> Self {
        Self { arms: (0..arms).collect(), means: Vec::new(), phase: 0 }
    }

    /// Whether it can be one of a game with so many arms.
    pub(super) fn is_sound(&self, arms: usize) -> bool {
        !self.arms.is_empty()
            && self.arms.iter().all(|arm| *arm < arms)
            && self.means.len() < self.arms.len()
            && self.phase < 64
    }

    pub(super) fn arm(&self) -> Option<usize> {
        self.arms.get(self.means.len()).copied()
    }

    /// Rounds of the sum that is under way; `None` where one arm is left, which is played whatever it gives.
    pub(super) fn batch(&self, phases: &[u64]) -> Option<u64> {
        (self.arms.len() > 1).then(|| phases.get(self.phase).copied().unwrap_or(u64::MAX))
    }

    /// Takes the noisy mean of the arm that was played. After the last of them, arms leave whose mean is half a gap below the largest.
    pub(super) fn learn(&mut self, mean: f64) {
        self.means.push(mean);
        if self.means.len() < self.arms.len() {
            return;
        }
        self.phase += 1;
        let largest = self.means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let near = largest - gap(self.phase) / 2.0;
        let means = std::mem::take(&mut self.means);
        let mut means = means.iter();
        self.arms.retain(|_| means.next().is_some_and(|mean| *mean >= near));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plan_of, problem};
    use super::*;
    use crate::{ArmPlan, ArmPlayer};

    /// R_e is the least number whose two tails fit, to a few rounds.
    #[test]
    fn phases_are_as_long_as_their_tails_ask() {
        let problem = problem(10, 1_000_000);
        for (scale, phase) in [(1.0, 1), (1.0, 4), (100.0, 3)] {
            let (batch, log) = (problem.batch(phase, scale) as f64, problem.log_term(phase));
            let off = |r: f64| (log / (2.0 * r)).sqrt() + scale * log / r + 2f64.powi(-25);
            assert!(off(batch) <= gap(phase) / 4.0 && off(batch - 3.0) > gap(phase) / 4.0, "{batch}");
        }
        let plan = plan_of(&problem, 1.0, ArmPlayer::Elimination);
        let ArmPlan::Elimination { phases } = plan.player else { unreachable!("asked for") };
        assert!(phases.windows(2).all(|pair| pair[1] > 2 * pair[0]), "{phases:?}");
    }
}
