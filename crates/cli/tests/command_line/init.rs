//! `dpopt init` writes a bounds file from the names of columns, and from nothing else.

use crate::written::{optional, table};
use crate::{dpopt, files, refuse, succeed};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use std::path::Path;

/// Columns of [`wide`].
pub(crate) const WIDE: usize = 55;

/// Numbers, categories, categories that nobody lists, texts, columns of no use, and the target.
fn names() -> Vec<String> {
    let many = |kind: &'static str, count| (1..=count).map(move |i| format!("{kind}{i}"));
    let odd = ["person id", "größe", "note.to.self", "y"].map(String::from);
    many("n", 30).chain(many("k", 15)).chain(many("h", 4)).chain(many("t", 2)).chain(odd).collect()
}

/// `wide.csv`: a table of 55 columns.
pub(crate) fn wide(directory: &Path, rows: usize) {
    let cell = |name: &str, row: usize| match name.chars().next() {
        _ if name == "y" => ["no", "yes"][row * 31 % 50 / 25].to_string(),
        Some('n') if name != "note.to.self" => (row * 31 % 50).to_string(),
        Some('k') => ["a", "b", "c"][row * 7 % 3].to_string(),
        _ => format!("word{}", row * 17 % 11),
    };
    let row = |row| names().iter().map(|name| cell(name, row)).collect::<Vec<_>>().join(",");
    let rows: String = (0..rows).map(|i| row(i) + "\n").collect();
    std::fs::write(directory.join("wide.csv"), format!("{}\n{rows}", names().join(","))).unwrap();
}

/// A person keeps one choice of each section: takes the mark of a comment from its lines, and fills in what they ask for.
fn fill(directory: &Path, chosen: &dyn Fn(&str) -> &'static [&'static str]) {
    let path = directory.join("bounds.toml");
    let (mut text, mut keys) = (String::new(), &[][..]);
    for line in std::fs::read_to_string(&path).unwrap().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            keys = chosen(name.trim_matches('"'));
        }
        let key = line.strip_prefix("# ").and_then(|rest| rest.split_once(" = ")).map(|(key, _)| key);
        let keep = key.is_some_and(|key| keys.contains(&key));
        let line = if keep { &line[2..] } else { line };
        let levels =
            if keys == ["levels"] && text.contains("[y]") { "[\"no\", \"yes\"]" } else { "[\"a\", \"b\", \"c\"]" };
        let line = if keep { line.replace("[\"FILL IN\", \"FILL IN\"]", levels) } else { line.into() };
        let number = if line.starts_with("lower") { "0" } else { "50" };
        text += &(if keep { line.replace("\"FILL IN\"", number) } else { line } + "\n");
    }
    std::fs::write(path, text).unwrap();
}

fn kind_of(name: &str) -> &'static [&'static str] {
    match name.chars().next() {
        _ if ["person id", "größe", "note.to.self"].contains(&name) => &["ignore"],
        Some('n') => &["lower", "upper"],
        Some('k' | 'y') => &["levels"],
        Some('h') => &["hash"],
        _ => &["text"],
    }
}

/// Writes the bounds file of [`wide`] and fills it in.
pub(crate) fn filled_in(directory: &Path) {
    succeed(directory, &["init", "wide.csv", "--target", "y"]);
    fill(directory, &kind_of);
}

/// Runs a command on a pipe that delivers the header `x,y` and then stays open: a reader that asks for a row waits for ever. Whether the command succeeds within a
/// minute.
#[cfg(unix)]
pub(crate) fn header_then_silence(directory: &Path, pipe: &Path, arguments: &[&str]) -> bool {
    use std::time::{Duration, Instant};
    let mut child = crate::command(directory, arguments).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut writer = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
    std::io::Write::write_all(&mut writer, b"x,y\n").unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn written(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("bounds.toml")).unwrap()
}

#[test]
fn every_column_has_a_section_and_the_file_is_complete_once_each_is_filled_in() {
    let d = tempfile::tempdir().unwrap();
    wide(d.path(), 300);
    let printed = succeed(d.path(), &["init", "wide.csv", "--target", "y"]);
    let check = "dpopt check wide.csv --target y --epsilon 1 --bounds bounds.toml";
    assert!(printed.starts_with("55 columns of wide.csv to bounds.toml; no row was read\n"), "{printed}");
    assert!(printed.ends_with(&format!("then {check}\n")), "{printed}");
    let empty = written(d.path());
    assert_eq!(empty.lines().filter(|line| line.starts_with('[')).count(), WIDE, "{empty}");
    // nothing is chosen for anybody
    assert!(empty.lines().all(|line| line.is_empty() || line.starts_with(['#', '['])), "{empty}");
    let check: Vec<&str> = check.split(' ').skip(1).collect();
    let run = || {
        let output = dpopt(d.path(), &check);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, open) = run();
    assert_eq!(code, Some(2), "{open}");
    assert!(open.contains("open     bounds.toml: nothing is chosen yet for 55 of 55 columns (`n1`, `n2`, "), "{open}");
    assert!(open.contains(" and 43 more); keep one choice") && open.contains("next     fill it in"), "{open}");
    // halfway: a choice without its values is open too
    std::fs::write(
        d.path().join("bounds.toml"),
        empty.replace("[n1]\n# lower", "[n1]\nlower").replace("[k1]\n", "[k1]\nhash = true\n"),
    )
    .unwrap();
    let (code, open) = run();
    assert_eq!(code, Some(2), "{open}");
    assert!(open.contains("53 of 55 columns") && open.contains("\"FILL IN\" still stands in `n1` lower\n"), "{open}");
    std::fs::write(d.path().join("bounds.toml"), empty).unwrap();
    fill(d.path(), &kind_of);
    let (code, done) = run();
    assert_eq!(code, Some(0), "{done}");
    assert!(!done.contains("open  ") && done.contains("nothing stands in the way"), "{done}");
    // the next command is a fit that runs
    let next = done.lines().find_map(|line| line.strip_prefix("next     dpopt ")).unwrap();
    assert_eq!(next, "fit wide.csv --target y --epsilon 1 --bounds bounds.toml");
    succeed(d.path(), &next.split(' ').collect::<Vec<_>>());
    assert!(files(d.path()).contains(&"model.json".to_string()));
}

#[test]
fn no_row_is_read() {
    let d = tempfile::tempdir().unwrap();
    // ragged, binary, an unclosed quote: any look at a value would fail
    let rows: [&[u8]; 3] = [b"7731977,POISON\n\xff\xfe,,,,\n\"never closed", b"1,2\n", b""];
    let mut all = rows.map(|rows| {
        std::fs::write(d.path().join("t.csv"), [b"x,\"the, target\"\n", rows].concat()).unwrap();
        let printed = succeed(d.path(), &["init", "t.csv", "--target", "the, target"]);
        let text = written(d.path());
        std::fs::remove_file(d.path().join("bounds.toml")).unwrap();
        printed + &text
    });
    assert!(all[0].contains("[x]\n") && all[0].contains("[\"the, target\"]\n# the column to learn"), "{}", all[0]);
    all.sort();
    assert_eq!(all[0], all[2], "what is written depends on rows");
    // of Parquet the footer: its pages are rubbish, and it says what is stored
    let leaves = |salt: f64| -> Vec<Box<dyn crate::written::Leaf>> {
        vec![
            optional::<DoubleType>((0..90).map(|i| Some(7731977.0 + salt * f64::from(i)))),
            optional::<ByteArrayType>((0..90).map(|i| Some(ByteArray::from(&*format!("POISON{i}"))))),
            optional::<BoolType>((0..90).map(|i| Some(i % 2 == 0))),
        ]
    };
    let columns = "OPTIONAL DOUBLE x;OPTIONAL BYTE_ARRAY name (UTF8);OPTIONAL BOOLEAN flag;";
    let parquet = |salt| table(columns, WriterProperties::builder(), &[leaves(salt)]);
    let texts = [1.0, 2.0].map(|salt| {
        let mut bytes = parquet(salt);
        let footer = bytes.len() - 8 - u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
        bytes[4..footer].fill(0xff);
        std::fs::write(d.path().join("t.parquet"), bytes).unwrap();
        succeed(d.path(), &["init", "t.parquet", "-o", "-"])
    });
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].contains("[x]\n# stored as a number\n# lower") && texts[0].contains("# [flag]\n"), "{}", texts[0]);
    assert!(!texts[0].contains("7731977") && !texts[0].contains("POISON"), "{}", texts[0]);
}

#[cfg(unix)]
#[test]
fn nothing_behind_the_header_is_asked_for() {
    let d = tempfile::tempdir().unwrap();
    let pipe = d.path().join("t.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(header_then_silence(d.path(), &pipe, &["init", "t.csv", "--target", "y"]), "init waited for a row");
    assert!(written(d.path()).contains("[x]\n# lower"));
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("t.csv"), "x,y\n1,2\n").unwrap();
    std::fs::write(d.path().join("bounds.toml"), "somebody's work").unwrap();
    let line = refuse(d.path(), &["init", "t.csv"]);
    let way_out = "bounds.toml exists and is not replaced; to use it: dpopt check t.csv --target COLUMN --epsilon 1 \
                   --bounds bounds.toml; to write another file: -o bounds-2.toml";
    assert!(line.ends_with(way_out), "{line}");
    assert_eq!(written(d.path()), "somebody's work");
    #[cfg(unix)]
    {
        // also where a link leads to nothing yet
        std::os::unix::fs::symlink("nowhere.toml", d.path().join("link.toml")).unwrap();
        assert!(refuse(d.path(), &["init", "t.csv", "-o", "link.toml"]).contains("exists"));
        std::fs::remove_file(d.path().join("link.toml")).unwrap();
    }
    // under another name, which the next command knows
    let printed = succeed(d.path(), &["init", "t.csv", "-o", "mine.toml"]);
    assert!(printed.ends_with("then dpopt check t.csv --bounds mine.toml --target COLUMN --epsilon 1\n"), "{printed}");
    assert_eq!(files(d.path()), ["bounds.toml", "mine.toml", "t.csv"]);
    for (arguments, part) in [
        (&["t.csv", "-o", "mine.csv"][..], "ends in .toml"),
        (&["t.csv", "-o", "new.toml", "--bad-cells", "error"], "--bad-cells is about rows"),
        (&["t.csv", "-o", "new.toml", "--target", "z"], "`z` is not a column"),
        (&["missing.csv", "-o", "new.toml"], "no such file"),
        // what is wrong with the table comes before a name that is taken
        (&["missing.csv"], "no such file"),
        (&["t.csv", "--target", "z"], "`z` is not a column"),
        (&["t.csv", "-o", "new.toml", "--no-header"], "--columns"),
    ] {
        let line = refuse(d.path(), &[&["init"], arguments].concat());
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
    assert_eq!(files(d.path()), ["bounds.toml", "mine.toml", "t.csv"]);
    // a first line that may be a record is not told, the footer of a Parquet file is
    std::fs::write(d.path().join("r.csv"), "CANARYa,CANARYb\n").unwrap();
    let line = refuse(d.path(), &["init", "r.csv", "--target", "CANARYc"]);
    assert!(!line.contains("CANARYa") && line.contains("write it as the first line does"), "{line}");
    let leaves: Vec<Box<dyn crate::written::Leaf>> = vec![optional::<DoubleType>((0..9).map(|i| Some(f64::from(i))))];
    let parquet = table("OPTIONAL DOUBLE income;", WriterProperties::builder(), &[leaves]);
    std::fs::write(d.path().join("p.parquet"), parquet).unwrap();
    let line = refuse(d.path(), &["init", "p.parquet", "--target", "incom"]);
    assert!(line.contains("`incom` is not a column of p.parquet, did you mean `income`?; it has `income`"), "{line}");
    for file in ["r.csv", "p.parquet"] {
        std::fs::remove_file(d.path().join(file)).unwrap();
    }
    assert_eq!(files(d.path()), ["bounds.toml", "mine.toml", "t.csv"]);
    let numbered = succeed(d.path(), &["init", "t.csv", "--no-header", "--columns", "2", "-o", "-"]);
    assert!(numbered.contains("[c1]\n") && numbered.contains("[c2]\n") && !numbered.contains("[x]"), "{numbered}");
}
