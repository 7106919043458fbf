use super::problem::Answers;
use super::*;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{BatchSum, Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::{Closures, Objective};
use dpopt_optimize::MethodOptions;
use dpopt_optimize::plan::Grade;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

/// A record's loss at x: not convex, lowest at the record, of slope 1 at most.
fn dip(x: &[f64], a: &[f64; 2]) -> f64 {
    let distance = x.iter().zip(a).map(|(x, a)| (x - a).powi(2)).sum::<f64>().sqrt();
    distance.min(0.5)
}

fn dips() -> impl Objective<Vec<[f64; 2]>> + Clone {
    Closures::new(2, |x: &[f64], a: &[f64; 2]| dip(x, a), |_: &[f64], _: &[f64; 2], _: &mut [f64]| {})
}

struct Foreign(Vec<[f64; 2]>);

impl PerRecord for Foreign {
    fn gradients(&mut self, _: &[u64], _: &[f64], _: &mut BatchSum) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("values only"))
    }

    fn combined(&mut self, _: &[u64], _: &[(f64, &[f64])], _: &mut BatchSum) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("values only"))
    }

    fn derivatives(
        &mut self,
        _: &[u64],
        _: &[f64],
        _: &Directions,
        _: &mut BatchSum,
    ) -> Result<(), dpopt_optimize::RunError> {
        Err(dpopt_optimize::RunError::Numerical("values only"))
    }

    fn values(&mut self, records: &[u64], x: &[f64], out: &mut Vec<f64>) -> Result<(), dpopt_optimize::RunError> {
        out.extend(records.iter().map(|&i| dip(x, &self.0[i as usize])));
        Ok(())
    }
}

fn problem(n: u64, d: usize, relation: Relation) -> MinimizeProblem {
    MinimizeProblem {
        answers: Answers::Values,
        distance: 1.0,
        ..MinimizeProblem::new(n, d, Neighbours::of_records(relation))
    }
}

fn pure(epsilon: f64) -> Budget {
    Budget::new(epsilon, 0.0).unwrap()
}

fn net_of(plan: &MinimizePlan) -> NetSchedule {
    let Rule::Net(net) = plan.schedule.rule else { panic!("{:?}", plan.schedule.rule) };
    net
}

/// Two thirds of the records near one corner, the others near the start, which is a local minimum.
fn two_places(n: usize) -> Vec<[f64; 2]> {
    (0..n).map(|i| if i % 3 == 0 { [0.02, 0.0] } else { [0.6, -0.7 + 1e-6 * i as f64] }).collect()
}

#[test]
fn the_global_minimum_is_found_at_no_delta_wherever_the_losses_are_evaluated() {
    let (n, records) = (600, two_places(600));
    let here = problem(n, 2, Relation::ReplaceOne);
    // all others need a delta
    let plan = choose(&here, pure(2.0), &MethodOptions::default().with("points", 3000u64)).unwrap();
    assert_eq!((plan.method, plan.grade()), ("net", Grade::Certified));
    let net = net_of(&plan);
    assert_eq!(*plan.certificate.event(), Event::ExponentialMechanism { epsilon: net.choice_epsilon });
    assert!(net.choice_epsilon <= 2.0 && net.choice_epsilon > 1.999_99 && net.points <= 3000 && net.points > 2500);
    assert_eq!(plan.evaluations, (net.points + 1) as f64 * 600.0);
    let run_on = |problem: &MinimizeProblem, plan: &MinimizePlan, remote: bool| {
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(4));
        let found = if remote {
            let source = ReadByObjective::new(Foreign(records.clone()), 600);
            run(problem, plan, &[0.0; 2], source, &mut curator, &Silent)
        } else {
            let records = Sensitive::new(records.clone());
            run(problem, plan, &[0.0; 2], InMemory::new(dips(), &records), &mut curator, &Silent)
        };
        assert!(curator.is_spent());
        found.unwrap().into_inner()
    };
    let x = run_on(&here, &plan, false);
    assert!((x[0] - 0.6).hypot(x[1] + 0.7) < 0.15, "{x:?}");
    let there = MinimizeProblem { remote: true, ..here.clone() };
    let foreign = choose(&there, pure(2.0), &MethodOptions::of("net").with("points", 3000u64)).unwrap();
    assert!(foreign.assumptions.iter().any(|a| a.text().contains("assumed, not checked")));
    assert_eq!(run_on(&there, &foreign, true), x);
}

/// Five points of [−1, 1], each record a hinge: P ∝ exp(−ε·Σ(loss there − loss at 0)/(2kGR)), R = .8 the furthest point's distance, k = 2 where records are
/// replaced.
#[test]
fn five_points_are_drawn_by_their_law() {
    // of fewer records the net would be coarser; what is no number counts nothing
    let mut records: Vec<f64> = vec![f64::NAN; 16];
    records[..4].copy_from_slice(&[0.5, 0.5, -0.2, 5.0]);
    let loss = |x: f64, a: f64| 2.0 * (x - a).abs();
    let objective = Closures::new(1, move |x: &[f64], a: &f64| loss(x[0], *a), |_: &[f64], _: &f64, _: &mut [f64]| {});
    for (relation, k) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0), (Relation::AddOrRemove, 1.0)] {
        let problem = problem(16, 1, relation);
        let options = MethodOptions::of("net").with("points", 5u64).with("box_radius", 1.0);
        let plan = choose(&problem, pure(3.0), &options).unwrap();
        let net = net_of(&plan);
        assert_eq!((net.points, net.spacing), (5, 0.4));
        // slopes of 2 are cut to 1
        let cut = |x: f64, gain: f64| if gain.is_nan() { 0.0 } else { gain.clamp(-x.abs(), x.abs()) };
        let gain = |x: f64, a: f64| cut(x, loss(x, a) - loss(0.0, a));
        let weights: Vec<f64> = (-2..=2)
            .map(|i| 0.4 * f64::from(i))
            .map(|x| (-net.choice_epsilon * records.iter().map(|a| gain(x, *a)).sum::<f64>() / (2.0 * k * 0.8)).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let (runs, sensitive) = (20_000, Sensitive::new(records.clone()));
        let mut seen = [0.0; 5];
        for seed in 0..runs {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
            let source = InMemory::new(objective, &sensitive);
            let x = run(&problem, &plan, &[0.0], source, &mut curator, &Silent).unwrap().into_inner()[0];
            seen[(x / 0.4 + 2.0).round() as usize] += 1.0;
        }
        for (count, weight) in seen.iter().zip(&weights) {
            let p = weight / total;
            // five and a half standard deviations: false alarm 4e-8 each
            let spread = (p * (1.0 - p) * runs as f64).sqrt();
            assert!((count - p * runs as f64).abs() < 5.5 * spread, "{relation:?}: {seen:?} {weights:?}");
        }
    }
}

#[test]
fn the_bound_is_the_published_one_and_resolutions_follow_from_public_numbers() {
    let of = |n: u64, d: usize, relation, options: MethodOptions| {
        let problem = problem(n, d, relation);
        choose(&problem, pure(1.0), &options).unwrap()
    };
    for (d, relation) in [(1, Relation::ReplaceOne), (2, Relation::ReplaceOne), (2, Relation::ZeroOut)] {
        let plan = of(1000, d, relation, MethodOptions::of("net"));
        let net = net_of(&plan);
        // G = 1, D = 2: Gr + (2GD/(εn))(ln|P| + 1) of replaced records, half of the second term of absent ones
        let k = if relation == Relation::ReplaceOne { 1.0 } else { 0.5 };
        let expected = net.cover_radius + k * 4.0 / 1000.0 * ((net.points as f64).ln() + 1.0);
        assert!((plan.predicted_excess / expected - 1.0).abs() < 1e-5, "{} {expected}", plan.predicted_excess);
        // neither half nor twice as many cells have a lower bound
        for cells in [net.cells / 2, 2 * net.cells] {
            let points = (net.points as f64) * (cells as f64 / net.cells as f64).powi(d as i32);
            let other = net.cover_radius * net.cells as f64 / cells as f64 + k * 4.0 / 1000.0 * (points.ln() + 1.0);
            assert!(other > expected, "{cells}: {other} {expected}");
        }
    }
    // 10^6 points, and 10^9 losses
    let net = |n, d| net_of(&of(n, d, Relation::ZeroOut, MethodOptions::of("net"))).points;
    assert!(net(1000, 3) <= 1_000_000 && net(1000, 3) > 900_000);
    assert!(net(100_000, 2) <= 10_000 && net(100_000, 2) > 9_000);
    let given = of(100_000, 2, Relation::ZeroOut, MethodOptions::of("net").with("points", 100_000u64));
    assert!(net_of(&given).points > 95_000);
}

#[test]
fn what_a_net_is_not_for_is_refused_with_what_to_take() {
    let refusal = |problem: &MinimizeProblem, options: MethodOptions| {
        choose(problem, pure(1.0), &options).unwrap_err().to_string()
    };
    let wide = refusal(&problem(1000, 4, Relation::ZeroOut), MethodOptions::of("net"));
    assert!(wide.contains("at most 3") && wide.contains("zeroth-order"), "{wide}");
    let slopes = MinimizeProblem { answers: Answers::Gradients, remote: true, ..problem(1000, 2, Relation::ZeroOut) };
    assert!(refusal(&slopes, MethodOptions::of("net")).contains("one loss for each record"));
    let few = problem(1000, 2, Relation::ZeroOut);
    assert!(refusal(&few, MethodOptions::of("net").with("points", 2u64)).contains("from 3 to"));
    assert!(refusal(&few, MethodOptions::of("net").with("points", 1u64 << 25)).contains("from 3 to"));
    assert!(refusal(&few, MethodOptions::of("net").with("steps", 10u64)).contains("has no option `steps`"));
    // of objectives of the library gradients are asked for, and values are there
    let own = MinimizeProblem { answers: Answers::Gradients, ..few };
    assert_eq!(choose(&own, pure(1.0), &MethodOptions::of("net")).unwrap().method, "net");
}

#[test]
fn no_delta_is_spent_where_one_could_be() {
    let problem = problem(1000, 2, Relation::ZeroOut);
    let plan = choose(&problem, Budget::new(1.0, 1e-6).unwrap(), &MethodOptions::of("net")).unwrap();
    assert_eq!(plan.certificate.budget(), pure(1.0));
    assert!(plan.certificate.bound().upper <= 1.0);
}

/// Losses between 0 and 4 on five points of [−1, 1]: P ∝ exp(−ε·Σloss/(kB)), whatever the slopes are.
#[test]
fn losses_of_a_known_range_are_drawn_by_their_law_with_noise_for_that_range() {
    let mut records: Vec<f64> = vec![f64::NAN; 16];
    records[..3].copy_from_slice(&[0.5, -0.2, 9.0]);
    let loss = |x: f64, a: f64| 5.0 * (x - a).abs();
    let objective = Closures::new(1, move |x: &[f64], a: &f64| loss(x[0], *a), |_: &[f64], _: &f64, _: &mut [f64]| {});
    for (relation, k) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0)] {
        let problem = problem(16, 1, relation);
        let options = MethodOptions::of("net").with("points", 5u64).with("box_radius", 1.0);
        let options = options.with("clip_norm", 5.0).with("loss_bound", 4.0);
        let plan = choose(&problem, pure(3.0), &options).unwrap();
        let net = net_of(&plan);
        let expected = 5.0 * net.cover_radius + k * 4.0 / (net.choice_epsilon * 16.0) * (5f64.ln() + 1.0);
        assert!((plan.predicted_excess / expected - 1.0).abs() < 1e-9, "{} {expected}", plan.predicted_excess);
        let cut = |loss: f64| if loss.is_nan() { 0.0 } else { loss.clamp(0.0, 4.0) };
        let weights: Vec<f64> = (-2..=2)
            .map(|i| 0.4 * f64::from(i))
            .map(|x| (-net.choice_epsilon * records.iter().map(|a| cut(loss(x, *a))).sum::<f64>() / (k * 4.0)).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let (runs, sensitive) = (20_000, Sensitive::new(records.clone()));
        let mut seen = [0.0; 5];
        for seed in 0..runs {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
            let source = InMemory::new(objective, &sensitive);
            let x = run(&problem, &plan, &[0.0], source, &mut curator, &Silent).unwrap().into_inner()[0];
            seen[(x / 0.4 + 2.0).round() as usize] += 1.0;
        }
        for (count, weight) in seen.iter().zip(&weights) {
            let p = weight / total;
            // five and a half standard deviations: false alarm 4e-8 each
            let spread = (p * (1.0 - p) * runs as f64).sqrt();
            assert!((count - p * runs as f64).abs() < 5.5 * spread, "{relation:?}: {seen:?} {weights:?}");
        }
        let wide = choose(&problem, pure(3.0), &options.with("loss_bound", 10.0)).unwrap_err().to_string();
        assert!(wide.contains("leave it out"), "{wide}");
    }
}

#[test]
fn a_resolution_that_follows_from_the_number_of_points_is_reported() {
    let warned = |n: u64, options: MethodOptions| {
        let plan = choose(&problem(n, 2, Relation::ZeroOut), pure(1.0), &options).unwrap();
        plan.warnings.iter().any(|text| text.contains("the net has only "))
    };
    // 10^9 losses are 10^4 points for so many records, and noise asks for about n²/8 of them
    assert!(warned(100_000, MethodOptions::of("net")));
    assert!(!warned(200, MethodOptions::of("net")));
    assert!(!warned(100_000, MethodOptions::of("net").with("points", 9_000u64)), "that was asked for");
}

/// A double well, 2(x² − 1/4)² + x/10 on [−1, 1] with the regulariser x²/(8β).
fn double_well(x: f64, beta: f64) -> f64 {
    2.0 * (x * x - 0.25).powi(2) + 0.1 * x + x * x / (8.0 * beta)
}

/// (E x, E of the double well less its least value, P(x > 0)) of the net's law with exponent −β.
fn moments(cells: u64, beta: f64) -> (f64, f64, f64) {
    let grid = super::cells::cells_within(1, true, cells as f64, 1 << 24);
    let spacing = 2.0 / grid.cells as f64;
    let net = NetSchedule {
        points: grid.count(),
        cells: grid.cells as u64,
        spacing,
        cover_radius: 0.5 * spacing,
        reach: 1.0,
        choice_epsilon: 1.0,
        loss_bound: None,
    };
    let all = super::cells::points(&net, &[0.0], true);
    let weights: Vec<f64> = all.iter().map(|x| (-beta * double_well(*x, beta)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mean = |f: &dyn Fn(f64) -> f64| all.iter().zip(&weights).map(|(x, w)| f(*x) * w).sum::<f64>() / total;
    let flat = |x: f64| double_well(x, f64::INFINITY);
    let least = (-100_000..=0).map(|i| flat(f64::from(i) * 1e-5)).fold(f64::MAX, f64::min);
    (mean(&|x| x), mean(&flat) - least, mean(&|x| f64::from(u8::from(x > 0.0)) + 0.5 * f64::from(u8::from(x == 0.0))))
}

/// The last number of each row is by adaptive quadrature. What a net draws from tends to the continuous law of the same exponent, by the square of the
/// spacing: nothing is left for a draw within cells.
#[test]
fn the_law_of_a_net_tends_to_the_continuous_one() {
    for (beta, mean, excess, right) in [
        (1.0, -0.027_437_7, 0.181_961, 0.477_402),
        (4.0, -0.086_683_0, 0.117_115, 0.418_362),
        (16.0, -0.295_689, 0.054_657_0, 0.201_300),
    ] {
        let (x, above, positive) = moments(100_001, beta);
        assert!(
            (x - mean).abs() < 1e-6 && (above - excess).abs() < 1e-6 && (positive - right).abs() < 1e-6,
            "{beta}: {x} {above} {positive}"
        );
        let gap = |cells: u64| (moments(cells, beta).0 - x).abs();
        // by four where cells are halved, and 101 of them are off by less than 2e-6
        assert!(gap(101) < 2e-6 && gap(201) < 0.3 * gap(101), "{beta}: {} {}", gap(101), gap(201));
    }
}

/// An envelope exp(−F(centre) + G·half a diagonal) of 20 cells, without β and the regulariser's slope, is exceeded, and what is drawn by a test that is
/// cut at 1 has another law. With both it is an envelope.
#[test]
fn the_envelope_of_a_cell_needs_the_exponents_own_slope() {
    let (slope, cells, parts) = (6.099_89, 20, 2000);
    for (beta, exceeded, variation) in [(4.0, 1.87, 0.0022), (16.0, 29.2, 0.0111), (64.0, 1.763e6, 0.0625)] {
        let exponent = |x: f64| -beta * double_well(x, beta);
        let (mut most, mut least) = (0.0f64, 0.0f64);
        let (mut wanted, mut drawn) = (Vec::new(), Vec::new());
        for cell in 0..cells {
            let centre = -1.0 + 0.1 * (f64::from(cell) + 0.5);
            for part in 0..=parts {
                let x = centre + 0.1 * (f64::from(part) / f64::from(parts) - 0.5);
                let printed = exponent(centre) + slope * 0.05;
                let own = exponent(centre) + beta * (slope + 1.0 / (4.0 * beta)) * 0.05;
                most = most.max((exponent(x) - printed).exp());
                least = least.max((exponent(x) - own).exp());
                wanted.push(exponent(x).exp());
                drawn.push(exponent(x).min(printed).exp());
            }
        }
        let (all, of_drawn): (f64, f64) = (wanted.iter().sum(), drawn.iter().sum());
        let apart = 0.5 * wanted.iter().zip(&drawn).map(|(p, q)| (p / all - q / of_drawn).abs()).sum::<f64>();
        assert!((most / exceeded - 1.0).abs() < 0.005 && least <= 1.0, "{beta}: {most} {least}");
        assert!((apart / variation - 1.0).abs() < 0.03, "{beta}: {apart}");
    }
}

/// And is drawn from: the double well at β = 4 by 25 points, P ∝ exp(−ε·n·loss/(2GR)) with R = 24/25.
#[test]
fn a_double_well_is_drawn_by_its_law() {
    let beta = 4.0;
    let objective =
        Closures::new(1, move |x: &[f64], _: &f64| double_well(x[0], beta), |_: &[f64], _: &f64, _: &mut [f64]| {});
    // more than its slopes: nothing is cut
    let (slope, records) = (7.0, 64u32);
    let epsilon = beta * 2.0 * slope * (24.0 / 25.0) / f64::from(records);
    let problem = problem(u64::from(records), 1, Relation::ZeroOut);
    let options = MethodOptions::of("net").with("points", 25u64).with("clip_norm", slope).with("box_radius", 1.0);
    let plan = choose(&problem, pure(epsilon), &options).unwrap();
    assert_eq!(net_of(&plan).points, 25);
    let (runs, sensitive) = (20_000u64, Sensitive::new(vec![0.0; records as usize]));
    let mut right = 0.0;
    for seed in 0..runs {
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
        let x = run(&problem, &plan, &[0.0], InMemory::new(objective, &sensitive), &mut curator, &Silent);
        let x = x.unwrap().into_inner()[0];
        right += if x > 1e-9 { 1.0 } else { 0.5 * f64::from(u8::from(x >= -1e-9)) };
    }
    let expected = moments(25, beta).2;
    // .418; half or twice β would have .45 and .33: five standard deviations are .0177, false alarm 6e-7
    let found = right / runs as f64;
    assert!((found - expected).abs() < 5.0 * (0.25 / runs as f64).sqrt(), "{found} {expected}");
}
