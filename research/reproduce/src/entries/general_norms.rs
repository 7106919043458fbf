//! Other norms: the exponential mechanism in l_p beside mirror descent, Frank–Wolfe and plain descents (Liu 2024, Theorem 4.4.2).
//!
//! Covers: thesis theorem 4.4.2, corollary 4.4.10, corollary 4.4.11, corollary 4.4.13

mod linear;
mod noisy;
mod tables;
mod tilted;
mod trace_norm;

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Verdict, cell};
use dpopt::privacy::Relation;
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use std::collections::BTreeMap;
use tables::{Shape, Way};

/// Excess against d in four norms, with the bound; two balls with tables of labels.
pub const ENTRY: Entry = Entry {
    name: "general-norms",
    source: "thesis chapter 4: Theorem 4.4.2, Corollaries 4.4.10 to 4.4.13; the chapter has no experiments",
    shows: "excess risk against d of the exponential mechanism in l_p with its bound, beside noisy sums, mirror descent and Frank–Wolfe; recovery of a matrix of rank one",
    fidelity: Fidelity::Corrected(
        "exact Gaussian accounting, the radius in the place of the diameter, the best q for each p",
    ),
    revision: 1,
    run,
};

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
const RELATION: Relation = Relation::ZeroOut;
/// Of slopes, in units of the bound.
const SHARES: [f64; 6] = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0];
const ORDERS: [f64; 4] = [1.0, 1.1, 1.5, 2.0];

/// Worst mean excesses over slopes, by order and dimension.
struct Worst {
    dimension: usize,
    drawn: f64,
    standard_error: f64,
    noisy_sum: f64,
    vertex: Option<f64>,
    bound: f64,
    /// Largest distance of the virial from 1 in its standard errors, of all slopes.
    virial: f64,
}

fn linear_losses(lab: &Lab, compared: &mut Vec<Compared>) -> Result<(Table, Vec<Panel>), Failure> {
    let dimensions: Vec<usize> = lab.pick(vec![4], vec![4, 8, 16, 32, 64]);
    let shares: Vec<f64> = lab.pick(vec![0.25, 1.0], SHARES.to_vec());
    let repeats = lab.pick(3, 8);
    let mut table = Table::new(
        "linear",
        [
            "p",
            "d",
            "exponential mechanism",
            "standard error",
            "bound",
            "noisy sum",
            "noisy choice of a vertex",
            "virial off by (s.e.)",
        ],
    );
    let mut panels = Vec::new();
    for p in ORDERS {
        let mut found = Vec::new();
        for &dimension in &dimensions {
            let bound = linear::tuning(p, dimension)?.risk;
            let cells: Vec<linear::Cell> = shares
                .iter()
                .filter(|share| *share * bound <= 1.0)
                .flat_map(|&share| [true, false].map(|equal| linear::Cell { p, dimension, share, equal }))
                .collect();
            let drawn = lab.trials("draws", &cells, repeats, linear::draws)?;
            let rivals = lab.trials("rivals", &cells, 1, linear::rivals)?;
            let mut worst = Worst {
                dimension,
                drawn: f64::NEG_INFINITY,
                standard_error: 0.0,
                noisy_sum: f64::NEG_INFINITY,
                vertex: None,
                bound,
                virial: 0.0,
            };
            for (drawn, rival) in drawn.iter().zip(rivals.iter().flatten()) {
                let excess = Summary::of(drawn.iter().map(|d| d.excess));
                if excess.mean > worst.drawn {
                    (worst.drawn, worst.standard_error) = (excess.mean, excess.standard_error());
                }
                let virial = Summary::of(drawn.iter().map(|d| d.virial));
                let off = (virial.mean - 1.0).abs() / (virial.standard_error() + 1e-3);
                worst.virial = worst.virial.max(off);
                worst.noisy_sum = worst.noisy_sum.max(rival.noisy_sum);
                worst.vertex = rival.vertex.map(|v| worst.vertex.map_or(v, |most: f64| most.max(v)));
            }
            table.row([
                p.to_string(),
                dimension.to_string(),
                cell(worst.drawn),
                cell(worst.standard_error),
                cell(worst.bound),
                cell(worst.noisy_sum),
                worst.vertex.map_or(String::new(), cell),
                cell(worst.virial),
            ]);
            compared.push(Compared::within(
                format!("worst excess over its bound, p = {p}, d = {dimension}"),
                0.0..=1.0,
                worst.drawn / worst.bound,
            ));
            compared.push(Compared::within(
                format!(
                    "largest of {} deviations of the virial, in standard errors, p = {p}, d = {dimension}",
                    cells.len()
                ),
                0.0..=6.0,
                worst.virial,
            ));
            found.push(worst);
        }
        let of = |value: &dyn Fn(&Worst) -> f64| -> Vec<(f64, f64)> {
            found.iter().map(|w| (w.dimension as f64, value(w))).collect()
        };
        let drawn = Series::curve("exponential mechanism", of(&|w| w.drawn)).fitted(0.0..=1e9);
        let bound = Series::theory("its bound", of(&|w| w.bound)).fitted(0.0..=1e9);
        let slopes = [&drawn, &bound].map(|series| series.slope().map(|fit| fit.slope));
        if let [Some(drawn), Some(bound)] = slopes {
            compared.push(Compared::near(
                format!("slope of the excess in d beside that of its bound, p = {p}"),
                bound,
                drawn,
                0.15,
            ));
        }
        let mut panel =
            Panel::new(format!("linear losses, p = {p}"), Axis::log("dimension d"), Axis::log("worst excess"))
                .with(drawn)
                .with(bound)
                .with(Series::curve("noisy sum, best point for it", of(&|w| w.noisy_sum)));
        if p == 1.0 {
            panel = panel.with(Series::curve("noisy choice of a vertex", of(&|w| w.vertex.unwrap_or(f64::NAN))));
        }
        panels.push(panel);
    }
    Ok((table, panels))
}

/// Excess of the exponential mechanism on matrices in the trace norm, drawn without a certificate.
fn trace_norm_losses(lab: &Lab, compared: &mut Vec<Compared>) -> Result<(Table, Panel), Failure> {
    let sides: Vec<usize> = lab.pick(vec![2], vec![2, 3, 4, 5]);
    let shares: Vec<f64> = lab.pick(vec![0.25], vec![0.125, 0.25, 0.5, 1.0]);
    let mut table = Table::new("trace-norm", ["m", "draws", "bound", "noisy sum", "virial off by (s.e.)"]);
    let (mut drawn, mut bounds, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for &side in &sides {
        let bound = trace_norm::tuning(side)?.risk;
        let cells: Vec<trace_norm::Cell> = shares
            .iter()
            .flat_map(|&share| [true, false].map(|equal| trace_norm::Cell { side, share, equal }))
            .collect();
        let found = lab.trials("draws of matrices", &cells, lab.pick(3, 6), trace_norm::draws)?;
        let rivals = lab.trials("noisy sums of matrices", &cells, 1, trace_norm::noisy_sum)?;
        let summaries: Vec<[Summary; 2]> = found
            .iter()
            .map(|f| [Summary::of(f.iter().map(|d| d.excess)), Summary::of(f.iter().map(|d| d.virial))])
            .collect();
        let worst = summaries.iter().map(|s| s[0].mean).fold(f64::NEG_INFINITY, f64::max);
        let off =
            summaries.iter().map(|s| (s[1].mean - 1.0).abs() / (s[1].standard_error() + 1e-3)).fold(0.0, f64::max);
        let sum = rivals.into_iter().flatten().fold(f64::NEG_INFINITY, f64::max);
        table.row([side.to_string(), cell(worst), cell(bound), cell(sum), cell(off)]);
        compared.push(Compared::within(
            format!("worst excess over its bound, trace norm, m = {side}"),
            0.0..=1.0,
            worst / bound,
        ));
        compared.push(Compared::within(
            format!("largest of {} deviations of the virial, in standard errors, trace norm, m = {side}", cells.len()),
            0.0..=6.0,
            off,
        ));
        let m = side as f64;
        drawn.push((m, worst));
        bounds.push((m, bound));
        sums.push((m, sum));
    }
    let panel = Panel::new("linear losses on matrices, trace norm", Axis::log("side m"), Axis::log("worst excess"))
        .with(Series::curve("draws by hit-and-run (not certified)", drawn))
        .with(Series::theory("its bound", bounds))
        .with(Series::curve("noisy sum, best point for it", sums));
    Ok((table, panel))
}

/// Mean excesses of ways, by size.
type Means = BTreeMap<usize, Option<Summary>>;

fn measured(
    lab: &Lab,
    phase: &str,
    ways: &[Way],
    sizes: &[usize],
    repeats: u32,
    cell: impl Fn(Way, usize) -> tables::Cell,
) -> Result<Vec<(Way, Means)>, Failure> {
    ways.iter()
        .map(|&way| {
            let cells: Vec<tables::Cell> = sizes.iter().map(|&size| cell(way, size)).collect();
            let found = lab.trials(phase, &cells, repeats, tables::measure)?;
            let means = sizes.iter().zip(found).map(|(&size, found)| {
                let all: Option<Vec<f64>> = found.iter().map(|left| left.excess).collect();
                (size, all.map(Summary::of))
            });
            Ok((way, means.collect()))
        })
        .collect()
}

fn shown(name: &str, size: &str, found: &[(Way, Means)]) -> (Table, Panel) {
    let mut table = Table::new(name.replace(' ', "-"), ["method", size, "excess", "standard error"]);
    let mut panel = Panel::new(name, Axis::log(size), Axis::log("excess of the expected loss"));
    for (way, means) in found {
        for (size, summary) in means {
            let (mean, error) =
                summary.map_or(("no plan".into(), String::new()), |s| (cell(s.mean), cell(s.standard_error())));
            table.row([way.name(), size.to_string(), mean, error]);
        }
        let points: Vec<(f64, f64)> = means.iter().filter_map(|(size, s)| s.map(|s| (*size as f64, s.mean))).collect();
        if !points.is_empty() {
            panel = panel.with(Series::curve(way.name(), points));
        }
    }
    (table, panel)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    lab.setting("epsilon", EPSILON)?;
    lab.setting("delta (zero-out)", DELTA)?;
    lab.setting("records of linear losses", linear::RECORDS)?;
    let mut compared = Vec::new();
    let (linear_table, mut linear_panels) = linear_losses(lab, &mut compared)?;
    let (trace_table, trace_panel) = trace_norm_losses(lab, &mut compared)?;
    linear_panels.push(trace_panel);

    let rows = lab.pick(200, 1000);
    lab.setting("rows of signs", rows)?;
    let ways = [
        Way::Named("exponential-mechanism"),
        Way::Exponential { p: 1.5 },
        Way::Exponential { p: 1.0 },
        Way::Named("frank-wolfe"),
        Way::Mirror { p: 1.0 },
        Way::Mirror { p: 1.5 },
        Way::Named("noisy-gradient-descent"),
        Way::Named("objective-perturbation"),
    ];
    let signs =
        measured(lab, "signs", &ways, &lab.pick(vec![4], vec![4, 8, 16, 32]), lab.pick(2, 20), |way, features| {
            tables::Cell { shape: Shape::Signs, way, rows, features }
        })?;
    let (signs_table, signs_panel) = shown("labels with two weights", "features d", &signs);

    let rows = lab.pick(2000, 50_000);
    lab.setting("rows of matrices", rows)?;
    let ways = [
        Way::MatrixFrankWolfe,
        Way::Named("noisy-gradient-descent"),
        Way::Shrunk,
        Way::Named("objective-perturbation"),
    ];
    let sides = lab.pick(vec![3], vec![4, 8, 16, 24]);
    let matrices = measured(lab, "matrices", &ways, &sides, lab.pick(2, 4), |way, side| tables::Cell {
        shape: Shape::Matrices { side },
        way,
        rows,
        features: side * side,
    })?;
    let (matrices_table, mut matrices_panel) = shown("matrix of rank one", "side m", &matrices);
    let bound: Result<Vec<(f64, f64)>, Failure> =
        sides.iter().map(|&side| Ok((side as f64, tables::trace_norm_bound(side, rows)?))).collect();
    matrices_panel = matrices_panel.with(Series::theory("bound of an exact draw, trace norm", bound?));

    let at = |found: &[(Way, Means)], way: Way, size: usize| {
        found.iter().find(|(w, _)| *w == way).and_then(|(_, means)| means.get(&size).copied().flatten()).map(|s| s.mean)
    };
    let (most, widest) = (lab.pick(4, 32), *sides.last().unwrap_or(&0));
    let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(f64::NAN, |(a, b)| a / b);
    let descent = at(&signs, Way::Named("noisy-gradient-descent"), most);
    let ratios = [
        (
            "Frank–Wolfe over noisy descent, two weights of the most features",
            ratio(at(&signs, Way::Named("frank-wolfe"), most), descent),
        ),
        (
            "mirror descent (p = 1) over noisy descent, the same",
            ratio(at(&signs, Way::Mirror { p: 1.0 }, most), descent),
        ),
        (
            "Frank–Wolfe over noisy descent, the largest matrices",
            ratio(
                at(&matrices, Way::MatrixFrankWolfe, widest),
                at(&matrices, Way::Named("noisy-gradient-descent"), widest),
            ),
        ),
    ];
    for (what, ours) in ratios {
        compared.push(Compared::within(what, 0.0..=1.0, ours));
    }
    // what the exponential mechanism gains by a norm, where both have a plan
    let gains: Vec<f64> = signs
        .iter()
        .filter(|(way, _)| matches!(way, Way::Exponential { .. }))
        .flat_map(|(way, means)| {
            means
                .keys()
                .map(|size| ratio(at(&signs, *way, *size), at(&signs, Way::Named("exponential-mechanism"), *size)))
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    let best = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let passed = compared.iter().filter(|c| c.agrees == Some(true)).count();
    let above = compared.iter().filter(|c| c.what.contains("over its bound") && c.agrees == Some(false)).count();
    let sentence = format!(
        "{passed} of {} checks hold; the exponential mechanism exceeds its bound in {above} of {} cells of p and d. On tables, l_1 or l_1.5 leaves {best:.2} of what l_2 leaves at best, over {} sizes that have a plan.",
        compared.len(),
        ORDERS.len() * lab.pick(1, 5) + lab.pick(1, 4),
        gains.len(),
    );
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![linear_table, trace_table, signs_table, matrices_table],
        charts: vec![
            ("linear".into(), Chart::of(linear_panels)),
            ("tables".into(), Chart::of([signs_panel, matrices_panel])),
        ],
        compared,
        notes: vec![
            "Linear losses: mean over draws at the temperature of the bound, for the worst of up to twelve mean slopes (dual norms from 1/16 to 2 of the bound; equal entries, or one). Means are taken along chains of the library's sampler; virial: the mean of ⟨∇H(x), x⟩ is d for every law e^−H, which a chain that is not mixed would miss. The best point of the ball is the yardstick; draws may lie outside of it.".into(),
            "Noisy sum: Gaussian noise on the sum of slopes, calibrated alone, then the best point of the ball; what mirror descent comes to on linear losses. Noisy choice: the exponential mechanism on the 2d vertices with all of ε and no δ, which is Frank–Wolfe's one step. Both see the sum, in the place of records.".into(),
            "Two weights: rows of signs over √d, logistic labels, scores of standard deviation 2. Frank–Wolfe and mirror descent are told the l_1 norm of the truth, the exponential mechanism in l_p the dual norm that rows have, the others nothing. No plan: no certified chain of affordable length. Mirror descent is dual averaging of noisy gradients with the regulariser of l_p, its step from its own bound; it is no method of the library.".into(),
            "Matrices: rows u·vᵀ, logistic labels, the truth of rank one; Frank–Wolfe is told its trace norm and takes its rounds from public numbers.".into(),
            "Trace norm: no sampler is certified for it here. Draws are points of hit-and-run, research grade, nothing of them is private; they show what exact draws would leave.".into(),
        ],
    })
}
