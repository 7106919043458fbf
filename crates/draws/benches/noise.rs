//! Nanoseconds per noise sample, in bulk on one thread: `cargo bench -p dpopt-draws`. Prints `NAME VALUE` lines that
//! `make bench-noise` compares with NumPy and OpenDP in the same run.
use dpopt_draws::{LazyIterate, LazyOptions, Phase, StepRule, hard_threshold};
use dpopt_noise::{Grid, NoiseSource, Norm, PoissonSkips, Purpose, Quantizer, RoundedGaussian};
use rand::Rng;
use std::hint::black_box;
use std::time::Instant;

/// Best of seven runs of `work`, in nanoseconds per item.
fn nanoseconds(items: usize, mut work: impl FnMut()) -> f64 {
    work();
    let best = (0..7)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    best * 1e9 / items as f64
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // on the pool's own thread, so that no hand-over is measured
    rayon::ThreadPoolBuilder::new().num_threads(1).build()?.install(measure)?;
    rayon::ThreadPoolBuilder::new().num_threads(2).build()?.install(two_threads)
}

/// Noise on ten million sums, which two threads share.
fn two_threads() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut sums = vec![0i64; 10_000_000];
    let noise = RoundedGaussian::new(1.1, Grid::for_sum(1.0, 1.1, 256, 100_000))?;
    let mut stream = NoiseSource::secure()?.stream(Purpose::Noise, 0);
    let each = nanoseconds(sums.len(), || noise.add_to(black_box(&mut sums), &mut stream));
    println!("gaussian_secure_two_threads_ns {each:.3}");
    Ok(())
}

fn measure() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let n = 1 << 20;
    let mut sums = vec![0i64; n];
    let started = Instant::now();
    let grid = Grid::for_sum(1.0, 1.1, 256, 100_000);
    let noise = RoundedGaussian::new(1.1, grid)?;
    println!("first_construction_ms {:.3}", started.elapsed().as_secs_f64() * 1e3);
    println!(
        "construction_ns {:.0}",
        nanoseconds(1000, || {
            for _ in 0..1000 {
                black_box(RoundedGaussian::new(black_box(1.1), grid).ok());
            }
        })
    );
    for (name, mut source) in [("secure", NoiseSource::secure()?), ("insecure_seed", NoiseSource::insecure(1))] {
        let mut words = vec![0u8; 8 * n];
        let mut stream = source.stream(Purpose::Noise, 0);
        println!("words_{name}_ns {:.3}", nanoseconds(n, || stream.fill_bytes(black_box(&mut words))));
        println!("gaussian_{name}_ns {:.3}", nanoseconds(n, || noise.add_to(black_box(&mut sums), &mut stream)));
    }
    let mut stream = NoiseSource::secure()?.stream(Purpose::Noise, 0);
    let fine = RoundedGaussian::new(1.1, Grid::new(-33))?;
    println!("gaussian_fine_grid_ns {:.3}", nanoseconds(n, || fine.add_to(black_box(&mut sums), &mut stream)));

    let quantizer = Quantizer::new(Norm::L2, 1.0, grid)?;
    let columns = 100_000u32;
    let row: Vec<(u32, f32)> = (0..100).map(|k| (k * (columns / 100), stream.below(1000) as f32 * 1e-3)).collect();
    let (indices, values): (Vec<u32>, Vec<f32>) = row.into_iter().unzip();
    let mut cells = vec![0i64; columns as usize];
    println!(
        "clip_and_add_per_nonzero_ns {:.3}",
        nanoseconds(100 * 10_000, || {
            for _ in 0..10_000 {
                quantizer.add_scaled_row(black_box(0.7), &indices, &values, &mut cells);
            }
        })
    );
    let skips = PoissonSkips::new(0.001)?;
    let mut batch = Vec::new();
    println!("poisson_per_chosen_ns {:.3}", nanoseconds(10_000, || skips.subset(10_000_000, &mut stream, &mut batch)));
    let rule = StepRule { learning_rate: 0.1, decay: 1.0, momentum: 0.0, average_weight: 0.0 };
    let options = LazyOptions {
        dimension: 1_000_000,
        runs: vec![Phase { steps: 2000, rule }],
        noise_std: 1.0,
        max_gradient: 10.0,
        grid: Grid::new(-20),
        max_reads: 1 << 21,
    };
    let mut lazy = LazyIterate::new(&options)?;
    println!(
        "lazy_step_per_touched_ns {:.3}",
        nanoseconds(100 * 1000, || {
            for _ in 0..100 {
                for j in (0..1000).map(|k| k * 997) {
                    black_box(lazy.read(j, &mut stream));
                    lazy.add(j, 100);
                }
                black_box(lazy.end_step(&mut stream));
                black_box(lazy.end_step(&mut stream));
            }
        })
    );
    let top = RoundedGaussian::new(1.0, Grid::new(-20))?;
    println!(
        "hard_threshold_of_1e12_ns {:.0}",
        nanoseconds(20, || {
            for _ in 0..20 {
                black_box(hard_threshold(&top, 1_000_000_000_000, &[(5, 1 << 22)], 10, &mut stream));
            }
        })
    );
    Ok(())
}
