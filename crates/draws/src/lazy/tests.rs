//! Lazy and dense are one law: by linear algebra, by simulation, and bit by bit where all coordinates are touched.
use super::recursion::tests::rule;
use super::*;
use dpopt_noise::parts::WideNormal;
use dpopt_noise::{NoiseSource, Purpose};

fn plain() -> StepRule {
    StepRule { learning_rate: 0.3, decay: 1.0, momentum: 0.0, average_weight: 0.0 }
}

fn options(runs: Vec<Phase>) -> LazyOptions {
    LazyOptions { dimension: 3, runs, noise_std: 2.0, max_gradient: 50.0, grid: Grid::new(-12), max_reads: 100 }
}

/// Every form of a recursion, twelve steps each.
fn forms() -> Vec<(&'static str, Vec<Phase>)> {
    let all = |rule: StepRule| vec![Phase { steps: 12, rule }];
    let scheduled = |weight: f64, momentum: f64| -> Vec<Phase> {
        (0..12)
            .map(|t| {
                let learning_rate = 0.4 / f64::from(t + 1).sqrt();
                let decay = 1.0 - 0.1 * learning_rate;
                Phase {
                    steps: 1,
                    rule: StepRule { learning_rate, decay, momentum, average_weight: weight * f64::from(t) },
                }
            })
            .collect()
    };
    let last_half = |momentum: f64, decay: f64| -> Vec<Phase> {
        [0.0, 1.0]
            .map(|average_weight| Phase { steps: 6, rule: StepRule { momentum, decay, average_weight, ..plain() } })
            .to_vec()
    };
    vec![
        ("plain", all(plain())),
        ("decay", all(StepRule { decay: 0.8, ..plain() })),
        ("average", all(StepRule { average_weight: 1.0, ..plain() })),
        ("decay and average", all(StepRule { decay: 0.8, average_weight: 1.0, ..plain() })),
        ("momentum", all(StepRule { momentum: 0.7, ..plain() })),
        ("momentum, decay and the last half", last_half(0.7, 0.9)),
        ("the last half", last_half(0.0, 1.0)),
        ("schedule", scheduled(0.0, 0.0)),
        ("schedule, momentum and weighted average", scheduled(0.5, 0.6)),
    ]
}

/// Twelve steps in which the coordinate to touch depends on the value read before; `every`: the dense algorithm (all
/// coordinates touched at each step). All twelve reads, then the answer.
fn adaptive_run(o: &LazyOptions, every: bool, stream: &mut Stream) -> Vec<f64> {
    let mut lazy = LazyIterate::new(o).unwrap();
    let (mut j, mut transcript) = (0usize, Vec::new());
    for _ in 0..12 {
        if every {
            (0..3).for_each(|i| _ = lazy.read(i, stream));
        }
        let x = lazy.read(j, stream);
        transcript.push(x);
        lazy.add(j, (4.0 * x.tanh() * 4096.0) as i64);
        assert!(lazy.end_step(stream));
        j = if x > 0.0 { (j + 1) % 3 } else { (j + 2) % 3 };
        if x.abs() < 0.4 {
            j = 1; // coordinates differ in how often they are touched
        }
    }
    transcript.extend(lazy.finish(stream));
    transcript
}

type Statistic = Box<dyn Fn(&[f64]) -> f64>;

/// Largest |z| of the differences of means, all second moments, and fourth moments of two samples of vectors.
fn largest_z(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let p = a[0].len();
    let mut statistics: Vec<Statistic> = Vec::new();
    for i in 0..p {
        statistics.push(Box::new(move |x| x[i]));
        statistics.push(Box::new(move |x| x[i].powi(4)));
        for j in 0..=i {
            statistics.push(Box::new(move |x| x[i] * x[j]));
        }
    }
    statistics
        .iter()
        .map(|f| {
            let moments = |sample: &[Vec<f64>]| {
                let n = sample.len() as f64;
                let mean = sample.iter().map(|x| f(x)).sum::<f64>() / n;
                (mean, sample.iter().map(|x| (f(x) - mean).powi(2)).sum::<f64>() / n / n)
            };
            let ((m1, v1), (m2, v2)) = (moments(a), moments(b));
            if m1 == m2 { 0.0 } else { ((m1 - m2) / (v1 + v2).sqrt()).abs() }
        })
        .fold(0.0, f64::max)
}

/// Largest Kolmogorov–Smirnov statistic of projections, times √(n/2).
fn largest_ks(a: &[Vec<f64>], b: &[Vec<f64>], stream: &mut Stream) -> f64 {
    let p = a[0].len();
    (0..12)
        .map(|_| {
            let direction: Vec<f64> = (0..p).map(|_| 2.0 * stream.uniform() - 1.0).collect();
            let project = |sample: &[Vec<f64>]| {
                let mut values: Vec<f64> =
                    sample.iter().map(|x| x.iter().zip(&direction).map(|(x, d)| x * d).sum()).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (x, y) = (project(a), project(b));
            let (mut i, mut j, mut d) = (0usize, 0usize, 0.0f64);
            while i < x.len() && j < y.len() {
                if x[i] <= y[j] {
                    i += 1
                } else {
                    j += 1
                }
                d = d.max((i as f64 / x.len() as f64 - j as f64 / y.len() as f64).abs());
            }
            d * (x.len() as f64 / 2.0).sqrt()
        })
        .fold(0.0, f64::max)
}

#[test]
fn lazy_and_dense_have_one_law() {
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
    let n = 4000;
    for (name, runs) in forms() {
        let o = options(runs);
        let lazy: Vec<_> = (0..n).map(|_| adaptive_run(&o, false, &mut stream)).collect();
        let dense: Vec<_> = (0..n).map(|_| adaptive_run(&o, true, &mut stream)).collect();
        // 150 statistics of transcript and answer (full covariance across steps): |z| > 6.5 has probability below 150·8e-11
        let z = largest_z(&lazy, &dense);
        assert!(z < 6.5, "{name}: {z}");
        // P(KS > 2.9) ≤ 2e^(−2·2.9²) = 1e-7 each
        let ks = largest_ks(&lazy, &dense, &mut stream);
        assert!(ks < 2.9, "{name}: {ks}");
        if name == "decay" {
            // power: another decay is seen
            let other = options(vec![Phase { steps: 12, rule: StepRule { decay: 0.7, ..plain() } }]);
            let wrong: Vec<_> = (0..n).map(|_| adaptive_run(&other, true, &mut stream)).collect();
            assert!(largest_z(&lazy, &wrong) > 6.5);
        }
    }
}

#[test]
fn with_all_coordinates_touched_lazy_is_dense_exactly() {
    for (name, runs) in forms() {
        let o = options(runs.clone());
        let mut lazy = LazyIterate::new(&o).unwrap();
        let stream = || NoiseSource::insecure(9).stream(Purpose::Audit, 0);
        let (mut used, mut again) = (stream(), stream());
        let normal = WideNormal::new();
        // where a flush draws from streams of its own, the bits of what follows differ
        let comparable = o.flushes().first().map_or(12, |&first| first as usize);
        let rules: Vec<StepRule> = runs.iter().flat_map(|run| vec![run.rule; run.steps as usize]).collect();
        // plain descent in f64 with the same normal variables
        let (mut w, mut m, mut gradient) = ([0.0f64; 3], [0.0f64; 3], [0.0f64; 3]);
        let grid = lazy.per_read.abs();
        for step in 0..comparable {
            for j in 0..3 {
                let read = lazy.read(j, &mut used);
                if step > 0 {
                    let rule = rules[step - 1];
                    let xi = normal.sample(&mut again) as f64 * 2f64.powi(-112);
                    m[j] = rule.momentum * m[j] + gradient[j] + o.noise_std * xi;
                    w[j] = rule.decay * w[j] - rule.learning_rate * m[j];
                    let expected = (w[j] / grid).round() * grid;
                    assert!(
                        (read - expected).abs() < 1e-9 * grid,
                        "{name}, step {step}, coordinate {j}: {read} {expected}"
                    );
                }
                let units = ((j as f64 - 0.7) * 4096.0 * (1.0 + read.tanh())) as i64;
                gradient[j] = units as f64 / 4096.0;
                lazy.add(j, units);
            }
            assert!(lazy.end_step(&mut used));
        }
        assert!(comparable >= 6, "{name}");
    }
}

#[test]
fn the_covariance_of_a_linear_run_is_that_of_the_dense_one() {
    // gradient c·(sum of reads) on public supports, state (w, m, S); both runs as matrices over their noises
    const SUPPORTS: [&[usize]; 10] = [&[0], &[1], &[0, 2], &[0], &[2], &[0, 1], &[0], &[2, 0], &[0], &[1]];
    let c = 0.5;
    let parts = recursion::Parts { momentum: true, sum: true };
    let scale = Scale { fraction_bits: 60, noise: (1, 0), normal_bits: 0, max_gradient: 1 };
    let mut r = Recursion::<3>::new(parts, &[(10, rule(0.97, 0.3, 0.8, 1.0))], scale);
    let unit = (1u128 << 60) as f64;
    let value = |x: &product::Coefficient| x.times(1 << 60) as f64 / unit;
    // state[j][component] is a vector of coefficients of independent normal variables
    type Linear = Vec<f64>;
    let add = |a: &mut Linear, b: &Linear, factor: f64| {
        if a.len() < b.len() {
            a.resize(b.len(), 0.0);
        }
        a.iter_mut().zip(b).for_each(|(x, y)| *x += factor * y);
    };
    let mut covariances = Vec::new();
    for dense in [true, false] {
        let mut normals = 0;
        let mut state: Vec<[Linear; 3]> = vec![Default::default(); 4];
        let mut pending: Vec<Linear> = vec![Vec::new(); 4];
        let mut last = [0u32; 4];
        let mut bring =
            |j: usize, t: u32, state: &mut Vec<[Linear; 3]>, pending: &mut Vec<Linear>, last: &mut [u32; 4]| {
                if last[j] == t {
                    return;
                }
                let gap = r.gap(last[j], t).unwrap();
                let (map, _) = r.map_and_input(last[j], t);
                let mut next: [Linear; 3] = Default::default();
                for i in 0..3 {
                    for k in 0..3 {
                        add(&mut next[i], &state[j][k], map[i][k]);
                    }
                    add(&mut next[i], &pending[j], value(&gap.drift[i]) / unit);
                }
                for column in gap.noise() {
                    let mut fresh = vec![0.0; normals + 1];
                    fresh[normals] = 1.0;
                    normals += 1;
                    for i in 0..3 {
                        add(&mut next[i], &fresh, value(&column[i]) / unit);
                    }
                }
                state[j] = next;
                pending[j] = Vec::new();
                last[j] = t;
            };
        for (t, support) in SUPPORTS.iter().enumerate() {
            for j in 0..4 {
                if dense || support.contains(&j) {
                    bring(j, t as u32, &mut state, &mut pending, &mut last);
                }
            }
            let mut sum = Vec::new();
            support.iter().for_each(|&j| add(&mut sum, &state[j][0], -c)); // u = −w
            support.iter().for_each(|&j| add(&mut pending[j], &sum, 1.0));
        }
        (0..4).for_each(|j| bring(j, 10, &mut state, &mut pending, &mut last));
        let all: Vec<&Linear> = state.iter().flatten().collect();
        let dot = |a: &Linear, b: &Linear| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        covariances
            .push(all.iter().flat_map(|a| all.iter().map(|b| dot(a, b)).collect::<Vec<_>>()).collect::<Vec<_>>());
    }
    for (dense, lazy) in covariances[0].iter().zip(&covariances[1]) {
        assert!((dense - lazy).abs() < 1e-11 * covariances[0].iter().fold(1.0, |m: f64, x| m.max(x.abs())));
    }
    // a coordinate that no gradient touched
    assert!((covariances[1][9 * 12 + 9] - 8.222_470_436_3).abs() < 1e-8);
}

/// Second moments of the answer of `d` coordinates that nothing touches, or that are read with gradient 0 at some steps.
fn second_moments(runs: Vec<Phase>, d: usize) -> [f64; 2] {
    let o = LazyOptions { dimension: d, ..options(runs) };
    let mut stream = NoiseSource::insecure(3).stream(Purpose::Audit, 0);
    let mut lazy = LazyIterate::new(&o).unwrap();
    for t in 0..12 {
        if t % 3 == 1 {
            (0..d / 2).for_each(|j| _ = lazy.read(j, &mut stream));
        }
        assert!(lazy.end_step(&mut stream));
    }
    assert!(!lazy.end_step(&mut stream), "the plan is used up");
    let w = lazy.finish(&mut stream);
    [&w[..d / 2], &w[d / 2..]].map(|half| half.iter().map(|x| x * x).sum::<f64>() / half.len() as f64)
}

#[test]
fn the_gap_pattern_does_not_change_the_law() {
    // a slack on the variance per gap would differ between the halves (10% would be 11 standard deviations)
    let d = 40_000;
    for (name, runs) in forms() {
        // dense variance of the answer by the recursion itself, in f64
        let (mut w, mut m, mut s, mut sum) = (vec![0.0f64; 12], vec![0.0f64; 12], vec![0.0f64; 12], 0.0);
        let mut t = 0;
        for run in &runs {
            for _ in 0..run.steps {
                for (k, m) in m.iter_mut().enumerate() {
                    *m = run.rule.momentum * *m + if k == t { 2.0 } else { 0.0 };
                }
                for ((w, m), s) in w.iter_mut().zip(&m).zip(&mut s) {
                    *w = run.rule.decay * *w - run.rule.learning_rate * m;
                    *s += run.rule.average_weight * *w;
                }
                sum += run.rule.average_weight;
                t += 1;
            }
        }
        let expected: f64 =
            if sum > 0.0 { s.iter().map(|x| (x / sum).powi(2)).sum() } else { w.iter().map(|x| x * x).sum() };
        for seen in second_moments(runs, d) {
            // 5.3 standard deviations: false alarm 1e-7 each
            assert!((seen / expected - 1.0).abs() < 5.3 * (2.0 / (d as f64 / 2.0)).sqrt(), "{name}: {seen} {expected}");
        }
    }
}

#[test]
fn reads_are_on_the_public_grid_and_repeat() {
    let mut stream = NoiseSource::insecure(4).stream(Purpose::Audit, 0);
    let mut lazy = LazyIterate::new(&options(vec![Phase { steps: 5, rule: plain() }])).unwrap();
    assert_eq!(lazy.read(0, &mut stream), 0.0, "the start is public");
    assert!(lazy.end_step(&mut stream));
    let first: Vec<f64> = (0..3).map(|j| lazy.read(j, &mut stream)).collect();
    let again: Vec<f64> = (0..3).map(|j| lazy.read(j, &mut stream)).collect();
    assert_eq!(first, again, "no noise between: the same values");
    let grid = lazy.per_read.abs();
    assert!((0.6 / 64.0..=0.6 / 16.0).contains(&grid), "{grid}");
    assert!(first.iter().all(|x| (x / grid).fract() == 0.0));
    assert_eq!(lazy.work(), Work { draws: 3, touched: 3 }, "one draw per touched coordinate");
}

#[test]
fn threads_do_not_matter() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let o = LazyOptions { dimension: 20_000, ..options(forms()[5].1.clone()) };
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        let mut lazy = LazyIterate::new(&o).unwrap();
        pool.install(|| {
            for t in 0..12 {
                lazy.read(t * 31, &mut stream);
                lazy.add(t * 31, 5000);
                assert!(lazy.end_step(&mut stream));
            }
            lazy.finish(&mut stream)
        })
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn bounds_and_bad_options() {
    let rule = plain();
    let long =
        |steps, rule| LazyOptions { max_gradient: 100.0, max_reads: 1 << 36, ..options(vec![Phase { steps, rule }]) };
    let bound = LazyOptions { dimension: 1 << 20, ..long(1 << 11, rule) }.total_variation().unwrap();
    assert!(bound > 0.0 && bound < 1e-10, "{bound:e}");
    // momentum and averages cost precision, more reads cost more
    let all = StepRule { momentum: 0.95, average_weight: 1.0, ..rule };
    let costlier = long(1 << 11, all).total_variation().unwrap();
    assert!(costlier > bound && costlier < 1e-8, "{costlier:e}");
    let more = LazyOptions { max_reads: 1 << 40, ..long(1 << 11, all) }.total_variation().unwrap();
    assert!(more > 15.0 * costlier);
    for bad in [
        StepRule { learning_rate: 0.0, ..rule },
        StepRule { learning_rate: f64::NAN, ..rule },
        StepRule { decay: 1.5, ..rule },
        StepRule { decay: 0.0, ..rule },
        StepRule { momentum: 1.0, ..rule },
        StepRule { average_weight: -1.0, ..rule },
    ] {
        assert!(LazyIterate::new(&long(5, bad)).is_err());
    }
    for bad in [
        long(0, rule),
        LazyOptions { runs: Vec::new(), ..long(1, rule) },
        LazyOptions { max_gradient: 1e30, ..long(5, rule) },
        LazyOptions { noise_std: f64::NAN, ..long(5, rule) },
        LazyOptions { grid: Grid::new(-60), ..long(5, rule) },
        // the average must have noise of its own
        options(vec![Phase { steps: 3, rule: StepRule { average_weight: 1.0, ..rule } }, Phase { steps: 3, rule }]),
    ] {
        assert!(LazyIterate::new(&bad).is_err());
    }
}

/// However many records pile up (under add-or-remove their number is not known), one more moves the answer by no more than
/// its own share: a sum that wraps would jump from one end of the clamp to the other.
#[test]
fn a_pile_of_gradients_saturates_and_one_more_changes_nothing() {
    let answer = |units: &[i64]| {
        let mut source = NoiseSource::insecure(5);
        let mut lazy = LazyIterate::new(&options(vec![Phase { steps: 2, rule: plain() }])).unwrap();
        for step in 0..2 {
            let mut stream = source.stream(Purpose::Touch, step);
            lazy.read(1, &mut stream);
            units.iter().for_each(|&u| lazy.add(1, u));
            assert!(lazy.end_step(&mut stream));
        }
        lazy.finish(&mut source.stream(Purpose::Flush, 0))
    };
    let full = answer(&[i64::MAX]);
    assert_eq!(answer(&[i64::MAX, 1]), full);
    assert_eq!(answer(&[i64::MAX, i64::MAX]), full);
    assert!(full[1].abs() > answer(&[0])[1].abs());
}
