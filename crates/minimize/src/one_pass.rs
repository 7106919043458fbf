//! Spider along records that are read once: batches as large as the way since the last one, in running sums with the noise of a fresh tree at every restart
//! (Liu 2024, Algorithms 21 and 22).
//!
//! Privacy rests on the clip of what a record adds to its batch's mean and on one place for each record: all of it is one Gaussian release, whatever the sizes, the
//! restarts and the number of steps turn out to be (docs/proofs/restarted-sums.md).
//!
//! Covers: thesis algorithm 21 (certified: a fresh tree at every restart, and no restart where a step has noise of its own)
//! Covers: thesis theorem 7.3.11 (part: privacy, by the accountant; the rate is measured, not claimed)

use super::kind::Method;
use super::one_pass_schedule::OnePassSchedule;
use super::plan::{Draft, Planner};
use super::schedule::Batches;
use super::spider_schedule::Escape;
use dpopt_mechanism::RestartedPlan;
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::planning::{SamplerError, positive};
use dpopt_privacy::{Event, Relation, calibrate};
use dpopt_refusal::option;

/// Most leaves of a run: each draws a vector of noise.
const MAX_LEAVES: u64 = 1 << 20;
/// Depths of trees among which the prediction chooses.
pub(super) const DEPTHS: std::ops::RangeInclusive<u32> = 1..=20;

/// What a run of aim α needs, with noise z·h·√d per leaf clip.
#[derive(Clone, Copy)]
struct Facts {
    /// M, Δ and G: smoothness, by how much the loss can fall, and clip norm.
    smoothness: f64,
    gap: f64,
    clip: f64,
    /// L: batches are made for changes of L times the way.
    difference_clip: f64,
    /// T: most leaves of a sum.
    leaves: u64,
    /// z√d: norm of the noise of one node, over its leaf clip.
    noise: f64,
}

/// Sizes for one aim and one depth.
#[derive(Clone, Copy)]
struct Sizes {
    depth: u32,
    aim: f64,
    leaf_clip: f64,
    first_batch: f64,
    per_change: f64,
    path: f64,
}

impl Facts {
    /// A tree's noise has norm √h·σ√d = zh√d·(leaf clip) at most on average: as much as the aim.
    fn sizes(&self, depth: u32, aim: f64) -> Sizes {
        let per_clip = self.noise * f64::from(depth);
        let leaf_clip = aim / per_clip;
        // below the first a restart would cost more than what it saves; from the second on sampling of changes outweighs that of gradients
        let path = (per_clip * aim).max(self.clip);
        Sizes {
            depth,
            aim,
            leaf_clip,
            first_batch: (self.clip / leaf_clip).max((self.clip / aim).powi(2)).ceil(),
            per_change: (1.0 / leaf_clip).max(path / (aim * aim)),
            path,
        }
    }

    /// Predicted number of records: the loss falls by Δ on a way of ΔM/α in gradients, in steps of α at least.
    fn records(&self, sizes: Sizes) -> f64 {
        let way = self.smoothness * self.gap / sizes.aim;
        let steps = way / sizes.aim;
        let restarts = (way / sizes.path).max(steps / longest(sizes.depth) as f64);
        let of_changes = way * self.difference_clip / self.smoothness * sizes.per_change;
        sizes.first_batch * (1.0 + restarts) + of_changes + steps
    }

    /// The least aim that so many records and leaves are enough for, and its sizes.
    fn best(&self, records: f64) -> Sizes {
        // with fewer steps the loss falls as far at larger slopes only
        let floor = (self.smoothness * self.gap / self.leaves as f64).sqrt().clamp(self.clip * 1e-12, self.clip);
        let least = |depth: u32| {
            let (mut low, mut high) = (floor, self.clip);
            for _ in 0..100 {
                let middle = (low * high).sqrt();
                let enough = self.records(self.sizes(depth, middle)) <= records;
                *(if enough { &mut high } else { &mut low }) = middle;
            }
            self.sizes(depth, high)
        };
        let mut best = least(*DEPTHS.start());
        // a tree of more leaves than there are is noise for nothing
        let deepest = self.leaves.ilog2() + 1;
        DEPTHS.skip(1).take_while(|depth| *depth <= deepest).map(least).for_each(|other| {
            if other.aim < best.aim {
                best = other;
            }
        });
        best
    }
}

/// Leaves of the longest tree of a depth.
pub(super) fn longest(depth: u32) -> u64 {
    (1 << depth) - 1
}

impl Planner<'_> {
    /// Refuses what sums over a public order can't have.
    pub(super) fn check_one_pass(&self) -> Result<(), NotApplicable> {
        let refuse = |why: &'static str| Err(NotApplicable::Problem(why.into()));
        if self.problem.by_unit() {
            return refuse(
                "batches are formed by position, and units have no position; choose spider, which reads all records \
                 at once",
            );
        }
        if self.problem.relation() == Relation::AddOrRemove {
            return refuse(
                "batches are formed by position, and an added record would move all others; use zero-out or \
                 replace-one, or choose spider, which reads all records at once",
            );
        }
        Ok(())
    }

    fn one_pass_leaves(&self) -> u64 {
        self.asked.steps.unwrap_or(MAX_LEAVES).min(self.problem.records)
    }

    fn one_pass_facts(&self, noise_multiplier: f64) -> Result<Facts, NotApplicable> {
        let (smoothness, gap) = self.spider_facts()?;
        let difference_clip = self.asked.spider.difference_clip.unwrap_or(smoothness);
        Ok(Facts {
            smoothness,
            gap,
            clip: self.clip_norm,
            difference_clip: positive(option("difference_clip"), difference_clip)?,
            leaves: self.one_pass_leaves(),
            noise: noise_multiplier * (self.problem.dimension as f64).sqrt(),
        })
    }

    pub(super) fn one_pass_draft(&self) -> Result<Draft, NotApplicable> {
        self.check_one_pass()?;
        let steps = self.one_pass_leaves();
        let drawn = SamplerError::rounded(steps as f64 * self.problem.dimension as f64);
        let (z, certificate) =
            calibrate::noise(|z| drawn.on(Event::gaussian(z)), self.problem.neighbours.within(self.budget))?;
        let facts = self.one_pass_facts(z)?;
        let sizes = facts.best(self.n());
        let leaves = longest(sizes.depth).min(steps);
        let noise_std = z * sizes.leaf_clip * RestartedPlan::sensitivity(leaves);
        let escape = self.asked.spider.hessian_lipschitz.map(|bound| {
            // α² each of noise, of a first batch and of changes; twice that, as for a walk along all records
            let error = 2.0 * 3f64.sqrt() * sizes.aim;
            let window = (2.0 * facts.smoothness / (bound * error).sqrt()).ceil();
            Escape {
                threshold: error,
                noise_std: error / (self.problem.dimension as f64).sqrt(),
                window: window.clamp(1.0, (1u64 << 40) as f64) as u64,
            }
        });
        let sums = OnePassSchedule {
            leaves,
            leaf_clip: sizes.leaf_clip,
            first_batch: (sizes.first_batch as u64).clamp(1, self.problem.records),
            per_change: sizes.per_change,
            difference_clip: facts.difference_clip,
            path: sizes.path,
            aim: sizes.aim,
            escape,
        };
        Ok(Draft {
            batches: Batches::Once(sums),
            share: 1.0 / steps as f64,
            steps,
            noise_multiplier: z,
            certificate,
            variance: sizes.aim * sizes.aim,
            noise_std,
            of_prefix: 0.0,
        })
    }

    /// Bound on the excess: at a point with a gradient of norm α a convex loss exceeds its least value by at most αD.
    pub(super) fn one_pass_bound(&self, draft: &Draft) -> f64 {
        draft.variance.sqrt() * self.distance
    }

    /// A warning where records are too few for any aim below the clip norm.
    pub(super) fn one_pass_warning(&self, draft: &Draft) -> Option<String> {
        let vacuous = self.method == Method::OnePass && draft.variance.sqrt() >= self.clip_norm * (1.0 - 1e-9);
        vacuous.then(|| {
            "there are too few records to reach a gradient below the clip norm by reading each only once; use more \
             records, or choose spider, which reads them several times"
                .to_string()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::special::gaussian_mu;

    #[test]
    fn sizes_are_those_of_the_exact_calibration() {
        // with replace-one: s* = μα/(h√d), b = max(2G/s*, G²/α²), b_t = M·way·max(2/s*, κ/α²), κ = max(2hα√d/μ, G), σ = α/√(hd)
        let (mu, d, h, alpha) = (gaussian_mu(1.0, 1e-6), 10f64, 9u32, 0.1);
        let (z, s) = (2.0 / mu, mu * alpha / (9.0 * d.sqrt()));
        let facts =
            Facts { smoothness: 1.0, gap: 1.0, clip: 1.0, difference_clip: 1.0, leaves: 1 << 20, noise: z * d.sqrt() };
        let sizes = facts.sizes(h, alpha);
        assert!((2.0 * sizes.leaf_clip / s - 1.0).abs() < 1e-12, "a record that is replaced moves a mean by s");
        assert_eq!(sizes.first_batch, (2.0 / s).max(100.0).ceil());
        let kappa = (2.0 * 9.0 * alpha * d.sqrt() / mu).max(1.0);
        assert!((sizes.path / kappa - 1.0).abs() < 1e-12);
        assert!((sizes.per_change / (2.0 / s).max(kappa / (alpha * alpha)) - 1.0).abs() < 1e-12);
        let sigma = z * sizes.leaf_clip * f64::from(h).sqrt();
        assert!((sigma / (alpha / (9.0 * d).sqrt()) - 1.0).abs() < 1e-12);
        // §1.4: σ over s at ε = 1, δ = 1e-6 and L = 8, 48, 64, 1024
        for (leaves, expected) in [(8, 8.449), (48, 10.348), (64, 11.177), (1024, 14.012)] {
            let sigma = RestartedPlan::sensitivity(leaves) / mu;
            assert!((sigma - expected).abs() < 6e-4, "{leaves} {sigma}");
        }
    }

    #[test]
    fn the_aim_is_the_least_that_the_records_are_enough_for() {
        let facts = Facts {
            smoothness: 1.0,
            gap: 0.01,
            clip: 1.0,
            difference_clip: 1.0,
            leaves: 1 << 20,
            noise: 8.0 * 100f64.sqrt(),
        };
        let mut last = f64::INFINITY;
        for records in [1e4, 1e5, 1e6, 1e7, 1e8] {
            let best = facts.best(records);
            assert!(facts.records(best) <= records * (1.0 + 1e-9) || best.aim >= 1.0 - 1e-9);
            assert!(best.aim < last, "{} {last}", best.aim);
            // one that is smaller by a hundredth would need more
            for depth in DEPTHS {
                assert!(facts.records(facts.sizes(depth, 0.99 * best.aim)) > records);
            }
            last = best.aim;
        }
        // ten leaves are for slopes of √(MΔ/10) at least, and changes of twice the curvature ask for more records
        let few = Facts { leaves: 10, ..facts }.best(1e8);
        assert!(few.aim >= 0.001f64.sqrt() && few.depth <= 4, "{}", few.aim);
        let rough = Facts { difference_clip: 2.0, ..facts };
        assert!(rough.best(1e6).aim > 1.05 * facts.best(1e6).aim);
    }
}
