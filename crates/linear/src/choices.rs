//! What a user may choose of a method besides numbers, as plain values: what each choice does is said where the method is.

use dpopt_optimize::Domain;
use serde::{Deserialize, Serialize};

/// How the learning rate falls during a run, in eight equal stages: the noise of untouched weights has one law per stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateSchedule {
    /// One learning rate for all steps.
    #[default]
    Constant,
    /// The rate falls in equal steps down to an eighth.
    Linear,
    /// Along half a cosine, down to about a hundredth.
    Cosine,
    /// The rate falls as 1/√(1 + stage).
    InverseSqrt,
}

/// Where the moments σ_j of the features come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Moments {
    /// Nowhere: a ball, the same noise in every coordinate.
    None,
    /// Public knowledge: σ_j ≥ 0 in any unit, one per encoded feature.
    Public {
        /// σ_j: spread of each encoded feature, in any unit.
        spreads: Vec<f64>,
    },
    /// A release of all squares of features before the first step.
    Private,
    /// Algorithm 3: round by round from the largest moments down, for features with light tails.
    PrivateHalving,
    /// The gradients released so far: no budget, but much noise.
    Running,
}

/// Where gradients are projected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Subspace {
    /// The first k features: publicly known to be the largest.
    Coordinates {
        /// k: number of features kept.
        rank: usize,
    },
    /// The k leading directions of Σxxᵀ, released for a share of the budget.
    Private {
        /// k: number of directions kept.
        rank: usize,
    },
}

/// What a user can fix of an adaptive method, besides what every descent has. `None` means: the method's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdaptiveOptions {
    /// Where the shape of the ellipsoid comes from. Default: a private release for `pasan` and `pagan`, none for the others.
    pub moments: Option<Moments>,
    /// Project released gradients on few directions. Default: `pdp-sgd` on 20 that are released first, the others on none.
    pub subspace: Option<Subspace>,
    /// Share of the budget (of μ²) for private moments, or for a private subspace, in [0.001, 0.5]. Default 0.1.
    pub moment_share: Option<f64>,
    /// r ≥ 1 of [`Moments::PrivateHalving`]. Default 1.
    pub moment_ratio: Option<f64>,
    /// Where the weights may lie. Default: anywhere.
    pub domain: Option<Domain>,
    /// Clip to the nearest point of the ellipsoid in l2, as Asi et al. 2021 define it, instead of radially: its bound on the bias
    /// does not hold then. Slow.
    pub euclidean_clip: bool,
    /// β₂ of Adam in [0, 1). Default 0.999.
    pub second_momentum: Option<f64>,
    /// Refused if true: these methods read the noise of all weights at each step.
    pub lazy: Option<bool>,
}

/// Options of the private choice of rows. `None` means: chosen from public facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RowSelection {
    /// σ₁/σ₂: noise of the counts over noise of the gradients, in [0.1, 100]. Default 3: 5% more noise on gradients than
    /// without a choice.
    pub noise_ratio: Option<f64>,
    /// Level of counts in standard deviations of their noise, from 1/8 to 9, rounded to eighths. Default: at least 4, and so
    /// high that a step chooses one untouched feature or fewer on average.
    pub level: Option<f64>,
    /// C₁: l2 bound on a record's counts. Default 1.
    pub count_clip_norm: Option<f64>,
}

/// How many inner steps an epoch of DP-SCSG-HT has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerSteps {
    /// Option I: geometric with mean B/b.
    Geometric,
    /// Option II: B/b steps in each epoch.
    Fixed,
}
