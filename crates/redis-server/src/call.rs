//! A command's call: what its handler reads, changes and writes.

use crate::command_kinds::CommandKind;
use crate::failure::{
    Failure, NO_SUCH_DATABASE, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_IN_32_BITS, Outcome, TIMEOUT_NEGATIVE,
    TIMEOUT_NOT_A_FLOAT, WRONG_TYPE,
};
use crate::observer::Observer;
use crate::server::Server;
use crate::session::Session;
use esker_redis_commands::{Command, CommandFlags, KeyRef, keys};
use esker_redis_store::{Entry, EventClass, Kind, Txn};
use esker_resp::double::parse_double;
use esker_resp::integer::parse_integer;
use esker_resp::long_double::LongDouble;
use esker_resp::writer::{Protocol, ReplyWriter};
use std::ops::Range;

/// One call of a command.
///
/// Its keys are locked, exclusively if the command has the flag `write`. A handler checks its arguments and
/// types before it changes anything: what it has changed when it fails stays changed.
pub(crate) struct Call<'c, 's> {
    /// The row of the command table.
    pub(crate) command: &'static Command,
    /// The command's name and its arguments; a subcommand's name is the second.
    pub(crate) args: &'c [&'c [u8]],
    /// The store, with what earlier commands of the group changed.
    pub(crate) txn: &'c mut Txn<'s>,
    /// Takes the reply.
    pub(crate) reply: ReplyWriter<'c>,
    /// The client.
    pub(crate) session: &'c mut Session,
    /// The server.
    pub(crate) server: &'s Server,
    /// Notes what commands do.
    pub(crate) observer: &'c mut Observer<'s>,
    /// Whether the call must not wait: it is part of a transaction or of a script.
    pub(crate) denies_waiting: bool,
    /// Whether other clients wait for this thread, so that nothing may take long.
    pub(crate) is_resident: bool,
    /// Whether the stripes of all keys are held, and not those of the call's keys alone.
    pub(crate) holds_all_stripes: bool,
    /// The key that was changed while the client waits for it, if the call is executed once more.
    pub(crate) woken_by: Option<&'c [u8]>,
    /// The arguments to execute when the client's keys have changed, if they are others: handlers that wait
    /// for what is newer than now set them.
    pub(crate) waits_with: Option<Vec<Box<[u8]>>>,
}

impl<'c> Call<'c, '_> {
    /// The client's database.
    pub(crate) fn db(&self) -> u16 {
        self.session.db
    }

    /// Looks up the key that is the argument at `position`.
    pub(crate) fn entry(&mut self, position: usize) -> Outcome<Entry> {
        let entry = self.txn.entry(self.session.db, self.args[position])?;
        self.note_lookup(position, entry.record().is_some());
        Ok(entry)
    }

    /// Looks up the keys that are the arguments at `positions`.
    pub(crate) fn entries(&mut self, positions: Range<usize>) -> Outcome<Vec<Entry>> {
        let entries = self.txn.entries(self.session.db, &self.args[positions.clone()])?;
        for (position, entry) in positions.zip(&entries) {
            self.note_lookup(position, entry.record().is_some());
        }
        Ok(entries)
    }

    /// As [`Call::entry`], of a command that may write but reads this key first, as Redis has it: whether the
    /// key was there is counted.
    pub(crate) fn read_entry(&mut self, position: usize) -> Outcome<Entry> {
        let entry = self.txn.entry(self.session.db, self.args[position])?;
        self.note_read(self.args[position], entry.record().is_some());
        Ok(entry)
    }

    /// As [`Call::entries`], in the same way. Redis stops at a key of another kind.
    pub(crate) fn read_entries(&mut self, positions: Range<usize>, kind: Kind) -> Outcome<Vec<Entry>> {
        let entries = self.txn.entries(self.session.db, &self.args[positions.clone()])?;
        for (position, entry) in positions.zip(&entries) {
            self.note_read(self.args[position], entry.record().is_some());
            if entry.record().is_some_and(|record| record.kind() != kind) {
                break;
            }
        }
        Ok(entries)
    }

    /// As [`Call::entry_of`], in the same way.
    pub(crate) fn read_entry_of(&mut self, position: usize, kind: Kind) -> Outcome<Entry> {
        let entry = self.read_entry(position)?;
        match entry.record() {
            Some(record) if record.kind() != kind => Err(WRONG_TYPE.into()),
            _ => Ok(entry),
        }
    }

    /// Counts whether a key of the client's database was there that was read, and tells if it was not.
    pub(crate) fn note_read(&mut self, key: &[u8], is_there: bool) {
        self.observer.looked_up(is_there);
        if !is_there {
            self.txn.event(EventClass::MISS, "keymiss", self.session.db, key);
        }
    }

    /// Counts whether a key was there, and tells if it was not. Commands that write are not counted here:
    /// those that read a key first say so. OBJECT tells nothing, and MEMORY USAGE does neither.
    fn note_lookup(&mut self, position: usize, is_there: bool) {
        let name = self.command.name();
        if !self.command.flags().contains(CommandFlags::READONLY) || name == "memory|usage" {
            return;
        }
        match name.starts_with("object|") {
            true => self.observer.looked_up(is_there),
            false => self.note_read(self.args[position], is_there),
        }
    }

    /// As [`Call::entry`], and `WRONGTYPE` if it is there with another type.
    pub(crate) fn entry_of(&mut self, position: usize, kind: Kind) -> Outcome<Entry> {
        let entry = self.entry(position)?;
        match entry.record() {
            Some(record) if record.kind() != kind => Err(WRONG_TYPE.into()),
            _ => Ok(entry),
        }
    }

    /// The argument as an integer.
    pub(crate) fn integer(&self, position: usize) -> Outcome<i64> {
        parse_integer(self.args[position]).ok_or_else(|| NOT_AN_INTEGER.into())
    }

    /// The argument as the number of a database.
    pub(crate) fn database(&self, position: usize) -> Outcome<u16> {
        let number = i32::try_from(self.integer(position)?).map_err(|_| NOT_IN_32_BITS)?;
        self.server.database(number).ok_or_else(|| NO_SUCH_DATABASE.into())
    }

    /// The argument as a floating point number.
    pub(crate) fn double(&self, position: usize) -> Outcome<f64> {
        parse_double(self.args[position]).ok_or_else(|| NOT_A_FLOAT.into())
    }

    /// When a wait ends whose seconds are the argument at `position`, in milliseconds since 1970; `None` for
    /// never.
    pub(crate) fn deadline(&self, position: usize) -> Outcome<Option<u64>> {
        let seconds = seconds(self.args[position]).ok_or(TIMEOUT_NOT_A_FLOAT)?;
        let wait_ms = (seconds * 1000.0).ceil();
        // Redis takes what is beyond the greatest integer for a negative number, too.
        if wait_ms < 0.0 || wait_ms >= i64::MAX as f64 {
            return Err(TIMEOUT_NEGATIVE.into());
        }
        Ok((wait_ms > 0.0).then(|| self.txn.now_ms().saturating_add(wait_ms as u64)))
    }

    /// The first key of the arguments at `positions` that is there, with its position, and `WRONGTYPE` if it
    /// has another type. A call that was woken looks at the changed key alone, and waits on if that has
    /// another type.
    pub(crate) fn first_filled(
        &mut self,
        positions: Range<usize>,
        kind: Kind,
    ) -> Outcome<Option<(usize, Entry)>> {
        for position in positions {
            if self.woken_by.is_some_and(|key| key != self.args[position]) {
                continue;
            }
            let entry = self.entry(position)?;
            match entry.record() {
                Some(record) if record.kind() == kind => return Ok(Some((position, entry))),
                Some(_) if self.woken_by.is_none() => return Err(WRONG_TYPE.into()),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Lets the client wait for its keys, until a time in milliseconds since 1970; a call that must not wait
    /// replies as if the time were up.
    pub(crate) fn wait_until(&mut self, deadline: Option<u64>) -> Outcome {
        if !self.denies_waiting {
            return Err(Failure::Wait(deadline));
        }
        self.reply.null_array();
        Ok(())
    }

    /// Whether the argument is this word, in either case.
    pub(crate) fn is_word(&self, position: usize, word: &str) -> bool {
        self.args.get(position).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// The error for a number of arguments that does not fit.
    pub(crate) fn wrong_arity(&self) -> Failure {
        format!("ERR wrong number of arguments for '{}' command", self.command.name()).into()
    }

    /// Tells a further event of the key that is the argument at `position`.
    pub(crate) fn event(&mut self, position: usize, class: EventClass, event: &'static str) {
        self.txn.event(class, event, self.session.db, self.args[position]);
    }

    /// Notes that a key is used which is of another database than the client's.
    pub(crate) fn note_use(&self, db: u16, key: &[u8]) {
        let (physical, now_s) = (self.txn.physical(db), Server::use_time_s(self.txn));
        self.server.key_uses.note(physical, key, now_s, || self.server.store.random());
    }

    /// For how many seconds a key of the client's database has not been used.
    pub(crate) fn idle_s(&self, key: &[u8]) -> u32 {
        let (physical, now_s) = (self.txn.physical(self.session.db), Server::use_time_s(self.txn));
        self.server.key_uses.idle_s(physical, key, now_s)
    }

    /// Changes the client's protocol; this reply is written in it already.
    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.session.protocol = protocol;
        self.reply.set_protocol(protocol);
        if let Some(client) = self.server.clients.get(self.session.id) {
            client.set_protocol(protocol);
        }
    }

    /// Tells that the argument at `position`, a key, was changed, with its keyspace event.
    pub(crate) fn changed(&mut self, position: usize, class: EventClass, event: &'static str) {
        let (db, key) = (self.session.db, self.args[position]);
        self.txn.changed(db, key);
        self.txn.event(class, event, db, key);
    }
}

/// Notes that a command uses its keys, as far as it does.
pub(crate) fn note_uses(
    server: &Server,
    txn: &Txn<'_>,
    db: u16,
    command: &'static Command,
    arguments: &[&[u8]],
    found: &mut Vec<KeyRef>,
) {
    let kind = CommandKind::of(command);
    if !kind.uses_keys || !server.key_uses.is_noting() {
        return;
    }
    let (physical, now_s) = (txn.physical(db), Server::use_time_s(txn));
    let note = |key: &[u8]| server.key_uses.note(physical, key, now_s, || server.store.random());
    if kind.has_one_key {
        return arguments.get(1).copied().into_iter().for_each(note);
    }
    keys(command, arguments, found);
    found.iter().for_each(|key| note(arguments[key.position]));
}

/// A number of seconds. Redis reads it as a number of 80 bits, whose exponents go further: what is beyond
/// those of 64 bits becomes infinite or the least number here.
fn seconds(text: &[u8]) -> Option<f64> {
    parse_double(text).or_else(|| {
        let mut digits = Vec::new();
        LongDouble::parse(text)?.write(&mut digits);
        Some(match &digits[..] {
            b"0" => f64::MIN_POSITIVE,
            b"-0" => -f64::MIN_POSITIVE,
            [b'-', ..] => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        })
    })
}
