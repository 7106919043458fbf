//! A whole run of DP-SGD with lazily aggregated noise as one release (docs/proofs/lazy-noise.md).
//!
//! Steps can't be released one by one: which coordinates a step touches is secret. The run as a whole has the law of dense
//! DP-SGD, so it is charged as all of its steps at once, and only the answer leaves.

use dpopt_draws::{LazyIterate, LazyOptions, RowSeats};
use dpopt_kernel::beside::{Scratch, Sealed, Weights};
use dpopt_kernel::progress::Progress;
use dpopt_kernel::{Clipped, CuratorError, Mechanism, SamplerError};
use dpopt_noise::{NoiseSource, PoissonSkips, Purpose, Stream};
use dpopt_objective::objective::{Objective, Point};
use dpopt_objective::records::{RecordSet, Row};
use dpopt_privacy::Event;
use dpopt_process::stop;
use std::marker::PhantomData;

/// The rows of so many records are asked for at once.
const GROUP: usize = 16;
/// So many records before a record is used, its weights are asked for: they come while others are worked on, and fit the first-level cache.
const AHEAD: usize = 4;

/// T steps of noisy descent on Poisson batches, from weights 0.
pub struct SparseDescent<'a, R, O> {
    /// Clipped gradients on the grid of `lazy`, of an objective whose records move only what they read.
    pub gradient: Clipped<O>,
    /// Steps and noise; d = weights.
    pub lazy: LazyOptions,
    /// Probability q with which each record is in a batch.
    pub sampling_probability: f64,
    /// z: noise over clip norm. Event: T Poisson-sampled Gaussians of it.
    pub noise_multiplier: f64,
    /// Clip norm that the noise was calibrated for.
    pub clip_norm: f64,
    /// Ticks once per step.
    pub progress: &'a dyn Progress,
    /// The type of the records.
    pub records: PhantomData<fn(&R)>,
}

impl<R, O> SparseDescent<'_, R, O> {
    /// Number T of steps.
    fn steps(&self) -> u64 {
        self.lazy.runs.iter().map(|run| u64::from(run.steps)).sum()
    }
}

impl<R: RecordSet, O: Objective<R>> Sealed for SparseDescent<'_, R, O> {}

impl<R: RecordSet, O: Objective<R>> Mechanism for SparseDescent<'_, R, O> {
    type Input = R;
    /// The weights after the last step.
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier).poisson_sampled(self.sampling_probability).self_composed(self.steps())
    }

    fn sampler_error(&self, input: &R) -> f64 {
        let subsets = SamplerError::subset(input.len() as u64) * self.steps() as f64;
        let bound = self.lazy.total_variation().unwrap_or(f64::INFINITY);
        (subsets + SamplerError::proved(bound)).total_variation()
    }

    fn label(&self) -> &'static str {
        "weights after all steps, noise drawn lazily"
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        if self.gradient.clip_norm() > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: self.gradient.clip_norm(), mechanism: self.clip_norm });
        }
        if !(self.lazy.noise_std >= self.noise_multiplier * self.clip_norm) {
            return Err(CuratorError::LessNoise { label: self.label() });
        }
        let objective = self.gradient.objective();
        let even = objective.lines() > 0 && objective.dimension().is_multiple_of(objective.lines());
        let same = objective.dimension() == self.lazy.dimension && self.gradient.grid() == self.lazy.grid;
        // the distance of the noise from its law counts reads: once per weight and step at most
        let reads = (objective.dimension() as u64).saturating_mul(self.steps());
        if !O::LOCAL || !even || !same || self.lazy.max_reads < reads || !objective.describes(input) {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let broken = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let skips = PoissonSkips::new(self.sampling_probability).map_err(|e| broken(&e))?;
        let mut descent = LazyIterate::new(&self.lazy).map_err(|e| broken(&e))?;
        let (steps, objective) = (self.steps(), self.gradient.objective());
        let width = self.lazy.dimension / objective.lines().max(1);
        let mut seats = vec![RowSeats::default(); objective.lines()];
        let (mut batch, mut places) = (Vec::new(), Vec::new());
        let (mut scratch, mut look_ahead) = (Scratch::default(), O::Scratch::default());
        for step in 0..steps {
            stop::point();
            skips.subset(input.len() as u64, &mut noise.stream(Purpose::Batch, step), &mut batch);
            let mut stream = noise.stream(Purpose::Touch, step);
            let mut weights =
                Lazy { descent: &mut descent, stream: &mut stream, seats: &mut seats, width, scored: 0, row: None };
            for at in 0..batch.len() + AHEAD {
                if R::IN_MEMORY
                    && let Some(&later) = batch.get(at)
                {
                    if at % GROUP == 0 {
                        input.fetch(&batch[at..batch.len().min(at + GROUP)]);
                    }
                    places.clear();
                    objective
                        .ahead(input, later as usize, &mut look_ahead, &mut places)
                        .map_err(CuratorError::unreadable)?;
                    let Lazy { descent, seats, width, .. } = &mut weights;
                    descent.warm(places.iter().map(|&at| place(at, seats.len(), *width)));
                }
                if let Some(now) = at.checked_sub(AHEAD) {
                    self.gradient
                        .add_record(input, batch[now] as usize, &mut weights, &mut scratch)
                        .map_err(CuratorError::unreadable)?;
                }
            }
            if !descent.end_step(&mut stream) {
                return Err(CuratorError::Unforeseen { label: self.label() });
            }
            self.progress.tick();
        }
        let answer = descent.finish(&mut noise.stream(Purpose::Flush, steps));
        // as the objective knows them
        let lines = seats.len();
        Ok(if lines == 1 {
            answer
        } else {
            (0..answer.len()).map(|at| answer[at % width * lines + at / width]).collect()
        })
    }
}

/// Weights whose noise is drawn when they are read. All lines of a column lie together: coordinate (line, column) of an objective
/// is column·lines + line here.
struct Lazy<'a> {
    descent: &'a mut LazyIterate,
    stream: &'a mut Stream,
    /// The seats of the row's columns, for each line.
    seats: &'a mut [RowSeats],
    /// Number of columns of a line.
    width: usize,
    /// Lines of this record's row that were scored, from the first on.
    scored: usize,
    /// Where the columns of this record's row lie in memory.
    row: Option<*const [u32]>,
}

impl Lazy<'_> {
    #[inline]
    fn place(&self, at: usize) -> usize {
        place(at, self.seats.len(), self.width)
    }
}

/// Where coordinate `at` of an objective of so many lines of `width` columns lies.
#[inline]
fn place(at: usize, lines: usize, width: usize) -> usize {
    match lines {
        1 => at,
        _ => at % width * lines + at / width,
    }
}

impl Point for Lazy<'_> {
    #[inline]
    fn read(&mut self, at: usize) -> f64 {
        let place = self.place(at);
        self.descent.read(place, self.stream)
    }

    #[inline]
    fn score(&mut self, line: usize, _: usize, row: Row<'_>) -> f64 {
        let columns: *const [u32] = row.columns();
        if line == 0 {
            self.row = Some(columns);
        }
        self.scored = if line == self.scored && self.row == Some(columns) { line + 1 } else { 0 };
        let (lines, seats) = (self.seats.len(), &mut self.seats[line]);
        self.descent.seat(row.columns().iter().map(|&j| j as usize * lines + line), seats, self.stream);
        self.descent.dot(seats, row.values())
    }
}

impl Weights for Lazy<'_> {
    #[inline]
    fn next_record(&mut self) {
        (self.scored, self.row) = (0, None);
    }

    #[inline]
    fn add(&mut self, at: usize, quanta: i64) {
        let place = self.place(at);
        self.descent.add(place, quanta);
    }

    /// Where the row was scored, in the seats that it has; else entry by entry.
    #[inline]
    fn add_scaled(&mut self, line: usize, width: usize, row: Row<'_>, scale: f64) {
        let columns: *const [u32] = row.columns();
        if line < self.scored && self.row == Some(columns) && width == self.width {
            self.descent.add_scaled(&self.seats[line], row.values(), scale);
            return;
        }
        for (&j, &x) in row.columns().iter().zip(row.values()) {
            let at = line * width + j as usize;
            self.read(at);
            self.add(at, (scale * f64::from(x)) as i64);
        }
    }
}
