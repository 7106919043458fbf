//! Decimal numbers as most programs write them, eight digits at a time: the nearest f64, or nothing where it takes more to find it.
//!
//! A sign, at most 16 digits and a point make a whole number below 2⁵³ and a power of ten up to 10¹⁶. Both are exact, so their quotient is rounded once (Clinger 1990).

/// Longest text without its sign.
const LONGEST: usize = 16;
/// A byte's value in each of eight bytes.
const EACH: u64 = 0x0101_0101_0101_0101;
const ZEROS: u64 = EACH * b'0' as u64;
const POINTS: u64 = EACH * b'.' as u64;
/// All but the highest bit of each byte.
const LOW: u64 = EACH * 0x7f;

const POWERS: [f64; LONGEST] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The number between two places of `bytes`: the same bits as of [`str::parse`], if it is plain.
#[inline]
pub(crate) fn plain_decimal(bytes: &[u8], from: usize, to: usize) -> Option<f64> {
    let sign = *bytes.get(from)?;
    let from = from + usize::from(matches!(sign, b'-' | b'+'));
    let length = to.wrapping_sub(from);
    // lengths of 0 and below are too large here
    if length.wrapping_sub(1) >= LONGEST {
        return None;
    }
    let value = if length <= 8 { short(eight(bytes, from), length) } else { long(bytes, from, length) }?;
    // no branch: signs may come in no order
    Some(f64::from_bits(value.to_bits() | u64::from(sign == b'-') << 63))
}

/// Eight bytes from a place on, the first one lowest; 0 beyond the end.
#[inline]
fn eight(bytes: &[u8], from: usize) -> u64 {
    if let Some(eight) = bytes.get(from..).and_then(|rest| rest.first_chunk()) {
        return u64::from_le_bytes(*eight);
    }
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The highest bit of each byte that is 0.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    !(((word & LOW) + LOW) | word | LOW)
}

#[inline]
fn are_digits(word: u64) -> bool {
    const HIGH: u64 = EACH * 0xf0;
    (word & HIGH) | ((word.wrapping_add(EACH * 6) & HIGH) >> 4) == EACH * 0x33
}

/// Eight digits, the first one in the lowest byte, as a number.
#[inline]
fn number_of(digits: u64) -> u64 {
    let pairs = (digits & (EACH * 0x0f)).wrapping_mul(10 << 8 | 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 << 16 | 1) >> 16;
    (fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 << 32 | 1) >> 32
}

/// A text of 1 to 8 bytes without a sign.
#[inline]
fn short(word: u64, length: usize) -> Option<f64> {
    // zeros before it, in the lower bytes
    let before = 8 * (8 - length as u32);
    let word = word << before | ZEROS & !(u64::MAX << before);
    let points = zero_bytes(word ^ POINTS);
    if points == 0 {
        return are_digits(word).then(|| number_of(word) as f64);
    }
    // the point goes, and what stands before it moves into its place; a second one is no digit
    let at = points.trailing_zeros() & !7;
    let before = (1u64 << at) - 1;
    let digits = (word & before) << 8 | word & !(before << 8 | 0xff) | u64::from(b'0');
    (length > 1 && are_digits(digits)).then(|| number_of(digits) as f64 / POWERS[7 - at as usize / 8])
}

/// A text of 9 to 16 bytes without a sign.
#[inline]
fn long(bytes: &[u8], from: usize, length: usize) -> Option<f64> {
    let word = u128::from(eight(bytes, from + 8)) << 64 | u128::from(eight(bytes, from));
    let before = 8 * (16 - length as u32);
    let zeros = u128::from(ZEROS) << 64 | u128::from(ZEROS);
    let word = word << before | zeros & !(u128::MAX << before);
    let (first, last) = (word as u64, (word >> 64) as u64);
    let (early, late) = (zero_bytes(first ^ POINTS), zero_bytes(last ^ POINTS));
    let points = u128::from(late) << 64 | u128::from(early);
    let (word, decimals) = if points == 0 {
        (word, 0)
    } else {
        let at = points.trailing_zeros() & !7;
        let before = (1u128 << at) - 1;
        ((word & before) << 8 | word & !(before << 8 | 0xff) | u128::from(b'0'), 15 - at as usize / 8)
    };
    let (first, last) = (word as u64, (word >> 64) as u64);
    let whole = number_of(first).wrapping_mul(100_000_000).wrapping_add(number_of(last));
    (are_digits(first) && are_digits(last) && whole <= 1 << 53).then(|| whole as f64 / POWERS[decimals])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The standard library's bits, wherever the text stands; or nothing.
    fn check(text: &str) -> Option<f64> {
        let alone = plain_decimal(text.as_bytes(), 0, text.len());
        for around in ["", "9", ",1.5\n", "0123456789.0123456789"] {
            let bytes = format!("{around}{text}{around}");
            let found = plain_decimal(bytes.as_bytes(), around.len(), around.len() + text.len());
            assert_eq!(found.map(f64::to_bits), alone.map(f64::to_bits), "{text:?} {around:?}");
        }
        if let Some(value) = alone {
            assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()), "{text:?}");
        }
        alone
    }

    #[test]
    fn numbers_of_all_lengths_are_found() {
        for text in [
            "0",
            "-0",
            "+7",
            "007",
            "12.",
            ".5",
            "-.5",
            "0.1",
            "1.5",
            "-2.71828",
            "12345678",
            "1234.5678",
            "123456789",
            "0.123456789",
            "-1234567.12345678",
            "9007199254740992",
            "123456789012345.",
            ".123456789012345",
            "0000000000000001",
            "+0.0000000000001",
        ] {
            assert!(check(text).is_some(), "{text}");
        }
        // what is no such number, and whole numbers that may not be exact
        for text in [
            "",
            "-",
            "+",
            ".",
            "-.",
            "--5",
            "+-5",
            "1.2.3",
            "1..2",
            "..",
            "1e5",
            "0x1F",
            "1_000",
            "1,5",
            " 1",
            "1 ",
            "inf",
            "nan",
            "-inf",
            "1\0",
            "\0",
            "9007199254740993",
            "9999999999999999",
            "12345678901234567",
            "0.1234567890123456",
            "1/2",
            "5:",
            "12345678/",
            "1234567890:2",
            "\u{0661}",
            "1é",
        ] {
            assert_eq!(check(text), None, "{text}");
        }
        assert_eq!(plain_decimal(b"123", 3, 3), None);
        assert_eq!(plain_decimal(b"12-", 2, 3), None);
        assert_eq!(plain_decimal(b"", 0, 0), None);
    }

    proptest! {
        #[test]
        fn what_is_found_has_the_bits_of_the_standard_library(text in "[-+]?[0-9]{0,17}[.]?[0-9]{0,17}") {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            let unsigned = text.trim_start_matches(['-', '+']).len();
            let found = check(&text);
            // 15 digits are always exact
            prop_assert!(found.is_some() || !(1..=15).contains(&digits) || unsigned > LONGEST);
        }

        #[test]
        fn other_bytes_are_no_number(text in "[-+.0-9e /:,\\x00-\\x7fé]{0,20}") {
            check(&text);
        }

        #[test]
        fn numbers_as_programs_write_them(value in -1e6f64..1e6, decimals in 0usize..9) {
            let text = format!("{value:.decimals$}");
            prop_assert!(check(&text).is_some() || text.len() > LONGEST);
            check(&value.to_string());
        }
    }
}
