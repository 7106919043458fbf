//! Lazily aggregated noise: noisy descent with sparse gradients at a cost per step that does not depend on d (spec 19 §3).
//!
//! Dense reference, per coordinate: w ← a·w − h·(q + σ·z/γ), z ~ N(0,1) at every step, q the integer gradient sum, zero for
//! untouched coordinates. Nobody reads an untouched coordinate, so its noises of m missed steps may be drawn together when
//! it is next touched, or at the end: one normal variable of variance Σ a^(2i). The joint law of all reads and of the
//! final vector is that of the dense algorithm, hence so is its event (T times the dense Gaussian).
//!
//! Rounding must not tell how often a coordinate was touched. The state is kept in 128-bit fixed point with an accounted
//! error κ, and only values rounded to the public grid γ_r ≤ ν/16 leave it, ν the noise of one step: they equal the ideal
//! ones but with probability 2.02·κ/γ_r each (docs/proofs/lazy-noise.md).
use crate::correlated::normal;
use crate::fixed::Fixed;
use crate::grid::{Grid, dyadic, floor_log2, power_of_two};
use crate::stream::Stream;
use rayon::prelude::*;
use std::collections::HashMap;

/// Precision of the factors √V: 320 fraction bits while they are formed, 192 when they are used.
const L: usize = 6;
/// Most fraction bits of ν that the state keeps; the normal variables are known to 112.
const MAX_FRACTION_BITS: i32 = 110;
/// Coordinates per part of the final flush.
const PART: usize = 1 << 12;

/// A lazily noised iteration that can't be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LazyNoiseError {
    /// A parameter is out of range.
    #[error("{0}")]
    Parameter(&'static str),
    /// The state could overflow.
    #[error("the iterate could grow beyond 2^40 times the noise of one step; more noise, fewer steps or a smaller clip norm")]
    Range,
}

/// What is public about a lazily noised iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LazyOptions {
    /// d.
    pub dimension: usize,
    /// T: steps, at most 2^21.
    pub max_steps: u32,
    /// η/b: the iterate moves by −`step_size`·(gradient sum + noise).
    pub step_size: f64,
    /// σ: standard deviation of the noise of the gradient sum, per coordinate and step.
    pub noise_std: f64,
    /// Largest change of one coordinate of the gradient *sum* per step that the state has room for; larger ones are cut
    /// to it (public; e.g. expected batch size times clip norm, with slack).
    pub max_gradient: f64,
    /// The grid of the gradient sums.
    pub grid: Grid,
    /// a in (0, 1]: the iterate is multiplied by it at each step (weight decay 1 − ηλ). The f64 is taken exactly.
    pub decay: f64,
    /// Whether the running sum of the iterates is kept, for uniform averaging; only with `decay` = 1.
    pub average: bool,
    /// Public upper bound on the number of coordinates read over all steps (for δ; never the realised number).
    pub max_reads: u64,
}

/// Per coordinate: the iterate, and the step up to which its noise is drawn.
#[derive(Clone, Copy)]
struct Cell {
    w: i128,
    last: u32,
}

/// Mean map and noise factors of a block of m missed steps.
#[derive(Clone, Copy)]
struct Gap {
    /// a^m.
    decay: Fixed<4>,
    /// √V, V = Σ_{i<m} a^(2i).
    root: Fixed<4>,
    /// √(m(m²−1)/12): noise of the running sum that the iterate's does not explain (average only).
    rest: Fixed<4>,
}

/// The state of T steps w ← a·w − h·(q + noise) from w = 0 with sparse q. Neither printable nor cloneable: before
/// [`finish`](Self::finish) it is secret (`last` tells which coordinates the data touched).
pub struct LazyIterate {
    options: LazyOptions,
    cells: Vec<Cell>,
    /// Running sums in units of 2^sum_shift state units; empty without averaging.
    sums: Vec<i128>,
    step: u32,
    /// log2 of the state's unit.
    unit: i32,
    fraction_bits: i32,
    sum_shift: u32,
    /// Change per integer gradient unit, in state units: h·γ, exactly.
    per_gradient_unit: i128,
    max_gradient_units: i64,
    /// ν in state units, mantissas·2^exponent, exactly.
    noise: ([u64; 2], i32),
    decay: Fixed<L>,
    gaps: HashMap<u32, Gap>,
}

impl LazyIterate {
    /// Starts at w = 0.
    ///
    /// # Errors
    /// If a parameter is out of range, or the state could overflow 128 bits under the public bounds.
    pub fn new(options: LazyOptions) -> Result<Self, LazyNoiseError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let require = |good: bool, message| if good { Ok(()) } else { Err(LazyNoiseError::Parameter(message)) };
        let o = &options;
        require(positive(o.step_size) && positive(o.noise_std), "step size and noise must be positive and finite")?;
        require(o.max_gradient.is_finite() && o.max_gradient >= 0.0, "the gradient bound must be finite and not negative")?;
        require(o.decay > 0.0 && o.decay <= 1.0, "the decay factor must lie in (0, 1]")?;
        require((1..=1 << 21).contains(&o.max_steps), "between 1 and 2^21 steps can be run")?;
        require(!o.average || o.decay == 1.0, "averaging is available without decay only")?;
        let s = o.noise_std / o.grid.step();
        require((1.0..=2f64.powi(40)).contains(&s), "the noise must be between 1 and 2^40 grid steps")?;
        let nu = o.step_size * o.noise_std;
        require((1e-200..1e200).contains(&nu), "step size times noise is out of range")?;

        // |w| ≤ T·h·max_gradient + 16·√T·ν but with probability 2^-180
        let steps = f64::from(o.max_steps);
        let largest = steps * o.max_gradient / o.noise_std + 16.0 * steps.sqrt() + 1.0;
        if !(largest < 2f64.powi(40)) {
            return Err(LazyNoiseError::Range);
        }
        let fraction_bits = (123 - floor_log2(largest)).min(MAX_FRACTION_BITS);
        let unit = floor_log2(nu) - fraction_bits;
        // h·γ = mantissa·2^exponent is a whole number of units: its last bit is above 2^-53·ν/s ≥ 2^-93·ν … or it is cut to
        // whole units, which changes the step size, not the noise multiplier
        let (mantissa, exponent) = dyadic(o.step_size);
        let shift = exponent + o.grid.exponent() - unit;
        let (mantissa, shift) = if shift >= 0 { (mantissa, shift) } else { (mantissa >> (-shift).min(63), 0) };
        require(mantissa > 0, "the step size is too small for the grid")?;
        let (sigma_mantissa, sigma_exponent) = dyadic(o.noise_std);
        Ok(Self {
            options,
            cells: vec![Cell { w: 0, last: 0 }; o.dimension],
            sums: if o.average { vec![0; o.dimension] } else { Vec::new() },
            step: 0,
            unit,
            fraction_bits,
            sum_shift: 32 - o.max_steps.leading_zeros(),
            per_gradient_unit: i128::from(mantissa) << shift,
            max_gradient_units: (o.max_gradient / o.grid.step()).min(2f64.powi(62)) as i64,
            noise: ([mantissa, sigma_mantissa], shift + sigma_exponent - o.grid.exponent()),
            decay: exact(o.decay),
            gaps: HashMap::new(),
        })
    }

    /// Steps done.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// log2 of the grid γ_r of reads: between ν/64 and ν/16.
    fn read_shift(&self) -> u32 {
        (self.fraction_bits - 5) as u32
    }

    /// Upper bound on the total-variation distance of all reads and the published vectors from a function of the dense
    /// continuous mechanism: N·(2.02·κ/γ_r + 4·2^-180), N = `max_reads` + d, κ = 6·(T+1) units of the state; with averaging
    /// d more values with κ = 30·(T+1)² units (docs/proofs/lazy-noise.md).
    pub fn total_variation(&self) -> f64 {
        let touches = f64::from(self.options.max_steps) + 1.0;
        let d = self.options.dimension as f64;
        let kappa_over_grid = 6.0 * touches * 2f64.powi(-(self.read_shift() as i32));
        let reads = (self.options.max_reads as f64 + d) * (2.02 * kappa_over_grid + 2f64.powi(-178));
        let sums = if self.options.average { d * (2.02 * kappa_over_grid * 5.0 * touches + 2f64.powi(-178)) } else { 0.0 };
        (reads + sums) * (1.0 + 1e-9)
    }

    /// Brings coordinates up to date and reads them, rounded to the public grid γ_r: the only values gradients may use.
    /// `indices` increase; every coordinate that a gradient reads or writes in this step must be among those touched.
    ///
    /// # Panics
    /// If the indices do not increase or are out of range.
    pub fn touch(&mut self, indices: &[u32], stream: &mut Stream, reads: &mut Vec<f64>) {
        assert!(indices.windows(2).all(|pair| pair[0] < pair[1]), "indices increase");
        reads.clear();
        for &index in indices {
            let j = index as usize;
            let missed = self.step - self.cells[j].last;
            if missed > 0 {
                let gap = self.gap(missed);
                let sum = self.sums.get_mut(j);
                catch_up(&mut self.cells[j], sum, missed, &gap, self.noise, self.sum_shift, stream);
                self.cells[j].last = self.step;
            }
            reads.push(self.rounded(self.cells[j].w));
        }
    }

    /// One step with the integer gradient sums of the touched coordinates; untouched ones have gradient 0. The sums must be
    /// exact: unlike in a dense release they may not wrap, so n·C/γ must be below 2^63 for the public n.
    ///
    /// False, and nothing done, if all planned steps are used up.
    ///
    /// # Panics
    /// If a coordinate was not [touched](Self::touch) in this step.
    #[must_use = "a step beyond the plan is refused"]
    pub fn descend(&mut self, indices: &[u32], gradient: &[i64], stream: &mut Stream) -> bool {
        assert_eq!(indices.len(), gradient.len(), "one gradient per coordinate");
        if self.step == self.options.max_steps {
            return false;
        }
        let gap = self.gap(1);
        for (&index, &q) in indices.iter().zip(gradient) {
            let j = index as usize;
            assert_eq!(self.cells[j].last, self.step, "touch before descending");
            let sum = self.sums.get_mut(j);
            let cell = &mut self.cells[j];
            // the drift first, then decay and noise of this step; with averaging a = 1, so the order does not matter to w,
            // and the sum takes the iterate after the step
            let q = q.clamp(-self.max_gradient_units, self.max_gradient_units);
            let drift = self.per_gradient_unit.wrapping_mul(i128::from(q));
            let mut undrifted = *cell;
            catch_up(&mut undrifted, None, 1, &gap, self.noise, self.sum_shift, stream);
            cell.w = undrifted.w.wrapping_sub(drift);
            if let Some(sum) = sum {
                *sum = sum.wrapping_add(cell.w >> self.sum_shift);
            }
            cell.last = self.step + 1;
        }
        self.step += 1;
        true
    }

    /// Ends the run: draws what is missing of every coordinate and gives the iterate, and the average of the iterates after
    /// each step if asked for, on public grids.
    pub fn finish(mut self, stream: &mut Stream) -> (Vec<f64>, Option<Vec<f64>>) {
        let gaps: Vec<u32> = {
            let mut all: Vec<u32> = self.cells.iter().map(|cell| self.step - cell.last).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let table: HashMap<u32, Gap> = gaps.into_iter().filter(|&m| m > 0).map(|m| (m, self.gap(m))).collect();
        let parts = stream.parts();
        let (step, noise, sum_shift) = (self.step, self.noise, self.sum_shift);
        let mut cells = std::mem::take(&mut self.cells);
        let mut sums = std::mem::take(&mut self.sums);
        let averaged = !sums.is_empty();
        sums.resize(cells.len(), 0);
        cells.par_chunks_mut(PART).zip(sums.par_chunks_mut(PART)).enumerate().for_each(|(index, (cells, sums))| {
            let mut stream = parts.stream(index as u64);
            for (cell, sum) in cells.iter_mut().zip(sums) {
                let missed = step - cell.last;
                if let Some(gap) = table.get(&missed) {
                    catch_up(cell, averaged.then_some(sum), missed, gap, noise, sum_shift, &mut stream);
                }
            }
        });
        let iterate = cells.iter().map(|cell| self.rounded(cell.w)).collect();
        // the sum's last noise is ν: its grid is γ_r too, in units of 2^sum_shift
        let shift = self.read_shift() - sum_shift;
        let scale = power_of_two(self.unit + self.read_shift() as i32) / f64::from(step.max(1));
        let average = averaged
            .then(|| sums.iter().map(|&s| ((s + (1 << (shift - 1))) >> shift) as f64 * scale).collect());
        (iterate, average)
    }

    /// round(w/γ_r)·γ_r.
    fn rounded(&self, w: i128) -> f64 {
        let shift = self.read_shift();
        ((w + (1 << (shift - 1))) >> shift) as f64 * power_of_two(self.unit + shift as i32)
    }

    fn gap(&mut self, missed: u32) -> Gap {
        if let Some(gap) = self.gaps.get(&missed) {
            return *gap;
        }
        let gap = Gap::new(&self.decay, missed, self.options.average);
        // the number of distinct gaps is at most T; keep the table small anyway
        if self.gaps.len() < 1 << 16 {
            self.gaps.insert(missed, gap);
        }
        gap
    }
}

impl Gap {
    /// a^m and V by repeated squaring of (A, V): (A₂, V₂)∘(A₁, V₁) = (A₂A₁, A₂²V₁ + V₂); all numbers positive, so each of the
    /// at most 42 products adds a unit of 2^-320 relatively: errors below 2^-290.
    fn new(a: &Fixed<L>, m: u32, average: bool) -> Self {
        let one = Fixed::<L>::integer(1);
        let (mut decay, mut variance) = (one, Fixed::<L>::ZERO);
        if *a == one {
            variance = Fixed::integer(u64::from(m));
        } else {
            for bit in (0..32 - m.leading_zeros()).rev() {
                variance = decay.times_down(&decay).times_down(&variance).plus(&variance);
                decay = decay.times_down(&decay);
                if m >> bit & 1 == 1 {
                    variance = a.times_down(a).times_down(&variance).plus(&one);
                    decay = decay.times_down(a);
                }
            }
        }
        let m = u64::from(m);
        let rest = if average { Fixed::<L>::integer(m * (m * m - 1)).over_integer(12) } else { Fixed::ZERO };
        Self { decay: decay.resized(), root: square_root(&variance), rest: square_root(&rest) }
    }
}

/// √x to within 2^-180, for x = 0 or 1/2 ≤ x < 2^63: three Newton steps for 1/√x from the f64 value, then checked by squaring.
fn square_root(x: &Fixed<L>) -> Fixed<4> {
    if *x == Fixed::ZERO {
        return Fixed::ZERO;
    }
    let mut inverse = exact(1.0 / x.to_f64().sqrt());
    for _ in 0..3 {
        let three_minus = Fixed::integer(3).minus(&x.times_down(&inverse).times_down(&inverse));
        inverse = inverse.times_down(&three_minus).half();
    }
    let root = x.times_down(&inverse);
    let slack = Fixed::negative_power_of_two(181);
    let (below, above) = (root.minus(&slack), root.plus(&slack));
    if below.times_up(&below) <= *x && *x <= above.times_down(&above) { root.resized() } else { root_by_bits(x) }
}

/// The same, bit by bit.
fn root_by_bits(x: &Fixed<L>) -> Fixed<4> {
    let mut root = Fixed::<L>::ZERO;
    for bit in (0..192 + 32).rev() {
        let mut trial = root;
        let position = bit + 128; // 320 fraction bits, of which the root uses the upper 192
        trial.0[position / 64] |= 1 << (position % 64);
        if trial.times_down(&trial) <= *x {
            root = trial;
        }
    }
    root.resized()
}

/// An f64 in (0, 1], exactly if its last bit is at least 2^-320.
fn exact(x: f64) -> Fixed<L> {
    let (mantissa, exponent) = dyadic(x);
    if exponent >= 0 {
        Fixed::integer(mantissa << exponent)
    } else {
        Fixed::negative_power_of_two(-exponent as usize).times_integer(mantissa)
    }
}

/// A normal variable of standard deviation `factor`·ν, in state units.
fn scaled_normal(factor: &Fixed<4>, noise: ([u64; 2], i32), stream: &mut Stream) -> i128 {
    let xi = normal(stream);
    // 112 fraction bits become 192
    let size = xi.unsigned_abs();
    let xi_size = Fixed::<4>([0, (size as u64) << 16, (size >> 48) as u64, (size >> 112) as u64]);
    let units = factor.times_down(&xi_size).scaled_twice_and_rounded(noise.0, noise.1) as i128;
    if xi < 0 { -units } else { units }
}

/// m missed steps at once: w ← a^m·w + √V·ν·ξ, and the running sum with them.
fn catch_up(
    cell: &mut Cell,
    sum: Option<&mut i128>,
    m: u32,
    gap: &Gap,
    noise: ([u64; 2], i32),
    sum_shift: u32,
    stream: &mut Stream,
) {
    let change = scaled_normal(&gap.root, noise, stream);
    if let Some(sum) = sum {
        // a = 1: S ← S + m·w + (m+1)/2·ΔW + ν·√(m(m²−1)/12)·ξ₂, in units of 2^sum_shift
        let m = i128::from(m);
        let own = scaled_normal(&gap.rest.shifted_right(sum_shift), noise, stream);
        let mean = (cell.w >> sum_shift) * m + (((cell.w & ((1 << sum_shift) - 1)) * m) >> sum_shift);
        let shared = ((change >> sum_shift) * (m + 1) + (((change & ((1 << sum_shift) - 1)) * (m + 1)) >> sum_shift)) >> 1;
        *sum = sum.wrapping_add(mean).wrapping_add(shared).wrapping_add(own);
    }
    cell.w = scaled_by(cell.w, &gap.decay).wrapping_add(change);
}

/// a·w rounded toward zero, a in (0, 1].
fn scaled_by(w: i128, a: &Fixed<4>) -> i128 {
    if *a == Fixed::integer(1) {
        return w;
    }
    let size = w.unsigned_abs();
    let product = Fixed::<4>([0, 0, size as u64, (size >> 64) as u64]).times_down(a);
    let units = (u128::from(product.0[3]) << 64 | u128::from(product.0[2])) as i128;
    if w < 0 { -units } else { units }
}

#[cfg(test)]
mod tests;
