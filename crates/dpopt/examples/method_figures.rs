//! Draws one picture per method: its error against ε on a generated census table, beside all other methods.
//!
//! `cargo run --release -p dpopt --example method_figures -- docs/images [labels|numbers|features]`
//! Labels: test accuracy of `income`. Numbers: test error of the same column read as 0 and 1. 24,000 rows. Features: test accuracy
//! of models of at most 20 of 20,000 features, 12 of them in each of 16,000 rows, 10 of which matter. δ = 1e-6, zero-out, mean and
//! standard deviation over eight runs with fresh noise. The tables are synthetic, so that nothing here needs privacy.

use dpopt::Sensitive;
use dpopt::data::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::{MethodOptions, Run, choose, registry};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use dpopt_problems as problems;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const EPSILONS: [f64; 8] = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0];
const RUNS: u64 = 8;
const DELTA: f64 = 1e-6;

/// One method's (ε, mean, standard deviation).
struct Curve {
    method: &'static str,
    points: Vec<(f64, f64, f64)>,
}

/// A task with its score of predictions.
struct Task {
    name: &'static str,
    train: Sensitive<Examples>,
    test: Examples,
    problem: Problem,
    /// Height of the dotted lines: what needs no data, and what no method can beat (or the non-private answer).
    marks: Vec<(String, f64)>,
    score: fn(&[f64], &[f32]) -> f64,
    /// k, for methods that keep few features.
    max_features: Option<u64>,
    axis: &'static str,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder for the pictures")?;
    std::fs::create_dir_all(&folder)?;
    let only = std::env::args().nth(2);
    let census = problems::census(30_000, 1);
    for task in [labels(&census)?, numbers(&census)?, features()] {
        if only.as_deref().is_some_and(|name| name != task.name) {
            continue;
        }
        let curves = measure(&task)?;
        for curve in &curves {
            // methods for several tasks are shown once
            let few = curve.method == "frank-wolfe" || curve.method == "peeling" || curve.method.ends_with("-ht");
            let shown = match task.name {
                "labels" => !few,
                "numbers" => curve.method == "sufficient-statistics",
                _ => true,
            };
            if shown {
                let file = Path::new(&folder).join(format!("method-{}.svg", curve.method));
                draw(&file, &task, curve, &curves)?;
            }
        }
    }
    Ok(())
}

fn labels(census: &problems::Census) -> Result<Task, Box<dyn Error>> {
    let (train, test, encoder) = encoded(census, "income", &census.bounds)?;
    let positive = test.targets.iter().filter(|t| **t > 0.0).count() as f64 / test.targets.len() as f64;
    Ok(Task {
        name: "labels",
        problem: problem(&encoder, train.rows.len(), Loss::Logistic { shift: 0.0 }),
        train: Sensitive::new(train),
        test,
        marks: vec![
            ("the true model".into(), census.bayes_accuracy),
            ("always the larger class".into(), positive.max(1.0 - positive)),
        ],
        score: right,
        max_features: None,
        axis: "test accuracy",
    })
}

/// Label by ten of 20,000 features; feature j is in a row with probability ∝ 1/j.
fn features() -> Task {
    let (d, rows, matter) = (20_000usize, 20_000, 10u32);
    let mut random = NoiseSource::insecure(3).stream(Purpose::Split, 0);
    let mut uniform = move || random.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let mut all = Examples { rows: Rows::new(d), targets: Vec::new() };
    let mut best = 0.0;
    for _ in 0..rows {
        let mut entries: Vec<(u32, f32)> = (0..12)
            .map(|_| ((d as f64).powf(uniform()) as u32 - 1, if uniform() < 0.5 { 1.0 } else { -1.0 }))
            .collect();
        entries.sort_unstable_by_key(|e| e.0);
        entries.dedup_by_key(|e| e.0);
        let size = (entries.len() as f32).sqrt();
        entries.iter_mut().for_each(|e| e.1 /= size);
        let score: f64 = entries.iter().filter(|e| e.0 < matter).map(|e| 8.0 * f64::from(e.1)).sum();
        let positive = 1.0 / (1.0 + (-score).exp());
        best += f64::max(positive, 1.0 - positive) / f64::from(rows);
        all.rows.push_clipped(&mut entries, 1.0);
        all.targets.push(if uniform() < positive { 1.0 } else { -1.0 });
    }
    let cut = rows as usize * 4 / 5;
    let (train, test): (Vec<usize>, Vec<usize>) = (0..rows as usize).partition(|i| *i < cut);
    Task {
        name: "features",
        problem: Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows: cut as u64,
            features: d,
            nonzeros: 12,
            row_norm: 1.0,
            loss: Loss::Logistic { shift: 0.0 },
            neighbours: Neighbours::of_records(Relation::ZeroOut),
        },
        train: Sensitive::new(all.select(&train)),
        test: all.select(&test),
        marks: vec![("the true model".into(), best), ("guessing".into(), 0.5)],
        score: right,
        max_features: Some(20),
        axis: "test accuracy",
    }
}

fn right(scores: &[f64], targets: &[f32]) -> f64 {
    let right = scores.iter().zip(targets).filter(|(s, t)| (**s > 0.0) == (**t > 0.0)).count();
    right as f64 / targets.len() as f64
}

fn numbers(census: &problems::Census) -> Result<Task, Box<dyn Error>> {
    let csv = census.csv.replace(",low\n", ",0\n").replace(",high\n", ",1\n");
    let bounds = census.bounds.replace("levels = [\"low\", \"high\"]", "lower = 0\nupper = 1");
    let (train, test, encoder) = encoded(&problems::Census { csv, ..census.clone() }, "income", &bounds)?;
    let mean = test.targets.iter().map(|t| f64::from(*t)).sum::<f64>() / test.targets.len() as f64;
    let constant = rmse(&vec![mean; test.targets.len()], &test.targets);
    Ok(Task {
        name: "numbers",
        problem: problem(&encoder, train.rows.len(), Loss::Squared),
        train: Sensitive::new(train),
        test,
        marks: vec![("the mean of the holdout".into(), constant)],
        score: rmse,
        max_features: None,
        axis: "test error (root mean square; 0 and 1 are -1 and 1)",
    })
}

fn rmse(scores: &[f64], targets: &[f32]) -> f64 {
    let squares = scores.iter().zip(targets).map(|(s, t)| (s.clamp(-1.0, 1.0) - f64::from(*t)).powi(2)).sum::<f64>();
    (squares / targets.len() as f64).sqrt()
}

fn problem(encoder: &Encoder, rows: usize, loss: Loss) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: rows as u64,
        features: encoder.dimension(),
        nonzeros: encoder.max_nonzeros(),
        row_norm: encoder.row_norm(),
        loss,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn encoded(
    census: &problems::Census,
    target: &str,
    bounds: &str,
) -> Result<(Examples, Examples, Encoder), Box<dyn Error>> {
    let table = open_bytes(census.csv.clone().into_bytes(), Format::Csv, &ReadOptions::default())?;
    let layout = Schema::from_toml(bounds)?.resolve(table.columns(), Some(target))?;
    let encoder = Encoder::new(&layout)?;
    let all = encoder.encode_public(&*table, BadCells::Missing)?;
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    NoiseSource::insecure(7).stream(Purpose::Split, 0).shuffle(&mut order);
    let cut = order.len() * 4 / 5;
    Ok((all.select(&order[..cut]), all.select(&order[cut..]), encoder))
}

fn measure(task: &Task) -> Result<Vec<Curve>, Box<dyn Error>> {
    let mut curves = Vec::new();
    for method in registry().names() {
        let options = MethodOptions::of(method).with_if("max_features", task.max_features);
        let mut points = Vec::new();
        for epsilon in EPSILONS {
            let Ok(plan) = choose(&task.problem, Budget::new(epsilon, DELTA)?, &options) else { continue };
            // half a minute and more per run: the exponential mechanism's page has pictures of its own
            if plan.summary().gradients > 3e8 {
                continue;
            }
            let mut scores = Vec::new();
            for seed in 0..RUNS {
                let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
                let solution = plan.run(Run::new(&task.problem, &task.train, &mut curator, &Silent)?)?.into_inner();
                let predicted: Vec<f64> = (0..task.test.rows.len())
                    .map(|i| {
                        let (indices, values) = task.test.rows.row(i);
                        indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * solution.weights[j as usize]).sum()
                    })
                    .collect();
                scores.push((task.score)(&predicted, &task.test.targets));
            }
            let mean = scores.iter().sum::<f64>() / RUNS as f64;
            let spread = (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64).sqrt();
            println!("{} {method} epsilon {epsilon}: {mean:.4} +- {spread:.4}", task.name);
            points.push((epsilon, mean, spread));
        }
        if !points.is_empty() {
            curves.push(Curve { method, points });
        }
    }
    Ok(curves)
}

fn draw(file: &Path, task: &Task, own: &Curve, all: &[Curve]) -> Result<(), Box<dyn Error>> {
    let (ink, quiet, accent) = (RGBColor(40, 40, 48), RGBColor(190, 190, 198), RGBColor(31, 90, 170));
    let heights = all.iter().flat_map(|c| c.points.iter().flat_map(|p| [p.1 - p.2, p.1 + p.2]));
    let heights: Vec<f64> = heights.chain(task.marks.iter().map(|m| m.1)).collect();
    let low = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let high = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let margin = 0.06 * (high - low);
    let root = SVGBackend::new(file, (640, 400)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = (EPSILONS[0] * 0.9, EPSILONS[EPSILONS.len() - 1] * 1.1);
    let mut chart = ChartBuilder::on(&root)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((left..right).log_scale(), (low - margin)..(high + margin))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RGBColor(228, 228, 232))
        .light_line_style(TRANSPARENT)
        .axis_style(quiet)
        .x_desc("ε (logarithmic)")
        .y_desc(task.axis)
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 14, &ink))
        .axis_desc_style(("sans-serif", 14, &ink))
        .draw()?;
    for (text, height) in &task.marks {
        chart.draw_series(DashedLineSeries::new([(left, *height), (right, *height)], 3, 4, quiet.stroke_width(1)))?;
        let style = ("sans-serif", 12, &RGBColor(120, 120, 128)).into_text_style(&root);
        chart.draw_series([EmptyElement::at((left, *height)) + Text::new(text.clone(), (6, 3), style)])?;
    }
    for curve in all.iter().filter(|c| c.method != own.method) {
        chart.draw_series(LineSeries::new(curve.points.iter().map(|p| (p.0, p.1)), quiet.stroke_width(1)))?;
    }
    chart.draw_series(
        own.points.iter().map(|&(x, mean, spread)| {
            ErrorBar::new_vertical(x, mean - spread, mean, mean + spread, accent.filled(), 6)
        }),
    )?;
    chart
        .draw_series(LineSeries::new(own.points.iter().map(|p| (p.0, p.1)), accent.stroke_width(3)))?
        .label(own.method)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], accent.stroke_width(3)));
    chart
        .draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
        .label("other methods")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], quiet.stroke_width(1)));
    let corner = if task.name == "numbers" { SeriesLabelPosition::UpperRight } else { SeriesLabelPosition::LowerRight };
    chart
        .configure_series_labels()
        .position(corner)
        .background_style(WHITE.mix(0.9))
        .border_style(TRANSPARENT)
        .label_font(("sans-serif", 14, &ink))
        .draw()?;
    root.present()?;
    Ok(())
}
