//! What a mechanism costs: events, accountants, and the noise that a budget needs.

use dpopt::privacy::{Budget, Event, Neighbours, Relation, accountant, calibrate, certify};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // DP-SGD: 1000 steps of noise 1.1 on Poisson batches of one record in a hundred
    let event = Event::gaussian(1.1).poisson_sampled(0.01).self_composed(1000);
    let bound = accountant::epsilon(&event, Relation::AddOrRemove, 1e-6)?;
    println!("epsilon {:.4} at delta 1e-6, by {}", bound.upper, bound.accountant);

    // the least noise for an epsilon of 1, and a certificate that opens a curator
    let terms = Neighbours::of_records(Relation::AddOrRemove).within(Budget::new(1.0, 1e-6)?);
    let steps = |z: f64| Event::gaussian(z).poisson_sampled(0.01).self_composed(1000);
    let (noise, certificate) = calibrate::noise(steps, terms)?;
    println!("noise {noise:.4} for epsilon 1; certified {:.4}", certificate.bound().upper);
    assert!(certificate.bound().upper <= 1.0);

    // a mechanism that costs more is refused
    println!("{}", certify(&event, terms).err().ok_or("noise 1.1 costs more than 1")?);
    Ok(())
}
