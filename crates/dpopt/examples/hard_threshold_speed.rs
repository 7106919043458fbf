//! Time of a step against the number of features: DP-SGD-HT (batches of the same number of non-zeros, k = 100) and private
//! Frank–Wolfe on the same 20,000 rows of 50 non-zeros.
//!
//! `cargo run --release -p dpopt --example hard_threshold_speed`

use dpopt::Sensitive;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::{Algorithm, DpSgdHt, FrankWolfe, Run, SparseOptions, run_sparse, run_vertices};
use dpopt::plan::{Plan, Problem};
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use std::error::Error;
use std::time::Instant;

const ROWS: u64 = 20_000;
const NONZEROS: usize = 50;

/// Words of a vocabulary of 100,000, spread over all features; one row in twenty says its label by its first word.
fn examples(features: usize) -> Examples {
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Other(0), 0);
    let vocabulary: Vec<u32> = (0..100_000).map(|word| (word * (features as u64 / 100_000)) as u32).collect();
    let mut examples = Examples { rows: Rows::new(features), targets: Vec::new() };
    for i in 0..ROWS {
        let mut entries: Vec<(u32, f32)> =
            (0..NONZEROS).map(|_| (vocabulary[stream.below(100_000) as usize], 0.1)).collect();
        if i % 20 < 2 {
            entries[0] = (vocabulary[0], if i % 2 == 0 { 0.5 } else { -0.5 });
        }
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(if i % 2 == 0 { 1.0 } else { -1.0 });
    }
    examples
}

/// Shortest of three runs, in milliseconds, and what the last one counted.
fn time<S>(
    plan: &Plan<S>,
    problem: &Problem,
    examples: &Sensitive<Examples>,
    run: impl Fn(Run<'_>) -> Result<usize, Box<dyn Error>>,
) -> Result<(f64, usize), Box<dyn Error>> {
    let (mut best, mut counted) = (f64::INFINITY, 0);
    for seed in 0..3 {
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
        let started = Instant::now();
        counted = run(Run::new(problem, examples, &mut curator, &Silent)?)?;
        best = best.min(1e3 * started.elapsed().as_secs_f64());
    }
    Ok((best, counted))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (few, many) = (10u64, 510u64);
    println!(
        "{:>12} {:>22} {:>28} {:>20}",
        "features", "dp-sgd-ht: ms per step", "frank-wolfe: ms per step", "ms before the first"
    );
    for exponent in [5u32, 6, 7, 8, 9] {
        let features = 10usize.pow(exponent);
        let problem = Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows: ROWS,
            features,
            nonzeros: NONZEROS,
            row_norm: 1.0,
            loss: Loss::Logistic { shift: 0.0 },
            neighbours: Neighbours::of_records(Relation::ZeroOut),
        };
        let budget = Budget::new(4.0, 1e-6)?;
        let examples = Sensitive::new(examples(features));
        let sparse = SparseOptions {
            max_features: Some(100),
            steps: Some(20),
            refit_share: Some(0.0),
            ..SparseOptions::default()
        };
        // 40 records per batch: 2000 non-zeros
        let plan = DpSgdHt { sampling_probability: Some(40.0 / ROWS as f64), sparse }.plan(&problem, budget)?;
        let (thresholded, _) = time(&plan, &problem, &examples, |run| Ok(run_sparse(&plan, run)?.get().len()))?;
        // two runs of different length: what comes before the first step cancels
        let mut vertices = Vec::new();
        for steps in [few, many] {
            let plan = FrankWolfe { steps: Some(steps), l1_norm: Some(10.0), ..FrankWolfe::default() }
                .plan(&problem, budget)?;
            vertices.push(time(&plan, &problem, &examples, |run| Ok(run_vertices(&plan, run)?.get().len()))?.0);
        }
        let each = (vertices[1] - vertices[0]) / (many - few) as f64;
        println!("{features:>12} {:>22.3} {each:>28.3} {:>20.0}", thresholded / 20.0, vertices[0] - few as f64 * each);
    }
    Ok(())
}
