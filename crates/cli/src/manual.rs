//! `dpopt manual`: a man page for the program and for each of its commands, made from what the program reads.

use crate::completions::program;
use crate::output::{Failure, note};
use clap::Args;
use clap_mangen::Man;
use dpopt::data::failure;
use dpopt::output::write_all_atomically;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory for the pages: dpopt.1, and dpopt-fit.1 and the like; made if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// The pages by the names of their files.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut whole = program();
    whole.build();
    let page = |command: clap::Command, name: &str| {
        let mut text = Vec::new();
        Man::new(command.name(name.to_string()).display_name(name.to_string())).render(&mut text)?;
        Ok((format!("{name}.1"), text))
    };
    let commands: Vec<_> = whole.get_subcommands().cloned().collect();
    std::iter::once(page(whole.clone(), "dpopt"))
        .chain(commands.into_iter().map(|command| {
            let name = format!("dpopt-{}", command.get_name());
            page(command, &name)
        }))
        .collect()
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let directory = &arguments.output;
    let fails = |e: std::io::Error| Failure::machine(format!("cannot write {}: {}", directory.display(), failure(&e)));
    std::fs::create_dir_all(directory).map_err(fails)?;
    let pages = pages().map_err(fails)?;
    let files: Vec<(PathBuf, Vec<u8>)> = pages.into_iter().map(|(name, text)| (directory.join(name), text)).collect();
    let files: Vec<(&Path, &[u8])> = files.iter().map(|(path, text)| (path.as_path(), text.as_slice())).collect();
    write_all_atomically(&files).map_err(fails)?;
    note(format!("{} man pages to {}", files.len(), directory.display()));
    Ok(())
}
