use super::*;
use dpopt_kernel::beside::uncharged;
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::Closures;
use proptest::prelude::*;
use std::cell::Cell as Count;

/// A record (slope, place): slope·‖x − place‖ in every dimension.
type Cone = (f64, [f64; 3]);

fn cone(x: &[f64], (slope, place): &Cone) -> f64 {
    slope * x.iter().zip(place).map(|(x, p)| (x - p).powi(2)).sum::<f64>().sqrt()
}

fn cones(dimension: usize) -> impl Objective<Vec<Cone>> {
    Closures::new(dimension, cone, |_: &[f64], _: &Cone, _: &mut [f64]| {})
}

fn shape(dimension: usize, ball: bool, levels: u32) -> TreeShape {
    let centre: Vec<f64> = (0..dimension).map(|j| 0.25 * j as f64).collect();
    TreeShape::new(&centre, 1.0, ball, levels).unwrap()
}

/// The sum of the records' parts at a point.
fn whole(choice: &TreeChoice, records: &[Cone], x: &[f64]) -> i128 {
    let limit = choice.limit(x);
    let from = |record: &Cone| match choice.counted {
        Counted::Within(middle) => middle,
        Counted::BySlope => cone(&choice.shape.centre, record),
    };
    records.iter().map(|record| i128::from(choice.units(limit, from(record), cone(x, record)))).sum()
}

/// The scores of all leaves by their definition, each cut to within a step of its parent's.
fn cut_scores(choice: &TreeChoice, records: &[Cone]) -> Vec<(Cell, i64)> {
    let (shape, d) = (choice.shape(), choice.shape().centre.len());
    let whole = |x: &[f64]| whole(choice, records, x).clamp(-i128::from(choice.most), i128::from(choice.most)) as i64;
    let root = Cell { level: 0, at: [0; MAX_TREE_DIMENSIONS], score: 0, scored: false, penalty: 0 };
    let mut level = vec![(root, whole(&shape.centre))];
    for l in 0..shape.levels {
        let step = choice.steps[l as usize];
        let mut next = Vec::new();
        for (parent, score) in &level {
            for number in 0..1u64 << d {
                let cell = choice.child(parent, number, 0);
                if shape.meets(&cell) {
                    next.push((cell, whole(&shape.point(&cell)).clamp(score - step, score + step)));
                }
            }
        }
        level = next;
    }
    level
}

fn open(choice: &TreeChoice, seed: u64) -> OpenTree {
    uncharged(&choice.event(), NoiseSource::insecure(seed)).open(choice).unwrap()
}

fn found(choice: &TreeChoice, records: &[Cone], seed: u64) -> Vec<f64> {
    let records = Sensitive::new(records.to_vec());
    open(choice, seed).choose(&records, &cones(choice.shape().centre.len())).unwrap().into_inner()
}

/// Frequencies of the leaves against e^(s/scale), s by its definition.
fn drawn_by_its_law(choice: &TreeChoice, records: &[Cone], runs: u64) {
    let all = cut_scores(choice, records);
    let moved = if choice.relation == Relation::ReplaceOne { 2.0 } else { 1.0 };
    let scale = 2.0 * moved * choice.quanta as f64 / choice.epsilon;
    let centre = &choice.shape().centre;
    // (λ/2)‖x − centre‖², by its formula
    let pulled = |cell: &Cell| {
        let x = choice.shape().point(cell);
        0.5 * choice.regularization * x.iter().zip(centre).map(|(x, c)| (x - c).powi(2)).sum::<f64>()
    };
    let logs: Vec<f64> = all.iter().map(|(cell, s)| (*s as f64 - pulled(cell)) / scale).collect();
    let most = logs.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    let points: Vec<Vec<f64>> = all.iter().map(|(cell, _)| choice.shape().point(cell)).collect();
    let mut seen = vec![0.0; all.len()];
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
    for _ in 0..runs {
        let drawn = choice.draw(&mut stream, |x| Ok::<_, CuratorError>(whole(choice, records, x)));
        let x = drawn.unwrap();
        seen[points.iter().position(|p| *p == x).expect("a point of the tree")] += 1.0;
    }
    // leaves that are rare are counted together
    let mut rest = (0.0, 0.0);
    for (count, weight) in seen.iter().zip(&weights) {
        let expected = weight / total * runs as f64;
        if expected < 20.0 {
            rest = (rest.0 + count, rest.1 + expected);
            continue;
        }
        // five and a half standard deviations: false alarm 4e-8 each
        assert!((count - expected).abs() < 5.5 * expected.sqrt(), "{count} {expected}");
    }
    assert!((rest.0 - rest.1).abs() < 5.5 * rest.1.max(1.0).sqrt() + 3.0, "{rest:?}");
}

/// Records that pull to several places, some of them steeper than what counts.
fn pulls() -> Vec<Cone> {
    let mut all = vec![(1.0, [0.3, -0.2, 0.1]); 4];
    all.extend([(1.0, [-0.8, 0.9, 0.0]); 3]);
    all.extend([(9.0, [0.9, 0.4, 0.9]), (f64::NAN, [0.0; 3]), (-4.0, [-0.1, 0.3, 0.2])]);
    all
}

#[test]
fn points_are_drawn_by_their_law_whatever_is_cut() {
    for (d, ball, levels, relation) in [
        (1, true, 4, Relation::ZeroOut),
        (1, false, 5, Relation::ReplaceOne),
        (2, true, 3, Relation::AddOrRemove),
        (2, false, 3, Relation::ReplaceOne),
        (3, true, 2, Relation::ZeroOut),
    ] {
        // with a guess of three records scores of neighbouring cells are cut, too
        for records in [10, 3] {
            let tree = TreeChoice::by_slope(shape(d, ball, levels), 1.0, records, 6.0, relation).unwrap();
            drawn_by_its_law(&tree, &pulls(), 4_000);
        }
        let tree = TreeChoice::within(shape(d, ball, levels), (0.8, 1.0), 10, 5.0, relation).unwrap();
        drawn_by_its_law(&tree, &pulls(), 4_000);
        let tree = TreeChoice::by_slope(shape(d, ball, levels), 1.0, 10, 6.0, relation).unwrap();
        drawn_by_its_law(&tree.regularized(7.0).unwrap(), &pulls(), 4_000);
    }
}

/// A steep record makes children far better or worse than a small guess of the number of records allows.
#[test]
fn scores_are_cut_to_what_their_parents_allow() {
    let records = vec![(5.0, [0.7, 0.0, 0.0]); 6];
    let loose = TreeChoice::by_slope(shape(1, false, 4), 1.0, 6, 1.0, Relation::ZeroOut).unwrap();
    let tight = TreeChoice::by_slope(shape(1, false, 4), 1.0, 1, 1.0, Relation::ZeroOut).unwrap();
    let spread = |choice: &TreeChoice| {
        let all = cut_scores(choice, &records);
        all.iter().map(|(_, s)| *s).max().unwrap() - all.iter().map(|(_, s)| *s).min().unwrap()
    };
    assert!(3 * spread(&tight) < spread(&loose), "{} {}", spread(&tight), spread(&loose));
    // what steps allow from the root to either side
    let most: i64 = tight.steps.iter().sum();
    assert!(spread(&tight) <= 2 * most);
}

#[test]
fn few_of_the_points_are_looked_at() {
    let (n, asked) = (20_000usize, Count::new(0u64));
    let tree = TreeChoice::by_slope(shape(2, false, 16), 1.0, n as u64, 1.0, Relation::ReplaceOne).unwrap();
    let mut curator = uncharged(&tree.event(), NoiseSource::insecure(7));
    let (batch, _) = curator.all_for_loader(n).unwrap();
    let x = curator
        .open(&tree)
        .unwrap()
        .choose_by(batch, |x, out| {
            asked.set(asked.get() + 1);
            out.resize(n, cone(x, &(1.0, [0.37, 0.37, 0.0])));
            Ok::<_, CuratorError>(())
        })
        .unwrap();
    // of 2^32 points
    assert!(asked.get() < 1_000, "{}", asked.get());
    let x = x.get();
    // scale 4·√2/(εn) of mean loss: two dimensions are off by two of them or so, e^-20 of ten times as much
    assert!((x[0] - 0.37).hypot(x[1] - 0.37) < 22.0 * 4.0 * 2f64.sqrt() / n as f64, "{x:?}");
}

#[test]
fn elsewhere_the_points_are_the_same_and_there_is_one_number_for_each_record() {
    let records = pulls();
    for choice in [
        TreeChoice::by_slope(shape(2, true, 6), 1.0, 10, 3.0, Relation::ZeroOut).unwrap(),
        TreeChoice::within(shape(2, true, 6), (1.0, 1.0), 10, 3.0, Relation::ZeroOut).unwrap(),
    ] {
        let mut curator = uncharged(&choice.event(), NoiseSource::insecure(3));
        let (batch, chosen) = curator.all_for_loader(records.len()).unwrap();
        let there = open(&choice, 3).choose_by(batch, |x, out| {
            out.extend(chosen.iter().map(|&i| cone(x, &records[i as usize])));
            Ok::<_, CuratorError>(())
        });
        assert_eq!(there.unwrap().into_inner(), found(&choice, &records, 3));
        for given in [9, 11] {
            let (batch, _) = curator.all_for_loader(records.len()).unwrap();
            let wrong = open(&choice, 3).choose_by(batch, |_, out| {
                out.resize(given, 0.0);
                Ok::<_, CuratorError>(())
            });
            assert!(matches!(wrong, Err(CuratorError::Shape)));
        }
    }
}

#[test]
fn trees_cover_their_domain() {
    let mut random = dpopt_objective::synthetic::Lcg::new(5);
    for (d, ball, levels) in [(1, true, 3), (2, true, 3), (2, false, 3), (3, true, 2), (3, false, 2), (2, true, 1)] {
        let tree = TreeChoice::by_slope(shape(d, ball, levels), 1.0, 1, 1.0, Relation::ZeroOut).unwrap();
        let all: Vec<Vec<f64>> = cut_scores(&tree, &[]).iter().map(|(cell, _)| tree.shape().point(cell)).collect();
        let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let (centre, reach) = (&tree.shape().centre, tree.shape().reach() * (1.0 + 1e-12));
        assert!(all.iter().all(|p| distance(p, centre) <= reach));
        let mut worst = 0f64;
        for _ in 0..4000 {
            let mut x: Vec<f64> = (0..d).map(|_| 2.0 * random.uniform() - 1.0).collect();
            let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
            if ball && norm > 1.0 {
                x.iter_mut().for_each(|v| *v /= norm);
            }
            x.iter_mut().zip(centre).for_each(|(v, c)| *v += c);
            worst = worst.max(all.iter().map(|p| distance(p, &x)).fold(f64::MAX, f64::min));
        }
        let radius = tree.shape().cover_radius();
        assert!(worst <= radius * (1.0 + 1e-12) && worst > 0.6 * radius, "{d} {ball}: {worst} {radius}");
    }
}

/// Roundings of very many records stay below the noise, whatever ε is: the search does not come to cells that it cannot tell apart.
#[test]
fn units_are_as_fine_as_sums_and_noise_allow() {
    for (records, epsilon, relation, fine) in [
        (20_000, 1.0, Relation::ReplaceOne, 32),
        (1 << 31, 1.0, Relation::ZeroOut, 28),
        ((1 << 30) + 1, 50.0, Relation::ZeroOut, 28),
        (1000, 1e-6, Relation::ReplaceOne, 27),
        (1000, 1e-6, Relation::ZeroOut, 28),
    ] {
        let tree = TreeChoice::by_slope(shape(1, true, 3), 1.0, records, epsilon, relation).unwrap();
        assert_eq!(tree.quanta, 1 << fine, "{records} {epsilon}");
        assert_eq!(tree.unit(), 2f64.powi(-fine));
        assert!(records as i64 * tree.quanta <= 1 << 59 && tree.frontier::<u8>().is_ok());
    }
    let n = 100_000_000u64;
    let tree = TreeChoice::by_slope(shape(1, false, 28), 1.0, n, 1.0, Relation::ZeroOut).unwrap();
    let asked = Count::new(0);
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Selection, 0);
    let sum = |x: f64| (n as f64 * (0.37 - (x - 0.37).abs()) / tree.unit()) as i128;
    let drawn = tree.draw(&mut stream, |x| {
        asked.set(asked.get() + 1);
        Ok::<_, CuratorError>(sum(x[0]))
    });
    assert!((drawn.unwrap()[0] - 0.37).abs() < 40.0 * 2.0 / n as f64 && asked.get() < 200, "{}", asked.get());
}

#[test]
fn odd_trees_are_refused() {
    for (centre, half, levels) in [
        (vec![], 1.0, 3),
        (vec![0.0; 6], 1.0, 3),
        (vec![f64::NAN], 1.0, 3),
        (vec![0.0], 0.0, 3),
        (vec![0.0], f64::INFINITY, 3),
        (vec![0.0], 1.0, 0),
        (vec![0.0], 1.0, 41),
        (vec![0.0; 4], 1.0, 31),
    ] {
        assert!(TreeShape::new(&centre, half, false, levels).is_err(), "{centre:?} {half} {levels}");
    }
    let of = |slope, records, epsilon| {
        TreeChoice::by_slope(shape(1, true, 3), slope, records, epsilon, Relation::ZeroOut).map(drop)
    };
    assert!(of(1.0, 5, 1.0).is_ok());
    assert!(of(0.0, 5, 1.0).is_err() && of(f64::NAN, 5, 1.0).is_err());
    assert!(of(1.0, 0, 1.0).is_err() && of(1.0, 1 << 40, 1.0).is_err());
    assert!(of(1.0, 5, 0.0).is_err() && of(1.0, 5, f64::NAN).is_err());
    let tree = TreeChoice::by_slope(shape(1, true, 3), 1.0, 5, 1.0, Relation::ZeroOut).unwrap();
    assert!(tree.clone().regularized(1e6).is_ok());
    for regularization in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
        assert!(tree.clone().regularized(regularization).is_err());
    }
}

#[test]
fn a_forked_copy_draws_nothing() {
    let choice = TreeChoice::by_slope(shape(1, true, 3), 1.0, 10, 3.0, Relation::ZeroOut).unwrap();
    let copy = OpenTree { process: Process::another(), ..open(&choice, 1) };
    let refused = copy.choose(&Sensitive::new(pulls()), &cones(1)).err();
    assert_eq!(refused, Some(CuratorError::Copied { what: "choice" }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the losses are: a record's presence moves no score by more than 2^24, its replacement by no more than twice as much.
    #[test]
    fn one_record_moves_no_score_by_more_than_its_units(
        others in prop::collection::vec((any::<f64>(), prop::array::uniform3(-1.5f64..1.5)), 0..5),
        record in (any::<f64>(), prop::array::uniform3(-1.5f64..1.5)),
        other in (any::<f64>(), prop::array::uniform3(-1.5f64..1.5)),
        slope in 1e-3f64..1e3,
        counted in 1u64..8,
        d in 1usize..=2,
        ball in any::<bool>(),
    ) {
        let made = [
            TreeChoice::by_slope(shape(d, ball, 3), slope, counted, 1.0, Relation::ZeroOut).unwrap(),
            TreeChoice::within(shape(d, ball, 3), (slope, 1.0), counted, 1.0, Relation::ZeroOut).unwrap(),
        ];
        for choice in made {
            let with = |more: Option<Cone>| {
                let all: Vec<Cone> = others.iter().copied().chain(more).collect();
                cut_scores(&choice, &all)
            };
            let (none, one, two) = (with(None), with(Some(record)), with(Some(other)));
            for i in 0..none.len() {
                prop_assert!(one[i].1.abs_diff(none[i].1) <= choice.quanta as u64);
                prop_assert!(one[i].1.abs_diff(two[i].1) <= 2 * choice.quanta as u64);
            }
        }
    }
}
