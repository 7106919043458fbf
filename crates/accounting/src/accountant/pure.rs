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

/// Enlargement of sums of binomial masses: rounding of their logarithms, as far as it does not grow with the number of mechanisms.
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
            // the answer has probability 1 − p + p/k, another one p/k; ratios minus one, which keep their digits where ε is small
            let (k, kept) = (*num_buckets as f64, 1.0 - noise_parameter);
            match relation {
                Relation::ReplaceOne => ((k * kept / noise_parameter).ln_1p(), 0.0),
                // the loss on other buckets, ln(1/p), may exceed that on the answer
                _ => (((k - 1.0) * kept).ln_1p().max(-noise_parameter.ln()), 0.0),
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

/// k·ε, or the next number above it: never below the exact product. The fused operation rounds once, and what a product of numbers like
/// these leaves out (a whole k below 2^19, ε a multiple of 2^-1074) is a number itself, so its sign is exact.
fn times_up(k: f64, epsilon: f64) -> f64 {
    let product = k * epsilon;
    if k.mul_add(epsilon, -product) > 0.0 { product.next_up() } else { product }
}

/// a + b, or the next number above it: never below the exact sum, whose rest is exact too (Knuth's two-sum).
fn sum_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let of_b = sum - a;
    let rest = (a - (sum - of_b)) + (b - of_b);
    if rest > 0.0 { sum.next_up() } else { sum }
}

/// (ln(1 + q(e^ε − 1)), qδ), valid in both directions.
fn sampled(q: f64, epsilon: f64, delta: f64) -> (f64, f64) {
    let amplified = if epsilon > 30.0 { epsilon } else { (q * epsilon.exp_m1()).ln_1p() };
    (amplified, q * delta)
}

/// The composition as atoms of the loss.
struct Composition {
    /// (loss, ln mass) of L = Σ ±ε_i under P, without the infinite part; positive losses only. No loss is below the exact one.
    atoms: Vec<(f64, f64)>,
    /// Factor that covers rounding of the masses and of their sum.
    inflation: f64,
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
            // negative: away from zero, whatever the number of parts
            ln_kept = up(ln_kept + *count as f64 * (-delta).ln_1p());
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
        let draws: u64 = groups.iter().map(|(_, count)| count).sum();
        let mut atoms = vec![(0.0, 0.0)];
        for (epsilon, count) in groups {
            let p = 1.0 / (1.0 + (-epsilon).exp());
            let q = p * (-epsilon).exp();
            atoms = (0..=count)
                .map(|ups| (times_up(2.0 * ups as f64 - count as f64, epsilon), ln_binomial_mass(ups, count, p, q)))
                .flat_map(|(l, ln_p)| atoms.iter().map(move |(l0, ln_p0)| (sum_up(*l0, l), ln_p0 + ln_p)))
                .collect();
        }
        // p and 1 − p are off by at most 5u of themselves, each draw multiplies by one of them, and a sum of n terms loses nu
        let inflation = 1.0 + INFLATION + (8 * draws + atoms.len() as u64) as f64 * UNIT_ROUNDOFF;
        atoms.retain(|(l, ln_p)| *l > 0.0 && *ln_p > f64::NEG_INFINITY);
        // one mechanism keeps the δ it stated
        let lost = match &exact.parts[..] {
            [(part, 1)] => worst(part, relation).map_or(1.0, |(_, delta)| delta),
            _ => up(-f64::exp_m1(ln_kept)),
        };
        Ok(Self { atoms, inflation, lost, sum, total_variation: exact.total_variation })
    }

    /// Upper bound of the composition's δ. S = E(1 − e^{E−L})_+ grows with every loss and every mass, so losses and masses that are not below
    /// the exact ones give no less than the exact S; l − E is exact where l ≤ 2E (Sterbenz) and off by u of itself elsewhere, and 1 − e^−x is off by
    /// at most as much of itself as x is.
    fn delta(&self, epsilon: f64) -> f64 {
        let over: f64 = self
            .atoms
            .iter()
            .filter(|(l, _)| *l > epsilon)
            .map(|(l, ln_p)| (ln_p + ln_one_minus_exp_neg(l - epsilon)).exp())
            .sum();
        // below the sum something is left, however small
        let over = if epsilon >= self.sum { 0.0 } else { (over * self.inflation).clamp(f64::MIN_POSITIVE, 1.0) };
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

    /// Rounding of 30·0.1 to 3 took the largest loss off (values: 60 digits of the exact numbers that the floats are).
    #[test]
    fn the_largest_loss_is_not_rounded_away() {
        let event = Event::ApproxDp { epsilon: 0.1, delta: 0.0 }.self_composed(30);
        let at_sum = delta(&event, 3.0);
        assert!((6.695e-25..1e-23).contains(&at_sum), "{at_sum:e}");
        let below = delta(&event, 2.999999997);
        assert!((1.2061014539883e-17..1.2062e-17).contains(&below), "{below:e}");
        let back = PureAccountant.epsilon(&event, Relation::ZeroOut, at_sum).unwrap().upper;
        assert!((3.0..=3.000_000_000_000_01).contains(&back), "{back}");
        // one mechanism is exact, and so are losses that add up without rounding
        let one = Event::ApproxDp { epsilon: 0.1, delta: 0.0 };
        assert_eq!(delta(&one, 0.1), 0.0);
        assert!(delta(&one, 0.1f64.next_down()) < 1e-17);
        assert_eq!(PureAccountant.epsilon(&one, Relation::ZeroOut, 0.0).unwrap().upper, 0.1);
        let quarters = Event::ApproxDp { epsilon: 0.25, delta: 0.0 }.self_composed(4);
        // at .5 only the largest loss, 1, is above
        let exact = (1.0 + (-0.25f64).exp()).powi(-4) * (1.0 - (-0.5f64).exp());
        assert!((delta(&quarters, 0.5) / exact - 1.0).abs() < 1e-9, "{exact:e}");
    }

    /// Sums of different losses: δ just below the exact sum of the floats, which the computed one may lie under.
    #[test]
    fn sums_of_losses_are_never_below_the_exact_ones() {
        let mut seen = 0;
        for seed in 1..200u64 {
            let losses: Vec<f64> = (1..6).map(|i| ((seed * 7919 * i) % 1000 + 1) as f64 / 1000.0).collect();
            let event = Event::composed(losses.iter().map(|e| Event::PureStream { epsilon: *e }).collect());
            // the sum of the floats in units of 2^-63, which all of them are multiples of
            let exact: i128 = losses.iter().map(|e| (e * 2f64.powi(63)) as i128).sum();
            let near = losses.iter().sum::<f64>();
            for epsilon in [near.next_down(), near, near.next_up()] {
                let above = exact - (epsilon * 2f64.powi(63)) as i128;
                if above <= 0 {
                    continue;
                }
                seen += 1;
                let all: f64 = losses.iter().map(|e| 1.0 / (1.0 + (-e).exp())).product();
                let truth = all * above as f64 * 2f64.powi(-63);
                let said = delta(&event, epsilon);
                assert!(said >= truth * (1.0 - 1e-12), "{losses:?} {epsilon}: {said:e} {truth:e}");
            }
        }
        assert!(seen > 200, "{seen}");
    }

    /// Where nearly every answer is random ε is small, and a quotient near one has lost its digits.
    #[test]
    fn randomized_response_with_a_small_epsilon() {
        for (p, k) in [(1.0 - 1e-10, 2u64), (1.0 - 3e-13, 7), (0.3, 4)] {
            let kept = 1.0 - p;
            let event = Event::RandomizedResponse { noise_parameter: p, num_buckets: k };
            let said = |relation| worst(&event, relation).unwrap().0;
            // ln(1 + x) by its series where x is small; 1 − p is exact from .5 on
            let series = |x: f64| if x < 1e-6 { x - x * x / 2.0 + x * x * x / 3.0 } else { x.ln_1p() };
            let replaced = series(k as f64 * kept / p);
            assert!((said(Relation::ReplaceOne) / replaced - 1.0).abs() < 1e-14, "{p}");
            let removed = series((k - 1) as f64 * kept).max(series(kept / p));
            assert!((said(Relation::ZeroOut) / removed - 1.0).abs() < 1e-14, "{p}");
            assert!(said(Relation::ReplaceOne) >= replaced && said(Relation::ZeroOut) >= removed);
        }
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
