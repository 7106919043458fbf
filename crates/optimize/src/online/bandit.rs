//! One of K arms in every round of T, where only the reward of the arm that was played is told: successive elimination in batches, each
//! with rewards and noise of its own (Sajed and Sheffet 2019; proofs: docs/proofs/online-bandit.md).
//!
//! Every reward is in one noisy sum, so that all of them together cost what one does: pure ε.

use dpopt_mechanism::{
    Curator, CuratorError, FreshSums, Interactive, NotApplicable, OpenSums, RoundLosses, SamplerError, SavedSums,
    Sensitive, SumsFile,
};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, calibrate, certify};
use serde::{Deserialize, Serialize};

/// Public facts of a game: all of them fixed before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    budget: Budget,
    epsilon: f64,
    door: FreshSums,
}

/// A plan as a session file keeps it: public. The guarantee is accounted anew when it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptBandit {
    /// What was planned for.
    pub problem: BanditProblem,
    /// What all plays may cost.
    pub budget: Budget,
    epsilon: f64,
    phases: Vec<u64>,
    regret_bound: f64,
}

/// Where a game stands, all of it made of what was released: what a [session](BanditPlays::save) needs beside the sum that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanditStanding {
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

    fn door(&self, epsilon: f64) -> Result<FreshSums, CuratorError> {
        // a round may close a sum at most
        let sums = self.rounds.min(self.arms as u64 * 64);
        FreshSums::new(self.rounds, sums, epsilon, self.rounds_per_user, self.neighbours.relation)
    }

    fn event(&self, epsilon: f64, budget: Budget) -> Result<Event, CuratorError> {
        let door = self.door(epsilon)?;
        Ok(SamplerError::proved(door.sampler_error()?).paid(door.event(), budget.delta()))
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
    // what can't be made costs more than any budget
    let impossible = |_| Event::PureStream { epsilon: f64::MAX };
    let (epsilon, _) = calibrate::cost(|epsilon| problem.event(epsilon, budget).unwrap_or_else(impossible), terms)?;
    let (door, event) = (problem.door(epsilon), problem.event(epsilon, budget));
    let of_curator = |error: CuratorError| NotApplicable::Problem(error.to_string());
    let (door, certificate) = (door.map_err(of_curator)?, certify(&event.map_err(of_curator)?, terms)?);
    let noise_scale = 1.0 / door.epsilon_of_a_round();
    let phases = problem.phases(noise_scale);
    let regret_bound = problem.bound(&phases).min(problem.rounds as f64);
    Ok(BanditPlan { problem: *problem, regret_bound, phases, noise_scale, certificate, budget, epsilon, door })
}

impl BanditPlan {
    /// Charges `curator` with the whole game.
    ///
    /// # Errors
    /// If its certificate is of another plan.
    pub fn open(&self, curator: &mut Curator) -> Result<BanditPlays, CuratorError> {
        let standing =
            BanditStanding { left: (0..self.problem.arms).collect(), means: Vec::new(), phase: 0, pulled: 0, round: 0 };
        Ok(BanditPlays { sums: curator.open(&self.door)?, standing, plan: self.clone() })
    }

    /// What a session file keeps of it.
    pub fn kept(&self) -> KeptBandit {
        KeptBandit {
            problem: self.problem,
            budget: self.budget,
            epsilon: self.epsilon,
            phases: self.phases.clone(),
            regret_bound: self.regret_bound,
        }
    }

    /// The plan that was kept.
    ///
    /// # Errors
    /// If its sums are not certified within its budget.
    pub fn of_kept(kept: KeptBandit) -> Result<Self, NotApplicable> {
        let KeptBandit { problem, budget, epsilon, phases, regret_bound } = kept;
        problem.check()?;
        let of_curator = |error: CuratorError| NotApplicable::Problem(error.to_string());
        let door = problem.door(epsilon).map_err(of_curator)?;
        let certificate =
            certify(&problem.event(epsilon, budget).map_err(of_curator)?, problem.neighbours.within(budget))?;
        let noise_scale = 1.0 / door.epsilon_of_a_round();
        Ok(Self { problem, regret_bound, phases, noise_scale, certificate, budget, epsilon, door })
    }

    /// Goes on where `saved` and `standing` ended, under a certificate of the same plan: what it costs was charged when it was opened.
    ///
    /// # Errors
    /// If these are of another plan.
    pub fn resume(
        &self,
        curator: &mut Curator,
        saved: SavedSums,
        standing: BanditStanding,
    ) -> Result<BanditPlays, CuratorError> {
        let known = |arm: &usize| *arm < self.problem.arms;
        let sound = !standing.left.is_empty()
            && standing.left.iter().all(known)
            && standing.means.len() < standing.left.len()
            && standing.round <= self.problem.rounds;
        if !sound {
            return Err(CuratorError::Unusable("the session is damaged; nothing is resumed from it".into()));
        }
        let sums = curator.open(&self.door.clone().resumed(saved)?)?;
        Ok(BanditPlays { sums, standing, plan: self.clone() })
    }
}

/// A game that is under way. Neither printable nor cloneable: its noise is spent once.
pub struct BanditPlays {
    plan: BanditPlan,
    sums: OpenSums,
    standing: BanditStanding,
}

impl BanditPlays {
    /// The arm of the coming round, from 0; `None` after the last. Asking again gives the same.
    pub fn play(&self) -> Option<usize> {
        let arm = if self.standing.left.len() == 1 { 0 } else { self.standing.means.len() };
        (self.standing.round < self.plan.problem.rounds).then(|| self.standing.left.get(arm).copied()).flatten()
    }

    /// Takes the reward of the arm that was played, one number in \[0, 1\] (clamped).
    ///
    /// # Errors
    /// After the last round, for another number of rewards, or in a forked process: nothing has changed then.
    pub fn observe(&mut self, reward: &Sensitive<RoundLosses>) -> Result<(), CuratorError> {
        if self.standing.round == self.plan.problem.rounds {
            return Err(CuratorError::Unforeseen { label: "plays" });
        }
        // the last arm is played whatever it gives
        if self.standing.left.len() > 1 {
            self.sums.add(reward)?;
            self.standing.pulled += 1;
        }
        self.standing.round += 1;
        let batch = self.plan.phases.get(self.standing.phase).copied().unwrap_or(u64::MAX);
        if self.standing.left.len() > 1 && self.standing.pulled == batch {
            self.standing.means.push(*self.sums.close()?.get() / batch as f64);
            self.standing.pulled = 0;
            if self.standing.means.len() == self.standing.left.len() {
                self.eliminate();
            }
        }
        Ok(())
    }

    /// Leaves arms whose noisy mean is half a gap below the largest.
    fn eliminate(&mut self) {
        self.standing.phase += 1;
        let largest = self.standing.means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let near = largest - gap(self.standing.phase) / 2.0;
        let means = std::mem::take(&mut self.standing.means);
        let mut means = means.iter();
        self.standing.left.retain(|_| means.next().is_some_and(|mean| *mean >= near));
    }

    /// Rounds observed so far.
    pub fn observed(&self) -> u64 {
        self.standing.round
    }

    /// Arms that may still be the best: made of released values.
    pub fn left(&self) -> &[usize] {
        &self.standing.left
    }

    /// Writes all of it to `file`, synced, with whatever is public of it in `public`: call it before anything is shown that was decided since the
    /// last time. `public` is made of where the game stands.
    ///
    /// # Errors
    /// As [`OpenSums::save`].
    pub fn save(
        &self,
        file: &mut SumsFile,
        public: impl FnOnce(&BanditStanding) -> Result<String, CuratorError>,
    ) -> Result<(), CuratorError> {
        self.sums.save(file, &public(&self.standing)?)
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
