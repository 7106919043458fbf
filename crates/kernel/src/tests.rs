//! The curator refuses what the plan does not foresee; sums are exact; noise has the planned size.

use super::*;
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_objective::synthetic::{Lcg, table};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, certify};

const LOSS: Loss = Loss::Logistic { shift: 0.0 };

fn gradient(clip: f64, features: usize) -> Clipped<Linear> {
    Clipped::new(Linear::new(LOSS, features, 1.0), clip, Grid::new(-30)).unwrap()
}

fn gaussian(multiplier: f64, clip: f64, dimension: usize) -> Gaussian {
    Gaussian::new(multiplier, clip, Grid::new(-30), dimension, "gradient sum")
}

fn curator(event: Event) -> Curator {
    Curator::for_event(&event, NoiseSource::insecure(1))
}

#[test]
fn only_planned_releases_pass_and_only_as_often_as_planned() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mut curator = curator(Event::gaussian(2.0).self_composed(2));
    let sum = gradient(0.5, 7).sum(&examples, &weights);
    assert!(matches!(curator.release(&gaussian(1.9, 0.5, 7), &sum), Err(CuratorError::Unforeseen { .. })));
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    assert!(matches!(curator.release(&gaussian(2.0, 0.5, 7), &sum), Err(CuratorError::Unforeseen { .. })));
    assert_eq!(curator.records()[0].count, 2);
}

#[test]
fn a_sum_of_another_clip_norm_grid_or_dimension_is_refused_and_not_charged() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mut curator = curator(Event::gaussian(2.0));
    let too_large = gradient(0.8, 7).sum(&examples, &weights);
    let refused = curator.release(&gaussian(2.0, 0.5, 7), &too_large).unwrap_err();
    assert_eq!(refused, CuratorError::Sensitivity { input: 0.8, mechanism: 0.5 });
    let sum = gradient(0.5, 7).sum(&examples, &weights);
    let other_grid = Gaussian::new(2.0, 0.5, Grid::new(-29), 7, "gradient sum");
    assert_eq!(curator.release(&other_grid, &sum).unwrap_err(), CuratorError::Shape);
    assert_eq!(curator.release(&gaussian(2.0, 0.5, 8), &sum).unwrap_err(), CuratorError::Shape);
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
}

#[test]
fn a_batch_serves_one_release_of_its_own_sampling_probability() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mechanism = gaussian(2.0, 0.5, 7);
    let mut curator = curator(Event::gaussian(2.0).poisson_sampled(0.1).self_composed(3));
    // the whole data set where a sample was planned
    let whole = gradient(0.5, 7).sum(&examples, &weights);
    assert!(matches!(curator.release(&mechanism, &whole), Err(CuratorError::Unforeseen { .. })));
    // a larger sample than planned
    let batch = curator.poisson_sample(200, 0.2).unwrap();
    let sum = gradient(0.5, 7).sum_batch(&examples, batch, &weights);
    assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
    // one sample, two releases
    let batch = curator.poisson_sample(200, 0.1).unwrap();
    let sum = gradient(0.5, 7).sum_batch(&examples, batch, &weights);
    assert!(curator.release(&mechanism, &sum).is_ok());
    assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::BatchUsed { .. })));
    // a sample where the whole data set was planned
    let mut full = Curator::for_event(&Event::gaussian(2.0), NoiseSource::insecure(1));
    let batch = full.poisson_sample(200, 0.1).unwrap();
    let sum = gradient(0.5, 7).sum_batch(&examples, batch, &weights);
    assert!(matches!(full.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
}

#[test]
fn a_batch_belongs_to_the_curator_that_drew_it() {
    let examples = Sensitive::new(table(1, 200, 5, 6, 1.0, LOSS));
    let mechanism = Gaussian::new(2.0, 0.5, Grid::new(-30), 31, "gradient sum");
    let event = Event::gaussian(2.0).poisson_sampled(0.1).self_composed(2);
    // both have a batch of the same number and probability open
    let mut curators = [1, 2].map(|seed| Curator::for_event(&event, NoiseSource::insecure(seed)));
    let batches = curators.each_mut().map(|c| c.poisson_sample(200, 0.1).unwrap());
    let weights = vec![0.0; 31];
    let [first, second] = batches.map(|batch| gradient(0.5, 31).sum_batch(&examples, batch, &weights));
    let [one, two] = &mut curators;
    assert!(matches!(two.release(&mechanism, &first), Err(CuratorError::ForeignBatch { .. })));
    assert!(matches!(one.release(&mechanism, &second), Err(CuratorError::ForeignBatch { .. })));
    // nothing was charged and no batch was used up
    assert!(one.records().is_empty() && two.records().is_empty());
    assert!(one.release(&mechanism, &first).is_ok() && two.release(&mechanism, &second).is_ok());
    // batches of fixed size carry the same mark
    let ids = curators.map(|mut c| c.fixed_sample(200, 20).unwrap().id());
    assert!(ids[0] != ids[1]);
}

#[test]
fn one_record_moves_the_sum_by_at_most_the_clip_norm_exactly() {
    let mut random = Lcg::new(4);
    for loss in [LOSS, Loss::Squared, Loss::Softmax { classes: 3 }, Loss::Hinge] {
        for clip in [0.3, 0.5, 1.0 / 3.0] {
            let grid = Grid::new(-30);
            let gradient = Clipped::new(Linear::new(loss, 13, 1.0), clip, grid).unwrap();
            // floor((C/γ)²) from the exact value of C as mantissa·2^e
            let limit = (clip * 2f64.powi(30)).powi(2);
            for trial in 0..200 {
                let examples = table(trial, 1, 3, 4, 1.0, loss);
                let weights: Vec<f64> = (0..13 * loss.outputs()).map(|_| 30.0 * random.normal()).collect();
                let sum = gradient.sum(&Sensitive::new(examples), &weights);
                let exact: u128 = sum.expose().quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
                assert!(exact as f64 <= limit, "{loss:?}");
            }
        }
    }
}

#[test]
fn unclipped_sums_are_the_gradient() {
    let examples = table(3, 400, 3, 4, 1.0, Loss::Softmax { classes: 3 });
    let loss = Loss::Softmax { classes: 3 };
    let weights: Vec<f64> = (0..39).map(|j| 0.1 * f64::from(j % 7)).collect();
    let gradient = Clipped::new(Linear::new(loss, 13, 1.0), 2.0, Grid::new(-40)).unwrap();
    let sum = gradient.sum(&Sensitive::new(examples.clone()), &weights);
    for j in [0, 5, 20, 38] {
        let (mut up, mut down) = (weights.clone(), weights.clone());
        up[j] += 1e-5;
        down[j] -= 1e-5;
        let mean = |w: &[f64]| dpopt_objective::synthetic::mean_loss(&examples, loss, w);
        let numeric = 400.0 * (mean(&up) - mean(&down)) / 2e-5;
        let exact = sum.expose().quanta[j] as f64 * 2f64.powi(-40);
        assert!((exact - numeric).abs() < 1e-5, "{j}: {exact} {numeric}");
    }
}

#[test]
fn integer_sums_do_not_depend_on_threads() {
    let examples = Sensitive::new(table(2, 5000, 5, 6, 1.0, LOSS));
    let weights: Vec<f64> = (0..31).map(|j| f64::from(j) * 0.1).collect();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| gradient(0.5, 31).sum(&examples, &weights).expose().quanta.clone())
    };
    assert_eq!(with(1), with(4));
}

#[test]
fn noise_has_the_planned_standard_deviation() {
    let n = 40_000;
    let empty = Examples { rows: Rows::new(n), targets: Vec::new() };
    let sum = gradient(0.5, n).sum(&Sensitive::new(empty), &vec![0.0; n]);
    let noisy = curator(Event::gaussian(3.0)).release(&gaussian(3.0, 0.5, n), &sum).unwrap();
    let variance = noisy.get().iter().map(|x| x * x).sum::<f64>() / n as f64;
    // relative standard error √(2/n) = 0.7%; five of them: false alarm below 1e-6
    assert!((variance / 2.25 - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{variance}");
    let mean = noisy.get().iter().sum::<f64>() / n as f64;
    assert!(mean.abs() < 5.0 * 1.5 / (n as f64).sqrt());
}

#[test]
fn matrix_noise_is_isometric_and_its_sum_exact() {
    let d = 60;
    let coordinates = SecondMoment::coordinates(d);
    let examples = table(5, 300, 3, 19, 1.0, LOSS); // d = 58
    let d_rows = examples.rows.columns();
    let grid = Grid::for_products(0.25, 1.0, 300);
    let moment = SecondMoment::new(0.25, 1.0, grid).unwrap();
    let Ok(sum) = moment.sum(&Sensitive::new(examples.clone()));
    let exact: Vec<f64> = sum.expose().quanta.iter().map(|&u| grid.to_f64(u)).collect();
    let matrix = symmetric_matrix(d_rows, &exact);
    let mut direct = vec![0.0; d_rows * d_rows];
    for i in 0..examples.rows.len() {
        let (indices, values) = examples.rows.row(i);
        for (&j, &x) in indices.iter().zip(values) {
            for (&k, &y) in indices.iter().zip(values) {
                direct[j as usize * d_rows + k as usize] += 0.25 * f64::from(x) * f64::from(y);
            }
        }
    }
    // rows are rounded to multiples of √(29γ): half of one in each factor, of at most ½·|x| both
    let rounding = 300.0 * 0.5 * (29.0 * grid.step()).sqrt();
    assert!(rounding < 2e-4);
    assert!(matrix.iter().zip(&direct).all(|(a, b)| (a - b).abs() < rounding));

    // pure noise: variance s² on the diagonal, s²/2 off it
    let empty = Sensitive::new(Examples { rows: Rows::new(d), targets: Vec::new() });
    let moment = SecondMoment::new(1.0, 1.0, Grid::new(-30)).unwrap();
    let release = Gaussian::new(2.0, 1.0, Grid::new(-30), coordinates, "second moment");
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for seed in 0..60 {
        let mut curator = Curator::for_event(&Event::gaussian(2.0), NoiseSource::insecure(seed));
        let matrix = symmetric_matrix(d, curator.release(&release, &moment.sum(&empty).unwrap()).unwrap().get());
        for j in 0..d {
            on.push(matrix[j * d + j]);
            for k in 0..j {
                assert_eq!(matrix[j * d + k], matrix[k * d + j]);
                off.push(matrix[j * d + k]);
            }
        }
    }
    for (sample, variance) in [(on, 4.0), (off, 2.0)] {
        let n = sample.len() as f64;
        let found = sample.iter().map(|x| x * x).sum::<f64>() / n;
        assert!((found / variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{found} against {variance}");
    }
}

#[test]
fn secure_noise_differs_between_runs() {
    let empty = Sensitive::new(Examples { rows: Rows::new(3), targets: Vec::new() });
    let run = || {
        let mut curator = Curator::for_event(&Event::gaussian(2.0), NoiseSource::secure().unwrap());
        let sum = gradient(0.5, 3).sum(&empty, &[0.0; 3]);
        curator.release(&gaussian(2.0, 0.5, 3), &sum).unwrap().into_inner()
    };
    // three numbers of standard deviation 1 on a grid of 2^-30: alike with probability 2e-29
    assert_ne!(run(), run());
}

#[test]
fn unusable_targets_contribute_nothing_and_stop_nothing() {
    let loss = Loss::Softmax { classes: 3 };
    let good = table(1, 20, 2, 3, 1.0, loss);
    let gradient = Clipped::new(Linear::new(loss, 7, 1.0), 0.5, Grid::new(-30)).unwrap();
    let weights = vec![0.1; 21];
    let clean = gradient.sum(&Sensitive::new(good.clone()), &weights).expose().quanta.clone();
    let mut ugly = good.clone();
    for bad in [f32::NAN, -1.0, 3.0, f32::INFINITY] {
        ugly.rows.push_clipped(&mut [(0, 0.5)], 1.0);
        ugly.targets.push(bad);
    }
    assert_eq!(gradient.sum(&Sensitive::new(ugly), &weights).expose().quanta, clean);
}

fn certified(event: &Event) -> Certificate {
    let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(8.0, 1e-5).unwrap());
    certify(event, terms).unwrap()
}

/// A certificate that pays for the noise of one release of seven coordinates opens that, and not another draw.
#[test]
fn samplers_are_counted_as_they_draw_and_refused_beyond_what_was_paid_for() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let sum = gradient(0.5, 7).sum(&examples, &[0.0; 7]);
    let (event, each) = (Event::gaussian(2.0).self_composed(2), 2f64.powi(-110));
    let open = |paid: f64| Curator::new(&certified(&event.clone().approximate(paid)), NoiseSource::insecure(1));
    let mut enough = open(14.0 * each);
    assert!(enough.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    assert!(enough.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    let mut short = open(13.0 * each);
    assert!(short.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    let refused = short.release(&gaussian(2.0, 0.5, 7), &sum).unwrap_err();
    assert_eq!(refused, CuratorError::Inexact { label: "gradient sum" });
    // nothing was taken
    assert!(!short.is_spent() && short.records()[0].count == 1);
    // a plan that forgot the batches' draws does not get a batch
    let sampled = Event::gaussian(2.0).poisson_sampled(0.5);
    let mut forgot = Curator::new(&certified(&sampled), NoiseSource::insecure(1));
    assert!(matches!(forgot.poisson_sample(50, 0.5), Err(CuratorError::Inexact { .. })));
}

fn absolute(features: usize) -> Clipped<Linear> {
    Clipped::new(Linear::new(Loss::Absolute, features, 1.0), 1.0, Grid::new(-30)).unwrap()
}

/// Sum of the records' first coordinates over a batch of `block`, with noise so small that it shows who was in.
fn members(block: &mut Curator, examples: &Sensitive<Examples>, batch: Batch) -> Result<Vec<f64>, CuratorError> {
    let width = examples.expose().rows.columns();
    let sum = absolute(width).sum_batch(examples, batch, &vec![0.0; width]);
    Ok(block.release(&Gaussian::new(1e-6, 1.0, Grid::new(-30), width, "members"), &sum)?.into_inner())
}

/// Record i has its only entry, 1, in column i; every slope of the absolute loss is −1.
fn marked(n: usize) -> Sensitive<Examples> {
    let mut rows = Rows::new(n);
    (0..n).for_each(|i| rows.push_clipped(&mut [(i as u32, 1.0)], 1.0));
    Sensitive::new(Examples { rows, targets: vec![1.0; n] })
}

#[test]
fn blocks_are_charged_as_one_and_each_reads_its_own_records_only() {
    let n = 10;
    let one = Event::gaussian(1e-6);
    let sampled = one.clone().poisson_sampled(0.5);
    let blocks = Blocks::new(n, vec![one.clone(), Event::composed(vec![one.clone(), sampled]), one.clone()]).unwrap();
    let covered: Vec<usize> = (0..3).flat_map(|b| blocks.positions(b)).collect();
    assert_eq!(covered, (0..n).collect::<Vec<_>>(), "every record is in one block");
    let mut curator = curator(Event::composed(vec![blocks.event(), Event::gaussian(7.0)]));
    let mut open = curator.open(&blocks).unwrap();
    assert!(!curator.is_spent() && curator.records().len() == 1);
    assert!(matches!(curator.open(&blocks), Err(CuratorError::Unforeseen { .. })), "opened once");

    let examples = marked(n);
    for (b, block) in open.iter_mut().enumerate() {
        let batch = block.all_of(n).unwrap();
        let seen = members(block, &examples, batch).unwrap();
        for (i, x) in seen.iter().enumerate() {
            let inside = blocks.positions(b).contains(&i);
            assert!((x.abs() - f64::from(u8::from(inside))).abs() < 1e-4, "block {b}, record {i}: {x}");
        }
        // its allowance is its own
        let again = block.all_of(n).unwrap();
        assert!(matches!(members(block, &examples, again), Err(CuratorError::Unforeseen { .. })));
    }
    // the second block also has a sample: of its own records
    let batch = open[1].poisson_sample(n, 0.5).unwrap();
    assert!(batch.records().iter().all(|i| blocks.positions(1).contains(&(*i as usize))));
    let seen = members(&mut open[1], &examples, batch).unwrap();
    assert!((0..n).all(|i| blocks.positions(1).contains(&i) || seen[i].abs() < 1e-4));
    assert!(open.iter().all(Curator::is_spent));
    for _ in 0..20 {
        let fixed = open[2].fixed_sample(n, 2).unwrap();
        assert!(fixed.records().iter().all(|i| blocks.positions(2).contains(&(*i as usize))));
    }
}

#[test]
fn blocks_of_given_sizes_in_an_order_of_coins_read_each_record_in_one_block() {
    let n = 60;
    let one = Event::gaussian(1e-6);
    let sampled = one.clone().poisson_sampled(0.5);
    let events = vec![Event::composed(vec![one.clone(), sampled]); 3];
    let sizes = [35, 15, 10];
    let blocks = Blocks::of_sizes(&sizes, events.clone()).unwrap().shuffled();
    let examples = marked(n);
    let whose = |seed| -> Vec<Vec<usize>> {
        let mut curator = Curator::for_event(&blocks.event(), NoiseSource::insecure(seed));
        let mut open = curator.open(&blocks).unwrap();
        let mut all = Vec::new();
        for (b, block) in open.iter_mut().enumerate() {
            let (batch, indices) = block.all_for_loader(n).unwrap();
            assert!(indices.is_sorted() && indices == batch.records());
            assert_eq!(indices.len(), sizes[b]);
            let seen = members(block, &examples, batch).unwrap();
            let inside: Vec<usize> = (0..n).filter(|&i| seen[i].abs() > 0.5).collect();
            assert_eq!(inside, indices.iter().map(|&i| i as usize).collect::<Vec<_>>());
            let batch = block.poisson_sample(n, 0.5).unwrap();
            assert!(batch.records().iter().all(|i| inside.contains(&(*i as usize))));
            let fixed = block.fixed_sample(n, 10).unwrap().unordered();
            assert!(fixed.records().iter().all(|i| inside.contains(&(*i as usize))));
            // a sample without replacement is none of Poisson's, whatever it is called
            assert!(matches!(members(block, &examples, fixed), Err(CuratorError::Unforeseen { .. })));
            assert!(members(block, &examples, batch).is_ok());
            all.push(inside);
        }
        assert!(open.iter().all(Curator::is_spent));
        let mut everybody: Vec<usize> = all.concat();
        everybody.sort_unstable();
        assert_eq!(everybody, (0..n).collect::<Vec<_>>());
        all
    };
    assert_ne!(whose(1), whose(2), "the order is the run's own");
    assert!(Blocks::of_sizes(&sizes, events[..2].to_vec()).is_err() && Blocks::of_sizes(&[], vec![]).is_err());
    // records beyond those of the plan, or fewer, have no block
    let mut curator = Curator::for_event(&blocks.event(), NoiseSource::insecure(1));
    let mut open = curator.open(&blocks).unwrap();
    assert!(open[0].all_of(n + 1).is_err() && open[0].fixed_sample(n - 1, 2).is_err());
}

#[test]
fn a_block_refuses_what_may_have_read_other_blocks() {
    let (n, one) = (10, Event::gaussian(1e-6));
    let blocks = Blocks::new(n, vec![one.clone(); 2]).unwrap();
    let mut curator = curator(Event::composed(vec![blocks.event(), one.poisson_sampled(0.5)]));
    let mut open = curator.open(&blocks).unwrap();
    let examples = marked(n);
    // a sum over all records
    let unit = absolute(examples.expose().rows.columns());
    let whole = unit.sum(&examples, &vec![0.0; n]);
    let mechanism = Gaussian::new(1e-6, 1.0, Grid::new(-30), n, "members");
    assert!(matches!(open[0].release(&mechanism, &whole), Err(CuratorError::OutsideBlock { .. })));
    // a batch of the other block, and one of all records
    let other = open[1].all_of(n).unwrap();
    assert!(matches!(members(&mut open[0], &examples, other), Err(CuratorError::ForeignBatch { .. })));
    let everyone = curator.poisson_sample(n, 0.5).unwrap();
    assert!(matches!(members(&mut open[0], &examples, everyone), Err(CuratorError::ForeignBatch { .. })));
    // another number of records has other borders
    assert!(matches!(open[0].all_of(n + 1), Err(CuratorError::Shape)));
    assert!(matches!(open[0].poisson_sample(n - 1, 0.5), Err(CuratorError::Shape)));
    // mechanisms that stay open do not know their records
    assert!(matches!(open[0].open(&blocks), Err(CuratorError::OutsideBlock { .. })));
    // nothing of this was taken
    let own = open[0].all_of(n).unwrap();
    assert!(members(&mut open[0], &examples, own).is_ok());
    // under add-or-remove the borders would move
    let terms = Neighbours::of_records(Relation::AddOrRemove).within(Budget::new(1e9, 0.5).unwrap());
    assert!(certify(&blocks.event(), terms).is_err());
}

#[test]
fn blocks_pay_for_their_samplers_and_have_noise_of_their_own() {
    let (n, each) = (40, 2f64.powi(-110));
    let release = Event::gaussian(3.0).approximate(n as f64 * each);
    let blocks = Blocks::new(n, vec![release.clone(), Event::gaussian(3.0)]).unwrap();
    let mut curator = Curator::new(&certified(&blocks.event()), NoiseSource::insecure(3));
    let mut open = curator.open(&blocks).unwrap();
    let examples = marked(n);
    let unit = absolute(n);
    let mechanism = Gaussian::new(3.0, 1.0, Grid::new(-30), n, "sum");
    let mut results = open.iter_mut().map(|block| {
        let batch = block.all_of(n).unwrap();
        block.release(&mechanism, &unit.sum_batch(&examples, batch, &vec![0.0; n])).map(|r| r.into_inner())
    });
    assert!(results.next().unwrap().is_ok());
    // this one's event has nothing for its sampler
    assert_eq!(results.next().unwrap(), Err(CuratorError::Inexact { label: "sum" }));
    // the blocks' sources are children of the run's: no two draw the same
    let twin = Blocks::new(n, vec![release; 2]).unwrap();
    let mut curator = Curator::new(&certified(&twin.event()), NoiseSource::insecure(3));
    let zero = Sensitive::new(Examples { rows: Rows::new(n), targets: Vec::new() });
    let noises: Vec<Vec<f64>> = curator
        .open(&twin)
        .unwrap()
        .into_iter()
        .map(|mut block| {
            let empty = block.poisson_sample(n, 0.0).unwrap();
            assert!(empty.records().is_empty());
            let batch = Batch { records: Vec::new(), ..block.all_of(n).unwrap() };
            block.release(&mechanism, &unit.sum_batch(&zero, batch, &vec![0.0; n])).unwrap().into_inner()
        })
        .collect();
    assert!(noises[0].iter().zip(&noises[1]).all(|(a, b)| a != b));
}

/// Also where the blocks' part is so much larger than the rest that f64 can't hold both.
#[test]
fn opened_blocks_leave_the_run_what_it_paid_for() {
    let (n, each) = (10, 2f64.powi(-110));
    let room = 1.0 + 2f64.powi(-40);
    let block = Event::gaussian(30.0).approximate(1e8 * each * room);
    let blocks = Blocks::new(n, vec![block; 2]).unwrap();
    let rest = Event::gaussian(2.0).approximate(7.0 * each * room);
    let mut curator = Curator::new(&certified(&Event::composed(vec![blocks.event(), rest])), NoiseSource::insecure(1));
    assert!(curator.open(&blocks).is_ok());
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &gradient(0.5, 7).sum(&examples, &[0.0; 7])).is_ok());
}

/// A mechanism whose noise is made smaller says so itself: its event is another one, which no plan foresees.
#[test]
fn less_noise_is_another_event() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let sum = gradient(0.5, 7).sum(&examples, &[0.0; 7]);
    let unforeseen = |refused: Result<(), CuratorError>| {
        assert!(matches!(refused, Err(CuratorError::Unforeseen { .. })), "{refused:?}");
    };
    unforeseen(curator(Event::gaussian(2.0)).release(&gaussian(2.0f64.next_down(), 0.5, 7), &sum).map(drop));
    // half the clip norm is half the noise: the sum's own clip norm is then too large
    let halved = curator(Event::gaussian(2.0)).release(&gaussian(2.0, 0.25, 7), &sum).map(drop);
    assert!(matches!(halved, Err(CuratorError::Sensitivity { .. })));
}

#[test]
fn a_batch_of_more_records_than_there_are_finds_nothing_beyond_them_and_nobody_hears_of_it() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let (clipped, weights) = (gradient(0.5, 7), vec![0.0; 7]);
    let event = Event::gaussian(2.0).poisson_sampled(1.0).self_composed(2);
    let mut curator = Curator::for_event(&event, NoiseSource::insecure(1));
    let [known, more] = [200, 1000].map(|records| curator.poisson_sample(records, 1.0).unwrap());
    let [known, more] = [known, more].map(|batch| clipped.sum_batch(&examples, batch, &weights));
    assert_eq!(known.expose().quanta(), more.expose().quanta());
}

#[test]
fn how_many_records_there_are_is_shown_where_the_certificate_s_neighbours_agree_on_it() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    for (relation, rows) in
        [(Relation::ZeroOut, Some(200)), (Relation::ReplaceOne, Some(200)), (Relation::AddOrRemove, None)]
    {
        let terms = Neighbours::of_records(relation).within(Budget::new(1.0, 1e-6).unwrap());
        let certificate = certify(&Event::gaussian(20.0), terms).unwrap();
        let curator = Curator::new(&certificate, NoiseSource::insecure(1));
        assert_eq!(curator.public_shape(&examples).records, rows, "{relation:?}");
    }
}

/// Where a stream's batches are by position, another record would move all that come after it.
#[test]
fn a_stream_by_position_is_not_for_add_or_remove() {
    let plan = |relation, batching| StreamPlan {
        batching,
        shape: StreamShape { batches: 4, steps: 4, correlation: Correlation::Independent },
        gradient: gradient(0.5, 7),
        noise_multiplier: 20.0,
        dimension: 7,
        records: 200,
        relation,
    };
    let opened = |relation, batching| {
        let terms = Neighbours::of_records(relation).within(Budget::new(1.0, 1e-6).unwrap());
        let certificate = certify(&SamplerError::proved(1e-9).on(Event::gaussian(20.0)), terms).unwrap();
        Curator::new(&certificate, NoiseSource::insecure(1)).open(&plan(relation, batching)).map(drop)
    };
    for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
        assert_eq!(opened(relation, Batching::Position), Ok(()));
        assert_eq!(opened(relation, Batching::Coin), Ok(()));
    }
    assert_eq!(opened(Relation::AddOrRemove, Batching::Position), Err(CuratorError::Shape));
    assert_eq!(opened(Relation::AddOrRemove, Batching::Coin), Ok(()));
}
