//! The proximal (alternating) sampler (Liu 2024, Algorithm 13): y ← x + √η·ζ, x ← restricted Gaussian oracle at
//! y, T times. How far the last x is from its target says [`super::Contraction`].
//!
//! Covers: thesis algorithm 13 (certified)

use super::domain::Domain;
use super::oracle::{Exhausted, Oracle, Proximal, Tally};
use super::potential::Potential;
use super::wide::Wide;
use dpopt_noise::Stream;
use dpopt_process::stop;

/// A chain with all that is fixed before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Number T of rounds.
    pub steps: u64,
    /// √η: standard deviation of the forward step.
    pub step_std: f64,
    /// m: modulus of the explicit quadratic (m/2)‖x − centre‖².
    pub convexity: f64,
    /// Its centre x_c.
    pub centre: Vec<f64>,
    /// The set K on which the target lives.
    pub domain: Domain,
    /// How restricted Gaussians are drawn.
    pub oracle: Oracle,
    /// The potential is evaluated at multiples of this power of two, and the answer is one.
    pub grid: f64,
}

impl Chain {
    /// x_T for e^(−potential − (m/2)‖x − centre‖²) on the domain, from `start`, rounded to the grid.
    pub fn run<P: Potential>(
        &self,
        potential: &P,
        start: &[f64],
        stream: &mut Stream,
    ) -> (Result<Vec<f64>, Exhausted>, Tally) {
        let mut tally = Tally::default();
        let mut x: Vec<Wide> = start.iter().map(|&x| Wide::from(x)).collect();
        let mut y = x.clone();
        let eta = Wide::from(self.step_std).times(self.step_std);
        let prox = Proximal {
            potential,
            convexity: self.convexity,
            centre: &self.centre,
            domain: &self.domain,
            inverse_eta: eta.inverse(),
            grid: self.grid,
        };
        let constant_time = matches!(&self.oracle, Oracle::Convexity(c) if c.constant_time);
        let mut exhausted = false;
        for _ in 0..self.steps {
            stop::point();
            for (y, x) in y.iter_mut().zip(&x) {
                *y = x.plus(Wide::from(stream.wide_standard_normal()).times(self.step_std));
            }
            if prox.draw(&self.oracle, &y, &mut x, stream, &mut tally).is_err() {
                exhausted = true;
                if !constant_time {
                    break;
                }
            }
        }
        let answer = x.iter().map(|x| x.on_grid(self.grid)).collect();
        (if exhausted { Err(Exhausted) } else { Ok(answer) }, tally)
    }
}
