//! `serve`: runs the servers of all protocols on one open database until a signal.
//!
//! `file` completes the arguments by a configuration file; `plan` is what they say, decided before anything
//! is opened; `check` says what a start would refuse, with what `kept` reads of the database; `address` reads
//! addresses; `redis` and `grpc` are the parts of these protocols, `admin` that of HTTP; `tls` has the
//! certificates of all; `signals` tells the servers to stop, and `reload` lets another configuration act.

mod address;
mod admin;
mod check;
mod file;
mod grpc;
mod kept;
mod plan;
mod redis;
mod reload;
mod signals;
mod tls;

pub(crate) use file::complete;
pub(crate) use plan::Plan;

use super::report_texts::ReportTexts;
use super::watch::Watch;
use crate::args::Global;
use crate::control::listen::{ControlListener, SharedRun};
use crate::failure::{Exit, Failure};
use crate::host;
use admin::Serving;
use esker::Database;
use esker_admin::Sources;
use esker_grpc::Access;
use esker_redis_server::Listener;
use esker_redis_server::server::Server;
use plan::RedisPlan;
use reload::{Reload, Running};
use signals::{Signals, Stops};
use std::io::Write;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Shortest interval: a sample takes some microseconds per keyspace, and more lines cannot be read.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn run(
    global: &Global,
    plan: &Plan,
    shared: SharedRun,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if plan.is_check {
        return check::check(global, plan, out);
    }
    if plan.redis.as_ref().is_some_and(|redis| redis.is_stand_in) {
        // Programs that start redis-server look for the number of the process in its log.
        tracing::info!(
            "Esker {} in the place of Redis, PID: {}",
            env!("CARGO_PKG_VERSION"),
            std::process::id()
        );
    }
    plan.warn();
    check_access(global, plan)?;
    // A process that is told that the server is ready may end it at once, so signals are handled by then.
    let signals = Signals::listen(Reload::new(plan)?)?;
    let bound = Bound {
        redis: plan.redis.as_ref().map(redis::bind).transpose()?,
        text: plan.text.clone().map(esker_server::Listener::bind).transpose()?,
        grpc: plan.grpc.as_ref().map(|plan| plan.bind(global)).transpose()?,
        admin: plan.admin.as_ref().map(admin::bind).transpose()?.flatten(),
    };
    let global = Global { data: Some(plan.data.clone()), ..global.clone() };
    let database = super::open(&global, |options| options)?;
    let control = super::listen(&global, &database, shared);
    let served = serve(plan, signals, bound, &database, control.as_ref(), out);
    drop(control);
    host::tell_supervisor("STOPPING=1");
    let closed = database.close();
    served?;
    closed?;
    Ok(Exit::Done)
}

/// Refuses options of a database that is open for reading only, where servers write as they start.
fn check_access(global: &Global, plan: &Plan) -> Result<(), Failure> {
    let is_read_only = super::configured(global)?.read_only;
    if is_read_only && (plan.redis.is_some() || plan.text.is_some()) {
        return Err(Failure::usage(
            "read_only is true, and the servers of Redis and of the text protocol write",
        )
        .advise("only gRPC and HTTP serve a database for reading: --redis off --dsl off"));
    }
    Ok(())
}

/// Sockets that listen.
#[derive(Debug)]
struct Bound {
    redis: Option<Listener>,
    text: Option<esker_server::Listener>,
    grpc: Option<esker_grpc::Listener>,
    admin: Option<esker_admin::Listener>,
}

impl Bound {
    /// The same, with TLS where the plan says so.
    fn with_tls(self, plan: &Plan, server: Option<&Server>) -> Bound {
        let Some(tls) = tls::present(plan, server) else { return self };
        let grpc_has_tls = plan.grpc.as_ref().is_some_and(|grpc| grpc.has_tls);
        let admin_has_tls = plan.admin.as_ref().is_some_and(|admin| admin.has_tls);
        let with_tls = |listener: esker_grpc::Listener| listener.with_tls(Arc::clone(&tls));
        let grpc = if grpc_has_tls { self.grpc.map(with_tls) } else { self.grpc };
        let with_tls = |listener: esker_admin::Listener| listener.with_tls(Arc::clone(&tls));
        let admin = if admin_has_tls { self.admin.map(with_tls) } else { self.admin };
        Bound { grpc, admin, ..self }
    }
}

fn serve(
    plan: &Plan,
    signals: Signals,
    bound: Bound,
    database: &Database,
    control: Option<&ControlListener>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (server, pid_file) = match (&plan.redis, &bound.redis) {
        (Some(redis), Some(listener)) => {
            let server = redis::prepare(redis, &plan.data, listener, database)?;
            (Some(Arc::new(server)), redis.pid_file.as_deref().map(host::PidFile::write).transpose()?)
        }
        _ => (None, None),
    };
    let access =
        plan.grpc.as_ref().map(|grpc| grpc.access(server.clone(), bound.grpc.as_ref())).transpose()?;
    let sources = Sources::new(database.clone(), &plan.data).with_texts(Arc::new(ReportTexts));
    let sources = match &server {
        Some(server) => sources.with_redis(Arc::clone(server)),
        None => sources,
    };
    if let Some(control) = control {
        control.observe(sources.clone());
    }
    let bound = bound.with_tls(plan, server.as_deref());
    let admin_has_tls = plan.admin.as_ref().is_some_and(|admin| admin.has_tls);
    let serving = bound.admin.as_ref().map(|admin| Serving::of(admin, admin_has_tls)).transpose()?;
    let redis = plan.redis.as_ref().zip(server.as_deref()).zip(bound.redis);
    let clients = Clients {
        text: bound.text,
        redis: redis.map(|((plan, server), listener)| (plan, server, listener)),
        grpc: bound.grpc.zip(access),
    };
    let served = std::thread::scope(|scope| {
        // It ends the thread when it is dropped, however the others have ended.
        let serving = serving;
        if let Some(listener) = bound.admin {
            scope.spawn(move || admin::serve(listener, sources));
        }
        serve_all(plan, signals, clients, serving.as_ref(), database, out)
    });
    drop(pid_file);
    served
}

/// What clients of each protocol wait for.
struct Clients<'a> {
    text: Option<esker_server::Listener>,
    redis: Option<(&'a RedisPlan, &'a Server, Listener)>,
    grpc: Option<(esker_grpc::Listener, Arc<dyn Access>)>,
}

/// Serves until a signal, or until one of the servers ends: then the others are to end as well.
fn serve_all(
    plan: &Plan,
    signals: Signals,
    clients: Clients<'_>,
    admin: Option<&Serving>,
    database: &Database,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Clients { text, redis, grpc } = clients;
    let stops = &Stops {
        text: esker_server::Stop::default(),
        redis: redis.as_ref().map(|(_, _, listener)| listener.stop()),
        grpc: grpc.as_ref().map(|(listener, _)| listener.stop()),
        admin: admin.map(|admin| admin.stop.clone()),
    };
    let grpc_address = grpc
        .as_ref()
        .map(|(listener, _)| listener.address())
        .transpose()
        .map_err(|error| grpc::failed(&error))?;
    let (end, ended) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let handled = signals.handle();
    std::thread::scope(|scope| {
        if let Some(interval) = plan.watch {
            scope.spawn(move || watch(database, interval.max(SHORTEST_INTERVAL), &ended));
        }
        let running = Running { plan, server: redis.as_ref().map(|(_, server, _)| *server), database };
        scope.spawn(move || signals.obey(stops, &running));
        let text = text.map(|listener| {
            scope.spawn(move || {
                let ready = |address| ready.send(address).unwrap_or_default();
                let served = listener.serve(database, ready, stops.text.stopped());
                stops.stop();
                served
            })
        });
        let grpc = grpc.map(|(listener, access)| {
            scope.spawn(move || {
                let served = listener.serve(database, access);
                stops.stop();
                served
            })
        });
        // It fails if the server of the text protocol cannot begin, and then all stop.
        let text_address = text.as_ref().and_then(|_| is_ready.recv().ok());
        if text_address.is_some() == text.is_some() {
            let redis = redis.as_ref().map(|(redis, _, listener)| (*redis, listener));
            tell_ready(plan, text_address, redis, grpc_address, admin, out);
        }
        let served_redis = redis.map_or(Ok(()), |(_, server, listener)| {
            let served = listener.serve(server);
            stops.stop();
            served
        });
        let served_text = text.map(|text| text.join());
        let served_grpc = grpc.map(|grpc| grpc.join());
        handled.close();
        drop(end);
        served_text.unwrap_or(Ok(Ok(()))).unwrap_or_else(|panic| resume_unwind(panic))?;
        served_grpc
            .unwrap_or(Ok(Ok(())))
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|error| grpc::failed(&error))?;
        served_redis.map_err(|error| Failure::system("the server of the Redis protocol ended", &error))
    })
}

/// Tells supervisors and people that clients are accepted. A missing standard output is no error.
fn tell_ready(
    plan: &Plan,
    text: Option<SocketAddr>,
    redis: Option<(&RedisPlan, &Listener)>,
    grpc: Option<SocketAddr>,
    admin: Option<&Serving>,
    out: &mut dyn Write,
) {
    let data = plan.data.display();
    let mut lines = String::new();
    if let Some(address) = text {
        lines.push_str(&format!("serving {data} on {address}\n"));
    }
    match redis {
        Some((redis, _)) if redis.is_stand_in => {
            tracing::info!("Server initialized");
            tracing::info!("Ready to accept connections");
        }
        Some((_, listener)) => {
            for place in redis::places(listener) {
                lines.push_str(&format!("serving {data} {place}\n"));
            }
        }
        None => {}
    }
    if let Some(address) = grpc {
        let tls = if plan.grpc.as_ref().is_some_and(|grpc| grpc.has_tls) { " with TLS" } else { "" };
        lines.push_str(&format!("serving {data} by gRPC{tls} on {address}\n"));
    }
    if let Some(admin) = admin {
        let url = admin.url();
        lines.push_str(&format!("serving the status page of {data} on {url}\n"));
    }
    let _result = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    host::tell_supervisor("READY=1");
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
