//! Where a gradient is asked for, and what it looks like.

use crate::records::Row;
use dpopt_lanes::{LaneSum, dot, dot_at, dots};

/// A point whose coordinates are read one by one: weights in memory, or weights whose noise is drawn when they are read.
pub trait Point {
    /// Coordinate `at`. A second read in a step gives the same value.
    fn read(&mut self, at: usize) -> f64;

    /// ⟨line, row⟩ of line `line`, lines being `width` long.
    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        let mut sum = LaneSum::default();
        for (&j, &x) in row.columns().iter().zip(row.values()) {
            sum.add(j as usize, f64::from(x) * self.read(line * width + j as usize));
        }
        sum.total()
    }

    /// The scores of the first lines, as many as `scores` has room for: each what [`score`](Self::score) says of it, bit for bit.
    #[inline]
    fn scores(&mut self, scores: &mut [f64], width: usize, row: Row<'_>) {
        for (line, score) in scores.iter_mut().enumerate() {
            *score = self.score(line, width, row);
        }
    }

    /// All of its `dimension` coordinates, in `buffer` if they don't lie side by side anyway.
    fn whole<'a>(&'a mut self, dimension: usize, buffer: &'a mut Vec<f64>) -> &'a [f64] {
        buffer.clear();
        buffer.extend((0..dimension).map(|at| self.read(at)));
        buffer
    }
}

impl Point for &[f64] {
    #[inline]
    fn read(&mut self, at: usize) -> f64 {
        self[at]
    }

    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        let line = &self[line * width..(line + 1) * width];
        if row.fills(width) { dot(row.values(), line) } else { dot_at(row.columns(), row.values(), line) }
    }

    #[inline]
    fn scores(&mut self, scores: &mut [f64], width: usize, row: Row<'_>) {
        if row.fills(width) {
            dots(row.values(), self, width, scores);
            return;
        }
        for (score, line) in scores.iter_mut().zip(self.chunks_exact(width.max(1))) {
            *score = dot_at(row.columns(), row.values(), line);
        }
    }

    fn whole<'a>(&'a mut self, _: usize, _: &'a mut Vec<f64>) -> &'a [f64] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point that is read number by number.
    struct OneByOne(Vec<f64>);

    impl Point for OneByOne {
        fn read(&mut self, at: usize) -> f64 {
            self.0[at]
        }
    }

    #[test]
    fn scores_have_the_same_bits_however_a_row_and_a_point_are_stored() {
        for width in [1, 7, 15, 16, 40, 64, 100] {
            let all: Vec<u32> = (0..width as u32).collect();
            let value = |j: u32| if j % 3 == 1 { 0.0 } else { (j as f32 * 0.37).sin() };
            let stored: Vec<f32> = all.iter().map(|&j| value(j)).collect();
            let columns: Vec<u32> = all.iter().copied().filter(|&j| value(j) != 0.0).collect();
            let values: Vec<f32> = columns.iter().map(|&j| value(j)).collect();
            let (full, gaps) = (Row::new(&all, &stored).unwrap(), Row::new(&columns, &values).unwrap());
            assert!(full.fills(width) && (width == 1 || !gaps.fills(width)));
            let weights: Vec<f64> = (0..11 * width).map(|at| (at as f64).cos() * 10.0).collect();
            let mut read = OneByOne(weights.clone());
            for lines in 0..=11 {
                let (mut of_full, mut of_gaps, mut point) = (vec![9.0; lines], vec![9.0; lines], &weights[..]);
                point.scores(&mut of_full, width, full);
                point.scores(&mut of_gaps, width, gaps);
                let each: Vec<f64> = (0..lines).map(|line| point.score(line, width, full)).collect();
                let one_by_one: Vec<f64> = (0..lines).map(|line| read.score(line, width, gaps)).collect();
                assert!(of_full == of_gaps && of_full == each && of_full == one_by_one, "{width}");
            }
        }
    }
}

/// A record's gradient in one of the forms that are cheap to clip. Entries that are not finite count as 0, and those outside the
/// dimension as if they were not there; an outer product of several lines with such a slope, or that does not fit, is 0 as a whole.
#[derive(Debug)]
pub enum Gradient<'a> {
    /// The record contributes nothing.
    Zero,
    /// slope ⊗ row: coordinate line·width + column has slope_line·value_column.
    Outer {
        /// One number for each line.
        slope: &'a [f64],
        /// Length of a line.
        width: usize,
        /// The entries of the row, shared by all lines.
        row: Row<'a>,
    },
    /// `values[k]` at `places[k]`, all others 0. Equal places add up; increasing ones are fastest.
    Entries {
        /// The coordinates of the values.
        places: &'a [usize],
        /// The values at these places, as many; may be overwritten.
        values: &'a mut [f64],
    },
    /// All coordinates; may be overwritten.
    Dense(&'a mut [f64]),
}

impl Gradient<'_> {
    /// Adds all entries to a vector.
    pub fn add_to(&self, sum: &mut [f64]) {
        self.for_each(|at, value| {
            if let Some(entry) = sum.get_mut(at).filter(|_| value.is_finite()) {
                *entry += value;
            }
        });
    }

    /// Places and values of all entries, as they are put: some may not be finite or lie outside the dimension, and equal places add up.
    pub(super) fn for_each(&self, mut add: impl FnMut(usize, f64)) {
        match self {
            Self::Zero => {}
            Self::Outer { width, row, .. } if !row.fits(*width) => {}
            Self::Outer { slope, width, row } => {
                for (line, c) in slope.iter().enumerate() {
                    for (&j, &x) in row.columns().iter().zip(row.values()) {
                        add(line * width + j as usize, c * f64::from(x));
                    }
                }
            }
            Self::Entries { places, values } => places.iter().zip(values.iter()).for_each(|(&at, &v)| add(at, v)),
            Self::Dense(values) => values.iter().enumerate().for_each(|(at, &v)| add(at, v)),
        }
    }
}
