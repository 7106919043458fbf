//! Three regimes of private learning with sparse gradients (Ghazi et al. 2024, Tables 1 and 2): too few records for any answer, noise that counts by
//! its largest entry, noise that counts by its norm.
//!
//! Up to constants the excess risk over L·D is the least of 1 (answer 0), (s·ln d·ln(1/δ))^{1/4}/√(εn) (sparse methods) and
//! √(d·ln(1/δ))/(εn) (methods of steps); for δ = 0 of 1, (s·ln d/(εn))^{1/3} and d/(εn). Here with the constants of the bounds that
//! are proved: 2√s·‖ξ‖∞ + λD²/2 at its best λ, and √d·σ for noisy gradient descent.

use crate::plan::Problem;
use dpopt_privacy::{Budget, special};

/// Which bound is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Answering 0 is as good as anything that is proved.
    TooFew,
    /// Methods whose error grows with ln d only.
    Sparse,
    /// Methods whose error grows with √d but falls faster with n.
    Dense,
}

/// The two numbers of records at which the regime changes; without a sparse regime they are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regimes {
    /// Number of records below which the regime is [`Regime::TooFew`].
    pub enough: f64,
    /// Number of records from which on the regime is [`Regime::Dense`].
    pub dense: f64,
}

/// β of the largest noise, as in sparse output perturbation.
pub const FAILURE: f64 = 0.05;

impl Regimes {
    /// From public facts. `None` where the encoder says in which directions rows are strong: most of its features are slots of hashes, which
    /// few rows have or none, and noise in them is in nobody's prediction, though these bounds count it (docs/decisions/0037).
    pub fn of(problem: &Problem, budget: Budget) -> Option<Self> {
        if problem.directions.is_some() {
            return None;
        }
        let d = problem.weights() as f64;
        let s = (problem.nonzeros.max(1) * problem.loss.outputs()) as f64;
        let moves = problem.relation().sum_sensitivity();
        let (enough, dense) = if budget.delta() > 0.0 {
            // z: noise over the sensitivity; the sparse bound √(4√s·z·q/n), the dense one √d·z/n
            let z = moves / special::gaussian_mu(budget.epsilon(), budget.delta());
            let q = (2.0 * (2.0 * d / FAILURE).ln()).sqrt();
            let sparse = 4.0 * s.sqrt() * z * q;
            (sparse.min(d.sqrt() * z), d * z * z / sparse)
        } else {
            // the sparse bound 3/2·(2s·q·z·H/(L²n))^{1/3}·… has no short form: its published rate, with H·D = L
            let z = moves / budget.epsilon();
            let sparse = s * (d / FAILURE).ln() * z;
            (sparse.min(d * z), (d * z).powf(1.5) / sparse.sqrt())
        };
        Some(Self { enough, dense: dense.max(enough) })
    }

    /// The regime of n records.
    pub fn at(&self, records: f64) -> Regime {
        match records {
            n if n < self.enough => Regime::TooFew,
            n if n < self.dense => Regime::Sparse,
            _ => Regime::Dense,
        }
    }
}
