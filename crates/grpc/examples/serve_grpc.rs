//! Serves a database by gRPC alone, without credentials, until its standard input ends. Prints the address.
//!
//! ```text
//! cargo run --release -p esker-grpc --example serve_grpc -- DIRECTORY
//! ```

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example prints, and waits in a thread"
)]

use esker::Database;
use esker_grpc::{Config, Listener, Open};
use std::error::Error;
use std::io::Read;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("name the directory of the database")?;
    let database = Database::open(directory)?;
    let listener = Listener::bind(Config { address: ([127, 0, 0, 1], 0).into(), ..Config::default() })?;
    println!("{}", listener.address()?);
    let stop = listener.stop();
    std::thread::spawn(move || {
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    listener.serve(&database, Arc::new(Open))?;
    database.close()?;
    Ok(())
}
