//! Bounds that were worked out before. Methods that are compared, and runs that are repeated, ask for the same events again and again; a bound is a function of public
//! numbers only.

use super::{AccountingError, Bound};
use dpopt_process::locked;
use std::collections::HashMap;
use std::sync::Mutex;

/// Bounds that are kept; when there are as many, all are forgotten.
const MOST: usize = 4096;

/// The fingerprint of an event, and what else a bound depends on, as text.
pub(super) type BoundKey = ([u8; 32], String);
type Known = HashMap<BoundKey, Result<Bound, AccountingError>>;

/// The value of `work`, kept under `question`, which contains everything that it depends on.
pub(super) fn known(
    question: BoundKey,
    work: impl FnOnce() -> Result<Bound, AccountingError>,
) -> Result<Bound, AccountingError> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    // nothing is kept in a copy of a process whose lock is lost
    let kept = || locked(&KNOWN);
    if let Some(answer) = kept().and_then(|known| known.as_ref()?.get(&question).cloned()) {
        return answer;
    }
    // not under the lock: events are worked out in parallel
    let answer = work();
    let Some(mut kept) = kept() else { return answer };
    let known = kept.get_or_insert_default();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(question, answer.clone());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accountant::pld::Quality;
    use crate::accountant::{automatic_epsilon, epsilon_at};
    use dpopt_event::{Event, Relation};

    #[test]
    fn what_is_known_is_what_is_worked_out() {
        for (noise, delta) in [(1.0, 1e-6), (1.0 + f64::EPSILON, 1e-6), (1.0, 1e-7), (2.0, 1e-6)] {
            for event in [Event::gaussian(noise), Event::gaussian(noise).poisson_sampled(0.01).self_composed(100)] {
                for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
                    for quality in [Quality::COARSE, Quality::BRACKET] {
                        let worked_out = automatic_epsilon(&event, relation, delta, quality);
                        for _ in 0..2 {
                            assert_eq!(epsilon_at(&event, relation, delta, quality), worked_out);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn errors_are_kept() {
        let counted = std::cell::Cell::new(0);
        let work = || {
            counted.set(counted.get() + 1);
            Err(AccountingError::Parameter("no such event".into()))
        };
        let question = (Event::gaussian(1.0).fingerprint(), "a question of this test".to_string());
        let answers: Vec<_> = (0..3).map(|_| known(question.clone(), work)).collect();
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(counted.get(), 1);
    }
}
