//! A game as a conversation of lines: what is decided is written down before it is shown, where there is a session to write it to.

use super::failed;
use crate::output::{Failure, note, print_to_reader};
use crate::usage;
use dpopt::data::failure;
use dpopt::guarantee::Guarantee;
use dpopt::online::OnlineError;
use dpopt_privacy::Neighbours;
use dpopt_privacy::ledger::Receipt;
use std::io::{BufRead, BufReader, Read};

/// What the command line has to know of a game.
pub(super) trait Played {
    /// What a round tells.
    type Told;

    /// The play of the coming round as JSON; `None` after the last.
    fn play(&self) -> Option<String>;
    /// Number of rounds observed so far.
    fn observed(&self) -> u64;
    /// T: number of rounds of the game.
    fn rounds(&self) -> u64;
    /// Rounds that are protected together.
    fn rounds_per_user(&self) -> u64;
    fn neighbours(&self) -> Neighbours;
    fn guarantee(&self) -> &Guarantee;
    fn receipt(&self) -> Option<&Receipt>;
    /// Name of the algorithm that plays.
    fn player(&self) -> &'static str;
    fn regret_bound(&self) -> f64;
    /// What the bound is for.
    fn bounded_for(&self) -> &'static str;
    /// Public facts of its own.
    fn facts(&self) -> serde_json::Value;
    /// Numbers that a line has.
    fn numbers(&self) -> usize;
    /// What a line says. What is wrong is told without a value.
    fn read(&self, line: &[u8]) -> Result<Self::Told, String>;
    fn observe(&mut self, told: &Self::Told) -> Result<(), OnlineError>;
    fn observe_nothing(&mut self) -> Result<(), OnlineError>;
    /// Writes the game to its session file.
    fn save(&mut self) -> Result<(), OnlineError>;
    /// What a resumed game decided before, and may not have shown: rounds and plays.
    fn recent(&mut self) -> Vec<(u64, String)>;
}

/// How lines are dealt with.
pub(super) struct How {
    /// Whether the game is kept in a session.
    pub(super) saved: bool,
    /// Lines of rounds that the session has seen are skipped.
    pub(super) replay: bool,
    /// Lines that can't be read tell nothing.
    pub(super) forgives: bool,
    pub(super) quiet: bool,
}

/// Longest line of so many numbers: with their comma and blank they take 26 characters at most. Public, so that where a line ends never
/// depends on how its numbers are written.
fn longest(numbers: usize) -> u64 {
    32 * numbers as u64 + (1 << 16)
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

/// Finite numbers of a line, as many as there have to be.
pub(super) fn numbers(line: &[u8], count: usize, of: &str) -> Result<Vec<f64>, String> {
    let values: Vec<f64> =
        serde_json::from_slice(line).map_err(|_| "is not a JSON list of finite numbers, [0.1, 0, 1]".to_owned())?;
    if values.len() != count {
        return Err(format!("does not have one number for each of the {count} {of}"));
    }
    if values.iter().any(|value| !value.is_finite()) {
        return Err("has a number that is not finite".into());
    }
    Ok(values)
}

/// Lines that wait to be shown: what a session has to remember is written before.
struct Pending<'a, G> {
    text: String,
    session: bool,
    /// Rounds were observed since the last save.
    unsaved: bool,
    game: &'a mut G,
}

impl<G: Played> Pending<'_, G> {
    fn add(&mut self, round: u64, play: &str) {
        self.text += &format!("{{\"round\":{round},\"play\":{play}}}\n");
    }

    /// The play of the coming round.
    fn next(&mut self) {
        if let Some(play) = self.game.play() {
            self.add(self.game.observed() + 1, &play);
        }
    }

    /// Whether anybody is still there who reads; if not, what was shown last has been saved, and the next process shows it again.
    fn flush(&mut self) -> Result<bool, Failure> {
        // once: a second save would forget what the first holds for whoever resumes before it is shown
        if self.session && self.unsaved {
            self.game.save().map_err(failed)?;
        }
        self.unsaved = false;
        print_to_reader(&std::mem::take(&mut self.text))
    }

    /// How it ends when whoever read the plays went away: no further round is asked for, since its play would be seen by nobody.
    fn left_alone(&self, quiet: bool) {
        if !quiet {
            let resume = if self.session { "; resume it to see the unread plays" } else { "" };
            note(format!("note: the output was closed; the game stopped after round {}{resume}", self.game.observed()));
        }
    }
}

pub(super) fn play<G: Played>(game: &mut G, mut input: BufReader<Box<dyn Read>>, how: How) -> Result<(), Failure> {
    let mut skip = if how.replay { game.observed() } else { 0 };
    let (again, rounds, longest) = (game.recent(), game.rounds(), longest(game.numbers()));
    let mut shown = Pending { text: String::new(), session: how.saved, unsaved: false, game };
    // of a session, what may not have been shown; it has been saved
    again.iter().for_each(|(round, play)| shown.add(*round, play));
    if again.is_empty() {
        shown.next();
    }
    if !print_to_reader(&std::mem::take(&mut shown.text))? {
        shown.left_alone(how.quiet);
        return Ok(());
    }
    let mut number = 0u64;
    let mut line = Vec::new();
    loop {
        // whoever waits for a play gets it before more is asked for
        if !input.buffer().contains(&b'\n') && !shown.flush()? {
            shown.left_alone(how.quiet);
            return Ok(());
        }
        let read = next_line(&mut input, longest, &mut line);
        let Some(whole) = read.map_err(|e| Failure::machine(format!("cannot read the input: {}", failure(&e))))? else {
            break;
        };
        number += 1;
        if skip > 0 {
            skip -= 1;
            continue;
        }
        if shown.game.observed() == rounds {
            // blank lines at the end are no rounds
            if whole && line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            shown.flush()?;
            return Err(usage(format!(
                "line {number} is beyond the {rounds} planned rounds; open another game, charged anew, for more"
            )));
        }
        let told = if whole { shown.game.read(&line) } else { Err("is too long".into()) };
        match told {
            Ok(told) => shown.game.observe(&told).map_err(failed)?,
            Err(_) if how.forgives => shown.game.observe_nothing().map_err(failed)?,
            Err(why) => {
                shown.flush()?;
                return Err(usage(format!(
                    "line {number} {why}; the game stopped before this round{} (with --bad-lines nothing such lines \
                     count as rounds without input)",
                    if how.saved { " and can be resumed" } else { "" }
                )));
            }
        }
        shown.unsaved = true;
        shown.next();
    }
    if !shown.flush()? {
        shown.left_alone(how.quiet);
        return Ok(());
    }
    let observed = shown.game.observed();
    if !how.quiet && observed < rounds {
        note(format!("note: the input ended after round {observed} of {rounds}; all {rounds} were charged"));
    }
    Ok(())
}
