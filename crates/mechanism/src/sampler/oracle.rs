//! Restricted Gaussian oracles: draws from e^(−F(x) − m‖x − x_c‖²/2 − ‖x − y‖²/(2η)) on a domain
//! (docs/proofs/proximal-sampler.md).

mod convexity;
pub mod ratio;
pub mod series;
#[cfg(test)]
mod tests;

pub use convexity::Convexity;

use super::domain::Domain;
use super::potential::Potential;
use super::wide::Wide;
use dpopt_noise::Stream;

/// Which oracle a chain uses.
#[derive(Clone, Debug, PartialEq)]
pub enum Oracle {
    /// A: a few terms of the data per proposal, approximate.
    Series(series::Products),
    /// B: values on all data, approximate.
    Ratio,
    /// C: exact by convexity. The default.
    Convexity(Convexity),
}

/// An oracle used up its proposals. Whether that happens depends on the data; callers fall back to a public point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// What a chain cost. Depends on the data: for tests and tuning on public data only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passes over all terms for a value.
    pub values: u64,
    /// Passes for a value and a gradient.
    pub gradients: u64,
    /// Evaluations of single terms (the truncated series).
    pub terms: u64,
    /// A tangent was found above the potential: it is not convex.
    pub not_convex: bool,
}

/// The proximal problem of one chain.
pub(crate) struct Proximal<'a, P: Potential> {
    pub(crate) potential: &'a P,
    /// m: modulus of the explicit quadratic.
    pub(crate) convexity: f64,
    /// The centre x_c of the explicit quadratic.
    pub(crate) centre: &'a [f64],
    pub(crate) domain: &'a Domain,
    /// 1/η: the proximal term is ‖x − y‖²/(2η).
    pub(crate) inverse_eta: Wide,
    /// Points at which the potential is evaluated lie on this grid.
    pub(crate) grid: f64,
}

impl<P: Potential> Proximal<'_, P> {
    pub(crate) fn draw(
        &self,
        oracle: &Oracle,
        y: &[Wide],
        x: &mut [Wide],
        stream: &mut Stream,
        tally: &mut Tally,
    ) -> Result<(), Exhausted> {
        match oracle {
            Oracle::Series(products) => series::draw(*products, self, y, x, stream, tally),
            Oracle::Ratio => ratio::draw(self, y, x, stream, tally),
            Oracle::Convexity(oracle) => oracle.draw(self, y, x, stream, tally),
        }
    }

    /// Mean and standard deviation of e^(−m‖x − x_c‖²/2 − ‖x − y‖²/(2η)).
    fn free_gaussian(&self, y: &[Wide]) -> (Vec<Wide>, Wide) {
        let variance = Wide::from(self.convexity).plus(self.inverse_eta).inverse();
        let centre = y
            .iter()
            .zip(self.centre)
            .map(|(y, c)| Wide::from(self.convexity).times(*c).plus(self.inverse_eta.times(*y)).times(variance))
            .collect();
        (centre, variance.root())
    }
}
