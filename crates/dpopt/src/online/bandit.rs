//! One of K arms in every round, where only the reward of the arm that was played is told.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::session::{Account, Closed, Entered, Opening, Session, StageFacts};
use dpopt_mechanism::RoundLosses;
use dpopt_objective::objective::Warrant;
use dpopt_optimize::online::{BanditPlan, BanditPlays, BanditProblem, plan_bandit};
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::{Budget, Neighbours, Relation};

/// Everything a game can be told besides K, T and ε.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 0 | δ: noise is Laplace's, and pays no more than for its samplers |
/// | `relation` | zero-out | which sequences of rewards are neighbours; add-or-remove is refused |
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
#[derive(Default)]
pub struct BanditOptions {
    /// δ. `None`: 0, a pure guarantee of the exact laws.
    pub delta: Option<f64>,
    /// Which sequences of rewards are neighbours.
    pub relation: Relation,
    /// Rounds that are protected together: for users who are in at most so many. `None`: 1.
    pub rounds_per_user: Option<u64>,
    /// Where the game is charged, as a whole.
    pub account: Option<Box<dyn Account>>,
    /// Reproducible noise for tests: no privacy against who knows the seed, and no charge.
    pub insecure_seed: Option<u64>,
}

/// A game that is under way.
///
/// ```
/// use dpopt::online::{Bandit, BanditOptions};
/// // the second of two arms always gives more
/// let mut game = Bandit::open(2, 20_000, 1.0, BanditOptions::default())?;
/// let mut won = 0.0;
/// while let Some(arm) = game.play() {
///     let reward = [0.1, 0.9][arm];
///     won += reward;
///     game.observe(reward)?;
/// }
/// assert!(won > 17_000.0);
/// # Ok::<(), dpopt::online::OnlineError>(())
/// ```
pub struct Bandit {
    session: Session,
    stage: Entered,
    plays: BanditPlays,
}

fn stated(
    arms: usize,
    rounds: u64,
    epsilon: f64,
    options: &BanditOptions,
) -> Result<(BanditProblem, Budget), OnlineError> {
    let budget = Budget::new(epsilon, options.delta.unwrap_or(0.0)).map_err(|e| OnlineError::Option(e.to_string()))?;
    let (neighbours, rounds_per_user) = (Neighbours::of_rounds(options.relation), options.rounds_per_user.unwrap_or(1));
    Ok((BanditProblem { arms, rounds, rounds_per_user, neighbours }, budget))
}

/// What is planned, with its proved regret; nothing is charged.
///
/// # Errors
/// If a fact is out of range, or nothing is certified.
pub fn explain_bandit(
    arms: usize,
    rounds: u64,
    epsilon: f64,
    options: &BanditOptions,
) -> Result<BanditPlan, OnlineError> {
    let (problem, budget) = stated(arms, rounds, epsilon, options)?;
    Ok(plan_bandit(&problem, budget)?)
}

impl Bandit {
    /// Plans, charges and opens a game of `rounds` rounds with `arms` arms.
    ///
    /// # Errors
    /// If nothing is certified, or the account refuses.
    pub fn open(arms: usize, rounds: u64, epsilon: f64, options: BanditOptions) -> Result<Self, OnlineError> {
        let (problem, budget) = stated(arms, rounds, epsilon, &options)?;
        let plan = plan_bandit(&problem, budget)?;
        let terms = problem.neighbours.within(budget);
        let opening = Opening::new(terms, options.account, options.insecure_seed)?;
        let mut session = opening.charge("online bandit", &[&plan.certificate])?;
        let facts = StageFacts { name: "bandit", rests_on: Warrant::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &plan.certificate)?;
        let plays = plan.open(&mut stage.curator)?;
        session.note(&stage);
        Ok(Self { session, stage, plays })
    }

    /// The arm of the coming round, from 0; `None` after the last round. Asking again gives the same.
    pub fn play(&self) -> Option<usize> {
        self.plays.play()
    }

    /// Takes the reward of the arm that was played, clamped to \[0, 1\].
    ///
    /// # Errors
    /// For what is no finite number, a round beyond the last, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, reward: f64) -> Result<(), OnlineError> {
        if self.play().is_none() {
            return Err(OnlineError::Option(format!(
                "all {} rounds that were planned and charged are played; open another game for more",
                self.plan().problem.rounds
            )));
        }
        if !reward.is_finite() {
            return Err(OnlineError::Option("a reward is no finite number; give one in [0, 1]".into()));
        }
        Ok(self.plays.observe(&RoundLosses::of(&[reward])?)?)
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.plays.observed()
    }

    /// Arms that may still be the best, made of what was released.
    pub fn left(&self) -> &[usize] {
        self.plays.left()
    }

    /// What was planned.
    pub fn plan(&self) -> &BanditPlan {
        self.plays.plan()
    }

    /// What is promised, per round.
    pub fn guarantee(&self) -> &Guarantee {
        self.session.guarantee()
    }

    /// Proof of the charge, if there is an account that gives one.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.session.receipt()
    }

    /// Ends it: what was promised and released.
    pub fn close(mut self) -> Closed {
        self.session.note(&self.stage);
        self.session.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_is_promised_once_and_ends() {
        let options = BanditOptions { insecure_seed: Some(4), ..BanditOptions::default() };
        let mut game = Bandit::open(3, 500, 1.0, options).unwrap();
        assert!(game.observe(f64::NAN).is_err() && game.observed() == 0);
        while let Some(arm) = game.play() {
            game.observe([0.1, 0.2, 7.0][arm]).unwrap();
        }
        assert_eq!(game.observed(), 500);
        assert!(game.observe(0.0).unwrap_err().to_string().contains("all 500 rounds") && !game.left().is_empty());
        let promised = game.close().guarantee;
        assert!(promised.certified_epsilon <= 1.0 && promised.delta == 0.0);
        assert!(explain_bandit(3, 500, 1.0, &BanditOptions::default()).unwrap().regret_bound <= 500.0);
        assert!(explain_bandit(1, 500, 1.0, &BanditOptions::default()).is_err());
    }
}
