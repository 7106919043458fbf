//! A method that minimizes objectives and stands outside of the library: planned, compared, refused and run as those that ship.

use dpopt::RunOptions;
use dpopt::minimize::{
    Minimization, MinimizeOptions, MinimizePlan, MinimizeProblem, MinimizeRegistry, Minimizer, Oracle, Rule, Sums,
    Walk, minimize, registry,
};
use dpopt::model::FitError;
use dpopt::objective::Closures;
use dpopt_optimize::options::{MethodOptions, OptionReader, Range, Setting};
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::{RunError, options::common::STEPS};
use dpopt_privacy::{Budget, Neighbours, Relation};
use std::collections::BTreeMap;

static SHRINK: Setting<f64> =
    Setting::real("shrink", Range::POSITIVE, "steps are shorter by this power of their number [default: 0.5]");

/// x ← x − η·t^−shrink·sign(noisy mean gradient), and the mean of the last half.
struct SignSteps;

#[derive(Debug)]
struct SignWalk {
    length: f64,
    shrink: f64,
}

impl Walk for SignWalk {
    fn walk(&self, oracle: &mut Oracle<'_>) -> Result<Vec<f64>, RunError> {
        let steps = oracle.steps();
        let (mut way, mut mean) = (vec![0.0; oracle.dimension()], vec![0.0; oracle.dimension()]);
        for t in 1..=steps {
            let gradient = oracle.mean_gradient(&way)?;
            let length = self.length * (t as f64).powf(-self.shrink);
            way.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= length * g.signum());
            if t > steps / 2 {
                mean.iter_mut().zip(&way).for_each(|(m, w)| *m += w / (steps - steps / 2) as f64);
            }
        }
        Ok(mean)
    }

    fn numbers(&self) -> BTreeMap<&'static str, f64> {
        BTreeMap::from([("length", self.length), ("shrink", self.shrink)])
    }
}

impl Minimizer for SignSteps {
    type Options = (Option<u64>, Option<f64>);

    fn name(&self) -> &'static str {
        "sign-steps"
    }

    fn read(&self, options: &OptionReader<'_>) -> Self::Options {
        (options.get(&STEPS), options.get(&SHRINK))
    }

    fn plan(
        &self,
        (steps, shrink): Self::Options,
        problem: &MinimizeProblem,
        budget: Budget,
    ) -> Result<MinimizePlan, NotApplicable> {
        let walk = SignWalk {
            length: problem.distance / (problem.dimension as f64 * 10.0).sqrt(),
            shrink: shrink.unwrap_or(0.5),
        };
        MinimizePlan::along(self.name(), problem, budget, Sums { steps, ..Sums::default() }, walk)
    }
}

/// A method that asks for one gradient more than was certified.
#[derive(Debug)]
struct TooLong;

impl Walk for TooLong {
    fn walk(&self, oracle: &mut Oracle<'_>) -> Result<Vec<f64>, RunError> {
        let way = vec![0.0; oracle.dimension()];
        for _ in 0..=oracle.steps() {
            oracle.mean_gradient(&way)?;
        }
        Ok(way)
    }
}

/// A method that ends at no point.
#[derive(Debug)]
struct Nowhere;

impl Walk for Nowhere {
    fn walk(&self, oracle: &mut Oracle<'_>) -> Result<Vec<f64>, RunError> {
        oracle.mean_gradient(&vec![0.0; oracle.dimension()])?;
        Ok(Vec::new())
    }
}

/// A method with any steps.
struct Walking<W>(&'static str, fn() -> W);

impl<W: Walk + 'static> Minimizer for Walking<W> {
    type Options = ();

    fn name(&self) -> &'static str {
        self.0
    }

    fn by_name_only(&self) -> Option<&'static str> {
        Some("for tests")
    }

    fn read(&self, _: &OptionReader<'_>) {}

    fn plan(&self, (): (), problem: &MinimizeProblem, budget: Budget) -> Result<MinimizePlan, NotApplicable> {
        let sums = Sums { steps: Some(4), sampling_probability: Some(1.0), ..Sums::default() };
        MinimizePlan::along(self.0, problem, budget, sums, (self.1)())
    }
}

fn with_own() -> MinimizeRegistry {
    registry().clone().with(SignSteps).with(Walking("too-long", || TooLong)).with(Walking("nowhere", || Nowhere))
}

const CENTRE: [f64; 3] = [0.5, -0.25, 1.0];

fn problem() -> MinimizeProblem {
    MinimizeProblem::new(6000, CENTRE.len(), Neighbours::of_records(Relation::ZeroOut))
}

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

fn found(method: MethodOptions) -> Result<dpopt::minimize::Minimum, FitError> {
    let loss = Closures::new(
        CENTRE.len(),
        |x: &[f64], a: &[f64; 3]| 0.5 * x.iter().zip(a).map(|(x, a)| (x - a).powi(2)).sum::<f64>(),
        |x: &[f64], a: &[f64; 3], g: &mut [f64]| (0..3).for_each(|j| g[j] = x[j] - a[j]),
    );
    let records: Vec<[f64; 3]> = (0..6000).map(|i| CENTRE.map(|c| c + 0.1 * f64::from(i % 7 - 3) / 3.0)).collect();
    let options = MinimizeOptions::default().method(method).registry(with_own());
    minimize(loss, records, &[0.0; 3], RunOptions::within(1.0).delta(1e-6).insecure_seed(7), options)
}

#[test]
fn it_is_planned_and_run_as_those_that_ship() {
    let minimum = found(MethodOptions::of("sign-steps").with("shrink", 0.7)).unwrap();
    let away = minimum.x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
    // the start is 1.15 away
    assert!(away < 0.15, "{away}");
    assert!(minimum.guarantee.certified_epsilon <= 1.0);
    assert_eq!((minimum.plan.method, minimum.plan.schedule.rule), ("sign-steps", Rule::Own));
    let shown = &minimum.report.schedule;
    assert_eq!((&shown["rule"], &shown["shrink"]), (&"own".into(), &0.7.into()));
    assert_eq!(minimum.report.candidates[0].method, "sign-steps");
}

#[test]
fn its_noise_is_that_of_the_sums_it_walks_along() {
    let known = with_own();
    let own = known.choose(&problem(), budget(), &MethodOptions::of("sign-steps").with("steps", 50u64)).unwrap();
    let sgd = known.choose(&problem(), budget(), &MethodOptions::of("noisy-sgd").with("steps", 50u64)).unwrap();
    assert_eq!(own.certificate.event(), sgd.certificate.event());
    assert_eq!(own.schedule.batches, sgd.schedule.batches);
    assert_eq!(own.assumptions, sgd.assumptions);
}

#[test]
fn its_options_are_checked_and_listed() {
    let known = with_own();
    let refused = |options: MethodOptions| known.choose(&problem(), budget(), &options).unwrap_err().to_string();
    assert!(refused(MethodOptions::of("sign-steps").with("shrink", -1.0)).contains("shrink"));
    assert!(refused(MethodOptions::of("sign-steps").with("momentum", 0.5)).contains("momentum"));
    assert!(refused(MethodOptions::of("sign-steps").with("shrinc", 0.5)).contains("did you mean `shrink`"));
    assert!(refused(MethodOptions::of("sign-step")).contains("sign-steps"));
    let listed = known.catalogue().iter().find(|option| option.info.name == "shrink").expect("listed");
    assert_eq!(listed.methods, ["sign-steps"]);
    // those that ship know nothing of it
    assert!(registry().names().all(|name| name != "sign-steps"));
    assert!(Minimization::plan(problem(), budget(), &MethodOptions::of("sign-steps")).is_err());
}

#[test]
fn by_name_only_is_by_name_only() {
    let all = with_own().candidates(&problem(), budget(), &MethodOptions::default());
    let of = |name: &str| all.iter().find(|c| c.method == name).expect("in the table");
    assert!(of("sign-steps").plan.is_ok());
    assert!(of("too-long").plan.as_ref().unwrap_err().to_string().contains("for tests"));
}

#[test]
fn a_walk_that_fails_is_refused_while_it_is_planned() {
    for (method, words) in
        [("too-long", "used up the gradients of its plan"), ("nowhere", "the optimizer returned a point")]
    {
        let planned = with_own().choose(&problem(), budget(), &MethodOptions::of(method));
        let error = planned.map(|plan| plan.method).unwrap_err().to_string();
        assert!(error.contains("fails on synthetic gradients") && error.contains(words), "{error}");
        assert!(found(MethodOptions::of(method)).unwrap_err().to_string().contains(words));
    }
}

/// Too long to be tried: refused when it happens.
#[test]
fn a_walk_gets_no_gradient_that_was_not_certified() {
    let d = 300_000;
    let run = |method: &str| {
        let loss = Closures::new(d, |_: &[f64], _: &f64| 0.0, |_: &[f64], a: &f64, g: &mut [f64]| g[0] = *a);
        let options = MinimizeOptions::default().method(MethodOptions::of(method)).registry(with_own());
        let run = RunOptions::within(1.0).delta(1e-6).insecure_seed(7);
        minimize(loss, vec![0.5; 20], &vec![0.0; d], run, options).unwrap_err().to_string()
    };
    let error = run("too-long");
    assert!(error.contains("used up the gradients of its plan") && !error.contains("synthetic"), "{error}");
    let error = run("nowhere");
    assert!(error.contains("the optimizer returned a point") && !error.contains("synthetic"), "{error}");
}

#[test]
#[should_panic(expected = "there is a method `noisy-sgd` already")]
fn two_methods_of_one_name_are_refused() {
    let _ = registry().clone().with(Walking("noisy-sgd", || Nowhere));
}
