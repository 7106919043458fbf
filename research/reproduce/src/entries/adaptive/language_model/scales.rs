//! One positive factor per weight, by which gradients are multiplied before they are clipped.

/// A weight's factor is that of its row, times that of its column, times its own where it has one.
pub(super) struct Scales {
    /// For each block those of its rows and those of its columns.
    factors: Vec<[Vec<f32>; 2]>,
    /// Factors of single weights, in the order of the weights.
    own: Option<Vec<f32>>,
}

impl Scales {
    /// For each block the factors of its rows and of its columns.
    pub(super) fn by_row_and_column(factors: Vec<[Vec<f32>; 2]>) -> Self {
        Self { factors, own: None }
    }

    /// With a further factor for every weight.
    pub(super) fn and(self, own: Vec<f32>) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Factors of the rows and of the columns of a block.
    pub(super) fn of(&self, block: usize) -> &[Vec<f32>; 2] {
        &self.factors[block]
    }

    /// What is left to multiply entries by, of which the first belongs to weight `from`, once rows and columns are scaled.
    pub(super) fn finish(&self, from: usize, entries: &mut [f32]) {
        if let Some(own) = &self.own {
            entries.iter_mut().zip(&own[from..]).for_each(|(e, s)| *e *= s);
        }
    }

    /// `by` over the factor of every weight.
    pub(super) fn inverse(&self, by: f64) -> Vec<f32> {
        let mut all: Vec<f64> = Vec::new();
        for [rows, columns] in &self.factors {
            for r in rows {
                all.extend(columns.iter().map(|c| by / f64::from(r * c)));
            }
        }
        if let Some(own) = &self.own {
            all.iter_mut().zip(own).for_each(|(a, s)| *a /= f64::from(*s));
        }
        all.into_iter().map(|a| a as f32).collect()
    }
}
