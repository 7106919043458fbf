//! Faults of deferred (lazy) noise and of noise correlated over steps, on the library's own noise (docs/proofs/lazy-noise.md, docs/proofs/correlated.md).

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::noise::{Correlated, at, lazy};
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_audit::statistics::laws::ks_p_value;
use dpopt_noise::correlated::{Factor, Participation};
use dpopt_privacy::special::normal_cdf;

/// A banded factor with noise `multiplier` times its sensitivity to `planned`; the record takes part at steps `.0` in the correct run and at
/// `.1` in the injected one.
struct Banded {
    runs: Option<[Correlated; 2]>,
    taken: [Vec<bool>; 2],
    never: Vec<bool>,
}

impl Banded {
    fn new(
        factor: Option<Factor>,
        multiplier: f64,
        steps: usize,
        planned: [Participation; 2],
        taken: [&[usize]; 2],
    ) -> Self {
        let runs = factor.map(|factor| {
            planned.map(|p| Correlated::new(factor.clone(), multiplier * factor.sensitivity(steps, p), steps))
        });
        Self { runs, taken: taken.map(|t| at(steps, t)), never: vec![false; steps] }
    }

    fn run(&self, code: Code, with: bool, draws: &mut Draws) -> f64 {
        let Some(runs) = &self.runs else { return f64::NAN };
        let which = code.pick(0, 1);
        let expected = &self.taken[which];
        runs[which].matched(if with { expected } else { &self.never }, expected, draws)
    }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = vec![
        InjectedFault::counting(
            (
                "20.10",
                Shipped,
                "deferred noise of 16 missed steps drawn with the variance of one",
                "coordinate touched once, read at the end",
            ),
            Claim::gaussian(0.25),
            (295, 3_000),
            |code, with, draws| lazy(code.pick(16, 1), 1.0, &[0], with, draws),
        ),
        InjectedFault::counting(
            (
                "19.lazy-off-by-one",
                Shipped,
                "deferred noise of m - 1 instead of m = 4 steps",
                "coordinate touched once, read at the end",
            ),
            Claim::gaussian(0.5),
            (22_000, 3_000),
            |code, with, draws| lazy(code.pick(4, 3), 1.0, &[0], with, draws),
        ),
        InjectedFault::counting(
            (
                "20.11",
                Altered,
                "deferred noise never drawn for untouched coordinates",
                "1{coordinate is not 0 at the end}",
            ),
            Claim::gaussian(1.0),
            (40, 3_000),
            |code, with, draws| {
                // injected: an untouched weight is given out as it stands
                let drawn = with || code == Code::Correct;
                indicator(drawn && lazy(1, 1.0, &[0], with, draws) != 0.0)
            },
        ),
        InjectedFault::looking(
            (
                "19.lazy-decay",
                Shipped,
                "deferred noise without the weight decay (a = .9, m = 7)",
                "law of the coordinate against N(0, 4.059) by Kolmogorov-Smirnov, 40 000 draws",
            ),
            |code| {
                let mut draws = Draws::new(19, 7);
                // w ← a·w − z, seven times: variance Σ a^2i = 4.0591
                let exact: f64 = (0..7).map(|i| 0.9f64.powi(2 * i)).sum();
                let mut sample: Vec<f64> =
                    (0..40_000).map(|_| lazy(7, code.pick(0.9, 1.0), &[], false, &mut draws)).collect();
                let p = ks_p_value(&mut sample, |x| normal_cdf(x / exact.sqrt()));
                if p < 1e-6 { Err(format!("the law differs from the dense one: p = {p:.1e}")) } else { Ok(()) }
            },
        ),
    ];

    let four_times = Participation::Separated { separation: 4, count: 4 };
    let banded = Banded::new(
        Factor::banded(&[1.0, 0.75]).ok(),
        2.0,
        16,
        [four_times, Participation::Single],
        [&[0, 4, 8, 12], &[0, 4, 8, 12]],
    );
    bugs.push(InjectedFault::counting(
        (
            "20.14",
            Shipped,
            "four participations, the event counts one (banded, minimum separation kept)",
            "matched filter",
        ),
        Claim::gaussian(0.5),
        (664, 4_000),
        move |code, with, draws| banded.run(code, with, draws),
    ));

    let twice = Participation::Separated { separation: 8, count: 2 };
    let banded = Banded::new(Factor::square_root(8).ok(), 2f64.sqrt(), 20, [twice, twice], [&[0, 8], &[0, 1]]);
    bugs.push(InjectedFault::counting(
        (
            "20.15",
            Shipped,
            "two participations one step apart where the event assumes a separation of 8 (band 8)",
            "matched filter",
        ),
        Claim::gaussian(0.5f64.sqrt()),
        (4_400, 6_000),
        move |code, with, draws| banded.run(code, with, draws),
    ));
    bugs
}
