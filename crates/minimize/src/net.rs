//! One point of a public net of the domain, by the exponential mechanism on clipped losses: a global minimum in few dimensions, with δ = 0
//! (Liu 2024, Theorem 6.4.8; docs/proofs/net.md).
//!
//! With slopes of at most G, a cover of radius r and R the distance of its furthest point from the centre, the expected excess over the best point of the domain is
//! at most Gr + (2kGR/(εn))(ln|P| + 1), k = 2 where a record is replaced and 1 where it is absent; with B in the place of 2GR where losses are told to lie between 0 and B.
//!
//! Covers: thesis theorem 6.4.8 (certified: losses are clipped by distance, and noise is made for the furthest point)

use super::cells::{MAX_POINTS, NetSchedule, cells_within, points};
use super::kind::Method;
use super::plan::{Asked, MinimizePlan};
use super::problem::{Answers, MinimizeProblem};
use super::schedule::{Averaged, Batches, Goal, MinimizeSchedule, Rule};
use super::source::Source;
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{
    Choice, ChoiceLaw, Curator, CuratorError, MAX_SCORED, Mechanism, POINT_QUANTA, Released, ScoredPoints,
};
use dpopt_optimize::RunError;
use dpopt_optimize::choices::Domain;
use dpopt_optimize::plan::{Assumption, NotApplicable};
use dpopt_optimize::planning::positive;
use dpopt_privacy::{Budget, Event, calibrate};
use dpopt_refusal::{Refusal, option, text};
use std::collections::BTreeMap;

/// Dimensions that are covered: a net of radius r has about (D/r)^d points.
const MAX_DIMENSIONS: usize = 3;
/// Points of a net by default.
const USUAL_POINTS: u64 = 1_000_000;
/// Losses that are evaluated by default: seconds of work.
const USUAL_LOSSES: u64 = 1_000_000_000;
/// Points of a net if the user names no number and an outside program evaluates the losses.
const CALLED_POINTS: u64 = 10_000;
const CALLED_LOSSES: u64 = 300_000_000;

/// Radius of the ball, or half a side of the box, that the net covers.
pub(super) fn half_width(problem: &MinimizeProblem, domain: Domain) -> (f64, bool) {
    match domain {
        Domain::Unconstrained => (problem.distance, true),
        Domain::Ball { radius } => (radius, true),
        Domain::Box { radius } => (radius, problem.dimension == 1),
    }
}

fn check(problem: &MinimizeProblem) -> Result<(), NotApplicable> {
    if problem.dimension > MAX_DIMENSIONS {
        return Err(NotApplicable::Problem(
            format!(
                "a net in {} dimensions has too many points, and at most {MAX_DIMENSIONS} dimensions are supported; \
             choose dp-adam or noisy-sgd for gradients, zeroth-order for values",
                problem.dimension
            )
            .into(),
        ));
    }
    if problem.remote && problem.answers != Answers::Values {
        return Err(NotApplicable::Problem(
            "it compares losses, and this objective gives no values; have it give one loss for each record".into(),
        ));
    }
    if problem.records > MAX_SCORED {
        return Err(NotApplicable::Problem("scores of more than 2^38 records do not fit".into()));
    }
    Ok(())
}

/// The most points that the net may have.
fn most_points(problem: &MinimizeProblem, asked: &Asked) -> Result<u64, NotApplicable> {
    Ok(match asked.points {
        Some(points) if !(3..=MAX_POINTS).contains(&points) => {
            return Err(NotApplicable::Option(
                Refusal::of(option("points"))
                    .given(points.to_string())
                    .allowed(format!("the most points of the net, from 3 to {MAX_POINTS}")),
            ));
        }
        Some(points) => points,
        // outside of the library each point is a call
        None if problem.remote => CALLED_POINTS.min(CALLED_LOSSES / problem.records.max(1)).max(3),
        None => USUAL_POINTS.min(USUAL_LOSSES / problem.records.max(1)).max(3),
    })
}

/// GR, or B/2: what a record counts at most.
pub(super) fn most_counted(by_distance: f64, asked: &Asked) -> Result<f64, NotApplicable> {
    match asked.loss_bound {
        Some(bound) if 0.5 * bound >= by_distance => Err(NotApplicable::Option(text![
            option("loss_bound"),
            format!(
                " is {bound}, but the clip norm already bounds the differences of losses by {:.3e}; leave it out, or \
                 give a larger ",
                2.0 * by_distance
            ),
            option("clip_norm")
        ]
        .into())),
        Some(bound) => Ok(0.5 * positive("the bound on losses", bound)?),
        None => Ok(by_distance),
    }
}

/// What the guarantee and the bound on the excess rest on.
fn rests_on(problem: &MinimizeProblem, net: &NetSchedule) -> Vec<Assumption> {
    let mut assumptions = vec![
        match net.loss_bound {
            Some(bound) => Assumption::enforced(format!(
                "each record's loss is clipped to 0 … {bound}: enforced in exact \
                                              integers"
            )),
            None => Assumption::enforced(
                "each record's loss at a point is taken relative to that at the start and clipped to the clip norm \
                 times the distance between the two: enforced in exact integers",
            ),
        },
        Assumption::proved(format!(
            "the {} points are public and cover the domain within {:.3e}; one of them is drawn from the exact \
             distribution (to within 2^-170 per point)",
            net.points, net.cover_radius
        )),
    ];
    if problem.remote {
        assumptions.push(super::plan::told_of_records(problem));
    }
    assumptions
}

/// Plans and certifies the choice of a point of a net.
pub(super) fn plan(problem: &MinimizeProblem, budget: Budget, asked: &Asked) -> Result<MinimizePlan, NotApplicable> {
    check(problem)?;
    let slope = positive("the clip norm", asked.clip_norm.unwrap_or(problem.usual_clip_norm))?;
    let (d, n) = (problem.dimension, problem.records as f64);
    let (half, ball) = half_width(problem, asked.domain);
    let half = positive("the radius", half)?;
    let most = most_points(problem, asked)?;
    // pure whatever δ could be spent: the samplers' laws are exact up to 2^-170 a point
    let pure = Budget::new(budget.epsilon(), 0.0).map_err(|e| NotApplicable::Option(e.to_string().into()))?;
    let event = |inverse: f64| Event::ExponentialMechanism { epsilon: 1.0 / inverse };
    let (inverse, certificate) = calibrate::noise(event, problem.neighbours.within(pure))?;
    let choice_epsilon = 1.0 / inverse;
    chosen_by(choice_epsilon, problem)?.can_draw()?;
    let corner = if ball { 1.0 } else { (d as f64).sqrt() };
    let most_counted = most_counted(slope * half * corner, asked)?;
    // the expected excess of the choice is so many G for each unit of ln|P|
    let per_log = 2.0 * problem.relation().sum_sensitivity() * most_counted / (slope * choice_epsilon * n);
    // r = half·√d/m against d·ln m units
    let wanted = (half / ((d as f64).sqrt() * per_log)).max(3.0);
    let cells = cells_within(d, ball, wanted, most);
    let spacing = 2.0 * half / cells.cells as f64;
    let net = NetSchedule {
        points: cells.count(),
        cells: cells.cells as u64,
        spacing,
        cover_radius: 0.5 * spacing * (d as f64).sqrt(),
        // that of the points themselves, as rounded far from 0, is what noise is made for
        reach: half * corner,
        choice_epsilon,
        loss_bound: asked.loss_bound,
    };
    if net.points < 2 {
        return Err(NotApplicable::Option("the net has fewer than two points; raise points".into()));
    }
    let predicted_excess = slope * (net.cover_radius + per_log * ((net.points as f64).ln() + 1.0));
    let mut warnings = Vec::new();
    if predicted_excess >= 2.0 * most_counted {
        warnings.push(
            "the noise outweighs the records: the error bound is no better than that of an arbitrary \
                       point; use more records, a larger epsilon or a smaller domain"
                .to_string(),
        );
    }
    if wanted >= (cells.cells + 2) as f64 && (asked.points.is_none() || most == MAX_POINTS) {
        let more = if most < MAX_POINTS { "give more points, if run time allows" } else { "choose a smaller domain" };
        warnings.push(format!(
            "the net has only {} points, since each of them reads all records; at this noise about {:.0e} would be \
             best: {more}",
            net.points,
            net.points as f64 * (wanted / cells.cells as f64).powi(d as i32)
        ));
    }
    Ok(MinimizePlan {
        method: Method::Net.name(),
        evaluations: (net.points as f64 + 1.0) * n,
        predicted_excess,
        assumptions: rests_on(problem, &net),
        warnings,
        certificate,
        schedule: MinimizeSchedule {
            batches: Batches::All,
            rule: Rule::Net(net),
            steps: 1,
            clip_norm: slope,
            clip_bias: None,
            noise_multiplier: inverse,
            noise_std: 0.0,
            grid_exponent: 0,
            regularization: 0.0,
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

fn chosen_by(epsilon: f64, problem: &MinimizeProblem) -> Result<Choice, CuratorError> {
    Choice::new(ChoiceLaw::Exponential, epsilon, POINT_QUANTA, false, problem.relation())
}

/// Scores the points of the net and returns the chosen one.
pub(super) fn run(
    problem: &MinimizeProblem,
    plan: &MinimizePlan,
    net: NetSchedule,
    start: &[f64],
    source: &mut dyn Source,
    curator: &mut Curator,
    progress: &dyn Progress,
) -> Result<Released<Vec<f64>>, RunError> {
    let (_, ball) = half_width(problem, plan.schedule.domain);
    let points = points(&net, start, ball);
    let public = match net.loss_bound {
        Some(bound) => ScoredPoints::within(start, points, bound)?,
        None => ScoredPoints::new(start, points, plan.schedule.clip_norm)?,
    };
    progress.start(plan.method, ScoredPoints::ticks(public.count()));
    let scores = source.scores(curator, &public, progress)?;
    let choice = chosen_by(net.choice_epsilon, problem)?;
    let chosen = curator.release(&choice, &scores)?;
    progress.finish();
    Ok(curator.postprocess(public.point(*chosen.get()).to_vec()))
}
