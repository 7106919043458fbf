//! Optimal composition of pure and (ε, δ)-DP mechanisms (Kairouz, Oh, Viswanath 2015).
//!
//! Every (ε, δ)-DP mechanism, interactive ones too, is post-processing of one sample of: loss +∞ with probability δ,
//! else ±ε as in randomized response. So the k-fold profile is 1 − Π(1−δ_i)·(1 − S(E)), S = E(1 − e^{E−L})_+ with L
//! a sum of ±ε_i. All terms are positive. Nothing is gained on a mechanism whose own profile is better than its ε.
//!
//! Covers: thesis theorem 6.2.9 (certified: the optimal composition in place of the formula)

use super::sampler_error::{delta_with_error, epsilon_with_error};
use super::{Accountant, AccountingError, Bound};
use dpopt_event::group;
use dpopt_event::special::{UNIT_ROUNDOFF, ln_binomial_mass, ln_one_minus_exp_neg};
use dpopt_event::{Event, Relation};

/// Trees of mechanisms that have a finite pure ε up to a δ of their own.
#[derive(Clone, Copy, Debug)]
pub struct PureAccountant;

const NAME: &str = "pure";

/// Largest number of loss values that are enumerated.
const MAX_ATOMS: u64 = 1 << 18;

/// Enlargement of sums of binomial masses: rounding of their logarithms (below 1e-11 at 2^18 terms).
const INFLATION: f64 = 1e-10;

/// One (ε, δ) that `event` satisfies in both directions by itself: the finite supremum of its loss with the least δ.
/// `None` where there is none (Gaussian mechanisms for instance).
pub(crate) fn worst(event: &Event, relation: Relation) -> Option<(f64, f64)> {
    let (epsilon, delta) = match event {
        Event::NoOp => (0.0, 0.0),
        Event::Laplace { noise_multiplier } if *noise_multiplier > 0.0 => {
            (relation.sum_sensitivity() / noise_multiplier, 0.0)
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity } => {
            (noise_parameter * *sensitivity as f64 * relation.sum_sensitivity(), 0.0)
        }
        Event::RandomizedResponse { noise_parameter, num_buckets } if *noise_parameter > 0.0 => {
            let k = *num_buckets as f64;
            let (keep, other) = (1.0 - noise_parameter + noise_parameter / k, noise_parameter / k);
            match relation {
                Relation::ReplaceOne => ((keep / other).ln(), 0.0),
                // the loss on other buckets, ln(1/(k·other)), may exceed ln(k·keep)
                _ => ((k * keep).ln().max(-(k * other).ln()), 0.0),
            }
        }
        Event::ExponentialMechanism { epsilon } | Event::PermuteAndFlip { epsilon } | Event::PureStream { epsilon } => {
            (*epsilon, 0.0)
        }
        Event::ApproxDp { epsilon, delta } | Event::EpsilonDelta { epsilon, delta } => (*epsilon, *delta),
        Event::PrivacyProfile { epsilons, deltas } => (*epsilons.last()?, *deltas.last()?),
        Event::Composed { events } => {
            let mut sum = (0.0, 0.0);
            for event in events {
                let (epsilon, delta) = worst(event, relation)?;
                sum = (up(sum.0 + epsilon), up(sum.1 + delta));
            }
            sum
        }
        Event::SelfComposed { event, count } => {
            let (epsilon, delta) = worst(event, relation)?;
            (*count as f64 * epsilon, *count as f64 * delta)
        }
        // whichever steps it takes part in
        Event::RandomAllocation { event, num_selected, .. } => {
            let (epsilon, delta) = worst(event, relation)?;
            (*num_selected as f64 * epsilon, *num_selected as f64 * delta)
        }
        Event::PoissonSampled { sampling_probability, event } => {
            let (epsilon, delta) = worst(event, relation)?;
            if relation == Relation::ReplaceOne && !group::admits_nothing(event) {
                // the output without the record may look like nothing else: ε stays, by joint convexity
                (epsilon, sampling_probability * delta)
            } else {
                sampled(*sampling_probability, epsilon, delta)
            }
        }
        // the coin says nothing of the record
        Event::Gated { probability, event } => {
            let (epsilon, delta) = worst(event, relation)?;
            (epsilon, probability * delta)
        }
        // the slot of an absent record is filled by another one: replace-one constants under zero-out too
        Event::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
            let replaced = group::for_replacement(event, relation)?;
            let (epsilon, delta) = worst(&replaced, Relation::ReplaceOne)?;
            sampled((*sample_size as f64 / *source_dataset_size as f64).next_up().min(1.0), epsilon, delta)
        }
        // a truncated negative binomial number of runs (Papernot, Steinke 2022, Corollary 3; docs/proofs/repeat-and-select.md)
        Event::RepeatAndSelect { event, mean, shape } if shape.is_finite() && *mean >= 1.0 => {
            let (epsilon, delta) = worst(event, relation)?;
            let runs = if *mean == 1.0 { 1.0 } else { 2.0 + shape };
            (delta == 0.0).then_some((runs * epsilon, 0.0))?
        }
        Event::UserUnit { records_per_user, event } => {
            let (epsilon, delta) = worst(event, relation)?;
            group::approximate(*records_per_user, epsilon, delta)
        }
        Event::Parallel { blocks } => {
            let mut most: (f64, f64) = (0.0, 0.0);
            for block in blocks {
                let (epsilon, delta) = worst(block, relation)?;
                most = (most.0.max(epsilon), most.1.max(delta));
            }
            most
        }
        _ => return None,
    };
    // stated numbers are what they are, computed ones are rounded up
    let stated = matches!(
        event,
        Event::ExponentialMechanism { .. }
            | Event::PermuteAndFlip { .. }
            | Event::PureStream { .. }
            | Event::ApproxDp { .. }
            | Event::EpsilonDelta { .. }
            | Event::PrivacyProfile { .. }
    );
    let (epsilon, delta) = if stated { (epsilon, delta) } else { (up(epsilon), up(delta)) };
    (epsilon.is_finite() && delta < 1.0).then_some((epsilon, delta))
}

fn up(x: f64) -> f64 {
    x * (1.0 + 8.0 * UNIT_ROUNDOFF)
}

/// (ln(1 + q(e^ε − 1)), qδ), valid in both directions.
fn sampled(q: f64, epsilon: f64, delta: f64) -> (f64, f64) {
    let amplified = if epsilon > 30.0 { epsilon } else { (q * epsilon.exp_m1()).ln_1p() };
    (amplified, q * delta)
}

/// The composition as atoms of the loss.
struct Composition {
    /// (loss, ln mass) of L = Σ ±ε_i under P, without the infinite part; positive losses only.
    atoms: Vec<(f64, f64)>,
    /// 1 − Π(1 − δ_i).
    lost: f64,
    /// Σ ε_i: the largest finite loss.
    sum: f64,
    total_variation: f64,
}

impl Composition {
    fn of(event: &Event, relation: Relation) -> Result<Self, AccountingError> {
        let refuse = |reason: String| Err(AccountingError::Unsupported { accountant: NAME, relation, reason });
        let exact = event.exact(relation).map_err(|e| AccountingError::Parameter(e.to_string()))?;
        let mut groups: Vec<(f64, u64)> = Vec::new();
        let (mut ln_kept, mut sum) = (0.0, 0.0);
        for (part, count) in &exact.parts {
            let Some((epsilon, delta)) = worst(part, relation) else {
                return refuse(format!("{part} has no finite pure epsilon; use the pld accountant"));
            };
            ln_kept += *count as f64 * (-delta).ln_1p() * (1.0 + 8.0 * UNIT_ROUNDOFF);
            let next = *count as f64 * epsilon;
            sum = if sum == 0.0 && *count == 1 { epsilon } else { up(sum + next) };
            match groups.iter_mut().find(|(e, _)| *e == epsilon) {
                Some(group) => group.1 = group.1.saturating_add(*count),
                None if epsilon > 0.0 => groups.push((epsilon, *count)),
                None => {}
            }
        }
        let too_many = |groups: &[(f64, u64)]| {
            groups
                .iter()
                .try_fold(1u64, |n, (_, count)| n.checked_mul(count.saturating_add(1)))
                .is_none_or(|n| n > MAX_ATOMS)
        };
        if too_many(&groups) {
            // the largest ε for all of them: an upper bound, tight when they are alike
            let largest = groups.iter().fold(0.0f64, |m, (e, _)| m.max(*e));
            let count = groups.iter().fold(0u64, |n, (_, c)| n.saturating_add(*c));
            groups = vec![(largest, count)];
        }
        if too_many(&groups) {
            return refuse(format!("more than {MAX_ATOMS} mechanisms; use the pld accountant"));
        }
        let mut atoms = vec![(0.0, 0.0)];
        for (epsilon, count) in groups {
            let p = 1.0 / (1.0 + (-epsilon).exp());
            let q = p * (-epsilon).exp();
            atoms = (0..=count)
                .map(|ups| ((2.0 * ups as f64 - count as f64) * epsilon, ln_binomial_mass(ups, count, p, q)))
                .flat_map(|(l, ln_p)| atoms.iter().map(move |(l0, ln_p0)| (l0 + l, ln_p0 + ln_p)))
                .collect();
        }
        atoms.retain(|(l, ln_p)| *l > 0.0 && *ln_p > f64::NEG_INFINITY);
        // one mechanism keeps the δ it stated
        let lost = match &exact.parts[..] {
            [(part, 1)] => worst(part, relation).map_or(1.0, |(_, delta)| delta),
            _ => up(-f64::exp_m1(ln_kept)),
        };
        Ok(Self { atoms, lost, sum, total_variation: exact.total_variation })
    }

    fn delta(&self, epsilon: f64) -> f64 {
        let over: f64 = self
            .atoms
            .iter()
            .filter(|(l, _)| *l > epsilon)
            .map(|(l, ln_p)| (ln_p + ln_one_minus_exp_neg(l - epsilon)).exp())
            .sum();
        // below the sum something is left, however small
        let over = if epsilon >= self.sum { 0.0 } else { (over * (1.0 + INFLATION)).clamp(f64::MIN_POSITIVE, 1.0) };
        // 1 − kept·(1 − S) = lost + kept·S
        if over == 0.0 { self.lost } else { up(self.lost + (1.0 - self.lost) * over).min(1.0) }
    }

    fn epsilon(&self, delta: f64) -> f64 {
        if self.delta(self.sum) > delta {
            return f64::INFINITY;
        }
        if self.delta(0.0) <= delta {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, self.sum);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high || high - low < 1e-13 * high {
                break;
            }
            if self.delta(middle) <= delta { high = middle } else { low = middle }
        }
        high
    }
}

impl Accountant for PureAccountant {
    fn name(&self) -> &'static str {
        NAME
    }

    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
        Composition::of(event, relation).map(|_| ())
    }

    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        super::check_delta(delta)?;
        let composition = Composition::of(event, relation)?;
        let upper = epsilon_with_error(
            delta,
            composition.total_variation,
            |d| composition.epsilon(d),
            |e| composition.delta(e),
        )?;
        if upper.is_infinite() {
            let least = composition.delta(composition.sum);
            return Err(AccountingError::Unreachable(format!(
                "the mechanisms' own deltas add up to {least:e}, more than delta {delta:e}; raise delta"
            )));
        }
        Ok(Bound::new(upper, NAME))
    }

    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        super::check_epsilon(epsilon)?;
        let composition = Composition::of(event, relation)?;
        let upper = delta_with_error(composition.delta(epsilon), epsilon, composition.total_variation);
        Ok(Bound::new(upper, NAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(event: &Event, epsilon: f64) -> f64 {
        PureAccountant.delta(event, Relation::ZeroOut, epsilon).unwrap().upper
    }

    #[test]
    fn optimal_composition() {
        for (count, epsilon, own, total, value) in [
            (10, 0.1, 0.0, 0.5, 0.009929626917389),
            (100, 0.1, 1e-8, 4.0, 3.522308847386e-5),
            (1000, 0.01, 0.0, 1.0, 1.083117054514e-4),
            (2, 1.0, 0.0, 1.5, 0.2102883689798),
            (30, 0.5, 0.0, 10.0, 0.002196183357715),
        ] {
            let event = Event::ApproxDp { epsilon, delta: own }.self_composed(count);
            let computed = delta(&event, total);
            assert!(
                (computed / value - 1.0).abs() < 1e-9 && computed > value * (1.0 - 1e-12),
                "{computed:e} {value:e}"
            );
            let back = PureAccountant.epsilon(&event, Relation::ZeroOut, computed).unwrap().upper;
            assert!((back / total - 1.0).abs() < 1e-8, "{back} {total}");
        }
        let mixed = [0.1, 0.2, 0.3, 0.5, 0.7].map(|epsilon| Event::PureStream { epsilon });
        let computed = delta(&Event::composed(mixed.to_vec()), 1.0);
        assert!((computed / 0.1032696321411 - 1.0).abs() < 1e-9, "{computed}");
    }

    #[test]
    fn pure_composition_adds_up() {
        let event =
            Event::composed(vec![Event::laplace(2.0), Event::DiscreteLaplace { noise_parameter: 0.1, sensitivity: 3 }]);
        let zero_out = PureAccountant.epsilon(&event, Relation::ZeroOut, 0.0).unwrap().upper;
        assert!((zero_out - 0.8).abs() < 1e-12 && zero_out >= 0.8);
        let replaced = PureAccountant.epsilon(&event, Relation::ReplaceOne, 0.0).unwrap().upper;
        assert!((replaced - 1.6).abs() < 1e-12);
        let sampled = Event::laplace(1.0).poisson_sampled(0.1);
        let value = PureAccountant.epsilon(&sampled, Relation::ZeroOut, 0.0).unwrap().upper;
        assert!((value - (1.0 + 0.1 * 1f64.exp_m1()).ln()).abs() < 1e-12);
        // what is stated for replacements says nothing of an absent record
        let sampled = Event::PureStream { epsilon: 1.0 }.poisson_sampled(0.1);
        let whole = PureAccountant.epsilon(&sampled, Relation::ReplaceOne, 0.0).unwrap().upper;
        assert!((1.0..1.0 + 1e-14).contains(&whole), "{whole}");
        assert!(PureAccountant.epsilon(&sampled, Relation::ZeroOut, 0.0).unwrap().upper < 0.16);
        // a fixed-size sample refills the slot: the base's ε doubles
        let fixed = Event::laplace(1.0).sampled_without_replacement(10, 1);
        let value = PureAccountant.epsilon(&fixed, Relation::ZeroOut, 0.0).unwrap().upper;
        assert!((value - (1.0 + 0.1 * 2f64.exp_m1()).ln()).abs() < 1e-12);
        // …also where ε was stated for zero-out
        let fixed = Event::PureStream { epsilon: 1.0 }.sampled_without_replacement(10, 1);
        let stated = PureAccountant.epsilon(&fixed, Relation::ZeroOut, 0.0).unwrap().upper;
        assert!((stated - value).abs() < 1e-12);
    }

    #[test]
    fn refusals() {
        assert!(PureAccountant.supports(&Event::gaussian(1.0), Relation::ZeroOut).is_err());
        assert!(PureAccountant.supports(&Event::laplace(0.0), Relation::ZeroOut).is_err());
        assert!(PureAccountant.supports(&Event::laplace(1.0).self_composed(1 << 20), Relation::ZeroOut).is_err());
        let own = Event::ApproxDp { epsilon: 0.1, delta: 1e-5 };
        assert!(matches!(PureAccountant.epsilon(&own, Relation::ZeroOut, 1e-6), Err(AccountingError::Unreachable(_))));
    }
}
