//! Private search: the best of a secret number of runs.
//!
//! Covers: sparse-v2 algorithm 5

use super::LibraryAudit;
use crate::worst_cases::indicator;
use dpopt_draws::Repetitions;
use dpopt_mechanism::{AssumedRun, AssumedSearch, CuratorError, RunScore, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;

/// A geometric number of runs, five on average; each is a count with Laplace noise of scale 1.
pub(super) fn audits() -> Vec<LibraryAudit> {
    let law = Repetitions::negative_binomial(1.0, 5.0);
    let event = law.as_ref().map_err(ToString::to_string).map(|law| {
        let run = Box::new(Event::Laplace { noise_multiplier: 1.0 });
        Event::RepeatAndSelect { event: run, mean: law.mean(), shape: 1.0 }
    });
    let opened = event.clone();
    vec![
        LibraryAudit::new(
            "private search",
            "count 1 or 0 plus Laplace noise, the best of a geometric number of runs; its score",
            event,
            (1e-2, 100_000),
            move |with, draws| {
                let (Ok(law), Ok(event)) = (&law, &opened) else { return f64::NAN };
                let mut curator = past_the_curator::uncharged(event, NoiseSource::insecure(draws.word()));
                let best = AssumedSearch::select(&mut curator, event, law, |_| {
                    let run = RunScore { score: indicator(with) + draws.laplace(1.0), tie: draws.word() };
                    Ok::<_, CuratorError>(AssumedRun { run, output: run.score })
                });
                best.map_or(f64::NAN, |score| *score.get())
            },
        )
        .costly(),
    ]
}
