//! What is known of an objective, and why it may be believed.

use serde::{Deserialize, Serialize};

/// Why something may be relied on, the surest first: what follows from several facts is as sure as the least sure of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warrant {
    /// By a clip, a projection or a check, for every record.
    Enforced,
    /// By a proof about the code, for every record.
    Proved,
    /// Told, and the same on neighbouring data: number of records, declared ranges.
    Public,
    /// By the caller, for every record that any neighbour could hold. Nothing checks it.
    Vouched,
}

impl Warrant {
    /// Of what rests on both.
    ///
    /// ```
    /// use dpopt::objective::Warrant;
    /// assert_eq!(Warrant::Enforced.and(Warrant::Vouched), Warrant::Vouched);
    /// ```
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

/// A number with its warrant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// The bound.
    pub value: f64,
    /// Why it holds.
    pub warrant: Warrant,
}

impl Fact {
    /// `value`, which holds by `warrant`.
    pub fn new(value: f64, warrant: Warrant) -> Self {
        Self { value, warrant }
    }

    /// What `other` makes of it: as sure as the less sure of the two.
    pub fn times(self, other: Self) -> Self {
        Self { value: self.value * other.value, warrant: self.warrant.and(other.warrant) }
    }
}

/// What holds for φ_i of *every* record, at every point. `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Upper bound on ‖∇φ_i‖₂.
    pub lipschitz: Option<Fact>,
    /// Upper bound on the largest eigenvalue of ∇²φ_i.
    pub smoothness: Option<Fact>,
    /// φ_i is convex.
    pub convex: Option<Warrant>,
}

impl Facts {
    /// Nothing is known: enough wherever gradients are clipped.
    pub const UNKNOWN: Self = Self { lipschitz: None, smoothness: None, convex: None };

    /// **The caller vouches**, for every record that any neighbour could hold: φ_i is convex, with ‖∇φ_i‖₂ ≤ `lipschitz`. A
    /// guarantee that rests on it is research grade.
    pub fn convex_and_lipschitz_on_my_word(lipschitz: f64) -> Self {
        let warrant = Warrant::Vouched;
        Self { lipschitz: Some(Fact { value: lipschitz, warrant }), smoothness: None, convex: Some(warrant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_as_sure_as_the_least_sure() {
        let order = [Warrant::Enforced, Warrant::Proved, Warrant::Public, Warrant::Vouched];
        for (i, &a) in order.iter().enumerate() {
            for (j, &b) in order.iter().enumerate() {
                assert_eq!(a.and(b), order[i.max(j)]);
                assert_eq!(Fact::new(2.0, a).times(Fact::new(3.0, b)), Fact::new(6.0, order[i.max(j)]));
            }
        }
    }
}
