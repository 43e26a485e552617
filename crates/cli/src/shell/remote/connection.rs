//! The connection to a server.

use crate::failure::Failure;
use crate::host;
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Pause between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What the server sends.
pub(super) type Answers = BufReader<TcpStream>;

/// A connection that can be made again.
#[derive(Debug)]
pub(super) struct Connection {
    address: String,
    stream: TcpStream,
}

impl Connection {
    /// Connects; tries again for `wait`, for a server that is about to start.
    pub(super) fn open(address: &str, wait: Duration) -> Result<Connection, Failure> {
        let mut waited = Duration::ZERO;
        loop {
            match connect(address) {
                Ok(stream) => return Ok(Connection { address: address.to_owned(), stream }),
                Err(_) if waited < wait => {
                    host::pause(RETRY_PAUSE);
                    waited += RETRY_PAUSE;
                }
                Err(error) => {
                    return Err(cannot_talk(address, &error)
                        .advise("is a server running there? `esker serve` starts one on 127.0.0.1:8080"));
                }
            }
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// A reader of the answers.
    pub(super) fn answers(&self) -> Result<Answers, Failure> {
        reader_of(&self.stream).map_err(|error| cannot_talk(&self.address, &error))
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Replaces a connection that was lost; returns the reader of its answers.
    pub(super) fn connect_again(&mut self) -> io::Result<Answers> {
        self.stream = connect(&self.address)?;
        reader_of(&self.stream)
    }

    pub(super) fn send(&mut self, line: &str) -> io::Result<()> {
        self.stream.write_all(format!("{line}\n").as_bytes())
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn reader_of(stream: &TcpStream) -> io::Result<Answers> {
    Ok(BufReader::with_capacity(64 << 10, stream.try_clone()?))
}

fn cannot_talk(address: &str, error: &io::Error) -> Failure {
    Failure::system(format_args!("cannot talk to {address}"), error)
}
