//! The prompt: line editing, history, and completion of command names.

use crate::failure::Failure;
use crate::host;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use std::path::PathBuf;

pub(super) struct Prompt {
    editor: Editor<Names, DefaultHistory>,
    history: Option<PathBuf>,
}

/// Completes the first word of a line, and the word after `help`.
struct Names(Vec<String>);

impl Prompt {
    pub(super) fn new(names: Vec<String>) -> Result<Prompt, Failure> {
        let mut editor = Editor::new().map_err(terminal_failure)?;
        editor.set_helper(Some(Names(names)));
        let history = host::history_file();
        if let Some(path) = &history {
            // There is no history file the first time; the shell starts without it.
            let _loaded = editor.load_history(path);
        }
        Ok(Prompt { editor, history })
    }

    /// The next line; `None` at the end of input (Ctrl-D). Ctrl-C drops the line.
    pub(super) fn line(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    if !line.trim().is_empty() {
                        // A line that cannot be added to the history is still run.
                        let _remembered = self.editor.add_history_entry(&line);
                    }
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(terminal_failure(error)),
            }
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(path) = &self.history {
            // A failure to save the history is ignored: the home directory may be read-only.
            let _saved = self.editor.save_history(path);
        }
    }
}

fn terminal_failure(error: ReadlineError) -> Failure {
    Failure::system("the terminal failed", &std::io::Error::other(error))
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let start = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let before = typed.get(..start).unwrap_or_default().trim();
        if !before.is_empty() && before != "help" {
            return Ok((position, Vec::new()));
        }
        let word = typed.get(start..).unwrap_or_default();
        let matching = self.0.iter().filter(|name| name.starts_with(word));
        Ok((start, matching.map(|name| format!("{name} ")).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Validator for Names {}

impl Helper for Names {}
