//! What a user can say about a method, and one look at every option's range, whichever method it is for: a number that no method
//! could use is a mistake, and the method that was chosen may be one that would not have said so.

use super::choices::{AdaptiveOptions, Domain, EmbeddingOptions, InnerSteps, RateSchedule};
use crate::mechanism::{Correlation, PeelingLaw};
use crate::plan::NotApplicable;
use dpopt_privacy::Shown;
use serde::{Deserialize, Serialize};

/// Hyper-parameters a user fixes; everything else is chosen from public facts. A field that a method does not have is
/// ignored by that method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MethodOptions {
    /// Only this method (a name of [`METHODS`](super::METHODS)).
    pub method: Option<String>,
    /// T: number of noisy steps.
    pub steps: Option<u64>,
    /// η on the mean loss.
    pub learning_rate: Option<f64>,
    /// How η falls during the run (descent methods).
    pub rate_schedule: Option<RateSchedule>,
    /// C: l2 bound on a record's gradient (for squared loss also the slope bound of Huber's loss).
    pub clip_norm: Option<f64>,
    /// q: probability of a record to enter a batch.
    pub sampling_probability: Option<f64>,
    /// β of heavy-ball momentum.
    pub momentum: Option<f64>,
    /// λ in units of the sum of losses.
    pub regularization: Option<f64>,
    /// How the noises of a stream's steps are correlated (dp-ftrl).
    pub correlation: Option<Correlation>,
    /// k: most features with a weight that is not zero, for methods that limit them; the others do not apply then.
    pub max_features: Option<u64>,
    /// Features kept after the first step, falling to `max_features` over the first half of the steps.
    pub initial_features: Option<u64>,
    /// Share of the budget for fitting the chosen features again.
    pub refit_share: Option<f64>,
    /// How a feature is picked (peeling).
    pub peeling: Option<PeelingLaw>,
    /// c: l2 bound on the change of a record's gradient since the snapshot, for variance-reduced methods.
    pub difference_clip: Option<f64>,
    /// q₁: probability of a record to enter a snapshot (dp-scsg-ht).
    pub snapshot_probability: Option<f64>,
    /// How many inner steps an epoch has (dp-scsg-ht).
    pub inner_steps: Option<InnerSteps>,
    /// λ: l1 norm of the weights at most this (frank-wolfe).
    pub l1_norm: Option<f64>,
    /// R: all slopes are computed anew every R steps (frank-wolfe).
    pub refresh_every: Option<u64>,
    /// Index of the feature that is always kept, not counted and not decayed. Set by whoever encodes the rows.
    pub intercept: Option<u32>,
    /// Shift of the logistic loss where a method minimises a shifted one; 0 asks for calibrated probabilities.
    pub shift: Option<f64>,
    /// c: gradients (features) are publicly known to decay like k^−c over their directions (regularized-descent).
    pub gradient_decay: Option<f64>,
    /// r: gradients (features) are publicly known to lie in r directions (regularized-descent).
    pub gradient_rank: Option<u64>,
    /// D: public guess of the minimiser's distance from 0 (regularized-descent); some methods answer within this ball
    /// (sparse-output-perturbation, sparse-exponential).
    pub distance: Option<f64>,
    /// An embedding model instead of a linear one.
    pub embedding: Option<EmbeddingOptions>,
    /// Ellipsoid, domain and clip of the adaptive methods.
    pub adaptive: AdaptiveOptions,
    /// Draws of the exponential mechanism that share the budget; the answer is their mean.
    pub draws: Option<u64>,
    /// The exponential mechanism evaluates the same number of losses whatever the data, at many times the cost.
    pub constant_time: Option<bool>,
}

/// Lowest and highest value, and whether the lowest itself is allowed.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    low_included: bool,
    high: f64,
    in_words: &'static str,
}

const POSITIVE: Range = Range { low: 0.0, low_included: false, high: f64::MAX, in_words: "a positive, finite number" };
const NOT_NEGATIVE: Range =
    Range { low: 0.0, low_included: true, high: f64::MAX, in_words: "a finite number, 0 or more" };
const PROBABILITY: Range = Range { low: 0.0, low_included: false, high: 1.0, in_words: "a number above 0, at most 1" };
/// The largest f64 below 1.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
const SHARE: Range = Range { low: 0.0, low_included: true, high: BELOW_ONE, in_words: "a number from 0, below 1" };

const fn closed(low: f64, high: f64, in_words: &'static str) -> Range {
    Range { low, low_included: true, high, in_words }
}

impl MethodOptions {
    /// Refuses numbers outside the range of every method that has the option, and names the option (as in Python; with dashes it
    /// is the flag of the command line). What a single method asks beyond that, its plan says.
    ///
    /// ```
    /// use dpopt::optimize::MethodOptions;
    /// let options = MethodOptions { clip_norm: Some(-1.0), ..MethodOptions::default() };
    /// assert_eq!(options.check().unwrap_err().to_string(), "clip_norm is -1; give a positive, finite number");
    /// ```
    ///
    /// # Errors
    /// The first number that is out of range.
    pub fn check(&self) -> Result<(), NotApplicable> {
        let adaptive = &self.adaptive;
        let selection = self.embedding.as_ref().and_then(|e| e.selection);
        let (ball_radius, box_radius) = match adaptive.domain {
            Some(Domain::Ball { radius }) => (Some(radius), None),
            Some(Domain::Box { radius }) => (None, Some(radius)),
            Some(Domain::Unconstrained) | None => (None, None),
        };
        let numbers = [
            ("ball_radius", ball_radius, POSITIVE),
            ("box_radius", box_radius, POSITIVE),
            ("learning_rate", self.learning_rate, POSITIVE),
            ("clip_norm", self.clip_norm, POSITIVE),
            ("sampling_probability", self.sampling_probability, PROBABILITY),
            ("momentum", self.momentum, SHARE),
            ("regularization", self.regularization, NOT_NEGATIVE),
            ("refit_share", self.refit_share, SHARE),
            ("difference_clip", self.difference_clip, POSITIVE),
            ("snapshot_probability", self.snapshot_probability, PROBABILITY),
            ("l1_norm", self.l1_norm, POSITIVE),
            ("shift", self.shift, closed(0.0, 20.0, "a number from 0 to 20")),
            ("gradient_decay", self.gradient_decay, NOT_NEGATIVE),
            ("distance", self.distance, POSITIVE),
            ("moment_share", adaptive.moment_share, closed(1e-3, 0.5, "a number from 0.001 to 0.5")),
            ("moment_ratio", adaptive.moment_ratio, closed(1.0, 100.0, "a number from 1 to 100")),
            ("second_momentum", adaptive.second_momentum, SHARE),
            ("noise_ratio", selection.and_then(|s| s.noise_ratio), closed(0.1, 100.0, "a number from 0.1 to 100")),
            ("level", selection.and_then(|s| s.level), closed(0.125, 9.0, "a number from 0.125 to 9")),
            ("count_clip_norm", selection.and_then(|s| s.count_clip_norm), POSITIVE),
        ];
        for (name, value, range) in numbers {
            let Some(value) = value else { continue };
            // NaN is in no range
            let above = value > range.low || (range.low_included && value == range.low);
            if !(above && value <= range.high) {
                return Err(NotApplicable::Option(format!("{name} is {}; give {}", Shown(value), range.in_words)));
            }
        }
        let counts = [
            ("steps", self.steps),
            ("max_features", self.max_features),
            ("initial_features", self.initial_features),
            ("refresh_every", self.refresh_every),
            ("gradient_rank", self.gradient_rank),
            ("draws", self.draws),
        ];
        match counts.iter().find(|(_, count)| *count == Some(0)) {
            Some((name, _)) => Err(NotApplicable::Option(format!("{name} is 0; give at least 1"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::optimize::tests::{budget, problem};
    use crate::optimize::{METHODS, candidates, choose};
    use dpopt_privacy::Relation;

    /// An option set to a number, as a user's text would.
    fn with(name: &str, value: &str) -> MethodOptions {
        let mut options = MethodOptions::default();
        let number: f64 = value.parse().unwrap();
        match name {
            "learning_rate" => options.learning_rate = Some(number),
            "clip_norm" => options.clip_norm = Some(number),
            "sampling_probability" => options.sampling_probability = Some(number),
            "momentum" => options.momentum = Some(number),
            "regularization" => options.regularization = Some(number),
            "refit_share" => options.refit_share = Some(number),
            "difference_clip" => options.difference_clip = Some(number),
            "snapshot_probability" => options.snapshot_probability = Some(number),
            "l1_norm" => options.l1_norm = Some(number),
            "shift" => options.shift = Some(number),
            "gradient_decay" => options.gradient_decay = Some(number),
            "distance" => options.distance = Some(number),
            "moment_share" => options.adaptive.moment_share = Some(number),
            "moment_ratio" => options.adaptive.moment_ratio = Some(number),
            "second_momentum" => options.adaptive.second_momentum = Some(number),
            "ball_radius" => options.adaptive.domain = Some(Domain::Ball { radius: number }),
            "box_radius" => options.adaptive.domain = Some(Domain::Box { radius: number }),
            "steps" => options.steps = Some(number as u64),
            "max_features" => options.max_features = Some(number as u64),
            "initial_features" => options.initial_features = Some(number as u64),
            "refresh_every" => options.refresh_every = Some(number as u64),
            "gradient_rank" => options.gradient_rank = Some(number as u64),
            "draws" => options.draws = Some(number as u64),
            other => panic!("{other}"),
        }
        options
    }

    const REAL: [&str; 17] = [
        "ball_radius",
        "box_radius",
        "learning_rate",
        "clip_norm",
        "sampling_probability",
        "momentum",
        "regularization",
        "refit_share",
        "difference_clip",
        "snapshot_probability",
        "l1_norm",
        "shift",
        "gradient_decay",
        "distance",
        "moment_share",
        "moment_ratio",
        "second_momentum",
    ];
    /// Zero is a value of these.
    const ZERO: [&str; 6] = ["momentum", "regularization", "refit_share", "shift", "gradient_decay", "second_momentum"];
    const WHOLE: [&str; 6] = ["steps", "max_features", "initial_features", "refresh_every", "gradient_rank", "draws"];

    #[test]
    fn no_option_takes_a_number_that_no_method_could_use_whatever_method_runs() {
        let p = problem(Loss::Logistic { shift: 0.0 }, Relation::ZeroOut);
        let refused = |name: &str, value: &str| {
            let options = with(name, value);
            let why = options.check().expect_err(&format!("{name} = {value}")).to_string();
            assert!(why.starts_with(&format!("{name} is ")), "{why}");
            // also where the chosen method has no such option
            let named = MethodOptions { method: Some("noisy-newton".into()), ..options.clone() };
            assert_eq!(choose(&p, budget(1.0), &named).err().map(|e| e.to_string()), Some(why.clone()));
            assert_eq!(choose(&p, budget(1.0), &options).err().map(|e| e.to_string()), Some(why.clone()));
            let rows = candidates(&p, budget(1.0), &options);
            assert_eq!(rows.len(), METHODS.len());
            assert!(rows.iter().all(|row| row.plan.as_ref().err().is_some_and(|e| e.to_string() == why)));
        };
        for name in REAL {
            for value in ["-1", "-1e-300", "nan", "inf", "-inf"] {
                refused(name, value);
            }
            match ZERO.contains(&name) {
                true => assert_eq!(with(name, "0").check(), Ok(())),
                false => refused(name, "0"),
            }
        }
        for name in WHOLE {
            refused(name, "0");
            assert_eq!(with(name, "1").check(), Ok(()));
        }
        for (name, value) in
            [("sampling_probability", "1.5"), ("momentum", "1"), ("shift", "20.1"), ("moment_ratio", "0.5")]
        {
            refused(name, value);
        }
    }

    #[test]
    fn every_numeric_option_is_looked_at() {
        // every field that holds a number when it is written: a new one must be added above
        let number = |name: &&String, value: &serde_json::Value| value.is_null() && name.as_str() != "method";
        let all = serde_json::to_value(MethodOptions::default()).unwrap();
        let names: Vec<String> =
            all.as_object().unwrap().iter().filter(|(n, v)| number(n, v)).map(|(n, _)| n.replace('-', "_")).collect();
        let others =
            ["rate_schedule", "correlation", "peeling", "inner_steps", "intercept", "embedding", "constant_time"];
        for name in names {
            let known =
                REAL.contains(&name.as_str()) || WHOLE.contains(&name.as_str()) || others.contains(&name.as_str());
            assert!(known, "{name} has no range in method_options.rs");
        }
    }
}
