//! Laws that samples are held against: Kolmogorov's distance from a distribution function, densities tabulated on a grid.

/// Asserts that an independent sample follows a continuous distribution function. By Massart's form of the inequality of
/// Dvoretzky, Kiefer and Wolfowitz a true law fails with probability at most 2e^(−2n·D²) = 1e-7.
pub fn kolmogorov(sample: &mut [f64], cdf: impl Fn(f64) -> f64) {
    let (distance, limit) = (kolmogorov_distance(sample, cdf), kolmogorov_limit(sample.len()));
    assert!(distance < limit, "Kolmogorov distance {distance}, limit {limit}");
}

/// sup |F_n − F|.
pub fn kolmogorov_distance(sample: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    sample
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let f = cdf(x);
            (f - i as f64 / n).max((i + 1) as f64 / n - f)
        })
        .fold(0.0, f64::max)
}

/// The distance that a true law exceeds with probability at most 1e-7.
pub fn kolmogorov_limit(n: usize) -> f64 {
    (2e7f64.ln() / (2.0 * n as f64)).sqrt()
}

/// A density on an interval, tabulated: its distribution function by the trapezoidal rule.
pub struct Tabulated {
    low: f64,
    step: f64,
    cumulative: Vec<f64>,
}

impl Tabulated {
    /// From ln density (up to a constant) at `cells + 1` equally spaced points.
    pub fn new(ln_density: impl Fn(f64) -> f64, low: f64, high: f64, cells: usize) -> Self {
        let step = (high - low) / cells as f64;
        let ln: Vec<f64> = (0..=cells).map(|i| ln_density(low + step * i as f64)).collect();
        let top = ln.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut cumulative = vec![0.0];
        let mut sum = 0.0;
        for pair in ln.windows(2) {
            sum += 0.5 * ((pair[0] - top).exp() + (pair[1] - top).exp());
            cumulative.push(sum);
        }
        cumulative.iter_mut().for_each(|c| *c /= sum);
        Self { low, step, cumulative }
    }

    /// Distribution function F of the law.
    pub fn cdf(&self, x: f64) -> f64 {
        let place = ((x - self.low) / self.step).clamp(0.0, (self.cumulative.len() - 1) as f64);
        let cell = (place as usize).min(self.cumulative.len() - 2);
        let share = place - cell as f64;
        self.cumulative[cell] * (1.0 - share) + self.cumulative[cell + 1] * share
    }

    /// Expectation ∫ f dF of a function under the law.
    pub fn mean(&self, f: impl Fn(f64) -> f64) -> f64 {
        let middle = |i: usize| self.low + self.step * (i as f64 + 0.5);
        self.cumulative.windows(2).enumerate().map(|(i, c)| (c[1] - c[0]) * f(middle(i))).sum()
    }
}
