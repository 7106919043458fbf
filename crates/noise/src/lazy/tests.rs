use super::*;
use crate::{NoiseSource, Purpose};

fn options() -> LazyOptions {
    LazyOptions {
        dimension: 3,
        max_steps: 12,
        step_size: 0.3,
        noise_std: 2.0,
        max_gradient: 50.0,
        grid: Grid::new(-12),
        decay: 1.0,
        average: false,
        max_reads: 100,
    }
}

#[test]
fn factors() {
    // spec 19 §3.2, §3.4
    let a = exact(0.9);
    let gap = Gap::new(&a, 7, false);
    assert!((gap.root.to_f64().powi(2) - 4.0591161866).abs() < 1e-9);
    assert!((gap.decay.to_f64() - 0.9f64.powi(7)).abs() < 1e-15);
    // brute force in f64 for many gaps
    for m in [1u32, 2, 3, 10, 63, 64, 1000] {
        for a in [0.5, 0.97, 1.0 - 1e-6, 1.0] {
            let v: f64 = (0..m).map(|i| f64::powi(a, 2 * i as i32)).sum();
            let gap = Gap::new(&exact(a), m, false);
            assert!((gap.root.to_f64().powi(2) / v - 1.0).abs() < 1e-12, "{a} {m}");
        }
        // Var S = m·1² + …: ((m+1)/2)²·m + m(m²−1)/12 = m(m+1)(2m+1)/6
        let gap = Gap::new(&exact(1.0), m, true);
        let m = f64::from(m);
        let var = (m + 1.0).powi(2) / 4.0 * m + gap.rest.to_f64().powi(2);
        assert!((var / (m * (m + 1.0) * (2.0 * m + 1.0) / 6.0) - 1.0).abs() < 1e-14);
    }
    assert_eq!(Gap::new(&exact(1.0), 1, true).rest, Fixed::ZERO);
    for x in [Fixed::<L>::integer(1).half(), Fixed::integer(1), Fixed::integer(2), Fixed::integer(1 << 40), Fixed([7; L])] {
        let (newton, bits) = (square_root(&x), root_by_bits(&x));
        let difference = newton.minus(&bits).plus(&bits.minus(&newton));
        assert!(difference <= Fixed::negative_power_of_two(180), "{x:?}");
    }
}

#[test]
fn composing_gaps_is_consistent() {
    // one gap of m + n against gaps of m and n: V and a^m agree to far more than 2^-120
    let a = exact(0.9371);
    for (m, n) in [(1, 1), (3, 8), (100, 1), (1000, 24)] {
        let (g, h, both) = (Gap::new(&a, m, false), Gap::new(&a, n, false), Gap::new(&a, m + n, false));
        let square = |x: &Fixed<4>| x.times_down(x);
        let v = square(&h.decay).times_down(&square(&g.root)).plus(&square(&h.root));
        let difference = v.minus(&square(&both.root)).plus(&square(&both.root).minus(&v));
        assert!(difference < Fixed::negative_power_of_two(170), "{m} {n}: {difference:?}");
    }
}

/// Runs 12 steps in which the coordinate to touch depends on the sign of the value read before; `every`: the dense
/// algorithm (all coordinates touched at each step).
fn adaptive_run(o: LazyOptions, every: bool, stream: &mut Stream) -> Vec<f64> {
    let mut lazy = LazyIterate::new(o).unwrap();
    let (mut j, mut reads) = (0u32, Vec::new());
    for _ in 0..o.max_steps {
        let touched: Vec<u32> = if every { (0..3).collect() } else { vec![j] };
        lazy.touch(&touched, stream, &mut reads);
        let x = reads[touched.iter().position(|&t| t == j).unwrap()];
        let mut gradient = vec![0i64; touched.len()];
        gradient[touched.iter().position(|&t| t == j).unwrap()] = (4.0 * x.tanh() * 4096.0) as i64;
        assert!(lazy.descend(&touched, &gradient, stream));
        j = if x > 0.0 { (j + 1) % 3 } else { (j + 2) % 3 };
        if x.abs() < 0.4 {
            j = 1; // coordinates differ in how often they are touched
        }
    }
    let (w, average) = lazy.finish(stream);
    w.into_iter().chain(average.into_iter().flatten()).collect()
}

/// Largest |z| of the differences of means, second moments, products and fourth moments of two samples of vectors.
fn largest_z(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let p = a[0].len();
    let mut statistics: Vec<Box<dyn Fn(&[f64]) -> f64>> = Vec::new();
    for i in 0..p {
        statistics.push(Box::new(move |x| x[i]));
        statistics.push(Box::new(move |x| x[i].powi(4)));
        statistics.push(Box::new(move |x| f64::from(u8::from(x[i].abs() < 0.5))));
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
                let var = sample.iter().map(|x| (f(x) - mean).powi(2)).sum::<f64>() / n;
                (mean, var / n)
            };
            let ((m1, v1), (m2, v2)) = (moments(a), moments(b));
            ((m1 - m2) / (v1 + v2).sqrt()).abs()
        })
        .fold(0.0, f64::max)
}

#[test]
fn lazy_and_dense_have_one_law() {
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
    for (decay, average) in [(1.0, false), (0.8, false), (1.0, true)] {
        let o = LazyOptions { decay, average, ..options() };
        let n = 10_000;
        let lazy: Vec<_> = (0..n).map(|_| adaptive_run(o, false, &mut stream)).collect();
        let dense: Vec<_> = (0..n).map(|_| adaptive_run(o, true, &mut stream)).collect();
        // at most 39 statistics: |z| > 6 has probability below 39·2e-9
        let z = largest_z(&lazy, &dense);
        assert!(z < 6.0, "decay {decay}, average {average}: {z}");
        if decay == 0.8 {
            // power: the dense law with another decay is seen
            let other = LazyOptions { decay: 0.7, ..o };
            let wrong: Vec<_> = (0..n).map(|_| adaptive_run(other, true, &mut stream)).collect();
            assert!(largest_z(&lazy, &wrong) > 6.0);
        }
    }
}

#[test]
fn an_untouched_coordinate_has_all_its_noise() {
    let o = LazyOptions { dimension: 60_000, max_steps: 9, average: true, ..options() };
    let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
    let mut lazy = LazyIterate::new(o).unwrap();
    for _ in 0..9 {
        assert!(lazy.descend(&[], &[], &mut stream));
    }
    assert!(!lazy.descend(&[], &[], &mut stream), "the plan is used up");
    let (w, average) = lazy.finish(&mut stream);
    let average = average.unwrap();
    let nu = 0.3 * 2.0;
    let n = w.len() as f64;
    let moment = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() / n / (nu * nu);
    // variances 9, 9·10·19/6/81, covariance 9·10/2/9; 5 standard deviations of a mean of products: false alarm 6e-7
    for (seen, expected, size) in
        [(moment(&w, &w), 9.0, 9.0), (moment(&average, &average), 285.0 / 81.0, 285.0 / 81.0), (moment(&w, &average), 5.0, 5.7)]
    {
        assert!((seen - expected).abs() < 5.0 * size * (2.0 / n).sqrt(), "{seen} {expected}");
    }
}

#[test]
fn the_gap_pattern_does_not_change_the_law() {
    // a coordinate touched with gradient 0 at some steps, or never: same variance (a slack on V per gap would differ)
    let o = LazyOptions { dimension: 40_000, max_steps: 8, decay: 0.9, ..options() };
    let mut stream = NoiseSource::insecure(3).stream(Purpose::Audit, 0);
    let mut lazy = LazyIterate::new(o).unwrap();
    let touched: Vec<u32> = (0..20_000).collect();
    let mut reads = Vec::new();
    for t in 0..8 {
        if t % 3 == 1 {
            lazy.touch(&touched, &mut stream, &mut reads);
            assert!(lazy.descend(&touched, &vec![0; touched.len()], &mut stream));
        } else {
            assert!(lazy.descend(&[], &[], &mut stream));
        }
    }
    let (w, _) = lazy.finish(&mut stream);
    let v: f64 = (0..8).map(|i| 0.81f64.powi(i)).sum::<f64>() * 0.36;
    for half in [&w[..20_000], &w[20_000..]] {
        let seen = half.iter().map(|x| x * x).sum::<f64>() / 20_000.0;
        assert!((seen / v - 1.0).abs() < 5.0 * (2.0f64 / 20_000.0).sqrt(), "{seen} {v}"); // false alarm 6e-7; a slack of 10% is 10 sd
    }
}

#[test]
fn reads_are_on_the_public_grid_and_repeat() {
    let mut stream = NoiseSource::insecure(4).stream(Purpose::Audit, 0);
    let mut lazy = LazyIterate::new(options()).unwrap();
    let (mut first, mut again) = (Vec::new(), Vec::new());
    lazy.touch(&[0, 2], &mut stream, &mut first);
    assert_eq!(first, [0.0, 0.0], "the start is public");
    assert!(lazy.descend(&[0, 2], &[4096, -4096], &mut stream));
    assert!(lazy.descend(&[], &[], &mut stream));
    lazy.touch(&[0, 1, 2], &mut stream, &mut first);
    lazy.touch(&[0, 1, 2], &mut stream, &mut again);
    assert_eq!(first, again, "no noise between: the same values");
    let grid = power_of_two(lazy.unit + lazy.read_shift() as i32);
    assert!(grid <= 0.6 / 16.0 && grid >= 0.6 / 64.0);
    assert!(first.iter().all(|x| (x / grid).fract() == 0.0));
}

#[test]
fn the_noise_multiplier_is_exact() {
    // the step applied to integers and to noise is the same number of units
    let lazy = LazyIterate::new(options()).unwrap();
    let (mantissa, exponent) = dyadic(2.0 * 4096.0); // σ/γ
    let nu = lazy.noise.0[0] as f64 * lazy.noise.0[1] as f64 * 2f64.powi(lazy.noise.1);
    assert_eq!(nu, lazy.per_gradient_unit as f64 * mantissa as f64 * 2f64.powi(exponent));
    assert!((nu * power_of_two(lazy.unit + 100) / 2f64.powi(100) / 0.6 - 1.0).abs() < 1e-12);
}

#[test]
fn bounds_and_bad_options() {
    let o = LazyOptions { dimension: 1 << 20, max_steps: 1 << 20, max_gradient: 100.0, max_reads: 1 << 36, ..options() };
    let lazy = LazyIterate::new(LazyOptions { dimension: 4, ..o }).unwrap();
    let bound = lazy.total_variation();
    assert!(bound < 1e-9, "{bound:e}");
    for bad in [
        LazyOptions { step_size: 0.0, ..o },
        LazyOptions { noise_std: f64::NAN, ..o },
        LazyOptions { decay: 1.5, ..o },
        LazyOptions { decay: 0.0, ..o },
        LazyOptions { decay: 0.5, average: true, ..o },
        LazyOptions { max_steps: 0, ..o },
        LazyOptions { max_gradient: 1e30, ..o },
        LazyOptions { grid: Grid::new(-60), ..o },
    ] {
        assert!(LazyIterate::new(LazyOptions { dimension: 1, ..bad }).is_err());
    }
}
