//! One of K arms in every round, where only the reward of the arm that was played is observed.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::run::RunOptions;
use crate::session::{ActiveStage, Closed, Opening, Session, StageFacts};
use dpopt_mechanism::{CuratorError, NotApplicable, RoundLosses, SavedSums, SumsFile};
use dpopt_objective::objective::Evidence;
use dpopt_online::{
    ArmPlayer, BanditPlan, BanditPlays, BanditProblem, BanditStanding, KeptBandit, Rewards, bandit_candidates,
    plan_bandit,
};
use dpopt_privacy::Budget;
use dpopt_privacy::ledger::Receipt;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Options of a game besides K, T and the [options of every run](crate::RunOptions); δ is 0 unless it is given: noise is Laplace's, and pays no more than for its
/// samplers.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
/// | `player` | the least bound | who plays |
/// | `rewards` | independent | what is known of the rewards: whose bounds count where no player is named |
/// | `switches` | 0 | regret is against best arms that change at most so often |
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BanditOptions {
    /// Rounds that are protected together: for users who are in at most so many. `None`: 1.
    pub rounds_per_user: Option<u64>,
    /// The algorithm that plays; `None` takes the one with the least bound for such rewards.
    pub player: Option<ArmPlayer>,
    /// What is known of the rewards: whose bounds count where no player is named. Privacy is the same.
    pub rewards: Rewards,
    /// The plays are held against the best arms that change at most so often.
    pub switches: u64,
}

impl BanditOptions {
    /// These options with [`rounds_per_user`](#structfield.rounds_per_user) set.
    #[must_use]
    pub fn rounds_per_user(mut self, rounds_per_user: impl Into<Option<u64>>) -> Self {
        self.rounds_per_user = rounds_per_user.into();
        self
    }

    /// These options with [`player`](#structfield.player) set.
    #[must_use]
    pub fn player(mut self, player: impl Into<Option<ArmPlayer>>) -> Self {
        self.player = player.into();
        self
    }

    /// These options with [`rewards`](#structfield.rewards) set.
    #[must_use]
    pub fn rewards(mut self, rewards: Rewards) -> Self {
        self.rewards = rewards;
        self
    }

    /// These options with [`switches`](#structfield.switches) set.
    #[must_use]
    pub fn switches(mut self, switches: u64) -> Self {
        self.switches = switches;
        self
    }
}

/// A game that is under way.
///
/// ```
/// use dpopt::RunOptions;
/// use dpopt::online::{Bandit, BanditOptions};
/// // the second of two arms always gives more; the seed is for this page: without one the noise is secret
/// let run = RunOptions::within(1.0).insecure_seed(1);
/// let mut game = Bandit::open(2, 20_000, run, &BanditOptions::default())?;
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
    stage: ActiveStage,
    plays: BanditPlays,
    receipt: Option<Receipt>,
    /// What was decided since the last save.
    recent: Vec<(u64, usize)>,
    file: Option<SumsFile>,
}

/// What a session file has beside the sum that is under way: public.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    plan: KeptBandit,
    tie_break: BanditStanding,
    receipt: Option<Receipt>,
    /// What was decided since the last save: (round, arm). It may have been shown, or not.
    recent: Vec<(u64, usize)>,
}

const FACTS: StageFacts = StageFacts { name: "bandit", rests_on: Evidence::Enforced, stream: 0 };

fn stated(
    arms: usize,
    rounds: u64,
    run: &RunOptions,
    options: &BanditOptions,
) -> Result<(BanditProblem, Budget), OnlineError> {
    let budget = run.least().map_err(|e| OnlineError::Option(e.to_string()))?;
    let (neighbours, rounds_per_user) = (super::of_rounds(run)?, options.rounds_per_user.unwrap_or(1));
    let BanditOptions { rewards, switches, .. } = *options;
    Ok((BanditProblem { arms, rounds, rounds_per_user, rewards, switches, neighbours }, budget))
}

/// What is planned, with its proved regret; nothing is charged.
///
/// # Errors
/// If a fact is out of range, or nothing is certified.
pub fn explain_bandit(
    arms: usize,
    rounds: u64,
    run: &RunOptions,
    options: &BanditOptions,
) -> Result<BanditPlan, OnlineError> {
    let (problem, budget) = stated(arms, rounds, run, options)?;
    Ok(plan_bandit(&problem, budget, options.player)?)
}

/// What each player would do, of those whose bound is for such rewards; nothing is charged.
///
/// # Errors
/// If a fact is out of range.
pub fn compare_bandits(
    arms: usize,
    rounds: u64,
    run: &RunOptions,
    options: &BanditOptions,
) -> Result<Vec<(ArmPlayer, Result<BanditPlan, NotApplicable>)>, OnlineError> {
    let (problem, budget) = stated(arms, rounds, run, options)?;
    let wanted = |player: &ArmPlayer| options.player.is_none_or(|only| only == *player);
    let mut candidates = bandit_candidates(&problem, budget)?;
    candidates.retain(|(player, _)| wanted(player));
    if let (true, Some(player)) = (candidates.is_empty(), options.player) {
        // by name, whatever its bound is for
        candidates.push((player, plan_bandit(&problem, budget, Some(player))));
    }
    Ok(candidates)
}

impl Bandit {
    /// Plans, charges and opens a game of `rounds` rounds with `arms` arms.
    ///
    /// # Errors
    /// If nothing is certified, or the account refuses.
    pub fn open(
        arms: usize,
        rounds: u64,
        run: impl Into<RunOptions>,
        options: &BanditOptions,
    ) -> Result<Self, OnlineError> {
        Self::opened(arms, rounds, &run.into(), options, None)
    }

    /// Plans, charges and opens a game that is kept in a new file, so that a killed process can go on where it was ([`save`](Self::save)). The file is
    /// reserved before the charge.
    ///
    /// # Errors
    /// If the file is there already, with an insecure seed, or as [`open`](Self::open).
    pub fn open_at(
        path: &Path,
        arms: usize,
        rounds: u64,
        run: impl Into<RunOptions>,
        options: &BanditOptions,
    ) -> Result<Self, OnlineError> {
        let run = run.into();
        if run.insecure_seed.is_some() {
            return Err(super::seeded_session());
        }
        Self::opened(arms, rounds, &run, options, Some(path))
    }

    fn opened(
        arms: usize,
        rounds: u64,
        run: &RunOptions,
        options: &BanditOptions,
        path: Option<&Path>,
    ) -> Result<Self, OnlineError> {
        let (problem, budget) = stated(arms, rounds, run, options)?;
        let plan = plan_bandit(&problem, budget, options.player)?;
        let opening = run.opening(problem.neighbours, budget)?;
        opening.quote(&[&plan.certificate])?;
        let file = path.map(SumsFile::create).transpose()?;
        let (mut session, file) = match opening.charge("online bandit", &[&plan.certificate]) {
            Ok(session) => (session, file),
            Err(why) => {
                file.into_iter().for_each(SumsFile::withdraw);
                return Err(why.into());
            }
        };
        let mut stage = session.enter(FACTS, &plan.certificate)?;
        let plays = plan.open(&mut stage.curator)?;
        session.note(&stage);
        let receipt = session.receipt().cloned();
        let mut game = Self { session, stage, plays, receipt, recent: Vec::new(), file };
        game.decided();
        if game.file.is_some() {
            game.save()?;
        }
        Ok(game)
    }

    /// Goes on with a saved game, at no further charge: what was charged for is the whole game. Noise is fresh.
    ///
    /// # Errors
    /// If another process has the file, it is damaged, older than what was shown of the game, or a copy: nothing is drawn then.
    pub fn resume(path: &Path) -> Result<Self, OnlineError> {
        Self::resumed(path, SumsFile::open(path)?)
    }

    /// Goes on with a saved game whose session was moved to another file system: you vouch that nothing goes on where it was.
    ///
    /// # Errors
    /// As [`resume`](Self::resume); also if the session that it was copied from is still there.
    pub fn resume_moved(path: &Path) -> Result<Self, OnlineError> {
        Self::resumed(path, SumsFile::open_moved(path)?)
    }

    fn resumed(path: &Path, opened: (SumsFile, SavedSums, String)) -> Result<Self, OnlineError> {
        let (file, saved, public) = opened;
        let damaged = |_| {
            OnlineError::Option(format!(
                "session {} is damaged, or was written by another version; \
                                                       open another game",
                path.display()
            ))
        };
        let Kept { plan, tie_break, receipt, recent } = serde_json::from_str(&public).map_err(damaged)?;
        let terms = plan.problem.neighbours.within(plan.budget);
        let plan = BanditPlan::of_kept(plan)?;
        // charged when the game was opened
        let mut session = Opening::new(terms, None, None)?.charge("online bandit", &[&plan.certificate])?;
        let mut stage = session.enter(FACTS, &plan.certificate)?;
        let plays = plan.resume(&mut stage.curator, saved, tie_break)?;
        session.note(&stage);
        Ok(Self { session, stage, plays, receipt, recent, file: Some(file) })
    }

    fn decided(&mut self) {
        if self.file.is_some()
            && let Some(arm) = self.play()
        {
            self.recent.push((self.observed() + 1, arm));
        }
    }

    /// Writes the game to its file, synced. Only then may what was decided since the last save be shown: who resumes gets it again
    /// from [`recent`](Self::recent).
    ///
    /// # Errors
    /// If there is no file, or it can't be written: nothing may be shown then.
    pub fn save(&mut self) -> Result<Vec<(u64, usize)>, OnlineError> {
        let file = self.file.as_mut().ok_or_else(|| OnlineError::Option("this game has no session file".into()))?;
        let (plan, receipt, recent) = (self.plays.plan().kept(), self.receipt.clone(), self.recent.clone());
        self.plays.save(file, |tie_break| {
            let kept = Kept { plan, tie_break: tie_break.clone(), receipt, recent };
            serde_json::to_string(&kept).map_err(|e| CuratorError::Unusable(e.to_string().into()))
        })?;
        Ok(std::mem::take(&mut self.recent))
    }

    /// What a resumed game decided up to its last save, (round, arm). Some of it may have been shown before: it is the same.
    pub fn recent(&mut self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.recent)
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
                "all {} planned rounds are played; open another game, charged anew, for more",
                self.plan().problem.rounds
            )));
        }
        if !reward.is_finite() {
            return Err(OnlineError::Option("a reward is not a finite number; give a number in [0, 1]".into()));
        }
        self.plays.observe(&RoundLosses::of(&[reward])?)?;
        self.decided();
        Ok(())
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.plays.observed()
    }

    /// How much each arm is trusted, adding up to 1, made of what was released. Of a game with a session file: save before it is shown.
    pub fn weights(&self) -> Vec<f64> {
        self.plays.weights()
    }

    /// The certified plan of the game.
    pub fn plan(&self) -> &BanditPlan {
        self.plays.plan()
    }

    /// The privacy guarantee of the game, per round.
    pub fn guarantee(&self) -> &Guarantee {
        self.session.guarantee()
    }

    /// Proof of the charge, if there is an account that gives one.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// Ends it: what was promised and released.
    pub fn close(mut self) -> Closed {
        self.session.note(&self.stage);
        Closed { receipt: self.receipt, ..self.session.close() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_is_promised_once_and_ends() {
        let run = RunOptions::within(1.0).insecure_seed(4);
        let mut game = Bandit::open(3, 500, run, &BanditOptions::default()).unwrap();
        assert!(game.observe(f64::NAN).is_err() && game.observed() == 0);
        while let Some(arm) = game.play() {
            game.observe([0.1, 0.2, 7.0][arm]).unwrap();
        }
        assert_eq!(game.observed(), 500);
        assert!(
            game.observe(0.0).unwrap_err().to_string().contains("all 500 planned rounds") && game.weights().len() == 3
        );
        let promised = game.close().guarantee;
        assert!(promised.certified_epsilon <= 1.0 && promised.delta == 0.0);
        assert!(explain_bandit(3, 500, &1.0.into(), &BanditOptions::default()).unwrap().regret_bound <= 500.0);
        assert!(explain_bandit(1, 500, &1.0.into(), &BanditOptions::default()).is_err());
    }

    /// Killed at every hundredth round and resumed: the game ends, and arms and weights are those of one game.
    #[test]
    fn a_saved_game_goes_on_at_no_charge() {
        for player in [ArmPlayer::Elimination, ArmPlayer::Weights] {
            killed_and_resumed(player);
        }
    }

    fn killed_and_resumed(player: ArmPlayer) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let options = || BanditOptions { player: Some(player), ..BanditOptions::default() };
        let mut game = Bandit::open_at(&path, 3, 6000, 1.0, &options()).unwrap();
        assert_eq!(game.recent(), []);
        let mut shown = Vec::new();
        while game.observed() != 6000 {
            for _ in 0..100 {
                game.observe([0.0, 1.0, 0.5][game.play().unwrap()]).unwrap();
            }
            shown.extend(game.save().unwrap());
            let (next, weights) = (game.play(), game.weights());
            if next.is_some() {
                game.observe(0.5).unwrap(); // never saved, never shown
            }
            drop(game);
            game = Bandit::resume(&path).unwrap();
            assert_eq!((game.play(), game.weights(), game.plan().name()), (next, weights, player));
            assert!(Bandit::resume(&path).is_err(), "held by this process");
            let again = game.recent();
            assert!(again.iter().all(|play| shown.contains(play)) && !again.is_empty());
        }
        // the noise is secret: that of a mean of 554 rewards takes the second arm's for another's with probability e^-100. What weights come to
        // is less certain (five standard deviations), and asked of a seeded game below
        let weights = game.weights();
        assert!(player == ArmPlayer::Weights || weights[1] > weights[0].max(weights[2]));
        assert!(shown.iter().map(|(round, _)| *round).eq(2..=6000));
        let promised = game.close().guarantee;
        assert!(promised.certified_epsilon <= 1.0 && promised.delta == 0.0);
        assert!(Bandit::open_at(&path, 3, 6000, 1.0, &options()).is_err());
        let seeded = || RunOptions::within(1.0).insecure_seed(1);
        assert!(Bandit::open_at(&directory.path().join("other"), 3, 6000, seeded(), &options()).is_err());
        let mut game = Bandit::open(3, 6000, seeded(), &options()).unwrap();
        while let Some(arm) = game.play() {
            game.observe([0.0, 1.0, 0.5][arm]).unwrap();
        }
        let weights = game.weights();
        assert!(weights[1] > weights[0].max(weights[2]), "{player:?} {weights:?}");
    }
}
