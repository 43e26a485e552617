//! Scripts beside a real `redis-server`: the same bytes in both protocols.

mod common;

use common::{TestHost, eval};
use esker_lua::{Engine, Limits};
use esker_redis_testkit::Server;
use esker_resp::writer::Protocol;

/// One script a line.
const SCRIPTS: &str = include_str!("scripts.txt");

#[test]
fn scripts_reply_as_redis_does() {
    let (Some(server), Some(store)) = (Server::redis(&[]), Server::redis(&[])) else { return };
    let mut wrong = Vec::new();
    for (version, protocol) in [(2, Protocol::Resp2), (3, Protocol::Resp3)] {
        let mut client = server.connect();
        client.hello(version);
        let mut engine = Engine::new(Limits::default());
        let mut host = TestHost::at(&store);
        for script in SCRIPTS.lines().filter(|line| !line.is_empty() && !line.starts_with("--")) {
            let script = script.replace("\\n", "\n");
            client.call(&[b"EVAL", script.as_bytes(), b"0", b"one", b"2"]);
            let expected = String::from_utf8_lossy(client.raw()).into_owned();
            let found = eval(&mut engine, &mut host, script.as_bytes(), &[b"one", b"2"], protocol);
            let found = String::from_utf8_lossy(&found).into_owned();
            if found != expected {
                wrong.push(format!("{protocol:?} {script}\n  redis: {expected:?}\n  here:  {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
