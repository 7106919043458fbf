//! The methods that ship, and the registry that is used where the user gives none.

use super::{
    AdaptiveClipDescent, CentredDescent, DpAdaGrad, DpAdam, DpFtrl, DpGdHt, DpScsgHt, DpSgdHt, DpSvrgHt, EmbeddingSgd,
    ExponentialMechanism, FrankWolfe, NoisyGradientDescent, NoisyNewton, NoisySgd, ObjectivePerturbation, OneStep,
    OutputPerturbation, Pagan, Pasan, PdpSgd, Peeling, RegularizedDescent, ReleasedPreconditioner, SparseExponential,
    SparseOutputPerturbation, SufficientStatistics, expected_risk,
};
use dpopt_optimize::options::MethodOptions;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::registry::{Described, Registry, asked};
use dpopt_optimize::{Candidate, Prepared};
use dpopt_privacy::Budget;
use std::sync::LazyLock;

/// The methods that ship.
///
/// ```
/// use dpopt_optimize::MethodOptions;
/// let methods = dpopt_linear::registry();
/// let options = MethodOptions::of("noisy-sgd").with("clip_norm", 0.5).with("steps", 100);
/// assert!(methods.check(&options).is_ok());
/// let wrong = methods.check(&MethodOptions::of("noisy-sgd").with("clip_norm", -1.0)).unwrap_err();
/// assert_eq!(wrong.to_string(), "`clip_norm` is -1; give a positive, finite number");
/// let unknown = methods.check(&MethodOptions::default().with("clip_nrom", 1.0)).unwrap_err();
/// assert_eq!(unknown.to_string(), "there is no option `clip_nrom`; did you mean `clip_norm`?");
/// let refused = methods.check_options(&MethodOptions::of("localized-clipped-sgd")).unwrap_err().to_string();
/// assert!(refused.contains("not differentially private"));
/// ```
pub fn registry() -> &'static Registry {
    static SHIPPED: LazyLock<Registry> = LazyLock::new(|| {
        // in the tie-break order: one release before many, full batches before samples
        Registry::new(expected_risk)
            .with::<AdaptiveClipDescent>()
            .with::<ObjectivePerturbation>()
            .with::<CentredDescent>()
            .with::<NoisyGradientDescent>()
            .with::<ReleasedPreconditioner>()
            .with::<NoisySgd>()
            .with::<DpFtrl>()
            .with::<NoisyNewton>()
            .with::<ExponentialMechanism>()
            .with::<OutputPerturbation>()
            .with::<SparseOutputPerturbation>()
            .with::<SparseExponential>()
            .with::<DpGdHt>()
            .with::<DpSgdHt>()
            .with::<DpSvrgHt>()
            .with::<DpScsgHt>()
            .with_planner::<Peeling>(peeling)
            .with::<FrankWolfe>()
            .with::<SufficientStatistics>()
            .with::<OneStep>()
            .with::<RegularizedDescent>()
            .with::<Pagan>()
            .with::<Pasan>()
            .with::<DpAdaGrad>()
            .with::<DpAdam>()
            .with::<PdpSgd>()
            .with_embedding::<EmbeddingSgd>()
    });
    &SHIPPED
}

/// Peeling leaves the fit of what it picked to another method where δ = 0.
fn peeling(
    registry: &Registry,
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    let read = |options: &MethodOptions| Ok(Peeling { fit: Some(choose), ..asked(options)? });
    registry.plan_as_asked(read, problem, budget, options)
}

/// All options of the methods that ship.
pub fn catalogue() -> &'static [Described] {
    registry().catalogue()
}

/// Whether a method that ships has an option.
pub fn has_option(method: &str, option: &str) -> bool {
    registry().has_option(method, option)
}

/// [`Registry::candidates`] of the methods that ship.
pub fn candidates(problem: &Problem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
    registry().candidates(problem, budget, options)
}

/// [`Registry::named`] of the methods that ship.
pub fn named(problem: &Problem, budget: Budget, options: &MethodOptions) -> Option<Candidate> {
    registry().named(problem, budget, options)
}

/// [`Registry::choose`] of the methods that ship.
///
/// # Errors
/// Why there is nothing to run.
pub fn choose(problem: &Problem, budget: Budget, options: &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable> {
    registry().choose(problem, budget, options)
}

/// [`Registry::check_values`] of the methods that ship.
///
/// # Errors
/// The first value that is refused.
pub fn check_values(options: &MethodOptions) -> Result<(), NotApplicable> {
    registry().check_values(options)
}

/// [`Registry::check_options`] of the methods that ship.
///
/// # Errors
/// The first option that is refused.
pub fn check_options(options: &MethodOptions) -> Result<(), NotApplicable> {
    registry().check_options(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::loss::Loss;
    use dpopt_optimize::plan::Summary;
    use dpopt_optimize::registry::work;
    use dpopt_privacy::{Neighbours, Relation};
    use rayon::prelude::*;

    /// Rows such as those of pictures, of few and of many classes: a joint descent, in seconds, at every budget.
    #[test]
    fn several_classes_are_learnt_by_descent_on_all_rows() {
        let tables = [(1437, 65, 10), (142, 14, 3), (120, 5, 3), (16_000, 17, 26), (8000, 785, 10)];
        tables.into_par_iter().for_each(|(rows, features, classes)| {
            for epsilon in [0.1, 0.5, 1.0, 4.0] {
                let problem = Problem {
                    directions: None,
                    prior_release: None,
                    calibrated: None,
                    intervals: None,
                    record: Default::default(),
                    rows,
                    features,
                    nonzeros: features,
                    row_norm: 1.0,
                    loss: Loss::Softmax { classes },
                    neighbours: Neighbours::of_records(Relation::ZeroOut),
                };
                let budget = Budget::new(epsilon, (rows as f64).powf(-1.1)).unwrap();
                let options = MethodOptions::default().with_intercept(0);
                let plan = choose(&problem, budget, &options).unwrap();
                let Summary { method, gradients, .. } = plan.summary();
                assert_eq!(*method, "centred-descent", "{rows} rows, {features} features, epsilon {epsilon}");
                // about a nanosecond each
                assert!(work(&problem, *gradients) < 2e10, "{rows} rows: {gradients}");
            }
        });
    }
}
