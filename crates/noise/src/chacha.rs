//! ChaCha key stream (Bernstein 2008; RFC 8439), sixteen blocks at a time so that every CPU's vector unit is used.
//!
//! The sixteen words of the state are kept as sixteen vectors, one lane per block. The words of sixteen blocks are given
//! out word by word instead of block by block (64-bit word 0 of all blocks, word 1 of all blocks, …): the same words as
//! the standard stream in another fixed order, which saves a transposition. All forms give the same bits (tested against
//! RFC 8439 and `rand_chacha`).

/// Blocks made in one go.
const LANES: usize = 16;
/// 64-bit words in one block of 64 bytes.
const WORDS_PER_BLOCK: usize = 8;
/// The least number of 64-bit words worth asking for; [`keystream`] takes multiples of it.
pub(crate) const WORDS_PER_CALL: usize = LANES * WORDS_PER_BLOCK;

type Lanes = [u32; LANES];

/// The first four words of ChaCha's state: "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

#[inline(always)]
fn add(a: &mut Lanes, b: &Lanes) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = x.wrapping_add(*y);
    }
}

#[inline(always)]
fn xor_rotate<const BITS: u32>(a: &mut Lanes, b: &Lanes) {
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x ^ *y).rotate_left(BITS);
    }
}

#[inline(always)]
fn quarter_round(s: &mut [Lanes; 16], a: usize, b: usize, c: usize, d: usize) {
    let (mut va, mut vb, mut vc, mut vd) = (s[a], s[b], s[c], s[d]);
    add(&mut va, &vb);
    xor_rotate::<16>(&mut vd, &va);
    add(&mut vc, &vd);
    xor_rotate::<12>(&mut vb, &vc);
    add(&mut va, &vb);
    xor_rotate::<8>(&mut vd, &va);
    add(&mut vc, &vd);
    xor_rotate::<7>(&mut vb, &vc);
    (s[a], s[b], s[c], s[d]) = (va, vb, vc, vd);
}

#[inline(always)]
fn sixteen_blocks<const DOUBLE_ROUNDS: usize>(key: &[u32; 8], nonce: u64, counter: u64, out: &mut [u64]) {
    let mut initial = [[0u32; LANES]; 16];
    for (row, &word) in initial.iter_mut().zip(CONSTANTS.iter().chain(key)) {
        *row = [word; LANES];
    }
    for lane in 0..LANES {
        let block = counter.wrapping_add(lane as u64);
        initial[12][lane] = block as u32;
        initial[13][lane] = (block >> 32) as u32;
        initial[14][lane] = nonce as u32;
        initial[15][lane] = (nonce >> 32) as u32;
    }
    let mut s = initial;
    for _ in 0..DOUBLE_ROUNDS {
        quarter_round(&mut s, 0, 4, 8, 12);
        quarter_round(&mut s, 1, 5, 9, 13);
        quarter_round(&mut s, 2, 6, 10, 14);
        quarter_round(&mut s, 3, 7, 11, 15);
        quarter_round(&mut s, 0, 5, 10, 15);
        quarter_round(&mut s, 1, 6, 11, 12);
        quarter_round(&mut s, 2, 7, 8, 13);
        quarter_round(&mut s, 3, 4, 9, 14);
    }
    for (row, start) in s.iter_mut().zip(&initial) {
        add(row, start);
    }
    // 64-bit word w of a block joins its 32-bit words 2w and 2w+1 (little endian)
    for (pair, words) in s.chunks_exact(2).zip(out.chunks_exact_mut(LANES)) {
        for (lane, word) in words.iter_mut().enumerate() {
            *word = u64::from(pair[0][lane]) | u64::from(pair[1][lane]) << 32;
        }
    }
}

#[inline(always)]
fn keystream_any<const DOUBLE_ROUNDS: usize>(key: &[u32; 8], nonce: u64, first_block: u64, out: &mut [u64]) {
    for (i, part) in out.chunks_exact_mut(WORDS_PER_CALL).enumerate() {
        sixteen_blocks::<DOUBLE_ROUNDS>(key, nonce, first_block.wrapping_add((i * LANES) as u64), part);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn keystream_avx2<const DOUBLE_ROUNDS: usize>(key: &[u32; 8], nonce: u64, first_block: u64, out: &mut [u64]) {
    keystream_any::<DOUBLE_ROUNDS>(key, nonce, first_block, out);
}

/// Writes the key stream from block `first_block` on as little-endian 64-bit words (64-bit block counter, 64-bit nonce).
/// `out` holds a multiple of [`WORDS_PER_CALL`] words. 10 double rounds are ChaCha20, 6 are ChaCha12.
#[allow(unsafe_code, reason = "a function for wider vectors is called after the machine was asked for them")]
pub(crate) fn keystream<const DOUBLE_ROUNDS: usize>(key: &[u32; 8], nonce: u64, first_block: u64, out: &mut [u64]) {
    debug_assert_eq!(out.len() % WORDS_PER_CALL, 0);
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F.
            return unsafe { avx512::keystream::<DOUBLE_ROUNDS>(key, nonce, first_block, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { keystream_avx2::<DOUBLE_ROUNDS>(key, nonce, first_block, out) };
        }
    }
    keystream_any::<DOUBLE_ROUNDS>(key, nonce, first_block, out);
}

/// The key stream by explicit 512-bit registers, which hold the whole state.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{CONSTANTS, LANES, WORDS_PER_CALL};
    use std::arch::x86_64::*;

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn quarter_round(s: &mut [__m512i; 16], a: usize, b: usize, c: usize, d: usize) {
        s[a] = _mm512_add_epi32(s[a], s[b]);
        s[d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(s[d], s[a]));
        s[c] = _mm512_add_epi32(s[c], s[d]);
        s[b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(s[b], s[c]));
        s[a] = _mm512_add_epi32(s[a], s[b]);
        s[d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(s[d], s[a]));
        s[c] = _mm512_add_epi32(s[c], s[d]);
        s[b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(s[b], s[c]));
    }

    /// The state before the rounds, for sixteen blocks from `block` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn start(key: &[u32; 8], nonce: u64, block: u64) -> [__m512i; 16] {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut start = [_mm512_setzero_si512(); 16];
        for (row, &word) in start.iter_mut().zip(CONSTANTS.iter().chain(key)) {
            *row = _mm512_set1_epi32(word as i32);
        }
        start[12] = _mm512_add_epi32(_mm512_set1_epi32(block as i32), lanes);
        // lanes whose low word wrapped carry into the high word
        let wrapped = _mm512_cmplt_epu32_mask(start[12], lanes);
        let high = _mm512_set1_epi32((block >> 32) as i32);
        start[13] = _mm512_mask_add_epi32(high, wrapped, high, _mm512_set1_epi32(1));
        start[14] = _mm512_set1_epi32(nonce as i32);
        start[15] = _mm512_set1_epi32((nonce >> 32) as i32);
        start
    }

    /// Adds the start and writes the words of sixteen blocks.
    #[inline]
    #[allow(unsafe_code, reason = "vector stores take pointers")]
    #[target_feature(enable = "avx512f")]
    fn write(s: &[__m512i; 16], start: &[__m512i; 16], part: &mut [u64]) {
        let first_half = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let second_half = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        for (w, words) in part.chunks_exact_mut(LANES).enumerate() {
            let even = _mm512_add_epi32(s[2 * w], start[2 * w]);
            let odd = _mm512_add_epi32(s[2 * w + 1], start[2 * w + 1]);
            let (first, second) = words.split_at_mut(8);
            let a = _mm512_permutex2var_epi32(even, first_half, odd);
            let b = _mm512_permutex2var_epi32(even, second_half, odd);
            // SAFETY: each half holds eight 64-bit words, the size of one unaligned 512-bit store.
            unsafe {
                _mm512_storeu_epi64(first.as_mut_ptr().cast(), a);
                _mm512_storeu_epi64(second.as_mut_ptr().cast(), b);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn keystream<const DOUBLE_ROUNDS: usize>(key: &[u32; 8], nonce: u64, first_block: u64, out: &mut [u64]) {
        // two independent groups of sixteen blocks at once hide the latency of the rounds
        let mut block = first_block;
        let mut pairs = out.chunks_exact_mut(2 * WORDS_PER_CALL);
        for pair in &mut pairs {
            let (start_s, start_t) = (start(key, nonce, block), start(key, nonce, block.wrapping_add(LANES as u64)));
            let (mut s, mut t) = (start_s, start_t);
            for _ in 0..DOUBLE_ROUNDS {
                quarter_round(&mut s, 0, 4, 8, 12);
                quarter_round(&mut s, 1, 5, 9, 13);
                quarter_round(&mut s, 2, 6, 10, 14);
                quarter_round(&mut s, 3, 7, 11, 15);
                quarter_round(&mut t, 0, 4, 8, 12);
                quarter_round(&mut t, 1, 5, 9, 13);
                quarter_round(&mut t, 2, 6, 10, 14);
                quarter_round(&mut t, 3, 7, 11, 15);
                quarter_round(&mut s, 0, 5, 10, 15);
                quarter_round(&mut s, 1, 6, 11, 12);
                quarter_round(&mut s, 2, 7, 8, 13);
                quarter_round(&mut s, 3, 4, 9, 14);
                quarter_round(&mut t, 0, 5, 10, 15);
                quarter_round(&mut t, 1, 6, 11, 12);
                quarter_round(&mut t, 2, 7, 8, 13);
                quarter_round(&mut t, 3, 4, 9, 14);
            }
            let (first, second) = pair.split_at_mut(WORDS_PER_CALL);
            write(&s, &start_s, first);
            write(&t, &start_t, second);
            block = block.wrapping_add(2 * LANES as u64);
        }
        for part in pairs.into_remainder().chunks_exact_mut(WORDS_PER_CALL) {
            let start_s = start(key, nonce, block);
            let mut s = start_s;
            for _ in 0..DOUBLE_ROUNDS {
                quarter_round(&mut s, 0, 4, 8, 12);
                quarter_round(&mut s, 1, 5, 9, 13);
                quarter_round(&mut s, 2, 6, 10, 14);
                quarter_round(&mut s, 3, 7, 11, 15);
                quarter_round(&mut s, 0, 5, 10, 15);
                quarter_round(&mut s, 1, 6, 11, 12);
                quarter_round(&mut s, 2, 7, 8, 13);
                quarter_round(&mut s, 3, 4, 9, 14);
            }
            write(&s, &start_s, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    fn key_words(bytes: &[u8; 32]) -> [u32; 8] {
        std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
    }

    /// The standard order: block by block.
    fn standard(words: &[u64]) -> Vec<u64> {
        words
            .chunks_exact(WORDS_PER_CALL)
            .flat_map(|part| (0..WORDS_PER_CALL).map(|k| part[(k % WORDS_PER_BLOCK) * LANES + k / WORDS_PER_BLOCK]))
            .collect()
    }

    #[test]
    fn rfc_8439_appendix_a1() {
        // test vectors 1 and 2: zero key and nonce, block counters 0 and 1
        let mut out = [0u64; WORDS_PER_CALL];
        keystream::<10>(&[0; 8], 0, 0, &mut out);
        let bytes: Vec<u8> = standard(&out).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes[..8], [0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90]);
        assert_eq!(bytes[64..72], [0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a]);
    }

    #[test]
    fn rfc_8439_section_2_3_2() {
        // key 00..1f; the nonce 00:00:00:09:00:00:00:4a:00:00:00:00 and 32-bit counter 1 are our counter and nonce words
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let mut out = [0u64; WORDS_PER_CALL];
        keystream::<10>(&key_words(&key), 0x4a00_0000, 1 | 0x0900_0000 << 32, &mut out);
        let bytes: Vec<u8> = standard(&out).iter().flat_map(|w| w.to_le_bytes()).collect();
        let expected = [
            0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4, 0xc7, 0xd1,
            0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46,
            0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16,
            0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e,
        ];
        assert_eq!(bytes[..64], expected);
    }

    /// A routine that fills words from (key, nonce, first block).
    type Fill = fn(&[u32; 8], u64, u64, &mut [u64]);

    #[test]
    fn all_forms_agree_with_rand_chacha() {
        let seed = [0x5a; 32];
        let forms: [(Fill, Fill); 2] = [(keystream::<6>, keystream::<10>), (keystream_any::<6>, keystream_any::<10>)];
        for (twelve, twenty) in forms {
            let mut ours = vec![0u64; 5 * WORDS_PER_CALL];
            twelve(&key_words(&seed), 7, 0, &mut ours);
            let mut reference = rand_chacha::ChaCha12Rng::from_seed(seed);
            reference.set_stream(7);
            assert!(standard(&ours).iter().all(|&w| w == reference.next_u64()));
            // across the carry into the high counter word
            let start = u64::from(u32::MAX) - 5;
            twenty(&key_words(&seed), 1 << 40, start, &mut ours);
            let mut reference = rand_chacha::ChaCha20Rng::from_seed(seed);
            reference.set_stream(1 << 40);
            reference.set_word_pos(u128::from(start) * 16);
            assert!(standard(&ours).iter().all(|&w| w == reference.next_u64()));
        }
    }
}
