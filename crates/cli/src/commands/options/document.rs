//! Prints the page of the manual that lists all options, and a configuration file to start from. Both are
//! generated from the library's table of options; a test compares the page with `docs/options.md`.

use crate::failure::Failure;
use esker::options::{OptionGroup, OptionInfo, Preset};
use esker::parts::Cs265;
use esker::{KeyspaceOptions, Options};
use std::io::Write;

const INTRODUCTION: &str = "\
# Options

<!-- Printed by `esker options --markdown`; change the rows in crates/options/src/rows, and print it again. -->

A dozen everyday options come first; the rest are for tuning and for experiments. `esker options` prints them for the terminal, `esker options
--data DIR` what a database has, and `esker options --data DIR NAME=VALUE` changes what may change while data is there. Programs use the methods of
the same names of `Options` and `KeyspaceOptions`, or `set(\"name\", \"value\")`.

Sizes are written `4096`, `64KiB`, `1.5GiB`, times `500ms`, `10s`, `30m`, `12h`, `7d`. Choices by level are a list from level 0 on
(`none,lz4,zstd:3`), whose end holds for all deeper levels; the last level has an option of its own.

A change holds *at once*, for the *next memtable*, for *new tables* (those that are there stay until a compaction rewrites them), from the
*next open* of the database, or can be made *once*.

## Configuration files

`esker serve --config FILE`, `--config FILE` with every other command that opens a database, and `Options::from_file` read TOML:

```toml
preset = \"write-heavy\"      # where everything starts; optional
memory_budget = \"512MiB\"    # options of the database
durability = \"power\"

[keyspace_defaults]         # options of keyspaces that have none of their own when they are created
compression = [\"none\", \"lz4\", \"zstd:3\"]

[keyspace.users]            # options of one keyspace; applied also if it exists
block_size = \"16KiB\"
default_ttl = \"30d\"
```

What stands on the command line comes before what stands in the file. `esker options --toml` prints a file with all options to uncomment. The command also
knows the section `[serve]`, with options of `esker serve`; `esker serve --config FILE --check-config` names what is wrong in the whole file.
";

/// The page of the manual.
pub(super) fn page(out: &mut dyn Write) -> Result<(), Failure> {
    write!(out, "{INTRODUCTION}")?;
    for (title, text, group) in [
        ("Everyday", "What most users choose.", OptionGroup::Everyday),
        ("Expert", "For tuning, after a measurement.", OptionGroup::Expert),
        (
            "For experiments",
            "For comparing the kinds of a part ([experiments](experiments/README.md)). Leave them alone otherwise.",
            OptionGroup::Experiment,
        ),
    ] {
        writeln!(out, "\n## {title}\n\n{text}")?;
        group_tables(out, group)?;
    }
    writeln!(
        out,
        "\n## Presets\n\nSets of options under a name, to start from: `preset = \"NAME\"`, `Options::preset(\"NAME\")`.\n"
    )?;
    writeln!(out, "| preset | what it is |\n|---|---|")?;
    for preset in Preset::ALL {
        writeln!(out, "| `{}` | {} |", preset.name, preset.help)?;
    }
    writeln!(
        out,
        "\n### Parameters of `cs265`\n\nIn a configuration they stand below `[cs265]`, which takes the place of `preset`; in programs, `Cs265`.\n"
    )?;
    writeln!(out, "| parameter | default | may be | what it is |\n|---|---|---|---|")?;
    for info in Cs265::list() {
        let OptionInfo { name, default, allowed, help, .. } = info;
        writeln!(out, "| `{name}` | `{default}` | {allowed} | {help} |")?;
    }
    Ok(())
}

/// The options of one group: those of a database, which hold for one open, and those stored with a keyspace.
fn group_tables(out: &mut dyn Write, group: OptionGroup) -> Result<(), Failure> {
    for (owner, infos) in [
        ("Of a database: they hold for one open, and are not stored.", Options::list()),
        ("Of a keyspace: they are stored with it.", KeyspaceOptions::list()),
    ] {
        writeln!(out, "\n{owner}\n")?;
        writeln!(out, "| option | default | may be | a change holds | what it is |\n|---|---|---|---|---|")?;
        for info in infos.iter().filter(|info| info.group == group) {
            table_row(out, info)?;
        }
    }
    Ok(())
}

fn table_row(out: &mut dyn Write, info: &OptionInfo) -> Result<(), Failure> {
    let aliases: String = info.aliases.iter().map(|alias| format!(", `{alias}`")).collect();
    let means = info.default_means.map(|means| format!(": {means}")).unwrap_or_default();
    let (name, default, allowed) = (info.name, &info.default, &info.allowed);
    writeln!(
        out,
        "| `{name}`{aliases} | `{default}`{means} | {allowed} | {} | {} |",
        info.change, info.help
    )?;
    Ok(())
}

/// A configuration file in which every option stands with its default, as a comment.
pub(super) fn template(out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "# Options of Esker. What is commented out has its default.\n")?;
    writeln!(
        out,
        "# Where everything starts: one of those that `esker options --presets` lists.\n# preset = \"mixed\"\n"
    )?;
    lines(out, &Options::list())?;
    writeln!(
        out,
        "# Options of keyspaces that have no section of their own when they are created.\n[keyspace_defaults]\n"
    )?;
    lines(out, &KeyspaceOptions::list())?;
    writeln!(
        out,
        "# Options of one keyspace; applied also if it exists.\n# [keyspace.users]\n# block_size = \"16KiB\""
    )?;
    Ok(())
}

fn lines(out: &mut dyn Write, infos: &[OptionInfo]) -> Result<(), Failure> {
    for info in infos {
        let means =
            info.default_means.map(|means| format!(" {}: {means}.", info.default)).unwrap_or_default();
        writeln!(out, "# {}{means}\n# May be {}.", info.help, info.allowed)?;
        writeln!(out, "# {} = \"{}\"\n", info.name, info.default)?;
    }
    Ok(())
}
