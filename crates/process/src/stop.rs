//! Long work that can be stopped between its steps: by a person who no longer wants to wait, never by what is computed.
//!
//! [`stoppable`] runs work and asks from time to time whether to go on. The work passes [points](point) where it may end: before a release, between sums, in
//! planning. There it unwinds to where it began, so nothing after the point happens and whatever it had opened is closed. When a point is reached depends on
//! time alone, and nothing is decided by what the work has found.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long work goes on between two questions.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// The work was asked to end, and has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Who is asked in the thread that began the work, and when it was last.
struct Asking {
    ask: Rc<dyn Fn() -> bool>,
    last: Cell<Instant>,
}

thread_local! {
    /// The work that this thread has a part in.
    static HERE: RefCell<Stop> = const { RefCell::new(Stop(None)) };
    /// Whom to ask, in the thread that began the work.
    static ASKING: RefCell<Option<Rc<Asking>>> = const { RefCell::new(None) };
}

/// Whether a piece of work is to end, for threads that have a part in it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Option<Arc<AtomicBool>>);

impl Stop {
    /// The stop of the work that this thread has a part in.
    pub fn here() -> Self {
        HERE.with(|here| here.borrow().clone())
    }

    /// False where nobody can ask for an end.
    pub fn is_possible(&self) -> bool {
        self.0.is_some()
    }

    /// Runs a part of the work in this thread.
    pub fn within<R>(&self, part: impl FnOnce() -> R) -> R {
        let _before = Before(HERE.with(|here| here.replace(self.clone())));
        part()
    }

    /// A place where a part of the work ends if that was asked for; as [`point`], in threads that do not know of which work they are a part.
    pub fn point(&self) {
        if self.is_asked() {
            leave();
        }
    }

    fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked.load(Ordering::Relaxed))
    }

    fn ask(&self) {
        if let Some(asked) = &self.0 {
            asked.store(true, Ordering::Relaxed);
        }
    }
}

/// What this thread had a part in before, put back at the end.
struct Before(Stop);

impl Drop for Before {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.0);
        HERE.with(|here| here.replace(before));
    }
}

/// Whom this thread asked before, put back at the end.
struct AskedBefore(Option<Rc<Asking>>);

impl Drop for AskedBefore {
    fn drop(&mut self) {
        let before = self.0.take();
        ASKING.with(|asking| asking.replace(before));
    }
}

/// Runs `work`, which ends at its next [point](point) once `ask` has said so. `ask` is called in this thread only, every [`PATIENCE`] or more, while parts of
/// the work run in other threads too.
///
/// # Errors
/// If it was stopped: what it did before stays done, and its result is lost.
///
/// ```
/// use dpopt_process::stop::{Stopped, point, stoppable};
/// assert_eq!(stoppable(|| false, || 7), Ok(7));
/// let endless = || -> u8 { loop { point() } };
/// assert_eq!(stoppable(|| true, endless), Err(Stopped));
/// ```
pub fn stoppable<R>(ask: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> Result<R, Stopped> {
    let asking = Asking { ask: Rc::new(ask), last: Cell::new(Instant::now()) };
    let _asked_before = AskedBefore(ASKING.with(|before| before.replace(Some(Rc::new(asking)))));
    let stop = Stop(Some(Arc::default()));
    // what the work leaves behind is dropped with it, and locks that it held say that they were left
    match catch_unwind(AssertUnwindSafe(|| stop.within(work))) {
        Ok(result) => Ok(result),
        Err(left) if left.is::<Stopped>() => Err(Stopped),
        Err(panic) => resume_unwind(panic),
    }
}

/// [Points](point) of a loop, passed about every millisecond however long its steps are: between two of them no more is done than to count.
#[derive(Debug)]
pub struct Pace {
    possible: bool,
    /// Steps since the last point, and how many come before the next.
    steps: u32,
    stride: u32,
    last: Instant,
}

/// About so long is a loop away from a point.
const STRIDE: Duration = Duration::from_millis(1);
/// Steps between two points at most: of a loop whose first steps are cheap, the others may be dear.
const MAX_STEPS: u32 = 1 << 12;

impl Default for Pace {
    /// The pace of a loop that begins now, in this thread.
    fn default() -> Self {
        Self { possible: Stop::here().is_possible(), steps: 0, stride: 1, last: Instant::now() }
    }
}

impl Pace {
    /// A step was done.
    #[inline]
    pub fn step(&mut self) {
        self.steps += 1;
        if self.steps >= self.stride {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        self.steps = 0;
        if !self.possible {
            self.stride = u32::MAX;
            return;
        }
        match self.last.elapsed() {
            spent if spent < STRIDE => self.stride = (2 * self.stride).min(MAX_STEPS),
            spent if spent > 4 * STRIDE => self.stride = (self.stride / 2).max(1),
            _ => {}
        }
        point();
        self.last = Instant::now();
    }
}

/// `items`, with the [points](point) of a loop over them.
///
/// ```
/// use dpopt_process::stop::{Stopped, paced, stoppable};
/// assert_eq!(stoppable(|| false, || paced(0..1000_u64).sum()), Ok(499_500_u64));
/// assert_eq!(stoppable(|| true, || paced(0_u64..).last()), Err(Stopped));
/// ```
pub fn paced<I: IntoIterator>(items: I) -> impl Iterator<Item = I::Item> {
    let mut pace = Pace::default();
    items.into_iter().inspect(move |_| pace.step())
}

/// Waits until `done`, with [points](point) meanwhile: for threads that have a part in the work and whose end is near.
pub fn wait_until(done: impl Fn() -> bool) {
    let mut pause = Duration::from_micros(20);
    while !done() {
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(5));
        point();
    }
}

/// The lock of something that another thread may hold for long, with [points](point) while it is waited for. A value that a panic left is taken as it is.
pub fn awaited<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    if Stop::here().is_possible() {
        wait_until(|| !matches!(shared.try_lock(), Err(TryLockError::WouldBlock)));
    }
    // another may have been faster: no harm, it is waited for once more
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a step that is done whole or not at all: no [`point`] ends it, and it ends when it is done. For what would be left half changed, such as the state of noise
/// that goes on; it should take well below a second.
pub fn whole<R>(step: impl FnOnce() -> R) -> R {
    Stop::default().within(step)
}

/// A place where the work of this thread ends if that was asked for.
pub fn point() {
    let stop = Stop::here();
    if !stop.is_possible() {
        return;
    }
    ask_again(&stop);
    if stop.is_asked() {
        leave();
    }
}

/// Ends the work without the words that a panic has.
fn leave() -> ! {
    resume_unwind(Box::new(Stopped))
}

/// Asks, in the thread that began the work, if it is time to.
fn ask_again(stop: &Stop) {
    // not borrowed while it is asked: who is asked may begin other work
    let asking = ASKING.with(|asking| asking.borrow().clone());
    if let Some(asking) = asking
        && asking.last.get().elapsed() >= PATIENCE
    {
        if (asking.ask)() {
            stop.ask();
        }
        asking.last.set(Instant::now());
    }
}

/// Says that a part is done, however it ended.
struct Done<'a>(&'a (Mutex<bool>, Condvar));

impl Drop for Done<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Runs a part of the work in threads of `pool`; this thread goes on asking.
pub(crate) fn in_pool<R: Send>(pool: &rayon::ThreadPool, part: impl FnOnce() -> R + Send) -> R {
    let stop = Stop::here();
    if !stop.is_possible() {
        return pool.install(part);
    }
    let (mut result, done) = (None, (Mutex::new(false), Condvar::new()));
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            let _done = Done(&done);
            result = Some(stop.within(part));
        });
        let mut waiting = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*waiting {
            waiting = done.1.wait_timeout(waiting, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
            if !*waiting {
                // who is asked may wait for others: not under the lock
                drop(waiting);
                ask_again(&stop);
                waiting = done.0.lock().unwrap_or_else(PoisonError::into_inner);
            }
        }
    });
    // a part that left without a result has unwound through the scope
    result.unwrap_or_else(|| leave())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_threads;
    use rayon::prelude::*;

    /// Says yes from the `n`-th question on.
    fn after(n: usize) -> impl Fn() -> bool {
        let asked = Cell::new(0);
        move || {
            asked.set(asked.get() + 1);
            asked.get() >= n
        }
    }

    /// The work of these tests never ends by itself, so the limit only says that it did not end at once: it is far above what a busy machine takes.
    fn soon<R>(work: impl FnOnce() -> R) -> R {
        let began = Instant::now();
        let result = work();
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
        result
    }

    #[test]
    fn work_of_one_thread_and_of_many_ends_soon() {
        let alone = || -> () {
            loop {
                point();
            }
        };
        assert_eq!(soon(|| stoppable(after(2), alone)), Err(Stopped));
        let many = || {
            let stop = Stop::here();
            in_threads(|| {
                (0..8).into_par_iter().for_each(|_| {
                    stop.within(|| {
                        loop {
                            point();
                        }
                    })
                })
            });
        };
        assert_eq!(soon(|| stoppable(after(2), many)), Err(Stopped));
        // the pool is as good as before
        assert_eq!(in_threads(|| (0..100_u64).into_par_iter().sum::<u64>()), 4950);
    }

    #[test]
    fn a_loop_ends_soon_however_long_its_steps_are() {
        for step in [0, 1, 50] {
            let slow = || paced(0_u64..).for_each(|_| std::thread::sleep(Duration::from_millis(step)));
            assert_eq!(soon(|| stoppable(after(2), slow)), Err(Stopped));
        }
        // nobody to ask
        assert_eq!(paced(0..100_000_u64).sum::<u64>(), 4_999_950_000);
    }

    #[test]
    fn a_step_that_is_done_whole_is_not_left() {
        let (begun, done) = (Cell::new(0), Cell::new(0));
        let steps = || -> () {
            loop {
                begun.set(begun.get() + 1);
                whole(|| {
                    std::thread::sleep(2 * PATIENCE);
                    point();
                    in_threads(|| paced(0..10).for_each(|_| std::thread::sleep(PATIENCE / 5)));
                    done.set(done.get() + 1);
                });
                point();
            }
        };
        assert_eq!(soon(|| stoppable(after(1), steps)), Err(Stopped));
        assert_eq!((begun.get(), done.get()), (1, 1));
    }

    #[test]
    fn a_loop_of_cheap_steps_looks_seldom_and_one_of_dear_ones_each_time() {
        let strides = |length: Duration, steps: u32| {
            let seen = || {
                let mut pace = Pace::default();
                for _ in 0..steps {
                    std::thread::sleep(length);
                    pace.step();
                }
                pace.stride
            };
            stoppable(|| false, seen).unwrap()
        };
        assert_eq!(strides(Duration::from_millis(5), 20), 1);
        assert_eq!(strides(Duration::ZERO, 1), 2);
        let mut pace = Pace::default();
        (0..10).for_each(|_| pace.step());
        assert_eq!(pace.stride, u32::MAX, "nobody can ask");
    }

    #[test]
    fn work_that_is_not_asked_to_end_is_what_it_was() {
        let sum = || in_threads(|| (0..1000_u64).into_par_iter().map(|i| i * i).sum::<u64>());
        assert_eq!(stoppable(|| false, sum), Ok(sum()));
        // nobody to ask: points are passed
        point();
        assert!(!Stop::here().is_possible());
    }

    #[test]
    fn a_panic_stays_a_panic_and_work_of_others_goes_on() {
        let caught = catch_unwind(|| stoppable(|| true, || resume_unwind(Box::new("other")) as u8));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"other"));
        assert!(!Stop::here().is_possible());
        // inner work that is stopped ends by itself
        let outer = stoppable(
            || false,
            || {
                let inner = stoppable(after(1), || -> u8 {
                    loop {
                        point();
                    }
                });
                point();
                inner
            },
        );
        assert_eq!(outer, Ok(Err(Stopped)));
    }
}
