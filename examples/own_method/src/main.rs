//! The command line of dpopt with one more method: `own-method explain`, `own-method fit --method two-phases --batch-share 0.1`, ….

use own_method::TwoPhases;
use std::process::ExitCode;

fn main() -> ExitCode {
    dpopt_cli::run(dpopt::optimize::registry().clone().with::<TwoPhases>())
}
