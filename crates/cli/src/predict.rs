//! `dpopt predict` and `dpopt evaluate`.

use crate::flags::TableFlags;
use crate::output::{Failure, note, print, print_all, print_json, table};
use crate::paths::{Paths, Placed, is_standard_output};
use crate::recalls::RecallFlags;
use crate::typed::{arguments as given, typed};
use crate::usage;
use crate::verify::PREDICTABLE;
use crate::written::Written;
use clap::Args;
use dpopt::data::{
    BadCells, Block, DataError, TableReader, WordVectors, bad_row, did_you_mean, failure, field_text, files_of,
};
use dpopt::model::metrics::{self, ClassMetrics, ClassificationMetrics, LeftOut, RegressionMetrics};
use dpopt::model::{Evaluation, Model, ModelError, Predictions};
use dpopt::output::{HeldBack, Places};
use dpopt::recall::Concern;
use dpopt::report::number;
use dpopt_privacy::rounding::{foreign, foreign_json, foreign_lines};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct PredictArguments {
    /// Model file
    model: PathBuf,
    /// Table with the columns that the model was fitted on; the target may be absent
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// CSV with one line per row, or TSV if the name ends so, also gzipped; `-` for standard output, where control
    /// characters in labels become U+FFFD. Labels that begin with = + - or @ are not escaped: a spreadsheet would
    /// read them as formulas
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The public vectors of words that the model was fitted with
    #[arg(long, value_name = "FILE")]
    public_vectors: Option<PathBuf>,
    /// Columns of the table to keep beside the predictions, such as an id
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    keep: Vec<String>,
    #[command(flatten)]
    reading: TableFlags,
    #[command(flatten)]
    recalls: RecallFlags,
    /// JSON instead of CSV: one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn predict(arguments: &PredictArguments) -> Result<(), Failure> {
    Paths::default()
        .written("-o", Some(&arguments.output))
        .read("the model", Some(&arguments.model))
        .read("--public-vectors", arguments.public_vectors.as_deref())
        .read("--recalls", arguments.recalls.path())
        .data(&arguments.data)
        .check()?;
    let written = match arguments.json {
        true => Written::lines("-o", &arguments.output)?,
        false => Written::table("-o", &arguments.output)?,
    };
    let vectors = arguments.public_vectors.as_deref();
    let model = load("predict", (&arguments.model, &arguments.data), vectors, &arguments.recalls)?;
    let reading = arguments.reading.or_as_fitted(model.reading(), &arguments.data);
    let table = reading.open(&arguments.data)?;
    let kept = kept(&*table, &arguments.keep, model.target())?;
    let lines = Lines { model: &model, kept, width: table.columns().len(), written, json: arguments.json };
    let failed = |e: std::io::Error| {
        Failure::machine(format!(
            "cannot write {}: {}; no file was left there",
            arguments.output.display(),
            failure(&e)
        ))
    };
    if is_standard_output(&arguments.output) {
        // an error of the table's last row comes before anything was printed
        let held_back = |e: std::io::Error| Failure::machine(format!("cannot hold the output back: {}", failure(&e)));
        let mut out = HeldBack::new();
        lines.of(&*table, reading.bad_cells(), |text| {
            out.write_all(foreign_lines(text).as_bytes()).map_err(held_back)
        })?;
        return print_all(out.released().map_err(held_back)?);
    }
    // a prediction tells of its row: it is for whoever the table is for
    let sources = files_of(&arguments.data).map_err(usage)?;
    let placed = Placed::at(&arguments.output);
    let mut places = Places::reserve(&[&arguments.output], &sources).map_err(failed)?;
    let mut count = 0;
    for file in places.files() {
        let mut out = written.packed(file);
        count = lines.of(&*table, reading.bad_cells(), |text| out.write_all(text.as_bytes()).map_err(failed))?;
        out.finish().map_err(failed)?;
    }
    places.finish().map_err(failed)?;
    // who reads standard output by a program finds nothing but JSON there
    if arguments.json {
        return Ok(());
    }
    print(&format!("{count} prediction{} to {placed}\n", if count == 1 { "" } else { "s" }))
}

/// Loads the model for a command about `data`, and warns if it was fitted with an insecure seed, or if a known fault certainly concerns it.
fn load(
    command: &str,
    (path, data): (&Path, &[PathBuf]),
    vectors: Option<&Path>,
    recalls: &RecallFlags,
) -> Result<Model, Failure> {
    let recalls = recalls.list()?;
    let mut model = Model::load(path).map_err(|why| match (&why, data) {
        (ModelError::NotAModel { .. }, [data, ..]) => usage(format!("{why}; {}", in_order(command, path, data))),
        _ => usage(why),
    })?;
    if let Some(vectors) = vectors {
        model = model.with_vectors(Arc::new(WordVectors::open(vectors).map_err(usage)?)).map_err(usage)?;
    }
    if model.guarantee().insecure_seed {
        note(format!("warning: {} was {PREDICTABLE}", path.display()));
    }
    let facts = model.recall_facts();
    let notices = facts.iter().flat_map(|facts| recalls.of(facts));
    for notice in notices.filter(|notice| notice.concern == Concern::Certain) {
        note(format!("warning: {}: {notice}", path.display()));
    }
    Ok(model)
}

/// Which file comes first: both in each other's place, if the second has the name of a model.
fn in_order(command: &str, first: &Path, second: &Path) -> String {
    let swapped = second.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    let [model, table] = if swapped { [second, first] } else { [Path::new("MODEL.json"), second] };
    let words = [command.to_string(), model.display().to_string(), table.display().to_string()];
    format!("the model comes first: {}", typed(words.to_vec()))
}

/// Columns of the table that go with the predictions: names and places.
type Kept = Vec<(String, usize)>;

fn kept(table: &dyn TableReader, names: &[String], target: &str) -> Result<Kept, Failure> {
    let columns = table.columns();
    let mut kept: Kept = Vec::new();
    for name in names {
        let name = name.trim();
        let Some(at) = columns.iter().position(|column| column.name == name) else {
            let meant = did_you_mean(name, columns.iter().map(|column| column.name.as_str()));
            return Err(usage(format!("--keep {name}: the table has no such column{meant}")));
        };
        if name == target || kept.iter().any(|(other, _)| other == name) {
            return Err(usage(format!(
                "--keep {name}: the predictions have a column of that name already; leave it out"
            )));
        }
        kept.push((name.to_string(), at));
    }
    Ok(kept)
}

/// How predictions are written: a line for each row.
struct Lines<'a> {
    model: &'a Model,
    kept: Kept,
    /// Columns of the table.
    width: usize,
    written: Written,
    json: bool,
}

impl Lines<'_> {
    /// Hands out the lines of a table in its order, some at a time, with a heading if they have one; how many rows there are.
    fn of(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        mut write: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut rows = 0;
        if !self.json {
            write(&self.heading()?)?;
        }
        let work = |block: &dyn Block, predictions: Predictions| {
            let text =
                if self.json { Ok(self.as_json(block, &predictions)) } else { self.as_table(block, &predictions) };
            text.map(|text| (block.len(), text))
        };
        self.model.predict_in_blocks(table, bad_cells, work, |lines| {
            let (count, text) = lines?;
            rows += count;
            write(&text)
        })?;
        Ok(rows)
    }

    fn heading(&self) -> Result<String, Failure> {
        let labels = self.model.labels();
        let kept = self.kept.iter().map(|(name, _)| name.clone());
        let names = kept.chain(std::iter::once(self.model.target().to_string()));
        let names = names.chain(labels.iter().map(|label| format!("p({label})")));
        let ends: &[&str] = if self.model.interval().is_some() { &["lower", "upper"] } else { &[] };
        let names = names.chain(ends.iter().map(|end| (*end).to_string()));
        let cells = names.map(|name| self.written.field(&name)).collect::<Result<Vec<_>, _>>()?;
        Ok(cells.join(&self.written.separator().to_string()) + "\n")
    }

    /// The cells of a row that are kept, as they stand.
    fn cells<'a>(&'a self, block: &'a dyn Block, row: usize) -> impl Iterator<Item = (&'a str, String)> {
        let readable = bad_row(block, row, self.width).is_none();
        let mut scratch = Vec::new();
        self.kept.iter().map(move |(name, at)| {
            let text = if readable { field_text(block.field(row, *at), &mut scratch) } else { None };
            (name.as_str(), text.map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned()))
        })
    }

    fn as_table(&self, block: &dyn Block, predictions: &Predictions) -> Result<String, Failure> {
        let (mut out, separator) = (String::new(), self.written.separator());
        let begin = |out: &mut String, row| -> Result<(), Failure> {
            for (_, cell) in self.cells(block, row) {
                out.push_str(&self.written.field(&cell)?);
                out.push(separator);
            }
            Ok(())
        };
        match predictions {
            Predictions::Classes { labels, probabilities } => {
                let labels = labels.iter().map(|label| self.written.field(label)).collect::<Result<Vec<_>, _>>()?;
                for (row, p) in probabilities.iter().enumerate() {
                    begin(&mut out, row)?;
                    out.push_str(&labels[metrics::most_probable(p)]);
                    for p in p {
                        out.push(separator);
                        push(&mut out, *p);
                    }
                    out.push('\n');
                }
            }
            Predictions::Values(values) => {
                for (row, value) in values.iter().enumerate() {
                    begin(&mut out, row)?;
                    push(&mut out, *value);
                    if let Some((lower, upper)) = self.model.interval_around(*value) {
                        for end in [lower, upper] {
                            out.push(separator);
                            push(&mut out, end);
                        }
                    }
                    out.push('\n');
                }
            }
        }
        Ok(out)
    }

    fn as_json(&self, block: &dyn Block, predictions: &Predictions) -> String {
        let mut out = String::new();
        let mut line = |row: usize, mut value: serde_json::Value| {
            if !self.kept.is_empty() {
                let cells = self.cells(block, row).map(|(name, cell)| (name.to_string(), cell.into()));
                value["kept"] = cells.collect::<serde_json::Map<_, _>>().into();
            }
            out.push_str(&foreign_json(&value.to_string()));
            out.push('\n');
        };
        match predictions {
            Predictions::Classes { labels, probabilities } => {
                for (row, p) in probabilities.iter().enumerate() {
                    let by_label: serde_json::Map<String, serde_json::Value> =
                        labels.iter().cloned().zip(p.iter().map(|p| (*p).into())).collect();
                    let value = serde_json::json!({
                        "target": self.model.target(),
                        "label": labels[metrics::most_probable(p)],
                        "probabilities": by_label,
                    });
                    line(row, value);
                }
            }
            Predictions::Values(values) => {
                for (row, v) in values.iter().enumerate() {
                    let mut value = serde_json::json!({ "target": self.model.target(), "value": v });
                    if let Some((lower, upper)) = self.model.interval_around(*v) {
                        // an infinite end is none
                        (value["lower"], value["upper"]) = (lower.into(), upper.into());
                    }
                    line(row, value);
                }
            }
        }
        out
    }
}

fn push(out: &mut String, number: f64) {
    // a string takes everything
    let _ = write!(out, "{number}");
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
    #[command(flatten)]
    recalls: RecallFlags,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

const NOT_PRIVATE: &str = "exact statistics of this table, not private: do not publish them if its rows are sensitive";

pub(crate) fn evaluate(arguments: &EvaluateArguments) -> Result<(), Failure> {
    Paths::default().data(&arguments.data).check()?;
    let vectors = arguments.public_vectors.as_deref();
    let model = load("evaluate", (&arguments.model, &arguments.data), vectors, &arguments.recalls)?;
    let reading = arguments.reading.or_as_fitted(model.reading(), &arguments.data);
    let table = reading.open(&arguments.data)?;
    let evaluation = model.evaluate(&*table, reading.bad_cells()).map_err(|why| match &why {
        DataError::NoSuchColumn { role, .. } if role == "the target" => usage(format!(
            "{why}; evaluate needs the true `{}` of each row; for rows without it: {}",
            model.target(),
            typed(
                std::iter::once("predict".to_string())
                    .chain(given().into_iter().skip(1).filter(|w| w != "--json"))
                    .collect()
            )
        )),
        _ => usage(why),
    })?;
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
    let text = match &evaluation {
        Evaluation::Classification(m) => of_classes(m),
        Evaluation::Regression(m) => of_numbers(m, model.target()),
    };
    print(&format!("{text}\n{NOT_PRIVATE}\n"))
}

/// A score with its name, and what to hold it against.
fn line(name: &str, value: String) -> String {
    format!("{name:<18}{value}\n")
}

/// How many rows are scored, and why others are not.
fn rows(scored: usize, left_out: LeftOut) -> String {
    let reasons = [
        (left_out.missing, "without a target"),
        (left_out.undeclared, "with an undeclared label"),
        (left_out.unreadable, "that cannot be read"),
    ];
    let reasons: Vec<String> =
        reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    let of = scored + left_out.all();
    line(
        "rows",
        match reasons.is_empty() {
            true => scored.to_string(),
            false => format!("{scored} of {of}  (left out: {})", reasons.join(", ")),
        },
    )
}

/// Tables of more classes are for --json.
const MAX_SHOWN: usize = 12;

fn of_classes(m: &ClassificationMetrics) -> String {
    let share = |value: Option<f64>| value.map_or("-".into(), |v| format!("{v:.4}"));
    let mut out = rows(m.rows, m.left_out);
    out += &line("accuracy", format!("{:.4}  (always the most frequent class: {:.4})", m.accuracy, m.majority));
    out += &line("log loss", format!("{:.4}  (the base rate alone: {:.4})", m.log_loss, m.log_loss_of_base_rate));
    let claims = if m.classes.len() == 2 { "probabilities" } else { "those of the predicted class" };
    out += &line("calibration error", format!("{:.4}  (of {claims}, in ten bins)", m.calibration_error));
    if let [_, positive] = &m.classes[..] {
        let base = positive.rows as f64 / m.rows as f64;
        out += &line("AUC", m.auc.map_or("-  (needs both classes)".into(), |a| format!("{a:.4}  (a guess: 0.5)")));
        let average = share(positive.average_precision);
        out += &line("average precision", format!("{average}  (of `{}`; a guess: {base:.4})", positive.label));
    }
    let cells = |class: &ClassMetrics| {
        vec![
            class.label.clone(),
            class.rows.to_string(),
            class.predicted.to_string(),
            share(class.recall),
            share(class.precision),
            share(class.average_precision),
        ]
    };
    let headings = ["class", "#rows", "#predicted", "#recall", "#precision", "#average precision"];
    out += &format!("\n{}", table(&headings, &m.classes.iter().map(cells).collect::<Vec<_>>()));
    let never: Vec<String> = m.classes.iter().filter(|c| c.predicted == 0).map(|c| format!("`{}`", c.label)).collect();
    if !never.is_empty() {
        out += &format!("never predicted: {}\n", never.join(", "));
    }
    if m.classes.len() > MAX_SHOWN {
        return out + "\nthe confusion table is in --json\n";
    }
    let titles: Vec<String> = m.classes.iter().map(|class| format!("#{}", foreign(&class.label))).collect();
    let headings: Vec<&str> =
        std::iter::once("true class by predicted").chain(titles.iter().map(String::as_str)).collect();
    let row = |(class, counts): (&ClassMetrics, &Vec<usize>)| {
        std::iter::once(class.label.clone()).chain(counts.iter().map(usize::to_string)).collect()
    };
    let confusion: Vec<Vec<String>> = m.classes.iter().zip(&m.confusion).map(row).collect();
    out + &format!("\n{}", table(&headings, &confusion))
}

fn of_numbers(m: &RegressionMetrics, target: &str) -> String {
    let mut out = rows(m.rows, m.left_out);
    out += &line("RMSE", format!("{}  (their mean alone: {})", number(m.rmse), number(m.rmse_of_mean)));
    out += &line("MAE", format!("{}  (their mean alone: {})", number(m.mae), number(m.mae_of_mean)));
    out += &line(
        "R squared",
        m.r_squared.map_or("-  (constant target)".into(), |r| format!("{}  (their mean alone: 0)", number(r))),
    );
    if let Some(d) = &m.deviance {
        out += &line("deviance", format!("{}  (their mean alone: {})", number(d.mean), number(d.of_mean)));
        let squared = |d: f64| format!("{}  (their mean alone: 0)", number(d));
        out += &line("D squared", d.d_squared.map_or("-  (constant target)".into(), squared));
    }
    if let Some(held) = &m.intervals {
        let width = held.mean_width.map_or("infinite".into(), number);
        let level = number(100.0 * held.level);
        let coverage = number(100.0 * held.coverage);
        out += &line("in the intervals", format!("{coverage} %  (to be at least {level} %; mean width {width})"));
    }
    if let Some(p) = &m.pinball {
        let constant = number(p.of_constant);
        out += &line("pinball loss", format!("{}  (the best constant: {constant})", number(p.mean)));
        let squared = |d: f64| format!("{}  (the best constant: 0)", number(d));
        out += &line("D squared", p.d_squared.map_or("-  (constant target)".into(), squared));
        out += &line("share below", format!("{}  (asked for: {})", number(p.share_below), number(p.level)));
    }
    if m.below_range + m.above_range > 0 {
        let (lower, upper) = m.range;
        out += &line(
            "outside the range",
            format!(
                "{} below and {} above the range of the model, {} to {}; scored against the value of `{target}` in \
                 the file",
                m.below_range,
                m.above_range,
                number(lower),
                number(upper)
            ),
        );
    }
    out
}
