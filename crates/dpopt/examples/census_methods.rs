//! Test accuracy of every method on the census table: mean over five 80/20 splits, δ = 1e-5, zero-out.
//!
//! `DPOPT_DATA=DIR cargo run --release -p dpopt --example census_methods -- [vocabulary|hashed] [method] [epsilon…]`

use dpopt::Sensitive;
use dpopt::data::{BadCells, Encoder, ReadOptions, Schema, open};
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::NoiseSource;
use dpopt::optimize::{MethodOptions, Run, candidates};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::Examples;
use std::collections::BTreeMap;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let bounds = arguments.next_if(|a| a.parse::<f64>().is_err()).unwrap_or("vocabulary".into());
    let only = arguments.next_if(|a| a.parse::<f64>().is_err());
    let epsilons: Vec<f64> = arguments.map(|a| a.parse()).collect::<Result<_, _>>()?;
    let epsilons = if epsilons.is_empty() { vec![0.1, 0.5, 1.0, 4.0] } else { epsilons };
    let root = std::env::var_os("DPOPT_DATA").ok_or("set DPOPT_DATA to the folder that holds adult/adult.csv")?;
    let path = std::path::Path::new(&root).join("adult/adult.csv");
    let table = open(&path, &ReadOptions::default())?;
    let schema = std::fs::read_to_string(format!("benches/adult/bounds-{bounds}.toml"))?;
    let layout = Schema::from_toml(&schema)?.resolve(table.columns(), Some("income"))?;
    let encoder = Encoder::new(&layout)?;
    let all = encoder.encode_public(&*table, BadCells::Missing)?;
    println!("{} rows, {} features, up to {} non-zeros", all.rows.len(), encoder.dimension(), encoder.max_nonzeros());

    for epsilon in epsilons {
        let mut scores: BTreeMap<&str, Vec<(f64, f64, f64, f64)>> = BTreeMap::new();
        for seed in 0..5u64 {
            let (train, test) = split(&all, seed);
            let problem = Problem {
                directions: None,
                prior_release: None,
                calibrated: None,
                intervals: None,
                record: Default::default(),
                rows: train.rows.len() as u64,
                features: encoder.dimension(),
                nonzeros: encoder.max_nonzeros(),
                row_norm: encoder.row_norm(),
                loss: Loss::Logistic { shift: 0.0 },
                neighbours: Neighbours::of_records(Relation::ZeroOut),
            };
            let train = Sensitive::new(train);
            let options = only.clone().map_or(MethodOptions::default(), MethodOptions::of);
            let start = Instant::now();
            let plans = candidates(&problem, Budget::new(epsilon, 1e-5)?, &options);
            let planning = start.elapsed().as_secs_f64();
            for candidate in plans {
                let plan = match candidate.plan {
                    Ok(plan) => plan,
                    Err(reason) => {
                        if seed == 0 {
                            println!("  {}: {reason}", candidate.method);
                        }
                        continue;
                    }
                };
                let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
                let start = Instant::now();
                let weights = plan.run(Run::new(&problem, &train, &mut curator, &Silent)?)?;
                let time = start.elapsed().as_secs_f64();
                scores.entry(candidate.method).or_default().push((
                    accuracy(&test, &weights.get().weights),
                    time,
                    plan.summary().predicted_excess_risk,
                    planning,
                ));
            }
        }
        let planning = scores.values().flatten().map(|r| r.3).fold(f64::INFINITY, f64::min);
        println!("epsilon {epsilon} (all plans in {planning:.3} s)");
        for (method, runs) in scores {
            let mean = |f: fn(&(f64, f64, f64, f64)) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
            println!(
                "  {method:24} accuracy {:.4}  fastest run {:.3} s  predicted excess risk {:.2e}",
                mean(|r| r.0),
                runs.iter().map(|r| r.1).fold(f64::INFINITY, f64::min),
                mean(|r| r.2)
            );
        }
    }
    Ok(())
}

fn split(all: &Examples, seed: u64) -> (Examples, Examples) {
    let n = all.rows.len();
    let mut order: Vec<usize> = (0..n).collect();
    let mut stream = NoiseSource::insecure(1000 + seed).stream(dpopt::noise::Purpose::Split, 0);
    stream.shuffle(&mut order);
    let take = |positions: &[usize]| Examples {
        rows: all.rows.select(positions),
        targets: positions.iter().map(|&i| all.targets[i]).collect(),
    };
    let cut = n * 4 / 5;
    (take(&order[..cut]), take(&order[cut..]))
}

fn accuracy(test: &Examples, weights: &[f64]) -> f64 {
    let right = (0..test.rows.len())
        .filter(|&i| {
            let (indices, values) = test.rows.row(i);
            let score: f64 = indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
            (score > 0.0) == (test.targets[i] > 0.0)
        })
        .count();
    right as f64 / test.rows.len() as f64
}
