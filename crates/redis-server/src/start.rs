//! The configuration at start: a redis.conf with the files that it includes, and directives as on the command
//! line of redis-server.
//!
//! Of a directive that takes one value the last one counts. Directives that this server does not know are
//! left out with a warning that says where they stand. A value that a directive does not take is an error,
//! and so is what this server cannot do or be: clients would be less safe than the file says.

mod listen;
mod words;

use crate::config::{Setting, default_value, start_setting};
use crate::server::Server;
use crate::settings::kept_settings;
use crate::tls::tls_settings;
use esker::Database;
use esker_redis_commands::Names;
use esker_redis_store::layout::Space;
use esker_resp::integer::parse_integer;
use esker_resp::redis_conf::{self, Directive};
use esker_tls::TlsSettings;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Files that include each other, at most: more is a file that includes itself.
const INCLUDE_DEPTH: usize = 16;

/// Directives whose arguments are one value, joined by blanks.
const JOINED: [&str; 7] = [
    "bind",
    "client-output-buffer-limit",
    "latency-tracking-info-percentiles",
    "oom-score-adj-values",
    "save",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
];

/// Reads the file of a path, for `include`; the error is a sentence.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// What the configuration says.
#[derive(Clone, Debug, Default)]
pub struct StartConfig {
    settings: Vec<Setting>,
    users: Vec<Vec<Vec<u8>>>,
    names: Names,
    /// The arguments of each `rename-command`, of which the names are made.
    renamed: Vec<Vec<Vec<u8>>>,
    warnings: Vec<String>,
}

impl StartConfig {
    /// Adds the directives of a file; `name` is what messages call it.
    ///
    /// # Errors
    /// A sentence with the file and the line.
    pub fn add_file(&mut self, name: &Path, text: &[u8], read: ReadFile<'_>) -> Result<(), String> {
        self.add_included(name, text, read, 0)
    }

    fn add_included(
        &mut self,
        name: &Path,
        text: &[u8],
        read: ReadFile<'_>,
        depth: usize,
    ) -> Result<(), String> {
        let file = redis_conf::parse(text).map_err(|error| format!("{}, {error}", name.display()))?;
        for directive in &file.directives {
            let place = format!("{}, line {}", name.display(), directive.line);
            let failed = |reason: String| format!("{place}: {reason}");
            if directive.name != "include" {
                self.add(directive, &place)?;
                continue;
            }
            if depth == INCLUDE_DEPTH {
                return Err(failed(format!("more than {INCLUDE_DEPTH} files include each other")));
            }
            let path = directive.only().map_err(|_| failed("include takes one path".to_owned()))?;
            let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
            let text = read(&path).map_err(failed)?;
            self.add_included(&path, &text, read, depth + 1)?;
        }
        Ok(())
    }

    /// Adds directives as they stand on the command line of redis-server: `--NAME VALUE...`, see [`words`].
    ///
    /// # Errors
    /// A sentence with the directive. One that is not known is an error here: it is misspelt.
    pub fn add_words(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let mut rest = words;
        while let Some((first, behind)) = rest.split_first() {
            let (directive, taken) = words::directive(first, behind)?;
            rest = &behind[taken..];
            self.add_named(&directive)?;
        }
        Ok(())
    }

    /// Adds a directive with these values.
    ///
    /// # Errors
    /// As [`add_words`](Self::add_words).
    pub fn add_values(&mut self, name: &str, values: &[&[u8]]) -> Result<(), String> {
        let arguments = values.iter().map(|value| value.to_vec()).collect();
        self.add_named(&Directive { line: 0, name: name.to_ascii_lowercase(), arguments })
    }

    /// Sets a directive to one value.
    ///
    /// # Errors
    /// As [`add_words`](Self::add_words).
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        self.add_values(name, &[value])
    }

    /// Adds a directive of the command line, where its name is its place.
    fn add_named(&mut self, directive: &Directive) -> Result<(), String> {
        let place = format!("--{}", directive.name);
        let known = self.warnings.len();
        self.add(directive, &place)?;
        match self.warnings.len() > known {
            true => Err(format!("{place}: there is no such directive")),
            false => Ok(()),
        }
    }

    /// Adds the directives that CONFIG REWRITE keeps in a database and that are not set here: what a server
    /// on it begins with. The database may be open for reading only, and need not have data of Redis.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn add_kept(&mut self, database: &Database) -> esker::Result<()> {
        let name = Space::System.name();
        if !database.keyspaces().iter().any(|known| known == name) {
            return Ok(());
        }
        for kept in kept_settings(&database.open_keyspace(name)?) {
            let (name, value) = kept?;
            let setting = start_setting(&name, &value, None);
            // As at a start, one that this build does not take is left out.
            if let Some(Ok(setting)) = setting
                && self.value(setting.name()).is_none()
            {
                self.settings.push(setting);
            }
        }
        Ok(())
    }

    fn add(&mut self, directive: &Directive, place: &str) -> Result<(), String> {
        // On the command line the place is the name.
        let sentence = |reason: &str| match place.strip_prefix("--") {
            Some(_) => format!("{place}: {reason}"),
            None => format!("{place}: {}: {reason}", directive.name),
        };
        let failed = |reason: &str| Err(sentence(reason));
        match directive.name.as_str() {
            "user" => {
                self.users.push(directive.arguments.clone());
                return Ok(());
            }
            "loadmodule" => return failed("modules cannot be loaded; remove the line"),
            "rename-command" => {
                let [old, new] = &directive.arguments[..] else {
                    return failed(
                        "it takes the name of a command and its new name, or \"\" to take it away",
                    );
                };
                self.renamed.push(directive.arguments.clone());
                return self.names.rename(old, new).map_err(|error| sentence(&error.to_string()));
            }
            "replicaof" | "slaveof" => return failed("this server cannot be a replica; remove the line"),
            _ => {}
        }
        let words = match JOINED.contains(&directive.name.as_str()) {
            true => directive.arguments.join(&b' '),
            false => match directive.only() {
                Ok(value) => value.to_vec(),
                Err(_) => return failed("it takes one value"),
            },
        };
        let before = self.value(&directive.name);
        let Some(setting) = start_setting(directive.name.as_bytes(), &words, before) else {
            self.warnings
                .push(format!("{place}: the directive {} is not known and has no effect", directive.name));
            return Ok(());
        };
        let mut setting = setting.map_err(|reason| sentence(&reason))?;
        match (setting.name(), setting.value.as_slice()) {
            ("cluster-enabled", b"yes") => {
                return failed("this server cannot be a node of a cluster; say no");
            }
            ("daemonize", b"yes") => {
                return failed(
                    "this server stays in the foreground; say no, and start it by a supervisor or with &",
                );
            }
            // Each line adds points; an empty one takes all back.
            ("save", value) if !value.is_empty() => {
                let earlier = self.value("save").unwrap_or_default();
                if !earlier.is_empty() {
                    setting.value = [earlier, b" ", value].concat();
                }
            }
            _ => {}
        }
        self.settings.retain(|earlier| earlier.name() != setting.name());
        self.settings.push(setting);
        Ok(())
    }

    /// What was left out, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The words behind each `user`.
    pub(crate) fn users(&self) -> &[Vec<Vec<u8>>] {
        &self.users
    }

    /// The sentence about a line `user`, counted from 0.
    pub(crate) fn wrong_user(&self, line: usize, reason: &str) -> String {
        let name = self.users.get(line).and_then(|words| words.first()).map_or(&b""[..], Vec::as_slice);
        format!("user {}: {reason}", String::from_utf8_lossy(name))
    }

    /// The directives that are set and have one value.
    pub(crate) fn names_set(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().map(Setting::name)
    }

    /// The directives with several lines of which another configuration has others.
    pub(crate) fn differing_lists(&self, other: &StartConfig) -> impl Iterator<Item = &'static str> {
        let lists = [("rename-command", &self.renamed, &other.renamed), ("user", &self.users, &other.users)];
        lists.into_iter().filter(|(_, mine, theirs)| mine != theirs).map(|(name, ..)| name)
    }

    /// The value of a directive, if it is set.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.settings.iter().find(|setting| setting.name() == name).map(|setting| setting.value.as_slice())
    }

    /// The same as text; `None` also if it is empty.
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.value(name).filter(|value| !value.is_empty())?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.value(name).and_then(parse_integer)
    }

    /// What the directives `tls-*` say, for servers of the process beside which there is none of Redis; where
    /// there is one, [`Server::tls`] has what counts.
    ///
    /// # Errors
    /// A sentence with the directive that is missing.
    pub fn tls_settings(&self) -> Result<TlsSettings, String> {
        tls_settings(&|name| self.value(name).unwrap_or_else(|| default_value(name)).to_vec())
    }

    /// How many databases there are.
    ///
    /// # Errors
    /// If that are too many, or none.
    pub fn databases(&self) -> Result<u16, String> {
        let number = self.number("databases").unwrap_or(16);
        u16::try_from(number)
            .ok()
            .filter(|number| (1..=1 << 14).contains(number))
            .ok_or_else(|| format!("databases: {number} is not between 1 and 16384"))
    }
}

impl Server {
    /// Lets the configuration act.
    ///
    /// # Errors
    /// If a `user` has rules that make no sense, or the file of `aclfile` has; the sentence says which.
    pub fn configure(&self, config: &StartConfig) -> Result<(), String> {
        self.set_names(config.names.clone());
        self.apply_settings(&config.settings);
        if !config.users.is_empty() {
            self.declare_users(&config.users).map_err(|(line, reason)| config.wrong_user(line, &reason))?;
        }
        self.load_user_file()?;
        self.fit_max_clients();
        Ok(())
    }

    /// Whether clients beyond this machine could connect to one of these addresses without a password:
    /// `protected-mode` forbids that.
    pub fn is_unprotected(&self, addresses: &[SocketAddr]) -> bool {
        self.config.get("protected-mode") == b"yes"
            && self.access.default_is_open()
            && addresses.iter().any(|address| !address.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("more.conf") => Ok(b"maxclients 7\nrequirepass x\n".to_vec()),
            Some("self.conf") => Ok(b"include self.conf\n".to_vec()),
            _ => Err(format!("cannot read {}", path.display())),
        }
    }

    fn file(text: &str) -> Result<StartConfig, String> {
        let mut config = StartConfig::default();
        config.add_file(Path::new("redis.conf"), text.as_bytes(), &read).map(|()| config)
    }

    fn words(line: &str) -> Result<StartConfig, String> {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut config = StartConfig::default();
        config.add_words(&words).map(|()| config)
    }

    #[test]
    fn the_last_value_counts_and_included_files_stand_in_their_place() {
        let config =
            file("maxclients 5\ninclude more.conf\nrequirepass y\nsave 900 1\nSAVE 60 5\n").expect("right");
        assert_eq!(config.value("maxclients"), Some(&b"7"[..]));
        assert_eq!(config.value("requirepass"), Some(&b"y"[..]));
        assert_eq!(config.value("save"), Some(&b"900 1 60 5"[..]));
        assert_eq!(file("save 900 1\nsave \"\"\n").expect("right").value("save"), Some(&b""[..]));
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        for (text, message) in [
            ("\nport x", "redis.conf, line 2: port: argument couldn't be parsed into an integer"),
            ("port 1 2", "redis.conf, line 1: port: it takes one value"),
            ("appendfsync never", "redis.conf, line 1: appendfsync: argument(s) must be one of"),
            ("include none.conf", "redis.conf, line 1: cannot read none.conf"),
            ("include self.conf", "self.conf, line 1: more than 16 files include each other"),
            ("port 1\nlogfile \"x", "redis.conf, line 2: unbalanced quotes"),
            ("replicaof host 1", "redis.conf, line 1: replicaof: this server cannot be a replica"),
            ("cluster-enabled yes", "redis.conf, line 1: cluster-enabled: this server cannot be a node"),
            ("daemonize yes", "redis.conf, line 1: daemonize: this server stays in the foreground"),
            ("loadmodule x.so", "redis.conf, line 1: loadmodule: modules cannot be loaded"),
            ("rename-command x y", "redis.conf, line 1: rename-command: there is no command 'x'"),
            (
                "rename-command get set",
                "redis.conf, line 1: rename-command: there is a command 'set' already",
            ),
            ("rename-command get", "redis.conf, line 1: rename-command: it takes the name of a command"),
        ] {
            let error = file(text).expect_err(text);
            assert!(error.starts_with(message), "{error}");
        }
        let config = file("port 1\n\nno-such thing\n").expect("a warning");
        assert_eq!(
            config.warnings(),
            ["redis.conf, line 3: the directive no-such is not known and has no effect"]
        );
    }

    #[test]
    fn the_command_line_is_stricter() {
        let config = words("--port 7000 --save 1 2 --Bind 127.0.0.1 -::1").expect("right");
        assert_eq!(config.value("save"), Some(&b"1 2"[..]));
        assert_eq!(config.value("bind"), Some(&b"127.0.0.1 -::1"[..]));
        assert_eq!(words("--prot 1").expect_err("misspelt"), "--prot: there is no such directive");
        assert!(words("7000").expect_err("no directive").starts_with("'7000' stands where"));
        // The name stands in a sentence once.
        assert_eq!(words("--port").expect_err("no value"), "--port: it takes one value");
        assert!(words("--port x").expect_err("no number").starts_with("--port: argument couldn't"));
    }

    #[test]
    fn addresses_follow_bind_and_port() {
        let listen = |line: &str| words(line).and_then(|config| config.listen());
        let addresses = |line: &str| {
            let tcp = listen(line).expect("right").tcp;
            tcp.iter()
                .map(|one| format!("{}{}", if one.is_optional { "-" } else { "" }, one.address))
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses("--maxclients 1"), ["127.0.0.1:6379"]);
        assert_eq!(addresses("--port 0 --bind *"), [""; 0]);
        let tls = listen("--port 0 --tls-port 6380 --bind 10.0.0.1 -::1").expect("right").tls;
        assert_eq!(tls[0].address.to_string(), "10.0.0.1:6380");
        assert_eq!((tls.len(), tls[1].is_optional), (2, true));
        assert_eq!(listen("--tls-port 0").expect("right").tls, []);
        assert!(
            listen("--port 7 --tls-port 7")
                .expect_err("one port")
                .starts_with("port and tls-port are both 7")
        );
        assert_eq!(
            addresses("--port 7 --bind * -::* -::1 10.0.0.1"),
            ["0.0.0.0:7", "-[::]:7", "-[::1]:7", "10.0.0.1:7"]
        );
        let unix = listen("--unixsocket /a/b --unixsocketperm 0750").expect("right").unix.expect("a socket");
        assert_eq!(unix.mode, Some(0o750));
        let wrong = listen("--port 70000").expect_err("no port");
        assert!(wrong.ends_with("argument must be between 0 and 65535 inclusive"), "{wrong}");
        assert!(
            listen("--unixsocket a --unixsocketperm 888").expect_err("no mode").starts_with("unixsocketperm")
        );
    }
}
