//! DP-SGD on synthetic click logs: `cargo bench -p dpopt --bench sparse -- steps|epoch`. Prints `NAME VALUE` lines, which
//! `make bench-sparse` sets beside Opacus and our own SGD without privacy; `steps same_1e4` measures one table.
//!
//! Rows have 40 non-zeros; the rank of a feature is log-uniform (Zipf's law with exponent 1), its place is scattered.
use dpopt::Sensitive;
use dpopt::loss::{Loss, sigmoid};
use dpopt::mechanism::Curator;
use dpopt::noise::{
    Grid, LazyIterate, LazyOptions, NoiseSource, Norm, Phase, PoissonSkips, Purpose, Quantizer, RowSeats, StepRule,
    Stream,
};
use dpopt::optimize::{self, Algorithm, Average, DescentOptions, NoisySgd};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use std::hint::black_box;
use std::time::Instant;

const NONZEROS: usize = 40;
const BATCH: f64 = 512.0;
/// Records whose rows are asked for at once.
const GROUP: usize = 16;
/// Records before which their weights are asked for.
const AHEAD: usize = 4;

/// `rows` records of d features; ranks go up to `ranks` ≤ d, spread over all of d.
fn click_log(rows: usize, d: usize, ranks: usize, seed: u64) -> Examples {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Audit, 0);
    let span = (ranks as f64 + 1.0).ln();
    let mut table = Rows::new(d);
    let mut targets = Vec::with_capacity(rows);
    let stride = d / ranks;
    let mut entries = Vec::with_capacity(NONZEROS);
    for _ in 0..rows {
        entries.clear();
        let mut score = 0.0;
        while entries.len() < NONZEROS {
            let rank = ((stream.uniform() * span).exp() as usize).clamp(1, ranks) - 1;
            // an odd multiplier modulo a power of two, or any modulus it is prime to, permutes the ranks
            let place = (rank as u64).wrapping_mul(2_654_435_761) % ranks as u64;
            let index = (place as usize * stride) as u32;
            if entries.iter().any(|&(i, _)| i == index) {
                continue;
            }
            score += if rank.is_multiple_of(3) { 1.0 } else { -0.5 };
            entries.push((index, (1.0 / NONZEROS as f64).sqrt() as f32));
        }
        table.push_clipped(&mut entries, 1.0);
        targets.push(if stream.uniform() < sigmoid(0.3 * score) { 1.0 } else { -1.0 });
    }
    Examples { rows: table, targets }
}

/// Best time per step of `rounds` runs of `steps` steps, in microseconds.
fn microseconds(rounds: usize, steps: usize, mut run: impl FnMut()) -> f64 {
    run();
    (0..rounds)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed().as_secs_f64() * 1e6 / steps as f64
        })
        .fold(f64::INFINITY, f64::min)
}

struct Trainer<'a> {
    examples: &'a Examples,
    skips: PoissonSkips,
}

impl Trainer<'_> {
    /// Mini-batch SGD without privacy: slopes at the batch's weights, then one pass of updates.
    fn plain(&self, weights: &mut [f64], steps: usize, stream: &mut Stream) {
        let (mut batch, mut slopes) = (Vec::new(), Vec::new());
        let rate = 0.1 / BATCH;
        for _ in 0..steps {
            self.skips.subset(self.examples.rows.len() as u64, stream, &mut batch);
            slopes.clear();
            for group in batch.chunks(16) {
                self.examples.rows.fetch(group);
                for &i in group {
                    let (indices, values) = self.examples.rows.row(i as usize);
                    let score: f64 =
                        indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
                    let y = f64::from(self.examples.targets[i as usize]);
                    slopes.push(-y * sigmoid(-y * score));
                }
            }
            for (&i, slope) in batch.iter().zip(&slopes) {
                let (indices, values) = self.examples.rows.row(i as usize);
                for (&j, &x) in indices.iter().zip(values) {
                    weights[j as usize] -= rate * slope * f64::from(x);
                }
            }
        }
    }

    /// The kernel of `noisy-sgd`: read, clip, scatter, noise where needed.
    fn private(&self, descent: &mut LazyIterate, quantizer: &Quantizer, steps: usize, streams: &mut [Stream; 2]) {
        let (mut batch, mut seats) = (Vec::new(), RowSeats::default());
        let [choice, noise] = streams;
        for _ in 0..steps {
            self.skips.subset(self.examples.rows.len() as u64, choice, &mut batch);
            for at in 0..batch.len() + AHEAD {
                if let Some(&later) = batch.get(at) {
                    if at % GROUP == 0 {
                        self.examples.rows.fetch(&batch[at..batch.len().min(at + GROUP)]);
                    }
                    descent.warm(self.examples.rows.row(later as usize).0.iter().map(|&j| j as usize));
                }
                if let Some(now) = at.checked_sub(AHEAD) {
                    let i = batch[now];
                    let (indices, values) = self.examples.rows.row(i as usize);
                    descent.seat(indices.iter().map(|&j| j as usize), &mut seats, noise);
                    let score = descent.dot(&seats, values);
                    let y = f64::from(self.examples.targets[i as usize]);
                    if let Some(factor) = quantizer.row_factor(-y * sigmoid(-y * score), values) {
                        descent.add_scaled(&seats, values, factor);
                    }
                }
            }
            assert!(descent.end_step(noise));
        }
    }
}

/// Times and counts per step at d features.
fn measure(name: &str, examples: &Examples) -> Result<(), Box<dyn std::error::Error>> {
    let (d, n) = (examples.rows.columns(), examples.rows.len());
    let trainer = Trainer { examples, skips: PoissonSkips::new(BATCH / n as f64)? };
    let (steps, rounds) = (100, 7);
    let mut source = NoiseSource::secure()?;
    let mut weights = vec![0.0; d];
    let mut stream = source.stream(Purpose::Batch, 0);
    let plain = microseconds(rounds, steps, || trainer.plain(black_box(&mut weights), steps, &mut stream));

    let (clip_norm, noise_std) = (0.5, 0.5);
    let grid = Grid::for_sum(clip_norm, noise_std, n as u64, d);
    let quantizer = Quantizer::new(Norm::L2, clip_norm, grid)?;
    let rule = StepRule { learning_rate: 0.1 / BATCH, decay: 1.0, momentum: 0.0, average_weight: 0.0 };
    let options = LazyOptions {
        dimension: d,
        runs: vec![Phase { steps: (steps * (rounds + 1)) as u32, rule }],
        noise_std,
        max_gradient: clip_norm * (2.0 * BATCH + 64.0),
        grid,
        max_reads: d as u64 * (steps * (rounds + 1)) as u64,
    };
    let mut descent = LazyIterate::new(&options)?;
    let mut streams = [source.stream(Purpose::Batch, 1), source.stream(Purpose::Touch, 0)];
    let private = microseconds(rounds, steps, || trainer.private(&mut descent, &quantizer, steps, &mut streams));
    let (work, done) = (descent.work(), f64::from(descent.step()));
    println!("{name}_sgd_us {plain:.1}");
    println!("{name}_dp_us {private:.1}");
    println!("{name}_touched_per_step {:.1}", work.touched as f64 / done);
    println!("{name}_draws_per_step {:.1}", work.draws as f64 / done);
    Ok(())
}

fn steps() -> Result<(), Box<dyn std::error::Error>> {
    // what a draw costs when everything is in the cache, and what random bits cost: the two candidates for a limit
    let n = 1 << 20;
    let mut source = NoiseSource::secure()?;
    let mut words = vec![0u8; 8 * n];
    let mut stream = source.stream(Purpose::Noise, 0);
    let random = microseconds(7, n, || rand::Rng::fill_bytes(&mut stream, black_box(&mut words))) * 1e3;
    println!("random_word_ns {random:.3}");
    let tables = [
        ("same_1e4", 100_000, 10_000, 10_000, 1),
        ("same_1e7", 100_000, 10_000_000, 10_000, 1),
        ("zipf_1e5", 200_000, 100_000, 100_000, 2),
        ("zipf_1e6", 200_000, 1_000_000, 1_000_000, 2),
        ("zipf_1e7", 200_000, 10_000_000, 10_000_000, 2),
    ];
    // cargo adds a flag of its own
    let only = std::env::args().nth(2).filter(|name| !name.starts_with("--"));
    for (name, rows, d, ranks, seed) in tables {
        if only.as_deref().is_none_or(|only| only == name) {
            measure(name, &click_log(rows, d, ranks, seed))?;
        }
    }
    Ok(())
}

/// One epoch of `noisy-sgd` on 10⁶ rows of 10⁷ features, as the command line runs it after reading.
fn epoch() -> Result<(), Box<dyn std::error::Error>> {
    let (n, d) = (1_000_000, 10_000_000);
    let examples = Sensitive::new(click_log(n, d, d, 3));
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: n as u64,
        features: d,
        nonzeros: NONZEROS,
        row_norm: 1.0,
        loss: Loss::Logistic { shift: 0.0 },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let q = BATCH / n as f64;
    let descent = DescentOptions {
        steps: Some((1.0 / q) as u64),
        learning_rate: Some(4.0),
        momentum: Some(0.0),
        average: Average::Last,
        ..Default::default()
    };
    let sgd = NoisySgd { sampling_probability: Some(q), descent, ..NoisySgd::default() };
    let started = Instant::now();
    let plan = sgd.plan(&problem, Budget::new(1.0, 1e-7)?)?;
    println!("epoch_plan_s {:.2}", started.elapsed().as_secs_f64());
    assert!(plan.schedule.is_lazy(), "{}", plan.schedule.noise_drawn);
    let started = Instant::now();
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::secure()?);
    let answer = sgd.run(&plan, optimize::Run::new(&problem, &examples, &mut curator, &Silent)?)?;
    println!("epoch_s {:.2}", started.elapsed().as_secs_f64());
    assert_eq!(black_box(answer.get().weights.len()), d);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(line) = status.lines().find(|line| line.starts_with("VmHWM")) {
        let kilobytes: f64 = line.split_whitespace().nth(1).and_then(|x| x.parse().ok()).unwrap_or(f64::NAN);
        println!("epoch_peak_mb {:.0}", kilobytes / 1024.0);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("epoch") => epoch(),
        _ => steps(),
    }
}
