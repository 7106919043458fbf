//! Every mechanism that can be written, and the errors of texts that are none.

use super::*;
use crate::event::GlmLink;
use proptest::prelude::*;

#[test]
fn reads_every_mechanism() {
    let gaussian = Event::gaussian(1.5);
    for (text, event) in [
        ("gaussian(1.5)", gaussian.clone()),
        ("gaussian( noise_multiplier = 1.5 )", gaussian.clone()),
        ("laplace(2)", Event::Laplace { noise_multiplier: 2.0 }),
        ("discrete_laplace(0.5)", Event::DiscreteLaplace { noise_parameter: 0.5, sensitivity: 1 }),
        ("discrete_laplace(0.5, 3)", Event::DiscreteLaplace { noise_parameter: 0.5, sensitivity: 3 }),
        ("exponential(1e-1)", Event::ExponentialMechanism { epsilon: 0.1 }),
        ("discrete_gaussian(10)", Event::DiscreteGaussian { sigma: 10.0, sensitivity: 1.0, dimension: None }),
        ("discrete_gaussian(4, 2.5, 1)", Event::DiscreteGaussian { sigma: 4.0, sensitivity: 2.5, dimension: Some(1) }),
        ("randomized_response(0.3, 5)", Event::RandomizedResponse { noise_parameter: 0.3, num_buckets: 5 }),
        ("permute_and_flip(0.1)", Event::PermuteAndFlip { epsilon: 0.1 }),
        ("mixture(2, 0: 0.75, 1: 1/4)", {
            let (sensitivities, sampling_probs) = (vec![0.0, 1.0], vec![0.75, 0.25]);
            Event::MixtureOfGaussians { standard_deviation: 2.0, sensitivities, sampling_probs }
        }),
        ("chi_square(100, 0.3)", Event::ChiSquareGaussian { degrees_of_freedom: 100, mu: 0.3 }),
        ("tree(3, 1000, 200)", {
            Event::SingleEpochTreeAggregation { noise_multiplier: 3.0, step_counts: vec![1000, 200] }
        }),
        ("pure(0.5)", Event::PureStream { epsilon: 0.5 }),
        ("epsilon_delta(0.5, 1e-7)", Event::EpsilonDelta { epsilon: 0.5, delta: 1e-7 }),
        ("propose_test_release(0.25, 1e-6, 6)", {
            Event::ProposeTestRelease { epsilon: 0.25, delta: 1e-6, noise_multiplier: 6.0 }
        }),
        ("gdp(0.5)", Event::Gdp { mu: 0.5 }),
        ("zcdp(0.5)", Event::Zcdp { rho: 0.5, xi: 0.0 }),
        ("zcdp(0.5, xi=1)", Event::Zcdp { rho: 0.5, xi: 1.0 }),
        ("rdp(2: 0.1, 4: 0.3)", Event::Rdp { orders: vec![2.0, 4.0], divergences: vec![0.1, 0.3] }),
        ("profile(0.5: 1e-3, 1: 1e-6)", {
            Event::PrivacyProfile { epsilons: vec![0.5, 1.0], deltas: vec![1e-3, 1e-6] }
        }),
        ("truncated_poisson(1000, 0.1, 120, 2)", {
            Event::TruncatedSubsampledGaussian {
                dataset_size: 1000,
                sampling_probability: 0.1,
                truncated_batch_size: 120,
                noise_multiplier: 2.0,
            }
        }),
        ("gated(0.25, gaussian(1.5)) x 3", gaussian.clone().gated(0.25).self_composed(3)),
        ("random_allocation(100, gaussian(1.5))", gaussian.clone().randomly_allocated(100)),
        ("balls_in_bins(num_steps=100, num_selected=3, gaussian(1.5))", {
            Event::RandomAllocation { event: Box::new(gaussian.clone()), num_selected: 3, num_steps: 100 }
        }),
        ("random_allocation(100, 3, gaussian(1.5))", {
            Event::RandomAllocation { event: Box::new(gaussian.clone()), num_selected: 3, num_steps: 100 }
        }),
        ("draws(100, 7, gaussian(1.5))", {
            let event = Box::new(gaussian.clone());
            Event::SampledWithReplacement { source_dataset_size: 100, sample_size: 7, event }
        }),
        ("best_of(5, 1, gaussian(1.5))", {
            Event::RepeatAndSelect { event: Box::new(gaussian.clone()), mean: 5.0, shape: 1.0 }
        }),
        ("best_of(5, inf, gaussian(1.5))", {
            Event::RepeatAndSelect { event: Box::new(gaussian.clone()), mean: 5.0, shape: f64::INFINITY }
        }),
        ("parallel(gaussian(1.5), laplace(2) + nothing())", {
            let other = Event::composed(vec![Event::laplace(2.0), Event::NoOp]);
            Event::Parallel { blocks: vec![gaussian.clone(), other] }
        }),
        ("users(3, gaussian(1.5))", Event::UserUnit { records_per_user: 3, event: Box::new(gaussian.clone()) }),
        ("non_private()", Event::NonPrivate),
        ("approx(1)", Event::ApproxDp { epsilon: 1.0, delta: 0.0 }),
        ("approx(1, 1e-6)", Event::ApproxDp { epsilon: 1.0, delta: 1e-6 }),
        (
            "objective(3.7, 1.2, softmax(4))",
            Event::ObjectivePerturbation {
                noise_multiplier: 3.7,
                regularization: 1.2,
                link: GlmLink::Softmax { classes: 4 },
            },
        ),
        ("poisson(256/1024, gaussian(1.5)) x 10", gaussian.clone().poisson_sampled(0.25).self_composed(10)),
        ("10 x poisson(0.25, gaussian(1.5))", gaussian.clone().poisson_sampled(0.25).self_composed(10)),
        ("gaussian(1.5)*1e3 + gaussian(1.5)", {
            Event::composed(vec![gaussian.clone().self_composed(1000), gaussian.clone()])
        }),
        ("(gaussian(1.5) + nothing()) × 2", { Event::composed(vec![gaussian.clone(), Event::NoOp]).self_composed(2) }),
        (
            "subset(100, 7, gaussian(1.5))",
            Event::SampledWithoutReplacement {
                source_dataset_size: 100,
                sample_size: 7,
                event: Box::new(gaussian.clone()),
            },
        ),
        ("approximate(1e-15, gaussian(1.5))", {
            Event::Approximate { total_variation: 1e-15, event: Box::new(gaussian.clone()) }
        }),
    ] {
        assert_eq!(parse(text, None), Ok(event), "{text}");
    }
}

#[test]
fn says_where_and_what_is_wrong() {
    for (text, position, part) in [
        ("", 1, "expected a mechanism"),
        ("gausian(1)", 1, "`gausian` is not a mechanism"),
        ("gaussian(0)", 10, "positive"),
        ("gaussian(-1)", 10, "positive"),
        ("gaussian(1", 11, "expected `)`"),
        ("gaussian(?)", 10, "to be found"),
        ("poisson(1.5, gaussian(1))", 9, "at most 1"),
        ("poisson(0.5)", 12, "expected `,`"),
        ("gaussian(1) x 1.5", 15, "whole number"),
        ("gaussian(1) laplace(1)", 13, "expected `+`"),
        ("subset(5, 6, gaussian(1))", 12, "larger"),
        ("gaussian(epsilon=1)", 10, "expected `noise_multiplier`"),
        ("gaussian(1/0)", 10, "positive"),
        ("randomized_response(?, 2)", 21, "cannot be searched for"),
        ("rdp(2, 0.1)", 6, "expected `:`"),
        ("tree(1)", 7, "number of steps"),
        ("users(?, gaussian(1))", 7, "expected a number"),
        ("objective(1, 1, probit)", 17, "monotone"),
        ("laplace", 1, "`laplace` needs its parameter in brackets: 'laplace(b)', for example 'laplace(1)' (Laplace"),
        ("2 x gaussian( )", 5, "'gaussian(z)', for example 'gaussian(1)' (Gaussian noise, standard deviation z"),
        ("poisson", 1, "needs its parameters in brackets: 'poisson(q, M)' (M on a Poisson sample"),
        ("nothing", 1, "`nothing` needs brackets: 'nothing()'"),
        ("gaussian(z)", 10, "expected a number"),
    ] {
        let error = parse(text, None).unwrap_err();
        assert!(error.position == position && error.message.contains(part), "{text}: {error}");
    }
    assert!(parse(&"(".repeat(100_000), None).is_err());
}

#[test]
fn a_name_that_is_none_is_answered_by_all_names() {
    let names = "gaussian, laplace, discrete_laplace, discrete_gaussian, randomized_response, exponential, permute_and_flip, \
                 mixture, chi_square, tree, objective, pure, approx, epsilon_delta, propose_test_release, gdp, zcdp, rdp, profile, poisson, \
                 gated, truncated_poisson, random_allocation, subset, draws, best_of, parallel, users, approximate, nothing, non_private";
    let error = parse("gausian(1)", None).unwrap_err();
    assert_eq!(error.message, format!("`gausian` is not a mechanism; give one of {names}"));
    assert_eq!(error.name.as_deref(), Some("gausian"));
    let listed: Vec<_> = mechanisms().iter().filter_map(|mechanism| mechanism.written.split('(').next()).collect();
    assert_eq!(listed.join(", "), names);
}

/// Where a `?` may stand, and what it stands for.
#[test]
fn unknowns_know_what_they_are() {
    for (text, free) in [
        ("gaussian(1)", vec![]),
        ("gaussian(?) + laplace(?) + discrete_gaussian(?, 2)", vec![Free::Noise]),
        ("exponential(?) + gdp(?) + discrete_laplace(?)", vec![Free::Cost]),
        ("poisson(?, gaussian(1)) x 10", vec![Free::SamplingProbability]),
        ("poisson(0.1, gaussian(1)) x ?", vec![Free::Steps]),
        ("? x gaussian(1)", vec![Free::Steps]),
        ("subset(100, ?, gaussian(1)) x 7", vec![Free::SampleSize { of: 100 }]),
        ("poisson(?, gaussian(?))", vec![Free::SamplingProbability, Free::Noise]),
    ] {
        assert_eq!(free_parameters(text), Ok(free), "{text}");
    }
    assert_eq!(parse("? x gaussian(2)", Some(7.0)), Ok(Event::gaussian(2.0).self_composed(7)));
    assert_eq!(
        parse("subset(10, ?, gaussian(2))", Some(3.0)),
        Ok(Event::gaussian(2.0).sampled_without_replacement(10, 3))
    );
}

proptest! {
    #[test]
    fn never_panics(text in "[a-z(),:+x*?0-9. /=é×-]{0,60}") {
        let _ = parse(&text, Some(1.0));
    }
}
