//! What a fit plans from public facts: the form of the encoder, the problem, the methods. Reads no row.

use super::super::error::FitError;
use super::super::forms;
use super::super::interactions::{PairChoice, as_costly};
use super::super::spread::SpreadPlan;
use super::super::stage_plan::{ClassLoss, Planned, Target};
use super::super::units::Units;
use super::NamedTable;
use crate::moment::TargetClip;
use dpopt_data::{Encoder, EncoderForm, FeatureKind, Layout, TargetRule, Unit};
use dpopt_linear::expected_risk;
use dpopt_objective::loss::Loss;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{PriorRelease, Problem, RecordUnit};
use dpopt_privacy::Budget;
use dpopt_refusal::{Refusal, Remedy, Step};
use std::sync::{Arc, PoisonError};

/// For several classes: forms of the encoder whose expected risks differ by a smaller factor are equally good, and the smallest is taken.
const CLOSE_RISK: f64 = 1.05;

/// More weights than this (512 MiB of them) are refused before anything is read.
const MAX_WEIGHTS: usize = 1 << 26;

impl NamedTable {
    /// Clips a target of which a moment is known where that takes from its mean about as much as noise moves predictions. What is planned is planned
    /// for a target scaled to [-1, 1], whatever its range. Reads no row.
    pub(super) fn clip_target(&mut self) -> Result<(), FitError> {
        let Some(moment) = self.options.target_moment else { return Ok(()) };
        // where no method applies, a run says why
        let planned = self.planned(self.target_kind().classes(), false);
        let risk = planned.and_then(|planned| Ok(planned.plan()?.summary().predicted_excess_risk)).unwrap_or(f64::NAN);
        self.target_clip = TargetClip::balanced(moment, risk);
        if let Some((lower, upper)) = self.target_clip.map(|clip| clip.range()) {
            self.options.schema.set_bounds(&self.target, lower, upper)?;
            self.layout.target = Some((self.target.clone(), TargetRule::Number { lower, upper, unit: Unit::Number }));
        }
        Ok(())
    }

    /// Takes the form of the encoder with the least expected risk that the methods asked for can work with, of those that spread numbers if there
    /// are any. Reads no row.
    pub(super) fn choose_form(&mut self) -> Result<(), FitError> {
        if self.options.embedding.is_some() {
            self.layout.form.spread = false;
            return Ok(());
        }
        let target = self.target_kind();
        let (loss, models) = target.models(target.classes());
        let budget = self.budget_split.of_each_model(models)?;
        let said = self.layout.clone();
        let mut forms = Vec::new();
        let methods = &self.options.method;
        let tuned = methods.method.is_some() || methods.tunes();
        // settled here: ranges that are found privately later change nothing of it
        // what is released before rows are encoded has no place where they are encoded first
        let remote = methods.remote;
        let first_model = self.options.memory.is_none()
            && !remote
            && self.units.is_none()
            && budget.delta() > 0.0
            && forms::first_model_is_cheap(&said, self.rows);
        let possible = forms::possible(&said, &self.options.schema, tuned, first_model);
        for layout in possible.into_iter().filter(|layout| !remote || !layout.form.private_pairs) {
            self.layout = layout;
            self.layout.form.spread = !remote && self.spread()?.is_some();
            let form = self.layout.form;
            if forms.iter().all(|(other, _)| *other != form)
                && let Ok(problem) = self.compared(loss, budget)
                && problem.directions.is_some()
                && let Ok(risk) = expected_risk(&problem, budget)
            {
                forms.push((form, risk));
            }
        }
        // the risk model takes numbers to lie better in their ranges than most do: spread wherever that can be done
        forms.sort_by(|a, b| (!a.0.spread).cmp(&!b.0.spread).then(a.1.total_cmp(&b.1)));
        if let (Loss::Softmax { .. }, Some(&(least, best))) = (loss, forms.first()) {
            // with several classes all risks lie close together where noise is large, and each feature more costs time
            let alike = |form: &&(EncoderForm, f64)| form.0.spread == least.spread && form.1 <= CLOSE_RISK * best;
            let close = forms.iter().take_while(alike).count();
            forms[..close].sort_by_key(|form| features(&said, form.0));
        }
        let fits = |place: &usize| {
            self.layout = said.with_form(forms[*place].0);
            self.options.method.method.is_none()
                || self.problem(loss).is_ok_and(|problem| {
                    self.options
                        .methods()
                        .named(&problem, budget, &self.options.method)
                        .is_some_and(|candidate| candidate.plan.is_ok())
                })
        };
        match (0..forms.len()).find(fits) {
            Some(place) => {
                forms.drain(..place);
                self.forms = forms;
            }
            None => {
                self.layout = said;
                self.layout.form.spread = false;
            }
        }
        Ok(())
    }

    /// How numbers are spread, if the form of the encoder asks for it.
    pub(super) fn spread(&self) -> Result<Option<SpreadPlan>, FitError> {
        if !self.layout.form.spread {
            return Ok(None);
        }
        let encoder = provisional(&self.layout)?;
        Ok(SpreadPlan::new(&encoder, self.counted(), self.run.relation, self.budget_split.model))
    }

    /// The problem's public facts for a target of `loss`.
    fn problem(&self, loss: Loss) -> Result<Problem, FitError> {
        let first = self.pair_choice(loss)?.map(|first| first.prior_release());
        let prior_release = match first {
            Some(first) => Some(first),
            None => self.before_all()?,
        };
        self.problem_after(loss, prior_release)
    }

    /// The problem's public facts for comparing encoder forms: the cost of a first model is assumed, and none is planned.
    fn compared(&self, loss: Loss, budget: Budget) -> Result<Problem, FitError> {
        let prior_release = match self.layout.form.private_pairs {
            false => self.before_all()?,
            true => as_costly(budget, self.run.relation),
        };
        self.problem_after(loss, prior_release)
    }

    /// What is released of the numbers before any model.
    fn before_all(&self) -> Result<Option<PriorRelease>, FitError> {
        Ok(self.spread()?.map(|plan| plan.prior_release(self.run.relation)))
    }

    /// How pairs of columns are chosen, if the form of the encoder asks for it.
    pub(super) fn pair_choice(&self, loss: Loss) -> Result<Option<Arc<PairChoice>>, FitError> {
        if !self.layout.form.private_pairs {
            return Ok(None);
        }
        if self.options.embedding.is_some() {
            return Err(FitError::Option(
                "pairs can be chosen privately for linear models only, and this is an embedding model; name the \
                 pairs, or give \"all\" or \"none\""
                    .into(),
            ));
        }
        if self.units.is_some() {
            return Err(FitError::Option(
                "pairs cannot be chosen privately where a unit has several rows; name the pairs, or give \"all\" or \
                 \"none\""
                    .into(),
            ));
        }
        if self.options.memory.is_some() {
            return Err(FitError::Option(
                Refusal::of("choosing pairs privately needs all rows in memory")
                    .or(Remedy::LeaveOut("memory"))
                    .or("name the pairs"),
            ));
        }
        let problem = self.problem_after(loss, self.before_all()?)?;
        let problem = Problem { directions: provisional(&self.layout)?.directions().map(Arc::new), ..problem };
        let mut last = self.first_model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, planned)) = last.as_ref().filter(|(of, _)| *of == problem) {
            return Ok(Some(planned.clone()));
        }
        let planned =
            Arc::new(PairChoice::new(problem.clone(), self.budget_split.model, self.options.method.intercept)?);
        *last = Some((problem, planned.clone()));
        Ok(Some(planned))
    }

    fn problem_after(&self, loss: Loss, prior_release: Option<PriorRelease>) -> Result<Problem, FitError> {
        let encoder = provisional(&self.layout)?;
        let features = encoder.dimension();
        let problem = Problem {
            rows: self.rows,
            features,
            nonzeros: encoder.max_nonzeros(),
            row_norm: encoder.row_norm(),
            loss,
            neighbours: self.run.neighbours(),
            directions: if self.layout.form.private_pairs {
                encoder.directions_after_weighing()
            } else {
                encoder.directions()
            }
            .map(Arc::new),
            prior_release,
            calibrated: None,
            intervals: None,
            record: RecordUnit::Row,
        };
        let problem = match &self.units {
            Some(units) => units.facts().pooled(problem),
            None => problem,
        };
        let per_feature = self.options.method.embedding.as_ref().map_or(loss.outputs(), |model| model.width());
        match features.checked_mul(per_feature) {
            Some(weights) if weights <= MAX_WEIGHTS => Ok(problem),
            _ => Err(FitError::Option(format!(
                "the model would have {features} features with {per_feature} weights each, more than {MAX_WEIGHTS} weights; \
                 use fewer features, or lower hash_bits and text_bits in the bounds file"
            ).into())),
        }
    }

    /// Number of weights of the model for `problem`.
    pub(super) fn weights(&self, problem: &Problem) -> usize {
        let embedding = self.options.method.embedding.as_ref();
        embedding.map_or(problem.weights(), |model| model.weights(problem.features, problem.loss.outputs()))
    }

    /// What is predicted, as far as the public declarations settle it.
    pub(super) fn target_kind(&self) -> Target {
        let number = Target::Number(self.options.loss.unwrap_or(Loss::Squared));
        let known = match &self.layout.target {
            Some((_, TargetRule::Number { .. })) => return number,
            Some((_, TargetRule::Classes { levels })) => Some(levels.len()),
            _ if self.options.regression => return number,
            _ => None,
        };
        Target::Classes { loss: self.options.loss.map_or(ClassLoss::Logistic, ClassLoss::OneAgainstRest), known }
    }

    /// A loss of one score tells two classes apart: a model file holds one model, and not one for every class against the rest.
    pub(super) fn one_model(&self) -> Result<(), FitError> {
        match self.target_kind() {
            Target::Classes { loss: ClassLoss::OneAgainstRest(_), known } if known != Some(2) => {
                let known = known.map_or("undeclared labels".into(), |classes| classes.to_string());
                let told = format!("this loss takes two classes, and `{}` has {known}", self.target);
                Err(FitError::Option(Refusal::of(told).or(Step::TwoClasses)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn plan_for(&self, classes: usize, compare: bool) -> Result<Planned, FitError> {
        let (loss, models) = self.target_kind().models(classes);
        let mut options = self.options.method.clone();
        options.constant = provisional(&self.layout)?.constant();
        let declared = matches!(self.layout.target, Some((_, TargetRule::Number { .. })));
        options.declared_range = declared && self.options.target_moment.is_none();
        Planned::new(self.problem(loss)?, models, &self.budget_split, (self.options.methods(), &options), compare)
    }

    /// What runs with `classes` classes; refused if nothing does.
    pub(super) fn planned(&self, classes: usize, compare: bool) -> Result<Arc<Planned>, FitError> {
        let planned = self.plan_for(classes, compare)?;
        let plan = planned.plan()?;
        let by_row = self.units.is_some() && !plan.problem().is_pooled();
        if self.options.memory.is_some() && self.units.as_ref().is_some_and(Units::are_shared) {
            let shared = Refusal::of("choosing among rows with several owners needs them in memory")
                .or(Remedy::LeaveOut("memory"));
            return Err(FitError::Option(shared));
        }
        if self.options.memory.is_some() && (by_row || !plan.runs_from_disk()) {
            return Err(RunError::InMemory { method: plan.summary().method }.into());
        }
        Ok(Arc::new(planned))
    }
}

/// Number of features of a form.
fn features(layout: &Layout, form: EncoderForm) -> usize {
    provisional(&layout.with_form(form)).map_or(usize::MAX, |encoder| encoder.dimension())
}

/// Which feature is the intercept.
pub(super) fn intercept(layout: &Layout) -> Result<Option<u32>, FitError> {
    Ok(provisional(layout)?.has_intercept().then_some(0))
}

/// An encoder with the shape of the one to come: ranges that are still unknown do not change it.
pub(super) fn provisional(layout: &Layout) -> Result<Encoder, FitError> {
    let mut layout = layout.clone();
    layout.target = None;
    for (column, kind) in &mut layout.features {
        if let FeatureKind::Numeric { bounds: bounds @ None, .. } = kind {
            *bounds = Some(dpopt_data::Bounds::new(column, 0.0, 1.0)?);
        }
    }
    Ok(Encoder::new(&layout)?)
}
