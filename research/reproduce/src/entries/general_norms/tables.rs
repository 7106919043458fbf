//! Logistic labels whose best weights lie in a ball that is known: of l_1 with few of them not zero, or of the trace norm with rank one.

use super::linear::dual;
use super::noisy::{MIRROR_ROUNDS, NoisyGradients, frank_wolfe, mirror_descent, shrunk};
use super::tilted::tuning;
use super::{DELTA, EPSILON, RELATION};
use crate::{Failure, Trial};
use dpopt::Sensitive;
use dpopt::loss::{Loss, sigmoid, softplus};
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::optimize::gibbs_parameters::shares;
use dpopt::optimize::{MethodOptions, Run, named};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use serde::{Deserialize, Serialize};

const LOSS: Loss = Loss::Logistic { shift: 0.0 };
/// Standard deviation of the true scores.
const SIGNAL: f64 = 2.0;
/// Rows that losses are measured on.
const FRESH: usize = 20_000;

/// What rows and truth look like.
#[derive(Clone, Copy, PartialEq, Serialize)]
pub(super) enum Shape {
    /// Signs over √d; two weights are not zero.
    Signs,
    /// u·vᵀ of unit vectors; the truth has rank one.
    Matrices { side: usize },
}

#[derive(Clone, Copy, PartialEq, Serialize)]
pub(super) enum Way {
    /// A method of the library for linear models.
    Named(&'static str),
    /// The exponential mechanism in l_p, rows shrunk to what their dual norm is anyway.
    Exponential { p: f64 },
    /// Noisy mirror descent in l_p.
    Mirror { p: f64 },
    /// Noisy Frank–Wolfe on the trace-norm ball.
    MatrixFrankWolfe,
    /// Noisy gradient descent, its answer moved to the trace-norm ball.
    Shrunk,
}

impl Way {
    pub(super) fn name(self) -> String {
        match self {
            Way::Named(name) => name.into(),
            Way::Exponential { p } => format!("exponential mechanism, p = {p}"),
            Way::Mirror { p } => format!("mirror descent, p = {p}"),
            Way::MatrixFrankWolfe => "Frank–Wolfe, trace norm".into(),
            Way::Shrunk => "noisy-gradient-descent, moved to the ball".into(),
        }
    }
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Cell {
    pub(super) shape: Shape,
    pub(super) way: Way,
    pub(super) rows: usize,
    pub(super) features: usize,
}

/// Expected loss above that of the truth; `None`: there is no plan.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) excess: Option<f64>,
}

impl Cell {
    /// Radius of the ball that the truth lies on: l_1 or trace norm.
    pub(super) fn radius(&self) -> f64 {
        match self.shape {
            // two weights whose signed sum over √d has the signal's size
            Shape::Signs => SIGNAL * (2.0 * self.features as f64).sqrt(),
            Shape::Matrices { side } => SIGNAL * side as f64,
        }
    }

    fn truth(&self) -> Vec<f64> {
        let d = self.features;
        let mut truth = vec![0.0; d];
        match self.shape {
            Shape::Signs => {
                truth[0] = 0.5 * self.radius();
                truth[d / 2] = -0.5 * self.radius();
            }
            Shape::Matrices { side } => {
                // ±1/m each: a·bᵀ with signs over √m
                let sign = |k: usize| if k.is_multiple_of(3) { -1.0 } else { 1.0 };
                truth.iter_mut().enumerate().for_each(|(at, t)| {
                    *t = self.radius() / side as f64 * sign(at / side) * sign(at % side + 1);
                });
            }
        }
        truth
    }

    fn row(&self, random: &mut Stream) -> Vec<f32> {
        let mut unit = |count: usize| -> Vec<f64> {
            let v: Vec<f64> = (0..count).map(|_| random.standard_normal()).collect();
            let length = v.iter().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
            v.into_iter().map(|x| x / length).collect()
        };
        match self.shape {
            Shape::Signs => {
                let size = (self.features as f64).sqrt().recip();
                unit(self.features).into_iter().map(|x| (size * x.signum()) as f32).collect()
            }
            Shape::Matrices { side } => {
                let (u, v) = (unit(side), unit(side));
                u.iter().flat_map(|a| v.iter().map(move |b| (a * b) as f32)).collect()
            }
        }
    }

    fn table(&self, truth: &[f64], seed: u64) -> Examples {
        let mut random = NoiseSource::insecure(seed).stream(Purpose::Other(1), 0);
        let mut made = Examples { rows: Rows::new(self.features), targets: Vec::with_capacity(self.rows) };
        for _ in 0..self.rows {
            let row = self.row(&mut random);
            let one = random.uniform() < sigmoid(score(&row, truth));
            made.targets.push(if one { 1.0 } else { -1.0 });
            let mut entries: Vec<(u32, f32)> = (0..).zip(row).collect();
            made.rows.push_clipped(&mut entries, 1.0);
        }
        made
    }

    fn problem(&self) -> Problem {
        Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows: self.rows as u64,
            features: self.features,
            nonzeros: self.features,
            row_norm: 1.0,
            loss: LOSS,
            neighbours: Neighbours::of_records(RELATION),
        }
    }

    /// Expected logistic loss above the truth's: the divergence of its labels, on fresh rows, the same for all ways.
    fn excess(&self, x: &[f64], truth: &[f64]) -> f64 {
        let mut random = NoiseSource::insecure(77).stream(Purpose::Other(2), 0);
        let of = |row: Vec<f32>| {
            let (s, t) = (score(&row, x), score(&row, truth));
            let p = sigmoid(t);
            let loss = |s: f64| p * softplus(-s) + (1.0 - p) * softplus(s);
            loss(s) - loss(t)
        };
        (0..FRESH).map(|_| of(self.row(&mut random))).sum::<f64>() / FRESH as f64
    }

    /// Rounds of Frank–Wolfe that balance its own error, 2βD²/T with βD² = ¼·E⟨A, Δ⟩² at Δ of trace norm 2τ and rank one, with that
    /// of T noisy choices, 2τ times the largest singular value 2√m·σ of the noise: from public numbers alone.
    fn frank_wolfe_rounds(&self, side: usize, mu: f64) -> u64 {
        let (m, radius) = (side as f64, self.radius());
        let own = 2.0 * 0.25 * (2.0 * radius / m).powi(2);
        let noise = 4.0 * radius * m.sqrt() / (mu * self.rows as f64);
        (2.0 * own / noise).powf(2.0 / 3.0).clamp(2.0, 400.0).round() as u64
    }
}

fn score(row: &[f32], x: &[f64]) -> f64 {
    row.iter().zip(x).map(|(a, x)| f64::from(*a) * x).sum()
}

/// What a way leaves on one table.
pub(super) fn measure(cell: &Cell, trial: Trial) -> Result<Left, Failure> {
    let truth = cell.truth();
    let held = Sensitive::new(cell.table(&truth, trial.shared_seed));
    let problem = cell.problem();
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let d = cell.features as f64;
    let by = |options: MethodOptions| -> Result<Option<Vec<f64>>, Failure> {
        let Some(Ok(plan)) = named(&problem, budget, &options).map(|candidate| candidate.plan) else { return Ok(None) };
        let mut curator = Curator::new(&plan.summary().certificate, trial.source());
        let run = Run::new(&problem, &held, &mut curator, &Silent).map_err(Failure::of)?;
        Ok(Some(plan.run(run).map_err(Failure::of)?.into_inner().weights))
    };
    let plain = |name: &str| {
        let shifted = name == "objective-perturbation" || name == "exponential-mechanism";
        let bounded = (name == "frank-wolfe").then(|| cell.radius());
        MethodOptions::of(name).with_if("shift", shifted.then_some(0.0)).with_if("l1_norm", bounded)
    };
    let answer = match (cell.way, cell.shape) {
        (Way::Named(name), _) => by(plain(name))?,
        (Way::Exponential { p }, _) => {
            // a row of signs over √d has this dual norm; the least bit above it, for the rounding of its entries
            let dual_norm = (d.powf(1.0 / dual(p) - 0.5) * (1.0 + 1e-6)).min(1.0);
            let form = if p == 1.0 { "l1".to_string() } else { format!("lp:{p}") };
            by(plain("exponential-mechanism").with("geometry", form).with("dual_row_norm", dual_norm))?
        }
        (Way::Mirror { p }, _) => {
            let mut gradients = NoisyGradients::new(&problem, MIRROR_ROUNDS, &held, trial.source())?;
            let slope = d.powf(1.0 / dual(p) - 0.5);
            Some(mirror_descent(&mut gradients, p, cell.radius(), slope, cell.features)?)
        }
        (Way::MatrixFrankWolfe, Shape::Matrices { side }) => {
            let rounds = cell.frank_wolfe_rounds(side, shares(budget).mu);
            let mut gradients = NoisyGradients::new(&problem, rounds, &held, trial.source())?;
            Some(frank_wolfe(&mut gradients, rounds, side, cell.radius())?)
        }
        (Way::Shrunk, Shape::Matrices { side }) => {
            let answer = by(plain("noisy-gradient-descent"))?;
            answer.map(|x| shrunk(&x, side, cell.radius())).transpose()?
        }
        (Way::MatrixFrankWolfe | Way::Shrunk, Shape::Signs) => None,
    };
    Ok(Left { excess: answer.map(|x| cell.excess(&x, &truth)) })
}

/// Bound on the excess of the exponential mechanism on the trace-norm ball: of an exact draw, for which no sampler is certified.
pub(super) fn trace_norm_bound(side: usize, rows: usize) -> Result<f64, Failure> {
    let cell = Cell { shape: Shape::Matrices { side }, way: Way::MatrixFrankWolfe, rows, features: side * side };
    Ok(tuning(1.0, side, side * side, cell.radius(), rows as f64)?.risk)
}
