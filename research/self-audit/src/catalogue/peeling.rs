//! Faults of peeling: the largest coordinates chosen one by one with noise (docs/proofs/peeling.md).

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use crate::worst_cases::peeling::{ENTRY, picks, steep, swapped, unseen};
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::PeelingLaw::{Gumbel, Laplace};

pub(super) fn bugs() -> Vec<InjectedFault> {
    let entry = 1.0 / 10f64.sqrt();
    let (by_gumbel, by_laplace, alone) = (swapped(5), swapped(5), unseen(1000));
    let five = move |worlds: &[dpopt_mechanism::Sensitive<dpopt_objective::records::Examples>; 2],
                     law,
                     code: Code,
                     with: bool,
                     seed| {
        let each = code.pick(0.2, 1.0);
        picks(&worlds[usize::from(with)], (law, each, entry), (5, 5), seed).unwrap_or(f64::NAN)
    };
    vec![
        InjectedFault::counting(
            (
                "16.peeling-noise",
                Shipped,
                "five features picked, each with the noise of a single pick",
                "record raises five scores and lowers five; raised ones picked",
            ),
            Claim::pure(1.0),
            (900, 30_000),
            move |code, with, draws| five(&by_gumbel, Gumbel, code, with, draws.word()),
        ),
        InjectedFault::counting(
            (
                "16.peeling-laplace",
                Shipped,
                "the same with Laplace noise: the scale of a single pick for all five",
                "record raises five scores and lowers five; raised ones picked",
            ),
            Claim::pure(1.0),
            (600, 30_000),
            move |code, with, draws| five(&by_laplace, Laplace, code, with, draws.word()),
        ),
        InjectedFault::counting(
            (
                "16.peeling-clip",
                Altered,
                "scores without the clip (an entry of 4C)",
                "canary of entry 4C, alone in its feature, against four; which is picked",
            ),
            Claim::pure(1.0),
            (1_300, 20_000),
            move |code, with, draws| {
                // what an entry of 4C adds without the clip: four times C
                let copies = if with { code.pick(1, 4) } else { 0 };
                picks(&steep(copies), (Gumbel, 1.0, ENTRY), (1, 1), draws.word()).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "16.peeling-touched",
                Altered,
                "features picked among those that some record has (d = 1000)",
                "whether the canary's feature is picked",
            ),
            Claim::pure(1.0),
            (60, 20_000),
            move |code, with, draws| match code {
                Code::Correct => {
                    picks(&alone[usize::from(with)], (Gumbel, 1.0, 1.0), (1, 1), draws.word()).unwrap_or(f64::NAN)
                }
                // with nothing touched nothing is picked
                Code::Injected => indicator(with),
            },
        ),
    ]
}
