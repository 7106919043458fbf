//! `dpopt online convex`: where to stand in every round.

use super::conversation::{Played, numbers};
use super::{GameFlags, failed};
use crate::output::{Failure, print, print_json, table};
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::guarantee::Guarantee;
use dpopt::online::{Convex, ConvexOptions, OnlineError, explain_convex};
use dpopt::optimize::online::{Losses, PlayRegion};
use dpopt::report::{number, probability};
use dpopt::session::default_delta;
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;

/// What is known of the losses.
#[derive(Clone, Copy, Default, ValueEnum)]
enum LossesFlag {
    /// Convex, chosen adaptively during the game
    #[default]
    Convex,
    /// Linear, fixed before the first round: a much smaller regret is proved
    Linear,
}

#[derive(Args)]
pub(super) struct ConvexArguments {
    /// Number of coordinates of a point
    #[arg(long, value_name = "D")]
    dimension: usize,
    /// Box of points: lower and upper end of every coordinate, -1,1; or D pairs of them, -1,1,0,5
    #[arg(long, value_name = "ENDS", value_delimiter = ',', allow_negative_numbers = true)]
    bounds: Vec<f64>,
    /// Ball of points: its radius
    #[arg(long, value_name = "R", conflicts_with = "bounds", allow_negative_numbers = true)]
    radius: Option<f64>,
    /// Centre of the ball, 0 by default: one number for all coordinates, or D of them, 0,1,5
    #[arg(long, value_name = "C", value_delimiter = ',', allow_negative_numbers = true, requires = "radius")]
    centre: Vec<f64>,
    /// Gradients are clipped to this l2 norm
    #[arg(long, value_name = "L", default_value_t = 1.0, allow_negative_numbers = true)]
    gradient_norm: f64,
    /// What is known of the losses: decides which regret is proved. Privacy does not depend on it
    #[arg(long, value_enum, default_value_t)]
    losses: LossesFlag,
    #[command(flatten)]
    game: GameFlags,
}

/// Coordinates of a point at most.
const MOST: usize = 1 << 24;

impl ConvexArguments {
    fn region(&self) -> Result<PlayRegion, Failure> {
        let d = self.dimension;
        if !(1..=MOST).contains(&d) {
            return Err(usage(format!("--dimension is {d}; give 1 to {MOST}")));
        }
        if let Some(radius) = self.radius {
            let centre = match self.centre.as_slice() {
                [] => vec![0.0; d],
                [one] => vec![*one; d],
                all if all.len() == d => all.to_vec(),
                other => return Err(usage(format!("--centre has {} numbers; give 1 or {d}", other.len()))),
            };
            return Ok(PlayRegion::Ball { centre, radius });
        }
        let ends = match self.bounds.as_slice() {
            [] => {
                return Err(usage(
                    "the set of points is not given; give a box with --bounds LOWER,UPPER, or a ball \
                                    with --radius R",
                ));
            }
            [lower, upper] => [*lower, *upper].repeat(d),
            all if all.len() == 2 * d => all.to_vec(),
            other => return Err(usage(format!("--bounds has {} numbers; give 2 or {}", other.len(), 2 * d))),
        };
        let (lower, upper) = ends.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
        Ok(PlayRegion::Box { lower, upper })
    }

    fn options(&self) -> ConvexOptions {
        let losses = match self.losses {
            LossesFlag::Convex => Losses::Convex,
            LossesFlag::Linear => Losses::Linear,
        };
        ConvexOptions::default().losses(losses).rounds_per_user(self.game.rounds_per_user)
    }
}

pub(super) fn run(arguments: &ConvexArguments) -> Result<(), Failure> {
    let (flags, region) = (&arguments.game, arguments.region()?);
    let delta = flags.delta.unwrap_or(default_delta(flags.rounds));
    if flags.explain {
        return explain(arguments, region, delta);
    }
    flags.play(None, delta, |_, ledger| {
        let (run, options) = (flags.run(delta, ledger), arguments.options());
        let game = Convex::open(region, arguments.gradient_norm, flags.rounds, run, &options);
        game.map_err(failed)
    })
}

impl Played for Convex {
    type Told = Vec<f64>;

    fn play(&self) -> Option<String> {
        // finite numbers are always written
        Self::play(self).and_then(|point| serde_json::to_string(point).ok())
    }

    fn observed(&self) -> u64 {
        Self::observed(self)
    }

    fn rounds(&self) -> u64 {
        self.plan().problem.rounds
    }

    fn rounds_per_user(&self) -> u64 {
        self.plan().problem.rounds_per_user
    }

    fn neighbours(&self) -> Neighbours {
        self.plan().problem.neighbours
    }

    fn guarantee(&self) -> &Guarantee {
        Self::guarantee(self)
    }

    fn receipt(&self) -> Option<&Receipt> {
        Self::receipt(self)
    }

    fn player(&self) -> &'static str {
        "leader"
    }

    fn regret_bound(&self) -> f64 {
        self.plan().regret_bound
    }

    fn bounded_for(&self) -> &'static str {
        match self.plan().problem.losses {
            Losses::Linear => "for linear losses that were fixed before",
            Losses::Convex => "for convex losses",
        }
    }

    fn facts(&self) -> serde_json::Value {
        let problem = &self.plan().problem;
        serde_json::json!({ "region": problem.region, "gradient_norm": problem.lipschitz, "losses": problem.losses })
    }

    fn numbers(&self) -> usize {
        self.plan().problem.region.dimension()
    }

    fn read(&self, line: &[u8]) -> Result<Vec<f64>, String> {
        numbers(line, self.numbers(), "coordinates")
    }

    fn observe(&mut self, told: &Vec<f64>) -> Result<(), OnlineError> {
        Self::observe(self, told)
    }

    fn observe_nothing(&mut self) -> Result<(), OnlineError> {
        Self::observe_nothing(self)
    }

    fn save(&mut self) -> Result<(), OnlineError> {
        Ok(())
    }

    fn recent(&mut self) -> Vec<(u64, String)> {
        Vec::new()
    }
}

fn explain(arguments: &ConvexArguments, region: PlayRegion, delta: f64) -> Result<(), Failure> {
    let flags = &arguments.game;
    let (run, options) = (flags.run(delta, None), arguments.options());
    let plan = explain_convex(region, arguments.gradient_norm, flags.rounds, &run, &options).map_err(failed)?;
    let (certificate, problem) = (&plan.certificate, &plan.problem);
    if flags.json {
        return print_json(&serde_json::json!({
            "player": "leader", "regret_bound": plan.regret_bound, "without_privacy": problem.without_privacy(), "losses": problem.losses,
            "strength": plan.strength, "noise_std": plan.noise_std, "last_noise_std": plan.last_noise_std, "event": certificate.event(),
            "certified_epsilon": certificate.bound().upper, "delta": certificate.budget().delta(),
        }));
    }
    let row =
        [plan.regret_bound, problem.without_privacy(), plan.strength, plan.last_noise_std, certificate.bound().upper];
    let row = vec![row.into_iter().map(number).collect()];
    let mut text =
        table(&["regret at most", "without privacy", "strength", "noise of the last sum", "certified epsilon"], &row);
    text += &format!(
        "{} coordinates, {} rounds, {}, delta {}. The bound is on the expected regret against the best point in hindsight, {}.\n",
        arguments.dimension,
        flags.rounds,
        flags.neighbours(),
        probability(delta),
        match problem.losses {
            Losses::Linear => "for linear losses that were fixed before the first round",
            Losses::Convex => "for convex losses",
        }
    );
    print(&text)
}
