//! The mechanisms by name.

use super::{ExpressionError, Free, Parsed, Parser};
use crate::Event;
use crate::event::GlmLink;

/// Every name, for the error about another one.
const NAMES: &str = "gaussian, laplace, discrete_laplace, discrete_gaussian, randomized_response, exponential, permute_and_flip, \
                     mixture, chi_square, tree, objective, pure, approx, epsilon_delta, propose_test_release, gdp, zcdp, rdp, profile, poisson, gated, \
                     truncated_poisson, random_allocation, subset, draws, best_of, parallel, users, approximate, nothing, non_private";

impl Parser<'_> {
    /// The arguments of the mechanism `name`, up to its closing bracket. An error at position 0 is one of the name.
    pub(super) fn mechanism(&mut self, name: &str) -> Parsed<Event> {
        let (noise, cost) = (Some(Free::Noise), Some(Free::Cost));
        Ok(match name.to_ascii_lowercase().as_str() {
            "gaussian" => Event::Gaussian { noise_multiplier: self.positive("noise_multiplier", noise)? },
            "laplace" => Event::Laplace { noise_multiplier: self.positive("noise_multiplier", noise)? },
            "discrete_laplace" => {
                let noise_parameter = self.positive("noise_parameter", cost)?;
                let sensitivity = if self.eat(",") { self.labelled_count("sensitivity")? } else { 1 };
                Event::DiscreteLaplace { noise_parameter, sensitivity }
            }
            "discrete_gaussian" => {
                let sigma = self.positive("sigma", noise)?;
                let sensitivity =
                    if self.eat(",") { self.number_within("sensitivity", 1.0, f64::MAX, None)? } else { 1.0 };
                let dimension = if self.eat(",") { Some(self.labelled_count("dimension")?) } else { None };
                Event::DiscreteGaussian { sigma, sensitivity, dimension }
            }
            "randomized_response" => {
                let noise_parameter = self.number_within("noise_parameter", 0.0, 1.0, None)?;
                self.comma()?;
                let num_buckets = self.labelled_count("num_buckets")?;
                Event::RandomizedResponse { noise_parameter, num_buckets }
            }
            "exponential" | "exponential_mechanism" => {
                Event::ExponentialMechanism { epsilon: self.positive("epsilon", cost)? }
            }
            "permute_and_flip" => Event::PermuteAndFlip { epsilon: self.positive("epsilon", cost)? },
            "mixture" | "mixture_of_gaussians" => {
                let standard_deviation = self.positive("standard_deviation", noise)?;
                self.comma()?;
                let (sensitivities, sampling_probs) = self.pairs()?;
                Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs }
            }
            "chi_square" => {
                let degrees_of_freedom = self.labelled_count("degrees_of_freedom")?;
                self.comma()?;
                Event::ChiSquareGaussian { degrees_of_freedom, mu: self.positive("mu", cost)? }
            }
            "tree" => {
                let noise_multiplier = self.positive("noise_multiplier", noise)?;
                let mut step_counts = vec![];
                while self.eat(",") {
                    step_counts.push(self.labelled_count("step_counts")?);
                }
                if step_counts.is_empty() {
                    return Err(self.wrong("expected `,` and the number of steps, as in tree(1.1, 1000)"));
                }
                Event::SingleEpochTreeAggregation { noise_multiplier, step_counts }
            }
            "objective" | "objective_perturbation" => {
                let noise_multiplier = self.positive("noise_multiplier", noise)?;
                self.comma()?;
                let regularization = self.positive("regularization", noise)?;
                let link = if self.eat(",") { self.link()? } else { GlmLink::Monotone };
                Event::ObjectivePerturbation { noise_multiplier, regularization, link }
            }
            "pure" | "pure_stream" => Event::PureStream { epsilon: self.positive("epsilon", cost)? },
            "approx" | "approx_dp" => {
                let epsilon = self.number_within("epsilon", 0.0, f64::MAX, cost)?;
                let delta = if self.eat(",") { self.number_within("delta", 0.0, 1.0, None)? } else { 0.0 };
                Event::ApproxDp { epsilon, delta }
            }
            "epsilon_delta" => {
                let epsilon = self.number_within("epsilon", 0.0, f64::MAX, cost)?;
                self.comma()?;
                Event::EpsilonDelta { epsilon, delta: self.number_within("delta", 0.0, 1.0, None)? }
            }
            "propose_test_release" => {
                let epsilon = self.positive("epsilon", None)?;
                self.comma()?;
                let delta = self.number_within("delta", 0.0, 1.0, None)?;
                self.comma()?;
                let noise_multiplier = self.positive("noise_multiplier", noise)?;
                Event::ProposeTestRelease { epsilon, delta, noise_multiplier }
            }
            "gdp" => Event::Gdp { mu: self.positive("mu", cost)? },
            "zcdp" => {
                let rho = self.positive("rho", cost)?;
                let xi = if self.eat(",") { self.number_within("xi", 0.0, f64::MAX, None)? } else { 0.0 };
                Event::Zcdp { rho, xi }
            }
            "rdp" => {
                let (orders, divergences) = self.pairs()?;
                Event::Rdp { orders, divergences }
            }
            "profile" => {
                let (epsilons, deltas) = self.pairs()?;
                Event::PrivacyProfile { epsilons, deltas }
            }
            "poisson" | "poisson_sampled" => {
                let q = self.probability()?;
                self.comma()?;
                self.event()?.poisson_sampled(q)
            }
            "gated" => {
                let probability = self.number_within("probability", 0.0, 1.0, None)?;
                self.comma()?;
                Event::Gated { probability, event: Box::new(self.event()?) }
            }
            "truncated_poisson" => {
                let dataset_size = self.labelled_count("dataset_size")?;
                self.comma()?;
                let sampling_probability = self.probability()?;
                self.comma()?;
                let truncated_batch_size = self.labelled_count("truncated_batch_size")?;
                self.comma()?;
                let noise_multiplier = self.positive("noise_multiplier", noise)?;
                Event::TruncatedSubsampledGaussian {
                    dataset_size,
                    sampling_probability,
                    truncated_batch_size,
                    noise_multiplier,
                }
            }
            "random_allocation" | "balls_in_bins" => {
                let num_steps = self.labelled_count("num_steps")?;
                self.comma()?;
                self.skip_space();
                let several =
                    self.rest().starts_with(|c: char| c.is_ascii_digit()) || self.rest().starts_with("num_selected");
                let num_selected = if several { self.labelled_count("num_selected")? } else { 1 };
                if several {
                    self.comma()?;
                }
                if num_selected > num_steps {
                    return Err(self.wrong("more steps than there are: write random_allocation(t, k, event), k <= t"));
                }
                Event::RandomAllocation { event: Box::new(self.event()?), num_selected, num_steps }
            }
            "subset" | "sampled_without_replacement" => {
                let (source_dataset_size, sample_size) = self.sample(true)?;
                let event = Box::new(self.event()?);
                Event::SampledWithoutReplacement { source_dataset_size, sample_size, event }
            }
            "draws" | "sampled_with_replacement" => {
                let (source_dataset_size, sample_size) = self.sample(false)?;
                let event = Box::new(self.event()?);
                Event::SampledWithReplacement { source_dataset_size, sample_size, event }
            }
            "best_of" | "repeat_and_select" => {
                let mean = self.positive("mean", cost)?;
                self.comma()?;
                self.label("shape")?;
                let poisson = self.eat("inf");
                let shape = if poisson { f64::INFINITY } else { self.number_within("shape", 0.0, f64::MAX, None)? };
                self.comma()?;
                Event::RepeatAndSelect { event: Box::new(self.event()?), mean, shape }
            }
            "parallel" => {
                let mut blocks = vec![self.event()?];
                while self.eat(",") {
                    blocks.push(self.event()?);
                }
                Event::Parallel { blocks }
            }
            "users" => {
                let records_per_user = self.labelled_count("records_per_user")?;
                self.comma()?;
                Event::UserUnit { records_per_user, event: Box::new(self.event()?) }
            }
            "approximate" => {
                let total_variation = self.number_within("total_variation", 0.0, 1.0, None)?;
                self.comma()?;
                Event::Approximate { total_variation, event: Box::new(self.event()?) }
            }
            "nothing" | "no_op" => Event::NoOp,
            "non_private" => Event::NonPrivate,
            _ => {
                let message = format!("`{name}` is not a mechanism; there are {NAMES}");
                return Err(ExpressionError { position: 0, message });
            }
        })
    }

    fn labelled_count(&mut self, label: &str) -> Parsed<u64> {
        self.label(label)?;
        self.count()
    }

    fn probability(&mut self) -> Parsed<f64> {
        self.number_within("sampling_probability", f64::MIN_POSITIVE, 1.0, Some(Free::SamplingProbability))
    }

    /// `n, m,` of a sample of m from n records, which may hold a record more than once unless they are `distinct`.
    fn sample(&mut self, distinct: bool) -> Parsed<(u64, u64)> {
        let of = self.labelled_count("source_dataset_size")?;
        self.comma()?;
        self.label("sample_size")?;
        self.skip_space();
        // an empty sample is one too
        let empty = self.rest().strip_prefix('0').is_some_and(|rest| rest.trim_start().starts_with(','));
        let size = if empty {
            self.eat("0");
            0
        } else {
            self.count_or(Free::SampleSize { of })?
        };
        if distinct && size > of {
            return Err(self.wrong("the sample is larger than the data set: write subset(n, m, event), m <= n"));
        }
        self.comma()?;
        Ok((of, size))
    }

    /// `x: y, x: y`.
    fn pairs(&mut self) -> Parsed<(Vec<f64>, Vec<f64>)> {
        let (mut left, mut right) = (vec![], vec![]);
        loop {
            left.push(self.ratio()?);
            if !self.eat(":") {
                return Err(self.wrong("expected `:` and a second number, as in 2: 0.1, 4: 0.3"));
            }
            right.push(self.ratio()?);
            if !self.eat(",") {
                return Ok((left, right));
            }
        }
    }

    fn link(&mut self) -> Parsed<GlmLink> {
        self.label("link")?;
        let start = self.at;
        match self.name().as_str() {
            "monotone" | "logistic" => Ok(GlmLink::Monotone),
            "smooth" if self.eat("(") => {
                let smoothness = self.positive("smoothness", None)?;
                self.close()?;
                Ok(GlmLink::Smooth { smoothness })
            }
            "softmax" if self.eat("(") => {
                self.label("classes")?;
                let classes = self.count()?;
                let classes = u32::try_from(classes).ok().filter(|k| *k >= 2);
                let Some(classes) = classes else {
                    return Err(self.wrong("softmax needs at least 2 classes"));
                };
                self.close()?;
                Ok(GlmLink::Softmax { classes })
            }
            _ => Err(ExpressionError {
                position: start + 1,
                message: "expected monotone, smooth(BOUND) or softmax(CLASSES)".into(),
            }),
        }
    }
}
