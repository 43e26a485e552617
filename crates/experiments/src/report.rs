//! Reports the results of a run, on the terminal and as files.

use crate::error::Result;
use crate::experiment::{Experiment, Outcome};
use crate::finding::{self, Finding};
use crate::machine::Machine;
use crate::settings::{Scale, Settings};
use crate::table::Table;
use crate::{claim, comparison};
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// An experiment's results and their conditions.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which it was.
    pub experiment: &'static Experiment,
    /// How it was run.
    pub settings: Settings,
    /// How long it took.
    pub seconds: f64,
    /// On what machine.
    pub machine: Machine,
    /// What it found.
    pub outcome: Outcome,
    /// What the experiment's page says, checked.
    pub findings: Vec<Finding>,
}

impl Report {
    fn tables(&self) -> Vec<Table> {
        let mut tables = self.outcome.tables.clone();
        if !self.outcome.claims.is_empty() {
            tables.push(claim::table(&self.outcome.claims));
        }
        if !self.outcome.comparisons.is_empty() {
            tables.push(comparison::table(&self.outcome.comparisons));
        }
        if !self.findings.is_empty() {
            tables.push(finding::table(&self.findings));
        }
        tables
    }

    fn setup(&self) -> String {
        let mut text = self.machine.text();
        let _ = writeln!(
            text,
            "run: {}, {} form, seed {}, {:.0} s",
            self.experiment.name, self.settings.scale, self.settings.seed, self.seconds
        );
        text
    }

    /// Prints the report on a terminal.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}: {}\n", self.experiment.name, self.experiment.title)?;
        for line in self.setup().lines() {
            writeln!(out, "  {line}")?;
        }
        for line in &self.outcome.setup {
            writeln!(out, "  {line}")?;
        }
        for table in self.tables() {
            writeln!(out, "\n{}\n", table.title)?;
            for line in table.text().lines() {
                writeln!(out, "  {line}")?;
            }
        }
        writeln!(out)?;
        out.flush()
    }

    /// Writes a page, a CSV file for each table and an SVG file for each plot into `directory`; gives their
    /// names.
    pub fn write_files(&self, directory: &Path) -> Result<Vec<String>> {
        StdFileSystem.create_dir_all(directory)?;
        let name = self.experiment.name;
        let mut names = Vec::new();
        let mut write = |file: String, text: &str| -> Result<()> {
            write_file(&directory.join(&file), text)?;
            names.push(file);
            Ok(())
        };
        write(format!("{name}.md"), &self.page())?;
        for table in self.tables() {
            write(format!("{name}-{}.csv", table.name), &table.csv())?;
        }
        for plot in &self.outcome.plots {
            let svg = plot
                .svg()
                .map_err(|reason| io::Error::other(format!("cannot draw {}: {reason}", plot.name)))?;
            write(format!("{name}-{}.svg", plot.name), &svg)?;
        }
        Ok(names)
    }

    fn page(&self) -> String {
        let Experiment { name, title, about, .. } = self.experiment;
        let quick = if self.settings.scale == Scale::Full { "" } else { " --quick" };
        let mut page = format!("# Results: {name}\n\n{title}.\n\n");
        let _ = writeln!(
            page,
            "Written by `esker experiment {name}{quick} --seed {}`; the next run overwrites changes by hand.\n",
            self.settings.seed
        );
        let _ = writeln!(page, "{about}\n\n```text\n{}```\n", self.setup());
        for line in &self.outcome.setup {
            let _ = writeln!(page, "* {line}");
        }
        for plot in &self.outcome.plots {
            let _ = writeln!(page, "\n![{}]({name}-{}.svg)", plot.title, plot.name);
        }
        for table in self.tables() {
            let file = format!("{name}-{}.csv", table.name);
            let _ =
                writeln!(page, "\n## {}\n\n[{file}]({file})\n\n{}", table.title, table.markdown().trim_end());
        }
        page
    }
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    let file = StdFileSystem.open(path, OpenMode::CreateOrTruncate)?;
    Ok(file.write_at(text.as_bytes(), 0)?)
}
