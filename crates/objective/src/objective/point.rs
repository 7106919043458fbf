//! Where a gradient is asked for, and what it looks like.

use crate::records::Row;

/// A point whose coordinates are read one by one: weights in memory, or weights whose noise is drawn when they are read.
pub trait Point {
    /// Coordinate `at`. A second read in a step gives the same value.
    fn read(&mut self, at: usize) -> f64;

    /// ⟨line, row⟩ of line `line`, lines being `width` long.
    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        let each = row.columns().iter().zip(row.values());
        each.map(|(&j, &x)| f64::from(x) * self.read(line * width + j as usize)).sum()
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
        row.columns().iter().zip(row.values()).map(|(&j, &x)| f64::from(x) * line[j as usize]).sum()
    }

    /// Four lines at a time: a sum waits for each of its additions, four sums wait together.
    #[inline]
    fn scores(&mut self, scores: &mut [f64], width: usize, row: Row<'_>) {
        let mut lines = self.chunks_exact(width.max(1));
        let mut fours = scores.chunks_exact_mut(4);
        for four in &mut fours {
            let (Some(a), Some(b), Some(c), Some(d)) = (lines.next(), lines.next(), lines.next(), lines.next()) else {
                return;
            };
            let mut sums = [0.0; 4];
            for (&j, &x) in row.columns().iter().zip(row.values()) {
                let (j, x) = (j as usize, f64::from(x));
                sums[0] += x * a[j];
                sums[1] += x * b[j];
                sums[2] += x * c[j];
                sums[3] += x * d[j];
            }
            four.copy_from_slice(&sums);
        }
        for (score, line) in fours.into_remainder().iter_mut().zip(lines) {
            *score = row.columns().iter().zip(row.values()).map(|(&j, &x)| f64::from(x) * line[j as usize]).sum();
        }
    }

    fn whole<'a>(&'a mut self, _: usize, _: &'a mut Vec<f64>) -> &'a [f64] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_several_lines_are_those_of_each() {
        let columns: Vec<u32> = (0..40).filter(|j| j % 3 != 1).collect();
        let values: Vec<f32> = columns.iter().map(|&j| (j as f32 * 0.37).sin()).collect();
        let row = Row::new(&columns, &values).unwrap();
        let weights: Vec<f64> = (0..11 * 40).map(|at| f64::from(at).cos() * 10.0).collect();
        for lines in 0..=11 {
            let (mut scores, mut point) = (vec![9.0; lines], &weights[..]);
            point.scores(&mut scores, 40, row);
            let each: Vec<f64> = (0..lines).map(|line| point.score(line, 40, row)).collect();
            assert_eq!(scores, each);
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
