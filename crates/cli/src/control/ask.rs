//! Asking over the control socket: a command whose output this program reads itself.

use super::frame::{self, Kind};
use super::request::Request;
use super::socket_path::SocketPath;
use crate::failure::Failure;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long the process may take for each frame of its answer.
const LIMIT: Duration = Duration::from_secs(15);

/// Most bytes of an answer, as over HTTP.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Columns that the command may assume. What is read by a program has no width.
const COLUMNS: u16 = 80;

/// What the words print in the process that has the database of `directory` open, or that listens on this
/// socket. `None` if no process listens there.
pub(crate) fn ask(directory: &Path, words: &[&str]) -> Result<Option<String>, Failure> {
    let Some(mut stream) = SocketPath::connect(directory)? else { return Ok(None) };
    let lost = |error| Failure::system("the process that has the database open left", &error);
    stream.set_read_timeout(Some(LIMIT)).map_err(lost)?;
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let request = Request { directory: "/".into(), columns: COLUMNS, shows_progress: false, arguments };
    frame::write(&mut stream, Kind::Request, &request.encode()).map_err(lost)?;
    let (mut bytes, mut output, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let kind = frame::read(&mut stream, &mut bytes).map_err(lost)?;
        match kind {
            Kind::Output => output.extend_from_slice(&bytes),
            Kind::Errors => errors.extend_from_slice(&bytes),
            Kind::WantsInput => frame::write(&mut stream, Kind::Input, &[]).map_err(lost)?,
            Kind::Exit => break,
            Kind::Request | Kind::Input => return Err(lost(io::ErrorKind::InvalidData.into())),
        }
        if output.len() + errors.len() > MAX_ANSWER_BYTES {
            let what =
                format!("the process that has the database open answers more than {MAX_ANSWER_BYTES} bytes");
            return Err(Failure::unreachable(what));
        }
    }
    match bytes.first().copied().unwrap_or_default() {
        0 => Ok(Some(String::from_utf8_lossy(&output).into_owned())),
        code => {
            let told = String::from_utf8_lossy(&errors);
            Err(Failure::told(code, told.trim_start_matches("esker: ").trim_end()))
        }
    }
}
