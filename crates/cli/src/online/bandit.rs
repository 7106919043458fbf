//! `dpopt online bandit`: which arm to pull in every round.

use super::conversation::Played;
use super::{GameFlags, Place, SessionFlags, failed};
use crate::output::{Failure, print, print_json, table};
use clap::Args;
use dpopt::guarantee::Guarantee;
use dpopt::online::{Bandit, BanditOptions, OnlineError, explain_bandit};
use dpopt::report::{number, probability};
use dpopt::session::LedgerFile;
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;

#[derive(Args)]
pub(super) struct BanditArguments {
    /// How many arms there are
    #[arg(long, value_name = "K")]
    arms: usize,
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
            Place::Resumed(path) => Bandit::resume(path),
        };
        let game = game.map_err(failed)?;
        if let Place::Resumed(path) = place {
            let own = game.plan().problem.arms;
            flags.agrees(&game, own == arms, &format!("--arms {own}"), path)?;
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
        "elimination"
    }

    fn regret_bound(&self) -> f64 {
        self.plan().regret_bound
    }

    fn bounded_for(&self) -> &'static str {
        "for rewards that are drawn independently"
    }

    fn facts(&self) -> serde_json::Value {
        serde_json::json!({ "arms": self.plan().problem.arms, "losses": "independent" })
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

fn explain(arguments: &BanditArguments) -> Result<(), Failure> {
    let flags = &arguments.game;
    let plan = explain_bandit(arguments.arms, flags.rounds, flags.epsilon, &arguments.options(None)).map_err(failed)?;
    let certificate = &plan.certificate;
    if flags.json {
        return print_json(&serde_json::json!({
            "player": "elimination", "regret_bound": plan.regret_bound, "phases": plan.phases, "noise_scale": plan.noise_scale,
            "event": certificate.event(), "certified_epsilon": certificate.bound().upper, "delta": certificate.budget().delta(),
        }));
    }
    let row = vec![
        number(plan.regret_bound),
        number(plan.noise_scale),
        number(certificate.bound().upper),
        plan.phases.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    ];
    let headings = ["regret at most", "noise of a sum", "certified epsilon", "rounds of an arm in each phase"];
    let mut text = table(&headings, &[row]);
    text += &format!(
        "{} arms, {} rounds, {}, delta {}. The bound is on the expected regret against the best arm's mean, for rewards in [0, 1] that \
         are drawn independently, whatever the means are.\n",
        arguments.arms,
        flags.rounds,
        flags.neighbours(),
        probability(certificate.budget().delta())
    );
    print(&text)
}
