//! A private model of a table: what would be done, the fit, the model file, predictions, and the guarantee recomputed from the file.

use dpopt::RunOptions;
use dpopt::data::{BadCells, Format, ReadOptions, Schema, open_bytes};
use dpopt::model::{Evaluation, Fit, FitOptions, Model};
use dpopt::report::{CandidateRow, Outcome};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // 4000 members of a club; those older than 40 have usually paid
    let row = |i: u32| (18 + (i * 7919) % 60, i % 7);
    let line = |i| {
        let (age, visits) = row(i);
        format!("{age},{visits},{}\n", if age + 3 * visits > 45 { "yes" } else { "no" })
    };
    let text = "age,visits,paid\n".to_string() + &(0..4000).map(line).collect::<String>();
    let table = || open_bytes(text.clone().into_bytes(), Format::Csv, &ReadOptions::default());

    // public facts about the columns: none of them comes from the records
    let schema = "[age]\nlower = 18\nupper = 80\n[visits]\nlower = 0\nupper = 10\n[paid]\nlevels = ['no', 'yes']\n";
    let options = FitOptions::default().schema(Schema::from_toml(schema)?);
    let fit = Fit::new(table()?, "paid", RunOptions::within(1.0).delta(1e-6), options)?;

    println!("before a record is read:");
    for row in fit.explain(2)?.candidates.iter().map(CandidateRow::from).take(3) {
        if let Outcome::Planned(plan) = row.outcome {
            println!(
                "  {}: noise {:.1}, predicted excess risk {:.3}",
                row.method, plan.noise_multiplier, plan.predicted_excess_risk
            );
        }
    }

    let fitted = fit.run()?;
    let folder = tempfile::tempdir()?;
    fitted.model.save(folder.path().join("model.json"))?;
    std::fs::write(folder.path().join("report.html"), fitted.report.html())?;

    let model = Model::load(folder.path().join("model.json"))?;
    println!("{}", model.guarantee());
    assert!(model.guarantee().recompute().faults.is_empty());
    let Some(Evaluation::Classification(scores)) = model.evaluate(&*table()?, BadCells::default())? else {
        return Err("the table has labels".into());
    };
    println!("accuracy {:.3}", scores.accuracy);
    assert!(scores.accuracy > 0.8);
    Ok(())
}
