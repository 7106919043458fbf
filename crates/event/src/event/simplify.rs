//! Simplifies an event without changing its mechanism: a flat list of parts with counts, and the sampler errors taken out.
//!
//! Only exact rules: one sample shared by several Gaussian releases is one Gaussian release;
//! Poisson sampling twice is sampling once; sampling everything is not sampling. σ is rounded down and q up.

use super::{Event, EventError};
use crate::Relation;
use crate::special::UNIT_ROUNDOFF;
use std::collections::HashMap;

/// An event as a composition of parts, and how far the real samplers are from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// Parts and how often each occurs (at least once). No part is a composition, `NoOp` or `Approximate`.
    pub parts: Vec<(Event, u64)>,
    /// Summed total-variation distance τ over the whole event: δ grows by (1 + e^ε)·τ, outside of everything else.
    pub total_variation: f64,
}

impl Exact {
    /// The parts as one event.
    pub fn event(&self) -> Event {
        rebuild(self.parts.clone())
    }
}

impl Event {
    /// Checks the event under `relation` and reduces it to parts.
    ///
    /// ```
    /// use dpopt_event::{Event, Relation};
    /// // one batch, three releases on it; a hundred times
    /// let step = Event::gaussian(6.0).self_composed(9).poisson_sampled(0.01).approximate(1e-15);
    /// let exact = step.self_composed(100).exact(Relation::ZeroOut)?;
    /// let [(Event::PoissonSampled { event, .. }, 100)] = &exact.parts[..] else { panic!() };
    /// let Event::Gaussian { noise_multiplier } = **event else { panic!() };
    /// assert!((noise_multiplier - 2.0).abs() < 1e-12 && noise_multiplier <= 2.0);
    /// assert!((exact.total_variation - 1e-13).abs() < 1e-18);
    /// # Ok::<(), dpopt_event::event::EventError>(())
    /// ```
    pub fn exact(&self, relation: Relation) -> Result<Exact, EventError> {
        self.check(relation)?;
        let mut collector = Collector::default();
        let total_variation = collector.add(self, 1);
        Ok(Exact { parts: collector.finish(), total_variation })
    }

    /// What the event is for a group of `size`, where that is an event of the same kind: [`group::of_kind`](crate::group::of_kind).
    pub(crate) fn of_group(&self, size: u64) -> Option<Self> {
        let k = size as f64;
        let grown = |epsilon: f64| Some(k * epsilon * (1.0 + 2.0 * UNIT_ROUNDOFF)).filter(|e| e.is_finite());
        Some(match self {
            Event::Laplace { noise_multiplier } => {
                let shrunk = noise_multiplier / k * (1.0 - 2.0 * UNIT_ROUNDOFF);
                Event::Laplace { noise_multiplier: Some(shrunk).filter(|b| *b > f64::MIN_POSITIVE)? }
            }
            Event::ExponentialMechanism { epsilon } => Event::ExponentialMechanism { epsilon: grown(*epsilon)? },
            Event::PermuteAndFlip { epsilon } => Event::PermuteAndFlip { epsilon: grown(*epsilon)? },
            Event::DiscreteLaplace { noise_parameter, sensitivity } => {
                let sensitivity = sensitivity.checked_mul(size).filter(|s| *s <= MAX_INTEGERS)?;
                Event::DiscreteLaplace { noise_parameter: *noise_parameter, sensitivity }
            }
            _ => return None,
        })
    }
}

/// Beyond it not every integer is a double.
const MAX_INTEGERS: u64 = 1 << 53;

/// Sum rounded up: `terms` additions, each within u.
fn up(x: f64) -> f64 {
    x * (1.0 + 4.0 * UNIT_ROUNDOFF)
}

fn rebuild(parts: Vec<(Event, u64)>) -> Event {
    let mut events: Vec<Event> =
        parts.into_iter().map(|(e, count)| if count == 1 { e } else { e.self_composed(count) }).collect();
    match events.len() {
        0 => Event::NoOp,
        1 => events.swap_remove(0),
        _ => Event::composed(events),
    }
}

/// Parts in order of first appearance; Gaussians pooled by precision.
#[derive(Default)]
struct Collector {
    parts: Vec<(Event, u64)>,
    place: HashMap<[u8; 32], usize>,
    /// 1/√(Σ 1/σ²) rounded down and the place in `parts` where the pooled Gaussian goes.
    gaussians: Option<(f64, usize)>,
    /// The only Gaussian so far and its count: kept so that a single one is not rounded.
    single: Option<(f64, u64)>,
}

/// One event on its own: its parts and its τ.
fn reduce(event: &Event) -> (Vec<(Event, u64)>, f64) {
    let mut collector = Collector::default();
    let total_variation = collector.add(event, 1);
    (collector.finish(), total_variation)
}

/// Whether a release hides nothing.
fn has_no_noise(leaf: &Event) -> bool {
    match leaf {
        Event::Gaussian { noise_multiplier } => !(*noise_multiplier > 0.0),
        Event::Laplace { noise_multiplier } => *noise_multiplier == 0.0,
        Event::DiscreteGaussian { sigma: 0.0, .. } | Event::ProposeTestRelease { noise_multiplier: 0.0, .. } => true,
        _ => false,
    }
}

/// Whether a release has the same law on all data.
fn shows_nothing(leaf: &Event) -> bool {
    match leaf {
        Event::RandomizedResponse { noise_parameter, .. } => *noise_parameter == 1.0,
        // nothing moves
        Event::MixtureOfGaussians { sensitivities, sampling_probs, .. } => {
            sensitivities.iter().zip(sampling_probs).all(|(c, p)| *c == 0.0 || *p == 0.0)
        }
        Event::NoOp
        | Event::Gdp { mu: 0.0 }
        | Event::PureStream { epsilon: 0.0 }
        | Event::ExponentialMechanism { epsilon: 0.0 }
        | Event::PermuteAndFlip { epsilon: 0.0 }
        | Event::ApproxDp { epsilon: 0.0, delta: 0.0 }
        | Event::EpsilonDelta { epsilon: 0.0, delta: 0.0 } => true,
        _ => false,
    }
}

impl Collector {
    /// Adds `event` `count` times, returns its τ.
    fn add(&mut self, event: &Event, count: u64) -> f64 {
        if count == 0 {
            return 0.0;
        }
        match event {
            Event::Composed { events } => events.iter().fold(0.0, |tv, e| {
                let next = self.add(e, count);
                if next == 0.0 { tv } else { up(tv + next) }
            }),
            Event::SelfComposed { event, count: inner } => self.add(event, count.saturating_mul(*inner)),
            Event::Approximate { total_variation, event } => {
                let inner = self.add(event, count);
                if *total_variation == 0.0 { inner } else { up(up(total_variation * count as f64) + inner) }
            }
            Event::Gaussian { noise_multiplier } if *noise_multiplier > 0.0 => {
                self.add_gaussian(*noise_multiplier, count);
                0.0
            }
            leaf if has_no_noise(leaf) => self.push(Event::NonPrivate, count),
            leaf if shows_nothing(leaf) => 0.0,
            Event::PoissonSampled { sampling_probability, event } => {
                self.add_poisson_sampled(*sampling_probability, event, count)
            }
            Event::Gated { probability, event } => {
                let (parts, tv) = reduce(event);
                if *probability == 1.0 {
                    self.push_all(parts, count);
                } else if *probability > 0.0 && !parts.is_empty() {
                    self.push(rebuild(parts).gated(*probability), count);
                }
                // the sampler's error is given no credit for the coin
                up(tv * count as f64)
            }
            Event::RandomAllocation { event, num_selected, num_steps } => {
                let (parts, tv) = reduce(event);
                match *num_selected {
                    0 => {}
                    k if k == *num_steps => self.push_all(parts, count.saturating_mul(k)),
                    _ if parts.is_empty() => {}
                    num_selected => {
                        let event = Box::new(rebuild(parts));
                        self.push(Event::RandomAllocation { event, num_selected, num_steps: *num_steps }, count);
                    }
                }
                // every step is taken by its sampler, with the record or without
                up(up(tv * *num_steps as f64) * count as f64)
            }
            // nothing is drawn, so nothing is used
            Event::SampledWithoutReplacement { sample_size: 0, event, .. }
            | Event::SampledWithReplacement { sample_size: 0, event, .. } => up(reduce(event).1 * count as f64),
            Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
                self.add_subset((*source_dataset_size, *sample_size), event, count)
            }
            Event::SampledWithReplacement { source_dataset_size, sample_size, event } => {
                let (parts, tv) = reduce(event);
                if !parts.is_empty() {
                    let event = Box::new(rebuild(parts));
                    let (source_dataset_size, sample_size) = (*source_dataset_size, *sample_size);
                    self.push(Event::SampledWithReplacement { source_dataset_size, sample_size, event }, count);
                }
                up(tv * count as f64)
            }
            Event::UserUnit { records_per_user, event } => self.add_user(*records_per_user, event, count),
            Event::Parallel { blocks } => self.add_parallel(blocks, count),
            // leaves, and repeat-and-select, whose number of runs is random: nothing is taken out of it
            other => self.push(other.clone(), count),
        }
    }

    /// `event` on a Poisson sample.
    fn add_poisson_sampled(&mut self, sampling_probability: f64, event: &Event, count: u64) -> f64 {
        let (parts, tv) = reduce(event);
        // a sampler may be as far from its law on every batch as on one: its error is not amplified by sampling
        let tv = up(tv * count as f64);
        if sampling_probability == 0.0 || parts.is_empty() {
            return tv;
        }
        if sampling_probability == 1.0 {
            self.push_all(parts, count);
            return tv;
        }
        let sampled = match &parts[..] {
            [(Event::PoissonSampled { sampling_probability: inner, event }, 1)] => {
                let q = (sampling_probability * inner).next_up().min(1.0);
                Event::PoissonSampled { sampling_probability: q, event: event.clone() }
            }
            _ => rebuild(parts).poisson_sampled(sampling_probability),
        };
        self.push(sampled, count);
        tv
    }

    /// `event` on a subset of so many records, of so many.
    fn add_subset(&mut self, (source_dataset_size, sample_size): (u64, u64), event: &Event, count: u64) -> f64 {
        let (parts, tv) = reduce(event);
        if sample_size == source_dataset_size {
            self.push_all(parts, count);
        } else if let [(Event::SampledWithoutReplacement { sample_size, event, .. }, 1)] = &parts[..] {
            // a uniform part of a uniform part
            let event = (**event).clone();
            self.push(event.sampled_without_replacement(source_dataset_size, *sample_size), count);
        } else if !parts.is_empty() {
            self.push(rebuild(parts).sampled_without_replacement(source_dataset_size, sample_size), count);
        }
        up(tv * count as f64)
    }

    /// `event`, for users with so many records.
    fn add_user(&mut self, records_per_user: u64, event: &Event, count: u64) -> f64 {
        let (parts, tv) = reduce(event);
        if records_per_user == 1 {
            self.push_all(parts, count);
            return up(tv * count as f64);
        }
        // a group of groups is a group; a group's releases compose like those of one record
        for (part, inner) in parts {
            let (records, event) = match part {
                Event::UserUnit { records_per_user: within, event } => (records_per_user.saturating_mul(within), event),
                part => (records_per_user, Box::new(part)),
            };
            let group = event.of_group(records).unwrap_or(Event::UserUnit { records_per_user: records, event });
            self.push(group, count.saturating_mul(inner));
        }
        up(tv * count as f64)
    }

    /// One of `blocks` for each block of records.
    fn add_parallel(&mut self, blocks: &[Event], count: u64) -> f64 {
        // the distance between whole outputs: every block's sampler counts
        let (blocks, tv) = blocks.iter().fold((Vec::new(), 0.0), |(mut list, tv), block| {
            let (parts, block_tv) = reduce(block);
            list.push(rebuild(parts));
            (list, if block_tv == 0.0 { tv } else { up(tv + block_tv) })
        });
        self.push(Event::Parallel { blocks }, count);
        up(tv * count as f64)
    }

    fn push_all(&mut self, parts: Vec<(Event, u64)>, count: u64) {
        for (part, inner) in parts {
            match part {
                Event::Gaussian { noise_multiplier } => {
                    self.add_gaussian(noise_multiplier, count.saturating_mul(inner));
                }
                part => {
                    self.push(part, count.saturating_mul(inner));
                }
            }
        }
    }

    fn push(&mut self, part: Event, count: u64) -> f64 {
        let place = *self.place.entry(part.fingerprint()).or_insert_with(|| {
            self.parts.push((part, 0));
            self.parts.len() - 1
        });
        self.parts[place].1 = self.parts[place].1.saturating_add(count);
        0.0
    }

    fn add_gaussian(&mut self, noise_multiplier: f64, count: u64) {
        let own = if count == 1 {
            noise_multiplier
        } else {
            noise_multiplier / (count as f64).sqrt() * (1.0 - 4.0 * UNIT_ROUNDOFF)
        };
        match &mut self.gaussians {
            None => {
                self.gaussians = Some((own, self.parts.len()));
                self.single = Some((noise_multiplier, count));
                self.parts.push((Event::NoOp, 1));
            }
            Some((total, _)) => {
                // neither square overflows, and one that underflows adds nothing that the rounding does not cover
                let (small, large) = if own < *total { (own, *total) } else { (*total, own) };
                let ratio = small / large;
                *total = small / (1.0 + ratio * ratio).sqrt() * (1.0 - 8.0 * UNIT_ROUNDOFF);
                self.single = None;
            }
        }
    }

    fn finish(mut self) -> Vec<(Event, u64)> {
        if let Some((noise_multiplier, place)) = self.gaussians {
            // below, it is not rounded down by a factor
            let rounded = noise_multiplier >= f64::MIN_POSITIVE || matches!(self.single, Some((_, 1)));
            let pooled = if rounded { Event::gaussian(noise_multiplier) } else { Event::NonPrivate };
            self.parts[place].0 = pooled;
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(event: &Event) -> Vec<(Event, u64)> {
        event.exact(Relation::ZeroOut).unwrap().parts
    }

    #[test]
    fn one_sample_for_many_releases_is_not_many_samples() {
        let shared = Event::gaussian(4.0).self_composed(16).poisson_sampled(0.1);
        let fresh = Event::gaussian(4.0).poisson_sampled(0.1).self_composed(16);
        assert_eq!(parts(&fresh), [(Event::gaussian(4.0).poisson_sampled(0.1), 16)]);
        let [(Event::PoissonSampled { event, .. }, 1)] = &parts(&shared)[..] else { panic!() };
        let Event::Gaussian { noise_multiplier } = **event else { panic!() };
        assert!((noise_multiplier - 1.0).abs() < 1e-14 && noise_multiplier <= 1.0);
    }

    #[test]
    fn sampling_twice_none_and_all() {
        let twice = Event::laplace(1.0).poisson_sampled(0.5).poisson_sampled(0.25);
        let [(Event::PoissonSampled { sampling_probability, .. }, 1)] = &parts(&twice)[..] else { panic!() };
        assert!(*sampling_probability >= 0.125 && *sampling_probability < 0.125 + 1e-15);
        assert_eq!(parts(&Event::laplace(1.0).poisson_sampled(0.0)), []);
        assert_eq!(parts(&Event::NonPrivate.poisson_sampled(0.0)), []);
        assert_eq!(parts(&Event::laplace(1.0).poisson_sampled(1.0)), [(Event::laplace(1.0), 1)]);
        assert_eq!(parts(&Event::laplace(1.0).sampled_without_replacement(9, 9)), [(Event::laplace(1.0), 1)]);
        assert_eq!(parts(&Event::laplace(1.0).sampled_without_replacement(9, 0)), []);
        assert_eq!(parts(&Event::laplace(1.0).randomly_allocated(1)), [(Event::laplace(1.0), 1)]);
        let always =
            |k| Event::RandomAllocation { event: Box::new(Event::laplace(1.0)), num_selected: k, num_steps: 3 };
        assert_eq!((parts(&always(0)), parts(&always(3))), (vec![], vec![(Event::laplace(1.0), 3)]));
        let inexact = Event::laplace(1.0).approximate(1e-9).randomly_allocated(10).self_composed(2);
        let inexact = inexact.exact(Relation::ZeroOut).unwrap();
        assert_eq!(inexact.parts, [(Event::laplace(1.0).randomly_allocated(10), 2)]);
        assert!((inexact.total_variation / 2e-8 - 1.0).abs() < 1e-12 && inexact.total_variation >= 2e-8);
        let still = Event::MixtureOfGaussians {
            standard_deviation: 1.0,
            sensitivities: vec![0.0, 3.0],
            sampling_probs: vec![1.0, 0.0],
        };
        assert_eq!(parts(&still), []);
        let of_a_part = Event::laplace(1.0).sampled_without_replacement(4, 2).sampled_without_replacement(9, 4);
        assert_eq!(parts(&of_a_part), [(Event::laplace(1.0).sampled_without_replacement(9, 2), 1)]);
        assert_eq!(parts(&Event::gaussian(0.0)), [(Event::NonPrivate, 1)]);
        assert_eq!(parts(&Event::gaussian(1.0).self_composed(0)), []);
    }

    #[test]
    fn equal_parts_are_counted_and_errors_add_up() {
        let step = Event::gaussian(1.0).poisson_sampled(0.01).approximate(1e-12);
        let event = Event::composed(vec![step.clone().self_composed(10), Event::laplace(3.0), step.self_composed(5)]);
        let exact = event.exact(Relation::ZeroOut).unwrap();
        assert_eq!(exact.parts, [(Event::gaussian(1.0).poisson_sampled(0.01), 15), (Event::laplace(3.0), 1)]);
        assert!(exact.total_variation >= 15e-12 && exact.total_variation < 15.001e-12);
    }
}
