//! A draw is refused where its chain has no proof, and where it is not the one that was certified and paid for.

use super::*;
use dpopt_kernel::{Curator, SamplerError, Sensitive};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::synthetic::table;
use dpopt_privacy::{Budget, Neighbours, certify};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

fn facts(relation: Relation) -> GibbsFacts {
    GibbsFacts {
        objective: Linear::new(LOGISTIC, 3, 1.0),
        rows: 40,
        nonzeros: 3,
        target_bound: 1.0,
        relation,
        mu: 0.2,
        total_variation: 1e-8,
        constant_time: false,
        geometry: None,
    }
}

/// A curator for one such draw.
fn certified(draw: &GibbsDraw) -> Curator {
    let event = SamplerError::proved(draw.chain().total_variation).on(draw.event());
    let budget = Neighbours::of_records(draw.facts().relation).within(Budget::new(1.0, 1e-6).unwrap());
    Curator::new(&certify(&event, budget).unwrap(), NoiseSource::insecure(1))
}

fn data() -> Sensitive<Examples> {
    Sensitive::new(table(1, 40, 1, 2, 1.0, LOGISTIC))
}

#[test]
fn what_has_no_proof_is_not_drawn() {
    let proved = facts(Relation::ZeroOut);
    assert!(proved.draw(10.0).is_some() && GibbsFacts { constant_time: true, ..proved }.draw(10.0).is_some());
    for lambda in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(proved.draw(lambda).is_none(), "{lambda}");
    }
    let of = |loss: Loss| GibbsFacts { objective: proved.objective.with_loss(loss), ..proved };
    for wrong in [
        of(Loss::Sigmoid),
        of(Loss::Squared),
        of(Loss::Logistic { shift: f64::NAN }),
        of(Loss::Huber { threshold: -1.0 }),
        of(Loss::SmoothedHinge { width: -1.0 }),
        of(Loss::SmoothedHinge { width: f64::INFINITY }),
        of(Loss::Softmax { classes: 0 }),
        GibbsFacts { relation: Relation::AddOrRemove, ..proved },
        GibbsFacts { rows: 0, ..proved },
        // an ocean of rows: doubles can't carry the potential
        GibbsFacts { rows: 1 << 60, ..proved },
        GibbsFacts { target_bound: f64::NAN, ..of(Loss::Absolute) },
        GibbsFacts { target_bound: f64::INFINITY, ..of(Loss::Absolute) },
        GibbsFacts { mu: f64::INFINITY, ..proved },
        GibbsFacts { mu: -0.2, ..proved },
        GibbsFacts { total_variation: 0.0, ..proved },
        GibbsFacts { total_variation: f64::NAN, ..proved },
        GibbsFacts { total_variation: 1e-17, ..proved },
        GibbsFacts { objective: Linear::new(LOGISTIC, 3, -1.0), ..proved },
        GibbsFacts { objective: Linear::new(LOGISTIC, 0, 1.0), ..proved },
    ] {
        assert!(wrong.draw(10.0).is_none(), "{wrong:?}");
    }
    // a pull that is weak against the curvature allows long steps, of which so few are sure to be accepted that in constant time
    // no number of proposals that anybody could evaluate is enough
    let lone = GibbsFacts { objective: Linear::new(Loss::Absolute, 1, 1.0), rows: 1, mu: 0.25, ..proved };
    assert!(lone.draw(10.0).is_some() && GibbsFacts { constant_time: true, ..lone }.draw(10.0).is_none());
}

#[test]
fn the_event_and_the_distance_are_those_of_the_facts() {
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        for loss in [LOGISTIC, Loss::Hinge, Loss::Huber { threshold: 0.5 }, Loss::Softmax { classes: 3 }] {
            for constant_time in [false, true] {
                let of_relation = facts(relation);
                let facts =
                    GibbsFacts { objective: of_relation.objective.with_loss(loss), constant_time, ..of_relation };
                let draw = facts.draw(10.0).unwrap();
                let Event::Gdp { mu } = draw.event() else { panic!("no theorem for {loss:?}") };
                assert!(mu <= 0.2 && mu > 0.2 * (1.0 - 1e-12), "{mu}");
                // half for the rounds, the rest for what the machine and the tails do
                let paid = draw.chain().total_variation;
                assert!(paid <= 1e-8 && paid > 0.25e-8, "{paid}");
                assert_eq!(draw.chain().oracle.proposals.is_some(), constant_time);
            }
        }
    }
}

#[test]
fn rows_that_a_draw_was_not_made_for_are_refused_before_they_are_read() {
    let proved = facts(Relation::ZeroOut);
    let mut curator = certified(&proved.draw(10.0).unwrap());
    let of = |features: usize, norm: f64| Linear::new(LOGISTIC, features, norm);
    for (wrong, sensitivity) in [
        (GibbsFacts { objective: of(3, 0.5), ..proved }, true),
        (GibbsFacts { objective: of(4, 1.0), ..proved }, false),
        (GibbsFacts { rows: 41, ..proved }, false),
    ] {
        let refused = curator.release(&wrong.draw(10.0).unwrap(), &data()).unwrap_err();
        assert_eq!(matches!(refused, CuratorError::Sensitivity { .. }), sensitivity, "{refused:?}");
        assert!(sensitivity || refused == CuratorError::Shape, "{refused:?}");
    }
    assert!(curator.release(&proved.draw(10.0).unwrap(), &data()).is_ok());
}

#[test]
fn another_draw_than_the_certified_one_is_refused() {
    let proved = facts(Relation::ZeroOut);
    let planned = proved.draw(10.0).unwrap();
    let mut curator = certified(&planned);
    let with = |change: fn(&mut GibbsChain)| {
        let mut draw = planned.clone();
        change(&mut draw.chain);
        draw
    };
    let with_facts = |facts: GibbsFacts| GibbsDraw { facts, chain: planned.chain.clone() };
    // a colder measure is another event, and so are less curvature and a longer slope
    let steeper = proved.objective.with_loss(Loss::Huber { threshold: 2.0 });
    for injected in [
        GibbsFacts { mu: 0.3, ..proved }.draw(10.0).unwrap(),
        with(|chain| chain.inverse_temperature *= 2.0),
        with(|chain| chain.regularization *= 0.5),
        with_facts(GibbsFacts { objective: steeper, ..proved }),
    ] {
        let refused = curator.release(&injected, &data()).map(drop);
        assert!(matches!(refused, Err(CuratorError::Unforeseen { .. })), "{refused:?}");
    }
    // a loss that is not convex has no theorem
    let bent = with_facts(GibbsFacts { objective: proved.objective.with_loss(Loss::Sigmoid), ..proved });
    assert_eq!(bent.event(), Event::NonPrivate);
    // chains further from their law than what was paid for
    for further in
        [with(|chain| chain.total_variation *= 2.0), GibbsFacts { total_variation: 1e-7, ..proved }.draw(10.0).unwrap()]
    {
        assert_eq!(further.event(), planned.event());
        assert!(matches!(curator.release(&further, &data()), Err(CuratorError::Inexact { .. })));
    }
    assert!(curator.release(&planned, &data()).is_ok());
}

/// Also where the event comes out the same.
#[test]
fn a_draw_made_for_another_relation_is_refused() {
    let right = facts(Relation::ReplaceOne).draw(10.0).unwrap();
    let mut hot = GibbsDraw { facts: facts(Relation::ZeroOut), ..right.clone() };
    hot.chain.inverse_temperature *= 4.0;
    assert_eq!(hot.event(), right.event());
    let mut curator = certified(&right);
    assert!(matches!(curator.release(&hot, &data()), Err(CuratorError::OtherRelation { .. })));
    assert!(curator.release(&right, &data()).is_ok());
}
