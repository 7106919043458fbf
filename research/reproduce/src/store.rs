//! Finished trials on disk: one JSON file each, written whole or not at all, found again by the hash of all its settings.

use crate::failure::Failure;
use dpopt::output::write_atomically;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// What identifies a trial: everything its result depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) entry: String,
    pub(crate) revision: u32,
    pub(crate) version: String,
    pub(crate) scale: String,
    pub(crate) phase: String,
    pub(crate) cell: Value,
    /// Fingerprint of the user's data file, if one was given: the same name may hold other records next time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<String>,
    pub(crate) seed: u64,
    pub(crate) repeat: u32,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    key: Key,
    result: Value,
}

/// A folder of finished trials; without a folder nothing is kept.
pub(crate) struct Store {
    folder: Option<PathBuf>,
}

impl Store {
    pub(crate) fn open(folder: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).map_err(|e| Failure::file(folder, e))?;
        }
        Ok(Self { folder })
    }

    fn path(&self, key: &Key) -> Result<Option<PathBuf>, Failure> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let text = serde_json::to_vec(key)?;
        Ok(Some(folder.join(format!("{}.json", &blake3::hash(&text).to_hex()[..24]))))
    }

    /// The kept result of exactly these settings. A file that can't be read is computed again.
    pub(crate) fn find<R: DeserializeOwned>(&self, key: &Key) -> Result<Option<R>, Failure> {
        let Some(path) = self.path(key)? else { return Ok(None) };
        let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
        let Ok(kept) = serde_json::from_slice::<Kept>(&bytes) else { return Ok(None) };
        if kept.key != *key {
            return Ok(None);
        }
        Ok(serde_json::from_value(kept.result).ok())
    }

    pub(crate) fn keep<R: Serialize>(&self, key: &Key, result: &R) -> Result<(), Failure> {
        let Some(path) = self.path(key)? else { return Ok(()) };
        let kept = Kept { key: key.clone(), result: serde_json::to_value(result)? };
        write_atomically(&path, &serde_json::to_vec(&kept)?).map_err(|e| Failure::file(&path, e))
    }
}
