//! Spider's plan: drift-restarted recursive gradients along all records, for points of small gradient where the loss is not convex (Liu 2024, Algorithm 17).
//!
//! Privacy rests on two clips and two caps: at most K₁ sums of gradients clipped to C, and at most T sums of changes clipped to L·‖x − x_before‖, with noise in proportion.
//! For every history each release is a Gaussian of known multiplier, so that the whole costs what K₁ and T of them cost, in whatever order (docs/proofs/spider.md).
//!
//! Covers: thesis algorithm 17 (certified: both counts are capped, both sums clipped)
//! Covers: thesis theorem 6.3.9 (part: privacy, by the accountant; the rate is measured, not claimed)

use super::kind::Method;
use super::plan::{Draft, Planner};
use super::schedule::Batches;
use super::spider_schedule::{Escape, SecondStage, SpiderSchedule};
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::planning::{SamplerError, in_range, positive};
use dpopt_privacy::special::gaussian_mu;
use dpopt_privacy::{Event, calibrate};
use dpopt_refusal::{option, text};

/// Changes of the second stage.
const LAST_CHANGES: u64 = 32;
/// What its gradient has of its share.
const LAST_FRESH: f64 = 0.95;
/// Share of μ² of the second stage.
const USUAL_SECOND_STAGE: f64 = 0.25;
/// Changes that are released without being asked for: each reads all records twice.
const USUAL_CHANGES: f64 = 4096.0;
/// Most fresh gradients of a run.
const MAX_FRESH: u64 = 1 << 20;

/// How often each kind is released, and its share of μ².
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    count: u64,
    share: f64,
}

impl Part {
    /// Noise multiplier over that of one release of everything: count/z² is then the share of μ².
    fn ratio(self) -> f64 {
        (self.count as f64 / self.share).sqrt()
    }

    fn event(self, of_all: f64) -> Event {
        Event::gaussian(of_all * self.ratio()).self_composed(self.count)
    }
}

/// Shares of fresh gradients and changes that minimise C²K₁/μ₁² + κL²T/μ₂²: in proportion to C√K₁ and L√(κT).
fn split(fresh: (f64, u64), change: (f64, u64), drift: f64) -> (f64, f64) {
    let of_fresh = fresh.0 * (fresh.1 as f64).sqrt();
    let of_changes = change.0 * (drift * change.1 as f64).sqrt();
    let all = of_fresh + of_changes;
    (of_fresh / all, of_changes / all)
}

/// All numbers of a run but its noise.
struct Walk {
    aim: f64,
    drift: f64,
    difference_clip: f64,
    fresh: Part,
    changes: Part,
    last: Option<[Part; 2]>,
    /// Number of steps that the aim would need.
    wanted: f64,
}

impl Walk {
    fn parts(&self) -> impl Iterator<Item = Part> {
        [self.fresh, self.changes].into_iter().chain(self.last.into_iter().flatten())
    }

    fn event(&self, of_all: f64) -> Event {
        Event::composed(self.parts().map(|part| part.event(of_all)).collect())
    }
}

impl Planner<'_> {
    /// M and Δ, which must be told.
    pub(super) fn spider_facts(&self) -> Result<(f64, f64), NotApplicable> {
        let Some(m) = self.problem.smoothness else {
            return Err(NotApplicable::Problem(
                "it needs a bound on the curvature of the loss, which is not given; give smoothness, or choose \
                 noisy-gradient-descent"
                    .into(),
            ));
        };
        let Some(gap) = self.asked.spider.initial_gap else {
            return Err(NotApplicable::Problem(
                text![
                    "it needs to know how far the mean loss can fall from the start; give a public guess as ",
                    option("initial_gap"),
                    ", or choose noisy-gradient-descent"
                ]
                .into(),
            ));
        };
        Ok((m, positive(option("initial_gap"), gap)?))
    }

    /// From M, C and Δ: α = (4c²MΔ/C)^⅓, K₁ = MΔ/(Cα), T = MΔ/α², κ = 2αC/M², c the norm of the noise of one release of everything.
    ///
    /// An estimate that is fresh K₁ times on a way of length Δ/α has an error of about c(√K₁ + MΔ/(αC√K₁)), which is least, 2c√(MΔ/(αC)), at that K₁; it is α at that α. A step of
    /// 1/M lowers the loss by α²/(2M) or more, so that T of them are about as many as there can be, and K₁κ is 2Δ/M, which all squared steps come to.
    fn spider(&self) -> Result<Walk, NotApplicable> {
        let (problem, asked) = (self.problem, self.asked.spider);
        let (m, gap) = self.spider_facts()?;
        let clip = self.clip_norm;
        let mu = gaussian_mu(self.budget.epsilon(), self.budget.delta());
        let noise = problem.relation().sum_sensitivity() * clip * (problem.dimension as f64).sqrt() / (self.n() * mu);
        let best = (4.0 * noise * noise * m * gap / clip).cbrt();
        let wanted = (m * gap / (best * best)).ceil().max(1.0);
        let changes = self.asked.steps.map_or(wanted.min(USUAL_CHANGES), |steps| steps as f64);
        // with fewer steps the loss falls as far at larger slopes only
        let aim = positive("the norm that is aimed at", best.max((m * gap / changes).sqrt()))?;
        let usual = (m * gap / (clip * aim)).ceil().clamp(1.0, MAX_FRESH as f64);
        let fresh = asked.fresh_gradients.unwrap_or(usual as u64);
        if fresh > MAX_FRESH {
            return Err(NotApplicable::Option(
                text![option("fresh_gradients"), format!(" is above {MAX_FRESH}; give fewer")].into(),
            ));
        }
        let usual =
            if asked.fresh_gradients.is_some() { 2.0 * gap / (m * fresh as f64) } else { 2.0 * aim * clip / (m * m) };
        let drift = positive("the drift", asked.drift.unwrap_or(usual))?;
        let difference_clip = positive(option("difference_clip"), asked.difference_clip.unwrap_or(m))?;
        let rest = in_range(option("second_stage"), asked.second_stage.unwrap_or(USUAL_SECOND_STAGE), 0.0, 0.999)?;
        let changes = changes as u64;
        let (of_fresh, of_changes) = split((clip, fresh), (difference_clip, changes), drift);
        let last = (rest > 0.0).then_some([
            Part { count: 1, share: rest * LAST_FRESH },
            Part { count: LAST_CHANGES, share: rest * (1.0 - LAST_FRESH) },
        ]);
        Ok(Walk {
            aim,
            drift,
            difference_clip,
            fresh: Part { count: fresh, share: (1.0 - rest) * of_fresh },
            changes: Part { count: changes, share: (1.0 - rest) * of_changes },
            last,
            wanted,
        })
    }

    pub(super) fn spider_draft(&self) -> Result<Draft, NotApplicable> {
        let walk = self.spider()?;
        let releases: u64 = walk.parts().map(|part| part.count).sum();
        let drawn = SamplerError::rounded(releases as f64 * self.problem.dimension as f64);
        let event = |z: f64| drawn.on(walk.event(z));
        let (z, certificate) = calibrate::noise(event, self.problem.neighbours.within(self.budget))?;
        let noise_std = z * walk.fresh.ratio() * self.clip_norm;
        Ok(Draft {
            batches: Batches::All,
            share: 1.0,
            steps: walk.changes.count,
            noise_multiplier: z,
            certificate,
            variance: self.variance(noise_std, 1.0, self.n()),
            noise_std,
            of_prefix: 0.0,
        })
    }

    /// What a run needs, with the noise of `draft`.
    pub(super) fn spider_schedule(&self, draft: &Draft) -> Result<SpiderSchedule, NotApplicable> {
        let walk = self.spider()?;
        let z = |part: Part| draft.noise_multiplier * part.ratio();
        let escape = self.asked.spider.hessian_lipschitz.map(|bound| {
            let of_mean = |multiplier: f64, clip: f64| multiplier * clip / self.n();
            let (fresh, change) =
                (of_mean(z(walk.fresh), self.clip_norm), of_mean(z(walk.changes), walk.difference_clip));
            let d = self.problem.dimension as f64;
            // γ = 2√d·√(σ₁² + κσ₂²), in the place of the logarithms of Liu 2024
            let error = 2.0 * (d * (fresh * fresh + walk.drift * change * change)).sqrt();
            let m = self.problem.smoothness.unwrap_or(1.0);
            let window = (2.0 * m / (bound * error).sqrt()).ceil().clamp(1.0, (1u64 << 40) as f64) as u64;
            Escape { threshold: error, noise_std: error / d.sqrt(), window }
        });
        Ok(SpiderSchedule {
            fresh_gradients: walk.fresh.count,
            drift: walk.drift,
            difference_clip: walk.difference_clip,
            aim: walk.aim,
            fresh_multiplier: z(walk.fresh),
            change_multiplier: z(walk.changes),
            escape,
            second_stage: walk.last.map(|[fresh, changes]| SecondStage {
                changes: changes.count,
                fresh_multiplier: z(fresh),
                change_multiplier: z(changes),
            }),
        })
    }

    /// Bound on the excess: at a point with a gradient of norm α a convex loss exceeds its least value by at most αD.
    pub(super) fn spider_bound(&self) -> f64 {
        self.spider().map_or(f64::INFINITY, |walk| walk.aim * self.distance)
    }

    /// A warning where steps are fewer, or many more, than would be best.
    pub(super) fn spider_warning(&self) -> Option<String> {
        if self.method != Method::Spider {
            return None;
        }
        let walk = self.spider().ok()?;
        let taken = walk.changes.count as f64;
        if taken > 2.0 * walk.wanted {
            return Some(format!(
                "steps is {taken}, more than the {:.0} in which the loss can fall, and every further step adds noise \
                 to all; give fewer",
                walk.wanted
            ));
        }
        (self.asked.steps.is_none() && walk.wanted > taken).then(|| {
            format!(
                "steps are limited to {taken}, since each reads all records twice; {:.0} would be best for these \
                 records and this budget: give steps, if run time allows",
                walk.wanted
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_published_one() {
        // half of μ² for each kind of sum: ε = 1, δ = 1e-6, n = 1e4, G = M = 1, replace-one, K₁ = 20, T = 400
        let mu = gaussian_mu(1.0, 1e-6);
        assert!((mu - 0.236_704).abs() < 5e-7);
        let sigma = |count: u64, share: f64| 2.0 / (1e4 * mu) * Part { count, share }.ratio();
        assert!((sigma(20, 0.5) - 0.005_343_84).abs() < 5e-9, "{}", sigma(20, 0.5));
        assert!((sigma(400, 0.5) - 0.023_898_4).abs() < 5e-8, "{}", sigma(400, 0.5));
        // 420 releases of one kind: .017316, 11.2 times below advanced composition's .1941
        assert!((sigma(420, 1.0) - 0.017_316).abs() < 5e-7);
        assert!((0.1941 / sigma(420, 1.0) - 11.2).abs() < 0.02);
    }

    #[test]
    fn the_split_is_the_best_one() {
        let (clip, lipschitz, fresh, changes, drift) = (1.5, 0.7, 20u64, 400u64, 0.03);
        let (share, rest) = split((clip, fresh), (lipschitz, changes), drift);
        assert!((share + rest - 1.0).abs() < 1e-15);
        let variance = |share: f64| {
            clip * clip * fresh as f64 / share + drift * lipschitz * lipschitz * changes as f64 / (1.0 - share)
        };
        let best = (1..1000).map(|k| variance(f64::from(k) / 1000.0)).fold(f64::INFINITY, f64::min);
        assert!(variance(share) <= best && variance(share) > 0.999 * best);
    }
}
