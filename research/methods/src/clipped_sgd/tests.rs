use super::*;
use crate::registry;
use crate::tests::{LOGISTIC, budget, problem};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::{MethodOptions, Prepared};
use dpopt_privacy::{Neighbours, accountant};

const SOFTMAX: Loss = Loss::Softmax { classes: 3 };

fn planned(options: ClippedSgd, problem: &Problem) -> Result<Plan<ClippedSchedule>, String> {
    options.plan(problem, budget(1.0)).map_err(|e| e.to_string())
}

#[test]
fn all_phases_cost_what_one_tested_release_does() {
    for (relation, factor) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0)] {
        let problem = problem(SOFTMAX, relation);
        let plan = planned(ClippedSgd { phases: Some(4), ..ClippedSgd::default() }, &problem).unwrap();
        let schedule = &plan.schedule;
        assert_eq!((schedule.phases.len(), schedule.test_epsilon), (4, 0.25));
        // by the composed curve no more noise than μ(¾, δ) asks for
        let mu = dpopt_privacy::special::gaussian_mu(0.75, 1e-5);
        assert!(schedule.noise_multiplier <= factor / mu * (1.0 + 1e-6), "{schedule:?}");
        assert!(schedule.noise_multiplier > 0.8 * factor / mu);
        let spent = accountant::epsilon(plan.summary.certificate.event(), relation, 1e-5).unwrap().upper;
        assert!(spent <= 1.0 && spent > 0.999, "{spent}");
        // noise is for 1.1 times a step
        for (phase, std) in schedule.phases.iter().zip(&schedule.noise_stds) {
            let bare = 1.1 * schedule.noise_multiplier * phase.learning_rate * phase.clip_norm;
            assert!(*std >= bare && *std < 1.01 * bare, "{std} {bare}");
        }
        // nobody says a moment: no gradient is above C/2, so that no test counts one
        assert!((schedule.phases[0].clip_norm / (2.0 * 2f64.sqrt()) - 1.0).abs() < 1e-12);
        assert!(schedule.allowed_clips.iter().all(|m| *m >= schedule.levels));
    }
}

#[test]
fn a_moment_sets_clip_norm_and_step_and_leaves_room_for_clips() {
    let wide = Problem { row_norm: 50.0, rows: 200_000, ..problem(SOFTMAX, Relation::ZeroOut) };
    let plan =
        planned(ClippedSgd { moment: Some(0.3), moment_order: Some(4.0), ..ClippedSgd::default() }, &wide).unwrap();
    let schedule = plan.schedule;
    let clip = schedule.phases[0].clip_norm;
    assert!(clip < 0.5 * 50.0 * 2f64.sqrt(), "{clip}");
    let gradients = Gradients { largest: 50.0 * 2f64.sqrt(), moment: Some((0.3, 4.0)) };
    for (phase, allowed) in schedule.phases.iter().zip(&schedule.allowed_clips) {
        let expected = gradients.longer_than(0.5 * clip, phase.records as f64);
        assert!(*allowed as f64 >= schedule.levels as f64 + expected, "{schedule:?}");
    }
    // where the moment says more
    let twice =
        planned(ClippedSgd { moment: Some(0.6), moment_order: Some(4.0), ..ClippedSgd::default() }, &wide).unwrap();
    assert!(twice.schedule.phases[0].clip_norm > clip);
}

#[test]
fn what_is_not_proved_is_refused_with_a_reason() {
    let zero_out = problem(SOFTMAX, Relation::ZeroOut);
    let none = ClippedSgd::default;
    let added = Problem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..zero_out.clone() };
    assert!(planned(none(), &added).unwrap_err().contains("replace-one"));
    let long = ClippedSgd { learning_rate: Some(0.1), ..none() };
    let error = planned(long, &zero_out).unwrap_err();
    assert!(error.contains("give at most"), "{error}");
    // and that much is taken
    let most: f64 = error.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(planned(ClippedSgd { learning_rate: Some(0.99 * most), ..none() }, &zero_out).is_ok(), "{most}");
    let late = planned(ClippedSgd { phases: Some(19), ..none() }, &zero_out).unwrap_err();
    assert!(late.contains("give at most"), "{late}");
    let hinge = Problem { loss: Loss::Hinge, ..zero_out.clone() };
    assert!(planned(none(), &hinge).unwrap_err().contains("smoothed-hinge"));
    let order = ClippedSgd { moment_order: Some(3.0), ..none() };
    assert!(planned(order, &zero_out).unwrap_err().contains("without `gradient_moment`"));
    // so many clips that no phase would be released: refused, where a step was asked for
    let tight = ClippedSgd { clip_norm: Some(0.2), learning_rate: Some(1e-3), ..none() };
    let plan = planned(tight, &zero_out).unwrap();
    assert!(plan.summary.warnings[0].contains("released for sure only if"), "{:?}", plan.summary.warnings);
    let rows = dpopt_optimize::plan::RecordUnit::UnitsRow { most: 3.try_into().unwrap() };
    assert!(planned(none(), &Problem { record: rows, ..zero_out }).unwrap_err().contains("one row of a unit"));
}

#[test]
fn it_is_taken_by_name_only_and_the_published_count_not_at_all() {
    let problem = problem(LOGISTIC, Relation::ZeroOut);
    let all = registry().candidates(&problem, budget(1.0), &MethodOptions::default());
    let own = all.iter().find(|c| c.method == "clipped-sgd").unwrap();
    assert!(own.plan.as_ref().err().unwrap().to_string().contains("planned only by name: `method` = clipped-sgd"));
    assert!(registry().choose(&problem, budget(1.0), &MethodOptions::of("clipped-sgd")).is_ok());
    for name in ["localized-clipped-sgd", "clip-count-sgd"] {
        let error = registry().choose(&problem, budget(1.0), &MethodOptions::of(name)).err().unwrap().to_string();
        assert!(error.contains("not differentially private") && error.contains("choose clipped-sgd"), "{error}");
    }
}

pub(super) fn run(plan: &dyn Prepared, problem: &Problem, examples: &Examples, seed: u64) -> Solution {
    let examples = Sensitive::new(examples.clone());
    let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
    let run = Run::new(problem, &examples, &mut curator, &Silent).unwrap();
    plan.run(run).unwrap().into_inner()
}

fn fitted(plan: &dyn Prepared, problem: &Problem, size: f32) -> Solution {
    let n = problem.rows as usize;
    let mut rows = Rows::new(problem.features);
    (0..n).for_each(|_| rows.push_clipped(&mut [(0, size)], 1.0));
    run(plan, problem, &Examples { rows, targets: vec![1.0; n] }, 5)
}

#[test]
fn a_run_says_whether_a_phase_was_not_released() {
    let problem = Problem { rows: 40_000, features: 1, nonzeros: 1, ..problem(SOFTMAX, Relation::ZeroOut) };
    let options =
        MethodOptions::of("clipped-sgd").with("clip_norm", 0.4).with("learning_rate", 2e-4).with("phases", 2u64);
    let plan = registry().choose(&problem, budget(4.0), &options).unwrap();
    let none = fitted(&*plan, &problem, 1.0);
    assert!(none.note.as_ref().is_some_and(|note| note.contains("the answer is 0")), "{:?}", none.note);
    assert_eq!(none.weights, [0.0; 3]);
    // gradients of a fifth of that
    let all = fitted(&*plan, &problem, 0.15);
    assert_eq!(all.note, None);
    assert!(all.weights[1] > 0.0, "{:?}", all.weights);
}
