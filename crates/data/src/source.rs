//! Where bytes come from: a file or memory, gunzipped when the first two bytes are gzip's, without a UTF-8 mark.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::bufread::GzDecoder;

use crate::error::{DataError, name_of};

const BUFFER: usize = 1 << 17;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How gzip is recognised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Zip {
    /// By the first two bytes, where those are public (a header, a Parquet mark).
    ByFirstBytes,
    /// By a name that ends in `.gz`, where the first two bytes may be a record's. (What is in memory has no name.)
    ByName,
}

/// A file or a piece of memory that can be read from its beginning more than once.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Path(PathBuf),
    Memory(Arc<[u8]>),
}

impl Source {
    /// How messages call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Path(path) => name_of(path),
            Self::Memory(_) => "<memory>".into(),
        }
    }

    /// Turns an i/o error while reading into a message (never with content).
    pub(crate) fn error(&self, error: &std::io::Error, gzip: bool) -> DataError {
        use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        if gzip && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) {
            DataError::DamagedGzip { source_name: self.name() }
        } else {
            DataError::unreadable(&self.name(), error)
        }
    }

    fn raw(&self) -> std::io::Result<Box<dyn BufRead + Send>> {
        Ok(match self {
            Self::Path(path) => {
                let file = File::open(path)?;
                if file.metadata()?.is_dir() {
                    return Err(std::io::ErrorKind::IsADirectory.into());
                }
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
            Self::Memory(bytes) => Box::new(std::io::Cursor::new(Arc::clone(bytes))),
        })
    }

    /// The bytes from the beginning, gunzipped, without a UTF-8 mark; and whether they were gzipped.
    pub(crate) fn open(&self, zip: Zip) -> Result<(Box<dyn BufRead + Send>, bool), DataError> {
        let plain = |e: std::io::Error| DataError::unreadable(&self.name(), &e);
        let raw = self.raw().map_err(plain)?;
        let (mut stream, gzip) = match (zip, self) {
            (Zip::ByName, Self::Path(path)) if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz")) => {
                (gunzip(raw), true)
            }
            (Zip::ByName, Self::Path(_)) => (raw, false),
            _ => peek_gzip(raw).map_err(plain)?,
        };
        let mut first = Vec::with_capacity(UTF8_MARK.len());
        (&mut stream).take(UTF8_MARK.len() as u64).read_to_end(&mut first).map_err(|e| self.error(&e, gzip))?;
        if first == UTF8_MARK {
            first.clear();
        }
        Ok((Box::new(std::io::Cursor::new(first).chain(stream)), gzip))
    }

    /// All bytes in memory, gunzipped, at most `limit` (Parquet needs random access; a plain file is opened by its reader
    /// instead). A file that unzips to more than that, or than there is memory for, is an error before the memory is gone.
    pub(crate) fn gunzipped(&self, limit: u64) -> Result<Option<Vec<u8>>, DataError> {
        let plain = |e: std::io::Error| DataError::unreadable(&self.name(), &e);
        let (mut stream, gzip) = peek_gzip(self.raw().map_err(plain)?).map_err(plain)?;
        if !gzip {
            return Ok(None);
        }
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let piece = match stream.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other.map_err(|e| self.error(&e, true))?,
            };
            if piece.is_empty() {
                return Ok(Some(bytes));
            }
            let fits = (bytes.len() + piece.len()) as u64 <= limit && bytes.try_reserve(piece.len()).is_ok();
            if !fits {
                return Err(DataError::UnzipsTooLarge { source_name: self.name(), held: bytes.len() as u64 >> 20 });
            }
            bytes.extend_from_slice(piece);
            let used = piece.len();
            stream.consume(used);
        }
    }
}

fn gunzip(raw: Box<dyn BufRead + Send>) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER, Members { now: Some(GzDecoder::new(raw)) }))
}

/// The members of a gzip file one after the other, and zeros after the last, with which tapes and some stores fill up.
struct Members {
    /// `None` after the last.
    now: Option<GzDecoder<Box<dyn BufRead + Send>>>,
}

impl Read for Members {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while let Some(member) = &mut self.now {
            let got = member.read(out)?;
            if got > 0 || out.is_empty() {
                return Ok(got);
            }
            let Some(mut raw) = self.now.take().map(GzDecoder::into_inner) else { break };
            let mut padded = false;
            let next = loop {
                let piece = raw.fill_buf()?;
                if piece.is_empty() {
                    break false;
                }
                match piece.iter().position(|byte| *byte != 0) {
                    Some(at) => {
                        padded |= at > 0;
                        break true;
                    }
                    None => {
                        let used = piece.len();
                        raw.consume(used);
                        padded = true;
                    }
                }
            };
            if next && padded {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            self.now = next.then(|| GzDecoder::new(raw));
        }
        Ok(0)
    }
}

/// Looks at the first two bytes without consuming them.
fn peek_gzip(mut raw: Box<dyn BufRead + Send>) -> std::io::Result<(Box<dyn BufRead + Send>, bool)> {
    let mut head = [0u8; 2];
    let mut got = 0;
    while got < head.len() {
        match raw.read(&mut head[got..])? {
            0 => break,
            k => got += k,
        }
    }
    let whole: Box<dyn BufRead + Send> = Box::new(std::io::Cursor::new(head[..got].to_vec()).chain(raw));
    Ok(if head[..got] == GZIP { (gunzip(whole), true) } else { (whole, false) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn zipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
        let source = Source::Memory(bytes.into());
        let (mut stream, gzip) = source.open(Zip::ByFirstBytes)?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).map_err(|error| source.error(&error, gzip))?;
        Ok(text)
    }

    #[test]
    fn members_are_one_text_and_zeros_after_the_last_are_nothing() {
        let long = b"a line\n".repeat(100_000);
        for zeros in [0, 1, 511, 300_000] {
            let padded = |bytes: Vec<u8>| [bytes, vec![0; zeros]].concat();
            assert_eq!(read(padded(zipped(&long))).unwrap(), long);
            assert_eq!(read(padded([zipped(b"a\n"), zipped(b""), zipped(b"b\n")].concat())).unwrap(), b"a\nb\n");
            assert!(matches!(
                read([padded(zipped(b"a\n")), b"x".to_vec()].concat()),
                Err(DataError::DamagedGzip { .. })
            ));
        }
        assert!(read([zipped(b"a\n"), vec![0], zipped(b"b\n")].concat()).is_err());
        let cut = zipped(&long);
        assert!(read(cut[..cut.len() / 2].to_vec()).is_err());
    }
}
