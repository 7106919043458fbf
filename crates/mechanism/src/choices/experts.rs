//! Choosing one of d experts in every round while their losses come in (lazy-to-private conversion for experts: Asi, Koren, Liu,
//! Talwar 2024; docs/proofs/online-experts.md), and following a leader through noise that cancels over time.
//!
//! Only which expert is played leaves. The lazy choice keeps its expert with probability (1 − p)·e^(−η·loss of the batch) and else
//! draws a new one ∝ e^(−η·loss so far), so that each single choice has exactly the law of multiplicative weights. Losses are
//! clamped to \[0, 1\] and rounded to multiples of 2^-24 before anything else; all sums are integers and all coins exact.
//!
//! Covers: thesis algorithm 44 (part: for experts, without the second chain)
//! Covers: thesis theorem 13.3.2 (part: privacy, by an event of its own; its formulas are not used)

use super::experts_file::{ExpertsFile, LazyShape, SavedExperts, SavedShape};
use dpopt_draws::ExponentialChoice;
use dpopt_kernel::beside::{Expose, Sealed, Seen, opened, released};
use dpopt_kernel::{CuratorError, Interactive, InteractiveStart, Released, SamplerError, Sensitive};
use dpopt_noise::correlated::{CorrelatedNoise, Factor, Participation};
use dpopt_noise::{Grid, Purpose, Stream};
use dpopt_privacy::{Event, Relation};
use dpopt_process::Process;

/// log2 of the steps of a loss of 1.
pub(super) const FINE: i32 = 24;
/// A loss of 1, in integer steps.
pub(super) const ONE: u64 = 1 << FINE;
/// Denominator of the probability of a fresh draw.
const COIN: u64 = 1 << 53;
/// Rounds at most: sums of losses stay far below 2^63.
const MAX_ROUNDS: u64 = 1 << 38;
const MAX_EXPERTS: usize = 1 << 24;
pub(super) const LABEL: &str = "plays of experts";

/// What one round tells of every expert: clamped to \[0, 1\], rounded to multiples of 2^-24.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundLosses(Vec<u32>);

impl RoundLosses {
    /// Losses of a round, one per expert.
    ///
    /// ```
    /// use dpopt_mechanism::RoundLosses;
    /// assert!(RoundLosses::of(&[0.0, 0.5, 7.0]).is_ok()); // 7 counts as 1
    /// assert!(RoundLosses::of(&[f64::NAN]).is_err());
    /// ```
    ///
    /// # Errors
    /// If one is no finite number.
    pub fn of(losses: &[f64]) -> Result<Sensitive<Self>, CuratorError> {
        if losses.iter().any(|loss| !loss.is_finite()) {
            return Err(CuratorError::Unusable("a loss is not a finite number; give numbers in [0, 1]".into()));
        }
        let steps = |loss: &f64| (loss.clamp(0.0, 1.0) * ONE as f64).round() as u32;
        Ok(Sensitive::new(Self(losses.iter().map(steps).collect())))
    }

    /// The losses as integers, in steps of 2^-24.
    pub(super) fn steps(&self) -> &[u32] {
        &self.0
    }

    /// A round that tells nothing: what takes the place of a round under zero-out.
    pub fn nothing(experts: usize) -> Sensitive<Self> {
        Sensitive::new(Self(vec![0; experts]))
    }
}

/// The public numbers of a lazy choice among experts. The event is made of these very numbers: one coin that sees the round that
/// differs, one draw after it, and a [gated](Event::Gated) draw at every later end of a batch.
///
/// ```
/// use dpopt_mechanism::LazyExperts;
/// use dpopt_privacy::Relation;
/// let plan = LazyExperts::new(10, 1000, 10, 0.01, 0.05, 1, Relation::ReplaceOne)?;
/// assert!((plan.switch_epsilon() - 0.173157).abs() < 1e-6);
/// # Ok::<(), dpopt_mechanism::CuratorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LazyExperts {
    shape: LazyShape,
    choice: ExponentialChoice,
    resumed: Option<SavedExperts>,
}

impl LazyExperts {
    /// `experts` ≥ 2 over `rounds` rounds in batches of `batch`, with `learning_rate` η, a fresh draw with probability at least
    /// `resampling` p at the end of a batch (1: always; rounded up to a multiple of 2^-53), between neighbours that differ in
    /// `rounds_per_user` rounds.
    ///
    /// # Errors
    /// If a number is out of range, there is only one batch, or rounds may be added or removed, which would move the ends of all
    /// later batches.
    pub fn new(
        experts: usize,
        rounds: u64,
        batch: u64,
        learning_rate: f64,
        resampling: f64,
        rounds_per_user: u64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        check_shape(experts, rounds, rounds_per_user, relation)?;
        if batch == 0 || batch >= rounds {
            return Err(unusable(format!(
                "{rounds} rounds in batches of {batch} are fewer than two batches; give \
                                         smaller batches"
            )));
        }
        if !(resampling > 0.0 && resampling <= 1.0) {
            return Err(unusable(format!("the probability of a fresh draw is {resampling}; give a number in (0, 1]")));
        }
        let moved = range_of(relation, learning_rate);
        let choice = ExponentialChoice::new(moved, ONE, relation == Relation::ZeroOut).map_err(|_| {
            unusable(format!("the learning rate is {learning_rate:e}; give a number from 1.5e-8 to 1e8"))
        })?;
        let fresh = ((resampling * COIN as f64).ceil() as u64).clamp(1, COIN);
        let shape = LazyShape { experts, rounds, batch, learning_rate, fresh, rounds_per_user, relation };
        Ok(Self { shape, choice, resumed: None })
    }

    /// Continues the choice that was saved, from where it ended.
    ///
    /// # Errors
    /// If that was another choice.
    pub fn resumed(self, saved: SavedExperts) -> Result<Self, CuratorError> {
        saved.of(&SavedShape::Lazy(self.shape))?;
        Ok(Self { resumed: Some(saved), ..self })
    }

    /// Times at which an expert is drawn or kept: the ends of all batches but the last.
    pub fn boundaries(&self) -> u64 {
        self.shape.rounds.div_ceil(self.shape.batch) - 1
    }

    /// What the coin of the batch with the round that differs costs: the log-ratio of the probabilities of a fresh draw, or of
    /// keeping if that is larger.
    pub fn switch_epsilon(&self) -> f64 {
        let (p, eta) = (self.resampling(), self.shape.learning_rate);
        let switched = ((1.0 - p) * -(-eta).exp_m1() / p).ln_1p();
        switched.max(eta) * (1.0 + 1e-13)
    }

    /// ε of all plays with δ = 0, added up by hand: for a search among plans, whose event is certified in the end.
    pub fn pure_epsilon(&self) -> f64 {
        let k = self.shape.rounds_per_user as f64;
        let draws = k * range_of(self.shape.relation, self.shape.learning_rate) * self.boundaries() as f64;
        let coins = if self.shape.fresh == COIN { 0.0 } else { k * self.switch_epsilon() };
        (draws + coins) * (1.0 + 1e-9)
    }

    /// Probability of a fresh draw at the end of a batch at most, whatever the losses.
    pub fn gate(&self) -> f64 {
        let p = self.resampling();
        // 1 − (1 − p)e^(−ηB) without cancellation
        let left = -(-self.shape.learning_rate * self.shape.batch as f64).exp_m1();
        ((p + (1.0 - p) * left) * (1.0 + 1e-13)).min(1.0)
    }

    fn resampling(&self) -> f64 {
        self.shape.fresh as f64 / COIN as f64
    }
}

/// How far the scores of experts can move against each other between neighbours, times η.
pub(super) fn range_of(relation: Relation, learning_rate: f64) -> f64 {
    relation.sum_sensitivity() * learning_rate
}

pub(super) fn check_shape(
    experts: usize,
    rounds: u64,
    rounds_per_user: u64,
    relation: Relation,
) -> Result<(), CuratorError> {
    if !(2..=MAX_EXPERTS).contains(&experts) {
        return Err(unusable(format!("there are {experts} experts; give 2 to {MAX_EXPERTS}")));
    }
    if !(2..=MAX_ROUNDS).contains(&rounds) {
        return Err(unusable(format!("there are {rounds} rounds; give 2 to {MAX_ROUNDS}")));
    }
    if rounds_per_user == 0 || rounds_per_user > rounds {
        return Err(unusable(format!("a user is in {rounds_per_user} of {rounds} rounds; give 1 to {rounds}")));
    }
    if relation == Relation::AddOrRemove {
        return Err(unusable(
            "adding or removing a round moves the ends of all later batches; use zero-out or replace-one".into(),
        ));
    }
    Ok(())
}

pub(super) fn unusable(text: String) -> CuratorError {
    CuratorError::Noise(text)
}

impl Sealed for LazyExperts {}

impl Interactive for LazyExperts {
    type Opened = ExpertPlays;

    fn event(&self) -> Event {
        let boundaries = self.boundaries();
        let k = self.shape.rounds_per_user;
        let changed = k.min(boundaries);
        let range = range_of(self.shape.relation, self.shape.learning_rate);
        let draw = Event::ExponentialMechanism { epsilon: if k == 1 { range } else { (k as f64 * range).next_up() } };
        if self.shape.fresh == COIN {
            return draw.self_composed(boundaries);
        }
        let mut parts = vec![Event::PureStream { epsilon: self.switch_epsilon() * k as f64 }];
        parts.push(draw.clone().self_composed(changed));
        parts.push(draw.gated(self.gate()).self_composed(boundaries - changed));
        Event::composed(parts)
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        // one draw and one coin at each end of a batch
        Ok(SamplerError::fine(self.boundaries() as f64 * (self.shape.experts as f64 + 1.0)).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.shape.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<ExpertPlays, CuratorError> {
        let experts = self.shape.experts;
        let (total, current) = match &self.resumed {
            Some(saved) => (saved.total.clone(), saved.current.clone()),
            None => (vec![0; experts], vec![0; experts]),
        };
        let learner = Lazy { plan: self.clone(), total, current };
        ExpertPlays::chosen_at_random((experts, self.shape.rounds), self.resumed.as_ref(), Box::new(learner), opening)
    }
}

/// The public numbers of a leader that is followed through noise: the sums of the losses so far are noised by a buffered linear
/// Toeplitz factor, all rounds together *one* Gaussian release, and the least of them is played.
#[derive(Clone, Debug)]
pub struct NoisyLeader {
    experts: usize,
    rounds: u64,
    noise_std: f64,
    sensitivity: f64,
    factor: Factor,
    relation: Relation,
}

/// Rounds at most: the factor's sensitivity is worked out step by step.
const MAX_LEADER_ROUNDS: u64 = 1 << 22;

impl NoisyLeader {
    /// Noise of `noise_std` per unit of a loss and per step, before the factor.
    ///
    /// # Errors
    /// As [`LazyExperts::new`]; if the noise is too small or too large for a grid of 2^-24.
    pub fn new(
        experts: usize,
        rounds: u64,
        noise_std: f64,
        rounds_per_user: u64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        check_shape(experts, rounds, rounds_per_user, relation)?;
        if rounds > MAX_LEADER_ROUNDS {
            return Err(unusable(format!(
                "the noisy leader plays at most {MAX_LEADER_ROUNDS} rounds; give fewer, or \
                                         choose another player"
            )));
        }
        let factor = Factor::blt_default(4).map_err(|e| unusable(e.to_string()))?;
        let sensitivity = Self::step_sensitivity(experts, rounds, rounds_per_user)?;
        let leader = Self { experts, rounds, noise_std, sensitivity, factor, relation };
        leader.noise()?;
        Ok(leader)
    }

    /// l2 norm of all that the rounds of one user move, as the factor weighs it. Losses lie in \[0, 1\], so that a round moves by at
    /// most √d, whether it is replaced or told nothing of.
    ///
    /// # Errors
    /// Never for the factor in use.
    pub fn step_sensitivity(experts: usize, rounds: u64, rounds_per_user: u64) -> Result<f64, CuratorError> {
        let factor = Factor::blt_default(4).map_err(|e| unusable(e.to_string()))?;
        let participation = match rounds_per_user {
            1 => Participation::Single,
            k => Participation::Separated { separation: 1, count: k as usize },
        };
        Ok(factor.sensitivity(rounds as usize, participation) * (experts as f64).sqrt() * (1.0 + 1e-12))
    }

    /// Standard deviations of what is played from, round by round, per unit of the noise: they do not decrease.
    ///
    /// # Errors
    /// Never for the factor in use.
    pub fn errors(rounds: u64) -> Result<Vec<f64>, CuratorError> {
        Ok(Factor::blt_default(4).map_err(|e| unusable(e.to_string()))?.prefix_errors(rounds as usize))
    }

    fn noise(&self) -> Result<CorrelatedNoise, CuratorError> {
        CorrelatedNoise::new(self.factor.clone(), self.noise_std, Grid::new(-FINE), self.experts, self.rounds as usize)
            .map_err(|e| unusable(e.to_string()))
    }
}

impl Sealed for NoisyLeader {}

impl Interactive for NoisyLeader {
    type Opened = ExpertPlays;

    fn event(&self) -> Event {
        // the accountants multiply by 1 or 2 for the relation; the sensitivity here is that of either
        let ratio = self.relation.sum_sensitivity() * self.noise_std / self.sensitivity;
        Event::gaussian(ratio * (1.0 - 1e-13))
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(self.noise()?.total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<ExpertPlays, CuratorError> {
        let opening = opened(opening);
        let insecure = opening.noise.is_insecure();
        let mut coins = opening.noise.stream(Purpose::Correlated, 0);
        let (mut noise, mut noisy) = (self.noise()?, vec![0; self.experts]);
        if !noise.add_next(&mut noisy, &mut coins) {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        let plays = ExpertPlays {
            experts: self.experts,
            rounds: self.rounds,
            round: 0,
            chosen: least(&noisy),
            learner: Box::new(Led { noise, noisy }),
            coins,
            insecure,
            process: Process::here(),
            seen: opening.seen,
        };
        plays.show();
        Ok(plays)
    }
}

/// The first of the least.
fn least(values: &[i64]) -> usize {
    values.iter().enumerate().min_by_key(|(_, value)| **value).map_or(0, |(place, _)| place)
}

/// An open choice among experts; see [`Curator::open`](crate::Curator::open). Neither printable nor cloneable: its sums are the
/// records', and its coins are spent once.
pub struct ExpertPlays {
    experts: usize,
    rounds: u64,
    /// Number of rounds observed so far.
    round: u64,
    chosen: usize,
    learner: Box<dyn Learner>,
    coins: Stream,
    insecure: bool,
    /// The process in which it was opened: a forked copy has the same coins to come.
    process: Process,
    /// What was released, where a test or an audit watches the curator.
    seen: Option<Seen>,
}

/// Who chooses behind an open choice.
pub(super) trait Learner: Send + Sync {
    /// Takes the losses of round `round` and says who plays the next, if that is decided now; `chosen` played.
    fn told(
        &mut self,
        round: u64,
        losses: &[u32],
        chosen: usize,
        coins: &mut Stream,
    ) -> Result<Option<usize>, CuratorError>;

    /// What a session file holds of it; `None` if it can't be written down.
    fn saved(&self, round: u64, chosen: usize) -> Option<SavedExperts>;
}

struct Lazy {
    plan: LazyExperts,
    /// Losses of each expert over all whole batches.
    total: Vec<i64>,
    /// Losses of the batch that is under way.
    current: Vec<i64>,
}

impl Learner for Lazy {
    fn told(
        &mut self,
        round: u64,
        losses: &[u32],
        chosen: usize,
        coins: &mut Stream,
    ) -> Result<Option<usize>, CuratorError> {
        let Self { plan, total, current } = self;
        add(current, losses);
        if !round.is_multiple_of(plan.shape.batch) {
            return Ok(None);
        }
        let lost = current[chosen].unsigned_abs();
        total.iter_mut().zip(current.iter_mut()).for_each(|(sum, new)| *sum += std::mem::take(new));
        let fresh = coins.below(COIN) < plan.shape.fresh;
        if !fresh && plan.choice.keeps(lost, coins) {
            return Ok(Some(chosen));
        }
        // there are experts
        Ok(Some(draw(&plan.choice, total, coins).unwrap_or(chosen)))
    }

    fn saved(&self, round: u64, chosen: usize) -> Option<SavedExperts> {
        let (total, current) = (self.total.clone(), self.current.clone());
        Some(SavedExperts { shape: SavedShape::Lazy(self.plan.shape), round, chosen, total, current })
    }
}

struct Led {
    noise: CorrelatedNoise,
    /// Losses so far and all noise so far.
    noisy: Vec<i64>,
}

impl Learner for Led {
    fn told(&mut self, _: u64, losses: &[u32], _: usize, coins: &mut Stream) -> Result<Option<usize>, CuratorError> {
        add(&mut self.noisy, losses);
        if !self.noise.add_next(&mut self.noisy, coins) {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        Ok(Some(least(&self.noisy)))
    }

    fn saved(&self, _: u64, _: usize) -> Option<SavedExperts> {
        None
    }
}

pub(super) fn add(sums: &mut [i64], losses: &[u32]) {
    sums.iter_mut().zip(losses).for_each(|(sum, loss)| *sum = sum.wrapping_add(i64::from(*loss)));
}

/// An expert by its losses.
pub(super) fn draw(choice: &ExponentialChoice, sums: &[i64], coins: &mut Stream) -> Option<usize> {
    let scores: Vec<i64> = sums.iter().map(|sum| -sum).collect();
    choice.choose(&scores, coins)
}

impl ExpertPlays {
    /// Begins with any expert, or where `resumed` ended: with fresh coins, which a seed does not give.
    pub(super) fn chosen_at_random(
        (experts, rounds): (usize, u64),
        resumed: Option<&SavedExperts>,
        learner: Box<dyn Learner>,
        opening: InteractiveStart<'_>,
    ) -> Result<Self, CuratorError> {
        let opening = opened(opening);
        let insecure = opening.noise.is_insecure();
        if resumed.is_some() && insecure {
            return Err(unusable(
                "a resumed session draws fresh noise and takes no insecure seed; leave it out".into(),
            ));
        }
        let mut coins = opening.noise.stream(Purpose::Selection, 0);
        let (round, chosen) = match resumed {
            Some(saved) => (saved.round, saved.chosen),
            None => (0, coins.below(experts as u64) as usize),
        };
        let (process, seen) = (Process::here(), opening.seen);
        let plays = Self { experts, rounds, round, chosen, learner, coins, insecure, process, seen };
        plays.show();
        Ok(plays)
    }

    /// The expert of the coming round. Asking again gives the same.
    ///
    /// # Errors
    /// After the last round.
    pub fn play(&self) -> Result<Released<usize>, CuratorError> {
        self.here()?;
        if self.round == self.rounds {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        Ok(released(self.chosen))
    }

    /// Refuses a copy in a forked process: two games would go on with the same coins, and one of them was charged for.
    fn here(&self) -> Result<(), CuratorError> {
        CuratorError::unless_opened_in(self.process, "game")
    }

    /// Takes the losses of the round that was played for. They may depend on all plays so far.
    ///
    /// # Errors
    /// After the last round, for another number of experts, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, losses: &Sensitive<RoundLosses>) -> Result<(), CuratorError> {
        self.here()?;
        let losses = &losses.expose().0;
        if self.round == self.rounds {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        if losses.len() != self.experts {
            return Err(CuratorError::Shape);
        }
        self.round += 1;
        // nothing is played after the last round
        if self.round == self.rounds {
            return Ok(());
        }
        if let Some(expert) = self.learner.told(self.round, losses, self.chosen, &mut self.coins)? {
            self.chosen = expert;
            self.show();
        }
        Ok(())
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.round
    }

    /// Number T of rounds of the whole game.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Number d of experts.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Writes all of it to `file`, synced: call it before anything is shown that it would have to repeat. `public` is kept beside it.
    ///
    /// # Errors
    /// If it can't be written, the coins come from an insecure seed, or the learner is a leader, whose noise is never written down.
    pub fn save(&self, file: &mut ExpertsFile, public: &str) -> Result<(), CuratorError> {
        self.here()?;
        if self.insecure {
            return Err(unusable(
                "a session with an insecure seed would draw the same randomness again after a restart; leave the \
                 seed out"
                    .into(),
            ));
        }
        let saved = self.saved().ok_or_else(|| {
            unusable("a noisy leader cannot be saved, since its noise must never be stored; use lean or fresh".into())
        })?;
        file.write(saved, public)
    }

    /// What a session file holds of it; `None` for a noisy leader, whose noise is never written down.
    pub(crate) fn saved(&self) -> Option<SavedExperts> {
        self.learner.saved(self.round, self.chosen)
    }

    fn show(&self) {
        if let Some(seen) = &self.seen {
            seen.push(&[self.chosen as f64]);
        }
    }
}

#[cfg(test)]
#[path = "experts_tests.rs"]
mod tests;
