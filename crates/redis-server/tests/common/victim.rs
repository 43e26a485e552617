//! A server in a process of its own, whose memory can be looked at.

#![allow(dead_code, clippy::disallowed_methods, reason = "a process of the tests' own, and its clock")]

use esker_redis_server::server::Server;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_store::Store;
use esker_redis_testkit::{Client, encode};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DIRECTORY: &str = "ESKER_REDIS_VICTIM_DIRECTORY";
const DIRECTIVES: &str = "ESKER_REDIS_VICTIM_DIRECTIVES";

/// How long the threads of the server may run while a client beside an attack waits for a reply. What other
/// programs do in that time does not count; a client gives up after a minute.
const LONGEST_REPLY_CPU_MS: u64 = 10_000;

/// Serves if this process is a child of [`Victim::start`]: a test of every file calls it.
pub(crate) fn serve_if_asked() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let database = esker::Database::open(directory).expect("a new database opens");
    let server = Server::new(Store::open(database, 16).expect("a new store opens"));
    let directives = std::env::var(DIRECTIVES).unwrap_or_default();
    for pair in directives.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').expect("NAME=VALUE");
        server.set_directive(name.as_bytes(), value.as_bytes()).expect("a directive");
    }
    let any = || vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let has_tls = directives.contains("tls-cert-file=");
    let tls = if has_tls { any() } else { Vec::new() };
    if has_tls {
        server.load_tls().expect("right files");
    }
    let config = ListenConfig { tcp: any(), tls, ..ListenConfig::default() };
    let listener = Listener::bind(config).expect("a free port");
    let address = listener.addresses().expect("bound")[0];
    let tls = listener.tls_addresses().expect("bound").first().map(ToString::to_string).unwrap_or_default();
    let mut out = std::io::stdout();
    writeln!(out, "\nlistens on {address} {tls}").and_then(|()| out.flush()).expect("the test reads");
    listener.serve(&server).expect("it serves until it is killed");
}

/// The time that the threads of a process of `/proc` have run, or one thread of it.
pub(crate) fn cpu_ms_of(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    // Of the user and of the system, in hundredths of a second.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number") * 10).sum()
}

/// A child process that serves.
pub(crate) struct Victim {
    child: Child,
    /// Held open: the process would end when it prints into a closed pipe.
    _output: BufReader<ChildStdout>,
    directory: PathBuf,
    address: String,
    /// Where it listens with TLS; empty without.
    tls_address: String,
}

impl Victim {
    /// Starts a server with directives. The test `serves_when_it_is_asked_to` of the same file calls
    /// [`serve_if_asked`].
    pub(crate) fn start(name: &str, directives: &str) -> Self {
        Self::started_by(Command::new(std::env::current_exe().expect("this program")), name, directives)
    }

    /// The same with so many descriptors for the process.
    pub(crate) fn with_files(name: &str, directives: &str, files: u32) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().expect("this program"));
        Self::started_by(command, name, directives)
    }

    fn started_by(mut command: Command, name: &str, directives: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("esker-redis-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        let mut child = command
            .args(["serves_when_it_is_asked_to", "--exact", "--nocapture"])
            .env(DIRECTORY, &directory)
            .env(DIRECTIVES, directives)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let address = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listens on ").map(str::to_owned));
        let addresses = address.expect("it listens");
        let (address, tls_address) = addresses.split_once(' ').expect("both");
        let (address, tls_address) = (address.to_owned(), tls_address.to_owned());
        Self { child, _output: output, directory, address, tls_address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn tls_address(&self) -> &str {
        &self.tls_address
    }

    /// The time that its threads have run.
    pub(crate) fn cpu_ms(&self) -> u64 {
        cpu_ms_of(&self.child.id().to_string())
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Memory of the process, in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    }

    /// Attacks while another client asks all the time. Panics if the server ended, took over `most_mib` more
    /// memory at the attack's end, or left the other client or a new one without a reply for long.
    pub(crate) fn survives(&mut self, what: &str, most_mib: u64, attack: impl FnOnce(&str)) {
        let before = self.resident_mib();
        let (victim, ended) = (&*self, AtomicBool::new(false));
        let longest_ms = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut other = victim.client();
                let mut longest_ms = 0;
                while !ended.load(Ordering::Relaxed) {
                    let asked_ms = victim.cpu_ms();
                    let reply = other.call(&[b"PING"]);
                    assert!(
                        reply.error().is_none_or(|text| text.starts_with(b"NOAUTH")),
                        "{what}: {reply:?}"
                    );
                    longest_ms = longest_ms.max(victim.cpu_ms().saturating_sub(asked_ms));
                    std::thread::sleep(Duration::from_millis(1));
                }
                longest_ms
            });
            let end = EndOnDrop(&ended);
            attack(&victim.address);
            drop(end);
            other.join().unwrap_or_else(|_| panic!("{what}: the other client lost its server"))
        });
        let after = self.resident_mib();
        let is_soon = longest_ms < LONGEST_REPLY_CPU_MS;
        assert!(is_soon, "{what}: another client waited while the server ran for {longest_ms} ms");
        assert!(after <= before + most_mib, "{what}: memory grew from {before} MiB to {after} MiB");
        assert!(matches!(self.child.try_wait(), Ok(None)), "{what}: the server ended");
        let mut new = self.client();
        new.send(&encode(&[b"PING"]));
        new.read();
    }
}

struct EndOnDrop<'e>(&'e AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}
