//! `incr` and `append`: write merge operands.

use super::{Context, write_json};
use crate::args::{AppendArgs, IncrArgs};
use crate::failure::{Exit, Failure};
use esker::{Keyspace, KeyspaceOptions, MergeOperator};

pub(super) fn incr(context: &mut Context<'_>, args: &IncrArgs) -> Result<Exit, Failure> {
    let key = context.parse_key(&args.target)?;
    let keyspace = keyspace_for(context, "counter", "counter", MergeOperator::counter_wrapping)?;
    keyspace.merge(&key, args.by.to_string())?;
    let value = keyspace.get(&key)?;
    let count = value.as_deref().and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    if context.shape.json {
        let number = count.parse::<i64>().map_or_else(|_| count.into(), Into::into);
        write_json(context.out, [("value".to_owned(), number)])?;
    } else {
        writeln!(context.out, "{count}")?;
    }
    Ok(Exit::Done)
}

pub(super) fn append(context: &mut Context<'_>, args: &AppendArgs) -> Result<Exit, Failure> {
    let key = context.parse_key(&args.target)?;
    let written = context.caller.content_or_stdin(&args.content)?;
    let piece = context.shape.value.parse(&written);
    let piece = piece.map_err(|reason| Failure::usage(format!("value: {reason}")))?;
    let separator = args.separator.as_deref().unwrap_or("\n");
    let keyspace = keyspace_for(context, "append:", "append:, ", || MergeOperator::append(separator))?;
    let has = keyspace.options().operator().map(|operator| operator.text().to_owned());
    let asked = MergeOperator::append(separator);
    if args.separator.is_some() && has.as_deref() != Some(asked.text()) {
        let (name, has) = (keyspace.name(), has.unwrap_or_default());
        return Err(Failure::usage(format!("keyspace {name:?} has the merge operator {has}, not {asked}")));
    }
    keyspace.merge(&key, piece)?;
    Ok(Exit::Done)
}

/// The chosen keyspace, with an operator of this prefix; a missing one is created with `otherwise`.
fn keyspace_for(
    context: &Context<'_>,
    begins: &str,
    example: &str,
    otherwise: impl FnOnce() -> MergeOperator,
) -> Result<Keyspace, Failure> {
    let name = &context.shape.keyspace;
    let keyspace = match context.database.open_keyspace(name) {
        Ok(keyspace) => keyspace,
        Err(_) => {
            let options = KeyspaceOptions::default().merge_operator(otherwise());
            context.database.keyspace_with(name, options)?
        }
    };
    let options = keyspace.options();
    match options.operator() {
        Some(operator) if operator.text().starts_with(begins) => Ok(keyspace),
        Some(operator) => Err(Failure::usage(format!(
            "keyspace {name:?} has the merge operator {operator}, and keeps it: use another keyspace"
        ))),
        None => Err(Failure::usage(format!("keyspace {name:?} has no merge operator"))
            .advise(format!("esker keyspaces --keyspace {name} --set 'merge_operator={example}'"))),
    }
}
