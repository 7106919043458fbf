//! The results of `make audit` as a page with pictures: what was caught, what the library's own code proves, what took how
//! long.

use super::Tier;
use super::catalogue::{Outcome, Source, Summary};
use super::library::{LibraryOutcome, Standard};
use super::samplers::LawOutcome;
use std::fmt::Write;

/// One run of everything.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AuditRun {
    /// What became of the injected faults.
    pub catalogue: Summary,
    /// The library's own mechanisms.
    pub library: Vec<LibraryOutcome>,
    /// Laws of its samplers.
    pub laws: Vec<LawOutcome>,
}

impl AuditRun {
    /// Correct code that was rejected, here or there.
    pub fn violations(&self) -> usize {
        let laws = self.laws.iter().filter(|o| o.violation).count();
        self.catalogue.violations() + self.library.iter().filter(|o| o.violation).count() + laws
    }

    /// Rows that could not run or prove less than they must.
    pub fn shortfalls(&self) -> usize {
        let laws = self.laws.iter().filter(|o| o.failure.is_some()).count();
        self.library.iter().filter(|o| o.falls_short || o.failure.is_some()).count() + laws
    }

    /// Nothing missed, nothing violated, nothing short.
    pub fn passes(&self) -> bool {
        self.violations() == 0 && self.shortfalls() == 0 && self.caught() == self.injected()
    }

    /// Mistakes that were caught: bugs by the attacks, wrong laws by the tests of fit.
    pub fn caught(&self) -> usize {
        self.catalogue.caught() + self.laws.iter().filter(|o| o.caught).count()
    }

    /// How many faults were injected, in mechanisms and in laws.
    pub fn injected(&self) -> usize {
        self.catalogue.outcomes.len() + self.laws.len()
    }

    /// The closing lines of `dpopt-self-audit`.
    pub fn verdict(&self) -> String {
        format!(
            "shortfalls {}\ncaught {} of {} injected faults\nviolations {}\n",
            self.shortfalls(),
            self.caught(),
            self.injected(),
            self.violations()
        )
    }

    /// Wall-clock seconds of all rows.
    pub fn seconds(&self) -> f64 {
        let attacks = self.library.iter().map(|o| o.seconds).chain(self.catalogue.outcomes.iter().map(|o| o.seconds));
        attacks.chain(self.laws.iter().map(|o| o.seconds)).sum()
    }

    /// Takes out the trade-off curves of the library's rows: (file name, SVG). They are files of their own beside the page and
    /// its JSON.
    pub fn take_pictures(&mut self) -> Vec<(String, String)> {
        self.library.iter_mut().filter_map(|o| o.picture.take().map(|svg| (picture_of(o), svg))).collect()
    }

    /// Markdown; `date` and `command` are printed at the top. `pictures` is the directory of the pictures, relative to the
    /// page.
    pub fn markdown(&self, date: &str, command: &str, pictures: &str) -> String {
        let mut page = String::new();
        // writing to a String can't fail
        let _ = self.write(&mut page, (date, command, pictures));
        page
    }

    fn write(&self, page: &mut String, (date, command, pictures): (&str, &str, &str)) -> std::fmt::Result {
        let tier = if self.catalogue.tier == Tier::Long { "long" } else { "short" };
        writeln!(page, "# Audits of {date}\n")?;
        writeln!(
            page,
            "Written by `{command}` ({tier} tier, seed {}). How to read it: [docs/audit.md](../audit.md).\n",
            self.catalogue.seed
        )?;
        writeln!(page, "```\n{}```\n", self.verdict())?;
        writeln!(page, "Wall-clock time of all rows: {:.0} s.\n", self.seconds())?;

        writeln!(page, "## The library's own code\n")?;
        writeln!(
            page,
            "ε ≥ is proved at confidence 1 − 1e-6 by counting; the Gaussian column goes through the Gaussian curve of the"
        )?;
        writeln!(
            page,
            "two rates and is a bound only where that curve is exact; in the rows of one run it is the f-DP form (research"
        )?;
        writeln!(
            page,
            "grade). *At best* is what this pair and statistic could prove with any number of runs, where it is known.\n"
        )?;
        writeln!(
            page,
            "| code | pair, statistic | δ | claimed ε | at best | ε ≥ | Gaussian ε ≥ | share | must reach | runs | s |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|---|---|---|")?;
        for o in &self.library {
            let must = match o.standard {
                Standard::GaussianShare(_) | Standard::Share(_) => format!("{:.2}", o.required()),
                Standard::Sound => "≤ 1".into(),
            };
            let delta = if o.delta == 0.0 { "0".into() } else { format!("{:e}", o.delta) };
            let best = o.reach.map_or(String::new(), |r| format!("{r:.3}"));
            let name = match &o.picture {
                Some(_) => format!("[{}]({pictures}/{})", o.name, picture_of(o)),
                None => o.name.clone(),
            };
            let verdict = match (&o.failure, o.violation, o.falls_short) {
                (Some(reason), _, _) => format!(" **did not run: {reason}**"),
                (_, true, _) => " **violation**".into(),
                (_, _, true) => " **short**".into(),
                _ => String::new(),
            };
            let model = o.gaussian_model.map_or("".into(), |g| format!("{g:.3}"));
            writeln!(
                page,
                "| {name}{verdict} | {} | {delta} | {:.3} | {best} | {:.3} | {model} | {:.2} | {must} | {} | {:.1} |",
                o.pair,
                o.claimed,
                o.lower_bound,
                o.share(),
                o.runs,
                o.seconds
            )?;
        }

        writeln!(page, "\n## Injected faults\n")?;
        let caught_by_looking = self.catalogue.outcomes.iter().filter(|o| !o.by_counting()).count();
        let of = |source: Source| self.catalogue.outcomes.iter().filter(|o| o.source == source).count();
        writeln!(
            page,
            "Code: *shipped* ({}) runs the library's code with a wrong parameter, event or use; *altered* ({}) replaces one step of it",
            of(Source::Shipped),
            of(Source::Altered)
        )?;
        writeln!(
            page,
            "by the mistake, and its correct twin is the library's code. {caught_by_looking} rows are caught by looking, not by"
        )?;
        writeln!(page, "sampling: they have no ε.\n")?;
        writeln!(
            page,
            "An audit bets pair by pair and ends when the claim has fallen (`fell after`, on average), at the latest after `at most`"
        )?;
        writeln!(
            page,
            "pairs of runs. `rejected` counts independent audits. The two lower bounds, at δ = 1e-5, are by counting in ten audits"
        )?;
        writeln!(page, "of the bug and in all audits of the correct code, each run to the end.\n")?;
        writeln!(
            page,
            "| # | bug | code | pair, statistic | claimed ε | bug ε ≥ | correct ε ≥ | fell after | at most | rejected | found | s |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|---|---|---|---|---|")?;
        for o in &self.catalogue.outcomes {
            writeln!(page, "{}", row(o))?;
        }

        writeln!(page, "\n## Laws of the samplers\n")?;
        writeln!(
            page,
            "Each test rejects a correct sampler with probability at most 1e-6. Power: how often it rejected the mistake.\n"
        )?;
        writeln!(page, "| sampler | law | test | smallest p of correct draws | mistake | rejected | s |")?;
        writeln!(page, "|---|---|---|---|---|---|---|")?;
        for o in &self.laws {
            let mark = match (&o.failure, o.violation, o.caught) {
                (Some(reason), _, _) => format!(" **did not run: {reason}**"),
                (_, true, _) => " **correct draws rejected**".into(),
                (_, _, false) => " **missed**".into(),
                _ => String::new(),
            };
            writeln!(
                page,
                "| {}{mark} | {} | {} | {:.1e} | {} | {} of {} | {:.1} |",
                o.sampler, o.law, o.test, o.smallest_p, o.mistake, o.rejected, o.seeds, o.seconds
            )?;
        }
        Ok(())
    }
}

/// File name of a row's picture.
fn picture_of(o: &LibraryOutcome) -> String {
    let words = o.name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    format!("{}.svg", words.collect::<Vec<_>>().join("-").to_lowercase())
}

fn row(o: &Outcome) -> String {
    let number = |x: Option<f64>| x.map_or(String::new(), |v| format!("{v:.3}"));
    let count = |n: u64| if n == 0 { String::new() } else { n.to_string() };
    let missed = if o.caught { "" } else { " **missed**" };
    let violation = if o.violation { " **correct code rejected**" } else { "" };
    format!(
        "| {} | {}{missed}{violation} | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} | {:.1} |",
        o.number,
        o.bug,
        o.source.name(),
        o.statistic.replace('|', "\\|"),
        number(o.claimed),
        number(o.lower_bound),
        number(o.lower_bound_correct),
        o.pairs.map_or(String::new(), |n| n.to_string()),
        count(o.runs),
        o.rejected,
        o.seeds,
        o.evidence,
        o.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_fault_and_a_violation_are_reported() {
        let outcome = |caught, violation| Outcome {
            number: "1".into(),
            source: Source::Shipped,
            bug: "a bug".into(),
            statistic: "|score|".into(),
            claimed: Some(1.0),
            lower_bound: Some(2.0),
            lower_bound_correct: Some(0.5),
            runs: 100,
            pairs: Some(50),
            seeds: 3,
            rejected: 3,
            caught,
            violation,
            evidence: String::new(),
            seconds: 0.1,
        };
        let run = AuditRun {
            catalogue: Summary {
                tier: Tier::Short,
                seed: 1,
                outcomes: vec![outcome(true, false), outcome(false, true)],
            },
            library: Vec::new(),
            laws: Vec::new(),
        };
        assert_eq!(run.verdict(), "shortfalls 0\ncaught 1 of 2 injected faults\nviolations 1\n");
        assert!(!run.passes());
        let page = run.markdown("2026-01-01", "make audit", "pictures");
        assert!(page.contains("**missed** **correct code rejected**") && page.contains("\\|score\\|"));
    }
}
