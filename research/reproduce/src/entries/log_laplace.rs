//! The sampler of values in numbers: the constant of its inner step, its mixing, its values against n²t², and the range of the
//! log-Laplace regulariser (Liu 2024, chapter 5).
//!
//! Covers: thesis algorithm 15, algorithm 16, proposition 5.4.7, proposition 5.4.11, theorem 5.4.12

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::noise::Stream;
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use dpopt::sampler::log_laplace::{printed_range, range};
use dpopt::sampler::series::{Products, largest_step};
use dpopt::sampler::{Chain, Domain, Oracle, Potential, Tally, ValueFacts, certified_value_chain, ratio};
use serde::{Deserialize, Serialize};

/// Constants, counts and ranges.
pub const ENTRY: Entry = Entry {
    name: "log-laplace",
    source: "thesis chapter 5: inner step (Algorithm 16), mixing (Theorem 5.4.12), range (Lemma 5.5.3)",
    shows: "constant of the inner step against its error, measured contraction and values, range of the l_p regulariser beside the printed bound",
    fidelity: Fidelity::Corrected(
        "lengths with P(a ≥ b) = 1/b!, constants from their integrals, mixing by another proof (the printed lemma is false)",
    ),
    revision: 1,
    run,
};

/// Total variation of the inner step, and the 1/v that reaches it: with products that share their prefixes, and with fresh ones.
const CONSTANTS: [(f64, f64, f64); 7] = [
    (1e-2, 49.238, 57.742),
    (1e-4, 102.369, 113.176),
    (1e-6, 161.596, 173.820),
    (1e-8, 223.991, 237.230),
    (1e-10, 288.350, 302.398),
    (1e-12, 354.092, 368.806),
    (1e-15, 454.557, 470.067),
];

/// F = the mean of `slope`·‖x − c_i‖: convex, `slope`-Lipschitz, with a corner at each of four centres.
struct Distances {
    centres: Vec<Vec<f64>>,
    slope: f64,
}

impl Distances {
    fn new(dimension: usize, slope: f64, random: &mut Stream) -> Self {
        let spread = 1.0 / (dimension as f64).sqrt();
        let centres = (0..4).map(|_| (0..dimension).map(|_| spread * random.standard_normal()).collect()).collect();
        Self { centres, slope }
    }

    /// Losses |x − c_j| on the line, c = (−1, 0.2, 0.5, 1.5).
    fn on_the_line() -> Self {
        Self { centres: [-1.0, 0.2, 0.5, 1.5].map(|c| vec![c]).to_vec(), slope: 1.0 }
    }
}

impl Potential for Distances {
    fn dimension(&self) -> usize {
        self.centres[0].len()
    }

    fn scale(&self) -> f64 {
        self.slope / self.centres.len() as f64
    }

    fn terms(&self) -> usize {
        self.centres.len()
    }

    fn value(&self, point: &[f64]) -> f64 {
        (0..self.terms()).map(|i| self.term(i, point)).sum()
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        subgradient.fill(0.0);
        for (i, centre) in self.centres.iter().enumerate() {
            let distance = self.term(i, point).max(f64::MIN_POSITIVE);
            subgradient.iter_mut().zip(point.iter().zip(centre)).for_each(|(g, (x, c))| *g += (x - c) / distance);
        }
        self.value(point)
    }

    fn term(&self, index: usize, point: &[f64]) -> f64 {
        self.centres[index].iter().zip(point).map(|(c, x)| (x - c) * (x - c)).sum::<f64>().sqrt()
    }
}

fn chain(dimension: usize, steps: u64, step_std: f64, oracle: Oracle) -> Chain {
    Chain {
        steps,
        step_std,
        convexity: 1.0,
        centre: vec![0.0; dimension],
        domain: Domain::Whole { radius: 1e6 },
        oracle,
        grid: 2f64.powi(-40),
    }
}

/// A step of ηm = 1/4, m = 1.
const RELATIVE: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Mixing {
    dimension: usize,
    /// Slope of the losses: 0 for a Gaussian target.
    slope: f64,
    rounds: u64,
}

/// Correlation of the first coordinate with the one a round later.
#[derive(Clone, Serialize, Deserialize)]
struct Correlation {
    lag_one: f64,
}

fn correlation(setting: &Mixing, trial: Trial) -> Result<Correlation, Failure> {
    let mut random = trial.stream();
    let potential = Distances::new(setting.dimension, setting.slope.max(1e-9), &mut random);
    let chain = chain(setting.dimension, 1, RELATIVE.sqrt(), Oracle::Ratio);
    let mut x = vec![0.0; setting.dimension];
    let mut path = Vec::with_capacity(setting.rounds as usize);
    for round in 0..setting.rounds + 100 {
        x = chain.run(&potential, &x, &mut random).0.map_err(|_| Failure::of("an oracle gave up"))?;
        if round >= 100 {
            path.push(x[0]);
        }
    }
    let mean = path.iter().sum::<f64>() / path.len() as f64;
    let variance: f64 = path.iter().map(|x| (x - mean).powi(2)).sum();
    let product: f64 = path.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    Ok(Correlation { lag_one: product / variance })
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Counting {
    dimension: usize,
    rounds: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Counts {
    proposals: u64,
    values: u64,
}

/// What rounds of a series cost at the step for an error of 1e-10.
fn counts(setting: &Counting, trial: Trial) -> Result<Counts, Failure> {
    let mut random = trial.stream();
    let potential = Distances::new(setting.dimension, 1.0, &mut random);
    let step_std = largest_step(1e-10, Products::Prefix).sqrt();
    let chain = chain(setting.dimension, setting.rounds, step_std, Oracle::Series(Products::Prefix));
    let (end, tally) = chain.run(&potential, &vec![0.0; setting.dimension], &mut random);
    end.map_err(|_| Failure::of("an oracle gave up"))?;
    Ok(Counts { proposals: tally.values, values: tally.terms })
}

#[derive(Clone, Serialize, Deserialize)]
struct Ends {
    ends: Vec<f64>,
    proposals: u64,
}

/// Ends of `chains` chains of 1120 rounds with 1/η = 161.6 on the losses on the line, started from N(0, 1).
fn line_chains(chains: &usize, trial: Trial) -> Result<Ends, Failure> {
    let mut random = trial.stream();
    let potential = Distances::on_the_line();
    let chain = chain(1, 1120, (1.0f64 / 161.6).sqrt(), Oracle::Series(Products::Prefix));
    let mut all = Tally::default();
    let mut ends = Vec::with_capacity(*chains);
    for _ in 0..*chains {
        let start = random.standard_normal();
        let (end, tally) = chain.run(&potential, &[start], &mut random);
        ends.push(end.map_err(|_| Failure::of("an oracle gave up"))?[0]);
        all.values += tally.values;
    }
    Ok(Ends { ends, proposals: all.values })
}

/// The inner step's constant.
fn constants(compared: &mut Vec<Compared>) -> (Table, Chart) {
    let mut table = Table::new("constants", ["error", "1/v with prefixes", "1/v with fresh products", "printed 1/v"]);
    let errors: Vec<f64> = (2..=15).map(|k| 10f64.powi(-k)).collect();
    let inverse = |error: f64, products| 1.0 / largest_step(error, products);
    for error in &errors {
        let both = [Products::Prefix, Products::Fresh].map(|products| inverse(*error, products));
        table.row([cell(*error), cell(both[0]), cell(both[1]), cell(-1e4 * error.ln())]);
    }
    // the last printed digit, rounded up in places
    for (error, prefix, fresh) in CONSTANTS {
        compared.push(Compared::near(
            format!("1/v, prefixes, {error}"),
            prefix,
            inverse(error, Products::Prefix),
            1e-3,
        ));
        compared.push(Compared::near(format!("1/v, fresh, {error}"), fresh, inverse(error, Products::Fresh), 1e-3));
        let larger = -1e4 * error.ln() / inverse(error, Products::Prefix);
        compared.push(Compared::within(format!("printed 1/v over ours, {error}"), 755.0..=945.0, larger));
    }
    let curve = |products| errors.iter().map(move |e| (*e, inverse(*e, products)));
    let panel = Panel::new("steps that an error allows", Axis::log("total-variation error"), Axis::log("1/(ηG²)"))
        .with(Series::line("prefix products", curve(Products::Prefix)))
        .with(Series::line("fresh products", curve(Products::Fresh)))
        .with(Series::theory("printed: 10⁴ ln(1/error)", errors.iter().map(|e| (*e, -1e4 * e.ln()))));
    (table, Chart::of([panel]))
}

/// Measured contraction and counts in several dimensions, and planned values.
fn mixing(lab: &Lab, compared: &mut Vec<Compared>) -> Result<(Vec<Table>, Chart), Failure> {
    let dimensions: Vec<usize> = lab.pick(vec![1, 8], vec![1, 2, 4, 16, 64]);
    let rounds = lab.pick(1000, 6000);
    // v = ηG² of the exact chain's oracle, at an error of 1e-6
    let slope = (ratio::largest_step(1e-6) / RELATIVE).sqrt();
    let repeats = 8;
    let settings: Vec<Mixing> = [0.0, slope]
        .into_iter()
        .flat_map(|slope| dimensions.iter().map(move |d| Mixing { dimension: *d, slope, rounds }))
        .collect();
    let results = lab.trials("mixing", &settings, repeats, correlation)?;
    let bound = 1.0 / (1.0 + RELATIVE);
    let mut table =
        Table::new("mixing", ["d", "slope of the losses", "lag-one correlation", "standard error", "bound"]);
    let (mut gaussian, mut kinked) = (Vec::new(), Vec::new());
    for (setting, trials) in settings.iter().zip(&results) {
        let seen = Summary::of(trials.iter().map(|t| t.lag_one));
        let error = seen.standard_error();
        table.row([setting.dimension.to_string(), cell(setting.slope), cell(seen.mean), cell(error), cell(bound)]);
        let what = format!("lag-one correlation, d = {}, slope {}", setting.dimension, cell(setting.slope));
        // eight standard errors of an eighth of the rounds each: a true law fails with less than 1e-4
        if setting.slope == 0.0 {
            compared.push(Compared::near(what, bound, seen.mean, 8.0 * error + 1e-3));
            gaussian.push((setting.dimension as f64, seen.mean));
        } else {
            compared.push(Compared::within(what, 0.0..=bound + 8.0 * error + 1e-3, seen.mean));
            kinked.push((setting.dimension as f64, seen.mean));
        }
    }
    let contraction = Panel::new("what a round keeps, ηm = 1/4", Axis::log("dimension d"), Axis::linear("correlation"))
        .with(Series::curve("no losses", gaussian))
        .with(Series::curve("losses with corners", kinked))
        .level("1/(1 + ηm)", bound);

    let counting: Vec<Counting> =
        dimensions.iter().map(|d| Counting { dimension: *d, rounds: lab.pick(2000, 20_000) }).collect();
    let counted = lab.trials("counts", &counting, 4, counts)?;
    let mut costs = Table::new("counts", ["d", "proposals per round", "values per proposal"]);
    let mut per_round = 0.0;
    for (setting, trials) in counting.iter().zip(&counted) {
        let (proposals, values): (u64, u64) =
            trials.iter().fold((0, 0), |(p, v), trial| (p + trial.proposals, v + trial.values));
        let proposed = proposals as f64 / (4 * setting.rounds) as f64;
        let asked = values as f64 / proposals as f64;
        costs.row([setting.dimension.to_string(), cell(proposed), cell(asked)]);
        compared.push(Compared::within(format!("proposals per round, d = {}", setting.dimension), 1.9..=2.1, proposed));
        compared.push(Compared::within(
            format!("values per proposal, d = {}: 2(e − 1) = 3.437", setting.dimension),
            3.35..=3.52,
            asked,
        ));
        per_round += proposed * asked / counting.len() as f64;
    }

    let mut planned = Table::new("planned", ["p", "d", "n²t²", "rounds T", "1/η·1/G²", "expected values"]);
    let mut panel = Panel::new("values of single losses for one draw", Axis::log("n²t²"), Axis::log("values"));
    let gamma = 1e-6 / (1.0 + 1f64.exp());
    for (p, d, name) in [(2.0, 100.0, "p = 2, any d"), (1.5, 100.0, "p = 1.5, d = 100"), (1.0, 100.0, "p = 1, d = 100")]
    {
        let mut points = Vec::new();
        for k in 0..=8 {
            let square = 10f64.powf(1.0 + 0.5 * f64::from(k));
            // G²/m = n²t²/4 for replaced records, and d^(2/p − 1) for the way to l_2
            let facts = ValueFacts {
                lipschitz: 1.0,
                strong_convexity: 4.0 / (square * f64::powf(d, 2.0 / p - 1.0)),
                total_variation: gamma,
                error_per_round: 0.0,
                products: Products::Prefix,
            };
            let plan = certified_value_chain(&facts).ok_or_else(|| Failure::of("no chain is certified"))?;
            let values = plan.steps as f64 * per_round;
            planned.row([
                p.to_string(),
                d.to_string(),
                cell(square),
                plan.steps.to_string(),
                cell(1.0 / (plan.step_std * plan.step_std)),
                cell(values),
            ]);
            points.push((square, values));
        }
        let series = Series::line(name, points).fitted(0.0..=1e12);
        // T·(c G²/m)·ln(1/γ), whose logarithms grow by less than a tenth of a power over four decades
        let slope = series.slope().map_or(f64::NAN, |fit| fit.slope);
        compared.push(Compared::within(format!("slope of the values in n²t², {name}"), 0.98..=1.12, slope));
        panel = panel.with(series);
    }
    Ok((vec![table, costs, planned], Chart::of([contraction, panel])))
}

/// Mean and variance on the line after 1120 rounds, beside those of the exact law.
fn line(lab: &Lab, compared: &mut Vec<Compared>) -> Result<Table, Failure> {
    let (repeats, chains) = lab.pick((4, 50), (100, 40));
    let results = lab.trials("line", &[chains], repeats, line_chains)?;
    let ends: Vec<f64> = results.iter().flatten().flat_map(|t| t.ends.iter().copied()).collect();
    let n = ends.len() as f64;
    let mean = ends.iter().sum::<f64>() / n;
    let centred = |power: i32| ends.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
    let variance = centred(2);
    let errors = [(variance / n).sqrt(), ((centred(4) - variance * variance) / n).sqrt()];
    let proposals: u64 = results.iter().flatten().map(|t| t.proposals).sum();
    let mut table = Table::new("line", ["what", "by grid", "chains", "standard error"]);
    for (what, exact, ours, error) in
        [("mean", 0.126_762_1, mean, errors[0]), ("variance", 0.616_851_6, variance, errors[1])]
    {
        table.row([what.into(), cell(exact), cell(ours), cell(error)]);
        compared.push(Compared::near(format!("{what} of {n} chains on the line"), exact, ours, 4.0 * error + 1e-3));
    }
    compared.push(Compared::within("proposals per round on the line", 1.98..=2.02, proposals as f64 / (n * 1120.0)));
    Ok(table)
}

/// Θ = 2aΛ/(p − 1) at p = 1.5.
fn ranges(compared: &mut Vec<Compared>) -> (Table, Chart) {
    let theta = |lambda: f64, a: f64| 4.0 * a * lambda;
    let mut table = Table::new("ranges", ["d", "a", "range Θ", "printed bound"]);
    let dimensions = [2, 10, 100, 1000];
    let scales: Vec<f64> = (0..=14).map(|k| 10f64.powf(-7.0 + 0.5 * f64::from(k))).collect();
    let mut panel = Panel::new("range of ηψ on the l_1.5 ball", Axis::log("a = η(p − 1)/2"), Axis::log("range Θ"));
    for d in dimensions {
        let own: Vec<(f64, f64)> = scales.iter().map(|a| (*a, theta(range(d, *a), *a))).collect();
        for (a, ours) in &own {
            table.row([d.to_string(), cell(*a), cell(*ours), cell(theta(printed_range(d, *a), *a))]);
        }
        panel = panel.with(Series::line(format!("d = {d}"), own));
    }
    for d in [2, 1000] {
        let printed = scales.iter().map(|a| (*a, theta(printed_range(d, *a), *a)));
        panel = panel.with(Series::theory(format!("printed, d = {d}"), printed));
    }
    panel = panel.level("½‖x‖²/(p − 1)", 1.0);
    for (d, a, lambda) in [(10, 0.01, 38.204), (100, 1e-4, 2744.94), (100, 1.0, 7.1796), (2, 1.0, 1.0044)] {
        compared.push(Compared::near(format!("Λ at d = {d}, a = {a}"), lambda, range(d, a), 2e-5 * lambda));
    }
    for (d, a) in [(10, 0.01), (100, 1e-4)] {
        let times = printed_range(d, a) / range(d, a);
        compared.push(Compared::within(format!("printed bound over Λ, d = {d}, a = {a}"), 10.0..=33.5, times));
    }
    compared.push(Compared::near("Θ of d = 10 at a = 1e-7", 1.0, theta(range(10, 1e-7), 1e-7), 0.02));
    let names: Vec<f64> = (0..=12).map(|k| 2f64.powi(k)).collect();
    let of_d = |a: f64| {
        let points: Vec<(f64, f64)> = names.iter().map(|d| (*d, theta(range(*d as usize, a), a))).collect();
        points
    };
    let across = Panel::new("the same against d", Axis::log("dimension d"), Axis::log("range Θ"))
        .with(Series::line("a = 1", of_d(1.0)))
        .with(Series::line("a = .01", of_d(0.01)))
        .with(Series::line("a = .0001", of_d(1e-4)));
    (table, Chart::of([panel, across]))
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    lab.setting("ηm of the measured contraction", RELATIVE)?;
    lab.setting("error of the counted inner steps", 1e-10)?;
    let mut compared = Vec::new();
    let (steps, steps_chart) = constants(&mut compared);
    let (mut tables, mixing_chart) = mixing(lab, &mut compared)?;
    tables.insert(0, steps);
    tables.push(line(lab, &mut compared)?);
    let (ranges, ranges_chart) = ranges(&mut compared);
    tables.push(ranges);
    let passed = compared.iter().filter(|c| c.agrees == Some(true)).count();
    let sentence = format!(
        "{passed} of {} numbers are as computed or within their bands; the printed constant of the inner step is 760 to 940 times what is needed.",
        compared.len()
    );
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables,
        charts: vec![("constants".into(), steps_chart), ("mixing".into(), mixing_chart), ("ranges".into(), ranges_chart)],
        compared,
        notes: vec![
            "The inner step, the mixing bound and the Euclidean chain are certified. The range is a quadrature without a proved error, and for p < 2 no draw of the backward step is certified: no claim of privacy is made for it.".into(),
            "Values: expected proposals and values per round as measured, times the rounds of a certified plan, γ = 1e-6/(1 + e).".into(),
        ],
    })
}
