//! Loopback ports for servers that keep their port over a restart.
//!
//! Invariant: a chosen port lies below the range from which systems take the source ports of
//! outgoing connections. A client that reconnects while its server is down can neither take the
//! server's port nor connect to itself.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    net::TcpListener,
    ops::Range,
};

use crate::error::Error;

/// Linux takes source ports from 32768 up, other systems from 49152 up.
const RANGE: Range<u16> = 10_000..32_000;
/// How many ports are tried before giving up.
const TRIES_MAX: u32 = 200;

/// Chooses `count` different ports that nobody listens on now.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, Error> {
    let random = RandomState::new();
    let mut taken = HashSet::new();
    for attempt in 0..TRIES_MAX {
        let span = u64::from(RANGE.end - RANGE.start);
        let offset = u16::try_from(random.hash_one(attempt) % span).expect("the span is a u16");
        let port = RANGE.start + offset;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            taken.insert(port);
        }
        if taken.len() == count {
            return Ok(taken.into_iter().collect());
        }
    }
    Err(Error::NoFreePort { tries: TRIES_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_ports_differ_and_lie_below_the_source_ports() {
        let ports = free(6).unwrap();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), 6);
        assert!(ports.iter().all(|port| RANGE.contains(port)), "{ports:?}");
    }
}
