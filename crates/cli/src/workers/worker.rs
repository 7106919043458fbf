//! `dpopt worker`: a process of `dpopt fit --workers` that holds encoded rows and answers aggregate queries, over its pipes. It writes nothing
//! anywhere else.

use super::frames::{receive, send};
use super::task::Task;
use crate::output::Failure;
use crate::usage;
use dpopt::model::LargeShard;
use std::io::{stdin, stdout};
use std::sync::mpsc::{Receiver, sync_channel};

/// What a reply begins with.
pub(super) const DONE: u8 = 0;
pub(super) const FAILED: u8 = 1;

/// Reads its rows, then answers until the fit ends.
pub(crate) fn run() -> Result<(), Failure> {
    let task = receive(&mut stdin().lock()).ok().flatten().unwrap_or_default();
    let task: Task = serde_json::from_slice(&task)
        .map_err(|_| usage("the input is not a task; a worker is started by `dpopt fit --workers` only"))?;
    let coming = told();
    let mut to = stdout().lock();
    let mut reply = |answer: Result<Vec<u8>, String>| {
        let (kind, said) = match answer {
            Ok(answer) => (DONE, answer),
            Err(why) => (FAILED, why.into_bytes()),
        };
        send(&mut to, &[&[kind][..], &said].concat()).map_err(Failure::machine)
    };
    let mut part: LargeShard = match task.load() {
        Ok(part) => part,
        Err(why) => return reply(Err(why)),
    };
    reply(serde_json::to_vec(&(part.records(), part.digest())).map_err(|why| why.to_string()))?;
    for query in coming {
        reply(part.answer(&query).map_err(|why| why.to_string()))?;
    }
    Ok(())
}

/// What the fit says after that, one after the other. This process ends when the fit has gone, whatever it is doing.
fn told() -> Receiver<Vec<u8>> {
    let (tell, coming) = sync_channel(1);
    std::thread::spawn(move || {
        let mut from = stdin().lock();
        while let Ok(Some(said)) = receive(&mut from) {
            if tell.send(said).is_err() {
                return;
            }
        }
        std::process::exit(0);
    });
    coming
}
