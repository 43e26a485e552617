//! The calling side of the control socket: sends the command line, and lends input, output and terminal.

use super::frame::{self, Kind};
use super::request::Request;
use super::socket_path::SocketPath;
use crate::failure::Failure;
use crate::host;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

/// Bytes of standard input that are sent at once.
const INPUT_BYTES: usize = 256 << 10;

/// Lets the process that has the database of `directory` open execute this program's command line, and
/// returns the command's exit code. `None` if no process listens there.
pub(crate) fn forward(
    directory: &Path,
    typed: &mut dyn Read,
    out: &mut dyn Write,
) -> Result<Option<ExitCode>, Failure> {
    let Ok(path) = SocketPath::of(directory) else { return Ok(None) };
    let Ok(mut stream) = UnixStream::connect(path.path()) else { return Ok(None) };
    let lost = |error| Failure::system("the process that has the database open left", &error);
    let request = Request {
        directory: host::working_directory()?,
        columns: u16::try_from(host::output_width()).unwrap_or(u16::MAX),
        shows_progress: host::stderr_is_terminal(),
        arguments: host::arguments(),
    };
    frame::write(&mut stream, Kind::Request, &request.encode()).map_err(lost)?;
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
                let count = read_some(typed, &mut input)?;
                frame::write(&mut stream, Kind::Input, &input[..count]).map_err(lost)?;
            }
            Kind::Exit => {
                let code = bytes.first().copied().unwrap_or_default();
                return Ok(Some(ExitCode::from(code)));
            }
            Kind::Request | Kind::Input => return Err(lost(io::ErrorKind::InvalidData.into())),
        }
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
