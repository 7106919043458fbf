//! Faults of choices among public candidates (Liu 2024, Algorithm 18 and Theorem 6.4.8; docs/proofs/net.md, docs/proofs/tree.md, docs/proofs/stationary-selection.md).
//!
//! Covers: thesis algorithm 18 (06.short-circuit, 06.half-sensitivity)
//! Covers: thesis theorem 6.4.1, theorem 6.4.6 (06.uncut-parent)
//! Covers: thesis theorem 6.4.8 (06.side-for-corner, 06.same-cell, 06.uncut-parent)

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::candidates::{Checkpoints, Net, Says, Stream, Tree, cut_around_uncut};
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_minimize::stationary::{CurvatureOptions, StationaryOptions};
use dpopt_privacy::Relation;

/// A net of a cube with noise for the middle of a side, where its corners are √3 times as far from the centre.
fn side_for_corner() -> InjectedFault {
    let nets = Net::new(3, 3.0).and_then(|right| Ok([right, Net::new(3, 3.0)?.made_for_nearer(3f64.sqrt())]));
    InjectedFault::counting(
        (
            "06.side-for-corner",
            Shipped,
            "a net's noise is made for half a side of the cube, and not for its corners, which are furthest from the centre",
            "27 points; a record of huge slope along the diagonal is replaced by one of the other sign; sum of the coordinates, low ones count",
        ),
        Claim::pure(3.0),
        (40_000, 50_000),
        move |code, with, draws| {
            let Ok(nets) = &nets else { return f64::NAN };
            -nets[code.pick(0, 1)].chosen(!with, draws)
        },
    )
}

/// A point of the chosen cell of three: a uniform one, or one that is tried again in that cell until a test by its own score passes, where a rejected one would have to go back
/// to the choice of the cell.
fn same_cell() -> InjectedFault {
    const EPSILON: f64 = 3.0;
    let net = Net::new(1, EPSILON);
    InjectedFault::counting(
        (
            "06.same-cell",
            Altered,
            "a point within the chosen cell of a net by a test of its own score, where a rejected one is tried again in the same cell",
            "a record is for the outer half of the low cell and against all else, or the other way, two are against the low end; 1{the outer half}",
        ),
        Claim::pure(EPSILON),
        (20_000, 60_000),
        move |code, with, draws| {
            let Ok(net) = &net else { return f64::NAN };
            let centre = net.chosen(with, draws);
            let width = 2.0 / 3.0;
            let outer = |x: f64| x < -width;
            // what the record counts, of at most 1
            let part = |x: f64| if outer(x) == with { 1.0 } else { -1.0 };
            let mut x = centre + width * (draws.uniform() - 0.5);
            let accepted = |x: f64, draws: &mut Draws| draws.uniform() < (0.25 * EPSILON * (part(x) - 1.0)).exp();
            if code == Code::Injected && centre < 0.0 {
                while !accepted(x, draws) {
                    x = centre + width * (draws.uniform() - 0.5);
                }
            }
            if centre.is_nan() { centre } else { f64::from(u8::from(outer(x))) }
        },
    )
}

/// Scores of a tree's cells are cut to within a step of their parents' scores before those were cut: then bounds on the points of a cell do not hold, and every step down counts.
fn uncut_parent() -> InjectedFault {
    const EPSILON: f64 = 1.0;
    let tree = Tree::turns(EPSILON).ok();
    InjectedFault::counting(
        (
            "06.uncut-parent",
            Altered,
            "the score of a tree's cell is cut to within a step of its parent's before that was cut, so that bounds on the points of a cell are exceeded",
            "a record for and against the cells of the low half by turns of the level, or none, steps of almost nothing; 1{the low half}",
        ),
        Claim::pure(EPSILON),
        (400, 40_000),
        move |code, with, draws| {
            let low = match code {
                Code::Correct => {
                    let chosen = tree.as_ref().map_or(f64::NAN, |tree| tree.chosen(with, draws));
                    if chosen.is_nan() {
                        return chosen;
                    }
                    chosen < 0.0
                }
                Code::Injected => cut_around_uncut(EPSILON, with, draws),
            };
            f64::from(u8::from(low))
        },
    )
}

/// Under replace-one, noise for a record that is present or absent: G/n where norms of means move by 2G/n.
fn half_sensitivity() -> InjectedFault {
    let checkpoints = Checkpoints::new().ok();
    let choices = checkpoints
        .as_ref()
        .and_then(|c| Some([c.choice(1.0, Relation::ReplaceOne).ok()?, c.choice(1.0, Relation::ZeroOut).ok()?]));
    InjectedFault::counting(
        (
            "06.half-sensitivity",
            Shipped,
            "the most stationary candidate under replace-one by norms of sensitivity G/n, as printed, where it is 2G/n",
            "two candidates, gap 2.5; a replaced record is with four and against one, or the other way; which one",
        ),
        Claim::pure(1.0),
        (1_400, 4_000),
        move |code, with, draws| {
            let (Some(checkpoints), Some(choices)) = (&checkpoints, &choices) else { return f64::NAN };
            checkpoints.chosen(&choices[code.pick(0, 1)], with, draws)
        },
    )
}

/// Candidates of a stream, none of which is accepted.
const CANDIDATES: usize = 400;

/// Gradient and curvature are two tests in a row, and an observer who counts evaluations of the second sees how the first one ended for every candidate. The shipped choice lets out
/// one index.
fn short_circuit() -> InjectedFault {
    // five records, norm wanted 2: even candidates have norm 2 and the record makes it 3, odd ones 3 and the record makes it 2; curvatures are 4 or 5 too far down
    let says = |even: f64, odd: f64| Says { kinds: [even, odd], curvature: -1.0 };
    let all = [says(1.0, 1.0), says(1.0, 1.0), says(0.0, 1.0), says(0.0, 0.0), says(1.0, -1.0)];
    let options = StationaryOptions {
        target: Some(0.4),
        curvature: Some(CurvatureOptions { bound: 1.0, hessian_lipschitz: 1e-12 }),
        first: true,
        ..StationaryOptions::default()
    };
    let stream = Stream::new((CANDIDATES as u64, |candidate| candidate % 2), 1.0, &options, &all).ok();
    InjectedFault::counting(
        (
            "06.short-circuit",
            Altered,
            "of two tests in a row the second is left out where the first one fails, and how often is seen",
            "400 candidates whose gradients move up and down in turn, curvatures far from allowed; tests that passed, or the one that is taken, up against down",
        ),
        Claim::pure(1.0),
        (1_000, 150_000),
        move |code, with, draws| {
            let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
            match code {
                Code::Correct => {
                    let taken = stream.as_ref().and_then(|stream| stream.taken(with, draws));
                    taken.map_or(f64::NAN, |taken| taken.map_or(0.0, sign))
                }
                // scales of the two-sided test: 4 for the threshold, 8 for a query
                Code::Injected => {
                    let threshold = draws.laplace(4.0);
                    let gradient = |i: usize| if i.is_multiple_of(2) == with { 1.0 } else { 0.0 };
                    (0..CANDIDATES)
                        .map(|i| if gradient(i) + draws.laplace(8.0) <= threshold { -sign(i) } else { 0.0 })
                        .sum()
                }
            }
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![side_for_corner(), half_sensitivity(), short_circuit(), same_cell(), uncut_parent()]
}

#[cfg(test)]
mod tests {
    /// P(Lap(1) ≤ x).
    fn below(x: f64) -> f64 {
        if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() }
    }

    /// Scales of the two-sided test at ε = 1, in sensitivities.
    const THRESHOLD: f64 = 4.0;
    const QUERY: f64 = 8.0;

    /// ln P(the first test passes, fails, passes, … for each candidate), whose gradients are `shift` above or below the threshold in turn.
    fn transcript(candidates: usize, shift: f64) -> f64 {
        let step = 0.02;
        let logs: Vec<f64> = (-15_000..=15_000)
            .map(|i| step * f64::from(i))
            .map(|t| {
                let (up, down) = (below((t - shift) / QUERY), 1.0 - below((t + shift) / QUERY));
                let (odd, even) = (candidates.div_ceil(2) as f64, (candidates / 2) as f64);
                -t.abs() / THRESHOLD + odd * up.max(1e-300).ln() + even * down.max(1e-300).ln()
            })
            .collect();
        let most = logs.iter().copied().fold(f64::MIN, f64::max);
        most + logs.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
    }

    #[test]
    fn a_count_of_second_tests_costs_more_with_every_candidate() {
        for (candidates, loss) in [(5, 0.52), (10, 1.10), (20, 2.26), (100, 11.94), (400, 49.04)] {
            let found = transcript(candidates, 0.0) - transcript(candidates, 1.0);
            assert!((found - loss).abs() < 0.006, "{candidates}: {found}");
        }
    }

    /// Laws of the first accepted candidate, and of none, where both tests must pass; gradients and curvatures in sensitivities from their thresholds.
    fn accepted(gradients: &[f64; 3], curvatures: &[f64; 3]) -> [f64; 4] {
        const POINTS: usize = 400;
        // quantiles of the thresholds' laws
        let thresholds: Vec<f64> = (0..POINTS)
            .map(|i| (i as f64 + 0.5) / POINTS as f64)
            .map(|u| THRESHOLD * if u < 0.5 { (2.0 * u).ln() } else { -(2.0 - 2.0 * u).ln() })
            .collect();
        let table = |value: f64, sign: f64| -> Vec<f64> {
            thresholds.iter().map(|t| below(sign * (t - value) / QUERY)).collect()
        };
        let (pass, bent) = (gradients.map(|g| table(g, 1.0)), curvatures.map(|h| table(h, -1.0)));
        let mut law = [0.0; 4];
        for i in 0..POINTS {
            for j in 0..POINTS {
                let mut left = 1.0;
                for k in 0..3 {
                    let accept = pass[k][i] * bent[k][j];
                    law[k] += left * accept;
                    left *= 1.0 - accept;
                }
                law[3] += left;
            }
        }
        law.map(|mass| mass / (POINTS * POINTS) as f64)
    }

    fn shifts() -> impl Iterator<Item = [f64; 3]> {
        (0..27).map(|i| [i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1].map(f64::from))
    }

    /// Largest |ln ratio| over all outcomes and all ways to move each gradient and curvature by `unit` sensitivities or not.
    fn largest(unit: f64) -> f64 {
        // Δ = .05: gradients 1, .5, 0 against .1, curvatures −.3, .2, −.1 against −.1
        let (gradients, curvatures) = ([18.0, 8.0, -2.0], [-4.0, 6.0, 0.0]);
        let base = accepted(&gradients, &curvatures);
        let mut most = 0.0f64;
        for up in shifts() {
            for down in shifts() {
                let moved = |values: [f64; 3], by: [f64; 3]| [0, 1, 2].map(|k| values[k] + unit * by[k]);
                let other = accepted(&moved(gradients, up), &moved(curvatures, down));
                most = base.iter().zip(other).map(|(p, q)| (p / q).ln().abs()).fold(most, f64::max);
            }
        }
        most
    }

    #[test]
    fn two_tests_as_one_bit_stay_within_epsilon_and_half_the_noise_costs_about_twice() {
        let (once, twice) = (largest(1.0), largest(2.0));
        assert!((once - 0.226).abs() < 0.002, "{once}");
        assert!((1.8..=2.2).contains(&(twice / once)), "{once} {twice}");
    }
}
