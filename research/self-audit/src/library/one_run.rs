//! Many canaries in one run (Steinke, Nasr, Jagielski 2023), and the f-DP form beside it.

use super::{Attack, LibraryAudit};
use crate::worst_cases::methods::{Subject, coordinate, descent, problem, sgd};
use crate::worst_cases::sums::canaries;
use dpopt_audit::attack::likelihood;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::one_run::Guesses;
use dpopt_linear::DescentSchedule;
use dpopt_objective::loss::Loss;
use dpopt_optimize::Algorithm;

/// All canaries, one per record and coordinate; guesses made: half of them "in", half "out".
const CANARIES: usize = 1000;
const GUESSES: usize = 300;
/// The claim's δ: 2mδ must be far below 1 − confidence, m canaries (Steinke, Nasr, Jagielski 2023).
const DELTA: f64 = 1e-10;
const EPSILON: f64 = 14.0;

/// One run of `algorithm` on 1000 orthogonal rows, each there by a fair coin; `score` says how much a canary seems to be in.
fn audit<A: Algorithm<Schedule = DescentSchedule>>(
    (name, pair): (&'static str, &'static str),
    algorithm: A,
    score: impl Fn(&DescentSchedule, &[Vec<f64>], &[f64], usize) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    let worlds = [false, true].map(|_| canaries(CANARIES, CANARIES, &[]));
    let subject = Subject::new(algorithm, problem(CANARIES, CANARIES, Loss::Absolute), (EPSILON, DELTA), worlds);
    let event = subject.event();
    let run = move |draws: &mut Draws| {
        let present: Vec<f32> = (0..CANARIES).map(|_| f32::from(u8::from(draws.coin(0.5)))).collect();
        let scores = subject.run_on(&canaries(CANARIES, CANARIES, &present), draws, |schedule, view| {
            (0..CANARIES).map(|j| score(schedule, view.seen, view.weights, j)).collect::<Vec<f64>>()
        })?;
        let mut order: Vec<usize> = (0..CANARIES).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let out = order[..GUESSES / 2].iter().filter(|&&i| present[i] == 0.0).count();
        let inside = order[CANARIES - GUESSES / 2..].iter().filter(|&&i| present[i] != 0.0).count();
        Some(Guesses { canaries: CANARIES as u64, guesses: GUESSES as u64, right: (out + inside) as u64 })
    };
    LibraryAudit {
        attack: Attack::OneRun(Box::new(run)),
        ..LibraryAudit::new(name, pair, event, (DELTA, 1), |_, _| f64::NAN)
    }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    vec![
        audit(
            ("noisy-gradient-descent, 1000 canaries in one run", "orthogonal rows, 300 guesses; sums of all 8 steps"),
            descent(8),
            |s, seen, _, j| coordinate(seen, j, s.clip_norm).iter().sum(),
        ),
        audit(
            (
                "noisy-sgd, q = .5, 1000 canaries in one run",
                "orthogonal rows, 300 guesses; log-likelihood ratio of 8 sums",
            ),
            sgd(8, 0.5, false),
            |s, seen, _, j| {
                likelihood::poisson(&coordinate(seen, j, s.clip_norm), s.sampling_probability, s.noise_multiplier)
            },
        ),
        audit(
            ("noisy-sgd, q = .5, noise drawn lazily, 1000 canaries", "orthogonal rows, 300 guesses; the final weight"),
            sgd(8, 0.5, true),
            |_, _, weights, j| weights[j],
        ),
    ]
}
