//! Faults of finite precision and of samplers: attacks on support (Mironov 2012; Haney et al. 2022), exact sums (Casacuberta et al. 2022), laws.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_audit::statistics::laws::ks_p_value;
use dpopt_draws::{Descending, DiscreteGaussian};
use dpopt_mechanism::{ClippedVectors, past_the_curator};
use dpopt_noise::{DiscreteLaplace, Grid, Norm, Quantizer, RoundedGaussian, RoundedLaplace};
use dpopt_privacy::special::normal_cdf;

/// Naive Laplace(1) in floating point: U a multiple of 2^-53, the sign apart.
fn naive_laplace(centre: f64, draws: &mut Draws) -> f64 {
    let u = ((draws.word() >> 11) + 1) as f64 * 2f64.powi(-53);
    let magnitude = u.ln();
    if draws.coin(0.5) { centre - magnitude } else { centre + magnitude }
}

/// Whether some U on the 2^-53 lattice gives exactly `y` around `centre` (Mironov 2012).
fn possible(y: f64, centre: f64) -> bool {
    let distance = (y - centre).abs();
    let guess = ((-distance).exp() * 2f64.powi(53)).round();
    // y and the logarithm are rounded: a few ulps of either move U by at most |y|·2^-53·U and one lattice step
    let reach = 4.0 + (guess * (y.abs() + distance) * 2f64.powi(-51)).ceil();
    let mut k = (guess - reach).max(1.0);
    while k <= (guess + reach).min(2f64.powi(53)) {
        let magnitude = (k * 2f64.powi(-53)).ln();
        if centre - magnitude == y || centre + magnitude == y {
            return true;
        }
        k += 1.0;
    }
    false
}

/// Rounded Gaussian noise of standard deviation 2^10 grid steps.
fn gridded() -> (RoundedGaussian, Grid) {
    let grid = Grid::new(-10);
    match RoundedGaussian::new(1.0, grid) {
        Ok(noise) => (noise, grid),
        Err(_) => unreachable!("1 on the grid 2^-10"),
    }
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    let mut bugs = Vec::new();

    let (noise, grid) = gridded();
    bugs.push(InjectedFault::counting(
        (
            "19.mironov",
            Altered,
            "Laplace noise as -sign·ln(U) in floating point",
            "1{output impossible under D}; the correct code's lattice is the same on both worlds",
        ),
        Claim::gaussian(1.0),
        (230, 2_000),
        move |code, with, draws| {
            let centre = indicator(with);
            match code {
                Code::Correct => {
                    let y = grid.to_f64(centre as i64 * (1 << 10) + noise.sample(draws.noise()));
                    // the support search on the grid: every multiple of the step is possible
                    indicator((y / grid.step()).fract() != 0.0)
                }
                Code::Injected => indicator(!possible(naive_laplace(centre, draws), 1.0)),
            }
        },
    ));

    let (noise, grid) = gridded();
    bugs.push(InjectedFault::counting(
        ("19.haney", Altered, "normal noise added in floating point", "1{output is not a multiple of 2^-53}"),
        Claim::gaussian(1.0),
        (620, 100),
        move |code, with, draws| {
            let y = match code {
                Code::Correct => grid.to_f64(i64::from(with) * (1 << 10) + noise.sample(draws.noise())),
                Code::Injected => indicator(with) + draws.gaussian(),
            };
            indicator((y * 2f64.powi(53)).fract() != 0.0)
        },
    ));

    // the rounding of the continuous law is post-processing; the discrete law is not the continuous one on a grid of 2s
    let (right, wrong) = (RoundedGaussian::new(8.0, Grid::new(0)).ok(), DiscreteGaussian::new(0.5).ok());
    bugs.push(InjectedFault::counting(
        (
            "19.discrete-gaussian",
            Altered,
            "discrete Gaussian (s = .5) accounted as the continuous one",
            "canary of one grid step; output",
        ),
        Claim::gaussian(2.0),
        (1_100, 300),
        move |code, with, draws| match (code, &right, &wrong) {
            // s = .5 on the grid of 1, from the rounded Gaussian of 8 on the grid of 1/16
            (Code::Correct, Some(noise), _) => {
                indicator(with) + (noise.sample(draws.noise()) as f64 / 16.0 + 0.5).floor()
            }
            (Code::Injected, _, Some(noise)) => indicator(with) + noise.sample(draws.noise()) as f64,
            _ => f64::NAN,
        },
    ));

    // δ(ε) of continuous Laplace noise with ε = 1: 1 − e^{(ε−1)/2}
    let points: Vec<(f64, f64)> =
        (0..=20).map(|i| 0.05 * f64::from(i)).map(|e| (e, -(0.5 * (e - 1.0)).exp_m1())).collect();
    let (right, wrong) = (RoundedLaplace::new(1.0, Grid::new(0)).ok(), DiscreteLaplace::new(1).ok());
    bugs.push(InjectedFault::counting(
        (
            "19.discrete-laplace",
            Shipped,
            "discrete Laplace (one grid step) accounted with the profile of the continuous one",
            "canary of one grid step; output",
        ),
        Claim::Profile { points },
        (4_500, 300),
        move |code, with, draws| {
            let noise = match (code, &right, &wrong) {
                (Code::Correct, Some(noise), _) => noise.sample(draws.noise()),
                (Code::Injected, _, Some(noise)) => noise.sample(draws.noise()),
                _ => return f64::NAN,
            };
            indicator(with) + noise as f64
        },
    ));
    bugs.extend(looking());
    bugs
}

/// Mistakes that no sample shows.
fn looking() -> Vec<InjectedFault> {
    type Row = ((&'static str, super::Source, &'static str, &'static str), fn(Code) -> Result<(), String>);
    let rows: [Row; 8] = [
        (
            (
                "19.float-sum",
                Altered,
                "records summed one after the other in f32",
                "exact change of the sum by one record: f32 33554432 against 13981012, integers exactly U",
            ),
            float_sum,
        ),
        (
            (
                "19.order",
                Altered,
                "records summed in floating point in the order of the threads",
                "four orders of 2e14, 1, -2e14, 1",
            ),
            sum_order,
        ),
        (
            (
                "19.clip-check",
                Altered,
                "clip in floating point without the exact check",
                "exact squared norm of 3000 clipped vectors, d = 50",
            ),
            clip_check,
        ),
        (
            (
                "19.round-up",
                Altered,
                "contributions rounded to nearest after the clip",
                "exact squared norm of 50 equal entries on the grid 2^-10",
            ),
            round_up,
        ),
        (
            ("19.saturating", Altered, "partial sums saturate", "change of the sum by one record at the limit"),
            saturating,
        ),
        (
            ("19.lanes", Altered, "partial sums in 32-bit lanes", "sum of 3 records of 2^30 against the exact one"),
            lanes,
        ),
        (
            (
                "19.order-statistics",
                Altered,
                "second largest of m = 5 uniforms drawn with m instead of m - 1",
                "law against 5x^4 - 4x^5 by Kolmogorov-Smirnov, 20 000 draws",
            ),
            second_largest,
        ),
        (
            (
                "19.naive-maximum",
                Altered,
                "largest of m = 1e16 uniforms as 1 - U^(1/m) in floating point",
                "number of distinct values among 1000 draws",
            ),
            naive_maximum,
        ),
    ];
    rows.into_iter().map(|(text, check)| InjectedFault::looking(text, check)).collect()
}

fn float_sum(code: Code) -> Result<(), String> {
    // values in [0, U], U = 2^24; 2^23 values 1.5 after a first one that is U or 0 (Casacuberta et al. 2022)
    let bound = 16_777_216.0f32;
    let moved = match code {
        Code::Injected => {
            let sum = |first: f32| (0..1 << 23).fold(first, |s, _| s + 1.5f32);
            f64::from(sum(bound)) - f64::from(sum(0.0))
        }
        Code::Correct => {
            let grid = Grid::new(-4);
            let quantizer = Quantizer::new(Norm::L2, f64::from(bound), grid).map_err(|e| e.to_string())?;
            let mut out = Vec::new();
            let mut units = |v: f64| {
                quantizer.quantize(&mut [v], &mut out);
                out[0]
            };
            let rest = (1i64 << 23) * units(1.5);
            grid.to_f64((units(f64::from(bound)) + rest) - (units(0.0) + rest))
        }
    };
    if moved > f64::from(bound) {
        Err(format!("one record moves the sum by {:.5} U", moved / f64::from(bound)))
    } else {
        Ok(())
    }
}

/// The library's sum of these numbers, which may be as large as `clip`, on the grid of integers.
fn shipped_sum(values: &[f64], clip: f64) -> Result<i64, String> {
    let sum = ClippedVectors::new(clip, Grid::new(0))
        .map_err(|e| e.to_string())?
        .sum(values.len(), 1, |i, out| out.push(values[i]));
    Ok(past_the_curator::read_for_tests(&sum).quanta()[0])
}

fn sum_order(code: Code) -> Result<(), String> {
    let values = [1e14, 0.5, -1e14, 0.5].map(|v| 2.0 * v);
    let orders = [[0, 1, 2, 3], [0, 2, 1, 3], [1, 3, 0, 2], [1, 0, 3, 2]];
    let mut sums = Vec::new();
    for order in orders {
        sums.push(match code {
            // 24 bits of a sum of f32
            Code::Injected => order.iter().fold(0.0f32, |s, &i| s + values[i] as f32).to_string(),
            Code::Correct => shipped_sum(&order.map(|i| values[i]), 2e14)?.to_string(),
        });
    }
    sums.sort();
    sums.dedup();
    if sums.len() > 1 { Err(format!("{} different sums: {}", sums.len(), sums.join(", "))) } else { Ok(()) }
}

/// Largest exact Σz² of clipped random vectors against ⌊(C/γ)²⌋.
fn clip_check(code: Code) -> Result<(), String> {
    let grid = Grid::new(-45);
    let quantizer = Quantizer::new(Norm::L2, 1.0, grid).map_err(|e| e.to_string())?;
    // the floats themselves live on the finer grid 2^-60, where their squares are still exact in u128
    let exact = |v: &[f64]| v.iter().map(|x| ((x.abs() * 2f64.powi(60)) as u128).pow(2)).sum::<u128>();
    let mut draws = Draws::new(19, 50);
    let mut over = 0;
    let mut out = Vec::new();
    for _ in 0..3000 {
        let mut v: Vec<f64> = (0..50).map(|_| draws.gaussian()).collect();
        let too_long = match code {
            Code::Injected => {
                let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
                let scale = (1.0 / norm).min(1.0);
                v.iter_mut().for_each(|x| *x *= scale);
                exact(&v) > 1u128 << 120
            }
            Code::Correct => {
                quantizer.quantize(&mut v, &mut out);
                out.iter().map(|&z| u128::from(z.unsigned_abs()).pow(2)).sum::<u128>() > 1u128 << 90
            }
        };
        over += u32::from(too_long);
    }
    if over > 0 { Err(format!("{over} of 3000 vectors are longer than C")) } else { Ok(()) }
}

fn round_up(code: Code) -> Result<(), String> {
    let grid = Grid::new(-10);
    let quantizer = Quantizer::new(Norm::L2, 1.0, grid).map_err(|e| e.to_string())?;
    let share = (1.0f64 / 50.0).sqrt();
    let mut out = Vec::new();
    match code {
        Code::Injected => out.extend([share; 50].iter().map(|v| (v / grid.step()).round() as i64)),
        Code::Correct => quantizer.quantize(&mut [share; 50], &mut out),
    }
    let square: i64 = out.iter().map(|z| z * z).sum();
    if square > 1 << 20 { Err(format!("squared norm {square} > 2^20 grid steps")) } else { Ok(()) }
}

fn saturating(code: Code) -> Result<(), String> {
    // 2^17 records of +2^47 and as many of −2^47: the total fits into 64 bits, the sum of the first half does not
    let (clip, half) = (2f64.powi(47), 1usize << 17);
    let mut values = vec![clip; 2 * half];
    values[half..].fill(-clip);
    let mut total = |first: f64| -> Result<i64, String> {
        values[0] = first;
        match code {
            // modular sums are exact whenever the total fits, whatever the partial sums do
            Code::Correct => shipped_sum(&values, clip),
            Code::Injected => Ok(values.iter().fold(0i64, |s, &v| s.saturating_add(v as i64))),
        }
    };
    let moved = total(clip)?.wrapping_sub(total(0.0)?);
    if moved == 1 << 47 { Ok(()) } else { Err(format!("one record of 2^47 moves the sum by {moved}")) }
}

fn lanes(code: Code) -> Result<(), String> {
    let record = 2f64.powi(30);
    let total: i64 = match code {
        Code::Injected => i64::from([record; 3].iter().fold(0i32, |s, &v| s.wrapping_add(v as i32))),
        Code::Correct => shipped_sum(&[record; 3], record)?,
    };
    if total == 3 << 30 { Ok(()) } else { Err(format!("the sum is {total}")) }
}

/// The `count` largest |noise| among `dimension` coordinates, as the library draws them, in units of σ.
fn shipped_largest(dimension: u64, count: usize, draws: &mut Draws) -> Vec<f64> {
    let grid = Grid::new(-40);
    let Ok(noise) = RoundedGaussian::new(1.0, grid) else { return Vec::new() };
    let mut largest = Descending::new(&noise, dimension, &[], draws.noise());
    (0..count).map_while(|_| largest.next(draws.noise()).map(|(_, y)| grid.to_f64(y).abs())).collect()
}

fn second_largest(code: Code) -> Result<(), String> {
    let mut draws = Draws::new(19, 5);
    let m = 5.0f64;
    let mut sample: Vec<f64> = (0..20_000)
        .map(|_| match code {
            // P(|z| ≤ y), uniform for one coordinate
            Code::Correct => shipped_largest(5, 2, &mut draws).last().map_or(f64::NAN, |&y| 2.0 * normal_cdf(y) - 1.0),
            Code::Injected => draws.uniform().powf(1.0 / m) * draws.uniform().powf(1.0 / m),
        })
        .collect();
    let p = ks_p_value(&mut sample, |x| 5.0 * x.powi(4) - 4.0 * x.powi(5));
    if p < 1e-6 { Err(format!("wrong law: p = {p:.1e}")) } else { Ok(()) }
}

fn naive_maximum(code: Code) -> Result<(), String> {
    let mut draws = Draws::new(19, 16);
    let m = 1e16f64;
    let mut values: Vec<u64> = (0..1000)
        .map(|_| match code {
            Code::Correct => shipped_largest(m as u64, 1, &mut draws).first().map_or(0, |y| y.to_bits()),
            // distance of the largest uniform from 1
            Code::Injected => (1.0 - draws.uniform().powf(1.0 / m)).to_bits(),
        })
        .collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 900 { Err(format!("{} distinct values in 1000 draws", values.len())) } else { Ok(()) }
}
