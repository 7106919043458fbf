//! Where the exponential mechanism stands: by predicted and by measured risk against output perturbation, objective
//! perturbation and noisy gradient descent at equal (ε, δ), how its risk and its rounds grow, and how long it takes.
//!
//! `cargo run --release -p dpopt --example exponential_mechanism -- docs/images map measured measured-map slopes speed`
//! All data are made from a seed. δ = 1e-6, rows of norm 1.

use dpopt::Sensitive;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::gibbs_parameters::{RiskFacts, empirical, shares};
use dpopt::optimize::{MethodOptions, Prepared, Run, candidates, choose, registry};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

type Fallible<T> = Result<T, Box<dyn Error>>;

const DELTA: f64 = 1e-6;
const OURS: &str = "exponential-mechanism";
const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("give the folder for the pictures, then any of: map measured measured-map slopes speed")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    for part in arguments {
        match part.as_str() {
            "map" => map(folder)?,
            "measured" => measured(folder)?,
            "measured-map" => measured_map(folder)?,
            "slopes" => slopes()?,
            "speed" => speed()?,
            other => {
                return Err(format!("no part {other}; the parts are map, measured, measured-map, slopes, speed").into());
            }
        }
    }
    Ok(())
}

fn problem(rows: usize, features: usize, loss: Loss, relation: Relation) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: rows as u64,
        features,
        nonzeros: features,
        row_norm: 1.0,
        loss,
        neighbours: Neighbours::of_records(relation),
    }
}

/// Rows with directions of falling size, a linear truth, and labels or numbers with noise.
fn table(rows: usize, features: usize, loss: Loss, seed: u64) -> Examples {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Initialisation, 0);
    let mut examples = Examples { rows: Rows::new(features), targets: Vec::new() };
    let truth: Vec<f64> = (0..features).map(|j| if j % 2 == 0 { 3.0 } else { -3.0 }).collect();
    for _ in 0..rows {
        let raw: Vec<f64> = (0..features).map(|j| stream.standard_normal() / (1.0 + j as f64).sqrt()).collect();
        let size = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut row: Vec<(u32, f32)> = raw.iter().enumerate().map(|(j, x)| (j as u32, (x / size) as f32)).collect();
        let score: f64 = raw.iter().zip(&truth).map(|(x, t)| x * t / size).sum();
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(match loss {
            Loss::Logistic { .. } | Loss::Hinge => {
                if stream.uniform() < 1.0 / (1.0 + (-score).exp()) {
                    1.0
                } else {
                    -1.0
                }
            }
            _ => (0.25 * score + 0.1 * stream.standard_normal()).clamp(-1.0, 1.0) as f32,
        });
    }
    examples
}

fn mean_loss(examples: &Examples, loss: Loss, weights: &[f64]) -> f64 {
    let sum: f64 = (0..examples.rows.len())
        .map(|i| {
            let (indices, values) = examples.rows.row(i);
            let score: f64 = indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
            loss.scalar_value(score, f64::from(examples.targets[i]))
        })
        .sum();
    sum / examples.rows.len() as f64
}

/// The least mean loss, by gradient descent with momentum far past what matters here.
fn least_loss(examples: &Examples, loss: Loss) -> f64 {
    let d = examples.rows.columns();
    let (mut theta, mut velocity) = (vec![0.0; d], vec![0.0; d]);
    for _ in 0..6_000 {
        let mut gradient = vec![0.0; d];
        for i in 0..examples.rows.len() {
            let (indices, values) = examples.rows.row(i);
            let score: f64 = indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * theta[j as usize]).sum();
            let slope = loss.scalar_slope(score, f64::from(examples.targets[i])) / examples.rows.len() as f64;
            indices.iter().zip(values).for_each(|(&j, &x)| gradient[j as usize] += slope * f64::from(x));
        }
        for j in 0..d {
            velocity[j] = 0.95 * velocity[j] + gradient[j];
            theta[j] -= 0.5 * velocity[j];
        }
    }
    mean_loss(examples, loss, &theta)
}

fn options(method: &str, regularization: Option<f64>) -> MethodOptions {
    MethodOptions::of(method).with("shift", 0.0).with_if("regularization", regularization)
}

/// Mean excess of the mean loss over `runs` runs, and its standard error.
fn excess(
    plan: &dyn Prepared,
    problem: &Problem,
    data: &Examples,
    loss: Loss,
    least: f64,
    runs: u64,
) -> Fallible<(f64, f64)> {
    let held = Sensitive::new(data.clone());
    let mut values = Vec::new();
    for seed in 0..runs {
        let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(seed));
        let weights = plan.run(Run::new(problem, &held, &mut curator, &Silent)?)?.into_inner().weights;
        values.push(mean_loss(data, loss, &weights) - least);
    }
    let mean = values.iter().sum::<f64>() / runs as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (runs as f64 - 1.0).max(1.0);
    Ok((mean, (variance / runs as f64).sqrt()))
}

const COLOURS: [(u8, u8, u8); 10] = [
    (240, 140, 160),
    (31, 90, 170),
    (86, 160, 211),
    (140, 140, 200),
    (120, 190, 160),
    (90, 150, 110),
    (200, 190, 120),
    (220, 95, 60),
    (160, 160, 160),
    (230, 190, 90),
];

/// A picture of which method is best over (n, ε).
struct Map<'a> {
    file: &'a str,
    /// d: number of features.
    features: usize,
    /// log10 of the first n and of the first ε, and the width of a cell in both.
    origin: (f64, f64),
    width: f64,
    cells: usize,
    panels: &'a [(&'a str, Loss, Relation)],
}

const NOTHING: &str = "weights 0";

impl Map<'_> {
    /// Draws what `best` says of each cell, and prints how often it is [`OURS`].
    fn draw(&self, folder: &Path, best: impl Fn(&Problem, f64) -> Fallible<Option<&'static str>>) -> Fallible<()> {
        let file = folder.join(self.file);
        let lines = self.panels.len() / 2;
        let root = SVGBackend::new(&file, (980, 360 * lines as u32 + 100)).into_drawing_area();
        root.fill(&WHITE)?;
        let (drawing, legend) = root.split_vertically(360 * lines as i32);
        let mut seen = std::collections::BTreeSet::new();
        let side = self.cells as f64 * self.width;
        let (x0, y0) = (self.origin.0 - 0.5 * self.width, self.origin.1 - 0.5 * self.width);
        for (area, &(title, loss, relation)) in drawing.split_evenly((lines, 2)).iter().zip(self.panels) {
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .caption(title, ("sans-serif", 16))
                .x_label_area_size(40)
                .y_label_area_size(56)
                .build_cartesian_2d(x0..x0 + side, y0..y0 + side)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_desc(format!("rows n, d = {}", self.features))
                .y_desc("ε")
                .x_label_formatter(&|x| format!("{:.0}", 10f64.powf(*x)))
                .y_label_formatter(&|y| format!("{:.2}", 10f64.powf(*y)))
                .draw()?;
            let mut won = 0;
            for (i, j) in (0..self.cells).flat_map(|i| (0..self.cells).map(move |j| (i, j))) {
                let at = |origin: f64, k: usize| 10f64.powf(origin + self.width * k as f64);
                let facts = problem(at(self.origin.0, i).round() as usize, self.features, loss, relation);
                let Some(method) = best(&facts, at(self.origin.1, j))? else { continue };
                won += usize::from(method == OURS);
                seen.insert(method);
                let (x, y) = (x0 + self.width * i as f64, y0 + self.width * j as f64);
                let cell = Rectangle::new([(x, y), (x + self.width, y + self.width)], colour(method).filled());
                chart.draw_series([cell])?;
            }
            println!("{title}: {OURS} is best in {won} of {} cells", self.cells * self.cells);
        }
        let ink = RGBColor(40, 40, 48);
        for (place, method) in seen.iter().enumerate() {
            let (x, y) = (40 + 300 * (place as i32 % 3), 14 + 26 * (place as i32 / 3));
            legend.draw(&Rectangle::new([(x, y), (x + 16, y + 16)], colour(method).filled()))?;
            legend.draw(&Text::new(
                (*method).to_string(),
                (x + 24, y + 1),
                ("sans-serif", 15).into_font().color(&ink),
            ))?;
        }
        root.present()?;
        Ok(())
    }
}

fn colour(method: &str) -> RGBColor {
    let place = registry().names().position(|m| m == method);
    let (r, g, b) = place.map_or((225, 225, 228), |place| COLOURS[place % COLOURS.len()]);
    RGBColor(r, g, b)
}

/// Which method has the smallest predicted risk over (n, ε).
fn map(folder: &Path) -> Fallible<()> {
    let map = Map {
        file: "exponential-mechanism-map.svg",
        features: 20,
        origin: (2.0, -2.0),
        width: 0.375,
        cells: 9,
        panels: &[
            ("labels (logistic), zero-out", LOGISTIC, Relation::ZeroOut),
            ("labels (logistic), replace-one", LOGISTIC, Relation::ReplaceOne),
            ("numbers (Huber), zero-out", Loss::Squared, Relation::ZeroOut),
            ("labels (hinge), zero-out", Loss::Hinge, Relation::ZeroOut),
        ],
    };
    map.draw(folder, |facts, epsilon| {
        let plans = candidates(facts, Budget::new(epsilon, DELTA)?, &MethodOptions::default());
        let risks =
            plans.iter().filter_map(|c| c.plan.as_ref().ok().map(|p| (c.method, p.summary().predicted_excess_risk)));
        Ok(risks.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(method, _)| method))
    })
}

/// Which method has the smallest measured risk over (n, ε), defaults of each: 25 runs on each of four tables a cell.
fn measured_map(folder: &Path) -> Fallible<()> {
    let map = Map {
        file: "exponential-mechanism-measured-map.svg",
        features: 5,
        origin: (2.0, -1.5),
        width: 0.5,
        cells: 3,
        panels: &[
            ("labels (logistic), zero-out, measured", LOGISTIC, Relation::ZeroOut),
            ("labels (logistic), replace-one, measured", LOGISTIC, Relation::ReplaceOne),
        ],
    };
    let methods = [
        OURS,
        "objective-perturbation",
        "noisy-gradient-descent",
        "output-perturbation",
        "noisy-newton",
        "released-preconditioner",
    ];
    println!("\nmeasured excess, four tables of 25 runs: relation, n, ε, weights 0, then {}", methods.join(", "));
    map.draw(folder, |facts, epsilon| {
        let budget = Budget::new(epsilon, DELTA)?;
        let mut sums = vec![(0.0, 0.0); methods.len() + 1];
        for seed in 0..4 {
            let data = table(facts.rows as usize, facts.features, facts.loss, 100 + seed);
            let least = least_loss(&data, facts.loss);
            sums[methods.len()].0 += 0.25 * (mean_loss(&data, facts.loss, &vec![0.0; facts.features]) - least);
            for (sum, method) in sums.iter_mut().zip(methods) {
                let plain = MethodOptions::of(method);
                let (mean, error) = match choose(facts, budget, &plain) {
                    Ok(plan) => excess(&*plan, facts, &data, facts.loss, least, 25)?,
                    Err(_) => (f64::INFINITY, 0.0),
                };
                *sum = (sum.0 + 0.25 * mean, sum.1 + 0.0625 * error * error);
            }
        }
        let cells: Vec<String> =
            sums.iter().map(|(mean, square)| format!("{mean:.4} ± {:.4}", square.sqrt())).collect();
        println!(
            "{:?} n {} ε {epsilon:.3}: {} | {}",
            facts.relation(),
            facts.rows,
            cells[methods.len()],
            cells[..methods.len()].join(", ")
        );
        let best = sums.iter().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(0, |(i, _)| i);
        Ok(Some(methods.get(best).copied().unwrap_or(NOTHING)))
    })
}

/// Measured excess risk at equal (ε, δ).
fn measured(folder: &Path) -> Fallible<()> {
    let methods = [OURS, "objective-perturbation", "noisy-gradient-descent", "output-perturbation"];
    let epsilons = [0.1, 0.3, 1.0, 3.0, 10.0];
    let file = folder.join("exponential-mechanism-risk.svg");
    let root = SVGBackend::new(&file, (980, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let panels = [
        ("logistic, zero-out, n = 1000, d = 10", LOGISTIC, Relation::ZeroOut, 1000),
        ("logistic, replace-one, n = 1000, d = 10", LOGISTIC, Relation::ReplaceOne, 1000),
        ("Huber, zero-out, n = 1000, d = 10", Loss::Huber { threshold: 0.5 }, Relation::ZeroOut, 1000),
    ];
    let colours = [RGBColor(220, 95, 60), RGBColor(31, 90, 170), RGBColor(86, 160, 211), RGBColor(150, 150, 150)];
    for (area, (title, loss, relation, n)) in root.split_evenly((1, 3)).iter().zip(panels) {
        let data = table(n, 10, loss, 1);
        let least = least_loss(&data, loss);
        let facts = problem(n, 10, loss, relation);
        println!("\n{title}: least loss {least:.4}, loss at 0 {:.4}", mean_loss(&data, loss, &[0.0; 10]));
        println!("| ε | {} |\n|---|---|---|---|---|", methods.join(" | "));
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); methods.len()];
        for epsilon in epsilons {
            let mut cells = Vec::new();
            for (m, method) in methods.iter().enumerate() {
                match choose(&facts, Budget::new(epsilon, DELTA)?, &options(method, None)) {
                    Err(_) => cells.push("–".to_string()),
                    Ok(plan) => {
                        let (mean, error) = excess(&*plan, &facts, &data, loss, least, 20)?;
                        let predicted = plan.summary().predicted_excess_risk;
                        cells.push(format!("{mean:.4} ± {error:.4} (predicted {predicted:.4})"));
                        curves[m].push((epsilon, mean.max(1e-6)));
                    }
                }
            }
            println!("| {epsilon} | {} |", cells.join(" | "));
        }
        let all: Vec<f64> = curves.iter().flatten().map(|p| p.1).collect();
        let (low, high) = all.iter().fold((f64::INFINITY, 0.0f64), |(l, h), &x| (l.min(x), h.max(x)));
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .caption(title, ("sans-serif", 15))
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d((0.09..11.0).log_scale(), (low * 0.7..high * 1.6).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(232, 232, 236))
            .x_desc("ε")
            .y_desc("excess of the mean loss")
            .x_label_formatter(&|x| format!("{x}"))
            .y_label_formatter(&|y| format!("{y:.0e}"))
            .draw()?;
        for ((curve, colour), method) in curves.iter().zip(colours).zip(methods) {
            chart
                .draw_series(LineSeries::new(curve.iter().copied(), colour.stroke_width(2)).point_size(3))?
                .label(method)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(TRANSPARENT)
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    root.present()?;
    Ok(())
}

/// Least squares slope of ln y in ln x.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0.ln()).sum::<f64>() / n, points.iter().map(|p| p.1.ln()).sum::<f64>() / n);
    let top: f64 = points.iter().map(|p| (p.0.ln() - mx) * (p.1.ln() - my)).sum();
    top / points.iter().map(|p| (p.0.ln() - mx).powi(2)).sum::<f64>()
}

/// λ = nμ of the worst-case tuning for a minimiser of norm at most 1.
fn worst_case(facts: &Problem, epsilon: f64) -> Fallible<f64> {
    let public = RiskFacts {
        rows: facts.rows as f64,
        dimension: facts.features as f64,
        radius: 1.0,
        difference_lipschitz: facts.relation().sum_sensitivity(),
    };
    Ok(public.rows * empirical(public, shares(Budget::new(epsilon, DELTA)?).mu).modulus)
}

/// Shifted so far that it is linear on the unit ball to 1e-4, slope 1.
const LINEAR: Loss = Loss::Logistic { shift: 10.0 };

/// The hard instance of the worst-case tuning: linear losses with a mean slope of μ/2 in one direction. Half of each row lies
/// in that direction; the rest is uniform, of either sign in a pair of rows with one label, so that it has mean 0.
fn hard_table(n: usize, d: usize, modulus: f64, seed: u64) -> Examples {
    let mut stream = NoiseSource::insecure(seed).stream(Purpose::Initialisation, 0);
    let mut examples = Examples { rows: Rows::new(d), targets: Vec::new() };
    let half = 0.5f64.sqrt();
    // mean slope: half·(share of + less share of -)
    let plus = ((0.5 + 0.25 * modulus / half).min(1.0) * n as f64 / 2.0).round() as usize * 2;
    let mut raw: Vec<f64> = Vec::new();
    for i in 0..n {
        match i % 2 {
            0 => raw = (1..d).map(|_| stream.standard_normal()).collect(),
            _ => raw.iter_mut().for_each(|x| *x = -*x),
        }
        let size = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
        let rest = raw.iter().map(|x| x * half / size);
        let mut row: Vec<(u32, f32)> = (0u32..).zip(std::iter::once(half).chain(rest).map(|x| x as f32)).collect();
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(if i < plus { 1.0 } else { -1.0 });
    }
    examples
}

/// Excess risk over the best point of the unit ball, and rounds, against n, d and ε with the tuning that the bound
/// √(2d)·G/(sn) is proved for.
fn slopes() -> Fallible<()> {
    let run = |n: usize, d: usize, epsilon: f64| -> Fallible<(f64, f64, f64, f64)> {
        let facts = problem(n, d, LINEAR, Relation::ZeroOut);
        let lambda = worst_case(&facts, epsilon)?;
        let plan = choose(&facts, Budget::new(epsilon, DELTA)?, &options(OURS, Some(lambda)).with("shift", 10.0))?;
        let data = hard_table(n, d, lambda / n as f64, 3);
        // by symmetry the best point of the ball lies along the first column
        let along = |t: f64| {
            mean_loss(&data, LINEAR, &std::iter::once(t).chain(std::iter::repeat_n(0.0, d - 1)).collect::<Vec<_>>())
        };
        let least = (0..=1000).map(|i| along(f64::from(i) / 1000.0)).fold(f64::INFINITY, f64::min);
        let (mean, error) = excess(&*plan, &facts, &data, LINEAR, least, 100)?;
        let bound = lambda / n as f64; // μR² with R = 1
        Ok((mean, error, bound, plan.summary().steps as f64))
    };
    let show = |name: &str, settings: &[(usize, usize, f64)], key: fn(&(usize, usize, f64)) -> f64| -> Fallible<()> {
        let (mut points, mut rounds_at) = (Vec::new(), Vec::new());
        for setting in settings {
            let &(n, d, epsilon) = setting;
            let (mean, error, bound, rounds) = run(n, d, epsilon)?;
            println!("n {n}, d {d}, ε {epsilon}: {mean:.5} ± {error:.5}, bound {bound:.5}, {rounds} rounds");
            points.push((key(setting), mean));
            rounds_at.push((key(setting), rounds));
        }
        println!("slope in {name}: {:.3} (rounds: {:.3})", slope(&points), slope(&rounds_at));
        Ok(())
    };
    println!("\nexcess risk on hard instances with the worst-case tuning");
    show("n", &[500, 1000, 2000, 4000].map(|n| (n, 10, 0.1)), |s| s.0 as f64)?;
    show("d", &[4, 8, 16, 32, 64].map(|d| (1000, d, 0.1)), |s| s.1 as f64)?;
    show("ε", &[0.05, 0.1, 0.2, 0.4].map(|e| (1000, 10, e)), |s| s.2)
}

fn speed() -> Fallible<()> {
    println!("\ntime of one certified draw");
    for (n, d) in [(1_000usize, 10usize), (10_000, 20)] {
        let facts = problem(n, d, LOGISTIC, Relation::ZeroOut);
        let data = Sensitive::new(table(n, d, LOGISTIC, 5));
        for (name, lambda) in [("worst-case tuning", Some(worst_case(&facts, 1.0)?)), ("default", None)] {
            let plan = choose(&facts, Budget::new(1.0, DELTA)?, &options(OURS, lambda))?;
            let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(1));
            let started = Instant::now();
            plan.run(Run::new(&facts, &data, &mut curator, &Silent)?)?;
            let schedule = plan.schedule();
            println!(
                "n {n}, d {d}, {name}: {:.2} s, {} rounds, lambda {:.2}",
                started.elapsed().as_secs_f64(),
                plan.summary().steps,
                schedule["chain"]["regularization"].as_f64().unwrap_or(f64::NAN)
            );
        }
    }
    Ok(())
}
