//! What goes between a fit and its workers, over pipes: so many bytes, told before by eight, little-endian.

use std::io::{self, Read, Write};

/// Sends `bytes` with their length before them.
pub(super) fn send(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// The next bytes; `None` if whoever sends has gone.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    let read = from.take(length).read_to_end(&mut bytes)?;
    Ok((read as u64 == length).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives_and_half_of_it_does_not() {
        let mut sent = Vec::new();
        send(&mut sent, b"one").unwrap();
        send(&mut sent, b"").unwrap();
        let mut from = sent.as_slice();
        assert_eq!(receive(&mut from).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(receive(&mut from).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(receive(&mut from).unwrap(), None);
        for cut in [0, 3, 8, 10] {
            assert_eq!(receive(&mut &sent[..cut]).unwrap(), None, "{cut}");
        }
    }
}
