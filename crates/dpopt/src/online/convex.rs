//! A point of a box or a ball in every round, against linear losses or by gradients of convex ones.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::run::RunOptions;
use crate::session::{ActiveStage, Closed, Session, StageFacts};
use dpopt_objective::objective::Evidence;
use dpopt_online::{ConvexPlan, ConvexPlays, ConvexProblem, Losses, PlayRegion, plan_convex};
use dpopt_privacy::Budget;
use dpopt_privacy::ledger::Receipt;

/// Options of a game besides region, L, T and the [options of every run](crate::RunOptions); δ is 1/T^1.1 unless it is given, at most 0.01.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `losses` | convex | what is known of the losses: decides which regret is proved |
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvexOptions {
    /// What is known of the losses. `None`: convex.
    pub losses: Option<Losses>,
    /// Rounds that are protected together: for users who are in at most so many. `None`: 1.
    pub rounds_per_user: Option<u64>,
}

impl ConvexOptions {
    /// These options with [`losses`](#structfield.losses) set.
    #[must_use]
    pub fn losses(mut self, losses: impl Into<Option<Losses>>) -> Self {
        self.losses = losses.into();
        self
    }

    /// These options with [`rounds_per_user`](#structfield.rounds_per_user) set.
    #[must_use]
    pub fn rounds_per_user(mut self, rounds_per_user: impl Into<Option<u64>>) -> Self {
        self.rounds_per_user = rounds_per_user.into();
        self
    }
}

/// A game that is under way.
///
/// ```
/// use dpopt::online::{Convex, ConvexOptions};
/// use dpopt::optimize::online::PlayRegion;
/// // (x − 0.5)² in every round, given by its slope
/// let region = PlayRegion::Box { lower: vec![-1.0], upper: vec![1.0] };
/// let mut game = Convex::open(region, 3.0, 2000, 5.0, &ConvexOptions::default())?;
/// let mut last = 0.0;
/// while let Some(x) = game.play() {
///     last = x[0];
///     let slope = 2.0 * (last - 0.5);
///     game.observe(&[slope])?;
/// }
/// assert!((last - 0.5).abs() < 0.4, "{last}");
/// # Ok::<(), dpopt::online::OnlineError>(())
/// ```
pub struct Convex {
    session: Session,
    stage: ActiveStage,
    plays: ConvexPlays,
}

fn stated(
    region: PlayRegion,
    lipschitz: f64,
    rounds: u64,
    run: &RunOptions,
    options: &ConvexOptions,
) -> Result<(ConvexProblem, Budget), OnlineError> {
    let budget = run.budget(rounds).map_err(|e| OnlineError::Option(e.to_string()))?;
    let (neighbours, losses) = (super::of_rounds(run)?, options.losses.unwrap_or(Losses::Convex));
    let rounds_per_user = options.rounds_per_user.unwrap_or(1);
    Ok((ConvexProblem { region, lipschitz, rounds, losses, rounds_per_user, neighbours }, budget))
}

/// What is planned, with its proved regret; nothing is charged.
///
/// # Errors
/// If a fact is out of range, or nothing is certified.
pub fn explain_convex(
    region: PlayRegion,
    lipschitz: f64,
    rounds: u64,
    run: &RunOptions,
    options: &ConvexOptions,
) -> Result<ConvexPlan, OnlineError> {
    let (problem, budget) = stated(region, lipschitz, rounds, run, options)?;
    Ok(plan_convex(&problem, budget)?)
}

impl Convex {
    /// Plans, charges and opens a game of `rounds` rounds in `region`; gradients are clipped to l2 norm `lipschitz`.
    ///
    /// # Errors
    /// If nothing is certified, or the account refuses.
    pub fn open(
        region: PlayRegion,
        lipschitz: f64,
        rounds: u64,
        run: impl Into<RunOptions>,
        options: &ConvexOptions,
    ) -> Result<Self, OnlineError> {
        let run = run.into();
        let (problem, budget) = stated(region, lipschitz, rounds, &run, options)?;
        let plan = plan_convex(&problem, budget)?;
        let opening = run.opening(problem.neighbours, budget)?;
        let mut session = opening.charge("online convex", &[&plan.certificate])?;
        let facts = StageFacts { name: "convex", rests_on: Evidence::Enforced, stream: 0 };
        let mut stage = session.enter(facts, &plan.certificate)?;
        let plays = plan.open(&mut stage.curator)?;
        session.note(&stage);
        Ok(Self { session, stage, plays })
    }

    /// The point of the coming round; `None` after the last round. Asking again gives the same.
    pub fn play(&self) -> Option<&[f64]> {
        self.plays.play()
    }

    /// Takes the gradient of the round's loss at the point that was played; an entry that is no finite number counts as 0.
    ///
    /// # Errors
    /// For another number of entries, a round beyond the last, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, gradient: &[f64]) -> Result<(), OnlineError> {
        let d = self.plan().problem.region.dimension();
        if gradient.len() != d {
            let given = gradient.len();
            return Err(OnlineError::Option(format!(
                "a gradient has {given} entries, and a point {d}; give one entry for each coordinate"
            )));
        }
        self.told(Some(gradient.to_vec()))
    }

    /// A round that tells nothing.
    ///
    /// # Errors
    /// After the last round, or in a forked process.
    pub fn observe_nothing(&mut self) -> Result<(), OnlineError> {
        self.told(None)
    }

    fn told(&mut self, gradient: Option<Vec<f64>>) -> Result<(), OnlineError> {
        self.check()?;
        Ok(self.plays.observe(gradient)?)
    }

    fn check(&self) -> Result<(), OnlineError> {
        if self.play().is_some() {
            return Ok(());
        }
        Err(OnlineError::Option(format!(
            "all {} planned rounds are played; open another game, charged anew, for more",
            self.plan().problem.rounds
        )))
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.plays.observed()
    }

    /// The certified plan of the game.
    pub fn plan(&self) -> &ConvexPlan {
        self.plays.plan()
    }

    /// The privacy guarantee of the game, per round.
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
    use crate::session::LedgerFile;

    fn region() -> PlayRegion {
        PlayRegion::Ball { centre: vec![0.0, 0.0], radius: 2.0 }
    }

    #[test]
    fn a_game_is_promised_once_and_ends() {
        let run = RunOptions::within(1.0).insecure_seed(4);
        let mut game = Convex::open(region(), 1.0, 40, run, &ConvexOptions::default()).unwrap();
        assert!(game.observe(&[1.0]).unwrap_err().to_string().contains("and a point 2;"));
        let mut plays = Vec::new();
        while let Some(x) = game.play() {
            assert!(x.iter().map(|x| x * x).sum::<f64>() <= 4.0 + 1e-12);
            plays.push(x.to_vec());
            game.observe(&[0.6, -0.8]).unwrap();
        }
        assert_eq!((plays.len(), game.observed()), (40, 40));
        assert!(game.observe_nothing().unwrap_err().to_string().contains("all 40 planned rounds"));
        let closed = game.close();
        assert!(closed.guarantee.certified_epsilon <= 1.0 && closed.guarantee.insecure_seed);
        assert_eq!(closed.releases.len(), 1);
        let explained = explain_convex(region(), 1.0, 40, &1.0.into(), &ConvexOptions::default()).unwrap();
        assert!(explained.regret_bound > explained.problem.without_privacy());
    }

    #[test]
    fn seeds_are_refused_beside_an_account_and_games_without_delta() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = LedgerFile {
            path: directory.path().join("ledger"),
            total: Budget::new(2.0, 1e-3).unwrap(),
            access: Default::default(),
            unit: Vec::new(),
        };
        let options = ConvexOptions::default();
        let seeded = RunOptions::within(1.0).ledger(ledger).insecure_seed(1);
        assert!(Convex::open(region(), 1.0, 40, seeded, &options).is_err());
        assert!(Convex::open(region(), 1.0, 40, RunOptions::within(1.0).delta(0.0), &options).is_err());
    }
}
