//! A caller's own convex loss: a draw whose guarantee rests on the caller's word, research grade.
//!
//! The library can't check that a black-box loss is convex and Lipschitz for *every* record that a neighbour could hold.
//! Whoever vouches for it gets the same chain and the same accounting. A tangent found above the potential proves the word
//! false: the draw is thrown away and nothing is released but that (which itself depends on the data). Not finding one
//! proves nothing.

use super::{Chain, Contraction, Convexity, Domain, Oracle, Potential};
use crate::objective::Warrant;
use crate::plan::Grade;
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_privacy::{Event, Relation, gibbs};
use thiserror::Error;

/// A potential β·Σφ_i with what the caller vouches for.
#[derive(Clone, Debug)]
pub struct Vouched<P> {
    potential: P,
    lipschitz: f64,
    relation: Relation,
}

/// A draw with the claim that holds if the caller's word does.
#[derive(Clone, Debug, PartialEq)]
pub struct VouchedDraw {
    /// The point, on the grid.
    pub point: Vec<f64>,
    /// What it cost, under the relation vouched for.
    pub event: Event,
    /// Always [`Grade::Research`].
    pub grade: Grade,
}

/// Why there is no draw.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotDrawn {
    /// A tangent lies above the potential.
    #[error("the loss is not convex: the guarantee would not hold, so the draw was thrown away")]
    NotConvex,
    /// m or the distance is not usable.
    #[error("no certificate: the quadratic needs a positive modulus, and the start a finite distance to the minimiser")]
    NoCertificate,
    /// The centre does not have the potential's dimension.
    #[error("the centre must have as many entries as the potential has dimensions")]
    Shape,
}

impl<P: Potential> Vouched<P> {
    /// **The caller vouches**, for every record that any neighbour could hold: each φ_i is convex, and G-Lipschitz with
    /// `lipschitz` = G in l2. If that is false, the draw has no privacy guarantee.
    pub fn convex_and_lipschitz_on_my_word(potential: P, lipschitz: f64, relation: Relation) -> Self {
        Self { potential, lipschitz, relation }
    }

    /// A draw from e^(−β(Σφ + (λ/2)‖x − centre‖²)) on R^d within `total_variation` in exact arithmetic, from the centre.
    ///
    /// ```
    /// use dpopt::sampler::{NotDrawn, Potential, Vouched};
    /// use dpopt::{noise::NoiseSource, privacy::{Event, Relation}};
    ///
    /// struct Distances(Vec<f64>);
    /// impl Potential for Distances {
    ///     fn dimension(&self) -> usize { 1 }
    ///     fn scale(&self) -> f64 { 0.1 }
    ///     fn terms(&self) -> usize { self.0.len() }
    ///     fn value(&self, x: &[f64]) -> f64 { (0..self.terms()).map(|i| self.term(i, x)).sum() }
    ///     fn value_and_subgradient(&self, x: &[f64], g: &mut [f64]) -> f64 {
    ///         g[0] = self.0.iter().map(|a| (x[0] - a).signum()).sum();
    ///         self.value(x)
    ///     }
    ///     fn term(&self, i: usize, x: &[f64]) -> f64 { (x[0] - self.0[i]).abs() }
    /// }
    ///
    /// let mine = Vouched::convex_and_lipschitz_on_my_word(Distances(vec![0.2, 0.3, 0.9]), 1.0, Relation::ZeroOut);
    /// let draw = mine.draw(2.0, &[0.0], 1e-9, &mut NoiseSource::secure()?)?;
    /// // s = β·G/√(βλ) = 0.1/√0.2
    /// assert!(matches!(draw.event, Event::Approximate { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn draw(
        &self,
        regularization: f64,
        centre: &[f64],
        total_variation: f64,
        noise: &mut NoiseSource,
    ) -> Result<VouchedDraw, NotDrawn> {
        let d = self.potential.dimension();
        if centre.len() != d {
            return Err(NotDrawn::Shape);
        }
        let (beta, n) = (self.potential.scale(), self.potential.terms() as f64);
        let m = beta * regularization;
        let lipschitz = beta * n * self.lipschitz;
        if !(m > 0.0 && m.is_finite() && lipschitz.is_finite()) {
            return Err(NotDrawn::NoCertificate);
        }
        let eta = (1.0 / (lipschitz * lipschitz * d as f64)).min(1.0 / m);
        let start_distance = lipschitz / m;
        let contraction =
            Contraction { step_std: eta.sqrt(), strong_convexity: m, start_distance, dimension: d, oscillation: 1e-9 };
        let steps = contraction.steps(total_variation).ok_or(NotDrawn::NoCertificate)?;
        let radius = 2.0 * (start_distance + (d as f64 / m).sqrt() + (200.0 / m).sqrt());
        let chain = Chain {
            steps,
            step_std: eta.sqrt(),
            convexity: m,
            centre: vec![0.0; d],
            domain: Domain::Whole { radius },
            oracle: Oracle::Convexity(Convexity { slack: SLACK, ..Convexity::default() }),
            grid: 2f64.powi(radius.log2().ceil() as i32 - 50),
        };
        let moved = Moved { potential: &self.potential, centre };
        let (last, tally) = chain.run(&moved, &vec![0.0; d], &mut noise.stream(Purpose::Sampling, 0));
        if tally.not_convex {
            return Err(NotDrawn::NotConvex);
        }
        let Ok(last) = last else { return Err(NotDrawn::NoCertificate) };
        let difference = gibbs::difference_lipschitz(beta * self.lipschitz, self.relation);
        Ok(VouchedDraw {
            point: last.iter().zip(centre).map(|(v, c)| v + c).collect(),
            event: gibbs::event(difference, m).approximate(total_variation),
            grade: Grade::resting_on(Warrant::Vouched),
        })
    }
}

/// A gap below this is a rounding of a caller's arithmetic, not a proof of concavity.
const SLACK: f64 = 1e-6;

/// A potential in coordinates around a point.
struct Moved<'a, P> {
    potential: &'a P,
    centre: &'a [f64],
}

impl<P> Moved<'_, P> {
    fn back(&self, v: &[f64]) -> Vec<f64> {
        v.iter().zip(self.centre).map(|(v, c)| v + c).collect()
    }
}

impl<P: Potential> Potential for Moved<'_, P> {
    fn dimension(&self) -> usize {
        self.potential.dimension()
    }
    fn scale(&self) -> f64 {
        self.potential.scale()
    }
    fn terms(&self) -> usize {
        self.potential.terms()
    }
    fn value(&self, v: &[f64]) -> f64 {
        self.potential.value(&self.back(v))
    }
    fn value_and_subgradient(&self, v: &[f64], subgradient: &mut [f64]) -> f64 {
        self.potential.value_and_subgradient(&self.back(v), subgradient)
    }
    fn term(&self, index: usize, v: &[f64]) -> f64 {
        self.potential.term(index, &self.back(v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::laws::Terms;

    #[test]
    fn a_wave_is_not_convex_and_is_not_released() {
        let waves = Terms {
            dimension: 1,
            count: 1,
            scale: 30.0,
            value: |_: usize, x: &[f64]| x[0].cos(),
            add_subgradient: |_: usize, x: &[f64], g: &mut [f64]| g[0] -= x[0].sin(),
        };
        let word = Vouched::convex_and_lipschitz_on_my_word(waves, 1.0, Relation::ZeroOut);
        let drawn = word.draw(1.0, &[0.1], 1e-6, &mut NoiseSource::insecure(1));
        assert_eq!(drawn, Err(NotDrawn::NotConvex));
    }

    #[test]
    fn the_claim_is_the_gaussian_one_with_the_samplers_error() {
        let line = Terms {
            dimension: 2,
            count: 3,
            scale: 0.2,
            value: |_: usize, x: &[f64]| x[0].abs(),
            add_subgradient: |_: usize, x: &[f64], g: &mut [f64]| g[0] += x[0].signum(),
        };
        let word = Vouched::convex_and_lipschitz_on_my_word(line, 1.0, Relation::ReplaceOne);
        let drawn = word.draw(5.0, &[1.0, 2.0], 1e-6, &mut NoiseSource::insecure(2)).unwrap();
        assert_eq!(drawn.grade, Grade::Research);
        let mu = gibbs::mu(2.0 * 0.2, 1.0);
        assert_eq!(drawn.event, Event::Gdp { mu }.approximate(1e-6));
        let again = word.draw(0.0, &[1.0, 2.0], 1e-6, &mut NoiseSource::insecure(2));
        assert_eq!(again, Err(NotDrawn::NoCertificate));
        assert_eq!(word.draw(1.0, &[1.0], 1e-6, &mut NoiseSource::insecure(2)), Err(NotDrawn::Shape));
    }
}
