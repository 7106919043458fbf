use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::special::gaussian_mu;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, Unit};
use dpopt_problems::{Kink, KinkedLoss, goldstein_norm};

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

fn problem(records: u64, dimension: usize, relation: Relation) -> MinimizeProblem {
    MinimizeProblem { distance: 1.0, ..MinimizeProblem::new(records, dimension, Neighbours::of_records(relation)) }
}

fn asked() -> MethodOptions {
    MethodOptions::of("o2nc")
}

fn numbers(plan: &MinimizePlan) -> ConversionSchedule {
    match plan.schedule.rule {
        Rule::Conversion(conversion) => conversion,
        other => panic!("{other:?}"),
    }
}

/// All that is certified, but for what samplers are off.
fn released(plan: &MinimizePlan) -> Event {
    match plan.certificate.event() {
        Event::Approximate { event, .. } => (**event).clone(),
        other => other.clone(),
    }
}

#[test]
fn numbers_follow_from_the_options() {
    // Liu 2024, Theorem 8.4.1 with corrected lengths and a slack of 2: n = 1e5, d = 10, α = .1, T = 1e4 and so β = .1
    let options = asked().with("goldstein_radius", 0.1).with("initial_gap", 1.0).with("steps", 10_000u64);
    let plan = choose(&problem(100_000, 10, Relation::ReplaceOne), budget(), &options).unwrap();
    let c = numbers(&plan);
    assert!((c.norm_aim - 0.1).abs() < 1e-12 && (c.reach - 1e-3).abs() < 1e-12, "{c:?}");
    assert_eq!((c.block_steps, plan.schedule.steps), (25, 10_000));
    // 2·c₁₀/α, C over a change on a way of 2D, and as many directions as keep one turning gradient
    assert!((c.change_clip - 2.0 * 2.586_9 / 0.1).abs() < 1e-3);
    assert_eq!((c.period, c.around.directions), (10, 39));
    assert!((c.learning_rate - 2.0 * c.reach / ((1.0 + c.noise_norm) * (c.block_steps as f64).sqrt())).abs() < 1e-15);
    assert!(c.block_steps as f64 * c.reach <= 0.1 / 4.0 + 1e-12);
    assert!(c.noise_norm < 0.02 && plan.warnings.is_empty(), "{} {:?}", c.noise_norm, plan.warnings);
    // nobody says anything: α is a tenth of the distance, Φ all that slopes of 1 can fall on it
    let plan = choose(&problem(100_000, 10, Relation::ZeroOut), budget(), &asked()).unwrap();
    let c = numbers(&plan);
    assert_eq!((c.around.radius, c.block, c.around.estimator), (0.1, KeptBlock::Least, Estimator::Gradients));
    assert_eq!(plan.schedule.steps, 1024);
    assert!(plan.warnings.iter().any(|w| w.contains("limited to 1024")), "{:?}", plan.warnings);
    assert!((c.norm_aim - (1.0f64 / (0.1 * 1024.0)).cbrt()).abs() < 1e-12);
}

#[test]
fn the_event_is_that_of_both_counts_and_noise_is_the_closed_formula() {
    for (relation, factor) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0), (Relation::AddOrRemove, 1.0)] {
        let options = asked().with("steps", 400u64).with("period", 16u64).with("clip_norm", 2.0);
        let plan = choose(&problem(10_000, 5, relation), budget(), &options).unwrap();
        let c = numbers(&plan);
        let expected = vec![
            Event::gaussian(c.fresh_multiplier).self_composed(25),
            Event::gaussian(c.change_multiplier).self_composed(375),
        ];
        assert_eq!(released(&plan), Event::Composed { events: expected });
        // μ² = N₁(2C/(nσ₁))² + N₂(2r/(nσ₂))², split as C√N₁ : r√(ΣN₂)
        let mu = gaussian_mu(1.0, 1e-6);
        let change = (c.change_clip * 2.0 * c.reach).min(4.0);
        let (of_fresh, of_changes) = (2.0 * 25f64.sqrt(), change * (16.0 * 375.0f64).sqrt());
        let share = of_fresh / (of_fresh + of_changes);
        let (fresh, changes) = (factor * (25.0 / share).sqrt() / mu, factor * (375.0 / (1.0 - share)).sqrt() / mu);
        assert!((c.fresh_multiplier / fresh - 1.0).abs() < 1e-5, "{relation:?} {}", c.fresh_multiplier);
        assert!((c.change_multiplier / changes - 1.0).abs() < 1e-5, "{relation:?} {}", c.change_multiplier);
        assert_eq!((plan.grade(), c.around.own_directions), (Grade::Certified, relation != Relation::AddOrRemove));
        assert_eq!(plan.evaluations, 10_000.0 * 775.0 * c.around.directions as f64);
        let noise = (5.0 * ((fresh * 2.0).powi(2) + 16.0 * (changes * change).powi(2))).sqrt() / 10_000.0;
        assert!((c.noise_norm / noise - 1.0).abs() < 1e-5);
        // gradients alone
        let alone = choose(&problem(10_000, 5, relation), budget(), &options.with("period", 1u64)).unwrap();
        assert_eq!(numbers(&alone).change_multiplier, 0.0);
        let z = numbers(&alone).fresh_multiplier;
        assert_eq!(released(&alone), Event::composed(vec![Event::gaussian(z).self_composed(400)]));
    }
}

#[test]
fn it_is_taken_by_name_only_and_refuses_by_name() {
    let known = problem(1000, 3, Relation::ZeroOut);
    let refusal = |problem: &MinimizeProblem, options: MethodOptions| {
        choose(problem, budget(), &options).unwrap_err().to_string()
    };
    for answers in [Answers::Gradients, Answers::Values] {
        let problem = MinimizeProblem { answers, ..known.clone() };
        let all = candidates(&problem, budget(), &MethodOptions::default());
        assert!(all.iter().any(|c| c.method == "o2nc" && c.plan.is_err()));
        assert!(choose(&problem, budget(), &asked()).is_ok());
        let why = refusal(&problem, MethodOptions::default().with("goldstein_radius", 0.1));
        assert!(why.contains("runs only by name"), "{why}");
    }
    let derivatives = MinimizeProblem { answers: Answers::Derivatives, ..known.clone() };
    assert!(refusal(&derivatives, asked()).contains("gradients or values"));
    for (name, value) in [("learning_rate", 0.1), ("drift", 0.5), ("passes", 2.0), ("second_stage", 0.1)] {
        assert!(refusal(&known, asked().with(name, value)).contains(&format!("has no option `{name}`")));
    }
    assert!(refusal(&known, asked().with("goldstein_radius", 0.0)).contains("goldstein_radius"));
    assert!(refusal(&known, asked().with("steps", 1u64 << 21)).contains("give fewer"));
    assert!(refusal(&known, asked().with("directions", 1u64 << 21)).contains("give fewer"));
    assert!(refusal(&known, asked().by("spider").with("period", 3u64)).contains("has no option `period`"));
    // few records and many dimensions: noise is longer than any gradient
    let few = choose(&problem(200, 100, Relation::ZeroOut), budget(), &asked()).unwrap();
    assert!(few.warnings.iter().any(|w| w.starts_with("the error bound is vacuous")), "{:?}", few.warnings);
    assert!(numbers(&few).noise_norm >= 1.0);
    let many = choose(&known, budget(), &asked().with("initial_gap", 1e-3).with("steps", 3000u64)).unwrap();
    assert!(many.warnings.iter().any(|w| w.contains("give fewer")), "{:?}", many.warnings);
}

/// Σ⟨a_i, x⟩ in one number.
fn slopes() -> impl dpopt_objective::objective::Objective<Vec<f64>> + Clone {
    Closures::new(1, |x: &[f64], a: &f64| a * x[0], |_: &[f64], a: &f64, g: &mut [f64]| g[0] = *a)
}

#[test]
fn both_counts_are_fixed_and_the_curator_has_no_more() {
    const RECORDS: u64 = 2000;
    let problem = problem(RECORDS, 1, Relation::ZeroOut);
    let plan = choose(&problem, budget(), &asked().with("steps", 30u64).with("period", 8u64)).unwrap();
    let walked = |plan: &MinimizePlan, certified: &MinimizePlan| {
        let zeros = Sensitive::new(vec![0.0; RECORDS as usize]);
        let mut curator = Curator::new(&certified.certificate, NoiseSource::insecure(3));
        let found = run(&problem, plan, &[0.0], InMemory::new(slopes(), &zeros), &mut curator, &Silent);
        let count = |label: &str| curator.records().iter().filter(|r| r.label == label).map(|r| r.count).sum::<u64>();
        (found.is_ok(), count("gradient"), count("change of the gradient"), curator.is_spent())
    };
    assert_eq!(walked(&plan, &plan), (true, 4, 26, true));
    for altered in [0, 1] {
        let mut more = plan.clone();
        if let (1, Rule::Conversion(conversion)) = (altered, &mut more.schedule.rule) {
            conversion.period = 4;
        } else {
            more.schedule.steps = 33;
        }
        assert!(!walked(&more, &plan).0);
    }
}

#[test]
fn a_walk_that_rests_releases_no_change() {
    let d = 400;
    let problem = problem(1, d, Relation::ZeroOut);
    let mut resting = choose(&problem, budget(), &asked().with("steps", 2u64).with("period", 2u64)).unwrap();
    let nothing = Closures::new(d, |_: &[f64], _: &f64| 0.0, |_: &[f64], _: &f64, _: &mut [f64]| {});
    let zeros = Sensitive::new(vec![0.0]);
    // in every world
    let Rule::Conversion(c) = &mut resting.schedule.rule else { panic!() };
    (c.reach, c.block_steps) = (0.0, 2);
    let mut curator = Curator::new(&resting.certificate, NoiseSource::insecure(1));
    run(&problem, &resting, &vec![0.0; d], InMemory::new(nothing, &zeros), &mut curator, &Silent).unwrap();
    assert_eq!(curator.records().iter().map(|r| r.count).sum::<u64>(), 1);
}

/// |x₁ − a| in the plane, evaluated outside of the library.
struct Foreign(Vec<f64>);

impl PerRecord for Foreign {
    fn gradients(&mut self, _: &[u64], _: &[f64], _: &mut BatchSum) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("estimates ask for combined vectors"))
    }

    fn combined(
        &mut self,
        records: &[u64],
        terms: &[(f64, &[f64])],
        sum: &mut BatchSum,
    ) -> Result<(), dpopt_optimize::RunError> {
        sum.add(records.len(), |k, out| {
            let a = self.0[records[k] as usize];
            out.extend([terms.iter().map(|(w, x)| w * (x[0] - a).signum()).sum::<f64>(), 0.0]);
        })?;
        Ok(())
    }

    fn derivatives(
        &mut self,
        _: &[u64],
        _: &[f64],
        _: &Directions,
        _: &mut BatchSum,
    ) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("no derivatives"))
    }

    fn values(&mut self, records: &[u64], x: &[f64], out: &mut Vec<f64>) -> Result<(), dpopt_optimize::RunError> {
        out.extend(records.iter().map(|&i| (x[0] - self.0[i as usize]).abs()));
        Ok(())
    }
}

#[test]
fn the_way_is_the_same_wherever_it_is_evaluated_and_whatever_it_returns() {
    let n = 3000u64;
    let at: Vec<f64> = (0..n).map(|i| 0.3 + 0.2 * (i % 7) as f64 / 7.0).collect();
    let distance = Closures::new(
        2,
        |x: &[f64], a: &f64| (x[0] - a).abs(),
        |x: &[f64], a: &f64, g: &mut [f64]| g[0] = (x[0] - a).signum(),
    );
    let records = Sensitive::new(at.clone());
    let by_user = Neighbours { unit: Unit::User, ..Neighbours::of_records(Relation::ZeroOut) };
    for answers in [Answers::Gradients, Answers::Values] {
        for neighbours in [Neighbours::of_records(Relation::AddOrRemove), by_user] {
            let here = MinimizeProblem { answers, neighbours, ..problem(n, 2, Relation::ZeroOut) };
            let there = MinimizeProblem { remote: true, ..here.clone() };
            // a power of two: means of signs have no rounding, which kinks would make large
            let options = asked().with("steps", 60u64).with("directions", 4u64);
            let plan = |problem: &MinimizeProblem| choose(problem, budget(), &options).unwrap();
            let (own, foreign) = (plan(&here), plan(&there));
            assert!(foreign.assumptions.iter().any(|a| a.text().contains("assumed, not checked")));
            let mut curator = Curator::new(&own.certificate, NoiseSource::insecure(7));
            let a = run(&here, &own, &[0.0; 2], InMemory::new(distance, &records), &mut curator, &Silent).unwrap();
            let mut curator = Curator::new(&foreign.certificate, NoiseSource::insecure(7));
            let remote = ReadByObjective::new(Foreign(at.clone()), n as usize);
            let b = run(&there, &foreign, &[0.0; 2], remote, &mut curator, &Silent).unwrap();
            a.get().iter().zip(b.get()).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
            assert!(a.get()[0] > 0.1, "{a:?}", a = a.get());
        }
    }
}

/// Answers are Goldstein points at twice the radius, by the hull of gradients near by; starts are not.
#[test]
#[ignore = "long by nature: make test-slow"]
fn answers_have_small_hulls_of_gradients_near_by() {
    let (d, n, radius) = (8, 20_000, 0.1);
    let kinked = KinkedLoss::new(Kink::CappedAbsolute, d);
    let records = kinked.records((n, 200), 5);
    let certificate =
        |x: &[f64]| goldstein_norm(|x, g| kinked.mean_gradient(x, &records[..200], g), (x, 2.0 * radius), 8 * d, 3);
    // half of the truth: every score is off by half of itself
    let start: Vec<f64> = kinked.truth(5).iter().map(|v| 0.8 * v).collect();
    let before = certificate(&start);
    let held = Sensitive::new(records.clone());
    for (answers, block, directions) in
        [(Answers::Gradients, "least", 4u64), (Answers::Gradients, "uniform", 4), (Answers::Values, "least", 16)]
    {
        let problem = MinimizeProblem { answers, ..problem(n as u64, d, Relation::ReplaceOne) };
        let options = asked()
            .with("goldstein_radius", radius)
            .with("initial_gap", 0.2)
            .with("steps", 300u64)
            .with("directions", directions)
            .with("block", block);
        let plan = choose(&problem, Budget::new(4.0, 1e-6).unwrap(), &options).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(2));
        let x = run(&problem, &plan, &start, InMemory::new(kinked, &held), &mut curator, &Silent).unwrap();
        assert!(curator.is_spent());
        let after = certificate(x.get());
        let c = numbers(&plan);
        assert!(after < 0.5 * before && after < c.norm_bound, "{before} {after} {}", c.norm_bound);
    }
}

mod once {
    use super::*;

    fn asked() -> MethodOptions {
        MethodOptions::of("one-pass-o2nc")
    }

    fn sums(plan: &MinimizePlan) -> OnePassSchedule {
        match plan.schedule.batches {
            Batches::Once(sums) => sums,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_of_it_is_one_release_and_few_records_are_answered_with_how_many_would_do() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            let plan = choose(&problem(300_000, 5, relation), budget(), &asked()).unwrap();
            assert_eq!(released(&plan), Event::gaussian(plan.schedule.noise_multiplier));
            assert_eq!(plan.grade(), Grade::Certified);
            let (s, c) = (sums(&plan), numbers(&plan));
            let depth = f64::from(s.leaves.ilog2() + 1);
            assert!(((depth * 5.0).sqrt() * plan.schedule.noise_std / c.norm_aim - 1.0).abs() < 1e-6);
            assert!(s.leaf_clip * s.first_batch as f64 >= plan.schedule.clip_norm);
        }
        let few = choose(&problem(20_000, 10, Relation::ReplaceOne), budget(), &asked()).unwrap();
        let warning = few.warnings.iter().find(|w| w.starts_with("the error bound is vacuous below about ")).unwrap();
        let least: f64 = warning.split(' ').nth(7).unwrap().parse().unwrap();
        let enough = choose(&problem((1.2 * least) as u64, 10, Relation::ReplaceOne), budget(), &asked()).unwrap();
        assert!(enough.warnings.is_empty() && numbers(&enough).norm_bound < 1.0, "{:?}", enough.warnings);
        assert!(numbers(&few).norm_bound >= 1.0);
    }

    #[test]
    fn what_has_no_places_is_refused() {
        let refusal = |problem: &MinimizeProblem, options: MethodOptions| {
            choose(problem, budget(), &options).unwrap_err().to_string()
        };
        let known = problem(1000, 3, Relation::ZeroOut);
        assert!(refusal(&problem(1000, 3, Relation::AddOrRemove), asked()).contains("would move all others"));
        let units = Neighbours { unit: Unit::User, ..Neighbours::of_records(Relation::ZeroOut) };
        assert!(
            refusal(&MinimizeProblem { neighbours: units, ..known.clone() }, asked())
                .contains("units have no position")
        );
        assert!(refusal(&known, asked().with("period", 4u64)).contains("has no option `period`"));
    }

    /// Counts whom a pass asks, and where.
    struct Counted<'a>(Vec<f64>, &'a mut Vec<u64>);

    impl PerRecord for Counted<'_> {
        fn gradients(&mut self, _: &[u64], _: &[f64], _: &mut BatchSum) -> Result<(), dpopt_optimize::RunError> {
            Err(dpopt_optimize::RunError::Numerical("leaves ask for combined vectors"))
        }

        fn combined(
            &mut self,
            records: &[u64],
            terms: &[(f64, &[f64])],
            sum: &mut BatchSum,
        ) -> Result<(), dpopt_optimize::RunError> {
            self.1.extend(records);
            Foreign(self.0.clone()).combined(records, terms, sum)
        }

        fn derivatives(
            &mut self,
            _: &[u64],
            _: &[f64],
            _: &Directions,
            _: &mut BatchSum,
        ) -> Result<(), dpopt_optimize::RunError> {
            Err(dpopt_optimize::RunError::Numerical("no derivatives"))
        }

        fn values(&mut self, _: &[u64], _: &[f64], _: &mut Vec<f64>) -> Result<(), dpopt_optimize::RunError> {
            Err(dpopt_optimize::RunError::Numerical("this objective says gradients"))
        }
    }

    #[test]
    fn no_record_is_read_twice_and_a_pass_goes_to_where_gradients_cancel() {
        let n = 200_000u64;
        let at: Vec<f64> = (0..n).map(|i| 0.3 + 0.1 * (i % 7) as f64 / 7.0).collect();
        let problem = MinimizeProblem { remote: true, ..problem(n, 2, Relation::ZeroOut) };
        let plan = choose(&problem, budget(), &asked().with("directions", 4u64)).unwrap();
        let mut read = Vec::new();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(7));
        let outside = ReadByObjective::new(Counted(at, &mut read), n as usize);
        let x = run(&problem, &plan, &[0.0; 2], outside, &mut curator, &Silent).unwrap();
        assert!(curator.is_spent());
        let all = read.len();
        read.sort_unstable();
        read.dedup();
        assert!(read.len() == all && all as u64 <= n && all as u64 > n / 4, "{all}");
        // kinks are at .3 to .39
        assert!((x.get()[0] - 0.34).abs() < 0.15, "{:?}", x.get());
    }

    #[test]
    #[ignore = "long by nature: make test-slow"]
    fn a_pass_by_values_goes_there_too() {
        let n = 200_000u64;
        let at: Vec<f64> = (0..n).map(|i| 0.3 + 0.1 * (i % 7) as f64 / 7.0).collect();
        let problem = MinimizeProblem { answers: Answers::Values, ..problem(n, 1, Relation::ZeroOut) };
        let plan = choose(&problem, budget(), &asked().with("directions", 2u64)).unwrap();
        assert_eq!(numbers(&plan).around.estimator, Estimator::Values);
        let distance = Closures::new(
            1,
            |x: &[f64], a: &f64| (x[0] - a).abs(),
            |_: &[f64], _: &f64, g: &mut [f64]| g[0] = f64::NAN,
        );
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(7));
        let held = Sensitive::new(at);
        let x = run(&problem, &plan, &[0.0], InMemory::new(distance, &held), &mut curator, &Silent).unwrap();
        assert!(curator.is_spent() && (x.get()[0] - 0.34).abs() < 0.15, "{:?}", x.get());
    }

    #[test]
    fn a_ball_has_no_bound_and_says_so() {
        let plan =
            choose(&problem(1_000_000, 2, Relation::ZeroOut), budget(), &asked().with("ball_radius", 0.5)).unwrap();
        assert!(plan.warnings.iter().any(|w| w.contains("at the border")), "{:?}", plan.warnings);
        // few steps with many records: a bound that says nothing, which a warning reports
        let few = choose(&problem(1_000_000, 2, Relation::ZeroOut), budget(), &asked().with("steps", 3000u64)).unwrap();
        assert_eq!(
            numbers(&few).norm_bound >= 1.0,
            few.warnings.iter().any(|w| w.starts_with("the error bound is vacuous"))
        );
    }
}
