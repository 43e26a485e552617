//! Which commands a server answers over HTTP: those that only read figures, and end soon.

use super::{Command, DataCommand, ExplainCommand};

/// Commands whose text is answered over HTTP, for messages.
pub(crate) const OVER_HTTP: &str = "stats, levels, stalls, advise, and explain put, space, memory or stall";

/// Why a command is not answered over HTTP; `None` if it is.
pub(crate) fn refusal_over_http(command: &Command) -> Option<&'static str> {
    match command {
        Command::Top(_) => None,
        Command::Data(command) => data_refusal(command),
        _ => Some("it is not answered over HTTP"),
    }
}

fn data_refusal(command: &DataCommand) -> Option<&'static str> {
    match command {
        DataCommand::Stats(args) if args.watch.is_some() => {
            Some("--watch is not answered over HTTP; `esker top` shows figures as they change")
        }
        DataCommand::Stats(_) | DataCommand::Levels(_) | DataCommand::Stalls => None,
        DataCommand::Advise(args) if args.apply => Some("--apply would change the keyspace"),
        DataCommand::Advise(args) if args.entries.is_some() => Some("with --entries it needs no database"),
        DataCommand::Advise(_) => None,
        DataCommand::Explain(args) => match args.what {
            ExplainCommand::Get { .. } | ExplainCommand::Scan(_) => Some("it reads data"),
            ExplainCommand::Put | ExplainCommand::Space | ExplainCommand::Memory | ExplainCommand::Stall => {
                None
            }
        },
        DataCommand::Get(_)
        | DataCommand::Scan(_)
        | DataCommand::Count(_)
        | DataCommand::Ttl(_)
        | DataCommand::Dump(_)
        | DataCommand::Export(_) => Some("it reads data"),
        _ => Some("nothing can be changed over HTTP"),
    }
}
