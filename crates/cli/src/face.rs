//! The vocabulary of the command line: options are flags. The one place where messages of the library get it.

use dpopt_refusal::{Face, Step};

/// The name of an option's flag.
pub(crate) fn flag(option: &str) -> String {
    option.replace('_', "-")
}

/// How the command line calls options and ways out.
pub(crate) struct CommandLine;

impl Face for CommandLine {
    fn option(&self, id: &str) -> String {
        format!("--{}", flag(id))
    }

    fn setting(&self, id: &str, value: &str) -> String {
        match value {
            "true" => self.option(id),
            value => format!("--{} {value}", flag(id)),
        }
    }

    fn step(&self, step: Step) -> Option<&'static str> {
        Some(match step {
            Step::DeclareColumns => {
                "give one of: --bounds FILE (a bounds.toml with ranges and levels), \
                 --bounds-budget 0.1 with --numeric NAMES (spend a tenth of the budget on private ranges), \
                 --public-data FILE (a public table)"
            }
            Step::DeclareRanges => {
                "write lower and upper for them in --bounds FILE, or pass --bounds-budget 0.1, or --public-data FILE"
            }
            Step::DeclareNumbers => "declare the columns that hold numbers, in --bounds or by --numeric",
            Step::DeclareClasses => "pass --classes no,yes",
            Step::DeclareLabels => "declare the labels in the schema",
            Step::DeclareTargetRange => {
                "declare its range in --bounds, or a bound on one of its moments by \
                                         --target-moment"
            }
            Step::DeclareRangeOrIgnore => "declare lower and upper for it, or --ignore it",
            Step::SayWhatTheTargetIs => {
                "for a number give --task regression, with its lower and upper in the bounds file; for labels give \
                 --classes A,B, or --task classification to have them found privately"
            }
            Step::AskForClasses => "leave out --task regression",
            Step::TwoClasses => {
                "declare two classes with --classes, or use the logistic loss, which takes any \
                                 number of classes"
            }
            Step::NoHeader => "if the first line is a record, pass --no-header and --columns N",
            Step::DeclareText => "declare a column of text with --text NAME, or leave the vectors out",
            Step::GiveVectors => "pass --public-vectors with that file",
            Step::CountUnits => {
                "leave --units out to have them counted, or use --relation add-or-remove, which \
                                 takes a public guess"
            }
            Step::WaitForLedger => "wait longer with --ledger-wait",
            Step::GiveRoot => "give the bound of the moment as well, --moment K:M",
            Step::LeaveOutMaxFeatures => "leave out --max-features",
            Step::BoundsFile => "bounds file",
            Step::RoomOnDisk => " and a full disk, where rows beyond --memory are written",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt::data::BadCells;
    use dpopt_refusal::in_words;

    #[test]
    fn what_a_bad_row_can_do_is_said_in_the_programs_own_words() {
        let sentences = in_words(&CommandLine, || {
            [BadCells::promise(), BadCells::of_quoted_newlines()].map(|text| text.to_string())
        });
        for page in ["docs/data.md", "docs/proofs/encoder.md"] {
            let text = std::fs::read_to_string(format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for sentence in &sentences {
                assert!(words.contains(sentence), "{page} does not say: {sentence}");
            }
        }
    }
}
