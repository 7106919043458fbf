//! Records that come batch by batch, and rewards in sums of their own.

use super::LibraryAudit;
use crate::worst_cases::arrivals::{alone, arrived, fresh, plan, shape, sums};
use crate::worst_cases::streams::Filter;
use dpopt_mechanism::Interactive;
use dpopt_noise::NoiseSource;
use dpopt_privacy::Relation;

pub(super) fn audits() -> Vec<LibraryAudit> {
    let filter = Filter::new(shape(), &[0]);
    let mechanism = sums();
    let sum_event = mechanism.as_ref().map(Interactive::event).map_err(Clone::clone);
    vec![
        LibraryAudit::new(
            "partial_fit, batches that arrive",
            "canary in the first of 4 batches, all sums seen; matched filter",
            plan().map(|plan| plan.event()),
            (1e-5, 100_000),
            move |with, draws| {
                let Ok(filter) = &filter else { return f64::NAN };
                filter.apply(&arrived(&alone(&[0], with), NoiseSource::insecure(draws.word())))
            },
        )
        .gaussian(),
        LibraryAudit::new(
            "sums that each have rounds of their own",
            "reward of 1 or 0 in the second of 3 sums, all of them seen; 1{that sum is at least 1}",
            sum_event,
            (0.0, 100_000),
            move |with, draws| {
                let Ok(mechanism) = &mechanism else { return f64::NAN };
                let numbers = [vec![0.5], vec![0.0, f64::from(u8::from(with))], vec![0.25]];
                let all = fresh(mechanism, &numbers, draws);
                if all.len() == 3 { f64::from(u8::from(all[1] >= 1.0)) } else { f64::NAN }
            },
        )
        .under(Relation::ReplaceOne)
        .counting(0.9),
    ]
}
