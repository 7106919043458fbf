//! What every fit of linear models decides from public facts before a record is read, whatever the records are: how many models,
//! with which loss and share of the budget, by which method, and what all stages together are charged as.

use super::budget_split::BudgetSplit;
use super::error::FitError;
use crate::session::any_within;
use dpopt_mechanism::{LabelSelection, PrivateBounds};
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::{Candidate, MethodOptions, Prepared, Registry, Selection};
use dpopt_privacy::{Budget, Certificate, Neighbours, certify};
use serde::Deserialize;
use std::sync::Arc;

/// What the models predict: a class, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Target {
    /// A number, by this loss.
    Number(Loss),
    /// One of several classes.
    Classes {
        /// The loss, for any number of classes.
        loss: ClassLoss,
        /// How many there are; `None`: they are found privately.
        known: Option<usize>,
    },
}

/// A loss for any number of classes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClassLoss {
    /// Logistic for two classes, softmax for more.
    Logistic,
    /// A loss of one score; more than two classes are fitted one against the rest, each by a model with an equal share of the
    /// budget.
    OneAgainstRest(Loss),
}

impl ClassLoss {
    /// The loss for `classes`, and how many models of one it takes.
    pub fn models(self, classes: usize) -> (Loss, usize) {
        match self {
            Self::Logistic => match u32::try_from(classes).unwrap_or(u32::MAX) {
                0..=2 => (Loss::Logistic { shift: 0.0 }, 1),
                classes => (Loss::Softmax { classes }, 1),
            },
            Self::OneAgainstRest(loss) => (loss, if classes > 2 { classes } else { 1 }),
        }
    }
}

impl Target {
    /// The loss for `classes` (any number where a number is predicted), and how many models.
    pub fn models(self, classes: usize) -> (Loss, usize) {
        match self {
            Self::Number(loss) => (loss, 1),
            Self::Classes { loss, .. } => loss.models(classes),
        }
    }

    /// Whether the labels are to be found privately.
    pub fn finds_labels(self) -> bool {
        matches!(self, Self::Classes { known: None, .. })
    }

    /// How many classes are planned for before a record is read; what is refused for two of unknown ones is refused for more.
    pub fn classes(self) -> usize {
        match self {
            Self::Classes { known: Some(classes), .. } => classes,
            _ => 2,
        }
    }
}

/// Models that were planned: all methods that were compared, and the one to run.
pub struct Planned {
    /// What each model solves.
    pub problem: Problem,
    /// Number of models: one per class where there are several binary ones, else 1.
    pub models: usize,
    /// What each may spend.
    pub budget: Budget,
    /// The best prediction first; the named method alone where no others were asked for.
    pub candidates: Vec<Candidate>,
    /// Which of them runs and why, or why none does.
    pub selection: Result<Selection, NotApplicable>,
    /// Rows are remote, in partitions: every pass over them is an aggregate query.
    pub in_parts: bool,
}

impl Planned {
    /// Plans `models` equal models; beside a method that is asked for by name the others only to `compare`. Reads no record.
    pub fn new(
        problem: Problem,
        models: usize,
        budget_split: &BudgetSplit,
        (registry, options): (&Registry, &MethodOptions),
        compare: bool,
    ) -> Result<Self, FitError> {
        let budget = budget_split.of_each_model(models)?;
        let share = options.calibration();
        let problem = match (&options.embedding, models) {
            (None, 1) => {
                let intercept = options.intercept.zip(options.constant);
                match share {
                    Some(share) => problem.with_calibration(budget, share, intercept),
                    // weights that are to stay within a bound would leave it
                    None if options.bounds_weights() => problem,
                    None => problem.with_usual_calibration(budget, intercept),
                }
            }
            _ => problem,
        };
        if share.is_some_and(|share| share > 0.0) && problem.calibrated.is_none() {
            return Err(NotApplicable::Option(
                "calibration needs a single linear model, the logistic, squared or Poisson loss, and delta > 0; leave \
                 `calibration` out, or meet these conditions"
                    .into(),
            )
            .into());
        }
        let problem = match options.intervals() {
            None => problem,
            Some(level) => problem.with_intervals(budget, level, options.declared_range)?,
        };
        let one = if compare { None } else { registry.named(&problem, budget, options) };
        let candidates = one.map_or_else(|| registry.candidates(&problem, budget, options), |one| vec![one]);
        let selection = registry.select(&candidates, options);
        Ok(Self { problem, models, budget, candidates, selection, in_parts: options.remote })
    }

    /// The plan of the method that runs.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn plan(&self) -> Result<&dyn Prepared, NotApplicable> {
        match self.candidates[self.selection.clone()?.place].plan.as_ref() {
            Ok(plan) => Ok(&**plan),
            Err(why) => Err(why.clone()),
        }
    }
}

/// Everything of a fit that can be planned before the first record is read.
pub(super) struct StagePlan {
    /// The models; of two classes where the number of classes is to be found.
    pub planned: Arc<Planned>,
    /// Whether that is what runs: nothing it depends on is to be found privately.
    early: bool,
    /// How labels are found.
    pub labels: Option<LabelSelection>,
    /// How ranges are found.
    pub bounds: Option<PrivateBounds>,
    /// What the models may do: the certificate of each, or their whole budget.
    models: Vec<Certificate>,
}

impl StagePlan {
    /// Plans what can be planned; models of a number of classes that is not known yet are planned for two, so that what would be
    /// refused for any number is refused before it is paid for.
    pub fn new(
        target: Target,
        budget_split: &BudgetSplit,
        neighbours: Neighbours,
        bounds: Option<PrivateBounds>,
        plan: impl FnOnce(usize) -> Result<Arc<Planned>, FitError>,
    ) -> Result<Self, FitError> {
        let planned = plan(target.classes())?;
        let certificate = planned.plan()?.summary().certificate.clone();
        let labels = budget_split.labels.map(|b| LabelSelection::plan(neighbours.within(b))).transpose();
        let labels = labels.map_err(|why| FitError::Option(why.to_string().into()))?;
        // a model that depends on earlier outputs is not planned yet: its whole budget is what is charged
        let early = !target.finds_labels();
        let models = if early {
            vec![certificate; planned.models]
        } else {
            vec![
                certify(&any_within(budget_split.model), neighbours.within(budget_split.model))
                    .map_err(NotApplicable::from)?,
            ]
        };
        Ok(Self { planned, early, labels, bounds, models })
    }

    /// The models, if they are what runs.
    pub fn early(&self) -> Option<Arc<Planned>> {
        self.early.then(|| self.planned.clone())
    }

    /// The certificates of all stages, in order.
    pub fn parts(&self) -> Vec<&Certificate> {
        let labels = self.labels.iter().map(|l| l.certificate());
        labels.chain(self.bounds.iter().map(|b| b.certificate())).chain(&self.models).collect()
    }
}
