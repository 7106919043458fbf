//! Mean and covariance of bounded rows: a noisy sum and a noisy second moment within one budget (docs/proofs/principal-components.md).

use crate::plan::NotApplicable;
use crate::planning::{can_sum, sum_grid};
use dpopt_mechanism::{
    ClippedVectors, Curator, CuratorError, Gaussian, Released, SamplerError, SecondMoment, Sensitive, symmetric_matrix,
};
use dpopt_noise::Grid;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, calibrate};
use dpopt_process::stop::paced;
use serde::Serialize;

/// Public facts about rows of l2 norm at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CovarianceProblem {
    /// n: number of rows; a public guess under add-or-remove.
    pub records: u64,
    /// d: numbers of a row.
    pub columns: usize,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// A planned and certified covariance.
#[derive(Clone, Debug)]
pub struct CovariancePlan {
    /// What it was planned for.
    pub problem: CovarianceProblem,
    /// What 1 and the numbers of a row are multiplied by in the sum: squares add up to 1. The first is 0 where the number of rows is public.
    pub sum_weights: [f64; 2],
    /// Noise of the sum, whose terms have norm at most 1.
    pub sum_noise: f64,
    /// Noise of the second moment over its sensitivity, which is 1.
    pub moment_noise: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
}

/// What was released, in units of the norm that a row may have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Covariance {
    /// Number of rows: public, or with noise.
    pub count: f64,
    /// Mean of the rows.
    pub mean: Vec<f64>,
    /// Noise of each entry of the mean.
    pub mean_noise: f64,
    /// Covariance of the rows (over n − 1), row-major d × d, with noise: symmetric, not always positive semidefinite.
    pub matrix: Vec<f64>,
    /// Noise of its entries off the diagonal, from the second moment; on the diagonal it is √2 of it (41/29, to be exact).
    pub matrix_noise: f64,
}

/// How far the mean of the rows is from the middle for which shares are chosen, in units of the norm that a row may have.
const REFERENCE_MEAN: f64 = 0.25;

impl CovariancePlan {
    /// Chooses the shares of sum and second moment and the least noise within the budget. Reads no record.
    ///
    /// The second moment's noise has spectral norm √(2d)·s₂; the noise e of the mean enters as μeᵀ + eμᵀ, of spectral norm about ‖μ‖·√d·s₁. The share w of the sum
    /// (s₁² = s²/w, s₂² = s²/(1 − w)) with the least sum of their squares has w/(1 − w) = ‖μ‖/√2. Within the sum the count is worth ‖μ‖²·s₁²/α² and the mean
    /// d·s₁²/β²: α²/β² = ‖μ‖/√d.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(problem: &CovarianceProblem, budget: Budget) -> Result<Self, NotApplicable> {
        if budget.delta() == 0.0 {
            return Err(NotApplicable::Problem(
                "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
            ));
        }
        if problem.records < 2 || problem.columns == 0 {
            return Err(NotApplicable::Problem("a covariance is of at least two rows with at least one number".into()));
        }
        if problem.columns > MAX_COLUMNS {
            return Err(NotApplicable::Problem(
                format!(
                    "there are {} columns, and a covariance is of at most {MAX_COLUMNS}; project the rows first",
                    problem.columns
                )
                .into(),
            ));
        }
        let d = problem.columns as f64;
        let share = REFERENCE_MEAN / (REFERENCE_MEAN + 2f64.sqrt());
        let of_sum = share.sqrt().recip();
        let of_moment = (1.0 - share).sqrt().recip();
        let sum_weights = if problem.neighbours.relation == Relation::AddOrRemove {
            let count = REFERENCE_MEAN / (REFERENCE_MEAN + d.sqrt());
            [count.sqrt(), (1.0 - count).sqrt()]
        } else {
            [0.0, 1.0]
        };
        let coordinates = [problem.sums(), SecondMoment::coordinates(problem.columns)];
        let drawn = (coordinates[0] + coordinates[1]) as f64;
        let event = |z: f64| {
            let parts = vec![Event::gaussian(z * of_sum), Event::gaussian(z * of_moment)];
            SamplerError::rounded(drawn).on(Event::composed(parts))
        };
        let terms = problem.neighbours.within(budget);
        let (z, certificate) =
            calibrate::noise(event, terms).map_err(|why| NotApplicable::Problem(why.to_string().into()))?;
        let (sum_noise, moment_noise) = (z * of_sum, z * of_moment);
        sum_grid(1.0, sum_noise, problem.records, coordinates[0])?;
        can_sum(1.0, moment_noise, Grid::for_products(1.0, moment_noise, problem.records))?;
        Ok(Self { problem: *problem, sum_weights, sum_noise, moment_noise, certificate })
    }

    /// Releases mean and covariance of so many rows: `numbers(i, out)` appends the d numbers of the i-th to the empty `out`. A row longer than 1 is
    /// shortened; a number that is not finite counts as 0.
    ///
    /// # Errors
    /// If `curator` has not been opened for the plan's certificate.
    pub fn run(
        &self,
        records: usize,
        numbers: impl Fn(usize, &mut Vec<f64>) + Sync,
        curator: &mut Curator,
    ) -> Result<Released<Covariance>, CuratorError> {
        let d = self.problem.columns;
        // both releases see the same rows
        let mut rows = Rows::new(d);
        let mut row = Vec::with_capacity(d);
        for i in paced(0..records) {
            row.clear();
            numbers(i, &mut row);
            let mut entries: Vec<(u32, f32)> = (0..).zip(row.iter().take(d).map(|v| *v as f32)).collect();
            rows.push_clipped(&mut entries, 1.0);
        }
        let [of_count, of_numbers] = self.sum_weights;
        let counted = self.problem.sums() > d;
        let term = |i: usize, out: &mut Vec<f64>| {
            if counted {
                out.push(of_count);
            }
            let start = out.len();
            out.resize(start + d, 0.0);
            let (columns, values) = rows.row(i);
            columns.iter().zip(values).for_each(|(&j, &v)| out[start + j as usize] = of_numbers * f64::from(v));
        };
        let grid = Grid::for_sum(1.0, self.sum_noise, self.problem.records, self.problem.sums());
        let sum = ClippedVectors::new(1.0, grid)?.sum(records, self.problem.sums(), term);
        let noise = Gaussian::new(self.sum_noise, 1.0, grid, self.problem.sums(), "sum of rows");
        let sum = curator.release(&noise, &sum)?.into_inner();
        let grid = Grid::for_products(1.0, self.moment_noise, self.problem.records);
        let targets = vec![0.0; rows.len()];
        let Ok(moment) = SecondMoment::new(1.0, 1.0, grid)?.sum(&Sensitive::new(Examples { rows, targets }));
        let noise = Gaussian::new(self.moment_noise, 1.0, grid, SecondMoment::coordinates(d), "second moment");
        let moment = curator.release(&noise, &moment)?.into_inner();
        Ok(curator.postprocess(self.settled(&sum, &moment)))
    }

    /// What both noisy sums say: post-processing.
    fn settled(&self, sum: &[f64], moment: &[f64]) -> Covariance {
        let d = self.problem.columns;
        let (counts, firsts) = sum.split_at(sum.len() - d);
        let count = match counts.first() {
            Some(noisy) => (noisy / self.sum_weights[0]).max(2.0),
            None => self.problem.records as f64,
        };
        let mean_noise = self.sum_noise / self.sum_weights[1] / count;
        let mean: Vec<f64> = firsts.iter().map(|sum| sum / (self.sum_weights[1] * count)).collect();
        let squares = symmetric_matrix(d, moment);
        let entry = |at: usize| {
            let (j, k) = (at / d, at % d);
            // the squares of noisy means are larger than those of means by the variance of their noise
            let bias = if j == k { mean_noise * mean_noise } else { 0.0 };
            (squares[at] - count * (mean[j] * mean[k] - bias)) / (count - 1.0)
        };
        let matrix = (0..d * d).map(entry).collect();
        let matrix_noise = self.moment_noise / SecondMoment::BESIDE / (count - 1.0);
        Covariance { count, mean, mean_noise, matrix, matrix_noise }
    }
}

/// Most columns: their matrix has 2²⁴ numbers.
const MAX_COLUMNS: usize = 4096;

impl CovarianceProblem {
    /// Numbers of the released sum.
    fn sums(&self) -> usize {
        self.columns + usize::from(self.neighbours.relation == Relation::AddOrRemove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    const D: usize = 6;

    fn problem(relation: Relation) -> CovarianceProblem {
        CovarianceProblem { records: 4000, columns: D, neighbours: Neighbours::of_records(relation) }
    }

    fn rows() -> Vec<[f64; D]> {
        let mut coins = NoiseSource::insecure(8).stream(Purpose::Other(1), 0);
        (0..4000)
            .map(|_| {
                let along = 0.2 * coins.standard_normal();
                let row: [f64; D] = std::array::from_fn(|j| {
                    0.1 * j as f64 - 0.2 + along * 0.2 * j as f64 + 0.05 * coins.standard_normal()
                });
                let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
                row.map(|v| v / norm.max(1.0))
            })
            .collect()
    }

    #[test]
    fn shares_cost_one_budget() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
            let budget = Budget::new(1.0, 1e-6).unwrap();
            let plan = CovariancePlan::new(&problem(relation), budget).unwrap();
            let terms = Neighbours::of_records(relation).within(budget);
            let (alone, _) = calibrate::noise(Event::gaussian, terms).unwrap();
            let together = (plan.sum_noise.powi(-2) + plan.moment_noise.powi(-2)).powf(-0.5);
            assert!((together / alone - 1.0).abs() < 1e-4, "{relation:?} {together} {alone}");
            assert!((plan.sum_weights.iter().map(|w| w * w).sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(plan.certificate.bound().upper <= 1.0 && plan.moment_noise < 1.1 * alone);
        }
    }

    #[test]
    fn mean_and_covariance_are_as_far_off_as_they_say() {
        let rows = rows();
        let n = rows.len() as f64;
        let mean: Vec<f64> = (0..D).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / n).collect();
        let away = |row: &[f64; D], j: usize| row[j] - mean[j];
        let covariance =
            |j: usize, k: usize| rows.iter().map(|row| away(row, j) * away(row, k)).sum::<f64>() / (n - 1.0);
        for relation in [Relation::ZeroOut, Relation::AddOrRemove] {
            let plan = CovariancePlan::new(&problem(relation), Budget::new(1.0, 1e-6).unwrap()).unwrap();
            let (mut of_mean, mut beside, mut on, mut total, runs) = (0.0, 0.0, 0.0, 0.0, 60);
            for seed in 0..runs {
                let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
                let released = plan.run(rows.len(), |i, out| out.extend(rows[i]), &mut curator).unwrap().into_inner();
                assert!(
                    curator.is_spent()
                        && (released.count - n).abs() < 6.0 * plan.sum_noise / plan.sum_weights[0].max(1e-9)
                );
                for j in 0..D {
                    of_mean += ((released.mean[j] - mean[j]) / released.mean_noise).powi(2);
                    for k in 0..=j {
                        let off = released.matrix[j * D + k] - covariance(j, k);
                        assert_eq!(released.matrix[j * D + k].to_bits(), released.matrix[k * D + j].to_bits());
                        // beside the second moment's noise that of the mean, whose square is taken off
                        let of_mean = released.mean_noise.powi(2) * (mean[j].powi(2) + mean[k].powi(2));
                        let (sum, law) = if j == k { (&mut on, 2.0) } else { (&mut beside, 1.0) };
                        *sum += off * off / (law * (released.matrix_noise.powi(2) + of_mean));
                        total += if j == k { off } else { 0.0 };
                    }
                }
            }
            // 360, 900 and 360 squares of a normal variable: six standard deviations to either side; a noisy count adds at most .1 on the diagonal
            let (means, besides, diagonals) = (of_mean / (60.0 * 6.0), beside / (60.0 * 15.0), on / (60.0 * 6.0));
            assert!((0.55..1.45).contains(&means), "{relation:?} {means}");
            assert!((0.7..1.3).contains(&besides), "{relation:?} {besides}");
            assert!((0.55..1.55).contains(&diagonals), "{relation:?} {diagonals}");
            // no bias of the trace: six standard deviations of the mean of 60, each of at most √(2·6·1.5) noises
            let noise = plan.moment_noise / SecondMoment::BESIDE / (n - 1.0);
            assert!((total / 60.0).abs() < 6.0 * noise * (18.0f64 / 60.0).sqrt(), "{relation:?} {}", total / noise);
        }
    }

    #[test]
    fn hostile_rows_count_as_rows_of_norm_one() {
        let plan = CovariancePlan::new(&problem(Relation::ZeroOut), Budget::new(1.0, 1e-6).unwrap()).unwrap();
        let run = |hostile: Option<[f64; D]>| {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(2));
            let numbers = |i: usize, out: &mut Vec<f64>| match (i, hostile) {
                (9, Some(row)) => out.extend(row),
                (9, None) => {}
                _ => out.extend([0.1; D]),
            };
            plan.run(4000, numbers, &mut curator).unwrap().into_inner()
        };
        let absent = run(None);
        for row in [[f64::INFINITY; D], [f64::NAN; D], [1e300; D], [0.0; D], [-1.0; D]] {
            let there = run(Some(row));
            let squares: f64 = there.mean.iter().zip(&absent.mean).map(|(a, b)| (a - b).powi(2)).sum();
            assert!(squares.sqrt() <= 1.001 / 4000.0, "{row:?}");
            let moved: f64 = there.matrix.iter().zip(&absent.matrix).map(|(a, b)| (a - b).powi(2)).sum();
            // x xᵀ has norm 1, and what the mean moves by another 2‖μ‖ (of .25) and its square
            assert!(moved.sqrt() <= 1.6 / 3999.0, "{row:?} {moved}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let refused = |problem: CovarianceProblem, delta| {
            CovariancePlan::new(&problem, Budget::new(1.0, delta).unwrap()).unwrap_err().to_string()
        };
        let usual = problem(Relation::ZeroOut);
        assert!(refused(usual, 0.0).contains("delta > 0"));
        assert!(refused(CovarianceProblem { records: 1, ..usual }, 1e-6).contains("two rows"));
        assert!(refused(CovarianceProblem { columns: 5000, ..usual }, 1e-6).contains("at most 4096"));
    }
}
