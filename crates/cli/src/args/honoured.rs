//! Which global options each command honours; one that it would ignore is refused instead.
//!
//! Every option of [`Global`] is accepted in front of every command, so that the command line has one
//! grammar. Without this table a mistyped intention (`serve --keyspace users`) would run and do something
//! else.

use super::{
    BackupCommand, Cli, Command, Connect, DataCommand, ExplainCommand, Global, OVER_HTTP, ShapeArgs,
    refusal_over_http,
};
use Flag::{Config, Data, Json, Key, Keyspace, Memory, Value};

/// A global option that not every command honours; `--log` is honoured by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    Data,
    Config,
    Memory,
    Keyspace,
    Key,
    Value,
    Json,
}

impl Flag {
    fn name(self) -> &'static str {
        match self {
            Data => "--data",
            Config => "--config",
            Memory => "--memory",
            Keyspace => "--keyspace",
            Key => "--key",
            Value => "--value",
            Json => "--json",
        }
    }
}

/// Options of commands that open the database; [`of_data`] has what they do with the entries.
const OPEN: &[Flag] = &[Data, Config, Memory];

/// Refuses the first option on the command line that its command would ignore.
pub(crate) fn check(cli: &Cli) -> Result<(), String> {
    let given = given_globals(&cli.global).chain(given_shape(&cli.global.shape));
    let (command, connect) = (&cli.command, cli.global.connect.as_ref());
    let asks_http = matches!(connect, Some(Connect::Server(_))) && !matches!(command, Command::Shell(_));
    if cli.global.token_file.is_some() && !asks_http {
        return Err("--token-file is for reports of --connect HOST:PORT".to_owned());
    }
    if cli.global.tls.tls && !asks_http {
        return Err("--tls is for reports of --connect HOST:PORT".to_owned());
    }
    match (command, connect) {
        (_, None) => refuse_ignored(given, command_name(command), |flag| is_honoured(command, flag)),
        (Command::Shell(_), Some(Connect::Server(_))) => {
            refuse_ignored(given, "shell --connect HOST:PORT", |flag| flag == Json)
        }
        (_, Some(Connect::Server(address))) => match refusal_over_http(command) {
            None => {
                let name = format!("{} --connect HOST:PORT", command_name(command));
                refuse_ignored(given, &name, |flag| !OPEN.contains(&flag) && is_honoured(command, flag))
            }
            Some(reason) => Err(format!(
                "`{}` cannot ask {address}: {reason}; over a control socket it can be executed, --connect takes \
                 its path or the directory of the database; over HTTP there are {OVER_HTTP}, and top",
                command_name(command)
            )),
        },
        (Command::Shell(args), Some(Connect::Socket(_))) if args.remote.is_given() => {
            Err("--timing and --wait are for a server at HOST:PORT".to_owned())
        }
        (_, Some(Connect::Socket(_))) if !command.can_be_shared() => {
            Err(format!("`{}` makes no use of --connect", command_name(command)))
        }
        (_, Some(Connect::Socket(_))) => {
            let name = format!("{} --connect", command_name(command));
            refuse_ignored(given, &name, |flag| !OPEN.contains(&flag) && is_honoured(command, flag))
        }
    }
}

/// As [`check`], of a line of the shell, whose database is open already.
pub(crate) fn check_line(command: &DataCommand, shape: &ShapeArgs) -> Result<(), String> {
    refuse_ignored(given_shape(shape), data_name(command), |flag| of_data(command).contains(&flag))
}

fn refuse_ignored(
    mut given: impl Iterator<Item = Flag>,
    command: &str,
    is_honoured: impl Fn(Flag) -> bool,
) -> Result<(), String> {
    match given.find(|&flag| !is_honoured(flag)) {
        Some(flag) => Err(format!("`{command}` makes no use of {}", flag.name())),
        None => Ok(()),
    }
}

fn given_globals(global: &Global) -> impl Iterator<Item = Flag> {
    let given =
        [(Data, global.data.is_some()), (Config, global.config.is_some()), (Memory, global.memory.is_some())];
    given.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag))
}

fn given_shape(shape: &ShapeArgs) -> impl Iterator<Item = Flag> + use<> {
    let given = [
        (Keyspace, shape.keyspace.is_some()),
        (Key, shape.key.is_some()),
        (Value, shape.value.is_some()),
        (Json, shape.json),
    ];
    given.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag))
}

fn is_honoured(command: &Command, flag: Flag) -> bool {
    let honoured: &[Flag] = match command {
        // Advice for a stated workload opens no database.
        Command::Data(DataCommand::Advise(args)) if args.entries.is_some() => &[Memory, Json],
        // What is verified need not open.
        Command::Data(DataCommand::Verify(_)) => &[Data, Json],
        Command::Data(command) => return OPEN.contains(&flag) || of_data(command).contains(&flag),
        Command::Shell(_) => &[Data, Config, Memory, Keyspace, Key, Value, Json],
        Command::Top(_) => &[Data, Config, Memory, Keyspace, Json],
        Command::Serve(_) | Command::Exec(_) => OPEN,
        Command::Backup(args) => match &args.command {
            BackupCommand::Create(_) => &[Data, Config, Memory, Json],
            BackupCommand::List(_) | BackupCommand::Verify(_) | BackupCommand::Prune(_) => &[Json],
        },
        Command::Restore(_) => &[Data, Json],
        Command::Repair(_) => &[Json],
        Command::Import(args) if args.check => &[Json],
        Command::Import(_) | Command::Bench(_) => &[Data, Config, Memory, Json],
        Command::BuildTable(_) | Command::Inspect(_) => &[Key, Value, Json],
        Command::Experiment(_) => &[Data],
        Command::Simulate(_) => &[Data, Json],
        Command::Options(_) => &[Data, Config, Memory, Keyspace, Json],
        Command::Generate(_) | Command::Completions(_) | Command::Man(_) => &[],
    };
    honoured.contains(&flag)
}

/// What a command on an open database makes use of.
fn of_data(command: &DataCommand) -> &'static [Flag] {
    match command {
        DataCommand::Get(_) | DataCommand::Scan(_) | DataCommand::Load(_) | DataCommand::Changes(_) => {
            &[Keyspace, Key, Value, Json]
        }
        DataCommand::Put(_) | DataCommand::Append(_) | DataCommand::Dump(_) => &[Keyspace, Key, Value],
        DataCommand::Delete(_)
        | DataCommand::Incr(_)
        | DataCommand::Ttl(_)
        | DataCommand::Count(_)
        | DataCommand::Levels(_) => &[Keyspace, Key, Json],
        DataCommand::Explain(args) => match args.what {
            ExplainCommand::Get { .. } | ExplainCommand::Scan(_) => &[Keyspace, Key, Json],
            ExplainCommand::Put => &[Keyspace, Json],
            ExplainCommand::Space | ExplainCommand::Memory | ExplainCommand::Stall => &[Json],
        },
        DataCommand::Compact(args) if args.all => &[],
        DataCommand::DeleteRange(_) | DataCommand::Compact(_) => &[Keyspace, Key],
        DataCommand::Ingest(_)
        | DataCommand::Stats(_)
        | DataCommand::Stalls
        | DataCommand::Keyspaces(_)
        | DataCommand::Strategy(_)
        | DataCommand::Advise(_)
        | DataCommand::Export(_) => &[Keyspace, Json],
        DataCommand::Verify(_) | DataCommand::Quarantine(_) | DataCommand::Checkpoint(_) => &[Json],
    }
}

fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Data(command) => data_name(command),
        Command::Serve(_) => "serve",
        Command::Shell(_) => "shell",
        Command::Top(_) => "top",
        Command::Backup(_) => "backup",
        Command::Restore(_) => "restore",
        Command::Repair(_) => "repair",
        Command::Import(_) => "import",
        Command::BuildTable(_) => "build-table",
        Command::Inspect(_) => "inspect",
        Command::Bench(_) => "bench",
        Command::Experiment(_) => "experiment",
        Command::Simulate(_) => "simulate",
        Command::Options(_) => "options",
        Command::Generate(_) => "generate",
        Command::Exec(_) => "exec",
        Command::Completions(_) => "completions",
        Command::Man(_) => "man",
    }
}

fn data_name(command: &DataCommand) -> &'static str {
    match command {
        DataCommand::Get(_) => "get",
        DataCommand::Put(_) => "put",
        DataCommand::Delete(_) => "delete",
        DataCommand::Incr(_) => "incr",
        DataCommand::Append(_) => "append",
        DataCommand::Ttl(_) => "ttl",
        DataCommand::DeleteRange(_) => "delete-range",
        DataCommand::Scan(_) => "scan",
        DataCommand::Count(_) => "count",
        DataCommand::Load(_) => "load",
        DataCommand::Ingest(_) => "ingest",
        DataCommand::Dump(_) => "dump",
        DataCommand::Stats(_) => "stats",
        DataCommand::Levels(_) => "levels",
        DataCommand::Stalls => "stalls",
        DataCommand::Explain(args) => args.what.name(),
        DataCommand::Compact(_) => "compact",
        DataCommand::Verify(_) => "verify",
        DataCommand::Quarantine(_) => "quarantine",
        DataCommand::Keyspaces(_) => "keyspaces",
        DataCommand::Strategy(_) => "strategy",
        DataCommand::Advise(_) => "advise",
        DataCommand::Changes(_) => "changes",
        DataCommand::Checkpoint(_) => "checkpoint",
        DataCommand::Export(_) => "export",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn checked(line: &str) -> Result<(), String> {
        check(&Cli::try_parse_from(line.split(' ')).expect(line))
    }

    #[test]
    fn options_that_a_command_uses_are_accepted() {
        for line in [
            "esker get a --keyspace k --key int --value hex --json --data d --memory 1GiB --config c",
            "esker serve --data d --config c --memory 1GiB --log off",
            "esker advise --entries 5 --memory 1GiB --json",
            "esker stats --connect ./d --json --keyspace k",
            "esker shell --connect ./d/control.sock --key int",
            "esker shell --connect 127.0.0.1:8080 --json --timing",
            "esker backup create b --connect /srv/d",
            "esker backup create b --data d --json",
            "esker simulate --json",
            "esker options --keyspace k --json",
            "esker compact --keyspace k --key int --start 1",
        ] {
            assert_eq!(checked(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn options_that_a_command_would_ignore_are_refused_by_name() {
        for (line, flag) in [
            ("esker serve --keyspace users", "--keyspace"),
            ("esker serve --key int", "--key"),
            ("esker serve --json", "--json"),
            ("esker simulate --config nosuch.toml", "--config"),
            ("esker experiment hashes --memory 1GiB", "--memory"),
            ("esker generate --data d", "--data"),
            ("esker shell --connect 127.0.0.1:1 --data d", "--data"),
            ("esker stats --connect ./d --data d", "--data"),
            ("esker get a --connect ./d --memory 1GiB", "--memory"),
            ("esker serve --connect ./d", "--connect"),
            ("esker restore b --connect ./d", "--connect"),
            ("esker backup verify b --data d", "--data"),
            ("esker import --check f --data d", "--data"),
            ("esker put a b --json", "--json"),
            ("esker dump --json", "--json"),
            ("esker verify --keyspace k", "--keyspace"),
            ("esker verify --memory 1GiB", "--memory"),
            ("esker repair d --into n --data d", "--data"),
            ("esker compact --all --keyspace k", "--keyspace"),
            ("esker advise --entries 5 --data d", "--data"),
            ("esker explain space --keyspace k", "--keyspace"),
            ("esker explain put --key int", "--key"),
        ] {
            let refused = checked(line).expect_err(line);
            assert!(refused.ends_with(&format!("makes no use of {flag}")), "{line}: {refused}");
        }
    }

    #[test]
    fn a_server_is_for_the_shell_and_its_options_are_for_a_server() {
        for line in ["get a", "compact", "stats --watch 1s", "advise --apply", "explain get a", "verify"] {
            let refused = checked(&format!("esker {line} --connect 127.0.0.1:8081")).expect_err(line);
            assert!(refused.contains("control socket"), "{line}: {refused}");
        }
        for line in ["stats", "levels --tables", "stalls", "advise --writes 1", "explain space", "top --once"]
        {
            assert_eq!(checked(&format!("esker {line} --connect 127.0.0.1:8081 --token-file f")), Ok(()));
            assert!(checked(&format!("esker {line} --connect ./d --token-file f")).is_err(), "{line}");
            assert_eq!(checked(&format!("esker {line} --connect h:8081 --tls --tls-ca f")), Ok(()));
            assert!(checked(&format!("esker {line} --connect ./d --tls")).is_err(), "{line}");
        }
        assert!(checked("esker shell --connect ./d --timing").expect_err("no server").contains("--timing"));
    }

    /// The names in messages are those of the command line.
    #[test]
    fn names_are_those_of_the_command_line() {
        for (line, name) in [
            ("esker delete-range a b", "delete-range"),
            ("esker build-table o i", "build-table"),
            ("esker stalls", "stalls"),
            ("esker explain stall", "explain stall"),
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            assert_eq!(command_name(&cli.command), name);
        }
    }
}
