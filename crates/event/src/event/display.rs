//! An event as one short formula: `400 × Poisson(0.1, Gaussian(7.57))`.

use super::{Event, GlmLink};
use std::fmt::{Display, Formatter, Result};

/// Six significant digits: for reading; [`Event::to_json`] keeps every bit.
struct Short(f64);

impl Display for Short {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let x = self.0;
        let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
        if rounded == 0.0 || (1e-4..1e7).contains(&rounded.abs()) {
            write!(f, "{rounded}")
        } else {
            write!(f, "{rounded:e}")
        }
    }
}

/// A sum needs brackets under a count.
struct Factor<'a>(&'a Event);

impl Display for Factor<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Event::Composed { events } if events.len() > 1 => write!(f, "({})", self.0),
            Event::SelfComposed { .. } => write!(f, "({})", self.0),
            event => write!(f, "{event}"),
        }
    }
}

fn joined(f: &mut Formatter<'_>, events: &[Event], separator: &str) -> Result {
    for (i, event) in events.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{event}")?;
    }
    Ok(())
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::NoOp => f.write_str("NoOp"),
            Self::NonPrivate => f.write_str("NonPrivate"),
            Self::Unsupported => f.write_str("Unsupported"),
            Self::RandomizedResponse { noise_parameter, num_buckets } => {
                write!(f, "RandomizedResponse({}, {num_buckets})", Short(*noise_parameter))
            }
            Self::Gaussian { noise_multiplier } => write!(f, "Gaussian({})", Short(*noise_multiplier)),
            Self::Laplace { noise_multiplier } => write!(f, "Laplace({})", Short(*noise_multiplier)),
            Self::DiscreteLaplace { noise_parameter, sensitivity } => {
                write!(f, "DiscreteLaplace({}, {sensitivity})", Short(*noise_parameter))
            }
            Self::DiscreteGaussian { sigma, sensitivity, dimension } => {
                write!(f, "DiscreteGaussian({}, {}", Short(*sigma), Short(*sensitivity))?;
                match dimension {
                    Some(1) => f.write_str(")"),
                    Some(d) => write!(f, ", {d} sums)"),
                    None => f.write_str(", any number of sums)"),
                }
            }
            Self::PermuteAndFlip { epsilon } => write!(f, "PermuteAndFlip(ε={})", Short(*epsilon)),
            Self::EpsilonDelta { epsilon, delta } => write!(f, "EpsilonDelta({}, {})", Short(*epsilon), Short(*delta)),
            Self::ExponentialMechanism { epsilon } => write!(f, "Exponential(ε={})", Short(*epsilon)),
            Self::Gdp { mu } => write!(f, "Gdp({})", Short(*mu)),
            Self::Rdp { orders, .. } => write!(f, "Rdp({} orders)", orders.len()),
            Self::Zcdp { rho, xi: 0.0 } => write!(f, "zCDP({})", Short(*rho)),
            Self::Zcdp { rho, xi } => write!(f, "zCDP({}, ξ={})", Short(*rho), Short(*xi)),
            Self::PrivacyProfile { epsilons, .. } => write!(f, "Profile({} points)", epsilons.len()),
            Self::PureStream { epsilon } => write!(f, "PureStream({})", Short(*epsilon)),
            Self::ApproxDp { epsilon, delta } => write!(f, "ApproxDp({}, {})", Short(*epsilon), Short(*delta)),
            Self::ChiSquareGaussian { degrees_of_freedom, mu } => {
                write!(f, "ChiSquareGaussian({degrees_of_freedom}, {})", Short(*mu))
            }
            Self::ProposeTestRelease { epsilon, delta, noise_multiplier } => {
                write!(f, "ProposeTestRelease({}, {}, {})", Short(*epsilon), Short(*delta), Short(*noise_multiplier))
            }
            Self::MixtureOfGaussians { standard_deviation, sensitivities, .. } => {
                write!(f, "MixtureOfGaussians({}, {} parts)", Short(*standard_deviation), sensitivities.len())
            }
            Self::SingleEpochTreeAggregation { noise_multiplier, step_counts } => {
                write!(f, "Tree({}, {step_counts:?} steps)", Short(*noise_multiplier))
            }
            Self::TruncatedSubsampledGaussian {
                sampling_probability, truncated_batch_size, noise_multiplier, ..
            } => {
                write!(
                    f,
                    "TruncatedPoisson({}, at most {truncated_batch_size}, Gaussian({}))",
                    Short(*sampling_probability),
                    Short(*noise_multiplier)
                )
            }
            Self::RepeatAndSelect { event, mean, .. } => write!(f, "BestOf(mean {}, {event})", Short(*mean)),
            Self::ObjectivePerturbation { noise_multiplier, regularization, link } => {
                let link = match link {
                    GlmLink::Monotone => "monotone".to_owned(),
                    GlmLink::Smooth { smoothness } => format!("smooth {}", Short(*smoothness)),
                    GlmLink::Softmax { classes } => format!("softmax {classes}"),
                };
                write!(f, "ObjectivePerturbation({}, λ={}, {link})", Short(*noise_multiplier), Short(*regularization))
            }
            Self::PoissonSampled { sampling_probability, event } => {
                write!(f, "Poisson({}, {event})", Short(*sampling_probability))
            }
            Self::Gated { probability, event } => write!(f, "Gated({}, {event})", Short(*probability)),
            Self::SampledWithoutReplacement { source_dataset_size, sample_size, event } => {
                write!(f, "Sample({sample_size} of {source_dataset_size}, {event})")
            }
            Self::SampledWithReplacement { source_dataset_size, sample_size, event } => {
                write!(f, "Draw({sample_size} from {source_dataset_size} with replacement, {event})")
            }
            Self::RandomAllocation { event, num_selected, num_steps } => {
                write!(f, "Allocate({num_selected} of {num_steps} steps, {event})")
            }
            Self::Parallel { blocks } => {
                f.write_str("Parallel(")?;
                joined(f, blocks, ", ")?;
                f.write_str(")")
            }
            Self::UserUnit { records_per_user, event } => write!(f, "User({records_per_user} records, {event})"),
            Self::SelfComposed { event, count } => write!(f, "{count} × {}", Factor(event)),
            Self::Composed { events } if events.is_empty() => f.write_str("NoOp"),
            Self::Composed { events } => joined(f, events, " + "),
            Self::Approximate { total_variation, event } => {
                write!(f, "Approximate({}, {event})", Short(*total_variation))
            }
        }
    }
}
