use super::*;
use crate::sampler::best_exponent;
use crate::sampler::laws::{kolmogorov_distance, kolmogorov_limit};
use crate::sampler::potential::Potential;
use dpopt_noise::{NoiseSource, Purpose, Stream};
use dpopt_objective::synthetic::Lcg;

/// A potential by its value and slope.
struct Of<V, S> {
    dimension: usize,
    value: V,
    slope: S,
}

impl<V: Fn(&[f64]) -> f64 + Sync, S: Fn(&[f64], &mut [f64]) + Sync> Potential for Of<V, S> {
    fn dimension(&self) -> usize {
        self.dimension
    }

    fn scale(&self) -> f64 {
        1.0
    }

    fn terms(&self) -> usize {
        1
    }

    fn value(&self, point: &[f64]) -> f64 {
        (self.value)(point)
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        (self.slope)(point, subgradient);
        self.value(point)
    }

    fn term(&self, _: usize, point: &[f64]) -> f64 {
        self.value(point)
    }
}

fn stream(seed: u64) -> Stream {
    NoiseSource::insecure(seed).stream(Purpose::Audit, 0)
}

/// First coordinates every `apart` rounds.
fn path<P: Potential>(potential: &P, start: &[f64], count: usize, apart: u64, seed: u64) -> Vec<f64> {
    let (mut x, mut random) = (start.to_vec(), stream(seed));
    (0..count)
        .map(|_| {
            hit_and_run(potential, &mut x, 1.0, apart, &mut random);
            x[0]
        })
        .collect()
}

#[test]
fn hit_and_run_has_the_laws_of_corners_and_of_a_box() {
    let none = |_: &[f64], _: &mut [f64]| {};
    // Laplace: |x| + 2|y|
    let corners = Of { dimension: 2, value: |x: &[f64]| x[0].abs() + 2.0 * x[1].abs(), slope: none };
    let laplace = |x: f64| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() };
    let outside = |x: &[f64]| if x.iter().any(|x| x.abs() > 1.0) { f64::INFINITY } else { 0.0 };
    let cube = Of { dimension: 3, value: outside, slope: none };
    let uniform = |x: f64| 0.5 * (x + 1.0);
    let count = 2000;
    // points so far apart are nearly independent: correlation below .05 at 20 rounds in 2 or 3 dimensions
    let limit = 1.2 * kolmogorov_limit(count);
    assert!(kolmogorov_distance(&mut path(&corners, &[3.0, 0.0], count, 20, 1), laplace) < limit);
    assert!(kolmogorov_distance(&mut path(&cube, &[0.9, 0.9, 0.0], count, 20, 2), uniform) < limit);
    // another law is seen
    assert!(kolmogorov_distance(&mut path(&corners, &[3.0, 0.0], count, 20, 1), uniform) > 5.0 * limit);
}

#[test]
fn a_line_without_a_law_leaves_the_point_where_it_is() {
    for value in [|x: &[f64]| x[0], |_: &[f64]| 2.0, |_: &[f64]| f64::NAN, |_: &[f64]| f64::INFINITY] {
        let improper = Of { dimension: 1, value, slope: |_: &[f64], _: &mut [f64]| {} };
        assert_eq!(path(&improper, &[0.5], 3, 1, 4), [0.5; 3]);
    }
}

#[test]
fn langevin_has_another_law_that_more_steps_do_not_mend() {
    let square =
        Of { dimension: 1, value: |x: &[f64]| 0.5 * x[0] * x[0], slope: |x: &[f64], g: &mut [f64]| g[0] = x[0] };
    let variance = |step: f64| {
        let (mut x, mut random) = (vec![0.0], stream(7));
        let all: Vec<f64> = (0..40_000)
            .map(|_| {
                unadjusted_langevin(&square, &mut x, step, 4, &mut random);
                x[0] * x[0]
            })
            .collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    // 1/(1 − h/2); standard errors about .01
    assert!((variance(0.5) - 4.0 / 3.0).abs() < 0.05, "{}", variance(0.5));
    assert!((variance(1.0) - 2.0).abs() < 0.06, "{}", variance(1.0));
}

#[test]
fn squares_of_schatten_norms_are_1_strongly_convex_and_have_their_slopes() {
    let mut random = Lcg::new(5);
    for (rows, columns) in [(1, 1), (2, 2), (3, 5), (5, 2), (8, 8)] {
        for p in [1.0, 1.1, 1.5, 2.0] {
            let r = SchattenSquare::new(p, rows, columns).unwrap();
            let side = rows.min(columns);
            assert_eq!(r.of_singular_values.exponent, best_exponent(p, side));
            let norm_p = |m: &[f64]| -> f64 {
                let s = r.decomposed(m).unwrap().values;
                s.iter().map(|s| s.powf(p)).sum::<f64>().powf(1.0 / p)
            };
            for trial in 0..40 {
                let mut draw = |rank: bool| -> Vec<f64> {
                    let u: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
                    let v: Vec<f64> = (0..columns).map(|_| random.normal()).collect();
                    let full: Vec<f64> = (0..rows * columns).map(|_| random.normal()).collect();
                    let one = (0..rows * columns).map(|at| u[at / columns] * v[at % columns]);
                    if rank { one.collect() } else { full }
                };
                let (x, y) = (draw(trial % 2 == 0), draw(trial % 3 == 0));
                let middle: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 0.5 * (x + y)).collect();
                let apart: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
                let mean = 0.5 * (r.value(&x) + r.value(&y));
                assert!(r.value(&middle) <= mean - norm_p(&apart).powi(2) / 8.0 + 1e-9 * mean, "{rows} {columns} {p}");
                if trial < 4 {
                    let mut slope = vec![0.0; x.len()];
                    r.add_slope(&y, 2.0, &mut slope);
                    let along: f64 = slope.iter().zip(&x).map(|(g, x)| g * x).sum();
                    let at = |t: f64| r.value(&y.iter().zip(&x).map(|(y, x)| y + t * x).collect::<Vec<_>>());
                    let numeric = (at(1e-5) - at(-1e-5)) / 1e-5;
                    assert!((along - numeric).abs() < 1e-3 * (1.0 + along.abs()), "{along} {numeric}");
                }
            }
        }
    }
    // ½‖M‖_F² is not, in the trace norm: between the identity and its negative
    let euclidean = |m: &[f64]| 0.5 * m.iter().map(|x| x * x).sum::<f64>();
    assert!(euclidean(&[0.0; 4]) > euclidean(&[1.0, 0.0, 0.0, 1.0]) - 4.0 * 4.0 / 8.0);
    assert_eq!(SchattenSquare::new(2.5, 3, 3), None);
    assert_eq!(SchattenSquare::new(1.5, 0, 3), None);
}

#[test]
fn draws_of_matrices_satisfy_the_identity_of_every_density() {
    // E⟨∇H(X), X⟩ is the number of entries, whatever H: here k⟨S, X⟩ + m·r(X), trace norm
    let r = SchattenSquare::new(1.0, 3, 3).unwrap();
    let tilt = [0.5, 0.0, 0.1, 0.0, -0.3, 0.0, 0.2, 0.0, 0.0];
    let linear = |x: &[f64]| tilt.iter().zip(x).map(|(s, x)| s * x).sum::<f64>();
    let potential =
        Of { dimension: 9, value: |x: &[f64]| linear(x) + 4.0 * r.value(x), slope: |_: &[f64], _: &mut [f64]| {} };
    let (mut x, mut random) = (vec![0.0; 9], stream(11));
    let mut total = 0.0;
    let (count, apart) = (1500, 9);
    for _ in 0..count {
        hit_and_run(&potential, &mut x, 0.3, apart, &mut random);
        // r is homogeneous of degree 2
        total += linear(&x) + 8.0 * r.value(&x);
    }
    // the sum has the law of a Gamma: standard deviation 3√2 of one point, about .3 of the mean of correlated ones
    let mean = total / count as f64;
    assert!((mean - 9.0).abs() < 1.0, "{mean}");
}
