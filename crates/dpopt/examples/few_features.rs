//! Which method for few features? Test losses of `peeling`, `dp-gd-ht` and `frank-wolfe` on synthetic tables, and Frank–Wolfe's
//! default radius and steps beside a grid of both.
//!
//! `cargo run --release -p dpopt --example few_features -- peeling|frank-wolfe [TABLE]`
//! δ = 1e-5, replace-one, mean of three runs. The tables are synthetic, so that nothing here needs privacy; the grid's best is not
//! a private choice.

use dpopt::Sensitive;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::optimize::{MethodOptions, Run, choose};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use std::error::Error;

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };
const RUNS: u64 = 3;

fn uniform(stream: &mut Stream) -> f64 {
    stream.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// 0, 1, … with probability ∝ 1/j.
fn rank(stream: &mut Stream, most: f64) -> u32 {
    (most.powf(uniform(stream)) - 1.0) as u32
}

fn push(examples: &mut Examples, mut entries: Vec<(u32, f32)>, positive: bool) {
    entries.sort_unstable_by_key(|e| e.0);
    entries.dedup_by_key(|e| e.0);
    let size = (entries.len() as f32).sqrt();
    entries.iter_mut().for_each(|e| e.1 /= size);
    examples.rows.push_clipped(&mut entries, 1.0);
    examples.targets.push(if positive { 1.0 } else { -1.0 });
}

/// Messages of 4 to 27 words out of 47,236; in those with label +1 a share `topic` of the words comes from 600 words.
fn messages(n: usize, share: f64, topic: f64, seed: u64) -> Examples {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Split, 0);
    let d = 47_236;
    let mut examples = Examples { rows: Rows::new(d as usize), targets: Vec::new() };
    for _ in 0..n {
        let positive = uniform(&mut stream) < share;
        let length = 4 + stream.below(24);
        let word = |stream: &mut Stream| match positive && uniform(stream) < topic {
            true => rank(stream, 600.0).wrapping_mul(7919) % d,
            false => rank(stream, 9000.0).wrapping_mul(104_729) % d,
        };
        let entries = (0..length).map(|_| (word(&mut stream), 1.0)).collect();
        push(&mut examples, entries, positive);
    }
    examples
}

/// Rows of `width` of 20,000 features ±1 before scaling; the label follows the first `matter` of them.
fn signs(n: usize, width: usize, matter: u32, strength: f64, seed: u64) -> Examples {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Split, 0);
    let d = 20_000u32;
    let mut examples = Examples { rows: Rows::new(d as usize), targets: Vec::new() };
    for _ in 0..n {
        let feature = |stream: &mut Stream| {
            if stream.coin() { rank(stream, f64::from(d)) } else { stream.below(u64::from(d)) as u32 }
        };
        let entries: Vec<(u32, f32)> =
            (0..width).map(|_| (feature(&mut stream), if stream.coin() { 1.0 } else { -1.0 })).collect();
        let signal: f64 =
            entries.iter().filter(|e| e.0 < matter).map(|e| if e.0 % 2 == 0 { e.1 } else { -e.1 }).map(f64::from).sum();
        let positive = uniform(&mut stream) < 1.0 / (1.0 + (-strength / (width as f64).sqrt() * signal).exp());
        push(&mut examples, entries, positive);
    }
    examples
}

fn loss(examples: &Examples, weights: &[f64]) -> f64 {
    let n = examples.targets.len();
    let one = |i: usize| {
        let (columns, values) = examples.rows.row(i);
        let score = columns.iter().zip(values).map(|(&j, &x)| weights[j as usize] * f64::from(x)).sum();
        LOGISTIC.scalar_value(score, f64::from(examples.targets[i]))
    };
    (0..n).map(one).sum::<f64>() / n as f64
}

struct Table {
    name: &'static str,
    train: Sensitive<Examples>,
    test: Examples,
    problem: Problem,
}

fn table(name: &'static str, nonzeros: usize, make: impl Fn(usize, u64) -> Examples, n: usize) -> Table {
    let train = make(n, 1);
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: n as u64,
        features: train.rows.columns(),
        nonzeros,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ReplaceOne),
    };
    Table { name, train: Sensitive::new(train), test: make(4000, 2), problem }
}

impl Table {
    /// Mean test loss, and the plan's schedule.
    fn measured(
        &self,
        method: &str,
        epsilon: f64,
        options: MethodOptions,
    ) -> Result<(f64, serde_json::Value), Box<dyn Error>> {
        let options = options.by(method);
        let plan = choose(&self.problem, Budget::new(epsilon, 1e-5)?, &options)?;
        let mut mean = 0.0;
        for seed in 0..RUNS {
            let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
            let run = Run::new(&self.problem, &self.train, &mut curator, &Silent)?;
            mean += loss(&self.test, &plan.run(run)?.get().weights) / RUNS as f64;
        }
        Ok((mean, plan.schedule()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let what = std::env::args().nth(1).ok_or("say peeling or frank-wolfe")?;
    let only = std::env::args().nth(2);
    let tables = [
        table("4,500 messages", 32, |n, seed| messages(n, 0.13, 0.6, seed), 4500),
        table("30,000 messages", 32, |n, seed| messages(n, 0.4, 0.3, 10 + seed), 30_000),
        table("rows of 12", 12, |n, seed| signs(n, 12, 8, 8.0, seed), 8000),
        table("rows of 100", 100, |n, seed| signs(n, 100, 5, 25.0, seed), 6000),
    ];
    for t in tables.iter().filter(|t| only.as_deref().is_none_or(|name| name == t.name)) {
        for epsilon in [0.5, 1.0, 4.0] {
            if what == "frank-wolfe" {
                let (mean, schedule) = t.measured("frank-wolfe", epsilon, MethodOptions::default())?;
                let mut best = (f64::INFINITY, 0.0, 0);
                for radius in [1.0, 4.0, 16.0, 32.0, 64.0, 128.0] {
                    for steps in [4, 8, 16, 32, 64] {
                        let options = MethodOptions::default().with("l1_norm", radius).with("steps", steps);
                        let (mean, _) = t.measured("frank-wolfe", epsilon, options)?;
                        if mean < best.0 {
                            best = (mean, radius, steps);
                        }
                    }
                }
                println!(
                    "{}, epsilon {epsilon}: default {mean:.3} (lambda {:.0}, T {}), best of the grid {:.3} (lambda {}, T {})",
                    t.name,
                    schedule["l1_norm"].as_f64().unwrap_or(f64::NAN),
                    schedule["steps"],
                    best.0,
                    best.1,
                    best.2
                );
                continue;
            }
            for k in [3, 6, 12, 40] {
                let options = || MethodOptions::default().with("max_features", k);
                let (peeling, schedule) = t.measured("peeling", epsilon, options())?;
                let (thresholding, _) = t.measured("dp-gd-ht", epsilon, options())?;
                println!(
                    "{}, epsilon {epsilon}, k {k}: peeling {peeling:.3} ({}), dp-gd-ht {thresholding:.3}",
                    t.name, schedule["law"]
                );
            }
        }
    }
    Ok(())
}
