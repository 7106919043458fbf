//! A point of a box or a ball in every round of T, against linear losses or by gradients of convex ones: a regularised leader behind noise
//! that cancels over time (Agarwal and Singh 2017; Kairouz et al. 2021; bounds and proofs: docs/proofs/online-convex.md).
//!
//! What leaves is made of the noisy sums of the gradients so far: all rounds together are *one* Gaussian release.

use dpopt_mechanism::{
    Batching, Clipped, Correlation, Curator, CuratorError, GradientStream, Interactive, NotApplicable, SamplerError,
    Sensitive, StreamPlan, StreamShape,
};
use dpopt_noise::Grid;
use dpopt_objective::geometry::norm;
use dpopt_objective::objective::Closures;
use dpopt_optimize::RunError;
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, calibrate};
use serde::Serialize;

/// Where points are played: public.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayRegion {
    /// l_j ≤ x_j ≤ u_j.
    Box {
        /// l: lower end of each coordinate.
        lower: Vec<f64>,
        /// u: upper end of each coordinate.
        upper: Vec<f64>,
    },
    /// ‖x − c‖₂ ≤ r.
    Ball {
        /// c: centre of the ball.
        centre: Vec<f64>,
        /// r: radius of the ball.
        radius: f64,
    },
}

impl PlayRegion {
    /// d: number of coordinates.
    pub fn dimension(&self) -> usize {
        match self {
            Self::Box { lower, .. } => lower.len(),
            Self::Ball { centre, .. } => centre.len(),
        }
    }

    /// Where the first round is played.
    pub fn centre(&self) -> Vec<f64> {
        match self {
            Self::Box { lower, upper } => lower.iter().zip(upper).map(|(l, u)| l + (u - l) / 2.0).collect(),
            Self::Ball { centre, .. } => centre.clone(),
        }
    }

    /// R: no point is farther from the centre.
    pub fn radius(&self) -> f64 {
        match self {
            Self::Box { lower, upper } => {
                norm(&lower.iter().zip(upper).map(|(l, u)| (u - l) / 2.0).collect::<Vec<_>>())
            }
            Self::Ball { radius, .. } => *radius,
        }
    }

    /// Nearest point, in place.
    fn project(&self, x: &mut [f64]) {
        match self {
            Self::Box { lower, upper } => {
                x.iter_mut().zip(lower.iter().zip(upper)).for_each(|(x, (l, u))| *x = x.clamp(*l, *u));
            }
            Self::Ball { centre, radius } => {
                let far = norm(&x.iter().zip(centre).map(|(x, c)| x - c).collect::<Vec<_>>());
                if far > *radius {
                    x.iter_mut().zip(centre).for_each(|(x, c)| *x = c + (*x - c) * (radius / far));
                }
            }
        }
    }

    fn check(&self) -> Result<(), NotApplicable> {
        let refuse = |text: &'static str| Err(NotApplicable::Problem(text.into()));
        let bounded = |x: &[f64]| x.iter().all(|x| x.is_finite() && x.abs() <= 1e100);
        match self {
            Self::Box { lower, upper } => {
                if lower.is_empty() || lower.len() != upper.len() {
                    return refuse(
                        "the lower and upper ends of the box differ in number, or there is none; give one \
                                   of each for every coordinate",
                    );
                }
                let right = lower.iter().zip(upper).all(|(l, u)| l < u);
                if !(right && bounded(lower) && bounded(upper)) {
                    return refuse(
                        "the ends of the box are out of order or not finite; give finite numbers, the \
                                   lower below the upper",
                    );
                }
            }
            Self::Ball { centre, radius } => {
                let round = *radius > 0.0 && radius.is_finite() && *radius <= 1e100;
                if centre.is_empty() || !(round && bounded(centre)) {
                    return refuse(
                        "the ball has a centre or radius that is not finite, or no positive radius; give \
                                   finite numbers and a positive radius",
                    );
                }
            }
        }
        Ok(())
    }
}

/// What is known of the losses: it decides which regret is proved, and never what is private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Losses {
    /// ℓ_t(x) = ⟨g_t, x⟩, fixed before the first round.
    Linear,
    /// Convex, chosen as the game goes, observed as a (sub)gradient at the point that was played.
    Convex,
}

/// Public facts of a game: all of them fixed before the first round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConvexProblem {
    /// Where points are played.
    pub region: PlayRegion,
    /// L: gradients are clipped to this l2 norm.
    pub lipschitz: f64,
    /// T ≥ 2: no more rounds are ever played.
    pub rounds: u64,
    /// What is known of the losses.
    pub losses: Losses,
    /// Rounds that one user may be in: all of them are protected together.
    pub rounds_per_user: u64,
    /// Which sequences of gradients are neighbours; add-or-remove is refused.
    pub neighbours: Neighbours,
}

/// Rounds at most: the factor's sensitivity is worked out step by step.
const MAX_ROUNDS: u64 = 1 << 22;
/// log2 of the steps of L, unless noise is too large for so fine a grid.
const FINE: i32 = 30;
/// log2 of the steps of a standard deviation of noise at most.
const FINEST_NOISE: i32 = 38;

/// A certified plan of a game.
#[derive(Clone)]
pub struct ConvexPlan {
    /// What was planned for.
    pub problem: ConvexProblem,
    /// Expected regret at most.
    pub regret_bound: f64,
    /// λ: the player minimises ⟨noisy sum of gradients, x⟩ + λ/2·‖x − centre‖².
    pub strength: f64,
    /// Standard deviation of a normal variable of the noise, before the factor.
    pub noise_std: f64,
    /// And of the noise of the last sum that is played from.
    pub last_noise_std: f64,
    /// The certified privacy event of all plays together.
    pub certificate: Certificate,
    noise_multiplier: f64,
    grid: Grid,
}

type Vectors = Closures<fn(&[f64], &Vec<f64>) -> f64, fn(&[f64], &Vec<f64>, &mut [f64])>;

/// ⟨g, x⟩ for a record g. One of another length tells nothing.
fn vectors(dimension: usize) -> Vectors {
    let value: fn(&[f64], &Vec<f64>) -> f64 = |x, g| x.iter().zip(g).map(|(x, g)| x * g).sum();
    let gradient: fn(&[f64], &Vec<f64>, &mut [f64]) = |_, g, out| {
        if out.len() == g.len() {
            out.copy_from_slice(g);
        }
    };
    Closures::new(dimension, value, gradient)
}

impl ConvexProblem {
    /// R·L·√T: what the best step size has without privacy.
    pub fn without_privacy(&self) -> f64 {
        self.region.radius() * self.lipschitz * (self.rounds as f64).sqrt()
    }

    /// Gradients are asked for after all rounds but the last.
    fn shape(&self) -> StreamShape {
        let steps = self.rounds as usize - 1;
        StreamShape { batches: steps, steps, correlation: Correlation::Blt }
    }

    /// Per unit of L, of all gradients of one user: no gradient is asked for after the last round.
    fn sensitivity(&self) -> Result<f64, CuratorError> {
        match self.rounds_per_user {
            1 => self.shape().sensitivity(),
            k => self.shape().sensitivity_of_arrivals(k),
        }
    }

    fn check(&self) -> Result<(), NotApplicable> {
        self.region.check()?;
        let refuse = |text: String| Err(NotApplicable::Problem(text.into()));
        if !(self.lipschitz > 0.0 && self.lipschitz.is_finite() && (1e-100..=1e100).contains(&self.lipschitz)) {
            return refuse("the clip norm of gradients is out of range; give a positive, finite number".into());
        }
        if !(2..=MAX_ROUNDS).contains(&self.rounds) {
            return refuse(format!("there are {} rounds; give 2 to {MAX_ROUNDS}", self.rounds));
        }
        if self.rounds_per_user == 0 || self.rounds_per_user > self.rounds {
            return refuse(format!(
                "a user is in {} of {} rounds; give 1 to {}",
                self.rounds_per_user, self.rounds, self.rounds
            ));
        }
        if self.neighbours.relation == Relation::AddOrRemove {
            return refuse(
                "adding or removing a round moves all later ones; use zero-out or replace-one, where the \
                 number of rounds is public"
                    .into(),
            );
        }
        Ok(())
    }

    /// (λ, regret at most) for the standard deviations of the noise of the sums that are played from, on a grid.
    fn bound(&self, deviations: &[f64], step: f64) -> (f64, f64) {
        let (rounds, d) = (self.rounds as f64, self.region.dimension() as f64);
        let (radius, lipschitz) = (self.region.radius(), self.lipschitz);
        // λR²/2 + (spread)/(2λ)
        let of_gradients = rounds * lipschitz * lipschitz;
        let of_noise = match self.losses {
            Losses::Linear => d * deviations.last().map_or(0.0, |last| last * last),
            Losses::Convex => 2.0 * lipschitz * d.sqrt() * deviations.iter().sum::<f64>(),
        };
        // each step's noise is rounded by half a step: sums by t of them
        let of_rounding = lipschitz * d.sqrt() * rounds * rounds * step / 2.0;
        let spread = of_gradients + of_noise + of_rounding;
        let strength = spread.sqrt() / radius;
        // gradients are truncated to the grid, and clipped a little below L
        let truncated = 2.0 * radius * rounds * (2.0 * d.sqrt() * step + lipschitz * 1e-9);
        (strength, (strength * radius * radius / 2.0 + spread / (2.0 * strength) + truncated) * (1.0 + 1e-9))
    }
}

/// The plan with the least proved regret.
///
/// ```
/// use dpopt_online::{ConvexProblem, Losses, PlayRegion, plan_convex};
/// use dpopt_privacy::{Budget, Neighbours, Relation};
/// let problem = ConvexProblem {
///     region: PlayRegion::Ball { centre: vec![0.0; 20], radius: 1.0 },
///     lipschitz: 1.0,
///     rounds: 100_000,
///     losses: Losses::Linear,
///     rounds_per_user: 1,
///     neighbours: Neighbours::of_rounds(Relation::ReplaceOne),
/// };
/// let plan = plan_convex(&problem, Budget::new(1.0, 1e-6).unwrap())?;
/// assert!(plan.regret_bound < 2.0 * problem.without_privacy());
/// # Ok::<(), dpopt_mechanism::NotApplicable>(())
/// ```
///
/// # Errors
/// If the facts are out of range, or nothing is certified within the budget.
pub fn plan_convex(problem: &ConvexProblem, budget: Budget) -> Result<ConvexPlan, NotApplicable> {
    problem.check()?;
    if budget.delta() == 0.0 {
        return Err(NotApplicable::Problem(
            "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
        ));
    }
    let shape = problem.shape();
    let refused = |error: CuratorError| NotApplicable::Problem(error.to_string().into());
    let sensitivity = problem.sensitivity().map_err(refused)?;
    let terms = problem.neighbours.within(budget);
    let mechanism =
        |z: f64| ConvexPlan::mechanism(problem, z, grid(problem.lipschitz, z * sensitivity * problem.lipschitz));
    let event = |z: f64| match mechanism(z).and_then(|mechanism| Ok((mechanism.sampler_error()?, mechanism.event()))) {
        Ok((error, event)) if error < 0.5 => SamplerError::proved(error).on(event),
        // noise that can't be made is impossible to certify
        _ => dpopt_privacy::Event::gaussian(z).approximate(1.0),
    };
    let (noise_multiplier, certificate) = calibrate::noise(event, terms)?;
    let noise_std = noise_multiplier * sensitivity * problem.lipschitz;
    let grid = grid(problem.lipschitz, noise_std);
    let factor = shape.factor().map_err(refused)?;
    let errors = factor.map(|factor| factor.prefix_errors(shape.steps)).unwrap_or_default();
    let deviations: Vec<f64> = errors.iter().map(|error| error * noise_std * (1.0 + 1e-9)).collect();
    let (strength, regret_bound) = problem.bound(&deviations, grid.step());
    Ok(ConvexPlan {
        problem: problem.clone(),
        regret_bound,
        strength,
        noise_std,
        last_noise_std: deviations.last().copied().unwrap_or(0.0),
        certificate,
        noise_multiplier,
        grid,
    })
}

fn grid(lipschitz: f64, noise_std: f64) -> Grid {
    let log2 = |x: f64| x.log2().floor() as i32;
    let of_noise = log2(noise_std);
    Grid::new((log2(lipschitz) - FINE).max(of_noise - FINEST_NOISE).min(of_noise - 5))
}

impl ConvexPlan {
    fn mechanism(
        problem: &ConvexProblem,
        noise_multiplier: f64,
        grid: Grid,
    ) -> Result<StreamPlan<Vectors>, CuratorError> {
        let dimension = problem.region.dimension();
        Ok(StreamPlan {
            shape: problem.shape(),
            batching: match problem.rounds_per_user {
                1 => Batching::Arrival,
                k => Batching::Arrivals(k),
            },
            gradient: Clipped::new(vectors(dimension), problem.lipschitz, grid)?,
            noise_multiplier,
            dimension,
            records: problem.rounds,
            relation: problem.neighbours.relation,
        })
    }

    /// Charges `curator` with the whole game.
    ///
    /// # Errors
    /// If its certificate is of another plan.
    pub fn open(&self, curator: &mut Curator) -> Result<ConvexPlays, RunError> {
        let stream = curator.open(&Self::mechanism(&self.problem, self.noise_multiplier, self.grid)?)?;
        let centre = self.problem.region.centre();
        Ok(ConvexPlays {
            sum: vec![0.0; centre.len()],
            point: centre.clone(),
            centre,
            plan: self.clone(),
            round: 0,
            stream,
        })
    }
}

/// A game that is under way. Neither printable nor cloneable: its noise goes on once.
pub struct ConvexPlays {
    plan: ConvexPlan,
    stream: GradientStream<Vectors>,
    centre: Vec<f64>,
    /// Noisy gradients so far, added up.
    sum: Vec<f64>,
    point: Vec<f64>,
    /// Number of rounds observed.
    round: u64,
}

impl ConvexPlays {
    /// The point of the coming round; `None` after the last. Asking again gives the same.
    pub fn play(&self) -> Option<&[f64]> {
        (self.round < self.plan.problem.rounds).then_some(self.point.as_slice())
    }

    /// Takes the gradient of the loss of the round that was played for, at the point that was played: clipped to L in l2 norm, entries that
    /// are no finite numbers count as 0. `None`: a round that tells nothing.
    ///
    /// # Errors
    /// After the last round, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, gradient: Option<Vec<f64>>) -> Result<(), RunError> {
        if self.round == self.plan.problem.rounds {
            return Err(CuratorError::Unforeseen { label: "plays" }.into());
        }
        // nothing is played after the last round
        if self.round + 1 < self.plan.problem.rounds {
            let told: Sensitive<Vec<Vec<f64>>> = Sensitive::new(gradient.into_iter().collect());
            let noisy = self.stream.next_arrived(&told, &self.point)?;
            self.sum.iter_mut().zip(noisy.get()).for_each(|(sum, g)| *sum += g);
            let strength = self.plan.strength;
            self.point.iter_mut().zip(&self.centre).zip(&self.sum).for_each(|((x, c), g)| *x = c - g / strength);
            self.plan.problem.region.project(&mut self.point);
        }
        self.round += 1;
        Ok(())
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.round
    }

    /// The plan of the game.
    pub fn plan(&self) -> &ConvexPlan {
        &self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    fn problem(d: usize, rounds: u64, losses: Losses) -> ConvexProblem {
        let region = PlayRegion::Ball { centre: vec![0.0; d], radius: 1.0 };
        let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
        ConvexProblem { region, lipschitz: 1.0, rounds, losses, rounds_per_user: 1, neighbours }
    }

    fn budget() -> Budget {
        Budget::new(1.0, 1e-6).unwrap()
    }

    /// R√(TL² + dσ²), with σ worked out here from the factor alone.
    #[test]
    fn bounds_are_those_of_the_proof() {
        let problem = problem(20, 10_000, Losses::Linear);
        let plan = plan_convex(&problem, budget()).unwrap();
        let last = plan.last_noise_std;
        let expected = (10_000.0 + 20.0 * last * last).sqrt();
        assert!((plan.regret_bound / expected - 1.0).abs() < 1e-3, "{} {expected}", plan.regret_bound);
        assert!((plan.strength / expected - 1.0).abs() < 1e-3);
        // one Gaussian release of noise z·s, replaced: μ = 2/z
        let mu = dpopt_privacy::special::gaussian_mu(1.0, 1e-6);
        assert!((plan.noise_multiplier * mu / 2.0 - 1.0).abs() < 1e-4, "{}", plan.noise_multiplier);
        let convex = plan_convex(&ConvexProblem { losses: Losses::Convex, ..problem.clone() }, budget()).unwrap();
        assert!(convex.regret_bound > 2.0 * plan.regret_bound && convex.noise_std == plan.noise_std);
        assert!(plan.certificate.bound().upper <= 1.0 && plan.certificate.bound().upper > 0.999);
    }

    /// Best plans of the lazy player with a fixed reference, L = R = 1, for linear losses on a ball or box: λR² + TBL²/(4λ) + (d/β)·ln(1/γ) + 2TLγR
    /// minimised over what its accountant certifies.
    #[test]
    fn the_leader_is_far_below_the_lazy_player() {
        for (rounds, d, lazy) in
            [(10_000, 2, 1033.0), (100_000, 2, 3093.0), (100_000, 20, 5724.0), (100_000, 100, 9394.0)]
        {
            let plan = plan_convex(&problem(d, rounds, Losses::Linear), budget()).unwrap();
            assert!(plan.regret_bound < lazy / 5.0, "{rounds} {d}: {}", plan.regret_bound);
        }
    }

    /// A user in k rounds: the noise is that of k columns of the factor that follow each other, the worst there are; between √k and k times that of
    /// one, and the multiplier, which the budget decides, is the same.
    #[test]
    fn rounds_of_one_user_are_protected_together() {
        let one = plan_convex(&problem(3, 500, Losses::Linear), budget()).unwrap();
        let c = dpopt_noise::correlated::Factor::blt_default(4).unwrap().coefficients(499);
        let columns = |k: usize| -> f64 {
            let rows = (0..499).map(|t| (0..k.min(t + 1)).map(|j| c[t - j]).sum::<f64>().powi(2));
            rows.sum::<f64>().sqrt()
        };
        for k in [2u64, 7, 499, 500] {
            let several = ConvexProblem { rounds_per_user: k, ..problem(3, 500, Losses::Linear) };
            let plan = plan_convex(&several, budget()).unwrap();
            let (grown, expected) = (plan.noise_std / one.noise_std, columns(k as usize) / columns(1));
            assert!((grown / expected - 1.0).abs() < 1e-5, "{k}: {grown} {expected}");
            assert!(grown > (k.min(499) as f64).sqrt() && grown < k as f64 && plan.regret_bound > one.regret_bound);
            assert!((plan.noise_multiplier / one.noise_multiplier - 1.0).abs() < 1e-5);
            assert!(plan.certificate.bound().upper <= 1.0);
            // what is opened has that noise and no less
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
            assert!(plan.open(&mut curator).is_ok());
        }
    }

    /// Scaling all gradients scales the regret; scaling the region, too.
    #[test]
    fn units_do_not_matter() {
        let plain = plan_convex(&problem(3, 500, Losses::Linear), budget()).unwrap();
        let mut scaled = problem(3, 500, Losses::Linear);
        scaled.lipschitz = 1e-3;
        scaled.region = PlayRegion::Ball { centre: vec![5.0; 3], radius: 40.0 };
        let scaled = plan_convex(&scaled, budget()).unwrap();
        assert!((scaled.regret_bound / plain.regret_bound / 0.04 - 1.0).abs() < 1e-5);
    }

    fn regret(problem: &ConvexProblem, plan: &ConvexPlan, seed: u64, gradients: &[Vec<f64>]) -> f64 {
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
        let mut game = plan.open(&mut curator).unwrap();
        let (mut lost, mut sum) = (0.0, vec![0.0; problem.region.dimension()]);
        for g in gradients {
            lost += game.play().unwrap().iter().zip(g).map(|(x, g)| x * g).sum::<f64>();
            sum.iter_mut().zip(g).for_each(|(s, g)| *s += g);
            game.observe(Some(g.clone())).unwrap();
        }
        assert!(game.play().is_none() && game.observe(None).is_err() && curator.is_spent());
        // the best point of a ball around 0, or of a box
        let best = match &problem.region {
            PlayRegion::Ball { radius, .. } => -radius * norm(&sum),
            PlayRegion::Box { lower, upper } => {
                sum.iter().zip(lower.iter().zip(upper)).map(|(s, (l, u))| (s * l).min(s * u)).sum()
            }
        };
        lost - best
    }

    /// Blocks of ±L·e_j, coins, and one direction: on average over seeds never above the bound, and below a quarter of it at its worst.
    #[test]
    fn regret_is_below_its_bound() {
        let (d, rounds) = (4usize, 2000u64);
        let unit = |j: usize, sign: f64| (0..d).map(|i| if i == j { sign } else { 0.0 }).collect::<Vec<f64>>();
        let mut coins = NoiseSource::insecure(7).stream(Purpose::Other(0), 0);
        let sign = |up: bool| if up { 1.0 } else { -1.0 };
        let blocks: Vec<Vec<f64>> = (0..rounds as usize).map(|t| unit(t / 100 % d, sign(t / 100 % 3 == 0))).collect();
        let random: Vec<Vec<f64>> = (0..rounds).map(|t| unit(t as usize % d, sign(coins.coin()))).collect();
        let steady: Vec<Vec<f64>> = (0..rounds).map(|_| unit(1, 1.0)).collect();
        let boxed = PlayRegion::Box { lower: vec![-0.5, -0.25, 0.0, -0.5], upper: vec![0.5, 0.75, 1.0, 0.5] };
        let ball = PlayRegion::Ball { centre: vec![0.0; d], radius: 1.0 };
        for (region, losses) in [(ball.clone(), Losses::Linear), (boxed, Losses::Linear), (ball, Losses::Convex)] {
            let problem = ConvexProblem { region, ..problem(d, rounds, losses) };
            let plan = plan_convex(&problem, budget()).unwrap();
            for gradients in [&blocks, &random, &steady] {
                let games = 20;
                let all: Vec<f64> = (0..games).map(|seed| regret(&problem, &plan, seed, gradients)).collect();
                let mean = all.iter().sum::<f64>() / games as f64;
                assert!(mean < plan.regret_bound, "{losses:?}: {mean} {}", plan.regret_bound);
            }
        }
    }

    #[test]
    fn plays_are_projected_and_gradients_clipped() {
        let region = PlayRegion::Box { lower: vec![-1.0, 2.0], upper: vec![1.0, 3.0] };
        let problem = ConvexProblem { region, ..problem(2, 50, Losses::Linear) };
        let plan = plan_convex(&problem, Budget::new(1e3, 1e-2).unwrap()).unwrap();
        let play = |gradient: Option<Vec<f64>>| {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(2));
            let mut game = plan.open(&mut curator).unwrap();
            assert_eq!(game.play().unwrap(), [0.0, 2.5]);
            let mut plays = Vec::new();
            while game.play().is_some() {
                game.observe(gradient.clone()).unwrap();
                plays.extend(game.play().map(<[f64]>::to_vec));
            }
            plays
        };
        let huge = play(Some(vec![3e300, 4e300]));
        assert_eq!(huge.last().unwrap(), &[-1.0, 2.0]);
        let clipped = play(Some(vec![0.6, 0.8]));
        let near = |a: &[Vec<f64>], b: &[Vec<f64>]| {
            a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-6)
        };
        assert!(near(&huge, &clipped), "{huge:?} {clipped:?}");
        // what is no vector of two numbers tells nothing
        assert_eq!(play(Some(vec![1.0])), play(None));
        assert_eq!(play(Some(vec![f64::NAN, f64::INFINITY])), play(None));
    }

    #[test]
    fn facts_out_of_range_are_refused() {
        let good = problem(2, 50, Losses::Linear);
        let ball = |centre: Vec<f64>, radius| PlayRegion::Ball { centre, radius };
        for bad in [
            ConvexProblem { rounds: 1, ..good.clone() },
            ConvexProblem { rounds: (1 << 22) + 1, ..good.clone() },
            ConvexProblem { rounds_per_user: 0, ..good.clone() },
            ConvexProblem { rounds_per_user: 51, ..good.clone() },
            ConvexProblem { lipschitz: 0.0, ..good.clone() },
            ConvexProblem { lipschitz: f64::NAN, ..good.clone() },
            ConvexProblem { region: ball(vec![], 1.0), ..good.clone() },
            ConvexProblem { region: ball(vec![0.0], -1.0), ..good.clone() },
            ConvexProblem { region: PlayRegion::Box { lower: vec![0.0], upper: vec![0.0] }, ..good.clone() },
            ConvexProblem { region: PlayRegion::Box { lower: vec![0.0], upper: vec![1.0, 2.0] }, ..good.clone() },
            ConvexProblem { neighbours: Neighbours::of_rounds(Relation::AddOrRemove), ..good.clone() },
        ] {
            assert!(plan_convex(&bad, budget()).is_err(), "{bad:?}");
        }
        assert!(plan_convex(&good, Budget::new(1.0, 0.0).unwrap()).is_err());
    }
}
