//! The dashboard: frames of a server, of an own database, and in a terminal.

#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::WorkingDir;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a test waits for what must happen, in steps of [`STEP`].
const STEPS: usize = 300;
const STEP: Duration = Duration::from_millis(100);

/// A server of Redis and over HTTP.
struct Serving {
    child: Child,
    redis: String,
    admin: String,
}

impl Serving {
    fn start(dir: &WorkingDir) -> Serving {
        let mut command = dir.command("serve db --redis 127.0.0.1:0 --dsl off --admin 127.0.0.1:0 --log off");
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut address = |words: &str| {
            let mut line = String::new();
            printed.read_line(&mut line).unwrap();
            assert!(line.contains(words), "'{words}' is not in {line}");
            let address = line.trim_end().rsplit(' ').next().unwrap();
            address.trim_start_matches("http://").trim_end_matches('/').to_owned()
        };
        let (redis, admin) = (address("by the protocol of Redis"), address("status page"));
        Serving { child, redis, admin }
    }

    /// Sets as many keys.
    fn set(&self, keys: usize) {
        let mut client = TcpStream::connect(&self.redis).unwrap();
        let commands: String = (0..keys).map(|key| format!("SET key{key} value\r\n")).collect();
        client.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
        client.read_to_string(&mut String::new()).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_frame_of_a_server_is_printed_by_both_ways() {
    let dir = WorkingDir::new();
    let server = Serving::start(&dir);
    server.set(3000);
    for source in ["--data db".to_owned(), "--connect ./db".to_owned(), format!("--connect {}", server.admin)]
    {
        let frame = dir.ok(&format!("top --once --interval 100ms {source}"));
        for part in ["commands", "clients 0 of", "keys 3,000", "stalls none", "memory", "cache", "redis/keys"]
        {
            let frame = frame.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(frame.contains(part), "{part} is not in the frame by {source}: {frame}");
        }
        assert!(!frame.contains('\u{1b}'), "{frame}");
        let json = dir.ok(&format!("top --json {source}"));
        let status: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(status["info"]["redis"]["keys"], 3000, "{json}");
        assert!(status["info"]["totals"]["entries"].as_u64() > Some(3000), "{json}");
    }
    let chosen = dir.ok("top --once --interval 100ms --data db --keyspace redis/elements");
    assert!(chosen.contains("tree of redis/elements"), "{chosen}");
    let unknown = dir.run("top --once --data db --keyspace nowhere");
    assert!(unknown.code == 2 && unknown.err.contains("redis/keys"), "{unknown:?}");
}

#[test]
fn an_own_database_is_opened_and_without_a_terminal_advice_is_given() {
    let dir = WorkingDir::new();
    dir.ok("put fruit apple");
    let frame = dir.ok("top --once --interval 100ms");
    assert!(frame.contains("opened by this command") && frame.contains("tree of default"), "{frame}");
    assert!(frame.contains("no server of the Redis protocol"), "{frame}");
    let refused = dir.run("top");
    assert!(refused.code == 2 && refused.err.contains("esker top --once"), "{refused:?}");
    assert_eq!(dir.run("top --once --data nowhere").code, 2);
    assert_eq!(dir.run("top --once --connect ./nowhere").code, 4);
    assert_eq!(dir.ok("get fruit"), "apple\n");
}

/// A session of tmux with a shell, ended when dropped.
struct Tmux<'a> {
    dir: &'a WorkingDir,
    socket: String,
}

impl<'a> Tmux<'a> {
    /// `None`, with a message, where there is no tmux.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn start(dir: &'a WorkingDir, columns: u16, rows: u16) -> Option<Tmux<'a>> {
        let socket = dir.path().join("tmux.sock").display().to_string();
        let tmux = Tmux { dir, socket };
        let (x, y) = (columns.to_string(), rows.to_string());
        let shell = "env PS1='ready$ ' sh";
        let started =
            tmux.command(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y, shell]).status();
        if started.is_ok_and(|status| status.success()) {
            return Some(tmux);
        }
        eprintln!("skipped: there is no tmux");
        None
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket]).args(words).current_dir(self.dir.path());
        command.env_remove("TMUX").env("TERM", "screen").env("LC_ALL", "C.UTF-8");
        command
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.command(&["send-keys"]).args(keys).status().unwrap().success());
    }

    fn type_line(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        let output = self.command(&["capture-pane", "-p"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether a colour of the foreground is on the screen.
    fn is_coloured(&self) -> bool {
        let output = self.command(&["capture-pane", "-p", "-e"]).output().unwrap();
        let screen = String::from_utf8_lossy(&output.stdout).into_owned();
        let sequences = screen.split('\u{1b}').skip(1);
        let mut codes = sequences.filter_map(|text| text.strip_prefix('[')?.split_once('m'));
        codes.any(|(codes, _)| {
            codes
                .split(';')
                .any(|code| code.parse::<u8>().is_ok_and(|code| matches!(code, 30..=38 | 90..=97)))
        })
    }

    /// The value of a format, such as whether the alternate screen is on.
    fn told(&self, format: &str) -> String {
        let output = self.command(&["display-message", "-p", format]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Waits until the screen is as wanted.
    fn until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..STEPS {
            let screen = self.screen();
            if is_wanted(&screen) {
                return screen;
            }
            std::thread::sleep(STEP);
        }
        panic!("{what} did not come:\n{}", self.screen());
    }

    /// The terminal is as it was: the usual screen, a cursor, and lines that are echoed and edited.
    fn assert_restored(&self, word: &str) {
        self.until("the prompt", |screen| screen.contains("ready$") && !screen.contains("keyspaces:"));
        assert_eq!(self.told("#{alternate_on} #{cursor_flag}"), "0 1");
        self.type_line(&format!("stty -a | grep -c ' icanon' | sed s/^/{word}-/; echo code-$?"));
        let screen = self.until("the answer", |screen| screen.contains("code-0"));
        assert!(screen.contains(&format!("\n{word}-1")), "{screen}");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.command(&["kill-server"]).status();
    }
}

#[test]
fn the_terminal_shows_figures_and_is_given_back() {
    let dir = WorkingDir::new();
    let server = Serving::start(&dir);
    server.set(2000);
    let Some(tmux) = Tmux::start(&dir, 80, 24) else { return };
    let esker = env!("CARGO_BIN_EXE_esker");
    tmux.type_line(&format!("clear; {esker} top --data db --interval 200ms"));
    let shown = tmux.until("the figures", |screen| screen.contains("keys 2,000") && screen.contains("/s"));
    assert!(shown.contains("tree of ") && shown.contains("help"), "{shown}");
    assert_eq!(tmux.told("#{alternate_on}"), "1");
    assert!(tmux.is_coloured());
    server.set(3000);
    tmux.until("new figures", |screen| screen.contains("keys 3,000"));
    tmux.keys(&["?"]);
    tmux.until("help", |screen| screen.contains("show or hide this"));
    tmux.keys(&["?"]);
    tmux.keys(&["q"]);
    tmux.assert_restored("quit");

    tmux.type_line(&format!("clear; NO_COLOR=1 {esker} top --connect {} --interval 200ms", server.admin));
    tmux.until("the figures over HTTP", |screen| screen.contains("keys 3,000"));
    assert!(!tmux.is_coloured());
    tmux.keys(&["C-c"]);
    tmux.assert_restored("interrupted");

    tmux.type_line(&format!("clear; sh -c 'echo $$ > pid; exec {esker} top --data db --interval 200ms'"));
    tmux.until("the figures of the third", |screen| screen.contains("keys 3,000"));
    let pid = String::from_utf8(dir.read("pid")).unwrap();
    assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    tmux.until("the message", |screen| screen.contains("esker: interrupted"));
    tmux.assert_restored("terminated");

    tmux.type_line(&format!("clear; {esker} top --data db --interval 200ms"));
    tmux.until("the figures again", |screen| screen.contains("keys 3,000"));
    drop(server);
    tmux.until("the loss", |screen| screen.contains("trying again"));
    tmux.until("the end", |screen| screen.contains("ready$") && screen.contains("esker: "));
    tmux.assert_restored("lost");
}
