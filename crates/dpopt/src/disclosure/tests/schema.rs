//! The facts of the registry's schema: fields, types, what is required and which values are allowed. From schemas/deployments-schema.yaml of
//! github.com/opendp/deployments-registry-data (MIT license) at commit 3e9c812a of 2026-07-15; written down here, not copied. And a reader of the
//! subset of YAML in which entries are written.

use std::collections::BTreeMap;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Map(BTreeMap<String, Node>),
    List(Vec<String>),
    Text(String),
    /// Without quotes: a number or a word.
    Plain(String),
}

impl Node {
    /// The value at a path of keys.
    pub(super) fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |node, key| match node {
            Self::Map(map) => map.get(key),
            _ => None,
        })
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Plain(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }
}

/// Reads a document; whatever is not of the subset fails the test.
pub(super) fn parse(text: &str) -> Node {
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    let node = map(&lines, &mut at, 0);
    assert_eq!(at, lines.len(), "line {}: {}", at + 1, lines.get(at).unwrap_or(&""));
    node
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn map(lines: &[&str], at: &mut usize, depth: usize) -> Node {
    let mut found = BTreeMap::new();
    while let Some(line) = lines.get(*at) {
        if line.trim_start().starts_with('#') {
            *at += 1;
            continue;
        }
        if indent(line) < depth {
            break;
        }
        assert_eq!(indent(line), depth, "{line}");
        let (key, value) = line.trim_start().split_once(':').expect("a key");
        *at += 1;
        let value = match value.trim_start() {
            "" if lines.get(*at).is_some_and(|next| next.trim_start().starts_with("- ")) => list(lines, at, depth + 2),
            "" => map(lines, at, depth + 2),
            "|-" => block(lines, at, depth + 2),
            value => scalar(value),
        };
        assert!(found.insert(key.to_string(), value).is_none(), "{key} occurs twice");
    }
    Node::Map(found)
}

fn list(lines: &[&str], at: &mut usize, depth: usize) -> Node {
    let mut items = Vec::new();
    while let Some(item) =
        lines.get(*at).filter(|line| indent(line) == depth).and_then(|l| l[depth..].strip_prefix("- "))
    {
        items.push(scalar(item).text().to_string());
        *at += 1;
    }
    Node::List(items)
}

fn block(lines: &[&str], at: &mut usize, depth: usize) -> Node {
    let mut text = Vec::new();
    while let Some(line) = lines.get(*at).filter(|line| line.is_empty() || indent(line) >= depth) {
        text.push(line.get(depth..).unwrap_or(""));
        *at += 1;
    }
    assert!(text.first().is_some_and(|first| !first.starts_with(' ')), "{text:?}");
    Node::Text(text.join("\n").trim_end().to_string())
}

fn scalar(text: &str) -> Node {
    let Some(quoted) = text.strip_prefix('"') else {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        assert!(text.chars().all(plain), "{text} needs quotes");
        return Node::Plain(text.into());
    };
    let (mut out, mut rest) = (String::new(), quoted.chars());
    loop {
        match rest.next().expect("an end of the quotes") {
            '"' => break,
            '\\' => out.push(rest.next().filter(|c| "\\\"".contains(*c)).expect("an escape of the subset")),
            c => out.push(c),
        }
    }
    assert_eq!(rest.as_str(), "", "{text}");
    Node::Text(out)
}

/// What a field may be.
enum Kind {
    Text,
    /// Texts, at least one.
    Texts,
    Number,
    Whole(&'static [&'static str]),
    Day,
    OneOf(&'static [&'static str]),
}

const STATUS: &[&str] = &[
    "Converted",
    "Draft",
    "Pending",
    "Changes Required",
    "Approved",
    "Approved (Update Requested)",
    "Approved (Pending)",
];
const PRODUCTS: &[&str] =
    &["Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries"];
const VARIANTS: &[&str] = &["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"];

/// Every field by its path, whether it is required, and what it may be. No other field is allowed.
const FIELDS: &[(&str, bool, Kind)] = &[
    ("url_slug", true, Kind::Text),
    ("status", true, Kind::OneOf(STATUS)),
    ("tier", true, Kind::Whole(&["1", "2", "3"])),
    ("deployment/basic/name", true, Kind::Text),
    ("deployment/basic/data_curators", true, Kind::Texts),
    ("deployment/basic/intended_use", true, Kind::Text),
    ("deployment/basic/data_product_type", true, Kind::OneOf(PRODUCTS)),
    ("deployment/basic/data_product_region", true, Kind::Text),
    ("deployment/basic/description", true, Kind::Text),
    ("deployment/basic/publication_date", true, Kind::Day),
    (
        "deployment/basic/data_product_sector",
        false,
        Kind::OneOf(&["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]),
    ),
    ("deployment/dp_variant/variant_name", false, Kind::OneOf(VARIANTS)),
    ("deployment/dp_variant/data_domain", false, Kind::Text),
    ("deployment/dp_variant/unprotected_quantities", false, Kind::Text),
    ("deployment/privacy_loss/privacy_unit", false, Kind::Text),
    ("deployment/privacy_loss/privacy_unit_details", false, Kind::Text),
    ("deployment/privacy_loss/privacy_parameters/epsilon", false, Kind::Number),
    ("deployment/privacy_loss/privacy_parameters/delta", false, Kind::Number),
    ("deployment/privacy_loss/privacy_parameters/rho", false, Kind::Number),
    ("deployment/privacy_loss/privacy_parameters_details", false, Kind::Text),
    (
        "deployment/deployment_model/model_name",
        false,
        Kind::OneOf(&["Local", "Central", "Shuffle", "Federated", "Varies"]),
    ),
    ("deployment/deployment_model/model_name_details", false, Kind::Text),
    ("deployment/deployment_model/actors", false, Kind::Text),
    ("deployment/deployment_model/release_type", false, Kind::OneOf(&["One release", "Many releases"])),
    ("deployment/deployment_model/release_type_details", false, Kind::Text),
    ("deployment/deployment_model/data_source_type", false, Kind::OneOf(&["Static", "Dynamic"])),
    ("deployment/deployment_model/data_source_type_details", false, Kind::Text),
    ("deployment/deployment_model/access_type", false, Kind::OneOf(&["Interactive", "Non-interactive"])),
    ("deployment/deployment_model/access_type_details", false, Kind::Text),
    ("deployment/accounting/post_processing", false, Kind::Text),
    ("deployment/accounting/composition", false, Kind::Text),
    ("deployment/implementation/preprocessing_and_hyperparameter_tuning", false, Kind::Text),
    ("deployment/implementation/mechanisms", false, Kind::Text),
    ("deployment/implementation/justification", false, Kind::Text),
    ("deployment/administrative/sources", false, Kind::Text),
    ("deployment/administrative/notes", false, Kind::Text),
    // required where there is an administrative part, which there always is
    ("deployment/administrative/registry_authors", true, Kind::Texts),
];

/// What the schema would refuse.
pub(super) fn faults(entry: &Node) -> Vec<String> {
    let mut faults = Vec::new();
    let missing = FIELDS.iter().filter(|(path, required, _)| *required && entry.at(path).is_none());
    faults.extend(missing.map(|(path, ..)| format!("{path} is missing")));
    fields(entry, "", &mut faults);
    faults
}

fn fields(node: &Node, path: &str, faults: &mut Vec<String>) {
    if let Node::Map(map) = node {
        if map.is_empty() {
            faults.push(format!("{path} is empty"));
        }
        for (key, value) in map {
            fields(value, format!("{path}/{key}").trim_start_matches('/'), faults);
        }
        return;
    }
    let Some((.., kind)) = FIELDS.iter().find(|(known, ..)| *known == path) else {
        return faults.push(format!("{path} is no field"));
    };
    let fits = match (kind, node) {
        (Kind::Text, Node::Text(_)) => true,
        (Kind::Texts, Node::List(items)) => !items.is_empty(),
        // what readers of YAML 1.1 take for a number has a point in its mantissa
        (Kind::Number, Node::Plain(text)) => text.parse::<f64>().is_ok() && (!text.contains('e') || text.contains('.')),
        (Kind::Whole(values), Node::Plain(text)) => values.contains(&text.as_str()),
        (Kind::Day, Node::Text(text)) => {
            text.len() == 10 && text.split('-').map(|part| part.parse::<u32>().map_or(0, |_| part.len())).eq([4, 2, 2])
        }
        (Kind::OneOf(values), Node::Text(text) | Node::Plain(text)) => values.contains(&text.as_str()),
        _ => false,
    };
    if !fits {
        faults.push(format!("{path}: {node:?}"));
    }
    // the registry's checks take two backslashes for a formula that was escaped twice
    if let Node::Text(text) = node
        && text.contains("\\\\")
    {
        faults.push(format!("{path} holds two backslashes"));
    }
}
