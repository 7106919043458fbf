//! A partition that may be larger than memory: pieces of it, and those beyond a cap in a temporary file, brought back one at a time for every aggregate query.
//!
//! The file has no name, as that of [`SpilledExamples`](dpopt_objective::records::SpilledExamples): the disk of the temporary directory is as sensitive as
//! the table.

use super::super::error::FitError;
use super::Shard;
use dpopt_data::{BadCells, DataError, Encoder, TableReader};
use dpopt_mechanism::CuratorError;
use dpopt_objective::records::{Examples, PartialSum, Rows, fingerprint};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes of encoded rows in a piece: small enough that some fit under a small cap, large enough that reading it back is one long read.
const PIECE: std::ops::RangeInclusive<u64> = 1 << 18..=1 << 25;
/// So many pieces fit under a cap: those that stay, one that is brought back and its bytes.
const PIECES: u64 = 8;
const IN_TRANSIT: u64 = 3;

/// One partition of a table in pieces.
pub struct LargeShard {
    part: u32,
    kept: Vec<Shard>,
    filed: Vec<Place>,
    file: Option<File>,
    /// Bytes of encoded rows in memory, at most and now.
    most_bytes: u64,
    bytes: u64,
    records: u64,
    digest: u64,
}

/// Where a piece is in the file.
struct Place {
    at: u64,
    length: usize,
}

impl LargeShard {
    /// Partition number `part` of a table's rows, encoded as `encoder` says, by public facts alone; a cell that can't be read is missing. Encoded rows beyond
    /// `most_bytes` lie in a temporary file.
    ///
    /// # Errors
    /// If the table can't be read or has other columns, or there is no room for the file.
    pub fn of_table(encoder: &Encoder, table: &dyn TableReader, part: u32, most_bytes: u64) -> Result<Self, FitError> {
        let piece = (most_bytes / PIECES).clamp(*PIECE.start(), *PIECE.end());
        let most_bytes = most_bytes.saturating_sub(IN_TRANSIT * piece);
        let (kept, filed) = (Vec::new(), Vec::new());
        let mut whole = Self { part, kept, filed, file: None, most_bytes, bytes: 0, records: 0, digest: 0 };
        let empty = || Examples { rows: Rows::new(encoder.dimension()), targets: Vec::new() };
        let mut waiting = empty();
        let broken = |e: io::Error| DataError::TemporaryFile { reason: e.kind().to_string() };
        encoder.encode_public_in_blocks(table, BadCells::Missing, &mut |block| {
            waiting.rows.append(&block.rows);
            waiting.targets.extend_from_slice(&block.targets);
            if waiting.rows.bytes() < piece {
                return Ok(());
            }
            let full = std::mem::replace(&mut waiting, empty());
            whole.push(Shard::encoded(encoder, full, part)).map_err(broken)
        })?;
        whole.push(Shard::encoded(encoder, waiting, part)).map_err(broken)?;
        Ok(whole)
    }

    /// Keeps a piece, in memory if there is room.
    fn push(&mut self, piece: Shard) -> io::Result<()> {
        let piece = piece.after(self.records);
        self.records += piece.records();
        self.digest = self.digest.wrapping_add(piece.digest());
        let bytes = piece.bytes() as u64;
        if self.bytes + bytes <= self.most_bytes {
            self.bytes += bytes;
            self.kept.push(piece);
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile()?,
        };
        let bytes = piece.to_bytes();
        let at = file.seek(SeekFrom::End(0))?;
        file.write_all(&bytes)?;
        self.filed.push(Place { at, length: bytes.len() });
        self.file = Some(file);
        Ok(())
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// A digest of what they hold, whatever their order; as sensitive as a sum of them.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether some of it lies in a file.
    pub fn is_filed(&self) -> bool {
        self.file.is_some()
    }

    /// What its records add up to, as [`Shard::answer`].
    ///
    /// # Errors
    /// If the aggregate query is not one of this version, or about other records, whatever they hold; or if the temporary file can't be read.
    pub fn answer(&mut self, message: &[u8]) -> Result<Vec<u8>, LostPiece> {
        let mut sum: Option<Vec<i64>> = None;
        let mut add = |shard: &Shard| {
            let answer = PartialSum::from_bytes(&shard.answer(message)?).map_err(|_| CuratorError::Shape)?;
            answer.add_to(sum.get_or_insert_with(|| vec![0; answer.width()]));
            Ok::<_, LostPiece>(())
        };
        self.kept.iter().try_for_each(&mut add)?;
        if let Some(file) = &mut self.file {
            let mut bytes = Vec::new();
            for place in &self.filed {
                bytes.resize(place.length, 0);
                file.seek(SeekFrom::Start(place.at))?;
                file.read_exact(&mut bytes)?;
                add(&Shard::from_bytes(&bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?)?;
            }
        }
        let known = (self.records, self.digest);
        Ok(PartialSum::new(fingerprint(message), self.part, known, sum.unwrap_or_default()).to_bytes())
    }
}

/// Why a partition could not answer. Nothing of it depends on what a record holds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LostPiece {
    /// The aggregate query cannot be answered.
    #[error(transparent)]
    AggregateQuery(#[from] CuratorError),
    /// The temporary file cannot be written or read.
    #[error("the temporary file of rows can't be read: {}", .0.kind())]
    File(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::super::empty_query;
    use super::*;
    use crate::model::{Fit, FitOptions};
    use crate::run::RunOptions;
    use dpopt_data::{Format, ReadOptions, Schema, Stripe, open_bytes};
    use dpopt_mechanism::progress::Silent;
    use dpopt_objective::records::{Partitions, PartitionsFailed};
    use dpopt_optimize::MethodOptions;
    use std::sync::{Arc, Mutex};

    const ROWS: u32 = 70_000;

    fn table(rows: u32) -> Box<dyn TableReader> {
        let lines = (0..rows).map(|i| format!("{},{}\n", (i * 7919) % 100, if i % 3 == 0 { "yes" } else { "no" }));
        let text = format!("age,y\n{}", lines.collect::<String>());
        open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap()
    }

    fn schema() -> Schema {
        let mut schema = Schema::from_toml("[age]\nlower = 0\nupper = 99\n[y]\nlevels = ['no', 'yes']\n").unwrap();
        schema.form.spread = Some(false);
        schema
    }

    fn planned(method: &str, remote: bool) -> Fit {
        // every step asks all partitions: ten show what hundreds would
        let steps = (method != "objective-perturbation").then_some(10);
        let mut method = MethodOptions::of(method).with_if("steps", steps);
        method.remote = remote;
        let options = FitOptions::default().schema(schema()).method(method).rows(u64::from(ROWS));
        let run = RunOptions::within(1.0).delta(1e-6).insecure_seed(1);
        Fit::new(table(ROWS), "y", run, options.bad_cells(BadCells::Missing)).unwrap()
    }

    struct Here(Mutex<Vec<LargeShard>>);

    impl Partitions for Here {
        fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
            self.0.lock().unwrap().iter_mut().map(|part| part.answer(query).map_err(|_| PartitionsFailed)).collect()
        }
    }

    #[test]
    fn a_model_is_the_same_bits_however_much_of_the_parts_lies_in_files() {
        let wholes = [(1, u64::MAX, false), (1, 1 << 22, true), (1, 1 << 10, true)];
        let divided = [(1, u64::MAX, false), (1, 1 << 22, true), (3, 1 << 10, true)];
        for (method, divisions) in
            // stripes are other places, and a sample is of places
            [("noisy-gradient-descent", divided), ("objective-perturbation", divided), ("noisy-sgd", wholes)]
        {
            let mut found = Vec::new();
            for (parts, most, filed) in divisions {
                let fit = planned(method, true);
                let encoder = fit.encoder_of_partitions().unwrap();
                let part = |i| LargeShard::of_table(&encoder, &Stripe::new(table(ROWS), i, parts), i as u32, most);
                let held: Vec<LargeShard> = (0..parts).map(|i| part(i).unwrap()).collect();
                assert!(held.iter().all(|part| part.is_filed() == filed));
                // under a cap of some megabytes a part stays in memory, and what stays keeps to it
                assert_eq!(held[0].kept.is_empty(), most == 1 << 10);
                assert!(held[0].kept.iter().map(Shard::bytes).sum::<usize>() as u64 <= most);
                let known = held.iter().map(|part| (part.records(), part.digest())).collect();
                let fitted = fit.run_remote(Arc::new(Here(Mutex::new(held))), known, &Silent).unwrap();
                found.push(fitted.model.to_json().unwrap());
            }
            assert!(found.iter().all(|model| *model == found[0]), "{method}");
            if method == "noisy-gradient-descent" {
                assert_eq!(planned(method, false).run().unwrap().model.to_json().unwrap(), found[0]);
            }
        }
    }

    #[test]
    fn pieces_are_known_as_the_whole_is() {
        let encoder = planned("noisy-gradient-descent", true).encoder_of_partitions().unwrap();
        let whole = Shard::of_table(&encoder, &*table(ROWS), 3).unwrap();
        let mut large = LargeShard::of_table(&encoder, &*table(ROWS), 3, 1 << 22).unwrap();
        assert_eq!((large.records(), large.digest()), (whole.records(), whole.digest()));
        assert!(large.answer(&empty_query()).unwrap() == whole.answer(&empty_query()).unwrap());
        // of another version
        assert!(large.answer(b"?").is_err());
        let mut none = LargeShard::of_table(&encoder, &*table(0), 0, u64::MAX).unwrap();
        assert_eq!((none.records(), none.digest()), (0, 0));
        let answer = PartialSum::from_bytes(&none.answer(&empty_query()).unwrap()).unwrap();
        assert_eq!((answer.records(), answer.width()), ((0, 0), 0));
    }
}
