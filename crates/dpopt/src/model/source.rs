//! What a fit learns from: what is public of it, and what each stage does with its records.

use super::budget_split::BudgetSplit;
use super::error::FitError;
use super::stage_plan::{Planned, Target};
use crate::run::RunOptions;
use crate::session::Closed;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, LabelSelection, PrivateBounds};
use dpopt_objective::objective::Evidence;
use dpopt_optimize::Solution;
use dpopt_privacy::{Budget, Certificate, Neighbours};
use std::sync::Arc;
use std::time::Duration;

/// A stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// The labels that are frequent enough are found.
    Labels,
    /// Ranges of numbers are found.
    Ranges,
    /// The model of this number is fitted.
    Model(usize),
}

/// What a fit learns from: what is public of it, and what each stage does with the records. Sealed: a [`NamedTable`] or a
/// [`BoundedMatrix`](super::BoundedMatrix), here or in partitions.
pub trait Source: Sized {
    /// What a run is given, besides what the source has.
    type Records;
    /// What a run keeps between its stages.
    type State<'a>
    where
        Self: 'a;
    /// What a run releases.
    type Answer;

    /// Options of the run.
    fn run_options(&self) -> &RunOptions;
    /// Which data sets are neighbours.
    fn neighbours(&self) -> Neighbours;
    /// What the whole run may spend.
    fn budget(&self) -> Budget;
    /// How it is divided among stages.
    fn budget_split(&self) -> &BudgetSplit;
    /// What the models predict.
    fn target(&self) -> Target;
    /// How ranges are found, if they are.
    fn ranges(&self) -> Result<Option<PrivateBounds>, FitError>;
    /// The models of so many classes, beside a method that is asked for by name all others to `compare`.
    fn plan(&self, classes: usize, compare: bool) -> Result<Arc<Planned>, FitError>;
    /// Whether a run compares a method that is asked for by name with the others.
    fn compares(&self) -> bool;
    /// How a ledger calls the run.
    fn name(&self) -> String;
    /// Refuses what would otherwise be noticed after the charge.
    fn check(&self, certificates: &[&Certificate], records: &Self::Records) -> Result<(), FitError>;
    /// What every stage rests on besides its plan.
    fn rests_on(&self) -> Evidence;
    /// The stream of a stage's noise, where so many stages came before the models.
    fn stream(&self, stage: StageKind, prepared: u64) -> u64;

    /// The first look at the records.
    fn begin(&self, records: Self::Records) -> Result<Self::State<'_>, FitError>;
    /// Finds the labels; how many there are.
    fn find_labels(
        &self,
        state: &mut Self::State<'_>,
        plan: &LabelSelection,
        curator: &mut Curator,
    ) -> Result<usize, FitError>;
    /// Finds the ranges of columns without bounds privately.
    fn find_ranges(
        &self,
        state: &mut Self::State<'_>,
        plan: &PrivateBounds,
        curator: &mut Curator,
    ) -> Result<(), FitError>;
    /// Settles how records are read for the models, by what was found; what the models rest on besides.
    fn settle(&self, state: &mut Self::State<'_>, planned: &Planned) -> Result<Evidence, FitError>;
    /// Fits model number `k`.
    fn fit(
        &self,
        state: &mut Self::State<'_>,
        planned: &Planned,
        k: usize,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Solution, FitError>;
    /// Whose records are protected, as the guarantee calls them, and whether a row may have several owners.
    fn units(&self, state: &Self::State<'_>) -> Option<(String, bool)>;
    /// The answer, made of what was released.
    fn answer(&self, state: Self::State<'_>, taken: Taken) -> Result<Self::Answer, FitError>;
}

/// What a run planned and released.
pub struct Taken {
    /// The plan of the run, with all methods that were compared.
    pub planned: Arc<Planned>,
    /// Released weights, one solution per model.
    pub solutions: Vec<Solution>,
    /// The closed session: the guarantee of all stages, and what they released.
    pub closed: Closed,
    /// Time that planning took.
    pub planning: Duration,
}
