//! A budget kept in a file: runs on the same records are charged before a record is read, and refused when nothing is left.

use dpopt::RunOptions;
use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
use dpopt::model::{Fit, FitError, FitOptions};
use dpopt::privacy::Budget;
use dpopt::privacy::ledger::Ledger;
use dpopt::session::LedgerFile;
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("club.ledger");
    let ledger = LedgerFile::new(&path, Budget::new(1.0, 1e-5)?);

    let fit = |epsilon: f64| {
        let lines = (0..2000).map(|i| format!("{},{}\n", i % 90, if i % 90 > 45 { "yes" } else { "no" }));
        let text = "age,paid\n".to_string() + &lines.collect::<String>();
        let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
        let schema = Schema::from_toml("[age]\nlower = 0\nupper = 90\n[paid]\nlevels = ['no', 'yes']\n")?;
        let run = RunOptions::within(epsilon).delta(1e-6).ledger(ledger.clone());
        Fit::new(table, "paid", run, FitOptions::default().schema(schema))?.run()
    };
    let receipt = fit(0.6)?.report.receipt.ok_or("a charged run has a receipt")?;
    println!("charge {} of {}", receipt.number, path.display());

    let refused = fit(0.9).err().ok_or("0.6 and 0.9 are more than 1")?;
    println!("{refused}");
    assert!(matches!(refused, FitError::Session(_)), "refused before a record was read, and not charged");
    println!("{:.0} % is spent", 100.0 * Ledger::open(&path)?.status()?.share);
    Ok(())
}
