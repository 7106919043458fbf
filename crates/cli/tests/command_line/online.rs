//! `dpopt online`: the conversation, restarts at any moment, lines that can't be read.

use crate::{command, files, refuse, succeed};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};

const GAME: [&str; 11] =
    ["online", "experts", "--experts", "4", "--rounds", "60", "--epsilon", "2", "--delta", "1e-4", "--quiet"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&GAME[..], more].concat()
}

fn line(round: usize) -> String {
    let losses: Vec<String> = (0..4).map(|j| format!("{}", ((round * 7 + j * 3) % 10) as f64 / 10.0)).collect();
    format!("[{}]\n", losses.join(", "))
}

fn lines(rounds: usize) -> String {
    (0..rounds).map(line).collect()
}

fn fed(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = started(directory, arguments);
    // a program that refuses does not read to the end
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn started(directory: &Path, arguments: &[&str]) -> Child {
    let piped = |c: &mut std::process::Command| {
        c.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    piped(&mut command(directory, arguments))
}

/// (round, expert) of each line.
fn plays(output: &[u8]) -> Vec<(u64, u64)> {
    let text = std::str::from_utf8(output).unwrap();
    text.lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            (value["round"].as_u64().unwrap(), value["play"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn a_line_out_for_every_line_in() {
    let d = tempfile::tempdir().unwrap();
    let output = fed(d.path(), &GAME, &lines(60));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = plays(&output.stdout);
    assert!(all.iter().map(|(round, _)| *round).eq(1..=60) && all.iter().all(|(_, expert)| *expert < 4));
    assert!(output.stderr.is_empty() && files(d.path()).is_empty());
    // the input may end early, and start in a file; blank lines after the end are no rounds
    assert_eq!(plays(&fed(d.path(), &GAME, &lines(3)).stdout).len(), 4);
    std::fs::write(d.path().join("losses"), lines(60) + "\n \n").unwrap();
    assert_eq!(plays(succeed(d.path(), &with(&["losses"])).as_bytes()).len(), 60);
    // a seed gives the same game, and says so
    let seeded = || fed(d.path(), &with(&["--insecure-seed", "7"]), &lines(60)).stdout;
    assert_eq!(seeded(), seeded());
    // who waits for a play gets it before the next line is asked for
    let mut child = started(d.path(), &GAME);
    let (mut input, mut plays) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    for round in 1..=20 {
        let play = plays.next().unwrap().unwrap();
        assert!(play.starts_with(&format!("{{\"round\":{round},")), "{play}");
        input.write_all(line(round).as_bytes()).unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_read_stops_or_tells_nothing() {
    let d = tempfile::tempdir().unwrap();
    let bad = [
        "[0.1, 0.2, 0.3]",
        "[0.1, 0.2, 0.3, NaN]",
        "[0.1, 0.2, 0.3, null]",
        "[0.1,",
        "{}",
        "",
        "[1e999, 0, 0, 0]",
        "\u{fffd}",
    ];
    // longer than any line of losses: one round, not two
    let long = " ".repeat(100_000) + "[0.1, 0.2, 0.3, 0.4]";
    let nothing = with(&["--bad-lines", "nothing", "--insecure-seed", "3"]);
    let mut quiet = Vec::new();
    for text in bad.into_iter().chain([long.as_str()]) {
        let input = line(0) + text + "\n" + &lines(57);
        let output = fed(d.path(), &GAME, &input);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}: {stderr}");
        assert!(stderr.contains("line 2 ") && !stderr.contains("0.3"), "{stderr}");
        assert_eq!(plays(&output.stdout).len(), 2);
        // the same to everybody outside, whatever stands in the line
        let output = fed(d.path(), &nothing, &input);
        assert!(output.status.success());
        quiet.push((output.stdout, output.stderr));
    }
    assert!(quiet.windows(2).all(|w| w[0] == w[1]));
    let beyond = fed(d.path(), &GAME, &lines(61));
    assert_eq!(beyond.status.code(), Some(2));
    assert!(String::from_utf8(beyond.stderr).unwrap().contains("line 61 is beyond the 60 planned rounds"));
    assert_eq!(plays(&beyond.stdout).len(), 60);
}

#[test]
fn flags_are_refused_before_anything_is_charged() {
    let d = tempfile::tempdir().unwrap();
    let ledger = ["--ledger", "ledger", "--total-epsilon", "5", "--total-delta", "1e-3"];
    for (more, why) in [
        (&["--relation", "add-or-remove"][..], "moves all later ones"),
        (&["--rounds-per-user", "61"], "1 to 60"),
        (&["--session", "s", "--player", "leader"], "no session file"),
        (&["--session", "none/s"], "none/s"),
        // what a session writes beside its file
        (&["--session", "s", "--guarantee", "s.new"], "s.new"),
        (&["nowhere"], "nowhere"),
    ] {
        let error = refuse(d.path(), &[&with(more)[..], &ledger].concat());
        assert!(error.contains(why), "{error}");
        assert!(
            !d.path().join("ledger").exists()
                || std::fs::read_to_string(d.path().join("ledger")).unwrap().lines().count() <= 1
        );
    }
    for bad in [["--epsilon", "-1"], ["--delta", "2"], ["--experts", "1"], ["--rounds", "1"]] {
        let mut arguments = GAME.to_vec();
        let place = arguments.iter().position(|a| *a == bad[0]).unwrap();
        arguments[place + 1] = bad[1];
        refuse(d.path(), &arguments);
    }
    let explained = succeed(d.path(), &[&GAME[..10], &["--explain"]].concat());
    assert!(
        ["lean", "fresh", "leader", "blocks", "independent", "regret at most"]
            .iter()
            .all(|word| explained.contains(word)),
        "{explained}"
    );
    let plans: serde_json::Value =
        serde_json::from_str(&succeed(d.path(), &[&GAME[..10], &["--explain", "--json"]].concat())).unwrap();
    assert!(plans.as_array().unwrap().iter().all(|plan| plan["certified_epsilon"].as_f64().unwrap() <= 2.0));
}

#[test]
fn a_session_is_charged_once_and_goes_on() {
    let d = tempfile::tempdir().unwrap();
    let ledger = ["--ledger", "ledger", "--total-epsilon", "3", "--total-delta", "1e-3"];
    let game = with(&[&["--session", "s"], &ledger[..]].concat());
    let first = fed(d.path(), &game, &lines(25));
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(files(d.path()), ["ledger", "s", "s.mark"]);
    let charged = std::fs::read(d.path().join("ledger")).unwrap();
    let rest: String = (25..60).map(line).collect();
    let second = fed(d.path(), &game, &rest);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    assert_eq!(std::fs::read(d.path().join("ledger")).unwrap(), charged);
    let (first, second) = (plays(&first.stdout), plays(&second.stdout));
    // what may not have been shown is shown again, and is the same
    let again = second.iter().filter(|play| play.0 <= 26).copied().collect::<Vec<_>>();
    assert!(!again.is_empty() && again.iter().all(|play| first.contains(play)), "{first:?} {second:?}");
    assert_eq!(second.last().unwrap().0, 60);
    // over: nothing more, and a replay of all of it is skipped
    let over = fed(d.path(), &with(&["--session", "s", "--replay"]), &lines(60));
    assert!(over.status.success() && plays(&over.stdout).iter().all(|play| second.contains(play)));
    // a ledger that does not know of it is refused, one that does is reported to be charged nothing
    let total = ["--total-epsilon", "3", "--total-delta", "1e-3"];
    let on = |name: &'static str, path: &'static str| {
        let flags = [&["--session", path, "--ledger", name][..], &total].concat();
        let loud: Vec<&str> = with(&flags).into_iter().filter(|flag| *flag != "--quiet").collect();
        let output = fed(d.path(), &loud, "");
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = on("ledger", "s");
    assert!(code == Some(0) && stderr.contains("nothing is charged now"), "{stderr}");
    fed(d.path(), &with(&[&["--ledger", "other", "--session", "t"][..], &total].concat()), "");
    let (code, stderr) = on("other", "s");
    assert!(code == Some(2) && stderr.contains("session s is not in other"), "{stderr}");
    let (code, stderr) = on("nowhere", "s");
    assert!(code == Some(2) && stderr.contains("nowhere"), "{stderr}");
    fed(d.path(), &with(&["--session", "u"]), "");
    let (code, stderr) = on("ledger", "u");
    assert!(code == Some(2) && stderr.contains("charged to no ledger"), "{stderr}");
    assert_eq!(std::fs::read(d.path().join("ledger")).unwrap(), charged);
    // a charge that is refused leaves nothing behind, and the ledger is no file of the session's
    let less = ["--session", "v", "--ledger", "poor", "--total-epsilon", "1", "--total-delta", "1e-3"];
    let poor = fed(d.path(), &with(&less), "");
    assert_eq!(poor.status.code(), Some(2), "{}", String::from_utf8_lossy(&poor.stderr));
    assert!(files(d.path()).iter().all(|name| !name.starts_with('v')), "{:?}", files(d.path()));
    std::fs::copy(d.path().join("ledger"), d.path().join("w.new")).unwrap();
    assert!(
        refuse(d.path(), &with(&[&["--session", "w", "--ledger", "w.new"][..], &total].concat())).contains("w.new")
    );
    assert_eq!(std::fs::read(d.path().join("w.new")).unwrap(), charged);
    // other flags are another game
    let other = fed(d.path(), &[&["online", "experts", "--experts", "5"], &game[4..]].concat(), "");
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8(other.stderr).unwrap().contains("--experts 4"));
}

/// The reader of the plays goes away: no round is taken that nobody sees, and the next process shows what was not read.
#[test]
fn a_reader_that_went_away_loses_no_play() {
    let d = tempfile::tempdir().unwrap();
    let game = with(&["--session", "s"]);
    let mut child = started(d.path(), &game);
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut first = String::new();
    let mut output = BufReader::new(output);
    output.read_line(&mut first).unwrap();
    drop(output);
    // it may be gone before all of it is written
    let _ = input.write_all(lines(10).as_bytes());
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let again = plays(&fed(d.path(), &game, "").stdout);
    let shown = plays(first.as_bytes());
    // ten lines came at once at most: whatever was taken of them is shown now, from the round after the one that was read
    assert_eq!(shown.len(), 1);
    let rounds: Vec<u64> = again.iter().map(|play| play.0).collect();
    assert!(rounds[0] <= 2 && rounds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{rounds:?}");
}

#[test]
fn two_processes_do_not_share_a_session_and_old_or_cut_files_are_refused() {
    let d = tempfile::tempdir().unwrap();
    let game = with(&["--session", "s"]);
    let mut child = started(d.path(), &game);
    let mut plays = BufReader::new(child.stdout.take().unwrap()).lines();
    plays.next().unwrap().unwrap();
    let error = refuse(d.path(), &game);
    assert!(error.contains("held by another process"), "{error}");
    let mut input = child.stdin.take().unwrap();
    let old = std::fs::read(d.path().join("s")).unwrap();
    for round in 0..6 {
        input.write_all(line(round).as_bytes()).unwrap();
        plays.next().unwrap().unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    let new = std::fs::read(d.path().join("s")).unwrap();
    let put = |bytes: &[u8]| std::fs::write(d.path().join("s"), bytes).unwrap();
    put(&old);
    assert!(refuse(d.path(), &game).contains("an old copy that was put back"));
    for length in [0, 1, new.len() / 2, new.len() - 1] {
        put(&new[..length]);
        assert!(refuse(d.path(), &game).contains("damaged"));
    }
    put(&new);
    assert!(fed(d.path(), &game, "").status.success());
    std::fs::remove_file(d.path().join("s.mark")).unwrap();
    assert!(refuse(d.path(), &game).contains("no mark"));
}

/// Killed at many moments, between writes and within them: what was shown stays so, and every round is played.
#[cfg(unix)]
#[test]
fn of_a_game_and_its_copies_one_goes_on() {
    let d = tempfile::tempdir().unwrap();
    fed(d.path(), &with(&["--session", "s"]), &lines(3));
    std::fs::copy(d.path().join("s"), d.path().join("c")).unwrap();
    std::fs::copy(d.path().join("s.mark"), d.path().join("c.mark")).unwrap();
    for copy in [&["--session", "c"][..], &["--session", "c", "--moved"]] {
        let output = fed(d.path(), &with(copy), &lines(1));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && output.stdout.is_empty() && stderr.contains("is a copy of"),
            "{stderr}"
        );
    }
    assert!(fed(d.path(), &with(&["--session", "s"]), &lines(1)).status.success());
    // moved for good
    std::fs::copy(d.path().join("s"), d.path().join("m")).unwrap();
    std::fs::copy(d.path().join("s.mark"), d.path().join("m.mark")).unwrap();
    std::fs::remove_file(d.path().join("s")).unwrap();
    std::fs::remove_file(d.path().join("s.mark")).unwrap();
    let stderr = fed(d.path(), &with(&["--session", "m"]), &lines(1)).stderr;
    assert!(String::from_utf8_lossy(&stderr).contains("--moved"));
    assert!(fed(d.path(), &with(&["--session", "m", "--moved"]), &lines(1)).status.success());
    assert!(fed(d.path(), &with(&["--session", "m"]), &lines(1)).status.success());
}

#[test]
fn kill_9_at_any_moment() {
    killed_at_any_moment(&with(&["--session", "s", "--replay"]), 60, line, 6);
    // pure: by blocks
    let pure = ["online", "experts", "--experts", "4", "--rounds", "60", "--epsilon", "2", "--delta", "0", "--quiet"];
    killed_at_any_moment(&[&pure[..], &["--session", "s", "--replay"]].concat(), 60, line, 2);
    // two arms that are alike: elimination closes sums after rounds of some hundred, weights after every one
    let reward = |round: usize| format!("0.{}\n", round % 10);
    for player in ["elimination", "weights"] {
        let arms =
            ["online", "bandit", "--arms", "2", "--rounds", "1500", "--epsilon", "20", "--quiet", "--player", player];
        killed_at_any_moment(&[&arms[..], &["--session", "s", "--replay"]].concat(), 1500, reward, 1);
    }
}

#[cfg(unix)]
fn killed_at_any_moment(arguments: &[&str], rounds: usize, line: fn(usize) -> String, games: u64) {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};
    let note = |shown: &mut BTreeMap<u64, u64>, output: &[u8]| {
        // the last line may be cut
        let whole = output.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        let before = shown.len();
        for (round, expert) in plays(&output[..whole]) {
            let known = shown.insert(round, expert);
            assert!(known.is_none_or(|known| known == expert), "round {round}: {known:?} and {expert}");
        }
        shown.len() > before
    };
    let (mut killed, mut within) = (0, 0);
    for game in 0..games {
        let d = tempfile::tempdir().unwrap();
        let mut shown = BTreeMap::new();
        note(&mut shown, &fed(d.path(), arguments, "").stdout);
        let before = Instant::now();
        note(&mut shown, &fed(d.path(), arguments, "").stdout);
        let start = before.elapsed();
        for attempt in 0..30u64 {
            let mut child = started(d.path(), arguments);
            let mut input = child.stdin.take().unwrap();
            let known = shown.len();
            let feeder = std::thread::spawn(move || {
                for round in 0..rounds {
                    // the reader may be gone
                    if input.write_all(line(round).as_bytes()).is_err() {
                        break;
                    }
                    // losses that were observed before are skipped
                    if round + 1 >= known {
                        std::thread::sleep(Duration::from_micros(500));
                    }
                }
            });
            std::thread::sleep(start.mul_f64(0.5) + Duration::from_micros(((game * 31 + attempt) * 7919) % 40_000));
            let _ = std::process::Command::new("kill").args(["-9", &child.id().to_string()]).status();
            let output = child.wait_with_output().unwrap();
            feeder.join().unwrap();
            let by_signal = output.status.code().is_none();
            killed += u32::from(by_signal);
            within += u32::from(note(&mut shown, &output.stdout) && by_signal);
        }
        let last = fed(d.path(), arguments, &(0..rounds).map(line).collect::<String>());
        assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
        note(&mut shown, &last.stdout);
        assert!(shown.keys().copied().eq(1..=rounds as u64), "{:?}", shown.keys());
    }
    // some fell into a game that was going on
    println!("{killed} killed, {within} of them after they had shown something new");
    // on a quick machine many games are over before the signal
    assert!(u64::from(killed) > games && within > 0, "{killed} {within}");
}

#[test]
fn what_is_promised_is_written_before_the_first_play() {
    let d = tempfile::tempdir().unwrap();
    let charged =
        with(&["--guarantee", "game.json", "--ledger", "budget", "--total-epsilon", "2.05", "--total-delta", "1e-3"]);
    let output = fed(d.path(), &charged, &lines(2));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files(d.path()), ["budget", "game.json"]);
    let text = std::fs::read_to_string(d.path().join("game.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((written["game"]["rounds"].as_u64(), written["guarantee"]["unit"].as_str()), (Some(60), Some("round")));
    assert!(written["receipt"].is_object(), "{text}");
    let verified = succeed(d.path(), &["verify", "game.json"]);
    assert!(verified.contains("holds: the events cost epsilon 2.000000"), "{verified}");
    // a game that is not paid for promises nothing
    std::fs::remove_file(d.path().join("game.json")).unwrap();
    assert!(!fed(d.path(), &charged, &lines(2)).status.success());
    assert_eq!(files(d.path()), ["budget"]);
    // and nothing is written over what is read
    std::fs::write(d.path().join("losses"), lines(2)).unwrap();
    let refused = refuse(d.path(), &with(&["losses", "--guarantee", "losses"]));
    assert!(refused.contains("the same file"), "{refused}");
    assert_eq!(std::fs::read_to_string(d.path().join("losses")).unwrap(), lines(2));
    // where it can't be written nothing is played
    let nowhere = fed(d.path(), &with(&["losses", "--guarantee", "nowhere/game.json"]), "");
    assert_eq!((nowhere.status.code(), nowhere.stdout.is_empty()), (Some(1), true));
}

const POINTS: [&str; 11] =
    ["online", "convex", "--dimension", "2", "--rounds", "60", "--epsilon", "2", "--delta", "1e-4", "--quiet"];
const ARMS: [&str; 9] = ["online", "bandit", "--arms", "3", "--rounds", "60", "--epsilon", "2", "--quiet"];

fn values(output: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(output).unwrap();
    text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["play"].clone()).collect()
}

#[test]
fn points_are_played_in_their_region_and_gradients_followed() {
    let d = tempfile::tempdir().unwrap();
    let gradients = "[0.6, -0.8]\n".repeat(60);
    for region in [&["--radius", "2"][..], &["--radius", "2", "--centre", "1,1"], &["--bounds=-1,1,0,3"]] {
        let output = fed(d.path(), &[&POINTS[..], region].concat(), &gradients);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plays = values(&output.stdout);
        assert_eq!(plays.len(), 60);
        for play in &plays {
            let x: Vec<f64> = serde_json::from_value(play.clone()).unwrap();
            let inside = match region {
                ["--radius", _] => x[0].hypot(x[1]) <= 2.0 + 1e-9,
                ["--radius", ..] => (x[0] - 1.0).hypot(x[1] - 1.0) <= 2.0 + 1e-9,
                _ => x[0].abs() <= 1.0 && (0.0..=3.0).contains(&x[1]),
            };
            assert!(x.len() == 2 && inside, "{region:?} {x:?}");
        }
    }
    // against a large ε the leader goes where the gradients send it
    let mut loose = [&POINTS[..], &["--radius", "1", "--losses", "linear", "--insecure-seed", "1"]].concat();
    loose[7] = "1e6";
    let plays = values(&fed(d.path(), &loose, &gradients).stdout);
    let last: Vec<f64> = serde_json::from_value(plays[59].clone()).unwrap();
    assert!(plays[0] == serde_json::json!([0.0, 0.0]) && (last[0] + 0.6).hypot(last[1] - 0.8) < 0.05, "{last:?}");
    for (more, why) in [
        (&[][..], "--bounds"),
        (&["--radius", "1", "--centre", "1,2,3"], "1 or 2"),
        (&["--bounds=0,1,2"], "2 or 4"),
        (&["--bounds=1,0"], "lower below the upper"),
        (&["--radius", "1", "--rounds-per-user", "61"], "1 to 60"),
        (&["--radius", "1", "--relation", "add-or-remove"], "moves all later ones"),
    ] {
        let error = refuse(d.path(), &[&POINTS[..], more].concat());
        assert!(error.contains(why), "{more:?}: {error}");
    }
    for (more, why) in [(&["--bounds=-1,1"][..], "--bounds"), (&["--session", "s"], "--session")] {
        let output = fed(d.path(), &[&POINTS[..], &["--radius", "1"], more].concat(), "");
        assert!(output.status.code() == Some(2) && String::from_utf8(output.stderr).unwrap().contains(why));
    }
    assert!(files(d.path()).is_empty());
}

/// Lines of other games stop or change nothing, and nothing of what stood in them is shown.
#[test]
fn lines_of_points_and_arms_that_cannot_be_read() {
    let d = tempfile::tempdir().unwrap();
    let points = [&POINTS[..], &["--radius", "1"]].concat();
    let games: [(&[&str], &str, &[&str]); 2] = [
        (&points, "[0.25, 0.5]\n", &["[0.377]", "[0.377, NaN]", "0.377", "", "[1e999, 0]", "[0.377, null]"]),
        (&ARMS, "0.25\n", &["[0.377]", "NaN", "1e999", "", "null", "0.377 0.5"]),
    ];
    for (game, good, bad) in games {
        let nothing = [game, &["--bad-lines", "nothing", "--insecure-seed", "3"]].concat();
        let mut quiet = Vec::new();
        for text in bad {
            let input = good.to_owned() + text + "\n" + &good.repeat(57);
            let output = fed(d.path(), game, &input);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(
                output.status.code() == Some(2) && stderr.contains("line 2 ") && !stderr.contains("0.377"),
                "{stderr}"
            );
            assert_eq!(values(&output.stdout).len(), 2);
            let output = fed(d.path(), &nothing, &input);
            assert!(output.status.success());
            quiet.push((output.stdout, output.stderr));
        }
        assert!(quiet.windows(2).all(|w| w[0] == w[1]));
        let beyond = fed(d.path(), game, &good.repeat(61));
        assert!(String::from_utf8(beyond.stderr).unwrap().contains("line 61 is beyond the 60 planned rounds"));
    }
}

#[test]
fn points_and_arms_are_explained_promised_and_charged() {
    let d = tempfile::tempdir().unwrap();
    let points = [&POINTS[..], &["--radius", "1"]].concat();
    for (game, good, own) in [(&points[..], "[0.25, 0.5]\n", "region"), (&ARMS[..], "0.25\n", "arms")] {
        let explained = succeed(d.path(), &[game, &["--explain"]].concat());
        assert!(explained.contains("regret at most") && explained.contains("60 rounds"), "{explained}");
        let plan: serde_json::Value =
            serde_json::from_str(&succeed(d.path(), &[game, &["--explain", "--json"]].concat())).unwrap();
        let several: serde_json::Value = serde_json::from_str(&succeed(
            d.path(),
            &[game, &["--explain", "--json", "--rounds-per-user", "4"]].concat(),
        ))
        .unwrap();
        // of several players the first plays
        let of_first = |plans: &serde_json::Value| plans.get(0).unwrap_or(plans).clone();
        let (plan, several) = (of_first(&plan), of_first(&several));
        let noise = |plan: &serde_json::Value| plan["noise_std"].as_f64().or(plan["noise_scale"].as_f64()).unwrap();
        assert!(noise(&several) > 1.9 * noise(&plan) && noise(&several) < 4.001 * noise(&plan));
        assert!(plan["certified_epsilon"].as_f64().unwrap() <= 2.0);
        let paid =
            ["--guarantee", "game.json", "--ledger", "budget", "--total-epsilon", "2.05", "--total-delta", "1e-3"];
        let output = fed(d.path(), &[game, &paid].concat(), good);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let written: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(d.path().join("game.json")).unwrap()).unwrap();
        assert!(written["receipt"].is_object() && !written["game"][own].is_null(), "{written}");
        assert_eq!(
            (written["game"]["rounds"].as_u64(), written["guarantee"]["unit"].as_str()),
            (Some(60), Some("round"))
        );
        let verified = succeed(d.path(), &["verify", "game.json"]);
        assert!(verified.contains("holds: the events cost epsilon"), "{verified}");
        // a second one is not paid for
        assert!(!fed(d.path(), &[game, &paid[2..]].concat(), good).status.success());
        std::fs::remove_file(d.path().join("budget")).unwrap();
        std::fs::remove_file(d.path().join("game.json")).unwrap();
    }
}

#[test]
fn a_session_of_arms_is_charged_once_and_goes_on() {
    let d = tempfile::tempdir().unwrap();
    let ledger = ["--ledger", "ledger", "--total-epsilon", "3", "--total-delta", "1e-3"];
    let game = [&ARMS[..], &["--session", "s"], &ledger].concat();
    let first = fed(d.path(), &game, &"0.5\n".repeat(25));
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(files(d.path()), ["ledger", "s", "s.mark"]);
    let charged = std::fs::read(d.path().join("ledger")).unwrap();
    let old = std::fs::read(d.path().join("s")).unwrap();
    let second = fed(d.path(), &game, &"0.5\n".repeat(35));
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    assert_eq!(std::fs::read(d.path().join("ledger")).unwrap(), charged);
    let (first, second) = (plays(&first.stdout), plays(&second.stdout));
    assert!(second.iter().filter(|play| play.0 <= 26).all(|play| first.contains(play)));
    assert_eq!(second.last().unwrap().0, 60);
    let other = fed(d.path(), &[&["online", "bandit", "--arms", "4"], &game[4..]].concat(), "");
    assert!(String::from_utf8(other.stderr).unwrap().contains("--arms 3"));
    std::fs::write(d.path().join("s"), old).unwrap();
    assert!(refuse(d.path(), &game).contains("an old copy that was put back"));
    // a session of arms is none of experts
    assert!(refuse(d.path(), &with(&["--session", "s"])).contains("damaged, or not a session"));
}
