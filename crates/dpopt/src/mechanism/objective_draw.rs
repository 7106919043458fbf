//! One draw from e^(−β(Σφ + (λ/2)‖x − centre‖²)) of any objective that is known to be convex and Lipschitz (spec 03 §3;
//! docs/proofs/gibbs-gdp.md, docs/proofs/proximal-sampler.md).
//!
//! The event follows from the objective's facts, and is worth what they are worth: nobody can check that a closure is convex and
//! Lipschitz for *every* record that a neighbour could hold. Whoever vouches for it gets the same chain and the same accounting,
//! research grade. A tangent found above the potential proves the word false: the draw is thrown away and nothing is released but
//! that (which itself depends on the data). Not finding one proves nothing.

use super::door::{Mechanism, sealed};
use crate::objective::{Objective, Warrant};
use crate::records::RecordSet;
use crate::refused::CuratorError;
use crate::sampler::potential::SumPotential;
use crate::sampler::{Chain, Contraction, Convexity, Domain, Oracle};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_privacy::{Event, Relation, gibbs};
use std::convert::Infallible;
use std::marker::PhantomData;

/// A draw from the Gibbs measure of an objective over n records, by the proximal sampler from its centre.
///
/// ```
/// use dpopt::mechanism::{Curator, Mechanism, ObjectiveDraw, SamplerError};
/// use dpopt::noise::NoiseSource;
/// use dpopt::objective::{Closures, Facts, Warrant};
/// use dpopt::privacy::{Budget, Neighbours, Relation, certify};
/// use dpopt::Sensitive;
///
/// // the median of numbers: Σ|x − a|, convex and 1-Lipschitz
/// let distances = Closures::new(
///     1,
///     |x: &[f64], a: &f64| (x[0] - a).abs(),
///     |x: &[f64], a: &f64, g: &mut [f64]| g[0] = (x[0] - a).signum(),
/// )
/// .with_facts(Facts::convex_and_lipschitz_on_my_word(1.0));
/// let records = Sensitive::new(vec![0.2, 0.3, 0.9]);
///
/// let (scale, regularization, total_variation) = (0.1, 2.0, 1e-9);
/// let draw = ObjectiveDraw::new(distances, 3, Relation::ZeroOut)?.tempered(scale, regularization, vec![0.0], total_variation);
/// assert_eq!(draw.warrant(), Warrant::Vouched); // research grade
/// // s = βG/√(βλ) = 0.1/√0.2
/// let event = SamplerError::proved(total_variation).on(draw.event());
/// let certificate = certify(&event, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?))?;
/// let median = Curator::new(&certificate, NoiseSource::secure()?).release(&draw, &records)?;
/// assert_eq!(median.get().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObjectiveDraw<O, R> {
    objective: O,
    /// n.
    records: u64,
    relation: Relation,
    /// β.
    scale: f64,
    /// λ of the sum objective.
    regularization: f64,
    centre: Vec<f64>,
    /// Wanted, in exact arithmetic.
    total_variation: f64,
    reads: PhantomData<fn(&R)>,
}

/// A gap below this is a rounding of a caller's arithmetic, not a proof of concavity.
const SLACK: f64 = 1e-6;

/// The numbers of a chain that ends as near its law as wanted.
struct Certified {
    contraction: Contraction,
    steps: u64,
}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> ObjectiveDraw<O, R> {
    /// Over a public number of records, at β = 1 with λ = 1 around 0, within 1e-9 of the exact law.
    ///
    /// # Errors
    /// Under add-or-remove, where the number of records, which the chain's length follows from, is not public.
    pub fn new(objective: O, records: u64, relation: Relation) -> Result<Self, CuratorError> {
        if relation == Relation::AddOrRemove {
            return Err(CuratorError::Unusable(
                "the length of a chain follows from the number of records, which add-or-remove protects; take zero-out or replace-one"
                    .into(),
            ));
        }
        let centre = vec![0.0; objective.dimension()];
        let reads = PhantomData;
        Ok(Self { objective, records, relation, scale: 1.0, regularization: 1.0, centre, total_variation: 1e-9, reads })
    }

    /// With β = `scale`, λ = `regularization` of the sum objective around a public `centre`, within `total_variation` of the exact
    /// law.
    pub fn tempered(self, scale: f64, regularization: f64, centre: Vec<f64>, total_variation: f64) -> Self {
        Self { scale, regularization, centre, total_variation, ..self }
    }

    /// What the guarantee rests on: the weaker of the warrants of convexity and of the Lipschitz bound, or a caller's word where
    /// one of them is not known (there is no event then).
    pub fn warrant(&self) -> Warrant {
        let facts = self.objective.facts();
        match (facts.convex, facts.lipschitz) {
            (Some(convex), Some(lipschitz)) => convex.and(lipschitz.warrant),
            _ => Warrant::Vouched,
        }
    }

    /// G, infinite without convexity: there is no theorem then.
    fn lipschitz(&self) -> f64 {
        let facts = self.objective.facts();
        facts.lipschitz.filter(|_| facts.convex.is_some()).map_or(f64::INFINITY, |l| l.value)
    }

    fn certified(&self) -> Option<Certified> {
        let m = self.scale * self.regularization;
        let pull = self.scale * self.records as f64 * self.lipschitz();
        if !(m > 0.0 && m.is_finite() && pull > 0.0 && pull.is_finite()) {
            return None;
        }
        let d = self.centre.len();
        let eta = (1.0 / (pull * pull * d as f64)).min(1.0 / m);
        let contraction = Contraction {
            step_std: eta.sqrt(),
            strong_convexity: m,
            start_distance: pull / m,
            dimension: d,
            oscillation: 1e-9,
        };
        contraction.steps(self.total_variation).map(|steps| Certified { contraction, steps })
    }
}

impl<R, O> sealed::Sealed for ObjectiveDraw<O, R> {}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> Mechanism for ObjectiveDraw<O, R> {
    type Input = R;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        let difference = gibbs::difference_lipschitz(self.scale * self.lipschitz(), self.relation);
        gibbs::event(difference, self.scale * self.regularization)
    }

    fn sampler_error(&self, _input: &R) -> f64 {
        self.certified().map_or(f64::INFINITY, |chain| chain.contraction.total_variation(chain.steps))
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "draw from an objective's Gibbs measure"
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        if input.len() as u64 != self.records || self.centre.len() != self.objective.dimension() {
            return Err(CuratorError::Shape);
        }
        match self.certified() {
            Some(_) => Ok(()),
            None => Err(CuratorError::Unusable(
                "no certificate: a chain needs a convex and Lipschitz objective, a positive regularization and a finite scale".into(),
            )),
        }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let Some(Certified { contraction, steps }) = self.certified() else { return Err(CuratorError::Shape) };
        let (d, m) = (self.centre.len(), contraction.strong_convexity);
        let radius = 2.0 * (contraction.start_distance + (d as f64 / m).sqrt() + (200.0 / m).sqrt());
        let chain = Chain {
            steps,
            step_std: contraction.step_std,
            convexity: m,
            centre: vec![0.0; d],
            domain: Domain::Whole { radius },
            oracle: Oracle::Convexity(Convexity { slack: SLACK, ..Convexity::default() }),
            grid: 2f64.powi(radius.log2().ceil() as i32 - 50),
        };
        let potential =
            SumPotential { objective: &self.objective, records: input, scale: self.scale, origin: &self.centre };
        let (last, tally) = chain.run(&potential, &vec![0.0; d], &mut noise.stream(Purpose::Sampling, 0));
        if tally.not_convex {
            return Err(CuratorError::Unusable(
                "the objective is not convex: the guarantee would not hold, so the draw was thrown away".into(),
            ));
        }
        // out of proposals: the public centre
        let Ok(last) = last else { return Ok(self.centre.clone()) };
        Ok(last.iter().zip(&self.centre).map(|(v, c)| v + c).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sensitive;
    use crate::loss::Loss;
    use crate::mechanism::Curator;
    use crate::objective::{Closures, Facts, Linear};
    use crate::records::Examples;
    use crate::sampler_error::SamplerError;

    const WORD: Facts = Facts { lipschitz: None, smoothness: None, convex: Some(Warrant::Vouched) };

    fn vouched(lipschitz: f64) -> Facts {
        Facts::convex_and_lipschitz_on_my_word(lipschitz)
    }

    type Numbers = Vec<f64>;

    #[test]
    fn a_wave_is_not_convex_and_is_not_released() {
        let wave =
            Closures::new(1, |x: &[f64], _: &f64| x[0].cos(), |x: &[f64], _: &f64, g: &mut [f64]| g[0] = -x[0].sin())
                .with_facts(vouched(1.0));
        let draw =
            ObjectiveDraw::<_, Numbers>::new(wave, 1, Relation::ZeroOut).unwrap().tempered(30.0, 1.0, vec![0.1], 1e-6);
        let mut curator = Curator::for_event(&SamplerError::proved(1e-6).on(draw.event()), NoiseSource::insecure(1));
        let drawn = curator.release(&draw, &Sensitive::new(vec![0.0])).map(drop);
        assert!(matches!(&drawn, Err(CuratorError::Unusable(why)) if why.contains("not convex")), "{drawn:?}");
    }

    #[test]
    fn the_event_follows_from_the_facts_and_is_worth_what_they_are_worth() {
        let line = |facts| {
            let absolute = |x: &[f64], a: &f64| (x[0] - a).abs();
            Closures::new(2, absolute, |x: &[f64], a: &f64, g: &mut [f64]| g[0] = (x[0] - a).signum()).with_facts(facts)
        };
        let over = |facts, relation| ObjectiveDraw::<_, Numbers>::new(line(facts), 3, relation);
        let draw = over(vouched(1.0), Relation::ReplaceOne).unwrap().tempered(0.2, 5.0, vec![1.0, 2.0], 1e-6);
        assert_eq!(draw.event(), Event::Gdp { mu: gibbs::mu(2.0 * 0.2, 1.0) });
        assert_eq!(draw.warrant(), Warrant::Vouched);
        let records = Sensitive::new(vec![0.0, 0.5, 1.0]);
        let event = SamplerError::proved(1e-6).on(draw.event());
        assert!(Curator::for_event(&event, NoiseSource::insecure(2)).release(&draw, &records).is_ok());
        // nothing is known, or too little: no event, and no draw
        for facts in [Facts::UNKNOWN, WORD] {
            let draw = over(facts, Relation::ZeroOut).unwrap();
            assert_eq!(draw.event(), Event::NonPrivate);
            assert!(Curator::for_event(&Event::NonPrivate, NoiseSource::insecure(2)).release(&draw, &records).is_err());
        }
        // no certificate, other shapes
        let flat = over(vouched(1.0), Relation::ZeroOut).unwrap().tempered(1.0, 0.0, vec![0.0; 2], 1e-6);
        let short = over(vouched(1.0), Relation::ZeroOut).unwrap().tempered(1.0, 1.0, vec![0.0], 1e-6);
        for refused in [flat, short] {
            let mut curator = Curator::for_event(&refused.event(), NoiseSource::insecure(2));
            assert!(curator.release(&refused, &records).is_err());
        }
        assert!(over(vouched(1.0), Relation::AddOrRemove).is_err());
        // a linear model vouches for nothing: its facts are proved
        let linear = Linear::new(Loss::Absolute, 2, 1.0);
        assert_eq!(ObjectiveDraw::<_, Examples>::new(linear, 3, Relation::ZeroOut).unwrap().warrant(), Warrant::Proved);
    }
}
