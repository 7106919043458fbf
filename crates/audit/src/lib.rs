//! Empirical lower bounds on ε, for any mechanism: attacks, statistics, and audits of one run (docs/audit.md).
//!
//! An audit can refute a guarantee, never prove one: a pass says that the attack with the stated power found nothing. What the
//! attacks find in code with an injected fault, and in the library itself, `research/self-audit` measures.

pub mod attack;
pub mod draws;
pub mod statistics;
