//! Private second moments of features: one direct release, or a corrected Algorithm 3 of Asi, Duchi, Fallah, Javidbakht, Talwar 2021.
//!
//! Direct: Σx∘x of rows of norm R has l2 sensitivity R² whatever the number of features is, so one Gaussian release gives every
//! moment up to the same absolute error. By halving: rounds t = 1, 2, … truncate at ρ_t ∝ 2^−t and settle the features whose
//! truncated moment passes 4^−t−1; the noise falls with the truncation, so small moments are found to a factor, but only where
//! the features have light tails (a public promise), and the noise must lie below the threshold, which is checked in the plan.
//!
//! Covers: adaptive-gradients algorithm 3 (certified: noise by the accountant)
//! Covers: adaptive-gradients theorem 3 (part: privacy; estimates are within a factor of eight)

use dpopt_mechanism::{Curator, CuratorError, FeatureMoments, Gaussian, Sensitive, moment_bound};
use dpopt_noise::Grid;
use dpopt_objective::records::Records;
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::planning::sum_grid;
use dpopt_privacy::Event;
use serde::Serialize;

/// The rounds, sensitivities and noise of a private estimate of σ_j = √E x_j².
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum MomentRelease {
    /// One release of all moments.
    Direct {
        /// z: noise standard deviation of the sum of squares, over R².
        noise_multiplier: f64,
    },
    /// Round by round from the largest moments down.
    Halving {
        /// T: number of rounds.
        rounds: u32,
        /// z of each round, over its sensitivity.
        noise_multiplier: f64,
        /// r: E[|x_j|^p]^(2/p) ≤ r²·p·E x_j² is publicly known (1 for bounded or Gaussian features).
        moment_ratio: f64,
    },
}

/// Noise in the largest of d coordinates over the threshold that it must not pass: at most one half.
const LARGEST_SHARE: f64 = 0.5;

/// Bound on the largest of `count` standard normals: √(2 ln 2m).
fn largest_normal(count: f64) -> f64 {
    (2.0 * (2.0 * count).ln()).sqrt()
}

/// ρ over Δ: a truncation that leaves seven eighths of the moment of a feature of ratio r, E x² ≤ Δ².
fn truncation_ratio(r: f64) -> f64 {
    r * (16.0 * r * r).ln().sqrt()
}

/// κ: noise of a truncated mean over the threshold 4^−t−1, without the bound by the row norm: 16r²ln(16r²)·z√d/n.
#[cfg(test)]
fn noise_over_threshold(r: f64, z: f64, features: f64, rows: f64) -> f64 {
    16.0 * truncation_ratio(r).powi(2) * z * features.sqrt() / rows
}

impl MomentRelease {
    /// One release for the share μ² of the budget that a Gaussian of multiplier 1/μ costs; `None` if its noise would hide even
    /// features that hold an eighth of the rows' squared norm.
    pub(super) fn direct(problem: &Problem, mu: f64) -> Option<Self> {
        let noise_multiplier = 1.0 / mu;
        let largest = largest_normal(problem.features as f64) * noise_multiplier / problem.rows as f64;
        (largest <= LARGEST_SHARE / 4.0).then_some(Self::Direct { noise_multiplier })
    }

    /// As many rounds, ⌈1.5 log₂ d⌉ at most, as the noise allows; `None` if not even two.
    pub(super) fn halving(problem: &Problem, mu: f64, moment_ratio: f64) -> Option<Self> {
        let most = (1.5 * (problem.features.max(2) as f64).log2()).ceil() as u32;
        let usable = |rounds: u32| {
            let release = Self::Halving { rounds, noise_multiplier: f64::from(rounds).sqrt() / mu, moment_ratio };
            let limit = LARGEST_SHARE / largest_normal(problem.features as f64 * f64::from(rounds));
            let fits = (1..=rounds).all(|t| {
                let delta = problem.row_norm * 0.5f64.powi(t as i32 - 1);
                release.noise(t, problem.features, problem) <= limit * delta * delta / 16.0
            });
            fits.then_some(release)
        };
        (2..=most).rev().find_map(usable)
    }

    fn multiplier(&self) -> f64 {
        match *self {
            Self::Direct { noise_multiplier } | Self::Halving { noise_multiplier, .. } => noise_multiplier,
        }
    }

    fn rounds(&self) -> u32 {
        match *self {
            Self::Direct { .. } => 1,
            Self::Halving { rounds, .. } => rounds,
        }
    }

    /// Refuses rounds whose sums can't be made: of all features and of one.
    pub(super) fn can_sum(&self, problem: &Problem) -> Result<(), NotApplicable> {
        (1..=self.rounds()).flat_map(|round| [(round, problem.features), (round, 1)]).try_for_each(|(round, count)| {
            let bound = moment_bound(count, self.truncation(round, problem.row_norm), problem.row_norm);
            sum_grid(bound, self.multiplier() * bound, problem.rows, count).map(drop)
        })
    }

    /// T Gaussian releases over all records.
    pub(super) fn event(&self) -> Event {
        Event::gaussian(self.multiplier()).self_composed(u64::from(self.rounds()))
    }

    /// Rounded Gaussians drawn at most.
    pub(super) fn samples(&self, features: usize) -> f64 {
        f64::from(self.rounds()) * features as f64
    }

    /// Passes over the records.
    pub(super) fn passes(&self) -> f64 {
        f64::from(self.rounds())
    }

    /// ρ_t: the size that features are cut to in a round.
    fn truncation(&self, round: u32, row_norm: f64) -> f64 {
        match *self {
            Self::Direct { .. } => row_norm,
            Self::Halving { moment_ratio, .. } => {
                truncation_ratio(moment_ratio) * row_norm * 0.5f64.powi(round as i32 - 1)
            }
        }
    }

    /// Noise standard deviation of the mean of a round with `count` features left.
    fn noise(&self, round: u32, count: usize, problem: &Problem) -> f64 {
        let bound = moment_bound(count, self.truncation(round, problem.row_norm), problem.row_norm);
        self.multiplier() * bound / problem.rows as f64
    }

    /// Noisy means of min(x_j², ρ_t²) over `features`.
    fn release<R: Records>(
        &self,
        round: u32,
        features: &[u32],
        problem: &Problem,
        examples: &Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Vec<f64>, RunError> {
        let truncation = self.truncation(round, problem.row_norm);
        let bound = moment_bound(features.len(), truncation, problem.row_norm);
        let grid = Grid::for_sum(bound, self.multiplier() * bound, problem.rows, features.len());
        let moments = FeatureMoments::new(features, problem.features, truncation, bound, grid)?;
        let gaussian = Gaussian::new(self.multiplier(), bound, grid, features.len(), "second moments of features");
        let sum = moments.sum(examples).map_err(CuratorError::unreadable)?;
        let noisy = curator.release(&gaussian, &sum)?;
        Ok(noisy.into_inner().iter().map(|s| s / problem.rows as f64).collect())
    }

    /// Estimates of E x_j², none below the noise; all of them released.
    pub(super) fn run<R: Records>(
        &self,
        problem: &Problem,
        examples: &Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Vec<f64>, RunError> {
        let d = problem.features;
        let all: Vec<u32> = (0..d as u32).collect();
        match *self {
            Self::Direct { .. } => {
                let noisy = self.release(1, &all, problem, examples, curator)?;
                let floor = largest_normal(d as f64) * self.noise(1, d, problem);
                Ok(noisy.into_iter().map(|v| v.max(floor)).collect())
            }
            Self::Halving { rounds, .. } => {
                let r2 = problem.row_norm * problem.row_norm;
                let mut estimates = vec![r2 * 0.25f64.powi(rounds as i32); d];
                let mut left = all;
                for t in 1..=rounds {
                    // a round without features is a release that the plan foresees and nobody needs
                    if left.is_empty() {
                        break;
                    }
                    let noisy = self.release(t, &left, problem, examples, curator)?;
                    let threshold = r2 * 0.25f64.powi(t as i32 + 1);
                    let mut rest = Vec::with_capacity(left.len());
                    for (&j, v) in left.iter().zip(noisy) {
                        if v >= threshold {
                            estimates[j as usize] = r2 * 0.25f64.powi(t as i32);
                        } else {
                            rest.push(j);
                        }
                    }
                    left = rest;
                }
                Ok(estimates)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_mechanism::SamplerError;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::{Examples, Rows};
    use dpopt_objective::synthetic::Lcg;
    use dpopt_privacy::{Budget, Neighbours, Relation, certify, special};

    fn problem(rows: u64, features: usize, row_norm: f64) -> Problem {
        let loss = Loss::Absolute;
        Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows,
            features,
            nonzeros: features,
            row_norm,
            loss,
            neighbours: Neighbours::of_records(Relation::ZeroOut),
        }
    }

    #[test]
    fn noise_of_ten_rounds_is_that_of_one_gaussian_release() {
        for (epsilon, expected) in [(0.1, 114.8), (0.5, 25.48), (1.0, 13.36)] {
            let z = 10f64.sqrt() / special::gaussian_mu(epsilon, 1e-6);
            assert!((z / expected - 1.0).abs() < 1e-3, "{epsilon}: {z}");
        }
    }

    #[test]
    fn the_guard_is_public_and_has_its_published_values() {
        for (r, n, expected) in [(1.0, 5e3, 1.185), (1.0, 5e4, 0.1185)] {
            let kappa = noise_over_threshold(r, 13.3585, 100.0, n);
            assert!((kappa / expected - 1.0).abs() < 2e-3, "{kappa}");
        }
        // .1185·√(2 ln(2·100·10)) = .462 ≤ .5
        assert!((0.1185 * largest_normal(1000.0) - 0.462).abs() < 1e-3);
        // rows so long that they bound nothing: the guard of the halving rounds
        let mu = special::gaussian_mu(1.0, 1e-6);
        let rounds = |n: u64| match MomentRelease::halving(&problem(n, 100, 40.0), mu, 1.0) {
            Some(MomentRelease::Halving { rounds, .. }) => rounds,
            _ => 0,
        };
        assert_eq!(rounds(50_000), 10);
        // rows of bounded norm need less noise in the first rounds, and too few records allow none
        assert!(rounds(20_000) < 10 && rounds(2000) == 0, "{} {}", rounds(20_000), rounds(2000));
        assert!(MomentRelease::direct(&problem(1000, 100, 1.0), mu).is_some());
        assert!(MomentRelease::direct(&problem(30, 100, 1.0), mu).is_none());
    }

    /// n rows with independent Gaussian features of the given spreads.
    fn gaussian_rows(n: usize, spreads: &[f64], row_norm: f64, seed: u64) -> Sensitive<Examples> {
        let mut random = Lcg::new(seed);
        let mut examples = Examples { rows: Rows::new(spreads.len()), targets: vec![0.0; n] };
        for _ in 0..n {
            let mut entries: Vec<(u32, f32)> =
                spreads.iter().enumerate().map(|(j, s)| (j as u32, (s * random.normal()) as f32)).collect();
            examples.rows.push_clipped(&mut entries, row_norm);
        }
        Sensitive::new(examples)
    }

    /// √(ΣC_jσ_j²)·ΣC_j^(−1/2) with C = σ̂^(−4/3): the privacy term of diagonal steps.
    fn objective(spreads: &[f64], estimates: &[f64]) -> f64 {
        let c: Vec<f64> = estimates.iter().map(|v| v.powf(-2.0 / 3.0)).collect();
        let norm: f64 = c.iter().zip(spreads).map(|(c, s)| c * s * s).sum();
        norm.sqrt() * c.iter().map(|c| c.powf(-0.5)).sum::<f64>()
    }

    #[test]
    fn moments_are_found_to_a_factor_and_give_nearly_the_best_ellipsoid() {
        let spreads: Vec<f64> = (1..=100).map(|j| f64::from(j).powf(-1.5)).collect();
        let squares: Vec<f64> = spreads.iter().map(|s| s * s).collect();
        let best = objective(&spreads, &squares);
        // 9.28 times worse without moments
        assert!((objective(&spreads, &[1.0; 100]) / best - 9.28).abs() < 0.01);
        let problem = problem(50_000, 100, 5.0);
        let examples = gaussian_rows(50_000, &spreads, 5.0, 3);
        let mu = special::gaussian_mu(1.0, 1e-6);
        // the start is the row norm, 5, in place of 1: more rounds would reach as deep, but fewer are needed here
        let halving = MomentRelease::halving(&problem, mu, 1.0).unwrap();
        let direct = MomentRelease::direct(&problem, mu).unwrap();
        for (release, worst) in [(halving, 1.6), (direct, 4.0)] {
            let event = SamplerError::rounded(release.samples(100)).on(release.event());
            let terms = problem.neighbours.within(Budget::new(1.01, 1e-6).unwrap());
            let mut curator = Curator::new(&certify(&event, terms).unwrap(), NoiseSource::insecure(5));
            let estimates = release.run(&problem, &examples, &mut curator).unwrap();
            assert!(curator.is_spent() || matches!(release, MomentRelease::Halving { .. }));
            assert!(release.run(&problem, &examples, &mut curator).is_err(), "the budget is spent");
            let ratio = objective(&spreads, &estimates) / best;
            println!("{release:?}: {ratio}");
            assert!(ratio < worst, "{release:?}: {ratio}");
            // large moments within the factors that the thresholds promise: a quarter to four, in σ² sixteen
            for j in 0..5 {
                let factor = estimates[j] / squares[j];
                assert!((1.0 / 16.0..=16.0).contains(&factor), "{j}: {factor}");
            }
        }
    }
}
