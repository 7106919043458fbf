//! Runs in several phases: on disjoint blocks of the records for the loss of records yet unseen (Liu 2024, Algorithm 5), or in rounds
//! on all of them (Liu 2024, Lemma 1.4.7).
//!
//! Covers: thesis algorithm 5 (certified: blocks of public sizes)
//! Covers: thesis theorem 1.1.2, theorem 1.5.6, theorem 12.3.8 (part: the method is certified; the rate is measured, not claimed)
//! Covers: thesis theorem 1.5.1, proposition 12.3.7 (part: the method is certified; the rate is not claimed)
//! Covers: thesis algorithm 37 (certified: phases shrink by eight)
//! Covers: thesis corollary 12.3.6, proposition 12.6.6 (part: phases on blocks are certified; the rate is not claimed)
//! Covers: thesis corollary 12.5.1 (part: stages whose starts are bounded in expectation; the rate is not claimed)

use super::kind::Method;
use super::plan::{Draft, Planner};
use super::proximal::{Noisy, Proximal};
use super::schedule::{Layout, Phase, Rule};

/// Candidates of η per factor of two, twelve factors either way.
const PER_OCTAVE: i32 = 4;
const OCTAVES: i32 = 12;

impl Planner<'_> {
    /// Excess of a solver at distance `away` on records of noise V, μ and L of what it minimizes, and what it does: AC-SA, steps that are exact in the quadratic
    /// on all records of a block, or steps 2/(μ(t + 1)).
    ///
    /// AC-SA has 2LD²/(T(T + 1)) + 8V/(μ(T + 1)), and Gr more where points are moved. With steps 2/(μ(t + 1)) along g + μ(x − x₀), where
    /// x − x₀ is a convex combination of −g/μ, all have E‖·‖² ≤ 4(C² + V), and the mean of weights t has 2·4(C² + V)/(μ(T + 1)).
    fn solved(&self, draft: &Draft, away: f64, added: f64, (n, z): (f64, f64)) -> (f64, Rule, f64) {
        let t = draft.steps as f64;
        let (own, c, size) = (self.problem.strong_convexity, self.clip_norm, self.size);
        let strong_convexity = own + added;
        if self.method == Method::GradientDescent {
            let noisy = Noisy { squared: size * size + self.variance(z * c, 1.0, n), added, own };
            let rule = Rule::Proximal { strong_convexity: own, added_curvature: added };
            return (Proximal::bound(&noisy, draft.steps, away), rule, 0.0);
        }
        if self.method != Method::Accelerated {
            let variance = self.variance(z * c, draft.share, n);
            let bound = 8.0 * (size * size + variance) / (strong_convexity * (t + 1.0));
            return (bound, Rule::Shrinking { strong_convexity, added_curvature: added }, 0.0);
        }
        let (smoothness, radius) = self.smoothed(draft.steps, away);
        // a point of its own for each record is one more choice
        let moved = if radius > 0.0 { size * size / (draft.share * n) } else { 0.0 };
        let variance = self.variance(z * c, draft.share, n) + moved;
        let smoothness = smoothness + added;
        let bound = 2.0 * smoothness * away * away / (t * (t + 1.0))
            + 8.0 * variance / (strong_convexity * (t + 1.0))
            + c * radius;
        (bound, Rule::Accelerated { smoothness, strong_convexity, added_curvature: added }, radius)
    }

    /// L and r of a phase that starts `away` from its answer: r = s·Dd^¼/T makes L = C√d/r.
    pub(super) fn smoothed(&self, steps: u64, away: f64) -> (f64, f64) {
        let factor = self.asked.smoothing.unwrap_or(0.0);
        let known = self.problem.smoothness.unwrap_or(f64::INFINITY);
        if factor == 0.0 {
            return (known, 0.0);
        }
        let d = self.problem.dimension as f64;
        let radius = factor * away * d.powf(0.25) / steps as f64;
        ((self.clip_norm * d.sqrt() / radius).min(known), radius)
    }

    /// Phase i minimizes the mean loss of its block and ‖x − x_{i−1}‖²/(η_i n_i), η_i = η/4^i: its minimiser is within Cη_i n_i of x_{i−1}, and what it says of
    /// its records it says of others up to C²η_i (the stability of such minimisers). With x* in the place of the answer before the first phase, and e_i a
    /// phase's excess, the loss of the last answer on records yet unseen exceeds the least one by at most
    /// Σ‖x_{i−1} − x̂_{i−1}‖²/(η_i n_i) + ΣC²η_i + C‖x_k − x̂_k‖ with E‖x_i − x̂_i‖² ≤ η_i n_i e_i. The η that makes this least.
    ///
    /// Of a μ-strongly convex loss the whole is done in stages, each on its own part of the blocks: an answer of excess e is within √(2e/μ) of x* on average,
    /// which is D of the next stage (Liu 2024, Corollary 12.5.1; in expectation, so that no ball has to be drawn around an answer).
    pub(super) fn localised(&self, draft: &Draft, stages: &[Vec<u64>]) -> (Vec<Phase>, f64) {
        let (mut distance, mut risk, mut phases) = (self.distance, f64::INFINITY, Vec::new());
        for sizes in stages {
            let (own, bound) = self.stage(draft, sizes, distance);
            phases.extend(own);
            risk = bound;
            distance = distance.min((2.0 * bound / self.problem.strong_convexity).sqrt());
        }
        (phases, risk)
    }

    /// Phases from where x* is `distance` away.
    fn stage(&self, draft: &Draft, sizes: &[u64], distance: f64) -> (Vec<Phase>, f64) {
        let c = self.size;
        let with = |eta: f64| {
            let (mut risk, mut off) = (0.0, distance * distance);
            let mut phases = Vec::with_capacity(sizes.len());
            for (i, &records) in sizes.iter().enumerate() {
                let n = records as f64;
                let eta = eta / 4f64.powi(i as i32 + 1);
                let width = eta * n;
                risk += off / width + c * c * eta;
                let (excess, rule, smoothing) = self.solved(draft, c * width, 2.0 / width, (n, draft.noise_multiplier));
                off = width * excess;
                phases.push(Phase {
                    records,
                    distance: c * width,
                    rule,
                    smoothing,
                    noise_multiplier: draft.noise_multiplier,
                });
            }
            (phases, risk + c * off.sqrt())
        };
        let middle = distance / (c * (sizes.iter().sum::<u64>() as f64).sqrt());
        let mut best = with(middle);
        for k in -OCTAVES * PER_OCTAVE..=OCTAVES * PER_OCTAVE {
            let other = with(middle * (f64::from(k) / f64::from(PER_OCTAVE)).exp2());
            if other.1 < best.1 {
                best = other;
            }
        }
        best
    }

    /// Rounds on the same records from where the one before ended, with half the noise and the distance that its bound leaves: √(2·4e_i/μ), 4 for safety.
    pub(super) fn rounds(&self, draft: &Draft, rounds: u32) -> (Vec<Phase>, f64) {
        let (n, own) = (self.n(), self.problem.strong_convexity);
        let (smoothness, _) = self.smoothed(draft.steps, self.distance);
        let (_, added, _, _) = self.accelerated(draft.steps, draft.variance, smoothness, self.distance);
        // a function of slopes at most C and curvature at least μ has its minimum within 2C/μ
        let mut away = if added == 0.0 { self.distance.min(2.0 * self.size / own) } else { self.distance };
        let mut excess = f64::INFINITY;
        let mut phases = Vec::with_capacity(rounds as usize);
        for i in 0..rounds {
            let z = draft.noise_multiplier * Layout::noise_ratio(rounds, i);
            let (bound, rule, smoothing) = self.solved(draft, away, added, (n, z));
            let records = self.problem.records;
            phases.push(Phase { records, distance: away, rule, smoothing, noise_multiplier: z });
            excess = bound;
            away = away.min((8.0 * excess / (own + added)).sqrt());
        }
        (phases, excess + 0.5 * added * self.distance * self.distance)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rounds_forget_where_they_began() {
        // Liu 2024, Lemma 1.4.6: x → √x + 1 from 2^64 is below 16 after log2 log2 of it
        let mut x = 64f64.exp2();
        let mut path = vec![x];
        for _ in 0..64f64.log2().ceil() as u32 {
            x = x.sqrt() + 1.0;
            path.push(x);
        }
        assert_eq!(path.len(), 7);
        for (x, published) in path[1..].iter().zip([4.29e9, 65537.0, 257.0, 17.03, 5.13]) {
            assert!((x / published - 1.0).abs() < 2e-3, "{path:?}");
        }
        assert!(path[6] <= 16.0, "{path:?}");
    }
}
