//! Arrows between the modules of one crate, read from the paths in its product code.
//!
//! An arrow is a path that begins with `crate`, `self` or `super`, in a `use`, a type, an expression or a
//! macro, and leads to another module. A name that a module re-exports or imports leads to the module that
//! defines it. Test code and the visibility of items draw no arrows.

use crate::repository::{Repository, is_test_only};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// Stands for the items that the file of a folder, or of the crate's root, defines itself.
pub(super) const OWN: &str = "mod";

/// Path from the crate's root to a module or an item.
type Names = Vec<String>;

/// The modules of one crate, and their arrows.
#[derive(Debug, Default)]
pub(super) struct Modules {
    all: BTreeSet<Names>,
    /// The target of an imported name; `None` if it is outside of the crate.
    imports: BTreeMap<(Names, String), Option<Names>>,
    mentions: Vec<Mention>,
}

#[derive(Debug)]
struct Mention {
    from: Names,
    to: Names,
    file: PathBuf,
    line: usize,
}

/// A use of one module of a folder by another one of the same folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

impl Modules {
    /// Reads the product code below `source`, the folder with the crate's root file.
    pub(super) fn read(repository: &Repository, source: &Path) -> Modules {
        let mut modules = Modules::default();
        for (path, file) in repository.sources.iter().filter(|(_, file)| !file.is_test) {
            if let Ok(inside) = path.strip_prefix(source) {
                modules.add(path, module_of(inside), &file.syntax);
            }
        }
        modules
    }

    fn add(&mut self, path: &Path, at: Names, syntax: &syn::File) {
        self.all.insert(at.clone());
        // Imports name child modules that are declared anywhere in the file, so those come first.
        for item in &syntax.items {
            if let Item::Mod(module) = item
                && !is_test_only(&module.attrs)
            {
                self.all.insert(joined(&at, &module.ident.to_string()));
            }
        }
        Reader { modules: self, at, file: path }.visit_file(syntax);
    }

    /// The direct modules of a folder; of the crate for the empty path.
    pub(super) fn children(&self, folder: &[String]) -> Vec<&str> {
        let below = self.all.iter().filter(|names| names.len() == folder.len() + 1);
        let below = below.filter(|names| names.starts_with(folder));
        below.filter_map(|names| names.last()).map(String::as_str).collect()
    }

    pub(super) fn arrows(&self, folder: &[String]) -> Vec<Arrow> {
        let arrows = self.mentions.iter().filter_map(|mention| {
            if !mention.from.starts_with(folder) {
                return None;
            }
            let from = mention.from.get(folder.len())?.clone();
            let to = self.resolved(&mention.to)?;
            if !to.starts_with(folder) || to.len() == folder.len() {
                return None;
            }
            let name = &to[folder.len()];
            let is_module = self.all.contains(&to[..=folder.len()]);
            let to = if is_module { name.clone() } else { OWN.to_owned() };
            (from != to).then(|| Arrow { from, to, file: mention.file.clone(), line: mention.line })
        });
        arrows.collect()
    }

    /// Follows imports to the definition; `None` if that is outside of the crate.
    fn resolved(&self, path: &[String]) -> Option<Names> {
        let mut path = path.to_vec();
        // A chain of imports is short; a cycle of imports does not compile.
        for _ in 0..8 {
            let Some((at, target)) = self.first_import(&path) else { return Some(path) };
            let mut next = target?;
            next.extend_from_slice(&path[at + 1..]);
            if next == path {
                return Some(path);
            }
            path = next;
        }
        Some(path)
    }

    /// The first name on a path that its module imports.
    fn first_import(&self, path: &[String]) -> Option<(usize, Option<Names>)> {
        (0..path.len()).find_map(|at| {
            if self.all.contains(&path[..=at]) {
                return None;
            }
            let imported = self.imports.get(&(path[..at].to_vec(), path[at].clone()))?;
            Some((at, imported.clone()))
        })
    }
}

/// The module of a file below the crate's source folder.
fn module_of(inside: &Path) -> Names {
    let mut names: Names =
        inside.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod")
        || matches!(&names[..], [only] if only == "lib" || only == "main")
    {
        names.pop();
    }
    names
}

fn joined(at: &[String], name: &str) -> Names {
    let mut names = at.to_vec();
    names.push(name.to_owned());
    names
}

struct Reader<'a> {
    modules: &'a mut Modules,
    /// The current module.
    at: Names,
    file: &'a Path,
}

impl Reader<'_> {
    /// A path from the crate's root on; `None` if it does not begin in this crate.
    fn absolute(&self, names: &[String]) -> Option<Names> {
        let mut at = match names.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.at.clone(),
            "super" => self.at[..self.at.len().checked_sub(1)?].to_vec(),
            _ => return None,
        };
        let mut rest = &names[1..];
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        at.extend_from_slice(rest);
        Some(at)
    }

    fn mention(&mut self, names: &[String], line: usize) {
        if let Some(to) = self.absolute(names) {
            let (from, file) = (self.at.clone(), self.file.to_owned());
            self.modules.mentions.push(Mention { from, to, file, line });
        }
    }

    /// Records one name of a `use`.
    fn import(&mut self, path: &[String], name: &str, line: usize) {
        self.mention(path, line);
        let is_child = path.first().is_some_and(|first| self.modules.all.contains(&joined(&self.at, first)));
        let target = match self.absolute(path) {
            None if is_child => Some([&self.at[..], path].concat()),
            target => target,
        };
        self.modules.imports.insert((self.at.clone(), name.to_owned()), target);
    }

    fn imports(&mut self, tree: &UseTree, path: &mut Names) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.imports(&step.tree, path);
                path.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = path.last().cloned().unwrap_or_default();
                self.import(path, &last, name.ident.span().start().line);
            }
            UseTree::Name(name) => {
                let name_text = name.ident.to_string();
                self.import(&joined(path, &name_text), &name_text, name.ident.span().start().line);
            }
            UseTree::Rename(renamed) => {
                let full = joined(path, &renamed.ident.to_string());
                self.import(&full, &renamed.rename.to_string(), renamed.ident.span().start().line);
            }
            UseTree::Glob(glob) => self.mention(path, glob.span().start().line),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(tree, path);
                }
            }
        }
    }

    /// Paths in the arguments of a macro, which syn keeps as tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        let mut path: Names = Vec::new();
        let (mut colons, mut line) = (0, 0);
        loop {
            let token = tokens.next();
            match &token {
                Some(TokenTree::Ident(ident)) if path.is_empty() || colons == 2 => {
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                Some(TokenTree::Punct(punct)) if punct.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                }
                _ => {
                    let names = std::mem::take(&mut path);
                    if names.len() > 1 {
                        self.mention(&names, line);
                    }
                    colons = 0;
                    if let Some(TokenTree::Ident(ident)) = &token {
                        line = ident.span().start().line;
                        path.push(ident.to_string());
                    }
                }
            }
            match token {
                None => break,
                Some(TokenTree::Group(group)) => self.tokens(group.stream()),
                Some(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let is_test = matches!(item, ImplItem::Fn(function) if is_test_only(&function.attrs));
        if !is_test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.at.push(module.ident.to_string());
        self.modules.all.insert(self.at.clone());
        visit::visit_item_mod(self, module);
        self.at.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.imports(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.mention(&names, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.tokens(called.tokens.clone());
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A crate of these files, by their paths below `src`.
    pub(crate) fn modules(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::default();
        for (path, text) in files {
            modules.add(Path::new(path), module_of(Path::new(path)), &syn::parse_file(text).unwrap());
        }
        modules
    }

    fn arrows(files: &[(&str, &str)], folder: &str) -> Vec<String> {
        let folder: Names = folder.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut arrows: Vec<String> = modules(files)
            .arrows(&folder)
            .iter()
            .map(|arrow| format!("{} {}", arrow.from, arrow.to))
            .collect();
        arrows.sort();
        arrows.dedup();
        arrows
    }

    #[test]
    fn paths_everywhere_are_arrows() {
        let arrows = arrows(
            &[
                ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
                ("a.rs", "use crate::{b::{B, self}, c as other};"),
                ("b.rs", "fn f(x: super::c::C) -> u8 { crate::d::g::<crate::e::E>() }"),
                ("c.rs", "fn f() { assert!(x == vec![crate::d::ONE], \"{}\", a::b::c); std::mem::take(x) }"),
                ("d.rs", "pub(in crate::a) fn f() {}"),
                (
                    "e.rs",
                    "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::b::B; use esker::a;",
                ),
            ],
            "",
        );
        assert_eq!(arrows, ["a b", "a c", "b c", "b d", "b e", "c d"]);
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_defines_it() {
        let files = [
            (
                "lib.rs",
                "mod low; mod high; pub use low::deep::Thing; pub use other::Result; pub struct Root;",
            ),
            ("low/mod.rs", "mod deep; mod side; pub(crate) use deep::Thing as Renamed;"),
            ("low/deep.rs", "use super::side::Side; pub struct Thing;"),
            ("low/side.rs", "pub struct Side;"),
            ("high.rs", "use crate::Thing; use crate::Result; use crate::low::Renamed; use crate::Root;"),
        ];
        assert_eq!(arrows(&files, ""), ["high low", "high mod"]);
        assert_eq!(arrows(&files, "low"), ["deep side"]);
    }
}
