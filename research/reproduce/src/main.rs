//! `dpopt-reproduce`: the figures and tables of the papers, computed again and compared.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use dpopt_reproduce::{Entry, Failure, Lab, Scale, document, entries};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The figures and tables of the papers behind dpopt, computed again and set beside the reported values.
#[derive(Parser)]
#[command(name = "dpopt-reproduce", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show every figure with its source and the verdict of its last full run
    List {
        /// Names only
        #[arg(long)]
        names: bool,
        /// Where results are
        #[arg(long, value_name = "DIR", default_value = "docs/reproduce")]
        out: PathBuf,
    },
    /// Compute figures; finished trials are kept, so an interrupted run goes on where it stopped
    Run {
        /// Names from `list`, or `all`
        #[arg(required = true)]
        names: Vec<String>,
        /// Seconds instead of minutes: to see that it runs
        #[arg(long)]
        short: bool,
        /// Results go to DIR/NAME, finished trials to DIR/.trials/NAME [default: docs/reproduce; with --short target/reproduce-short]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Seed of everything random
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The folder of data sets, or a LIBSVM file of your own for the figures that take one [default: $DPOPT_DATA]
        #[arg(long, value_name = "PATH")]
        data: Option<PathBuf>,
    },
    /// Write the page of all results that are below DIR, beside DIR
    Page {
        /// Where results are
        #[arg(long, value_name = "DIR", default_value = "docs/reproduce")]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let handled = ctrlc::set_handler(|| {
        dpopt::output::remove_unfinished();
        eprintln!("\nstopped; finished trials are kept, and the same command goes on from there");
        std::process::exit(130);
    });
    if let Err(e) = handled {
        eprintln!("warning: Ctrl-C is not handled ({e})");
    }
    let result = match cli.command {
        Command::List { names, out } => list(names, &out),
        Command::Run { names, short, out, seed, data } => run(&names, short, out, seed, data),
        Command::Page { out } => page(&out),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::of(e)),
        _ => Ok(()),
    }
}

fn list(names: bool, out: &Path) -> Result<(), Failure> {
    for entry in entries::ALL {
        if names {
            say(entry.name)?;
            continue;
        }
        let status = match document::read(&out.join(entry.name)) {
            Some(record) if record.revision == entry.revision => record.verdict.holds.to_string(),
            Some(_) => "results of an older revision".into(),
            None => "not run yet".into(),
        };
        say(&format!(
            "{}\n    {} ({})\n    {}\n    status: {status}",
            entry.name, entry.source, entry.fidelity, entry.shows
        ))?;
    }
    Ok(())
}

fn run(names: &[String], short: bool, out: Option<PathBuf>, seed: u64, data: Option<PathBuf>) -> Result<(), Failure> {
    let mut chosen: Vec<&Entry> = Vec::new();
    for name in names {
        match entries::find(name) {
            Some(entry) => chosen.push(entry),
            None if name == "all" => chosen.extend(entries::ALL),
            None => return Err(Failure::of(format!("there is no figure `{name}`; see `dpopt-reproduce list`"))),
        }
    }
    let out = out.unwrap_or_else(|| PathBuf::from(if short { "target/reproduce-short" } else { "docs/reproduce" }));
    let data = data.or_else(|| std::env::var_os("DPOPT_DATA").map(PathBuf::from));
    let scale = if short { Scale::Short } else { Scale::Full };
    for entry in chosen {
        say(&format!("{} ({}): {}", entry.name, entry.source, entry.shows))?;
        let bar = dpopt_bar::Bar::default();
        let lab = Lab::open(
            (entry.name, entry.revision),
            scale,
            seed,
            Some(out.join(".trials").join(entry.name)),
            data.clone(),
            &bar,
        )?;
        let started = std::time::Instant::now();
        let outcome = match (entry.run)(&lab) {
            // of all figures, those whose data are not here are left out, and each says what to give
            Err(Failure::Data { name, hint }) if names.iter().any(|n| n == "all") => {
                say(&format!("  left out: {}\n", Failure::Data { name, hint }))?;
                continue;
            }
            other => other?,
        };
        let outcome = if short { outcome.not_judged() } else { outcome };
        let record = document::write(entry, &lab, &outcome, &out.join(entry.name))?;
        say(&format!("  seed {seed}, scale {}", record.scale))?;
        for (name, value) in &record.settings {
            say(&format!("  {name} {value}"))?;
        }
        for row in &record.compared {
            let mark = match row.agrees {
                Some(true) => "agrees",
                Some(false) => "DIFFERS",
                None => "",
            };
            say(&format!("  {}: reported or predicted {}, here {} {mark}", row.what, row.reported, row.ours))?;
        }
        let (computed, found) = lab.trials_done();
        say(&format!(
            "  {}: {}\n  {computed} trials computed, {found} found; {:.1} s; results in {}\n",
            record.verdict.holds,
            record.verdict.sentence,
            started.elapsed().as_secs_f64(),
            out.join(entry.name).display()
        ))?;
    }
    Ok(())
}

fn page(out: &Path) -> Result<(), Failure> {
    let path = out.with_extension("md");
    let text = document::all_results(entries::ALL, out);
    dpopt::output::write_atomically(&path, text.as_bytes())
        .map_err(|why| Failure::File { path: path.display().to_string(), why })?;
    say(&format!("wrote {}", path.display()))
}
