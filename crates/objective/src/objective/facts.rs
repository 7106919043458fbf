//! What is known of an objective, and why it may be believed.

use serde::{Deserialize, Serialize};

/// Why something may be relied on, the surest first: what follows from several facts is as sure as the least sure of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// By a clip, a projection or a check, for every record.
    Enforced,
    /// Proved about the code, for every record.
    Proved,
    /// Declared, and the same on neighbouring data: number of records, declared ranges.
    Public,
    /// Tried on made-up records before any real one was read, and not refuted: a test and no proof.
    Checked,
    /// By the caller, for every record that any neighbour could hold. Nothing checks it.
    #[serde(rename = "vouched")]
    Assumed,
}

impl Evidence {
    /// Of what rests on both.
    ///
    /// ```
    /// use dpopt_objective::objective::Evidence;
    /// assert_eq!(Evidence::Enforced.and(Evidence::Assumed), Evidence::Assumed);
    /// ```
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

/// A bound with its evidence. Only this library says that something is enforced or proved; whoever writes an objective of their own
/// vouches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fact {
    value: f64,
    evidence: Evidence,
}

impl Fact {
    /// `value`, which holds by `evidence`.
    pub(crate) fn new(value: f64, evidence: Evidence) -> Self {
        Self { value, evidence }
    }

    /// **The caller vouches** for it, for every record that any neighbour could hold.
    pub fn assumed(value: f64) -> Self {
        Self::new(value, Evidence::Assumed)
    }

    /// The value of the bound.
    pub fn value(self) -> f64 {
        self.value
    }

    /// Why the bound may be believed.
    pub fn evidence(self) -> Evidence {
        self.evidence
    }

    /// The product of two: as sure as the less sure of them.
    pub(crate) fn times(self, other: Self) -> Self {
        Self::new(self.value * other.value, self.evidence.and(other.evidence))
    }
}

/// What holds for φ_i of *every* record, at every point.
///
/// ```compile_fail,E0451
/// // E0451: what is proved is said by the library only
/// use dpopt_objective::objective::{Facts, Evidence};
/// let forged = Facts { convex: Some(Evidence::Proved), ..Facts::UNKNOWN };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    pub(crate) lipschitz: Option<Fact>,
    pub(crate) smoothness: Option<Fact>,
    pub(crate) convex: Option<Evidence>,
}

impl Facts {
    /// Nothing is known: enough wherever gradients are clipped.
    pub const UNKNOWN: Self = Self { lipschitz: None, smoothness: None, convex: None };

    /// **The caller vouches**, for every record that any neighbour could hold: φ_i is convex, with ‖∇φ_i‖₂ ≤ `lipschitz`. A
    /// guarantee that rests on it is research grade.
    pub fn assume_convex_and_lipschitz(lipschitz: f64) -> Self {
        Self { lipschitz: Some(Fact::assumed(lipschitz)), smoothness: None, convex: Some(Evidence::Assumed) }
    }

    /// These facts as assumptions of a caller, who states them of another objective.
    pub(crate) fn assumed(self) -> Self {
        let word = |fact: Option<Fact>| fact.map(|f| Fact::assumed(f.value));
        let convex = self.convex.map(|_| Evidence::Assumed);
        Self { lipschitz: word(self.lipschitz), smoothness: word(self.smoothness), convex }
    }

    /// Upper bound on ‖∇φ_i‖₂.
    pub fn lipschitz(&self) -> Option<Fact> {
        self.lipschitz
    }

    /// Upper bound on the largest eigenvalue of ∇²φ_i.
    pub fn smoothness(&self) -> Option<Fact> {
        self.smoothness
    }

    /// φ_i is convex, and why.
    pub fn convex(&self) -> Option<Evidence> {
        self.convex
    }

    /// G of objectives that are convex and G-Lipschitz; infinite where one of them is not known: no theorem holds then.
    pub fn convex_lipschitz(&self) -> f64 {
        self.lipschitz.filter(|_| self.convex.is_some()).map_or(f64::INFINITY, |l| l.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_proves_closures() {
        let linear = crate::objective::Linear::new(crate::loss::Loss::Hinge, 1, 1e-9).known();
        let word = linear.assumed();
        assert_eq!(word.lipschitz(), Some(Fact::assumed(1e-9)));
        assert_eq!((linear.convex(), word.convex()), (Some(Evidence::Proved), Some(Evidence::Assumed)));
    }

    #[test]
    fn what_follows_is_as_sure_as_the_least_sure() {
        let order = [Evidence::Enforced, Evidence::Proved, Evidence::Public, Evidence::Checked, Evidence::Assumed];
        for (i, &a) in order.iter().enumerate() {
            for (j, &b) in order.iter().enumerate() {
                assert_eq!(a.and(b), order[i.max(j)]);
                assert_eq!(Fact::new(2.0, a).times(Fact::new(3.0, b)), Fact::new(6.0, order[i.max(j)]));
            }
        }
    }
}
