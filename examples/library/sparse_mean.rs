//! The mean of sparse vectors of a million coordinates: the answer is sparse too.

use dpopt::RunOptions;
use dpopt::data::{Format, ReadOptions, open_bytes};
use dpopt::estimate::{MeanEstimate, MeanOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // 5000 people; all of them have the first interest, each has another one
    let text: String = (0..5000).map(|i| format!("0 1:0.8 {}:0.6\n", 2 + i)).collect();
    let reading = ReadOptions { features: Some(1_000_000), ..Default::default() };
    let table = open_bytes(text.into_bytes(), Format::Libsvm, &reading)?;

    let mean = MeanEstimate::new(table, 2.0, RunOptions::within(1.0).delta(1e-6), MeanOptions::default())?.run()?;
    let largest = mean.entries.iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or("an entry")?;
    println!("coordinate {} is {:.2}; l2 error at most {:.2}", largest.0, largest.1, mean.error_bound);
    println!("{} of {} coordinates are not 0", mean.entries.len(), mean.dimension);
    assert_eq!(largest.0, 0);
    Ok(())
}
