//! Where the figures come from: a server over HTTP, a process over its control socket, or this process.

use super::snapshot::Snapshot;
use crate::control::ask::ask;
use crate::failure::Failure;
use crate::http_client::HttpClient;
use esker_admin::Observer;
use std::path::PathBuf;

/// The report that has all figures.
const STATUS: &str = "/api/v1/status";

/// What tells the figures.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Http(HttpClient),
    /// The directory of a database, or a socket.
    Control(PathBuf),
    /// A database that this process has open, in this directory.
    Own(Observer, PathBuf),
}

impl Source {
    /// What stands in the title.
    pub(super) fn place(&self) -> String {
        match self {
            Source::Http(client) => client.address().to_owned(),
            Source::Control(path) => path.display().to_string(),
            Source::Own(_, path) => format!("{} (opened by this command)", path.display()),
        }
    }

    /// The figures of this moment as JSON.
    pub(super) fn status(&self) -> Result<String, Failure> {
        match self {
            Source::Http(client) => client.get(STATUS),
            Source::Control(path) => ask(path, &["esker", "top", "--json"])?.ok_or_else(|| {
                let what = format!("no process listens on the control socket of {}", path.display());
                Failure::unreachable(what).advise("ask a server over HTTP: --connect HOST:PORT")
            }),
            Source::Own(observer, _) => Ok(format!("{}\n", observer.status())),
        }
    }

    /// The figures of this moment.
    pub(super) fn fetch(&self) -> Result<Snapshot, Failure> {
        Snapshot::read(&self.status()?)
            .ok_or_else(|| Failure::unreachable(format!("what {} tells are no figures", self.place())))
    }
}
