//! Restricted-Lipschitz coefficients from what is public: a spectrum, features, gradients (Liu 2024, Definition 11.3.1).
//!
//! Every function here takes [`Public`] values: a profile of sensitive gradients or features depends on the records, and
//! a method that is tuned with it has no guarantee (this is what the experiment of Liu 2024, section 11.4.2, does). To pay for one, release
//! the second moment of the rows with [`SufficientStatistics`](crate::SufficientStatistics)' Gaussian mechanism and
//! pass the released matrix to [`from_released_moment`]: what is computed from a release is post-processing.

use super::Profile;
use dpopt_mechanism::Public;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::records::Rows;
use dpopt_objective::solver::Spectrum;
use nalgebra::{DMatrix, DVector};

/// Up to this many rows or columns the smaller Gram matrix is decomposed exactly; beyond it, block power iteration.
const EXACT: usize = 1500;

/// What a measurement on gradients or features gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// σ_1 ≥ σ_2 ≥ …: the leading singular values of the matrix of rows.
    pub singular_values: Vec<f64>,
    /// For k = 0, 1, …: the largest norm of what the first k right singular vectors leave of a row.
    pub largest: Vec<f64>,
    /// For k = 0, 1, …: the root mean square of the same.
    pub root_mean_square: Vec<f64>,
    /// k × columns: the leading right singular vectors, row by row.
    pub directions: Vec<f64>,
}

impl Measured {
    /// The profile of [`largest`](Self::largest), as shares of G_0.
    pub fn profile(&self) -> Profile {
        shares(&self.largest)
    }
}

/// Coefficients as shares of the first; made not to increase, where rounding makes them.
fn shares(coefficients: &[f64]) -> Profile {
    let first = coefficients.first().copied().unwrap_or(0.0);
    let mut least = 1.0f64;
    let shares = coefficients.iter().map(|g| {
        least = least.min(if first > 0.0 { (g / first).clamp(0.0, 1.0) } else { 0.0 });
        least
    });
    Profile::Shares(shares.collect())
}

/// Profile of F(x) = mean ‖A^{1/2}(x − x_i)‖ for a known A: G_k is the (k + 1)-th largest eigenvalue of A^{1/2}. Exact.
pub fn from_spectrum(square_root: &Public<Vec<f64>>) -> Profile {
    let mut sorted: Vec<f64> = square_root.get().iter().map(|v| v.abs()).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    shares(&sorted)
}

/// Profile of a generalised linear model whose features have the known second moment E xxᵀ (d × d, row-major): the mean gradient
/// is E c·x with |c| ≤ L, so G_k ≤ L·√λ_{k+1}. Shares of G_0 = L·√λ_1. `None` if the matrix has no finite eigenvalues.
///
/// Exact for the law. A sample's own coefficients are larger by what its second moment differs.
pub fn from_second_moment(moment: &Public<Vec<f64>>, dimension: usize) -> Option<Profile> {
    let spectrum = Spectrum::of(moment.get(), dimension)?;
    let mut roots: Vec<f64> = spectrum.eigenvalues().iter().map(|w| w.max(0.0).sqrt()).collect();
    roots.sort_by(|a, b| b.total_cmp(a));
    Some(shares(&roots))
}

/// Restricted-Lipschitz profile from a *released* noisy second moment: every eigenvalue is raised by `noise_norm`, an upper bound on the
/// spectral norm of its noise (about 2·std·√d for a symmetric Gaussian matrix), so that the coefficients stay upper bounds.
pub fn from_released_moment(moment: &Public<Vec<f64>>, dimension: usize, noise_norm: f64) -> Option<Profile> {
    let spectrum = Spectrum::of(moment.get(), dimension)?;
    let mut roots: Vec<f64> = spectrum.eigenvalues().iter().map(|w| (w + noise_norm).max(0.0).sqrt()).collect();
    roots.sort_by(|a, b| b.total_cmp(a));
    Some(shares(&roots))
}

/// Profile of a linear model on *public* rows: G_k ≤ L·σ_{k+1}(X)/√n, exact for the mean gradient whatever the slopes |c_i| ≤ L.
pub fn from_features(rows: &Public<Rows>, directions: usize) -> Measured {
    let rows = rows.get();
    let mut dense = DMatrix::<f64>::zeros(rows.len(), rows.columns());
    for i in 0..rows.len() {
        let (columns, values) = rows.row(i);
        for (j, x) in columns.iter().zip(values) {
            dense[(i, *j as usize)] = f64::from(*x);
        }
    }
    let mut measured = measure(&dense, directions);
    let root = (rows.len().max(1) as f64).sqrt();
    // for the mean gradient the spectral norm of the remainder is what counts, not its longest row
    measured.largest = measured.singular_values.iter().map(|s| s / root).collect();
    measured
}

/// Profile from gradients of a *public* loss along a path (`gradients`: rows × columns, row-major): the projector on the leading k
/// right singular vectors and what it leaves. An empirical profile of this path, not a bound for all points.
///
/// ```compile_fail,E0308
/// let secret = dpopt_mechanism::Sensitive::new(vec![1.0, 0.0]);
/// dpopt_linear::restricted_lipschitz::measure::from_gradients(&secret, 2, 1); // not public: has to be released first
/// ```
/// ```
/// let open = dpopt_mechanism::Public::declare(vec![1.0, 0.0]);
/// dpopt_linear::restricted_lipschitz::measure::from_gradients(&open, 2, 1);
/// ```
pub fn from_gradients(gradients: &Public<Vec<f64>>, columns: usize, directions: usize) -> Measured {
    let rows = gradients.get().len() / columns.max(1);
    measure(&DMatrix::from_row_slice(rows, columns, &gradients.get()[..rows * columns]), directions)
}

fn measure(h: &DMatrix<f64>, directions: usize) -> Measured {
    let keep = directions.min(h.nrows()).min(h.ncols());
    let v = if h.nrows().min(h.ncols()) <= EXACT { exact(h, keep) } else { power(h, keep, 10) };
    let images = h * &v;
    let singular_values = (0..v.ncols()).map(|k| images.column(k).norm()).collect();
    let (mut largest, mut root_mean_square) = (Vec::new(), Vec::new());
    let mut rest: Vec<f64> = (0..h.nrows()).map(|i| h.row(i).norm_squared()).collect();
    for k in 0..=v.ncols() {
        largest.push(rest.iter().copied().fold(0.0, f64::max).sqrt());
        root_mean_square.push((rest.iter().sum::<f64>() / rest.len().max(1) as f64).sqrt());
        if k < v.ncols() {
            rest.iter_mut().enumerate().for_each(|(i, r)| *r = (*r - images[(i, k)].powi(2)).max(0.0));
        }
    }
    let directions = (0..v.ncols()).flat_map(|k| (0..v.nrows()).map(move |j| (j, k))).map(|at| v[at]).collect();
    Measured { singular_values, largest, root_mean_square, directions }
}

/// Leading right singular vectors (columns × keep) from the eigenvectors of the smaller Gram matrix.
fn exact(h: &DMatrix<f64>, keep: usize) -> DMatrix<f64> {
    let wide = h.ncols() > h.nrows();
    let gram = if wide { h * h.transpose() } else { h.tr_mul(h) };
    let n = gram.nrows();
    let Some(spectrum) = Spectrum::of(gram.as_slice(), n) else { return DMatrix::zeros(h.ncols(), 0) };
    // ascending order; directions without weight have no right singular vector in the wide case
    let eigenvalues = spectrum.eigenvalues();
    let largest = eigenvalues.last().copied().unwrap_or(0.0).max(0.0);
    let kept: Vec<usize> = (0..n).rev().take(keep).filter(|&i| eigenvalues[i] > 1e-13 * largest).collect();
    let mut v = DMatrix::<f64>::zeros(h.ncols(), kept.len());
    for (k, &i) in kept.iter().enumerate() {
        let u = DVector::from_column_slice(spectrum.vector(i));
        v.set_column(k, &if wide { h.tr_mul(&u).normalize() } else { u });
    }
    v
}

/// Randomised block power iteration: V ← QR(Hᵀ(HV)), `rounds` times from a Gaussian start, with eight spare directions;
/// then the exact decomposition of H on that subspace.
fn power(h: &DMatrix<f64>, keep: usize, rounds: usize) -> DMatrix<f64> {
    let width = (keep + 8).min(h.nrows()).min(h.ncols());
    let mut stream = NoiseSource::insecure(0).stream(Purpose::Initialisation, 0);
    let mut v = DMatrix::<f64>::from_fn(h.ncols(), width, |_, _| stream.standard_normal());
    for _ in 0..rounds {
        v = h.tr_mul(&(h * &v)).qr().q();
    }
    let turned = exact(&(h * &v), keep);
    v * turned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H = U diag(s) Vᵀ with random orthogonal factors.
    fn matrix(rows: usize, columns: usize, singular: &[f64]) -> Vec<f64> {
        let mut stream = NoiseSource::insecure(3).stream(Purpose::Other(1), 0);
        let mut orthogonal =
            |n: usize| DMatrix::<f64>::from_fn(n, singular.len(), |_, _| stream.standard_normal()).qr().q();
        let (u, v) = (orthogonal(rows), orthogonal(columns));
        let mut h = vec![0.0; rows * columns];
        for i in 0..rows {
            for j in 0..columns {
                h[i * columns + j] = singular.iter().enumerate().map(|(k, s)| u[(i, k)] * s * v[(j, k)]).sum();
            }
        }
        h
    }

    #[test]
    fn known_singular_values_tall_and_wide_exact_and_by_power_iteration() {
        let singular: Vec<f64> = (1..=12).map(|k| 10.0 / f64::from(k).powf(1.2)).collect();
        for (rows, columns) in [(40, 25), (25, 40)] {
            let h = matrix(rows, columns, &singular);
            let all = from_gradients(&Public::declare(h.clone()), columns, 8);
            for (got, wanted) in all.singular_values.iter().zip(&singular) {
                assert!((got / wanted - 1.0).abs() < 1e-9);
            }
            let h = DMatrix::from_row_slice(rows, columns, &h);
            let v = power(&h, 8, 10);
            for (k, wanted) in singular.iter().take(8).enumerate() {
                assert!(((&h * v.column(k)).norm() / wanted - 1.0).abs() < 1e-6, "power iteration, direction {k}");
            }
            // mean square of what is left = Σ_{j>k} σ_j²/rows
            for k in 0..=8 {
                let wanted: f64 = singular[k..].iter().map(|s| s * s).sum::<f64>() / rows as f64;
                assert!((all.root_mean_square[k].powi(2) / wanted - 1.0).abs() < 1e-9);
                assert!(all.largest[k] >= all.root_mean_square[k]);
            }
            assert!(all.profile().problem().is_none());
        }
    }

    #[test]
    fn features_give_the_spectral_norm_of_what_is_left() {
        let mut rows = Rows::new(3);
        for i in 0..4u32 {
            rows.push_clipped(&mut [(i % 2, if i % 2 == 0 { 1.0 } else { 0.5 })], 1.0);
        }
        let measured = from_features(&Public::declare(rows), 3);
        // XᵀX = diag(2, 1/2, 0), n = 4
        assert_eq!(measured.largest.len(), 2);
        assert!(
            (measured.largest[0] - 0.5f64.sqrt()).abs() < 1e-6 && (measured.largest[1] - 0.125f64.sqrt()).abs() < 1e-6
        );
        assert_eq!(measured.profile().coefficient(2, 3, 1.0), 0.0);
    }

    #[test]
    fn moments_and_spectra() {
        let moment = Public::declare(vec![4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(from_second_moment(&moment, 3), Some(Profile::Shares(vec![1.0, 0.5, 0.0])));
        let Some(Profile::Shares(raised)) = from_released_moment(&moment, 3, 0.25) else { panic!("no profile") };
        assert!(raised[1] > 0.5 && raised[2] > 0.2);
        assert_eq!(from_spectrum(&Public::declare(vec![1.0, 3.0, 1.5])), Profile::Shares(vec![1.0, 0.5, 1.0 / 3.0]));
    }
}
