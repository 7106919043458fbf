//! What both plans of the online-to-nonconvex conversion are made of: public facts, the lengths that follow from them, and what a plan says (Liu 2024,
//! Algorithms 23 and 25).

use super::around::{Around, Estimator};
use super::kind::Method;
use super::o2nc_schedule::ConversionSchedule;
use super::plan::{Asked, MinimizePlan, told_of_records};
use super::problem::{Answers, MinimizeProblem};
use super::schedule::{Averaged, Batches, Goal, MinimizeSchedule, Rule, sum_grid};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::plan::{Assumption, NotApplicable};
use dpopt_optimize::planning::{positive, require_delta};
use dpopt_privacy::special::{gaussian_mu, ln_gamma};
use dpopt_privacy::{Budget, Certificate, Relation};
use dpopt_refusal::{option, text};
use std::collections::BTreeMap;

/// Most steps of a run.
pub(super) const MAX_STEPS: u64 = 1 << 20;
/// Room above the curvature of a smoothing, in a clip of changes.
const SLACK: f64 = 2.0;
/// Most directions of a gradient that are taken without being asked for.
const USUAL_DIRECTIONS: f64 = 64.0;
/// Most that are taken.
const MAX_DIRECTIONS: u64 = 4096;

/// c_d = 2V_{d−1}/V_d: f_α of an L-Lipschitz f is (c_d·L/α)-smooth, and no less where f is |⟨e, x⟩|.
pub(super) fn smoothing_constant(dimension: usize) -> f64 {
    let d = dimension as f64;
    std::f64::consts::FRAC_2_SQRT_PI * (ln_gamma(0.5 * d + 1.0) - ln_gamma(0.5 * (d + 1.0))).exp()
}

/// What steps follow from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// L: Lipschitz constant of the losses.
    pub(super) lipschitz: f64,
    /// C of a record's estimate.
    pub(super) clip: f64,
    /// Φ: by how much the loss can fall from the start.
    pub(super) gap: f64,
    /// α: radius of the balls around the points.
    pub(super) radius: f64,
    /// L': bound on a record's change of estimate, per unit of distance.
    pub(super) difference_clip: f64,
    /// Norm of the noise of one release of everything, or of one leaf, for each unit of its clip.
    pub(super) noise: f64,
}

impl Facts {
    /// D = αβ²/L², the longest step for the aim β.
    pub(super) fn reach(&self, aim: f64) -> f64 {
        self.radius * (aim / self.lipschitz).powi(2)
    }

    /// T = ΦL²/(αβ³): by then the loss has fallen by Φ.
    pub(super) fn wanted_steps(&self, aim: f64) -> u64 {
        (self.gap / (self.reach(aim) * aim)).round().clamp(1.0, MAX_STEPS as f64) as u64
    }

    /// M = α/(4D), of at most so many.
    pub(super) fn block_steps(&self, aim: f64, steps: u64) -> u64 {
        // rounding may not make 25 to 24
        ((self.radius / (4.0 * self.reach(aim)) * (1.0 + 1e-12)) as u64).clamp(1, steps)
    }

    /// r: most that a change counts, on a way of 2D.
    pub(super) fn largest_change(&self, aim: f64) -> f64 {
        (self.difference_clip * 2.0 * self.reach(aim)).min(2.0 * self.clip)
    }

    /// G₁ = L + G₀, at least √E‖estimate‖²: within a period the error stays, and where gradients are asked for follows from it.
    fn size(&self, error: f64) -> f64 {
        self.lipschitz + error
    }

    /// (Φ + Lα)/(DT) + 2G₁/√M + 2G₀, errors having root mean square G₀: f_α can fall by Lα more than the loss, blocks after the first begin with any step, 2·DG₁√M of
    /// regret each at [this rate](Self::learning_rate), and an error counts on a way of 2D.
    pub(super) fn norm_bound(&self, aim: f64, steps: u64, error: f64) -> f64 {
        let block = self.block_steps(aim, steps) as f64;
        let fall = self.gap + self.lipschitz * self.radius;
        fall / (self.reach(aim) * steps as f64) + 2.0 * self.size(error) / block.sqrt() + 2.0 * error
    }

    /// η = 2D/(G₁√M), the rate of the online descent.
    fn learning_rate(&self, aim: f64, steps: u64, error: f64) -> f64 {
        2.0 * self.reach(aim) / (self.size(error) * (self.block_steps(aim, steps) as f64).sqrt())
    }

    /// The aim at which the loss falls by Φ within so many steps.
    pub(super) fn aim_of_steps(&self, steps: f64) -> f64 {
        (self.gap * self.lipschitz * self.lipschitz / (self.radius * steps)).cbrt()
    }

    /// As many directions that a record's whole gradient turning at one of them is not cut, on a way of D.
    fn directions_of_gradients(&self, aim: f64) -> f64 {
        (2.0 * self.clip / (self.difference_clip * self.reach(aim))).ceil().clamp(1.0, USUAL_DIRECTIONS)
    }
}

/// A problem with its facts.
pub(super) struct Common<'a> {
    pub(super) problem: &'a MinimizeProblem,
    pub(super) asked: &'a Asked,
    pub(super) facts: Facts,
    pub(super) estimator: Estimator,
}

/// What is certified: the schedule but for its batches, and what noise it has.
pub(super) struct Certified {
    pub(super) method: Method,
    pub(super) conversion: ConversionSchedule,
    pub(super) batches: Batches,
    pub(super) steps: u64,
    pub(super) noise_multiplier: f64,
    /// Noise standard deviation of a sum, per coordinate.
    pub(super) noise_std: f64,
    /// The clip norm that the grid is made for.
    pub(super) clip: f64,
    pub(super) evaluations: f64,
    pub(super) certificate: Certificate,
}

impl<'a> Common<'a> {
    pub(super) fn new(problem: &'a MinimizeProblem, budget: Budget, asked: &'a Asked) -> Result<Self, NotApplicable> {
        let estimator = match problem.answers {
            Answers::Gradients => Estimator::Gradients,
            Answers::Values => Estimator::Values,
            Answers::Derivatives => {
                return Err(NotApplicable::Problem(
                    "it needs gradients or values, and this objective gives derivatives along directions; choose \
                     another method"
                        .into(),
                ));
            }
        };
        require_delta(budget)?;
        if let Some(steps) = asked.steps.filter(|steps| *steps > MAX_STEPS) {
            return Err(NotApplicable::Option(format!("{steps} steps are more than {MAX_STEPS}; give fewer").into()));
        }
        let lipschitz = positive("the clip norm", asked.clip_norm.unwrap_or(problem.usual_clip_norm))?;
        let distance = match asked.domain {
            Domain::Unconstrained => problem.distance,
            Domain::Ball { radius } => problem.distance.min(radius),
            Domain::Box { radius } => problem.distance.min(radius * (problem.dimension as f64).sqrt()),
        };
        let radius = positive(option("goldstein_radius"), asked.conversion.radius.unwrap_or(0.1 * distance))?;
        let usual = SLACK * smoothing_constant(problem.dimension) * lipschitz / radius;
        let per_clip = (problem.dimension as f64).sqrt() / gaussian_mu(budget.epsilon(), budget.delta());
        let facts = Facts {
            lipschitz,
            // of 4d directions two values are as long as 2L next to never
            clip: if estimator == Estimator::Values { 2.0 * lipschitz } else { lipschitz },
            // what a loss of slopes up to L can fall on the way
            gap: positive(option("initial_gap"), asked.spider.initial_gap.unwrap_or(lipschitz * distance))?,
            radius,
            difference_clip: positive(option("difference_clip"), asked.spider.difference_clip.unwrap_or(usual))?,
            noise: problem.relation().sum_sensitivity() * per_clip / problem.records as f64,
        };
        Ok(Self { problem, asked, facts, estimator })
    }

    /// Where estimates are taken, for such an aim, with changes or without.
    pub(super) fn around(&self, aim: f64, changes: bool) -> Result<Around, NotApplicable> {
        let usual = match self.estimator {
            Estimator::Values => 4 * self.problem.dimension as u64,
            Estimator::Gradients if changes => self.facts.directions_of_gradients(aim) as u64,
            Estimator::Gradients => 1,
        };
        let directions = self.asked.directions.unwrap_or(usual.min(MAX_DIRECTIONS));
        if directions > MAX_DIRECTIONS {
            return Err(NotApplicable::Option(
                text![option("directions"), format!(" is above {MAX_DIRECTIONS}; give fewer")].into(),
            ));
        }
        let problem = self.problem;
        Ok(Around {
            estimator: self.estimator,
            radius: self.facts.radius,
            directions: directions.max(1) as usize,
            // positions that a further record would move, or that units have not, are no place for coins
            own_directions: !problem.remote && !problem.by_unit() && problem.relation() != Relation::AddOrRemove,
        })
    }

    /// The schedule for an aim, with noise of such a norm, errors of such a root mean square, and multipliers of a gradient and of a change.
    pub(super) fn conversion(
        &self,
        around: Around,
        (aim, steps, period): (f64, u64, u64),
        (noise_norm, error): (f64, f64),
        (fresh_multiplier, change_multiplier): (f64, f64),
    ) -> ConversionSchedule {
        let f = &self.facts;
        ConversionSchedule {
            around,
            reach: f.reach(aim),
            learning_rate: f.learning_rate(aim, steps, error),
            block_steps: f.block_steps(aim, steps),
            block: self.asked.conversion.block.unwrap_or_default(),
            period,
            change_clip: f.difference_clip,
            fresh_multiplier,
            change_multiplier,
            norm_aim: aim,
            noise_norm,
            norm_bound: f.norm_bound(aim, steps, error),
        }
    }

    /// Losses, or gradients, of one record's estimate.
    pub(super) fn asked_of_a_record(&self, around: Around) -> f64 {
        around.directions as f64 * if self.estimator == Estimator::Values { 2.0 } else { 1.0 }
    }

    pub(super) fn planned(
        &self,
        certified: Certified,
        mut assumptions: Vec<Assumption>,
        mut warnings: Vec<String>,
    ) -> MinimizePlan {
        let Certified {
            method,
            conversion,
            batches,
            steps,
            noise_multiplier,
            noise_std,
            clip,
            evaluations,
            certificate,
        } = certified;
        let (problem, f) = (self.problem, &self.facts);
        if problem.remote {
            assumptions.push(told_of_records(problem));
        }
        if self.asked.domain != Domain::Unconstrained {
            warnings.push(
                "norm_bound does not hold with a ball or box, at the border of which no gradient need be small; \
                 leave the ball or box out, or make it so large that the iterates do not reach the border"
                    .into(),
            );
        }
        MinimizePlan {
            method: method.name(),
            evaluations,
            // a convex loss whose gradients within 2α have a mean of so small a norm is at most so much above its least value
            predicted_excess: conversion.norm_bound * problem.distance + 4.0 * f.radius * f.lipschitz,
            assumptions,
            warnings,
            certificate,
            schedule: MinimizeSchedule {
                batches,
                rule: Rule::Conversion(conversion),
                steps,
                clip_norm: f.clip,
                clip_bias: None,
                noise_multiplier,
                noise_std,
                grid_exponent: sum_grid(clip, noise_std, problem.records, problem.dimension).exponent(),
                regularization: 0.0,
                domain: self.asked.domain,
                average: Averaged::Last,
                goal: Goal::Empirical,
                smoothing: 0.0,
                phases: Vec::new(),
                chunks: 1,
                along: None,
                spider: None,
                own: BTreeMap::new(),
            },
            walk: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_of_smoothings_is_the_published_one() {
        for (d, expected) in
            [(1, 1.0), (2, 1.27324), (3, 1.5), (5, 1.875), (10, 2.5869), (100, 7.99882), (1000, 25.2376)]
        {
            let c = smoothing_constant(d);
            assert!((c / expected - 1.0).abs() < 3e-6, "{d} {c}");
            assert!(c <= (d as f64).sqrt());
        }
    }

    #[test]
    fn lengths_are_the_corrected_ones() {
        // D = αβ²/L², a corrected Theorem 8.4.1 of Liu 2024: α = β = .1, Φ = L = 1
        let f = Facts { lipschitz: 1.0, clip: 1.0, gap: 1.0, radius: 0.1, difference_clip: 50.0, noise: 0.0 };
        assert!((f.reach(0.1) - 1e-3).abs() < 1e-15);
        assert_eq!((f.wanted_steps(0.1), f.block_steps(0.1, 10_000)), (10_000, 25));
        // everything in other units: gradients of ten times the length, a radius of three times
        let other = Facts { lipschitz: 10.0, clip: 10.0, gap: 30.0, radius: 0.3, ..f };
        assert_eq!((other.wanted_steps(1.0), other.block_steps(1.0, 10_000)), (10_000, 25));
        assert!((other.reach(1.0) - 3e-3).abs() < 1e-15);
        // Φ/(DT) = β, Lα/(DT) = β/10 and 2L/√M = 4β without noise
        assert!((f.norm_bound(0.1, 10_000, 0.0) - 0.51).abs() < 1e-12);
        // errors of a fifth of L: 4β·1.2 and .4 more
        assert!((f.norm_bound(0.1, 10_000, 0.2) - (0.11 + 0.48 + 0.4)).abs() < 1e-12);
        assert!((f.aim_of_steps(10_000.0) - 0.1).abs() < 1e-12);
    }
}
