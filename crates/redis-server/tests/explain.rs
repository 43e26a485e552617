//! ESKER.EXPLAIN: what it tells of keys, walks, space, memory and stalls, and which users may ask.

mod common;

use common::TestServer;
use esker_redis_server::local_client::LocalClient;
use esker_redis_testkit::ExpectKind;
use esker_resp::value::Value;
use esker_resp::value_parser::ReplyParser;

fn call(client: &mut LocalClient<'_>, request: &[&[u8]]) -> Value {
    let reply = client.request(request);
    ReplyParser::default().parse(&reply).expect("a reply").reply.expect("a whole one")
}

fn words(client: &mut LocalClient<'_>, request: &str) -> Value {
    call(client, &request.split_whitespace().map(str::as_bytes).collect::<Vec<_>>())
}

fn text(client: &mut LocalClient<'_>, request: &str) -> String {
    String::from_utf8(words(client, request).bulk()).expect("text")
}

/// The text of an error.
fn error(client: &mut LocalClient<'_>, request: &str) -> String {
    let reply = words(client, request);
    String::from_utf8_lossy(reply.error().unwrap_or_else(|| panic!("{request}: {reply:?}"))).into_owned()
}

/// The whole number behind the first `"name":` of a JSON text.
fn figure(json: &str, name: &str) -> u64 {
    let start = json.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} is not in {json}"));
    let digits = json[start + name.len() + 3..].bytes().take_while(u8::is_ascii_digit);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

#[test]
fn a_key_is_explained_by_its_name_and_its_record() {
    let server = TestServer::new("explain-get");
    let mut client = server.client();
    words(&mut client, "set user:17 Ada");
    words(&mut client, "select 3");
    let elsewhere = text(&mut client, "esker.explain get user:17");
    assert!(elsewhere.contains("of database 3") && elsewhere.contains("no value"), "{elsewhere}");
    words(&mut client, "select 0");
    let told = text(&mut client, "ESKER.EXPLAIN GET user:17");
    let first = told.lines().next().expect("a line");
    assert!(
        first.starts_with(
            "record of the key \"user:17\" of database 0, which keyspace redis/keys has as \"\\x00\\x00user:17\": \
             a string, its value is in the record;"
        ),
        "{told}"
    );
    assert!(told.lines().count() >= 3 && told.trim_end().ends_with('.'), "{told}");
    let json = text(&mut client, "esker.explain get user:17 json");
    assert!(
        json.starts_with("{\"what\":\"record of the key \\\"user:17\\\"") && json.ends_with("\"}"),
        "{json}"
    );
    assert_eq!(figure(&json, "memtables_searched"), 1, "{json}");
    // Elements have keyspaces of their own.
    for number in 0..1000 {
        words(&mut client, &format!("hset large field{number} {}", "v".repeat(100)));
    }
    let hash = text(&mut client, "esker.explain get large");
    assert!(hash.contains("a hash, its elements are in keyspace redis/elements behind \""), "{hash}");
    // Keys are bytes.
    call(&mut client, &[b"set", b"\xff\"\0", b"1"]);
    let odd = call(&mut client, &[b"esker.explain", b"get", b"\xff\"\0", b"JSON"]).bulk();
    assert!(String::from_utf8(odd).expect("text").contains(r#"the key \"\\xff\\\"\\x00\" of database 0"#));
    let long = vec![b'k'; 65_526];
    assert!(call(&mut client, &[b"esker.explain", b"get", &long]).error().is_some());
    // Databases that were exchanged lie elsewhere.
    words(&mut client, "swapdb 0 3");
    assert!(text(&mut client, "esker.explain get user:17").contains("no value"));
    words(&mut client, "select 3");
    let moved = text(&mut client, "esker.explain get user:17");
    assert!(moved.contains("of database 3") && moved.contains("a string"), "{moved}");
}

#[test]
fn a_walk_meets_the_keys_of_the_database_alone() {
    let server = TestServer::new("explain-scan");
    let mut client = server.client();
    for db in [0, 1, 2] {
        words(&mut client, &format!("select {db}"));
        for number in 0..50 {
            words(&mut client, &format!("set user:{number:02} {db}"));
            words(&mut client, &format!("set other:{number:02} {db}"));
        }
    }
    words(&mut client, "select 1");
    words(&mut client, "del user:07");
    for (request, entries) in [
        ("", 99),
        ("prefix user:", 49),
        ("PREFIX user:0", 9),
        ("prefix user: from user:10", 40),
        ("prefix user: to user:10", 9),
        ("prefix user: from a to z", 49),
        ("from user:10 to user:20", 10),
        ("from user:20 to user:10", 0),
        ("prefix user: from z", 0),
        ("from user:10 rev", 40),
        ("limit 7", 7),
        ("prefix nothing", 0),
    ] {
        let json = text(&mut client, &format!("esker.explain scan {request} json"));
        assert_eq!(figure(&json, "entries_returned"), entries, "{request}: {json}");
    }
    let told = text(&mut client, "esker.explain scan prefix user: from user:10 rev limit 5");
    assert!(
        told.starts_with(
            "reverse walk over the keys of database 1 beginning with \"user:\" from \"user:10\", in keyspace \
             redis/keys: 5 entries, to the limit; "
        ),
        "{told}"
    );
    for wrong in
        ["limit", "limit 0", "limit x", "limit 1000001", "prefix", "json json", "json rev", "count 1"]
    {
        assert!(error(&mut client, &format!("esker.explain scan {wrong}")).starts_with("ERR"), "{wrong}");
    }
}

#[test]
fn space_memory_puts_and_stalls_are_explained() {
    let server = TestServer::new("explain-rest");
    let mut client = server.client();
    words(&mut client, "set key value");
    for (subject, beginning) in [
        ("space", "database; "),
        ("memory", "process, anonymous memory"),
        ("put", "put in keyspace redis/keys"),
    ] {
        let told = text(&mut client, &format!("esker.explain {subject}"));
        assert!(told.starts_with(beginning) && told.lines().count() > 2, "{told}");
    }
    for subject in ["space", "memory", "put", "stall"] {
        let json = text(&mut client, &format!("esker.explain {subject} JSON"));
        assert!(json.starts_with("{\"what\":") && json.contains("\"conclusion\":\""), "{json}");
        assert_eq!(error(&mut client, &format!("esker.explain {subject} xml")), "ERR syntax error");
        assert_eq!(error(&mut client, &format!("esker.explain {subject} json json")), "ERR syntax error");
    }
    assert!(error(&mut client, "esker.explain nothing").starts_with("ERR unknown subcommand"));
    assert!(error(&mut client, "esker.explain").contains("wrong number of arguments"));
    assert!(words(&mut client, "esker.explain help").array().len() > 10);
}

#[test]
fn users_may_ask_what_their_rules_say() {
    let server = TestServer::new("explain-acl");
    let mut client = server.client();
    words(&mut client, "acl setuser ann on nopass ~a* +@read -@dangerous");
    words(&mut client, "acl setuser bob on nopass ~* +@all -@admin");
    words(&mut client, "acl setuser eve on nopass +esker.explain|space");
    let dry = |client: &mut LocalClient<'_>, request: &str| words(client, &format!("acl dryrun {request}"));
    let may = |reply: Value| matches!(reply, Value::Status(text) if text == b"OK");
    assert!(may(dry(&mut client, "ann esker.explain get a1")));
    assert!(!may(dry(&mut client, "ann esker.explain get b1")), "a key that ann may not read");
    assert!(!may(dry(&mut client, "ann esker.explain scan")), "a walk meets keys of all names");
    assert!(may(dry(&mut client, "bob esker.explain get b1")));
    for subject in ["scan", "space", "memory", "put", "stall"] {
        assert!(!may(dry(&mut client, &format!("bob esker.explain {subject}"))), "{subject}");
    }
    assert!(may(dry(&mut client, "eve esker.explain space json")));
    assert!(!may(dry(&mut client, "eve esker.explain memory")));
}

/// What it measures is committed, so it neither waits for the end of a transaction nor sees into one.
#[test]
fn it_stands_alone() {
    let server = TestServer::new("explain-alone");
    let mut client = server.client();
    words(&mut client, "multi");
    assert!(error(&mut client, "esker.explain get a").contains("not allowed inside a transaction"));
    words(&mut client, "discard");
    let script = call(&mut client, &[b"eval", b"return redis.call('esker.explain','get','a')", b"0"]);
    assert!(script.error().is_some(), "{script:?}");
    // A pipeline's earlier command is seen.
    let replies = client.request(&[b"set".as_slice(), b"a", b"1"]);
    assert_eq!(replies, b"+OK\r\n");
    assert!(text(&mut client, "esker.explain get a").contains("a string"));
    let keys = words(&mut client, "command getkeys esker.explain get a json").array();
    assert_eq!(keys.into_iter().map(Value::bulk).collect::<Vec<_>>(), [b"a".to_vec()]);
}
