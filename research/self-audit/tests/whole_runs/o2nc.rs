//! The online-to-nonconvex conversion: what it releases.

use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Sensitive, past_the_curator};
use dpopt_minimize::{Batches, InMemory, MinimizeProblem, Rule, choose, run};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use dpopt_optimize::MethodOptions;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

fn problem(records: u64, dimension: usize, relation: Relation) -> MinimizeProblem {
    MinimizeProblem { distance: 1.0, ..MinimizeProblem::new(records, dimension, Neighbours::of_records(relation)) }
}

fn asked() -> MethodOptions {
    MethodOptions::of("o2nc")
}

/// With losses of 0 all that is released is noise. z₁ is the start, z₂ a share of the first step away from it, and the answer the mean of both: the way is twice as long.
#[test]
fn noise_of_changes_is_in_proportion_to_the_way_and_at_most_that_of_two_gradients() {
    let d = 400;
    let problem = problem(1, d, Relation::ZeroOut);
    let planned = choose(&problem, budget(), &asked().with("steps", 2u64).with("period", 2u64)).unwrap();
    let nothing = Closures::new(d, |_: &[f64], _: &f64| 0.0, |_: &[f64], _: &f64, _: &mut [f64]| {});
    let zeros = Sensitive::new(vec![0.0]);
    for rate in [0.01, 1e9] {
        let mut plan = planned.clone();
        let Rule::Conversion(c) = &mut plan.schedule.rule else { panic!() };
        (c.change_clip, c.reach, c.learning_rate, c.block_steps) = (rate, 0.5, 1e9, 2);
        let c = *c;
        let event = Event::composed(vec![Event::gaussian(c.fresh_multiplier), Event::gaussian(c.change_multiplier)]);
        let mut squares = [0.0, 0.0];
        for seed in 0..100 {
            let mut curator = past_the_curator::watched(&event, NoiseSource::insecure(seed));
            let x = run(&problem, &plan, &vec![0.0; d], InMemory::new(nothing, &zeros), &mut curator, &Silent).unwrap();
            let length = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
            let clip = (rate * 2.0 * length(x.get())).min(2.0);
            let seen = past_the_curator::seen(&curator);
            for (k, (z, clip)) in [(c.fresh_multiplier, 1.0), (c.change_multiplier, clip)].into_iter().enumerate() {
                squares[k] += length(&seen[k]).powi(2) / (d as f64 * (z * clip).powi(2)) / 100.0;
            }
        }
        // 40,000 squares of normal numbers have a mean within .0354 (five standard deviations, 6e-7)
        assert!(squares.iter().all(|s| (s - 1.0).abs() < 0.0354), "{rate} {squares:?}");
    }
}

#[test]
fn a_change_is_clipped_to_the_way_whatever_a_record_says() {
    // slopes that turn by 2e9 wherever they are looked at
    let wild = Closures::new(
        1,
        |_: &[f64], _: &f64| 0.0,
        |x: &[f64], a: &f64, g: &mut [f64]| g[0] = a * if x[0].to_bits().is_multiple_of(2) { -1e9 } else { 1e9 },
    );
    let problem = problem(20, 1, Relation::ZeroOut);
    let options = asked().with("steps", 6u64).with("period", 6u64).with("directions", 1u64);
    let mut plan = choose(&problem, budget(), &options).unwrap();
    let Rule::Conversion(c) = &mut plan.schedule.rule else { panic!() };
    // next to no noise: what is left of a release is what the record adds
    (c.fresh_multiplier, c.change_multiplier) = (1e-3, 1e-3);
    let c = *c;
    let mut largest = 0.0f64;
    // what the record says follows the last bit of a point: many seeds, so that some of them make long ways
    for seed in 0..60 {
        let mut all = vec![0.0; 20];
        all[3] = 1.0;
        let event = Event::gaussian(1e-3).self_composed(6);
        let mut curator = past_the_curator::watched(&event, NoiseSource::insecure(seed));
        let records = Sensitive::new(all);
        run(&problem, &plan, &[0.0], InMemory::new(wild, &records), &mut curator, &Silent).unwrap();
        let seen = past_the_curator::seen(&curator);
        assert!((seen[0][0].abs() - 1.0).abs() < 0.01, "{seen:?}");
        // a way of 2D at most
        let most = (c.change_clip * 2.0 * c.reach).min(2.0);
        seen[1..].iter().for_each(|change| assert!(change[0].abs() <= most * 1.01, "{change:?} {most}"));
        largest = seen[1..].iter().fold(largest, |l, change| l.max(change[0].abs() / most));
    }
    assert!(largest > 0.1, "{largest}");
}

/// A record that is replaced by whatever there is moves what is released in the sums between two restarts, by twice its leaf's clip at most.
#[test]
fn of_a_pass_one_record_moves_one_leaf_by_twice_its_clip() {
    let n = 40_000;
    let problem = problem(n, 1, Relation::ReplaceOne);
    let plan =
        choose(&problem, budget(), &MethodOptions::of("one-pass-o2nc").with("steps", 60u64).with("directions", 3u64))
            .unwrap();
    let Batches::Once(s) = plan.schedule.batches else { panic!() };
    let wild = Closures::new(1, |_: &[f64], _: &f64| 0.0, |_: &[f64], a: &f64, g: &mut [f64]| g[0] = *a);
    let seen = |worst: f64| {
        let mut all = vec![0.0; n as usize];
        all[17] = worst;
        let held = Sensitive::new(all);
        let mut curator = past_the_curator::watched(plan.certificate.event(), NoiseSource::insecure(5));
        // one step: later ones would be elsewhere
        let mut plan = plan.clone();
        plan.schedule.steps = 1;
        let Batches::Once(once) = &mut plan.schedule.batches else { panic!() };
        once.first_batch = n;
        run(&problem, &plan, &[0.0], InMemory::new(wild, &held), &mut curator, &Silent).unwrap();
        past_the_curator::seen(&curator)[0][0]
    };
    let (moved, most) = (seen(1e30) - seen(-1e30), 2.0 * plan.schedule.clip_norm / n as f64);
    assert!(moved <= most * (1.0 + 1e-9) && moved > 0.9 * most && most <= 2.0 * s.leaf_clip, "{moved} {most}");
}
