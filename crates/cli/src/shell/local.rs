//! The shell on a database: runs DSL commands and the commands of this program.

use super::prompt::Prompt;
use super::shows_prompt;
use super::split::split;
use crate::args::{DataCommand, Global, Shape, ShapeArgs, check_line_options};
use crate::caller::Caller;
use crate::commands::{self, Context};
use crate::control::listen::SharedRun;
use crate::failure::{Exit, Failure};
use clap::{CommandFactory, Parser};
use esker::Database;
use esker_protocol::command::USAGE;
use esker_server::LoadFiles;
use esker_server::dsl::Executor;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

const HELP: &str = "\
The DSL, on pairs of its own until `use NAME` (keys are integers or \"strings\"):
  p KEY VALUE   put              r START END   the pairs from START up to END
  g KEY         get              l \"FILE\"      load a file of 32-bit pairs
  d KEY         delete           s [LIMIT]     show counts and contents by level
  q             quit

The words of this program, on the keyspace that is in use:
  get, put, delete, scan, count, load, dump, compact, levels, stats, stalls, explain, strategy,
  advise, verify, keyspaces, changes, flush
  use [NAME]    work on another keyspace; without a name as in the beginning
  help WORD     the options of a word
  quit          leave; so does Ctrl-D
";

#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
struct WordLine {
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, clap::Subcommand)]
enum Word {
    #[command(flatten)]
    Data(DataCommand),
    /// Write what is in memory to tables
    Flush,
    /// Work on another keyspace
    Use {
        /// Its name; `put` and `load` create it [default: as in the beginning]
        name: Option<String>,
    },
    /// List the commands
    Help {
        /// A word to explain
        word: Option<String>,
    },
    /// Leave
    #[command(alias = "exit")]
    Quit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Leave,
}

struct Shell<'a> {
    database: Database,
    /// Created with the first DSL command, because it creates the keyspaces of the DSL.
    executor: Option<Executor>,
    /// The keyspace of the last `use`.
    used: Option<String>,
    /// The keyspace of words in the beginning.
    first: String,
    shape: Shape,
    caller: Caller,
    out: &'a mut dyn Write,
    exit: Exit,
}

pub(super) fn run(
    global: &Global,
    file: Option<&Path>,
    shared: SharedRun,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    // Before the database is opened: recovery is wasted if the file is missing.
    let caller = Caller::default();
    let input = file.map(|path| caller.open_input(path)).transpose()?;
    let database = commands::open(global, |options| options)?;
    let control = commands::listen(global, &database, shared);
    let shape = global.shape.or(&Shape::default());
    let mut shell = Shell::new(database.clone(), shape, caller, out);
    let result = match input {
        None if shows_prompt(file) => shell.run_session(global),
        None => shell.run_all(BufReader::new(shell.caller.open_input(Path::new("-"))?.reader)),
        Some(input) => shell.run_all(BufReader::new(input.reader)),
    };
    let exit = shell.exit;
    drop(shell);
    drop(control);
    let closed = database.close();
    result?;
    closed?;
    Ok(exit)
}

/// Runs the commands of another process on a database that is open.
pub(super) fn run_shared(
    database: &Database,
    file: Option<&Path>,
    shape: Shape,
    caller: &Caller,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let input = BufReader::new(caller.open_input(file.unwrap_or(Path::new("-")))?.reader);
    let mut shell = Shell::new(database.clone(), shape, caller.clone(), out);
    shell.run_all(input)?;
    Ok(shell.exit)
}

impl<'a> Shell<'a> {
    fn new(database: Database, shape: Shape, caller: Caller, out: &'a mut dyn Write) -> Shell<'a> {
        let first = shape.keyspace.clone();
        Shell { database, executor: None, used: None, first, shape, caller, out, exit: Exit::Done }
    }

    fn run_session(&mut self, global: &Global) -> Result<(), Failure> {
        writeln!(self.out, "esker on {}; `help` says what can be typed", global.data().display())?;
        let mut prompt = Prompt::new(names())?;
        loop {
            self.out.flush()?;
            let shown = match self.shape.keyspace.as_str() {
                "default" => "esker> ".to_owned(),
                keyspace => format!("esker {}> ", keyspace.escape_debug()),
            };
            let Some(line) = prompt.line(&shown)? else { break };
            if self.line(line.as_bytes())? == Next::Leave {
                break;
            }
        }
        // At a prompt, errors were reported at once and do not set the exit code.
        self.exit = Exit::Done;
        Ok(())
    }

    fn run_all(&mut self, mut input: impl BufRead) -> Result<(), Failure> {
        let mut line = Vec::new();
        loop {
            // A program that sends one command at a time waits for each answer.
            self.out.flush()?;
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::system("cannot read the commands", &error))? == 0 {
                return Ok(());
            }
            if self.line(&line)? == Next::Leave {
                return Ok(());
            }
        }
    }

    /// Runs one line. Only failures of the output end the shell.
    fn line(&mut self, line: &[u8]) -> Result<Next, Failure> {
        let trimmed = line.trim_ascii();
        let first = trimmed.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        // `use` is a word here, and the DSL is told.
        let is_dsl = first != b"use" && USAGE.iter().any(|(name, _)| name.as_bytes() == first);
        if first.is_empty() {
            return Ok(Next::Continue);
        }
        if is_dsl {
            return self.dsl_line(trimmed);
        }
        let words = match std::str::from_utf8(trimmed).map_err(|error| error.to_string()).and_then(split) {
            Ok(words) => words,
            Err(reason) => {
                self.refuse(&reason)?;
                return Ok(Next::Continue);
            }
        };
        match WordLine::try_parse_from(&words) {
            Ok(line) => self.word(&line),
            Err(error) => {
                self.refuse(&complaint(&words, &error))?;
                Ok(Next::Continue)
            }
        }
    }

    fn dsl_line(&mut self, line: &[u8]) -> Result<Next, Failure> {
        let executor = match &mut self.executor {
            Some(executor) => executor,
            None => self.executor.insert(Executor::new(self.database.clone(), LoadFiles::Anywhere)?),
        };
        // For each line anew: a word before it may have created or dropped the keyspace.
        if let Err(reason) = executor.use_keyspace(self.used.as_deref())
            && line != b"q"
        {
            self.refuse(&reason)?;
            return Ok(Next::Continue);
        }
        let outcome = executor.run_line(line, &mut self.out)?;
        if outcome.refused {
            self.exit = Exit::Refused;
        }
        Ok(if outcome.quit { Next::Leave } else { Next::Continue })
    }

    fn word(&mut self, line: &WordLine) -> Result<Next, Failure> {
        let result = match &line.word {
            Word::Quit => return Ok(Next::Leave),
            Word::Help { word } => {
                self.help(word.as_deref())?;
                Ok(Exit::Done)
            }
            Word::Use { name } => {
                self.shape.keyspace.clone_from(name.as_ref().unwrap_or(&self.first));
                self.used.clone_from(name);
                Ok(Exit::Done)
            }
            Word::Flush => self.database.flush().map(|()| Exit::Done).map_err(Failure::from),
            Word::Data(command) => {
                if let Err(reason) = check_line_options(command, &line.shape) {
                    self.refuse(&reason)?;
                    return Ok(Next::Continue);
                }
                let shape = line.shape.or(&self.shape);
                let only = line.shape.keyspace.clone();
                let mut context = Context {
                    database: &self.database,
                    shape,
                    only,
                    for_reading: false,
                    caller: self.caller.clone(),
                    out: &mut *self.out,
                };
                commands::run(&mut context, command)
            }
        };
        match result {
            Ok(Exit::Done) => {}
            Ok(Exit::Absent) => self.refuse("there is no such key")?,
            Ok(exit) => self.exit = exit,
            Err(failure) => self.refuse(failure.message())?,
        }
        Ok(Next::Continue)
    }

    /// Reports an error in a line among the answers, in order.
    fn refuse(&mut self, reason: &str) -> Result<(), Failure> {
        self.exit = Exit::Refused;
        writeln!(self.out, "Error: {reason}")?;
        Ok(())
    }

    fn help(&mut self, word: Option<&str>) -> Result<(), Failure> {
        let Some(word) = word else {
            self.out.write_all(HELP.as_bytes())?;
            return Ok(());
        };
        let mut command = WordLine::command();
        // Building the command adds the options of every command to a command's help.
        command.build();
        match command.find_subcommand_mut(word) {
            Some(command) => write!(self.out, "{}", command.render_long_help())?,
            None => match USAGE.iter().find(|(letter, _)| *letter == word) {
                Some((_, usage)) => writeln!(self.out, "{usage}")?,
                None => self.refuse(&format!("there is no word '{word}'"))?,
            },
        }
        Ok(())
    }
}

/// The words that can be typed.
pub(super) fn names() -> Vec<String> {
    let words = WordLine::command();
    let words = words.get_subcommands().map(|command| command.get_name().to_owned());
    let letters = USAGE.iter().map(|(name, _)| *name).filter(|name| name.len() == 1);
    words.chain(letters.map(str::to_owned)).collect()
}

/// The error of a line, in one line.
fn complaint(words: &[String], error: &clap::Error) -> String {
    let word = words.first().map(String::as_str).unwrap_or_default();
    if error.kind() == clap::error::ErrorKind::InvalidSubcommand {
        return format!("there is no word '{word}'; `help` lists all");
    }
    let rendered = error.render().to_string();
    // The reason, which may list several things, ends at an empty line.
    let reason: Vec<&str> = rendered.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let reason = reason.join(" ");
    let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
    format!("{reason}; `help {word}` says what can follow")
}
