//! Which runs are compared: methods × relations × tasks × options that are extreme but allowed.

use crate::neighbours::{Others, Record, Task, UNREADABLE};
use dpopt_methods::registry;

/// A command and the records that must not change what is seen of it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) task: Task,
    pub(crate) rows: usize,
    /// Place of the record that changes.
    pub(crate) at: usize,
    pub(crate) others: Others,
    /// How it may be besides usual.
    pub(crate) records: Vec<Record>,
    pub(crate) header: bool,
    /// Two files instead of one.
    pub(crate) shards: bool,
    pub(crate) bounds: String,
    /// What `v.txt` holds: public vectors of words. Empty: there is no such file.
    pub(crate) vectors: &'static str,
}

impl Case {
    /// Whether its noise comes from a seed; that of a run with a ledger is secret.
    pub(crate) fn is_seeded(&self) -> bool {
        self.arguments.iter().any(|word| word == "--insecure-seed")
    }
}

/// Public vectors of the words that usual records hold, and of one word that no text holds.
const VECTORS: &str = "red 1 0 2\nblue 0 2 1\ngreen 1 1 3\nyellow 2 0 0\n";

/// An option (or some together) and what has to be so that it makes sense.
struct Choice {
    name: &'static str,
    flags: &'static [&'static str],
    /// Cells that cannot be read are missing, so that nothing about a record may be seen.
    unreadable: bool,
    /// The labels, the ranges of the columns are not declared.
    labels: bool,
    ranges: bool,
    report: bool,
    header: bool,
    shards: bool,
    /// Charged to a ledger, for which noise must be real.
    ledger: bool,
}

const PLAIN: Choice = Choice {
    name: "plain",
    flags: &[],
    unreadable: false,
    labels: true,
    ranges: true,
    report: false,
    header: true,
    shards: false,
    ledger: false,
};
const MISSING: [&str; 2] = ["--bad-cells", "missing"];
const LEDGER: [&str; 6] = ["--ledger", "l.jsonl", "--total-epsilon", "9", "--total-delta", "1e-3"];

const CHOICES: [Choice; 19] = [
    PLAIN,
    Choice { name: "missing", flags: &MISSING, unreadable: true, ..PLAIN },
    Choice { name: "report", flags: &MISSING, unreadable: true, report: true, ..PLAIN },
    Choice { name: "clip .01", flags: &["--clip-norm", "0.01"], ..PLAIN },
    Choice { name: "lambda 1e-9", flags: &["--regularization", "1e-9"], ..PLAIN },
    Choice { name: "lambda 1e9", flags: &["--regularization", "1e9"], ..PLAIN },
    Choice { name: "q = 1", flags: &["--sampling-probability", "1"], ..PLAIN },
    Choice { name: "memory", flags: &["--memory", "1K", "--bad-cells", "missing"], unreadable: true, ..PLAIN },
    Choice {
        name: "headerless",
        flags: &["--no-header", "--bad-cells", "missing"],
        unreadable: true,
        header: false,
        ..PLAIN
    },
    Choice { name: "shards", flags: &MISSING, unreadable: true, shards: true, ..PLAIN },
    Choice { name: "private labels", flags: &MISSING, unreadable: true, labels: false, ..PLAIN },
    Choice {
        name: "private ranges",
        flags: &["--bad-cells", "missing", "--numeric", "a,b", "--bounds-budget", "0.3"],
        unreadable: true,
        ranges: false,
        ..PLAIN
    },
    Choice { name: "ledger", flags: &LEDGER, ledger: true, report: true, ..PLAIN },
    Choice { name: "large steps", flags: &["--learning-rate", "1e300"], ..PLAIN },
    Choice { name: "one step", flags: &["--steps", "1"], ..PLAIN },
    Choice { name: "pure", flags: &["--delta", "0"], ..PLAIN },
    Choice { name: "epsilon .001", flags: &["--epsilon", "0.001"], ..PLAIN },
    Choice { name: "epsilon 80", flags: &["--epsilon", "80"], ..PLAIN },
    Choice { name: "momentum", flags: &["--momentum", "0.999999"], ..PLAIN },
];

const RELATIONS: [&str; 3] = ["zero-out", "replace-one", "add-or-remove"];
const TASKS: [Task; 4] = [Task::Binary, Task::Classes, Task::Regression, Task::Sparse];
const FEW_FEATURES: [&str; 5] = ["dp-gd-ht", "dp-sgd-ht", "dp-svrg-ht", "dp-scsg-ht", "peeling"];
const EMBEDDINGS: [&[&str]; 3] = [
    &["--model", "embedding", "--embedding-dim", "3", "--steps", "20"],
    &["--model", "embedding", "--embedding-dim", "3", "--steps", "20", "--select-rows"],
    &["--model", "two-tower", "--embedding-dim", "3", "--steps", "20"],
];
const MEANS: [&str; 6] = ["auto", "projected-gaussian", "projected-laplace", "l1-recovery", "of-moments", "of-orders"];

/// Methods in the order in which parts were first taken of their cases, references among the others: a part stays the same part.
fn methods() -> Vec<&'static str> {
    let mut all: Vec<&'static str> = std::iter::once("auto").chain(registry().names()).collect();
    for (reference, place) in [("last-iterate", 11), ("bias-reduced-sgd", 20), ("phased-sgd", 21), ("clipped-sgd", 22)]
    {
        let at = all.iter().position(|name| *name == reference).expect("a method");
        let name = all.remove(at);
        all.insert(place, name);
    }
    all
}

/// All of them, or a part in which every method, relation, task and option comes up; `only` keeps names with all its words.
pub(crate) fn all(full: bool, only: &[String]) -> Vec<Case> {
    let methods = methods();
    let methods = || methods.iter().copied();
    let mut cases = Vec::new();
    let mut turn = 0;
    for (m, method) in methods().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (t, &task) in TASKS.iter().enumerate() {
                for (o, option) in CHOICES.iter().enumerate() {
                    // every method with four options, relation and task in turn
                    let part = (o + 3 * m) % 19 < 4 && r == (o + m) % 3 && t == (o + 2 * m) % 4;
                    if full || part {
                        let mut own: Vec<String> = vec!["--method".into(), method.into()];
                        if FEW_FEATURES.contains(&method) {
                            own.extend(["--max-features".into(), "2".into()]);
                        }
                        // its planned runs take up to twenty seconds
                        if method == "bias-reduced-sgd" && !full && !option.flags.contains(&"--steps") {
                            own.extend(["--steps".into(), "40".into()]);
                        }
                        turn += 1;
                        cases.extend(fit(method, &own, relation, task, option, turn, full));
                    }
                }
            }
        }
    }
    // by unit: every method with one option and relation in turn, clipped as a plan would have it or row by row
    for (m, method) in methods().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (o, option) in CHOICES.iter().enumerate() {
                if full || (r == m % 3 && o == (5 * m + 1) % 19) || (method == "auto" && r == o % 3) {
                    let mut own: Vec<String> = vec!["--method".into(), method.into()];
                    if FEW_FEATURES.contains(&method) {
                        own.extend(["--max-features".into(), "2".into()]);
                    }
                    if o % 2 == 0 {
                        own.extend(["--max-rows-per-unit".into(), "2".into()]);
                    }
                    turn += 1;
                    cases.extend(fit(method, &own, relation, Task::BinaryOfUnits, option, turn, full));
                }
            }
        }
    }
    for (e, form) in EMBEDDINGS.iter().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (o, option) in CHOICES.iter().enumerate() {
                for task in [Task::Binary, Task::Sparse] {
                    let odd = (task == Task::Sparse) != (o % 2 == 0);
                    if full || (r == (o + e) % 3 && o % 3 == e && odd) {
                        let mut own: Vec<String> = form.iter().map(|f| (*f).into()).collect();
                        if form[1] == "two-tower" {
                            let (users, items) = match (task, option.header) {
                                (Task::Sparse, _) => ("1-40", "41-90"),
                                (_, true) => ("a,b", "c"),
                                (_, false) => ("c1,c2", "c3"),
                            };
                            own.extend(["--user-columns", users, "--item-columns", items].map(String::from));
                        }
                        turn += 1;
                        cases.extend(fit(&form.join(" "), &own, relation, task, option, turn, full));
                    }
                }
            }
        }
    }
    for (m, method) in MEANS.iter().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (o, option) in CHOICES.iter().enumerate() {
                for task in [Task::Mean, Task::MeanTable, Task::MeanOfUnits] {
                    if full || r == (o + m) % 3 {
                        turn += 1;
                        cases.extend(mean(method, relation, task, option, turn));
                    }
                }
            }
        }
    }
    for (r, relation) in RELATIONS.iter().enumerate() {
        for (o, option) in CHOICES.iter().enumerate() {
            for task in [Task::MeanTable, Task::MeanOfUnits] {
                let odd = (task == Task::MeanOfUnits) == (o % 2 == 1);
                if full || (r == o % 3 && odd) || option.name == "missing" {
                    turn += 1;
                    cases.extend(aggregate(relation, task, option, turn));
                }
            }
        }
    }
    cases.extend(of_owners(full));
    cases.extend(with_loss(Task::Counts, &["--loss", "poisson"], 1, full));
    cases.extend(with_loss(Task::Quantile, &["--loss", "quantile", "--quantile", "0.9"], 2, full));
    cases.extend(intervals(full));
    cases.extend(many_rows(full));
    cases.extend(public_vectors(full));
    cases.extend(workers(full));
    cases.retain(|c| only.iter().all(|word| c.name.contains(word)));
    cases
}

/// A regression by `loss`: every method with one option and relation in turn, and the usual one with all options. `first` says where turns begin.
fn with_loss(task: Task, loss: &[&str], first: usize, full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, method) in methods().into_iter().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (o, option) in CHOICES.iter().enumerate() {
                let turn = r == (m + first) % 3 && o == (7 * m + 2 * first) % 19;
                if full || turn || (method == "auto" && r == o % 3) {
                    let mut own: Vec<String> = vec!["--method".into(), method.into()];
                    if FEW_FEATURES.contains(&method) {
                        own.extend(["--max-features".into(), "2".into()]);
                    }
                    own.extend(["--task", "regression"].iter().chain(loss).map(ToString::to_string));
                    cases.extend(fit(method, &own, relation, task, option, cases.len(), full));
                }
            }
        }
    }
    cases
}

/// Prediction intervals: every method with one option and relation in turn, and the usual one with all options.
fn intervals(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, method) in methods().into_iter().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (o, option) in CHOICES.iter().enumerate() {
                if full || (r == (m + 2) % 3 && o == (3 * m + 1) % 19) || (method == "auto" && r == o % 3) {
                    let mut own: Vec<String> = vec!["--method".into(), method.into()];
                    if FEW_FEATURES.contains(&method) {
                        own.extend(["--max-features".into(), "2".into()]);
                    }
                    // of so few rows a higher level is refused
                    own.extend(["--task", "regression", "--intervals", "0.7"].map(String::from));
                    let name = format!("{method} with intervals");
                    cases.extend(fit(&name, &own, relation, Task::Regression, option, cases.len(), full));
                }
            }
        }
    }
    cases
}

/// How a record may be where `option` and `relation` hold.
fn records(relation: &str, task: Task, option: &Choice, full: bool) -> Vec<Record> {
    let mut records = vec![Record::Blank, Record::Huge, Record::Outlier, Record::Contradicting];
    if relation == "add-or-remove" {
        records.push(Record::Absent);
    }
    if task == Task::Sparse && !option.unreadable {
        // a label that is no number stops a run whose options say so
        records.retain(|r| *r != Record::Blank);
    }
    if option.unreadable {
        records.extend(UNREADABLE.iter().filter(|r| full || **r != Record::Endless));
    }
    records
}

fn bounds(task: Task, option: &Choice) -> String {
    if matches!(task, Task::Sparse | Task::Mean | Task::MeanTable | Task::MeanOfUnits | Task::MeanOfOwners) {
        return String::new();
    }
    let names = if option.header { ["a", "b", "c", "y"] } else { ["c1", "c2", "c3", "c4"] };
    let mut text = String::new();
    if option.ranges {
        text += &format!("[{}]\nlower = 0\nupper = 1\n[{}]\nlower = 0\nupper = 6\n", names[0], names[1]);
    }
    text += &format!("[{}]\nlevels = ['red', 'blue', 'green']\n", names[2]);
    match task {
        Task::Quantile if option.ranges => text += &format!("[{}]\nlower = 0\nupper = 1\n", names[3]),
        Task::Regression => text += &format!("[{}]\nlower = 0\nupper = 1\n", names[3]),
        // without ranges that of the counts is found too
        Task::Counts if option.ranges => text += &format!("[{}]\nlower = 0\nupper = 8\n", names[3]),
        Task::Binary | Task::BinaryOfUnits | Task::BinaryOfOwners if option.labels => {
            text += &format!("[{}]\nlevels = ['no', 'yes']\n", names[3])
        }
        Task::Classes if option.labels => text += &format!("[{}]\nlevels = ['no', 'perhaps', 'yes']\n", names[3]),
        _ => {}
    }
    text
}

/// The flags that all runs have, unless `option` says otherwise.
fn common(arguments: &mut Vec<String>, relation: &str, option: &Choice) {
    let given = |flag: &str| option.flags.contains(&flag);
    let mut add = |flags: &[&str]| arguments.extend(flags.iter().map(|f| f.to_string()));
    add(&["--relation", relation]);
    if relation == "add-or-remove" {
        add(&["--rows", "150"]);
    }
    if !given("--epsilon") {
        add(&["--epsilon", "2"]);
    }
    if !given("--delta") {
        add(&["--delta", "1e-6"]);
    }
    if !option.ledger {
        add(&["--insecure-seed", "7"]);
    }
    if option.report {
        add(&["--report", "r.html"]);
    }
    add(option.flags);
}

/// `command` with the table's files.
fn on_files(command: &str, sparse: bool, shards: bool) -> Vec<String> {
    let files: &[&str] = match (sparse, shards) {
        (false, false) => &["t.csv"],
        (false, true) => &["t.csv", "u.csv"],
        (true, false) => &["t.libsvm", "--features", "100"],
        (true, true) => &["t.libsvm", "u.libsvm", "--features", "100"],
    };
    [command].iter().chain(files).map(|word| word.to_string()).collect()
}

fn fit(
    method: &str,
    own: &[String],
    relation: &str,
    task: Task,
    option: &Choice,
    turn: usize,
    full: bool,
) -> Option<Case> {
    let sparse = task == Task::Sparse;
    if sparse && (!option.header || !option.ranges || !option.labels) {
        return None; // such a file has neither header nor ranges, and its labels are declared
    }
    let mut arguments = on_files("fit", sparse, option.shards);
    if sparse {
        arguments.extend(["--classes", "0,1", "--max-nonzeros", "4"].map(String::from));
    } else {
        arguments.extend(["--bounds", "b.toml", "--target", if option.header { "y" } else { "c4" }].map(String::from));
    }
    common(&mut arguments, relation, option);
    if task.has_owners() {
        arguments.extend(["--unit", "from", "--unit", "to"].map(String::from));
    }
    if task.has_units() {
        arguments.extend(["--unit", if option.header { "unit" } else { "c5" }].map(String::from));
        // as many as there are where no row can be read any more
        arguments.extend(["--units", "50"].map(String::from));
    }
    // what a method needs does not override what is tried
    let mut flags = own.iter();
    while let Some(flag) = flags.next() {
        let value = flags.as_slice().first().filter(|v| !v.starts_with("--"));
        if !arguments.contains(flag) {
            arguments.push(flag.clone());
            arguments.extend(value.cloned());
        }
        if value.is_some() {
            flags.next();
        }
    }
    let rows = 150;
    let mut kinds = records(relation, task, option, full && method == "auto");
    if full && method != "auto" {
        // three of them in turn: a method meets each in some fifty groups
        let first = 3 * turn % kinds.len();
        kinds.rotate_left(first);
        kinds.truncate(3);
    }
    Some(Case {
        name: format!("fit {method} {relation} {task:?} {}", option.name),
        arguments,
        task,
        rows,
        // in the middle, at the end of a file, at the very end
        at: [7, rows / 2 - 1, rows - 1][turn % 3],
        others: Others::Usual,
        records: kinds,
        header: option.header,
        shards: option.shards,
        bounds: bounds(task, option),
        vectors: "",
    })
}

fn mean(method: &str, relation: &str, task: Task, option: &Choice, turn: usize) -> Option<Case> {
    // flags that a mean does not have
    let known = ["plain", "missing", "report", "headerless", "shards", "ledger", "pure", "epsilon .001", "epsilon 80"];
    let sparse = task == Task::Mean;
    if !known.contains(&option.name) || (sparse && !option.header) {
        return None;
    }
    let mut arguments = on_files("mean", sparse, option.shards);
    // means of columns, with all that is known of them or with the order of the moment only
    let moment = match method {
        "of-moments" => Some("2:4@1"),
        "of-orders" => Some("2"),
        _ => None,
    };
    match moment {
        Some(_) if sparse => return None,
        Some(moment) => {
            let columns = if option.header { "a,b" } else { "c1,c2" };
            arguments.extend(["--of", columns, "--moment", moment].map(String::from));
        }
        None => arguments.extend(["--sparsity", "3"].map(String::from)),
    }
    let by_unit = task.has_units();
    if !option.header {
        arguments.extend(["--columns", if by_unit { "5" } else { "4" }].map(String::from));
    }
    if method != "auto" && moment.is_none() {
        arguments.extend(["--method", method].map(String::from));
    }
    common(&mut arguments, relation, option);
    if task.has_owners() {
        arguments.extend(["--unit", "from", "--unit", "to", "--max-rows-per-unit", "2"].map(String::from));
    }
    if by_unit {
        // a guess of units takes the place of one of rows
        arguments.iter_mut().filter(|word| *word == "--rows").for_each(|word| *word = "--units".into());
        arguments.extend(["--unit", if option.header { "unit" } else { "c5" }].map(String::from));
        if turn.is_multiple_of(2) {
            arguments.extend(["--max-rows-per-unit", "2"].map(String::from));
        }
    }
    let rows = 150;
    let mut kinds = records(relation, task, option, false);
    // labels are not used
    kinds.retain(|r| match r {
        Record::UnknownLabel | Record::Contradicting => false,
        Record::Blank => !sparse,
        _ => true,
    });
    Some(Case {
        name: format!("mean {method} {relation} {task:?} {}", option.name),
        arguments,
        task,
        rows,
        at: [7, rows / 2 - 1, rows - 1][turn % 3],
        others: Others::Usual,
        records: kinds,
        header: option.header,
        shards: option.shards,
        bounds: String::new(),
        vectors: "",
    })
}

/// A program that shows all it is given where it is not to be heard, and counts rows.
const COUNTS: &str = "sh -c 'cat \"$0\" >&2; tail -n +2 \"$0\" | wc -l' {group}";

fn aggregate(relation: &str, task: Task, option: &Choice, turn: usize) -> Option<Case> {
    let by_unit = task.has_units();
    let known = ["plain", "missing", "report", "headerless", "shards", "ledger"];
    // without a seed some group of units may be empty, which is an answer less
    if !known.contains(&option.name) || (by_unit && option.ledger) {
        return None;
    }
    let mut arguments = on_files("aggregate", false, option.shards);
    if !option.header {
        arguments.extend(["--columns", if by_unit { "5" } else { "4" }].map(String::from));
    }
    common(&mut arguments, relation, option);
    for (from, to) in [("2", "20"), ("1e-6", "1e-3"), ("9", "30")] {
        arguments.iter_mut().filter(|word| *word == from).for_each(|word| *word = to.into());
    }
    arguments.extend(["--command", COUNTS, "--groups", "15", "--range", "0:100", "--radius", "0.5"].map(String::from));
    if by_unit {
        arguments.iter_mut().filter(|word| *word == "--rows").for_each(|word| *word = "--units".into());
        arguments.extend(["--unit", if option.header { "unit" } else { "c5" }].map(String::from));
    }
    let rows = 150;
    let mut kinds = records(relation, task, option, false);
    kinds.retain(|r| !matches!(r, Record::UnknownLabel | Record::Contradicting));
    Some(Case {
        name: format!("aggregate {relation} {task:?} {}", option.name),
        arguments,
        task,
        rows,
        at: [7, rows / 2 - 1, rows - 1][turn % 3],
        others: Others::Usual,
        records: kinds,
        header: option.header,
        shards: option.shards,
        bounds: String::new(),
        vectors: "",
    })
}

/// Rows with two owners, of one of whom all rows change. Whose a row is stays as it is, and can be read.
fn of_owners(full: bool) -> Vec<Case> {
    const UNOWNED: [Record; 5] = [Record::Empty, Record::Short, Record::Long, Record::OpenQuote, Record::NotText];
    let mut cases = Vec::new();
    let files = |option: &&Choice| option.header && !option.shards;
    for (o, option) in CHOICES.iter().filter(files).enumerate() {
        for (r, relation) in RELATIONS[..2].iter().enumerate() {
            if !full && r != o % 2 {
                continue;
            }
            // for one row of each, methods are planned in no time
            let own = ["--max-rows-per-unit", if full && o % 3 == 0 { "2" } else { "1" }].map(String::from);
            cases.extend(fit("auto", &own, relation, Task::BinaryOfOwners, option, o, full));
            cases.extend(mean("auto", relation, Task::MeanOfOwners, option, o));
        }
    }
    for case in &mut cases {
        case.records.retain(|record| !UNOWNED.contains(record));
    }
    cases
}

/// Tables so large, against clips and regularisation so small, that a certificate is hard to reach.
fn many_rows(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let methods = ["output-perturbation", "objective-perturbation", "auto", "sparse-output-perturbation"];
    let tries: [(&str, usize, &[&str], Others); 5] = [
        ("clip .01", 40_000, &["--clip-norm", "0.01"], Others::Usual),
        ("one target", 40_000, &[], Others::WithoutTarget),
        ("one target, clip .01", 40_000, &["--clip-norm", "0.01"], Others::WithoutTarget),
        ("lambda 1e-6", 5_000, &["--regularization", "1e-6"], Others::Usual),
        ("lambda 1e-6, one target", 5_000, &["--regularization", "1e-6"], Others::WithoutTarget),
    ];
    for (m, method) in methods.iter().enumerate() {
        for (k, &(name, rows, flags, others)) in tries.iter().enumerate() {
            for task in [Task::Regression, Task::Binary] {
                let in_short_walk = task == Task::Regression && m < 2 && k != 2;
                if !full && !in_short_walk {
                    continue;
                }
                let option = Choice { name, flags, ..PLAIN };
                let own = ["--method".to_string(), method.to_string()];
                let made = fit(method, &own, "zero-out", task, &option, 0, false);
                cases.extend(made.map(|case| Case { name: format!("many rows: {}", case.name), rows, others, ..case }));
            }
        }
    }
    cases
}

/// A column of texts that become other people's public vectors.
fn public_vectors(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let stop = Choice { name: "public vectors", flags: &["--public-vectors", "v.txt"], ..PLAIN };
    let missing = Choice {
        name: "public vectors, missing",
        flags: &["--public-vectors", "v.txt", "--bad-cells", "missing"],
        unreadable: true,
        report: true,
        ..PLAIN
    };
    for (r, relation) in RELATIONS.iter().enumerate() {
        for (t, task) in [Task::Binary, Task::Classes, Task::Regression].into_iter().enumerate() {
            for option in [&stop, &missing] {
                if full || t == r {
                    let made = fit("auto", &[], relation, task, option, t, full);
                    cases.extend(made.map(|case| Case {
                        bounds: case.bounds.replace("levels = ['red', 'blue', 'green']", "text = true"),
                        vectors: VECTORS,
                        ..case
                    }));
                }
            }
        }
    }
    cases
}

/// Rows in the hands of two processes, by files and by blocks of one.
fn workers(full: bool) -> Vec<Case> {
    const FLAGS: [&str; 4] = ["--workers", "2", "--bad-cells", "missing"];
    let mut cases = Vec::new();
    let blocks = Choice { name: "workers", flags: &FLAGS, unreadable: true, ..PLAIN };
    let by_file =
        Choice { name: "workers, shards", flags: &FLAGS, unreadable: true, shards: true, report: true, ..PLAIN };
    let methods = ["noisy-gradient-descent", "noisy-sgd", "objective-perturbation", "sufficient-statistics", "auto"];
    for (m, method) in methods.iter().enumerate() {
        for (r, relation) in RELATIONS.iter().enumerate() {
            for (t, &task) in TASKS.iter().enumerate() {
                for option in [&blocks, &by_file] {
                    if full || (t == (m + r) % 4 && option.shards == (r == 1)) {
                        let own = ["--method".to_string(), method.to_string()];
                        cases.extend(fit(method, &own, relation, task, option, m + r + t, full));
                    }
                }
            }
        }
    }
    cases
}
