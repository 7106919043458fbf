//! The paper's algorithms with plain floating-point noise: its Algorithms 1 and 2, for comparison. Not private.

use super::super::records::{DataSet, Fold};
use super::{DELTA, LOGISTIC, Score, validation_loss};
use crate::Failure;
use dpopt::noise::Stream;
use dpopt::optimize::SourceProblem;
use dpopt::privacy::{Budget, Event, Neighbours, Relation, calibrate};
use dpopt::records::Examples;
use serde::Serialize;

/// An algorithm of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum PaperMethod {
    Gd,
    Sgd,
    Scsg,
}

impl PaperMethod {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gd => "DP-GD-HT",
            Self::Sgd => "DP-SGD-HT",
            Self::Scsg => "DP-SCSG-HT",
        }
    }

    /// Passes over the data, as the paper used.
    fn epochs(self) -> f64 {
        match self {
            Self::Gd => 100.0,
            Self::Sgd => 20.0,
            Self::Scsg => 10.0,
        }
    }
}

/// Where the standard deviation of the noise comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum NoiseFrom {
    Source,
    Accountant,
}

impl NoiseFrom {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Source => "source sigma",
            Self::Accountant => "accountant sigma",
        }
    }
}

/// l of the paper: unit rows and logistic loss.
const CLIP: f64 = 1.0;

/// −(1/b)Σ gradient at x over `chosen`, added to `out`.
fn add_mean_slope(examples: &Examples, chosen: &[usize], x: &[f64], sign: f64, out: &mut [f64]) {
    for &i in chosen {
        let (columns, values) = examples.rows.row(i);
        let score: f64 = columns.iter().zip(values).map(|(&j, &v)| x[j as usize] * f64::from(v)).sum();
        let slope = LOGISTIC.scalar_slope(score, f64::from(examples.targets[i]));
        // |slope|·‖row‖ ≤ 1: nothing to clip
        let share = sign * slope / chosen.len() as f64;
        columns.iter().zip(values).for_each(|(&j, &v)| out[j as usize] += share * f64::from(v));
    }
}

/// x ← H_k(x − ηv), the intercept kept.
fn step(x: &mut [f64], v: &[f64], rate: f64, k: usize, intercept: Option<u32>) {
    x.iter_mut().zip(v).for_each(|(x, v)| *x -= rate * v);
    let mut order: Vec<usize> = (0..x.len()).filter(|&j| Some(j as u32) != intercept).collect();
    if k < order.len() {
        order.select_nth_unstable_by(k, |&a, &b| x[b].abs().total_cmp(&x[a].abs()).then(a.cmp(&b)));
        order[k..].iter().for_each(|&j| x[j] = 0.0);
    }
}

fn sample(n: usize, size: usize, stream: &mut Stream) -> Vec<usize> {
    // Floyd: a uniform subset
    let mut chosen = std::collections::BTreeSet::new();
    for j in n - size..n {
        let t = stream.below(j as u64 + 1) as usize;
        if !chosen.insert(t) {
            chosen.insert(j);
        }
    }
    chosen.into_iter().collect()
}

pub(super) fn without_noise(set: &DataSet, fold: &Fold, steps: usize) -> Result<Score, Failure> {
    let d = fold.train.rows.columns();
    let all: Vec<usize> = (0..fold.train.targets.len()).collect();
    let (mut x, mut best) = (vec![0.0; d], Score { loss: f64::INFINITY, sigma: 0.0, epochs: 0.0 });
    let rate = 10.0;
    for t in 0..steps {
        let mut v = vec![0.0; d];
        add_mean_slope(&fold.train, &all, &x, 1.0, &mut v);
        step(&mut x, &v, rate, set.features_kept as usize, set.intercept);
        keep(&mut best, fold, &x, t as f64 + 1.0);
    }
    Ok(best)
}

fn keep(best: &mut Score, fold: &Fold, x: &[f64], epochs: f64) {
    let loss = validation_loss(&fold.validation, x);
    if loss < best.loss {
        (best.loss, best.epochs) = (loss, epochs);
    }
}

/// The best validation loss over the epochs of one run.
pub(super) fn run(
    set: &DataSet,
    fold: &Fold,
    (method, noise): (PaperMethod, NoiseFrom),
    rate: f64,
    epsilon: f64,
    stream: &mut Stream,
) -> Result<Score, Failure> {
    let (n, d) = (fold.train.targets.len(), fold.train.rows.columns());
    let source = SourceProblem { records: n as f64, clip_norm: CLIP, epsilon, delta: DELTA };
    let batch = match method {
        PaperMethod::Gd => n,
        _ => (n as f64).sqrt().round() as usize,
    };
    let inner = 10;
    let steps = match method {
        PaperMethod::Gd => method.epochs() as usize,
        PaperMethod::Sgd => (method.epochs() * n as f64 / batch as f64).round() as usize,
        // an epoch of the algorithm is about three snapshot batches of gradients
        PaperMethod::Scsg => {
            (method.epochs() * n as f64 / (3.0 * inner as f64 * batch as f64)).round().max(1.0) as usize * inner
        }
    };
    let (first, sigma) = match (method, noise) {
        (PaperMethod::Gd, _) => (0.0, source.gd_ht(steps as f64).map_err(Failure::of)?),
        (PaperMethod::Sgd, NoiseFrom::Source) => (0.0, source.sgd_ht_unchecked(steps as f64)),
        (PaperMethod::Sgd, NoiseFrom::Accountant) => {
            let q = batch as f64 / n as f64;
            let event = |z: f64| Event::gaussian(z).poisson_sampled(q).self_composed(steps as u64);
            let budget = Budget::new(epsilon, DELTA).map_err(Failure::of)?;
            let (z, _) = calibrate::noise(event, Neighbours::of_records(Relation::ReplaceOne).within(budget))
                .map_err(Failure::of)?;
            (0.0, z * CLIP / batch as f64)
        }
        (PaperMethod::Scsg, _) => {
            // B = 10b, J = steps/10; σ² = 2(B/b)l²αJ/(n²ε), 40σ² and 160σ²
            let variance =
                2.0 * inner as f64 * source.order() * (steps / inner) as f64 / ((n as f64).powi(2) * epsilon);
            ((40.0 * variance).sqrt(), (160.0 * variance).sqrt())
        }
    };
    let (mut x, mut best) = (vec![0.0; d], Score { loss: f64::INFINITY, sigma, epochs: 0.0 });
    let (mut anchor, mut snapshot, mut normal) = (vec![0.0; d], vec![0.0; d], vec![0.0; d]);
    let every = (steps / 20).max(1);
    for t in 0..steps {
        let mut v = vec![0.0; d];
        if method == PaperMethod::Scsg {
            if t % inner == 0 {
                anchor.copy_from_slice(&x);
                snapshot.fill(0.0);
                add_mean_slope(&fold.train, &sample(n, (inner * batch).min(n), stream), &anchor, 1.0, &mut snapshot);
                stream.fill_standard_normal(&mut normal);
                snapshot.iter_mut().zip(&normal).for_each(|(s, z)| *s += first * z);
            }
            let chosen = sample(n, batch, stream);
            add_mean_slope(&fold.train, &chosen, &x, 1.0, &mut v);
            add_mean_slope(&fold.train, &chosen, &anchor, -1.0, &mut v);
            v.iter_mut().zip(&snapshot).for_each(|(v, s)| *v += s);
        } else {
            add_mean_slope(&fold.train, &sample(n, batch, stream), &x, 1.0, &mut v);
        }
        stream.fill_standard_normal(&mut normal);
        v.iter_mut().zip(&normal).for_each(|(v, z)| *v += sigma * z);
        step(&mut x, &v, rate, set.features_kept as usize, set.intercept);
        if (t + 1) % every == 0 || t + 1 == steps {
            keep(&mut best, fold, &x, method.epochs() * (t + 1) as f64 / steps as f64);
        }
    }
    Ok(best)
}
