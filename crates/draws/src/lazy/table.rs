//! Large tables that are read at random places.

use std::mem::MaybeUninit;

/// `count` copies of `value`, on pages of 2 MB where the system has them: on small ones a read at a random place waits for the
/// page's address before it waits for the memory.
pub(super) fn filled<T: Copy>(value: T, count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    on_large_pages(table.spare_capacity_mut());
    table.resize(count, value);
    table
}

/// Advice before the first touch; refused or ignored, it costs nothing but speed.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe wrapper gives this advice for memory of our own")]
fn on_large_pages<T>(room: &mut [MaybeUninit<T>]) {
    /// No page that could be the smallest of a system is larger.
    const ALIGNED: usize = 1 << 16;
    const WORTHWHILE: usize = 1 << 22;
    let bytes = size_of_val(room);
    if bytes < WORTHWHILE {
        return;
    }
    let start = room.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(ALIGNED).min(bytes);
    // SAFETY: the range lies inside one allocation that nothing else uses; the advice changes how it is backed, not what it holds.
    unsafe { libc::madvise(start.add(skipped).cast(), bytes - skipped, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn on_large_pages<T>(_: &mut [MaybeUninit<T>]) {}

/// Asks for the memory of a value and does not wait for it. A hint: it changes nothing but speed.
#[inline]
pub(super) fn prefetch<T: Copy>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "no safe function asks for memory ahead of its use")]
    // SAFETY: the instruction reads nothing into the program and faults at no address; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    // a read that nothing waits for comes close
    #[cfg(not(target_arch = "x86_64"))]
    std::hint::black_box(*value);
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_of_all_sizes_are_filled() {
        for count in [0, 1, 4096, (1 << 19) + 3] {
            let table = super::filled([7u64, 9], count);
            assert_eq!(table.len(), count);
            assert!(table.iter().all(|x| *x == [7, 9]));
        }
    }
}
