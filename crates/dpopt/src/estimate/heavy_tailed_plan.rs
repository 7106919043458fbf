//! Plans for means of heavy-tailed columns: where to clip, the noise, and a confidence interval, all from public numbers
//! (docs/proofs/heavy-tailed-mean.md).

use super::interval::{Facts, Law, Parts, Width};
use crate::moment::Moment;
use dpopt_mechanism::{
    Blocks, ColumnClip, ColumnCounts, ColumnRanges, Curator, CuratorError, Gaussian, Laplace, Mechanism, Released,
    SamplerError, Sensitive,
};
use dpopt_noise::{Grid, Norm};
use dpopt_objective::records::ColumnValues;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, Shown, Unit, calibrate};
use dpopt_refusal::{Refusal, Step};
use serde::Serialize;

/// Public facts about columns whose means are wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeavyTailedProblem {
    /// n: number of records, which are rows or units. Public under zero-out and replace-one; under add-or-remove a public guess, which the answer does not
    /// depend on: the number is released with noise.
    pub records: u64,
    /// One for each column.
    pub moments: Vec<Moment>,
    /// F: where only the order is known, the moment's root about the released centre is at most F times the released range. An assumption, public.
    pub spread_factor: f64,
    /// Probability with which all intervals together hold, at least.
    pub confidence: f64,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// One row of `dpopt mean --of --explain`.
pub struct HeavyTailedCandidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, or why there is none.
    pub plan: Result<HeavyTailedPlan, NotApplicable>,
}

const GAUSSIAN: &str = "clipped-gaussian";
const LAPLACE: &str = "clipped-laplace";

/// Names of the methods, as in `--method`.
pub const HEAVY_TAILED_METHODS: [&str; 2] = [LAPLACE, GAUSSIAN];

/// F unless said: enough for the normal, t(3), log-normal(σ = 1) and Pareto(3) laws and k = 2; docs/mean.md has the numbers.
pub const SPREAD_FACTOR: f64 = 2.0;

/// Levels between which a range is released, in thousandths: 10 % and 90 %.
const LEVEL: u64 = 100;
/// But for this probability ranks are as far off as [`RANK_SHARE`] of the records at most.
const RANK_MISS: f64 = 1e-3;
/// Ranks may be so far off: ends are then between the 5 % and 15 % quantiles of the block, and the 85 % and 95 % ones.
const RANK_SHARE: f64 = 0.05;
/// Share of ε that ranges leave: blocks together have one δ to pay their samplers from.
const ROOM: f64 = 0.01;
/// More ε than this changes no rank.
const MAX_RANGE_EPSILON: f64 = 1e3;
/// Columns beyond which a plan is refused.
const MAX_COLUMNS: usize = 1 << 16;

/// A planned and certified way to estimate means.
#[derive(Clone, Debug)]
pub struct HeavyTailedPlan {
    /// Name as in `--method`.
    pub method: &'static str,
    /// Noise scale over the norm bound of a record, which is 1.
    pub noise_multiplier: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
    /// Everything the run needs.
    pub schedule: HeavyTailedSchedule,
}

/// All parameters, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct HeavyTailedSchedule {
    law: Law,
    /// log2 of the grid step of the sum.
    pub grid_exponent: i32,
    /// Share of norm 1 that each coordinate has.
    pub weight: f64,
    /// How many records are averaged.
    pub averaged: u64,
    /// Whether the number of records is released, too.
    pub counted: bool,
    /// Centres and scales that are released before, of a block of records of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangeSchedule>,
    /// One for each column.
    pub columns: Vec<ColumnSchedule>,
}

/// How ranges of columns are released.
#[derive(Clone, Debug, Serialize)]
pub struct RangeSchedule {
    /// Numbers of the columns that have none, from 0.
    pub columns: Vec<usize>,
    /// Records in the block.
    pub records: u64,
    /// The range is from the quantile of this level, in thousandths, to the quantile of 1000 minus it.
    pub thousandths: u64,
    /// ε of each of two choices per column.
    pub epsilon: f64,
}

/// Where a column is clipped, and how wide its interval will be, in units of the root of its moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ColumnSchedule {
    /// What is known of it.
    pub moment: Moment,
    /// C/m: the clip in units of the moment's root.
    pub threshold: f64,
    /// Standard deviation of the noise in the mean, over m.
    pub noise_std: f64,
    /// What the half width is made of, over m.
    pub half_width: Parts,
    /// Probabilities with which the bounds on noise and on sampling may fail.
    failures: (f64, f64),
}

impl ColumnSchedule {
    /// Half width of the interval, if it is known before the run; over m if not.
    pub fn predicted(&self) -> (f64, Option<f64>) {
        let relative = self.half_width.half_width();
        (relative, self.moment.root.map(|root| root * relative))
    }
}

/// The mean of one column.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColumnMean {
    /// The released mean, in the unit of the column.
    pub mean: f64,
    /// Ends of its confidence interval.
    pub interval: (f64, f64),
    /// Half widths for noise, sampling and clip bias. The interval is at most as wide as they say.
    pub parts: Parts,
    /// Standard deviation of the noise in the mean; where the number of records is released, that of the sum's alone.
    pub noise_std: f64,
    /// Numbers were clipped to this distance from `centre`.
    pub threshold: f64,
    /// The centre around which numbers were clipped: public, or released.
    pub centre: f64,
    /// m: a bound on the root of the moment about `centre`, public; or assumed, from what was released.
    pub root: f64,
}

/// Plans every method, the narrowest intervals first, methods that do not apply last. Touches no record.
pub fn heavy_tailed_candidates(problem: &HeavyTailedProblem, budget: Budget) -> Vec<HeavyTailedCandidate> {
    let plan = |method: &'static str| HeavyTailedCandidate { method, plan: plan(problem, budget, method) };
    let mut all = HEAVY_TAILED_METHODS.map(plan).into_iter().collect::<Vec<_>>();
    let width = |c: &HeavyTailedCandidate| c.plan.as_ref().map_or(f64::INFINITY, HeavyTailedPlan::mean_width);
    all.sort_by(|a, b| width(a).total_cmp(&width(b)));
    all
}

fn check(problem: &HeavyTailedProblem) -> Result<(), NotApplicable> {
    let refuse = |text: String| Err(NotApplicable::Problem(text.into()));
    if problem.records < 2 || problem.moments.is_empty() {
        return refuse("there are fewer than two records, or no columns; check the table".into());
    }
    if problem.moments.len() > MAX_COLUMNS {
        return refuse(format!("there are {} columns; give at most {MAX_COLUMNS}", problem.moments.len()));
    }
    problem.moments.iter().try_for_each(|moment| moment.checked().map(|_| ()))?;
    if !(problem.confidence > 0.0 && problem.confidence < 1.0) {
        return Err(NotApplicable::Option(
            format!("the confidence is {}; give a number between 0 and 1, for example 0.95", Shown(problem.confidence))
                .into(),
        ));
    }
    if !(0.1..=1e6).contains(&problem.spread_factor) {
        return Err(NotApplicable::Option(
            format!(
                "the spread factor is {}; give a number from 0.1 to 1e6, for example {SPREAD_FACTOR}",
                Shown(problem.spread_factor)
            )
            .into(),
        ));
    }
    Ok(())
}

/// Two choices for each of `columns` columns, each for `epsilon`: the very number that the choices are made with, since 1/(1/ε) may be another.
fn range_event(columns: usize, epsilon: f64, budget: Budget) -> Event {
    let choices = ColumnRanges::event_of(columns, epsilon);
    ColumnRanges::sampler_error_of(columns).paid(choices, budget.delta())
}

/// Ranges of the columns whose moment's root is not known, if there are such, with the whole budget.
fn ranges(problem: &HeavyTailedProblem, budget: Budget) -> Result<Option<RangeSchedule>, NotApplicable> {
    let columns: Vec<usize> = (0..problem.moments.len()).filter(|&j| problem.moments[j].root.is_none()).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let refuse = |why: String| Err(NotApplicable::Problem(Refusal::of(why).or(Step::GiveRoot)));
    if problem.neighbours.relation == Relation::AddOrRemove {
        return refuse(
            "centres and scales come from a separate block of records, whose borders an added record would move; use \
             zero-out or replace-one, or give the bound of the moment as well"
                .into(),
        );
    }
    if problem.neighbours.unit == Unit::User {
        return refuse(
            "centres and scales come from a separate block of units, and the block of a unit would depend on which \
             others have rows; give the bound of the moment as well"
                .into(),
        );
    }
    let count = columns.len();
    let (noise, _) =
        calibrate::noise(|noise| range_event(count, 1.0 / noise, budget), problem.neighbours.within(budget))?;
    // a little less than that, so that what is calibrated for both blocks together has room
    let epsilon = ((1.0 - ROOM) / noise).min(MAX_RANGE_EPSILON);
    let records = (ColumnRanges::rank_error(count, epsilon, RANK_MISS) / RANK_SHARE).ceil();
    if records > 0.5 * problem.records as f64 {
        return refuse(format!(
            "private centres and scales of {count} columns need about {:.0} records at this budget",
            2.0 * records
        ));
    }
    Ok(Some(RangeSchedule { columns, records: records as u64, thousandths: LEVEL, epsilon }))
}

fn plan(problem: &HeavyTailedProblem, budget: Budget, method: &'static str) -> Result<HeavyTailedPlan, NotApplicable> {
    check(problem)?;
    let law = if method == LAPLACE { Law::Laplace } else { Law::Gaussian };
    if law == Law::Gaussian && budget.delta() == 0.0 {
        return Err(NotApplicable::Problem(
            "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
        ));
    }
    let counted = problem.neighbours.relation == Relation::AddOrRemove;
    let coordinates = problem.moments.len() + usize::from(counted);
    let d = coordinates as f64;
    let terms = problem.neighbours.within(budget);
    let ranges = ranges(problem, budget)?;
    let event = |z: f64| match law {
        Law::Gaussian => SamplerError::rounded(d).on(Event::gaussian(z)),
        Law::Laplace => SamplerError::fine(d).paid(Event::Laplace { noise_multiplier: z }, budget.delta()),
    };
    let (noise_multiplier, certificate) = calibrate::noise(
        |z| match &ranges {
            None => event(z),
            Some(before) => {
                let first = range_event(before.columns.len(), before.epsilon, budget);
                Event::Parallel { blocks: vec![first, event(z)] }
            }
        },
        terms,
    )?;
    let averaged = problem.records - ranges.as_ref().map_or(0, |ranges| ranges.records);
    let n = averaged as f64;
    let weight = ColumnClip::weight(law.norm(), coordinates);
    // what truncation takes from a record is far below the noise of the mean
    let grid = Grid::for_sum(1.0, noise_multiplier, averaged.saturating_mul(256), coordinates);
    match law {
        Law::Gaussian => Gaussian::new(noise_multiplier, 1.0, grid, coordinates, "mean").can_draw()?,
        Law::Laplace => Laplace::new(noise_multiplier, 1.0, grid, coordinates).can_draw()?,
    }
    if let Some(before) = &ranges {
        ColumnRanges::new(before.columns.len(), before.thousandths, before.epsilon).can_draw()?;
    }
    let facts = |moment: Moment| Facts {
        moment,
        records: n,
        law,
        noise: noise_multiplier.next_up() / weight / n,
        step: grid.step() / weight,
        counted,
        failure: (1.0 - problem.confidence) / problem.moments.len() as f64,
    };
    // columns of one order have one width
    let mut known: Vec<(u64, Width)> = Vec::new();
    let mut columns = Vec::with_capacity(problem.moments.len());
    for &moment in &problem.moments {
        let found = known.iter().find(|(order, _)| *order == moment.order.to_bits()).map(|(_, width)| *width);
        let Width { threshold, failures, parts } = found.unwrap_or_else(|| {
            let width = facts(moment).narrowest();
            known.push((moment.order.to_bits(), width));
            width
        });
        let noise_std = facts(moment).noise * law.standard_deviation() * threshold;
        columns.push(ColumnSchedule { moment, threshold, noise_std, half_width: parts, failures });
    }
    let schedule =
        HeavyTailedSchedule { law, grid_exponent: grid.exponent(), weight, averaged, counted, ranges, columns };
    Ok(HeavyTailedPlan { method, noise_multiplier, certificate, schedule })
}

impl Law {
    fn norm(self) -> Norm {
        match self {
            Self::Gaussian => Norm::L2,
            Self::Laplace => Norm::L1,
        }
    }
}

/// Centre, m and C of each column.
struct Placed {
    centres: Vec<f64>,
    roots: Vec<f64>,
    thresholds: Vec<f64>,
}

impl HeavyTailedPlan {
    /// The mean over columns of the half width of the interval over m.
    pub fn mean_width(&self) -> f64 {
        let columns = &self.schedule.columns;
        columns.iter().map(|c| c.half_width.half_width()).sum::<f64>() / columns.len() as f64
    }

    /// Releases the means of all columns of `records`, which `curator` has been opened for with the plan's certificate.
    ///
    /// # Errors
    /// If the records are not those that were planned for; [`CuratorError::Unusable`] if what was released has no mean: the range of a column has no end on the
    /// grid, or the released number of records is not clearly above 0.
    pub fn run<R: ColumnValues>(
        &self,
        problem: &HeavyTailedProblem,
        records: &Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Released<Vec<ColumnMean>>, CuratorError> {
        let schedule = &self.schedule;
        if curator.public_count(records).is_some_and(|count| count != problem.records) {
            return Err(CuratorError::Shape);
        }
        let noisy = match (&schedule.ranges, self.certificate.event()) {
            (None, _) => {
                let placed = self.placed(problem, &[])?;
                let sum = self.sum(&placed, records, curator)?;
                (placed, sum)
            }
            (Some(ranges), Event::Parallel { blocks }) => {
                let sizes = [ranges.records as usize, schedule.averaged as usize];
                // blocks do not depend on the order of the rows: each is a uniform choice of them
                let mut blocks = curator.open(&Blocks::of_sizes(&sizes, blocks.clone())?.shuffled())?;
                let [first, second] = &mut blocks[..] else { return Err(CuratorError::Shape) };
                let batch = first.block_of(records)?;
                let counts = ColumnCounts::of(records, &ranges.columns, batch)?;
                let mechanism = ColumnRanges::new(ranges.columns.len(), ranges.thousandths, ranges.epsilon);
                let found = first.release(&mechanism, &counts)?.into_inner();
                let placed = self.placed(problem, &found)?;
                let sum = self.sum(&placed, records, second)?;
                (placed, sum)
            }
            _ => return Err(CuratorError::Shape),
        };
        Ok(curator.postprocess(self.means(&noisy.0, &noisy.1)?))
    }

    /// Where columns are clipped: around public numbers, or as the ranges that were released say.
    fn placed(&self, problem: &HeavyTailedProblem, found: &[Option<(f64, f64)>]) -> Result<Placed, CuratorError> {
        let mut found = found.iter();
        let mut placed = Placed { centres: Vec::new(), roots: Vec::new(), thresholds: Vec::new() };
        for (j, column) in self.schedule.columns.iter().enumerate() {
            let (centre, root) =
                match column.moment.root {
                    Some(root) => (column.moment.about, root),
                    None => match found.next() {
                        Some(Some((low, high))) => (0.5 * (low + high), problem.spread_factor * (high - low)),
                        _ => {
                            return Err(CuratorError::Unusable(format!(
                            "most numbers of the requested column number {} (counted from 1) exceed 1e9 in size, \
                             where the grid of ranges ends; give the bound of its moment as well, or rescale the \
                             column",
                            j + 1
                        ).into()));
                        }
                    },
                };
            placed.centres.push(centre);
            placed.roots.push(root);
            placed.thresholds.push(column.threshold * root);
        }
        Ok(placed)
    }

    fn sum<R: ColumnValues>(
        &self,
        placed: &Placed,
        records: &Sensitive<R>,
        curator: &mut Curator,
    ) -> Result<Vec<f64>, CuratorError> {
        let HeavyTailedSchedule { law, counted, grid_exponent, .. } = self.schedule;
        let grid = Grid::new(grid_exponent);
        let clip = ColumnClip::new(&placed.centres, &placed.thresholds, counted, law.norm(), grid)?;
        let coordinates = placed.centres.len() + usize::from(counted);
        let batch = curator.block_of(records)?;
        let (z, label) = (self.noise_multiplier, "clipped sum of columns");
        let released = match law {
            Law::Gaussian => {
                curator.release(&Gaussian::new(z, 1.0, grid, coordinates, label), &clip.sum(records, batch)?)
            }
            Law::Laplace => curator.release(&Laplace::new(z, 1.0, grid, coordinates), &clip.l1_sum(records, batch)?),
        };
        Ok(released?.into_inner())
    }

    /// Means and intervals, from what was released: post-processing.
    fn means(&self, placed: &Placed, sums: &[f64]) -> Result<Vec<ColumnMean>, CuratorError> {
        let HeavyTailedSchedule { weight, averaged, counted, law, grid_exponent, .. } = self.schedule;
        let count = match sums.last() {
            Some(last) if counted => last / weight,
            _ => averaged as f64,
        };
        let (n, step) = (averaged as f64, Grid::new(grid_exponent).step() / weight);
        let columns = self.schedule.columns.iter().zip(sums).enumerate();
        let means = columns.map(|(j, (column, sum))| {
            let (root, centre, threshold) = (placed.roots[j], placed.centres[j], placed.thresholds[j]);
            let noise = self.noise_multiplier.next_up() / weight / n;
            let facts = Facts { moment: column.moment, records: n, law, noise, step, counted, failure: 0.0 };
            // of the sum, in units of C
            let (sum, off) = (sum / weight, facts.noise_bound(column.failures.0) * n);
            let (fewest, most) = if counted { (count - off, count + off) } else { (n, n) };
            if fewest < 2.0 {
                return Err(CuratorError::Unusable(
                    "the released number of records is not clearly above 0: the table is too small for this budget"
                        .into(),
                ));
            }
            let estimate = (sum / count).clamp(-1.0, 1.0);
            // the mean of clipped numbers lies between these, and between −1 and 1
            let low = ((sum - off) / fewest).min((sum - off) / most).clamp(-1.0, 1.0);
            let high = ((sum + off) / fewest).max((sum + off) / most).clamp(-1.0, 1.0);
            let records = if counted { fewest.floor() } else { n };
            let ends = (low * column.threshold, high * column.threshold);
            let sampling = facts.sampling_between(records, column.threshold, column.failures.1, ends);
            let parts = Parts {
                noise: threshold * (high - estimate).max(estimate - low),
                sampling: root * sampling,
                bias: root * column.half_width.bias,
            };
            let rest = parts.sampling + parts.bias;
            // |E X − c| ≤ m
            let within = |x: f64| x.clamp(centre - root, centre + root);
            Ok(ColumnMean {
                mean: within(centre + threshold * estimate),
                interval: (within(centre + threshold * low - rest), within(centre + threshold * high + rest)),
                parts,
                noise_std: column.noise_std * root * n / count,
                threshold,
                centre,
                root,
            })
        });
        means.collect()
    }
}
