//! `dpopt online`: games of many rounds. What each round tells comes in as a JSON line, who or what is played goes out as one.

mod bandit;
mod conversation;
mod convex;
mod experts;

use crate::output::{Failure, note};
use crate::paths::Paths;
use crate::relation::RelationFlag;
use crate::spending::BudgetFile;
use crate::usage;
use clap::{Args, Subcommand, ValueEnum};
use conversation::Played;
use dpopt::data::failure;
use dpopt::online::OnlineError;
use dpopt::output::Places;
use dpopt::report::number;
use dpopt::session::LedgerFile;
use dpopt::{Provenance, RunOptions};
use dpopt_privacy::{Neighbours, Shown};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    game: Game,
}

#[derive(Subcommand)]
enum Game {
    /// Prediction with expert advice: choose one of many experts in every round, then read their losses
    #[command(
        after_help = "Writes {\"round\":1,\"play\":7} (experts count from 0), then reads the losses of the round as one line, [0.1, 0, \
        1, …], and so on.\nWith --session, a killed process resumes when it is started again with the same flags."
    )]
    Experts(Box<experts::ExpertsArguments>),
    /// Online convex optimization: choose a point of a box or a ball in every round, then read a gradient
    #[command(
        after_help = "Writes {\"round\":1,\"play\":[0.0, 0.0]}, then reads the gradient of the round's loss at that point as one line, \
        [0.1, -2], and so on.\nThere is no session file, since the state of the player is its noise. A killed game \
                      cannot be resumed, and its charge stays."
    )]
    Convex(Box<convex::ConvexArguments>),
    /// Bandits: choose one of several arms in every round, then read its reward only
    #[command(
        after_help = "Writes {\"round\":1,\"play\":2} (arms count from 0), then reads the reward of that arm as one line, 0.7, and so \
        on.\nWith --session, a killed process resumes when it is started again with the same flags."
    )]
    Bandit(Box<bandit::BanditArguments>),
}

/// How to treat a line that cannot be read.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BadLines {
    /// Stop; an observer then learns that there was such a line
    #[default]
    Refuse,
    /// Count it as a round without input, so that nothing observable depends on it
    Nothing,
}

/// Options of every game.
#[derive(Args)]
struct GameFlags {
    /// Input, one line per round; `-` for standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// Largest number of rounds, fixed in advance
    #[arg(long, value_name = "T")]
    rounds: u64,
    /// ε of the whole game
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of the whole game; by default 1/T^1.1, at most 0.01, and 0 for arms; 0 for a pure guarantee
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Which sequences of rounds are neighbours: zero-out (the input of one round is empty) or replace-one
    #[arg(long, value_enum, default_value_t)]
    relation: RelationFlag,
    /// Largest number of rounds of one user, which are protected together
    #[arg(long, value_name = "K", default_value_t = 1)]
    rounds_per_user: u64,
    /// How to treat a line that cannot be read
    #[arg(long, value_enum, default_value_t)]
    bad_lines: BadLines,
    /// Write the guarantee to this file (.json) before the first round, for `dpopt verify`
    #[arg(long, value_name = "FILE")]
    guarantee: Option<PathBuf>,
    /// Show the plan with its proved regret, and stop: nothing is read or charged
    #[arg(long, conflicts_with_all = ["ledger", "guarantee"])]
    explain: bool,
    /// Machine-readable plans (with --explain)
    #[arg(long, requires = "explain")]
    json: bool,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible randomness for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N")]
    insecure_seed: Option<u64>,
    /// Print nothing but plays, warnings and errors
    #[arg(short, long)]
    quiet: bool,
}

/// Of games whose state can be written down.
#[derive(Args)]
struct SessionFlags {
    /// Keep the state of the game in this file and FILE.mark, so that a killed process can be resumed. The file holds
    /// exact sums: it is as sensitive as the input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["insecure_seed", "explain"])]
    session: Option<PathBuf>,
    /// The session was moved here from another file system, and no process continues it at its old place; without
    /// this flag a copy is refused
    #[arg(long, requires = "session")]
    moved: bool,
    /// The input begins with round 1 again; rounds that the session has already seen are skipped
    #[arg(long, requires = "session")]
    replay: bool,
}

/// Where a game is opened.
enum Place<'a> {
    /// The game is kept in this process alone.
    Memory,
    /// The game is kept in a new file.
    New(&'a Path),
    /// The game goes on from a file that is there.
    Resumed(&'a Path),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.game {
        Game::Experts(arguments) => experts::run(arguments),
        Game::Convex(arguments) => convex::run(arguments),
        Game::Bandit(arguments) => bandit::run(arguments),
    }
}

impl GameFlags {
    /// Options of the run of a game, with this δ, paid from `ledger`.
    fn run(&self, delta: impl Into<Option<f64>>, ledger: Option<LedgerFile>) -> RunOptions {
        let run = RunOptions::within(self.epsilon).delta(delta).relation(self.relation.into());
        run.ledger(ledger).insecure_seed(self.insecure_seed)
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::of_rounds(self.relation.into())
    }

    /// Opens a game, says what it promises, and plays it. `opens` is handed where to, and the ledger to charge.
    fn play<G: Played>(
        &self,
        session: Option<&SessionFlags>,
        delta: f64,
        opens: impl FnOnce(&Place<'_>, Option<LedgerFile>) -> Result<G, Failure>,
    ) -> Result<(), Failure> {
        let path = session.and_then(|flags| flags.session.as_deref());
        // asked once: a session that vanishes meanwhile is not taken for a new one, which would have to be charged
        let place = match path {
            None => Place::Memory,
            Some(path) if std::fs::symlink_metadata(path).is_ok() => Place::Resumed(path),
            Some(path) => Place::New(path),
        };
        let resumes = matches!(place, Place::Resumed(_));
        // a game that goes on was charged
        let ledger = match resumes {
            true => None,
            false => self.budget_file.open(self.epsilon, Some(delta), self.neighbours(), Vec::new(), self.quiet)?,
        };
        let beside = |suffix: &str| {
            path.map(|path| {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                PathBuf::from(name)
            })
        };
        let (mark, next) = (beside(".mark"), beside(".new"));
        Paths::default()
            .read("the input", (self.input.as_os_str() != "-").then_some(self.input.as_path()))
            .written("--guarantee", self.guarantee.as_deref())
            .written("--session", path)
            .written("the session's mark", mark.as_deref())
            .written("the session's next state", next.as_deref())
            .written("--ledger", self.budget_file.ledger.as_deref())
            .check()?;
        let input = open_input(&self.input)?;
        // what keeps it from being written is known before the budget is spent
        let guarantee = self.guarantee.as_deref().map(reserve).transpose()?;
        let mut game = opens(&place, ledger)?;
        if let Place::Resumed(path) = place {
            self.known_to_ledger(&game, path)?;
        }
        if let (Some(path), Some(place)) = (&self.guarantee, guarantee) {
            promise(path, place, &game)?;
        }
        let replay = session.is_some_and(|flags| flags.replay);
        if !self.quiet {
            self.tell(&game, replay);
        }
        let how = conversation::How {
            saved: path.is_some(),
            replay,
            forgives: self.bad_lines == BadLines::Nothing,
            quiet: self.quiet,
        };
        conversation::play(&mut game, input, how)
    }

    /// A session that goes on was charged when it was opened: a ledger that is named has to be the one that knows of it.
    fn known_to_ledger(&self, game: &impl Played, path: &Path) -> Result<(), Failure> {
        let Some(ledger) = &self.budget_file.ledger else { return Ok(()) };
        let refuse = |why: &str| {
            Err(usage(format!(
                "session {} {why} {}; leave --ledger out, or give the ledger that the game was charged to",
                path.display(),
                ledger.display()
            )))
        };
        match game.receipt() {
            None => return refuse("was charged to no ledger when it was opened, and is not in"),
            Some(receipt) if !LedgerFile::has(ledger, receipt).map_err(usage)? => return refuse("is not in"),
            Some(_) => {}
        }
        if !self.quiet {
            note("note: the session was charged to --ledger when it was opened; nothing is charged now");
        }
        Ok(())
    }

    /// A session knows what it was opened for; flags that say otherwise are refused.
    fn agrees<G: Played>(&self, game: &G, same: bool, own: &str, path: &Path) -> Result<(), Failure> {
        let (promised, neighbours) = (game.guarantee(), game.neighbours());
        let shared = game.rounds() == self.rounds
            && game.rounds_per_user() == self.rounds_per_user
            && neighbours == self.neighbours()
            && promised.epsilon == self.epsilon
            && self.delta.is_none_or(|delta| promised.delta == delta);
        if same && shared {
            return Ok(());
        }
        Err(usage(format!(
            "session {} was opened with {own} --rounds {} --rounds-per-user {} --relation {} --epsilon {} --delta {}; give the same, or \
             another file",
            path.display(),
            game.rounds(),
            game.rounds_per_user(),
            neighbours.relation,
            Shown(promised.epsilon),
            Shown(promised.delta)
        )))
    }

    /// Public facts and what is promised.
    fn tell(&self, game: &impl Played, replay: bool) {
        let several = match game.rounds_per_user() {
            1 => String::new(),
            k => format!(" (any {k} rounds together)"),
        };
        note(format!(
            "note: {} plays; expected regret at most {} after {} rounds, {}; {}{several}",
            game.player(),
            number(game.regret_bound()),
            game.rounds(),
            game.bounded_for(),
            game.guarantee()
        ));
        if self.insecure_seed.is_some() {
            note("warning: --insecure-seed: predictable randomness, no privacy");
        }
        if game.observed() > 0 {
            let from = if replay { 1 } else { game.observed() + 1 };
            note(format!("note: resuming after round {}; the input must begin with round {from}", game.observed()));
        }
    }
}

fn reserve(path: &Path) -> Result<Places, Failure> {
    crate::written::document("--guarantee", path, "JSON", "json")?;
    Places::reserve(&[path], &[]).map_err(|e| {
        Failure::machine(format!("cannot write {}: {}; nothing was charged or read", path.display(), failure(&e)))
    })
}

/// Writes what is promised of the game, and the proof of its charge.
fn promise(path: &Path, place: Places, game: &impl Played) -> Result<(), Failure> {
    let mut facts = game.facts();
    facts["rounds"] = game.rounds().into();
    facts["rounds_per_user"] = game.rounds_per_user().into();
    facts["player"] = game.player().into();
    facts["regret_bound"] = game.regret_bound().into();
    let document = serde_json::json!({
        "software": format!("dpopt {}", env!("CARGO_PKG_VERSION")),
        "provenance": Provenance::of_this_build(),
        "game": facts,
        "guarantee": game.guarantee(),
        "receipt": game.receipt(),
    });
    let text = serde_json::to_string_pretty(&document).map_err(Failure::machine)? + "\n";
    place.write(&[text.as_bytes()]).map_err(|e| {
        Failure::machine(format!(
            "cannot write {}: {}; no file was left there, and the budget of this game is spent",
            path.display(),
            failure(&e)
        ))
    })
}

fn open_input(path: &Path) -> Result<BufReader<Box<dyn Read>>, Failure> {
    let source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => {
            Box::new(std::fs::File::open(path).map_err(|e| usage(format!("cannot read {}: {e}", path.display())))?)
        }
    };
    Ok(BufReader::with_capacity(1 << 16, source))
}

fn failed(error: OnlineError) -> Failure {
    usage(error)
}

/// A table cell of what a player may not have.
fn some(x: Option<f64>) -> String {
    x.map_or(String::from("-"), number)
}
