//! Choices among public candidates by what sensitive records say of each: a net's points, checkpoints.
//!
//! Covers: thesis theorem 6.4.8, algorithm 18

use super::{LibraryAudit, Reach};
use crate::worst_cases::candidates::{Checkpoints, Net};
use crate::worst_cases::choices::largest_loss;
use crate::worst_cases::indicator;
use dpopt_privacy::{Event, Relation};

pub(super) fn audits() -> Vec<LibraryAudit> {
    let net = Net::new(1, 3.0);
    let line = LibraryAudit::new(
        "net, three points",
        "a record of huge slope is replaced by one of the other sign, two are against the low end; 1{the low end}",
        net.as_ref().map(|net| net.event().clone()).map_err(Clone::clone),
        (0.0, 200_000),
        move |with, draws| {
            let Ok(net) = &net else { return f64::NAN };
            let chosen = net.chosen(!with, draws);
            if chosen.is_nan() { chosen } else { indicator(chosen < 0.0) }
        },
    );
    let checkpoints = Checkpoints::new();
    let choice = checkpoints.as_ref().ok().and_then(|c| c.choice(2.0, Relation::ReplaceOne).ok());
    let reach = largest_loss(2.0 / 4.0, [&[-3, -2], &[-5, 0]]);
    let best = LibraryAudit::new(
        "most stationary of two checkpoints",
        "a replaced record is with four and against one, or the other way; which one",
        Ok(Event::ExponentialMechanism { epsilon: 2.0 }),
        (0.0, 200_000),
        move |with, draws| {
            let (Ok(checkpoints), Some(choice)) = (&checkpoints, &choice) else { return f64::NAN };
            checkpoints.chosen(choice, with, draws)
        },
    );
    vec![
        line.under(Relation::ReplaceOne).counting(0.9).reaching(Reach::Epsilon(Net::loss(3.0))),
        best.under(Relation::ReplaceOne).counting(0.9).reaching(Reach::Epsilon(reach)),
    ]
}
