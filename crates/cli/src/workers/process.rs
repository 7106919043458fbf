//! A worker as the fit sees it: a process, and what comes out of it.

use super::frames::{receive, send};
use super::worker::{DONE, FAILED};
use dpopt::data::failure;
use std::io::{self, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running worker; it ends with this.
pub(super) struct Process {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Why there is no answer.
pub(super) enum Silence {
    /// The process has ended.
    Ended(String),
    /// It cannot answer, and another one in its place could not either.
    Failed(String),
}

impl Process {
    /// Starts a worker with so many threads, and sends it its task.
    pub(super) fn start(task: &[u8], threads: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // an interrupt is for the fit, whose end is theirs
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .arg("worker")
            .env("RAYON_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // what a crash would show is nobody's
            .stderr(Stdio::null())
            .spawn()?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => {
                let mut process = Self { child, to, from: BufReader::new(from) };
                // one that is gone already is noticed when it is to answer
                let _ = process.tell(task);
                Ok(process)
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Hands it an aggregate query.
    pub(super) fn tell(&mut self, query: &[u8]) -> io::Result<()> {
        send(&mut self.to, query)
    }

    /// Waits for what it says.
    pub(super) fn hear(&mut self) -> Result<Vec<u8>, Silence> {
        let reply = receive(&mut self.from).ok().flatten();
        match reply.as_deref().and_then(<[u8]>::split_first) {
            Some((&DONE, answer)) => Ok(answer.to_vec()),
            Some((&FAILED, why)) => Err(Silence::Failed(String::from_utf8_lossy(why).into_owned())),
            _ => Err(Silence::Ended(self.end())),
        }
    }

    /// Ends it; how it ended.
    fn end(&mut self) -> String {
        let _ = self.child.kill();
        self.child.wait().map_or_else(|e| failure(&e), |status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
