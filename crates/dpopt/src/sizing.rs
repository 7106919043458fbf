//! Which ε, how many rows: the least of either at which a fit is predicted to reach a goal. Reads no record; a plan's predicted excess risk becomes
//! points of accuracy or a root-mean-square error by what was measured on a panel of tables ([`Scale`], docs/benchmarks.md).
//!
//! ```
//! use dpopt::loss::Loss;
//! use dpopt::sizing::{Goal, SizingRequest, Scale, size};
//!
//! let goal = Goal::Accuracy { accuracy: 0.8, best: 0.86 };
//! let scale = Scale::of(&Loss::Logistic { shift: 0.0 }, None)?;
//! // stands in for a plan: the excess risk that is predicted at ε on so many rows
//! let excess = |epsilon: f64, rows: u64| Ok::<_, dpopt_refusal::Refusal>(Some(200.0 / (epsilon * rows as f64)));
//! let found = size(&SizingRequest { goal, scale, epsilon: None, rows: Some(20_000) }, excess)?;
//! let epsilon = found.epsilon.expect("such an ε exists");
//! assert!(epsilon.low.unwrap() < epsilon.value && epsilon.value < epsilon.high.unwrap());
//! # Ok::<(), dpopt_refusal::Refusal>(())
//! ```

mod goal;
mod scale;
mod shown;

pub use goal::Goal;
pub use scale::{COVERAGE, Estimate, Scale};

use dpopt_refusal::{Refusal, Remedy};
use serde::Serialize;
use std::collections::HashMap;

/// ε that are looked at, from the smallest to the largest: beyond the last a guarantee says next to nothing.
pub const EPSILONS: [f64; 11] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
/// Numbers of rows that are looked at: 1, 2 and 5 times powers of ten between these.
pub const ROWS: [u64; 2] = [50, 1_000_000_000];
/// No answer takes more plans than this.
pub const MAX_PLANS: usize = 64;

/// Neighbours of an answer are told apart to this ratio before it is rounded up.
const PRECISION: f64 = 1.004;
/// Points of the curve over rows on either side of the number that it is about.
const ON_EACH_SIDE: usize = 4;

/// What is asked.
#[derive(Clone, Debug)]
pub struct SizingRequest {
    /// What a fit is to reach.
    pub goal: Goal,
    /// How a predicted excess risk becomes what the goal is about.
    pub scale: Scale,
    /// ε of the fit, if it is settled.
    pub epsilon: Option<f64>,
    /// Number of rows (of units, where a unit may have several), if it is known.
    pub rows: Option<u64>,
}

/// What is predicted at one ε and number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// ε of the run.
    pub epsilon: f64,
    /// Number of rows, or of units.
    pub rows: u64,
    /// Predicted excess risk of the method that would run; none where no method applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess_risk: Option<f64>,
    /// What is lost to privacy, in the unit of the answer; all of it where no method applies.
    pub lost: Estimate,
}

/// The least ε or number of rows that reaches the goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Least {
    /// By the estimate.
    pub value: f64,
    /// By the lower end of the band of what is lost; none below all that is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// By the upper end of the band; none above all that is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// The answer, with the curves that it was read from. `Display` tells it in a few lines and two tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// What was asked for.
    pub goal: Goal,
    /// Unit of what is lost.
    pub unit: &'static str,
    /// The most that may be lost to privacy.
    pub allowed: f64,
    /// The least ε at `at.rows`; none where no ε up to the largest reaches the goal, or no number of rows was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<Least>,
    /// The least number of rows at `at.epsilon`; none where the largest number does not reach the goal, or no ε was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Least>,
    /// What is predicted at the ε and the number of rows of the plan beside this.
    pub at: Point,
    /// Whether ε and the number of rows were given.
    pub given: Given,
    /// What is predicted for each ε, at `at.rows`.
    pub over_epsilon: Vec<Point>,
    /// What is predicted for numbers of rows, at `at.epsilon`.
    pub over_rows: Vec<Point>,
    /// Share of measured fits that lay within the band.
    pub coverage: f64,
    /// Number of plans that were made.
    pub plans: usize,
}

/// What of a request was settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Given {
    /// Whether ε was.
    pub epsilon: bool,
    /// Whether the number of rows was.
    pub rows: bool,
}

/// Answers `request` with at most [`MAX_PLANS`] plans: `excess` is the excess risk that is predicted at ε on so many rows, none where no method applies.
///
/// # Errors
/// If the goal makes no sense on this scale, or neither ε nor the number of rows is known; and those of `excess`.
pub fn size<E: From<Refusal>>(
    request: &SizingRequest,
    excess: impl FnMut(f64, u64) -> Result<Option<f64>, E>,
) -> Result<Sizing, E> {
    let SizingRequest { goal, scale, epsilon, rows } = request;
    let allowed = goal.allowed(scale)?;
    let mut plans = Plans { excess, scale: *scale, goal: *goal, known: HashMap::new() };
    let given = Given { epsilon: epsilon.is_some(), rows: rows.is_some() };
    let (mut over_epsilon, mut least_epsilon, mut least_rows) = (Vec::new(), None, None);
    if let Some(rows) = *rows {
        (over_epsilon, least_epsilon) = plans.search(&EPSILONS, allowed, |epsilon| (epsilon, rows))?;
    }
    // the plan beside the answer is of the ε that was given, else of the one that was found, else of the largest
    let of_plan =
        epsilon.unwrap_or_else(|| least_epsilon.map_or(EPSILONS[EPSILONS.len() - 1], |least: Least| least.value));
    if epsilon.is_some() {
        least_rows = plans.least_rows(of_plan, allowed)?;
    } else if rows.is_none() {
        let none = Refusal::of("neither epsilon nor the number of rows is known");
        return Err(none.or(Remedy::Set("epsilon", "E".into())).or(Remedy::Set("rows", "N".into())).into());
    }
    let asked = rows.unwrap_or_else(|| least_rows.map_or(ROWS[1], |least| least.value as u64));
    let around = around(asked);
    let over_rows = around.into_iter().map(|rows| plans.at(of_plan, rows)).collect::<Result<Vec<_>, E>>()?;
    if given.epsilon && !given.rows {
        over_epsilon = EPSILONS.into_iter().map(|epsilon| plans.at(epsilon, asked)).collect::<Result<_, E>>()?;
    }
    let at = plans.at(of_plan, asked)?;
    Ok(Sizing {
        goal: *goal,
        unit: scale.unit(),
        allowed,
        epsilon: least_epsilon,
        rows: least_rows,
        at,
        given,
        over_epsilon,
        over_rows,
        coverage: COVERAGE,
        plans: plans.known.len(),
    })
}

/// Plans that were made, each once.
struct Plans<F> {
    excess: F,
    scale: Scale,
    goal: Goal,
    known: HashMap<(u64, u64), Option<f64>>,
}

impl<F, E> Plans<F>
where
    F: FnMut(f64, u64) -> Result<Option<f64>, E>,
{
    fn at(&mut self, epsilon: f64, rows: u64) -> Result<Point, E> {
        let key = (epsilon.to_bits(), rows);
        let excess_risk = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let found = (self.excess)(epsilon, rows)?.filter(|excess| excess.is_finite());
                self.known.insert(key, found);
                found
            }
        };
        let all = Estimate::all(self.goal.most_lost(&self.scale));
        let lost = excess_risk.map_or(all, |excess| self.goal.lost(&self.scale, excess));
        Ok(Point { epsilon, rows, excess_risk, lost })
    }

    /// The curve over `grid`, in order, and the least value from which on all of it reaches the goal.
    fn search(
        &mut self,
        grid: &[f64],
        allowed: f64,
        place: impl Fn(f64) -> (f64, u64),
    ) -> Result<(Vec<Point>, Option<Least>), E> {
        let mut curve = Vec::new();
        for &x in grid {
            let (epsilon, rows) = place(x);
            curve.push(self.at(epsilon, rows)?);
        }
        let Some(first) = first_of_all(&curve, |point| point.lost.middle <= allowed) else { return Ok((curve, None)) };
        let value = match first {
            0 => grid[0],
            first => self.between(grid[first - 1], grid[first], allowed, &place)?,
        };
        let (low, high) = band(&curve, allowed, |point| point.epsilon, value);
        Ok((curve, Some(Least { value, low, high })))
    }

    /// The least value between one that does not reach the goal and one that does: rounded up to three digits where that reaches it too.
    fn between(
        &mut self,
        mut short: f64,
        mut enough: f64,
        allowed: f64,
        place: impl Fn(f64) -> (f64, u64),
    ) -> Result<f64, E> {
        while enough / short > PRECISION {
            let middle = (short * enough).sqrt();
            let (epsilon, rows) = place(middle);
            if self.at(epsilon, rows)?.lost.middle <= allowed { enough = middle } else { short = middle }
        }
        let rounded = three_digits_up(enough);
        let (epsilon, rows) = place(rounded);
        Ok(if self.at(epsilon, rows)?.lost.middle <= allowed { rounded } else { enough })
    }

    /// The least number of rows at ε.
    fn least_rows(&mut self, epsilon: f64, allowed: f64) -> Result<Option<Least>, E> {
        let Some(enough) = self.enough_rows(epsilon, allowed, |lost| lost.middle)? else { return Ok(None) };
        let grid = row_grid();
        let place = |rows: f64| (epsilon, rows.ceil() as u64);
        let value = match enough {
            0 => grid[0] as f64,
            enough => self.between(grid[enough - 1] as f64, grid[enough] as f64, allowed, place)?.ceil(),
        };
        let ends: [fn(&Estimate) -> f64; 2] = [|lost| lost.low, |lost| lost.high];
        let [mut low, mut high] = [None, None];
        for (end, found) in ends.into_iter().zip([&mut low, &mut high]) {
            if let Some(enough @ 1..) = self.enough_rows(epsilon, allowed, end)? {
                let pair = [self.at(epsilon, grid[enough - 1])?, self.at(epsilon, grid[enough])?];
                *found = crossing(&pair, allowed, |point| point.rows as f64, end);
            }
        }
        Ok(Some(Least { value, low: low.map(|low| low.min(value)), high: high.map(|high| high.max(value)) }))
    }

    /// The first place of the grid of rows at which no more than what is allowed is lost, by one end of the band.
    fn enough_rows(&mut self, epsilon: f64, allowed: f64, end: fn(&Estimate) -> f64) -> Result<Option<usize>, E> {
        let grid = row_grid();
        let mut enough = grid.len() - 1;
        if end(&self.at(epsilon, grid[enough])?.lost) > allowed {
            return Ok(None);
        }
        let mut least = 0;
        while least < enough {
            let middle = (least + enough) / 2;
            if end(&self.at(epsilon, grid[middle])?.lost) <= allowed { enough = middle } else { least = middle + 1 }
        }
        Ok(Some(enough))
    }
}

/// The first of all points from which on each is as asked.
fn first_of_all(points: &[Point], asked: impl Fn(&Point) -> bool) -> Option<usize> {
    let short = points.iter().rposition(|point| !asked(point)).map_or(0, |last| last + 1);
    (short < points.len()).then_some(short)
}

/// Where the lower and the upper end of what is lost come within what is allowed; they enclose `value`.
fn band(curve: &[Point], allowed: f64, x: impl Fn(&Point) -> f64, value: f64) -> (Option<f64>, Option<f64>) {
    let low = crossing(curve, allowed, &x, |lost| lost.low).map(|low| low.min(value));
    (low, crossing(curve, allowed, &x, |lost| lost.high).map(|high| high.max(value)))
}

/// Where one end of what is lost comes within what is allowed and stays there, read off a curve; none if it always or never does.
fn crossing(curve: &[Point], allowed: f64, x: impl Fn(&Point) -> f64, end: fn(&Estimate) -> f64) -> Option<f64> {
    let first = first_of_all(curve, |point| end(&point.lost) <= allowed)?;
    let before = first.checked_sub(1)?;
    let ends = [before, first].map(|at| (x(&curve[at]).ln(), end(&curve[at].lost)));
    let share = ((ends[0].1 - allowed) / (ends[0].1 - ends[1].1)).clamp(0.0, 1.0);
    Some(two_digits((ends[0].0 + share * (ends[1].0 - ends[0].0)).exp()))
}

fn row_grid() -> Vec<u64> {
    let decades = (0..=9).flat_map(|power| [1, 2, 5].map(|lead| lead * 10u64.pow(power)));
    decades.filter(|rows| (ROWS[0]..=ROWS[1]).contains(rows)).collect()
}

/// `rows`, and round numbers on either side.
fn around(rows: u64) -> Vec<u64> {
    let grid = row_grid();
    let below = grid.iter().rev().filter(|other| **other < rows).take(ON_EACH_SIDE);
    let above = grid.iter().filter(|other| **other > rows).take(ON_EACH_SIDE);
    let mut all: Vec<u64> = below.chain([&rows]).chain(above).copied().collect();
    all.sort_unstable();
    all
}

fn two_digits(x: f64) -> f64 {
    let unit = 10f64.powf(x.log10().floor() - 1.0);
    tidy((x / unit).round() * unit)
}

fn three_digits_up(x: f64) -> f64 {
    let unit = 10f64.powf(x.log10().floor() - 2.0);
    tidy((x / unit - 1e-9).ceil() * unit)
}

/// Without the last digits of a product.
fn tidy(x: f64) -> f64 {
    format!("{x:.12e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests;
