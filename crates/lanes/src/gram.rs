//! Σ q qᵀ of rows that are rounded to whole numbers: exact, so that no order of additions and no fused product changes a bit of it.
//!
//! Rows whose squares add up to at most S have entries of at most √S, and a cell of the sum grows by at most S/2 (off the diagonal) or S with each row. Sums
//! of `f64` are exact below 2^53; before they could leave that they are carried into integers, which wrap.

use super::{ARCH, LANES, MAGIC};
use pulp::Simd;

/// Rows that are multiplied together.
const ROWS: usize = 64;

/// Lines of a tile of the sum; a tile has [`LANES`] columns.
const LINES: usize = 4;

/// So many numbers has a tile.
const TILE: usize = LINES * LANES;

/// How an entry becomes a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The nearest; of two the even one.
    Nearest,
    /// The nearest that is not larger in size.
    Truncated,
}

/// Σ q qᵀ of rows of whole numbers whose squares add up to at most a bound.
///
/// ```
/// use dpopt_lanes::gram::{Gram, Whole};
/// let mut gram = Gram::new(2, 1 << 10);
/// assert!(gram.add(&[0, 1], &[0.5, -2.0], 4.0, Whole::Nearest)); // 2 and -8
/// assert!(!gram.add(&[1], &[9.0], 4.0, Whole::Nearest)); // 36² is above 2^10
/// assert_eq!(gram.finish(), [4, -16, 64]);
/// ```
#[derive(Clone, Debug)]
pub struct Gram {
    width: usize,
    /// S: what the squares of a row add up to at most.
    most: f64,
    /// Rows for which a sum of `f64` has room.
    room: u64,
    /// Rows of the block that is being filled: entry j of row r is at `panels[j / LANES * ROWS + r][j % LANES]`.
    panels: Vec<[f64; LANES]>,
    filled: usize,
    /// Tiles of the sum of the last few blocks; none before the first block.
    near: Vec<[f64; TILE]>,
    in_near: u64,
    /// Entry (j, k), k ≤ j, is at j(j+1)/2 + k.
    sums: Vec<i64>,
    scratch: Vec<f64>,
}

impl Gram {
    /// Of rows with `width` entries whose squares add up to at most `most`, which is cut to 2^52.
    pub fn new(width: usize, most: u64) -> Self {
        let most = most.min(1 << 52);
        let panels = width.div_ceil(LANES);
        Self {
            width,
            most: most as f64,
            room: (1 << 53) / most.max(1),
            panels: vec![[0.0; LANES]; panels * ROWS],
            filled: 0,
            near: Vec::new(),
            in_near: 0,
            sums: vec![0; width * (width + 1) / 2],
            scratch: Vec::new(),
        }
    }

    /// Adds the row with `values` at increasing `columns`, each multiplied by `factor` and made whole; or nothing, where the squares of the whole numbers
    /// add up to more than the bound or are no numbers. That is decided exactly.
    #[inline]
    pub fn add(&mut self, columns: &[u32], values: &[f32], factor: f64, whole: Whole) -> bool {
        debug_assert!(columns.windows(2).all(|pair| pair[0] < pair[1]));
        if self.width == 0 {
            return true;
        }
        if values.len() == self.width && whole == Whole::Nearest {
            let squared = fill_wide(values, factor, &mut self.panels[self.filled..]);
            let fits = squared <= self.most;
            if fits {
                self.filled();
            }
            return fits;
        }
        self.scratch.clear();
        self.scratch.extend(values.iter().map(|&x| match whole {
            Whole::Nearest => nearest(f64::from(x) * factor),
            Whole::Truncated => (f64::from(x) * factor).trunc(),
        }));
        let fits = self.scratch.iter().map(|q| q * q).sum::<f64>() <= self.most;
        if fits && 4 * values.len() >= self.width {
            self.scatter(columns);
        } else if fits {
            self.add_pairs(columns);
        }
        fits
    }

    /// The row in `scratch` becomes the next one of the block.
    fn scatter(&mut self, columns: &[u32]) {
        for cells in self.panels[self.filled..].iter_mut().step_by(ROWS) {
            *cells = [0.0; LANES];
        }
        for (&j, &q) in columns.iter().zip(&self.scratch) {
            self.panels[j as usize / LANES * ROWS + self.filled][j as usize % LANES] = q;
        }
        self.filled();
    }

    /// The row in `scratch`, pair by pair.
    fn add_pairs(&mut self, columns: &[u32]) {
        for (a, (&j, &q)) in columns.iter().zip(&self.scratch).enumerate() {
            let line = &mut self.sums[j as usize * (j as usize + 1) / 2..][..=j as usize];
            for (&k, &r) in columns[..=a].iter().zip(&self.scratch) {
                let cell = &mut line[k as usize];
                *cell = cell.wrapping_add((q * r) as i64);
            }
        }
    }

    /// One more row of the block stands.
    #[inline]
    fn filled(&mut self) {
        self.filled += 1;
        if self.filled == ROWS {
            self.multiply();
        }
    }

    /// Adds the squares of the rows of the block.
    fn multiply(&mut self) {
        if self.filled == 0 {
            return;
        }
        if self.in_near + self.filled as u64 > self.room {
            self.carry();
        }
        if self.filled as u64 > self.room {
            // a bound of more than 2^53/64: a few rows at a time
            for row in 0..self.filled {
                self.multiply_rows(row, row + 1);
                self.carry();
            }
        } else {
            self.multiply_rows(0, self.filled);
            self.in_near += self.filled as u64;
        }
        self.filled = 0;
    }

    fn multiply_rows(&mut self, from: usize, to: usize) {
        let panels = self.width.div_ceil(LANES);
        self.near.resize(panels * (panels + 1), [0.0; TILE]);
        multiply_wide(&self.panels, from, to, &mut self.near);
    }

    /// Carries sums of `f64` into the integers.
    fn carry(&mut self) {
        let (width, sums) = (self.width, &mut self.sums);
        let mut tiles = self.near.iter_mut();
        for line in (0..width.next_multiple_of(LANES)).step_by(LANES) {
            for column in (0..=line).step_by(LANES) {
                for (half, tile) in tiles.by_ref().take(LANES / LINES).enumerate() {
                    for (i, numbers) in tile.as_chunks::<LANES>().0.iter().enumerate() {
                        let j = line + half * LINES + i;
                        if j >= width {
                            continue;
                        }
                        let cells = &mut sums[j * (j + 1) / 2..][..=j];
                        for (cell, q) in cells[column..].iter_mut().zip(numbers) {
                            *cell = cell.wrapping_add(*q as i64);
                        }
                    }
                    *tile = [0.0; TILE];
                }
            }
        }
        self.in_near = 0;
    }

    /// The sum: entry (j, k), k ≤ j, is at j(j+1)/2 + k.
    pub fn finish(mut self) -> Vec<i64> {
        self.multiply();
        self.carry();
        self.sums
    }
}

/// The nearest whole number, for sizes below 2^51.
#[inline(always)]
fn nearest(x: f64) -> f64 {
    (x + MAGIC) - MAGIC
}

/// Writes a row of whole numbers into the first row of `panels`, and says what its squares add up to.
#[pulp::with_simd(fill_wide = *ARCH)]
#[inline(always)]
fn fill<S: Simd>(_simd: S, values: &[f32], factor: f64, panels: &mut [[f64; LANES]]) -> f64 {
    let (chunks, left) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    let mut cells = panels.iter_mut().step_by(ROWS);
    for (chunk, cells) in chunks.iter().zip(&mut cells) {
        for lane in 0..LANES {
            let q = nearest(f64::from(chunk[lane]) * factor);
            cells[lane] = q;
            sums[lane] += q * q;
        }
    }
    let mut squared = sums.iter().sum::<f64>();
    if let Some(cells) = cells.next() {
        for (cell, &x) in cells.iter_mut().zip(left) {
            let q = nearest(f64::from(x) * factor);
            *cell = q;
            squared += q * q;
        }
    }
    squared
}

/// Adds the squares of rows `from..to` of `panels` to the tiles below the diagonal and on it, line by line.
#[pulp::with_simd(multiply_wide = *ARCH)]
#[inline(always)]
fn multiply_rows<S: Simd>(simd: S, panels: &[[f64; LANES]], from: usize, to: usize, near: &mut [[f64; TILE]]) {
    let mut tiles = near.iter_mut();
    for (line, lines) in panels.chunks_exact(ROWS).enumerate() {
        for columns in panels.chunks_exact(ROWS).take(line + 1) {
            for half in (0..LANES).step_by(LINES) {
                if let Some(tile) = tiles.next() {
                    multiply_tile(simd, &lines[from..to], half, &columns[from..to], tile);
                }
            }
        }
    }
}

#[inline(always)]
fn multiply_tile<S: Simd>(
    _simd: S,
    lines: &[[f64; LANES]],
    half: usize,
    columns: &[[f64; LANES]],
    tile: &mut [f64; TILE],
) {
    let mut sums = [[0.0; LANES]; LINES];
    for (x, y) in lines.iter().zip(columns) {
        for i in 0..LINES {
            for lane in 0..LANES {
                // exact either way; where there is no such instruction a fused product is slow
                let (x, y, sum) = (x[half + i], y[lane], sums[i][lane]);
                sums[i][lane] = if S::IS_SCALAR { x * y + sum } else { x.mul_add(y, sum) };
            }
        }
    }
    for (cell, sum) in tile.iter_mut().zip(sums.as_flattened()) {
        *cell += sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (Vec<u32>, Vec<f32>);

    /// Rows with some of so many columns.
    fn rows(width: usize) -> impl Strategy<Value = Vec<Row>> {
        let entry = prop_oneof![6 => -1.0..1.0f32, 1 => Just(0.0), 1 => Just(1.0), 1 => Just(-0.5), 1 => -1e3..1e3f32];
        let row = (prop::collection::vec(entry, width), 0..5u32).prop_map(|(values, kept)| {
            // all columns, every other one, every fourth, one
            let step = [1, 1, 2, 5, 97][kept as usize];
            (0..).zip(values).step_by(step).unzip()
        });
        prop::collection::vec(row, 0..200)
    }

    fn whole(x: f32, factor: f64, whole: Whole) -> i64 {
        match whole {
            Whole::Nearest => (f64::from(x) * factor).round_ties_even() as i64,
            Whole::Truncated => (f64::from(x) * factor) as i64,
        }
    }

    proptest! {
        #[test]
        fn sums_are_those_of_integers(
            (width, rows) in (1..40usize).prop_flat_map(|width| (Just(width), rows(width))),
            most in prop_oneof![0u64..1000, 1u64 << 30..1 << 52],
            size in 0.0..1.0f64,
        ) {
            let factor = size * (most as f64).sqrt();
            let mut gram = Gram::new(width, most);
            let mut expected = vec![0i64; width * (width + 1) / 2];
            for (i, (columns, values)) in rows.iter().enumerate() {
                let how = if i % 3 == 2 { Whole::Truncated } else { Whole::Nearest };
                let quanta: Vec<i64> = values.iter().map(|&x| whole(x, factor, how)).collect();
                let fits = quanta.iter().map(|q| i128::from(*q).pow(2)).sum::<i128>() <= i128::from(most);
                prop_assert_eq!(gram.add(columns, values, factor, how), fits);
                for (a, &j) in columns.iter().enumerate().filter(|_| fits) {
                    for (b, &k) in columns[..=a].iter().enumerate() {
                        let cell = &mut expected[j as usize * (j as usize + 1) / 2 + k as usize];
                        *cell = cell.wrapping_add(quanta[a] * quanta[b]);
                    }
                }
            }
            prop_assert_eq!(gram.finish(), expected);
        }
    }

    #[test]
    fn wide_and_plain_registers_give_the_same() {
        let values: Vec<f32> = (0..37).map(|j| ((j * j) as f32 * 0.37).sin()).collect();
        let mut wide = vec![[0.0; LANES]; 5 * ROWS];
        let mut plain = wide.clone();
        let scalar = pulp::Scalar::new();
        for row in 0..ROWS {
            let factor = 1e6 / (row + 1) as f64;
            let (a, b) =
                (fill_wide(&values, factor, &mut wide[row..]), fill(scalar, &values, factor, &mut plain[row..]));
            assert_eq!(a.to_bits(), b.to_bits());
        }
        assert_eq!(wide, plain);
        let (mut of_wide, mut of_plain) = (vec![[0.0; TILE]; 30], vec![[0.0; TILE]; 30]);
        multiply_wide(&wide, 3, ROWS, &mut of_wide);
        multiply_rows(scalar, &plain, 3, ROWS, &mut of_plain);
        assert_eq!(of_wide, of_plain);
        assert!(of_wide.iter().flatten().any(|x| *x != 0.0));
    }

    #[test]
    fn what_is_no_number_is_not_added() {
        for whole in [Whole::Nearest, Whole::Truncated] {
            for width in [2, 16] {
                let columns: Vec<u32> = (0..width).collect();
                for (value, factor) in
                    [(f32::NAN, 1.0), (f32::INFINITY, 1.0), (0.0, f64::INFINITY), (1.0, f64::NAN), (1e30, 1e300)]
                {
                    let mut gram = Gram::new(width as usize, 1 << 52);
                    assert!(!gram.add(&columns, &vec![value; width as usize], factor, whole));
                    assert!(gram.finish().iter().all(|cell| *cell == 0), "{value} {factor}");
                }
            }
        }
    }

    #[test]
    fn rows_without_entries_and_sums_without_rows_are_zero() {
        let mut gram = Gram::new(0, 1 << 40);
        assert!((0..2 * ROWS).all(|_| gram.add(&[], &[], 1.0, Whole::Nearest)));
        assert!(gram.finish().is_empty());
        // no tile is made where no row is multiplied
        let mut gram = Gram::new(100, 1 << 40);
        assert!(gram.add(&[7], &[3.0], 1.0, Whole::Nearest));
        assert!(gram.near.is_empty());
        gram.multiply();
        assert!(gram.near.is_empty());
        let sums = gram.finish();
        assert_eq!((sums.iter().sum::<i64>(), sums[7 * 8 / 2 + 7]), (9, 9));
    }

    /// The largest bound there is, reached again and again: no sum of floats loses a digit.
    #[test]
    fn rows_at_the_largest_bound_are_exact() {
        let mut gram = Gram::new(16, 1 << 52);
        let columns: Vec<u32> = (0..16).collect();
        let mut values = vec![0.0; 16];
        // odd, and its square below 2^52
        values[3] = (1u32 << 24) as f32 - 1.0;
        for _ in 0..150 {
            assert!(gram.add(&columns, &values, 3.0, Whole::Nearest));
        }
        let square = (3 * ((1i64 << 24) - 1)).pow(2);
        assert_eq!(gram.finish()[3 * 4 / 2 + 3], 150i64.wrapping_mul(square));
    }
}
