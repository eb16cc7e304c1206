//! Which server to try next: the one after the last in the list, starting anywhere.
//!
//! Invariant: with two servers or more, the one just left is never the next one tried.

use std::sync::Mutex;
use std::time::Duration;

use async_nats::ServerAddr;

/// The longest wait between two attempts to connect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
/// The first wait; it doubles up to the longest.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);

/// Remembers the server tried last.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    last: Mutex<Option<String>>,
}

impl Ring {
    /// The server after the last one tried, or any when none was.
    pub(crate) fn next(&self, pool: &[ServerAddr]) -> Option<ServerAddr> {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = last.as_ref().and_then(|last| pool.iter().position(|a| key(a) == *last));
        let index = match place {
            Some(place) => (place + 1) % pool.len().max(1),
            None => index_below(pool.len()),
        };
        let next = pool.get(index)?.clone();
        *last = Some(key(&next));
        Some(next)
    }
}

/// How long to wait before the given attempt: doubling, with jitter so that clients do not come
/// back as one.
pub(crate) fn reconnect_delay(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    jitter(RECONNECT_DELAY.saturating_mul(1 << doublings).min(RECONNECT_DELAY_MAX))
}

/// Between half of the duration and all of it.
pub(crate) fn jitter(duration: Duration) -> Duration {
    let share = uuid::Uuid::new_v4().as_u128() as u16;
    duration.mul_f64(0.5 + 0.5 * f64::from(share) / f64::from(u16::MAX))
}

fn index_below(len: usize) -> usize {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    usize::try_from(random).unwrap_or(0) % len.max(1)
}

fn key(addr: &ServerAddr) -> String {
    format!("{}:{}", addr.host(), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(names: &[&str]) -> Vec<ServerAddr> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn the_ring_visits_every_server_and_never_stays() {
        let pool = pool(&["a:1", "b:2", "c:3"]);
        let ring = Ring::default();
        let mut hosts: Vec<String> =
            (0..3).map(|_| ring.next(&pool).unwrap().host().to_owned()).collect();
        assert_ne!(ring.next(&pool).unwrap().host(), hosts[2]);
        hosts.sort();
        assert_eq!(hosts, ["a", "b", "c"]);
    }

    #[test]
    fn a_pool_that_changed_or_is_empty_is_no_problem() {
        let ring = Ring::default();
        assert!(ring.next(&[]).is_none());
        ring.next(&pool(&["a:1"])).unwrap();
        assert_eq!(ring.next(&pool(&["z:1"])).unwrap().host(), "z");
    }

    #[test]
    fn delays_grow_to_their_limit() {
        for (attempt, least, most) in [(0, 25, 50), (1, 25, 50), (3, 100, 200), (99, 1000, 2000)] {
            let delay = reconnect_delay(attempt).as_millis();
            assert!((least..=most).contains(&delay), "{attempt}: {delay}");
        }
    }
}
