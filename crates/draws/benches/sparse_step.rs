//! Where the time of a sparse step of noisy SGD goes: `cargo bench -p dpopt-draws --bench sparse_step [NAME]`. Prints `NAME VALUE` lines, in
//! nanoseconds per stored entry of the batch, best of several rounds on one thread: the whole step, SGD without privacy, and each part of a step.
//!
//! Rows have 50 non-zeros; a batch has 500 of 10⁵ rows. `uniform`: any of 10⁶ features is as likely; `zipf`: rank log-uniform.
use dpopt_draws::{LazyIterate, LazyOptions, Phase, RowSeats, StepRule};
use dpopt_noise::parts::WideNormal;
use dpopt_noise::{Grid, NoiseSource, Norm, PoissonSkips, Purpose, Quantizer, Stream};
use std::hint::black_box;
use std::time::Instant;

const NONZEROS: usize = 50;
const ROWS: usize = 100_000;
const COLUMNS: usize = 1_000_000;
const BATCH: f64 = 500.0;
/// Records whose rows are asked for at once.
const GROUP: usize = 16;
/// Records before which their weights are asked for.
const AHEAD: usize = 4;

/// Rows as three arrays.
struct Table {
    columns: Vec<u32>,
    values: Vec<f32>,
    targets: Vec<f32>,
}

impl Table {
    /// Each row's columns are all different and increasing.
    fn new(zipf: bool) -> Self {
        let mut stream = NoiseSource::insecure(7).stream(Purpose::Audit, 0);
        let span = (COLUMNS as f64 + 1.0).ln();
        let mut table = Self { columns: Vec::new(), values: Vec::new(), targets: Vec::new() };
        let mut row = Vec::new();
        for _ in 0..ROWS {
            row.clear();
            while row.len() < NONZEROS {
                let rank = match zipf {
                    true => ((stream.uniform() * span).exp() as u64).clamp(1, COLUMNS as u64) - 1,
                    false => stream.below(COLUMNS as u64),
                };
                let column = (rank.wrapping_mul(2_654_435_761) % COLUMNS as u64) as u32;
                if !row.contains(&column) {
                    row.push(column);
                }
            }
            row.sort_unstable();
            table.columns.extend(&row);
            table.values.extend((0..NONZEROS).map(|_| (0.5 + stream.uniform() as f32) / (NONZEROS as f32).sqrt()));
            table.targets.push(if stream.coin() { 1.0 } else { -1.0 });
        }
        table
    }

    fn row(&self, i: u64) -> (&[u32], &[f32]) {
        let span = i as usize * NONZEROS..(i as usize + 1) * NONZEROS;
        (&self.columns[span.clone()], &self.values[span])
    }

    /// Reads an entry per cache line of some rows.
    fn fetch(&self, rows: &[u64]) {
        let mut all = 0;
        for &i in rows {
            let (columns, values) = self.row(i);
            all = columns.iter().step_by(16).fold(all, |all, j| all ^ j);
            all = values.iter().step_by(16).fold(all, |all, x| all ^ x.to_bits());
        }
        black_box(all);
    }

    /// The logistic loss's slope at a score.
    fn slope(&self, i: u64, score: f64) -> f64 {
        let y = f64::from(self.targets[i as usize]);
        -y / (1.0 + (y * score).exp())
    }
}

/// Best time of `rounds` runs, in nanoseconds per entry of `steps` batches.
fn per_entry(rounds: usize, steps: usize, mut run: impl FnMut()) -> f64 {
    run();
    let best = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    best * 1e9 / (steps as f64 * BATCH * NONZEROS as f64)
}

/// Mini-batch SGD without privacy: slopes at the batch's weights, then one pass of updates.
fn plain(table: &Table, skips: &PoissonSkips, weights: &mut [f64], steps: usize, stream: &mut Stream) {
    let (mut batch, mut slopes) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        skips.subset(ROWS as u64, stream, &mut batch);
        slopes.clear();
        for group in batch.chunks(GROUP) {
            table.fetch(group);
            for &i in group {
                let (columns, values) = table.row(i);
                let score = columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
                slopes.push(table.slope(i, score));
            }
        }
        for (&i, slope) in batch.iter().zip(&slopes) {
            let (columns, values) = table.row(i);
            for (&j, &x) in columns.iter().zip(values) {
                weights[j as usize] -= 1e-4 * slope * f64::from(x);
            }
        }
    }
}

/// What a private step needs.
struct Private<'a> {
    table: &'a Table,
    skips: PoissonSkips,
    quantizer: Quantizer,
    descent: LazyIterate,
    choice: Stream,
    noise: Stream,
    batch: Vec<u64>,
    seats: Vec<RowSeats>,
}

/// Seconds in batch, reading rows ahead, catching up, scores, clipping, sums and the end of a step.
#[derive(Default)]
struct Parts([f64; 7]);

impl Parts {
    const NAMES: [&'static str; 7] = ["batch", "ahead", "catch_up", "scores", "clip", "sums", "end"];

    fn time<T>(&mut self, part: usize, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let out = work();
        self.0[part] += started.elapsed().as_secs_f64();
        out
    }
}

impl Private<'_> {
    /// Steps in the order in which `SparseDescent` takes them.
    fn steps(&mut self, steps: usize) {
        let Self { table, skips, quantizer, descent, choice, noise, batch, seats } = self;
        let seats = &mut seats[0];
        for _ in 0..steps {
            skips.subset(ROWS as u64, choice, batch);
            for at in 0..batch.len() + AHEAD {
                if let Some(&later) = batch.get(at) {
                    if at % GROUP == 0 {
                        table.fetch(&batch[at..batch.len().min(at + GROUP)]);
                    }
                    descent.warm(table.row(later).0.iter().map(|&j| j as usize));
                }
                if let Some(now) = at.checked_sub(AHEAD) {
                    let i = batch[now];
                    let (columns, values) = table.row(i);
                    descent.seat(columns.iter().map(|&j| j as usize), seats, noise);
                    let score = descent.dot(seats, values);
                    if let Some(factor) = quantizer.row_factor(table.slope(i, score), values) {
                        descent.add_scaled(seats, values, factor);
                    }
                }
            }
            assert!(descent.end_step(noise));
        }
    }

    /// A step's work, group by group, so that each part can be timed.
    fn parts(&mut self, steps: usize, parts: &mut Parts) {
        let Self { table, skips, quantizer, descent, choice, noise, batch, seats } = self;
        let (mut scores, mut factors) = (vec![0.0; AHEAD], vec![0.0; AHEAD]);
        for _ in 0..steps {
            parts.time(0, || skips.subset(ROWS as u64, choice, batch));
            let warm = |group: &[u64], descent: &mut LazyIterate| {
                table.fetch(group);
                group.iter().for_each(|&i| descent.warm(table.row(i).0.iter().map(|&j| j as usize)));
            };
            parts.time(1, || warm(&batch[..batch.len().min(AHEAD)], descent));
            for at in (0..batch.len()).step_by(AHEAD) {
                let end = batch.len().min(at + AHEAD);
                let group = &batch[at..end];
                parts.time(1, || warm(&batch[end..batch.len().min(end + AHEAD)], descent));
                parts.time(2, || {
                    for (&i, seats) in group.iter().zip(seats.iter_mut()) {
                        descent.seat(table.row(i).0.iter().map(|&j| j as usize), seats, noise);
                    }
                });
                parts.time(3, || {
                    for ((&i, seats), score) in group.iter().zip(seats.iter()).zip(&mut scores) {
                        *score = descent.dot(seats, table.row(i).1);
                    }
                });
                parts.time(4, || {
                    for ((&i, &score), factor) in group.iter().zip(&scores).zip(&mut factors) {
                        *factor = quantizer.row_factor(table.slope(i, score), table.row(i).1).unwrap_or(0.0);
                    }
                });
                parts.time(5, || {
                    for ((&i, seats), &factor) in group.iter().zip(seats.iter()).zip(&factors) {
                        descent.add_scaled(seats, table.row(i).1, factor);
                    }
                });
            }
            parts.time(6, || assert!(descent.end_step(noise)));
        }
    }
}

/// Forms of a descent: the last iterate of plain SGD, and what `noisy-sgd` does unless it is told otherwise.
fn forms(steps: u32) -> [(&'static str, Vec<Phase>); 2] {
    let rule = StepRule { learning_rate: 1e-4, decay: 1.0, momentum: 0.0, average_weight: 0.0 };
    let heavy = StepRule { momentum: 0.95, ..rule };
    let half = |average_weight| Phase { steps: steps / 2, rule: StepRule { average_weight, ..heavy } };
    [("plain", vec![Phase { steps, rule }]), ("default", vec![half(0.0), half(1.0)])]
}

fn measure(name: &str, table: &Table) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (steps, rounds) = (100, 5);
    let skips = PoissonSkips::new(BATCH / ROWS as f64)?;
    let mut source = NoiseSource::secure()?;
    let mut weights = vec![0.0; COLUMNS];
    let mut stream = source.stream(Purpose::Batch, 0);
    let ours = per_entry(rounds, steps, || plain(table, &skips, black_box(&mut weights), steps, &mut stream));
    println!("{name}_sgd {ours:.2}");
    let (clip_norm, noise_std) = (0.5, 0.5);
    let grid = Grid::for_sum(clip_norm, noise_std, ROWS as u64, COLUMNS);
    for (form, runs) in forms((steps * (2 * rounds + 2)) as u32) {
        let total: u32 = runs.iter().map(|run| run.steps).sum();
        let options = LazyOptions {
            dimension: COLUMNS,
            runs,
            noise_std,
            max_gradient: clip_norm * (2.0 * BATCH + 64.0),
            grid,
            max_reads: COLUMNS as u64 * u64::from(total),
        };
        let mut private = Private {
            table,
            skips: skips.clone(),
            quantizer: Quantizer::new(Norm::L2, clip_norm, grid)?,
            descent: LazyIterate::new(&options)?,
            choice: source.stream(Purpose::Batch, 1),
            noise: source.stream(Purpose::Touch, 0),
            batch: Vec::new(),
            seats: vec![RowSeats::default(); AHEAD],
        };
        println!("{name}_{form} {:.2}", per_entry(rounds, steps, || private.steps(steps)));
        let work = private.descent.work();
        let entries = f64::from(private.descent.step()) * BATCH * NONZEROS as f64;
        println!("{name}_{form}_touched {:.3}", work.touched as f64 / entries);
        println!("{name}_{form}_draws {:.3}", work.draws as f64 / entries);
        let mut best = Parts([f64::INFINITY; 7]);
        for _ in 0..rounds {
            let mut parts = Parts::default();
            private.parts(steps, &mut parts);
            best.0.iter_mut().zip(parts.0).for_each(|(best, part)| *best = best.min(part));
        }
        for (part, seconds) in Parts::NAMES.iter().zip(best.0) {
            println!("{name}_{form}_{part} {:.2}", seconds * 1e9 / (steps as f64 * BATCH * NONZEROS as f64));
        }
    }
    Ok(())
}

/// What a draw needs whatever it is drawn for, in nanoseconds: a word, a normal variable, a chosen row.
fn draws() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let n = 1 << 20;
    let each = |mut run: Box<dyn FnMut()>| per_entry(5, 1, &mut run) * BATCH * NONZEROS as f64 / n as f64;
    let mut stream = NoiseSource::secure()?.stream(Purpose::Noise, 0);
    let mut bytes = vec![0u8; 8 * n];
    println!("word_ns {:.3}", each(Box::new(move || rand::Rng::fill_bytes(&mut stream, black_box(&mut bytes)))));
    let mut stream = NoiseSource::secure()?.stream(Purpose::Noise, 0);
    let normal = WideNormal::new();
    let work = move || {
        let all = (0..n).fold(0, |all, _| all ^ normal.sample(&mut stream));
        black_box(all);
    };
    println!("normal_ns {:.2}", each(Box::new(work)));
    let mut stream = NoiseSource::secure()?.stream(Purpose::Batch, 0);
    let skips = PoissonSkips::new(0.005)?;
    let mut batch = Vec::new();
    let work = move || skips.subset(200 * n as u64, &mut stream, black_box(&mut batch));
    println!("chosen_row_ns {:.1}", each(Box::new(work)));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // cargo adds a flag of its own
    let only = std::env::args().nth(1).filter(|name| !name.starts_with("--"));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("draws") {
        draws()?;
    }
    for (name, zipf) in [("uniform", false), ("zipf", true)] {
        if wanted(name) {
            measure(name, &Table::new(zipf))?;
        }
    }
    Ok(())
}
