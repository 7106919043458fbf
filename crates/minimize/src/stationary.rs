//! The most stationary of public candidates, or the first one that is stationary enough (Liu 2024, Algorithm 18; docs/proofs/stationary-selection.md).
//!
//! Candidates are public: the iterates or checkpoints of a run that was private, starting points, models of other people. Their scores stay inside; what leaves is one
//! index, or that none was good enough.
//!
//! Covers: thesis algorithm 18 (part: one score of proved sensitivity, both of its parts always computed; the curvature along public directions)

use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{
    AboveThreshold, Choice, ChoiceLaw, Clipped, Curator, CuratorError, CurvatureSum, GridSum, MAX_SUMMED, Mechanism,
    Released, Sensitive, Stationarity, Wanted,
};
use dpopt_objective::objective::{Evidence, Objective};
use dpopt_objective::records::RecordSet;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable, own_evidence};
use dpopt_optimize::planning::{in_range, positive};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, calibrate};

/// Most candidates: their scores are held in memory.
pub const MAX_CANDIDATES: u64 = 1 << 24;

/// The curvature along public directions counts too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvatureOptions {
    /// M: a record's curvature along a direction is cut to ±M.
    pub bound: f64,
    /// ρ: how much a curvature changes per unit of distance; −√(ρα) is allowed.
    pub hessian_lipschitz: f64,
}

/// What a choice among candidates can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationaryOptions {
    /// C: gradients are clipped to this l2 norm.
    pub clip_norm: f64,
    /// α: the norm of the mean gradient that is wanted; needed for the first that has it, and where the curvature counts.
    pub target: Option<f64>,
    /// Whether the curvature counts.
    pub curvature: Option<CurvatureOptions>,
    /// Whether the first candidate that is good enough is taken, which may be none, and not the best of all.
    pub first: bool,
}

impl Default for StationaryOptions {
    fn default() -> Self {
        Self { clip_norm: 1.0, target: None, curvature: None, first: false }
    }
}

/// What is public of the records and the candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationaryProblem {
    /// n, or under add-or-remove a public guess.
    pub records: u64,
    /// T: number of candidates.
    pub candidates: u64,
    /// Between which data sets.
    pub neighbours: Neighbours,
    /// Why it may be believed that what is said of a record is that record's own.
    pub own_evidence: Evidence,
}

#[derive(Clone, Debug)]
enum Law {
    Best(Choice),
    First(AboveThreshold),
}

/// A certified choice.
#[derive(Clone, Debug)]
pub struct StationaryPlan {
    /// What a candidate's score is made of.
    pub score: Stationarity,
    law: Law,
    candidates: usize,
    /// The certified privacy event of the choice.
    pub certificate: Certificate,
    /// In units of the norm of the mean clipped gradient: of the best of all, how much smaller the least score is on average at most; of the first that is good enough,
    /// how far beyond what is wanted it is with probability .95 at most.
    pub error: f64,
    /// What the guarantee rests on.
    pub assumptions: Vec<Assumption>,
}

impl StationaryPlan {
    /// How far the claim can be trusted.
    pub fn grade(&self) -> Grade {
        Grade::resting_on(Assumption::weakest(&self.assumptions))
    }
}

fn scored(problem: &StationaryProblem, options: &StationaryOptions) -> Result<Stationarity, NotApplicable> {
    let option = |text: &'static str| NotApplicable::Option(text.into());
    let refused = |e: CuratorError| NotApplicable::Option(e.to_string().into());
    let clip = positive("the clip norm", options.clip_norm)?;
    let score = Stationarity::of_gradients(clip).map_err(refused)?;
    let alpha = options.target.map(|alpha| in_range("alpha", alpha, 0.0, clip)).transpose()?;
    let Some(curvature) = options.curvature else {
        return match alpha {
            None if options.first => Err(option(
                "finding the first good candidate needs a threshold; give alpha, the norm of the mean gradient that \
                 is good enough",
            )),
            None => Ok(score),
            Some(gradient) => {
                score.wanting(Wanted { gradient, curvature: 0.0, records: problem.records }).map_err(refused)
            }
        };
    };
    let Some(gradient) = alpha else {
        return Err(option(
            "comparing gradient and curvature needs a threshold; give alpha, the norm of the mean \
                           gradient that is good enough",
        ));
    };
    let bound = positive("the bound on curvatures", curvature.bound)?;
    let rho = positive("the Lipschitz constant of the Hessian", curvature.hessian_lipschitz)?;
    let allowed = in_range("the allowed curvature, √(hessian_lipschitz·alpha),", (rho * gradient).sqrt(), 0.0, bound)?;
    score.with_curvature(bound, Wanted { gradient, curvature: allowed, records: problem.records }).map_err(refused)
}

/// The certified plan; reads nothing.
///
/// # Errors
/// If an option is out of range or missing.
pub fn plan(
    problem: &StationaryProblem,
    budget: Budget,
    options: &StationaryOptions,
) -> Result<StationaryPlan, NotApplicable> {
    let refused = |e: CuratorError| NotApplicable::Option(e.to_string().into());
    if !(1..=MAX_CANDIDATES).contains(&problem.candidates) {
        return Err(NotApplicable::Problem("the number of candidates is out of range; give 1 to 2^24".into()));
    }
    if !(1..=MAX_SUMMED).contains(&problem.records) {
        return Err(NotApplicable::Problem("the number of records is out of range; give 1 to 2^38".into()));
    }
    let score = scored(problem, options)?;
    // pure whatever δ could be spent
    let pure = Budget::new(budget.epsilon(), 0.0).map_err(|e| NotApplicable::Option(e.to_string().into()))?;
    let event = |inverse: f64| match options.first {
        true => Event::PureStream { epsilon: 1.0 / inverse },
        false => Event::ExponentialMechanism { epsilon: 1.0 / inverse },
    };
    let (inverse, certificate) = calibrate::noise(event, problem.neighbours.within(pure))?;
    let epsilon = 1.0 / inverse;
    let (relation, unit) = (problem.neighbours.relation, score.sensitivity());
    let per_step = score.unit() / problem.records as f64;
    let candidates = problem.candidates as f64;
    let (law, steps) = if options.first {
        let law = AboveThreshold::new(epsilon, unit, 1, false, relation).map_err(refused)?;
        // a score that is below by the tails of the threshold's noise and of any query's
        let tails = law.threshold_scale() * (2.0 / 0.05f64).ln() + law.query_scale() * (2.0 * candidates / 0.05).ln();
        (Law::First(law), tails)
    } else {
        let law = Choice::new(ChoiceLaw::Exponential, epsilon, unit, false, relation).map_err(refused)?;
        law.can_draw().map_err(refused)?;
        let lost = 2.0 * relation.sum_sensitivity() * unit as f64 / epsilon * (candidates.ln() + 1.0);
        (Law::Best(law), lost)
    };
    let mut assumptions = vec![
        Assumption::enforced(
            "each record's gradient has l2 norm at most the clip norm: enforced in exact integers, whose norm is an exact root",
        ),
        own_evidence(
            problem.own_evidence,
            "what the objective returns for a record depends on that record and on the candidate only, not on other \
             records or on earlier calls",
        ),
        Assumption::proved(
            "the choice, or the noise of each comparison, is drawn from its exact distribution, to within 2^-170 per \
             draw",
        ),
        Assumption::public(
            "assumed, not checked: the candidates depend on these records only through releases that were charged, \
             or not at all",
        ),
    ];
    if score.has_curvature() {
        assumptions.push(Assumption::enforced(
            "each record's curvature along each of the public directions is clipped to the bound in exact integers; \
             both parts of every score are computed",
        ));
    }
    Ok(StationaryPlan {
        score,
        law,
        candidates: problem.candidates as usize,
        certificate,
        error: steps * per_step,
        assumptions,
    })
}

/// The sums of a candidate.
pub type Sums = (Sensitive<GridSum>, Option<CurvatureSum>);

/// The index of the chosen candidate; `None` where none was good enough. `sums` gives those of all records at the candidate of that index, made on the grid of the
/// plan's score; `curator` must have been opened for the plan's certificate.
///
/// # Errors
/// If `sums` fails or gives others, or the curator refuses.
pub fn run(
    plan: &StationaryPlan,
    curator: &mut Curator,
    progress: &dyn Progress,
    mut sums: impl FnMut(&mut Curator, usize) -> Result<Sums, RunError>,
) -> Result<Released<Option<usize>>, RunError> {
    progress.start("stationary", plan.candidates as u64);
    let mut score_of = |curator: &mut Curator, candidate: usize| -> Result<_, RunError> {
        let (gradients, curvatures) = sums(curator, candidate)?;
        let score = plan.score.score(&gradients, curvatures)?;
        progress.tick();
        Ok(score)
    };
    let chosen = match &plan.law {
        Law::Best(choice) => {
            let all = (0..plan.candidates).map(|i| score_of(curator, i)).collect::<Result<Vec<_>, _>>()?;
            curator.release(choice, &plan.score.together(&all)?)?.map(Some)
        }
        Law::First(threshold) => {
            let mut comparisons = curator.open(threshold)?;
            let mut last = None;
            for i in 0..plan.candidates {
                let score = score_of(curator, i)?;
                let above = comparisons.is_above(&score, 0)?;
                let found = *above.get();
                last = Some(above.map(|above| above.then_some(i)));
                if found {
                    break;
                }
            }
            last.ok_or(CuratorError::Shape)?
        }
    };
    progress.finish();
    Ok(chosen)
}

/// Σ clip(∇φ_i(x)) of records in memory, as a plan's score takes it.
///
/// # Errors
/// If a record can't be read.
pub fn gradient_sum<R: RecordSet, O: Objective<R>>(
    plan: &StationaryPlan,
    objective: O,
    records: &Sensitive<R>,
    x: &[f64],
) -> Result<Sensitive<GridSum>, RunError> {
    let clipped = Clipped::new(objective, plan.score.clip_norm(), plan.score.grid())?;
    Ok(clipped.sum_of(records, None, x).map_err(CuratorError::unreadable)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::progress::Silent;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::objective::Closures;
    use dpopt_privacy::Relation;

    fn problem(records: u64, candidates: u64, relation: Relation) -> StationaryProblem {
        StationaryProblem {
            records,
            candidates,
            neighbours: Neighbours::of_records(relation),
            own_evidence: Evidence::Proved,
        }
    }

    fn pure(epsilon: f64) -> Budget {
        Budget::new(epsilon, 0.0).unwrap()
    }

    /// φ(x) = ½(x₀ − a)² + (x₁² − 1)²/4: a saddle at (a, 0), minima at (a, ±1).
    fn wells() -> impl Objective<Vec<f64>> + Clone {
        Closures::new(
            2,
            |x: &[f64], a: &f64| 0.5 * (x[0] - a).powi(2) + 0.25 * (x[1] * x[1] - 1.0).powi(2),
            |x: &[f64], a: &f64, g: &mut [f64]| g.copy_from_slice(&[x[0] - a, x[1] * (x[1] * x[1] - 1.0)]),
        )
    }

    fn chosen(plan: &StationaryPlan, records: &[f64], candidates: &[[f64; 2]], seed: u64) -> Option<usize> {
        let sensitive = Sensitive::new(records.to_vec());
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
        let found = run(plan, &mut curator, &Silent, |curator, i| {
            let gradients = gradient_sum(plan, wells(), &sensitive, &candidates[i])?;
            let (batch, chosen) = curator.all_for_loader(records.len())?;
            let curvatures = plan.score.curvatures(batch, 2).map(|mut sum| {
                let x = candidates[i];
                sum.add(chosen.len(), |_, out| out.extend([1.0, 3.0 * x[1] * x[1] - 1.0])).map(|()| sum)
            });
            Ok((gradients, curvatures.transpose()?))
        });
        assert!(curator.is_spent());
        found.unwrap().into_inner()
    }

    const CANDIDATES: [[f64; 2]; 4] = [[3.0, 0.5], [0.5, 0.0], [0.5, 0.97], [-2.0, 1.0]];

    #[test]
    fn the_most_stationary_is_a_saddle_unless_the_curvature_counts() {
        let records: Vec<f64> = (0..4000).map(|i| f64::from(i % 2)).collect();
        let curvature = Some(CurvatureOptions { bound: 4.0, hessian_lipschitz: 1.0 });
        let gradients_only = StationaryOptions { clip_norm: 2.0, ..StationaryOptions::default() };
        let both = StationaryOptions { curvature, target: Some(0.1), ..gradients_only };
        for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
            let of = |options| plan(&problem(4000, 4, relation), pure(2.0), &options).unwrap();
            let (plain, with) = (of(gradients_only), of(both));
            let saddles = (0..40).filter(|&seed| chosen(&plain, &records, &CANDIDATES, seed) == Some(1)).count();
            // .06 of gradient against noise of 2·2·(1 or 2)/(2·4000) = .001: mistakes are of probability 1e-13
            assert_eq!(saddles, 40);
            assert!((0..40).all(|seed| chosen(&with, &records, &CANDIDATES, seed) == Some(2)));
            assert!(plain.error < 0.01 && plain.grade() == Grade::Certified);
        }
    }

    #[test]
    fn the_first_that_is_good_enough_is_taken_and_none_is_an_answer() {
        let records: Vec<f64> = (0..40_000).map(|i| f64::from(i % 2)).collect();
        let options =
            StationaryOptions { clip_norm: 2.0, target: Some(0.2), first: true, ..StationaryOptions::default() };
        let of = |candidates: u64, options| {
            plan(&problem(40_000, candidates, Relation::ReplaceOne), pure(2.0), &options).unwrap()
        };
        assert_eq!(chosen(&of(4, options), &records, &CANDIDATES, 1), Some(1));
        let curvature = Some(CurvatureOptions { bound: 4.0, hessian_lipschitz: 0.05 });
        assert_eq!(chosen(&of(4, StationaryOptions { curvature, ..options }), &records, &CANDIDATES, 1), Some(2));
        assert_eq!(chosen(&of(1, options), &records, &CANDIDATES[..1], 1), None);
        assert_eq!(
            *of(4, options).certificate.event(),
            Event::PureStream { epsilon: of(4, options).certificate.bound().upper }
        );
    }

    /// One candidate at the target and all others at it plus twice the bound: the good one is found about as often as the bound says.
    #[test]
    fn the_good_one_is_found_as_often_as_the_bound_says() {
        let options =
            StationaryOptions { clip_norm: 1.0, target: Some(0.1), first: true, ..StationaryOptions::default() };
        let count = 30;
        let plan = plan(&problem(20_000, count, Relation::ReplaceOne), pure(1.0), &options).unwrap();
        let far = 0.1 + 2.0 * plan.error;
        assert!(far < 0.5, "{far}");
        let near = 0.1 - plan.error;
        let candidates: Vec<[f64; 2]> = (0..count).map(|i| [if i == 17 { near } else { far }, 1.0]).collect();
        let records = vec![0.0; 20_000];
        // exact sums are the same for all seeds
        let found = (0..200).filter(|&seed| chosen(&plan, &records, &candidates, seed) == Some(17)).count();
        // .95 in each of the two directions at the worst; below 160 of 200 a chance of 2e-4 at .9, the bound being far from tight
        assert!(found >= 160, "{found}");
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        let refusal = |options: StationaryOptions| {
            plan(&problem(100, 3, Relation::ZeroOut), pure(1.0), &options).unwrap_err().to_string()
        };
        let usual = StationaryOptions::default();
        assert!(refusal(StationaryOptions { first: true, ..usual }).contains("needs a threshold; give alpha"));
        let curvature = Some(CurvatureOptions { bound: 1.0, hessian_lipschitz: 1.0 });
        assert!(refusal(StationaryOptions { curvature, ..usual }).contains("give alpha"));
        assert!(refusal(StationaryOptions { clip_norm: -1.0, ..usual }).contains("positive"));
        assert!(refusal(StationaryOptions { target: Some(2.0), ..usual }).contains("alpha is 2"));
        let wide = Some(CurvatureOptions { bound: 0.01, hessian_lipschitz: 1.0 });
        assert!(refusal(StationaryOptions { curvature: wide, target: Some(0.5), ..usual }).contains("allowed"));
        assert!(plan(&problem(100, 0, Relation::ZeroOut), pure(1.0), &usual).is_err());
    }
}
