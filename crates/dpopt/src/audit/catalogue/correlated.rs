//! Bugs of deferred (lazy) noise and of noise correlated over steps (spec 19 §3, §5; spec 20 §7).

use super::{Code, PlantedBug, indicator};
use crate::audit::draws::Draws;
use crate::audit::statistics::Claim;
use crate::audit::statistics::laws::ks_p_value;
use dpopt_privacy::special::normal_cdf;

/// Coefficients of the square root of the prefix-sum matrix, cut at `band` and normalised: Σ c² = 1.
pub(super) fn banded_root(band: usize) -> Vec<f64> {
    let mut c = vec![1.0];
    for k in 1..band {
        c.push(c[k - 1] * (2.0 * k as f64 - 1.0) / (2.0 * k as f64));
    }
    let norm = c.iter().map(|x| x * x).sum::<f64>().sqrt();
    c.iter().map(|x| x / norm).collect()
}

/// y = C x + σz for a record that contributes 1 at the steps of `participates`.
pub(super) fn correlated_run(c: &[f64], participates: &[bool], noise: f64, draws: &mut Draws) -> Vec<f64> {
    let steps = participates.len();
    let mut y: Vec<f64> = (0..steps).map(|_| noise * draws.gaussian()).collect();
    for (step, _) in participates.iter().enumerate().filter(|(_, p)| **p) {
        for (lag, weight) in c.iter().enumerate().take(steps - step) {
            y[step + lag] += weight;
        }
    }
    y
}

/// Σ ⟨y, C e⟩: the matched filter for a record at the steps `e`.
fn matched(y: &[f64], c: &[f64], e: &[bool]) -> f64 {
    let steps = y.len();
    let at = |step: usize| c.iter().enumerate().take(steps - step).map(|(lag, w)| w * y[step + lag]).sum::<f64>();
    (0..steps).filter(|&s| e[s]).map(at).sum()
}

fn steps_at(steps: usize, chosen: &[usize]) -> Vec<bool> {
    (0..steps).map(|s| chosen.contains(&s)).collect()
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let mut bugs = Vec::new();

    bugs.push(PlantedBug::counting(
        "20.10",
        "deferred noise of 16 missed steps drawn with the variance of one",
        "coordinate touched once, read at the end",
        Claim::gaussian(0.25),
        (295, 1),
        |code, with, draws| indicator(with) + code.pick(16f64, 1.0).sqrt() * draws.gaussian(),
    ));

    bugs.push(PlantedBug::counting(
        "20.11",
        "deferred noise never drawn for untouched coordinates",
        "1{coordinate is not 0 at the end}",
        Claim::gaussian(1.0),
        (40, 1),
        |code, with, draws| {
            let touched = with;
            let noise = if touched || code == Code::Correct { draws.gaussian() } else { 0.0 };
            indicator(indicator(with) + noise != 0.0)
        },
    ));

    bugs.push(PlantedBug::counting(
        "19.lazy-off-by-one",
        "deferred noise of m - 1 instead of m = 4 steps",
        "coordinate touched once, read at the end",
        Claim::gaussian(0.5),
        (22_000, 1),
        |code, with, draws| indicator(with) + code.pick(4f64, 3.0).sqrt() * draws.gaussian(),
    ));

    bugs.push(PlantedBug::looking(
        "19.lazy-decay",
        "deferred noise without the weight decay (a = .9, m = 7)",
        "law of the coordinate against N(0, 4.059) by Kolmogorov-Smirnov, 40 000 draws",
        |code| {
            let mut draws = Draws::new(19, 7);
            let (a, m) = (0.9f64, 7i32);
            // w ← a·w − z, seven times; the closed form is expm1(2m ln a)/expm1(2 ln a) = 4.0591
            let closed = (2.0 * f64::from(m) * a.ln()).exp_m1() / (2.0 * a.ln()).exp_m1();
            let variance = code.pick(closed, f64::from(m));
            let exact: f64 = (0..m).map(|i| a.powi(2 * i)).sum();
            let mut sample: Vec<f64> = (0..40_000).map(|_| variance.sqrt() * draws.gaussian()).collect();
            let p = ks_p_value(&mut sample, |x| normal_cdf(x / exact.sqrt()));
            if p < 1e-6 { Err(format!("the law differs from the dense one: p = {p:.1e}")) } else { Ok(()) }
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.14",
        "four participations, the event counts one (banded, minimum separation kept)",
        "matched filter",
        Claim::gaussian(0.5),
        (664, 16),
        |code, with, draws| {
            let c = [0.8, 0.6];
            let e = steps_at(16, &[0, 4, 8, 12]);
            let none = [false; 16];
            // columns four apart do not overlap: sensitivity √4
            let noise = code.pick(4.0, 2.0);
            matched(&correlated_run(&c, if with { &e } else { &none }, noise, draws), &c, &e)
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.15",
        "two participations one step apart where the event assumes a separation of 8 (band 8)",
        "matched filter",
        Claim::gaussian(0.5f64.sqrt()),
        (4_400, 20),
        |code, with, draws| {
            let c = banded_root(8);
            let e = steps_at(20, code.pick(&[0, 8], &[0, 1]));
            let none = [false; 20];
            matched(&correlated_run(&c, if with { &e } else { &none }, 2.0, draws), &c, &e)
        },
    ));
    bugs
}
