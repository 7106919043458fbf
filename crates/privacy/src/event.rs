//! Mechanisms described as plain values: a tree that every accountant can read.
//!
//! Names and meaning follow Google's `dp_accounting` (`dp_event.py`), node by node; spec 18 §1 lists the
//! conditions. A *noise multiplier* is the noise standard deviation (or scale) divided by C, where C bounds the
//! norm of **one record's contribution** (not the diameter of the set of contributions).

/// What a mechanism does, as public numbers only.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Nothing is released.
    NoOp,
    /// Something is released without protection. Every accountant refuses it.
    NonPrivate,
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
        /// Decay per unit.
        noise_parameter: f64,
        /// l1 norm of one record's contribution, an integer.
        sensitivity: u64,
    },
    /// Choice with probability ∝ exp(score·epsilon/(2·sensitivity)): ε-DP and ε-bounded range under every relation.
    ExponentialMechanism {
        /// ε of the choice.
        epsilon: f64,
    },
    /// Any interactive (ε, δ)-DP mechanism.
    ApproxDp {
        /// ε.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
    /// Objective perturbation of a regularised GLM at its *exact* minimiser (spec 17 §3.1–3.4).
    /// Must be composed with the closing Gaussian of spec 17 §3.5.
    ObjectivePerturbation {
        /// Standard deviation σ of the linear term b ~ N(0, σ²I), divided by (row norm R · slope bound C).
        noise_multiplier: f64,
        /// λ of the sum objective, divided by R².
        regularization: f64,
        /// What is known of the loss as a function of the score.
        link: GlmLink,
    },
    /// Each record enters with probability `sampling_probability`, independently and secretly.
    PoissonSampled {
        /// q in (0, 1].
        sampling_probability: f64,
        /// What is done with the sample.
        event: Box<Event>,
    },
    /// A uniformly random set of `sample_size` of the `source_dataset_size` records, fresh each time.
    SampledWithoutReplacement {
        /// n.
        source_dataset_size: u64,
        /// m ≤ n.
        sample_size: u64,
        /// What is done with the sample.
        event: Box<Event>,
    },
    /// `event`, `count` times, each with fresh randomness; parameters fixed in advance, inputs may be adaptive.
    SelfComposed {
        /// What is repeated.
        event: Box<Event>,
        /// How often.
        count: u64,
    },
    /// All of `events`, in any adaptive order of inputs; parameters fixed in advance.
    Composed {
        /// The parts.
        events: Vec<Event>,
    },
    /// The code's sampler is within `total_variation` of the exact law of `event`, summed over the whole event
    /// (spec 18 §1.2): δ grows by (1 + e^ε)·`total_variation`.
    Approximate {
        /// Upper bound on the summed total-variation distance.
        total_variation: f64,
        /// The exact law.
        event: Box<Event>,
    },
}

/// Shape of a per-record loss φ(score) that objective perturbation relies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GlmLink {
    /// Slope c in [0, 1] with curvature at most c(1-c): logistic and shifted logistic (Theorem A of spec 17 §3.2).
    Monotone,
    /// |slope| ≤ 1 (after division by C), curvature ≤ `smoothness` (divided by C); Theorem B of spec 17 §3.3.
    Smooth {
        /// Upper bound on the curvature.
        smoothness: f64,
    },
    /// Softmax cross-entropy over `classes` classes (spec 17 §7.1).
    Softmax {
        /// Number of classes, at least 2.
        classes: u32,
    },
}

impl Event {
    /// Gaussian mechanism.
    pub fn gaussian(noise_multiplier: f64) -> Self {
        Self::Gaussian { noise_multiplier }
    }

    /// `self` on a Poisson sample.
    pub fn poisson_sampled(self, sampling_probability: f64) -> Self {
        Self::PoissonSampled { sampling_probability, event: Box::new(self) }
    }

    /// `self`, `count` times.
    pub fn self_composed(self, count: u64) -> Self {
        Self::SelfComposed { event: Box::new(self), count }
    }

    /// All of `events`.
    pub fn composed(events: Vec<Event>) -> Self {
        Self::Composed { events }
    }
}
