//! Draws in the l_p norm: their laws against integration, what is refused, rows in the dual norm.

use super::*;
use crate::draws::gibbs_chain::LpGeometry;
use crate::sampler::laws::{Tabulated, kolmogorov, kolmogorov_distance, kolmogorov_limit};
use dpopt_kernel::beside::uncharged;
use dpopt_kernel::{SamplerError, Sensitive};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Rows;
use dpopt_objective::synthetic::Lcg;

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

fn facts(loss: Loss, features: usize, rows: u64, geometry: LpGeometry) -> GibbsFacts {
    GibbsFacts {
        objective: Linear::new(loss, features, 1.0),
        rows,
        nonzeros: features,
        target_bound: 1.0,
        relation: Relation::ZeroOut,
        mu: 1.0,
        total_variation: 1e-7,
        constant_time: false,
        geometry: Some(geometry),
    }
}

fn at(p: f64, dual_row_norm: f64) -> LpGeometry {
    LpGeometry { p, exponent: p, dual_row_norm }
}

/// Rows of norm at most 1, some of them well below it, with labels.
fn data(n: usize, d: usize, seed: u64) -> Examples {
    let mut random = Lcg::new(seed);
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    for _ in 0..n {
        let mut row: Vec<(u32, f32)> = (0..d as u32).map(|j| (j, 0.7 * random.normal() as f32)).collect();
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(if random.uniform() < 0.7 { 1.0 } else { -1.0 });
    }
    examples
}

/// The inverse temperature, and draws.
fn draws(facts: &GibbsFacts, lambda: f64, data: &Examples, count: u64) -> (f64, Vec<Vec<f64>>) {
    let draw = facts.draw(lambda).unwrap();
    assert!(draw.chain().total_variation <= facts.total_variation);
    let sample = (0..count).map(|seed| draw.walk(data, &mut NoiseSource::insecure(seed))).map(|(x, tally)| {
        assert!(!tally.not_convex);
        x
    });
    (draw.chain().inverse_temperature, sample.collect())
}

/// Σφ at weights, rows as they are.
fn losses(data: &Examples, loss: Loss, weights: &[f64]) -> f64 {
    let score = |i: usize| {
        let (columns, values) = data.rows.row(i);
        columns.iter().zip(values).map(|(&j, &a)| weights[j as usize] * f64::from(a)).sum::<f64>()
    };
    (0..data.rows.len()).map(|i| loss.scalar_value(score(i), f64::from(data.targets[i]))).sum()
}

/// In one dimension all norms are one, and c = 1/(q − 1): the parts of r that are drawn in two ways must add up.
#[test]
fn one_weight_follows_its_law_in_any_norm() {
    for (k, (p, loss)) in [(1.1, LOGISTIC), (1.5, Loss::Absolute)].into_iter().enumerate() {
        let data = data(20, 1, 3 + k as u64);
        let lambda = 8.0 * (p - 1.0);
        let (beta, sample) = draws(&facts(loss, 1, 20, at(p, 1.0)), lambda, &data, 1_000);
        let law = |x: f64| -beta * (losses(&data, loss, &[x]) + 0.5 * lambda / (p - 1.0) * x * x);
        let law = Tabulated::new(law, -8.0, 8.0, 40_000);
        let mut sample: Vec<f64> = sample.iter().map(|x| x[0]).collect();
        kolmogorov(&mut sample, |x| law.cdf(x));
    }
}

/// Both marginals, and the sum of both weights, against a grid; rows are shrunk to the dual norm on the way.
#[test]
fn two_weights_follow_their_law_and_rows_are_shrunk_in_the_dual_norm() {
    for (p, loss, bound) in [(1.5, LOGISTIC, 1.0), (1.2, Loss::Absolute, 0.6), (1.5, LOGISTIC, 0.5)] {
        let data = data(12, 2, 7);
        let lambda = 3.0;
        let (beta, sample) = draws(&facts(loss, 2, 12, at(p, bound)), lambda, &data, 1_500);
        let dual = p / (p - 1.0);
        let shrunk = Examples { rows: data.rows.within_norm(dual, bound), targets: data.targets.clone() };
        assert_eq!(shrunk.rows == data.rows, bound == 1.0);
        let ln = |a: f64, b: f64| {
            let norm = (a.abs().powf(p) + b.abs().powf(p)).powf(1.0 / p);
            -beta * (losses(&shrunk, loss, &[a, b]) + lambda * norm * norm / (2.0 * (p - 1.0)))
        };
        for angle in [0.0f64, 0.5, 0.25] {
            let (s, c) = (angle * std::f64::consts::PI).sin_cos();
            let marginal = |u: f64| {
                let column =
                    (0..300).map(|i| -6.0 + 0.04 * (f64::from(i) + 0.5)).map(|v| ln(c * u - s * v, s * u + c * v));
                let column: Vec<f64> = column.collect();
                let top = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                top + column.iter().map(|l| (l - top).exp()).sum::<f64>().ln()
            };
            let law = Tabulated::new(marginal, -6.0, 6.0, 400);
            let mut along: Vec<f64> = sample.iter().map(|x| c * x[0] + s * x[1]).collect();
            let distance = kolmogorov_distance(&mut along, |x| law.cdf(x));
            // the grid of the marginal is good to a thousandth
            assert!(distance < kolmogorov_limit(1_500) + 1e-3, "{p} {angle}: {distance}");
        }
    }
}

#[test]
fn the_event_is_that_of_the_dual_norm() {
    for (relation, factor) in [(Relation::ZeroOut, 1.0), (Relation::ReplaceOne, 2.0)] {
        for geometry in [LpGeometry::new(1.0, 0.25, 10), LpGeometry::new(1.5, 0.5, 10), LpGeometry::new(1.1, 3.0, 10)] {
            let facts = GibbsFacts { relation, mu: 0.3, ..facts(LOGISTIC, 10, 30, geometry) };
            // a bound above the Euclidean one says nothing
            let bound = geometry.dual_row_norm.min(1.0);
            assert_eq!(facts.difference_lipschitz(), factor * bound);
            let draw = facts.draw(20.0).unwrap();
            let Event::Gdp { mu } = draw.event() else { panic!("no theorem") };
            assert!(mu <= 0.3 && mu > 0.3 * (1.0 - 1e-12), "{mu}");
            let proved = draw.chain().total_variation;
            assert!(proved <= 1e-7 && proved > 0.25e-7 && draw.chain().shrunk.is_some() == (bound < 1.0), "{proved}");
        }
    }
}

#[test]
fn rows_in_the_dual_norm_are_short_and_make_chains_short() {
    let rows = data(200, 9, 6).rows;
    for p in [1.0, 1.2, 1.5, 1.9] {
        let facts = |bound: f64| facts(LOGISTIC, 9, 40, LpGeometry::new(p, bound, 9));
        let bound = 0.3;
        let length = facts(bound).counted_row_norm(9);
        let mut equal = Rows::new(9);
        equal.push_clipped(&mut (0..9).map(|j| (j, 1.0 / 3.0)).collect::<Vec<_>>(), 1.0);
        let longest = |rows: &Rows| {
            let shrunk = rows.within_norm(facts(bound).geometry.unwrap().dual(), bound);
            let square = |i: usize| shrunk.row(i).1.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>();
            (0..rows.len()).map(|i| square(i).sqrt()).fold(0.0, f64::max)
        };
        assert!(longest(&rows) <= length && longest(&equal) <= length && longest(&equal) > 0.999_99 * length, "{p}");
        // of four entries, and where the Euclidean norm says more
        assert!((facts(0.1).counted_row_norm(4) / (0.1 * 4f64.powf(1.0 / p - 0.5)) - 1.0).abs() < 1e-11);
        assert_eq!(facts(1.0).counted_row_norm(9), 1.0);
    }
    // where the losses set the step: their curvature falls with the square of the norm
    let of = |bound: f64| facts(LOGISTIC, 10, 1_000, LpGeometry::new(1.9, bound, 10));
    let rounds = |bound: f64| of(bound).draw(20.0).unwrap().chain().rounds;
    assert!(3 * rounds(0.3) < rounds(1.0), "{} {}", rounds(0.3), rounds(1.0));
}

/// Softmax: 2^(1/p*) where the Euclidean norm of a slope can be √2.
#[test]
fn slopes_of_several_scores_are_measured_in_the_dual_norm() {
    for (p, slope) in [(1.0, 1.0), (1.5, 2f64.powf(1.0 / 3.0)), (2.0, 2f64.sqrt())] {
        let facts = facts(Loss::Softmax { classes: 3 }, 2, 30, LpGeometry::new(p, 0.5, 6));
        assert!((facts.difference_lipschitz() / (0.5 * slope) - 1.0).abs() < 1e-14, "{p}");
        let Event::Gdp { mu } = facts.draw(20.0).unwrap().event() else { panic!("no theorem") };
        assert!(mu <= 1.0 && mu > 1.0 - 1e-12, "{mu}");
    }
}

#[test]
fn what_has_no_proof_in_a_norm_is_not_drawn() {
    let proved = facts(LOGISTIC, 3, 40, at(1.5, 1.0));
    assert!(proved.draw(10.0).is_some());
    for wrong in
        [at(0.9, 1.0), at(2.5, 1.0), at(f64::NAN, 1.0), at(1.0, 1.0), at(1.5, 0.0), at(1.5, f64::NAN), at(1.5, -1.0)]
    {
        assert!(GibbsFacts { geometry: Some(wrong), ..proved }.draw(10.0).is_none(), "{wrong:?}");
    }
    assert!(GibbsFacts { constant_time: true, ..proved }.draw(10.0).is_none());
    assert!(GibbsFacts { total_variation: 1e-17, ..proved }.draw(10.0).is_none());
    // p = 2 with the best q is the Euclidean measure, to a rounding
    let euclidean = GibbsFacts { geometry: None, ..proved }.draw(10.0).unwrap();
    let same = GibbsFacts { geometry: Some(LpGeometry::new(2.0, 1.0, 3)), ..proved }.draw(10.0).unwrap();
    assert_eq!(same.event(), euclidean.event());
    let norm = same.chain().norm.unwrap();
    assert!((norm.convexity - 1.0).abs() < 2e-12 && norm.beyond_quadratic(&[1.0, 2.0, 3.0]) == 0.0);
}

/// At least so many proposals are accepted as is proved; and what is proved is no longer nothing.
#[test]
fn proposals_are_accepted_as_often_as_is_proved() {
    for (p, d, n, lambda, loss) in [
        (1.0, 8, 40, 20.0, LOGISTIC),
        (1.0, 12, 40, 20.0, LOGISTIC),
        (1.5, 8, 60, 3.0, LOGISTIC),
        (1.9, 8, 60, 20.0, Loss::Huber { threshold: 0.5 }),
        (1.5, 3, 40, 5.0, LOGISTIC),
    ] {
        let facts = GibbsFacts { mu: 0.3, ..facts(loss, d, n, LpGeometry::new(p, 1.0, d)) };
        let draw = facts.draw(lambda).unwrap();
        let (_, tally) = draw.walk(&data(n as usize, d, 5), &mut NoiseSource::insecure(1));
        let rate = draw.chain().rounds as f64 / tally.values as f64;
        assert!(!tally.not_convex && rate >= draw.chain().least_acceptance, "{p} {d}: {rate}");
        // a mean gap of 100: from the slope alone it was thousands
        assert!(draw.chain().least_acceptance > (-110f64).exp(), "{p} {d}: {:?}", draw.chain());
    }
}

#[test]
fn a_draw_in_a_norm_passes_the_curator_for_its_own_rows_only() {
    let facts = facts(LOGISTIC, 3, 40, at(1.5, 0.4));
    let draw = facts.draw(10.0).unwrap();
    let event = SamplerError::proved(draw.chain().total_variation).on(draw.event());
    let mut curator = uncharged(&event, NoiseSource::insecure(1));
    let long = Sensitive::new(data(41, 3, 1));
    assert!(curator.release(&draw, &long).is_err());
    assert!(curator.release(&draw, &Sensitive::new(data(40, 3, 1))).is_ok());
}
