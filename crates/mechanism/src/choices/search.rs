//! The winner of a private search: the best of a secret number of runs (Liu, Talwar 2019; Papernot, Steinke
//! 2022; docs/proofs/private-search.md).
//!
//! Each run drew its candidate inside, and its score is already noised: a run is a mechanism of its own, with its own
//! event. Releasing only the best of K runs costs `RepeatAndSelect` of that event, where K has a public law that does not
//! depend on the records (Liu and Talwar 2019; Papernot and Steinke 2022). K and the losers stay here.

use dpopt_draws::Repetitions;
use dpopt_kernel::beside::{Sealed, opened, released};
use dpopt_kernel::{Curator, CuratorError, Interactive, InteractiveStart, Released};
use dpopt_noise::Purpose;
use dpopt_privacy::Event;
use dpopt_process::Process;

/// One run: its noisy score, and a uniform number that breaks ties and belongs to the run's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunScore {
    /// The noisy validation score.
    pub score: f64,
    /// Uniform, drawn inside the run.
    pub tie: u64,
}

impl RunScore {
    /// The rule: the higher score, ties by the larger number.
    fn better(&self, other: &Self) -> bool {
        self.score.total_cmp(&other.score).then(self.tie.cmp(&other.tie)).is_gt()
    }
}

/// What one run gives: a noisy score, larger is better, and the output that goes with it. Nothing here can check that both come
/// from a mechanism with the event that the search was charged for: whoever makes one vouches for that, and the guarantee
/// rests on it.
#[derive(Clone, Debug)]
pub struct AssumedRun<T> {
    /// Noisy score and a uniform tie-breaker drawn inside the run.
    pub run: RunScore,
    /// What leaves if this run wins.
    pub output: T,
}

/// A secret number of runs, of which the best leaves. It adds no noise: **the caller vouches** that the runs' scores and outputs
/// are what the event says. Event: as told, `RepeatAndSelect` of a run's event or a bound on it.
#[derive(Clone, Debug)]
pub struct AssumedSearch {
    event: Event,
    law: Repetitions,
}

impl AssumedSearch {
    /// Runs whose number has this law; `event` must describe all of them together, as certified.
    pub fn new(event: Event, law: Repetitions) -> Self {
        Self { event, law }
    }

    /// Opens a search and releases its best run. `event` describes all runs together and is charged before the first;
    /// **the caller vouches** that a run's score and output are what it says. Code that reads records releases them through
    /// mechanisms of this crate.
    ///
    /// # Errors
    /// If the plan does not foresee `event`, or as [`Searching::best`].
    pub fn select<T, E: From<CuratorError>>(
        curator: &mut Curator,
        event: &Event,
        law: &Repetitions,
        run: impl FnMut(u64) -> Result<AssumedRun<T>, E>,
    ) -> Result<Released<T>, E> {
        curator.open(&Self::new(event.clone(), law.clone()))?.best(run)
    }
}

impl Sealed for AssumedSearch {}

impl Interactive for AssumedSearch {
    type Opened = Searching;

    fn event(&self) -> Event {
        self.event.clone()
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        Ok(self.law.total_variation())
    }

    fn label(&self) -> &'static str {
        "private selection"
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<Searching, CuratorError> {
        let opening = opened(opening);
        let runs = self.law.sample(&mut opening.noise.stream(Purpose::Selection, 0));
        Ok(Searching { runs, process: Process::here() })
    }
}

/// An open search, charged in full; its number of runs is secret.
pub struct Searching {
    pub(crate) runs: u64,
    /// The process in which it was opened: a run may fork, and one search is one release.
    pub(crate) process: Process,
}

impl Searching {
    /// The best run's output. `run` is given the number of the run and must use fresh randomness in each.
    ///
    /// A run must not fail because of the records: an error of `run` ends the search and is a program's error, not an
    /// answer. The time this takes grows with the number of runs, which must not be observable.
    ///
    /// # Errors
    /// As `run`; and in a copy of this process that a run has forked.
    pub fn best<T, E: From<CuratorError>>(
        self,
        mut run: impl FnMut(u64) -> Result<AssumedRun<T>, E>,
    ) -> Result<Released<T>, E> {
        let mut best: Option<AssumedRun<T>> = None;
        for k in 0..self.runs {
            let next = run(k)?;
            CuratorError::unless_opened_in(self.process, "search")?;
            if best.as_ref().is_none_or(|b| next.run.better(&b.run)) {
                best = Some(next);
            }
        }
        best.map(|b| released(b.output)).ok_or_else(|| CuratorError::Shape.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;

    #[test]
    fn the_best_run_wins_ties_are_broken_by_the_number_and_one_search_is_one_release() {
        let event = Event::RepeatAndSelect { event: Box::new(Event::gaussian(3.0)), mean: 5.0, shape: 1.0 };
        let mut curator = uncharged(&event, NoiseSource::insecure(1));
        let search = AssumedSearch::new(event, Repetitions::negative_binomial(1.0, 5.0).unwrap());
        assert!(curator.open(&search).is_ok());
        assert!(curator.open(&search).is_err());
        let runs = [(0.5, 9), (0.75, 1), (0.75, 2), (-1.0, 8)].map(|(score, tie)| RunScore { score, tie });
        let made = |k: u64| Ok::<_, CuratorError>(AssumedRun { run: runs[k as usize], output: k });
        assert_eq!(*Searching { runs: 4, process: Process::here() }.best(made).unwrap().get(), 2);
        // a copy that a run has forked lets nothing out, not after the last run either
        for runs in [1, 4] {
            let copy = Searching { runs, process: Process::another() };
            assert!(matches!(copy.best(made), Err(CuratorError::Copied { what: "search" })));
        }
    }
}
