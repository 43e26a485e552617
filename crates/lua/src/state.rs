//! What the functions of one virtual machine share.

use crate::bridge::HostSlot;
use crate::json_settings::Settings;
use crate::library::Loading;
use crate::raise::Raise;
use crate::random::Random48;
use esker_resp::writer::Protocol;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

/// After so many elements that functions of Rust read or write, the host is asked whether the script may go
/// on. An element takes about ten instructions' time.
const ELEMENTS_BETWEEN_QUESTIONS: u32 = 10_000;

/// Shared by the functions of one virtual machine.
pub(crate) struct State {
    pub(crate) host: HostSlot,
    /// Of replies to `redis.call`; RESP2 when a script begins.
    pub(crate) protocol: Cell<Protocol>,
    pub(crate) random: RefCell<Random48>,
    pub(crate) cjson: RefCell<Settings>,
    /// The library whose code is being loaded.
    pub(crate) loading: RefCell<Option<Loading>>,
    /// For replies of commands; kept for its memory.
    pub(crate) reply: RefCell<Vec<u8>>,
    /// No string that a function of Rust makes is longer.
    pub(crate) string_bytes: usize,
    elements: Cell<u32>,
}

impl State {
    pub(crate) fn new(string_bytes: usize) -> Self {
        Self {
            host: HostSlot::default(),
            protocol: Cell::new(Protocol::Resp2),
            random: RefCell::default(),
            cjson: RefCell::default(),
            loading: RefCell::new(None),
            reply: RefCell::default(),
            string_bytes,
            elements: Cell::new(0),
        }
    }

    /// What one script set does not meet the next one.
    pub(crate) fn begin_run(&self) {
        self.protocol.set(Protocol::Resp2);
        *self.cjson.borrow_mut() = Settings::default();
    }

    /// Counts an element that a function of Rust reads or writes.
    pub(crate) fn count_element(&self) -> Result<(), Raise> {
        self.elements.set(self.elements.get() + 1);
        if self.elements.get() < ELEMENTS_BETWEEN_QUESTIONS {
            return Ok(());
        }
        self.elements.set(0);
        match self.host.with(|host| host.may_go_on()) {
            Some(ControlFlow::Break(reason)) => Err(Raise::Stop(format!("ERR {reason}"))),
            _ => Ok(()),
        }
    }

    /// Refuses a string that has grown too long.
    pub(crate) fn check_string(&self, length: usize) -> Result<(), Raise> {
        if length > self.string_bytes {
            let text = format!("the text would be longer than {} bytes", self.string_bytes);
            return Err(Raise::Message(text));
        }
        Ok(())
    }
}
