//! Choices among public candidates by what sensitive records say of each: points of a net and of a tree, checkpoints.
//!
//! Covers: thesis theorem 6.4.1, theorem 6.4.6, theorem 6.4.8, algorithm 18

use super::{LibraryAudit, Reach};
use crate::worst_cases::candidates::{Checkpoints, Net, Says, Stream, Tree};
use crate::worst_cases::choices::largest_loss;
use crate::worst_cases::comparisons::{plan, then_one_above_loss};
use crate::worst_cases::indicator;
use dpopt_minimize::stationary::StationaryOptions;
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
    let tree = Tree::halves(3.0);
    let halves = LibraryAudit::new(
        "tree, eight points",
        "a record for one half of them is replaced by one for the other, two are against the low half; 1{the low half}",
        tree.as_ref().map(Tree::event).map_err(ToString::to_string),
        (0.0, 200_000),
        move |with, draws| {
            let Ok(tree) = &tree else { return f64::NAN };
            let chosen = tree.chosen(with, draws);
            if chosen.is_nan() { chosen } else { indicator(chosen < 0.0) }
        },
    );
    let checkpoints = Checkpoints::new();
    let choice = checkpoints.as_ref().ok().and_then(|c| c.choice(2.0, Relation::ReplaceOne).ok());
    let best_reach = largest_loss(2.0 / 4.0, [&[-3, -2], &[-5, 0]]);
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
    // six records, norm wanted 3: ten candidates of norm 3 that the record makes 4, and one of norm 1 that it makes 0
    let says = |first: f64, last: f64| Says { kinds: [first, last], curvature: 0.0 };
    let all = [says(1.0, 1.0), says(1.0, 0.0), says(1.0, 0.0), says(0.0, 0.0), says(0.0, 0.0), says(1.0, -1.0)];
    let options = StationaryOptions { target: Some(0.5), first: true, ..StationaryOptions::default() };
    let stream = Stream::new((11, |candidate| candidate / 10), 1.0, &options, &all);
    let reach = plan(false).map_or(Reach::Unknown, |plan| Reach::Epsilon(then_one_above_loss(&plan, 10, 3)));
    let first = LibraryAudit::new(
        "first stationary candidate",
        "10 norms go from what is wanted to one clip norm above, the last from 2 to 3 below; 1{only the last is taken}",
        stream.as_ref().map(|stream| stream.event().clone()).map_err(Clone::clone),
        (0.0, 1_000_000),
        move |with, draws| {
            let taken = stream.as_ref().ok().and_then(|stream| stream.taken(with, draws));
            taken.map_or(f64::NAN, |taken| indicator(taken == Some(10)))
        },
    );
    vec![
        line.under(Relation::ReplaceOne).counting(0.9).reaching(Reach::Epsilon(Net::loss(3.0))),
        halves.under(Relation::ReplaceOne).counting(0.9).reaching(Reach::Epsilon(Tree::loss_of_halves(3.0))),
        best.under(Relation::ReplaceOne).counting(0.9).reaching(Reach::Epsilon(best_reach)),
        first.counting(0.85).reaching(reach).costly(),
    ]
}
