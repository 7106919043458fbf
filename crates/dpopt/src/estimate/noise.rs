//! The least noise of what is released outside of a method: one noisy sum, the sums of a training loop outside of the library.

use dpopt_mechanism::SamplerError;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::{Certificate, Event, Terms, calibrate};
use serde::Deserialize;

/// Total variation of one rounded Laplace sample from the exact law.
const LAPLACE_ERROR: f64 = 6.681911775230489e-52; // 2^-170

/// Which noise a sum gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseLaw {
    /// Gaussian noise, for rows bounded in l2 norm.
    Gaussian,
    /// Laplace noise, for rows bounded in l1 norm.
    Laplace,
}

impl NoiseLaw {
    /// One noisy sum of so many coordinates, as the samplers draw it.
    fn event(self, noise_multiplier: f64, coordinates: u64) -> Event {
        match self {
            Self::Gaussian => SamplerError::rounded(coordinates as f64).on(Event::gaussian(noise_multiplier)),
            Self::Laplace => Event::Approximate {
                total_variation: coordinates as f64 * LAPLACE_ERROR,
                event: Box::new(Event::Laplace { noise_multiplier }),
            },
        }
    }

    /// The least noise multiplier (standard deviation or scale over the bound on a row) for one sum of `coordinates` coordinates
    /// within `terms`, and its certificate.
    ///
    /// # Errors
    /// If no noise is enough.
    pub fn least(self, coordinates: u64, terms: Terms) -> Result<(f64, Certificate), CertifyError> {
        calibrate::noise(|z| self.event(z, coordinates), terms)
    }
}

/// A training loop outside of the library: Gaussian noise on the sum of clipped vectors over a Poisson batch, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSums {
    /// Number of records, public.
    pub records: u64,
    /// Probability of a record to enter a batch.
    pub sampling_probability: f64,
    /// Sums that may be asked for.
    pub steps: u64,
    /// Entries of a vector.
    pub dimension: u64,
}

impl BatchSums {
    /// What all steps release with this noise multiplier. Also for probability 1 a batch is the Poisson sample that it is.
    pub fn event(&self, noise_multiplier: f64) -> Event {
        let step = Event::gaussian(noise_multiplier).poisson_sampled(self.sampling_probability);
        let drawn = SamplerError::rounded(self.dimension as f64) + SamplerError::subset(self.records);
        (drawn * self.steps as f64).on(step.self_composed(self.steps))
    }

    /// The least noise multiplier within `terms`, and its certificate.
    ///
    /// # Errors
    /// If no noise is enough.
    pub fn least(&self, terms: Terms) -> Result<(f64, Certificate), CertifyError> {
        calibrate::noise(|z| self.event(z), terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::{Budget, Neighbours, Relation, certify};

    #[test]
    fn the_least_noise_is_certified_and_less_is_not() {
        for relation in [Relation::ZeroOut, Relation::ReplaceOne] {
            let terms = Neighbours::of_records(relation).within(Budget::new(1.0, 1e-6).unwrap());
            let outer_loop = BatchSums { records: 1000, sampling_probability: 0.1, steps: 50, dimension: 7 };
            let events: [(&dyn Fn(f64) -> Event, f64); 3] = [
                (&|z| NoiseLaw::Gaussian.event(z, 3), NoiseLaw::Gaussian.least(3, terms).unwrap().0),
                (&|z| NoiseLaw::Laplace.event(z, 3), NoiseLaw::Laplace.least(3, terms).unwrap().0),
                (&|z| outer_loop.event(z), outer_loop.least(terms).unwrap().0),
            ];
            for (event, least) in events {
                assert!(certify(&event(least), terms).is_ok());
                assert!(certify(&event(least * 0.999), terms).is_err());
            }
        }
    }
}
