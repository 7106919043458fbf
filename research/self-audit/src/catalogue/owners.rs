//! Bugs of guarantees for rows with several owners (docs/proofs/units.md). Units of the clip norm C.

use super::Source::Altered;
use super::units::{MOST, examples, of_a_group, released};
use super::{Code, InjectedFault};
use dpopt_objective::records::{Examples, SharedOwners};
use std::num::NonZeroU64;

/// Rows in the order of a file, each with its sender and its recipient: +1 pushes the sum up, −1 down, 0 is a row of nothing.
type File = Vec<([&'static str; 2], f32)>;

/// Who owns which row, by the first `places` of its owners.
fn owners(file: &File, places: usize) -> Option<SharedOwners> {
    let mut keys: Vec<&str> = Vec::new();
    let of_row = file.iter().flat_map(|(owners, _)| &owners[..places]).map(|key| {
        keys.iter().position(|known| known == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        }) as u32
    });
    let of_row = of_row.collect();
    SharedOwners::new(of_row, places, keys.len()).ok()
}

fn rows(file: &File) -> Examples {
    examples(&file.iter().map(|(owners, target)| (owners[0], *target)).collect())
}

/// Those of whom nobody owns more than [`MOST`], counting the first `places` owners of each.
fn kept(file: &File, places: usize) -> Option<Examples> {
    owners(file, places)?.kept(NonZeroU64::new(MOST)?).of(&rows(file)).ok()
}

/// Rows of whom nobody owns more than [`MOST`], by a choice that takes rows which hold something first: the fault.
fn kept_by_contents(file: &File) -> Option<Examples> {
    let owners = owners(file, 2)?;
    let mut left = vec![MOST; owners.units()];
    let (full, empty): (Vec<usize>, Vec<usize>) = (0..file.len()).partition(|&row| file[row].1 != 0.0);
    let fits = |row: &usize| {
        let fits = owners.of(*row).all(|unit| left[unit as usize] > 0);
        if fits {
            owners.of(*row).for_each(|unit| left[unit as usize] -= 1);
        }
        fits
    };
    let kept: Vec<usize> = full.into_iter().chain(empty).filter(fits).collect();
    Some(rows(&kept.into_iter().map(|row| file[row]).collect()))
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let noise = MOST as f64;
    vec![
        InjectedFault::counting(
            (
                "22.one-owner-counted",
                Altered,
                "of rows with a sender and a recipient only the sender's are bounded",
                "person who gets four rows from four others, of which two may count; noisy sum",
            ),
            of_a_group(),
            (400, 6_000),
            move |code, with, draws| {
                let own = ["a", "b", "c", "d"].map(|from| ([from, "person"], f32::from(u8::from(with))));
                let file: File = own.into_iter().chain([(["e", "f"], -1.0)]).collect();
                let places = code.pick(2, 1);
                kept(&file, places).and_then(|rows| released(rows, noise, draws)).unwrap_or(f64::NAN)
            },
        ),
        InjectedFault::counting(
            (
                "22.owners-greedy-sees-contents",
                Altered,
                "which rows are kept depends on what is in them: a person's rows let others' in, and these push out those of yet others",
                "person with two rows at the end of a chain of others, every second of whose rows pushes up; noisy sum",
            ),
            of_a_group(),
            (150, 6_000),
            move |code, with, draws| {
                let own = [(["person", "a"], f32::from(u8::from(with))); 2];
                let chain = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "f"]].into_iter().enumerate();
                let others = chain.flat_map(|(i, pair)| [(pair, if i % 2 == 0 { -1.0 } else { 1.0 }); 2]);
                let file: File = own.into_iter().chain(others).collect();
                let rows = match code {
                    Code::Correct => kept(&file, 2),
                    Code::Injected => kept_by_contents(&file),
                };
                rows.and_then(|rows| released(rows, noise, draws)).unwrap_or(f64::NAN)
            },
        ),
    ]
}
