//! Mean and spread of repeats.

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n − 1); 0 for one value.
    pub sd: f64,
    /// Number of values.
    pub count: usize,
}

impl Summary {
    /// Of finite values; not-a-number if there are none or one of them is.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Self { mean, sd: if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 }, count: values.len() }
    }

    /// Standard error of the mean.
    pub fn standard_error(&self) -> f64 {
        self.sd / (self.count as f64).sqrt()
    }

    /// (x, mean, mean − sd, mean + sd): a point of a chart's band.
    pub fn at(&self, x: f64) -> (f64, f64, f64, f64) {
        (x, self.mean, self.mean - self.sd, self.mean + self.sd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_spread() {
        let s = Summary::of([1.0, 2.0, 3.0, 6.0]);
        assert_eq!((s.mean, s.count), (3.0, 4));
        assert!((s.sd - (14.0f64 / 3.0).sqrt()).abs() < 1e-15 && (s.standard_error() - s.sd / 2.0).abs() < 1e-15);
        assert_eq!(Summary::of([5.0]).sd, 0.0);
        assert!(Summary::of([]).mean.is_nan());
    }
}
