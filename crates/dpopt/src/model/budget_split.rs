//! How a budget is divided among the stages of a fit: private labels, private bounds, the model.
//!
//! The parts add up to at most the whole (basic composition), which stays valid when a later stage is planned from what
//! an earlier one released.

use dpopt_privacy::Budget;
use dpopt_privacy::budget::BudgetError;

/// Shares of the budget that preparation may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageShares {
    /// Share of ε and δ for finding the labels of an undeclared target, in (0, 1). Default 0.05.
    pub labels: f64,
    /// Share of ε for finding bounds of numeric columns, in (0, 1); `None`: bounds must be public.
    pub bounds: Option<f64>,
}

impl Default for StageShares {
    fn default() -> Self {
        Self { labels: 0.05, bounds: None }
    }
}

/// The budget of each stage; `None` for stages that do not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSplit {
    /// (ε, δ) of the label stage.
    pub labels: Option<Budget>,
    /// (ε, 0) of the bounds stage.
    pub bounds: Option<Budget>,
    /// (ε, δ) of the model stage.
    pub model: Budget,
}

/// Largest ε of (ε, δ) that noise is planned for: samplers' error counts e^ε-fold, so that a little beyond this nothing is certified, and noise matters no longer.
pub(crate) const MAX_PLANNED_EPSILON: f64 = 50.0;

impl BudgetSplit {
    /// Divides `whole`, or of an ε beyond [`MAX_PLANNED_EPSILON`] that much; a stage that is not needed costs nothing.
    pub fn new(
        whole: Budget,
        shares: StageShares,
        needs_labels: bool,
        needs_bounds: bool,
    ) -> Result<Self, BudgetError> {
        let whole = match whole.delta() > 0.0 {
            true => Budget::new(whole.epsilon().min(MAX_PLANNED_EPSILON), whole.delta())?,
            false => whole,
        };
        let label_share = if needs_labels { shares.labels } else { 0.0 };
        let bounds_share = if needs_bounds { shares.bounds.unwrap_or(0.0) } else { 0.0 };
        let part = |share: f64, delta: f64| {
            if share > 0.0 { Budget::new(whole.epsilon() * share, delta).map(Some) } else { Ok(None) }
        };
        let labels = part(label_share, whole.delta() * label_share)?;
        let bounds = part(bounds_share, 0.0)?;
        let spent = |f: fn(Budget) -> f64| labels.map_or(0.0, f) + bounds.map_or(0.0, f);
        // next_down: rounded parts never add up to more than the whole
        let rest = |total: f64, spent: f64| match spent {
            0.0 => total,
            spent => (total - spent).next_down().next_down(),
        };
        let model = Budget::new(
            rest(whole.epsilon(), spent(Budget::epsilon)),
            rest(whole.delta(), spent(Budget::delta)).max(0.0),
        )?;
        Ok(Self { labels, bounds, model })
    }

    /// The budget of each of `models` that share the model's equally, rounded down: added up, with every sum rounded up, they
    /// stay within it.
    ///
    /// # Errors
    /// If a share is 0.
    pub fn of_each_model(&self, models: usize) -> Result<Budget, BudgetError> {
        if models <= 1 {
            return Ok(self.model);
        }
        let count = models as f64;
        // each of `count` sums errs by an ulp to the nearest and one upward
        let share = |whole: f64| whole / count * (1.0 - (2.0 * count + 4.0) * f64::EPSILON);
        Budget::new(share(self.model.epsilon()), share(self.model.delta()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_epsilon_beyond_what_can_be_certified_is_not_planned_for() {
        let of = |epsilon, delta| {
            let whole = Budget::new(epsilon, delta).unwrap();
            BudgetSplit::new(whole, StageShares::default(), false, false).unwrap().model.epsilon()
        };
        assert_eq!((of(49.0, 1e-6), of(1e6, 1e-6)), (49.0, MAX_PLANNED_EPSILON));
        // Laplace noise has no such end
        assert_eq!(of(1e6, 0.0), 1e6);
    }

    #[test]
    fn stages_that_do_not_run_cost_nothing() {
        let whole = Budget::new(1.0, 1e-5).unwrap();
        let shares = StageShares { labels: 0.05, bounds: Some(0.1) };
        let none = BudgetSplit::new(whole, shares, false, false).unwrap();
        assert_eq!(none, BudgetSplit { labels: None, bounds: None, model: whole });
        let both = BudgetSplit::new(whole, shares, true, true).unwrap();
        assert_eq!(both.labels.unwrap().epsilon(), 0.05);
        assert_eq!((both.bounds.unwrap().epsilon(), both.bounds.unwrap().delta()), (0.1, 0.0));
        assert!((both.model.epsilon() - 0.85).abs() < 1e-12);
        let greedy = StageShares { labels: 0.5, bounds: Some(0.6) };
        assert!(BudgetSplit::new(whole, greedy, true, true).is_err());
    }

    /// ε that noise is planned for.
    fn planned(e: f64, d: f64) -> f64 {
        if d > 0.0 { e.min(MAX_PLANNED_EPSILON) } else { e }
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_whole(
            e in 1e-6f64..100.0, d in 0.0f64..0.5, l in 1e-3f64..0.4, b in 1e-3f64..0.5,
            needs_labels: bool, needs_bounds: bool,
        ) {
            let whole = Budget::new(e, d).unwrap();
            let parts = BudgetSplit::new(whole, StageShares { labels: l, bounds: Some(b) }, needs_labels, needs_bounds).unwrap();
            let sum = |f: fn(Budget) -> f64| parts.labels.map_or(0.0, f) + parts.bounds.map_or(0.0, f) + f(parts.model);
            prop_assert!(sum(Budget::epsilon) <= e && sum(Budget::delta) <= d);
            prop_assert!(sum(Budget::epsilon) >= planned(e, d) * (1.0 - 1e-12));
        }

        #[test]
        fn shares_of_models_never_exceed_theirs(e in 1e-6f64..100.0, d in 0.0f64..0.5, models in 1usize..3000) {
            let parts = BudgetSplit::new(Budget::new(e, d).unwrap(), StageShares::default(), false, false).unwrap();
            let each = parts.of_each_model(models).unwrap();
            let sum = |part: f64| (1..models).fold(part, |sum, _| (sum + part).next_up());
            prop_assert!(sum(each.epsilon()) <= e && sum(each.delta()) <= d);
            prop_assert!(each.epsilon() * models as f64 >= planned(e, d) * (1.0 - 1e-11));
        }
    }
}
