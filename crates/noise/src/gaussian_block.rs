//! The ziggurat's fast path for blocks of words: one table look-up and one 52-bit product per sample, without branches, in
//! AVX-512 where the CPU has it. The portable form gives the same bits.
//!
//! A word holds piece (bits 0–7), sign (bit 8) and position (bits 12–63). An entry packs the upper 12 bits of the core's
//! end, rounded down, above floor(W·s·2^e) < 2^52. What is not decided, in all about 1.6%, is listed for the exact path.

/// Bits of position and width.
const BITS: u32 = 52;
const LOW: u64 = (1 << BITS) - 1;
/// x·s·2^e − the high product: position and width are cut by less than a unit each, which adds less than 2, and the low
/// product is dropped (1).
const SPREAD: u64 = 4;

/// Packed table for one scale.
#[derive(Clone)]
pub(crate) struct BlockTable {
    entries: Box<[u64; 256]>,
    /// e: number of fraction bits of the widths.
    fraction_bits: u32,
}

impl BlockTable {
    /// A table made from (C_i·2^9, floor(W_i·s·2^e')) with e' = `fraction_bits`; `None` if the scale is so large that 52 bits seldom decide.
    pub(crate) fn new(pieces: &[(u64, u64); 256], fraction_bits: u32) -> Option<Self> {
        // widths come with 63 bits
        let cut = 63 - BITS;
        let fraction_bits = fraction_bits.checked_sub(cut).filter(|&bits| bits >= 10)?;
        let mut entries = Box::new([0; 256]);
        for (entry, &(core, width)) in entries.iter_mut().zip(pieces) {
            *entry = core & !LOW | width >> cut;
        }
        Some(Self { entries, fraction_bits })
    }

    /// Adds a sample per word to the cells where the word decides, and writes the positions of the other cells to `open`,
    /// in order; returns how many there are. All three slices have one length.
    #[allow(unsafe_code, reason = "a function for wider vectors is called after the machine was asked for them")]
    pub(crate) fn add(&self, words: &[u64], cells: &mut [i64], open: &mut [u16]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma") {
            // SAFETY: the CPU has the features that the function was compiled for.
            return unsafe { self.add_avx512(words, cells, open) };
        }
        self.add_portable(words, cells, open, 0, 0)
    }

    /// From position `start` on, with `count` open cells so far.
    fn add_portable(
        &self,
        words: &[u64],
        cells: &mut [i64],
        open: &mut [u16],
        start: usize,
        mut count: usize,
    ) -> usize {
        let e = self.fraction_bits;
        let (half, mask, room) = (1u64 << (e - 1), (1u64 << e) - 1, (1u64 << e) - SPREAD);
        for (k, (&word, cell)) in words.iter().zip(cells).enumerate().skip(start) {
            let entry = self.entries[(word & 255) as usize];
            let high = ((u128::from(entry & LOW) * u128::from(word >> 12)) >> BITS) as u64;
            let shifted = high + half;
            if word < entry & !LOW && shifted & mask < room {
                let size = (shifted >> e) as i64;
                *cell = cell.wrapping_add(if word >> 8 & 1 == 1 { -size } else { size });
            } else {
                open[count] = k as u16;
                count += 1;
            }
        }
        count
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "vector loads and stores take pointers")]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add_avx512(&self, words: &[u64], cells: &mut [i64], open: &mut [u16]) -> usize {
        use std::arch::x86_64::*;
        assert!(words.len() == cells.len() && words.len() <= open.len());
        let e = self.fraction_bits;
        let half = _mm512_set1_epi64(1i64 << (e - 1));
        let mask = _mm512_set1_epi64((1i64 << e) - 1);
        let room = _mm512_set1_epi64((1i64 << e) - SPREAD as i64);
        let (low, piece) = (_mm512_set1_epi64(LOW as i64), _mm512_set1_epi64(255));
        let (sign, zero) = (_mm512_set1_epi64(256), _mm512_setzero_si512());
        let shift = _mm_cvtsi64_si128(i64::from(e));
        let mut count = 0;
        let whole = words.len() / 8 * 8;
        for k in (0..whole).step_by(8) {
            // SAFETY: k + 8 ≤ words.len() = cells.len() for the unaligned loads and the store; the gather reads entries at
            // indices 0..=255 of an array of 256.
            unsafe {
                let word = _mm512_loadu_epi64(words.as_ptr().add(k).cast());
                let entry = _mm512_i64gather_epi64::<8>(_mm512_and_si512(word, piece), self.entries.as_ptr().cast());
                let high = _mm512_madd52hi_epu64(zero, entry, _mm512_srli_epi64::<12>(word));
                let shifted = _mm512_add_epi64(high, half);
                let decided = _mm512_cmplt_epu64_mask(word, _mm512_andnot_si512(low, entry))
                    & _mm512_cmplt_epu64_mask(_mm512_and_si512(shifted, mask), room);
                let size = _mm512_maskz_srl_epi64(decided, shifted, shift);
                let negative = _mm512_test_epi64_mask(word, sign);
                let cell = _mm512_loadu_epi64(cells.as_ptr().add(k));
                let plus = _mm512_mask_add_epi64(cell, !negative, cell, size);
                let both = _mm512_mask_sub_epi64(plus, negative, cell, size);
                _mm512_storeu_epi64(cells.as_mut_ptr().add(k), both);
                let mut rest = !decided;
                while rest != 0 {
                    open[count] = (k + rest.trailing_zeros() as usize) as u16;
                    count += 1;
                    rest &= rest - 1;
                }
            }
        }
        self.add_portable(words, cells, open, whole, count)
    }
}

#[cfg(test)]
mod tests {
    use crate::gaussian::RoundedGaussian;
    use crate::{Grid, NoiseSource, Purpose};

    #[test]
    fn all_forms_give_the_same_bits_and_round_exactly() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        for (noise_std, grid) in [(0.25, 0), (3.3, 0), (1.3, -20), (1.7, -37)] {
            let noise = RoundedGaussian::new(noise_std, Grid::new(grid)).unwrap();
            let table = noise.block_table().unwrap();
            for n in [0, 1, 7, 8, 9, 503] {
                let words: Vec<u64> = (0..n).map(|_| stream.word()).collect();
                let start: Vec<i64> = (0..n as i64).map(|k| k * 1000 - 5).collect();
                let (mut a, mut b) = (start.clone(), start.clone());
                let (mut open_a, mut open_b) = (vec![0u16; n], vec![0u16; n]);
                let count = table.add(&words, &mut a, &mut open_a);
                assert_eq!(count, table.add_portable(&words, &mut b, &mut open_b, 0, 0));
                assert_eq!((&a, &open_a[..count]), (&b, &open_b[..count]));
                for (k, &word) in words.iter().enumerate() {
                    if open_a[..count].contains(&(k as u16)) {
                        assert_eq!(a[k], start[k]);
                    } else {
                        assert_eq!(a[k] - start[k], noise.exact_sample_of(word, &mut stream));
                    }
                }
                assert!(n < 500 || count < 40, "{count} of {n} open");
            }
        }
        assert!(RoundedGaussian::new(1.0, Grid::new(-50)).unwrap().block_table().is_none());
    }
}
