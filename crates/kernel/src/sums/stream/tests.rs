//! Streams against sums computed by hand, and what may not be done with them.

use super::*;
use crate::{ClippedVectors, Curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfUnits;
use dpopt_objective::records::{Examples, Owners, Rows, Units};

const ALL: [Correlation; 4] = [Correlation::Blt, Correlation::Banded, Correlation::Tree, Correlation::Independent];

fn plan(correlation: Correlation, batches: usize, steps: usize, d: usize, n: u64) -> StreamPlan {
    let grid = Grid::new(-12);
    StreamPlan {
        relation: Relation::ZeroOut,
        batching: Batching::Position,
        shape: StreamShape { batches, steps, correlation },
        gradient: Clipped::new(Linear::new(Loss::Absolute, d, 1.0), 1.0, grid).unwrap(),
        noise_multiplier: 1.0,
        dimension: d,
        records: n,
    }
}

/// n rows, row i with 1 at column i mod d and a target so low that every slope is 1.
fn examples(n: usize, d: usize) -> Sensitive<Examples> {
    let mut rows = Rows::new(d);
    (0..n).for_each(|i| rows.push_clipped(&mut [((i % d) as u32, 1.0)], 1.0));
    Sensitive::new(Examples { rows, targets: vec![-1e6; n] })
}

#[test]
fn sensitivities() {
    let sensitivity = |correlation, batches, steps| StreamShape { batches, steps, correlation }.sensitivity().unwrap();
    // worked values of the banded square root and of trees
    assert!((sensitivity(Correlation::Banded, 512, 512) - 1.7470).abs() < 1e-4);
    assert!((sensitivity(Correlation::Banded, 128, 512) - 3.2312).abs() < 1e-4);
    assert!((sensitivity(Correlation::Independent, 64, 512) - 8f64.sqrt()).abs() < 1e-8);
    assert!((sensitivity(Correlation::Tree, 8, 8) - 2.0).abs() < 1e-9);
    assert!((sensitivity(Correlation::Tree, 1024, 2048) - 22f64.sqrt()).abs() < 1e-9);
    // a cut last epoch counts as a whole one
    assert!(sensitivity(Correlation::Tree, 8, 9) > sensitivity(Correlation::Tree, 8, 8));
}

#[test]
fn every_record_is_in_one_batch_of_an_epoch_and_steps_are_counted() {
    // batches of 7 of 3 coordinates; the noise is known from a second stream on data without gradients
    for correlation in ALL {
        let run = |data: &Sensitive<Examples>| -> Vec<Vec<f64>> {
            let plan = plan(correlation, 3, 7, 3, 23);
            let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(5));
            let mut stream = curator.open(&plan).unwrap();
            assert!(curator.is_spent());
            let steps = (0..7).map(|_| stream.next(data, &[0.0; 3]).unwrap().into_inner()).collect();
            assert!(stream.next(data, &[0.0; 3]).is_err(), "the plan is used up");
            steps
        };
        let mut rows = Rows::new(3);
        (0..23).for_each(|_| rows.push_zero());
        let noise = run(&Sensitive::new(Examples { rows, targets: vec![0.0; 23] }));
        let noisy = run(&examples(23, 3));
        for (t, (a, b)) in noisy.iter().zip(&noise).enumerate() {
            let batch = t % 3;
            let range = 23 * batch / 3..23 * (batch + 1) / 3;
            for j in 0..3 {
                let expected = range.clone().filter(|i| i % 3 == j).count() as f64;
                assert!((a[j] - b[j] - expected).abs() < 0.01, "{correlation:?} step {t}");
            }
        }
    }
}

/// Records that come batch by batch have the sums and the noise that they would have by their positions.
#[test]
fn records_that_arrive_are_those_of_positions() {
    let (batches, n, d) = (7, 21, 3);
    for correlation in ALL {
        let whole = plan(correlation, batches, batches, d, n);
        let arriving = StreamPlan { batching: Batching::Arrival, ..plan(correlation, batches, batches, d, n) };
        let open = |plan: &StreamPlan| Curator::for_event(&plan.event(), NoiseSource::insecure(8)).open(plan).unwrap();
        let (mut by_place, mut by_arrival) = (open(&whole), open(&arriving));
        let (data, part) = (examples(n as usize, d), examples(3, d));
        assert!(by_place.next_arrived(&part, &[0.0; 3]).is_err(), "batches go by position");
        assert!(by_arrival.next(&data, &[0.0; 3]).is_err(), "batches go by arrival");
        assert!(by_arrival.next_arrived(&part, &[0.0; 2]).is_err(), "two weights");
        for _ in 0..batches {
            // three of 21 rows are the columns 0, 1, 2 again
            let expected = by_place.next(&data, &[0.0; 3]).unwrap();
            assert_eq!(by_arrival.next_arrived(&part, &[0.0; 3]).unwrap().get(), expected.get(), "{correlation:?}");
        }
        assert!(by_arrival.next_arrived(&part, &[0.0; 3]).is_err(), "the plan is used up");
    }
}

/// A record that came twice would be in two batches, and no sensitivity says how far apart.
#[test]
fn what_arrives_has_one_pass_and_nobody_joins() {
    let arriving = |steps, relation| StreamPlan {
        batching: Batching::Arrival,
        relation,
        ..plan(Correlation::Blt, 4, steps, 1, 8)
    };
    assert!(arriving(4, Relation::ReplaceOne).sampler_error().is_ok());
    assert!(arriving(5, Relation::ReplaceOne).sampler_error().is_err());
    assert!(arriving(4, Relation::AddOrRemove).sampler_error().is_err());
}

/// The noise of units in k batches is that of all their columns together: of no more than k single ones, and of what a pattern moves.
#[test]
fn units_of_several_arrivals_have_the_noise_of_all_of_them() {
    let steps = 12;
    for correlation in [Correlation::Blt, Correlation::Independent, Correlation::Tree] {
        let arriving = |batching| StreamPlan { batching, ..plan(correlation, steps, steps, 1, 8) };
        let noise = |batching| arriving(batching).noise_std().unwrap();
        let one = noise(Batching::Arrival);
        assert!((noise(Batching::Arrivals(1)) / one - 1.0).abs() < 1e-8);
        for k in [2u64, 5, 12] {
            let several = noise(Batching::Arrivals(k)) / one;
            assert!(several <= k as f64 * (1.0 + 1e-8) && several >= (k as f64).sqrt() * (1.0 - 1e-8), "{several}");
            // k gradients of the same direction, in steps 0, …, k − 1 or at the end
            let shape = arriving(Batching::Arrival).shape;
            for from in [0, steps - k as usize] {
                let mut moved = vec![vec![0.0]; steps];
                moved[from..from + k as usize].iter_mut().for_each(|step| step[0] = 1.0);
                let norm = moved_of_the_noised(shape, &moved).sqrt();
                assert!(
                    norm <= shape.sensitivity_of_arrivals(k).unwrap() * (1.0 + 1e-12),
                    "{correlation:?} {k} {from}"
                );
            }
        }
        assert!(arriving(Batching::Arrivals(0)).sampler_error().is_err());
    }
    // what is too long to be added up is bounded by the single ones
    let long = StreamShape { batches: 1 << 20, steps: 1 << 20, correlation: Correlation::Blt };
    let bound = long.sensitivity_of_arrivals(1 << 13).unwrap() / long.sensitivity().unwrap();
    assert!((bound / 8192.0 - 1.0).abs() < 1e-9, "{bound}");
}

#[test]
fn a_forked_stream_refuses_to_go_on() {
    let arriving = StreamPlan { batching: Batching::Arrival, ..plan(Correlation::Blt, 4, 4, 1, 8) };
    let mut stream = Curator::for_event(&arriving.event(), NoiseSource::insecure(8)).open(&arriving).unwrap();
    stream.process = Process::another();
    let refused = stream.next_arrived(&examples(2, 1), &[0.0]).unwrap_err();
    assert!(matches!(refused, CuratorError::Copied { .. }), "{refused}");
    stream.process = Process::here();
    assert!(stream.next_arrived(&examples(2, 1), &[0.0]).is_ok());
}

#[test]
fn vectors_made_elsewhere_are_the_gradients_of_the_batch() {
    let (batches, steps, d, n) = (3, 7, 3, 23);
    for correlation in ALL {
        let plan = plan(correlation, batches, steps, d, n);
        let open = || {
            let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(8));
            curator.open(&plan).unwrap()
        };
        let (mut here, mut remote) = (open(), open());
        let data = examples(n as usize, d);
        for _ in 0..steps {
            let expected = here.next(&data, &[0.0; 3]).unwrap();
            // slopes of −1 times the rows, in two parts
            let released = remote.next_in_parts(|positions, sum| {
                let (first, rest) = (positions[0] as usize, positions.len() / 2);
                let unit = |i: usize, out: &mut Vec<f64>| out.extend((0..d).map(|j| f64::from(i % d == j)));
                sum.add(rest, |k, out| unit(first + k, out))?;
                sum.add(positions.len() - rest, |k, out| unit(first + rest + k, out))?;
                assert!(sum.add(1, |_, out| out.resize(d, 1.0)).is_err(), "one vector for each record");
                Ok::<_, CuratorError>(())
            });
            // gradients of exactly the clip norm: each may lose a step of the grid, one way or the other
            let room = n as f64 * Grid::new(-12).step();
            for (a, b) in released.unwrap().get().iter().zip(expected.get()) {
                assert!((a - b).abs() <= room, "{correlation:?}: {a} {b}");
            }
        }
        assert!(remote.next_in_parts(|_, _| Ok::<_, CuratorError>(())).is_err(), "the plan is used up");
    }
}

/// A stream over 23 records in 4 batches.
fn recursive_sums(plan: &StreamPlan<Slopes>, records: &[f64], points: &[Vec<f64>], in_parts: bool) -> Vec<Vec<f64>> {
    let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(8));
    let mut stream = curator.open(plan).unwrap();
    let data = Sensitive::new(records.to_vec());
    (1..points.len())
        .map(|t| {
            let (before, here) = (&points[t - 1], &points[t]);
            if !in_parts {
                return stream.next_recursive(&data, here, before).unwrap().into_inner();
            }
            let out = stream.next_in_parts(|positions, sum| {
                let t = t as f64;
                sum.add(positions.len(), |k, out| {
                    out.push(records[positions[k] as usize] * (t * here[0] - (t - 1.0) * before[0]));
                })
            });
            out.unwrap().into_inner()
        })
        .collect()
}

type Slopes = dpopt_objective::objective::Closures<fn(&[f64], &f64) -> f64, fn(&[f64], &f64, &mut [f64])>;

/// The objective ½a·x² for records a and one weight x.
fn slopes() -> Slopes {
    let value: fn(&[f64], &f64) -> f64 = |x, a| 0.5 * a * x[0] * x[0];
    let slope: fn(&[f64], &f64, &mut [f64]) = |x, a, g| g[0] = a * x[0];
    dpopt_objective::objective::Closures::new(1, value, slope)
}

fn recursive_plan(correlation: Correlation, batching: Batching) -> StreamPlan<Slopes> {
    let of_rows = plan(correlation, 4, 4, 1, 23);
    StreamPlan {
        gradient: Clipped::new(slopes(), 1.0, Grid::new(-12)).unwrap(),
        batching,
        shape: of_rows.shape,
        noise_multiplier: 1.0,
        dimension: 1,
        records: 23,
        relation: Relation::ZeroOut,
    }
}

/// A record has one term of the stream, of at most C, however large its gradients and their weights are.
#[test]
fn a_record_moves_a_recursive_stream_by_one_clipped_vector() {
    let points: Vec<Vec<f64>> = [0.0, 0.25, -0.125, 0.375, 0.5].map(|x| vec![x]).to_vec();
    for (correlation, batching) in ALL.into_iter().flat_map(|c| [(c, Batching::Position), (c, Batching::Shuffled)]) {
        let plan = recursive_plan(correlation, batching);
        let of = |records: &[f64], in_parts| recursive_sums(&plan, records, &points, in_parts);
        let calm = vec![0.5; 23];
        let base = of(&calm, false);
        assert_eq!(base, of(&calm, true), "{correlation:?} {batching:?}: in memory and in parts");
        // telescoping: noise aside, all increments add up to T times the last gradient of as many records as a batch has
        let nothing = of(&[0.0; 23], false);
        for t in 1..=4 {
            let size = plan.shape.batch_size(23, t - 1) as f64;
            let weighted = t as f64 * points[t][0] - (t - 1) as f64 * points[t - 1][0];
            let total = base[t - 1][0] - nothing[t - 1][0];
            assert!((total - size * 0.5 * weighted).abs() < 0.01, "{correlation:?} {t}: {total}");
        }
        let mut batches_of = Vec::new();
        for i in 0..23 {
            let mut moved = Vec::new();
            for wild in [1e9, -1e9, 0.0, f64::INFINITY] {
                let mut records = calm.clone();
                records[i] = wild;
                let changes: Vec<f64> =
                    base.iter().zip(of(&records, false)).map(|(a, b)| (a[0] - b[0]).abs()).collect();
                let touched: Vec<usize> = (0..4).filter(|&t| changes[t] > 1e-3).collect();
                // a weight of 0 and one of ½ differ by ½·(t·x_t − (t − 1)·x_{t−1}) < C; a wild one by at most 1.5
                assert!(touched.len() <= 1 && changes.iter().all(|c| *c <= 1.75 + 1e-3), "{wild} {changes:?}");
                moved.extend(touched);
            }
            assert!(moved.windows(2).all(|pair| pair[0] == pair[1]) && !moved.is_empty(), "{moved:?}");
            batches_of.push(moved[0]);
        }
        let by_position: Vec<usize> = (0..4).flat_map(|b| vec![b; plan.shape.batch_size(23, b)]).collect();
        assert_eq!(batches_of == by_position, batching == Batching::Position);
        batches_of.sort_unstable();
        assert_eq!(batches_of, by_position, "each record once, batches of public sizes");
    }
    let plan = StreamPlan { relation: Relation::AddOrRemove, ..recursive_plan(Correlation::Blt, Batching::Shuffled) };
    let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(8));
    assert!(curator.open(&plan).is_err(), "an added record would change the order");
}

#[test]
fn a_sum_with_another_clip_is_not_released() {
    let plan = plan(Correlation::Blt, 2, 2, 1, 4);
    let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(9));
    let mut stream = curator.open(&plan).unwrap();
    let wide = ClippedVectors::new(1e6, Grid::new(-12)).unwrap();
    let batch = curator.all_of(4).unwrap();
    let mut other = wide.in_parts(batch, 1);
    let swapped = stream.next_in_parts(|_, sum| {
        std::mem::swap(sum, &mut other);
        Ok::<_, CuratorError>(())
    });
    assert!(matches!(swapped, Err(CuratorError::Shape)));
    // nor one of an earlier step that was tried in vain
    let mut kept = wide.in_parts(curator.all_of(4).unwrap(), 1);
    let failed = stream.next_in_parts(|_, sum| {
        std::mem::swap(sum, &mut kept);
        Err(CuratorError::Shape)
    });
    assert!(failed.is_err());
    assert!(stream.next_in_parts(|_, _| Ok::<_, CuratorError>(())).is_ok());
    let stashed = stream.next_in_parts(|_, sum| {
        std::mem::swap(sum, &mut kept);
        Ok::<_, CuratorError>(())
    });
    assert!(matches!(stashed, Err(CuratorError::Shape)));
}

#[test]
fn the_noise_of_the_whole_sum_is_what_is_predicted() {
    let (d, steps, batches) = (20_000, 12, 8);
    let data = {
        let mut rows = Rows::new(d);
        (0..16).for_each(|_| rows.push_zero());
        Sensitive::new(Examples { rows, targets: vec![0.0; 16] })
    };
    for correlation in ALL {
        let plan = plan(correlation, batches, steps, d, 16);
        let shape = plan.shape;
        let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(6));
        let mut stream = curator.open(&plan).unwrap();
        let mut total = vec![0.0; d];
        let weights = vec![0.0; d];
        for _ in 0..steps {
            let step = stream.next(&data, &weights).unwrap();
            total.iter_mut().zip(step.get()).for_each(|(t, x)| *t += x);
        }
        let seen = total.iter().map(|x| x * x).sum::<f64>() / d as f64;
        let expected = (shape.sensitivity().unwrap() * shape.final_error().unwrap()).powi(2);
        // 5.2 standard deviations: false alarm 2e-7 each
        assert!((seen / expected - 1.0).abs() < 5.2 * (2.0 / d as f64).sqrt(), "{correlation:?}: {seen} {expected}");
    }
}
/// The sums of all steps, and the same of records that add nothing; by coin. They differ by the exact sums: the seed decides coins and noise.
fn exact_by_coin(plan: &StreamPlan, seed: u64) -> Vec<Vec<f64>> {
    let run = |data: &Sensitive<Examples>| -> Vec<Vec<f64>> {
        let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(seed));
        let mut stream = curator.open(plan).unwrap();
        let weights = vec![0.0; plan.dimension];
        (0..plan.shape.steps).map(|_| stream.next(data, &weights).unwrap().into_inner()).collect()
    };
    let n = plan.records as usize;
    let mut rows = Rows::new(plan.dimension);
    (0..n).for_each(|_| rows.push_zero());
    let (noisy, noise) =
        (run(&examples(n, plan.dimension)), run(&Sensitive::new(Examples { rows, targets: vec![0.0; n] })));
    let differences = noisy.iter().zip(&noise).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect());
    differences.collect()
}

#[test]
fn a_coin_gives_each_record_one_batch_of_every_epoch() {
    let (n, batches, steps) = (6, 3, 8);
    let mut seen = [[0u32; 3]; 9];
    let runs = 3_000;
    for seed in 0..runs {
        let plan = StreamPlan { batching: Batching::Coin, ..plan(Correlation::Banded, batches, steps, n, n as u64) };
        let sums = exact_by_coin(&plan, seed);
        let batch_of = |record: usize, epoch: usize| -> usize {
            let of_epoch = &sums[epoch * batches..((epoch + 1) * batches).min(steps)];
            let own: Vec<usize> = (0..of_epoch.len()).filter(|&t| of_epoch[t][record].abs() > 0.5).collect();
            // the last epoch is cut short by one step
            assert!(own.len() == 1 || (epoch == 2 && own.is_empty()));
            own.first().copied().unwrap_or(2)
        };
        for record in 0..n {
            assert_eq!(batch_of(record, 0), batch_of(record, 1));
            assert_eq!(batch_of(record, 0), batch_of(record, 2));
        }
        // of each pair of neighbours in the table, all nine pairs of batches
        for pair in 0..3 {
            let (a, b) = (batch_of(2 * pair, 0), batch_of(2 * pair + 1, 0));
            seen[3 * a + b][pair] += 1;
        }
    }
    let expected = runs as f64 / 9.0;
    for pair in 0..3 {
        let chi2: f64 = seen.iter().map(|n| (f64::from(n[pair]) - expected).powi(2) / expected).sum();
        // 8 degrees of freedom: P(chi2 > 42.7) = 1e-6
        assert!(chi2 < 42.7, "{seen:?}");
    }
}

#[test]
fn records_that_others_can_move_are_not_cut_by_position() {
    let units = |records: usize| {
        let (mut rows, of_row) = (Rows::new(1), vec![0, 1]);
        (0..2).for_each(|_| rows.push_zero());
        Sensitive::new(
            Units::new(Examples { rows, targets: vec![0.0; 2] }, &Owners { of_row, units: records }).unwrap(),
        )
    };
    let next = |batching, data: &Sensitive<Units<Examples>>, relation| {
        let of_rows = plan(Correlation::Blt, 2, 2, 1, 2);
        let plan = StreamPlan {
            gradient: Clipped::new(OfUnits::new(*of_rows.gradient.objective()), 1.0, of_rows.gradient.grid()).unwrap(),
            batching,
            relation,
            shape: of_rows.shape,
            noise_multiplier: 1.0,
            dimension: 1,
            records: 2,
        };
        let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(1));
        let mut stream = curator.open(&plan).unwrap();
        stream.next(data, &[0.0])?;
        stream.next(&units(3), &[0.0]).map(drop)
    };
    let zero_out = Relation::ZeroOut;
    assert_eq!(next(Batching::Position, &units(2), zero_out), Err(CuratorError::Shape));
    assert_eq!(next(Batching::Coin, &units(3), zero_out), Err(CuratorError::Shape), "not as many as planned");
    assert_eq!(
        next(Batching::Coin, &units(2), zero_out),
        Err(CuratorError::Shape),
        "others than those that were dealt"
    );
    // their number is protected under add-or-remove, but they stay the same
    assert_eq!(next(Batching::Coin, &units(3), Relation::AddOrRemove), Ok(()));
    assert_eq!(next(Batching::Coin, &units(4), Relation::AddOrRemove), Err(CuratorError::Shape));
    // rows of which a unit has two may stand unit by unit
    let mut rows = Rows::new(1);
    (0..4).for_each(|_| rows.push_zero());
    let owners = Owners { of_row: vec![0, 0, 1, 1], units: 2 };
    let pairs = Units::new(Examples { rows, targets: vec![0.0; 4] }, &owners).unwrap();
    let pairs = Sensitive::new(pairs.capped(2.try_into().unwrap(), |_| 0).one_by_one().unwrap());
    for (batching, fits) in [(Batching::Position, false), (Batching::Coin, true)] {
        let plan = StreamPlan { batching, ..plan(Correlation::Blt, 2, 2, 1, 4) };
        let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(1));
        assert_eq!(curator.open(&plan).unwrap().next(&pairs, &[0.0]).is_ok(), fits);
    }
}

/// Squared l2 norm of what `moved` (per step, per coordinate) moves of what the noise is added to: C times it, or the nodes of a tree per epoch.
fn moved_of_the_noised(shape: StreamShape, moved: &[Vec<f64>]) -> f64 {
    let squares = |of: &dyn Fn(usize) -> f64| (0..moved[0].len()).map(|j| of(j).powi(2)).sum::<f64>();
    let Some(factor) = shape.factor().unwrap() else {
        let epochs = moved.chunks(shape.batches);
        return epochs
            .map(|epoch| {
                // node (2^l, ending at t) of the steps 1, …, T of an epoch, for 2^l that divides t
                let nodes = (1..=epoch.len()).flat_map(|t| (0..=t.trailing_zeros()).map(move |l| t - (1 << l)..t));
                nodes.map(|node| squares(&|j| epoch[node.clone()].iter().map(|e| e[j]).sum())).sum::<f64>()
            })
            .sum();
    };
    let c = factor.coefficients(shape.steps);
    (0..shape.steps).map(|t| squares(&|j| (0..=t).map(|s| c[t - s] * moved[s][j]).sum())).sum()
}

/// What a unit has (row, target); and what all of them have in the order in which they are met.
type Held = Vec<([f32; 2], f32)>;

/// The exact sums of all steps; `coins` goes with the units, wherever they stand: as coins of their own would in both worlds.
fn dealt_sums(shape: StreamShape, world: &[(usize, Held)], coins: &[usize]) -> Vec<Vec<f64>> {
    let (mut rows, mut targets, mut of_row) = (Rows::new(2), Vec::new(), Vec::new());
    // every second row first, so that a unit's rows are not together
    for half in 0..2 {
        for (place, (_, held)) in world.iter().enumerate() {
            for (x, target) in held.iter().skip(half).step_by(2) {
                rows.push_clipped(&mut [(0, x[0]), (1, x[1])], 1.0);
                targets.push(*target);
                of_row.push(place as u32);
            }
        }
    }
    let units = Units::new(Examples { rows, targets }, &Owners { of_row, units: world.len() }).unwrap();
    let of_rows = plan(shape.correlation, shape.batches, shape.steps, 2, world.len() as u64);
    let plan = StreamPlan {
        gradient: Clipped::new(OfUnits::new(*of_rows.gradient.objective()), 1.0, of_rows.gradient.grid()).unwrap(),
        batching: Batching::Coin,
        relation: Relation::AddOrRemove,
        shape,
        noise_multiplier: 1.0,
        dimension: 2,
        records: 5,
    };
    let mut curator = Curator::for_event(&plan.event(), NoiseSource::insecure(1));
    let mut stream = curator.open(&plan).unwrap();
    let own: Vec<usize> = world.iter().map(|(unit, _)| coins[*unit]).collect();
    stream.batches = Batches::Dealt(Dealt::by(&own, shape.batches));
    let data = Sensitive::new(units);
    (0..shape.steps).map(|_| stream.next(&data, &[0.0; 2]).unwrap().into_inner()).collect()
}

/// A unit with 300 rows, or others, or none, first, last or not there: given the coins, what is noised moves by no more than the planned sensitivity.
#[test]
fn a_unit_moves_the_stream_by_what_was_planned_for() {
    let held = |n: usize, x: [f32; 2], target: f32| vec![(x, target); n];
    let others: Vec<(usize, Held)> =
        (1..6).map(|unit| (unit, held(unit - 1, [0.6, -0.8], if unit % 2 == 0 { 1e6 } else { -1e6 }))).collect();
    let with = |own: Held, place: usize| {
        let mut world = others.clone();
        world.insert(place, (0, own));
        world
    };
    let (nothing, up, down) = (vec![], held(300, [1.0, 0.0], -1e6), held(7, [1.0, 0.0], 1e6));
    // the last epoch is cut short or is not
    for (correlation, steps) in ALL.into_iter().flat_map(|c| [(c, 10), (c, 12)]) {
        let shape = StreamShape { batches: 4, steps, correlation };
        let planned = shape.sensitivity().unwrap();
        let mut most = [0.0f64; 3];
        for coin in 0..4 {
            let coins = [coin, 3, 0, 2, 0, 1];
            let sums = |world: &[(usize, Held)]| dealt_sums(shape, world, &coins);
            let base = sums(&with(up.clone(), 2));
            let neighbours = [
                (0, 1.0, with(nothing.clone(), 2)),
                // other places, among units that keep their own order
                (0, 1.0, with(nothing.clone(), 0)),
                (1, 2.0, with(down.clone(), 2)),
                (1, 2.0, with(down.clone(), 5)),
                (2, 1.0, others.clone()),
            ];
            for (kind, factor, world) in neighbours {
                let moved: Vec<Vec<f64>> =
                    base.iter().zip(sums(&world)).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect()).collect();
                let moved = moved_of_the_noised(shape, &moved).sqrt() / factor;
                // sums of at most a hundred doubles
                assert!(moved <= planned * (1.0 + 1e-12), "{correlation:?} {coin} {kind}: {moved} {planned}");
                most[kind] = most[kind].max(moved);
            }
        }
        // the gradients lose less than a grid step of 2^-12 each by truncation; a cut epoch is paid for as a whole one
        let whole = steps == 12;
        assert!(!whole || most.iter().all(|m| *m > 0.999 * planned), "{correlation:?}: {most:?} {planned}");
    }
}
