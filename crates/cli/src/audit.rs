//! `dpopt audit`: tries to refute what a program claims of its privacy.

use crate::account::no_event;
use crate::output::{Failure, print, print_json};
use crate::paths::Paths;
use crate::progress::Bar;
use crate::relation::RelationFlag;
use crate::usage;
use clap::Args;
use dpopt::audit::attack::{Options, Report, Sequential, Verdict, audit_samples, roc_svg};
use dpopt::audit::statistics::{Claim, sequential, threshold};
use dpopt::data::failure;
use dpopt::progress::Progress;
use dpopt_privacy::expression;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

#[derive(Args)]
#[command(after_help = "\
A program of your own is run as COMMAND FILE, once or often, until the claim has fallen or there are --runs numbers for
each of the two files: one number per line of standard output, each the statistic of one independent run of the mechanism
on FILE, with fresh randomness: a program of which two calls begin with the same numbers is refused. DPOPT_AUDIT_RUNS in its environment says how many numbers are wanted now; it may print
fewer.
Choose files that differ in one record and a statistic that reacts to it. An audit can refute a guarantee, never prove one.

Examples:
  dpopt audit --command ./mean.py --with alice.csv --without nobody.csv --epsilon 1 --runs 20000 --picture roc.svg
  dpopt audit --command './train' --with d1.csv --without d2.csv --mechanism 'gaussian(2) x 4' --delta 1e-5")]
pub(crate) struct Arguments {
    /// The program to audit, with its arguments; the data file is appended
    #[arg(long)]
    command: String,
    /// Data file D
    #[arg(long, value_name = "FILE")]
    with: PathBuf,
    /// Data file D', a neighbour of D
    #[arg(long, value_name = "FILE")]
    without: PathBuf,
    /// Claimed ε at --delta
    #[arg(long, conflicts_with_all = ["mu", "mechanism"])]
    epsilon: Option<f64>,
    /// δ of the claim and of the lower bound [default: 0 with --epsilon, else 1e-5]
    #[arg(long)]
    delta: Option<f64>,
    /// Claimed μ of Gaussian differential privacy
    #[arg(long, conflicts_with = "mechanism")]
    mu: Option<f64>,
    /// Claimed mechanism, as in `dpopt account`
    #[arg(long, value_name = "MECHANISM")]
    mechanism: Option<String>,
    /// Which files are neighbours, for --mechanism
    #[arg(long, value_enum, default_value_t)]
    relation: RelationFlag,
    /// Runs per file, at most: the audit tests after each pair of runs and stops when the claim is refuted
    #[arg(long, default_value_t = 10_000)]
    runs: u64,
    /// Use a fixed number of runs: a quarter of them chooses the event, the rest estimates the two error rates (a
    /// somewhat higher lower bound on ε)
    #[arg(long)]
    all_runs: bool,
    /// Probability of refuting a correct claim (significance level)
    #[arg(long, default_value_t = 1e-6)]
    alpha: f64,
    /// Write the trade-off curve as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Machine-readable output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (command, with, without) = (&arguments.command, &arguments.with, &arguments.without);
    Paths::default()
        .written("--picture", arguments.picture.as_deref())
        .read("--with", Some(with))
        .read("--without", Some(without))
        .check()?;
    for file in [with, without] {
        if !file.is_file() {
            return Err(usage(format!("{} is not a file", file.display())));
        }
    }
    let delta = arguments.delta.unwrap_or(if arguments.epsilon.is_some() { 0.0 } else { 1e-5 });
    let claim = claim(arguments, delta)?;
    let options = Options { runs: arguments.runs, alpha: arguments.alpha, delta, ..Options::default() };
    options.check().map_err(usage)?;
    claim.check().map_err(usage)?;

    let (bar, calls) = (Bar::new(), Calls::default());
    bar.start(
        if arguments.all_runs { "runs of the program," } else { "runs of the program, at most" },
        2 * arguments.runs,
    );
    let report = if arguments.all_runs {
        let samples = [
            collect(command, with, arguments.runs, &calls, &bar)?,
            collect(command, without, arguments.runs, &calls, &bar)?,
        ];
        audit_samples(&claim, &samples[0], &samples[1], &options).map_err(usage)?
    } else {
        let mut audit = Sequential::new(&claim, &options).map_err(usage)?;
        while let Some(runs) = audit.wanted() {
            audit
                .observe(&collect(command, with, runs, &calls, &bar)?, &collect(command, without, runs, &calls, &bar)?);
        }
        audit.conclude()
    };
    bar.finish();
    if let Some(path) = &arguments.picture {
        let svg = roc_svg(&report, &claim).map_err(Failure::machine)?;
        dpopt::output::write_atomically(path, svg.as_bytes())
            .map_err(|e| Failure::machine(format!("cannot write {}: {}", path.display(), failure(&e))))?;
    }
    if arguments.json {
        print_json(&report)?;
    } else {
        print(&conclusion(&report, &options))?;
    }
    match report.verdict {
        Verdict::NotRefuted => Ok(()),
        Verdict::Violated => Err(Failure::machine(
            "the claim is refuted: the program does not have the claimed \
                                                   guarantee",
        )),
    }
}

fn claim(arguments: &Arguments, delta: f64) -> Result<Claim, Failure> {
    match (arguments.epsilon, arguments.mu, &arguments.mechanism) {
        (Some(epsilon), _, _) => Ok(Claim::ApproxDp { epsilon, delta }),
        (_, Some(mu), _) => Ok(Claim::gaussian(mu)),
        (_, _, Some(text)) => {
            let event = expression::parse(text, None).map_err(|e| no_event(text, &e))?;
            // 60 points of the curve, and δ small enough to lie below what counting can see
            Claim::of_event(&event, arguments.relation.into(), 60, delta.clamp(1e-12, 1e-7)).map_err(usage)
        }
        _ => Err(usage("no claim is given; give --epsilon E [--delta D], --mu M, or --mechanism 'gaussian(1)'")),
    }
}

fn conclusion(report: &Report, options: &Options) -> String {
    let delta = if report.delta == 0.0 { "0".into() } else { format!("{:e}", report.delta) };
    let claimed =
        if report.claimed.is_finite() { format!("epsilon {:.4}", report.claimed) } else { "no finite epsilon".into() };
    let verdict = match report.verdict {
        Verdict::Violated => "claim violated",
        Verdict::NotRefuted => "claim not refuted (an audit cannot prove a guarantee)",
    };
    let (runs, reach) = match &report.stopping {
        Some(stopping) => {
            let end = match stopping.refuted_after {
                Some(n) => format!("the claim was refuted after {n} of at most {} per file", stopping.maximum),
                None => format!("all {} per file: the claim was not refuted", stopping.maximum),
            };
            (end, sequential::largest_epsilon(stopping.maximum, options.alpha / 3.0))
        }
        None => {
            let fresh = options.runs - options.pilot_runs();
            (
                format!("{} per file, {fresh} of them counted", options.runs),
                threshold::largest_epsilon(fresh, options.alpha / 3.0),
            )
        }
    };
    format!(
        "runs      {runs}\n\
         claimed   {claimed} at delta {delta}\n\
         proved    epsilon at least {:.4} at delta {delta}, confidence 1 - {:e}\n\
         Gaussian  mu at least {:.4}; under the Gaussian model {}\n\
         reach     this number of runs can prove at most epsilon {reach:.2}\n\
         verdict   {verdict}\n",
        report.lower_bound,
        options.alpha,
        report.mu_lower,
        if report.lower_bound_gaussian_model.is_finite() {
            format!("epsilon at least {:.4}", report.lower_bound_gaussian_model)
        } else {
            "no epsilon is finite at delta 0".into()
        },
    )
}

/// How the calls of a program began, to notice one that repeats its randomness: repeated runs are no independent runs, and a
/// claim that is true would fall by them.
#[derive(Default)]
struct Calls(Mutex<HashSet<(PathBuf, Vec<u64>)>>);

impl Calls {
    /// Numbers of a call that are compared, and the different ones that must be among them: with so many the same
    /// sequence twice has probability below 16^-16 for any law.
    const COMPARED: usize = 32;
    const DIFFERENT: usize = 16;

    /// False if an earlier call on the file began with the same numbers.
    fn differ(&self, file: &Path, call: &[f64]) -> bool {
        let Some(begin) = call.get(..Self::COMPARED) else { return true };
        let begin: Vec<u64> = begin.iter().map(|x| x.to_bits()).collect();
        if begin.iter().collect::<HashSet<_>>().len() < Self::DIFFERENT {
            return true;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((file.to_owned(), begin))
    }
}

/// Runs the program on one file, by several processes at a time, until it has given `runs` numbers.
fn collect(command: &str, file: &Path, runs: u64, calls: &Calls, progress: &Bar) -> Result<Vec<f64>, Failure> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(8).min(runs);
    let parts: Vec<Result<Vec<f64>, Failure>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|w| {
                let share = runs / workers + u64::from(w < runs % workers);
                scope.spawn(move || numbers(command, file, share as usize, calls, progress))
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap_or_else(|_| Err(Failure::machine("a worker failed")))).collect()
    });
    let mut all = Vec::with_capacity(runs as usize);
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}

fn numbers(command: &str, file: &Path, wanted: usize, calls: &Calls, progress: &Bar) -> Result<Vec<f64>, Failure> {
    let mut all: Vec<f64> = Vec::with_capacity(wanted.min(1 << 20));
    while all.len() < wanted {
        let before = all.len();
        let mut child = shell(command, file)
            .env("DPOPT_AUDIT_RUNS", (wanted - before).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| Failure::machine(format!("cannot run the program: {}", failure(&e))))?;
        let read = match child.stdout.take() {
            // the pipe is closed at the end of the call: a program that goes on writing then stops too
            Some(output) => printed(output, wanted, &mut all, progress),
            None => Err(Failure::machine("the program's output cannot be read")),
        };
        if read.is_err() {
            // it may have ended by itself
            let _ = child.kill();
        }
        let status =
            child.wait().map_err(|e| Failure::machine(format!("cannot wait for the program: {}", failure(&e))))?;
        read?;
        if !status.success() {
            return Err(usage(format!("the program failed on {} ({status})", file.display())));
        }
        if all.len() == before {
            return Err(usage(format!(
                "the program printed no number on {}; print one number per run and line",
                file.display()
            )));
        }
        if !calls.differ(file, &all[before..]) {
            return Err(usage(format!(
                "two calls of the program on {} printed the same numbers: it repeats its randomness, and an audit needs independent runs; give each call fresh randomness (is there a fixed or truncated seed?)",
                file.display()
            )));
        }
    }
    Ok(all)
}

/// Bytes of output that are read for each number that is wanted.
const BYTES_PER_NUMBER: usize = 1 << 10;
/// And at least so many.
const LEAST_BYTES: usize = 1 << 20;

/// Reads a number per line until `all` holds `wanted`; further ones are left aside. An output without an end is an error.
fn printed(output: impl Read, wanted: usize, all: &mut Vec<f64>, progress: &Bar) -> Result<(), Failure> {
    let limit = wanted.saturating_mul(BYTES_PER_NUMBER).max(LEAST_BYTES);
    let mut output = BufReader::new(output.take(limit as u64 + 1));
    let (mut line, mut position, mut bytes) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let got = output.read_until(b'\n', &mut line);
        let got = got.map_err(|e| Failure::machine(format!("cannot read the program's output: {}", failure(&e))))?;
        if got == 0 {
            return Ok(());
        }
        (position, bytes) = (position + 1, bytes + got);
        if bytes > limit {
            return Err(usage(format!(
                "the program printed more than {limit} bytes for {wanted} numbers and was stopped; print at most DPOPT_AUDIT_RUNS \
                 numbers, one per line"
            )));
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        // the line itself may show a record
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            usage(format!("line {position} of the program's output is not a number; print one number per run"))
        })?;
        if all.len() < wanted {
            all.push(number);
            progress.tick();
        }
    }
}

/// The user's command line with the file as its last argument, through the system's shell.
fn shell(command: &str, file: &Path) -> Command {
    if cfg!(windows) {
        let mut shell = Command::new("cmd");
        shell.arg("/C").arg(format!("{command} \"{}\"", file.display()));
        return shell;
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{command} \"$1\"")).arg("dpopt-audit").arg(file);
    shell
}
