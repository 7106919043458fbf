//! The curator refuses what the plan does not foresee, and what a mechanism was not made for.

use super::*;
use dpopt_kernel::beside::Expose;
use dpopt_kernel::beside::uncharged;
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_objective::objective::{Embedded, Linear};
use dpopt_objective::synthetic::table;
use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};

const LOSS: Loss = Loss::Logistic { shift: 0.0 };

fn gradient(clip: f64, features: usize) -> Clipped<Linear> {
    Clipped::new(Linear::new(LOSS, features, 1.0), clip, Grid::new(-30)).unwrap()
}

fn curator(event: Event) -> Curator {
    uncharged(&event, NoiseSource::insecure(1))
}

/// A certificate without a δ takes samplers as exact: they are of the exact law.
#[test]
fn a_pure_guarantee_does_not_pay_for_samplers() {
    let pure = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(8.0, 0.0).unwrap());
    let counts = DiscreteLaplaceNoise::new(3.0, 1);
    let mut curator = Curator::new(&certify(&counts.event(), pure).unwrap(), NoiseSource::insecure(1));
    assert!(curator.release(&counts, &Counts::declared(vec![1, 2], 1.0)).is_ok());
}

/// The event of a choice does not say for which relation its noise was made: the curator asks.
#[test]
fn noise_made_for_another_relation_is_refused() {
    let pure = Budget::new(1.0, 0.0).unwrap();
    let choice = |relation| Choice::new(ChoiceLaw::Exponential, 1.0, 1, false, relation).unwrap();
    let event = choice(Relation::ReplaceOne).event();
    let certificate = certify(&event, Neighbours::of_records(Relation::ReplaceOne).within(pure)).unwrap();
    let mut curator = Curator::new(&certificate, NoiseSource::insecure(1));
    let scores = Counts::declared(vec![3, 4], 1.0);
    assert!(matches!(curator.release(&choice(Relation::ZeroOut), &scores), Err(CuratorError::OtherRelation { .. })));
    let comparisons = AboveThreshold::new(1.0, 1, 3, false, Relation::ZeroOut).unwrap();
    assert!(matches!(curator.open(&comparisons), Err(CuratorError::OtherRelation { .. })));
    assert!(curator.release(&choice(Relation::ReplaceOne), &scores).is_ok());
}

#[test]
fn what_is_taken_no_times_is_no_release() {
    let none = Event::gaussian(1.0).self_composed(0);
    let law = dpopt_draws::Repetitions::negative_binomial(1.0, 5.0).unwrap();
    assert!(matches!(
        curator(Event::gaussian(2.0)).open(&AssumedSearch::new(none, law)),
        Err(CuratorError::Unforeseen { .. })
    ));
}

/// A mechanism whose noise is made smaller says so itself: its event is another one, which no plan foresees.
#[test]
fn less_noise_is_another_event() {
    let unforeseen = |refused: Result<(), CuratorError>| {
        assert!(matches!(refused, Err(CuratorError::Unforeseen { .. })), "{refused:?}");
    };
    let counts = Counts::declared(vec![3, 4], 1.0);
    let laplace = DiscreteLaplaceNoise::new(2.0, 1);
    unforeseen(curator(laplace.event()).release(&DiscreteLaplaceNoise::new(1.0, 1), &counts).map(drop));
    let choice = |epsilon| Choice::new(ChoiceLaw::PermuteAndFlip, epsilon, 1, false, Relation::ZeroOut).unwrap();
    unforeseen(curator(choice(1.0).event()).release(&choice(2.0), &counts).map(drop));
    let comparisons = |epsilon| AboveThreshold::new(epsilon, 1, 3, false, Relation::ZeroOut).unwrap();
    unforeseen(curator(comparisons(1.0).event()).open(&comparisons(1.5)).map(drop));
}

#[test]
fn a_sparse_sum_finds_nothing_beyond_the_records_there_are() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let clipped = gradient(0.5, 7);
    let mut curator = curator(Event::gaussian(2.0).poisson_sampled(1.0));
    let [known, more] = [200, 1000].map(|records| curator.poisson_sample(records, 1.0).unwrap());
    let [known, more] = [known, more].map(|batch| {
        let sum =
            SparseGridSum::of(&clipped, &examples, Some(batch), &SparseVector::default(), Formed::BySparseEntries)
                .unwrap();
        sum.expose().entries.clone()
    });
    assert_eq!(known, more);
}

/// Objectives of other rows than there are would find places beyond the noise.
#[test]
fn sums_of_another_width_are_refused_before_a_record_is_read() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let grid = Grid::new(-20);
    let softmax = Clipped::new(Linear::new(Loss::Softmax { classes: 3 }, 7, 1.0), 0.5, grid).unwrap();
    let wide = Clipped::new(Linear::new(LOSS, 8, 1.0), 0.5, grid).unwrap();
    for clipped in [softmax, wide] {
        for formed in [Formed::BySparseEntries, Formed::OverAllCoordinates] {
            let sum = SparseGridSum::of(&clipped, &examples, None, &SparseVector::default(), formed);
            assert!(matches!(sum, Err(CuratorError::Shape)));
        }
    }
    let event = Event::gaussian(2.0).poisson_sampled(1.0);
    let mut curator = uncharged(&event, NoiseSource::insecure(1));
    let model = Embedding { dimension: 2, towers: None, seed: 0 };
    for (features, fits) in [(7, true), (6, false), (8, false)] {
        let embedded = Embedded::new(model.clone(), LOSS, features, 1.0, 0);
        let moved = vec![0.0; embedded.length()];
        let batch = curator.poisson_sample(200, 1.0).unwrap();
        let touched =
            TouchedRows::of(&Clipped::new(embedded, 0.5, grid).unwrap(), &examples, batch, &moved, (1.0, grid));
        assert_eq!(touched.is_ok(), fits, "{features}");
    }
    // sums over a batch for noise of another dimension
    let event = Event::gaussian(2.0).sampled_without_replacement(200, 1);
    let mut curator = uncharged(&event, NoiseSource::insecure(1));
    let batch = curator.fixed_sample(200, 1).unwrap();
    let point = ScaledPoint { scale: 1.0, direction: &[] };
    let sums = BatchGradients::of(&gradient(0.5, 7), &examples, batch, false, point);
    let noise = ProjectedGradients {
        noise_multiplier: 2.0,
        clip_norm: 0.5,
        grid: gradient(0.5, 7).grid(),
        dimension: 3,
        sparsity: 1.0,
        telescoped: false,
    };
    assert!(matches!(curator.release(&noise, &sums), Err(CuratorError::Shape)));
    assert!(curator.release(&ProjectedGradients { dimension: 7, ..noise }, &sums).is_ok());
}

/// τ and the steps of a minimiser follow from the planned number of records: more than those have no promise.
#[test]
fn a_minimiser_is_for_as_many_records_as_were_planned() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let minimiser = |most_rows, regularization, relation| PerturbedMinimiser {
        objective: Linear::new(LOSS, 7, 1.0),
        regularization,
        most_rows,
        relation,
        noise_multiplier: 20.0,
        grid: Grid::new(-30),
        target_bound: 1.0,
        records: std::marker::PhantomData,
    };
    let released = |mechanism: PerturbedMinimiser| {
        let terms = Neighbours::of_records(mechanism.relation).within(Budget::new(1.0, 1e-6).unwrap());
        let certificate = certify(&SamplerError::rounded(10.0).on(mechanism.event()), terms).unwrap();
        Curator::new(&certificate, NoiseSource::insecure(1)).release(&mechanism, &examples).map(drop)
    };
    assert_eq!(released(minimiser(200, 1.0, Relation::ZeroOut)), Ok(()));
    assert_eq!(released(minimiser(199, 1.0, Relation::ZeroOut)), Err(CuratorError::Shape));
    // what is protected is not counted
    assert_eq!(released(minimiser(199, 1.0, Relation::AddOrRemove)), Ok(()));
    // nothing can be promised, and the noise of nothing is infinite
    let flat = minimiser(200, 1e-12, Relation::ZeroOut);
    assert!(flat.noise_std().is_infinite());
    assert_eq!(released(flat), Err(CuratorError::Shape));
}
