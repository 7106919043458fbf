//! What leaves the process: text on stdout, one line on stderr, an exit code. Words of files stand in much of it: no control character but line
//! breaks and tabs goes out.

use dpopt::data::DataError;
use dpopt_privacy::rounding::{foreign, foreign_json, foreign_lines};
use std::fmt::Display;
use std::io::{Read, Write};
use std::process::ExitCode;

/// Why a command stopped: one line and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The input or the flags are wrong, or a budget refuses: nothing was written. Exit code 2.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The machine failed (disk full, no permission). Exit code 1.
    pub(crate) fn machine(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// Prints the failure as one line and returns its exit code.
    pub(crate) fn report(self) -> ExitCode {
        let _ = writeln!(std::io::stderr(), "dpopt: error: {self}");
        ExitCode::from(self.code)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::usage(error)
    }
}

/// The message as one line without control characters.
impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&foreign(&self.message.split_whitespace().collect::<Vec<_>>().join(" ")))
    }
}

/// Writes to stdout. A reader that went away (`| head`) is not an error; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_to_reader(text).map(drop)
}

/// Writes to stdout and says whether the reader is still there.
pub(crate) fn print_to_reader(text: &str) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(foreign_lines(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::machine(format!("cannot write to standard output: {}", e.kind()))),
    }
}

/// Copies text that has no such characters to stdout, as [`print`] does.
pub(crate) fn print_all(mut text: impl Read) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match std::io::copy(&mut text, &mut out).and_then(|_| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("cannot write to standard output: {}", e.kind())))
        }
        _ => Ok(()),
    }
}

/// Pretty JSON on stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::machine)?;
    print(&format!("{}\n", foreign_json(&text)))
}

/// A note on stderr.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "dpopt: {}", foreign_lines(&text.to_string()));
}

/// Columns padded with two spaces between; headings starting with `#` are right-aligned numbers. A row with fewer
/// cells than headings lets its last cell run over the rest.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| foreign(cell)).collect()).collect();
    let titles: Vec<&str> = headings.iter().map(|h| h.trim_start_matches('#')).collect();
    let mut widths: Vec<usize> = titles.iter().map(|t| t.chars().count()).collect();
    for row in &rows {
        for (i, cell) in row.iter().enumerate() {
            let overflows = row.len() < headings.len() && i + 1 == row.len();
            if !overflows {
                widths[i] = widths[i].max(cell.chars().count());
            }
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let gap = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            let overflows = cells.len() < headings.len() && i + 1 == cells.len();
            if headings[i].starts_with('#') && !overflows {
                text.push_str(&format!("{gap}{cell}  "));
            } else {
                text.push_str(&format!("{cell}{gap}  "));
            }
        }
        format!("{}\n", text.trim_end())
    };
    let mut out = line(&titles.iter().map(|t| t.to_string()).collect::<Vec<_>>());
    for row in &rows {
        out.push_str(&line(row));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = vec![vec!["pld".into(), "1.5".into(), "x".into()], vec!["gdp".into(), "not supported: why".into()]];
        assert_eq!(table(&["name", "#ε", "note"], &rows), "name    ε  note\npld   1.5  x\ngdp   not supported: why\n");
    }
}
