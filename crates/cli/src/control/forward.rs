//! The calling side of the control socket: sends the command line, and lends input, output and terminal.

use super::frame::{self, Kind};
use super::request::Request;
use super::socket_path::SocketPath;
use crate::failure::{Failure, INTERRUPTED_CODE};
use crate::host;
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of standard input that are sent at once.
const INPUT_BYTES: usize = 256 << 10;

/// Lets the process that has the database of `directory` open, or that listens on this socket, execute this
/// program's command line, and returns the command's exit code. `None` if no process listens there.
pub(crate) fn forward(
    directory: &Path,
    typed: &mut dyn Read,
    out: &mut dyn Write,
) -> Result<Option<ExitCode>, Failure> {
    let Some(mut stream) = SocketPath::connect(directory)? else { return Ok(None) };
    let lost = |error| Failure::system("the process that has the database open left", &error);
    let request = Request {
        directory: host::working_directory()?,
        columns: u16::try_from(host::output_width()).unwrap_or(u16::MAX),
        shows_progress: host::stderr_is_terminal(),
        arguments: host::arguments(),
    };
    frame::write(&mut stream, Kind::Request, &request.encode()).map_err(lost)?;
    let stopping = EndAtSignal::listen(&stream)?;
    let (mut bytes, mut input) = (Vec::new(), vec![0; INPUT_BYTES]);
    loop {
        match frame::read(&mut stream, &mut bytes).map_err(lost)? {
            Kind::Output => {
                out.write_all(&bytes)?;
                out.flush()?;
            }
            // A missing standard error is no failure.
            Kind::Errors => drop(host::stderr().write_all(&bytes)),
            Kind::WantsInput => {
                // Output that was asked for with the input is shown first.
                out.flush()?;
                stopping.is_reading.store(true, Ordering::SeqCst);
                let count = read_some(typed, &mut input)?;
                stopping.is_reading.store(false, Ordering::SeqCst);
                // It fails after a signal, too, and then the answer is still to come.
                let _result = frame::write(&mut stream, Kind::Input, &input[..count]);
            }
            Kind::Exit => {
                let code = bytes.first().copied().unwrap_or_default();
                return Ok(Some(ExitCode::from(code)));
            }
            Kind::Request | Kind::Input => return Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }
}

/// Tells the process with the database at the first signal that the command should end; its answer says what
/// was done. The second signal ends this process.
struct EndAtSignal {
    handle: Handle,
    /// The command waits for input that is read here: the first signal ends this process.
    is_reading: Arc<AtomicBool>,
}

impl EndAtSignal {
    fn listen(stream: &UnixStream) -> Result<EndAtSignal, Failure> {
        let failed = |error| Failure::system("cannot listen to signals", &error);
        let stream = stream.try_clone().map_err(failed)?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let (handle, is_reading) = (signals.handle(), Arc::new(AtomicBool::new(false)));
        let reads = Arc::clone(&is_reading);
        let waiting = std::thread::Builder::new().name("esker-signals".to_owned());
        let started = waiting.spawn(move || {
            for (number, _) in signals.forever().enumerate() {
                if number > 0 || reads.load(Ordering::SeqCst) {
                    std::process::exit(INTERRUPTED_CODE.into());
                }
                // It fails if the process left; then the command ends anyway.
                let _result = stream.shutdown(Shutdown::Write);
            }
        });
        started.map_err(failed)?;
        Ok(EndAtSignal { handle, is_reading })
    }
}

impl Drop for EndAtSignal {
    fn drop(&mut self) {
        self.handle.close();
    }
}

fn read_some(typed: &mut dyn Read, into: &mut [u8]) -> Result<usize, Failure> {
    loop {
        match typed.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map_err(|error| Failure::system("cannot read standard input", &error)),
        }
    }
}
