//! A table with named columns: what is public of it, settled before the charge; how its columns become numbers; the model, with its report.

mod asked;
mod planned;

use super::budget_split::BudgetSplit;
use super::describe::{advice_on_units, general_assumptions, named_as_unit, warnings};
use super::error::{FitError, same_count};
use super::interactions::PairChoice;
use super::interval::PredictionInterval;
use super::linear::Model;
use super::options::FitOptions;
use super::partitioned_table::{self, Held};
use super::prepare;
use super::source::{Source, StageKind, Taken};
use super::spread::SpreadPlan;
use super::stage_plan::{Planned, Target};
use super::target_range;
use super::units::{self, Units};
use crate::moment::TargetClip;
use crate::report::{Ownership, Report};
use crate::run::RunOptions;
use crate::session::Closed;
use dpopt_data::{DataError, Encoder, EncoderForm, Layout, OneWay, Schema, TableReader, TargetRule, Trend, listed};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Curator, LabelSelection, PrivateBounds};
use dpopt_objective::objective::Evidence;
use dpopt_objective::records::{Encoded, Examples};
use dpopt_optimize::plan::{Assumption, NotApplicable, Problem};
use dpopt_optimize::{Candidate, Selection, Solution};
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, Shown};
use dpopt_refusal::{Text, setting, text};
use planned::{intercept, provisional};
use std::sync::{Arc, Mutex};

/// A table with named columns, one of which is predicted, as a fit learns from it: settled by public facts. Its rows are here, or in remote partitions.
pub struct NamedTable {
    pub(super) table: Box<dyn TableReader>,
    pub(super) target: String,
    pub(super) run: RunOptions,
    pub(super) options: FitOptions,
    pub(super) rows: u64,
    /// The owners of the rows, where a unit may have several.
    pub(super) units: Option<Units>,
    pub(super) layout: Layout,
    /// The forms of the encoder that were compared, and their expected risk: the first one is taken. None where there was no choice.
    pub(super) forms: Vec<(EncoderForm, f64)>,
    pub(super) budget: Budget,
    pub(super) budget_split: BudgetSplit,
    /// Numeric columns whose bounds are to be found privately, the target among them for regression.
    pub(super) unbounded: Vec<String>,
    pub(super) warnings: Vec<Text>,
    /// Where the target is clipped, if a moment of it says so.
    pub(super) target_clip: Option<TargetClip>,
    /// The first model that was planned last, and what it was planned for: it takes a second.
    pub(super) first_model: Mutex<Option<(Problem, Arc<PairChoice>)>>,
    /// Whether the report compares a method that is asked for by name with the others.
    pub(super) compares: bool,
}

/// What would be done, from public facts only.
pub struct Explanation {
    /// Budget of the whole run.
    pub budget: Budget,
    /// How the budget is split among the stages.
    pub budget_split: BudgetSplit,
    /// The problem that was planned for.
    pub problem: Problem,
    /// Number of weights of the model.
    pub weights: usize,
    /// Forms of the encoder with their expected excess risk, the one that is taken first; none where there was no choice.
    pub forms: Vec<(EncoderForm, f64)>,
    /// The table's columns, which forms are said of.
    pub layout: Layout,
    /// All methods, the best prediction first.
    pub candidates: Vec<Candidate>,
    /// Which of them would run and why, or why none would.
    pub selection: Result<Selection, NotApplicable>,
    /// Who owns what, where a row may have several owners.
    pub ownership: Option<Ownership>,
    /// Where the target is clipped, if a moment of it says so.
    pub target_clip: Option<TargetClip>,
    /// What the user should know.
    pub warnings: Vec<Text>,
}

/// What a fit releases.
pub struct Fitted {
    /// The released model.
    pub model: Model,
    /// The report of the fit.
    pub report: Report,
    /// The plan of the fit, with all methods that were compared.
    pub planned: Arc<Planned>,
    /// What the user should know of how the run ended, where it may have ended in several ways.
    pub note: Option<String>,
}

impl NamedTable {
    /// Checks all options against the table's names and number of rows. Reads no value of any row but, where a unit may have several, whose they are.
    pub(super) fn new(
        table: Box<dyn TableReader>,
        target: &str,
        run: impl Into<RunOptions>,
        mut options: FitOptions,
    ) -> Result<Self, FitError> {
        let run = run.into();
        asked::without_table(&run, &mut options)?;
        asked::declare_target(target, &mut options)?;
        let units = run.unit.clone();
        let units =
            units.map(|asked| Units::read(asked, &*table, &mut options.schema, target, run.relation)).transpose()?;
        let layout = options.schema.resolve(table.columns(), Some(target))?;
        options.method.intercept = intercept(&layout)?;
        if options.method.remote {
            partitioned_table::check(&run, &options, &layout)?;
        }
        let rule = asked::target_rule(&*table, target, (&run, &options), &layout)?;
        asked::check_loss(&options, &rule)?;
        asked::check_trends(&options, &layout, &rule)?;
        let rows = asked::rows(&*table, options.rows, run.relation)?;
        let protected = units.as_ref().map_or(rows, Units::count);
        let budget = run.budget(protected)?;
        let mut unbounded = layout.unbounded();
        let undeclared = matches!(rule, TargetRule::Undeclared);
        if undeclared && options.regression {
            unbounded.push(target.to_string());
        }
        let counted = units.as_ref().map_or(rows, Units::counted);
        if options.shares.bounds.is_none() && matches!(unbounded.as_slice(), [only] if only == target) {
            options.shares.bounds = Some(target_range::share(budget, run.neighbours(), counted));
        }
        if !unbounded.is_empty() && options.shares.bounds.is_none() {
            return Err(DataError::Unbounded { columns: listed(&unbounded) }.into());
        }
        asked::check_shares(&options)?;
        let budget_split =
            BudgetSplit::new(budget, options.shares, undeclared && !options.regression, !unbounded.is_empty())?;
        if let Some(asked) = &options.embedding {
            options.method.embedding = Some(asked.resolve(&provisional(&layout)?)?);
        }
        let warnings = warnings(&run, &layout, protected, budget);
        let forms = Vec::new();
        let (target, table) = (target.to_string(), table);
        let first_model = Mutex::default();
        let mut fit = Self {
            table,
            target,
            run,
            options,
            rows,
            units,
            layout,
            forms,
            budget,
            budget_split,
            unbounded,
            warnings,
            first_model,
            target_clip: None,
            compares: true,
        };
        fit.one_model()?;
        fit.choose_form()?;
        fit.clip_target()?;
        Ok(fit)
    }

    /// Plans every method. Reads no row. With an undeclared target the number of classes is `assumed_classes`.
    pub fn explain(&self, assumed_classes: usize) -> Result<Explanation, FitError> {
        let target = self.target_kind();
        let classes = if target.finds_labels() { assumed_classes } else { target.classes() };
        let Planned { problem, candidates, selection, .. } = self.plan_for(classes, true)?;
        let mut warnings = self.warnings.clone();
        if target.finds_labels() {
            let assumed = format!(
                "the labels of `{}` are not declared; this plan assumes {assumed_classes} classes (",
                self.target
            );
            warnings.push(text![assumed, setting("classes", "a,b"), " tells)"]);
        }
        let weights = self.weights(&problem);
        let (budget, budget_split, forms) = (self.budget, self.budget_split, self.forms.clone());
        let (layout, ownership, target_clip) = (self.layout.clone(), self.ownership(), self.target_clip);
        Ok(Explanation {
            budget,
            budget_split,
            problem,
            weights,
            forms,
            layout,
            candidates,
            selection,
            ownership,
            target_clip,
            warnings,
        })
    }

    /// What the user should know before a run.
    pub fn warnings(&self) -> &[Text] {
        &self.warnings
    }

    /// What becomes a feature, and what is the target.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The column that is taken for an identifier by its name, and what is said of it among the [`warnings`](Self::warnings).
    pub fn named_as_unit(&self) -> Option<(&str, Text)> {
        named_as_unit(&self.run, &self.layout).map(|column| (column, advice_on_units(column)))
    }

    /// The forms of the encoder that were compared, as text, with their expected excess risk: the one that is taken first. None where
    /// there was no choice.
    pub fn forms(&self) -> Vec<(EncoderForm, String, f64)> {
        self.forms.iter().map(|(form, risk)| (*form, self.layout.in_words(form), *risk)).collect()
    }

    /// Number of units of privacy, or a public guess of it.
    pub(super) fn protected(&self) -> u64 {
        self.units.as_ref().map_or(self.rows, Units::count)
    }

    /// Number of rows that what is counted before the model sees, or a public guess of it.
    fn counted(&self) -> u64 {
        self.units.as_ref().map_or(self.rows, Units::counted)
    }

    /// Who owns what, where a row may have several owners.
    pub fn ownership(&self) -> Option<Ownership> {
        self.units.as_ref().and_then(Units::ownership)
    }

    /// Where the target is clipped, if a moment of it says so.
    pub fn target_clip(&self) -> Option<TargetClip> {
        self.target_clip
    }

    /// Columns that nothing declares and that are taken as categories.
    pub fn undeclared(&self) -> &[String] {
        &self.layout.undeclared
    }

    /// Plans a method that is asked for by name alone.
    pub(super) fn alone(self) -> Self {
        Self { compares: false, ..self }
    }

    /// How partitions of the table are encoded: all of it is public.
    pub(super) fn encoder_of_partitions(&self) -> Result<Encoder, FitError> {
        match self.options.method.remote {
            true => Ok(Encoder::new(&self.layout)?),
            false => Err(FitError::Option(
                "this fit was planned for rows in memory, and got remote records; plan it \
                                           for these"
                    .into(),
            )),
        }
    }

    /// Whether the number of rows that was given is the table's; counts them. Under add-or-remove it is a guess, and nothing
    /// is compared.
    pub fn check_rows(&self) -> Result<(), FitError> {
        if self.options.method.remote {
            return Ok(());
        }
        if let Some(units) = &self.units {
            units.check_count(self.run.relation)?;
        }
        match (self.options.rows, self.run.relation) {
            (None, _) | (_, Relation::AddOrRemove) => Ok(()),
            (Some(given), _) => same_count(given, self.table.count_rows()?),
        }
    }
}

/// What a run of a table keeps between its stages.
pub struct TableState<'a> {
    held: Option<Held>,
    /// What is counted before the model: rows, or one row of each unit.
    one_each: Option<Box<dyn TableReader + 'a>>,
    /// The declarations, with what was found privately.
    schema: Schema,
    /// One sentence for each source of public facts, and for what was found.
    notes: Vec<String>,
    /// How rows become numbers; none before it is settled.
    encoder: Option<Encoder>,
    spread: Option<SpreadPlan>,
    /// How pairs of columns are chosen, if they are.
    first: Option<Arc<PairChoice>>,
}

impl TableState<'_> {
    fn counted<'a>(&'a self, table: &'a dyn TableReader) -> &'a dyn TableReader {
        self.one_each.as_deref().map_or(table, |one_each| one_each)
    }
}

impl Source for NamedTable {
    /// Who holds the rows, where they are in remote partitions.
    type Records = Option<Held>;
    type State<'a> = TableState<'a>;
    type Answer = Fitted;

    fn run_options(&self) -> &RunOptions {
        &self.run
    }

    fn neighbours(&self) -> Neighbours {
        self.run.neighbours()
    }

    fn budget(&self) -> Budget {
        self.budget
    }

    fn budget_split(&self) -> &BudgetSplit {
        &self.budget_split
    }

    fn target(&self) -> Target {
        self.target_kind()
    }

    fn ranges(&self) -> Result<Option<PrivateBounds>, FitError> {
        let terms = self.budget_split.bounds.map(|part| self.run.neighbours().within(part));
        Ok(terms.map(|terms| PrivateBounds::plan(self.unbounded.len(), self.counted(), terms)).transpose()?)
    }

    fn plan(&self, classes: usize, compare: bool) -> Result<Arc<Planned>, FitError> {
        self.planned(classes, compare)
    }

    fn compares(&self) -> bool {
        self.compares
    }

    fn name(&self) -> String {
        format!("fit {} of {}", self.target, self.table.name())
    }

    fn check(&self, _: &[&Certificate], held: &Option<Held>) -> Result<(), FitError> {
        if self.options.method.remote != held.is_some() {
            return Err(FitError::Option(
                "this fit was planned for remote records, and got rows in memory; plan it \
                                         for these"
                    .into(),
            ));
        }
        match held {
            Some((_, known)) if self.run.relation != Relation::AddOrRemove => {
                same_count(self.rows, known.iter().map(|part| part.0).sum())
            }
            Some(_) => Ok(()),
            None => self.check_rows(),
        }
    }

    fn rests_on(&self) -> Evidence {
        Assumption::weakest(&general_assumptions(&self.run))
    }

    /// Preparation has the streams after the model's, in order.
    fn stream(&self, stage: StageKind, prepared: u64) -> u64 {
        match stage {
            StageKind::Labels | StageKind::Ranges => prepared,
            StageKind::Model(_) => 0,
        }
    }

    fn begin(&self, held: Option<Held>) -> Result<TableState<'_>, FitError> {
        let mut notes = self.declarations();
        notes.extend(self.target_clip.map(|clip| clip.in_words()));
        let one_each = self.units.as_ref().map(|units| units.one_row_each(&*self.table, self.run.insecure_seed));
        let one_each = one_each.transpose()?.map(|table| Box::new(table) as Box<dyn TableReader + '_>);
        let schema = self.options.schema.clone();
        Ok(TableState { held, one_each, schema, notes, encoder: None, spread: None, first: None })
    }

    fn find_labels(
        &self,
        state: &mut TableState<'_>,
        plan: &LabelSelection,
        curator: &mut Curator,
    ) -> Result<usize, FitError> {
        let found = prepare::find_labels(plan, state.counted(&*self.table), &self.target, curator)?;
        state.notes.push(format!("The labels {}, found privately: those that are frequent enough.", listed(&found)));
        let count = found.len();
        state.schema.set_levels(&self.target, found)?;
        Ok(count)
    }

    fn find_ranges(
        &self,
        state: &mut TableState<'_>,
        plan: &PrivateBounds,
        curator: &mut Curator,
    ) -> Result<(), FitError> {
        let (counted, bad_cells) = (state.counted(&*self.table), self.options.bad_cells);
        for (column, lower, upper) in
            prepare::find_bounds(plan, counted, (&self.unbounded, &self.target), bad_cells, curator)?
        {
            let (lower, upper) = match self.target_kind() {
                Target::Number(loss) if column == self.target => target_range::of_found(loss, (lower, upper)),
                _ => (lower, upper),
            };
            let range = format!("The range {} to {} of {column}, found privately.", Shown(lower), Shown(upper));
            state.notes.push(range);
            state.schema.set_bounds(&column, lower, upper)?;
        }
        Ok(())
    }

    fn settle(&self, state: &mut TableState<'_>, planned: &Planned) -> Result<Evidence, FitError> {
        let layout = state.schema.resolve(self.table.columns(), Some(&self.target))?.with_form(self.layout.form);
        state.encoder = Some(Encoder::new(&layout)?);
        state.spread = self.spread()?;
        state.first = self.pair_choice(planned.problem.loss)?;
        Ok(Assumption::weakest(state.first.as_ref().map_or(&[], |first| first.assumptions())))
    }

    fn fit(
        &self,
        state: &mut TableState<'_>,
        planned: &Planned,
        _: usize,
        curator: &mut Curator,
        progress: &dyn Progress,
    ) -> Result<Solution, FitError> {
        // settled before
        let Some(encoder) = state.encoder.take() else {
            return Err(FitError::Option("the columns are not settled".into()));
        };
        if let Some(held) = &state.held {
            state.encoder = Some(encoder);
            return partitioned_table::run(planned, held, curator, progress);
        }
        let (table, bad_cells) = (&*self.table, self.options.bad_cells);
        let encoder = match state.spread {
            Some(plan) => {
                let each = self.options.schema.form.spread == Some(true);
                plan.spread(encoder, state.counted(table), bad_cells, curator, each)?
            }
            None => encoder,
        };
        let encoder = match &state.first {
            Some(first) => {
                let examples = encoder.encode_public(table, bad_cells)?;
                first.weigh(encoder, examples, curator, progress)?
            }
            None => encoder,
        };
        let features = planned.problem.features;
        let encoded = match encoder.encode_within(table, bad_cells, self.options.memory.unwrap_or(u64::MAX))? {
            // pairs that were found may have fewer features than was planned for, never more
            Encoded::Memory(Examples { rows, targets }) => {
                Encoded::Memory(Examples { rows: rows.widened(features), targets })
            }
            disk => disk,
        };
        let owned = self.units.as_ref().map(Units::owned);
        let solution = units::run(planned.plan()?, encoded, owned.as_ref(), curator, progress)?;
        let kept = encoder.dimension();
        state.encoder = Some(encoder);
        Ok(if state.first.is_some() { narrowed(solution, features, kept) } else { solution })
    }

    fn units(&self, _: &TableState<'_>) -> Option<(String, bool)> {
        self.run.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows()))
    }

    fn answer(&self, state: TableState<'_>, taken: Taken) -> Result<Fitted, FitError> {
        let Taken { planned, mut solutions, closed: Closed { guarantee, releases, receipt }, planning } = taken;
        let TableState { mut notes, encoder, first, .. } = state;
        // a file holds one model, and there is one
        let (Some(encoder), Some(solution)) = (encoder, solutions.pop()) else {
            return Err(FitError::Option("nothing was fitted".into()));
        };
        let embedding = self.options.method.embedding.clone();
        let loss = planned.plan()?.summary().loss;
        let (encoder, solution) = self.one_way(encoder, solution)?;
        notes.extend(Trend::in_words(encoder.trends()).map(|words| {
            format!("As declared, {words}: what was learnt otherwise was brought to the nearest function that does so.")
        }));
        let model = Model::new(encoder, loss, embedding, solution.weights, guarantee, receipt)
            .map_err(|why| FitError::Option(why.into()))?
            .read_as(self.options.reading.clone());
        let found = solution.interval.zip(model.range());
        let interval = found.map(|(found, range)| PredictionInterval::of(found, range));
        let model = model.with_interval(interval);
        notes.extend(interval.map(|interval| interval.in_words(&self.target)));
        if first.is_some() {
            let pairs: Vec<String> = model.encoder().pairs().map(|(a, b)| format!("{a} and {b}")).collect();
            notes.push(format!(
                "Pairs of columns with interactions, chosen by a first private model: {}.",
                listed(&pairs)
            ));
        }
        notes.extend(solution.note.clone());
        let unbounded = interval.filter(|interval| interval.half_width.is_none());
        let note = solution.note.or_else(|| unbounded.map(|interval| interval.in_words(&self.target)));
        let report =
            self.report(&model, solution.noise.as_deref(), releases, &planned, notes, planning.as_secs_f64())?;
        Ok(Fitted { model, report, planned, note })
    }
}

impl NamedTable {
    /// The model with the functions of monotone columns in order: of one output, as others are refused before. A function of what was released.
    fn one_way(&self, encoder: Encoder, solution: Solution) -> Result<(Encoder, Solution), FitError> {
        let trends: Vec<(&str, Trend)> = self.layout.trends().collect();
        if trends.is_empty() {
            return Ok((encoder, solution));
        }
        let OneWay { encoder, weights, places } = encoder.one_way(&trends, &solution.weights)?;
        // of a function that was brought in order it is another, which nobody knows
        let of = |all: Vec<f64>| places.iter().map(|place| place.map_or(f64::NAN, |place| all[place])).collect();
        Ok((encoder, Solution { weights, noise: solution.noise.map(of), covariance: None, ..solution }))
    }
}

/// Keeps the first `kept` of each output's `features` weights: no row had anything in the others.
fn narrowed(solution: Solution, features: usize, kept: usize) -> Solution {
    let first = |all: Vec<f64>| all.chunks(features).flat_map(|output| output[..kept].iter().copied()).collect();
    // a direction that no row has says that nothing is known of it
    let covariance = solution.covariance.filter(|_| kept == features);
    Solution { weights: first(solution.weights), noise: solution.noise.map(first), covariance, ..solution }
}
