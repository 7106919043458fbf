//! `dpopt online bandit`: which arm to pull in every round.

use super::conversation::Played;
use super::{GameFlags, Place, SessionFlags, failed};
use crate::output::{Failure, print, print_json, table};
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::guarantee::Guarantee;
use dpopt::online::{Bandit, BanditOptions, OnlineError, compare_bandits};
use dpopt::optimize::online::{ArmPlan, ArmPlayer, BanditPlan, Rewards};
use dpopt::report::{number, probability};
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;

/// The values of `--player`: the algorithm that chooses the arms.
#[derive(Clone, Copy, ValueEnum)]
enum PlayerFlag {
    /// Exponential weights over the rewards of the arms
    Weights,
    /// Successive elimination: plays arms in phases and drops the worse ones; its bound is for independent rewards
    Elimination,
}

/// What is known of the rewards.
#[derive(Clone, Copy, Default, ValueEnum)]
enum RewardsFlag {
    /// Arbitrary, but fixed before the first round
    Any,
    /// Drawn from one distribution per arm, independently in each round
    #[default]
    Independent,
}

#[derive(Args)]
pub(super) struct BanditArguments {
    /// Number of arms
    #[arg(long, value_name = "K")]
    arms: usize,
    /// Player; by default the one with the smallest proved regret for such rewards
    #[arg(long, value_enum)]
    player: Option<PlayerFlag>,
    /// What is known of the rewards: decides which bounds are compared to choose a player. Privacy does not depend on
    /// it
    #[arg(long, value_enum, default_value_t)]
    rewards: RewardsFlag,
    /// Number of changes of the best arm: regret is measured against the best sequence of arms with at most this many
    /// changes
    #[arg(long, value_name = "S", default_value_t = 0)]
    switches: u64,
    #[command(flatten)]
    game: GameFlags,
    #[command(flatten)]
    session: SessionFlags,
}

impl BanditArguments {
    fn options(&self) -> BanditOptions {
        let player = self.player.map(|player| match player {
            PlayerFlag::Weights => ArmPlayer::Weights,
            PlayerFlag::Elimination => ArmPlayer::Elimination,
        });
        let rewards = match self.rewards {
            RewardsFlag::Any => Rewards::Any,
            RewardsFlag::Independent => Rewards::Independent,
        };
        let options = BanditOptions::default().rounds_per_user(self.game.rounds_per_user).player(player);
        options.rewards(rewards).switches(self.switches)
    }
}

pub(super) fn run(arguments: &BanditArguments) -> Result<(), Failure> {
    let flags = &arguments.game;
    if flags.explain {
        return explain(arguments);
    }
    flags.play(Some(&arguments.session), flags.delta.unwrap_or(0.0), |place, ledger| {
        let (arms, options) = (arguments.arms, arguments.options());
        let run = flags.run(flags.delta, ledger);
        let game = match place {
            Place::Memory => Bandit::open(arms, flags.rounds, run, &options),
            Place::New(path) => Bandit::open_at(path, arms, flags.rounds, run, &options),
            Place::Resumed(path) if arguments.session.moved => Bandit::resume_moved(path),
            Place::Resumed(path) => Bandit::resume(path),
        };
        let game = game.map_err(failed)?;
        if let Place::Resumed(path) = place {
            let (plan, asked) = (game.plan(), arguments.options());
            let (own, switches, name) = (plan.problem.arms, plan.problem.switches, plan.name());
            let same = own == arms && switches == asked.switches && asked.player.is_none_or(|player| player == name);
            let own = format!("--arms {own} --switches {switches} (and {} plays)", name.name());
            flags.agrees(&game, same, &own, path)?;
            if asked.rewards == Rewards::Any && name.bounded_for() != Rewards::Any {
                return Err(usage(format!(
                    "this session's player {} has a regret bound for independent rewards only, and --rewards is any; \
                     leave out --rewards any, or open another session",
                    name.name()
                )));
            }
        }
        Ok(game)
    })
}

impl Played for Bandit {
    type Told = f64;

    fn play(&self) -> Option<String> {
        Self::play(self).map(|arm| arm.to_string())
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
        self.plan().name().name()
    }

    fn regret_bound(&self) -> f64 {
        self.plan().regret_bound
    }

    fn bounded_for(&self) -> &'static str {
        match (self.plan().name().bounded_for(), self.plan().problem.switches) {
            (Rewards::Independent, _) => "for rewards that are drawn independently",
            (Rewards::Any, 0) => "for rewards that were fixed before the first round",
            (Rewards::Any, _) => {
                "against the best sequence of arms with that many changes, for rewards that were fixed before the \
                 first round"
            }
        }
    }

    fn facts(&self) -> serde_json::Value {
        let problem = &self.plan().problem;
        serde_json::json!({ "arms": problem.arms, "rewards": self.plan().name().bounded_for(), "switches": problem.switches })
    }

    fn numbers(&self) -> usize {
        1
    }

    fn read(&self, line: &[u8]) -> Result<f64, String> {
        let reward: f64 =
            serde_json::from_slice(line).map_err(|_| "is not one finite number, such as 0.7".to_owned())?;
        if reward.is_finite() { Ok(reward) } else { Err("has a number that is not finite".into()) }
    }

    fn observe(&mut self, told: &f64) -> Result<(), OnlineError> {
        Self::observe(self, *told)
    }

    fn observe_nothing(&mut self) -> Result<(), OnlineError> {
        Self::observe(self, 0.0)
    }

    fn save(&mut self) -> Result<(), OnlineError> {
        Self::save(self).map(drop)
    }

    fn recent(&mut self) -> Vec<(u64, String)> {
        Self::recent(self).into_iter().map(|(round, arm)| (round, arm.to_string())).collect()
    }
}

/// How a player plays, as JSON and as text.
fn shown(plan: &BanditPlan) -> (serde_json::Value, String) {
    match &plan.player {
        ArmPlan::Elimination { phases } => (
            serde_json::json!({ "phases": phases }),
            format!("phases of {} rounds an arm", phases.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        ),
        ArmPlan::Weights(weights) => (
            serde_json::json!(weights),
            format!(
                "an arm for {} rounds, rate {}, {} drawn uniformly, {} shared",
                weights.batch,
                number(weights.rate),
                number(weights.exploration),
                number(weights.share)
            ),
        ),
    }
}

fn explain(arguments: &BanditArguments) -> Result<(), Failure> {
    let flags = &arguments.game;
    let options = arguments.options();
    let mut plans = Vec::new();
    for (_, plan) in
        compare_bandits(arguments.arms, flags.rounds, &flags.run(flags.delta, None), &options).map_err(failed)?
    {
        plans.push(plan.map_err(|why| failed(why.into()))?);
    }
    plans.sort_by(|a, b| a.regret_bound.total_cmp(&b.regret_bound));
    if flags.json {
        let rows = plans.iter().map(|plan| {
            let mut row = serde_json::json!({
                "player": plan.name(), "rewards": plan.name().bounded_for(), "switches": plan.problem.switches,
                "regret_bound": plan.regret_bound, "noise_scale": plan.noise_scale, "event": plan.certificate.event(),
                "certified_epsilon": plan.certificate.bound().upper, "delta": plan.certificate.budget().delta(),
            });
            if let (Some(row), (serde_json::Value::Object(own), _)) = (row.as_object_mut(), shown(plan)) {
                row.extend(own);
            }
            row
        });
        return print_json(&rows.collect::<Vec<_>>());
    }
    let rows: Vec<Vec<String>> = plans
        .iter()
        .map(|plan| {
            let bounded_for = match plan.name().bounded_for() {
                Rewards::Any => "any, fixed before",
                Rewards::Independent => "independent",
            };
            vec![
                plan.name().name().into(),
                number(plan.regret_bound),
                bounded_for.into(),
                number(plan.noise_scale),
                number(plan.certificate.bound().upper),
                shown(plan).1,
            ]
        })
        .collect();
    let headings = ["player", "regret at most", "for rewards", "noise of a sum", "certified epsilon", "plays"];
    let mut text = table(&headings, &rows);
    let against = match arguments.switches {
        0 => "the best arm".to_owned(),
        switches => format!("best arms that change at most {switches} times"),
    };
    let delta = plans.first().map_or(0.0, |plan| plan.certificate.budget().delta());
    text += &format!(
        "{} arms, {} rounds, {}, delta {}. Bounds are on the expected regret against {against}, for rewards in [0, \
         1]. The first player in the table plays.\n",
        arguments.arms,
        flags.rounds,
        flags.neighbours(),
        probability(delta)
    );
    print(&text)
}
