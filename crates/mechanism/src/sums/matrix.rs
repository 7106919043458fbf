//! Symmetric matrices under one Gaussian: Σ w·x xᵀ in isometric coordinates (spec 17 §6).
//!
//! The coordinates (M_jj, √2·M_jk for j > k) have the Frobenius norm of M as their l2 norm, so i.i.d. noise on them is one
//! Gaussian mechanism of sensitivity w‖x‖². On the matrix it has variance s² on the diagonal and s²/2 off it; equal
//! variances would waste a factor √2, and s²/2 on the diagonal too would not be private enough.

use super::contributions::add_up;
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::records::Examples;
use std::convert::Infallible;

/// How Σ weight·x xᵀ is summed: the weight, the row norm and the grid.
#[derive(Clone, Copy, Debug)]
pub struct SecondMoment {
    weight: f64,
    quantizer: Quantizer,
}

impl SecondMoment {
    /// Terms weight·x xᵀ of Frobenius norm at most weight·R².
    pub fn new(weight: f64, row_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, weight * row_norm * row_norm, grid)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        Ok(Self { weight, quantizer })
    }

    /// Number of isometric coordinates of a d × d symmetric matrix.
    pub fn coordinates(d: usize) -> usize {
        d * (d + 1) / 2
    }

    /// Σ weight·x_i x_iᵀ in isometric coordinates; entry (j, k), k ≤ j, is at j(j+1)/2 + k.
    pub fn sum(&self, examples: &Sensitive<Examples>) -> Sensitive<GridSum> {
        let rows = &examples.expose().rows;
        let width = Self::coordinates(rows.columns());
        let Ok(units) = add_up(rows.len(), width, 256, |range| {
            let mut sum = vec![0i64; width];
            let (mut values, mut at, mut units) = (Vec::new(), Vec::new(), Vec::new());
            for i in range {
                let (indices, entries) = rows.row(i);
                values.clear();
                at.clear();
                for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
                    let scaled = self.weight * f64::from(x);
                    let line = j as usize * (j as usize + 1) / 2;
                    for (&k, &y) in indices[..a].iter().zip(&entries[..a]) {
                        values.push(std::f64::consts::SQRT_2 * scaled * f64::from(y));
                        at.push(line + k as usize);
                    }
                    values.push(scaled * f64::from(x));
                    at.push(line + j as usize);
                }
                self.quantizer.quantize(&mut values, &mut units);
                for (&slot, &unit) in at.iter().zip(&units) {
                    sum[slot] = sum[slot].wrapping_add(unit);
                }
            }
            Ok::<_, Infallible>(sum)
        });
        Sensitive::new(GridSum {
            units,
            grid: self.quantizer.grid(),
            clip_norm: self.quantizer.clip_norm(),
            batch: None,
        })
    }
}

/// The symmetric d × d matrix (row-major) with the given isometric coordinates.
pub fn symmetric_matrix(d: usize, coordinates: &[f64]) -> Vec<f64> {
    let mut matrix = vec![0.0; d * d];
    let mut next = coordinates.iter();
    for j in 0..d {
        for (k, &c) in (0..=j).zip(next.by_ref().take(j + 1)) {
            let entry = if j == k { c } else { c * std::f64::consts::FRAC_1_SQRT_2 };
            matrix[j * d + k] = entry;
            matrix[k * d + j] = entry;
        }
    }
    matrix
}
