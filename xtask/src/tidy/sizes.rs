//! Checks the sizes of files and functions.
//!
//! Files of 100 to 400 lines read well. Tests at a file's foot do not count; a file of tests may be longer,
//! because it is read a test at a time.

use super::exemptions::FUNCTIONS;
use super::written;
use crate::findings::Findings;
use crate::repository::{Repository, Source, is_test_only};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of code from which on a file should be divided.
const FILE_LINES_WARN: usize = 500;
/// Most lines of code of a file.
const FILE_LINES_MAX: usize = 800;
/// Most lines of a file of tests.
const TEST_FILE_LINES_MAX: usize = 1_000;
/// Most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let mut used = vec![false; FUNCTIONS.len()];
    for (path, source) in written(repository) {
        check_file(path, source, findings);
        if !source.is_test {
            check_functions(path, source, &mut used, findings);
        }
    }
    for (exemption, used) in FUNCTIONS.iter().zip(used) {
        if !used {
            let text = format!(
                "{} is short by now, or gone: take out its exemption ({})",
                exemption.function, exemption.reason
            );
            findings.error(Path::new(exemption.path), 0, text);
        }
    }
}

fn check_file(path: &Path, source: &Source, findings: &mut Findings) {
    let (lines, max) = match source.is_test {
        true => (source.text.lines().count(), TEST_FILE_LINES_MAX),
        false => (code_lines(source), FILE_LINES_MAX),
    };
    if lines > max {
        findings.error(path, 0, format!("{lines} lines, {max} are allowed: one idea a file"));
    } else if lines > FILE_LINES_WARN && !source.is_test {
        findings.warning(path, 0, format!("{lines} lines: is there a second idea in this file?"));
    }
}

/// Lines, except those of items that only tests compile.
fn code_lines(source: &Source) -> usize {
    let tests = source.syntax.items.iter().filter(|item| is_test_only(attributes(item)));
    source.text.lines().count() - tests.map(lines_of).sum::<usize>()
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn lines_of(spanned: &impl Spanned) -> usize {
    let span = spanned.span();
    span.end().line + 1 - span.start().line
}

fn check_functions(path: &Path, source: &Source, used: &mut [bool], findings: &mut Findings) {
    let mut functions = Functions::default();
    functions.visit_file(&source.syntax);
    for function in functions.long {
        let exempt = |exemption: &super::exemptions::Exemption| {
            Path::new(exemption.path) == path && exemption.function == function.name
        };
        if let Some(at) = FUNCTIONS.iter().position(exempt) {
            used[at] = true;
            continue;
        }
        let text = format!(
            "the function {} has {} lines, {FUNCTION_LINES_MAX} are allowed: take it apart, or exempt it with the \
             reason in xtask/src/tidy/exemptions.rs",
            function.name, function.lines
        );
        findings.error(path, function.line, text);
    }
}

struct LongFunction {
    name: String,
    line: usize,
    lines: usize,
}

#[derive(Default)]
struct Functions {
    long: Vec<LongFunction>,
}

impl Functions {
    fn look(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let lines = body.span().end().line + 1 - line;
        if lines > FUNCTION_LINES_MAX {
            self.long.push(LongFunction { name: signature.ident.to_string(), line, lines });
        }
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            self.look(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            self.look(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.look(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { text: text.to_owned(), syntax: syn::parse_file(text).unwrap(), is_test: false }
    }

    #[test]
    fn tests_at_the_foot_do_not_count() {
        let code = source("fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n");
        assert_eq!(code_lines(&code), 2);
        let mut findings = Findings::default();
        let long = source(&"const A: u8 = 0;\n".repeat(FILE_LINES_MAX + 1));
        check_file(Path::new("a.rs"), &long, &mut findings);
        assert!(findings.has_errors());
    }

    #[test]
    fn long_functions_are_found_wherever_they_are() {
        let body = "    g();\n".repeat(FUNCTION_LINES_MAX);
        for long in [
            format!("fn f() {{\n{body}}}"),
            format!("impl S {{ fn f() {{\n{body}}} }}"),
            format!("trait T {{ fn f() {{\n{body}}} }}"),
            format!("mod m {{ fn f() {{\n{body}}} }}"),
        ] {
            let mut findings = Findings::default();
            check_functions(Path::new("a.rs"), &source(&long), &mut [false; 64], &mut findings);
            assert_eq!(findings.texts().len(), 1, "{long}");
            assert!(findings.texts()[0].contains("function f has 72 lines"), "{:?}", findings.texts());
        }
        let mut findings = Findings::default();
        let test = format!("#[cfg(test)] mod m {{ fn f() {{\n{body}}} }}");
        check_functions(Path::new("a.rs"), &source(&test), &mut [false; 64], &mut findings);
        assert!(findings.texts().is_empty());
    }
}
