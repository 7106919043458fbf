//! Independent parts of a long composition on all cores, in order: what is returned does not depend on how many there are.

use dpopt_process::cores;
use dpopt_process::stop::{Stop, paced, wait_until};
use std::thread::scope;

/// Fewer parts are not worth the threads.
const MANY: usize = 64;

/// `work` on every item, in the order of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < MANY { alone(items, work) } else { each(items, work) }
}

/// `work` on every item, in the order of the items, on all cores from two items on.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < 2 || cores() == 1 {
        return alone(items, work);
    }
    let work = &work;
    let (own, others) = items.split_at(items.len().div_ceil(cores()));
    scope(|s| {
        let threads: Vec<_> = others
            .chunks(own.len())
            .map(|chunk| {
                let stop = Stop::here();
                s.spawn(move || stop.within(|| alone(chunk, work)))
            })
            .collect();
        // this thread does its share, and is the one that is asked to end
        let mut all = alone(own, work);
        for thread in threads {
            wait_until(|| thread.is_finished());
            // a panic of a thread goes on in the caller
            all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

fn alone<T, R>(items: &[T], work: impl Fn(&T) -> R) -> Vec<R> {
    paced(items).map(work).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_order_stays() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(super::map(&items, |i| i * i), items.iter().map(|i| i * i).collect::<Vec<_>>());
    }
}
