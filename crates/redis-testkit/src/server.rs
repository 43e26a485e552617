//! Servers as processes: `redis-server` 7.0.15 and `esker serve`, each on a free loopback port and in a
//! directory of its own, which end with the value.

#![expect(clippy::disallowed_methods, reason = "directories, logs and start of another program's process")]

use crate::client::Client;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often a process is started anew because another program took its port before it did.
const ATTEMPTS: u32 = 5;
/// How often one looks whether the server listens, every [`GLANCE`]: a minute in all.
const GLANCES: u32 = 12_000;
const GLANCE: Duration = Duration::from_millis(5);

/// A server to send commands to.
#[derive(Debug)]
pub struct Server {
    address: String,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    directory: PathBuf,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Server {
    /// Starts `redis-server` with settings as on its command line, which keeps nothing on disk unless they
    /// say so. `None`, with a message, where the machine has no `redis-server` 7.0.15.
    #[expect(clippy::print_stdout, reason = "a test says why it compares nothing")]
    pub fn redis(settings: &[&str]) -> Option<Self> {
        let Ok(output) = Command::new("redis-server").arg("--version").output() else {
            println!("skipped: redis-server is not installed");
            return None;
        };
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        if !version.contains("v=7.0.15") {
            println!("skipped: the redis-server here is not 7.0.15 but {}", version.trim());
            return None;
        }
        Some(Self::start("redis-server", |command, directory, port| {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
            command.args(["--save", ""]).arg("--dir").arg(directory).args(settings);
        }))
    }

    /// Starts the program at `binary` as `esker serve` on a new database, with more arguments.
    pub fn esker(binary: &Path, arguments: &[&str]) -> Self {
        Self::start(binary, |command, directory, port| {
            command.arg("serve").arg("--data").arg(directory.join("data"));
            command.args(["--dsl", "off", "--redis", &format!("127.0.0.1:{port}")]).args(arguments);
        })
    }

    /// A server that runs already and is ended elsewhere, at `host:port`.
    pub fn at(address: impl Into<String>) -> Self {
        Self { address: address.into(), process: None }
    }

    /// Where it listens, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// The directory of a process that was started here.
    ///
    /// # Panics
    /// If the server was started elsewhere.
    pub fn directory(&self) -> &Path {
        &self.process.as_ref().expect("the server was started here").directory
    }

    /// Whether its process, if it was started here, still runs.
    pub fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| matches!(process.child.try_wait(), Ok(None)))
    }

    /// Ends its process by SIGKILL.
    ///
    /// # Panics
    /// If the server was started elsewhere.
    pub fn kill(&mut self) {
        let child = &mut self.process.as_mut().expect("the server was started here").child;
        child.kill().and_then(|()| child.wait()).expect("a process that was started here can be killed");
    }

    /// Starts its process anew after [`kill`](Self::kill): the same arguments, directory and port.
    ///
    /// # Panics
    /// If the server was started elsewhere, or does not start again; the message has its log.
    #[must_use]
    pub fn started_again(mut self) -> Self {
        let process = self.process.as_mut().expect("the server was started here");
        process.spawn().expect("the program starts");
        self.once_it_listens().unwrap_or_else(|error| panic!("the server does not start again: {error}"))
    }

    fn start(program: impl AsRef<Path>, arguments: impl Fn(&mut Command, &Path, u16)) -> Self {
        let program = program.as_ref();
        let mut failure = String::new();
        for _ in 0..ATTEMPTS {
            let started = new_directory().and_then(|directory| {
                let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                let mut command = Command::new(program);
                arguments(&mut command, &directory, port);
                let arguments: Vec<OsString> = command.get_args().map(OsString::from).collect();
                let child = spawned(program, &arguments, &directory)?;
                let process = Process { child, directory, program: program.to_owned(), arguments };
                Ok(Self { address: format!("127.0.0.1:{port}"), process: Some(process) })
            });
            match started.and_then(Self::once_it_listens) {
                Ok(server) => return server,
                Err(error) => failure = error.to_string(),
            }
        }
        panic!("{} does not start: {failure}", program.display());
    }

    /// Waits for a connection. A process that ended, because its port was taken perhaps, is an error with
    /// its log.
    fn once_it_listens(mut self) -> io::Result<Self> {
        for _ in 0..GLANCES {
            let listens = TcpStream::connect(&self.address).is_ok();
            let log = std::fs::read_to_string(self.directory().join("log")).unwrap_or_default();
            if !self.is_alive() {
                return Err(io::Error::other(format!("it ended and wrote: {log}")));
            }
            // Another program may listen on the port while ours finds that out.
            if listens && !log.contains("in use") {
                return Ok(self);
            }
            std::thread::sleep(GLANCE);
        }
        Err(io::Error::other(format!("it does not listen on {}", self.address)))
    }
}

impl Process {
    fn spawn(&mut self) -> io::Result<()> {
        self.child = spawned(&self.program, &self.arguments, &self.directory)?;
        Ok(())
    }
}

/// A process in a directory, whose file `log` it writes anew.
fn spawned(program: &Path, arguments: &[OsString], directory: &Path) -> io::Result<Child> {
    let log = File::create(directory.join("log"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).spawn()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A directory that no other server of this test uses.
fn new_directory() -> io::Result<PathBuf> {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("esker-redis-{}-{number}", std::process::id()));
    // Left by a test that was killed, and whose process id came again.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
