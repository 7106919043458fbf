//! Test accuracy of every linear method on the census-income table without tuning, beside those of an independent
//! floating-point implementation of the same recipes.

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::data::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::optimize::{MethodOptions, Run, choose};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::Examples;
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use serde::Serialize;

/// The entry of test accuracies against ε.
pub const ENTRY: Entry = Entry {
    name: "census-accuracy",
    source: "literature on linear models: reference table of an independent implementation",
    shows: "test accuracy against ε of every linear method on census income, default options, δ = 1e-5",
    fidelity: Fidelity::StandIn("levels and bounds from the codebook; the reference took its levels from the file"),
    revision: 1,
    run,
};

const EPSILONS: [f64; 4] = [0.1, 0.5, 1.0, 4.0];
const DELTA: f64 = 1e-5;

/// Name, method, shift, and the reference's accuracies.
type Row = (&'static str, &'static str, Option<f64>, Option<[f64; 4]>);
const ROWS: [Row; 8] = [
    ("objective perturbation, shift 2", "objective-perturbation", Some(2.0), Some([0.8416, 0.8487, 0.8513, 0.8553])),
    ("objective perturbation, shift 0", "objective-perturbation", Some(0.0), Some([0.8336, 0.8502, 0.8518, 0.8563])),
    ("gradient descent", "noisy-gradient-descent", None, Some([0.8407, 0.8513, 0.8516, 0.8530])),
    ("DP-SGD", "noisy-sgd", None, Some([0.8388, 0.8504, 0.8513, 0.8526])),
    ("released preconditioner", "released-preconditioner", None, Some([0.8393, 0.8497, 0.8515, 0.8555])),
    ("double-noise Newton", "noisy-newton", None, Some([0.8286, 0.8386, 0.8459, 0.8469])),
    ("output perturbation", "output-perturbation", None, Some([0.8195, 0.8331, 0.8437, 0.8476])),
    ("regularised descent", "regularized-descent", None, None),
];

#[derive(Clone, Serialize)]
struct Setting {
    method: &'static str,
    shift: Option<f64>,
    epsilon: f64,
    rows: usize,
}

fn measure(all: &Examples, encoder: &Encoder, setting: &Setting, trial: Trial) -> Result<f64, Failure> {
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    // the same split for every method and ε
    dpopt::noise::NoiseSource::insecure(trial.shared_seed).stream(dpopt::noise::Purpose::Split, 0).shuffle(&mut order);
    order.truncate(setting.rows);
    let cut = order.len() * 4 / 5;
    let (train, test) = (all.select(&order[..cut]), all.select(&order[cut..]));
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: train.rows.len() as u64,
        features: encoder.dimension(),
        nonzeros: encoder.max_nonzeros(),
        row_norm: encoder.row_norm(),
        loss: Loss::Logistic { shift: 0.0 },
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let options = MethodOptions::of(setting.method).with_if("shift", setting.shift);
    let budget = Budget::new(setting.epsilon, DELTA).map_err(Failure::of)?;
    let plan = choose(&problem, budget, &options).map_err(Failure::of)?;
    let mut curator = Curator::new(&plan.summary().certificate, trial.source());
    let train = Sensitive::new(train);
    let run = Run::new(&problem, &train, &mut curator, &Silent).map_err(Failure::of)?;
    let weights = plan.run(run).map_err(Failure::of)?.into_inner().weights;
    let right = (0..test.rows.len())
        .filter(|&i| {
            let (indices, values) = test.rows.row(i);
            let score: f64 = indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum();
            (score > 0.0) == (test.targets[i] > 0.0)
        })
        .count();
    Ok(right as f64 / test.rows.len() as f64)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let path = lab.data("adult/adult.csv", "the census income table of the UCI repository")?;
    let bytes = std::fs::read(&path).map_err(|why| Failure::File { path: path.display().to_string(), why })?;
    let table = open_bytes(bytes, Format::Csv, &ReadOptions::default()).map_err(Failure::of)?;
    let bounds = include_str!("../../../../benches/adult/bounds-vocabulary.toml");
    let layout = Schema::from_toml(bounds)
        .and_then(|schema| schema.resolve(table.columns(), Some("income")))
        .map_err(Failure::of)?;
    let encoder = Encoder::new(&layout).map_err(Failure::of)?;
    // a public table: nothing here needs privacy
    let all = encoder.encode_public(&*table, BadCells::Missing).map_err(Failure::of)?;
    let rows = lab.pick(2000, all.rows.len());
    let repeats = lab.pick(1, 5);
    let epsilons = lab.pick(vec![1.0], EPSILONS.to_vec());
    lab.setting("rows, 4/5 of them for training", rows)?;
    lab.setting("features", encoder.dimension())?;
    lab.setting("delta", DELTA)?;
    lab.setting("splits", repeats)?;
    let mut settings = Vec::new();
    for (_, method, shift, _) in ROWS {
        settings.extend(epsilons.iter().map(|&epsilon| Setting { method, shift, epsilon, rows }));
    }
    let results = lab.trials("fit", &settings, repeats, |s, trial| measure(&all, &encoder, s, trial))?;
    let mut out = Table::new("accuracy", ["method", "epsilon", "test accuracy", "sd over splits", "reference"]);
    let mut panel = Panel::new("census income, default options", Axis::log("ε"), Axis::linear("test accuracy"));
    let (mut compared, mut worst) = (Vec::new(), f64::INFINITY);
    for (m, (name, _, _, reference)) in ROWS.iter().enumerate() {
        let mut points = Vec::new();
        for (e, &epsilon) in epsilons.iter().enumerate() {
            let s = Summary::of(results[m * epsilons.len() + e].iter().copied());
            let reported = reference.and_then(|r| EPSILONS.iter().position(|x| *x == epsilon).map(|i| r[i]));
            out.row([
                (*name).into(),
                epsilon.to_string(),
                cell(s.mean),
                cell(s.sd),
                reported.map_or_else(String::new, cell),
            ]);
            if let Some(reported) = reported {
                worst = worst.min(s.mean - reported);
                // not worse by more than two standard deviations of a split in the reference (.004 to .009)
                compared.push(Compared {
                    what: format!("{name}, ε = {epsilon}"),
                    reported: format!("{reported:.4}"),
                    ours: format!("{:.4} ± {:.4}", s.mean, s.sd),
                    agrees: Some(s.mean >= reported - 0.01),
                });
            }
            points.push(s.at(epsilon));
        }
        panel = panel.with(Series::band(*name, points));
    }
    let sentence = format!(
        "The library's methods, with exact integer noise and public levels, reach the accuracies of the reference; the largest \
         shortfall is {:.4}.",
        (-worst).max(0.0)
    );
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![out],
        charts: vec![("figure".into(), Chart::of([panel]))],
        compared,
        notes: vec!["The reference's spread over splits is .004 to .009; differences below .002 mean nothing.".into()],
    })
}
