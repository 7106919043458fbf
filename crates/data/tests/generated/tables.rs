//! Tables in the layouts of public ones, of whole numbers that the caller draws (`below(n)` is one of 0, …, n - 1): a census as UCI's Adult, and
//! messages with their labels as UCI's SMS Spam Collection. Nobody's data is in them.

/// Names of the census's columns; the last one is the target.
pub const COLUMNS: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
];

/// Columns of whole numbers; the others hold words.
pub const NUMBERS: [usize; 6] = [0, 2, 4, 10, 11, 12];

/// The cells of a person, in the order of [`COLUMNS`].
pub type Person = [String; 15];

const WORKCLASS: [&str; 8] = [
    "Private",
    "Self-emp-not-inc",
    "Local-gov",
    "State-gov",
    "Self-emp-inc",
    "Federal-gov",
    "Without-pay",
    "Never-worked",
];
/// By years of schooling, from one.
const EDUCATION: [&str; 16] = [
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
];
const MARITAL: [&str; 4] = ["Married-civ-spouse", "Never-married", "Divorced", "Widowed"];
const OCCUPATION: [&str; 8] = [
    "Prof-specialty",
    "Craft-repair",
    "Exec-managerial",
    "Adm-clerical",
    "Sales",
    "Other-service",
    "Machine-op-inspct",
    "Priv-house-serv",
];
const RELATIONSHIP: [&str; 6] = ["Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative"];
const RACE: [&str; 5] = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"];
/// Names that a file has to quote, and letters of more than one byte, are among them.
const COUNTRY: [&str; 7] = [
    "United-States",
    "Mexico",
    "Outlying-US(Guam-USVI-etc)",
    "Trinidad, \"Tobago\"",
    "Côte-d'Ivoire",
    "Washington, \"D.C.\"",
    "日本",
];

/// One of `names`, the earlier ones more often: of two places the first.
fn one_of(names: &[&'static str], below: &mut dyn FnMut(u64) -> u64) -> String {
    let mut place = || below(names.len() as u64) as usize;
    names[place().min(place())].into()
}

/// Persons within the codebook's ranges; some did not answer (`?`). About a quarter have `>50K`: schooling, age, marriage, gains and luck decide.
pub fn census(rows: usize, below: &mut dyn FnMut(u64) -> u64) -> Vec<Person> {
    let mut person = || {
        let (age, weight, schooling) = (17 + below(74), 12_285 + below(1_472_420), 1 + below(16));
        let gain = if below(12) == 0 { 114 + below(99_886) } else { 0 };
        let loss = if below(20) == 0 { 155 + below(4202) } else { 0 };
        let hours = if below(2) == 0 { 40 } else { 1 + below(99) };
        let marital = one_of(&MARITAL, below);
        let (married, gained) = (u64::from(marital == MARITAL[0]), u64::from(gain > 0));
        let points = schooling + age / 10 + 5 * married + 8 * gained + below(12);
        let mut answered = |names: &[&'static str]| match below(16) {
            0 => "?".into(),
            _ => one_of(names, below),
        };
        let (workclass, occupation, country) = (answered(&WORKCLASS), answered(&OCCUPATION), answered(&COUNTRY));
        [
            age.to_string(),
            workclass,
            weight.to_string(),
            EDUCATION[schooling as usize - 1].into(),
            schooling.to_string(),
            marital,
            occupation,
            one_of(&RELATIONSHIP, below),
            one_of(&RACE, below),
            one_of(&["Male", "Female"], below),
            gain.to_string(),
            loss.to_string(),
            hours.to_string(),
            country,
            if points > 25 { ">50K" } else { "<=50K" }.into(),
        ]
    };
    (0..rows).map(|_| person()).collect()
}

/// A cell as a table with `separator` has it: in quotes where it has to be.
pub fn quoted(cell: &str, separator: char) -> String {
    if cell.contains([separator, '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into() }
}

/// The census as CSV with a header, as most programs write it.
pub fn csv(persons: &[Person]) -> String {
    let line = |person: &Person| person.iter().map(|cell| quoted(cell, ',')).collect::<Vec<_>>().join(",") + "\n";
    std::iter::once(COLUMNS.join(",") + "\n").chain(persons.iter().map(line)).collect()
}

/// Words of either kind of message, some with what text formats give a meaning to.
const WORDS: [&str; 24] = [
    "see",
    "you",
    "tomorrow,",
    "then;",
    "\"so",
    "he",
    "said\"",
    "I'll",
    "call",
    "mum",
    "&lt;#&gt;",
    "ok",
    "lunch",
    "at",
    "home...",
    "😀",
    "ü",
    "#1",
    "it's",
    "\"",
    "3,50",
    "no",
    "way",
    "?",
];
/// Words of unwanted messages, more often than others.
const ADVERTS: [&str; 12] =
    ["FREE", "prize", "£1000", "claim", "now!", "txt", "WIN", "urgent", "call", "reply", "guaranteed", "cash"];

/// Labels `ham` or, of one in seven, `spam`, with texts of 3 to 26 words, numbers among them.
pub fn messages(rows: usize, below: &mut dyn FnMut(u64) -> u64) -> Vec<(&'static str, String)> {
    let mut message = || {
        let spam = below(7) == 0;
        let mut words: Vec<String> = vec![if spam { "dear" } else { "hi" }.into()];
        for _ in 0..2 + below(24) {
            words.push(match below(10) {
                0 => below(100_000).to_string(),
                n if spam && n < 7 => one_of(&ADVERTS, below),
                _ => one_of(&WORDS, below),
            });
        }
        (if spam { "spam" } else { "ham" }, words.join(" "))
    };
    (0..rows).map(|_| message()).collect()
}
