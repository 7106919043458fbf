//! `dpopt-self-audit`: what the audits would catch, and what the library proves about itself.
#![forbid(unsafe_code)]

mod date;
mod tables;

use clap::Parser;
use dpopt_bar::Bar;
use dpopt_data::{failure, output};
use dpopt_self_audit::Tier;
use dpopt_self_audit::document::AuditRun;
use dpopt_self_audit::kept::{Kept, Origin};
use dpopt_self_audit::{catalogue, library, samplers};
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Audit the library itself: injected faults must be caught, correct code must pass.
#[derive(Parser)]
#[command(name = "dpopt-self-audit", version)]
#[command(after_help = "\
Exit code 0 if nothing was missed, violated or short; 1 if something was, or could not be written; 2 for wrong flags.
How to read the tables: docs/audit.md.

Examples:
  dpopt-self-audit --short
  dpopt-self-audit --only 20.30 --only noisy-sgd --seed 2
  dpopt-self-audit --keep rows.jsonl --write docs/audits")]
struct Arguments {
    /// A few seeds (some minutes of CPU) instead of up to 100
    #[arg(long)]
    short: bool,
    /// Only bugs whose number, and rows whose name, contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Write DATE.md, DATE.json and the trade-off curves (pictures/*.svg) into this directory; names end in -seed-N with another
    /// seed
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Keep each row in this file as soon as it is done. A run that was broken off goes on there; when all is written, the file is
    /// removed
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Seed of the catalogue
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

/// Why the command stopped: one line and an exit code.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The flags are wrong. Exit code 2.
    fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// An audit failed, or the machine did. Exit code 1.
    fn machine(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let handled = ctrlc::set_handler(|| {
        output::remove_unfinished();
        std::process::exit(130);
    });
    if let Err(e) = handled {
        eprintln!("dpopt-self-audit: warning: Ctrl-C is not handled ({e})");
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            eprintln!("dpopt-self-audit: error: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let tier = if arguments.short { Tier::Short } else { Tier::Long };
    let bar = Bar::default();
    let wanted =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str()));
    let kept = keep(arguments, tier)?;
    let mut run = AuditRun {
        catalogue: catalogue::run_some(tier, arguments.seed, wanted, &kept, &bar),
        library: library::run_some(tier, arguments.seed, wanted, &kept, &bar),
        laws: samplers::run_some(tier, arguments.seed, wanted, &kept, &bar),
    };
    if let Some(failure) = kept.failure() {
        eprintln!("dpopt-self-audit: warning: {failure}");
    }
    if let Some(directory) = &arguments.write {
        let command = if arguments.short { "dpopt-self-audit --short" } else { "dpopt-self-audit" };
        write(&mut run, (arguments.seed, command), directory)?;
    }
    run.take_pictures();
    print(&if arguments.json { json(&run)? + "\n" } else { tables::text(&run) })?;
    if let Some(path) = &arguments.keep {
        std::fs::remove_file(path).map_err(|e| Failure::machine(format!("cannot remove {}: {e}", path.display())))?;
    }
    if run.injected() + run.library.len() == 0 {
        return Err(Failure::usage(
            "no bug's number and no row's name contains what --only asks for; see the lists in docs/audit.md",
        ));
    }
    if run.passes() { Ok(()) } else { Err(Failure::machine("an audit failed: see the rows marked above")) }
}

/// The rows that are kept, if any are.
fn keep(arguments: &Arguments, tier: Tier) -> Result<Kept, Failure> {
    let Some(path) = &arguments.keep else { return Ok(Kept::nothing()) };
    let origin = Origin::of_this_program(tier, arguments.seed)
        .map_err(|e| Failure::machine(format!("cannot read the program itself: {e}")))?;
    Kept::open(path, &origin).map_err(Failure::machine)
}

fn json(run: &AuditRun) -> Result<String, Failure> {
    serde_json::to_string_pretty(run).map_err(|e| Failure::machine(format!("cannot write JSON: {e}")))
}

/// The page, the same as JSON, and the pictures.
fn write(run: &mut AuditRun, (seed, command): (u64, &str), directory: &Path) -> Result<(), Failure> {
    let date = date::today();
    // runs with other seeds lie beside the first one
    let seed = if seed == 1 { String::new() } else { format!("-seed-{seed}") };
    let pictures = format!("pictures{seed}");
    let page = run.markdown(&date, command, &pictures);
    let drawn = run.take_pictures();
    let mut files = vec![(format!("{date}{seed}.md"), page), (format!("{date}{seed}.json"), json(run)?)];
    files.extend(drawn.into_iter().map(|(name, svg)| (format!("{pictures}/{name}"), svg)));
    std::fs::create_dir_all(directory.join(&pictures))
        .map_err(|e| Failure::machine(format!("cannot create {}: {}", directory.display(), failure(&e))))?;
    for (name, text) in files {
        let path = directory.join(name);
        output::write_atomically(&path, text.as_bytes())
            .map_err(|e| Failure::machine(format!("cannot write {}: {}", path.display(), failure(&e))))?;
    }
    Ok(())
}

/// Writes to stdout. A reader that went away (`| head`) is not an error; a full disk is.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("cannot write to standard output: {}", e.kind())))
        }
        _ => Ok(()),
    }
}
