//! The task of a worker: which rows are its own, and how they are read and encoded. All of it is public.

use dpopt::data::{Encoder, ReadOptions, Stripe, WordVectors, files_of, open_all};
use dpopt::model::LargeShard;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What one worker has to read and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    files: Vec<PathBuf>,
    reading: ReadOptions,
    encoder: serde_json::Value,
    /// Public vectors of words.
    vectors: Option<PathBuf>,
    part: u32,
    /// Which of the files' blocks: those whose number leaves the first as rest, divided by the second.
    stripe: (usize, usize),
    /// Most bytes of encoded rows in memory.
    most_bytes: u64,
}

/// The part of the task that all workers of a fit share.
pub(crate) struct Shared {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) reading: ReadOptions,
    pub(crate) encoder: Encoder,
    pub(crate) vectors: Option<PathBuf>,
    /// Most bytes of encoded rows in the memory of all workers together.
    pub(crate) most_bytes: Option<u64>,
}

impl Shared {
    /// One task for each of `workers`: whole files where there are enough of them, every so many-th block of all files otherwise.
    pub(super) fn divided(&self, workers: u32) -> Result<Vec<Task>, String> {
        let files = files_of(&self.files).map_err(|why| why.to_string())?;
        let files = files.into_iter().map(|file| regular(&file)).collect::<Result<Vec<_>, _>>()?;
        let encoder = serde_json::to_value(&self.encoder).map_err(|why| why.to_string())?;
        let count = workers as usize;
        let task = |(part, (files, stripe)): (u32, (Vec<PathBuf>, (usize, usize)))| Task {
            files,
            reading: self.reading.clone(),
            encoder: encoder.clone(),
            vectors: self.vectors.clone().filter(|_| self.encoder.needs_vectors()),
            part,
            stripe,
            most_bytes: self.most_bytes.map_or(u64::MAX, |bytes| bytes / u64::from(workers)),
        };
        let shares: Vec<(Vec<PathBuf>, (usize, usize))> = match files.len() < count {
            true => (0..count).map(|rest| (files.clone(), (rest, count))).collect(),
            false => by_size(files, count).into_iter().map(|own| (own, (0, 1))).collect(),
        };
        Ok((0..).zip(shares).map(task).collect())
    }
}

/// What tells that a file was written or replaced.
fn state(file: &Path) -> Option<(u64, SystemTime)> {
    let about = file.metadata().ok()?;
    Some((about.len(), about.modified().ok()?))
}

/// The files of some tasks as they are now: workers read them each in its own time, and rows of two states of a file would count twice or not at all.
pub(super) fn states(tasks: &[Task]) -> Vec<Option<(u64, SystemTime)>> {
    tasks.iter().flat_map(|task| &task.files).map(|file| state(file)).collect()
}

/// Where a file is, whoever opens it. A pipe is another one in a worker, which has a standard input of its own, and can be read once only.
fn regular(file: &Path) -> Result<PathBuf, String> {
    let shown = file.display();
    let whole = file.canonicalize().map_err(|why| format!("{shown}: {}", dpopt::data::failure(&why)))?;
    match whole.is_file() {
        true => Ok(whole),
        false => Err(format!(
            "{shown} is not a regular file, and workers open their files themselves, more than once; write the table \
             to a file, or leave out --workers"
        )),
    }
}

/// The files in `shares` groups of about the same size: the largest first, each to the group that has least. In a group they are in the order that was given.
fn by_size(files: Vec<PathBuf>, shares: usize) -> Vec<Vec<PathBuf>> {
    let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |about| about.len());
    let mut sized: Vec<(u64, usize)> = files.iter().map(size).zip(0..).collect();
    sized.sort_by_key(|(size, _)| Reverse(*size));
    let mut groups = vec![(0u64, Vec::new()); shares];
    for (size, place) in sized {
        if let Some(least) = groups.iter_mut().min_by_key(|(bytes, places)| (*bytes, places.len())) {
            least.0 += size;
            least.1.push(place);
        }
    }
    let in_order = |mut places: Vec<usize>| {
        places.sort_unstable();
        places.into_iter().map(|place| files[place].clone()).collect()
    };
    groups.into_iter().map(|(_, places)| in_order(places)).collect()
}

impl Task {
    /// Its rows, encoded. What is wrong is said without a value of a record.
    pub(super) fn load(self) -> Result<LargeShard, String> {
        let wrong = |why: dpopt::data::DataError| why.to_string();
        let mut encoder = Encoder::from_json(self.encoder).map_err(wrong)?;
        if let Some(path) = &self.vectors {
            encoder = encoder.with_vectors(Arc::new(WordVectors::open(path).map_err(wrong)?)).map_err(wrong)?;
        }
        let (rest, of) = self.stripe;
        let table = Stripe::new(open_all(&self.files, &self.reading).map_err(wrong)?, rest, of);
        LargeShard::of_table(&encoder, &table, self.part, self.most_bytes).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_a_worker_cannot_open_again_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.csv");
        std::fs::write(&file, "a\n1\n").unwrap();
        let link = directory.path().join("link.csv");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(regular(&link).unwrap(), file.canonicalize().unwrap());
        for path in [Path::new("/dev/stdin"), Path::new("/dev/null"), directory.path()] {
            let why = regular(path).unwrap_err();
            assert!(why.contains("not a regular file") || why.contains("not found"), "{why}");
        }
    }

    #[test]
    fn files_are_divided_by_size_and_each_goes_to_one_worker() {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = [5usize, 1, 1, 1, 1, 1, 0]
            .iter()
            .enumerate()
            .map(|(i, size)| {
                let path = directory.path().join(format!("{i}.csv"));
                std::fs::write(&path, vec![b'x'; size * 1000]).unwrap();
                path
            })
            .collect();
        for shares in [1, 2, 7] {
            let groups = by_size(files.clone(), shares);
            assert_eq!(groups.len(), shares);
            assert!(groups.iter().all(|group| !group.is_empty()), "{groups:?}");
            let mut all: Vec<PathBuf> = groups.into_iter().flatten().collect();
            all.sort();
            assert_eq!(all, files);
        }
        assert!(by_size(files.clone(), 2).iter().any(|group| group[0] == files[0] && group.len() <= 2));
        let turned: Vec<PathBuf> = files.iter().rev().cloned().collect();
        assert_eq!(by_size(turned.clone(), 1), [turned]);
    }
}
