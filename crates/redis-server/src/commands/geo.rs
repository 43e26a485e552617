//! Commands of positions, which are scores of sorted sets.

mod arguments;
mod search;

use super::Family;
use super::sorted_sets::add::{ScoreOptions, add};
use super::sorted_sets::open;
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use arguments::{position, unit};
use esker_redis_data::geo::{Position, append_coordinate, append_distance, distance, geohash};
use esker_resp::long_double::LongDouble;
use esker_resp::writer::ReplyWriter;

pub(crate) const COMMANDS: Family = &[
    ("geoadd", geoadd),
    ("geodist", geodist),
    ("geohash", geohashes),
    ("geopos", geopos),
    ("geosearch", search::geosearch),
    ("geosearchstore", search::geosearchstore),
    ("georadius", search::georadius),
    ("georadius_ro", search::georadius_ro),
    ("georadiusbymember", search::georadiusbymember),
    ("georadiusbymember_ro", search::georadiusbymember_ro),
];

fn geoadd(call: &mut Call<'_, '_>) -> Outcome {
    let mut options = ScoreOptions::default();
    let mut first = 2;
    loop {
        if call.is_word(first, "nx") {
            options.only_new = true;
        } else if call.is_word(first, "xx") {
            options.only_present = true;
        } else if call.is_word(first, "ch") {
            options.counts_changes = true;
        } else {
            break;
        }
        first += 1;
    }
    let arguments = call.args.len() - first;
    if !arguments.is_multiple_of(3) || options.only_new && options.only_present {
        return Err(SYNTAX.into());
    }
    let mut pairs = Vec::with_capacity(arguments / 3);
    for at in (first..call.args.len()).step_by(3) {
        pairs.push((position(call, at)?.score(), call.args[at + 2]));
    }
    if pairs.is_empty() {
        return Err(SYNTAX.into());
    }
    add(call, options, &pairs)
}

fn geodist(call: &mut Call<'_, '_>) -> Outcome {
    let metres = match call.args.len() {
        4 => 1.0,
        5 => unit(call.args[4])?,
        _ => return Err(SYNTAX.into()),
    };
    let scores = match open(call, 1)? {
        Some(set) => set.scores(call.txn, &call.args[2..4])?,
        None => Vec::new(),
    };
    let [Some(from), Some(to)] = scores[..] else {
        call.reply.null();
        return Ok(());
    };
    reply_distance(&mut call.reply, distance(Position::of_score(from), Position::of_score(to)) / metres);
    Ok(())
}

fn reply_distance(reply: &mut ReplyWriter<'_>, distance: f64) {
    let mut text = Vec::new();
    append_distance(&mut text, distance);
    reply.bulk(&text);
}

fn reply_position(reply: &mut ReplyWriter<'_>, position: Position) {
    reply.array(2);
    for degrees in [position.longitude(), position.latitude()] {
        let mut text = Vec::new();
        append_coordinate(&mut text, degrees);
        match LongDouble::parse(&text) {
            Some(number) => reply.long_double(number),
            None => reply.bulk(&text),
        }
    }
}

/// The positions of the members that are the arguments from the second on.
fn positions(call: &mut Call<'_, '_>) -> Outcome<Vec<Option<Position>>> {
    let members = &call.args[2..];
    let scores = match open(call, 1)? {
        Some(set) => set.scores(call.txn, members)?,
        None => vec![None; members.len()],
    };
    Ok(scores.into_iter().map(|score| score.map(Position::of_score)).collect())
}

fn geohashes(call: &mut Call<'_, '_>) -> Outcome {
    let positions = positions(call)?;
    call.reply.array(positions.len());
    for position in positions {
        match position {
            Some(position) => call.reply.bulk(&geohash(position)),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn geopos(call: &mut Call<'_, '_>) -> Outcome {
    let positions = positions(call)?;
    call.reply.array(positions.len());
    for position in positions {
        match position {
            Some(position) => reply_position(&mut call.reply, position),
            None => call.reply.null_array(),
        }
    }
    Ok(())
}
