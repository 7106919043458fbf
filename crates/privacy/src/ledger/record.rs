//! Lines of a ledger: how they are written, checked and told from the remains of an interrupted write.
//!
//! A line is `{…,"check":"<16 hex>"}`; the check is a hash of the previous line's check and of everything before it in
//! the line, so that a changed, missing or swapped line is noticed (accidents: whoever recomputes hashes on purpose can
//! also delete the file). Every append is one write. If it was cut short, the file ends in a fragment without a
//! newline; the next append puts the separator 0x1E behind the fragment and its own line after it, and readers take what
//! follows the last separator of a line. Nothing is ever truncated or overwritten. JSON never contains 0x1E.

use super::Purpose;
use crate::filter::Rule;
use crate::rounding::foreign;
use crate::{Budget, Event, Neighbours, Relation, Unit};
use serde::{Deserialize, Serialize};
use thiserror::Error;

const FORMAT: &str = "dpopt-ledger";
const VERSION: u32 = 1;
/// How every header starts.
pub(super) const FORMAT_START: &[u8] = b"{\"format\":\"dpopt-ledger\",\"version\":";
pub(super) const SEPARATOR: u8 = 0x1e;
/// `,"check":"` + 16 hex digits + `"}`.
const CHECK_START: &str = ",\"check\":\"";
const CHECK_LENGTH: usize = CHECK_START.len() + 16 + 2;

/// What is wrong with a line.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Damage {
    /// The hash does not match.
    #[error("the line was changed, or a line before it was changed or removed")]
    Check,
    /// The line is not one that this program writes.
    #[error("not a ledger line ({0})")]
    Syntax(String),
    /// Another format or version.
    #[error("format `{0}` is not known to this version")]
    Format(String),
    /// A header in the middle, a charge at the start, or numbers out of order.
    #[error("the line is out of order")]
    Order,
    /// A charge under another rule than the file's.
    #[error("charged under the {stated} rule, but the ledger follows the {in_force} rule")]
    Rule {
        /// The rule that the line states.
        stated: Rule,
        /// The rule of the file's header.
        in_force: Rule,
    },
}

/// The first line of a ledger file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    format: String,
    version: u32,
    pub(super) label: String,
    pub(super) relation: Relation,
    pub(super) unit: Unit,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unit_names: Vec<String>,
    pub(super) total: Budget,
    /// `null`: decided by the first charge.
    pub(super) rule: Option<Rule>,
}

impl Header {
    pub(super) fn of(purpose: &Purpose) -> Self {
        let Neighbours { unit, relation } = purpose.terms.neighbours;
        Self {
            format: FORMAT.into(),
            version: VERSION,
            label: purpose.label.clone(),
            relation,
            unit,
            unit_names: purpose.unit_names.clone(),
            total: purpose.terms.budget,
            rule: purpose.rule,
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        let neighbours = Neighbours { unit: self.unit, relation: self.relation };
        let unit_names = self.unit_names.clone();
        Purpose { label: self.label.clone(), terms: neighbours.within(self.total), unit_names, rule: self.rule }
    }

    /// Files from before units had names in the header say one column in their label.
    pub(super) fn names_in_label(&self, asked: &[String]) -> bool {
        self.unit_names.is_empty() && matches!(asked, [name] if self.label == format!("values of {name}"))
    }
}

/// One charge: a line of a ledger file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Charge {
    /// Number of the charge, from 1.
    pub(super) charge: usize,
    pub(super) id: String,
    pub(super) time: String,
    pub(super) label: String,
    pub(super) rule: Rule,
    pub(super) requested: Budget,
    pub(super) certified_epsilon: f64,
    pub(super) accountant: String,
    pub(super) event: Event,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    Header(Header),
    Charge(Charge),
}

/// What a write that was cut short left in a file: nothing was released for it, so it costs nothing, and it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Line, from 1; the next append went, or goes, behind it on the same line.
    pub line: usize,
    /// Length of the remains, in bytes.
    pub bytes: usize,
}

/// A file's records and how it ends.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) records: Vec<Record>,
    /// Remains of interrupted writes, in order.
    pub(super) cuts: Vec<Cut>,
    /// Line of each record, from 1.
    lines: Vec<usize>,
    /// Check of each record.
    pub(super) checks: Vec<[u8; 8]>,
    /// What must stand between the end of the file and the next line.
    joint: Joint,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Joint {
    /// The file is empty or ends in a newline.
    #[default]
    Nothing,
    /// The file ends in a complete record that lost its newline.
    Newline,
    /// The file ends in a fragment of a line.
    Separator,
}

fn check_of(previous: Option<&[u8; 8]>, content: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.unwrap_or(&[0; 8])).update(content);
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads a file; the error names the line, from 1.
pub(super) fn scan(bytes: &[u8]) -> Result<Scan, (usize, Damage)> {
    let mut scan = Scan::default();
    let mut lines = bytes.split(|b| *b == b'\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let last = lines.peek().is_none();
        if last && line.is_empty() {
            break;
        }
        let mut pieces: Vec<&[u8]> = line.split(|b| *b == SEPARATOR).collect();
        let text = pieces.pop().unwrap_or(line);
        let cut = |piece: &[u8]| Cut { line: index + 1, bytes: piece.len() };
        scan.cuts.extend(pieces.into_iter().map(cut));
        let previous = scan.checks.last();
        match (parse(text, previous), last) {
            (Ok((record, check)), _) => {
                let ordered = match &record {
                    Record::Header(_) => scan.records.is_empty(),
                    Record::Charge(charge) => charge.charge == scan.records.len() && charge.charge > 0,
                };
                if !ordered {
                    return Err((index + 1, Damage::Order));
                }
                scan.records.push(record);
                scan.lines.push(index + 1);
                scan.checks.push(check);
                scan.joint = if last { Joint::Newline } else { Joint::Nothing };
            }
            // a last line without newline: the write did not return, so that nothing was released after it
            (Err(Fault::Short(_)), true) => {
                scan.joint = Joint::Separator;
                scan.cuts.push(cut(text));
            }
            (Err(Fault::Short(damage) | Fault::Whole(damage)), _) => return Err((index + 1, damage)),
        }
    }
    Ok(scan)
}

/// Why a line is not a record: possibly cut short, or certainly complete and wrong.
enum Fault {
    Short(Damage),
    Whole(Damage),
}

fn parse(line: &[u8], previous: Option<&[u8; 8]>) -> Result<(Record, [u8; 8]), Fault> {
    let short = |text: &str| Fault::Short(Damage::Syntax(text.into()));
    let split = line.len().checked_sub(CHECK_LENGTH).ok_or_else(|| short("too short"))?;
    let (content, tail) = line.split_at(split);
    let stated = tail
        .strip_prefix(CHECK_START.as_bytes())
        .and_then(|tail| tail.strip_suffix(b"\"}"))
        .ok_or_else(|| short("it has no check at its end"))?;
    // from here on the line has its end: it is no fragment
    let check = check_of(previous, content);
    if stated != hex(&check).as_bytes() {
        return Err(Fault::Whole(Damage::Check));
    }
    let syntax = |e: serde_json::Error| Fault::Whole(Damage::Syntax(foreign(&e.to_string())));
    let object = [content, b"}"].concat();
    if content.starts_with(b"{\"format\"") {
        let header: Header = serde_json::from_slice(&object).map_err(syntax)?;
        if header.format != FORMAT || header.version != VERSION {
            return Err(Fault::Whole(Damage::Format(foreign(&format!("{} {}", header.format, header.version)))));
        }
        return Ok((Record::Header(header), check));
    }
    Ok((Record::Charge(serde_json::from_slice(&object).map_err(syntax)?), check))
}

impl Scan {
    /// The bytes to append for `record`, in one write.
    pub(super) fn encode(&self, record: &Record) -> Result<Vec<u8>, serde_json::Error> {
        let json = match record {
            Record::Header(header) => serde_json::to_vec(header)?,
            Record::Charge(charge) => serde_json::to_vec(charge)?,
        };
        let content = &json[..json.len() - 1];
        let check = check_of(self.checks.last(), content);
        let mut bytes = match self.joint {
            Joint::Nothing => vec![],
            Joint::Newline => vec![b'\n'],
            Joint::Separator => vec![SEPARATOR],
        };
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(CHECK_START.as_bytes());
        bytes.extend_from_slice(hex(&check).as_bytes());
        bytes.extend_from_slice(b"\"}\n");
        Ok(bytes)
    }

    /// Takes over a record whose bytes are on disk.
    pub(super) fn push(&mut self, record: Record, bytes: &[u8]) {
        let skip = usize::from(self.joint != Joint::Nothing);
        let content = &bytes[skip..bytes.len() - CHECK_LENGTH - 1];
        let line = self.lines.last().map_or(1, |line| line + 1);
        self.checks.push(check_of(self.checks.last(), content));
        self.lines.push(line);
        self.records.push(record);
        self.joint = Joint::Nothing;
    }

    /// The cut line at the end, which the next append leaves where it is.
    pub(super) fn last_cut(&self) -> Option<Cut> {
        self.cuts.last().filter(|_| self.joint == Joint::Separator).copied()
    }

    pub(super) fn charges(&self) -> impl Iterator<Item = &Charge> {
        self.numbered_charges().map(|(_, charge)| charge)
    }

    /// Charges with their lines.
    pub(super) fn numbered_charges(&self) -> impl Iterator<Item = (usize, &Charge)> {
        self.lines.iter().zip(&self.records).filter_map(|(line, record)| match record {
            Record::Charge(charge) => Some((*line, charge)),
            Record::Header(_) => None,
        })
    }

    /// A name for the next charge: hash of all lines so far, the time and the process.
    pub(super) fn identity(&self, time: &str, process: u32) -> String {
        hex(&check_of(self.checks.last(), format!("{time} {process}").as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Record {
        Record::Header(Header::of(&Purpose {
            label: "census".into(),
            terms: Neighbours::of_records(Relation::ZeroOut).within(Budget::new(4.0, 1e-5).unwrap()),
            unit_names: Vec::new(),
            rule: None,
        }))
    }

    fn charge(number: usize) -> Record {
        Record::Charge(Charge {
            charge: number,
            id: "0123456789abcdef".into(),
            time: "2026-11-21T11:30:00Z".into(),
            label: format!("run {number}"),
            rule: Rule::Renyi,
            requested: Budget::new(1.0, 1e-6).unwrap(),
            certified_epsilon: 0.9,
            accountant: "gdp".into(),
            event: Event::gaussian(5.0),
        })
    }

    fn append(bytes: &mut Vec<u8>, record: &Record) {
        let scan = scan(bytes).unwrap_or_else(|(line, damage)| panic!("line {line}: {damage}"));
        bytes.extend(scan.encode(record).unwrap());
    }

    fn count(bytes: &[u8]) -> usize {
        scan(bytes).unwrap_or_else(|(line, damage)| panic!("line {line}: {damage}")).records.len()
    }

    /// Cut at every byte, go on, cut the continuation at every byte, go on.
    #[test]
    fn torn_writes_at_every_offset() {
        let mut whole = Vec::new();
        append(&mut whole, &header());
        for number in 1..=2 {
            append(&mut whole, &charge(number));
        }
        let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i).collect();
        for cut in 0..=whole.len() {
            let complete = ends.iter().filter(|end| cut >= **end).count();
            let next = |records: usize| if records == 0 { header() } else { charge(records) };
            let mut torn = whole[..cut].to_vec();
            assert_eq!(count(&torn), complete, "cut at {cut}");
            append(&mut torn, &next(complete));
            assert_eq!(count(&torn), complete + 1, "cut at {cut}");
            for second in cut..=torn.len() {
                let mut again = torn[..second].to_vec();
                let records = count(&again);
                let whole_record = second + 1 >= torn.len();
                assert_eq!(records, complete + usize::from(whole_record), "cut at {cut}, then {second}");
                append(&mut again, &next(records));
                assert_eq!(count(&again), records + 1);
                assert_eq!(&again[..second], &torn[..second], "something was overwritten");
            }
        }
    }

    #[test]
    fn what_was_cut_is_counted() {
        let mut bytes = Vec::new();
        append(&mut bytes, &header());
        assert_eq!(scan(&bytes).unwrap().cuts, []);
        bytes.extend(b"{\"charge\"");
        let cut = Cut { line: 2, bytes: 9 };
        assert_eq!((scan(&bytes).unwrap().cuts, scan(&bytes).unwrap().last_cut()), (vec![cut], Some(cut)));
        append(&mut bytes, &charge(1));
        assert_eq!((scan(&bytes).unwrap().cuts, scan(&bytes).unwrap().last_cut()), (vec![cut], None));
    }

    #[test]
    fn headers_start_as_the_format_says() {
        let mut bytes = Vec::new();
        append(&mut bytes, &header());
        assert!(bytes.starts_with(FORMAT_START));
    }

    #[test]
    fn lines_are_json() {
        let mut bytes = Vec::new();
        append(&mut bytes, &header());
        append(&mut bytes, &charge(1));
        for line in std::str::from_utf8(&bytes).unwrap().lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(value["check"].is_string());
        }
    }
}
