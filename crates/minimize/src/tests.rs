use super::recursive::RecursiveEstimate;
use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, Batching, Correlation, Curator, Sensitive, StreamShape};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::{Admitted, Closures, Objective, OfUnits};
use dpopt_objective::records::{Owners, Units};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::plan::Grade;
use dpopt_optimize::{MethodOptions, RunError};
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

const D: usize = 4;
const CENTRE: [f64; D] = [0.5, -0.25, 0.0, 1.0];

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

fn neighbours() -> Neighbours {
    Neighbours::of_records(Relation::ZeroOut)
}

/// `n` points around [`CENTRE`].
fn points(n: usize) -> Vec<Vec<f64>> {
    let mut random = Lcg::new(11);
    (0..n).map(|_| CENTRE.iter().map(|c| c + 0.1 * random.normal()).collect()).collect()
}

/// The objective Σ½‖x − a_i‖² of points a_i.
fn distances() -> impl Objective<Vec<Vec<f64>>> + Clone {
    Closures::new(
        D,
        |x: &[f64], a: &Vec<f64>| x.iter().zip(a).map(|(x, a)| 0.5 * (x - a).powi(2)).sum(),
        |x: &[f64], a: &Vec<f64>, g: &mut [f64]| {
            g.iter_mut().zip(x.iter().zip(a)).for_each(|(g, (x, a))| *g = x - a);
        },
    )
}

/// Σ½‖x − a_i‖², evaluated outside of the library, in parts of three records.
struct Foreign(Vec<Vec<f64>>);

impl PerRecord for Foreign {
    fn gradients(&mut self, records: &[u64], x: &[f64], sum: &mut BatchSum) -> Result<(), RunError> {
        for part in records.chunks(3) {
            sum.add(part.len(), |k, out| out.extend(self.0[part[k] as usize].iter().zip(x).map(|(a, x)| x - a)))?;
        }
        Ok(())
    }

    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError> {
        for part in records.chunks(3) {
            sum.add(part.len(), |k, out| {
                let each = self.0[part[k] as usize].iter().enumerate();
                out.extend(each.map(|(j, a)| terms.iter().map(|(w, x)| w * (x[j] - a)).sum::<f64>()));
            })?;
        }
        Ok(())
    }

    fn derivatives(
        &mut self,
        records: &[u64],
        x: &[f64],
        directions: &Directions,
        sum: &mut BatchSum,
    ) -> Result<(), RunError> {
        let value = |a: &[f64], x: &[f64]| x.iter().zip(a).map(|(x, a)| 0.5 * (x - a).powi(2)).sum::<f64>();
        let around = directions.around(x);
        for part in records.chunks(3) {
            sum.add(part.len(), |k, out| {
                let a = &self.0[part[k] as usize];
                out.extend(around.iter().map(|[p, m]| (value(a, p) - value(a, m)) / (2.0 * directions.width())));
            })?;
        }
        Ok(())
    }

    fn values(&mut self, records: &[u64], x: &[f64], out: &mut Vec<f64>) -> Result<(), RunError> {
        let value = |a: &[f64]| x.iter().zip(a).map(|(x, a)| 0.5 * (x - a).powi(2)).sum::<f64>();
        out.extend(records.iter().map(|&i| value(&self.0[i as usize])));
        Ok(())
    }
}

fn problem(n: usize, answers: Answers) -> MinimizeProblem {
    MinimizeProblem { answers, smoothness: Some(1.0), distance: 1.5, ..MinimizeProblem::new(n as u64, D, neighbours()) }
}

/// Options that a method cannot do without.
fn options(method: &str) -> MethodOptions {
    // ½·1.15² from the start to the minimiser
    MethodOptions::of(method).with_if("initial_gap", method.ends_with("spider").then_some(0.7))
}

fn answer<S: Source>(problem: &MinimizeProblem, plan: &MinimizePlan, source: S, seed: u64) -> Vec<f64> {
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
    let released = run(problem, plan, &[0.0; D], source, &mut curator, &Silent).unwrap();
    // of Spider, changes between two points that are the same are not released
    assert!(curator.is_spent() || plan.schedule.spider.is_some(), "what is certified is what is released");
    released.into_inner()
}

#[test]
fn every_method_finds_the_minimiser_and_releases_exactly_what_is_certified() {
    let n = 4000;
    let records = Sensitive::new(points(n));
    // nets and trees have values, one pass asks for many more records, o2nc is for small gradients: each has tests of its own
    for method in registry()
        .names()
        .filter(|method| !["net", "tree", "one-pass-spider", "o2nc", "one-pass-o2nc"].contains(method))
    {
        let answers = if method == "zeroth-order" { Answers::Values } else { Answers::Gradients };
        let problem = problem(n, answers);
        let plan = choose(&problem, budget(), &options(method)).unwrap();
        assert_eq!((plan.method, plan.grade()), (method, Grade::Certified));
        let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
        let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        // the start is 1.15 away; noise of one release of everything is 4√d/n·(about 4) = .008
        assert!(away < 0.12, "{method}: {away}");
    }
}

#[test]
fn the_numbers_are_the_same_wherever_the_objective_is_evaluated() {
    let n = 300;
    let records = Sensitive::new(points(n));
    for method in registry().names().filter(|method| !["net", "tree", "o2nc", "one-pass-o2nc"].contains(method)) {
        let answers = if method == "zeroth-order" { Answers::Values } else { Answers::Gradients };
        let here = problem(n, answers);
        let there = MinimizeProblem { remote: true, ..here.clone() };
        let options = options(method);
        let (plan, foreign) = (choose(&here, budget(), &options).unwrap(), choose(&there, budget(), &options).unwrap());
        assert!(foreign.assumptions.iter().any(|a| a.text().contains("assumed, not checked")));
        let a = answer(&here, &plan, InMemory::new(distances(), &records), 9);
        let b = answer(&there, &foreign, ReadByObjective::new(Foreign(points(n)), n), 9);
        assert_eq!(a, b, "{method}");
    }
}

#[test]
fn events_are_those_of_the_batches() {
    let of = |options: MethodOptions| choose(&problem(1000, Answers::Gradients), budget(), &options).unwrap();
    let inner = |plan: &MinimizePlan| match plan.certificate.event() {
        Event::Approximate { event, .. } => (**event).clone(),
        other => other.clone(),
    };
    let full = of(MethodOptions::of("noisy-gradient-descent").with("steps", 30));
    assert_eq!(inner(&full), Event::gaussian(full.schedule.noise_multiplier).self_composed(30));
    let sgd = of(MethodOptions::of("noisy-sgd").with("steps", 50).with("sampling_probability", 0.1));
    let step = Event::gaussian(sgd.schedule.noise_multiplier).poisson_sampled(0.1);
    assert_eq!(inner(&sgd), step.self_composed(50));
    assert_eq!(sgd.evaluations, 0.1 * 1000.0 * 50.0);
    let stream = of(MethodOptions::of("dp-ftrl").with("steps", 64));
    assert_eq!(inner(&stream), Event::gaussian(stream.schedule.noise_multiplier));
}

#[test]
fn derivatives_are_clipped_as_one_vector_and_cost_one_release_a_step() {
    let problem = problem(1000, Answers::Values);
    let options = MethodOptions::of("zeroth-order").with("directions", 9).with("steps", 40).with("clip_norm", 2.0);
    let plan = choose(&problem, budget(), &options).unwrap();
    assert_eq!(plan.schedule.clip_norm, 6.0);
    assert_eq!(plan.evaluations, 1000.0 * 40.0 * 18.0);
    // a record of enormous slopes moves the answer of one step by no more than the noise is made for
    let calm = Sensitive::new(vec![CENTRE.to_vec(); 1000]);
    let mut wild = vec![CENTRE.to_vec(); 1000];
    wild[7] = vec![1e9; D];
    let wild = Sensitive::new(wild);
    let one = MethodOptions::of("zeroth-order").with("directions", 9).with("steps", 1).with("learning_rate", 1.0);
    let plan = choose(&problem, budget(), &one).unwrap();
    let (a, b) = (
        answer(&problem, &plan, InMemory::new(distances(), &calm), 3),
        answer(&problem, &plan, InMemory::new(distances(), &wild), 3),
    );
    let moved = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    // (1/K)‖Σ Δs_k u_k‖ ≤ ‖Δs‖·√(λmax)/K with ‖Δs‖ ≤ 2C√K and λmax ≤ Kd
    assert!(moved > 0.0 && moved <= 2.0 * 3.0 * (9.0 * D as f64).sqrt() / 9.0 / 1000.0, "{moved}");
}

#[test]
fn what_is_not_an_option_of_the_method_is_refused_by_name() {
    let problem = problem(1000, Answers::Gradients);
    let refusal = |options: MethodOptions| choose(&problem, budget(), &options).unwrap_err().to_string();
    assert!(refusal(MethodOptions::of("dp-sgd")).contains("there is no method `dp-sgd` for objectives"));
    assert!(refusal(MethodOptions::of("noisy-sgd").with("directions", 3)).contains("has no option `directions`"));
    assert!(refusal(MethodOptions::default().with("clip_nrom", 1.0)).contains("did you mean `clip_norm`"));
    assert!(refusal(MethodOptions::of("noisy-sgd").with("clip_norm", -1.0)).contains("give a positive, finite number"));
    assert!(refusal(MethodOptions::of("zeroth-order")).contains("gives gradients"));
    let unknown = MinimizeProblem { smoothness: None, ..problem.clone() };
    let why = choose(&unknown, budget(), &MethodOptions::of("accelerated")).unwrap_err();
    assert!(why.to_string().contains("give smoothness"), "{why}");
    let joined = MinimizeProblem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..problem.clone() };
    assert!(choose(&joined, budget(), &MethodOptions::of("dp-ftrl")).is_err());
    assert!(choose(&joined, budget(), &MethodOptions::of("accelerated-srgd")).is_err());
    let why = choose(&unknown, budget(), &MethodOptions::of("accelerated-srgd")).unwrap_err();
    assert!(why.to_string().contains("give smoothness"), "{why}");
    assert!(refusal(MethodOptions::of("accelerated-srgd").with("passes", 2.0)).contains("has no option `passes`"));
    for bad in [
        MinimizeProblem { records: 0, ..problem.clone() },
        MinimizeProblem { distance: f64::NAN, ..problem.clone() },
        MinimizeProblem { strong_convexity: 2.0, ..problem.clone() },
    ] {
        assert!(choose(&bad, budget(), &MethodOptions::default()).is_err());
    }
}

#[test]
fn a_run_on_other_records_than_the_planned_ones_is_refused_and_a_protected_number_is_not_shown() {
    let plan_for = |relation| {
        let problem =
            MinimizeProblem { neighbours: Neighbours::of_records(relation), ..problem(100, Answers::Gradients) };
        let plan = choose(&problem, budget(), &MethodOptions::of("noisy-sgd").with("steps", 3)).unwrap();
        (problem, plan)
    };
    let records = Sensitive::new(points(130));
    for (relation, runs) in [(Relation::ZeroOut, false), (Relation::ReplaceOne, false), (Relation::AddOrRemove, true)] {
        let (problem, plan) = plan_for(relation);
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
        let source = InMemory::new(distances(), &records);
        let result = run(&problem, &plan, &[0.0; D], source, &mut curator, &Silent);
        assert_eq!(result.is_ok(), runs, "{relation:?}");
    }
    let (problem, plan) = plan_for(Relation::ZeroOut);
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
    // a plan that does not say that an outside program evaluates the records does not run there
    let remote = ReadByObjective::new(Foreign(points(100)), 100);
    assert!(run(&problem, &plan, &[0.0; D], remote, &mut curator, &Silent).is_err());
}

#[test]
fn the_answer_stays_around_the_start() {
    let n = 500;
    let records = Sensitive::new(points(n));
    for method in ["noisy-sgd", "dp-adam", "dp-ftrl", "accelerated", "accelerated-srgd", "spider"] {
        let problem = problem(n, Answers::Gradients);
        let options = options(method).with("ball_radius", 0.25);
        let plan = choose(&problem, budget(), &options).unwrap();
        let x = answer(&problem, &plan, InMemory::new(distances(), &records), 2);
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(norm <= 0.25 * (1.0 + 1e-9) && norm > 0.1, "{method}: {norm}");
    }
}

/// Plans for the population's loss, with smoothness and without.
fn for_the_population(problem: &MinimizeProblem) -> Vec<MinimizePlan> {
    let of = |options: MethodOptions| choose(problem, budget(), &options.with("goal", "population")).unwrap();
    let rough = MinimizeProblem { smoothness: None, ..problem.clone() };
    let smoothed = MethodOptions::of("accelerated").with("smoothing", 1.0).with("goal", "population");
    vec![
        of(MethodOptions::of("noisy-sgd")),
        of(MethodOptions::of("accelerated")),
        choose(&rough, budget(), &smoothed).unwrap(),
    ]
}

#[test]
fn for_the_population_each_phase_has_a_block_of_its_own_and_the_whole_budget() {
    let n = 4000;
    let problem = problem(n, Answers::Gradients);
    let records = Sensitive::new(points(n));
    for plan in for_the_population(&problem) {
        let s = &plan.schedule;
        let sizes = block_sizes(n as u64, D, budget());
        assert_eq!(sizes, [2125, 1000, 500, 250, 125]);
        assert_eq!(s.phases.iter().map(|phase| phase.records).collect::<Vec<_>>(), sizes);
        let Event::Parallel { blocks } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
        assert!(blocks.len() == sizes.len() && blocks.iter().all(|b| *b == blocks[0]));
        let Event::Approximate { event, .. } = &blocks[0] else { panic!("{}", blocks[0]) };
        let Batches::Poisson { sampling_probability } = s.batches else { panic!("{:?}", s.batches) };
        let step = Event::gaussian(s.noise_multiplier).poisson_sampled(sampling_probability);
        assert_eq!(**event, step.self_composed(s.steps));
        // one phase costs as much as all of them
        let alone = dpopt_privacy::calibrate::noise(
            |z| Event::gaussian(z).poisson_sampled(sampling_probability).self_composed(s.steps),
            neighbours().within(budget()),
        );
        assert!((alone.unwrap().0 / s.noise_multiplier - 1.0).abs() < 1e-5);
        assert!((plan.evaluations / (sampling_probability * 4000.0 * s.steps as f64) - 1.0).abs() < 1e-12);
        // η falls by four from phase to phase, so η_i n_i by eight
        for pair in s.phases.windows(2) {
            let fall = pair[0].distance / pair[1].distance;
            let expected = 4.0 * pair[0].records as f64 / pair[1].records as f64;
            assert!((fall / expected - 1.0).abs() < 1e-12, "{fall}");
            assert!(pair[0].smoothing == 0.0 || (pair[0].smoothing / pair[1].smoothing / fall - 1.0).abs() < 1e-9);
        }
        let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
        let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        assert!(away < 0.2, "{}: {away}", plan.method);
        assert_eq!(x, answer(&problem, &plan, InMemory::new(distances(), &records), 5));
        if s.smoothing == 0.0 {
            let there = MinimizeProblem { remote: true, ..problem.clone() };
            assert_eq!(x, answer(&there, &plan, ReadByObjective::new(Foreign(points(n)), n), 5));
        }
    }
}

#[test]
fn chunks_of_a_phase_have_blocks_of_their_own_and_the_whole_budget() {
    let n = 4003;
    let problem = problem(n, Answers::Gradients);
    let records = Sensitive::new(points(n));
    let goal = || MethodOptions::of("noisy-sgd").with("goal", "population");
    let plan = choose(&problem, budget(), &goal().with("chunks", 3u64)).unwrap();
    let s = &plan.schedule;
    let sizes = block_sizes(1334, D, budget());
    assert_eq!(s.phases.iter().map(|phase| phase.records).collect::<Vec<_>>(), sizes);
    // all records between them, what the division leaves in the first
    let blocks = s.blocks(4003);
    assert_eq!((blocks.len(), blocks.iter().sum::<u64>(), blocks[0]), (3 * sizes.len(), 4003, sizes[0] + 1));
    assert!(blocks.chunks(3).zip(&sizes).all(|(own, size)| own[1..].iter().all(|n| n == size)));
    let Event::Parallel { blocks: events } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
    assert!(events.len() == blocks.len() && events.iter().all(|b| *b == events[0]));
    let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
    let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
    assert!(away < 0.4, "{away}");
    let one = choose(&problem, budget(), &goal().with("chunks", 1u64)).unwrap();
    let none = choose(&problem, budget(), &goal()).unwrap();
    assert_eq!(format!("{:?}", one.schedule), format!("{:?}", none.schedule));
    let refusal = |options| choose(&problem, budget(), &options).unwrap_err().to_string();
    assert!(refusal(goal().with("chunks", 65u64)).contains("above 64"));
    assert!(refusal(goal().with("chunks", 64u64)).contains("too few for this budget"));
    assert!(refusal(MethodOptions::of("noisy-sgd").with("chunks", 3u64)).contains("give `goal` = population"));
}

#[test]
fn the_population_is_refused_where_blocks_would_not_be_disjoint() {
    let problem = problem(4000, Answers::Gradients);
    let goal = || MethodOptions::of("noisy-sgd").with("goal", "population");
    let refusal = |problem: &MinimizeProblem, options| choose(problem, budget(), &options).unwrap_err().to_string();
    let joined = MinimizeProblem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..problem.clone() };
    assert!(refusal(&joined, goal()).contains("move the borders"));
    assert!(refusal(&problem, goal().with("learning_rate", 0.1)).contains("leave out `learning_rate`"));
    assert!(refusal(&problem, goal().with("batches", "fixed")).contains("batches are always Poisson samples"));
    assert!(refusal(&problem, goal().by("accelerated").with("restarts", 2)).contains("new records in each phase"));
    assert!(refusal(&problem, goal().by("dp-adam")).contains("has no option `goal`"));
    assert!(refusal(&problem, goal().with("goal", "people")).contains("goal"));
    let replaced = MinimizeProblem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem.clone() };
    let (plan, zeroed) = (choose(&replaced, budget(), &goal()).unwrap(), choose(&problem, budget(), &goal()).unwrap());
    assert!(plan.schedule.noise_multiplier > 1.5 * zeroed.schedule.noise_multiplier);
    // without a method the first that has the option
    let any = choose(&problem, budget(), &MethodOptions::default().with("goal", "population")).unwrap();
    assert_eq!((any.method, any.schedule.goal), ("noisy-sgd", Goal::Population));
    // too few records for blocks: one phase on all of them, and still parallel to nothing
    let few = MinimizeProblem { records: 90, ..problem };
    assert_eq!(choose(&few, budget(), &goal()).unwrap().schedule.phases.len(), 1);
}

#[test]
fn rounds_add_up_to_one_budget_that_is_fixed_before_the_first() {
    let n = 2000;
    let problem = MinimizeProblem { strong_convexity: 1.0, ..problem(n, Answers::Gradients) };
    let records = Sensitive::new(points(n));
    let options = MethodOptions::of("accelerated").with("steps", 30).with("sampling_probability", 0.25);
    let once = choose(&problem, budget(), &options).unwrap();
    let thrice = choose(&problem, budget(), &options.clone().with("restarts", 3)).unwrap();
    let z = thrice.schedule.phases[2].noise_multiplier;
    let round = |z: f64| Event::gaussian(z).poisson_sampled(0.25).self_composed(30);
    let Event::Approximate { event, .. } = thrice.certificate.event() else { panic!() };
    assert_eq!(**event, Event::composed(vec![round(4.0 * z), round(2.0 * z), round(z)]));
    assert_eq!(thrice.schedule.noise_multiplier, 4.0 * z);
    // the rounds before the last cost (1/4 + 1/16) of its μ² or less, where noise is large
    assert!(z > once.schedule.noise_multiplier && z < 1.25 * once.schedule.noise_multiplier, "{z}");
    // distances are public and fall
    let distances_of: Vec<f64> = thrice.schedule.phases.iter().map(|phase| phase.distance).collect();
    assert!(distances_of.windows(2).all(|pair| pair[1] <= pair[0]), "{distances_of:?}");
    let x = answer(&problem, &thrice, InMemory::new(distances(), &records), 5);
    assert!(x.iter().zip(&CENTRE).all(|(x, c)| (x - c).abs() < 0.1), "{x:?}");
    for bad in [0, 17] {
        assert!(choose(&problem, budget(), &options.clone().with("restarts", bad)).is_err());
    }
}

#[test]
fn smoothing_takes_the_published_numbers_and_no_foreign_objective() {
    // Liu 2024, Lemma 1.4.5, with the radius of its proof: N = 60000, d = 1000, D = 2, T = 1573 has r = D·d^¼/T = .00715 and L = C√d/r
    let problem = MinimizeProblem {
        distance: 2.0,
        ..MinimizeProblem::new(60_000, 1000, Neighbours::of_records(Relation::ReplaceOne))
    };
    let options = MethodOptions::of("accelerated")
        .with("smoothing", 1.0)
        .with("steps", 1573)
        .with("sampling_probability", 1120.0 / 60_000.0);
    let terms = Budget::new(0.5, 1e-5).unwrap();
    let plan = choose(&problem, terms, &options).unwrap();
    assert!((plan.schedule.smoothing / 0.007150 - 1.0).abs() < 1e-3, "{}", plan.schedule.smoothing);
    let Rule::Accelerated { smoothness, added_curvature, .. } = plan.schedule.rule else { panic!() };
    let published = 1000f64.sqrt() / plan.schedule.smoothing;
    assert!((smoothness - added_curvature - published).abs() < 1e-9 * published);
    // T = ⌈εN/(d^¼√L)⌉ and B = ⌈√(εN²/T) + ε²N²/(dLT)⌉ (Liu 2024, Theorem 1.4.9), and those of Lemma 1.5.4
    let (n, d, e, l) = (60_000f64, 1000f64, 0.5f64, (1e5f64).ln());
    let t = (e * n / (d.powf(0.25) * l.sqrt())).ceil();
    assert_eq!((t, ((e * n * n / t).sqrt() + e * e * n * n / (d * l * t)).ceil()), (1573.0, 1120.0));
    let t = (n.sqrt() * d.powf(0.25)).min(e * n / (d.powf(0.25) * l.sqrt())).ceil();
    assert_eq!((t, (n / t + n * (e / t).sqrt()).ceil()), (1378.0, 1187.0));
    let refusal = |problem: &MinimizeProblem| choose(problem, terms, &options).unwrap_err().to_string();
    assert!(refusal(&MinimizeProblem { remote: true, ..problem.clone() }).contains("many records at one point"));
    let joined = MinimizeProblem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..problem.clone() };
    assert!(refusal(&joined).contains("randomized by position"));
}

#[test]
fn batches_of_fixed_size_have_their_own_event() {
    let n = 1000;
    let problem = problem(n, Answers::Gradients);
    let records = Sensitive::new(points(n));
    for method in ["noisy-sgd", "dp-adam", "accelerated"] {
        let options = MethodOptions::of(method).with("steps", 50).with("sampling_probability", 0.1);
        let poisson = choose(&problem, budget(), &options).unwrap();
        let plan = choose(&problem, budget(), &options.with("batches", "fixed")).unwrap();
        let s = &plan.schedule;
        assert_eq!(s.batches, Batches::Fixed { batch_size: 100 });
        let Event::Approximate { event, .. } = plan.certificate.event() else { panic!() };
        assert_eq!(
            **event,
            Event::gaussian(s.noise_multiplier).sampled_without_replacement(1000, 100).self_composed(50)
        );
        // another record fills the slot of an absent one
        assert!(s.noise_multiplier > 1.3 * poisson.schedule.noise_multiplier, "{}", s.noise_multiplier);
        let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
        let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        assert!(away < 0.25, "{method}: {away}");
        let there = MinimizeProblem { remote: true, ..problem.clone() };
        assert_eq!(x, answer(&there, &plan, ReadByObjective::new(Foreign(points(n)), n), 5));
    }
    let joined = MinimizeProblem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..problem };
    let options = MethodOptions::of("noisy-sgd").with("batches", "fixed");
    let why = choose(&joined, budget(), &options).unwrap_err().to_string();
    assert!(why.contains("batches of fixed size use the number of records"), "{why}");
}

#[test]
fn units_give_the_means_of_their_records() {
    // one unit has ten records, one none, the others three
    let (units, points) = (2000, points(6010));
    let of_row = |row: usize| if row < 10 { 0 } else { 1 + (row as u32 - 10) % (units as u32 - 2) };
    let owners = Owners { of_row: (0..points.len()).map(of_row).collect(), units };
    let by_unit = Units::new(points.clone(), &owners).unwrap();
    // of a point's squared distance the mean gradient is that at the mean point; a unit without records gives nothing
    let mean = |unit: usize| -> Vec<f64> {
        let own = by_unit.of(unit);
        (0..D).map(|j| own.iter().map(|&row| points[row as usize][j]).sum::<f64>() / own.len() as f64).collect()
    };
    let means: Vec<Vec<f64>> = (0..units - 1).map(mean).collect();
    let (means, by_unit) = (Sensitive::new(means), Sensitive::new(by_unit));
    let records = problem(units, Answers::Gradients);
    let persons = MinimizeProblem { neighbours: Neighbours::of_users(Relation::ZeroOut), ..records.clone() };
    for method in ["noisy-gradient-descent", "accelerated"] {
        let options = MethodOptions::of(method).with("clip_norm", 4.0);
        let plan = choose(&persons, budget(), &options).unwrap();
        let x = answer(&persons, &plan, InMemory::new(OfUnits::new(distances()), &by_unit), 3);
        // the same sums but for the last rounding: all units but the empty one
        let fewer = MinimizeProblem { records: units as u64 - 1, ..persons.clone() };
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
        let source = InMemory::new(distances(), &means);
        let by_hand = run(&fewer, &plan, &[0.0; D], source, &mut curator, &Silent).unwrap().into_inner();
        let away = |y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
        assert!(away(&by_hand) < 2e-3, "{method}: {}", away(&by_hand));
        assert!(away(&CENTRE) < 0.12, "{method}: {}", away(&CENTRE));
    }
    // secret assignment to batches where nobody has a place, and who is in one is not shown to others
    let options = MethodOptions::of("dp-ftrl");
    let plan = choose(&persons, budget(), &options).unwrap();
    let x = answer(&persons, &plan, InMemory::new(OfUnits::new(distances()), &by_unit), 3);
    assert!(x.iter().zip(&CENTRE).all(|(x, c)| (x - c).abs() < 0.15), "{x:?}");
    let there = MinimizeProblem { remote: true, ..persons.clone() };
    assert!(choose(&there, budget(), &options).unwrap_err().to_string().contains("secret assignment to batches"));
    let moved = MethodOptions::of("accelerated").with("smoothing", 0.1);
    assert!(choose(&persons, budget(), &moved).unwrap_err().to_string().contains("units have no position"));
    // nor where the plan takes them for records
    let around = MethodOptions::of("o2nc").with("goldstein_radius", 0.1).with("steps", 20u64);
    for options in [moved, around] {
        let plan = choose(&records, budget(), &options).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
        let source = InMemory::new(OfUnits::new(distances()), &by_unit);
        let ended = run(&records, &plan, &[0.0; D], source, &mut curator, &Silent);
        assert!(matches!(ended, Err(RunError::Numbered)), "{options:?}");
    }
}

#[test]
fn one_epoch_of_differences_is_one_release_in_which_each_record_has_one_term() {
    let n = 4000;
    let problem = problem(n, Answers::Gradients);
    let plan = choose(&problem, budget(), &MethodOptions::of("accelerated-srgd")).unwrap();
    let s = &plan.schedule;
    let Batches::Stream { shape, batching, sensitivity } = s.batches else { panic!("{:?}", s.batches) };
    assert_eq!((shape.epochs(), shape.steps as u64, batching), (1, s.steps, Batching::Shuffled));
    // √4000 = 63
    assert!((8..=256).contains(&s.steps), "{}", s.steps);
    let Event::Approximate { event, .. } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
    assert_eq!(**event, Event::gaussian(s.noise_multiplier));
    assert!((s.noise_std / (s.noise_multiplier * s.clip_norm * sensitivity) - 1.0).abs() < 1e-12);
    // 1 + βD/2 with β = 1, D = 1.5; each record is read once, at two points
    assert_eq!((s.clip_norm, plan.evaluations), (1.75, 8000.0));
    let own = choose(&problem, budget(), &MethodOptions::of("accelerated-srgd").with("clip_norm", 3.0)).unwrap();
    assert_eq!(own.schedule.clip_norm, 3.0);
    // replace-one moves a term from end to end
    let replaced = MinimizeProblem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem.clone() };
    let twice = choose(&replaced, budget(), &MethodOptions::of("accelerated-srgd")).unwrap();
    assert!((twice.schedule.noise_multiplier / s.noise_multiplier - 2.0).abs() < 1e-3);
    // records in a bad order are as good as any
    let mut sorted = points(n);
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let records = Sensitive::new(sorted);
    let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
    let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
    assert!(away < 0.1, "{away}");
}

/// Without noise and clip ∇_t is the gradient at x_t, whatever the points and the sizes of batches are.
#[test]
fn recursive_estimates_telescope() {
    let shape = StreamShape { batches: 5, steps: 5, correlation: Correlation::Blt };
    let mut estimate = RecursiveEstimate::new(shape, 23, vec![0.0]);
    let points = [0.5, -1.0, 2.0, 0.25, 3.0];
    for (k, &x) in points.iter().enumerate() {
        let (t, before) = (estimate.step() as f64, estimate.before()[0]);
        assert_eq!((t, before), (k as f64 + 1.0, if k == 0 { 0.0 } else { points[k - 1] }));
        let size = shape.batch_size(23, k) as f64;
        // each record says 3x − 1
        let sum = size * (t * (3.0 * x - 1.0) - (t - 1.0) * (3.0 * before - 1.0));
        let gradient = estimate.with(vec![sum], vec![x]);
        assert!((gradient[0] - (3.0 * x - 1.0)).abs() < 1e-12, "{gradient:?}");
    }
}

/// What momentum overshoots is gone before the iterates of the answer begin, however few steps there are.
#[test]
fn a_short_descent_has_no_time_to_swing() {
    let curved = MinimizeProblem { smoothness: Some(1.0), distance: 2.0, ..problem(4096, Answers::Gradients) };
    let plan = |steps: u64| {
        let options = MethodOptions::of("noisy-gradient-descent").with("gradient_moment", 6.0).with("steps", steps);
        match choose(&curved, budget(), &options).unwrap().schedule.rule {
            Rule::HeavyBall { learning_rate, momentum } => (learning_rate, momentum),
            other => panic!("{other:?}"),
        }
    };
    // x ← x − ηv on x²/2 from 1, without noise: the mean of the last half
    let left = |steps: u64, rate: f64, momentum: f64| {
        let (mut x, mut v, mut sum) = (1.0, 0.0, 0.0);
        for t in 0..steps {
            v = momentum * v + x;
            x -= rate * v;
            sum += if t >= steps / 2 { x } else { 0.0 };
        }
        sum / (steps - steps / 2) as f64
    };
    for (steps, expected) in [(5, 0.0), (10, 0.0), (20, 0.5), (40, 0.75), (100, 0.9), (400, 0.9)] {
        let (rate, momentum) = plan(steps);
        assert!((momentum - expected).abs() < 1e-12, "{steps}: {momentum}");
        assert!(left(steps, rate, momentum).abs() < 0.1, "{steps}: {}", left(steps, rate, momentum));
    }
    let (rate, momentum) = plan(20);
    assert!(left(20, rate * (1.0 - 0.9) / (1.0 - momentum), 0.9).abs() > 0.2);
}

#[test]
fn a_moment_of_gradients_balances_clip_and_noise() {
    let n = 40_000;
    let problem = problem(n, Answers::Gradients);
    let with = |order: f64, root: f64| {
        let options = MethodOptions::of("noisy-sgd").with("gradient_moment", root).with("moment_order", order);
        choose(&problem, budget(), &options).map(|plan| plan.schedule)
    };
    // a·C + κG^k/C^(k−1) is least there, by hand at neighbouring C
    let per_clip = (D as f64).sqrt() / (n as f64 * dpopt_privacy::special::gaussian_mu(1.0, 1e-6));
    for (order, root) in [(2.0, 1.0), (3.0, 2.5), (4.0, 0.3)] {
        let s = with(order, root).unwrap();
        let cost = |clip: f64| {
            let k: f64 = order;
            per_clip * clip + (k - 1.0).powf(k - 1.0) / k.powf(k) * root.powf(k) / clip.powf(k - 1.0)
        };
        assert!(cost(s.clip_norm) < cost(1.02 * s.clip_norm) && cost(s.clip_norm) < cost(0.98 * s.clip_norm));
        let bias = s.clip_bias.unwrap();
        assert!((bias + per_clip * s.clip_norm - cost(s.clip_norm)).abs() < 1e-12 * bias.max(1.0));
    }
    // a larger moment, or a lighter tail, moves the clip as it should
    assert!(with(2.0, 2.0).unwrap().clip_norm > with(2.0, 1.0).unwrap().clip_norm);
    assert!(with(4.0, 1.0).unwrap().clip_norm < with(2.0, 1.0).unwrap().clip_norm);
    let fixed = MethodOptions::of("noisy-sgd").with("gradient_moment", 1.0).with("clip_norm", 4.0);
    let s = choose(&problem, budget(), &fixed).unwrap().schedule;
    assert_eq!((s.clip_norm, s.clip_bias.map(|b| (b * 1e6).round())), (4.0, Some(62_500.0)));
    assert!(with(1.0, 1.0).unwrap_err().to_string().contains("above 1"));
    // steps are for gradients of the size that the options give, not for the longest that is left of one
    let rate = |options: MethodOptions| match choose(&problem, budget(), &options).unwrap().schedule.rule {
        Rule::HeavyBall { learning_rate, .. } => learning_rate,
        other => panic!("{other:?}"),
    };
    let rough = MethodOptions::of("noisy-gradient-descent").with("clip_norm", 40.0).with("steps", 40u64);
    let clipped_only = MinimizeProblem { smoothness: None, ..problem.clone() };
    let rough_rate = |options: &MethodOptions| match choose(&clipped_only, budget(), options).unwrap().schedule.rule {
        Rule::HeavyBall { learning_rate, .. } => learning_rate,
        other => panic!("{other:?}"),
    };
    assert!(rough_rate(&rough.clone().with("gradient_moment", 1.0)) > 10.0 * rough_rate(&rough));
    assert!(rate(rough.clone().with("gradient_moment", 1.0)) >= rate(rough));
    let order = MethodOptions::of("noisy-sgd").with("moment_order", 3.0);
    assert!(choose(&problem, budget(), &order).unwrap_err().to_string().contains("without `gradient_moment`"));
}

#[test]
fn noise_that_would_rest_on_assumed_bounds_is_refused_by_name() {
    let refused = choose(&problem(4000, Answers::Gradients), budget(), &MethodOptions::of("output-perturbation"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("nothing enforces") && refused.contains("choose noisy-sgd"), "{refused}");
}

/// Records whose bound is above the limit have no influence, and still count as records.
#[test]
fn records_that_are_not_admitted_do_not_show() {
    let n = 4000;
    let problem = problem(n, Answers::Gradients);
    let options = MethodOptions::of("noisy-gradient-descent").with("clip_norm", 3.0).with("ball_radius", 2.0);
    let plan = choose(&problem, budget(), &options).unwrap();
    let bound = |records: &Vec<Vec<f64>>, i: usize| records[i].iter().map(|a| a * a).sum::<f64>().sqrt() + 2.0;
    let with = |large: [f64; D]| {
        let mut all = points(n);
        all[17] = large.to_vec();
        let records = Sensitive::new(all);
        answer(&problem, &plan, InMemory::new(Admitted::new(distances(), bound, 4.0), &records), 5)
    };
    let one = with([100.0, 0.0, 0.0, 0.0]);
    assert_eq!(one, with([0.0, -3.0, 1e9, 5.0]));
    // without the limit each of them pulls by the clip norm
    let clipped = |large: [f64; D]| {
        let mut all = points(n);
        all[17] = large.to_vec();
        answer(&problem, &plan, InMemory::new(distances(), &Sensitive::new(all)), 5)
    };
    assert_ne!(clipped([100.0, 0.0, 0.0, 0.0]), clipped([0.0, -3.0, 1e9, 5.0]));
}

#[test]
fn full_batches_of_blocks_take_steps_that_are_exact_in_the_quadratic() {
    let n = 4000;
    let problem = MinimizeProblem { smoothness: None, ..problem(n, Answers::Gradients) };
    let records = Sensitive::new(points(n));
    let options = MethodOptions::of("noisy-gradient-descent").with("goal", "population");
    for chunks in [1u64, 3] {
        let plan = choose(&problem, budget(), &options.clone().with("chunks", chunks)).unwrap();
        let s = &plan.schedule;
        assert_eq!(s.batches, Batches::All);
        let Event::Parallel { blocks } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
        let Event::Approximate { event, .. } = &blocks[0] else { panic!("{}", blocks[0]) };
        assert_eq!(**event, Event::gaussian(s.noise_multiplier).self_composed(s.steps));
        for phase in &s.phases {
            let Rule::Proximal { strong_convexity, added_curvature } = phase.rule else { panic!("{:?}", phase.rule) };
            // λ = 2/(η n), and the answer within Cηn of where the phase starts
            assert_eq!(strong_convexity, 0.0);
            assert!((added_curvature * phase.distance / (2.0 * s.clip_norm) - 1.0).abs() < 1e-12);
        }
        let x = answer(&problem, &plan, InMemory::new(distances(), &records), 5);
        let away = x.iter().zip(&CENTRE).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        assert!(away < 0.4, "{chunks}: {away}");
        let there = MinimizeProblem { remote: true, ..problem.clone() };
        assert_eq!(x, answer(&there, &plan, ReadByObjective::new(Foreign(points(n)), n), 5));
    }
}

#[test]
fn noise_of_full_batches_is_that_of_zero_concentrated_privacy() {
    // n = 1e4, ρ = .1, C = 1, T = 1e4 under replace-one: σ = C√(2T/ρ)/n = .0447214, which is μ = √(2ρ)
    let mu = 0.2f64.sqrt();
    let budget = Budget::new(1.0, dpopt_privacy::special::gaussian_ln_delta(1.0, mu).exp()).unwrap();
    let problem = MinimizeProblem::new(10_000, 3, Neighbours::of_records(Relation::ReplaceOne));
    let options = MethodOptions::of("noisy-gradient-descent").with("steps", 10_000u64);
    let plan = choose(&problem, budget, &options).unwrap();
    let sigma = plan.schedule.noise_std / 10_000.0;
    assert!((sigma / 0.044_721_4 - 1.0).abs() < 1e-5, "{sigma}");
}

#[test]
fn a_curved_loss_is_approached_in_stages() {
    // ½‖x − a‖² from 20 away, gradients of up to 25: curvature 1
    let n = 40_000;
    let curved = |mu: f64| MinimizeProblem {
        strong_convexity: mu,
        smoothness: None,
        distance: 20.0,
        ..problem(n, Answers::Gradients)
    };
    let options = MethodOptions::of("noisy-gradient-descent").with("goal", "population").with("clip_norm", 25.0);
    let flat = choose(&curved(0.0), budget(), &options).unwrap();
    let staged = choose(&curved(1.0), budget(), &options).unwrap();
    // one stage halves its blocks, so a block that is no smaller than the one before begins the next one
    let stages = |plan: &MinimizePlan| {
        let sizes: Vec<u64> = plan.schedule.phases.iter().map(|phase| phase.records).collect();
        1 + sizes.windows(2).filter(|pair| pair[1] >= pair[0]).count()
    };
    assert_eq!(stages(&flat), 1);
    // ⌈log2 log2 40000⌉ + 1 = 5 at most
    assert!((2..=5).contains(&stages(&staged)), "{}", stages(&staged));
    assert!(staged.predicted_excess < 0.5 * flat.predicted_excess);
    assert_eq!(staged.schedule.blocks(n as u64).iter().sum::<u64>(), n as u64);
    let Event::Parallel { blocks } = staged.certificate.event() else { panic!("{}", staged.certificate.event()) };
    assert_eq!(blocks.len(), staged.schedule.phases.len());
    let mut random = Lcg::new(3);
    let far = [10.0, -10.0, 10.0, -10.0];
    let records: Vec<Vec<f64>> = (0..n).map(|_| far.iter().map(|c| c + 0.5 * random.normal()).collect()).collect();
    let records = Sensitive::new(records);
    let excess = |plan: &MinimizePlan, problem: &MinimizeProblem| {
        let x = answer(problem, plan, InMemory::new(distances(), &records), 1);
        0.5 * x.iter().zip(&far).map(|(x, c)| (x - c).powi(2)).sum::<f64>()
    };
    let (in_stages, at_once) = (excess(&staged, &curved(1.0)), excess(&flat, &curved(0.0)));
    assert!(in_stages < staged.predicted_excess, "{in_stages}");
    assert!(in_stages < 0.1 * at_once, "{in_stages} {at_once}");
}
