//! Plan of the online-to-nonconvex conversion along all records: points near which gradients have a small mean (Goldstein), for losses with kinks that are not convex
//! (Liu 2024, Algorithms 23 and 25).
//!
//! Privacy rests on two clips and two fixed counts: ⌈T/Σ⌉ sums of estimates clipped to C, and the other steps' sums of their changes, clipped to min(2C, L'·‖z − z_before‖)
//! with noise in proportion (docs/proofs/o2nc.md). L, α, Φ and c_d steer steps and predictions only.
//!
//! Covers: thesis proposition 8.2.6 (part: the algorithm, with corrected constants; the bound is not certified)
//! Covers: thesis algorithm 25 (certified: clips and fixed counts in the place of bounds with high probability)
//! Covers: thesis theorem 8.4.1 (part: privacy, by the accountant; the rate is not claimed)

use super::kind::Method;
use super::o2nc_facts::{Certified, Common, Facts};
use super::o2nc_schedule::ConversionSchedule;
use super::plan::{Asked, MinimizePlan};
use super::problem::MinimizeProblem;
use super::schedule::Batches;
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::planning::SamplerError;
use dpopt_privacy::{Budget, Event, calibrate};

/// Steps that are taken without being asked for: each reads all records, several times.
const USUAL_STEPS: f64 = 1024.0;

/// How often what is released.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    steps: u64,
    period: u64,
    /// Share of μ² of gradients.
    share: f64,
    /// Norm of the noise of an estimate at the end of a period.
    noise: f64,
}

impl Facts {
    /// √(d(σ₁² + Σσ₂²)), and the share of gradients that makes it least: C√N₁ : r√(ΣN₂).
    fn noise(&self, steps: u64, period: u64, change: f64) -> (f64, f64) {
        let (fresh, changes) = ConversionSchedule::counts(steps, period);
        let of_fresh = self.clip * (fresh as f64).sqrt();
        let of_changes = change * (period as f64 * changes as f64).sqrt();
        (self.noise * (of_fresh + of_changes), of_fresh / (of_fresh + of_changes))
    }

    /// Σ about C/r, or 1 where that has less noise.
    fn counts(&self, aim: f64, steps: Option<u64>, period: Option<u64>) -> Counts {
        let steps = steps.unwrap_or_else(|| self.wanted_steps(aim));
        let change = self.largest_change(aim);
        let of = |period: u64| {
            let (noise, share) = self.noise(steps, period, change);
            Counts { steps, period, share, noise }
        };
        match period {
            Some(period) => of(period.clamp(1, steps)),
            None => {
                let (with, without) = (of(((self.clip / change).round().max(1.0) as u64).min(steps)), of(1));
                if with.noise < without.noise { with } else { without }
            }
        }
    }

    /// The least aim that is not below its noise and has at most so many steps; L/2 is for blocks of one step.
    fn best(&self, most_steps: f64, period: Option<u64>) -> f64 {
        let (mut low, mut high) = (self.lipschitz * 1e-6, 0.5 * self.lipschitz);
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            *(if self.counts(middle, None, period).noise <= middle { &mut high } else { &mut low }) = middle;
        }
        high.max(self.aim_of_steps(most_steps)).min(0.5 * self.lipschitz)
    }
}

impl Counts {
    fn of_each(&self) -> (u64, u64) {
        ConversionSchedule::counts(self.steps, self.period)
    }

    /// Multipliers of a gradient and of a change over that of one release of everything; 0 where there is none.
    fn ratios(&self) -> (f64, f64) {
        let (fresh, changes) = self.of_each();
        let of_changes = if changes > 0 { (changes as f64 / (1.0 - self.share)).sqrt() } else { 0.0 };
        ((fresh as f64 / self.share).sqrt(), of_changes)
    }

    fn event(&self, z: f64) -> Event {
        let ((fresh, changes), (of_fresh, of_changes)) = (self.of_each(), self.ratios());
        let parts = [(of_fresh, fresh), (of_changes, changes)].into_iter().filter(|(_, count)| *count > 0);
        Event::composed(parts.map(|(ratio, count)| Event::gaussian(z * ratio).self_composed(count)).collect())
    }
}

/// Plans and certifies the conversion along all records.
pub(super) fn plan(problem: &MinimizeProblem, budget: Budget, asked: &Asked) -> Result<MinimizePlan, NotApplicable> {
    let common = Common::new(problem, budget, asked)?;
    let (f, period) = (&common.facts, asked.conversion.period);
    let wanted = f.wanted_steps(f.best(f64::INFINITY, period)) as f64;
    let aim = f.best(asked.steps.map_or(USUAL_STEPS, |steps| steps as f64), period);
    let n = f.counts(aim, asked.steps, period);
    let (_, changes) = n.of_each();
    let drawn = SamplerError::rounded(n.steps as f64 * problem.dimension as f64);
    let (z, certificate) = calibrate::noise(|z| drawn.on(n.event(z)), problem.neighbours.within(budget))?;
    let (of_fresh, of_changes) = n.ratios();
    let (records, d) = (problem.records as f64, problem.dimension as f64);
    let noise_std = z * of_fresh * f.clip;
    let of_change = z * of_changes * f.largest_change(aim);
    let noise_norm = (d * (noise_std.powi(2) + n.period as f64 * of_change.powi(2))).sqrt() / records;
    let around = common.around(aim, changes > 0)?;
    let conversion =
        common.conversion(around, (aim, n.steps, n.period), (noise_norm, noise_norm), (z * of_fresh, z * of_changes));
    let certified = Certified {
        method: Method::Conversion,
        conversion,
        batches: Batches::All,
        steps: n.steps,
        noise_multiplier: z,
        noise_std,
        clip: f.clip,
        evaluations: (n.steps + changes) as f64 * common.asked_of_a_record(around) * records,
        certificate,
    };
    let warnings = warnings(f, &n, noise_norm, wanted, asked);
    Ok(common.planned(certified, conversion.assumptions(f.clip, n.steps), warnings))
}

fn warnings(f: &Facts, n: &Counts, noise_norm: f64, wanted: f64, asked: &Asked) -> Vec<String> {
    let taken = n.steps as f64;
    let mut all = Vec::new();
    if noise_norm >= f.lipschitz {
        all.push(format!(
            "the error bound is vacuous: the noise of an estimated gradient has norm {noise_norm:.3}, at least the \
             clip norm {:.3}, so that steps follow the noise; use more records, a larger epsilon, fewer steps or \
             fewer dimensions, or choose noisy-gradient-descent, which needs fewer records",
            f.lipschitz
        ));
    } else if taken > 2.0 * wanted {
        all.push(format!(
            "steps is {taken}, more than the {wanted} that are best at this noise, since every further step adds \
             noise to all; give fewer"
        ));
    } else if asked.steps.is_none() && wanted > taken {
        all.push(format!(
            "steps are limited to {taken}, since each reads all records several times; {wanted} would be best for \
             these records and this budget: give steps, if run time allows"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::o2nc_facts::smoothing_constant;
    use super::*;
    use dpopt_privacy::special::gaussian_mu;

    /// The facts of an example of Liu 2024, Theorem 8.4.1, with corrected lengths: n = 1e5, d = 10, ε = 1, δ = 1e-6, α = β = .1, Φ = L = 1, replace-one, no slack.
    fn published() -> Facts {
        Facts {
            lipschitz: 1.0,
            clip: 1.0,
            gap: 1.0,
            radius: 0.1,
            difference_clip: smoothing_constant(10) / 0.1,
            noise: 2.0 * 10f64.sqrt() / (1e5 * gaussian_mu(1.0, 1e-6)),
        }
    }

    #[test]
    fn noise_is_the_published_one() {
        let f = published();
        let n = f.counts(0.1, None, Some(32));
        let (steps, mu) = (n.steps as f64, gaussian_mu(1.0, 1e-6));
        assert_eq!(n.steps, 10_000);
        // half and half, with as many changes as steps
        let half = (0.5 * mu * mu).sqrt();
        let first = 2.0 * (steps / 32.0).ceil().sqrt() / (1e5 * half);
        let second = 2.0 * f.largest_change(0.1) * steps.sqrt() / (1e5 * half);
        assert!((first - 2.114e-3).abs() < 1e-6, "{first}");
        assert!((second - 6.182e-4).abs() < 1e-7, "{second}");
        let all = (10.0 * (first * first + 32.0 * second * second)).sqrt();
        assert!((all - 0.01292).abs() < 5e-6, "{all}");
        // the best split has no more, and is what a plan takes
        assert!(n.noise < all && n.noise > 0.9 * all, "{}", n.noise);
    }

    #[test]
    fn the_period_and_the_split_are_the_best_ones() {
        let f = published();
        let n = f.counts(0.1, None, None);
        let change = f.largest_change(0.1);
        let least = (1..200).map(|p| f.noise(n.steps, p, change).0).fold(f64::INFINITY, f64::min);
        assert!(n.noise <= 1.002 * least, "{} {least}", n.noise);
        let (fresh, changes) = n.of_each();
        let of = |share: f64| {
            let of_changes = n.period as f64 * change.powi(2) * changes as f64 / (1.0 - share);
            f.noise * (f.clip.powi(2) * fresh as f64 / share + of_changes).sqrt()
        };
        let best = (1..1000).map(|k| of(f64::from(k) / 1000.0)).fold(f64::INFINITY, f64::min);
        assert!((of(n.share) / n.noise - 1.0).abs() < 1e-9 && n.noise <= best * (1.0 + 1e-12));
        // where a change may be as large as a gradient there are none
        let rough = Facts { difference_clip: 1e3, ..f };
        assert_eq!(rough.counts(0.1, None, None).period, 1);
    }

    #[test]
    fn the_aim_is_the_least_above_its_noise() {
        let mut last = f64::INFINITY;
        for records in [1e4, 1e5, 1e6, 1e7] {
            let f = Facts { noise: published().noise * 1e5 / records, ..published() };
            let aim = f.best(f64::INFINITY, None);
            assert!(aim < last && f.counts(aim, None, None).noise <= aim * (1.0 + 1e-9), "{records} {aim}");
            assert!(f.counts(0.98 * aim, None, None).noise > 0.98 * aim, "{records} {aim}");
            // with fewer steps the loss falls as far at larger slopes only
            let of_steps = (1.0f64 / (0.1 * 100.0)).cbrt();
            assert!((f.best(100.0, None) - of_steps.max(aim)).abs() < 1e-12);
            last = aim;
        }
    }
}
