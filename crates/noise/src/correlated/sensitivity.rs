//! Sensitivity of C·g when a record takes part several times (Kalinin, Lampert 2024; docs/proofs/correlated.md).
use super::factor::Factor;

/// The steps in which one record may contribute. The batch sampler must enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    /// A record takes part at most once.
    Single,
    /// A record takes part at most `count` times, any two of them at least `separation` steps apart.
    Separated {
        /// b ≥ 1: the least number of steps between two participations.
        separation: usize,
        /// k ≥ 1: the largest number of participations.
        count: usize,
    },
}

/// Covers the rounding of sums of at most 10^7 terms in f64.
const ROUNDING: f64 = 1.0 + 1e-9;

impl Factor {
    /// Upper bound on ‖C·G‖ over `steps` steps per unit of the clip norm of one participation (zero-out; replace-one
    /// doubles it). Exact up to 1e-9 for single participation, for non-negative non-increasing coefficients, and for at
    /// most `separation` bands; else the bound k'·max_i max_π Σ_{j∈π} |CᵀC|_ij, by dynamic programming in O(steps²·count).
    pub fn sensitivity(&self, steps: usize, participation: Participation) -> f64 {
        let c = self.coefficients(steps);
        let squared = match participation {
            Participation::Single => c.iter().map(|x| x * x).sum(),
            Participation::Separated { separation, count } => {
                let b = separation.max(1);
                let k = count.clamp(1, steps.div_ceil(b).max(1));
                if monotone(&c) {
                    equally_spaced(&c, b, k)
                } else if self.bands().is_some_and(|p| p <= b) {
                    // columns at least p apart have no common row
                    k as f64 * c.iter().map(|x| x * x).sum::<f64>()
                } else {
                    absolute_rows(&c, b, k)
                }
            }
        };
        squared.sqrt() * ROUNDING
    }
}

/// The condition of Kalinin and Lampert's Theorem 2.
fn monotone(c: &[f64]) -> bool {
    c.iter().all(|&x| x >= 0.0) && c.windows(2).all(|pair| pair[0] >= pair[1])
}

/// ‖Σ_j column(j·b)‖² for j < k: the worst pattern of a monotone C.
fn equally_spaced(c: &[f64], b: usize, k: usize) -> f64 {
    (0..c.len())
        .map(|t| {
            let sum: f64 = (0..k).take_while(|j| j * b <= t).map(|j| c[t - j * b]).sum();
            sum * sum
        })
        .sum()
}

/// k·max_i max_{π∋i} Σ_{j∈π} |CᵀC|_ij over b-separated π of at most k steps.
fn absolute_rows(c: &[f64], b: usize, k: usize) -> f64 {
    let n = c.len();
    // |CᵀC| at lag h, for the column that has `rows` rows below it: Σ_{u<rows} c_u c_{u+h}
    let lagged: Vec<Vec<f64>> = (0..n)
        .map(|lag| {
            let mut sum = 0.0;
            std::iter::once(0.0)
                .chain((0..n - lag).map(|u| {
                    sum += c[u] * c[u + lag];
                    sum
                }))
                .collect()
        })
        .collect();
    let entry = |i: usize, j: usize| lagged[i.abs_diff(j)][n - i.max(j)].abs();
    let mut worst: f64 = 0.0;
    for i in 0..n {
        // best[m] over a side: largest sum of at most m entries, b-separated among themselves and from i
        let side = |steps: &mut dyn Iterator<Item = usize>| -> Vec<f64> {
            let mut history: Vec<Vec<f64>> = Vec::new();
            for j in steps {
                let x = entry(i, j);
                let before = history.last().cloned().unwrap_or(vec![0.0; k]);
                let apart = if history.len() >= b { history[history.len() - b].clone() } else { vec![0.0; k] };
                let now =
                    (0..k).map(|m| if m == 0 { 0.0 } else { before[m].max(apart[m - 1] + x) }).collect::<Vec<f64>>();
                history.push(now);
            }
            history.pop().unwrap_or(vec![0.0; k])
        };
        let left = side(&mut (0..(i + 1).saturating_sub(b)).rev());
        let right = side(&mut (i + b..n));
        let best = (0..k).map(|m| left[m] + right[k - 1 - m]).fold(0.0, f64::max);
        worst = worst.max(entry(i, i) + best);
    }
    k as f64 * worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlated::factor::square_root_coefficients;

    /// max over all patterns of Σ |CᵀC|_ij, by enumeration.
    fn brute_force(c: &[f64], b: usize, k: usize) -> f64 {
        let n = c.len();
        let entry = |i: usize, j: usize| (i.max(j)..n).map(|t| c[t - i] * c[t - j]).sum::<f64>().abs();
        (1u32..1 << n)
            .map(|set| (0..n).filter(|t| set >> t & 1 == 1).collect::<Vec<_>>())
            .filter(|p| p.len() <= k && p.windows(2).all(|w| w[1] - w[0] >= b))
            .map(|p| p.iter().flat_map(|&i| p.iter().map(move |&j| (i, j))).map(|(i, j)| entry(i, j)).sum())
            .fold(0.0, f64::max)
    }

    #[test]
    fn toeplitz_values() {
        // squared sensitivities by brute force over all patterns
        for (n, b, k, expected) in [
            (8, 2, 3, 8.992591142654),
            (10, 3, 3, 8.620863362448),
            (12, 4, 3, 8.407630192629),
            (12, 1, 4, 19.725753216993),
        ] {
            let c = square_root_coefficients(n);
            assert!((equally_spaced(&c, b, k) - expected).abs() < 1e-11);
            assert!((brute_force(&c, b, k) - expected).abs() < 1e-11);
            let s =
                Factor::square_root(n).unwrap().sensitivity(n, Participation::Separated { separation: b, count: k });
            assert!(s * s >= expected && s * s < expected * (1.0 + 1e-8));
        }
    }

    #[test]
    fn banded_values() {
        for (n, b, k, expected) in [(8, 2, 3, 3.75), (10, 3, 3, 4.171875), (12, 4, 3, 4.46484375)] {
            let s =
                Factor::square_root(b).unwrap().sensitivity(n, Participation::Separated { separation: b, count: k });
            assert!((s * s - expected).abs() < 1e-7);
            let mut c = square_root_coefficients(b);
            c.resize(n, 0.0);
            assert!((brute_force(&c, b, k) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn the_formula_is_refused_where_it_is_wrong() {
        // c = (1,0,0,1,0,0): equally spaced gives 4, the truth is 5, the bound 6
        let c = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(equally_spaced(&c, 2, 2), 4.0);
        assert_eq!(brute_force(&c, 2, 2), 5.0);
        let s = Factor::banded(&c).unwrap().sensitivity(6, Participation::Separated { separation: 2, count: 2 });
        assert!((s * s - 6.0).abs() < 1e-7, "{}", s * s);
    }

    #[test]
    fn the_general_bound_is_a_bound() {
        let mut stream = crate::NoiseSource::insecure(3).stream(crate::Purpose::Audit, 0);
        for trial in 0..40 {
            let c: Vec<f64> = (0..9).map(|j| if j == 0 { 1.0 } else { 2.0 * stream.uniform() - 1.0 }).collect();
            for (b, k) in [(1, 2), (2, 2), (2, 3), (3, 3), (1, 3)] {
                let k = k.min(9usize.div_ceil(b));
                let (bound, truth) = (absolute_rows(&c, b, k), brute_force(&c, b, k));
                assert!(bound >= truth * (1.0 - 1e-12), "trial {trial}, b = {b}, k = {k}: {bound} < {truth}");
            }
        }
    }

    #[test]
    fn error_table() {
        // n = 512: largest and mean-square error of prefix sums times the sensitivity
        let n = 512;
        let check = |factor: Factor, b: usize, k: usize, max: f64, mean: f64, sens: Option<f64>| {
            let s = factor.sensitivity(n, Participation::Separated { separation: b, count: k });
            let errors = factor.prefix_errors(n);
            let rms = (errors.iter().map(|e| e * e).sum::<f64>() / n as f64).sqrt();
            let largest = errors[n - 1] * s;
            assert!((largest / max - 1.0).abs() < 6e-4, "b={b}: {largest} against {max}");
            assert!((rms * s / mean - 1.0).abs() < 6e-4, "b={b}: {} against {mean}", rms * s);
            if let Some(expected) = sens {
                assert!((s - expected).abs() < 6e-5, "{s} against {expected}");
            }
        };
        for (b, k, identity, root, banded, eight) in [
            (512, 1, (22.63, 16.02), (3.052, 2.889, 1.7470), None, (9.532, 6.811)),
            (128, 4, (45.25, 32.03), (7.487, 7.088, 4.2858), Some((7.281, 6.042, 3.2312)), (19.06, 13.62)),
            (64, 8, (64.00, 45.30), (13.029, 12.334, 7.4579), Some((12.376, 9.639, 4.3716)), (26.96, 19.26)),
        ] {
            check(Factor::identity(), b, k, identity.0, identity.1, None);
            check(Factor::square_root(n).unwrap(), b, k, root.0, root.1, Some(root.2));
            if let Some((max, mean, sens)) = banded {
                check(Factor::square_root(b).unwrap(), b, k, max, mean, Some(sens));
            }
            check(Factor::square_root(8).unwrap(), b, k, eight.0, eight.1, None);
        }
    }
}
