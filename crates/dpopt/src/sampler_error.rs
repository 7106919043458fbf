//! How far a run's samplers are from their exact laws, counted twice: by a plan from public facts, which pays for it in δ, and by
//! the curator as the run draws, which refuses what exceeds the plan's number.

use dpopt_noise::PoissonSkips;
use dpopt_privacy::Event;
use std::ops::{Add, Mul};

/// Upper bound on the total-variation distance between what samplers draw and their exact laws, added up over draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct SamplerError(f64);

impl SamplerError {
    /// Nothing is drawn, or exactly.
    pub(crate) const NONE: Self = Self(0.0);

    /// `draws` variables of a rounded Gaussian or of a choice by levels: 2^-110 each (spec 19 §1.6).
    pub(crate) fn rounded(draws: f64) -> Self {
        Self(draws * 7.703_719_777_548_943e-34)
    }

    /// `draws` variables of Laplace or discrete noise, or candidates of an exponential choice: 2^-170 each.
    pub(crate) fn fine(draws: f64) -> Self {
        Self(draws * 6.681_911_775_230_489e-52)
    }

    /// One Poisson subset of so many records.
    pub(crate) fn subset(records: u64) -> Self {
        Self(PoissonSkips::total_variation(records))
    }

    /// As proved elsewhere.
    pub(crate) fn proved(total_variation: f64) -> Self {
        Self(total_variation)
    }

    /// The number.
    pub(crate) fn total_variation(self) -> f64 {
        self.0
    }

    /// [`on`](Self::on), where the budget's `delta` is not 0: a pure guarantee can't pay for samplers, it is of their exact laws.
    pub(crate) fn paid(self, event: Event, delta: f64) -> Event {
        if delta > 0.0 { self.on(event) } else { event }
    }

    /// `event` as samplers with this error draw it; with room for the roundings of sums, whatever their order.
    pub(crate) fn on(self, event: Event) -> Event {
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

/// What has been drawn so far: how often which error, so that a long run is added up in a few terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn(Vec<(f64, u64)>);

/// Different errors that are kept apart.
const KINDS: usize = 64;

impl Drawn {
    /// The sum with one more draw; rounded up, but where it is one product.
    pub(crate) fn with(&self, next: SamplerError) -> f64 {
        let known = self.0.iter().any(|(error, _)| *error == next.0);
        let times = |&(error, count): &(f64, u64)| error * (count + u64::from(error == next.0)) as f64;
        let sum: f64 = self.0.iter().map(times).sum::<f64>() + if known { 0.0 } else { next.0 };
        // a product is what a plan takes too; several are added up, with a rounding each
        let kinds = self.0.len() + usize::from(!known);
        if kinds == 1 { sum } else { sum * (1.0 + (2 * kinds) as f64 * f64::EPSILON) }
    }

    pub(crate) fn add(&mut self, next: SamplerError) {
        if next == SamplerError::NONE {
            return;
        }
        if let Some((_, count)) = self.0.iter_mut().find(|(error, _)| *error == next.0) {
            *count += 1;
        } else if self.0.len() < KINDS {
            self.0.push((next.0, 1));
        } else {
            // more kinds than a run has mechanisms and batches: one sum, a little larger
            self.0 = vec![(self.with(next), 1)];
        }
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
        let mut drawn = Drawn::default();
        for i in 0..3 * times {
            drawn.add(kinds[i % 3]);
        }
        let counted = drawn.with(SamplerError::NONE);
        assert!(counted <= total_variation && counted >= planned.total_variation() * (1.0 - 1e-12));
        assert!(drawn.with(SamplerError::rounded(1.0)) > total_variation);
        // and with many kinds nothing is lost
        let mut many = Drawn::default();
        (1..=1000).for_each(|i| many.add(SamplerError::rounded(f64::from(i))));
        let all = SamplerError::rounded(500_500.0).total_variation();
        assert!((many.with(SamplerError::NONE) / all - 1.0).abs() < 1e-11 && many.with(SamplerError::NONE) >= all);
    }
}
