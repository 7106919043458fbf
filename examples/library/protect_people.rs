//! People with several rows: all rows of a person are protected as a whole, however many there are.

use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
use dpopt::model::{Fit, FitOptions};
use dpopt::{RunOptions, UnitOptions};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // 5 visits of each of 800 patients
    let line = |i: u32| {
        let (dose, pulse) = ((i * 7919) % 100, 50 + (i * 104_729) % 70);
        format!("p{},{dose},{pulse},{}\n", i / 5, if 2 * dose + pulse > 180 { "high" } else { "low" })
    };
    let text = "patient,dose,pulse,risk\n".to_string() + &(0..4000).map(line).collect::<String>();
    let schema = "[dose]\nlower = 0\nupper = 100\n[pulse]\nlower = 40\nupper = 130\n[risk]\nlevels = ['low', 'high']\n";

    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
    let run = RunOptions::within(2.0).delta(1e-6).unit(UnitOptions::of("patient").most_rows(10.try_into()?));
    let options = FitOptions::default().schema(Schema::from_toml(schema)?);
    let fitted = Fit::new(table, "risk", run, options)?.run()?;

    println!("{}", fitted.model.guarantee());
    assert_eq!(fitted.model.guarantee().protected(), "patient");
    assert_eq!(fitted.report.facts.units, Some(800));
    Ok(())
}
