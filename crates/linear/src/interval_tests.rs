//! Prediction intervals, by themselves and after methods.

use crate::choose;
use crate::tests::{budget, facts};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Interval;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::interval_search::find_width;
use dpopt_optimize::plan::{Problem, RecordUnit};
use dpopt_optimize::{Intervals, MethodOptions, Run, Solution};
use dpopt_privacy::{Budget, Event, Relation, certify};

/// How far targets lie from what the weights predict.
#[derive(Clone, Copy, Debug)]
enum Law {
    Normal,
    /// On one side, with a long tail.
    Skewed,
    /// With a tail of index 1.8.
    Heavy,
    /// The model is wrong: targets bend where predictions don't.
    Wrong,
}

const LAWS: [Law; 4] = [Law::Normal, Law::Skewed, Law::Heavy, Law::Wrong];

fn examples(seed: u64, rows: usize, law: Law) -> Examples {
    let mut random = Lcg::new(seed);
    let mut examples = Examples { rows: Rows::new(2), targets: Vec::new() };
    for _ in 0..rows {
        let x = 2.0 * random.uniform() - 1.0;
        let mean = 0.1 + 0.4 * x;
        let noise = match law {
            Law::Normal => 0.1 * random.normal(),
            Law::Skewed => -0.1 * random.uniform().max(1e-12).ln(),
            Law::Heavy => 0.02 * random.uniform().max(1e-9).powf(-1.0 / 1.8) * (random.uniform() - 0.5).signum(),
            Law::Wrong => 0.5 * x * x + 0.05 * random.normal(),
        };
        examples.rows.push_clipped(&mut [(0, 0.5), (1, 0.5 * x as f32)], 1.0);
        examples.targets.push((mean + noise).clamp(-1.0, 1.0) as f32);
    }
    examples
}

const WEIGHTS: [f64; 2] = [0.2, 0.8];

/// The share of targets that ±`half_width` holds.
fn held(examples: &Examples, half_width: f64, ends: bool) -> f64 {
    let near = |i: usize| {
        let (_, x) = examples.rows.row(i);
        let score: f64 = x.iter().zip(WEIGHTS).map(|(x, w)| f64::from(*x) * w).sum();
        let target = f64::from(examples.targets[i]);
        (target - score.clamp(-1.0, 1.0)).abs() <= half_width && (ends || target.abs() < 1.0)
    };
    (0..examples.targets.len()).filter(|&i| near(i)).count() as f64 / examples.targets.len() as f64
}

/// The interval of given weights, as if a method had released them.
fn after(examples: &Sensitive<Examples>, problem: &Problem, seed: u64) -> Interval {
    let event = problem.whole(Event::gaussian(1e6));
    let certificate = certify(&event, problem.neighbours.within(Budget::new(1e3, 1e-5).unwrap())).unwrap();
    let mut curator = Curator::new(&certificate, NoiseSource::insecure(seed));
    let solution = curator.postprocess(Solution::from(WEIGHTS.to_vec()));
    let run = Run::new(problem, examples, &mut curator, &Silent).unwrap();
    find_width(solution, run).unwrap().into_inner().interval.unwrap()
}

/// Over laws, budgets and seeds. By the law of the noise: the sum of a width that passes is above the margin less 6.5 standard deviations of its noise, and a width
/// whose sum exceeds the margin by as much passes, in all but 4e-11 of tests, of which there are 24 · 50 · 8: both fail in less than 1e-6 of runs. The mean over
/// seeds is above the level less a twentieth of a standard deviation but for less than 1e-8: the largest of eight normal numbers has mean 1.42 and standard deviation .61,
/// and the margin is 1.65.
#[test]
fn intervals_hold_the_level_and_little_more() {
    const SEEDS: u64 = 50;
    for law in LAWS {
        for (rows, epsilon) in [(5000, 0.5), (5000, 1.0), (5000, 4.0), (20_000, 0.5), (20_000, 1.0), (20_000, 4.0)] {
            let examples = examples(rows as u64, rows, law);
            let problem = facts(&examples, Loss::Squared).with_intervals(budget(epsilon), 0.9, true).unwrap();
            let intervals = problem.intervals.unwrap();
            let std = problem.intervals_noise(&intervals) * intervals.clip_norm() / rows as f64;
            let margin = intervals.margin(1.0) / rows as f64;
            let enough =
                (0..256).map(Intervals::half_width).find(|t| held(&examples, *t, true) - 0.9 >= margin + 6.5 * std);
            let sensitive = Sensitive::new(examples.clone());
            let mut mean = 0.0;
            for seed in 0..SEEDS {
                let found = after(&sensitive, &problem, seed);
                let share = held(&examples, found.half_width, true);
                assert!(share >= 0.9 + margin - 6.5 * std, "{law:?} {rows} {epsilon} {seed}: {share}");
                assert!(found.half_width <= enough.unwrap_or(2.0), "{law:?} {rows} {epsilon} {seed}: {found:?}");
                mean += share / SEEDS as f64;
            }
            assert!(mean >= 0.9 - 0.05 * std, "{law:?} {rows} {epsilon}: {mean}");
            // of use: noise takes at most a quarter of what may be missed, where that can be bought
            assert!(margin <= 0.025 || intervals.share() == 0.2, "{rows} {epsilon}: {margin}");
        }
    }
}

/// Targets at the ends of a range that was found may have been cut: no finite interval is said to hold them.
#[test]
fn a_tenth_of_cut_targets_leaves_no_finite_interval() {
    let mut examples = examples(3, 20_000, Law::Normal);
    examples.targets.iter_mut().step_by(8).for_each(|target| *target = 1.0);
    let sensitive = Sensitive::new(examples.clone());
    for (declared, finite) in [(true, true), (false, false)] {
        let problem = facts(&examples, Loss::Squared).with_intervals(budget(4.0), 0.9, declared).unwrap();
        let found = after(&sensitive, &problem, 5);
        assert_eq!((found.half_width.is_finite(), found.ends), (finite, declared), "{found:?}");
    }
    // at a lower level there is one
    let problem = facts(&examples, Loss::Squared).with_intervals(budget(4.0), 0.8, false).unwrap();
    let found = after(&sensitive, &problem, 5);
    assert!(found.half_width < 1.0 && held(&examples, found.half_width, false) > 0.8, "{found:?}");
}

#[test]
fn the_sums_are_paid_for_with_the_method() {
    let examples = examples(6, 6000, Law::Normal);
    for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
        let mut plain = facts(&examples, Loss::Squared);
        plain.neighbours.relation = relation;
        let with = plain.clone().with_intervals(budget(2.0), 0.9, true).unwrap();
        let share = with.intervals.unwrap().share();
        let choose =
            |problem: &Problem| choose(problem, budget(2.0), &MethodOptions::of("noisy-gradient-descent")).unwrap();
        let (with, without) = (choose(&with), choose(&plain));
        for plan in [&with, &without] {
            let certificate = &plan.summary().certificate;
            assert!(certificate.bound().upper <= 2.0 && certificate.bound().upper > 1.98, "{relation:?}");
        }
        let ratio = with.summary().noise_multiplier / without.summary().noise_multiplier;
        assert!((ratio - (1.0 - share).sqrt().recip()).abs() < 1e-4, "{relation:?} {ratio}");
        assert_eq!(with.passes(), without.passes() + 8);
    }
}

#[test]
fn rows_of_a_unit_share_the_noise_of_a_group_and_neighbours_that_replace_double_it() {
    let examples = examples(7, 20_000, Law::Normal);
    let problem = facts(&examples, Loss::Squared).with_intervals(budget(1.0), 0.9, true).unwrap();
    let noise = |problem: &Problem| problem.intervals_noise(problem.intervals.as_ref().unwrap());
    let most = std::num::NonZeroU64::new(4).unwrap();
    let group = Problem { record: RecordUnit::UnitsRow { most }, ..problem.clone() };
    assert!((noise(&group) / noise(&problem) - 4.0).abs() < 1e-12);
    let mut replace = problem.clone();
    replace.neighbours.relation = Relation::ReplaceOne;
    assert!((noise(&replace) / noise(&problem) - 2.0).abs() < 1e-12);
}

/// What is refused is refused by public numbers, and with the number of rows that would do.
#[test]
fn too_few_rows_are_refused_with_the_number_that_would_do() {
    let of = |rows: u64| {
        let plain = Problem { rows, ..facts(&examples(8, 10, Law::Normal), Loss::Squared) };
        plain.with_intervals(budget(0.5), 0.9, true)
    };
    let refused = of(200).unwrap_err().to_string();
    let needed: u64 = refused.split("at least ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(refused.contains("there are 200") && needed > 200, "{refused}");
    assert!(of(needed).is_ok() && of(needed - 1).is_err(), "{refused}");
}

#[test]
fn other_losses_and_pure_budgets_have_no_intervals() {
    let examples = examples(9, 20_000, Law::Normal);
    for loss in [
        Loss::Logistic { shift: 0.0 },
        Loss::Softmax { classes: 3 },
        Loss::Poisson { top: 8.0 },
        Loss::Hinge,
        Loss::Quantile { level: 0.5, width: 0.02 },
    ] {
        let refused = facts(&examples, loss).with_intervals(budget(1.0), 0.9, true).unwrap_err().to_string();
        assert!(refused.contains("number's mean"), "{refused}");
    }
    let pure = Budget::new(1.0, 0.0).unwrap();
    let refused = facts(&examples, Loss::Squared).with_intervals(pure, 0.9, true).unwrap_err().to_string();
    assert!(refused.contains("delta > 0"), "{refused}");
    for loss in [Loss::Absolute, Loss::Huber { threshold: 0.1 }] {
        assert!(facts(&examples, loss).with_intervals(budget(1.0), 0.9, true).is_ok());
    }
}
