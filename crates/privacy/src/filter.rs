//! Privacy filters: budgets for events whose parameters may depend on earlier outputs (Rogers, Roth, Ullman,
//! Vadhan 2016; docs/proofs/ledger-filter.md).
//!
//! A filter decides *before* a release, from public history only, whether the proposed event still fits. Offered are
//! rules that are theorems under full adaptivity: one fixed Rényi order, zCDP, GDP (Brownian motion), sums of (ε, δ),
//! and a [fixed menu](Menu). Not offered, because the choice of what survives depends on outputs: "some order has
//! room", and "the loss distribution of what was realised fits" (the natural filter).

mod menu;
mod odometer;

pub use menu::Menu;
pub use odometer::Odometer;

use crate::accountant::{self, AccountingError, conversion, gdp, rdp, zcdp};
use crate::special::{UNIT_ROUNDOFF, gaussian_epsilon, gaussian_mu};
use crate::{Budget, Event, Relation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Share of δ that is kept for the δ of (ε, δ)-mechanisms and for the errors of samplers.
const RESERVED_SHARE: f64 = 1e-3;

/// How charges add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Rényi divergence at one order, fixed in advance from the totals (Feldman, Zrnic 2021). Takes every event with a
    /// finite divergence there: Gaussian, sampled, Laplace, objective perturbation, stated guarantees.
    Renyi,
    /// zCDP: all orders at once. Covers the (ε, δ) filter of Whitehouse, Ramdas, Rogers, Wu 2023 (Σε²/2 and Σδ) with the
    /// tighter conversion. Takes Gaussian and pure events, no samples of Gaussians.
    Zcdp,
    /// Σμ² for all-Gaussian histories; loses nothing against fixed parameters.
    Gdp,
    /// Σε_i ≤ ε and Σδ_i ≤ δ of each event's own certificate. Takes every event.
    Basic,
}

impl Rule {
    /// The name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Renyi => "renyi",
            Self::Zcdp => "zcdp",
            Self::Gdp => "gdp",
            Self::Basic => "basic",
        }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What an event costs under a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// ρ at the fixed order, ρ of zCDP, μ², or ε.
    pub amount: f64,
    /// δ that is set aside: own δ of (ε, δ)-mechanisms and (1 + e^ε)·τ; all of the event's δ under [`Rule::Basic`].
    pub delta: f64,
}

/// Why a filter says no.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// The event costs more than is left.
    #[error(
        "this run needs {:.4} % of the total budget (epsilon {epsilon}, delta {delta:e}) under the {rule} rule, but \
         only {:.4} % is left; give a smaller epsilon",
        100.0 * needed, 100.0 * left
    )]
    Exceeded {
        /// The rule by which charges add up.
        rule: Rule,
        /// Share of the total that the event needs.
        needed: f64,
        /// Share of the budget that is left, from 0 to 1.
        left: f64,
        /// The total ε of the budget.
        epsilon: f64,
        /// The total δ of the budget.
        delta: f64,
    },
    /// The δ that the event sets aside is more than is left for that.
    #[error(
        "this run needs {needed:e} of delta of its own (the delta of (epsilon, delta)-mechanisms, and sampler \
         errors), but the {rule} rule has only {left:e} left for that; give a smaller delta, or use a ledger under \
         the basic rule"
    )]
    DeltaExceeded {
        /// The rule by which charges add up.
        rule: Rule,
        /// δ that the event needs.
        needed: f64,
        /// δ that is left.
        left: f64,
    },
    /// The rule has no valid price for the event.
    #[error("the {rule} rule cannot charge this run: {reason}")]
    Unsupported {
        /// The rule by which charges add up.
        rule: Rule,
        /// Why, and what to do.
        reason: String,
    },
}

/// A budget that is spent adaptively.
///
/// ```
/// use dpopt_privacy::{Budget, Event, Relation, filter::{Filter, Rule}};
/// let mut filter = Filter::new(Rule::Gdp, Relation::ZeroOut, Budget::new(1.0, 1e-5)?)?;
/// // σ = 3.7306… is what one release may use; two of √2 as much fit as well, whatever the first one said
/// filter.charge(&Event::gaussian(5.2761))?;
/// filter.charge(&Event::gaussian(5.2800))?;
/// assert!(filter.charge(&Event::gaussian(100.0)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    rule: Rule,
    relation: Relation,
    total: Budget,
    /// The fixed order of [`Rule::Renyi`].
    order: f64,
    /// Limits on the sums of amounts and of set-aside δ.
    limit: Price,
    spent: Price,
}

impl Filter {
    /// An unspent filter for `total`. All limits come from `total` alone, before anything is known of the events.
    pub fn new(rule: Rule, relation: Relation, total: Budget) -> Result<Self, Refusal> {
        let (epsilon, delta) = (total.epsilon(), total.delta());
        let unsupported = |reason: &str| Err(Refusal::Unsupported { rule, reason: reason.into() });
        if delta == 0.0 && rule != Rule::Basic {
            return unsupported("it needs a positive total delta; use the basic rule");
        }
        let reserved = RESERVED_SHARE * delta;
        let main = (delta - reserved).next_down();
        let mut order = f64::NAN;
        let limit = match rule {
            Rule::Renyi => {
                let (best, budget) = conversion::best_order(epsilon, main);
                order = best;
                Price { amount: budget, delta: reserved }
            }
            Rule::Zcdp => Price { amount: zcdp_budget(epsilon, main), delta: reserved },
            Rule::Gdp => {
                let mu = gaussian_mu(epsilon, main);
                Price { amount: (mu * mu).next_down(), delta: reserved }
            }
            Rule::Basic => Price { amount: epsilon, delta },
        };
        if !(limit.amount > 0.0) {
            return unsupported("the totals are too small for it; use the basic rule");
        }
        Ok(Self { rule, relation, total, order, limit, spent: Price { amount: 0.0, delta: 0.0 } })
    }

    /// Price of `event`. Under [`Rule::Basic`] an event is charged ε at `own_delta`; the other rules ignore it.
    pub fn price(&self, event: &Event, own_delta: f64) -> Result<Price, Refusal> {
        let fail = |error: AccountingError| Refusal::Unsupported { rule: self.rule, reason: error.to_string() };
        let (amount, delta, total_variation) = match self.rule {
            Rule::Renyi => {
                let cost = rdp::cost(event, self.relation, self.order).map_err(fail)?;
                (cost.divergence, cost.delta, cost.total_variation)
            }
            Rule::Zcdp => {
                let cost = zcdp::cost(event, self.relation).map_err(fail)?;
                if cost.xi != 0.0 {
                    let reason = "a constant term of zCDP has no budget here; use the renyi rule".into();
                    return Err(Refusal::Unsupported { rule: self.rule, reason });
                }
                (cost.rho, cost.delta, cost.total_variation)
            }
            Rule::Gdp => {
                let (mu, total_variation) = gdp::mu(event, self.relation).map_err(fail)?;
                // a square that underflows is more than nothing
                let least = if mu > 0.0 { accountant::LEAST_DIVERGENCE } else { 0.0 };
                ((mu * mu * (1.0 + 4.0 * UNIT_ROUNDOFF)).max(least), 0.0, total_variation)
            }
            Rule::Basic => {
                let bound = accountant::epsilon(event, self.relation, own_delta).map_err(fail)?;
                (bound.upper, own_delta, 0.0)
            }
        };
        if !amount.is_finite() {
            let reason = match self.rule {
                Rule::Renyi => format!("its Rényi divergence of order {:.4} is infinite", self.order),
                _ => "its cost is infinite".into(),
            };
            return Err(Refusal::Unsupported { rule: self.rule, reason });
        }
        // samplers are charged at the total ε, where the guarantee is stated
        let error = if total_variation == 0.0 { 0.0 } else { (1.0 + self.total.epsilon().exp()) * total_variation };
        // under the basic rule it is the number that was asked for, and exactly the total may be asked for
        let exact = delta + error == 0.0 || self.rule == Rule::Basic;
        let delta = if exact { delta } else { (delta + error) * (1.0 + 16.0 * UNIT_ROUNDOFF) };
        Ok(Price { amount, delta })
    }

    /// Whether a price still fits.
    pub fn fits(&self, price: Price) -> Result<(), Refusal> {
        let next = self.add(price);
        // negated so that NaN does not fit
        if !(next.amount <= self.limit.amount) {
            return Err(Refusal::Exceeded {
                rule: self.rule,
                needed: price.amount / self.limit.amount,
                left: (1.0 - self.spent.amount / self.limit.amount).max(0.0),
                epsilon: self.total.epsilon(),
                delta: self.total.delta(),
            });
        }
        if !(next.delta <= self.limit.delta) {
            let left = (self.limit.delta - self.spent.delta).max(0.0);
            return Err(Refusal::DeltaExceeded { rule: self.rule, needed: price.delta, left });
        }
        Ok(())
    }

    /// Sums after a price, rounded up where they are not exact: four quarters are a whole.
    fn add(&self, price: Price) -> Price {
        let sum = |a: f64, b: f64| {
            let sum = a + b;
            // what rounding left out, exactly (Knuth's two-sum); not a number beyond the largest one
            let of_b = sum - a;
            let rest = (a - (sum - of_b)) + (b - of_b);
            if rest <= 0.0 { sum } else { sum.next_up() }
        };
        Price { amount: sum(self.spent.amount, price.amount), delta: sum(self.spent.delta, price.delta) }
    }

    /// Charges a price that [fits](Self::fits); nothing changes if it does not.
    pub fn spend(&mut self, price: Price) -> Result<(), Refusal> {
        self.fits(price)?;
        self.spent = self.add(price);
        Ok(())
    }

    /// Adds a price that was admitted in the past, even if it no longer fits.
    pub(crate) fn record(&mut self, price: Price) {
        self.spent = self.add(price);
    }

    /// Charges `event` before its release (for [`Rule::Basic`] use [`price`](Self::price) with a δ of its own).
    pub fn charge(&mut self, event: &Event) -> Result<(), Refusal> {
        if self.rule == Rule::Basic {
            let reason =
                "the event needs a delta of its own, which this call does not take; use `price` and `spend`".into();
            return Err(Refusal::Unsupported { rule: self.rule, reason });
        }
        self.spend(self.price(event, 0.0)?)
    }

    /// The rule by which charges add up.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// What may be spent in all.
    pub fn total(&self) -> Budget {
        self.total
    }

    /// The fixed Rényi order, under [`Rule::Renyi`].
    pub fn order(&self) -> Option<f64> {
        (self.rule == Rule::Renyi).then_some(self.order)
    }

    /// Share of the budget spent, in [0, 1]: the larger of the main budget's and the set-aside δ's.
    pub fn spent_share(&self) -> f64 {
        let delta = if self.limit.delta > 0.0 { self.spent.delta / self.limit.delta } else { 0.0 };
        (self.spent.amount / self.limit.amount).max(delta).min(1.0)
    }

    /// ε that the charges so far cost at the total δ, at most the total ε. For a run that goes on choosing adaptively
    /// the guarantee is the total; this is a reading, not a second guarantee (see [`Odometer`]).
    pub fn spent_epsilon(&self) -> f64 {
        if self.spent.amount == 0.0 && self.spent.delta == 0.0 {
            return 0.0;
        }
        let main = (self.total.delta() * (1.0 - RESERVED_SHARE)).next_down();
        let epsilon = match self.rule {
            Rule::Renyi => conversion::epsilon(self.order, self.spent.amount, main),
            Rule::Zcdp => zcdp_epsilon(self.spent.amount, main),
            Rule::Gdp => gaussian_epsilon(main, self.spent.amount.sqrt().next_up()),
            Rule::Basic => self.spent.amount,
        };
        // rounding of the limits aside, what fits is within the total
        if self.spent.amount <= self.limit.amount { epsilon.min(self.total.epsilon()) } else { epsilon }
    }
}

/// ε of ρ-zCDP at δ.
fn zcdp_epsilon(rho: f64, delta: f64) -> f64 {
    let at = |x: f64| conversion::epsilon(1.0 + x.exp(), rho * (1.0 + x.exp()), delta);
    at(conversion::golden_section(1e-6f64.ln(), 1e9f64.ln(), at))
}

/// Largest ρ whose (ε, δ) is within the totals, rounded down: bisection on the verified conversion.
fn zcdp_budget(epsilon: f64, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, epsilon.max(1e-300));
    while zcdp_epsilon(high, delta) <= epsilon {
        low = high;
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if zcdp_epsilon(middle, delta) <= epsilon { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
