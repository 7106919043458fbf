//! The library's messages in the words of Python: keywords where the command line has flags. The one place where that is done.

/// What only makes sense on a command line, and what to do in Python. Longer texts first.
const PHRASES: [(&str, &str); 25] = [
    (
        "--bounds FILE (a bounds.toml with ranges and levels), --bounds-budget 0.1 with --numeric NAMES (spend a tenth of the budget \
         on private bounds), --public-data FILE (a table that is not sensitive)",
        "bounds={\"age\": (17, 90)} or bounds=\"bounds.toml\", levels={\"sex\": [...]}, text=[...], hashed=[...], or numeric=[...] with \
         bounds_budget=0.1 (spend a tenth of the budget on private bounds)",
    ),
    (
        "write lower and upper for them in --bounds FILE, or pass --bounds-budget 0.1, or --public-data FILE",
        "give bounds={\"age\": (17, 90)} with what is known about each, or bounds_budget=0.1 (a tenth of the budget finds them \
         privately), or list them in ignore",
    ),
    (
        "if the first line is a row, pass --no-header and --columns N",
        "if a record stands in their place, read the table without a header and name its columns",
    ),
    ("rename one of them, or pass --no-header if the first line is a row", "rename one of them"),
    (" instead, or leave out --task regression", ", or use a classifier"),
    (
        "with several classes fit one against the rest, or leave out --max-features",
        "with several classes fit one against the rest",
    ),
    (
        "declare numbers with bounds or --numeric",
        "give numbers bounds={...} or list them in numeric, and categories in hashed",
    ),
    ("pass --classes no,yes, or write", "give classes=[\"no\", \"yes\"], or (in a bounds file)"),
    ("(--classes a,b tells)", "(classes=[...] tells)"),
    (
        "tell its range, or a moment of it",
        "give target_bounds=(lower, upper), or heavy_tailed=(2, 100, 50) with a moment of it",
    ),
    ("or --ignore it", "or list it in ignore"),
    ("pass --public-vectors with that file", "give dpopt.load(path, public_vectors=...) that file"),
    ("declare one with --text NAME, or leave it out", "list one in text, or leave it out"),
    ("--bad-cells missing", "bad_cells=\"missing\""),
    ("--bad-cells error", "bad_cells=\"error\""),
    (" and a disk without room for rows beyond --memory", ""),
    ("--bounds-budget 0.1", "bounds_budget=0.1"),
    ("bounds file: [", "bounds: ["),
    ("has a header but no rows", "has no rows"),
    (
        "declare two, or use the logistic loss, which takes any number",
        "declare two, use LogisticRegression, or encode the table first: make_pipeline(TableEncoder(...), ...)",
    ),
    ("protect persons and not rows: --unit", "protect persons and not rows, fit(..., units=...) with the column"),
    (" (units in Python)", ""),
    ("--max-rows-per-unit; in Python max_rows_per_unit", "max_rows_per_unit"),
    (
        "leave --units out to count them, or use --relation add-or-remove",
        "leave n_units out to count them, or use neighbors=\"add-or-remove\"",
    ),
    ("declare the labels in the schema", "give classes=[...], which costs nothing"),
];

/// Flags whose keyword has another name.
const RENAMED: [(&str, &str); 6] = [
    ("rows", "n_rows"),
    ("units", "n_units"),
    ("unit", "units"),
    ("relation", "neighbors"),
    ("ledger", "budget"),
    ("ledger-wait", "budget"),
];

/// `text` with the keywords of Python.
pub(crate) fn in_python(text: &str) -> String {
    let mut text = text.to_string();
    for (there, here) in PHRASES {
        if text.contains(there) {
            text = text.replace(there, here);
        }
    }
    keywords(&text)
}

/// Every `--some-flag` as `some_flag`.
fn keywords(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, from) = rest.split_at(at);
        let named = &from[2..];
        let end =
            named.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')).unwrap_or(named.len());
        let name = named[..end].trim_end_matches('-');
        let starts = before.chars().next_back().is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '`' | '\''));
        out.push_str(before);
        if starts && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            let renamed = RENAMED.iter().find(|(flag, _)| *flag == name).map(|(_, keyword)| *keyword);
            out.push_str(&renamed.map_or_else(|| name.replace('-', "_"), str::to_string));
            rest = &named[name.len()..];
        } else {
            out.push_str("--");
            rest = named;
        }
    }
    out.push_str(rest);
    out
}

/// A report in the words of Python; its style sheet has dashes of its own.
pub(crate) fn report_in_python(html: &str) -> String {
    html.replace("(--insecure-seed)", "(insecure_seed)")
}
