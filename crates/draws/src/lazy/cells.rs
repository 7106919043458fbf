//! The states of all coordinates, brought up to date one by one (docs/proofs/lazy-noise.md).

use super::product::Additive;
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
/// The seat of a coordinate that no step has read since it was last brought up to date.
const NOWHERE: u32 = u32::MAX;

/// A coordinate: its state just before step `last`, and the gradient of step `last`, which is not yet applied; nor is any
/// noise from step `last` on.
///
/// Aligned so that a coordinate lies in one cache line (one component: two of them).
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Cell<const P: usize> {
    state: [i128; P],
    gradient: i64,
    last: u32,
    /// Seat in the step `last`, or [`NOWHERE`].
    seat: u32,
}

/// What a step reads and adds, close together: a coordinate is looked up once a step in the large table, which does not fit
/// a cache, and has a seat here from then on.
#[derive(Default)]
struct Seats {
    coordinates: Vec<usize>,
    /// The step up to which the coordinate had been brought.
    since: Vec<u32>,
    /// The iterate, negated, in steps of the public grid of reads.
    values: Vec<f64>,
    /// Gradient sums, in quanta (integers of the grid).
    gradients: Vec<i64>,
    /// How many seats are taken: the vectors are longer.
    taken: usize,
}

impl Seats {
    /// Makes room for so many more seats.
    #[inline]
    fn reserve(&mut self, more: usize) {
        let wanted = self.taken + more;
        if self.coordinates.len() < wanted {
            let length = wanted.next_power_of_two();
            self.coordinates.resize(length, 0);
            self.since.resize(length, 0);
            self.values.resize(length, 0.0);
            self.gradients.resize(length, 0);
        }
    }

    /// The seat of coordinate j, for which there is room. Half of a batch's entries are new and nothing tells which: no branch.
    #[inline]
    fn take<const P: usize>(&mut self, j: usize, cell: &mut Cell<P>, step: u32) -> u32 {
        let new = !cell.is_seated(step);
        self.coordinates[self.taken] = j;
        self.since[self.taken] = cell.last;
        cell.seat = if new { self.taken as u32 } else { cell.seat };
        cell.last = step;
        self.taken += usize::from(new);
        cell.seat
    }
}

impl<const P: usize> Cell<P> {
    #[inline]
    fn is_seated(&self, step: u32) -> bool {
        (self.last == step) & (self.seat != NOWHERE)
    }
}

/// Looks up how to move from one step to another. Long-lived where gaps lie within a run of equal steps, so that only their
/// length counts; renewed at each step otherwise.
struct Gaps<const P: usize> {
    recursion: Recursion<P>,
    /// Gaps by length, for the run that `to` of the last look-up belongs to.
    listed: Vec<Option<Gap<P>>>,
    /// Those of them that only add.
    additive: Vec<Additive>,
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
            additive: Vec::new(),
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
            let (recursion, additive) = (&mut self.recursion, &mut self.additive);
            self.listed[at].get_or_insert_with(|| {
                let gap = made(recursion, from, to);
                if let Some(short) = gap.additive() {
                    additive.resize(additive.len().max(at + 1), Additive::default());
                    additive[at] = short;
                }
                gap
            })
        } else {
            let recursion = &mut self.recursion;
            self.mapped.entry(length).or_insert_with(|| made(recursion, from, to))
        }
    }

    /// The short way from one step to another, if there is one and the gap was asked for before. `to` is that of the last gap.
    #[inline]
    fn short(&self, from: u32, to: u32) -> Option<&Additive> {
        if P > 1 || to != self.to || from < self.run_start {
            return None;
        }
        self.additive.get((to - from) as usize).filter(|short| short.is_some())
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
            self.additive.clear();
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
pub(super) struct Cells<const P: usize> {
    cells: Vec<Cell<P>>,
    gaps: Gaps<P>,
    normal: WideNormal,
    seats: Seats,
    pub(super) step: u32,
    read_shift: u32,
    max_gradient: i64,
    work: Work,
}

impl<const P: usize> Cells<P> {
    pub(super) fn new(dimension: usize, recursion: Recursion<P>, read_shift: u32, max_gradient: i64) -> Self {
        Self {
            cells: filled(Cell { state: [0; P], gradient: 0, last: 0, seat: NOWHERE }, dimension),
            gaps: Gaps::new(recursion),
            normal: WideNormal::new(),
            seats: Seats::default(),
            step: 0,
            read_shift,
            max_gradient,
            work: Work::default(),
        }
    }

    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// Gives each of `coordinates` its seat in this step, into `seats`. Those that had none are brought up to date.
    ///
    /// # Panics
    /// If a coordinate is out of range.
    #[inline]
    pub(super) fn seat(
        &mut self,
        coordinates: impl ExactSizeIterator<Item = usize>,
        seats: &mut Vec<u32>,
        stream: &mut Stream,
    ) {
        let first = self.seats.taken;
        self.seats.reserve(coordinates.len());
        let (cells, taken) = (&mut self.cells, &mut self.seats);
        seats.extend(coordinates.map(|j| taken.take(j, &mut cells[j], self.step)));
        self.bring(first, stream);
    }

    /// Gives coordinate `j` its seat in this step, and brings it up to date if it had none.
    #[inline]
    pub(super) fn seat_one(&mut self, j: usize, stream: &mut Stream) -> u32 {
        let first = self.seats.taken;
        self.seats.reserve(1);
        let seat = self.seats.take(j, &mut self.cells[j], self.step);
        self.bring(first, stream);
        seat
    }

    /// The iterate at a seat, negated, in steps of the public grid of reads.
    #[inline]
    pub(super) fn value(&self, seat: u32) -> f64 {
        self.seats.values[seat as usize]
    }

    /// Adds to the gradient of this step. Saturating, not wrapping: the sum is clamped later, and a sum that wrapped would
    /// land on the other side of the clamp. A running sum that saturates moves by no more than what one record adds.
    #[inline]
    pub(super) fn add(&mut self, seat: u32, units: i64) {
        let gradient = &mut self.seats.gradients[seat as usize];
        *gradient = gradient.saturating_add(units);
    }

    /// The seat of coordinate j in this step.
    ///
    /// # Panics
    /// If it has none.
    #[inline]
    pub(super) fn seat_of(&self, j: usize) -> u32 {
        let cell = &self.cells[j];
        assert!(cell.is_seated(self.step), "a coordinate is read before its gradient is added");
        cell.seat
    }

    /// Brings the coordinates at the seats from `first` on up to date.
    fn bring(&mut self, first: usize, stream: &mut Stream) {
        let Seats { coordinates, since, values, taken, .. } = &mut self.seats;
        for seat in first..*taken {
            let cell = &mut self.cells[coordinates[seat]];
            let from = since[seat];
            if let Some(short) = self.gaps.short(from, self.step) {
                self.work.draws += 1;
                self.work.touched += 1;
                let gradient = std::mem::take(&mut cell.gradient).clamp(-self.max_gradient, self.max_gradient);
                cell.state[0] = short.apply(cell.state[0], gradient, self.normal.sign_and_size(stream));
            } else if from != self.step {
                let gap = self.gaps.get(from, self.step);
                self.work.draws += gap.draws() as u64;
                self.work.touched += 1;
                catch_up(cell, gap, self.max_gradient, &self.normal, stream);
            }
            values[seat] = rounded(cell.state[0], self.read_shift) as f64;
        }
    }

    /// Ends the step: gradients go to the states, and all seats are free.
    pub(super) fn end_step(&mut self) {
        let Seats { coordinates, gradients, taken, .. } = &mut self.seats;
        for (&j, gradient) in coordinates.iter().zip(gradients).take(*taken) {
            self.cells[j].gradient = std::mem::take(gradient);
        }
        *taken = 0;
        self.step += 1;
    }

    /// See [`LazyIterate::warm`](super::LazyIterate::warm).
    #[inline]
    pub(super) fn warm(&self, coordinates: impl Iterator<Item = usize>) {
        for cell in coordinates.filter_map(|j| self.cells.get(j)) {
            prefetch(&cell.last);
            if P > 1 {
                prefetch(&cell.state);
            }
        }
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
        let caught_up = |(index, cells): (usize, &mut [Cell<P>])| {
            let mut stream = parts.stream(index as u64);
            for cell in cells {
                if let Some(gap) = &table[cell.last as usize] {
                    catch_up(cell, gap, max_gradient, normal, &mut stream);
                    (cell.last, cell.seat) = (step, NOWHERE);
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
#[inline]
fn catch_up<const P: usize>(
    cell: &mut Cell<P>,
    gap: &Gap<P>,
    max_gradient: i64,
    normal: &WideNormal,
    stream: &mut Stream,
) {
    let mut next = [0i128; P];
    for (i, slot) in next.iter_mut().enumerate() {
        for (j, x) in cell.state.iter().enumerate() {
            let c = &gap.map[i][j];
            if !c.is_zero() {
                *slot = slot.wrapping_add(c.times(*x));
            }
        }
    }
    if cell.gradient != 0 {
        let gradient = i128::from(cell.gradient.clamp(-max_gradient, max_gradient));
        for (slot, c) in next.iter_mut().zip(&gap.drift) {
            *slot = slot.wrapping_add(c.times(gradient));
        }
        cell.gradient = 0;
    }
    for column in gap.noise() {
        let xi = normal.sample(stream);
        for (slot, c) in next.iter_mut().zip(column) {
            if !c.is_zero() {
                *slot = slot.wrapping_add(c.times(xi));
            }
        }
    }
    cell.state = next;
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

    /// 40 steps over 30 coordinates, touched at different rates, with gradients beyond the clamp on both sides; all states at
    /// the end, and how many gaps had a short way.
    fn states(decay: f64, short: bool) -> (Vec<i128>, usize) {
        let rule = Rule { decay: exact(decay), rate: exact(1.0), momentum: exact(0.0), weight: exact(0.0) };
        let scale = Scale { fraction_bits: 90, noise: (3, 11), normal_bits: dpopt_noise::parts::FRACTION_BITS as i32 };
        let recursion = Recursion::<1>::new(Parts { momentum: false, sum: false }, &[(40, rule)], scale);
        let mut cells = Cells::new(30, recursion, 80, 1 << 20);
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Audit, 0);
        for step in 0..40usize {
            for j in (0..30).filter(|j| step % (1 + j / 4) == 0) {
                if !short {
                    cells.gaps.additive.clear();
                }
                let seat = cells.seat_one(j, &mut stream);
                cells.add(seat, (j as i64 - 15) << (step % 20));
            }
            cells.end_step();
        }
        let ways = cells.gaps.additive.iter().filter(|way| way.is_some()).count();
        (cells.cells.iter().map(|cell| cell.state[0]).collect(), ways)
    }

    #[test]
    fn the_short_way_gives_the_same_bits_and_is_taken_without_decay_only() {
        let (quick, ways) = states(1.0, true);
        assert!(ways >= 5 && quick.iter().all(|x| *x != 0), "{ways}");
        assert_eq!(quick, states(1.0, false).0);
        let (decayed, ways) = states(0.99, true);
        assert_eq!(ways, 0);
        assert_eq!(decayed, states(0.99, false).0);
    }
}
