//! Which process this is, and threads of its own. A forked copy of a process has its memory, but none of its other threads: work that is handed to them is never
//! done, and a lock that one of them held is never given back.
//!
//! So a session [remembers its process](Process), every parallel section runs [`in_threads`] of the process that it is in, and what several threads share is
//! [locked with patience](locked). Long work may be [stopped](stop) between its steps. Which types of the library may go to other threads, or be looked at by several,
//! says the façade's test `threads` (docs/threads.md); everything here may.
#![forbid(unsafe_code)]

pub mod ordered;
pub mod stop;

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that asks.
    pub fn here() -> Self {
        Self(std::process::id())
    }

    /// One that is not here, for tests of what a copy may do.
    pub fn another() -> Self {
        Self(std::process::id() ^ 1)
    }

    /// False in a forked copy.
    pub fn is_here(self) -> bool {
        self == Self::here()
    }
}

/// A pool and whose it is.
struct Own {
    process: Process,
    pool: Arc<ThreadPool>,
}

/// Runs `work` in threads of this process, as many as there are cores or as `RAYON_NUM_THREADS` says. Inside of another pool it runs there. Parallel sections
/// of the library run in here and nowhere else: the pool that rayon has for everybody has no threads in a forked process, which would wait for them for ever.
///
/// ```
/// use dpopt_process::in_threads;
/// use rayon::prelude::*;
/// let squares: Vec<u64> = in_threads(|| (0..4_u64).into_par_iter().map(|i| i * i).collect());
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
pub fn in_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match rayon::current_thread_index() {
        Some(_) => work(),
        None => match pool() {
            Some(pool) => stop::in_pool(&pool, work),
            // this thread is a pool by itself now
            None => work(),
        },
    }
}

/// How many cores this process may use. The system is asked once, since its answer takes as long as a short computation.
pub fn cores() -> usize {
    // not behind a lock, which a fork meanwhile would leave locked; to ask twice does no harm
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            KNOWN.store(cores, Ordering::Relaxed);
            cores
        }
        known => known,
    }
}

/// How many threads [`in_threads`] has.
pub fn thread_count() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => pool().map_or(1, |pool| pool.current_num_threads()),
    }
}

/// The pool of this process. `None` where the system has no more threads: then the one that asks became a pool of its own.
fn pool() -> Option<Arc<ThreadPool>> {
    static OWN: Mutex<Option<Own>> = Mutex::new(None);
    let known = |own: &Option<Own>| own.as_ref().filter(|own| own.process.is_here()).map(|own| own.pool.clone());
    if let Some(pool) = locked(&OWN).and_then(|own| known(&own)) {
        return Some(pool);
    }
    // not under the lock: a fork meanwhile would leave it locked
    let said = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"].iter().any(|name| std::env::var_os(name).is_some());
    // 0: as these variables say
    let threads = if said { 0 } else { cores() };
    let Ok(made) = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("dpopt-{i}")).build() else {
        // refused if it was done before, which is as good
        let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().map(std::mem::forget);
        return None;
    };
    let made = Arc::new(made);
    let Some(mut own) = locked(&OWN) else { return Some(made) };
    if let Some(pool) = known(&own) {
        return Some(pool);
    }
    let before = own.replace(Own { process: Process::here(), pool: made.clone() });
    // a parent's: to end it would be to wait for threads that are not here
    std::mem::forget(before);
    Some(made)
}

/// How often a lock is tried in a copy of a process, and how long apart.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

/// The lock of something that threads share for moments only. `None`: this process is a copy, and a thread that it does not have held the lock when it was
/// made. A value that a panic left is taken as it is.
pub fn locked<T>(shared: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    if !is_copy() {
        return Some(shared.lock().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..TRIES {
        match shared.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(left)) => return Some(left.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
    None
}

/// A file that this process has locked. Processes that were forked meanwhile have it open too, and the system takes a lock back when the last of them ends: so
/// it is given back when this is dropped, whoever has it open; and a copy that drops it gives nothing back.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    process: Process,
}

impl LockedFile {
    /// Locks it, or says why not at once.
    ///
    /// # Errors
    /// As [`File::try_lock`].
    pub fn new(file: File) -> Result<Self, (File, std::fs::TryLockError)> {
        match file.try_lock() {
            Ok(()) => Ok(Self { file, process: Process::here() }),
            Err(why) => Err((file, why)),
        }
    }

    /// The process that locked it.
    pub fn process(&self) -> Process {
        self.process
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.process.is_here() {
            // to close it does the same, if nobody else has it open
            let _ = self.file.unlock();
        }
    }
}

/// Whether this is a forked copy of the process that asked first.
pub fn is_copy() -> bool {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let here = std::process::id();
    let first = FIRST.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    first.is_err_and(|first| first != here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn a_section_inside_of_a_pool_stays_there() {
        for threads in [1, 3] {
            let other = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(other.install(|| in_threads(rayon::current_num_threads)), threads);
            assert_eq!(other.install(thread_count), threads);
        }
        let names: Vec<String> = in_threads(|| {
            let name = |_| std::thread::current().name().unwrap_or_default().to_string();
            in_threads(|| (0..1000).into_par_iter().map(name).collect())
        });
        assert!(names.iter().all(|name| name.starts_with("dpopt-")), "{names:?}");
        assert_eq!(in_threads(rayon::current_num_threads), thread_count());
    }

    #[test]
    fn a_lock_is_given_back_whichever_process_has_the_file_open() {
        let path = std::env::temp_dir().join(format!("dpopt-locked-{}", std::process::id()));
        let open = || File::create(&path).unwrap();
        let refused = || LockedFile::new(open()).is_err();
        // what a fork leaves open in the copy is the same open file
        let (held, copied) = LockedFile::new(open()).map(|held| (held.try_clone().unwrap(), held)).unwrap();
        assert!(refused());
        drop(copied);
        assert!(!refused());
        let mut held = LockedFile::new(held).unwrap();
        let parent = held.try_clone().unwrap();
        held.process = Process::another();
        drop(held);
        assert!(refused(), "a copy has given back its parent's lock");
        drop(parent);
        assert!(!refused());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_lock_is_waited_for_in_the_first_process() {
        let shared = Mutex::new(1);
        assert!(Process::here().is_here() && !is_copy());
        let held = shared.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| *locked(&shared).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            assert_eq!(waiting.join().unwrap(), 1);
        });
        assert!(!Process(std::process::id() + 1).is_here());
    }
}
