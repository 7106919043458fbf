//! Where a gradient is asked for, and what it looks like.

use crate::records::Row;

/// A point whose coordinates are read one by one: weights in memory, or weights whose noise is drawn when somebody looks.
pub trait Point {
    /// Coordinate `at`. A second read in a step gives the same value.
    fn read(&mut self, at: usize) -> f64;

    /// ⟨line, row⟩ of line `line`, lines being `width` long.
    #[inline]
    fn score(&mut self, line: usize, width: usize, row: Row<'_>) -> f64 {
        let each = row.columns().iter().zip(row.values());
        each.map(|(&j, &x)| f64::from(x) * self.read(line * width + j as usize)).sum()
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

    fn whole<'a>(&'a mut self, _: usize, _: &'a mut Vec<f64>) -> &'a [f64] {
        self
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
        /// The same in each line.
        row: Row<'a>,
    },
    /// `values[k]` at `places[k]`, all others 0. Equal places add up; increasing ones are fastest.
    Entries {
        /// Coordinates.
        places: &'a [usize],
        /// As many; may be overwritten.
        values: &'a mut [f64],
    },
    /// All coordinates; may be overwritten.
    Dense(&'a mut [f64]),
}

impl Gradient<'_> {
    /// Adds all entries to a vector.
    pub fn add_to(&self, sum: &mut [f64]) {
        let mut add = |at: usize, value: f64| {
            if let Some(entry) = sum.get_mut(at).filter(|_| value.is_finite()) {
                *entry += value;
            }
        };
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
