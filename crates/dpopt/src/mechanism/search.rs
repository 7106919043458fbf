//! The winner of a private search: the best of a secret number of runs (spec 20 §3; docs/proofs/private-search.md).
//!
//! Each run drew its candidate inside, and its score is already noised: a run is a mechanism of its own, with its own
//! event. Releasing only the best of K runs costs `RepeatAndSelect` of that event, where K has a public law that does not
//! depend on the records (Liu and Talwar 2019; Papernot and Steinke 2022). K and the losers stay here.

use super::door::{Mechanism, sealed};
use crate::refused::CuratorError;
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;

/// One run: its noisy score, and a uniform number that breaks ties and belongs to the run's output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Noisy score.
    pub score: f64,
    /// Uniform, drawn inside the run.
    pub tie: u64,
}

/// Releases which run is the best, and nothing of the others. Event: as planned, `RepeatAndSelect` or a bound on it. Of use to
/// this crate alone, as it adds no noise: it would release any list of numbers that is called a list of runs.
#[derive(Clone, Debug)]
pub(crate) struct BestRun {
    event: Event,
}

impl BestRun {
    /// `event` must describe all runs together, as certified.
    pub(crate) fn new(event: Event) -> Self {
        Self { event }
    }

    /// The rule: the higher score, ties by the larger number.
    pub(super) fn better(a: &Run, b: &Run) -> bool {
        a.score.total_cmp(&b.score).then(a.tie.cmp(&b.tie)).is_gt()
    }
}

impl sealed::Sealed for BestRun {}

impl Mechanism for BestRun {
    type Input = Vec<Run>;
    type Output = usize;

    fn event(&self) -> Event {
        self.event.clone()
    }

    fn label(&self) -> &'static str {
        "private search"
    }

    fn check(&self, _input: &Vec<Run>) -> Result<(), CuratorError> {
        Ok(())
    }

    /// Nothing is drawn here: the runs' own noise and the secret number of runs are the mechanism.
    fn apply(&self, input: &Vec<Run>, _noise: &mut NoiseSource) -> Result<usize, CuratorError> {
        let best =
            input.iter().enumerate().max_by(|(_, a), (_, b)| a.score.total_cmp(&b.score).then(a.tie.cmp(&b.tie)));
        best.map(|(index, _)| index).ok_or(CuratorError::Shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sensitive;
    use crate::mechanism::Curator;

    #[test]
    fn the_best_run_wins_ties_are_broken_by_the_number_and_one_search_is_one_release() {
        let event = Event::RepeatAndSelect { event: Box::new(Event::gaussian(3.0)), mean: 5.0, shape: 1.0 };
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(1));
        let run = |score, tie| Run { score, tie };
        let runs = Sensitive::new(vec![run(0.5, 9), run(0.75, 1), run(0.75, 2), run(-1.0, 8)]);
        let search = BestRun::new(event);
        assert_eq!(*curator.release(&search, &runs).unwrap().get(), 2);
        assert!(curator.release(&search, &runs).is_err());
    }
}
