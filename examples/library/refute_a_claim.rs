//! An audit: a mechanism that forgot half of its noise is refuted by running it on two neighbouring data sets.

use dpopt::audit::attack::{Options, Pair, Verdict, audit};
use dpopt::audit::draws::Draws;
use dpopt::audit::statistics::Claim;
use dpopt::progress::Silent;
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // claimed: a count with noise of standard deviation 1; run: noise of ½
    let (claim, pair) = (Claim::gaussian(1.0), Pair { with: 1.0, without: 0.0 });
    let release = |count: &f64, draws: &mut Draws| count + 0.5 * draws.gaussian();
    let report = audit(&claim, release, &pair, &Options::default(), &Silent)?;
    println!(
        "claimed epsilon {:.2} at delta {:e}; the runs prove at least {:.2}",
        report.claimed, report.delta, report.lower_bound
    );
    assert_eq!(report.verdict, Verdict::Violated);
    Ok(())
}
