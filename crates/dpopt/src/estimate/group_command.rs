//! A program that answers for one group of rows: started anew for each, with the rows of that group and no others, for a limited time.

use crate::model::FitError;
use dpopt_data::RowGroups;
use dpopt_data::output::PrivateDirectory;
use dpopt_mechanism::progress::Progress;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Where the file of a group's rows stands in a command.
const PLACE: &str = "{group}";
/// Bytes of output that are read for each number that is wanted.
const BYTES_PER_NUMBER: usize = 256;
/// Least number of bytes of output that are read.
const LEAST_BYTES: usize = 1 << 12;
/// Longest time limit: 30 days.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Most programs at a time.
const MAX_JOBS: usize = 64;
/// With fixed times, what a turn has beyond the limit, for what comes after a run is stopped. Where that is not enough, the turns after it begin later: each run has
/// its whole limit, whatever the runs before it left behind.
const AFTERWARDS: Duration = Duration::from_millis(250);
/// How long a run that was killed may take to end before nobody waits for it.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// A command that is run once for each group: public, and checked before anything is paid for.
///
/// ```
/// use dpopt::estimate::GroupCommand;
/// use std::time::Duration;
/// let command = GroupCommand::new("sort -n {group}", Duration::from_secs(60))?;
/// assert_eq!(command.words(), ["sort", "-n", "{group}"]);
/// assert!(GroupCommand::new("sort -n", Duration::from_secs(60)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupCommand {
    words: Vec<String>,
    time_limit: Duration,
    /// So many run at a time; 1 unless said. Runs that share a machine can slow each other: one whose group makes it greedy for processors or memory could
    /// push others past their limit, and a record is to change one answer. With more than one the limit has to be far above what a run takes.
    pub jobs: usize,
    /// Whether every group takes the whole time limit, so that how long all of it takes is public.
    pub fixed_time: bool,
}

impl GroupCommand {
    /// Takes `command` apart at white space outside quotes, as a shell would, but no shell runs it; `{group}` becomes the path of the file with the rows of one
    /// group. A run that takes longer than `time_limit` is killed, and is no answer.
    ///
    /// # Errors
    /// If it does not say where the file goes, a quote is not closed, there is no such program, or the limit is out of range.
    pub fn new(command: &str, time_limit: Duration) -> Result<Self, FitError> {
        let refuse = |what: String| Err(FitError::Option(what.into()));
        let Some(words) = words(command) else {
            return refuse("the command has a quote that is not closed; close it".into());
        };
        if !words.iter().skip(1).any(|word| word.contains(PLACE)) {
            return refuse(format!(
                "the command has no place for the file with a group's rows; write {PLACE} there, as in 'python \
                 fit.py {PLACE}'"
            ));
        }
        if program(&words[0]).is_none() {
            return refuse(format!(
                "there is no program {:?} that can be run; give a path, or a name that is found in PATH",
                words[0]
            ));
        }
        if time_limit.is_zero() || time_limit > LONGEST {
            return refuse(
                "the time limit is out of range; give more than 0 and at most 30 days, for example 60s, 5m or 2h"
                    .into(),
            );
        }
        Ok(Self { words, time_limit, jobs: 1, fixed_time: false })
    }

    /// What is run, word by word.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Longest time of each run of the command.
    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Refuses a number of jobs that is out of range.
    pub(super) fn check(&self) -> Result<(), FitError> {
        if !(1..=MAX_JOBS).contains(&self.jobs) {
            return Err(FitError::Option(format!("jobs is {}; give 1 to {MAX_JOBS}", self.jobs).into()));
        }
        Ok(())
    }

    /// One answer of `dimension` numbers for each group. Whatever goes wrong with a group is no answer of it, and nothing else.
    pub(super) fn answers(
        &self,
        groups: &RowGroups,
        dimension: usize,
        progress: &dyn Progress,
    ) -> Vec<Option<Vec<f64>>> {
        let _no_core_dumps = NoCoreDumps::begin();
        let next = AtomicUsize::new(0);
        let begun = Instant::now();
        let answers = Mutex::new(vec![None; groups.len()]);
        std::thread::scope(|scope| {
            for worker in 0..self.jobs.min(groups.len()) {
                let (next, answers) = (&next, &answers);
                let work = move || {
                    for turn in 0.. {
                        // with fixed times, which worker runs which group when is fixed, too
                        let group = match self.fixed_time {
                            true => worker + turn as usize * self.jobs,
                            false => next.fetch_add(1, Ordering::Relaxed),
                        };
                        if group >= groups.len() {
                            break;
                        }
                        let answer = self.answer(groups, group, dimension);
                        answers.lock().unwrap_or_else(PoisonError::into_inner)[group] = answer;
                        if self.fixed_time {
                            let end = begun + self.turn() * (turn + 1);
                            std::thread::sleep(end.saturating_duration_since(Instant::now()));
                            progress.tick();
                        }
                    }
                };
                // where there are no more threads, those that there are do the work
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
        });
        answers.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a group takes with [fixed times](Self::fixed_time).
    pub fn turn(&self) -> Duration {
        self.time_limit + AFTERWARDS
    }

    /// `None`: there is none, for whatever reason.
    fn answer(&self, groups: &RowGroups, group: usize, dimension: usize) -> Option<Vec<f64>> {
        if groups.has_no_row(group) {
            return None;
        }
        let directory = PrivateDirectory::new().ok()?;
        let file = directory.path().join("group.csv");
        let mut rows = BufWriter::new(File::create(&file).ok()?);
        groups.write(group, &mut rows).ok()?;
        rows.flush().ok()?;
        drop(rows);
        let limit = dimension.saturating_mul(BYTES_PER_NUMBER).max(LEAST_BYTES);
        let output = self.output(&file, directory.path(), limit, Instant::now() + self.time_limit)?;
        numbers(&output, dimension)
    }

    /// All that a run prints, if it ends well within time and prints no more than `limit` bytes.
    fn output(&self, file: &Path, directory: &Path, limit: usize, deadline: Instant) -> Option<Vec<u8>> {
        let words: Vec<String> = self.words.iter().map(|word| word.replace(PLACE, &file.to_string_lossy())).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // what it puts aside goes when the group goes
        for variable in ["TMPDIR", "TMP", "TEMP", "JOBLIB_TEMP_FOLDER"] {
            command.env(variable, directory);
        }
        let mut run = Running::start(&mut command)?;
        let stdout = run.child.as_mut()?.stdout.take()?;
        let (send, printed) = mpsc::channel();
        // where a program leaves one behind that keeps the pipe open, this thread stays with it
        std::thread::Builder::new()
            .spawn(move || {
                let mut all = Vec::new();
                let whole = stdout.take(limit as u64 + 1).read_to_end(&mut all).is_ok() && all.len() <= limit;
                // nobody listens after the deadline
                let _ = send.send(whole.then_some(all));
            })
            .ok()?;
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let output = printed.recv_timeout(left(deadline)).ok().flatten()?;
        let mut pause = Duration::from_micros(200);
        while run.goes_on() {
            if left(deadline).is_zero() {
                return None;
            }
            std::thread::sleep(pause.min(left(deadline)));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        let status = run.stop()?;
        status.success().then_some(output)
    }
}

/// The numbers of an answer: a JSON list, or numbers with white space between them. `None` unless there are `dimension` finite ones and nothing else.
fn numbers(output: &[u8], dimension: usize) -> Option<Vec<f64>> {
    let text = std::str::from_utf8(output).ok()?.trim();
    let found: Vec<f64> = match text.starts_with('[') {
        true => serde_json::from_str(text).ok()?,
        false => text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?,
    };
    (found.len() == dimension && found.iter().all(|v| v.is_finite())).then_some(found)
}

/// Words as a shell takes them apart: quotes of both kinds and backslashes, nothing else. `None`: a quote is not closed, or a backslash stands at the end.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') => {
                let c = letters.next()?;
                let word = word.get_or_insert_default();
                if !matches!(c, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(c);
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (quote.is_none()).then_some(words)
}

/// Where a program is: a path, or a name in PATH.
fn program(name: &str) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains(std::path::MAIN_SEPARATOR) {
        return Some(PathBuf::from(name)).filter(|path| can_run(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| can_run(path))
}

#[cfg(unix)]
fn can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn can_run(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// Process ids of the programs that run.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> std::sync::MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills what [`GroupCommand`] started; for a handler that ends the process. None can be started afterwards: whoever tries waits for the end of the process.
pub fn stop_commands() {
    let list = running();
    list.iter().for_each(|&process| kill_group(process));
    std::mem::forget(list); // stays locked
}

/// While it lives, programs that crash leave no image of their memory.
struct NoCoreDumps {
    #[cfg(unix)]
    before: Option<(u64, u64)>,
}

impl NoCoreDumps {
    #[cfg(unix)]
    fn begin() -> Self {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let before = getrlimit(Resource::RLIMIT_CORE).ok();
        let set = |(_, hard)| setrlimit(Resource::RLIMIT_CORE, 0, hard).is_ok();
        Self { before: before.filter(|limits| set(*limits)) }
    }

    #[cfg(not(unix))]
    fn begin() -> Self {
        Self {}
    }
}

impl Drop for NoCoreDumps {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some((soft, hard)) = self.before {
            let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, soft, hard);
        }
    }
}

/// The variable that tells which run a process belongs to.
const MARK: &str = "DPOPT_GROUP_RUN";

/// A program and all that it starts; killed when dropped.
struct Running {
    /// `None` once it is over.
    child: Option<Child>,
    mark: String,
}

impl Running {
    fn start(command: &mut Command) -> Option<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        command.env(MARK, &mark);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut list = running();
        let child = command.spawn().ok()?;
        list.insert(child.id());
        // where memory ends, the run is what goes
        #[cfg(target_os = "linux")]
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
        Some(Self { child: Some(child), mark })
    }

    /// Whether it has not ended yet. Its number stays its own until it is [stopped](Self::stop).
    #[cfg(unix)]
    fn goes_on(&mut self) -> bool {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.child.as_ref().is_some_and(|child| {
            let process = nix::unistd::Pid::from_raw(child.id() as i32);
            matches!(waitid(Id::Pid(process), flags), Ok(WaitStatus::StillAlive))
        })
    }

    #[cfg(not(unix))]
    fn goes_on(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills what is left of it, and says how it ended.
    fn stop(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        {
            let mut list = running();
            // before its number is given back: afterwards it may be another's
            kill_group(child.id());
            #[cfg(not(unix))]
            let _ = child.kill();
            list.remove(&child.id());
        }
        kill_marked(&self.mark);
        let until = Instant::now() + LAST_WAIT;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => break,
            }
        }
        // stuck in the kernel: it is over when that lets go of it
        let _ = std::thread::Builder::new().spawn(move || child.wait());
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(unix)]
fn kill_group(process: u32) {
    use nix::sys::signal::{Signal, killpg};
    let _ = killpg(nix::unistd::Pid::from_raw(process as i32), Signal::SIGKILL);
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

/// Kills what a run started and what has left its process group, as `timeout` and `setsid` do: whatever carries the run's mark in its environment. In several
/// rounds, because what is killed may have started another meanwhile.
#[cfg(target_os = "linux")]
fn kill_marked(mark: &str) {
    use nix::sys::signal::{Signal, kill};
    const ROUNDS: usize = 20;
    let wanted = format!("{MARK}={mark}");
    for _ in 0..ROUNDS {
        let mut found = false;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
                found |= kill(nix::unistd::Pid::from_raw(process), Signal::SIGKILL).is_ok();
            }
        }
        if !found {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn kill_marked(_: &str) {}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_data::{BadCells, Format, ReadOptions, open_bytes};
    use dpopt_mechanism::progress::Silent;

    #[test]
    fn words_are_a_shells_and_places_are_needed() {
        let apart = |text| words(text).unwrap();
        assert_eq!(apart(" a  'b c' \"d \\\" e\" f\\ g'' "), ["a", "b c", "d \" e", "f g"]);
        assert_eq!(apart("a '' \"\\n\" x\"y\"z"), ["a", "", "\\n", "xyz"]);
        assert!(words("a 'b").is_none() && words("a \\").is_none() && apart("").is_empty());
        let refused = |command: &str, seconds| {
            GroupCommand::new(command, Duration::from_secs(seconds))
                .err()
                .map(|why| why.to_string())
                .unwrap_or_default()
        };
        assert!(refused("sh", 1).contains("{group}") && refused("{group}", 1).contains("{group}"));
        assert!(refused("no-such-program-anywhere {group}", 1).contains("no program"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = tempfile::NamedTempFile::new().unwrap();
            let with = |mode| {
                file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
                refused(&format!("{} {{group}}", file.path().display()), 1)
            };
            assert!(with(0o644).contains("no program") && with(0o755).is_empty());
        }
        assert!(refused("sh '{group}", 1).contains("quote") && refused("sh {group}", 0).contains("time limit"));
        assert!(refused("", 1).contains("{group}") && refused("sh {group}", 1 << 40).contains("time limit"));
    }

    #[test]
    fn an_answer_is_so_many_finite_numbers_and_nothing_else() {
        let of = |text: &str| numbers(text.as_bytes(), 2);
        for good in ["1 -2.5e-3\n", "[1,-0.0025]", "\n 1\n-2.5E-3", "[ 1e0 ,\n -0.0025 ]\n"] {
            assert_eq!(of(good), Some(vec![1.0, -0.0025]), "{good}");
        }
        for bad in [
            "",
            "1",
            "1 2 3",
            "1 NaN",
            "1 inf",
            "[1,2",
            "[1,null]",
            "1,2",
            "[1,2] x",
            "1e999 1",
            "{\"a\":1}",
            "[[1,2]]",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(numbers(b"1 2 \xff", 2), None);
    }

    fn answers(script: &str, limit: Duration, fixed_time: bool) -> Vec<Option<Vec<f64>>> {
        let mut table = "n\n".to_string();
        (0..40).for_each(|i| table += &format!("{i}\n"));
        let table = open_bytes(table.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        // group 3 has no row
        let group_of = |row: usize| Some(row % 4).filter(|group| *group != 3);
        let groups = RowGroups::split(&*table, 4, group_of, BadCells::Error).unwrap();
        let mut command = GroupCommand::new(&format!("sh -c '{script}' {{group}}"), limit).unwrap();
        (command.jobs, command.fixed_time) = (2, fixed_time);
        command.answers(&groups, 1, &Silent)
    }

    #[cfg(unix)]
    #[test]
    fn each_run_sees_one_group_and_what_goes_wrong_is_no_answer() {
        let (long, none) = (Duration::from_secs(60), [None, None, None, None]);
        let sums = answers("tail -n +2 $0 | paste -s -d + | sed s/^/0+/ | (read x; echo $(($x)))", long, false);
        assert_eq!(sums, [Some(vec![180.0]), Some(vec![190.0]), Some(vec![200.0]), None]);
        // nothing else is beside the file, whose directory is nobody else's
        let alone = answers("d=$(dirname $0); ls $d | wc -l; stat -c %a $d >&2", long, false);
        assert_eq!(alone[0], Some(vec![1.0]));
        let mode = answers("stat -c %a $(dirname $0)", long, false);
        assert_eq!(mode[0], Some(vec![700.0]));
        for wrong in [
            "echo 1; exit 3",
            "kill -9 $$",
            "echo 1 2",
            "echo nan",
            "yes",
            "echo x",
            "true",
            "cat $0",
            "exec 1>&-; exit 0",
        ] {
            assert_eq!(answers(wrong, long, false), none, "{wrong}");
        }
        // a group that finds the word in its rows fails, the others do not
        let one = answers("grep -q ^13$ $0 && exit 1; echo 5", long, false);
        assert_eq!(one, [Some(vec![5.0]), None, Some(vec![5.0]), None]);
    }

    #[cfg(unix)]
    #[test]
    fn a_limit_kills_what_was_started_and_what_that_started() {
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().display();
        let begun = Instant::now();
        let script = format!("echo 1; (sleep 2; touch {mark}/late) & touch {mark}/begun; sleep 3000");
        assert_eq!(answers(&script, Duration::from_millis(700), false), [None, None, None, None]);
        // three groups, two at a time
        assert!(begun.elapsed() < Duration::from_secs(600), "{:?}", begun.elapsed());
        // one that closes its output and goes on, and one that leaves another behind with its output open
        let begun = Instant::now();
        assert_eq!(answers("echo 1; exec 1>&-; sleep 3000", Duration::from_millis(700), false)[0], None);
        assert_eq!(answers("sleep 3000 & echo 1", Duration::from_millis(700), false)[0], None);
        assert!(begun.elapsed() < Duration::from_secs(600));
        std::thread::sleep(Duration::from_millis(2500));
        assert!(marks.path().join("begun").exists() && !marks.path().join("late").exists());
        // those of tests at the same time end, too
        let until = Instant::now() + Duration::from_secs(60);
        while !running().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(running().is_empty());
    }

    /// What left the process group is found by its mark; a directory that nobody may list goes too; and a run that leaves much behind takes no time from the next.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_run_leaves_behind_is_ended_and_removed() {
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().display();
        let script = format!(
            "echo $(dirname $0) >> {mark}/places; setsid sh -c \"sleep 2; touch {mark}/late\" & timeout 30 sleep 31; echo 1"
        );
        assert_eq!(answers(&script, Duration::from_millis(600), false), [None, None, None, None]);
        let script = format!(
            "d=$(dirname $0); echo $d >> {mark}/places; mkdir $d/kept; touch $d/kept/x; chmod 0 $d/kept; echo 1"
        );
        assert_eq!(answers(&script, Duration::from_secs(60), false)[0], Some(vec![1.0]));
        std::thread::sleep(Duration::from_millis(2500));
        assert!(!marks.path().join("late").exists());
        let places = std::fs::read_to_string(marks.path().join("places")).unwrap();
        assert!(places.lines().count() >= 6 && places.lines().all(|place| !Path::new(place).exists()), "{places}");
        // the group with 4 in it leaves files by the thousand; all others need most of their limit
        let busy = "if grep -q ^4$ $0; then cd $(dirname $0); seq 20000 | xargs touch; fi; sleep 0.5; echo 1";
        let found = answers(busy, Duration::from_secs(2), true);
        assert_eq!(found[1..], [Some(vec![1.0]), Some(vec![1.0]), None]);
    }

    #[cfg(unix)]
    #[test]
    fn with_fixed_times_all_of_it_takes_what_was_said() {
        let limit = Duration::from_millis(800);
        // two rounds of two groups, the empty one among them
        let told = 2 * (limit + AFTERWARDS);
        for script in ["echo 1", "sleep 100", "if grep -q ^4$ $0; then sleep 100; fi; echo 1"] {
            let late = |_| {
                let begun = Instant::now();
                let found = answers(script, limit, true);
                let taken = begun.elapsed();
                assert!(found[3].is_none() && taken >= told, "{script}: {taken:?}");
                taken >= told + Duration::from_secs(4)
            };
            // a busy machine may be late, and is not always
            assert!(!(0..5).all(late), "{script}");
        }
    }
}
