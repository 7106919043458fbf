//! `dpopt disclose`: what an organisation publishes about a release, made from the released file and from facts that it states.

use crate::output::{Failure, note, print};
use crate::paths::{Paths, is_standard_output};
use crate::recalls::RecallFlags;
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::data::failure;
use dpopt::disclosure::{FILL_IN, Facts, Form, Release};
use dpopt::output::{write_atomically, write_new};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What can be stated.
const FACTS: &str = "\
A file of facts is TOML with a line for each, for example:
  name = \"Incomes 2026\"
  data_curators = [\"Office of Statistics\"]
  publication_date = 2026-12-01
  intended_use = \"Research on wages\"
What is not stated is marked FILL IN. All facts: docs/disclosure.md";

#[derive(Args)]
#[command(after_help = FACTS)]
pub(crate) struct Arguments {
    /// A model, report (.json), mean or aggregate (.json)
    file: PathBuf,
    /// Where the document goes; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Which document is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Facts that no file holds: who publishes it, what for, …
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
    #[command(flatten)]
    recalls: RecallFlags,
    /// Replace a document that is there, which may have been filled in by hand
    #[arg(long)]
    overwrite: bool,
}

/// The documents that can be written.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// YAML: an entry for the registry of deployments of differential privacy (OpenDP)
    #[default]
    #[value(alias = "yaml")]
    Registry,
    /// Markdown: a checklist by NIST SP 800-226
    #[value(alias = "markdown")]
    Checklist,
    /// Markdown: a model card, with what an attacker achieves at this ε
    ModelCard,
}

impl Format {
    fn form(self) -> Form {
        match self {
            Self::Registry => Form::Registry,
            Self::Checklist => Form::Checklist,
            Self::ModelCard => Form::ModelCard,
        }
    }

    /// What it is called, and the names that its files end in.
    fn names(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Registry => ("registry entry", &["yaml", "yml"]),
            Self::Checklist => ("checklist", &["md", "markdown"]),
            Self::ModelCard => ("model card", &["md", "markdown"]),
        }
    }

    /// Refuses a name that says that something else is in the file.
    fn check(self, path: &Path) -> Result<(), Failure> {
        let Some(extension) = path.extension().filter(|_| !is_standard_output(path)) else { return Ok(()) };
        let extension = extension.to_string_lossy().to_lowercase();
        let (what, ends) = self.names();
        if extension == "txt" || ends.contains(&extension.as_str()) {
            return Ok(());
        }
        let other = match self {
            Self::Registry => "--format checklist or model-card writes .md",
            _ => "--format registry writes .yaml",
        };
        Err(usage(format!(
            "-o {}: a {what} is not .{extension}; give a name that ends in .{}, or another format: {other}",
            path.display(),
            ends[0]
        )))
    }
}

/// A regular file as it stands: a device may have no end, a pipe no beginning.
fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |why: &dyn std::fmt::Display| usage(format!("cannot read {}: {why}", path.display()));
    if !std::fs::metadata(path).map_err(|e| unreadable(&failure(&e)))?.is_file() {
        return Err(unreadable(&"it is not a regular file"));
    }
    std::fs::read(path).map_err(|e| unreadable(&failure(&e)))
}

/// What the publisher states.
fn facts(path: Option<&Path>) -> Result<Facts, Failure> {
    let Some(path) = path else { return Ok(Facts::default()) };
    let of = |why: &dyn std::fmt::Display| usage(format!("{}: {why}", path.display()));
    let text = String::from_utf8(bytes(path)?).map_err(|_| of(&"it is not text in UTF-8"))?;
    Facts::from_toml(&text).map_err(|e| of(&e))
}

/// Writes the document; one that is there stays, unless it may be replaced.
fn write(arguments: &Arguments, text: &str) -> Result<(), Failure> {
    let path = &arguments.output;
    // devices and pipes are written directly
    let device = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    let written = if arguments.overwrite || device {
        write_atomically(path, text.as_bytes())
    } else {
        write_new(path, text.as_bytes())
    };
    written.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => usage(format!(
            "{} exists and is not replaced: it may have been filled in by hand; give another name with -o, or \
             --overwrite",
            path.display()
        )),
        _ => Failure::machine(format!("cannot write {}: {}", path.display(), failure(&e))),
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = &arguments.output;
    arguments.format.check(output)?;
    Paths::default()
        .read("the file", Some(&arguments.file))
        .read("--facts", arguments.facts.as_deref())
        .read("--recalls", arguments.recalls.path())
        .written("-o", Some(output))
        .check()?;
    let name = arguments.file.display();
    let facts = facts(arguments.facts.as_deref())?;
    let release = Release::read(&bytes(&arguments.file)?).map_err(|_| {
        usage(format!(
            "{name} holds no guarantee that this version of dpopt can read; give a model, or a report or mean written \
             as .json"
        ))
    })?;
    let text = release
        .disclose(&arguments.recalls.list()?, &facts, arguments.format.form())
        .map_err(|why| usage(format!("{name}: {why}; nothing was written")))?;
    if let Some(why) = release.no_guarantee() {
        note(format!("warning: NO PRIVACY GUARANTEE: {why}; the document says so"));
    }
    if is_standard_output(output) {
        return print(&text);
    }
    write(arguments, &text)?;
    let marks = [":", ","].map(|end| format!("{FILL_IN}{end}"));
    let open: usize = marks.iter().map(|mark| text.matches(mark.as_str()).count()).sum();
    print(&format!(
        "{} of {name} to {}; {}\n",
        arguments.format.names().0,
        output.display(),
        match open {
            0 => "nothing is left to fill in".into(),
            open => format!("places marked {FILL_IN}: {open}"),
        }
    ))
}
