//! The one loop that adds up what records contribute: integers on a public grid, in parallel.
//!
//! Integers commute: parts of any size, added in any order by any number of threads, give the same bits. What a record
//! contributes is clipped and truncated by whoever makes a part; sums wrap, so that overflow costs accuracy and nothing else.

use dpopt_process::stop::{self, Stop};
use dpopt_process::{in_threads, thread_count};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// a += b, modulo 2^64.
pub(crate) fn merge(a: &mut [i64], b: &[i64]) {
    a.iter_mut().zip(b).for_each(|(x, y)| *x = x.wrapping_add(*y));
}

/// Entries by key, those of equal keys made one. Stable, so that a sum of floats does not depend on the sorting algorithm.
pub fn merge_equal<K: Ord + Copy, V: Copy>(entries: &mut Vec<(K, V)>, sum: impl Fn(V, V) -> V) {
    entries.sort_by_key(|entry| entry.0);
    entries.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = sum(kept.1, next.1);
        }
        same
    });
}

/// So many records are added up before it is asked again whether to go on; as many as there are sums, if those are more.
const STRETCH: usize = 1 << 14;
/// Up to so many integers in all, other threads would be woken for longer than they help.
const FEW: usize = 1 << 14;

/// Σ over `count` records of vectors of `width` integers: `part` adds up a range of them. Ranges begin at multiples of `grain`,
/// which is worth a thread's while; there is about one per thread.
///
/// # Errors
/// As `part`; if several fail, one of their errors.
pub(crate) fn add_up<E: Send>(
    count: usize,
    width: usize,
    grain: usize,
    part: impl Fn(Range<usize>) -> Result<Vec<i64>, E> + Sync,
) -> Result<Vec<i64>, E> {
    let failed = Mutex::new(None);
    let part =
        |range| part(range).map_err(|why| *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why)).ok();
    let sum = in_parts(count, width, grain, &part);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(why) => Err(why),
        None => Ok(sum),
    }
}

/// The sum, as far as no part fails. It knows `part` by its address only, so that the code of its threads is made once and not for every kind of sum.
fn in_parts(
    count: usize,
    width: usize,
    grain: usize,
    part: &(dyn Fn(Range<usize>) -> Option<Vec<i64>> + Sync),
) -> Vec<i64> {
    let grain = grain.max(1);
    let threads = if count.saturating_mul(width) <= FEW { 1 } else { thread_count().max(1) };
    let size = count.div_ceil(threads).next_multiple_of(grain).max(grain);
    let merged = |mut a: Vec<i64>, b: Vec<i64>| {
        merge(&mut a, &b);
        Some(a)
    };
    stop::point();
    let stop = Stop::here();
    // where nobody can ask for an end there are no stretches
    let stretch = if stop.is_possible() { STRETCH.max(width).next_multiple_of(grain) } else { size };
    let of = |p: usize| {
        let end = ((p + 1) * size).min(count);
        let mut sum: Option<Vec<i64>> = None;
        for first in (p * size..end).step_by(stretch.min(size)) {
            stop.point();
            let next = part(first..first.saturating_add(stretch).min(end))?;
            sum = match sum {
                Some(sum) => merged(sum, next),
                None => Some(next),
            };
        }
        sum.or_else(|| Some(vec![0; width]))
    };
    let sum = match count.div_ceil(size) {
        0 => None,
        1 => of(0),
        parts => in_threads(|| (0..parts).into_par_iter().map(of).try_reduce_with(merged)).flatten(),
    };
    sum.unwrap_or_else(|| vec![0; width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    proptest! {
        #[test]
        fn every_record_is_added_once_whatever_the_grain(count in 0..3000usize, grain in 0..400usize) {
            let Ok(sum) = add_up(count, 3, grain, |range| {
                assert!(range.start % grain.max(1) == 0 && !range.is_empty());
                let mut sum = vec![0i64; 3];
                range.for_each(|i| merge(&mut sum, &[1, i as i64, (i as i64).wrapping_mul(i64::MAX)]));
                Ok::<_, Infallible>(sum)
            });
            let n = count as i64;
            let all = n * (n - 1) / 2;
            prop_assert_eq!(sum, vec![n, all, all.wrapping_mul(i64::MAX)]);
        }

        #[test]
        fn an_error_of_a_part_is_the_sums(bad in 0..5000usize) {
            let sum = add_up(5000, 1, 64, |range| if range.contains(&bad) { Err(bad) } else { Ok(vec![0]) });
            prop_assert_eq!(sum, Err(bad));
        }
    }
}
