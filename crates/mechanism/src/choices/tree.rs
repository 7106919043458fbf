//! One of up to 2^120 points of a public tree of cells, by the exponential mechanism on cut scores, drawn exactly by branch and bound: nearly all of the points are never looked
//! at (Liu 2024, Theorems 6.4.1, 6.4.6 and 6.4.8; docs/proofs/tree.md).
//!
//! **Which points are asked for depends on the records**, and so does their number: whoever evaluates the losses sees it, as he sees the records. Nothing of it may be shown to
//! anybody else.

use dpopt_draws::{MAX_DOUBLINGS, WeightedChoice};
use dpopt_kernel::beside::{Expose, Members, Sealed, Seen, opened, released};
use dpopt_kernel::{Batch, CuratorError, Interactive, InteractiveStart, Released, SamplerError, Sensitive};
use dpopt_noise::{Purpose, Stream};
use dpopt_objective::objective::Objective;
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Event, Relation};
use dpopt_process::stop::Stop;
use dpopt_process::{Process, in_threads};
use rayon::prelude::*;

/// log2 of what one record moves a score by at most, in units: G times the distance of the furthest point, or B/2. As fine as sums of all records and the scale of the choice allow,
/// so that roundings of many records stay below the noise.
fn fineness(records: u64, epsilon: f64, neighbours: u64) -> u32 {
    let room = 59 - records.next_power_of_two().trailing_zeros();
    // the scale 2k·2^q/ε stays below 2^49
    let noise = (2f64.powi(48) * epsilon / neighbours as f64).log2().floor();
    room.min(noise.clamp(8.0, 32.0) as u32)
}

/// Most dimensions.
pub const MAX_TREE_DIMENSIONS: usize = 5;

/// Most levels: centres of cells are exact up to one rounding.
pub const MAX_TREE_LEVELS: u32 = 40;

/// Most records that bounds on scores are made for.
pub const MAX_TREE_RECORDS: u64 = 1 << 31;

/// Most that a regulariser may take from a score.
const LARGEST_PENALTY: f64 = (1u64 << 60) as f64;

/// Records that a thread takes at a time.
const TOGETHER: usize = 1024;

/// The public facts of a tree: level l cuts each side of a box, or of the box around a ball, into 2^l; the points are the centres of the cells of the last level, those
/// outside of a ball moved onto it.
#[derive(Clone, Debug)]
pub struct TreeShape {
    centre: Vec<f64>,
    half: f64,
    ball: bool,
    levels: u32,
    /// Distance of the furthest point from the centre.
    reach: f64,
}

impl TreeShape {
    /// A tree of `levels` levels over the box whose sides are twice `half` wide, or over the ball of that radius, around `centre`.
    ///
    /// # Errors
    /// If the centre has no or more than five entries, one is not finite, the width is not positive, or there are no or too many levels.
    pub fn new(centre: &[f64], half: f64, ball: bool, levels: u32) -> Result<Self, CuratorError> {
        let d = centre.len();
        let reach = if ball { half } else { half * (d as f64).sqrt() };
        let fits = (1..=MAX_TREE_DIMENSIONS).contains(&d)
            && (1..=MAX_TREE_LEVELS).contains(&levels)
            && levels * d as u32 <= MAX_DOUBLINGS;
        if !(fits && centre.iter().all(|c| c.is_finite()) && half > 0.0 && reach.is_finite()) {
            return Err(CuratorError::Shape);
        }
        Ok(Self { centre: centre.to_vec(), half, ball, levels, reach })
    }

    /// Number of levels below the root.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// How far the furthest point is from the centre at most.
    pub fn reach(&self) -> f64 {
        self.reach
    }

    /// Every point of the domain is so near to one of the tree's.
    pub fn cover_radius(&self) -> f64 {
        self.half / 2f64.powi(self.levels as i32) * (self.centre.len() as f64).sqrt()
    }

    /// How far the centre of a cell below level `level` is from that of its parent there.
    fn step(&self, level: u32) -> f64 {
        0.5 * self.half / 2f64.powi(level as i32) * (self.centre.len() as f64).sqrt()
    }

    /// The centre of a cell, moved onto the ball where it is outside: a function of public numbers.
    fn point(&self, cell: &Cell) -> Vec<f64> {
        let side = 2f64.powi(cell.level as i32);
        // in units of half a cell, from the centre
        let odd = |&at: &u64| (2 * at + 1) as f64 - side;
        let length = self.places(cell).iter().map(|at| odd(at).powi(2)).sum::<f64>().sqrt();
        let shrink = if self.ball && length > side { side / length } else { 1.0 };
        let unit = self.half / side * shrink;
        self.centre.iter().zip(self.places(cell)).map(|(c, at)| c + unit * odd(at)).collect()
    }

    /// How far the points of a cell are from the centre at least; of the last level, how far its point is.
    fn distance(&self, cell: &Cell) -> f64 {
        let (side, inside) = (2f64.powi(cell.level as i32), f64::from(u8::from(cell.level < self.levels)));
        let away = |&at: &u64| (((2 * at + 1) as f64 - side).abs() - inside).max(0.0).powi(2);
        let length = self.places(cell).iter().map(away).sum::<f64>().sqrt();
        self.half / side * if self.ball { length.min(side) } else { length }
    }

    fn places<'a>(&self, cell: &'a Cell) -> &'a [u64] {
        &cell.at[..self.centre.len()]
    }

    /// Whether the domain meets the cell: in units of half a cell its nearest point to the middle is |p| − 1 away along an axis.
    fn meets(&self, cell: &Cell) -> bool {
        let side = 1i128 << cell.level;
        let away = |&at: &u64| ((2 * i128::from(at) + 1 - side).abs() - 1).max(0).pow(2);
        !self.ball || self.places(cell).iter().map(away).sum::<i128>() <= side.pow(2)
    }
}

/// A cell of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    level: u32,
    /// Its place along each side.
    at: [u64; MAX_TREE_DIMENSIONS],
    /// The cut score of its parent; of a cell of the last level that was put back, its own.
    score: i64,
    /// Whether `score` is its own.
    scored: bool,
    /// What the regulariser takes from the scores of its points at least: a public number, of the last level what it takes.
    penalty: i64,
}

/// How far a record's loss counts.
#[derive(Clone, Copy, Debug)]
enum Counted {
    /// Relative to its loss at the centre, by so much per unit of distance at most.
    BySlope,
    /// Relative to this loss, the middle of the known range.
    Within(f64),
}

/// A choice among the points of a tree. Event: `ExponentialMechanism(ε)`.
///
/// ```
/// use dpopt_mechanism::progress::Silent;
/// use dpopt_mechanism::{Curator, Interactive, Sensitive, TreeChoice, TreeShape};
/// use dpopt_noise::NoiseSource;
/// use dpopt_objective::objective::Closures;
/// use dpopt_privacy::{Budget, Neighbours, Relation, certify};
///
/// // the point with the least mean distance from 10,000 records, among 2^36 points of a square
/// let loss = Closures::new(
///     2,
///     |x: &[f64], a: &[f64; 2]| (x[0] - a[0]).hypot(x[1] - a[1]),
///     |_: &[f64], _: &[f64; 2], _: &mut [f64]| {},
/// );
/// let shape = TreeShape::new(&[0.0, 0.0], 1.0, false, 18)?;
/// let tree = TreeChoice::by_slope(shape, 1.0, 10_000, 1.0, Relation::ZeroOut)?;
/// let certificate = certify(&tree.event(), Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 0.0)?))?;
/// let records = Sensitive::new(vec![[0.3, -0.4]; 10_000]);
/// let found = Curator::new(&certificate, NoiseSource::secure()?).open(&tree)?.choose(&records, &loss)?;
/// assert!((found.get()[0] - 0.3).abs() < 0.02 && (found.get()[1] + 0.4).abs() < 0.02);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TreeChoice {
    shape: TreeShape,
    epsilon: f64,
    relation: Relation,
    counted: Counted,
    /// What one record moves a score by at most, in units.
    quanta: i64,
    per_unit: f64,
    /// No score is beyond this: as much as so many records can make it.
    most: i64,
    /// What a cut score may differ from that of its parent, by the parent's level: as much as a mean loss of the given slope could, and the roundings.
    steps: Vec<i64>,
    /// λ of (λ/2)‖x − centre‖² in units.
    regularization: f64,
}

impl TreeChoice {
    /// A record's loss counts relative to its loss at the centre, as changing by at most `slope` per unit of distance. `records` is public, where their number is protected more
    /// than there will be: of a smaller number scores are cut, which costs accuracy and no privacy.
    ///
    /// # Errors
    /// If the slope or ε is not positive and finite, or there are more than 2^31 records.
    pub fn by_slope(
        shape: TreeShape,
        slope: f64,
        records: u64,
        epsilon: f64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        let whole = slope * shape.reach;
        Self::new(shape, (Counted::BySlope, whole), slope, records, (epsilon, relation))
    }

    /// Losses lie between 0 and `bound`, and what lies outside of it is cut; `slope` as in [`by_slope`](Self::by_slope) says how far scores of neighbouring cells may
    /// differ, and no more.
    ///
    /// # Errors
    /// As [`by_slope`](Self::by_slope), or if the bound is not positive and finite.
    pub fn within(
        shape: TreeShape,
        (bound, slope): (f64, f64),
        records: u64,
        epsilon: f64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        let whole = 0.5 * bound;
        Self::new(shape, (Counted::Within(whole), whole), slope, records, (epsilon, relation))
    }

    fn new(
        shape: TreeShape,
        (counted, whole): (Counted, f64),
        slope: f64,
        records: u64,
        (epsilon, relation): (f64, Relation),
    ) -> Result<Self, CuratorError> {
        let usable = |x: f64| x > 0.0 && x.is_finite();
        if !(usable(whole) && usable(slope) && (1..=MAX_TREE_RECORDS).contains(&records)) {
            return Err(CuratorError::Shape);
        }
        let quanta = 1i64 << fineness(records, epsilon, neighbours(relation));
        let (per_unit, most) = (whole / quanta as f64, records as i64 * quanta);
        if !usable(per_unit) {
            return Err(CuratorError::Shape);
        }
        // a part is rounded to whole units, and no two parts of a record differ by more than twice what counts
        let step = |level: u32| {
            let units = (slope * shape.step(level) / per_unit).ceil().min(2.0 * quanta as f64);
            records as i64 * (units as i64 + 1)
        };
        let steps = (0..shape.levels).map(step).collect();
        let choice = Self { epsilon, relation, counted, quanta, per_unit, most, steps, regularization: 0.0, shape };
        choice.frontier::<u8>().map(drop)?;
        Ok(choice)
    }

    /// The empty choice among cells, with the scale that the event says.
    fn frontier<T>(&self) -> Result<WeightedChoice<T>, CuratorError> {
        let moved = neighbours(self.relation) * self.quanta as u64;
        WeightedChoice::new(self.epsilon, moved).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    /// With (λ/2)‖x − centre‖² added to the sum of losses: a public function, which no record has a part in.
    ///
    /// # Errors
    /// If λ is negative, no number, or so large that the term does not fit.
    pub fn regularized(self, regularization: f64) -> Result<Self, CuratorError> {
        let regularization = regularization / self.per_unit;
        if !(regularization >= 0.0 && 0.5 * regularization * self.shape.reach.powi(2) < LARGEST_PENALTY) {
            return Err(CuratorError::Shape);
        }
        Ok(Self { regularization, ..self })
    }

    /// Losses of a record count in whole units of this.
    pub fn unit(&self) -> f64 {
        self.per_unit
    }

    /// The public facts of the tree.
    pub fn shape(&self) -> &TreeShape {
        &self.shape
    }

    /// How much a record's loss at a point may count, in units.
    fn limit(&self, point: &[f64]) -> i64 {
        let Counted::BySlope = self.counted else { return self.quanta };
        let distance = point.iter().zip(&self.shape.centre).map(|(x, c)| (x - c).powi(2)).sum::<f64>().sqrt();
        // rounded up, so that a loss of that slope is not cut; never beyond what noise is made for
        ((distance / self.shape.reach * self.quanta as f64).ceil() as i64).clamp(0, self.quanta)
    }

    /// How much lower a record's loss is than the one that it counts from, in units; 0 where one of the two is no number.
    fn units(&self, limit: i64, from: f64, there: f64) -> i64 {
        (((from - there) / self.per_unit).round() as i64).clamp(-limit, limit)
    }

    /// The child of a cell, the score of which is known. Its penalty is never less than that of its parent, whatever is rounded.
    fn child(&self, of: &Cell, number: u64, score: i64) -> Cell {
        let mut at = of.at;
        at.iter_mut().enumerate().for_each(|(j, at)| *at = 2 * *at + (number >> j & 1));
        let child = Cell { level: of.level + 1, at, score, scored: false, penalty: of.penalty };
        let own = (0.5 * self.regularization * self.shape.distance(&child).powi(2)).round() as i64;
        Cell { penalty: own.max(of.penalty), ..child }
    }

    /// A point with probability ∝ e^((cut score − penalty)/scale), exactly: `score` says the score of a point.
    fn draw<E: From<CuratorError>>(
        &self,
        stream: &mut Stream,
        mut score: impl FnMut(&[f64]) -> Result<i128, E>,
    ) -> Result<Vec<f64>, E> {
        let shape = &self.shape;
        let mut score = |x: &[f64]| score(x).map(|s| s.clamp(-i128::from(self.most), i128::from(self.most)) as i64);
        // how far points of a cell may differ from its centre, and how good they can be
        let mut slack = vec![0i64; shape.levels as usize + 1];
        (0..shape.levels as usize).rev().for_each(|l| slack[l] = (slack[l + 1] + self.steps[l]).min(2 * self.most));
        let bound_of = |own: i64, level: usize, penalty: i64| (own + slack[level]).min(self.most) - penalty;
        let dimension = shape.centre.len() as u32;
        let doublings = |cell: &Cell| dimension * (shape.levels - cell.level);
        let children = 1u64 << dimension;
        let mut frontier = self.frontier::<Cell>()?;
        let mut root = Cell { level: 0, at: [0; MAX_TREE_DIMENSIONS], score: 0, scored: false, penalty: 0 };
        if let Counted::Within(_) = self.counted {
            root.score = score(&shape.centre)?;
        }
        for c in (0..children).map(|i| self.child(&root, i, root.score)).filter(|c| shape.meets(c)) {
            frontier.put(doublings(&c), bound_of(root.score, 0, c.penalty), c);
        }
        loop {
            // every try puts back what it took, but for cells that the domain does not meet
            let (mut cell, mut bound) = frontier.take(stream).ok_or(CuratorError::Shape)?;
            loop {
                let (level, parent) = (cell.level as usize, cell.score);
                let own = if cell.scored {
                    parent
                } else {
                    let step = self.steps[level - 1];
                    score(&shape.point(&cell))?.clamp(parent - step, parent + step)
                };
                let most = bound_of(own, level, cell.penalty);
                debug_assert!(most <= bound, "a bound is exceeded");
                let kept = frontier.keeps(bound.abs_diff(most), stream);
                if level == shape.levels as usize {
                    if kept {
                        return Ok(shape.point(&cell));
                    }
                    frontier.put(0, most, Cell { score: own, scored: true, ..cell });
                    break;
                }
                let followed = kept.then(|| stream.below(children));
                let mut next = None;
                for (i, c) in (0..children).map(|i| (i, self.child(&cell, i, own))).filter(|(_, c)| shape.meets(c)) {
                    let bound = bound_of(own, level, c.penalty);
                    if Some(i) == followed && frontier.keeps(most.abs_diff(bound), stream) {
                        next = Some((c, bound));
                    } else {
                        frontier.put(doublings(&c), bound, c);
                    }
                }
                let Some(next) = next else { break };
                (cell, bound) = next;
            }
        }
    }
}

/// How many times what one record's presence moves is moved between neighbours.
fn neighbours(relation: Relation) -> u64 {
    if relation == Relation::ReplaceOne { 2 } else { 1 }
}

impl Sealed for TreeChoice {}

impl Interactive for TreeChoice {
    type Opened = OpenTree;

    fn event(&self) -> Event {
        Event::ExponentialMechanism { epsilon: self.epsilon }
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        // choices and coins within 2^-190 each, of which there are fewer than 2^80
        Ok(SamplerError::rounded(1.0).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "choice"
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<OpenTree, CuratorError> {
        let opening = opened(opening);
        let stream = opening.noise.stream(Purpose::Selection, 0);
        Ok(OpenTree { choice: self.clone(), stream, process: Process::here(), seen: opening.seen })
    }
}

/// A tree whose one choice is paid for; see [`Curator::open`](crate::Curator::open).
pub struct OpenTree {
    choice: TreeChoice,
    stream: Stream,
    /// The process in which it was opened: a forked copy would draw the same.
    process: Process,
    /// What was released, where a test or an audit watches the curator.
    seen: Option<Seen>,
}

impl OpenTree {
    /// The chosen point.
    ///
    /// # Errors
    /// If a record can't be read, or this is a copy in a forked process.
    pub fn choose<R: RecordSet, O: Objective<R>>(
        self,
        records: &Sensitive<R>,
        objective: &O,
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        self.here()?;
        let records = records.expose();
        let choice = self.choice.clone();
        let stop = Stop::here();
        let each = |x: &[f64]| {
            let of = |scratch: &mut O::Scratch, i| objective.value(x, records, i, scratch);
            in_threads(|| {
                let all = (0..records.len()).into_par_iter().with_min_len(TOGETHER);
                all.map_init(O::Scratch::default, of).collect::<Result<Vec<f64>, R::Error>>()
            })
        };
        let from = match choice.counted {
            Counted::Within(middle) => vec![middle; records.len()],
            Counted::BySlope => each(&choice.shape.centre).map_err(CuratorError::unreadable)?,
        };
        self.draw(|x| {
            stop.point();
            let limit = choice.limit(x);
            let of = |scratch: &mut O::Scratch, i: usize| {
                objective.value(x, records, i, scratch).map(|there| i128::from(choice.units(limit, from[i], there)))
            };
            let sum = if records.len() <= TOGETHER {
                let mut scratch = O::Scratch::default();
                (0..records.len()).map(|i| of(&mut scratch, i)).sum()
            } else {
                in_threads(|| {
                    let all = (0..records.len()).into_par_iter().with_min_len(TOGETHER);
                    all.map_init(O::Scratch::default, of).try_reduce(|| 0, |a, b| Ok(a + b))
                })
            };
            sum.map_err(CuratorError::unreadable)
        })
    }

    /// The chosen point, by losses that the caller evaluates: `values(x, out)` appends one number for each record of `batch` to the empty `out`.
    ///
    /// # Errors
    /// If `values` fails, or gives another number of them, or this is a copy in a forked process.
    pub fn choose_by<E: From<CuratorError>>(
        self,
        batch: Batch,
        mut values: impl FnMut(&[f64], &mut Vec<f64>) -> Result<(), E>,
    ) -> Result<Released<Vec<f64>>, E> {
        self.here()?;
        let records = batch.records().len();
        let choice = self.choice.clone();
        let mut all = |x: &[f64], out: &mut Vec<f64>| -> Result<(), E> {
            out.clear();
            values(x, out)?;
            if out.len() == records { Ok(()) } else { Err(CuratorError::Shape.into()) }
        };
        let (mut from, mut there) = (Vec::new(), Vec::new());
        match choice.counted {
            Counted::Within(middle) => from.resize(records, middle),
            Counted::BySlope => all(&choice.shape.centre, &mut from)?,
        }
        self.draw(|x| {
            all(x, &mut there)?;
            let limit = choice.limit(x);
            Ok(from.iter().zip(&there).map(|(&from, &there)| i128::from(choice.units(limit, from, there))).sum())
        })
    }

    /// Refuses a copy in a forked process.
    fn here(&self) -> Result<(), CuratorError> {
        CuratorError::unless_opened_in(self.process, "choice")
    }

    fn draw<E: From<CuratorError>>(
        mut self,
        score: impl FnMut(&[f64]) -> Result<i128, E>,
    ) -> Result<Released<Vec<f64>>, E> {
        let point = self.choice.draw(&mut self.stream, score)?;
        if let Some(seen) = &self.seen {
            seen.push(&point);
        }
        Ok(released(point))
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
