//! Lazily aggregated noise: noisy descent with sparse gradients at a cost per step that does not depend on d
//! (docs/proofs/lazy-noise.md).
//!
//! Dense reference: at each step noise is added to *every* coordinate of the gradient sum. Nobody reads an untouched
//! coordinate, so its noises of the missed steps may be drawn together when it is next touched, or at the end. Steps are
//! linear in state and noise (decay, learning-rate schedules, momentum, weighted averages), so what is drawn is one normal
//! vector with a known covariance. The joint law of all reads and of the answer is that of the dense algorithm, hence so is
//! its event.
//!
//! Rounding must not tell how often a coordinate was touched. The state is kept in 128-bit fixed point with an accounted
//! error κ, and only values rounded to the public grid γ_r ≤ ν/16 leave it, ν the noise that one step adds to the iterate:
//! they equal the ideal ones but with probability 2.02·κ/γ_r each (docs/proofs/lazy-noise.md).

mod cells;
mod product;
mod recursion;
mod table;

pub use cells::Work;

use cells::{Cells, HalfLine, Line, Place};
use dpopt_noise::parts::{dyadic, floor_log2, power_of_two};
use dpopt_noise::{Grid, Stream};
use recursion::{Parts, Recursion, Rule, Scale, exact};

/// Fraction bits of ν that the state keeps at most; normal variables are known to 112.
const MAX_FRACTION_BITS: i32 = 104;
/// With at most this many long runs, all coordinates are brought up to date where a run ends: later gaps lie within runs.
const FEW_RUNS: usize = 16;
/// Steps of a long run, on average.
const LONG_RUN: u64 = 4;

/// A lazily noised descent that can't be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LazyNoiseError {
    /// A parameter is out of range.
    #[error("{0}")]
    Parameter(&'static str),
    /// The fixed-point state of a coordinate could overflow.
    #[error(
        "the iterate could grow beyond 2^40 times the noise of one step; more noise, fewer steps or a smaller clip norm"
    )]
    Range,
}

/// The public rule of a step: m ← βm + g + z, w ← a·w − η·m, and the running sum S ← S + θ·w.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRule {
    /// η > 0 per unit of the gradient *sum* (learning rate over expected batch size). Scheduled rates may differ by a
    /// factor up to 2^20.
    pub learning_rate: f64,
    /// a in \[1/2, 1\]: 1 − ηλ for weight decay. The f64 is taken exactly.
    pub decay: f64,
    /// β in \[0, 0.9999\]: heavy-ball momentum.
    pub momentum: f64,
    /// θ ≥ 0: weight of the iterate after this step in the average; all 0 if the last iterate is the answer.
    pub average_weight: f64,
}

/// Some consecutive equal steps. A schedule that changes at every step is a list of runs of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// How many, at least 1.
    pub steps: u32,
    /// The rule of each of these steps.
    pub rule: StepRule,
}

/// What is public about a lazily noised descent.
#[derive(Clone, Debug, PartialEq)]
pub struct LazyOptions {
    /// Number d of coordinates.
    pub dimension: usize,
    /// All T ≤ 2^21 steps, in order.
    pub runs: Vec<Phase>,
    /// σ: standard deviation of the noise of the gradient sum, per coordinate and step.
    pub noise_std: f64,
    /// Largest change of one coordinate of the gradient *sum* per step that the state has room for; larger ones are cut
    /// to it (public; e.g. expected batch size times clip norm, with slack).
    pub max_gradient: f64,
    /// The grid of the gradient sums.
    pub grid: Grid,
    /// Public upper bound on the number of coordinates read over all steps (for δ; never the realised number).
    pub max_reads: u64,
}

/// Numbers that follow from the options.
#[derive(Clone, Copy, Debug)]
struct Layout {
    parts: Parts,
    steps: u32,
    /// f: all components are stored in units of 2^-f quanta of the grid.
    fraction_bits: i32,
    /// log2 of the read grid in units, and that of the published average.
    read_shift: u32,
    sum_shift: u32,
    /// Largest learning rate: the iterate is in units of it.
    rate: f64,
    /// Weights are divided by it, a power of two at least their sum.
    weight_scale: f64,
    weight_sum: f64,
    /// κ of reads and of the average, in units.
    read_error: f64,
}

impl LazyOptions {
    /// First steps of the runs at whose start all coordinates are brought up to date: public, so it changes no law.
    fn flushes(&self) -> Vec<u32> {
        let steps: u64 = self.runs.iter().map(|run| u64::from(run.steps)).sum();
        let few = self.runs.len() <= FEW_RUNS && self.runs.len() as u64 * LONG_RUN <= steps;
        let mut start = 0;
        let before_last = self.runs.iter().take(if few { self.runs.len().saturating_sub(1) } else { 0 });
        before_last
            .map(|run| {
                start += run.steps;
                start
            })
            .collect()
    }

    fn layout(&self) -> Result<Layout, LazyNoiseError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let require = |good: bool, message| if good { Ok(()) } else { Err(LazyNoiseError::Parameter(message)) };
        require(positive(self.noise_std), "the noise must be positive and finite")?;
        require(
            self.max_gradient.is_finite() && self.max_gradient >= 0.0,
            "the gradient bound must be finite and not negative",
        )?;
        let steps: u64 = self.runs.iter().map(|run| u64::from(run.steps)).sum();
        require((1..=1 << 21).contains(&steps), "between 1 and 2^21 steps can be run")?;
        require(self.runs.iter().all(|run| run.steps > 0), "a run has at least one step")?;
        let rules = || self.runs.iter().map(|run| &run.rule);
        for rule in rules() {
            require((1e-150..1e150).contains(&rule.learning_rate), "a learning rate is out of range")?;
            require((0.5..=1.0).contains(&rule.decay), "decay factors must lie between 1/2 and 1")?;
            require((0.0..=0.9999).contains(&rule.momentum), "momentum must lie between 0 and 0.9999")?;
            require((0.0..1e100).contains(&rule.average_weight), "weights of an average are not negative")?;
        }
        let largest = |f: fn(&StepRule) -> f64| rules().map(f).fold(0.0, f64::max);
        let rate = largest(|r| r.learning_rate);
        let smallest_rate = rules().map(|r| r.learning_rate).fold(f64::INFINITY, f64::min) / rate;
        require(smallest_rate >= 2f64.powi(-20), "learning rates may differ by a factor of 2^20 at most")?;
        let momentum = largest(|r| r.momentum);
        let weight_sum: f64 = self.runs.iter().map(|run| f64::from(run.steps) * run.rule.average_weight).sum();
        let parts = Parts { momentum: momentum > 0.0, sum: weight_sum > 0.0 };
        let weight_scale = if parts.sum { power_of_two(floor_log2(weight_sum) + 1) } else { 1.0 };
        let last_weight = self.runs.last().map_or(0.0, |run| run.rule.average_weight) / weight_scale;
        if parts.sum {
            require(last_weight >= 2f64.powi(-30), "the last iterate must be part of the average")?;
        }
        let s = self.noise_std / self.grid.step();
        require((1.0..=2f64.powi(40)).contains(&s), "the noise must be between 1 and 2^40 grid steps")?;

        // in units of ν of the largest rate: |u| ≤ growth·(T·max_gradient/σ + 16√T) but with probability 2^-180, as r ≤ 1 and
        // Σβ^i ≤ growth; m is smaller and S a mean of u
        let growth = 1.0 / (1.0 - momentum);
        let t = steps as f64;
        let reach = growth * (t * self.max_gradient / self.noise_std + 16.0 * t.sqrt() + 1.0);
        if !(reach < 2f64.powi(40)) {
            return Err(LazyNoiseError::Range);
        }
        // one bit of room for sums, one for the sign
        let noise_bits = (124 - floor_log2(reach)).min(MAX_FRACTION_BITS);
        let fraction_bits = noise_bits - floor_log2(s);
        // grids: at most 1/16 of the noise that the last step adds to what is read
        let read_shift = noise_bits + floor_log2(smallest_rate) - 5;
        let last_rate = self.runs.last().map_or(rate, |run| run.rule.learning_rate) / rate;
        let sum_shift = noise_bits + floor_log2(last_weight.max(2f64.powi(-30)) * last_rate) - 6;
        require(read_shift >= 8 && sum_shift >= 8, "too many steps for the precision of the state")?;
        // docs/proofs/lazy-noise.md: at most 16 units per component and catch-up, T + 1 + (runs that flush) catch-ups, carried on
        // with a factor of at most 2 + 2·growth; √V·ν·2^-112 per normal variable adds at most T·growth·2^-8 in all
        let flushes = self.flushes().len() as f64;
        let read_error = (16.0 * (t + 1.0 + flushes) + t * growth) * (2.0 + 2.0 * growth);
        Ok(Layout {
            parts,
            steps: steps as u32,
            fraction_bits,
            read_shift: read_shift as u32,
            sum_shift: sum_shift as u32,
            rate,
            weight_scale,
            weight_sum,
            read_error,
        })
    }

    /// Upper bound on the total-variation distance of all reads and the answer from a function of the dense continuous
    /// mechanism: `max_reads`·(2.02·κ/γ_r + 2^-178) and the same of d published values (docs/proofs/lazy-noise.md).
    ///
    /// # Errors
    /// As [`LazyIterate::new`].
    pub fn total_variation(&self) -> Result<f64, LazyNoiseError> {
        let layout = self.layout()?;
        let each = |shift: u32| 2.02 * layout.read_error * 2f64.powi(-(shift as i32)) + 2f64.powi(-178);
        let published = each(if layout.parts.sum { layout.sum_shift } else { layout.read_shift });
        Ok((self.max_reads as f64 * each(layout.read_shift) + self.dimension as f64 * published) * (1.0 + 1e-9))
    }
}

enum State {
    One(Cells<1, HalfLine>),
    Two(Cells<2, Line>),
    Three(Cells<3, Line>),
}

macro_rules! each {
    ($state:expr, $cells:ident => $body:expr) => {
        match $state {
            State::One($cells) => $body,
            State::Two($cells) => $body,
            State::Three($cells) => $body,
        }
    };
}

/// The coordinates of a sparse row during one step of a [`LazyIterate`], with what was read there.
#[derive(Clone, Debug, Default)]
pub struct RowSeats {
    step: u32,
    places: Vec<usize>,
    /// The iterate, negated, in steps of the public grid of reads.
    values: Vec<f64>,
}

/// The state of a descent from w = 0 with sparse gradients. Neither printable nor cloneable: before
/// [`finish`](Self::finish) it is secret (it tells which coordinates the data touched).
///
/// ```
/// use dpopt_draws::{LazyIterate, LazyOptions, Phase, StepRule};
/// use dpopt_noise::{Grid, NoiseSource, Purpose};
/// let rule = StepRule { learning_rate: 0.1, decay: 1.0, momentum: 0.0, average_weight: 0.0 };
/// let options = LazyOptions {
///     dimension: 1000,
///     runs: vec![Phase { steps: 10, rule }],
///     noise_std: 1.0,
///     max_gradient: 100.0,
///     grid: Grid::new(-20),
///     max_reads: 10_000,
/// };
/// let mut source = NoiseSource::secure()?;
/// let mut descent = LazyIterate::new(&options)?;
/// for step in 0..10 {
///     let mut stream = source.stream(Purpose::Touch, step);
///     let w = descent.read(7, &mut stream); // one of few coordinates
///     descent.add(7, if w > 0.5 { 1 << 20 } else { 0 }); // its gradient, in quanta of the grid
///     assert!(descent.end_step(&mut stream));
/// }
/// let weights = descent.finish(&mut source.stream(Purpose::Flush, 0));
/// // every coordinate has its noise; on the grid of the weights one in 250 is zero all the same
/// assert!(weights.iter().filter(|w| **w != 0.0).count() > 900);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LazyIterate {
    state: State,
    layout: Layout,
    /// First steps of the runs at whose start all coordinates are brought up to date.
    flushes: Vec<u32>,
    /// Iterate per step of the read grid, negative.
    per_read: f64,
    per_sum: f64,
}

impl LazyIterate {
    /// Starts at w = 0.
    ///
    /// # Errors
    /// If a parameter is out of range, or the state could overflow 128 bits under the public bounds.
    pub fn new(options: &LazyOptions) -> Result<Self, LazyNoiseError> {
        let layout = options.layout()?;
        let (mantissa, exponent) = dyadic(options.noise_std);
        let max_gradient = (options.max_gradient / options.grid.step()).min(2f64.powi(62)) as i64;
        let scale = Scale {
            fraction_bits: layout.fraction_bits,
            noise: (mantissa, exponent - options.grid.exponent()),
            normal_bits: dpopt_noise::parts::FRACTION_BITS as i32,
            max_gradient,
        };
        let runs: Vec<(u32, Rule)> = options
            .runs
            .iter()
            .map(|run| {
                let rule = &run.rule;
                let rule = Rule {
                    decay: exact(rule.decay),
                    rate: exact(rule.learning_rate / layout.rate),
                    momentum: exact(rule.momentum),
                    weight: exact(rule.average_weight / layout.weight_scale),
                };
                (run.steps, rule)
            })
            .collect();
        let (d, parts, shift) = (options.dimension, layout.parts, layout.read_shift);
        let state = match (parts.momentum, parts.sum) {
            (false, false) => State::One(cells(d, parts, &runs, scale, shift)?),
            (true, true) => State::Three(cells(d, parts, &runs, scale, shift)?),
            _ => State::Two(cells(d, parts, &runs, scale, shift)?),
        };
        let unit = options.grid.step() * layout.rate;
        let per = |shift: u32| unit * 2f64.powi(shift as i32 - layout.fraction_bits);
        let per_sum = -per(layout.sum_shift) * (layout.weight_scale / layout.weight_sum);
        Ok(Self { state, flushes: options.flushes(), per_read: -per(layout.read_shift), per_sum, layout })
    }

    /// Number of steps done so far.
    pub fn step(&self) -> u32 {
        each!(&self.state, cells => cells.step)
    }

    /// How much was done so far: secret, for benchmarks and tests.
    pub fn work(&self) -> Work {
        each!(&self.state, cells => cells.work())
    }

    /// Coordinate j of the iterate before this step, rounded to the public grid γ_r: the only value gradients may use. A
    /// second read in a step gives the same value.
    ///
    /// # Panics
    /// If j is out of range.
    #[inline]
    pub fn read(&mut self, j: usize, stream: &mut Stream) -> f64 {
        each!(&mut self.state, cells => cells.read(j, stream)) * self.per_read
    }

    /// Asks for the memory of coordinates that will be read soon and does not wait for it. Changes nothing but speed.
    #[inline]
    pub fn warm(&mut self, coordinates: impl Iterator<Item = usize>) {
        each!(&mut self.state, cells => cells.warm(coordinates));
    }

    /// [Reads](Self::read) the coordinates of a sparse row: they have their seats in `row` until the step ends.
    ///
    /// # Panics
    /// If a coordinate is out of range.
    #[inline]
    pub fn seat(&mut self, coordinates: impl ExactSizeIterator<Item = usize>, row: &mut RowSeats, stream: &mut Stream) {
        row.step = self.step();
        row.places.clear();
        row.places.extend(coordinates);
        each!(&mut self.state, cells => cells.seat(&row.places, &mut row.values, stream));
    }

    /// Σ v_j·(coordinate j before this step) over a seated row.
    ///
    /// # Panics
    /// If the row was seated in another step.
    #[inline]
    pub fn dot(&self, row: &RowSeats, values: &[f32]) -> f64 {
        assert_eq!(row.step, self.step(), "a row is seated again in each step");
        let sum: f64 = row.values.iter().zip(values).map(|(w, &v)| f64::from(v) * w).sum();
        sum * self.per_read
    }

    /// Adds trunc(`scale`·v_j) to each coordinate of a seated row, as [`add`](Self::add) does.
    ///
    /// # Panics
    /// If the row was seated in another step.
    #[inline]
    pub fn add_scaled(&mut self, row: &RowSeats, values: &[f32], scale: f64) {
        assert_eq!(row.step, self.step(), "a row is seated again in each step");
        each!(&mut self.state, cells => {
            for (&j, &v) in row.places.iter().zip(values) {
                cells.add(j, (scale * f64::from(v)) as i64);
            }
        });
    }

    /// Adds to coordinate j of this step's gradient sum, in quanta (integers of the grid). The sum saturates and is then clamped to
    /// [`max_gradient`](LazyOptions::max_gradient): both move no further than what is added, so one record's share is
    /// bounded by its own, however many records there are.
    ///
    /// # Panics
    /// If the coordinate was not [read](Self::read) in this step.
    #[inline]
    pub fn add(&mut self, j: usize, units: i64) {
        each!(&mut self.state, cells => {
            assert!(cells.is_read(j), "a coordinate is read before its gradient is added");
            cells.add(j, units);
        });
    }

    /// Ends the step. False, and nothing done, if all planned steps are used up.
    #[must_use = "a step beyond the plan is refused"]
    pub fn end_step(&mut self, stream: &mut Stream) -> bool {
        let steps = self.layout.steps;
        each!(&mut self.state, cells => {
            if cells.step == steps {
                return false;
            }
            cells.end_step();
            if self.flushes.contains(&cells.step) {
                cells.flush(stream);
            }
        });
        true
    }

    /// Ends the run: draws all that is missing and gives the average of the iterates if any step has a weight, else the last
    /// iterate, on a public grid.
    pub fn finish(self, stream: &mut Stream) -> Vec<f64> {
        let (part, shift, per) = match self.layout.parts {
            Parts { sum: true, momentum } => (1 + usize::from(momentum), self.layout.sum_shift, self.per_sum),
            _ => (0, self.layout.read_shift, self.per_read),
        };
        each!(self.state, cells => {
            let mut cells = cells;
            cells.flush(stream);
            cells.published(part, shift).map(|steps| steps as f64 * per).collect()
        })
    }
}

fn cells<const P: usize, L: Place>(
    dimension: usize,
    parts: Parts,
    runs: &[(u32, Rule)],
    scale: Scale,
    read_shift: u32,
) -> Result<Cells<P, L>, LazyNoiseError> {
    let mut recursion = Recursion::<P>::new(parts, runs, scale);
    // the whole run is the gap with the largest coefficients
    let steps = runs.iter().map(|run| run.0).sum();
    recursion.gap(0, steps).map_err(|_| LazyNoiseError::Range)?;
    Ok(Cells::new(dimension, recursion, read_shift, scale.max_gradient))
}

#[cfg(test)]
mod tests;
