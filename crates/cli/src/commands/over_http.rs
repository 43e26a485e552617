//! Reports of a server over HTTP: the command line becomes a path, whose answer is what the command prints.

use crate::args::{Cli, Global};
use crate::failure::{Exit, Failure};
use crate::http_client::HttpClient;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use std::io::Write;

/// Options that say which server to ask and how to log, which the server does not need.
const OWN_OPTIONS: [&str; 7] = ["connect", "token_file", "tls", "tls_ca", "tls_cert", "tls_key", "log"];

/// Prints what the server at HOST:PORT answers to the command line.
pub(crate) fn run(
    global: &Global,
    address: &str,
    matches: &ArgMatches,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let client = HttpClient::new(address, global.token_file.as_deref(), &global.tls)?;
    let text = client.get(&path_of(matches))?;
    out.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// The path that stands for a command line.
fn path_of(matches: &ArgMatches) -> String {
    let mut command = Cli::command();
    // Global options become arguments of each command then.
    command.build();
    let (mut path, mut command, mut matches) = ("/api/v1/text".to_owned(), &command, matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        path.push('/');
        path.push_str(name);
        (command, matches) = (found, inner);
    }
    let mut mark = '?';
    for argument in command.get_arguments() {
        let Some(name) = given(argument, matches) else { continue };
        let values: Vec<_> = matches.get_raw(argument.get_id().as_str()).into_iter().flatten().collect();
        path.push(mark);
        mark = '&';
        path.push_str(name);
        if argument.get_action().takes_values() {
            let value: Vec<String> = values.iter().map(|value| encoded(value.as_encoded_bytes())).collect();
            path.push('=');
            path.push_str(&value.join(","));
        }
    }
    path
}

/// The name of an option that the command line gives, and the server needs.
fn given<'a>(argument: &'a Arg, matches: &ArgMatches) -> Option<&'a str> {
    let (id, name) = (argument.get_id().as_str(), argument.get_long()?);
    let is_told = matches!(matches.try_get_raw(id), Ok(Some(_)))
        && matches.value_source(id) == Some(ValueSource::CommandLine);
    (is_told && !OWN_OPTIONS.contains(&id)).then_some(name)
}

/// Bytes in the encoding of addresses.
fn encoded(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |&byte: &u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(line: &str) -> String {
        path_of(&Cli::command().try_get_matches_from(line.split(' ')).expect(line))
    }

    #[test]
    fn a_command_line_becomes_a_path() {
        for (line, expected) in [
            ("esker stats --connect h:1", "/api/v1/text/stats"),
            ("esker --json stalls --connect h:1 --log info", "/api/v1/text/stalls?json"),
            (
                "esker levels --tables --keyspace=a&b/ü --connect h:1",
                "/api/v1/text/levels?tables&keyspace=a%26b%2F%C3%BC",
            ),
            (
                "esker advise --writes 50 --merge-rate 1MiB --connect h:1 --token-file t --tls --tls-ca f",
                "/api/v1/text/advise?writes=50&merge-rate=1MiB",
            ),
            ("esker --connect h:1 explain space --json", "/api/v1/text/explain/space?json"),
        ] {
            assert_eq!(path(line), expected, "{line}");
        }
    }
}
