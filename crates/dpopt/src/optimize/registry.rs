//! Every method for linear models, planned for one problem and sorted by predicted risk: the table of `explain`, and
//! `method = auto` takes its first row.

use super::{
    Algorithm, BiasReducedSgd, DpAdaGrad, DpAdam, DpFtrl, DpGdHt, DpScsgHt, DpSgdHt, DpSvrgHt, EmbeddingSgd,
    ExponentialMechanism, FrankWolfe, MethodOptions, NoisyGradientDescent, NoisyNewton, NoisySgd,
    ObjectivePerturbation, OutputPerturbation, Pagan, Pasan, PdpSgd, Peeling, Prepared, Regime, Regimes,
    RegularizedDescent, ReleasedPreconditioner, SparseExponential, SparseOutputPerturbation, SufficientStatistics,
    prepare,
};
use crate::plan::{Grade, NotApplicable, Problem};
use dpopt_privacy::Budget;
use rayon::prelude::*;

/// One row of `explain`: a planned and certified method, or why it does not apply.
pub struct Candidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, ready to run, or the reason.
    pub plan: Result<Box<dyn Prepared>, NotApplicable>,
}

type Planner = fn(&Problem, Budget, &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable>;

fn planned<A: Algorithm>(
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    prepare(A::from(options), problem, budget)
}

/// A method that is never the best: planned, with its cost, only when it is asked for.
fn reference<A: Algorithm>(
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    if options.method.as_deref() != Some(A::NAME) {
        return Err(NotApplicable::Option(format!(
            "a reference of the literature, planned only with --method {}",
            A::NAME
        )));
    }
    planned::<A>(problem, budget, options)
}

/// Peeling leaves the fit of what it picked to another method where δ = 0.
fn peeling(problem: &Problem, budget: Budget, options: &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable> {
    prepare(Peeling { fit: Some(choose), ..Peeling::from(options) }, problem, budget)
}

/// In the standing order: one release before many, full batches before samples.
const PLANNERS: [(&str, Planner); 24] = [
    (ObjectivePerturbation::NAME, planned::<ObjectivePerturbation>),
    (NoisyGradientDescent::NAME, planned::<NoisyGradientDescent>),
    (ReleasedPreconditioner::NAME, planned::<ReleasedPreconditioner>),
    (NoisySgd::NAME, planned::<NoisySgd>),
    (DpFtrl::NAME, planned::<DpFtrl>),
    (NoisyNewton::NAME, planned::<NoisyNewton>),
    (ExponentialMechanism::NAME, planned::<ExponentialMechanism>),
    (OutputPerturbation::NAME, planned::<OutputPerturbation>),
    (SparseOutputPerturbation::NAME, planned::<SparseOutputPerturbation>),
    (SparseExponential::NAME, planned::<SparseExponential>),
    (DpGdHt::NAME, planned::<DpGdHt>),
    (DpSgdHt::NAME, planned::<DpSgdHt>),
    (DpSvrgHt::NAME, planned::<DpSvrgHt>),
    (DpScsgHt::NAME, planned::<DpScsgHt>),
    (Peeling::NAME, peeling),
    (FrankWolfe::NAME, planned::<FrankWolfe>),
    (BiasReducedSgd::NAME, reference::<BiasReducedSgd>),
    (SufficientStatistics::NAME, planned::<SufficientStatistics>),
    (RegularizedDescent::NAME, planned::<RegularizedDescent>),
    (Pagan::NAME, planned::<Pagan>),
    (Pasan::NAME, planned::<Pasan>),
    (DpAdaGrad::NAME, planned::<DpAdaGrad>),
    (DpAdam::NAME, planned::<DpAdam>),
    (PdpSgd::NAME, planned::<PdpSgd>),
];

/// Methods that keep at most `max_features` features.
const LIMITING: [&str; 6] =
    [DpGdHt::NAME, DpSgdHt::NAME, DpSvrgHt::NAME, DpScsgHt::NAME, Peeling::NAME, FrankWolfe::NAME];

/// Methods whose proved error grows with ln d and not with √d.
pub(crate) const LOGARITHMIC: [&str; 2] = [SparseOutputPerturbation::NAME, FrankWolfe::NAME];

/// Names of all methods, as in `--method`.
pub const METHODS: [&str; PLANNERS.len()] = {
    let mut names = [""; PLANNERS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PLANNERS[i].0;
        i += 1;
    }
    names
};

/// Plans and certifies every method for `problem` within `budget`; the smallest predicted risk first, methods that do
/// not apply last, with their reasons. Touches no record.
///
/// The model behind the predictions is worth about a factor of two: methods within each factor of two of the best stay
/// in the order of [`METHODS`], which puts one release before many, and full batches before samples; beyond 10⁹ gradients
/// of one record a method that needs ten times fewer comes first. Where rows are so few and features so many that only an
/// error that grows with ln d is of use ([`Regime::Sparse`]), methods with such an error come first: the common model of the data
/// thinks too well of the others there. A method asked for by name comes before all others;
/// the fixed options are its own then, and the others are planned with their defaults, for comparison.
pub fn candidates(problem: &Problem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
    if options.embedding.is_some() {
        let plan = options.check().and_then(|()| planned::<EmbeddingSgd>(problem, budget, options));
        return vec![Candidate { method: EmbeddingSgd::NAME, plan }];
    }
    if let Err(why) = options.check() {
        return PLANNERS.iter().map(|&(method, _)| Candidate { method, plan: Err(why.clone()) }).collect();
    }
    let MethodOptions { max_features, intercept, .. } = *options;
    // what is asked of the answer holds for the comparison too
    let defaults = MethodOptions { max_features, intercept, ..MethodOptions::default() };
    let by_name = |name: &str| options.method.as_deref() == Some(name);
    let mut all: Vec<Candidate> = PLANNERS
        .par_iter()
        .map(|&(method, planner)| {
            let own = if options.method.is_none() || by_name(method) { options } else { &defaults };
            Candidate { method, plan: limits(method, options).and_then(|()| planner(problem, budget, own)) }
        })
        .collect();
    let risk = |c: &Candidate| c.plan.as_ref().map_or(f64::INFINITY, |p| p.summary().predicted_excess_risk);
    let best = all.iter().map(risk).fold(f64::INFINITY, f64::min);
    let octave = |c: &Candidate| octave(risk(c), best);
    let decade = |c: &Candidate| c.plan.as_ref().map_or(0, |plan| decade(plan.summary().gradients));
    let sparse = Regimes::of(problem, budget).at(problem.rows as f64) == Regime::Sparse;
    let regime = |c: &Candidate| !(sparse && c.plan.is_ok() && LOGARITHMIC.contains(&c.method));
    // stable: keeps the order of METHODS within a factor of two
    all.sort_by_key(|c| (!by_name(c.method), regime(c), octave(c), decade(c)));
    all
}

/// How often `risk` is twice the `best`: 0 within a factor of two, all that predictions are good for.
pub(crate) fn octave(risk: f64, best: f64) -> u32 {
    match (risk / best.max(f64::MIN_POSITIVE)).log2() {
        octaves if octaves.is_finite() => octaves.floor().clamp(0.0, 1e6) as u32,
        _ => u32::MAX,
    }
}

/// Powers of ten of a method's gradients beyond 10⁹.
pub(crate) fn decade(gradients: f64) -> u32 {
    (gradients / 1e9).max(1.0).log10().floor() as u32
}

/// The method asked for by name, without the others; `None` if no name is given or no method has it.
pub fn named(problem: &Problem, budget: Budget, options: &MethodOptions) -> Option<Candidate> {
    let wanted = options.method.as_deref()?;
    if options.embedding.is_some() {
        return candidates(problem, budget, options).pop().filter(|c| c.method == wanted);
    }
    let &(method, planner) = PLANNERS.iter().find(|(name, _)| *name == wanted)?;
    let allowed = options.check().and_then(|()| limits(method, options));
    Some(Candidate { method, plan: allowed.and_then(|()| planner(problem, budget, options)) })
}

/// Refuses a method that would use all features where few are asked for.
fn limits(method: &str, options: &MethodOptions) -> Result<(), NotApplicable> {
    match options.max_features {
        Some(_) if !LIMITING.contains(&method) => Err(NotApplicable::Problem(format!(
            "it uses all features; with --max-features take one of {}",
            LIMITING.join(", ")
        ))),
        _ => Ok(()),
    }
}

/// The candidate to run: the method asked for by name, or else the first that applies and is proved (research grade is
/// off unless it is asked for by name). Otherwise why there is none.
pub fn first_applicable(
    candidates: Vec<Candidate>,
    options: &MethodOptions,
) -> Result<(usize, Box<dyn Prepared>), NotApplicable> {
    let mut reasons = Vec::new();
    for (place, candidate) in candidates.into_iter().enumerate() {
        match (candidate.plan, options.method.as_deref()) {
            (_, Some(wanted)) if wanted != candidate.method => continue,
            (Ok(plan), Some(_)) => return Ok((place, plan)),
            (Ok(plan), None) if plan.summary().grade == Grade::Certified => return Ok((place, plan)),
            (Ok(_), None) => reasons.push(format!("{}: research grade, only by name", candidate.method)),
            (Err(why), _) => reasons.push(format!("{}: {why}", candidate.method)),
        }
    }
    Err(NotApplicable::Problem(format!("no method applies ({})", reasons.join("; "))))
}

/// Plans all methods and takes the one to run.
pub fn choose(problem: &Problem, budget: Budget, options: &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable> {
    check_options(options)?;
    first_applicable(candidates(problem, budget, options), options).map(|(_, plan)| plan)
}

/// Refuses numbers that no method could use, and a name that no method has.
pub(crate) fn check_options(options: &MethodOptions) -> Result<(), NotApplicable> {
    options.check()?;
    match options.method.as_deref() {
        Some(name) if options.embedding.is_some() && name != EmbeddingSgd::NAME => Err(NotApplicable::Option(format!(
            "`{name}` fits linear models; embedding models are fitted by {}: leave out the method",
            EmbeddingSgd::NAME
        ))),
        Some(name) if options.embedding.is_none() && !METHODS.contains(&name) => Err(NotApplicable::Option(format!(
            "there is no method `{name}`; leave it out for the best prediction, or choose one of {}",
            METHODS.join(", ")
        ))),
        _ => Ok(()),
    }
}
