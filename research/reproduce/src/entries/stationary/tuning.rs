//! A way at its best setting of a public grid, and how its gradient norm falls with n.

use super::super::accelerated::Curve;
use crate::{Failure, Lab, Summary, Trial};
use dpopt::minimize::MinimizePlan;
use dpopt::report::chart::log_log_slope;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Plans that were made, by what they were made of.
#[derive(Default)]
pub(super) struct Plans(Mutex<HashMap<String, MinimizePlan>>);

impl Plans {
    /// The plan for `facts`, made by `make` if there is none yet.
    pub(super) fn of(
        &self,
        facts: impl Serialize,
        make: impl FnOnce() -> Result<MinimizePlan, Failure>,
    ) -> Result<MinimizePlan, Failure> {
        let key = serde_json::to_string(&facts)?;
        if let Some(plan) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(plan.clone());
        }
        let plan = make()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, plan.clone());
        Ok(plan)
    }
}

fn measured<S: Serialize + Sync>(
    lab: &Lab,
    (phase, repeats): (&str, u32),
    settings: &[S],
    walk: &(impl Fn(&S, Trial) -> Result<f64, Failure> + Sync),
) -> Result<Vec<Summary>, Failure> {
    let results = lab.trials(phase, settings, repeats, walk)?;
    Ok(results.into_iter().map(Summary::of).collect())
}

/// The best of a grid by two runs each, of the three best by four more, and `fresh` runs of it.
pub(super) fn tuned<S: Copy + Serialize + Sync>(
    lab: &Lab,
    grid: &[S],
    fresh: u32,
    walk: impl Fn(&S, Trial) -> Result<f64, Failure> + Sync,
) -> Result<(S, Summary), Failure> {
    let mut left = grid.to_vec();
    for (phase, repeats, count) in [("grid", 2, 3), ("again", 4, 1)] {
        if left.len() > count {
            let found = measured(lab, (phase, repeats), &left, &walk)?;
            let mut order: Vec<usize> = (0..left.len()).collect();
            order.sort_by(|&a, &b| found[a].mean.total_cmp(&found[b].mean));
            left = order.into_iter().take(count).map(|i| left[i]).collect();
        }
    }
    let found = measured(lab, ("fresh", fresh), &left, &walk)?;
    match (left.first(), found.first()) {
        (Some(setting), Some(summary)) => Ok((*setting, *summary)),
        _ => Err(Failure::of("an empty grid")),
    }
}

/// Least-squares slope of the logarithm of the norm on that of n.
pub(super) fn slope_in_n(curve: &Curve) -> f64 {
    log_log_slope(curve.points.iter().map(|(n, found)| (*n, found.mean))).map_or(f64::NAN, |fit| fit.slope)
}
