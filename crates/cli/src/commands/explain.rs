//! `explain`: prints explanations as a tree or as JSON.

use super::{Context, write_json};
use crate::args::{ExplainArgs, ExplainCommand, ExplainScanArgs};
use crate::failure::{Exit, Failure};
use esker::explain::{Explanation, Measure, ScanOptions, Step};
use serde_json::{Map, Number, Value, json};
use std::ops::Bound;

pub(super) fn run(context: &mut Context<'_>, args: &ExplainArgs) -> Result<Exit, Failure> {
    let explanation = match &args.what {
        ExplainCommand::Get { wanted } => {
            let key = context.parse_key(wanted)?;
            context.existing_keyspace()?.explain_get(&key)?.1
        }
        ExplainCommand::Scan(scan) => explain_scan(context, scan)?,
        ExplainCommand::Put => context.existing_keyspace()?.explain_put()?,
        ExplainCommand::Space => context.database.explain_space()?,
        ExplainCommand::Memory => context.database.explain_memory(),
        ExplainCommand::Stall => context.database.explain_stall(),
    };
    if context.shape.json {
        write_json(context.out, as_json(&explanation))?;
    } else {
        write!(context.out, "{explanation}")?;
    }
    Ok(Exit::Done)
}

fn explain_scan(context: &Context<'_>, args: &ExplainScanArgs) -> Result<Explanation, Failure> {
    let range = context.parse_range(&args.range)?;
    let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let options = ScanOptions::default().limit(args.limit.unwrap_or(u64::MAX)).reverse(args.reverse);
    let bounds = (Bound::Included(range.start.as_slice()), end);
    Ok(context.existing_keyspace()?.explain_scan(bounds, options, |_, _| ())?)
}

fn as_json(explanation: &Explanation) -> Map<String, Value> {
    let mut members = step_as_json(&explanation.root);
    members.insert("conclusion".to_owned(), explanation.conclusion.as_str().into());
    members
}

fn step_as_json(step: &Step) -> Map<String, Value> {
    let figures = |of: fn(&Measure) -> Option<f64>| {
        let known = step
            .measures
            .iter()
            .filter_map(|measure| Some((measure.figure.name().to_owned(), number(of(measure)?))));
        Value::Object(known.collect())
    };
    let steps: Vec<Value> = step.steps.iter().map(|step| Value::Object(step_as_json(step))).collect();
    let Value::Object(members) = json!({
        "what": step.what,
        "outcome": step.outcome,
        "figures": figures(|measure| measure.actual),
        "expected": figures(|measure| measure.expected),
        "steps": steps,
    }) else {
        return Map::new();
    };
    members
}

/// A whole number without a point.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
        return (value as u64).into();
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
