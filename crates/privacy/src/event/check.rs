//! Parameter ranges and nesting traps of events (spec 18 §1, §1.1). Passing the check does not mean that some
//! accountant supports the event.

use super::{Event, GlmLink};
use crate::Relation;
use thiserror::Error;

/// Deepest nesting that is read; plans are a handful of levels deep.
const MAX_DEPTH: usize = 64;
/// Deepest nesting of samples in samples, and of the best of runs in runs: an answer's time grows with it.
const MAX_SAMPLES: usize = 4;
const MAX_SELECTIONS: usize = 4;
/// Largest number of a user's records, groups of groups multiplied: larger ones are no longer exact numbers.
const MAX_RECORDS: u64 = 1 << 53;
/// Largest number of repetitions, nested ones multiplied.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// What is wrong with an event, and where in the tree.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("event{path}: {problem}")]
pub struct EventError {
    path: String,
    problem: String,
}

/// The event around the one being checked, as far as it matters.
#[derive(Clone, Copy)]
struct Around<'a> {
    path: &'a str,
    depth: usize,
    count: u64,
    /// Public size of the enclosing fixed-size sample.
    batch: Option<u64>,
    /// Inside a gate.
    gated: bool,
    /// Inside any sampling.
    sampled: bool,
    /// Inside a sample of fixed size.
    refilled: bool,
    /// Inside Poisson sampling: the number of records present is random.
    random_size: bool,
    /// How many samples this one is in.
    samples: usize,
    /// How many repetitions with a selection this one is in.
    selections: usize,
    /// Records of the enclosing users.
    records: u64,
    /// Inside a node that stands in a user's unit and is accounted as a whole.
    whole: bool,
}

impl Event {
    /// Checks every parameter and the nesting under `relation`; the error names the field, its value and the range.
    ///
    /// ```
    /// use dpopt_privacy::{Event, Relation};
    /// let event = Event::gaussian(-1.0).poisson_sampled(0.1);
    /// let error = event.check(Relation::ZeroOut).unwrap_err();
    /// assert_eq!(error.to_string(), "event.event: noise_multiplier is -1; it must be finite and at least 0");
    /// ```
    pub fn check(&self, relation: Relation) -> Result<(), EventError> {
        let top = Around {
            path: "",
            depth: 0,
            count: 1,
            batch: None,
            gated: false,
            sampled: false,
            refilled: false,
            random_size: false,
            samples: 0,
            selections: 0,
            records: 1,
            whole: false,
        };
        check(self, relation, top)
    }
}

fn check(event: &Event, relation: Relation, around: Around<'_>) -> Result<(), EventError> {
    let fail = |problem: String| Err(EventError { path: around.path.to_owned(), problem });
    let at_least_0 = |name: &str, x: f64| match x.is_finite() && x >= 0.0 {
        true => Ok(()),
        false => fail(format!("{name} is {x}; it must be finite and at least 0")),
    };
    let positive = |name: &str, x: f64| match x.is_finite() && x > 0.0 {
        true => Ok(()),
        false => fail(format!("{name} is {x}; it must be finite and positive")),
    };
    let probability = |name: &str, x: f64| match (0.0..=1.0).contains(&x) {
        true => Ok(()),
        false => fail(format!("{name} is {x}; it must lie in [0, 1]")),
    };
    let count_from_1 = |name: &str, n: u64| match n >= 1 {
        true => Ok(()),
        false => fail(format!("{name} is 0; it must be at least 1")),
    };
    if around.depth > MAX_DEPTH {
        return fail(format!("nested more than {MAX_DEPTH} deep"));
    }
    match event {
        Event::NoOp | Event::NonPrivate | Event::Unsupported => {}
        Event::RandomizedResponse { noise_parameter, num_buckets } => {
            probability("noise_parameter", *noise_parameter)?;
            if *num_buckets < 2 {
                return fail(format!("num_buckets is {num_buckets}; it must be at least 2"));
            }
            if relation == Relation::AddOrRemove {
                return fail("randomized response publishes who takes part; use zero-out or replace-one".into());
            }
        }
        Event::Gaussian { noise_multiplier } | Event::Laplace { noise_multiplier } => {
            at_least_0("noise_multiplier", *noise_multiplier)?;
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity } => {
            positive("noise_parameter", *noise_parameter)?;
            count_from_1("sensitivity", *sensitivity)?;
        }
        Event::DiscreteGaussian { sigma, sensitivity, dimension } => {
            at_least_0("sigma", *sigma)?;
            // smaller ones are a mistake of units: two integer vectors that differ are at least 1 apart
            if !(sensitivity.is_finite() && *sensitivity >= 1.0) {
                return fail(format!(
                    "sensitivity is {sensitivity}; the norm of an integer contribution is finite and at least 1"
                ));
            }
            count_from_1("dimension", dimension.unwrap_or(1))?;
        }
        Event::ExponentialMechanism { epsilon } | Event::PermuteAndFlip { epsilon } | Event::PureStream { epsilon } => {
            at_least_0("epsilon", *epsilon)?;
        }
        Event::Gdp { mu } => at_least_0("mu", *mu)?,
        Event::Zcdp { rho, xi } => {
            at_least_0("rho", *rho)?;
            at_least_0("xi", *xi)?;
        }
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => {
            at_least_0("epsilon", *epsilon)?;
            if !(0.0..1.0).contains(delta) {
                return fail(format!("delta is {delta}; it must lie in [0, 1)"));
            }
        }
        Event::ProposeTestRelease { epsilon, delta, noise_multiplier } => {
            at_least_0("epsilon", *epsilon)?;
            at_least_0("noise_multiplier", *noise_multiplier)?;
            if !(0.0..1.0).contains(delta) {
                return fail(format!("delta is {delta}; it must lie in [0, 1)"));
            }
            if around.sampled || around.gated || around.records > 1 || around.selections > 0 {
                return fail(
                    "a release that depends on a test has a proof for one record of all: not inside a sample, a gate, a user's unit or the \
                     best of runs"
                        .into(),
                );
            }
        }
        Event::Rdp { orders, divergences } => {
            same_length(&fail, "orders", orders, "divergences", divergences)?;
            if !(orders[0] > 1.0 && increasing(orders)) {
                return fail("orders must be finite, above 1 and increasing".into());
            }
            divergences.iter().try_for_each(|x| at_least_0("divergences", *x))?;
        }
        Event::PrivacyProfile { epsilons, deltas } => {
            same_length(&fail, "epsilons", epsilons, "deltas", deltas)?;
            if !(epsilons[0] >= 0.0 && increasing(epsilons)) {
                return fail("epsilons must be finite, at least 0 and increasing".into());
            }
            deltas.iter().try_for_each(|x| probability("deltas", *x))?;
            if deltas.windows(2).any(|w| w[1] > w[0]) {
                return fail("deltas must not increase with epsilon".into());
            }
        }
        Event::ChiSquareGaussian { degrees_of_freedom, mu } => {
            count_from_1("degrees_of_freedom", *degrees_of_freedom)?;
            at_least_0("mu", *mu)?;
        }
        Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs } => {
            positive("standard_deviation", *standard_deviation)?;
            same_length(&fail, "sensitivities", sensitivities, "sampling_probs", sampling_probs)?;
            sensitivities.iter().try_for_each(|x| at_least_0("sensitivities", *x))?;
            sampling_probs.iter().try_for_each(|x| probability("sampling_probs", *x))?;
            let total: f64 = sampling_probs.iter().sum();
            // rounding of the sum itself
            if (total - 1.0).abs() > 1e-15 * (sampling_probs.len() as f64 + 8.0) {
                return fail(format!("sampling_probs add up to {total}; they must add up to 1"));
            }
            if relation == Relation::ReplaceOne {
                return fail("a mixture of Gaussians describes presence against absence; use zero-out".into());
            }
        }
        Event::SingleEpochTreeAggregation { noise_multiplier, step_counts } => {
            at_least_0("noise_multiplier", *noise_multiplier)?;
            if step_counts.is_empty() {
                return fail("step_counts is empty; give the number of steps of each tree".into());
            }
            step_counts.iter().try_for_each(|n| count_from_1("step_counts", *n))?;
            if relation == Relation::AddOrRemove {
                return fail("adding a record would move the others to other leaves; use zero-out".into());
            }
        }
        Event::TruncatedSubsampledGaussian {
            dataset_size,
            sampling_probability,
            noise_multiplier,
            truncated_batch_size,
        } => {
            count_from_1("dataset_size", *dataset_size)?;
            probability("sampling_probability", *sampling_probability)?;
            at_least_0("noise_multiplier", *noise_multiplier)?;
            count_from_1("truncated_batch_size", *truncated_batch_size)?;
            // an upper bound of the number of records is enough under add-or-remove only
            if around.random_size && relation != Relation::AddOrRemove {
                return fail("a truncated batch inside Poisson sampling has a random dataset_size; sample once".into());
            }
            if around.batch.is_some_and(|m| m != *dataset_size) {
                return fail(format!("dataset_size {dataset_size} is not the enclosing sample's size"));
            }
        }
        Event::RepeatAndSelect { mean, shape, .. } => {
            positive("mean", *mean)?;
            if shape.is_nan() || *shape < 0.0 {
                return fail(format!("shape is {shape}; it must be at least 0"));
            }
            if around.selections >= MAX_SELECTIONS {
                return fail(format!(
                    "the best of runs stands inside {MAX_SELECTIONS} others; select from all candidates at once"
                ));
            }
        }
        Event::ObjectivePerturbation { noise_multiplier, regularization, link } => {
            positive("noise_multiplier", *noise_multiplier)?;
            positive("regularization", *regularization)?;
            match link {
                GlmLink::Monotone => {}
                GlmLink::Smooth { smoothness } => at_least_0("smoothness", *smoothness)?,
                GlmLink::Softmax { classes } if *classes < 2 => {
                    return fail(format!("classes is {classes}; it must be at least 2"));
                }
                GlmLink::Softmax { .. } => {}
            }
            if around.sampled {
                return fail("objective perturbation on a random sample has no proof; use all records".into());
            }
        }
        Event::PoissonSampled { sampling_probability, .. } => {
            probability("sampling_probability", *sampling_probability)?;
        }
        Event::Gated { probability: q, event } => {
            probability("probability", *q)?;
            if event.contains_user_unit() {
                return fail(
                    "UserUnit inside a gate leaves open between whom the coin is the same; leave it out".into(),
                );
            }
            if around.sampled {
                return fail("a gate on a random sample has no proof; gate what all records go into".into());
            }
            if around.records > 1 {
                return fail(
                    "a gate's coin is the same where one record differs; count the coins that several move in the event, \
                     and leave UserUnit out"
                        .into(),
                );
            }
        }
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, .. }
        | Event::SampledWithReplacement { source_dataset_size, sample_size, .. } => {
            count_from_1("source_dataset_size", *source_dataset_size)?;
            let without = matches!(event, Event::SampledWithoutReplacement { .. });
            if without && sample_size > source_dataset_size {
                return fail(format!("sample_size {sample_size} exceeds source_dataset_size {source_dataset_size}"));
            }
            if relation == Relation::AddOrRemove {
                return fail("a sample of fixed size uses the number of records; use zero-out or replace-one".into());
            }
            if around.random_size {
                return fail(
                    "a sample of fixed size inside Poisson sampling draws from a random number of records; \
                     sample once"
                        .into(),
                );
            }
            if around.batch.is_some_and(|m| m != *source_dataset_size) {
                return fail(format!("source_dataset_size {source_dataset_size} is not the enclosing sample's size"));
            }
        }
        Event::RandomAllocation { num_selected, num_steps, .. } => {
            count_from_1("num_steps", *num_steps)?;
            if num_selected > num_steps {
                return fail(format!("num_selected {num_selected} exceeds num_steps {num_steps}"));
            }
            if around.count.checked_mul(*num_steps).is_none_or(|total| total > MAX_COUNT) {
                return fail(format!("num_steps {num_steps} gives more than {MAX_COUNT} repetitions"));
            }
            if around.sampled {
                return fail("the random allocation of a random sample has no proof; allocate all records".into());
            }
        }
        Event::Parallel { blocks } => {
            if blocks.is_empty() {
                return fail("blocks is empty".into());
            }
            if around.refilled {
                return fail(
                    "the record that fills a slot of a fixed-size sample may belong to another block; \
                     sample inside the blocks"
                        .into(),
                );
            }
            if relation == Relation::AddOrRemove {
                return fail("adding a record may move the borders of blocks; use zero-out or replace-one".into());
            }
        }
        Event::UserUnit { records_per_user, .. } => {
            count_from_1("records_per_user", *records_per_user)?;
            if around.sampled {
                return fail("UserUnit belongs outside the sampling of records".into());
            }
            if around.whole {
                return fail(
                    "UserUnit stands inside Parallel or RepeatAndSelect inside another UserUnit; \
                     multiply the numbers of records and write it once, outside"
                        .into(),
                );
            }
            if around.records.checked_mul(*records_per_user).is_none_or(|total| total > MAX_RECORDS) {
                return fail(format!("records_per_user {records_per_user} gives more than {MAX_RECORDS} records"));
            }
        }
        Event::SelfComposed { count, .. } => {
            if around.count.checked_mul((*count).max(1)).is_none_or(|total| total > MAX_COUNT) {
                return fail(format!("count {count} gives more than {MAX_COUNT} repetitions"));
            }
        }
        Event::Composed { .. } => {}
        Event::Approximate { total_variation, .. } => {
            if !(0.0..1.0).contains(total_variation) {
                return fail(format!("total_variation is {total_variation}; it must lie in [0, 1)"));
            }
        }
    }
    let mut inside = Around { depth: around.depth + 1, ..around };
    if matches!(
        event,
        Event::PoissonSampled { .. }
            | Event::RandomAllocation { .. }
            | Event::SampledWithoutReplacement { .. }
            | Event::SampledWithReplacement { .. }
    ) {
        if around.samples >= MAX_SAMPLES {
            return fail(format!(
                "a sample stands inside {MAX_SAMPLES} others; sample once, with the product of the rates"
            ));
        }
        inside.samples += 1;
    }
    match event {
        Event::PoissonSampled { .. } => {
            inside.sampled = true;
            inside.random_size = true;
            inside.batch = None;
        }
        Event::RandomAllocation { num_steps, .. } => {
            inside.sampled = true;
            inside.random_size = true;
            inside.count *= num_steps;
        }
        Event::SampledWithoutReplacement { sample_size, .. } | Event::SampledWithReplacement { sample_size, .. } => {
            inside.sampled = true;
            inside.refilled = true;
            inside.batch = Some(*sample_size);
        }
        // a block holds a part of the batch only
        Event::Parallel { .. } => {
            inside.batch = None;
            inside.whole = around.records > 1;
        }
        Event::RepeatAndSelect { .. } => {
            inside.selections += 1;
            inside.whole = around.records > 1;
        }
        Event::Gated { .. } => inside.gated = true,
        Event::UserUnit { records_per_user, .. } => inside.records *= records_per_user,
        Event::SelfComposed { count, .. } => inside.count *= (*count).max(1),
        _ => {}
    }
    let name = match event {
        Event::Composed { .. } => "events",
        Event::Parallel { .. } => "blocks",
        _ => "event",
    };
    for (i, child) in event.children().iter().enumerate() {
        let path = match event {
            Event::Composed { .. } | Event::Parallel { .. } => format!("{}.{name}[{i}]", around.path),
            _ => format!("{}.{name}", around.path),
        };
        check(child, relation, Around { path: &path, ..inside })?;
    }
    Ok(())
}

fn increasing(list: &[f64]) -> bool {
    list.iter().all(|x| x.is_finite()) && list.windows(2).all(|w| w[0] < w[1])
}

fn same_length(
    fail: &impl Fn(String) -> Result<(), EventError>,
    a: &str,
    x: &[f64],
    b: &str,
    y: &[f64],
) -> Result<(), EventError> {
    if x.is_empty() || x.len() != y.len() {
        return fail(format!("{a} has {} entries and {b} {}; they must have as many, at least 1", x.len(), y.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_enforced() {
        for bad in [
            Event::gaussian(f64::NAN),
            Event::gaussian(f64::INFINITY),
            Event::ProposeTestRelease { epsilon: 1.0, delta: 1.0, noise_multiplier: 1.0 },
            Event::ProposeTestRelease { epsilon: 1.0, delta: 1e-6, noise_multiplier: 1.0 }.poisson_sampled(0.5),
            Event::ProposeTestRelease { epsilon: 1.0, delta: 1e-6, noise_multiplier: 1.0 }.for_users_of(2),
            Event::ProposeTestRelease { epsilon: 1.0, delta: 1e-6, noise_multiplier: 1.0 }.gated(0.5),
            Event::composed(vec![
                Event::ProposeTestRelease { epsilon: 1.0, delta: 1e-3, noise_multiplier: 0.5 },
                Event::laplace(100.0),
            ])
            .gated(0.5),
            Event::gaussian(1.0).for_users_of(2).gated(0.5),
            Event::laplace(-1.0),
            Event::gaussian(1.0).poisson_sampled(1.5),
            Event::gaussian(1.0).gated(1.5),
            Event::gaussian(1.0).gated(f64::NAN),
            Event::gaussian(1.0).gated(0.5).poisson_sampled(0.5),
            Event::gaussian(1.0).gated(0.5).for_users_of(2),
            Event::gaussian(1.0).sampled_without_replacement(10, 11),
            Event::gaussian(1.0).approximate(1.0),
            Event::ApproxDp { epsilon: 1.0, delta: 1.0 },
            Event::EpsilonDelta { epsilon: -1.0, delta: 0.1 },
            Event::PermuteAndFlip { epsilon: f64::NAN },
            Event::DiscreteGaussian { sigma: 1.0, sensitivity: 0.5, dimension: None },
            Event::DiscreteGaussian { sigma: -1.0, sensitivity: 1.0, dimension: None },
            Event::DiscreteGaussian { sigma: 1.0, sensitivity: 1.0, dimension: Some(0) },
            Event::Rdp { orders: vec![1.0], divergences: vec![0.1] },
            Event::Rdp { orders: vec![2.0, 3.0], divergences: vec![0.1] },
            Event::Rdp { orders: vec![], divergences: vec![] },
            Event::PrivacyProfile { epsilons: vec![0.0, 1.0], deltas: vec![0.1, 0.2] },
            Event::MixtureOfGaussians { standard_deviation: 1.0, sensitivities: vec![1.0], sampling_probs: vec![0.9] },
            Event::Parallel { blocks: vec![] },
            Event::gaussian(1.0).randomly_allocated(0),
            Event::gaussian(1.0).randomly_allocated(u64::MAX),
            Event::RandomAllocation { event: Box::new(Event::gaussian(1.0)), num_selected: 4, num_steps: 3 },
            Event::gaussian(1.0).self_composed(u64::MAX),
            Event::gaussian(1.0).self_composed(2_000_000).self_composed(2_000_000),
        ] {
            assert!(bad.check(Relation::ZeroOut).is_err(), "{bad}");
        }
    }

    #[test]
    fn nesting_traps_are_refused() {
        // the inner sample would be drawn from a batch of random size
        let trap = Event::gaussian(1.0).sampled_without_replacement(100, 10).poisson_sampled(0.5);
        assert!(trap.check(Relation::ZeroOut).is_err());
        let trap = Event::gaussian(1.0).sampled_without_replacement(50, 10).sampled_without_replacement(100, 20);
        assert!(trap.check(Relation::ZeroOut).is_err());
        let fine = Event::gaussian(1.0).sampled_without_replacement(20, 10).sampled_without_replacement(100, 20);
        assert!(fine.check(Relation::ZeroOut).is_ok());
        assert!(fine.check(Relation::AddOrRemove).is_err());
        // a step's batch has a random size
        let trap = Event::gaussian(1.0).sampled_without_replacement(100, 10).randomly_allocated(5);
        assert!(trap.check(Relation::ZeroOut).is_err());
        let sampled = Event::gaussian(1.0).randomly_allocated(5).poisson_sampled(0.1);
        assert!(sampled.check(Relation::ZeroOut).is_err());
        // the bound of a truncated batch needs the number of records, under add-or-remove an upper bound of it
        let truncated = |dataset_size| Event::TruncatedSubsampledGaussian {
            dataset_size,
            sampling_probability: 0.4,
            truncated_batch_size: 2,
            noise_multiplier: 1.0,
        };
        assert!(truncated(0).check(Relation::ZeroOut).is_err());
        assert!(truncated(40).poisson_sampled(0.1).check(Relation::ZeroOut).is_err());
        assert!(truncated(40).poisson_sampled(0.1).check(Relation::AddOrRemove).is_ok());
        assert!(truncated(40).sampled_without_replacement(100, 20).check(Relation::ZeroOut).is_err());
        // the slot of a record of one block may be filled by a record of another
        let blocks = Event::Parallel { blocks: vec![Event::laplace(1.0), Event::laplace(1.0)] };
        assert!(blocks.clone().sampled_without_replacement(20, 10).check(Relation::ReplaceOne).is_err());
        assert!(blocks.poisson_sampled(0.1).check(Relation::ReplaceOne).is_ok());
        let users = Event::UserUnit { records_per_user: 3, event: Box::new(Event::gaussian(1.0)) };
        assert!(users.check(Relation::ZeroOut).is_ok());
        assert!(users.poisson_sampled(0.1).check(Relation::ZeroOut).is_err());
        let deep = (0..100).fold(Event::gaussian(1.0), |e, _| e.self_composed(1));
        assert!(deep.check(Relation::ZeroOut).unwrap_err().to_string().contains("nested"));
    }

    #[test]
    fn the_error_names_the_place() {
        let event = Event::composed(vec![Event::NoOp, Event::gaussian(1.0).poisson_sampled(2.0).self_composed(3)]);
        let error = event.check(Relation::ZeroOut).unwrap_err().to_string();
        assert_eq!(error, "event.events[1].event: sampling_probability is 2; it must lie in [0, 1]");
    }
}
