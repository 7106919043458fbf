//! `dpopt fit --workers`: processes on this machine, each of which holds its share of the encoded rows and answers aggregate queries of the fit.

mod frames;
mod process;
mod task;
mod worker;

use crate::output::{Failure, note};
use dpopt::data::failure;
use dpopt::model::{Fit, Fitted};
use dpopt::progress::Progress;
use dpopt::records::{Partitions, PartitionsFailed};
use process::{Process, Silence};
use std::sync::{Arc, Mutex, PoisonError};
pub(crate) use task::Shared;
pub(crate) use worker::run as work;

/// How often a worker is started for one aggregate query.
const ATTEMPTS: usize = 3;

/// What is said of a fit that ends before it has asked anything.
const UNCHARGED: &str = "nothing was charged or released";

/// Number of records of a partition, and their digest.
type Known = (u64, u64);

/// Workers that hold the rows of a fit.
struct Pool {
    tasks: Vec<Vec<u8>>,
    threads: usize,
    running: Mutex<Vec<Process>>,
    failure: Mutex<Option<String>>,
}

impl Pool {
    /// Starts a worker for each task; what each of them holds.
    fn load(tasks: Vec<Vec<u8>>) -> Result<(Self, Vec<Known>), Failure> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (cores / tasks.len().max(1)).max(1);
        let started = tasks.iter().map(|task| Process::start(task, threads)).collect::<Result<_, _>>();
        let mut running: Vec<Process> = started
            .map_err(|e| Failure::machine(format!("no worker could be started: {}; {UNCHARGED}", failure(&e))))?;
        let pool = Self { tasks, threads, running: Mutex::default(), failure: Mutex::default() };
        let loaded = |(worker, process): (usize, &mut Process)| {
            let known = match process.hear() {
                Ok(known) => known,
                Err(Silence::Failed(why)) => return Err(Failure::usage(format!("{why}; {UNCHARGED}"))),
                Err(Silence::Ended(how)) => pool
                    .again(worker, process, &how, None)
                    .map_err(|why| Failure::machine(format!("{why}; {UNCHARGED}")))?,
            };
            serde_json::from_slice(&known).map_err(|_| {
                Failure::machine(
                    "a worker runs another version of dpopt; \
                                                                         install the same version everywhere",
                )
            })
        };
        let known = running.iter_mut().enumerate().map(loaded).collect::<Result<_, _>>()?;
        Ok((Self { running: Mutex::new(running), ..pool }, known))
    }

    /// Starts worker `worker` anew, because it ended as `how` says. What it answers to `question`, or that it holds its rows again.
    fn again(&self, worker: usize, process: &mut Process, how: &str, query: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let mut how = how.to_string();
        for _ in 1..ATTEMPTS {
            note(format!("note: worker {} ended ({how}) and is restarted", worker + 1));
            *process = Process::start(&self.tasks[worker], self.threads).map_err(|e| failure(&e))?;
            let answer = process.hear().and_then(|known| match query {
                None => Ok(known),
                Some(query) => {
                    // one that is gone is noticed when it is to answer
                    let _ = process.tell(query);
                    process.hear()
                }
            });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(Silence::Failed(why)) => return Err(why),
                Err(Silence::Ended(again)) => how = again,
            }
        }
        Err(format!(
            "worker {} ended {ATTEMPTS} times ({how}); if memory ran out, --memory keeps rows on disk",
            worker + 1
        ))
    }

    fn answers(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for process in running.iter_mut() {
            // one that is gone is noticed when it is to answer
            let _ = process.tell(query);
        }
        let answer = |(worker, process): (usize, &mut Process)| match process.hear() {
            Ok(answer) => Ok(answer),
            Err(Silence::Failed(why)) => Err(format!("worker {}: {why}", worker + 1)),
            Err(Silence::Ended(how)) => self.again(worker, process, &how, Some(query)),
        };
        running.iter_mut().enumerate().map(answer).collect()
    }
}

impl Partitions for Pool {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        self.answers(query).map_err(|why| {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            PartitionsFailed
        })
    }
}

/// Runs `fit` on the rows of `workers` processes. They read their rows before anything is charged.
pub(crate) fn run(shared: Shared, workers: u32, fit: Fit, progress: &dyn Progress) -> Result<Fitted, Failure> {
    let tasks = shared.divided(workers).map_err(Failure::usage)?;
    let written = tasks.iter().map(serde_json::to_vec).collect::<Result<_, _>>();
    // a name that is no UTF-8
    let written = written.map_err(|why| Failure::usage(format!("{why}; rename the file, or leave out --workers")))?;
    let before = task::states(&tasks);
    let (pool, known) = Pool::load(written)?;
    if task::states(&tasks) != before {
        return Err(Failure::usage(format!(
            "a file was changed while it was read; run again when nothing writes to it; {UNCHARGED}"
        )));
    }
    let pool = Arc::new(pool);
    fit.run_remote(pool.clone(), known, progress).map_err(|error| {
        let failed = crate::spending::failed(error);
        match pool.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(why) => Failure::machine(format!("{why}: {failed}")),
            None => failed,
        }
    })
}
