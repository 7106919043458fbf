//! Single mechanisms: the doors and the exact samplers.

use super::{Attack, LibraryAudit, Standard};
use crate::Sensitive;
use crate::audit::attack::likelihood;
use crate::audit::draws::Draws;
use crate::audit::statistics::one_run::Guesses;
use crate::data::{Examples, Rows};
use crate::loss::Loss;
use crate::mechanism::{ClippedGradient, Curator, CuratorError, Gaussian, Level, Quantiles};
use dpopt_noise::{DiscreteLaplace, ExponentialChoice, Grid, NoiseSource, NoisyMax, RoundedLaplace};
use dpopt_privacy::{Event, Relation};

/// Clip norm of the gradient rows: half of the loss's bound, so that the canary is always clipped.
const CLIP: f64 = 0.5;

/// `rows` rows of zeros but for the first `canaries`, where row i is e_i with target `targets[i]` (0: absent).
pub(crate) fn canaries(rows: usize, features: usize, targets: &[f32]) -> Sensitive<Examples> {
    let mut table = Rows::new(features);
    for i in 0..rows {
        match targets.get(i) {
            Some(&t) if t != 0.0 => table.push_clipped(&mut [(i as u32, 1.0)], 1.0),
            _ => table.push_zero(),
        }
    }
    let targets = (0..rows).map(|i| targets.get(i).copied().unwrap_or(0.0)).collect();
    Sensitive::new(Examples { rows: table, targets })
}

/// T noisy sums of clipped gradients through the curator, in the canary's coordinate and in units of C: what
/// DP-SGD releases, all of it.
fn noisy_sums(
    event: &Event,
    examples: &Sensitive<Examples>,
    (rows, sampling_probability): (usize, Option<f64>),
    (noise_multiplier, steps): (f64, u64),
    draws: &mut Draws,
) -> Result<Vec<f64>, CuratorError> {
    let grid = Grid::for_sum(CLIP, noise_multiplier * CLIP, rows as u64, 1);
    let gradient = ClippedGradient::new(Loss::Absolute, CLIP, grid)?;
    let mechanism = Gaussian::new(noise_multiplier, CLIP, grid, 1, "gradient sum");
    let mut curator = Curator::for_event(event, NoiseSource::insecure(draws.word()));
    (0..steps)
        .map(|_| {
            let sum = match sampling_probability {
                None => gradient.sum(examples, &[0.0]),
                Some(q) => gradient.sum_batch(examples, curator.poisson_sample(rows, q)?, &[0.0]),
            };
            // the slope of |s − 1| at 0 is −1
            curator.release(&mechanism, &sum).map(|noisy| -noisy.get()[0] / CLIP)
        })
        .collect()
}

fn two_worlds(
    (name, pair): (&'static str, &'static str),
    event: Event,
    relation: Relation,
    (delta, standard, runs): (f64, Standard, u64),
    run: impl Fn(bool, &mut Draws) -> f64 + Send + Sync + 'static,
) -> LibraryAudit {
    LibraryAudit { name, pair, event: Ok(event), relation, delta, standard, runs, attack: Attack::TwoWorlds(Box::new(run)) }
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let mut rows = Vec::new();
    let tight = Standard::GaussianShare(0.9);

    let (with, without) = (canaries(3, 1, &[1.0]), canaries(3, 1, &[0.0]));
    let event = Event::gaussian(1.0);
    let inner = event.clone();
    rows.push(two_worlds(
        ("Gaussian sum through the curator", "clipped gradient, canary in or zeroed; coordinate"),
        event,
        Relation::ZeroOut,
        (1e-5, tight, 60_000),
        move |world, draws| {
            let data = if world { &with } else { &without };
            noisy_sums(&inner, data, (3, None), (1.0, 1), draws).map_or(f64::NAN, |g| g[0])
        },
    ));

    let (up, down) = (canaries(3, 1, &[1.0]), canaries(3, 1, &[-1.0]));
    let event = Event::gaussian(2.0);
    let inner = event.clone();
    rows.push(two_worlds(
        ("Gaussian sum, replace-one", "record +C or -C; coordinate"),
        event,
        Relation::ReplaceOne,
        (1e-5, tight, 60_000),
        move |world, draws| {
            let data = if world { &up } else { &down };
            noisy_sums(&inner, data, (3, None), (2.0, 1), draws).map_or(f64::NAN, |g| g[0])
        },
    ));

    let (with, without) = (canaries(3, 1, &[1.0]), canaries(3, 1, &[0.0]));
    let event = Event::gaussian(3.0).self_composed(9);
    let inner = event.clone();
    rows.push(two_worlds(
        ("full-batch DP gradient descent, all sums seen", "canary in 9 steps; sum of its coordinate"),
        event,
        Relation::ZeroOut,
        (1e-5, tight, 60_000),
        move |world, draws| {
            let data = if world { &with } else { &without };
            noisy_sums(&inner, data, (3, None), (3.0, 9), draws).map_or(f64::NAN, |g| likelihood::gaussian(&g))
        },
    ));

    let (q, noise, steps) = (0.2, 0.8, 8);
    let (with, without) = (canaries(3, 1, &[1.0]), canaries(3, 1, &[0.0]));
    let event = Event::gaussian(noise).poisson_sampled(q).self_composed(steps);
    let inner = event.clone();
    rows.push(two_worlds(
        ("DP-SGD, Poisson batches, all sums seen", "canary alone, q = .2, 8 steps; exact log-likelihood ratio"),
        event,
        Relation::ZeroOut,
        (1e-2, Standard::Share(0.5), 60_000),
        move |world, draws| {
            let data = if world { &with } else { &without };
            noisy_sums(&inner, data, (3, Some(q)), (noise, steps), draws)
                .map_or(f64::NAN, |g| likelihood::poisson(&g, q, noise))
        },
    ));

    rows.push(two_worlds(
        ("rounded Laplace", "l1 canary C; output"),
        Event::laplace(1.0),
        Relation::ZeroOut,
        (0.0, Standard::Share(0.9), 200_000),
        {
            let grid = Grid::new(-20);
            let noise = RoundedLaplace::new(1.0, grid).ok();
            move |world, draws| {
                let record = if world { 1i64 << 20 } else { 0 };
                noise.as_ref().map_or(f64::NAN, |n| grid.to_f64(record + n.sample(draws.noise())))
            }
        },
    ));

    rows.push(two_worlds(
        ("discrete Laplace", "canary of 2 steps, scale 2; output"),
        Event::DiscreteLaplace { noise_parameter: 0.5, sensitivity: 2 },
        Relation::ZeroOut,
        (0.0, Standard::Share(0.9), 200_000),
        {
            let noise = DiscreteLaplace::new(2).ok();
            move |world, draws| {
                noise.as_ref().map_or(f64::NAN, |n| (2 * i64::from(world) + n.sample(draws.noise())) as f64)
            }
        },
    ));

    // 60 candidates: on D the first rises, on D′ all others do: the loss approaches ε
    let scores = |world: bool| -> Vec<i64> { (0..60).map(|i| i64::from((i == 0) == world)).collect() };
    let (raised, others) = (scores(true), scores(false));
    let choice = ExponentialChoice::new(3.0, 1, false).ok();
    rows.push(two_worlds(
        ("exponential mechanism, saturating pair", "60 candidates, one against all others; 1{the one}"),
        Event::ExponentialMechanism { epsilon: 3.0 },
        Relation::ZeroOut,
        (0.0, Standard::Share(0.9), 1_000_000),
        move |world, draws| {
            let scores = if world { &raised } else { &others };
            choice.as_ref().and_then(|c| c.choose(scores, draws.noise())).map_or(f64::NAN, |i| f64::from(u8::from(i == 0)))
        },
    ));

    let choice = NoisyMax::new(1.0, 1, false).ok();
    rows.push(two_worlds(
        ("permute-and-flip", "2 candidates, gap 2 against 0; which one"),
        Event::ApproxDp { epsilon: 1.0, delta: 0.0 },
        Relation::ZeroOut,
        (0.0, Standard::Sound, 200_000),
        move |world, draws| {
            let scores = if world { [0, 2] } else { [1, 1] };
            choice.as_ref().and_then(|c| c.choose(scores, draws.noise())).map_or(f64::NAN, |i| i as f64)
        },
    ));

    let quantiles = Quantiles::new(0, vec![Level::thousandths(10)], 1.0, Relation::ZeroOut);
    rows.push(two_worlds(
        ("private quantile", "a record below two grid points around the 1% rank; which point"),
        Event::ExponentialMechanism { epsilon: 1.0 },
        Relation::ZeroOut,
        (0.0, Standard::Sound, 60_000),
        move |world, draws| quantile_choice(&quantiles, world, draws),
    ));

    rows.push(one_run());
    rows
}

/// Two grid points with 4 and 8 of 450 values below, or 3 and 7 of 449 without the record.
pub(crate) fn quantile_choice(quantiles: &Quantiles, with: bool, draws: &mut Draws) -> f64 {
    let record = u64::from(with);
    let below = [3 + record, 7 + record];
    let mut noise = NoiseSource::insecure(draws.word());
    quantiles.choose(&below, 449 + record, &mut noise).map_or(f64::NAN, |k| k[0] as f64)
}

/// 1000 orthogonal canaries in one noisy gradient sum; half of the guesses in, half out, 300 in all.
fn one_run() -> LibraryAudit {
    let (count, guesses) = (1000usize, 300usize);
    let event = Event::gaussian(0.5);
    let inner = event.clone();
    let run = move |draws: &mut Draws| {
        let present: Vec<f32> = (0..count).map(|_| f32::from(u8::from(draws.coin(0.5)))).collect();
        let grid = Grid::for_sum(CLIP, 0.5 * CLIP, count as u64, count);
        let mut release = || -> Result<Vec<f64>, CuratorError> {
            let gradient = ClippedGradient::new(Loss::Absolute, CLIP, grid)?;
            let mechanism = Gaussian::new(0.5, CLIP, grid, count, "gradient sum");
            let mut curator = Curator::for_event(&inner, NoiseSource::insecure(draws.word()));
            let sum = gradient.sum(&canaries(count, count, &present), &vec![0.0; count]);
            curator.release(&mechanism, &sum).map(|r| r.get().iter().map(|g| -g / CLIP).collect())
        };
        let Ok(noisy) = release() else { return Guesses { canaries: count as u64, guesses: 0, right: 0 } };
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| noisy[a].total_cmp(&noisy[b]));
        let out = order[..guesses / 2].iter().filter(|&&i| present[i] == 0.0).count();
        let inside = order[count - guesses / 2..].iter().filter(|&&i| present[i] != 0.0).count();
        Guesses { canaries: count as u64, guesses: guesses as u64, right: (out + inside) as u64 }
    };
    LibraryAudit {
        name: "1000 canaries in one run",
        pair: "orthogonal rows, 300 guesses (150 in, 150 out)",
        event: Ok(event),
        relation: Relation::ZeroOut,
        // 2mδ must be far below 1 − confidence (spec 20 §1.3)
        delta: 1e-10,
        standard: Standard::Sound,
        runs: 1,
        attack: Attack::OneRun(Box::new(run)),
    }
}
