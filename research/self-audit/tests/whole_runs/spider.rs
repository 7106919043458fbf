//! Spider: what it releases, and where it goes with next to no noise.

use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_minimize::{InMemory, MinimizePlan, MinimizeProblem, SpiderSchedule, choose, run};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use dpopt_optimize::MethodOptions;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

fn problem(records: u64, dimension: usize, relation: Relation) -> MinimizeProblem {
    MinimizeProblem {
        smoothness: Some(1.0),
        distance: 1.0,
        ..MinimizeProblem::new(records, dimension, Neighbours::of_records(relation))
    }
}

fn options() -> MethodOptions {
    MethodOptions::of("spider").with("initial_gap", 0.003)
}

fn spider(plan: &MinimizePlan) -> SpiderSchedule {
    plan.schedule.spider.unwrap()
}

/// With losses of 0 all that is released is noise, of σ₁ and of σ₂·‖x − x_before‖: x follows from it.
#[test]
fn noise_of_changes_is_in_proportion_to_the_way() {
    let records = 1u64;
    let d = 400;
    let problem = problem(records, d, Relation::ZeroOut);
    let options = options().with("steps", 1u64).with("fresh_gradients", 1u64).with("second_stage", 0.0);
    let mut plan = choose(&problem, budget(), &options).unwrap();
    // one record is all noise, which would end the walk
    plan.schedule.spider.as_mut().unwrap().drift = f64::MAX;
    let s = spider(&plan);
    let nothing = Closures::new(d, |_: &[f64], _: &f64| 0.0, |_: &[f64], _: &f64, _: &mut [f64]| {});
    let zeros = Sensitive::new(vec![0.0]);
    let (mut fresh, mut changes, mut runs) = (0.0, 0.0, 0.0);
    for seed in 0..100 {
        // the same seed has the same first release
        let way = |steps: u64| {
            let mut plan = plan.clone();
            plan.schedule.steps = steps;
            let event =
                Event::composed(vec![Event::gaussian(s.fresh_multiplier), Event::gaussian(s.change_multiplier)]);
            let mut curator = past_the_curator::watched(&event, NoiseSource::insecure(seed));
            let source = InMemory::new(nothing, &zeros);
            run(&problem, &plan, &vec![0.0; d], source, &mut curator, &Silent).unwrap();
            past_the_curator::seen(&curator)
        };
        let seen = way(1);
        let squared = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
        let (first, second) = (squared(&seen[0]), squared(&seen[1]));
        // one record: the first step is the first release
        fresh += first / (d as f64 * s.fresh_multiplier.powi(2));
        changes += second / (d as f64 * s.change_multiplier.powi(2) * first);
        runs += 1.0;
    }
    // 40,000 squares of normal numbers have a mean within .0354 (five standard deviations, 6e-7)
    assert!((fresh / runs - 1.0).abs() < 0.0354, "{}", fresh / runs);
    assert!((changes / runs - 1.0).abs() < 0.0354, "{}", changes / runs);
}

#[test]
fn a_change_is_clipped_to_the_way_whatever_a_record_says() {
    // slopes that turn by 2e9 wherever they are looked at: a record moves the sum by L·‖x − x_before‖ and no more
    let wild = Closures::new(
        1,
        |_: &[f64], _: &f64| 0.0,
        |x: &[f64], a: &f64, g: &mut [f64]| g[0] = a * if x[0] == 0.0 { -1e9 } else { 1e9 },
    );
    let problem = problem(20, 1, Relation::ZeroOut);
    let options = options().with("steps", 1u64).with("fresh_gradients", 1u64).with("second_stage", 0.0);
    let mut plan = choose(&problem, budget(), &options).unwrap();
    // next to no noise: what is left of a release is what the record adds
    let s = plan.schedule.spider.as_mut().unwrap();
    (s.fresh_multiplier, s.change_multiplier) = (1e-3, 1e-3);
    let seen = |first: f64| {
        let mut all = vec![0.0; 20];
        all[3] = first;
        let event = Event::gaussian(1e-3).self_composed(2);
        let mut curator = past_the_curator::watched(&event, NoiseSource::insecure(8));
        let records = Sensitive::new(all);
        run(&problem, &plan, &[0.0], InMemory::new(wild, &records), &mut curator, &Silent).unwrap();
        past_the_curator::seen(&curator)
    };
    let with = seen(1.0);
    assert!((with[0][0] + 1.0).abs() < 0.01, "{with:?}");
    // x went by 1/20
    assert!((with[1][0] - 0.05).abs() < 1e-3, "{with:?}");
    assert!(seen(0.0).iter().flatten().all(|noise| noise.abs() < 0.01));
}

/// From the very saddle of −x²/2 + x⁴/4 + ½Σy², without noise but for the step's own.
#[test]
fn extra_noise_leaves_a_saddle_and_is_there_only_where_it_is_asked_for() {
    let d = 20;
    let quartic = Closures::new(
        d,
        |_: &[f64], _: &f64| 0.0,
        |x: &[f64], _: &f64, g: &mut [f64]| {
            g.copy_from_slice(x);
            g[0] = x[0].powi(3) - x[0];
        },
    );
    let problem = MinimizeProblem { smoothness: Some(2.0), ..problem(4000, d, Relation::ZeroOut) };
    let options =
        MethodOptions::of("spider").with("initial_gap", 0.25).with("second_stage", 0.0).with("clip_norm", 2.0);
    let records = Sensitive::new(vec![0.0; 4000]);
    let ends = |options: &MethodOptions| {
        let mut plan = choose(&problem, budget(), options).unwrap();
        let spider = plan.schedule.spider.as_mut().unwrap();
        // noise of 1e-6 of what is certified; the curator is one for that
        for z in [&mut spider.fresh_multiplier, &mut spider.change_multiplier] {
            *z *= 1e-6;
        }
        let s = *spider;
        let event = Event::composed(vec![
            Event::gaussian(s.fresh_multiplier).self_composed(s.fresh_gradients),
            Event::gaussian(s.change_multiplier).self_composed(plan.schedule.steps),
        ]);
        let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(4));
        let x = run(&problem, &plan, &vec![0.0; d], InMemory::new(quartic, &records), &mut curator, &Silent).unwrap();
        (x.into_inner()[0].abs(), s.escape)
    };
    let (stays, none) = ends(&options.clone().with("steps", 12u64));
    assert!(stays < 0.01 && none.is_none(), "{stays}");
    let (left, escape) = ends(&options.with("hessian_lipschitz", 6.0).with("steps", 40u64));
    let escape = escape.unwrap();
    assert!((escape.noise_std * 20f64.sqrt() / escape.threshold - 1.0).abs() < 1e-12);
    assert_eq!(escape.window, (4.0 / (6.0 * escape.threshold).sqrt()).ceil() as u64);
    assert!((left - 1.0).abs() < 0.1, "{left}");
}
