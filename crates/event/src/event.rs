//! Mechanisms described as plain values: a tree that every accountant can read.
//!
//! Names and meaning follow Google's `dp_accounting` (`dp_event.py`), node by node; docs/proofs/accounting-pld.md
//! lists the conditions. A *noise multiplier* is the noise standard deviation (or scale) divided by C, where C bounds the
//! norm of **one record's contribution** (not the diameter of the set of contributions).
//!
//! An event can be written and read as JSON ([`json`]), is checked against a relation by [`Event::check`], has a
//! short formula (`Display`) and a [fingerprint](Event::fingerprint) for caches.

mod check;
mod classes;
mod display;
pub(crate) mod entries;
pub mod group;
pub mod json;
mod simplify;
mod table;
mod tree;

pub use check::EventError;
pub use classes::{Class, ClassField, classes};
pub use simplify::Exact;

/// What a mechanism does, as public numbers only.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Nothing is released.
    NoOp,
    /// Something is released without protection. Every accountant refuses it.
    NonPrivate,
    /// Something without a description yet. Every accountant refuses it.
    Unsupported,
    /// With probability `noise_parameter` a uniform bucket, otherwise the true one of `num_buckets`.
    RandomizedResponse {
        /// Probability p in [0, 1] of answering with a uniform bucket.
        noise_parameter: f64,
        /// Number of buckets k ≥ 2.
        num_buckets: u64,
    },
    /// Gaussian noise of standard deviation `noise_multiplier`·C on a sum of contributions of l2 norm at most C.
    Gaussian {
        /// Noise standard deviation divided by C.
        noise_multiplier: f64,
    },
    /// Laplace noise of scale `noise_multiplier`·C on a sum of contributions of l1 norm at most C.
    Laplace {
        /// Scale divided by C.
        noise_multiplier: f64,
    },
    /// Integer noise with P(x) ∝ exp(-noise_parameter·|x|) on integer sums of l1 sensitivity `sensitivity`.
    DiscreteLaplace {
        /// Decay of the noise's law per unit of the integers.
        noise_parameter: f64,
        /// l1 norm of one record's contribution, an integer.
        sensitivity: u64,
    },
    /// Integer noise with P(x) ∝ exp(-x²/(2·sigma²)) on each of `dimension` integer sums (Canonne, Kamath, Steinke 2020).
    DiscreteGaussian {
        /// σ, in units of the integers (not divided by C).
        sigma: f64,
        /// l2 norm bound C ≥ 1 of one record's integer contribution.
        sensitivity: f64,
        /// Number of sums; `None` if unknown. One sum costs a little less than several.
        dimension: Option<u64>,
    },
    /// Choice with probability ∝ exp(score·epsilon/(2·sensitivity)), sensitivity being how far a score moves when a
    /// record is removed *or* replaced: ε-DP and ε-bounded range under every relation.
    ExponentialMechanism {
        /// ε of the choice.
        epsilon: f64,
    },
    /// Choice by permute-and-flip (McKenna, Sheldon 2020), the same as the largest score with exponential noise of scale
    /// 2·sensitivity/epsilon; sensitivity as for [`Event::ExponentialMechanism`]. ε-DP, dominated by Laplace noise of scale 1/ε.
    PermuteAndFlip {
        /// ε of the choice.
        epsilon: f64,
    },
    /// μ-GDP: the pair N(0,1), N(μ,1) dominates in both directions, under the relation it is accounted for.
    Gdp {
        /// The parameter μ ≥ 0.
        mu: f64,
    },
    /// Rényi curve: divergence at most `divergences[i]` nats at `orders[i]`, in both directions.
    Rdp {
        /// Orders α > 1, increasing.
        orders: Vec<f64>,
        /// Divergences ρ(α) ≥ 0.
        divergences: Vec<f64>,
    },
    /// (ξ, ρ)-zCDP: Rényi divergence at most ξ + ρα at every order α > 1.
    Zcdp {
        /// ρ ≥ 0, the coefficient of the order α.
        rho: f64,
        /// ξ ≥ 0, the constant term.
        xi: f64,
    },
    /// (`epsilons[i]`, `deltas[i]`)-DP for every i, in both directions, of one and the same mechanism.
    PrivacyProfile {
        /// ε ≥ 0, increasing.
        epsilons: Vec<f64>,
        /// δ in [0, 1], non-increasing.
        deltas: Vec<f64>,
    },
    /// Any *interactive* ε-DP mechanism, for example the answers of AboveThreshold; may run concurrently with others.
    PureStream {
        /// ε of the whole interaction.
        epsilon: f64,
    },
    /// Gaussian noise behind a fresh random projection: X ~ χ²_m is public and the shift is mu·√(X/m).
    ChiSquareGaussian {
        /// Number m of rows of the projection: the degrees of freedom of X.
        degrees_of_freedom: u64,
        /// Shift at X = m for contributions of norm at most C (twice that under replace-one).
        mu: f64,
    },
    /// A test whose answer is `epsilon`-DP; where it passes, Gaussian noise of standard deviation `noise_multiplier`·C (Dwork, Lei 2009;
    /// docs/proofs/certified-clipped-sgd.md). For every pair of neighbours (and whatever was released before) either C bounds what one record's
    /// presence moves, or the test is the same on both and passes with probability at most `delta`.
    ProposeTestRelease {
        /// ε of the test's answer.
        epsilon: f64,
        /// δ: probability to pass where nothing bounds what a record moves.
        delta: f64,
        /// Noise standard deviation divided by C.
        noise_multiplier: f64,
    },
    /// Pair Σ p_j N(c_j, σ²) (record present) against N(0, σ²) (record absent); all c_j ≥ 0.
    MixtureOfGaussians {
        /// Noise standard deviation σ.
        standard_deviation: f64,
        /// Shifts c_j ≥ 0, in the units of σ.
        sensitivities: Vec<f64>,
        /// p_j, adding up to 1.
        sampling_probs: Vec<f64>,
    },
    /// Prefix sums over one pass: only complete dyadic nodes are released, each with noise `noise_multiplier`·C,
    /// and a record is in at most one leaf of all trees.
    SingleEpochTreeAggregation {
        /// Noise per node divided by C.
        noise_multiplier: f64,
        /// Number of steps of each tree.
        step_counts: Vec<u64>,
    },
    /// Poisson sampling of which at most `truncated_batch_size` records are kept, a uniform choice of them. An absent record
    /// takes no place in a batch under add-or-remove, and may keep it (contributing nothing) or not under zero-out.
    TruncatedSubsampledGaussian {
        /// n, public. Under add-or-remove a public upper bound: the data (with the record) never have more records.
        dataset_size: u64,
        /// Probability q in (0, 1] with which each record is sampled.
        sampling_probability: f64,
        /// Largest number of records that a batch keeps.
        truncated_batch_size: u64,
        /// Noise standard deviation σ divided by C.
        noise_multiplier: f64,
    },
    /// `event` repeated a random, secret number of times and the best output released (Rényi accountant).
    RepeatAndSelect {
        /// The event of one run, its score included.
        event: Box<Event>,
        /// Mean E[K] of the secret number of runs.
        mean: f64,
        /// 0 logarithmic, 1 geometric, between truncated negative binomial, +∞ Poisson.
        shape: f64,
    },
    /// A mechanism of which nothing is known but that it is (ε, δ)-DP.
    EpsilonDelta {
        /// ε of the mechanism.
        epsilon: f64,
        /// δ of the mechanism, a probability.
        delta: f64,
    },
    /// Any interactive (ε, δ)-DP mechanism.
    ApproxDp {
        /// ε of the whole interaction.
        epsilon: f64,
        /// δ of the whole interaction, a probability.
        delta: f64,
    },
    /// Objective perturbation of a regularised GLM at its *exact* minimiser (docs/proofs/objective-perturbation-profile.md).
    /// Must be composed with the closing Gaussian of docs/proofs/objective-perturbation.md.
    ObjectivePerturbation {
        /// Standard deviation σ of the linear term b ~ N(0, σ²I), divided by R·C: row norm R, slope bound C (1 for
        /// softmax, whose factor √2 the accountants add).
        noise_multiplier: f64,
        /// λ of the sum objective, divided by R²·C (dividing the whole objective by C leaves slopes of at most 1).
        regularization: f64,
        /// What is known of the loss as a function of the score.
        link: GlmLink,
    },
    /// Each record enters with probability `sampling_probability`, independently and secretly.
    PoissonSampled {
        /// Sampling probability q in (0, 1].
        sampling_probability: f64,
        /// What is done with the sample.
        event: Box<Event>,
    },
    /// A coin, shown, decides whether `event` happens: with probability at most `probability`, which is the same on neighbouring
    /// data once everything shown before is the same (docs/proofs/online-experts.md).
    Gated {
        /// q in [0, 1], a bound on the coin's probability.
        probability: f64,
        /// The event that happens if the coin says so.
        event: Box<Event>,
    },
    /// A uniformly random set of `sample_size` of the `source_dataset_size` records, fresh each time.
    SampledWithoutReplacement {
        /// Public number n of records.
        source_dataset_size: u64,
        /// Number m ≤ n of records in the sample.
        sample_size: u64,
        /// What is done with the sample.
        event: Box<Event>,
    },
    /// `sample_size` records drawn with replacement from `source_dataset_size`, fresh each time.
    SampledWithReplacement {
        /// Public number n of records.
        source_dataset_size: u64,
        /// Number m of draws.
        sample_size: u64,
        /// What is done with the sample.
        event: Box<Event>,
    },
    /// Random allocation (balls in bins): each record takes part in `num_selected` of `num_steps` calls of `event`, a uniform
    /// choice of them, made for each record independently, secretly and afresh for every event of this kind.
    RandomAllocation {
        /// What is done in each step.
        event: Box<Event>,
        /// Number k ≤ t of calls that a record takes part in.
        num_selected: u64,
        /// Number t ≥ 1 of calls.
        num_steps: u64,
    },
    /// Disjoint blocks of records, split independently of the records' values; block i is released by `blocks[i]`.
    Parallel {
        /// One event per block.
        blocks: Vec<Event>,
    },
    /// Protects a user who owns at most `records_per_user` records (enforced); `event` is per record.
    UserUnit {
        /// Largest number k of records that a user owns.
        records_per_user: u64,
        /// The release, described for one record.
        event: Box<Event>,
    },
    /// `event`, `count` times, each with fresh randomness; parameters fixed in advance, inputs may be adaptive.
    SelfComposed {
        /// The event that is repeated.
        event: Box<Event>,
        /// Number of repetitions.
        count: u64,
    },
    /// All of `events`, in any adaptive order of inputs; parameters fixed in advance.
    Composed {
        /// The events that are composed.
        events: Vec<Event>,
    },
    /// The code's sampler is within `total_variation` of the exact law of `event`, summed over the whole event
    /// (docs/proofs/accounting-pld.md, "Samplers' error"): δ grows by (1 + e^ε)·`total_variation`.
    Approximate {
        /// Upper bound on the summed total-variation distance.
        total_variation: f64,
        /// The event of the exact law.
        event: Box<Event>,
    },
}

/// Shape of a per-record loss φ(score) that objective perturbation relies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GlmLink {
    /// Slope c in [0, 1] with curvature at most c(1-c): logistic and shifted logistic.
    Monotone,
    /// |slope| ≤ 1 (after division by C), curvature ≤ `smoothness` (divided by C).
    Smooth {
        /// Upper bound on the curvature.
        smoothness: f64,
    },
    /// Softmax cross-entropy over `classes` classes.
    Softmax {
        /// Number of classes, at least 2.
        classes: u32,
    },
}

impl Event {
    /// The Gaussian mechanism with noise of standard deviation `noise_multiplier`·C.
    pub fn gaussian(noise_multiplier: f64) -> Self {
        Self::Gaussian { noise_multiplier }
    }

    /// `self` on a Poisson sample.
    pub fn poisson_sampled(self, sampling_probability: f64) -> Self {
        Self::PoissonSampled { sampling_probability, event: Box::new(self) }
    }

    /// `self` where a shown coin of at most this probability says so.
    pub fn gated(self, probability: f64) -> Self {
        Self::Gated { probability, event: Box::new(self) }
    }

    /// `self` repeated `count` times, each with fresh randomness.
    pub fn self_composed(self, count: u64) -> Self {
        Self::SelfComposed { event: Box::new(self), count }
    }

    /// The composition of all of `events`.
    pub fn composed(events: Vec<Event>) -> Self {
        Self::Composed { events }
    }

    /// The Laplace mechanism with noise of scale `noise_multiplier`·C.
    pub fn laplace(noise_multiplier: f64) -> Self {
        Self::Laplace { noise_multiplier }
    }

    /// `self` on a uniform sample of `sample_size` of `source_dataset_size` records.
    pub fn sampled_without_replacement(self, source_dataset_size: u64, sample_size: u64) -> Self {
        Self::SampledWithoutReplacement { source_dataset_size, sample_size, event: Box::new(self) }
    }

    /// `num_steps` calls of `self`, each record taking part in one of them, chosen at random.
    pub fn randomly_allocated(self, num_steps: u64) -> Self {
        Self::RandomAllocation { event: Box::new(self), num_selected: 1, num_steps }
    }

    /// `self`, described for one record, as it protects all of at most `records` records of one user.
    ///
    /// ```
    /// use dpopt_event::Event;
    /// assert_eq!(Event::gaussian(4.0).for_users_of(1), Event::gaussian(4.0));
    /// assert_eq!(Event::gaussian(4.0).for_users_of(8).to_string(), "User(8 records, Gaussian(4))");
    /// ```
    pub fn for_users_of(self, records: u64) -> Self {
        if records == 1 { self } else { Self::UserUnit { records_per_user: records, event: Box::new(self) } }
    }

    /// `self` by a sampler within `total_variation` of the exact law.
    pub fn approximate(self, total_variation: f64) -> Self {
        Self::Approximate { total_variation, event: Box::new(self) }
    }

    /// The events directly below this one.
    pub fn children(&self) -> &[Event] {
        match self {
            Self::Composed { events } | Self::Parallel { blocks: events } => events,
            Self::PoissonSampled { event, .. }
            | Self::Gated { event, .. }
            | Self::SampledWithoutReplacement { event, .. }
            | Self::SampledWithReplacement { event, .. }
            | Self::SelfComposed { event, .. }
            | Self::RandomAllocation { event, .. }
            | Self::RepeatAndSelect { event, .. }
            | Self::UserUnit { event, .. }
            | Self::Approximate { event, .. } => std::slice::from_ref(event),
            _ => &[],
        }
    }

    /// Whether it speaks of users who own several records, somewhere.
    pub(crate) fn contains_user_unit(&self) -> bool {
        matches!(self, Self::UserUnit { .. }) || self.children().iter().any(Self::contains_user_unit)
    }

    /// 256-bit hash of the structure and the exact bits of every number, for caches. Equal events have equal
    /// fingerprints; it does not depend on how numbers are printed.
    ///
    /// ```
    /// use dpopt_event::Event;
    /// assert_eq!(Event::gaussian(2.0).fingerprint(), Event::gaussian(2.0).fingerprint());
    /// assert_ne!(Event::gaussian(2.0).fingerprint(), Event::gaussian(2.0f64.next_up()).fingerprint());
    /// ```
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        json::feed(self, &mut hasher);
        *hasher.finalize().as_bytes()
    }
}
