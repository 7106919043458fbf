//! SMS spam hashed to 47,236 features, Adult through the library's encoder, or a LIBSVM file.

use crate::{Failure, Lab};
use dpopt::data::{BadCells, Encoder, ReadOptions, Schema};
use dpopt::records::{Examples, Rows};
use std::path::Path;

/// Features of RCV1, which the hashed words stand in for.
const HASHED: usize = 47_236;

/// Records with what is publicly known about them.
pub(super) struct DataSet {
    pub(super) name: &'static str,
    examples: Examples,
    /// Weights k that a sparse method keeps.
    pub(super) features_kept: u64,
    pub(super) nonzeros: usize,
    pub(super) intercept: Option<u32>,
}

/// Training and validation records.
pub(super) struct Fold {
    pub(super) train: Examples,
    pub(super) validation: Examples,
}

impl DataSet {
    /// Fold `which` of `count`: every `count`-th record validates.
    pub(super) fn fold(&self, which: usize, count: usize) -> Fold {
        let n = self.examples.targets.len();
        let (train, validation): (Vec<usize>, Vec<usize>) = (0..n).partition(|i| i % count != which);
        Fold { train: self.examples.select(&train), validation: self.examples.select(&validation) }
    }
}

/// The file that was given, or both data sets that we have; a short run takes one.
pub(super) fn all(lab: &Lab) -> Result<Vec<DataSet>, Failure> {
    if let Some(path) = lab.file() {
        lab.setting("data file (BLAKE3)", lab.fingerprint())?;
        return Ok(vec![libsvm(path)?]);
    }
    let limit = lab.pick(400, usize::MAX);
    let sms = sms(&lab.data("sms-spam/SMSSpamCollection", "the UCI SMS Spam Collection")?, limit)?;
    if limit < usize::MAX {
        return Ok(vec![sms]);
    }
    Ok(vec![sms, adult(&lab.data("adult/adult.csv", "the UCI Adult table with a header")?)?])
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|why| Failure::File { path: path.display().to_string(), why })
}

/// Words, hashed; every row of norm 1. No intercept: the paper has none.
fn sms(path: &Path, limit: usize) -> Result<DataSet, Failure> {
    let text = read(path)?;
    let mut examples = Examples { rows: Rows::new(HASHED), targets: Vec::new() };
    for line in text.lines().take(limit) {
        let Some((label, message)) = line.split_once('\t') else { continue };
        let lower = message.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
        let mut entries: Vec<(u32, f32)> = words.map(|w| (slot(w), 1.0)).collect();
        entries.sort_unstable_by_key(|e| e.0);
        entries.dedup_by_key(|e| e.0);
        let size = 1.0 / (entries.len().max(1) as f32).sqrt();
        entries.iter_mut().for_each(|e| e.1 = size);
        examples.rows.push_clipped(&mut entries, 1.0);
        examples.targets.push(if label == "spam" { 1.0 } else { -1.0 });
    }
    Ok(DataSet { name: "sms-spam", examples, features_kept: 200, nonzeros: 32, intercept: None })
}

/// Slot of a word: its FNV-1a hash modulo [`HASHED`].
fn slot(word: &str) -> u32 {
    let hash =
        word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash % HASHED as u64) as u32
}

/// Ranges from the census codebook, levels as public knowledge.
const BOUNDS: &str = "[age]\nlower = 17\nupper = 90\n[fnlwgt]\nlower = 0\nupper = 1500000\n[education_num]\nlower = 1\nupper = 16\n\
    [capital_gain]\nlower = 0\nupper = 99999\n[capital_loss]\nlower = 0\nupper = 4356\n[hours_per_week]\nlower = 1\nupper = 99\n\
    [income]\nlevels = ['<=50K', '>50K']\n";

fn adult(path: &Path) -> Result<DataSet, Failure> {
    let table = dpopt::data::open(path, &ReadOptions::default()).map_err(Failure::of)?;
    let mut schema = Schema::from_toml(BOUNDS).map_err(Failure::of)?;
    schema.complete_from_public(&*table, Some("income")).map_err(Failure::of)?;
    let layout = schema.resolve(table.columns(), Some("income")).map_err(Failure::of)?;
    let encoder = Encoder::new(&layout).map_err(Failure::of)?;
    let examples = encoder.encode_public(&*table, BadCells::Missing).map_err(Failure::of)?;
    let intercept = encoder.has_intercept().then_some(0);
    Ok(DataSet { name: "adult", examples, features_kept: 40, nonzeros: encoder.max_nonzeros(), intercept })
}

/// Rows clipped to norm 1; labels by their sign. k as in the paper, at most a thousand.
fn libsvm(path: &Path) -> Result<DataSet, Failure> {
    let text = read(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parsed: Vec<(f64, Vec<(u32, f32)>)> = lines
        .map(|(i, line)| {
            entries(line).ok_or_else(|| {
                Failure::of(format!("{}: line {} is not `label index:value ...`", path.display(), i + 1))
            })
        })
        .collect::<Result<_, _>>()?;
    let columns = parsed.iter().flat_map(|(_, row)| row).map(|e| e.0 as usize + 1).max().unwrap_or(0);
    if parsed.len() < 10 || columns == 0 {
        return Err(Failure::of(format!("{} has too few rows for five folds, or no features", path.display())));
    }
    let mut examples = Examples { rows: Rows::new(columns), targets: Vec::new() };
    for (label, mut row) in parsed {
        examples.rows.push_clipped(&mut row, 1.0);
        examples.targets.push(if label > 0.0 { 1.0 } else { -1.0 });
    }
    let features_kept = (columns as u64 / 47).clamp(1, 1000);
    Ok(DataSet { name: "libsvm", examples, features_kept, nonzeros: 128, intercept: None })
}

/// Label and entries, indices from 1 in the file and from 0 here; a comment begins with `#`.
fn entries(line: &str) -> Option<(f64, Vec<(u32, f32)>)> {
    let mut parts = line.split('#').next()?.split_whitespace();
    let label = parts.next()?.parse().ok()?;
    let entry = |part: &str| {
        let (index, value) = part.split_once(':')?;
        Some((index.parse::<u32>().ok()?.checked_sub(1)?, value.parse().ok()?))
    };
    Some((label, parts.map(entry).collect::<Option<_>>()?))
}
