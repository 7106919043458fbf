//! Faults of passes whose clips are tested or grow (Liu 2024, Algorithm 43; docs/proofs/certified-clipped-sgd.md, docs/proofs/phased-sgd.md).
//!
//! Covers: thesis algorithm 43 (12.clip-that-grew, 12.rows-beyond-the-guard)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::methods::alone;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{CertifiedPass, ClipTest, Mechanism, Phase, PhasedPass, Sensitive, past_the_curator};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::solver::{ClippedPass, Pass};
use dpopt_privacy::{Event, Relation};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

fn claim(event: &Event) -> Result<Claim, String> {
    Claim::reported(event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// One phase whose table has just so many clips that one more is one too many.
fn without_noise() -> InjectedFault {
    const RECORDS: usize = 60;
    let (epsilon, delta) = (1.0, 1e-6);
    let levels = ClipTest::levels_for(epsilon, delta, 1e-3);
    let phase = Phase { records: RECORDS as u64, learning_rate: 0.08, clip_norm: 0.4 };
    let mechanism = CertifiedPass {
        objective: Linear::new(LOGISTIC, 1, 1.0),
        phases: vec![phase],
        radius: 1e3,
        noise_multiplier: 4.0,
        test: ClipTest { epsilon, delta, growth: 1.1, levels },
        relation: Relation::ZeroOut,
        target_bound: 1.0,
    };
    let (allowed, threshold) = (mechanism.allowed(&phase), mechanism.test.threshold());
    let clipped = allowed.saturating_sub(threshold + 1) as usize;
    // slopes of a half, above C; labels in turn keep the point near 0
    let table = |with: bool| {
        let mut rows = Rows::new(1);
        for i in 0..RECORDS {
            if i < clipped || (with && i == clipped) {
                rows.push_clipped(&mut [(0, 1.0)], 1.0)
            } else {
                rows.push_zero()
            }
        }
        Examples { rows, targets: (0..RECORDS).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect() }
    };
    let worlds = [false, true].map(|with| Sensitive::new(table(with)));
    InjectedFault::counting(
        (
            "12.test-without-noise",
            Altered,
            "a phase is released if the count of its clips is small enough, and the count has no noise",
            "one record more is clipped than may be, or nothing; whether the phase is released",
        ),
        claim(&mechanism.event()),
        (150, 30_000),
        move |code, with, draws| {
            let input = &worlds[usize::from(with)];
            let released = match code {
                Code::Correct => {
                    let mut source = NoiseSource::insecure(draws.word());
                    past_the_curator::unchecked(&mechanism, input, &mut source).is_ok_and(|shown| shown.released == 1)
                }
                Code::Injected => {
                    let Phase { learning_rate, clip_norm, .. } = phase;
                    let objective = mechanism.objective;
                    let pass = ClippedPass { objective, learning_rate, clip_norm, target_bound: 1.0 };
                    let order: Vec<u32> = (0..RECORDS as u32).collect();
                    let norms = pass.walk(past_the_curator::read_for_tests(input), &order, &[0.0]).norms;
                    let clips = norms.iter().filter(|n| **n > clip_norm).count() as u64;
                    allowed.saturating_sub(clips) > threshold
                }
            };
            f64::from(u8::from(released))
        },
    )
}

/// The chance to pass where nothing bounds the drift, by the law of the noise.
fn not_strict(code: Code) -> Result<(), String> {
    for epsilon in [0.01f64, 0.25, 1.0, 4.0] {
        for delta in [1e-9, 1e-6, 1e-3, 0.2] {
            let threshold = ClipTest { epsilon, delta, growth: 1.1, levels: 1 }.threshold();
            let least = threshold + code.pick(1, 0);
            let passes = (-epsilon * least as f64).exp() / (1.0 + (-epsilon).exp());
            // rounded down as well
            let down = (0.5 / delta).ln() / epsilon;
            let rounded = (-epsilon * (down.floor() + 1.0)).exp() / (1.0 + (-epsilon).exp());
            let chance = code.pick(passes, passes.max(rounded));
            if chance > delta {
                return Err(format!("passes with probability {chance:e}, where {delta:e} may be (epsilon {epsilon})"));
            }
        }
    }
    Ok(())
}

/// A record alone in the second of two phases, whose clip norm is twice the first one's.
fn clip_that_grew() -> InjectedFault {
    let z = 1.0;
    let of = |learning_rate: f64, clip_norm: f64, noise_multiplier: f64| PhasedPass {
        objective: Linear::new(LOGISTIC, 1, 1.0),
        phases: vec![Phase { records: 1, learning_rate, clip_norm }],
        radius: 1e3,
        noise_multiplier,
        relation: Relation::ZeroOut,
        target_bound: 1.0,
    };
    // half of the largest slope is where a record at 0 has its own
    let (right, wrong) = (of(1.0 / 16.0, 0.5, z), of(1.0 / 16.0, 0.5, 0.5 * z));
    InjectedFault::counting(
        (
            "12.clip-that-grew",
            Shipped,
            "clip norms that double from phase to phase, and noise of every phase for the first one's",
            "record alone in the second phase; mean of the iterates",
        ),
        claim(&Event::Parallel { blocks: vec![Event::gaussian(z); 2] }),
        (150, 20_000),
        move |code, with, draws| {
            let worlds = alone(1);
            let mut source = NoiseSource::insecure(draws.word());
            let input = &worlds[usize::from(with)];
            past_the_curator::unchecked(code.pick(&right, &wrong), input, &mut source)
                .map_or(f64::NAN, |points| points[0])
        },
    )
}

/// Rows so long that a smooth loss is as good as one with a kink in each of 256 coordinates, and one record along the diagonal.
fn beyond_the_guard() -> InjectedFault {
    const COLUMNS: usize = 256;
    const RECORDS: usize = COLUMNS + 1;
    // ηβ‖x‖² = 1 for rows of norm 1, and a million for those of heavy tails
    let (rate, clip, z) = (1.0, 0.5, 1.0);
    let size = 1000.0f32;
    let root = (COLUMNS as f64).sqrt();
    let kink = 0.5 * rate * clip / root;
    let table = |with: bool, cut: f32| {
        let length = size.min(cut);
        let mut rows = Rows::new(COLUMNS);
        let mut targets = vec![(kink * f64::from(length)) as f32; RECORDS];
        for j in 0..COLUMNS {
            rows.push_clipped(&mut [(j as u32, length)], f64::from(cut));
        }
        let mut diagonal: Vec<(u32, f32)> = (0..COLUMNS as u32).map(|j| (j, 1.0 / root as f32)).collect();
        rows.push_clipped(&mut diagonal, f64::from(cut));
        targets[COLUMNS] = if with { 1e3 } else { f32::NAN };
        Examples { rows, targets }
    };
    let cut = [false, true].map(|with| Sensitive::new(table(with, 1.0)));
    let whole = [false, true].map(|with| table(with, size));
    let mechanism = PhasedPass {
        objective: Linear::new(Loss::Huber { threshold: clip }, COLUMNS, 1.0),
        phases: vec![Phase { records: RECORDS as u64, learning_rate: rate, clip_norm: clip }],
        radius: 1e6,
        noise_multiplier: z,
        relation: Relation::ZeroOut,
        target_bound: 1e4,
    };
    let noise = mechanism.noise_std(&mechanism.phases[0]);
    let unguarded = Pass {
        objective: Linear::new(Loss::Huber { threshold: clip }, COLUMNS, f64::from(size)),
        learning_rate: rate,
        clip_norm: clip,
        target_bound: 1e4,
    };
    InjectedFault::counting(
        (
            "12.rows-beyond-the-guard",
            Altered,
            "rows of heavy tails as long as they are in a pass of clipped slopes, steps far above 2 over their curvature",
            "record along the diagonal or none, a long row in each of 256 coordinates; mean of the iterates, along the diagonal",
        ),
        claim(&mechanism.event()),
        (150, 400_000),
        move |code, with, draws| {
            let world = usize::from(with);
            let mean = match code {
                Code::Correct => {
                    let mut source = NoiseSource::insecure(draws.word());
                    past_the_curator::unchecked(&mechanism, &cut[world], &mut source).unwrap_or_default()
                }
                Code::Injected => {
                    let mut order: Vec<u32> = (0..RECORDS as u32).collect();
                    // Fisher and Yates
                    (1..RECORDS).rev().for_each(|i| order.swap(i, draws.below(i + 1)));
                    let mean = unguarded.mean(&whole[world], &order, &[0.0; COLUMNS]);
                    mean.iter().map(|x| x + noise * draws.gaussian()).collect()
                }
            };
            // with the record they turn back
            code.pick(1.0, -1.0) * mean.iter().sum::<f64>() / root
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![
        without_noise(),
        InjectedFault::looking(
            (
                "12.threshold-not-strict",
                Altered,
                "a phase passes its test at the threshold itself, or above a threshold that was rounded down",
                "exact chance to pass at level 0, against what may be",
            ),
            not_strict,
        ),
        clip_that_grew(),
        beyond_the_guard(),
    ]
}
