//! A preconditioner of conjugate gradients on sparse rows: the curvature of some of the rows, factored in single precision.
//!
//! It shows the way and proves nothing, so that it may be wrong in its last digits; those are the same for any number of threads and on every processor.

use super::sums::RegularizedSum;
use dpopt_lanes::{add_scaled, dot};
use dpopt_process::in_threads;
use dpopt_process::stop;
use pulp::{Arch, Simd};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::LazyLock;

static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);

/// Columns that are factored together.
const BLOCK: usize = 64;
/// A tile of the matrix has so many columns …
const COLUMNS: usize = 16;
/// … and so many lines.
const LINES: usize = 4;

/// Weights beyond which the matrix would take more than 150 MB.
const MAX_WEIGHTS: usize = 6144;
/// Rows of the sample, for each weight.
const ROWS_EACH: usize = 4;
/// Conjugate gradients with a diagonal preconditioner take some hundred products in all.
const USUAL_PRODUCTS: f64 = 500.0;
/// Nanoseconds of a product for each entry of a row; of an addition to the matrix; of a multiplication of the factorization.
const COSTS: [f64; 3] = [1.5, 1.0, 0.06];

/// (S·LLᵀ·S)⁻¹ with S the roots of a diagonal.
pub(super) struct Preconditioner {
    /// 1/S.
    scale: Vec<f64>,
    /// L, line by line, each as long as the next multiple of a block.
    lower: Vec<f32>,
}

impl Preconditioner {
    /// Whether to make it takes less than a third of what it is to spare.
    pub(super) fn pays(objective: &RegularizedSum<'_>) -> bool {
        let (n, d) = (objective.rows.len() as f64, objective.rows.columns());
        let (nonzeros, width) = (objective.rows.mean_nonzeros() as f64, d as f64);
        let sampled = n.min(ROWS_EACH as f64 * width);
        let [product, addition, multiplication] = COSTS;
        let made = sampled * nonzeros * nonzeros / 2.0 * addition + width.powi(3) / 6.0 * multiplication;
        d <= MAX_WEIGHTS && 3.0 * made <= USUAL_PRODUCTS * n * nonzeros * product
    }

    /// For a scalar loss with these curvatures; `None` where rounding leaves no factor.
    pub(super) fn of(objective: &RegularizedSum<'_>, curvatures: &[f64]) -> Option<Self> {
        let (n, d) = (objective.rows.len(), objective.rows.columns());
        let step = (n / (ROWS_EACH * d).max(1)).max(1);
        let stride = d.next_multiple_of(BLOCK);
        let mut lower = vec![0.0f32; stride * stride];
        stop::point();
        in_threads(|| {
            lower.par_chunks_mut(BLOCK * stride).enumerate().for_each(|(block, lines)| {
                add_curvature(objective, curvatures, step, block * BLOCK..(block + 1) * BLOCK, lines);
            });
        });
        let diagonal = |j: usize| f64::from(lower[j * stride + j]) * step as f64 + objective.regularization;
        let scale: Vec<f64> = (0..d).map(|j| diagonal(j).sqrt().recip()).collect();
        for (j, line) in lower.chunks_exact_mut(stride).enumerate() {
            let Some(&own) = scale.get(j) else {
                line[j] = 1.0;
                continue;
            };
            for (entry, other) in line[..j].iter_mut().zip(&scale) {
                *entry = (f64::from(*entry) * step as f64 * own * other) as f32;
            }
            // a little more than 1, for what single precision loses of small eigenvalues
            line[j] = 1.0 + 1e-5;
        }
        (scale.iter().all(|s| s.is_finite()) && factor(&mut lower, stride)).then_some(Self { scale, lower })
    }

    /// The preconditioned vector.
    pub(super) fn apply(&self, vector: &[f64]) -> Vec<f64> {
        let (d, stride) = (self.scale.len(), self.scale.len().next_multiple_of(BLOCK));
        let mut x: Vec<f64> = vector.iter().zip(&self.scale).map(|(v, s)| v * s).collect();
        let line = |j: usize| (&self.lower[j * stride..j * stride + j], f64::from(self.lower[j * stride + j]));
        for j in 0..d {
            let (before, own) = line(j);
            x[j] = (x[j] - dot(before, &x[..j])) / own;
        }
        for j in (0..d).rev() {
            let (before, own) = line(j);
            x[j] /= own;
            let (rest, last) = x.split_at_mut(j);
            add_scaled(before, -last[0], rest);
        }
        x.iter_mut().zip(&self.scale).for_each(|(x, s)| *x *= s);
        x
    }
}

/// Adds h·x xᵀ of every `step`-th row to the `lines` of a lower triangle.
fn add_curvature(
    objective: &RegularizedSum<'_>,
    curvatures: &[f64],
    step: usize,
    range: Range<usize>,
    lines: &mut [f32],
) {
    let stride = lines.len() / range.len();
    for i in (0..objective.rows.len()).step_by(step) {
        let (indices, values) = objective.rows.row(i);
        let first = indices.partition_point(|&j| (j as usize) < range.start);
        for (a, &j) in indices.iter().enumerate().skip(first) {
            let j = j as usize;
            if j >= range.end {
                break;
            }
            let (scale, line) = (curvatures[i] as f32 * values[a], &mut lines[(j - range.start) * stride..]);
            if j == a {
                line[..=a].iter_mut().zip(values).for_each(|(cell, &x)| *cell += scale * x);
                continue;
            }
            for (&k, &x) in indices[..=a].iter().zip(values) {
                line[k as usize] += scale * x;
            }
        }
    }
}

/// Factors a matrix of which the lower triangle is given, in place; false where a pivot is not positive. `stride` is a multiple of a block.
fn factor(lower: &mut [f32], stride: usize) -> bool {
    for from in (0..stride).step_by(BLOCK) {
        stop::point();
        let to = from + BLOCK;
        let Some(corner) = factor_corner(lower, stride, from) else { return false };
        let rest = &mut lower[to * stride..];
        in_threads(|| {
            rest.par_chunks_mut(COLUMNS * stride).for_each(|lines| {
                for line in lines.chunks_exact_mut(stride) {
                    divide(&corner, &mut line[from..to]);
                }
            });
            // transposed, in panels of lines: entry k of line j is at panels[j / COLUMNS * BLOCK + k][j % COLUMNS]
            let mut panels = vec![[0.0f32; COLUMNS]; rest.len() / stride / COLUMNS * BLOCK];
            for (j, line) in rest.chunks_exact(stride).enumerate() {
                for (cells, &x) in panels[j / COLUMNS * BLOCK..].iter_mut().zip(&line[from..to]) {
                    cells[j % COLUMNS] = x;
                }
            }
            rest.par_chunks_mut(COLUMNS * stride)
                .enumerate()
                .for_each(|(panel, lines)| subtract_wide(&panels, panel, &mut lines[to..], stride));
        });
    }
    true
}

/// Factors the block on the diagonal; its factor, transposed.
fn factor_corner(lower: &mut [f32], stride: usize, from: usize) -> Option<Vec<[f32; BLOCK]>> {
    let mut corner = vec![[0.0f32; BLOCK]; BLOCK];
    for (j, line) in lower[from * stride..].chunks_exact_mut(stride).take(BLOCK).enumerate() {
        let line = &mut line[from..from + BLOCK];
        // column k of the factor stands in corner[k], as far as line j
        for k in 0..j {
            let x = line[k] / corner[k][k];
            line[k] = x;
            for t in k + 1..j {
                line[t] -= x * corner[k][t];
            }
            corner[k][j] = x;
        }
        let pivot = line[j] - (0..j).map(|k| line[k] * line[k]).sum::<f32>();
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        line[j] = pivot.sqrt();
        corner[j][j] = line[j];
    }
    Some(corner)
}

/// Divides a line by the transposed factor of its columns.
fn divide(corner: &[[f32; BLOCK]], line: &mut [f32]) {
    for (k, column) in corner.iter().enumerate() {
        let x = line[k] / column[k];
        line[k] = x;
        line[k + 1..].iter_mut().zip(&column[k + 1..]).for_each(|(rest, c)| *rest -= x * c);
    }
}

/// Subtracts the products of a panel of lines with the panels up to its own, from these lines; `lines` begins at the first column of the rest.
#[pulp::with_simd(subtract_wide = *ARCH)]
#[inline(always)]
fn subtract<S: Simd>(simd: S, panels: &[[f32; COLUMNS]], panel: usize, lines: &mut [f32], stride: usize) {
    let own = &panels[panel * BLOCK..][..BLOCK];
    for (place, columns) in panels.chunks_exact(BLOCK).take(panel + 1).enumerate() {
        for first in (0..COLUMNS).step_by(LINES) {
            let products = multiply(simd, own, first, columns);
            for (i, line) in products.iter().enumerate() {
                let at = (first + i) * stride + place * COLUMNS;
                lines[at..at + COLUMNS].iter_mut().zip(line).for_each(|(cell, x)| *cell -= x);
            }
        }
    }
}

#[inline(always)]
fn multiply<S: Simd>(
    _simd: S,
    lines: &[[f32; COLUMNS]],
    first: usize,
    columns: &[[f32; COLUMNS]],
) -> [[f32; COLUMNS]; LINES] {
    let mut sums = [[0.0; COLUMNS]; LINES];
    for (x, y) in lines.iter().zip(columns) {
        for i in 0..LINES {
            for lane in 0..COLUMNS {
                sums[i][lane] += x[first + i] * y[lane];
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::records::Rows;

    fn entry(i: usize, j: usize) -> f32 {
        ((i * 31 + j * 17) as f32 * 0.731).sin()
    }

    #[test]
    fn the_factor_times_itself_is_the_matrix() {
        for d in [1usize, 63, 64, 65, 200] {
            let stride = d.next_multiple_of(BLOCK);
            let mut lower = vec![0.0f32; stride * stride];
            for j in 0..stride {
                for k in 0..=j {
                    lower[j * stride + k] = match (j < d, j == k) {
                        (true, true) => 1.0 + d as f32,
                        (true, false) => entry(j, k),
                        (false, same) => f32::from(same),
                    };
                }
            }
            let matrix = lower.clone();
            assert!(factor(&mut lower, stride));
            for j in 0..d {
                for k in 0..=j {
                    let product: f64 =
                        (0..=k).map(|t| f64::from(lower[j * stride + t]) * f64::from(lower[k * stride + t])).sum();
                    let expected = f64::from(matrix[j * stride + k]);
                    assert!((product - expected).abs() < 2e-6 * d as f64, "{d}: {j} {k} {product} {expected}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_has_no_factor() {
        let mut lower = vec![0.0f32; BLOCK * BLOCK];
        (0..BLOCK).for_each(|j| lower[j * BLOCK + j] = if j == 40 { -1.0 } else { 1.0 });
        assert!(!factor(&mut lower, BLOCK));
        lower[40 * BLOCK + 40] = f32::NAN;
        assert!(!factor(&mut lower, BLOCK));
    }

    /// The whole of a quadratic's curvature: applied to the image of a vector it gives the vector.
    #[test]
    fn of_all_rows_it_is_the_inverse() {
        let (n, d) = (300, 150);
        let mut rows = Rows::new(d);
        for i in 0..n {
            // some rows are whole, so that their lines are added at once
            let mut entries: Vec<(u32, f32)> =
                (0..d).filter(|j| i % 3 == 0 || (i + j) % 4 == 0).map(|j| (j as u32, entry(i, j))).collect();
            rows.push_clipped(&mut entries, 100.0);
        }
        let (targets, linear) = (vec![1.0; n], vec![0.0; d]);
        let objective = RegularizedSum {
            rows: &rows,
            targets: &targets,
            row_norm: 100.0,
            loss: Loss::Logistic { shift: 0.0 },
            regularization: 3.0,
            linear: &linear,
            target_bound: 2.0,
        };
        let curvatures: Vec<f64> = (0..n).map(|i| 0.01 + (i % 7) as f64 * 0.03).collect();
        let made = Preconditioner::of(&objective, &curvatures).expect("a factor");
        let x: Vec<f64> = (0..d).map(|j| f64::from(entry(j, 5))).collect();
        let image = objective.hessian_product(&super::super::Curvature::Scalar(curvatures), &x);
        let back = made.apply(&image);
        let error = back.iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error < 1e-3, "{error}");
    }
}
