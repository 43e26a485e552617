//! A program that works on its database, and lets the command `esker` work on it as well.
//!
//! ```sh
//! cargo run -p esker-cli --example embedded /tmp/embedded &
//! esker stats --data /tmp/embedded
//! esker put --data /tmp/embedded stop now
//! ```

use esker::Database;
use esker_cli::ControlSocket;
use std::error::Error;
use std::time::Duration;

#[expect(clippy::disallowed_methods, reason = "the example has nothing to wait for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("name the directory of the database")?;
    let database = Database::open(directory)?;
    let control = ControlSocket::open(&database)?;
    let pairs = database.default_keyspace();
    let mut ticks = 0_u64;
    while pairs.get("stop")?.is_none() {
        ticks += 1;
        pairs.put("ticks", ticks.to_string())?;
        pause();
    }
    // The socket keeps the database open.
    drop(control);
    database.close()?;
    Ok(())
}
