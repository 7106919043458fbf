//! One entry per event: what it is, its class, its fields, and how it is written. Everything that lists events is made from it:
//! reading and writing JSON, hashes and the check of ranges ([`table`](super::table)), the language of
//! [`expression`](crate::expression) and its help, and Python's classes ([`classes`](super::classes)).
//!
//! `entries!(other)` hands the entries to a macro `other`, which takes what it needs. An entry is
//!
//! ```text
//! /// Documentation of the class in Python.
//! Variant "ClassInJson" MODULE { field: Range = value if left out, … }
//!     [name or other_name "parameters" "meaning" { field: form = value if left out, … }]
//! ```
//!
//! The ranges are those of `table`. The line in brackets is how the event is written in the language: its parameters and meaning as
//! the help shows them, and its arguments in their order. A form is a method of the parser, which reads the argument and refuses what
//! lies outside its range. Where arguments are no plain list, `by |parser| { … }` reads them.
//!
//! The order is that in which the help and messages list the names.

macro_rules! entries {
    ($then:ident) => {
        $then! {
            /// Gaussian noise of standard deviation noise_multiplier·C on a sum clipped to l2 norm C.
            Gaussian "GaussianDpEvent" PEER { noise_multiplier: AtLeast0 }
                [gaussian "z" "Gaussian noise, standard deviation z x the norm bound of one record" { noise_multiplier: noise }]
            /// Laplace noise of scale noise_multiplier·C on a sum clipped to l1 norm C.
            Laplace "LaplaceDpEvent" PEER { noise_multiplier: AtLeast0 }
                [laplace "b" "Laplace noise of scale b x the l1 bound" { noise_multiplier: noise }]
            /// Integer noise P(x) ∝ exp(-noise_parameter·|x|).
            DiscreteLaplace "DiscreteLaplaceDpEvent" PEER { noise_parameter: Positive, sensitivity: From1 }
                [discrete_laplace "a, s" "P(x) ~ exp(-a |x|) on integers, integer sensitivity s (default 1)"
                    { noise_parameter: cost, sensitivity: integer = 1 }]
            /// Integer noise P(x) ∝ exp(-x²/(2·sigma²)) on `dimension` integer sums (None: any number of them).
            ///
            /// `sensitivity` is the l2 norm of one record's contribution, at least 1.
            // a sensitivity below 1 is a mistake of units: two integer vectors that differ are at least 1 apart
            DiscreteGaussian "DiscreteGaussianDpEvent" PEER { sigma: AtLeast0, sensitivity: AtLeast1 = 1.0, dimension: From1 = None }
                [discrete_gaussian "s, c, d" "P(x) ~ exp(-x^2 / 2s^2) on d integer sums (default any), l2 sensitivity c (default 1)"
                    { sigma: noise, sensitivity: at_least_1 = 1.0, dimension: known_integer = None }]
            /// A uniform bucket with probability `noise_parameter`.
            RandomizedResponse "RandomizedResponseDpEvent" PEER { noise_parameter: Probability, num_buckets: From2 }
                [randomized_response "p, k" "a uniform one of k answers with probability p" { noise_parameter: probability, num_buckets: integer }]
            /// A choice with probability ∝ exp(ε·score/(2·sensitivity)).
            ExponentialMechanism "ExponentialMechanismDpEvent" PEER { epsilon: AtLeast0 }
                [exponential or exponential_mechanism "e" "exponential mechanism" { epsilon: cost }]
            /// A choice by permute-and-flip: ε-DP, and never more distinguishable than Laplace noise of scale 1/ε.
            PermuteAndFlip "PermuteAndFlipDpEvent" PEER { epsilon: AtLeast0 }
                [permute_and_flip "e" "permute-and-flip" { epsilon: cost }]
            /// A mixture of shifted Gaussians against one.
            MixtureOfGaussians "MixtureOfGaussiansDpEvent" PEER { standard_deviation: Positive, sensitivities: AtLeast0, sampling_probs: Probability }
                [mixture or mixture_of_gaussians "s, c: p, ..." "Gaussian noise s, shift c with probability p" by |parser| {
                    let standard_deviation = parser.noise("standard_deviation")?;
                    parser.comma()?;
                    let (sensitivities, sampling_probs) = parser.pairs()?;
                    Ok(Event::MixtureOfGaussians { standard_deviation, sensitivities, sampling_probs })
                }]
            /// Gaussian noise behind a fresh random projection.
            ChiSquareGaussian "ChiSquareGaussianDpEvent" OWN { degrees_of_freedom: From1, mu: AtLeast0 }
                [chi_square "m, mu" "Gaussian noise behind a fresh random projection" { degrees_of_freedom: integer, mu: cost }]
            /// Prefix sums over one pass, noise per dyadic node.
            SingleEpochTreeAggregation "SingleEpochTreeAggregationDpEvent" PEER { noise_multiplier: AtLeast0, step_counts: From1 }
                [tree "z, n, ..." "prefix sums over n steps, noise z per node" by |parser| {
                    let noise_multiplier = parser.noise("noise_multiplier")?;
                    let mut step_counts = vec![];
                    while parser.eat(",") {
                        step_counts.push(parser.integer("step_counts")?);
                    }
                    if step_counts.is_empty() {
                        return Err(parser.wrong("expected `,` and the number of steps, as in tree(1.1, 1000)"));
                    }
                    Ok(Event::SingleEpochTreeAggregation { noise_multiplier, step_counts })
                }]
            /// Objective perturbation at its exact minimiser; link is 'monotone', 'smooth' or 'softmax'.
            ObjectivePerturbation "ObjectivePerturbationDpEvent" OWN { noise_multiplier: Positive, regularization: Positive, link: Any }
                [objective or objective_perturbation "z, l, link" "objective perturbation; link: monotone (default), smooth(B), softmax(K)"
                    { noise_multiplier: noise, regularization: noise, link: link = GlmLink::Monotone }]
            /// Any interactive ε-DP mechanism.
            PureStream "PureStreamDpEvent" OWN { epsilon: AtLeast0 }
                [pure or pure_stream "e" "any interactive e-DP mechanism" { epsilon: cost }]
            /// Any interactive (ε, δ)-DP mechanism.
            ApproxDp "ApproxDpDpEvent" OWN { epsilon: AtLeast0, delta: BelowOne }
                [approx or approx_dp "e, d" "any interactive (e, d)-DP mechanism (d default 0)" { epsilon: cost_from_0, delta: probability = 0.0 }]
            /// A mechanism of which nothing is known but that it is (ε, δ)-DP.
            EpsilonDelta "EpsilonDeltaDpEvent" PEER { epsilon: AtLeast0, delta: BelowOne }
                [epsilon_delta "e, d" "any (e, d)-DP mechanism" { epsilon: cost_from_0, delta: probability }]
            /// A test that is ε-DP, and Gaussian noise where it passes; δ: to pass where nothing bounds what a record moves.
            ProposeTestRelease "ProposeTestReleaseDpEvent" OWN { epsilon: AtLeast0, delta: BelowOne, noise_multiplier: AtLeast0 }
                [propose_test_release "e, d, z" "an e-DP test, wrongly passed with probability d; Gaussian noise z where it passes"
                    { epsilon: positive_number, delta: probability, noise_multiplier: noise }]
            /// μ-Gaussian differential privacy.
            Gdp "GdpDpEvent" OWN { mu: AtLeast0 }
                [gdp "mu" "a stated guarantee: mu-Gaussian DP" { mu: cost }]
            /// (xi, rho)-zCDP.
            Zcdp "ZCDpEvent" PEER { rho: AtLeast0, xi: AtLeast0 = 0.0 }
                [zcdp "rho, xi" "a stated guarantee: (xi, rho)-zCDP (xi default 0)" { rho: cost, xi: at_least_0 = 0.0 }]
            /// A Rényi curve at some orders.
            Rdp "RdpDpEvent" OWN { orders: Any, divergences: AtLeast0 }
                [rdp "a: r, ..." "a stated Renyi curve" by |parser| {
                    let (orders, divergences) = parser.pairs()?;
                    Ok(Event::Rdp { orders, divergences })
                }]
            /// (epsilons[i], deltas[i])-DP for every i.
            PrivacyProfile "PrivacyProfileDpEvent" OWN { epsilons: Any, deltas: Probability }
                [profile "e: d, ..." "stated pairs of epsilon and delta" by |parser| {
                    let (epsilons, deltas) = parser.pairs()?;
                    Ok(Event::PrivacyProfile { epsilons, deltas })
                }]
            /// Each record enters independently with `sampling_probability`.
            PoissonSampled "PoissonSampledDpEvent" PEER { sampling_probability: Probability, event: Any }
                [poisson or poisson_sampled "q, M" "M on a Poisson sample with probability q, e.g. 256/60000"
                    { sampling_probability: sampling_probability, event: nested }]
            /// `event` where a coin says so that is shown and has the same law on neighbouring data.
            Gated "GatedDpEvent" OWN { probability: Probability, event: Any }
                [gated "q, M" "M where a coin that is shown says so, with probability at most q" { probability: probability, event: nested }]
            /// Poisson batches cut to a size; `dataset_size` is an upper bound under add-or-remove.
            TruncatedSubsampledGaussian "TruncatedSubsampledGaussianDpEvent" PEER {
                dataset_size: From1, sampling_probability: Probability, truncated_batch_size: From1, noise_multiplier: AtLeast0
            }
                [truncated_poisson "n, q, m, z" "Gaussian noise z on at most m records of a Poisson sample of n"
                    { dataset_size: integer, sampling_probability: sampling_probability, truncated_batch_size: integer, noise_multiplier: noise }]
            /// Each record takes part in `num_selected` of `num_steps` calls of `event`, chosen uniformly, independently of all others.
            RandomAllocation "RandomAllocationDpEvent" PEER { event: Any, num_selected: Any, num_steps: From1 }
                [random_allocation or balls_in_bins "t, k, M" "M t times, each record in k of them at random (k: default 1, balls in bins)"
                by |parser| {
                    let num_steps = parser.integer("num_steps")?;
                    parser.comma()?;
                    let several = parser.is_next_number_or("num_selected");
                    let num_selected = if several { parser.integer("num_selected")? } else { 1 };
                    if several {
                        parser.comma()?;
                    }
                    if num_selected > num_steps {
                        return Err(parser.wrong("more steps than there are: write random_allocation(t, k, event), k <= t"));
                    }
                    Ok(Event::RandomAllocation { event: parser.nested("event")?, num_selected, num_steps })
                }]
            /// A fresh subset of fixed size.
            SampledWithoutReplacement "SampledWithoutReplacementDpEvent" PEER { source_dataset_size: From1, sample_size: Any, event: Any }
                [subset or sampled_without_replacement "n, m, M" "M on m of n records without replacement" by |parser| {
                    let (source_dataset_size, sample_size) = parser.sample()?;
                    if sample_size > source_dataset_size {
                        return Err(parser.wrong("the sample is larger than the data set: write subset(n, m, event), m <= n"));
                    }
                    parser.comma()?;
                    Ok(Event::SampledWithoutReplacement { source_dataset_size, sample_size, event: parser.nested("event")? })
                }]
            /// A fresh sample drawn with replacement.
            SampledWithReplacement "SampledWithReplacementDpEvent" PEER { source_dataset_size: From1, sample_size: Any, event: Any }
                [draws or sampled_with_replacement "n, m, M" "M on m of n records drawn with replacement" by |parser| {
                    let (source_dataset_size, sample_size) = parser.sample()?;
                    parser.comma()?;
                    Ok(Event::SampledWithReplacement { source_dataset_size, sample_size, event: parser.nested("event")? })
                }]
            /// `event` a random secret number of times, the best output released.
            RepeatAndSelect "RepeatAndSelectDpEvent" PEER { event: Any, mean: Positive, shape: AtLeast0OrInfinity }
                [best_of or repeat_and_select "mean, shape, M" "M a random number of times, the best output kept (shape inf: Poisson)"
                    { mean: cost, shape: at_least_0_or_infinity, event: nested }]
            /// One event on each of several disjoint blocks of records.
            Parallel "ParallelDpEvent" OWN { blocks: Any }
                [parallel "M, M', ..." "disjoint blocks of records" { blocks: list }]
            /// `event` per record, for users with at most k records.
            UserUnit "UserUnitDpEvent" OWN { records_per_user: From1, event: Any }
                [users "k, M" "users with at most k records" { records_per_user: integer, event: nested }]
            /// `event` drawn by a sampler within `total_variation` of the exact law.
            Approximate "ApproximateDpEvent" OWN { total_variation: BelowOne, event: Any }
                [approximate "t, M" "M up to total variation t" { total_variation: probability, event: nested }]
            /// Nothing is released.
            NoOp "NoOpDpEvent" PEER {}
                [nothing or no_op "" "nothing is released" {}]
            /// Something is released without protection; every accountant refuses it.
            NonPrivate "NonPrivateDpEvent" PEER {}
                [non_private "" "a release without protection" {}]
            // what has no name in the language: `M x 1000` and `M + M'` are written so
            /// Something without a description; every accountant refuses it.
            Unsupported "UnsupportedDpEvent" PEER {}
            /// `event`, `count` times with fresh randomness.
            SelfComposed "SelfComposedDpEvent" PEER { event: Any, count: Any }
            /// All of `events`.
            Composed "ComposedDpEvent" PEER { events: Any }
        }
    };
}
pub(crate) use entries;
