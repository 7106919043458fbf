//! Nothing that a user says about a method is ignored: every pair of method and option is planned.

use crate::registry;
use crate::tests::{LOGISTIC, budget, facts, problem};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::objective::Evidence;
use dpopt_objective::records::SpilledExamples;
use dpopt_objective::synthetic::table;
use dpopt_optimize::options::{Form, Value};
use dpopt_optimize::plan::{Assumption, Grade, NotApplicable, Problem, Summary};
use dpopt_optimize::{Described, MethodOptions, Prepared, RowAccess, Run};
use dpopt_privacy::{Budget, Relation};
use rayon::prelude::*;

const EMBEDDING: &str = "embedding-sgd";

/// All that a plan tells: schedule, loss, noise, steps, cost, prediction, event, warnings.
fn seen(plan: &dyn Prepared) -> String {
    let s = plan.summary();
    let facts = (s.loss, s.noise_multiplier, s.steps, s.gradients, s.predicted_excess_risk);
    let event = serde_json::to_string(s.certificate.event()).unwrap();
    format!("{facts:?} {event} {} {:?}", plan.schedule(), s.warnings)
}

/// Values that every option of the form takes, and that no default is equal to.
fn values(option: &Described, features: usize) -> Vec<Value> {
    match &option.info.form {
        Form::Flag => vec![Value::Flag(true)],
        Form::Whole => vec![Value::Whole(7), Value::Whole(3)],
        Form::Norm => vec!["lp:1.5".into(), "l1".into()],
        Form::Reals => vec![Value::Reals((1..=features).map(|j| 1.0 / j as f64).collect())],
        Form::Words { words } => words.iter().map(|(word, _)| (*word).into()).collect(),
        Form::Real { high, .. } => {
            let of = |all: &[f64]| -> Vec<Value> {
                let fits = |x: &&f64| *x < high && option.info.check(&(**x).into()).is_ok();
                all.iter().filter(fits).map(|x| Value::from(*x)).collect()
            };
            let usual = of(&[0.37, 0.0137, 2.37, 23.7, 2370.0]);
            if usual.is_empty() { of(&[0.83]) } else { usual }
        }
    }
}

fn small(loss: Loss, relation: Relation) -> Problem {
    Problem { rows: 5000, features: 12, nonzeros: 6, ..problem(loss, relation) }
}

/// Options without which the method does not apply at all.
fn needed(method: &str) -> MethodOptions {
    let mut options = MethodOptions::of(method);
    if method == EMBEDDING {
        options.embedding = Some(Embedding { dimension: 2, towers: None, seed: 0 });
    }
    options.intercept = (method == "centred-descent").then_some(0);
    let limiting = registry().has_option(method, "max_features") && method != "frank-wolfe";
    options
        .with_if("max_features", limiting.then_some(4))
        // the weight vectors of a larger ball are too many for a number that is predicted
        .with_if("distance", (method == "sparse-exponential").then_some(0.1))
        // each step is a release of its own, and thousands take long to account for
        .with_if("steps", (method == "bias-reduced-sgd").then_some(40))
        .with_if("regularization", (method == "exponential-mechanism").then_some(2000.0))
}

/// What an option of a method is tried beside: nothing, and what it may mean nothing without.
fn beside(method: &str, option: &str) -> Vec<MethodOptions> {
    let plain = MethodOptions::default();
    let adaptive =
        plain.clone().with("embedding_update", if option == "second_momentum" { "adam" } else { "diagonal" });
    let update = if method == EMBEDDING { &adaptive } else { &plain };
    let others = match option {
        "moment_ratio" => vec![update.clone().with("moments", "private-halving")],
        "moment_share" => vec![update.clone().with("moments", "private")],
        "subspace_rank" => vec![plain.clone().with("moments", "none")],
        "moments" | "public_moments" | "box_radius" | "ball_radius" | "second_momentum" => vec![update.clone()],
        "dual_row_norm" => vec![plain.clone().with("geometry", "lp:1.5")],
        "moment_order" => vec![plain.clone().with("gradient_moment", 0.01)],
        "count_noise" | "count_level" => vec![plain.clone().with("select_rows", true)],
        _ => vec![],
    };
    others.into_iter().chain([plain]).collect()
}

/// The problem that a fit plans for: with the sums that are released after the method for prediction intervals.
fn with_what_follows(problem: &Problem, options: &MethodOptions) -> Result<Problem, NotApplicable> {
    match options.intervals() {
        Some(level) => problem.clone().with_intervals(budget(1.0), level, true),
        None => Ok(problem.clone()),
    }
}

/// Where a method applies, a value of one of its options gives another plan, or is refused by the option's name; on at least
/// one loss it gives another plan.
fn has_effect(method: &'static str, option: &Described) -> Result<(), String> {
    let name = option.info.name;
    let mut effective = false;
    for loss in [LOGISTIC, Loss::Softmax { classes: 3 }, Loss::Squared, Loss::Absolute] {
        let in_a_norm = name == "geometry" || name == "dual_row_norm";
        let few = |problem: Problem| Problem { rows: 60, features: 8, nonzeros: 8, ..problem };
        let (problem, least) = match in_a_norm {
            true => (few(small(loss, Relation::ZeroOut)), needed(method).with("regularization", 20.0)),
            false => (small(loss, Relation::ZeroOut), needed(method)),
        };
        for more in beside(method, name) {
            let without = least.clone().with_all(&more).saying_only(|other| other != name);
            let given = |options: &MethodOptions| {
                let problem = with_what_follows(&problem, options)?;
                registry().named(&problem, budget(1.0), options).unwrap().plan
            };
            let base = given(&without).map(|plan| seen(&*plan));
            for value in values(option, problem.features) {
                let with = given(&without.clone().with(name, value.clone()));
                match (&base, with) {
                    (Ok(base), Ok(plan)) if seen(&*plan) == *base => {
                        // one of several words may be the default
                        if !matches!(option.info.form, Form::Words { .. }) {
                            return Err(format!("{method}, {loss:?}: {name} = {value:?} changes nothing"));
                        }
                    }
                    // an option that the method cannot do without has no plan before
                    (_, Ok(_)) => effective = true,
                    (Ok(_), Err(why)) => {
                        let why = why.to_string();
                        let named = [name.to_string(), name.replace('_', " ")].iter().any(|n| why.contains(n.as_str()));
                        if !named {
                            return Err(format!(
                                "{method}, {loss:?}: {name} = {value:?} is refused without its name: {why}"
                            ));
                        }
                    }
                    (Err(_), Err(_)) => {}
                }
            }
        }
    }
    if effective { Ok(()) } else { Err(format!("{method}: {name} never changes a plan")) }
}

#[test]
#[ignore = "long by nature: make test-slow"]
fn every_pair_of_method_and_option_changes_the_plan_or_is_refused_by_name() {
    let pairs: Vec<(&'static str, &Described)> = registry()
        .names()
        .chain([EMBEDDING])
        .flat_map(|method| registry().catalogue().iter().map(move |option| (method, option)))
        .collect();
    let wrong: Vec<String> = pairs
        .par_iter()
        .filter_map(|&(method, option)| {
            let name = option.info.name;
            if name == "calibration" && option.methods.contains(&method) {
                // of the problem that a fit plans for, whatever the method: its effect is tested there
                return None;
            }
            if option.methods.contains(&method) {
                return has_effect(method, option).err();
            }
            let problem = small(LOGISTIC, Relation::ZeroOut);
            values(option, problem.features).into_iter().find_map(|value| {
                let options = needed(method).with(name, value.clone());
                let plan = registry().named(&problem, budget(1.0), &options).unwrap().plan;
                let why = plan.err().map(|why| why.to_string()).unwrap_or_default();
                let other_model = option.methods == [EMBEDDING]
                    && why.starts_with(&format!("`{name}` is an option of embedding models"));
                let refused = other_model || why.starts_with(&format!("{method} has no option `{name}`"));
                (!refused).then(|| format!("{method} without {name} = {value:?}: {why:?}"))
            })
        })
        .collect();
    assert!(pairs.len() > 25 * 30, "{}", pairs.len());
    assert!(wrong.is_empty(), "{} of {} pairs:\n{}", wrong.len(), pairs.len(), wrong.join("\n"));
}

#[test]
fn auto_leaves_out_methods_without_an_option() {
    let p = problem(LOGISTIC, Relation::ZeroOut);
    let options = MethodOptions::default().with("ball_radius", 0.001);
    for candidate in registry().candidates(&p, budget(1.0), &options) {
        let has = registry().has_option(candidate.method, "ball_radius");
        match candidate.plan {
            Ok(_) => assert!(has, "{}", candidate.method),
            Err(why) if !has => assert!(
                why.to_string().contains("no option `ball_radius`") || why.to_string().contains("reference"),
                "{why}"
            ),
            Err(_) => {}
        }
    }
    assert!(
        registry().has_option(registry().choose(&p, budget(1.0), &options).unwrap().summary().method, "ball_radius")
    );
    // what is asked of the answer holds for the comparison with other methods, what is claimed of a method does not
    let rows = |options: &MethodOptions| {
        let all = registry().candidates(&p, budget(1.0), options);
        all.iter().filter(|c| c.plan.is_ok()).map(|c| c.method).collect::<Vec<_>>()
    };
    let ball = rows(&options.by("pagan"));
    assert!(ball.contains(&"pasan") && !ball.contains(&"noisy-gradient-descent"), "{ball:?}");
    assert!(rows(&MethodOptions::of("pagan").with("moment_share", 0.2)).contains(&"noisy-newton"));
}

#[test]
fn options_that_exclude_or_need_each_other_are_refused() {
    let p = problem(LOGISTIC, Relation::ZeroOut);
    let embedding = |mut options: MethodOptions| {
        options.embedding = Some(Embedding { dimension: 2, towers: None, seed: 0 });
        options
    };
    for (options, words) in [
        (MethodOptions::of("pagan").with("ball_radius", 1.0).with("box_radius", 1.0), ["ball_radius", "box_radius"]),
        (
            MethodOptions::of("pdp-sgd").with("subspace_rank", 3).with("subspace_first", 3),
            ["subspace_rank", "subspace_first"],
        ),
        (
            MethodOptions::of("pagan").with("moments", "none").with("public_moments", vec![1.0; 133]),
            ["moments", "public_moments"],
        ),
        (
            MethodOptions::of("regularized-descent").with("gradient_rank", 3).with("gradient_decay", 1.0),
            ["gradient_rank", "gradient_decay"],
        ),
        (embedding(MethodOptions::default().with("count_noise", 3.0)), ["count_noise", "select_rows"]),
    ] {
        let why = registry().choose(&p, budget(1.0), &options).err().expect("refused").to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    }
}

fn described(name: &str) -> &'static Described {
    registry().catalogue().iter().find(|option| option.info.name == name).unwrap()
}

#[test]
fn no_option_takes_a_value_that_no_method_could_use_whatever_method_runs() {
    let p = problem(LOGISTIC, Relation::ZeroOut);
    let plain = |name: &str| {
        let mut options = MethodOptions::default();
        if described(name).methods == [EMBEDDING] {
            options.embedding = Some(Embedding { dimension: 2, towers: None, seed: 0 });
        }
        options
    };
    let refused = |name: &str, value: Value| {
        let options = plain(name).with(name, value.clone());
        let why = registry().check(&options).expect_err(&format!("{name} = {value:?}")).to_string();
        assert!(why.starts_with(&format!("`{name}` is ")) && why.contains("; give "), "{why}");
        // also where the chosen method has no such option
        let remote = MethodOptions::of("noisy-newton").with(name, value);
        assert_eq!(registry().choose(&p, budget(1.0), &remote).err().map(|e| e.to_string()), Some(why.clone()));
        assert_eq!(registry().choose(&p, budget(1.0), &options).err().map(|e| e.to_string()), Some(why.clone()));
        let rows = registry().candidates(&p, budget(1.0), &options);
        assert_eq!(rows.len(), if options.embedding.is_some() { 1 } else { registry().names().count() });
        assert!(rows.iter().all(|row| row.plan.as_ref().err().is_some_and(|e| e.to_string() == why)));
    };
    for option in registry().catalogue() {
        let name = option.info.name;
        refused(name, Value::Word("x".repeat(300)));
        match &option.info.form {
            Form::Real { low, low_included, high, .. } => {
                for value in [-1.0, -1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    refused(name, value.into());
                }
                match low_included {
                    true => assert_eq!(registry().check(&plain(name).with(name, *low)), Ok(())),
                    false => refused(name, (*low).into()),
                }
                if *high < f64::MAX {
                    refused(name, high.next_up().into());
                }
                refused(name, true.into());
            }
            Form::Whole => {
                refused(name, 0.into());
                refused(name, (-3).into());
                refused(name, 2.5.into());
                assert_eq!(registry().check(&plain(name).with(name, 1)), Ok(()));
            }
            Form::Words { .. } | Form::Flag => refused(name, 3.into()),
            Form::Norm => {
                for word in ["l3", "lp", "lp:", "lp:0.9", "lp:nan", "lp:inf", "lp:-1", "l1 ", "L1"] {
                    refused(name, word.into());
                }
                refused(name, 1.5.into());
            }
            Form::Reals => {
                refused(name, vec![1.0, f64::NAN].into());
                refused(name, 1.0.into());
            }
        }
    }
    let unknown = MethodOptions::of("noisy-sgd").with("clipnorm", 1.0);
    let why = registry().choose(&p, budget(1.0), &unknown).err().unwrap().to_string();
    assert_eq!(why, "there is no option `clipnorm`; did you mean `clip_norm`?");
    let near = MethodOptions::of("noisy-newton").with("gradient_rank", 3);
    let why = registry().choose(&p, budget(1.0), &near).err().unwrap().to_string();
    assert_eq!(why, "noisy-newton has no option `gradient_rank`; it has `calibration`, `steps`, `regularization`");
}

#[test]
fn options_are_written_and_read_as_json() {
    let options = MethodOptions::of("pagan").with("clip_norm", 0.5).with("steps", 9).with("moments", "running");
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(text, r#"{"method":"pagan","clip_norm":0.5,"moments":"running","steps":9}"#);
    assert_eq!(serde_json::from_str::<MethodOptions>(&text).unwrap(), options);
}

#[test]
fn what_no_problem_could_change_is_refused_before_one_is_known() {
    let refused = |options: &MethodOptions| registry().check_options(options).expect_err("refused").to_string();
    assert!(refused(&MethodOptions::of("noisy-sgd").with("draws", 3)).starts_with("noisy-sgd has no option `draws`"));
    assert!(
        refused(&MethodOptions::default().with("draws", 3).with("correlation", "blt"))
            .starts_with("no method has all of")
    );
    let twice = MethodOptions::default().with("ball_radius", 1.0).with("box_radius", 1.0);
    assert!(refused(&twice).contains("are two ways to set one thing"));
    assert!(refused(&MethodOptions::of("nosuch")).contains("there is no method"));
    let mut vectors = MethodOptions::default().with("select_rows", false).with("count_noise", 2.0);
    vectors.embedding = Some(Embedding { dimension: 2, towers: None, seed: 0 });
    assert!(refused(&vectors).contains("has no effect without `select_rows`"));
    assert_eq!(registry().check_options(&MethodOptions::of("noisy-sgd").with("constant_time", false)), Ok(()));
    // peeling without delta hands the fit to another method, which has no steps
    let pure = Budget::new(1.0, 0.0).unwrap();
    for (name, value) in [("steps", Value::Whole(7)), ("learning_rate", 0.3.into()), ("momentum", 0.5.into())] {
        let options = MethodOptions::of("peeling").with("max_features", 4).with(name, value);
        let why = registry().choose(&small(LOGISTIC, Relation::ZeroOut), pure, &options).err().unwrap().to_string();
        assert!(why.contains(&format!("`{name}`")), "{why}");
    }
}

/// A plan that says it can be run with rows on disk can.
#[test]
fn what_plans_say_of_rows_on_disk_is_true() {
    let data = table(5, 300, 3, 3, 1.0, LOGISTIC);
    let problem = facts(&data, LOGISTIC);
    let mut from_disk = Vec::new();
    let variants = [("", Value::Flag(false)), ("sampling_probability", 0.5.into()), ("euclidean_clip", true.into())];
    for method in registry().names() {
        for (name, value) in &variants {
            if !name.is_empty() && !registry().has_option(method, name) {
                continue;
            }
            let options = needed(method).with_if("steps", registry().has_option(method, "steps").then_some(3));
            let options = if name.is_empty() { options } else { options.with(name, value.clone()) };
            let Ok(plan) = registry().choose(&problem, budget(1.0), &options) else { continue };
            let spilled = Sensitive::new(SpilledExamples::of(&data).unwrap());
            let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(1));
            let run = Run::new(&problem, &spilled, &mut curator, &Silent).unwrap();
            let ran = plan.run_spilled(run);
            assert_eq!(plan.runs_from_disk(), ran.is_ok(), "{method} {name}: {:?}", ran.err());
            assert!(registry().row_access(method) != Some(RowAccess::Memory) || ran.is_err(), "{method}");
            from_disk.extend(plan.runs_from_disk().then_some(method));
        }
    }
    for method in ["noisy-sgd", "dp-ftrl", "peeling", "regularized-descent", "pagan"] {
        assert!(from_disk.contains(&method), "{method} {from_disk:?}");
    }
}

#[test]
fn every_plan_says_what_its_privacy_rests_on_and_is_certified() {
    let small = |relation| small(LOGISTIC, relation);
    let wide = Problem { features: 100_000, nonzeros: 5, ..small(Relation::ZeroOut) };
    let tiny = Problem { rows: 500, features: 3, nonzeros: 1, ..small(Relation::ZeroOut) };
    let squared = Problem { loss: Loss::Squared, ..small(Relation::ZeroOut) };
    let several = Problem { loss: Loss::Softmax { classes: 3 }, ..small(Relation::ZeroOut) };
    let guessed = small(Relation::AddOrRemove);
    let problems = [small(Relation::ZeroOut), guessed, squared, several, wide, tiny];
    let certified = |problem: &Problem, budget: Budget, options: &MethodOptions| {
        let plan = registry().named(problem, budget, options).unwrap().plan.ok()?;
        let Summary { method, assumptions, .. } = plan.summary();
        assert!(!assumptions.is_empty() && assumptions.iter().all(|a| !a.text().is_empty()), "{method}");
        assert_eq!(plan.summary().grade(), Grade::Certified, "{method}: {assumptions:?}");
        Some(assumptions.clone())
    };
    let mut all: Vec<Assumption> = registry()
        .names()
        .chain([EMBEDDING])
        .par_bridge()
        .flat_map_iter(|method| {
            let mut found = Vec::new();
            for problem in &problems {
                for delta in [1e-5, 0.0] {
                    found.extend(certified(problem, Budget::new(1.0, delta).unwrap(), &needed(method)));
                }
            }
            assert!(!found.is_empty(), "{method}");
            // options may add to what it rests on: moments and directions that are released, or given
            for option in registry().catalogue().iter().filter(|option| option.methods.contains(&method)) {
                for more in beside(method, option.info.name) {
                    for value in values(option, problems[0].features) {
                        let options = needed(method).with_all(&more).with(option.info.name, value);
                        found.extend(certified(&problems[0], budget(1.0), &options));
                    }
                }
            }
            found.into_iter().flatten()
        })
        .collect();
    all.sort_by(|a, b| a.text().cmp(b.text()));
    all.dedup();
    // the same assumption has the same reason everywhere
    assert!(all.windows(2).all(|pair| pair[0].text() != pair[1].text()), "{all:?}");
    for evidence in [Evidence::Enforced, Evidence::Proved, Evidence::Public] {
        assert!(all.iter().filter(|a| a.evidence() == evidence).count() > 1, "{evidence:?}: {all:?}");
    }
}
