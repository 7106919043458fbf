//! The exponent of a power law: least squares of log y on log x.

/// A fitted line log y = intercept + slope·log x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// The exponent of the power law.
    pub slope: f64,
    /// Natural logarithm of y at x = 1.
    pub intercept: f64,
    /// Standard error of the exponent; 0 with two points.
    pub standard_error: f64,
}

impl Slope {
    /// The fitted y at x.
    pub fn at(&self, x: f64) -> f64 {
        (self.intercept + self.slope * x.ln()).exp()
    }
}

/// Fits a power law to the positive, finite points; `None` with fewer than two different x.
pub fn log_log_slope(points: impl IntoIterator<Item = (f64, f64)>) -> Option<Slope> {
    let usable = |v: f64| v > 0.0 && v.is_finite();
    let points: Vec<(f64, f64)> =
        points.into_iter().filter(|p| usable(p.0) && usable(p.1)).map(|(x, y)| (x.ln(), y.ln())).collect();
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    if points.len() < 2 || sxx <= 1e-24 * n * (1.0 + mx * mx) {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / sxx;
    let intercept = my - slope * mx;
    let residual: f64 = points.iter().map(|p| (p.1 - intercept - slope * p.0).powi(2)).sum();
    let standard_error = if points.len() > 2 { (residual / (n - 2.0) / sxx).sqrt() } else { 0.0 };
    Some(Slope { slope, intercept, standard_error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_laws_are_recovered() {
        let fit = log_log_slope([1.0f64, 7.0, 30.0, 1e4].map(|x| (x, 3.0 * x.powf(-0.6)))).unwrap();
        assert!((fit.slope + 0.6).abs() < 1e-12 && (fit.at(1.0) - 3.0).abs() < 1e-12 && fit.standard_error < 1e-12);
        let noisy = log_log_slope([(1.0, 1.0), (10.0, 20.0), (100.0, 100.0)]).unwrap();
        assert!((noisy.slope - 1.0).abs() < 1e-12);
        // residuals of log10: -0.1003, 0.2007, -0.1003; variance over 1 degree of freedom, sxx = 2
        assert!((noisy.standard_error - (0.060_413_f64 / 2.0).sqrt()).abs() < 1e-4);
    }

    #[test]
    fn nothing_to_fit() {
        assert_eq!(log_log_slope([(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(log_log_slope([(0.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(log_log_slope([]), None);
    }
}
