//! Loopback ports for processes that are told by number where to listen.
//!
//! Invariant: no port is given twice by one test binary, and each lies below the range from which systems take ports
//! for connections and for listeners that do not care: nobody else takes it before its process does.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Linux takes its own choices from 32768 up, other systems from 49152 up.
const RANGE: Range<u16> = 10_000..32_000;
/// How many ports are tried before giving up.
const TRIES_MAX: usize = 200;

/// A port that nobody listens on and that nobody else was given.
///
/// # Errors
/// When there is none.
pub fn free() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES_MAX {
        let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
        let offset = u16::try_from(random % u64::from(RANGE.end - RANGE.start))?;
        let port = RANGE.start + offset;
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port in {TRIES_MAX} tries")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|port| RANGE.contains(port)), "{ports:?}");
    }
}
