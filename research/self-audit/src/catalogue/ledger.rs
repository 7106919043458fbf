//! Faults of the ledger: releases that the certified event does not hold, tried on the real curator.

use super::Source::Altered;
use super::{Code, InjectedFault};
use crate::worst_cases::sums::canaries;
use dpopt_mechanism::{Blocks, Clipped, Curator, CuratorError, Gaussian, Interactive, Mechanism, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, accountant, certify};

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![
        InjectedFault::looking(
            (
                "18.unforeseen",
                Altered,
                "a second release per step, one in the ledger",
                "releases that came out against releases in the event",
            ),
            |code| releases(code, None),
        ),
        InjectedFault::looking(
            ("18.batch-twice", Altered, "one Poisson batch serves two releases", "releases that came out of one batch"),
            |code| releases(code, Some(0.5)),
        ),
        InjectedFault::looking(
            (
                "18.wrong-clip",
                Altered,
                "a sum clipped to 2C goes through noise calibrated for C",
                "whether anything was released",
            ),
            wrong_clip,
        ),
        InjectedFault::looking(
            (
                "18.block-of-others",
                Altered,
                "a block's release sums over the records of all blocks",
                "whether another block's record came out",
            ),
            block_of_others,
        ),
        InjectedFault::looking(
            (
                "18.inexact",
                Altered,
                "two draws of noise where delta pays for the samplers of one",
                "draws that came out against draws that were paid for",
            ),
            inexact,
        ),
        InjectedFault::looking(
            (
                "18.clt",
                Altered,
                "the central-limit formula for subsampled Gaussians used as a bound (q = .01, sigma = 1, T = 1000)",
                "its epsilon at delta 1e-6 against the certified lower bound",
            ),
            central_limit,
        ),
    ]
}

/// Tries two releases of one sum where the event has one (per batch).
fn releases(code: Code, sampling: Option<f64>) -> Result<(), String> {
    let grid = Grid::new(-20);
    let leaf = Event::gaussian(1.0);
    // the allowance is large enough for two batches: only the batch itself may refuse the second release
    let event = sampling.map_or(leaf.clone(), |q| leaf.clone().poisson_sampled(q).self_composed(2));
    let mut source = NoiseSource::insecure(18);
    let mut count = || -> Result<u32, CuratorError> {
        let data = canaries(3, 1, &[1.0]);
        let gradient = Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), 0.5, grid)?;
        let mechanism = Gaussian::new(1.0, 0.5, grid, 1, "gradient sum");
        let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(1));
        let sum = match sampling {
            None => gradient.sum(&data, &[0.0]),
            Some(q) => gradient.sum_batch(&data, curator.poisson_sample(3, q)?, &[0.0]),
        };
        let mut out = 0;
        for _ in 0..2 {
            let released = match code {
                Code::Correct => curator.release(&mechanism, &sum).is_ok(),
                // around the curator: the mechanism itself never refuses
                Code::Injected => past_the_curator::unchecked(&mechanism, &sum, &mut source).is_ok(),
            };
            out += u32::from(released);
        }
        Ok(out)
    };
    match count() {
        Ok(1) => Ok(()),
        Ok(n) => Err(format!("{n} releases where the event has one")),
        Err(e) => Err(e.to_string()),
    }
}

fn wrong_clip(code: Code) -> Result<(), String> {
    let grid = Grid::new(-20);
    let data = canaries(3, 1, &[1.0]);
    let gradient = Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), 1.0, grid).map_err(|e| e.to_string())?;
    let mechanism = Gaussian::new(1.0, 0.5, grid, 1, "gradient sum");
    let sum = gradient.sum(&data, &[0.0]);
    let mut curator = past_the_curator::uncharged(&Event::gaussian(1.0), NoiseSource::insecure(1));
    let released = match code {
        Code::Correct => curator.release(&mechanism, &sum).is_ok(),
        Code::Injected => past_the_curator::unchecked(&mechanism, &sum, &mut NoiseSource::insecure(1)).is_ok(),
    };
    if released { Err("a sum of sensitivity 2C left with noise for C".into()) } else { Ok(()) }
}

/// Block 0 of two; the canary is in it, and block 1 asks for a sum over everybody.
fn block_of_others(code: Code) -> Result<(), String> {
    let grid = Grid::new(-20);
    let released = || -> Result<bool, CuratorError> {
        let data = canaries(4, 1, &[1.0]);
        let gradient = Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), 0.5, grid)?;
        let mechanism = Gaussian::new(1.0, 0.5, grid, 1, "gradient sum");
        let blocks = Blocks::new(4, vec![mechanism.event(); 2])?;
        let mut curator = past_the_curator::uncharged(&blocks.event(), NoiseSource::insecure(1));
        let mut open = curator.open(&blocks)?;
        let sum = gradient.sum(&data, &[0.0]);
        let out = match code {
            Code::Correct => open[1].release(&mechanism, &sum).map(drop),
            Code::Injected => past_the_curator::unchecked(&mechanism, &sum, &mut NoiseSource::insecure(1)).map(drop),
        };
        Ok(out.is_ok())
    };
    match released() {
        Ok(false) => Ok(()),
        Ok(true) => Err("a record left through a block that it is not in, and in its own".into()),
        Err(e) => Err(e.to_string()),
    }
}

fn inexact(code: Code) -> Result<(), String> {
    let grid = Grid::new(-20);
    let drawn = || -> Result<u32, String> {
        let text = |e: CuratorError| e.to_string();
        let data = canaries(3, 1, &[1.0]);
        let gradient = Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), 0.5, grid).map_err(text)?;
        let mechanism = Gaussian::new(1.0, 0.5, grid, 1, "gradient sum");
        let sum = gradient.sum(&data, &[0.0]);
        let twice = mechanism
            .event()
            .self_composed(2)
            .approximate(mechanism.sampler_error(past_the_curator::read_for_tests(&sum)));
        let terms =
            Neighbours::of_records(Relation::ZeroOut).within(Budget::new(9.0, 1e-5).map_err(|e| e.to_string())?);
        let certificate = certify(&twice, terms).map_err(|e| e.to_string())?;
        let mut curator = match code {
            Code::Correct => Curator::new(&certificate, NoiseSource::insecure(1)),
            // one that takes samplers as exact
            Code::Injected => past_the_curator::uncharged(&twice, NoiseSource::insecure(1)),
        };
        Ok((0..2).map(|_| u32::from(curator.release(&mechanism, &sum).is_ok())).sum())
    };
    match drawn()? {
        1 => Ok(()),
        n => Err(format!("{n} draws where delta pays for one")),
    }
}

fn central_limit(code: Code) -> Result<(), String> {
    let (q, sigma, steps, delta) = (0.01, 1.0f64, 1000u32, 1e-6);
    let event = Event::gaussian(sigma).poisson_sampled(q).self_composed(u64::from(steps));
    let bound = accountant::epsilon(&event, Relation::ZeroOut, delta).map_err(|e| e.to_string())?;
    // inverted from the exact moment generating function
    let truth = 2.124_515_17;
    let claimed = match code {
        Code::Correct => bound.upper,
        Code::Injected => {
            let mu = q * (f64::from(steps) * (1.0 / (sigma * sigma)).exp_m1()).sqrt();
            dpopt_privacy::special::gaussian_epsilon(delta, mu)
        }
    };
    if claimed < truth - 1e-8 { Err(format!("claims {claimed:.4}, the truth is {truth:.4}")) } else { Ok(()) }
}
