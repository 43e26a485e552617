//! A library of functions: its name, its code and what the code registers.

use crate::flags::Flags;
use esker_resp::quoting::split;
use std::rc::Rc;
use std::sync::Arc;

/// Why a name is refused, of a library or of a function.
const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least \
                        one character long";

/// A library that any engine can call; FUNCTION DUMP stores its code.
#[derive(Clone, Debug)]
pub struct Library(Arc<Content>);

#[derive(Debug)]
struct Content {
    name: Vec<u8>,
    code: Vec<u8>,
    functions: Vec<LibraryFunction>,
}

/// What a library registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFunction {
    /// Its name.
    pub name: Vec<u8>,
    /// What it says it does.
    pub description: Option<Vec<u8>>,
    /// What it promises.
    pub flags: Flags,
}

impl Library {
    pub(crate) fn new(name: Vec<u8>, code: Vec<u8>, functions: Vec<LibraryFunction>) -> Self {
        Self(Arc::new(Content { name, code, functions }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// Its code with the first line.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        &self.0.code
    }

    /// Its functions, as they were registered.
    #[must_use]
    pub fn functions(&self) -> &[LibraryFunction] {
        &self.0.functions
    }

    /// Whether both are the outcome of the same load.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The first line of a library: `#!lua name=...`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    /// Where the code begins: at the end of the line, so that lines keep their numbers.
    pub(crate) code: usize,
}

/// Reads the first line.
pub(crate) fn read_header(code: &[u8]) -> Result<Header, Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Err(b"Missing library metadata".to_vec());
    }
    let invalid = || b"Invalid library metadata".to_vec();
    let end = code.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
    let words = split(&code[..end]).map_err(|_| invalid())?;
    let (engine, options) = words.split_first().ok_or_else(invalid)?;
    let mut name = None;
    for option in options {
        let Some(value) = value_of_name(option) else {
            return Err([b"Invalid metadata value given: ", option.as_slice()].concat());
        };
        if name.replace(value.to_vec()).is_some() {
            return Err(b"Invalid metadata value, name argument was given multiple times".to_vec());
        }
    }
    let name = name.ok_or_else(|| b"Library name was not given".to_vec())?;
    check_name(&name)?;
    let engine = engine.get(2..).unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"Engine '", engine, b"' not found"].concat());
    }
    Ok(Header { name, code: end })
}

/// What follows `name=`, in any case of letters.
fn value_of_name(option: &[u8]) -> Option<&[u8]> {
    let (start, value) = option.split_at_checked(5)?;
    start.eq_ignore_ascii_case(b"name=").then_some(value)
}

fn check_name(name: &[u8]) -> Result<(), Vec<u8>> {
    let is_valid = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if is_valid { Ok(()) } else { Err(BAD_NAME.into()) }
}

/// A library whose code runs: what it has registered so far.
#[derive(Default)]
pub(crate) struct Loading {
    functions: Vec<(LibraryFunction, Rc<mlua::Function>)>,
}

impl Loading {
    /// Registers a function; otherwise the error that is raised.
    pub(crate) fn register(
        &mut self,
        function: LibraryFunction,
        callback: mlua::Function,
    ) -> Result<(), Vec<u8>> {
        check_name(&function.name)?;
        if self.functions.iter().any(|(known, _)| known.name == function.name) {
            return Err(b"Function already exists in the library".to_vec());
        }
        self.functions.push((function, Rc::new(callback)));
        Ok(())
    }

    pub(crate) fn into_functions(self) -> Vec<(LibraryFunction, Rc<mlua::Function>)> {
        self.functions
    }
}

#[cfg(test)]
mod tests {
    use super::read_header;

    #[test]
    fn headers_that_are_not_understood_are_refused() {
        for (code, expected) in [
            ("return 1", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua name=a b\n", "Invalid metadata value given: b"),
            ("#!lua name=a NAME=b\n", "Invalid metadata value, name argument was given multiple times"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=\n", super::BAD_NAME),
            ("#!lua name=a-b\n", super::BAD_NAME),
            ("#!js name=a\n", "Engine 'js' not found"),
            ("#!lua name=\"a\n", "Invalid library metadata"),
        ] {
            assert_eq!(read_header(code.as_bytes()).expect_err(code), expected.as_bytes(), "{code}");
        }
        assert_eq!(read_header(b"#!LUA Name=ab\nx").expect("valid").name, b"ab");
    }
}
