//! The conversion along records that are read once: running sums of estimates that begin anew every period, with a fresh tree of noise and batches as large as the way
//! (Liu 2024, Algorithms 24 and 26, corrected).
//!
//! Privacy is that of the sums: one place for each record, a clip of what it adds to its batch's mean, nodes counted from 1 (docs/proofs/restarted-sums.md).
//!
//! Covers: thesis algorithm 24, algorithm 26 (certified: clips, and a fresh tree with all of its nodes for every period)
//! Covers: thesis theorem 8.3.1, theorem 8.9.4 (part: privacy, by the accountant; the rate is not claimed)

use super::kind::Method;
use super::o2nc_facts::{Certified, Common, Facts, MAX_STEPS};
use super::one_pass::{DEPTHS, longest};
use super::one_pass_schedule::OnePassSchedule;
use super::plan::{Asked, MinimizePlan};
use super::problem::MinimizeProblem;
use super::schedule::Batches;
use dpopt_mechanism::RestartedPlan;
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::planning::SamplerError;
use dpopt_privacy::{Budget, Event, Relation, calibrate};

/// Numbers for an aim and a depth of trees.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    aim: f64,
    steps: u64,
    leaves: u64,
    leaf_clip: f64,
    first_batch: f64,
    per_change: f64,
    /// Predicted number of records.
    records: f64,
}

/// Facts with z√d in the place of the noise of all records.
#[derive(Clone, Copy)]
struct Once(Facts);

impl Once {
    /// Noise, sampling of gradients and sampling of changes have norm of the aim each, so that an error has √3 times that.
    fn error(aim: f64) -> f64 {
        3f64.sqrt() * aim
    }

    /// A tree's noise has norm √h·σ√d = zh√d·(leaf clip) at most on average: as much as the aim, and so is what sampling of gradients and of all changes of a period adds.
    fn sizes(self, depth: u32, aim: f64, steps: Option<u64>) -> Sizes {
        let f = self.0;
        let steps = steps.unwrap_or_else(|| f.wanted_steps(aim));
        let leaf_clip = aim / (f.noise * f64::from(depth));
        let leaves = longest(depth).min(steps);
        let first_batch = (f.clip / leaf_clip).max((f.clip / aim).powi(2)).ceil();
        // of a change on a way of D; the longest is twice that
        let change = (f.difference_clip * f.reach(aim)).min(2.0 * f.clip);
        let per_change = (1.0 / leaf_clip).max(change * leaves as f64 / (aim * aim));
        let restarts = steps.div_ceil(leaves);
        let of_changes = (change * per_change).ceil() * (steps - restarts) as f64;
        let records = restarts as f64 * first_batch + of_changes;
        Sizes { aim, steps, leaves, leaf_clip, first_batch, per_change, records }
    }

    /// The sizes at the depth that needs the fewest records.
    fn cheapest(self, aim: f64, steps: Option<u64>) -> Sizes {
        let mut best = self.sizes(*DEPTHS.start(), aim, steps);
        for depth in DEPTHS.skip(1) {
            let other = self.sizes(depth, aim, steps);
            if other.records < best.records {
                best = other;
            }
        }
        best
    }

    /// The least aim, up to half of L, that so many records are enough for, and as many steps as are told or else `most`: with a smaller one the walk ends on its way.
    fn best(self, records: f64, (steps, most): (Option<u64>, u64)) -> Sizes {
        let high = 0.5 * self.0.lipschitz;
        let of_steps = self.0.aim_of_steps(steps.unwrap_or(most) as f64);
        let (mut low, mut high) = (of_steps.min(high), high);
        if self.cheapest(low, steps).records <= records {
            return self.cheapest(low, steps);
        }
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            let enough = self.cheapest(middle, steps).records <= records;
            *(if enough { &mut high } else { &mut low }) = middle;
        }
        self.cheapest(high, steps)
    }

    /// Fewest records for a bound on the norm that is below L, which every point has: those of the largest aim with one, in steps of a hundredth. None with so few steps.
    fn least_records(self, steps: Option<u64>) -> Option<f64> {
        let f = self.0;
        let aims = (0..1000).map(|k| 0.5 * f.lipschitz * 0.99f64.powi(k));
        let mut sizes = aims.map(|aim| self.cheapest(aim, steps));
        sizes.find(|s| f.norm_bound(s.aim, s.steps, Self::error(s.aim)) < f.lipschitz).map(|s| s.records)
    }
}

fn check(problem: &MinimizeProblem) -> Result<(), NotApplicable> {
    let refuse = |why: &'static str| Err(NotApplicable::Problem(why.into()));
    if problem.by_unit() {
        return refuse(
            "batches are formed by position, and units have no position; choose o2nc, which reads all records at \
             once",
        );
    }
    if problem.relation() == Relation::AddOrRemove {
        return refuse(
            "batches are formed by position, and an added record would move all others; use zero-out or replace-one, \
             or choose o2nc, which reads all records at once",
        );
    }
    Ok(())
}

/// Plans and certifies the conversion in one pass.
pub(super) fn plan(problem: &MinimizeProblem, budget: Budget, asked: &Asked) -> Result<MinimizePlan, NotApplicable> {
    check(problem)?;
    let common = Common::new(problem, budget, asked)?;
    let most = MAX_STEPS.min(problem.records);
    let told = asked.steps.map(|steps| steps.min(most));
    let drawn = SamplerError::rounded(told.unwrap_or(most) as f64 * problem.dimension as f64);
    let (z, certificate) = calibrate::noise(|z| drawn.on(Event::gaussian(z)), problem.neighbours.within(budget))?;
    let once = Once(Facts { noise: z * (problem.dimension as f64).sqrt(), ..common.facts });
    let sizes = once.best(problem.records as f64, (told, most));
    // the certificate pays for no more
    let steps = sizes.steps.min(told.unwrap_or(most));
    let leaves = sizes.leaves.min(steps);
    let batches = OnePassSchedule {
        leaves,
        leaf_clip: sizes.leaf_clip,
        first_batch: (sizes.first_batch as u64).clamp(1, problem.records),
        per_change: sizes.per_change,
        difference_clip: common.facts.difference_clip,
        path: f64::MAX,
        aim: sizes.aim,
        escape: None,
    };
    let noise_std = z * sizes.leaf_clip * RestartedPlan::sensitivity(leaves);
    let around = common.around(sizes.aim, leaves > 1)?;
    let conversion = common.conversion(around, (sizes.aim, steps, leaves), (sizes.aim, Once::error(sizes.aim)), (z, z));
    let bounds_nothing = conversion.norm_bound >= common.facts.lipschitz;
    let warnings = match once.least_records(told) {
        Some(least) if problem.records as f64 >= least => bounds_nothing.then(|| {
            format!(
                "the error bound is vacuous: it is {:.2}, and the clip norm {} bounds the gradient at every point; \
                 choose other steps",
                conversion.norm_bound, common.facts.lipschitz
            )
        }),
        Some(least) => Some(format!(
            "the error bound is vacuous below about {} records, which are read only once: it is not below the clip \
             norm, which bounds the gradient at every point; use more records, or choose o2nc, which reads them \
             several times",
            two_digits(least)
        )),
        None => Some(
            "the error bound is vacuous with so few steps, whatever the number of records: it is not below the clip \
             norm, which bounds the gradient at every point; leave steps out"
                .to_string(),
        ),
    };
    let mut assumptions = vec![conversion.said_of_directions()];
    assumptions.extend(batches.assumptions());
    let certified = Certified {
        method: Method::ConversionOnce,
        conversion,
        batches: Batches::Once(batches),
        steps,
        noise_multiplier: z,
        noise_std,
        clip: sizes.leaf_clip,
        evaluations: 2.0 * common.asked_of_a_record(around) * problem.records as f64,
        certificate,
    };
    Ok(common.planned(certified, assumptions, warnings.into_iter().collect()))
}

/// Rounded up to two digits.
fn two_digits(records: f64) -> f64 {
    let unit = 10f64.powf(records.max(1.0).log10().floor() - 1.0).max(1.0);
    (records / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::super::o2nc_facts::smoothing_constant;
    use super::*;
    use dpopt_privacy::special::gaussian_mu;

    fn facts() -> Once {
        Once(Facts {
            lipschitz: 1.0,
            clip: 1.0,
            gap: 1.0,
            radius: 0.1,
            difference_clip: smoothing_constant(10) / 0.1,
            // replace-one
            noise: 2.0 * 10f64.sqrt() / gaussian_mu(1.0, 1e-6),
        })
    }

    /// At n = 1e5, d = 10, α = .1, ε = 1, D = 3.02e-4, Σ about 48: leaves of 2C/B₁ = .0417 and .0313 have σ = .431 and a noise of norm about 2.4.
    #[test]
    fn the_published_lengths_are_vacuous_on_a_hundred_thousand_records() {
        let (mu, leaf) = (gaussian_mu(1.0, 1e-6), 2.0 / 48.0);
        assert!((leaf - 0.0417f64).abs() < 1e-4);
        let change = 4.0 * smoothing_constant(10) * 3.02e-4 / 0.1;
        assert!((change - 0.0313).abs() < 1e-4, "{change}");
        let sigma = leaf * RestartedPlan::sensitivity(48) / mu;
        assert!((sigma - 0.431).abs() < 1e-3, "{sigma}");
        // a prefix has three nodes in the middle of them, and six at most
        assert!((sigma * (3.0f64 * 10.0).sqrt() - 2.36).abs() < 0.01);
    }

    #[test]
    fn the_aim_is_the_least_that_the_records_are_enough_for() {
        let once = facts();
        let floor = once.0.aim_of_steps(MAX_STEPS as f64);
        let (mut last, mut above) = (f64::INFINITY, 0);
        for records in [1e4, 1e5, 1e6, 1e7, 1e8] {
            let best = once.best(records, (None, MAX_STEPS));
            assert!(best.records <= records * (1.0 + 1e-9) && best.aim <= last, "{best:?}");
            if best.aim > floor {
                above += 1;
                assert!(best.aim < last && once.cheapest(0.98 * best.aim, None).records > records, "{best:?}");
            }
            last = best.aim;
        }
        assert!(above >= 3);
    }

    /// Few steps that are told, or the most that there are, end a walk of a smaller aim before it has come anywhere: its bound would rise with the records.
    #[test]
    fn more_records_never_bound_the_norm_by_more() {
        for d in [1usize, 2, 5, 10] {
            let noise = (d as f64).sqrt() / gaussian_mu(1.0, 1e-6);
            let once = Once(Facts { difference_clip: 2.0 * smoothing_constant(d) / 0.1, noise, ..facts().0 });
            for steps in [None, Some(3000)] {
                let mut last = f64::INFINITY;
                for k in 0..30 {
                    let s = once.best(1e4 * 10f64.powf(f64::from(k) / 6.0), (steps, MAX_STEPS));
                    let bound = once.0.norm_bound(s.aim, s.steps, Once::error(s.aim));
                    assert!(bound <= last * (1.0 + 1e-6), "{d} {steps:?} {k}: {bound} after {last}");
                    last = bound;
                }
                assert!(last < 3.0, "{d} {steps:?} {last}");
            }
        }
    }

    #[test]
    fn fewer_than_the_least_records_bound_the_norm_by_nothing() {
        let once = facts();
        let least = once.least_records(None).unwrap();
        assert_eq!(once.least_records(Some(3)), None);
        let bound = |records: f64| {
            let s = once.best(records, (None, MAX_STEPS));
            once.0.norm_bound(s.aim, s.steps, Once::error(s.aim))
        };
        assert!(bound(0.9 * least) >= 1.0 && bound(1.2 * least) < 1.0, "{least}");
        assert!((1e5..1e8).contains(&least), "{least}");
        assert_eq!((two_digits(1_234_567.0), two_digits(99.2), two_digits(3.2)), (1.3e6, 100.0, 4.0));
    }
}
