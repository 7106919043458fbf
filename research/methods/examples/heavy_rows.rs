//! One pass with clips that are tested or grow beside methods that read all rows many times, on tables whose rows have heavy tails: the numbers of
//! docs/methods/clipped-sgd.md and docs/methods/phased-sgd.md: `cargo run --release -p dpopt-methods --example heavy_rows`.

use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_methods::registry;
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::plan::Problem;
use dpopt_optimize::{MethodOptions, Prepared, Run, Solution};
use dpopt_privacy::{Budget, Neighbours, Relation};

const FEATURES: usize = 11;
const TRAIN: usize = 60_000;
const TEST: usize = 20_000;
/// R: one row in some thousands is longer.
const ROW_NORM: f64 = 60.0;

/// A heavy tail, of a law whose moments end at 3 (Student) or at 2.5 (Pareto).
fn tail(student: bool, random: &mut Lcg) -> f64 {
    if student {
        let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
        (3.0 / squares).sqrt()
    } else {
        random.uniform().max(1e-12).powf(-1.0 / 2.5)
    }
}

/// Rows of a constant and ten features, labels by a linear model with logistic noise.
fn table(loss: Loss, student: bool, seed: u64) -> (Examples, Examples) {
    let mut random = Lcg::new(seed);
    let outputs = loss.outputs();
    let truth: Vec<f64> = (0..outputs * FEATURES).map(|_| 0.5 * random.normal()).collect();
    let mut part = |n: usize| {
        let mut examples = Examples { rows: Rows::new(FEATURES), targets: Vec::new() };
        for _ in 0..n {
            let size = tail(student, &mut random);
            let mut row = vec![(0u32, 1.0f32)];
            row.extend((1..FEATURES as u32).map(|j| (j, (size * random.normal()) as f32)));
            let score = |out: usize| -> f64 {
                row.iter().map(|&(j, v)| f64::from(v) * truth[out * FEATURES + j as usize]).sum()
            };
            let noisy: Vec<f64> = (0..outputs).map(score).collect();
            let mut gumbel = || -(-random.uniform().ln()).ln();
            examples.targets.push(if outputs == 1 {
                if noisy[0] + gumbel() - gumbel() > 0.0 { 1.0 } else { -1.0 }
            } else {
                let noisy: Vec<f64> = noisy.iter().map(|s| s + gumbel()).collect();
                (0..outputs).max_by(|&a, &b| noisy[a].total_cmp(&noisy[b])).unwrap_or(0) as f32
            });
            examples.rows.push_clipped(&mut row, ROW_NORM);
        }
        examples
    };
    (part(TRAIN), part(TEST))
}

fn accuracy(loss: Loss, weights: &[f64], examples: &Examples) -> f64 {
    let right = (0..examples.rows.len()).filter(|&i| {
        let (columns, values) = examples.rows.row(i);
        let score = |out: usize| -> f64 {
            columns.iter().zip(values).map(|(&j, &v)| f64::from(v) * weights[out * FEATURES + j as usize]).sum()
        };
        let target = f64::from(examples.targets[i]);
        match loss.outputs() {
            1 => score(0) * target > 0.0,
            k => (0..k).max_by(|&a, &b| score(a).total_cmp(&score(b))) == Some(target as usize),
        }
    });
    right.count() as f64 / examples.rows.len() as f64
}

fn run(plan: &dyn Prepared, examples: &Examples, seed: u64) -> Solution {
    let examples = Sensitive::new(examples.clone());
    let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
    let run = Run::new(plan.problem(), &examples, &mut curator, &Silent).expect("records as planned");
    plan.run(run).expect("a run without errors").into_inner()
}

fn main() {
    for (loss, student, moment) in [
        (Loss::Logistic { shift: 0.0 }, true, 4.0),
        (Loss::Logistic { shift: 0.0 }, false, 5.0),
        (Loss::Softmax { classes: 3 }, true, 4.0),
        (Loss::Softmax { classes: 3 }, false, 5.0),
    ] {
        let problem = Problem {
            nonzeros: FEATURES,
            row_norm: ROW_NORM,
            ..Problem::new(TRAIN as u64, FEATURES, loss, Neighbours::of_records(Relation::ZeroOut))
        };
        let ways = [
            ("default", MethodOptions::default()),
            ("noisy-sgd", MethodOptions::of("noisy-sgd")),
            ("noisy-sgd, clip 4", MethodOptions::of("noisy-sgd").with("clip_norm", 4.0)),
            ("phased-sgd", MethodOptions::of("phased-sgd").with("distance", 2.0)),
            (
                "phased-sgd, growing clips",
                MethodOptions::of("phased-sgd").with("gradient_moment", moment).with("distance", 2.0),
            ),
            ("clipped-sgd", MethodOptions::of("clipped-sgd").with("distance", 2.0)),
            (
                "clipped-sgd, moment",
                MethodOptions::of("clipped-sgd").with("gradient_moment", moment).with("distance", 2.0),
            ),
        ];
        for epsilon in [0.5, 2.0] {
            for (name, options) in &ways {
                let plan = match registry().choose(&problem, Budget::new(epsilon, 1e-6).unwrap(), options) {
                    Ok(plan) => plan,
                    Err(why) => {
                        println!("{loss:?} student={student} eps={epsilon} {name}: refused: {why}");
                        continue;
                    }
                };
                let results: Vec<(f64, Option<String>)> = (0..3)
                    .map(|seed| {
                        let (train, test) = table(loss, student, 100 + seed);
                        let solution = run(&*plan, &train, seed);
                        (accuracy(loss, &solution.weights, &test), solution.note)
                    })
                    .collect();
                let mean = results.iter().map(|r| r.0).sum::<f64>() / 3.0;
                let all: Vec<String> = results.iter().map(|r| format!("{:.4}", r.0)).collect();
                let notes = results.iter().filter(|r| r.1.is_some()).count();
                println!(
                    "{loss:?} student={student} eps={epsilon} {name} ({}): {mean:.4} {all:?}, {notes} not released in full",
                    plan.summary().method
                );
            }
        }
    }
}
