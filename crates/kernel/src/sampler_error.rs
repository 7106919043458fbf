//! How far a run's samplers are from their exact laws, counted twice: by a plan from public facts, which pays for it in δ, and by
//! the curator as the run draws, which refuses what exceeds the plan's number.

use dpopt_noise::PoissonSkips;
use dpopt_privacy::Event;
use std::ops::{Add, Mul};

/// Upper bound on the total-variation distance between what samplers draw and their exact laws, added up over draws.
///
/// A run whose guarantee has δ > 0 pays for it: certify the event that [`on`](Self::on) gives.
///
/// ```
/// use dpopt_kernel::SamplerError;
/// use dpopt_privacy::Event;
/// // 100 sums of 7 coordinates with Gaussian noise, over Poisson batches of 5000 records
/// let step = SamplerError::rounded(7.0) + SamplerError::subset(5000);
/// let event = (step * 100.0).on(Event::gaussian(2.0).poisson_sampled(0.1).self_composed(100));
/// # assert!(matches!(event, Event::Approximate { .. }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct SamplerError(f64);

impl SamplerError {
    /// No distance: nothing is drawn, or drawn exactly.
    pub const NONE: Self = Self(0.0);

    /// `draws` variables of a rounded Gaussian or of a choice by levels: 2^-110 each (docs/proofs/rounded-gaussian.md, docs/proofs/frank-wolfe.md).
    pub fn rounded(draws: f64) -> Self {
        Self(draws * 7.703_719_777_548_943e-34)
    }

    /// `draws` variables of Laplace or discrete noise, or candidates of an exponential choice: 2^-170 each.
    pub fn fine(draws: f64) -> Self {
        Self(draws * 6.681_911_775_230_489e-52)
    }

    /// One Poisson subset of so many records.
    pub fn subset(records: u64) -> Self {
        Self(PoissonSkips::total_variation(records))
    }

    /// A total-variation distance that is proved elsewhere.
    pub fn proved(total_variation: f64) -> Self {
        Self(total_variation)
    }

    /// The total-variation distance.
    pub fn total_variation(self) -> f64 {
        self.0
    }

    /// [`on`](Self::on), where the budget's `delta` is not 0: a pure guarantee can't pay for samplers, it is of their exact laws.
    pub fn paid(self, event: Event, delta: f64) -> Event {
        if delta > 0.0 { self.on(event) } else { event }
    }

    /// `event` as samplers with this error draw it; with room for the roundings of sums, whatever their order.
    pub fn on(self, event: Event) -> Event {
        event.approximate(self.0 * (1.0 + 2f64.powi(-40)))
    }
}

impl Add for SamplerError {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Mul<f64> for SamplerError {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self(self.0 * times)
    }
}

/// A sum of products, to 2^-100 of itself: a head and what it leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    head: f64,
    rest: f64,
}

impl Sum {
    /// The sum and `each`·`times` more.
    pub(crate) fn and(self, each: f64, times: f64) -> Self {
        let product = each * times;
        let lost = each.mul_add(times, -product);
        // two-sum (Knuth)
        let sum = self.head + product;
        let shift = sum - self.head;
        let rest = (self.head - (sum - shift)) + (product - shift) + self.rest + lost;
        let head = sum + rest;
        Self { head, rest: rest - (head - sum) }
    }

    /// Whether it is at most 1 + 2^-52 times `most`; false for what is no number. Accountants charge δ for more than that:
    /// they round what they are told up by 4·2^-53 twice.
    pub(crate) fn is_within(self, most: Self) -> bool {
        (self.head - most.head) + (self.rest - most.rest) <= most.head * f64::EPSILON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_powers_they_stand_for() {
        assert_eq!(SamplerError::rounded(1.0).total_variation(), 2f64.powi(-110));
        assert_eq!(SamplerError::fine(1.0).total_variation(), 2f64.powi(-170));
    }

    #[test]
    fn what_is_counted_in_any_order_is_within_what_was_planned() {
        let kinds = [SamplerError::rounded(7.0), SamplerError::fine(1e6), SamplerError::subset(12_345)];
        let times = 100_003;
        let planned = kinds.into_iter().fold(SamplerError::NONE, |sum, kind| sum + kind * times as f64);
        let Event::Approximate { total_variation, .. } = planned.on(Event::NoOp) else { panic!() };
        let most = Sum::default().and(total_variation, 1.0);
        let mut drawn = Sum::default();
        for i in 0..3 * times {
            drawn = drawn.and(kinds[i % 3].total_variation(), 1.0);
        }
        assert!(drawn.is_within(most) && !most.is_within(drawn), "room is left");
        assert!(!drawn.and(1e-11 * total_variation, 1.0).is_within(most));
    }

    /// Sums of sizes that f64 can't hold together: nothing is lost on either side.
    #[test]
    fn a_small_draw_counts_beside_a_large_one() {
        let (large, small) = (2f64.powi(-80), 2f64.powi(-150));
        let most = Sum::default().and(large, 3.0).and(small, 2.0);
        let drawn = (0..3).fold(Sum::default().and(small, 1.0), |sum, _| sum.and(large, 1.0)).and(small, 1.0);
        assert!(drawn.is_within(most) && most.is_within(drawn));
        // what was opened may use up its part with all of its room
        let parts = [3e8 * large, 7.0 * small].map(|part| part * (1.0 + 2f64.powi(-40)));
        let whole = parts.iter().fold(Sum::default(), |sum, part| sum.and(*part, 1.0));
        assert!(Sum::default().and(parts[0], 1.0).and(7.0 * small, 1.0).is_within(whole));
        assert!(
            !Sum::default().and(f64::NAN, 1.0).is_within(whole)
                && !Sum::default().and(f64::INFINITY, 1.0).is_within(whole)
        );
    }
}
