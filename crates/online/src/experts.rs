//! One of d experts in every round of T: the plan with the least proved regret within a budget. The lazy choice is that of Asi,
//! Koren, Liu and Talwar (2024) without its auxiliary chain; the bounds, and where the published ones do not hold, are in
//! docs/proofs/online-experts.md.
//!
//! Covers: thesis theorem 13.3.10 (part: experts are certified, with a bound of their own; its settings are not used)

use super::blocks::BlockSchedule;
use dpopt_mechanism::{BlockExperts, CuratorError, Interactive, LazyExperts, NoisyLeader, NotApplicable, SamplerError};
use dpopt_privacy::accountant::{Accountant, AccountingError, rdp::RdpAccountant};
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, Terms, calibrate, certify, special};
use serde::{Deserialize, Serialize};

/// Public facts of a game: all of them fixed before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpertsProblem {
    /// d ≥ 2: number of experts.
    pub experts: usize,
    /// T ≥ 2: no more rounds are ever played.
    pub rounds: u64,
    /// Rounds that one user may be in: all of them are protected together.
    pub rounds_per_user: u64,
    /// Which sequences of losses are neighbours; add-or-remove is refused.
    pub neighbours: Neighbours,
    /// What is known of the losses. `None`: nothing; but a pure guarantee makes do with a bound for losses that are drawn independently.
    #[serde(default)]
    pub losses: Option<ExpertLosses>,
}

/// What is known of losses: it decides which bound on regret holds, and never what is private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertLosses {
    /// Nothing but that they were fixed before the first round.
    Any,
    /// Those of each round are drawn from the same law, independently of all other rounds.
    Independent,
}

impl ExpertLosses {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Independent => "independent",
        }
    }
}

/// The algorithm that chooses the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Player {
    /// Keeps its expert until a coin says otherwise; then a draw by multiplicative weights.
    Lean,
    /// A draw by multiplicative weights after every batch.
    Fresh,
    /// The least of the losses so far with noise that cancels over time.
    Leader,
    /// A draw after every block, from the losses of that block alone.
    Blocks,
}

/// Every player, in the order in which equal bounds are resolved.
pub const PLAYERS: [Player; 4] = [Player::Lean, Player::Leader, Player::Fresh, Player::Blocks];

impl Player {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lean => "lean",
            Self::Fresh => "fresh",
            Self::Leader => "leader",
            Self::Blocks => "blocks",
        }
    }

    /// The losses that its bound is for.
    pub fn bounded_for(self) -> ExpertLosses {
        match self {
            Self::Lean | Self::Fresh | Self::Leader => ExpertLosses::Any,
            Self::Blocks => ExpertLosses::Independent,
        }
    }

    /// Whether its state can be written down.
    pub fn can_be_saved(self) -> bool {
        self != Self::Leader
    }
}

/// The mechanism of a plan.
#[derive(Clone, Debug)]
pub enum ExpertsMechanism {
    /// The mechanism of `lean` and `fresh`.
    Lazy(LazyExperts),
    /// The mechanism of `leader`.
    Leader(NoisyLeader),
    /// The mechanism of `blocks`.
    Blocks(BlockExperts),
}

/// A certified plan of a game.
#[derive(Clone, Debug)]
pub struct ExpertsPlan {
    /// The algorithm that plays.
    pub player: Player,
    /// Expected regret at most, against losses in \[0, 1\] of the kind that the [player's bound](Player::bounded_for) is for.
    pub regret_bound: f64,
    /// B: rounds of a batch, or of the first block; 1 for a leader.
    pub batch: u64,
    /// The last rounds of all blocks but the last; empty but for `blocks`.
    pub block_ends: Vec<u64>,
    /// η; `None` for a leader.
    pub learning_rate: Option<f64>,
    /// p: probability of a fresh draw where no loss asks for one; `None` for a leader and for `blocks`.
    pub resampling: Option<f64>,
    /// Standard deviation of the noise per step; `None` but for a leader.
    pub noise_std: Option<f64>,
    /// The certified privacy event of all plays together.
    pub certificate: Certificate,
    /// The mechanism that a game opens.
    pub mechanism: ExpertsMechanism,
}

impl ExpertsProblem {
    /// √(T·ln d/2): what the best learning rate has without privacy.
    pub fn without_privacy(&self) -> f64 {
        (self.rounds as f64 * (self.experts as f64).ln() / 2.0).sqrt()
    }

    /// ln d/η + ηTB/8: multiplicative weights over batches of losses in \[0, B\], whose sizes' squares add up to at most TB.
    fn lazy_bound(&self, learning_rate: f64, batch: u64) -> f64 {
        let rounds = self.rounds as f64;
        (self.experts as f64).ln() / learning_rate + learning_rate * rounds * batch as f64 / 8.0 + self.rounding()
    }

    /// Whether `player` may be chosen by its bound: one that holds for fewer losses stands back, unless the losses are of that kind, or a pure
    /// guarantee is asked for, at which the others' bounds are far above it.
    fn chooses(&self, player: Player, budget: Budget) -> bool {
        match (player.bounded_for(), self.losses) {
            (ExpertLosses::Any, _) | (_, Some(ExpertLosses::Independent)) => true,
            (_, Some(ExpertLosses::Any)) => false,
            (_, None) => budget.delta() == 0.0,
        }
    }

    /// Each loss is off by at most 2^-25, the player's and the best expert's.
    fn rounding(&self) -> f64 {
        self.rounds as f64 * 2f64.powi(-24)
    }
}

/// Halvings of the logarithm of the learning rate's range: 1e-6 of it is left.
const HALVINGS: u32 = 24;
/// Least learning rate that is drawn with, a little above 2^-26.
const LEAST_RATE: f64 = 1.6e-8;
/// What of ε the coin that sees the round that differs may cost.
const SHARES: [f64; 11] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9];

/// Every player's plan, or why it has none.
pub fn experts_candidates(
    problem: &ExpertsProblem,
    budget: Budget,
) -> Vec<(Player, Result<ExpertsPlan, NotApplicable>)> {
    PLAYERS.iter().map(|player| (*player, plan_experts(problem, budget, Some(*player)))).collect()
}

/// The plan of `player`, or of whoever has the least bound.
///
/// ```
/// use dpopt_online::{ExpertsProblem, Player, plan_experts};
/// use dpopt_privacy::{Budget, Neighbours, Relation};
/// let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
/// let problem = ExpertsProblem { experts: 100, rounds: 10_000, rounds_per_user: 1, neighbours, losses: None };
/// let plan = plan_experts(&problem, Budget::new(1.0, 1e-6).unwrap(), Some(Player::Lean))?;
/// assert!(plan.regret_bound < 450.0 && plan.batch == 4);
/// # Ok::<(), dpopt_mechanism::NotApplicable>(())
/// ```
///
/// # Errors
/// If the facts are out of range, or nothing is certified within the budget.
pub fn plan_experts(
    problem: &ExpertsProblem,
    budget: Budget,
    player: Option<Player>,
) -> Result<ExpertsPlan, NotApplicable> {
    check(problem)?;
    let terms = problem.neighbours.within(budget);
    match player {
        Some(Player::Leader) => leader(problem, terms),
        Some(Player::Blocks) => blocks(problem, terms),
        Some(player) => lazy(problem, terms, player),
        None => least_of(problem, budget, &PLAYERS),
    }
}

/// The least bound of those `players` who may be [chosen](ExpertsProblem::chooses).
///
/// # Errors
/// As [`plan_experts`].
pub fn least_of(problem: &ExpertsProblem, budget: Budget, players: &[Player]) -> Result<ExpertsPlan, NotApplicable> {
    let mut best: Result<ExpertsPlan, _> = Err(NotApplicable::Problem("nobody plays".into()));
    for player in players.iter().filter(|player| problem.chooses(**player, budget)) {
        let plan = plan_experts(problem, budget, Some(*player));
        best = match (best, plan) {
            (Ok(best), Ok(plan)) if plan.regret_bound < best.regret_bound => Ok(plan),
            (Err(NotApplicable::Problem(_)), plan @ Err(_)) => plan,
            (Err(_), Ok(plan)) => Ok(plan),
            (best, _) => best,
        };
    }
    best
}

fn check(problem: &ExpertsProblem) -> Result<(), NotApplicable> {
    let refuse = |text: String| Err(NotApplicable::Problem(text.into()));
    if problem.experts < 2 {
        return refuse(format!("there are {} experts; give at least 2", problem.experts));
    }
    if problem.rounds < 2 {
        return refuse(format!("there are {} rounds; give at least 2", problem.rounds));
    }
    if problem.rounds_per_user == 0 || problem.rounds_per_user > problem.rounds {
        return refuse(format!(
            "a user is in {} of {} rounds; give 1 to {}",
            problem.rounds_per_user, problem.rounds, problem.rounds
        ));
    }
    if problem.neighbours.relation == Relation::AddOrRemove {
        return refuse(
            "adding or removing a round moves all later ones; use zero-out or replace-one, where the number of \
             rounds is public"
                .into(),
        );
    }
    Ok(())
}

fn of_curator(error: CuratorError) -> NotApplicable {
    NotApplicable::Problem(error.to_string().into())
}

/// ε of an event by the accountant that knows most of many small draws, quickly: without a lattice.
fn spent(event: &Event, terms: Terms) -> Result<f64, AccountingError> {
    RdpAccountant.epsilon(event, terms.neighbours.relation, terms.budget.delta()).map(|bound| bound.upper)
}

fn lazy(problem: &ExpertsProblem, terms: Terms, player: Player) -> Result<ExpertsPlan, NotApplicable> {
    let (rounds, budget) = (problem.rounds as f64, terms.budget);
    // the least of all that could be tried is one more draw than nothing
    let mechanism = |batch: u64, rate: f64, share: Option<f64>| {
        let resampling = share.map_or(1.0, |share| (rate / (share * budget.epsilon()).exp_m1()).min(1.0));
        let (d, k, relation) = (problem.experts, problem.rounds_per_user, terms.neighbours.relation);
        LazyExperts::new(d, problem.rounds, batch, rate, resampling, k, relation)
            .map(|mechanism| (mechanism, resampling))
    };
    let mut best: Option<(f64, u64, f64, Option<f64>)> = None;
    let mut worse = 0;
    let mut batch = 1;
    while batch < problem.rounds && worse < 3 {
        let most = (8.0 * (problem.experts as f64).ln() / (rounds * batch as f64)).sqrt().min(1.0);
        let fits = |rate: f64, share: Option<f64>| {
            let spent = mechanism(batch, rate, share).ok().and_then(|(mechanism, _)| match budget.delta() > 0.0 {
                true => spent(&paid(&mechanism, budget).ok()?, terms).ok(),
                false => Some(mechanism.pure_epsilon()),
            });
            spent.is_some_and(|epsilon| epsilon <= budget.epsilon())
        };
        let mut least = f64::INFINITY;
        for share in SHARES.iter().map(|share| Some(*share)).chain([None]) {
            if share.is_none() != (player == Player::Fresh) {
                continue;
            }
            let (mut low, mut high) = (LEAST_RATE.min(most), most);
            if fits(most, share) {
                low = most;
            } else if !fits(low, share) {
                continue;
            } else {
                for _ in 0..HALVINGS {
                    let middle = (low * high).sqrt();
                    if fits(middle, share) { low = middle } else { high = middle }
                }
            }
            let bound = problem.lazy_bound(low, batch);
            least = least.min(bound);
            if best.is_none_or(|(known, ..)| bound < known) {
                best = Some((bound, batch, low, share));
            }
        }
        let grew = best.is_some_and(|(known, ..)| least > known);
        worse = if grew { worse + 1 } else { 0 };
        batch *= 2;
    }
    let Some((regret_bound, batch, rate, share)) = best else {
        return Err(NotApplicable::Problem(
            format!(
                "{}: no learning rate can be certified within the budget; raise epsilon, or give fewer rounds",
                player.name()
            )
            .into(),
        ));
    };
    let mut rate = rate;
    // what certifies may round another way than what was searched with
    for _ in 0..8 {
        let (mechanism, resampling) = mechanism(batch, rate, share).map_err(of_curator)?;
        match certify(&paid(&mechanism, budget)?, terms) {
            Ok(certificate) => {
                return Ok(ExpertsPlan {
                    player,
                    regret_bound: problem.lazy_bound(rate, batch).max(regret_bound),
                    batch,
                    block_ends: Vec::new(),
                    learning_rate: Some(rate),
                    resampling: Some(resampling),
                    noise_std: None,
                    certificate,
                    mechanism: ExpertsMechanism::Lazy(mechanism),
                });
            }
            Err(CertifyError::OverBudget { .. }) => rate *= 1.0 - 1e-7,
            Err(other) => return Err(other.into()),
        }
    }
    Err(NotApplicable::Problem(
        format!("{}: no noise can be certified within the budget; raise epsilon", player.name()).into(),
    ))
}

/// Costs more than any budget: what can't be made.
const IMPOSSIBLE: Event = Event::PureStream { epsilon: f64::MAX };

/// A mechanism's event with the error of its samplers.
fn paid(mechanism: &impl Interactive, budget: Budget) -> Result<Event, NotApplicable> {
    let error = mechanism.sampler_error().map_err(of_curator)?;
    Ok(SamplerError::proved(error).paid(mechanism.event(), budget.delta()))
}

/// Blocks that grow, with the largest rate that one choice is certified for.
fn blocks(problem: &ExpertsProblem, terms: Terms) -> Result<ExpertsPlan, NotApplicable> {
    let ExpertsProblem { experts, rounds, rounds_per_user, neighbours, .. } = *problem;
    let mechanism = |ends: Vec<u64>, rate: f64| {
        BlockExperts::new(experts, rounds, ends, rate, rounds_per_user, neighbours.relation)
    };
    let calibrated = |ends: &[u64]| {
        let event = |rate: f64| match mechanism(ends.to_vec(), rate).map_err(of_curator) {
            Ok(mechanism) => paid(&mechanism, terms.budget).unwrap_or(IMPOSSIBLE),
            Err(_) => IMPOSSIBLE,
        };
        calibrate::cost(event, terms)
    };
    // a choice more or less moves what is paid for samplers, far below what a rate shows
    let schedule = BlockSchedule::least(rounds, experts, calibrated(&[1])?.0);
    let (rate, certificate) = calibrated(&schedule.ends)?;
    let lost = schedule.lost(rounds, experts, rate);
    let regret_bound = (lost + problem.without_privacy() + problem.rounding()).min(problem.rounds as f64);
    Ok(ExpertsPlan {
        player: Player::Blocks,
        regret_bound: regret_bound * (1.0 + 1e-9),
        batch: schedule.ends.first().copied().unwrap_or(rounds),
        block_ends: schedule.ends.clone(),
        learning_rate: Some(rate),
        resampling: None,
        noise_std: None,
        certificate,
        mechanism: ExpertsMechanism::Blocks(mechanism(schedule.ends, rate).map_err(of_curator)?),
    })
}

fn leader(problem: &ExpertsProblem, terms: Terms) -> Result<ExpertsPlan, NotApplicable> {
    let ExpertsProblem { experts, rounds, rounds_per_user, .. } = *problem;
    let budget = terms.budget;
    if budget.delta() == 0.0 {
        return Err(NotApplicable::Problem(
            "leader: Gaussian noise needs delta > 0; use lean or fresh, or give a delta".into(),
        ));
    }
    if rounds > 1 << 22 {
        return Err(NotApplicable::Problem("leader: there are more than 4194304 rounds; use lean".into()));
    }
    let sensitivity = NoisyLeader::step_sensitivity(experts, rounds, rounds_per_user).map_err(of_curator)?;
    let errors = NoisyLeader::errors(rounds).map_err(of_curator)?;
    // √(2 ln d)·(σ_T + Σ 1/(4σ_t)), σ_t not decreasing
    let (last, inverse) = (errors.last().copied().unwrap_or(1.0), errors.iter().map(|e| 0.25 / e).sum::<f64>());
    let bound =
        |std: f64| (2.0 * (experts as f64).ln()).sqrt() * (std * last + inverse / std) + 2.0 * problem.rounding();
    // least within the budget; less noise than is best for the bound is of no use
    let mu = special::gaussian_mu(budget.epsilon(), budget.delta());
    let mut std = (sensitivity / mu * (1.0 + 1e-9)).max((inverse / last).sqrt());
    let mechanism = |std: f64| NoisyLeader::new(experts, rounds, std, rounds_per_user, terms.neighbours.relation);
    let certified = |mechanism: &NoisyLeader| -> Result<Certificate, NotApplicable> {
        let error = mechanism.sampler_error().map_err(of_curator)?;
        Ok(certify(&SamplerError::proved(error).on(mechanism.event()), terms)?)
    };
    // the samplers' share of δ
    for _ in 0..40 {
        let mechanism = mechanism(std).map_err(of_curator)?;
        match certified(&mechanism) {
            Ok(certificate) => {
                return Ok(ExpertsPlan {
                    player: Player::Leader,
                    regret_bound: bound(std),
                    batch: 1,
                    block_ends: Vec::new(),
                    learning_rate: None,
                    resampling: None,
                    noise_std: Some(std),
                    certificate,
                    mechanism: ExpertsMechanism::Leader(mechanism),
                });
            }
            Err(NotApplicable::Budget(CertifyError::OverBudget { .. })) => std *= 1.0 + 1e-6,
            Err(other) => return Err(other),
        }
    }
    Err(NotApplicable::Problem("leader: no noise can be certified within the budget; raise delta".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(experts: usize, rounds: u64) -> ExpertsProblem {
        let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
        ExpertsProblem { experts, rounds, rounds_per_user: 1, neighbours, losses: None }
    }

    fn planned(rounds: u64, epsilon: f64, player: Player) -> ExpertsPlan {
        plan_experts(&problem(100, rounds), Budget::new(epsilon, 1e-6).unwrap(), Some(player)).unwrap()
    }

    /// d = 100, δ = 1e-6: (T, ε, bound, B, η, p), worked out by separate code that bounds the divergence of a draw by αη²/2 and looks at
    /// shares of .05, .1, …: the exact curve of a bounded range certifies a little more.
    #[test]
    fn worked_plans() {
        for (rounds, epsilon, bound, batch, rate, resampling) in [
            (10_000, 1.0, 448.0, 4, 0.0118, 0.0535),
            (100_000, 0.1, 4212.0, 32, 0.00124, 0.0489),
            (100_000, 1.0, 1080.0, 2, 0.0048, 0.0169),
            (1_000_000, 1.0, 2629.0, 2, 0.00222, 0.00782),
            (1_000_000, 3.0, 1550.0, 1, 0.00493, 0.00441),
        ] {
            let plan = planned(rounds, epsilon, Player::Lean);
            let (own_rate, own_resampling) = (plan.learning_rate.unwrap(), plan.resampling.unwrap());
            let told = format!("{rounds} {epsilon}: {} {} {own_rate} {own_resampling}", plan.regret_bound, plan.batch);
            assert!(plan.regret_bound < 1.001 * bound && plan.regret_bound > 0.97 * bound, "{told}");
            assert_eq!(plan.batch, batch, "{told}");
            assert!((own_rate / rate - 1.0).abs() < 0.05, "{told}");
            assert!((own_resampling / resampling - 1.0).abs() < 0.25, "{told}");
            let used = plan.certificate.bound().upper;
            assert!(used <= epsilon && used > 0.999 * epsilon, "{used}");
        }
    }

    #[test]
    fn the_least_bound_is_taken() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        for problem in [problem(100, 20_000), problem(4000, 20_000)] {
            let candidates = experts_candidates(&problem, budget);
            let least = candidates.iter().filter_map(|(_, plan)| plan.as_ref().ok()).map(|p| p.regret_bound);
            let least = least.fold(f64::INFINITY, f64::min);
            let plan = plan_experts(&problem, budget, None).unwrap();
            assert_eq!(plan.regret_bound, least);
            assert!(least > problem.without_privacy());
        }
        // few experts and little ε: noise on their sums is cheap; many experts: it costs √d
        let small = Budget::new(0.1, 1e-6).unwrap();
        assert_eq!(plan_experts(&problem(3, 20_000), small, None).unwrap().player, Player::Leader);
        assert_eq!(plan_experts(&problem(4000, 20_000), budget, None).unwrap().player, Player::Lean);
    }

    #[test]
    fn pure_plans_and_users_of_several_rounds() {
        let budget = Budget::new(1.0, 0.0).unwrap();
        let plan = plan_experts(&problem(10, 1000), budget, None).unwrap();
        assert!(plan.player == Player::Blocks && plan.certificate.bound().upper <= 1.0);
        assert!(plan_experts(&problem(10, 1000), budget, Some(Player::Leader)).is_err());
        let budget = Budget::new(1.0, 1e-6).unwrap();
        for player in [Player::Lean, Player::Leader, Player::Fresh] {
            let one = plan_experts(&problem(10, 5000), budget, Some(player)).unwrap();
            let five = ExpertsProblem { rounds_per_user: 5, ..problem(10, 5000) };
            let five = plan_experts(&five, budget, Some(player)).unwrap();
            assert!(five.regret_bound > 1.5 * one.regret_bound, "{player:?}");
        }
    }

    /// What is searched with and what certifies round alike, or the plan gives way: every budget has a plan.
    #[test]
    fn many_budgets_are_met() {
        for i in (0..40).step_by(5) {
            let budget = Budget::new(0.1 * 1.15f64.powi(i), 1e-6).unwrap();
            for player in PLAYERS {
                let plan = plan_experts(&problem(20 + i as usize, 500 + 97 * i as u64), budget, Some(player)).unwrap();
                assert!(plan.certificate.bound().upper <= budget.epsilon() && plan.regret_bound.is_finite());
            }
        }
    }

    /// A bound for fewer losses is not held against one for more, unless the losses are of that kind or nothing else is worth a pure guarantee.
    #[test]
    fn blocks_stand_back_where_others_promise_more() {
        let (approximate, pure) = (Budget::new(0.1, 1e-6).unwrap(), Budget::new(0.1, 0.0).unwrap());
        let with = |losses| ExpertsProblem { losses, ..problem(100, 10_000) };
        let chosen = |losses, budget| least_of(&with(losses), budget, &[Player::Blocks, Player::Fresh]).unwrap().player;
        let (any, independent) = (Some(ExpertLosses::Any), Some(ExpertLosses::Independent));
        let bound = |player| plan_experts(&with(None), approximate, Some(player)).unwrap().regret_bound;
        assert!(
            bound(Player::Blocks) < 0.95 * bound(Player::Lean),
            "{} {}",
            bound(Player::Blocks),
            bound(Player::Lean)
        );
        assert_eq!([None, any].map(|losses| chosen(losses, approximate)), [Player::Fresh; 2]);
        assert_eq!(chosen(independent, approximate), Player::Blocks);
        assert_eq!([None, independent].map(|losses| chosen(losses, pure)), [Player::Blocks; 2]);
        assert_eq!(chosen(any, pure), Player::Fresh);
        // and not where it promises less: at ε = 1 with δ > 0
        let loose = Budget::new(1.0, 1e-6).unwrap();
        let least = least_of(&with(independent), loose, &[Player::Blocks, Player::Lean]).unwrap();
        assert_eq!(least.player, Player::Lean);
    }

    /// λ = ε/2 under replace-one and ε under zero-out, divided by the rounds of a user; the bound by hand.
    #[test]
    fn blocks_use_all_of_the_budget_in_each() {
        for (relation, k, expected) in
            [(Relation::ReplaceOne, 1, 0.5), (Relation::ZeroOut, 1, 1.0), (Relation::ReplaceOne, 4, 0.125)]
        {
            let neighbours = Neighbours::of_rounds(relation);
            let problem = ExpertsProblem { neighbours, rounds_per_user: k, ..problem(100, 100_000) };
            let plan = plan_experts(&problem, Budget::new(1.0, 0.0).unwrap(), Some(Player::Blocks)).unwrap();
            let rate = plan.learning_rate.unwrap();
            assert!(rate <= expected && rate > expected * (1.0 - 1e-6), "{rate}");
            let (mut lost, mut before, log) = (0.0, 0, 100f64.ln());
            let ends = plan.block_ends.iter().copied().chain([100_000]).collect::<Vec<u64>>();
            let sizes = ends.iter().scan(0, |from, end| Some(end - std::mem::replace(from, *end)));
            for size in sizes {
                let eta = rate.min((8.0 * log / before as f64).sqrt());
                lost += size as f64 * if before == 0 { 0.99 } else { 1f64.min(log / eta / before as f64 + eta / 8.0) };
                before = size;
            }
            let bound = lost + (5e4 * log).sqrt();
            assert!((plan.regret_bound / bound - 1.0).abs() < 1e-3, "{} {bound}", plan.regret_bound);
        }
    }

    /// Sum of the losses of a game by blocks, and of each expert.
    fn by_blocks(
        plan: &ExpertsPlan,
        rounds: u64,
        seed: u64,
        mut losses: impl FnMut(u64) -> Vec<f64>,
    ) -> (f64, Vec<f64>) {
        use dpopt_mechanism::{Curator, RoundLosses};
        let ExpertsMechanism::Blocks(mechanism) = &plan.mechanism else { panic!() };
        let mut curator = Curator::new(&plan.certificate, dpopt_noise::NoiseSource::insecure(seed));
        let mut plays = curator.open(mechanism).unwrap();
        let (mut lost, mut sums) = (0.0, vec![0.0; plays.experts()]);
        for t in 0..rounds {
            let losses = losses(t);
            lost += losses[*plays.play().unwrap().get()];
            sums.iter_mut().zip(&losses).for_each(|(sum, loss)| *sum += loss);
            plays.observe(&RoundLosses::of(&losses).unwrap()).unwrap();
        }
        (lost, sums)
    }

    /// Losses that are drawn independently: on average regret is below its bound, for a good expert, for many that are alike, and for the worst
    /// gap of the last choice. Losses that know the blocks: nearly all is lost.
    #[test]
    fn regret_by_blocks_is_below_its_bound_and_for_known_blocks_there_is_none() {
        const ROUNDS: u64 = 4000;
        for (experts, epsilon) in [(2, 0.3), (10, 0.3), (10, 3.0)] {
            let budget = Budget::new(epsilon, 0.0).unwrap();
            let plan = plan_experts(&problem(experts, ROUNDS), budget, Some(Player::Blocks)).unwrap();
            let (ends, log) = (&plan.block_ends, (experts as f64).ln());
            let last = ends[ends.len() - 1] - if ends.len() > 1 { ends[ends.len() - 2] } else { 0 };
            for gap in [0.0, 0.3, (log / last as f64).sqrt().min(0.9)] {
                let mut random = dpopt_noise::NoiseSource::insecure(7).stream(dpopt_noise::Purpose::Other(0), 0);
                let mut mean = 0.0;
                for seed in 0..40 {
                    let (lost, sums) = by_blocks(&plan, ROUNDS, seed, |_| {
                        let loss = |j: usize| if j == 0 { 0.5 - gap / 2.0 } else { 0.5 + gap / 2.0 };
                        (0..experts).map(|j| f64::from(u8::from(random.uniform() < loss(j)))).collect()
                    });
                    mean += (lost - sums.into_iter().fold(f64::INFINITY, f64::min)) / 40.0;
                }
                assert!(mean < plan.regret_bound, "{experts} {epsilon} {gap}: {mean} {}", plan.regret_bound);
            }
        }
        // two experts, of whom one loses everything in each block and the other nothing, by turns
        let plan = plan_experts(&problem(2, ROUNDS), Budget::new(3.0, 0.0).unwrap(), Some(Player::Blocks)).unwrap();
        let (lost, sums) = by_blocks(&plan, ROUNDS, 1, |t| {
            let block = plan.block_ends.partition_point(|end| *end <= t);
            if block.is_multiple_of(2) { vec![1.0, 0.0] } else { vec![0.0, 1.0] }
        });
        assert!(lost > 0.97 * ROUNDS as f64, "{lost}");
        assert!(lost - sums[0].min(sums[1]) > plan.regret_bound, "{lost} {sums:?}");
    }

    #[test]
    fn facts_out_of_range_are_refused() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let added = Neighbours::of_rounds(Relation::AddOrRemove);
        for bad in [
            problem(1, 10),
            problem(10, 1),
            ExpertsProblem { rounds_per_user: 0, ..problem(10, 10) },
            ExpertsProblem { rounds_per_user: 11, ..problem(10, 10) },
            ExpertsProblem { neighbours: added, ..problem(10, 10) },
        ] {
            for player in PLAYERS.iter().map(|player| Some(*player)).chain([None]) {
                assert!(plan_experts(&bad, budget, player).is_err(), "{bad:?}");
            }
        }
    }
}
