//! The engine of a thread: compiles scripts and libraries, runs them, and turns what they return into
//! replies.

use crate::host::Host;
use crate::library::{Library, LibraryFunction, Loading, read_header};
use crate::lru::Lru;
use crate::lua_to_reply::{Failure, ReplyConverter, c_string};
use crate::script::Script;
use crate::vm::{Ended, Vm};
use esker_resp::writer::{Protocol, ReplyWriter};
use mlua::{Function, Table, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// What a compiled script takes, as a multiple of its text, and beside it.
const COMPILED_FACTOR: usize = 6;
const COMPILED_BYTES: usize = 1_024;

/// The longest text of an error that is not a table.
const LONGEST_OTHER_ERROR: usize = 100;

/// Limits of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of each of its two virtual machines, for scripts and for functions. A script that needs more gets an
    /// error.
    pub memory_bytes: usize,
    /// For compiled scripts. Those used longest ago are compiled anew when they run again.
    pub compiled_bytes: usize,
    /// Of one reply.
    pub reply_bytes: usize,
    /// Of strings that `cjson`, `cmsgpack` and `struct` make.
    pub string_bytes: usize,
}

impl Default for Limits {
    /// 256 MiB of memory; replies of 512 MiB, the longest string of Redis, and a quarter of the memory for
    /// strings and compiled scripts each.
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            compiled_bytes: 64 << 20,
            reply_bytes: 512 << 20,
            string_bytes: 64 << 20,
        }
    }
}

/// What a library registered, and the code of it, by name.
type LoadedFunctions = HashMap<Vec<u8>, Rc<Function>>;

/// How a script or function is called, and by whose protocol its reply is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation<'c> {
    /// `KEYS`.
    pub keys: &'c [&'c [u8]],
    /// `ARGV`.
    pub arguments: &'c [&'c [u8]],
    /// What the client speaks.
    pub protocol: Protocol,
}

/// The engine of one thread. Its virtual machines come into being when they are needed.
pub struct Engine {
    limits: Limits,
    // Values of a machine are dropped before it.
    compiled: Lru<Function>,
    libraries: HashMap<Vec<u8>, (Library, LoadedFunctions)>,
    scripts: Option<Vm>,
    functions: Option<Vm>,
}

impl Engine {
    /// An engine that has nothing in memory yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            compiled: Lru::new(limits.compiled_bytes),
            libraries: HashMap::new(),
            scripts: None,
            functions: None,
            limits,
        }
    }

    /// Compiles a script without running it: SCRIPT LOAD.
    ///
    /// # Errors
    /// The reply's text.
    pub fn check(&mut self, script: &Script) -> Result<(), Vec<u8>> {
        self.compile(script).map(|_| ())
    }

    /// Forgets compiled scripts and all that they left in memory: SCRIPT FLUSH.
    pub fn flush_scripts(&mut self) {
        self.compiled.clear();
        self.scripts = None;
    }

    /// Forgets loaded libraries: FUNCTION FLUSH. They are loaded again when a function is called.
    pub fn flush_functions(&mut self) {
        self.libraries.clear();
        self.functions = None;
    }

    /// The memory of both virtual machines.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        [&self.scripts, &self.functions].into_iter().flatten().map(|vm| vm.lua.used_memory()).sum()
    }

    /// Runs a script and appends its reply, or its error, in the client's protocol.
    pub fn run(
        &mut self,
        script: &Script,
        invocation: &Invocation<'_>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) {
        let protocol = invocation.protocol;
        let function = match self.compile(script) {
            Ok(function) => function,
            Err(text) => return ReplyWriter::new(out, protocol).error(&text),
        };
        let Some(vm) = &self.scripts else { return };
        vm.state.begin_run();
        let ended =
            vm.state.host.lend(host, || vm.run_script(&function, invocation.keys, invocation.arguments));
        self.limits.reply(vm, script.sha(), ended, protocol, out);
        collect_garbage(vm, self.limits.memory_bytes);
    }

    /// Loads a library: runs its code, which registers functions. Redis gives it 500 ms.
    ///
    /// # Errors
    /// The reply's text.
    pub fn load_library(&mut self, code: &[u8], host: &mut dyn Host) -> Result<Library, Vec<u8>> {
        let (name, functions) = self.run_library(code, host)?;
        let described: Vec<LibraryFunction> =
            functions.iter().map(|(function, _)| function.clone()).collect();
        let library = Library::new(name, code.to_vec(), described);
        self.keep(&library, functions);
        Ok(library)
    }

    /// Calls a function of a library, which is loaded first unless it is, and appends its reply.
    pub fn call_function(
        &mut self,
        library: &Library,
        function: &LibraryFunction,
        invocation: &Invocation<'_>,
        host: &mut dyn Host,
        out: &mut Vec<u8>,
    ) {
        let protocol = invocation.protocol;
        if !self.libraries.get(library.name()).is_some_and(|(known, _)| known.is(library)) {
            match self.run_library(library.code(), host) {
                Ok((_, functions)) => self.keep(library, functions),
                Err(text) => return ReplyWriter::new(out, protocol).error(&text),
            }
        }
        let loaded = self.libraries.get(library.name()).and_then(|(_, all)| all.get(&function.name));
        let (Some(callback), Some(vm)) = (loaded, &self.functions) else {
            return ReplyWriter::new(out, protocol).error(b"ERR Function not found");
        };
        vm.state.begin_run();
        let ended =
            vm.state.host.lend(host, || vm.run_function(callback, invocation.keys, invocation.arguments));
        self.limits.reply(vm, &function.name, ended, protocol, out);
        collect_garbage(vm, self.limits.memory_bytes);
    }

    /// The compiled script.
    fn compile(&mut self, script: &Script) -> Result<Function, Vec<u8>> {
        if self.scripts.is_none() {
            let vm = Vm::for_scripts(self.limits.memory_bytes, self.limits.string_bytes);
            self.scripts = Some(vm.map_err(no_machine)?);
        }
        if let Some(function) = self.compiled.get(script.sha()) {
            return Ok(function.clone());
        }
        let Some(vm) = &self.scripts else { return Err(Vec::new()) };
        let compiled = vm.compile(script.code(), "@user_script");
        let function = compiled
            .map_err(|text| [&b"ERR Error compiling script (new function): "[..], &text[..]].concat())?;
        let bytes = script.body().len().saturating_mul(COMPILED_FACTOR) + COMPILED_BYTES;
        self.compiled.insert(*script.sha(), function.clone(), bytes);
        Ok(function)
    }

    /// Runs a library's code and returns its name and what it registered.
    #[expect(clippy::type_complexity, reason = "taken apart at both callers")]
    fn run_library(
        &mut self,
        code: &[u8],
        host: &mut dyn Host,
    ) -> Result<(Vec<u8>, Vec<(LibraryFunction, Rc<Function>)>), Vec<u8>> {
        let header = read_header(code).map_err(|text| [b"ERR ", text.as_slice()].concat())?;
        if self.functions.is_none() {
            let vm = Vm::for_functions(self.limits.memory_bytes, self.limits.string_bytes);
            self.functions = Some(vm.map_err(no_machine)?);
        }
        let Some(vm) = &self.functions else { return Err(Vec::new()) };
        let chunk = vm
            .compile(&code[header.code..], "@user_function")
            .map_err(|text| [&b"ERR Error compiling function: "[..], &text[..]].concat())?;
        vm.state.begin_run();
        vm.state.loading.replace(Some(Loading::default()));
        let ended = vm.state.host.lend(host, || vm.run_library(&chunk));
        let functions = vm.state.loading.take().unwrap_or_default().into_functions();
        collect_garbage(vm, self.limits.memory_bytes);
        match ended.map_err(no_machine)? {
            Err(error) => Err([b"ERR Error registering functions: ", error_text(&error).as_slice()].concat()),
            Ok(_) if functions.is_empty() => Err(b"ERR No functions registered".to_vec()),
            Ok(_) => Ok((header.name, functions)),
        }
    }

    fn keep(&mut self, library: &Library, functions: Vec<(LibraryFunction, Rc<Function>)>) {
        let functions = functions.into_iter().map(|(function, code)| (function.name, code)).collect();
        self.libraries.insert(library.name().to_vec(), (library.clone(), functions));
    }
}

/// Lua could not do what must succeed: it has no memory.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_machine(error: mlua::Error) -> Vec<u8> {
    format!("ERR the script engine failed: {error}").into_bytes()
}

/// Lua collects when memory has doubled; above half of the limit that would be too late.
fn collect_garbage(vm: &Vm, memory_bytes: usize) {
    if vm.lua.used_memory() > memory_bytes / 2 {
        // Fails only if a finalizer does, and there are none.
        let _ = vm.lua.gc_collect();
    }
}

/// The text of an error's table, or of a value that is none.
fn error_text(error: &Value) -> Vec<u8> {
    let text = match error {
        Value::Table(table) => table.raw_get("err").unwrap_or(Value::Nil),
        other => other.clone(),
    };
    match text {
        Value::String(text) => c_string(&text.as_bytes()).to_vec(),
        _ => b"execution failure".to_vec(),
    }
}

impl Limits {
    /// Appends the reply for how the script `name` ended.
    fn reply(&self, vm: &Vm, name: &[u8], ended: mlua::Result<Ended>, protocol: Protocol, out: &mut Vec<u8>) {
        let start = out.len();
        let failure = match ended {
            Ok(Ok(value)) => {
                let longest = start.saturating_add(self.reply_bytes);
                let script = vm.state.protocol.get();
                match (ReplyConverter { out, client: protocol, script, longest }).write(&value, 0) {
                    Ok(()) => return,
                    Err(Failure::TooLong) => {
                        format!("ERR the reply of the script is longer than {} bytes", self.reply_bytes)
                            .into_bytes()
                    }
                    Err(Failure::Lua(error)) => no_machine(error),
                }
            }
            Ok(Err(Value::Table(error))) => with_position(&error, name),
            Ok(Err(other)) => {
                let mut text = error_text(&other);
                text.truncate(LONGEST_OTHER_ERROR);
                [b"ERR Error running script ", name, b", ", text.as_slice()].concat()
            }
            Err(error) => no_machine(error),
        };
        out.truncate(start);
        ReplyWriter::new(out, protocol).error(&failure);
    }
}

/// The text of an error with the script's name, and its line where it is known.
fn with_position(error: &Table, name: &[u8]) -> Vec<u8> {
    let mut text = error_text(&Value::Table(error.clone()));
    let field = |name| match error.raw_get::<Value>(name) {
        Ok(Value::String(text)) => Some(c_string(&text.as_bytes()).to_vec()),
        Ok(Value::Integer(number)) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    if let (Some(source), Some(line)) = (field("source"), field("line")) {
        for part in [&b" script: "[..], name, b", on ", &source, b":", &line, b"."] {
            text.extend_from_slice(part);
        }
    }
    text
}
