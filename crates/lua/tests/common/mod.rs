//! A host for tests: commands go to a server or to nowhere, and time is a number of questions.

use esker_lua::{Engine, Host, Invocation, Limits, LogLevel, Script};
use esker_redis_testkit::{Client, encode};
use esker_resp::writer::Protocol;
use std::ops::ControlFlow;

/// What the error of an ended script says.
pub(crate) const KILLED: &str = "Script killed by user with SCRIPT KILL...";

/// Runs commands at a server, if there is one.
pub(crate) struct TestHost {
    /// For replies in RESP2 and RESP3.
    pub(crate) clients: Option<(Client, Client)>,
    /// After so many questions the script may not go on.
    pub(crate) questions: usize,
    /// What was logged.
    pub(crate) lines: Vec<(LogLevel, Vec<u8>)>,
    /// Replies of commands without a server, the last one first.
    pub(crate) replies: Vec<Vec<u8>>,
}

impl Default for TestHost {
    fn default() -> Self {
        Self { clients: None, questions: usize::MAX, lines: Vec::new(), replies: Vec::new() }
    }
}

impl TestHost {
    /// A host whose commands run at the server.
    #[allow(dead_code, reason = "not every test file has a server")]
    pub(crate) fn at(server: &esker_redis_testkit::Server) -> Self {
        let (resp2, mut resp3) = (server.connect(), server.connect());
        resp3.hello(3);
        Self { clients: Some((resp2, resp3)), ..Self::default() }
    }
}

impl Host for TestHost {
    fn call(&mut self, arguments: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        match &mut self.clients {
            Some((resp2, resp3)) => {
                let client = if protocol == Protocol::Resp2 { resp2 } else { resp3 };
                client.send(&encode(arguments));
                client.read();
                reply.extend_from_slice(client.raw());
            }
            None => reply.extend(self.replies.pop().unwrap_or_else(|| b"+OK\r\n".to_vec())),
        }
    }

    fn may_call(&mut self, arguments: &[&[u8]]) -> Option<bool> {
        match arguments.first()?.to_ascii_lowercase().as_slice() {
            b"get" => Some(true),
            b"acl" => Some(false),
            _ => None,
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.lines.push((level, text.to_vec()));
    }

    fn may_go_on(&mut self) -> ControlFlow<String> {
        match self.questions.checked_sub(1) {
            Some(left) => {
                self.questions = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(KILLED.to_owned()),
        }
    }
}

/// The reply of a script by an engine and a host.
#[allow(dead_code, reason = "not every test file runs scripts so")]
pub(crate) fn eval(
    engine: &mut Engine,
    host: &mut TestHost,
    script: &[u8],
    arguments: &[&[u8]],
    protocol: Protocol,
) -> Vec<u8> {
    let mut out = Vec::new();
    match Script::new(script) {
        Ok(script) => engine.run(&script, &Invocation { keys: &[], arguments, protocol }, host, &mut out),
        Err(text) => esker_resp::writer::ReplyWriter::new(&mut out, protocol).error(&text),
    }
    out
}

/// The reply of a script in RESP2 by an engine of its own, as text.
#[allow(dead_code, reason = "not every test file runs scripts so")]
pub(crate) fn reply(script: &str) -> String {
    let mut engine = Engine::new(Limits::default());
    let out = eval(&mut engine, &mut TestHost::default(), script.as_bytes(), &[], Protocol::Resp2);
    String::from_utf8_lossy(&out).into_owned()
}
