//! The network: sockets, the threads that serve them, and the threads that may wait.
//!
//! A connection belongs to one I/O thread, which reads, executes and writes for it; nothing is handed over
//! as long as a command needs no device and no stall is to be waited for. What must wait goes to the slow
//! lane with its client's state and comes back with the replies.
//!
//! [`connection`] one client's state machine; [`io_thread`] the loop over its sockets; [`inbox`] messages
//! from other threads; [`slow_lane`] threads that may wait, and [`lane_queue`] what they do next; [`socket`]
//! what a client is reached by, and [`tls_socket`] the same with TLS; [`tcp_listener`] and [`unix_listener`]
//! bind; [`listener`] accepts and stops, and `rebind` moves it to other addresses.

pub(crate) mod connection;
pub(crate) mod inbox;
pub(crate) mod io_thread;
mod lane_queue;
pub(crate) mod listen_error;
pub(crate) mod listener;
mod rebind;
pub(crate) mod slow_lane;
pub(crate) mod socket;
pub(crate) mod tcp_listener;
pub(crate) mod tls_socket;
pub(crate) mod unix_listener;
