//! The few frequencies of a long composition that are not negligible, by direct sums, and a proof that all others are
//! (docs/proofs/accounting-pld.md, "Few frequencies").
//!
//! Two bounds on |F| of a law p on the integers say from which frequency on the composition is below the threshold. With X, X′
//! drawn from p inside a window of mass w, |F| ≤ 1 − w + w·(E cos θ(X−X′))^½ and cos t ≤ 1 − t²/2 + t⁴/24. And disjoint
//! pairs of points at distances in [D, D′], with W the mass that they share evenly, give |F| ≤ 1 − W(1 − cos(Dθ/2)) up to θ = 2π/(D + D′).

use super::pair::U;
use super::parallel;
use realfft::num_complex::Complex;
use std::f64::consts::{PI, TAU};

/// Masses of one part under the tilt, together one, on integers.
#[derive(Debug)]
pub(crate) struct Tilted<'a> {
    pub index: &'a [i64],
    pub weight: Vec<f64>,
    pub count: u64,
}

/// A direct sum turns by one frequency at a time; more turns than this would cost digits.
const MAX_FREQUENCIES: usize = 512;
/// Windows around the mean: all points nearer than 2^(2k − 1).
const WINDOWS: usize = 28;
/// Distances 2^k and 3·2^k are looked at, for k below this.
const SCALES: usize = 24;
/// Parts that are asked for their pairs at a time.
const CHUNK: usize = 256;
/// A direct term costs about so many point·log₂(point)s of a transform.
const TERM: f64 = 1.5;

/// (w·E(X−X′)²/2, w·E(X−X′)⁴/24) of the widest window whose bound still has room to fall by `room` over all draws.
fn moments(part: &Tilted, centre: i64, draws: f64, room: f64) -> (f64, f64) {
    // raw moments by the first window that holds a point
    let mut sums = [[0.0f64; 5]; WINDOWS];
    for (&k, &w) in part.index.iter().zip(&part.weight) {
        let distance = k.abs_diff(centre);
        let window = ((65 - distance.leading_zeros()) as usize).div_ceil(2);
        if window < WINDOWS {
            let d = k.wrapping_sub(centre) as f64;
            let (first, second) = (w * d, w * d * d);
            let terms = [w, first, second, second * d, second * d * d];
            sums[window].iter_mut().zip(terms).for_each(|(s, t)| *s += t);
        }
    }
    let mut best = (0.0, 0.0);
    let (mut total, mut most) = ([0.0f64; 5], 0.0);
    for window in sums {
        total.iter_mut().zip(window).for_each(|(t, s)| *t += s);
        let [m0, m1, m2, m3, m4] = total;
        if !(m0 > 0.0) {
            continue;
        }
        let (m1, m2, m3, m4) = (m1 / m0, m2 / m0, m3 / m0, m4 / m0);
        // rounding of the sums, far below these
        let rounding = 1e-9;
        let variance = m2 - m1 * m1 - rounding * m2;
        let fourth = (2.0 * m4 - 8.0 * m3 * m1 + 6.0 * m2 * m2) + rounding * (m4 + m3.abs() * m1.abs() + m2 * m2);
        let (v, q) = (m0 * variance, m0 * fourth / 24.0);
        let depth = v * v / q;
        // a window that reaches deep enough is as good as one that reaches deeper
        if v > 0.0 && q > 0.0 && depth.is_finite() && (depth > most || draws * depth > 16.0 * room) {
            most = depth.max(most);
            best = (v, q);
        }
    }
    best
}

/// The longest distance of a pair that counts for distance D.
fn longest(distance: i64) -> i64 {
    distance + distance / 4
}

/// Up to where |cos(dθ/2)| ≤ cos(Dθ/2) for all d from D to the longest: there d·θ/2 = π − D·θ/2.
fn reach(distance: i64) -> f64 {
    TAU / (distance + longest(distance)) as f64 * if distance == 1 { 1.0 } else { 1.0 - 1e-9 }
}

/// Twice the mass of disjoint pairs of points at distances from D to the longest, whatever a pair's smaller mass allows.
fn shared(part: &Tilted, distance: i64) -> f64 {
    let (index, n) = (part.index, part.index.len());
    let mut left = part.weight.clone();
    let (mut sum, mut start) = (0.0, 0);
    while start < n {
        // blocks of length D, the first one paired with the second one
        let from = |first: usize, bound: i64| (first..n).find(|&i| index[i] >= bound).unwrap_or(n);
        let middle = from(start, index[start] + distance);
        let end = from(middle, index[start] + 2 * distance);
        let (mut a, mut b) = (start, middle);
        while a < middle && b < end {
            let d = index[b] - index[a];
            if d < distance {
                b += 1;
            } else if d > longest(distance) {
                a += 1;
            } else {
                let both = left[a].min(left[b]);
                sum += both;
                left[a] -= both;
                left[b] -= both;
                if left[a] == 0.0 { a += 1 } else { b += 1 }
            }
        }
        start = end;
    }
    2.0 * sum
}

/// How many frequencies, from 0 on, a composition needs when ln|F| of all others shall be at most −`depth`; `None` where that is not shown.
fn needed(parts: &[Tilted], centres: &[i64], points: usize, depth: f64) -> Option<usize> {
    // weights add up to one within this; so do the sums below
    let rounding: f64 = parts.iter().map(|p| p.count as f64 * 8.0 * (p.weight.len() + 8) as f64 * U).sum();
    let depth = depth + rounding;
    let draws: f64 = parts.iter().map(|p| p.count as f64).sum();
    let (mut v, mut q) = (0.0, 0.0);
    let centred: Vec<_> = parts.iter().zip(centres).collect();
    for ((part, _), (a, b)) in
        centred.iter().zip(parallel::map(&centred, |(part, centre)| moments(part, **centre, draws, depth)))
    {
        v += part.count as f64 * a;
        q += part.count as f64 * b;
    }
    // ½(vθ² − qθ⁴) ≥ depth between two frequencies
    let discriminant = v * v - 8.0 * q * depth;
    let (low, high) = if discriminant > 0.0 && q > 0.0 {
        let root = discriminant.sqrt();
        ((4.0 * depth / (v + root)).sqrt() * (1.0 + 1e-9), ((v + root) / (2.0 * q)).sqrt() * (1.0 - 1e-9))
    } else {
        (PI, 0.0)
    };
    // from the largest frequency down, every time by the longest distance that reaches what is covered already
    let mut covered = PI;
    let mut untried: Vec<i64> = (0..SCALES).flat_map(|s| [1i64 << s, 3i64 << s]).collect();
    untried.sort_unstable();
    while covered > high {
        let Some(longest) = untried.iter().rposition(|d| reach(*d) >= covered) else { break };
        let distance = untried.remove(longest);
        // what the first parts share may be enough: every part adds to it
        let mut share = 0.0;
        for some in parts.chunks(CHUNK) {
            share += parallel::map(some, |p| p.count as f64 * shared(p, distance)).into_iter().sum::<f64>();
            if depth < 0.2 * share {
                break;
            }
        }
        let fall = depth / share * (1.0 + 1e-9);
        if fall < 1.0 {
            covered = covered.min(2.0 * (1.0 - fall).acos() / distance as f64 * (1.0 + 1e-9));
        }
    }
    if covered <= high {
        covered = covered.min(low);
    }
    let needed = (covered / TAU * points as f64).ceil() as usize + 1;
    (needed <= points / 2).then_some(needed)
}

/// How many frequencies to sum directly: `None` where transforms are cheaper, or where nothing shows that the others are negligible.
pub(crate) fn few(parts: &[Tilted], centres: &[i64], points: usize, depth: f64) -> Option<usize> {
    let knots: f64 = parts.iter().map(|p| p.weight.len() as f64).sum();
    let transforms = parts.len() as f64 * points as f64 * (points as f64).log2();
    // the proof alone looks at every point some ten times
    if 12.0 * TERM * knots > transforms {
        return None;
    }
    let needed = needed(parts, centres, points, depth)?;
    (needed <= MAX_FREQUENCIES && TERM * knots * needed as f64 <= transforms).then_some(needed)
}

/// The lattice point nearest to the mean.
pub(crate) fn centre(part: &Tilted) -> i64 {
    // far tails have no say in where the middle is
    part.index.iter().zip(&part.weight).map(|(k, w)| w * *k as f64).sum::<f64>().round() as i64
}

/// Σ w e^(−iθ(k − centre)) at the frequencies 0..`needed` of `points`, each with a bound on its rounding.
pub(crate) fn sums(part: &Tilted, centre: i64, points: usize, needed: usize) -> Vec<(Complex<f64>, f64)> {
    /// Number of terms of the sum whose phases are advanced together.
    const BLOCK: usize = 64;
    const LANES: usize = 8;
    let modulus = points as i64;
    let turn = TAU / points as f64;
    // what is far below one rounding of the sum is left out
    let least = 1e-3 * U / part.weight.len() as f64;
    let (mut left_out, mut mean_angle) = (0.0, 0.0);
    let mut terms: Vec<(f64, f64)> = Vec::with_capacity(part.weight.len());
    for (&k, &w) in part.index.iter().zip(&part.weight) {
        if w < least {
            left_out += w;
            continue;
        }
        let offset = (k - centre).rem_euclid(modulus);
        let angle = if 2 * offset > modulus { offset - modulus } else { offset } as f64 * turn;
        mean_angle += w * angle.abs();
        terms.push((w, angle));
    }
    // (sum, what rounding took from it)
    let mut totals = vec![([0.0f64; 2], [0.0f64; 2]); needed];
    for block in terms.chunks(BLOCK) {
        let (mut re, mut im) = ([0.0f64; BLOCK], [0.0f64; BLOCK]);
        let (mut cos, mut sin) = ([1.0f64; BLOCK], [0.0f64; BLOCK]);
        for (i, (w, angle)) in block.iter().enumerate() {
            re[i] = *w;
            (sin[i], cos[i]) = (-angle).sin_cos();
        }
        for (total, lost) in &mut totals {
            let (mut x, mut y) = ([0.0f64; LANES], [0.0f64; LANES]);
            for i in (0..BLOCK).step_by(LANES) {
                for l in 0..LANES {
                    let (a, b) = (re[i + l], im[i + l]);
                    x[l] += a;
                    y[l] += b;
                    re[i + l] = a * cos[i + l] - b * sin[i + l];
                    im[i + l] = a * sin[i + l] + b * cos[i + l];
                }
            }
            for (s, lanes) in [x, y].iter().enumerate() {
                let value: f64 = lanes.iter().sum();
                let next = total[s] + value;
                // Neumaier
                lost[s] +=
                    if total[s].abs() >= value.abs() { (total[s] - next) + value } else { (value - next) + total[s] };
                total[s] = next;
            }
        }
    }
    // per turn: a product of complex numbers 4u, sine and cosine 2u, the angle 3u of itself; a block's sums 2·(8 + 8)u
    let per_turn = (6.0 + 3.0 * mean_angle) * U * 1.01;
    totals
        .into_iter()
        .enumerate()
        .map(|(k, (total, lost))| {
            (Complex::new(total[0] + lost[0], total[1] + lost[1]), k as f64 * per_turn + 40.0 * U + left_out)
        })
        .collect()
}

/// −2π·(frequency·centre·count mod points)/points up to two roundings: by how much the shift by `centre` turns F^count.
pub(crate) fn shift_phase(frequency: usize, centre: i64, count: u64, points: usize) -> f64 {
    let n = points as u128;
    let c = centre.rem_euclid(points as i64) as u128;
    let turns = (frequency as u128 * c % n) * (u128::from(count) % n) % n;
    -TAU * (turns as f64 / points as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(index: &'a [i64], weight: &[f64], count: u64) -> Tilted<'a> {
        let sum: f64 = weight.iter().sum();
        Tilted { index, weight: weight.iter().map(|w| w / sum).collect(), count }
    }

    fn direct(part: &Tilted, centre: i64, theta: f64) -> Complex<f64> {
        part.index.iter().zip(&part.weight).map(|(k, w)| Complex::from_polar(*w, -theta * (k - centre) as f64)).sum()
    }

    /// Laws with holes, tails and strides: a normal core, a heavy right tail of strides 1, 3 and 50, random masses, two clusters.
    fn laws() -> Vec<(Vec<i64>, Vec<f64>)> {
        let core: Vec<i64> = (-300..300).collect();
        let normal = |k: &i64| (-(*k as f64 / 60.0).powi(2) / 2.0).exp();
        let tail: Vec<i64> = (-200..200).chain((200..800).step_by(3)).chain((800..40_000).step_by(50)).collect();
        let heavy = |k: &i64| {
            let stride = if *k < 200 {
                1.0
            } else if *k < 800 {
                3.0
            } else {
                50.0
            };
            stride / (1.0 + (*k as f64 / 30.0).powi(2))
        };
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / 2f64.powi(53)
        };
        let rough: Vec<f64> = core.iter().map(|k| normal(k) * random()).collect();
        let clusters: Vec<i64> = (0..40).chain(5000..5040).collect();
        vec![
            (core.clone(), core.iter().map(normal).collect()),
            (tail.clone(), tail.iter().map(heavy).collect()),
            (core, rough),
            (clusters.clone(), vec![1.0; clusters.len()]),
        ]
    }

    #[test]
    fn sums_are_within_their_own_bound() {
        for (index, weight) in laws() {
            let part = part(&index, &weight, 1);
            let (c, points) = (centre(&part), 1 << 14);
            for (k, (value, error)) in sums(&part, c, points, 200).into_iter().enumerate() {
                // the reference loses digits of its own: a few u of its largest angle
                let exact = direct(&part, c, TAU * k as f64 / points as f64);
                let largest = TAU * k as f64 / points as f64 * 4e4;
                assert!((value - exact).norm() <= error + (4.0 * largest + 700.0) * U, "{k} {value} {exact} {error}");
                assert!(error < 1e-10);
            }
        }
    }

    /// Every frequency that is left out is below the threshold: compared with all of them.
    #[test]
    fn what_is_left_out_is_negligible() {
        let points = 1 << 14;
        for (number, (index, weight)) in laws().into_iter().enumerate() {
            let mut found = 0;
            for count in [200, 1000, 30_000, 10_000_000] {
                let parts = [part(&index, &weight, count), part(&index, &weight, count / 3)];
                let centres: Vec<i64> = parts.iter().map(centre).collect();
                let Some(needed) = needed(&parts, &centres, points, 60.0) else { continue };
                found += 1;
                let ln = |k: usize| -> f64 {
                    let size = |p: &Tilted| direct(p, 0, TAU * k as f64 / points as f64).norm().ln();
                    parts.iter().map(|p| p.count as f64 * size(p)).sum()
                };
                let worst = (needed..=points / 2).map(ln).fold(f64::NEG_INFINITY, f64::max);
                assert!(worst <= -60.0, "law {number}, {count} draws: {needed} frequencies, then {worst}");
                // nor are many of them superfluous where draws are many
                let necessary = (0..=points / 2).rev().find(|k| ln(*k) > -60.0).unwrap_or(0) + 1;
                assert!(
                    count < 1000 || needed <= 4 * necessary + 16,
                    "law {number}, {count} draws: {needed} for {necessary}"
                );
            }
            assert!(found >= 2, "law {number} was never proved");
        }
    }

    /// A law on every second point has a frequency π as large as 0.
    #[test]
    fn a_law_on_a_coarser_lattice_is_not_cut() {
        let index: Vec<i64> = (-200..200).map(|k| 2 * k).collect();
        let weight: Vec<f64> = index.iter().map(|k| (-(*k as f64 / 60.0).powi(2) / 2.0).exp()).collect();
        let parts = [part(&index, &weight, 1_000_000)];
        assert_eq!(needed(&parts, &[0], 1 << 14, 60.0), None);
    }

    #[test]
    fn the_shift_turns_by_what_the_indices_say() {
        for (frequency, centre, count, points) in [(3, -7, 5, 16usize), (511, 1 << 40, 1_000_000_007, 1 << 21)] {
            let turns = frequency as i128 * centre as i128 * count as i128;
            let expected = -TAU * turns.rem_euclid(points as i128) as f64 / points as f64;
            assert!((shift_phase(frequency, centre, count as u64, points) - expected).abs() < 1e-14);
        }
    }
}
