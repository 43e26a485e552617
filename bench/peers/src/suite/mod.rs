//! Runs engines in turn, several rounds, each engine in a process and a directory of its own.
//!
//! Rounds are interleaved and each begins with another engine, so that changes of the machine over the hours
//! affect all of them alike. Complete runs are not repeated when the same suite is started again, so a long
//! one can be interrupted.

mod configurations;

pub(crate) use configurations::{CONFIGURATIONS, Configuration};

use crate::adapters::ORDER;
use crate::data::{GAP_BITS, KeyForm, ValueForm};
use crate::engine::Result;
use crate::process;
use crate::record::{RUN_ENDED, Record};
use crate::report::{self, ReportSettings};
use clap::{Args, ValueEnum};
use configurations::{FULL_FORM, Form, MIDDLE_FORM, QUICK_FORM};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The file of a suite's lines of JSON, in its directory.
pub(crate) const RECORDS_FILE: &str = "records.jsonl";
/// The file that describes machine and time.
pub(crate) const ABOUT_FILE: &str = "about.txt";
/// The file with what must be the same for all measurements in a directory.
const SAME_FILE: &str = "same.txt";
/// Load average above which figures are doubtful.
const BUSY_LOAD: f64 = 0.5;
/// Interval of the checks whether a run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Settings of a suite.
#[derive(Args, Clone, Debug)]
#[command(group(clap::ArgGroup::new("form").required(true)))]
pub(crate) struct SuiteSettings {
    /// All engines in this binary on 200 K records: whether everything works.
    #[arg(long, group = "form")]
    quick: bool,
    /// Four engines on 2 M records: a quarter of an hour.
    #[arg(long, group = "form")]
    middle: bool,
    /// All engines, all configurations but the billion: many hours.
    #[arg(long, group = "form")]
    full: bool,
    /// Only these configurations (`peers configurations` lists them).
    #[arg(long, value_delimiter = ',', group = "form")]
    configurations: Vec<String>,
    /// Only these engines.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Directory for records, tables and plots (default: target/peers-results and the form's name).
    #[arg(long)]
    out: Option<PathBuf>,
    /// Directory for the data.
    #[arg(long, default_value = "target/peers-data")]
    data: PathBuf,
    /// Another binary of this program with further engines; may be given several times.
    #[arg(long)]
    program: Vec<PathBuf>,
    /// Numbers of threads instead of the configurations' own, such as 1,2,4; the first is that of the fill
    /// that others use.
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Only workloads whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// No workloads whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
}

/// A binary and its engines.
struct Program {
    path: PathBuf,
    engines: BTreeSet<String>,
}

/// Runs the suite.
///
/// # Errors
/// If something cannot be started or written; failed runs are reported at the end, after all others.
#[allow(clippy::print_stderr, reason = "a long run shows its progress")]
pub(crate) fn run(settings: &SuiteSettings) -> Result<()> {
    let form = form_of(settings);
    let name = form.as_ref().map_or("own", |form| form.name);
    let out = settings.out.clone().unwrap_or_else(|| PathBuf::from("target/peers-results").join(name));
    std::fs::create_dir_all(&out).map_err(|error| format!("cannot make {}: {error}", out.display()))?;
    let programs = programs(settings)?;
    let configurations = configurations_of(settings, form.as_ref())?;
    let engines = engines_of(settings, form.as_ref(), &programs)?;
    refuse_another(&out, settings)?;
    write_machine(&out)?;
    let ended = ended(&out)?;
    let mut failures = Vec::new();
    for configuration in configurations {
        let wanted: Vec<&String> =
            engines.iter().filter(|engine| takes_part(configuration, engine)).collect();
        for round in 1..=settings.rounds {
            for place in 0..wanted.len() {
                let engine = wanted[(place + round as usize - 1) % wanted.len()];
                if ended.contains(&(configuration.name.to_owned(), round, engine.clone())) {
                    continue;
                }
                eprintln!("-- {}, round {round} of {}: {engine}", configuration.name, settings.rounds);
                let Some(program) = programs.iter().find(|program| program.engines.contains(engine)) else {
                    continue;
                };
                let mut command = command(settings, configuration, &program.path, &out);
                command.args(["--engine", engine, "--round", &round.to_string()]);
                if let Err(error) = run_one(command, configuration.length.timeout_seconds) {
                    failures.push(format!("{engine} in {}, round {round}: {error}", configuration.name));
                    eprintln!("!! {}", failures[failures.len() - 1]);
                }
            }
        }
    }
    report::run(&ReportSettings::of(&out))?;
    if failures.is_empty() { Ok(()) } else { Err(format!("runs failed: {}", failures.join("; ")).into()) }
}

fn form_of(settings: &SuiteSettings) -> Option<Form> {
    match settings {
        SuiteSettings { quick: true, .. } => Some(QUICK_FORM),
        SuiteSettings { middle: true, .. } => Some(MIDDLE_FORM),
        SuiteSettings { full: true, .. } => Some(FULL_FORM),
        _ => None,
    }
}

fn configurations_of(settings: &SuiteSettings, form: Option<&Form>) -> Result<Vec<&'static Configuration>> {
    let names: Vec<String> = match form {
        Some(form) => form.configurations.iter().map(|name| (*name).to_owned()).collect(),
        None => settings.configurations.clone(),
    };
    let find = |name: &String| {
        CONFIGURATIONS.iter().find(|configuration| configuration.name == *name).ok_or_else(|| {
            let known: Vec<&str> = CONFIGURATIONS.iter().map(|configuration| configuration.name).collect();
            format!("there is no configuration {name}; there are {}", known.join(", ")).into()
        })
    };
    names.iter().map(find).collect()
}

/// The binaries, this one first.
fn programs(settings: &SuiteSettings) -> Result<Vec<Program>> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let paths = std::iter::once(own).chain(settings.program.iter().cloned());
    let ask = |path: PathBuf| {
        let output = Command::new(&path).arg("engines").output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let engines =
            text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        Ok(Program { path, engines })
    };
    paths.map(ask).collect()
}

/// The engines to measure, in the order of tables.
fn engines_of(settings: &SuiteSettings, form: Option<&Form>, programs: &[Program]) -> Result<Vec<String>> {
    let built = |engine: &str| programs.iter().any(|program| program.engines.contains(engine));
    for engine in &settings.engines {
        if !built(engine) {
            return Err(format!("no binary has the engine {engine}; build with its feature").into());
        }
    }
    let in_form =
        |engine: &str| form.is_none_or(|form| form.engines.is_empty() || form.engines.contains(&engine));
    let wanted = |engine: &&&str| match settings.engines.as_slice() {
        [] => built(engine) && in_form(engine),
        named => named.iter().any(|name| name == **engine),
    };
    let engines: Vec<String> = ORDER.iter().filter(wanted).map(|engine| (*engine).to_owned()).collect();
    if engines.is_empty() { Err("no engine is left to be measured".into()) } else { Ok(engines) }
}

/// Whether an engine, or the store it is a variant of, is measured in a configuration. An array has slots of
/// one length, and none for keys with gaps.
fn takes_part(configuration: &Configuration, engine: &str) -> bool {
    let has_one_length = configuration.keys == KeyForm::Numbered && configuration.values == ValueForm::Half;
    if engine == "array" && (!has_one_length || configuration.gap_bits != *GAP_BITS.start()) {
        return false;
    }
    configuration.engines.is_empty() || configuration.engines.contains(&engine)
}

/// Refuses a directory in which another build, another machine or other workloads were measured: medians over
/// both would mean nothing.
fn refuse_another(out: &Path, settings: &SuiteSettings) -> Result<()> {
    let mut same = format!(
        "build {}, on {}, only [{}], without [{}]",
        env!("PEERS_COMMIT"),
        process::machine(),
        settings.only.join(","),
        settings.skip.join(",")
    );
    if !settings.threads.is_empty() {
        same.push_str(&format!(", threads [{}]", numbers(&settings.threads)));
    }
    same.push('\n');
    let path = out.join(SAME_FILE);
    match std::fs::read_to_string(&path) {
        Ok(before) if before != same => Err(format!(
            "{} holds results of {}, and this would be {}: name another directory by --out, or remove it",
            out.display(),
            before.trim(),
            same.trim()
        )
        .into()),
        Ok(_) => Ok(()),
        Err(_) => std::fs::write(&path, same)
            .map_err(|error| format!("cannot write {}: {error}", path.display()).into()),
    }
}

/// The complete runs without wrong results.
fn ended(out: &Path) -> Result<BTreeSet<(String, u32, String)>> {
    let path = out.join(RECORDS_FILE);
    let records = if path.exists() { Record::read(&path)? } else { Vec::new() };
    let ended = records.into_iter().filter(|record| record.workload == RUN_ENDED && record.errors == 0);
    Ok(ended.map(|record| (record.configuration, record.round, record.engine)).collect())
}

/// Writes a description of the machine, and warns if it is busy.
#[allow(clippy::print_stderr, reason = "a busy machine makes figures worthless, which must be seen at once")]
fn write_machine(out: &Path) -> Result<()> {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    if load > BUSY_LOAD {
        eprintln!(
            "!! the machine is busy (load {load}): rates will be too low, and only ratios may mean something"
        );
    }
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let about = format!("{}: {}; load {load} when it began\n", date(seconds), process::machine());
    let path = out.join(ABOUT_FILE);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, before + &about)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// A time in seconds since 1970 as a date, such as `2026-11-22`: days are counted from a March, so that a
/// leap day is the last of its year (Richards, "Calendars", 2013).
fn date(unix_seconds: u64) -> String {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From the 1st of March of year 0.
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// The command that runs an engine; engine and round are to be added.
fn command(settings: &SuiteSettings, configuration: &Configuration, program: &Path, out: &Path) -> Command {
    let join = |words: &[&str]| words.join(",");
    let length = &configuration.length;
    let threads = if settings.threads.is_empty() { configuration.threads } else { &settings.threads };
    let mut command = Command::new(program);
    command.arg("run").arg("--data").arg(&settings.data).arg("--out").arg(out.join(RECORDS_FILE));
    for (name, value) in [
        ("--configuration", configuration.name.to_owned()),
        ("--records", configuration.records.to_string()),
        ("--keys", name_of(&configuration.keys)),
        ("--values", name_of(&configuration.values)),
        ("--key-bytes", configuration.key_bytes.to_string()),
        ("--value-bytes", configuration.value_bytes.to_string()),
        ("--gap-bits", configuration.gap_bits.to_string()),
        ("--memory-limit-mib", configuration.memory_limit_mib.to_string()),
        ("--cache-mib", configuration.cache_mib.to_string()),
        ("--memtable-mib", configuration.memtable_mib.to_string()),
        ("--operations", length.operations.to_string()),
        ("--scans", length.scans.to_string()),
        ("--durable-writes", length.durable_writes.to_string()),
        ("--max-seconds", length.max_seconds.to_string()),
        ("--max-fill-seconds", length.max_fill_seconds.to_string()),
        ("--max-settle-seconds", length.max_settle_seconds.to_string()),
        ("--threads", numbers(threads)),
        ("--scan-lengths", numbers(configuration.scan_lengths)),
    ] {
        command.args([name, &value]);
    }
    for (is_set, argument) in [(configuration.is_log, "--log"), (configuration.is_ascending, "--ascending")] {
        if is_set {
            command.arg(argument);
        }
    }
    let own: Vec<&str> = settings.only.iter().map(String::as_str).collect();
    let only = if own.is_empty() { join(configuration.only) } else { join(&own) };
    if !only.is_empty() {
        command.args(["--only", &only]);
    }
    if !settings.skip.is_empty() {
        command.args(["--skip", &settings.skip.join(",")]);
    }
    command
}

fn numbers(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A form's word in arguments.
fn name_of(form: &impl ValueEnum) -> String {
    form.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Runs an engine, and kills it at the timeout.
fn run_one(mut command: Command, timeout_seconds: u64) -> Result<()> {
    let mut child = command.spawn()?;
    match wait(&mut child, Duration::from_secs(timeout_seconds))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("it ended with {status}").into()),
        None => {
            child.kill()?;
            child.wait()?;
            Err(format!("it was ended after {timeout_seconds} s").into())
        }
    }
}

fn wait(child: &mut Child, most: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < most {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{CONFIGURATIONS, Configuration, SuiteSettings, command, date, ended, refuse_another};
    use crate::record::{RUN_ENDED, Record};
    use crate::settings::RunSettings;
    use crate::suite::RECORDS_FILE;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        settings: SuiteSettings,
    }

    #[derive(Parser)]
    struct RunArguments {
        #[command(flatten)]
        settings: RunSettings,
    }

    /// The settings of a run in a configuration, as the run reads them from its arguments.
    fn run_settings(configuration: &Configuration, arguments: &[&str]) -> RunSettings {
        let suite = Arguments::parse_from(["peers", "--quick"].iter().chain(arguments).copied()).settings;
        let mut command = command(&suite, configuration, Path::new("peers"), Path::new("results"));
        command.args(["--engine", "esker"]);
        RunArguments::parse_from(command.get_args()).settings
    }

    #[test]
    fn runs_understand_every_configuration_and_take_the_threads_of_the_suite() {
        for configuration in CONFIGURATIONS {
            let settings = run_settings(configuration, &[]);
            settings.check().unwrap();
            assert_eq!(settings.threads, configuration.threads);
            assert_eq!(
                (settings.keys, settings.values, settings.log, settings.ascending),
                (configuration.keys, configuration.values, configuration.is_log, configuration.is_ascending)
            );
            assert_eq!(settings.memory_limit_mib, configuration.memory_limit_mib);
            assert_eq!(run_settings(configuration, &["--threads", "1,2,4"]).threads, [1, 2, 4]);
        }
    }

    /// As README.md states.
    #[test]
    fn the_cache_of_other_shapes_is_an_eighth_of_their_records() {
        for name in ["kilobyte", "page", "text", "log"] {
            let configuration =
                CONFIGURATIONS.iter().find(|configuration| configuration.name == name).unwrap();
            let settings = run_settings(configuration, &[]);
            let data = settings.data();
            let record_bytes = data.mean_key_bytes(settings.records) + data.mean_value_bytes();
            let eighth_mib = (settings.records * record_bytes as u64 / 8) as f64 / f64::from(1 << 20);
            let cache_mib = settings.cache_mib as f64;
            println!("{name}: {record_bytes} bytes, an eighth is {eighth_mib:.1} MiB");
            assert!((eighth_mib - cache_mib).abs() < 0.03 * cache_mib, "{name}: {eighth_mib:.1} MiB");
        }
    }

    /// As README.md states.
    #[test]
    fn beyond_memory_has_ten_times_its_limit_and_half_of_it_as_budget() {
        let configuration =
            CONFIGURATIONS.iter().find(|configuration| configuration.name == "beyond-memory").unwrap();
        let settings = run_settings(configuration, &[]);
        let data = settings.data();
        let record_bytes = data.mean_key_bytes(settings.records) + data.mean_value_bytes();
        let mib = (settings.records * record_bytes as u64) >> 20;
        println!("{record_bytes} bytes a record, {mib} MiB");
        assert!(mib >= 10 * settings.memory_limit_mib, "{mib} MiB");
        assert_eq!(settings.cache_mib + settings.memtable_mib, settings.memory_limit_mib / 2);
    }

    #[test]
    fn a_directory_of_other_results_is_refused_and_a_run_with_errors_is_made_again() {
        let out = std::env::temp_dir().join(format!("peers-suite-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        let settings = |arguments: &[&str]| {
            Arguments::parse_from(["peers", "--quick"].iter().chain(arguments).copied()).settings
        };
        refuse_another(&out, &settings(&[])).unwrap();
        refuse_another(&out, &settings(&["--rounds", "5"])).unwrap();
        let error = refuse_another(&out, &settings(&["--only", "get"])).unwrap_err().to_string();
        assert!(error.contains("only [get]") && error.contains("--out"), "{error}");
        let error = refuse_another(&out, &settings(&["--threads", "1,4"])).unwrap_err().to_string();
        assert!(error.contains("threads [1,4]"), "{error}");
        for (round, errors) in [(1, 0), (2, 7)] {
            let workload = RUN_ENDED.to_owned();
            let record = Record { workload, round, errors, ..Record::default() };
            record.write(Some(&out.join(RECORDS_FILE))).unwrap();
        }
        let rounds: Vec<u32> = ended(&out).unwrap().into_iter().map(|(_, round, _)| round).collect();
        std::fs::remove_dir_all(&out).unwrap();
        assert_eq!(rounds, [1]);
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_795_305_600, "2026-11-22"),
            (1_798_761_599, "2026-12-31"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
