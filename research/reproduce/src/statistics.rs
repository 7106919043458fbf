//! Mean and spread of repeats.

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean of the values.
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

/// Median with a distribution-free interval from order statistics, of coverage 95 % at least (the whole range where there are
/// too few values for that).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// Median of the values.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Median {
    /// Of finite values; not-a-number if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        if n == 0 {
            return Self { value: f64::NAN, low: f64::NAN, high: f64::NAN };
        }
        // the k-th smallest and k-th largest enclose the median unless fewer than k values fall on one side
        let (mut below, mut probability, mut k) = (0.0, 0.5f64.powi(n as i32), 0);
        while k < n / 2 && 2.0 * (below + probability) <= 0.05 {
            below += probability;
            probability *= (n - k) as f64 / (k + 1) as f64;
            k += 1;
        }
        let place = k.saturating_sub(1);
        let value = if n % 2 == 1 { values[n / 2] } else { 0.5 * (values[n / 2 - 1] + values[n / 2]) };
        Self { value, low: values[place], high: values[n - 1 - place] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_their_intervals() {
        let m = Median::of((1..=30).map(f64::from));
        // the table of sign-test intervals: ranks 10 and 21 of 30
        assert_eq!((m.value, m.low, m.high), (15.5, 10.0, 21.0));
        let m = Median::of([3.0, 1.0, 2.0]);
        assert_eq!((m.value, m.low, m.high), (2.0, 1.0, 3.0));
        assert!(Median::of([]).value.is_nan());
    }

    #[test]
    fn mean_and_spread() {
        let s = Summary::of([1.0, 2.0, 3.0, 6.0]);
        assert_eq!((s.mean, s.count), (3.0, 4));
        assert!((s.sd - (14.0f64 / 3.0).sqrt()).abs() < 1e-15 && (s.standard_error() - s.sd / 2.0).abs() < 1e-15);
        assert_eq!(Summary::of([5.0]).sd, 0.0);
        assert!(Summary::of([]).mean.is_nan());
    }
}
