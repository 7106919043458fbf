//! The one loop that adds up what records contribute: integers on a public grid, in parallel.
//!
//! Integers commute: parts of any size, added in any order by any number of threads, give the same bits. What a record
//! contributes is clipped and truncated by what makes a part; sums wrap, so that overflow costs accuracy and nothing else.

use dpopt_process::stop::{self, Stop};
use dpopt_process::{in_threads, thread_count};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Up to so many integers in all, other threads are woken only for records that are dear.
const FEW: usize = 1 << 14;
/// To wake other threads for less work than this takes longer than they help.
const WORTH_WAKING: Duration = Duration::from_micros(200);

/// Σ over `count` records of vectors of `width` integers: `part` adds up a range of them, whose records it takes [paced](stop::paced). Ranges begin at multiples of `grain`,
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
    stop::point();
    let sum = if count.saturating_mul(width) <= FEW && count > grain {
        // how much work a record is, the first ones tell
        let begun = Instant::now();
        part(0..grain).and_then(|first| {
            let threads = if is_dear(begun.elapsed(), grain, count) { thread_count() } else { 1 };
            in_threads_of(grain..count, width, grain, threads, part).and_then(|others| merged(first, others))
        })
    } else {
        in_threads_of(0..count, width, grain, thread_count(), part)
    };
    sum.unwrap_or_else(|| vec![0; width])
}

/// Whether the rest of `count` records takes longer than to wake other threads, where the first `grain` of them took `spent`.
fn is_dear(spent: Duration, grain: usize, count: usize) -> bool {
    spent.mul_f64((count - grain) as f64 / grain as f64) > WORTH_WAKING
}

fn merged(mut a: Vec<i64>, b: Vec<i64>) -> Option<Vec<i64>> {
    merge(&mut a, &b);
    Some(a)
}

/// The sum over a range that begins at a multiple of `grain`, with about one part per thread.
fn in_threads_of(
    records: Range<usize>,
    width: usize,
    grain: usize,
    threads: usize,
    part: &(dyn Fn(Range<usize>) -> Option<Vec<i64>> + Sync),
) -> Option<Vec<i64>> {
    let size = records.len().div_ceil(threads.max(1)).next_multiple_of(grain).max(grain);
    let stop = Stop::here();
    let of = |p: usize| {
        let begin = records.start + p * size;
        let end = begin.saturating_add(size).min(records.end);
        stop.within(|| if begin < end { part(begin..end) } else { Some(vec![0; width]) })
    };
    match records.len().div_ceil(size) {
        0 => None,
        1 => of(0),
        parts => in_threads(|| (0..parts).into_par_iter().map(of).try_reduce_with(merged)).flatten(),
    }
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

    #[test]
    fn few_numbers_go_to_other_threads_only_where_their_records_are_dear() {
        let each = Duration::from_micros(50);
        assert!(is_dear(each, 8, 400) && is_dear(8 * each, 8, 400) && !is_dear(each / 25, 8, 400));

        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let parts = Mutex::new(vec![]);
        let sum = pool.install(|| {
            add_up(400, 3, 8, |range| {
                let end = Instant::now() + each * range.len() as u32;
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                parts.lock().unwrap().push(range.len());
                Ok::<_, Infallible>(vec![range.len() as i64; 3])
            })
        });
        assert_eq!(sum, Ok(vec![400; 3]));
        let mut parts = parts.into_inner().unwrap();
        parts.sort_unstable();
        assert_eq!(parts, [8, 80, 104, 104, 104], "the first grain, and a part for each of four threads");
    }
}
