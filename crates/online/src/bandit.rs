//! One of K arms in every round of T, where only the reward of the arm that was played is observed (proofs: docs/proofs/online-bandit.md).
//!
//! Every reward is in one noisy sum, so that all of them together cost what one does: pure ε. Two players make their plays of such sums:
//! successive elimination ([`elimination`]) and exponential weights ([`weights`]).

mod elimination;
mod weights;

use dpopt_mechanism::{
    Curator, CuratorError, FreshSums, Interactive, NotApplicable, OpenSums, RoundLosses, SamplerError, SavedSums,
    Sensitive, SumsFile,
};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, calibrate, certify};
use elimination::Left;
use serde::{Deserialize, Serialize};
pub use weights::ArmWeights;
use weights::Weighed;

/// Public facts of a game: all of them fixed before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BanditProblem {
    /// K ≥ 2: number of arms.
    pub arms: usize,
    /// T ≥ 2: no more rounds are ever played.
    pub rounds: u64,
    /// Rounds that one user may be in: all of them are protected together.
    pub rounds_per_user: u64,
    /// What is known of the rewards: whose bounds count where no player is named. Privacy is the same.
    pub rewards: Rewards,
    /// S: the plays are held against the best arms that change at most so often. 0: against the best single one.
    pub switches: u64,
    /// Which sequences of rewards are neighbours; add-or-remove is refused.
    pub neighbours: Neighbours,
}

/// What is known of the rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewards {
    /// Fixed before the first round, whatever they are.
    Any,
    /// Each arm's are drawn from one law, independently of other rounds.
    #[default]
    Independent,
}

/// The algorithm that chooses the arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmPlayer {
    /// Plays all arms in phases, and leaves those whose noisy mean is too low.
    Elimination,
    /// Draws arms by exponential weights of what they gave.
    Weights,
}

impl ArmPlayer {
    /// Name of the algorithm.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elimination => "elimination",
            Self::Weights => "weights",
        }
    }

    /// The rewards that its bound holds for.
    pub fn bounded_for(self) -> Rewards {
        match self {
            Self::Elimination => Rewards::Independent,
            Self::Weights => Rewards::Any,
        }
    }
}

/// How a player plays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArmPlan {
    /// Plays all arms in phases and drops those that are too low.
    Elimination {
        /// R_e: rounds that each arm that is left has in a phase; the sums of later phases are never closed.
        phases: Vec<u64>,
    },
    /// Draws arms by exponential weights of noisy sums.
    Weights(ArmWeights),
}

/// A certified plan of a game.
#[derive(Clone, Debug)]
pub struct BanditPlan {
    /// What was planned for.
    pub problem: BanditProblem,
    /// Expected regret at most, for the rewards that [`ArmPlayer::bounded_for`] says.
    pub regret_bound: f64,
    /// The algorithm that plays, with its numbers.
    pub player: ArmPlan,
    /// Scale of the noise of a sum: rewards lie in \[0, 1\].
    pub noise_scale: f64,
    /// The certified privacy event of all plays together.
    pub certificate: Certificate,
    budget: Budget,
    epsilon: f64,
    mechanism: FreshSums,
}

/// A plan as a session file keeps it: public. The guarantee is accounted anew when it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptBandit {
    /// What was planned for.
    pub problem: BanditProblem,
    /// What all plays may cost.
    pub budget: Budget,
    epsilon: f64,
    player: ArmPlan,
    regret_bound: f64,
}

/// Where a game stands, all of it made of what was released: what a [session](BanditPlays::save) needs beside the sum that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanditStanding {
    player: Standing,
    /// Rounds of the sum that is under way.
    pulled: u64,
    /// Number of rounds observed.
    round: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Standing {
    Elimination(Left),
    Weights(Weighed),
}

const MAX_ROUNDS: u64 = 1 << 38;
const MAX_ARMS: usize = 1 << 20;

impl BanditProblem {
    fn check(&self) -> Result<(), NotApplicable> {
        let refuse = |text: String| Err(NotApplicable::Problem(text.into()));
        if !(2..=MAX_ARMS).contains(&self.arms) {
            return refuse(format!("there are {} arms; give 2 to {MAX_ARMS}", self.arms));
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
        if self.switches >= self.rounds {
            return refuse(format!(
                "the best arm changes {} times in {} rounds; give fewer than {}",
                self.switches, self.rounds, self.rounds
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

    fn mechanism(&self, player: ArmPlayer, epsilon: f64) -> Result<FreshSums, CuratorError> {
        // a round may close a sum at most
        let sums = match player {
            ArmPlayer::Elimination => self.rounds.min(self.arms as u64 * 64),
            ArmPlayer::Weights => self.rounds,
        };
        FreshSums::new(self.rounds, sums, epsilon, self.rounds_per_user, self.neighbours.relation)
    }

    fn event(&self, player: ArmPlayer, epsilon: f64, budget: Budget) -> Result<Event, CuratorError> {
        let mechanism = self.mechanism(player, epsilon)?;
        Ok(SamplerError::proved(mechanism.sampler_error()?).paid(mechanism.event(), budget.delta()))
    }

    /// What rewards that are rounded cost.
    fn rounding(&self) -> f64 {
        self.rounds as f64 * 2f64.powi(-24)
    }

    /// Whether the bound of `player` is one for what is known.
    fn counts(&self, player: ArmPlayer) -> bool {
        match player {
            ArmPlayer::Elimination => self.rewards == Rewards::Independent && self.switches == 0,
            ArmPlayer::Weights => true,
        }
    }

    fn planned(&self, player: ArmPlayer, budget: Budget) -> Result<BanditPlan, NotApplicable> {
        if player == ArmPlayer::Elimination && self.switches > 0 {
            return Err(NotApplicable::Problem(
                "the player elimination never returns to a dropped arm, so that the best arm must not change; leave \
                 the switches out, or choose the player weights"
                    .into(),
            ));
        }
        let terms = self.neighbours.within(budget);
        // what can't be made costs more than any budget
        let impossible = |_| Event::PureStream { epsilon: f64::MAX };
        let (epsilon, _) =
            calibrate::cost(|epsilon| self.event(player, epsilon, budget).unwrap_or_else(impossible), terms)?;
        let of_curator = |error: CuratorError| NotApplicable::Problem(error.to_string().into());
        let mechanism = self.mechanism(player, epsilon).map_err(of_curator)?;
        let certificate = certify(&self.event(player, epsilon, budget).map_err(of_curator)?, terms)?;
        let noise_scale = 1.0 / mechanism.epsilon_of_a_round();
        let (player, bound) = match player {
            ArmPlayer::Elimination => {
                let phases = self.phases(noise_scale);
                let bound = self.elimination_bound(&phases);
                (ArmPlan::Elimination { phases }, bound)
            }
            ArmPlayer::Weights => {
                let (weights, bound) = self.weights(noise_scale);
                (ArmPlan::Weights(weights), bound)
            }
        };
        let regret_bound = bound.min(self.rounds as f64);
        Ok(BanditPlan { problem: *self, regret_bound, player, noise_scale, certificate, budget, epsilon, mechanism })
    }
}

/// What each player is proved to lose at most, or why it does not play; those of whom nothing is proved for such rewards are left out.
///
/// # Errors
/// If the facts are out of range.
pub fn bandit_candidates(
    problem: &BanditProblem,
    budget: Budget,
) -> Result<Vec<(ArmPlayer, Result<BanditPlan, NotApplicable>)>, NotApplicable> {
    problem.check()?;
    let players = [ArmPlayer::Weights, ArmPlayer::Elimination].into_iter();
    Ok(players
        .filter(|player| problem.counts(*player))
        .map(|player| (player, problem.planned(player, budget)))
        .collect())
}

/// The plan for a budget: of `player`, or of the one with the least bound for what is known of the rewards.
///
/// ```
/// use dpopt_online::{BanditProblem, Rewards, plan_bandit};
/// use dpopt_privacy::{Budget, Neighbours, Relation};
/// let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
/// let problem =
///     BanditProblem { arms: 5, rounds: 100_000, rounds_per_user: 1, rewards: Rewards::Any, switches: 0, neighbours };
/// let plan = plan_bandit(&problem, Budget::new(1.0, 0.0).unwrap(), None)?;
/// assert!((plan.noise_scale - 1.0).abs() < 1e-6 && plan.regret_bound < 0.03 * 100_000.0);
/// # Ok::<(), dpopt_mechanism::NotApplicable>(())
/// ```
///
/// # Errors
/// If the facts are out of range, or nothing is certified within the budget.
pub fn plan_bandit(
    problem: &BanditProblem,
    budget: Budget,
    player: Option<ArmPlayer>,
) -> Result<BanditPlan, NotApplicable> {
    problem.check()?;
    if let Some(player) = player {
        return problem.planned(player, budget);
    }
    let mut plans = Vec::new();
    for (_, plan) in bandit_candidates(problem, budget)? {
        plans.push(plan?);
    }
    let least = plans.into_iter().min_by(|a, b| a.regret_bound.total_cmp(&b.regret_bound));
    least.ok_or_else(|| NotApplicable::Problem("no player supports this game; name a player to see why".into()))
}

impl BanditPlan {
    /// The algorithm that plays.
    pub fn name(&self) -> ArmPlayer {
        match self.player {
            ArmPlan::Elimination { .. } => ArmPlayer::Elimination,
            ArmPlan::Weights(_) => ArmPlayer::Weights,
        }
    }

    /// Charges `curator` with the whole game.
    ///
    /// # Errors
    /// If its certificate is of another plan.
    pub fn open(&self, curator: &mut Curator) -> Result<BanditPlays, CuratorError> {
        let mut sums = curator.open(&self.mechanism)?;
        let arms = self.problem.arms;
        let player = match self.player {
            ArmPlan::Elimination { .. } => Standing::Elimination(Left::all(arms)),
            ArmPlan::Weights(_) => Standing::Weights(Weighed::all(arms, sums.coin()?)),
        };
        Ok(BanditPlays { sums, standing: BanditStanding { player, pulled: 0, round: 0 }, plan: self.clone() })
    }

    /// What a session file keeps of it.
    pub fn kept(&self) -> KeptBandit {
        KeptBandit {
            problem: self.problem,
            budget: self.budget,
            epsilon: self.epsilon,
            player: self.player.clone(),
            regret_bound: self.regret_bound,
        }
    }

    /// The plan that was kept.
    ///
    /// # Errors
    /// If its sums are not certified within its budget.
    pub fn of_kept(kept: KeptBandit) -> Result<Self, NotApplicable> {
        let KeptBandit { problem, budget, epsilon, player, regret_bound } = kept;
        problem.check()?;
        let name = match &player {
            ArmPlan::Elimination { .. } => ArmPlayer::Elimination,
            ArmPlan::Weights(weights) if weights.is_sound() => ArmPlayer::Weights,
            ArmPlan::Weights(_) => return Err(NotApplicable::Problem("the session is damaged".into())),
        };
        let of_curator = |error: CuratorError| NotApplicable::Problem(error.to_string().into());
        let mechanism = problem.mechanism(name, epsilon).map_err(of_curator)?;
        let event = problem.event(name, epsilon, budget).map_err(of_curator)?;
        let certificate = certify(&event, problem.neighbours.within(budget))?;
        let noise_scale = 1.0 / mechanism.epsilon_of_a_round();
        Ok(Self { problem, regret_bound, player, noise_scale, certificate, budget, epsilon, mechanism })
    }

    /// Goes on where `saved` and `standing` ended, under a certificate of the same plan: what it costs was charged when it was opened.
    ///
    /// # Errors
    /// If these are of another plan.
    pub fn resume(
        &self,
        curator: &mut Curator,
        saved: SavedSums,
        standing: BanditStanding,
    ) -> Result<BanditPlays, CuratorError> {
        let of_player = match (&standing.player, &self.player) {
            (Standing::Elimination(left), ArmPlan::Elimination { phases }) => {
                left.is_sound(self.problem.arms) && left.batch(phases).is_none_or(|batch| standing.pulled < batch)
            }
            (Standing::Weights(weighed), ArmPlan::Weights(weights)) => {
                weighed.is_sound(self.problem.arms) && standing.pulled == standing.round % weights.batch
            }
            _ => false,
        };
        if !of_player || standing.round > self.problem.rounds {
            return Err(CuratorError::Unusable(
                "the session is damaged and cannot be resumed; open another game".into(),
            ));
        }
        let sums = curator.open(&self.mechanism.clone().resumed(saved)?)?;
        Ok(BanditPlays { sums, standing, plan: self.clone() })
    }
}

/// A game that is under way. Neither printable nor cloneable: its noise is spent once.
pub struct BanditPlays {
    plan: BanditPlan,
    sums: OpenSums,
    standing: BanditStanding,
}

impl BanditPlays {
    /// The arm of the coming round, from 0; `None` after the last. Asking again gives the same.
    pub fn play(&self) -> Option<usize> {
        if self.standing.round == self.plan.problem.rounds {
            return None;
        }
        match &self.standing.player {
            Standing::Elimination(left) => left.arm(),
            Standing::Weights(weighed) => Some(weighed.arm),
        }
    }

    /// Rounds of the sum that is under way; `None` where nothing is read any more.
    fn batch(&self) -> Option<u64> {
        match (&self.standing.player, &self.plan.player) {
            (Standing::Elimination(left), ArmPlan::Elimination { phases }) => left.batch(phases),
            (_, ArmPlan::Weights(weights)) => Some(weights.batch),
            _ => None,
        }
    }

    /// Takes the reward of the arm that was played, one number in \[0, 1\] (clamped).
    ///
    /// # Errors
    /// After the last round, for another number of rewards, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, reward: &Sensitive<RoundLosses>) -> Result<(), CuratorError> {
        if self.standing.round == self.plan.problem.rounds {
            return Err(CuratorError::Unforeseen { label: "plays" });
        }
        self.sums.here()?;
        let batch = self.batch();
        if batch.is_some() {
            self.sums.add(reward)?;
            self.standing.pulled += 1;
        }
        self.standing.round += 1;
        if batch == Some(self.standing.pulled) {
            self.standing.pulled = 0;
            let mean = *self.sums.close()?.get() / batch.unwrap_or(1) as f64;
            match (&mut self.standing.player, &self.plan.player) {
                (Standing::Weights(weighed), ArmPlan::Weights(plan)) => weighed.learn(plan, mean, self.sums.coin()?),
                (Standing::Elimination(left), _) => left.learn(mean),
                _ => {}
            }
        }
        Ok(())
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.standing.round
    }

    /// How much each arm is trusted, adding up to 1: what a player weighs them by, or the same for all that elimination has left. Made of
    /// released values.
    pub fn weights(&self) -> Vec<f64> {
        match &self.standing.player {
            Standing::Elimination(left) => {
                let mut weights = vec![0.0; self.plan.problem.arms];
                left.arms.iter().for_each(|&arm| weights[arm] = 1.0 / left.arms.len() as f64);
                weights
            }
            Standing::Weights(weighed) => weighed.weights(),
        }
    }

    /// Writes all of it to `file`, synced, with whatever is public of it in `public`: call it before anything is shown that was decided since the
    /// last time. `public` is made of where the game stands.
    ///
    /// # Errors
    /// As [`OpenSums::save`].
    pub fn save(
        &self,
        file: &mut SumsFile,
        public: impl FnOnce(&BanditStanding) -> Result<String, CuratorError>,
    ) -> Result<(), CuratorError> {
        self.sums.save(file, &public(&self.standing)?)
    }

    /// The plan of the game.
    pub fn plan(&self) -> &BanditPlan {
        &self.plan
    }
}

#[cfg(test)]
mod tests;
