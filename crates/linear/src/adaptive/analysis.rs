//! The inequalities behind the bounds, on the shipped updates: descent with biased gradients (Asi, Duchi, Fallah, Javidbakht, Talwar 2021, Theorems 6 and 7).
//!
//! g is a noisy gradient of a convex function with a known minimum, g̃ its radial clip (biased), ĝ = g̃ + ξ. Averages over repeats
//! stand for expectations; the bounds hold with room, so the error of an average does not matter.
//!
//! Covers: adaptive-gradients algorithm 4, algorithm 5, theorem 6 (part: a test of the shipped steps)
//! Covers: adaptive-gradients theorem 7 (part: a test of the shipped steps, with 3/2 in place of 1 at the first term)

use super::*;
use dpopt_objective::geometry::{clip_to_ellipsoid, norm};
use dpopt_objective::synthetic::Lcg;
use dpopt_optimize::driver::{AdaptiveSteps, Driver};

const D: usize = 12;
const T: u64 = 200;

struct Observed {
    /// E f(x̄) − f*.
    excess: f64,
    /// The two terms of the general bound, and the leading term with the constant 3/2.
    steps: f64,
    bias: f64,
    regret: f64,
}

/// `clip` bounds ‖·‖_C; `sign` −1 turns the clipped gradient around, which is bias and nothing else.
fn observe(rule: AdaptiveRule, clip: f64, sign: f64, noise: f64, repeats: u64) -> Observed {
    let sigma: Vec<f64> = (1..=D).map(|j| (j as f64).powf(-1.0)).collect();
    let best: Vec<f64> = (0..D).map(|j| if j % 2 == 0 { 0.6 } else { -0.3 }).collect();
    let c: Vec<f64> =
        sigma.iter().map(|s| s.powf(if rule == AdaptiveRule::Scalar { -1.0 } else { -4.0 / 3.0 })).collect();
    let shape: Vec<f64> = c.iter().map(|c| c / (clip * clip)).collect();
    // the box [−1, 1]^d in l2, in the largest coordinate, and in the norm dual to that of the clip
    let (wide, tall) = (2.0 * (D as f64).sqrt(), 2.0);
    let dual = 2.0 * c.iter().map(|c| 1.0 / c).sum::<f64>().sqrt();
    let alpha = if rule == AdaptiveRule::Scalar { wide } else { tall };
    let mut seen = Observed { excess: 0.0, steps: 0.0, bias: 0.0, regret: 0.0 };
    for seed in 0..repeats {
        let mut random = Lcg::new(seed + 1);
        let step = AdaptiveStep {
            rule,
            momentum: 0.0,
            second_momentum: 0.0,
            regularization: 0.0,
            domain: Domain::Box { radius: 1.0 },
        };
        let mut update = AdaptiveSteps::new(step, D, |_| alpha);
        let (mut x, mut squares, mut total, mut bias) = (vec![0.0; D], vec![0.0; D], 0.0f64, 0.0);
        let mut by_steps = 0.0;
        for k in 0..T {
            // f = Σ σ_j|x_j − best_j|, heavy-tailed noise with a second moment and little more
            seen.excess += sigma.iter().zip(&x).zip(&best).map(|((s, x), b)| s * (x - b).abs()).sum::<f64>() / T as f64;
            let heavy = (random.uniform() + 1e-3).powf(-0.4);
            let g: Vec<f64> =
                (0..D).map(|j| sigma[j] * ((x[j] - best[j]).signum() + heavy * random.normal())).collect();
            let mut clipped = g.clone();
            clip_to_ellipsoid(&mut clipped, &shape);
            clipped.iter_mut().for_each(|v| *v *= sign);
            bias += clipped.iter().zip(&g).zip(&c).map(|((a, b), c)| c * (a - b) * (a - b)).sum::<f64>().sqrt();
            let noisy: Vec<f64> =
                clipped.iter().zip(&c).map(|(v, c)| v + noise * clip / c.sqrt() * random.normal()).collect();
            total += norm(&noisy).powi(2);
            squares.iter_mut().zip(&noisy).for_each(|(s, v)| *s += v * v);
            by_steps += alpha / total.sqrt() * norm(&noisy).powi(2) / (2.0 * T as f64);
            update.step(k, &mut x, &noisy);
        }
        let t = T as f64;
        seen.bias += dual / t * bias;
        match rule {
            AdaptiveRule::Scalar => {
                // D²/(2Tα_{T−1}) + Σ α_k‖ĝ‖²/(2T), and what it adds up to for α_k = D/√Σ‖ĝ‖²
                seen.steps += wide * wide / (2.0 * t * (alpha / total.sqrt())) + by_steps;
                seen.regret += 1.5 * wide / t * total.sqrt();
            }
            _ => {
                let roots = tall / t * squares.iter().map(|s| s.sqrt()).sum::<f64>();
                seen.steps += 1.5 * roots;
                seen.regret += 1.5 * roots;
            }
        }
    }
    let n = repeats as f64;
    Observed { excess: seen.excess / n, steps: seen.steps / n, bias: seen.bias / n, regret: seen.regret / n }
}

#[test]
fn descent_with_biased_gradients_keeps_its_bounds() {
    for rule in [AdaptiveRule::Scalar, AdaptiveRule::Diagonal] {
        for (clip, noise) in [(100.0, 0.0), (3.0, 0.0), (3.0, 0.3), (0.7, 0.3), (0.7, 2.0)] {
            let o = observe(rule, clip, 1.0, noise, 40);
            println!(
                "{rule:?} B = {clip}, z = {noise}: excess {:.3} ≤ {:.3} + {:.3} ≤ {:.3} + bias",
                o.excess, o.steps, o.bias, o.regret
            );
            assert!(o.excess <= o.steps + o.bias, "{rule:?} {clip} {noise}");
            // Lemma B.2: Σ a_k²/‖a_{1:k}‖ ≤ 2‖a_{1:n}‖ turns the steps into the leading term
            assert!(o.steps <= o.regret * (1.0 + 1e-9), "{rule:?} {clip} {noise}");
        }
        // and the bias is what pays for gradients that point the wrong way: without that term the bound would be false
        let wrong = observe(rule, 3.0, -1.0, 0.0, 10);
        assert!(wrong.excess > wrong.steps && wrong.excess <= wrong.steps + wrong.bias, "{rule:?}");
    }
}

#[test]
fn the_radial_clip_keeps_the_bias_lemma_and_the_euclidean_one_does_not_always() {
    // E‖π(X) − X‖_C ≤ G^p/((p − 1)B^(p−1)), B = 1, p = 2: with ‖X‖_C² = G² the radial distance is G − 1 ≤ G²
    let mut random = Lcg::new(4);
    let distance = |x: &[f64], y: &[f64], a: &[f64]| {
        x.iter().zip(y).zip(a).map(|((x, y), a)| a * (x - y) * (x - y)).sum::<f64>().sqrt()
    };
    let mut worst: f64 = 0.0;
    for _ in 0..2000 {
        let a: Vec<f64> = (0..4).map(|_| 10f64.powf(4.0 * random.uniform() - 2.0)).collect();
        let x: Vec<f64> = a.iter().map(|a| random.normal() / a.sqrt()).collect();
        let length = distance(&x, &[0.0; 4], &a);
        let (mut radial, mut nearest) = (x.clone(), x.clone());
        clip_to_ellipsoid(&mut radial, &a);
        dpopt_objective::geometry::project_ellipsoid(&mut nearest, &a);
        for p in [2.0f64, 4.0, 8.0] {
            let sharp = ((p - 1.0) / p).powf(p) / (p - 1.0) * length.powf(p);
            assert!(distance(&radial, &x, &a) <= sharp * (1.0 + 1e-12));
        }
        worst = worst.max(distance(&nearest, &x, &a) / distance(&radial, &x, &a).max(1e-12));
    }
    assert!(worst > 1.2, "the nearest point in l2 is farther in the ellipsoid's norm: {worst}");
}
