//! Where the gradients of a run come from: sums that have been released, and paid for, one per call.
//!
//! [`GradientSums`] says what is summed and how often, and derives from that what it costs; [`Oracle`] has the noise that a budget asks for; [`NoisySum`] is
//! the oracle of one objective, which releases a sum at each call.

use crate::RunError;
use crate::plan::{Assumption, NotApplicable, Problem, Summary};
use crate::planning::{can_sum, clipped, sampled_secretly};
use dpopt_mechanism::{
    Clipped, Curator, CuratorError, Gaussian, Released, SamplerError, SecondMoment, Sensitive, symmetric_matrix,
};
use dpopt_noise::Grid;
use dpopt_objective::objective::Objective;
use dpopt_objective::records::{RecordSet, Records};
use dpopt_objective::solver::Spectrum;
use dpopt_privacy::{Budget, Certificate, Event, Terms, calibrate};
use serde::Serialize;

/// Sums of clipped gradients with Gaussian noise: over how many records, of how many coordinates, how often. What it costs follows from that, so no
/// caller writes an event by hand.
///
/// Robust regression through the origin, Σ r²/(1 + r²) with r = y − x·t, which is not convex:
///
/// ```
/// use dpopt_mechanism::{Curator, Sensitive};
/// use dpopt_noise::NoiseSource;
/// use dpopt_objective::objective::Closures;
/// use dpopt_optimize::oracle::GradientSums;
/// use dpopt_privacy::{Budget, Neighbours, Relation};
///
/// let loss = Closures::new(
///     1,
///     |x: &[f64], &(t, y): &(f64, f64)| { let r = y - x[0] * t; r * r / (1.0 + r * r) },
///     |x: &[f64], &(t, y): &(f64, f64), g: &mut [f64]| { let r = y - x[0] * t; g[0] = -2.0 * r * t / (1.0 + r * r).powi(2) },
/// );
/// let records: Vec<(f64, f64)> = (0..20_000).map(|i| { let t = f64::from(i % 200) / 200.0; (t, 3.0 * t) }).collect();
///
/// let sums = GradientSums::new(20_000, 1, 1.0).steps(50);
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?);
/// let (oracle, certificate) = sums.calibrate(terms)?;
/// let (gradients, records) = (oracle.of(loss)?, Sensitive::new(records));
/// let mut curator = Curator::new(&certificate, NoiseSource::secure()?);
/// let mut x = vec![0.0];
/// for _ in 0..50 {
///     x[0] -= 2.0 * oracle.per_record() * gradients.release(&records, &mut curator, &x)?.get()[0];
/// }
/// assert!((x[0] - 3.0).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientSums {
    records: u64,
    dimension: usize,
    clip_norm: f64,
    steps: u64,
    /// q; `None` for all records.
    sampling: Option<f64>,
}

impl GradientSums {
    /// One sum over `records` gradients of `dimension` coordinates, each clipped to l2 norm `clip_norm`. Under add-or-remove `records` is a public guess.
    pub fn new(records: u64, dimension: usize, clip_norm: f64) -> Self {
        Self { records, dimension, clip_norm, steps: 1, sampling: None }
    }

    /// One sum over the records of `problem`, of as many coordinates as its model has weights.
    pub fn of(problem: &Problem, clip_norm: f64) -> Self {
        Self::new(problem.rows, problem.weights(), clip_norm)
    }

    /// These sums, asked `steps` times.
    #[must_use]
    pub fn steps(self, steps: u64) -> Self {
        Self { steps, ..self }
    }

    /// Each over a secret Poisson batch of its own, which every record enters with probability `sampling_probability`.
    #[must_use]
    pub fn sampled(self, sampling_probability: f64) -> Self {
        Self { sampling: Some(sampling_probability), ..self }
    }

    /// How far all its samplers together are from their exact laws, in total variation.
    pub fn sampler_error(&self) -> SamplerError {
        let rounded = SamplerError::rounded(self.steps as f64 * self.dimension as f64);
        match self.sampling {
            Some(_) => SamplerError::subset(self.records) * self.steps as f64 + rounded,
            None => rounded,
        }
    }

    /// All that is released with noise of standard deviation `noise_multiplier` times the clip norm, as exact samplers would draw it.
    pub fn exact_event(&self, noise_multiplier: f64) -> Event {
        let sum = Event::gaussian(noise_multiplier);
        let sum = self.sampling.map_or(sum.clone(), |q| sum.poisson_sampled(q));
        sum.self_composed(self.steps)
    }

    /// All that is released with noise of standard deviation `noise_multiplier` times the clip norm: what a plan certifies.
    pub fn event(&self, noise_multiplier: f64) -> Event {
        self.sampler_error().on(self.exact_event(noise_multiplier))
    }

    /// The oracle with this noise, on the grid that suits both.
    ///
    /// # Errors
    /// If the clip or the noise cannot be made on a grid, or a number is out of range.
    pub fn with_noise(&self, noise_multiplier: f64) -> Result<Oracle, NotApplicable> {
        let noise_std = noise_multiplier * self.clip_norm;
        let grid = Grid::for_sum(self.clip_norm, noise_std, self.records, self.dimension);
        can_sum(self.clip_norm, noise_std, grid)?;
        Ok(Oracle { sums: *self, noise_multiplier, grid })
    }

    /// The least noise with which all of it stays within `terms`, and the certificate that opens a curator.
    ///
    /// # Errors
    /// If no noise is enough, or as [`with_noise`](Self::with_noise).
    pub fn calibrate(&self, terms: Terms) -> Result<(Oracle, Certificate), NotApplicable> {
        let (noise_multiplier, certificate) = calibrate::noise(|z| self.event(z), terms)?;
        Ok((self.with_noise(noise_multiplier)?, certificate))
    }

    /// As [`calibrate`](Self::calibrate), for a method that releases nothing else; with what `problem` releases before the method and after it.
    ///
    /// # Errors
    /// As [`calibrate`](Self::calibrate).
    pub fn plan(&self, problem: &Problem, budget: Budget) -> Result<(Oracle, Certificate), NotApplicable> {
        let (noise_multiplier, certificate) = crate::planning::noise(problem, budget, |z| self.event(z))?;
        Ok((self.with_noise(noise_multiplier)?, certificate))
    }
}

/// [`GradientSums`] with their noise and their grid: all that a run has to know of how its gradients are released.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Numbers")]
pub struct Oracle {
    sums: GradientSums,
    noise_multiplier: f64,
    grid: Grid,
}

/// An oracle as reports show it.
#[derive(Serialize)]
struct Numbers {
    steps: u64,
    clip_norm: f64,
    noise_multiplier: f64,
    noise_std: f64,
    sampling_probability: f64,
    grid_exponent: i32,
}

impl From<Oracle> for Numbers {
    fn from(oracle: Oracle) -> Self {
        Self {
            steps: oracle.steps(),
            clip_norm: oracle.clip_norm(),
            noise_multiplier: oracle.noise_multiplier(),
            noise_std: oracle.noise_std(),
            sampling_probability: oracle.sampling_probability(),
            grid_exponent: oracle.grid().exponent(),
        }
    }
}

impl Oracle {
    /// z: the noise's standard deviation over the clip norm.
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// C: the l2 norm that each gradient is clipped to.
    pub fn clip_norm(&self) -> f64 {
        self.sums.clip_norm
    }

    /// Standard deviation of the noise of a sum, per coordinate.
    pub fn noise_std(&self) -> f64 {
        self.noise_multiplier * self.sums.clip_norm
    }

    /// What a noisy sum is a multiple of.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Coordinates of a sum.
    pub fn dimension(&self) -> usize {
        self.sums.dimension
    }

    /// How many sums it releases.
    pub fn steps(&self) -> u64 {
        self.sums.steps
    }

    /// The probability with which a record enters a batch; 1 for full batches.
    pub fn sampling_probability(&self) -> f64 {
        self.sums.sampling.unwrap_or(1.0)
    }

    /// 1/(qn): makes a mean of a sum, by the expected number of its records and never by how many were drawn.
    pub fn per_record(&self) -> f64 {
        1.0 / (self.sampling_probability() * self.sums.records as f64)
    }

    /// Gradients of one record that all sums take, on average.
    pub fn gradients(&self) -> f64 {
        self.sampling_probability() * self.sums.records as f64 * self.sums.steps as f64
    }

    /// All that it releases.
    pub fn event(&self) -> Event {
        self.sums.event(self.noise_multiplier)
    }

    /// What its guarantee rests on.
    pub fn assumptions(&self) -> Vec<Assumption> {
        [clipped()].into_iter().chain(self.sums.sampling.map(|_| sampled_secretly())).collect()
    }

    /// What `explain` shows of a method that releases nothing else. The weights' noise is open, and the predicted risk infinite: the last of all methods.
    pub fn summary(&self, method: &'static str, problem: &Problem, certificate: Certificate) -> Summary {
        Summary {
            method,
            loss: problem.loss,
            noise_multiplier: self.noise_multiplier,
            steps: self.steps(),
            gradients: self.gradients(),
            weight_noise: None,
            predicted_excess_risk: f64::INFINITY,
            certificate,
            assumptions: self.assumptions(),
            warnings: Vec::new(),
        }
    }

    /// The noise of each sum; `label` is what the list of releases calls it.
    pub fn noise(&self, label: &'static str) -> Gaussian {
        Gaussian::new(self.noise_multiplier, self.sums.clip_norm, self.grid, self.sums.dimension, label)
    }

    /// The oracle of one objective, whose gradients are called a `gradient sum` in the list of releases.
    ///
    /// # Errors
    /// If the clip norm cannot be made on the grid.
    pub fn of<O>(&self, objective: O) -> Result<NoisySum<O>, CuratorError> {
        Ok(NoisySum { sampling: self.sums.sampling, ..NoisySum::new(objective, self.noise("gradient sum"))? })
    }
}
/// Σ clip(∇φ_i(x)) + N(0, (z·C)²) over all records, or over a secret Poisson batch of them.
pub struct NoisySum<O> {
    clipped: Clipped<O>,
    noise: Gaussian,
    /// q; `None` for all records.
    sampling: Option<f64>,
}

impl<O> NoisySum<O> {
    /// Over all records, each gradient clipped to the norm that the noise is made for.
    pub fn new(objective: O, noise: Gaussian) -> Result<Self, CuratorError> {
        let clipped = Clipped::new(objective, noise.clip_norm(), noise.grid())?;
        Ok(Self { clipped, noise, sampling: None })
    }

    /// Over Poisson batches, one per call.
    pub fn sampled(self, q: f64) -> Self {
        Self { sampling: Some(q), ..self }
    }

    /// A noisy sum with this noise and sampling for another objective.
    pub fn with<P>(&self, objective: P) -> Result<NoisySum<P>, CuratorError> {
        Ok(NoisySum { sampling: self.sampling, ..NoisySum::new(objective, self.noise.clone())? })
    }

    /// The objective whose gradients are clipped and summed.
    pub fn objective(&self) -> &O {
        self.clipped.objective()
    }

    /// The noisy sum at `x`.
    pub fn release<R: RecordSet>(
        &self,
        records: &Sensitive<R>,
        curator: &mut Curator,
        x: &[f64],
    ) -> Result<Released<Vec<f64>>, RunError>
    where
        O: Objective<R>,
    {
        let batch = self.sampling.map(|q| curator.poisson_sample_for_sum(records, q)).transpose()?;
        let sum = self.clipped.sum_of(records, batch, x).map_err(CuratorError::unreadable)?;
        Ok(curator.release(&self.noise, &sum)?)
    }
}

/// A noisy second moment of the rows, released once.
pub struct NoisyMoment {
    /// R: bound on the l2 norm of a row.
    pub row_norm: f64,
    /// What each record's outer product is multiplied by.
    pub factor: f64,
    /// z: noise standard deviation of the sum, over its sensitivity factor·R².
    pub noise_multiplier: f64,
    /// The grid of the sum.
    pub grid: Grid,
}

impl NoisyMoment {
    /// Releases the spectrum of the second moment, for rows of d features.
    pub fn release<R: Records>(
        &self,
        rows: &Sensitive<R>,
        curator: &mut Curator,
        d: usize,
    ) -> Result<Spectrum, RunError> {
        let moment = SecondMoment::new(self.factor, self.row_norm, self.grid)?;
        let bound = self.factor * self.row_norm * self.row_norm;
        let coordinates = SecondMoment::coordinates(d);
        let noise = Gaussian::new(self.noise_multiplier, bound, self.grid, coordinates, "second moment");
        let matrix =
            symmetric_matrix(d, curator.release(&noise, &moment.sum(rows).map_err(CuratorError::unreadable)?)?.get());
        Spectrum::of(&matrix, d).ok_or(RunError::Numerical("the released matrix has no spectrum"))
    }
}
