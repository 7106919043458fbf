//! When does variance reduction pay? The same steps for all methods, no second fit, equal budgets.

use super::super::records::DataSet;
use super::{DELTA, Score, fitted};
use crate::{Failure, Lab, Summary, Table, cell};
use dpopt::optimize::{MethodOptions, has_option};
use serde::Serialize;

const EPSILON: f64 = 4.0;
const SAMPLING: f64 = 0.25;

/// Method, and c over C for the variance-reduced ones.
const METHODS: [(&str, Option<f64>); 5] = [
    ("dp-gd-ht", None),
    ("dp-sgd-ht", None),
    ("dp-svrg-ht", Some(0.25)),
    ("dp-svrg-ht", Some(0.1)),
    ("dp-scsg-ht", Some(0.25)),
];

#[derive(Clone, Serialize)]
struct Cell {
    data: &'static str,
    method: &'static str,
    difference: Option<f64>,
    steps: u64,
    rate: f64,
    fold: usize,
}

/// Validation losses, and a sentence with the best and the worst ratio of a variance-reduced method to dp-sgd-ht.
pub(super) fn table(lab: &Lab, sets: &[DataSet], folds: usize) -> Result<(Table, String), Failure> {
    let steps = lab.pick(vec![12u64], vec![12, 40]);
    let rates = lab.pick(vec![4.0], vec![4.0, 20.0, 60.0]);
    let mut cells = Vec::new();
    for set in sets {
        for &steps in &steps {
            for &rate in &rates {
                for (method, difference) in METHODS {
                    cells.extend((0..folds).map(|fold| Cell { data: set.name, method, difference, steps, rate, fold }));
                }
            }
        }
    }
    let scores: Vec<Vec<Score>> = lab.trials("variance", &cells, 1, |cell, trial| {
        let set = sets.iter().find(|s| s.name == cell.data).ok_or_else(|| Failure::of("no such data"))?;
        let options = MethodOptions::of(cell.method)
            .with("steps", cell.steps)
            .with("learning_rate", cell.rate)
            .with_if("sampling_probability", (cell.method != "dp-gd-ht").then_some(SAMPLING))
            .with_if("difference_clip", cell.difference.map(|share| 0.5 * share))
            .with_if("refit_share", has_option(cell.method, "refit_share").then_some(0.0));
        fitted(set, &set.fold(cell.fold, folds), options, EPSILON, trial.seed)
    })?;
    let mut table =
        Table::new("variance", ["data", "steps", "learning rate", "method", "c over C", "validation loss", "sd"]);
    let (mut best, mut worst) = ((f64::INFINITY, String::new()), (0.0, String::new()));
    let mut reference = f64::NAN;
    for (group, scores) in cells.chunks(folds).zip(scores.chunks(folds)) {
        let c = &group[0];
        let loss = Summary::of(scores.iter().map(|s| s[0].loss));
        let difference = c.difference.map_or(String::new(), |d| d.to_string());
        table.row([
            c.data.into(),
            c.steps.to_string(),
            c.rate.to_string(),
            c.method.into(),
            difference,
            cell(loss.mean),
            cell(loss.sd),
        ]);
        if c.difference.is_none() {
            reference = loss.mean; // dp-sgd-ht comes last of these
        } else {
            let ratio = loss.mean / reference;
            let at = || format!("{}, {} steps of rate {}, {}", c.data, c.steps, c.rate, c.method);
            if ratio < best.0 {
                best = (ratio, at());
            }
            if ratio > worst.0 {
                worst = (ratio, at());
            }
        }
    }
    let sentence = format!(
        "Variance reduction at epsilon = {EPSILON}, delta = {DELTA:e}, same steps, no second fit (variance.csv): the loss is {:.3} to {:.3} times that of \
         dp-sgd-ht with q = {SAMPLING} (best: {}; worst: {}).",
        best.0, worst.0, best.1, worst.1
    );
    Ok((table, sentence))
}
