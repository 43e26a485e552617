//! `serve`: runs the text protocol server on a database until a signal.

use super::watch::Watch;
use crate::args::{Global, ServeArgs};
use crate::failure::{Exit, Failure};
use crate::host;
use esker::Database;
use esker_server::config::DEFAULT_PORT;
use esker_server::{Config, LoadDirectory, LoadFiles, serve_until_signalled};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Shortest interval: a sample takes some microseconds per keyspace, and more lines cannot be read.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn run(global: &Global, args: &ServeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let load_files = match &args.load_dir {
        None => LoadFiles::None,
        Some(directory) => {
            let opened = LoadDirectory::new(directory);
            let what = || format!("--load-dir {}", directory.display());
            LoadFiles::Within(opened.map_err(|error| Failure::usage(format!("{}: {error}", what())))?)
        }
    };
    if args.max_clients == 0 {
        return Err(Failure::usage("--max-clients is 0, at least 1 is needed"));
    }
    let max_line_bytes = usize::try_from(args.max_line).ok().filter(|bytes| (16..=1 << 30).contains(bytes));
    let max_line_bytes =
        max_line_bytes.ok_or_else(|| Failure::usage("--max-line must be from 16 bytes to 1 GiB"))?;
    let address = address(args)?;
    let config = Config {
        address,
        load_files,
        max_clients: args.max_clients,
        max_line_bytes,
        unsent_bytes: usize::try_from(args.max_unsent).unwrap_or(usize::MAX),
        ..Config::default()
    };
    let database = super::open(global, |options| options)?;
    let data = global.data().display();
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        if let Some(interval) = args.watch {
            let database = &database;
            scope.spawn(move || watch(database, interval.max(SHORTEST_INTERVAL), &ended));
        }
        let served = serve_until_signalled(config, &database, |address| {
            // A supervising process may wait for this line; a missing standard output is no error.
            let _result = writeln!(out, "serving {data} on {address}").and_then(|()| out.flush());
        });
        drop(end);
        served
    })?;
    Ok(Exit::Done)
}

/// Prints figures for each interval until the other end of the channel is dropped.
fn watch(database: &Database, interval: Duration, ended: &Receiver<()>) {
    let mut watch = Watch::new(None, &database.metrics());
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let lines = watch.lines(&database.metrics(), interval);
        // A missing standard error is no failure.
        let _result = write!(host::stderr(), "{lines}");
    }
}

fn address(args: &ServeArgs) -> Result<SocketAddr, Failure> {
    if let Some(written) = &args.dsl {
        let resolved = written.to_socket_addrs().map(|mut addresses| addresses.next());
        return match resolved {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(Failure::usage(format!("--dsl {written}: no address"))),
            Err(error) => Err(Failure::usage(format!("--dsl {written}: {error}")))
                .map_err(|failure: Failure| failure.advise("write HOST:PORT, such as 127.0.0.1:8080")),
        };
    }
    let port = match host::variable("SERVER_PORT")? {
        None => DEFAULT_PORT,
        Some(port) => port
            .trim()
            .parse()
            .map_err(|_| Failure::usage(format!("SERVER_PORT is '{port}', it must be a port number")))?,
    };
    Ok((Ipv4Addr::LOCALHOST, port).into())
}
