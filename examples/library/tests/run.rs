//! Every example runs, and what it asserts holds.

#[path = "../accounting.rs"]
mod accounting;
#[path = "../fit_table.rs"]
mod fit_table;
#[path = "../mean_without_range.rs"]
mod mean_without_range;
#[path = "../noisy_sums.rs"]
mod noisy_sums;
#[path = "../one_budget.rs"]
mod one_budget;
#[path = "../own_loss.rs"]
mod own_loss;
#[path = "../protect_people.rs"]
mod protect_people;
#[path = "../refute_a_claim.rs"]
mod refute_a_claim;
#[path = "../sparse_mean.rs"]
mod sparse_mean;
#[path = "../trust_experts.rs"]
mod trust_experts;

macro_rules! run {
    ($($name:ident)*) => { $(#[test] fn $name() { crate::$name::main().expect("it runs"); })* };
}

mod runs {
    run!(fit_table protect_people one_budget mean_without_range sparse_mean own_loss noisy_sums accounting trust_experts refute_a_claim);
}
