//! Runs the program in a temporary directory.

pub(crate) mod serving;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// The working directory of the program, removed when dropped.
pub(crate) struct WorkingDir(PathBuf);

/// Result of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl WorkingDir {
    pub(crate) fn new() -> WorkingDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("esker-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        WorkingDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }

    /// The program with these arguments, not started yet.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        if opens_a_database(arguments) {
            // Budgets are small, because many tests run at once.
            command.args(["--memory", "32MiB"]);
        }
        command.args(arguments.split_whitespace()).current_dir(&self.0);
        command.env_remove("SERVER_PORT").env("HOME", &self.0);
        command
    }

    /// Runs the program to its end with this standard input.
    pub(crate) fn run_with(&self, arguments: &str, input: impl AsRef<[u8]> + Send) -> RunResult {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program may close its input before its end.
                let _written = stdin.write_all(input.as_ref());
            });
            child.wait_with_output().unwrap()
        });
        RunResult::of(output)
    }

    pub(crate) fn run(&self, arguments: &str) -> RunResult {
        self.run_with(arguments, "")
    }

    /// Runs the program, which must succeed, and gives what it printed.
    pub(crate) fn ok(&self, arguments: &str) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments}: {ran:?}");
        ran.text()
    }
}

/// Whether the command opens a database, whose memory can be bounded.
fn opens_a_database(arguments: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "backup list",
        "backup prune",
        "backup verify",
        "build-table",
        "completions",
        "experiment",
        "generate",
        "inspect",
        "man",
        "repair",
        "restore",
        "simulate",
        "verify",
    ];
    let has = |option: &str| arguments.split_whitespace().any(|word| word == option);
    !(OTHERS.iter().any(|other| arguments.starts_with(other)) || has("--connect") || has("--check"))
}

impl Drop for WorkingDir {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

impl RunResult {
    fn of(output: Output) -> RunResult {
        RunResult {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }
}

/// A server, and its address.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Served {
    /// Starts `esker serve` on a port of the system's choice, and waits until it listens.
    pub(crate) fn start(dir: &WorkingDir, arguments: &str) -> Served {
        let mut command = dir.command(&format!("serve --redis off --dsl 127.0.0.1:0 {arguments}"));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        Served::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Served {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        let out = child.stdout.as_mut().unwrap();
        while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        let address = line.rsplit(' ').next().unwrap().to_owned();
        assert!(line.starts_with("serving "), "{line}");
        Served { child, address }
    }

    /// Sends a signal, waits for the end, and gives the exit code.
    pub(crate) fn end(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().code()
    }
}
