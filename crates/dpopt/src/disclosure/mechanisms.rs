//! The mechanisms in an event, as registries and checklists call them, and what follows from their kinds.

use dpopt_privacy::Event;

/// The mechanisms of an event and how records reach them, each once, in the order of the event.
pub(super) fn mechanisms(event: &Event) -> Vec<&'static str> {
    let mut found = Vec::new();
    add(event, &mut found);
    found
}

/// Whether an event may have an outcome that only one of two neighbouring data sets has: a δ of its own, beside what samplers are off.
pub(super) fn may_fail(event: &Event) -> bool {
    let stated = matches!(
        event,
        Event::NonPrivate
            | Event::Unsupported
            | Event::PrivacyProfile { .. }
            | Event::ProposeTestRelease { .. }
            | Event::EpsilonDelta { .. }
            | Event::ApproxDp { .. }
    );
    stated || event.children().iter().any(may_fail)
}

/// Most records of a unit that an event uses, where it is one for units of several records.
pub(super) fn records_of_a_unit(event: &Event) -> Option<u64> {
    let own = match event {
        Event::UserUnit { records_per_user, .. } => Some(*records_per_user),
        _ => None,
    };
    event.children().iter().map(records_of_a_unit).fold(own, Ord::max)
}

fn add(event: &Event, found: &mut Vec<&'static str>) {
    if let Some(name) = name(event).filter(|name| !found.contains(name)) {
        found.push(name);
    }
    event.children().iter().for_each(|child| add(child, found));
}

fn name(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::NoOp
        | Event::SelfComposed { .. }
        | Event::Composed { .. }
        | Event::Approximate { .. }
        | Event::Gated { .. } => return None,
        Event::NonPrivate => "a release without protection",
        Event::Unsupported => "a mechanism that no accountant knows",
        Event::RandomizedResponse { .. } => "randomized response",
        Event::Gaussian { .. } => "Gaussian mechanism",
        Event::Laplace { .. } => "Laplace mechanism",
        Event::DiscreteLaplace { .. } => "discrete Laplace mechanism",
        Event::DiscreteGaussian { .. } => "discrete Gaussian mechanism",
        Event::ExponentialMechanism { .. } => "exponential mechanism",
        Event::PermuteAndFlip { .. } => "permute-and-flip",
        Event::Gdp { .. } => "a mechanism described by its μ (Gaussian differential privacy)",
        Event::Rdp { .. } => "a mechanism described by its Rényi divergences",
        Event::Zcdp { .. } => "a mechanism described by its ρ (zero-concentrated differential privacy)",
        Event::PrivacyProfile { .. } => "a mechanism described by its privacy profile",
        Event::PureStream { .. } => "a stream of releases described by its ε",
        Event::ChiSquareGaussian { .. } => "Gaussian mechanism behind a fresh random projection",
        Event::ProposeTestRelease { .. } => "propose-test-release with Gaussian noise",
        Event::MixtureOfGaussians { .. } => "mixture of Gaussian mechanisms",
        Event::SingleEpochTreeAggregation { .. } => "tree aggregation with Gaussian noise",
        Event::TruncatedSubsampledGaussian { .. } => "Gaussian mechanism on truncated Poisson samples",
        Event::RepeatAndSelect { .. } => "private selection among repeated runs",
        Event::EpsilonDelta { .. } | Event::ApproxDp { .. } => "a mechanism described by its (ε, δ)",
        Event::ObjectivePerturbation { .. } => "objective perturbation",
        Event::PoissonSampled { .. } => "secret Poisson sampling",
        Event::SampledWithoutReplacement { .. } | Event::SampledWithReplacement { .. } => {
            "secret samples of a fixed size"
        }
        Event::RandomAllocation { .. } => "secret random allocation of records to steps",
        Event::Parallel { .. } => "parallel composition over disjoint blocks of records",
        Event::UserUnit { .. } => "group privacy for units of several records",
    })
}
