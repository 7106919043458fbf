//! Runs the groups: a table with a usual record, and its neighbours.

use crate::cases::Case;
use crate::neighbours::{Record, Task, names, table};
use crate::observe::{Observed, difference, run};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So often a difference between runs of secret noise is looked for again. What a record does is there each time; what noise does is not: nine of its
/// digits in a row are the canary's in one run of 10⁵ digits with probability 1e-4, three times in one of 4,000 pairs with 4e-9.
const AGAIN: usize = 2;

/// How many pairs of runs on neighbours were compared, and what differed.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) pairs: usize,
    pub(crate) differing: usize,
    pub(crate) groups: usize,
    /// Groups that are refused, with the same words for every record.
    pub(crate) refused: usize,
    /// The longest run, and of which case.
    pub(crate) slowest: (f64, String),
}

/// Writes the files that a case reads; returns their names.
pub(crate) fn write(directory: &Path, case: &Case, record: Record) -> Vec<&'static str> {
    let all = table(case.task, case.rows, case.at, record, case.others, case.header);
    let sparse = matches!(case.task, Task::Sparse | Task::Mean);
    let (first, second) = if sparse { ("t.libsvm", "u.libsvm") } else { ("t.csv", "u.csv") };
    let mut written = vec![first];
    if case.shards {
        // after the line of record rows/2 − 1, found in the usual table; the rest is the same in all neighbours
        let usual = table(case.task, case.rows, case.at, Record::Usual, case.others, case.header);
        let lines = usual.split_inclusive(|b| *b == b'\n');
        let rest: usize = lines.skip(case.rows / 2 + usize::from(case.header && !sparse)).map(<[u8]>::len).sum();
        // the record may lie in the second file
        let grown = if case.at >= case.rows / 2 { all.len() - usual.len().min(all.len()) } else { 0 };
        let shrunk = if case.at >= case.rows / 2 { usual.len() - all.len().min(usual.len()) } else { 0 };
        let (one, two) = all.split_at(all.len() - (rest + grown - shrunk));
        std::fs::write(directory.join(first), one).expect("written");
        let header: &[u8] = if case.header && !sparse { names(case.task) } else { b"" };
        std::fs::write(directory.join(second), [header, two].concat()).expect("written");
        written.push(second);
    } else {
        std::fs::write(directory.join(first), all).expect("written");
    }
    if !case.bounds.is_empty() {
        std::fs::write(directory.join("b.toml"), &case.bounds).expect("written");
        written.push("b.toml");
    }
    if !case.vectors.is_empty() {
        std::fs::write(directory.join("v.txt"), case.vectors).expect("written");
        written.push("v.txt");
    }
    written
}

fn observe(directory: &Path, case: &Case, record: Record) -> (Observed, f64) {
    let inputs = write(directory, case, record);
    let seen = run(directory, &case.arguments, &inputs);
    for name in inputs {
        std::fs::remove_file(directory.join(name)).expect("removed");
    }
    seen
}

/// What tells a run from that on the usual table, and what must be in none.
fn apart(usual: &Observed, seen: &Observed) -> Vec<String> {
    let mut wrong = Vec::from_iter(difference(usual, seen));
    wrong.extend((!seen.leaks.is_empty()).then(|| format!("the canary is in {}", seen.leaks.join(", "))));
    // two runs that do not end look the same, and are still no answer
    wrong.extend((seen.code.is_none() && usual.code.is_none()).then(|| "does not end".to_string()));
    wrong
}

fn group(directory: &Path, case: &Case, compared: &Mutex<Compared>) {
    let (usual, seconds) = observe(directory, case, Record::Usual);
    let mut slowest = seconds;
    let mut differences = Vec::new();
    let mut differing = 0;
    for &record in &case.records {
        let (seen, seconds) = observe(directory, case, record);
        slowest = slowest.max(seconds);
        let mut wrong = apart(&usual, &seen);
        let mut again = if case.is_seeded() { 0 } else { AGAIN };
        while !wrong.is_empty() && again > 0 {
            let (usual, _) = observe(directory, case, Record::Usual);
            wrong = apart(&usual, &observe(directory, case, record).0);
            again -= 1;
        }
        differing += usize::from(!wrong.is_empty());
        differences
            .extend(wrong.iter().map(|w| format!("{} / {record:?} at {} of {}: {w}", case.name, case.at, case.rows)));
    }
    for line in &differences {
        println!("DIFFERS {line}");
    }
    let mut all = compared.lock().expect("no panic elsewhere");
    all.pairs += case.records.len();
    all.groups += 1;
    all.differing += differing;
    all.refused += usize::from(usual.code == Some(2) && differing == 0);
    if slowest > all.slowest.0 {
        all.slowest = (slowest, case.name.clone());
    }
}

/// All groups, on as many threads as there are cores.
pub(crate) fn compare(cases: &[Case]) -> Compared {
    let compared = Mutex::new(Compared::default());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let directory = tempfile::tempdir().expect("a directory");
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(i) else { break };
                    group(directory.path(), case, &compared);
                    if (i + 1).is_multiple_of(250) {
                        println!("{} of {} groups", i + 1, cases.len());
                    }
                }
            });
        }
    });
    compared.into_inner().expect("no panic elsewhere")
}
