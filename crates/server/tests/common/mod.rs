//! A server on a free port, in a directory of its own, and clients for it.

use esker::Database;
use esker_server::{Config, ServeError, serve};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// A directory that is removed on drop.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("esker-server-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Running {
    /// Serves the database in `dir` with the given configuration, on a free port.
    pub(crate) fn start(dir: &Path, config: Config) -> Running {
        Running::serve(Database::open(dir).unwrap(), config)
    }

    pub(crate) fn serve(database: Database, config: Config) -> Running {
        let config = Config { address: ([127, 0, 0, 1], 0).into(), ..config };
        let (stop, stopped) = oneshot::channel();
        let (ready, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ready = |address| ready.send(address).unwrap();
            serve(config, &database, ready, async { stopped.await.unwrap_or(()) })
        });
        let address = address.recv_timeout(Duration::from_secs(20)).unwrap();
        Running { address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn request_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) fn stop(mut self) {
        self.request_stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

pub(crate) struct Client {
    pub(crate) reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// The next line without its end; `None` when the server closed the connection.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).unwrap();
        if line.is_empty() {
            return None;
        }
        assert_eq!(line.pop(), Some(b'\n'), "an answer broke off: {}", line.escape_ascii());
        Some(String::from_utf8(line).unwrap())
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\n").as_bytes());
        self.line().expect("the server closed the connection")
    }

    /// Sends a command whose answer ends with an empty line.
    pub(crate) fn ask_lines(&mut self, command: &str) -> Vec<String> {
        self.send(format!("{command}\n").as_bytes());
        std::iter::from_fn(|| self.line().filter(|line| !line.is_empty())).collect()
    }
}
