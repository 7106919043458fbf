//! What a fit plans from public facts: the form of the encoder, the problem, the methods. Reads no row.

use super::super::error::FitError;
use super::super::forms;
use super::super::interactions::{PairChoice, as_costly};
use super::super::scheme::{ClassLoss, Planned, Target};
use super::super::spread::SpreadPlan;
use super::super::units::Units;
use super::Fit;
use crate::moment::TargetClip;
use dpopt_data::{Encoder, EncoderForm, FeatureKind, Layout, TargetRule, Unit};
use dpopt_linear::expected_risk;
use dpopt_objective::loss::Loss;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{Before, Problem, RecordOf};
use dpopt_privacy::Budget;
use std::sync::{Arc, PoisonError};

/// Of several classes, forms of the encoder whose expected risks differ by less are equally good, and the smallest is taken.
const CLOSE_RISK: f64 = 1.05;

/// More weights than this (512 MiB of them) are refused before anything is read.
const MOST_WEIGHTS: usize = 1 << 26;

impl Fit {
    /// Clips a target of which a moment is known where that takes from its mean about as much as noise moves predictions. What is planned is planned
    /// for a target scaled to [-1, 1], whatever its range. Reads no row.
    pub(super) fn clip_target(&mut self) -> Result<(), FitError> {
        let Some(moment) = self.options.target_moment else { return Ok(()) };
        // where no method applies, a run says why
        let planned = self.plan(self.target_kind().classes(), false);
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
        let budget = self.division.of_each_model(models)?;
        let said = self.layout.clone();
        let mut forms = Vec::new();
        let methods = &self.options.method;
        let tuned = methods.method.is_some() || methods.tunes();
        // settled here: ranges that are found privately later change nothing of it
        // what is released before rows are encoded has no place where they are encoded first
        let elsewhere = methods.elsewhere;
        let first_model = self.options.memory.is_none()
            && !elsewhere
            && self.units.is_none()
            && budget.delta() > 0.0
            && forms::first_model_is_cheap(&said, self.rows);
        let apart = self.options.schema.form.spread.is_none() && forms::parts_of_one_thing(&said);
        let possible = forms::possible(&said, &self.options.schema, tuned, first_model);
        for layout in possible.into_iter().filter(|layout| !elsewhere || !layout.form.private_pairs) {
            self.layout = layout;
            self.layout.form.spread = !apart && !elsewhere && self.spread()?.is_some();
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
                        .registry()
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
        Ok(SpreadPlan::new(&encoder, self.counted(), self.options.relation, self.division.model))
    }

    /// The problem's public facts for a target of `loss`.
    fn problem(&self, loss: Loss) -> Result<Problem, FitError> {
        let first = self.pair_choice(loss)?.map(|first| first.before());
        let before = match first {
            Some(first) => Some(first),
            None => self.before_all()?,
        };
        self.problem_after(loss, before)
    }

    /// The same for comparing forms: what a first model costs is told, and none is planned.
    fn compared(&self, loss: Loss, budget: Budget) -> Result<Problem, FitError> {
        let before = match self.layout.form.private_pairs {
            false => self.before_all()?,
            true => as_costly(budget, self.options.relation),
        };
        self.problem_after(loss, before)
    }

    /// What is released of the numbers before any model.
    fn before_all(&self) -> Result<Option<Before>, FitError> {
        Ok(self.spread()?.map(|plan| plan.before(self.options.relation)))
    }

    /// How pairs of columns are chosen, if the form of the encoder asks for it.
    pub(super) fn pair_choice(&self, loss: Loss) -> Result<Option<Arc<PairChoice>>, FitError> {
        if !self.layout.form.private_pairs {
            return Ok(None);
        }
        if self.options.embedding.is_some() {
            return Err(FitError::Option(
                "pairs are found privately for linear models; for an embedding model name the pairs, or say \"all\" or \"none\"".into(),
            ));
        }
        if self.units.is_some() {
            return Err(FitError::Option(
                "pairs are found privately for rows that are units of their own; with units of several rows name the pairs, or say \"all\" or \"none\"".into(),
            ));
        }
        if self.options.memory.is_some() {
            return Err(FitError::Option(
                "pairs are found privately with all rows in memory; leave out --memory, or name the pairs".into(),
            ));
        }
        let problem = self.problem_after(loss, self.before_all()?)?;
        let problem = Problem { directions: provisional(&self.layout)?.directions().map(Arc::new), ..problem };
        let mut last = self.first_model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, planned)) = last.as_ref().filter(|(of, _)| *of == problem) {
            return Ok(Some(planned.clone()));
        }
        let planned = Arc::new(PairChoice::new(problem.clone(), self.division.model, self.options.method.intercept)?);
        *last = Some((problem, planned.clone()));
        Ok(Some(planned))
    }

    fn problem_after(&self, loss: Loss, before: Option<Before>) -> Result<Problem, FitError> {
        let encoder = provisional(&self.layout)?;
        let features = encoder.dimension();
        let problem = Problem {
            rows: self.rows,
            features,
            nonzeros: encoder.max_nonzeros(),
            row_norm: encoder.row_norm(),
            loss,
            neighbours: self.options.neighbours(),
            directions: if self.layout.form.private_pairs {
                encoder.directions_after_weighing()
            } else {
                encoder.directions()
            }
            .map(Arc::new),
            before,
            calibrated: None,
            record: RecordOf::Row,
        };
        let problem = match &self.units {
            Some(units) => units.facts().pooled(problem),
            None => problem,
        };
        let per_feature = self.options.method.embedding.as_ref().map_or(loss.outputs(), |model| model.width());
        match features.checked_mul(per_feature) {
            Some(weights) if weights <= MOST_WEIGHTS => Ok(problem),
            _ => Err(FitError::Option(format!(
                "the model would have {features} features with {per_feature} weights each, more than {MOST_WEIGHTS} weights; \
                 use fewer features, or lower hash_bits and text_bits in the bounds file"
            ))),
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
                Err(FitError::Option(format!(
                    "this loss tells two classes apart, and `{}` has {}; declare two, or use the logistic loss, which takes any number",
                    self.target,
                    known.map_or("labels that are not declared".into(), |classes| format!("{classes}")),
                )))
            }
            _ => Ok(()),
        }
    }

    /// Plans every method for `classes` classes (any number where the declarations settle it). Reads no row.
    ///
    /// # Errors
    /// If the model would be too large, or the budget cannot be shared.
    pub fn planned(&self, classes: usize) -> Result<Planned, FitError> {
        let target = self.target_kind();
        self.plan_for(if target.finds_labels() { classes } else { target.classes() }, true)
    }

    fn plan_for(&self, classes: usize, compare: bool) -> Result<Planned, FitError> {
        let (loss, models) = self.target_kind().models(classes);
        let mut options = self.options.method.clone();
        options.constant = provisional(&self.layout)?.constant();
        Planned::new(self.problem(loss)?, models, &self.division, (self.options.registry(), &options), compare)
    }

    /// What runs with `classes` classes; refused if nothing does.
    pub(super) fn plan(&self, classes: usize, compare: bool) -> Result<Arc<Planned>, FitError> {
        let planned = self.plan_for(classes, compare)?;
        let plan = planned.plan()?;
        let by_row = self.units.is_some() && !plan.problem().is_pooled();
        if self.options.memory.is_some() && self.units.as_ref().is_some_and(Units::are_shared) {
            return Err(FitError::Option("rows with several owners are chosen in memory; leave out --memory".into()));
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
