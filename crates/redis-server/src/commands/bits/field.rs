//! BITFIELD: integers of any width at any bit of a string.

use crate::call::Call;
use crate::failure::{Outcome, SYNTAX};
use esker_redis_data::bits::{FieldType, Overflow, get_field, increment_field, parse_offset, set_field};
use esker_redis_store::types::string::{Editor, read_into};
use esker_redis_store::{EventClass, Kind};

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

#[derive(Clone, Copy, Debug)]
struct FieldOperation {
    action: Action,
    field: FieldType,
    offset: u64,
}

impl FieldOperation {
    /// The first byte that has bits of the field.
    fn byte(self) -> u64 {
        self.offset / 8
    }

    /// How many bytes have bits of the field: 9 at most.
    fn bytes(self) -> usize {
        (self.offset % 8 + u64::from(self.field.bits())).div_ceil(8) as usize
    }
}

fn operations(call: &Call<'_, '_>) -> Outcome<Vec<FieldOperation>> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::default();
    let mut position = 2;
    while position < call.args.len() {
        let is = |word, arguments| call.is_word(position, word) && position + arguments < call.args.len();
        if is("overflow", 1) {
            overflow = match () {
                () if call.is_word(position + 1, "wrap") => Overflow::Wrap,
                () if call.is_word(position + 1, "sat") => Overflow::Saturate,
                () if call.is_word(position + 1, "fail") => Overflow::Fail,
                () => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            position += 2;
            continue;
        }
        let (reads, sets) = (is("get", 2), is("set", 3));
        if !reads && !sets && !is("incrby", 3) {
            return Err(SYNTAX.into());
        }
        let field = FieldType::parse(call.args[position + 1]).ok_or(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        )?;
        let offset = parse_offset(call.args[position + 2], field, call.server.longest_string_bytes())
            .ok_or("ERR bit offset is not an integer or out of range")?;
        let action = match () {
            () if reads => Action::Get,
            () if sets => Action::Set(call.integer(position + 3)?, overflow),
            () => Action::Increment(call.integer(position + 3)?, overflow),
        };
        operations.push(FieldOperation { action, field, offset });
        position += if reads { 3 } else { 4 };
    }
    Ok(operations)
}

pub(super) fn bitfield_ro(call: &mut Call<'_, '_>) -> Outcome {
    let operations = operations(call)?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(call, &operations)
}

pub(super) fn bitfield(call: &mut Call<'_, '_>) -> Outcome {
    let operations = operations(call)?;
    let is_written = |operation: &&FieldOperation| !matches!(operation.action, Action::Get);
    let end = |operation: &FieldOperation| operation.byte() + operation.bytes() as u64;
    match operations.iter().filter(is_written).map(end).max() {
        None => read(call, &operations),
        Some(end) => change(call, &operations, end),
    }
}

fn read(call: &mut Call<'_, '_>, operations: &[FieldOperation]) -> Outcome {
    let entry = call.read_entry_of(1, Kind::String)?;
    call.reply.array(operations.len());
    let mut window = Vec::new();
    for operation in operations {
        window.clear();
        if let Some(record) = entry.record() {
            let end = operation.byte() + operation.bytes() as u64;
            read_into(call.txn, record, operation.byte()..end, &mut window)?;
        }
        call.reply.integer(get_field(&window, operation.offset % 8, operation.field));
    }
    Ok(())
}

/// The string first grows to `end`, whatever the operations then do.
fn change(call: &mut Call<'_, '_>, operations: &[FieldOperation], end: u64) -> Outcome {
    let mut entry = call.entry_of(1, Kind::String)?;
    let mut editor = Editor::open(&entry)?;
    let grows = editor.len() < end;
    editor.grow(end);
    call.reply.array(operations.len());
    let mut is_changed = false;
    for operation in operations {
        let &FieldOperation { action, field, offset } = operation;
        let mut window = vec![0; operation.bytes()];
        editor.read(call.txn, operation.byte(), &mut window)?;
        let before = get_field(&window, offset % 8, field);
        let answer = match action {
            Action::Get => Some(before),
            Action::Set(value, overflow) => set_field(&mut window, offset % 8, field, value, overflow),
            Action::Increment(by, overflow) => increment_field(&mut window, offset % 8, field, by, overflow),
        };
        let Some(answer) = answer else {
            call.reply.null();
            continue;
        };
        call.reply.integer(answer);
        if !matches!(action, Action::Get) {
            is_changed |= grows || before != get_field(&window, offset % 8, field);
            editor.write(call.txn, operation.byte(), &window)?;
        }
    }
    editor.save(call.txn, &mut entry)?;
    if is_changed {
        call.changed(1, EventClass::STRING, "setbit");
    }
    Ok(())
}
