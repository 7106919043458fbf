//! The pieces below a method: noisy sums of clipped gradients, planned, certified and released one by one.

use dpopt::mechanism::{Curator, Sensitive};
use dpopt::noise::NoiseSource;
use dpopt::objective::Closures;
use dpopt::optimize::oracle::GradientSums;
use dpopt::privacy::{Budget, Neighbours, Relation};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // the mean of numbers in [0, 1], by gradient descent along 30 noisy sums over Poisson batches of a fifth of the records
    let records: Vec<f64> = (0..10_000).map(|i| f64::from(i % 100) / 99.0).collect();
    let loss = Closures::new(
        1,
        |x: &[f64], r: &f64| 0.5 * (x[0] - r).powi(2),
        |x: &[f64], r: &f64, gradient: &mut [f64]| gradient[0] = x[0] - r,
    );
    let terms = Neighbours::of_records(Relation::ReplaceOne).within(Budget::new(1.0, 1e-6)?);
    let (oracle, certificate) = GradientSums::new(10_000, 1, 1.0).steps(30).sampled(0.2).calibrate(terms)?;
    println!("noise multiplier {:.2}; certified epsilon {:.4}", oracle.noise_multiplier(), certificate.bound().upper);

    let (gradients, records) = (oracle.of(loss)?, Sensitive::new(records));
    let mut curator = Curator::new(&certificate, NoiseSource::secure()?);
    let mut x = vec![0.0];
    for _ in 0..oracle.steps() {
        x[0] -= 0.5 * oracle.per_record() * gradients.release(&records, &mut curator, &x)?.get()[0];
    }
    println!("mean {:.2}", x[0]);
    assert!((x[0] - 0.5).abs() < 0.1 && curator.is_spent());
    // the plan is used up: one sum more is refused
    assert!(gradients.release(&records, &mut curator, &x).is_err());
    Ok(())
}
