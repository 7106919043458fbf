//! One of d experts, chosen anew at the end of every block from the losses of that block alone: each loss enters one choice, and all of
//! them together are pure ε (docs/proofs/online-experts.md, blocks).

use super::experts::{ExpertPlays, LABEL, Learner, ONE, add, check_shape, draw, range_of, unusable};
use super::experts_file::{BlockShape, SavedExperts, SavedShape};
use dpopt_draws::ExponentialChoice;
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Interactive, InteractiveStart, SamplerError};
use dpopt_noise::Stream;
use dpopt_privacy::{Event, Relation};

/// Largest number of blocks.
const MAX_BLOCKS: usize = 1 << 16;

/// The public numbers of a choice by blocks. The event is made of these very numbers: *one* choice, however many blocks there are.
///
/// ```
/// use dpopt_mechanism::{BlockExperts, Interactive};
/// use dpopt_privacy::{Relation, accountant};
/// let plan = BlockExperts::new(10, 1000, vec![30, 90, 300], 0.5, 1, Relation::ReplaceOne)?;
/// let spent = accountant::epsilon(&plan.event(), Relation::ReplaceOne, 0.0).unwrap();
/// assert!((spent.upper - 1.0).abs() < 1e-12);
/// # Ok::<(), dpopt_mechanism::CuratorError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockExperts {
    shape: BlockShape,
    choice: ExponentialChoice,
    resumed: Option<SavedExperts>,
}

impl BlockExperts {
    /// `experts` ≥ 2 over `rounds` rounds in blocks that end after the rounds `ends`, and the last of them with the last round: at each of these
    /// ends an expert is drawn ∝ e^(−`learning_rate`·its losses in that block) for the next one. Between neighbours that differ in
    /// `rounds_per_user` rounds.
    ///
    /// # Errors
    /// If a number is out of range, ends do not increase, or rounds may be added or removed, which would move all later ones to other blocks.
    pub fn new(
        experts: usize,
        rounds: u64,
        ends: Vec<u64>,
        learning_rate: f64,
        rounds_per_user: u64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        check_shape(experts, rounds, rounds_per_user, relation)?;
        let increasing = ends.windows(2).all(|pair| pair[0] < pair[1]);
        let within = ends.first().is_some_and(|first| *first > 0) && ends.last().is_some_and(|last| *last < rounds);
        if !increasing || !within || ends.len() > MAX_BLOCKS {
            return Err(unusable(format!(
                "the ends of the blocks are out of range; give 1 to {MAX_BLOCKS} increasing numbers of rounds below \
                 {rounds}"
            )));
        }
        let choice = ExponentialChoice::new(range_of(relation, learning_rate), ONE, relation == Relation::ZeroOut)
            .map_err(|_| {
                unusable(format!("the learning rate is {learning_rate:e}; give a number from 1.5e-8 to 1e8"))
            })?;
        let shape = BlockShape { experts, rounds, ends, learning_rate, rounds_per_user, relation };
        Ok(Self { shape, choice, resumed: None })
    }

    /// Continues the choice that was saved, from where it ended.
    ///
    /// # Errors
    /// If that was another choice.
    pub fn resumed(self, saved: SavedExperts) -> Result<Self, CuratorError> {
        saved.of(&SavedShape::Blocks(self.shape.clone()))?;
        Ok(Self { resumed: Some(saved), ..self })
    }
}

impl Sealed for BlockExperts {}

impl Interactive for BlockExperts {
    type Opened = ExpertPlays;

    fn event(&self) -> Event {
        let range = range_of(self.shape.relation, self.shape.learning_rate);
        match self.shape.rounds_per_user {
            1 => Event::ExponentialMechanism { epsilon: range },
            // in several choices: ranges of these do not add up to a range, ε do
            k => Event::PureStream { epsilon: (k as f64 * range).next_up() },
        }
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(SamplerError::fine(self.shape.ends.len() as f64 * (self.shape.experts as f64 + 1.0)).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.shape.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<ExpertPlays, CuratorError> {
        let (experts, rounds) = (self.shape.experts, self.shape.rounds);
        let current = self.resumed.as_ref().map_or_else(|| vec![0; experts], |saved| saved.current.clone());
        let learner = OfBlocks { plan: self.clone(), current };
        ExpertPlays::chosen_at_random((experts, rounds), self.resumed.as_ref(), Box::new(learner), opening)
    }
}

struct OfBlocks {
    plan: BlockExperts,
    /// Losses of the block that is under way: forgotten when an expert is drawn from them.
    current: Vec<i64>,
}

impl Learner for OfBlocks {
    fn told(
        &mut self,
        round: u64,
        losses: &[u32],
        chosen: usize,
        coins: &mut Stream,
    ) -> Result<Option<usize>, CuratorError> {
        add(&mut self.current, losses);
        if self.plan.shape.ends.binary_search(&round).is_err() {
            return Ok(None);
        }
        let experts = self.current.len();
        let block = std::mem::replace(&mut self.current, vec![0; experts]);
        // there are experts
        Ok(Some(draw(&self.plan.choice, &block, coins).unwrap_or(chosen)))
    }

    fn saved(&self, round: u64, chosen: usize) -> Option<SavedExperts> {
        let shape = SavedShape::Blocks(self.plan.shape.clone());
        Some(SavedExperts { shape, round, chosen, total: Vec::new(), current: self.current.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RoundLosses;
    use crate::choices::experts_file::ExpertsFile;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::accountant;

    fn plan(ends: &[u64], rate: f64, relation: Relation) -> BlockExperts {
        BlockExperts::new(3, 12, ends.to_vec(), rate, 1, relation).unwrap()
    }

    fn opened(plan: &BlockExperts, noise: NoiseSource) -> ExpertPlays {
        uncharged(&plan.event(), noise).open(plan).unwrap()
    }

    #[test]
    fn any_number_of_blocks_costs_one_choice() {
        for (relation, one) in [(Relation::ZeroOut, 0.25), (Relation::ReplaceOne, 0.5)] {
            for (k, ends) in [(1, vec![1]), (1, vec![1, 2, 5, 9]), (3, vec![1, 2, 5, 9])] {
                let event = BlockExperts::new(3, 12, ends, 0.25, k, relation).unwrap().event();
                let (spent, expected) = (accountant::epsilon(&event, relation, 0.0).unwrap().upper, one * k as f64);
                assert!(spent >= expected && spent < expected * (1.0 + 1e-12), "{spent}");
            }
        }
    }

    /// d = 3, blocks that end after rounds 2 and 5: the law of both draws, over 100000 games, is that of the exponential mechanism of the losses
    /// of each block alone; each chi-square has a false-alarm rate of 1e-6 (quantile 27.6 of two degrees).
    #[test]
    fn an_expert_is_drawn_from_its_block_alone() {
        const LOSSES: [[f64; 3]; 6] =
            [[1.0, 0.0, 0.5], [1.0, 0.25, 0.5], [0.0, 1.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.5, 0.0], [1.0, 0.0, 0.0]];
        let law = |rounds: std::ops::Range<usize>| {
            let sums = [0, 1, 2].map(|j| LOSSES[rounds.clone()].iter().map(|l| l[j]).sum::<f64>());
            let weights = sums.map(|sum: f64| (-0.7 * sum).exp());
            weights.map(|w| w / weights.iter().sum::<f64>())
        };
        let plan = plan(&[2, 5], 0.7, Relation::ReplaceOne);
        let rounds: Vec<_> = LOSSES.iter().map(|l| RoundLosses::of(l).unwrap()).collect();
        let mut counts = [[0.0; 3]; 3];
        for seed in 0..100_000 {
            let mut plays = opened(&plan, NoiseSource::insecure(seed));
            counts[0][*plays.play().unwrap().get()] += 1.0;
            for (t, losses) in rounds.iter().enumerate() {
                let before = *plays.play().unwrap().get();
                plays.observe(losses).unwrap();
                let now = *plays.play().unwrap().get();
                match t {
                    1 => counts[1][now] += 1.0,
                    4 => counts[2][now] += 1.0,
                    _ => assert_eq!(before, now, "round {t}"),
                }
            }
        }
        for (counts, law) in counts.iter().zip([[1.0 / 3.0; 3], law(0..2), law(2..5)]) {
            let square: f64 = counts.iter().zip(law).map(|(n, p)| (n - 1e5 * p).powi(2) / (1e5 * p)).sum();
            assert!(square < 27.6, "{square}: {counts:?}");
        }
    }

    /// The law of all plays of every game of four rounds with losses in {0, 1}² and a block after each round, by enumeration: the largest ε over
    /// all pairs that differ in one round is what is claimed, in the limit of many experts; of two it is ln of a ratio below it.
    #[test]
    fn the_exact_law_of_small_games_stays_below_the_claim() {
        let rate = 0.4f64;
        // losses of round t: two bits; P(x_1..x_4), the last round decides nothing
        let law = |sequence: u32| -> Vec<f64> {
            let of = |t: usize, x: usize| (-rate * f64::from((sequence >> (2 * t + x)) & 1)).exp();
            let drawn = |t: usize, x: usize| of(t, x) / (of(t, 0) + of(t, 1));
            (0..16usize).map(|path| 0.5 * (1..4).map(|t| drawn(t - 1, (path >> t) & 1)).product::<f64>()).collect()
        };
        let laws: Vec<Vec<f64>> = (0..64).map(law).collect();
        let mut most = 0.0f64;
        for (a, with) in laws.iter().enumerate() {
            for (round, change) in (0..3).flat_map(|round| (1..4).map(move |change| (round, change))) {
                let without = &laws[a ^ (change << (2 * round))];
                most = with.iter().zip(without).fold(most, |most, (x, y)| most.max((x / y).ln()));
            }
        }
        let event = BlockExperts::new(2, 4, vec![1, 2, 3], rate, 1, Relation::ReplaceOne).unwrap().event();
        let claimed = accountant::epsilon(&event, Relation::ReplaceOne, 0.0).unwrap().upper;
        // two experts: e^(±rate) against each other, ln((1 + e^rate)/(1 + e^−rate)) = rate
        assert!(
            (most - rate).abs() < 1e-12 && claimed >= 2.0 * rate && claimed < 2.0 * rate + 1e-9,
            "{most} {claimed}"
        );
    }

    #[test]
    fn refused_plans() {
        let new = |ends: &[u64], rate, k, relation| BlockExperts::new(3, 12, ends.to_vec(), rate, k, relation).is_err();
        let zero = Relation::ZeroOut;
        assert!(!new(&[1, 11], 0.1, 12, zero));
        for ends in [&[][..], &[0], &[12], &[3, 3], &[4, 3]] {
            assert!(new(ends, 0.1, 1, zero), "{ends:?}");
        }
        assert!(new(&[1], 0.0, 1, zero) && new(&[1], f64::NAN, 1, zero) && new(&[1], 0.1, 0, zero));
        assert!(new(&[1], 0.1, 13, zero) && new(&[1], 0.1, 1, Relation::AddOrRemove));
    }

    /// Saved in the middle of a block and after a draw: it goes on with what it knew, and from what was drawn from nothing is left.
    #[test]
    fn a_session_keeps_the_block_that_is_under_way_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        let plan = plan(&[2, 5], 50.0, Relation::ZeroOut);
        let told =
            |plays: &mut ExpertPlays, losses: [f64; 3]| plays.observe(&RoundLosses::of(&losses).unwrap()).unwrap();
        let mut plays = opened(&plan, NoiseSource::secure().unwrap());
        let mut file = ExpertsFile::create(&path).unwrap();
        told(&mut plays, [1.0, 1.0, 0.0]);
        plays.save(&mut file, "").unwrap();
        drop((plays, file));
        let (mut file, saved, _) = ExpertsFile::open(&path).unwrap();
        let mut plays = opened(&plan.clone().resumed(saved).unwrap(), NoiseSource::secure().unwrap());
        told(&mut plays, [1.0, 1.0, 0.0]);
        // at a rate of 50 two losses decide but for 8e-44, and three below but for 6e-65
        assert_eq!(*plays.play().unwrap().get(), 2);
        plays.save(&mut file, "").unwrap();
        drop((plays, file));
        let (_file, saved, _) = ExpertsFile::open(&path).unwrap();
        assert!(saved.current.iter().all(|sum| *sum == 0) && saved.total.is_empty());
        let other = BlockExperts::new(3, 12, vec![2, 6], 50.0, 1, Relation::ZeroOut).unwrap();
        assert!(other.resumed(saved.clone()).is_err());
        let resumed = plan.clone().resumed(saved).unwrap();
        assert!(uncharged(&plan.event(), NoiseSource::insecure(1)).open(&resumed).is_err());
        let mut plays = opened(&resumed, NoiseSource::secure().unwrap());
        assert_eq!(*plays.play().unwrap().get(), 2);
        for _ in 0..3 {
            told(&mut plays, [0.0, 1.0, 1.0]);
        }
        assert_eq!(*plays.play().unwrap().get(), 0);
    }
}
