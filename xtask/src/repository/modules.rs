//! Follows `mod` declarations from the roots of all targets, to find files that nothing compiles and code
//! that only tests compile.

use cargo_metadata::{Metadata, TargetKind};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta, Token};

pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) syntax: syn::File,
    /// Only tests, benchmarks, examples and build scripts compile it.
    pub(crate) is_test: bool,
}

impl Source {
    /// Whether a program wrote it, as its first line says then.
    pub(crate) fn is_generated(&self) -> bool {
        is_generated(&self.text)
    }
}

/// Whether the text of a file says that a program wrote it.
pub(crate) fn is_generated(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.starts_with("//") && line.contains("@generated"))
}

/// The root file of a target.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    is_test: bool,
}

pub(super) fn targets_of(metadata: &Metadata) -> Vec<Target> {
    let all = metadata.packages.iter().flat_map(|package| &package.targets);
    all.map(|target| {
        let product = |kind: &TargetKind| {
            !matches!(
                kind,
                TargetKind::Test | TargetKind::Bench | TargetKind::Example | TargetKind::CustomBuild
            )
        };
        Target { path: target.src_path.clone().into(), is_test: !target.kind.iter().any(product) }
    })
    .collect()
}

/// All files that the targets reach, and those that could not be read or parsed.
pub(super) fn walk(root: &Path, targets: Vec<Target>) -> (BTreeMap<PathBuf, Source>, Vec<(PathBuf, String)>) {
    let mut walk = Walk { root, sources: BTreeMap::new(), unreadable: Vec::new() };
    for target in targets {
        let directory = target.path.parent().unwrap_or(Path::new("")).to_owned();
        walk.file(&target.path, &directory, target.is_test);
    }
    (walk.sources, walk.unreadable)
}

struct Walk<'a> {
    root: &'a Path,
    sources: BTreeMap<PathBuf, Source>,
    unreadable: Vec<(PathBuf, String)>,
}

impl Walk<'_> {
    /// Reads one file; the files of its modules lie in `directory`.
    fn file(&mut self, path: &Path, directory: &Path, is_test: bool) {
        let name = path.strip_prefix(self.root).unwrap_or(path).to_owned();
        if let Some(known) = self.sources.get(&name)
            && (!known.is_test || is_test)
        {
            return;
        }
        let read = fs::read_to_string(path).map_err(|error| error.to_string());
        let parsed = read.and_then(|text| match syn::parse_file(&text) {
            Ok(syntax) => Ok((text, syntax)),
            Err(error) => Err(format!("line {}: {error}", error.span().start().line)),
        });
        let (text, syntax) = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => return self.unreadable.push((name, reason)),
        };
        let items = syntax.items.clone();
        self.sources.insert(name, Source { text, syntax, is_test });
        self.modules(&items, path, directory, is_test);
    }

    fn modules(&mut self, items: &[Item], path: &Path, directory: &Path, is_test: bool) {
        for item in items {
            let Item::Mod(module) = item else { continue };
            let is_test = is_test || is_test_only(&module.attrs);
            let name = module.ident.to_string();
            match &module.content {
                Some((_, inner)) => self.modules(inner, path, &directory.join(&name), is_test),
                None => self.declared(module, &name, path, directory, is_test),
            }
        }
    }

    fn declared(&mut self, module: &ItemMod, name: &str, path: &Path, directory: &Path, is_test: bool) {
        if let Some(explicit) = explicit_path(&module.attrs) {
            let file = path.parent().unwrap_or(Path::new("")).join(explicit);
            let directory = file.parent().unwrap_or(Path::new("")).to_owned();
            return self.file(&file, &directory, is_test);
        }
        for twin in conditional_paths(&module.attrs) {
            let file = path.parent().unwrap_or(Path::new("")).join(twin);
            let directory = file.parent().unwrap_or(Path::new("")).to_owned();
            self.file(&file, &directory, is_test);
        }
        let flat = directory.join(format!("{name}.rs"));
        let inside = directory.join(name);
        let file = if flat.exists() { flat } else { inside.join("mod.rs") };
        self.file(&file, &inside, is_test);
    }
}

fn explicit_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

/// The values of `#[cfg_attr(condition, path = "...")]`: files that replace the module under a condition.
fn conditional_paths(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg_attr") => Some(list),
        _ => None,
    });
    let metas =
        lists.filter_map(|list| list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok());
    let pairs = metas.flatten().filter_map(|meta| match meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => Some(pair.value),
        _ => None,
    });
    pairs
        .filter_map(|value| match value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        })
        .collect()
}

/// Whether an item is compiled for tests only: `#[test]` or `#[cfg(test)]`, also within `all` or `any`.
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => list.path.is_ident("cfg") && mentions_test(list.tokens.clone()),
        Meta::NameValue(_) => false,
    })
}

fn mentions_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            negated = ident == "not";
            ident == "test"
        }
        TokenTree::Group(group) => !std::mem::take(&mut negated) && mentions_test(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::is_test_only;

    fn attributes(text: &str) -> Vec<syn::Attribute> {
        syn::parse_str::<syn::ItemFn>(&format!("{text} fn f() {{}}")).unwrap().attrs
    }

    #[test]
    fn test_code_is_distinguished_from_product_code() {
        for test in ["#[test]", "#[cfg(test)]", "#[cfg(all(test, not(loom)))]", "#[cfg(any(test, unix))]"] {
            assert!(is_test_only(&attributes(test)), "{test}");
        }
        for product in ["", "#[inline]", "#[cfg(unix)]", "#[cfg(not(test))]", "#[cfg(feature = \"test\")]"] {
            assert!(!is_test_only(&attributes(product)), "{product}");
        }
    }
}
