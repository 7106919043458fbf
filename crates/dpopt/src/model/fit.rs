//! From a table to a private model: public facts → budget → ledger → private preparation → plan, certify, run → report.

mod asked;
mod planned;

use super::describe::{advice_on_units, general_assumptions, named_as_unit, warnings};
use super::division::Division;
use super::error::{FitError, same_count};
use super::interactions::PairChoice;
use super::linear::Model;
use super::options::FitOptions;
use super::prepare;
use super::scheme::{Planned, Scheme};
use super::table_parts;
use super::target_range;
use super::units::{self, Units};
use crate::moment::TargetClip;
use crate::report::{Ownership, Report};
use crate::session::{Account, Closed, LedgerFile, Opening, Session, StageFacts, default_delta};
use dpopt_data::{DataError, Encoder, EncoderForm, Layout, TableReader, TargetRule, listed};
use dpopt_mechanism::PrivateBounds;
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_objective::records::{Encoded, Examples};
use dpopt_optimize::plan::{Assumption, Problem};
use dpopt_optimize::{Candidate, Solution};
use dpopt_privacy::ledger::Quote;
use dpopt_privacy::{Budget, Certificate, Relation, Shown, Terms};
use planned::{intercept, provisional};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A fit to be explained or run.
///
/// ```
/// use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
/// use dpopt::model::{Fit, FitOptions};
///
/// let mut text = String::from("age,member\n");
/// for i in 0..2000 {
///     text += &format!("{},{}\n", 18 + i % 60, if i % 60 > 25 { "yes" } else { "no" });
/// }
/// let schema = Schema::from_toml("[age]\nlower = 18\nupper = 80\n[member]\nlevels = ['no', 'yes']\n")?;
/// let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
/// let options = FitOptions { schema, delta: Some(1e-6), ..Default::default() };
/// let fitted = Fit::new(table, "member", 1.0, options)?.run()?;
/// assert!(fitted.model.guarantee().certified_epsilon <= 1.0);
/// assert!(fitted.report.html().starts_with("<!DOCTYPE html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fit {
    pub(super) table: Box<dyn TableReader>,
    pub(super) target: String,
    pub(super) options: FitOptions,
    pub(super) rows: u64,
    /// Whose rows they are, where a unit may have several.
    pub(super) units: Option<Units>,
    pub(super) layout: Layout,
    /// The forms of the encoder that were compared, and their expected risk: the first one is taken. None where there was no choice.
    pub(super) forms: Vec<(EncoderForm, f64)>,
    pub(super) budget: Budget,
    pub(super) division: Division,
    /// Numeric columns whose bounds are to be found privately, the target among them for regression.
    pub(super) unbounded: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The caller's own, in place of a ledger file.
    pub(super) account: Option<Arc<dyn Account>>,
    /// Where the target is clipped, if a moment of it says so.
    pub(super) target_clip: Option<TargetClip>,
    /// The first model that was planned last, and what it was planned for: it takes a second.
    pub(super) first_model: Mutex<Option<(Problem, Arc<PairChoice>)>>,
    /// Where the rows are, if they are elsewhere, in parts.
    pub(super) held: Option<table_parts::Held>,
    /// Whether the report compares a method that is asked for by name with the others.
    pub(super) compares: bool,
}

/// What would be done, from public facts only.
pub struct Explanation {
    /// Budget of the whole run.
    pub budget: Budget,
    /// Its division among stages.
    pub division: Division,
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
    /// Who owns what, where a row may have several owners.
    pub ownership: Option<Ownership>,
    /// Where the target is clipped, if a moment of it says so.
    pub target_clip: Option<TargetClip>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What a fit releases.
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// Its report.
    pub report: Report,
    /// What was planned.
    pub planned: Arc<Planned>,
    /// What the user should know of how the run ended, where it may have ended in several ways.
    pub note: Option<String>,
}

impl Fit {
    /// Checks all options against the table's names and number of rows. Reads no value of any row but, where a unit may have several, whose they are.
    pub fn new(
        table: Box<dyn TableReader>,
        target: &str,
        epsilon: f64,
        mut options: FitOptions,
    ) -> Result<Self, FitError> {
        asked::without_table(epsilon, &mut options)?;
        asked::declare_target(target, &mut options)?;
        let units = options.unit.clone();
        let units = units
            .map(|asked| Units::read(asked, &*table, &mut options.schema, target, options.relation))
            .transpose()?;
        let layout = options.schema.resolve(table.columns(), Some(target))?;
        options.method.intercept = intercept(&layout)?;
        if options.method.elsewhere {
            table_parts::check(&options, &layout)?;
        }
        let rule = asked::target_rule(&*table, target, &options, &layout)?;
        let rows = asked::rows(&*table, &options)?;
        let protected = units.as_ref().map_or(rows, Units::count);
        let budget = Budget::new(epsilon, options.delta.unwrap_or_else(|| default_delta(protected)))?;
        let mut unbounded = layout.unbounded();
        let undeclared = matches!(rule, TargetRule::Undeclared);
        if undeclared && options.regression {
            unbounded.push(target.to_string());
        }
        let counted = units.as_ref().map_or(rows, Units::counted);
        if options.shares.bounds.is_none() && matches!(unbounded.as_slice(), [only] if only == target) {
            options.shares.bounds = Some(target_range::share(budget, options.neighbours(), counted));
        }
        if !unbounded.is_empty() && options.shares.bounds.is_none() {
            return Err(DataError::Unbounded { columns: listed(&unbounded) }.into());
        }
        asked::check_shares(&options)?;
        let division = Division::new(budget, options.shares, undeclared && !options.regression, !unbounded.is_empty())?;
        if let Some(asked) = &options.embedding {
            options.method.embedding = Some(asked.resolve(&provisional(&layout)?)?);
        }
        let warnings = warnings(&options, &layout, protected, budget);
        let forms = Vec::new();
        let (target, table) = (target.to_string(), table);
        let (account, first_model) = (None, Mutex::default());
        let mut fit = Self {
            table,
            target,
            options,
            rows,
            units,
            layout,
            forms,
            budget,
            division,
            unbounded,
            warnings,
            account,
            first_model,
            target_clip: None,
            held: None,
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
        let Planned { problem, candidates, .. } = self.planned(assumed_classes)?;
        let mut warnings = self.warnings.clone();
        if target.finds_labels() {
            warnings.push(format!(
                "the labels of `{}` are not declared; this table assumes {assumed_classes} classes (--classes a,b tells)",
                self.target
            ));
        }
        let weights = self.weights(&problem);
        let (budget, division, forms) = (self.budget, self.division, self.forms.clone());
        let (layout, ownership, target_clip) = (self.layout.clone(), self.ownership(), self.target_clip);
        Ok(Explanation {
            budget,
            division,
            problem,
            weights,
            forms,
            layout,
            candidates,
            ownership,
            target_clip,
            warnings,
        })
    }

    /// What the user should know before a run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What becomes a feature, and what is the target.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The column that is taken for an identifier by its name, and what is said of it among the [`warnings`](Self::warnings).
    pub fn named_as_unit(&self) -> Option<(&str, String)> {
        named_as_unit(&self.options, &self.layout).map(|column| (column, advice_on_units(column)))
    }

    /// What is promised, and between which tables.
    pub fn terms(&self) -> Terms {
        self.options.neighbours().within(self.budget)
    }

    /// The forms of the encoder that were compared, in words, with their expected excess risk: the one that is taken first. None where
    /// there was no choice.
    pub fn forms(&self) -> Vec<(EncoderForm, String, f64)> {
        self.forms.iter().map(|(form, risk)| (*form, self.layout.in_words(form), *risk)).collect()
    }

    /// What every stage of the run is certified for, in order: what a ledger would be charged. Reads no row.
    ///
    /// # Errors
    /// If nothing can be planned.
    pub fn stages(&self) -> Result<Vec<Certificate>, FitError> {
        // other methods beside a named one are of no interest here
        Ok(self.scheme(false)?.parts().into_iter().cloned().collect())
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

    /// Whether the labels are to be found privately.
    pub fn finds_labels(&self) -> bool {
        self.target_kind().finds_labels()
    }

    /// Columns that nothing declares and that are taken as categories.
    pub fn undeclared(&self) -> &[String] {
        &self.layout.undeclared
    }

    /// Charges `account`, the caller's own, in place of a ledger file.
    ///
    /// # Errors
    /// If there is a seed: predictable noise keeps no promise.
    pub fn charging(mut self, account: Box<dyn Account>) -> Result<Self, FitError> {
        self.account = Some(account.into());
        self.opening()?;
        Ok(self)
    }

    fn opening(&self) -> Result<Opening, FitError> {
        let account = match &self.account {
            Some(account) => Some(Box::new(account.clone()) as Box<dyn Account>),
            None => LedgerFile::account(self.options.ledger.as_ref()),
        };
        Ok(Opening::new(self.terms(), account, self.options.insecure_seed)?)
    }

    /// The budget of the whole run, the default δ filled in.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Runs without showing progress.
    pub fn run(self) -> Result<Fitted, FitError> {
        self.run_with(&Silent)
    }

    /// Charges the ledger, prepares, plans, runs. Before the charge no row is read, but for whose they are; after a refusal nothing was read.
    pub fn run_with(mut self, progress: &dyn Progress) -> Result<Fitted, FitError> {
        if self.options.method.elsewhere != self.held.is_some() {
            return Err(FitError::Option("this fit was planned for rows that are elsewhere, in parts".into()));
        }
        let charge = self.prepare()?;
        let charged = charge.session.is_charged();
        let outcome = self.released(charge, progress);
        if charged { outcome.map_err(|e| FitError::Spent(Box::new(e))) } else { outcome }
    }

    /// What the ledger would do with this run, if there is a ledger; or why the run cannot be planned, or would be refused.
    /// Charges nothing and reads nothing.
    pub fn quote(&self) -> Result<Option<Quote>, FitError> {
        let scheme = self.scheme(self.compares)?;
        Ok(self.opening()?.quote(&scheme.parts())?)
    }

    /// Plans a method that is asked for by name alone: the report says nothing of the others, and planning them takes longer than most fits.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { compares: false, ..self }
    }

    /// Whether the number of rows that was given is the table's; counts them. Under add-or-remove it is a guess, and nothing
    /// is compared.
    pub fn check_rows(&self) -> Result<(), FitError> {
        if self.options.method.elsewhere {
            return Ok(());
        }
        if let Some(units) = &self.units {
            units.check_count(self.options.relation)?;
        }
        match (self.options.rows, self.options.relation) {
            (None, _) | (_, Relation::AddOrRemove) => Ok(()),
            (Some(given), _) => same_count(given, self.table.count_rows()?),
        }
    }

    /// All that can be planned before the first record is read; beside a method asked for by name the others only to `compare`.
    fn scheme(&self, compare: bool) -> Result<Scheme, FitError> {
        let neighbours = self.options.neighbours();
        let bounds = self
            .division
            .bounds
            .map(|b| PrivateBounds::plan(self.unbounded.len(), self.counted(), neighbours.within(b)))
            .transpose()?;
        Scheme::new(self.target_kind(), &self.division, neighbours, bounds, |classes| self.plan(classes, compare))
    }

    /// Plans, and charges the ledger: the last that happens before records are read.
    fn prepare(&self) -> Result<Charged, FitError> {
        let started = Instant::now();
        let scheme = self.scheme(self.compares)?;
        let planning = started.elapsed();
        // would otherwise be noticed after the charge
        self.check_rows()?;
        let run = format!("fit {} of {}", self.target, self.table.name());
        let session = self.opening()?.charge(&run, &scheme.parts())?;
        Ok(Charged { scheme, planning, session })
    }

    /// Everything that reads records.
    fn released(&mut self, charged: Charged, progress: &dyn Progress) -> Result<Fitted, FitError> {
        let Charged { scheme, mut planning, mut session } = charged;
        let early = scheme.early();
        let Scheme { labels, bounds, .. } = scheme;
        let every_run = Assumption::weakest(&general_assumptions(&self.options));
        // preparation has the streams after the model's, in order
        let mut preparing = 0;
        let mut preparation = |name| {
            preparing += 1;
            StageFacts { name, rests_on: every_run, stream: preparing }
        };
        // from here on records are read
        let mut notes = self.declarations();
        notes.extend(self.target_clip.map(|clip| clip.in_words()));
        // what is counted before the model: rows, or one row of each unit
        let one_each = self.units.as_ref().map(|units| units.one_row_each(&*self.table, self.options.insecure_seed));
        let one_each = one_each.transpose()?;
        let counted: &dyn TableReader = one_each.as_ref().map_or(&*self.table, |table| table);
        if let Some(plan) = labels {
            let found = session.stage(preparation("labels"), plan.certificate(), |curator| {
                prepare::find_labels(&plan, counted, &self.target, curator)
            })?;
            notes.push(format!("The labels {}, found privately (those that are frequent enough).", listed(&found)));
            self.options.schema.set_levels(&self.target, found)?;
        }
        if let Some(plan) = bounds {
            let found = session.stage(preparation("bounds"), plan.certificate(), |curator| {
                prepare::find_bounds(&plan, counted, &self.unbounded, self.options.bad_cells, curator)
            })?;
            for (column, lower, upper) in &found {
                notes.push(format!("The range {} to {} of {column}, found privately.", Shown(*lower), Shown(*upper)));
                self.options.schema.set_bounds(column, *lower, *upper)?;
            }
        }
        let form = self.layout.form;
        self.layout = self.options.schema.resolve(self.table.columns(), Some(&self.target))?.with_form(form);
        let encoder = Encoder::new(&self.layout)?;
        let planned = match early {
            Some(planned) => planned,
            None => {
                let started = Instant::now();
                let planned = self.plan(self.target_kind().classes(), self.compares)?;
                planning += started.elapsed();
                planned
            }
        };
        let most = self.options.memory.unwrap_or(u64::MAX);
        let spread = self.spread()?;
        let first = self.pair_choice(planned.problem.loss)?;
        let first_rests_on = Assumption::weakest(first.as_ref().map_or(&[], |first| first.assumptions()));
        let chosen = planned.plan()?;
        let summary = chosen.summary();
        let fitted =
            StageFacts { name: "model", rests_on: summary.rests_on().and(first_rests_on).and(every_run), stream: 0 };
        let (encoder, solution) = session.stage::<_, FitError>(fitted, &summary.certificate, |curator| {
            if let Some(held) = &self.held {
                return Ok((encoder, table_parts::run(&planned, held, curator, progress)?));
            }
            let (table, bad_cells) = (&*self.table, self.options.bad_cells);
            let encoder = match spread {
                Some(plan) => plan.spread(encoder, counted, bad_cells, curator)?,
                None => encoder,
            };
            let encoder = match &first {
                Some(first) => {
                    let examples = encoder.encode_public(table, bad_cells)?;
                    first.weigh(encoder, examples, curator, progress)?
                }
                None => encoder,
            };
            let features = planned.problem.features;
            let encoded = match encoder.encode_within(table, bad_cells, most)? {
                // pairs that were found may have fewer features than was planned for, never more
                Encoded::Memory(Examples { rows, targets }) => {
                    Encoded::Memory(Examples { rows: rows.widened(features), targets })
                }
                disk => disk,
            };
            let owned = self.units.as_ref().map(Units::owned);
            let solution = units::run(chosen, encoded, owned.as_ref(), curator, progress)?;
            let solution = if first.is_some() { narrowed(solution, features, encoder.dimension()) } else { solution };
            Ok((encoder, solution))
        })?;
        let Closed { mut guarantee, releases, receipt } = session.close();
        guarantee.of_units(self.options.unit.as_ref().map(|unit| (unit.name(), unit.shares_rows())));
        let embedding = self.options.method.embedding.clone();
        let model = Model::new(encoder, chosen.summary().loss, embedding, solution.weights, guarantee, receipt)
            .map_err(FitError::Option)?
            .read_as(self.options.reading.clone());
        if first.is_some() {
            let pairs: Vec<String> = model.encoder().pairs().map(|(a, b)| format!("{a} and {b}")).collect();
            notes.push(format!("Pairs of columns with products, found by a first private model: {}.", listed(&pairs)));
        }
        let note = solution.note;
        notes.extend(note.clone());
        let report =
            self.report(&model, solution.noise.as_deref(), releases, &planned, notes, planning.as_secs_f64())?;
        Ok(Fitted { model, report, planned, note })
    }
}

/// Of each output's `features` weights the first `kept`: no row had anything in the others.
fn narrowed(solution: Solution, features: usize, kept: usize) -> Solution {
    let first = |all: Vec<f64>| all.chunks(features).flat_map(|output| output[..kept].iter().copied()).collect();
    Solution { weights: first(solution.weights), noise: solution.noise.map(first), ..solution }
}

/// A scheme that the ledger, if there is one, holds.
struct Charged {
    scheme: Scheme,
    planning: Duration,
    session: Session,
}
