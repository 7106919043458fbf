//! Every objective's gradient is the derivative of its value; what the kernel makes of it is bounded whatever it puts.

use super::*;
use crate::loss::Loss;
use crate::loss::embedding::{Embedding, Towers};
use crate::records::{Examples, Row, Rows};
use crate::synthetic::Lcg;
use std::convert::Infallible;

fn table(loss: Loss, features: usize) -> Examples {
    let mut random = Lcg::new(11);
    let mut rows = Rows::new(features);
    let mut targets = Vec::new();
    for i in 0..12 {
        let mut row: Vec<(u32, f32)> =
            (0..features as u32).filter(|j| (i + j) % 3 != 0).map(|j| (j, random.normal() as f32)).collect();
        rows.push_clipped(&mut row, 1.5);
        targets.push(match loss {
            Loss::Softmax { classes } => (i % classes) as f32,
            _ if i % 2 == 0 => 1.0,
            _ => -1.0,
        });
    }
    Examples { rows, targets }
}

/// Largest difference between a gradient and the slopes of the value, over all records and coordinates.
fn misses<R: RecordSet<Error = Infallible>, O: Objective<R>>(objective: &O, records: &R, x: &[f64]) -> f64 {
    let (mut scratch, h, mut worst) = (O::Scratch::default(), 1e-6, 0.0f64);
    assert_eq!(objective.dimension(), x.len());
    for i in 0..records.len() {
        let mut gradient = vec![0.0; x.len()];
        let Ok(given) = objective.gradient(&mut { x }, records, i, &mut scratch);
        given.add_to(&mut gradient);
        for (at, given) in gradient.iter().enumerate() {
            let mut value = |step: f64| {
                let mut moved = x.to_vec();
                moved[at] += step;
                let Ok(value) = objective.value(&moved, records, i, &mut scratch);
                value
            };
            worst = worst.max(((value(h) - value(-h)) / (2.0 * h) - given).abs());
        }
    }
    worst
}

fn point(dimension: usize) -> Vec<f64> {
    let mut random = Lcg::new(5);
    (0..dimension).map(|_| random.normal()).collect()
}

#[test]
fn gradients_are_the_slopes_of_values() {
    for loss in [
        Loss::Logistic { shift: 0.0 },
        Loss::Squared,
        Loss::Sigmoid,
        Loss::Softmax { classes: 3 },
        Loss::SmoothedHinge { width: 0.5 },
        Loss::Poisson { top: Loss::USUAL_TOP },
        Loss::Quantile { level: 0.8, width: 0.3 },
    ] {
        let linear = Linear::new(loss, 7, 1.5);
        let (records, x) = (table(loss, 7), point(linear.weights()));
        assert!(misses(&linear, &records, &x) < 1e-7, "{loss:?}");
        // the bounds that are claimed hold
        if let Some(bound) = linear.known().lipschitz {
            for i in 0..records.rows.len() {
                let mut gradient = vec![0.0; x.len()];
                let mut scratch = Default::default();
                let Ok(given) = linear.gradient(&mut &x[..], &records, i, &mut scratch);
                given.add_to(&mut gradient);
                assert!(crate::geometry::norm(&gradient) <= bound.value());
            }
        }
    }
    let loss = Loss::Logistic { shift: 0.0 };
    let (records, x, anchor) = (table(loss, 7), point(7), vec![0.3; 7]);
    assert!(misses(&Difference::from(Linear::new(loss, 7, 1.5), &anchor), &records, &x) < 1e-7);
    let same = Difference::from(Linear::new(loss, 7, 1.5), &x);
    let mut scratch = Default::default();
    let Ok(nothing) = same.gradient(&mut &x[..], &records, 0, &mut scratch);
    let mut sum = vec![0.0; 7];
    nothing.add_to(&mut sum);
    assert_eq!(sum, vec![0.0; 7], "no difference at the anchor");
    for (towers, loss) in [
        (None, Loss::Softmax { classes: 3 }),
        (Some(Towers { users: vec![(1, 3)], items: vec![(3, 7)] }), Loss::Squared),
    ] {
        let embedded = Embedded::new(Embedding { dimension: 3, towers, seed: 2 }, loss, 7, 1.5, 40);
        assert!(misses(&embedded, &table(loss, 7), &point(embedded.length())) < 1e-6);
    }
}

#[test]
fn scaled_gradients_are_gradients_times_scales() {
    let scales: Vec<f64> = (0..21).map(|j| 0.5 + f64::from(j % 4)).collect();
    let of = |gradient: Gradient<'_>| {
        let mut out = vec![0.0; 21];
        gradient.add_to(&mut out);
        out
    };
    let (loss, x) = (Loss::Softmax { classes: 3 }, point(21));
    let (records, linear) = (table(loss, 7), Linear::new(loss, 7, 1.5));
    let sums = Closures::new(21, |_: &[f64], _: &u8| 0.0, |x: &[f64], _: &u8, g: &mut [f64]| g.copy_from_slice(x));
    let (mut a, mut b) = (Default::default(), Default::default());
    for i in 0..12 {
        let Ok(plain) = linear.gradient(&mut &x[..], &records, i, &mut a);
        let expected: Vec<f64> = of(plain).iter().zip(&scales).map(|(g, s)| g * s).collect();
        let scaled = Scaled::new(linear, scales.clone());
        let Ok(given) = scaled.gradient(&mut &x[..], &records, i, &mut b);
        of(given).iter().zip(&expected).for_each(|(g, e)| assert!((g - e).abs() < 1e-15));
    }
    let scaled = Scaled::new(sums, scales.clone());
    let (mut scratch, one) = (Default::default(), vec![7u8]);
    let Ok(given) = scaled.gradient(&mut &x[..], &one, 0, &mut scratch);
    assert_eq!(of(given), x.iter().zip(&scales).map(|(x, s)| x * s).collect::<Vec<_>>());
}

#[test]
fn rows_whose_columns_do_not_increase_are_no_rows() {
    assert!(Row::new(&[2, 1], &[1.0, 1.0]).is_none());
    assert!(Row::new(&[1], &[]).is_none());
    let row = Row::new(&[1, 5], &[1.0, 2.0]).unwrap();
    assert!(row.fits(6) && !row.fits(5));
}

#[test]
fn the_gradient_of_a_unit_is_the_mean_of_its_rows() {
    for loss in [Loss::Logistic { shift: 0.0 }, Loss::Softmax { classes: 3 }] {
        let rows = table(loss, 6);
        let owners = [3, 0, 0, 3, 1, 3, 3, 0, 3, 3, 3, 5];
        let units =
            crate::records::Units::new(rows.clone(), &crate::records::Owners { of_row: owners.to_vec(), units: 7 })
                .unwrap();
        let of_rows = Linear::new(loss, 6, 1.5);
        let of_units = OfUnits::new(of_rows);
        let x = point(6 * loss.outputs());
        assert!(misses(&of_units, &units, &x) < 1e-7);
        let mut scratch = super::of_units::UnitScratch::default();
        for unit in 0..7 {
            let mut mean = vec![0.0; x.len()];
            let mine: Vec<usize> = (0..12).filter(|j| owners[*j] == unit as u32).collect();
            for &row in &mine {
                let mut scratch = Default::default();
                let Ok(one) = of_rows.gradient(&mut &x[..], &rows, row, &mut scratch);
                one.add_to(&mut mean);
            }
            mean.iter_mut().for_each(|g| *g /= mine.len().max(1) as f64);
            let mut given = vec![0.0; x.len()];
            let Ok(gradient) = of_units.gradient(&mut &x[..], &units, unit, &mut scratch);
            assert_eq!(matches!(gradient, Gradient::Zero), mine.is_empty());
            gradient.add_to(&mut given);
            assert!(mean.iter().zip(&given).all(|(m, g)| (m - g).abs() < 1e-12), "{unit}");
        }
        assert_eq!(Objective::<crate::records::Units<Examples>>::facts(&of_units), of_rows.known());
        assert!(of_units.describes(&units));
    }
}

#[test]
fn recursive_gradients_are_weighted_differences_of_one_record() {
    let (loss, before) = (Loss::Softmax { classes: 3 }, vec![0.3; 21]);
    let (records, x) = (table(loss, 7), point(21));
    let linear = Linear::new(loss, 7, 1.5);
    let of = |objective: &dyn Fn(&mut [f64])| {
        let mut out = vec![0.0; 21];
        objective(&mut out);
        out
    };
    for step in [1, 2, 9] {
        let recursive = Recursive::new(&linear, &before, step);
        assert!(misses(&recursive, &records, &x) < 1e-6, "{step}");
        for i in 0..records.rows.len() {
            let at = |x: &[f64]| {
                of(&|out| {
                    let mut scratch = Default::default();
                    let Ok(gradient) = linear.gradient(&mut { x }, &records, i, &mut scratch);
                    gradient.add_to(out);
                })
            };
            let mut scratch = Default::default();
            let Ok(given) = recursive.gradient(&mut &x[..], &records, i, &mut scratch);
            // rows are the same, so slopes are what is subtracted
            assert!(matches!(given, Gradient::Outer { .. }));
            let given = of(&|out| given.add_to(out));
            let t = step as f64;
            for ((now, then), given) in at(&x).iter().zip(at(&before)).zip(given) {
                assert!((t * now - (t - 1.0) * then - given).abs() < 1e-12 * t);
            }
        }
    }
    // the plain change
    let change = Recursive::change(&linear, &before);
    assert!(misses(&change, &records, &x) < 1e-6);
    let (mut now, mut then, mut given) = (Default::default(), Default::default(), Default::default());
    for i in 0..records.rows.len() {
        let Ok(here) = linear.gradient(&mut &x[..], &records, i, &mut now);
        let Ok(there) = linear.gradient(&mut &before[..], &records, i, &mut then);
        let Ok(given) = change.gradient(&mut &x[..], &records, i, &mut given);
        let [here, there, given] = [here, there, given].map(|gradient| {
            let mut out = vec![0.0; 21];
            gradient.add_to(&mut out);
            out
        });
        here.iter().zip(&there).zip(&given).for_each(|((a, b), c)| assert!((a - b - c).abs() < 1e-12));
    }
    // gradients of entries and of all coordinates
    let embedded = Embedded::new(Embedding { dimension: 3, towers: None, seed: 2 }, loss, 7, 1.5, 40);
    let (x, before) = (point(embedded.length()), vec![0.1; embedded.length()]);
    assert!(misses(&Recursive::new(&embedded, &before, 4), &table(loss, 7), &x) < 1e-5);
    let closures = Closures::new(
        2,
        |x: &[f64], a: &f64| 0.25 * (x[0] - a).powi(4) + x[1],
        |x: &[f64], a: &f64, g: &mut [f64]| (g[0], g[1]) = ((x[0] - a).powi(3), 1.0),
    );
    assert!(misses(&Recursive::new(&closures, &[0.5, 0.0], 4), &vec![0.2f64, -1.0], &[0.3, 0.1]) < 1e-6);
    // what is not finite is nothing, as ever
    let wild =
        Closures::new(1, |_: &[f64], _: &f64| 0.0, |x: &[f64], _: &f64, g: &mut [f64]| g[0] = f64::INFINITY * x[0]);
    let recursive = Recursive::new(&wild, &[1.0], 3);
    let (records, mut scratch, mut sum) = (vec![0.0f64], Default::default(), [0.0]);
    let Ok(given) = recursive.gradient(&mut &[1.0][..], &records, 0, &mut scratch);
    given.add_to(&mut sum);
    assert_eq!(sum, [0.0]);
}
