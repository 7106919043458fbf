//! One of up to 2^120 points of a public tree of cells, by the exponential mechanism on clipped losses: a global minimum in up to five dimensions, with δ = 0
//! (Liu 2024, Theorems 6.4.1, 6.4.6 and 6.4.8; docs/proofs/tree.md).
//!
//! Nearly all of the points are never looked at: a cell's score bounds those of its points. With slopes of at most G, points that cover the domain within r and R the distance of
//! the furthest one, the expected excess over the best point of the domain is at most Gr + (2kGR/(εn))(ln|P| + 1), k = 2 where a record is replaced and 1 where it is absent, as
//! that of a net; r is so small that the first term is a part of the second.
//!
//! Covers: thesis theorem 6.4.1, theorem 6.4.6 (certified: the Gibbs measure with its quadratic on up to 2^40 points to a side, in up to five dimensions; private by its bounded range, which the log-Sobolev bound exceeds wherever the draw is of use)
//! Covers: thesis theorem 6.4.8

use super::cells::TreeSchedule;
use super::kind::Method;
use super::net::{half_width, most_counted};
use super::plan::{Asked, MinimizePlan, told_of_records};
use super::problem::{Answers, MinimizeProblem};
use super::schedule::{Averaged, Batches, Goal, MinimizeSchedule, Rule};
use super::source::Source;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{
    Curator, CuratorError, MAX_TREE_DIMENSIONS, MAX_TREE_LEVELS, MAX_TREE_RECORDS, Released, TreeChoice, TreeShape,
};
use dpopt_optimize::RunError;
use dpopt_optimize::plan::{Assumption, NotApplicable};
use dpopt_optimize::planning::{in_range, positive};
use dpopt_privacy::{Budget, Event, Relation, calibrate};
use dpopt_refusal::{Refusal, option};
use std::collections::BTreeMap;

/// Losses that are evaluated before a plan warns: a minute or so where the library evaluates them.
const MANY_LOSSES: f64 = 1e10;
/// And where an outside program does.
const MANY_CALLED: f64 = 1e9;

fn check(problem: &MinimizeProblem) -> Result<(), NotApplicable> {
    let refused = |why: String| Err(NotApplicable::Problem(why.into()));
    if problem.dimension > MAX_TREE_DIMENSIONS {
        return refused(format!(
            "a tree in {} dimensions has too many cells, and at most {MAX_TREE_DIMENSIONS} dimensions are supported; \
             choose dp-adam or noisy-sgd for gradients, zeroth-order for values",
            problem.dimension
        ));
    }
    if problem.remote && problem.answers != Answers::Values {
        return refused(
            "it compares losses, and this objective gives no values; have it give one loss for each record".into(),
        );
    }
    if problem.records > MAX_TREE_RECORDS {
        return refused("scores of more than 2^31 records do not fit".into());
    }
    Ok(())
}

/// Levels for a spacing at which the scores of a cell differ by less than the scale of the choice: `per_scale` is the diameter of the domain in distances that lose one scale.
fn levels(per_scale: f64, dimension: usize) -> u32 {
    let most = MAX_TREE_LEVELS.min(120 / dimension as u32);
    (per_scale.log2().ceil().clamp(0.0, 100.0) as u32 + 1).clamp(1, most)
}

/// Scores of one draw: measured on distances from a point (about 9·3.6^d), and a cell for each place where a smooth loss is within a scale of its least.
fn predicted_scores(dimension: usize, curved: Option<f64>) -> f64 {
    let d = dimension as f64;
    9.0 * 3.6f64.powf(d) + curved.map_or(0.0, |ratio| 2.5 * ratio.powf(0.5 * d))
}

/// Plans and certifies the choice of a point of a tree.
pub(super) fn plan(problem: &MinimizeProblem, budget: Budget, asked: &Asked) -> Result<MinimizePlan, NotApplicable> {
    check(problem)?;
    let slope = positive("the clip norm", asked.clip_norm.unwrap_or(problem.usual_clip_norm))?;
    let (d, n) = (problem.dimension, problem.records as f64);
    let (half, ball) = half_width(problem, asked.domain);
    let half = positive("the radius", half)?;
    // pure whatever δ could be spent: the samplers' laws are exact up to 2^-110
    let pure = Budget::new(budget.epsilon(), 0.0).map_err(|e| NotApplicable::Option(e.to_string().into()))?;
    let event = |inverse: f64| Event::ExponentialMechanism { epsilon: 1.0 / inverse };
    let (inverse, certificate) = calibrate::noise(event, problem.neighbours.within(pure))?;
    let choice_epsilon = 1.0 / inverse;
    let corner = if ball { 1.0 } else { (d as f64).sqrt() };
    let most_counted = most_counted(slope * half * corner, asked)?;
    // 1/β: what the choice takes for a difference, in mean loss
    let scale = 2.0 * problem.relation().sum_sensitivity() * most_counted / (choice_epsilon * n);
    let levels = levels(2.0 * half * (d as f64).sqrt() * slope / scale, d);
    let schedule = |shape: &TreeShape| TreeSchedule {
        levels,
        spacing: 2.0 * half / 2f64.powi(levels as i32),
        cover_radius: shape.cover_radius(),
        reach: shape.reach(),
        choice_epsilon,
        predicted_scores: predicted_scores(d, problem.smoothness.map(|l| slope.powi(2) / (l * scale))),
        loss_bound: asked.loss_bound,
    };
    let shape = TreeShape::new(&vec![0.0; d], half, ball, levels)?;
    let tree = schedule(&shape);
    let regularization = in_range("the regularization", asked.regularization.unwrap_or(0.0), 0.0, f64::MAX)?;
    let choice = chosen_by(&tree, shape, (slope, regularization), problem).map_err(|e| match e {
        CuratorError::Shape if regularization > 0.0 => NotApplicable::Option(
            Refusal::of(option("regularization"))
                .given(format!("{regularization:e}"))
                .allowed("a smaller number: what it adds to the losses does not fit"),
        ),
        other => NotApplicable::from(other),
    })?;
    let points_log = f64::from(levels) * d as f64 * std::f64::consts::LN_2;
    // what is added changes the mean loss by no more than at the furthest point
    let added = 0.5 * regularization / n * tree.reach.powi(2);
    let of_noise = slope * tree.cover_radius + scale * (points_log + 1.0);
    // losses of two points are rounded by half a unit each
    let predicted_excess = of_noise + choice.unit() + added;
    let mut warnings = vec![
        "how long the run takes, how much memory it needs and where it evaluates losses depends on the records; keep          all of it to yourself, and set it no limit"
            .to_string(),
    ];
    if of_noise >= 2.0 * most_counted {
        warnings.push(
            "the noise outweighs the records: the error bound is no better than that of an arbitrary point; use more \
             records, a larger epsilon or a smaller domain"
                .to_string(),
        );
    }
    let many = if problem.remote { MANY_CALLED } else { MANY_LOSSES };
    if tree.predicted_scores * n > many {
        let why = match problem.smoothness {
            Some(_) => "where the loss has the given smoothness near its minimum",
            None => "if the loss has a kink at its minimum, and more if it is flat there",
        };
        warnings.push(format!(
            "about {:.0e} sums over all records are expected {why}; noisy-gradient-descent takes a number of passes \
             that is known",
            tree.predicted_scores
        ));
    }
    Ok(MinimizePlan {
        method: Method::Tree.name(),
        evaluations: (tree.predicted_scores + 1.0) * n,
        predicted_excess,
        assumptions: rests_on(problem, &tree),
        warnings,
        certificate,
        schedule: MinimizeSchedule {
            batches: Batches::All,
            rule: Rule::Tree(tree),
            steps: 1,
            clip_norm: slope,
            clip_bias: None,
            noise_multiplier: inverse,
            noise_std: 0.0,
            grid_exponent: 0,
            regularization,
            domain: asked.domain,
            average: Averaged::Last,
            goal: Goal::Empirical,
            smoothing: 0.0,
            phases: Vec::new(),
            chunks: 1,
            along: None,
            spider: None,
            own: BTreeMap::new(),
        },
        walk: None,
    })
}

/// What the guarantee and the bound on the excess rest on.
fn rests_on(problem: &MinimizeProblem, tree: &TreeSchedule) -> Vec<Assumption> {
    let mut assumptions = vec![
        match tree.loss_bound {
            Some(bound) => Assumption::enforced(format!(
                "each record's loss is clipped to 0 … {bound}: enforced in exact integers"
            )),
            None => Assumption::enforced(
                "each record's loss at a point is taken relative to that at the start and clipped to the clip norm \
                 times the distance between the two: enforced in exact integers",
            ),
        },
        Assumption::enforced(
            "the score of a cell is cut to what the clip norm allows it to differ from that of the cell around it: \
             enforced in exact integers",
        ),
        Assumption::proved(format!(
            "the 2^{} points are public and cover the domain within {:.3e}; one of them is drawn from the exact \
             distribution (to within 2^-110 in all)",
            tree.levels * problem.dimension as u32,
            tree.cover_radius
        )),
    ];
    if problem.remote {
        assumptions.push(told_of_records(problem));
        assumptions.push(Assumption::assumed(
            "the objective is a function of the record and the point alone and fails nowhere on the domain, and nobody \
             but the operator learns at which points it is evaluated: that depends on the records",
        ));
    }
    assumptions
}

fn chosen_by(
    tree: &TreeSchedule,
    shape: TreeShape,
    (slope, regularization): (f64, f64),
    problem: &MinimizeProblem,
) -> Result<TreeChoice, CuratorError> {
    let (epsilon, relation) = (tree.choice_epsilon, problem.relation());
    // of more records than were guessed scores would be cut
    let room = if relation == Relation::AddOrRemove { 2 } else { 1 };
    let records = (room * problem.records.max(1)).min(MAX_TREE_RECORDS);
    let choice = match tree.loss_bound {
        Some(bound) => TreeChoice::within(shape, (bound, slope), records, epsilon, relation),
        None => TreeChoice::by_slope(shape, slope, records, epsilon, relation),
    };
    choice?.regularized(regularization)
}

/// Draws the point.
pub(super) fn run(
    problem: &MinimizeProblem,
    plan: &MinimizePlan,
    tree: TreeSchedule,
    start: &[f64],
    source: &mut dyn Source,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Released<Vec<f64>>, RunError> {
    let (half, ball) = half_width(problem, plan.schedule.domain);
    let shape = TreeShape::new(start, half, ball, tree.levels)?;
    let choice = chosen_by(&tree, shape, (plan.schedule.clip_norm, plan.schedule.regularization), problem)?;
    // how far it has come would tell of the records
    progress.start(plan.method, 1);
    let point = source.point_of(curator, &choice)?;
    progress.tick();
    progress.finish();
    Ok(point)
}
