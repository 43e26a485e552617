//! Access control is that of Redis 7.0.15: what rules mean, how users are written, what is denied.
#![expect(clippy::disallowed_methods, reason = "the server reads its users from the machine's files")]

mod server;

use esker_redis_commands::acl::{self, Users};
use esker_redis_commands::{Command, Names, Reply, find_full, table};
use esker_redis_testkit::{Random, Server};
use server::{Commands, encoded};

/// The words of rules, with single commands after a `-@all` or `+@all` sorted: Redis lists them in an order
/// that depends on a random seed. Those that Redis does not have are left out.
fn with_sorted_commands(rules: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(rules).into_owned();
    let mut sorted: Vec<String> = Vec::new();
    let mut commands: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let open = word.starts_with('(');
        let closes = word.ends_with(')');
        let bare = word.trim_end_matches(')').replace("%RW~*", "~*");
        let bare = bare.as_str();
        let single =
            (bare.starts_with('+') || bare.starts_with('-')) && bare.as_bytes().get(1) != Some(&b'@');
        if single && !bare[1..].starts_with("esker.") {
            commands.push(bare.to_owned());
        }
        if !single || open {
            flush(&mut commands, &mut sorted);
            sorted.push(bare.to_owned());
        }
        if closes {
            flush(&mut commands, &mut sorted);
            sorted.push(")".to_owned());
        }
    }
    flush(&mut commands, &mut sorted);
    sorted.join(" ").into_bytes()
}

fn flush(commands: &mut Vec<String>, sorted: &mut Vec<String>) {
    commands.sort();
    sorted.append(commands);
}

/// A reply with all bulk strings that are rules in one order of commands.
fn comparable(reply: Reply) -> Reply {
    match reply {
        Reply::Bulk(bytes) => Reply::Bulk(with_sorted_commands(&bytes).into()),
        Reply::Array(items) => Reply::Array(items.into_iter().map(comparable).collect()),
        Reply::Map(pairs) => {
            Reply::Map(pairs.into_iter().map(|(key, value)| (key, comparable(value))).collect())
        }
        other => other,
    }
}

fn assert_same(ours: Reply, theirs: Reply, what: &str) {
    let (ours, theirs) = (encoded(&comparable(ours), 3), encoded(&comparable(theirs), 3));
    assert!(
        ours == theirs,
        "{what}\nours:   {}\ntheirs: {}",
        String::from_utf8_lossy(&ours),
        String::from_utf8_lossy(&theirs)
    );
}

/// What `ACL SETUSER` answers.
fn set_user(users: &mut Users, name: &[u8], rules: &[Vec<u8>]) -> Reply {
    users.set_user(name, rules).map_or_else(Reply::error, |()| Reply::OK)
}

const PATTERNS: [&str; 12] =
    ["a", "a*", "*", "key:*", "[ab]", "?", "", "x y", "\u{e9}", "a\\*", "b*c", "key:[0-9]"];

/// A random rule, mostly a right one.
fn rule(numbers: &mut Random, depth: usize) -> Vec<u8> {
    let command = any_of_redis(numbers).name();
    let category = *numbers.pick(&[
        "read",
        "write",
        "fast",
        "slow",
        "admin",
        "dangerous",
        "keyspace",
        "string",
        "connection",
        "scripting",
        "pubsub",
        "blocking",
        "hash",
        "nope",
        "ALL",
        "SET",
    ]);
    let pattern = PATTERNS[numbers.below(PATTERNS.len())];
    let sign = *numbers.pick(&["+", "-"]);
    let text = match numbers.below(30) {
        0..=6 => format!("{sign}{command}"),
        7..=11 => format!("{sign}@{category}"),
        12 => format!("{sign}{}", command.to_uppercase()),
        13 => format!("+{command}|{}", pattern.replace(' ', "")),
        14 => format!("+select|{}", numbers.pick(&["0", "1", "A", "a", ""])),
        15 => format!("+get|{}", pattern.replace(' ', "")),
        16..=17 => format!("~{pattern}"),
        18 => format!("%{}~{pattern}", numbers.pick(&["R", "W", "RW", "wr", "", "RR", "X"])),
        19 => format!("%{}", numbers.pick(&["R", "W", "RW", "", "~", "~~", "R~", "~R"])),
        20..=21 => format!("&{pattern}"),
        22 => (*numbers.pick(&[
            "allkeys",
            "resetkeys",
            "allchannels",
            "resetchannels",
            "allcommands",
            "nocommands",
            "ALLKEYS",
            "&*",
            "~*",
        ]))
        .to_owned(),
        23 => (*numbers.pick(&[
            "on",
            "off",
            "nopass",
            "resetpass",
            "reset",
            "ON",
            "clearselectors",
            "skip-sanitize-payload",
            "sanitize-payload",
            "",
        ]))
        .to_owned(),
        24 => format!(">{}", numbers.pick(&["p", "q", "", "a b"])),
        25 => format!("<{}", numbers.pick(&["p", "q", "", "z"])),
        26 => format!(
            "{}{}",
            numbers.pick(&["#", "!"]),
            numbers.pick(&[
                "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
                "148DE9C5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
                "12",
                ""
            ])
        ),
        27..=28 if depth == 0 => return selector(numbers),
        _ => (*numbers.pick(&[
            "frob",
            "+",
            "-",
            "+@",
            "-@",
            "+|",
            "+||",
            "+client|",
            "+client|list|x",
            "(",
            ")",
            "()",
            "( )",
            "(a",
            "a)",
            "(\"+get)",
            "(+get 'x y')",
            "(\"+get\" ~a)",
            "\\",
            "(~a\t+get)",
        ]))
        .to_owned(),
    };
    text.into_bytes()
}

/// Rules in brackets.
/// A command that Redis has as well.
fn any_of_redis(numbers: &mut Random) -> &'static Command {
    loop {
        let command = numbers.pick(table::all());
        if !command.is_extension() {
            return command;
        }
    }
}

/// Names of commands without those that Redis does not have.
fn without_extensions(names: Reply) -> Reply {
    let Reply::Array(mut names) = names else { return names };
    let is_own = |name: &Reply| match name {
        Reply::Bulk(name) => find_full(name).is_some_and(Command::is_extension),
        _ => false,
    };
    names.retain(|name| !is_own(name));
    Reply::Array(names)
}

fn selector(numbers: &mut Random) -> Vec<u8> {
    let rules: Vec<Vec<u8>> = (0..numbers.below(5)).map(|_| rule(numbers, 1)).collect();
    let mut text = b"(".to_vec();
    text.extend(rules.join(&b' '));
    text.push(b')');
    text
}

/// The commands that are tried as the user.
fn tried(numbers: &mut Random) -> Vec<String> {
    let command = any_of_redis(numbers);
    let mut arguments: Vec<String> = command.name().split('|').map(str::to_owned).collect();
    let least = command.arity().unsigned_abs() as usize;
    let more = if command.arity() > 0 { 0 } else { numbers.below(4) };
    while arguments.len() < least + more {
        let words =
            ["a", "ab", "key:1", "key:x", "b", "1", "2", "", "GET", "STORE", "STREAMS", "0", "bxc", "a*"];
        arguments.push((*numbers.pick(&words)).to_owned());
    }
    arguments
}

#[test]
fn random_rules_mean_what_they_mean_to_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 3);
    let mut numbers = Random::new(0x61_636c);
    let mut users = Users::new(false);
    for round in 0..1_500 {
        let name = numbers.pick(&[&b"ann"[..], b"bob", b"eve", b"default2", b"a b"]).to_vec();
        let few = numbers.below(4) > 0;
        let rules: Vec<Vec<u8>> =
            (0..numbers.below(if few { 4 } else { 25 })).map(|_| rule(&mut numbers, 0)).collect();
        let mut request = vec![b"ACL".to_vec(), b"SETUSER".to_vec(), name.clone()];
        request.extend(rules.iter().cloned());
        let theirs = client.call(&request);
        let shown: Vec<_> = rules.iter().map(|rule| String::from_utf8_lossy(rule).into_owned()).collect();
        assert_same(set_user(&mut users, &name, &rules), theirs, &format!("round {round}: {shown:?}"));
        let request = [&b"ACL"[..], b"GETUSER", &name];
        assert_same(users.get_user(&name), client.call(&request), &format!("round {round}: {shown:?}"));
        for _ in 0..6 {
            let arguments = tried(&mut numbers);
            let mut request = vec![b"ACL".to_vec(), b"DRYRUN".to_vec(), name.clone()];
            request.extend(arguments.iter().map(|argument| argument.clone().into_bytes()));
            assert_same(
                users.dry_run(&Names::default(), &name, &arguments),
                client.call(&request),
                &format!("{arguments:?}"),
            );
        }
        if round % 10 == 0 {
            assert_same(users.list(), client.call(&["ACL", "LIST"]), "ACL LIST");
            assert_same(users.names(), client.call(&["ACL", "USERS"]), "ACL USERS");
            let mut read = Users::new(false);
            assert_eq!(read.load(&users.save(), b"users.acl"), Ok(()), "what is written can be read");
        }
    }
}

#[test]
fn replies_about_categories_users_and_passwords_are_those_of_redis() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut client = Commands::connect(&server, 3);
    let names = |reply: Reply| match reply {
        Reply::Array(mut items) => {
            items.sort_by_key(|item| encoded(item, 3));
            Reply::Array(items)
        }
        other => other,
    };
    assert_eq!(acl::category_list(None), client.call(&["ACL", "CAT"]));
    let long = "x".repeat(200);
    for category in ["read", "SLOW", "scripting", "nope", "", &long] {
        let ours = without_extensions(acl::category_list(Some(category.as_bytes())));
        assert_eq!(names(ours), names(client.call(&["ACL", "CAT", category])), "{category}");
    }
    let users = Users::new(false);
    for name in ["default", "nobody-of-this-name"] {
        assert_eq!(encoded(&users.get_user(name.as_bytes()), 3), {
            client.call(&["ACL", "GETUSER", name]);
            client.client.raw().to_vec()
        });
    }
    for arguments in
        [&["x", "get", "k"][..], &["default", "nope"], &["default", "get"], &["default", "client", "x"]]
    {
        let request = [&["ACL", "DRYRUN"], arguments].concat();
        assert_eq!(
            users.dry_run(&Names::default(), arguments[0].as_bytes(), &arguments[1..]),
            client.call(&request)
        );
    }
    for bits in ["0", "-1", "4097", "x", "", "01", "99999999999999999999"] {
        let ours = acl::genpass(Some(bits.as_bytes()), |_| {});
        assert_eq!(ours, client.call(&["ACL", "GENPASS", bits]), "{bits}");
    }
    for bits in [1_usize, 4, 5, 8, 9, 256, 4096] {
        let length = |reply: Reply| matches!(reply, Reply::Bulk(text) if text.len() == bits.div_ceil(4));
        assert!(length(acl::genpass(Some(bits.to_string().as_bytes()), |bytes| bytes.fill(0xab))));
        assert!(length(client.call(&["ACL", "GENPASS", &bits.to_string()])));
    }
}

#[test]
fn files_are_loaded_wholly_or_not_at_all() {
    let path = format!("{}/users-{}.acl", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&path, "").expect("a file");
    if let Some(server) = Server::redis(&["--aclfile", &path]) {
        let mut client = Commands::connect(&server, 3);
        let mut users = Users::new(false);
        for text in [
            "user ann on nopass ~a* +@read\nuser default on nopass ~* &* +@all\n",
            "\n  \nuser bob off   >p  (+get ~b*) \r\n\tuser eve on",
            "user ann +frob -@nope ~a\n",
            "user ann ~* ~b +frob &* &x\nuser bob\n",
            "user",
            "user \n",
            "User ann",
            "# a comment\nuser ann on",
            "user a\u{b}b on",
            "user ann on\nuser ann off\n",
            "user ann (+get ~a) (%R~x +@all)\nuser zoe (+get (~b)\n",
            "user ann \"quoted\"",
            "user ann on >a\"b\n",
            "user ann #12 !34 nope\nuser bob +@nope",
            "user default on nopass ~* &* +@all -debug\n",
            "",
        ] {
            std::fs::write(&path, text).expect("a file");
            let theirs = client.call(&["ACL", "LOAD"]);
            let ours = users.load(text.as_bytes(), path.as_bytes());
            assert_same(ours.map_or_else(Reply::error, |()| Reply::OK), theirs, text);
            assert_same(users.list(), client.call(&["ACL", "LIST"]), text);
        }
        users.set_user(b"ann", &["on", ">p", "~a", "+get"]).expect("right rules");
        client.call(&["ACL", "SETUSER", "ann", "on", ">p", "~a", "+get"]);
        assert_eq!(client.call(&["ACL", "SAVE"]), Reply::OK);
        assert_eq!(std::fs::read(&path).expect("the file"), users.save());
    }
    std::fs::remove_file(&path).unwrap_or_default();
}

#[test]
fn auth_answers_as_redis_does() {
    let Some(server) = Server::redis(&[]) else { return };
    let mut admin = Commands::connect(&server, 2);
    let mut users = Users::new(false);
    for password in [None, Some("p")] {
        users.set_default_password(password.map(str::as_bytes));
        users.set_user(b"off", &["off", ">p"]).expect("right rules");
        users.set_user(b"any", &["on", "nopass"]).expect("right rules");
        admin.call(&["ACL", "SETUSER", "off", "off", ">p"]);
        admin.call(&["ACL", "SETUSER", "any", "on", "nopass"]);
        admin.call(&["CONFIG", "SET", "requirepass", password.unwrap_or("")]);
        for arguments in [
            &["p"][..],
            &["wrong"],
            &["default", "p"],
            &["default", "wrong"],
            &["off", "p"],
            &["any", "x"],
            &["nobody", "p"],
            &["a", "b", "c"],
        ] {
            let ours = users.auth(arguments).map_or_else(|error| error, |_| Reply::OK);
            let theirs = Commands::connect(&server, 2).call(&[&["AUTH"], arguments].concat());
            assert_eq!(ours, theirs, "{arguments:?}");
        }
    }
}

/// Runs commands as a user that may do little, and compares the errors and the log.
#[test]
fn denials_have_the_errors_and_entries_of_redis() {
    use esker_redis_commands::acl::{Context, Denied, Event, Log, Reason};
    let Some(server) = Server::redis(&[]) else { return };
    let (mut admin, mut ann) = (Commands::connect(&server, 3), Commands::connect(&server, 3));
    let rules = [
        "on",
        ">p",
        "~a*",
        "&c*",
        "resetchannels",
        "&c*",
        "+get",
        "+set",
        "+publish",
        "+psubscribe",
        "+auth",
    ];
    let mut users = Users::new(false);
    users.set_user(b"ann", &rules).expect("right rules");
    admin.call(&[&["ACL", "SETUSER", "ann"], &rules[..]].concat());
    assert_eq!(ann.call(&["AUTH", "ann", "p"]), Reply::OK);
    assert!(users.authenticate(b"ann", b"p"));
    let mut log = Log::default();
    for arguments in [
        &["GET", "a"][..],
        &["GET", "b"],
        &["GET", "b"],
        &["DEL", "a"],
        &["PUBLISH", "d", "m"],
        &["PSUBSCRIBE", "c1"],
        &["CONFIG", "GET", "x"],
        &["SET", "x", "1"],
    ] {
        let command = table::resolve(arguments).expect("a command");
        let theirs = ann.call(arguments);
        let user = users.user(b"ann").expect("ann");
        let Err(denied) = user.check(command, arguments, &mut Vec::new()) else { continue };
        assert_eq!(Reply::Error(denied.error(command).into_bytes()), theirs, "{arguments:?}");
        let (reason, object) = match denied {
            Denied::Command => (Reason::Command, command.name()),
            Denied::Key(at) => (Reason::Key, arguments[at]),
            Denied::Channel(at) => (Reason::Channel, arguments[at]),
        };
        let (object, username) = (object.as_bytes().to_vec(), b"ann".to_vec());
        log.add(Event { reason, context: Context::Toplevel, object, username, client: Vec::new() }, 0, 128);
    }
    ann.call(&["AUTH", "ann", "wrong"]);
    assert!(!users.authenticate(b"ann", b"wrong"));
    let (object, username) = (b"AUTH".to_vec(), b"ann".to_vec());
    let event =
        Event { reason: Reason::Auth, context: Context::Toplevel, object, username, client: Vec::new() };
    log.add(event, 0, 128);
    assert_eq!(without_times(log.reply(10, 0)), without_times(log_of(&mut admin)));
}

fn log_of(client: &mut Commands) -> Reply {
    client.call(&["ACL", "LOG"])
}

/// Log entries without age and client.
fn without_times(reply: Reply) -> Reply {
    match reply {
        Reply::Array(items) => Reply::Array(items.into_iter().map(without_times).collect()),
        Reply::Map(pairs) => {
            let changes = |key: &Reply| *key == bulk("age-seconds") || *key == bulk("client-info");
            Reply::Map(pairs.into_iter().filter(|(key, _)| !changes(key)).collect())
        }
        other => other,
    }
}

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(text.as_bytes().into())
}
