//! Means of heavy-tailed columns: error against n, ε and the order of the moment, beside estimators without privacy.

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::estimate::{HeavyTailedProblem, Moment, heavy_tailed_candidates};
use dpopt::mechanism::Curator;
use dpopt::noise::{NoiseSource, Purpose, Stream};
use dpopt::privacy::special::ln_gamma;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::records::Columns;
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use serde::{Deserialize, Serialize};

/// Error and coverage of clipped means.
pub const ENTRY: Entry = Entry {
    name: "heavy-tails",
    source: "private optimisation with heavy tails, bound (12.2) and the bias of clipping (Fact 12.2.8) for a mean of one column",
    shows: "error and interval of private means of heavy-tailed columns: rate -(1 - 1/k) where privacy decides, -1/2 where sampling does",
    fidelity: Fidelity::Theory,
    revision: 1,
    run,
};

const DELTA: f64 = 1e-6;
/// Level of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Blocks of the median of means, and the share that is winsorised at each end.
const BLOCKS: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Law {
    Pareto,
    Student,
    LogNormal,
}

impl Law {
    const ALL: [Self; 3] = [Self::Pareto, Self::Student, Self::LogNormal];

    fn name(self) -> &'static str {
        match self {
            Self::Pareto => "Pareto(3)",
            Self::Student => "t(3)",
            Self::LogNormal => "log-normal",
        }
    }

    fn draw(self, random: &mut Stream) -> f64 {
        match self {
            Self::Pareto => (1.0 - random.uniform()).powf(-1.0 / 3.0),
            Self::Student => {
                let chi = (0..3).map(|_| random.standard_normal().powi(2)).sum::<f64>();
                random.standard_normal() / (chi / 3.0).sqrt()
            }
            Self::LogNormal => random.standard_normal().exp(),
        }
    }

    fn mean(self) -> f64 {
        match self {
            Self::Pareto => 1.5,
            Self::Student => 0.0,
            Self::LogNormal => 0.5f64.exp(),
        }
    }

    /// (E|X|^k)^(1/k), rounded up; infinite beyond order 3 but for the log-normal law.
    fn root(self, order: f64) -> f64 {
        let moment = match self {
            Self::LogNormal => (0.5 * order * order).exp(),
            _ if order >= 3.0 => f64::INFINITY,
            Self::Pareto => 3.0 / (3.0 - order),
            // ν^(k/2)·Γ((k+1)/2)·Γ((ν−k)/2)/(√π·Γ(ν/2)), ν = 3
            Self::Student => {
                let gammas = ln_gamma(0.5 * (order + 1.0)) + ln_gamma(0.5 * (3.0 - order)) - ln_gamma(1.5);
                3f64.powf(0.5 * order) * gammas.exp() / std::f64::consts::PI.sqrt()
            }
        };
        moment.powf(1.0 / order) * (1.0 + 1e-6)
    }
}

/// What is known, or done without privacy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Way {
    /// The order k of the moment and its bound m are known.
    Known(f64),
    /// Only the order k of the moment is known.
    Order(f64),
    /// Clipped at the best of a list of thresholds for the truth, with the noise of the private mean: no method, a yardstick.
    Oracle,
    MedianOfMeans,
    Winsorised,
}

#[derive(Clone, Copy, Serialize)]
struct Setting {
    law: Law,
    way: Way,
    records: u64,
    epsilon: f64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    error: f64,
    /// Half width, and whether the interval holds; of private ways only.
    half_width: Option<f64>,
    holds: Option<bool>,
}

fn numbers(setting: &Setting, trial: Trial) -> Vec<f64> {
    // the same table for all ways and budgets
    let mut random = NoiseSource::insecure(trial.shared_seed).stream(Purpose::Other(0), 0);
    (0..setting.records).map(|_| setting.law.draw(&mut random)).collect()
}

fn private(setting: &Setting, moment: Moment, numbers: &[f64], trial: Trial) -> Result<Measured, Failure> {
    let problem = HeavyTailedProblem {
        records: setting.records,
        moments: vec![moment],
        spread_factor: dpopt::estimate::SPREAD_FACTOR,
        confidence: CONFIDENCE,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let budget = Budget::new(setting.epsilon, DELTA).map_err(Failure::of)?;
    let first = heavy_tailed_candidates(&problem, budget).into_iter().next();
    let plan = first.ok_or_else(|| Failure::of("no method"))?.plan.map_err(Failure::of)?;
    let mut rows = Columns::new(1);
    numbers.iter().for_each(|x| rows.push(&[*x]));
    let mut curator = Curator::new(&plan.certificate, trial.source());
    let released = plan.run(&problem, &Sensitive::new(rows), &mut curator).map_err(Failure::of)?.into_inner();
    let [mean] = &released[..] else { return Err(Failure::of("one column")) };
    let (truth, (low, high)) = (setting.law.mean(), mean.interval);
    Ok(Measured {
        error: (mean.mean - truth).abs(),
        half_width: Some(0.5 * (high - low)),
        holds: Some(low <= truth && truth <= high),
    })
}

fn measure(setting: &Setting, trial: Trial) -> Result<Measured, Failure> {
    let mut x = numbers(setting, trial);
    let (n, truth) = (x.len() as f64, setting.law.mean());
    let plain = |estimate: f64| Ok(Measured { error: (estimate - truth).abs(), half_width: None, holds: None });
    match setting.way {
        Way::Known(order) => {
            let root = Some(setting.law.root(order));
            private(setting, Moment { order, root, about: 0.0 }, &x, trial)
        }
        Way::Order(order) => private(setting, Moment { order, root: None, about: 0.0 }, &x, trial),
        Way::Oracle => {
            let mut random = trial.stream();
            let sign = if random.coin() { 1.0 } else { -1.0 };
            let noise = sign * random.standard_exponential() / (setting.epsilon * n);
            let clipped = |c: f64| x.iter().map(|v| v.clamp(-c, c)).sum::<f64>() / n + c * noise;
            let thresholds = (0..40).map(|i| 1.2f64.powi(i));
            plain(thresholds.map(clipped).min_by(|a, b| (a - truth).abs().total_cmp(&(b - truth).abs())).unwrap_or(0.0))
        }
        Way::MedianOfMeans => {
            let size = x.len().div_ceil(BLOCKS);
            let mut means: Vec<f64> = x.chunks(size).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect();
            means.sort_by(f64::total_cmp);
            plain(means[means.len() / 2])
        }
        Way::Winsorised => {
            x.sort_by(f64::total_cmp);
            // as many at each end as lie beyond where a bias of 1/√n begins to show
            let cut = (n.sqrt() / 4.0).ceil() as usize;
            let (low, high) = (x[cut], x[x.len() - 1 - cut]);
            plain(x.iter().map(|v| v.clamp(low, high)).sum::<f64>() / n)
        }
    }
}

/// Orders of the curves in ε, each for a law that has them.
const IN_EPSILON: [(Law, f64); 4] =
    [(Law::Pareto, 1.5), (Law::Pareto, 2.0), (Law::Student, 2.0), (Law::LogNormal, 4.0)];
const WAYS: [(Way, &str); 5] = [
    (Way::Known(2.0), "private, k = 2 and m known"),
    (Way::Order(2.0), "private, k = 2 alone"),
    (Way::Oracle, "private, oracle clip"),
    (Way::MedianOfMeans, "median of means, no privacy"),
    (Way::Winsorised, "winsorised mean, no privacy"),
];

/// Errors, half widths and how many intervals miss.
struct Seen {
    error: Summary,
    half_width: Option<f64>,
    intervals: usize,
    missed: usize,
}

impl Seen {
    fn of(trials: &[Measured]) -> Self {
        let widths: Vec<f64> = trials.iter().filter_map(|t| t.half_width).collect();
        Self {
            error: Summary::of(trials.iter().map(|t| t.error)),
            half_width: (!widths.is_empty()).then(|| Summary::of(widths.iter().copied()).mean),
            intervals: widths.len(),
            missed: trials.iter().filter(|t| t.holds == Some(false)).count(),
        }
    }
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let records: Vec<u64> = lab.pick(vec![4000, 16_000], vec![4000, 16_000, 64_000, 256_000]);
    let epsilons: Vec<f64> = lab.pick(vec![0.01, 0.1], vec![0.001, 0.003, 0.01, 0.03, 0.1]);
    let (fixed, repeats) = (lab.pick(20_000, 100_000), lab.pick(4, 60));
    lab.setting("delta (zero-out)", DELTA)?;
    lab.setting("epsilon of the curves in n", 1.0)?;
    lab.setting("n of the curves in epsilon", fixed)?;
    lab.setting("confidence", CONFIDENCE)?;
    lab.setting("repeats", repeats)?;
    let mut settings = Vec::new();
    for law in Law::ALL {
        for (way, _) in WAYS {
            settings.extend(records.iter().map(|&records| Setting { law, way, records, epsilon: 1.0 }));
        }
    }
    let in_n = settings.len();
    for (law, order) in IN_EPSILON {
        let of = |&epsilon| Setting { law, way: Way::Known(order), records: fixed, epsilon };
        settings.extend(epsilons.iter().map(of));
    }
    let results = lab.trials("means", &settings, repeats, measure)?;
    let seen: Vec<Seen> = results.iter().map(|trials| Seen::of(trials)).collect();
    let mut table = Table::new(
        "errors",
        ["law", "way", "n", "epsilon", "mean error", "sd", "mean half width", "intervals", "missed"],
    );
    for (setting, seen) in settings.iter().zip(&seen) {
        table.row([
            setting.law.name().into(),
            match setting.way {
                Way::Known(order) => format!("k = {order} and m known"),
                way => WAYS.iter().find(|(w, _)| *w == way).map_or(String::new(), |(_, name)| (*name).into()),
            },
            setting.records.to_string(),
            setting.epsilon.to_string(),
            cell(seen.error.mean),
            cell(seen.error.sd),
            seen.half_width.map_or("".into(), cell),
            seen.intervals.to_string(),
            seen.missed.to_string(),
        ]);
    }
    let mut compared = Vec::new();
    let mut panels = Vec::new();
    for (l, law) in Law::ALL.into_iter().enumerate() {
        let mut panel = Panel::new(format!("{}, ε = 1", law.name()), Axis::log("records n"), Axis::log("mean error"));
        for (w, (_, name)) in WAYS.iter().enumerate() {
            let from = (l * WAYS.len() + w) * records.len();
            let curve = |value: fn(&Seen) -> Option<f64>| -> Vec<(f64, f64)> {
                let own = seen[from..from + records.len()].iter().zip(&records);
                own.filter_map(|(seen, &n)| Some((n as f64, value(seen)?))).collect()
            };
            panel = panel.with(Series::curve(*name, curve(|s| Some(s.error.mean))));
            if w == 0 {
                let series = Series::curve("its half width", curve(|s| s.half_width)).fitted(1.0..=1e9);
                if let Some(fit) = series.slope() {
                    let what = format!("slope of the half width in n, {}", law.name());
                    compared.push(Compared::within(what, -0.55..=-0.45, fit.slope));
                }
                panel = panel.with(Series::theory("its half width", curve(|s| s.half_width)));
            }
        }
        panels.push(panel);
    }
    let title = format!("n = {fixed}, half width");
    let mut panel = Panel::new(title, Axis::log("ε"), Axis::log("half width over moment"));
    for (i, (law, order)) in IN_EPSILON.into_iter().enumerate() {
        let from = in_n + i * epsilons.len();
        let own = || seen[from..from + epsilons.len()].iter().zip(&epsilons);
        let root = law.root(order);
        let points = own().filter_map(|(seen, &e)| Some((e, seen.half_width? / root)));
        let series = Series::curve(format!("{}, k = {order}", law.name()), points).fitted(0.0..=0.011);
        let theory = 1.0 / order - 1.0;
        if let Some(fit) = series.slope() {
            let what = format!("slope of the half width in ε up to .01, {}, k = {order}", law.name());
            compared.push(Compared::within(what, theory - 0.08..=theory + 0.08, fit.slope));
        }
        let errors = Series::curve("errors", own().map(|(seen, &e)| (e, seen.error.mean))).fitted(0.0..=0.011);
        if let Some(fit) = errors.slope() {
            let what = format!("slope of the error in ε up to .01, {}, k = {order}", law.name());
            compared.push(Compared::within(what, theory - 0.15..=theory + 0.15, fit.slope));
        }
        panel = panel.with(series);
    }
    panels.push(panel);
    let (missed, intervals) = seen.iter().fold((0, 0), |(m, i), s| (m + s.missed, i + s.intervals));
    let share = missed as f64 / (intervals as f64).max(1.0);
    compared.push(Compared::within("share of intervals that miss", 0.0..=1.0 - CONFIDENCE, share));
    let slopes: Vec<String> = compared.iter().map(|c| format!("{} {}", c.what, c.ours)).collect();
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, format!("Of {intervals} intervals at level {CONFIDENCE} {missed} miss. {}.", slopes.join("; "))),
        tables: vec![table],
        charts: vec![("figure".into(), Chart::of(panels))],
        compared,
        notes: vec![
            "The oracle takes, table by table, the threshold out of 40 whose noisy mean is nearest to the truth: no method can know it.".into(),
            "Median of means: 15 blocks. Winsorised: √n/4 numbers at each end.".into(),
        ],
    })
}
