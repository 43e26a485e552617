//! `bugs`: the bug bank, mutation testing with bugs that stores of this kind really had.
//!
//! Builds the tests once with every bug of `crates/base/src/planted.rs` in the code, switched off. Then, for
//! each bug, runs the tests that must notice it with that bug on, until one fails. All of them pass with no
//! bug on: the control run, which comes first, so that a failure means the bug.
//!
//! A bug that no test notices is a hole in the tests; the command fails.

mod bank;
mod build;
mod run;

use crate::{repository, usage_error};
use bank::{BANK, Hunt, Suite};
use build::Binaries;
use run::{Outcome, run_suite};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: cargo xtask bugs [--fast | NAME...]

  --fast   only the ten bugs that are found first, and the tests that find them";

/// Where the bugs and their stories are.
const STORIES: &str = "crates/base/src/planted.rs";

pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match hunt(arguments) {
        Ok(code) => code,
        Err(message) => usage_error(&format!("cargo xtask bugs: {message}\n{USAGE}")),
    }
}

fn hunt(arguments: &[&str]) -> Result<ExitCode, String> {
    let stories = stories()?;
    check_bank(&stories)?;
    let hunts = chosen(arguments)?;
    let suites = suites_of(&hunts);
    let binaries = Binaries::build(&suites)?;
    let mut failed = Vec::new();
    println!("control, no bug:");
    for suite in &suites {
        let (outcome, time) = run_suite(&binaries, suite, None)?;
        println!("  {:6.1} s  {suite}: {outcome}", time.as_secs_f64());
        if outcome != Outcome::Passed {
            failed.push(format!("{suite} fails without a bug"));
        }
    }
    if !failed.is_empty() {
        eprintln!("{}", failed.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    println!("\n| row | bug | noticed by | seed | seconds |\n|---|---|---|---|---|");
    for hunt in &hunts {
        match catch(&binaries, hunt)? {
            Some(row) => println!("{row}"),
            None => {
                println!("| {} | `{}` | **nothing** | | |", hunt.row, hunt.bug);
                failed.push(format!("{}: {}", hunt.bug, stories[hunt.bug]));
            }
        }
    }
    println!("\n{} of {} bugs were noticed", hunts.len() - failed.len(), hunts.len());
    for bug in &failed {
        eprintln!("not noticed: {bug}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a bug's tests until one fails; the row of the table.
fn catch(binaries: &Binaries, hunt: &Hunt) -> Result<Option<String>, String> {
    let mut spent = Duration::ZERO;
    for suite in hunt.suites {
        let (outcome, time) = run_suite(binaries, suite, Some(hunt.bug))?;
        spent += time;
        if outcome == Outcome::Hung {
            eprintln!("{}: {suite} did not end in {:?}, which proves nothing", hunt.bug, suite.limit);
            continue;
        }
        if let Some((test, seed)) = outcome.failure() {
            let (row, bug, seconds) = (hunt.row, hunt.bug, spent.as_secs_f64());
            return Ok(Some(format!("| {row} | `{bug}` | {suite}: {test} | {seed} | {seconds:.1} |")));
        }
    }
    Ok(None)
}

fn chosen(arguments: &[&str]) -> Result<Vec<Hunt>, String> {
    if arguments == ["--fast"] {
        return Ok(BANK.iter().filter(|hunt| hunt.is_fast).copied().collect());
    }
    if let Some(unknown) = arguments.iter().find(|name| BANK.iter().all(|hunt| hunt.bug != **name)) {
        return Err(format!("there is no planted bug {unknown}"));
    }
    let is_chosen = |hunt: &&Hunt| arguments.is_empty() || arguments.contains(&hunt.bug);
    Ok(BANK.iter().filter(is_chosen).copied().collect())
}

/// Every suite once, in the order of the bank.
fn suites_of(hunts: &[Hunt]) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    for suite in hunts.iter().flat_map(|hunt| hunt.suites) {
        if !suites.contains(suite) {
            suites.push(*suite);
        }
    }
    suites
}

/// The planted bugs by name, each with its story.
fn stories() -> Result<BTreeMap<String, String>, String> {
    let path = repository::root().join(STORIES);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file = syn::parse_file(&text).map_err(|error| format!("{STORIES}: {error}"))?;
    let bugs = file.items.into_iter().find_map(|item| match item {
        syn::Item::Enum(bugs) if bugs.ident == "Bug" => Some(bugs),
        _ => None,
    });
    let bugs = bugs.ok_or_else(|| format!("{STORIES} has no enum Bug"))?;
    Ok(bugs.variants.iter().map(|bug| (bug.ident.to_string(), story(&bug.attrs))).collect())
}

fn story(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let syn::Meta::NameValue(doc) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &doc.value else { return None };
        Some(text.value().trim().to_owned())
    });
    lines.collect::<Vec<_>>().join(" ")
}

/// Every bug has its tests, and every row its bug.
fn check_bank(stories: &BTreeMap<String, String>) -> Result<(), String> {
    if let Some(hunt) = BANK.iter().find(|hunt| !stories.contains_key(hunt.bug)) {
        return Err(format!("{} is in the bank and not in {STORIES}", hunt.bug));
    }
    match stories.keys().find(|bug| BANK.iter().all(|hunt| hunt.bug != *bug)) {
        Some(bug) => Err(format!("{bug} is in {STORIES} and no test is named for it in the bank")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_in_the_bank_once_and_is_planted() {
        let stories = stories().unwrap();
        check_bank(&stories).unwrap();
        assert_eq!(stories.len(), BANK.len(), "a bug is in the bank twice");
        assert!(stories.values().all(|story| story.ends_with('.')), "a bug has no story");
        let repository = crate::repository::Repository::open().unwrap();
        let code: String = repository
            .files
            .iter()
            .filter(|path| path.starts_with("crates") && path.extension().is_some_and(|end| end == "rs"))
            .map(|path| std::fs::read_to_string(repository.root.join(path)).unwrap())
            .collect();
        for bug in stories.keys() {
            assert!(code.contains(&format!("planted!({bug})")), "{bug} is planted nowhere");
        }
    }
}
