//! Serves a directory:
//! `cargo run --release -p esker-redis-server --example serve_redis -- DIRECTORY PORT [DIRECTIVE VALUE]...`

use esker_redis_server::server::Server;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_store::Store;
use std::error::Error;
use std::net::SocketAddr;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("a directory is needed")?;
    let port = arguments.next().unwrap_or_else(|| "6379".to_owned()).parse()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = Server::new(Store::open(esker::Database::open(&directory)?, 16)?);
    server.set_checkpoint_directory(format!("{directory}-checkpoints"));
    server.load_settings()?;
    let mut users: Vec<Vec<String>> = Vec::new();
    while let Some(directive) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{directive} needs a value"))?;
        match directive.as_str() {
            "user" => users.push(value.split_whitespace().map(str::to_owned).collect()),
            _ => server.set_directive(directive.as_bytes(), value.as_bytes())?,
        }
    }
    if !users.is_empty() {
        server.declare_users(&users).map_err(|(line, reason)| format!("user {}: {reason}", line + 1))?;
    }
    server.load_user_file()?;
    let config = ListenConfig { tcp: vec![address.into()], ..ListenConfig::default() };
    Ok(Listener::bind(config)?.serve(&server)?)
}
