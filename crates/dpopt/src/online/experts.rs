//! One of d experts in every round.
//!
//! Planned from public facts, charged as a whole before the first round, then a conversation: [`play`](Experts::play) says who is
//! trusted in the coming round, [`observe`](Experts::observe) takes what every expert lost in it. What leaves is who plays.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::session::{Account, Closed, Entered, LedgerFile, Opening, Session, SessionError, StageFacts, default_delta};
use dpopt_mechanism::{
    BlockExperts, ExpertPlays, ExpertsFile, Interactive, LazyExperts, NotApplicable, RoundLosses, SamplerError,
    SavedExperts,
};
use dpopt_objective::objective::Warrant;
use dpopt_online::{
    ExpertLosses, ExpertsDoor, ExpertsPlan, ExpertsProblem, PLAYERS, Player, experts_candidates, least_of, plan_experts,
};
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::{Budget, Neighbours, Relation, certify};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything a game can be told besides d, T and ε.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 1/T^1.1, at most 0.01 | δ; 0 for a pure guarantee |
/// | `relation` | zero-out | which sequences of losses are neighbours; add-or-remove is refused |
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
/// | `player` | the least proved bound | lean, fresh, leader or blocks |
/// | `losses` | any; with δ = 0 independent ones will do | which bounds on regret count where nobody is named; privacy is the same |
#[derive(Clone, Debug)]
pub struct ExpertsOptions {
    /// δ. `None`: 1/T^1.1, at most 0.01.
    pub delta: Option<f64>,
    /// Which sequences of losses are neighbours.
    pub relation: Relation,
    /// Rounds that are protected together: for users who are in at most so many.
    pub rounds_per_user: u64,
    /// Who plays. `None`: the least proved bound.
    pub player: Option<Player>,
    /// What is known of the losses: which bounds count where no player is named. `None`: nothing; but a pure guarantee makes do with a bound for
    /// losses that are drawn independently.
    pub losses: Option<ExpertLosses>,
    /// A budget kept in a file.
    pub ledger: Option<LedgerFile>,
    /// Reproducible coins for tests: no privacy against who knows the seed, no charge to a ledger, no session file.
    pub insecure_seed: Option<u64>,
}

impl Default for ExpertsOptions {
    fn default() -> Self {
        Self {
            delta: None,
            relation: Relation::ZeroOut,
            rounds_per_user: 1,
            player: None,
            losses: None,
            ledger: None,
            insecure_seed: None,
        }
    }
}

/// A game that is under way.
///
/// ```
/// use dpopt::online::{Experts, ExpertsOptions};
/// // three experts, the last of whom is always right; a hundred rounds. The seed is for this page: without one the noise is secret
/// let options = ExpertsOptions { insecure_seed: Some(1), ..ExpertsOptions::default() };
/// let mut game = Experts::open(3, 100, 5.0, &options)?;
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
    stage: Entered,
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

/// A problem and a budget from what somebody said.
fn stated(
    experts: usize,
    rounds: u64,
    epsilon: f64,
    options: &ExpertsOptions,
) -> Result<(ExpertsProblem, Budget), OnlineError> {
    let delta = options.delta.unwrap_or_else(|| default_delta(rounds));
    let budget = Budget::new(epsilon, delta).map_err(|e| OnlineError::Option(e.to_string()))?;
    let neighbours = Neighbours::of_rounds(options.relation);
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
    epsilon: f64,
    options: &ExpertsOptions,
) -> Result<Vec<(Player, Result<ExpertsPlan, NotApplicable>)>, OnlineError> {
    let (problem, budget) = stated(experts, rounds, epsilon, options)?;
    let wanted = |player: &Player| options.player.is_none_or(|only| only == *player);
    Ok(experts_candidates(&problem, budget).into_iter().filter(|(player, _)| wanted(player)).collect())
}

impl Experts {
    /// Plans, charges and opens a game of `rounds` rounds among `experts` experts: ε for all of it, whatever is asked and told.
    ///
    /// # Errors
    /// If nothing is certified, or the ledger refuses.
    pub fn open(experts: usize, rounds: u64, epsilon: f64, options: &ExpertsOptions) -> Result<Self, OnlineError> {
        Self::opened(experts, rounds, epsilon, options, None, LedgerFile::account(options.ledger.as_ref()))
    }

    /// The same charged to any account, kept in a new file if there is a path.
    ///
    /// # Errors
    /// If the options name a ledger too, and as [`open`](Self::open) and [`open_at`](Self::open_at).
    pub fn open_charged(
        path: Option<&Path>,
        experts: usize,
        rounds: u64,
        epsilon: f64,
        options: &ExpertsOptions,
        account: Option<Box<dyn Account>>,
    ) -> Result<Self, OnlineError> {
        if options.ledger.is_some() {
            return Err(OnlineError::Option("a game is charged to one account; leave the ledger out".into()));
        }
        if path.is_some() {
            can_be_kept(options)?;
        }
        Self::opened(experts, rounds, epsilon, options, path, account)
    }

    /// The same, kept in a new file so that a killed process goes on where it was ([`save`](Self::save)). The place is reserved before
    /// the charge.
    ///
    /// # Errors
    /// If the file is there already, with an insecure seed, or as [`open`](Self::open).
    pub fn open_at(
        path: &Path,
        experts: usize,
        rounds: u64,
        epsilon: f64,
        options: &ExpertsOptions,
    ) -> Result<Self, OnlineError> {
        can_be_kept(options)?;
        let account = LedgerFile::account(options.ledger.as_ref());
        Self::opened(experts, rounds, epsilon, options, Some(path), account)
    }

    fn opened(
        experts: usize,
        rounds: u64,
        epsilon: f64,
        options: &ExpertsOptions,
        path: Option<&Path>,
        account: Option<Box<dyn Account>>,
    ) -> Result<Self, OnlineError> {
        let (problem, budget) = stated(experts, rounds, epsilon, options)?;
        let terms = problem.neighbours.within(budget);
        let opening = Opening::new(terms, account, options.insecure_seed)?;
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
        let facts = StageFacts { name: "experts", rests_on: Warrant::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &plan.certificate)?;
        let plays = match &plan.door {
            ExpertsDoor::Lazy(door) => stage.curator.open(door)?,
            ExpertsDoor::Leader(door) => stage.curator.open(door)?,
            ExpertsDoor::Blocks(door) => stage.curator.open(door)?,
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

    /// The same, of a game whose session was moved to another file system: you vouch that nothing goes on where it was.
    ///
    /// # Errors
    /// As [`resume`](Self::resume); also if the session that it was copied from is still there.
    pub fn resume_moved(path: &Path) -> Result<Self, OnlineError> {
        Self::resumed(path, ExpertsFile::open_moved(path)?)
    }

    fn resumed(path: &Path, opened: (ExpertsFile, SavedExperts, String)) -> Result<Self, OnlineError> {
        let (file, saved, public) = opened;
        let damaged = || OnlineError::Option(format!("session {} is damaged, or of another version", path.display()));
        let kept: Kept = serde_json::from_str(&public).map_err(|_| damaged())?;
        let ExpertsProblem { experts, rounds, rounds_per_user, neighbours, .. } = kept.problem;
        let relation = neighbours.relation;
        match (kept.player, kept.learning_rate, kept.resampling) {
            (Player::Blocks, Some(rate), _) => {
                let ends = kept.block_ends.clone();
                let door = BlockExperts::new(experts, rounds, ends, rate, rounds_per_user, relation)?;
                Self::reopened(&door.resumed(saved)?, kept, file)
            }
            (_, Some(rate), Some(fresh)) => {
                let door = LazyExperts::new(experts, rounds, kept.batch, rate, fresh, rounds_per_user, relation)?;
                Self::reopened(&door.resumed(saved)?, kept, file)
            }
            _ => Err(damaged()),
        }
    }

    fn reopened(
        door: &impl Interactive<Opened = ExpertPlays>,
        kept: Kept,
        file: ExpertsFile,
    ) -> Result<Self, OnlineError> {
        let event = SamplerError::proved(door.sampler_error()?).paid(door.event(), kept.budget.delta());
        let terms = kept.problem.neighbours.within(kept.budget);
        let certificate = certify(&event, terms).map_err(SessionError::from)?;
        // charged when the game was opened
        let mut session = Opening::new(terms, None, None)?.charge("online experts", &[&certificate])?;
        let facts = StageFacts { name: "experts", rests_on: Warrant::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &certificate)?;
        let plays = stage.curator.open(door)?;
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
                "all {} rounds that were planned and charged are played; open another game for more",
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

    /// Of a resumed game: what was decided up to its last save, (round, expert). Some of it may have been shown before: it is the same.
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

    /// Who plays.
    pub fn player(&self) -> Player {
        self.kept.player
    }

    /// Expected regret at most, against losses of the kind that the [player's bound](Player::bounded_for) is for.
    pub fn regret_bound(&self) -> f64 {
        self.kept.regret_bound
    }

    /// What is promised, per round.
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
fn can_be_kept(options: &ExpertsOptions) -> Result<(), OnlineError> {
    if options.insecure_seed.is_some() {
        return Err(super::seeded_session());
    }
    if options.player.is_some_and(|player| !player.can_be_saved()) {
        return Err(OnlineError::Option(
            "a leader's noise is never written down, so that it has no session file; choose lean, fresh or blocks"
                .into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let options = ExpertsOptions { delta: Some(1e-4), ledger: Some(ledger), ..Default::default() };
        let mut game = Experts::open(4, 60, 1.0, &options).unwrap();
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
        assert!(matches!(Experts::open(4, 60, 1.0, &options), Err(OnlineError::Session(_))));
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
        let options = ExpertsOptions { delta: Some(1e-4), ledger: Some(ledger.clone()), ..Default::default() };
        Experts::open(4, 60, 1.0, &options).unwrap();
        let rows = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-4).unwrap());
        let certificate = certify(&dpopt_privacy::Event::gaussian(20.0), rows).unwrap();
        let account = LedgerFile::account(Some(&ledger));
        assert!(Opening::new(rows, account, None).unwrap().charge("fit", &[&certificate]).is_err());
    }

    #[test]
    fn a_saved_game_goes_on_at_no_charge() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        for options in [
            ExpertsOptions { delta: Some(1e-4), ..Default::default() },
            ExpertsOptions { delta: Some(0.0), losses: Some(ExpertLosses::Any), ..Default::default() },
            ExpertsOptions { delta: Some(0.0), player: Some(Player::Blocks), ..Default::default() },
        ] {
            goes_on(&path, &options);
            std::fs::remove_file(&path).unwrap();
            std::fs::remove_file(directory.path().join("session.mark")).unwrap();
        }
    }

    fn goes_on(path: &Path, options: &ExpertsOptions) {
        let mut game = Experts::open_at(path, 4, 60, 1.0, options).unwrap();
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
        assert!(Experts::open_at(path, 4, 60, 1.0, options).is_err());
    }

    #[test]
    fn what_cannot_be_saved_is_refused_before_the_charge() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        for options in [
            ExpertsOptions { insecure_seed: Some(1), ..Default::default() },
            ExpertsOptions { player: Some(Player::Leader), ..Default::default() },
        ] {
            assert!(Experts::open_at(&path, 4, 60, 1.0, &options).is_err());
        }
        assert!(Experts::open_at(&directory.path().join("none/session"), 4, 60, 1.0, &Default::default()).is_err());
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
        assert!(Experts::open(4, 60, -1.0, &Default::default()).is_err());
        let added = ExpertsOptions { relation: Relation::AddOrRemove, ..Default::default() };
        assert!(Experts::open(4, 60, 1.0, &added).is_err());
        assert!(explain_experts(4, 60, 1.0, &added).unwrap().iter().all(|(_, plan)| plan.is_err()));
        assert_eq!(explain_experts(4, 60, 1.0, &Default::default()).unwrap().len(), PLAYERS.len());
    }
}
