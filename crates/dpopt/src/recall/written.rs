//! Words of a list of recalls as values: moments, versions and ranges of them, commits.

use serde::Deserialize;
use std::cmp::Ordering;

/// A moment in UTC to the second, `2026-11-24T10:05:20Z`; in this form the order of texts is that of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Moment(String);

/// A day, `2026-11-24`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Day(String);

/// Whether a text has the form of `pattern`, in which 0 stands for any digit.
fn has_form(text: &str, pattern: &str) -> bool {
    let fits = |(c, p): (char, char)| if p == '0' { c.is_ascii_digit() } else { c == p };
    text.len() == pattern.len() && text.chars().zip(pattern.chars()).all(fits)
}

impl Moment {
    /// The moment, if the text is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        has_form(text, "0000-00-00T00:00:00Z").then(|| Self(text.into()))
    }
}

impl TryFrom<String> for Moment {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a moment is written as \"2026-11-24T10:05:20Z\", in UTC")
    }
}

impl TryFrom<String> for Day {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if has_form(&text, "0000-00-00") { Ok(Self(text)) } else { Err("a date is written as \"2026-11-24\"") }
    }
}

impl Day {
    /// The day as text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Three numbers of a version. What is behind them (`-rc.1`) does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version([u64; 3]);

impl Version {
    /// The version, if the text begins with three numbers.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let parts: Vec<u64> = numbers.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        Some(Self(parts.try_into().ok()?))
    }
}

/// A range of versions: comparisons that all hold, `>=0.1.0, <0.2.0`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct VersionRange(Vec<(&'static str, Version)>);

/// Comparisons of versions, the longer signs first.
const SIGNS: [&str; 5] = [">=", "<=", ">", "<", "="];

impl TryFrom<String> for VersionRange {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let comparison = |part: &str| {
            let part = part.trim();
            let sign = SIGNS.into_iter().find(|sign| part.starts_with(sign))?;
            Some((sign, Version::parse(part[sign.len()..].trim())?))
        };
        let all: Option<Vec<_>> = text.split(',').map(comparison).collect();
        all.map(Self).ok_or("versions are written as \"=0.1.0\" or \">=0.1.0, <0.2.0\"")
    }
}

impl VersionRange {
    /// Whether the version is within the range.
    pub(super) fn contains(&self, version: Version) -> bool {
        self.0.iter().all(|(sign, bound)| match version.cmp(bound) {
            Ordering::Less => sign.starts_with('<'),
            Ordering::Equal => sign.ends_with('='),
            Ordering::Greater => sign.starts_with('>'),
        })
    }
}

/// A commit, by at least seven hexadecimal digits of its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Commit(String);

impl Commit {
    /// The commit, if the text begins with so many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
        (7..=64).contains(&digits.len()).then(|| Self(digits.to_ascii_lowercase()))
    }

    /// Whether two names are of one commit: the shorter begins the longer.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }
}

impl TryFrom<String> for Commit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let commit = Self::parse(&text).filter(|commit| commit.0.len() == text.len());
        commit.ok_or("a commit is written as 7 to 64 hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_versions_hold_what_they_say() {
        let within = |range: &str, version: &str| {
            VersionRange::try_from(range.to_string()).unwrap().contains(Version::parse(version).unwrap())
        };
        for (range, inside, outside) in [
            ("=0.1.0", &["0.1.0", "0.1.0-rc.1", "0.1.0+local"][..], &["0.1.1", "0.0.9", "1.1.0"][..]),
            (">=0.1.0, <0.2.0", &["0.1.0", "0.1.12"], &["0.2.0", "0.0.3"]),
            ("<=0.1.2", &["0.1.2", "0.0.1"], &["0.1.3"]),
            (">0.9.0", &["0.10.0", "1.0.0"], &["0.9.0"]),
        ] {
            assert!(inside.iter().all(|version| within(range, version)), "{range}");
            assert!(!outside.iter().any(|version| within(range, version)), "{range}");
        }
        for wrong in ["", "0.1.0", "=0.1", "=0.1.0,", "~0.1.0", "=0.1.x"] {
            assert!(VersionRange::try_from(wrong.to_string()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_and_commits_have_one_form() {
        assert!(Moment::parse("2026-11-24T10:05:20Z") < Moment::parse("2026-11-24T10:42:12Z"));
        for wrong in ["2026-11-24", "2026-11-24 10:05:20Z", "2026-11-24T10:05:20+01:00", "２026-11-24T10:05:20Z"] {
            assert!(Moment::parse(wrong).is_none(), "{wrong}");
        }
        let commit = |text: &str| Commit::parse(text).unwrap();
        assert!(commit("3d8b1417").is(&commit("3D8B14171781976c574d347088e0039194336b54")));
        assert!(commit("3d8b1417-dirty").is(&commit("3d8b141")) && !commit("3d8b1417").is(&commit("d3c95502")));
        assert!(Commit::parse("main").is_none() && Commit::try_from("3d8b1417-dirty".to_string()).is_err());
    }
}
