//! `completions` and `man`: what the definition of the command line is turned into.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::caller::Caller;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use clap::{Command, CommandFactory};
use std::io::Write;
use std::path::Path;

pub(crate) fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "esker", &mut script);
    out.write_all(&script)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let dir = Caller::default().path(&args.dir);
    if !dir.is_dir() {
        return Err(Failure::usage(format!("there is no directory {}", dir.display())));
    }
    let mut command = Cli::command();
    command.build();
    let mut names = Vec::new();
    pages(&command, &dir, &mut names)?;
    writeln!(out, "{} pages, from {}.1 on", names.len(), names[0])?;
    Ok(Exit::Done)
}

/// Writes the page of a command and those of its own commands.
fn pages(command: &Command, dir: &Path, names: &mut Vec<String>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).source("Esker");
    let mut file = Output::create(&dir.join(format!("{name}.1")))?;
    page.render(&mut file)?;
    file.complete()?;
    names.push(name);
    let own = command.get_subcommands().filter(|own| !own.is_hide_set() && own.get_name() != "help");
    own.into_iter().try_for_each(|own| pages(own, dir, names))
}
