//! Signals: the first SIGTERM or SIGINT lets the servers stop in order, the second ends the process at once.
//! SIGHUP has the configuration and its files read anew, and never ends the process.

use super::reload::{Reload, Running};
use crate::failure::Failure;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Received};

/// What an exit code adds to the signal that ended the process, as shells have it.
const ENDED_BY_SIGNAL: i32 = 128;

/// What stops the servers.
#[derive(Debug)]
pub(super) struct Stops {
    pub(super) text: esker_server::Stop,
    pub(super) redis: Option<esker_redis_server::Stop>,
    pub(super) grpc: Option<esker_grpc::Stop>,
    /// It is told that the others end, and ends behind them.
    pub(super) admin: Option<esker_admin::Stop>,
}

impl Stops {
    pub(super) fn stop(&self) {
        if let Some(admin) = &self.admin {
            admin.drain();
        }
        self.text.stop();
        if let Some(redis) = &self.redis {
            redis.stop();
        }
        if let Some(grpc) = &self.grpc {
            grpc.stop();
        }
    }
}

/// The signals of the process, from now on, and what SIGHUP compares the configuration with.
#[derive(Debug)]
pub(super) struct Signals {
    received: Received,
    reload: Reload,
}

impl Signals {
    pub(super) fn listen(reload: Reload) -> Result<Signals, Failure> {
        let received = Received::new([SIGTERM, SIGINT, SIGHUP]);
        let received = received.map_err(|error| Failure::system("cannot listen to signals", &error))?;
        Ok(Signals { received, reload })
    }

    /// What ends [`obey`](Signals::obey).
    pub(super) fn handle(&self) -> Handle {
        self.received.handle()
    }

    /// Stops the servers and reads the configuration anew at signals, until the handle is closed.
    pub(super) fn obey(mut self, stops: &Stops, running: &Running<'_>) {
        let mut stopping = false;
        for signal in self.received.forever() {
            if signal == SIGHUP {
                self.reload.run(running);
                continue;
            }
            if stopping {
                // What was acknowledged is in the log. The database is opened as after a crash.
                std::process::exit(ENDED_BY_SIGNAL + signal);
            }
            stopping = true;
            let name = if signal == SIGTERM { "SIGTERM" } else { "SIGINT" };
            tracing::info!("{name}: stopping");
            stops.stop();
        }
    }
}
