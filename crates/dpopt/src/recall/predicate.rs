//! Which files a recall is about: conditions on what a file says, each met, not met, or not to be told from the file.

use super::facts::{Facts, FileKind};
use super::pattern::EventPattern;
use super::written::{Commit, Moment, VersionRange};
use dpopt_optimize::plan::Grade;
use dpopt_privacy::{Relation, Unit};
use serde::Deserialize;
use std::fmt::{self, Display, Formatter};

/// Why a file cannot tell whether a recall is about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The file names no version of the program.
    Version,
    /// The file does not say from which commit the program was built.
    Build,
    /// The charge was made after the fix: a program that is older may have made it.
    AfterFix,
    /// The file does not name its method.
    Method,
    /// The file does not say what kind of answer it has.
    Answer,
    /// The file does not say its grade.
    Grade,
    /// The recall depends on something that no file says; in the words of the list.
    Unknown(String),
}

impl Display for Doubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "it names no version",
            Self::Build => "it does not say which build wrote it",
            Self::AfterFix => "it was charged after the fix, perhaps by an older program",
            Self::Method => "it does not name its method",
            Self::Answer => "it does not say what kind of answer it has",
            Self::Grade => "it does not say its grade",
            Self::Unknown(words) => words,
        })
    }
}

/// How a condition stands with a file.
enum Verdict {
    Met,
    Failed,
    Open(Doubt),
}

impl Verdict {
    fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::Failed }
    }

    /// Whether what is stated is in a list, or open if nothing is stated.
    fn stated<T>(stated: Option<T>, met: impl FnOnce(T) -> bool, doubt: Doubt) -> Self {
        stated.map_or(Self::Open(doubt), |stated| Self::of(met(stated)))
    }
}

/// Builds from commits in a span of time, or from listed commits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Builds {
    /// The first commit with the fault.
    since: Option<Moment>,
    /// After the last commit without the fix.
    before: Option<Moment>,
    /// All commits with the fault: where a file names its commit, they alone decide.
    #[serde(default)]
    commits: Vec<Commit>,
}

impl Builds {
    fn verdict(&self, facts: &Facts) -> Verdict {
        if let (Some(named), false) = (&facts.commit, self.commits.is_empty()) {
            return Verdict::of(self.commits.iter().any(|commit| commit.is(named)));
        }
        let before_fault = matches!((&self.since, &facts.charged), (Some(since), Some(charged)) if charged < since);
        let after_fix = matches!((&self.before, &facts.built_since), (Some(before), Some(built)) if built >= before);
        if before_fault || after_fix {
            return Verdict::Failed;
        }
        let has_fault = match (&self.since, &facts.built_since) {
            (None, _) => true,
            (Some(since), Some(built)) => built >= since,
            (Some(_), None) => false,
        };
        match (&self.before, &facts.charged) {
            (Some(before), Some(charged)) if charged >= before => Verdict::Open(Doubt::AfterFix),
            (Some(_), Some(_)) if has_fault => Verdict::Met,
            _ => Verdict::Open(Doubt::Build),
        }
    }
}

/// The conditions of a recall; what is left out does not count, and a list is met by one of its members.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    pub(super) files: Vec<FileKind>,
    pub(super) versions: Option<VersionRange>,
    pub(super) builds: Option<Builds>,
    pub(super) relations: Option<Vec<Relation>>,
    pub(super) units: Option<Vec<Unit>>,
    pub(super) unit_is_named: Option<bool>,
    pub(super) grades: Option<Vec<Grade>>,
    pub(super) methods: Option<Vec<String>>,
    pub(super) answers: Option<Vec<String>>,
    pub(super) events: Option<Vec<EventPattern>>,
    pub(super) unknown: Option<String>,
}

impl Predicate {
    /// Why the lists are no conditions, if so.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        fn none<T>(list: &Option<Vec<T>>) -> bool {
            list.as_ref().is_some_and(Vec::is_empty)
        }
        if self.files.is_empty() {
            return Err("files is empty; name the kinds of files that are concerned");
        }
        if none(&self.relations) || none(&self.units) || none(&self.grades) || none(&self.events) {
            return Err("a list is empty, so that no file would be concerned; leave it out");
        }
        if none(&self.methods) || none(&self.answers) {
            return Err("a list is empty, so that no file would be concerned; leave it out");
        }
        match &self.builds {
            Some(Builds { since: None, before: None, commits }) if commits.is_empty() => {
                Err("builds says nothing; give since, before or commits")
            }
            Some(Builds { since: Some(since), before: Some(before), .. }) if since >= before => {
                Err("builds ends before it begins; let since be earlier than before")
            }
            _ => Ok(()),
        }
    }

    /// Version and build together: who says when it was built need not name its version.
    fn program(&self, facts: &Facts) -> Verdict {
        let version = self
            .versions
            .as_ref()
            .map(|range| Verdict::stated(facts.version, |version| range.contains(version), Doubt::Version));
        match (version, self.builds.as_ref().map(|builds| builds.verdict(facts))) {
            (Some(Verdict::Failed), _) | (_, Some(Verdict::Failed)) => Verdict::Failed,
            (_, Some(build)) => build,
            (Some(version), None) => version,
            (None, None) => Verdict::Met,
        }
    }

    /// What keeps a file from being concerned for certain: `None` if it is not concerned, no doubt if it certainly is.
    pub(super) fn doubts(&self, facts: &Facts) -> Option<Vec<Doubt>> {
        let met = |condition: Option<bool>| Verdict::of(condition.unwrap_or(true));
        let mut verdicts = vec![
            met(Some(self.files.contains(&facts.file))),
            met(self.relations.as_ref().map(|all| all.contains(&facts.relation))),
            met(self.units.as_ref().map(|all| all.contains(&facts.unit))),
            met(self.unit_is_named.map(|named| named == facts.unit_is_named)),
            met(self
                .events
                .as_ref()
                .map(|all| all.iter().any(|pattern| facts.events.iter().any(|event| pattern.occurs_in(event))))),
            self.program(facts),
        ];
        let words = |list: &[String], stated: &Option<String>, doubt| {
            Verdict::stated(stated.as_ref(), |word| list.contains(word), doubt)
        };
        verdicts.extend(self.methods.as_ref().map(|all| words(all, &facts.method, Doubt::Method)));
        verdicts.extend(self.answers.as_ref().map(|all| words(all, &facts.answer, Doubt::Answer)));
        let grade = |all: &Vec<Grade>| Verdict::stated(facts.grade, |grade| all.contains(&grade), Doubt::Grade);
        verdicts.extend(self.grades.as_ref().map(grade));
        verdicts.extend(self.unknown.clone().map(|words| Verdict::Open(Doubt::Unknown(words))));
        let mut doubts = Vec::new();
        for verdict in verdicts {
            match verdict {
                Verdict::Met => {}
                Verdict::Failed => return None,
                Verdict::Open(doubt) => doubts.push(doubt),
            }
        }
        Some(doubts)
    }
}
