//! Draws from a law that depends on the records, and minimisers with noise.

pub(crate) mod certified_pass;
pub(crate) mod gibbs;
pub(crate) mod gibbs_chain;
pub(crate) mod last_iterate;
pub(crate) mod minimiser;
pub(crate) mod newton_step;
pub(crate) mod objective_draw;
pub(crate) mod phased_pass;
pub(crate) mod solved;
