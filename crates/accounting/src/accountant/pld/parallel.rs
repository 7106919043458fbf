//! Independent parts of a long composition on all cores, in order: what is returned does not depend on how many there are.

use std::thread::{available_parallelism, scope};

/// Fewer parts are not worth the threads.
const MANY: usize = 64;

/// `work` on every item, in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < MANY { items.iter().map(work).collect() } else { each(items, work) }
}

/// The same where already a few items are worth the threads.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = available_parallelism().map_or(1, usize::from);
    if items.len() < 2 || cores == 1 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    scope(|s| {
        let share = items.len().div_ceil(cores);
        let threads: Vec<_> =
            items.chunks(share).map(|chunk| s.spawn(move || chunk.iter().map(work).collect::<Vec<R>>())).collect();
        // a panic of a thread goes on in the caller
        threads.into_iter().flat_map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_order_stays() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(super::map(&items, |i| i * i), items.iter().map(|i| i * i).collect::<Vec<_>>());
    }
}
