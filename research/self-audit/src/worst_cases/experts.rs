//! Worst pairs of choices among experts: one round that speaks for another expert.

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{BlockExperts, Interactive, LazyExperts, NoisyLeader, RoundLosses, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Relation;

/// Rounds of the small game whose law is enumerated.
pub(crate) const ROUNDS: usize = 6;
const RATE: f64 = 0.3;
const FRESH: f64 = 0.3;

/// Two experts, six rounds, no batches, η = p = .3.
pub(crate) fn small_game() -> Result<LazyExperts, String> {
    LazyExperts::new(2, ROUNDS as u64, 1, RATE, FRESH, 1, Relation::ReplaceOne).map_err(|e| e.to_string())
}

/// Two experts and a leader that is followed for six rounds through noise of standard deviation 2.
pub(crate) fn small_leader() -> Result<NoisyLeader, String> {
    NoisyLeader::new(2, ROUNDS as u64, 2.0, 1, Relation::ReplaceOne).map_err(|e| e.to_string())
}

/// The first round speaks against one expert or the other, the rest says nothing.
pub(crate) fn one_round(with: bool) -> Vec<[f64; 2]> {
    let mut losses = vec![[0.0; 2]; ROUNDS];
    losses[0] = if with { [1.0, 0.0] } else { [0.0, 1.0] };
    losses
}

/// Who plays in each round of a game with these losses, through the shipped mechanism; empty if it is refused.
pub(crate) fn played<M: Interactive<Opened = dpopt_mechanism::ExpertPlays>>(
    mechanism: &M,
    losses: &[impl AsRef<[f64]>],
    draws: &mut Draws,
) -> Vec<usize> {
    let mut curator = past_the_curator::uncharged(&mechanism.event(), NoiseSource::insecure(draws.word()));
    let Ok(mut plays) = curator.open(mechanism) else { return Vec::new() };
    let mut all = Vec::with_capacity(losses.len());
    for round in losses {
        let (Ok(play), Ok(losses)) = (plays.play(), RoundLosses::of(round.as_ref())) else { return Vec::new() };
        all.push(*play.get());
        if plays.observe(&losses).is_err() {
            return Vec::new();
        }
    }
    all
}

/// P of the plays of the [small game](small_game), exactly.
pub(crate) fn probability(plays: &[usize], losses: &[[f64; 2]]) -> f64 {
    let mut sums = [0.0; 2];
    let mut mass = 0.5;
    for t in 1..plays.len() {
        (0..2).for_each(|x| sums[x] += losses[t - 1][x]);
        let weights = sums.map(|sum| (-RATE * sum).exp());
        let keep = (1.0 - FRESH) * (-RATE * losses[t - 1][plays[t - 1]]).exp();
        let kept = if plays[t] == plays[t - 1] { keep } else { 0.0 };
        mass *= kept + (1.0 - keep) * weights[plays[t]] / (weights[0] + weights[1]);
    }
    mass
}

/// A game whose only draw comes after one batch of all rounds but the last: `others` experts beside the first.
pub(crate) fn one_draw(experts: usize, batch: u64, rate: f64) -> Result<LazyExperts, String> {
    LazyExperts::new(experts, batch + 1, batch, rate, 1.0, 1, Relation::ReplaceOne).map_err(|e| e.to_string())
}

/// Who plays the last round of such a game, whose earlier rounds tell `losses`; `None` if it is refused.
pub(crate) fn drawn(mechanism: &LazyExperts, losses: &[Vec<f64>], draws: &mut Draws) -> Option<usize> {
    let mut all: Vec<Vec<f64>> = losses.to_vec();
    all.push(vec![0.0; losses.first()?.len()]);
    played(mechanism, &all, draws).last().copied()
}

/// One round in which the first expert alone loses, or all others do.
pub(crate) fn against_one(experts: usize, with: bool) -> Vec<Vec<f64>> {
    let own = f64::from(u8::from(!with));
    let mut losses = vec![1.0 - own; experts];
    losses[0] = own;
    vec![losses]
}

/// Blocks of one round each, so many of them before the last: every round decides who plays the next.
pub(crate) fn rounds_as_blocks(experts: usize, blocks: u64, rate: f64) -> Result<BlockExperts, String> {
    BlockExperts::new(experts, blocks + 1, (1..=blocks).collect(), rate, 1, Relation::ReplaceOne)
        .map_err(|e| e.to_string())
}

/// [One round](against_one), and others that tell nothing.
pub(crate) fn against_one_first(experts: usize, rounds: usize, with: bool) -> Vec<Vec<f64>> {
    let mut losses = against_one(experts, with);
    losses.resize(rounds, vec![0.0; experts]);
    losses
}
