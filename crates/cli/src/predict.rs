//! `dpopt predict` and `dpopt evaluate`.

use crate::flags::TableFlags;
use crate::output::{Failure, note, print, print_json};
use crate::paths::{Paths, is_standard_output};
use crate::usage;
use crate::verify::PREDICTABLE;
use clap::Args;
use dpopt::data::{WordVectors, files_of};
use dpopt::model::{Evaluation, Model, Predictions, metrics};
use dpopt::output::Places;
use dpopt::report::number;
use dpopt_privacy::words::foreign_json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct PredictArguments {
    /// Model file
    model: PathBuf,
    /// Table with the columns the model was fitted on; the target may be absent
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// CSV with one line per row; `-` for standard output, where characters of labels that command a terminal become U+FFFD
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The public vectors of words that the model was fitted with
    #[arg(long, value_name = "FILE")]
    public_vectors: Option<PathBuf>,
    #[command(flatten)]
    reading: TableFlags,
    /// JSON instead of CSV: one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn predict(arguments: &PredictArguments) -> Result<(), Failure> {
    Paths::default()
        .written("-o", Some(&arguments.output))
        .read("the model", Some(&arguments.model))
        .read("--public-vectors", arguments.public_vectors.as_deref())
        .data(&arguments.data)
        .check()?;
    let model = load(&arguments.model, arguments.public_vectors.as_deref())?;
    let table = arguments.reading.open(&arguments.data)?;
    let predictions = model.predict(&*table, arguments.reading.bad_cells()).map_err(usage)?;
    let text = if arguments.json { as_json(&model, &predictions)? } else { as_csv(&model, &predictions) };
    if is_standard_output(&arguments.output) {
        return print(&text);
    }
    // a prediction tells of its row: it is for whoever the table is for
    let sources = files_of(&arguments.data).map_err(usage)?;
    Places::reserve(&[&arguments.output], &sources).and_then(|places| places.write(&[text.as_bytes()])).map_err(|e| {
        Failure::machine(format!("cannot write {}: {}; nothing was left there", arguments.output.display(), e.kind()))
    })
}

/// The model, with a word about one that protects nobody.
fn load(path: &Path, vectors: Option<&Path>) -> Result<Model, Failure> {
    let mut model = Model::load(path).map_err(usage)?;
    if let Some(vectors) = vectors {
        model = model.with_vectors(Arc::new(WordVectors::open(vectors).map_err(usage)?)).map_err(usage)?;
    }
    if model.guarantee().insecure_seed {
        note(format!("warning: {} was {PREDICTABLE}", path.display()));
    }
    Ok(model)
}

fn as_csv(model: &Model, predictions: &Predictions) -> String {
    let mut out = String::new();
    match predictions {
        Predictions::Classes { labels, probabilities } => {
            let mut header = vec![quoted(model.target())];
            header.extend(labels.iter().map(|l| quoted(&format!("p({l})"))));
            out.push_str(&header.join(","));
            out.push('\n');
            for p in probabilities {
                out.push_str(&quoted(&labels[metrics::most_probable(p)]));
                for p in p {
                    out.push_str(&format!(",{p}"));
                }
                out.push('\n');
            }
        }
        Predictions::Values(values) => {
            out.push_str(&format!("{}\n", quoted(model.target())));
            for v in values {
                out.push_str(&format!("{v}\n"));
            }
        }
    }
    out
}

fn as_json(model: &Model, predictions: &Predictions) -> Result<String, Failure> {
    let mut out = String::new();
    let mut line = |value: serde_json::Value| {
        out.push_str(&foreign_json(&value.to_string()));
        out.push('\n');
    };
    match predictions {
        Predictions::Classes { labels, probabilities } => {
            for p in probabilities {
                let by_label: serde_json::Map<String, serde_json::Value> =
                    labels.iter().cloned().zip(p.iter().map(|p| (*p).into())).collect();
                line(serde_json::json!({
                    "target": model.target(),
                    "label": labels[metrics::most_probable(p)],
                    "probabilities": by_label,
                }));
            }
        }
        Predictions::Values(values) => {
            for v in values {
                line(serde_json::json!({ "target": model.target(), "value": v }));
            }
        }
    }
    Ok(out)
}

/// A CSV field, in quotes where it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

#[derive(Args)]
pub(crate) struct EvaluateArguments {
    /// Model file
    model: PathBuf,
    /// Table with known targets that the model was not fitted on
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// The public vectors of words that the model was fitted with
    #[arg(long, value_name = "FILE")]
    public_vectors: Option<PathBuf>,
    #[command(flatten)]
    reading: TableFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

const NOT_PRIVATE: &str = "exact statistics of this table, not private: do not publish them if its rows are sensitive";

pub(crate) fn evaluate(arguments: &EvaluateArguments) -> Result<(), Failure> {
    let model = load(&arguments.model, arguments.public_vectors.as_deref())?;
    let table = arguments.reading.open(&arguments.data)?;
    let evaluation = model.evaluate(&*table, arguments.reading.bad_cells()).map_err(usage)?;
    let Some(evaluation) = evaluation else {
        return Err(usage(format!(
            "{} has no row with a known `{}`; give a table with its labels",
            table.name(),
            model.target()
        )));
    };
    if arguments.json {
        let mut value = serde_json::to_value(&evaluation).map_err(Failure::machine)?;
        value["private"] = false.into();
        value["insecure_seed"] = model.guarantee().insecure_seed.into();
        value["note"] = NOT_PRIVATE.into();
        return print_json(&value);
    }
    let mut out = String::new();
    let mut line = |name: &str, value: String| out.push_str(&format!("{name:<10}  {value}\n"));
    match &evaluation {
        Evaluation::Classification(m) => {
            line("rows", m.rows.to_string());
            line("accuracy", format!("{:.4}", m.accuracy));
            line("majority", format!("{:.4}  (always the most frequent class)", m.majority));
            line("AUC", m.auc.map_or("-  (needs two classes, both present)".into(), |a| format!("{a:.4}")));
            line("log loss", format!("{:.4}", m.log_loss));
        }
        Evaluation::Regression(m) => {
            line("rows", m.rows.to_string());
            line("RMSE", number(m.rmse));
            line("MAE", number(m.mae));
            line("R squared", m.r_squared.map_or("-  (constant target)".into(), number));
        }
    }
    out.push_str(&format!("\n{NOT_PRIVATE}\n"));
    print(&out)
}
