//! Time of a step of DP-SGD-HT against the number of features: batches of the same number of non-zeros, k = 100.
//!
//! `cargo run --release -p dpopt --example hard_threshold_speed`

use dpopt::Sensitive;
use dpopt::data::{Examples, Rows};
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::{Algorithm, DpSgdHt, Run, SparseOptions, run_sparse};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Relation};
use dpopt::progress::Silent;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (rows, nonzeros, keep, steps) = (20_000u64, 50usize, 100, 20);
    println!("{:>12} {:>12} {:>14}", "features", "kept", "ms per step");
    for exponent in [5u32, 6, 7, 8, 9] {
        let features = 10usize.pow(exponent);
        let mut stream = NoiseSource::insecure(u64::from(exponent)).stream(Purpose::Other(0), 0);
        let mut examples = Examples { rows: Rows::new(features), targets: Vec::new() };
        for i in 0..rows {
            let mut entries: Vec<(u32, f32)> = (0..nonzeros).map(|_| (stream.below(features as u64) as u32, 0.1)).collect();
            entries[0] = (0, if i % 2 == 0 { 0.5 } else { -0.5 });
            examples.rows.push_clipped(&mut entries, 1.0);
            examples.targets.push(if i % 2 == 0 { 1.0 } else { -1.0 });
        }
        let problem = Problem { rows, features, nonzeros, row_norm: 1.0, loss: Loss::Logistic { shift: 0.0 }, relation: Relation::ZeroOut };
        let sparse = SparseOptions { max_features: Some(keep), steps: Some(steps), refit_share: Some(0.0), ..SparseOptions::default() };
        // 40 records per batch: 2000 non-zeros
        let method = DpSgdHt { sampling_probability: Some(40.0 / rows as f64), sparse };
        let plan = method.plan(&problem, Budget::new(4.0, 1e-6)?)?;
        let examples = Sensitive::new(examples);
        let mut best = f64::INFINITY;
        let mut kept = 0;
        for seed in 0..3 {
            let mut curator = Curator::open(&plan.summary.certificate, NoiseSource::insecure(seed));
            let run = Run::new(&problem, &examples, &mut curator, &Silent)?;
            let started = Instant::now();
            kept = run_sparse(&plan, run)?.get().len();
            best = best.min(started.elapsed().as_secs_f64());
        }
        println!("{features:>12} {kept:>12} {:>14.3}", 1e3 * best / steps as f64);
    }
    Ok(())
}
