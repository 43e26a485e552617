//! Sends requests to both servers, in pipelines or alone, and judges the replies; follows MULTI and EXEC.

use super::pair::{Disagreement, PIPELINE_BYTES, Pair, Reply, Side, disagreement, encoded};
use super::request::{Request, full_name, words};
use super::rules::{Rule, agree, leaves, rule_of};
use super::standing_alone::run_alone;
use esker_resp::value::Value;
use std::time::Duration;

/// How often is looked for pushes that one side has and the other does not.
const GLANCE: Duration = Duration::from_millis(5);

/// The question whose answers are pushes.
pub(super) const PUSHES: &str = "(pushes before here)";

/// Two servers and what is known of their connections.
#[derive(Debug)]
pub(super) struct Lockstep {
    pair: Pair,
    /// Rules of the requests that wait for EXEC.
    queued: Option<Vec<Rule>>,
}

impl Lockstep {
    pub(super) fn new(pair: Pair) -> Self {
        Self { pair, queued: None }
    }

    /// Sends all requests to both; ends at the first disagreement. `seen` is told each left reply.
    pub(super) fn run(
        &mut self,
        requests: &[Request],
        seen: &mut dyn FnMut(&Request, &Value),
    ) -> Result<(), Disagreement> {
        let mut at = 0;
        while at < requests.len() {
            let (mut end, mut bytes) = (at, Vec::new());
            while end < requests.len()
                && bytes.len() < PIPELINE_BYTES
                && !rule_of(&requests[end]).stands_alone()
            {
                bytes.extend(encoded(&requests[end]));
                end += 1;
            }
            self.pair.send(&bytes);
            for (at, request) in (at..end).zip(&requests[at..end]) {
                let (left, right) = self.pair.read();
                seen(request, &left.value);
                self.judge(at, request, &left, &right)?;
            }
            at = end;
            if let Some(request) = requests.get(at)
                && rule_of(request).stands_alone()
            {
                if self.queued.is_none() {
                    let value = run_alone(&mut self.pair, at, request)?;
                    seen(request, &value);
                }
                at += 1;
            }
        }
        self.judge_pushes(at)
    }

    /// Compares the replies to a request; knows which requests were queued for EXEC.
    fn judge(
        &mut self,
        at: usize,
        request: &Request,
        left: &Reply,
        right: &Reply,
    ) -> Result<(), Disagreement> {
        let name = full_name(request);
        let is_queued = left.value == Value::Status(b"QUEUED".to_vec());
        let rule = if is_queued { Rule::Exact } else { rule_of(request) };
        let queued = match (name.as_str(), &left.value) {
            (
                "exec" | "discard" | "reset",
                Value::Array(_) | Value::Status(_) | Value::Null | Value::NullArray,
            ) => self.queued.take(),
            // EXECABORT ends a transaction, too.
            ("exec", Value::Error(text)) if text.starts_with(b"EXECABORT") => self.queued.take(),
            _ => None,
        };
        // Silence of both is no agreement.
        let agreed = !left.is_missing() && left.raw == right.raw
            || match (queued, &left.value, &right.value) {
                (Some(rules), Value::Array(a), Value::Array(b)) => {
                    a.len() == b.len()
                        && rules.iter().zip(a.iter().zip(b)).all(|(rule, (a, b))| agree(*rule, a, b))
                }
                _ => rule != Rule::Exact && agree(rule, &left.value, &right.value),
            };
        if !agreed {
            return Err(disagreement(at, request, &left.raw, &right.raw));
        }
        if name == "multi" && left.value == Value::Status(b"OK".to_vec()) {
            self.queued = Some(Vec::new());
        } else if is_queued && let Some(queued) = &mut self.queued {
            queued.push(rule_of(request));
        }
        Ok(())
    }

    /// Compares the pushes of all requests so far. A server may write them before the reply of the command
    /// that caused them, as Redis does for the client itself, or a moment later.
    fn judge_pushes(&mut self, at: usize) -> Result<(), Disagreement> {
        #![expect(clippy::disallowed_methods, reason = "the clock of another process cannot be moved")]
        // One message for several patterns of a client comes in the order of a hash table.
        let texts = |side: &mut Side| {
            let pushes = side.messages.drain(..).chain(side.client.take_pushes());
            pushes.map(|push| leaves(&push).join(" ")).collect::<Vec<_>>()
        };
        let (mut left, mut right) = (texts(&mut self.pair.left), texts(&mut self.pair.right));
        for _ in 0..self.pair.patience.as_millis() / GLANCE.as_millis() {
            left.sort();
            right.sort();
            if left == right {
                return Ok(());
            }
            std::thread::sleep(GLANCE);
            self.pair.call(&words("PING"));
            left.append(&mut texts(&mut self.pair.left));
            right.append(&mut texts(&mut self.pair.right));
        }
        let question = vec![PUSHES.into()];
        Err(disagreement(at, &question, left.join(", ").as_bytes(), right.join(", ").as_bytes()))
    }
}
