//! Commands of bits of strings.

mod field;

use super::Family;
use crate::call::Call;
use crate::failure::{Outcome, SYNTAX, WRONG_TYPE};
use esker_redis_data::bits::{BitOperation, BitRange, BitUnit, combine};
use esker_redis_store::types::delete_key;
use esker_redis_store::types::string::{self, Editor};
use esker_redis_store::{Entry, EventClass, Kind};
use esker_resp::integer::parse_integer;
use std::ops::ControlFlow;

pub(crate) const COMMANDS: Family = &[
    ("bitcount", bitcount),
    ("bitfield", field::bitfield),
    ("bitfield_ro", field::bitfield_ro),
    ("bitop", bitop),
    ("bitpos", bitpos),
    ("getbit", getbit),
    ("setbit", setbit),
];

/// The argument as the position of a bit.
fn bit_offset(call: &Call<'_, '_>, position: usize) -> Outcome<u64> {
    let offset = parse_integer(call.args[position]).and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < call.server.longest_string_bytes());
    Ok(offset.ok_or("ERR bit offset is not an integer or out of range")?)
}

/// The bit of a byte that has position `offset` in its string.
fn mask_of(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

fn setbit(call: &mut Call<'_, '_>) -> Outcome {
    let offset = bit_offset(call, 2)?;
    let is_set = match parse_integer(call.args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let mut entry = call.entry_of(1, Kind::String)?;
    let mut editor = Editor::open(&entry)?;
    let grows = editor.len() <= offset / 8;
    let mut byte = [0];
    editor.read(call.txn, offset / 8, &mut byte)?;
    let was_set = byte[0] & mask_of(offset) != 0;
    if grows || was_set != is_set {
        byte[0] = if is_set { byte[0] | mask_of(offset) } else { byte[0] & !mask_of(offset) };
        editor.write(call.txn, offset / 8, &byte)?;
        call.changed(1, EventClass::STRING, "setbit");
    }
    editor.save(call.txn, &mut entry)?;
    call.reply.integer(was_set.into());
    Ok(())
}

fn getbit(call: &mut Call<'_, '_>) -> Outcome {
    let offset = bit_offset(call, 2)?;
    let entry = call.entry_of(1, Kind::String)?;
    let mut is_set = false;
    if let Some(record) = entry.record() {
        let at = offset / 8;
        string::read(call.txn, record, at..at + 1, &mut |piece| {
            is_set = piece.first().is_some_and(|byte| byte & mask_of(offset) != 0);
            ControlFlow::Break(())
        })?;
    }
    call.reply.integer(is_set.into());
    Ok(())
}

/// The argument as the unit of a range; bytes if there is none.
fn unit(call: &Call<'_, '_>, position: usize) -> Outcome<BitUnit> {
    match () {
        () if call.args.len() <= position || call.is_word(position, "byte") => Ok(BitUnit::Byte),
        () if call.is_word(position, "bit") => Ok(BitUnit::Bit),
        () => Err(SYNTAX.into()),
    }
}

fn bitcount(call: &mut Call<'_, '_>) -> Outcome {
    let entry = call.entry_of(1, Kind::String)?;
    let Some(record) = entry.record() else {
        call.reply.integer(0);
        return Ok(());
    };
    let (start, end) = match call.args.len() {
        2 => (0, -1),
        4 | 5 => (call.integer(2)?, call.integer(3)?),
        _ => return Err(SYNTAX.into()),
    };
    let is_turned = start < 0 && end < 0 && start > end;
    let range = match is_turned {
        true => None,
        false => BitRange::resolve(string::len(record)?, start, end, unit(call, 4)?),
    };
    let mut count = 0;
    if let Some(range) = range {
        let mut at = range.bytes().start;
        string::read(call.txn, record, range.bytes(), &mut |piece| {
            count += range.count_in(at, piece);
            at += piece.len() as u64;
            ControlFlow::Continue(())
        })?;
    }
    call.reply.integer(count as i64);
    Ok(())
}

fn bitpos(call: &mut Call<'_, '_>) -> Outcome {
    let bit = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let entry = call.entry_of(1, Kind::String)?;
    let Some(record) = entry.record() else {
        call.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let arguments = call.args.len();
    if arguments > 6 {
        return Err(SYNTAX.into());
    }
    let start = if arguments > 3 { call.integer(3)? } else { 0 };
    let unit = unit(call, 5)?;
    let end = if arguments > 4 { Some(call.integer(4)?) } else { None };
    let len = string::len(record)?;
    let mut found = None;
    if let Some(range) = BitRange::resolve(len, start, end.unwrap_or(-1), unit) {
        let mut at = range.bytes().start;
        string::read(call.txn, record, range.bytes(), &mut |piece| {
            found = range.find_in(bit, at, piece);
            at += piece.len() as u64;
            if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // Zeros are thought behind a string whose end was not named.
        let behind = (!bit && end.is_none()).then_some(len * 8);
        found = found.or(behind);
    }
    call.reply.integer(found.map_or(-1, |position| position as i64));
    Ok(())
}

fn bitop(call: &mut Call<'_, '_>) -> Outcome {
    let operation = match () {
        () if call.is_word(1, "and") => BitOperation::And,
        () if call.is_word(1, "or") => BitOperation::Or,
        () if call.is_word(1, "xor") => BitOperation::Xor,
        () if call.is_word(1, "not") => BitOperation::Not,
        () => return Err(SYNTAX.into()),
    };
    if operation == BitOperation::Not && call.args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let sources = call.read_entries(3..call.args.len(), Kind::String)?;
    let sources: Vec<_> = sources.iter().map(Entry::record).collect();
    if sources.iter().flatten().any(|record| record.kind() != Kind::String) {
        return Err(WRONG_TYPE.into());
    }
    let mut longest = 0;
    for record in sources.iter().flatten() {
        longest = longest.max(string::len(record)?);
    }
    let mut target = call.entry(2)?;
    if longest == 0 {
        if delete_key(call.txn, &mut target)? {
            call.changed(2, EventClass::GENERIC, "del");
        }
    } else {
        let mut buffers = vec![Vec::new(); sources.len()];
        string::set_by_chunks(call.txn, &mut target, longest, &mut |txn, range| {
            for (buffer, source) in buffers.iter_mut().zip(&sources) {
                buffer.clear();
                if let Some(record) = source {
                    string::read_into(txn, record, range.clone(), buffer)?;
                }
            }
            let pieces: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
            let mut combined = combine(operation, &pieces);
            // Of sources that end before this chunk nothing is left but zeros.
            combined.resize((range.end - range.start) as usize, 0);
            Ok(combined)
        })?;
        call.changed(2, EventClass::STRING, "set");
    }
    call.reply.integer(longest as i64);
    Ok(())
}
