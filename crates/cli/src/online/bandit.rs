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
use dpopt::session::LedgerFile;
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;

/// Who plays.
#[derive(Clone, Copy, ValueEnum)]
enum PlayerFlag {
    /// Draws arms by exponential weights of what they gave
    Weights,
    /// Plays all arms in phases, and leaves those that are too low; its bound is for independent rewards
    Elimination,
}

/// What is known of the rewards.
#[derive(Clone, Copy, Default, ValueEnum)]
enum RewardsFlag {
    /// Fixed before the first round, whatever they are
    Any,
    /// Each arm's are drawn from one law, independently of other rounds
    #[default]
    Independent,
}

#[derive(Args)]
pub(super) struct BanditArguments {
    /// How many arms there are
    #[arg(long, value_name = "K")]
    arms: usize,
    /// Who plays; by default whoever has the least proved regret for such rewards
    #[arg(long, value_enum)]
    player: Option<PlayerFlag>,
    /// What is known of the rewards: whose bounds count where no player is named. Privacy is the same
    #[arg(long, value_enum, default_value_t)]
    rewards: RewardsFlag,
    /// How often the best arm may change: the plays are held against the best arms with at most so many changes
    #[arg(long, value_name = "S", default_value_t = 0)]
    switches: u64,
    #[command(flatten)]
    game: GameFlags,
    #[command(flatten)]
    session: SessionFlags,
}

impl BanditArguments {
    fn options(&self, ledger: Option<&LedgerFile>) -> BanditOptions {
        BanditOptions {
            delta: self.game.delta,
            relation: self.game.relation.into(),
            rounds_per_user: Some(self.game.rounds_per_user),
            player: self.player.map(|player| match player {
                PlayerFlag::Weights => ArmPlayer::Weights,
                PlayerFlag::Elimination => ArmPlayer::Elimination,
            }),
            rewards: match self.rewards {
                RewardsFlag::Any => Rewards::Any,
                RewardsFlag::Independent => Rewards::Independent,
            },
            switches: self.switches,
            account: LedgerFile::account(ledger),
            insecure_seed: self.game.insecure_seed,
        }
    }
}

pub(super) fn run(arguments: &BanditArguments) -> Result<(), Failure> {
    let flags = &arguments.game;
    if flags.explain {
        return explain(arguments);
    }
    flags.play(Some(&arguments.session), flags.delta.unwrap_or(0.0), |place, ledger| {
        let (arms, options) = (arguments.arms, arguments.options(ledger.as_ref()));
        let game = match place {
            Place::Memory => Bandit::open(arms, flags.rounds, flags.epsilon, options),
            Place::New(path) => Bandit::open_at(path, arms, flags.rounds, flags.epsilon, options),
            Place::Resumed(path) if arguments.session.moved => Bandit::resume_moved(path),
            Place::Resumed(path) => Bandit::resume(path),
        };
        let game = game.map_err(failed)?;
        if let Place::Resumed(path) = place {
            let (plan, asked) = (game.plan(), arguments.options(None));
            let (own, switches, name) = (plan.problem.arms, plan.problem.switches, plan.name());
            let same = own == arms && switches == asked.switches && asked.player.is_none_or(|player| player == name);
            let own = format!("--arms {own} --switches {switches} (and {} plays)", name.name());
            flags.agrees(&game, same, &own, path)?;
            if asked.rewards == Rewards::Any && name.bounded_for() != Rewards::Any {
                return Err(usage(format!(
                    "the game of this session is played by {}, whose bound is for independent rewards; leave out --rewards any, or open \
                     another",
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
                "against best arms that change as often as was told, for rewards that were fixed before the first round"
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

/// How a player plays, as JSON and in words.
fn shown(plan: &BanditPlan) -> (serde_json::Value, String) {
    match &plan.player {
        ArmPlan::Elimination { phases } => (
            serde_json::json!({ "phases": phases }),
            format!("phases of {} rounds an arm", phases.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        ),
        ArmPlan::Weights(weights) => (
            serde_json::json!(weights),
            format!(
                "an arm for {} rounds, rate {}, {} drawn evenly, {} shared",
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
    let options = arguments.options(None);
    let mut plans = Vec::new();
    for (_, plan) in compare_bandits(arguments.arms, flags.rounds, flags.epsilon, &options).map_err(failed)? {
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
        "{} arms, {} rounds, {}, delta {}. Bounds are on the expected regret against {against}, for rewards in [0, 1]. The first plays.\n",
        arguments.arms,
        flags.rounds,
        flags.neighbours(),
        probability(delta)
    );
    print(&text)
}
