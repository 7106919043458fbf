//! One draw from e^(−β(Σφ + (λ/2)‖x − centre‖²)) of an objective that the caller vouches for (Liu 2024, Theorem 3.1.5;
//! docs/proofs/gibbs-gdp.md, docs/proofs/proximal-sampler.md).
//!
//! The event follows from the objective's facts, the distance of the chain from its law from them and from what is vouched for its
//! arithmetic. Nobody can check that a closure is convex, Lipschitz and computed so exactly for *every* record that a neighbour could
//! hold: the guarantee rests on the caller's word, research grade. A tangent found above the potential proves the word false: the
//! draw is thrown away and nothing is released but that (which itself depends on the data). Not finding one proves nothing.
//! Linear models have a certified draw, the method `exponential-mechanism`.

use crate::sampler::potential::SumPotential;
use crate::sampler::precision::error_per_step;
use crate::sampler::{Chain, Contraction, Convexity, Domain, Oracle};
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism};
use dpopt_noise::{NoiseSource, Purpose};
use dpopt_objective::objective::{Evidence, Objective};
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Event, Relation, gibbs};
use std::convert::Infallible;
use std::marker::PhantomData;

/// A draw from the Gibbs measure of an objective over n records, by the proximal sampler from its centre.
///
/// ```
/// use dpopt_mechanism::{Curator, Mechanism, ObjectiveDraw, SamplerError, Tempered};
/// use dpopt_noise::NoiseSource;
/// use dpopt_objective::objective::{Closures, Facts};
/// use dpopt_privacy::{Budget, Neighbours, Relation, certify};
/// use dpopt_mechanism::Sensitive;
///
/// // the median of numbers in [0, 1]: Σ|x − a|, convex and 1-Lipschitz. Whatever a record holds is moved into the range first; what
/// // is no number contributes nothing
/// let distances = Closures::new(
///     1,
///     |x: &[f64], a: &f64| (x[0] - a.clamp(0.0, 1.0)).abs(),
///     |x: &[f64], a: &f64, g: &mut [f64]| g[0] = (x[0] - a.clamp(0.0, 1.0)).signum(),
/// )
/// .with_facts(Facts::assume_convex_and_lipschitz(1.0));
/// let records = Sensitive::new(vec![0.2, 0.3, 0.9]);
///
/// // points stay within 100 of 0: two roundings of numbers below 128
/// let tempered = Tempered { scale: 0.1, regularization: 2.0, centre: vec![0.0], rounding: 3e-14, total_variation: 1e-9 };
/// let draw = ObjectiveDraw::new(distances, 3, Relation::ZeroOut, tempered)?;
/// // s = βG/√(βλ) = 0.1/√0.2
/// let event = SamplerError::proved(draw.total_variation()).on(draw.event());
/// let certificate = certify(&event, Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?))?;
/// let median = Curator::new(&certificate, NoiseSource::secure()?).release(&draw, &records)?;
/// assert_eq!(median.get().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObjectiveDraw<O, R> {
    objective: O,
    relation: Relation,
    tempered: Tempered,
    certified: Certified,
    reads: PhantomData<fn(&R)>,
}

/// Which Gibbs measure, and how near a draw is to it.
#[derive(Clone, Debug)]
pub struct Tempered {
    /// The inverse temperature β > 0.
    pub scale: f64,
    /// λ > 0 of the sum objective.
    pub regularization: f64,
    /// The public centre of the quadratic.
    pub centre: Vec<f64>,
    /// **The caller vouches**, for every record and every point within [`radius`](ObjectiveDraw::radius) of the centre: the computed
    /// value and each entry of the computed gradient are within this of exact ones, and the value is at most 2^52 times this.
    pub rounding: f64,
    /// Total variation that the draw may be from the exact law, all counted: the chain, roundings, escapes.
    pub total_variation: f64,
}

/// The numbers of a chain that ends as near its law as wanted.
#[derive(Clone, Debug)]
struct Certified {
    records: u64,
    steps: u64,
    step_std: f64,
    convexity: f64,
    radius: f64,
    grid: f64,
    slack: f64,
    total_variation: f64,
}

/// Unit roundoff.
const U: f64 = f64::EPSILON / 2.0;

impl Certified {
    /// The bound of the library's exponential mechanism for losses with corners, from the centre, with what is vouched for
    /// the arithmetic in place of what is proved for a linear model's (docs/proofs/proximal-sampler.md). `None`: no certificate.
    fn new(records: u64, lipschitz: f64, tempered: &Tempered) -> Option<Self> {
        let Tempered { scale, regularization, centre, rounding, total_variation: tau } = tempered;
        let (n, d, tau, beta) = (records as f64, centre.len() as f64, *tau, *scale);
        let m = beta * regularization;
        let pull = beta * n * lipschitz;
        let usable = |x: f64| x > 0.0 && x.is_finite();
        if !(usable(m) && usable(pull) && usable(tau) && usable(d) && *rounding >= 0.0) {
            return None;
        }
        // `max` would pass over a centre that is no number
        let far = centre.iter().map(|c| c.abs()).sum::<f64>();
        if !far.is_finite() {
            return None;
        }
        let start_distance = pull / m;
        // ‖X − x*‖ exceeds √(d/m) + t with probability at most e^(−mt²/2)
        let escape = 0.01 * tau;
        let radius = start_distance + (d / m).sqrt() + (-2.0 * escape.ln() / m).sqrt();
        let finest = radius.log2().ceil() as i32 - 50;
        let wanted = (tau / 32.0 / (pull * d.sqrt())).log2().floor() as i32;
        let grid = 2f64.powi(wanted.max(finest));
        if !(start_distance + radius < grid * 2f64.powi(53)) {
            return None;
        }
        // the nearest grid point, and centre + v rounded once; references lie within 2V
        let moved = |reach: f64| (0.5 * grid * (1.0 + 1e-12) + U * (far + reach)) * d.sqrt();
        // values are at most ρ·2^52, so that their compensated sum is off by (2 + n²u)·nρ more
        let off = |reach: f64| beta * n * rounding * (3.0 + n * n * U) + pull * moved(reach);
        let oscillation = off(radius);
        // a computed tangent over at most 4V: entries of the gradient are off, and their sum over n records is rounded
        let tangent = 4.0 * radius * d.sqrt() * (beta * n * rounding + pull * (n + 64.0) * U);
        let slack = 4.0 * off(2.0 * radius) + tangent;
        let eta = (1.0 / (pull * pull * d)).min(1.0 / m);
        let step_std = eta.sqrt();
        let inverse_precision = 1.0 / (m + 1.0 / eta);
        let drift = inverse_precision * (pull + m * (2.0 * radius + start_distance));
        let mean_gap = 2.0 * pull * ((d * inverse_precision).sqrt() + drift);
        let reach = radius + start_distance + eta * (pull + m * (radius + start_distance));
        let per_step = error_per_step(reach, step_std, grid, d, oscillation, pull, mean_gap + slack);
        // references beyond 2V: the forward step would have to move by V
        let strayed = (-0.5 * (radius / step_std - d.sqrt()).max(0.0).powi(2)).exp();
        let contraction =
            Contraction { step_std, strong_convexity: m, start_distance, dimension: centre.len(), oscillation };
        let steps = contraction.steps(0.5 * tau)?;
        let total_variation = contraction.total_variation(steps)
            + 0.5 * (2.0 * oscillation).exp_m1()
            + escape
            + steps as f64 * (per_step + strayed)
            + d * 2f64.powi(-51); // borders of the answer's cells
        let within = total_variation <= tau && slack <= 0.1;
        within.then_some(Self { records, steps, step_std, convexity: m, radius, grid, slack, total_variation })
    }
}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> ObjectiveDraw<O, R> {
    /// Over a public number of records.
    ///
    /// # Errors
    /// If the centre has not the objective's dimension; if there is no certificate within the wanted distance: the objective is not
    /// known to be convex and Lipschitz, a number is not positive, or the roundings are too large; under add-or-remove, where the
    /// number of records, which the chain's length follows from, is not public.
    pub fn new(objective: O, records: u64, relation: Relation, tempered: Tempered) -> Result<Self, CuratorError> {
        let refused = |why: &'static str| Err(CuratorError::Unusable(why.into()));
        if relation == Relation::AddOrRemove {
            return refused(
                "the length of a chain depends on the number of records, which add-or-remove protects; use zero-out \
                 or replace-one",
            );
        }
        if tempered.centre.len() != objective.dimension() {
            return refused("the centre must have as many entries as the objective has dimensions");
        }
        match Certified::new(records, objective.facts().convex_lipschitz(), &tempered) {
            Some(certified) => Ok(Self { objective, relation, tempered, certified, reads: PhantomData }),
            None => refused(
                "no chain can be certified: it needs a convex and Lipschitz objective, positive finite numbers, and \
                 rounding errors within the given total variation; raise the total variation, or lower the scale",
            ),
        }
    }

    /// Bound on the total variation between the draw and the exact law, which the event's δ must pay for.
    pub fn total_variation(&self) -> f64 {
        self.certified.total_variation
    }

    /// How far from the centre the objective is evaluated, but for a probability that is counted.
    pub fn radius(&self) -> f64 {
        2.0 * self.certified.radius
    }
}

impl<R, O> Sealed for ObjectiveDraw<O, R> {}

impl<R: RecordSet<Error = Infallible>, O: Objective<R>> Mechanism for ObjectiveDraw<O, R> {
    type Input = R;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        let Tempered { scale, regularization, .. } = self.tempered;
        let lipschitz = self.objective.facts().convex_lipschitz();
        gibbs::event(gibbs::difference_lipschitz(scale * lipschitz, self.relation), scale * regularization)
    }

    fn sampler_error(&self, _input: &R) -> f64 {
        self.certified.total_variation
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "draw from an objective's Gibbs measure"
    }

    fn rests_on(&self) -> Evidence {
        Evidence::Assumed
    }

    fn check(&self, input: &R) -> Result<(), CuratorError> {
        let planned = input.len() as u64 == self.certified.records && self.objective.describes(input);
        if planned { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &R, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let Certified { steps, step_std, convexity, radius, grid, slack, .. } = self.certified;
        let (d, centre) = (self.tempered.centre.len(), &self.tempered.centre);
        let chain = Chain {
            steps,
            step_std,
            convexity,
            centre: vec![0.0; d],
            domain: Domain::Whole { radius },
            oracle: Oracle::Convexity(Convexity { slack, ..Convexity::default() }),
            grid,
        };
        let potential =
            SumPotential { objective: &self.objective, records: input, scale: self.tempered.scale, origin: centre };
        let (last, tally) = chain.run(&potential, &vec![0.0; d], &mut noise.stream(Purpose::Sampling, 0));
        if tally.not_convex {
            return Err(CuratorError::Unusable(
                "the draw was discarded, since its guarantee would not hold: the objective is not convex, or less \
                 accurate than stated; check both"
                    .into(),
            ));
        }
        let Ok(last) = last else { return Ok(centre.clone()) };
        Ok(last.iter().zip(centre).map(|(v, c)| v + c).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_kernel::{SamplerError, Sensitive};
    use dpopt_objective::loss::Loss;
    use dpopt_objective::objective::{Closures, Facts, Linear};
    use dpopt_objective::records::{Examples, Rows};

    type Numbers = Vec<f64>;

    fn assumed(lipschitz: f64) -> Facts {
        Facts::assume_convex_and_lipschitz(lipschitz)
    }

    fn tempered(scale: f64, regularization: f64, centre: Vec<f64>) -> Tempered {
        Tempered { scale, regularization, centre, rounding: 1e-14, total_variation: 1e-6 }
    }

    #[test]
    fn a_wave_is_not_convex_and_is_not_released() {
        let wave =
            Closures::new(1, |x: &[f64], _: &f64| x[0].cos(), |x: &[f64], _: &f64, g: &mut [f64]| g[0] = -x[0].sin())
                .with_facts(assumed(1.0));
        let draw: ObjectiveDraw<_, Numbers> =
            ObjectiveDraw::new(wave, 1, Relation::ZeroOut, tempered(30.0, 1.0, vec![0.1])).unwrap();
        let mut curator = uncharged(&SamplerError::proved(1e-6).on(draw.event()), NoiseSource::insecure(1));
        let drawn = curator.release(&draw, &Sensitive::new(vec![0.0])).map(drop);
        assert!(
            matches!(&drawn, Err(CuratorError::Unusable(why)) if why.to_string().contains("not convex")),
            "{drawn:?}"
        );
        assert_eq!(curator.rests_on(), Evidence::Assumed);
    }

    #[test]
    fn the_event_follows_from_the_facts_and_the_distance_is_all_counted() {
        let line = |facts| {
            let absolute = |x: &[f64], a: &f64| (x[0] - a.clamp(-1.0, 1.0)).abs();
            let slope = |x: &[f64], a: &f64, g: &mut [f64]| g[0] = (x[0] - a.clamp(-1.0, 1.0)).signum();
            Closures::new(2, absolute, slope).with_facts(facts)
        };
        let over = |facts, relation, tempered| ObjectiveDraw::<_, Numbers>::new(line(facts), 3, relation, tempered);
        let wanted = tempered(0.2, 5.0, vec![1.0, 2.0]);
        let draw = over(assumed(1.0), Relation::ReplaceOne, wanted.clone()).unwrap();
        assert_eq!(draw.event(), Event::Gdp { mu: gibbs::mu(2.0 * 0.2, 1.0) });
        // half for the chain, the rest for what the machine and the tails do
        let paid = draw.total_variation();
        assert!(paid <= 1e-6 && paid > 0.25e-6, "{paid}");
        let event = SamplerError::proved(paid).on(draw.event());
        // a record that is no number counts for nothing and stops nothing
        for record in [1.0, f64::NAN, f64::INFINITY, 1e300] {
            let records = Sensitive::new(vec![0.0, 0.5, record]);
            assert!(uncharged(&event, NoiseSource::insecure(2)).release(&draw, &records).is_ok(), "{record}");
        }
        assert!(uncharged(&event, NoiseSource::insecure(2)).release(&draw, &Sensitive::new(vec![0.0])).is_err());
        // nothing is known, convex without a bound on the gradient, bounded but not convex; no curvature, another shape, a
        // protected number of records: no draw
        let of = |loss| Linear::new(loss, 2, 1.0).known();
        for facts in [Facts::UNKNOWN, of(Loss::Squared), of(Loss::Sigmoid)] {
            assert!(over(facts, Relation::ZeroOut, wanted.clone()).is_err());
        }
        for bad in [
            Tempered { regularization: 0.0, ..wanted.clone() },
            Tempered { centre: vec![0.0], ..wanted.clone() },
            Tempered { centre: vec![1e30, 0.0], ..wanted.clone() },
            Tempered { rounding: 1e-3, ..wanted.clone() },
            Tempered { rounding: f64::NAN, ..wanted.clone() },
            Tempered { total_variation: 1e-17, ..wanted.clone() },
            Tempered { scale: f64::INFINITY, ..wanted.clone() },
        ] {
            assert!(over(assumed(1.0), Relation::ZeroOut, bad.clone()).is_err(), "{bad:?}");
        }
        assert!(over(assumed(1.0), Relation::AddOrRemove, wanted).is_err());
    }

    #[test]
    fn longer_rows_than_the_facts_are_about_are_refused() {
        let mut rows = Rows::new(1);
        rows.push_clipped(&mut [(0, 1.0)], 1.0);
        let examples = Sensitive::new(Examples { rows, targets: vec![1.0] });
        for (bound, refused) in [(1.0, false), (1e-3, true)] {
            let linear = Linear::new(Loss::Absolute, 1, bound);
            let draw =
                ObjectiveDraw::<_, Examples>::new(linear, 1, Relation::ZeroOut, tempered(1.0, 1.0, vec![0.0])).unwrap();
            let event = SamplerError::proved(1e-6).on(draw.event());
            let drawn = uncharged(&event, NoiseSource::insecure(1)).release(&draw, &examples);
            assert_eq!(drawn.is_err(), refused);
        }
    }
}
