//! What the arguments of `serve` say, decided before anything is opened: addresses, directory, log.

use super::address::{OFF, resolve};
use super::admin::AdminPlan;
use super::grpc::GrpcPlan;
use super::tls::{self, OwnTls};
use crate::args::{Global, LogFormat, ServeArgs};
use crate::failure::Failure;
use crate::host;
use crate::log::{LogSettings, LogTarget};
use esker_redis_server::{ListenConfig, StartConfig};
use esker_server::config::DEFAULT_PORT;
use esker_server::{Config, Limits, LoadDirectory, LoadFiles};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::level_filters::LevelFilter;

/// Where the database lies in the directory that `dir` names.
const DATA_NAME: &str = "esker-data";

/// What is to be served, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The directory of the database.
    pub(super) data: PathBuf,
    /// The text protocol.
    pub(super) text: Option<Config>,
    pub(super) redis: Option<RedisPlan>,
    pub(super) grpc: Option<GrpcPlan>,
    /// Metrics, health and the status page.
    pub(super) admin: Option<AdminPlan>,
    /// Certificates and rules of other ports where Redis is off.
    pub(super) tls: Option<OwnTls>,
    pub(super) watch: Option<Duration>,
    /// Nothing is served: the configuration is checked.
    pub(super) is_check: bool,
    pub(crate) log: LogSettings,
}

/// The server of the Redis protocol.
#[derive(Debug)]
pub(super) struct RedisPlan {
    pub(super) config: StartConfig,
    pub(super) listen: ListenConfig,
    pub(super) databases: u16,
    pub(super) pid_file: Option<PathBuf>,
    /// Whether ports of other protocols use its certificates.
    pub(super) others_need_tls: bool,
    /// Whether it was started in the place of redis-server, and writes the lines that are waited for then.
    pub(super) is_stand_in: bool,
    /// The level of the log that `--log` names, which comes before that of a directive.
    pub(super) log_level: Option<LevelFilter>,
}

impl RedisPlan {
    /// The port that was asked for; that of TLS if there is no other.
    pub(super) fn port(&self) -> u16 {
        let mut addresses = self.listen.tcp.iter().chain(&self.listen.tls);
        addresses.next().map_or(0, |one| one.address.port())
    }
}

impl Plan {
    /// Reads the arguments and the files that they name.
    pub(crate) fn new(global: &Global, args: &ServeArgs) -> Result<Plan, Failure> {
        let is_stand_in = !args.redis_conf.is_empty();
        let mut config = redis_config(args)?;
        let data = match (&global.data, &args.directory) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage("the directory is named twice, by DIR and by --data"));
            }
            (Some(data), None) | (None, Some(data)) => data.clone(),
            (None, None) => match config.text("dir") {
                Some(dir) => Path::new(&dir).join(DATA_NAME),
                None => global.data().to_owned(),
            },
        };
        set_directory(&mut config, &data)?;
        let text_is_off = args.dsl.as_deref() == Some(OFF) || (is_stand_in && args.dsl.is_none());
        let text = if text_is_off { None } else { Some(text_config(args)?) };
        let log = match args.check_config {
            // A check makes no file.
            true => LogSettings::plain(LevelFilter::WARN),
            false => log_settings(global, args, &config),
        };
        let redis_is_off = args.redis.as_deref() == Some(OFF);
        let tls = if redis_is_off { tls::without_redis(args, &config)? } else { None };
        let redis = if redis_is_off { None } else { Some(redis_plan(config, global, args)?) };
        let grpc = GrpcPlan::new(args)?;
        if text.is_none() && redis.is_none() && grpc.is_none() {
            return Err(Failure::usage("nothing is to be served: --redis, --dsl and --grpc are off"));
        }
        let admin = AdminPlan::new(args)?;
        Ok(Plan { data, text, redis, grpc, admin, tls, watch: args.watch, is_check: args.check_config, log })
    }

    /// Tells what the configuration says that has no effect.
    pub(crate) fn warn(&self) {
        for warning in self.warnings() {
            tracing::warn!("{warning}");
        }
    }

    pub(super) fn warnings(&self) -> impl Iterator<Item = &String> {
        self.redis.iter().flat_map(|redis| redis.config.warnings())
    }
}

/// The directives: of a file and those behind it, and of `--redis-set`.
fn redis_config(args: &ServeArgs) -> Result<StartConfig, Failure> {
    let mut config = StartConfig::default();
    // As for redis-server, directives may stand alone, without a file before them.
    let (file, words) = match args.redis_conf.split_first() {
        Some((first, _)) if first.as_bytes().starts_with(b"--") => (None, &args.redis_conf[..]),
        Some((file, words)) => (Some(file), words),
        None => (None, &[][..]),
    };
    if let Some(file) = file {
        let name = if file == OsStr::new("-") { Path::new("standard input") } else { Path::new(file) };
        let text = host::content_of(Path::new(file))?;
        config
            .add_file(name, &text, &|path| {
                host::content_of(path).map_err(|failure| failure.message().to_owned())
            })
            .map_err(Failure::usage)?;
    }
    if !words.is_empty() {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        config.add_words(&words).map_err(Failure::usage)?;
    }
    for pair in args.redis_set.chunks_exact(2) {
        let values: Vec<&[u8]> = match pair[0].as_str() {
            // The name and the rules of a user are words of their own.
            "user" => pair[1].split_whitespace().map(str::as_bytes).collect(),
            _ => vec![pair[1].as_bytes()],
        };
        let set = config.add_values(&pair[0], &values);
        set.map_err(|reason| {
            // The directive has no hyphens there.
            Failure::usage(format!("--redis-set {}", reason.strip_prefix("--").unwrap_or(&reason)))
        })?;
    }
    Ok(config)
}

/// Makes `dir` the absolute path that CONFIG GET tells: without it, where the database lies.
fn set_directory(config: &mut StartConfig, data: &Path) -> Result<(), Failure> {
    let dir = match config.text("dir") {
        Some(dir) => PathBuf::from(dir),
        None => data.parent().map(Path::to_owned).unwrap_or_default(),
    };
    let dir = host::absolute(&dir)?;
    config.set("dir", dir.as_os_str().as_bytes()).map_err(Failure::usage)
}

fn redis_plan(mut config: StartConfig, global: &Global, args: &ServeArgs) -> Result<RedisPlan, Failure> {
    let address = args.redis.as_deref().map(|written| resolve("--redis", written)).transpose()?;
    if let Some(address) = address {
        config.set("bind", address.ip().to_string().as_bytes()).map_err(Failure::usage)?;
    }
    let mut listen = config.listen().map_err(Failure::usage)?;
    if let Some(address) = address {
        // Port 0 is any free one here; the directive of this value is none.
        listen.tcp = vec![address.into()];
    }
    let databases = config.databases().map_err(Failure::usage)?;
    let pid_file = config.text("pidfile").map(PathBuf::from);
    Ok(RedisPlan {
        config,
        listen,
        databases,
        pid_file,
        others_need_tls: tls::is_wanted(args),
        is_stand_in: !args.redis_conf.is_empty(),
        log_level: global.log,
    })
}

/// The log: on standard error, or where and how redis-server would write it.
fn log_settings(global: &Global, args: &ServeArgs, config: &StartConfig) -> LogSettings {
    let is_stand_in = !args.redis_conf.is_empty();
    let level = level_of(config.value("loglevel").unwrap_or_default());
    let form = if is_stand_in { LogFormat::Redis } else { LogFormat::Text };
    LogSettings {
        level: global.log.unwrap_or(level),
        format: args.log_format.unwrap_or(form),
        target: match config.text("logfile") {
            Some(file) => LogTarget::File(file.into()),
            None if is_stand_in => LogTarget::StandardOutput,
            None => LogTarget::StandardError,
        },
    }
}

/// The level that a word of the directive `loglevel` means.
pub(super) fn level_of(word: &[u8]) -> LevelFilter {
    match word {
        b"debug" | b"verbose" => LevelFilter::DEBUG,
        b"warning" => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    }
}

fn text_config(args: &ServeArgs) -> Result<Config, Failure> {
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
    Ok(Config {
        address: text_address(args)?,
        load_files,
        limits: Limits::new(args.max_clients, usize::try_from(args.max_unsent).unwrap_or(usize::MAX)),
        max_line_bytes,
        ..Config::default()
    })
}

fn text_address(args: &ServeArgs) -> Result<SocketAddr, Failure> {
    if let Some(written) = &args.dsl {
        return resolve("--dsl", written);
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
