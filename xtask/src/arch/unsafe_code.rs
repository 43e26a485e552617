//! Checks that unsafe code stays in the listed modules.

use super::floors::Crate;
use super::{TABLE, find, relative};
use crate::findings::Findings;
use crate::repository::{Repository, Source};
use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;
use syn::{AttrStyle, Meta};

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for package in &repository.metadata.packages {
        let Some(known) = find(&package.name) else { continue };
        for target in &package.targets {
            let root = relative(repository, target.src_path.as_ref());
            let is_product = target.is_lib() || target.is_bin();
            if is_product
                && known.unsafe_modules.is_empty()
                && let Some(source) = repository.sources.get(&root)
                && !forbids_unsafe(source)
            {
                let text = "nothing here needs unsafe code: say `#![forbid(unsafe_code)]` below the essay";
                findings.error(&root, 0, text);
            }
        }
        let Some(directory) = package.manifest_path.parent() else { continue };
        let directory = relative(repository, directory.as_ref());
        check_modules(repository, known, &directory, findings);
    }
}

fn check_modules(repository: &Repository, known: &Crate, directory: &Path, findings: &mut Findings) {
    for (path, source) in &repository.sources {
        let Ok(inside) = path.strip_prefix(directory) else { continue };
        let Some(line) = first_unsafe(&source.text) else { continue };
        if !known.unsafe_modules.iter().any(|module| inside.starts_with(module)) {
            let text = format!(
                "unsafe code outside of the modules named for it: write it safely, or add the module to {TABLE} with \
                 its invariant written down"
            );
            findings.error(path, line, text);
        }
    }
    for module in known.unsafe_modules {
        let holds = |(path, source): (&std::path::PathBuf, &Source)| {
            path.strip_prefix(directory).is_ok_and(|inside| inside.starts_with(module))
                && first_unsafe(&source.text).is_some()
        };
        if !repository.sources.iter().any(holds) {
            let text = format!("{}/{module} holds no unsafe code any more; take it out", directory.display());
            findings.warning(Path::new(TABLE), 0, text);
        }
    }
}

fn forbids_unsafe(source: &Source) -> bool {
    source.syntax.attrs.iter().any(|attribute| match &attribute.meta {
        Meta::List(list)
            if matches!(attribute.style, AttrStyle::Inner(_)) && list.path.is_ident("forbid") =>
        {
            list.tokens.to_string().contains("unsafe_code")
        }
        _ => false,
    })
}

/// Line of the first `unsafe` keyword, within macros too. Comments and strings do not count.
fn first_unsafe(source: &str) -> Option<usize> {
    fn search(tokens: TokenStream) -> Option<usize> {
        tokens.into_iter().find_map(|token| match token {
            TokenTree::Ident(ident) if ident == "unsafe" => Some(ident.span().start().line),
            TokenTree::Group(group) => search(group.stream()),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
        })
    }
    search(source.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::floors::CRATES;
    use super::*;

    #[test]
    fn the_keyword_is_found_and_the_word_is_not() {
        let line = |text: &str| first_unsafe(text);
        assert_eq!(line("//! unsafe\nfn f() { let s = \"unsafe\"; }"), None);
        assert_eq!(line("fn f() {\n    unsafe { g() }\n}"), Some(2));
        assert_eq!(line("unsafe impl Send for S {}"), Some(1));
        assert_eq!(line("fn f() { m!(unsafe { g() }) }"), Some(1));
    }

    #[test]
    fn every_crate_has_its_modules_below_its_own_folder() {
        for module in CRATES.iter().flat_map(|known| known.unsafe_modules) {
            assert!(module.starts_with("src/") || module.starts_with("tests/"), "{module}");
        }
    }
}
