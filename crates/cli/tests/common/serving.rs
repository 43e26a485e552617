//! `esker serve` as a process: what it printed when it was ready, its addresses, signals, and its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server and what it printed.
pub(crate) struct Serving {
    pub(crate) child: Child,
    printed: BufReader<ChildStdout>,
    /// The lines read so far.
    pub(crate) lines: Vec<String>,
}

impl Serving {
    /// Starts it and reads as many lines as it prints when it is ready. Standard error is the command's to
    /// choose.
    pub(crate) fn start(mut command: Command, lines: usize) -> Serving {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        let mut serving = Serving { child, printed, lines: Vec::new() };
        (0..lines).for_each(|_| serving.next_line("it is ready"));
        serving
    }

    fn next_line(&mut self, awaited: &str) {
        let mut line = String::new();
        let count = self.printed.read_line(&mut line).unwrap();
        assert!(count > 0, "it ended before '{awaited}': {:?}", self.lines);
        self.lines.push(line.trim_end().to_owned());
    }

    /// The first line that contains these words, read if it was not yet.
    pub(crate) fn line(&mut self, words: &str) -> String {
        loop {
            if let Some(line) = self.lines.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            self.next_line(words);
        }
    }

    /// HOST:PORT at the end of that line.
    pub(crate) fn address(&mut self, words: &str) -> String {
        let line = self.line(words);
        let address = line.rsplit(' ').next().unwrap().trim_end_matches('/');
        address.trim_start_matches("https://").trim_start_matches("http://").to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it by SIGTERM.
    pub(crate) fn end(mut self) -> Ended {
        self.signal("-TERM");
        let (mut printed, mut errors) = (String::new(), String::new());
        self.printed.read_to_string(&mut printed).unwrap();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut errors).unwrap();
        }
        Ended { code: self.child.wait().unwrap().code(), printed, errors }
    }
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// What it printed behind the lines that were read.
    pub(crate) printed: String,
    /// Standard error, where the command pipes it.
    pub(crate) errors: String,
}
