//! Work on items that come one after the other: done in several threads while the next ones are fetched, its results taken in the items' order.

use crate::stop::{self, PATIENCE, Stop};
use crate::{pool, thread_count};
use rayon::Scope;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};

/// How many items, and what weight of them together, are worked on or wait to be taken; one item more where they are light.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Number of items.
    pub items: usize,
    /// Sum of the weights that are given with them.
    pub weight: usize,
}

/// Calls `feed` in this thread, `work` with each item that `feed` gives and its weight, in threads of this process, and `take` with what becomes of it, in this
/// thread and in the items' order. With one thread all of it happens in this one.
///
/// # Errors
/// The first that `take` returns, or else that of `feed`, after everything was taken that was given before.
///
/// ```
/// use dpopt_process::ordered::{AtOnce, in_order};
/// let mut squares = Vec::new();
/// let take = |square: u64| -> Result<(), String> { Ok(squares.push(square)) };
/// in_order(AtOnce { items: 4, weight: 100 }, |i| i * i, take, |give| (0..10).try_for_each(|i: u64| give(i, 1)))?;
/// assert_eq!(squares, (0..10).map(|i| i * i).collect::<Vec<_>>());
/// # Ok::<(), String>(())
/// ```
pub fn in_order<T: Send, R: Send, E>(
    most: AtOnce,
    work: impl Fn(T) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
    feed: impl FnOnce(&mut dyn FnMut(T, usize) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    let own = rayon::current_thread_index().is_none();
    let threads = if thread_count() > 1 { Some(own.then(pool).flatten()) } else { None };
    let Some(threads) = threads else {
        return feed(&mut |item, _| {
            stop::point();
            take(work(item))
        });
    };
    let stop = Stop::here();
    let work = |item| stop.within(|| work(item));
    match threads {
        Some(pool) => pool.in_place_scope(|scope| in_scope(scope, most, &work, take, feed)),
        None => rayon::in_place_scope(|scope| in_scope(scope, most, &work, take, feed)),
    }
}

fn in_scope<'scope, T: Send + 'scope, R: Send + 'scope, E>(
    scope: &Scope<'scope>,
    most: AtOnce,
    work: &'scope (impl Fn(T) -> R + Sync),
    mut take: impl FnMut(R) -> Result<(), E>,
    feed: impl FnOnce(&mut dyn FnMut(T, usize) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = Waiting { queue: VecDeque::new(), weight: 0 };
    let mut is_taken = true;
    let fed = feed(&mut |item, weight| {
        stop::point();
        is_taken = false;
        while waiting.queue.len() >= most.items.max(1) || waiting.weight >= most.weight.max(1) {
            waiting.next().map_or(Ok(()), &mut take)?;
        }
        let (send, receive) = sync_channel(1);
        scope.spawn(move |_| {
            // who gave up waiting needs no result
            let _ = send.send(catch_unwind(AssertUnwindSafe(|| work(item))));
        });
        waiting.push(receive, weight);
        while let Some(result) = waiting.ready() {
            take(result)?;
        }
        is_taken = true;
        Ok(())
    });
    // an error of `take` has come through `feed`, and nothing is taken after it
    if is_taken {
        while let Some(result) = waiting.next() {
            take(result)?;
        }
    }
    fed
}

/// Results that are waited for, in order.
struct Waiting<R> {
    queue: VecDeque<(Receiver<std::thread::Result<R>>, usize)>,
    weight: usize,
}

impl<R> Waiting<R> {
    fn push(&mut self, receive: Receiver<std::thread::Result<R>>, weight: usize) {
        self.weight = self.weight.saturating_add(weight);
        self.queue.push_back((receive, weight));
    }

    /// The next result if it is there.
    fn ready(&mut self) -> Option<R> {
        let outcome = self.queue.front()?.0.try_recv().ok()?;
        Some(self.passed(outcome))
    }

    /// The next result; `None`: there is none any more.
    fn next(&mut self) -> Option<R> {
        let receive = &self.queue.front()?.0;
        let outcome = loop {
            match receive.try_recv() {
                Ok(outcome) => break outcome,
                Err(TryRecvError::Disconnected) => resume_unwind(Box::new("a thread ended before its work")),
                Err(TryRecvError::Empty) => {}
            }
            stop::point();
            // in a thread of the pool, the work that is waited for may be this thread's own
            match rayon::yield_now() {
                Some(rayon::Yield::Executed) => {}
                Some(rayon::Yield::Idle) => std::thread::yield_now(),
                None => match receive.recv_timeout(PATIENCE) {
                    Ok(outcome) => break outcome,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                },
            }
        };
        Some(self.passed(outcome))
    }

    /// Takes the first off the queue; a panic goes on here.
    fn passed(&mut self, outcome: std::thread::Result<R>) -> R {
        if let Some((_, weight)) = self.queue.pop_front() {
            self.weight = self.weight.saturating_sub(weight);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_threads;
    use crate::stop::{Stopped, stoppable};
    use std::time::Duration;

    const MOST: AtOnce = AtOnce { items: 4, weight: 1000 };

    /// Squares of the numbers below `n`, some of them worked on for longer, in the order in which they are taken.
    fn squares(n: u64, most: AtOnce) -> Vec<u64> {
        let mut all = Vec::new();
        let work = |i: u64| {
            std::thread::sleep(Duration::from_micros(i * 7919 % 300));
            i * i
        };
        let take = |square| {
            all.push(square);
            Ok::<(), ()>(())
        };
        in_order(most, work, take, |give| (0..n).try_for_each(|i| give(i, 10))).unwrap();
        all
    }

    fn pool_of(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    #[test]
    fn results_come_in_order_with_any_number_of_threads() {
        let expected: Vec<u64> = (0..100).map(|i| i * i).collect();
        for most in
            [MOST, AtOnce { items: 1, weight: 1 }, AtOnce { items: 0, weight: 0 }, AtOnce { items: 50, weight: 25 }]
        {
            assert_eq!(squares(100, most), expected);
            assert_eq!(in_threads(|| squares(100, most)), expected);
            for threads in [1, 2, 5] {
                assert_eq!(pool_of(threads).install(|| squares(100, most)), expected);
            }
        }
        assert!(squares(0, MOST).is_empty());
    }

    /// Takes numbers up to seven, which is an error.
    fn up_to_seven(taken: &mut Vec<u64>) -> impl FnMut(u64) -> Result<(), &'static str> {
        |i| {
            if i == 7 {
                return Err("seven");
            }
            taken.push(i);
            Ok(())
        }
    }

    #[test]
    fn the_first_error_ends_it_and_one_of_the_feed_comes_after_all_that_was_given() {
        for threads in [1, 2, 5] {
            let mut taken = Vec::new();
            let ended = pool_of(threads).install(|| {
                in_order(MOST, |i| i, up_to_seven(&mut taken), |give| (0..50).try_for_each(|i| give(i, 1)))
            });
            assert_eq!((ended, taken), (Err("seven"), (0..7).collect()));
            for (given, expected) in [(5, "feed"), (8, "seven")] {
                let mut taken = Vec::new();
                let ended = pool_of(threads).install(|| {
                    in_order(
                        MOST,
                        |i| i,
                        up_to_seven(&mut taken),
                        |give| {
                            (0..given).try_for_each(|i| give(i, 1))?;
                            Err("feed")
                        },
                    )
                });
                assert_eq!((ended, taken.len()), (Err(expected), 5.max(given as usize - 1)));
            }
        }
    }

    #[test]
    fn a_panic_of_the_work_is_that_of_the_caller_and_a_stop_ends_it() {
        let run = |work: fn(u64) -> u64| {
            in_order(MOST, work, |_| Ok::<(), ()>(()), |give| (0..).try_for_each(|i: u64| give(i, 1)))
        };
        let caught = catch_unwind(|| run(|i| if i == 20 { resume_unwind(Box::new("twenty")) } else { i }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"twenty"));
        assert_eq!(stoppable(|| true, || run(|i| i)), Err(Stopped));
        assert_eq!(squares(10, MOST).len(), 10, "the threads are as good as before");
    }
}
