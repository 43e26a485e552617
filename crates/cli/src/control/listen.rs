//! The listening side of the control socket: executes the commands of other processes.

use super::frame::{self, Kind};
use super::held::Held;
use super::request::Request;
use super::socket_path::SocketPath;
use crate::caller::{Caller, Remote};
use crate::failure::{Exit, Failure, SYSTEM_CODE};
use esker::Database;
use esker_admin::Sources;
use rustix::net::{RecvFlags, sockopt};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Commands of other processes at once. Each has a thread.
const MAX_COMMANDS: usize = 32;

/// How long a connected process may take to send its command line.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Buffer before a caller's standard output.
const OUTPUT_BYTES: usize = 64 << 10;

/// The name under which the socket gets its mode.
const NEW_SOCKET_NAME: &str = "control.sock.new";

/// Executes a command line on an open database, for another process.
pub(crate) type SharedRun = fn(&Held, &[OsString], Caller, &mut dyn Write) -> Result<Exit, Failure>;

/// The control socket of an open database. Dropping it ends the socket and the connections.
#[derive(Debug)]
pub(crate) struct ControlListener {
    directory: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    held: Held,
    run: SharedRun,
    is_stopped: AtomicBool,
    running: AtomicUsize,
    /// What is connected, to be disconnected at the end.
    streams: Mutex<Vec<(usize, UnixStream)>>,
}

impl ControlListener {
    /// Listens in the directory of an open database, whose lock this process holds.
    pub(crate) fn open(database: &Database, directory: &Path, run: SharedRun) -> io::Result<ControlListener> {
        let directory = directory.canonicalize()?;
        let listener = bind(&directory)?;
        let shared = Arc::new(Shared {
            held: Held::new(database),
            run,
            is_stopped: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            streams: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        start("esker-control", move || of_thread.accept(&listener))?;
        Ok(ControlListener { directory, shared })
    }

    /// From now on commands that observe the database tell of these sources.
    pub(crate) fn observe(&self, sources: Sources) {
        self.shared.held.observe(sources);
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        for (_, stream) in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It fails for one that is disconnected already.
            let _result = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Ok(path) = SocketPath::of(&self.directory) {
            // A connection wakes the thread that accepts.
            let _woken = UnixStream::connect(path.path());
            remove(path.path());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a socket is no file of the database")]
fn remove(path: &Path) {
    // There may be none.
    let _result = std::fs::remove_file(path);
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Binds the socket. A socket of an earlier process is replaced: this one holds the lock.
#[expect(clippy::disallowed_methods, reason = "a socket is no file of the database")]
fn bind(directory: &Path) -> io::Result<UnixListener> {
    let (new, path) = (SocketPath::named(directory, NEW_SOCKET_NAME)?, SocketPath::of(directory)?);
    remove(new.path());
    let listener = UnixListener::bind(new.path())?;
    std::fs::set_permissions(new.path(), std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(new.path(), path.path())?;
    Ok(listener)
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for (number, stream) in listener.incoming().enumerate() {
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            if self.running.fetch_add(1, Ordering::SeqCst) >= MAX_COMMANDS {
                self.running.fetch_sub(1, Ordering::SeqCst);
                let what = format!("esker: {MAX_COMMANDS} commands of other processes run already\n");
                refuse(stream, &what);
                continue;
            }
            let shared = Arc::clone(self);
            let started = start("esker-command", move || {
                shared.serve(number, stream);
                shared.running.fetch_sub(1, Ordering::SeqCst);
            });
            if started.is_err() {
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn serve(&self, number: usize, stream: UnixStream) {
        if !is_allowed(&stream) {
            return refuse(
                stream,
                "esker: only the user of the process that has the database open may ask it\n",
            );
        }
        let Ok(copy) = stream.try_clone() else { return };
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push((number, copy));
        // A caller that left gets no answer.
        let _result = self.answer(stream);
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != number);
    }

    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(REQUEST_TIME))?;
        let mut bytes = Vec::new();
        if frame::read(&mut stream, &mut bytes)? != Kind::Request {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(None)?;
        let (code, message) = match Request::decode(&bytes) {
            Ok(request) => {
                let caller = Arc::new(Connected { request, stream: Mutex::new(stream.try_clone()?) });
                let mut out = BufWriter::with_capacity(OUTPUT_BYTES, CallersOutput(Arc::clone(&caller)));
                let arguments = &Arc::clone(&caller).request.arguments;
                let result = (self.run)(&self.held, arguments, Caller::remote(caller), &mut out);
                let result = result.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::from));
                // What could not be written has been told, or its reader is gone.
                let _unwritten = out.into_parts();
                match result {
                    Ok(exit) => (exit.code(), Vec::new()),
                    Err(failure) => failure.message_and_code(),
                }
            }
            Err(reason) => {
                Failure::usage(reason).advise("use the command of the same version").message_and_code()
            }
        };
        if !message.is_empty() {
            frame::write(&mut stream, Kind::Errors, &message)?;
        }
        frame::write(&mut stream, Kind::Exit, &[code])
    }
}

fn refuse(mut stream: UnixStream, message: &str) {
    // The process may be gone already.
    let _result = frame::write(&mut stream, Kind::Errors, message.as_bytes())
        .and_then(|()| frame::write(&mut stream, Kind::Exit, &[SYSTEM_CODE]));
}

/// Whether the peer runs as this process's user, or as root.
fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// A connected caller.
#[derive(Debug)]
struct Connected {
    request: Request,
    stream: Mutex<UnixStream>,
}

impl Connected {
    fn write(&self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        frame::write(&mut *self.stream.lock().unwrap_or_else(PoisonError::into_inner), kind, bytes)
    }
}

impl Remote for Connected {
    fn directory(&self) -> &Path {
        &self.request.directory
    }

    fn progress_columns(&self) -> Option<u16> {
        self.request.shows_progress.then_some(self.request.columns)
    }

    fn input(&self) -> io::Result<Vec<u8>> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *stream, Kind::WantsInput, &[])?;
        let mut bytes = Vec::new();
        match frame::read(&mut *stream, &mut bytes)? {
            Kind::Input => Ok(bytes),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn output(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(Kind::Output, bytes)
    }

    fn errors(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(Kind::Errors, bytes)
    }

    /// A caller that wants the command to end closes its side. One that waits for output sends nothing.
    fn is_gone(&self) -> bool {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&*stream, &mut [0_u8; 1], flags) {
            Ok((_, received)) => received == 0,
            Err(error) => error != rustix::io::Errno::AGAIN && error != rustix::io::Errno::INTR,
        }
    }
}

/// Standard output of a caller.
struct CallersOutput(Arc<Connected>);

impl Write for CallersOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.output(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
