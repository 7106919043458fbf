//! Peeling: k features picked one after another by private scores, then fitted (docs/proofs/peeling.md).
//!
//! 1. The intercept alone is fitted, with a small share of the budget: without it scores would say which features are frequent.
//! 2. Every feature's score is the size of its entry of the gradient there. k picks, by the exponential mechanism or by
//!    report-noisy-max with Laplace noise.
//! 3. The k features are fitted with the rest: by noisy descent, or for δ = 0 by the best pure method on k features.
//!
//! A pick feels noise of about b·ln(d/k) with b ∝ √k, and an entry's bound, √m times below that of the gradient of a row of m equal
//! entries; a step of hard thresholding feels √(2 ln(d/k)) whatever k is. So: few features out of rows with many entries.

use super::descent::releases;
use super::refit::{RefitSchedule, Shared, recipe, refit};
use super::{REFIT_SHARE, SparseOptions};
use crate::descent::{DescentOptions, Recipe, default_clip_norm};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_mechanism::{
    Curator, CuratorError, FeaturePick, FeatureScores, Mechanism, PeelingLaw, Released, Sensitive, SparseVector,
    VertexFacts,
};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::Records;
use dpopt_optimize::algorithm::ByRow;
use dpopt_optimize::algorithm::{Capabilities, RowAccess};
use dpopt_optimize::options::common::MOMENTUM;
use dpopt_optimize::options::{Choice, MethodOptions, OptionReader, Setting};
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary, certify};
use dpopt_optimize::planning::{SamplerError, check_problem, in_range, noise, positive, typical_nonzeros};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Choose, Prepared, Run, RunError, RunResult};
use dpopt_privacy::{Budget, Certificate, Event};
use dpopt_refusal::{option, text};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

static PEELING: Setting<PeelingLaw> = Setting::choice(
    "peeling",
    &[
        Choice {
            word: "gumbel",
            meaning: "exponential mechanism: the largest scores after adding Gumbel noise once",
            value: PeelingLaw::Gumbel,
        },
        Choice {
            word: "laplace",
            meaning: "report-noisy-max with fresh Laplace noise for every pick",
            value: PeelingLaw::Laplace,
        },
    ],
    "how features are picked [default: the smaller predicted error]",
);

/// Share of the budget for the intercept.
const INTERCEPT_SHARE: f64 = 0.05;

/// Options of peeling. `None` means: chosen from public facts.
#[derive(Clone, Debug)]
pub struct Peeling {
    /// How a feature is picked. Default: the smaller prediction.
    pub law: Option<PeelingLaw>,
    /// What all methods here have; steps, learning rate and momentum are those of the fit. C is its clip norm; in
    /// the scores an entry of a gradient is bounded by C/√m for rows of m ≤ 128 non-zeros.
    pub sparse: SparseOptions,
    /// Chooses the method of the fit where δ = 0: whoever knows all methods says how ([`choose`](crate::choose)).
    pub fit: Option<Choose>,
}

/// How features that are known are fitted.
#[derive(Clone, Serialize)]
#[serde(untagged)]
pub enum FeatureFit {
    /// By noisy descent.
    Descent(RefitSchedule),
    /// By a method with a pure guarantee on these features alone.
    Pure {
        /// Name of the method.
        method: &'static str,
        /// ε of the fit.
        epsilon: f64,
        /// The plan of the fit.
        #[serde(skip)]
        plan: Arc<dyn Prepared>,
    },
}

impl FeatureFit {
    fn steps(&self) -> u64 {
        if let Self::Descent(refit) = self { refit.steps } else { 1 }
    }

    fn passes(&self, rows: f64) -> f64 {
        match self {
            Self::Descent(refit) => refit.steps as f64,
            Self::Pure { plan, .. } => plan.summary().gradients / rows,
        }
    }
}

/// The schedule of peeling.
#[derive(Clone, Serialize)]
pub struct PeelingSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// k: features that are picked.
    pub max_features: usize,
    /// Always kept, not counted.
    pub intercept: Option<u32>,
    /// How a feature is picked.
    pub law: PeelingLaw,
    /// Bound on every entry of a record's gradient in the scores.
    pub entry_clip: f64,
    /// ε₀ of one pick.
    pub pick_epsilon: f64,
    /// Scale of the noise of a score, a sum over records.
    pub noise_scale: f64,
    /// λ of the sum objective.
    pub regularization: f64,
    /// The intercept's fit before the scores.
    pub centre: Option<FeatureFit>,
    /// The fit of all chosen features.
    pub refit: FeatureFit,
}

/// Shares of the budget: intercept, picks, fit.
#[derive(Clone, Copy)]
struct Shares {
    centre: f64,
    picks: f64,
    fit: f64,
}

/// P(a score of `gap` noise scales has the largest noisy value among `rivals` of score 0).
fn pick_probability(law: PeelingLaw, gap: f64, rivals: f64) -> f64 {
    match law {
        PeelingLaw::Gumbel => 1.0 / (1.0 + rivals * (-gap).exp()),
        PeelingLaw::Laplace => {
            let cells = 400;
            let below = |x: f64| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() };
            let quantile = |u: f64| if u < 0.5 { (2.0 * u).ln() } else { -(2.0 - 2.0 * u).ln() };
            let middle = |cell: i32| (f64::from(cell) + 0.5) / f64::from(cells);
            (0..cells).map(|cell| below(gap + quantile(middle(cell))).powf(rivals)).sum::<f64>() / f64::from(cells)
        }
    }
}

/// Score, in noise scales, of a feature that is picked with probability 9/10 before `rivals` features of score 0.
fn visible_score(law: PeelingLaw, rivals: f64) -> f64 {
    let (mut low, mut high) = (0.0, 60.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if pick_probability(law, middle, rivals) < 0.9 { low = middle } else { high = middle }
    }
    high
}

impl Peeling {
    fn shares(&self, centred: bool) -> Result<Shares, NotApplicable> {
        let fit = in_range("the refit share", self.sparse.refit_share.unwrap_or(0.5), 0.05, 0.9)?;
        let centre = if centred { INTERCEPT_SHARE } else { 0.0 };
        Ok(Shares { centre, picks: 1.0 - fit - centre, fit })
    }

    /// ε₀, the fits and the certificate where Gaussian noise is possible: one calibration of all releases together.
    fn approximate_parts(
        &self,
        problem: &Problem,
        budget: Budget,
        (law, k, shares): (PeelingLaw, u64, Shares),
        (options, entry_clip): (&DescentOptions, f64),
    ) -> Result<(f64, Option<FeatureFit>, FeatureFit, Certificate), NotApplicable> {
        let kept = k as usize + 1;
        let fit = recipe(options, problem, budget, shares.fit)?;
        let centre = match shares.centre {
            share if share > 0.0 => {
                // the clip of the scores, so that a feature that all records have scores about 0 there
                let own = DescentOptions { clip_norm: Some(entry_clip), regularization: None, ..options.clone() };
                Some(recipe(&own, problem, budget, share)?)
            }
            _ => None,
        };
        // in the limit of small costs a pick of ε₀ is worth μ = ε₀/2 if its range is bounded, and ε₀ if it is not
        let worth = if law == PeelingLaw::Gumbel { 2.0 } else { 1.0 };
        let pick_epsilon = |m: f64| worth * (shares.picks / k as f64).sqrt() / m;
        let multiplier = |recipe: &Recipe, share: f64, m: f64| m * (recipe.steps as f64 / share).sqrt();
        let samples = k as f64 + centre.as_ref().map_or(0.0, |c| c.steps as f64) + (fit.steps * kept as u64) as f64;
        let event = |m: f64| {
            let mut parts = Vec::new();
            parts.extend(centre.as_ref().map(|c| releases(multiplier(c, shares.centre, m), 1.0, c.steps)));
            parts.push(pick_event(law, pick_epsilon(m)).self_composed(k));
            parts.push(releases(multiplier(&fit, shares.fit, m), 1.0, fit.steps));
            SamplerError::rounded(samples).on(Event::composed(parts))
        };
        let (m, certificate) = noise(problem, budget, event)?;
        let descent = |r: &Recipe, share: f64, features| {
            let fit = RefitSchedule::of(r, multiplier(r, share, m), problem.rows, features)?;
            Ok::<FeatureFit, NotApplicable>(FeatureFit::Descent(fit))
        };
        let centre = centre.as_ref().map(|c| descent(c, shares.centre, 1)).transpose()?;
        Ok((pick_epsilon(m), centre, descent(&fit, shares.fit, kept)?, certificate))
    }

    /// Noise of the picks, of the centre and of the last fit for δ = 0, where the ε of all releases add up.
    fn pure_parts(
        &self,
        problem: &Problem,
        budget: Budget,
        (law, k, shares): (PeelingLaw, u64, Shares),
        regularization: Option<f64>,
    ) -> Result<(f64, Option<FeatureFit>, FeatureFit, Certificate), NotApplicable> {
        let choose = self.fit.ok_or_else(|| {
            NotApplicable::Problem(
                "with delta = 0 another method fits the chosen features; plan that method by name".into(),
            )
        })?;
        let descents = [
            ("steps", self.sparse.steps.is_some()),
            ("learning_rate", self.sparse.learning_rate.is_some()),
            ("momentum", self.sparse.momentum.is_some()),
        ];
        if let Some((name, _)) = descents.into_iter().find(|(_, options)| *options) {
            return Err(NotApplicable::Option(
                text![
                    option(name),
                    " configures the noisy descent, which fits the features only with delta > 0; leave it out"
                ]
                .into(),
            ));
        }
        // room for the rounding of the sum
        let epsilon = |share: f64| share * budget.epsilon() * (1.0 - 1e-12);
        let fit = |features: usize, share: f64, regularization| -> Result<FeatureFit, NotApplicable> {
            let own = Budget::new(epsilon(share), 0.0).map_err(|e| NotApplicable::Option(e.to_string().into()))?;
            let options = MethodOptions::default();
            let options = match regularization {
                Some(lambda) => options.with("regularization", lambda),
                None => options,
            };
            let plan = choose(&problem.with_features(features), own, &options)?;
            Ok(FeatureFit::Pure { method: plan.summary().method, epsilon: own.epsilon(), plan: Arc::from(plan) })
        };
        let centre = if shares.centre > 0.0 { Some(fit(1, shares.centre, None)?) } else { None };
        let last = fit(k as usize + usize::from(shares.centre > 0.0), shares.fit, regularization)?;
        // of one record: what all of a unit's come to is said of the whole, once
        let pick = epsilon(shares.picks) / k as f64 / problem.group() as f64;
        let own = |fit: &FeatureFit| match fit {
            FeatureFit::Pure { plan, .. } => match plan.summary().certificate.event() {
                Event::UserUnit { records_per_user, event } if *records_per_user == problem.group() => {
                    (**event).clone()
                }
                event => event.clone(),
            },
            FeatureFit::Descent(_) => Event::NoOp,
        };
        let mut parts: Vec<Event> = centre.iter().map(own).collect();
        parts.push(pick_event(law, pick).self_composed(k));
        parts.push(own(&last));
        let certificate = certify(&Event::composed(parts), problem, budget)?;
        Ok((pick, centre, last, certificate))
    }

    fn planned(
        &self,
        problem: &Problem,
        budget: Budget,
        law: PeelingLaw,
    ) -> Result<Plan<PeelingSchedule>, NotApplicable> {
        let sparsity = self.sparse.sparsity(problem)?;
        let k = sparsity.max_features as u64;
        let shares = self.shares(sparsity.intercept.is_some())?;
        let clip_norm = positive("the clip norm", self.sparse.clip_norm.unwrap_or_else(|| default_clip_norm(problem)))?;
        let regularization = in_range("the regularization", self.sparse.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
        let entry_clip = clip_norm / typical_nonzeros(problem).sqrt();
        let options = DescentOptions {
            steps: self.sparse.steps,
            learning_rate: self.sparse.learning_rate,
            momentum: self.sparse.momentum,
            clip_norm: Some(clip_norm),
            regularization: Some(regularization),
            ..DescentOptions::default()
        };
        let (pick_epsilon, centre, refit, certificate) = if budget.delta() > 0.0 {
            self.approximate_parts(problem, budget, (law, k, shares), (&options, entry_clip))?
        } else {
            self.pure_parts(problem, budget, (law, k, shares), self.sparse.regularization)?
        };
        let noise_multiplier = 2.0 * problem.relation().sum_sensitivity() / pick_epsilon;
        let schedule = PeelingSchedule {
            loss: problem.loss,
            max_features: sparsity.max_features,
            intercept: sparsity.intercept,
            law,
            entry_clip,
            pick_epsilon,
            noise_scale: noise_multiplier * entry_clip,
            regularization,
            centre,
            refit,
        };
        schedule.pick(problem).can_draw()?;
        let n = problem.rows as f64;
        let stages = || schedule.centre.iter().chain([&schedule.refit]);
        let predicted_excess_risk = predicted(&schedule, problem);
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss: if let FeatureFit::Pure { plan, .. } = &schedule.refit {
                    plan.summary().loss
                } else {
                    problem.loss
                },
                noise_multiplier,
                steps: k + stages().map(FeatureFit::steps).sum::<u64>(),
                gradients: n * (1.0 + stages().map(|fit| fit.passes(n)).sum::<f64>()),
                predicted_excess_risk,
                weight_noise: None,
                certificate,
                assumptions: vec![
                    Assumption::enforced(
                        "no entry of a record's gradient exceeds its bound in the scores, and no record's gradient the \
                         clip norm in the fit: enforced in exact integers",
                    ),
                    Assumption::proved(
                        "each feature is picked among all remaining ones, whether a record has it or \
                                        not",
                    ),
                ],
                warnings: Vec::new(),
            },
            schedule,
        })
    }
}

fn pick_event(law: PeelingLaw, epsilon: f64) -> Event {
    match law {
        PeelingLaw::Gumbel => Event::ExponentialMechanism { epsilon },
        PeelingLaw::Laplace => Event::ApproxDp { epsilon, delta: 0.0 },
    }
}

/// Excess risk of the fit on k features, and what the features are worth whose scores the picks can't see.
fn predicted(schedule: &PeelingSchedule, problem: &Problem) -> f64 {
    let kept = schedule.max_features + 1;
    let fit = match &schedule.refit {
        FeatureFit::Pure { plan, .. } => plan.summary().predicted_excess_risk,
        FeatureFit::Descent(refit) => {
            let lipschitz = problem.lipschitz();
            let model = RiskModel::of(&problem.with_features(kept)).clipped(refit.clip_norm, lipschitz);
            model.learning_time(refit.learning_time(), refit.noise_left(problem.rows as f64))
        }
    };
    let rivals = (problem.features as f64 / schedule.max_features as f64).max(1.0);
    let visible = visible_score(schedule.law, rivals) * schedule.noise_scale / problem.rows as f64;
    fit + RiskModel::of(problem).missed(schedule.max_features, visible)
}

impl Algorithm for Peeling {
    type Schedule = PeelingSchedule;
    const NAME: &'static str = "peeling";
    const ABOUT: &'static str =
        "picks k features by noisy scores, then fits them; for very few features, also with delta = 0";
    const CAPABILITIES: Capabilities = Capabilities { rows: RowAccess::Passes, ..Capabilities::NONE };

    fn read(options: &OptionReader<'_>) -> Self {
        let sparse = SparseOptions {
            refit_share: options.get(&REFIT_SHARE),
            momentum: options.get(&MOMENTUM),
            ..SparseOptions::read(options)
        };
        Self { law: options.get(&PEELING), sparse, fit: None }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<PeelingSchedule>, NotApplicable> {
        check_problem(problem)?;
        if problem.features as u64 > 1 << 32 {
            return Err(NotApplicable::Problem("there are more than 2^32 features; hash them to fewer".into()));
        }
        let first = self.planned(problem, budget, self.law.unwrap_or(PeelingLaw::Gumbel))?;
        if self.law.is_some() {
            return Ok(first);
        }
        let other = self.planned(problem, budget, PeelingLaw::Laplace)?;
        let better = other.summary.predicted_excess_risk < first.summary.predicted_excess_risk;
        Ok(if better { other } else { first })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<PeelingSchedule>, run: Run<'_, R>) -> RunResult {
        let features = run.problem.features;
        let released = match run.by_row(Self::NAME)? {
            ByRow::Memory(run) => run_peeling(plan, run),
            ByRow::Disk(run) => run_peeling(plan, run),
            ByRow::Partitions(_) => Err(RunError::InMemory { method: Self::NAME }),
        };
        Ok(released?.map(|x| x.dense(features).into()))
    }
}

/// Runs a plan of [`Peeling`] without ever making a vector of all features.
pub fn run_peeling<R: Records>(
    plan: &Plan<PeelingSchedule>,
    run: Run<'_, R>,
) -> Result<Released<SparseVector>, RunError> {
    let Run { problem, examples, curator, progress } = run;
    let s = &plan.schedule;
    progress.start(plan.summary.method, plan.summary.steps);
    let mut point = SparseVector::new(s.intercept.map(|j| (j, 0.0)));
    if let Some(centre) = &s.centre {
        point = s.fitted(centre, problem, examples, curator, progress, point)?;
    }
    let pick = s.pick(problem);
    let mut scores = FeatureScores::new(examples, pick.facts, &point, s.intercept)?;
    let mut chosen: BTreeMap<u32, f64> = point.iter().collect();
    for _ in 0..s.max_features {
        for (feature, _) in curator.release(&pick, &scores)?.get().iter() {
            FeatureScores::take(&mut scores, feature);
            chosen.insert(feature, 0.0);
        }
        progress.tick();
    }
    drop(scores);
    let x = s.fitted(&s.refit, problem, examples, curator, progress, SparseVector::new(chosen))?;
    progress.finish();
    Ok(curator.postprocess(x))
}

impl PeelingSchedule {
    /// The mechanism that picks one feature.
    fn pick(&self, problem: &Problem) -> FeaturePick {
        let (epsilon, relation) = (self.pick_epsilon, problem.relation());
        let facts = VertexFacts { loss: self.loss, clip_norm: self.entry_clip, epsilon, relation };
        FeaturePick { law: self.law, facts, dimension: problem.features as u64 }
    }

    /// Weights of the features of `start`, the others left at 0.
    fn fitted<R: Records>(
        &self,
        fit: &FeatureFit,
        problem: &Problem,
        examples: &Sensitive<R>,
        curator: &mut Curator,
        progress: &dyn Progress,
        start: SparseVector,
    ) -> Result<SparseVector, RunError> {
        match fit {
            FeatureFit::Descent(schedule) => {
                let shared = Shared {
                    loss: self.loss,
                    sampling_probability: 1.0,
                    regularization: self.regularization,
                    intercept: self.intercept,
                };
                refit((&shared, schedule), problem, examples, curator, progress, start)
            }
            FeatureFit::Pure { plan, .. } => {
                let rows = examples.restricted(start.indices(), problem.row_norm).map_err(CuratorError::unreadable)?;
                let alone = problem.with_features(start.len());
                let weights = plan.run(Run::new(&alone, &rows, curator, &Silent)?)?.into_inner().weights;
                progress.tick();
                Ok(SparseVector::new(start.indices().iter().copied().zip(weights)))
            }
        }
    }
}
