//! What a user may choose of a method besides numbers, as plain values: what each choice does is said where the method is.

use serde::{Deserialize, Serialize};

/// Where the weights may lie; a public choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Domain {
    /// Weights may lie anywhere.
    #[default]
    Unconstrained,
    /// Every weight in [−radius, radius].
    Box {
        /// Half a side of the box, above 0.
        radius: f64,
    },
    /// All weights together of l2 norm at most `radius`.
    Ball {
        /// Radius of the ball, above 0.
        radius: f64,
    },
}

/// How steps adapt to the released gradients ĝ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdaptiveRule {
    /// One rate α/√Σ‖ĝ‖² for all weights (PASAN).
    Scalar,
    /// α/√Σĝ_j² for weight j (AdaGrad, PAGAN).
    Diagonal,
    /// α·m_j/√v_j with fading means m of ĝ and v of ĝ² (Adam).
    Adam,
}
