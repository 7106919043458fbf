//! A loss of one's own: robust regression, which is not convex, fitted within ε. Two closures are all there is to write.

use dpopt::RunOptions;
use dpopt::minimize::{MinimizeOptions, minimize};
use dpopt::objective::Closures;
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // Geman and McClure's loss r²/(1 + r²) of the residual r = y − x·t
    let loss = Closures::new(
        1,
        |x: &[f64], &(t, y): &(f64, f64)| {
            let r = y - x[0] * t;
            r * r / (1.0 + r * r)
        },
        |x: &[f64], &(t, y): &(f64, f64), gradient: &mut [f64]| {
            let r = y - x[0] * t;
            gradient[0] = -2.0 * r * t / (1.0 + r * r).powi(2);
        },
    );
    // y = 3t, but for every tenth record, which is far off
    let record = |i: u32| {
        let t = f64::from(i % 200) / 200.0;
        (t, if i.is_multiple_of(10) { -50.0 } else { 3.0 * t })
    };
    let records: Vec<(f64, f64)> = (0..20_000).map(record).collect();

    let found = minimize(loss, records, &[0.0], RunOptions::within(1.0).delta(1e-6), MinimizeOptions::default())?;
    println!("slope {:.2} by {}", found.x[0], found.plan.method);
    println!("{}", found.guarantee);
    assert!((found.x[0] - 3.0).abs() < 0.3);
    Ok(())
}
