//! How two replies to a request are compared. Byte for byte is the rule; the table has all exceptions, each
//! with the reason why Redis itself does not answer the same twice.

use super::request::full_name;
use esker_resp::value::Value;
use std::mem::discriminant;

/// How replies are compared, and what is done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The same bytes.
    Exact,
    /// The same elements in any order.
    Unordered,
    /// The same pairs of elements in any order.
    Pairs,
    /// Numbers may differ by what passes between the two requests.
    Near,
    /// Times of the clock and fields named for them may differ by that; fields of one implementation in all.
    Times,
    /// The same, or what only the left side has encoded anew.
    Encoding,
    /// The same kind of reply.
    Kind,
    /// Elements at random: as many of the same kinds, and all of them there, as this request lists them.
    Random(&'static str),
    /// Removes elements at random: removed from both as the left one did.
    Pop,
    /// A cursor: followed to its end on both sides; the same elements.
    Scan,
    /// An id from the clock: the right side is given that of the left one.
    AutoId,
    /// Makes a key that ends at once: followed by a wait until both have noticed.
    SoonExpired,
    /// As many replies as channels.
    Subscription,
}

impl Rule {
    /// Whether such a request stands alone: neither in a pipeline nor in a transaction.
    pub(super) fn stands_alone(self) -> bool {
        use Rule::{AutoId, Pop, Random, Scan, SoonExpired, Subscription};
        matches!(self, AutoId | Pop | Random(_) | Scan | SoonExpired | Subscription)
    }
}

/// Names of commands, their rule, and the reason.
type Row = (&'static str, Rule, &'static str);

const RULES: [Row; 34] = [
    (
        "object|encoding",
        Rule::Encoding,
        "in Redis SORT unpacks the sorted set that it reads, and SPOP rebuilds a set",
    ),
    (
        "smembers sinter sunion sdiff hkeys hvals keys",
        Rule::Unordered,
        "order of a hash table with a random seed",
    ),
    ("pubsub|channels pubsub|shardchannels acl|cat function|list", Rule::Unordered, "the same"),
    ("acl|list acl|users", Rule::Unordered, "the same"),
    ("hgetall config|get", Rule::Pairs, "the same"),
    ("srandmember", Rule::Random("SMEMBERS"), "random by contract"),
    ("hrandfield", Rule::Random("HGETALL"), "random by contract"),
    ("zrandmember", Rule::Random("ZRANGE"), "random by contract"),
    ("randomkey", Rule::Random("KEYS"), "random by contract"),
    ("spop", Rule::Pop, "random by contract"),
    ("scan sscan hscan zscan", Rule::Scan, "cursors are of one implementation"),
    ("subscribe psubscribe ssubscribe", Rule::Subscription, "one reply for each channel"),
    ("unsubscribe punsubscribe sunsubscribe", Rule::Subscription, "one reply for each channel"),
    ("ttl pttl expiretime pexpiretime", Rule::Near, "the clock moves between the two servers"),
    ("xpending", Rule::Near, "times since delivery"),
    ("object|idletime", Rule::Near, "seconds since the last use"),
    ("xinfo|stream xinfo|consumers xinfo|groups", Rule::Times, "times of delivery; nodes of the radix tree"),
    ("dump function|dump", Rule::Kind, "order of hash tables; compared by RESTORE on the other side"),
    ("object|refcount", Rule::Kind, "which copies of a number are one object is of one implementation"),
    ("time lastsave", Rule::Kind, "the clock"),
    ("info lolwut", Rule::Kind, "tells of one process"),
    ("hello", Rule::Kind, "has the connection's id"),
    ("client|id client|list client|info", Rule::Kind, "connections of one process"),
    ("client|trackinginfo role", Rule::Kind, "state of one process"),
    (
        "memory|usage memory|stats memory|doctor memory|malloc-stats",
        Rule::Kind,
        "memory of one implementation",
    ),
    ("slowlog|get slowlog|len", Rule::Kind, "depends on speed"),
    ("latency|latest latency|doctor latency|history", Rule::Kind, "depends on speed"),
    ("latency|histogram latency|reset latency|graph", Rule::Kind, "depends on speed"),
    ("acl|genpass", Rule::Kind, "random by contract"),
    ("acl|log", Rule::Kind, "times and connections"),
    ("function|stats", Rule::Kind, "engines"),
    (
        "command command|count command|docs command|info command|list",
        Rule::Kind,
        "descriptions are our own, and so are some commands; compared by tests of their crate",
    ),
    (
        "function|help acl|help client|help cluster|help command|help config|help latency|help",
        Rule::Kind,
        "own texts",
    ),
    (
        "memory|help module|help object|help pubsub|help script|help slowlog|help xgroup|help xinfo|help",
        Rule::Kind,
        "own texts",
    ),
];

/// The rule for a request.
pub(super) fn rule_of(request: &[Vec<u8>]) -> Rule {
    let name = full_name(request);
    let has =
        |word: &str| request.iter().skip(2).any(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
    match name.as_str() {
        "xadd" if has("*") => Rule::AutoId,
        "pexpire" if request.get(2).is_some_and(|time| time == b"1") => Rule::SoonExpired,
        // Members of one distance stand in no order, and COUNT cuts among them.
        name if is_search(name) && has("COUNT") => Rule::Kind,
        name if is_search(name) && (has("ASC") || has("DESC")) => Rule::Unordered,
        // No order, and a part of it.
        "sort" | "sort_ro" if has("LIMIT") && has("BY") => Rule::Kind,
        // Equal weights stand in no order, and sets have none.
        "sort" | "sort_ro" if !has("STORE") && has("BY") => Rule::Unordered,
        _ => RULES
            .iter()
            .find(|(names, ..)| names.split(' ').any(|one| one == name))
            .map_or(Rule::Exact, |row| row.1),
    }
}

fn is_search(name: &str) -> bool {
    name.starts_with("georadius") || name == "geosearch"
}

/// What the clock may have moved on between the two servers, in ms or s; generated times are far from it.
const NEAR: u64 = 20_000;

/// Whether two replies agree under a rule.
pub(super) fn agree(rule: Rule, left: &Value, right: &Value) -> bool {
    if left.error().is_some() || right.error().is_some() {
        return left == right;
    }
    match rule {
        Rule::Unordered => sorted(left) == sorted(right),
        Rule::Pairs => pairs(left) == pairs(right),
        Rule::Near => is_near(left, right),
        Rule::Times => same_but_times(left, right, None),
        Rule::Kind => discriminant(left) == discriminant(right),
        Rule::Encoding => {
            let is = |value: &Value, name: &[u8]| matches!(value, Value::Bulk(text) if text == name);
            left == right
                || is(left, b"skiplist") && is(right, b"listpack")
                || is(left, b"intset") && is(right, b"hashtable")
        }
        _ => format!("{left:?}") == format!("{right:?}"),
    }
}

/// Elements in one order, as text.
fn sorted(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = match value {
        Value::Array(items) | Value::Set(items) => items.iter().map(|item| format!("{item:?}")).collect(),
        other => vec![format!("{other:?}")],
    };
    texts.sort();
    texts.push(format!("{:?}", discriminant(value)));
    texts
}

fn pairs(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = match value {
        Value::Array(items) => items.chunks(2).map(|pair| format!("{pair:?}")).collect(),
        Value::Map(pairs) => pairs.iter().map(|pair| format!("{pair:?}")).collect(),
        other => vec![format!("{other:?}")],
    };
    texts.sort();
    texts.push(format!("{:?}", discriminant(value)));
    texts
}

fn is_near(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => a == b || *a >= 0 && *b >= 0 && a.abs_diff(*b) < NEAR,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_near(a, b))
        }
        _ => left == right,
    }
}

/// Whether values agree but for what is named as a time or of one implementation. `name` is what stands
/// before.
fn same_but_times(left: &Value, right: &Value, name: Option<&Value>) -> bool {
    let named = |names: &[&[u8]]| matches!(name, Some(Value::Bulk(name)) if names.contains(&&name[..]));
    match (left, right) {
        (Value::Integer(a), Value::Integer(b)) => {
            let is_time = *a > 1 << 40 || named(&[b"idle", b"inactive", b"seen-time", b"active-time"]);
            a == b || is_time && a.abs_diff(*b) < NEAR || named(&[b"radix-tree-keys", b"radix-tree-nodes"])
        }
        (Value::Array(a), Value::Array(b)) => {
            let names = std::iter::once(None).chain(a.iter().map(Some));
            a.len() == b.len() && a.iter().zip(b).zip(names).all(|((a, b), name)| same_but_times(a, b, name))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same_but_times(&a.1, &b.1, Some(&a.0)))
        }
        _ => left == right,
    }
}

/// All strings and numbers of a reply, as text.
pub(super) fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().flat_map(leaves).collect()
        }
        Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [leaves(key), leaves(value)].concat()).collect()
        }
        Value::Bulk(bytes) => vec![format!("\"{}\"", bytes.escape_ascii())],
        Value::Null | Value::NullBulk | Value::NullArray => Vec::new(),
        leaf => vec![format!("{leaf:?}")],
    }
}
