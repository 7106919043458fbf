//! Faces: who shows messages, and how options and ways out are called there.

use std::cell::Cell;
use std::fmt;

/// What can be done about a refusal where faces differ in more than how an option is spelled. A `match` without a wildcard in each
/// [`Face`] has the compiler ask every face for its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Say of any column at all what it holds.
    DeclareColumns,
    /// Give columns of numbers their ranges, or a share of the budget to find them.
    DeclareRanges,
    /// Say which columns are numbers, where all others are categories.
    DeclareNumbers,
    /// Name the classes of the target.
    DeclareClasses,
    /// Declare the labels, which costs nothing.
    DeclareLabels,
    /// Give the target a range, or a moment.
    DeclareTargetRange,
    /// Give a column a range, or don't use it.
    DeclareRangeOrIgnore,
    /// Say that a number is asked for, or name the classes, or have them found.
    SayWhatTheTargetIs,
    /// Ask for classes and not for a number.
    AskForClasses,
    /// Declare two classes, or take a loss for more.
    TwoClasses,
    /// Read the first line as a record.
    NoHeader,
    /// Declare a column of texts, or leave the vectors out.
    DeclareText,
    /// Give the file of public vectors of a model.
    GiveVectors,
    /// Leave out how many units there are, or say that the number is a guess.
    CountUnits,
    /// Wait longer while another process holds the ledger.
    WaitForLedger,
    /// Give the root of a moment too.
    GiveRoot,
    /// Bound the features that a model may use.
    LeaveOutMaxFeatures,
    /// Where ranges and levels are written down; no way out, but what is wrong is in it.
    BoundsFile,
    /// The room on disk that a read needs besides memory; no way out, but a limit of a promise.
    RoomOnDisk,
}

/// How options and ways out are called.
pub trait Face {
    /// An option by its identifier.
    fn option(&self, id: &str) -> String;

    /// An option with a value, as it is given here; `true` switches an option on that has no other value.
    fn setting(&self, id: &str, value: &str) -> String;

    /// What to do, as the end of a sentence; `None` where it cannot be done here.
    fn step(&self, step: Step) -> Option<&'static str>;
}

/// The library's own words.
struct Library;

impl Face for Library {
    fn option(&self, id: &str) -> String {
        format!("`{id}`")
    }

    fn setting(&self, id: &str, value: &str) -> String {
        format!("`{id}` = {value}")
    }

    fn step(&self, step: Step) -> Option<&'static str> {
        Some(match step {
            Step::DeclareColumns => {
                "declare ranges and levels, spend a share of the budget on private ranges, or give a public table"
            }
            Step::DeclareRanges => {
                "declare lower and upper for them, or spend a share of the budget on private \
                                    ranges"
            }
            Step::DeclareNumbers => "declare the columns that hold numbers, with a range or as numeric",
            Step::DeclareClasses => "name its classes",
            Step::DeclareLabels => "declare the labels in the schema",
            Step::DeclareTargetRange => "declare its range, or a bound on one of its moments",
            Step::DeclareRangeOrIgnore => "declare lower and upper for it, or ignore it",
            Step::SayWhatTheTargetIs => {
                "for a number choose regression and declare lower and upper; for labels list the classes, or choose \
                 classification to have them found privately"
            }
            Step::AskForClasses => "choose classification",
            Step::TwoClasses => "declare two classes, or use the logistic loss, which takes any number of classes",
            Step::NoHeader => "if the first line is a record, read the table without a header",
            Step::DeclareText => "declare a column as text, or leave the vectors out",
            Step::GiveVectors => "give that file",
            Step::CountUnits => {
                "leave the number of units out to have them counted, or use add-or-remove, which takes a public guess"
            }
            Step::WaitForLedger => "wait longer",
            Step::GiveRoot => "give the bound of the moment as well",
            Step::LeaveOutMaxFeatures => "leave out `max_features`",
            Step::BoundsFile => "bounds file",
            Step::RoomOnDisk => " and a full disk, where rows beyond the memory cap are written",
        })
    }
}

thread_local! {
    static FACE: Cell<&'static dyn Face> = const { Cell::new(&Library) };
}

/// What `show` gives, with every message that it makes on this thread in the words of `face`.
pub fn in_words<T>(face: &'static dyn Face, show: impl FnOnce() -> T) -> T {
    struct Before(&'static dyn Face);
    impl Drop for Before {
        fn drop(&mut self) {
            FACE.set(self.0);
        }
    }
    let _before = Before(FACE.replace(face));
    show()
}

/// The face at work on this thread: the library's own, unless a face shows a message.
pub(crate) fn at_work() -> &'static dyn Face {
    FACE.get()
}

impl Step {
    pub(crate) fn words(self) -> Option<&'static str> {
        at_work().step(self)
    }
}

/// In the words of the face at work; nothing where it cannot be done there.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words().unwrap_or_default())
    }
}
