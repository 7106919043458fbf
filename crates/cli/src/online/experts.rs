//! `dpopt online experts`: whom to trust in every round.

use super::conversation::{Played, numbers};
use super::{GameFlags, Place, SessionFlags, failed, some};
use crate::output::{Failure, print, print_json, table};
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::RunOptions;
use dpopt::guarantee::Guarantee;
use dpopt::online::{Experts, ExpertsOptions, OnlineError, explain_experts};
use dpopt::optimize::online::{ExpertLosses, ExpertsProblem, Player};
use dpopt::report::{number, probability};
use dpopt::session::default_delta;
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;

/// The values of `--player`: the algorithm that chooses the experts.
#[derive(Clone, Copy, ValueEnum)]
enum PlayerFlag {
    /// Keeps its expert, and redraws it at random times
    Lean,
    /// A fresh draw after every batch
    Fresh,
    /// Follows the expert with the smallest noisy sum of losses; needs delta, and has no session
    Leader,
    /// A fresh draw after every block, from the losses of that block alone; satisfies pure differential privacy; its
    /// bound is for independent losses
    Blocks,
}

/// What is known of the losses.
#[derive(Clone, Copy, ValueEnum)]
enum LossesFlag {
    /// Arbitrary, but fixed before the first round
    Any,
    /// Drawn independently in each round from one distribution
    Independent,
}

#[derive(Args)]
pub(super) struct ExpertsArguments {
    /// Number of experts
    #[arg(long, value_name = "D")]
    experts: usize,
    /// Player; by default the one with the smallest proved regret
    #[arg(long, value_enum)]
    player: Option<PlayerFlag>,
    /// What is known of the losses: decides which bounds are compared to choose a player. By default any; with
    /// --delta 0 bounds for independent losses are compared, too. Privacy does not depend on it
    #[arg(long, value_enum)]
    losses: Option<LossesFlag>,
    #[command(flatten)]
    game: GameFlags,
    #[command(flatten)]
    session: SessionFlags,
}

pub(super) fn run(arguments: &ExpertsArguments) -> Result<(), Failure> {
    let flags = &arguments.game;
    let delta = flags.delta.unwrap_or(default_delta(flags.rounds));
    let player = arguments.player.map(|player| match player {
        PlayerFlag::Lean => Player::Lean,
        PlayerFlag::Fresh => Player::Fresh,
        PlayerFlag::Leader => Player::Leader,
        PlayerFlag::Blocks => Player::Blocks,
    });
    let losses = arguments.losses.map(|losses| match losses {
        LossesFlag::Any => ExpertLosses::Any,
        LossesFlag::Independent => ExpertLosses::Independent,
    });
    let options = ExpertsOptions::default().rounds_per_user(flags.rounds_per_user).player(player).losses(losses);
    if flags.explain {
        return explain(arguments, &flags.run(delta, None), &options);
    }
    flags.play(Some(&arguments.session), delta, |place, ledger| {
        let run = flags.run(delta, ledger);
        let game = match place {
            Place::Memory => Experts::open(arguments.experts, flags.rounds, run, &options),
            Place::New(path) => Experts::open_at(path, arguments.experts, flags.rounds, run, &options),
            Place::Resumed(path) if arguments.session.moved => Experts::resume_moved(path),
            Place::Resumed(path) => Experts::resume(path),
        };
        let game = game.map_err(failed)?;
        if let Place::Resumed(path) = place {
            let experts = game.problem().experts;
            let same = experts == arguments.experts && options.player.is_none_or(|player| player == game.player());
            let own = format!("--experts {experts} (and {} plays)", game.player().name());
            flags.agrees(&game, same, &own, path)?;
            let bounded_for = game.player().bounded_for();
            if options.losses == Some(ExpertLosses::Any) && bounded_for != ExpertLosses::Any {
                return Err(usage(format!(
                    "this session's player {} has a regret bound for independent losses only, and --losses is any; \
                     leave out --losses any, or open another session",
                    game.player().name()
                )));
            }
        }
        Ok(game)
    })
}

impl Played for Experts {
    type Told = Vec<f64>;

    fn play(&self) -> Option<String> {
        Self::play(self).map(|expert| expert.to_string())
    }

    fn observed(&self) -> u64 {
        Self::observed(self)
    }

    fn rounds(&self) -> u64 {
        self.problem().rounds
    }

    fn rounds_per_user(&self) -> u64 {
        self.problem().rounds_per_user
    }

    fn neighbours(&self) -> Neighbours {
        self.problem().neighbours
    }

    fn guarantee(&self) -> &Guarantee {
        Self::guarantee(self)
    }

    fn receipt(&self) -> Option<&Receipt> {
        Self::receipt(self)
    }

    fn player(&self) -> &'static str {
        Self::player(self).name()
    }

    fn regret_bound(&self) -> f64 {
        Self::regret_bound(self)
    }

    fn bounded_for(&self) -> &'static str {
        bounded_for(Self::player(self))
    }

    fn facts(&self) -> serde_json::Value {
        serde_json::json!({ "experts": self.problem().experts, "losses": Self::player(self).bounded_for().name() })
    }

    fn numbers(&self) -> usize {
        self.problem().experts
    }

    fn read(&self, line: &[u8]) -> Result<Vec<f64>, String> {
        numbers(line, self.problem().experts, "experts")
    }

    fn observe(&mut self, told: &Vec<f64>) -> Result<(), OnlineError> {
        Self::observe(self, told)
    }

    fn observe_nothing(&mut self) -> Result<(), OnlineError> {
        Self::observe_nothing(self)
    }

    fn save(&mut self) -> Result<(), OnlineError> {
        Self::save(self).map(drop)
    }

    fn recent(&mut self) -> Vec<(u64, String)> {
        Self::recent(self).into_iter().map(|(round, expert)| (round, expert.to_string())).collect()
    }
}

fn bounded_for(player: Player) -> &'static str {
    match player.bounded_for() {
        ExpertLosses::Any => "against losses that were fixed before",
        ExpertLosses::Independent => {
            "only for losses drawn independently in each round from one distribution (--losses any chooses a bound \
             that holds for all)"
        }
    }
}

fn explain(arguments: &ExpertsArguments, run: &RunOptions, options: &ExpertsOptions) -> Result<(), Failure> {
    let flags = &arguments.game;
    let plans = explain_experts(arguments.experts, flags.rounds, run, options).map_err(failed)?;
    if flags.json {
        let rows: Vec<serde_json::Value> = plans
            .iter()
            .map(|(player, plan)| match plan {
                Ok(plan) => serde_json::json!({
                    "player": player.name(), "regret_bound": plan.regret_bound, "losses": player.bounded_for().name(),
                    "batch": plan.batch, "block_ends": plan.block_ends,
                    "learning_rate": plan.learning_rate, "resampling": plan.resampling, "noise_std": plan.noise_std,
                    "event": plan.certificate.event(), "certified_epsilon": plan.certificate.bound().upper,
                    "delta": plan.certificate.budget().delta(),
                }),
                Err(why) => serde_json::json!({ "player": player.name(), "not_applicable": why.to_string() }),
            })
            .collect();
        return print_json(&rows);
    }
    let rows: Vec<Vec<String>> = plans
        .iter()
        .filter_map(|(player, plan)| plan.as_ref().ok().map(|plan| (player, plan)))
        .map(|(player, plan)| {
            vec![
                player.name().into(),
                number(plan.regret_bound),
                player.bounded_for().name().into(),
                plan.batch.to_string(),
                some(plan.learning_rate),
                some(plan.resampling),
                some(plan.noise_std),
                number(plan.certificate.bound().upper),
            ]
        })
        .collect();
    let headings = [
        "player",
        "regret at most",
        "for losses",
        "batch",
        "learning rate",
        "fresh draws",
        "noise",
        "certified epsilon",
    ];
    let mut text = table(&headings, &rows);
    for (player, why) in plans.iter().filter_map(|(player, plan)| plan.as_ref().err().map(|why| (player, why))) {
        text += &format!("{} is not applicable: {why}\n", player.name());
    }
    let neighbours = flags.neighbours();
    let problem = ExpertsProblem {
        experts: arguments.experts,
        rounds: flags.rounds,
        rounds_per_user: options.rounds_per_user,
        neighbours,
        losses: options.losses,
    };
    text += &format!(
        "{} experts, {} rounds, {neighbours}, delta {}. Without privacy: {}. The player with the smallest bound \
         plays. Bounds are on the expected regret against the best expert in hindsight, for losses in [0, 1]. Column \
         “any”: losses fixed before the first round. Column “independent”: losses drawn independently in each round \
         from one distribution; these bounds are compared with --losses independent or --delta 0.\n",
        arguments.experts,
        flags.rounds,
        probability(run.delta.unwrap_or(0.0)),
        number(problem.without_privacy())
    );
    print(&text)
}
