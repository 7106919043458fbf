//! Neighbouring tables: one record is usual, has no content, or is hostile; all others stay.

/// In every cell of a hostile record that takes text.
pub(crate) const CANARY_TEXT: &str = "zqxcanary7731977";
/// In every cell of a hostile record that takes a number.
pub(crate) const CANARY_NUMBER: &str = "7731977.25";
/// What must not be found anywhere: part of both.
pub(crate) const CANARY: &str = "7731977";

/// What kind of answer is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    Binary,
    Classes,
    Regression,
    /// A regression of counts by the Poisson loss.
    Counts,
    /// A regression of a quantile.
    Quantile,
    /// Rows of a LIBSVM file with two classes.
    Sparse,
    /// LIBSVM rows without a label of use: a mean.
    Mean,
    /// A mean of columns of numbers.
    MeanTable,
    /// A mean of columns of numbers by unit: the last column says whose a row is, and each unit has three.
    MeanOfUnits,
    /// Two classes by unit, in the same way.
    BinaryOfUnits,
    /// The last two columns say who own a row, and all rows of one owner change; a mean.
    MeanOfOwners,
    /// Two classes, in the same way.
    BinaryOfOwners,
}

impl Task {
    /// Whether a number is predicted.
    fn is_of_numbers(self) -> bool {
        matches!(self, Self::Regression | Self::Counts | Self::Quantile)
    }

    /// Whether a row has two owners.
    pub(crate) fn has_owners(self) -> bool {
        matches!(self, Self::MeanOfOwners | Self::BinaryOfOwners)
    }

    /// Whether a column says whose a row is.
    pub(crate) fn has_units(self) -> bool {
        matches!(self, Self::MeanOfUnits | Self::BinaryOfUnits)
    }
}

/// The usual records around the one that changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Others {
    Usual,
    /// Their target is missing, so that they contribute nothing.
    WithoutTarget,
}

/// How one record is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Record {
    Usual,
    /// Nothing in it: what zero-out puts in a record's place.
    Blank,
    /// Not there (add-or-remove only).
    Absent,
    /// 1e308 wherever a number is.
    Huge,
    /// Readable, but far outside, of an unknown category.
    Outlier,
    /// The record is an outlier, with an undeclared label.
    UnknownLabel,
    /// Far out on the wrong side.
    Contradicting,
    NotANumber,
    Text,
    /// A line without a byte.
    Empty,
    Short,
    Long,
    OpenQuote,
    NotText,
    /// One cell of 60 MB.
    Endless,
}

/// Records that stop a run whose options make it stop at cells it cannot read.
pub(crate) const UNREADABLE: [Record; 9] = [
    Record::NotANumber,
    Record::Text,
    Record::Empty,
    Record::Short,
    Record::Long,
    Record::OpenQuote,
    Record::NotText,
    Record::UnknownLabel,
    Record::Endless,
];

/// The table in which the record at `at` is as `record`.
pub(crate) fn table(task: Task, rows: usize, at: usize, record: Record, others: Others, header: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let sparse = matches!(task, Task::Sparse | Task::Mean);
    if header && !sparse {
        out.extend_from_slice(names(task));
    }
    for i in 0..rows {
        let changes = i == at || (task.has_owners() && owners(i, rows).contains(&owners(at, rows)[0]));
        let line = match (changes, sparse) {
            (true, _) if record == Record::Absent => continue,
            (true, true) if record != Record::Usual => hostile_sparse(record),
            (_, true) => usual_sparse(i),
            (true, false) if record != Record::Usual => hostile(task, i, record),
            (false, false) if others == Others::WithoutTarget => format!("{},1,red,", (i % 11) as f64 / 10.0).into(),
            (_, false) => usual(task, i),
        };
        out.extend_from_slice(&line);
        if task.has_owners() {
            // who own a row is known
            let [from, to] = owners(i, rows);
            out.extend_from_slice(format!(",{from},{to}").as_bytes());
        }
        if task.has_units() {
            // of a table by unit, one row changes: whose it is does not, where it can be read
            out.extend_from_slice(format!(",{}", i % (rows / 3)).as_bytes());
        }
        out.push(b'\n');
    }
    out
}

/// The header line of the table of a task.
pub(crate) fn names(task: Task) -> &'static [u8] {
    match (task.has_owners(), task.has_units()) {
        (true, _) => b"a,b,c,y,from,to\n",
        (_, true) => b"a,b,c,y,unit\n",
        _ => b"a,b,c,y\n",
    }
}

/// Who own row `i`: each of some fifty has three rows in the first place and about as many in the second.
fn owners(i: usize, rows: usize) -> [usize; 2] {
    [i % (rows / 3), (i * i + 7) % (rows / 3)]
}

fn label(task: Task, i: usize) -> String {
    match task {
        Task::Binary | Task::BinaryOfUnits | Task::BinaryOfOwners => if i % 11 > 5 { "yes" } else { "no" }.into(),
        Task::Classes => ["no", "perhaps", "yes"][(i % 11) / 4].into(),
        Task::Counts => format!("{}", (i % 11) / 3 + i % 3),
        _ => format!("{}", (i % 11) as f64 / 10.0 + (i % 3) as f64 * 0.01),
    }
}

fn usual(task: Task, i: usize) -> Vec<u8> {
    let c = match task {
        Task::MeanTable | Task::MeanOfUnits | Task::MeanOfOwners => ["0.5", "0.25", "0"][i % 3],
        _ => ["red", "blue", "green"][i % 3],
    };
    format!("{},{},{c},{}", (i % 11) as f64 / 10.0, i % 7, label(task, i)).into()
}

fn usual_sparse(i: usize) -> Vec<u8> {
    format!("{} {}:1 {}:0.5 {}:0.25", i % 2, 1 + i % 40, 41 + i % 13, 60 + (i * i) % 30).into()
}

fn hostile(task: Task, i: usize, record: Record) -> Vec<u8> {
    let number = CANARY_NUMBER;
    // a table of numbers takes no text that could be read
    let readable =
        matches!(task, Task::MeanTable | Task::MeanOfUnits | Task::MeanOfOwners) && !UNREADABLE.contains(&record);
    let (text, red) = if readable { (CANARY_NUMBER, "7") } else { (CANARY_TEXT, "red") };
    let y = label(task, i);
    let other = match task {
        Task::Binary | Task::BinaryOfUnits | Task::BinaryOfOwners if y == "yes" => "no".to_string(),
        task if task.is_of_numbers() => "1e300".into(),
        _ => "yes".into(),
    };
    let unreadable = if task.is_of_numbers() { text } else { &y };
    match record {
        Record::Usual | Record::Absent => usual(task, i),
        Record::Blank => b",,,".to_vec(),
        Record::Huge if task.is_of_numbers() => b"1e308,-1e308,red,1e308".to_vec(),
        Record::Huge => format!("1e308,-1e308,{red},{y}").into(),
        Record::Outlier => format!("{number},-{number},{text},{y}").into(),
        Record::UnknownLabel => format!("{number},-{number},{text},{text}").into(),
        Record::Contradicting => format!("-{number},{number},{text},{other}").into(),
        Record::NotANumber => format!("NaN,inf,{text},{y}").into(),
        Record::Text => format!("{text},{text},{text},{unreadable}").into(),
        Record::Empty => Vec::new(),
        Record::Short => number.into(),
        Record::Long => format!("{number},{number},{text},{y},{text},{number},{number}").into(),
        Record::OpenQuote => format!("{number},{number},\"{text},{y}").into(),
        Record::NotText => {
            [b"\xff\xfe\0".as_slice(), number.as_bytes(), b",\0,", text.as_bytes(), b"\xc3(,", y.as_bytes()].concat()
        }
        Record::Endless => [number.as_bytes(), b",1,", &vec![b'x'; 60 << 20], b",", y.as_bytes()].concat(),
    }
}

fn hostile_sparse(record: Record) -> Vec<u8> {
    let (number, text) = (CANARY_NUMBER, CANARY_TEXT);
    match record {
        Record::Usual | Record::Absent | Record::Empty => Vec::new(),
        // a label that is none of the declared ones, and no entry
        Record::Blank => b"nan".to_vec(),
        Record::Huge => b"1 1:1e38 2:-1e38 90:1e38".to_vec(),
        Record::Outlier => format!("1 5:{number} 6:-{number} 90:{number}").into(),
        Record::UnknownLabel => format!("{number} 5:{number}").into(),
        Record::Contradicting => {
            let every: Vec<String> = (1..=90).map(|j| format!("{j}:{number}")).collect();
            format!("0 {}", every.join(" ")).into()
        }
        Record::NotANumber => b"1 1:NaN 2:inf".to_vec(),
        Record::Text => format!("{text} {text}:{text}").into(),
        Record::Short => format!("1 {number}").into(),
        Record::Long => format!("1 99999999:{number} 0:{number}").into(),
        Record::OpenQuote => format!("1 \"5:{number}").into(),
        Record::NotText => [b"1 \xff\xfe\0:".as_slice(), number.as_bytes()].concat(),
        Record::Endless => [b"1 1:".as_slice(), &vec![b'9'; 60 << 20]].concat(),
    }
}
