//! Our bounds against exact values and other accountants' valid numbers, without Python: `data/crosscheck.json` is written by
//! `make crosscheck` (its first lines say from which versions).

use dpopt_privacy::accountant;
use dpopt_privacy::accountant::pld::Quality;
use dpopt_privacy::{Event, Relation};
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
struct List {
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    event: Event,
    relation: Relation,
    delta: f64,
    peers: BTreeMap<String, f64>,
    exact: Option<f64>,
    method: Option<String>,
}

#[test]
fn never_below_the_truth_and_within_a_thousandth_of_the_best_peer() {
    let list: List = serde_json::from_str(include_str!("data/crosscheck.json")).unwrap();
    let (mut exact, mut compared) = (0, 0);
    for case in &list.cases {
        let bound = accountant::epsilon_at(&case.event, case.relation, case.delta, Quality::BRACKET).unwrap();
        let (upper, lower) = (bound.upper, bound.lower.unwrap_or(0.0));
        let what = format!("{} under {} at {:e}: {upper}", case.event, case.relation, case.delta);
        assert!(lower <= upper, "{what}, attained {lower}");
        if let Some(truth) = case.exact {
            // 50 digits are good to the last one of an f64, the inversion to 1e-7
            let good = if case.method.as_deref() == Some("50 digits") { 1e-14 } else { 1e-7 };
            let room = if good < 1e-10 { 0.0 } else { 1e-9 };
            assert!(upper >= truth * (1.0 - good) - room, "{what} is below the exact {truth}");
            assert!(lower <= truth * (1.0 + good) + room, "{what}: attained {lower} is above the exact {truth}");
            assert!(upper <= truth * 1.0005 + 1e-7, "{what} is far above the exact {truth}");
            exact += 1;
        }
        for (peer, number) in &case.peers {
            assert!(upper <= number * 1.001 + 1e-9, "{what}, {peer} has {number}");
            compared += 1;
        }
    }
    assert!(exact >= 150 && compared >= 250, "{exact} exact values, {compared} numbers of peers");
}
