//! Faults of the exponential mechanism in other norms (Liu 2024, Theorem 4.4.2).
//!
//! Covers: thesis theorem 4.4.2, proposition 4.4.7 (04.one-lipschitz, 04.dual-norm, 04.rescaled)

use super::InjectedFault;
use super::Source::Shipped;
use super::gibbs::{hotter, inject, says};
use crate::library::general_norms::subject;
use crate::library::gibbs::ideal;
use crate::worst_cases::methods::Subject;
use dpopt_audit::statistics::Claim;
use dpopt_linear::{ExponentialMechanism, GibbsSchedule};
use dpopt_mechanism::sampler::NormSquare;
use dpopt_privacy::Relation;

/// q = 1 + 1/ln d and c = 1/(q − 1): strongly convex in l_q, but not in l_1.
fn not_rescaled(schedule: &mut GibbsSchedule) {
    inject(schedule, |chain| {
        let q = 1.0 + 1.0 / 3f64.ln();
        chain.norm = NormSquare::new(q, q, 3);
    });
}

fn not_shrunk(schedule: &mut GibbsSchedule) {
    inject(schedule, |chain| chain.shrunk = None);
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let counting = |text: (&'static str, &'static str, &'static str),
                    relation: Relation,
                    effort: (u64, u64),
                    injected: fn(Subject<ExponentialMechanism>) -> Subject<ExponentialMechanism>| {
        let (number, bug, pair) = text;
        let (right, wrong) = (subject(relation), injected(subject(relation)));
        let event = right.event().map(ideal);
        let claim = event.and_then(|event| Claim::reported(&event, relation, super::DELTA).map_err(|e| e.to_string()));
        InjectedFault::counting((number, Shipped, bug, pair), claim, effort, move |code, with, draws| {
            code.pick(&right, &wrong).run(with, draws, |_, _, view| view.weights.iter().sum())
        })
    };
    vec![
        counting(
            (
                "04.one-lipschitz",
                "temperature in l_1 for the Lipschitz constant of one loss where a record is replaced (twice that)",
                "slope +1 against -1, equal entries; sum of weights",
            ),
            Relation::ReplaceOne,
            (211, 200_000),
            |subject| subject.altered_and_opened(hotter, says),
        ),
        counting(
            (
                "04.dual-norm",
                "rows not shrunk to the dual norm that the temperature is made for",
                "record of equal entries, twice the bound; sum of weights",
            ),
            Relation::ZeroOut,
            (211, 200_000),
            |subject| subject.altered(not_shrunk),
        ),
        counting(
            (
                "04.rescaled",
                "in l_1, q = 1 + 1/ln d without the factor d^(2(1 - 1/q)) of the regulariser",
                "record of equal entries; sum of weights",
            ),
            Relation::ZeroOut,
            (600, 200_000),
            |subject| subject.altered(not_rescaled),
        ),
    ]
}
