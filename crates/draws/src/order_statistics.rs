//! The largest coordinates of a noisy vector without drawing all of its noise (docs/proofs/largest-coordinates.md).
//!
//! y = μ + noise in d coordinates, μ an integer vector that is zero outside a small *touched* set, noise rounded Gaussian.
//! Outside the touched set the coordinates whose noise exceeds L standard deviations are a random subset with a known
//! probability each; they are found by geometric skips, and only they get a value. If more are needed, the level is
//! lowered and the rest is drawn *given* that it lies below the old level. What comes out is, exactly, a part of the dense
//! integer release: hard thresholding, projections and selection on it are post-processing, in any arithmetic.
//! (The published way through quantiles of order statistics needs a proved inverse error function and guarded
//! comparisons; this one needs tail probabilities at 72 fixed levels.)
//!
//! Time and memory depend on how much of μ is touched, which is private: the claim is about outputs only.
use dpopt_noise::parts::{Fixed, L, LEVELS, PER_SIGMA, tail_probabilities};
use dpopt_noise::{Geometric, RoundedGaussian, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The coordinates of a noisy vector in order of descending size |y|, ties by index, drawn as far as asked for.
///
/// ```
/// use dpopt_draws::Descending;
/// use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
/// let noise = RoundedGaussian::new(1.0, Grid::new(-10))?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Noise, 0);
/// // a trillion coordinates, two of them touched by data
/// let mut largest = Descending::new(&noise, 1_000_000_000_000, &[(7, 20 << 10), (99, -1024)], &mut stream);
/// let (index, value) = largest.next(&mut stream).unwrap();
/// assert_eq!(index, 7);
/// assert!((value - (20 << 10)).abs() < 10 << 10);
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
pub struct Descending<'a> {
    noise: &'a RoundedGaussian,
    dimension: u64,
    /// Indices that have a value: touched ones and those found so far, increasing.
    known: Vec<u64>,
    /// Values not yet handed out, largest first.
    waiting: BinaryHeap<(u64, Reverse<u64>, i64)>,
    /// All unknown coordinates have noise of at most this level; `LEVELS + 1` stands for infinity.
    level: usize,
    /// How many to look for at a time.
    aim: f64,
}

impl<'a> Descending<'a> {
    /// y = μ + noise with `dimension` coordinates, where μ is zero but for the integers `touched` (increasing indices; on
    /// the noise's grid). Any superset of the support may be given: the law does not depend on it.
    ///
    /// # Panics
    /// If the indices of `touched` are not increasing or not below `dimension`.
    pub fn new(noise: &'a RoundedGaussian, dimension: u64, touched: &[(u64, i64)], stream: &mut Stream) -> Self {
        assert!(touched.windows(2).all(|pair| pair[0].0 < pair[1].0), "indices increase");
        assert!(touched.last().is_none_or(|last| last.0 < dimension), "indices are below the dimension");
        let mut this = Self {
            noise,
            dimension,
            known: touched.iter().map(|entry| entry.0).collect(),
            waiting: BinaryHeap::new(),
            level: LEVELS + 1,
            aim: (touched.len() as f64).clamp(4.0, 1e6),
        };
        for &(index, mean) in touched {
            let value = mean.wrapping_add(noise.sample(stream));
            this.waiting.push((value.unsigned_abs(), Reverse(index), value));
        }
        this
    }

    /// The coordinates that `elsewhere` does not name, whose mean is zero: pure noise. For callers that draw the noise of the
    /// named ones themselves and merge the two by an order of their own, in which untouched coordinates stand by size.
    ///
    /// # Panics
    /// If the indices are not increasing or not below `dimension`.
    pub fn untouched(noise: &'a RoundedGaussian, dimension: u64, elsewhere: Vec<u64>) -> Self {
        assert!(elsewhere.windows(2).all(|pair| pair[0] < pair[1]), "indices increase");
        assert!(elsewhere.last().is_none_or(|last| *last < dimension), "indices are below the dimension");
        Self { noise, dimension, known: elsewhere, waiting: BinaryHeap::new(), level: LEVELS + 1, aim: 4.0 }
    }

    /// Draws at least about `count` coordinates at a time: for callers that know how many they will ask for.
    pub fn aiming_at(mut self, count: usize) -> Self {
        self.aim = (count as f64).clamp(4.0, 1e6);
        self
    }

    /// The next largest coordinate, (index, value), or `None` after all of them.
    pub fn next(&mut self, stream: &mut Stream) -> Option<(u64, i64)> {
        loop {
            // sizes above the level's are all known; at the level itself an unknown one may still tie
            let certain = match self.waiting.peek() {
                Some(&(size, ..)) => self.level == 0 || size > self.noise.units_at(self.level as u64, PER_SIGMA),
                None => self.level == 0,
            };
            if certain && self.level <= LEVELS {
                return self.waiting.pop().map(|(_, Reverse(index), value)| (index, value));
            }
            self.lower(stream);
        }
    }

    /// Draws the coordinates between the next lower useful level and the present one.
    fn lower(&mut self, stream: &mut Stream) {
        let tails = tail_probabilities();
        let unknown = self.dimension - self.known.len() as u64;
        let above = if self.level > LEVELS { Fixed::ZERO } else { tails[self.level] };
        // any rule would do, the law does not depend on it
        let wanted = self.aim / (unknown.max(1) as f64);
        let mut next = self.level - 1;
        while next > 0 && tails[next].minus(&above).to_f64() < wanted {
            next -= 1;
        }
        let mut found = Vec::new();
        if next == 0 {
            found.extend(0..unknown);
        } else {
            // P(next level < |ξ| | |ξ| ≤ level)
            let chance = quotient(&tails[next].minus(&above), &Fixed::integer(1).minus(&above));
            let gap = Geometric::from_ratio(Fixed::integer(1).minus(&chance));
            let mut position = 0;
            while let Some(skipped) = gap.sample_below(unknown - position, stream) {
                found.push(position + skipped);
                position += skipped + 1;
            }
        }
        indices_of(&mut found, &self.known);
        for &index in &found {
            let size =
                self.noise.size_between(next as u64, (self.level <= LEVELS).then_some(self.level as u64), stream);
            let value = if stream.coin() { -size } else { size };
            self.waiting.push((size.unsigned_abs(), Reverse(index), value));
        }
        self.known.extend(found);
        self.known.sort_unstable(); // two sorted runs: linear
        self.aim = (2.0 * self.aim).min(1e6); // geometric, so that asking on costs no more passes than a logarithm
        self.level = next;
    }
}

/// Positions among the coordinates that are not `known` become indices; both increase.
pub(crate) fn indices_of(positions: &mut [u64], known: &[u64]) {
    let mut passed = 0;
    for position in positions {
        while passed < known.len() && known[passed] <= *position + passed as u64 {
            passed += 1;
        }
        *position += passed as u64;
    }
}

/// a/b rounded down to 320 bits, for 0 ≤ a < b ≤ 1.
pub(crate) fn quotient(a: &Fixed<L>, b: &Fixed<L>) -> Fixed<L> {
    let mut rest = *a;
    let mut out = Fixed::<L>::ZERO;
    for bit in 0..320 {
        rest = rest.plus(&rest);
        if rest >= *b {
            rest = rest.minus(b);
            out.0[L - 2 - bit / 64] |= 1 << (63 - bit % 64);
        }
    }
    out
}

/// H_k(y): the `count` largest coordinates by size (ties to the smaller index), the rest is 0. Event: the full-vector
/// Gaussian; choosing is post-processing.
pub fn hard_threshold(
    noise: &RoundedGaussian,
    dimension: u64,
    touched: &[(u64, i64)],
    count: usize,
    stream: &mut Stream,
) -> Vec<(u64, i64)> {
    let mut largest = Descending::new(noise, dimension, touched, stream);
    let mut kept: Vec<_> = (0..count).map_while(|_| largest.next(stream)).collect();
    kept.sort_unstable();
    kept
}

/// Euclidean projection of γ·y on the l1 ball of `radius` (in units of the value): the non-zero coordinates, by index. If y
/// lies within the ball the answer has all `dimension` coordinates: choose the radius so that this is not to be expected.
pub fn project_l1(
    noise: &RoundedGaussian,
    dimension: u64,
    touched: &[(u64, i64)],
    radius: f64,
    stream: &mut Stream,
) -> Vec<(u64, f64)> {
    let mut largest = Descending::new(noise, dimension, touched, stream);
    let step = noise.grid().step();
    let (mut accepted, mut sum) = (Vec::new(), 0.0);
    let mut threshold = 0.0;
    while let Some((index, value)) = largest.next(stream) {
        let size = value.unsigned_abs() as f64 * step;
        // a_j is in the support iff it exceeds the threshold that includes it
        let with = (sum + size - radius) / (accepted.len() + 1) as f64;
        if size <= with {
            break;
        }
        sum += size;
        accepted.push((index, value));
        threshold = f64::max(0.0, with);
    }
    let mut out: Vec<(u64, f64)> = accepted
        .into_iter()
        .map(|(index, value)| {
            let shrunk = f64::max(0.0, value.unsigned_abs() as f64 * step - threshold);
            (index, if value < 0 { -shrunk } else { shrunk })
        })
        .filter(|entry| entry.1 != 0.0)
        .collect();
    out.sort_unstable_by_key(|entry| entry.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{Grid, NoiseSource, Purpose};

    /// |y| of the dense vector, drawn in full.
    fn dense(noise: &RoundedGaussian, mean: &[i64], stream: &mut Stream) -> Vec<i64> {
        let mut y = mean.to_vec();
        noise.add_to(&mut y, stream);
        y
    }

    fn top(y: &[i64], k: usize) -> Vec<(u64, i64)> {
        let mut order: Vec<usize> = (0..y.len()).collect();
        order.sort_by_key(|&j| (Reverse(y[j].unsigned_abs()), j));
        let mut out: Vec<_> = order[..k.min(y.len())].iter().map(|&j| (j as u64, y[j])).collect();
        out.sort_unstable();
        out
    }

    #[test]
    fn hard_threshold_has_the_dense_law() {
        // coarse grid (σ = 2 steps): ties are frequent, so the rule at ties is tested too. All (support, signs) of k = 2 of
        // d = 6, two-sample chi-square; then values.
        let noise = RoundedGaussian::new(2.0, Grid::new(0)).unwrap();
        let mean = [5i64, 0, -3, 0, 0, 0];
        let touched = [(0u64, 5i64), (2, -3), (4, 0)]; // a superset of the support
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let n = 60_000;
        let mut counts = std::collections::BTreeMap::<(Vec<(u64, i64)>, bool), [f64; 2]>::new();
        for _ in 0..n {
            for which in [0, 1] {
                let kept = if which == 0 {
                    hard_threshold(&noise, 6, &touched, 2, &mut stream)
                } else {
                    top(&dense(&noise, &mean, &mut stream), 2)
                };
                let large = kept.iter().any(|entry| entry.1.abs() > 6);
                let signs = kept.iter().map(|&(index, value)| (index, value.signum())).collect();
                counts.entry((signs, large)).or_default()[which] += 1.0;
            }
        }
        let (mut chi2, mut cells) = (0.0, 0.0);
        for [a, b] in counts.values() {
            if a + b >= 20.0 {
                chi2 += (a - b) * (a - b) / (a + b);
                cells += 1.0;
            }
        }
        let limit = cells + 2.0 * (15.2f64 * cells).sqrt() + 30.4; // false alarm below 2.5e-7
        assert!(cells > 40.0 && chi2 < limit, "{chi2} with {cells} cells");
    }

    #[test]
    fn hard_threshold_numbers() {
        // d = 300, μ = (3, −1.5, .5, 0, …), σ = 1, k = 5
        let grid = Grid::new(-20);
        let noise = RoundedGaussian::new(1.0, grid).unwrap();
        let touched = [(0u64, 3i64 << 20), (1, -3 << 19), (2, 1 << 19)];
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        let n = 20_000;
        let (mut hits, mut largest, mut smallest, mut energy) = ([0.0; 4], 0.0, 0.0, 0.0);
        for _ in 0..n {
            let kept = hard_threshold(&noise, 300, &touched, 5, &mut stream);
            assert_eq!(kept.len(), 5);
            let sizes: Vec<f64> = kept.iter().map(|entry| grid.to_f64(entry.1).abs()).collect();
            for (slot, index) in hits.iter_mut().zip([0, 1, 2, 77]) {
                *slot += f64::from(u8::from(kept.iter().any(|entry| entry.0 == index)));
            }
            largest += sizes.iter().cloned().fold(0.0, f64::max);
            smallest += sizes.iter().cloned().fold(f64::INFINITY, f64::min);
            energy += sizes.iter().map(|x| x * x).sum::<f64>();
        }
        let n = f64::from(n);
        for (hits, p) in hits.into_iter().zip([0.7100, 0.1643, 0.02615, 0.0138]) {
            // 5.5 standard deviations, here and in the reference of 10^5 runs
            assert!((hits / n - p).abs() < 5.5 * (p * (1.0 - p) * (1.0 / n + 1e-5)).sqrt(), "{} {p}", hits / n);
        }
        assert!((largest / n - 3.49).abs() < 0.03 && (smallest / n - 2.5015).abs() < 0.015);
        assert!((energy / n - 42.07).abs() < 0.5, "{}", energy / n);
    }

    #[test]
    fn all_coordinates_come_in_descending_order() {
        let noise = RoundedGaussian::new(1.5, Grid::new(0)).unwrap();
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Audit, 0);
        for d in [0u64, 1, 3, 50, 2000] {
            let touched: Vec<(u64, i64)> = (0..d).filter(|j| j % 7 == 3).map(|j| (j, j as i64 % 5)).collect();
            let mut largest = Descending::new(&noise, d, &touched, &mut stream);
            let mut all = Vec::new();
            while let Some(entry) = largest.next(&mut stream) {
                all.push(entry);
            }
            assert_eq!(all.len() as u64, d);
            assert!(all.windows(2).all(|w| (Reverse(w[0].1.abs()), w[0].0) < (Reverse(w[1].1.abs()), w[1].0)));
            let mut indices: Vec<u64> = all.iter().map(|entry| entry.0).collect();
            indices.sort_unstable();
            indices.dedup();
            assert_eq!(indices.len() as u64, d);
        }
    }

    #[test]
    fn a_trillion_coordinates() {
        // m = 10^12: mean of the three largest |N| 7.2073, 7.0710, 7.0017, sd .172, .111, .088
        let grid = Grid::new(-20);
        let noise = RoundedGaussian::new(1.0, grid).unwrap();
        let mut stream = NoiseSource::insecure(4).stream(Purpose::Audit, 0);
        let n = 3000;
        let mut sums = [0.0; 3];
        for _ in 0..n {
            let mut largest = Descending::new(&noise, 1_000_000_000_000, &[], &mut stream);
            for sum in &mut sums {
                *sum += grid.to_f64(largest.next(&mut stream).unwrap().1).abs();
            }
        }
        for ((sum, mean), sd) in sums.into_iter().zip([7.2073, 7.0710, 7.0017]).zip([0.172, 0.111, 0.088]) {
            let seen = sum / f64::from(n);
            assert!((seen - mean).abs() < 5.5 * sd / f64::from(n).sqrt() + 1e-4, "{seen} {mean}");
        }
    }

    #[test]
    fn projection_on_the_l1_ball() {
        let grid = Grid::new(-20);
        let noise = RoundedGaussian::new(0.3, grid).unwrap();
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Audit, 0);
        let unit = 1i64 << 20;
        let (mut support, n) = (0.0, 4000);
        for _ in 0..n {
            let touched = [(0u64, 2 * unit), (1, unit), (2, -unit)];
            let x = project_l1(&noise, 400, &touched, 2.5, &mut stream);
            let norm: f64 = x.iter().map(|entry| entry.1.abs()).sum();
            assert!((norm - 2.5).abs() < 1e-9);
            support += x.len() as f64;
        }
        // mean support 9.575 (of dense and lazy runs); standard deviation of one run about 2.8
        assert!((support / f64::from(n) - 9.575).abs() < 0.3, "mean support {}", support / f64::from(n));
        // all coordinates accepted and ‖y‖ > R: θ must not be 0 (the ball must hold the answer)
        for _ in 0..200 {
            let x = project_l1(&noise, 3, &[(0, 40 * unit), (1, 40 * unit), (2, 40 * unit)], 100.0, &mut stream);
            assert!(x.iter().map(|entry| entry.1.abs()).sum::<f64>() <= 100.0 + 1e-9);
            // inside the ball: unchanged
            let x = project_l1(&noise, 2, &[(0, unit), (1, unit)], 1e6, &mut stream);
            assert_eq!(x.len(), 2);
        }
    }
}
