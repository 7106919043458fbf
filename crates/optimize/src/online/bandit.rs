//! One of K arms in every round of T, where only the reward of the arm that was played is told: successive elimination in batches, each
//! with rewards and noise of its own (Sajed and Sheffet 2019; proofs: docs/proofs/online-bandit.md).
//!
//! Every reward is in one noisy sum, so that all of them together cost what one does: pure ε.

use dpopt_mechanism::{
    Curator, CuratorError, FreshSums, Interactive, NotApplicable, OpenSums, RoundLosses, SamplerError, Sensitive,
};
use dpopt_privacy::{Budget, Certificate, Neighbours, Relation, calibrate, certify};

/// Public facts of a game: all of them fixed before the first round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BanditProblem {
    /// K ≥ 2.
    pub arms: usize,
    /// T ≥ 2: no more rounds are ever played.
    pub rounds: u64,
    /// Rounds that one user may be in: all of them are protected together.
    pub rounds_per_user: u64,
    /// Which sequences of rewards are neighbours; add-or-remove is refused.
    pub neighbours: Neighbours,
}

/// A certified plan.
#[derive(Clone, Debug)]
pub struct BanditPlan {
    /// What was planned for.
    pub problem: BanditProblem,
    /// Expected regret at most, whatever the arms' means are, for rewards that are drawn independently.
    pub regret_bound: f64,
    /// R_e: rounds that each arm that is left has in a phase; the sums of later phases are never closed.
    pub phases: Vec<u64>,
    /// Scale of the noise of a sum: rewards lie in \[0, 1\].
    pub noise_scale: f64,
    /// All plays together.
    pub certificate: Certificate,
    door: FreshSums,
}

const MOST_ROUNDS: u64 = 1 << 38;
const MOST_ARMS: usize = 1 << 20;

impl BanditProblem {
    fn check(&self) -> Result<(), NotApplicable> {
        let refuse = |text: String| Err(NotApplicable::Problem(text));
        if !(2..=MOST_ARMS).contains(&self.arms) {
            return refuse(format!("there are {} arms; give 2 to {MOST_ARMS}", self.arms));
        }
        if !(2..=MOST_ROUNDS).contains(&self.rounds) {
            return refuse(format!("there are {} rounds; give 2 to {MOST_ROUNDS}", self.rounds));
        }
        if self.rounds_per_user == 0 || self.rounds_per_user > self.rounds {
            return refuse(format!(
                "a user is in {} of {} rounds; give 1 to {}",
                self.rounds_per_user, self.rounds, self.rounds
            ));
        }
        if self.neighbours.relation == Relation::AddOrRemove {
            return refuse(
                "adding or removing a round moves all later ones; use zero-out or replace-one, where the number of rounds is public".into(),
            );
        }
        Ok(())
    }

    /// ln(4/β_e), β_e = 1/(T·K·e(e + 1)): each of two ways in which a mean is off has probability β_e/2.
    fn log_term(&self, phase: usize) -> f64 {
        let (e, k, t) = (phase as f64, self.arms as f64, self.rounds as f64);
        (4.0 * t * k * e * (e + 1.0)).ln()
    }

    /// R_e: the least for which √(ln(4/β_e)/(2R)) + scale·ln(4/β_e)/R + 2^-25 ≤ 2^-e/4, rounded up.
    fn batch(&self, phase: usize, scale: f64) -> u64 {
        let (log, wanted) = (self.log_term(phase), gap(phase) / 4.0 - 2f64.powi(-25));
        if wanted <= 0.0 {
            return u64::MAX;
        }
        // of x = 1/√R: scale·log·x² + √(log/2)·x = wanted
        let (a, b) = (scale * log, (log / 2.0).sqrt());
        let x = 2.0 * wanted / (b + (b * b + 4.0 * a * wanted).sqrt());
        let rounds = (1.0 / (x * x)) * (1.0 + 1e-9);
        if rounds < 2f64.powi(60) { rounds.ceil() as u64 + 1 } else { u64::MAX }
    }

    /// The phases that T rounds may reach, of however few arms.
    fn phases(&self, scale: f64) -> Vec<u64> {
        let (mut phases, mut used) = (Vec::new(), 0u64);
        for phase in 1..64 {
            let batch = self.batch(phase, scale);
            // two arms are left at least, or nothing is asked
            used = used.saturating_add(batch.saturating_mul(2));
            phases.push(batch);
            if used >= self.rounds {
                break;
            }
        }
        phases
    }

    /// Σ over phases of K·R_e·2^(1−e), cut at T, and 1 for the sums that are farther off than they should be.
    fn bound(&self, phases: &[u64]) -> f64 {
        let (mut left, mut lost) = (self.rounds, 1.0 + self.rounds as f64 * 2f64.powi(-24));
        for (before, batch) in phases.iter().enumerate() {
            let played = batch.saturating_mul(self.arms as u64).min(left);
            // in the first phase any gap is possible; fewer arms are in a later phase at the same round
            lost += played as f64 * gap(before);
            left -= played;
        }
        lost + left as f64 * gap(phases.len())
    }
}

/// 2^-e: after phase e only arms are left whose means are within it of the best.
fn gap(phase: usize) -> f64 {
    0.5f64.powi(phase as i32)
}

/// The plan for a budget.
///
/// ```
/// use dpopt_optimize::online::{BanditProblem, plan_bandit};
/// use dpopt_privacy::{Budget, Neighbours, Relation};
/// let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
/// let problem = BanditProblem { arms: 5, rounds: 100_000, rounds_per_user: 1, neighbours };
/// let plan = plan_bandit(&problem, Budget::new(1.0, 0.0).unwrap())?;
/// assert!((plan.noise_scale - 1.0).abs() < 1e-6 && plan.regret_bound < 0.3 * 100_000.0);
/// # Ok::<(), dpopt_mechanism::NotApplicable>(())
/// ```
///
/// # Errors
/// If the facts are out of range, or nothing is certified within the budget.
pub fn plan_bandit(problem: &BanditProblem, budget: Budget) -> Result<BanditPlan, NotApplicable> {
    problem.check()?;
    let terms = problem.neighbours.within(budget);
    let door = |epsilon: f64| {
        // a round may close a sum at most
        let sums = problem.rounds.min(problem.arms as u64 * 64);
        FreshSums::new(problem.rounds, sums, epsilon, problem.rounds_per_user, problem.neighbours.relation)
    };
    let event = |epsilon: f64| match door(epsilon).and_then(|door| Ok((door.sampler_error()?, door.event()))) {
        Ok((error, event)) => SamplerError::proved(error).paid(event, budget.delta()),
        Err(_) => dpopt_privacy::Event::PureStream { epsilon: f64::MAX },
    };
    let (epsilon, _) = calibrate::cost(event, terms)?;
    let certificate = certify(&event(epsilon), terms)?;
    let door = door(epsilon).map_err(|error: CuratorError| NotApplicable::Problem(error.to_string()))?;
    let noise_scale = 1.0 / door.epsilon_of_a_round();
    let phases = problem.phases(noise_scale);
    let regret_bound = problem.bound(&phases).min(problem.rounds as f64);
    Ok(BanditPlan { problem: *problem, regret_bound, phases, noise_scale, certificate, door })
}

impl BanditPlan {
    /// Charges `curator` with the whole game.
    ///
    /// # Errors
    /// If its certificate is of another plan.
    pub fn open(&self, curator: &mut Curator) -> Result<BanditPlays, CuratorError> {
        Ok(BanditPlays {
            sums: curator.open(&self.door)?,
            left: (0..self.problem.arms).collect(),
            means: Vec::new(),
            phase: 0,
            pulled: 0,
            round: 0,
            plan: self.clone(),
        })
    }
}

/// A game that is under way. Neither printable nor cloneable: its noise is spent once.
pub struct BanditPlays {
    plan: BanditPlan,
    sums: OpenSums,
    /// Arms that may be the best.
    left: Vec<usize>,
    /// Noisy means of the phase that is under way, of the first of these.
    means: Vec<f64>,
    /// Phases that are over.
    phase: usize,
    /// Rounds of the sum that is under way.
    pulled: u64,
    /// Rounds observed.
    round: u64,
}

impl BanditPlays {
    /// The arm of the coming round, from 0; `None` after the last. Asking again gives the same.
    pub fn play(&self) -> Option<usize> {
        let arm = if self.left.len() == 1 { 0 } else { self.means.len() };
        (self.round < self.plan.problem.rounds).then(|| self.left.get(arm).copied()).flatten()
    }

    /// Takes the reward of the arm that was played, one number in \[0, 1\] (clamped).
    ///
    /// # Errors
    /// After the last round, for another number of rewards, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, reward: &Sensitive<RoundLosses>) -> Result<(), CuratorError> {
        if self.round == self.plan.problem.rounds {
            return Err(CuratorError::Unforeseen { label: "plays" });
        }
        // the last arm is played whatever it gives
        if self.left.len() > 1 {
            self.sums.add(reward)?;
            self.pulled += 1;
        }
        self.round += 1;
        let batch = self.plan.phases.get(self.phase).copied().unwrap_or(u64::MAX);
        if self.left.len() > 1 && self.pulled == batch {
            self.means.push(*self.sums.close()?.get() / batch as f64);
            self.pulled = 0;
            if self.means.len() == self.left.len() {
                self.eliminate();
            }
        }
        Ok(())
    }

    /// Leaves arms whose noisy mean is half a gap below the largest.
    fn eliminate(&mut self) {
        self.phase += 1;
        let largest = self.means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let near = largest - gap(self.phase) / 2.0;
        let means = std::mem::take(&mut self.means);
        let mut means = means.iter();
        self.left.retain(|_| means.next().is_some_and(|mean| *mean >= near));
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.round
    }

    /// Arms that may still be the best: made of released values.
    pub fn left(&self) -> &[usize] {
        &self.left
    }

    /// What was planned.
    pub fn plan(&self) -> &BanditPlan {
        &self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    fn problem(arms: usize, rounds: u64) -> BanditProblem {
        let neighbours = Neighbours::of_rounds(Relation::ReplaceOne);
        BanditProblem { arms, rounds, rounds_per_user: 1, neighbours }
    }

    fn plan(arms: usize, rounds: u64, epsilon: f64) -> BanditPlan {
        plan_bandit(&problem(arms, rounds), Budget::new(epsilon, 0.0).unwrap()).unwrap()
    }

    /// Pseudo-regret of a game with these means, and how many rounds the best arm had.
    fn game(plan: &BanditPlan, means: &[f64], seed: u64) -> (f64, u64) {
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
        let mut game = plan.open(&mut curator).unwrap();
        let mut coins = NoiseSource::insecure(seed + 1000).stream(Purpose::Other(0), 0);
        let best = means.iter().copied().fold(0.0, f64::max);
        let (mut lost, mut right) = (0.0, 0);
        while let Some(arm) = game.play() {
            lost += best - means[arm];
            right += u64::from(means[arm] == best);
            let reward = f64::from(u8::from(coins.uniform() < means[arm]));
            game.observe(&RoundLosses::of(&[reward]).unwrap()).unwrap();
        }
        assert!(game.observe(&RoundLosses::of(&[0.0]).unwrap()).is_err());
        (lost, right)
    }

    #[test]
    fn regret_is_below_its_bound_and_the_best_arm_is_found() {
        for epsilon in [0.2, 5.0] {
            let plan = plan(4, 60_000, epsilon);
            for means in [[0.9, 0.1, 0.2, 0.3], [0.5, 0.5, 0.5, 0.6], [0.2, 0.7, 0.7, 0.7]] {
                let games: Vec<(f64, u64)> = (0..10).map(|seed| game(&plan, &means, seed)).collect();
                let mean = games.iter().map(|g| g.0).sum::<f64>() / 10.0;
                assert!(mean < plan.regret_bound, "{epsilon} {means:?}: {mean} {}", plan.regret_bound);
                if means[0] == 0.9 {
                    assert!(games.iter().all(|g| g.1 > 50_000), "{games:?}");
                }
            }
        }
    }

    /// R_e is the least number whose two tails fit, to a few rounds.
    #[test]
    fn phases_are_as_long_as_their_tails_ask() {
        let problem = problem(10, 1_000_000);
        for (scale, phase) in [(1.0, 1), (1.0, 4), (100.0, 3)] {
            let (batch, log) = (problem.batch(phase, scale) as f64, problem.log_term(phase));
            let off = |r: f64| (log / (2.0 * r)).sqrt() + scale * log / r + 2f64.powi(-25);
            assert!(off(batch) <= gap(phase) / 4.0 && off(batch - 3.0) > gap(phase) / 4.0, "{batch}");
        }
        let plan = plan(10, 1_000_000, 1.0);
        assert!(plan.phases.windows(2).all(|pair| pair[1] > 2 * pair[0]), "{:?}", plan.phases);
    }

    /// More budget, less regret; what one user has of rounds is paid for.
    #[test]
    fn plans_are_certified_and_grow_with_what_is_asked() {
        let (tight, loose) = (plan(5, 100_000, 0.1), plan(5, 100_000, 10.0));
        assert!(tight.regret_bound > 1.3 * loose.regret_bound && tight.certificate.bound().upper <= 0.1);
        assert!((tight.noise_scale - 10.0).abs() < 1e-4, "{}", tight.noise_scale);
        let five = BanditProblem { rounds_per_user: 5, ..problem(5, 100_000) };
        let five = plan_bandit(&five, Budget::new(10.0, 0.0).unwrap()).unwrap();
        assert!((five.noise_scale - 0.5).abs() < 1e-4, "{}", five.noise_scale);
        let approximate = plan_bandit(&problem(5, 100_000), Budget::new(1.0, 1e-6).unwrap()).unwrap();
        assert!(approximate.certificate.bound().upper <= 1.0);
    }

    #[test]
    fn facts_out_of_range_are_refused() {
        let good = problem(3, 100);
        for bad in [
            BanditProblem { arms: 1, ..good },
            BanditProblem { rounds: 1, ..good },
            BanditProblem { rounds_per_user: 0, ..good },
            BanditProblem { rounds_per_user: 101, ..good },
            BanditProblem { neighbours: Neighbours::of_rounds(Relation::AddOrRemove), ..good },
        ] {
            assert!(plan_bandit(&bad, Budget::new(1.0, 0.0).unwrap()).is_err(), "{bad:?}");
        }
    }
}
