//! A fixed public hash: FNV-1a with a finishing mix. Stateless, so that encoding a record looks at no other record.

use std::hash::Hasher;

/// Hash of bytes, started from a column's salt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325) // offset basis of 64-bit FNV
    }
}

impl Fnv {
    /// The state after a column's name: equal values of two columns fall into unrelated slots.
    pub(crate) fn salted(name: &str) -> Self {
        let mut state = Self::default();
        state.write(name.as_bytes());
        state.write_u8(0xff); // no UTF-8 text holds this byte, so no name runs into a value
        state
    }

    /// Slot among `2^bits`, from the high bits of the finished hash.
    pub(crate) fn slot(self, bits: u32) -> u32 {
        (self.finish() >> (64 - bits)) as u32
    }
}

impl Hasher for Fnv {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3); // FNV prime
        }
    }

    /// FNV's high bits are weak for short inputs; the murmur3 finaliser mixes them.
    #[inline]
    fn finish(&self) -> u64 {
        let mut x = self.0;
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 33)
    }
}

/// For maps keyed by public levels (no attacker chooses them, so no keyed hash is needed).
pub(crate) type FnvBuild = std::hash::BuildHasherDefault<Fnv>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_fnv_matches_its_published_vectors() {
        for (text, value) in [("", 0xcbf29ce484222325u64), ("a", 0xaf63dc4c8601ec8c), ("foobar", 0x85944171f73967e8)] {
            let mut state = Fnv::default();
            state.write(text.as_bytes());
            assert_eq!(state.0, value);
        }
    }

    #[test]
    fn slots_are_spread_and_columns_separated() {
        let slots = |column: &str| -> Vec<u32> {
            (0..4096)
                .map(|i: u32| {
                    let mut state = Fnv::salted(column);
                    state.write(i.to_string().as_bytes());
                    state.slot(12)
                })
                .collect()
        };
        let (a, b) = (slots("a"), slots("b"));
        let distinct = a.iter().collect::<std::collections::BTreeSet<_>>().len();
        // 4096 balls into 4096 bins: 4096(1-1/e) = 2589 occupied, standard deviation 20
        assert!((2440..2740).contains(&distinct), "{distinct}");
        let agree = a.iter().zip(&b).filter(|(x, y)| x == y).count();
        assert!(agree < 20, "{agree}"); // Poisson(1)
    }
}
