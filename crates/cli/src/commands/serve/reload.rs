//! SIGHUP: the configuration, tokens and certificates are read anew, and what may change while the servers
//! run changes.
//!
//! The command line is completed by its file once more and compared with what counted before, so an option
//! that is added later is compared as well. A mistake changes nothing, and the log tells it. What can only
//! change at a start is named in the log.

use super::check::unprotected;
use super::file::{CommandLine, complete_anew, differences};
use super::plan::Plan;
use super::tls;
use crate::args::{Command, Global};
use crate::commands::configured;
use crate::failure::Failure;
use crate::host;
use esker::{Database, Options};
use esker_redis_server::StartConfig;
use esker_redis_server::server::Server;
use std::ffi::{OsStr, OsString};
use tracing::level_filters::LevelFilter;

/// Options of `serve` that are compared here one by one, or cannot differ.
const COMPARED: [&str; 9] = [
    "admin_token_file",
    "check_config",
    "config",
    "grpc_token_file",
    "log",
    "max_clients",
    "max_unsent",
    "redis_conf",
    "redis_set",
];

/// Options of the database that act at once.
const RATES: [&str; 3] =
    ["background_read_bytes_per_second", "background_write_bytes_per_second", "background_rate_auto_tuned"];

/// What is served, as far as it can change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: Option<&'a Server>,
    pub(super) database: &'a Database,
}

/// The configuration that counts, for comparison with one that is read anew.
#[derive(Debug)]
pub(super) struct Reload {
    /// The command line as it was written.
    written: Vec<OsString>,
    before: Known,
}

/// What a configuration says.
#[derive(Debug)]
struct Known {
    line: CommandLine,
    options: Options,
    redis: Option<StartConfig>,
    level: LevelFilter,
}

/// Names of what changed.
#[derive(Debug, Default)]
struct Changes {
    now: Vec<String>,
    at_next_start: Vec<String>,
}

impl Known {
    fn new(line: CommandLine, plan: &Plan) -> Result<Known, Failure> {
        Ok(Known {
            options: configured(&line.cli.global)?,
            redis: plan.redis.as_ref().map(|redis| redis.config.clone()),
            level: plan.log.level,
            line,
        })
    }
}

impl Reload {
    /// The configuration of the servers that are about to start.
    pub(super) fn new(plan: &Plan) -> Result<Reload, Failure> {
        let written = host::arguments();
        let before = Known::new(complete_anew(&written)?, plan)?;
        Ok(Reload { written, before })
    }

    /// Reads everything anew, and lets it act.
    pub(super) fn run(&mut self, running: &Running<'_>) {
        let read = match is_of_standard_input(&self.before.line) {
            // It is at its end.
            true => Ok(None),
            false => self.read(running.database).map(Some),
        };
        match read.and_then(|read| read.map_or(Ok(()), |(plan, now)| self.apply(running, &plan, now))) {
            Ok(()) => tls::reload(running.plan, running.server),
            Err(failure) => {
                let reason = failure.message().replace("\nesker: ", "; ");
                tracing::error!("SIGHUP: nothing changes, because {reason}");
            }
        }
    }

    /// The configuration of this moment. One that would let other machines in without a password is refused,
    /// as at a start.
    fn read(&self, database: &Database) -> Result<(Plan, Known), Failure> {
        let line = complete_anew(&self.written)?;
        let plan = plan_of(&line.cli.global, &line.cli.command)?;
        if let Some(redis) = &plan.redis
            && let Some(failure) = unprotected(&plan, redis, Some(database))?
        {
            return Err(failure);
        }
        let known = Known::new(line, &plan)?;
        Ok((plan, known))
    }

    /// Lets act what differs from before. Directives of Redis come first, because they alone can be refused.
    fn apply(&mut self, running: &Running<'_>, read: &Plan, now: Known) -> Result<(), Failure> {
        let mut changes = Changes::default();
        if let (Some(server), Some(before), Some(config)) = (running.server, &self.before.redis, &now.redis) {
            let changed = server.reconfigure(before, config).map_err(Failure::usage)?;
            changes.now.extend(changed.set.into_iter().map(str::to_owned));
            changes.at_next_start.extend(changed.at_next_start.into_iter().map(str::to_owned));
        } else {
            tls::change(running.plan, read)?;
        }
        if self.before.level != now.level {
            host::set_log_level(now.level);
            changes.now.push("log".to_owned());
        }
        change_rates(running.database, &self.before.options, &now.options, &mut changes)?;
        change_limits(running.plan, read, &mut changes);
        change_tokens(running.plan, read, &mut changes);
        let differing = differences(&self.before.line, &now.line).into_iter();
        changes.at_next_start.extend(differing.filter(|name| !COMPARED.contains(&name.as_str())));
        changes.at_next_start.extend(differing_options(&self.before.options, &now.options));
        self.before = now;
        read.warn();
        changes.tell();
        Ok(())
    }
}

impl Changes {
    /// Replaces a token by the one that was read, if there was one; `replace` tells whether they differ.
    fn token<T>(
        &mut self,
        name: &str,
        before: Option<T>,
        now: Option<T>,
        replace: impl FnOnce(&T, &T) -> bool,
    ) {
        match (before, now) {
            (Some(before), Some(now)) if replace(&before, &now) => self.now.push(name.to_owned()),
            (Some(_), Some(_)) | (None, None) => {}
            _ => self.at_next_start.push(name.to_owned()),
        }
    }

    fn tell(&self) {
        if !self.at_next_start.is_empty() {
            tracing::warn!(
                "SIGHUP: changes that count from the next start on: {}",
                self.at_next_start.join(", ")
            );
        }
        if !self.now.is_empty() {
            tracing::info!("SIGHUP: changed now: {}", self.now.join(", "));
        }
        if self.now.is_empty() && self.at_next_start.is_empty() {
            tracing::info!("SIGHUP: the configuration says what it said before");
        }
    }
}

fn plan_of(global: &Global, command: &Command) -> Result<Plan, Failure> {
    match command {
        Command::Serve(args) => Plan::new(global, args),
        _ => Err(Failure::defect("the command line of a server is that of another command")),
    }
}

/// Whether the directives of Redis came from standard input.
fn is_of_standard_input(line: &CommandLine) -> bool {
    let file = match &line.cli.command {
        Command::Serve(args) => args.redis_conf.first(),
        _ => None,
    };
    file.is_some_and(|file| file == OsStr::new("-"))
}

fn change_rates(
    database: &Database,
    before: &Options,
    now: &Options,
    changes: &mut Changes,
) -> Result<(), Failure> {
    if before.background_rates != now.background_rates {
        database.set_background_rates(now.background_rates)?;
        changes
            .now
            .extend(differing_values(before, now).filter(|name| RATES.contains(name)).map(str::to_owned));
    }
    Ok(())
}

/// Limits of the text protocol.
fn change_limits(running: &Plan, read: &Plan, changes: &mut Changes) {
    let (Some(running), Some(read)) = (&running.text, &read.text) else { return };
    for (name, before, now) in [
        ("max_clients", running.limits.max_clients(), read.limits.max_clients()),
        ("max_unsent", running.limits.unsent_bytes(), read.limits.unsent_bytes()),
    ] {
        if before != now {
            changes.now.push(name.to_owned());
        }
    }
    running.limits.set(&read.limits);
}

/// Tokens of files, whatever the names of the files are. Where there was none, or is none any more, the next
/// start decides whether that is safe.
fn change_tokens(running: &Plan, read: &Plan, changes: &mut Changes) {
    let admin = |plan: &Plan| plan.admin.as_ref().and_then(|admin| admin.token().cloned());
    let grpc = |plan: &Plan| plan.grpc.as_ref().and_then(|grpc| grpc.tokens().cloned());
    changes.token("admin_token_file", admin(running), admin(read), |before, now| before.replace(now));
    changes.token("grpc_token_file", grpc(running), grpc(read), |before, now| before.replace(now));
}

/// Options of the database, and sections with those of keyspaces, that differ and count at a start.
fn differing_options(before: &Options, now: &Options) -> Vec<String> {
    let mut differing: Vec<String> =
        differing_values(before, now).filter(|name| !RATES.contains(name)).map(str::to_owned).collect();
    if sections(before) != sections(now) {
        differing.push("options of keyspaces".to_owned());
    }
    differing
}

/// Names of options of the database whose values differ.
fn differing_values(before: &Options, now: &Options) -> impl Iterator<Item = &'static str> {
    let pairs = before.values().into_iter().zip(now.values());
    pairs.filter(|(before, now)| before.text != now.text).map(|(before, _)| before.name)
}

/// The sections of a configuration that belong to keyspaces.
fn sections(options: &Options) -> String {
    let text = options.to_toml();
    let first = text.lines().position(|line| line.starts_with('[')).unwrap_or(usize::MAX);
    text.lines().skip(first).collect::<Vec<_>>().join("\n")
}
