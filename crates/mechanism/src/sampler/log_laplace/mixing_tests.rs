//! The spectral gap of alternating chains in one dimension, on grids (docs/proofs/value-sampler.md, "Mixing").

use dpopt_objective::synthetic::Lcg;

/// Joint law e^(−F(x) − mψ(x) + xy − ψ(x) − φ(y)) on a grid of x and y, η = 1; φ with its transform ψ on a grid.
struct Chain {
    rows: usize,
    columns: usize,
    /// Joint masses over the square roots of both marginals.
    correlation: Vec<f64>,
    /// Square roots of the marginals of x.
    root: Vec<f64>,
}

impl Chain {
    fn new(phi: &[(f64, f64)], xs: &[f64], potential: impl Fn(f64) -> f64, m: f64) -> Self {
        let (rows, columns) = (xs.len(), phi.len());
        let mut joint = vec![0.0; rows * columns];
        for (i, &x) in xs.iter().enumerate() {
            let top = phi.iter().map(|(y, phi)| x * y - phi).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = phi.iter().map(|(y, phi)| (x * y - phi - top).exp()).sum();
            let psi = top + sum.ln();
            for (j, (y, phi)) in phi.iter().enumerate() {
                joint[i * columns + j] = -potential(x) - m * psi + x * y - phi - psi;
            }
        }
        let top = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        joint.iter_mut().for_each(|j| *j = (*j - top).exp());
        let total: f64 = joint.iter().sum();
        joint.iter_mut().for_each(|j| *j /= total);
        let of_x: Vec<f64> = joint.chunks(columns).map(|row| row.iter().sum()).collect();
        let mut of_y = vec![0.0; columns];
        joint.chunks(columns).for_each(|row| of_y.iter_mut().zip(row).for_each(|(s, j)| *s += j));
        let mut correlation = joint;
        for (row, x) in correlation.chunks_mut(columns).zip(&of_x) {
            row.iter_mut().zip(&of_y).for_each(|(c, y)| *c /= (x * y).sqrt().max(1e-300));
        }
        Self { rows, columns, correlation, root: of_x.iter().map(|x| x.sqrt()).collect() }
    }

    /// 1 − the second largest squared singular value: the gap of the chain of x.
    fn gap(&self) -> f64 {
        let mut v: Vec<f64> = (0..self.rows).map(|i| self.root[i] * (i as f64 - 0.47 * self.rows as f64)).collect();
        let mut value = 0.0;
        for round in 0..4000 {
            let constant: f64 = v.iter().zip(&self.root).map(|(v, r)| v * r).sum();
            v.iter_mut().zip(&self.root).for_each(|(v, r)| *v -= constant * r);
            let size = v.iter().map(|v| v * v).sum::<f64>().sqrt();
            v.iter_mut().for_each(|v| *v /= size);
            let mut across = vec![0.0; self.columns];
            for (row, v) in self.correlation.chunks(self.columns).zip(&v) {
                across.iter_mut().zip(row).for_each(|(a, c)| *a += c * v);
            }
            let next: Vec<f64> = self
                .correlation
                .chunks(self.columns)
                .map(|row| row.iter().zip(&across).map(|(c, a)| c * a).sum())
                .collect();
            let now: f64 = next.iter().zip(&v).map(|(a, b)| a * b).sum();
            v = next;
            if round > 20 && (now - value).abs() < 1e-13 {
                return 1.0 - now;
            }
            value = now;
        }
        1.0 - value
    }
}

fn grid(low: f64, high: f64, cells: usize) -> Vec<f64> {
    (0..=cells).map(|i| low + (high - low) * i as f64 / cells as f64).collect()
}

/// −ln of the uniform law on [−b, b] convolved with N(0, 1), up to a constant: 1-smooth, and far from quadratic.
fn smoothed_uniform(b: f64) -> Vec<(f64, f64)> {
    let cdf = dpopt_privacy::special::normal_cdf;
    grid(-b - 6.5, b + 6.5, 240)
        .into_iter()
        .map(|y: f64| {
            let far = y.abs();
            (y, -(cdf(b - far) - cdf(-b - far)).max(1e-300).ln())
        })
        .collect()
}

#[test]
fn the_gap_is_that_of_the_bound_without_losses() {
    for m in [0.05, 0.3, 1.0] {
        let ys = grid(-9.0 / f64::sqrt(m), 9.0 / f64::sqrt(m), 500);
        let phi: Vec<(f64, f64)> = ys.iter().map(|y| (*y, 0.5 * y * y)).collect();
        let reach = 7.0 / f64::sqrt(m);
        let gap = Chain::new(&phi, &grid(-reach, reach, 400), |_| 0.0, m).gap();
        assert!((gap * (1.0 + m) / m - 1.0).abs() < 2e-3, "{m}: {gap}");
    }
}

/// Convex F with kinks, on all of the line and on short intervals, and φ that is and is not quadratic.
#[test]
fn kinked_losses_never_mix_more_slowly_than_the_bound() {
    let mut random = Lcg::new(6);
    let mut least = f64::INFINITY;
    for trial in 0..12 {
        let m = [0.05, 0.3, 1.0, 10.0][trial % 4];
        let phi = smoothed_uniform([0.5, 2.0, 6.0][trial % 3]);
        let kinks: Vec<(f64, f64)> = (0..4).map(|_| (2.0 * random.normal(), 3.0 * random.uniform())).collect();
        let reach = if trial % 2 == 0 { 8.0 / f64::sqrt(f64::min(m, 1.0)) } else { 1.0 + 2.0 * random.uniform() };
        let potential = |x: f64| kinks.iter().map(|(at, slope)| slope * (x - at).abs()).sum::<f64>();
        let chain = Chain::new(&phi, &grid(-reach, reach, 240), potential, m);
        least = least.min(chain.gap() * (1.0 + m) / m);
    }
    // grids err by 2e-3
    assert!(least > 0.998, "{least}");
}

/// Isoperimetry of a thin slab at 0 for e^(−mψ), ψ = ln(sinh(bx)/(bx)) + x²/2, b² = 3/m: 4.3·m, where Liu 2024, Lemma 5.3.7 claims
/// √m/12.
#[test]
fn the_lemma_of_the_source_fails_for_small_moduli() {
    let slab = |m: f64| {
        let b = (3.0 / m).sqrt();
        let psi = |x: f64| {
            let t = b * x.abs();
            let sinh = if t < 1e-6 { 0.0 } else { t - 2f64.ln() + (-(-2.0 * t).exp()).ln_1p() - t.ln() };
            sinh + 0.5 * x * x
        };
        let (end, cells) = (40.0 / m.sqrt(), 2_000_000);
        let step = end / f64::from(cells);
        let mass = 2.0 * step * (0..cells).map(|i| (-m * psi(step * (f64::from(i) + 0.5))).exp()).sum::<f64>();
        // density at 0 over √ψ''(0) and the product of both halves
        1.0 / mass / (b * b / 3.0 + 1.0).sqrt() / 0.25
    };
    for (m, constant) in [(1e-3, 4.25e-3), (1e-4, 4.27e-4), (1e-5, 4.28e-5)] {
        let got = slab(m);
        assert!((got / constant - 1.0).abs() < 5e-3, "{m}: {got}");
        // m/8.25 is what survives
        assert!(got >= m / 8.25, "{m}");
    }
    assert!(slab(1e-5) < 0.2 * f64::sqrt(1e-5) / 12.0 && slab(1e-4) < f64::sqrt(1e-4) / 12.0);
}
