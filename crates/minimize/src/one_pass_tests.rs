use super::*;
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_mechanism::{BatchSum, Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::{Closures, Objective};
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, Unit};
use std::sync::atomic::{AtomicU64, Ordering};

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
    MethodOptions::of("one-pass-spider").with("initial_gap", 0.05)
}

fn sums(plan: &MinimizePlan) -> OnePassSchedule {
    match plan.schedule.batches {
        Batches::Once(sums) => sums,
        other => panic!("{other:?}"),
    }
}

/// ½‖x − a_i‖² of records in the plane.
fn distances() -> impl Objective<Vec<[f64; 2]>> + Clone {
    Closures::new(
        2,
        |x: &[f64], a: &[f64; 2]| 0.5 * x.iter().zip(a).map(|(x, a)| (x - a) * (x - a)).sum::<f64>(),
        |x: &[f64], a: &[f64; 2], g: &mut [f64]| g.iter_mut().zip(x).zip(a).for_each(|((g, x), a)| *g = x - a),
    )
}

fn records(n: u64) -> Vec<[f64; 2]> {
    (0..n).map(|i| if i % 2 == 0 { [0.5, 0.2] } else { [0.1, -0.2] }).collect()
}

#[test]
fn all_of_it_is_one_release_whatever_the_sizes() {
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        let plan = choose(&problem(200_000, 5, relation), budget(), &options()).unwrap();
        let Event::Approximate { event, .. } = plan.certificate.event() else { panic!("{}", plan.certificate.event()) };
        assert_eq!(**event, Event::gaussian(plan.schedule.noise_multiplier));
        assert_eq!(plan.grade(), Grade::Certified);
        let s = sums(&plan);
        // a node's noise, of the longest tree: E‖noise of a prefix‖² ≤ h·d·σ² = α²
        let depth = f64::from(s.leaves.ilog2() + 1);
        assert!(((depth * 5.0).sqrt() * plan.schedule.noise_std / s.aim - 1.0).abs() < 1e-6);
        assert!(s.leaf_clip * s.first_batch as f64 >= plan.schedule.clip_norm);
        // changes of M·way are not cut by their batch's clip
        for way in [1e-9, 1e-3, 0.1, 3.0] {
            assert!(s.leaf_clip * s.batch_after(way) as f64 >= way * (1.0 - 1e-12), "{way}");
        }
        assert_eq!(s.batch_after(0.0), 1);
    }
}

#[test]
fn what_has_no_places_or_says_too_little_is_refused() {
    let refusal = |problem: &MinimizeProblem, options: MethodOptions| {
        choose(problem, budget(), &options).unwrap_err().to_string()
    };
    let known = problem(1000, 3, Relation::ZeroOut);
    assert!(refusal(&problem(1000, 3, Relation::AddOrRemove), options()).contains("would move all others"));
    let of_units = MinimizeProblem {
        neighbours: Neighbours { unit: Unit::User, ..Neighbours::of_records(Relation::ZeroOut) },
        ..known.clone()
    };
    assert!(refusal(&of_units, options()).contains("units have no position"));
    assert!(refusal(&MinimizeProblem { smoothness: None, ..known.clone() }, options()).contains("give smoothness"));
    assert!(refusal(&known, MethodOptions::of("one-pass-spider")).contains("as `initial_gap`"));
    for (name, value) in [("learning_rate", 0.1), ("drift", 0.5), ("passes", 2.0)] {
        assert!(refusal(&known, options().with(name, value)).contains(&format!("has no option `{name}`")));
    }
    // few records say next to nothing
    let plan = choose(&problem(5, 3, Relation::ZeroOut), budget(), &options()).unwrap();
    assert!(plan.warnings.iter().any(|w| w.contains("too few")), "{:?}", plan.warnings);
}

/// Counts steps: a leaf each.
#[derive(Default)]
struct Leaves(AtomicU64);

impl Progress for Leaves {
    fn start(&self, _: &str, _: u64) {}
    fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn finish(&self) {}
}

/// The plan, the answer, and how many leaves were released.
fn follow(n: u64, seed: u64) -> (MinimizePlan, Vec<f64>, u64) {
    let problem = problem(n, 2, Relation::ReplaceOne);
    let plan = choose(&problem, budget(), &options()).unwrap();
    let held = Sensitive::new(records(n));
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
    let leaves = Leaves::default();
    let x = run(&problem, &plan, &[0.0; 2], InMemory::new(distances(), &held), &mut curator, &leaves).unwrap();
    assert!(curator.is_spent());
    (plan, x.into_inner(), leaves.0.into_inner())
}

#[test]
fn a_pass_comes_as_near_as_it_aims() {
    let mut squared = 0.0;
    let (mut aim, mut leaves) = (0.0, 0);
    for seed in 0..10 {
        let (plan, x, released) = follow(300_000, seed);
        (aim, leaves) = (sums(&plan).aim, released);
        assert!(leaves <= plan.schedule.steps && leaves > 3, "{leaves}");
        squared += (x[0] - 0.3).powi(2) + x[1].powi(2);
    }
    // the gradient is x − (.3, 0); noise and sampling have a square of α² each
    let norm = (squared / 10.0).sqrt();
    assert!(norm < 2.0 * aim && aim < 0.15, "{norm} {aim}, {leaves} leaves");
}

/// Half of the squared distance of two numbers, evaluated outside.
struct Outside<'a>(Vec<[f64; 2]>, &'a mut Vec<u64>);

impl PerRecord for Outside<'_> {
    fn gradients(&mut self, _: &[u64], _: &[f64], _: &mut BatchSum) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("leaves ask for weighted vectors"))
    }

    fn combined(
        &mut self,
        records: &[u64],
        terms: &[(f64, &[f64])],
        sum: &mut BatchSum,
    ) -> Result<(), dpopt_optimize::RunError> {
        self.1.extend(records);
        sum.add(records.len(), |k, out| {
            let each = self.0[records[k] as usize].iter().enumerate();
            out.extend(each.map(|(j, a)| terms.iter().map(|(w, x)| w * (x[j] - a)).sum::<f64>()));
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

    fn values(&mut self, _: &[u64], _: &[f64], _: &mut Vec<f64>) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("this objective says gradients"))
    }
}

#[test]
fn no_record_is_read_twice_and_elsewhere_is_the_same_way() {
    let n = 50_000;
    let at_home = problem(n, 2, Relation::ReplaceOne);
    let problem = MinimizeProblem { remote: true, ..at_home };
    let plan = choose(&problem, budget(), &options()).unwrap();
    let mut read = Vec::new();
    let outside = Outside(records(n), &mut read);
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(7));
    let there =
        run(&problem, &plan, &[0.0; 2], ReadByObjective::new(outside, n as usize), &mut curator, &Silent).unwrap();
    let leaves = read.len();
    read.sort_unstable();
    read.dedup();
    assert!(read.len() == leaves && leaves as u64 <= n && leaves as u64 > n / 4, "{leaves}");
    let held = Sensitive::new(records(n));
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(7));
    let here = run(&problem, &plan, &[0.0; 2], InMemory::new(distances(), &held), &mut curator, &Silent).unwrap();
    here.get()
        .iter()
        .zip(there.get())
        .for_each(|(a, b)| assert!((a - b).abs() < 1e-3, "{here:?} {there:?}", here = here.get(), there = there.get()));
}

/// A record that is replaced by whatever there is moves what is released by the leaf's clip twice, in all sums until the next restart, and nothing else.
#[test]
fn one_record_moves_one_leaf_by_twice_its_clip() {
    let n = 4000;
    let problem = problem(n, 1, Relation::ReplaceOne);
    let plan = choose(&problem, budget(), &options()).unwrap();
    let s = sums(&plan);
    let wild = Closures::new(1, |_: &[f64], _: &f64| 0.0, |_: &[f64], a: &f64, g: &mut [f64]| g[0] = *a);
    let seen = |worst: f64| {
        let mut all = vec![0.0; n as usize];
        all[17] = worst;
        let held = Sensitive::new(all);
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(5));
        // one leaf: later ones would ask elsewhere
        let mut plan = plan.clone();
        plan.schedule.steps = 1;
        if let Batches::Once(once) = &mut plan.schedule.batches {
            once.first_batch = n;
        }
        let x = run(&problem, &plan, &[0.0], InMemory::new(wild, &held), &mut curator, &Silent).unwrap();
        // the only step is as long as what is released, as slopes turn by one
        assert!(matches!(plan.schedule.rule, Rule::HeavyBall { learning_rate: 1.0, .. }) && s.escape.is_none());
        -x.get()[0]
    };
    // C over the size of the batch, which is less than the leaf's clip here
    let (moved, most) = (seen(1e30) - seen(-1e30), 2.0 * plan.schedule.clip_norm / n as f64);
    assert!(moved <= most * (1.0 + 1e-9) && moved > 0.9 * most && most <= 2.0 * s.leaf_clip, "{moved} {most}");
    assert!((seen(f64::NAN) - seen(0.0)).abs() < 1e-12);
}
