//! Requests of the control socket: a command line and the terminal at which it was typed.
//!
//! The fields are separated by zero bytes, which no argument of a process contains.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The version of the command line. A process of another version may understand the same words otherwise.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A command line and its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The working directory, for relative paths.
    pub(super) directory: PathBuf,
    /// Columns of the terminal.
    pub(super) columns: u16,
    /// Whether standard error is a terminal, so that progress is shown.
    pub(super) shows_progress: bool,
    /// The words, beginning with the program's name.
    pub(super) arguments: Vec<OsString>,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let columns = self.columns.to_string();
        let shows_progress = if self.shows_progress { "1" } else { "0" };
        let head: [&[u8]; 4] = [
            VERSION.as_bytes(),
            self.directory.as_os_str().as_bytes(),
            columns.as_bytes(),
            shows_progress.as_bytes(),
        ];
        let fields: Vec<&[u8]> =
            head.into_iter().chain(self.arguments.iter().map(|argument| argument.as_bytes())).collect();
        fields.join(&0)
    }

    /// # Errors
    /// A sentence about what is wrong with the request.
    pub(super) fn decode(bytes: &[u8]) -> Result<Request, String> {
        let mut fields = bytes.split(|byte| *byte == 0);
        let mut field = || fields.next().ok_or("the request ends too early".to_owned());
        let version = String::from_utf8_lossy(field()?).into_owned();
        if version != VERSION {
            return Err(format!(
                "this is esker {version}, and the process that has the database open is esker {VERSION}"
            ));
        }
        let directory = PathBuf::from(OsStr::from_bytes(field()?));
        let columns = std::str::from_utf8(field()?).ok().and_then(|text| text.parse().ok());
        let columns = columns.ok_or("the width of the terminal is no number")?;
        let shows_progress = field()? == b"1";
        let arguments = fields.map(|bytes| OsString::from_vec(bytes.to_vec())).collect();
        Ok(Request { directory, columns, shows_progress, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
        let request = Request {
            directory: "/somewhere else".into(),
            columns: 80,
            shows_progress: true,
            arguments: vec!["esker".into(), "".into(), OsString::from_vec(vec![0xff, b'\n'])],
        };
        assert_eq!(Request::decode(&request.encode()).unwrap(), request);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let version = |rest: &str| format!("{VERSION}\0{rest}").into_bytes();
        for bytes in
            [Vec::new(), b"0.0.0-other\0/\x0080\x001\0esker".to_vec(), version("/"), version("/\0x\x001")]
        {
            assert!(Request::decode(&bytes).is_err(), "{bytes:?}");
        }
    }
}
