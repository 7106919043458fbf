//! The exponential tilt λ: where the Rényi bound of the composed loss is stationary.
//!
//! Nothing here needs to be a bound: every λ > 0 gives a valid result, a good one gives a tight result.

use super::pair::Pair;
use super::parallel;

/// A pair seen through coarse cells: the P-mass and the merged loss ln(P/Q) of each.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub low: Vec<f64>,
    pub high: Vec<f64>,
    pub loss: Vec<f64>,
    pub ln_p: Vec<f64>,
}

/// Cumulant K, mean K′ and variance K″ of the tilted loss.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cumulants {
    pub value: f64,
    pub mean: f64,
    pub variance: f64,
}

impl View {
    pub fn new(pair: &dyn Pair, borders: &[f64]) -> Self {
        let m = pair.masses(borders);
        let n = borders.len();
        let mut view = Self { low: vec![], high: vec![], loss: vec![], ln_p: vec![] };
        for i in 0..n {
            if m.p[i] > 0.0 {
                let (low, high) = (borders[i.saturating_sub(1)], borders[i]);
                let loss = if i == 0 || m.q[i] <= 0.0 { high } else { (m.p[i] / m.q[i]).ln().clamp(low, high) };
                view.low.push(low);
                view.high.push(high);
                view.loss.push(loss);
                view.ln_p.push(m.p[i].ln());
            }
        }
        view
    }

    /// Cumulants of one draw at tilt `lambda`.
    pub fn cumulants(&self, lambda: f64) -> Cumulants {
        let top = self.loss.iter().zip(&self.ln_p).map(|(l, p)| lambda * l + p).fold(f64::NEG_INFINITY, f64::max);
        let (mut s0, mut s1, mut s2) = (0.0, 0.0, 0.0);
        for (l, p) in self.loss.iter().zip(&self.ln_p) {
            let exponent = lambda * l + p - top;
            if exponent > -80.0 {
                let w = exponent.exp();
                s0 += w;
                s1 += w * l;
                s2 += w * l * l;
            }
        }
        let mean = s1 / s0;
        Cumulants { value: top + s0.ln(), mean, variance: (s2 / s0 - mean * mean).max(0.0) }
    }
}

/// What the composed loss shall be evaluated at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Wanted is ε at this δ.
    Delta(f64),
    /// Wanted is δ at this ε.
    Epsilon(f64),
    /// Wanted is δ at many ε, the least of which is `from`, with `middle` among these δ.
    Range { from: f64, middle: f64 },
}

/// Sum of cumulants over the parts with their multiplicities.
pub(crate) fn total(views: &[(View, u64)], lambda: f64) -> Cumulants {
    let each = parallel::map(views, |(view, count)| (view.cumulants(lambda), *count as f64));
    each.into_iter().fold(Cumulants::default(), |sum, (c, t)| Cumulants {
        value: sum.value + t * c.value,
        mean: sum.mean + t * c.mean,
        variance: sum.variance + t * c.variance,
    })
}

/// Range in which λ is searched: orders between 1 + 1e-6 and 1e12.
const TILTS: (f64, f64) = (1e-6, 1e12);

/// Solves λK′ − K + ln δ + ln(1+λ) = 0 (target δ) or K′ − ε = 1/λ + 1/(1+λ) (target ε): both increase in λ.
pub(crate) fn solve(views: &[(View, u64)], target: Target, guess: f64) -> f64 {
    // value and derivative with respect to ln λ
    let equation = |lambda: f64| {
        let c = total(views, lambda);
        match target {
            Target::Delta(delta) | Target::Range { middle: delta, .. } => (
                lambda * c.mean - c.value + delta.ln() + lambda.ln_1p(),
                lambda * (lambda * c.variance + 1.0 / (1.0 + lambda)),
            ),
            Target::Epsilon(epsilon) => (
                c.mean - epsilon - 1.0 / lambda - 1.0 / (1.0 + lambda),
                lambda * c.variance + 1.0 / lambda + lambda / (1.0 + lambda).powi(2),
            ),
        }
    };
    let (mut low, mut high) = (TILTS.0.ln(), TILTS.1.ln());
    let mut x = guess.ln().clamp(low, high);
    for _ in 0..60 {
        let (value, slope) = equation(x.exp());
        if value > 0.0 {
            high = x
        } else {
            low = x
        }
        let newton = x - value / slope;
        let next = if newton > low && newton < high { newton.clamp(x - 3.0, x + 3.0) } else { 0.5 * (low + high) };
        // a tilt within 1 % is as good as the exact one
        if (next - x).abs() < 1e-2 {
            return next.exp();
        }
        x = next;
    }
    x.exp()
}

#[cfg(test)]
mod tests {
    use super::super::pair::GaussianPair;
    use super::*;

    #[test]
    fn gaussian_tilt_is_where_its_renyi_bound_is_stationary() {
        let borders: Vec<f64> = (-400..=400).map(|k| k as f64 * 0.02).collect();
        let views = [(View::new(&GaussianPair { mu: 0.5 }, &borders), 4)];
        // K = λ(1+λ)/2: λ²/2 + ln(1+λ) = ln(1/δ)
        let lambda = solve(&views, Target::Delta(1e-6), 1.0);
        assert!((lambda * lambda / 2.0 + lambda.ln_1p() - 1e6f64.ln()).abs() < 0.3, "{lambda}");
        let lambda = solve(&views, Target::Epsilon(3.0), 1.0);
        assert!((0.5 + lambda - 3.0 - 1.0 / lambda - 1.0 / (1.0 + lambda)).abs() < 0.1, "{lambda}");
    }
}
