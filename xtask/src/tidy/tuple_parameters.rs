//! No parameter of a function is a tuple that is taken apart in the signature.
//!
//! `(plan, victims): (&CompactionPlan, &BTreeSet<FileNumber>)` counts as one argument where it is two, so it
//! hides from clippy that there are too many. Plain parameters, or a struct with a name, say what the
//! arguments are. Closures may take tuples apart, and so may functions of one argument, which stand for
//! closures: iterators pass them.

use super::written;
use crate::findings::Findings;
use crate::repository::Repository;
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Checks all functions, those of tests included.
pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for (path, source) in written(repository) {
        check_file(path, &source.syntax, findings);
    }
}

fn check_file(path: &Path, syntax: &syn::File, findings: &mut Findings) {
    let mut tuples = Tuples::default();
    tuples.visit_file(syntax);
    for (function, line) in tuples.found {
        let text = format!(
            "the function {function} takes a tuple apart in its parameters: pass plain ones, or a struct"
        );
        findings.error(path, line, text);
    }
}

/// Functions with such parameters, by name and line.
#[derive(Default)]
struct Tuples {
    found: Vec<(String, usize)>,
}

impl<'a> Visit<'a> for Tuples {
    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        let parameters = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(parameter) => Some(parameter),
            syn::FnArg::Receiver(_) => None,
        });
        if parameters.clone().count() > 1 {
            for parameter in parameters.filter(|parameter| is_tuple(&parameter.pat)) {
                self.found.push((signature.ident.to_string(), parameter.span().start().line));
            }
        }
        visit::visit_signature(self, signature);
    }
}

fn is_tuple(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Tuple(_) => true,
        syn::Pat::Reference(reference) => is_tuple(&reference.pat),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check_file(Path::new("a.rs"), &syn::parse_file(text).unwrap(), &mut findings);
        findings.texts().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn tuples_taken_apart_are_found_wherever_they_are() {
        for text in [
            "fn f((a, b): (u8, u8), c: u8) {}",
            "impl S { fn f(&self, &(a, b): &(u8, u8), c: u8) {} }",
            "trait T { fn f(a: u8, (b, _): (u8, u8)) {} }",
            "mod m { fn g() { fn f(a: u8, (b, c): (u8, u8)) {} } }",
        ] {
            let found = findings_in(text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].contains("function f takes a tuple apart"), "{found:?}");
        }
    }

    #[test]
    fn closures_single_and_whole_tuples_are_allowed() {
        let text = "fn f(pair: (u8, u8), c: u8) -> u8 { let g = |(a, b): (u8, u8), d: u8| a + b + d; g(pair, c) }\n\
                    impl S { fn f(&self, (a, b): (u8, u8)) {} }";
        assert!(findings_in(text).is_empty());
    }
}
