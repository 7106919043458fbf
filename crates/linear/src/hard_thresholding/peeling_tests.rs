//! The law of the picks, what is charged for them, and that features are found.

use super::tests::{budget, facts, sparse, table};
use super::*;
use crate::choose;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, FeaturePick, FeatureScores, PeelingLaw, Sensitive, VertexFacts};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::plan::{Plan, Summary};
use dpopt_optimize::{Algorithm, MethodOptions, Run};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};

const LAWS: [PeelingLaw; 2] = [PeelingLaw::Gumbel, PeelingLaw::Laplace];

fn run(plan: &Plan<PeelingSchedule>, problem: &Problem, examples: &Sensitive<Examples>, seed: u64) -> SparseVector {
    let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
    let x = run_peeling(plan, Run::new(problem, examples, &mut curator, &Silent).unwrap()).unwrap().into_inner();
    assert!(curator.is_spent(), "planned more than it released");
    x
}

/// P(i is picked) among scores in units of Δ, by the definition of the law.
fn law(scores: &[f64], law: PeelingLaw, epsilon: f64) -> Vec<f64> {
    let gaps: Vec<f64> = scores.iter().map(|s| 0.5 * epsilon * s).collect();
    match law {
        PeelingLaw::Gumbel => {
            let total: f64 = gaps.iter().map(|g| g.exp()).sum();
            gaps.iter().map(|g| g.exp() / total).collect()
        }
        PeelingLaw::Laplace => {
            let below = |x: f64| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() };
            let wins = |i: usize| {
                // midpoints on a grid that no kink lies within, up to 1e-4
                let (reach, step) = (40.0, 1e-3);
                (0..(2.0 * reach / step) as i64)
                    .map(|c| (c as f64 + 0.5) * step - reach)
                    .map(|x| {
                        let others =
                            gaps.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, g)| below(gaps[i] + x - g));
                        0.5 * (-x.abs()).exp() * step * others.product::<f64>()
                    })
                    .sum()
            };
            (0..gaps.len()).map(wins).collect()
        }
    }
}

#[test]
fn two_picks_have_the_law_of_the_sequential_choice() {
    // feature 1 is exempt, 3 and 5 are in no record
    let mut examples = Examples { rows: Rows::new(6), targets: Vec::new() };
    for (row, y) in [([0.9, 0.1, 0.3], 1.0), ([0.5, -0.8, 0.2], 1.0), ([-0.3, 0.3, 0.3], -1.0), ([0.2, 0.7, 0.1], -1.0)]
    {
        examples.rows.push_clipped(&mut [(0, row[0]), (1, 0.2), (2, row[1]), (4, row[2])], 1.0);
        examples.targets.push(y);
    }
    let (clip_norm, epsilon) = (0.3, 2.5);
    let facts = VertexFacts { loss: Loss::Logistic { shift: 0.0 }, clip_norm, epsilon, relation: Relation::ZeroOut };
    let point = SparseVector::new([(1, -1.5)]);
    // |Σ c_ij| over C from the definition
    let mut sums = [0f64; 6];
    for i in 0..4 {
        let (columns, values) = examples.rows.row(i);
        let largest =
            columns.iter().zip(values).filter(|(j, _)| **j != 1).fold(0f64, |m, (_, x)| m.max(f64::from(x.abs())));
        let slope = facts.loss.scalar_slope(-1.5 * f64::from(values[1]), f64::from(examples.targets[i]));
        let slope = slope.clamp(-clip_norm / largest, clip_norm / largest);
        columns.iter().zip(values).for_each(|(&j, &x)| sums[j as usize] += slope * f64::from(x) / clip_norm);
    }
    let candidates = [0usize, 2, 3, 4, 5];
    let score = |j: usize| sums[j].abs();
    let data = Sensitive::new(examples);
    for picked_by in LAWS {
        let mut expected = vec![0.0; 36];
        let first = law(&candidates.map(score), picked_by, epsilon);
        for (a, p) in candidates.iter().zip(&first) {
            let left: Vec<usize> = candidates.iter().copied().filter(|j| j != a).collect();
            let second = law(&left.iter().map(|j| score(*j)).collect::<Vec<_>>(), picked_by, epsilon);
            left.iter().zip(&second).for_each(|(b, q)| expected[6 * a + b] = p * q);
        }
        let pick = FeaturePick { law: picked_by, facts, dimension: 6 };
        let event = dpopt_mechanism::Mechanism::event(&pick).self_composed(2);
        // pure, and at most twice ε
        let terms = Neighbours::of_records(facts.relation).within(Budget::new(2.01 * epsilon, 0.0).unwrap());
        let certificate = certify(&event, terms).unwrap();
        let (runs, mut counts) = (10_000, vec![0f64; 36]);
        for seed in 0..runs {
            let mut curator = Curator::new(&certificate, NoiseSource::insecure(seed));
            let mut scores = FeatureScores::new(&data, facts, &point, Some(1)).unwrap();
            let pair = [0, 1].map(|_| {
                let feature = curator.release(&pick, &scores).unwrap().get().indices()[0];
                FeatureScores::take(&mut scores, feature);
                feature as usize
            });
            counts[6 * pair[0] + pair[1]] += 1.0;
        }
        let cells: Vec<_> = counts.iter().zip(&expected).filter(|(_, p)| **p > 0.0).collect();
        assert_eq!(cells.len(), 20);
        assert_eq!(cells.iter().map(|(c, _)| **c).sum::<f64>(), runs as f64);
        // Pearson on 19 degrees of freedom, limit of Laurent and Massart: false alarm below 2.5e-7
        let chi2: f64 = cells.iter().map(|(c, p)| (**c - runs as f64 * **p).powi(2) / (runs as f64 * **p)).sum();
        assert!(chi2 < 19.0 + 2.0 * (15.2f64 * 19.0).sqrt() + 30.4, "{picked_by:?}: {chi2}");
    }
}

#[test]
fn the_event_is_what_is_released() {
    let problem = Problem { rows: 50_000, ..facts(&table(10, 50, 4), 4) };
    for law in LAWS {
        let options = SparseOptions { intercept: Some(0), ..sparse(7) };
        let plan = Peeling { law: Some(law), sparse: options, fit: Some(choose) }.plan(&problem, budget(2.0)).unwrap();
        let s = &plan.schedule;
        let Event::Approximate { event, .. } = plan.summary.certificate.event() else {
            panic!("samplers are approximate")
        };
        let (Some(FeatureFit::Descent(centre)), FeatureFit::Descent(fit)) = (&s.centre, &s.refit) else {
            panic!("δ > 0")
        };
        let pick = match law {
            PeelingLaw::Gumbel => Event::ExponentialMechanism { epsilon: s.pick_epsilon },
            PeelingLaw::Laplace => Event::ApproxDp { epsilon: s.pick_epsilon, delta: 0.0 },
        };
        let noisy = |fit: &RefitSchedule| Event::gaussian(fit.noise_multiplier).self_composed(fit.steps);
        assert_eq!(**event, Event::composed(vec![noisy(centre), pick.self_composed(7), noisy(fit)]));
        // an entry is bounded by C/√4; a record moves a score by that, or by twice that where it is replaced
        assert!((s.entry_clip - 0.25).abs() < 1e-15 && (centre.clip_norm - s.entry_clip).abs() < 1e-15);
        assert!((s.noise_scale * s.pick_epsilon / s.entry_clip - 2.0).abs() < 1e-12);
    }
    let replaced = Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..problem.clone() };
    let s = Peeling { law: Some(PeelingLaw::Gumbel), sparse: sparse(7), fit: Some(choose) }
        .plan(&replaced, budget(2.0))
        .unwrap()
        .schedule;
    assert!((s.noise_scale * s.pick_epsilon / s.entry_clip - 4.0).abs() < 1e-12);
    // δ = 0: nineteen twentieths of ε and the rest for the intercept, all of it spent
    let pure = Peeling {
        law: None,
        sparse: SparseOptions { intercept: Some(0), refit_share: Some(0.5), ..sparse(9) },
        fit: Some(choose),
    };
    let plan = pure.plan(&problem, Budget::new(2.0, 0.0).unwrap()).unwrap();
    assert!((plan.schedule.pick_epsilon - 0.45 * 2.0 / 9.0).abs() < 1e-9, "{}", plan.schedule.pick_epsilon);
    let bound = plan.summary.certificate.bound().upper;
    assert!(bound <= 2.0 && bound > 1.999_99, "{bound}");
}

#[test]
fn the_right_features_are_found_among_a_million() {
    let examples = table(6000, 1_000_000, 6);
    let problem = facts(&examples, 6);
    let examples = Sensitive::new(examples);
    for (law, delta) in
        [(PeelingLaw::Gumbel, 1e-6), (PeelingLaw::Laplace, 1e-6), (PeelingLaw::Gumbel, 0.0), (PeelingLaw::Laplace, 0.0)]
    {
        let plan = Peeling { law: Some(law), sparse: sparse(4), fit: Some(choose) }
            .plan(&problem, Budget::new(4.0, delta).unwrap())
            .unwrap();
        let x = run(&plan, &problem, &examples, 1);
        assert_eq!(x.len(), 4);
        assert_eq!(&x.indices()[..3], [0, 1, 2], "{x:?}");
        assert!(x.values()[..3].iter().all(|w| *w > 2.0 * x.values()[3].abs()), "{law:?} {delta}: {x:?}");
    }
}

#[test]
fn scores_are_taken_where_the_intercept_has_been_fitted() {
    // nine of ten labels are +1 whatever the features; feature 1 is in every row, 2 tells the label and is rare
    let mut examples = Examples { rows: Rows::new(40), targets: Vec::new() };
    for i in 0..8000u32 {
        let negative = i % 10 == 0;
        let mut entries = vec![(0, 0.5), (1, 0.5), (3 + i % 37, 0.5)];
        if negative && i % 20 == 0 {
            entries.push((2, 0.5));
        }
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(if negative { -1.0 } else { 1.0 });
    }
    let problem = facts(&examples, 4);
    let data = Sensitive::new(examples);
    let options = SparseOptions { intercept: Some(0), ..sparse(1) };
    let plan = Peeling { law: None, sparse: options, fit: Some(choose) }.plan(&problem, budget(4.0)).unwrap();
    let x = run(&plan, &problem, &data, 3);
    assert_eq!(x.indices(), [0, 2]);
    assert!(x.at(0) > 1.0 && x.at(2) < -1.0, "{x:?}");
    // at 0 the feature that every row has would be first
    let without = Peeling { law: None, sparse: sparse(1), fit: Some(choose) }.plan(&problem, budget(4.0)).unwrap();
    assert!(run(&without, &problem, &data, 3).indices()[0] < 2);
}

#[test]
fn what_does_not_fit_is_refused_and_what_does_is_a_candidate() {
    let problem = facts(&table(3000, 50, 4), 4);
    let named = |options: MethodOptions| options.by("peeling");
    for (wrong, word) in [
        (MethodOptions::default(), "`max_features`"),
        (MethodOptions::default().with("max_features", 3).with("refit_share", 0.0), "refit share"),
        (MethodOptions::default().with("max_features", 3).with("clip_norm", 0.0), "clip_norm"),
    ] {
        let Err(why) = choose(&problem, budget(1.0), &named(wrong)) else { panic!("{word}") };
        assert!(why.to_string().contains(word), "{why}");
    }
    for law in LAWS {
        let options = MethodOptions::default()
            .with("max_features", 3)
            .with("peeling", serde_json::to_value(law).unwrap().as_str().unwrap());
        let plan = choose(&problem, budget(1.0), &named(options)).unwrap();
        assert_eq!(plan.schedule()["law"], serde_json::to_value(law).unwrap());
    }
    // without δ only peeling and Frank–Wolfe keep few features
    let options = MethodOptions::default().with("max_features", 3);
    let chosen = choose(&problem, Budget::new(1.0, 0.0).unwrap(), &options).unwrap().summary().method;
    assert!(["peeling", "frank-wolfe"].contains(&chosen), "{chosen}");
}

/// Where δ = 0, another method fits what was picked: what a unit's rows cost is accounted once for the whole, and the rows that are fitted are still known to be a unit's.
#[test]
fn without_delta_a_group_of_rows_is_paid_for_once() {
    use dpopt_objective::records::{Owners, Units};
    use dpopt_optimize::plan::RecordUnit;
    let examples = table(3000, 50, 4);
    let owners = Owners { of_row: (0..3000).map(|row| row / 3).collect(), units: 1000 };
    let two = Units::new(examples.clone(), &owners).unwrap().capped(2.try_into().unwrap(), |_| 0).one_by_one().unwrap();
    let problem = Problem {
        record: RecordUnit::UnitsRow { most: 2.try_into().unwrap() },
        rows: two.targets.len() as u64,
        neighbours: Neighbours::of_users(Relation::ZeroOut),
        ..facts(&examples, 4)
    };
    let examples = Sensitive::new(two);
    for law in LAWS {
        let options = MethodOptions::default()
            .with("max_features", 3)
            .with("peeling", serde_json::to_value(law).unwrap().as_str().unwrap());
        let plan = choose(&problem, Budget::new(8.0, 0.0).unwrap(), &options.by("peeling")).unwrap();
        let Summary { certificate, .. } = plan.summary();
        let spent = certificate.bound().upper;
        assert!(spent <= 8.0 && spent > 7.99, "{law:?}: {spent}");
        let Event::UserUnit { records_per_user: 2, event } = certificate.event() else { panic!("{law:?}") };
        assert!(!format!("{event:?}").contains("UserUnit"), "{event}");
        let mut curator = Curator::new(certificate, NoiseSource::insecure(3));
        let weights = plan.run(Run::new(&problem, &examples, &mut curator, &Silent).unwrap()).unwrap().into_inner();
        assert!(curator.is_spent() && weights.weights.iter().filter(|w| **w != 0.0).count() <= 4, "{law:?}");
    }
}
