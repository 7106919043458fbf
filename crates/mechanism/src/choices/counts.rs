//! Integer counts with discrete noise, and choices by integer scores (docs/proofs/counts.md).
//!
//! A histogram's sensitivity is enforced: a record counts in one cell. Counts and scores that were made elsewhere come
//! with the sensitivity their maker declares; the guarantee rests on that declaration.

use dpopt_draws::{DiscreteGaussian, ExponentialChoice, NoisyMax};
use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{DiscreteLaplace, NoiseSource, Purpose};
use dpopt_privacy::{Event, Relation};
use dpopt_process::stop::paced;

/// Integers that one record changes by a bounded amount.
pub struct Counts {
    pub(super) values: Vec<i64>,
    sensitivity: f64,
}

impl Counts {
    /// Cells in which each record counts at most once; a record of no cell, or of a cell beyond `cells`, counts nowhere.
    pub fn histogram(records: impl Iterator<Item = Option<usize>>, cells: usize) -> Sensitive<Self> {
        let mut values = vec![0i64; cells];
        for cell in paced(records).flatten() {
            if let Some(count) = values.get_mut(cell) {
                *count = count.saturating_add(1);
            }
        }
        Sensitive::new(Self { values, sensitivity: 1.0 })
    }

    /// Integers made elsewhere. `sensitivity`: how much one record's presence moves them (the l1 norm of the change for
    /// Laplace noise, its l2 norm for Gaussian noise, its largest entry for a choice). Whoever calls this vouches for it.
    pub fn declared(values: Vec<i64>, sensitivity: f64) -> Sensitive<Self> {
        Sensitive::new(Self { values, sensitivity })
    }

    /// The only count, if its sensitivity is at most `sensitivity`.
    pub(crate) fn single(&self, sensitivity: f64) -> Result<i64, CuratorError> {
        checked(self, sensitivity)?;
        match self.values[..] {
            [value] => Ok(value),
            _ => Err(CuratorError::Shape),
        }
    }
}

fn checked(input: &Counts, sensitivity: f64) -> Result<(), CuratorError> {
    if input.sensitivity.is_nan() || input.sensitivity > sensitivity {
        return Err(CuratorError::Sensitivity { input: input.sensitivity, mechanism: sensitivity });
    }
    Ok(())
}

/// Adds integer noise P(x) ∝ e^(−|x|/t) to each count, t any number. Event: `DiscreteLaplace(1/t, sensitivity)`, 1/t rounded up.
#[derive(Clone, Debug)]
pub struct DiscreteLaplaceNoise {
    scale: f64,
    sensitivity: u64,
}

impl DiscreteLaplaceNoise {
    /// Scale t for counts of l1 sensitivity `sensitivity`.
    pub fn new(scale: f64, sensitivity: u64) -> Self {
        Self { scale, sensitivity }
    }
}

impl Sealed for DiscreteLaplaceNoise {}

impl Mechanism for DiscreteLaplaceNoise {
    type Input = Counts;
    type Output = Vec<i64>;

    fn event(&self) -> Event {
        Event::DiscreteLaplace { noise_parameter: DiscreteLaplace::decay_of(self.scale), sensitivity: self.sensitivity }
    }

    fn sampler_error(&self, input: &Counts) -> f64 {
        SamplerError::fine(input.values.len() as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "counts"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        DiscreteLaplace::with_scale(self.scale).map(drop).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn check(&self, input: &Counts) -> Result<(), CuratorError> {
        checked(input, self.sensitivity as f64)
    }

    fn apply(&self, input: &Counts, noise: &mut NoiseSource) -> Result<Vec<i64>, CuratorError> {
        let sampler = DiscreteLaplace::with_scale(self.scale).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut values = input.values.clone();
        sampler.add_to(&mut values, &mut noise.stream(Purpose::Noise, 0));
        Ok(values)
    }
}

/// Adds integer noise P(x) ∝ e^(−x²/(2σ²)) to each count. Event: `DiscreteGaussian(σ, Δ₂)`, where one record's presence moves
/// the counts by at most Δ₂ ≥ 1 in l2 norm (Canonne, Kamath, Steinke 2020).
#[derive(Clone, Debug)]
pub struct DiscreteGaussianNoise {
    sigma: f64,
    sensitivity: f64,
}

impl DiscreteGaussianNoise {
    /// σ for counts of l2 sensitivity `sensitivity`.
    pub fn new(sigma: f64, sensitivity: f64) -> Self {
        Self { sigma, sensitivity }
    }
}

impl Sealed for DiscreteGaussianNoise {}

impl Mechanism for DiscreteGaussianNoise {
    type Input = Counts;
    type Output = Vec<i64>;

    fn event(&self) -> Event {
        // the number of counts is the caller's: nothing is claimed of it
        Event::DiscreteGaussian { sigma: self.sigma, sensitivity: self.sensitivity, dimension: None }
    }

    fn sampler_error(&self, input: &Counts) -> f64 {
        SamplerError::fine(input.values.len() as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "counts"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        DiscreteGaussian::new(self.sigma).map(drop).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn check(&self, input: &Counts) -> Result<(), CuratorError> {
        checked(input, self.sensitivity)
    }

    fn apply(&self, input: &Counts, noise: &mut NoiseSource) -> Result<Vec<i64>, CuratorError> {
        let sampler = DiscreteGaussian::new(self.sigma).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut values = input.values.clone();
        sampler.add_to(&mut values, &mut noise.stream(Purpose::Noise, 0));
        Ok(values)
    }
}

/// How a choice is randomised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceLaw {
    /// Permute-and-flip (McKenna, Sheldon 2020). Event: `ApproxDp(ε, 0)`.
    PermuteAndFlip,
    /// The exponential mechanism. Event: `ExponentialMechanism(ε)`.
    Exponential,
    /// Report-noisy-max with discrete Laplace noise of scale 2Δ/ε, ties to the first. Event: `ApproxDp(ε, 0)`. Never better
    /// than permute-and-flip; for comparison.
    NoisyMaximum,
}

/// Index of a good candidate by integer scores, each of which moves by at most `sensitivity` with one record's presence. Where a
/// record is replaced by another, scores move twice as far, and the choice is made with twice the noise.
#[derive(Clone, Debug)]
pub struct Choice {
    law: ChoiceLaw,
    epsilon: f64,
    /// How far one record's presence moves a score.
    sensitivity: u64,
    /// Between neighbours: the former, doubled under replace-one.
    moved: u64,
    monotone: bool,
    relation: Relation,
}

impl Choice {
    /// An `epsilon`-DP choice under `relation`, if one record's presence moves each score by at most `sensitivity` (as everywhere,
    /// the relation is multiplied in here). `monotone`: one record moves all scores in the same direction, which halves the
    /// noise; never under replace-one.
    ///
    /// # Errors
    /// If `monotone` is asked for under replace-one, or twice the sensitivity is no u64.
    pub fn new(
        law: ChoiceLaw,
        epsilon: f64,
        sensitivity: u64,
        monotone: bool,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        if monotone && relation == Relation::ReplaceOne {
            return Err(CuratorError::Noise(
                "under replace-one a record can lower one score and raise another, so that scores are not monotone; \
                 use monotone=False"
                    .into(),
            ));
        }
        let neighbours = if relation == Relation::ReplaceOne { 2 } else { 1 };
        let moved = sensitivity.checked_mul(neighbours).filter(|m| m.checked_mul(2).is_some());
        let moved =
            moved.ok_or_else(|| CuratorError::Noise("the sensitivity of the scores is too large; lower it".into()))?;
        Ok(Self { law, epsilon, sensitivity, moved, monotone, relation })
    }

    fn drawing(&self) -> Result<Drawing, CuratorError> {
        let drawing = match self.law {
            ChoiceLaw::PermuteAndFlip => NoisyMax::new(self.epsilon, self.moved, self.monotone).map(Drawing::Permuted),
            ChoiceLaw::Exponential => {
                ExponentialChoice::new(self.epsilon, self.moved, self.monotone).map(Drawing::Exponential)
            }
            ChoiceLaw::NoisyMaximum => {
                let change = (if self.monotone { self.moved } else { 2 * self.moved }) as f64;
                // a scale out of the sampler's range is refused there
                let scale = (change / self.epsilon).next_up().max(1.0 / 64.0);
                DiscreteLaplace::with_scale(scale).map(Drawing::Noisy)
            }
        };
        drawing.map_err(|e| CuratorError::Noise(e.to_string()))
    }
}

/// The sampler of a choice.
enum Drawing {
    Permuted(NoisyMax),
    Exponential(ExponentialChoice),
    Noisy(DiscreteLaplace),
}

impl Sealed for Choice {}

impl Mechanism for Choice {
    type Input = Counts;
    type Output = usize;

    fn event(&self) -> Event {
        match self.law {
            ChoiceLaw::PermuteAndFlip => Event::PermuteAndFlip { epsilon: self.epsilon },
            ChoiceLaw::NoisyMaximum => Event::ApproxDp { epsilon: self.epsilon, delta: 0.0 },
            ChoiceLaw::Exponential => Event::ExponentialMechanism { epsilon: self.epsilon },
        }
    }

    fn sampler_error(&self, input: &Counts) -> f64 {
        SamplerError::fine(input.values.len() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "choice"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        self.drawing().map(drop)
    }

    fn check(&self, input: &Counts) -> Result<(), CuratorError> {
        // the number of candidates is public
        if input.values.is_empty() { Err(CuratorError::Shape) } else { checked(input, self.sensitivity as f64) }
    }

    fn apply(&self, input: &Counts, noise: &mut NoiseSource) -> Result<usize, CuratorError> {
        let mut stream = noise.stream(Purpose::Selection, 0);
        let chosen = match self.drawing()? {
            Drawing::Permuted(choice) => choice.choose(input.values.iter().copied(), &mut stream),
            Drawing::Exponential(choice) => choice.choose(&input.values, &mut stream),
            Drawing::Noisy(noise) => {
                let noisy = paced(&input.values).map(|&v| i128::from(v) + i128::from(noise.sample(&mut stream)));
                // the first of several maxima
                noisy
                    .enumerate()
                    .max_by_key(|(index, value)| (*value, std::cmp::Reverse(*index)))
                    .map(|(index, _)| index)
            }
        };
        chosen.ok_or(CuratorError::Shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::Expose;
    use dpopt_kernel::beside::uncharged;

    #[test]
    fn counts_come_out_once_and_with_the_declared_sensitivity_only() {
        let mechanism = DiscreteLaplaceNoise::new(3.0, 1);
        let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(1));
        let twice = Counts::declared(vec![10, 20], 2.0);
        assert!(matches!(curator.release(&mechanism, &twice), Err(CuratorError::Sensitivity { .. })));
        let cells = [Some(0), Some(1), Some(1), None, Some(7)];
        let histogram = Counts::histogram(cells.into_iter(), 2);
        assert_eq!(histogram.expose().values, [1, 2]);
        assert_eq!(curator.release(&mechanism, &histogram).unwrap().get().len(), 2);
        assert!(curator.release(&mechanism, &histogram).is_err());
    }

    /// The scale that an ε asks for needs not be rounded to an integer: ε = 1.5 is not charged, or noised, as 1.
    #[test]
    fn laplace_noise_of_any_scale_says_what_it_does() {
        for epsilon in [0.3, 1.0, 1.5, 5.0] {
            let mechanism = DiscreteLaplaceNoise::new(1.0 / epsilon, 1);
            let certified =
                dpopt_privacy::accountant::epsilon(&mechanism.event(), Relation::ZeroOut, 0.0).unwrap().upper;
            assert!(
                certified >= epsilon * (1.0 - 1e-15) && certified < epsilon * (1.0 + 1e-14),
                "{epsilon}: {certified}"
            );
            let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(2));
            assert!(curator.release(&mechanism, &Counts::declared(vec![0; 10], 1.0)).is_ok());
        }
    }

    #[test]
    fn discrete_gaussian_noise_is_concentrated() {
        let event = DiscreteGaussianNoise::new(2.0, 1.0).event();
        let rho = |relation| dpopt_privacy::accountant::zcdp::cost(&event, relation).unwrap().rho;
        assert!((rho(Relation::ZeroOut) - 0.125).abs() < 1e-12);
        assert!((rho(Relation::ReplaceOne) - 0.5).abs() < 1e-11);
    }

    #[test]
    fn a_replaced_record_is_given_twice_the_noise_of_a_present_one() {
        // two scores 3 apart, ε = 1, Δ = 1: the exponential mechanism errs with probability 1/(1 + e^(3ε/2Δ')), Δ' = Δ or 2Δ
        let shares = |law, relation| {
            let choice = Choice::new(law, 1.0, 1, false, relation).unwrap();
            let scores = Counts::declared(vec![0, 3], 1.0);
            let event = choice.event().self_composed(40_000);
            let mut curator = uncharged(&event, NoiseSource::insecure(5));
            let wrong = (0..40_000).filter(|_| *curator.release(&choice, &scores).unwrap().get() == 0).count();
            wrong as f64 / 40_000.0
        };
        let expected = |moved: f64| 1.0 / (1.0 + (1.5 / moved).exp());
        for (relation, moved) in [(Relation::ZeroOut, 1.0), (Relation::AddOrRemove, 1.0), (Relation::ReplaceOne, 2.0)] {
            // five standard deviations: 40,000 draws of a share below 1/2
            let gap = shares(ChoiceLaw::Exponential, relation) - expected(moved);
            assert!(gap.abs() < 5.0 * 0.5 / 200.0, "{relation:?}: {gap}");
        }
        for law in [ChoiceLaw::PermuteAndFlip, ChoiceLaw::NoisyMaximum] {
            assert!(shares(law, Relation::ReplaceOne) > shares(law, Relation::ZeroOut) + 0.05, "{law:?}");
        }
        // what is checked is the meaning that was declared: one record's presence
        let choice = Choice::new(ChoiceLaw::Exponential, 1.0, 1, false, Relation::ReplaceOne).unwrap();
        assert!(choice.check(Counts::declared(vec![1], 2.0).expose()).is_err());
        assert!(Choice::new(ChoiceLaw::Exponential, 1.0, u64::MAX / 2, false, Relation::ReplaceOne).is_err());
    }

    #[test]
    fn a_clear_winner_is_chosen_and_nothing_is_chosen_from_nothing() {
        for law in [ChoiceLaw::PermuteAndFlip, ChoiceLaw::Exponential, ChoiceLaw::NoisyMaximum] {
            let choice = Choice::new(law, 1.0, 1, true, Relation::ZeroOut).unwrap();
            let mut curator = uncharged(&choice.event(), NoiseSource::insecure(1));
            assert_eq!(curator.release(&choice, &Counts::declared(vec![], 1.0)), Err(CuratorError::Shape));
            let chosen = curator.release(&choice, &Counts::declared(vec![3, 400, 20], 1.0)).unwrap();
            assert_eq!(*chosen.get(), 1);
        }
        assert!(Choice::new(ChoiceLaw::Exponential, 1.0, 1, true, Relation::ReplaceOne).is_err());
    }
}
