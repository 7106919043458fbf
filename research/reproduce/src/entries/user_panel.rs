//! What protecting a person costs where each has many rows: a fit by unit against group privacy and against rows, on generated panels; and the
//! excess risk of per-unit clipping on a quadratic (the setting of Liu 2024, chapter 9).

mod fits;
mod quadratic;
mod shown;
mod speakers;
mod towers;
mod utility;

use crate::{Entry, Failure, Fidelity, Lab, Outcome, Verdict};

/// Accuracy against ε, and excess risk.
pub const ENTRY: Entry = Entry {
    name: "user-panel",
    source: "user-level mean and convex optimisation, the claim that m rows of a unit divide the noise by √m",
    shows: "test accuracy against ε where a unit has 100 rows: per unit, by group privacy, and row by row; excess risk of a quadratic",
    fidelity: Fidelity::Theory,
    revision: 2,
    run,
};

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let quadratic = quadratic::run(lab)?;
    let utility = utility::run(lab)?;
    let towers = towers::run(lab)?;
    let speakers = speakers::run(lab);
    // a text that is not here is no reason to show nothing of what is generated
    let speakers = match speakers {
        Err(Failure::Data { .. }) => None,
        other => Some(other?),
    };
    let compared: Vec<_> = [utility.compared, towers.compared, quadratic.compared].into_iter().flatten().collect();
    let sentence = format!("{} {} {}", utility.sentence, towers.sentence, quadratic.sentence);
    let mut outcome = Outcome {
        tables: vec![utility.accuracy, towers.table, quadratic.table],
        charts: vec![
            ("figure".into(), utility.chart),
            ("towers".into(), towers.chart),
            ("quadratic".into(), quadratic.chart),
        ],
        verdict: Verdict::of_checks(&compared, sentence),
        compared,
        notes: utility.notes.into_iter().chain([towers.note]).chain(quadratic.notes).collect(),
    };
    match speakers {
        Some(part) => {
            outcome.tables.push(part.table);
            outcome.charts.push(("speakers".into(), part.chart));
            outcome.notes.push(part.note);
        }
        None => outcome.notes.push(
            "Speakers: not computed; --data DIR, or $DPOPT_DATA, names the folder that has tinyshakespeare/input.txt."
                .into(),
        ),
    }
    Ok(outcome)
}
