//! `dpopt online experts`: one of many experts in every round; losses come in as JSON lines, plays go out as JSON lines.

use crate::output::{Failure, note, print, print_json, table};
use crate::paths::Paths;
use crate::relation::RelationFlag;
use crate::spending::BudgetFile;
use crate::usage;
use clap::{Args, Subcommand, ValueEnum};
use dpopt::online::{Experts, ExpertsOptions, OnlineError, explain_experts};
use dpopt::optimize::online::{ExpertsProblem, Player};
use dpopt::output::Places;
use dpopt::report::{number, probability};
use dpopt::session::default_delta;
use dpopt_privacy::{Neighbours, Shown};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    game: Game,
}

#[derive(Subcommand)]
enum Game {
    /// Trust one of many experts in every round, while their losses come in
    #[command(
        after_help = "Writes {\"round\":1,\"play\":7} (experts count from 0), then reads the losses of the round as one line, [0.1, 0, \
        1, …], and so on.\nWith --session, a killed process goes on where it was when it is started again with the same flags."
    )]
    Experts(Box<ExpertsArguments>),
}

/// Who plays.
#[derive(Clone, Copy, ValueEnum)]
enum PlayerFlag {
    /// Keeps its expert until a coin says otherwise
    Lean,
    /// A fresh draw after every batch
    Fresh,
    /// The least noisy sum of losses; needs delta, and has no session
    Leader,
}

/// What a line does that cannot be read.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BadLines {
    /// Stops: which tells whoever sees it that there was one
    #[default]
    Refuse,
    /// Counts as a round without losses: nothing that an outsider may see depends on it
    Nothing,
}

#[derive(Args)]
struct ExpertsArguments {
    /// Lines of losses; `-` for standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// How many experts there are
    #[arg(long, value_name = "D")]
    experts: usize,
    /// How many rounds are played at most: fixed in advance, never more
    #[arg(long, value_name = "T")]
    rounds: u64,
    /// ε of the whole game
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of the whole game; by default 1/T^1.1, at most 0.01; 0 for a pure guarantee
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// Which sequences of rounds are neighbours: zero-out (a round tells nothing) or replace-one
    #[arg(long, value_enum, default_value_t)]
    relation: RelationFlag,
    /// Rounds that are protected together, for users who are in several
    #[arg(long, value_name = "K", default_value_t = 1)]
    rounds_per_user: u64,
    /// Who plays; by default whoever has the least proved regret
    #[arg(long, value_enum)]
    player: Option<PlayerFlag>,
    /// Keep the game in this file and FILE.mark, so that a killed process goes on where it was. The file holds the exact sums of the
    /// losses: it is as sensitive as they are
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_seed")]
    session: Option<PathBuf>,
    /// The input begins with round 1 again: lines of rounds that the session has seen are skipped
    #[arg(long, requires = "session")]
    replay: bool,
    /// What a line does that is not a list of one finite number per expert
    #[arg(long, value_enum, default_value_t)]
    bad_lines: BadLines,
    /// Write what the game promises to this file (.json), before the first play: `dpopt verify` accounts it anew
    #[arg(long, value_name = "FILE")]
    guarantee: Option<PathBuf>,
    /// Show every player with its proved regret; nothing is read or charged
    #[arg(long, conflicts_with_all = ["session", "ledger", "guarantee"])]
    explain: bool,
    /// Machine-readable plans (with --explain)
    #[arg(long, requires = "explain")]
    json: bool,
    #[command(flatten)]
    budget_file: BudgetFile,
    /// Reproducible coins for tests: NO privacy, and no charge to a ledger
    #[arg(long, value_name = "N")]
    insecure_seed: Option<u64>,
    /// Print nothing but plays, warnings and errors
    #[arg(short, long)]
    quiet: bool,
}

/// Longest line of `experts` losses: numbers with their comma and blank take 26 characters at most. Public, so that where a line ends never
/// depends on how its losses are written.
fn longest(experts: usize) -> u64 {
    32 * experts as u64 + (1 << 16)
}

/// The next line, whole however long it is: what is beyond `longest` is passed over. `None` at the end of the input; `false`: it was too long.
fn next_line(input: &mut impl BufRead, longest: u64, line: &mut Vec<u8>) -> std::io::Result<Option<bool>> {
    line.clear();
    if input.by_ref().take(longest).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || (line.len() as u64) < longest {
        return Ok(Some(true));
    }
    let mut over = false;
    loop {
        let rest = input.fill_buf()?;
        if rest.is_empty() {
            return Ok(Some(!over));
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        // a line of just the limit may end here
        over |= end != Some(0);
        let used = end.map_or(rest.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(!over));
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Game::Experts(arguments) = &arguments.game;
    // asked once: a session that vanishes meanwhile is not taken for a new one, which would have to be charged
    let resumes = arguments.session.as_ref().is_some_and(|path| std::fs::symlink_metadata(path).is_ok());
    let options = options(arguments, resumes)?;
    if arguments.explain {
        return explain(arguments, &options);
    }
    let mark = arguments.session.as_ref().map(|path| {
        let mut name = path.clone().into_os_string();
        name.push(".mark");
        PathBuf::from(name)
    });
    Paths::default()
        .read("the losses", (arguments.input.as_os_str() != "-").then_some(arguments.input.as_path()))
        .written("--guarantee", arguments.guarantee.as_deref())
        .written("--session", arguments.session.as_deref())
        .written("the session's mark", mark.as_deref())
        .written("--ledger", arguments.budget_file.ledger.as_deref())
        .check()?;
    let input = open_input(&arguments.input)?;
    // what keeps it from being written is known before the budget is spent
    let place = arguments.guarantee.as_deref().map(reserve).transpose()?;
    let mut game = match &arguments.session {
        Some(path) if resumes => {
            let game = Experts::resume(path).map_err(failed)?;
            agree(arguments, &game, path)?;
            game
        }
        Some(path) => {
            Experts::open_at(path, arguments.experts, arguments.rounds, arguments.epsilon, &options).map_err(failed)?
        }
        None => Experts::open(arguments.experts, arguments.rounds, arguments.epsilon, &options).map_err(failed)?,
    };
    if let (Some(path), Some(place)) = (&arguments.guarantee, place) {
        promise(path, place, &game)?;
    }
    if !arguments.quiet {
        tell(arguments, &game);
    }
    play(arguments, &mut game, input)
}

fn reserve(path: &Path) -> Result<Places, Failure> {
    Places::reserve(&[path], &[]).map_err(|e| {
        Failure::machine(format!("cannot write {}: {}; nothing was charged or read", path.display(), e.kind()))
    })
}

/// Writes what is promised of the game, and the proof of its charge.
fn promise(path: &Path, place: Places, game: &Experts) -> Result<(), Failure> {
    let problem = game.problem();
    let document = serde_json::json!({
        "software": format!("dpopt {}", env!("CARGO_PKG_VERSION")),
        "game": {
            "experts": problem.experts, "rounds": problem.rounds, "rounds_per_user": problem.rounds_per_user,
            "player": game.player().name(), "regret_bound": game.regret_bound(),
        },
        "guarantee": game.guarantee(),
        "receipt": game.receipt(),
    });
    let text = serde_json::to_string_pretty(&document).map_err(Failure::machine)? + "\n";
    place.write(&[text.as_bytes()]).map_err(|e| {
        Failure::machine(format!(
            "cannot write {}: {}; nothing was left there, and the budget of this game is spent",
            path.display(),
            e.kind()
        ))
    })
}

fn options(arguments: &ExpertsArguments, resumes: bool) -> Result<ExpertsOptions, Failure> {
    let relation = arguments.relation.into();
    let delta = arguments.delta.or(Some(default_delta(arguments.rounds)));
    let neighbours = Neighbours::of_rounds(relation);
    // a game that goes on was charged
    if resumes && arguments.budget_file.ledger.is_some() && !arguments.quiet {
        eprintln!(
            "dpopt: note: the session was charged when it was opened, to the ledger that was given then; --ledger is charged nothing now"
        );
    }
    let ledger = match resumes {
        true => None,
        false => arguments.budget_file.open(arguments.epsilon, delta, neighbours, Vec::new(), arguments.quiet)?,
    };
    Ok(ExpertsOptions {
        delta,
        relation,
        rounds_per_user: arguments.rounds_per_user,
        player: arguments.player.map(|player| match player {
            PlayerFlag::Lean => Player::Lean,
            PlayerFlag::Fresh => Player::Fresh,
            PlayerFlag::Leader => Player::Leader,
        }),
        ledger,
        insecure_seed: arguments.insecure_seed,
    })
}

fn explain(arguments: &ExpertsArguments, options: &ExpertsOptions) -> Result<(), Failure> {
    let plans = explain_experts(arguments.experts, arguments.rounds, arguments.epsilon, options).map_err(failed)?;
    if arguments.json {
        let rows: Vec<serde_json::Value> = plans
            .iter()
            .map(|(player, plan)| match plan {
                Ok(plan) => serde_json::json!({
                    "player": player.name(), "regret_bound": plan.regret_bound, "batch": plan.batch,
                    "learning_rate": plan.learning_rate, "resampling": plan.resampling, "noise_std": plan.noise_std,
                    "event": plan.certificate.event(), "certified_epsilon": plan.certificate.bound().upper,
                    "delta": plan.certificate.budget().delta(),
                }),
                Err(why) => serde_json::json!({ "player": player.name(), "not_applicable": why.to_string() }),
            })
            .collect();
        return print_json(&rows);
    }
    let some = |x: Option<f64>| x.map_or(String::from("-"), number);
    let rows: Vec<Vec<String>> = plans
        .iter()
        .filter_map(|(player, plan)| plan.as_ref().ok().map(|plan| (player, plan)))
        .map(|(player, plan)| {
            vec![
                player.name().into(),
                number(plan.regret_bound),
                plan.batch.to_string(),
                some(plan.learning_rate),
                some(plan.resampling),
                some(plan.noise_std),
                number(plan.certificate.bound().upper),
            ]
        })
        .collect();
    let headings = ["player", "regret at most", "batch", "learning rate", "fresh draws", "noise", "certified epsilon"];
    let mut text = table(&headings, &rows);
    for (player, why) in plans.iter().filter_map(|(player, plan)| plan.as_ref().err().map(|why| (player, why))) {
        text += &format!("{} is not applicable: {why}\n", player.name());
    }
    let delta = options.delta.unwrap_or(0.0);
    let neighbours = Neighbours::of_rounds(options.relation);
    let problem = ExpertsProblem {
        experts: arguments.experts,
        rounds: arguments.rounds,
        rounds_per_user: options.rounds_per_user,
        neighbours,
    };
    text += &format!(
        "{} experts, {} rounds, {neighbours}, delta {}. Without privacy: {}. The least bound plays; bounds are on the \
         expected regret against the best expert in hindsight, for losses in [0, 1] that were fixed before the first round.\n",
        arguments.experts,
        arguments.rounds,
        probability(delta),
        number(problem.without_privacy())
    );
    print(&text)
}

/// A session knows what it was opened for; flags that say otherwise are refused.
fn agree(arguments: &ExpertsArguments, game: &Experts, path: &Path) -> Result<(), Failure> {
    let (problem, promised) = (game.problem(), game.guarantee());
    let same = problem.experts == arguments.experts
        && problem.rounds == arguments.rounds
        && problem.rounds_per_user == arguments.rounds_per_user
        && problem.neighbours == Neighbours::of_rounds(arguments.relation.into())
        && promised.epsilon == arguments.epsilon
        && arguments.delta.is_none_or(|delta| promised.delta == delta);
    if same {
        return Ok(());
    }
    Err(usage(format!(
        "session {} was opened with --experts {} --rounds {} --rounds-per-user {} --relation {} --epsilon {} --delta {}; give the same, \
         or another file",
        path.display(),
        problem.experts,
        problem.rounds,
        problem.rounds_per_user,
        problem.neighbours.relation,
        Shown(promised.epsilon),
        Shown(promised.delta)
    )))
}

/// Public facts and what is promised.
fn tell(arguments: &ExpertsArguments, game: &Experts) {
    let several = match game.problem().rounds_per_user {
        1 => String::new(),
        k => format!(" (any {k} rounds together)"),
    };
    note(format!(
        "note: {} plays; expected regret at most {} after {} rounds, against losses that were fixed before; {}{several}",
        game.player().name(),
        number(game.regret_bound()),
        game.problem().rounds,
        game.guarantee()
    ));
    if arguments.insecure_seed.is_some() {
        note("warning: --insecure-seed: predictable coins, no privacy");
    }
    if game.observed() > 0 {
        let from = if arguments.replay { 1 } else { game.observed() + 1 };
        note(format!("note: going on after round {}; the input begins with round {from}", game.observed()));
    }
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

/// Lines that wait to be shown: what a session has to remember is written before.
struct Pending<'a> {
    text: String,
    session: bool,
    /// Rounds were observed since the last save.
    unsaved: bool,
    game: &'a mut Experts,
}

impl Pending<'_> {
    fn add(&mut self, round: u64, expert: usize) {
        self.text += &format!("{{\"round\":{round},\"play\":{expert}}}\n");
    }

    fn flush(&mut self) -> Result<(), Failure> {
        // once: a second save would forget what the first holds for whoever resumes before it is shown
        if self.session && self.unsaved {
            self.game.save().map_err(failed)?;
        }
        self.unsaved = false;
        print(&std::mem::take(&mut self.text))
    }
}

fn play(arguments: &ExpertsArguments, game: &mut Experts, mut input: BufReader<Box<dyn Read>>) -> Result<(), Failure> {
    let session = arguments.session.is_some();
    let mut skip = if arguments.replay { game.observed() } else { 0 };
    let again = game.recent();
    let mut shown = Pending { text: String::new(), session, unsaved: false, game };
    // of a session, what may not have been shown; it has been saved
    again.iter().for_each(|(round, expert)| shown.add(*round, *expert));
    if again.is_empty()
        && let Some(expert) = shown.game.play()
    {
        shown.add(shown.game.observed() + 1, expert);
    }
    print(&std::mem::take(&mut shown.text))?;
    let mut number = 0u64;
    let mut line = Vec::new();
    loop {
        // whoever waits for a play gets it before more is asked for
        if !input.buffer().contains(&b'\n') {
            shown.flush()?;
        }
        let read = next_line(&mut input, longest(arguments.experts), &mut line);
        let Some(whole) = read.map_err(|e| Failure::machine(format!("cannot read the losses: {}", e.kind())))? else {
            break;
        };
        number += 1;
        if skip > 0 {
            skip -= 1;
            continue;
        }
        if shown.game.is_over() {
            // blank lines at the end are no rounds
            if whole && line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            shown.flush()?;
            return Err(usage(format!(
                "line {number} is beyond the {} rounds that were planned and charged; open another game for more",
                shown.game.problem().rounds
            )));
        }
        let told = if whole { losses(&line, arguments.experts) } else { Err("is too long".into()) };
        match told {
            Ok(losses) => shown.game.observe(&losses).map_err(failed)?,
            Err(_) if arguments.bad_lines == BadLines::Nothing => shown.game.observe_nothing().map_err(failed)?,
            Err(why) => {
                shown.flush()?;
                return Err(usage(format!(
                    "line {number} {why}; the game stands before this round{} (--bad-lines nothing counts such lines as rounds without \
                     losses)",
                    if session { " and can be resumed" } else { "" }
                )));
            }
        }
        shown.unsaved = true;
        if let Some(expert) = shown.game.play() {
            shown.add(shown.game.observed() + 1, expert);
        }
    }
    shown.flush()?;
    if !arguments.quiet && !shown.game.is_over() {
        let (observed, rounds) = (shown.game.observed(), shown.game.problem().rounds);
        note(format!("note: the input ended after round {observed} of {rounds}; all of them are paid for"));
    }
    Ok(())
}

/// One finite number per expert. What is wrong is told without a value.
fn losses(line: &[u8], experts: usize) -> Result<Vec<f64>, String> {
    let values: Vec<f64> =
        serde_json::from_slice(line).map_err(|_| "is not a JSON list of finite numbers, [0.1, 0, 1]".to_owned())?;
    if values.len() != experts {
        return Err(format!("does not have one loss for each of the {experts} experts"));
    }
    if values.iter().any(|loss| !loss.is_finite()) {
        return Err("has a loss that is no finite number".into());
    }
    Ok(values)
}

fn failed(error: OnlineError) -> Failure {
    usage(error)
}
