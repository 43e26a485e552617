//! Passwords and rules of users in arguments: what logs and monitors must not show.

use esker_redis_commands::Command;

/// What stands in place of a secret.
const HIDDEN: &[u8] = b"(redacted)";

/// Directives whose values are secrets.
const SECRET_DIRECTIVES: [&str; 4] =
    ["masterauth", "requirepass", "tls-client-key-file-pass", "tls-key-file-pass"];

/// The arguments of a command with each secret replaced.
pub(crate) fn hide_secrets<'a>(command: &Command, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = arguments.to_vec();
    match command.name() {
        "auth" => hide_from(&mut shown, 1),
        "acl|setuser" => hide_from(&mut shown, 2),
        "hello" => hide_after(&mut shown, "auth", 2),
        "migrate" => {
            hide_after(&mut shown, "auth", 1);
            hide_after(&mut shown, "auth2", 2);
        }
        "config|set" => {
            for pair in shown.get_mut(2..).unwrap_or_default().chunks_exact_mut(2) {
                let is_secret = |name: &&str| pair[0].eq_ignore_ascii_case(name.as_bytes());
                if SECRET_DIRECTIVES.iter().any(is_secret) {
                    pair[1] = HIDDEN;
                }
            }
        }
        _ => {}
    }
    shown
}

fn hide_from(arguments: &mut [&[u8]], first: usize) {
    arguments.iter_mut().skip(first).for_each(|argument| *argument = HIDDEN);
}

fn hide_after(arguments: &mut [&[u8]], word: &str, count: usize) {
    let found = arguments.iter().skip(1).position(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
    if let Some(position) = found {
        arguments.iter_mut().skip(position + 2).take(count).for_each(|argument| *argument = HIDDEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(request: &str) -> String {
        let arguments: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let command = esker_redis_commands::resolve(&arguments).expect("a command");
        String::from_utf8(hide_secrets(command, &arguments).join(&b' ')).expect("text")
    }

    #[test]
    fn secrets_are_hidden_and_all_else_is_shown() {
        for (request, expected) in [
            ("auth a", "auth (redacted)"),
            ("AUTH user secret", "AUTH (redacted) (redacted)"),
            ("hello 3 auth user secret setname n", "hello 3 auth (redacted) (redacted) setname n"),
            ("hello 3 setname n AUTH user", "hello 3 setname n AUTH (redacted)"),
            ("acl setuser bob on >secret", "acl setuser (redacted) (redacted) (redacted)"),
            ("config set requirepass secret maxclients 7", "config set requirepass (redacted) maxclients 7"),
            ("config set maxclients 7 RequirePass secret", "config set maxclients 7 RequirePass (redacted)"),
            ("migrate h 1 k 0 1 auth2 user secret", "migrate h 1 k 0 1 auth2 (redacted) (redacted)"),
            ("set auth secret", "set auth secret"),
        ] {
            assert_eq!(shown(request), expected);
        }
    }
}
