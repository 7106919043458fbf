//! Plan of Gaussian l1-recovery: the mean behind a fresh random projection (Ghazi et al. 2024, Algorithm 2; docs/proofs/l1-recovery.md).
//!
//! Covers: sparse-v1 theorem 3.4 (certified: with a bound of its own on the error)
//! Covers: sparse-v2 theorem 3.4 (certified: with a bound of its own on the error)

use super::problem::{ERROR_CONFIDENCE, L1_RECOVERY, MeanPlan, MeanProblem, MeanSchedule, check};
use dpopt_mechanism::{Mechanism, SOLVER_SHARE, SamplerError, SketchedGaussian};
use dpopt_noise::Grid;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::{Budget, Shown, calibrate};

/// Fewest rows of the matrix: below, a matrix so short that its rounding counts is too likely.
const LEAST_ROWS: f64 = 16.0;
/// Entries of the matrix that are drawn at most, again and again if they are more than fit the memory.
const MAX_ENTRIES: f64 = (1u64 << 30) as f64;

/// m = nε·√(s·ln(d/s)/ln(1/δ)), the published number of rows with 1 for its constant, and at least 2s.
pub(super) fn rows(problem: &MeanProblem, budget: Budget) -> f64 {
    let d = problem.dimension as f64;
    let s = problem.sparsity.min(d);
    let published =
        problem.records as f64 * budget.epsilon() * (s * (d / s).ln().max(0.0) / (1.0 / budget.delta()).ln()).sqrt();
    published.ceil().max(2.0 * s).max(LEAST_ROWS)
}

/// With probability 0.95 the least-squares fit is this near, relative to one record's mean contribution: see the proof note.
pub(super) fn error_bound(rows: f64, dimension: f64, l1_norm: f64, sigma: f64) -> f64 {
    let beta = ERROR_CONFIDENCE / 3.0;
    let width = 2.0 * l1_norm * (2.0 * (2.0 * dimension).ln()).sqrt();
    let noise = rows.sqrt() * sigma * (rows.sqrt() + (2.0 * (1.0 / beta).ln()).sqrt());
    let seen = noise * (2.0 * (2.0 * dimension / beta).ln()).sqrt();
    // E‖g‖ ≥ m/√(m+1), less the deviation of an infimum of Gaussians
    let shortest = rows / (rows + 1.0).sqrt() - (2.0 * (1.0 / beta).ln()).sqrt();
    if shortest <= 0.0 {
        return f64::INFINITY;
    }
    (width + (4.0 * l1_norm * seen * (1.0 + SOLVER_SHARE)).sqrt()) / shortest
}

/// Gaussian noise on a random projection of the sum; (ε, δ).
pub(super) fn l1_recovery(problem: &MeanProblem, budget: Budget) -> Result<MeanPlan, NotApplicable> {
    check(problem)?;
    if budget.delta() == 0.0 {
        return Err(NotApplicable::Problem(
            "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
        ));
    }
    let (n, d) = (problem.records as f64, problem.dimension as f64);
    let m = rows(problem, budget);
    let pays = m * m.ln().powi(2);
    if d < pays {
        return Err(NotApplicable::Problem(
            format!(
                "it pays off only from {pays:.1e} coordinates on, with its matrix of {:.0} rows; choose \
             projected-gaussian",
                Shown(m)
            )
            .into(),
        ));
    }
    if m * d > MAX_ENTRIES {
        return Err(NotApplicable::Problem(
            format!(
                "its random matrix of {:.0} × {d:.0} entries would be drawn hundreds of times, and at most \
             {MAX_ENTRIES:.1e} entries are feasible; hash the indices to fewer coordinates",
                Shown(m)
            )
            .into(),
        ));
    }
    let (rows, l1_norm) = (m as u64, problem.l1_norm());
    let mechanism = |noise_multiplier: f64, grid: Grid| SketchedGaussian {
        noise_multiplier,
        rows,
        clip_norm: problem.norm,
        l1_norm,
        grid,
        dimension: problem.dimension,
        projection: problem.projection(),
    };
    let event = |z: f64| {
        let mechanism = mechanism(z, Grid::new(0));
        SamplerError::proved(mechanism.apart()).on(mechanism.event()).for_users_of(problem.group)
    };
    let (noise_multiplier, certificate) = calibrate::noise(event, problem.neighbours.within(budget))?;
    let sum_std = noise_multiplier * problem.norm;
    let sigma = sum_std / n;
    // entries of the projected sum are normal with standard deviation ‖S‖ ≤ nL: 16 of them and of the noise's fit 2^61 steps
    let largest = 16.0 * (n * problem.norm + m.sqrt() * sum_std);
    let grid = Grid::new((largest.log2() + 20.0 - 61.0).ceil() as i32);
    // a record loses less than two steps per entry, and no more than it has: ‖lost‖² ≤ 2γ·‖z‖₁
    let lost = (2.0 * grid.step() * d.sqrt()).min((2.0 * grid.step() * l1_norm).sqrt());
    Ok(MeanPlan {
        method: L1_RECOVERY,
        noise_multiplier,
        noise_std: sigma,
        error_bound: (error_bound(m, d, l1_norm, sigma) + lost).min(problem.largest_error()),
        certificate,
        // a least-squares fit on the l1 ball needs no more entries than it has equations
        expected_entries: m.min(d),
        schedule: MeanSchedule {
            norm: problem.norm,
            l1_norm,
            noise_scale: sum_std,
            grid_exponent: grid.exponent(),
            dense: problem.keep_all(0.0),
            projection_radius: problem.projection().radius,
            sketch_rows: Some(rows),
        },
    })
}

/// The mechanism of a plan made by [`l1_recovery`].
pub(super) fn mechanism(plan: &MeanPlan, rows: u64, problem: &MeanProblem) -> SketchedGaussian {
    SketchedGaussian {
        noise_multiplier: plan.noise_multiplier,
        rows,
        clip_norm: plan.schedule.norm,
        l1_norm: plan.schedule.l1_norm,
        grid: Grid::new(plan.schedule.grid_exponent),
        dimension: problem.dimension,
        projection: problem.projection(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::Curator;
    use dpopt_noise::NoiseSource;
    use dpopt_optimize::RunError;
    use dpopt_privacy::{Event, Neighbours, Relation};

    fn problem(records: u64, dimension: u64, sparsity: f64) -> MeanProblem {
        MeanProblem {
            records,
            dimension,
            sparsity,
            norm: 1.0,
            group: 1,
            neighbours: Neighbours::of_records(Relation::ReplaceOne),
        }
    }

    fn budget() -> Budget {
        Budget::new(1.0, 1e-6).unwrap()
    }

    /// σ in units of 2L/n at ε = 1, δ = 1e-6, by m; without a sketch 4.2247, the published constant 8.1421.
    #[test]
    fn the_exact_calibration() {
        for (m, sigma) in [(20u64, 4.9183), (50, 4.5391), (100, 4.3908), (400, 4.2683), (2000, 4.2335)] {
            let event = |z: f64| Event::ChiSquareGaussian { degrees_of_freedom: m, mu: 1.0 / z };
            let (z, _) =
                calibrate::noise(event, Neighbours::of_records(Relation::ReplaceOne).within(budget())).unwrap();
            // the calibration of the record's norm L; the accountant doubles it
            assert!((0.5 * z / sigma - 1.0).abs() < 2e-4, "{m}: {z}");
        }
        // the published scale: √(18 ln(2.5/δ))·L/n at n = 1000, and in units of 2L/n
        let published = (18.0 * 2.5e6f64.ln()).sqrt();
        assert!((published / 1000.0 - 0.016_284).abs() < 1e-6 && (published / 2.0 - 8.1421).abs() < 1e-4);
    }

    #[test]
    fn the_published_number_of_rows_and_when_it_pays() {
        // n = 1e4, s = 10, d = 1e6: m ≈ 28.9e3, m ln² m ≈ 3e6 > d
        let wide = problem(10_000, 1_000_000, 10.0);
        assert!((rows(&wide, budget()) / 28.9e3 - 1.0).abs() < 2e-3, "{}", rows(&wide, budget()));
        assert!(
            matches!(l1_recovery(&wide, budget()), Err(NotApplicable::Problem(text)) if text.to_string().contains("projected-gaussian"))
        );
        assert!(l1_recovery(&problem(100, 1_000_000, 10.0), Budget::new(1.0, 0.0).unwrap()).is_err());
        assert!(
            matches!(l1_recovery(&problem(2000, 1 << 30, 10.0), budget()), Err(NotApplicable::Problem(t)) if t.to_string().contains("drawn"))
        );
        let plan = l1_recovery(&problem(50, 100_000, 4.0), budget()).unwrap();
        assert!(plan.schedule.sketch_rows.unwrap() >= 16 && plan.certificate.bound().upper <= 1.0);
        // the rounded matrix and its short ones cost less than a hundred-thousandth of the noise
        let m = plan.schedule.sketch_rows.unwrap();
        let (exact, _) = calibrate::noise(
            |z| Event::ChiSquareGaussian { degrees_of_freedom: m, mu: 1.0 / z },
            Neighbours::of_records(Relation::ReplaceOne).within(budget()),
        )
        .unwrap();
        assert!((plan.noise_multiplier / exact - 1.0).abs() < 2e-5, "{} {exact}", plan.noise_multiplier);
    }

    #[test]
    fn the_error_bound_shrinks_with_more_rows_and_less_noise() {
        let bound = |m: f64, sigma: f64| error_bound(m, 1e6, 3.0, sigma);
        assert!(bound(1e4, 1e-3) < bound(1e3, 1e-3) && bound(1e4, 1e-4) < bound(1e4, 1e-3));
        assert_eq!(bound(2.0, 1e-3), f64::INFINITY);
        // for many rows: √(4 l₁·σ·√(2 ln(2d/β))), twice the square of the projection's
        let limit =
            (4.0 * 3.0 * 1e-3 * (2.0 * (2e6 * 3.0 / ERROR_CONFIDENCE).ln()).sqrt() * (1.0 + SOLVER_SHARE)).sqrt();
        assert!((bound(1e12, 1e-3) / limit - 1.0).abs() < 1e-3);
    }

    /// On a sparse mean at a generous budget the answer is nearer than 0, and within the proved bound.
    #[test]
    fn it_finds_a_sparse_mean() {
        let (n, d, s) = (200u64, 12_000u64, 4usize);
        let problem = problem(n, d, s as f64);
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let plan = l1_recovery(&problem, budget).unwrap();
        let record: Vec<(u32, f64)> = (0..s as u32).map(|k| (k * 2003, 0.5)).collect();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
        let answer = plan
            .run(&problem, &mut curator, |summer| -> Result<(), RunError> {
                (0..n).for_each(|_| summer.add(&mut record.clone()));
                Ok(())
            })
            .unwrap()
            .into_inner();
        let square: f64 = answer.iter().map(|e| e.1 * e.1).sum();
        let along: f64 = answer.iter().filter(|e| e.0 % 2003 == 0 && e.0 < 4 * 2003).map(|e| e.1).sum::<f64>() * 0.5;
        let error = (square - 2.0 * along + 1.0).max(0.0).sqrt();
        assert!(error < 0.7 && error <= plan.error_bound, "{error} {}", plan.error_bound);
        assert!(curator.is_spent());
        assert_eq!(
            mechanism(&plan, 20, &problem).event(),
            SketchedGaussian { rows: 20, ..mechanism(&plan, 9, &problem) }.event()
        );
    }
}
