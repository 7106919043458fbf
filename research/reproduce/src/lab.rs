//! Where trials are run: in parallel over cells and repeats, resumable, with a seed for each.

use crate::failure::Failure;
use crate::store::{Key, Store};
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::progress::Progress;
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Seconds: shows that the code runs; its numbers say little.
    Short,
    /// What the documentation shows.
    Full,
}

/// One repeat of one cell.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Number of the repeat: 0, 1, …
    pub repeat: u32,
    /// Seed of this cell and repeat alone.
    pub seed: u64,
    /// Seed that all cells have in common at equal repeats: draw from it what cells share, such as the data.
    pub shared_seed: u64,
}

impl Trial {
    /// Randomness of this trial.
    pub fn source(&self) -> NoiseSource {
        NoiseSource::insecure(self.seed)
    }

    /// A stream of this trial.
    pub fn stream(&self) -> dpopt::noise::Stream {
        self.source().stream(Purpose::Other(0), 0)
    }
}

/// What an entry computes with.
pub struct Lab<'a> {
    /// How much is computed.
    pub scale: Scale,
    /// Seed of the whole run.
    pub seed: u64,
    name: &'static str,
    revision: u32,
    store: Store,
    data: Option<PathBuf>,
    /// BLAKE3 of `data` if that is a file.
    fingerprint: Option<String>,
    progress: &'a dyn Progress,
    settings: Mutex<Vec<(String, serde_json::Value)>>,
    computed: AtomicU64,
    found: AtomicU64,
}

impl<'a> Lab<'a> {
    /// A lab for the entry of that name and revision. Finished trials are kept in `folder`; data sets are looked for in `data`.
    ///
    /// # Errors
    /// The folder could not be made, or a data file not read.
    pub fn open(
        (name, revision): (&'static str, u32),
        scale: Scale,
        seed: u64,
        folder: Option<PathBuf>,
        data: Option<PathBuf>,
        progress: &'a dyn Progress,
    ) -> Result<Self, Failure> {
        let fingerprint = match data.as_deref().filter(|p| p.is_file()) {
            Some(file) => Some(fingerprint(file).map_err(|e| Failure::file(file, e))?),
            None => None,
        };
        Ok(Self {
            scale,
            seed,
            name,
            revision,
            store: Store::open(folder)?,
            data,
            fingerprint,
            progress,
            settings: Mutex::new(Vec::new()),
            computed: AtomicU64::new(0),
            found: AtomicU64::new(0),
        })
    }

    /// `short` or `full`, by the scale.
    pub fn pick<T>(&self, short: T, full: T) -> T {
        match self.scale {
            Scale::Short => short,
            Scale::Full => full,
        }
    }

    /// Notes a setting: it is printed and stands in `result.json`.
    ///
    /// # Errors
    /// The value has no JSON form.
    pub fn setting(&self, name: &str, value: impl Serialize) -> Result<(), Failure> {
        let value = serde_json::to_value(value)?;
        self.settings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((name.into(), value));
        Ok(())
    }

    /// All settings so far.
    pub fn settings(&self) -> Vec<(String, serde_json::Value)> {
        self.settings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// (computed now, found from earlier runs).
    pub fn trials_done(&self) -> (u64, u64) {
        (self.computed.load(Ordering::Relaxed), self.found.load(Ordering::Relaxed))
    }

    /// The file that `--data` names, if it is one: the user's own data.
    pub fn file(&self) -> Option<&Path> {
        self.data.as_deref().filter(|p| p.is_file())
    }

    /// BLAKE3 of [`file`](Self::file), in hexadecimal: finished trials are found again for the same contents only.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// The file or folder of a data set.
    ///
    /// # Errors
    /// It is not there.
    pub fn data(&self, name: &'static str, hint: &'static str) -> Result<PathBuf, Failure> {
        let path = self.data.as_ref().map(|d| d.join(name)).filter(|p| p.exists());
        path.ok_or(Failure::Data { name, hint })
    }

    /// Runs every cell `repeats` times, in parallel; what an earlier run with the same settings finished is not computed
    /// again. The result is indexed by cell, then by repeat. `run` must depend on nothing but its cell and its trial.
    ///
    /// # Errors
    /// The first failure of a trial, or of writing a result.
    pub fn trials<C, R>(
        &self,
        phase: &str,
        cells: &[C],
        repeats: u32,
        run: impl Fn(&C, Trial) -> Result<R, Failure> + Sync,
    ) -> Result<Vec<Vec<R>>, Failure>
    where
        C: Serialize + Sync,
        R: Serialize + DeserializeOwned + Send,
    {
        let jobs: Vec<(usize, u32)> = (0..cells.len()).flat_map(|c| (0..repeats).map(move |r| (c, r))).collect();
        self.progress.start(phase, jobs.len() as u64);
        let results: Result<Vec<R>, Failure> = jobs
            .par_iter()
            .with_max_len(1)
            .map(|&(c, repeat)| {
                let key = Key {
                    entry: self.name.into(),
                    revision: self.revision,
                    version: env!("CARGO_PKG_VERSION").into(),
                    scale: self.pick("short", "full").into(),
                    phase: phase.into(),
                    cell: serde_json::to_value(&cells[c])?,
                    data: self.fingerprint.clone(),
                    seed: self.seed,
                    repeat,
                };
                let result = if let Some(result) = self.store.find(&key)? {
                    self.found.fetch_add(1, Ordering::Relaxed);
                    result
                } else {
                    let trial = Trial {
                        repeat,
                        seed: derived(&[&serde_json::to_vec(&(&key.entry, phase, &key.cell, self.seed, repeat))?]),
                        shared_seed: derived(&[&serde_json::to_vec(&(&key.entry, self.seed, repeat))?]),
                    };
                    let result = run(&cells[c], trial)?;
                    self.store.keep(&key, &result)?;
                    self.computed.fetch_add(1, Ordering::Relaxed);
                    // through the same text as a kept one, so that a resumed run gives the same bytes
                    serde_json::from_value(serde_json::to_value(&result)?)?
                };
                self.progress.tick();
                Ok(result)
            })
            .collect();
        self.progress.finish();
        let mut results = results?.into_iter();
        Ok(cells.iter().map(|_| results.by_ref().take(repeats as usize).collect()).collect())
    }
}

fn fingerprint(file: &Path) -> std::io::Result<String> {
    let mut hash = blake3::Hasher::new();
    hash.update_reader(std::fs::File::open(file)?)?;
    Ok(hash.finalize().to_hex().to_string())
}

fn derived(parts: &[&[u8]]) -> u64 {
    let mut hash = blake3::Hasher::new_derive_key("dpopt-reproduce 2026 trial seed");
    for part in parts {
        hash.update(part);
    }
    let mut bytes = [0u8; 8];
    hash.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
