//! Euclidean projection of a noisy vector on the intersection of an l1 and an l2 ball, from its largest coordinates only
//! (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024; docs/proofs/largest-coordinates.md).
//!
//! The answer is soft(y, λ)·min(1, L/‖soft(y, λ)‖₂) with the smallest λ ≥ 0 whose l1 norm fits. Its level depends on the
//! coordinates above it only, and ‖soft‖₁/‖soft‖₂ does not increase with the level, so a descending stream suffices.
use crate::order_statistics::Descending;
use dpopt_noise::{Grid, RoundedGaussian, Stream};
use dpopt_process::stop::{Pace, paced};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a projection does to a coordinate of size a: (a − level)₊·scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shrinkage {
    level: f64,
    scale: f64,
}

/// The shrinkage of the projection on ‖x‖₂ ≤ `radius`, ‖x‖₁ ≤ `radius`·√`sparsity` of a vector whose sizes `next` gives in
/// descending order. Reads no more of them than needed, about 2·`sparsity` where noise dominates.
fn shrinkage(mut next: impl FnMut() -> Option<f64>, radius: f64, sparsity: f64) -> Shrinkage {
    let l1_radius = radius * sparsity.sqrt();
    let (mut count, mut sum, mut squares, mut theta) = (0.0, 0.0, 0.0, 0.0f64);
    // the l1 projection first: a size belongs to its support iff it exceeds the level that includes it
    let mut head = next();
    while let Some(size) = head {
        let with = (sum + size - l1_radius) / (count + 1.0);
        if size <= with {
            break;
        }
        (count, sum, squares, theta) = (count + 1.0, sum + size, squares + size * size, with.max(0.0));
        head = next();
    }
    let norm_squared = squares - 2.0 * theta * sum + count * theta * theta;
    if norm_squared <= radius * radius || sparsity <= 1.0 {
        // for s = 1 the l1 ball lies within the l2 ball
        return Shrinkage { level: theta, scale: 1.0 };
    }
    // too long: a lower level, scaled, until the ratio of the norms is √s
    loop {
        let level = head.unwrap_or(0.0);
        let l1 = sum - count * level;
        let l2_squared = squares - 2.0 * level * sum + count * level * level;
        if count > sparsity && l1 * l1 >= sparsity * l2_squared {
            // (i² − s·i)λ² − 2c₁(i − s)λ + c₁² − s·c₂ = 0, the smaller root; as q/(p + √…) for p > 0, without cancellation
            let (a, b, c) = (count * (count - sparsity), sum * (count - sparsity), sum * sum - sparsity * squares);
            let root = (b * b - a * c).max(0.0).sqrt();
            let exact = if b + root > 0.0 { c / (b + root) } else { 0.0 };
            let level = exact.max(level).max(0.0);
            let rest = squares - 2.0 * level * sum + count * level * level;
            return Shrinkage { level, scale: (radius / rest.max(f64::MIN_POSITIVE).sqrt()).min(1.0) };
        }
        let Some(size) = head else {
            return Shrinkage { level: 0.0, scale: (radius / squares.sqrt()).min(1.0) };
        };
        (count, sum, squares) = (count + 1.0, sum + size, squares + size * size);
        head = next();
    }
}

/// Euclidean projection of γ·y, y = μ + noise, on {‖x‖₂ ≤ `radius`, ‖x‖₁ ≤ `radius`·√`sparsity`}: the non-zero coordinates, by
/// index. μ is zero outside `touched`, as for [`Descending`]. If the l1 bound does not bind, the answer has all
/// `dimension` coordinates: choose `sparsity` so that this is not to be expected.
///
/// Event: the full-vector Gaussian; projecting is post-processing, in any arithmetic.
///
/// ```
/// use dpopt_draws::project_l1_l2;
/// use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
/// let noise = RoundedGaussian::new(0.1, Grid::new(-20))?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Noise, 0);
/// let x = project_l1_l2(&noise, 1_000_000_000, &[(7, 5 << 20)], 1.0, 4.0, &mut stream);
/// let norm = |p: i32| x.iter().map(|entry| entry.1.abs().powi(p)).sum::<f64>();
/// assert!(norm(1) <= 2.0 + 1e-9 && norm(2) <= 1.0 + 1e-9);
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
///
/// # Panics
/// If the indices of `touched` are not increasing or not below `dimension`.
pub fn project_l1_l2(
    noise: &RoundedGaussian,
    dimension: u64,
    touched: &[(u64, i64)],
    radius: f64,
    sparsity: f64,
    stream: &mut Stream,
) -> Vec<(u64, f64)> {
    let mut largest = Descending::new(noise, dimension, touched, stream);
    project(|| largest.next(stream), noise.grid(), radius, sparsity)
}

/// [`project_l1_l2`] of a vector whose noise has been drawn in full: `noisy` in units of `grid`.
pub fn project_l1_l2_dense(noisy: &[i64], grid: Grid, radius: f64, sparsity: f64) -> Vec<(u64, f64)> {
    // building the heap is linear, and few entries leave it
    let mut sizes: BinaryHeap<(u64, Reverse<u64>)> =
        paced(noisy.iter().enumerate()).map(|(j, y)| (y.unsigned_abs(), Reverse(j as u64))).collect();
    project(|| sizes.pop().map(|(_, Reverse(j))| (j, noisy[j as usize])), grid, radius, sparsity)
}

/// Reads (index, value) in descending order of size; the answer by increasing index.
fn project(mut next: impl FnMut() -> Option<(u64, i64)>, grid: Grid, radius: f64, sparsity: f64) -> Vec<(u64, f64)> {
    let step = grid.step();
    let (mut read, mut pace): (Vec<(u64, i64)>, _) = (Vec::new(), Pace::default());
    let shrinkage = shrinkage(
        || {
            let entry = next()?;
            read.push(entry);
            pace.step();
            Some(entry.1.unsigned_abs() as f64 * step)
        },
        radius,
        sparsity,
    );
    let mut out: Vec<(u64, f64)> = read
        .into_iter()
        .map(|(index, value)| {
            let size = f64::max(0.0, value.unsigned_abs() as f64 * step - shrinkage.level) * shrinkage.scale;
            (index, if value < 0 { -size } else { size })
        })
        .filter(|entry| entry.1 != 0.0)
        .collect();
    out.sort_unstable_by_key(|entry| entry.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    fn norms(sizes: &[f64], s: Shrinkage) -> (f64, f64) {
        let shrunk = sizes.iter().map(|a| (a - s.level).max(0.0) * s.scale);
        let (l1, l2) = shrunk.fold((0.0, 0.0), |(l1, l2), x| (l1 + x, l2 + x * x));
        (l1, l2.sqrt())
    }

    /// The smallest level whose scaled soft threshold fits, by bisection.
    fn reference(sizes: &[f64], radius: f64, sparsity: f64) -> Shrinkage {
        let at = |level: f64| {
            let (_, l2) = norms(sizes, Shrinkage { level, scale: 1.0 });
            Shrinkage { level, scale: if l2 > radius { radius / l2 } else { 1.0 } }
        };
        let fits = |s: Shrinkage| norms(sizes, s).0 <= radius * sparsity.sqrt();
        if fits(at(0.0)) {
            return at(0.0);
        }
        let (mut low, mut high) = (0.0, sizes.iter().cloned().fold(0.0, f64::max));
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if fits(at(middle)) { high = middle } else { low = middle }
        }
        at(high)
    }

    #[test]
    fn agrees_with_bisection_in_all_cases() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let mut cases = [0u32; 3];
        for _ in 0..20_000 {
            let d = 1 + stream.below(8) as usize;
            let spread = [0.2, 1.0, 5.0][stream.below(3) as usize];
            let mut sizes: Vec<f64> = (0..d).map(|_| spread * stream.uniform()).collect();
            sizes.sort_by(|a, b| b.total_cmp(a));
            let sparsity = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0][stream.below(6) as usize];
            let radius = 0.1 + stream.uniform();
            let mut items = sizes.iter().copied();
            let (seen, expected) = (shrinkage(|| items.next(), radius, sparsity), reference(&sizes, radius, sparsity));
            let difference = sizes
                .iter()
                .map(|a| {
                    ((a - seen.level).max(0.0) * seen.scale - (a - expected.level).max(0.0) * expected.scale).abs()
                })
                .fold(0.0, f64::max);
            // the square root of a discriminant near 0 halves the digits
            assert!(difference < 1e-6, "{sizes:?} {radius} {sparsity}: {seen:?} {expected:?}");
            cases[if seen.scale == 1.0 { 0 } else { 1 + usize::from(seen.level == 0.0) }] += 1;
        }
        assert!(cases.iter().all(|&c| c > 500), "{cases:?}");
    }

    #[test]
    fn examples_of_the_projection() {
        let unit = (1i64 << 20) as f64;
        let grid = Grid::new(-20);
        let noisy: Vec<i64> = [3.0, 2.0, -0.5].iter().map(|v| (v * unit) as i64).collect();
        // radius 2, √s = 1.5: both norms bind
        let x = project_l1_l2_dense(&noisy, grid, 2.0, 2.25);
        for (seen, expected) in x.iter().zip([(0, 1.655_610_07), (1, 1.093_658_58), (2, -0.250_731_35)]) {
            assert!(seen.0 == expected.0 && (seen.1 - expected.1).abs() < 1e-8, "{x:?}");
        }
        // s = 1: the l1 ball alone
        assert_eq!(project_l1_l2_dense(&noisy, grid, 3.0, 1.0), [(0, 2.0), (1, 1.0)]);
        let noisy: Vec<i64> = [3.0, 1.0, -0.5].iter().map(|v| (v * unit) as i64).collect();
        assert_eq!(project_l1_l2_dense(&noisy, grid, 2.0, 1.0), [(0, 2.0)]);
        assert!(project_l1_l2_dense(&[], grid, 2.0, 1.0).is_empty());
    }

    #[test]
    fn a_wide_vector_needs_few_coordinates() {
        // d = 300, σ = .15, s = 4, means (.9, .3): mean level .2691
        let grid = Grid::new(-20);
        let noise = RoundedGaussian::new(0.15, grid).unwrap();
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        let unit = (1u64 << 20) as f64;
        let touched = [(0u64, (0.9 * unit) as i64), (1, (0.3 * unit) as i64)];
        let (n, mut levels) = (4000, 0.0);
        for _ in 0..n {
            let mut largest = Descending::new(&noise, 300, &touched, &mut stream);
            let s = shrinkage(|| largest.next(&mut stream).map(|entry| grid.to_f64(entry.1).abs()), 1.0, 4.0);
            levels += s.level;
        }
        // the level's standard deviation is below .03
        assert!((levels / f64::from(n) - 0.2691).abs() < 0.003, "{}", levels / f64::from(n));
        let x = project_l1_l2(&noise, 1_000_000_000_000, &[], 1.0, 16.0, &mut stream);
        assert!(x.len() < 2000 && x.iter().map(|e| e.1.abs()).sum::<f64>() <= 4.0 + 1e-9);
    }
}
