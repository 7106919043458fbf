//! The states of all coordinates, brought up to date one by one (docs/proofs/lazy-noise.md).

use super::recursion::{Gap, Recursion};
use super::table::{filled, prefetch};
use dpopt_noise::Stream;
use dpopt_noise::parts::WideNormal;
use dpopt_process::in_threads;
use rayon::prelude::*;
use std::collections::HashMap;

/// Coordinates per part of a flush; a part has its own stream.
const PART: usize = 1 << 12;
/// Gaps up to this length are looked up in a list, longer ones in a map.
const LISTED: u32 = 1 << 12;

/// A coordinate: its state just before step `last`, and the gradient of step `last`, which is not yet applied; nor is any
/// noise from step `last` on.
///
/// A step reads and adds here and nowhere else, so that a coordinate is looked up once in the large table, which does not fit a cache: it lies
/// within one cache line.
#[derive(Clone, Copy)]
struct Cell<const P: usize, L> {
    state: [i128; P],
    gradient: i64,
    last: u32,
    /// One more than the last step that read it; 0 if none did.
    read: u32,
    _place: [L; 0],
}

/// How cells lie in cache lines.
pub(super) trait Place: Copy + Send + Sync {}

/// Two cells in a line: states of one number.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct HalfLine;

/// One cell in a line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line;

impl Place for HalfLine {}
impl Place for Line {}

/// Looks up how to move from one step to another. Long-lived where gaps lie within a run of equal steps, so that only their
/// length counts; renewed at each step otherwise.
struct Gaps<const P: usize> {
    recursion: Recursion<P>,
    /// Gaps by length, for the run that `to` of the last look-up belongs to.
    listed: Vec<Option<Gap<P>>>,
    mapped: HashMap<u32, Gap<P>>,
    /// First step of the run that the lists belong to.
    run_start: u32,
    run: usize,
    /// Step that `crossing` belongs to.
    to: u32,
    /// Gaps that start before this run, by start.
    crossing: HashMap<u32, Gap<P>>,
}

impl<const P: usize> Gaps<P> {
    fn new(recursion: Recursion<P>) -> Self {
        Self {
            recursion,
            listed: Vec::new(),
            mapped: HashMap::new(),
            run_start: 0,
            run: 0,
            to: 0,
            crossing: HashMap::new(),
        }
    }

    /// All coefficients fit (checked from public bounds when the state is made), so `TooLarge` can't occur; a missing
    /// gap would be a bug that must not publish anything.
    #[inline]
    fn get(&mut self, from: u32, to: u32) -> &Gap<P> {
        if to != self.to {
            self.advance(to);
        }
        if from < self.run_start {
            let recursion = &mut self.recursion;
            return self.crossing.entry(from).or_insert_with(|| made(recursion, from, to));
        }
        let length = to - from;
        if length < LISTED {
            let at = length as usize;
            if self.listed.len() <= at {
                self.listed.resize_with(at + 1, || None);
            }
            let recursion = &mut self.recursion;
            self.listed[at].get_or_insert_with(|| made(recursion, from, to))
        } else {
            let recursion = &mut self.recursion;
            self.mapped.entry(length).or_insert_with(|| made(recursion, from, to))
        }
    }

    #[cold]
    fn advance(&mut self, to: u32) {
        self.to = to;
        self.crossing.clear();
        // the run of the last step of the gap
        let (run, start) = self.recursion.run_before(to);
        if run != self.run {
            self.run = run;
            self.run_start = start;
            self.listed.clear();
            self.mapped.clear();
        }
    }
}

fn made<const P: usize>(recursion: &mut Recursion<P>, from: u32, to: u32) -> Gap<P> {
    // public numbers only; `LazyIterate::new` has made the largest coefficients once
    recursion.gap(from, to).expect("coefficients fit by the public bounds")
}

/// How much was done; depends on records, so it is for benchmarks and tests only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Normal variables drawn before the final flush.
    pub draws: u64,
    /// Coordinates brought up to date, summed over steps.
    pub touched: u64,
}

/// All coordinates of a recursion with P components.
pub(super) struct Cells<const P: usize, L> {
    cells: Vec<Cell<P, L>>,
    gaps: Gaps<P>,
    normal: WideNormal,
    /// Coordinates of a row to be brought up to date, and the step up to which each has been; longer than what is in use.
    behind: Vec<(usize, u32)>,
    /// Coordinates that will be read soon and whose memory was not asked for yet.
    soon: Vec<usize>,
    pub(super) step: u32,
    read_shift: u32,
    max_gradient: i64,
    work: Work,
}

impl<const P: usize, L: Place> Cells<P, L> {
    pub(super) fn new(dimension: usize, recursion: Recursion<P>, read_shift: u32, max_gradient: i64) -> Self {
        Self {
            cells: filled(Cell { state: [0; P], gradient: 0, last: 0, read: 0, _place: [] }, dimension),
            gaps: Gaps::new(recursion),
            normal: WideNormal::new(),
            behind: Vec::new(),
            soon: Vec::new(),
            step: 0,
            read_shift,
            max_gradient,
            work: Work::default(),
        }
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Brings the coordinates at `places` up to date where they are not, and reads them into `values`: the iterate, negated, in steps of the public
    /// grid of reads.
    ///
    /// # Panics
    /// If a coordinate is out of range.
    #[inline]
    pub(super) fn seat(&mut self, places: &[usize], values: &mut Vec<f64>, stream: &mut Stream) {
        if self.behind.len() < places.len() {
            self.behind.resize(places.len(), (0, 0));
        }
        // half of a batch's entries may be behind and nothing tells which: no branch
        let (mut count, behind) = (0, &mut self.behind[..places.len()]);
        for &j in places {
            let cell = &mut self.cells[j];
            behind[count] = (j, cell.last);
            count += usize::from(cell.last != self.step);
            (cell.last, cell.read) = (self.step, self.step + 1);
        }
        self.bring(count, stream);
        values.clear();
        values.extend(places.iter().map(|&j| self.value(j)));
    }

    /// [`seat`](Self::seat) for one coordinate.
    #[inline]
    pub(super) fn read(&mut self, j: usize, stream: &mut Stream) -> f64 {
        if self.behind.is_empty() {
            self.behind.push((0, 0));
        }
        let cell = &mut self.cells[j];
        self.behind[0] = (j, cell.last);
        let count = usize::from(cell.last != self.step);
        (cell.last, cell.read) = (self.step, self.step + 1);
        self.bring(count, stream);
        self.value(j)
    }

    #[inline]
    fn value(&self, j: usize) -> f64 {
        rounded(self.cells[j].state[0], self.read_shift) as f64
    }

    /// Whether coordinate j was read in this step.
    #[inline]
    pub(super) fn is_read(&self, j: usize) -> bool {
        self.cells[j].read == self.step + 1
    }

    /// Adds to the gradient of this step of a coordinate that was read in it. Saturating, not wrapping: the sum is clamped later, and a sum that wrapped
    /// would land on the other side of the clamp. A running sum that saturates moves by no more than what one record adds.
    #[inline]
    pub(super) fn add(&mut self, j: usize, units: i64) {
        let gradient = &mut self.cells[j].gradient;
        *gradient = gradient.saturating_add(units);
    }

    /// Brings the first `count` coordinates that are behind up to date. Between them the memory of later ones is asked for: a processor has room for few
    /// requests at a time.
    fn bring(&mut self, count: usize, stream: &mut Stream) {
        if count == 0 {
            return;
        }
        let Self { cells, gaps, normal, behind, soon, .. } = self;
        let (each, mut draws) = (soon.len().div_ceil(count), 0);
        let mut soon = soon.drain(..);
        for &(j, from) in &behind[..count] {
            soon.by_ref().take(each).for_each(|later| prefetch(&cells[later].last));
            let gap = gaps.get(from, self.step);
            draws += gap.draws();
            catch_up(&mut cells[j], gap, self.max_gradient, normal, stream);
        }
        self.work.draws += draws as u64;
        self.work.touched += count as u64;
    }

    /// Ends the step: the gradients that its cells hold are of a step that is over.
    pub(super) fn end_step(&mut self) {
        self.step += 1;
    }

    /// See [`LazyIterate::warm`](super::LazyIterate::warm).
    #[inline]
    pub(super) fn warm(&mut self, coordinates: impl Iterator<Item = usize>) {
        self.soon.drain(..).for_each(|left| prefetch(&self.cells[left].last));
        let length = self.cells.len();
        self.soon.extend(coordinates.filter(|&j| j < length));
    }

    /// Brings all coordinates up to date.
    pub(super) fn flush(&mut self, stream: &mut Stream) {
        let step = self.step;
        let mut seen = vec![false; step as usize + 1];
        self.cells.iter().for_each(|cell| seen[cell.last as usize] = true);
        seen[step as usize] = false;
        let table: Vec<Option<Gap<P>>> = seen
            .into_iter()
            .enumerate()
            .map(|(from, seen)| seen.then(|| self.gaps.get(from as u32, step).clone()))
            .collect();
        let parts = stream.parts();
        let (normal, max_gradient) = (&self.normal, self.max_gradient);
        let caught_up = |(index, cells): (usize, &mut [Cell<P, L>])| {
            let mut stream = parts.stream(index as u64);
            for cell in cells {
                if let Some(gap) = &table[cell.last as usize] {
                    catch_up(cell, gap, max_gradient, normal, &mut stream);
                    cell.last = step;
                }
            }
        };
        in_threads(|| self.cells.par_chunks_mut(PART).enumerate().for_each(caught_up));
    }

    /// Component `part` of all coordinates, in steps of 2^`shift` units.
    pub(super) fn published(self, part: usize, shift: u32) -> impl Iterator<Item = i64> {
        self.cells.into_iter().map(move |cell| rounded(cell.state[part], shift))
    }
}

/// Applies the pending gradient, the missed steps and their noise.
#[inline(always)]
fn catch_up<const P: usize, L>(
    cell: &mut Cell<P, L>,
    gap: &Gap<P>,
    max_gradient: i64,
    normal: &WideNormal,
    stream: &mut Stream,
) {
    let gradient = std::mem::take(&mut cell.gradient).clamp(-max_gradient, max_gradient);
    gap.apply(&mut cell.state, gradient, normal, stream);
}

/// x/2^`shift`, rounded to the nearest integer.
#[inline]
fn rounded(x: i128, shift: u32) -> i64 {
    (x.wrapping_add(1 << (shift - 1)) >> shift) as i64
}

#[cfg(test)]
mod tests {
    use super::super::recursion::{Parts, Rule, Scale, exact};
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn a_cell_lies_within_one_cache_line() {
        assert_eq!(size_of::<Cell<1, HalfLine>>(), 32);
        assert_eq!((size_of::<Cell<2, Line>>(), align_of::<Cell<2, Line>>()), (64, 64));
        assert_eq!((size_of::<Cell<3, Line>>(), align_of::<Cell<3, Line>>()), (64, 64));
    }

    /// 40 steps over 30 coordinates, touched at different rates, with gradients beyond the clamp on both sides; all states at
    /// the end, and how many gaps had the quick way.
    fn states<const P: usize>(parts: Parts, decay: f64, quick: bool) -> (Vec<[i128; P]>, usize) {
        let (momentum, weight) = (if parts.momentum { 0.9 } else { 0.0 }, if parts.sum { 2f64.powi(-6) } else { 0.0 });
        let rule = Rule { decay: exact(decay), rate: exact(1.0), momentum: exact(momentum), weight: exact(weight) };
        let normal_bits = dpopt_noise::parts::FRACTION_BITS as i32;
        let scale = Scale { fraction_bits: 90, noise: (3, 11), normal_bits, max_gradient: 1 << 20 };
        let recursion = Recursion::<P>::new(parts, &[(40, rule)], scale);
        let mut cells = Cells::<P, Line>::new(30, recursion, 80, 1 << 20);
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Audit, 0);
        let mut ways = 0;
        for step in 0..40usize {
            for j in (0..30).filter(|j| step % (1 + j / 4) == 0) {
                if step > 0 && !quick {
                    let from = cells.cells[j].last;
                    cells.gaps.get(from, step as u32);
                    cells.gaps.listed[step - from as usize].as_mut().unwrap().quick = None;
                }
                cells.read(j, &mut stream);
                cells.add(j, (j as i64 - 15) << (step % 20));
            }
            cells.end_step();
        }
        ways += cells.gaps.listed.iter().flatten().filter(|gap| gap.quick.is_some()).count();
        (cells.cells.iter().map(|cell| cell.state).collect(), ways)
    }

    /// Each way is within 16 units of the real state at each catch-up (docs/proofs/lazy-noise.md).
    fn both_ways<const P: usize>(parts: Parts) {
        for decay in [1.0, 0.99] {
            let ((quick, ways), (each, none)) = (states::<P>(parts, decay, true), states::<P>(parts, decay, false));
            assert!(ways >= 5 && none == 0, "{ways} {none}");
            let growth = if parts.momentum { 10 } else { 1 };
            for (a, b) in quick.iter().flatten().zip(each.iter().flatten()) {
                assert!(*a != 0 && a.abs_diff(*b) <= 2 * 16 * 40 * (2 + 2 * growth), "{a} {b}");
            }
        }
    }

    #[test]
    fn the_quick_way_is_the_way_of_each_coefficient() {
        both_ways::<1>(Parts { momentum: false, sum: false });
        both_ways::<2>(Parts { momentum: true, sum: false });
        both_ways::<2>(Parts { momentum: false, sum: true });
        both_ways::<3>(Parts { momentum: true, sum: true });
    }
}
