//! Means of sparse vectors: time against the dimension, and a large one within a memory bound.
//!
//! Prints lines `name value`; vectors are made on the way, so that they take no memory.

use dpopt::estimate::{MeanProblem, mean_candidates};
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::RunError;
use dpopt::privacy::{Budget, Neighbours, Relation};
use std::error::Error;
use std::time::Instant;

/// Seconds for `records` vectors of `sparsity` entries at skewed places, and entries of the answer.
fn timed(records: u64, dimension: u64, sparsity: u64) -> Result<(f64, usize), Box<dyn Error>> {
    let problem = MeanProblem {
        records,
        dimension,
        sparsity: sparsity as f64,
        norm: 1.0,
        group: 1,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let candidates = mean_candidates(&problem, Budget::new(1.0, 1e-6)?);
    let plan = candidates.into_iter().next().ok_or("no method")?.plan?;
    let mut curator = Curator::new(&plan.certificate, NoiseSource::secure()?);
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Other(0), 0);
    let value = 1.0 / (sparsity as f64).sqrt();
    let started = Instant::now();
    let released = plan.run(&problem, &mut curator, |summer| -> Result<(), RunError> {
        let mut entries = Vec::new();
        for _ in 0..records {
            entries.clear();
            // the density of a place x of [0, 1] is x^(-1/2)/2: popular coordinates and a long tail
            entries.extend((0..sparsity).map(|_| ((stream.uniform().powi(2) * dimension as f64) as u32, value)));
            summer.add(&mut entries);
        }
        Ok(())
    })?;
    Ok((started.elapsed().as_secs_f64(), released.get().len()))
}

fn main() -> Result<(), Box<dyn Error>> {
    for dimension in [1_000_000u64, 10_000_000, 100_000_000, 1_000_000_000] {
        let mut seconds: Vec<f64> = Vec::new();
        let mut entries = 0;
        for _ in 0..5 {
            let (s, e) = timed(2_000, dimension, 20)?;
            seconds.push(s);
            entries = e;
        }
        seconds.sort_by(f64::total_cmp);
        println!("wide_{dimension}_ms {:.2}", 1e3 * seconds[2]);
        println!("wide_{dimension}_entries {entries}");
    }
    let (seconds, entries) = timed(1_000_000, 10_000_000, 50)?;
    println!("large_s {seconds:.2}");
    println!("large_entries {entries}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(line) = status.lines().find(|l| l.starts_with("VmHWM")) {
        println!("peak {}", line.trim_start_matches("VmHWM:").trim());
    }
    Ok(())
}
