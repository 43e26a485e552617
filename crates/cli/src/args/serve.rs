//! Arguments of `serve`.

use crate::format::{parse_bytes, parse_duration};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Serve a database by the protocol of Redis, the text protocol (CS265 DSL) and gRPC, and its metrics over
/// HTTP, until SIGTERM or SIGINT
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  esker serve
  redis-cli set user:17 Ada
  esker serve /srv/db --redis 0.0.0.0:6379 --redis-set requirepass SECRET
  esker serve --config /etc/esker/esker.toml --check-config
  esker serve --admin 0.0.0.0:8081 --admin-token-file /etc/esker/token
  curl -s 127.0.0.1:8081/metrics
  esker serve --dsl off --redis-conf /etc/redis/redis.conf --port 7000
  esker serve --grpc 127.0.0.1:50051
  esker serve --grpc 127.0.0.1:50051 --grpc-tls --redis-set tls-auth-clients no \\
      --redis-set tls-cert-file server.crt --redis-set tls-key-file server.key
  SERVER_PORT=9000 esker serve --data /srv/db --load-dir /srv/files --redis off
  printf 'p 1 2\\ng 1\\n' | esker shell --connect 127.0.0.1:8080

All protocols serve one database; the data of Redis are in keyspaces of their own, whose names begin with \
redis/. docs/redis.md has the directives, docs/grpc.md the service of gRPC, whose callers are the users of Redis, \
docs/admin.md what is served over HTTP.
In the file of --config the section [serve] sets each of these options by its name: redis = \"off\", \
max_clients = 100, and directives below [serve.redis_set]. SIGHUP has the file, tokens and certificates read \
anew: docs/operations.md says what changes without a restart, and the log what changed.
The commands of the text protocol are: p KEY VALUE, g KEY, r START END, d KEY, l \"FILE\", s [LIMIT], use [KEYSPACE], q.
Its clients are not authenticated: listen on loopback only, unless the network is trusted.")]
pub(crate) struct ServeArgs {
    /// Directory of the database, as --data
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// Address for clients of Redis, or off [default: 127.0.0.1:6379]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "redis_conf")]
    pub(crate) redis: Option<String>,
    /// Set a directive of redis.conf
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = clap::ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) redis_set: Vec<String>,
    /// Serve as redis-server does: by this redis.conf, or - for standard input, if one is named, and by the
    /// directives behind it; the text protocol is off unless --dsl is given. Comes last on the command line
    #[arg(long, num_args = 1.., value_names = ["FILE", "--DIRECTIVE VALUE"], allow_hyphen_values = true)]
    pub(crate) redis_conf: Vec<OsString>,
    /// Address for the text protocol, or off [default: 127.0.0.1 with the port in SERVER_PORT, or 8080]
    #[arg(long, visible_alias = "text", value_name = "HOST:PORT")]
    pub(crate) dsl: Option<String>,
    /// Address for gRPC, or off [default: off]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) grpc: Option<String>,
    /// Take clients of gRPC with TLS only, by the certificate, the authorities and the rules of the
    /// directives tls-* (--redis-set tls-cert-file FILE and so on)
    #[arg(long)]
    pub(crate) grpc_tls: bool,
    /// File of tokens, one a line: callers of gRPC with one of them may do everything, beside the users of
    /// Redis
    #[arg(long, value_name = "FILE")]
    pub(crate) grpc_token_file: Option<PathBuf>,
    /// Existing directory below which callers of gRPC may make checkpoints and backups; without it they may
    /// not
    #[arg(long, value_name = "DIR")]
    pub(crate) grpc_copies: Option<PathBuf>,
    /// Address for metrics, health and the status page over HTTP, or off [default: 127.0.0.1:8081, or off
    /// with --redis-conf]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin: Option<String>,
    /// Answer HTTP with TLS only, by the same directives tls-* as --grpc-tls
    #[arg(long)]
    pub(crate) admin_tls: bool,
    /// Token that requests to --admin must carry, health excepted: the content of this file, 16 bytes at
    /// least. Beyond loopback there must be one
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Name by which clients may call --admin, beside localhost and addresses; several times for several
    /// names
    #[arg(long, value_name = "NAME")]
    pub(crate) admin_host: Vec<String>,
    /// Allow `l` to load files of this directory; without it, `l` is an error
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Most connected clients of the text protocol; of Redis, the directive maxclients
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_clients: usize,
    /// Print a line of figures to standard error at this interval, such as 1s; see `esker stats --help`
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) watch: Option<Duration>,
    /// Longest line of a command of the text protocol
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    pub(crate) max_line: u64,
    /// Most memory of answers that clients of the text protocol do not take, over all of them; beyond it
    /// those that have taken nothing for the longest time are disconnected
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = parse_bytes)]
    pub(crate) max_unsent: u64,
    /// Say what is wrong with the configuration, of the file and the command line, and serve nothing
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Form of the log's lines [default: text; with --redis-conf that of Redis]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<LogFormat>,
}

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// A JSON object a line
    Json,
    /// As redis-server writes them
    Redis,
}
