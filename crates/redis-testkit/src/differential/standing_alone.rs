//! Requests whose effect or replies are random, or come from the clock: sent alone, and made the same.

use super::pair::{Disagreement, Pair, Reply, Side, disagreement, encoded};
use super::request::{Request, words};
use super::rules::{Rule, agree, leaves, rule_of};
use esker_resp::value::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often both sides are asked whether a key has ended, every [`GLANCE`].
const GLANCES: u32 = 400;
const GLANCE: Duration = Duration::from_millis(5);
/// Pages of a scan; more mean that it has no end.
const PAGES_MAX: usize = 10_000;

/// Runs a request that stands alone, and returns the left reply.
pub(super) fn run_alone(pair: &mut Pair, at: usize, request: &Request) -> Result<Value, Disagreement> {
    let rule = rule_of(request);
    let before = match rule {
        Rule::Random(probe) => Some(pair.left.call(&members(probe, request))),
        Rule::Pop => Some(pair.left.call(&members("SMEMBERS", request))),
        _ => None,
    };
    if rule == Rule::Subscription {
        return subscription(pair, at, request);
    }
    let left = pair.left.call(request);
    let right = if rule == Rule::AutoId {
        pair.right.call(&with_id(request, &left.value))
    } else {
        pair.right.call(request)
    };
    let refused = || disagreement(at, request, &left.raw, &right.raw);
    let is_error = left.value.error().is_some() || right.value.error().is_some();
    if is_error || matches!(rule, Rule::AutoId | Rule::SoonExpired) {
        if left.raw != right.raw || left.is_missing() {
            return Err(refused());
        }
        if rule == Rule::SoonExpired && left.value == Value::Integer(1) {
            wait_for_the_end(pair, at, request)?;
        }
        return Ok(left.value);
    }
    let agreed = match rule {
        Rule::Scan => return scan(pair, at, request, left, right),
        Rule::Pop | Rule::Random(_) => {
            let all = before.map(|reply| leaves(&reply.value)).unwrap_or_default();
            let drawn = leaves(&right.value);
            shape(&left.value) == shape(&right.value) && drawn.iter().all(|leaf| all.contains(leaf))
        }
        _ => agree(rule, &left.value, &right.value),
    };
    if !agreed {
        return Err(refused());
    }
    if rule == Rule::Pop {
        remove_the_same(&mut pair.right, &request[1], &left.value, &right.value);
    }
    Ok(left.value)
}

/// The request that lists what a random one draws from.
fn members(probe: &str, request: &Request) -> Request {
    let key = request.get(1).cloned().unwrap_or_default();
    match probe {
        "KEYS" => words("KEYS *"),
        "ZRANGE" => [vec![b"ZRANGE".to_vec(), key], words("0 -1 WITHSCORES")].concat(),
        _ => vec![probe.as_bytes().to_vec(), key],
    }
}

/// The kinds of all parts of a reply.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("*{:?}", items.iter().map(shape).collect::<Vec<_>>()),
        Value::Set(items) => format!("~{:?}", items.iter().map(shape).collect::<Vec<_>>()),
        other => format!("{:?}", std::mem::discriminant(other)),
    }
}

/// Gives the right set what only it lost, and takes what only the left one lost.
fn remove_the_same(right: &mut Side, key: &[u8], left_drawn: &Value, right_drawn: &Value) {
    let strings = |value: &Value| match value {
        Value::Array(items) | Value::Set(items) => items.clone(),
        Value::Bulk(_) => vec![value.clone()],
        _ => Vec::new(),
    };
    let (left_drawn, right_drawn) = (strings(left_drawn), strings(right_drawn));
    for (command, from, without) in [("SADD", &right_drawn, &left_drawn), ("SREM", &left_drawn, &right_drawn)]
    {
        for member in from {
            if let Value::Bulk(bytes) = member
                && !without.contains(member)
            {
                right.call(&[command.as_bytes().to_vec(), key.to_vec(), bytes.clone()]);
            }
        }
    }
}

/// The request with the id that the other side took from its clock.
fn with_id(request: &Request, id: &Value) -> Request {
    let mut request = request.clone();
    if let Value::Bulk(id) = id
        && let Some(star) = request.iter_mut().skip(2).find(|argument| &argument[..] == b"*")
    {
        star.clone_from(id);
    }
    request
}

/// Follows a scan that began at zero to its end on both sides.
fn scan(
    pair: &mut Pair,
    at: usize,
    request: &Request,
    left: Reply,
    right: Reply,
) -> Result<Value, Disagreement> {
    let cursor = if request[0].eq_ignore_ascii_case(b"SCAN") { 1 } else { 2 };
    let first = left.value.clone();
    if shape(&left.value).len().min(9) != shape(&right.value).len().min(9) {
        return Err(disagreement(at, request, &left.raw, &right.raw));
    }
    if request[cursor] != b"0" {
        return Ok(first);
    }
    let pairs = request[0].eq_ignore_ascii_case(b"HSCAN") || request[0].eq_ignore_ascii_case(b"ZSCAN");
    let left = pages(&mut pair.left, request, cursor, left, if pairs { 2 } else { 1 });
    let right = pages(&mut pair.right, request, cursor, right, if pairs { 2 } else { 1 });
    if left != right {
        let question = [request.clone(), words("... to its end")].concat();
        return Err(disagreement(
            at,
            &question,
            format!("{left:?}").as_bytes(),
            format!("{right:?}").as_bytes(),
        ));
    }
    Ok(first)
}

/// All that a scan shows. A scan without end has a text that no scan with one has.
fn pages(
    side: &mut Side,
    request: &Request,
    cursor: usize,
    first: Reply,
    per_element: usize,
) -> BTreeSet<String> {
    let (mut seen, mut reply, mut request) = (BTreeSet::new(), first.value, request.clone());
    for _ in 0..PAGES_MAX {
        let Value::Array(parts) = &reply else { break };
        let [Value::Bulk(next), Value::Array(items)] = &parts[..] else { break };
        seen.extend(
            items.chunks(per_element).map(|part| part.iter().flat_map(leaves).collect::<Vec<_>>().join(" ")),
        );
        if next == b"0" {
            return seen;
        }
        request[cursor].clone_from(next);
        reply = side.call(&request).value;
    }
    seen.insert(format!("(no end; last {reply:?})"));
    seen
}

/// Waits until both sides count the same keys again: one of them may notice an end late.
fn wait_for_the_end(pair: &mut Pair, at: usize, request: &Request) -> Result<(), Disagreement> {
    #![expect(clippy::disallowed_methods, reason = "the clock of another process cannot be moved")]
    let exists = vec![b"EXISTS".to_vec(), request[1].clone()];
    let mut replies = Vec::new();
    for _ in 0..GLANCES {
        std::thread::sleep(GLANCE);
        let (exists, size) = (pair.call(&exists), pair.call(&words("DBSIZE")));
        let gone = Value::Integer(0);
        if exists.0.value == gone && exists.1.value == gone && size.0.raw == size.1.raw {
            return Ok(());
        }
        replies = vec![[exists.0.raw, size.0.raw].concat(), [exists.1.raw, size.1.raw].concat()];
    }
    let question = [request.clone(), words("... and, two seconds later, EXISTS and DBSIZE")].concat();
    Err(disagreement(at, &question, &replies[0], &replies[1]))
}

/// A request with several replies: all before that of a PING behind it.
fn subscription(pair: &mut Pair, at: usize, request: &Request) -> Result<Value, Disagreement> {
    let (left, right) =
        (replies_before_ping(&mut pair.left, request), replies_before_ping(&mut pair.right, request));
    // Without channels the order is that of a hash table, so names and counts are compared apart.
    let comparable = |replies: &[Value]| {
        let mut texts: Vec<String> = match request.len() {
            1 => replies.iter().flat_map(leaves).collect(),
            _ => replies.iter().map(|reply| leaves(reply).join(" ")).collect(),
        };
        if request.len() == 1 {
            texts.sort();
        }
        texts
    };
    let (texts, right) = (comparable(&left), comparable(&right));
    if texts != right {
        let (left, right) = (texts.join(", "), right.join(", "));
        return Err(disagreement(at, request, left.as_bytes(), right.as_bytes()));
    }
    Ok(left.into_iter().next().unwrap_or(Value::Null))
}

/// Whether a push answers a subscription, and is no message.
fn is_about_channels(push: &Value) -> bool {
    matches!(push, Value::Push(parts) if matches!(&parts[..], [Value::Bulk(kind), ..] if kind.ends_with(b"subscribe")))
}

fn replies_before_ping(side: &mut Side, request: &Request) -> Vec<Value> {
    let fence = Value::Bulk(b"fence".to_vec());
    let bytes = [encoded(request), encoded(&words("PING fence"))].concat();
    side.client.try_send(&bytes).unwrap_or_default();
    let mut replies = Vec::new();
    loop {
        let reply = side.read().value;
        let (told, messages) = side.client.take_pushes().into_iter().partition(is_about_channels);
        replies.extend::<Vec<_>>(told);
        side.messages.extend::<Vec<_>>(messages);
        let is_pong = |items: &[Value]| items.first() == Some(&Value::Bulk(b"pong".to_vec()));
        if reply == fence || matches!(&reply, Value::Array(items) if is_pong(items)) {
            return replies;
        }
        let ended = reply.error().is_some_and(|text| text.starts_with(b"(no reply"));
        replies.push(reply);
        if ended {
            return replies;
        }
    }
}
