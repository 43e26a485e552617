//! Checks the order of modules within crates: a module uses those below it only.
//!
//! Cargo refuses cycles of crates, but not of modules. So each crate declares the order of its modules in
//! [`super::module_orders`], bottom up, and an arrow upwards is an error. Every crate can be read from its
//! first module to its last.

use super::arrows::{Arrow, Modules, OWN};
use super::module_orders::{ORDERS, Order};
use crate::findings::Findings;
use crate::repository::Repository;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Path of the orders, for messages.
const TABLE: &str = "xtask/src/arch/module_orders.rs";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for package in &repository.metadata.packages {
        let name = package.name.as_str();
        let Some(modules) = modules_of(repository, name) else { continue };
        let orders: Vec<&Order> = ORDERS.iter().filter(|order| order.package == name).collect();
        if modules.children(&[]).len() > 1 && !orders.iter().any(|order| order.folder.is_empty()) {
            findings.error(Path::new(TABLE), 0, format!("the modules of {name} have no order; declare it"));
        }
        for order in orders {
            check_order(order, &modules, findings);
        }
    }
    for order in ORDERS {
        if !repository.metadata.packages.iter().any(|package| package.name.as_str() == order.package) {
            findings.error(
                Path::new(TABLE),
                0,
                format!("there is no crate {}; take its order out", order.package),
            );
        }
    }
}

/// Prints an order of a folder's modules that the arrows allow, one line for each module or cycle, with what
/// each uses. Below a cycle stand its arrows.
pub(super) fn print(repository: &Repository, package: &str, folder: &str) -> bool {
    let Some(modules) = modules_of(repository, package) else { return false };
    let folder = names_of(folder);
    let arrows = modules.arrows(&folder);
    let mut left: BTreeSet<&str> = modules.children(&folder).into_iter().collect();
    let uses = reachable(&arrows);
    let none = BTreeSet::new();
    while !left.is_empty() {
        // A module, or a cycle of modules, that uses nothing else that is left.
        let mut circles = left.iter().map(|&module| {
            let of = uses.get(module).unwrap_or(&none);
            let circle: BTreeSet<&str> = left
                .iter()
                .copied()
                .filter(|&other| {
                    other == module
                        || of.contains(other) && uses.get(other).is_some_and(|back| back.contains(module))
                })
                .collect();
            (circle, of)
        });
        let next = circles.find(|(circle, of)| left.difference(circle).all(|other| !of.contains(other)));
        let Some((circle, _)) = next else { break };
        let used: BTreeSet<&str> = arrows
            .iter()
            .filter(|arrow| circle.contains(arrow.from.as_str()) && !circle.contains(arrow.to.as_str()))
            .map(|arrow| arrow.to.as_str())
            .collect();
        let list = |modules: &BTreeSet<&str>| modules.iter().copied().collect::<Vec<_>>().join(" ");
        println!("{}  <- {}", list(&circle), list(&used));
        let inside =
            |arrow: &&Arrow| circle.contains(arrow.from.as_str()) && circle.contains(arrow.to.as_str());
        for arrow in arrows.iter().filter(inside) {
            println!("    {} -> {}  {}:{}", arrow.from, arrow.to, arrow.file.display(), arrow.line);
        }
        left = left.difference(&circle).copied().collect();
    }
    true
}

/// The modules that each module uses, directly or not.
fn reachable(arrows: &[Arrow]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    loop {
        let more: Vec<(&str, &str)> = uses
            .iter()
            .flat_map(|(&from, used)| {
                let beyond = used.iter().filter_map(|next| uses.get(next)).flatten();
                beyond.filter(|to| !used.contains(*to)).map(move |&to| (from, to))
            })
            .collect();
        if more.is_empty() {
            return uses;
        }
        for (from, to) in more {
            uses.entry(from).or_default().insert(to);
        }
    }
}

fn modules_of(repository: &Repository, package: &str) -> Option<Modules> {
    let package = repository.metadata.packages.iter().find(|known| known.name.as_str() == package)?;
    let target = package.targets.iter().find(|target| target.is_lib() || target.is_bin())?;
    let root = super::relative(repository, target.src_path.as_ref());
    Some(Modules::read(repository, root.parent()?))
}

fn names_of(folder: &str) -> Vec<String> {
    folder.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn check_order(order: &Order, modules: &Modules, findings: &mut Findings) {
    let place = [order.package, order.folder].join("/");
    let table = Path::new(TABLE);
    let declared: Vec<&str> = order.modules.split_whitespace().collect();
    let folder = names_of(order.folder);
    let arrows = modules.arrows(&folder);
    for module in modules.children(&folder) {
        if !declared.contains(&module) {
            findings.error(table, 0, format!("{place}: the module {module} has no place in the order"));
        }
    }
    for module in &declared {
        if *module != OWN && !modules.children(&folder).contains(module) {
            findings.error(
                table,
                0,
                format!("{place}: there is no module {module}; take it out of the order"),
            );
        }
    }
    let height = |module: &str| declared.iter().position(|declared| *declared == module);
    let mut needed = vec![false; order.closed.len()];
    for (set, closed) in order.closed.iter().enumerate() {
        let heights: BTreeSet<usize> = closed.modules.split_whitespace().filter_map(height).collect();
        let spread = heights.last().zip(heights.first()).map_or(0, |(last, first)| last - first + 1);
        if spread != heights.len() || closed.modules.split_whitespace().count() != heights.len() {
            let text =
                format!("{place}: the closed set `{}` does not stand together in the order", closed.modules);
            findings.error(table, 0, text);
        }
        if closed.reason.is_empty() {
            findings.error(table, 0, format!("{place}: the closed set `{}` has no reason", closed.modules));
        }
        needed[set] = false;
    }
    for arrow in &arrows {
        let (Some(from), to) = (height(&arrow.from), height(&arrow.to)) else { continue };
        if to.is_some_and(|to| to < from) {
            continue;
        }
        let both = |text: &str| {
            let mut members = text.split_whitespace();
            members.clone().any(|member| member == arrow.from) && members.any(|member| member == arrow.to)
        };
        if let Some(set) = order.closed.iter().position(|closed| both(closed.modules)) {
            needed[set] = true;
        } else {
            let text = format!(
                "{} stands below {} in {place} and cannot use it: move what it needs down, or hand it in as an \
                 argument; the order is in {TABLE}",
                arrow.from, arrow.to
            );
            findings.error(&arrow.file, arrow.line, text);
        }
    }
    for (closed, needed) in order.closed.iter().zip(needed) {
        if !needed {
            let text =
                format!("{place}: `{}` is no circle any more; take the closed set out", closed.modules);
            findings.error(table, 0, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrows::tests::modules;
    use super::super::module_orders::Closed;
    use super::*;

    const FILES: &[(&str, &str)] = &[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::b::B;"),
    ];

    fn findings(order: &'static str, closed: &'static [Closed]) -> Vec<String> {
        let order = Order { package: "esker-x", folder: "", modules: order, closed };
        let mut findings = Findings::default();
        check_order(&order, &modules(FILES), &mut findings);
        findings.texts().into_iter().map(str::to_owned).collect()
    }

    const CIRCLE: &[Closed] = &[Closed { modules: "b c", reason: "one enum" }];

    #[test]
    fn arrows_upwards_are_errors() {
        let found = findings("c b a", &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("c stands below b in esker-x/"), "{found:?}");
        assert_eq!(findings("a c b", &[]).len(), 2);
    }

    #[test]
    fn circles_are_named_and_needed() {
        assert!(findings("b c a", CIRCLE).is_empty());
        // A circle that is none is an error beside the arrow upwards.
        assert_eq!(findings("c b a", &[Closed { modules: "a b", reason: "none" }]).len(), 2);
        // A circle stands together: what is between would be part of it.
        assert_eq!(findings("b a c", CIRCLE).len(), 1);
    }

    #[test]
    fn every_module_is_declared_and_none_that_is_gone() {
        assert_eq!(findings("b c", CIRCLE).len(), 1);
        assert_eq!(findings("b c a d", CIRCLE).len(), 1);
    }
}
