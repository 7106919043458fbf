use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::special::gaussian_mu;
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

/// All that is certified, but for what samplers are off.
fn released(plan: &MinimizePlan) -> Vec<Event> {
    let Event::Approximate { event, .. } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
    let Event::Composed { events } = &**event else { panic!("{event}") };
    events.clone()
}

#[test]
fn numbers_follow_from_the_options() {
    // docs/decisions/0031: exponential floor, d = 401, n = 1e6, replace-one: c = 2√401/(1e6·.2367) = 1.692e-4
    let problem = problem(1_000_000, 401, Relation::ReplaceOne);
    let plan = choose(&problem, budget(), &options().with("steps", 1u64 << 20)).unwrap();
    let aim = (4.0 * 1.692e-4f64.powi(2) * 0.003).cbrt();
    let s = spider(&plan);
    assert!((s.aim / aim - 1.0).abs() < 1e-3, "{} {aim}", s.aim);
    assert_eq!((s.fresh_gradients, plan.schedule.steps), ((0.003 / s.aim).ceil() as u64, 1 << 20));
    assert!((s.drift / (2.0 * s.aim) - 1.0).abs() < 1e-12 && s.drift * s.fresh_gradients as f64 >= 2.0 * 0.003);
    // T = MΔ/α² where no option sets it, up to a public cap
    let by_itself = choose(&problem, budget(), &options()).unwrap();
    assert_eq!(by_itself.schedule.steps, 4096);
    assert!(by_itself.warnings.iter().any(|w| w.contains("steps are limited to 4096")), "{:?}", by_itself.warnings);
    // √(MΔ/T) is aimed at then
    assert!((spider(&by_itself).aim / (0.003f64 / 4096.0).sqrt() - 1.0).abs() < 1e-12);
    let few = MinimizeProblem { records: 100_000, ..problem };
    let plan = choose(&few, budget(), &options()).unwrap();
    assert_eq!(plan.schedule.steps, (0.003 / spider(&plan).aim.powi(2)).ceil() as u64);
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    assert!(matches!(plan.schedule.rule, Rule::HeavyBall { learning_rate: 1.0, momentum: 0.0 }));
}

#[test]
fn the_event_is_that_of_both_caps_and_noise_is_the_closed_formula() {
    for (relation, factor) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0), (Relation::AddOrRemove, 1.0)] {
        let problem = problem(10_000, 5, relation);
        let options = options().with("steps", 400u64).with("fresh_gradients", 20u64).with("second_stage", 0.0);
        let plan =
            choose(&problem, budget(), &options.clone().with("clip_norm", 2.0).with("difference_clip", 1.5)).unwrap();
        let s = spider(&plan);
        let expected = vec![
            Event::gaussian(s.fresh_multiplier).self_composed(20),
            Event::gaussian(s.change_multiplier).self_composed(400),
        ];
        assert_eq!(released(&plan), expected);
        // μ² = K₁(2C/(nσ₁))² + T(2L/(nσ₂))², split as C√K₁ : L√(κT)
        let mu = gaussian_mu(1.0, 1e-6);
        let (of_fresh, of_changes) = (2.0 * 20f64.sqrt(), 1.5 * (400.0 * s.drift).sqrt());
        let share = of_fresh / (of_fresh + of_changes);
        let fresh = factor * (20.0 / share).sqrt() / mu;
        let change = factor * (400.0 / (1.0 - share)).sqrt() / mu;
        assert!((s.fresh_multiplier / fresh - 1.0).abs() < 1e-5, "{relation:?} {} {fresh}", s.fresh_multiplier);
        assert!((s.change_multiplier / change - 1.0).abs() < 1e-5, "{relation:?} {} {change}", s.change_multiplier);
        assert_eq!(plan.grade(), Grade::Certified);
        assert_eq!(plan.evaluations, 10_000.0 * 820.0);
        // a quarter of μ² for the second stage
        let both = choose(&problem, budget(), &options.with("second_stage", 0.25)).unwrap();
        let last = spider(&both).second_stage.unwrap();
        assert_eq!((released(&both).len(), last.changes), (4, 32));
        let of_last = factor * factor * (last.fresh_multiplier.powi(-2) + 32.0 * last.change_multiplier.powi(-2));
        assert!((of_last / (0.25 * mu * mu) - 1.0).abs() < 1e-5);
    }
}

#[test]
fn what_it_needs_is_asked_for_and_what_it_has_not_is_refused_by_name() {
    let problem = problem(1000, 3, Relation::ZeroOut);
    let refusal = |problem: &MinimizeProblem, options: MethodOptions| {
        choose(problem, budget(), &options).unwrap_err().to_string()
    };
    let unknown = MinimizeProblem { smoothness: None, ..problem.clone() };
    assert!(refusal(&unknown, options()).contains("give smoothness"));
    assert!(refusal(&problem, MethodOptions::of("spider")).contains("as `initial_gap`"));
    for (name, value) in [("learning_rate", 0.1), ("momentum", 0.5), ("passes", 3.0), ("sampling_probability", 0.1)] {
        assert!(refusal(&problem, options().with(name, value)).contains(&format!("has no option `{name}`")));
    }
    assert!(refusal(&problem, options().with("second_stage", 1.0)).contains("second_stage"));
    assert!(refusal(&problem, options().with("steps", 1u64 << 21)).contains("give fewer"));
    assert!(refusal(&problem, options().with("fresh_gradients", 1u64 << 21)).contains("give fewer"));
    assert!(refusal(&problem, options().with("drift", 0.0)).contains("drift"));
    // nobody else has them
    assert!(refusal(&problem, options().by("noisy-sgd")).contains("has no option `initial_gap`"));
}

/// Σ⟨a_i, x⟩ in one number.
fn slopes() -> impl dpopt_objective::objective::Objective<Vec<f64>> + Clone {
    Closures::new(1, |x: &[f64], a: &f64| a * x[0], |_: &[f64], a: &f64, g: &mut [f64]| g[0] = *a)
}

/// The walk of `plan` on slopes of 0 with noise of its own, and what the curator lists.
fn walked(plan: &MinimizePlan, records: u64) -> (f64, Vec<(&'static str, u64)>, bool) {
    let zeros = Sensitive::new(vec![0.0; records as usize]);
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
    let source = InMemory::new(slopes(), &zeros);
    let x = run(&problem(records, 1, Relation::ZeroOut), plan, &[0.0], source, &mut curator, &Silent).unwrap();
    let mut counts: Vec<(&'static str, u64)> = Vec::new();
    for record in curator.records() {
        match counts.iter_mut().find(|(label, _)| *label == record.label) {
            Some(known) => known.1 += record.count,
            None => counts.push((record.label, record.count)),
        }
    }
    (x.into_inner()[0], counts, curator.is_spent())
}

#[test]
fn both_caps_hold_whatever_the_drift() {
    const RECORDS: u64 = 5000;
    let problem = problem(RECORDS, 1, Relation::ZeroOut);
    let options = options().with("steps", 40u64).with("fresh_gradients", 7u64);
    for (drift, stage) in [(1e-12, 0.0), (1e-12, 0.25), (1e6, 0.0), (1e6, 0.25)] {
        let plan =
            choose(&problem, budget(), &options.clone().with("drift", drift).with("second_stage", stage)).unwrap();
        let (_, counts, spent) = walked(&plan, RECORDS);
        // a drift that is always too large asks seven times and no more, and ends the walk; one that never is asks once, and the second stage uses the rest
        let (fresh, walk) = if drift < 1.0 { (7, 0) } else { (1, 40) };
        let (fresh, changes) = match (stage > 0.0, walk) {
            (false, walk) => (fresh, walk),
            (true, 0) => (7 + 1, 0),
            (true, walk) => (7 + 1, walk + 32),
        };
        let all = [("gradient", fresh), ("change of the gradient", changes)];
        assert_eq!(counts, all.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), "{drift} {stage}");
        assert_eq!(spent, stage > 0.0 && drift > 1.0);
        // a walk that would go on is refused by the curator
        let refused = |change: &dyn Fn(&mut MinimizePlan)| {
            let mut altered = plan.clone();
            change(&mut altered);
            let zeros = Sensitive::new(vec![0.0; RECORDS as usize]);
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
            run(&problem, &altered, &[0.0], InMemory::new(slopes(), &zeros), &mut curator, &Silent).is_err()
        };
        assert!(refused(&|plan| {
            plan.schedule.steps += 1;
            plan.schedule.spider.as_mut().unwrap().drift = 1e6;
        }));
        assert!(refused(&|plan| {
            let spider = plan.schedule.spider.as_mut().unwrap();
            (spider.fresh_gradients, spider.drift) = (spider.fresh_gradients + 1, 1e-12);
        }));
    }
}

/// On curvatures 1/k² with far too many steps, with far too small a Δ, and with changes that are clipped far too late.
#[test]
fn a_walk_that_cannot_renew_its_estimate_ends() {
    let d = 20;
    let bowl = Closures::new(
        d,
        |x: &[f64], _: &f64| x.iter().zip(1..).map(|(x, k)| 0.5 * (x - 0.2).powi(2) / f64::from(k * k)).sum(),
        |x: &[f64], _: &f64, g: &mut [f64]| {
            g.iter_mut().zip(x).zip(1..).for_each(|((g, x), k)| *g = (x - 0.2) / f64::from(k * k));
        },
    );
    let problem = problem(4000, d, Relation::ZeroOut);
    let records = Sensitive::new(vec![0.0; 4000]);
    let gap = 0.5 * 0.04 * (1..=d).map(|k| 1.0 / (k * k) as f64).sum::<f64>();
    let of_gap = |gap: f64| MethodOptions::of("spider").with("initial_gap", gap);
    let wanted = choose(&problem, budget(), &of_gap(gap)).unwrap().schedule.steps;
    let left = |options: &MethodOptions| {
        let plan = choose(&problem, budget(), options).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(2));
        let x = run(&problem, &plan, &vec![0.0; d], InMemory::new(bowl, &records), &mut curator, &Silent).unwrap();
        let slope = x.get().iter().zip(1..).map(|(x, k)| ((x - 0.2) / f64::from(k * k)).powi(2)).sum::<f64>().sqrt();
        (slope, plan.warnings)
    };
    let (usual, warnings) = left(&of_gap(gap));
    assert!(warnings.is_empty(), "{warnings:?}");
    // ‖∇F‖ at the start is .208
    assert!(usual < 0.03, "{usual}");
    let (many, warnings) = left(&of_gap(gap).with("steps", 10 * wanted));
    assert!(many < 0.08, "{many}");
    assert!(warnings.iter().any(|w| w.contains("give fewer")), "{warnings:?}");
    for options in [of_gap(gap / 30.0), of_gap(gap).with("difference_clip", 20.0)] {
        let (slope, _) = left(&options);
        // without the rule it is 1e20
        assert!(slope < 1.0, "{slope}");
    }
}
