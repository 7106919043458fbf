//! Draws docs/images/embeddings.svg: what embeddings learn that a linear model can't, against ε.
//!
//! `cargo run --release -p dpopt --example embedding_figure -- docs/images/embeddings.svg`
//! A synthetic table of who liked what: 400 users, 300 items with popularity by Zipf's law, hidden vectors of four numbers. The
//! test rows have the same users and items. δ = 1e-6, zero-out, default options but for the dimension; mean and standard
//! deviation over four runs with fresh noise.

use dpopt::Sensitive;
use dpopt::loss::embedding::{Embedding, Towers};
use dpopt::loss::{Loss, sigmoid};
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::optimize::{MethodOptions, Run, choose};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use plotters::prelude::*;
use std::error::Error;

const USERS: u32 = 400;
const ITEMS: u32 = 300;
const HIDDEN: usize = 4;
const DIMENSION: usize = 8;
const EPSILONS: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
const RUNS: u64 = 4;
const DELTA: f64 = 1e-6;

/// Rows (intercept, user, item) with label ±1, and the accuracy of the true model.
fn likes(train: usize, test: usize) -> (Examples, Examples, f64) {
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
    let vectors = |stream: &mut Stream, count: u32| -> Vec<[f64; HIDDEN]> {
        // sums of uniform numbers are normal enough
        (0..count)
            .map(|_| std::array::from_fn(|_| (0..6).map(|_| stream.uniform() - 0.5).sum::<f64>() * 2f64.sqrt()))
            .collect()
    };
    let (users, items) = (vectors(&mut stream, USERS), vectors(&mut stream, ITEMS));
    let third = (1.0f64 / 3.0).sqrt() as f32;
    let mut right = 0;
    let mut table = |stream: &mut Stream, rows: usize| {
        let mut examples = Examples { rows: Rows::new((1 + USERS + ITEMS) as usize), targets: Vec::new() };
        for _ in 0..rows {
            let u = stream.below(u64::from(USERS)) as u32;
            let i = ((stream.uniform() * f64::from(ITEMS + 1).ln()).exp() as u32).clamp(1, ITEMS) - 1;
            let score: f64 = users[u as usize].iter().zip(&items[i as usize]).map(|(a, b)| 2.0 * a * b).sum();
            let label = if stream.uniform() < sigmoid(score) { 1.0 } else { -1.0 };
            right += usize::from((label > 0.0) == (score > 0.0));
            examples.rows.push_clipped(&mut [(0, third), (1 + u, third), (1 + USERS + i, third)], 1.0);
            examples.targets.push(label);
        }
        examples
    };
    let (train, test) = (table(&mut stream, train), table(&mut stream, test));
    let all = (train.rows.len() + test.rows.len()) as f64;
    (train, test, right as f64 / all)
}

struct Curve {
    name: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64, f64)>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("give the picture's file")?;
    let (train, test, best) = likes(200_000, 40_000);
    let features = train.rows.columns();
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: train.rows.len() as u64,
        features,
        nonzeros: 3,
        row_norm: 1.0,
        loss: Loss::Logistic { shift: 0.0 },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let train = Sensitive::new(train);
    let towers = Towers { users: vec![(1, 1 + USERS)], items: vec![(1 + USERS, 1 + USERS + ITEMS)] };
    let model = Embedding { dimension: DIMENSION, towers: Some(towers), seed: 0 };
    let linear = MethodOptions::default();
    let mut towers = linear.clone();
    towers.embedding = Some(model);
    let forms = [
        ("linear", RGBColor(150, 150, 158), linear),
        ("two towers", RGBColor(31, 90, 170), towers.clone()),
        ("two towers, chosen rows", RGBColor(24, 136, 102), towers.with("select_rows", true)),
    ];
    let mut curves = Vec::new();
    for (name, color, options) in forms {
        let mut curve = Curve { name, color, points: Vec::new() };
        for epsilon in EPSILONS {
            let plan = choose(&problem, Budget::new(epsilon, DELTA)?, &options)?;
            let mut scores = Vec::new();
            for seed in 0..RUNS {
                let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
                let weights = plan.run(Run::new(&problem, &train, &mut curator, &Silent)?)?.into_inner().weights;
                let right = (0..test.rows.len()).filter(|&i| {
                    let (columns, values) = test.rows.row(i);
                    let score = match &options.embedding {
                        Some(model) => model.scores(&weights, features, 1, columns, values)[0],
                        None => columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum(),
                    };
                    (score > 0.0) == (test.targets[i] > 0.0)
                });
                scores.push(right.count() as f64 / test.rows.len() as f64);
            }
            let mean = scores.iter().sum::<f64>() / RUNS as f64;
            let spread = (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (RUNS - 1) as f64).sqrt();
            println!("{name} epsilon {epsilon}: {mean:.4} +- {spread:.4} {}", plan.schedule());
            curve.points.push((epsilon, mean, spread));
        }
        curves.push(curve);
    }
    draw(&file, &curves, best)
}

fn draw(file: &str, curves: &[Curve], best: f64) -> Result<(), Box<dyn Error>> {
    let (ink, quiet) = (RGBColor(40, 40, 48), RGBColor(190, 190, 198));
    let root = SVGBackend::new(file, (640, 400)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = (EPSILONS[0] * 0.9, EPSILONS[EPSILONS.len() - 1] * 1.1);
    let mut chart = ChartBuilder::on(&root)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((left..right).log_scale(), 0.45..(best + 0.05))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RGBColor(228, 228, 232))
        .light_line_style(TRANSPARENT)
        .axis_style(quiet)
        .x_desc("ε (logarithmic)")
        .y_desc("test accuracy")
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 14, &ink))
        .axis_desc_style(("sans-serif", 14, &ink))
        .draw()?;
    chart.draw_series(DashedLineSeries::new([(left, best), (right, best)], 3, 4, quiet.stroke_width(1)))?;
    let style = ("sans-serif", 12, &RGBColor(120, 120, 128)).into_text_style(&root);
    chart.draw_series([EmptyElement::at((left, best)) + Text::new("the true model", (6, -16), style)])?;
    for curve in curves {
        let color = curve.color;
        chart.draw_series(
            curve
                .points
                .iter()
                .map(|&(x, mean, s)| ErrorBar::new_vertical(x, mean - s, mean, mean + s, color.filled(), 6)),
        )?;
        chart
            .draw_series(LineSeries::new(curve.points.iter().map(|p| (p.0, p.1)), color.stroke_width(3)))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(30, 110))
        .margin(30)
        .background_style(WHITE.mix(0.9))
        .border_style(TRANSPARENT)
        .label_font(("sans-serif", 14, &ink))
        .draw()?;
    root.present()?;
    Ok(())
}
