//! Figure 11.1 of Liu 2024: DP gradient descent on the generalised geometric median, loss against dimension for three
//! spectra. Twice: with the noise of the released script, and with exact noise where it hurts.
//!
//! Covers: thesis algorithm 35

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::noise::Stream;
use dpopt::privacy::special::gaussian_mu;
use dpopt::report::chart::{Axis, Chart, Panel, Series, log_log_slope};
use dpopt_problems::GeometricMedian;
use serde::{Deserialize, Serialize};

/// As the released script computed it, and its broken "const" corrected beside the printed one.
pub const AS_SCRIPTED: Entry = Entry {
    name: "geometric-median",
    source: "thesis, Figure 11.1 and §11.4.1",
    shows: "loss of private gradient descent against dimension, for three spectra, (2, 1e-6)-DP, n = 10,000",
    fidelity: Fidelity::Corrected("`const` is a constant spectrum here; the script's own is drawn beside it"),
    revision: 1,
    run: as_scripted,
};

/// The entry of the figure's losses at a budget where exact noise is felt.
pub const EXACT_NOISE: Entry = Entry {
    name: "geometric-median-exact",
    source: "thesis, Figure 11.1, at a harder budget",
    shows: "the same with exact noise, (0.2, 1e-6)-DP, n = 1,000: excess loss grows with d, or does not",
    fidelity: Fidelity::Corrected(
        "exact Gaussian accounting; at the figure's own budget the effect nearly vanishes with it",
    ),
    revision: 1,
    run: exact_noise,
};

/// g₀ of A^{1/2} = g₀·diag(j^{−p}).
const SCALE: f64 = 3.0;
const DELTA: f64 = 1e-6;
const DIMENSIONS: [usize; 7] = [20, 50, 100, 200, 500, 1000, 2000];

/// A spectrum: exponent p on A^{1/2}.
#[derive(Clone, Copy, Serialize)]
struct Mode {
    name: &'static str,
    exponent: f64,
}

const CONST: Mode = Mode { name: "const (p = 0)", exponent: 0.0 };
const QUARTER: Mode = Mode { name: "p = 1/4", exponent: 0.25 };
const SQRT: Mode = Mode { name: "sqrt (p = 1/2)", exponent: 0.5 };
const LINEAR: Mode = Mode { name: "linear (p = 1)", exponent: 1.0 };
/// diag(1, 2, …, d) with noise for diag(1, …, 1): not private at the stated budget.
const PRINTED: Mode = Mode { name: "the script's `const`: 1, 2, …, d", exponent: -1.0 };

/// How the noise scale of a step is computed.
#[derive(Clone, Copy, Serialize)]
enum Accounting {
    /// Classical Gaussian mechanism under advanced composition, as in the script.
    Script,
    /// Composition of Gaussians, exactly.
    Exact,
}

/// All trials of one spectrum and dimension on one data set.
#[derive(Clone, Serialize)]
struct Setting {
    mode: Mode,
    dimension: usize,
    records: usize,
    test_records: usize,
    epsilon: f64,
    accounting: Accounting,
    steps: Vec<u32>,
    rates: Vec<f64>,
    data_seed: u64,
}

/// Losses of one repeat, by (steps, rate).
#[derive(Clone, Serialize, Deserialize)]
struct Losses {
    train: Vec<f64>,
    test: Vec<f64>,
}

/// Noise standard deviation per coordinate of the mean gradient, for `steps` releases of l2 sensitivity `sensitivity`.
fn noise_std(accounting: Accounting, steps: u32, sensitivity: f64, epsilon: f64) -> f64 {
    let t = f64::from(steps);
    match accounting {
        Accounting::Exact => t.sqrt() * sensitivity / gaussian_mu(epsilon, DELTA),
        Accounting::Script => {
            let delta = DELTA / (t + 1.0);
            let total = |e: f64| (2.0 * t * (1.0 / delta).ln()).sqrt() * e + t * e * e.exp_m1();
            let (mut low, mut high) = (1e-6, 5.0);
            while high - low > 1e-4 * low {
                let middle = 0.5 * (low + high);
                if total(middle) <= epsilon { low = middle } else { high = middle }
            }
            (2.0 * (1.25 / delta).ln()).sqrt() * sensitivity / low
        }
    }
}

/// T steps x ← x − η(∇F(x) + noise) from 0; the mean of the iterates 1..T.
fn descend(f: &GeometricMedian, steps: u32, rate: f64, noise: f64, stream: &mut Stream) -> Vec<f64> {
    let d = f.dimension();
    let (mut x, mut mean, mut gradient, mut z) = (vec![0.0; d], vec![0.0; d], vec![0.0; d], vec![0.0; d]);
    for t in 1..=steps {
        f.gradient(&x, &mut gradient);
        stream.fill_standard_normal(&mut z);
        let share = 1.0 / f64::from(t);
        for (((v, m), g), z) in x.iter_mut().zip(&mut mean).zip(&gradient).zip(&z) {
            *v -= rate * (g + noise * z);
            *m += share * (*v - *m);
        }
    }
    mean
}

fn run_grid(setting: &Setting, trial: Trial) -> Result<Losses, Failure> {
    let make =
        |records, seed| GeometricMedian::generate(records, setting.dimension, SCALE, setting.mode.exponent, seed);
    let f = make(setting.records, setting.data_seed);
    let test = make(setting.test_records, setting.data_seed ^ 0x7e57);
    // replace-one, and every gradient is at most g₀ long: true for decaying spectra, and what the script assumes for all
    let sensitivity = 2.0 * SCALE / setting.records as f64;
    let mut stream = trial.stream();
    let mut losses = Losses { train: Vec::new(), test: Vec::new() };
    for &steps in &setting.steps {
        let noise = noise_std(setting.accounting, steps, sensitivity, setting.epsilon);
        for &rate in &setting.rates {
            let x = descend(&f, steps, rate, noise, &mut stream);
            losses.train.push(f.value(&x));
            losses.test.push(test.value(&x));
        }
    }
    Ok(losses)
}

/// The grid cell with the smallest mean training loss, its losses over the repeats, and the non-private minimum.
#[derive(Clone)]
struct Best {
    data_seed: u64,
    mode: Mode,
    dimension: usize,
    train: Summary,
    test: Summary,
    minimum: f64,
    steps: u32,
    rate: f64,
}

impl Best {
    fn excess(&self) -> f64 {
        self.train.mean - self.minimum
    }
}

fn select(setting: &Setting, repeats: &[Losses]) -> Best {
    let cells = setting.steps.len() * setting.rates.len();
    let summary = |pick: fn(&Losses) -> &Vec<f64>, c: usize| Summary::of(repeats.iter().map(|l| pick(l)[c]));
    let mean = |c: usize| summary(|l| &l.train, c).mean;
    let chosen = (0..cells).filter(|c| mean(*c).is_finite()).min_by(|a, b| mean(*a).total_cmp(&mean(*b))).unwrap_or(0);
    let f = GeometricMedian::generate(setting.records, 1, SCALE, 0.0, setting.data_seed);
    Best {
        data_seed: setting.data_seed,
        mode: setting.mode,
        dimension: setting.dimension,
        train: summary(|l| &l.train, chosen),
        test: summary(|l| &l.test, chosen),
        minimum: f.value(&f.minimiser()),
        steps: setting.steps[chosen / setting.rates.len()],
        rate: setting.rates[chosen % setting.rates.len()],
    }
}

fn tune(lab: &Lab, settings: &[Setting], repeats: u32) -> Result<Vec<Best>, Failure> {
    let losses = lab.trials("descend", settings, repeats, run_grid)?;
    Ok(settings.iter().zip(&losses).map(|(s, l)| select(s, l)).collect())
}

const RATES: [f64; 10] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0];

fn settings(
    lab: &Lab,
    modes: &[Mode],
    records: usize,
    epsilon: f64,
    accounting: Accounting,
    doublings: u32,
    draws: u64,
) -> Result<Vec<Setting>, Failure> {
    let dimensions = lab.pick(vec![20, 100], DIMENSIONS.to_vec());
    let steps: Vec<u32> = (0..doublings).map(|i| 10 << i).collect();
    let rates = lab.pick(vec![1e-2, 1e-1, 1.0], RATES.to_vec());
    let records = lab.pick(records / 10, records);
    lab.setting("n", records)?;
    lab.setting("epsilon, delta", [epsilon, DELTA])?;
    lab.setting("A^(1/2)", format!("{SCALE}·diag(j^-p)"))?;
    lab.setting("dimensions", &dimensions)?;
    lab.setting("steps T", &steps)?;
    lab.setting("learning rates", &rates)?;
    let mut all = Vec::new();
    for &mode in modes {
        for &dimension in &dimensions {
            for draw in 0..draws {
                all.push(Setting {
                    mode,
                    dimension,
                    records,
                    test_records: lab.pick(1000, 10_000),
                    epsilon,
                    accounting,
                    steps: steps.clone(),
                    rates: rates.clone(),
                    data_seed: lab.seed.wrapping_mul(1000) + draw,
                });
            }
        }
    }
    Ok(all)
}

fn table(best: &[Best]) -> Table {
    let mut table = Table::new(
        "losses",
        [
            "spectrum",
            "data seed",
            "d",
            "train loss",
            "sd",
            "test loss",
            "test sd",
            "minimum",
            "excess",
            "T",
            "learning rate",
        ],
    );
    for b in best {
        table.row([
            b.mode.name.into(),
            b.data_seed.to_string(),
            b.dimension.to_string(),
            cell(b.train.mean),
            cell(b.train.sd),
            cell(b.test.mean),
            cell(b.test.sd),
            cell(b.minimum),
            cell(b.excess()),
            b.steps.to_string(),
            b.rate.to_string(),
        ]);
    }
    table
}

/// Excess against d, averaged over data draws: (d, mean, sd over draws, or over repeats with one draw).
fn excess_by_dimension(best: &[Best], mode: Mode) -> Vec<(f64, Summary)> {
    let mut dimensions: Vec<usize> = best.iter().map(|b| b.dimension).collect();
    dimensions.sort_unstable();
    dimensions.dedup();
    dimensions
        .into_iter()
        .map(|d| {
            let own: Vec<&Best> = best.iter().filter(|b| b.dimension == d && b.mode.name == mode.name).collect();
            let mut summary = Summary::of(own.iter().map(|b| b.excess()));
            if let [one] = own[..] {
                summary.sd = one.train.sd;
            }
            (d as f64, summary)
        })
        .collect()
}

fn loss_panel(
    title: &str,
    best: &[Best],
    modes: &[Mode],
    pick: fn(&Best) -> Summary,
    range: Option<(f64, f64)>,
) -> Panel {
    let mut axis = Axis::linear("loss");
    if let Some((low, high)) = range {
        axis = axis.from_to(low, high);
    }
    let mut panel = Panel::new(title, Axis::log("dimension d"), axis);
    for mode in modes {
        let own = best.iter().filter(|b| b.mode.name == mode.name);
        panel = panel.with(Series::band(mode.name, own.map(|b| pick(b).at(b.dimension as f64))));
    }
    panel
}

fn excess_panel(best: &[Best], modes: &[Mode], fit: impl Fn(Mode) -> std::ops::RangeInclusive<f64>) -> Panel {
    let mut panel = Panel::new("excess training loss", Axis::log("dimension d"), Axis::log("F(x) − min F"));
    for &mode in modes {
        let points = excess_by_dimension(best, mode);
        panel = panel.with(Series::band(mode.name, points.iter().map(|(d, s)| s.at(*d))).fitted(fit(mode)));
    }
    panel
}

fn slope(best: &[Best], mode: Mode, range: std::ops::RangeInclusive<f64>) -> Result<f64, Failure> {
    let points = excess_by_dimension(best, mode).into_iter().filter(|p| range.contains(&p.0)).map(|(d, s)| (d, s.mean));
    Ok(log_log_slope(points).ok_or_else(|| Failure::of("the excess loss is not positive at two dimensions"))?.slope)
}

/// Excess over F* = 2.3800 of an independent implementation (one data draw, five repeats), by dimension.
const SCRIPTED: [(Mode, [f64; 7]); 4] = [
    (CONST, [0.0005, 0.0014, 0.0029, 0.0059, 0.0158, 0.0310, 0.0639]),
    (SQRT, [0.0019, 0.0045, 0.0072, 0.0082, 0.0101, 0.0114, 0.0125]),
    (LINEAR, [0.0019, 0.0020, 0.0019, 0.0023, 0.0025, 0.0025, 0.0025]),
    (PRINTED, [0.0026, 0.0841, 0.4930, 0.9475, 1.2241, 19.22, 79.62]),
];

fn as_scripted(lab: &Lab) -> Result<Outcome, Failure> {
    let modes = [CONST, QUARTER, SQRT, LINEAR, PRINTED];
    let all = settings(lab, &modes, 10_000, 2.0, Accounting::Script, lab.pick(4, 10), 1)?;
    let repeats = lab.pick(2, 5);
    lab.setting("repeats", repeats)?;
    let best = tune(lab, &all, repeats)?;
    let mut compared = Vec::new();
    for (mode, reference) in SCRIPTED {
        for (i, d) in DIMENSIONS.iter().enumerate() {
            let Some(b) = best.iter().find(|b| b.mode.name == mode.name && b.dimension == *d) else { continue };
            // two independent means of five, at three standard deviations of a difference of single repeats
            let spread = 3.0 * std::f64::consts::SQRT_2 * b.train.sd.max(0.0003);
            compared.push(Compared::near(
                format!("excess of {}, d = {d}", mode.name),
                reference[i],
                b.excess(),
                spread,
            ));
        }
    }
    let whole = 1.0..=1e4;
    let (constant, linear) = (slope(&best, CONST, whole.clone())?, slope(&best, LINEAR, whole.clone())?);
    compared.push(Compared::within("log-log slope of const", 0.8..=1.2, constant));
    compared.push(Compared::within("log-log slope of linear", -0.05..=0.15, linear));
    let sentence = format!(
        "The claim stands with a corrected `const`: its excess loss grows like d^{constant:.2} while that of the linear \
         spectrum is flat (d^{linear:.2}); the script's own `const` is a growing spectrum with too little noise, and exaggerates."
    );
    let start = best.first().map_or(3.5, |b| b.minimum);
    let zoom = Some((start - 0.005, start + 0.075));
    let correct = &modes[..4];
    let charts = vec![(
        "figure".into(),
        Chart::of([
            loss_panel("training loss", &best, &modes, |b| b.train, zoom),
            loss_panel(
                "loss on fresh data",
                &best,
                &modes,
                |b| b.test,
                zoom.map(|(low, high)| (low - 0.03, high + 0.03)),
            ),
            excess_panel(&best, correct, |_| whole.clone()),
        ]),
    )];
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![table(&best)],
        charts,
        compared,
        notes: vec![
            "The thesis prints no numbers; the values compared with are those of an independent implementation of the released \
             script."
                .into(),
            "Steps and learning rate are those of the smallest mean training loss of all cells of the grid, as in the script: \
             this search is not private and not accounted for."
                .into(),
            "The script's noise (classical Gaussian mechanism and advanced composition) is 7.8 to 10.6 times too large: its \
             runs are about (0.2, 1e-6)-DP. The same grid with exact noise is `geometric-median-exact`."
                .into(),
            "Values of the script's own `const` beyond d = 100 are those of runs that hardly leave the start, or diverge: they move \
             with the data draw, which the rule for agreement does not know."
                .into(),
            "The text puts 1/√j and 1/j into A, the script into A^{1/2}. Read as in the text, its two decaying spectra are \
             p = 1/4 and p = 1/2, both outside of the theorem's p > 1/2; p = 1/4 is drawn too."
                .into(),
        ],
    })
}

/// Loss − 2.3832 of an independent implementation, one data draw.
const EXACT: [(Mode, [f64; 7]); 3] = [
    (CONST, [0.065, 0.172, 0.306, 0.617, 0.931, 1.073, 1.141]),
    (SQRT, [0.090, 0.144, 0.168, 0.202, 0.212, 0.235, 0.257]),
    (LINEAR, [0.039, 0.049, 0.057, 0.065, 0.063, 0.059, 0.056]),
];

fn exact_noise(lab: &Lab) -> Result<Outcome, Failure> {
    let modes = [CONST, QUARTER, SQRT, LINEAR];
    let draws = lab.pick(1, 5);
    let all = settings(lab, &modes, 1000, 0.2, Accounting::Exact, lab.pick(4, 7), draws)?;
    let repeats = lab.pick(2, 5);
    lab.setting("repeats per data draw", repeats)?;
    lab.setting("data draws", draws)?;
    let best = tune(lab, &all, repeats)?;
    let mut compared = Vec::new();
    for (mode, reference) in EXACT {
        let points = excess_by_dimension(&best, mode);
        // spread over data draws, pooled over dimensions (7·4 degrees of freedom); the reference is one draw, ours a mean
        let squares = points.iter().map(|(_, s)| (s.sd / s.mean).powi(2)).sum::<f64>() / points.len() as f64;
        let spread = 3.0 * (squares * (1.0 + 1.0 / draws as f64)).sqrt();
        for (i, d) in DIMENSIONS.iter().enumerate() {
            let Some((_, s)) = points.iter().find(|p| p.0 == *d as f64) else { continue };
            compared.push(Compared::near(
                format!("excess of {}, d = {d}", mode.name),
                reference[i],
                s.mean,
                spread * s.mean,
            ));
        }
    }
    let range = |mode: Mode| if mode.name == CONST.name { 20.0..=200.0 } else { 20.0..=2000.0 };
    let slopes =
        [slope(&best, CONST, range(CONST))?, slope(&best, SQRT, range(SQRT))?, slope(&best, LINEAR, range(LINEAR))?];
    compared.push(Compared::within("slope of const, d = 20..200", 0.8..=1.2, slopes[0]));
    compared.push(Compared::within("slope of sqrt, d = 20..2000", 0.1..=0.35, slopes[1]));
    compared.push(Compared::within("slope of linear, d = 20..2000", -0.05..=0.15, slopes[2]));
    let sentence = format!(
        "Excess loss grows like d^{:.2} for a constant spectrum until doing nothing is as good, like d^{:.2} at the edge of the \
         theorem (p = 1/2), and not at all inside it (d^{:.2} for p = 1).",
        slopes[0], slopes[1], slopes[2]
    );
    let whole_table = table(&best);
    let first: Vec<Best> = best.iter().filter(|b| b.data_seed == all[0].data_seed).cloned().collect();
    let charts = vec![(
        "figure".into(),
        Chart::of([
            loss_panel("training loss (one data draw)", &first, &modes, |b| b.train, None),
            loss_panel("loss on fresh data", &first, &modes, |b| b.test, None),
            excess_panel(&best, &modes, range),
        ]),
    )];
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![whole_table],
        charts,
        compared,
        notes: vec![
            "The thesis prints no numbers; the values compared with are those of an independent implementation of the released \
             script."
                .into(),
            "Bands are one standard deviation: of the repeats on one data set for the losses, of the data sets for the excess."
                .into(),
            "Steps and learning rate are those of the smallest mean training loss of all cells of the grid: this search is \
             not private and not accounted for."
                .into(),
            "A value agrees within three standard deviations of a data draw, pooled over the dimensions. With each dimension's own \
             five draws alone (a rule with a false alarm of 5 % per value) one of the 21, linear at d = 200, does not."
                .into(),
            "The slope of `const` is 1 and not the worst case's 1/2: once noise spreads over many coordinates, this loss is \
             smooth, and noise enters squared."
                .into(),
        ],
    })
}
