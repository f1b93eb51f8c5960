//! Addresses that nobody else uses: a server that picks a port of 127.0.0.1 before it is started, or comes back to one, may find
//! it taken meanwhile, by another test's server or as a client's end of a connection.

use std::net::TcpListener;

/// Linux answers to all of 127.0.0.0/8, and connections that are made there come from 127.0.0.1.
pub(crate) fn own_host() -> String {
    match cfg!(target_os = "linux") {
        true => {
            let [a, b, c] = std::array::from_fn(|_| rand::random_range(1..=254));
            format!("127.{a}.{b}.{c}")
        }
        false => "127.0.0.1".to_owned(),
    }
}

/// A port that is free there now.
pub(crate) fn free_port(host: &str) -> u16 {
    let listener = TcpListener::bind((host, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}
