//! The linear recursion of a noisy descent and the joint law of many of its steps (docs/proofs/lazy-noise.md).
//!
//! State x = (u, m, S): u = −w the negated iterate, m the momentum, S the weighted sum of iterates; m and S only if used. A step
//! with input g + z is x ← M·x + B·(g + z):  m ← βm + g + z,  u ← a·u + r·m,  S ← S + θ·u. All entries are non-negative, so
//! products and sums of rounded numbers keep their relative error. Blocks of steps compose as
//! (Φ₂, Σ₂)∘(Φ₁, Σ₁) = (Φ₂Φ₁, Φ₂Σ₁Φ₂ᵀ + Σ₂).

use super::product::{Coefficient, Quick, TooLarge};
use dpopt_noise::Stream;
use dpopt_noise::parts::{Fixed, WideNormal};
use std::collections::HashMap;

/// Words of the coefficients: 320 fraction bits.
const L: usize = 6;
type High = Fixed<L>;

/// The public coefficients of a step, as exact numbers in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rule {
    /// The decay a of the iterate.
    pub(super) decay: High,
    /// r: learning rate over the largest one.
    pub(super) rate: High,
    /// The momentum β.
    pub(super) momentum: High,
    /// The weight θ of the iterate in the average.
    pub(super) weight: High,
}

/// Which components a state has besides the iterate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) momentum: bool,
    pub(super) sum: bool,
}

/// Φ and Σ of some consecutive steps.
#[derive(Clone, Copy, Debug)]
struct Block<const P: usize> {
    map: [[High; P]; P],
    covariance: [[High; P]; P],
}

/// How the state moves from just before step s to just before step t.
#[derive(Clone, Debug)]
pub(super) struct Gap<const P: usize> {
    /// These coefficients at fixed places, for speed, where they fit.
    pub(super) quick: Option<Quick<P>>,
    /// Φ: what a unit of each component of the state becomes.
    pub(super) map: [[Coefficient; P]; P],
    /// What a unit of the gradient of step s adds.
    pub(super) drift: [Coefficient; P],
    /// The first P columns of a factor of Σ: what each of as many independent normal variables adds.
    first: [[Coefficient; P]; P],
    /// How many of them there are.
    used: usize,
    /// Further ones: only where Σ is too near to singular.
    more: Vec<[Coefficient; P]>,
}

impl<const P: usize> Gap<P> {
    /// Columns of a factor of Σ.
    #[inline]
    pub(super) fn noise(&self) -> impl Iterator<Item = &[Coefficient; P]> {
        self.first[..self.used].iter().chain(&self.more)
    }

    /// Brings a state from just before step s to just before step t, with the gradient of step s.
    #[inline(always)]
    pub(super) fn apply(&self, state: &mut [i128; P], gradient: i64, normal: &WideNormal, stream: &mut Stream) {
        match &self.quick {
            Some(quick) => quick.apply(state, gradient, || normal.sign_and_size(stream)),
            None => *state = self.moved_by_each(state, gradient, || normal.sample(stream)),
        }
    }

    /// [`apply`](Self::apply) with each coefficient in places of its own.
    #[cold]
    pub(super) fn moved_by_each(
        &self,
        state: &[i128; P],
        gradient: i64,
        mut normal: impl FnMut() -> i128,
    ) -> [i128; P] {
        let mut next = [0i128; P];
        for (slot, (row, drift)) in next.iter_mut().zip(self.map.iter().zip(&self.drift)) {
            for (c, x) in row.iter().zip(state) {
                *slot = slot.wrapping_add(c.times(*x));
            }
            *slot = slot.wrapping_add(drift.times(i128::from(gradient)));
        }
        for column in self.noise() {
            let xi = normal();
            for (slot, c) in next.iter_mut().zip(column) {
                *slot = slot.wrapping_add(c.times(xi));
            }
        }
        next
    }

    /// Number of normal variables that a catch-up draws.
    #[inline]
    pub(super) fn draws(&self) -> usize {
        self.used + self.more.len()
    }
}

/// Scales from the recursion's unit (one quantum of the gradient sum) to that of the stored state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// f: the state is stored in units of 2^-f.
    pub(super) fraction_bits: i32,
    /// s = σ/γ = mantissa·2^exponent.
    pub(super) noise: (u64, i32),
    /// Fraction bits of the normal variables.
    pub(super) normal_bits: i32,
    /// No gradient sum is larger, in quanta.
    pub(super) max_gradient: i64,
}

impl<const P: usize> Block<P> {
    fn identity() -> Self {
        let mut map = [[High::ZERO; P]; P];
        (0..P).for_each(|i| map[i][i] = High::integer(1));
        Self { map, covariance: [[High::ZERO; P]; P] }
    }

    fn step(rule: &Rule, parts: Parts) -> (Self, [High; P]) {
        let mut map = [[High::ZERO; P]; P];
        let mut input = [High::ZERO; P];
        map[0][0] = rule.decay;
        input[0] = rule.rate;
        if parts.momentum {
            map[0][1] = rule.rate.times_down(&rule.momentum);
            map[1][1] = rule.momentum;
            input[1] = High::integer(1);
        }
        if parts.sum {
            let last = P - 1;
            for j in 0..last {
                map[last][j] = rule.weight.times_down(&map[0][j]);
            }
            map[last][last] = High::integer(1);
            input[last] = rule.weight.times_down(&rule.rate);
        }
        let mut covariance = [[High::ZERO; P]; P];
        for (i, row) in covariance.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry = input[i].times_down(&input[j]);
            }
        }
        (Self { map, covariance }, input)
    }

    /// The block of the steps of `first`, followed by those of `self`.
    fn after(&self, first: &Self) -> Self {
        let through = product(&self.map, &first.covariance);
        let mut covariance = self.covariance;
        for i in 0..P {
            for j in 0..=i {
                let sum = (0..P).fold(covariance[i][j], |s, k| s.plus(&through[i][k].times_down(&self.map[j][k])));
                covariance[i][j] = sum;
                covariance[j][i] = sum;
            }
        }
        Self { map: product(&self.map, &first.map), covariance }
    }

    /// `self`, `count` times, by repeated squaring.
    fn power(&self, count: u32) -> Self {
        (0..32 - count.leading_zeros()).rev().fold(Self::identity(), |block, bit| {
            let twice = block.after(&block);
            if count >> bit & 1 == 1 { self.after(&twice) } else { twice }
        })
    }

    fn times(&self, v: &[High; P]) -> [High; P] {
        std::array::from_fn(|i| (0..P).fold(High::ZERO, |s, k| s.plus(&self.map[i][k].times_down(&v[k]))))
    }
}

fn product<const P: usize>(a: &[[High; P]; P], b: &[[High; P]; P]) -> [[High; P]; P] {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| {
            (0..P).fold(High::ZERO, |s, k| {
                if a[i][k] == High::ZERO || b[k][j] == High::ZERO { s } else { s.plus(&a[i][k].times_down(&b[k][j])) }
            })
        })
    })
}

/// Runs of equal steps, with the blocks that have been asked for.
pub(super) struct Recursion<const P: usize> {
    parts: Parts,
    /// First step and rule of each run.
    runs: Vec<(u32, Rule)>,
    steps: u32,
    scale: Scale,
    powers: HashMap<(usize, u32), Block<P>>,
    /// Level l, index i: all of runs i·2^l .. (i+1)·2^l.
    aligned: HashMap<(u32, usize), Block<P>>,
}

impl<const P: usize> Recursion<P> {
    pub(super) fn new(parts: Parts, runs: &[(u32, Rule)], scale: Scale) -> Self {
        let mut first = 0;
        let starts = runs
            .iter()
            .map(|&(steps, rule)| {
                let start = first;
                first += steps;
                (start, rule)
            })
            .collect();
        Self { parts, runs: starts, steps: first, scale, powers: HashMap::new(), aligned: HashMap::new() }
    }

    /// The run that step t belongs to.
    fn run_of(&self, step: u32) -> usize {
        self.runs.partition_point(|run| run.0 <= step) - 1
    }

    /// Run and first step of the run of the step before `step` ≥ 1.
    pub(super) fn run_before(&self, step: u32) -> (usize, u32) {
        let run = self.run_of(step.max(1) - 1);
        (run, self.runs[run].0)
    }

    /// The step after the last one of run i.
    fn end(&self, run: usize) -> u32 {
        self.runs.get(run + 1).map_or(self.steps, |next| next.0)
    }

    fn power(&mut self, run: usize, count: u32) -> Block<P> {
        let (parts, rule) = (self.parts, self.runs[run].1);
        *self.powers.entry((run, count)).or_insert_with(|| Block::step(&rule, parts).0.power(count))
    }

    fn aligned(&mut self, level: u32, index: usize) -> Block<P> {
        if let Some(block) = self.aligned.get(&(level, index)) {
            return *block;
        }
        let block = if level == 0 {
            let count = self.end(index) - self.runs[index].0;
            Block::step(&self.runs[index].1, self.parts).0.power(count)
        } else {
            self.aligned(level - 1, 2 * index + 1).after(&self.aligned(level - 1, 2 * index))
        };
        self.aligned.insert((level, index), block);
        block
    }

    /// The block of the steps `from`..`to`.
    fn block(&mut self, from: u32, to: u32) -> Block<P> {
        if from == to {
            return Block::identity();
        }
        let (first, last) = (self.run_of(from), self.run_of(to - 1));
        if first == last {
            return self.power(first, to - from);
        }
        let mut block = self.power(first, self.end(first) - from);
        // whole runs in between, in the largest aligned pieces
        let mut run = first + 1;
        while run < last {
            let level = run.trailing_zeros().min((last - run).ilog2());
            block = self.aligned(level, run >> level).after(&block);
            run += 1 << level;
        }
        let rest = to - self.runs[last].0;
        self.power(last, rest).after(&block)
    }

    /// How the state moves from just before step `from` to just before step `to` > `from`.
    pub(super) fn gap(&mut self, from: u32, to: u32) -> Result<Gap<P>, TooLarge> {
        let later = self.block(from + 1, to);
        let (first, input) = Block::step(&self.runs[self.run_of(from)].1, self.parts);
        let whole = later.after(&first);
        let columns = match to - from > P as u32 {
            true => cholesky(&whole.covariance),
            false => None,
        };
        let scale = self.scale;
        let state = |x: &High| Coefficient::new(x, 1, 0);
        let drift = |x: &High| Coefficient::new(x, 1, scale.fraction_bits);
        let normal = |x: &(High, bool)| {
            let (factor, exponent) = scale.noise;
            let c = Coefficient::new(&x.0, factor, exponent + scale.fraction_bits - scale.normal_bits)?;
            Ok(if x.1 { c.negated() } else { c })
        };
        let columns = match columns {
            Some(columns) => columns,
            // short gaps (and covariances too near to singular): one column per step, exactly
            None => (from..to)
                .map(|step| {
                    let input = Block::<P>::step(&self.runs[self.run_of(step)].1, self.parts).1;
                    self.block(step + 1, to).times(&input).map(|x| (x, false))
                })
                .collect(),
        };
        let mut map = [[Coefficient::default(); P]; P];
        for (i, row) in map.iter_mut().enumerate() {
            *row = column(|j| state(&whole.map[i][j]))?;
        }
        let input = later.times(&input);
        let mut columns = columns.iter().map(|c| column(|i| normal(&c[i])));
        let (mut first, mut used) = ([[Coefficient::default(); P]; P], 0);
        for (slot, column) in first.iter_mut().zip(columns.by_ref()) {
            *slot = column?;
            used += 1;
        }
        let (drift, more) = (column(|i| drift(&input[i]))?, columns.collect::<Result<Vec<_>, TooLarge>>()?);
        let quick = if more.is_empty() { Quick::of(&map, &drift, &first[..used], scale.max_gradient) } else { None };
        Ok(Gap { quick, map, drift, first, used, more })
    }

    /// Φ of `from`..`to` and B of step `from`, for tests.
    #[cfg(test)]
    pub(super) fn map_and_input(&mut self, from: u32, to: u32) -> ([[f64; P]; P], [f64; P]) {
        let input = Block::<P>::step(&self.runs[self.run_of(from)].1, self.parts).1;
        (self.block(from, to).map.map(|row| row.map(|x| x.to_f64())), input.map(|x| x.to_f64()))
    }

    /// The exact covariance of `from`..`to` from rest, for tests.
    #[cfg(test)]
    pub(super) fn covariance(&mut self, from: u32, to: u32) -> [[f64; P]; P] {
        self.block(from, to).covariance.map(|row| row.map(|x| x.to_f64()))
    }
}

/// All results, or the first error.
fn column<const P: usize>(
    mut f: impl FnMut(usize) -> Result<Coefficient, TooLarge>,
) -> Result<[Coefficient; P], TooLarge> {
    let mut out = [Coefficient::default(); P];
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = f(i)?;
    }
    Ok(out)
}

/// A lower-triangular factor, by columns, with signs. `None` if a pivot is below 2^-96 of its diagonal entry, though not 0: then
/// the error of the pivot could show. Entries of Σ are at most 2^-240 off, so a pivot above that is known to 2^-140 relatively.
fn cholesky<const P: usize>(covariance: &[[High; P]; P]) -> Option<Vec<[(High, bool); P]>> {
    let mut columns: Vec<[(High, bool); P]> = Vec::with_capacity(P);
    // what the columns so far do not explain, signed
    let mut rest = covariance.map(|row| row.map(|x| (x, false)));
    for j in 0..P {
        let (pivot, negative) = rest[j][j];
        if covariance[j][j] == High::ZERO {
            continue; // a component without noise, e.g. a sum that has not begun
        }
        let least = covariance[j][j].times_down(&High::negative_power_of_two(96));
        if negative || pivot <= least {
            return None;
        }
        let root = square_root(&pivot);
        let mut own = [(High::ZERO, false); P];
        own[j] = (root, false);
        if j + 1 == P {
            columns.push(own);
            break;
        }
        // roots of the iterate's and the momentum's pivots are above 2^-60: rates differ by 2^20 at most
        let inverse = reciprocal(&root);
        for i in j + 1..P {
            own[i] = (rest[i][j].0.times_down(&inverse), rest[i][j].1);
        }
        for a in j + 1..P {
            for b in j + 1..P {
                let explained = (own[a].0.times_down(&own[b].0), own[a].1 != own[b].1);
                rest[a][b] = difference(rest[a][b], explained);
            }
        }
        columns.push(own);
    }
    Some(columns)
}

/// a − b for signed numbers.
fn difference(a: (High, bool), b: (High, bool)) -> (High, bool) {
    if a.1 != b.1 {
        return (a.0.plus(&b.0), a.1);
    }
    if a.0 >= b.0 { (a.0.minus(&b.0), a.1) } else { (b.0.minus(&a.0), !a.1) }
}

/// √x for x > 0, to 2^-180 relatively: 2^-k·√(4^k·x), so that no leading zero costs precision, by Newton's iteration for
/// 1/√y from f64, checked by squaring.
fn square_root(x: &High) -> High {
    let zeros = x.leading_zeros() / 2;
    let y = x.shifted_left(2 * zeros).shifted_right_far(64); // in [1/4, 1)
    let mut inverse = exact(1.0 / y.to_f64().sqrt());
    for _ in 0..3 {
        let three_minus = High::integer(3).minus(&y.times_down(&inverse).times_down(&inverse));
        inverse = inverse.times_down(&three_minus).half();
    }
    let root = y.times_down(&inverse);
    let slack = High::negative_power_of_two(182);
    let (below, above) = (root.minus(&slack), root.plus(&slack));
    let checked = below.times_up(&below) <= y && y <= above.times_down(&above);
    let root = if checked { root } else { root_by_bits(&y) };
    // √x = √y·2^32/2^zeros
    if zeros <= 32 { root.shifted_left(32 - zeros) } else { root.shifted_right_far(zeros - 32) }
}

/// √y of y in [1/4, 1), 192 bits, one by one.
fn root_by_bits(y: &High) -> High {
    let mut root = High::ZERO;
    for bit in 1..=192 {
        let trial = root.plus(&High::negative_power_of_two(bit));
        if trial.times_down(&trial) <= *y {
            root = trial;
        }
    }
    root
}

/// 1/x for x > 0, below 2^64, by Newton's iteration from f64: z ← z·(2 − x·z), four times: 2^-50 → below the resolution.
fn reciprocal(x: &High) -> High {
    // scaled to [1/2, 1)·2^64 … so that f64 and the fixed point both hold the numbers: y = x·2^zeros / 2^64 in [1/2, 1)
    let zeros = x.leading_zeros();
    let y = x.shifted_left(zeros).shifted_right_far(64);
    let mut z = exact(1.0 / y.to_f64());
    for _ in 0..4 {
        z = z.times_down(&High::integer(2).minus(&y.times_down(&z)));
    }
    // 1/x = 2^(zeros − 64)/y
    if zeros >= 64 { z.shifted_left(zeros - 64) } else { z.shifted_right_far(64 - zeros) }
}

/// An f64 in [0, 2^11), exactly if its last bit is at least 2^-320.
pub(super) fn exact(x: f64) -> High {
    if x == 0.0 {
        return High::ZERO;
    }
    let (mantissa, exponent) = dpopt_noise::parts::dyadic(x);
    if exponent >= 0 {
        High::integer(mantissa << exponent)
    } else {
        High::negative_power_of_two(-exponent as usize).times_integer(mantissa)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn roots_and_reciprocals() {
        for x in [
            High::integer(2),
            High::integer(1).half(),
            High::negative_power_of_two(150),
            High::negative_power_of_two(77).times_integer(12345),
            High::integer(u64::MAX >> 3),
        ] {
            let root = square_root(&x);
            let relative = (root.to_f64().powi(2) / x.to_f64() - 1.0).abs();
            assert!(relative < 1e-14, "{x:?}: {relative}");
            if x < High::negative_power_of_two(60) {
                continue; // its reciprocal is beyond the range of the numbers
            }
            let one = reciprocal(&x).times_down(&x);
            let off = one.minus(&High::integer(1)).plus(&High::integer(1).minus(&one));
            assert!(off < High::negative_power_of_two(100), "{x:?}: {off:?}");
        }
        for y in [High::integer(1).half(), High::negative_power_of_two(2), Fixed([7, 1, 9, 3, u64::MAX, 0])] {
            let (newton, bits) = (square_root(&y), root_by_bits(&y));
            assert!(newton.minus(&bits).plus(&bits.minus(&newton)) < High::negative_power_of_two(180));
        }
        // √2 to 2^-180
        let two = square_root(&High::integer(2));
        let off = High::integer(2).minus(&two.times_up(&two));
        assert!(off < High::negative_power_of_two(180));
    }

    pub(in crate::lazy) fn rule(decay: f64, rate: f64, momentum: f64, weight: f64) -> Rule {
        Rule { decay: exact(decay), rate: exact(rate), momentum: exact(momentum), weight: exact(weight) }
    }

    fn recursion<const P: usize>(parts: Parts, runs: &[(u32, Rule)]) -> Recursion<P> {
        let scale = Scale { fraction_bits: 60, noise: (1, 0), normal_bits: 0, max_gradient: 1 << 30 };
        Recursion::new(parts, runs, scale)
    }

    #[track_caller]
    fn close(seen: f64, expected: f64) {
        assert!((seen / expected - 1.0).abs() < 2e-10, "{seen} is not {expected}");
    }

    #[test]
    fn variances_of_the_literature() {
        // a = .9 and m = 7 steps at once: Σ a^(2i) over i < 7
        let none = Parts { momentum: false, sum: false };
        close(recursion::<1>(none, &[(7, rule(0.9, 1.0, 0.0, 0.0))]).covariance(0, 7)[0][0], 4.0591161866);
        // η = 1/√(t+1), a = 1 − .01η, steps 5..11; rates relative to 1
        let runs: Vec<(u32, Rule)> = (0..12)
            .map(|t| {
                let eta = 1.0 / f64::from(t + 1).sqrt();
                (1, rule(1.0 - 0.01 * eta, eta, 0.0, 0.0))
            })
            .collect();
        let mut scheduled = recursion::<1>(none, &runs);
        close(scheduled.block(5, 12).map[0][0].to_f64(), 0.976_445_612_189_067_3);
        close(scheduled.covariance(5, 12)[0][0], 0.802_171_877_712_853_7);
        // a = .9, m = 7 with the sum, and the trap a = 1 − 1e-6
        let sum = Parts { momentum: false, sum: true };
        let c = recursion::<2>(sum, &[(7, rule(0.9, 1.0, 0.0, 1.0))]).covariance(0, 7);
        close(c[0][1], 15.638_264_320_8);
        close(c[1][1], 89.722_831_113_1);
        let c = recursion::<2>(sum, &[(10, rule(1.0 - 1e-6, 1.0, 0.0, 1.0))]).covariance(0, 10);
        close(c[1][1], 384.997_360_01);
        // momentum .9, η = .1, ten steps (m in units of the gradient: Var m = 4.623)
        let both = Parts { momentum: true, sum: false };
        let c = recursion::<2>(both, &[(10, rule(1.0 - 1e-4, 0.1, 0.9, 0.0))]).covariance(0, 10);
        close(c[0][0], 2.019_559_713_7);
        close(c[0][1], 2.351_588_873_8);
        close(c[1][1], 4.623_280_765_3);
        // never-touched coordinate: β = .8, a = .97, η = .3, ten steps with the sum
        let all = Parts { momentum: true, sum: true };
        let c = recursion::<3>(all, &[(10, rule(0.97, 0.3, 0.8, 1.0))]).covariance(0, 10);
        close(c[0][0], 8.222_470_436_3);
        close(c[0][1], 3.160_370_057_3);
        close(c[2][2], 241.844_342_583_5);
    }

    #[test]
    fn factors_reproduce_their_covariance_and_blocks_compose() {
        let parts = Parts { momentum: true, sum: true };
        let runs: Vec<(u32, Rule)> =
            [(3, 0.9, 1.0, 0.0), (1, 1.0, 0.5, 0.25), (9, 0.97, 0.25, 0.25), (200, 0.999, 0.1, 0.01)]
                .iter()
                .map(|&(n, a, r, w)| (n, rule(a, r, 0.8, w)))
                .collect();
        let mut r = recursion::<3>(parts, &runs);
        for (from, to) in [(0, 1), (0, 2), (0, 3), (0, 5), (2, 4), (3, 4), (1, 14), (0, 213), (13, 213), (100, 105)] {
            let gap = r.gap(from, to).unwrap();
            let c = r.covariance(from, to);
            let big = 1i128 << 60;
            for i in 0..3 {
                for j in 0..3 {
                    let value = |x: &Coefficient| x.times(big) as f64 / 2f64.powi(120);
                    let seen: f64 = gap.noise().map(|column| value(&column[i]) * value(&column[j])).sum();
                    assert!(
                        (seen - c[i][j]).abs() <= 1e-13 * (c[i][i] * c[j][j]).sqrt(),
                        "{from}..{to} {i}{j}: {seen} {}",
                        c[i][j]
                    );
                }
            }
            // step by step
            let mut by_steps = Block::<3>::identity();
            for t in from..to {
                by_steps = r.block(t, t + 1).after(&by_steps);
            }
            let whole = r.block(from, to);
            for i in 0..3 {
                for j in 0..3 {
                    let off = |a: &High, b: &High| a.minus(b).plus(&b.minus(a));
                    assert!(off(&whole.map[i][j], &by_steps.map[i][j]) < High::negative_power_of_two(250));
                    assert!(
                        off(&whole.covariance[i][j], &by_steps.covariance[i][j]) < High::negative_power_of_two(250)
                    );
                }
            }
        }
        assert_eq!(r.gap(0, 3).unwrap().draws(), 3);
        assert_eq!(r.gap(13, 213).unwrap().draws(), 3);
        // two steps: the covariance is singular, so it is replayed
        assert_eq!(r.gap(13, 15).unwrap().draws(), 2);
    }
}
