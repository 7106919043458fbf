//! Privacy-loss-distribution accountant: exact one-step masses, connect-the-dots lattice, exponential tilt,
//! one Fourier transform, certified rounding (Sommer, Meiser, Mohammadi 2019; Doroshenko et al. 2022; docs/proofs/accounting-pld.md).
//!
//! Each direction of the neighbours is composed by itself and the larger result is reported; symmetric leaves
//! (fixed-size sampling, replace-one) enter both.

mod alias;
pub(crate) mod allocation;
mod atoms;
pub(crate) mod attained;
mod chi_square;
mod closed;
mod compose;
mod discrete_gaussian;
mod fixed_size;
mod grid;
#[cfg(test)]
mod injected;
mod lattice;
mod low_frequencies;
mod lower;
mod mixture;
pub(crate) mod objective;
mod pair;
mod parallel;
mod poisson;
mod product;
mod setting;
mod spectrum;
mod stated;
mod tilt;
mod tree;
mod truncated;

pub use compose::Quality;
pub(crate) use tree::has_group_pair;

use super::sampler_error::{delta_with_error, nothing_left};
use super::{Accountant, AccountingError, Bound, Slack};
use compose::{Composition, Reading, Unreachable};
use dpopt_event::{Event, Relation};
use pair::Pair;
use setting::Draws;
use std::sync::Arc;
use tree::Leaves;

/// Privacy loss distributions. Supports compositions of every event that has a dominating pair.
#[derive(Clone, Copy, Debug)]
pub struct Pld {
    /// How much time may be spent to lower the slack of a bound.
    pub quality: Quality,
}

impl Default for Pld {
    fn default() -> Self {
        Self { quality: Quality::FINE }
    }
}

type Direction = Vec<(Arc<dyn Pair>, u64)>;

fn directions(leaves: &Leaves) -> (Direction, Option<Direction>) {
    let forward = leaves.sides.iter().map(|(s, t)| (s.with_to_without.clone(), *t)).collect();
    let backward = leaves.sides.iter().map(|(s, t)| (s.without_to_with.clone(), *t)).collect();
    (forward, (!leaves.symmetric).then_some(backward))
}

impl Accountant for Pld {
    fn name(&self) -> &'static str {
        "pld"
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        tree::alternatives(event, relation).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let mut worst: Option<Bound> = None;
        for leaves in tree::alternatives(event, relation)? {
            let bound = self.leaves_epsilon(&leaves, relation, delta)?;
            if worst.as_ref().is_none_or(|w| bound.upper > w.upper) {
                worst = Some(bound);
            }
        }
        let mut worst = worst.ok_or_else(|| AccountingError::Parameter("the event has no parts".into()))?;
        // samplers' errors may only add to the loss
        let tolerance = 4.0 * self.quality.tolerance;
        self.attained(&mut worst, event, relation, |draws, _| lower::epsilon(draws, delta, tolerance));
        Ok(worst)
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        let bounds = self.claim_deltas(event, relation, &[epsilon])?;
        bounds.into_iter().next().ok_or_else(|| AccountingError::Parameter("no epsilon was given".into()))
    }
}

impl Pld {
    /// [`Accountant::epsilon`] with a certified lower bound on what a mechanism that the event describes attains in
    /// [`Bound::lower`]: where it has the dominating pair the gap is numerical slack.
    ///
    /// ```
    /// use dpopt_privacy::{Event, Relation, accountant::pld::Pld};
    /// let event = Event::gaussian(1.0).poisson_sampled(0.01).self_composed(100);
    /// let bound = Pld::default().bracket(&event, Relation::ZeroOut, 1e-6)?;
    /// let lower = bound.lower.unwrap();
    /// assert!(lower <= bound.upper && lower > 0.9999 * bound.upper);
    /// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
    /// ```
    pub fn bracket(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        Self { quality: Quality { bracket: true, ..self.quality } }.epsilon(event, relation, delta)
    }

    /// [`claim_delta`](Accountant::claim_delta) at each of `epsilons`, which ascend, by few compositions.
    pub(super) fn claim_deltas(
        &self,
        event: &Event,
        relation: Relation,
        epsilons: &[f64],
    ) -> Result<Vec<Bound>, AccountingError> {
        epsilons.iter().try_for_each(|epsilon| super::check_epsilon(*epsilon))?;
        let mut worst: Option<Vec<Bound>> = None;
        for leaves in tree::alternatives(event, relation)? {
            let bounds = self.leaves_deltas(&leaves, epsilons);
            match &mut worst {
                None => worst = Some(bounds),
                Some(worst) => {
                    worst.iter_mut().zip(bounds).filter(|(w, b)| b.upper > w.upper).for_each(|(w, b)| *w = b);
                }
            }
        }
        let mut worst = worst.ok_or_else(|| AccountingError::Parameter("the event has no parts".into()))?;
        let tolerance = 4.0 * self.quality.tolerance;
        for (bound, &epsilon) in worst.iter_mut().zip(epsilons) {
            self.attained(bound, event, relation, |draws, guess| lower::delta(draws, epsilon, guess, tolerance));
        }
        Ok(worst)
    }

    /// Sets the lower bound: the largest `read`(draws, upper bound) of a mechanism that the event describes, over both orders.
    fn attained(&self, bound: &mut Bound, event: &Event, relation: Relation, read: impl Fn(&Draws, f64) -> f64) {
        if !self.quality.bracket || bound.upper == 0.0 {
            return;
        }
        let mut lower = 0.0f64;
        for leaves in attained::alternatives(event, relation) {
            let (forward, backward) = directions(&leaves);
            let mut sides = vec![(forward, bound.with_to_without)];
            sides.extend(backward.map(|draws| (draws, bound.without_to_with)));
            let upper = |side: &(Direction, Option<f64>)| side.1.unwrap_or(bound.upper);
            sides.sort_by(|a, b| upper(b).total_cmp(&upper(a)));
            for side in sides.iter().filter(|(draws, _)| !draws.is_empty()) {
                // an order that costs less than what is attained already has nothing to add
                if upper(side) > lower {
                    lower = lower.max(read(&side.0, bound.upper));
                }
            }
        }
        // not clamped: a lower bound above the upper one would be a mistake that must be seen
        bound.lower = Some(lower);
    }

    fn leaves_epsilon(&self, leaves: &Leaves, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        if leaves.sides.is_empty() && leaves.total_variation == 0.0 {
            return Ok(Bound::exact(0.0, 0.0, "pld"));
        }
        if delta == 0.0 {
            return Err(tree::unsupported(
                relation,
                "delta 0 needs the pure accountant; give a positive delta, for example 1e-6",
            ));
        }
        let (forward, backward) = directions(leaves);
        let tv = leaves.total_variation;
        let first = directed_epsilon(&forward, delta, tv, self.quality)?;
        let second = match &backward {
            None => None,
            Some(draws) => {
                // a coarse bound that is already below the other direction need not be sharpened
                match directed_epsilon(draws, delta, tv, Quality::COARSE) {
                    Ok(coarse) if coarse.value <= first.value => Some(coarse),
                    _ => Some(directed_epsilon(draws, delta, tv, self.quality)?),
                }
            }
        };
        Ok(bound(first, second, tv))
    }

    fn leaves_deltas(&self, leaves: &Leaves, epsilons: &[f64]) -> Vec<Bound> {
        let charge = |epsilon: f64| delta_with_error(0.0, epsilon, leaves.total_variation);
        if leaves.sides.is_empty() {
            return epsilons.iter().map(|epsilon| Bound::new(charge(*epsilon).min(1.0), "pld")).collect();
        }
        let (forward, backward) = directions(leaves);
        let read = |draws: &Draws| {
            let mut readings = compose::deltas(draws, epsilons, self.quality);
            for (reading, epsilon) in readings.iter_mut().zip(epsilons) {
                reading.value = (reading.value + charge(*epsilon)).min(1.0);
            }
            readings
        };
        let mut second = backward.as_ref().map(|draws| read(draws).into_iter());
        let both = read(&forward).into_iter().map(|first| (first, second.as_mut().and_then(Iterator::next)));
        both.map(|(first, second)| bound(first, second, leaves.total_variation)).collect()
    }
}

fn bound(forward: Reading, backward: Option<Reading>, total_variation: f64) -> Bound {
    let back = backward.as_ref().map_or(forward.value, |r| r.value);
    let worst = match &backward {
        Some(b) if b.value > forward.value => b.clone(),
        _ => forward.clone(),
    };
    Bound {
        upper: worst.value,
        lower: None,
        accountant: "pld".into(),
        with_to_without: Some(forward.value),
        without_to_with: Some(back),
        slack: Some(Slack {
            inf_mass: worst.infinite,
            fft: worst.rounding,
            alias: worst.alias,
            total_variation,
            grid_interval: worst.step,
            window_points: worst.points,
            tilt: worst.lambda,
        }),
    }
}

fn unreachable_message(e: Unreachable, delta: f64) -> AccountingError {
    AccountingError::Unreachable(format!(
        "losses above {} have probability {:.3e}, so no finite epsilon is certified at delta {delta:e}; add noise or raise delta",
        grid::LARGEST_LOSS,
        e.infinite
    ))
}

/// ε of one direction. A total variation τ costs (1 + e^ε)τ at the *returned* ε: the fixed point is approached
/// from below, so it is finished by a verified step (docs/proofs/accounting-pld.md, "Samplers' error").
fn directed_epsilon(draws: &Draws, delta: f64, tv: f64, quality: Quality) -> Result<Reading, AccountingError> {
    let mut composition = Composition::new(draws, delta, quality);
    if tv == 0.0 {
        return composition.epsilon(delta).map_err(|e| unreachable_message(e, delta));
    }
    let too_large = || nothing_left(tv, delta);
    let mut epsilon = 0.0;
    for round in 0..200 {
        let charge = delta_with_error(0.0, epsilon, tv);
        #[cfg(test)]
        let charge = if injected::is(injected::Bug::FlatTotalVariation) { tv } else { charge };
        let left = delta - charge;
        if !(left > 0.0) {
            return Err(too_large());
        }
        if !composition.is_near(left) {
            composition = Composition::new(draws, left, quality);
        }
        let mut reading = composition.epsilon(left).map_err(|e| unreachable_message(e, delta))?;
        #[cfg(test)]
        if injected::is(injected::Bug::UnverifiedFixedPoint) && round == 1 {
            return Ok(reading);
        }
        if reading.value <= epsilon {
            // charged at `epsilon`, reached at a smaller one: `epsilon` holds
            reading.value = epsilon;
            return Ok(reading);
        }
        let step = 2f64.powi((round - 6).max(0)) * quality.tolerance * reading.value.max(1e-6);
        epsilon = reading.value + if round >= 2 { step } else { 0.0 };
    }
    Err(too_large())
}

#[cfg(test)]
mod tested;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traps;
