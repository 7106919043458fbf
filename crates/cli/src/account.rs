//! `dpopt account`: what mechanisms cost under every accountant, and the noise, sampling rate or steps that meet a budget.

mod plot;

use crate::output::{Failure, print, print_json, table};
use crate::paths::Paths;
use crate::relation::RelationFlag;
use crate::typed::{arguments as given, typed};
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::data::failure;
use dpopt::optimize::options::nearest;
use dpopt::output::write_atomically;
use dpopt::report::{number, probability};
use dpopt_privacy::accountant::{self, AccountingError, Bound};
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::expression::{self, ExpressionError, Free, Mechanism};
use dpopt_privacy::rounding::{probability_up, six_digits_up};
use dpopt_privacy::{Budget, Event, Neighbours, Relation, Shown, calibrate};
use serde::Serialize;
use std::path::PathBuf;

/// What follows the names of mechanisms in the help.
const AFTER_NAMES: &str = "\
  M x 1000,  M + M',  ( M )     repeated, composed, grouped
  ?                             the number to find: a noise, e.g. gaussian(?), an epsilon, mu or rho, a sampling
                                probability, poisson(?, M), a number of steps, M x ?, or a sample's size

Examples:
  dpopt account 'gaussian(1.1)' --delta 1e-6
  dpopt account 'poisson(0.01, gaussian(1)) x 1000' 'laplace(20)' --delta 1e-5
  dpopt account 'poisson(256/60000, gaussian(?)) x 10000' --epsilon 1 --delta 1e-5
  dpopt account 'poisson(256/60000, gaussian(1)) x ?' --find steps --epsilon 1 --delta 1e-5
  dpopt account 'poisson(?, gaussian(1)) x 1000' --find sampling-rate --epsilon 1 --delta 1e-5";

/// The language of mechanisms, one a line.
fn language() -> String {
    let names: String = expression::mechanisms()
        .iter()
        .map(|mechanism| format!("  {:<29} {}\n", mechanism.written, mechanism.meaning))
        .collect();
    format!("The language of mechanisms:\n{names}{AFTER_NAMES}")
}

#[derive(Args)]
#[command(after_help = language())]
pub(crate) struct Arguments {
    /// Mechanisms; several are composed
    #[arg(value_name = "MECHANISM")]
    mechanisms: Vec<String>,
    /// Another mechanism (may be repeated)
    #[arg(long = "mechanism", value_name = "MECHANISM")]
    more: Vec<String>,
    /// An event as JSON, as the report prints it or dp_accounting writes it (may be repeated)
    #[arg(long, value_name = "FILE")]
    event: Vec<PathBuf>,
    /// ε at this δ
    #[arg(long, allow_negative_numbers = true)]
    delta: Option<f64>,
    /// δ at this ε; with --delta, whether the budget holds
    #[arg(long, allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// Not needed: the place of `?` says what it stands for, and the least noise, or the largest sampling rate,
    /// number of steps, sample size or ε, μ, ρ that meets --epsilon and --delta is found. With --find, a `?` of another
    /// kind is an error
    #[arg(long)]
    find: Option<Find>,
    /// Which tables are neighbours
    #[arg(long, value_enum, default_value_t)]
    relation: RelationFlag,
    /// Draw the trade-off curve, ε over the steps and ε by every accountant into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// What `--find` looks for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Find {
    /// The least noise
    Noise,
    /// The largest sampling probability
    #[value(alias = "sampling-probability")]
    SamplingRate,
    /// The largest number of steps
    Steps,
    /// The largest sample of fixed size
    SampleSize,
    /// The largest ε, μ, ρ or decay
    Cost,
}

impl From<Free> for Find {
    fn from(free: Free) -> Self {
        match free {
            Free::Noise => Self::Noise,
            Free::Cost => Self::Cost,
            Free::SamplingProbability => Self::SamplingRate,
            Free::Steps => Self::Steps,
            Free::SampleSize { .. } => Self::SampleSize,
        }
    }
}

impl Find {
    /// The name on the command line, and the name in messages.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Noise => ("noise", "a noise"),
            Self::SamplingRate => ("sampling-rate", "a sampling rate"),
            Self::Steps => ("steps", "a number of steps"),
            Self::SampleSize => ("sample-size", "the size of a sample"),
            Self::Cost => ("cost", "an epsilon, mu, rho or decay"),
        }
    }
}

/// What is computed: ε at a given δ, or δ at a given ε.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Wanted {
    Epsilon { delta: f64 },
    Delta { epsilon: f64 },
}

#[derive(Serialize)]
struct Answer {
    event: Event,
    formula: String,
    relation: Relation,
    query: Wanted,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found_is: Option<Find>,
    /// The search ended at its largest number of steps; more may fit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    search_ended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    within_budget: Option<bool>,
    best: Option<Bound>,
    accountants: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_supported: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let paths = Paths::default().written("--plot", arguments.plot.as_deref());
    arguments.event.iter().fold(paths, |paths, event| paths.read("--event", Some(event))).check()?;
    let relation = Relation::from(arguments.relation);
    let texts: Vec<&String> = arguments.mechanisms.iter().chain(&arguments.more).collect();
    let from_files = arguments.event.iter().map(read_event).collect::<Result<Vec<_>, _>>()?;
    if texts.is_empty() && from_files.is_empty() {
        return Err(usage("give a mechanism such as 'gaussian(1.1)', or --event event.json"));
    }
    // a mistake in a mechanism is told before what else is missing
    let mut free = vec![];
    for text in &texts {
        free.extend(expression::free_parameters(text).map_err(|e| no_event(text, &e))?);
    }
    free.dedup();
    let budget = match (arguments.epsilon, arguments.delta) {
        (None, None) => return Err(nothing_asked(!free.is_empty())),
        // everything is (0, 1)-private: no budget, but a question with an answer
        (None, Some(1.0)) => Budget::new(1.0, 0.0).map_err(usage)?,
        (epsilon, delta) => Budget::new(epsilon.unwrap_or(1.0), delta.unwrap_or(0.0)).map_err(usage)?,
    };
    let event_of = |unknown: Option<f64>| -> Result<Event, Failure> {
        let mut events = from_files.clone();
        for text in &texts {
            events.push(expression::parse(text, unknown).map_err(|e| no_event(text, &e))?);
        }
        Ok(if events.len() == 1 { events.remove(0) } else { Event::composed(events) })
    };
    let found = if !free.is_empty() || arguments.find.is_some() {
        Some(find(arguments, &free, relation, budget, &event_of)?)
    } else {
        None
    };
    let event = event_of(found.map(|(value, _)| value))?;
    event.check(relation).map_err(usage)?;
    let query = match (arguments.epsilon, arguments.delta) {
        (Some(epsilon), None) => Wanted::Delta { epsilon },
        (_, Some(delta)) => Wanted::Epsilon { delta },
        (None, None) => Wanted::Epsilon { delta: budget.delta() },
    };
    if let Some(path) = &arguments.plot {
        let delta = arguments.delta.ok_or_else(|| usage("--plot draws ε at a δ: give --delta"))?;
        crate::written::document("--plot", path, "an SVG picture", "svg")?;
        let picture = plot::svg(&event, relation, delta).map_err(usage)?;
        write_atomically(path, picture.as_bytes())
            .map_err(|e| usage(format!("cannot write {}: {}", path.display(), failure(&e))))?;
    }
    let answer = answer(event, relation, query, found, arguments.epsilon);
    if arguments.json {
        print_json(&answer)?
    } else {
        print(&shown(&answer))?
    }
    match (&answer.best, answer.within_budget) {
        (None, _) => Err(usage("no accountant supports this mechanism; the table lists the reasons")),
        (Some(best), Some(false)) => Err(usage(format!(
            "the mechanism costs epsilon {} at delta {}, more than the budget's {}; {}",
            number_up(best.upper),
            probability_up(budget.delta()),
            Shown(budget.epsilon()),
            match (texts.as_slice(), from_files.as_slice()) {
                ([text], []) => least_noise(text, relation, budget),
                _ => None,
            }
            .unwrap_or_else(|| "add noise, or raise --epsilon or --delta".into())
        ))),
        _ => Ok(()),
    }
}

/// What is wrong with the text of a mechanism, with the nearest name for one that is none.
pub(crate) fn no_event(text: &str, error: &ExpressionError) -> Failure {
    let Some(name) = &error.name else { return usage(format!("`{text}`: {error}")) };
    if expression::mechanism(name).is_some() {
        // its parameters are missing
        return usage(&error.message);
    }
    let names: Vec<&str> = expression::mechanisms().iter().map(Mechanism::name).collect();
    let near =
        nearest(&name.to_ascii_lowercase(), &names).map_or(String::new(), |near| format!(", did you mean `{near}`?"));
    usage(format!("`{name}` is not a mechanism{near}; dpopt account --help lists all"))
}

/// Neither ε nor δ was given: what each of them is for.
fn nothing_asked(searches: bool) -> Failure {
    let (ways, flags): (_, &[&str]) = match searches {
        true => ("to find `?` give both --epsilon and --delta", &["--epsilon", "1", "--delta", "1e-6"]),
        false => ("give --delta 1e-6 to get ε, --epsilon 1 to get δ, or both to check a budget", &["--delta", "1e-6"]),
    };
    let command = typed(given().into_iter().chain(flags.iter().map(|flag| flag.to_string())).collect());
    usage(format!("{ways}; for example: {command}"))
}

/// Length of the name or number at the beginning of a text.
fn word(text: &str) -> usize {
    let number = text.starts_with(|c: char| c.is_ascii_digit());
    let mut previous = ' ';
    text.find(|c: char| {
        let exponent = number && matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
        previous = c;
        !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || exponent)
    })
    .unwrap_or(text.len())
}

/// The command that finds the least noise of a mechanism, if one number in its text is a noise and no other.
fn least_noise(text: &str, relation: Relation, budget: Budget) -> Option<String> {
    let mut marked = vec![];
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_alphanumeric()).map(|next| at + next) {
        at = start + word(&text[start..]);
        let with_mark = format!("{}?{}", &text[..start], &text[at..]);
        let is_noise = expression::free_parameters(&with_mark).is_ok_and(|free| free == [Free::Noise]);
        marked.extend(is_noise.then_some(with_mark));
    }
    let [marked] = marked.as_slice() else { return None };
    let mut words = vec!["account".to_owned(), marked.clone()];
    words.extend(["--epsilon".to_owned(), budget.epsilon().to_string()]);
    words.extend(["--delta".to_owned(), format!("{:e}", budget.delta())]);
    if relation != Relation::ZeroOut {
        words.extend(["--relation".to_owned(), relation.to_string()]);
    }
    Some(format!("the least noise that fits: {}", typed(words)))
}

fn read_event(path: &PathBuf) -> Result<Event, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|e| usage(format!("cannot read {}: {}", path.display(), failure(&e))))?;
    serde_json::from_str(&text).map_err(|e| usage(format!("{} is not an event: {e}", path.display())))
}

fn find(
    arguments: &Arguments,
    free: &[Free],
    relation: Relation,
    budget: Budget,
    event_of: &dyn Fn(Option<f64>) -> Result<Event, Failure>,
) -> Result<(f64, Find), Failure> {
    let Some(&first) = free.first() else {
        return Err(usage("mark the number to find with `?`, for example 'poisson(0.01, gaussian(?)) x 1000'"));
    };
    let what = Find::from(first);
    if let Some(other) = free.iter().find(|f| **f != first) {
        let (a, b) = (what.names().1, Find::from(*other).names().1);
        return Err(usage(format!("one `?` is {a} and another {b}; mark one number, or several of one kind")));
    }
    if let Some(asked) = arguments.find.filter(|asked| *asked != what) {
        let (flag, marked) = (asked.names().0, what.names());
        return Err(usage(format!(
            "--find {flag}, but the `?` is {}; move the `?` or write --find {}",
            marked.1, marked.0
        )));
    }
    let (Some(_), Some(_)) = (arguments.epsilon, arguments.delta) else {
        return Err(usage("to find `?` give both --epsilon and --delta"));
    };
    event_of(Some(1.0))?.check(relation).map_err(usage)?; // any other mistake in the text is reported here
    let mechanism = |x: f64| event_of(Some(x)).unwrap_or(Event::NonPrivate);
    let counted = |n: u64| mechanism(n as f64);
    // a price is a price whoever is protected
    let terms = Neighbours::of_records(relation).within(budget);
    // each search ends with a certificate of the value that it returns
    let found = match first {
        Free::Noise => calibrate::noise(mechanism, terms).map(|f| f.0),
        Free::Cost => calibrate::cost(mechanism, terms).map(|f| f.0),
        Free::SamplingProbability => calibrate::sampling_probability(mechanism, terms).map(|f| f.0),
        Free::Steps => calibrate::steps(counted, terms).map(|f| f.0 as f64),
        Free::SampleSize { of } => calibrate::count(counted, of, terms).map(|f| f.0 as f64),
    };
    found.map(|value| (value, what)).map_err(|e| not_found(what, e))
}

/// Why no value of the number meets the budget.
fn not_found(what: Find, error: CertifyError) -> Failure {
    let most_private = match what {
        Find::Noise => format!("not even noise {:e} is enough", calibrate::NOISE_RANGE.1),
        Find::SamplingRate => format!("not even a sampling rate of {:e} is low enough", calibrate::LEAST_PROBABILITY),
        Find::Steps => "not even one step fits".to_owned(),
        Find::SampleSize => "not even a sample of one record fits".to_owned(),
        Find::Cost => format!("not even {:e} is small enough", calibrate::COST_RANGE.0),
    };
    match error {
        CertifyError::OverBudget { .. } | CertifyError::Accounting(AccountingError::Unreachable(_)) => {
            usage(format!("{most_private}: {error}"))
        }
        other => usage(other),
    }
}

fn answer(event: Event, relation: Relation, query: Wanted, found: Option<(f64, Find)>, epsilon: Option<f64>) -> Answer {
    let answers = match query {
        Wanted::Epsilon { delta } => accountant::compare(&event, relation, delta),
        Wanted::Delta { epsilon } => accountant::compare_delta(&event, relation, epsilon),
    };
    let line = |(name, answer)| match answer {
        Ok(bound) => Line { name, bound: Some(bound), not_supported: None },
        Err(e) => Line { name, bound: None, not_supported: Some(reason(e)) },
    };
    let mut accountants: Vec<Line> = answers.into_iter().map(line).collect();
    if accountants.iter().all(|l| l.bound.is_none()) {
        // without any protection the number is known all the same
        let known = match query {
            Wanted::Epsilon { delta } => accountant::epsilon(&event, relation, delta),
            Wanted::Delta { epsilon } => accountant::delta(&event, relation, epsilon),
        };
        accountants.extend(known.ok().map(|bound| Line { name: "none", bound: Some(bound), not_supported: None }));
    }
    let best = accountants.iter().filter_map(|l| l.bound.as_ref()).min_by(|a, b| a.upper.total_cmp(&b.upper)).cloned();
    let within_budget = match (query, epsilon, &best) {
        (Wanted::Epsilon { .. }, Some(allowed), Some(best)) => Some(best.upper <= allowed),
        _ => None,
    };
    let (found, found_is) = (found.map(|f| f.0), found.map(|f| f.1));
    let search_ended = found_is == Some(Find::Steps) && found.is_some_and(|n| n >= calibrate::MAX_STEPS as f64);
    let formula = event.to_string();
    Answer { formula, event, relation, query, found, found_is, search_ended, within_budget, best, accountants }
}

/// The accountant's name and the relation are in the table already.
fn reason(error: AccountingError) -> String {
    match error {
        AccountingError::Unsupported { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The answer, what was asked, and then every accountant: first those that have a number.
fn shown(answer: &Answer) -> String {
    let mut out = String::new();
    if let (Some(found), Some(what)) = (answer.found, answer.found_is) {
        out.push_str(&format!("found       ? = {found} ({})\n", what.names().0));
        if answer.search_ended {
            out.push_str(&format!("            the search ends at {found}; more steps may fit\n"));
        }
    }
    if let Some(best) = &answer.best {
        let value = number_up(best.upper);
        let costs = match answer.query {
            Wanted::Epsilon { delta } => format!("epsilon {value} at delta {}", probability_up(delta)),
            Wanted::Delta { epsilon } => format!("delta {value} at epsilon {}", six_digits_up(epsilon)),
        };
        let within = match answer.within_budget {
            Some(true) => ", within the budget",
            Some(false) => ", NOT within the budget",
            None => "",
        };
        let by = if best.accountant == "none" { "nothing is protected" } else { best.accountant.as_str() };
        out.push_str(&format!("answer      {costs} ({by}){within}\n"));
    }
    out.push_str(&format!("mechanism   {}\nneighbours  {}\n\n", answer.formula, answer.relation));
    let asked = match answer.query {
        Wanted::Epsilon { delta } => format!("ε at δ = {}", probability(delta)),
        Wanted::Delta { epsilon } => format!("δ at ε = {}", number(epsilon)),
    };
    let best = answer.best.as_ref().map(|b| b.accountant.as_str());
    let (with, without): (Vec<_>, Vec<_>) = answer.accountants.iter().partition(|line| line.bound.is_some());
    let rows: Vec<Vec<String>> = with
        .into_iter()
        .chain(without)
        .map(|line| match (&line.bound, &line.not_supported) {
            (Some(bound), _) => vec![
                line.name.to_string(),
                number_up(bound.upper),
                bound.lower.map_or("-".into(), show_down),
                if best == Some(bound.accountant.as_str()) { "tightest".into() } else { String::new() },
            ],
            (None, why) => {
                vec![line.name.to_string(), format!("not supported: {}", brief(why.as_deref().unwrap_or_default()))]
            }
        })
        .collect();
    out.push_str(&table(&["accountant", &format!("#{asked}"), "#lower bound", ""], &rows));
    out
}

/// Why an accountant has no number, without the advice to use one that stands in the same table.
fn brief(reason: &str) -> String {
    let reason = reason.split("; use the ").next().unwrap_or(reason);
    match reason.strip_suffix(" is not concentrated at every order") {
        Some(event) => format!("no finite ρ bounds {event} at every order"),
        None => reason.into(),
    }
}

/// Six significant digits, rounded up: never less than the bound.
fn number_up(x: f64) -> String {
    digits(x, f64::ceil)
}

/// Six significant digits, rounded down.
fn show_down(x: f64) -> String {
    digits(x, f64::floor)
}

fn digits(x: f64, round: fn(f64) -> f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let exponent = x.abs().log10().floor() as i32;
    let scale = 10f64.powi(5 - exponent);
    if !scale.is_finite() || scale == 0.0 {
        return format!("{x:e}");
    }
    let text = format!("{:.5e}", round(x * scale) / scale);
    let value: f64 = text.parse().unwrap_or(x);
    if (-4..7).contains(&exponent) { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_never_understate() {
        assert_eq!(number_up(1.23456701), "1.23457");
        assert_eq!(number_up(1.2345600001), "1.23457");
        assert_eq!(show_down(1.23456999), "1.23456");
        assert_eq!(number_up(1.0e-7), "1e-7");
        assert_eq!(number_up(0.0), "0");
        assert_eq!(number_up(f64::INFINITY), "inf");
    }
}
