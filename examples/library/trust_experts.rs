//! Whom to trust, round by round: plays that are private for the losses of every round, against an adversary who sees all of them.

use dpopt::RunOptions;
use dpopt::online::{Experts, ExpertsOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut game = Experts::open(3, 2000, RunOptions::within(1.0), &ExpertsOptions::default())?;
    println!("{} plays; expected regret at most {:.0}", game.player().name(), game.regret_bound());
    let mut lost = 0.0;
    while let Some(expert) = game.play() {
        // the last expert is right most of the time
        let losses = [1.0, 0.5, 0.1];
        lost += losses[expert];
        game.observe(&losses)?;
    }
    let guarantee = game.close().guarantee;
    println!("lost {lost:.0} in 2000 rounds, 200 by the best of them; {guarantee}");
    assert!(guarantee.certified_epsilon <= 1.0);
    Ok(())
}
