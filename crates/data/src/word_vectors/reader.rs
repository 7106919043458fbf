//! Word vectors as text: `word v1 v2 …` on every line, with or without a line `words dimension` before (GloVe; word2vec and fastText).
//!
//! The file is public, but another may be given by mistake: messages tell lines and what is wrong with them, never what stands there.

use super::Read;
use crate::cell::Rules;
use crate::error::DataError;
use crate::source::{Source, Zip};
use crate::text::TextFeatures;
use dpopt_process::in_threads;
use rayon::prelude::*;
use std::collections::HashMap;
use std::io::{BufRead, Read as _};
use std::path::Path;

/// Most numbers per word, words, numbers of all words together, and bytes of a line.
pub(crate) const MAX_DIMENSIONS: usize = 4096;
const MAX_WORDS: usize = 1 << 23;
const MAX_NUMBERS: usize = 1 << 31;
const LINE_BYTES: u64 = 1 << 20;
/// Lines that are read before they are taken apart, in parallel.
const LINES_AT_ONCE: usize = 1 << 12;

pub(super) fn read_path(path: &Path) -> Result<Read, DataError> {
    read(&Source::Path(path.to_path_buf()), &crate::error::name_of(path))
}

pub(super) fn read_bytes(name: &str, bytes: Vec<u8>) -> Result<Read, DataError> {
    read(&Source::Memory(bytes.into()), name)
}

fn read(source: &Source, name: &str) -> Result<Read, DataError> {
    let wrong = |reason: String| DataError::WordVectors { source_name: name.into(), reason };
    let at_line = |line: usize, what: &str| wrong(format!("line {} {what}", line + 1));
    let (mut stream, gzip) = source.open(Zip::ByFirstBytes)?;
    let mut hash = blake3::Hasher::new();
    let mut file = File {
        announced: None,
        words: Words { dimension: 0, places: HashMap::new(), values: Vec::new(), ranks: Vec::new() },
        lines: 0,
        alphabetical: true,
        last: Vec::new(),
    };
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    let mut line_number = 0;
    loop {
        let mut line = Vec::new();
        let read = (&mut stream).take(LINE_BYTES + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|e| source.error(&e, gzip))?;
        if read as u64 > LINE_BYTES {
            return Err(at_line(line_number, "is longer than 1 MiB; give lines of a word and its numbers"));
        }
        hash.update(&line);
        let end = read == 0;
        if !end {
            line.truncate(line.trim_ascii_end().len());
            waiting.push(line);
            line_number += 1;
        }
        if end || waiting.len() == LINES_AT_ONCE {
            let first = line_number - waiting.len();
            file.take(&waiting, first).map_err(|(line, what)| at_line(line, &what))?;
            waiting.clear();
        }
        if end {
            break;
        }
        if line_number > MAX_WORDS {
            return Err(wrong(format!("it has more than {MAX_WORDS} words; leave out the rarest")));
        }
    }
    if file.lines == 0 {
        return Err(wrong("it holds no vectors; give lines of a word and its numbers".into()));
    }
    if let Some((words, _)) = file.announced
        && words != file.lines as u64
    {
        return Err(wrong(format!(
            "its first line announces {words} words, but {} lines follow; it is cut off, or the first line is wrong",
            file.lines
        )));
    }
    let Words { dimension, places, values, ranks } = file.words;
    if ranks.len() < 2 {
        return Err(wrong("none of its words can occur in a text; give lines of a word and its numbers".into()));
    }
    let alphabetical = file.alphabetical && file.lines > 2;
    Ok(Read { fingerprint: hash.finalize().to_hex().to_string(), dimension, places, values, ranks, alphabetical })
}

struct Words {
    dimension: usize,
    places: HashMap<Box<str>, u32>,
    values: Vec<f32>,
    ranks: Vec<u32>,
}

struct File {
    /// Words and numbers of each, as the first line says.
    announced: Option<(u64, u64)>,
    words: Words,
    /// Lines with a word.
    lines: usize,
    alphabetical: bool,
    last: Vec<u8>,
}

/// The line from 0, and the rest of a sentence that begins with it.
type Wrong = (usize, String);

fn fields(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|b| matches!(b, b' ' | b'\t')).filter(|field| !field.is_empty())
}

fn number(field: &[u8]) -> Option<f32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// `words dimension`, if the line is that.
fn announcement(line: &[u8]) -> Option<(u64, u64)> {
    let whole = |field: &[u8]| std::str::from_utf8(field).ok()?.parse::<u64>().ok();
    match fields(line).collect::<Vec<_>>()[..] {
        [words, dimension] => Some((whole(words)?, whole(dimension)?)),
        _ => None,
    }
}

/// The word of a line as texts have it, if it is one word there, and its numbers.
fn parsed(line: &[u8], dimension: usize, features: &mut TextFeatures) -> Result<(Option<Box<str>>, Vec<f32>), String> {
    let all: Vec<&[u8]> = fields(line).collect();
    let Some(words) = all.len().checked_sub(dimension).filter(|words| *words > 0) else {
        return Err(format!("has {} fields, not a word and {dimension} numbers", all.len()));
    };
    let (word, numbers) = all.split_at(words);
    // a few files hold words with a space in them, which are none of a text; a further number is a mistake
    if word.len() > 1 && word[1..].iter().all(|field| number(field).is_some()) {
        return Err(format!("has {} fields, not a word and {dimension} numbers", all.len()));
    }
    let mut values = Vec::with_capacity(dimension);
    for field in numbers {
        match number(field) {
            Some(value) if value.is_finite() => values.push(value),
            _ => return Err("holds a value that is not a finite number".into()),
        }
    }
    let [word] = word else { return Ok((None, values)) };
    // words of a file are whole, whatever their script
    features.read(word, Rules::First);
    let mut tokens = features.tokens.iter();
    let token = tokens.next().filter(|_| tokens.next().is_none());
    Ok((token.map(Box::from), values))
}

impl File {
    fn take(&mut self, lines: &[Vec<u8>], first: usize) -> Result<(), Wrong> {
        let mut skipped = 0;
        if first == 0 && !lines.is_empty() {
            self.announced = announcement(&lines[0]);
            skipped = usize::from(self.announced.is_some());
            self.words.dimension = match self.announced {
                Some((_, dimension)) => usize::try_from(dimension).unwrap_or(usize::MAX),
                None => fields(&lines[0]).count().saturating_sub(1),
            };
            if !(2..=MAX_DIMENSIONS).contains(&self.words.dimension) {
                return Err((
                    0,
                    format!(
                        "does not show 2 to {MAX_DIMENSIONS} numbers for every word; give lines of a word and its numbers"
                    ),
                ));
            }
        }
        let dimension = self.words.dimension;
        let of = |features: &mut TextFeatures, line: &Vec<u8>| parsed(line, dimension, features);
        let rows: Vec<Result<(Option<Box<str>>, Vec<f32>), String>> =
            in_threads(|| lines[skipped..].par_iter().map_init(TextFeatures::default, of).collect());
        for (i, row) in rows.into_iter().enumerate() {
            let line = first + skipped + i;
            let (word, values) = row.map_err(|what| (line, what))?;
            let own = fields(&lines[skipped + i]).next().unwrap_or_default();
            self.alphabetical &= self.lines == 0 || self.last.as_slice() <= own;
            self.last.clear();
            self.last.extend_from_slice(own);
            let rank = self.lines as u32;
            self.lines += 1;
            let Some(word) = word else { continue };
            let place = self.words.ranks.len() as u32;
            if let std::collections::hash_map::Entry::Vacant(entry) = self.words.places.entry(word) {
                let held = self.words.values.len() + dimension;
                if held > MAX_NUMBERS || self.words.values.try_reserve(dimension).is_err() {
                    return Err((line, "is too large for memory; leave out the rarest words".into()));
                }
                entry.insert(place);
                self.words.values.extend_from_slice(&values);
                self.words.ranks.push(rank);
            }
        }
        Ok(())
    }
}
