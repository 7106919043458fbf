//! What the guarantee of a plan rests on, and why each item may be believed.

use super::kind::Method;
use super::plan::{Draft, Planner, told_of_records};
use super::schedule::{Batches, Layout};
use super::spider_schedule::SpiderSchedule;
use dpopt_mechanism::Batching;
use dpopt_optimize::plan::Assumption;
use dpopt_optimize::planning::{clipped, sampled_secretly};

impl Planner<'_> {
    pub(super) fn assumptions(&self, draft: &Draft, spider: Option<&SpiderSchedule>) -> Vec<Assumption> {
        let mut all = vec![match self.along {
            None if self.method == Method::Recursive => Assumption::enforced(
                "each record's weighted difference of two gradients has l2 norm at most the clip norm, as one vector: enforced in exact integers",
            ),
            // said of a record's part of a mean
            None if self.method == Method::OnePass => Assumption::enforced(
                "a record is read once, its gradients clipped after they are weighed: enforced in exact integers",
            ),
            None => clipped(),
            Some(along) => Assumption::enforced(format!(
                "each record's derivatives along the {} directions of a step have l2 norm at most the clip norm, as one vector: enforced in exact integers; \
                 directions depend on no record",
                along.directions
            )),
        }];
        all.extend(spider.into_iter().flat_map(|spider| spider.assumptions(draft.steps)));
        match draft.batches {
            Batches::All => {}
            Batches::Once(once) => {
                all.extend(once.assumptions());
            }
            Batches::Poisson { .. } => all.push(sampled_secretly()),
            Batches::Fixed { batch_size } => all.push(Assumption::enforced(format!(
                "each batch is a uniform choice of {batch_size} of the records, fresh and secret: drawn by the curator"
            ))),
            Batches::Stream { shape, batching, .. } => all.push(Assumption::proved(format!(
                "each record is in one of {} batches, {}, and contributes at most {} times, that many steps apart: \
                 all of it is accounted as one release",
                shape.batches,
                match batching {
                    Batching::Shuffled => "by its position in a random order that depends on no record",
                    Batching::Coin => "by a coin",
                    Batching::Position => "by its position",
                    Batching::Arrival | Batching::Arrivals(_) => "with which it came",
                },
                shape.epochs()
            ))),
        }
        if let Layout::Blocks { .. } = &self.layout {
            all.push(Assumption::enforced(format!(
                "each record is in one of {} blocks, chosen at random and never by its contents, and the releases of \
                 a phase read its own block only: enforced by the curator",
                self.layout.blocks()
            )));
        }
        if self.asked.smoothing.unwrap_or(0.0) > 0.0 {
            all.push(Assumption::proved(
                "each record's gradient is evaluated at a random point of its own, drawn by the record's position \
                 and never by its contents, and is then clipped",
            ));
        }
        if self.problem.remote {
            all.push(told_of_records(self.problem));
        }
        all
    }
}
