//! Least squares in {‖x‖₁ ≤ r√s, ‖x‖₂ ≤ r} from a noisy random projection, by accelerated projected gradients (Beck and
//! Teboulle 2009, with the restart of O'Donoghue and Candès 2015).
//!
//! It takes the place of the "shortest x with Gx = b" of Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024, Algorithm 2: the set
//! is where the sum is known to lie, and the answer fits at least as well as the truth, which is all that the error bound uses.

use super::sparse_sum::Projection;
use dpopt_draws::{SKETCH_EXPONENT, Sketch, project_l1_l2_dense};
use dpopt_kernel::beside::merge_equal;
use dpopt_noise::Grid;
use dpopt_process::in_threads;
use rayon::prelude::*;

/// Entries of the matrix that are kept in memory (4 bytes each: 512 MiB); columns of a larger one are drawn again whenever
/// they are read.
const MAX_KEPT: u64 = 1 << 27;
/// The solver stops when its objective is within this share of what the error bound allows for noise.
pub const SOLVER_SHARE: f64 = 0.01;
/// Steps at most: a step reads the whole matrix.
const MAX_STEPS: usize = 300;
/// Columns of G that one task of a thread takes.
const BLOCK: u64 = 256;

/// What recovery starts from: b = Gx + noise.
pub(crate) struct Measured<'a> {
    pub(crate) sketch: &'a Sketch,
    /// The noisy image b.
    pub(crate) image: &'a [f64],
    /// Standard deviation of each entry's noise.
    pub(crate) noise_std: f64,
    /// Number d of coordinates.
    pub(crate) dimension: u64,
}

/// Columns of G, from memory where they fit.
struct Columns<'a> {
    sketch: &'a Sketch,
    kept: Option<Vec<f32>>,
}

impl<'a> Columns<'a> {
    fn new(sketch: &'a Sketch, dimension: u64) -> Self {
        let m = sketch.rows();
        let kept = (dimension.saturating_mul(m as u64) <= MAX_KEPT).then(|| {
            let mut all = vec![0f32; dimension as usize * m];
            let fill = |quanta: &mut Vec<i32>, (j, column): (usize, &mut [f32])| {
                sketch.column(j as u64, quanta);
                scaled(quanta, column);
            };
            in_threads(|| all.par_chunks_mut(m).enumerate().for_each_init(|| vec![0i32; m], fill));
            all
        });
        Self { sketch, kept }
    }

    /// Column j, in `buffer` if it is not kept.
    fn column<'b>(&'b self, j: u64, quanta: &mut [i32], buffer: &'b mut [f32]) -> &'b [f32] {
        let m = self.sketch.rows();
        match &self.kept {
            Some(all) => &all[j as usize * m..(j as usize + 1) * m],
            None => {
                self.sketch.column(j, quanta);
                scaled(quanta, buffer);
                buffer
            }
        }
    }

    /// The image Gx.
    fn image(&self, x: &[(u64, f64)]) -> Vec<f64> {
        let m = self.sketch.rows();
        let (mut quanta, mut buffer, mut out) = (vec![0i32; m], vec![0f32; m], vec![0.0; m]);
        for &(j, value) in x {
            let column = self.column(j, &mut quanta, &mut buffer);
            out.iter_mut().zip(column).for_each(|(o, &g)| *o += value * f64::from(g));
        }
        out
    }

    /// The product Gᵀr with a residual r.
    fn adjoint(&self, residual: &[f64], dimension: u64) -> Vec<f64> {
        let m = self.sketch.rows();
        let mut out = vec![0.0; dimension as usize];
        let fill = |(block, part): (usize, &mut [f64])| {
            let (mut quanta, mut buffer) = (vec![0i32; m], vec![0f32; m]);
            for (k, cell) in part.iter_mut().enumerate() {
                let column = self.column(block as u64 * BLOCK + k as u64, &mut quanta, &mut buffer);
                *cell = residual.iter().zip(column).map(|(r, &g)| r * f64::from(g)).sum();
            }
        };
        in_threads(|| out.par_chunks_mut(BLOCK as usize).enumerate().for_each(fill));
        out
    }
}

fn scaled(quanta: &[i32], out: &mut [f32]) {
    let step = 2f32.powi(SKETCH_EXPONENT);
    out.iter_mut().zip(quanta).for_each(|(o, &u)| *o = u as f32 * step);
}

/// Euclidean projection of x on the set, through integers fine against its radius.
fn projected(x: &[f64], set: Projection) -> Vec<(u64, f64)> {
    let largest = x.iter().fold(set.radius, |m, v| m.max(v.abs()));
    let grid = Grid::new(largest.log2().ceil() as i32 - 50);
    let quanta: Vec<i64> = x.iter().map(|v| (v / grid.step()) as i64).collect();
    project_l1_l2_dense(&quanta, grid, set.radius, set.sparsity)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// a + c·b, entry by entry.
fn combined(a: &[f64], c: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x + c * y).collect()
}

/// a − b for sparse vectors by increasing index.
fn difference(a: &[(u64, f64)], b: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut out: Vec<(u64, f64)> = a.iter().copied().chain(b.iter().map(|&(j, v)| (j, -v))).collect();
    merge_equal(&mut out, |a, b| a + b);
    out
}

/// x in the set with ‖Gx − b‖² about least: (index, value), increasing.
pub(crate) fn recover(measured: &Measured<'_>, set: Projection) -> Vec<(u64, f64)> {
    let Measured { sketch, image: b, noise_std, dimension } = *measured;
    let columns = Columns::new(sketch, dimension);
    let m = sketch.rows() as f64;
    let l1_radius = set.radius * set.sparsity.sqrt();
    // the error bound has 4·r₁·‖Gᵀw‖∞, w the noise, ‖Gᵀw‖∞ about ‖w‖·√(2 ln 2d)
    let noise = noise_std * m.sqrt() * (2.0 * (2.0 * dimension as f64).ln()).sqrt();
    let enough = SOLVER_SHARE * 2.0 * l1_radius * noise;
    let mut x: Vec<(u64, f64)> = Vec::new();
    let mut image_x = vec![0.0; b.len()];
    // y = x + carry·(x − before): the point whose gradient is taken
    let mut y = vec![0.0; dimension as usize];
    let mut image_y = image_x.clone();
    let (mut momentum, mut carry, mut curvature) = (1.0f64, 0.0, m);
    for _ in 0..MAX_STEPS {
        let residual = combined(&image_y, -1.0, b);
        let gradient = columns.adjoint(&residual, dimension);
        // by convexity f(y) is at most this much above the least value on the set
        let gap = dot(&gradient, &y) + l1_radius * gradient.iter().fold(0.0, |g: f64, v| g.max(v.abs()));
        if gap <= enough {
            if carry == 0.0 {
                return x;
            }
            // y may be outside the set; ask again at x
            y.fill(0.0);
            x.iter().for_each(|&(j, v)| y[j as usize] = v);
            (image_y, momentum, carry) = (image_x.clone(), 1.0, 0.0);
            continue;
        }
        let (next, image_next) = loop {
            let next = projected(&combined(&y, -1.0 / curvature, &gradient), set);
            let image_next = columns.image(&next);
            let moved = combined(&image_next, -1.0, &image_y);
            let mut distance = dot(&y, &y);
            for &(j, v) in &next {
                distance += v * (v - 2.0 * y[j as usize]);
            }
            // the quadratic model is an upper bound, or the step is as short as the matrix's norm can ask for
            if dot(&moved, &moved) <= curvature * distance || curvature > 16.0 * (m + dimension as f64) {
                break (next, image_next);
            }
            curvature *= 2.0;
        };
        let change = difference(&next, &x);
        // restart where the momentum points uphill: (y − next)·(next − x) > 0
        let uphill: f64 = change
            .iter()
            .map(|&(j, c)| {
                let at = next.binary_search_by_key(&j, |e| e.0).map_or(0.0, |i| next[i].1);
                (y[j as usize] - at) * c
            })
            .sum();
        let following = if uphill > 0.0 { 1.0 } else { 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) };
        carry = if uphill > 0.0 { 0.0 } else { (momentum - 1.0) / following };
        image_y = combined(&image_next, carry, &combined(&image_next, -1.0, &image_x));
        y.fill(0.0);
        next.iter().for_each(|&(j, v)| y[j as usize] = v);
        change.iter().for_each(|&(j, c)| y[j as usize] += carry * c);
        (x, image_x, momentum) = (next, image_next, following);
        curvature *= 0.95;
    }
    x
}
