//! Linear losses on the unit ball of l_p: the exponential mechanism at the tuning of its bound, beside answers to one noisy sum and to
//! one noisy choice (Liu 2024, Theorem 4.4.2).

use super::tilted::Tilted;
use super::{DELTA, EPSILON, RELATION};
use crate::{Failure, Trial};
use dpopt::estimate::NoiseLaw;
use dpopt::noise::Stream;
use dpopt::optimize::gibbs_parameters::Temperature;
use dpopt::privacy::{Budget, Neighbours};
use dpopt::sampler::{Chain, Convexity, Domain, NormSquare, Oracle, best_exponent};
use serde::{Deserialize, Serialize};

/// Records; only their number times s counts.
pub(super) const RECORDS: f64 = 2000.0;

/// Which mean slope the losses have; its dual norm is `share` of the bound.
#[derive(Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) p: f64,
    pub(super) dimension: usize,
    pub(super) share: f64,
    /// Equal entries, or one.
    pub(super) equal: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Drawn {
    /// Mean of ⟨slope, x⟩ above its least value on the ball.
    pub(super) excess: f64,
    /// Mean of ⟨∇H(x), x⟩/d for draws from e^−H: 1 in law.
    pub(super) virial: f64,
}

/// What answers to noisy sums leave, and to noisy choices of a vertex (l_1 only).
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Rivals {
    pub(super) noisy_sum: f64,
    pub(super) vertex: Option<f64>,
}

/// Order of the dual norm.
pub(super) fn dual(p: f64) -> f64 {
    if p == 1.0 { f64::INFINITY } else { p / (p - 1.0) }
}

/// ‖v‖_p, also for p = ∞.
pub(super) fn norm(v: &[f64], p: f64) -> f64 {
    let largest = v.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if p == f64::INFINITY || largest == 0.0 {
        return largest;
    }
    largest * v.iter().map(|x| (x.abs() / largest).powf(p)).sum::<f64>().powf(1.0 / p)
}

/// k, μ and the bound on the excess in the unit ball.
pub(super) fn tuning(p: f64, dimension: usize) -> Result<Temperature, Failure> {
    super::tilted::tuning(p, dimension, dimension, 1.0, RECORDS)
}

impl Cell {
    /// The mean slope of the linear losses.
    fn slope(&self) -> Result<Vec<f64>, Failure> {
        let size = self.share * tuning(self.p, self.dimension)?.risk;
        let each = size * (self.dimension as f64).powf(-1.0 / dual(self.p));
        Ok((0..self.dimension)
            .map(|j| match (self.equal, j) {
                (true, _) => each,
                (false, 0) => size,
                (false, _) => 0.0,
            })
            .collect())
    }
}

/// Means along one chain of the library's sampler, the first quarter left out. Nothing is claimed for its privacy: a path shows more
/// than one draw.
pub(super) fn draws(cell: &Cell, trial: Trial) -> Result<Drawn, Failure> {
    let d = cell.dimension;
    let Temperature { temperature, modulus, .. } = tuning(cell.p, d)?;
    let norm = NormSquare::new(cell.p, best_exponent(cell.p, d), d).ok_or_else(|| Failure::of("no such norm"))?;
    let slope = cell.slope()?;
    let least = -self::norm(&slope, dual(cell.p));
    let stiffness = temperature * modulus;
    // about one proposal in e is taken at weights of equal sizes
    let inverse_step = stiffness * norm.coefficient * (d as f64).powf(2.0 / norm.exponent);
    let chain = Chain {
        steps: 1,
        step_std: inverse_step.sqrt().recip(),
        convexity: stiffness * norm.convexity,
        centre: vec![0.0; d],
        domain: Domain::Whole { radius: 1e6 },
        oracle: Oracle::Convexity(Convexity { slack: 1e-9, ..Convexity::default() }),
        grid: 2f64.powi(-40),
    };
    // rounds in which the slowest direction forgets, at worst
    let slowest = (inverse_step / chain.convexity).ceil();
    let rounds = (12.0 * slowest).max(4000.0) as u64;
    let potential = Tilted { slope, term: norm, temperature, modulus };
    let mut random = trial.stream();
    let (mut x, mut loss, mut virial) = (vec![0.0; d], 0.0, 0.0);
    for round in 0..rounds {
        x = chain.run(&potential, &x, &mut random).0.map_err(|_| Failure::of("an oracle gave up"))?;
        if round >= rounds / 4 {
            let linear = potential.linear(&x);
            loss += linear;
            virial += temperature * linear + 2.0 * stiffness * norm.value(&x);
        }
    }
    let kept = (rounds - rounds / 4) as f64;
    Ok(Drawn { excess: loss / kept - least, virial: virial / (kept * d as f64) })
}

/// Where ⟨slope, x⟩ is least on the unit ball of l_p.
fn best_point(slope: &[f64], p: f64) -> Vec<f64> {
    let order = dual(p);
    let size = norm(slope, order);
    if size == 0.0 {
        return vec![0.0; slope.len()];
    }
    if order == f64::INFINITY {
        let best = (0..slope.len()).max_by(|&i, &j| slope[i].abs().total_cmp(&slope[j].abs())).unwrap_or(0);
        return (0..slope.len()).map(|j| if j == best { -slope[j].signum() } else { 0.0 }).collect();
    }
    slope.iter().map(|s| -s.signum() * (s.abs() / size).powf(order - 1.0)).collect()
}

fn gumbel(random: &mut Stream) -> f64 {
    -(-random.uniform().max(f64::MIN_POSITIVE).ln()).ln()
}

/// The sum with Gaussian noise, and the best point of the ball for it; and a vertex of the l_1 ball by the exponential mechanism. Both
/// see what the sum of all records is, in the place of records.
pub(super) fn rivals(cell: &Cell, trial: Trial) -> Result<Rivals, Failure> {
    const DRAWS: usize = 2000;
    let (d, p) = (cell.dimension, cell.p);
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let terms = Neighbours::of_records(RELATION).within(budget);
    let (z, _) = NoiseLaw::Gaussian.least(d as u64, terms).map_err(Failure::of)?;
    // largest l_2 norm where the dual norm, of an order from 2 on, is 1
    let std = z * (d as f64).powf(0.5 - 1.0 / dual(p)) / RECORDS;
    let slope = cell.slope()?;
    let least = -norm(&slope, dual(p));
    let value = |x: &[f64]| slope.iter().zip(x).map(|(s, x)| s * x).sum::<f64>() - least;
    let mut random = trial.stream();
    let (mut of_sum, mut of_vertex) = (0.0, 0.0);
    for _ in 0..DRAWS {
        let noisy: Vec<f64> = slope.iter().map(|s| s + std * random.standard_normal()).collect();
        of_sum += value(&best_point(&noisy, p));
        // a record that is left out moves a score by at most 1: up or down
        let scores = slope.iter().flat_map(|s| [*s, -*s]).map(|s| 0.5 * EPSILON * RECORDS * s + gumbel(&mut random));
        let best = scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at);
        let sign = if best % 2 == 0 { -1.0 } else { 1.0 };
        of_vertex += sign * slope[best / 2] - least;
    }
    let mean = |sum: f64| sum / DRAWS as f64;
    Ok(Rivals { noisy_sum: mean(of_sum), vertex: (p == 1.0).then(|| mean(of_vertex)) })
}
