//! Parameter ranges and nesting traps of events. Passing the check does not mean that some
//! accountant supports the event.

use super::Event;
use super::table::{Field, entry};
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
    /// Whether it lies inside a gate.
    gated: bool,
    /// Whether it lies inside any kind of sampling.
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
    /// use dpopt_event::{Event, Relation};
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
    let found = if around.depth > MAX_DEPTH {
        Err(format!("nested more than {MAX_DEPTH} deep"))
    } else {
        entry(event).fields.iter().try_for_each(Field::check)
    };
    found
        .and_then(|()| lists(event))
        .and_then(|()| sizes(event, &around))
        .and_then(|()| under(event, relation))
        .and_then(|()| within(event, relation, &around))
        .map_err(|problem| EventError { path: around.path.to_owned(), problem })?;
    let inside = inside(event, around);
    for (i, child) in event.children().iter().enumerate() {
        let path = match event {
            Event::Composed { .. } => format!("{}.events[{i}]", around.path),
            Event::Parallel { .. } => format!("{}.blocks[{i}]", around.path),
            _ => format!("{}.event", around.path),
        };
        check(child, relation, Around { path: &path, ..inside })?;
    }
    Ok(())
}

/// What holds among the numbers of a list, and between lists.
fn lists(event: &Event) -> Result<(), String> {
    match event {
        Event::Rdp { orders, divergences } => {
            same_length("orders", orders, "divergences", divergences)?;
            if !(orders[0] > 1.0 && increasing(orders)) {
                return Err("orders must be finite, above 1 and increasing".into());
            }
        }
        Event::PrivacyProfile { epsilons, deltas } => {
            same_length("epsilons", epsilons, "deltas", deltas)?;
            if !(epsilons[0] >= 0.0 && increasing(epsilons)) {
                return Err("epsilons must be finite, at least 0 and increasing".into());
            }
            if deltas.windows(2).any(|w| w[1] > w[0]) {
                return Err("deltas must not increase with epsilon".into());
            }
        }
        Event::MixtureOfGaussians { sensitivities, sampling_probs, .. } => {
            same_length("sensitivities", sensitivities, "sampling_probs", sampling_probs)?;
            let total: f64 = sampling_probs.iter().sum();
            // rounding of the sum itself
            if (total - 1.0).abs() > 1e-15 * (sampling_probs.len() as f64 + 8.0) {
                return Err(format!("sampling_probs add up to {total}; they must add up to 1"));
            }
        }
        Event::SingleEpochTreeAggregation { step_counts, .. } if step_counts.is_empty() => {
            return Err("step_counts is empty; give the number of steps of each tree".into());
        }
        Event::Parallel { blocks } if blocks.is_empty() => return Err("blocks is empty".into()),
        _ => {}
    }
    Ok(())
}

/// Sizes of samples, and numbers of repetitions and records, nested ones multiplied.
fn sizes(event: &Event, around: &Around<'_>) -> Result<(), String> {
    let too_many = |of: u64, more: u64, most: u64| of.checked_mul(more).is_none_or(|total| total > most);
    match event {
        Event::SampledWithoutReplacement { source_dataset_size: of, sample_size, .. } if sample_size > of => {
            Err(format!("sample_size {sample_size} exceeds source_dataset_size {of}"))
        }
        Event::SampledWithoutReplacement { source_dataset_size: of, .. }
        | Event::SampledWithReplacement { source_dataset_size: of, .. }
            if around.batch.is_some_and(|m| m != *of) =>
        {
            Err(format!("source_dataset_size {of} is not the enclosing sample's size"))
        }
        Event::TruncatedSubsampledGaussian { dataset_size, .. } if around.batch.is_some_and(|m| m != *dataset_size) => {
            Err(format!("dataset_size {dataset_size} is not the enclosing sample's size"))
        }
        Event::RandomAllocation { num_selected, num_steps, .. } if num_selected > num_steps => {
            Err(format!("num_selected {num_selected} exceeds num_steps {num_steps}"))
        }
        Event::RandomAllocation { num_steps, .. } if too_many(around.count, *num_steps, MAX_COUNT) => {
            Err(format!("num_steps {num_steps} gives more than {MAX_COUNT} repetitions"))
        }
        Event::SelfComposed { count, .. } if too_many(around.count, (*count).max(1), MAX_COUNT) => {
            Err(format!("count {count} gives more than {MAX_COUNT} repetitions"))
        }
        Event::UserUnit { records_per_user: records, .. } if too_many(around.records, *records, MAX_RECORDS) => {
            Err(format!("records_per_user {records} gives more than {MAX_RECORDS} records"))
        }
        _ => Ok(()),
    }
}

/// What has no proof, or no meaning, under a relation.
fn under(event: &Event, relation: Relation) -> Result<(), String> {
    let refused = match (event, relation) {
        (Event::RandomizedResponse { .. }, Relation::AddOrRemove) => {
            "randomized response publishes who takes part; use zero-out or replace-one"
        }
        (Event::MixtureOfGaussians { .. }, Relation::ReplaceOne) => {
            "a mixture of Gaussians describes presence against absence; use zero-out"
        }
        (Event::SingleEpochTreeAggregation { .. }, Relation::AddOrRemove) => {
            "adding a record would move the others to other leaves; use zero-out"
        }
        (Event::SampledWithoutReplacement { .. } | Event::SampledWithReplacement { .. }, Relation::AddOrRemove) => {
            "a sample of fixed size depends on the number of records, which add-or-remove protects; use zero-out or \
             replace-one"
        }
        (Event::Parallel { .. }, Relation::AddOrRemove) => {
            "adding a record may move the borders of blocks; use zero-out or replace-one"
        }
        _ => return Ok(()),
    };
    Err(refused.into())
}

/// What has no proof where the event stands.
fn within(event: &Event, relation: Relation, around: &Around<'_>) -> Result<(), String> {
    let refused = match event {
        Event::ProposeTestRelease { .. }
            if around.sampled || around.gated || around.records > 1 || around.selections > 0 =>
        {
            "a release that depends on a test has a proof for one record of all: not inside a sample, a gate, a user's unit or the best \
             of runs"
        }
        // an upper bound of the number of records is enough under add-or-remove only
        Event::TruncatedSubsampledGaussian { .. } if around.random_size && relation != Relation::AddOrRemove => {
            "a truncated batch inside Poisson sampling has a random dataset_size; sample once"
        }
        Event::RepeatAndSelect { .. } if around.selections >= MAX_SELECTIONS => {
            return Err(format!(
                "the best of runs stands inside {MAX_SELECTIONS} others; select from all candidates at once"
            ));
        }
        Event::ObjectivePerturbation { .. } if around.sampled => {
            "objective perturbation on a random sample has no proof; use all records"
        }
        Event::Gated { event, .. } if event.contains_user_unit() => {
            "UserUnit inside a gate leaves open between whom the coin is the same; leave it out"
        }
        Event::Gated { .. } if around.sampled => {
            "a gate on a random sample has no proof; gate what all records go into"
        }
        Event::Gated { .. } if around.records > 1 => {
            "a gate's coin is the same where one record differs; count the coins that several move in the event, and leave UserUnit out"
        }
        Event::SampledWithoutReplacement { .. } | Event::SampledWithReplacement { .. } if around.random_size => {
            "a sample of fixed size inside Poisson sampling draws from a random number of records; sample once"
        }
        Event::RandomAllocation { .. } if around.sampled => {
            "the random allocation of a random sample has no proof; allocate all records"
        }
        Event::Parallel { .. } if around.refilled => {
            "the record that fills a slot of a fixed-size sample may belong to another block; sample inside the blocks"
        }
        Event::UserUnit { .. } if around.sampled => "UserUnit belongs outside the sampling of records",
        Event::UserUnit { .. } if around.whole => {
            "UserUnit stands inside Parallel or RepeatAndSelect inside another UserUnit; multiply the numbers of records and write it once, \
             outside"
        }
        sample if samples(sample) && around.samples >= MAX_SAMPLES => {
            return Err(format!(
                "a sample stands inside {MAX_SAMPLES} others; sample once, with the product of the rates"
            ));
        }
        _ => return Ok(()),
    };
    Err(refused.into())
}

fn samples(event: &Event) -> bool {
    matches!(
        event,
        Event::PoissonSampled { .. }
            | Event::RandomAllocation { .. }
            | Event::SampledWithoutReplacement { .. }
            | Event::SampledWithReplacement { .. }
    )
}

/// What is around the children of an event that stands where `around` says.
fn inside<'a>(event: &Event, around: Around<'a>) -> Around<'a> {
    let mut inside = Around { depth: around.depth + 1, ..around };
    if samples(event) {
        inside.samples += 1;
        inside.sampled = true;
    }
    match event {
        Event::PoissonSampled { .. } => {
            inside.random_size = true;
            inside.batch = None;
        }
        Event::RandomAllocation { num_steps, .. } => {
            inside.random_size = true;
            inside.count *= num_steps;
        }
        Event::SampledWithoutReplacement { sample_size, .. } | Event::SampledWithReplacement { sample_size, .. } => {
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
    inside
}

fn increasing(list: &[f64]) -> bool {
    list.iter().all(|x| x.is_finite()) && list.windows(2).all(|w| w[0] < w[1])
}

fn same_length(a: &str, x: &[f64], b: &str, y: &[f64]) -> Result<(), String> {
    if x.is_empty() || x.len() != y.len() {
        return Err(format!("{a} has {} entries and {b} {}; they must have as many, at least 1", x.len(), y.len()));
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
