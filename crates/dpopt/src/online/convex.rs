//! A point of a box or a ball in every round, against linear losses or by gradients of convex ones.

use super::error::OnlineError;
use crate::guarantee::Guarantee;
use crate::session::{Account, Closed, Entered, Opening, Session, StageFacts, default_delta};
use dpopt_objective::objective::Warrant;
use dpopt_online::{ConvexPlan, ConvexPlays, ConvexProblem, Losses, PlayRegion, plan_convex};
use dpopt_privacy::ledger::Receipt;
use dpopt_privacy::{Budget, Neighbours, Relation};

/// Everything a game can be told besides region, L, T and ε.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 1/T^1.1, at most 0.01 | δ > 0 |
/// | `relation` | zero-out | which sequences of gradients are neighbours; add-or-remove is refused |
/// | `losses` | convex | what is known of the losses: decides which regret is proved |
/// | `rounds_per_user` | 1 | so many rounds are protected together, wherever they are |
#[derive(Default)]
pub struct ConvexOptions {
    /// δ. `None`: 1/T^1.1, at most 0.01.
    pub delta: Option<f64>,
    /// Which sequences of gradients are neighbours.
    pub relation: Relation,
    /// What is known of the losses. `None`: convex.
    pub losses: Option<Losses>,
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
/// use dpopt::online::{Convex, ConvexOptions};
/// use dpopt::optimize::online::PlayRegion;
/// // (x − 0.5)² in every round, told by its slope
/// let region = PlayRegion::Box { lower: vec![-1.0], upper: vec![1.0] };
/// let mut game = Convex::open(region, 3.0, 2000, 5.0, ConvexOptions::default())?;
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
    stage: Entered,
    plays: ConvexPlays,
}

fn stated(
    region: PlayRegion,
    lipschitz: f64,
    rounds: u64,
    epsilon: f64,
    options: &ConvexOptions,
) -> Result<(ConvexProblem, Budget), OnlineError> {
    let delta = options.delta.unwrap_or_else(|| default_delta(rounds));
    let budget = Budget::new(epsilon, delta).map_err(|e| OnlineError::Option(e.to_string()))?;
    let (neighbours, losses) = (Neighbours::of_rounds(options.relation), options.losses.unwrap_or(Losses::Convex));
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
    epsilon: f64,
    options: &ConvexOptions,
) -> Result<ConvexPlan, OnlineError> {
    let (problem, budget) = stated(region, lipschitz, rounds, epsilon, options)?;
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
        epsilon: f64,
        options: ConvexOptions,
    ) -> Result<Self, OnlineError> {
        let (problem, budget) = stated(region, lipschitz, rounds, epsilon, &options)?;
        let plan = plan_convex(&problem, budget)?;
        let terms = problem.neighbours.within(budget);
        let opening = Opening::new(terms, options.account, options.insecure_seed)?;
        let mut session = opening.charge("online convex", &[&plan.certificate])?;
        let facts = StageFacts { name: "convex", rests_on: Warrant::Enforced, stream: 0 };
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
                "a gradient has {given} entries; give one for each of the {d} of a point"
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
            "all {} rounds that were planned and charged are played; open another game for more",
            self.plan().problem.rounds
        )))
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.plays.observed()
    }

    /// What was planned.
    pub fn plan(&self) -> &ConvexPlan {
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
    use crate::session::LedgerFile;

    fn region() -> PlayRegion {
        PlayRegion::Ball { centre: vec![0.0, 0.0], radius: 2.0 }
    }

    #[test]
    fn a_game_is_promised_once_and_ends() {
        let options = ConvexOptions { insecure_seed: Some(4), ..ConvexOptions::default() };
        let mut game = Convex::open(region(), 1.0, 40, 1.0, options).unwrap();
        assert!(game.observe(&[1.0]).unwrap_err().to_string().contains("2 of a point"));
        let mut plays = Vec::new();
        while let Some(x) = game.play() {
            assert!(x.iter().map(|x| x * x).sum::<f64>() <= 4.0 + 1e-12);
            plays.push(x.to_vec());
            game.observe(&[0.6, -0.8]).unwrap();
        }
        assert_eq!((plays.len(), game.observed()), (40, 40));
        assert!(game.observe_nothing().unwrap_err().to_string().contains("all 40 rounds"));
        let closed = game.close();
        assert!(closed.guarantee.certified_epsilon <= 1.0 && closed.guarantee.insecure_seed);
        assert_eq!(closed.releases.len(), 1);
        let explained = explain_convex(region(), 1.0, 40, 1.0, &ConvexOptions::default()).unwrap();
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
        let account = LedgerFile::account(Some(&ledger));
        let seeded = ConvexOptions { account, insecure_seed: Some(1), ..ConvexOptions::default() };
        assert!(Convex::open(region(), 1.0, 40, 1.0, seeded).is_err());
        let pure = ConvexOptions { delta: Some(0.0), ..ConvexOptions::default() };
        assert!(Convex::open(region(), 1.0, 40, 1.0, pure).is_err());
    }
}
