//! A tour of the library: the cities of the world, loaded and asked. Run it with `cargo run --example tour`.

// What a program outside of the store does, so it may read files and print.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a user's program")]

use esker::{Database, Keyspace, Result};
use std::error::Error;
use std::fs;
use std::path::Path;

/// One `key, tab, value` a line; the key is `COUNTRY/NAME/ID`, the value a JSON object.
const CITIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/cities.tsv");

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("esker-tour-{}", std::process::id()));
    let toured = tour(&directory);
    fs::remove_dir_all(&directory).ok();
    toured
}

fn tour(directory: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let lines = fs::read_to_string(CITIES)?;
    let db = Database::open(directory)?;
    let cities = db.keyspace("cities")?;
    let by_population = db.keyspace("by population")?;

    headline("Load, with an index: a batch is atomic, over keyspaces too");
    let count = load(&db, &cities, &by_population, &lines)?;
    println!("{count} cities in {}", directory.display());

    headline("Get");
    let berlin = cities.get("DE/Berlin/2950159")?.ok_or("there is no Berlin")?;
    println!("Berlin: {}", text(&berlin));
    println!("Is there an Atlantis? {}", cities.contains("GR/Atlantis/1")?);

    headline("A prefix: all of Iceland");
    for entry in cities.prefix("IS/") {
        let (key, value) = entry?;
        println!("{:<30} {:>8}", text(&key), population(&value));
    }

    headline("A range from its end: the most populous, by the index");
    for entry in by_population.iter().rev().take(5) {
        let (key, city) = entry?;
        println!("{:<30} {:>8}", text(&city), population_of(&key));
    }

    headline("A cursor: hop from country to country");
    countries(&cities)?;

    headline("A snapshot: Iceland sinks, and is still there");
    sink_iceland(&db, &cities, &by_population)?;

    headline("Reopen: everything is still there");
    db.compact_all()?;
    db.close()?;
    let db = Database::open(directory)?;
    let cities = db.open_keyspace("cities")?;
    println!("{} cities; keyspaces {:?}", cities.iter().count(), db.keyspaces());
    for keyspace in db.metrics().keyspaces.iter().filter(|keyspace| keyspace.tables > 0) {
        let (tables, bytes) = (keyspace.tables, keyspace.table_bytes);
        println!("{}: {tables} table(s), {bytes} bytes on disk", keyspace.name);
    }
    println!("verified: {}", if db.verify()?.is_clean() { "clean" } else { "damaged" });
    db.close()?;
    Ok(())
}

/// Loads the lines, a thousand a batch, and keeps an index from population to city in step.
fn load(db: &Database, cities: &Keyspace, by_population: &Keyspace, lines: &str) -> Result<usize> {
    let mut batch = db.batch();
    let mut count = 0;
    for (city, facts) in lines.lines().filter_map(|line| line.split_once('\t')) {
        batch.put(cities, city, facts);
        batch.put(by_population, index_key(city.as_bytes(), facts.as_bytes()), city);
        count += 1;
        if batch.len() >= 2_000 {
            db.write_with(&batch, esker::Durability::Process)?;
            batch.clear();
        }
    }
    db.write(&batch)?;
    Ok(count)
}

/// Counts the cities of each country, and finds the next country with one seek.
fn countries(cities: &Keyspace) -> Result<()> {
    let mut cursor = cities.cursor()?;
    let mut sizes = Vec::new();
    cursor.seek_to_first()?;
    while let Some(key) = cursor.key() {
        let country = text(key).split('/').next().unwrap_or_default().to_owned();
        sizes.push((cities.prefix(format!("{country}/")).count(), country.clone()));
        // The character after '/' is '0': the first key behind all that begin with "DE/" is at or after
        // "DE0".
        cursor.seek(format!("{country}0"))?;
    }
    sizes.sort_unstable();
    let most: Vec<String> =
        sizes.iter().rev().take(5).map(|(count, name)| format!("{name} {count}")).collect();
    println!("{} countries; most cities: {}", sizes.len(), most.join(", "));
    Ok(())
}

/// Removes a country from both keyspaces at once, and looks at it before and after.
fn sink_iceland(db: &Database, cities: &Keyspace, by_population: &Keyspace) -> Result<()> {
    let before = db.snapshot();
    let mut batch = db.batch();
    for entry in cities.prefix("IS/") {
        let (city, facts) = entry?;
        batch.delete(by_population, index_key(&city, &facts));
        batch.delete(cities, city);
    }
    db.write(&batch)?;
    let now = cities.prefix("IS/").count();
    let then = cities.at(&before).prefix("IS/").count();
    println!("Icelandic cities now: {now}, in the snapshot: {then}");
    Ok(())
}

/// Population first, in the byte order of numbers, then the city so that equal populations stay apart.
fn index_key(city: &[u8], facts: &[u8]) -> Vec<u8> {
    [population(facts).to_be_bytes().as_slice(), city].concat()
}

fn population_of(index_key: &[u8]) -> u64 {
    index_key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The number behind `"population":` in a city's facts.
fn population(facts: &[u8]) -> u64 {
    let text = text(facts);
    let digits = text.split_once("\"population\":").and_then(|(_, rest)| rest.split([',', '}']).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("?")
}

fn headline(title: &str) {
    println!("\n== {title}");
}
