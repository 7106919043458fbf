//! Plans for the mean of sparse vectors (Ghazi et al. 2024, Algorithms 1 and 2): noise, grid, projection and a proved bound on the error.
//!
//! Covers: sparse-v1 theorem 3.2, theorem 3.3 (certified: the bound with constants)
//! Covers: sparse-v2 theorem 3.2, theorem 3.3 (certified: the bound with constants)

use super::problem::{ERROR_CONFIDENCE, L1_RECOVERY, MAX_DENSE, MeanPlan, MeanProblem, MeanSchedule, check};
use super::sketched::{self, l1_recovery};
use dpopt_mechanism::{
    Curator, Mechanism, ProjectedGaussian, ProjectedLaplace, Released, SamplerError, SparseClip, SparseSummer,
};
use dpopt_noise::{Grid, Norm};
use dpopt_optimize::RunError;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::{Budget, Event, Shown, calibrate, special};
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;

/// Entries of an answer beyond which a plan is refused.
const MAX_ENTRIES: f64 = (1u64 << 27) as f64;

/// One row of `dpopt mean --explain`.
pub struct MeanCandidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, or why there is none.
    pub plan: Result<MeanPlan, NotApplicable>,
}

type Planner = fn(&MeanProblem, Budget) -> Result<MeanPlan, NotApplicable>;

const GAUSSIAN: &str = "projected-gaussian";
const LAPLACE: &str = "projected-laplace";
const PLANNERS: [(&str, Planner); 3] = [(GAUSSIAN, gaussian), (LAPLACE, laplace), (L1_RECOVERY, l1_recovery)];

/// Names of the methods, as in `--method`.
pub const MEAN_METHODS: [&str; PLANNERS.len()] = [PLANNERS[0].0, PLANNERS[1].0, PLANNERS[2].0];

/// Plans every method; the smallest proved error first, methods that do not apply last. Touches no record.
pub fn mean_candidates(problem: &MeanProblem, budget: Budget) -> Vec<MeanCandidate> {
    let stop = Stop::here();
    let planned = |&(method, planner): &(_, Planner)| MeanCandidate {
        method,
        plan: stop.within(|| planner(problem, budget)).and_then(|plan| plan.possible(problem)),
    };
    let mut all: Vec<MeanCandidate> = in_threads(|| PLANNERS.par_iter().map(planned).collect());
    let error = |c: &MeanCandidate| c.plan.as_ref().map_or(f64::INFINITY, |p| p.error_bound);
    all.sort_by(|a, b| error(a).total_cmp(&error(b)));
    all
}

/// How many of d independent noises, whose mean excess over a level t is `excess(t)` and whose tail is `tail(t)`, stay above the
/// level at which the excesses add up to `radius`. All of them if even level 0 fits.
fn entries_above(d: f64, radius: f64, excess: impl Fn(f64) -> f64, tail: impl Fn(f64) -> f64) -> f64 {
    if d * excess(0.0) <= radius {
        return d;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while d * excess(high) > radius {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if d * excess(middle) > radius { low = middle } else { high = middle }
    }
    d * tail(high)
}

fn refuse_dense_answer(problem: &MeanProblem, entries: f64) -> Result<(), NotApplicable> {
    if entries > MAX_ENTRIES {
        return Err(NotApplicable::Problem(format!(
            "at this budget the projection to sparsity {} leaves noise in about {entries:.1e} coordinates, too many \
             to release; give a smaller sparsity, or hash the indices to fewer coordinates",
            Shown(problem.sparsity)
        ).into()));
    }
    Ok(())
}

/// Gaussian noise calibrated for the l2 norm; (ε, δ).
fn gaussian(problem: &MeanProblem, budget: Budget) -> Result<MeanPlan, NotApplicable> {
    check(problem)?;
    if budget.delta() == 0.0 {
        return Err(NotApplicable::Problem(
            "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
        ));
    }
    let (n, d) = (problem.records as f64, problem.dimension as f64);
    let event = |z: f64| SamplerError::rounded(d).on(Event::gaussian(z)).for_users_of(problem.group);
    let (noise_multiplier, certificate) = calibrate::noise(event, problem.neighbours.within(budget))?;
    let sum_std = noise_multiplier * problem.norm;
    let sigma = sum_std / n;
    let grid = grid(problem, problem.norm, sum_std);
    // half of the failure probability for each of the two bounds; truncation counts as noise
    let (beta, extra) = (ERROR_CONFIDENCE, truncation(grid));
    let whole = sigma * (d.sqrt() + (2.0 * (2.0 / beta).ln()).sqrt()) + extra * d.sqrt();
    let largest = sigma * (2.0 * (4.0 * d / beta).ln()).sqrt() + extra;
    let projected = (2.0 * problem.l1_norm() * largest).sqrt();
    let entries = entries_above(
        d,
        n * problem.l1_norm() / sum_std,
        |t| 2.0 * (special::normal_pdf(t) - t * special::normal_cdf(-t)),
        |t| 2.0 * special::normal_cdf(-t),
    );
    refuse_dense_answer(problem, entries)?;
    Ok(MeanPlan {
        method: GAUSSIAN,
        noise_multiplier,
        noise_std: sigma,
        error_bound: whole.min(projected).min(problem.largest_error()),
        certificate,
        expected_entries: entries,
        schedule: MeanSchedule {
            norm: problem.norm,
            l1_norm: problem.l1_norm(),
            noise_scale: sum_std,
            grid_exponent: grid.exponent(),
            dense: problem.keep_all(entries),
            projection_radius: problem.projection().radius,
            sketch_rows: None,
        },
    })
}

/// Laplace noise calibrated for the l1 norm; pure ε.
fn laplace(problem: &MeanProblem, budget: Budget) -> Result<MeanPlan, NotApplicable> {
    check(problem)?;
    if problem.dimension > MAX_DENSE {
        return Err(NotApplicable::Problem(format!(
            "Laplace noise is drawn for every coordinate, and {} coordinates are too many; give a delta above 0, for \
             Gaussian noise, which is drawn only where it matters",
            problem.dimension
        ).into()));
    }
    let (n, d) = (problem.records as f64, problem.dimension as f64);
    // the sampler is within 2^-170 per sample: where there is no δ to pay that from, the claim is up to it
    let event = |b: f64| {
        let noisy = Event::Laplace { noise_multiplier: b };
        SamplerError::rounded(d).paid(noisy, budget.delta()).for_users_of(problem.group)
    };
    let (noise_multiplier, certificate) = calibrate::noise(event, problem.neighbours.within(budget))?;
    let scale = noise_multiplier * problem.l1_norm();
    let b = scale / n;
    let grid = grid(problem, problem.l1_norm(), scale);
    let projected = (2.0 * problem.l1_norm() * (b * (d / ERROR_CONFIDENCE).ln() + truncation(grid))).sqrt();
    let entries = entries_above(d, n * problem.l1_norm() / scale, |t| (-t).exp(), |t| (-t).exp());
    refuse_dense_answer(problem, entries)?;
    Ok(MeanPlan {
        method: LAPLACE,
        noise_multiplier,
        noise_std: b * std::f64::consts::SQRT_2,
        error_bound: projected.min(problem.largest_error()),
        certificate,
        expected_entries: entries,
        schedule: MeanSchedule {
            norm: problem.norm,
            l1_norm: problem.l1_norm(),
            noise_scale: scale,
            grid_exponent: grid.exponent(),
            dense: true,
            projection_radius: problem.projection().radius,
            sketch_rows: None,
        },
    })
}

/// So fine that what truncation takes from a coordinate of the mean is far below the noise there. A record has about s
/// non-zeros, and only those are truncated.
fn grid(problem: &MeanProblem, clip_norm: f64, scale: f64) -> Grid {
    Grid::for_sum(clip_norm, scale, problem.records.saturating_mul(256), problem.sparsity.ceil() as usize)
}

/// Bound on what the grid adds to the noise of a coordinate of the mean: less than a step for truncation of the mean record, one
/// more for each of two passes that may enforce the norm, half a step of the sum for the rounded noise.
fn truncation(grid: Grid) -> f64 {
    4.0 * grid.step()
}

impl MeanPlan {
    /// Sums the records that `read` adds, and releases their projected noisy mean: (index from 0, value), by increasing index.
    /// `curator` must have been opened for the plan's certificate.
    pub fn run<E: From<RunError>>(
        &self,
        problem: &MeanProblem,
        curator: &mut Curator,
        read: impl FnOnce(&mut SparseSummer) -> Result<(), E>,
    ) -> Result<Released<Vec<(u64, f64)>>, E> {
        let mut summer = SparseSummer::new(self.clip(problem)).map_err(RunError::from)?;
        read(&mut summer)?;
        let sum = summer.finish();
        let (noise_multiplier, dimension) = (self.noise_multiplier, problem.dimension);
        let (grid, projection) = (Grid::new(self.schedule.grid_exponent), problem.projection());
        let released = if let Some(rows) = self.schedule.sketch_rows {
            curator.release(&sketched::mechanism(self, rows, problem), &sum)
        } else if self.method == LAPLACE {
            let clip_norm = self.schedule.l1_norm;
            curator.release(&ProjectedLaplace { noise_multiplier, clip_norm, grid, dimension, projection }, &sum)
        } else {
            let clip_norm = self.schedule.norm;
            curator.release(&ProjectedGaussian { noise_multiplier, clip_norm, grid, dimension, projection }, &sum)
        };
        // never by the number of records that were read: under add-or-remove that is protected
        let per_record = 1.0 / problem.records as f64;
        let mean = |sum: Vec<(u64, f64)>| {
            sum.into_iter().map(|(j, v)| (j, v * per_record)).filter(|entry| entry.1 != 0.0).collect()
        };
        Ok(released.map_err(RunError::from)?.map(mean))
    }

    /// Returns the plan if its clip and its noise can be made, and refuses it otherwise.
    fn possible(self, problem: &MeanProblem) -> Result<Self, NotApplicable> {
        self.clip(problem).can_clip()?;
        let (noise_multiplier, dimension) = (self.noise_multiplier, problem.dimension);
        let (grid, projection) = (Grid::new(self.schedule.grid_exponent), problem.projection());
        if let Some(rows) = self.schedule.sketch_rows {
            sketched::mechanism(&self, rows, problem).can_draw()?;
        } else if self.method == LAPLACE {
            let clip_norm = self.schedule.l1_norm;
            ProjectedLaplace { noise_multiplier, clip_norm, grid, dimension, projection }.can_draw()?;
        } else {
            let clip_norm = self.schedule.norm;
            ProjectedGaussian { noise_multiplier, clip_norm, grid, dimension, projection }.can_draw()?;
        }
        Ok(self)
    }

    /// How records are clipped.
    fn clip(&self, problem: &MeanProblem) -> SparseClip {
        SparseClip {
            dimension: problem.dimension,
            norm: self.schedule.norm,
            l1_norm: self.schedule.l1_norm,
            calibrated: if self.method == LAPLACE { Norm::L1 } else { Norm::L2 },
            grid: Grid::new(self.schedule.grid_exponent),
            dense: self.schedule.dense,
        }
    }

    /// The norm that the noise was calibrated for, as text.
    pub(crate) fn noise_bound(&self) -> String {
        if self.method == LAPLACE {
            format!("{} in l1 norm", Shown(self.schedule.l1_norm))
        } else {
            format!("{} in l2 norm", Shown(self.schedule.norm))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::{Neighbours, Relation};

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

    #[test]
    fn the_published_noise_scales() {
        // Algorithm 1 with the least noise: L = 1, s = 4, n = 1000, ε = 1, δ = 1e-6: Laplace scale .004, Gaussian .00844936
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let problem = problem(1000, 100, 4.0);
        let gaussian = gaussian(&problem, budget).unwrap();
        assert!((gaussian.noise_std - 0.008_449_36).abs() < 2e-8, "{}", gaussian.noise_std);
        let laplace = laplace(&problem, Budget::new(1.0, 0.0).unwrap()).unwrap();
        // calibrated to seven digits, rounded up
        let scale = laplace.schedule.noise_scale / 1000.0;
        assert!((0.004..0.004 * (1.0 + 1e-6)).contains(&scale), "{scale}");
        // half of both where a record only vanishes
        let zero_out = MeanProblem { neighbours: Neighbours::of_records(Relation::ZeroOut), ..problem };
        let half = super::gaussian(&zero_out, budget).unwrap();
        assert!((half.noise_std - 0.5 * gaussian.noise_std).abs() < 2e-8);
    }

    #[test]
    fn the_bound_is_that_of_the_lemma() {
        // d = 20,000, s = 10, ε = 1, δ = 1e-6, n = 1024: .5282; at 2^20 the noise itself is smaller
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let at = |n| gaussian(&problem(n, 20_000, 10.0), budget).unwrap();
        assert!((at(1024).error_bound - 0.5282).abs() < 1e-4, "{}", at(1024).error_bound);
        let large = at(1 << 20);
        assert!(large.error_bound < 0.0013 && large.error_bound > 0.0011, "{}", large.error_bound);
        assert!(at(1).error_bound <= 2.0);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let pure = Budget::new(1.0, 0.0).unwrap();
        assert!(gaussian(&problem(100, 10, 2.0), pure).is_err());
        assert!(laplace(&problem(100, 1 << 30, 2.0), pure).is_err());
        assert!(gaussian(&problem(1_000_000, 1 << 32, 1e9), budget).is_err(), "a dense answer");
        assert!(gaussian(&problem(1_000_000, 1 << 32, 50.0), budget).is_ok());
        for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            assert!(gaussian(&MeanProblem { norm: bad, ..problem(10, 10, 2.0) }, budget).is_err());
            assert!(gaussian(&MeanProblem { sparsity: bad, ..problem(10, 10, 2.0) }, budget).is_err());
        }
        assert!(gaussian(&problem(0, 10, 2.0), budget).is_err());
        let both = mean_candidates(&problem(1000, 1 << 30, 4.0), budget);
        assert!(both[0].plan.is_ok() && both[1].plan.is_err() && both[2].plan.is_err());
    }

    #[test]
    fn memory_is_chosen_from_public_facts() {
        let dense = |n, d, s| gaussian(&problem(n, d, s), Budget::new(1.0, 1e-6).unwrap()).unwrap().schedule.dense;
        assert!(dense(10, 1000, 5.0) && dense(1_000_000, 10_000_000, 50.0));
        assert!(!dense(1000, 1_000_000_000, 50.0) && !dense(1000, 10_000_000, 5.0));
    }
}
