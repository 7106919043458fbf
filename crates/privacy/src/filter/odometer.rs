//! A ladder of filters: reads how much has been spent, valid at every time and all levels at once.
//!
//! Level j has its own ε_j and δ_j = δ·6/(π²j²), so that Σδ_j ≤ δ; the reading is the first level not exceeded, a
//! function of the public history. For the transcript S up to reading level j: P(S, j) ≤ e^{ε_j}·Q(S, j) + δ_j.

use super::{Filter, Refusal, Rule};
use crate::{Budget, Event, Relation};
use std::f64::consts::PI;

/// Filters with growing ε over one history.
///
/// ```
/// use dpopt_privacy::{Event, Relation, filter::{Odometer, Rule}};
/// let mut odometer = Odometer::new(Rule::Gdp, Relation::ZeroOut, &[0.5, 1.0, 2.0, 4.0], 1e-5)?;
/// odometer.charge(&Event::gaussian(5.0))?;
/// assert_eq!(odometer.reading(), Some(1.0));
/// # Ok::<(), dpopt_privacy::filter::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct Odometer {
    /// Filters from small to large ε; `None` once exceeded, for good.
    levels: Vec<Option<Filter>>,
}

impl Odometer {
    /// Levels `ladder` (ε > 0, increasing) sharing `delta`; the rules with a fixed price per event.
    pub fn new(rule: Rule, relation: Relation, ladder: &[f64], delta: f64) -> Result<Self, Refusal> {
        let refuse = |reason: String| Err(Refusal::Unsupported { rule, reason });
        if rule == Rule::Basic {
            return refuse("an odometer needs the renyi, zcdp or gdp rule".into());
        }
        if ladder.is_empty() || ladder.windows(2).any(|pair| !(pair[0] < pair[1])) {
            return refuse("the ladder of epsilons must be increasing and not empty".into());
        }
        let mut levels = Vec::with_capacity(ladder.len());
        for (i, epsilon) in ladder.iter().enumerate() {
            let j = (i + 1) as f64;
            let share = (delta * 6.0 / (PI * PI * j * j)).next_down();
            let total = match Budget::new(*epsilon, share) {
                Ok(total) => total,
                Err(error) => return refuse(error.to_string()),
            };
            levels.push(Some(Filter::new(rule, relation, total)?));
        }
        Ok(Self { levels })
    }

    /// Charges `event` before its release. Refused, with nothing changed, if the last level would be exceeded.
    pub fn charge(&mut self, event: &Event) -> Result<(), Refusal> {
        // the last level first: it is the run's limit
        let mut next = self.levels.clone();
        if let Some(last) = next.last_mut().and_then(Option::as_mut) {
            last.charge(event)?;
        }
        let rest = next.len() - 1;
        for level in &mut next[..rest] {
            if level.as_mut().is_some_and(|filter| filter.charge(event).is_err()) {
                *level = None;
            }
        }
        self.levels = next;
        Ok(())
    }

    /// The smallest ε of the ladder that is not exceeded.
    pub fn reading(&self) -> Option<f64> {
        self.levels.iter().flatten().next().map(|filter| filter.total().epsilon())
    }
}
