//! Plans: everything that is decided before the first record is read.
//!
//! From *public facts* ([`Problem`]) and a [`Budget`] an [`Algorithm`](crate::Algorithm) computes all its
//! hyper-parameters (its schedule) and the [`Event`] of all it will release; [`certify`] accounts that event.

use crate::intervals::Intervals;
pub use dpopt_mechanism::NotApplicable;
use dpopt_mechanism::SamplerError;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Evidence, Linear};
use dpopt_objective::records::{Directions, slots};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, Shown, special};
use dpopt_refusal::{Refusal, Remedy};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Public facts about a learning problem with a linear model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// n: number of records, which are rows, or units ([`record`](Self::record)). Public under zero-out and replace-one; under add-or-remove a public guess.
    pub rows: u64,
    /// d: number of features after encoding, the intercept included.
    pub features: usize,
    /// Largest possible number of non-zeros in an encoded row.
    pub nonzeros: usize,
    /// R: enforced l2 norm of every encoded row.
    pub row_norm: f64,
    /// The per-record loss; its `outputs()` times `features` is the number of weights.
    pub loss: Loss,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
    /// Where rows are expected to be strong; `None`: as words and levels are. Steers plans, and at what size of scores a calibration begins.
    #[serde(skip)]
    pub directions: Option<Arc<Directions>>,
    /// What the same curator releases before the method: a part of every plan's event. `None`: nothing.
    #[serde(skip)]
    pub prior_release: Option<PriorRelease>,
    /// What the same curator releases after the method, for the scale of its scores: a part of every plan's event. `None`: nothing.
    #[serde(skip)]
    pub calibrated: Option<Calibrated>,
    /// What it releases last, for the width of prediction intervals: a part of every plan's event. `None`: nothing.
    #[serde(skip)]
    pub intervals: Option<Intervals>,
    /// What a record is. By itself: a row, and a unit of its own.
    #[serde(skip)]
    pub record: RecordUnit,
}

/// What a record is, and what of it one unit has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordUnit {
    /// A row, which is a unit of its own.
    #[default]
    Row,
    /// A row; no unit has more than `most` of them, so that a guarantee for one of them is a guarantee for a group of so many.
    UnitsRow {
        /// k: most rows of a unit.
        most: NonZeroU64,
    },
    /// All rows of a unit; its loss is the mean of theirs.
    Unit {
        /// How many rows there are in all: public.
        rows: u64,
        /// No unit has more rows, if they are bounded.
        most: Option<NonZeroU64>,
    },
}

impl RecordUnit {
    /// What is clipped where units are protected, in a word or two: `unit`, or `row × k`. `None` where a row is a unit of its own.
    ///
    /// ```
    /// use dpopt_optimize::plan::RecordUnit;
    /// assert_eq!(RecordUnit::UnitsRow { most: 3u64.try_into()? }.clips().as_deref(), Some("row × 3"));
    /// assert_eq!(RecordUnit::Row.clips(), None);
    /// # Ok::<(), std::num::TryFromIntError>(())
    /// ```
    pub fn clips(self) -> Option<String> {
        match self {
            Self::Row => None,
            Self::UnitsRow { most } => Some(format!("row × {most}")),
            Self::Unit { .. } => Some("unit".into()),
        }
    }

    /// What a guarantee for units rests on besides.
    pub fn assumption(self) -> Option<Assumption> {
        match self {
            Self::Row => None,
            Self::UnitsRow { most } => Some(Assumption::enforced(format!(
                "no unit has more than {most} rows: further rows are dropped, chosen at random or by the owners of \
                 the rows, never by their contents; the guarantee of one row is extended to a group of {most}"
            ))),
            Self::Unit { .. } => Some(Assumption::enforced(
                "a record is all rows of a unit: the mean of its rows' gradients is clipped as one vector, whatever \
                 the number of rows",
            )),
        }
    }
}

/// What is released before a method's own; the method's plan is certified together with it.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorRelease {
    /// μ of Gaussian differential privacy that it is taken to cost when noise is planned. What it does cost is the event's.
    mu: f64,
    event: Event,
}

impl PriorRelease {
    /// Noise of `noise_multiplier` on `dimension` sums.
    pub fn gaussian(noise_multiplier: f64, dimension: usize, relation: Relation) -> Self {
        let drawn = SamplerError::rounded(dimension as f64);
        let event = drawn.on(Event::gaussian(noise_multiplier));
        Self { mu: relation.sum_sensitivity() / noise_multiplier, event }
    }

    /// All that `certificate` covers: a whole run of another plan, with what was released before that.
    pub fn run(certificate: &Certificate) -> Self {
        let budget = certificate.budget();
        Self { mu: special::gaussian_mu(budget.epsilon(), budget.delta()), event: certificate.event().clone() }
    }

    /// What of `mu` it leaves to a later Gaussian release.
    pub fn rest_of(&self, mu: f64) -> f64 {
        (mu * mu - self.mu * self.mu).max(0.0).sqrt()
    }
}

/// That the scale and the offsets of a model's scores are found by a few noisy sums after the method has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// Share of μ² that the calibration may spend.
    share: f64,
    /// What the whole run may spend, as μ of Gaussian differential privacy.
    mu: f64,
    /// The feature that is the same in all rows, or nearly, and what it is.
    pub intercept: Option<(u32, f64)>,
}

/// Budgets beyond this one calibrate as if they were this.
const MAX_MU: f64 = 8.0;

impl Calibrated {
    /// Sums, each over all records.
    pub const ROUNDS: u64 = 3;
    /// Share of μ² by default: what the method has less of is one part in forty of its noise.
    const USUAL_SHARE: f64 = 0.05;
    /// More offsets than these are not found: their derivatives would be most of the work.
    const MAX_OUTPUTS: usize = 64;

    /// Most noise in a mean residual of numbers, in halves of their range, with which it is still of use: predicted means are off by little to begin with.
    const MAX_NOISE_OF_NUMBERS: f64 = 0.01;
    /// Most noise in a mean residual of counts, in usual counts.
    const MAX_NOISE_OF_COUNTS: f64 = 0.05;

    /// Bound on what a record adds to a sum: few records of classes add more, those that are surely wrong, of numbers outliers, and counts that are
    /// many times what is expected.
    pub fn clip_norm(loss: Loss) -> f64 {
        match loss {
            Loss::Squared => 1.0,
            Loss::Poisson { .. } => 3.0,
            _ => std::f64::consts::SQRT_2,
        }
    }

    /// Whether the sums are worth their part of the budget.
    fn is_of_use(&self, problem: &Problem) -> bool {
        let noise = problem.calibration_noise(self) * Self::clip_norm(problem.loss);
        match problem.loss {
            Loss::Squared => noise <= Self::MAX_NOISE_OF_NUMBERS * problem.rows as f64,
            Loss::Poisson { .. } => noise <= Self::MAX_NOISE_OF_COUNTS * problem.rows as f64,
            _ => true,
        }
    }

    /// What the sums cost, as gradients.
    pub fn gradients(&self, problem: &Problem) -> f64 {
        Self::ROUNDS as f64 * problem.rows as f64
    }
}

impl Problem {
    /// Rows of norm 1 at most, each its own privacy unit, any of whose features may be other than zero, and nothing else known of them.
    pub fn new(rows: u64, features: usize, loss: Loss, neighbours: Neighbours) -> Self {
        Self {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: RecordUnit::default(),
            rows,
            features,
            nonzeros: features,
            row_norm: 1.0,
            loss,
            neighbours,
        }
    }

    /// With a calibration after the method for the usual share of the budget, where that is of use.
    #[must_use]
    pub fn with_usual_calibration(self, budget: Budget, intercept: Option<(u32, f64)>) -> Self {
        let with = self.with_calibration(budget, Calibrated::USUAL_SHARE, intercept);
        let of_use = with.calibrated.as_ref().is_some_and(|calibrated| calibrated.is_of_use(&with));
        Self { calibrated: with.calibrated.filter(|_| of_use), ..with }
    }

    /// With a calibration after the method, for `share` of μ² (0: none), where the loss and the budget allow for one: logistic, softmax, squared or Poisson, and δ > 0.
    #[must_use]
    pub fn with_calibration(self, budget: Budget, share: f64, intercept: Option<(u32, f64)>) -> Self {
        let possible =
            matches!(self.loss, Loss::Logistic { .. } | Loss::Softmax { .. } | Loss::Squared | Loss::Poisson { .. });
        if !possible || budget.delta() <= 0.0 || share.is_nan() || share <= 0.0 {
            return Self { calibrated: None, ..self };
        }
        // more noise than that is no loss, and less is nothing that an accountant has a bound for
        let mu = special::gaussian_mu(budget.epsilon(), budget.delta()).min(MAX_MU);
        let usable = |(_, value): &(u32, f64)| {
            *value > 0.0 && value.is_finite() && self.loss.outputs() <= Calibrated::MAX_OUTPUTS
        };
        let calibrated = Calibrated { share: share.min(0.5), mu, intercept: intercept.filter(usable) };
        let left = self.prior_release.as_ref().map_or(mu, |prior_release| prior_release.rest_of(mu));
        Self { calibrated: (left > 0.0).then_some(calibrated), ..self }
    }

    /// Noise multiplier of each sum of the calibration.
    pub fn calibration_noise(&self, calibrated: &Calibrated) -> f64 {
        let mu =
            self.prior_release.as_ref().map_or(calibrated.mu, |prior_release| prior_release.rest_of(calibrated.mu));
        let of_each = mu * (calibrated.share / Calibrated::ROUNDS as f64).sqrt();
        self.group() as f64 * self.relation().sum_sensitivity() / of_each
    }

    fn calibration(&self, calibrated: &Calibrated) -> Event {
        let outputs = calibrated.intercept.map_or(0, |_| self.loss.outputs());
        let dimension = self.weights().max((outputs + 1) * (outputs + 4) / 2);
        let drawn = SamplerError::rounded(Calibrated::ROUNDS as f64 * dimension as f64);
        drawn.on(Event::gaussian(self.calibration_noise(calibrated)).self_composed(Calibrated::ROUNDS))
    }

    /// With prediction intervals at this level, for the least share of μ² that is enough for so many records. `declared`: the range holds every target.
    ///
    /// # Errors
    /// If the loss has no intervals, δ is 0, or there are too few records.
    pub fn with_intervals(self, budget: Budget, level: f64, declared: bool) -> Result<Self, NotApplicable> {
        if !matches!(self.loss, Loss::Squared | Loss::Absolute | Loss::Huber { .. }) {
            return Err(NotApplicable::Option(
                Refusal::of("prediction intervals are for a number's mean: a regression with the squared, absolute or huber loss").or(Remedy::LeaveOut("intervals")),
            ));
        }
        if budget.delta() <= 0.0 {
            return Err(NotApplicable::Option(
                Refusal::of("prediction intervals are found with Gaussian noise, which needs delta > 0")
                    .or("give a small delta, for example 1e-6")
                    .or(Remedy::LeaveOut("intervals")),
            ));
        }
        let mu = special::gaussian_mu(budget.epsilon(), budget.delta()).min(MAX_MU);
        let left = self.prior_release.as_ref().map_or(mu, |prior_release| prior_release.rest_of(mu));
        let with = |share: f64| Self { intervals: Some(Intervals::new(level, declared, share, left)), ..self.clone() };
        let enough = Intervals::SHARES.into_iter().map(with).find(Self::has_narrow_intervals);
        let taken = enough.unwrap_or_else(|| with(Intervals::LARGEST_SHARE));
        taken.check_intervals()?;
        Ok(taken)
    }

    fn has_narrow_intervals(&self) -> bool {
        self.intervals
            .is_some_and(|intervals| intervals.margin(self.sensitivity()) <= intervals.usual_margin(self.rows))
    }

    /// Refuses intervals that so few records say too little of: noise would be most of what they are wider by.
    ///
    /// # Errors
    /// Why, with the number of records that would do.
    pub fn check_intervals(&self) -> Result<(), NotApplicable> {
        let Some(intervals) = &self.intervals else { return Ok(()) };
        let needed = intervals.least_rows(self.sensitivity());
        if self.rows >= needed {
            return Ok(());
        }
        let (what, rows) = (if self.is_pooled() { "units" } else { "rows" }, self.rows);
        let few = format!(
            "prediction intervals at level {} need at least {needed} {what} within this budget, and there are {rows}",
            Shown(intervals.level())
        );
        Err(NotApplicable::Option(
            Refusal::of(few).or("raise epsilon").or("ask for a lower level").or(Remedy::LeaveOut("intervals")),
        ))
    }

    /// Noise multiplier of each sum that the width of prediction intervals is found by.
    pub fn intervals_noise(&self, intervals: &Intervals) -> f64 {
        intervals.noise_multiplier(self.sensitivity())
    }

    /// How far a neighbour moves a sum, over the bound on what a record adds.
    pub fn sensitivity(&self) -> f64 {
        self.group() as f64 * self.relation().sum_sensitivity()
    }

    fn interval_sums(&self, intervals: &Intervals) -> Event {
        let drawn = SamplerError::rounded(Intervals::ROUNDS as f64 * self.weights() as f64);
        drawn.on(Event::gaussian(self.intervals_noise(intervals)).self_composed(Intervals::ROUNDS))
    }

    /// The method's share of the μ that is left to the method and what comes after it.
    pub fn method_mu(&self, mu: f64) -> f64 {
        if self.calibrated.is_none() && self.intervals.is_none() {
            return mu;
        }
        let taken = |calibrated: &Calibrated| calibrated.share * mu.min(calibrated.mu).powi(2);
        let calibration = self.calibrated.as_ref().map_or(0.0, taken);
        let intervals = self.intervals.map_or(0.0, |intervals| intervals.taken_of(mu));
        (mu * mu - calibration - intervals).max(0.0).sqrt()
    }

    /// The problem with only `features` of the features, for a part of a method whose whole plan pays for the prior release.
    pub fn with_features(&self, features: usize) -> Self {
        Self {
            features,
            nonzeros: self.nonzeros.min(features),
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            ..self.clone()
        }
    }

    /// What is released in all, where the method's part is this: what is certified, and what a curator is opened for.
    pub fn whole(&self, method: Event) -> Event {
        let after = self.calibrated.iter().map(|calibrated| self.calibration(calibrated));
        let after: Vec<Event> =
            after.chain(self.intervals.iter().map(|intervals| self.interval_sums(intervals))).collect();
        let method = match after.is_empty() {
            true => method,
            false => Event::composed(std::iter::once(method).chain(after).collect()),
        };
        let method = method.for_users_of(self.group());
        match &self.prior_release {
            Some(prior_release) => Event::composed(vec![prior_release.event.clone(), method]),
            None => method,
        }
    }

    /// How many of the records a unit has at most.
    pub fn group(&self) -> u64 {
        match self.record {
            RecordUnit::Row | RecordUnit::Unit { .. } => 1,
            RecordUnit::UnitsRow { most } => most.get(),
        }
    }

    /// Whether a record is all rows of a unit.
    pub fn is_pooled(&self) -> bool {
        matches!(self.record, RecordUnit::Unit { .. })
    }

    /// Where a record is a unit: the same with a row as record, for methods that take rows one by one. `None` if nothing bounds how many a unit has.
    pub fn by_row(&self) -> Option<Self> {
        match self.record {
            RecordUnit::Unit { rows, most } => {
                let most = most?;
                let rows = slots(rows, self.rows, most);
                Some(Self { rows, record: RecordUnit::UnitsRow { most }, ..self.clone() })
            }
            _ => Some(self.clone()),
        }
    }

    /// Rows of a record, on average.
    pub fn rows_of_a_record(&self) -> f64 {
        match self.record {
            RecordUnit::Unit { rows, most } => {
                let mean = rows as f64 / self.rows.max(1) as f64;
                most.map_or(mean, |most| mean.min(most.get() as f64)).max(1.0)
            }
            _ => 1.0,
        }
    }

    /// How neighbours differ in one unit.
    pub fn relation(&self) -> Relation {
        self.neighbours.relation
    }

    /// What its records contribute.
    pub fn objective(&self) -> Linear {
        Linear::new(self.loss, self.features, self.row_norm)
    }

    /// Upper bound on the norm of a record's gradient, where there is one.
    pub fn lipschitz(&self) -> Option<f64> {
        self.objective().known().lipschitz().map(|l| l.value())
    }

    /// Number of weights: outputs × features.
    pub fn weights(&self) -> usize {
        self.loss.outputs() * self.features
    }
}

/// Something that the privacy of a plan rests on, and why it may be believed.
///
/// ```
/// use dpopt_optimize::plan::Assumption;
/// let clipped = Assumption::enforced("each record's gradient has l2 norm at most the clip norm");
/// assert_eq!(clipped.to_string(), clipped.text());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    text: String,
    evidence: Evidence,
}

impl Assumption {
    /// A clip, a projection or a check makes it true of every record, or the curator makes it so itself.
    pub fn enforced(text: impl Into<String>) -> Self {
        Self { text: text.into(), evidence: Evidence::Enforced }
    }

    /// It follows from a proof about the code, whatever the records.
    pub fn proved(text: impl Into<String>) -> Self {
        Self { text: text.into(), evidence: Evidence::Proved }
    }

    /// It is stated and not checked, and no secret: it is the same on neighbouring data.
    pub fn public(text: impl Into<String>) -> Self {
        Self { text: text.into(), evidence: Evidence::Public }
    }

    /// It was tried on made-up records and not refuted, which is a test and no proof: what rests on it is of grade checked.
    pub fn checked(text: impl Into<String>) -> Self {
        Self { text: text.into(), evidence: Evidence::Checked }
    }

    /// Nothing but the caller's word says so, for every record that any neighbour could hold: what rests on it is research
    /// grade.
    pub fn assumed(text: impl Into<String>) -> Self {
        Self { text: text.into(), evidence: Evidence::Assumed }
    }

    /// The assumption as text, as reports show it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it may be believed.
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Why a claim that rests on `all` of these may be believed: it is as sure as the least sure of them, and one that rests on
    /// none is kept by the code.
    pub fn weakest(all: &[Self]) -> Evidence {
        all.iter().map(Self::evidence).fold(Evidence::Enforced, Evidence::and)
    }
}

impl Display for Assumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// That what code outside of this library says of a record is that record's `own`, and why it may be believed.
pub fn own_evidence(evidence: Evidence, own: &str) -> Assumption {
    match evidence {
        Evidence::Enforced | Evidence::Proved | Evidence::Public => {
            Assumption::proved(format!("{own}: each operation treats records one at a time"))
        }
        Evidence::Checked => Assumption::checked(format!(
            "{own}: tested on synthetic records before the first release, which is not a proof; that it returns for \
             every record is assumed"
        )),
        Evidence::Assumed => {
            Assumption::assumed(format!("assumed, not checked: {own}, and it returns for every record"))
        }
    }
}

/// How far a claim can be trusted, the surest first. It follows from what the claim rests on ([`Grade::resting_on`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Proved, enforced and tested; what is only told is public.
    Certified,
    /// Proved and enforced but for one thing: what code that is not ours does with a record was tried on made-up records before the first release, and not
    /// refuted.
    Checked,
    /// Not proved or not enforceable: no privacy claim but the caller's own. Off by default.
    Research,
}

impl Grade {
    /// Of a claim that may be believed for no better reason than `evidence`.
    ///
    /// ```
    /// use dpopt_objective::objective::Evidence;
    /// use dpopt_optimize::plan::Grade;
    /// assert_eq!(Grade::resting_on(Evidence::Public), Grade::Certified);
    /// assert_eq!(Grade::resting_on(Evidence::Checked), Grade::Checked);
    /// assert_eq!(Grade::resting_on(Evidence::Assumed), Grade::Research);
    /// ```
    pub fn resting_on(evidence: Evidence) -> Self {
        match evidence {
            Evidence::Enforced | Evidence::Proved | Evidence::Public => Self::Certified,
            Evidence::Checked => Self::Checked,
            Evidence::Assumed => Self::Research,
        }
    }
}

/// What a plan promises and costs, in terms every method shares. One row of `explain`.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Name of the method, as in `--method`.
    pub method: &'static str,
    /// The loss that the weights minimise; it may be a privacy-friendlier relative of the problem's (a shifted logistic
    /// loss, Huber's instead of squared). `dpopt::model::probability` reads its scores.
    pub loss: Loss,
    /// Noise standard deviation over the sensitivity bound C of the main release.
    pub noise_multiplier: f64,
    /// Number of noisy steps.
    pub steps: u64,
    /// Expected number of per-record gradient evaluations.
    pub gradients: f64,
    /// Predicted expected excess of the mean training loss over its minimum, from public facts only.
    pub predicted_excess_risk: f64,
    /// Upper bound on the standard deviation of the noise in one released weight: what is left of it in a direction
    /// without curvature. `None` where the plan has no such bound.
    pub weight_noise: Option<f64>,
    /// The event that the run will release, certified within the budget.
    pub certificate: Certificate,
    /// What the guarantee rests on, and why each item may be believed.
    pub assumptions: Vec<Assumption>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Summary {
    /// Why the guarantee may be believed: it is as sure as the least sure of its assumptions.
    pub fn rests_on(&self) -> Evidence {
        Assumption::weakest(&self.assumptions)
    }

    /// How far the claim can be trusted.
    pub fn grade(&self) -> Grade {
        Grade::resting_on(self.rests_on())
    }
}

/// A schedule (all hyper-parameters) with its certified summary.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Hyper-parameters and noise scales, serialised into the report.
    pub schedule: S,
    /// The part that plans of all methods share.
    pub summary: Summary,
}

/// Accounts `event`, and what is released before it, between the problem's neighbours against `budget` (the one generic check).
pub fn certify(event: &Event, problem: &Problem, budget: Budget) -> Result<Certificate, NotApplicable> {
    Ok(dpopt_privacy::certify(&problem.whole(event.clone()), problem.neighbours.within(budget))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_of_the_grade_of_its_least_sure_assumption() {
        let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6).unwrap());
        let certificate = dpopt_privacy::certify(&Event::gaussian(20.0), terms).unwrap();
        let resting_on = |assumptions: Vec<Assumption>| Summary {
            method: "any",
            loss: Loss::Squared,
            noise_multiplier: 20.0,
            steps: 1,
            gradients: 1.0,
            predicted_excess_risk: 1.0,
            weight_noise: None,
            certificate: certificate.clone(),
            assumptions,
            warnings: Vec::new(),
        };
        let all = [
            Assumption::enforced("clipped"),
            Assumption::proved("near its law"),
            Assumption::public("declared"),
            Assumption::checked("by itself"),
            Assumption::assumed("convex"),
        ];
        for subset in 0..1 << all.len() {
            let chosen: Vec<Assumption> =
                (0..all.len()).filter(|i| subset >> i & 1 == 1).map(|i| all[i].clone()).collect();
            let has = |evidence| chosen.iter().any(|a| a.evidence() == evidence);
            let expected = match (has(Evidence::Assumed), has(Evidence::Checked)) {
                (true, _) => Grade::Research,
                (false, true) => Grade::Checked,
                (false, false) => Grade::Certified,
            };
            assert_eq!(resting_on(chosen.clone()).grade(), expected, "{subset:b}");
        }
        assert_eq!(resting_on(all[..3].to_vec()).rests_on(), Evidence::Public);
    }
}
