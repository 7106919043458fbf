//! Unbiasedness by enumeration, the published accounting against ours.

use super::*;
use crate::tests::LOGISTIC;
use dpopt_privacy::Neighbours;

fn soft(x: f64) -> f64 {
    x.signum() * (x.abs() - 0.3).max(0.0)
}

/// All ordered samples of `size` of the records 0..n.
fn ordered(n: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    ordered(n, size - 1)
        .into_iter()
        .flat_map(|s| (0..n).filter(|j| !s.contains(j)).map(|j| [s.clone(), vec![j]].concat()).collect::<Vec<_>>())
        .collect()
}

/// E[G] of four records with a soft threshold in place of the mechanism, M = 1; `split` orders a batch before halving.
fn expectation(split: impl Fn(&mut Vec<usize>)) -> f64 {
    let records = [-1.0, -0.9, 0.2, 1.0];
    let mean = |part: &[usize]| part.iter().map(|&i| records[i]).sum::<f64>() / part.len() as f64;
    let levels = Levels { top: 1 };
    let first: f64 = records.iter().map(|&r| soft(r)).sum::<f64>() / 4.0;
    let telescope: f64 = (0..=1)
        .map(|k| {
            let all = ordered(4, 2 << k);
            let term: f64 = all
                .iter()
                .map(|batch| {
                    let mut batch = batch.clone();
                    split(&mut batch);
                    let (odd, even) = batch.split_at(1 << k);
                    soft(mean(&batch)) - 0.5 * (soft(mean(odd)) + soft(mean(even)))
                })
                .sum();
            // the weight 1/p_k meets the probability p_k of the level
            levels.probability(k) / levels.probability(k) * term / all.len() as f64
        })
        .sum();
    telescope + first
}

#[test]
fn a_random_split_telescopes_and_a_split_by_index_does_not() {
    // the mean of all four is -0.175: the soft threshold gives 0, and that is what the gradient must average to
    assert!(expectation(|_| {}).abs() < 1e-12);
    assert!((expectation(|batch| batch.sort_unstable()) - 0.0917).abs() < 1e-4);
    let alternating = |batch: &mut Vec<usize>| {
        batch.sort_unstable();
        *batch = batch.iter().copied().step_by(2).chain(batch.iter().copied().skip(1).step_by(2)).collect();
    };
    assert!((expectation(alternating) + 0.0333).abs() < 1e-4);
}

fn problem() -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: 4096,
        features: 200,
        nonzeros: 4,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ReplaceOne),
    }
}

fn budget() -> Budget {
    Budget::new(1.0, 1e-6).unwrap()
}

#[test]
fn the_published_noise_is_thirty_times_what_is_needed() {
    // nm = 185.55 per mechanism in units of 2L
    assert!((BiasReducedSgd::published_multiplier(budget()) / 2.0 / 185.55 - 1.0).abs() < 1e-4);
    let filter = BiasReducedSgd { stopping: Stopping::Filter, ..Default::default() };
    let plan = filter.plan(&problem(), budget()).unwrap();
    // far below the budget of 1
    assert!(plan.summary.certificate.bound().upper < 0.3, "{}", plan.summary.certificate.bound().upper);
    assert!(filter.plan(&problem(), Budget::new(2.0, 1e-6).unwrap()).is_err());
}

#[test]
fn any_sequence_of_batch_sizes_stays_within_the_budget() {
    for size_seed in 0..6 {
        let options = BiasReducedSgd { size_seed, ..Default::default() };
        let plan = options.plan(&problem(), budget()).unwrap();
        let s = &plan.schedule;
        assert!(plan.summary.certificate.bound().upper <= 1.0 && s.steps > 1);
        assert_eq!(s.batch_counts.iter().sum::<u64>(), s.steps);
        // the noise leaves room for one step of all records, not for two of them
        assert!(s.noise_multiplier / 2.0 > 5.97 && s.noise_multiplier / 2.0 < 9.5, "{}", s.noise_multiplier);
    }
    let greedy = BiasReducedSgd { noise_multiplier: Some(5.0), ..Default::default() };
    assert!(matches!(greedy.plan(&problem(), budget()), Err(NotApplicable::Option(_))));
    let open = Problem { neighbours: Neighbours::of_records(Relation::AddOrRemove), ..problem() };
    assert!(BiasReducedSgd::default().plan(&open, budget()).is_err());
}

/// Level k contributes about the same to the second moment, whatever k.
#[test]
fn levels_contribute_alike_where_the_batch_beats_the_noise() {
    let error = |size: f64| squared_error(1.0, 4.0, 16.0, 1e6, size);
    let levels = Levels { top: 15 };
    let share = |k: u32| (error(2f64.powi(k as i32 + 1)) + error(2f64.powi(k as i32))) / levels.probability(k);
    for k in 9..15 {
        assert!((share(k) / share(14) - 1.0).abs() < 1e-9, "{k}");
    }
    let (nu, bias) = moments(levels, error, 1.0);
    assert!(nu.is_finite() && bias < 0.2);
}

/// A batch of all records is cheaper under zero-out, batches that leave records out are not: the reserve covers both.
#[test]
fn zero_out_with_a_power_of_two_of_records_is_planned() {
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        let plan = BiasReducedSgd::default()
            .plan(&Problem { neighbours: Neighbours::of_records(relation), ..problem() }, budget())
            .unwrap();
        assert!(plan.summary.certificate.bound().upper <= 1.0 && plan.schedule.steps > 1);
    }
}
