//! Published attacks on noise in computer arithmetic: each succeeds against the implementation it was found for (injected
//! here) and fails against this crate's. Proportions have a false-alarm rate below 1e-6 at fixed seeds.
use dpopt_noise::{
    DiscreteLaplace, Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedGaussian, RoundedLaplace, Stream,
};

fn stream(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Audit, 0)
}

/// A uniform multiple of 2^-53 in (0, 1), as most libraries draw it.
fn textbook_uniform(stream: &mut Stream) -> f64 {
    (stream.below((1 << 53) - 1) + 1) as f64 * 2f64.powi(-53)
}

/// Whether q − sign·ln(U) = y has a solution U that is a multiple of 2^-53 (Mironov's membership question).
fn reachable(y: f64, q: f64) -> bool {
    let sign = if y < q { 1.0 } else { -1.0 };
    let guess = (-(y - q).abs()).exp() * 2f64.powi(53);
    (-16i64..=16).any(|step| {
        let k = guess.round() as i64 + step;
        (1..1 << 53).contains(&k) && q + sign * (k as f64 * 2f64.powi(-53)).ln() == y
    })
}

#[test]
fn mironov_2012_low_bits_of_laplace_noise() {
    let mut s = stream(1);
    let n = 20_000;
    let mut impossible = 0;
    for _ in 0..n {
        let magnitude = textbook_uniform(&mut s).ln();
        let y = 0.0 + if s.coin() { magnitude } else { -magnitude };
        assert!(reachable(y, 0.0), "the attack never errs about the true data");
        impossible += u32::from(!reachable(y, 1.0));
    }
    // 66.8% of the outputs of q = 0 can't come from q = 1 (an independent NumPy run of 2·10^5: 0.66788)
    let share = f64::from(impossible) / f64::from(n);
    assert!((share - 0.668).abs() < 0.017, "injected fault: {share}"); // 5 standard deviations

    // ours: outputs are all multiples of γ, and every multiple can come from either value
    let grid = Grid::new(-30);
    let noise = RoundedLaplace::new(1.0, grid).unwrap();
    for _ in 0..10_000 {
        let y = grid.to_f64(noise.sample(&mut s));
        for q in [0.0, 1.0] {
            let needed = (y - q) / grid.step();
            assert_eq!(needed, needed.trunc(), "the output is a possible one for q = {q}");
        }
    }
}

#[test]
fn haney_2022_low_bits_of_gaussian_noise() {
    let event = |y: f64| y * 2f64.powi(53) != (y * 2f64.powi(53)).trunc();
    let mut s = stream(2);
    let n = 20_000;
    let (mut bug, mut ours) = ([0u32; 2], [0u32; 2]);
    let grid = Grid::new(-40);
    let noise = RoundedGaussian::new(1.0, grid).unwrap();
    for _ in 0..n {
        // Box–Muller in f64, the injected fault
        let normal = (-2.0 * textbook_uniform(&mut s).ln()).sqrt() * (std::f64::consts::TAU * s.uniform()).cos();
        let sample = noise.sample(&mut s);
        for (i, q) in [0.0, 1.0].into_iter().enumerate() {
            bug[i] += u32::from(event(q + normal));
            ours[i] += u32::from(event(grid.to_f64(((q / grid.step()) as i64).wrapping_add(sample))));
        }
    }
    // δ ≥ 0.257 at every ε: the event has probability 0.257 without and 0 with the record
    let share = f64::from(bug[0]) / f64::from(n);
    assert!((share - 0.257).abs() < 0.016 && bug[1] == 0, "injected fault: {bug:?}"); // 5 standard deviations
    assert_eq!(ours, [0, 0]);
}

#[test]
fn casacuberta_2022_float_sums_have_a_larger_sensitivity() {
    // f32 sums of values in [0, U], U = 2^24: one record changes the sum by 1.16667·U
    let u = 2f32.powi(24);
    let sum = |first: f32| (0..1 << 23).fold(first, |sum, _| sum + 1.5f32);
    let (with, without) = (sum(u), sum(0.0));
    assert_eq!(with, 33_554_432.0);
    assert_eq!(without, 13_981_012.0);
    assert!(f64::from(with - without) > 1.1666 * f64::from(u));

    // integers: exactly U
    let q = Quantizer::new(Norm::LInfinity, f64::from(u), Grid::new(-10)).unwrap();
    let (mut record, mut first) = (Vec::new(), Vec::new());
    q.quantize(&mut [1.5], &mut record);
    q.quantize(&mut [f64::from(u)], &mut first);
    let rest = record[0] << 23;
    assert_eq!(first[0] + rest - rest, 1 << 34);
}

#[test]
fn the_order_of_a_float_sum_shows() {
    let sums: Vec<f64> =
        [[1e16, 1.0, -1e16, 1.0], [1e16, -1e16, 1.0, 1.0], [1.0, 1e16, 1.0, -1e16]].map(|v| v.iter().sum()).to_vec();
    assert!(sums.contains(&1.0) && sums.contains(&2.0) && sums.contains(&0.0));
    let integers = [10_000_000_000_000_000i64, 1, -10_000_000_000_000_000, 1];
    let forward = integers.iter().fold(0i64, |a, b| a.wrapping_add(*b));
    let backward = integers.iter().rev().fold(0i64, |a, b| a.wrapping_add(*b));
    assert_eq!(forward, backward);
}

#[test]
fn noise_on_a_coarser_grid_shows_the_parity() {
    let fine = RoundedGaussian::new(3.0, Grid::new(-10)).unwrap();
    let coarse = RoundedGaussian::new(3.0, Grid::new(-9)).unwrap(); // injected fault: in steps of 2γ
    let mut s = stream(3);
    let mut odd = 0;
    for _ in 0..10_000 {
        let q = 12_345i64;
        assert_eq!((q + 2 * coarse.sample(&mut s)) & 1, q & 1, "the injected fault gives the parity away");
        odd += (q + fine.sample(&mut s)) & 1;
    }
    assert!((4750..5250).contains(&odd), "ours does not: {odd}, 5 standard deviations");
}

#[test]
fn saturated_partial_sums_leak() {
    // values of one record, then a large rest and its negative: saturation forgets or keeps them
    let saturated = |values: &[i64]| values.iter().fold(0i64, |a, b| a.saturating_add(*b));
    let wrapped = |values: &[i64]| values.iter().fold(0i64, |a, b| a.wrapping_add(*b));
    let clip = 1_000_000i64;
    let with = [i64::MAX, clip, -clip, -clip];
    let without = [i64::MAX, 0, -clip, -clip];
    assert_eq!(saturated(&with) - saturated(&without), 0, "the record is swallowed here …");
    let with = [clip, i64::MAX, i64::MIN];
    let without = [0, i64::MAX, i64::MIN];
    assert_eq!(saturated(&with), saturated(&without), "… and here, while a later one counts twice:");
    let extra = [i64::MAX, i64::MAX, -i64::MAX];
    assert_eq!(saturated(&extra).wrapping_sub(saturated(&extra[1..])), 0);
    // ours: the sum moves by the record, modulo 2^64, wherever it stands
    assert_eq!(wrapped(&with).wrapping_sub(wrapped(&without)), clip);
    let with = [i64::MAX, clip, -clip, -clip];
    let without = [i64::MAX, 0, -clip, -clip];
    assert_eq!(wrapped(&with).wrapping_sub(wrapped(&without)), clip);
}

#[test]
fn narrow_lanes_are_no_homomorphism() {
    // partial sums in i32, then widened (injected fault): 3 instead of 4294967299
    let values = [i32::MAX, i32::MAX, 5];
    let injected = i64::from(values.iter().fold(0i32, |a, b| a.wrapping_add(*b)));
    assert_eq!(injected, 3);
    assert_eq!(values.iter().map(|&v| i64::from(v)).fold(0i64, i64::wrapping_add), 4_294_967_299);
}

/// One-sided Clopper–Pearson-like bounds by Hoeffding at level 1e-7: p̂ ± √(ln(1e7)/(2n)).
fn epsilon_lower_bound(hits_without: f64, hits_with: f64, n: f64, delta: f64) -> f64 {
    let slack = (1e7f64.ln() / (2.0 * n)).sqrt();
    ((hits_with / n - slack - delta) / (hits_without / n + slack)).ln()
}

#[test]
fn canary_audit_of_the_integer_release() {
    // event: Laplace with scale b = C/ε, ε = 1; threshold test on the integers, canary +C in one coordinate
    let n = 200_000;
    let clip = 64i64;
    let release = |noise: &DiscreteLaplace, q: i64, s: &mut Stream| {
        let mut cell = [q];
        noise.add_to(&mut cell, s);
        cell[0] >= clip
    };
    let mut s = stream(4);
    let audit = |scale: u64, s: &mut Stream| {
        let noise = DiscreteLaplace::new(scale).unwrap();
        let with = (0..n).filter(|_| release(&noise, clip, s)).count() as f64;
        let without = (0..n).filter(|_| release(&noise, 0, s)).count() as f64;
        epsilon_lower_bound(without, with, f64::from(n), 0.0)
    };
    let honest = audit(64, &mut s);
    assert!((0.9..=1.0).contains(&honest), "bound {honest} must stay below the claim 1 and come near it");
    let injected = audit(43, &mut s); // noise at two thirds of its scale
    assert!(injected > 1.0, "the audit has power: {injected}");
}

#[test]
fn canary_audit_of_the_gaussian_release() {
    // Gaussian, σ = C: δ(ε = 1) = 0.126937; event {y ≥ 1.5 C} is the optimal test at ε = 1
    let n = 400_000;
    let grid = Grid::new(-12);
    let clip = 1i64 << 12;
    let delta_at_one = |noise_std: f64, s: &mut Stream| {
        let noise = RoundedGaussian::new(noise_std, grid).unwrap();
        let hits = |q: i64, s: &mut Stream| {
            (0..n).filter(|_| q.wrapping_add(noise.sample(s)) >= clip * 3 / 2).count() as f64 / f64::from(n)
        };
        hits(clip, s) - 1f64.exp() * hits(0, s)
    };
    let slack = (1.0 + 1f64.exp()) * (1e7f64.ln() / (2.0 * f64::from(n))).sqrt();
    let mut s = stream(5);
    let honest = delta_at_one(1.0, &mut s);
    assert!((honest - 0.126937).abs() < slack, "{honest}");
    assert!(delta_at_one(0.75, &mut s) - slack > 0.126937, "the audit has power");
}

/// Bernoulli(e^-g) for g in [0, 1], counting the uniform draws.
fn counted_bernoulli(g: f64, draws: &mut u32, s: &mut Stream) -> bool {
    let mut k = 1u32;
    loop {
        *draws += 1;
        if textbook_uniform(s) >= g / f64::from(k) {
            return k % 2 == 1;
        }
        k += 1;
    }
}

/// The loop of Canonne, Kamath and Steinke (2020) for the discrete Laplace law of scale 3, with the number of uniform draws it
/// took: what a clock on the request path would see.
fn loop_laplace(s: &mut Stream) -> (i64, u32) {
    let mut draws = 0;
    loop {
        let low = loop {
            draws += 1;
            let u = s.below(3);
            if counted_bernoulli(u as f64 / 3.0, &mut draws, s) {
                break u as i64;
            }
        };
        let mut high = 0;
        while counted_bernoulli(1.0, &mut draws, s) {
            high += 1;
        }
        let size = low + 3 * high;
        draws += 1;
        match (s.coin(), size) {
            (true, 0) => {}
            (true, _) => return (-size, draws),
            (false, _) => return (size, draws),
        }
    }
}

#[test]
fn the_time_of_a_loop_tells_its_value_and_ours_is_spent_without_looking_at_data() {
    let mut s = stream(8);
    let n = 50_000;
    let pairs: Vec<(f64, f64)> = (0..n)
        .map(|_| {
            let (x, draws) = loop_laplace(&mut s);
            (x.abs() as f64, f64::from(draws))
        })
        .collect();
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(f).sum::<f64>() / f64::from(n);
    let (mx, my) = (mean(&|p| p.0), mean(&|p| p.1));
    let covariance = mean(&|p| (p.0 - mx) * (p.1 - my));
    let correlation = covariance / (mean(&|p| (p.0 - mx).powi(2)) * mean(&|p| (p.1 - my).powi(2))).sqrt();
    // the attack works: the correlation is about .62; the standard error is below .01
    assert!((correlation - 0.62).abs() < 0.06, "{correlation}");

    // ours: what is drawn for a block, and how much of the stream it takes, is the same whatever the sums are
    let noise = RoundedGaussian::new(1.0, Grid::new(-20)).unwrap();
    let run = |sums: &[i64]| {
        let mut stream = NoiseSource::insecure(9).stream(Purpose::Noise, 0);
        let mut noisy = sums.to_vec();
        noise.add_to(&mut noisy, &mut stream);
        let drawn: Vec<i64> = noisy.iter().zip(sums).map(|(y, q)| y.wrapping_sub(*q)).collect();
        (drawn, stream.below(u64::MAX))
    };
    let extreme: Vec<i64> = (0..10_000i64).map(|j| if j % 2 == 0 { i64::MAX - j } else { i64::MIN + j }).collect();
    assert_eq!(run(&vec![0; 10_000]), run(&extreme));
}
