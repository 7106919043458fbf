//! Sums of numbers in \[0, 1\] that come one by one, each in exactly one noisy sum: any number of sums at the price of one
//! (docs/proofs/online-bandit.md).
//!
//! When a sum is closed may depend on everything that was released before. Numbers are clamped and rounded to multiples of 2^-24, sums
//! are integers, and the noise is discrete Laplace.

use super::experts::{FINE, ONE, RoundLosses};
use super::session_file::unusable;
use super::sums_file::{SavedSums, SumsFile, SumsShape};
use dpopt_kernel::beside::{Expose, Sealed, Seen, opened, released};
use dpopt_kernel::{CuratorError, Interactive, InteractiveStart, Released, SamplerError, Sensitive};
use dpopt_noise::{DiscreteLaplace, Grid, Purpose, Stream};
use dpopt_privacy::{Event, Relation};
use dpopt_process::Process;

const LABEL: &str = "sums of rounds";
/// Rounds at most: sums stay far below 2^63.
const MAX_ROUNDS: u64 = 1 << 38;

/// The public numbers of sums that each have rounds of their own. The event is made of these very numbers.
///
/// ```
/// use dpopt_mechanism::{Curator, FreshSums, Interactive, RoundLosses};
/// use dpopt_noise::NoiseSource;
/// use dpopt_privacy::{Budget, Neighbours, Relation, certify};
/// let plan = FreshSums::new(100, 10, 0.5, 1, Relation::ReplaceOne)?;
/// let terms = Neighbours::of_rounds(Relation::ReplaceOne).within(Budget::new(0.5, 0.0)?);
/// let mut curator = Curator::new(&certify(&plan.event(), terms)?, NoiseSource::insecure(1));
/// let mut sums = curator.open(&plan)?;
/// sums.add(&RoundLosses::of(&[0.25])?)?;
/// let noisy = sums.close()?; // 0.25 and noise of scale 2
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FreshSums {
    shape: SumsShape,
    noise: DiscreteLaplace,
    resumed: Option<SavedSums>,
}

impl FreshSums {
    /// At most `releases` sums over `rounds` rounds in all, each with noise of scale 1/`epsilon`, between neighbours that differ in
    /// `rounds_per_user` rounds.
    ///
    /// # Errors
    /// If a number is out of range, or rounds may be added or removed, which would move all later ones to other sums.
    pub fn new(
        rounds: u64,
        releases: u64,
        epsilon: f64,
        rounds_per_user: u64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        if !(1..=MAX_ROUNDS).contains(&rounds) || releases == 0 {
            return Err(CuratorError::Noise(format!("there are {rounds} rounds; give 1 to {MAX_ROUNDS}")));
        }
        if rounds_per_user == 0 || rounds_per_user > rounds {
            return Err(CuratorError::Noise(format!(
                "a user is in {rounds_per_user} of {rounds} rounds; give 1 to {rounds}"
            )));
        }
        if relation == Relation::AddOrRemove {
            return Err(CuratorError::Noise(
                "adding or removing a round moves all later ones to other sums; use zero-out or replace-one".into(),
            ));
        }
        let noise = DiscreteLaplace::with_scale(ONE as f64 / epsilon).map_err(|_| {
            CuratorError::Noise("epsilon of a sum is out of range; give a number from 1.5e-8 to 1e8".into())
        })?;
        Ok(Self { shape: SumsShape { rounds, releases, epsilon, rounds_per_user, relation }, noise, resumed: None })
    }

    /// Continues the sums that were saved, from where they ended.
    ///
    /// # Errors
    /// If these were other sums.
    pub fn resumed(self, saved: SavedSums) -> Result<Self, CuratorError> {
        saved.of(&self.shape)?;
        Ok(Self { resumed: Some(saved), ..self })
    }

    /// ε of one round: a round is in one sum, and moves it by at most 1, whether it is replaced or tells nothing.
    pub fn epsilon_of_a_round(&self) -> f64 {
        // a power of two: exact
        self.noise.decay() * ONE as f64
    }
}

impl Sealed for FreshSums {}

impl Interactive for FreshSums {
    type Opened = OpenSums;

    fn event(&self) -> Event {
        let one = self.epsilon_of_a_round();
        let k = self.shape.rounds_per_user;
        let all = if k == 1 { one } else { (one * k as f64).next_up() };
        Event::PureStream { epsilon: all }
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(SamplerError::fine(self.shape.releases as f64).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.shape.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<OpenSums, CuratorError> {
        let opening = opened(opening);
        let insecure = opening.noise.is_insecure();
        if self.resumed.is_some() && insecure {
            return Err(unusable(
                "a resumed session draws fresh noise and takes no insecure seed; leave it out".into(),
            ));
        }
        let (added, released, sum) =
            self.resumed.as_ref().map_or((0, 0, 0), |saved| (saved.added, saved.released, saved.sum));
        Ok(OpenSums {
            plan: self.clone(),
            added,
            released,
            sum,
            coins: opening.noise.stream(Purpose::Noise, 0),
            insecure,
            process: Process::here(),
            seen: opening.seen,
        })
    }
}

/// Sums that are under way; see [`Curator::open`](crate::Curator::open). Neither printable nor cloneable.
pub struct OpenSums {
    plan: FreshSums,
    added: u64,
    released: u64,
    /// Sum of the rounds since the last release: as sensitive as they are.
    sum: i64,
    coins: Stream,
    insecure: bool,
    /// The process in which it was opened: a forked copy has the same noise to come.
    process: Process,
    /// What was released, where a test or an audit watches the curator.
    seen: Option<Seen>,
}

impl OpenSums {
    /// Whether it was opened in this process.
    ///
    /// # Errors
    /// In a forked one.
    pub fn here(&self) -> Result<(), CuratorError> {
        CuratorError::unless_opened_in(self.process, "game")
    }

    /// Adds the first number of a round to the sum that is under way, and to no other.
    ///
    /// # Errors
    /// After the last round, for a round without a number, or in a forked process: nothing has changed then.
    pub fn add(&mut self, round: &Sensitive<RoundLosses>) -> Result<(), CuratorError> {
        self.here()?;
        let [number] = round.expose().steps() else { return Err(CuratorError::Shape) };
        if self.added == self.plan.shape.rounds {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        self.added += 1;
        self.sum += i64::from(*number);
        Ok(())
    }

    /// The sum with noise; the next begins at 0.
    ///
    /// # Errors
    /// If all planned sums are released, or in a forked process.
    pub fn close(&mut self) -> Result<Released<f64>, CuratorError> {
        self.here()?;
        if self.released == self.plan.shape.releases {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        self.released += 1;
        let noisy = std::mem::take(&mut self.sum).wrapping_add(self.plan.noise.sample(&mut self.coins));
        let noisy = Grid::new(-FINE).to_f64(noisy);
        if let Some(seen) = &self.seen {
            seen.push(&[noisy]);
        }
        Ok(released(noisy))
    }

    /// A uniform number in \[0, 1), which has nothing to do with what was added or with any noise: for plays that are drawn.
    ///
    /// # Errors
    /// In a forked process.
    pub fn coin(&mut self) -> Result<f64, CuratorError> {
        self.here()?;
        Ok(self.coins.uniform())
    }

    /// Writes all of it to `file`, synced: call it before anything is shown that was released since the last time. `public` is kept beside it,
    /// and has to hold whatever of the released is needed again.
    ///
    /// # Errors
    /// If it can't be written, or the noise comes from an insecure seed.
    pub fn save(&self, file: &mut SumsFile, public: &str) -> Result<(), CuratorError> {
        self.here()?;
        if self.insecure {
            return Err(unusable(
                "a session with an insecure seed would draw the same noise again after a restart; leave the seed out"
                    .into(),
            ));
        }
        file.write(&self.saved(), public)
    }

    fn saved(&self) -> SavedSums {
        SavedSums { shape: self.plan.shape, added: self.added, released: self.released, sum: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::accountant;

    fn plan(rounds_per_user: u64) -> FreshSums {
        FreshSums::new(1000, 500, 0.5, rounds_per_user, Relation::ReplaceOne).unwrap()
    }

    fn open(plan: &FreshSums, seed: u64) -> OpenSums {
        uncharged(&plan.event(), NoiseSource::insecure(seed)).open(plan).unwrap()
    }

    fn number(value: f64) -> Sensitive<RoundLosses> {
        RoundLosses::of(&[value]).unwrap()
    }

    #[test]
    fn any_number_of_sums_costs_one() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            for (k, expected) in [(1, 0.5), (3, 1.5)] {
                let event = FreshSums::new(1000, 500, 0.5, k, relation).unwrap().event();
                let spent = accountant::epsilon(&event, relation, 0.0).unwrap().upper;
                assert!(spent >= expected && spent < expected * (1.0 + 1e-12), "{spent}");
            }
        }
    }

    /// The noise is what is left of a sum of known numbers: mean 0, E|X| = scale; and each sum begins at 0.
    #[test]
    fn sums_are_fresh_and_their_noise_is_laplace() {
        let mut sums = open(&plan(1), 3);
        let errors: Vec<f64> = (0..500)
            .map(|i| {
                sums.add(&number(0.25)).unwrap();
                sums.add(&number(if i % 2 == 0 { 7.0 } else { -1.0 })).unwrap();
                sums.close().unwrap().into_inner() - if i % 2 == 0 { 1.25 } else { 0.25 }
            })
            .collect();
        let mean = errors.iter().sum::<f64>() / 500.0;
        let size = errors.iter().map(|e| e.abs()).sum::<f64>() / 500.0;
        // scale 2: standard errors √8/√500 = .13 and 2/√500 = .09; five of each
        assert!(mean.abs() < 0.65 && (size - 2.0).abs() < 0.45, "{mean} {size}");
        assert!(sums.close().is_err() && sums.add(&number(0.0)).is_err(), "all is used up");
    }

    /// Killed in a sum: it goes on with the exact sum and noise of its own; and no second noise is drawn for a sum that was closed and saved.
    #[test]
    fn a_session_keeps_the_sum_that_is_under_way_and_draws_fresh_noise() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session");
        // a scale of 1e-6: noise is beyond a half with probability e^-500000
        let plan = FreshSums::new(100, 10, 1e6, 1, Relation::ZeroOut).unwrap();
        let open = |plan: &FreshSums, noise| uncharged(&plan.event(), noise).open(plan);
        let secure = || NoiseSource::secure().unwrap();
        let mut file = SumsFile::create(&path).unwrap();
        let mut sums = open(&plan, secure()).unwrap();
        sums.add(&number(1.0)).unwrap();
        sums.save(&mut file, "one").unwrap();
        sums.add(&number(1.0)).unwrap(); // never saved
        drop((sums, file));
        let (mut file, saved, public) = SumsFile::open(&path).unwrap();
        assert_eq!(public, "one");
        assert!(SumsFile::open(&path).is_err(), "held");
        let other = FreshSums::new(100, 10, 2e6, 1, Relation::ZeroOut).unwrap();
        assert!(other.resumed(saved.clone()).is_err());
        let resumed = plan.clone().resumed(saved).unwrap();
        assert!(open(&resumed, NoiseSource::insecure(1)).is_err());
        let mut sums = open(&resumed, secure()).unwrap();
        sums.add(&number(1.0)).unwrap();
        assert_eq!(sums.close().unwrap().into_inner().round(), 2.0);
        sums.save(&mut file, "closed").unwrap();
        drop((sums, file));
        let (_file, saved, _) = SumsFile::open(&path).unwrap();
        assert_eq!((saved.added, saved.released, saved.sum), (2, 1, 0));
        // sums are no experts
        drop(_file);
        assert!(crate::ExpertsFile::open(&path).is_err());
        let mut seeded = SumsFile::create(&directory.path().join("seeded")).unwrap();
        assert!(open(&plan, NoiseSource::insecure(1)).unwrap().save(&mut seeded, "").is_err());
    }

    #[test]
    fn what_was_not_planned_changes_nothing() {
        let mut sums = open(&plan(1), 3);
        assert_eq!(sums.add(&RoundLosses::of(&[0.5, 0.5]).unwrap()), Err(CuratorError::Shape));
        sums.process = Process::another();
        assert!(matches!(sums.add(&number(0.5)), Err(CuratorError::Copied { .. })));
        assert!(matches!(sums.close(), Err(CuratorError::Copied { .. })));
        assert!(matches!(sums.coin(), Err(CuratorError::Copied { .. })));
        assert_eq!((sums.added, sums.released, sums.sum), (0, 0, 0));
        for (rounds, releases, epsilon, k, relation) in [
            (0, 1, 1.0, 1, Relation::ZeroOut),
            (10, 0, 1.0, 1, Relation::ZeroOut),
            (10, 1, 0.0, 1, Relation::ZeroOut),
            (10, 1, f64::NAN, 1, Relation::ZeroOut),
            (10, 1, 1.0, 0, Relation::ZeroOut),
            (10, 1, 1.0, 11, Relation::ZeroOut),
            (10, 1, 1.0, 1, Relation::AddOrRemove),
        ] {
            assert!(FreshSums::new(rounds, releases, epsilon, k, relation).is_err());
        }
    }
}
