//! Whole runs of methods, with all that they let out looked at: noise in the proportion that was planned, records within their clips, and what a method
//! does with next to no noise.

mod adaptive;
mod bias_reduced;
mod gibbs;
mod o2nc;
mod spider;

use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Problem;
use dpopt_privacy::{Neighbours, Relation};

const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// Public facts of `rows` records under zero-out.
fn facts(rows: u64, features: usize, loss: Loss) -> Problem {
    Problem::new(rows, features, loss, Neighbours::of_records(Relation::ZeroOut))
}
