//! Rules, files and arguments that are meant to harm: none panics, and none takes more than linear memory or
//! much more than linear time.

mod server;

use esker_redis_commands::acl::{Denied, Users};
use esker_redis_commands::{find, fuzz, resolve, table};
use esker_redis_testkit::Random;

/// Valid rules, files and arguments, broken in every place: bytes removed, doubled, replaced.
#[test]
fn broken_bytes_are_refused_or_mean_something() {
    let mut numbers = Random::new(0x68_6f73);
    let valid: [&[u8]; 7] = [
        b"(+get|x ~a %R~b &c)\n%RW~*\n~key:[a-z]*",
        b"+client|list\n-@dangerous\n+@all",
        b"#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940\n&news.*\n(\"+get\" '~x')",
        b"user ann on nopass ~a* +@read (~b)\nuser default on >p ~* &* +@all",
        b"\x10key\n2\nSTORE\nSTREAMS\nKEYS\n3\nGET\nu8",
        b"\x80STREAMS\na\nb\n0\n0",
        b"\xf02\na\nb\nWEIGHTS\n1\n2",
    ];
    for _ in 0..20_000 {
        let mut bytes = numbers.pick(&valid).to_vec();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(bytes.len().max(1));
            match numbers.below(4) {
                0 => drop(bytes.drain(at..(at + 1).min(bytes.len()))),
                1 => bytes.insert(at.min(bytes.len()), *numbers.pick(b"()+-@~%&|#!<>\"'\\ \n\0\xff*[]^RW")),
                2 => bytes.extend_from_within(at.min(bytes.len())..),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << numbers.below(8)),
            }
        }
        fuzz::acl(&bytes);
        fuzz::command_keys(&bytes);
    }
}

#[test]
fn selectors_that_allow_nothing_by_form_are_refused() {
    let mut users = Users::new(false);
    for rule in [
        "%~",
        "%~x",
        "%",
        "%X~a",
        "%RR~a",
        "%R%W~a",
        "+@all(",
        "(%~)",
        "(+@all(",
        "(()",
        "+",
        "-",
        "+@",
        "+get|a b",
        "(\"~a)\" +get)",
        "('~a\"' +get)",
    ] {
        assert!(users.set_user(b"x", &[rule]).is_err(), "{rule}");
    }
    assert!(users.user(b"x").is_none());
}

/// Sixty-five thousand rules of one kind, which a quadratic search for equal ones would not finish.
#[test]
fn many_rules_are_taken_in_little_time() {
    let kinds: [fn(usize) -> String; 5] = [
        |number| format!("~key{number}"),
        |number| format!("&channel{number}"),
        |number| format!(">password{number}"),
        |number| format!("+get|{number}"),
        |_| "(+get ~a)".to_owned(),
    ];
    for kind in kinds {
        let rules: Vec<String> = (0..65_536).map(kind).collect();
        let mut users = Users::new(false);
        users.set_user(b"x", &rules).expect("right rules");
        let written = users.user(b"x").expect("the user").rules();
        assert!(written.len() >= 65_536 * 3);
    }
    let removals: Vec<String> = (0..65_536)
        .map(|number| format!(">p{number}"))
        .chain((0..65_536).map(|number| format!("<p{number}")))
        .collect();
    let mut users = Users::new(false);
    users.set_user(b"x", &removals).expect("right rules");
    assert!(!users.authenticate(b"x", b"p1"));
}

/// Every command with every key outside of what the user may use: it is denied, or it has no keys.
#[test]
fn no_command_reaches_a_key_that_its_user_may_not_use() {
    let mut users = Users::new(false);
    users.set_user(b"ann", &["on", "+@all", "~mine*"]).expect("right rules");
    let ann = users.user(b"ann").expect("ann");
    let mut scratch = Vec::new();
    for command in table::all().iter().filter(|command| !command.key_specs().is_empty()) {
        let mut arguments: Vec<&str> = command.name().split('|').collect();
        let names = arguments.len();
        let least = command.arity().unsigned_abs() as usize;
        arguments.resize(least.max(names + 3), "1");
        if command.arity() > 0 {
            arguments.truncate(least);
        }
        for streams in [false, true] {
            if streams && command.name().starts_with("xread") {
                let options: &[&str] = if command.name() == "xread" { &[] } else { &["GROUP", "g", "c"] };
                arguments = [&[command.name()], options, &["STREAMS", "theirs", "0"]].concat();
            }
            esker_redis_commands::keys(command, &arguments, &mut scratch);
            let found = !scratch.is_empty();
            let checked = ann.check(resolve(&arguments).expect("the command"), &arguments, &mut scratch);
            assert_eq!(matches!(checked, Err(Denied::Key(_))), found, "{arguments:?}");
            let always = !command.name().starts_with("xread") || streams;
            let not_keys = ["publish", "spublish", "ssubscribe", "sunsubscribe", "memory|usage"];
            let routed = not_keys.contains(&command.name()) && command.name() != "memory|usage";
            assert!(found || !always || routed, "{arguments:?} shows no key");
        }
    }
}

#[test]
fn keys_of_wrong_counts_do_not_open_a_way() {
    let mut users = Users::new(false);
    users.set_user(b"ann", &["on", "+@all", "~mine*", "(+@all %R~read*)"]).expect("right rules");
    let ann = users.user(b"ann").expect("ann");
    let check = |arguments: &[&str]| {
        ann.check(find(arguments[0].as_bytes()).expect("a command"), arguments, &mut Vec::new())
    };
    assert_eq!(check(&["eval", "s", "1", "theirs"]), Err(Denied::Key(3)));
    assert_eq!(check(&["eval", "s", "1x", "theirs"]), Err(Denied::Key(3)));
    assert_eq!(check(&["sort_ro", "theirs", "by", "mine"]), Err(Denied::Key(1)));
    assert_eq!(check(&["sort", "mine", "store", "theirs"]), Err(Denied::Key(3)));
    assert_eq!(check(&["georadius", "mine", "1", "1", "1", "m", "store", "theirs"]), Err(Denied::Key(7)));
    assert_eq!(check(&["migrate", "h", "1", "", "0", "1", "keys", "mine", "theirs"]), Err(Denied::Key(8)));
    assert_eq!(check(&["get", "read1"]), Ok(()));
    assert_eq!(check(&["set", "read1", "v"]), Err(Denied::Key(1)));
    assert_eq!(check(&["bitfield", "read1", "get", "u8", "0"]), Ok(()));
    assert_eq!(check(&["bitfield", "read1", "get", "u8", "0", "set", "u8", "0", "1"]), Err(Denied::Key(1)));
    // A command needs one selector for all of its keys.
    assert_eq!(check(&["copy", "read1", "mine"]), Err(Denied::Key(2)));
}
