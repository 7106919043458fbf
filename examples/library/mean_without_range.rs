//! The mean of a column whose range nobody knows, with an interval that holds whatever the records are.

use dpopt::RunOptions;
use dpopt::data::{Format, ReadOptions, open_bytes};
use dpopt::estimate::{HeavyTailedMean, HeavyTailedOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // claims: most are small, few are very large; their mean is 20
    let claim = |i: u32| (0.05 + 0.95 * (f64::from(i) + 0.5) / 20_000.0).powi(-2);
    let text = "claim\n".to_string() + &(0..20_000).map(|i| format!("{}\n", claim(i))).collect::<String>();
    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;

    // what is known beforehand: the root of the second moment is at most 60
    let columns = vec![("claim".to_string(), "2:60".parse()?)];
    let answer = HeavyTailedMean::new(table, columns, RunOptions::within(1.0), HeavyTailedOptions::default())?.run()?;

    let mean = &answer.means[0];
    println!(
        "{:.2}, between {:.2} and {:.2} with confidence {}",
        mean.mean, mean.interval.0, mean.interval.1, answer.confidence
    );
    println!("{}", answer.guarantee);
    assert!(mean.interval.0 < mean.interval.1 && answer.guarantee.certified_epsilon <= 1.0);
    Ok(())
}
