//! The short scale of every figure, through the binary, on generated tables in the layouts of the public ones: it runs, it writes well-formed
//! files, and a second run finds everything and changes no byte.

use dpopt::noise::{NoiseSource, Purpose};
use std::path::Path;
use std::process::{Command, Output};

#[allow(dead_code, reason = "the reader's own tests use the rest")]
#[path = "../../../crates/data/tests/generated/tables.rs"]
mod generated;

/// Runs the binary without whatever else names a folder of data sets.
fn reproduce(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpopt-reproduce"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DPOPT_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().expect("the binary runs")
}

fn succeeded(arguments: &[&str]) -> String {
    let output = reproduce(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Speeches of `speakers` persons in the layout of tinyshakespeare: a name with a colon, lines, a blank line. One line in four is a question.
fn speeches(count: usize, speakers: u64, below: &mut dyn FnMut(u64) -> u64) -> String {
    const ASKED: [&str; 6] = ["who", "what", "why", "where", "wilt", "dost"];
    const WORDS: [&str; 12] =
        ["my", "lord", "thou", "the", "king", "speak,", "know't", "good", "night;", "love", "and", "blood"];
    let mut text = String::new();
    for _ in 0..count {
        text += &format!("Speaker {}:\n", below(speakers));
        for _ in 0..1 + below(3) {
            let question = below(4) == 0;
            let mut words = vec![if question { ASKED[below(6) as usize] } else { WORDS[below(12) as usize] }];
            words.extend((0..2 + below(6)).map(|_| WORDS[below(12) as usize]));
            text += &format!("{}{}\n", words.join(" "), if question { '?' } else { '.' });
        }
        text.push('\n');
    }
    text
}

/// A folder of data sets as `--data` names it, with all that the figures read at short scale.
fn data_sets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Other(0), 0);
    let below: &mut dyn FnMut(u64) -> u64 = &mut |bound| stream.below(bound);
    let census = generated::csv(&generated::census(2500, below));
    let messages = generated::messages(800, below).into_iter().map(|(label, text)| format!("{label}\t{text}\n"));
    for (name, text) in [
        ("adult/adult.csv", census),
        ("sms-spam/SMSSpamCollection", messages.collect()),
        ("tinyshakespeare/input.txt", speeches(1500, 120, below)),
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir(path.parent().expect("a folder of its own")).expect("writable");
        std::fs::write(path, text).expect("writable");
    }
    folder
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("a folder of results")
        .map(|e| e.expect("readable").path())
        .map(|p| (p.file_name().expect("a name").to_string_lossy().into_owned(), std::fs::read(p).expect("readable")))
        .collect();
    files.sort();
    files
}

#[test]
fn every_figure_runs_and_a_second_run_changes_nothing() {
    let out = tempfile::tempdir().expect("a folder");
    let place = out.path().to_str().expect("text");
    let names = succeeded(&["list", "--names"]);
    let data = data_sets();
    for name in names.lines() {
        let data = data.path().to_str().expect("text");
        let arguments = ["run", name, "--short", "--out", place, "--data", data];
        succeeded(&arguments);
        let folder = out.path().join(name);
        let written = files(&folder);
        let ends = |ending: &str| written.iter().filter(|f| f.0.ends_with(ending)).count();
        assert!(ends(".svg") >= 1 && ends(".csv") >= 1 && ends("result.json") == 1 && ends("README.md") == 1, "{name}");
        for (file, bytes) in &written {
            let text = std::str::from_utf8(bytes).expect("text");
            assert!(!text.contains("NaN"), "{name}/{file} contains NaN");
            if file.ends_with(".svg") {
                roxmltree::Document::parse(text).unwrap_or_else(|e| panic!("{name}/{file}: {e}"));
            }
        }
        let again = succeeded(&arguments);
        assert!(again.contains(" 0 trials computed") || again.contains("0 found"), "{name}: {again}");
        assert!(written == files(&folder), "{name}: a second run changed the results");
    }
}

#[test]
fn without_a_folder_of_data_sets_a_sentence_says_what_to_give() {
    let out = tempfile::tempdir().expect("a folder");
    let place = out.path().to_str().expect("text");
    let output = reproduce(&["run", "census-accuracy", "--short", "--out", place]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.lines().count() == 1, "{error}");
    assert!(error.contains("adult/adult.csv") && error.contains("--data"), "{error}");
    // a figure that is only partly about a data set is computed without it, and says so
    succeeded(&["run", "user-panel", "--short", "--out", place]);
    let page = std::fs::read_to_string(out.path().join("user-panel/README.md")).expect("a page");
    assert!(page.contains("tinyshakespeare/input.txt") && page.contains("--data"), "{page}");
    assert!(!out.path().join("user-panel/speakers.csv").exists());
}

#[test]
fn another_seed_is_another_computation_and_a_torn_file_is_computed_again() {
    let out = tempfile::tempdir().expect("a folder");
    let place = out.path().to_str().expect("text");
    let run = |seed: &str| {
        succeeded(&["run", "geometric-median-exact", "--short", "--out", place, "--seed", seed]);
        files(&out.path().join("geometric-median-exact"))
    };
    let first = run("1");
    assert!(first != run("2"));
    for trial in std::fs::read_dir(out.path().join(".trials/geometric-median-exact")).expect("trials") {
        let path = trial.expect("readable").path();
        let bytes = std::fs::read(&path).expect("readable");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("writable");
    }
    assert!(first == run("1"));
}

/// 240 rows of 5 of 300 features; the label is the sign of the first one's value, `flipped` or not.
fn libsvm(flipped: bool) -> String {
    let mut text = String::new();
    for i in 0..240u64 {
        let sign = if i % 3 == 0 { 1 } else { -1 };
        let label = if (sign > 0) != flipped { "+1" } else { "-1" };
        text += &format!("{label} 1:{sign}");
        (1..5).for_each(|j| text += &format!(" {}:0.5", 2 + 70 * (j - 1) + (i * (2 * j + 5) * 31 / 7) % 70));
        text += "  # a comment\n\n";
    }
    text
}

#[test]
fn a_libsvm_file_is_computed_once_for_its_contents_and_never_found_for_others() {
    let place = tempfile::tempdir().expect("a folder");
    let out = place.path().join("out");
    let file = |name: &str, flipped| {
        let path = place.path().join(name);
        std::fs::write(&path, libsvm(flipped)).expect("writable");
        path
    };
    let run = |path: &Path| {
        let [out, path] = [&out, path].map(|p| p.to_str().expect("text").to_owned());
        let printed = succeeded(&["run", "hard-thresholding", "--short", "--out", &out, "--data", &path]);
        let losses = std::fs::read_to_string(Path::new(&out).join("hard-thresholding/losses.csv")).expect("a table");
        (printed, losses)
    };
    let (printed, first) = run(&file("a.txt", false));
    assert!(printed.contains(" 0 found"), "{printed}");
    // one feature tells the label: the fit without privacy is far below ln 2, and every row has a loss
    let loss = |row: &str| row.rsplit(',').nth(3).and_then(|x| x.parse::<f64>().ok());
    let rows: Vec<&str> = first.lines().skip(1).collect();
    assert!(
        rows.len() > 10 && rows.iter().all(|r| r.starts_with("libsvm,") && loss(r).is_some_and(f64::is_finite)),
        "{first}"
    );
    assert!(rows[0].contains("not private") && loss(rows[0]).is_some_and(|x| x < 0.4), "{first}");
    // the same contents under another name: nothing is computed
    let (printed, again) = run(&file("b.txt", false));
    assert!(printed.contains(" 0 trials computed") && again == first, "{printed}");
    // other contents under the same name: nothing is found
    let (printed, other) = run(&file("a.txt", true));
    assert!(printed.contains(" 0 found") && other != first, "{printed}");
    let broken = place.path().join("broken.txt");
    std::fs::write(&broken, "+1 1:0.5\n-1 1:0.5 2:x\n").expect("writable");
    let output = reproduce(&[
        "run",
        "hard-thresholding",
        "--short",
        "--out",
        out.to_str().expect("text"),
        "--data",
        broken.to_str().expect("text"),
    ]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("line 2"));
}

#[test]
fn unknown_names_are_refused_with_the_way_out() {
    let output = reproduce(&["run", "no-such-figure", "--short"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("dpopt-reproduce list"));
}
