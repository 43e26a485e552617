//! One client connection: lines in, answers out, in order.

use crate::config::Config;
use crate::dsl::{Begun, Executor, LongAnswer, PIECE_BYTES, Progress};
use crate::line_memory::{FREE_BYTES, LineMemory, Place};
use crate::unsent_answers::UnsentAnswers;
use esker_protocol::{Line, LineBuffer, answer, is_blank, is_http, parse_line};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

/// Most pieces of long answers that run at the same time, writing and reading ones each.
pub const BLOCKING_PIECES: usize = 32;

/// Bytes read from the socket at once.
const READ_BYTES: usize = 16 << 10;

/// How long a connection that is being closed is still read, so that the client receives the last answer:
/// closing with unread input makes the system discard output on its way.
const LINGER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) executor: Executor,
    pub(crate) config: Config,
    line_memory: LineMemory,
    unsent_answers: Arc<UnsentAnswers>,
    reads: Semaphore,
    writes: Semaphore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

impl Shared {
    pub(crate) fn new(executor: Executor, config: Config) -> Shared {
        let permits = || Semaphore::new(BLOCKING_PIECES);
        let line_memory = LineMemory::new(config.long_lines_bytes, config.max_line_bytes);
        let unsent_answers = UnsentAnswers::new(config.limits.clone());
        Shared { executor, config, line_memory, unsent_answers, reads: permits(), writes: permits() }
    }
}

/// Serves one client until it leaves, its connection breaks, or `stop` becomes true.
pub(crate) async fn talk(stream: TcpStream, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let peer = stream.peer_addr();
    let executor = shared.executor.clone();
    let mut connection = Connection { stream, shared, executor, out: Vec::new() };
    match connection.talk(&mut stop).await {
        Ok(()) => drain_and_close(connection.stream).await,
        Err(error) => tracing::debug!(?peer, %error, "a connection broke"),
    }
}

/// Reports that there are too many clients, and closes.
pub(crate) async fn refuse(mut stream: TcpStream) {
    let mut out = Vec::new();
    answer::error("too many clients", &mut out);
    if stream.write_all(&out).await.is_ok() {
        drain_and_close(stream).await;
    }
}

async fn drain_and_close(mut stream: TcpStream) {
    let silence = async {
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // Whatever the client does meanwhile, the connection ends.
    let _over = tokio::time::timeout(LINGER, silence).await;
}

struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
    /// Its own, because it remembers which keyspace is in use.
    executor: Executor,
    out: Vec<u8>,
}

impl Connection {
    async fn talk(&mut self, stop: &mut watch::Receiver<bool>) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut lines = LineBuffer::new(self.shared.config.max_line_bytes);
        // Of the line that has begun and not ended yet.
        let (mut begun, mut place) = (None, None);
        loop {
            lines.free_if_empty();
            let patience = self.patience(begun);
            let read = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                read = tokio::time::timeout(patience, self.read(&mut lines, &mut place)) => read,
            };
            let Ok(read) = read else { return self.give_up(begun.is_some()).await };
            if read? == 0 {
                if !is_blank(lines.rest()) {
                    // It may be half a command: `p 1 10` of `p 1 100` is a different one.
                    answer::error("the last line has no end and was not executed", &mut self.out);
                }
                return self.flush().await;
            }
            if self.answer_lines(&mut lines).await? == Next::Close {
                return Ok(());
            }
            if lines.rest().is_empty() {
                (begun, place) = (None, None);
            } else {
                // Of a line that began before, or of the last of those that came now.
                begun = begun.or_else(|| Some(Instant::now()));
            }
        }
    }

    /// How long to wait for more of a line that began at this time, or for a new one.
    fn patience(&self, begun: Option<Instant>) -> Duration {
        let config = &self.shared.config;
        begun.map_or(config.idle_timeout, |begun| config.line_timeout.saturating_sub(begun.elapsed()))
    }

    /// Reads more bytes; 0 at the end. Takes a place first for a line that is long already, and a buffer only
    /// when there is something to read.
    async fn read(&self, lines: &mut LineBuffer, place: &mut Option<Place>) -> io::Result<usize> {
        if lines.rest().len() >= FREE_BYTES && place.is_none() {
            *place = self.shared.line_memory.place().await;
        }
        loop {
            self.stream.readable().await?;
            // A client that has always sent more must not keep a worker thread from the others (V4).
            consume_budget().await;
            match self.stream.try_read_buf(lines.input(READ_BYTES)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    /// Ends the connection of a client that sent nothing for too long.
    async fn give_up(&mut self, is_in_line: bool) -> io::Result<()> {
        let config = &self.shared.config;
        let (what, limit) = match is_in_line {
            true => ("a line did not end within", config.line_timeout),
            false => ("nothing was sent for", config.idle_timeout),
        };
        answer::error(format_args!("{what} {} s; the connection is closed", limit.as_secs()), &mut self.out);
        self.flush().await
    }

    async fn answer_lines(&mut self, lines: &mut LineBuffer) -> io::Result<Next> {
        while let Some(line) = lines.next_line() {
            let begun = match line {
                Line::TooLong => {
                    let limit = self.shared.config.max_line_bytes;
                    answer::error(format_args!("the line is longer than {limit} bytes"), &mut self.out);
                    Begun::Answered
                }
                Line::Complete(line) if is_blank(line) => Begun::Answered,
                Line::Complete(line) if is_http(line) => {
                    answer::error("this is not an HTTP server; the connection is closed", &mut self.out);
                    Begun::Quit
                }
                Line::Complete(line) => match parse_line(line) {
                    Ok(command) => self.executor.begin(command, &mut self.out),
                    Err(error) => {
                        answer::error(error, &mut self.out);
                        Begun::Answered
                    }
                },
            };
            match begun {
                Begun::Answered if self.out.len() < PIECE_BYTES => {}
                Begun::Answered => self.flush().await?,
                Begun::Long(long) => self.finish(long).await?,
                Begun::Quit => {
                    self.flush().await?;
                    return Ok(Next::Close);
                }
            }
        }
        self.flush().await?;
        Ok(Next::Continue)
    }

    /// Drives a long answer to its end.
    async fn finish(&mut self, mut long: LongAnswer) -> io::Result<()> {
        loop {
            let progress = {
                let permits = if long.is_write() { &self.shared.writes } else { &self.shared.reads };
                let _permit = permits.acquire().await.map_err(io::Error::other)?;
                tokio::task::block_in_place(|| long.advance(&mut self.out))
            };
            match progress {
                Progress::More => {
                    if self.out.len() >= PIECE_BYTES {
                        self.flush().await?;
                    }
                }
                Progress::Finished => return Ok(()),
                Progress::Broken(error) => {
                    tracing::warn!(%error, "an answer broke off");
                    return Err(io::Error::other(error));
                }
            }
            // Lets other clients run, and lets a server that stops end this one.
            tokio::task::yield_now().await;
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.out.as_slice();
        while !rest.is_empty() {
            match self.stream.try_write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    consume_budget().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait_for_reader().await?,
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        // One large value must not keep its memory for the life of the connection.
        self.out.shrink_to(2 * PIECE_BYTES);
        Ok(())
    }

    /// Waits until the client takes more of the answer.
    async fn wait_for_reader(&self) -> io::Result<()> {
        let limit = self.shared.config.write_timeout;
        let mut wait = self.shared.unsent_answers.wait(self.out.capacity());
        tokio::select! {
            biased;
            writable = tokio::time::timeout(limit, self.stream.writable()) => {
                writable.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            }
            () = wait.ended() => {
                let budget_bytes = self.shared.config.limits.unsent_bytes();
                tracing::warn!(budget_bytes, "a client that took no output was disconnected, so that others fit");
                Err(io::Error::other("answers that clients do not take would exceed their memory"))
            }
        }
    }
}
