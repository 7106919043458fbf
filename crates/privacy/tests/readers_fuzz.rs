//! Whatever is typed, sent or found on disk: the readers of expressions, JSON and ledgers never panic or hang, and an event that
//! they accept gets answers that pass the gate.

#[allow(dead_code, reason = "the generator alone; the questions and truths of the hunt are not needed here")]
mod corners;

use corners::Corners;
use dpopt_privacy::accountant::{self, AccountingError, pld};
use dpopt_privacy::ledger::{Ledger, Purpose};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify, expression};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::time::{Duration, Instant};

const WORDS: [&str; 49] = [
    "gaussian(",
    "laplace(",
    "discrete_laplace(",
    "discrete_gaussian(",
    "randomized_response(",
    "exponential(",
    "permute_and_flip(",
    "mixture(",
    "chi_square(",
    "tree(",
    "objective(",
    "pure(",
    "approx(",
    "epsilon_delta(",
    "gdp(",
    "zcdp(",
    "rdp(",
    "profile(",
    "poisson(",
    "truncated_poisson(",
    "random_allocation(",
    "subset(",
    "draws(",
    "best_of(",
    "parallel(",
    "users(",
    "approximate(",
    "nothing()",
    "non_private()",
    ")",
    ")",
    ")",
    ",",
    ",",
    ":",
    " x ",
    " + ",
    "*",
    "?",
    "1e-300",
    "1e308",
    "0",
    "1",
    "3",
    "0.5",
    "1/3",
    "1000000000",
    "-1",
    "inf",
];

/// Small mistakes in a text that was right: a byte changed, dropped, doubled, or a number replaced by an extreme one.
fn damaged(text: &[u8], edits: &[(u16, u8, u8)]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for &(place, kind, byte) in edits {
        if bytes.is_empty() {
            break;
        }
        let at = place as usize % bytes.len();
        match kind % 5 {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            3 => bytes.truncate(at),
            _ => {
                let digit = (at..bytes.len()).find(|i| bytes[*i].is_ascii_digit());
                let extreme = ["1e308", "1e-320", "0", "-1", "99999999999999999999", "NaN"][byte as usize % 6];
                if let Some(i) = digit {
                    let end = (i..bytes.len()).find(|j| !bytes[*j].is_ascii_digit()).unwrap_or(bytes.len());
                    bytes.splice(i..end, extreme.bytes());
                }
            }
        }
    }
    bytes
}

/// The oracle: what was accepted is answered soundly, within a bounded time.
fn sound(event: &Event) -> Result<(), TestCaseError> {
    let clock = Instant::now();
    let again = event.to_json().ok().and_then(|text| Event::from_json(&text).ok());
    prop_assert!(again.is_none_or(|again| again == *event), "{event} does not survive JSON");
    let unprotected = event.to_string().contains("NonPrivate");
    for relation in [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne] {
        for answer in [
            accountant::epsilon_at(event, relation, 1e-6, pld::Quality::COARSE),
            accountant::delta_at(event, relation, 1.0, pld::Quality::COARSE),
        ] {
            match answer {
                // no protection is infinity, and nothing else is
                Ok(bound) if bound.upper.is_infinite() => prop_assert!(unprotected, "{event}: {bound:?}"),
                Ok(bound) => prop_assert!(bound.upper >= 0.0, "{event}: {bound:?}"),
                Err(AccountingError::Contradicted { reason, .. }) => prop_assert!(false, "{event}: {reason}"),
                Err(_) => {}
            }
        }
    }
    prop_assert!(clock.elapsed() < Duration::from_secs(900), "{event}: {:?}", clock.elapsed());
    Ok(())
}

fn edits(most: usize) -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
    prop::collection::vec(any::<(u16, u8, u8)>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(20), failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn expressions(words in prop::collection::vec(0..WORDS.len(), 1..24)) {
        let text: String = words.into_iter().map(|i| WORDS[i]).collect();
        if let Ok(event) = expression::parse(&text, Some(1.5)) {
            sound(&event)?;
        }
    }

    #[test]
    fn any_text(text in ".{0,200}") {
        let _ = expression::parse(&text, None);
        let _ = expression::free_parameters(&text);
        let _ = Event::from_json(&text);
    }

    #[test]
    fn damaged_expressions(edits in edits(4), which in 0usize..4) {
        let right = [
            "poisson(0.01, gaussian(1.1)) x 1000 + laplace(2)",
            "users(3, discrete_gaussian(2, 3, 1)) + parallel(gaussian(1), pure(1))",
            "subset(1000, 10, laplace(1)) * 20 + profile(0: 0.1, 1: 1e-6) + rdp(2: 1, 3: 2)",
            "best_of(10, inf, approximate(1e-9, gaussian(5))) + mixture(1, 0: 0.5, 1: 0.5) + tree(2, 10, 20)",
        ][which];
        let bytes = damaged(right.as_bytes(), &edits);
        if let Ok(event) = expression::parse(&String::from_utf8_lossy(&bytes), Some(2.0)) {
            sound(&event)?;
        }
    }

    #[test]
    fn damaged_json(seed in any::<u64>(), edits in edits(4)) {
        let mut corners = Corners::new(seed);
        let relation = corners.relation();
        let text = corners.event(relation).to_json().unwrap_or_default();
        let bytes = damaged(text.as_bytes(), &edits);
        if let Ok(event) = Event::from_json(&String::from_utf8_lossy(&bytes)) {
            sound(&event)?;
        }
    }

    #[test]
    fn damaged_ledgers(edits in edits(6)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("budget.jsonl");
        let total = Budget::new(4.0, 1e-5).unwrap();
        let terms = Neighbours::of_records(Relation::ZeroOut).within(total);
        let purpose = Purpose { label: "census".into(), terms, unit_names: Vec::new(), rule: None };
        let own = certify(&Event::gaussian(20.0), Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6).unwrap())).unwrap();
        let mut ledger = Ledger::open_or_create(&path, &purpose).unwrap();
        for _ in 0..3 {
            ledger.charge("run", &own).unwrap();
        }
        let spent = ledger.status().unwrap().share;
        drop(ledger);
        let right = std::fs::read(&path).unwrap();
        let wrong = damaged(&right, &edits);
        std::fs::write(&path, &wrong).unwrap();
        let clock = Instant::now();
        if let Ok(mut ledger) = Ledger::open(&path)
            && let Ok(status) = ledger.status() {
                prop_assert!(status.share >= 0.0 && status.share <= 1.0 && status.charges.len() <= 3);
                // each line vouches for the ones before it: what is read in full is what was written
                prop_assert!(status.charges.len() < 3 || status.share == spent, "{} after {spent}", status.share);
            }
        prop_assert!(clock.elapsed() < Duration::from_secs(900));
    }
}
