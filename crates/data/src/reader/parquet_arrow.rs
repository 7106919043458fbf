//! What only Arrow knows of a column: programs that write Parquet from Arrow keep Arrow's schema in the footer (`ARROW:schema`: base64 of an
//! IPC message, a flatbuffer), because Parquet has no type for spans of time, for some dates and for seconds. This finds these types by the
//! columns' names and nothing else; whatever is not as expected says nothing.

/// A type that Parquet stores as a plain number, with its ticks per day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// Dates as milliseconds, whole days.
    Date64,
    Time(i64),
    Timestamp(i64),
    Duration(i64),
}

/// What the schema says of the columns of these names, each at its place; `None` if it can't be read.
pub(super) fn hints(encoded: &str, names: &[&str]) -> Option<Vec<Option<Hint>>> {
    let message = decoded(encoded)?;
    // a mark and the message's length, which programs before Arrow 0.15 leave out
    let message = match message.strip_prefix(&[0xff; 4]) {
        Some(rest) => rest.get(4..)?,
        None => &message,
    };
    // Message: version, kind of header, header; Schema: byte order, fields
    let root = Table::new(message, at(message, 0)?)?;
    const SCHEMA: u8 = 1;
    if *message.get(root.place(1)?)? != SCHEMA {
        return None;
    }
    let fields = root.table(2)?.target(1)?;
    let count = u32::from_le_bytes(bytes(message, fields)?) as usize;
    let hint = |(i, name): (usize, &&str)| {
        let place = fields.checked_add(4)?.checked_add(i.checked_mul(4)?)?;
        let field = Table::new(message, at(message, place)?)?;
        (i < count && field.text(0)? == name.as_bytes()).then(|| of_field(&field))?
    };
    Some(names.iter().enumerate().map(hint).collect())
}

/// Field: name, nullable, kind of type, type. Of a dictionary the type is its values'.
fn of_field(field: &Table<'_>) -> Option<Hint> {
    const DATE: u8 = 8;
    const TIME: u8 = 9;
    const TIMESTAMP: u8 = 10;
    const DURATION: u8 = 18;
    const SECOND: i16 = 0;
    const MILLISECOND: i16 = 1;
    let kind = *field.bytes.get(field.place(2)?)?;
    let of_type = field.table(3)?;
    let unit = |default| match of_type.place(0) {
        Some(place) => bytes(of_type.bytes, place).map(i16::from_le_bytes),
        None => Some(default),
    };
    let per_day = |default| Some(86_400 * 1000i64.pow(u32::try_from(unit(default)?).ok().filter(|unit| *unit <= 3)?));
    match kind {
        // 0: in days, as in Parquet
        DATE => (unit(MILLISECOND)? == MILLISECOND).then_some(Hint::Date64),
        TIME => per_day(MILLISECOND).map(Hint::Time),
        TIMESTAMP => per_day(SECOND).map(Hint::Timestamp),
        DURATION => per_day(MILLISECOND).map(Hint::Duration),
        _ => None,
    }
}

/// A table of a flatbuffer: its fields are where a second table says, if they are there.
struct Table<'a> {
    bytes: &'a [u8],
    start: usize,
    offsets: usize,
}

impl<'a> Table<'a> {
    fn new(message: &'a [u8], start: usize) -> Option<Self> {
        let back = i64::from(i32::from_le_bytes(bytes(message, start)?));
        let offsets = usize::try_from(i64::try_from(start).ok()?.checked_sub(back)?).ok()?;
        Some(Self { bytes: message, start, offsets })
    }

    /// Where a field's value is; `None` if it has its default.
    fn place(&self, field: usize) -> Option<usize> {
        let size = u16::from_le_bytes(bytes(self.bytes, self.offsets)?);
        let entry = 4 + 2 * field;
        if entry + 2 > usize::from(size) {
            return None;
        }
        let offset = u16::from_le_bytes(bytes(self.bytes, self.offsets.checked_add(entry)?)?);
        (offset != 0).then(|| self.start.checked_add(offset.into()))?
    }

    /// Where what a field refers to is.
    fn target(&self, field: usize) -> Option<usize> {
        at(self.bytes, self.place(field)?)
    }

    fn table(&self, field: usize) -> Option<Self> {
        Self::new(self.bytes, self.target(field)?)
    }

    fn text(&self, field: usize) -> Option<&'a [u8]> {
        let start = self.target(field)?;
        let length = u32::from_le_bytes(bytes(self.bytes, start)?) as usize;
        self.bytes.get(start.checked_add(4)?..)?.get(..length)
    }
}

/// Where the reference at a place leads.
fn at(message: &[u8], place: usize) -> Option<usize> {
    place.checked_add(u32::from_le_bytes(bytes(message, place)?) as usize)
}

fn bytes<const N: usize>(message: &[u8], place: usize) -> Option<[u8; N]> {
    message.get(place..)?.first_chunk().copied()
}

/// Base64 in its standard alphabet.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.chunks(4) {
        let mut word = 0u32;
        for i in 0..4 {
            word = word << 6 | four.get(i).map_or(Some(0), |byte| digit(*byte)).map(u32::from)?;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By pyarrow 26, of the names and types in `NAMES`, in this order.
    const ENCODED: &str = include_str!("../../tests/parquet/arrow_schema.txt");
    const NAMES: [&str; 9] = ["whole", "span s", "span ns", "day", "day ms", "clock s", "point s", "point µs", "kept"];

    #[test]
    fn only_the_types_that_parquet_lacks_are_found() {
        const DAY: i64 = 86_400;
        let expected = [
            None,
            Some(Hint::Duration(DAY)),
            Some(Hint::Duration(DAY * 1_000_000_000)),
            None,
            Some(Hint::Date64),
            Some(Hint::Time(DAY)),
            Some(Hint::Timestamp(DAY)),
            Some(Hint::Timestamp(DAY * 1_000_000)),
            // a dictionary's values
            Some(Hint::Duration(DAY * 1000)),
        ];
        assert_eq!(hints(ENCODED.trim(), &NAMES).unwrap(), expected);
        // of another name, and beyond the last
        let mut other = NAMES.to_vec();
        other[1] = "span";
        other.push("more");
        let found = hints(ENCODED.trim(), &other).unwrap();
        assert_eq!((found[1], found[2], found[9]), (None, expected[2], None));
        assert_eq!(hints("", &NAMES), None);
        assert_eq!(hints("a b", &NAMES), None);
    }

    #[test]
    fn base64_is_decoded() {
        for (text, expected) in
            [("", &b""[..]), ("TQ==", b"M"), ("TWE=", b"Ma"), ("TWFu", b"Man"), ("+/+/", b"\xfb\xff\xbf")]
        {
            assert_eq!(decoded(text).unwrap(), expected);
        }
        assert_eq!(decoded("TQ=a"), None);
    }

    fn encode(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits = |three: &[u8]| {
            let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            (0..=three.len()).map(move |i| char::from(DIGITS[(word >> (18 - 6 * i) & 63) as usize])).collect::<String>()
        };
        bytes.chunks(3).map(digits).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9+/=]{0,80}", other in ".{0,20}") {
            let _ = hints(&text, &NAMES);
            let _ = hints(&other, &NAMES);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..16], 0..200)) {
            prop_assert_eq!(decoded(&encode(&bytes)), Some(bytes.clone()));
            let _ = hints(&encode(&bytes), &NAMES);
        }

        #[test]
        fn a_damaged_schema_is_read_or_refused(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = decoded(ENCODED.trim()).unwrap();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Some(found) = hints(&encode(&bytes), &NAMES) {
                prop_assert_eq!(found.len(), NAMES.len());
            }
        }
    }
}
