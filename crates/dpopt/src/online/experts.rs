//! One of d experts in every round.
//!
//! Planned from public facts, charged as a whole before the first round, then a conversation: [`play`](Experts::play) says who is
//! trusted in the coming round, [`observe`](Experts::observe) takes what every expert lost in it. What leaves is who plays.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::run::RunOptions;
use crate::session::{ActiveStage, Closed, Opening, Session, SessionError, StageFacts};
use dpopt_mechanism::{
    BlockExperts, ExpertPlays, ExpertsFile, Interactive, LazyExperts, NotApplicable, RoundLosses, SamplerError,
    SavedExperts,
};
use dpopt_objective::objective::Evidence;
use dpopt_online::{
    ExpertLosses, ExpertsMechanism, ExpertsPlan, ExpertsProblem, PLAYERS, Player, experts_candidates, least_of,
    plan_experts,
};
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::{Budget, certify};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Options of a game besides d, T and the [options of every run](crate::RunOptions); δ is 1/T^1.1 unless it is given, at most 0.01.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
/// | `player` | the least proved bound | lean, fresh, leader or blocks |
/// | `losses` | any; with δ = 0 independent ones will do | which bounds on regret count where no player is named; privacy is the same |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExpertsOptions {
    /// Rounds that are protected together: for users who are in at most so many.
    pub rounds_per_user: u64,
    /// The algorithm that plays; `None` takes the one with the least proved bound.
    pub player: Option<Player>,
    /// What is known of the losses: which bounds count where no player is named. `None`: nothing; but a pure guarantee makes do with a bound for
    /// losses that are drawn independently.
    pub losses: Option<ExpertLosses>,
}

impl ExpertsOptions {
    /// These options with [`rounds_per_user`](#structfield.rounds_per_user) set.
    #[must_use]
    pub fn rounds_per_user(mut self, rounds_per_user: u64) -> Self {
        self.rounds_per_user = rounds_per_user;
        self
    }

    /// These options with [`player`](#structfield.player) set.
    #[must_use]
    pub fn player(mut self, player: impl Into<Option<Player>>) -> Self {
        self.player = player.into();
        self
    }

    /// These options with [`losses`](#structfield.losses) set.
    #[must_use]
    pub fn losses(mut self, losses: impl Into<Option<ExpertLosses>>) -> Self {
        self.losses = losses.into();
        self
    }
}

impl Default for ExpertsOptions {
    fn default() -> Self {
        Self { rounds_per_user: 1, player: None, losses: None }
    }
}

/// A game that is under way.
///
/// ```
/// use dpopt::RunOptions;
/// use dpopt::online::{Experts, ExpertsOptions};
/// // three experts, the last of whom is always right; a hundred rounds. The seed is for this page: without one the noise is secret
/// let run = RunOptions::within(5.0).insecure_seed(1);
/// let mut game = Experts::open(3, 100, run, &ExpertsOptions::default())?;
/// let mut lost = 0.0;
/// while let Some(expert) = game.play() {
///     let losses = [1.0, 0.5, 0.0];
///     lost += losses[expert];
///     game.observe(&losses)?;
/// }
/// assert!(game.is_over() && lost < 75.0); // anyone at random loses 50
/// assert!(game.close().guarantee.certified_epsilon <= 5.0);
/// # Ok::<(), dpopt::online::OnlineError>(())
/// ```
pub struct Experts {
    session: Session,
    stage: ActiveStage,
    plays: ExpertPlays,
    kept: Kept,
    file: Option<ExpertsFile>,
}

/// What a session file has beside the state: public.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    problem: ExpertsProblem,
    budget: Budget,
    player: Player,
    regret_bound: f64,
    batch: u64,
    block_ends: Vec<u64>,
    learning_rate: Option<f64>,
    resampling: Option<f64>,
    noise_std: Option<f64>,
    receipt: Option<Receipt>,
    /// What was decided since the last save: (round, expert). It may have been shown, or not.
    recent: Vec<(u64, usize)>,
}

/// A problem and a budget from the options of the user.
fn stated(
    experts: usize,
    rounds: u64,
    run: &RunOptions,
    options: &ExpertsOptions,
) -> Result<(ExpertsProblem, Budget), OnlineError> {
    let budget = run.budget(rounds).map_err(|e| OnlineError::Option(e.to_string()))?;
    let neighbours = super::of_rounds(run)?;
    let rounds_per_user = options.rounds_per_user;
    Ok((ExpertsProblem { experts, rounds, rounds_per_user, neighbours, losses: options.losses }, budget))
}

/// What every player is proved to lose at most, or why it can't play; nothing is charged.
///
/// # Errors
/// If ε or δ is out of range.
pub fn explain_experts(
    experts: usize,
    rounds: u64,
    run: &RunOptions,
    options: &ExpertsOptions,
) -> Result<Vec<(Player, Result<ExpertsPlan, NotApplicable>)>, OnlineError> {
    let (problem, budget) = stated(experts, rounds, run, options)?;
    let wanted = |player: &Player| options.player.is_none_or(|only| only == *player);
    Ok(experts_candidates(&problem, budget).into_iter().filter(|(player, _)| wanted(player)).collect())
}

impl Experts {
    /// Plans, charges and opens a game of `rounds` rounds among `experts` experts: ε for all of it, whatever is asked and told.
    ///
    /// # Errors
    /// If nothing is certified, or the payer refuses.
    pub fn open(
        experts: usize,
        rounds: u64,
        run: impl Into<RunOptions>,
        options: &ExpertsOptions,
    ) -> Result<Self, OnlineError> {
        Self::opened(experts, rounds, &run.into(), options, None)
    }

    /// As [`open`](Self::open), kept in a new file so that a killed process goes on where it was ([`save`](Self::save)). The place is reserved before
    /// the charge.
    ///
    /// # Errors
    /// If the file is there already, with an insecure seed, or as [`open`](Self::open).
    pub fn open_at(
        path: &Path,
        experts: usize,
        rounds: u64,
        run: impl Into<RunOptions>,
        options: &ExpertsOptions,
    ) -> Result<Self, OnlineError> {
        let run = run.into();
        can_be_kept(&run, options)?;
        Self::opened(experts, rounds, &run, options, Some(path))
    }

    fn opened(
        experts: usize,
        rounds: u64,
        run: &RunOptions,
        options: &ExpertsOptions,
        path: Option<&Path>,
    ) -> Result<Self, OnlineError> {
        let (problem, budget) = stated(experts, rounds, run, options)?;
        let opening = run.opening(problem.neighbours, budget)?;
        let plan = match (options.player, path) {
            // who can be saved
            (None, Some(_)) => {
                let saved: Vec<Player> = PLAYERS.into_iter().filter(|player| player.can_be_saved()).collect();
                least_of(&problem, budget, &saved)?
            }
            (player, _) => plan_experts(&problem, budget, player)?,
        };
        opening.quote(&[&plan.certificate])?;
        let file = path.map(ExpertsFile::create).transpose()?;
        let (mut session, file) = match opening.charge("online experts", &[&plan.certificate]) {
            Ok(session) => (session, file),
            Err(why) => {
                file.into_iter().for_each(ExpertsFile::withdraw);
                return Err(why.into());
            }
        };
        let facts = StageFacts { name: "experts", rests_on: Evidence::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &plan.certificate)?;
        let plays = match &plan.mechanism {
            ExpertsMechanism::Lazy(mechanism) => stage.curator.open(mechanism)?,
            ExpertsMechanism::Leader(mechanism) => stage.curator.open(mechanism)?,
            ExpertsMechanism::Blocks(mechanism) => stage.curator.open(mechanism)?,
        };
        session.note(&stage);
        let kept = Kept {
            problem,
            budget,
            player: plan.player,
            regret_bound: plan.regret_bound,
            batch: plan.batch,
            block_ends: plan.block_ends,
            learning_rate: plan.learning_rate,
            resampling: plan.resampling,
            noise_std: plan.noise_std,
            receipt: session.receipt().cloned(),
            recent: Vec::new(),
        };
        let mut game = Self { session, stage, plays, kept, file };
        game.decided();
        if game.file.is_some() {
            game.save()?;
        }
        Ok(game)
    }

    /// Goes on with a saved game, at no further charge: what was charged for is the whole game. Coins are fresh.
    ///
    /// # Errors
    /// If another process has the file, it is damaged, older than what was shown of the game, or a copy: nothing is drawn then.
    pub fn resume(path: &Path) -> Result<Self, OnlineError> {
        Self::resumed(path, ExpertsFile::open(path)?)
    }

    /// Goes on with a saved game whose session was moved to another file system: you vouch that nothing goes on where it was.
    ///
    /// # Errors
    /// As [`resume`](Self::resume); also if the session that it was copied from is still there.
    pub fn resume_moved(path: &Path) -> Result<Self, OnlineError> {
        Self::resumed(path, ExpertsFile::open_moved(path)?)
    }

    fn resumed(path: &Path, opened: (ExpertsFile, SavedExperts, String)) -> Result<Self, OnlineError> {
        let (file, saved, public) = opened;
        let damaged = || {
            OnlineError::Option(format!(
                "session {} is damaged, or was written by another version; open \
                                                      another game",
                path.display()
            ))
        };
        let kept: Kept = serde_json::from_str(&public).map_err(|_| damaged())?;
        let ExpertsProblem { experts, rounds, rounds_per_user, neighbours, .. } = kept.problem;
        let relation = neighbours.relation;
        match (kept.player, kept.learning_rate, kept.resampling) {
            (Player::Blocks, Some(rate), _) => {
                let ends = kept.block_ends.clone();
                let mechanism = BlockExperts::new(experts, rounds, ends, rate, rounds_per_user, relation)?;
                Self::reopened(&mechanism.resumed(saved)?, kept, file)
            }
            (_, Some(rate), Some(fresh)) => {
                let mechanism = LazyExperts::new(experts, rounds, kept.batch, rate, fresh, rounds_per_user, relation)?;
                Self::reopened(&mechanism.resumed(saved)?, kept, file)
            }
            _ => Err(damaged()),
        }
    }

    fn reopened(
        mechanism: &impl Interactive<Opened = ExpertPlays>,
        kept: Kept,
        file: ExpertsFile,
    ) -> Result<Self, OnlineError> {
        let event = SamplerError::proved(mechanism.sampler_error()?).paid(mechanism.event(), kept.budget.delta());
        let terms = kept.problem.neighbours.within(kept.budget);
        let certificate = certify(&event, terms).map_err(SessionError::from)?;
        // charged when the game was opened
        let mut session = Opening::new(terms, None, None)?.charge("online experts", &[&certificate])?;
        let facts = StageFacts { name: "experts", rests_on: Evidence::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &certificate)?;
        let plays = stage.curator.open(mechanism)?;
        session.note(&stage);
        Ok(Self { session, stage, plays, kept, file: Some(file) })
    }

    /// The expert of the coming round, from 0; `None` after the last round. Asking again gives the same.
    pub fn play(&self) -> Option<usize> {
        self.plays.play().ok().map(|expert| *expert.get())
    }

    /// Takes what each expert lost in the round that was played for, in \[0, 1\] (clamped). May depend on all plays so far.
    ///
    /// # Errors
    /// For another number of losses, one that is no finite number, or a round beyond the last: nothing has changed then.
    pub fn observe(&mut self, losses: &[f64]) -> Result<(), OnlineError> {
        self.check(losses.len())?;
        self.plays.observe(&RoundLosses::of(losses)?)?;
        self.decided();
        Ok(())
    }

    /// A round that tells nothing: no expert lost anything.
    ///
    /// # Errors
    /// After the last round.
    pub fn observe_nothing(&mut self) -> Result<(), OnlineError> {
        self.check(self.plays.experts())?;
        self.plays.observe(&RoundLosses::nothing(self.plays.experts()))?;
        self.decided();
        Ok(())
    }

    fn check(&self, losses: usize) -> Result<(), OnlineError> {
        if self.is_over() {
            return Err(OnlineError::Option(format!(
                "all {} planned rounds are played; open another game, charged anew, for more",
                self.plays.rounds()
            )));
        }
        if losses != self.plays.experts() {
            return Err(OnlineError::Option(format!(
                "a round has {losses} losses; give one for each of the {} experts",
                self.plays.experts()
            )));
        }
        Ok(())
    }

    fn decided(&mut self) {
        if self.file.is_some()
            && let Some(expert) = self.play()
        {
            self.kept.recent.push((self.plays.observed() + 1, expert));
        }
    }

    /// Writes the game to its file, synced. Only then may what was decided since the last save be shown: who resumes gets it again
    /// from [`recent`](Self::recent).
    ///
    /// # Errors
    /// If there is no file, or it can't be written: nothing may be shown then.
    pub fn save(&mut self) -> Result<Vec<(u64, usize)>, OnlineError> {
        let public = serde_json::to_string(&self.kept).map_err(|e| OnlineError::Option(e.to_string()))?;
        let file = self.file.as_mut().ok_or_else(|| OnlineError::Option("this game has no session file".into()))?;
        self.plays.save(file, &public)?;
        Ok(std::mem::take(&mut self.kept.recent))
    }

    /// What a resumed game decided up to its last save, (round, expert). Some of it may have been shown before: it is the same.
    pub fn recent(&mut self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.kept.recent)
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.plays.observed()
    }

    /// Whether all planned rounds are played.
    pub fn is_over(&self) -> bool {
        self.plays.observed() == self.plays.rounds()
    }

    /// What was planned for.
    pub fn problem(&self) -> &ExpertsProblem {
        &self.kept.problem
    }

    /// The algorithm that plays.
    pub fn player(&self) -> Player {
        self.kept.player
    }

    /// Expected regret at most, against losses of the kind that the [player's bound](Player::bounded_for) is for.
    pub fn regret_bound(&self) -> f64 {
        self.kept.regret_bound
    }

    /// The privacy guarantee of the game, per round.
    pub fn guarantee(&self) -> &Guarantee {
        self.session.guarantee()
    }

    /// Proof of the charge, if there is a ledger.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.kept.receipt.as_ref()
    }

    /// Ends it: what was promised and released.
    pub fn close(mut self) -> Closed {
        self.session.note(&self.stage);
        let receipt = self.kept.receipt.take();
        Closed { receipt, ..self.session.close() }
    }
}

/// Refuses a session file that could not be resumed.
fn can_be_kept(run: &RunOptions, options: &ExpertsOptions) -> Result<(), OnlineError> {
    if run.insecure_seed.is_some() {
        return Err(super::seeded_session());
    }
    if options.player.is_some_and(|player| !player.can_be_saved()) {
        return Err(OnlineError::Option(
            "the player leader has no session file, since its noise must never be stored; choose lean, fresh or \
             blocks, or leave the session out"
                .into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::LedgerFile;
    use dpopt_privacy::{Neighbours, Relation};

    fn losses(round: u64) -> [f64; 4] {
        std::array::from_fn(|j| {
            f64::from(u8::from((round + j as u64).is_multiple_of(3))) * 0.5 + if j == 2 { 0.0 } else { 0.4 }
        })
    }

    #[test]
    fn a_game_is_charged_once_and_ends() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = LedgerFile {
            path: directory.path().join("ledger"),
            total: Budget::new(1.0, 1e-4).unwrap(),
            access: Default::default(),
            unit: Vec::new(),
        };
        let (run, options) = (RunOptions::within(1.0).delta(1e-4).ledger(ledger), ExpertsOptions::default());
        let mut game = Experts::open(4, 60, run.clone(), &options).unwrap();
        assert!(game.receipt().is_some());
        let mut rounds = 0;
        while let Some(expert) = game.play() {
            assert!(expert < 4);
            assert!(game.observe(&[0.0; 3]).is_err() && game.observe(&[f64::NAN; 4]).is_err());
            assert_eq!(game.observed(), rounds);
            game.observe(&losses(rounds)).unwrap();
            rounds += 1;
        }
        assert!(rounds == 60 && game.is_over());
        assert!(game.observe(&losses(0)).is_err() && game.observe_nothing().is_err());
        let closed = game.close();
        assert!(closed.receipt.is_some() && closed.releases == [closed.releases[0].clone()]);
        assert_eq!(closed.guarantee.protected(), "round");
        assert!(closed.guarantee.to_string().contains("per round, zero-out"), "{}", closed.guarantee);
        // the second game is beyond the ledger's total
        assert!(matches!(Experts::open(4, 60, run, &options), Err(OnlineError::Session(_))));
    }

    #[test]
    fn a_ledger_of_rounds_takes_nothing_of_rows() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = LedgerFile {
            path: directory.path().join("ledger"),
            total: Budget::new(10.0, 1e-3).unwrap(),
            access: Default::default(),
            unit: Vec::new(),
        };
        let run = RunOptions::within(1.0).delta(1e-4).ledger(ledger.clone());
        Experts::open(4, 60, run, &ExpertsOptions::default()).unwrap();
        let rows = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-4).unwrap());
        let certificate = certify(&dpopt_privacy::Event::gaussian(20.0), rows).unwrap();
        let account = LedgerFile::account(Some(&ledger));
        assert!(Opening::new(rows, account, None).unwrap().charge("fit", &[&certificate]).is_err());
    }

    #[test]
    fn a_saved_game_goes_on_at_no_charge() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let options = ExpertsOptions::default;
        for (delta, options) in
            [(1e-4, options()), (0.0, options().losses(ExpertLosses::Any)), (0.0, options().player(Player::Blocks))]
        {
            goes_on(&path, &RunOptions::within(1.0).delta(delta), &options);
            std::fs::remove_file(&path).unwrap();
            std::fs::remove_file(directory.path().join("session.mark")).unwrap();
        }
    }

    fn goes_on(path: &Path, run: &RunOptions, options: &ExpertsOptions) {
        let mut game = Experts::open_at(path, 4, 60, run.clone(), options).unwrap();
        let by_blocks = options.player == Some(Player::Blocks);
        assert!(game.player().can_be_saved() && (game.player() == Player::Blocks) == by_blocks);
        for round in 0..17 {
            game.observe(&losses(round)).unwrap();
            let shown = game.save().unwrap();
            assert_eq!(shown, [(round + 2, game.play().unwrap())]);
        }
        let (next, bound) = (game.play(), game.regret_bound());
        game.observe(&losses(17)).unwrap(); // never saved, never shown
        drop(game);
        let mut game = Experts::resume(path).unwrap();
        assert_eq!((game.observed(), game.play(), game.regret_bound()), (17, next, bound));
        assert_eq!(game.recent(), [(18, next.unwrap())]);
        assert!(Experts::resume(path).is_err(), "held by this process");
        while game.play().is_some() {
            game.observe_nothing().unwrap();
        }
        game.save().unwrap();
        drop(game);
        let game = Experts::resume(path).unwrap();
        assert!(game.is_over() && game.play().is_none());
        assert!(Experts::open_at(path, 4, 60, run.clone(), options).is_err());
    }

    #[test]
    fn what_cannot_be_saved_is_refused_before_the_charge() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let seeded = RunOptions::within(1.0).insecure_seed(1);
        assert!(Experts::open_at(&path, 4, 60, seeded, &Default::default()).is_err());
        let leader = ExpertsOptions::default().player(Player::Leader);
        assert!(Experts::open_at(&path, 4, 60, 1.0, &leader).is_err());
        assert!(Experts::open_at(&directory.path().join("none/session"), 4, 60, 1.0, &Default::default()).is_err());
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
        assert!(Experts::open(4, 60, -1.0, &Default::default()).is_err());
        let (added, options) = (RunOptions::within(1.0).relation(Relation::AddOrRemove), ExpertsOptions::default());
        assert!(explain_experts(4, 60, &added, &options).unwrap().iter().all(|(_, plan)| plan.is_err()));
        assert!(Experts::open(4, 60, added, &options).is_err());
        let by_unit = RunOptions::within(1.0).unit(crate::UnitOptions::of("person"));
        assert!(Experts::open(4, 60, by_unit, &options).err().unwrap().to_string().contains("protects rounds"));
        assert_eq!(explain_experts(4, 60, &1.0.into(), &options).unwrap().len(), PLAYERS.len());
    }
}
