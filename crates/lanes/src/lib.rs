//! Products of rows of `f32` with vectors of `f64`, in eight running sums at once.
//!
//! A single running sum waits for each of its additions; eight wait together, and a processor with wide registers adds them in one
//! instruction. **A result has the same bits on every processor and whichever of the functions made it**: entry `j` of a row goes to sum
//! `j mod 8`, in the order of the entries, the eight are added in one fixed order, and no product is fused with an addition. So a row has
//! the same score whether its zeros are stored or not, and wherever it stands among other rows.

pub mod gram;

use pulp::{Arch, Simd};
use std::sync::LazyLock;

/// Running sums.
const LANES: usize = 8;

/// What this processor has, looked up once.
static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);

/// Rows of fewer entries are shorter than the way to the wide registers.
const SHORT: usize = 16;

/// 1.5·2^52: what is added to it and is smaller than 2^51 stands in its last bits, as an integer.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Whole numbers below this are found in the last bits of a sum with the magic number.
const MOST: f64 = (1u64 << 51) as f64;

/// Whether products of `scale` may be truncated in wide registers: whole parts below 2^51, and nothing that is no number, whose bits would be added as they are (a
/// cast gives 0). Without wide registers a whole part is not one instruction.
#[inline]
fn is_wide(scale: f64, bound: f64) -> bool {
    scale.is_finite() && bound < MOST && !matches!(*ARCH, Arch::Scalar)
}

#[inline(always)]
fn total(sums: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// ⟨values, line⟩ of a row whose entries are `values`, one for each column.
#[inline]
pub fn dot(values: &[f32], line: &[f64]) -> f64 {
    if values.len() < SHORT { dot_in_lanes(values, line) } else { dot_wide(values, line) }
}

#[pulp::with_simd(dot_wide = *ARCH)]
#[inline(always)]
fn dot_of<S: Simd>(_simd: S, values: &[f32], line: &[f64]) -> f64 {
    dot_in_lanes(values, line)
}

#[inline(always)]
fn dot_in_lanes(values: &[f32], line: &[f64]) -> f64 {
    let line = &line[..values.len()];
    let mut sums = [0.0; LANES];
    let ((values, values_left), (line, line_left)) = (values.as_chunks::<LANES>(), line.as_chunks::<LANES>());
    for (x, w) in values.iter().zip(line) {
        for lane in 0..LANES {
            sums[lane] += f64::from(x[lane]) * w[lane];
        }
    }
    for (lane, (&x, &w)) in values_left.iter().zip(line_left).enumerate() {
        sums[lane] += f64::from(x) * w;
    }
    total(sums)
}

/// ⟨row, line⟩ of a row with `values` at `columns`: what [`dot`] gives where the entries between them are stored as zeros.
#[inline]
pub fn dot_at(columns: &[u32], values: &[f32], line: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (&j, &x) in columns.iter().zip(values) {
        sums[j as usize % LANES] += f64::from(x) * line[j as usize];
    }
    total(sums)
}

/// Adds products of a row in the order of [`dot_at`], for weights that are no vector in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneSum([f64; LANES]);

impl LaneSum {
    /// Adds the product of column `j`.
    #[inline]
    pub fn add(&mut self, j: usize, product: f64) {
        self.0[j % LANES] += product;
    }

    /// The sum of all products.
    #[inline]
    pub fn total(self) -> f64 {
        total(self.0)
    }
}

/// [`dot`] with each of the first lines of `lines`, which are `width` long, as many as `scores` has room for; the row has `width` entries.
#[inline]
pub fn dots(values: &[f32], lines: &[f64], width: usize, scores: &mut [f64]) {
    if let [score] = scores {
        *score = dot(values, lines);
    } else {
        dots_wide(values, lines, width, scores);
    }
}

#[pulp::with_simd(dots_wide = *ARCH)]
#[inline(always)]
fn dots_of<S: Simd>(_simd: S, values: &[f32], lines: &[f64], width: usize, scores: &mut [f64]) {
    let mut lines = lines.chunks_exact(width.max(1));
    let mut pairs = scores.chunks_exact_mut(2);
    for pair in &mut pairs {
        let (Some(a), Some(b)) = (lines.next(), lines.next()) else { return };
        let (mut of_a, mut of_b) = ([0.0; LANES], [0.0; LANES]);
        let (values, values_left) = values.as_chunks::<LANES>();
        let ((a, a_left), (b, b_left)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for ((x, a), b) in values.iter().zip(a).zip(b) {
            for lane in 0..LANES {
                let x = f64::from(x[lane]);
                of_a[lane] += x * a[lane];
                of_b[lane] += x * b[lane];
            }
        }
        for (lane, ((&x, &a), &b)) in values_left.iter().zip(a_left).zip(b_left).enumerate() {
            of_a[lane] += f64::from(x) * a;
            of_b[lane] += f64::from(x) * b;
        }
        pair.copy_from_slice(&[total(of_a), total(of_b)]);
    }
    for (score, line) in pairs.into_remainder().iter_mut().zip(lines) {
        *score = dot_in_lanes(values, line);
    }
}

/// Σv² of a row, in eight running sums by the place of the entry. Squares of `f32` are exact, so that no order errs by more than
/// (entries)·2^-53 relatively.
#[inline]
pub fn squared_norm(values: &[f32]) -> f64 {
    if values.len() < SHORT { squared_in_lanes(values) } else { squared_wide(values) }
}

#[pulp::with_simd(squared_wide = *ARCH)]
#[inline(always)]
fn squared_of<S: Simd>(_simd: S, values: &[f32]) -> f64 {
    squared_in_lanes(values)
}

#[inline(always)]
fn squared_in_lanes(values: &[f32]) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (chunks, left) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += f64::from(chunk[lane]) * f64::from(chunk[lane]);
        }
    }
    let left: f64 = left.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    sums.iter().sum::<f64>() + left
}

/// Σv² of a vector, in eight running sums by the place of the entry; a square errs by 2^-53 relatively, unless it is below 2^-1022.
#[inline]
pub fn squared_norm_of(values: &[f64]) -> f64 {
    if values.len() < SHORT { norm_in_lanes(values) } else { norm_wide(values) }
}

#[pulp::with_simd(norm_wide = *ARCH)]
#[inline(always)]
fn norm_of<S: Simd>(_simd: S, values: &[f64]) -> f64 {
    norm_in_lanes(values)
}

#[inline(always)]
fn norm_in_lanes(values: &[f64]) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (chunks, left) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sums[lane] += chunk[lane] * chunk[lane];
        }
    }
    total(sums) + left.iter().map(|v| v * v).sum::<f64>()
}

/// cells += trunc(scale·values), modulo 2^64, cell by cell, of a vector: [`add_truncated`] of `f64`.
#[inline]
pub fn add_truncated_of(values: &[f64], scale: f64, bound: f64, cells: &mut [i64]) {
    debug_assert!(!values.iter().any(|&x| (scale * x).abs() > bound));
    if values.len() < SHORT || !is_wide(scale, bound) {
        for (cell, &x) in cells.iter_mut().zip(values) {
            *cell = cell.wrapping_add((scale * x) as i64);
        }
    } else {
        add_vector_wide(values, scale, cells);
    }
}

#[pulp::with_simd(add_vector_wide = *ARCH)]
#[inline(always)]
fn add_vector<S: Simd>(_simd: S, values: &[f64], scale: f64, cells: &mut [i64]) {
    for (cell, &x) in cells.iter_mut().zip(values) {
        let whole = (scale * x).trunc();
        *cell = cell.wrapping_add(((whole + MAGIC).to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64));
    }
}

/// cells += trunc(scale·values), modulo 2^64, cell by cell. `bound` is at least the size of every product, which the caller has proved; below 2^51 it
/// is fastest.
#[inline]
pub fn add_truncated(values: &[f32], scale: f64, bound: f64, cells: &mut [i64]) {
    debug_assert!(!values.iter().any(|&x| (scale * f64::from(x)).abs() > bound));
    if values.len() < SHORT || !is_wide(scale, bound) {
        for (cell, &x) in cells.iter_mut().zip(values) {
            *cell = cell.wrapping_add((scale * f64::from(x)) as i64);
        }
    } else {
        add_truncated_wide(values, scale, cells);
    }
}

/// For products below 2^51: what is added to the magic number is its whole part, so that the sum is exact.
#[pulp::with_simd(add_truncated_wide = *ARCH)]
#[inline(always)]
fn add_row<S: Simd>(_simd: S, values: &[f32], scale: f64, cells: &mut [i64]) {
    for (cell, &x) in cells.iter_mut().zip(values) {
        let whole = (scale * f64::from(x)).trunc();
        *cell = cell.wrapping_add(((whole + MAGIC).to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64));
    }
}

/// [`add_truncated`] for each line of `cells`, which are as long as the row, with its own of `scales`, all multiplied by `factor`.
#[inline]
pub fn add_truncated_lines(values: &[f32], scales: &[f64], factor: f64, bound: f64, cells: &mut [i64]) {
    if values.len() < SHORT || !scales.iter().all(|scale| is_wide(scale * factor, bound)) {
        for (line, &scale) in cells.chunks_exact_mut(values.len().max(1)).zip(scales) {
            add_truncated(values, scale * factor, bound, line);
        }
    } else {
        add_truncated_lines_wide(values, scales, factor, cells);
    }
}

#[pulp::with_simd(add_truncated_lines_wide = *ARCH)]
#[inline(always)]
fn add_truncated_lines_of<S: Simd>(simd: S, values: &[f32], scales: &[f64], factor: f64, cells: &mut [i64]) {
    for (line, &scale) in cells.chunks_exact_mut(values.len()).zip(scales) {
        add_row(simd, values, scale * factor, line);
    }
}

/// sums += scale·values, entry by entry.
#[inline]
pub fn add_scaled(values: &[f32], scale: f64, sums: &mut [f64]) {
    if values.len() < SHORT {
        sums.iter_mut().zip(values).for_each(|(sum, &x)| *sum += scale * f64::from(x));
    } else {
        add_scaled_wide(values, scale, sums);
    }
}

#[pulp::with_simd(add_scaled_wide = *ARCH)]
#[inline(always)]
fn add_scaled_of<S: Simd>(_simd: S, values: &[f32], scale: f64, sums: &mut [f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, &x)| *sum += scale * f64::from(x));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = f32> {
        prop_oneof![8 => -10.0..10.0f32, 2 => Just(0.0), 1 => Just(-0.0), 1 => -1e30..1e30f32, 1 => -1e-40..1e-40f32]
    }

    /// A row, three lines of weights for it, and a scale.
    fn rows() -> impl Strategy<Value = (Vec<f32>, Vec<f64>, f64)> {
        (0..150usize).prop_flat_map(|d| {
            (prop::collection::vec(numbers(), d), prop::collection::vec(-1e3..1e3f64, 3 * d), -1e3..1e3f64)
        })
    }

    proptest! {
        #[test]
        fn every_way_to_a_product_has_the_same_bits((row, lines, _) in rows()) {
            let d = row.len();
            let line = &lines[..d];
            let bits = dot_in_lanes(&row, line).to_bits();
            prop_assert_eq!(dot_wide(&row, line).to_bits(), bits);
            prop_assert_eq!(dot(&row, line).to_bits(), bits);
            // zeros that are not stored, read number by number too
            let columns: Vec<u32> = (0..d as u32).filter(|&j| row[j as usize] != 0.0).collect();
            let values: Vec<f32> = columns.iter().map(|&j| row[j as usize]).collect();
            prop_assert_eq!(dot_at(&columns, &values, line).to_bits(), bits);
            let mut sum = LaneSum::default();
            columns.iter().zip(&values).for_each(|(&j, &x)| sum.add(j as usize, f64::from(x) * line[j as usize]));
            prop_assert_eq!(sum.total().to_bits(), bits);
            for count in 1..=3 {
                let mut scores = vec![0.0; count];
                dots(&row, &lines, d, &mut scores);
                for (k, score) in scores.iter().enumerate() {
                    prop_assert_eq!(score.to_bits(), dot(&row, &lines[k * d..(k + 1) * d]).to_bits());
                }
            }
            // and it is the product
            let exact: f64 = row.iter().zip(line).map(|(&x, w)| f64::from(x) * w).sum();
            let size: f64 = row.iter().zip(line).map(|(&x, w)| (f64::from(x) * w).abs()).sum();
            prop_assert!((f64::from_bits(bits) - exact).abs() <= 1e-13 * size);
        }

        #[test]
        fn sums_are_those_of_single_entries((row, lines, scale) in rows()) {
            let (mut sums, mut one_by_one) = (lines[..row.len()].to_vec(), lines[..row.len()].to_vec());
            add_scaled(&row, scale, &mut sums);
            one_by_one.iter_mut().zip(&row).for_each(|(sum, &x)| *sum += scale * f64::from(x));
            prop_assert_eq!(sums, one_by_one);
            prop_assert_eq!(squared_wide(&row).to_bits(), squared_in_lanes(&row).to_bits());
            prop_assert_eq!(squared_norm(&row).to_bits(), squared_in_lanes(&row).to_bits());
            // casts, with and without a bound below 2^51
            for scale in [scale, scale * 1e-21] {
                let bound = row.iter().map(|&x| (scale * f64::from(x)).abs()).fold(0.0, f64::max);
                let mut cells: Vec<i64> = (0..row.len() as i64).map(|j| j.wrapping_mul(i64::MAX / 7)).collect();
                let mut cast = cells.clone();
                add_truncated(&row, scale, bound, &mut cells);
                cast.iter_mut().zip(&row).for_each(|(c, &x)| *c = c.wrapping_add((scale * f64::from(x)) as i64));
                prop_assert_eq!(&cells, &cast);
                let wide: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
                let mut of_vector: Vec<i64> = (0..row.len() as i64).map(|j| j.wrapping_mul(i64::MAX / 7)).collect();
                add_truncated_of(&wide, scale, bound, &mut of_vector);
                prop_assert_eq!(&of_vector, &cast);
                prop_assert_eq!(norm_wide(&wide).to_bits(), norm_in_lanes(&wide).to_bits());
                let exact: f64 = wide.iter().map(|v| v * v).sum();
                prop_assert!((squared_norm_of(&wide) - exact).abs() <= 1e-13 * exact);
                let scales = [1.0, -0.5, 0.25];
                let mut lines: Vec<i64> = [&cells[..], &cells, &cells].concat();
                let mut each = lines.clone();
                add_truncated_lines(&row, &scales, scale, bound, &mut lines);
                each.chunks_exact_mut(row.len().max(1)).zip(scales).for_each(|(line, s)| add_truncated(&row, s * scale, bound, line));
                prop_assert_eq!(&lines, &each);
            }
        }
    }

    #[test]
    fn what_is_no_number_adds_nothing() {
        for scale in [f64::NAN, f64::INFINITY] {
            let mut cells = vec![7; 2 * SHORT];
            add_truncated(&[0.0; SHORT], scale, 0.0, &mut cells[..SHORT]);
            add_truncated_of(&[0.0; SHORT], scale, 0.0, &mut cells[..SHORT]);
            add_truncated_lines(&[0.0; SHORT], &[1.0, scale], scale, 0.0, &mut cells);
            assert_eq!(cells, vec![7; 2 * SHORT], "{scale}");
        }
    }

    #[test]
    fn whole_parts_are_right_up_to_the_bound() {
        for x in [0.0, 0.5, 1.0 - 2f64.powi(-53), 1.0, 1e9 + 0.75, MOST - 1.0, MOST - 0.25] {
            for scale in [x, -x] {
                let mut cells = vec![0; SHORT];
                add_truncated(&[1.0; SHORT], scale, scale.abs(), &mut cells);
                assert_eq!(cells, vec![scale as i64; SHORT], "{scale}");
            }
        }
    }
}
