//! Bugs of guarantees for persons who have several rows (docs/proofs/units.md). Units of the clip norm C; a person's rows are all alike, those of others point
//! the other way.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::methods::coordinate;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_mechanism::{
    Batching, Clipped, Correlation, Gaussian, GridSum, Interactive, Sensitive, StreamPlan, StreamShape,
    past_the_curator,
};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Linear, OfRows};
use dpopt_objective::records::{Examples, Owners, Rows, Units};
use dpopt_privacy::{Event, Relation};
use std::num::NonZeroU64;

const CLIP: f64 = 0.5;
/// Rows that a person may have.
pub(super) const MOST: u64 = 2;

/// Rows in the order of a file, each with whose it is: +1 pushes the sum up, −1 down, 0 is a row of nothing.
type File = Vec<(&'static str, f32)>;

/// The person's rows, or as many of nothing under the person's key, before or after those of `others` others.
fn file(with: bool, person: &[&'static str], others: &[&'static str]) -> File {
    let own = person.iter().map(|key| (*key, f32::from(u8::from(with))));
    own.chain(others.iter().map(|key| (*key, -1.0))).collect()
}

/// Who owns which row, by `key`.
fn owners(file: &File, key: impl Fn(&'static str) -> &'static str) -> Owners {
    let mut keys: Vec<&str> = Vec::new();
    let of_row = file.iter().map(|(given, _)| {
        let key = key(given);
        keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        }) as u32
    });
    let of_row = of_row.collect();
    Owners { of_row, units: keys.len() }
}

pub(super) fn examples(file: &File) -> Examples {
    let (mut rows, mut targets) = (Rows::new(1), Vec::new());
    for (_, target) in file {
        if *target == 0.0 {
            rows.push_zero()
        } else {
            rows.push_clipped(&mut [(0, 1.0)], 1.0)
        }
        targets.push(*target);
    }
    Examples { rows, targets }
}

fn units(file: &File, key: impl Fn(&'static str) -> &'static str) -> Option<Units<Examples>> {
    Units::new(examples(file), &owners(file, key)).ok()
}

/// At most [`MOST`] rows of each, a uniform choice.
fn capped(units: Units<Examples>, draws: &mut Draws) -> Option<Examples> {
    let most = NonZeroU64::new(MOST)?;
    units.capped(most, |bound| draws.word() % bound).one_by_one()
}

/// The sum of clipped gradients of the absolute loss at weight 0, which are −1 and +1 times C.
fn sum<R: OfRows<Error = std::convert::Infallible>>(records: R, grid: Grid) -> Option<Sensitive<GridSum>> {
    let gradient = Clipped::new(R::over(Linear::new(Loss::Absolute, 1, 1.0)), CLIP, grid).ok()?;
    Some(gradient.sum(&Sensitive::new(records), &[0.0]))
}

/// One release with noise of so many clip norms; up with the person.
pub(super) fn released<R: OfRows<Error = std::convert::Infallible>>(
    records: R,
    noise: f64,
    draws: &mut Draws,
) -> Option<f64> {
    let grid = Grid::for_sum(CLIP, noise * CLIP, 64, 1);
    let mut curator = past_the_curator::uncharged(&Event::gaussian(noise), NoiseSource::insecure(draws.word()));
    let noisy = curator.release(&Gaussian::new(noise, CLIP, grid, 1, "gradient sum"), &sum(records, grid)?).ok()?;
    Some(-noisy.get()[0] / CLIP)
}

/// Batches of a stream; it has one epoch and independent noise of a clip norm per step.
const BATCHES: usize = 4;

/// What the steps of a stream let out, in clip norms; up with the person.
fn streamed<R: OfRows<Error = std::convert::Infallible>>(
    records: R,
    batching: Batching,
    draws: &mut Draws,
) -> Option<Vec<f64>> {
    let plan = StreamPlan {
        shape: StreamShape { batches: BATCHES, steps: BATCHES, correlation: Correlation::Independent },
        gradient: Clipped::new(R::over(Linear::new(Loss::Absolute, 1, 1.0)), CLIP, Grid::new(-20)).ok()?,
        noise_multiplier: 1.0,
        dimension: 1,
        records: records.len() as u64,
        relation: Relation::ZeroOut,
        batching,
    };
    let records = Sensitive::new(records);
    let mut curator = past_the_curator::watched(&plan.event(), NoiseSource::insecure(draws.word()));
    let mut stream = curator.open(&plan).ok()?;
    (0..BATCHES).try_for_each(|_| stream.next(&records, &[0.0]).ok().map(drop))?;
    Some(coordinate(&past_the_curator::seen(&curator), 0, CLIP))
}

/// A claim for a group of [`MOST`] rows: noise of as many clip norms.
pub(super) fn of_a_group() -> Result<Claim, String> {
    let event = Event::gaussian(MOST as f64).for_users_of(MOST);
    Claim::reported(&event, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

fn plain(key: &'static str) -> &'static str {
    key.trim()
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let noise = MOST as f64;
    vec![
        InjectedFault::counting(
            (
                "22.not-dropped",
                Altered,
                "rows of a person beyond the bound are not dropped",
                "person with one row more than the two that the guarantee is for; noisy sum",
            ),
            of_a_group(),
            (1_000, 6_000),
            move |code, with, draws| {
                let file = file(with, &["a", "a", "a"], &["b"]);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => released(capped(units(&file, plain)?, draws)?, noise, draws),
                    Code::Injected => released(examples(&file), noise, draws),
                };
                run(draws).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "22.file-order",
                Altered,
                "rows beyond a bound on all of them are dropped in the order of the file: a person's rows take the place of others'",
                "person's two rows before two of others, four kept in all or two; noisy sum",
            ),
            of_a_group(),
            (500, 6_000),
            move |code, with, draws| {
                let own: &[&str] = if with { &["a", "a"] } else { &[] };
                let file = file(with, own, &["b", "c"]);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => released(capped(units(&file, plain)?, draws)?, noise, draws),
                    Code::Injected => {
                        let kept = file[..2].to_vec();
                        released(examples(&kept), noise, draws)
                    }
                };
                run(draws).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "22.row-clip",
                Shipped,
                "gradients are clipped row by row where what is promised is a person's",
                "person with three rows; noisy sum",
            ),
            Claim::gaussian(1.0),
            (150, 6_000),
            move |code, with, draws| {
                let file = file(with, &["a", "a", "a"], &["b"]);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => released(units(&file, plain)?, 1.0, draws),
                    Code::Injected => released(examples(&file), 1.0, draws),
                };
                run(draws).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "22.bound-from-data",
                Altered,
                "the bound on a person's rows is the largest number in the data, and noise is made for it",
                "person with three rows, others with one; how far the noisy sum is from what others come to",
            ),
            of_a_group(),
            (500, 6_000),
            move |code, with, draws| {
                // the person's rows are gone, and not only empty: the largest number is another one then
                let own: &[&str] = if with { &["a", "a", "a"] } else { &[] };
                let file = file(with, own, &["b"]);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => released(capped(units(&file, plain)?, draws)?, noise, draws),
                    Code::Injected => {
                        let units = units(&file, plain)?;
                        let largest = (0..owners(&file, plain).units).map(|unit| units.of(unit).len()).max()?;
                        released(examples(&file), largest as f64, draws)
                    }
                };
                run(draws).map_or(f64::NAN, |sum| (sum + 1.0).abs())
            },
        ),
        InjectedFault::counting(
            (
                "22.key",
                Altered,
                "rows are counted by keys as they are written: ` 7` and `7` are one person and have twice as many rows",
                "person with two rows of either writing; noisy sum",
            ),
            of_a_group(),
            (330, 6_000),
            move |code, with, draws| {
                let file = file(with, &["7", " 7", "7", " 7"], &["b"]);
                let key = code.pick(plain as fn(&'static str) -> &'static str, |key| key);
                let run = |draws: &mut Draws| released(capped(units(&file, key)?, draws)?, noise, draws);
                run(draws).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "22.batches",
                Shipped,
                "rows are dealt to the batches of a stream where what is promised is a person's: a person takes part several times per epoch",
                "person with four rows, four batches; sum of all steps",
            ),
            Claim::gaussian(1.0),
            (400, 30_000),
            move |code, with, draws| {
                let file = file(with, &["a", "a", "a", "a"], &["b", "c", "d"]);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => streamed(units(&file, plain)?, Batching::Coin, draws),
                    Code::Injected => streamed(examples(&file), Batching::Coin, draws),
                };
                run(draws).map_or(f64::NAN, |steps| steps.iter().sum())
            },
        ),
        InjectedFault::counting(
            (
                "22.places",
                Shipped,
                "persons are dealt to the batches of a stream by their places: without one, those after it are in others",
                "first of eight persons or none, the third, fifth and seventh are not empty; all steps, along what moves",
            ),
            Claim::gaussian(1.0),
            (400, 30_000),
            move |code, with, draws| {
                // eight places of persons; who has no rows leaves none empty, and the last are
                let file =
                    [("a", 1.0), ("b", 0.0), ("c", -1.0), ("d", 0.0), ("e", -1.0), ("f", 0.0), ("g", -1.0), ("h", 0.0)];
                let file: File = file.into_iter().skip(usize::from(!with)).collect();
                let Owners { of_row, .. } = owners(&file, plain);
                let run = |draws: &mut Draws| match code {
                    Code::Correct => {
                        let units = Units::new(examples(&file), &Owners { of_row, units: 8 }).ok()?;
                        streamed(units, Batching::Coin, draws)
                    }
                    Code::Injected => {
                        let mut file = file;
                        file.resize(8, ("nobody", 0.0));
                        streamed(examples(&file), Batching::Position, draws)
                    }
                };
                // by places the four sums are 1, −1, −1, −1 or −1, −1, −1, 0
                run(draws).map_or(f64::NAN, |steps| 2.0 * steps[0] - steps[3])
            },
        ),
    ]
}
