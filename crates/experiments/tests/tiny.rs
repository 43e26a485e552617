//! Runs every experiment at its smallest scale, and checks that its output files are valid, that it makes the
//! steps that it announces, and that what its page says holds.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker_experiments::claim::Verdict;
use esker_experiments::plot::Plot;
use esker_experiments::{Experiment, Finding, Report, Scale, Settings, Watcher};
use std::path::{Path, PathBuf};

/// Counts the steps that are announced and made.
#[derive(Default)]
struct Counting {
    said: usize,
    made: usize,
    ended: bool,
}

impl Watcher for Counting {
    fn begins(&mut self, _experiment: &str, steps: usize) {
        self.said = steps;
    }
    fn step(&mut self, _what: &str) {
        self.made += 1;
    }
    fn ends(&mut self) {
        self.ended = true;
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("esker-experiments-{name}-{}", std::process::id()));
        fs::remove(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove(&self.0);
    }
}

/// File system operations of a test, through the project's own interface.
mod fs {
    use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
    use std::path::Path;

    pub(crate) fn remove(path: &Path) {
        if StdFileSystem.list(path).is_ok() {
            StdFileSystem.remove_dir_all(path).unwrap();
        }
    }

    pub(crate) fn read(path: &Path) -> String {
        let file = StdFileSystem.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    pub(crate) fn names(path: &Path) -> Vec<String> {
        let entries = StdFileSystem.list(path).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

fn settings(scratch: &Scratch) -> Settings {
    Settings { scale: Scale::Tiny, seed: 7, scratch: scratch.0.clone(), start_child: None }
}

/// Experiments whose pages speak of times alone, which the smallest runs do not have.
const ONLY_LARGER_RUNS: [&str; 1] = ["memtables"];

fn run_tiny(name: &str) {
    let experiment = Experiment::parse(name).unwrap();
    let scratch = Scratch::new(name);
    let mut watcher = Counting::default();
    let report = esker_experiments::run(experiment, &settings(&scratch), &mut watcher).unwrap();
    // Without the right number of steps, progress would be a guess.
    assert_eq!(watcher.said, watcher.made, "{name}");
    assert!(watcher.ended);
    let is_checked = !report.findings.is_empty() || ONLY_LARGER_RUNS.contains(&name);
    assert!(is_checked, "{name}: its page says nothing that a run checks");
    for finding in &report.findings {
        assert!(finding.holds(), "{finding}");
        check_quote(finding);
    }
    assert!(!report.outcome.tables.is_empty() && !report.outcome.plots.is_empty(), "{name}");
    for table in &report.outcome.tables {
        assert!(!table.is_empty(), "{name}: {} has no rows", table.name);
    }
    for plot in &report.outcome.plots {
        assert!(plot.series.len() <= Plot::MOST_SERIES, "{name}: {} has colours twice", plot.name);
        assert!(!plot.x_label.contains('_') && !plot.y_label.contains('_'), "{name}: {}", plot.name);
    }
    assert!(report.outcome.claims.iter().all(|claim| !claim.what.is_empty()));
    let out = scratch.0.join("out");
    let written = report.write_files(&out).unwrap();
    let mut names = fs::names(&out);
    names.sort();
    let mut expected = written.clone();
    expected.sort();
    assert_eq!(names, expected, "each file has a name of its own");
    for file in &written {
        let text = fs::read(&out.join(file));
        match file.rsplit('.').next() {
            Some("csv") => check_csv(file, &text),
            Some("svg") => check_xml(file, &text),
            Some("md") => check_page(&report, &text, &written),
            _ => panic!("{file}: what is that?"),
        }
    }
    let mut printed = Vec::new();
    report.print(&mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("processor: ") && printed.contains("seed 7"), "{printed}");
    // Scratch files were removed.
    assert_eq!(fs::names(&scratch.0), ["out"], "{name}");
}

/// A finding quotes its page: a page that was rewritten takes its findings along.
fn check_quote(finding: &Finding) {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = words(&fs::read(&pages.join(finding.page)));
    assert!(page.contains(&words(finding.says)), "the page does not say this any more: {finding}");
}

fn check_csv(file: &str, text: &str) {
    let mut lines = text.lines().map(fields);
    let head = lines.next().unwrap();
    assert!(head.iter().all(|name| !name.is_empty()), "{file}: {head:?}");
    let mut rows = 0;
    for line in lines {
        assert_eq!(line.len(), head.len(), "{file}: {line:?}");
        rows += 1;
    }
    assert!(rows > 0, "{file} has no rows");
}

/// The fields of a line of comma-separated values.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                fields.last_mut().unwrap().push(chars.next().unwrap());
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(char),
        }
    }
    assert!(!quoted, "{line}");
    fields
}

/// Checks that every tag is closed by one of its name, and that no `<` or `&` is left in texts.
fn check_xml(file: &str, text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut tags = 0;
    for piece in text.split('<').skip(1) {
        let (tag, after) = piece.split_once('>').unwrap_or_else(|| panic!("{file}: <{piece}"));
        let stray = after.match_indices('&').any(|(at, _)| {
            let escapes = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"];
            !escapes.iter().any(|escape| after[at..].starts_with(escape))
        });
        assert!(!stray, "{file}: {after}");
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{file}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{file}: <{tag}>");
        tags += 1;
    }
    assert!(open.is_empty() && tags > 10, "{file}: {open:?} stay open");
}

fn check_page(report: &Report, text: &str, written: &[String]) {
    assert!(text.starts_with(&format!("# Results: {}", report.experiment.name)));
    for file in written.iter().filter(|file| !file.ends_with(".md")) {
        assert!(text.contains(&format!("({file})")), "the page does not show {file}");
    }
    for claim in &report.outcome.claims {
        // A table cannot contain an unescaped bar.
        assert!(text.contains(&claim.what.replace('|', "\\|")), "{}", claim.what);
        assert!(claim.verdict() != Verdict::NotMeasured || text.contains("not measured"));
    }
}

macro_rules! tiny {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                run_tiny(stringify!($name));
            }
        )*

        #[test]
        fn every_experiment_has_its_test() {
            let tested = [$(stringify!($name)),*];
            let all: Vec<&str> = Experiment::ALL.iter().map(|experiment| experiment.name).collect();
            assert_eq!(all, tested);
        }
    };
}

tiny!(
    hashes, memtables, filters, indexes, blocks, caches, codecs, strategies, scaling, csc443, byron, fractio
);
