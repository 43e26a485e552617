//! The configuration of `esker serve` in a file, and its check.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]
#![expect(clippy::disallowed_methods, reason = "tests use the machine's files")]
#![allow(dead_code, reason = "the helpers are shared with other tests")]

mod common;

use common::{RunResult, Served, WorkingDir};

fn check(dir: &WorkingDir, text: &str, more: &str) -> RunResult {
    dir.write("esker.toml", text);
    dir.run(&format!("serve --config esker.toml --check-config {more}"))
}

#[test]
fn a_file_configures_the_server_and_the_command_line_comes_first() {
    let dir = WorkingDir::new();
    dir.write(
        "esker.toml",
        "memory_budget = \"32MiB\"\n\n[serve]\ndata = \"served\"\nredis = \"off\"\ndsl = \"127.0.0.1:0\"\n\
         max_line = 64\nlog = \"off\"\n\n[keyspace.users]\nblock_size = \"16KiB\"\n",
    );
    let served = Served::spawn(dir.command("serve --config esker.toml"));
    let connect = format!("shell --connect {}", served.address);
    let ran = dir.run_with(&connect, format!("p 1 2\np 1 \"{}\"\n", "v".repeat(100)));
    assert_eq!(ran.text(), "OK\nError: the line is longer than 64 bytes\n");
    assert!(dir.path().join("served/control.sock").exists());
    assert_eq!(served.end("-TERM"), Some(0));
    let served =
        Served::spawn(dir.command("serve elsewhere --config esker.toml --max-line 1KiB --dsl 127.0.0.1:0"));
    let connect = format!("shell --connect {}", served.address);
    let ran = dir.run_with(&connect, format!("p 1 \"{}\"\n", "v".repeat(100)));
    assert_eq!(ran.text(), "OK\n");
    assert!(dir.path().join("elsewhere/control.sock").exists());
    assert_eq!(served.end("-TERM"), Some(0));
    // Other commands read the rest of the file.
    assert_eq!(
        dir.ok("get --data served --config esker.toml --keyspace dsl.int --key int --value int 1"),
        "2\n"
    );
}

#[test]
fn directives_of_redis_stand_in_a_section() {
    let dir = WorkingDir::new();
    let text = "[serve]\ndsl = \"off\"\nredis = \"127.0.0.1:0\"\n[serve.redis_set]\nmaxclients = 77\n\
                requirepass = \"two words\"\nsave = \"\"\nuser = [\"a on nopass ~* +@all\", \"b on nopass ~* +get\"]\n";
    let ran = check(&dir, text, "");
    assert_eq!((ran.code, ran.text().as_str()), (0, "esker.toml: no mistake\n"), "{ran:?}");
    dir.write("esker.toml", text);
    let served =
        Served::spawn(dir.command("serve --config esker.toml --redis-set requirepass other --log off"));
    let mut stream = std::net::TcpStream::connect(&served.address).unwrap();
    use std::io::{Read, Write};
    stream.write_all(b"AUTH other\r\nCONFIG GET maxclients\r\nACL USERS\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("+OK\r\n") && answer.contains("\r\n77\r\n"), "{answer}");
    assert!(answer.contains("$1\r\na\r\n$1\r\nb\r\n"), "{answer}");
    assert_eq!(served.end("-TERM"), Some(0));
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let dir = WorkingDir::new();
    let ran = check(
        &dir,
        "memory_budget = \"1MiB\"\n[serve]\nredis = 5\nmax_clients = \"many\"\nport = 1\n\nwatch = true\n\
         keyspace = \"k\"\nredis_set = \"x\"\n",
        "",
    );
    assert_eq!((ran.code, ran.text().as_str()), (2, ""), "{ran:?}");
    let lines: Vec<&str> = ran.err.lines().collect();
    for (line, part) in [
        ("esker: esker.toml, line 4: ", "many"),
        ("esker: esker.toml, line 5: ", "`serve` has no option port; there are data, memory, log, redis,"),
        ("esker: esker.toml, line 7: ", "--watch"),
        ("esker: esker.toml, line 8: ", "makes no use of --keyspace"),
        ("esker: esker.toml, line 9: ", "redis_set is a section of directives"),
        ("esker: esker.toml, line 1: ", "memory_budget"),
    ] {
        assert!(
            lines.iter().any(|found| found.starts_with(line) && found.contains(part)),
            "{line}: {}",
            ran.err
        );
    }
    for (text, part) in [
        ("[serve]\nredis = \"nowhere\"\n", "--redis nowhere"),
        ("[serve]\nredis = \"off\"\ndsl = \"off\"\n", "nothing is to be served"),
        ("[serve.redis_set]\nmaxclients = \"many\"\n", "maxclients"),
        ("[serve]\nload_dir = \"none\"\n", "--load-dir none"),
        ("read_only = true\n", "the servers of Redis and of the text protocol write"),
        ("[serve.redis_set]\nnosuch = 1\n", "--redis-set nosuch: there is no such directive"),
        ("[serve\n", "esker.toml, line 1: "),
        ("[serve]\ndsl = \"off\"\ndsl = \"off\"\n", "esker.toml, line 3: "),
        ("[served]\n", "esker.toml, line 1: there is no section [served]"),
    ] {
        let ran = check(&dir, text, "");
        assert!(ran.code == 2 && ran.err.contains(part), "{text}: {ran:?}");
    }
    // What a start would refuse is a mistake as well.
    for (text, part) in [
        ("[serve]\nredis = \"0.0.0.0:0\"\n", "protected-mode forbids that"),
        ("[serve]\nredis = \"127.0.0.1:0\"\ngrpc = \"0.0.0.0:0\"\n", "callers need no credentials"),
        ("[serve]\nredis = \"off\"\ngrpc = \"0.0.0.0:0\"\n", "callers need no credentials"),
        (
            "[serve]\nredis = \"127.0.0.1:0\"\n[serve.redis_set]\nuser = [\"a on\", \"b +@nosuch\"]\n",
            "user b: ",
        ),
        ("[serve]\nredis = \"127.0.0.1:0\"\n[serve.redis_set]\naclfile = \"none.acl\"\n", "none.acl"),
    ] {
        let ran = check(&dir, text, "");
        assert!(ran.code == 2 && ran.err.contains(part), "{text}: {ran:?}");
        let started = dir.run("serve --config esker.toml --admin off --dsl 127.0.0.1:0");
        assert!(started.code == 2 && started.err.contains(part), "{text}: {started:?}");
    }
    let guarded =
        "[serve]\nredis = \"0.0.0.0:0\"\ngrpc = \"0.0.0.0:0\"\n[serve.redis_set]\nrequirepass = \"x\"\n";
    assert_eq!(check(&dir, guarded, "").code, 0);
    let ran = dir.run("serve --config none.toml --check-config");
    assert!(ran.code == 4 && ran.err.contains("none.toml"), "{ran:?}");
}

#[test]
fn a_check_makes_and_serves_nothing() {
    let dir = WorkingDir::new();
    let text = "[serve]\ndata = \"served\"\n[serve.redis_set]\nlogfile = \"server.log\"\npidfile = \"pid\"\n";
    let ran = check(&dir, text, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["esker.toml"]);
    // The command line is checked as well, and without a file it is all there is.
    assert_eq!(check(&dir, text, "--redis nowhere").code, 2);
    assert_eq!(dir.ok("serve --check-config --redis 127.0.0.1:0"), "the command line: no mistake\n");
    dir.write("redis.conf", "maxclients 5\nfrobnicate yes\n");
    let warned = dir.ok("serve --check-config --redis-conf redis.conf");
    assert!(warned.starts_with("warning: redis.conf") && warned.contains("frobnicate"), "{warned}");
}

#[test]
fn the_example_of_the_package_has_no_mistake() {
    let dir = WorkingDir::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/config/esker.toml");
    let ran = dir.run(&format!("serve --config {example} --check-config"));
    assert_eq!(ran.code, 0, "{ran:?}");
    // What is commented out is right as well.
    let text = std::fs::read_to_string(example).unwrap();
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line))
        .collect();
    let ran = check(&dir, &uncommented.join("\n"), "");
    assert_eq!(ran.code, 0, "{ran:?}");
}
